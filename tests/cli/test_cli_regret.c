// SPDX-License-Identifier: Apache-2.0
/* What attn regret draws, measures and prints. */
#include <math.h>

#include "regret.h"
#include "spawn.h"

static double number_of(const json_t *o, const char *key) {
  const json_t *v = json_object_get(o, key);
  assert_true(json_is_number(v));
  return json_number_value(v);
}

static void draws_repeat_and_stay_within_bounds(void **state) {
  (void)state;
  enum { DRAWS = 400 };
  static attn_problem p, again;
  int decode = 0, varlen = 0, quantised = 0, half = 0, masked = 0, causal = 0, longest = 0;
  char last[1024] = "", text[1024];
  for (int i = 0; i < DRAWS; i++) {
    attn_problem_size size;
    regret_draw(7, i, &p);
    regret_draw(7, i, &again);
    assert_memory_equal(&p, &again, sizeof(p));
    if (attn_problem_measure(&p, &size)) fail_msg("%s", attn_last_error());
    assert_true(size.q_bytes + size.k_bytes + size.v_bytes + size.mask_bytes <=
                REGRET_TENSOR_BYTES);
    attn_problem_format(&p, text, sizeof(text));
    assert_string_not_equal(text, last);
    strcpy(last, text);
    assert_int_equal(attn_problem_parse(text, &again), ATTN_OK);
    decode += p.seq_q == 1, varlen += p.varlen, causal += p.causal != 0, masked += p.mask != 0;
    half += p.dtype == ATTN_F16 || p.dtype == ATTN_BF16, longest += p.seq_kv > 16384;
    quantised += p.kv_dtype == ATTN_INT8 || p.kv_dtype == ATTN_Q8_0 || p.kv_dtype == ATTN_Q4_0;
  }
  const int counts[] = { decode, varlen, quantised, half, masked, causal, longest };
  for (size_t i = 0; i < sizeof(counts) / sizeof(counts[0]); i++) {
    assert_true(counts[i] > DRAWS / 100);
    assert_true(counts[i] < DRAWS * 9 / 10);
  }
}

static const char *const keys[] = { "shapes:i",
                                    "seed:i",
                                    "geomean:n",
                                    "p95:n",
                                    "max:n",
                                    "worst:s",
                                    "worst_chosen:s",
                                    "worst_fastest:s",
                                    "model_error_median:N",
                                    "model_error_p90:N",
                                    "reliability:a",
                                    NULL };

static void check_summary(const json_t *o, int shapes) {
  has_keys(o, keys);
  assert_int_equal(number_of(o, "shapes"), shapes);
  assert_true(number_of(o, "geomean") >= 1);
  assert_true(number_of(o, "p95") >= 1);
  assert_true(number_of(o, "max") >= number_of(o, "geomean"));
  const json_t *bin;
  size_t i;
  int choices = 0;
  json_array_foreach(json_object_get(o, "reliability"), i, bin) {
    choices += (int)number_of(bin, "choices");
    assert_true(number_of(bin, "within_5_percent") <= number_of(bin, "choices"));
  }
  assert_int_equal(choices, shapes);
}

static void given_shapes(void **state) {
  (void)state;
  json_t *o = parsed(succeeds("regret '--heads 2 --seq 40 --dim 16' '--seq 1:600 --dim 32 --dtype "
                              "bf16' '--batch 3 --heads 2 --varlen 20:20 --seq 12 --dim 8' "
                              "'--batch 7 --heads 2 --varlen 7:63 --seq 1:9 --dim 8' "
                              "--threads 2 --min-time 0 --details --json"));
  check_summary(o, 4);
  const json_t *cases = json_object_get(o, "cases"), *k, *t;
  size_t i, j;
  assert_int_equal(json_array_size(cases), 4);
  json_array_foreach(cases, i, k) {
    double best = INFINITY, chosen = NAN;
    const char *name = json_string_value(json_object_get(k, "chosen"));
    assert_true(json_array_size(json_object_get(k, "times")) >= 2);
    json_array_foreach(json_object_get(k, "times"), j, t) {
      double time = number_of(t, "time_ms");
      if (!strcmp(name, json_string_value(json_object_get(t, "implementation")))) chosen = time;
      best = fmin(best, time);
    }
    assert_true(fabs(number_of(k, "regret") - chosen / best) < 1e-9);
  }
  json_decref(o);
  const spawned *s = succeeds("regret --heads 2 --seq 9 --dim 8 --min-time 0 --details");
  readable(s->out);
  assert_non_null(strstr(s->out, "confidence"));
}

static void tuned(void **state) {
  (void)state;
  json_t *o = parsed(
      succeeds("regret '--heads 4 --seq 200 --dim 64' --tuned --threads 1 --min-time 0.05 --json"));
  check_summary(o, 1);
  json_decref(o);
}

static void bad_usage(void **state) {
  static const char *const cases[][2] = {
    { "--shapes", "regret --shapes 0" },       { "--shapes", "regret --shapes 1e3" },
    { "--min-time", "regret --min-time nan" }, { "--time-limit", "regret --time-limit -1" },
    { "--backend", "regret --backend math" },  { "--hw", "regret --hw a100" },
    { "--shapes", "regret --shape 3" },        { "dim", "regret --seq 3" },
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
    fails(2, cases[i][0], "%s", cases[i][1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(draws_repeat_and_stay_within_bounds),
    cmocka_unit_test(given_shapes),
    cmocka_unit_test(tuned),
    cmocka_unit_test(bad_usage),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
