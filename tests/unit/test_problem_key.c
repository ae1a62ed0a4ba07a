// SPDX-License-Identifier: Apache-2.0
/* Problems that differ in anything that can change an answer have different keys; those that mean
 * the same have equal ones. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "core/problem.h"
#include "random_problem.h"

static problem_key key_of(const attn_problem *p) {
  attn_problem r;
  problem_key key;
  memset(&key, 0xa5, sizeof(key)); // whatever was there must not show
  if (attn_problem_resolve(p, &r)) fail_msg("%s", attn_last_error());
  problem_key_make(&r, &key);
  assert_true(key.count > 0 && key.count <= (int)(sizeof(key.words) / sizeof(key.words[0])));
  return key;
}

/* Everything is set, so that each field has a meaning that a change of it changes. */
static attn_problem full(void) {
  return (attn_problem){ .batch = 2,
                         .heads_q = 4,
                         .heads_kv = 2,
                         .seq_q = 3,
                         .seq_kv = 5,
                         .head_dim = 64,
                         .head_dim_v = 32,
                         .dtype = ATTN_F8E4M3,
                         .kv_dtype = ATTN_F8E5M2,
                         .out_dtype = ATTN_F32,
                         .fp8_scale = ATTN_FP8_SCALE_TENSOR,
                         .scale = 0.5f,
                         .softcap = 20,
                         .causal = ATTN_CAUSAL_OFFSET,
                         .causal_offset = 1,
                         .window = true,
                         .window_left = 3,
                         .window_right = 2,
                         .mask = ATTN_MASK_ADDITIVE,
                         .mask_dtype = ATTN_F16,
                         .alibi = true,
                         .alibi_batch_stride = 4,
                         .page_size = 2,
                         .num_pages = 9,
                         .pages_per_seq = 4,
                         .dropout = 0.25f };
}

static void expect_other(const attn_problem *a, const attn_problem *b, const char *what) {
  problem_key x = key_of(a), y = key_of(b);
  if (problem_key_equal(&x, &y)) fail_msg("%s is not in the key", what);
  if (x.hash == y.hash) fail_msg("%s is not in the hash", what);
}

static void expect_same(const attn_problem *a, const attn_problem *b) {
  problem_key x = key_of(a), y = key_of(b);
  assert_true(problem_key_equal(&x, &y));
  assert_true(x.hash == y.hash);
}

#define CHANGE(p0, ...)                                                                            \
  do {                                                                                             \
    attn_problem p = p0;                                                                           \
    __VA_ARGS__;                                                                                   \
    expect_other(&p0, &p, #__VA_ARGS__);                                                           \
  } while (0)

static void test_every_field_changes_the_key(void **state) {
  (void)state;
  attn_problem a = full();
  CHANGE(a, p.batch = 3);
  CHANGE(a, p.heads_q = 8);
  CHANGE(a, p.heads_kv = 4);
  CHANGE(a, p.seq_q = 4);
  CHANGE(a, p.seq_kv = 6);
  CHANGE(a, p.head_dim = 63);
  CHANGE(a, p.head_dim_v = 31);
  CHANGE(a, p.dtype = ATTN_F32);
  CHANGE(a, p.kv_dtype = ATTN_F8E4M3);
  CHANGE(a, p.out_dtype = ATTN_F8E4M3);
  CHANGE(a, p.fp8_scale = ATTN_FP8_SCALE_HEAD);
  CHANGE(a, p.scale = 0.25f);
  CHANGE(a, p.scale_set = true, p.scale = 0);
  CHANGE(a, p.softcap = 0);
  CHANGE(a, p.causal = ATTN_CAUSAL_TOP_LEFT);
  CHANGE(a, p.causal_offset = 2);
  CHANGE(a, p.window = false);
  CHANGE(a, p.window_left = 4);
  CHANGE(a, p.window_right = 3);
  CHANGE(a, p.mask = ATTN_MASK_NONE);
  CHANGE(a, p.mask = ATTN_MASK_BOOL);
  CHANGE(a, p.mask_dtype = ATTN_BF16);
  for (int i = 0; i < 4; i++) CHANGE(a, p.mask_dims[i] = 1);
  CHANGE(a, p.mask_dims[3] = 4);
  CHANGE(a, p.alibi = false);
  CHANGE(a, p.alibi_batch_stride = 0);
  CHANGE(a, p.sinks = true);
  CHANGE(a, p.score_mod = true);
  CHANGE(a, p.kv_lengths = true);
  CHANGE(a, p.varlen = true, p.total_q = 6);
  CHANGE(a, p.page_size = 3);
  CHANGE(a, p.num_pages = 10);
  CHANGE(a, p.pages_per_seq = 3);
  CHANGE(a, p.dropout = 0);
  CHANGE(a, p.return_lse = true);
  for (int w = 1; w < ATTN_WEIGHTS_COUNT; w++) CHANGE(a, p.weights = (attn_weights)w);
  CHANGE(a, p.batch_invariant = true);
  attn_problem s = a;
  assert_int_equal(attn_problem_set_layout(&s, ATTN_LAYOUT_BHSD), ATTN_OK);
  CHANGE(s, p.q_strides.col = 2);
  CHANGE(s, p.k_strides.col = 3);
  CHANGE(s, p.v_strides.col = 2);
  CHANGE(s, p.q_strides.head = 0);
  CHANGE(s, p.k_strides.batch = 0);
  CHANGE(s, p.v_strides.row = 0);
  CHANGE(s, p.k_strides.row = 80);
  CHANGE(s, p.out_strides.batch += 1);
  attn_problem expanded = s;
  expanded.k_strides.batch = 0; // which dimension is expanded matters
  CHANGE(expanded, p.k_strides.batch = s.k_strides.batch, p.k_strides.head = 0);
  CHANGE(s, p.mask_strides[0] = 120, p.mask_strides[1] = 30, p.mask_strides[2] = 10,
         p.mask_strides[3] = 2);
  attn_problem v = a;
  v.varlen = true, v.total_q = 5, v.total_kv = 7;
  CHANGE(v, p.total_q = 6);
  CHANGE(v, p.total_kv = 8);
  attn_problem w = a;
  w.causal = ATTN_CAUSAL_NONE;
  CHANGE(w, p.window_align = ATTN_CAUSAL_TOP_LEFT);
}

static void test_equal_meanings_have_equal_keys(void **state) {
  (void)state;
  attn_problem a = { .batch = 2, .heads_q = 4, .seq_q = 3, .seq_kv = 5, .head_dim = 64 }, b = a;
  b.heads_kv = 4, b.head_dim_v = 64, b.dtype = ATTN_F32, b.kv_dtype = ATTN_F32;
  b.scale = 0.125f, b.softcap = -0.0f;
  b.causal_offset = 77, b.window_left = 7, b.mask_dims[1] = 9; // without causal, window, mask
  b.window_align = ATTN_CAUSAL_TOP_LEFT;
  expect_same(&a, &b);
  assert_int_equal(attn_problem_set_layout(&b, ATTN_LAYOUT_BHSD), ATTN_OK);
  expect_same(&a, &b);
  b.window = true, b.window_left = -3, b.window_right = -4; // unbounded on both sides
  expect_same(&a, &b);
  // Numbers of strides do not matter, their class does.
  assert_int_equal(attn_problem_set_layout(&a, ATTN_LAYOUT_BHSD), ATTN_OK);
  attn_problem c = a, d = a;
  c.k_strides.batch += 5, d.k_strides.batch += 9;
  expect_same(&c, &d);
}

static void test_keys_differ_exactly_when_problems_do(void **state) {
  (void)state;
  enum { COUNT = 3000 };
  const uint64_t seed = 8;
  uint64_t random = seed;
  problem_key *keys = malloc(COUNT * sizeof(*keys));
  char(*texts)[1024] = malloc(COUNT * sizeof(*texts));
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < COUNT; n++) {
    attn_problem p = random_problem(&random), r;
    p.layout = ATTN_LAYOUT_BHSD; // so that text says all that the key does
    memset(p.mask_strides, 0, sizeof(p.mask_strides));
    keys[n] = key_of(&p);
    attn_problem_resolve(&p, &r);
    attn_problem_format(&r, texts[n], sizeof(texts[n]));
    for (int m = 0; m < n; m++) {
      bool same = !strcmp(texts[n], texts[m]);
      if (problem_key_equal(&keys[n], &keys[m]) != same || (keys[n].hash == keys[m].hash) != same)
        fail_msg("%s\n%s", texts[n], texts[m]);
    }
  }
  free(keys);
  free(texts);
}

/* One step of a size changes half of the hash's bits, and every bit of the hash now and then. */
static void test_hash_mixes_well(void **state) {
  (void)state;
  enum { COUNT = 4096 };
  attn_problem p = full();
  uint64_t before = key_of(&p).hash;
  int flips[64] = { 0 };
  double total = 0;
  for (int n = 0; n < COUNT; n++) {
    p.seq_q++;
    uint64_t hash = key_of(&p).hash;
    for (int i = 0; i < 64; i++) flips[i] += (int)(hash >> i & ~(before >> i) & 1);
    total += __builtin_popcountll(hash ^ before);
    before = hash;
  }
  assert_true(total / COUNT > 31.5 && total / COUNT < 32.5); // 32 +- 0.06, standard error
  for (int i = 0; i < 64; i++) assert_in_range(flips[i], COUNT / 4 - 200, COUNT / 4 + 200);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_field_changes_the_key),
    cmocka_unit_test(test_equal_meanings_have_equal_keys),
    cmocka_unit_test(test_keys_differ_exactly_when_problems_do),
    cmocka_unit_test(test_hash_mixes_well),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
