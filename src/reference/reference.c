// SPDX-License-Identifier: Apache-2.0
/* Attention in double precision, one row at a time, straight from the semantics in attn.h. Meant to
 * be read: no tiles, no online softmax, no shared work. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "core/dtype.h"
#include "core/philox.h"
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

typedef struct run {
  const attn_problem *p;
  const attn_io *io;
  double *out, *lse, *weights;  /* the caller's; the last two may be NULL */
  double *query, *row, *scores; /* of one query: it, one key or value, all scores */
} run;

typedef struct sequence {
  int64_t b, seq_q, seq_kv;
  int64_t first_q, first_kv; /* rows of the packed tensors; 0 when they are not packed */
} sequence;

static sequence sequence_of(const run *r, int64_t b) {
  const attn_problem *p = r->p;
  sequence s = { .b = b, .seq_q = p->seq_q, .seq_kv = p->seq_kv };
  if (p->varlen) {
    s.first_q = r->io->cu_seqlens_q[b];
    s.seq_q = r->io->cu_seqlens_q[b + 1] - s.first_q;
  }
  if (p->varlen && !p->page_size) {
    s.first_kv = r->io->cu_seqlens_kv[b];
    s.seq_kv = p->prefix + r->io->cu_seqlens_kv[b + 1] - s.first_kv;
  }
  if (p->kv_lengths) s.seq_kv = r->io->kv_len[b];
  return s;
}

/* `dim` elements from element `offset` on, `col` apart, times `factor`. */
static void load(const void *data, attn_dtype dtype, int64_t offset, int64_t dim, int64_t col,
                 double factor, double *dst) {
  const dtype_info *type = dtype_get(dtype);
  for (int64_t c = 0; c < dim; c += type->block) {
    const char *at = (const char *)data + (offset + c * col) / type->block * type->block_bytes;
    float block[32];
    if (dtype == ATTN_F64) {
      memcpy(&dst[c], at, sizeof(double));
      continue;
    }
    type->to_f32(at, block, type->block);
    for (int64_t i = 0; i < type->block; i++) dst[c + i] = factor * (double)block[i];
  }
}

static void load_query(const run *r, const sequence *s, int64_t h, int64_t i) {
  const attn_problem *p = r->p;
  const attn_strides *st = &p->q_strides; // the batch stride of packed tensors is 0
  int64_t offset = s->b * st->batch + h * st->head + (s->first_q + i) * st->row;
  double factor = 1;
  attn_fp8_scale kind = problem_fp8_scale(p, p->dtype);
  if (kind) factor = (double)r->io->q_scale[kind == ATTN_FP8_SCALE_HEAD ? h : 0];
  load(r->io->q, p->dtype, offset, p->head_dim, st->col, factor, r->query);
}

/* Key or value j of query head h, into r->row. */
static void load_kv(const run *r, const sequence *s, int64_t h, int64_t j, bool value) {
  const attn_problem *p = r->p;
  const attn_strides *st = value ? &p->v_strides : &p->k_strides;
  const attn_io *io = r->io;
  const float *scales = value ? io->v_scale : io->k_scale;
  const void *data = value ? io->v : io->k;
  int64_t dim = value ? p->head_dim_v : p->head_dim;
  attn_strides prefix = { .head = p->prefix * dim, .row = dim, .col = 1 };
  bool own = j >= p->prefix;
  if (own) {
    j -= p->prefix;
  } else {
    st = &prefix;
    data = value ? io->v_prefix : io->k_prefix;
    if (p->kv_dtype == ATTN_INT8) scales = value ? io->v_prefix_scale : io->k_prefix_scale;
  }
  int64_t head = h / (p->heads_q / p->heads_kv), outer = own ? s->b : 0;
  int64_t at = (own ? s->first_kv : 0) + j;
  int64_t token = (p->varlen ? 0 : outer * problem_own_keys(p, p->seq_kv)) + at;
  if (own && p->page_size) {
    outer = r->io->block_table[s->b * p->pages_per_seq + j / p->page_size];
    at = j % p->page_size;
    token = outer * p->page_size + at;
  }
  double factor = 1;
  attn_fp8_scale kind = problem_fp8_scale(p, p->kv_dtype);
  if (p->kv_dtype == ATTN_INT8)
    factor = (double)scales[token * p->heads_kv + head];
  else if (kind)
    factor = (double)scales[kind == ATTN_FP8_SCALE_HEAD ? head : 0];
  load(data, p->kv_dtype, outer * st->batch + head * st->head + at * st->row, dim, st->col, factor,
       r->row);
}

/* What the mask adds to a score; -inf removes the key. */
static double mask_value(const run *r, const sequence *s, int64_t h, int64_t i, int64_t j) {
  const attn_problem *p = r->p;
  const int64_t *st = p->mask_strides;
  if (!p->mask) return 0;
  if (p->mask_dims[3] != 1 && j >= p->mask_dims[3]) return -INFINITY; // a short mask ends here
  int64_t at = s->b * st[0] + h * st[1] + i * st[2] + j * st[3];
  if (p->mask == ATTN_MASK_BOOL) return ((const uint8_t *)r->io->mask)[at] ? 0 : -INFINITY;
  double x;
  load(r->io->mask, p->mask_dtype, at, 1, 1, 1, &x);
  return x;
}

static double scaled_score(const run *r, const sequence *s, int64_t h, int64_t j) {
  double sum = 0;
  load_kv(r, s, h, j, false);
  for (int64_t c = 0; c < r->p->head_dim; c++) sum += r->query[c] * r->row[c];
  return (double)r->p->scale * sum;
}

static double capped(const run *r, double score) {
  double cap = (double)r->p->softcap;
  return cap > 0 ? cap * tanh(score / cap) : score;
}

/* A score after cap, callback, ALiBi and mask. */
static double masked_score(const run *r, const sequence *s, int64_t h, int64_t i, int64_t j) {
  const attn_problem *p = r->p;
  double mask = mask_value(r, s, h, i, j);
  if (mask == -INFINITY) return mask; // whatever the key holds
  double x = capped(r, scaled_score(r, s, h, j));
  if (p->score_mod) { // its interface is f32: that rounding is part of what it computes
    float tile = (float)x;
    r->io->score_mod(r->io->score_mod_user, &tile, 1, s->b, 1, &h, &i, j, 1);
    x = (double)tile;
  }
  if (p->alibi) {
    double slope = (double)r->io->alibi_slopes[s->b * p->alibi_batch_stride + h];
    double query_at = (double)i + (double)problem_diagonal(p, s->seq_q, s->seq_kv);
    x -= slope * fabs(query_at - (double)j);
  }
  return x + mask;
}

/* r->scores of one row; keys that structure removes are -inf and not read. */
static void score_row(const run *r, const sequence *s, int64_t h, int64_t i) {
  int64_t begin, end;
  problem_key_range(r->p, i, s->seq_q, s->seq_kv, &begin, &end);
  for (int64_t j = 0; j < r->p->seq_kv; j++)
    r->scores[j] = j >= begin && j < end ? masked_score(r, s, h, i, j) : -INFINITY;
}

/* exp(score - largest), unnormalised, to `exps`; returns their sum, the sink's included, and the
 * largest. Without any key or sink the sum is 0. */
static double exponentials(const run *r, int64_t h, double *exps, double *largest) {
  double sink = r->p->sinks ? (double)r->io->sinks[h] : -INFINITY, top = sink, sum = 0;
  for (int64_t j = 0; j < r->p->seq_kv; j++)
    if (r->scores[j] > top) top = r->scores[j];
  double base = top == -INFINITY ? 0 : top; // -inf - -inf would be NaN
  for (int64_t j = 0; j < r->p->seq_kv; j++) sum += exps[j] = exp(r->scores[j] - base);
  *largest = base;
  return sum + exp(sink - base);
}

/* Adds weight * value to `out` for every key that was not removed: a removed one is not read. */
static void value_row(const run *r, const sequence *s, int64_t h, int64_t i, const double *probs,
                      double *out) {
  const attn_problem *p = r->p;
  uint64_t row = (uint64_t)((s->b * p->heads_q + h) * p->seq_q + i);
  for (int64_t c = 0; c < p->head_dim_v; c++) out[c] = 0;
  for (int64_t j = 0; j < s->seq_kv; j++) {
    double w = probs[j];
    if (r->scores[j] == -INFINITY) continue;
    if (p->dropout > 0) {
      bool keep =
          philox_keep(r->io->dropout_seed, r->io->dropout_offset, row, (uint64_t)j, p->dropout);
      w = keep ? w / (1 - (double)p->dropout) : 0 * w; // NaN stays
    }
    load_kv(r, s, h, j, true);
    for (int64_t c = 0; c < p->head_dim_v; c++) out[c] += w * r->row[c];
  }
}

/* Scores as they are before any mask, for every key that exists. */
static void raw_weights(const run *r, const sequence *s, int64_t h, double *weights) {
  for (int64_t j = 0; j < r->p->seq_kv; j++) {
    weights[j] = -INFINITY;
    if (j >= s->seq_kv) continue;
    weights[j] = scaled_score(r, s, h, j);
    if (r->p->weights == ATTN_WEIGHTS_CAPPED) weights[j] = capped(r, weights[j]);
  }
}

static void store_weights(const run *r, const sequence *s, int64_t h, int64_t i,
                          const double *probs) {
  const attn_problem *p = r->p;
  int64_t head = s->b * p->heads_q + h;
  double *row = r->weights + (head * p->seq_q + i) * p->seq_kv;
  double *columns = r->weights + head * p->seq_kv;
  if (p->weights == ATTN_WEIGHTS_SCORES || p->weights == ATTN_WEIGHTS_CAPPED)
    raw_weights(r, s, h, row);
  for (int64_t j = 0; j < p->seq_kv; j++) {
    if (p->weights == ATTN_WEIGHTS_MASKED) row[j] = r->scores[j];
    if (p->weights == ATTN_WEIGHTS_PROBS) row[j] = probs[j];
    if (p->weights == ATTN_WEIGHTS_COLUMN_SUMS) columns[j] = (i ? columns[j] : 0) + probs[j];
  }
}

static void run_row(const run *r, const sequence *s, int64_t h, int64_t i, double *probs) {
  const attn_problem *p = r->p;
  int64_t row = (s->b * p->heads_q + h) * p->seq_q + i, out_row = row, lse_row = row;
  if (p->varlen) {
    out_row = (s->first_q + i) * p->heads_q + h;
    lse_row = h * p->total_q + s->first_q + i;
  }
  double largest;
  load_query(r, s, h, i);
  score_row(r, s, h, i);
  double sum = exponentials(r, h, probs, &largest);
  for (int64_t j = 0; j < p->seq_kv && sum != 0; j++) // a removed key has weight 0 also beside a NaN
    probs[j] = r->scores[j] == -INFINITY ? 0 : probs[j] / sum;
  value_row(r, s, h, i, probs, r->out + out_row * p->head_dim_v);
  if (r->lse) r->lse[lse_row] = sum == 0 ? -INFINITY : largest + log(sum);
  if (r->weights) store_weights(r, s, h, i, probs);
}

attn_status attn_reference(const attn_problem *problem, const attn_io *io, double *out, double *lse,
                           double *weights) {
  attn_problem p;
  if (!io) return core_fail(ATTN_ERROR_NULL, "io is NULL");
  attn_status status = attn_problem_resolve(problem, &p);
  if (status) return status;
  attn_io inputs = *io; // its outputs are not used: any pointer passes for them
  inputs.out = inputs.lse = inputs.weights = (float[1]){ 0 };
  status = problem_check_io(&p, &inputs);
  if (status || !p.batch || !p.heads_q || !(p.varlen ? p.total_q : p.seq_q)) return status;
  if (!out) return core_fail(ATTN_ERROR_NULL, "out is NULL");
  size_t keys = (size_t)p.seq_kv, dim = (size_t)size_max(p.head_dim, p.head_dim_v);
  double *memory = malloc((2 * keys + 2 * dim) * sizeof(double));
  if (!memory)
    return core_fail(ATTN_ERROR_MEMORY, "a row of seq_kv (%zu) scores could not be allocated",
                     keys);
  run r = { &p, io, out, lse, p.weights ? weights : NULL, memory, memory + dim, memory + 2 * dim };
  for (int64_t b = 0; b < p.batch; b++) {
    sequence s = sequence_of(&r, b);
    for (int64_t h = 0; h < p.heads_q; h++)
      for (int64_t i = 0; i < s.seq_q; i++) run_row(&r, &s, h, i, r.scores + keys);
  }
  free(memory);
  return ATTN_OK;
}
