// SPDX-License-Identifier: Apache-2.0
/* Memory-efficient attention on the CPU: the same online softmax with one tile of queries an item,
 * which asks for the least workspace and streams the keys once a tile. */
#include "backend/cpu_constraints.h"
#include "engine/schedule.h"

static const backend_constraint rows[] = { CPU_ROW_F64, CPU_ROW_WEIGHTS, CPU_ROW_VARLEN };

static void supports(const backend_query *query, backend_reasons *reasons) {
  CPU_CHECK(rows, query, reasons);
}

static engine_schedule schedule(const backend_query *query) {
  engine_cut cut = { .max_tiles = 1, .workers = query->threads, .splits = 1 };
  return engine_schedule_make(query, &cut);
}

static void estimate(const backend_query *query, backend_cost *cost) {
  engine_schedule s = schedule(query);
  engine_schedule_estimate(query, &s, cost);
}

static void plan(const backend_query *query, backend_plan *out) {
  engine_schedule s = schedule(query);
  engine_plan_store(query, &s, engine_schedule_workspace(query->problem, &s), out);
}

const backend_implementation memory_efficient_cpu = {
  .device = ATTN_DEVICE_CPU,
  .name = "memory_efficient/cpu",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
  .plan = plan,
  .execute = engine_schedule_execute,
};
