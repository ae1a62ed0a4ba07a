// SPDX-License-Identifier: Apache-2.0
/* Flash decoding on the CPU: few queries over many keys. The keys are split so that every thread has
 * work, and the parts are merged by their maxima and sums. The number of splits follows from the
 * problem alone, so results do not depend on threads. */
#include "backend/cpu_constraints.h"
#include "core/size.h"
#include "engine/schedule.h"

enum {
  MAX_SEQ_Q = 16,    /* speculative decoding; more queries fill the threads without splits */
  TARGET_ITEMS = 64, /* enough for 16 threads to balance */
  MIN_SPLIT_KEYS = 512 /* a split's merge costs about as much as 4 keys */
};

static bool many_queries(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_q;
  *limit = MAX_SEQ_Q;
  return q->problem->seq_q > MAX_SEQ_Q;
}

static const backend_constraint rows[] = {
  CPU_ROW_F64,
  CPU_ROW_WEIGHTS,
  CPU_ROW_VARLEN,
  { ATTN_REASON_SEQ_Q_LARGE, many_queries },
  { ATTN_REASON_BATCH_INVARIANT, cpu_batch_invariant },
};

static void supports(const backend_query *query, backend_reasons *reasons) {
  CPU_CHECK(rows, query, reasons);
}

static engine_schedule schedule(const backend_query *query) {
  const attn_problem *p = query->problem;
  int64_t items = size_max(1, p->batch * p->heads_kv);
  int64_t splits = size_min(size_ceil_div(TARGET_ITEMS, items), p->seq_kv / MIN_SPLIT_KEYS);
  engine_cut cut = { .workers = query->threads, .splits = splits };
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

const backend_implementation flash_decode_cpu = {
  .device = ATTN_DEVICE_CPU,
  .name = "flash_decode/cpu",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
  .plan = plan,
  .execute = engine_schedule_execute,
};
