// SPDX-License-Identifier: Apache-2.0
#include "plain.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ORDERS = 3, NARROW = ORDERS, PARTS = 8 };

/* One sequence and kv head: its keys and values as f32, and room for a row. */
typedef struct room {
  float *k, *v, *q, *scores, *sizes, *exps, *out;
  bool *removed, *vanished;
} room;

typedef struct run {
  const gen_case *c;
  const attn_problem *p;
  const double *out, *lse, *weights;
  plain_result *result;
  room m;
} run;

typedef struct place {
  int64_t b, h, i;          /* sequence, query head, query */
  int64_t seq_q, seq_kv;    /* of the sequence */
  int64_t first_q, first_k; /* rows of packed tensors */
} place;

/* ---- Inputs as f32 */

static void read_row(const void *data, attn_dtype t, int64_t at, int64_t dim, int64_t col,
                     float scale, float *x) {
  if (col == 1 && t != ATTN_F64)
    attn_dtype_to_f32(t, (const char *)data + attn_dtype_bytes(t, at), x, dim);
  for (int64_t d = 0; d < dim && (col != 1 || t == ATTN_F64); d++)
    x[d] = (float)attn_dtype_load(t, data, at + d * col);
  for (int64_t d = 0; d < dim && scale != 1; d++) x[d] *= scale;
}

static float fp8_factor(const attn_problem *p, attn_dtype t, const float *scales, int64_t head) {
  bool fp8 = t == ATTN_F8E4M3 || t == ATTN_F8E5M2;
  if (!fp8 || !p->fp8_scale) return 1;
  return scales[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? head : 0];
}

static void read_key(const run *r, const place *at, int64_t head, int64_t j, bool value, float *x) {
  const attn_problem *p = r->p;
  const attn_io *io = &r->c->io;
  const attn_strides *s = value ? &p->v_strides : &p->k_strides;
  const float *scales = value ? io->v_scale : io->k_scale;
  int64_t dim = value ? p->head_dim_v : p->head_dim;
  float scale = fp8_factor(p, p->kv_dtype, scales, head);
  bool int8 = p->kv_dtype == ATTN_INT8;
  if (j < p->prefix) {
    const float *own = value ? io->v_prefix_scale : io->k_prefix_scale;
    if (int8) scale = own[j * p->heads_kv + head];
    read_row(value ? io->v_prefix : io->k_prefix, p->kv_dtype, (head * p->prefix + j) * dim, dim, 1,
             scale, x);
    return;
  }
  int64_t outer = p->varlen ? 0 : at->b, row = at->first_k + j - p->prefix;
  int64_t rows = p->seq_kv - p->prefix;
  if (p->page_size) {
    row = j - p->prefix, rows = p->page_size;
    outer = io->block_table[at->b * p->pages_per_seq + row / rows];
    row %= rows;
  }
  if (int8) scale = scales[(outer * rows + row) * p->heads_kv + head];
  read_row(value ? io->v : io->k, p->kv_dtype, outer * s->batch + head * s->head + row * s->row,
           dim, s->col, scale, x);
}

static void read_query(const run *r, const place *at) {
  const attn_problem *p = r->p;
  const attn_strides *s = &p->q_strides;
  int64_t outer = p->varlen ? 0 : at->b, row = at->first_q + at->i;
  read_row(r->c->io.q, p->dtype, outer * s->batch + at->h * s->head + row * s->row, p->head_dim,
           s->col, fp8_factor(p, p->dtype, r->c->io.q_scale, at->h), r->m.q);
}

/* ---- Which keys a query sees */

static int64_t saturated(int64_t a, int64_t b) {
  int64_t x;
  return __builtin_add_overflow(a, b, &x) ? (b > 0 ? INT64_MAX : INT64_MIN) : x;
}

/* The key that the query sits on. */
static int64_t diagonal(const attn_problem *p, const place *at) {
  attn_causal kind = p->causal ? p->causal : p->window_align;
  if (kind == ATTN_CAUSAL_TOP_LEFT) return at->i;
  if (kind == ATTN_CAUSAL_OFFSET) return saturated(p->causal_offset, at->i);
  return at->i + at->seq_kv - at->seq_q;
}

static bool in_structure(const attn_problem *p, const place *at, int64_t j) {
  int64_t own = diagonal(p, at);
  if (p->causal && j > own) return false;
  if (!p->window) return true;
  if (p->window_left >= 0 && j < saturated(own, -p->window_left)) return false;
  return p->window_right < 0 || j <= saturated(own, p->window_right);
}

/* -inf: removed. */
static float mask_of(const run *r, const place *at, int64_t j) {
  const attn_problem *p = r->p;
  const int64_t *n = p->mask_dims, *s = p->mask_strides;
  if (!p->mask) return 0;
  if (n[3] != 1 && j >= n[3]) return -INFINITY;
  int64_t i = (n[0] > 1 ? at->b * s[0] : 0) + (n[1] > 1 ? at->h * s[1] : 0) +
              (n[2] > 1 ? at->i * s[2] : 0) + (n[3] > 1 ? j * s[3] : 0);
  if (p->mask == ATTN_MASK_BOOL) return ((const uint8_t *)r->c->io.mask)[i] ? 0 : -INFINITY;
  return (float)attn_dtype_load(p->mask_dtype, r->c->io.mask, i);
}

/* ---- Scores */

static float sum_of(const float *a, const float *b, int64_t n, int order) {
  float parts[PARTS] = { 0 }, sum = 0;
  for (int64_t i = 0; i < n && order == 0; i++) sum += a[i] * b[i];
  for (int64_t i = n - 1; i >= 0 && order == 1; i--) sum += a[i] * b[i];
  if (order < 2) return sum;
  for (int64_t i = 0; i < n; i++) parts[i % PARTS] += a[i] * b[i];
  for (int i = 0; i < PARTS; i++) sum += parts[i];
  return sum;
}

static float narrow(attn_dtype t, float x) {
  uint64_t bits = 0;
  float y = x;
  if (t != ATTN_F16 && t != ATTN_BF16) return x;
  attn_dtype_from_f32(t, &x, &bits, 1);
  attn_dtype_to_f32(t, &bits, &y, 1);
  return y;
}

static void note_score(const run *r, const place *at, int64_t j, attn_weights stage, double got,
                       double size) {
  const attn_problem *p = r->p;
  if (p->weights != stage || !r->result->score_error) return;
  int64_t w = ((at->b * p->heads_q + at->h) * p->seq_q + at->i) * p->seq_kv + j;
  float error = (float)fabs(got - r->weights[w]);
  if (isfinite(error) && error > r->result->score_error[w]) r->result->score_error[w] = error;
  if (isfinite(size) && size > (double)r->result->score_size[w])
    r->result->score_size[w] = (float)size;
}

/* Squares of all numbers that are rounded on the way to a dot product. */
static float squares_of(const float *a, const float *b, int64_t n) {
  float sum = 0, squares = 0;
  for (int64_t i = 0; i < n; i++) {
    float term = a[i] * b[i];
    sum += term;
    squares += term * term + sum * sum;
  }
  return squares;
}

/* Score j, and (order 0) the root of the squares of all numbers that were rounded on the way. */
static float score_of(const run *r, const place *at, int64_t j, float mask, int order,
                      float *size) {
  const attn_problem *p = r->p;
  const float *q = r->m.q, *k = r->m.k + j * p->head_dim;
  float s = p->scale * sum_of(q, k, p->head_dim, order == NARROW ? 0 : order), z = 0;
  if (order == NARROW) s = narrow(p->dtype, s);
  if (order == 0) z = hypotf(fabsf(p->scale) * sqrtf(squares_of(q, k, p->head_dim)), s);
  note_score(r, at, j, ATTN_WEIGHTS_SCORES, (double)s, (double)z);
  if (p->softcap > 0) {
    float t = tanhf(s / p->softcap);
    s = p->softcap * t;
    z = hypotf(z * (1 - t * t), s);
  }
  note_score(r, at, j, ATTN_WEIGHTS_CAPPED, (double)s, (double)z);
  if (p->score_mod) {
    r->c->io.score_mod(r->c->io.score_mod_user, &s, 1, at->b, 1, &at->h, &at->i, j, 1);
    z = hypotf(z, s);
  }
  if (p->alibi) {
    float slope = r->c->io.alibi_slopes[at->b * p->alibi_batch_stride + at->h];
    float bias = -slope * fabsf((float)(diagonal(p, at) - j));
    s += bias;
    z = hypotf(z, hypotf(bias, s));
  }
  s += mask;
  z = fabsf(mask) < 1e30f ? hypotf(z, s) : 0; // the lowest numbers swallow any score: no error
  if (order == NARROW) s = narrow(p->dtype, s);
  if (mask != -INFINITY) note_score(r, at, j, ATTN_WEIGHTS_MASKED, (double)s, (double)z);
  *size = z;
  return s;
}

/* Scores of a row, removed keys as -inf; returns the largest. */
static float score_row(const run *r, const place *at, int order) {
  const attn_problem *p = r->p;
  const room *m = &r->m;
  bool raw = p->weights == ATTN_WEIGHTS_SCORES || p->weights == ATTN_WEIGHTS_CAPPED;
  float top = p->sinks ? r->c->io.sinks[at->h] : -INFINITY, size = 0;
  for (int64_t j = 0; j < at->seq_kv; j++) {
    bool inside = in_structure(p, at, j);
    float mask = inside ? mask_of(r, at, j) : -INFINITY;
    m->removed[j] = mask == -INFINITY;
    m->scores[j] = -INFINITY;
    if (!m->removed[j] || raw) {
      float s = score_of(r, at, j, m->removed[j] ? 0 : mask, order, &size);
      if (!m->removed[j]) m->scores[j] = s;
    }
    m->vanished[j] = !m->removed[j] && m->scores[j] == -INFINITY;
    m->removed[j] |= m->scores[j] == -INFINITY;
    if (order == 0) m->sizes[j] = m->removed[j] ? 0 : size;
    if (m->scores[j] > top) top = m->scores[j];
  }
  return top;
}

/* ---- Softmax and values */

static double error_of(float got, double want) {
  double e = fabs((double)got - want);
  return isfinite(e) ? e : 0;
}

static float add_up(const float *x, int64_t n, int order) {
  float parts[PARTS] = { 0 }, sum = 0;
  for (int64_t i = 0; i < n && order < 2; i++) sum += x[order == 1 ? n - 1 - i : i];
  if (order < 2) return sum;
  for (int64_t i = 0; i < n; i++) parts[i % PARTS] += x[i];
  for (int i = 0; i < PARTS; i++) sum += parts[i];
  return sum;
}

/* The largest value attended, what roundings of the scores weigh, and weights that vanish. */
static void measure(const run *r, const place *at, float top, float sum, plain_row *row) {
  const room *m = &r->m;
  for (int64_t j = 0; j < at->seq_kv; j++) {
    const float *v = m->v + j * r->p->head_dim_v;
    for (int64_t d = 0; m->vanished[j] && d < r->p->head_dim_v; d++)
      if (!isfinite(v[d])) row->vanished = true;
    if (m->removed[j]) continue;
    for (int64_t d = 0; d < r->p->head_dim_v; d++)
      if (isfinite(v[d]) && (double)fabsf(v[d]) > row->value) row->value = (double)fabsf(v[d]);
    double part = (double)(m->exps[j] / sum) * (double)m->sizes[j];
    if (isfinite(part)) row->size += part; // not squared: equal keys have equal errors
    if (m->scores[j] - top < -85) row->underflow = true;
  }
  double sink = r->p->sinks ? (double)r->c->io.sinks[at->h] : 0;
  double part = sink != 0 ? exp(sink - (double)top) / (double)sum * fabs(sink) : 0;
  if (isfinite(part)) row->size += part;
  if (row->size * 0x1p-24 > 0.01) row->underflow = true; // rounding decides what vanishes
}

static void note_kind(const run *r, const place *at, int64_t d, float got, double want) {
  plain_result *p = r->result;
  if (isnan(want) == isnan(got) && isinf(want) == isinf(got)) return;
  if (!p->fault[0])
    snprintf(p->fault, sizeof(p->fault),
             "plain computation and attn_reference differ: batch %lld head %lld query %lld column "
             "%lld is %g and %g",
             (long long)at->b, (long long)at->h, (long long)at->i, (long long)d, (double)got, want);
}

/* out = sum of weights times values. Orders 0 and 1 divide the weights first, order 2 the sum last.
 */
static void value_row(const run *r, const place *at, float sum, int order, plain_row *row,
                      const double *want) {
  const room *m = &r->m;
  int64_t dim = r->p->head_dim_v, n = at->seq_kv;
  for (int64_t d = 0; d < dim; d++) m->out[d] = 0;
  for (int64_t i = 0; i < n; i++) {
    int64_t j = order == 1 ? n - 1 - i : i;
    if (m->removed[j]) continue;
    float w = order == 2 ? m->exps[j] : m->exps[j] / sum;
    if (order == NARROW) w = narrow(r->p->dtype, w);
    const float *v = m->v + j * dim;
    for (int64_t d = 0; d < dim; d++) m->out[d] += w * v[d];
  }
  for (int64_t d = 0; d < dim; d++) {
    float x = order == 2 && m->out[d] != 0 ? m->out[d] / sum : m->out[d];
    if (order == 0 && !row->underflow) note_kind(r, at, d, x, want[d]);
    if (order == NARROW) x = narrow(r->p->out_dtype, x);
    double e = error_of(x, want[d]);
    bool same_type = order == NARROW || (order == 0 && narrow(r->p->dtype, 1 + 0x1p-20f) != 1);
    if (same_type && e > r->result->narrow_error) r->result->narrow_error = e;
    if (order != NARROW && e > row->out) row->out = e;
  }
}

static void one_order(const run *r, const place *at, int order, plain_row *row, const double *want,
                      double want_lse) {
  const attn_problem *p = r->p;
  const room *m = &r->m;
  float top = score_row(r, at, order), sink = p->sinks ? r->c->io.sinks[at->h] : -INFINITY;
  float base = top == -INFINITY ? 0 : top;
  for (int64_t j = 0; j < at->seq_kv; j++)
    m->exps[j] = m->removed[j] ? 0 : expf(m->scores[j] - base);
  float sum = add_up(m->exps, at->seq_kv, order == NARROW ? 0 : order) + expf(sink - base);
  if (order == 0) measure(r, at, base, sum, row);
  value_row(r, at, sum, order, row, want);
  if (order == NARROW) return;
  double e = sum == 0 ? 0 : error_of(base + logf(sum), want_lse);
  if (e > row->lse) row->lse = e;
  if (p->weights != ATTN_WEIGHTS_PROBS) return;
  const double *probs = r->weights + ((at->b * p->heads_q + at->h) * p->seq_q + at->i) * p->seq_kv;
  for (int64_t j = 0; j < at->seq_kv; j++) {
    e = m->removed[j] ? 0 : error_of(m->exps[j] / sum, probs[j]);
    if (e > row->probability) row->probability = e;
  }
}

/* ---- All rows */

static void run_row(const run *r, const place *at) {
  const attn_problem *p = r->p;
  int64_t row = (at->b * p->heads_q + at->h) * p->seq_q + at->i, lse = row;
  if (p->varlen) {
    row = (at->first_q + at->i) * p->heads_q + at->h;
    lse = at->h * p->total_q + at->first_q + at->i;
  }
  bool narrows = p->dtype == ATTN_F16 || p->dtype == ATTN_BF16;
  read_query(r, at);
  for (int order = 0; order < ORDERS + narrows; order++)
    one_order(r, at, order, &r->result->rows[row], r->out + row * p->head_dim_v, r->lse[lse]);
}

static void run_sequence(const run *r, int64_t b) {
  const attn_problem *p = r->p;
  const attn_io *io = &r->c->io;
  place at = { .b = b, .seq_q = p->seq_q, .seq_kv = p->seq_kv };
  if (p->varlen) at.first_q = io->cu_seqlens_q[b], at.seq_q = io->cu_seqlens_q[b + 1] - at.first_q;
  if (p->varlen && !p->page_size) {
    at.first_k = io->cu_seqlens_kv[b];
    at.seq_kv = p->prefix + io->cu_seqlens_kv[b + 1] - at.first_k;
  }
  if (p->kv_lengths) at.seq_kv = io->kv_len[b];
  int64_t group = p->heads_q / p->heads_kv;
  for (int64_t head = 0; head < p->heads_kv; head++) {
    for (int64_t j = 0; j < at.seq_kv; j++) {
      read_key(r, &at, head, j, false, r->m.k + j * p->head_dim);
      read_key(r, &at, head, j, true, r->m.v + j * p->head_dim_v);
    }
    for (at.h = head * group; at.h < (head + 1) * group; at.h++)
      for (at.i = 0; at.i < at.seq_q; at.i++) run_row(r, &at);
  }
}

bool plain_run(const gen_case *c, const double *out, const double *lse, const double *weights,
               plain_result *result) {
  const attn_problem *p = &c->problem;
  *result = (plain_result){ 0 };
  int64_t rows = p->heads_q * (p->varlen ? p->total_q : p->batch * p->seq_q), n = p->seq_kv;
  bool scores = p->weights && p->weights < ATTN_WEIGHTS_PROBS;
  int64_t floats = n * (p->head_dim + p->head_dim_v + 3) + p->head_dim + p->head_dim_v;
  float *memory = malloc((size_t)(floats + 1) * sizeof(float));
  bool *removed = malloc(2 * (size_t)n + 1);
  result->rows = calloc((size_t)rows + 1, sizeof(plain_row));
  if (scores) {
    result->score_size = calloc(c->weights_count + 1, sizeof(float));
    result->score_error = calloc(c->weights_count + 1, sizeof(float));
  }
  bool ok =
      memory && removed && result->rows && (!scores || (result->score_size && result->score_error));
  if (ok && rows) {
    run r = { .c = c, .p = p, .out = out, .lse = lse, .weights = weights, .result = result };
    float *at = memory;
    r.m = (room){ .removed = removed, .vanished = removed + n };
    r.m.k = at, at += n * p->head_dim;
    r.m.v = at, at += n * p->head_dim_v;
    r.m.scores = at, at += n;
    r.m.sizes = at, at += n;
    r.m.exps = at, at += n;
    r.m.q = at, at += p->head_dim;
    r.m.out = at;
    for (int64_t b = 0; b < p->batch; b++) run_sequence(&r, b);
  }
  free(memory), free(removed);
  if (!ok) plain_free(result);
  return ok;
}

void plain_free(plain_result *r) {
  free(r->rows), free(r->score_size), free(r->score_error);
  *r = (plain_result){ 0 };
}
