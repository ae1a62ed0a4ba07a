// SPDX-License-Identifier: Apache-2.0
/* Numbers on which other implementations went wrong, over several tiles, every dtype and every
 * kernel (threads of pytorch/pytorch unless named); test_cases has the small instances. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <float.h>
#include <stdlib.h>

#include "each_backend.h"
#include "random.h"

enum { L = 37, S = 141, D = 16, MAX = 1 << 14 };
static float q[MAX], k[MAX], v[MAX], out[MAX], kept[MAX], lse[MAX], mask[L * S];
static double expected[MAX], expected_lse[MAX];

static void fill(uint64_t seed) {
  for (int i = 0; i < MAX; i++) {
    q[i] = random_float(&seed), k[i] = random_float(&seed), v[i] = random_float(&seed);
    out[i] = lse[i] = 1e30f;
  }
}

/* Small integers: scores are exact in f32, so that no scale or mask leaves room for rounding. */
static void fill_integers(uint64_t seed) {
  fill(seed);
  for (int i = 0; i < MAX; i++)
    q[i] = (float)random_int(&seed, -3, 3), k[i] = (float)random_int(&seed, -3, 3);
}

static attn_io io_all(void) {
  return (attn_io){ .q = q, .k = k, .v = v, .out = out, .lse = lse, .mask = mask };
}

static attn_problem plain(void) {
  return (attn_problem){
    .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = S, .head_dim = D, .return_lse = true
  };
}

static void like_reference(const attn_problem *p, const attn_io *io) {
  if (attn_reference(p, io, expected, expected_lse, NULL)) fail_msg("%s", attn_last_error());
  int64_t rows = p->batch * p->heads_q * p->seq_q;
  EACH_WAY(w, p, io) {
    way_compare(w, "out", out, expected, rows * p->head_dim, 4e-6);
    for (int64_t i = 0; p->return_lse && i < rows; i++)
      way_compare(w, "lse", lse + i, expected_lse + i, 1, 1e-5 + 4e-7 * fabs(expected_lse[i]));
  }
}

/* The lowest finite number of each mask type is a score like any other, also beside ordinary ones.
 */
static void
test_lowest_finite_masks(void **unused) { // 109517, 110213, transformers 26572, diffuseR 34
  (void)unused;
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
  static const float lowest[] = { -FLT_MAX, -65504, -0x1.fep127f };
  static uint16_t narrow[L * S];
  for (int t = 0; t < 3; t++)
    for (int kind = 0; kind < 3; kind++) { // nothing else; ordinary keys too; removed keys too
      fill_integers(1);
      for (int i = 0; i < L * S; i++) {
        bool other = (i % S + i / S) % 5 == 0;
        mask[i] = !other || !kind ? lowest[t] : kind == 1 ? 0.5f : -INFINITY;
      }
      attn_problem p = plain();
      p.scale_set = true, p.scale = 0.25f, p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = types[t];
      attn_io io = io_all();
      if (t) {
        assert_int_equal(attn_dtype_from_f32(types[t], mask, narrow, L * S), ATTN_OK);
        io.mask = narrow;
      }
      p.return_lse = false; // of 1e38 is compared nowhere
      like_reference(&p, &io);
    }
}

static void test_rows_of_minus_infinity(void **unused) { // 103749, 103963, cubecl 1070
  (void)unused;
  attn_problem p = plain();
  p.mask = ATTN_MASK_ADDITIVE;
  fill(2);
  for (int i = 0; i < L * S; i++) mask[i] = i / S % 3 == 1 || i % 7 == 0 ? -INFINITY : 0.25f;
  attn_io io = io_all();
  like_reference(&p, &io);
  EACH_WAY(w, &p, &io)
  for (int i = 1; i < L; i += 3) {
    for (int d = 0; d < D; d++) assert_true(out[i * D + d] == 0);
    assert_true(lse[i] == -INFINITY);
  }
}

/* NaN and infinities in a key or a value reach the rows that attend it, and no other. */
static void test_poisoned_keys(void **unused) { // 101967
  (void)unused;
  static const float poisons[] = { NAN, INFINITY, -INFINITY };
  static const int columns[] = { 0, 17, 64, 129, 140 };
  for (int kind = 0; kind < 3; kind++) // causal; bool mask; additive mask
    for (int n = 0; n < 15; n++) {
      static uint8_t keep[L * S];
      int column = columns[n / 3];
      attn_problem p = plain();
      fill(3);
      for (int i = 0; i < L * S; i++) {
        keep[i] = i % S != column || i / S % 4 == 2;
        mask[i] = keep[i] ? 0 : -INFINITY;
      }
      attn_io io = io_all();
      if (kind == 0) p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
      if (kind == 1) p.mask = ATTN_MASK_BOOL, io.mask = keep;
      if (kind == 2) p.mask = ATTN_MASK_ADDITIVE;
      (n % 2 ? v : k)[column * D + 3] = poisons[n % 3];
      like_reference(&p, &io);
    }
}

static void test_one_nan_query(void **unused) { // 141128
  (void)unused;
  attn_problem p = plain();
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  fill(4);
  q[20 * D + 5] = NAN;
  attn_io io = io_all();
  like_reference(&p, &io);
  EACH_WAY(w, &p, &io)
  for (int d = 0; d < D; d++) assert_true(isnan(out[20 * D + d]) && isfinite(out[19 * D + d]));
}

static void test_scales(void **unused) { // 105190, 105202; causal before scale
  (void)unused;
  static const float scales[] = { -0.5f, 0, -1e4f, 1e4f, -2, 1e-30f };
  for (int i = 0; i < 6; i++) {
    attn_problem p = plain();
    p.scale_set = true, p.scale = scales[i], p.causal = ATTN_CAUSAL_TOP_LEFT;
    fill_integers(5);
    for (int x = 0; x < L * D; x++) // one product a score: no cancellation for the scale to magnify
      if (x % D != x / D % 5) q[x] = 0;
    attn_io io = io_all();
    like_reference(&p, &io);
  }
  static const float bad[] = { NAN, INFINITY, -INFINITY };
  for (int i = 0; i < 3; i++) {
    attn_problem p = plain();
    p.scale_set = true, p.scale = bad[i];
    assert_int_equal(attn_problem_validate(&p), ATTN_ERROR_VALUE);
    assert_non_null(strstr(attn_last_error(), "scale"));
  }
}

/* Capped after the scale and before the mask: a mask of -100 is not flattened by a cap of 2. */
static void test_softcap_order(void **unused) { // transformers 31887, vllm 8660, vllm-metal 665
  (void)unused;
  attn_problem p = plain();
  p.softcap = 2, p.scale_set = true, p.scale = 3, p.mask = ATTN_MASK_ADDITIVE;
  fill(6);
  for (int i = 0; i < L * S; i++) mask[i] = i % S < 70 ? -100 : 0;
  attn_io io = io_all();
  like_reference(&p, &io);
  for (int d = 0; d < 70 * D; d++) v[d] = 1e6f; // keys below 70 have a weight of e^-96 or less
  EACH_WAY(w, &p, &io)
  for (int i = 0; i < L * D; i++) assert_true(fabsf(out[i]) <= 1);
}

static void test_largest_values(void **unused) { // test_flash_attention large bf16 values
  (void)unused;
  static const attn_dtype types[] = { ATTN_BF16, ATTN_F16, ATTN_F32 };
  static const float largest[] = { 133120, 65504, 1e15f };
  static unsigned char x[4 * S * D], y[4 * L * D];
  for (int t = 0; t < 3; t++) {
    for (int i = 0; i < S * D; i++) kept[i] = largest[t];
    assert_int_equal(attn_dtype_from_f32(types[t], kept, x, S * D), ATTN_OK);
    attn_problem p = plain();
    p.dtype = types[t], p.causal = ATTN_CAUSAL_TOP_LEFT, p.return_lse = false;
    attn_io io = { .q = x, .k = x, .v = x, .out = y };
    EACH_WAY(w, &p, &io)
    for (int i = 0; i < L * D; i++) {
      double got = attn_dtype_load(types[t], y, i);
      if (!(fabs(got - (double)largest[t]) <=
            (double)largest[t] * (types[t] == ATTN_F32 ? 1e-5 : 0)))
        fail_msg("%s: %s row %d is %g", way_name(w), attn_dtype_name(types[t]), i / D, got);
    }
  }
}

static void test_mask_types_with_query_types(void **unused) { // 99012, ComfyUI 8118, TITAN 11
  (void)unused;
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F64 };
  static unsigned char tq[8 * L * D], tk[8 * S * D], tv[8 * S * D], tm[4 * L * S], ty[8 * L * D];
  static unsigned char exact[WAYS][8 * L * D];
  fill(7);
  for (int i = 0; i < L * S; i++) // exact in every type
    mask[i] = i % 11 == 3 ? -INFINITY : (float)(i % 7) * 0.25f - 0.5f;
  for (int a = 0; a < 4; a++) {
    size_t bytes = (size_t)attn_dtype_bytes(types[a], L * D);
    attn_dtype_from_f32(types[a], q, tq, L * D);
    attn_dtype_from_f32(types[a], k, tk, S * D), attn_dtype_from_f32(types[a], v, tv, S * D);
    for (int b = 0; b < 3; b++) {
      attn_problem p = plain();
      p.dtype = types[a], p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = types[b];
      attn_dtype_from_f32(types[b], mask, tm, L * S);
      attn_io io = { .q = tq, .k = tk, .v = tv, .out = ty, .lse = lse, .mask = tm };
      EACH_WAY(w, &p, &io) {
        if (b)
          assert_memory_equal(ty, exact[w], bytes);
        else
          memcpy(exact[w], ty, bytes);
      }
    }
  }
}

/* A bias beside is_causal: key 50 changes the rows from 50 - (S - L) on, alone. */
static void test_bias_keeps_causality(void **unused) { // transformers 48748, 48821
  (void)unused;
  attn_problem p = { .batch = 1,
                     .heads_q = 1,
                     .seq_q = L,
                     .seq_kv = S,
                     .head_dim = D,
                     .causal = ATTN_CAUSAL_BOTTOM_RIGHT,
                     .mask = ATTN_MASK_ADDITIVE };
  enum { KEY = 121, ROW = KEY - (S - L) };
  for (int w = 0; w < WAYS; w++) {
    fill(8);
    for (int i = 0; i < L * S; i++) mask[i] = v[MAX - 1 - i % 999];
    attn_io io = io_all();
    if (!way_run(w, 1, &p, &io)) continue;
    memcpy(kept, out, sizeof(kept));
    for (int d = 0; d < D; d++) k[KEY * D + d] += 3, v[KEY * D + d] = 100;
    assert_true(way_run(w, 1, &p, &io));
    assert_memory_equal(out, kept, ROW * D * sizeof(float));
    for (int i = ROW; i < L; i++)
      assert_memory_not_equal(out + i * D, kept + i * D, D * sizeof(float));
  }
}

/* Both parts on each backend, causal seen from each part: rows that a part holds no key for are
 * empty. */
static void
test_merging_causal_parts(void **unused) { // flash-attention 404, ring-flash-attention 20
  (void)unused;
  static float part[2][L * D], part_lse[2][L];
  attn_problem p = plain();
  p.causal = ATTN_CAUSAL_OFFSET, p.causal_offset = 30;
  fill(9);
  attn_io io = io_all();
  if (attn_reference(&p, &io, expected, expected_lse, NULL)) fail_msg("%s", attn_last_error());
  static const int cuts[] = { 0, 1, 31, 32, 50, 66, 67, 128, S };
  for (int w = 0; w < WAYS; w++)
    for (int n = 0; n < 9; n++) {
      bool ran = true;
      for (int half = 0; half < 2 && ran; half++) {
        attn_problem h = p;
        h.seq_kv = half ? S - cuts[n] : cuts[n];
        h.causal_offset = p.causal_offset - (half ? cuts[n] : 0);
        attn_io hio = { .q = q,
                        .k = k + half * cuts[n] * D,
                        .v = v + half * cuts[n] * D,
                        .out = part[half],
                        .lse = part_lse[half] };
        ran = way_run(w, 2, &h, &hio);
      }
      if (!ran) continue;
      assert_int_equal(attn_merge(L, D, part[0], part_lse[0], part[1], part_lse[1], out, lse),
                       ATTN_OK);
      way_compare(w, "merged out", out, expected, L * D, 4e-6);
      way_compare(w, "merged lse", lse, expected_lse, L, 1e-5);
    }
}

static void
test_sinks_beside_masks(void **unused) { // unsloth 3142, tt-metal 31115, flash-linear-attention 831
  (void)unused;
  static const float sinks[] = { 0, -INFINITY, 3, 60 };
  attn_problem p = { .batch = 1,
                     .heads_q = 4,
                     .heads_kv = 1,
                     .seq_q = L,
                     .seq_kv = S,
                     .head_dim = D,
                     .sinks = true,
                     .causal = ATTN_CAUSAL_OFFSET,
                     .causal_offset = -9,
                     .return_lse = true };
  fill(10);
  attn_io io = io_all();
  io.sinks = sinks;
  like_reference(&p, &io);
  EACH_WAY(w, &p, &io)
  for (int h = 0; h < 4; h++)
    for (int i = 0; i < 9; i++) { // rows without a key
      assert_true(lse[h * L + i] == sinks[h]);
      for (int d = 0; d < D; d++) assert_true(out[(h * L + i) * D + d] == 0);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_lowest_finite_masks),
    cmocka_unit_test(test_rows_of_minus_infinity),
    cmocka_unit_test(test_poisoned_keys),
    cmocka_unit_test(test_one_nan_query),
    cmocka_unit_test(test_scales),
    cmocka_unit_test(test_softcap_order),
    cmocka_unit_test(test_largest_values),
    cmocka_unit_test(test_mask_types_with_query_types),
    cmocka_unit_test(test_bias_keeps_causality),
    cmocka_unit_test(test_merging_causal_parts),
    cmocka_unit_test(test_sinks_beside_masks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
