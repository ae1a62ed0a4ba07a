// SPDX-License-Identifier: Apache-2.0
#ifndef SELECT_INTERNAL_H
#define SELECT_INTERNAL_H

#include <pthread.h>

#include "select/select.h"

enum { HISTORY_CAPACITY = 1000, CACHE_CAPACITY = 512 };

/* One implementation under consideration. */
typedef struct candidate {
  attn_backend backend;
  const backend_implementation *implementation;
  char name[ATTN_IMPLEMENTATION_NAME];
  backend_cost cost;
  backend_reasons reasons;
  double time;        /* seconds; NAN if unknown */
  double score_time;  /* what the objective ranks by */
  attn_choice_source source;
} candidate;

/* ---- cost.c */

/* Seconds of a cost on the capability, from facts; NAN where one is missing. *units receives how many
 * compute units it keeps busy. */
double cost_seconds(const backend_cost *cost, const backend_query *query, double *units);
/* Relative standard deviation (of the logarithm) of a time by its source: what confidence rests on. */
double cost_sigma(attn_choice_source source);

/* ---- history.c: the latest records, oldest forgotten first */

typedef struct history history;
history *history_create(const core_allocator *allocator);
void history_destroy(history *h, const core_allocator *allocator);
void history_add(history *h, const problem_key *key, const char *name, double seconds);
int history_count(const history *h);
void history_clear(history *h);
/* Median of the agreeing records of `name` on the problem; false when there are fewer than three. */
bool history_lookup(const history *h, const problem_key *key, const char *name, double *seconds);

/* ---- cache.c: bounded, direct-mapped by hash; safe under any number of threads */

typedef struct cache cache;
cache *cache_create(const core_allocator *allocator);
void cache_destroy(cache *c, const core_allocator *allocator);
bool cache_get(cache *c, const problem_key *key, uint64_t generation, attn_recommendation *rec,
               attn_status *status);
void cache_put(cache *c, const problem_key *key, uint64_t generation, const attn_recommendation *rec,
               attn_status status);
void cache_clear(cache *c);
attn_cache_stats cache_stats(cache *c);

/* ---- explain.c */

void explain_choice(const backend_query *query, const candidate *winner, const candidate *second,
                    const candidate *math, const candidate *preferred, attn_recommendation *rec);
/* "name: reason; reason" for an error message. */
int explain_rejection(const candidate *c, char *buffer, size_t size);

/* ---- rank.c */

typedef struct ranking {
  candidate candidates[ATTN_MAX_CANDIDATES];
  int count;
} ranking;

attn_status rank_problem(select_state *state, const backend_query *query, const problem_key *key,
                         attn_recommendation *rec);

struct select_state {
  const attn_config *config;
  const attn_capability *capability;
  const struct kernel_table *kernels;
  int threads;
  core_allocator allocator;
  cache *cache;
  pthread_mutex_t lock; /* of the history */
  history *history;
  _Atomic uint64_t generation; /* of the history: an answer is valid for one */
};

#endif
