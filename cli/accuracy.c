// SPDX-License-Identifier: Apache-2.0
#include "accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double U = 0x1p-24;

static int64_t rows_of(const attn_problem *p) {
  return p->heads_q * (p->varlen ? p->total_q : p->batch * p->seq_q);
}

bool accuracy_reference_make(const gen_case *c, accuracy_reference *r) {
  const attn_problem *p = &c->problem;
  size_t n = (size_t)(rows_of(p) * p->head_dim_v);
  r->out = calloc(n + 1, sizeof(double));
  r->lse = calloc((size_t)rows_of(p) + 1, sizeof(double));
  r->weights = p->weights ? calloc(c->weights_count + 1, sizeof(double)) : NULL;
  return r->out && r->lse && !attn_reference(p, &c->io, r->out, r->lse, r->weights);
}

void accuracy_reference_free(accuracy_reference *r) {
  free(r->out), free(r->lse), free(r->weights);
  *r = (accuracy_reference){ 0 };
}

/* Half a unit in the last place of x in the output type. */
static double rounding(attn_dtype t, double x) {
  double a = fabs(x);
  switch (t) {
  case ATTN_F16: return fmax(a * 0x1p-11, 0x1p-25);
  case ATTN_BF16: return a * 0x1p-8;
  case ATTN_F8E4M3: return fmax(a * 0x1p-4, 0x1p-10);
  case ATTN_F8E5M2: return fmax(a * 0x1p-3, 0x1p-17);
  default: return 0;
  }
}

static double largest_finite(attn_dtype t) {
  switch (t) {
  case ATTN_F16: return 65504;
  case ATTN_F8E4M3: return 448;
  case ATTN_F8E5M2: return 57344;
  case ATTN_F64: return 1e308;
  default: return 3.4e38;
  }
}

static void fault(accuracy_result *a, const char *what, int64_t i, double got, double want) {
  if (a->ok) snprintf(a->what, sizeof(a->what), "%s[%lld] is %.9g, reference %.9g", what, (long long)i, got, want);
  a->ok = false;
}

/* One number: equal kinds of non-finite, or a difference within `bound`. */
static void compare(accuracy_result *a, const char *what, int64_t i, double got, double want, double bound, double most) {
  if (isnan(want)) {
    if (!isnan(got)) fault(a, what, i, got, want), a->worst = INFINITY;
    return;
  }
  if (got == want) return;
  if (fabs(want) > most * (1 - 0x1p-4) && !isfinite(got)) return; // overflows the output type
  double error = fabs(got - want), ratio = error / bound;
  if (!(ratio <= 1)) fault(a, what, i, got, want);
  if (!(ratio <= a->worst)) a->worst = isnan(ratio) ? INFINITY : ratio;
}

/* Offset of row (outer, head, row) in the output, and marks its elements as written. */
static void check_output(const gen_case *c, const accuracy_reference *r, accuracy_result *a) {
  const attn_problem *p = &c->problem;
  int64_t outer = p->varlen ? 1 : p->batch, count = p->varlen ? p->total_q : p->seq_q, dim = p->head_dim_v;
  int64_t size = attn_dtype_bytes(p->out_dtype, 1);
  bool *written = calloc(c->out_bytes / (size_t)size + 1, sizeof(bool));
  bool wide = p->dtype == ATTN_F64 && !p->score_mod; // a callback's tiles are f32
  double base = wide ? 1e-12 * (1 + c->score_size) * c->max_value
                     : c->max_value * fmax(4e-6, U * (16 + 4 * c->score_size));
  if (wide && p->out_dtype == ATTN_F32) base += U * c->max_value;
  base = base / (1 - (double)p->dropout) + 1e-37;
  for (int64_t b = 0; written && b < outer; b++)
    for (int64_t h = 0; h < p->heads_q; h++)
      for (int64_t i = 0; i < count; i++)
        for (int64_t d = 0; d < dim; d++) {
          int64_t at = b * p->out_strides.batch + h * p->out_strides.head + i * p->out_strides.row + d * p->out_strides.col;
          int64_t row = p->varlen ? i * p->heads_q + h : (b * p->heads_q + h) * count + i;
          double want = r->out[row * dim + d], got = attn_dtype_load(p->out_dtype, c->io.out, at);
          double bound = base + rounding(p->out_dtype, want) * 1.01;
          written[at] = true;
          compare(a, "out", row * dim + d, got, want, bound, largest_finite(p->out_dtype));
          if (isfinite(want) && fabs(got - want) > a->error) a->error = fabs(got - want), a->bound = bound;
          if (a->bound == 0) a->bound = bound;
        }
  for (size_t i = 0; written && i < c->out_bytes; i++)
    if (!written[i / (size_t)size] && ((const unsigned char *)c->io.out)[i] != 0xa5) {
      fault(a, "a byte between output rows, byte", (int64_t)i, ((const unsigned char *)c->io.out)[i], 0xa5);
      break;
    }
  free(written);
}

accuracy_result accuracy_check(const gen_case *c, const accuracy_reference *r) {
  const attn_problem *p = &c->problem;
  accuracy_result a = { .ok = true };
  double score = p->dtype == ATTN_F64 && !p->score_mod ? 1e-12 * (1 + c->score_size) : 1e-6 + U * (16 + 4 * c->score_size);
  check_output(c, r, &a);
  for (size_t i = 0; i < c->lse_count; i++) // f32 itself rounds large ones
    compare(&a, "lse", (int64_t)i, (double)c->io.lse[i], r->lse[i], score + 2 * U * fabs(r->lse[i]), 3.4e38);
  for (size_t i = 0; i < c->weights_count; i++)
    compare(&a, "weights", (int64_t)i, (double)((const float *)c->io.weights)[i], r->weights[i],
            (score + 2 * U * fabs(r->weights[i])) * (p->weights == ATTN_WEIGHTS_COLUMN_SUMS ? 1 + (double)p->seq_q : 1), 3.4e38);
  return a;
}
