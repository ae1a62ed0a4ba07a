// SPDX-License-Identifier: Apache-2.0
/* Appending to a cache: the same attention as on data prepared by hand, in every type, contiguous
 * and paged; quantisation within what the header says; errors that write nothing. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "attn/kvcache.h"
#include "random.h"

enum {
  B = 2,
  H = 2,
  S = 37,
  D = 64,
  CAP = 48,
  PAGE = 5,
  PAGES = 10,
  MAX = B * PAGES * PAGE * H * D
};
static const attn_dtype types[] = { ATTN_F32,    ATTN_F16,  ATTN_BF16, ATTN_F8E4M3,
                                    ATTN_F8E5M2, ATTN_INT8, ATTN_Q8_0, ATTN_Q4_0 };
enum { TYPES = sizeof(types) / sizeof(types[0]) };

static float k[B * H * S * D], v[B * H * S * D], q[B * 4 * 3 * D], out[2][B * 4 * 3 * D];
static double expected[B * 4 * 3 * D];
static unsigned char ck[2][MAX * 4], cv[2][MAX * 4];
static float sk[2][MAX / D], sv[2][MAX / D], one[1] = { 0.5f };

static void fill(uint64_t seed) {
  for (int i = 0; i < B * H * S * D; i++)
    k[i] = random_float(&seed), v[i] = 2 * random_float(&seed);
  for (int i = 0; i < B * 4 * 3 * D; i++) q[i] = random_float(&seed);
  memset(ck, 0xff, sizeof(ck)), memset(cv, 0xff, sizeof(cv)); // NaN in every float type
  memset(sk, 0xff, sizeof(sk)), memset(sv, 0xff, sizeof(sv));
}

static attn_problem problem_of(attn_dtype type, bool paged) {
  attn_problem p = { .batch = B,
                     .heads_q = 4,
                     .heads_kv = H,
                     .seq_q = 3,
                     .seq_kv = CAP,
                     .head_dim = D,
                     .kv_dtype = type,
                     .kv_lengths = true,
                     .causal = ATTN_CAUSAL_BOTTOM_RIGHT };
  if (type == ATTN_F8E4M3) p.fp8_scale = ATTN_FP8_SCALE_TENSOR;
  if (paged) p.page_size = PAGE, p.num_pages = B * PAGES, p.pages_per_seq = PAGES;
  return p;
}

static const int32_t table[B * PAGES] = { 7, 3, 11, 0,  19, 5,  1,  13, 2,  17,
                                          4, 9, 6,  15, 8,  12, 10, 18, 14, 16 };
static const int32_t lengths[B] = { S, S };

static attn_kv_cache cache_of(const attn_problem *p, int which) {
  attn_kv_cache c = { ck[which], cv[which], sk[which], sv[which], p->page_size ? table : NULL };
  if (p->fp8_scale) c.k_scale = c.v_scale = one;
  return c;
}

static attn_io io_of(const attn_problem *p, int which) {
  attn_kv_cache c = cache_of(p, which);
  return (attn_io){ .q = q,
                    .k = c.k,
                    .v = c.v,
                    .out = out[which],
                    .k_scale = c.k_scale,
                    .v_scale = c.v_scale,
                    .kv_len = lengths,
                    .block_table = c.block_table };
}

/* In steps of `step` rows; the source rows are those of the whole tensors. */
static void append_all(const attn_problem *p, int which, int step) {
  attn_kv_cache c = cache_of(p, which);
  for (int i = 0; i < S; i += step) {
    int n = S - i < step ? S - i : step;
    const int32_t position[B] = { i, i };
    attn_strides s = { H * S * D, S * D, D, 1 };
    attn_kv_rows rows = { .k = k + i * D,
                          .v = v + i * D,
                          .k_strides = s,
                          .v_strides = s,
                          .count = n,
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
        fail_msg("%s: out[%d] is %g, reference %g", attn_dtype_name(types[t]), i, (double)out[0][i],
                 expected[i]);
  }
}

/* A cache made without attn_kv_append: each row converted where [batch, heads, seq, dim] has it. */
static void prepare(attn_dtype type, int which) {
  int64_t row = attn_dtype_bytes(type, D);
  for (int side = 0; side < 2; side++)
    for (int r = 0; r < B * H * S; r++) {
      const float *x = (side ? v : k) + r * D;
      float scaled[D], most = 0, scale = type == ATTN_F8E4M3 ? one[0] : 1;
      int b = r / (H * S), h = r / S % H, j = r % S;
      for (int c = 0; c < D; c++) most = fmaxf(most, fabsf(x[c]));
      if (type == ATTN_INT8) scale = (side ? sv : sk)[which][(b * CAP + j) * H + h] = most / 127;
      for (int c = 0; c < D; c++) scaled[c] = x[c] / scale;
      unsigned char *to = (side ? cv : ck)[which] + ((b * H + h) * CAP + j) * row;
      assert_int_equal(attn_dtype_from_f32(type, scaled, to, D), ATTN_OK);
    }
}

static void test_as_data_prepared_by_hand(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) {
    attn_problem p = problem_of(types[t], false);
    fill((uint64_t)t + 20);
    append_all(&p, 0, 7);
    prepare(types[t], 1);
    assert_memory_equal(ck[0], ck[1], sizeof(ck[0]));
    assert_memory_equal(cv[0], cv[1], sizeof(cv[0]));
    assert_memory_equal(sk[0], sk[1], sizeof(sk[0]));
    assert_memory_equal(sv[0], sv[1], sizeof(sv[0]));
    attend(&p, 0);
    attend(&p, 1);
    assert_memory_equal(out[0], out[1], sizeof(out[0]));
  }
}

/* f16 and bf16 rows make the cache that their values in f32 make. */
static void test_narrow_sources(void **unused) {
  (void)unused;
  static uint16_t nk[B * H * S * D], nv[B * H * S * D];
  const attn_dtype from[2] = { ATTN_F16, ATTN_BF16 };
  for (int f = 0; f < 2; f++)
    for (int t = 0; t < TYPES; t++) {
      attn_problem p = problem_of(types[t], false);
      fill(31);
      attn_dtype_from_f32(from[f], k, nk, B * H * S * D);
      attn_dtype_from_f32(from[f], v, nv, B * H * S * D);
      attn_dtype_to_f32(from[f], nk, k, B * H * S * D);
      attn_dtype_to_f32(from[f], nv, v, B * H * S * D);
      append_all(&p, 0, S);
      attn_kv_cache c = cache_of(&p, 1);
      attn_kv_rows rows = { .k = nk, .v = nv, .dtype = from[f], .count = S };
      assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_OK);
      assert_memory_equal(ck[0], ck[1], sizeof(ck[0]));
      assert_memory_equal(cv[0], cv[1], sizeof(cv[0]));
      assert_memory_equal(sk[0], sk[1], sizeof(sk[0]));
    }
}

/* The value of element c of key (b, h, j) as the contiguous cache holds it. */
static double stored(attn_dtype type, const unsigned char *data, const float *scales, int r,
                     int c) {
  int b = r / (H * S), h = r / S % H, j = r % S;
  double x = attn_dtype_load(type, data, (((int64_t)b * H + h) * CAP + j) * D + c);
  if (type == ATTN_INT8) x *= (double)scales[(b * CAP + j) * H + h];
  if (type == ATTN_F8E4M3) x *= (double)one[0];
  return x;
}

/* The header's bounds, with room for f32 arithmetic; extreme: the value of largest magnitude. */
static double bound(attn_dtype type, double x, double extreme) {
  double most = fabs(extreme), room = 1 + 1e-4;
  bool end = -x * (extreme < 0 ? -1 : 1) > 7.4999 / 8 * most;
  switch (type) {
  case ATTN_F32:
    return 0;
  case ATTN_F16:
    return fmax(fabs(x) * 0x1p-11, 0x1p-25);
  case ATTN_BF16:
    return fmax(fabs(x) * 0x1p-8, 0x1p-134);
  case ATTN_F8E4M3:
    return fmax(fabs(x) * 0x1p-4, 0x1p-10 * (double)one[0]);
  case ATTN_F8E5M2:
    return fmax(fabs(x) * 0x1p-3, 0x1p-17);
  case ATTN_INT8:
    return room * most / 254 + 0x1p-143;
  case ATTN_Q8_0:
    return room * most / 254 + fabs(x) * 0x1p-11 + 127 * 0x1p-25;
  default:
    return room * most / (end ? 8 : 16) + fabs(x) * 0x1p-11 + 8 * 0x1p-25;
  }
}

/* The largest error of a side, as a part of what is documented. */
static double worst_of(attn_dtype type, const float *given, const unsigned char *data,
                       const float *scales) {
  double worst = 0;
  for (int r = 0; r < B * H * S; r++)
    for (int c = 0; c < D; c++) {
      const float *row = given + r * D, *block = type == ATTN_INT8 ? row : row + c / 32 * 32;
      double extreme = 0, x = (double)row[c], got = stored(type, data, scales, r, c);
      for (int i = 0; i < (type == ATTN_INT8 ? D : 32); i++)
        if (fabs((double)block[i]) > fabs(extreme)) extreme = (double)block[i];
      double error = fabs(got - x), limit = bound(type, x, extreme);
      if (!(error <= limit))
        fail_msg("%s: row %d, element %d is %g, given %g, largest %g: off by %g of %g",
                 attn_dtype_name(type), r, c, got, x, extreme, error, limit);
      if (limit > 0) worst = fmax(worst, error / limit);
    }
  return worst;
}

static void test_quantisation_error_is_as_documented(void **unused) {
  (void)unused;
  const float sizes[] = { 0, 1e4f, 1, 1e-3f, 1e-6f, 1e-40f, 1e-44f }; // denormal scales too
  for (int t = 0; t < TYPES; t++) {
    attn_problem p = problem_of(types[t], false);
    fill(77);
    for (int r = 0; r < B * H * S; r++)
      for (int c = 0; c < D; c++) {
        float size = sizes[r % 7];
        if (types[t] == ATTN_F8E4M3) size = fminf(size, 100); // its largest is 448 times the scale
        k[r * D + c] *= size;
        v[r * D + c] = c == r % D ? (r % 2 ? -200.0f : 200.0f) : size == 0 ? 0 : v[r * D + c];
      }
    append_all(&p, 0, 3);
    double worst = fmax(worst_of(types[t], k, ck[0], sk[0]), worst_of(types[t], v, cv[0], sv[0]));
    if (types[t] != ATTN_F32) assert_true(worst > 0.9); // the bounds are reached, not merely kept
  }
}

static void test_nan_and_infinity_stay_in_their_row(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) {
    attn_problem p = problem_of(types[t], false);
    int64_t row = attn_dtype_bytes(types[t], D);
    fill(78);
    append_all(&p, 0, S);
    for (int c = 0; c < D; c++) k[2 * D + c] = NAN;
    k[4 * D + 9] = NAN, k[6 * D + 40] = -INFINITY, k[8 * D] = 1e38f;
    append_all(&p, 1, S);
    for (int j = 0; j < B * H * CAP; j++)
      if (j != 2 && j != 4 && j != 6 && j != 8)
        assert_memory_equal(ck[0] + j * row, ck[1] + j * row, (size_t)row);
    assert_memory_equal(cv[0], cv[1], sizeof(cv[0]));
  }
}

/* Everything at once that the others leave out: rows longer than a chunk, V of another width, a
 * prefix, strides of every kind, a scale per head, sequences of their own lengths. */
static void check_odd(attn_dtype type) {
  enum { P = 3, CAPACITY = 9, DK = 544, DV = 288, ROWS = 4 };
  static float xk[2 * 2 * ROWS * DK * 2], xv[2 * 2 * ROWS * DV];
  static float tk[2 * CAPACITY * 2], tv[2 * CAPACITY * 2];
  static unsigned char wide_k[2 * CAPACITY * 2 * DK * 2 * 4], wide_v[2 * CAPACITY * 2 * DV * 4];
  const int32_t position[2] = { P + 1, P + 4 }, counts[2] = { ROWS, 2 };
  attn_problem p = { .batch = 2,
                     .heads_q = 2,
                     .seq_q = 1,
                     .seq_kv = P + CAPACITY,
                     .prefix = P,
                     .head_dim = DK,
                     .head_dim_v = DV,
                     .kv_dtype = type,
                     .layout = ATTN_LAYOUT_BSHD };
  bool fp8 = type == ATTN_F8E4M3 || type == ATTN_F8E5M2;
  if (fp8) p.fp8_scale = ATTN_FP8_SCALE_HEAD;
  int64_t col = type == ATTN_Q8_0 || type == ATTN_Q4_0 ? 1 : 2; // blocks have no inner stride
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), ATTN_OK);
  p.k_strides.batch *= col, p.k_strides.row *= col, p.k_strides.head *= col, p.k_strides.col = col;
  uint64_t seed = 9;
  for (size_t i = 0; i < sizeof(xk) / 4; i++) xk[i] = random_float(&seed);
  for (size_t i = 0; i < sizeof(xv) / 4; i++) xv[i] = random_float(&seed);
  tk[0] = 0.25f, tk[1] = 0.5f, tv[0] = 2, tv[1] = 1;
  attn_kv_cache c = { wide_k, wide_v, tk, tv, NULL };
  attn_kv_rows rows = { .k = xk,
                        .v = xv,
                        .count = ROWS,
                        .counts = counts,
                        .position = position,
                        .k_strides = { 4 * ROWS * DK, 2 * ROWS * DK, 2 * DK, 2 } };
  if (attn_kv_append(&p, &c, &rows)) fail_msg("%s", attn_last_error());
  for (int side = 0; side < 2; side++)
    for (int n = 0; n < 2 * 2 * ROWS; n++) {
      int b = n / (2 * ROWS), h = n / ROWS % 2, i = n % ROWS, dim = side ? DV : DK;
      if (i >= counts[b]) continue;
      int64_t j = position[b] - P + i, inner = side ? 1 : col;
      int64_t at = (((b * CAPACITY + j) * 2 + h) * dim) * inner;
      float x[DK], most = 0, scale = 1;
      for (int e = 0; e < dim; e++) x[e] = side ? xv[n * DV + e] : xk[(n * DK + e) * 2];
      for (int e = 0; e < dim; e++) most = fmaxf(most, fabsf(x[e]));
      if (fp8) scale = (side ? tv : tk)[h];
      if (type == ATTN_INT8) {
        scale = (side ? tv : tk)[(b * CAPACITY + j) * 2 + h];
        assert_true(scale == most / 127);
      }
      static unsigned char want[DK * 4];
      for (int e = 0; e < dim; e++) x[e] /= scale;
      assert_int_equal(attn_dtype_from_f32(type, x, want, dim), ATTN_OK);
      for (int e = 0; e < dim; e++)
        assert_true(attn_dtype_load(type, want, e) ==
                    attn_dtype_load(type, side ? wide_v : wide_k, at + e * inner));
    }
}

static void test_odd_shapes(void **unused) {
  (void)unused;
  for (int t = 0; t < TYPES; t++) check_odd(types[t]);
}

/* { 0, 0, 0, 1 } is one row for all, as the header says; all 0 is contiguous. */
static void test_expanded_rows(void **unused) {
  (void)unused;
  attn_problem p = problem_of(ATTN_F32, true);
  fill(12);
  attn_kv_cache c = cache_of(&p, 0);
  attn_kv_rows rows = { .k = k, .v = v, .count = S, .k_strides = { 0, 0, 0, 1 } };
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_OK);
  for (int n = 0; n < B * S * H; n++) {
    int b = n / (S * H), j = n / H % S, h = n % H;
    int64_t at = (((int64_t)table[b * PAGES + j / PAGE] * PAGE + j % PAGE) * H + h) * D;
    assert_memory_equal(ck[0] + at * 4, k, D * 4);
    assert_memory_equal(cv[0] + at * 4, v + ((b * H + h) * S + j) * D, D * 4);
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
      if (!inside && (ck[0][i] != 0xff || cv[0][i] != 0xff))
        fail_msg("%s: byte %lld", attn_dtype_name(types[t]), (long long)i);
    }
    for (size_t i = (size_t)(B * H * CAP * row); i < sizeof(ck[0]); i++)
      assert_true(ck[0][i] == 0xff && cv[0][i] == 0xff);
    for (int i = 0; i < MAX / D; i++) {
      bool inside = types[t] == ATTN_INT8 && (i / H == 10 || i / H == 11);
      assert_true(isnan(sk[0][i]) == !inside && isnan(sv[0][i]) == !inside);
    }
  }
}

static void test_bad_calls_write_nothing(void **unused) {
  (void)unused;
  attn_problem p = problem_of(ATTN_INT8, true);
  fill(6);
  attn_kv_cache c = cache_of(&p, 0);
  const int32_t position[B] = { 0, 46 }, late[B] = { 49, 0 }, negative[B] = { -1, 0 },
                counts[B] = { 1, 9 };
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
  attn_problem packed = { .batch = 1,
                          .heads_q = 1,
                          .seq_q = 1,
                          .seq_kv = 4,
                          .head_dim = 4,
                          .varlen = true,
                          .total_q = 1,
                          .total_kv = 4 };
  assert_int_equal(attn_kv_append(&packed, &c, &rows), ATTN_ERROR_VALUE);
  for (size_t i = 0; i < sizeof(ck[0]); i++) assert_true(ck[0][i] == 0xff && cv[0][i] == 0xff);
  rows.count = 0;
  assert_int_equal(attn_kv_append(&p, &c, &rows), ATTN_OK);
}

static void refused(const attn_problem *p, attn_kv_cache c, attn_kv_rows rows, attn_status status,
                    const char *named) {
  attn_status got = attn_kv_append(p, &c, &rows);
  if (got != status || !strstr(attn_last_error(), named))
    fail_msg("%s: status %d, \"%s\"", named, (int)got, attn_last_error());
}

static void test_each_bad_argument_is_named(void **unused) {
  (void)unused;
  attn_problem p = problem_of(ATTN_F8E4M3, true), bad = p;
  fill(7);
  float scales[2] = { 1, NAN };
  const int32_t counts[B] = { 3, -1 }, pages[B * PAGES] = { -1 };
  const attn_kv_cache good = cache_of(&p, 0);
  const attn_kv_rows r = { .k = k, .v = v, .count = 3 };
#define CACHE(field, value, status, named)                                                         \
  do {                                                                                             \
    attn_kv_cache c = good;                                                                        \
    c.field = value;                                                                               \
    refused(&bad, c, r, status, named);                                                            \
  } while (0)
#define ROWS(field, value, status, named)                                                          \
  do {                                                                                             \
    attn_kv_rows x = r;                                                                            \
    x.field = value;                                                                               \
    refused(&bad, good, x, status, named);                                                         \
  } while (0)
  CACHE(k, NULL, ATTN_ERROR_NULL, "cache.k ");
  CACHE(v, NULL, ATTN_ERROR_NULL, "cache.v ");
  CACHE(k_scale, NULL, ATTN_ERROR_NULL, "cache.k_scale");
  CACHE(v_scale, NULL, ATTN_ERROR_NULL, "cache.v_scale");
  CACHE(block_table, NULL, ATTN_ERROR_NULL, "cache.block_table");
  CACHE(block_table, pages, ATTN_ERROR_SHAPE, "block_table[0][0] of value (-1)");
  CACHE(k_scale, scales + 1, ATTN_ERROR_VALUE, "cache.k_scale[0] of value (");
  bad.fp8_scale = ATTN_FP8_SCALE_HEAD;
  float zero[2] = { 1, 0 };
  attn_kv_cache heads = good;
  heads.k_scale = heads.v_scale = zero;
  refused(&bad, heads, r, ATTN_ERROR_VALUE, "cache.k_scale[1] of value (0)");
  bad = problem_of(ATTN_F8E5M2, true);
  ROWS(k, NULL, ATTN_ERROR_NULL, "rows.k ");
  ROWS(v, NULL, ATTN_ERROR_NULL, "rows.v ");
  ROWS(dtype, (attn_dtype)99, ATTN_ERROR_DTYPE, "rows.dtype of value (99)");
  ROWS(dtype, ATTN_F64, ATTN_ERROR_DTYPE, "rows.dtype");
  ROWS(counts, counts, ATTN_ERROR_SHAPE, "rows.counts[1] of value (-1)");
  ROWS(v_strides.row, -64, ATTN_ERROR_STRIDE, "rows.v_strides.row of value (-64)");
  ROWS(k_strides.batch, INT64_MAX, ATTN_ERROR_OVERFLOW, "rows.k");
  ROWS(count, INT64_MAX, ATTN_ERROR_OVERFLOW, "rows.k");
  bad = problem_of(ATTN_F32, false);
  assert_int_equal(attn_problem_set_layout(&bad, ATTN_LAYOUT_BHSD), ATTN_OK);
  attn_problem dense = bad;
  bad.v_strides.head = 0;
  refused(&bad, good, r, ATTN_ERROR_STRIDE, "v_strides");
  bad = dense, bad.k_strides.row = D - 1;
  refused(&bad, good, r, ATTN_ERROR_STRIDE, "k_strides");
  bad = problem_of(ATTN_Q4_0, false), bad.head_dim = 48;
  refused(&bad, good, r, ATTN_ERROR_SHAPE, "head_dim of value (48)");
  for (size_t i = 0; i < sizeof(ck[0]); i++) assert_true(ck[0][i] == 0xff && cv[0][i] == 0xff);
#undef CACHE
#undef ROWS
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_type_contiguous_and_paged),
    cmocka_unit_test(test_as_data_prepared_by_hand),
    cmocka_unit_test(test_narrow_sources),
    cmocka_unit_test(test_quantisation_error_is_as_documented),
    cmocka_unit_test(test_nan_and_infinity_stay_in_their_row),
    cmocka_unit_test(test_odd_shapes),
    cmocka_unit_test(test_expanded_rows),
    cmocka_unit_test(test_nothing_else_is_written),
    cmocka_unit_test(test_bad_calls_write_nothing),
    cmocka_unit_test(test_each_bad_argument_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
