// SPDX-License-Identifier: Apache-2.0
/* Every fault of a problem is found and named with its value and limit; every legal edge is not;
 * what resolving fills in is what the header says. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "attn/select.h"
#include "core/problem.h"
#include "random_problem.h"

static const attn_problem base = {
  .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_kv = 5, .head_dim = 32, .head_dim_v = 64
};

static void expect_fault(const attn_problem *p, attn_status status, const char *a, const char *b) {
  attn_problem out;
  memset(&out, 0x5a, sizeof(out));
  attn_problem before = out;
  attn_status got = attn_problem_resolve(p, &out);
  if (got != status)
    fail_msg("%s, not %s: %s", attn_status_string(got), attn_status_string(status),
             got ? attn_last_error() : "");
  if (!strstr(attn_last_error(), a) || !strstr(attn_last_error(), b))
    fail_msg("\"%s\" lacks \"%s\" or \"%s\"", attn_last_error(), a, b);
  assert_memory_equal(&out, &before, sizeof(out));
  assert_int_equal(attn_problem_validate(p), status);
}

static void expect_valid(const attn_problem *p) {
  if (attn_problem_validate(p)) fail_msg("%s", attn_last_error());
}

#define FAULT(status, a, b, ...)                                                                   \
  do {                                                                                             \
    attn_problem p = base;                                                                         \
    __VA_ARGS__;                                                                                   \
    expect_fault(&p, status, a, b);                                                                \
  } while (0)
#define VALID(...)                                                                                 \
  do {                                                                                             \
    attn_problem p = base;                                                                         \
    __VA_ARGS__;                                                                                   \
    expect_valid(&p);                                                                              \
  } while (0)

static attn_problem resolved_of(const attn_problem *p) {
  attn_problem r;
  if (attn_problem_resolve(p, &r)) fail_msg("%s", attn_last_error());
  return r;
}

static void test_sizes(void **state) {
  (void)state;
  FAULT(ATTN_ERROR_SHAPE, "batch", "(-1)", p.batch = -1);
  FAULT(ATTN_ERROR_SHAPE, "heads_q", "(-4)", p.heads_q = -4);
  FAULT(ATTN_ERROR_SHAPE, "heads_kv", "(-2)", p.heads_kv = -2);
  FAULT(ATTN_ERROR_SHAPE, "seq_q", "(-9)", p.seq_q = -9);
  FAULT(ATTN_ERROR_SHAPE, "seq_kv", "(-1)", p.seq_kv = -1);
  FAULT(ATTN_ERROR_SHAPE, "head_dim", "(0)", p.head_dim = 0);
  FAULT(ATTN_ERROR_SHAPE, "head_dim", "(-1)", p.head_dim = -1);
  FAULT(ATTN_ERROR_SHAPE, "head_dim_v", "(-1)", p.head_dim_v = -1);
  FAULT(ATTN_ERROR_SHAPE, "heads_q of value (6) is not a multiple", "heads_kv (4)", p.heads_q = 6,
        p.heads_kv = 4);
  FAULT(ATTN_ERROR_SHAPE, "heads_q of value (2)", "heads_kv (4)", p.heads_q = 2, p.heads_kv = 4);
  VALID(p.batch = 0);
  VALID(p.heads_q = 0, p.heads_kv = 0);
  VALID(p.seq_q = 0);
  VALID(p.seq_kv = 0);
  VALID(p.heads_kv = 0);
  VALID(p.heads_kv = 1);
  assert_int_equal(attn_problem_validate(NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_problem_resolve(&base, NULL), ATTN_ERROR_NULL);
}

static void test_numbers(void **state) {
  (void)state;
  FAULT(ATTN_ERROR_VALUE, "scale", "(nan)", p.scale = NAN);
  FAULT(ATTN_ERROR_VALUE, "scale", "(inf)", p.scale = INFINITY);
  FAULT(ATTN_ERROR_VALUE, "softcap", "(-1)", p.softcap = -1);
  FAULT(ATTN_ERROR_VALUE, "softcap", "(nan)", p.softcap = NAN);
  FAULT(ATTN_ERROR_VALUE, "softcap", "(inf)", p.softcap = INFINITY);
  FAULT(ATTN_ERROR_VALUE, "dropout of value (1)", "[0, 1)", p.dropout = 1);
  FAULT(ATTN_ERROR_VALUE, "dropout", "(-1)", p.dropout = -1);
  FAULT(ATTN_ERROR_VALUE, "dropout", "(nan)", p.dropout = NAN);
  VALID(p.scale = -1e4f);
  VALID(p.scale_set = true);
  VALID(p.softcap = 50);
  VALID(p.dropout = 0.999f);
  VALID(p.dropout = -0.0f);
}

static void test_enums(void **state) {
  (void)state;
  FAULT(ATTN_ERROR_DTYPE, "dtype", "(77)", p.dtype = (attn_dtype)77);
  FAULT(ATTN_ERROR_DTYPE, "kv_dtype", "(-1)", p.kv_dtype = (attn_dtype)-1);
  FAULT(ATTN_ERROR_DTYPE, "out_dtype", "(10)", p.out_dtype = ATTN_DTYPE_COUNT);
  FAULT(ATTN_ERROR_DTYPE, "mask_dtype", "(99)", p.mask_dtype = (attn_dtype)99);
  FAULT(ATTN_ERROR_VALUE, "causal", "(4)", p.causal = ATTN_CAUSAL_COUNT);
  FAULT(ATTN_ERROR_VALUE, "window_align", "(9)", p.window_align = (attn_causal)9);
  FAULT(ATTN_ERROR_VALUE, "window_align", "offset", p.window_align = ATTN_CAUSAL_OFFSET);
  FAULT(ATTN_ERROR_VALUE, "mask", "(3)", p.mask = ATTN_MASK_KIND_COUNT);
  FAULT(ATTN_ERROR_VALUE, "layout", "(3)", p.layout = ATTN_LAYOUT_COUNT);
  FAULT(ATTN_ERROR_VALUE, "weights", "(-2)", p.weights = (attn_weights)-2);
  FAULT(ATTN_ERROR_VALUE, "fp8_scale", "(3)", p.fp8_scale = ATTN_FP8_SCALE_COUNT);
}

static void test_dtypes_that_go_together(void **state) {
  (void)state;
  FAULT(ATTN_ERROR_DTYPE, "dtype of value (int8)", "KV cache", p.dtype = ATTN_INT8);
  FAULT(ATTN_ERROR_DTYPE, "dtype of value (q8_0)", "KV cache", p.dtype = ATTN_Q8_0);
  FAULT(ATTN_ERROR_DTYPE, "kv_dtype of value (f64)", "(f32)", p.kv_dtype = ATTN_F64);
  FAULT(ATTN_ERROR_DTYPE, "kv_dtype of value (f32)", "(f64)", p.dtype = ATTN_F64,
        p.kv_dtype = ATTN_F32);
  FAULT(ATTN_ERROR_DTYPE, "out_dtype of value (bf16)", "(f16)", p.dtype = ATTN_F16,
        p.out_dtype = ATTN_BF16);
  FAULT(ATTN_ERROR_DTYPE, "mask_dtype of value (f64)", "f16", p.mask = ATTN_MASK_ADDITIVE,
        p.mask_dtype = ATTN_F64);
  FAULT(ATTN_ERROR_DTYPE, "fp8_scale", "(f32)", p.fp8_scale = ATTN_FP8_SCALE_TENSOR);
  VALID(p.dtype = ATTN_F64);
  VALID(p.dtype = ATTN_F64, p.out_dtype = ATTN_F32);
  VALID(p.dtype = ATTN_BF16, p.out_dtype = ATTN_F32);
  VALID(p.dtype = ATTN_BF16, p.kv_dtype = ATTN_F8E4M3, p.fp8_scale = ATTN_FP8_SCALE_HEAD);
  VALID(p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = ATTN_BF16);
  // Every cache type with every query type; every mask type with every query type.
  static const attn_dtype q[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F8E4M3, ATTN_F8E5M2 };
  static const attn_dtype kv[] = { ATTN_F32,    ATTN_F16,  ATTN_BF16, ATTN_F8E4M3,
                                   ATTN_F8E5M2, ATTN_INT8, ATTN_Q8_0, ATTN_Q4_0 };
  for (int i = 0; i < 5; i++) {
    for (int j = 0; j < 8; j++) VALID(p.dtype = q[i], p.kv_dtype = kv[j]);
    for (int j = 0; j < 3; j++)
      VALID(p.dtype = q[i], p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = q[j]);
  }
}

static void test_block_dtypes_need_whole_blocks(void **state) {
  (void)state;
  FAULT(ATTN_ERROR_SHAPE, "head_dim of value (48)", "32", p.head_dim = 48, p.kv_dtype = ATTN_Q8_0);
  FAULT(ATTN_ERROR_SHAPE, "head_dim_v of value (33)", "32", p.head_dim_v = 33,
        p.kv_dtype = ATTN_Q4_0);
  FAULT(ATTN_ERROR_STRIDE, "k_strides.row of value (40)", "32", p.kv_dtype = ATTN_Q8_0,
        attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), p.k_strides.row = 40);
  FAULT(ATTN_ERROR_STRIDE, "v_strides.col of value (2)", "1", p.kv_dtype = ATTN_Q8_0,
        attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), p.v_strides.col = 2);
  VALID(p.kv_dtype = ATTN_Q8_0, attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), p.k_strides.row = 0);
  VALID(p.kv_dtype = ATTN_Q8_0, attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD),
        p.q_strides.row = 777); // q is not in blocks
}

static void test_mask_dims(void **state) {
  (void)state;
#define DIMS(a, b, c, d)                                                                           \
  (p.mask = ATTN_MASK_BOOL, p.mask_dims[0] = a, p.mask_dims[1] = b, p.mask_dims[2] = c,            \
   p.mask_dims[3] = d)
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[0] of value (3)", "batch (2)", DIMS(3, 0, 0, 0));
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[1] of value (2)", "heads_q (4)", DIMS(0, 2, 0, 0));
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[2] of value (5)", "seq_q (3)", DIMS(0, 0, 5, 0));
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[3] of value (6)", "seq_kv (5)", DIMS(0, 0, 0, 6));
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[2] of value (-1)", "seq_q (3)", DIMS(0, 0, -1, 0));
  FAULT(ATTN_ERROR_SHAPE, "mask_dims[3] of value (-2)", "seq_kv (5)", DIMS(0, 0, 0, -2));
  FAULT(ATTN_ERROR_STRIDE, "mask_strides[2] of value (-5)", "negative", DIMS(0, 0, 0, 0),
        p.mask_strides[2] = -5);
  FAULT(ATTN_ERROR_STRIDE, "mask_strides[3] of value (0)", "(4)", DIMS(0, 0, 0, 4),
        p.mask_strides[2] = 4);
  VALID(DIMS(1, 1, 1, 1));
  VALID(DIMS(2, 4, 3, 5));
  VALID(DIMS(0, 0, 0, 4)); // shorter than the keys
  VALID(DIMS(1, 4, 1, 2));
  VALID(p.mask_dims[0] = 99); // without a mask they mean nothing
}

static void test_strides(void **state) {
  (void)state;
#define STRIDED attn_problem_set_layout(&p, ATTN_LAYOUT_BHSD)
  FAULT(ATTN_ERROR_STRIDE, "q_strides.row of value (-32)", "negative", STRIDED,
        p.q_strides.row = -32);
  FAULT(ATTN_ERROR_STRIDE, "k_strides.col", "(-1)", STRIDED, p.k_strides.col = -1);
  FAULT(ATTN_ERROR_STRIDE, "v_strides.batch", "(-1)", STRIDED, p.v_strides.batch = -1);
  FAULT(ATTN_ERROR_STRIDE, "out_strides.head", "(-64)", STRIDED, p.out_strides.head = -64);
  FAULT(ATTN_ERROR_STRIDE, "out_strides", "overlap", STRIDED, p.out_strides.row = 0);
  FAULT(ATTN_ERROR_STRIDE, "out_strides", "overlap", STRIDED, p.out_strides.row = 63);
  FAULT(ATTN_ERROR_STRIDE, "out_strides", "overlap", STRIDED, p.out_strides.col = 2);
  FAULT(ATTN_ERROR_STRIDE, "out_strides", "overlap", STRIDED,
        p.out_strides.batch = p.out_strides.head);
  FAULT(ATTN_ERROR_STRIDE, "out_strides", "overlap", p.layout = ATTN_LAYOUT_STRIDED);
  VALID(STRIDED, p.out_strides.col = 2, p.out_strides.row *= 2, p.out_strides.head *= 2,
        p.out_strides.batch *= 2);
  VALID(STRIDED, p.k_strides = (attn_strides){ 0 }, p.v_strides = (attn_strides){ 0 });
  VALID(STRIDED, p.k_strides.row = 1, p.k_strides.col = 5); // transposed
  VALID(STRIDED, p.batch = 1, p.out_strides.batch = 0);     // one element: any stride
  VALID(STRIDED, p.seq_q = 0, p.out_strides = (attn_strides){ 0 });
  // Interleaved without overlap: columns outermost.
  VALID(STRIDED, p.out_strides = (attn_strides){ 12, 3, 1, 24 });
}

static void test_varlen_and_pages(void **state) {
  (void)state;
#define VARLEN (p.varlen = true, p.total_q = 6, p.total_kv = 9)
#define PAGED (p.page_size = 2, p.num_pages = 7, p.pages_per_seq = 3)
  FAULT(ATTN_ERROR_SHAPE, "total_q", "(-1)", VARLEN, p.total_q = -1);
  FAULT(ATTN_ERROR_SHAPE, "total_kv", "(-1)", VARLEN, p.total_kv = -1);
  FAULT(ATTN_ERROR_SHAPE, "varlen is not set", "(6)", p.total_q = 6);
  FAULT(ATTN_ERROR_VALUE, "weights", "varlen", VARLEN, p.weights = ATTN_WEIGHTS_PROBS);
  FAULT(ATTN_ERROR_VALUE, "kv_lengths", "varlen", VARLEN, p.kv_lengths = true);
  FAULT(ATTN_ERROR_SHAPE, "page_size", "(-1)", PAGED, p.page_size = -1);
  FAULT(ATTN_ERROR_SHAPE, "num_pages", "(-1)", PAGED, p.num_pages = -1);
  FAULT(ATTN_ERROR_SHAPE, "pages_per_seq", "(-3)", PAGED, p.pages_per_seq = -3);
  FAULT(ATTN_ERROR_SHAPE, "seq_kv of value (5)", "(4)", PAGED, p.pages_per_seq = 2);
  FAULT(ATTN_ERROR_SHAPE, "page_size is 0", "(7)", PAGED, p.page_size = 0);
  FAULT(ATTN_ERROR_OVERFLOW, "pages_per_seq", "page_size", PAGED, p.pages_per_seq = INT64_MAX);
  VALID(VARLEN);
  VALID(VARLEN, p.total_q = 0, p.total_kv = 0);
  VALID(PAGED);
  VALID(PAGED, p.num_pages = 0);
  VALID(PAGED, p.kv_lengths = true);
  VALID(PAGED, VARLEN, p.kv_lengths = true);
  VALID(PAGED, VARLEN);
}

static void test_products_cannot_wrap(void **state) {
  (void)state;
  const int64_t huge = (int64_t)1 << 40;
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of q", "63 bits", p.batch = huge, p.seq_q = huge);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of q", "63 bits", p.batch = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of k", "63 bits", p.seq_kv = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of q", "63 bits", p.head_dim = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of v", "63 bits", p.head_dim_v = INT64_MAX / 8);
  FAULT(ATTN_ERROR_OVERFLOW, "scores", "63 bits", p.seq_q = huge, p.seq_kv = huge);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of q", "63 bits", STRIDED, p.q_strides.row = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of k", "63 bits", STRIDED, p.k_strides.batch = INT64_MAX / 4);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of out", "63 bits", STRIDED, p.out_strides.batch = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of k", "63 bits", PAGED, p.num_pages = INT64_MAX / 8);
  FAULT(ATTN_ERROR_OVERFLOW, "pages_per_seq", "63 bits", PAGED, p.batch = huge,
        p.pages_per_seq = huge, p.seq_q = 0);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of q", "63 bits", VARLEN, p.total_q = INT64_MAX / 4);
  FAULT(ATTN_ERROR_OVERFLOW, "alibi_batch_stride", "63 bits", p.alibi = true,
        p.alibi_batch_stride = INT64_MAX);
  FAULT(ATTN_ERROR_OVERFLOW, "bytes of mask", "63 bits", DIMS(0, 0, 0, 0),
        p.mask_strides[0] = INT64_MAX);
  FAULT(ATTN_ERROR_STRIDE, "alibi_batch_stride", "(-1)", p.alibi = true, p.alibi_batch_stride = -1);
  VALID(p.seq_kv = (int64_t)1 << 34, p.seq_q = 1);
  VALID(STRIDED, p.batch = 1, p.q_strides.batch = INT64_MAX); // never multiplied by more than 0
  VALID(p.alibi_batch_stride = INT64_MAX);                    // without ALiBi it means nothing
  VALID(p.causal = ATTN_CAUSAL_OFFSET, p.causal_offset = INT64_MIN);
  VALID(p.window = true, p.window_left = INT64_MAX, p.window_right = INT64_MIN);
}

/* No sizes, whatever they are, make the checks themselves overflow (UBSan watches). */
static void test_any_numbers_are_answered(void **state) {
  (void)state;
  const uint64_t seed = 11;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  int valid = 0;
  for (int n = 0; n < 200000; n++) {
    attn_problem p = random_problem(&random), r;
    int64_t *fields[] = {
      &p.batch,           &p.heads_q,         &p.heads_kv,           &p.seq_q,
      &p.seq_kv,          &p.head_dim,        &p.head_dim_v,         &p.total_q,
      &p.total_kv,        &p.page_size,       &p.num_pages,          &p.pages_per_seq,
      &p.causal_offset,   &p.window_left,     &p.window_right,       &p.mask_dims[2],
      &p.mask_strides[0], &p.mask_strides[3], &p.alibi_batch_stride, &p.q_strides.batch,
      &p.k_strides.row,   &p.v_strides.head,  &p.out_strides.batch,  &p.out_strides.col
    };
    for (int64_t i = random_int(&random, 1, 3); i > 0; i--) {
      int64_t x = (int64_t)random_next(&random) >> random_int(&random, 0, 63);
      *fields[random_int(&random, 0, sizeof(fields) / sizeof(fields[0]) - 1)] = x;
    }
    if (attn_problem_resolve(&p, &r)) continue;
    valid++;
    attn_problem_size size;
    problem_key key;
    assert_int_equal(attn_problem_measure(&r, &size), ATTN_OK);
    assert_true(size.q_bytes >= 0 && size.k_bytes >= 0 && size.v_bytes >= 0 &&
                size.out_bytes >= 0 && size.mask_bytes >= 0 && size.scores_bytes >= 0 &&
                size.lse_bytes >= 0 && size.score_pairs >= 0);
    assert_true(size.score_pairs <= (double)size.scores_bytes / 4 * (1 + 1e-14));
    problem_key_make(&r, &key);
  }
  assert_true(valid > 10000);
}

static void test_defaults_are_filled_in(void **state) {
  (void)state;
  attn_problem p = { .batch = 2, .heads_q = 4, .seq_q = 3, .seq_kv = 5, .head_dim = 7 };
  attn_problem r = resolved_of(&p);
  assert_true(r.heads_kv == 4 && r.head_dim_v == 7);
  assert_true(r.dtype == ATTN_F32 && r.kv_dtype == ATTN_F32 && r.out_dtype == ATTN_F32);
  assert_true(r.scale_set && r.scale == (float)(1 / sqrt(7.0)));
  p.dtype = ATTN_F8E5M2;
  r = resolved_of(&p);
  assert_true(r.kv_dtype == ATTN_F8E5M2 && r.out_dtype == ATTN_F32);
  p.dtype = ATTN_BF16;
  r = resolved_of(&p);
  assert_true(r.kv_dtype == ATTN_BF16 && r.out_dtype == ATTN_BF16);
  p.scale_set = true;
  assert_true(resolved_of(&p).scale == 0);
  p.scale = -2;
  p.scale_set = false;
  assert_true(resolved_of(&p).scale == -2);
  p.softcap = -0.0f, p.dropout = -0.0f;
  r = resolved_of(&p);
  assert_true(!signbit(r.softcap) && !signbit(r.dropout));
  p.window = true, p.window_left = -7, p.window_right = 3;
  r = resolved_of(&p);
  assert_true(r.window && r.window_left == -1 && r.window_right == 3);
  assert_int_equal(r.window_align, ATTN_CAUSAL_BOTTOM_RIGHT);
  p.window_right = -1;
  assert_false(resolved_of(&p).window);
}

static void expect_strides(attn_strides s, int64_t batch, int64_t head, int64_t row, int64_t col) {
  assert_int_equal(s.batch, batch);
  assert_int_equal(s.head, head);
  assert_int_equal(s.row, row);
  assert_int_equal(s.col, col);
}

static void test_layouts_become_strides(void **state) {
  (void)state;
  attn_problem p = base, r = resolved_of(&p);
  assert_int_equal(r.layout, ATTN_LAYOUT_STRIDED);
  expect_strides(r.q_strides, 4 * 3 * 32, 3 * 32, 32, 1);
  expect_strides(r.k_strides, 2 * 5 * 32, 5 * 32, 32, 1);
  expect_strides(r.v_strides, 2 * 5 * 64, 5 * 64, 64, 1);
  expect_strides(r.out_strides, 4 * 3 * 64, 3 * 64, 64, 1);
  p.layout = ATTN_LAYOUT_BSHD;
  r = resolved_of(&p);
  expect_strides(r.q_strides, 3 * 4 * 32, 32, 4 * 32, 1);
  expect_strides(r.v_strides, 5 * 2 * 64, 64, 2 * 64, 1);
  for (int layout = 0; layout < 2; layout++) {
    p.layout = (attn_layout)layout;
    p.varlen = true, p.total_q = 6, p.total_kv = 10;
    r = resolved_of(&p);
    expect_strides(r.q_strides, 0, 32, 4 * 32, 1);
    expect_strides(r.k_strides, 0, 32, 2 * 32, 1);
    expect_strides(r.out_strides, 0, 64, 4 * 64, 1);
    p.page_size = 2, p.num_pages = 9, p.pages_per_seq = 3;
    r = resolved_of(&p);
    expect_strides(r.q_strides, 0, 32, 4 * 32, 1);
    expect_strides(r.k_strides, 2 * 2 * 32, 32, 2 * 32, 1);
    expect_strides(r.v_strides, 2 * 2 * 64, 64, 2 * 64, 1);
    p.varlen = false, p.total_q = p.total_kv = 0;
    r = resolved_of(&p);
    expect_strides(r.k_strides, 2 * 2 * 32, 32, 2 * 32, 1);
    p.page_size = p.num_pages = p.pages_per_seq = 0;
  }
  p.layout = ATTN_LAYOUT_STRIDED;
  p.out_strides = (attn_strides){ 10000, 1000, 100, 0 };
  r = resolved_of(&p);
  expect_strides(r.out_strides, 10000, 1000, 100, 1);
  expect_strides(r.q_strides, 0, 0, 0, 1);
}

static void test_set_layout_lets_single_strides_change(void **state) {
  (void)state;
  attn_problem p = base;
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), ATTN_OK);
  assert_int_equal(p.layout, ATTN_LAYOUT_STRIDED);
  expect_strides(p.k_strides, 5 * 2 * 32, 32, 2 * 32, 1);
  assert_false(p.scale_set); // the rest is as it was
  p.k_strides.head = 0;
  expect_strides(resolved_of(&p).k_strides, 5 * 2 * 32, 0, 2 * 32, 1);
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_STRIDED), ATTN_ERROR_VALUE);
  assert_int_equal(attn_problem_set_layout(&p, (attn_layout)-1), ATTN_ERROR_VALUE);
  assert_int_equal(attn_problem_set_layout(NULL, ATTN_LAYOUT_BSHD), ATTN_ERROR_NULL);
  p.seq_q = -1;
  attn_problem before = p;
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_BSHD), ATTN_ERROR_SHAPE);
  assert_memory_equal(&p, &before, sizeof(p));
}

static void expect_mask(const attn_problem *p, const int64_t dims[4], const int64_t strides[4]) {
  attn_problem r = resolved_of(p);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(r.mask_dims[i], dims[i]);
    assert_int_equal(r.mask_strides[i], strides[i]);
  }
}
#define MASK(p, ...)                                                                               \
  expect_mask(p, (const int64_t[][4]){ __VA_ARGS__ }[0], (const int64_t[][4]){ __VA_ARGS__ }[1])

static void test_masks_are_resolved(void **state) {
  (void)state;
  attn_problem p = base;
  p.mask = ATTN_MASK_BOOL;
  MASK(&p, { 2, 4, 3, 5 }, { 60, 15, 5, 1 });
  DIMS(1, 4, 1, 5);
  MASK(&p, { 1, 4, 1, 5 }, { 0, 5, 0, 1 });
  DIMS(0, 1, 1, 4);
  MASK(&p, { 2, 1, 1, 4 }, { 4, 0, 0, 1 });
  DIMS(1, 1, 3, 1);
  MASK(&p, { 1, 1, 3, 1 }, { 0, 0, 1, 0 });
  DIMS(1, 1, 1, 1);
  MASK(&p, { 1, 1, 1, 1 }, { 0, 0, 0, 0 });
  DIMS(0, 0, 0, 0);
  p.mask_strides[0] = 20, p.mask_strides[2] = 6, p.mask_strides[3] = 1; // heads expanded
  MASK(&p, { 2, 1, 3, 5 }, { 20, 0, 6, 1 });
  p.mask = ATTN_MASK_NONE;
  MASK(&p, { 0, 0, 0, 0 }, { 0, 0, 0, 0 });
}

static void test_measure(void **state) {
  (void)state;
  attn_problem_size s;
  attn_problem p = { .batch = 2,
                     .heads_q = 32,
                     .heads_kv = 8,
                     .seq_q = 1024,
                     .seq_kv = 1024,
                     .head_dim = 128,
                     .head_dim_v = 64,
                     .dtype = ATTN_BF16,
                     .causal = ATTN_CAUSAL_TOP_LEFT,
                     .return_lse = true };
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_int_equal(s.q_bytes, 2 * 32 * 1024 * 128 * 2);
  assert_int_equal(s.k_bytes, 2 * 8 * 1024 * 128 * 2); // 8 heads of 2 bytes
  assert_int_equal(s.v_bytes, 2 * 8 * 1024 * 64 * 2);
  assert_int_equal(s.out_bytes, 2 * 32 * 1024 * 64 * 2);
  assert_int_equal(s.lse_bytes, 2 * 32 * 1024 * 4);
  assert_int_equal(s.scores_bytes, 2ll * 32 * 1024 * 1024 * 4);
  assert_int_equal(s.mask_bytes, 0);
  double pairs = 2.0 * 32 * 1024 * 1025 / 2;
  assert_true(s.score_pairs == pairs && s.flops == 2 * pairs * (128 + 64));
  p.kv_dtype = ATTN_INT8, p.return_lse = false;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_int_equal(s.k_bytes, 2 * 8 * 1024 * (128 + 4)); // with a scale a token and head
  assert_int_equal(s.lse_bytes, 0);
  p.kv_dtype = ATTN_Q8_0;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_int_equal(s.k_bytes, 2 * 8 * 1024 * 128 / 32 * 34);
  p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = ATTN_F16, p.mask_dims[0] = p.mask_dims[1] = 1;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_int_equal(s.mask_bytes, 1024 * 1024 * 2);
  p.mask = ATTN_MASK_BOOL, p.mask_dims[2] = 1;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_int_equal(s.mask_bytes, 1024);
  p.batch = 0;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_true(s.q_bytes == 0 && s.k_bytes == 0 && s.flops == 0);
  attn_problem_size before = s;
  p.head_dim = 0;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_ERROR_SHAPE);
  assert_memory_equal(&s, &before, sizeof(s));
  assert_int_equal(attn_problem_measure(&p, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_problem_measure(NULL, &s), ATTN_ERROR_NULL);
  p = (attn_problem){ .batch = 3, .heads_q = 2, .seq_q = 10, .seq_kv = 10, .head_dim = 4 };
  p.varlen = true, p.total_q = 7, p.total_kv = 9;
  assert_int_equal(attn_problem_measure(&p, &s), ATTN_OK);
  assert_true(s.q_bytes == 7 * 2 * 4 * 4 && s.k_bytes == 9 * 2 * 4 * 4);
}

static const attn_tensor tensor_q = { ATTN_F16, { 2, 4, 3, 8 }, { 0 } };
static const attn_tensor tensor_k = { ATTN_F16, { 2, 2, 5, 8 }, { 0 } };
static const attn_tensor tensor_v = { ATTN_F16, { 2, 2, 5, 6 }, { 0 } };

static void expect_tensor_fault(const attn_tensor *q, const attn_tensor *k, const attn_tensor *v,
                                attn_status status, const char *a, const char *b) {
  attn_problem p = { .softcap = 3 }, before = p;
  assert_int_equal(attn_problem_from_tensors(q, k, v, &p), status);
  if (!strstr(attn_last_error(), a) || !strstr(attn_last_error(), b))
    fail_msg("\"%s\" lacks \"%s\" or \"%s\"", attn_last_error(), a, b);
  assert_memory_equal(&p, &before, sizeof(p));
}

static void test_tensors_make_a_problem(void **state) {
  (void)state;
  attn_problem p = { .causal = ATTN_CAUSAL_TOP_LEFT, .scale = 2 };
  assert_int_equal(attn_problem_from_tensors(&tensor_q, &tensor_k, &tensor_v, &p), ATTN_OK);
  assert_true(p.batch == 2 && p.heads_q == 4 && p.heads_kv == 2 && p.seq_q == 3 && p.seq_kv == 5);
  assert_true(p.head_dim == 8 && p.head_dim_v == 6 && p.dtype == ATTN_F16);
  assert_true(p.causal == ATTN_CAUSAL_TOP_LEFT && p.scale == 2);
  expect_strides(p.q_strides, 96, 24, 8, 1);
  expect_strides(p.v_strides, 60, 30, 6, 1);
  expect_strides(p.out_strides, 72, 18, 6, 1);
  attn_tensor expanded = tensor_k;
  expanded.strides[0] = 40, expanded.strides[2] = 8, expanded.strides[3] = 1;
  assert_int_equal(attn_problem_from_tensors(&tensor_q, &expanded, &tensor_v, &p), ATTN_OK);
  expect_strides(p.k_strides, 40, 0, 8, 1);
}

static void test_tensors_that_disagree_are_refused(void **state) {
  (void)state;
#define TENSORS(status, a, b, ...)                                                                 \
  do {                                                                                             \
    attn_tensor q = tensor_q, k = tensor_k, v = tensor_v;                                          \
    __VA_ARGS__;                                                                                   \
    expect_tensor_fault(&q, &k, &v, status, a, b);                                                 \
  } while (0)
  TENSORS(ATTN_ERROR_SHAPE, "batch", "(3)", k.shape[0] = 3);
  TENSORS(ATTN_ERROR_SHAPE, "batch", "(1)", v.shape[0] = 1);
  TENSORS(ATTN_ERROR_SHAPE, "heads", "(4)", v.shape[1] = 4);
  TENSORS(ATTN_ERROR_SHAPE, "key length of v (6)", "k (5)", v.shape[2] = 6);
  TENSORS(ATTN_ERROR_SHAPE, "head_dim", "(9)", k.shape[3] = 9);
  TENSORS(ATTN_ERROR_SHAPE, "heads_q", "(3)", k.shape[1] = v.shape[1] = 3);
  TENSORS(ATTN_ERROR_SHAPE, "heads of k (0)", "(4)", k.shape[1] = v.shape[1] = 0);
  TENSORS(ATTN_ERROR_SHAPE, "head_dim of v", "0", v.shape[3] = 0);
  TENSORS(ATTN_ERROR_SHAPE, "batch", "(-2)", q.shape[0] = k.shape[0] = v.shape[0] = -2);
  TENSORS(ATTN_ERROR_DTYPE, "dtype of v", "k", v.dtype = ATTN_F32);
  TENSORS(ATTN_ERROR_DTYPE, "dtype", "(55)", q.dtype = (attn_dtype)55);
  TENSORS(ATTN_ERROR_STRIDE, "q_strides.row", "(-8)", q.strides[2] = -8, q.strides[3] = 1);
  TENSORS(ATTN_ERROR_STRIDE, "v.strides[3]", "(6)", v.strides[2] = 1);
  TENSORS(ATTN_ERROR_OVERFLOW, "q", "63 bits", q.shape[2] = INT64_MAX);
  attn_problem p = { .varlen = true };
  assert_int_equal(attn_problem_from_tensors(&tensor_q, &tensor_k, &tensor_v, &p),
                   ATTN_ERROR_VALUE);
  assert_int_equal(attn_problem_from_tensors(NULL, &tensor_k, &tensor_v, &p), ATTN_ERROR_NULL);
  assert_int_equal(attn_problem_from_tensors(&tensor_q, &tensor_k, &tensor_v, NULL),
                   ATTN_ERROR_NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sizes),
    cmocka_unit_test(test_numbers),
    cmocka_unit_test(test_enums),
    cmocka_unit_test(test_dtypes_that_go_together),
    cmocka_unit_test(test_block_dtypes_need_whole_blocks),
    cmocka_unit_test(test_mask_dims),
    cmocka_unit_test(test_strides),
    cmocka_unit_test(test_varlen_and_pages),
    cmocka_unit_test(test_products_cannot_wrap),
    cmocka_unit_test(test_any_numbers_are_answered),
    cmocka_unit_test(test_defaults_are_filled_in),
    cmocka_unit_test(test_layouts_become_strides),
    cmocka_unit_test(test_set_layout_lets_single_strides_change),
    cmocka_unit_test(test_masks_are_resolved),
    cmocka_unit_test(test_measure),
    cmocka_unit_test(test_tensors_make_a_problem),
    cmocka_unit_test(test_tensors_that_disagree_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
