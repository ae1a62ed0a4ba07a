// SPDX-License-Identifier: Apache-2.0
/* The small-problem path: the calling thread alone, no fork, no packing. */
#include "backend/cpu_constraints.h"
#include "engine/schedule.h"

static const backend_constraint rows[] = { CPU_ROW_F64, CPU_ROW_WEIGHTS, CPU_ROW_VARLEN };

static void supports(const backend_query *query, backend_reasons *reasons) {
  CPU_CHECK(rows, query, reasons);
}

static engine_schedule schedule(const backend_query *query) {
  return engine_schedule_make(query, &(engine_cut){ .workers = 1, .splits = 1 });
}

static void estimate(const backend_query *query, backend_cost *cost) {
  engine_schedule s = schedule(query);
  engine_schedule_estimate(query, &s, cost);
  cost->items = 1; // one thread whatever there is to do
}

static void plan(const backend_query *query, backend_plan *out) {
  engine_schedule s = schedule(query);
  engine_plan_store(query, &s, engine_schedule_workspace(query->problem, &s), out);
}

const backend_implementation cpu_cpu = {
  .device = ATTN_DEVICE_CPU,
  .name = "cpu/cpu",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
  .plan = plan,
  .execute = engine_schedule_execute,
};
