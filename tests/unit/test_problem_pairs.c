// SPDX-License-Identifier: Apache-2.0
/* Key ranges and counts of pairs agree with the definition, key by key, also where offsets lie near
 * the ends of int64. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/problem.h"
#include "random_problem.h"
#include "structure.h"

static attn_problem band(uint64_t *random, bool far) {
  attn_problem p = { .batch = 1, .heads_q = 1, .head_dim = 1 };
  int64_t near[] = { -1, 0, 1, 2, 3, 5, 9 };
  int64_t ends[] = { INT64_MAX,
                     INT64_MIN,
                     INT64_MAX - 3,
                     INT64_MIN + 3,
                     (int64_t)1 << 53,
                     ((int64_t)1 << 53) + 1,
                     -((int64_t)1 << 53) - 1 };
  p.seq_q = random_int(random, 0, 12);
  p.seq_kv = random_int(random, 0, 12);
  p.causal = (attn_causal)random_int(random, 0, 3);
  if (p.causal == ATTN_CAUSAL_OFFSET)
    p.causal_offset = far ? ends[random_int(random, 0, 6)] : random_int(random, -15, 15);
  p.window = random_chance(random, 2);
  if (p.window) {
    p.window_align = (attn_causal)random_int(random, 0, 2);
    p.window_left = far ? ends[random_int(random, 0, 6)] : near[random_int(random, 0, 6)];
    p.window_right = random_chance(random, 2) ? near[random_int(random, 0, 6)]
                     : far                    ? ends[random_int(random, 0, 6)]
                                              : -1;
    // Huge parts that cancel: only exact arithmetic finds the few keys that are left.
    if (far && p.causal == ATTN_CAUSAL_OFFSET && p.causal_offset > 0 && random_chance(random, 2))
      p.window_left = p.causal_offset - random_int(random, 0, 9);
  }
  return p;
}

static void check(const attn_problem *raw, int64_t seq_q, int64_t seq_kv, int round) {
  attn_problem p;
  char text[256];
  double pairs = 0;
  assert_int_equal(attn_problem_resolve(raw, &p), ATTN_OK);
  attn_problem_format(raw, text, sizeof(text));
  for (int64_t i = 0; i < seq_q; i++) {
    int64_t begin, end;
    problem_key_range(&p, i, seq_q, seq_kv, &begin, &end);
    if (begin < 0 || end > seq_kv || begin > end)
      fail_msg("round %d: row %d has [%lld, %lld): %s", round, (int)i, (long long)begin,
               (long long)end, text);
    for (int64_t j = 0; j < seq_kv; j++) {
      bool expected = structure_sees(raw, i, j, seq_q, seq_kv);
      if ((j >= begin && j < end) != expected)
        fail_msg("round %d: row %d, key %d: %s", round, (int)i, (int)j, text);
      pairs += expected;
    }
  }
  double got = problem_pairs(&p, seq_q, seq_kv);
  if (got != pairs)
    fail_msg("round %d: %.17g pairs, not %.17g, of %d x %d: %s", round, got, pairs, (int)seq_q,
             (int)seq_kv, text);
}

static void test_ranges_and_pairs_agree_with_the_definition(void **state) {
  (void)state;
  const uint64_t seed = 42;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 40000; n++) {
    attn_problem p = band(&random, n % 4 == 0);
    check(&p, p.seq_q, p.seq_kv, n);
    // A sequence's own lengths, as varlen and kv_lengths have them.
    check(&p, random_int(&random, 0, p.seq_q), random_int(&random, 0, p.seq_kv), n);
  }
}

static attn_problem causal(attn_causal kind, int64_t seq_q, int64_t seq_kv) {
  attn_problem p = { .batch = 1, .heads_q = 1, .head_dim = 1, .causal = kind }, r;
  p.seq_q = seq_q, p.seq_kv = seq_kv;
  assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
  return r;
}

static void test_closed_forms(void **state) {
  (void)state;
  const int64_t n = 1000003;
  attn_problem p = causal(ATTN_CAUSAL_TOP_LEFT, n, n);
  assert_true(problem_pairs(&p, n, n) == (double)n * (double)(n + 1) / 2);
  p = causal(ATTN_CAUSAL_BOTTOM_RIGHT, 1, 8192);
  assert_true(problem_pairs(&p, 1, 8192) == 8192);
  p = causal(ATTN_CAUSAL_TOP_LEFT, 1, 8192);
  assert_true(problem_pairs(&p, 1, 8192) == 1);
  p = causal(ATTN_CAUSAL_NONE, 10, 20);
  assert_true(problem_pairs(&p, 10, 20) == 200);
  assert_true(problem_pairs(&p, 0, 20) == 0);
  p = causal(ATTN_CAUSAL_BOTTOM_RIGHT, n, n);
  p.window = true, p.window_left = 255; // 256 keys a row, fewer in the first 255
  assert_true(problem_pairs(&p, n, n) == 256.0 * (double)n - 255.0 * 256 / 2);
}

static void test_diagonal_follows_causal_then_the_window(void **state) {
  (void)state;
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 3, .seq_kv = 8, .head_dim = 1 }, r;
  p.alibi = true;
  assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
  assert_int_equal(problem_diagonal(&r, 3, 8), 5); // by default bottom right
  p.window_align = ATTN_CAUSAL_TOP_LEFT;
  assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
  assert_int_equal(problem_diagonal(&r, 3, 8), 0);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT; // causal's counts where both are set
  assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
  assert_int_equal(problem_diagonal(&r, 3, 8), 5);
  assert_int_equal(problem_diagonal(&r, 8, 3), -5);
  p.causal = ATTN_CAUSAL_OFFSET, p.causal_offset = -11;
  assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
  assert_int_equal(problem_diagonal(&r, 3, 8), -11);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_ranges_and_pairs_agree_with_the_definition),
    cmocka_unit_test(test_closed_forms),
    cmocka_unit_test(test_diagonal_follows_causal_then_the_window),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
