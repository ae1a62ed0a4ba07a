// SPDX-License-Identifier: Apache-2.0
/* Bits that must not change, on each backend by itself and between those that the selector may
 * choose when batch_invariant is asked for; test_invariance has the selector's own choices. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>

#include "each_backend.h"
#include "random.h"

enum { HQ = 4, HK = 2, D = 24, ROWS = 300, KEYS = 5000, BATCH = 2 };
enum { Q_COUNT = BATCH * HQ * ROWS * D, KV_COUNT = BATCH * HK * KEYS * D };
static float q[Q_COUNT], k[KV_COUNT], v[KV_COUNT], out[Q_COUNT], other[Q_COUNT],
    lse[BATCH * HQ * ROWS];
static float alone_lse[HQ];
static uint16_t narrow[3][KV_COUNT];
static uint8_t mask[BATCH * HQ * ROWS * 450];
static const float slopes[HQ] = { 0.5f, 0.25f, 0.125f, 0.0625f },
                   sinks[HQ] = { 0, 1, -INFINITY, 2 };

static int setup(void **unused) {
  (void)unused;
  uint64_t s = 77;
  for (int i = 0; i < Q_COUNT; i++) q[i] = random_float(&s);
  for (int i = 0; i < KV_COUNT; i++) k[i] = random_float(&s), v[i] = random_float(&s);
  for (size_t i = 0; i < sizeof(mask); i++) mask[i] = random_next(&s) % 5 != 0;
  return 0;
}

static attn_problem problem_of(int64_t seq_q, int64_t seq_kv) {
  return (attn_problem){
    .batch = 1, .heads_q = HQ, .heads_kv = HK, .seq_q = seq_q, .seq_kv = seq_kv, .head_dim = D
  };
}

static attn_io io_of(attn_dtype dtype) {
  attn_io io = { .q = q,
                 .k = k,
                 .v = v,
                 .out = out,
                 .lse = lse,
                 .mask = mask,
                 .alibi_slopes = slopes,
                 .sinks = sinks };
  if (dtype != ATTN_F16 && dtype != ATTN_BF16) return io;
  attn_dtype_from_f32(dtype, q, narrow[0], Q_COUNT);
  attn_dtype_from_f32(dtype, k, narrow[1], KV_COUNT),
      attn_dtype_from_f32(dtype, v, narrow[2], KV_COUNT);
  io.q = narrow[0], io.k = narrow[1], io.v = narrow[2];
  return io;
}

/* Every way with 1, 2, 3 and 8 threads, and a second time with the last. */
static void same_for_threads(const attn_problem *p, attn_io io) {
  static const int threads[] = { 1, 2, 3, 8, 8 };
  int64_t elements = (p->varlen ? p->total_q : p->batch * p->seq_q) * HQ * D;
  size_t bytes = (size_t)elements * (p->dtype == ATTN_F16 || p->dtype == ATTN_BF16 ? 2 : 4);
  int ways = 0;
  for (int w = 0; w < WAYS; w++) {
    io.out = out;
    if (!way_run(w, 1, p, &io)) continue;
    ways++, io.out = other;
    for (int t = 1; t < 5; t++) {
      memset(other, 0xcd, bytes);
      assert_true(way_run(w, threads[t], p, &io));
      if (memcmp(out, other, bytes))
        fail_msg("%s: other bits with %d threads", way_name(w), threads[t]);
    }
  }
  assert_true(ways);
}

static void test_threads_on_each_backend(void **unused) {
  (void)unused;
  static const int32_t cu_q[] = { 0, 5, 5, 120, 300 }, cu_kv[] = { 0, 64, 90, 1000, 1300 };
  static const attn_dtype types[] = { ATTN_F32, ATTN_BF16, ATTN_F16 };
  for (int t = 0; t < 3; t++) {
    attn_io io = io_of(types[t]);
    io.cu_seqlens_q = cu_q, io.cu_seqlens_kv = cu_kv;
    attn_problem medium = problem_of(300, 500), one = problem_of(1, 5000),
                 few = problem_of(9, 5000), packed = problem_of(180, 910);
    medium.dtype = one.dtype = few.dtype = packed.dtype = types[t];
    medium.causal = packed.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    packed.batch = 4, packed.varlen = true, packed.total_q = 300, packed.total_kv = 1300;
    same_for_threads(&medium, io), same_for_threads(&one, io), same_for_threads(&few, io),
        same_for_threads(&packed, io);
  }
}

/* Paged and with options that have state of their own: sinks, slopes, dropout, lengths. */
static void test_threads_with_options(void **unused) {
  (void)unused;
  static int32_t table[400];
  static const int32_t length[] = { 4321 };
  for (int i = 0; i < 313; i++) table[i] = (i * 100 + 7) % 313;
  attn_problem p = problem_of(3, 5000), dropped = problem_of(100, 450);
  p.kv_lengths = true, p.sinks = true, p.alibi = true;
  p.page_size = 16, p.num_pages = 312, p.pages_per_seq = 313;
  for (int i = 0; i < 313; i++) table[i] %= 312;
  attn_io io = io_of(ATTN_F32);
  io.kv_len = length, io.block_table = table, io.dropout_seed = 9;
  same_for_threads(&p, io);
  dropped.dropout = 0.3f, dropped.mask = ATTN_MASK_BOOL;
  same_for_threads(&dropped, io);
}

enum { PLAIN, CAUSAL, WINDOW, MASK, ALIBI, SINKS, CAPPED, KINDS };

/* Structure hangs on causal's offset, by which a row alone can be put where it was. */
static attn_problem kind_of(int kind, int64_t seq_q, int64_t seq_kv) {
  attn_problem p = problem_of(seq_q, seq_kv);
  p.batch = BATCH, p.batch_invariant = p.return_lse = true;
  if (kind == CAUSAL || kind == ALIBI || kind == WINDOW) p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  if (kind == WINDOW) p.window = true, p.window_left = 150, p.window_right = -1;
  if (kind == MASK) p.mask = ATTN_MASK_BOOL;
  p.alibi = kind == ALIBI, p.sinks = kind == SINKS;
  if (kind == CAPPED) p.softcap = 2;
  return p;
}

/* Batch b's query i asked for alone, seeing what it saw. */
static attn_problem alone_of(const attn_problem *whole, int64_t i) {
  attn_problem p = *whole;
  p.batch = p.seq_q = 1;
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_BHSD), ATTN_OK);
  p.q_strides.head = whole->seq_q * D;
  if (whole->causal)
    p.causal = ATTN_CAUSAL_OFFSET, p.causal_offset = i + whole->seq_kv - whole->seq_q;
  if (p.mask) {
    p.mask_strides[3] = 1, p.mask_strides[2] = whole->seq_kv;
    p.mask_strides[1] = whole->seq_q * whole->seq_kv, p.mask_strides[0] = HQ * p.mask_strides[1];
  }
  return p;
}

static void rows_alone(attn_context *c, const char *name, const attn_problem *whole, attn_io io) {
  attn_status status = attn_sdpa(c, whole, &io);
  if (status == ATTN_ERROR_UNSUPPORTED) return;
  if (status) fail_msg("%s: %s", name, attn_last_error());
  int64_t n = whole->seq_q, s = whole->seq_kv, step = 1 + n / 7;
  for (int64_t b = 0; b < BATCH; b++)
    for (int64_t i = 0; i < n; i += step) {
      attn_problem p = alone_of(whole, i);
      attn_io one = io;
      one.q = q + (b * HQ * n + i) * D, one.k = k + b * HK * s * D, one.v = v + b * HK * s * D;
      one.out = other, one.lse = alone_lse, one.mask = mask + (b * HQ * n + i) * s;
      if (attn_sdpa(c, &p, &one)) fail_msg("%s alone: %s", name, attn_last_error());
      for (int64_t h = 0; h < HQ; h++) {
        int64_t row = (b * HQ + h) * n + i;
        if (memcmp(other + h * D, out + row * D, D * sizeof(float)) ||
            memcmp(alone_lse + h, lse + row, sizeof(float)))
          fail_msg("%s, %lldx%lld: row %lld has other bits alone", name, (long long)n, (long long)s,
                   (long long)i);
      }
    }
}

static const int64_t shapes[][2] = { { 300, 300 }, { 65, 450 }, { 4, 450 }, { 17, 129 } };

static void test_rows_alone_on_each_backend(void **unused) { // TabPFN 800, 58128, 34060
  (void)unused;
  attn_io io = io_of(ATTN_F32);
  for (int kind = 0; kind < KINDS; kind++)
    for (int n = 0; n < 4; n++)
      for (int w = 0; w < WAYS; w++) {
        attn_problem p = kind_of(kind, shapes[n][0], shapes[n][1]);
        attn_context *c = way_context(w, 2);
        rows_alone(c, way_name(w), &p, io);
        attn_context_destroy(c);
      }
  for (int w = 0; w < WAYS; w++) {
    attn_problem p = kind_of(PLAIN, 2, 5000);
    attn_context *c = way_context(w, 8);
    rows_alone(c, way_name(w), &p, io);
    attn_context_destroy(c);
  }
}

/* Whatever makes the selector choose differently: the bits stay, for one row over many keys too. */
static void test_choices_have_the_same_bits(void **unused) {
  (void)unused;
  static const int64_t sizes[][2] = { { 1, 5000 }, { 300, 300 }, { 7, 450 } };
  static const uint32_t disabled[] = {
    0, 1u << ATTN_BACKEND_FLASH, 1u << ATTN_BACKEND_FLASH | 1u << ATTN_BACKEND_MEMORY_EFFICIENT,
    1u << ATTN_BACKEND_FLASH | 1u << ATTN_BACKEND_CPU,
    1u << ATTN_BACKEND_CPU | 1u << ATTN_BACKEND_MEMORY_EFFICIENT
  };
  for (int n = 0; n < 3; n++)
    for (int choice = 0; choice < 5; choice++)
      for (int objective = 0; objective < ATTN_OBJECTIVE_COUNT; objective++) {
        attn_problem p = kind_of(PLAIN, sizes[n][0], sizes[n][1]);
        attn_config config = { .ignore_environment = true,
                               .no_measure = true,
                               .disabled = disabled[choice],
                               .threads = 1 + 7 * (objective % 2),
                               .objective = (attn_objective)objective };
        attn_context *c = NULL;
        if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
        attn_io io = io_of(ATTN_F32);
        if (choice || objective) io.out = other;
        if (attn_sdpa(c, &p, &io)) fail_msg("%s", attn_last_error());
        size_t bytes = (size_t)(BATCH * HQ * sizes[n][0] * D) * sizeof(float);
        if (io.out == other && memcmp(out, other, bytes))
          fail_msg("size %d: choice %d has other bits", n, choice);
        attn_context_destroy(c);
      }
}

static void test_capacity_on_each_backend(void **unused) {
  (void)unused;
  static const int32_t lengths[] = { 0, 1, 127, 128, 129, 333 };
  static const int64_t capacities[] = { 333, 384, 1000, 5000 };
  for (int n = 0; n < 6; n++)
    for (int64_t rows = 1; rows <= 40; rows += 39)
      for (int w = 0; w < WAYS; w++) {
        attn_problem exact = problem_of(rows, lengths[n]);
        exact.heads_kv = 1, exact.batch_invariant = true, exact.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
        attn_io io = io_of(ATTN_F32);
        io.kv_len = &lengths[n];
        if (!way_run(w, 2, &exact, &io)) continue;
        io.out = other;
        for (int i = 0; i < 4; i++) {
          attn_problem roomy = exact;
          roomy.seq_kv = capacities[i], roomy.kv_lengths = true;
          assert_true(way_run(w, 2, &roomy, &io));
          if (memcmp(out, other, (size_t)(HQ * rows * D) * sizeof(float)))
            fail_msg("%s: capacity %lld changes length %d", way_name(w), (long long)capacities[i],
                     lengths[n]);
        }
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_threads_on_each_backend),
    cmocka_unit_test(test_threads_with_options),
    cmocka_unit_test(test_rows_alone_on_each_backend),
    cmocka_unit_test(test_choices_have_the_same_bits),
    cmocka_unit_test(test_capacity_on_each_backend),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
