// SPDX-License-Identifier: Apache-2.0
#include "backend/math/f64.h"

#include <math.h>
#include <string.h>

#include "core/philox.h"
#include "core/size.h"
#include "engine/internal.h"

enum { MASK_CHUNK = 64 };

int64_t f64_scratch_bytes(const attn_problem *p) {
  int64_t doubles = p->seq_kv + p->head_dim_v;
  return size_ceil_div(doubles * (int64_t)sizeof(double), KERNEL_ALIGN) * KERNEL_ALIGN;
}

/* One row of one query head. `scores` holds keys [low, high), then the output row. */
typedef struct row {
  const engine_call *call;
  engine_sequence s;
  int64_t head, i, low, high;
  double *scores, *out;
} row;

static engine_row kv_row(const row *r, const engine_side *side, int64_t j) {
  return engine_row_at(side, r->call, &r->s, r->head / r->call->group, j);
}

static double at(engine_row source, int64_t c) {
  return ((const double *)(const void *)source.data)[c * source.col];
}

static double raw_score(const row *r, int64_t j) {
  const attn_problem *p = r->call->problem;
  const double *q = (const double *)r->call->io->q +
                    engine_query_offset(r->call, &r->s, &p->q_strides, r->head, r->i);
  engine_row k = kv_row(r, &r->call->k, j);
  double sum = 0;
  for (int64_t c = 0; c < p->head_dim; c++) sum += q[c * p->q_strides.col] * at(k, c);
  return sum * (double)p->scale;
}

static double capped(const attn_problem *p, double x) {
  return p->softcap > 0 ? (double)p->softcap * tanh(x / (double)p->softcap) : x;
}

static double modified(const row *r, int64_t j, double x) {
  const attn_problem *p = r->call->problem;
  const attn_io *io = r->call->io;
  if (p->score_mod) { // the callback's tiles are f32
    float tile = (float)x;
    io->score_mod(io->score_mod_user, &tile, 1, r->s.index, 1, &r->head, &r->i, j, 1);
    x = (double)tile;
  }
  if (p->alibi) {
    double distance = (double)(r->i + problem_diagonal(p, r->s.seq_q, r->s.seq_kv) - j);
    x -= (double)io->alibi_slopes[r->s.index * p->alibi_batch_stride + r->head] * fabs(distance);
  }
  return x;
}

static void score_row(const row *r) {
  const attn_problem *p = r->call->problem;
  int64_t mask = p->mask ? engine_mask_offset(r->call, &r->s, r->head, r->i) : 0;
  for (int64_t j = r->low; j < r->high; j += MASK_CHUNK) {
    float bias[MASK_CHUNK] = { 0 };
    int count = (int)size_min(MASK_CHUNK, r->high - j);
    if (p->mask) engine_mask_row(r->call, mask, j, count, bias);
    for (int x = 0; x < count; x++) {
      double s = bias[x] == -INFINITY ? 0 : modified(r, j + x, capped(p, raw_score(r, j + x)));
      r->scores[j + x] = bias[x] == -INFINITY ? -INFINITY : s + (double)bias[x];
    }
  }
}

/* Turns scores into probabilities; returns the log-sum-exp. */
static double softmax_row(const row *r) {
  const attn_problem *p = r->call->problem;
  double sink = p->sinks ? (double)r->call->io->sinks[r->head] : -INFINITY, top = sink, sum = 0;
  for (int64_t j = r->low; j < r->high; j++)
    if (r->scores[j] > top) top = r->scores[j];
  double base = top == -INFINITY ? 0 : top;
  for (int64_t j = r->low; j < r->high; j++)
    if (r->scores[j] != -INFINITY) sum += exp(r->scores[j] - base);
  if (sink != -INFINITY) sum += exp(sink - base);
  for (int64_t j = r->low; j < r->high; j++) // -1 marks a removed key
    r->scores[j] = r->scores[j] == -INFINITY ? -1 : exp(r->scores[j] - base) / sum;
  return sum == 0 ? -INFINITY : base + log(sum);
}

static void value_row(const row *r) {
  const attn_problem *p = r->call->problem;
  const attn_io *io = r->call->io;
  uint64_t number = (uint64_t)((r->s.index * p->heads_q + r->head) * p->seq_q + r->i);
  memset(r->out, 0, (size_t)p->head_dim_v * sizeof(double));
  for (int64_t j = r->low; j < r->high; j++) {
    double w = r->scores[j];
    if (w == -1) continue;
    if (p->dropout > 0)
      w = philox_keep(io->dropout_seed, io->dropout_offset, number, (uint64_t)j, p->dropout)
              ? w / (1 - (double)p->dropout)
              : 0 * w;
    engine_row v = kv_row(r, &r->call->v, j);
    for (int64_t c = 0; c < p->head_dim_v; c++) r->out[c] += w * at(v, c);
  }
  int64_t dst = engine_query_offset(r->call, &r->s, &p->out_strides, r->head, r->i);
  for (int64_t c = 0; c < p->head_dim_v; c++, dst += p->out_strides.col) {
    if (p->out_dtype == ATTN_F64) ((double *)io->out)[dst] = r->out[c];
    else ((float *)io->out)[dst] = (float)r->out[c];
  }
}

/* The row's entries of io->weights, at the stage asked for: 0 raw, 1 after masks, 2 probabilities. */
static void store_weights(const row *r, int stage) {
  const attn_problem *p = r->call->problem;
  int64_t head = r->s.index * p->heads_q + r->head;
  float *w = (float *)r->call->io->weights + (head * p->seq_q + r->i) * p->seq_kv;
  float *columns = (float *)r->call->io->weights + head * p->seq_kv;
  bool raw = p->weights == ATTN_WEIGHTS_SCORES || p->weights == ATTN_WEIGHTS_CAPPED;
  for (int64_t j = 0; j < p->seq_kv; j++) {
    bool inside = j >= r->low && j < r->high;
    if (stage == 0 && raw) {
      double x = j < r->s.seq_kv ? raw_score(r, j) : -INFINITY;
      w[j] = (float)(p->weights == ATTN_WEIGHTS_CAPPED && j < r->s.seq_kv ? capped(p, x) : x);
    }
    if (stage == 1 && p->weights == ATTN_WEIGHTS_MASKED) w[j] = inside ? (float)r->scores[j] : -INFINITY;
    double probability = inside && r->scores[j] != -1 ? r->scores[j] : 0;
    if (stage == 2 && p->weights == ATTN_WEIGHTS_PROBS) w[j] = (float)probability;
    if (stage == 2 && p->weights == ATTN_WEIGHTS_COLUMN_SUMS)
      columns[j] = (r->i ? columns[j] : 0) + (float)probability;
  }
}

/* One query head of one sequence: its rows one after the other, as column sums need them. */
static void run_head(void *context, int64_t index, void *scratch) {
  const engine_call *call = context;
  const attn_problem *p = call->problem;
  row r = { .call = call,
            .s = engine_sequence_get(call, index / p->heads_q),
            .head = index % p->heads_q,
            .scores = scratch,
            .out = (double *)scratch + p->seq_kv };
  for (r.i = 0; r.i < r.s.seq_q; r.i++) {
    problem_key_range(p, r.i, r.s.seq_q, r.s.seq_kv, &r.low, &r.high);
    if (p->weights) store_weights(&r, 0);
    score_row(&r);
    if (p->weights) store_weights(&r, 1);
    double lse = softmax_row(&r);
    if (p->weights) store_weights(&r, 2);
    if (p->return_lse) call->io->lse[engine_lse_index(call, &r.s, r.head, r.i)] = (float)lse;
    value_row(&r);
  }
}

void f64_execute(const backend_plan *plan, const attn_io *io, void *workspace,
                 const backend_parallel *parallel) {
  engine_call call;
  engine_schedule schedule = engine_plan_schedule(plan);
  engine_call_init(&call, plan, schedule.tiles, io);
  engine_for_each(parallel, schedule.workers, plan->problem.batch * plan->problem.heads_q, workspace,
                  (size_t)f64_scratch_bytes(&plan->problem), run_head, &call);
}
