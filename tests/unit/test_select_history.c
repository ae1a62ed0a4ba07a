// SPDX-License-Identifier: Apache-2.0
/* Measurements handed to attn_record: enough agreeing ones decide, a few or noisy ones do not, and
 * only the latest thousand are kept. */
#include "select_support.h"

#include <stdio.h>

#include "core/alloc.h"
#include "core/problem.h"
#include "random.h"
#include "select/internal.h"

static const char *const SHAPE = "--heads 4 --seq 512 --dim 64";

static void record(attn_context *c, const char *implementation, double seconds) {
  attn_problem p = problem_of(SHAPE);
  assert_int_equal(attn_record(c, &p, implementation, seconds), ATTN_OK);
}

static void test_twenty_records_decide(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_recommendation before = choose(c, SHAPE);
  assert_int_equal(before.backend, ATTN_BACKEND_FLASH);
  for (int i = 0; i < 20; i++) {
    record(c, "flash", 2e-3 * (1 + 0.01 * (i % 3)));
    record(c, "memory_efficient", 1e-3 * (1 + 0.01 * (i % 3)));
    record(c, "math", 3e-3);
    record(c, "cpu", 3e-3);
  }
  attn_recommendation after = choose(c, SHAPE);
  assert_int_equal(after.backend, ATTN_BACKEND_MEMORY_EFFICIENT);
  assert_int_equal(after.source, ATTN_CHOICE_MEASURED);
  assert_non_null(strstr(after.reason, "measured"));
  assert_true(after.confidence > before.confidence);
  assert_true(fabs(after.time - 1.01e-3) < 1e-5);
  assert_true(fabs(after.speedup - 3.0) <= 0.1);
  assert_int_equal(alternative_of(&after, ATTN_BACKEND_FLASH)->source, ATTN_CHOICE_MEASURED);
  check_consistent(&after);
  // Another problem is not touched; clearing gives the model its choice back.
  assert_int_equal(choose(c, "--heads 4 --seq 513 --dim 64").source, ATTN_CHOICE_MODEL);
  attn_record_clear(c);
  assert_int_equal(attn_record_count(c), 0);
  assert_int_equal(choose(c, SHAPE).backend, ATTN_BACKEND_FLASH);
  attn_context_destroy(c);
}

static void test_few_or_contradicting_records_do_not(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  record(c, "math", 1e-7);
  record(c, "math", 1e-7);
  assert_int_equal(choose(c, SHAPE).backend, ATTN_BACKEND_FLASH);
  record(c, "math", 1e-7);
  assert_int_equal(choose(c, SHAPE).backend, ATTN_BACKEND_MATH);
  attn_record_clear(c);
  record(c, "math", 1e-7);
  record(c, "math", 1e-3);
  record(c, "math", 1e-1);
  assert_int_equal(choose(c, SHAPE).backend, ATTN_BACKEND_FLASH);
  attn_context_destroy(c);
}

static void test_autotune_off_is_the_model_alone(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .autotune = ATTN_AUTOTUNE_OFF });
  for (int i = 0; i < 20; i++) record(c, "math", 1e-9);
  attn_recommendation r = choose(c, SHAPE);
  assert_int_equal(r.source, ATTN_CHOICE_MODEL);
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH);
  attn_context_destroy(c);
}

static void test_names_and_numbers_are_checked(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem p = problem_of(SHAPE), bad = p;
  bad.head_dim = 0;
  attn_recommendation r = choose(c, SHAPE);
  assert_int_equal(attn_record(c, &p, r.implementation, 1e-3), ATTN_OK); // the full name
  assert_int_equal(attn_record(c, &p, "flash", 1e-3), ATTN_OK);
  assert_int_equal(attn_record_count(c), 2);
  assert_int_equal(attn_record(c, &p, "nonesuch", 1e-3), ATTN_ERROR_NOT_FOUND);
  assert_non_null(strstr(attn_last_error(), "nonesuch"));
  assert_int_equal(attn_record(c, &p, "cudnn", 1e-3), ATTN_ERROR_NOT_FOUND); // not on this device
  assert_int_equal(attn_record(c, &p, "flash/cuda", 1e-3), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_record(c, &p, "", 1e-3), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_record(c, &p, "flash", 0), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &p, "flash", -1), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &p, "flash", (double)NAN), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &p, "flash", (double)INFINITY), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &bad, "flash", 1e-3), ATTN_ERROR_SHAPE);
  assert_int_equal(attn_record_count(c), 2);
  attn_context_destroy(c);
}

/* ---- the ring itself */

static const backend_implementation one = { .name = "one" }, two = { .name = "two" };

static history_key key_of(uint64_t n) { return (history_key){ n, ~n }; }

static history *new_history(void) {
  core_allocator a = core_allocator_default();
  history *h = history_create(&a);
  assert_non_null(h);
  return h;
}

static void drop(history *h) {
  core_allocator a = core_allocator_default();
  history_destroy(h, &a);
}

static void test_the_latest_thousand_are_kept(void **unused) {
  (void)unused;
  history *h = new_history();
  double t;
  for (int i = 0; i < 3; i++) history_add(h, key_of(1), &one, 1e-3);
  for (int i = 0; i < HISTORY_CAPACITY - 3; i++) history_add(h, key_of(100 + (uint64_t)i), &one, 1);
  assert_int_equal(history_count(h), HISTORY_CAPACITY);
  assert_true(history_lookup(h, key_of(1), &one, &t));
  history_add(h, key_of(5), &one, 1); // forgets the oldest of the three
  assert_int_equal(history_count(h), HISTORY_CAPACITY);
  assert_false(history_lookup(h, key_of(1), &one, &t));
  for (int i = 0; i < 5000; i++) history_add(h, key_of(2), &one, 2e-3);
  assert_int_equal(history_count(h), HISTORY_CAPACITY);
  assert_true(history_lookup(h, key_of(2), &one, &t));
  assert_true(fabs(t - 2e-3) < 1e-9);
  history_clear(h);
  assert_int_equal(history_count(h), 0);
  assert_false(history_lookup(h, key_of(2), &one, &t));
  for (int i = 0; i < 3; i++) history_add(h, key_of(2), &one, 4e-3);
  assert_true(history_lookup(h, key_of(2), &one, &t)); // none of the old ones count
  assert_true(fabs(t - 4e-3) < 1e-9);
  drop(h);
}

static void test_problems_and_implementations_are_apart(void **unused) {
  (void)unused;
  history *h = new_history();
  double t;
  for (int i = 0; i < 3; i++) {
    history_add(h, key_of(1), &one, 1e-3);
    history_add(h, key_of(1), &two, 2e-3);
    history_add(h, key_of(2), &one, 3e-3);
  }
  assert_true(history_lookup(h, key_of(1), &one, &t) && fabs(t - 1e-3) < 1e-9);
  assert_true(history_lookup(h, key_of(1), &two, &t) && fabs(t - 2e-3) < 1e-9);
  assert_true(history_lookup(h, key_of(2), &one, &t) && fabs(t - 3e-3) < 1e-9);
  assert_false(history_lookup(h, key_of(2), &two, &t));
  drop(h);
}

static bool median_of(const double *times, int n, double *t) {
  history *h = new_history();
  for (int i = 0; i < n; i++) history_add(h, key_of(1), &one, times[i]);
  bool found = history_lookup(h, key_of(1), &one, t);
  drop(h);
  return found;
}

static void test_outliers_do_not_count(void **unused) {
  (void)unused;
  double t;
  const double outlier[] = { 1.00, 1.01, 50, 1.02, 0.99, 1.00, 0.01 };
  assert_true(median_of(outlier, 7, &t) && fabs(t - 1.00) < 0.011);
  const double one_of_four[] = { 1.00, 1.01, 1.02, 40 };
  assert_true(median_of(one_of_four, 4, &t) && fabs(t - 1.01) < 0.011);
  const double one_of_three[] = { 1.00, 1.01, 40 };
  assert_false(median_of(one_of_three, 3, &t)); // two agree: not enough
  const double same[] = { 2, 2, 2 };
  assert_true(median_of(same, 3, &t) && fabs(t - 2) < 1e-9);
  const double apart[] = { 1, 2, 4 };
  assert_false(median_of(apart, 3, &t));
  const double halves[] = { 1, 1, 1, 3, 3, 3 };
  assert_false(median_of(halves, 6, &t));
}

/* After a change (another clock, another machine's load) the newer records take over. */
static void test_newer_records_outweigh_older_ones(void **unused) {
  (void)unused;
  history *h = new_history();
  double t;
  for (int i = 0; i < 500; i++) history_add(h, key_of(1), &one, 1e-3);
  for (int i = 0; i < 70; i++) history_add(h, key_of(1), &one, 2e-3);
  assert_true(history_lookup(h, key_of(1), &one, &t));
  assert_true(fabs(t - 2e-3) < 1e-9);
  drop(h);
}

/* Random adds against a plain list searched from its end. */
static void test_ring_agrees_with_a_list(void **unused) {
  (void)unused;
  enum { ADDS = 5000, PROBLEMS = 40 };
  static struct {
    uint64_t key;
    const backend_implementation *which;
  } list[ADDS];
  uint64_t seed = 11, random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  history *h = new_history();
  for (int n = 0; n < ADDS; n++) {
    list[n].key = random_next(&random) % PROBLEMS;
    list[n].which = random_next(&random) % 2 ? &one : &two;
    // The time tells when it was added, in steps too small to disagree.
    history_add(h, key_of(list[n].key), list[n].which, 1 + 1e-6 * n);
    uint64_t key = random_next(&random) % PROBLEMS;
    double times[64], found;
    int count = 0;
    for (int i = n; i >= 0 && i > n - HISTORY_CAPACITY && count < 64; i--)
      if (list[i].key == key && list[i].which == &one) times[count++] = 1 + 1e-6 * i;
    bool there = history_lookup(h, key_of(key), &one, &found);
    assert_true(there == (count >= 3));
    if (!there) continue;
    double middle = count % 2 ? times[count / 2] : (times[count / 2 - 1] + times[count / 2]) / 2;
    assert_true(fabs(found - middle) < 1e-7);
  }
  drop(h);
}

static void test_keys_of_different_problems_differ(void **unused) {
  (void)unused;
  static const char *const shapes[] = { "--seq 8 --dim 8", "--seq 9 --dim 8", "--seq 8 --dim 9",
                                        "--seq 8 --dim 8 --causal tl",
                                        "--seq 8 --dim 8 --dtype f16" };
  history_key keys[5];
  for (int i = 0; i < 5; i++) {
    attn_problem p = problem_of(shapes[i]), resolved;
    problem_key key;
    assert_int_equal(attn_problem_resolve(&p, &resolved), ATTN_OK);
    problem_key_make(&resolved, &key);
    keys[i] = history_key_of(&key);
    for (int j = 0; j < i; j++)
      assert_true(keys[i].high != keys[j].high && keys[i].low != keys[j].low);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_twenty_records_decide),
    cmocka_unit_test(test_few_or_contradicting_records_do_not),
    cmocka_unit_test(test_autotune_off_is_the_model_alone),
    cmocka_unit_test(test_names_and_numbers_are_checked),
    cmocka_unit_test(test_the_latest_thousand_are_kept),
    cmocka_unit_test(test_problems_and_implementations_are_apart),
    cmocka_unit_test(test_outliers_do_not_count),
    cmocka_unit_test(test_newer_records_outweigh_older_ones),
    cmocka_unit_test(test_ring_agrees_with_a_list),
    cmocka_unit_test(test_keys_of_different_problems_differ),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
