// SPDX-License-Identifier: Apache-2.0
/* Data that does not fit the problem is refused by name before anything is touched; data that is
 * not needed may be missing. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "core/problem.h"

static float numbers[64];
static const int32_t kv_len[2] = { 5, 0 };
static const int32_t cu_q[3] = { 0, 2, 5 }, cu_kv[3] = { 0, 4, 9 };
static const int32_t pages[2][3] = { { 6, 0, 3 }, { 1, 2, 5 } };

static void no_mod(void *user, float *scores, int64_t ld, int64_t batch, int lanes,
                   const int64_t *head, const int64_t *q_index, int64_t kv_begin,
                   int64_t kv_count) {
  (void)user, (void)scores, (void)ld, (void)batch, (void)lanes;
  (void)head, (void)q_index, (void)kv_begin, (void)kv_count;
}

static const attn_io full_io = { .q = numbers,
                                 .k = numbers,
                                 .v = numbers,
                                 .out = numbers,
                                 .mask = numbers,
                                 .lse = numbers,
                                 .weights = numbers,
                                 .alibi_slopes = numbers,
                                 .sinks = numbers,
                                 .score_mod = no_mod,
                                 .kv_len = kv_len,
                                 .cu_seqlens_q = cu_q,
                                 .cu_seqlens_kv = cu_kv,
                                 .block_table = pages[0],
                                 .q_scale = numbers,
                                 .k_scale = numbers,
                                 .v_scale = numbers };
static const attn_problem base = {
  .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_kv = 5, .head_dim = 8
};

static attn_status check(const attn_problem *raw, const attn_io *io) {
  attn_problem p;
  if (attn_problem_resolve(raw, &p)) fail_msg("%s", attn_last_error());
  return problem_check_io(&p, io);
}

#define FAULT(status, needle, ...)                                                                 \
  do {                                                                                             \
    attn_problem p = base;                                                                         \
    attn_io io = full_io;                                                                          \
    __VA_ARGS__;                                                                                   \
    assert_int_equal(check(&p, &io), status);                                                      \
    if (!strstr(attn_last_error(), needle))                                                        \
      fail_msg("\"%s\" lacks \"%s\"", attn_last_error(), needle);                                  \
  } while (0)
#define PASSES(...)                                                                                \
  do {                                                                                             \
    attn_problem p = base;                                                                         \
    attn_io io = full_io;                                                                          \
    __VA_ARGS__;                                                                                   \
    if (check(&p, &io)) fail_msg("%s", attn_last_error());                                         \
  } while (0)

#define VARLEN (p.varlen = true, p.total_q = 5, p.total_kv = 9)
#define PAGED (p.page_size = 2, p.num_pages = 7, p.pages_per_seq = 3)

static void test_pointers_that_are_needed(void **state) {
  (void)state;
  const attn_status null = ATTN_ERROR_NULL;
  FAULT(null, "io.q is NULL", io.q = NULL);
  FAULT(null, "io.k is NULL", io.k = NULL);
  FAULT(null, "io.v is NULL", io.v = NULL);
  FAULT(null, "io.out is NULL", io.out = NULL);
  FAULT(null, "io.mask is NULL", io.mask = NULL, p.mask = ATTN_MASK_BOOL);
  FAULT(null, "io.lse is NULL", io.lse = NULL, p.return_lse = true);
  FAULT(null, "io.weights is NULL", io.weights = NULL, p.weights = ATTN_WEIGHTS_SCORES);
  FAULT(null, "io.alibi_slopes is NULL", io.alibi_slopes = NULL, p.alibi = true);
  FAULT(null, "io.sinks is NULL", io.sinks = NULL, p.sinks = true);
  FAULT(null, "io.score_mod is NULL", io.score_mod = NULL, p.score_mod = true);
  FAULT(null, "io.kv_len is NULL", io.kv_len = NULL, p.kv_lengths = true);
  FAULT(null, "io.cu_seqlens_q is NULL", io.cu_seqlens_q = NULL, VARLEN);
  FAULT(null, "io.cu_seqlens_kv is NULL", io.cu_seqlens_kv = NULL, VARLEN);
  FAULT(null, "io.block_table is NULL", io.block_table = NULL, PAGED);
  FAULT(null, "io.q_scale is NULL", io.q_scale = NULL, p.dtype = ATTN_F8E4M3,
        p.fp8_scale = ATTN_FP8_SCALE_TENSOR);
  FAULT(null, "io.k_scale is NULL", io.k_scale = NULL, p.kv_dtype = ATTN_F8E4M3,
        p.fp8_scale = ATTN_FP8_SCALE_HEAD);
  FAULT(null, "io.k_scale is NULL", io.k_scale = NULL, p.kv_dtype = ATTN_INT8);
  FAULT(null, "io.v_scale is NULL", io.v_scale = NULL, p.kv_dtype = ATTN_INT8);
  attn_problem resolved;
  assert_int_equal(attn_problem_resolve(&base, &resolved), ATTN_OK);
  assert_int_equal(problem_check_io(&resolved, NULL), ATTN_ERROR_NULL);
}

static void test_pointers_that_are_not(void **state) {
  (void)state;
  const attn_io bare = { .q = numbers, .k = numbers, .v = numbers, .out = numbers };
  PASSES(io = bare);
  PASSES(io = bare, io.k = io.v = NULL, p.seq_kv = 0, p.mask = ATTN_MASK_BOOL);
  PASSES(io = (attn_io){ 0 }, p.batch = 0, p.mask = ATTN_MASK_BOOL, p.kv_lengths = true);
  PASSES(io = (attn_io){ 0 }, p.heads_q = p.heads_kv = 0, p.sinks = true, p.alibi = true);
  PASSES(io = (attn_io){ 0 }, p.seq_q = 0, p.return_lse = true, PAGED);
  PASSES(io = (attn_io){ 0 }, p.batch = 0, VARLEN, p.total_q = 0, p.total_kv = 0);
  // Only what is fp8 has scales.
  PASSES(io = bare, p.kv_dtype = ATTN_F8E4M3, p.fp8_scale = ATTN_FP8_SCALE_HEAD,
         io.k_scale = io.v_scale = numbers);
  PASSES(io = bare, p.dtype = ATTN_F8E5M2, p.kv_dtype = ATTN_F16, io.q_scale = numbers,
         p.fp8_scale = ATTN_FP8_SCALE_TENSOR);
  // Paged: no table where no sequence has a key, no cu_seqlens_kv at all.
  static const int32_t none[2] = { 0, 0 };
  PASSES(PAGED, io.block_table = NULL, p.kv_lengths = true, io.kv_len = none);
  PASSES(PAGED, p.num_pages = 0, io.k = io.v = NULL, p.kv_lengths = true, io.kv_len = none);
  PASSES(PAGED, VARLEN, io.cu_seqlens_kv = NULL);
}

static void test_lengths(void **state) {
  (void)state;
  static const int32_t above[2] = { 5, 6 }, below[2] = { -1, 0 };
  PASSES(p.kv_lengths = true);
  FAULT(ATTN_ERROR_SHAPE, "kv_len[1] of value (6) is not in [0, seq_kv (5)]", p.kv_lengths = true,
        io.kv_len = above);
  FAULT(ATTN_ERROR_SHAPE, "kv_len[0] of value (-1)", p.kv_lengths = true, io.kv_len = below);
}

static void test_offsets(void **state) {
  (void)state;
  static const int32_t first[3] = { 1, 2, 5 }, falling[3] = { 0, 6, 5 }, tall[3] = { 0, 1, 5 };
  static const int32_t slack[3] = { 0, 2, 4 }, negative[3] = { 0, -1, 5 };
  static const int32_t wide[3] = { 0, 0, 9 }, wrap[3] = { 0, INT32_MIN, INT32_MAX };
  PASSES(VARLEN);
#define OFFSETS(needle, cu) FAULT(ATTN_ERROR_SHAPE, needle, VARLEN, io.cu_seqlens_q = cu)
  OFFSETS("cu_seqlens_q[0] of value (1) is not 0", first);
  OFFSETS("cu_seqlens_q[1] of value (6)", falling);
  OFFSETS("cu_seqlens_q[1] of value (-1) is less than the one before (0)", negative);
  OFFSETS("cu_seqlens_q[2] of value (5) makes sequence 1 longer (4) than seq_q (3)", tall);
  OFFSETS("cu_seqlens_q[2] of value (4) differs from total_q (5)", slack);
  OFFSETS("cu_seqlens_q[1]", wrap);
  FAULT(ATTN_ERROR_SHAPE, "cu_seqlens_kv[2] of value (9) makes sequence 1 longer (9) than seq_kv",
        VARLEN, io.cu_seqlens_kv = wide);
  FAULT(ATTN_ERROR_SHAPE, "total_q of value (5) is not 0", VARLEN, p.batch = 0);
  // Sequences without a query, without a key, or without either.
  static const int32_t q_empty[4] = { 0, 0, 3, 3 }, kv_empty[4] = { 0, 4, 4, 4 };
  PASSES(p.batch = 3, VARLEN, p.total_q = 3, p.total_kv = 4, io.cu_seqlens_q = q_empty,
         io.cu_seqlens_kv = kv_empty);
}

static void test_pages(void **state) {
  (void)state;
  static const int32_t above[2][3] = { { 6, 0, 3 }, { 1, 7, 5 } };
  static const int32_t unused[2][3] = { { 6, 0, 3 }, { -1, -1, 99 } };
  static const int32_t short_len[2] = { 4, 3 };
  PASSES(PAGED);
  FAULT(ATTN_ERROR_SHAPE, "block_table[1][1] of value (7) is not in [0, num_pages (7))", PAGED,
        io.block_table = above[0]);
  FAULT(ATTN_ERROR_SHAPE, "block_table[1][0] of value (-1)", PAGED, io.block_table = unused[0]);
  // Entries past a sequence's length are not read: 5 keys of the first, none of the second.
  PASSES(PAGED, p.kv_lengths = true, io.block_table = unused[0]);
  FAULT(ATTN_ERROR_SHAPE, "block_table[1][0]", PAGED, p.kv_lengths = true, io.kv_len = short_len,
        io.block_table = unused[0]);
  FAULT(ATTN_ERROR_SHAPE, "block_table[0][0] of value (6)", PAGED, p.num_pages = 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_pointers_that_are_needed),
    cmocka_unit_test(test_pointers_that_are_not),
    cmocka_unit_test(test_lengths),
    cmocka_unit_test(test_offsets),
    cmocka_unit_test(test_pages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
