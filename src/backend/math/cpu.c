// SPDX-License-Identifier: Apache-2.0
/*
 * Math on the CPU: the textbook, three passes over scores that lie in memory, as frameworks run it
 * (two matrix products and a softmax, each parallel, each with good inner loops). It is the yardstick
 * of speed-ups, the most direct text, and the one that can give the scores away.
 */
#include "backend/cpu_constraints.h"

#include <math.h>
#include <string.h>

#include "backend/math/f64.h"
#include "backend/math/weights.h"
#include "core/size.h"
#include "engine/work.h"

/* Blocks of keys do not matter to its bits, but its softmax is not the online one of the others. */
static bool mixes_bits(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  bool chosen = q->config->preferred == ATTN_BACKEND_MATH || q->config->debug;
  return q->problem->batch_invariant && !chosen && q->problem->weights == ATTN_WEIGHTS_NONE;
}

static const backend_constraint rows[] = {
  { ATTN_REASON_BATCH_INVARIANT, mixes_bits },
};

static void supports(const backend_query *query, backend_reasons *reasons) {
  CPU_CHECK(rows, query, reasons);
}

static engine_schedule schedule(const backend_query *query) {
  engine_cut cut = { .max_tiles = 1, .workers = query->threads, .splits = 1, .f32 = true };
  return engine_schedule_make(query, &cut);
}

static int64_t tile_count(const attn_problem *p, const engine_schedule *s) {
  return p->batch * p->heads_kv * s->blocks;
}

static int64_t lanes_of(const engine_schedule *s) { return s->rows_per_item; } // one tile an item

/* Scores of every tile, then its maxima and sums. */
static int64_t scores_bytes(const attn_problem *p, const engine_schedule *s) {
  return tile_count(p, s) * lanes_of(s) * (p->seq_kv + 2) * (int64_t)sizeof(float);
}

static int64_t workspace_bytes(const attn_problem *p, const engine_schedule *s) {
  if (p->dtype == ATTN_F64) return s->workers * f64_scratch_bytes(p) + KERNEL_ALIGN;
  int64_t scores = scores_bytes(p, s);
  return size_ceil_div(scores, KERNEL_ALIGN) * KERNEL_ALIGN + s->workers * s->scratch_bytes +
         KERNEL_ALIGN;
}

static void estimate(const backend_query *query, backend_cost *cost) {
  const attn_problem *p = query->problem;
  engine_schedule s = schedule(query);
  engine_work work = { .count = { [ENGINE_CALL] = 1 } };
  if (p->dtype == ATTN_F64)
    work.count[ENGINE_F64_MAC] = query->size->score_pairs * (double)(p->head_dim + p->head_dim_v);
  else engine_work_count(query, &s, true, (double)scores_bytes(p, &s), &work);
  engine_work_price(query, &s, &work, cost);
  cost->workspace_bytes = workspace_bytes(p, &s);
}

static void plan(const backend_query *query, backend_plan *out) {
  engine_schedule s = schedule(query);
  engine_plan_store(query, &s, workspace_bytes(query->problem, &s), out);
}

typedef struct run {
  engine_call call;
  engine_schedule schedule;
  float *scores;
} run;

/* What a pass needs of one tile. Its lanes are set up anew in each pass: nothing is kept between. */
typedef struct tile_view {
  engine_scratch scratch;
  engine_tile *tile;
  engine_sequence sequence;
  int64_t head;
  float *scores, *max, *sum;
  int64_t low, high; /* keys that some lane attends */
} tile_view;

static tile_view view(const run *r, int64_t i, void *memory) {
  const attn_problem *p = r->call.problem;
  const engine_schedule *s = &r->schedule;
  int64_t bh = i / s->blocks, row = i % s->blocks * s->rows_per_item, lanes = lanes_of(s);
  tile_view v = {
    .scratch = engine_scratch_get(&r->call, memory),
    .sequence = engine_sequence_get(&r->call, bh / p->heads_kv),
    .head = bh % p->heads_kv,
    .scores = r->scores + i * lanes * (p->seq_kv + 2),
  };
  v.max = v.scores + lanes * p->seq_kv;
  v.sum = v.max + lanes;
  v.tile = &v.scratch.tiles[0];
  int64_t own_rows = size_min(s->rows, v.sequence.seq_q * r->call.group);
  if (row < own_rows) {
    engine_tile_load(&r->call, &v.sequence, v.head, row, own_rows, &v.scratch, v.tile);
    v.low = size_min(v.tile->any_low, v.tile->any_high);
    v.high = v.tile->any_high;
  } else {
    v.tile->used = 0;
  }
  return v;
}

/* Keys from j to the end of j's block: blocks start at multiples of their size from key 0, as in the
 * other backends, so that a row's sums do not depend on where its tile's keys begin. */
static int block_keys(const run *r, int64_t j, int64_t high) {
  int64_t keys = r->call.tiles.keys;
  return (int)(size_min(high, j / keys * keys + keys) - j);
}

static void score_pass(void *context, int64_t i, void *memory) {
  run *r = context;
  tile_view v = view(r, i, memory);
  if (!v.tile->used) return;
  weights_raw(&r->call, &v.sequence, v.head, v.tile, &v.scratch);
  memcpy(v.max, v.tile->max, (size_t)r->call.lanes * sizeof(float));
  for (int64_t j = v.low; j < v.high; j += block_keys(r, j, v.high)) {
    int count = block_keys(r, j, v.high);
    float *scores = v.scores + j * r->call.lanes;
    engine_block k = engine_rows(&r->call.k, &r->call, &v.sequence, v.head, j, count, v.scratch.k);
    bool removed;
    if (!engine_tile_scores(&r->call, &v.sequence, v.tile, j, count, k, &v.scratch, scores, v.max,
                            &removed))
      for (int64_t x = 0; x < (int64_t)count * r->call.lanes; x++) scores[x] = -INFINITY;
  }
  weights_masked(&r->call, &v.sequence, v.tile, v.scores, v.low, v.high);
}

static void softmax_pass(void *context, int64_t i, void *memory) {
  run *r = context;
  tile_view v = view(r, i, memory);
  _Alignas(KERNEL_ALIGN) float max[KERNEL_MAX_LANES], sum[KERNEL_MAX_LANES] = { 0 };
  _Alignas(KERNEL_ALIGN) float alpha[KERNEL_MAX_LANES];
  if (!v.tile->used) return;
  memcpy(max, v.max, (size_t)r->call.lanes * sizeof(float));
  for (int64_t j = v.low; j < v.high; j += block_keys(r, j, v.high)) {
    int count = block_keys(r, j, v.high);
    r->call.kernels->softmax(v.scores + j * r->call.lanes, count, r->call.tiles.vectors, max, max,
                             alpha, sum, r->call.natural);
  }
  memcpy(v.sum, sum, (size_t)r->call.lanes * sizeof(float));
}

static void value_blocks(run *r, const tile_view *v, bool careful) {
  const engine_call *c = &r->call;
  const engine_scratch *scratch = &v->scratch;
  _Alignas(KERNEL_ALIGN) float one[KERNEL_MAX_LANES], ignored[KERNEL_MAX_LANES];
  for (int lane = 0; lane < c->lanes; lane++) one[lane] = 1.0f;
  memset(v->tile->ot, 0, (size_t)engine_tile_floats(c) * sizeof(float));
  for (int64_t j = v->low; j < v->high; j += block_keys(r, j, v->high)) {
    int count = block_keys(r, j, v->high);
    float *p = v->scores + j * c->lanes;
    engine_block values = engine_rows(&c->v, c, &v->sequence, v->head, j, count, scratch->v);
    if (careful) { // which keys were removed is seen in the scores, which the softmax overwrote
      bool removed;
      engine_block k = engine_rows(&c->k, c, &v->sequence, v->head, j, count, scratch->k);
      for (int lane = 0; lane < c->lanes; lane++) ignored[lane] = -INFINITY;
      if (!engine_tile_scores(c, &v->sequence, v->tile, j, count, k, scratch, scratch->p, ignored,
                              &removed))
        continue;
      c->kernels->alive(scratch->p, count, c->tiles.vectors, scratch->alive);
    } else if (c->problem->dropout > 0) {
      engine_dropout(c, &v->sequence, v->tile, j, count, p);
    }
    engine_tile_values(c, v->tile, values, count, p, careful ? scratch->alive : NULL, one);
  }
}

static void value_pass(void *context, int64_t i, void *memory) {
  run *r = context;
  tile_view v = view(r, i, memory);
  if (!v.tile->used) return;
  int64_t lanes = r->call.lanes;
  memcpy(v.tile->max, v.max, (size_t)lanes * sizeof(float));
  memcpy(v.tile->sum, v.sum, (size_t)lanes * sizeof(float));
  weights_probs(&r->call, &v.sequence, v.tile, v.scores, v.low, v.high);
  value_blocks(r, &v, false);
  if (r->call.masks && engine_tile_nonfinite(&r->call, v.tile)) value_blocks(r, &v, true);
  engine_tile_finish(&r->call, &v.sequence, v.tile, &v.scratch);
}

/* Probabilities of one query head summed over its queries, in order. */
static void column_pass(void *context, int64_t i, void *memory) {
  run *r = context;
  const attn_problem *p = r->call.problem;
  const engine_schedule *s = &r->schedule;
  int64_t head = i % p->heads_q, batch = i / p->heads_q;
  float *out = (float *)r->call.io->weights + i * p->seq_kv;
  memset(out, 0, (size_t)p->seq_kv * sizeof(float));
  for (int64_t block = 0; block < s->blocks; block++) {
    int64_t index = (batch * p->heads_kv + head / r->call.group) * s->blocks + block;
    tile_view v = view(r, index, memory);
    if (!v.tile->used) continue;
    memcpy(v.tile->max, v.max, (size_t)r->call.lanes * sizeof(float));
    memcpy(v.tile->sum, v.sum, (size_t)r->call.lanes * sizeof(float));
    weights_column_sums(&r->call, v.tile, head, v.scores, v.low, v.high, out);
  }
}

static void execute(const backend_plan *plan, const attn_io *io, void *workspace,
                    const backend_parallel *parallel) {
  const attn_problem *p = &plan->problem;
  if (p->dtype == ATTN_F64) {
    f64_execute(plan, io, workspace, parallel);
    return;
  }
  run r = { .schedule = engine_plan_schedule(plan), .scores = workspace };
  engine_call_init(&r.call, plan, r.schedule.tiles, io);
  int64_t tiles = tile_count(p, &r.schedule);
  int64_t scores = size_ceil_div(scores_bytes(p, &r.schedule), KERNEL_ALIGN) * KERNEL_ALIGN;
  char *scratch = (char *)workspace + scores;
  size_t bytes = (size_t)r.schedule.scratch_bytes;
  int workers = r.schedule.workers;
  engine_for_each(parallel, workers, tiles, scratch, bytes, score_pass, &r);
  engine_for_each(parallel, workers, tiles, scratch, bytes, softmax_pass, &r);
  if (p->weights == ATTN_WEIGHTS_COLUMN_SUMS)
    engine_for_each(parallel, workers, p->batch * p->heads_q, scratch, bytes, column_pass, &r);
  engine_for_each(parallel, workers, tiles, scratch, bytes, value_pass, &r);
}

const backend_implementation math_cpu = {
  .device = ATTN_DEVICE_CPU,
  .name = "math/cpu",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
  .plan = plan,
  .execute = execute,
};
