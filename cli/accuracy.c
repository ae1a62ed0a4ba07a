// SPDX-License-Identifier: Apache-2.0
#include "accuracy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const double U = 0x1p-24, TINY = 1e-37;    // TINY: below it f32 loses bits
static const double EXPECTED = 2 * 3 / 1.7320508; // twice three standard deviations of plain

static int64_t rows_of(const attn_problem *p) {
  return p->heads_q * (p->varlen ? p->total_q : p->batch * p->seq_q);
}

/* ---- Reference */

static int size_class(double size) {
  int e = size > 0x1p-8 ? ilogb(fmin(size, 0x1p60)) + 9 : 0;
  return e < ACCURACY_SIZES ? e : ACCURACY_SIZES - 1;
}

static void raise_curve(accuracy_curve *c, double size, double error) {
  double *e = &c->error[size_class(size)];
  if (isfinite(error) && error > *e) *e = error;
}

static void close_curve(accuracy_curve *c) {
  for (int i = 1; i < ACCURACY_SIZES; i++)
    if (c->error[i] < c->error[i - 1]) c->error[i] = c->error[i - 1];
}

static double on_curve(const accuracy_curve *c, double size) { return c->error[size_class(size)]; }

/* No row of plain may be far worse than what its roundings are expected to make it: else plain or
 * the reference is wrong, and bounds made from their difference would excuse anything. */
static void check_plain(const gen_case *c, accuracy_reference *r) {
  const attn_problem *p = &c->problem;
  for (int64_t i = 0; i < rows_of(p) && !r->plain.fault[0]; i++) {
    const plain_row *row = &r->plain.rows[i];
    double scores = 12 * U * row->size, sums = U * (2 * (double)p->seq_kv + 24);
    if (scores < 0.1 && row->out > 2 * row->value * (scores + sums) + TINY)
      snprintf(r->plain.fault, sizeof(r->plain.fault),
               "plain computation and attn_reference differ by %.3g in row %lld", row->out,
               (long long)i);
  }
}

static void make_curves(const gen_case *c, accuracy_reference *r) {
  const plain_result *plain = &r->plain;
  for (int64_t i = 0; i < rows_of(&c->problem); i++) {
    const plain_row *row = &plain->rows[i];
    if (row->value > 0) raise_curve(&r->out_curve, row->size, row->out / row->value);
    raise_curve(&r->lse_curve, row->size, row->lse);
    raise_curve(&r->probability_curve, row->size, row->probability);
  }
  for (size_t i = 0; plain->score_error && i < c->weights_count; i++)
    raise_curve(&r->score_curve, (double)plain->score_size[i], (double)plain->score_error[i]);
  close_curve(&r->out_curve), close_curve(&r->lse_curve);
  close_curve(&r->probability_curve), close_curve(&r->score_curve);
}

bool accuracy_reference_make(const gen_case *c, accuracy_reference *r) {
  const attn_problem *p = &c->problem;
  size_t n = (size_t)(rows_of(p) * p->head_dim_v);
  *r = (accuracy_reference){ 0 };
  r->out = calloc(n + 1, sizeof(double));
  r->lse = calloc((size_t)rows_of(p) + 1, sizeof(double));
  r->weights = p->weights ? calloc(c->weights_count + 1, sizeof(double)) : NULL;
  if (!r->out || !r->lse || attn_reference(p, &c->io, r->out, r->lse, r->weights)) return false;
  attn_problem whole = *p; // which weights are dropped does not change how they are rounded
  whole.dropout = 0, whole.weights = ATTN_WEIGHTS_NONE;
  double *kept = p->dropout > 0 ? calloc(n + 1, sizeof(double)) : r->out;
  bool ok = kept && (kept == r->out || !attn_reference(&whole, &c->io, kept, NULL, NULL)) &&
            plain_run(c, kept, r->lse, r->weights, &r->plain);
  if (kept != r->out) free(kept);
  if (!ok) return false;
  check_plain(c, r);
  make_curves(c, r);
  return true;
}

void accuracy_reference_free(accuracy_reference *r) {
  free(r->out), free(r->lse), free(r->weights);
  plain_free(&r->plain);
  *r = (accuracy_reference){ 0 };
}

/* ---- Bounds */

typedef struct float_type {
  int digits, lowest; /* of the significand, and the exponent of the smallest normal number */
  double overflow;    /* from here on rounding gives infinity, or NaN where there is none */
  bool infinity;
} float_type;

static float_type type_of(attn_dtype t) {
  switch (t) {
  case ATTN_F16:
    return (float_type){ 11, -14, 65520, true };
  case ATTN_BF16:
    return (float_type){ 8, -126, 0x1.ffp127, true };
  case ATTN_F8E4M3:
    return (float_type){ 4, -6, 464, false };
  case ATTN_F8E5M2:
    return (float_type){ 3, -14, 61440, true };
  case ATTN_F64:
    return (float_type){ 53, -1022, INFINITY, true };
  default:
    return (float_type){ 24, -126, 0x1.ffffffp127, true };
  }
}

static double half_unit(const float_type *t, double x) {
  int e = x != 0 && isfinite(x) ? ilogb(x) : t->lowest;
  return ldexp(1, (e > t->lowest ? e : t->lowest) - t->digits);
}

/* Are the sums in double? */
static bool is_wide(const attn_problem *p) { return p->dtype == ATTN_F64 && !p->score_mod; }

static double relative_bound(const gen_case *c, const accuracy_curve *curve, double size) {
  if (is_wide(&c->problem)) return 1e-14 * (1 + size);
  return fmax(fmax(4e-6, 2 * on_curve(curve, size)), EXPECTED * U * size);
}

/* ---- Comparison */

static void fault(accuracy_result *a, const char *what, int64_t i, double got, double want,
                  double bound) {
  a->worst = INFINITY;
  if (a->ok)
    snprintf(a->what, sizeof(a->what), "%s[%lld] is %.9g, reference %.9g, bound %.3g", what,
             (long long)i, got, want, bound);
  a->ok = false;
}

/* One number that may be off by `base` and then rounded by up to `unit`. `either`: infinity and NaN
 * count as one. The ratio is that of what rounding does not explain, which else would hide it. */
static void compare(accuracy_result *a, const char *what, int64_t i, double got, double want,
                    double base, double unit, const float_type *t, bool either) {
  double bound = base + unit;
  if (isinf(want) && !t->infinity) want = NAN;
  if (got == want || (isnan(got) && isnan(want))) return;
  if (either && !isfinite(got) && !isfinite(want)) return;
  if (isfinite(want) && !isfinite(got) && fabs(want) + bound >= t->overflow) {
    bool right = t->infinity ? isinf(got) && (got > 0) == (want > 0) : isnan(got);
    if (right) return;
  }
  double ratio = (fabs(got - want) - unit) / base;
  if (!(ratio <= 1)) fault(a, what, i, got, want, bound);
  if (ratio > a->worst) a->worst = ratio;
}

/* Where row `row` of the reference lies in out. */
static int64_t row_at(const attn_problem *p, const gen_tensor *t, int64_t row) {
  const attn_strides *s = &t->strides;
  if (p->varlen) return row % t->heads * s->head + row / t->heads * s->row;
  return row / t->rows / t->heads * s->batch + row / t->rows % t->heads * s->head +
         row % t->rows * s->row;
}

/* Of a row of out, before the rounding to the output's type. */
static double row_bound(const gen_case *c, const accuracy_reference *r, int64_t row) {
  const plain_row *plain = &r->plain.rows[row];
  double base = plain->value * relative_bound(c, &r->out_curve, plain->size);
  const attn_problem *p = &c->problem;
  if (p->dtype == ATTN_BF16 && p->kv_dtype == ATTN_BF16 && p->out_dtype == ATTN_BF16)
    base += plain->value * 0x1p-9; // weights may be rounded to bf16
  return base / (1 - (double)c->problem.dropout) + TINY;
}

/* Of rounding to the type of out what is within `base` of `want`. f32 sums are f32 already. */
static double out_unit(const gen_case *c, double base, double want) {
  const attn_problem *p = &c->problem;
  float_type t = type_of(p->out_dtype);
  bool rounds = p->out_dtype != ATTN_F32 || is_wide(p);
  return rounds ? half_unit(&t, fabs(want) + base) : 0;
}

static void compare_rows(const gen_case *c, const accuracy_reference *r, accuracy_result *a) {
  const attn_problem *p = &c->problem;
  gen_tensor t = gen_tensor_of(p, GEN_OUT);
  float_type type = type_of(t.dtype);
  double worst = -1;
  for (int64_t row = 0; row < rows_of(p); row++) {
    int64_t at = row_at(p, &t, row);
    double base = row_bound(c, r, row);
    for (int64_t d = 0; d < t.dim; d++) {
      double got = attn_dtype_load(t.dtype, c->io.out, at + d * t.strides.col);
      double want = r->out[row * t.dim + d], error = fabs(got - want);
      double unit = out_unit(c, base, want), bound = base + unit;
      if (r->plain.rows[row].vanished && !isfinite(got)) continue;
      compare(a, "out", row * t.dim + d, got, want, base, unit, &type,
              r->plain.rows[row].underflow);
      if (isfinite(want) && !(error / bound <= worst))
        worst = error / bound, a->error = error, a->bound = bound;
    }
  }
}

static double lse_bound(const gen_case *c, const accuracy_reference *r, int64_t i) {
  const attn_problem *p = &c->problem;
  int64_t row = p->varlen ? i % p->total_q * p->heads_q + i / p->total_q : i;
  return relative_bound(c, &r->lse_curve, r->plain.rows[row].size);
}

static double f32_unit(double want) { return isfinite(want) ? 2 * U * fabs(want) : 0; }

static void compare_lse(const gen_case *c, const accuracy_reference *r, accuracy_result *a) {
  float_type type = type_of(ATTN_F32);
  for (int64_t i = 0; i < (int64_t)c->lse_count; i++)
    compare(a, "lse", i, (double)c->io.lse[i], r->lse[i], lse_bound(c, r, i), f32_unit(r->lse[i]),
            &type, false);
}

static void compare_weights(const gen_case *c, const accuracy_reference *r, accuracy_result *a) {
  const attn_problem *p = &c->problem;
  const plain_row *rows = r->plain.rows;
  float_type type = type_of(ATTN_F32);
  bool sums = p->weights == ATTN_WEIGHTS_COLUMN_SUMS, probs = p->weights == ATTN_WEIGHTS_PROBS;
  for (size_t n = 0; n < c->weights_count; n++) {
    int64_t i = (int64_t)n, row = i / p->seq_kv;
    double got = (double)((const float *)c->io.weights)[i], want = r->weights[i], bound = 0;
    for (int64_t q = 0; sums && q < p->seq_q; q++)
      bound += relative_bound(c, &r->out_curve, rows[row * p->seq_q + q].size);
    if (probs) bound = relative_bound(c, &r->probability_curve, rows[row].size);
    if (!sums && !probs) {
      double size = (double)r->plain.score_size[i];
      bound = is_wide(p) ? 1e-14 * (1 + size)
                         : fmax(2 * on_curve(&r->score_curve, size), EXPECTED * U * size) + TINY;
    }
    bool none = (probs && got == 0) || (sums && isfinite(got));
    if (isnan(want) && none) continue;
    double unit = f32_unit(want) * (sums ? (double)p->seq_q : 1);
    compare(a, "weights", i, got, want, bound, unit, &type, false);
  }
}

accuracy_result accuracy_check(const gen_case *c, const accuracy_reference *r) {
  accuracy_result a = { .ok = true };
  compare_rows(c, r, &a);
  compare_lse(c, r, &a);
  compare_weights(c, r, &a);
  if (r->plain.fault[0]) {
    a.ok = false, a.worst = INFINITY;
    snprintf(a.what, sizeof(a.what), "%s", r->plain.fault);
  }
  return a;
}

bool accuracy_falsify(gen_case *c, const accuracy_reference *r, bool lse, bool nan) {
  const attn_problem *p = &c->problem;
  gen_tensor t = gen_tensor_of(p, GEN_OUT);
  int64_t count = lse ? (int64_t)c->lse_count : rows_of(p) * t.dim;
  uint64_t s = c->seed;
  if (!count) return false;
  for (int64_t n = 0, first = gen_between(&s, 0, count - 1); n < count; n++) {
    int64_t i = (first + n) % count, row = i / t.dim;
    double want = lse ? r->lse[i] : r->out[i];
    if (lse) {
      if (isnan(want)) continue;
      c->io.lse[i] =
          isinf(want) ? -1e30f : (float)(want + 4 * (lse_bound(c, r, i) + f32_unit(want)));
      return true;
    }
    double base = row_bound(c, r, row), wrong = want + 4 * (base + out_unit(c, base, want));
    if (!isfinite(want) || fabs(wrong) >= type_of(t.dtype).overflow) continue;
    float x = nan ? NAN : (float)wrong;
    char *at = (char *)c->io.out +
               (row_at(p, &t, row) + i % t.dim * t.strides.col) * attn_dtype_bytes(t.dtype, 1);
    if (t.dtype == ATTN_F64 && !nan)
      memcpy(at, &wrong, sizeof(wrong));
    else if (attn_dtype_from_f32(t.dtype, &x, at, 1))
      return false;
    return true;
  }
  return false;
}
