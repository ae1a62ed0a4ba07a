// SPDX-License-Identifier: Apache-2.0
/* What verify and attn-property rest on: problems and data that repeat, bounds that hold what they
 * promise, results that are found wrong, failures that shrink. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "shrink.h"
#include "tally.h"

static const gen_options all = { .max_seq = 60 }, ordinary = { .max_seq = 60, .plain_data = true };

static attn_problem problem_of(const char *shape) {
  attn_problem p;
  if (attn_problem_parse(shape, &p)) fail_msg("%s: %s", shape, attn_last_error());
  return p;
}

static void draws_repeat(void **state) {
  (void)state;
  int same = 0;
  for (int64_t i = 0; i < 200; i++) {
    attn_problem p, q, other;
    gen_problem(5, i, &all, &p);
    gen_problem(5, i, &all, &q);
    gen_problem(6, i, &all, &other);
    assert_memory_equal(&p, &q, sizeof(p));
    same += !memcmp(&p, &other, sizeof(p));
    gen_case a, b;
    assert_true(gen_case_make(&p, 9, &all, &a) && gen_case_make(&q, 9, &all, &b));
    assert_int_equal(a.block_count, b.block_count);
    for (int k = 0; k < a.block_count; k++) {
      assert_int_equal(a.blocks[k].bytes, b.blocks[k].bytes);
      assert_memory_equal(a.blocks[k].data, b.blocks[k].data, a.blocks[k].bytes);
    }
    gen_case_free(&a), gen_case_free(&b);
  }
  assert_int_equal(same, 0);
}

static void shapes_read_back(void **state) {
  (void)state;
  for (int64_t i = 0; i < 2000; i++) {
    attn_problem p, q;
    char text[2048], again[2048];
    gen_problem(8, i, &all, &p);
    assert_true(attn_problem_format(&p, text, sizeof(text)) < 1024); // what tallies hold
    q = problem_of(text);
    attn_problem_format(&q, again, sizeof(again));
    assert_string_equal(text, again);
    assert_int_equal(attn_problem_validate(&q), ATTN_OK);
  }
}

static void surroundings_are_watched(void **state) {
  (void)state;
  attn_problem p = problem_of("--seq 3 --dim 4 --lse --layout strided --q-strides 12:12:4 "
                              "--k-strides 12:12:4 --v-strides 12:12:4 --out-strides 30:30:7");
  gen_case c;
  assert_true(gen_case_make(&p, 1, &ordinary, &c));
  float *out = c.io.out;
  for (int byte = 0; byte < 256; byte += 255) {
    gen_case_poison(&c, byte);
    assert_true(gen_case_intact(&c, byte));
    out[0] = out[3] = out[7] = out[17] = 1; // elements
    assert_true(gen_case_intact(&c, byte));
    out[4] = 1; // between rows
    assert_false(gen_case_intact(&c, byte));
  }
  gen_case_poison(&c, 0);
  int watched = 0;
  for (int i = 0; i < c.block_count; i++) {
    gen_block *b = &c.blocks[i];
    if (!b->output || b->data == b->base) continue;
    b->data[-1] ^= 1, watched++;
    assert_false(gen_case_intact(&c, 0));
    b->data[-1] ^= 1;
  }
  assert_true(gen_case_intact(&c, 0) && watched > 0);
  gen_case_free(&c);
}

/* The reference as output, but for element i, which is off by `error` times the largest value. */
static bool accepts(gen_case *c, const accuracy_reference *r, int64_t i, double error) {
  gen_tensor t = gen_tensor_of(&c->problem, GEN_OUT);
  for (int64_t n = 0; n < t.rows * t.dim; n++) ((float *)c->io.out)[n] = (float)r->out[n];
  ((float *)c->io.out)[i] = (float)(r->out[i] + error * r->plain.rows[i / t.dim].value);
  return accuracy_check(c, r).ok;
}

static void ordinary_bound(void **state) {
  (void)state;
  attn_problem p = problem_of("--seq 6 --dim 8");
  for (uint64_t seed = 0; seed < 20; seed++) {
    gen_case c;
    accuracy_reference r;
    assert_true(gen_case_make(&p, seed, &ordinary, &c) && accuracy_reference_make(&c, &r));
    bool large = c.traits >> GEN_LARGE_SCORES & 1;
    assert_true(accepts(&c, &r, 3, 0) && accepts(&c, &r, 47, 3.8e-6) &&
                accepts(&c, &r, 47, -3.8e-6));
    if (!large) assert_false(accepts(&c, &r, 47, 4.3e-6) || accepts(&c, &r, 0, -4.3e-6));
    assert_false(accepts(&c, &r, 0, 1e-3));
    assert_false(accepts(&c, &r, 0, NAN) || accepts(&c, &r, 0, INFINITY));
    accuracy_reference_free(&r);
    gen_case_free(&c);
  }
}

/* A key with value x, attended with weight 1. */
static void narrow_output(attn_dtype t, float x, float right, float wrong) {
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 1 };
  p.dtype = p.out_dtype = t, p.kv_dtype = ATTN_F32;
  gen_case c;
  assert_true(gen_case_make(&p, 3, &ordinary, &c));
  c.io.v = &x;
  accuracy_reference r;
  assert_true(accuracy_reference_make(&c, &r));
  assert_int_equal(attn_dtype_from_f32(t, &right, c.io.out, 1), ATTN_OK);
  accuracy_result a = accuracy_check(&c, &r);
  if (!a.ok) fail_msg("%s: %g for %g: %s", attn_dtype_name(t), (double)right, (double)x, a.what);
  assert_int_equal(attn_dtype_from_f32(t, &wrong, c.io.out, 1), ATTN_OK);
  if (accuracy_check(&c, &r).ok)
    fail_msg("%s: %g for %g passes", attn_dtype_name(t), (double)wrong, (double)x);
  accuracy_reference_free(&r);
  gen_case_free(&c);
}

static void output_types(void **state) {
  (void)state;
  narrow_output(ATTN_F16, 1.0f, 1.0f, 1.0f + 0x1p-10f);
  narrow_output(ATTN_F16, 1.0f + 0x1p-11f, 1.0f + 0x1p-10f, 1.0f + 0x1p-9f); // a tie may go up
  narrow_output(ATTN_BF16, 3.0f, 3.0f, 3.0f + 0x1p-6f);
  narrow_output(ATTN_F8E4M3, 5.0f, 5.0f, 5.5f);
  narrow_output(ATTN_F8E5M2, 5.0f, 5.0f, 6.0f);
  narrow_output(ATTN_F16, 7e4f, INFINITY, 65504); // overflows
  narrow_output(ATTN_F16, -7e4f, -INFINITY, INFINITY);
  narrow_output(ATTN_F16, 6e4f, 6e4f, INFINITY);
  narrow_output(ATTN_F8E4M3, 1e3f, NAN, 448);
  narrow_output(ATTN_F16, NAN, NAN, INFINITY);
  narrow_output(ATTN_F16, INFINITY, INFINITY, NAN);
  narrow_output(ATTN_F16, INFINITY, INFINITY, -INFINITY);
}

/* Bounds come from the difference of plain and reference: if it is no rounding, that must be said.
 */
static void wrong_references_are_found(void **state) {
  (void)state;
  attn_problem p = problem_of("--heads 2 --seq 5:7 --dim 8 --causal br");
  gen_case c;
  accuracy_reference r;
  plain_result plain;
  assert_true(gen_case_make(&p, 4, &ordinary, &c) && accuracy_reference_make(&c, &r));
  assert_string_equal(r.plain.fault, "");
  r.out[9] = NAN;
  assert_true(plain_run(&c, r.out, r.lse, NULL, &plain));
  assert_string_not_equal(plain.fault, "");
  plain_free(&plain);
  accuracy_reference_free(&r);
  gen_case_free(&c);
}

typedef struct question {
  int asked;
} question;

static bool long_and_causal(void *user, const attn_problem *p) {
  ((question *)user)->asked++;
  return p->seq_kv >= 5 && p->causal && p->kv_dtype == ATTN_F16;
}

static void failures_shrink(void **state) {
  (void)state;
  attn_problem p =
      problem_of("--batch 3 --heads 8:2 --seq 9:200 --dim 64:32 --dtype bf16 --kv-dtype "
                 "f16 --causal br --window 9:2 --mask f16:*x1x*x* --alibi --sinks "
                 "--prefix 10 --page-size 16 --num-pages 99 --pages-per-seq 13 --lse");
  question q = { 0 };
  assert_int_equal(attn_problem_validate(&p), ATTN_OK);
  attn_problem small = shrink_problem(&p, 2000, long_and_causal, &q);
  char text[1024];
  attn_problem_format(&small, text, sizeof(text));
  assert_string_equal(text, "--batch 1 --heads 1 --seq 1:5 --dim 1 --dtype bf16 --kv-dtype f16 "
                            "--causal br");
  q.asked = 0;
  shrink_problem(&p, 7, long_and_causal, &q);
  assert_true(q.asked <= 7);
}

static void rejections_have_reasons(void **state) {
  (void)state;
  static check_set set;
  tally t = { 0 };
  char text[256];
  assert_true(check_open(&set, ATTN_BACKEND_VARLEN, ATTN_ISA_SCALAR));
  assert_int_equal(set.count, 1);
  attn_problem p = problem_of("--seq 4 --dim 4 --weights probs");
  gen_case c;
  accuracy_reference r;
  accuracy_result result;
  assert_true(gen_case_make(&p, 4, &ordinary, &c) && accuracy_reference_make(&c, &r));
  attn_status status = check_run(&set.list[0], &c, &r, CHECK_HONEST, &result);
  assert_int_equal(status, ATTN_ERROR_UNSUPPORTED);
  for (int i = 0; i < 3; i++) assert_true(tally_note(&t, &set.list[0], &p, status, &result));
  tally_reasons(&t, text, sizeof(text));
  assert_non_null(strstr(text, "not_varlen 3"));
  assert_non_null(strstr(text, "weights 3"));
  assert_int_equal(t.rejected, 3);
  attn_problem accepted = problem_of("--seq 4 --dim 4 --varlen 4:4");
  assert_false(tally_note(&t, &set.list[0], &accepted, status, &result)); // it names no reason
  assert_int_equal(t.failed, 1);
  accuracy_reference_free(&r);
  gen_case_free(&c);
  check_close(&set);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(draws_repeat),
    cmocka_unit_test(shapes_read_back),
    cmocka_unit_test(surroundings_are_watched),
    cmocka_unit_test(ordinary_bound),
    cmocka_unit_test(output_types),
    cmocka_unit_test(wrong_references_are_found),
    cmocka_unit_test(failures_shrink),
    cmocka_unit_test(rejections_have_reasons),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
