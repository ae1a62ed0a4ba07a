// SPDX-License-Identifier: Apache-2.0
/* Wisdom of contexts: what one has recorded and saved the next one knows; what belongs to other
 * machines, versions and numbers of threads is kept and not used. */
#include "select_support.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "attn/wisdom.h"

static const char *const SHAPE = "--heads 4 --seq 512 --dim 64";
static char folder[64], path[128];
static int warnings;

static void count_warnings(void *user, attn_log_level level, const char *message) {
  (void)user, (void)message;
  warnings += level == ATTN_LOG_WARNING;
}

static attn_context *context_of(const char *file, int threads) {
  return context_on_cpu(
      (attn_config){ .wisdom_path = file, .threads = threads, .log = count_warnings });
}

static void record(attn_context *c, const char *implementation, double seconds, int times) {
  attn_problem p = problem_of(SHAPE);
  for (int i = 0; i < times; i++)
    assert_int_equal(attn_record(c, &p, implementation, seconds), ATTN_OK);
}

static attn_wisdom_stats stats_of(attn_context *c) {
  attn_wisdom_stats s;
  assert_int_equal(attn_wisdom_statistics(c, &s), ATTN_OK);
  return s;
}

static void test_saved_times_decide_in_the_next_context(void **unused) {
  (void)unused;
  attn_context *c = context_of(path, 4);
  assert_int_equal(stats_of(c).own.state, ATTN_WISDOM_ABSENT);
  record(c, "math", 1e-7, 3);
  assert_int_equal(stats_of(c).unsaved, 3);
  assert_int_equal(attn_wisdom_save(c), ATTN_OK);
  assert_int_equal(stats_of(c).unsaved, 0);
  assert_int_equal(stats_of(c).times, 3);
  attn_context_destroy(c);
  c = context_of(path, 4);
  assert_int_equal(attn_record_count(c), 3);
  assert_int_equal(choose(c, SHAPE).backend, ATTN_BACKEND_MATH);
  assert_int_equal(choose(c, SHAPE).source, ATTN_CHOICE_MEASURED);
  attn_context_destroy(c);
  c = context_of(path, 2); // times are of a number of threads
  assert_int_equal(attn_record_count(c), 0);
  assert_int_equal(stats_of(c).others, 3);
  attn_context_destroy(c);
  assert_int_equal(warnings, 0);
}

static void test_values_are_kept_and_replaced(void **unused) {
  (void)unused;
  double x = 0;
  attn_context *c = context_of(path, 4);
  assert_int_equal(attn_wisdom_get(c, "machine", "peak_f32", &x), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_wisdom_set(c, "machine", "peak_f32", 1), ATTN_OK);
  assert_int_equal(attn_wisdom_set(c, "machine", "peak_f32", 275e9), ATTN_OK);
  assert_int_equal(attn_wisdom_save(c), ATTN_OK);
  attn_context_destroy(c);
  c = context_of(path, 2);
  assert_int_equal(attn_wisdom_get(c, "machine", "peak_f32", &x), ATTN_OK);
  assert_true(x == 275e9);
  assert_int_equal(stats_of(c).values, 1);
  attn_context_destroy(c);
}

static int setup(void **unused) {
  (void)unused;
  warnings = 0;
  snprintf(folder, sizeof(folder), "/tmp/attn-wisdom-XXXXXX");
  if (!mkdtemp(folder)) return -1;
  snprintf(path, sizeof(path), "%s/wisdom", folder);
  return 0;
}

static int teardown(void **unused) {
  (void)unused;
  char lock[160];
  snprintf(lock, sizeof(lock), "%s.lock", path);
  remove(path), remove(lock);
  return rmdir(folder); // and nothing else was left
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test_setup_teardown(test_saved_times_decide_in_the_next_context, setup, teardown),
    cmocka_unit_test_setup_teardown(test_values_are_kept_and_replaced, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
