// SPDX-License-Identifier: Apache-2.0
/* What selection promises: the right backend on known devices, every option having its effect,
 * every refusal said, and the same answer for every thread that asks. */
#include "select_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "random_problem.h"

static void test_one_query_on_a100_takes_flash_decode(void **unused) {
  (void)unused;
  attn_recommendation r =
      choose_on("a100-80-sxm", "--heads 32 --seq 1:8192 --dim 128 --dtype f16 --causal br");
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH_DECODE);
  assert_string_equal(r.implementation, "flash_decode/cuda");
  assert_true(r.speedup >= 4);
  assert_true(r.predicted);
  assert_true(r.splits > 1);
  check_consistent(&r);
  // The figure follows from bytes: keys and values once, over the nominal bandwidth at best; and
  // math reads them once, writes and reads them as f32.
  double kv = 2.0 * 32 * 8192 * 128 * 2;
  assert_true(r.bytes >= kv && r.bytes < 1.05 * kv);
  assert_true(r.time >= kv / 2039e9 && r.time < 1.5 * kv / 2039e9);
  const attn_alternative *math = alternative_of(&r, ATTN_BACKEND_MATH);
  assert_non_null(math);
  assert_true(math->time >= 5 * kv / 2039e9);
}

static void test_prefill_takes_flash(void **unused) {
  (void)unused;
  static const char *const shapes[] = {
    "--seq 8192 --dim 64 --dtype f16",
    "--heads 8 --seq 8192 --dim 64 --dtype f16",
    "--heads 16 --seq 8192 --dim 64 --dtype f16 --causal br",
    "--batch 2 --heads 16 --seq 8192 --dim 64 --dtype f16",
    "--batch 4 --heads 32:8 --seq 8192 --dim 64 --dtype bf16",
    "--batch 8 --heads 32 --seq 4096 --dim 128 --dtype f16 --causal br",
  };
  for (size_t i = 0; i < sizeof(shapes) / sizeof(shapes[0]); i++) {
    attn_recommendation r = choose_on("a100-80-sxm", shapes[i]);
    if (r.backend != ATTN_BACKEND_FLASH) fail_msg("%s: %s", shapes[i], r.implementation);
    assert_true(r.speedup > 2);
    check_consistent(&r);
    r = choose_on("h100-sxm", shapes[i]);
    if (r.backend != ATTN_BACKEND_FLASH_V3) fail_msg("%s: %s", shapes[i], r.implementation);
    assert_true(r.speedup > 2);
    check_consistent(&r);
  }
}

static void test_small_takes_cudnn_or_math(void **unused) {
  (void)unused;
  static const char *const hardware[] = { "a100-80-sxm", "h100-sxm", "rtx-4090", "b200" };
  static const char *const shapes[] = { "--seq 64 --dim 64 --dtype f16",
                                        "--heads 8 --seq 64 --dim 64 --dtype f16",
                                        "--batch 8 --heads 16 --seq 64 --dim 64 --dtype f16" };
  for (int h = 0; h < 4; h++)
    for (int i = 0; i < 3; i++) {
      attn_recommendation r = choose_on(hardware[h], shapes[i]);
      if (r.backend != ATTN_BACKEND_CUDNN && r.backend != ATTN_BACKEND_MATH)
        fail_msg("%s on %s: %s", shapes[i], hardware[h], r.implementation);
      check_consistent(&r);
    }
}

static void test_a_cpu_has_no_gpu_backends(void **unused) {
  (void)unused;
  attn_recommendation r = choose_on_cpu((attn_config){ 0 }, "--heads 2 --seq 64 --dim 32");
  assert_int_equal(r.device, ATTN_DEVICE_CPU);
  static const attn_backend absent[] = { ATTN_BACKEND_CUDNN, ATTN_BACKEND_METAL,
                                         ATTN_BACKEND_FLASH_V3 };
  for (int i = 0; i < 3; i++) {
    const attn_rejection *x = rejection_of(&r, absent[i]);
    assert_non_null(x);
    assert_int_equal(x->reason_count, 1);
    assert_int_equal(r.reasons[x->first_reason].code, ATTN_REASON_DEVICE_ABSENT);
  }
  check_consistent(&r);
}

/* A detected GPU needs the plug-in that runs it; a described one is predicted as if it were there.
 */
static void test_plug_ins_are_for_detected_devices(void **unused) {
  (void)unused;
  attn_capability gpu = profile("a100-80-sxm");
  attn_recommendation r =
      choose_with(&gpu, (attn_config){ 0 }, "--heads 8 --seq 512 --dim 64 --dtype f16");
  assert_true(r.predicted);
  gpu.source = ATTN_SOURCE_DETECTED;
  attn_context *c = context_with(&gpu, (attn_config){ 0 });
  attn_problem p = problem_of("--heads 8 --seq 512 --dim 64 --dtype f16");
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  assert_int_equal(r.backend, ATTN_BACKEND_AUTO);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_PLUGIN_ABSENT));
  assert_non_null(strstr(attn_last_error(), "plug-in"));
  attn_context_destroy(c);
}

static void test_a_cpu_profile_is_predicted_too(void **unused) {
  (void)unused;
  for (int i = 0; i < attn_profile_count(); i++) {
    const attn_capability *c = attn_profile_get(i);
    if (c->device != ATTN_DEVICE_CPU) continue;
    attn_recommendation r = choose_with(c, (attn_config){ 0 }, "--heads 8 --seq 512 --dim 64");
    assert_true(r.predicted);
    check_consistent(&r);
  }
}

static void test_preferred_is_taken(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_recommendation free = choose_on_cpu((attn_config){ 0 }, shape);
  attn_recommendation r = choose_on_cpu((attn_config){ .preferred = ATTN_BACKEND_MATH }, shape);
  assert_int_equal(r.backend, ATTN_BACKEND_MATH);
  assert_int_equal(r.source, ATTN_CHOICE_FORCED);
  check_consistent(&r);
  // It says that it was preferred, and how it stands beside the model's best.
  assert_non_null(strstr(r.reason, "preferred"));
  assert_non_null(strstr(r.reason, free.implementation));
  assert_true(r.confidence < free.confidence);
  assert_true(r.time > free.time);
}

static void test_refused_preference_is_said(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_recommendation r = choose_on_cpu((attn_config){ .preferred = ATTN_BACKEND_CUDNN }, shape);
  attn_recommendation free = choose_on_cpu((attn_config){ 0 }, shape);
  assert_int_equal(r.backend, free.backend);
  assert_non_null(strstr(r.reason, "preferred cudnn cannot run: there is no cuda device here"));
  check_consistent(&r);
  attn_capability h100 = profile("h100-sxm");
  r = choose_with(&h100, (attn_config){ .preferred = ATTN_BACKEND_FLASH_V3 },
                  "--heads 4 --seq 512 --dim 64 --dtype bf16 --mask bool --dropout 0.5");
  assert_non_null(strstr(r.reason, "takes no bool mask tensor"));
  assert_non_null(strstr(r.reason, "has no dropout of 0.5"));
  check_consistent(&r);
}

static void test_strict_makes_it_an_error(void **unused) {
  (void)unused;
  attn_config config = { .preferred = ATTN_BACKEND_FLASH_V3, .strict = true };
  attn_context *c = context_on("a100-80-sxm", config);
  attn_problem p = problem_of("--heads 4 --seq 512 --dim 64 --dtype f16");
  attn_recommendation r;
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  assert_non_null(strstr(attn_last_error(), "flash_v3"));
  assert_non_null(strstr(attn_last_error(), "needs compute capability 9.0, device has 8.0"));
  assert_int_equal(r.backend, ATTN_BACKEND_AUTO);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH_V3, ATTN_REASON_COMPUTE_CAPABILITY));
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_STRICT));
  attn_context_destroy(c);
  // What can run is not an error.
  c = context_on("h100-sxm", config);
  assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH_V3);
  attn_context_destroy(c);
}

static void test_debug_takes_math(void **unused) {
  (void)unused;
  attn_recommendation r =
      choose_on_cpu((attn_config){ .debug = true, .preferred = ATTN_BACKEND_FLASH },
                    "--heads 4 --seq 512 --dim 64");
  assert_int_equal(r.backend, ATTN_BACKEND_MATH);
  assert_int_equal(r.source, ATTN_CHOICE_FORCED);
  assert_int_equal(r.alternative_count, 0);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_DEBUG));
  check_consistent(&r);
}

static void test_disabled_is_left_out(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_recommendation r =
      choose_on_cpu((attn_config){ .disabled = 1u << ATTN_BACKEND_FLASH }, shape);
  assert_int_not_equal(r.backend, ATTN_BACKEND_FLASH);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_DISABLED));
  check_consistent(&r);
  uint32_t all = 0;
  for (int b = 1; b < ATTN_BACKEND_COUNT; b++) all |= 1u << b;
  attn_context *c = context_on_cpu((attn_config){ .disabled = all });
  attn_problem p = problem_of(shape);
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  assert_int_equal(r.rejection_count, ATTN_BACKEND_COUNT - 1);
  attn_context_destroy(c);
  r = choose_on_cpu((attn_config){ .disabled = all & ~(1u << ATTN_BACKEND_CPU) }, shape);
  assert_int_equal(r.backend, ATTN_BACKEND_CPU);
  assert_int_equal(r.source, ATTN_CHOICE_FORCED); // the only one left
  assert_true(r.confidence == 1);
}

static void test_flash_min_seq_len(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .flash_min_seq_len = 1024 });
  attn_recommendation r = choose(c, "--heads 4 --seq 512 --dim 64");
  const attn_reason *why = rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_FLASH_MIN_SEQ_LEN);
  assert_non_null(why);
  assert_true(why->value == 512 && why->limit == 1024);
  r = choose(c, "--heads 4 --seq 1024 --dim 64");
  assert_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_FLASH_MIN_SEQ_LEN));
  attn_context_destroy(c);
}

static void test_memory_budget_moves_the_choice(void **unused) {
  (void)unused;
  const char *shape = "--heads 8 --seq 4096 --dim 64 --dtype f16";
  int64_t scores = (int64_t)8 * 4096 * 4096 * 4;
  attn_config config = { .memory_budget = scores - 1, .preferred = ATTN_BACKEND_MATH };
  attn_capability a100 = profile("a100-80-sxm");
  attn_recommendation free =
      choose_with(&a100, (attn_config){ .preferred = ATTN_BACKEND_MATH }, shape);
  attn_recommendation r = choose_with(&a100, config, shape);
  assert_int_equal(free.backend, ATTN_BACKEND_MATH);
  assert_int_not_equal(r.backend, ATTN_BACKEND_MATH);
  const attn_reason *why = rejected_for(&r, ATTN_BACKEND_MATH, ATTN_REASON_MEMORY_BUDGET);
  assert_non_null(why);
  assert_true(why->value >= (double)scores && why->limit == (double)(scores - 1));
  assert_true(r.workspace_bytes <= config.memory_budget);
  assert_true(r.speedup > 1); // math's time is known although it may not run
  check_consistent(&r);
}

static void test_budget_that_fits_nothing_is_an_error(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .memory_budget = 100 });
  attn_problem p = problem_of("--heads 8 --seq 256 --dim 64");
  attn_recommendation r;
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_MEMORY_BUDGET);
  double least = INFINITY;
  for (int i = 0; i < r.reason_count; i++)
    if (r.reasons[i].code == ATTN_REASON_MEMORY_BUDGET) least = fmin(least, r.reasons[i].value);
  char number[32];
  snprintf(number, sizeof(number), "%.0f bytes", least);
  assert_non_null(strstr(attn_last_error(), "100 bytes"));
  assert_non_null(strstr(attn_last_error(), number));
  attn_context_destroy(c);
  // A budget of exactly that is enough.
  r = choose_on_cpu((attn_config){ .memory_budget = (int64_t)least },
                    "--heads 8 --seq 256 --dim 64");
  assert_true(r.workspace_bytes == (int64_t)least);
}

static void test_device_memory_bounds_the_choice(void **unused) {
  (void)unused;
  attn_recommendation r = choose_on("rtx-4090", "--heads 32 --seq 16384 --dim 128 --dtype f16");
  const attn_reason *why = rejected_for(&r, ATTN_BACKEND_MATH, ATTN_REASON_MEMORY_DEVICE);
  assert_non_null(why);
  assert_true(why->value > why->limit && why->limit == 24.0 * (1 << 30));
  // Unknown memory is unknown, not none.
  attn_capability unknown = profile("rtx-4090");
  unknown.memory_total = 0;
  r = choose_with(&unknown, (attn_config){ 0 }, "--heads 32 --seq 16384 --dim 128 --dtype f16");
  assert_null(rejection_of(&r, ATTN_BACKEND_MATH));
}

/* Throughput counts the cores that a call occupies: what forks for little gain loses to one thread.
 */
static void test_objective_changes_a_choice(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_recommendation latency =
      choose_on_cpu((attn_config){ .objective = ATTN_OBJECTIVE_LATENCY }, shape);
  attn_recommendation throughput =
      choose_on_cpu((attn_config){ .objective = ATTN_OBJECTIVE_THROUGHPUT }, shape);
  attn_recommendation balanced =
      choose_on_cpu((attn_config){ .objective = ATTN_OBJECTIVE_BALANCED }, shape);
  assert_int_equal(latency.backend, ATTN_BACKEND_FLASH);
  assert_int_equal(throughput.backend, ATTN_BACKEND_CPU);
  assert_true(throughput.time > latency.time);
  assert_true(balanced.time <= throughput.time);
  assert_non_null(strstr(throughput.reason, "throughput"));
  check_consistent(&throughput);
  check_consistent(&balanced);
  // Balanced scores are the geometric means of the other two.
  const attn_alternative *l = alternative_of(&latency, ATTN_BACKEND_MATH);
  const attn_alternative *b = alternative_of(&balanced, ATTN_BACKEND_MATH);
  assert_true(l && b && b->time == l->time);
}

static void test_deterministic_changes_a_choice(void **unused) {
  (void)unused;
  const char *shape = "--batch 8 --heads 16 --seq 64 --dim 64 --dtype f16";
  attn_capability a100 = profile("a100-80-sxm");
  assert_int_equal(choose_with(&a100, (attn_config){ 0 }, shape).backend, ATTN_BACKEND_CUDNN);
  attn_recommendation r = choose_with(&a100, (attn_config){ .deterministic = true }, shape);
  assert_int_not_equal(r.backend, ATTN_BACKEND_CUDNN);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_CUDNN, ATTN_REASON_DETERMINISTIC));
  check_consistent(&r);
}

static void test_unknown_speed_gives_the_fixed_order(void **unused) {
  (void)unused;
  attn_capability c;
  assert_int_equal(attn_capability_from_compute(9, 0, &c), ATTN_OK);
  attn_recommendation r =
      choose_with(&c, (attn_config){ 0 }, "--heads 8 --seq 4096 --dim 128 --dtype bf16");
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH_V3);
  assert_int_equal(r.source, ATTN_CHOICE_HEURISTIC);
  assert_true(isnan(r.time) && isnan(r.speedup));
  assert_non_null(strstr(r.reason, "fixed order"));
  check_consistent(&r);
  // Measurements change the order among those that have them, and no place of the others.
  attn_context *ctx = context_with(&c, (attn_config){ 0 });
  attn_problem p = problem_of("--heads 8 --seq 4096 --dim 128 --dtype bf16");
  for (int i = 0; i < 3; i++) {
    assert_int_equal(attn_record(ctx, &p, "flash_v3", 2e-3), ATTN_OK);
    assert_int_equal(attn_record(ctx, &p, "math", 1e-3), ATTN_OK);
  }
  assert_int_equal(attn_select(ctx, &p, &r), ATTN_OK);
  assert_int_equal(r.backend, ATTN_BACKEND_MATH);
  assert_int_equal(r.source, ATTN_CHOICE_MEASURED);
  assert_int_equal(r.alternatives[r.alternative_count - 1].backend, ATTN_BACKEND_FLASH_V3);
  check_consistent(&r);
  attn_context_destroy(ctx);
}

static void test_tensors_and_short_form(void **unused) {
  (void)unused;
  attn_context *c = context_on("a100-80-sxm", (attn_config){ 0 });
  attn_tensor q = { ATTN_F16, { 1, 32, 1, 128 }, { 0 } };
  attn_tensor k = { ATTN_F16, { 1, 8, 8192, 128 }, { 0 } }, v = k;
  attn_recommendation r;
  assert_int_equal(attn_select_tensors(c, &q, &k, &v, ATTN_CAUSAL_BOTTOM_RIGHT, &r), ATTN_OK);
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH_DECODE);
  v.shape[2] = 8191;
  assert_int_equal(attn_select_tensors(c, &q, &k, &v, ATTN_CAUSAL_NONE, &r), ATTN_ERROR_SHAPE);
  assert_int_equal(attn_select_simple(c, 8192, 64, 1, &r), ATTN_OK);
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH);
  assert_int_equal(attn_select_simple(c, -1, 64, 1, &r), ATTN_ERROR_SHAPE);
  attn_context_destroy(c);
}

static void test_null_arguments(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem p = problem_of("--seq 8 --dim 8");
  attn_tensor t = { ATTN_F32, { 1, 1, 8, 8 }, { 0 } };
  attn_recommendation r;
  assert_int_equal(attn_select(NULL, &p, &r), ATTN_ERROR_NULL);
  assert_int_equal(attn_select(c, NULL, &r), ATTN_ERROR_NULL);
  assert_int_equal(attn_select(c, &p, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_select_tensors(c, NULL, &t, &t, ATTN_CAUSAL_NONE, &r), ATTN_ERROR_NULL);
  assert_int_equal(attn_select_tensors(c, &t, &t, &t, ATTN_CAUSAL_NONE, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_select_simple(NULL, 8, 8, 1, &r), ATTN_ERROR_NULL);
  assert_int_equal(attn_record(NULL, &p, "flash", 1), ATTN_ERROR_NULL);
  assert_int_equal(attn_record(c, NULL, "flash", 1), ATTN_ERROR_NULL);
  assert_int_equal(attn_record(c, &p, NULL, 1), ATTN_ERROR_NULL);
  attn_context_destroy(c);
}

/* Random problems on every profile: whatever the answer, it is a consistent one. */
static void test_every_answer_is_consistent(void **unused) {
  (void)unused;
  uint64_t seed = 7, random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < attn_profile_count(); i++) {
    attn_context *c = context_with(attn_profile_get(i), (attn_config){ 0 });
    for (int n = 0; n < 60; n++) {
      attn_problem p = random_problem(&random);
      attn_recommendation r;
      attn_status status = attn_select(c, &p, &r);
      const char *fault = status ? NULL : inconsistency(&r);
      if (status && status != ATTN_ERROR_UNSUPPORTED) fault = attn_last_error();
      if (status && r.rejection_count != ATTN_BACKEND_COUNT - 1) fault = "not all are refused";
      if (!fault) continue;
      char shape[1024];
      attn_problem_format(&p, shape, sizeof(shape));
      fail_msg("%s on %s: %s", shape, attn_profile_get(i)->name, fault);
    }
    attn_context_destroy(c);
  }
}

static void *ask_often(void *arg) {
  attn_context *c = arg;
  for (int i = 0; i < 3000; i++) {
    attn_problem p = {
      .batch = 1, .heads_q = 1 + i % 7, .seq_q = 1 + i % 50, .seq_kv = 64, .head_dim = 8
    };
    attn_recommendation r;
    memset(&r, 0x5a, sizeof(r));
    if (attn_select(c, &p, &r) || inconsistency(&r)) return arg;
    if (i % 100 == 0 && attn_record(c, &p, "flash", 1e-4)) return arg;
    if (i % 700 == 0) attn_cache_clear(c);
    if (i % 900 == 0) attn_record_clear(c);
  }
  return NULL;
}

static void test_threads_may_ask_at_once(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, ask_often, c), 0);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  attn_cache_stats s = attn_cache_statistics(c);
  assert_int_equal(s.hits + s.misses, 4 * 3000);
  attn_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_one_query_on_a100_takes_flash_decode),
    cmocka_unit_test(test_prefill_takes_flash),
    cmocka_unit_test(test_small_takes_cudnn_or_math),
    cmocka_unit_test(test_a_cpu_has_no_gpu_backends),
    cmocka_unit_test(test_plug_ins_are_for_detected_devices),
    cmocka_unit_test(test_a_cpu_profile_is_predicted_too),
    cmocka_unit_test(test_preferred_is_taken),
    cmocka_unit_test(test_refused_preference_is_said),
    cmocka_unit_test(test_strict_makes_it_an_error),
    cmocka_unit_test(test_debug_takes_math),
    cmocka_unit_test(test_disabled_is_left_out),
    cmocka_unit_test(test_flash_min_seq_len),
    cmocka_unit_test(test_memory_budget_moves_the_choice),
    cmocka_unit_test(test_budget_that_fits_nothing_is_an_error),
    cmocka_unit_test(test_device_memory_bounds_the_choice),
    cmocka_unit_test(test_objective_changes_a_choice),
    cmocka_unit_test(test_deterministic_changes_a_choice),
    cmocka_unit_test(test_unknown_speed_gives_the_fixed_order),
    cmocka_unit_test(test_tensors_and_short_form),
    cmocka_unit_test(test_null_arguments),
    cmocka_unit_test(test_every_answer_is_consistent),
    cmocka_unit_test(test_threads_may_ask_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
