// SPDX-License-Identifier: Apache-2.0
#include "api/context.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "hardware/internal.h"

enum { MAX_THREADS = 4096 };

void context_log(const attn_context *context, attn_log_level level, const char *format, ...) {
  bool wanted = level == ATTN_LOG_WARNING || (int)level <= context->verbose;
  if (!context->config.log && !(wanted && context->verbose > 0)) return;
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (context->config.log) context->config.log(context->config.log_user, level, line);
  else fprintf(stderr, "attn: %s\n", line); // the user asked by ATTN_VERBOSE, the host gave no sink
}

static attn_status read_number(const char *name, int limit, int *out) {
  const char *text = getenv(name);
  char *end;
  if (!text || !*text) return ATTN_OK;
  errno = 0;
  long n = strtol(text, &end, 10);
  if (*end || errno || n < 0 || n > limit)
    return core_fail(ATTN_ERROR_VALUE, "environment variable %s of value \"%s\" is no number in [0, %d]",
                     name, text, limit);
  *out = (int)n;
  return ATTN_OK;
}

/* Fills fields that the caller left at their default. */
static attn_status read_environment(attn_context *c) {
  attn_status status = read_number("ATTN_VERBOSE", 2, &c->verbose);
  int threads = 0;
  const char *text;
  if (!status) status = read_number("ATTN_NUM_THREADS", MAX_THREADS, &threads);
  if (!status && !c->config.threads) c->config.threads = threads;
  if (!status && (text = getenv("ATTN_BACKEND")) && *text && !c->config.preferred &&
      attn_backend_from_name(text, &c->config.preferred))
    return core_fail(ATTN_ERROR_VALUE, "environment variable ATTN_BACKEND: no backend \"%s\"", text);
  if (!status && (text = getenv("ATTN_ISA")) && *text && !c->config.isa &&
      attn_isa_from_name(text, &c->config.isa))
    return core_fail(ATTN_ERROR_VALUE, "environment variable ATTN_ISA: no ISA level \"%s\"", text);
  if (!status && !c->config.wisdom_path && (text = getenv("ATTN_WISDOM")))
    c->config.wisdom_path = text;
  return status;
}

/* The caller's text, or the environment's, need not last. */
static attn_status keep_wisdom_path(attn_context *c) {
  const char *path = c->config.wisdom_path;
  if (!path) return ATTN_OK;
  size_t size = strlen(path) + 1;
  c->config.wisdom_path = NULL;
  c->wisdom_path = c->allocator.alloc(c->allocator.user, size, 1);
  if (!c->wisdom_path) return core_fail(ATTN_ERROR_MEMORY, "config.wisdom_path could not be copied");
  c->config.wisdom_path = memcpy(c->wisdom_path, path, size);
  return ATTN_OK;
}

static attn_status check_config(const attn_config *c) {
  if (c->threads < 0 || c->threads > MAX_THREADS)
    return core_fail(ATTN_ERROR_VALUE, "config.threads of value (%d) is not in [0, %d]", c->threads,
                     MAX_THREADS);
  if ((unsigned)c->preferred >= ATTN_BACKEND_COUNT)
    return core_fail(ATTN_ERROR_VALUE, "config.preferred of value (%d) is no backend", c->preferred);
  if (c->disabled >> ATTN_BACKEND_COUNT || (c->disabled & 1u))
    return core_fail(ATTN_ERROR_VALUE, "config.disabled of value (0x%x) has bits of no backend",
                     c->disabled);
  if ((unsigned)c->objective >= ATTN_OBJECTIVE_COUNT)
    return core_fail(ATTN_ERROR_VALUE, "config.objective of value (%d) is unknown", c->objective);
  if ((unsigned)c->autotune >= ATTN_AUTOTUNE_COUNT)
    return core_fail(ATTN_ERROR_VALUE, "config.autotune of value (%d) is unknown", c->autotune);
  if ((unsigned)c->wisdom >= ATTN_WISDOM_USE_COUNT)
    return core_fail(ATTN_ERROR_VALUE, "config.wisdom of value (%d) is unknown", c->wisdom);
  if ((unsigned)c->isa >= ATTN_ISA_COUNT)
    return core_fail(ATTN_ERROR_VALUE, "config.isa of value (%d) is no ISA level", c->isa);
  if (c->memory_budget < 0)
    return core_fail(ATTN_ERROR_VALUE, "config.memory_budget of value (%lld) is negative",
                     (long long)c->memory_budget);
  if (c->flash_min_seq_len < 0)
    return core_fail(ATTN_ERROR_VALUE, "config.flash_min_seq_len of value (%lld) is negative",
                     (long long)c->flash_min_seq_len);
  if (!c->allocator.alloc != !c->allocator.free)
    return core_fail(ATTN_ERROR_NULL, "config.allocator needs both alloc and free, or neither");
  return ATTN_OK;
}

static attn_status find_hardware(attn_context *c) {
  if (c->config.capability) {
    c->capability = *c->config.capability;
    if (c->capability.compute_units < 0 || !(c->capability.bandwidth >= 0) ||
        !(c->capability.peak_f32 >= 0) || c->capability.memory_total < 0 ||
        (unsigned)c->capability.isa >= ATTN_ISA_COUNT)
      return core_fail(ATTN_ERROR_VALUE, "config.capability has a negative number, NaN or unknown isa");
    if ((unsigned)c->capability.device >= ATTN_DEVICE_TYPE_COUNT)
      return core_fail(ATTN_ERROR_VALUE, "config.capability.device of value (%d) is no device type",
                       c->capability.device);
  } else {
    hardware_cpu_detect(&c->capability); // drivers of other devices are not woken for it
    if (!c->config.no_measure) attn_hardware_measure(&c->capability);
  }
  bool here = c->capability.device == ATTN_DEVICE_CPU && !c->config.capability;
  c->kernels = here ? kernel_best(c->config.isa) : kernel_described(c->capability.isa);
  c->threads = c->config.threads;
  if (!c->threads)
    c->threads = here ? threads_usable_cores()
                      : c->capability.compute_units > 0 ? c->capability.compute_units : 1;
  return ATTN_OK;
}

attn_status attn_context_create(const attn_config *config, attn_context **context) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  attn_config effective = config ? *config : (attn_config){ 0 };
  attn_status status = check_config(&effective);
  if (status) return status;
  core_allocator allocator = core_allocator_default();
  if (effective.allocator.alloc)
    allocator = (core_allocator){ effective.allocator.alloc, effective.allocator.free,
                                  effective.allocator.user };
  attn_context *c = allocator.alloc(allocator.user, sizeof(*c), _Alignof(attn_context));
  if (!c) return core_fail(ATTN_ERROR_MEMORY, "a context of %zu bytes could not be allocated", sizeof(*c));
  *c = (attn_context){ .config = effective, .allocator = allocator };
  if (!effective.ignore_environment) status = read_environment(c);
  if (!status) status = keep_wisdom_path(c);
  if (!status) status = find_hardware(c);
  if (!status && !effective.parallel_for && !effective.capability) {
    c->pool = threads_pool_create(c->threads, &c->allocator);
    if (!c->pool) status = core_fail(ATTN_ERROR_MEMORY, "the thread pool could not be allocated");
  }
  if (c->config.capability) c->config.capability = &c->capability;
  if (!status)
    status = select_state_create(&c->config, &c->capability, c->kernels, c->threads, &c->allocator,
                                 &c->select);
  if (!status) status = context_wisdom_load(c);
  if (status) {
    attn_context_destroy(c);
    return status;
  }
  *context = c;
  return ATTN_OK;
}

void attn_context_destroy(attn_context *context) {
  if (!context) return;
  core_allocator allocator = context->allocator;
  context_wisdom_close(context);
  if (context->wisdom_path) allocator.free(allocator.user, context->wisdom_path);
  if (context->select) select_state_destroy(context->select);
  if (context->pool) threads_pool_destroy(context->pool);
  allocator.free(allocator.user, context);
}

static attn_context *global;
static attn_status global_status;
static char global_error[256];
static pthread_once_t global_once = PTHREAD_ONCE_INIT;

static void make_global(void) {
  global_status = attn_context_create(NULL, &global);
  if (global_status) snprintf(global_error, sizeof(global_error), "%s", attn_last_error());
}

attn_context *attn_default_context(void) {
  pthread_once(&global_once, make_global);
  if (global_status) core_fail(global_status, "%s", global_error);
  return global;
}

const attn_config *attn_context_config(const attn_context *context) {
  return context ? &context->config : NULL;
}

const attn_capability *attn_context_capability(const attn_context *context) {
  return context ? &context->capability : NULL;
}
