// SPDX-License-Identifier: Apache-2.0
/* The bf16 kernels of every level against the portable ones: random sizes, guard pages behind every
 * buffer. Both see the same bf16 numbers, so they differ by the order of f32 sums alone. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "guard.h"
#include "kernel/kernel.h"
#include "random.h"

enum { ROUNDS = 300, MAX_DIM = 150, MAX_KEYS = 140 };
static uint64_t state;

static uint16_t *h(guarded g) { return g.data; }
static uint32_t *u(guarded g) { return g.data; }
static float *f(guarded g) { return g.data; }

static guarded random_rows(int64_t rows, int64_t ld, int64_t dim, float filler) {
  guarded g = guarded_new((size_t)((rows - 1) * ld + dim) * 2);
  for (int64_t i = 0; i < (rows - 1) * ld + dim; i++)
    h(g)[i] = dtype_f32_to_bf16(i % ld < dim ? random_float(&state) : filler);
  return g;
}

/* One tile through all kernels of `t`; lane l of it is row first + l of `q`. */
typedef struct tile {
  guarded qt, p, w, packed, ot;
  _Alignas(64) float max[KERNEL_MAX_LANES], alpha[KERNEL_MAX_LANES];
  int lanes, vectors;
} tile;

typedef struct shape {
  int keys, first; /* of the block; where the values' sub-block starts */
  int64_t dim, dim_v, ldk, ldv;
  guarded q, k, v, weights; /* weights[key][KERNEL_MAX_LANES] */
} shape;

static shape shape_new(void) {
  shape s = { .keys = (int)random_int(&state, 1, MAX_KEYS),
              .dim = random_int(&state, 1, MAX_DIM),
              .dim_v = random_int(&state, 1, MAX_DIM) };
  int64_t even = s.dim + s.dim % 2;
  s.first = (int)random_int(&state, 0, (s.keys - 1) / 2) * 2;
  s.ldk = even + random_int(&state, 0, 9), s.ldv = s.dim_v + random_int(&state, 0, 9);
  s.q = random_rows(KERNEL_MAX_LANES, s.dim, s.dim, 0);
  s.k = random_rows(s.keys, s.ldk, even, NAN); // between rows: must not be read
  s.v = random_rows(s.keys, s.ldv, s.dim_v, NAN);
  if (s.dim % 2) // what pads an odd row
    for (int j = 0; j < s.keys; j++) h(s.k)[j * s.ldk + s.dim] = 0;
  s.weights = guarded_new((size_t)s.keys * KERNEL_MAX_LANES * 4);
  for (int i = 0; i < s.keys * KERNEL_MAX_LANES; i++) f(s.weights)[i] = fabsf(random_float(&state));
  return s;
}

static void shape_free(shape *s) {
  guarded *all[] = { &s->q, &s->k, &s->v, &s->weights };
  for (int i = 0; i < 4; i++) guarded_free(all[i]);
}

static tile tile_new(const kernel_pairs *t, int width, int vectors, const shape *s) {
  tile x = { .lanes = width * vectors, .vectors = vectors };
  size_t lanes = (size_t)x.lanes, keys = (size_t)s->keys;
  x.qt = guarded_new((size_t)(s->dim + 1) / 2 * lanes * 4);
  x.p = guarded_new(keys * lanes * 4);
  x.w = guarded_new((keys + 1) / 2 * lanes * 4);
  x.packed = guarded_new((size_t)t->pack_bytes(s->keys, s->dim_v));
  x.ot = guarded_new((size_t)s->dim_v * lanes * 4);
  return x;
}

static void tile_free(tile *x) {
  guarded *all[] = { &x->qt, &x->p, &x->w, &x->packed, &x->ot };
  for (int i = 0; i < 5; i++) guarded_free(all[i]);
}

/* Scores into p and max; then values of the shape's own weights into ot. */
static void tile_run(const kernel_pairs *t, tile *x, const shape *s, int row, int missing) {
  const uint16_t *rows[KERNEL_MAX_LANES];
  int count = s->keys - s->first;
  for (int l = 0; l < x->lanes; l++) {
    rows[l] = row + l == missing ? NULL : h(s->q) + (row + l) * s->dim;
    x->max[l] = l % 2 ? -INFINITY : 0, x->alpha[l] = 0.25f * (float)((row + l) % 5);
  }
  t->load_queries(rows, x->vectors, s->dim, u(x->qt));
  t->scores(h(s->k), s->ldk, s->keys, u(x->qt), s->dim, x->vectors, 0.3f, f(x->p), x->max);
  t->pack_values(h(s->v), s->ldv, s->keys, s->dim_v, x->packed.data);
  guarded p = guarded_new((size_t)count * (size_t)x->lanes * 4);
  for (int j = 0; j < count; j++)
    for (int l = 0; l < x->lanes; l++)
      f(p)[j * x->lanes + l] = f(s->weights)[j * KERNEL_MAX_LANES + row + l];
  t->pack_weights(f(p), count, x->vectors, u(x->w));
  for (int64_t i = 0; i < s->dim_v * x->lanes; i++)
    f(x->ot)[i] = (float)(i / x->lanes % 7) - (float)((row + i % x->lanes) % 3);
  t->values(x->packed.data, s->keys, s->first, count, u(x->w), s->dim_v, x->vectors, x->alpha, f(x->ot));
  // weights are packed in place by the tile loop
  t->pack_weights(f(p), count, x->vectors, u(p));
  assert_memory_equal(p.data, x->w.data, (size_t)(count + 1) / 2 * (size_t)x->lanes * 4);
  guarded_free(&p);
}

static void near(float a, float b, double size, const char *what, const shape *s) {
  if (a == b || (isnan(a) && isnan(b)) || fabs((double)a - (double)b) <= 3e-7 * size) return;
  fail_msg("%s: %a, portable has %a (keys %d first %d dim %lld:%lld)", what, (double)a, (double)b,
           s->keys, s->first, (long long)s->dim, (long long)s->dim_v);
}

static void compare_round(const kernel_table *t) {
  shape s = shape_new();
  int vectors = (int)random_int(&state, 1, KERNEL_MAX_VECTORS), width = kernel_scalar.width;
  int missing = (int)random_int(&state, 0, 2 * KERNEL_MAX_LANES);
  tile a = tile_new(t->pairs, t->width, vectors, &s);
  tile_run(t->pairs, &a, &s, 0, missing);
  for (int row = 0; row < a.lanes; row += width) {
    tile b = tile_new(&kernel_pairs_scalar, width, 1, &s);
    tile_run(&kernel_pairs_scalar, &b, &s, row, missing);
    for (int l = 0; l < width; l++) {
      int lane = row + l;
      for (int64_t c = 0; c < (s.dim + 1) / 2; c++)
        assert_int_equal(u(a.qt)[c * a.lanes + lane], u(b.qt)[c * width + l]);
      for (int j = 0; j < s.keys; j++)
        near(f(a.p)[j * a.lanes + lane], f(b.p)[j * width + l], (double)s.dim, "scores", &s);
      float max = a.max[lane], other = lane % 2 == l % 2 ? b.max[l] : fmaxf(b.max[l], 0);
      near(max, other, (double)s.dim, "maximum", &s);
      for (int64_t c = 0; c < s.dim_v; c++)
        near(f(a.ot)[c * a.lanes + lane], f(b.ot)[c * width + l], s.keys + 8.0, "values", &s);
    }
    tile_free(&b);
  }
  tile_free(&a);
  shape_free(&s);
}

/* values_masked gives the bits of values and keeps what is not alive out, in either half of a pair. */
static void masked_round(const kernel_table *t) {
  shape s = shape_new();
  int vectors = (int)random_int(&state, 1, KERNEL_MAX_VECTORS), count = s.keys - s.first;
  int poisoned = (int)random_int(&state, 0, count - 1);
  tile a = tile_new(t->pairs, t->width, vectors, &s), b = tile_new(t->pairs, t->width, vectors, &s);
  guarded alive = guarded_new((size_t)count * (size_t)a.lanes * 4);
  for (int j = 0; j < count; j++)
    for (int l = 0; l < KERNEL_MAX_LANES; l++) {
      bool dead = j == poisoned || (j + l) % 3 == 0;
      if (dead) f(s.weights)[j * KERNEL_MAX_LANES + l] = 0;
      if (l < a.lanes) u(alive)[j * a.lanes + l] = dead ? 0 : UINT32_MAX;
    }
  tile_run(t->pairs, &a, &s, 0, -1);
  for (int64_t c = 0; c < s.dim_v; c++)
    h(s.v)[(s.first + poisoned) * s.ldv + c] = c % 2 ? 0x7fc0 : 0x7f80; // NaN, infinity
  tile_run(t->pairs, &b, &s, 0, -1);
  for (int64_t i = 0; i < s.dim_v * a.lanes; i++)
    f(b.ot)[i] = (float)(i / a.lanes % 7) - (float)(i % a.lanes % 3);
  t->pairs->values_masked(b.packed.data, s.keys, s.first, count, u(b.w), u(alive), s.dim_v, vectors,
                          b.alpha, f(b.ot));
  assert_memory_equal(a.ot.data, b.ot.data, (size_t)s.dim_v * (size_t)a.lanes * 4);
  guarded_free(&alive);
  tile_free(&a), tile_free(&b);
  shape_free(&s);
}

#if defined(HAVE_AMX_MODEL)
extern const kernel_table kernel_amx_model;
#endif

/* The AMX kernels on their software model, where the CPU has what they need beside tiles; else NULL. */
static const kernel_table *amx_model(void) {
#if defined(HAVE_AMX_MODEL)
  if (kernel_exact(ATTN_ISA_AVX512_BF16)) return &kernel_amx_model;
#endif
  return NULL;
}

static void for_each_level(void (*round)(const kernel_table *)) {
  attn_kernel_info levels[16];
  int count = attn_kernels(levels, 16);
  for (int i = 0; i < count; i++) {
    const kernel_table *t = kernel_exact(levels[i].isa);
    for (int r = 0; t && t->pairs && r < ROUNDS; r++) round(t);
  }
  for (int r = 0; amx_model() && r < ROUNDS; r++) round(amx_model());
  kernel_table portable = kernel_scalar; // so that the test itself is tested everywhere
  portable.pairs = &kernel_pairs_scalar;
  for (int r = 0; r < ROUNDS / 4; r++) round(&portable);
}

static void test_agrees_with_portable(void **unused) {
  (void)unused;
  for_each_level(compare_round);
}

static void test_masked_values_keep_poison_out(void **unused) {
  (void)unused;
  for_each_level(masked_round);
}

static void lost_key(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                     int64_t dim, int vectors, const float *alpha, float *ot) {
  kernel_pairs_scalar.values(packed, packed_keys, first, keys - 1, w, dim, vectors, alpha, ot);
}
static void leaky(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                  const uint32_t *alive, int64_t dim, int vectors, const float *alpha, float *ot) {
  (void)alive;
  kernel_pairs_scalar.values(packed, packed_keys, first, keys, w, dim, vectors, alpha, ot);
}

static void test_selfcheck_catches_a_wrong_kernel(void **unused) {
  (void)unused;
  kernel_pairs pairs = kernel_pairs_scalar;
  kernel_table wrong = kernel_scalar;
  wrong.pairs = &pairs;
  assert_null(kernel_selfcheck(&wrong));
  pairs.values = lost_key;
  assert_non_null(kernel_selfcheck(&wrong));
  pairs = kernel_pairs_scalar, pairs.values_masked = leaky;
  assert_non_null(kernel_selfcheck(&wrong));
  if (amx_model()) assert_null(kernel_selfcheck(amx_model()));
  else print_message("amx: not tested, this CPU lacks AVX512-BF16\n");
}

int main(void) {
  const char *seed = getenv("ATTN_TEST_SEED");
  state = seed ? strtoull(seed, NULL, 0) : 20240601;
  printf("seed %llu (ATTN_TEST_SEED)\n", (unsigned long long)state);
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_agrees_with_portable),
    cmocka_unit_test(test_masked_values_keep_poison_out),
    cmocka_unit_test(test_selfcheck_catches_a_wrong_kernel),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
