// SPDX-License-Identifier: Apache-2.0
/* Every option of a problem, turned on alone, for every implementation: the right answer, or a reason. An
 * option that should change the result must change the reference's, so that ignoring it would show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "check.h"

#define BASE "--batch 2 --heads 4:2 --seq 7:11 --dim 32 --lse"

static const struct {
  const char *options;
  bool changes; /* the result differs from BASE's on the same data */
} options[] = {
  { "--causal tl", true },
  { "--causal br", true },
  { "--causal 2", true },
  { "--causal -3", true },
  { "--window 3:1", true },
  { "--window inf:1 --window-align tl", true },
  { "--mask bool", true },
  { "--mask bool:*x1x1x*", true },
  { "--mask f32:1x*x*x1", false }, // the same number for all keys of a row
  { "--mask f16:1x1x*x*", true },
  { "--mask bf16:*x*x1x*", true },
  { "--mask f32:*x*x*x6", true },
  { "--softcap 0.5", true },
  { "--scale -0.7", true },
  { "--scale 0", true },
  { "--alibi", true },
  { "--alibi --alibi-stride 4", true },
  { "--sinks", true },
  { "--score-mod", true },
  { "--kv-lengths", true },
  { "--dropout 0.4", true },
  { "--batch-invariant", false },
  { "--weights scores", false },
  { "--weights capped --softcap 0.5", true },
  { "--weights masked --causal br", true },
  { "--weights probs", false },
  { "--weights column-sums", false },
  { "--prefix 4", true },
  { "--page-size 4 --num-pages 7 --pages-per-seq 3 --kv-lengths", true },
  { "--varlen 9:15", true },
  { "--dim 32:9", true },
  { "--dtype f16", true },
  { "--dtype bf16", true },
  { "--dtype f16 --out-dtype f32", true },
  { "--dtype f8e4m3", true },
  { "--dtype f8e4m3 --fp8-scale tensor", true },
  { "--dtype f8e5m2 --fp8-scale head", true },
  { "--dtype f64", false }, // the same numbers
  { "--dtype f64 --out-dtype f32", false },
  { "--kv-dtype f16", true },
  { "--kv-dtype bf16", true },
  { "--kv-dtype f8e4m3", true },
  { "--kv-dtype int8", true },
  { "--kv-dtype q8_0", true },
  { "--kv-dtype q4_0", true },
  { "--layout bshd", false }, // the same rows elsewhere
};
enum { OPTIONS = sizeof(options) / sizeof(options[0]) };

static check_set set;
static const gen_options plain = { .max_seq = 16, .plain_data = true };

static attn_problem problem_of(const char *text) {
  attn_problem p;
  char shape[512];
  snprintf(shape, sizeof(shape), "%s %s", BASE, text);
  if (attn_problem_parse(shape, &p)) fail_msg("%s: %s", shape, attn_last_error());
  return p;
}

static size_t outputs_of(const attn_problem *p) {
  int64_t rows = p->varlen ? p->total_q : p->batch * p->seq_q;
  return (size_t)(rows * p->heads_q * (p->head_dim_v ? p->head_dim_v : p->head_dim));
}

/* The reference of a problem on its own data, and on that of the problem without options. */
static bool differs_from_base(const char *text) {
  gen_case with, base;
  accuracy_reference a = { 0 }, b = { 0 };
  attn_problem p = problem_of(text), q = problem_of("");
  assert_true(gen_case_make(&p, 5, &plain, &with) && gen_case_make(&q, 5, &plain, &base));
  assert_true(accuracy_reference_make(&with, &a) && accuracy_reference_make(&base, &b));
  size_t n = outputs_of(&p) < outputs_of(&q) ? outputs_of(&p) : outputs_of(&q);
  bool differs = memcmp(a.out, b.out, n * sizeof(double)) != 0;
  accuracy_reference_free(&a), accuracy_reference_free(&b);
  gen_case_free(&with), gen_case_free(&base);
  return differs;
}

static void test_each_option_alone(void **state) {
  (void)state;
  for (int o = 0; o < OPTIONS; o++) {
    attn_problem p = problem_of(options[o].options);
    gen_case data;
    accuracy_reference reference = { 0 };
    int ran = 0;
    assert_true(gen_case_make(&p, 5, &plain, &data) && accuracy_reference_make(&data, &reference));
    for (int i = 0; i < set.count; i++) {
      accuracy_result r;
      attn_status status = check_run(&set.list[i], &data, &reference, false, &r);
      if (status == ATTN_ERROR_UNSUPPORTED) { // the message holds the backend and its reasons
        const char *colon = strstr(attn_last_error(), ": ");
        if (!colon || strlen(colon) < 10) fail_msg("%s: no reason in \"%s\"", set.list[i].name, attn_last_error());
        continue;
      }
      if (status) fail_msg("%s, %s: %s", set.list[i].name, options[o].options, attn_last_error());
      if (!r.ok) fail_msg("%s, %s: %s", set.list[i].name, options[o].options, r.what);
      ran++;
    }
    if (!ran) fail_msg("%s: no implementation takes it", options[o].options);
    accuracy_reference_free(&reference);
    gen_case_free(&data);
    if (options[o].changes && !differs_from_base(options[o].options))
      fail_msg("%s changes nothing", options[o].options);
  }
}

static int open_set(void **state) {
  (void)state;
  return check_open(&set, ATTN_BACKEND_AUTO, ATTN_ISA_AUTO) ? 0 : -1;
}

static int close_set(void **state) {
  (void)state;
  check_close(&set);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = { cmocka_unit_test(test_each_option_alone) };
  return cmocka_run_group_tests(tests, open_set, close_set);
}
