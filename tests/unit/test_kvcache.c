// SPDX-License-Identifier: Apache-2.0
/* Appending to a cache: the same attention as on data prepared by hand, in every type, contiguous and
 * paged; quantisation within what the header says; errors that write nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "attn/kvcache.h"
#include "attn/select.h"
#include "random.h"

enum { B = 2, H = 2, S = 37, D = 64, CAP = 48, PAGE = 5, PAGES = 10, MAX = B * PAGES * PAGE * H * D };
static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F8E4M3, ATTN_F8E5M2,
                                    ATTN_INT8, ATTN_Q8_0, ATTN_Q4_0 };
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static float k[B * H * S * D], v[B * H * S * D], q[B * 4 * 3 * D], out[2][B * 4 * 3 * D];
static double expected[B * 4 * 3 * D];
static unsigned char ck[2][MAX * 4], cv[2][MAX * 4];
static float sk[2][MAX / D], sv[2][MAX / D], one[1] = { 0.5f };

static void fill(uint64_t seed) {
  for (int i = 0; i < B * H * S * D; i++) k[i] = random_float(&seed), v[i] = 2 * random_float(&seed);
  for (int i = 0; i < B * 4 * 3 * D; i++) q[i] = random_float(&seed);
  memset(ck, 0xff, sizeof(ck)), memset(cv, 0xff, sizeof(cv)); // NaN in every float type
  memset(sk, 0xff, sizeof(sk)), memset(sv, 0xff, sizeof(sv));
}

static attn_problem problem_of(attn_dtype type, bool paged) {
  attn_problem p = { .batch = B, .heads_q = 4, .heads_kv = H, .seq_q = 3, .seq_kv = CAP, .head_dim = D,
                     .kv_dtype = type, .kv_lengths = true, .causal = ATTN_CAUSAL_BOTTOM_RIGHT };
  if (type == ATTN_F8E4M3) p.fp8_scale = ATTN_FP8_SCALE_TENSOR;
  if (paged) p.page_size = PAGE, p.num_pages = B * PAGES, p.pages_per_seq = PAGES;
  return p;
}

static const int32_t table[B * PAGES] = { 7, 3, 11, 0, 19, 5, 1, 13, 2, 17, 4, 9, 6, 15, 8, 12, 10, 18, 14, 16 };
static const int32_t lengths[B] = { S, S };

static attn_kv_cache cache_of(const attn_problem *p, int which) {
  attn_kv_cache c = { ck[which], cv[which], sk[which], sv[which], p->page_size ? table : NULL };
  if (p->fp8_scale) c.k_scale = c.v_scale = one;
  return c;
}

static attn_io io_of(const attn_problem *p, int which) {
  attn_kv_cache c = cache_of(p, which);
  return (attn_io){ .q = q, .k = c.k, .v = c.v, .out = out[which], .k_scale = c.k_scale,
                    .v_scale = c.v_scale, .kv_len = lengths, .block_table = c.block_table };
}

/* In steps of `step` rows; the source rows are those of the whole tensors. */
static void append_all(const attn_problem *p, int which, int step) {
  attn_kv_cache c = cache_of(p, which);
  for (int i = 0; i < S; i += step) {
    int n = S - i < step ? S - i : step;
    const int32_t position[B] = { i, i };
    attn_strides s = { H * S * D, S * D, D, 1 };
    attn_kv_rows rows = { .k = k + i * D, .v = v + i * D, .k_strides = s, .v_strides = s, .count = n,
                          .position = position };
    if (attn_kv_append(p, &c, &rows)) fail_msg("%s", attn_last_error());
  }
}

static void attend(const attn_problem *p, int which) {
  attn_io io = io_of(p, which);
  if (attn_sdpa(NULL, p, &io)) fail_msg("%s", attn_last_error());
}

static void test_every_type_contiguous_and_paged(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) {
    attn_problem dense = problem_of(types[t], false), paged = problem_of(types[t], true);
    fill((uint64_t)t + 1);
    append_all(&dense, 0, S);
    append_all(&paged, 1, 1); // one row at a time makes the same cache
    attend(&dense, 0);
    attend(&paged, 1);
    assert_memory_equal(out[0], out[1], sizeof(out[0]));
    attn_io io = io_of(&dense, 0);
    if (attn_reference(&dense, &io, expected, NULL, NULL)) fail_msg("%s", attn_last_error());
    for (int i = 0; i < B * 4 * 3 * D; i++)
      if (!(fabs((double)out[0][i] - expected[i]) <= 1e-5))
        fail_msg("%s: out[%d] is %g, reference %g", attn_dtype_name(types[t]), i, (double)out[0][i], expected[i]);
  }
}

/* The value of element c of key (b, h, j) as the contiguous cache holds it. */
static double stored(attn_dtype type, const unsigned char *data, const float *scales, int b, int h, int j, int c) {
  int64_t at = (((int64_t)b * H + h) * CAP + j) * D + c;
  double x = attn_dtype_load(type, data, at);
  if (type == ATTN_INT8) x *= (double)scales[(b * CAP + j) * H + h];
  if (type == ATTN_F8E4M3) x *= (double)one[0];
  return x;
}

static double bound(attn_dtype type, double x, double most) {
  switch (type) {
  case ATTN_F32: return 0;
  case ATTN_F16: return fabs(x) * 0x1p-11 + 0x1p-25;
  case ATTN_BF16: return fabs(x) * 0x1p-8;
  case ATTN_F8E4M3: return fabs(x) * 0x1p-4 + 0x1p-10;
  case ATTN_F8E5M2: return fabs(x) * 0x1p-3 + 0x1p-17;
  case ATTN_INT8: return most / 254 * 1.0001;
  case ATTN_Q8_0: return most / 254 * 1.01 + fabs(x) * 0x1p-11;
  default: return most / 8 * 1.01 + fabs(x) * 0x1p-11;
  }
}

static void test_quantisation_error_is_as_documented(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) {
    attn_problem p = problem_of(types[t], false);
    fill(77);
    for (int c = 0; c < D; c++) k[c] = 0, k[D + c] *= 1e4f, v[c] = c == 5 ? 300.0f : 1e-3f;
    if (types[t] == ATTN_F8E4M3) // its largest is 448 times the scale
      for (int c = 0; c < D; c++) k[D + c] *= 1e-3f, v[c] *= 0.1f;
    append_all(&p, 0, 3);
    for (int r = 0; r < B * H * S; r++) {
      int b = r / (H * S), h = r / S % H, j = r % S;
      for (int c = 0; c < D; c++) {
        const float *row = k + r * D, *block = types[t] == ATTN_INT8 ? row : row + c / 32 * 32;
        double most = 0;
        for (int i = 0; i < (types[t] == ATTN_INT8 ? D : 32); i++) most = fmax(most, fabs((double)block[i]));
        double got = stored(types[t], ck[0], sk[0], b, h, j, c), want = (double)row[c];
        if (!(fabs(got - want) <= bound(types[t], want, most)))
          fail_msg("%s: key %d %d %d, element %d is %g, given %g", attn_dtype_name(types[t]), b, h, j, c, got, want);
      }
    }
  }
}

static void test_nothing_else_is_written(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) {
    attn_problem p = problem_of(types[t], false);
    const int32_t position[B] = { 10, 47 }, counts[B] = { 2, 0 };
    fill(5);
    attn_kv_cache c = cache_of(&p, 0);
    attn_kv_rows rows = { .k = k, .v = v, .count = 3, .counts = counts, .position = position };
    assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_OK);
    int64_t row = attn_dtype_bytes(types[t], D);
    for (int64_t i = 0; i < B * H * CAP * row; i++) {
      int64_t j = i / row % CAP, b = i / row / CAP / H;
      bool inside = b == 0 && (j == 10 || j == 11);
      if (!inside && (ck[0][i] != 0xff || cv[0][i] != 0xff)) fail_msg("%s: byte %lld", attn_dtype_name(types[t]), (long long)i);
    }
  }
}

static void test_bad_calls_write_nothing(void **unused) {
  (void)unused;
  attn_problem p = problem_of(ATTN_INT8, true);
  fill(6);
  attn_kv_cache c = cache_of(&p, 0);
  const int32_t position[B] = { 0, 46 }, late[B] = { 49, 0 }, negative[B] = { -1, 0 }, counts[B] = { 1, 9 };
  attn_kv_rows rows = { .k = k, .v = v, .count = 3, .position = position };
  assert_int_equal(attn_kv_append(NULL, &c, &rows), ATTN_ERROR_NULL);
  assert_int_equal(attn_kv_append(&p, NULL, &rows), ATTN_ERROR_NULL);
  assert_int_equal(attn_kv_append(&p, &c, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE); // 46 + 3 > 48
  assert_non_null(strstr(attn_last_error(), "position[1]"));
  rows.position = late;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE);
  rows.position = negative;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE);
  rows.position = NULL, rows.counts = counts;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE);
  rows.counts = NULL, rows.dtype = ATTN_Q8_0;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_DTYPE);
  rows.dtype = ATTN_F32, rows.k = NULL;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_NULL);
  rows.k = k, c.k_scale = NULL;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_NULL);
  c = cache_of(&p, 0), rows.count = -1;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE);
  static const int32_t bad_table[B * PAGES] = { 0, 20 };
  rows.count = 9, c.block_table = bad_table; // page 20 of 20 is reached
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_ERROR_SHAPE);
  assert_non_null(strstr(attn_last_error(), "block_table[0][1]"));
  attn_problem packed = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 4, .head_dim = 4, .varlen = true,
                          .total_q = 1, .total_kv = 4 };
  assert_int_equal(attn_kv_append(&packed, &c, &rows), ATTN_ERROR_VALUE);
  for (size_t i = 0; i < sizeof(ck[0]); i++) assert_true(ck[0][i] == 0xff && cv[0][i] == 0xff);
  rows.count = 0;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_type_contiguous_and_paged),
    cmocka_unit_test(test_quantisation_error_is_as_documented),
    cmocka_unit_test(test_nothing_else_is_written),
    cmocka_unit_test(test_bad_calls_write_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
