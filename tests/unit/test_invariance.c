// SPDX-License-Identifier: Apache-2.0
/* Bits that must not change: with the number of threads, and with batch_invariant also with the other
 * rows, the batch, the number of queries and the capacity of a cache. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "random.h"

enum { HQ = 4, HK = 2, D = 24, MAX_Q = 300, MAX_KV = 5000, BATCH = 3 };
static float q[BATCH * HQ * MAX_Q * D], k[BATCH * HK * MAX_KV * D], v[BATCH * HK * MAX_KV * D];
static float out[BATCH * HQ * MAX_Q * D], other[BATCH * HQ * MAX_Q * D];

static void fill(void) {
  uint64_t s = 99;
  for (size_t i = 0; i < sizeof(q) / sizeof(q[0]); i++) q[i] = random_float(&s);
  for (size_t i = 0; i < sizeof(k) / sizeof(k[0]); i++) k[i] = random_float(&s), v[i] = random_float(&s);
}

static attn_context *context_of(int threads) {
  attn_config config = { .threads = threads, .ignore_environment = true, .no_measure = true };
  attn_context *c = NULL;
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  return c;
}

static void run(attn_context *c, const attn_problem *p, const attn_io *io) {
  if (attn_sdpa(c, p, io)) fail_msg("%s", attn_last_error());
}

static void test_threads(void **unused) {
  (void)unused;
  static const int32_t cu_q[] = { 0, 5, 5, 120, 300 }, cu_kv[] = { 0, 64, 90, 1000, 1300 };
  const attn_problem problems[] = {
    { .batch = 2, .heads_q = HQ, .heads_kv = HK, .seq_q = 300, .seq_kv = 500, .head_dim = D,
      .causal = ATTN_CAUSAL_BOTTOM_RIGHT },
    { .batch = 1, .heads_q = HQ, .heads_kv = HK, .seq_q = 1, .seq_kv = 5000, .head_dim = D },
    { .batch = 1, .heads_q = HQ, .heads_kv = HK, .seq_q = 9, .seq_kv = 5000, .head_dim = D, .softcap = 3 },
    { .batch = 4, .heads_q = HQ, .heads_kv = HK, .seq_q = 180, .seq_kv = 910, .head_dim = D, .varlen = true,
      .total_q = 300, .total_kv = 1300, .causal = ATTN_CAUSAL_BOTTOM_RIGHT },
  };
  static const int counts[] = { 1, 2, 3, 8 };
  for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++)
    for (int t = 0; t < 4; t++) {
      attn_context *c = context_of(counts[t]);
      attn_io io = { .q = q, .k = k, .v = v, .out = t ? other : out, .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv };
      run(c, &problems[i], &io);
      if (t) assert_memory_equal(out, other, sizeof(out));
      attn_context_destroy(c);
      if (!t) memcpy(other, out, sizeof(out));
    }
}

/* Row i of the whole against the same row asked for alone, for the selector's own choices. */
static void rows_alone(int64_t seq_q, int64_t seq_kv, attn_causal causal) {
  attn_context *c = context_of(2);
  attn_problem whole = { .batch = BATCH, .heads_q = HQ, .heads_kv = HK, .seq_q = seq_q, .seq_kv = seq_kv,
                         .head_dim = D, .causal = causal, .batch_invariant = true };
  run(c, &whole, &(attn_io){ .q = q, .k = k, .v = v, .out = out });
  for (int b = 0; b < BATCH; b++)
    for (int64_t i = 0; i < seq_q; i += 1 + seq_q / 9) {
      attn_problem row = whole;
      row.batch = row.seq_q = 1;
      assert_int_equal(attn_problem_set_layout(&row, ATTN_LAYOUT_BHSD), ATTN_OK);
      row.q_strides.head = seq_q * D;
      if (causal) row.causal = ATTN_CAUSAL_OFFSET, row.causal_offset = i + seq_kv - seq_q;
      run(c, &row, &(attn_io){ .q = q + (b * HQ * seq_q + i) * D, .k = k + b * HK * seq_kv * D,
                               .v = v + b * HK * seq_kv * D, .out = other });
      for (int h = 0; h < HQ; h++)
        assert_memory_equal(other + h * D, out + ((b * HQ + h) * seq_q + i) * D, D * sizeof(float));
    }
  attn_context_destroy(c);
}

static void test_rows_do_not_depend_on_each_other(void **unused) {
  (void)unused;
  rows_alone(300, 300, ATTN_CAUSAL_NONE);
  rows_alone(300, 450, ATTN_CAUSAL_BOTTOM_RIGHT);
  rows_alone(17, 1500, ATTN_CAUSAL_BOTTOM_RIGHT);
  rows_alone(3, 5000, ATTN_CAUSAL_NONE);
}

/* NaN in one row's query makes its neighbours' careful second run, which must not change their bits. */
static void test_a_poisoned_row_leaves_the_others(void **unused) {
  (void)unused;
  attn_context *c = context_of(1);
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 40, .seq_kv = 40, .head_dim = D,
                     .causal = ATTN_CAUSAL_TOP_LEFT, .batch_invariant = true };
  attn_io io = { .q = q, .k = k, .v = v, .out = out };
  run(c, &p, &io);
  float kept = q[7 * D];
  q[7 * D] = (float)strtod("nan", NULL), io.out = other;
  run(c, &p, &io);
  q[7 * D] = kept;
  for (int i = 0; i < 40; i++)
    if (i != 7) assert_memory_equal(out + i * D, other + i * D, D * sizeof(float));
  assert_true(other[7 * D] != other[7 * D]);
  attn_context_destroy(c);
}

static void test_capacity_beyond_the_length(void **unused) {
  (void)unused;
  attn_context *c = context_of(2);
  const int32_t length[1] = { 333 };
  attn_problem exact = { .batch = 1, .heads_q = HQ, .heads_kv = 1, .seq_q = 2, .seq_kv = 333, .head_dim = D,
                         .batch_invariant = true };
  attn_problem roomy = exact;
  roomy.seq_kv = 5000, roomy.kv_lengths = true;
  run(c, &exact, &(attn_io){ .q = q, .k = k, .v = v, .out = out });
  run(c, &roomy, &(attn_io){ .q = q, .k = k, .v = v, .out = other, .kv_len = length });
  assert_memory_equal(out, other, HQ * 2 * D * sizeof(float));
  attn_context_destroy(c);
}

static int setup(void **unused) {
  (void)unused;
  fill();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_threads),
    cmocka_unit_test(test_rows_do_not_depend_on_each_other),
    cmocka_unit_test(test_a_poisoned_row_leaves_the_others),
    cmocka_unit_test(test_capacity_beyond_the_length),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
