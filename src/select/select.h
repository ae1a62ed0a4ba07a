// SPDX-License-Identifier: Apache-2.0
/* Choosing: constraints, cost, measurements, rank, reasons. One state per context, thread-safe. */
#ifndef SELECT_SELECT_H
#define SELECT_SELECT_H

#include "attn/select.h"
#include "backend/backend.h"
#include "core/alloc.h"

typedef struct select_state select_state;

enum { SELECT_HISTORY = 1000 }; /* records that are kept */

/* `config` and `capability` must outlive the state. `kernels` NULL unless the device is a CPU. */
attn_status select_state_create(const attn_config *config, const attn_capability *capability,
                                const struct kernel_table *kernels, int threads,
                                const core_allocator *allocator, select_state **state);
void select_state_destroy(select_state *state);

/* As attn_select; `fresh` (may be NULL) tells whether the answer was not in the cache. */
attn_status select_run(select_state *state, const attn_problem *problem, attn_recommendation *rec,
                       bool *fresh);
/* Fills *rec for the named implementation (find: full name, or a backend's) as if the configuration
 * preferred it strictly; not cached. */
attn_status select_run_named(select_state *state, const attn_problem *resolved,
                             const char *implementation, attn_recommendation *rec);
/* The implementation that a recommendation names; NULL if none. */
const backend_implementation *select_find(const select_state *state,
                                          const attn_recommendation *rec);

attn_status select_record(select_state *state, const attn_problem *problem,
                          const char *implementation, double seconds);
/* Whether that implementation is on the device; `name` (may be NULL) receives its full name. */
bool select_full_name(const select_state *state, const char *implementation,
                      char name[ATTN_IMPLEMENTATION_NAME]);
int select_record_count(select_state *state);
void select_record_clear(select_state *state);
void select_cache_clear(select_state *state);
attn_cache_stats select_cache_stats(select_state *state);

#endif
