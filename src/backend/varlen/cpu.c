// SPDX-License-Identifier: Apache-2.0
/* Packed sequences on the CPU: the work of every sequence in one list, longest sequences first, so
 * that time follows the sum of their own costs and the last item is short. */
#include "backend/cpu_constraints.h"

#include <string.h>

#include "core/size.h"
#include "engine/schedule.h"

static const backend_constraint rows[] = {
  CPU_ROW_F64, CPU_ROW_WEIGHTS, { ATTN_REASON_NOT_VARLEN, cpu_not_varlen }
};

static void supports(const backend_query *query, backend_reasons *reasons) {
  CPU_CHECK(rows, query, reasons);
}

static engine_schedule schedule(const backend_query *query) {
  return engine_schedule_make(query, &(engine_cut){ .workers = query->threads, .splits = 1 });
}

/* One entry a sequence: its index and how many items come before it. */
typedef struct entry {
  int64_t sequence, first_item;
  double cost;
} entry;

static int64_t table_bytes(const attn_problem *p) {
  return size_ceil_div((p->batch + 1) * (int64_t)sizeof(entry), KERNEL_ALIGN) * KERNEL_ALIGN;
}

static void estimate(const backend_query *query, backend_cost *cost) {
  engine_schedule s = schedule(query);
  engine_schedule_estimate(query, &s, cost);
  cost->workspace_bytes += table_bytes(query->problem);
}

static void plan(const backend_query *query, backend_plan *out) {
  engine_schedule s = schedule(query);
  engine_plan_store(query, &s,
                    engine_schedule_workspace(query->problem, &s) + table_bytes(query->problem), out);
}

typedef struct run {
  engine_call call;
  engine_schedule schedule;
  entry *table;
  int64_t count; /* sequences */
} run;

static void sift(entry *e, int64_t n, int64_t i) { // min-heap by cost: sorting ends descending
  for (;;) {
    int64_t child = 2 * i + 1;
    if (child >= n) return;
    if (child + 1 < n && e[child + 1].cost < e[child].cost) child++;
    if (e[i].cost <= e[child].cost) return;
    entry t = e[i];
    e[i] = e[child], e[child] = t, i = child;
  }
}

static void sort_by_cost(entry *e, int64_t n) {
  for (int64_t i = n / 2 - 1; i >= 0; i--) sift(e, n, i);
  for (int64_t i = n - 1; i > 0; i--) {
    entry t = e[0];
    e[0] = e[i], e[i] = t;
    sift(e, i, 0);
  }
}

static int64_t sequence_blocks(const run *r, const engine_sequence *s) {
  return size_ceil_div(s->seq_q * r->call.group, r->schedule.rows_per_item);
}

/* Fills the table and returns the number of items. */
static int64_t order_items(run *r) {
  for (int64_t i = 0; i < r->count; i++) {
    engine_sequence s = engine_sequence_get(&r->call, i);
    r->table[i] = (entry){ .sequence = i, .cost = (double)s.seq_q * (double)s.seq_kv };
  }
  sort_by_cost(r->table, r->count);
  int64_t items = 0;
  for (int64_t i = 0; i < r->count; i++) {
    engine_sequence s = engine_sequence_get(&r->call, r->table[i].sequence);
    r->table[i].first_item = items;
    items += sequence_blocks(r, &s) * r->call.problem->heads_kv;
  }
  r->table[r->count].first_item = items;
  return items;
}

static void run_one(void *context, int64_t i, void *scratch) {
  run *r = context;
  int64_t low = 0, high = r->count; // last entry whose first item is <= i
  while (high - low > 1) {
    int64_t mid = low + (high - low) / 2;
    if (r->table[mid].first_item <= i) low = mid;
    else high = mid;
  }
  engine_sequence s = engine_sequence_get(&r->call, r->table[low].sequence);
  int64_t blocks = sequence_blocks(r, &s), at = i - r->table[low].first_item;
  int64_t block = blocks - 1 - at % blocks; // causal: late rows see most keys
  engine_item item = {
    .sequence = s,
    .head = at / blocks,
    .row_begin = block * r->schedule.rows_per_item,
    .row_end = size_min(s.seq_q * r->call.group, (block + 1) * r->schedule.rows_per_item),
    .key_end = INT64_MAX,
  };
  engine_run_item(&r->call, &item, scratch);
}

static void execute(const backend_plan *plan, const attn_io *io, void *workspace,
                    const backend_parallel *parallel) {
  run r = { .schedule = engine_plan_schedule(plan), .table = workspace, .count = plan->problem.batch };
  engine_call_init(&r.call, plan, r.schedule.tiles, io);
  int64_t items = order_items(&r);
  engine_for_each(parallel, r.schedule.workers, items, (char *)workspace + table_bytes(&plan->problem),
                  (size_t)r.schedule.scratch_bytes, run_one, &r);
}

const backend_implementation varlen_cpu = {
  .device = ATTN_DEVICE_CPU,
  .name = "varlen/cpu",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
  .plan = plan,
  .execute = execute,
};
