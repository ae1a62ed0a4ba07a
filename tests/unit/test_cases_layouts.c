// SPDX-License-Identifier: Apache-2.0
/* Sizes, packed and paged sequences, lengths, memory and merging where other implementations went wrong
 * (threads of pytorch/pytorch unless named), for every CPU backend that takes the input. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "attn/select.h"
#include "random.h"

enum { MAX = 1 << 20 };
static float q[MAX], k[MAX], v[MAX], out[MAX], lse[MAX];
static double expected[MAX];

static void fill(uint64_t seed, int count) {
  for (int i = 0; i < count; i++) q[i] = random_float(&seed), k[i] = random_float(&seed), v[i] = random_float(&seed);
}

static attn_io io_all(void) {
  return (attn_io){ .q = q, .k = k, .v = v, .out = out, .lse = lse };
}

static attn_context *context_of(attn_backend b) {
  attn_config config = { .preferred = b, .strict = true, .threads = 2, .ignore_environment = true, .no_measure = true };
  attn_context *c;
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  return c;
}

static bool run_on(attn_backend b, const attn_problem *p, const attn_io *io) {
  attn_context *c = context_of(b);
  attn_status status = attn_sdpa(c, p, io);
  attn_context_destroy(c);
  if (status && status != ATTN_ERROR_UNSUPPORTED) fail_msg("%s: %s", attn_backend_name(b), attn_last_error());
  return !status;
}

#define EACH_BACKEND(p, io)                                                                        \
  for (int b_ = ATTN_BACKEND_FLASH, ran_ = 0; b_ < ATTN_BACKEND_COUNT || (assert_true(ran_), 0); b_++)     \
    if (run_on((attn_backend)b_, p, io) && ++ran_)

static void like_reference(const attn_problem *p, attn_io io, int64_t count) {
  if (attn_reference(p, &io, expected, NULL, NULL)) fail_msg("%s", attn_last_error());
  EACH_BACKEND(p, &io)
    for (int64_t i = 0; i < count; i++)
      if (!(fabs((double)out[i] - expected[i]) <= 4e-6))
        fail_msg("%s: out[%lld] is %g, reference %g", attn_backend_name((attn_backend)b_), (long long)i,
                 (double)out[i], expected[i]);
}

static void test_sizes_of_zero_and_one(void **unused) { // 141218, 141219, 141229, 174939
  (void)unused;
  fill(1, 64);
  for (int bits = 0; bits < 64; bits++) {
    attn_problem p = { .batch = bits & 1, .heads_q = bits >> 1 & 1, .seq_q = bits >> 2 & 1, .seq_kv = bits >> 3 & 1,
                       .head_dim = 1 + (bits >> 4 & 1), .head_dim_v = 1 + (bits >> 5 & 1) };
    attn_io io = io_all();
    EACH_BACKEND(&p, &io) continue;
  }
  attn_problem none = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 0 };
  assert_int_equal(attn_problem_validate(&none), ATTN_ERROR_SHAPE);
}

static void test_many_batches(void **unused) { // 142228, 146704, 180445
  (void)unused;
  attn_problem p = { .batch = 65537, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 2 };
  fill(2, 65537 * 2);
  attn_io io = io_all();
  EACH_BACKEND(&p, &io) assert_memory_equal(out, v, 65537 * 2 * sizeof(float));
  attn_problem heads = { .batch = 1, .heads_q = 65537, .seq_q = 1, .seq_kv = 2, .head_dim = 2 };
  like_reference(&heads, io, 65537 * 2);
}

static void test_unequal_head_sizes(void **unused) { // 176767, transformers 39010, coreai-torch 117
  (void)unused;
  static const int64_t dims[][2] = { { 4, 2 }, { 192, 128 }, { 576, 512 }, { 21, 203 }, { 80, 80 }, { 1024, 1 } };
  for (int i = 0; i < 6; i++) {
    attn_problem p = { .batch = 1, .heads_q = 2, .seq_q = 8, .seq_kv = 9, .head_dim = dims[i][0], .head_dim_v = dims[i][1] };
    fill(3, 2 * 9 * 1024);
    like_reference(&p, io_all(), 2 * 8 * dims[i][1]);
  }
}

static void test_disagreeing_keys_and_values(void **unused) { // 193728
  (void)unused;
  attn_tensor tq = { ATTN_F32, { 1, 1, 3, 8 }, { 0 } }, tk = { ATTN_F32, { 1, 1, 5, 8 }, { 0 } }, tv = { ATTN_F32, { 1, 1, 6, 8 }, { 0 } };
  attn_problem p = { 0 };
  assert_int_equal(attn_problem_from_tensors(&tq, &tk, &tv, &p), ATTN_ERROR_SHAPE);
  assert_non_null(strstr(attn_last_error(), "6"));
}

static void test_values_out_of_range(void **unused) { // 112015
  (void)unused;
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 1 };
  static const float bad[] = { -1, 1, 1.5f, NAN };
  for (int i = 0; i < 4; i++) {
    p.dropout = bad[i];
    assert_int_equal(attn_problem_validate(&p), ATTN_ERROR_VALUE);
    assert_non_null(strstr(attn_last_error(), "dropout"));
  }
  p.dropout = 0, p.scale = NAN;
  assert_int_equal(attn_problem_validate(&p), ATTN_ERROR_VALUE);
}

static void test_empty_sequences_of_either_side(void **unused) { // flash-attention 2562, 2568, 1537
  (void)unused;
  static const int32_t cu_q[] = { 0, 0, 3, 5, 5 }, cu_kv[] = { 0, 4, 6, 9, 12 }, none[] = { 0, 4, 4, 9, 12 };
  attn_problem p = { .batch = 4, .heads_q = 2, .seq_q = 3, .seq_kv = 5, .head_dim = 8, .varlen = true, .total_q = 5, .total_kv = 12 };
  attn_io io = io_all();
  io.cu_seqlens_q = cu_q, io.cu_seqlens_kv = cu_kv;
  fill(4, 400);
  like_reference(&p, io, 5 * 2 * 8);
  io.cu_seqlens_kv = none; // the second sequence has queries and no keys
  like_reference(&p, io, 5 * 2 * 8);
  EACH_BACKEND(&p, &io)
    for (int i = 0; i < 3 * 2 * 8; i++) assert_true(out[i] == 0);
}

static void test_rows_beyond_the_offsets(void **unused) { // 176793, 188933, 186786
  (void)unused;
  static const int32_t cu[] = { 0, 144, 432, 944 };
  attn_problem p = { .batch = 3, .heads_q = 1, .seq_q = 512, .seq_kv = 512, .head_dim = 4, .varlen = true, .total_q = 946, .total_kv = 946 };
  attn_io io = io_all();
  io.cu_seqlens_q = io.cu_seqlens_kv = cu;
  out[0] = 1e30f;
  assert_int_equal(attn_sdpa(NULL, &p, &io), ATTN_ERROR_SHAPE);
  assert_non_null(strstr(attn_last_error(), "946"));
  assert_true(out[0] == 1e30f);
}

static void test_documents_do_not_see_each_other(void **unused) { // 110681, 163400, 177378, xformers 893
  (void)unused;
  enum { N = 5 };
  static const int32_t cu[] = { 0, 2, 5 };
  static const float want[N][N] = { { .5f, .5f }, { .5f, .5f }, { 0, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3 },
                                    { 0, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3 }, { 0, 0, 1.0f / 3, 1.0f / 3, 1.0f / 3 } };
  uint8_t mask[N * N];
  memset(q, 0, sizeof(q)), memset(v, 0, N * N * sizeof(float));
  for (int i = 0; i < N; i++) v[i * N + i] = 1;
  for (int i = 0; i < N * N; i++) mask[i] = (i / N < 2) == (i % N < 2) ? 1 : 0;
  attn_problem packed = { .batch = 2, .heads_q = 1, .seq_q = 3, .seq_kv = 3, .head_dim = N, .varlen = true, .total_q = N, .total_kv = N };
  attn_problem dense = { .batch = 1, .heads_q = 1, .seq_q = N, .seq_kv = N, .head_dim = N, .mask = ATTN_MASK_BOOL };
  attn_io io = io_all();
  io.cu_seqlens_q = io.cu_seqlens_kv = cu, io.mask = mask;
  EACH_BACKEND(&packed, &io) assert_memory_equal(out, want, sizeof(want));
  EACH_BACKEND(&dense, &io) assert_memory_equal(out, want, sizeof(want));
}

static void test_packed_with_a_bias_a_sequence(void **unused) { // 138993
  (void)unused;
  static const int32_t cu[] = { 0, 3, 7 };
  static float bias[2 * 4] = { 1, -2, 0.5f, 9, 0, 3, -1, -INFINITY };
  attn_problem p = { .batch = 2, .heads_q = 2, .seq_q = 4, .seq_kv = 4, .head_dim = 8, .varlen = true, .total_q = 7, .total_kv = 7,
                     .mask = ATTN_MASK_ADDITIVE };
  p.mask_dims[1] = p.mask_dims[2] = 1;
  attn_io io = io_all();
  io.cu_seqlens_q = io.cu_seqlens_kv = cu, io.mask = bias;
  fill(6, 200);
  like_reference(&p, io, 7 * 2 * 8);
}

static void test_lengths_hide_what_lies_beyond(void **unused) { // 173212
  (void)unused;
  enum { B = 3, S = 7, D = 8 };
  static const int32_t lengths[B] = { 3, 0, 7 };
  attn_problem p = { .batch = B, .heads_q = 1, .seq_q = 2, .seq_kv = S, .head_dim = D, .kv_lengths = true,
                     .causal = ATTN_CAUSAL_BOTTOM_RIGHT, .return_lse = true };
  fill(7, B * S * D);
  for (int b = 0; b < B; b++)
    for (int i = lengths[b] * D; i < S * D; i++) k[b * S * D + i] = v[b * S * D + i] = NAN;
  attn_io io = io_all();
  io.kv_len = lengths;
  like_reference(&p, io, B * 2 * D);
  EACH_BACKEND(&p, &io) assert_true(out[2 * D] == 0 && lse[2] == -INFINITY);
}

static void test_pages(void **unused) { // 121465, 175924, 191576, 195650
  (void)unused;
  enum { B = 2, S = 540, D = 8, MOST = 1200 };
  static const int64_t sizes[] = { 1, 7, 16, 64, 528, 600 };
  static float pk[MOST * D * 2], pv[MOST * D * 2], dense[B * 3 * D];
  static int32_t table[B * 600];
  static const int32_t lengths[B] = { 540, 100 };
  fill(8, B * S * D);
  for (int n = 0; n < 6; n++) {
    int64_t size = sizes[n], per = (S + size - 1) / size, pages = B * per;
    for (int i = 0; i < MOST * D * 2; i++) pk[i] = pv[i] = NAN;
    for (int64_t i = 0; i < pages; i++) table[i] = -1; // pages past a length do not exist
    for (int b = 0; b < B; b++)
      for (int64_t i = 0; i * size < lengths[b]; i++) {
        int64_t page = pages - 1 - (i * B + b); // scattered
        table[b * per + i] = (int32_t)page;
        for (int64_t j = i * size; j < (i + 1) * size && j < lengths[b]; j++) {
          memcpy(pk + (page * size + j % size) * D, k + (b * S + j) * D, D * sizeof(float));
          memcpy(pv + (page * size + j % size) * D, v + (b * S + j) * D, D * sizeof(float));
        }
      }
    if (pages * size > 2 * MOST) continue;
    attn_problem p = { .batch = B, .heads_q = 1, .seq_q = 3, .seq_kv = S, .head_dim = D, .kv_lengths = true };
    attn_problem paged = p;
    paged.page_size = size, paged.num_pages = pages, paged.pages_per_seq = per;
    attn_io io = io_all(), pio = { .q = q, .k = pk, .v = pv, .out = out, .kv_len = lengths, .block_table = table };
    io.kv_len = lengths;
    for (int b = ATTN_BACKEND_FLASH; b < ATTN_BACKEND_COUNT; b++) {
      if (!run_on((attn_backend)b, &p, &io)) continue;
      memcpy(dense, out, sizeof(dense));
      assert_true(run_on((attn_backend)b, &paged, &pio));
      assert_memory_equal(out, dense, sizeof(dense));
    }
    table[0] = (int32_t)pages;
    assert_int_equal(attn_sdpa(NULL, &paged, &pio), ATTN_ERROR_SHAPE);
  }
}

static void test_every_mask_type_with_every_query_type(void **unused) { // 99012, ComfyUI 8118, TITAN 11
  (void)unused;
  enum { L = 5, S = 6, D = 8 };
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
  static float mask[L * S], exact[L * D];
  static unsigned char tq[8 * S * D], tk[8 * S * D], tv[8 * S * D], tm[4 * L * S];
  fill(9, S * D);
  for (int i = 0; i < L * S; i++) mask[i] = (float)(i % 7) * 0.25f - 0.5f; // exact in every type
  mask[3] = -INFINITY;
  for (int a = 0; a < 4; a++)
    for (int b = 0; b < 4; b++) {
      attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = S, .head_dim = D, .dtype = types[a],
                         .out_dtype = ATTN_F32, .mask = b == 3 ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE };
      if (b < 3) p.mask_dtype = types[b], attn_dtype_from_f32(types[b], mask, tm, L * S);
      for (int i = 0; i < L * S && b == 3; i++) tm[i] = (unsigned char)(mask[i] != -INFINITY);
      attn_dtype_from_f32(types[a], q, tq, L * D);
      attn_dtype_from_f32(types[a], k, tk, S * D), attn_dtype_from_f32(types[a], v, tv, S * D);
      attn_io io = { .q = tq, .k = tk, .v = tv, .out = out, .mask = tm };
      like_reference(&p, io, L * D);
      if (b == 0) assert_true(run_on(ATTN_BACKEND_MATH, &p, &io)), memcpy(exact, out, sizeof(exact));
      if (b == 1 || b == 2) assert_true(run_on(ATTN_BACKEND_MATH, &p, &io)), assert_memory_equal(out, exact, sizeof(exact));
    }
}

static size_t workspace_of(attn_backend b, const attn_problem *p) {
  attn_context *c = context_of(b);
  attn_plan *plan;
  if (attn_plan_create(c, p, &plan)) fail_msg("%s", attn_last_error());
  size_t bytes = attn_plan_workspace(plan);
  attn_plan_destroy(plan);
  attn_context_destroy(c);
  return bytes;
}

static void test_workspace(void **unused) { // transformers 46960, 190523; Depth-Anything-3 268, 116472
  (void)unused;
  attn_problem gqa = { .batch = 1, .heads_q = 32, .heads_kv = 8, .seq_q = 4096, .seq_kv = 4096, .head_dim = 128 };
  assert_true(workspace_of(ATTN_BACKEND_FLASH, &gqa) < 1 << 20);
  attn_problem masked = { .batch = 2, .heads_q = 2, .seq_q = 512, .seq_kv = 4096, .head_dim = 64, .mask = ATTN_MASK_BOOL };
  masked.mask_dims[1] = masked.mask_dims[2] = 1;
  size_t few = workspace_of(ATTN_BACKEND_FLASH, &masked);
  masked.heads_q = 64, masked.seq_q = 4096;
  assert_int_equal(workspace_of(ATTN_BACKEND_FLASH, &masked), few);
}

static void test_merging_every_split(void **unused) { // flash-attention 404, 134650, flashinfer 2114
  (void)unused;
  enum { S = 9, D = 6, R = 4 };
  static float parts[2][R * D], part_lse[2][R], whole[R * D], whole_lse[R];
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = R, .seq_kv = S, .head_dim = D, .return_lse = true };
  fill(10, S * D);
  attn_io io = io_all();
  io.out = whole, io.lse = whole_lse;
  assert_int_equal(attn_sdpa(NULL, &p, &io), ATTN_OK);
  for (int cut = 0; cut <= S; cut++) {
    for (int half = 0; half < 2; half++) {
      attn_problem part = p;
      part.seq_kv = half ? S - cut : cut;
      attn_io pio = { .q = q, .k = k + half * cut * D, .v = v + half * cut * D, .out = parts[half], .lse = part_lse[half] };
      assert_int_equal(attn_sdpa(NULL, &part, &pio), ATTN_OK);
    }
    assert_int_equal(attn_merge(R, D, parts[0], part_lse[0], parts[1], part_lse[1], parts[0], part_lse[0]), ATTN_OK);
    for (int i = 0; i < R * D; i++) assert_true(fabsf(parts[0][i] - whole[i]) <= 1e-6f);
    for (int i = 0; i < R; i++) assert_true(fabsf(part_lse[0][i] - whole_lse[i]) <= 1e-6f);
  }
}

static void test_probabilities_of_one_query(void **unused) { // 98505, 119811, 143993
  (void)unused;
  enum { S = 50, D = 8 };
  static float weights[S];
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = S, .head_dim = D, .weights = ATTN_WEIGHTS_PROBS };
  fill(11, S * D);
  attn_io io = io_all();
  io.weights = weights;
  EACH_BACKEND(&p, &io) {
    double sum = 0, mean[D] = { 0 };
    for (int j = 0; j < S; j++) {
      sum += (double)weights[j];
      for (int d = 0; d < D; d++) mean[d] += (double)weights[j] * (double)v[j * D + d];
    }
    assert_true(fabs(sum - 1) <= 1e-6);
    for (int d = 0; d < D; d++) assert_true(fabs(mean[d] - (double)out[d]) <= 1e-6);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_sizes_of_zero_and_one),
    cmocka_unit_test(test_many_batches),
    cmocka_unit_test(test_unequal_head_sizes),
    cmocka_unit_test(test_disagreeing_keys_and_values),
    cmocka_unit_test(test_values_out_of_range),
    cmocka_unit_test(test_empty_sequences_of_either_side),
    cmocka_unit_test(test_rows_beyond_the_offsets),
    cmocka_unit_test(test_documents_do_not_see_each_other),
    cmocka_unit_test(test_packed_with_a_bias_a_sequence),
    cmocka_unit_test(test_lengths_hide_what_lies_beyond),
    cmocka_unit_test(test_pages),
    cmocka_unit_test(test_every_mask_type_with_every_query_type),
    cmocka_unit_test(test_workspace),
    cmocka_unit_test(test_merging_every_split),
    cmocka_unit_test(test_probabilities_of_one_query),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
