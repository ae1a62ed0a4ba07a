// SPDX-License-Identifier: Apache-2.0
/* Which keys a row sees, exactly, by the mask probe (q = 0, V = identity: out is allowed / count);
 * sizes, strides and memory, in buffers that end at an inaccessible page. Threads of
 * pytorch/pytorch unless named. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "each_backend.h"
#include "guard.h"
#include "random.h"
#include "structure.h"

enum { MOST = 131, D = 4 };
static float q[MOST * D], k[MOST * D], identity[MOST * MOST], out[MOST * MOST], lse[MOST];
static uint8_t sees[MOST * MOST];
static uint16_t bias[MOST * MOST];

/* What the probe must give for sees[rows, keys], on every way. */
static void check_probe(const attn_problem *p, const attn_io *io, int64_t rows, int64_t keys) {
  EACH_WAY(w, p, io)
  for (int64_t i = 0; i < rows; i++) {
    int count = 0;
    for (int64_t j = 0; j < keys; j++) count += sees[i * keys + j];
    for (int64_t j = 0; j < keys; j++) {
      float want = sees[i * keys + j] ? 1.0f / (float)count : 0;
      if (out[i * keys + j] != want)
        fail_msg("%s, %lldx%lld: row %lld key %lld is %g, not %g", way_name(w), (long long)rows,
                 (long long)keys, (long long)i, (long long)j, (double)out[i * keys + j],
                 (double)want);
    }
    float want = count ? logf((float)count) : -INFINITY;
    if (lse[i] != want && !(fabsf(lse[i] - want) <= 2.4e-7f * fmaxf(1, want)))
      fail_msg("%s: lse[%lld] is %.9g, not %.9g", way_name(w), (long long)i, (double)lse[i],
               (double)want);
  }
}

static attn_io probe_io(int64_t rows, int64_t keys) {
  memset(q, 0, sizeof(q)), memset(identity, 0, sizeof(identity));
  for (int i = 0; i < MOST * D; i++) k[i] = (float)(i % 13) - 6;
  for (int64_t j = 0; j < keys; j++) identity[j * keys + j] = 1;
  for (int64_t i = 0; i < rows * keys; i++) bias[i] = sees[i] ? 0 : 0xfc00; // f16 -infinity
  return (attn_io){ .q = q, .k = k, .v = identity, .out = out, .lse = lse };
}

static void probe_structure(const attn_problem *structure) {
  int64_t rows = structure->seq_q, keys = structure->seq_kv;
  for (int64_t i = 0; i < rows * keys; i++)
    sees[i] = structure_sees(structure, i / keys, i % keys, rows, keys);
  attn_io io = probe_io(rows, keys);
  check_probe(structure, &io, rows, keys);
  attn_problem dense = { .batch = 1,
                         .heads_q = 1,
                         .seq_q = rows,
                         .seq_kv = keys,
                         .head_dim = D,
                         .head_dim_v = keys,
                         .mask = ATTN_MASK_BOOL,
                         .return_lse = true };
  io.mask = sees;
  check_probe(&dense, &io, rows, keys);
  dense.mask = ATTN_MASK_ADDITIVE, dense.mask_dtype = ATTN_F16, io.mask = bias;
  check_probe(&dense, &io, rows, keys);
}

static void
test_structure_is_exact(void **unused) { // 103082, 144858, 108108, 119653, transformers 28980
  (void)unused;
  static const int64_t sizes[][2] = { { 1, 1 },   { 1, 33 },  { 2, 65 },  { 33, 1 },
                                      { 70, 70 }, { 5, 131 }, { 131, 64 } };
  static const int64_t windows[][2] = { { -1, -1 }, { 2, 0 }, { 0, 0 }, { -1, 3 }, { 40, -1 } };
  for (int n = 0; n < 7; n++)
    for (int causal = 0; causal < ATTN_CAUSAL_COUNT; causal++)
      for (int w = -1; w < 5; w++) {
        attn_problem p = { .batch = 1,
                           .heads_q = 1,
                           .seq_q = sizes[n][0],
                           .seq_kv = sizes[n][1],
                           .head_dim = D,
                           .head_dim_v = sizes[n][1],
                           .causal = (attn_causal)causal,
                           .return_lse = true };
        if (causal == ATTN_CAUSAL_OFFSET) p.causal_offset = n % 2 ? -3 : 11;
        if (w >= 0) p.window = true, p.window_left = windows[w][0], p.window_right = windows[w][1];
        probe_structure(&p);
      }
}

/* Documents by offsets see what a dense mask of documents lets them see. */
static void
test_documents_equal_a_dense_mask(void **unused) { // 110681, 163400, 177378, KempnerForge 206
  (void)unused;
  static const int32_t cu[] = { 0, 0, 1, 32, 65, 65, 129, 131 };
  enum { DOCS = 7 };
  for (int causal = 0; causal <= ATTN_CAUSAL_BOTTOM_RIGHT; causal++)
    for (int window = 0; window < 2; window++) {
      attn_problem p = { .batch = DOCS,
                         .heads_q = 1,
                         .seq_q = 64,
                         .seq_kv = 64,
                         .head_dim = D,
                         .head_dim_v = MOST,
                         .varlen = true,
                         .total_q = MOST,
                         .total_kv = MOST,
                         .causal = (attn_causal)causal,
                         .window = window,
                         .window_left = 9,
                         .window_right = 2,
                         .return_lse = true };
      memset(sees, 0, sizeof(sees));
      for (int doc = 0; doc < DOCS; doc++)
        for (int i = cu[doc]; i < cu[doc + 1]; i++)
          for (int j = cu[doc]; j < cu[doc + 1]; j++)
            sees[i * MOST + j] = structure_sees(&p, i - cu[doc], j - cu[doc], cu[doc + 1] - cu[doc],
                                                cu[doc + 1] - cu[doc]);
      attn_io io = probe_io(MOST, MOST);
      io.cu_seqlens_q = io.cu_seqlens_kv = cu;
      check_probe(&p, &io, MOST, MOST);
      attn_problem dense = { .batch = 1,
                             .heads_q = 1,
                             .seq_q = MOST,
                             .seq_kv = MOST,
                             .head_dim = D,
                             .head_dim_v = MOST,
                             .mask = ATTN_MASK_BOOL,
                             .return_lse = true };
      io.mask = sees;
      check_probe(&dense, &io, MOST, MOST);
    }
}

static void test_longest_of_one(void **unused) { // flash-attention 2562, 1537
  (void)unused;
  static const int32_t cu_q[] = { 0, 1, 1, 2 }, cu_kv[] = { 0, 0, 1, 2 };
  attn_problem p = { .batch = 3,
                     .heads_q = 1,
                     .seq_q = 1,
                     .seq_kv = 1,
                     .head_dim = D,
                     .head_dim_v = 2,
                     .varlen = true,
                     .total_q = 2,
                     .total_kv = 2,
                     .return_lse = true };
  memcpy(sees, (uint8_t[]){ 0, 0, 0, 1 }, 4);
  attn_io io = probe_io(2, 2);
  io.cu_seqlens_q = cu_q, io.cu_seqlens_kv = cu_kv;
  check_probe(&p, &io, 2, 2);
}

static guarded guarded_floats(int64_t count, uint64_t seed) {
  guarded g = guarded_new((size_t)count * sizeof(float));
  for (int64_t i = 0; i < count; i++) ((float *)g.data)[i] = seed ? random_float(&seed) : 1e30f;
  return g;
}

/* On buffers of exactly the size that the strides reach, so that an element past any end crashes.
 */
static void guarded_like_reference(const attn_problem *p, const int64_t counts[4],
                                   const void *mask) {
  guarded g[4];
  for (int i = 0; i < 4; i++) g[i] = guarded_floats(counts[i], i < 3 ? 20 + (uint64_t)i : 0);
  int64_t elements =
      p->batch * p->heads_q * p->seq_q * (p->head_dim_v ? p->head_dim_v : p->head_dim);
  attn_io io = { .q = g[0].data, .k = g[1].data, .v = g[2].data, .out = g[3].data, .mask = mask };
  double *want = malloc((size_t)elements * sizeof(double) + 1);
  if (attn_reference(p, &io, want, NULL, NULL)) fail_msg("%s", attn_last_error());
  EACH_WAY(w, p, &io) way_compare(w, "out", g[3].data, want, elements, 4e-6);
  free(want);
  for (int i = 0; i < 4; i++) guarded_free(&g[i]);
}

static void test_sizes_of_zero_and_one(void **unused) { // 141218, 141219, 141229, 174939, 175000
  (void)unused;
  for (int bits = 0; bits < 128; bits++) {
    attn_problem p = { .batch = bits & 1,
                       .heads_q = bits >> 1 & 1,
                       .seq_q = bits >> 2 & 1,
                       .seq_kv = bits >> 3 & 1,
                       .head_dim = bits >> 4 & 1,
                       .head_dim_v = bits >> 5 & 1,
                       .heads_kv = bits >> 6 & 1 };
    if (!p.head_dim) {
      assert_int_equal(attn_problem_validate(&p), ATTN_ERROR_SHAPE);
      continue;
    }
    if (attn_problem_validate(
            &p)) { // no query heads over one key head may be refused, nothing else
      assert_true(!p.heads_q && p.heads_kv);
      continue;
    }
    int64_t rows = p.batch * p.heads_q * p.seq_q, keys = p.batch * p.heads_q * p.seq_kv;
    guarded_like_reference(&p, (int64_t[]){ rows, keys, keys, rows }, NULL);
  }
}

static void test_nothing_past_the_end_is_touched(void **unused) { // 193728
  (void)unused;
  static const int64_t sizes[][4] = {
    { 1, 1, 1, 3 }, { 3, 5, 8, 6 }, { 33, 65, 17, 31 }, { 70, 130, 21, 203 }, { 1, 131, 80, 80 }
  };
  for (int n = 0; n < 5; n++) {
    const int64_t *s = sizes[n];
    attn_problem p = { .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .seq_q = s[0],
                       .seq_kv = s[1],
                       .head_dim = s[2],
                       .head_dim_v = s[3],
                       .causal = n % 2 ? ATTN_CAUSAL_BOTTOM_RIGHT : ATTN_CAUSAL_NONE,
                       .mask = ATTN_MASK_BOOL };
    int64_t columns = n % 2 ? s[1] - 2 : s[1]; // a mask shorter than the keys removes the rest
    p.mask_dims[3] = columns;
    guarded mask = guarded_new((size_t)(8 * s[0] * columns));
    for (int64_t i = 0; i < 8 * s[0] * columns; i++) ((uint8_t *)mask.data)[i] = i % 5 != 2;
    guarded_like_reference(
        &p, (int64_t[]){ 8 * s[0] * s[2], 4 * s[1] * s[2], 4 * s[1] * s[3], 8 * s[0] * s[3] },
        mask.data);
    guarded_free(&mask);
  }
}

static void test_expanded_keys(void **unused) { // 112577, 191937: the strides of the thread
  (void)unused;
  static const int64_t keys[] = { 14, 1, 33, 65, 97 };
  for (int n = 0; n < 5; n++) {
    int64_t s = keys[n];
    attn_problem p = { .batch = 3,
                       .heads_q = 16,
                       .heads_kv = 16,
                       .seq_q = 1,
                       .seq_kv = s,
                       .head_dim = 128,
                       .layout = ATTN_LAYOUT_STRIDED,
                       .mask = ATTN_MASK_ADDITIVE,
                       .q_strides = { 2304, 128, 2048, 1 },
                       .k_strides = { s * 256, 0, 256, 1 },
                       .v_strides = { s * 256, 0, 256, 1 },
                       .out_strides = { 2048, 128, 128, 1 },
                       .mask_dims = { 3, 1, 1, s } };
    guarded mask = guarded_floats(3 * s, 9);
    if (s > 2) ((float *)mask.data)[s + 1] = -INFINITY;
    int64_t kv = 2 * s * 256 + (s - 1) * 256 + 128;
    guarded_like_reference(&p, (int64_t[]){ 2 * 2304 + 2048, kv, kv, 3 * 2048 }, mask.data);
    guarded_free(&mask);
  }
}

/* Elements two apart in every tensor, and rows that are columns: the same bits as contiguous ones.
 */
static void test_inner_strides(void **unused) { // 187504
  (void)unused;
  enum { L = 35, S = 67, E = 8, GAP = 2 };
  static float dense[3][S * E], spread[4][S * E * GAP], turned[3][S * E], plain[L * E];
  uint64_t seed = 5;
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = S, .head_dim = E };
  attn_problem gaps = p, columns = p;
  gaps.layout = columns.layout = ATTN_LAYOUT_STRIDED;
  gaps.q_strides = gaps.k_strides = gaps.v_strides = gaps.out_strides =
      (attn_strides){ 0, 0, E * GAP, GAP };
  columns.q_strides = (attn_strides){ 0, 0, 1, L };
  columns.k_strides = columns.v_strides = (attn_strides){ 0, 0, 1, S };
  columns.out_strides = (attn_strides){ L * E, L * E, E, 1 };
  gaps.out_strides.batch = gaps.out_strides.head = L * E * GAP;
  for (int t = 0; t < 3; t++)
    for (int i = 0, rows = t ? S : L; i < rows * E; i++)
      turned[t][i % E * rows + i / E] = spread[t][i * GAP] = dense[t][i] = random_float(&seed);
  for (int w = 0; w < WAYS; w++) {
    attn_io io = { .q = dense[0], .k = dense[1], .v = dense[2], .out = plain };
    if (!way_run(w, 2, &p, &io)) continue;
    for (int i = 0; i < L * E * GAP; i++) spread[3][i] = 1e30f;
    io = (attn_io){ .q = spread[0], .k = spread[1], .v = spread[2], .out = spread[3] };
    if (way_run(w, 2, &gaps, &io))
      for (int i = 0; i < L * E; i++)
        assert_true(spread[3][i * GAP] == plain[i] && spread[3][i * GAP + 1] == 1e30f);
    io = (attn_io){ .q = turned[0], .k = turned[1], .v = turned[2], .out = spread[3] };
    if (way_run(w, 2, &columns, &io)) assert_memory_equal(spread[3], plain, sizeof(plain));
  }
}

static void test_more_batches_than_16_bits(void **unused) { // 142228, 146704, 180445, 133976
  (void)unused;
  for (int64_t n = 65535; n <= 65537; n++) {
    attn_problem p = { .batch = n, .heads_q = 1, .seq_q = 1, .seq_kv = 2, .head_dim = 8 };
    guarded_like_reference(&p, (int64_t[]){ n * 8, n * 16, n * 16, n * 8 }, NULL);
  }
}

static size_t workspace_of(int way, const attn_problem *p) {
  attn_context *c = way_context(way, 2);
  attn_plan *plan = NULL;
  attn_status status = attn_plan_create(c, p, &plan);
  if (status && status != ATTN_ERROR_UNSUPPORTED) fail_msg("%s", attn_last_error());
  size_t bytes = status ? 0 : attn_plan_workspace(plan);
  attn_plan_destroy(plan);
  attn_context_destroy(c);
  return bytes;
}

static void test_workspace(
    void **unused) { // transformers 46960, 190523, 191085; 116472, TransformerEngine 3063
  (void)unused;
  for (int w = 0; w < WAYS; w++) {
    if (way_backend(w) == ATTN_BACKEND_MATH) continue; // its scores are its workspace
    for (int64_t rows = 1; rows <= 4096; rows *= 4096) {
      attn_problem gqa = {
        .batch = 1, .heads_q = 32, .heads_kv = 8, .seq_q = rows, .seq_kv = 4096, .head_dim = 128
      };
      size_t bytes = workspace_of(w, &gqa);
      if (bytes >= 1 << 20)
        fail_msg("%s: %zu bytes for %lld queries", way_name(w), bytes, (long long)rows);
    }
    attn_problem p = { .batch = 2,
                       .heads_q = 2,
                       .seq_q = 512,
                       .seq_kv = 4096,
                       .head_dim = 64,
                       .mask = ATTN_MASK_BOOL,
                       .mask_dims = { 0, 1, 1, 0 },
                       .causal = ATTN_CAUSAL_BOTTOM_RIGHT,
                       .kv_lengths = true };
    size_t few = workspace_of(w, &p);
    p.heads_q = 64, p.seq_q = 4096;
    if (workspace_of(w, &p) != few)
      fail_msg("%s: %zu bytes, then %zu", way_name(w), few, workspace_of(w, &p));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_structure_is_exact),
    cmocka_unit_test(test_documents_equal_a_dense_mask),
    cmocka_unit_test(test_longest_of_one),
    cmocka_unit_test(test_sizes_of_zero_and_one),
    cmocka_unit_test(test_nothing_past_the_end_is_touched),
    cmocka_unit_test(test_expanded_keys),
    cmocka_unit_test(test_inner_strides),
    cmocka_unit_test(test_more_batches_than_16_bits),
    cmocka_unit_test(test_workspace),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
