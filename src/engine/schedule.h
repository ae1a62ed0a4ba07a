// SPDX-License-Identifier: Apache-2.0
/*
 * The schedule that the dense CPU backends share: items of rows (and, when split, of keys) over
 * workers. What differs between them is how they cut; see engine_cut.
 */
#ifndef ENGINE_SCHEDULE_H
#define ENGINE_SCHEDULE_H

#include "engine/engine.h"

typedef struct engine_cut {
  int max_tiles;      /* of an item; 0: engine_choose_tiles */
  int workers;        /* at most */
  int64_t splits;     /* over keys; must follow from the problem alone */
  bool f32;           /* no bf16 arithmetic */
} engine_cut;

typedef struct engine_schedule {
  engine_tiles tiles;
  int64_t rows;          /* flattened rows of one KV head */
  int64_t rows_per_item;
  int64_t blocks;        /* items of one KV head before splitting */
  int64_t splits, split_keys;
  int64_t scratch_bytes; /* of one worker */
  int workers;
} engine_schedule;

engine_schedule engine_schedule_make(const backend_query *query, const engine_cut *cut);
/* Workspace: partial sums, arrival counters, then a scratch a worker; KERNEL_ALIGN more so that any
 * pointer can be aligned. */
int64_t engine_schedule_workspace(const attn_problem *problem, const engine_schedule *schedule);
/* Fills a plan from a schedule, and gets it back. */
void engine_plan_store(const backend_query *query, const engine_schedule *schedule, int64_t workspace,
                       backend_plan *plan);
engine_schedule engine_plan_schedule(const backend_plan *plan);
void engine_schedule_execute(const backend_plan *plan, const attn_io *io, void *workspace,
                             const backend_parallel *parallel);

/* Prices a schedule by what it does (engine/work.h). */
void engine_schedule_estimate(const backend_query *query, const engine_schedule *schedule,
                              backend_cost *cost);

#endif
