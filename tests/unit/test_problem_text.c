// SPDX-License-Identifier: Apache-2.0
/* What is printed parses to the same problem; what cannot be read is named. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "core/decimal.h"
#include "core/problem.h"
#include "random_problem.h"

static attn_problem parsed(const char *text) {
  attn_problem p;
  attn_status status = attn_problem_parse(text, &p);
  if (status) fail_msg("\"%s\": %s", text, attn_last_error());
  return p;
}

static void expect_format(const attn_problem *p, const char *expected) {
  char text[1024];
  int length = attn_problem_format(p, text, sizeof(text));
  assert_string_equal(text, expected);
  assert_int_equal(length, strlen(expected));
}

static void expect_error(const char *text, const char *needle) {
  attn_problem p;
  memset(&p, 0x5a, sizeof(p));
  attn_problem before = p;
  if (attn_problem_parse(text, &p) != ATTN_ERROR_PARSE) fail_msg("\"%s\" was read", text);
  if (!strstr(attn_last_error(), needle))
    fail_msg("\"%s\": \"%s\" lacks \"%s\"", text, attn_last_error(), needle);
  assert_memory_equal(&p, &before, sizeof(p));
}

#define SAME(field) same &= a->field == b->field
static bool same_strides(const attn_strides *a, const attn_strides *b) {
  return a->batch == b->batch && a->head == b->head && a->row == b->row && a->col == b->col;
}

static bool same_problem(const attn_problem *a, const attn_problem *b) {
  bool same = true;
  SAME(batch), SAME(heads_q), SAME(heads_kv), SAME(seq_q), SAME(seq_kv), SAME(head_dim);
  SAME(head_dim_v), SAME(dtype), SAME(kv_dtype), SAME(out_dtype), SAME(fp8_scale);
  SAME(scale_set), SAME(scale), SAME(softcap), SAME(causal), SAME(causal_offset), SAME(window);
  SAME(window_left), SAME(window_right), SAME(window_align), SAME(mask), SAME(mask_dtype);
  SAME(alibi), SAME(alibi_batch_stride), SAME(sinks), SAME(score_mod), SAME(kv_lengths);
  SAME(varlen), SAME(total_q), SAME(total_kv), SAME(page_size), SAME(num_pages);
  SAME(pages_per_seq), SAME(dropout), SAME(return_lse), SAME(weights), SAME(batch_invariant);
  SAME(layout);
  for (int i = 0; i < 4; i++) SAME(mask_dims[i]), SAME(mask_strides[i]);
  return same && same_strides(&a->q_strides, &b->q_strides) &&
         same_strides(&a->k_strides, &b->k_strides) && same_strides(&a->v_strides, &b->v_strides) &&
         same_strides(&a->out_strides, &b->out_strides);
}

static void test_printed_problems_parse_to_the_same(void **state) {
  (void)state;
  const uint64_t seed = 20250101;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 100000; n++) {
    attn_problem p = random_problem(&random), resolved, again, back;
    char text[1024], twice[1024];
    if (attn_problem_resolve(&p, &resolved))
      fail_msg("round %d: not valid: %s", n, attn_last_error());
    assert_in_range(attn_problem_format(&p, text, sizeof(text)), 1, sizeof(text) - 1);
    back = parsed(text);
    if (attn_problem_resolve(&back, &again) || !same_problem(&resolved, &again))
      fail_msg("round %d: not the same after %s", n, text);
    attn_problem_format(&back, twice, sizeof(twice));
    assert_string_equal(twice, text);
    // The resolved problem prints so as to mean the same, and resolving it again changes nothing.
    attn_problem_format(&resolved, text, sizeof(text));
    back = parsed(text);
    if (attn_problem_resolve(&back, &again) || !same_problem(&resolved, &again))
      fail_msg("round %d: resolved: not the same after %s", n, text);
    if (attn_problem_resolve(&resolved, &again) || !same_problem(&resolved, &again))
      fail_msg("round %d: resolving twice is not resolving once: %s", n, text);
  }
}

static void test_examples_print_as_documented(void **state) {
  (void)state;
  attn_problem p = { .batch = 1,
                     .heads_q = 32,
                     .heads_kv = 8,
                     .seq_q = 1,
                     .seq_kv = 8192,
                     .head_dim = 128,
                     .dtype = ATTN_BF16,
                     .causal = ATTN_CAUSAL_BOTTOM_RIGHT };
  const char *expected = "--batch 1 --heads 32:8 --seq 1:8192 --dim 128 --dtype bf16 --causal br";
  attn_problem resolved;
  expect_format(&p, expected);
  assert_int_equal(attn_problem_resolve(&p, &resolved), ATTN_OK);
  expect_format(&resolved, expected);
  p.layout = ATTN_LAYOUT_BSHD;
  assert_int_equal(attn_problem_resolve(&p, &resolved), ATTN_OK);
  expect_format(&resolved, "--batch 1 --heads 32:8 --seq 1:8192 --dim 128 --dtype bf16 "
                           "--causal br --layout bshd");
  p = parsed("--batch 3 --heads 2 --seq 64 --dim 64 --scale 0.1 --softcap 30 --window 4096:0 "
             "--mask bool:*x1x1x* "
             "--alibi --dropout 0.25 --lse --weights column-sums");
  expect_format(&p, "--batch 3 --heads 2 --seq 64 --dim 64 --dtype f32 --scale 0.1 --softcap 30 "
                    "--window 4096:0 --mask bool:*x1x1x* --alibi --dropout 0.25 --lse "
                    "--weights column-sums");
}

static void test_every_option_sets_its_field(void **state) {
  (void)state;
  attn_problem p = parsed("--batch 2 --heads 6:3 --seq 4:5 --dim 7:8 --dtype f16 --kv-dtype int8 "
                          "--out-dtype f32 --fp8-scale head --scale -0.5 --softcap 2.5 --causal -3 "
                          "--window inf:4 --window-align tl --mask f16:1x*x4x5 "
                          "--mask-strides 0:1:2:3 --alibi --alibi-stride 9 --sinks --score-mod");
  assert_int_equal(p.batch, 2);
  assert_true(p.heads_q == 6 && p.heads_kv == 3 && p.seq_q == 4 && p.seq_kv == 5);
  assert_true(p.head_dim == 7 && p.head_dim_v == 8);
  assert_true(p.dtype == ATTN_F16 && p.kv_dtype == ATTN_INT8 && p.out_dtype == ATTN_F32);
  assert_int_equal(p.fp8_scale, ATTN_FP8_SCALE_HEAD);
  assert_true(p.scale_set && p.scale == -0.5f && p.softcap == 2.5f);
  assert_true(p.causal == ATTN_CAUSAL_OFFSET && p.causal_offset == -3);
  assert_true(p.window && p.window_left == -1 && p.window_right == 4);
  assert_int_equal(p.window_align, ATTN_CAUSAL_TOP_LEFT);
  assert_true(p.mask == ATTN_MASK_ADDITIVE && p.mask_dtype == ATTN_F16);
  const int64_t dims[4] = { 1, 0, 4, 5 }, strides[4] = { 0, 1, 2, 3 };
  assert_memory_equal(p.mask_dims, dims, sizeof(dims));
  assert_memory_equal(p.mask_strides, strides, sizeof(strides));
  assert_true(p.alibi && p.alibi_batch_stride == 9 && p.sinks && p.score_mod);
  p = parsed("--seq 4 --dim 8 --kv-lengths --varlen 10:12 --page-size 16 --num-pages 4 "
             "--pages-per-seq 2 --dropout 1e-1 --lse --weights probs --batch-invariant "
             "--layout strided --q-strides 1:2:3 --k-strides 4:5:6:7 --v-strides=8:9:10:11 "
             "--out-strides 12:13:14");
  assert_true(p.kv_lengths && p.varlen && p.total_q == 10 && p.total_kv == 12);
  assert_true(p.page_size == 16 && p.num_pages == 4 && p.pages_per_seq == 2);
  assert_true(p.dropout == 0.1f && p.return_lse && p.weights == ATTN_WEIGHTS_PROBS);
  assert_true(p.batch_invariant && p.layout == ATTN_LAYOUT_STRIDED);
  assert_true(p.q_strides.batch == 1 && p.q_strides.row == 3 && p.q_strides.col == 1);
  assert_true(p.k_strides.head == 5 && p.k_strides.col == 7 && p.v_strides.batch == 8);
  assert_true(p.out_strides.row == 14);
}

static void test_defaults_and_short_words(void **state) {
  (void)state;
  attn_problem p = parsed("b1 hq32 hkv8 sq1 skv8192 d128 dv64 --causal br");
  assert_true(p.batch == 1 && p.heads_q == 32 && p.heads_kv == 8 && p.seq_q == 1);
  assert_true(p.seq_kv == 8192 && p.head_dim == 128 && p.head_dim_v == 64);
  p = parsed("\t--seq=5\n --dim=3 ");
  assert_true(p.batch == 1 && p.heads_q == 1 && p.heads_kv == 0 && p.seq_q == 5 && p.seq_kv == 5);
  assert_true(p.head_dim == 3 && p.head_dim_v == 0 && !p.scale_set);
  p = parsed("sq7 d2");
  assert_int_equal(p.seq_kv, 7);
  p = parsed("b0 hq0 sq0 d2");
  assert_true(p.batch == 0 && p.heads_q == 0 && p.seq_q == 0);
}

static void test_causal_takes_its_value_only_if_it_is_one(void **state) {
  (void)state;
  assert_int_equal(parsed("--seq 2 --dim 2 --causal").causal, ATTN_CAUSAL_TOP_LEFT);
  assert_int_equal(parsed("--causal --seq 2 --dim 2").causal, ATTN_CAUSAL_TOP_LEFT);
  assert_int_equal(parsed("--causal sq2 --dim 2").causal, ATTN_CAUSAL_TOP_LEFT);
  assert_int_equal(parsed("--causal tl sq2 --dim 2").causal, ATTN_CAUSAL_TOP_LEFT);
  assert_int_equal(parsed("--causal br sq2 --dim 2").causal, ATTN_CAUSAL_BOTTOM_RIGHT);
  assert_int_equal(parsed("--causal none sq2 --dim 2").causal, ATTN_CAUSAL_NONE);
  attn_problem p = parsed("--causal -7 sq2 --dim 2");
  assert_true(p.causal == ATTN_CAUSAL_OFFSET && p.causal_offset == -7);
  expect_error("--causal=up --seq 2 --dim 2", "--causal of value \"up\"");
}

static void test_option_says_how_many_words_it_took(void **state) {
  (void)state;
  attn_problem p = { 0 };
  int used = 9;
  assert_int_equal(attn_problem_option(&p, "--heads", "32:8", &used), ATTN_OK);
  assert_int_equal(used, 2);
  assert_int_equal(attn_problem_option(&p, "--heads=16", "--x", &used), ATTN_OK);
  assert_int_equal(used, 1);
  assert_true(p.heads_q == 16 && p.heads_kv == 0);
  assert_int_equal(attn_problem_option(&p, "--alibi", "5", &used), ATTN_OK);
  assert_int_equal(used, 1);
  assert_int_equal(attn_problem_option(&p, "--causal", "file", &used), ATTN_OK);
  assert_int_equal(used, 1);
  assert_int_equal(attn_problem_option(&p, "--causal", NULL, &used), ATTN_OK);
  assert_int_equal(attn_problem_option(&p, "--json", NULL, &used), ATTN_OK);
  assert_int_equal(used, 0);
  assert_int_equal(attn_problem_option(&p, "--json", NULL, NULL), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_problem_option(&p, "--heads", NULL, &used), ATTN_ERROR_PARSE);
  assert_int_equal(attn_problem_option(NULL, "--heads", NULL, &used), ATTN_ERROR_NULL);
  assert_int_equal(attn_problem_option(&p, NULL, NULL, &used), ATTN_ERROR_NULL);
}

static void test_errors_name_the_word(void **state) {
  (void)state;
  expect_error("", "--seq");
  expect_error("--dim 4", "--seq");
  expect_error("--seq 4", "--dim");
  expect_error("hello --seq 4 --dim 4", "hello");
  expect_error("--seq 4 --dim 4 --heads 1:2:3", "--heads of value \"1:2:3\"");
  expect_error("--seq 4 --dim 4 --heads", "--heads");
  expect_error("--seq 4 --dim 9223372036854775808", "--dim");
  expect_error("--seq 4 --dim 4x", "--dim");
  expect_error("--seq 4: --dim 4", "--seq");
  expect_error("--seq 4 --dim 4 --dtype f33", "f33");
  expect_error("--seq 4 --dim 4 --scale nan", "--scale");
  expect_error("--seq 4 --dim 4 --scale inf", "--scale");
  expect_error("--seq 4 --dim 4 --scale 0,5", "--scale");
  expect_error("--seq 4 --dim 4 --scale 1e39", "--scale");
  expect_error("--seq 4 --dim 4 --mask bool:1x1", "--mask");
  expect_error("--seq 4 --dim 4 --mask bool:1x1x1x1x1", "--mask");
  expect_error("--seq 4 --dim 4 --mask int8", "--mask");
  expect_error("--seq 4 --dim 4 --window 4", "--window");
  expect_error("--seq 4 --dim 4 --window 4:infinite", "--window");
  expect_error("--seq 4 --dim 4 --lse=1", "--lse takes no value");
  expect_error("--seq 4 --dim 4 --layout strided", "--q-strides");
  expect_error("--seq 4 --dim 4 --q-strides 1:1:1", "--k-strides");
  expect_error("--seq 4 --dim 4 --q-strides 1:1", "--q-strides of value");
  expect_error("sq99999999999999999999 d4", "sq9");
  attn_problem p;
  assert_int_equal(attn_problem_parse(NULL, &p), ATTN_ERROR_NULL);
  assert_int_equal(attn_problem_parse("sq1 d1", NULL), ATTN_ERROR_NULL);
}

static void test_format_is_a_snprintf(void **state) {
  (void)state;
  attn_problem p = parsed("b1 hq32 hkv8 sq1 skv8192 d128 --mask bool --dropout 0.5");
  char whole[256], part[256];
  int length = attn_problem_format(&p, whole, sizeof(whole));
  assert_int_equal(attn_problem_format(&p, NULL, 0), length);
  for (int size = 0; size <= length + 1; size++) {
    memset(part, '#', sizeof(part));
    assert_int_equal(attn_problem_format(&p, part, (size_t)size), length);
    assert_int_equal(part[size], '#');
    if (!size) continue;
    assert_int_equal(strlen(part), size - 1);
    assert_memory_equal(part, whole, (size_t)size - 1);
  }
  assert_int_equal(attn_problem_format(NULL, part, 2), 0);
  p.dtype = (attn_dtype)99; // not valid, but printing must not crash
  p.weights = (attn_weights)99, p.layout = (attn_layout)77, p.causal = (attn_causal)-1;
  assert_true(attn_problem_format(&p, part, sizeof(part)) > 0);
}

static void check_float(float x) {
  char text[DECIMAL_FLOAT_SIZE];
  float back;
  decimal_write_float(x, text);
  if (!decimal_read_float(text, &back) || back != x || signbit(back) != signbit(x))
    fail_msg("%a became \"%s\"", (double)x, text);
}

static void test_floats_round_trip(void **state) {
  (void)state;
  const uint64_t seed = 3;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  const struct {
    float x;
    const char *text;
  } plain[] = { { 30, "30" },
                { 0.1f, "0.1" },
                { -1e-4f, "-0.0001" },
                { 1e9f, "1e+09" },
                { 16777216, "16777216" } };
  for (size_t i = 0; i < sizeof(plain) / sizeof(plain[0]); i++) {
    char text[DECIMAL_FLOAT_SIZE];
    decimal_write_float(plain[i].x, text);
    assert_string_equal(text, plain[i].text);
  }
  const float edges[] = { 0,         -0.0f,         1,
                          0.1f,      0x1p-149f,     0x1.fffffcp-127f,
                          0x1p-126f, 3.4028235e38f, 16777216,
                          1.0f / 3,  9.999999e22f };
  for (size_t i = 0; i < sizeof(edges) / sizeof(edges[0]); i++) check_float(edges[i]);
  for (int n = 0; n < 300000; n++) {
    uint32_t bits = (uint32_t)random_next(&random);
    float x;
    memcpy(&x, &bits, sizeof(x));
    if (isfinite(x)) check_float(x);
  }
}

/* Correct rounding where a double holds the decimal exactly: the C library's reader agrees. */
static void test_floats_read_as_strtof(void **state) {
  (void)state;
  const char *texts[] = { "1",
                          "+1.5",
                          "-.5",
                          "5.",
                          "1e3",
                          "1E-3",
                          "0.088388347648318447",
                          "123456789012345678901234567890",
                          "1e-45",
                          "1e-60",
                          "0.7e-45",
                          "16777217",
                          "3.4028235e38",
                          "0e999999",
                          "0.000000000000000000000000000000000000000000001" };
  for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
    float x;
    if (!decimal_read_float(texts[i], &x) || x != strtof(texts[i], NULL))
      fail_msg("%s was read as %a", texts[i], (double)x);
  }
  const char *wrong[] = { "",   ".",  "-",   "e5",  "1e",  "1e+",  "0x1",
                          "1 ", " 1", "1,5", "nan", "inf", "4e38", "1e99999999999999999999" };
  for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
    float x;
    if (decimal_read_float(wrong[i], &x)) fail_msg("\"%s\" was read", wrong[i]);
  }
}

static void test_text_does_not_follow_the_locale(void **state) {
  (void)state;
  static const char *const names[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "ps_AF.UTF-8" };
  bool found = false;
  for (int i = 0; i < 4 && !found; i++) found = setlocale(LC_NUMERIC, names[i]) != NULL;
  if (!found) skip();
  attn_problem p = parsed("--seq 2 --dim 2 --scale 0.5");
  char text[256];
  attn_problem_format(&p, text, sizeof(text));
  setlocale(LC_NUMERIC, "C");
  assert_true(p.scale == 0.5f);
  assert_non_null(strstr(text, "--scale 0.5"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_printed_problems_parse_to_the_same),
    cmocka_unit_test(test_examples_print_as_documented),
    cmocka_unit_test(test_every_option_sets_its_field),
    cmocka_unit_test(test_defaults_and_short_words),
    cmocka_unit_test(test_causal_takes_its_value_only_if_it_is_one),
    cmocka_unit_test(test_option_says_how_many_words_it_took),
    cmocka_unit_test(test_errors_name_the_word),
    cmocka_unit_test(test_format_is_a_snprintf),
    cmocka_unit_test(test_floats_round_trip),
    cmocka_unit_test(test_floats_read_as_strtof),
    cmocka_unit_test(test_text_does_not_follow_the_locale),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
