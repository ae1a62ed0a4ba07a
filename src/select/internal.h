// SPDX-License-Identifier: Apache-2.0
#ifndef SELECT_INTERNAL_H
#define SELECT_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "select/select.h"

enum { HISTORY_CAPACITY = SELECT_HISTORY, CACHE_CAPACITY = 512 };

/* ---- cost.c: what a backend_cost takes on a capability */

typedef struct cost_price {
  double time;  /* seconds; NAN where the capability lacks a fact */
  double units; /* compute units it keeps busy; 1 where their number is not known */
  double overhead, arithmetic, memory; /* parts of the time; the larger of the last two counts */
} cost_price;
cost_price cost_of(const backend_cost *cost, const backend_query *query);

/* What the objective minimises: seconds, device-seconds, or their geometric mean. */
double cost_score(attn_objective objective, double time, double units, double all_units);

/* Standard deviation of the logarithm of (true time / expected time). */
double cost_sigma(attn_choice_source source);

/* ---- history.c: the latest records, oldest forgotten first. Adding takes constant time, a lookup
 * follows the records of one problem and implementation. Not thread-safe. */

/* 128 bits for a problem key: different problems do not meet in practice. */
typedef struct history_key {
  uint64_t high, low;
} history_key;
history_key history_key_of(const problem_key *key);

typedef struct history history;
history *history_create(const core_allocator *allocator);
void history_destroy(history *h, const core_allocator *allocator);
void history_add(history *h, history_key key, const backend_implementation *implementation,
                 double seconds);
int history_count(const history *h);
void history_clear(history *h);
/* Median of the agreeing records of the implementation on the problem; false when fewer than three
 * agree, or fewer than half of them. */
bool history_lookup(const history *h, history_key key, const backend_implementation *implementation,
                    double *seconds);

/* ---- cache.c: bounded; any number of threads read it without a lock */

/* Every field of a problem as the caller wrote it, then the generation of the history. */
enum { CACHE_KEY_WORDS = 49 };
typedef struct cache_key {
  uint64_t words[CACHE_KEY_WORDS];
  uint64_t hash;
} cache_key;

typedef struct cache cache;
cache *cache_create(const core_allocator *allocator);
void cache_destroy(cache *c, const core_allocator *allocator);
void cache_key_make(const attn_problem *problem, uint64_t generation, cache_key *key);
/* True on a hit. On a miss *rec holds nothing of use. */
bool cache_get(cache *c, const cache_key *key, attn_recommendation *rec);
void cache_put(cache *c, const cache_key *key, const attn_recommendation *rec);
void cache_clear(cache *c);
/* Entries of older generations do not count. */
attn_cache_stats cache_stats(cache *c, uint64_t generation);

/* ---- text.c: text into a bounded buffer, with '.' in numbers whatever the locale */

typedef struct text {
  char *buffer;
  size_t size, at; /* `at`: the length the whole text has */
} text;
void text_put(text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void text_number(text *t, double x); /* integers whole, others with as many digits as a float has */
void text_short(text *t, double x);  /* three significant digits */
void text_time(text *t, double seconds);
void text_bytes(text *t, double bytes);

/* ---- rank.c, explain.c */

/* One implementation under consideration. */
typedef struct candidate {
  attn_backend backend;
  const backend_implementation *implementation;
  char name[ATTN_IMPLEMENTATION_NAME];
  backend_cost cost;
  cost_price price;
  backend_reasons reasons;
  bool able;         /* nothing of its own keeps it from running the problem */
  double time;       /* expected seconds, measured ones where there are; NAN if unknown */
  double score_time; /* what the objective ranks by */
  attn_choice_source source;
} candidate;

typedef struct ranking {
  candidate candidates[ATTN_MAX_CANDIDATES];
  int count;
  candidate *order[ATTN_MAX_CANDIDATES]; /* those that may be chosen, best first */
  int order_count;
  candidate *winner, *math;
  const candidate *preferred; /* of the configuration, NULL if it names none */
} ranking;

attn_status rank_problem(select_state *state, const backend_query *query, history_key key,
                         attn_recommendation *rec);

void explain_choice(const backend_query *query, const ranking *r, attn_recommendation *rec);
/* "name: reason; reason"; at most `most` reasons. */
void explain_rejection(text *t, const candidate *c, int most);

/* An implementation's name here: on the CPU the level of the kernels is part of it. */
void select_name(const backend_implementation *implementation, const attn_capability *capability,
                 const struct kernel_table *kernels, char name[ATTN_IMPLEMENTATION_NAME]);

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
