// SPDX-License-Identifier: Apache-2.0
#include "select/select.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/status.h"
#include "kernel/kernel.h"
#include "select/internal.h"

attn_status select_state_create(const attn_config *config, const attn_capability *capability,
                                const struct kernel_table *kernels, int threads,
                                const core_allocator *allocator, select_state **out) {
  select_state *s = allocator->alloc(allocator->user, sizeof(*s), _Alignof(select_state));
  if (!s) return core_fail(ATTN_ERROR_MEMORY, "the selector could not be allocated");
  memset(s, 0, sizeof(*s));
  s->config = config, s->capability = capability, s->kernels = kernels, s->threads = threads;
  s->allocator = *allocator;
  pthread_mutex_init(&s->lock, NULL);
  s->cache = cache_create(allocator);
  s->history = history_create(allocator);
  if (!s->cache || !s->history) {
    select_state_destroy(s);
    return core_fail(ATTN_ERROR_MEMORY, "the selector's cache could not be allocated");
  }
  *out = s;
  return ATTN_OK;
}

void select_state_destroy(select_state *s) {
  cache_destroy(s->cache, &s->allocator);
  history_destroy(s->history, &s->allocator);
  pthread_mutex_destroy(&s->lock);
  s->allocator.free(s->allocator.user, s);
}

static backend_query query_of(const select_state *s, const attn_problem *resolved,
                              const attn_problem_size *size) {
  return (backend_query){ .problem = resolved,
                          .size = size,
                          .capability = s->capability,
                          .config = s->config,
                          .kernels = s->kernels,
                          .threads = s->threads };
}

attn_status select_run(select_state *s, const attn_problem *problem, attn_recommendation *rec,
                       bool *fresh) {
  attn_problem resolved;
  attn_problem_size size;
  problem_key key;
  cache_key question;
  // Loaded before the history is read: an answer never passes for newer than what it rests on.
  cache_key_make(problem, atomic_load_explicit(&s->generation, memory_order_acquire), &question);
  if (fresh) *fresh = false;
  if (cache_get(s->cache, &question, rec)) return ATTN_OK;
  attn_status status = attn_problem_resolve(problem, &resolved);
  if (!status) status = attn_problem_measure(&resolved, &size);
  if (status) return status;
  problem_key_make(&resolved, &key);
  backend_query query = query_of(s, &resolved, &size);
  status = rank_problem(s, &query, history_key_of(&key), rec);
  if (!status) cache_put(s->cache, &question, rec);
  if (fresh) *fresh = true;
  return status;
}

void select_name(const backend_implementation *implementation, const attn_capability *capability,
                 const struct kernel_table *kernels, char name[ATTN_IMPLEMENTATION_NAME]) {
  bool level =
      implementation->device == ATTN_DEVICE_CPU && capability->device == ATTN_DEVICE_CPU && kernels;
  snprintf(name, ATTN_IMPLEMENTATION_NAME, level ? "%s/%s" : "%s", implementation->name,
           level ? kernels->name : "");
}

/* The implementation on the state's device of that full name, or the first of that backend. */
static const backend_implementation *find_named(const select_state *s, const char *name,
                                                attn_backend *backend) {
  int count;
  const backend_family *const *families = backend_registry(&count);
  for (int f = 0; f < count; f++)
    for (int i = 0; i < families[f]->count; i++) {
      const backend_implementation *impl = families[f]->implementations[i];
      char full[ATTN_IMPLEMENTATION_NAME];
      if (impl->device != s->capability->device) continue;
      select_name(impl, s->capability, s->kernels, full);
      if (strcmp(name, full) && strcmp(name, attn_backend_name(families[f]->backend))) continue;
      *backend = families[f]->backend;
      return impl;
    }
  core_fail(ATTN_ERROR_NOT_FOUND, "no implementation \"%.60s\" on %s", name,
            attn_device_type_name(s->capability->device));
  return NULL;
}

const backend_implementation *select_find(const select_state *s, const attn_recommendation *rec) {
  attn_backend backend;
  return rec->backend ? find_named(s, rec->implementation, &backend) : NULL;
}

attn_status select_run_named(select_state *s, const attn_problem *resolved,
                             const char *implementation, attn_recommendation *rec) {
  attn_problem_size size;
  problem_key key;
  attn_config config = *s->config;
  attn_status status = attn_problem_measure(resolved, &size);
  if (status) return status;
  if (!find_named(s, implementation, &config.preferred)) return ATTN_ERROR_NOT_FOUND;
  config.strict = true;
  problem_key_make(resolved, &key);
  backend_query query = query_of(s, resolved, &size);
  query.config = &config;
  return rank_problem(s, &query, history_key_of(&key), rec);
}

bool select_full_name(const select_state *s, const char *implementation,
                      char name[ATTN_IMPLEMENTATION_NAME]) {
  attn_backend backend;
  const backend_implementation *impl = find_named(s, implementation, &backend);
  if (impl && name) select_name(impl, s->capability, s->kernels, name);
  return impl != NULL;
}

attn_status select_record(select_state *s, const attn_problem *problem, const char *implementation,
                          double seconds) {
  attn_problem resolved;
  problem_key key;
  attn_status status = attn_problem_resolve(problem, &resolved);
  if (status) return status;
  if (!implementation) return core_fail(ATTN_ERROR_NULL, "implementation is NULL");
  if (!(seconds > 0) || !isfinite(seconds))
    return core_fail(ATTN_ERROR_VALUE, "seconds of value (%g) is not a positive number", seconds);
  attn_backend backend;
  const backend_implementation *impl = find_named(s, implementation, &backend);
  if (!impl) return ATTN_ERROR_NOT_FOUND;
  problem_key_make(&resolved, &key);
  pthread_mutex_lock(&s->lock);
  history_add(s->history, history_key_of(&key), impl, seconds);
  pthread_mutex_unlock(&s->lock);
  atomic_fetch_add_explicit(&s->generation, 1, memory_order_release);
  return ATTN_OK;
}

int select_record_count(select_state *s) {
  pthread_mutex_lock(&s->lock);
  int n = history_count(s->history);
  pthread_mutex_unlock(&s->lock);
  return n;
}

void select_record_clear(select_state *s) {
  pthread_mutex_lock(&s->lock);
  history_clear(s->history);
  pthread_mutex_unlock(&s->lock);
  atomic_fetch_add_explicit(&s->generation, 1, memory_order_release);
}

void select_cache_clear(select_state *s) { cache_clear(s->cache); }

attn_cache_stats select_cache_stats(select_state *s) {
  return cache_stats(s->cache, atomic_load_explicit(&s->generation, memory_order_relaxed));
}
