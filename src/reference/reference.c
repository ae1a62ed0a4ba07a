// SPDX-License-Identifier: Apache-2.0
/* Attention in double precision, one row at a time, straight from the semantics in attn.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "core/dtype.h"
#include "core/philox.h"
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

typedef struct sequence {
  int64_t b, seq_q, seq_kv, first_q, first_kv, diagonal;
} sequence;

/* Element at `offset` plus `c` columns; block types have col 1 and offsets on block borders. */
static double element(const void *data, attn_dtype dtype, int64_t offset, int64_t c, int64_t col) {
  const dtype_info *t = dtype_get(dtype);
  int64_t at = offset + c * col;
  if (dtype == ATTN_F64) {
    double x;
    memcpy(&x, (const char *)data + at * 8, sizeof(x));
    return x;
  }
  float block[32];
  t->to_f32((const char *)data + at / t->block * t->block_bytes, block, t->block);
  return (double)block[at % t->block];
}

static int64_t kv_offset(const attn_problem *p, const attn_io *io, const sequence *s,
                         const attn_strides *st, int64_t head, int64_t j, int64_t *token) {
  if (p->page_size) {
    int64_t page = io->block_table[s->b * p->pages_per_seq + j / p->page_size];
    *token = page * p->page_size + j % p->page_size;
    return page * st->batch + head * st->head + j % p->page_size * st->row;
  }
  *token = p->varlen ? s->first_kv + j : s->b * p->seq_kv + j;
  return (p->varlen ? 0 : s->b * st->batch) + head * st->head + (s->first_kv + j) * st->row;
}

static double kv_scale(const attn_problem *p, const float *scales, int64_t token, int64_t head) {
  if (p->kv_dtype == ATTN_INT8) return (double)scales[token * p->heads_kv + head];
  if (p->fp8_scale == ATTN_FP8_SCALE_NONE) return 1;
  return (double)scales[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? head : 0];
}

static double dot(const attn_problem *p, const attn_io *io, const sequence *s, int64_t h, int64_t i,
                  int64_t j) {
  int64_t head = h / (p->heads_q / p->heads_kv), token;
  int64_t q = (p->varlen ? 0 : s->b * p->q_strides.batch) + h * p->q_strides.head +
              (s->first_q + i) * p->q_strides.row;
  int64_t k = kv_offset(p, io, s, &p->k_strides, head, j, &token);
  double sum = 0, q_scale = 1;
  if (p->fp8_scale) q_scale = (double)io->q_scale[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? h : 0];
  for (int64_t c = 0; c < p->head_dim; c++)
    sum += element(io->q, p->dtype, q, c, p->q_strides.col) *
           element(io->k, p->kv_dtype, k, c, p->k_strides.col);
  return sum * q_scale * kv_scale(p, io->k_scale, token, head);
}

/* What the mask adds: -inf removes. */
static double mask_value(const attn_problem *p, const attn_io *io, const sequence *s, int64_t h,
                         int64_t i, int64_t j) {
  const int64_t *st = p->mask_strides;
  if (!p->mask) return 0;
  bool is_short = p->mask_dims[3] > 1 || p->seq_kv <= 1 || p->mask_dims[3] == 0;
  if (is_short && j >= p->mask_dims[3]) return -INFINITY;
  int64_t at = s->b * st[0] + h * st[1] + i * st[2] + j * st[3];
  if (p->mask == ATTN_MASK_BOOL) return ((const uint8_t *)io->mask)[at] ? 0 : -INFINITY;
  return element(io->mask, p->mask_dtype, at, 0, 1);
}

static double capped(const attn_problem *p, double score) {
  double cap = (double)p->softcap;
  return cap > 0 ? cap * tanh(score / cap) : score;
}

/* Scores of one row after masks; raw ones to `weights` where asked for. Keys outside structure are
 * not read, but for the raw scores that were asked for. */
static void score_row(const attn_problem *p, const attn_io *io, const sequence *s, int64_t h,
                      int64_t i, double *scores, double *weights) {
  int64_t begin, end;
  bool raw = weights && (p->weights == ATTN_WEIGHTS_SCORES || p->weights == ATTN_WEIGHTS_CAPPED);
  problem_key_range(p, i, s->seq_q, s->seq_kv, &begin, &end);
  for (int64_t j = 0; j < p->seq_kv; j++) {
    scores[j] = -INFINITY;
    bool inside = j >= begin && j < end;
    if (raw) weights[j] = -INFINITY;
    if (!inside && !(raw && j < s->seq_kv)) continue;
    double x = dot(p, io, s, h, i, j) * (double)p->scale;
    if (raw) weights[j] = p->weights == ATTN_WEIGHTS_SCORES ? x : capped(p, x);
    if (!inside) continue;
    x = capped(p, x);
    if (p->score_mod) {
      float tile = (float)x;
      io->score_mod(io->score_mod_user, &tile, 1, s->b, 1, &h, &i, j, 1);
      x = (double)tile;
    }
    if (p->alibi)
      x -= (double)io->alibi_slopes[s->b * p->alibi_batch_stride + h] *
           fabs((double)(i + s->diagonal - j));
    double m = mask_value(p, io, s, h, i, j);
    scores[j] = m == -INFINITY ? m : x + m;
  }
}

/* Softmax in place; returns LSE. A NaN anywhere makes the whole row NaN. */
static double softmax_row(const attn_problem *p, const attn_io *io, int64_t h, double *scores,
                          bool *empty) {
  double sink = p->sinks ? (double)io->sinks[h] : -INFINITY, top = sink, sum = 0;
  *empty = true;
  for (int64_t j = 0; j < p->seq_kv; j++) {
    if (scores[j] > top) top = scores[j];
    if (scores[j] != -INFINITY) *empty = false;
  }
  double base = top == -INFINITY ? 0 : top;
  for (int64_t j = 0; j < p->seq_kv; j++) sum += scores[j] = exp(scores[j] - base);
  if (p->sinks) sum += exp(sink - base);
  if (sum != 0)
    for (int64_t j = 0; j < p->seq_kv; j++) scores[j] /= sum;
  return sum == 0 ? -INFINITY : base + log(sum);
}

static void value_row(const attn_problem *p, const attn_io *io, const sequence *s, int64_t h,
                      int64_t i, const double *weights, const bool *removed, double *out) {
  int64_t head = h / (p->heads_q / p->heads_kv), token;
  uint64_t row = (uint64_t)((s->b * p->heads_q + h) * p->seq_q + i);
  for (int64_t c = 0; c < p->head_dim_v; c++) out[c] = 0;
  for (int64_t j = 0; j < p->seq_kv; j++) {
    if (removed[j]) continue;
    double w = weights[j];
    if (p->dropout > 0) {
      bool keep = philox_keep(io->dropout_seed, io->dropout_offset, row, (uint64_t)j, p->dropout);
      w = keep ? w / (1 - (double)p->dropout) : 0;
    }
    int64_t at = kv_offset(p, io, s, &p->v_strides, head, j, &token);
    double scale = kv_scale(p, io->v_scale, token, head);
    for (int64_t c = 0; c < p->head_dim_v; c++)
      out[c] += w * scale * element(io->v, p->kv_dtype, at, c, p->v_strides.col);
  }
}

typedef struct row_memory {
  double *scores;
  bool *removed;
} row_memory;

static void run_row(const attn_problem *p, const attn_io *io, const sequence *s, int64_t h,
                    int64_t i, double *out, double *lse, double *weights, row_memory m) {
  int64_t head_row = (s->b * p->heads_q + h) * p->seq_q + i;
  int64_t out_row = p->varlen ? (s->first_q + i) * p->heads_q + h : head_row;
  int64_t lse_row = p->varlen ? h * p->total_q + s->first_q + i : head_row;
  double *w = weights && p->weights != ATTN_WEIGHTS_COLUMN_SUMS ? weights + head_row * p->seq_kv : NULL;
  double *columns = weights && p->weights == ATTN_WEIGHTS_COLUMN_SUMS
                        ? weights + (s->b * p->heads_q + h) * p->seq_kv
                        : NULL;
  bool empty;
  score_row(p, io, s, h, i, m.scores, w);
  for (int64_t j = 0; j < p->seq_kv; j++) m.removed[j] = m.scores[j] == -INFINITY;
  if (w && p->weights == ATTN_WEIGHTS_MASKED) memcpy(w, m.scores, (size_t)p->seq_kv * sizeof(*w));
  double l = softmax_row(p, io, h, m.scores, &empty);
  if (w && p->weights == ATTN_WEIGHTS_PROBS) memcpy(w, m.scores, (size_t)p->seq_kv * sizeof(*w));
  for (int64_t j = 0; columns && j < p->seq_kv; j++) columns[j] += m.scores[j];
  value_row(p, io, s, h, i, m.scores, m.removed, out + out_row * p->head_dim_v);
  if (lse) lse[lse_row] = l;
}

static sequence sequence_of(const attn_problem *p, const attn_io *io, int64_t b) {
  sequence s = { .b = b, .seq_q = p->seq_q, .seq_kv = p->seq_kv };
  if (p->varlen) {
    s.first_q = io->cu_seqlens_q[b];
    s.seq_q = io->cu_seqlens_q[b + 1] - s.first_q;
  }
  if (p->varlen && !p->page_size) {
    s.first_kv = io->cu_seqlens_kv[b];
    s.seq_kv = io->cu_seqlens_kv[b + 1] - s.first_kv;
  }
  if (p->kv_lengths) s.seq_kv = io->kv_len[b];
  s.diagonal = problem_diagonal(p, s.seq_q, s.seq_kv);
  return s;
}

attn_status attn_reference(const attn_problem *problem, const attn_io *io, double *out, double *lse,
                           double *weights) {
  attn_problem p;
  if (!io) return core_fail(ATTN_ERROR_NULL, "io is NULL");
  attn_status status = attn_problem_resolve(problem, &p);
  if (status) return status;
  attn_io checked = *io; // outputs of io are not used: any pointer passes for them
  checked.out = out ? (void *)out : checked.out;
  checked.lse = (float *)(void *)&checked;
  checked.weights = &checked;
  status = problem_check_io(&p, &checked);
  if (status) return status;
  int64_t rows = p.varlen ? p.total_q : p.seq_q;
  if (!p.batch || !p.heads_q || !rows) return ATTN_OK;
  if (!out) return core_fail(ATTN_ERROR_NULL, "out is NULL");
  size_t keys = (size_t)size_max(1, p.seq_kv);
  row_memory m = { malloc(keys * sizeof(double)), malloc(keys * sizeof(bool)) };
  if (!m.scores || !m.removed) {
    free(m.scores), free(m.removed);
    return core_fail(ATTN_ERROR_MEMORY, "a row of %zu scores could not be allocated", keys);
  }
  if (weights && p.weights == ATTN_WEIGHTS_COLUMN_SUMS)
    memset(weights, 0, (size_t)(p.batch * p.heads_q * p.seq_kv) * sizeof(double));
  for (int64_t b = 0; b < p.batch; b++) {
    sequence s = sequence_of(&p, io, b);
    for (int64_t h = 0; h < p.heads_q; h++)
      for (int64_t i = 0; i < s.seq_q; i++) run_row(&p, io, &s, h, i, out, lse, weights, m);
  }
  free(m.scores), free(m.removed);
  return ATTN_OK;
}
