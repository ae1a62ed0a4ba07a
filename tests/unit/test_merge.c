// SPDX-License-Identifier: Apache-2.0
/* Merging the halves of any split of the keys gives the whole, empty halves included. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "attn/attn.h"
#include "random.h"

enum { KEYS = 9, DIM = 4 };

static void part_of(int64_t keys, const float *q, const float *k, const float *v, float *out,
                    float *lse) {
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = keys, .head_dim = DIM };
  p.scale = 2;
  attn_io io = { .q = q, .k = k, .v = v };
  double o[DIM], l;
  if (attn_reference(&p, &io, o, &l, NULL)) fail_msg("%s", attn_last_error());
  for (int c = 0; c < DIM; c++) out[c] = (float)o[c];
  *lse = (float)l;
}

static void test_every_split_merges_to_the_whole(void **state) {
  (void)state;
  const uint64_t seed = 6;
  uint64_t r = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 500; n++) {
    float q[DIM], k[KEYS * DIM], v[KEYS * DIM], whole[DIM], lse;
    float size = exp2f(4 * random_float(&r)); // scores from all alike to one that wins
    for (int c = 0; c < DIM; c++) q[c] = size * random_float(&r);
    for (int x = 0; x < KEYS * DIM; x++) k[x] = random_float(&r), v[x] = random_float(&r);
    part_of(KEYS, q, k, v, whole, &lse);
    for (int split = 0; split <= KEYS; split++) {
      float a[DIM], b[DIM], la, lb, out[DIM], l;
      part_of(split, q, k, v, a, &la);
      part_of(KEYS - split, q, k + split * DIM, v + split * DIM, b, &lb);
      assert_int_equal(attn_merge(1, DIM, a, &la, b, &lb, out, &l), ATTN_OK);
      // Each LSE was rounded by half an ulp, which scales both weights.
      double slack = (fabs((double)lse) + 1) * 0x1p-23;
      assert_true(fabs((double)l - (double)lse) <= slack);
      for (int c = 0; c < DIM; c++) assert_true(fabs((double)out[c] - (double)whole[c]) <= slack);
      if (split == 0 || split == KEYS) { // an empty part changes no bit
        assert_memory_equal(out, whole, sizeof(out));
        assert_memory_equal(&l, &lse, sizeof(l));
      }
    }
  }
}

static void test_known_values(void **state) {
  (void)state;
  const float a[2] = { 1, 0 }, b[2] = { 0, 1 };
  float out[2], lse;
  const float ln3 = logf(3), zero = 0;
  assert_int_equal(attn_merge(1, 2, a, &ln3, b, &zero, out, &lse), ATTN_OK);
  assert_true(fabsf(out[0] - .75f) <= 0x1p-23f && fabsf(out[1] - .25f) <= 0x1p-23f);
  assert_true(fabsf(lse - logf(4)) <= 0x1p-22f);
  const float high = 3e38f, low = -3e38f; // exp of neither exists
  assert_int_equal(attn_merge(1, 2, a, &high, b, &low, out, &lse), ATTN_OK);
  assert_true(out[0] == 1 && out[1] == 0 && lse == high);
  assert_int_equal(attn_merge(1, 2, a, &low, b, &low, out, &lse), ATTN_OK);
  assert_true(out[0] == .5f && out[1] == .5f);
}

static void test_empty_parts_are_not_read(void **state) {
  (void)state;
  const float a[2] = { 1, 2 }, nan[2] = { NAN, NAN }, la = 5, none = -INFINITY;
  float out[2], lse;
  assert_int_equal(attn_merge(1, 2, a, &la, nan, &none, out, &lse), ATTN_OK);
  assert_true(out[0] == 1 && out[1] == 2 && lse == 5);
  assert_int_equal(attn_merge(1, 2, nan, &none, a, &la, out, &lse), ATTN_OK);
  assert_true(out[0] == 1 && out[1] == 2 && lse == 5);
  assert_int_equal(attn_merge(1, 2, nan, &none, nan, &none, out, &lse), ATTN_OK);
  assert_true(out[0] == 0 && out[1] == 0 && lse == -INFINITY);
}

static void test_nan_propagates(void **state) {
  (void)state;
  const float a[2] = { 1, 2 }, bad[2] = { NAN, 3 }, l = 0, nan = NAN, none = -INFINITY;
  float out[2], lse;
  assert_int_equal(attn_merge(1, 2, a, &l, bad, &l, out, &lse), ATTN_OK);
  assert_true(isnan(out[0]) && out[1] == 2.5f && isfinite(lse));
  assert_int_equal(attn_merge(1, 2, a, &l, a, &nan, out, &lse), ATTN_OK);
  assert_true(isnan(out[0]) && isnan(out[1]) && isnan(lse));
  assert_int_equal(attn_merge(1, 2, a, &nan, a, &none, out, &lse), ATTN_OK);
  assert_true(isnan(out[0]) && isnan(out[1]) && isnan(lse));
}

static void test_outputs_may_be_either_input(void **state) {
  (void)state;
  const float a[6] = { 1, 2, 3, 4, 5, 6 }, b[6] = { 6, 5, 4, 3, 2, 1 };
  const float la[3] = { 0, 1, -INFINITY }, lb[3] = { 2, -1, 0 };
  float expected[6], lse[3];
  assert_int_equal(attn_merge(3, 2, a, la, b, lb, expected, lse), ATTN_OK);
  for (int side = 0; side < 2; side++) {
    float x[6], y[6], lx[3], ly[3];
    memcpy(x, a, sizeof(a)), memcpy(y, b, sizeof(b));
    memcpy(lx, la, sizeof(la)), memcpy(ly, lb, sizeof(lb));
    float *out = side ? y : x, *l = side ? ly : lx;
    assert_int_equal(attn_merge(3, 2, x, lx, y, ly, out, l), ATTN_OK);
    assert_memory_equal(out, expected, sizeof(expected));
    assert_memory_equal(l, lse, sizeof(lse));
  }
}

static void test_faults(void **state) {
  (void)state;
  float x[2] = { 1, 2 };
  assert_int_equal(attn_merge(-1, 2, x, x, x, x, x, x), ATTN_ERROR_SHAPE);
  assert_int_equal(attn_merge(1, -2, x, x, x, x, x, x), ATTN_ERROR_SHAPE);
  assert_int_equal(attn_merge(INT64_MAX, 2, x, x, x, x, x, x), ATTN_ERROR_OVERFLOW);
  assert_int_equal(attn_merge(1, 1, x, x, NULL, x, x, x), ATTN_ERROR_NULL);
  assert_non_null(strstr(attn_last_error(), "out_b"));
  assert_int_equal(attn_merge(1, 1, x, x, x, x, x, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_merge(0, 1, NULL, NULL, NULL, NULL, NULL, NULL), ATTN_OK);
  assert_int_equal(attn_merge(1, 0, NULL, x, NULL, x, NULL, x), ATTN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_split_merges_to_the_whole), cmocka_unit_test(test_known_values),
    cmocka_unit_test(test_empty_parts_are_not_read),        cmocka_unit_test(test_nan_propagates),
    cmocka_unit_test(test_outputs_may_be_either_input),     cmocka_unit_test(test_faults),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
