// SPDX-License-Identifier: Apache-2.0
/* What selection promises: the right backend on known devices, every option having its effect, every
 * rejection with its reasons. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "attn/select.h"

static attn_context *context_on(const char *hardware, attn_config config) {
  attn_capability capability;
  attn_context *c = NULL;
  config.ignore_environment = config.no_measure = true;
  if (hardware) {
    if (attn_profile_find(hardware, &capability)) fail_msg("%s", attn_last_error());
    config.capability = &capability;
  }
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  return c;
}

/* A CPU with everything known, so that its costs do not depend on the machine of the test. */
static attn_context *context_on_cpu(attn_config config) {
  attn_capability cpu = { .device = ATTN_DEVICE_CPU, .source = ATTN_SOURCE_DETECTED, .name = "test",
                          .compute_units = 4, .bandwidth = 50e9, .peak_f32 = 400e9,
                          .l2_bytes = 1 << 20, .l3_bytes = 16 << 20, .isa = ATTN_ISA_SCALAR };
  attn_context *c = NULL;
  config.ignore_environment = config.no_measure = true;
  config.capability = &cpu;
  if (!config.threads) config.threads = 4;
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  return c;
}

static attn_problem problem_of(const char *shape) {
  attn_problem p;
  if (attn_problem_parse(shape, &p)) fail_msg("%s: %s", shape, attn_last_error());
  return p;
}

static attn_recommendation choose(attn_context *c, const char *shape) {
  attn_problem p = problem_of(shape);
  attn_recommendation r;
  if (attn_select(c, &p, &r)) fail_msg("%s: %s", shape, attn_last_error());
  return r;
}

static attn_recommendation choose_on(const char *hardware, const char *shape) {
  attn_context *c = context_on(hardware, (attn_config){ 0 });
  attn_recommendation r = choose(c, shape);
  attn_context_destroy(c);
  return r;
}

/* The reason with which a backend was rejected; NULL if it was not, or not for that. */
static const attn_reason *rejected_for(const attn_recommendation *r, attn_backend b, attn_reason_code code) {
  for (int i = 0; i < r->rejection_count; i++)
    for (int j = 0; r->rejections[i].backend == b && j < r->rejections[i].reason_count; j++) {
      const attn_reason *reason = &r->reasons[r->rejections[i].first_reason + j];
      if (reason->code == code) return reason;
    }
  return NULL;
}

static void check_consistent(const attn_recommendation *r) {
  double last = 1;
  for (int i = 0; i < r->alternative_count; i++) {
    assert_string_not_equal(r->alternatives[i].implementation, r->implementation);
    assert_true(r->alternatives[i].score > 0 && r->alternatives[i].score <= 1);
    assert_true(r->alternatives[i].score <= last);
    last = r->alternatives[i].score;
  }
  assert_true(r->confidence >= 0 && r->confidence <= 1);
  assert_true(r->reason[0] != 0);
  for (int i = 0; i < r->rejection_count; i++) assert_true(r->rejections[i].reason_count > 0);
}

static void test_decode_on_a100(void **unused) {
  (void)unused;
  attn_recommendation r = choose_on("a100-80-sxm", "--heads 32 --seq 1:8192 --dim 128 --dtype f16 --causal br");
  assert_int_equal(r.backend, ATTN_BACKEND_FLASH_DECODE);
  assert_true(r.speedup >= 4);
  assert_true(r.predicted);
  check_consistent(&r);
  // the figure follows from bytes: K and V once at least, over the nominal bandwidth
  assert_true(r.time >= 2.0 * 32 * 8192 * 128 * 2 / 2039e9);
}

static void test_prefill_picks_flash(void **unused) {
  (void)unused;
  static const char *const shapes[] = { "--seq 8192 --dim 64 --dtype f16",
                                        "--batch 2 --heads 16 --seq 8192 --dim 64 --dtype f16",
                                        "--batch 4 --heads 32:8 --seq 8192 --dim 64 --dtype bf16" };
  for (int i = 0; i < 3; i++) {
    attn_recommendation r = choose_on("a100-80-sxm", shapes[i]);
    assert_int_equal(r.backend, ATTN_BACKEND_FLASH);
    assert_true(r.speedup > 2);
    check_consistent(&r);
    r = choose_on("h100-sxm", shapes[i]);
    assert_int_equal(r.backend, ATTN_BACKEND_FLASH_V3);
    assert_true(r.speedup > 2);
  }
}

static void test_small_picks_cudnn_or_math(void **unused) {
  (void)unused;
  static const char *const hardware[] = { "a100-80-sxm", "h100-sxm", "rtx-4090" };
  static const char *const shapes[] = { "--seq 64 --dim 64 --dtype f16", "--heads 8 --seq 64 --dim 64 --dtype f16",
                                        "--batch 8 --heads 16 --seq 64 --dim 64 --dtype f16" };
  for (int h = 0; h < 3; h++)
    for (int i = 0; i < 3; i++) {
      attn_recommendation r = choose_on(hardware[h], shapes[i]);
      if (r.backend != ATTN_BACKEND_CUDNN && r.backend != ATTN_BACKEND_MATH)
        fail_msg("%s on %s: %s", shapes[i], hardware[h], r.implementation);
    }
}

static void test_flash_v3_is_for_90_alone(void **unused) {
  (void)unused;
  static const int versions[][2] = { { 8, 0 }, { 10, 0 }, { 12, 0 }, { 9, 0 } };
  for (int i = 0; i < 4; i++) {
    attn_capability c;
    assert_int_equal(attn_capability_from_compute(versions[i][0], versions[i][1], &c), ATTN_OK);
    attn_config config = { .capability = &c, .ignore_environment = true };
    attn_context *ctx;
    assert_int_equal(attn_context_create(&config, &ctx), ATTN_OK);
    attn_recommendation r = choose(ctx, "--heads 8 --seq 4096 --dim 128 --dtype bf16");
    const attn_reason *why = rejected_for(&r, ATTN_BACKEND_FLASH_V3, ATTN_REASON_COMPUTE_CAPABILITY);
    assert_true((why != NULL) == (versions[i][0] != 9));
    if (why) {
      char text[128];
      attn_reason_text(why, text, sizeof(text));
      assert_non_null(strstr(text, "9.0"));
    }
    assert_int_equal(r.source, ATTN_CHOICE_HEURISTIC); // no peak, no price
    assert_true(isnan(r.time));
    attn_context_destroy(ctx);
  }
}

static void test_a_cpu_has_no_gpu_backends(void **unused) {
  (void)unused;
  attn_context *c = context_on(NULL, (attn_config){ 0 });
  attn_recommendation r = choose(c, "--heads 2 --seq 64 --dim 32");
  assert_int_equal(r.device, ATTN_DEVICE_CPU);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_CUDNN, ATTN_REASON_DEVICE_ABSENT));
  assert_non_null(rejected_for(&r, ATTN_BACKEND_METAL, ATTN_REASON_DEVICE_ABSENT));
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH_V3, ATTN_REASON_DEVICE_ABSENT));
  attn_context_destroy(c);
}

static void test_preferred_debug_disabled_strict(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .preferred = ATTN_BACKEND_MATH });
  attn_recommendation r = choose(c, "--heads 4 --seq 512 --dim 64");
  assert_int_equal(r.backend, ATTN_BACKEND_MATH);
  assert_int_equal(r.source, ATTN_CHOICE_FORCED);
  check_consistent(&r);
  attn_context_destroy(c);

  c = context_on_cpu((attn_config){ .debug = true, .preferred = ATTN_BACKEND_FLASH });
  r = choose(c, "--heads 4 --seq 512 --dim 64");
  assert_int_equal(r.backend, ATTN_BACKEND_MATH);
  attn_context_destroy(c);

  c = context_on_cpu((attn_config){ .disabled = 1u << ATTN_BACKEND_FLASH });
  r = choose(c, "--heads 4 --seq 512 --dim 64");
  assert_int_not_equal(r.backend, ATTN_BACKEND_FLASH);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_DISABLED));
  attn_context_destroy(c);

  c = context_on_cpu((attn_config){ .preferred = ATTN_BACKEND_CUDNN });
  r = choose(c, "--heads 4 --seq 512 --dim 64");
  assert_non_null(strstr(r.reason, "cudnn"));
  attn_context_destroy(c);

  c = context_on_cpu((attn_config){ .preferred = ATTN_BACKEND_CUDNN, .strict = true });
  attn_problem p = problem_of("--heads 4 --seq 512 --dim 64");
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  assert_non_null(strstr(attn_last_error(), "cudnn"));
  assert_int_equal(r.backend, ATTN_BACKEND_AUTO);
  assert_true(r.rejection_count > 0);
  attn_context_destroy(c);
}

static void test_masks_and_cudnn_versions(void **unused) {
  (void)unused;
  attn_capability h;
  assert_int_equal(attn_profile_find("h100-sxm", &h), ATTN_OK);
  static const int versions[] = { 8902, 8905, 90100 };
  for (int i = 0; i < 3; i++) {
    h.cudnn_version = versions[i];
    attn_config config = { .capability = &h, .ignore_environment = true };
    attn_context *c;
    assert_int_equal(attn_context_create(&config, &c), ATTN_OK);
    attn_recommendation additive = choose(c, "--heads 8 --seq 512 --dim 64 --dtype f16 --mask f32");
    attn_recommendation boolean = choose(c, "--heads 8 --seq 512 --dim 64 --dtype f16 --mask bool");
    assert_true((rejected_for(&additive, ATTN_BACKEND_CUDNN, ATTN_REASON_MASK) != NULL) == (i == 0));
    assert_true((rejected_for(&boolean, ATTN_BACKEND_CUDNN, ATTN_REASON_MASK) != NULL) == (i < 2));
    assert_non_null(rejected_for(&boolean, ATTN_BACKEND_FLASH, ATTN_REASON_MASK));
    assert_non_null(rejected_for(&boolean, ATTN_BACKEND_FLASH_V3, ATTN_REASON_MASK));
    attn_context_destroy(c);
  }
}

/* Questions that differ in anything are not answered from one another's entry. */
static void test_cache_keeps_questions_apart(void **unused) {
  (void)unused;
  static const char *const shapes[] = {
    "--heads 8 --seq 512 --dim 64 --dtype f16",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --mask bool",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --mask bool:*x1x1x*",
    "--heads 8 --seq 512 --dim 64 --dtype bf16",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --causal br",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --dropout 0.125",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --softcap 30",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --window 64:0",
    "--heads 8:2 --seq 512 --dim 64 --dtype f16",
  };
  enum { N = sizeof(shapes) / sizeof(shapes[0]) };
  attn_context *c = context_on("h100-sxm", (attn_config){ 0 });
  for (int round = 0; round < 2; round++)
    for (int i = 0; i < N; i++) choose(c, shapes[i]);
  attn_cache_stats s = attn_cache_statistics(c);
  assert_int_equal(s.misses, N);
  assert_int_equal(s.hits, N);
  assert_int_equal(s.entries, N);
  attn_cache_clear(c);
  assert_int_equal(attn_cache_statistics(c).entries, 0);
  attn_recommendation masked = choose(c, shapes[1]), plain = choose(c, shapes[0]);
  assert_null(rejected_for(&plain, ATTN_BACKEND_FLASH_V3, ATTN_REASON_MASK));
  assert_non_null(rejected_for(&masked, ATTN_BACKEND_FLASH_V3, ATTN_REASON_MASK));
  attn_context_destroy(c);
}

static void test_cache_is_bounded(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  for (int i = 1; i <= 3000; i++) {
    attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = i, .seq_kv = i, .head_dim = 8 };
    attn_recommendation r;
    assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
  }
  attn_cache_stats s = attn_cache_statistics(c);
  assert_true(s.entries <= s.capacity && s.entries > s.capacity / 2);
  attn_context_destroy(c);
}

static void test_memory_budget(void **unused) {
  (void)unused;
  const char *shape = "--heads 8 --seq 4096 --dim 64 --dtype f16";
  int64_t scores = (int64_t)8 * 4096 * 4096 * 4;
  attn_config config = { .memory_budget = scores - 1, .preferred = ATTN_BACKEND_MATH };
  attn_context *c = context_on("a100-80-sxm", config);
  attn_recommendation r = choose(c, shape);
  assert_int_not_equal(r.backend, ATTN_BACKEND_MATH);
  const attn_reason *why = rejected_for(&r, ATTN_BACKEND_MATH, ATTN_REASON_MEMORY_BUDGET);
  assert_non_null(why);
  assert_true(why->value > why->limit && why->limit == (double)(scores - 1));
  assert_true(r.workspace_bytes <= config.memory_budget);
  attn_context_destroy(c);

  c = context_on(NULL, (attn_config){ .memory_budget = 100 });
  attn_problem p = problem_of("--heads 8 --seq 256 --dim 64");
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_MEMORY_BUDGET);
  assert_non_null(strstr(attn_last_error(), "100"));
  attn_plan *plan;
  assert_int_equal(attn_plan_create(c, &p, &plan), ATTN_ERROR_MEMORY_BUDGET);
  attn_context_destroy(c);
}

static void test_flash_memory_is_linear(void **unused) {
  (void)unused;
  attn_recommendation a = choose_on("a100-80-sxm", "--heads 8 --seq 16384 --dim 64 --dtype f16");
  attn_recommendation b = choose_on("a100-80-sxm", "--heads 8 --seq 32768 --dim 64 --dtype f16");
  assert_int_equal(a.backend, ATTN_BACKEND_FLASH);
  assert_true(fabs((double)b.memory_bytes / (double)a.memory_bytes - 2.0) <= 0.02);
}

static void test_flash_min_seq_len(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .flash_min_seq_len = 1024 });
  attn_recommendation r = choose(c, "--heads 4 --seq 512 --dim 64");
  assert_non_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_FLASH_MIN_SEQ_LEN));
  r = choose(c, "--heads 4 --seq 1024 --dim 64");
  assert_null(rejected_for(&r, ATTN_BACKEND_FLASH, ATTN_REASON_FLASH_MIN_SEQ_LEN));
  attn_context_destroy(c);
}

/* Throughput counts the cores that a call occupies: what forks for little gain loses to one thread. */
static void test_objective_changes_a_choice(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_context *c = context_on_cpu((attn_config){ .objective = ATTN_OBJECTIVE_LATENCY });
  attn_recommendation latency = choose(c, shape);
  attn_context_destroy(c);
  c = context_on_cpu((attn_config){ .objective = ATTN_OBJECTIVE_THROUGHPUT });
  attn_recommendation throughput = choose(c, shape);
  attn_context_destroy(c);
  assert_int_equal(latency.backend, ATTN_BACKEND_FLASH);
  assert_int_equal(throughput.backend, ATTN_BACKEND_CPU);
  assert_true(throughput.time > latency.time);
}

static void test_deterministic_changes_a_choice(void **unused) {
  (void)unused;
  const char *shape = "--batch 8 --heads 16 --seq 64 --dim 64 --dtype f16";
  assert_int_equal(choose_on("a100-80-sxm", shape).backend, ATTN_BACKEND_CUDNN);
  attn_context *c = context_on("a100-80-sxm", (attn_config){ .deterministic = true });
  attn_recommendation r = choose(c, shape);
  assert_int_not_equal(r.backend, ATTN_BACKEND_CUDNN);
  assert_non_null(rejected_for(&r, ATTN_BACKEND_CUDNN, ATTN_REASON_DETERMINISTIC));
  attn_context_destroy(c);
}

static void test_records_change_the_choice(void **unused) {
  (void)unused;
  const char *shape = "--heads 4 --seq 512 --dim 64";
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem p = problem_of(shape);
  attn_recommendation before = choose(c, shape);
  assert_int_equal(before.backend, ATTN_BACKEND_FLASH);
  for (int i = 0; i < 20; i++) {
    assert_int_equal(attn_record(c, &p, "flash", 2e-3 * (1 + 0.01 * (i % 3))), ATTN_OK);
    assert_int_equal(attn_record(c, &p, "memory_efficient", 1e-3 * (1 + 0.01 * (i % 3))), ATTN_OK);
    assert_int_equal(attn_record(c, &p, "math", 3e-3), ATTN_OK);
    assert_int_equal(attn_record(c, &p, "cpu", 3e-3), ATTN_OK);
  }
  attn_recommendation after = choose(c, shape);
  assert_int_equal(after.backend, ATTN_BACKEND_MEMORY_EFFICIENT);
  assert_int_equal(after.source, ATTN_CHOICE_MEASURED);
  assert_true(after.confidence > before.confidence);
  assert_true(fabs(after.speedup - 3.0) <= 0.1);
  attn_record_clear(c);
  assert_int_equal(choose(c, shape).backend, ATTN_BACKEND_FLASH);
  // one measurement, or three that contradict each other, change nothing
  assert_int_equal(attn_record(c, &p, "math", 1e-7), ATTN_OK);
  assert_int_equal(choose(c, shape).backend, ATTN_BACKEND_FLASH);
  assert_int_equal(attn_record(c, &p, "math", 1e-3), ATTN_OK);
  assert_int_equal(attn_record(c, &p, "math", 1e-1), ATTN_OK);
  assert_int_equal(choose(c, shape).backend, ATTN_BACKEND_FLASH);
  attn_context_destroy(c);
}

static void test_history_is_bounded_and_checked(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem p = problem_of("--seq 64 --dim 64");
  for (int i = 0; i < 2500; i++) assert_int_equal(attn_record(c, &p, "flash", 1e-3), ATTN_OK);
  assert_int_equal(attn_record_count(c), 1000);
  assert_int_equal(attn_record(c, &p, "nonesuch", 1e-3), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_record(c, &p, "cudnn", 1e-3), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_record(c, &p, "flash", 0), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &p, "flash", -1), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record(c, &p, "flash", (double)NAN), ATTN_ERROR_VALUE);
  assert_int_equal(attn_record_count(c), 1000);
  attn_context_destroy(c);
  c = context_on_cpu((attn_config){ .autotune = ATTN_AUTOTUNE_OFF });
  for (int i = 0; i < 20; i++) assert_int_equal(attn_record(c, &p, "math", 1e-9), ATTN_OK);
  attn_recommendation r;
  assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
  assert_int_equal(r.source, ATTN_CHOICE_MODEL);
  attn_context_destroy(c);
}

static void test_tensors_and_short_form(void **unused) {
  (void)unused;
  attn_context *c = context_on("a100-80-sxm", (attn_config){ 0 });
  attn_tensor q = { ATTN_F16, { 1, 32, 1, 128 }, { 0 } }, k = { ATTN_F16, { 1, 8, 8192, 128 }, { 0 } }, v = k;
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

static void test_every_reason_has_words(void **unused) {
  (void)unused;
  for (int code = 1; code < ATTN_REASON_COUNT; code++) {
    char text[256];
    attn_reason r = { (attn_reason_code)code, ATTN_F16, 2 };
    assert_non_null(attn_reason_name(r.code));
    assert_true(attn_reason_text(&r, text, sizeof(text)) > 5);
    assert_null(strchr(text, '%'));
    for (int other = 1; other < code; other++)
      assert_string_not_equal(attn_reason_name((attn_reason_code)other), attn_reason_name(r.code));
  }
  assert_null(attn_reason_name(ATTN_REASON_COUNT));
}

/* One row of gpu-constraints: on `hardware` the shape is taken, or refused with the code. */
static void test_gpu_constraints(void **unused) {
  (void)unused;
  static const struct {
    const char *hardware;
    attn_backend backend;
    const char *shape;
    attn_reason_code code; /* NONE: accepted */
  } rows[] = {
    { "t4", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64", ATTN_REASON_COMPUTE_CAPABILITY },
    { "rtx-5090", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64", ATTN_REASON_NONE },
    { "b200", ATTN_BACKEND_FLASH, "--dtype bf16 --seq 512 --dim 64", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f32 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 264", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 60", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_PAIR },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64 --mask f32", ATTN_REASON_MASK },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 4:512 --dim 64 --causal tl", ATTN_REASON_CAUSAL_ALIGNMENT },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64 --causal tl", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64 --softcap 30 --dropout 0.1", ATTN_REASON_SOFTCAP },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 512 --dim 64 --window 64:0 --softcap 30 --alibi", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH, "--dtype f16 --seq 1:512 --dim 64 --kv-lengths --page-size 16 --num-pages 64 --pages-per-seq 32", ATTN_REASON_PAGE_SIZE },
    { "mi300x", ATTN_BACKEND_FLASH, "--dtype bf16 --seq 512 --dim 64", ATTN_REASON_NONE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype bf16 --seq 512 --dim 192:128", ATTN_REASON_NONE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype bf16 --seq 512 --dim 64:512", ATTN_REASON_NONE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype bf16 --seq 512 --dim 128:64", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype f8e4m3 --seq 512 --dim 64", ATTN_REASON_NONE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype f8e4m3 --seq 512 --dim 72", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype f8e5m2 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype f16 --seq 512 --dim 64 --dropout 0.5", ATTN_REASON_DROPOUT },
    { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--dtype f16 --seq 512 --dim 64 --alibi", ATTN_REASON_ALIBI },
    { "b200", ATTN_BACKEND_FLASH_V3, "--dtype bf16 --seq 512 --dim 64", ATTN_REASON_COMPUTE_CAPABILITY },
    { "t4", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64", ATTN_REASON_COMPUTE_CAPABILITY },
    { "a100-80-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 136", ATTN_REASON_HEAD_DIM_LARGE },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f8e4m3 --seq 512 --dim 128", ATTN_REASON_NONE },
    { "l40s", ATTN_BACKEND_CUDNN, "--dtype f8e4m3 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64 --softcap 30", ATTN_REASON_SOFTCAP },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64 --dropout 0.1", ATTN_REASON_DROPOUT },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64 --dropout 0.125", ATTN_REASON_NONE },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512:1 --dim 64", ATTN_REASON_SEQ_SMALL },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --batch 65536 --seq 2 --dim 64", ATTN_REASON_BATCH_LARGE },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64 --window 64:0", ATTN_REASON_WINDOW },
    { "h100-sxm", ATTN_BACKEND_CUDNN, "--dtype f16 --seq 512 --dim 64 --window 64:0 --causal br", ATTN_REASON_NONE },
    { "v100-sxm2-32", ATTN_BACKEND_MEMORY_EFFICIENT, "--dtype f16 --seq 512 --dim 64", ATTN_REASON_NONE },
    { "v100-sxm2-32", ATTN_BACKEND_MEMORY_EFFICIENT, "--dtype bf16 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "a100-80-sxm", ATTN_BACKEND_MEMORY_EFFICIENT, "--dtype f32 --seq 512 --dim 36", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_MEMORY_EFFICIENT, "--dtype f32 --seq 512 --dim 34", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "a100-80-sxm", ATTN_BACKEND_MEMORY_EFFICIENT, "--dtype f16 --seq 512 --dim 64 --mask bool", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_MATH, "--dtype f16 --seq 512 --dim 300 --mask bool --softcap 5", ATTN_REASON_NONE },
    { "m2-max", ATTN_BACKEND_METAL, "--dtype f16 --seq 512 --dim 72", ATTN_REASON_HEAD_DIM_SET },
    { "m2-max", ATTN_BACKEND_METAL, "--dtype bf16 --seq 512 --dim 128", ATTN_REASON_NONE },
    { "m1", ATTN_BACKEND_METAL, "--dtype bf16 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "max-1550", ATTN_BACKEND_FLASH, "--dtype bf16 --seq 512 --dim 128", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_VARLEN, "--dtype f16 --seq 512 --dim 128", ATTN_REASON_NOT_VARLEN },
    { "a100-80-sxm", ATTN_BACKEND_VARLEN, "--batch 3 --dtype f16 --seq 512 --dim 128 --varlen 900:900", ATTN_REASON_NONE },
    { "a100-80-sxm", ATTN_BACKEND_FLASH_DECODE, "--dtype f16 --seq 65:4096 --dim 128", ATTN_REASON_SEQ_Q_LARGE },
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    attn_recommendation r = choose_on(rows[i].hardware, rows[i].shape);
    bool refused = false;
    for (int j = 0; j < r.rejection_count; j++) refused |= r.rejections[j].backend == rows[i].backend;
    bool right = rows[i].code ? rejected_for(&r, rows[i].backend, rows[i].code) != NULL : !refused;
    if (!right)
      fail_msg("%s on %s, %s: not as expected (%s)", attn_backend_name(rows[i].backend), rows[i].hardware,
               rows[i].shape, rows[i].code ? attn_reason_name(rows[i].code) : "accepted");
  }
}

static void *ask_often(void *arg) {
  attn_context *c = arg;
  for (int i = 0; i < 2000; i++) {
    attn_problem p = { .batch = 1, .heads_q = 1 + i % 7, .seq_q = 1 + i % 50, .seq_kv = 64, .head_dim = 8 };
    attn_recommendation r;
    if (attn_select(c, &p, &r) || !r.backend) return arg;
    if (i % 100 == 0 && attn_record(c, &p, "flash", 1e-4)) return arg;
    if (i % 500 == 0) attn_cache_clear(c);
  }
  return NULL;
}

static void test_threads_may_ask_at_once(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, ask_often, c);
  for (int i = 0; i < 4; i++) {
    void *failed;
    pthread_join(threads[i], &failed);
    assert_null(failed);
  }
  attn_context_destroy(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_decode_on_a100),
    cmocka_unit_test(test_prefill_picks_flash),
    cmocka_unit_test(test_small_picks_cudnn_or_math),
    cmocka_unit_test(test_flash_v3_is_for_90_alone),
    cmocka_unit_test(test_a_cpu_has_no_gpu_backends),
    cmocka_unit_test(test_preferred_debug_disabled_strict),
    cmocka_unit_test(test_masks_and_cudnn_versions),
    cmocka_unit_test(test_cache_keeps_questions_apart),
    cmocka_unit_test(test_cache_is_bounded),
    cmocka_unit_test(test_memory_budget),
    cmocka_unit_test(test_flash_memory_is_linear),
    cmocka_unit_test(test_flash_min_seq_len),
    cmocka_unit_test(test_objective_changes_a_choice),
    cmocka_unit_test(test_deterministic_changes_a_choice),
    cmocka_unit_test(test_records_change_the_choice),
    cmocka_unit_test(test_history_is_bounded_and_checked),
    cmocka_unit_test(test_tensors_and_short_form),
    cmocka_unit_test(test_every_reason_has_words),
    cmocka_unit_test(test_gpu_constraints),
    cmocka_unit_test(test_threads_may_ask_at_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
