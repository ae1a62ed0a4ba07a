// SPDX-License-Identifier: Apache-2.0
/* Every SIMD kernel against the scalar one: random sizes, guard pages behind every buffer, poisoned
 * outputs. A tile is filled per row, so tables of different widths see the same rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/dtype.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "random.h"

enum { ROUNDS = 200, MAX_DIM = 150, MAX_COUNT = 150 };
static uint64_t state;

/* A tile of one table: every buffer guarded, all lanes of a row-form input. */
typedef struct rig {
  const kernel_table *t;
  int vectors, lanes, keys;
  int64_t dim, ld;
  guarded rows, k, v, qt, p, ot, alive, bias, out;
} rig;

static float *f(guarded g) { return g.data; }

static rig rig_new(const kernel_table *t, int vectors, int keys, int64_t dim, int64_t ld) {
  rig r = { .t = t, .vectors = vectors, .lanes = vectors * t->width, .keys = keys, .dim = dim, .ld = ld };
  size_t lanes = (size_t)r.lanes, d = (size_t)dim, n = (size_t)keys;
  r.rows = guarded_new(lanes * d * 4);
  r.k = guarded_new(((n - 1) * (size_t)ld + d) * 4);
  r.v = guarded_new(((n - 1) * (size_t)ld + d) * 4);
  r.qt = guarded_new(d * lanes * 4);
  r.p = guarded_new(n * lanes * 4);
  r.ot = guarded_new(d * lanes * 4);
  r.alive = guarded_new(n * lanes * 4);
  r.bias = guarded_new(lanes * n * 4);
  r.out = guarded_new(lanes * d * 4);
  return r;
}

static void rig_free(rig *r) {
  guarded *all[] = { &r->rows, &r->k, &r->v, &r->qt, &r->p, &r->ot, &r->alive, &r->bias, &r->out };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) guarded_free(all[i]);
}

/* Values for row `lane` come from the lane's number alone. */
static float value_of(int kind, int lane, int64_t i) {
  uint64_t s = (uint64_t)kind * 1000003u + (uint64_t)lane * 7919u + (uint64_t)i + 12345u + state;
  return random_float(&s);
}

static void fill(rig *r, bool masked) {
  for (int i = 0; i < r->lanes; i++) {
    for (int64_t c = 0; c < r->dim; c++) f(r->rows)[i * r->dim + c] = value_of(1, i, c);
    for (int j = 0; j < r->keys; j++) {
      bool out = masked && (i + j) % 4 == 0;
      f(r->bias)[i * r->keys + j] = out ? -INFINITY : value_of(2, i, j);
    }
  }
  for (int j = 0; j < r->keys; j++)
    for (int64_t c = 0; c < r->ld; c++) {
      if (j == r->keys - 1 && c >= r->dim) break;
      bool padding = c >= r->dim; // between rows: must not be read
      f(r->k)[j * r->ld + c] = padding ? NAN : value_of(3, j, c);
      f(r->v)[j * r->ld + c] = padding ? NAN : value_of(4, j, c);
    }
}

static void load(rig *r, float scale, int missing) {
  const float *rows[KERNEL_MAX_LANES];
  for (int i = 0; i < r->lanes; i++) rows[i] = i == missing ? NULL : f(r->rows) + i * r->dim;
  r->t->load_queries(rows, r->vectors, r->dim, scale, f(r->qt));
}

static void near(float a, float b, float tolerance, const char *what, const rig *r) {
  bool same = (isnan(a) && isnan(b)) || a == b || fabsf(a - b) <= tolerance * (1 + fabsf(b));
  if (!same)
    fail_msg("%s of %s: %a, scalar has %a (vectors %d keys %d dim %lld ld %lld state %llu)", what,
             r->t->name, (double)a, (double)b, r->vectors, r->keys, (long long)r->dim,
             (long long)r->ld, (unsigned long long)state);
}

/* Scalar rigs of one vector, enough to hold the lanes of `r`, side by side. */
typedef struct pair {
  rig simd, scalar;
  int base; /* lane of simd that the scalar rig's lane 0 stands for */
} pair;

static void check_tile(const pair *x, guarded a, guarded b, int64_t count, float tolerance,
                       const char *what) {
  for (int64_t i = 0; i < count; i++)
    for (int l = 0; l < x->scalar.lanes; l++)
      near(f(a)[i * x->simd.lanes + x->base + l], f(b)[i * x->scalar.lanes + l], tolerance, what,
           &x->simd);
}

/* Shifts the row-form inputs of the scalar rig so that its lane 0 is lane `base`. */
static void align_rows(pair *x) {
  for (int l = 0; l < x->scalar.lanes; l++) {
    memcpy(f(x->scalar.rows) + l * x->scalar.dim, f(x->simd.rows) + (x->base + l) * x->simd.dim,
           (size_t)x->simd.dim * 4);
    memcpy(f(x->scalar.bias) + l * x->scalar.keys, f(x->simd.bias) + (x->base + l) * x->simd.keys,
           (size_t)x->simd.keys * 4);
  }
}

typedef struct lane_state {
  _Alignas(64) float max[KERNEL_MAX_LANES], new_max[KERNEL_MAX_LANES], sum[KERNEL_MAX_LANES];
  _Alignas(64) float alpha[KERNEL_MAX_LANES], slope[KERNEL_MAX_LANES], factor[KERNEL_MAX_LANES];
  int32_t low[KERNEL_MAX_LANES], high[KERNEL_MAX_LANES], position[KERNEL_MAX_LANES];
} lane_state;

static void lanes_fill(lane_state *l, int base, int count, int keys) {
  for (int i = 0; i < count; i++) {
    int lane = base + i;
    l->max[i] = lane % 3 ? value_of(5, lane, 0) : -INFINITY;
    l->new_max[i] = l->max[i];
    l->sum[i] = lane % 3 ? 1 + value_of(6, lane, 0) : 0;
    l->slope[i] = 0.1f * (float)(lane % 5);
    l->factor[i] = value_of(7, lane, 0);
    l->low[i] = lane % 4 - 1;
    l->high[i] = lane % 6 == 5 ? 0 : keys + 2 - lane % 5;
    l->position[i] = lane - 3;
  }
}

/* Runs every entry on one rig, in the order a block runs them, and keeps what each made. */
typedef struct results {
  lane_state l;
  guarded scores, capped, masked, weights;
} results;

static guarded keep(const rig *r) {
  guarded g = guarded_new((size_t)r->keys * (size_t)r->lanes * 4);
  memcpy(g.data, r->p.data, (size_t)r->keys * (size_t)r->lanes * 4);
  return g;
}

static results run(rig *r, int base, bool natural, bool shared_bias, int missing) {
  results x;
  const kernel_table *t = r->t;
  float *outs[KERNEL_MAX_LANES];
  lanes_fill(&x.l, base, r->lanes, r->keys);
  load(r, 1.7f, missing - base);
  t->scores(f(r->k), r->ld, r->keys, f(r->qt), r->dim, r->vectors, f(r->p), x.l.new_max);
  x.scores = keep(r);
  t->softcap(f(r->p), r->keys, r->vectors, 3.0f);
  x.capped = keep(r);
  t->alibi(f(r->p), r->keys, r->vectors, x.l.slope, x.l.position);
  t->add_bias(f(r->p), r->keys, r->vectors, f(r->bias), shared_bias ? 0 : r->keys);
  t->limit(f(r->p), r->keys, r->vectors, x.l.low, x.l.high);
  x.masked = keep(r);
  t->row_max(f(r->p), r->keys, r->vectors, x.l.new_max);
  t->alive(f(r->p), r->keys, r->vectors, r->alive.data);
  t->softmax(f(r->p), r->keys, r->vectors, x.l.max, x.l.new_max, x.l.alpha, x.l.sum, natural);
  x.weights = keep(r);
  for (int64_t c = 0; c < r->dim; c++)
    for (int i = 0; i < r->lanes; i++) f(r->ot)[c * r->lanes + i] = value_of(8, base + i, c);
  t->values(f(r->v), r->ld, r->keys, f(r->p), r->dim, r->vectors, x.l.alpha, f(r->ot));
  for (int i = 0; i < r->lanes; i++) outs[i] = i == missing - base ? NULL : f(r->out) + i * r->dim;
  t->store_rows(f(r->ot), r->dim, r->vectors, x.l.factor, outs);
  return x;
}

static void results_free(results *x) {
  guarded *all[] = { &x->scores, &x->capped, &x->masked, &x->weights };
  for (int i = 0; i < 4; i++) guarded_free(all[i]);
}

static void compare_round(const kernel_table *t) {
  int vectors = (int)random_int(&state, 1, KERNEL_MAX_VECTORS);
  int keys = (int)random_int(&state, 1, MAX_COUNT);
  int64_t dim = random_int(&state, 1, MAX_DIM), ld = dim + random_int(&state, 0, 9);
  bool natural = random_int(&state, 0, 1), shared = random_int(&state, 0, 1);
  pair x = { .simd = rig_new(t, vectors, keys, dim, ld) };
  int missing = (int)random_int(&state, 0, 2 * x.simd.lanes);
  fill(&x.simd, true);
  results a = run(&x.simd, 0, natural, shared, missing);
  for (x.base = 0; x.base < x.simd.lanes; x.base += kernel_scalar.width) {
    x.scalar = rig_new(&kernel_scalar, 1, keys, dim, ld);
    fill(&x.scalar, true);
    align_rows(&x);
    if (shared) memcpy(x.scalar.bias.data, x.simd.bias.data, (size_t)keys * 4);
    results b = run(&x.scalar, x.base, natural, shared, missing);
    check_tile(&x, x.simd.qt, x.scalar.qt, dim, 0, "load_queries");
    check_tile(&x, a.scores, b.scores, keys, 2e-6f * 10, "scores");
    check_tile(&x, a.capped, b.capped, keys, 2e-5f, "softcap");
    check_tile(&x, a.masked, b.masked, keys, 2e-5f, "alibi, add_bias, limit");
    check_tile(&x, a.weights, b.weights, keys, 5e-5f, "softmax");
    check_tile(&x, x.simd.ot, x.scalar.ot, dim, 2e-4f, "values");
    for (int i = 0; i < x.scalar.lanes; i++) {
      near(a.l.new_max[x.base + i], b.l.new_max[i], 2e-5f, "row_max", &x.simd);
      near(a.l.sum[x.base + i], b.l.sum[i], 2e-4f, "softmax sum", &x.simd);
      near(a.l.alpha[x.base + i], b.l.alpha[i], 5e-5f, "softmax alpha", &x.simd);
      if (x.base + i == missing) continue;
      for (int64_t c = 0; c < dim; c++)
        near(f(x.simd.out)[(x.base + i) * dim + c], f(x.scalar.out)[i * dim + c], 2e-4f,
             "store_rows", &x.simd);
    }
    results_free(&b);
    rig_free(&x.scalar);
  }
  results_free(&a);
  rig_free(&x.simd);
}

/* values_masked gives the bits of values, and keeps what is not alive out. */
static void masked_round(const kernel_table *t) {
  int vectors = (int)random_int(&state, 1, KERNEL_MAX_VECTORS);
  int keys = (int)random_int(&state, 2, MAX_COUNT), poisoned = (int)random_int(&state, 0, keys - 1);
  int64_t dim = random_int(&state, 1, MAX_DIM);
  rig r = rig_new(t, vectors, keys, dim, dim);
  fill(&r, false);
  uint32_t *alive = r.alive.data;
  size_t bytes = (size_t)dim * (size_t)r.lanes * 4;
  _Alignas(64) float alpha[KERNEL_MAX_LANES];
  guarded other = guarded_new(bytes);
  for (int i = 0; i < r.lanes; i++) alpha[i] = value_of(9, i, 0);
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < r.lanes; i++) {
      bool dead = j == poisoned || (i + j) % 3 == 0;
      f(r.p)[j * r.lanes + i] = dead ? 0 : fabsf(value_of(10, i, j));
      alive[j * r.lanes + i] = dead ? 0 : UINT32_MAX;
    }
  for (int64_t c = 0; c < dim * r.lanes; c++) f(r.ot)[c] = f(other)[c] = value_of(11, 0, c);
  t->values(f(r.v), dim, keys, f(r.p), dim, vectors, alpha, f(r.ot));
  for (int64_t c = 0; c < dim; c++) f(r.v)[poisoned * dim + c] = c % 2 ? NAN : INFINITY;
  t->values_masked(f(r.v), dim, keys, f(r.p), alive, dim, vectors, alpha, f(other));
  for (int64_t c = 0; c < dim * r.lanes; c++)
    near(f(other)[c], f(r.ot)[c], 0, "values_masked", &r);
  guarded_free(&other);
  rig_free(&r);
}

static const void *source_row(guarded g, attn_dtype type, int64_t offset) {
  return (const char *)g.data + offset * (type == ATTN_F32 ? 4 : 2);
}

/* The kernels for few rows, in every type they read, against scalar; a row's bits do not depend on how
 * many rows there are. */
static void narrow_round(const kernel_table *t) {
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
  attn_dtype type = types[random_int(&state, 0, 2)];
  int rows = (int)random_int(&state, 1, KERNEL_NARROW_ROWS), keys = (int)random_int(&state, 1, 40);
  int lanes = rows <= t->width ? t->width : 2 * t->width, slanes = 2 * kernel_scalar.width;
  int64_t dim = random_int(&state, 1, MAX_DIM), ld = dim + random_int(&state, 0, 5);
  int64_t ldq = (dim + 15) / 16 * 16;
  size_t element = type == ATTN_F32 ? 4 : 2, count = (size_t)((keys - 1) * ld + dim);
  rig r = { .t = t, .vectors = 1, .keys = keys, .dim = dim, .ld = ld };
  guarded k = guarded_new(count * element), q = guarded_new(8 * (size_t)ldq * 4);
  guarded p[3], o[3], alive = guarded_new((size_t)keys * KERNEL_MAX_LANES * 4);
  for (int i = 0; i < 3; i++) {
    p[i] = guarded_new((size_t)keys * (size_t)(i ? lanes : slanes) * 4);
    o[i] = guarded_new(8 * (size_t)ldq * 4);
    memset(o[i].data, 0, 8 * (size_t)ldq * 4);
  }
  for (size_t i = 0; i < count; i++) { // any finite pattern: the upper half of a float is a bf16
    float x = value_of(20, 0, (int64_t)i);
    if (type == ATTN_F32) f(k)[i] = x;
    else ((uint16_t *)k.data)[i] = type == ATTN_F16 ? dtype_f32_to_f16(x) : dtype_f32_to_bf16(x);
  }
  for (int i = 0; i < rows; i++)
    for (int64_t c = 0; c < ldq; c++) f(q)[i * ldq + c] = c < dim ? value_of(21, i, c) : 0;
  _Alignas(64) float alpha[KERNEL_MAX_LANES];
  for (int i = 0; i < KERNEL_MAX_LANES; i++) alpha[i] = value_of(22, i, 0);
  kernel_scalar.narrow_scores(type, k.data, ld, keys, f(q), ldq, rows, dim, slanes, f(p[0]));
  t->narrow_scores(type, k.data, ld, keys, f(q), ldq, rows, dim, lanes, f(p[1]));
  t->narrow_scores(type, k.data, ld, keys, f(q), ldq, 1, dim, lanes, f(p[2]));
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++) {
      float x = f(p[1])[j * lanes + i];
      near(x, i < slanes ? f(p[0])[j * slanes + i] : 0, 2e-5f, "narrow_scores", &r);
      if (i == 0) near(f(p[2])[j * lanes], x, 0, "narrow_scores of one row", &r);
    }
  kernel_scalar.narrow_values(type, k.data, ld, keys, f(p[0]), NULL, rows, dim, slanes, alpha,
                              f(o[0]), ldq);
  t->narrow_values(type, k.data, ld, keys, f(p[1]), NULL, rows, dim, lanes, alpha, f(o[1]), ldq);
  t->narrow_values(type, k.data, ld, keys, f(p[1]), NULL, 1, dim, lanes, alpha, f(o[2]), ldq);
  for (int i = 0; i < rows; i++)
    for (int64_t c = 0; c < dim; c++) {
      near(f(o[1])[i * ldq + c], f(o[0])[i * ldq + c], 2e-4f, "narrow_values", &r);
      if (i == 0) near(f(o[2])[c], f(o[1])[c], 0, "narrow_values of one row", &r);
    }
  guarded wide = guarded_new((size_t)dim * 4);
  t->widen(type, source_row(k, type, (keys - 1) * ld), f(wide), dim);
  for (int64_t c = 0; c < dim; c++) {
    float x = value_of(20, 0, (keys - 1) * ld + c);
    if (type == ATTN_F16) x = dtype_f16_to_f32(dtype_f32_to_f16(x));
    if (type == ATTN_BF16) x = dtype_bf16_to_f32(dtype_f32_to_bf16(x));
    near(f(wide)[c], x, 0, "widen", &r);
  }
  guarded_free(&wide);
  // with a dead key that holds NaN, as if it were not there
  memset(alive.data, 0xff, (size_t)keys * (size_t)lanes * 4);
  for (int i = 0; i < rows; i++) f(p[1])[i] = 0, ((uint32_t *)alive.data)[i] = 0;
  memset(o[1].data, 0, 8 * (size_t)ldq * 4), memset(o[2].data, 0, 8 * (size_t)ldq * 4);
  t->narrow_values(type, k.data, ld, keys, f(p[1]), NULL, rows, dim, lanes, alpha, f(o[1]), ldq);
  for (int64_t c = 0; c < dim; c++) {
    if (type == ATTN_F32) f(k)[c] = NAN;
    else ((uint16_t *)k.data)[c] = 0x7fff;
  }
  t->narrow_values(type, k.data, ld, keys, f(p[1]), alive.data, rows, dim, lanes, alpha, f(o[2]),
                   ldq);
  for (int i = 0; i < rows; i++)
    for (int64_t c = 0; c < dim; c++)
      near(f(o[2])[i * ldq + c], f(o[1])[i * ldq + c], 0, "narrow_values with a dead key", &r);
  for (int i = 0; i < 3; i++) guarded_free(&p[i]), guarded_free(&o[i]);
  guarded_free(&k), guarded_free(&q), guarded_free(&alive);
}

/* Every kind of float, rounded as the portable conversion rounds. */
static void narrow_conversion_round(const kernel_table *t) {
  static const attn_dtype types[] = { ATTN_F16, ATTN_BF16 };
  int64_t n = random_int(&state, 1, 100);
  guarded src = guarded_new((size_t)n * 4), dst = guarded_new((size_t)n * 2);
  for (int k = 0; k < 2; k++) {
    uint16_t expected[100];
    for (int64_t i = 0; i < n; i++) {
      uint32_t bits = (uint32_t)random_next(&state);
      if (i % 3 == 0) bits = 0x38000000u + bits % 0x10000000u; // near the range of f16
      if (i % 7 == 0) bits = (bits & 0xfffff000u) | 0x1000u * (bits & 1); // ties
      memcpy((char *)src.data + 4 * i, &bits, 4);
    }
    dtype_get(types[k])->from_f32(src.data, expected, n);
    t->narrow(types[k], src.data, dst.data, n);
    for (int64_t i = 0; i < n; i++)
      if (((uint16_t *)dst.data)[i] != expected[i])
        fail_msg("narrow of %s to %s: %a gives %04x, portable %04x", t->name, attn_dtype_name(types[k]),
                 (double)f(src)[i], ((uint16_t *)dst.data)[i], expected[i]);
  }
  guarded_free(&src), guarded_free(&dst);
}

/* NaN scores reach the weights, but never the maxima; masks win over NaN. */
static void special_round(const kernel_table *t) {
  _Alignas(64) float p[2 * KERNEL_MAX_LANES], max[KERNEL_MAX_LANES], new_max[KERNEL_MAX_LANES];
  _Alignas(64) float alpha[KERNEL_MAX_LANES], sum[KERNEL_MAX_LANES];
  int n = t->width;
  float bias[2] = { 0, -INFINITY };
  for (int i = 0; i < n; i++) {
    p[i] = i % 2 ? NAN : 1.0f, p[n + i] = NAN;
    max[i] = new_max[i] = -INFINITY, sum[i] = 0;
  }
  t->add_bias(p, 2, 1, bias, 0);
  t->row_max(p, 2, 1, new_max);
  t->softmax(p, 2, 1, max, new_max, alpha, sum, true);
  for (int i = 0; i < n; i++) {
    assert_true(i % 2 ? new_max[i] == -INFINITY : new_max[i] == 1.0f);
    assert_true(i % 2 ? isnan(p[i]) && isnan(sum[i]) : p[i] == 1.0f && sum[i] == 1.0f);
    assert_true(p[n + i] == 0.0f);
    assert_true(alpha[i] == 0.0f);
  }
}

/* One bad number anywhere is seen, and the largest finite ones are not. */
static void nonfinite_round(const kernel_table *t) {
  int64_t n = random_int(&state, 1, MAX_COUNT);
  guarded g = guarded_new((size_t)(n + 15) / 16 * 64);
  for (int64_t i = 0; i < n; i++) f(g)[i] = i % 3 ? value_of(12, 0, i) : i % 2 ? FLT_MAX : -FLT_MAX;
  assert_false(t->nonfinite(g.data, n));
  f(g)[random_int(&state, 0, n - 1)] = n % 2 ? NAN : n % 4 ? INFINITY : -INFINITY;
  assert_true(t->nonfinite(g.data, n));
  guarded_free(&g);
}

static void for_each_level(void (*round)(const kernel_table *), int rounds) {
  attn_kernel_info levels[8];
  int count = attn_kernels(levels, 8);
  for (int i = 0; i < count; i++) {
    const kernel_table *t = kernel_exact(levels[i].isa);
    if (!t) {
      print_message("%s: not tested, %s\n", levels[i].name, levels[i].reason);
      continue;
    }
    for (int r = 0; r < rounds; r++) round(t);
  }
}

static void test_every_kernel_agrees_with_scalar(void **unused) {
  (void)unused;
  for_each_level(compare_round, ROUNDS);
}

static void test_masked_values_keep_poison_out(void **unused) {
  (void)unused;
  for_each_level(masked_round, ROUNDS);
}

static void test_narrow_kernels(void **unused) {
  (void)unused;
  for_each_level(narrow_round, 3 * ROUNDS);
}

static void test_narrowing_conversion(void **unused) {
  (void)unused;
  for_each_level(narrow_conversion_round, 20 * ROUNDS);
}

static void test_nonfinite(void **unused) {
  (void)unused;
  for_each_level(nonfinite_round, ROUNDS);
}

static void test_nan_scores(void **unused) {
  (void)unused;
  for_each_level(special_round, 1);
}

/* A level that disagrees is found out: scalar with one entry replaced by a wrong one at a time. */
static void wrong_limit(float *p, int keys, int vectors, const int32_t *low, const int32_t *high) {
  (void)p, (void)keys, (void)vectors, (void)low, (void)high;
}
static void wrong_softcap(float *p, int keys, int vectors, float cap) {
  kernel_scalar.softcap(p, keys, vectors, 1.01f * cap);
}
static void wrong_values(const float *v, int64_t ldv, int keys, const float *p, int64_t dim,
                         int vectors, const float *alpha, float *ot) {
  kernel_scalar.values(v, ldv, keys - 1, p, dim, vectors, alpha, ot);
}
static void leaky_values(const float *v, int64_t ldv, int keys, const float *p,
                         const uint32_t *alive, int64_t dim, int vectors, const float *alpha,
                         float *ot) {
  (void)alive;
  kernel_scalar.values(v, ldv, keys, p, dim, vectors, alpha, ot);
}

static void test_selfcheck_catches_a_wrong_kernel(void **unused) {
  (void)unused;
  assert_null(kernel_selfcheck(&kernel_scalar));
  kernel_table wrong = kernel_scalar;
  wrong.limit = wrong_limit;
  assert_non_null(kernel_selfcheck(&wrong));
  wrong = kernel_scalar, wrong.softcap = wrong_softcap;
  assert_non_null(kernel_selfcheck(&wrong));
  wrong = kernel_scalar, wrong.values = wrong_values;
  assert_non_null(kernel_selfcheck(&wrong));
  wrong = kernel_scalar, wrong.values_masked = leaky_values;
  assert_non_null(kernel_selfcheck(&wrong));
}

int main(void) {
  const char *seed = getenv("ATTN_TEST_SEED");
  state = seed ? strtoull(seed, NULL, 0) : 20240601;
  printf("seed %llu (ATTN_TEST_SEED)\n", (unsigned long long)state);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_kernel_agrees_with_scalar),
    cmocka_unit_test(test_masked_values_keep_poison_out),
    cmocka_unit_test(test_narrow_kernels),
    cmocka_unit_test(test_narrowing_conversion),
    cmocka_unit_test(test_nonfinite),
    cmocka_unit_test(test_nan_scores),
    cmocka_unit_test(test_selfcheck_catches_a_wrong_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
