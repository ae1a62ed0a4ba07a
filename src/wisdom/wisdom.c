// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "core/status.h"
#include "wisdom/state.h"

void wisdom_logf(const wisdom *w, attn_log_level level, const char *format, ...) {
  char line[1024];
  va_list args;
  if (!w->log) return;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  w->log(w->log_user, level, line);
}

void wisdom_log_file(const wisdom *w, const attn_wisdom_file *f, const char *why) {
  if (f->state == ATTN_WISDOM_DAMAGED)
    wisdom_logf(w, ATTN_LOG_WARNING,
                "wisdom %s: %d of %d lines damaged or missing, the others were read", f->path,
                f->damaged, f->lines);
  if (f->state == ATTN_WISDOM_FUTURE)
    wisdom_logf(w, ATTN_LOG_WARNING, "wisdom %s: of a later format, not read and not overwritten",
                f->path);
  if (f->state == ATTN_WISDOM_FOREIGN)
    wisdom_logf(w, ATTN_LOG_WARNING, "wisdom %s: no wisdom file%s%s, not read and not overwritten",
                f->path, *why ? ": " : "", why);
  if (f->state == ATTN_WISDOM_UNREADABLE)
    wisdom_logf(w, ATTN_LOG_CALL, "wisdom %s: not read: %s", f->path, why);
  if (f->unknown)
    wisdom_logf(w, ATTN_LOG_WARNING, "wisdom %s: %d lines of an unknown kind skipped", f->path,
                f->unknown);
}

bool wisdom_applies(const wisdom *w, const wisdom_entry *e) {
  return (e->kind == WISDOM_TIME || e->kind == WISDOM_VALUE) && e->machine == w->machine &&
         e->version == w->version && (e->kind == WISDOM_VALUE || e->threads == w->threads);
}

int64_t wisdom_now(wisdom *w) {
  struct timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  int64_t now = (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
  w->clock = now > w->clock ? now : w->clock + 1;
  return w->clock;
}

/* ---- Making -------------------------------------------------------------------------------- */

static bool want_own(void *user, const wisdom_entry *e, int number) {
  wisdom *w = user;
  (void)number;
  bool applies = wisdom_applies(w, e);
  w->others += !applies && (e->kind == WISDOM_TIME || e->kind == WISDOM_VALUE);
  return applies;
}

/* What is read later overrides. */
static bool load(wisdom *w, const char *path, attn_wisdom_file *file) {
  wisdom_text text;
  char why[WISDOM_WHY] = "";
  if (!*path) return true;
  bool enough = wisdom_file_read(path, &w->allocator, &text, file, why);
  if (enough && file->state == ATTN_WISDOM_READ)
    enough = wisdom_text_read(&w->store, text.bytes, text.length, want_own, w, true, file);
  if (text.bytes) w->allocator.free(w->allocator.user, text.bytes);
  if (enough) wisdom_log_file(w, file, why);
  return enough;
}

static bool read_places(wisdom *w, const wisdom_places *places) {
  size_t size = strlen(places->own) + 1;
  w->make_folders = places->make_folders;
  if (size > 1) {
    w->path = w->allocator.alloc(w->allocator.user, size, 1);
    if (!w->path) return false;
    memcpy(w->path, places->own, size);
  }
  return load(w, places->system, &w->system) && load(w, places->own, &w->own);
}

attn_status wisdom_create(const wisdom_setup *setup, wisdom **out) {
  const core_allocator *a = setup->allocator;
  wisdom_places places;
  attn_status status = wisdom_places_find(setup->path, &places);
  if (status) return status;
  wisdom *w = a->alloc(a->user, sizeof(*w), alignof(wisdom));
  if (!w)
    return core_fail(ATTN_ERROR_MEMORY, "wisdom of %zu bytes could not be allocated", sizeof(*w));
  *w = (wisdom){
    .allocator = *a, .log = setup->log, .log_user = setup->log_user, .threads = setup->threads
  };
  w->machine = attn_wisdom_machine(setup->capability, w->description);
  wisdom_version_read(attn_version(), &w->version);
  pthread_mutex_init(&w->saving, NULL);
  pthread_mutex_init(&w->lock, NULL);
  wisdom_store_init(&w->store, &w->allocator);
  if (!read_places(w, &places)) {
    wisdom_destroy(w);
    return core_fail(ATTN_ERROR_MEMORY, "memory for wisdom could not be allocated");
  }
  *out = w;
  return ATTN_OK;
}

void wisdom_destroy(wisdom *w) {
  if (!w) return;
  core_allocator a = w->allocator;
  wisdom_store_free(&w->store);
  if (w->pending) a.free(a.user, w->pending);
  if (w->path) a.free(a.user, w->path);
  pthread_mutex_destroy(&w->saving);
  pthread_mutex_destroy(&w->lock);
  a.free(a.user, w);
}

/* ---- Times --------------------------------------------------------------------------------- */

void wisdom_record(wisdom *w, const attn_problem *problem, const char *implementation,
                   double seconds) {
  pthread_mutex_lock(&w->lock);
  if (!w->pending)
    w->pending = w->allocator.alloc(w->allocator.user, WISDOM_PENDING * sizeof(*w->pending),
                                    alignof(wisdom_pending));
  if (w->pending) {
    bool full = w->pending_count == WISDOM_PENDING;
    wisdom_pending *p = &w->pending[(w->pending_first + w->pending_count) % WISDOM_PENDING];
    p->problem = *problem, p->seconds = seconds, p->when = wisdom_now(w);
    snprintf(p->implementation, sizeof(p->implementation), "%s", implementation);
    if (full)
      w->pending_first = (w->pending_first + 1) % WISDOM_PENDING;
    else
      w->pending_count++;
    w->generation++;
  }
  pthread_mutex_unlock(&w->lock);
}

bool wisdom_settle(wisdom *w) {
  char shape[WISDOM_LINE];
  if (!w->pending_count) return true;
  for (; w->pending_count; w->pending_count--) {
    const wisdom_pending *p = &w->pending[w->pending_first];
    int length = attn_problem_format(&p->problem, shape, sizeof(shape));
    wisdom_entry e = { .kind = WISDOM_TIME,
                       .fresh = true,
                       .threads = w->threads,
                       .version = w->version,
                       .machine = w->machine,
                       .when = p->when,
                       .number = p->seconds,
                       .subject = p->implementation,
                       .text = shape };
    bool fits = length > 0 && length < WISDOM_LINE - ATTN_WISDOM_NAME - 128;
    if (fits && !wisdom_store_add(&w->store, &e, false)) return false;
    w->pending_first = (w->pending_first + 1) % WISDOM_PENDING;
  }
  return wisdom_store_trim(&w->store, w->machine);
}

static bool no_own_time(void *user, const wisdom_entry *e, int number) {
  (void)number;
  return e->kind != WISDOM_TIME || !wisdom_applies(user, e);
}

void wisdom_clear_times(wisdom *w) {
  pthread_mutex_lock(&w->lock);
  w->pending_count = 0;
  wisdom_store_filter(&w->store, no_own_time, w);
  w->generation++;
  pthread_mutex_unlock(&w->lock);
}

static int by_time(const void *left, const void *right) {
  const wisdom_entry *a = *(const wisdom_entry *const *)left;
  const wisdom_entry *b = *(const wisdom_entry *const *)right;
  return (a->when > b->when) - (a->when < b->when);
}

attn_status wisdom_each_time(wisdom *w, int most, wisdom_visit_time visit, void *user) {
  const core_allocator *a = &w->allocator;
  pthread_mutex_lock(&w->lock);
  bool enough = wisdom_settle(w);
  int count = 0;
  const wisdom_entry **order =
      a->alloc(a->user, ((size_t)w->store.count + 1) * sizeof(*order), alignof(wisdom_entry *));
  if (order) {
    for (int i = 0; i < w->store.count; i++) {
      const wisdom_entry *e = &w->store.entries[i];
      if (e->kind == WISDOM_TIME && wisdom_applies(w, e)) order[count++] = e;
    }
    if (count) qsort(order, (size_t)count, sizeof(*order), by_time);
    visit(user, NULL, NULL, 0);
    for (int i = count > most ? count - most : 0; i < count; i++)
      visit(user, order[i]->text, order[i]->subject, order[i]->number);
    a->free(a->user, order);
  }
  pthread_mutex_unlock(&w->lock);
  return enough && order ? ATTN_OK
                         : core_fail(ATTN_ERROR_MEMORY, "memory for wisdom could not be allocated");
}

/* ---- Values -------------------------------------------------------------------------------- */

bool wisdom_value(wisdom *w, const char *subject, const char *key, double *value) {
  pthread_mutex_lock(&w->lock);
  const wisdom_entry *e = wisdom_store_value(&w->store, w->machine, w->version, subject, key);
  if (e) *value = e->number;
  pthread_mutex_unlock(&w->lock);
  return e != NULL;
}

attn_status wisdom_set_value(wisdom *w, const char *subject, const char *key, double value) {
  if (!subject || !wisdom_name_ok(subject))
    return core_fail(ATTN_ERROR_VALUE,
                     "subject of value \"%.80s\" is no name of 1 to %d characters",
                     subject ? subject : "", ATTN_WISDOM_NAME - 1);
  if (!key || !wisdom_name_ok(key))
    return core_fail(ATTN_ERROR_VALUE, "key of value \"%.80s\" is no name of 1 to %d characters",
                     key ? key : "", ATTN_WISDOM_NAME - 1);
  if (!isfinite(value))
    return core_fail(ATTN_ERROR_VALUE, "value of value (%g) is not finite", value);
  pthread_mutex_lock(&w->lock);
  wisdom_entry e = { .kind = WISDOM_VALUE,
                     .fresh = true,
                     .version = w->version,
                     .machine = w->machine,
                     .when = wisdom_now(w),
                     .number = value,
                     .subject = subject,
                     .text = key };
  bool enough = wisdom_store_add(&w->store, &e, true);
  w->generation++;
  pthread_mutex_unlock(&w->lock);
  return enough ? ATTN_OK
                : core_fail(ATTN_ERROR_MEMORY, "memory for wisdom could not be allocated");
}

void wisdom_each_value(wisdom *w, wisdom_visit_value visit, void *user) {
  pthread_mutex_lock(&w->lock);
  for (int i = 0; i < w->store.count; i++) {
    const wisdom_entry *e = &w->store.entries[i];
    if (e->kind == WISDOM_VALUE && wisdom_applies(w, e))
      visit(user, e->subject, e->text, e->number);
  }
  pthread_mutex_unlock(&w->lock);
}

void wisdom_statistics(wisdom *w, attn_wisdom_stats *stats) {
  *stats = (attn_wisdom_stats){ .machine = w->machine, .system = w->system, .own = w->own };
  memcpy(stats->description, w->description, sizeof(stats->description));
  pthread_mutex_lock(&w->lock);
  stats->generation = w->generation;
  stats->times = stats->unsaved = w->pending_count;
  stats->others = w->others;
  for (int i = 0; i < w->store.count; i++) {
    const wisdom_entry *e = &w->store.entries[i];
    stats->unsaved += e->fresh;
    if (!wisdom_applies(w, e))
      stats->others += e->kind == WISDOM_TIME || e->kind == WISDOM_VALUE;
    else if (e->kind == WISDOM_TIME)
      stats->times++;
    else
      stats->values++;
  }
  pthread_mutex_unlock(&w->lock);
}
