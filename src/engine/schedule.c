// SPDX-License-Identifier: Apache-2.0
#include "engine/schedule.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/size.h"

_Static_assert(sizeof(engine_schedule) <= sizeof(((backend_plan *)0)->schedule), "plan too small");

static int64_t round_up(int64_t bytes) {
  return (bytes + KERNEL_ALIGN - 1) / KERNEL_ALIGN * KERNEL_ALIGN;
}

static int64_t kv_heads_total(const attn_problem *p) { return p->batch * p->heads_kv; }

engine_schedule engine_schedule_make(const backend_query *query, const engine_cut *cut) {
  const attn_problem *p = query->problem;
  engine_schedule s = { .rows = p->heads_kv ? p->seq_q * (p->heads_q / p->heads_kv) : 0 };
  s.tiles = engine_choose_tiles(query->kernels, p, s.rows, query->capability->l2_bytes);
  s.tiles.pairs = !cut->f32 && engine_use_pairs(query->kernels, p, s.tiles);
  if (cut->max_tiles) s.tiles.tiles = (int)size_min(s.tiles.tiles, cut->max_tiles);
  int64_t lanes = (int64_t)s.tiles.vectors * query->kernels->width;
  int64_t key_blocks = size_ceil_div(p->seq_kv, s.tiles.keys);
  s.splits = size_max(1, size_min(cut->splits, key_blocks));
  s.split_keys = size_ceil_div(key_blocks, s.splits) * s.tiles.keys;
  s.splits = s.split_keys ? size_max(1, size_ceil_div(p->seq_kv, s.split_keys)) : 1;
  int wanted = cut->workers < query->threads ? cut->workers : query->threads;
  // Fewer rows an item where there would be too few items to balance; tiles do not change bits.
  for (;;) {
    s.rows_per_item = lanes * s.tiles.tiles;
    s.blocks = size_ceil_div(s.rows, s.rows_per_item);
    if (s.tiles.tiles == 1 || wanted <= 1) break;
    if (kv_heads_total(p) * s.blocks * s.splits >= 4 * (int64_t)wanted) break;
    s.tiles.tiles = (s.tiles.tiles + 1) / 2;
  }
  s.workers = (int)size_max(1, size_min(wanted, kv_heads_total(p) * s.blocks * s.splits));
  s.scratch_bytes = (int64_t)engine_scratch_bytes(p, query->kernels, s.tiles);
  return s;
}

static int64_t partial_stride(const attn_problem *p) { return p->head_dim_v + 2; }

static int64_t partial_bytes(const attn_problem *p, const engine_schedule *s) {
  if (s->splits <= 1) return 0;
  return round_up(kv_heads_total(p) * s->rows * s->splits * partial_stride(p) *
                  (int64_t)sizeof(float));
}

static int64_t counter_bytes(const attn_problem *p, const engine_schedule *s) {
  if (s->splits <= 1) return 0;
  return round_up(kv_heads_total(p) * s->blocks * (int64_t)sizeof(atomic_int));
}

int64_t engine_schedule_workspace(const attn_problem *problem, const engine_schedule *s) {
  return partial_bytes(problem, s) + counter_bytes(problem, s) + s->workers * s->scratch_bytes +
         KERNEL_ALIGN;
}

void engine_plan_store(const backend_query *query, const engine_schedule *schedule,
                       int64_t workspace, backend_plan *plan) {
  plan->problem = *query->problem;
  plan->kernels = query->kernels;
  plan->threads = schedule->workers;
  plan->workspace = (size_t)workspace;
  memcpy(plan->schedule, schedule, sizeof(*schedule));
}

engine_schedule engine_plan_schedule(const backend_plan *plan) {
  engine_schedule s;
  memcpy(&s, plan->schedule, sizeof(s));
  return s;
}

typedef struct run {
  engine_call call;
  engine_schedule schedule;
  float *partials;
  atomic_int *arrived; /* splits done, per block of a KV head */
} run;

/* Item i: one KV head after the other, so that its keys stay in cache; within a head the longest first
 * (with causal, late rows see most keys), so that the last items are short. Longest first over all
 * heads streams every head's keys through the cache at once: 10 % slower (docs/performance.md). */
static engine_item get_item(const run *r, int64_t i, int64_t *block_index) {
  const attn_problem *p = r->call.problem;
  const engine_schedule *s = &r->schedule;
  int64_t split = i % s->splits;
  i /= s->splits;
  int64_t bh = i / s->blocks, block = s->blocks - 1 - i % s->blocks;
  *block_index = bh * s->blocks + block;
  engine_item item = {
    .sequence = engine_sequence_get(&r->call, bh / p->heads_kv),
    .head = bh % p->heads_kv,
    .row_begin = block * s->rows_per_item,
    .row_end = size_min(s->rows, (block + 1) * s->rows_per_item),
    .key_begin = split * s->split_keys,
    .key_end = s->splits > 1 ? (split + 1) * s->split_keys : INT64_MAX,
  };
  if (r->partials) {
    item.partial_stride = s->splits * partial_stride(p);
    item.partial = r->partials + (bh * s->rows + item.row_begin) * item.partial_stride +
                   split * partial_stride(p);
  }
  return item;
}

static void run_one(void *context, int64_t i, void *scratch) {
  run *r = context;
  int64_t block, stride = partial_stride(r->call.problem);
  engine_item item = get_item(r, i, &block);
  engine_run_item(&r->call, &item, scratch);
  if (!r->partials) return;
  // The last split to arrive merges, always in order of split: the bits do not depend on who it is.
  int before = atomic_fetch_add_explicit(&r->arrived[block], 1, memory_order_acq_rel);
  if (before + 1 < r->schedule.splits) return;
  item.partial -= i % r->schedule.splits * stride;
  engine_merge_item(&r->call, &item, (int)r->schedule.splits, stride, scratch);
}

void engine_schedule_execute(const backend_plan *plan, const attn_io *io, void *workspace,
                             const backend_parallel *parallel) {
  const attn_problem *p = &plan->problem;
  run r = { .schedule = engine_plan_schedule(plan) };
  const engine_schedule *s = &r.schedule;
  char *memory = workspace;
  engine_call_init(&r.call, plan, s->tiles, io);
  if (s->splits > 1) {
    r.partials = (float *)(void *)memory;
    r.arrived = (atomic_int *)(void *)(memory + partial_bytes(p, s));
    for (int64_t i = 0; i < kv_heads_total(p) * s->blocks; i++) atomic_init(&r.arrived[i], 0);
  }
  engine_for_each(parallel, s->workers, kv_heads_total(p) * s->blocks * s->splits,
                  memory + partial_bytes(p, s) + counter_bytes(p, s), (size_t)s->scratch_bytes,
                  run_one, &r);
}
