// SPDX-License-Identifier: Apache-2.0
/* Inputs on which other implementations went wrong, each as the property that must hold, for every CPU
 * backend that takes it. Numbers are threads of pytorch/pytorch unless another project is named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "attn/select.h"
#include "random.h"

enum { MAX = 1 << 17 };
static float q[MAX], k[MAX], v[MAX], out[MAX], lse[MAX];
static double expected[MAX], expected_lse[MAX];

static void fill(uint64_t seed) {
  for (int i = 0; i < MAX; i++) q[i] = random_float(&seed), k[i] = random_float(&seed), v[i] = random_float(&seed);
}

static attn_io io_all(void) {
  return (attn_io){ .q = q, .k = k, .v = v, .out = out, .lse = lse };
}

/* Runs on one backend; false when it says that it cannot. */
static bool run_on(attn_backend b, const attn_problem *p, const attn_io *io) {
  attn_config config = { .preferred = b, .strict = true, .threads = 2, .ignore_environment = true, .no_measure = true };
  attn_context *c;
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  for (int i = 0; i < MAX; i++) out[i] = lse[i] = 1e30f;
  attn_status status = attn_sdpa(c, p, io);
  attn_context_destroy(c);
  if (status && status != ATTN_ERROR_UNSUPPORTED) fail_msg("%s: %s", attn_backend_name(b), attn_last_error());
  return !status;
}

#define EACH_BACKEND(p, io)                                                                        \
  for (int b_ = ATTN_BACKEND_FLASH, ran_ = 0; b_ < ATTN_BACKEND_COUNT || (assert_true(ran_), 0); b_++)     \
    if (run_on((attn_backend)b_, p, io) && ++ran_)

/* Every backend within 4e-6 of the reference; NaN exactly where it has NaN. */
static void like_reference(const attn_problem *p, attn_io io, int64_t count) {
  if (attn_reference(p, &io, expected, expected_lse, NULL)) fail_msg("%s", attn_last_error());
  EACH_BACKEND(p, &io)
    for (int64_t i = 0; i < count; i++) {
      double a = (double)out[i], b = expected[i];
      if (!(isnan(b) ? isnan(a) : fabs(a - b) <= 4e-6))
        fail_msg("%s: out[%lld] is %g, reference %g", attn_backend_name((attn_backend)b_), (long long)i, a, b);
    }
}

/* q = 0 and V = identity: row i of out is exactly allowed / count. */
static void probe(attn_problem *p, int seq_q, int seq_kv) {
  *p = (attn_problem){ .batch = 1, .heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv, .head_dim = seq_kv, .return_lse = true };
  fill(1);
  memset(q, 0, sizeof(q)), memset(v, 0, sizeof(v));
  for (int j = 0; j < seq_kv; j++) v[j * seq_kv + j] = 1;
}

static void check_probe(const attn_problem *p, attn_io io, const char *const *allowed) {
  int64_t s = p->seq_kv;
  EACH_BACKEND(p, &io)
    for (int64_t i = 0; i < p->seq_q; i++) {
      int count = 0;
      for (int64_t j = 0; j < s; j++) count += allowed[i][j] == '1';
      for (int64_t j = 0; j < s; j++) {
        float want = allowed[i][j] == '1' ? 1.0f / (float)count : 0;
        if (out[i * s + j] != want)
          fail_msg("%s: row %lld key %lld is %g, not %g", attn_backend_name((attn_backend)b_), (long long)i, (long long)j,
                   (double)out[i * s + j], (double)want);
      }
      if (count) assert_true(fabsf(lse[i] - logf((float)count)) <= 2e-7f);
      else assert_true(lse[i] == -INFINITY);
    }
}

static void test_alignment(void **unused) { // 103082, 144858, 108108, Dao-AILab/flash-attention 443
  (void)unused;
  attn_problem p;
  probe(&p, 1, 5);
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  check_probe(&p, io_all(), (const char *[]){ "10000" });
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  check_probe(&p, io_all(), (const char *[]){ "11111" });
  probe(&p, 2, 5);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  check_probe(&p, io_all(), (const char *[]){ "11110", "11111" });
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  check_probe(&p, io_all(), (const char *[]){ "10000", "11000" });
  probe(&p, 5, 2);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  check_probe(&p, io_all(), (const char *[]){ "00", "00", "00", "10", "11" });
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  check_probe(&p, io_all(), (const char *[]){ "10", "11", "11", "11", "11" });
}

static void test_window(void **unused) { // 119653, huggingface/transformers 28980
  (void)unused;
  attn_problem p;
  probe(&p, 8, 8);
  p.window = true, p.window_left = 2, p.window_right = 0;
  check_probe(&p, io_all(), (const char *[]){ "10000000", "11000000", "11100000", "01110000", "00111000",
                                              "00011100", "00001110", "00000111" });
}

static void test_causal_and_mask_together(void **unused) { // 101531, transformers 37807
  (void)unused;
  attn_problem p;
  static const uint8_t keys[] = { 1, 0, 1, 1 };
  probe(&p, 4, 4);
  p.causal = ATTN_CAUSAL_TOP_LEFT, p.mask = ATTN_MASK_BOOL;
  p.mask_dims[0] = p.mask_dims[1] = p.mask_dims[2] = 1;
  attn_io io = io_all();
  io.mask = keys;
  check_probe(&p, io, (const char *[]){ "1000", "1000", "1010", "1011" });
}

static void test_bias_keeps_causality(void **unused) { // transformers 48748
  (void)unused;
  enum { L = 9, D = 5 };
  static float bias[L * L], before[L * D];
  uint64_t s = 5;
  for (int i = 0; i < L * L; i++) bias[i] = random_float(&s);
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = L, .head_dim = D, .causal = ATTN_CAUSAL_TOP_LEFT,
                     .mask = ATTN_MASK_ADDITIVE };
  attn_io io = io_all();
  io.mask = bias;
  for (int b = ATTN_BACKEND_FLASH; b < ATTN_BACKEND_COUNT; b++) {
    fill(3);
    if (!run_on((attn_backend)b, &p, &io)) continue;
    memcpy(before, out, sizeof(before));
    for (int d = 0; d < D; d++) k[6 * D + d] += 3, v[6 * D + d] = 100; // key 6 may change rows 6 and on alone
    assert_true(run_on((attn_backend)b, &p, &io));
    assert_memory_equal(before, out, 6 * D * sizeof(float));
    assert_memory_not_equal(before + 6 * D, out + 6 * D, D * sizeof(float));
  }
}

static void test_fully_masked_row_is_zero(void **unused) { // 103749, 103963, allenai/OLMo 322, mlx 2608
  (void)unused;
  static uint8_t mask[6 * 10];
  memset(mask, 1, sizeof(mask));
  memset(mask + 5 * 10, 0, 10);
  attn_problem p = { .batch = 1, .heads_q = 2, .seq_q = 6, .seq_kv = 10, .head_dim = 8, .mask = ATTN_MASK_BOOL, .return_lse = true };
  p.mask_dims[1] = 1;
  attn_io io = io_all();
  io.mask = mask;
  fill(4);
  like_reference(&p, io, 2 * 6 * 8);
  EACH_BACKEND(&p, &io)
    for (int h = 0; h < 2; h++) {
      for (int d = 0; d < 8; d++) assert_true(out[(h * 6 + 5) * 8 + d] == 0);
      assert_true(lse[h * 6 + 5] == -INFINITY);
    }
}

static void test_lowest_finite_mask_is_a_mean(void **unused) { // 109517, 110213, transformers 26572, diffuseR 34
  (void)unused;
  enum { S = 3, D = 4 };
  static const float wide[S] = { -FLT_MAX, -FLT_MAX, -FLT_MAX };
  static const uint16_t half[S] = { 0xfbff, 0xfbff, 0xfbff }, brain[S] = { 0xff7f, 0xff7f, 0xff7f };
  const void *const masks[] = { wide, half, brain };
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
  for (int t = 0; t < 3; t++) {
    attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 2, .seq_kv = S, .head_dim = D, .mask = ATTN_MASK_ADDITIVE,
                       .mask_dtype = types[t] };
    p.mask_dims[2] = 1;
    attn_io io = io_all();
    io.mask = masks[t];
    fill(6);
    EACH_BACKEND(&p, &io)
      for (int d = 0; d < D && types[t] != ATTN_F16; d++) // f16's lowest leaves a little of the score
        assert_true(fabsf(out[d] - (v[d] + v[D + d] + v[2 * D + d]) / 3) <= 4e-7f);
    EACH_BACKEND(&p, &io)
      for (int d = 0; d < 2 * D; d++) assert_true(isfinite(out[d]));
  }
}

static void test_f16_mask_is_added_in_f32(void **unused) { // f16: -65504 - 20 is -inf in f16
  (void)unused;
  static const uint16_t mask[2] = { 0xfbff, 0xfbff };
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 2, .head_dim = 1, .scale_set = true, .scale = 1,
                     .mask = ATTN_MASK_ADDITIVE, .mask_dtype = ATTN_F16, .dtype = ATTN_F16, .out_dtype = ATTN_F32 };
  static const uint16_t hq[1] = { 0x3c00 }, hk[2] = { 0xcd00, 0xcd00 }, hv[2] = { 0x3c00, 0x4200 }; // 1; -20; 1, 3
  attn_io io = { .q = hq, .k = hk, .v = hv, .out = out, .mask = mask };
  EACH_BACKEND(&p, &io) assert_true(out[0] == 2);
}

static void test_nan_in_a_masked_key(void **unused) { // 101967
  (void)unused;
  static const uint8_t mask[4] = { 1, 0, 1, 0 };
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 2, .seq_kv = 2, .head_dim = 4, .mask = ATTN_MASK_BOOL };
  attn_io io = io_all();
  io.mask = mask;
  for (int where = 0; where < 2; where++) {
    for (int i = 0; i < 8; i++) q[i] = k[i] = v[i] = (float)i;
    for (int d = 4; d < 8; d++) (where ? v : k)[d] = NAN;
    EACH_BACKEND(&p, &io)
      for (int i = 0; i < 8; i++) assert_true(out[i] == v[i % 4]);
  }
}

static void test_nan_query_is_not_swallowed(void **unused) { // 141128
  (void)unused;
  attn_problem p = { .batch = 2, .heads_q = 4, .seq_q = 16, .seq_kv = 16, .head_dim = 8 };
  fill(7);
  for (int i = 0; i < 2 * 4 * 16 * 8; i++) q[i] = NAN;
  attn_io io = io_all();
  EACH_BACKEND(&p, &io)
    for (int i = 0; i < 2 * 4 * 16 * 8; i++) assert_true(isnan(out[i]));
}

static void test_expanded_keys_with_a_mask(void **unused) { // 112577, 191937
  (void)unused;
  static uint8_t mask[3 * 65];
  static const int64_t lengths[] = { 14, 1, 33, 65 };
  for (int n = 0; n < 4; n++) {
    int64_t s = lengths[n];
    for (int i = 0; i < 3 * 65; i++) mask[i] = i % s == 0 || i % 3 != 0;
    attn_problem p = { .batch = 3, .heads_q = 16, .heads_kv = 16, .seq_q = 1, .seq_kv = s, .head_dim = 32,
                       .mask = ATTN_MASK_BOOL, .layout = ATTN_LAYOUT_STRIDED };
    p.q_strides = (attn_strides){ 576, 32, 512, 1 };
    p.k_strides = p.v_strides = (attn_strides){ s * 64, 0, 64, 1 };
    p.out_strides = (attn_strides){ 512, 32, 32, 1 };
    p.mask_dims[1] = p.mask_dims[2] = 1;
    attn_io io = io_all();
    io.mask = mask;
    fill(8);
    like_reference(&p, io, 3 * 16 * 32);
  }
}

static void test_inner_stride(void **unused) { // 187504
  (void)unused;
  enum { L = 11, D = 8 };
  static float t[3][L * D], contiguous[L * D];
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = L, .head_dim = D }, turned = p;
  turned.layout = ATTN_LAYOUT_STRIDED;
  turned.q_strides = turned.k_strides = turned.v_strides = (attn_strides){ L * D, L * D, 1, L };
  turned.out_strides = (attn_strides){ L * D, L * D, D, 1 };
  fill(9);
  for (int i = 0; i < L; i++)
    for (int d = 0; d < D; d++)
      t[0][d * L + i] = q[i * D + d], t[1][d * L + i] = k[i * D + d], t[2][d * L + i] = v[i * D + d];
  attn_io plain = io_all(), io = { .q = t[0], .k = t[1], .v = t[2], .out = out };
  for (int b = ATTN_BACKEND_FLASH; b < ATTN_BACKEND_COUNT; b++) {
    if (!run_on((attn_backend)b, &p, &plain)) continue;
    memcpy(contiguous, out, sizeof(contiguous));
    assert_true(run_on((attn_backend)b, &turned, &io));
    assert_memory_equal(out, contiguous, sizeof(contiguous));
  }
}

static void test_gqa_with_a_mask(void **unused) { // 149132
  (void)unused;
  static uint8_t ones[2 * 4 * 3 * 3];
  memset(ones, 1, sizeof(ones));
  attn_problem p = { .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_kv = 3, .head_dim = 8, .mask = ATTN_MASK_BOOL };
  attn_io io = io_all();
  io.mask = ones;
  fill(10);
  like_reference(&p, io, 2 * 4 * 3 * 8);
}

static void test_scale(void **unused) { // 105190, 105202; causal order
  (void)unused;
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 2, .head_dim = 2, .scale_set = true, .scale = -2, .return_lse = true };
  attn_io io = io_all();
  memcpy(q, (float[]){ 1, 0 }, 8), memcpy(k, (float[]){ 1, 0, -1, 0 }, 16), memcpy(v, (float[]){ 1, 0, 0, 1 }, 16);
  EACH_BACKEND(&p, &io) {
    assert_true(fabsf(out[0] - 0.0179862f) <= 1e-6f && fabsf(out[1] - 0.9820138f) <= 1e-6f);
    assert_true(fabsf(lse[0] - 2.0181499f) <= 1e-6f);
  }
  static const float scales[] = { -0.5f, 0, -1e4f };
  for (int i = 0; i < 3; i++) {
    attn_problem c = { .batch = 1, .heads_q = 1, .seq_q = 7, .seq_kv = 7, .head_dim = 4, .scale_set = true,
                       .scale = scales[i], .causal = ATTN_CAUSAL_TOP_LEFT };
    fill(11);
    if (i < 2) like_reference(&c, io, 28);
    EACH_BACKEND(&c, &io)
      for (int x = 0; x < 28; x++) assert_true(isfinite(out[x]));
  }
}

static void test_softcap_and_sinks(void **unused) { // transformers 31887, vllm 8660, unsloth 3142
  (void)unused;
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 2, .head_dim = 1, .scale_set = true, .scale = 1,
                     .softcap = 50, .return_lse = true };
  attn_io io = io_all();
  q[0] = 10, k[0] = 10, k[1] = 0;
  EACH_BACKEND(&p, &io) assert_true(fabsf(lse[0] - 48.2013790f) <= 2e-5f);
  static const float sinks[2] = { 0, -INFINITY };
  probe(&p, 1, 3);
  p.heads_q = 2, p.heads_kv = 1, p.sinks = true;
  io.sinks = sinks;
  EACH_BACKEND(&p, &io) {
    for (int j = 0; j < 3; j++) assert_true(fabsf(out[j] - .25f) <= 1e-7f && out[3 + j] == 1.0f / 3);
    assert_true(fabsf(lse[0] - logf(4)) <= 2e-7f && fabsf(lse[1] - logf(3)) <= 2e-7f);
  }
  const int32_t none[1] = { 0 };
  p.kv_lengths = true, io.kv_len = none;
  EACH_BACKEND(&p, &io) {
    for (int j = 0; j < 6; j++) assert_true(out[j] == 0);
    assert_true(lse[0] == 0 && lse[1] == -INFINITY);
  }
}

static void test_large_bf16(void **unused) { // test_flash_attention large bf16 values
  (void)unused;
  static uint16_t x[64], y[64];
  for (int i = 0; i < 64; i++) x[i] = 0x4802; // 133120
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 64, .dtype = ATTN_BF16 };
  attn_io io = { .q = x, .k = x, .v = x, .out = y };
  EACH_BACKEND(&p, &io) assert_memory_equal(x, y, sizeof(x));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_alignment),
    cmocka_unit_test(test_window),
    cmocka_unit_test(test_causal_and_mask_together),
    cmocka_unit_test(test_bias_keeps_causality),
    cmocka_unit_test(test_fully_masked_row_is_zero),
    cmocka_unit_test(test_lowest_finite_mask_is_a_mean),
    cmocka_unit_test(test_f16_mask_is_added_in_f32),
    cmocka_unit_test(test_nan_in_a_masked_key),
    cmocka_unit_test(test_nan_query_is_not_swallowed),
    cmocka_unit_test(test_expanded_keys_with_a_mask),
    cmocka_unit_test(test_inner_stride),
    cmocka_unit_test(test_gqa_with_a_mask),
    cmocka_unit_test(test_scale),
    cmocka_unit_test(test_softcap_and_sinks),
    cmocka_unit_test(test_large_bf16),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
