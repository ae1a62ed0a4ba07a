// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "api/context.h"
#include "core/status.h"
#include "wisdom/wisdom.h"

static void log_line(void *user, attn_log_level level, const char *message) {
  context_log(user, level, "%s", message);
}

static void feed_time(void *user, const char *shape, const char *implementation, double seconds) {
  attn_context *c = user;
  attn_problem problem;
  if (!shape) { // the first visit: what follows takes the place of what there was
    select_record_clear(c->select); // and with it every cached answer
    return;
  }
  if (select_full_name(c->select, implementation, NULL) && !attn_problem_parse(shape, &problem))
    select_record(c->select, &problem, implementation, seconds);
}

/* Hands what the wisdom knows to the selector, in place of what it had. */
static attn_status apply(attn_context *c) {
  char before[1024]; // entries that do not apply here are no failure of the caller's
  snprintf(before, sizeof(before), "%s", attn_last_error());
  attn_status status = wisdom_each_time(c->wisdom, SELECT_HISTORY, feed_time, c);
  if (!status && strcmp(before, attn_last_error())) core_fail(ATTN_OK, "%s", before);
  return status;
}

static bool known(const attn_wisdom_stats *s) { return s->times || s->values; }

attn_status context_wisdom_load(attn_context *c) {
  const char *path = c->config.wisdom_path;
  if (c->config.wisdom == ATTN_WISDOM_OFF) return ATTN_OK;
  wisdom_setup setup = { .path = path,
                         .capability = &c->capability,
                         .threads = c->threads,
                         .allocator = &c->allocator,
                         .log = log_line,
                         .log_user = c };
  attn_wisdom_stats stats;
  attn_status status = wisdom_create(&setup, &c->wisdom);
  if (status) return status;
  wisdom_statistics(c->wisdom, &stats);
  return known(&stats) ? apply(c) : ATTN_OK;
}

void context_wisdom_close(attn_context *c) {
  attn_wisdom_stats stats;
  if (!c->wisdom) return;
  wisdom_statistics(c->wisdom, &stats);
  if (c->config.wisdom == ATTN_WISDOM_AUTOSAVE && stats.unsaved && wisdom_save(c->wisdom))
    context_log(c, ATTN_LOG_CALL, "%s", attn_last_error());
  wisdom_destroy(c->wisdom);
}

void context_wisdom_record(attn_context *c, const attn_problem *problem, const char *implementation,
                           double seconds) {
  char name[ATTN_IMPLEMENTATION_NAME];
  if (c->wisdom && select_full_name(c->select, implementation, name))
    wisdom_record(c->wisdom, problem, name, seconds);
}

static attn_status check(const attn_context *context) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  if (!context->wisdom)
    return core_fail(ATTN_ERROR_UNSUPPORTED, "the context is without wisdom (ATTN_WISDOM_OFF)");
  return ATTN_OK;
}

attn_status attn_wisdom_get(const attn_context *context, const char *subject, const char *key,
                            double *value) {
  attn_status status = check(context);
  if (status) return status;
  if (!subject || !key || !value)
    return core_fail(ATTN_ERROR_NULL, "%s is NULL", !subject ? "subject" : !key ? "key" : "value");
  if (wisdom_value(context->wisdom, subject, key, value)) return ATTN_OK;
  return core_fail(ATTN_ERROR_NOT_FOUND, "wisdom has no \"%.80s\" of \"%.80s\" for this machine",
                   key, subject);
}

attn_status attn_wisdom_set(attn_context *context, const char *subject, const char *key,
                            double value) {
  attn_status status = check(context);
  if (!status) status = wisdom_set_value(context->wisdom, subject, key, value);
  return status ? status : apply(context);
}

attn_status attn_wisdom_import(attn_context *context, const char *path, attn_wisdom_file *file) {
  attn_status status = check(context);
  if (!status && !path) status = core_fail(ATTN_ERROR_NULL, "path is NULL");
  if (!status) status = wisdom_import(context->wisdom, path, file);
  return status ? status : apply(context);
}

attn_status attn_wisdom_import_text(attn_context *context, const char *text, size_t length,
                                    attn_wisdom_file *file) {
  attn_status status = check(context);
  if (!status && !text && length) status = core_fail(ATTN_ERROR_NULL, "text is NULL");
  if (!status) status = wisdom_import_text(context->wisdom, text, length, file);
  return status ? status : apply(context);
}

attn_status attn_wisdom_export(attn_context *context, const char *path) {
  attn_status status = check(context);
  if (!status && !path) status = core_fail(ATTN_ERROR_NULL, "path is NULL");
  return status ? status : wisdom_export(context->wisdom, path);
}

attn_status attn_wisdom_export_text(attn_context *context, char **text, size_t *length) {
  attn_status status = check(context);
  if (!status && !text) status = core_fail(ATTN_ERROR_NULL, "text is NULL");
  return status ? status : wisdom_export_text(context->wisdom, text, length);
}

void attn_wisdom_free_text(attn_context *context, char *text) {
  if (context && text) context->allocator.free(context->allocator.user, text);
}

attn_status attn_wisdom_forget(attn_context *context, uint64_t machine,
                               const char *implementation) {
  attn_status status = check(context);
  if (!status) status = wisdom_forget(context->wisdom, machine, implementation);
  return status ? status : apply(context);
}

attn_status attn_wisdom_save(attn_context *context) {
  attn_status status = check(context);
  return status ? status : wisdom_save(context->wisdom);
}

attn_status attn_wisdom_statistics(const attn_context *context, attn_wisdom_stats *stats) {
  attn_status status = check(context);
  if (!status && !stats) status = core_fail(ATTN_ERROR_NULL, "stats is NULL");
  if (!status) wisdom_statistics(context->wisdom, stats);
  return status;
}
