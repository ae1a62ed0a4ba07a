// SPDX-License-Identifier: Apache-2.0
/* The calls of a user: plans, workspaces, errors, threads, allocators; arithmetic on a few problems
 * (attn-property covers the space). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "attn/select.h"
#include "random.h"

enum { MAX = 1 << 16 };
static float q[MAX], k[MAX], v[MAX], out[MAX], other[MAX], lse[MAX];
static double expected[MAX], expected_lse[MAX];

static const attn_config quiet = { .ignore_environment = true, .no_measure = true };

static attn_context *context_of(attn_config config) {
  attn_context *c = NULL;
  config.ignore_environment = config.no_measure = true;
  if (attn_context_create(&config, &c)) fail_msg("attn_context_create: %s", attn_last_error());
  return c;
}

static void fill(uint64_t seed) {
  for (int i = 0; i < MAX; i++) {
    q[i] = random_float(&seed), k[i] = random_float(&seed), v[i] = random_float(&seed);
    out[i] = other[i] = lse[i] = 1e30f;
  }
}

static void run(attn_context *c, const attn_problem *p, attn_io io) {
  if (attn_sdpa(c, p, &io)) fail_msg("attn_sdpa: %s", attn_last_error());
}

static const attn_backend backends[] = { ATTN_BACKEND_FLASH, ATTN_BACKEND_MATH,
                                         ATTN_BACKEND_MEMORY_EFFICIENT, ATTN_BACKEND_CPU,
                                         ATTN_BACKEND_FLASH_DECODE };
enum { BACKENDS = sizeof(backends) / sizeof(backends[0]) };

/* Every backend and ISA against the reference, and the same bits for every number of threads. */
static void check_problem(const attn_problem *p, attn_io io, int64_t count, int64_t rows) {
  if (attn_reference(p, &io, expected, expected_lse, NULL)) fail_msg("%s", attn_last_error());
  for (int b = 0; b < BACKENDS; b++)
    for (attn_isa isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
      for (int threads = 1; threads <= 8; threads = threads == 3 ? 8 : threads + 1) {
        attn_context *c = context_of((attn_config){
            .preferred = backends[b], .strict = true, .isa = isa, .threads = threads });
        attn_recommendation rec;
        attn_status status = attn_select(c, p, &rec);
        if (status == ATTN_ERROR_UNSUPPORTED) {
          attn_context_destroy(c);
          break;
        }
        io.out = threads == 1 ? out : other;
        run(c, p, io);
        if (threads > 1) assert_memory_equal(out, other, (size_t)count * sizeof(float));
        attn_context_destroy(c);
      }
      for (int64_t i = 0; i < count; i++)
        if (!(fabs((double)out[i] - expected[i]) <= 4e-6))
          fail_msg("%s: out[%lld] is %g, reference %g", attn_backend_name(backends[b]), (long long)i,
                   (double)out[i], expected[i]);
      for (int64_t i = 0; p->return_lse && i < rows; i++)
        if (lse[i] != (float)expected_lse[i] && !(fabs((double)lse[i] - expected_lse[i]) <= 1e-5))
          fail_msg("%s: lse[%lld] is %g, reference %g", attn_backend_name(backends[b]), (long long)i,
                   (double)lse[i], expected_lse[i]);
    }
}

static void test_backends_agree_with_the_reference(void **unused) {
  (void)unused;
  const attn_problem problems[] = {
    { .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 33, .seq_kv = 47, .head_dim = 19, .return_lse = true },
    { .batch = 1, .heads_q = 3, .seq_q = 70, .seq_kv = 200, .head_dim = 8, .head_dim_v = 5,
      .causal = ATTN_CAUSAL_BOTTOM_RIGHT, .return_lse = true },
    { .batch = 1, .heads_q = 2, .seq_q = 40, .seq_kv = 20, .head_dim = 16,
      .causal = ATTN_CAUSAL_BOTTOM_RIGHT, .return_lse = true },
    { .batch = 1, .heads_q = 8, .heads_kv = 2, .seq_q = 1, .seq_kv = 1500, .head_dim = 20, .return_lse = true },
    { .batch = 2, .heads_q = 2, .seq_q = 300, .seq_kv = 300, .head_dim = 4, .window = true,
      .window_left = 10, .window_right = 3, .softcap = 2, .return_lse = true },
    { .batch = 1, .heads_q = 2, .seq_q = 9, .seq_kv = 0, .head_dim = 4, .return_lse = true },
    { .batch = 1, .heads_q = 2, .seq_q = 65, .seq_kv = 129, .head_dim = 12, .layout = ATTN_LAYOUT_BSHD,
      .causal = ATTN_CAUSAL_TOP_LEFT, .return_lse = true },
  };
  for (size_t i = 0; i < sizeof(problems) / sizeof(problems[0]); i++) {
    const attn_problem *p = &problems[i];
    fill(i + 1);
    int64_t rows = p->batch * p->heads_q * p->seq_q;
    // the reference writes [batch, heads, seq, dim]; a BSHD output is compared through strides
    attn_problem resolved;
    assert_int_equal(attn_problem_resolve(p, &resolved), ATTN_OK);
    if (p->layout == ATTN_LAYOUT_BSHD) {
      attn_problem dense = *p;
      attn_problem_set_layout(&dense, ATTN_LAYOUT_BHSD);
      resolved.out_strides = dense.out_strides;
    }
    attn_io io = { .q = q, .k = k, .v = v, .out = out, .lse = lse };
    check_problem(&resolved, io, rows * resolved.head_dim_v, rows);
  }
}

/* q = 0 and V = identity: out is exactly allowed / count. */
static void test_mask_probe_is_exact(void **unused) {
  (void)unused;
  enum { L = 2, S = 5 };
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = L, .seq_kv = S, .head_dim = S, .return_lse = true };
  const float want[2][L][S] = { { { .25f, .25f, .25f, .25f, 0 }, { .2f, .2f, .2f, .2f, .2f } },
                                { { 1, 0, 0, 0, 0 }, { .5f, .5f, 0, 0, 0 } } };
  for (int align = 0; align < 2; align++)
    for (int b = 0; b < BACKENDS; b++) {
      p.causal = align ? ATTN_CAUSAL_TOP_LEFT : ATTN_CAUSAL_BOTTOM_RIGHT;
      fill(3);
      memset(q, 0, sizeof(q));
      for (int i = 0; i < S * S; i++) v[i] = i / S == i % S;
      attn_context *c = context_of((attn_config){ .preferred = backends[b], .strict = true });
      run(c, &p, (attn_io){ .q = q, .k = k, .v = v, .out = out, .lse = lse });
      assert_memory_equal(out, want[align], sizeof(want[align]));
      for (int i = 0; i < L; i++)
        assert_float_equal(lse[i], logf(align ? (float)(i + 1) : (float)(4 + i)), 1e-6);
      attn_context_destroy(c);
    }
}

/* NaN and infinity where a mask or a length removes the key do not show. */
static void test_removed_keys_do_not_leak(void **unused) {
  (void)unused;
  uint8_t mask[2 * 3] = { 1, 0, 1, 1, 0, 0 };
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 2, .seq_kv = 3, .head_dim = 4, .mask = ATTN_MASK_BOOL };
  for (int b = 0; b < BACKENDS; b++) {
    fill(4);
    for (int c = 0; c < 4; c++) k[4 + c] = NAN, v[4 + c] = c % 2 ? NAN : INFINITY;
    for (int c = 0; c < 4; c++) v[8 + c] = 7;
    attn_context *ctx = context_of((attn_config){ .preferred = backends[b], .strict = true });
    run(ctx, &p, (attn_io){ .q = q, .k = k, .v = v, .out = out, .mask = mask });
    for (int i = 0; i < 8; i++) assert_true(isfinite(out[i]));
    for (int c = 0; c < 4; c++) assert_true(out[4 + c] == v[c]); // row 1 attends key 0 alone
    attn_context_destroy(ctx);
  }
}

static void test_bad_calls_are_errors_and_write_nothing(void **unused) {
  (void)unused;
  attn_context *c = context_of(quiet);
  attn_plan *plan = NULL;
  attn_problem p = { .batch = 1, .heads_q = 2, .seq_q = 4, .seq_kv = 6, .head_dim = 8 };
  fill(5);
  assert_int_equal(attn_plan_create(NULL, &p, &plan), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create(c, NULL, &plan), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create(c, &p, NULL), ATTN_ERROR_NULL);
  attn_problem bad = p;
  bad.heads_kv = 3;
  assert_int_equal(attn_plan_create(c, &bad, &plan), ATTN_ERROR_SHAPE);
  assert_non_null(strstr(attn_last_error(), "heads_q"));
  assert_null(plan);
  assert_int_equal(attn_plan_create(c, &p, &plan), ATTN_OK);
  void *workspace = malloc(attn_plan_workspace(plan) + 1);
  attn_io io = { .q = q, .k = k, .v = v, .out = out };
  assert_int_equal(attn_execute(NULL, &io, workspace), ATTN_ERROR_NULL);
  assert_int_equal(attn_execute(plan, NULL, workspace), ATTN_ERROR_NULL);
  assert_int_equal(attn_execute(plan, &io, NULL), ATTN_ERROR_NULL);
  assert_non_null(strstr(attn_last_error(), "workspace"));
  attn_io missing = io;
  missing.k = NULL;
  assert_int_equal(attn_execute(plan, &missing, workspace), ATTN_ERROR_NULL);
  assert_non_null(strstr(attn_last_error(), "io.k"));
  assert_true(out[0] == 1e30f && out[63] == 1e30f);
  assert_int_equal(attn_execute(plan, &io, workspace), ATTN_OK);
  attn_plan_destroy(plan);
  free(workspace);

  int32_t lengths[1] = { 7 };
  p.kv_lengths = true;
  fill(5);
  io.kv_len = lengths;
  assert_int_equal(attn_sdpa(c, &p, &io), ATTN_ERROR_SHAPE);
  assert_non_null(strstr(attn_last_error(), "kv_len[0]"));
  assert_true(out[0] == 1e30f);
  attn_context_destroy(c);

  attn_config config = quiet;
  config.threads = -1;
  c = NULL;
  assert_int_equal(attn_context_create(&config, &c), ATTN_ERROR_VALUE);
  config = quiet;
  config.memory_budget = -5;
  assert_int_equal(attn_context_create(&config, &c), ATTN_ERROR_VALUE);
  assert_null(c);
}

static void test_empty_problems_do_nothing(void **unused) {
  (void)unused;
  attn_context *c = context_of(quiet);
  for (int bits = 0; bits < 16; bits++) {
    attn_problem p = { .batch = bits & 1, .heads_q = bits >> 1 & 1, .seq_q = bits >> 2 & 1,
                       .seq_kv = bits >> 3 & 1, .head_dim = 1 };
    fill(6);
    attn_io io = { .q = q, .k = k, .v = v, .out = out };
    if (attn_sdpa(c, &p, &io)) fail_msg("%d: %s", bits, attn_last_error());
    bool any = p.batch && p.heads_q && p.seq_q;
    assert_true(any ? out[0] == (p.seq_kv ? v[0] : 0) : out[0] == 1e30f);
  }
  attn_context_destroy(c);
}

/* Counting allocator: all memory goes through it, none in execute, none is left. */
typedef struct counts {
  long live, calls;
} counts;

static void *count_alloc(void *user, size_t size, size_t alignment) {
  counts *n = user;
  n->live++, n->calls++;
  return aligned_alloc(alignment < 16 ? 16 : alignment, (size + 127) / 64 * 64);
}

static void count_free(void *user, void *pointer) {
  ((counts *)user)->live--;
  free(pointer);
}

static void test_a_named_implementation_is_planned(void **unused) {
  (void)unused;
  attn_context *c = context_of((attn_config){ .threads = 2, .disabled = 1u << ATTN_BACKEND_FLASH });
  attn_problem p = { .batch = 1, .heads_q = 2, .seq_q = 4, .seq_kv = 6, .head_dim = 8 };
  attn_recommendation rec;
  attn_plan *plan = NULL;
  float first[64];
  fill(5);
  assert_int_equal(attn_plan_create_for(NULL, &p, "math", &plan), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create_for(c, NULL, "math", &plan), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create_for(c, &p, NULL, &plan), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create_for(c, &p, "math", NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_plan_create_for(c, &p, "maths", &plan), ATTN_ERROR_NOT_FOUND);
  assert_non_null(strstr(attn_last_error(), "maths"));
  assert_int_equal(attn_plan_create_for(c, &p, "cudnn", &plan), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_plan_create_for(c, &p, "flash", &plan), ATTN_ERROR_UNSUPPORTED);
  assert_int_equal(attn_plan_create_for(c, &p, "varlen", &plan), ATTN_ERROR_UNSUPPORTED);
  assert_non_null(strstr(attn_last_error(), "packed"));
  assert_null(plan);
  assert_int_equal(attn_select(c, &p, &rec), ATTN_OK);
  assert_true(rec.alternative_count >= 2);
  for (int i = 0; i < rec.alternative_count; i++) { // every alternative can be tried
    const char *name = rec.alternatives[i].implementation;
    assert_int_equal(attn_plan_create_for(c, &p, name, &plan), ATTN_OK);
    assert_string_equal(attn_plan_implementation(plan), name);
    void *workspace = malloc(attn_plan_workspace(plan) + 1);
    assert_int_equal(
        attn_execute(plan, &(attn_io){ .q = q, .k = k, .v = v, .out = out }, workspace), ATTN_OK);
    for (int x = 0; x < 64; x++) {
      if (!i) first[x] = out[x];
      assert_true(fabsf(out[x] - first[x]) < 1e-5f);
    }
    free(workspace);
    attn_plan_destroy(plan);
  }
  attn_context_destroy(c);
}

static void test_execute_allocates_nothing(void **unused) {
  (void)unused;
  counts n = { 0, 0 };
  attn_context *c = context_of((attn_config){ .allocator = { count_alloc, count_free, &n }, .threads = 3 });
  attn_problem p = { .batch = 2, .heads_q = 4, .seq_q = 50, .seq_kv = 60, .head_dim = 16 };
  attn_plan *plan;
  fill(7);
  assert_int_equal(attn_plan_create(c, &p, &plan), ATTN_OK);
  attn_recommendation rec;
  assert_int_equal(attn_select(c, &p, &rec), ATTN_OK);
  assert_int_equal(rec.workspace_bytes, attn_plan_workspace(plan));
  size_t bytes = attn_plan_workspace(plan);
  unsigned char *workspace = malloc(bytes + 64);
  memset(workspace, 0xcd, bytes + 64);
  attn_io io = { .q = q, .k = k, .v = v, .out = out };
  assert_int_equal(attn_execute(plan, &io, workspace), ATTN_OK); // threads start here
  long before = n.calls;
  for (int i = 0; i < 5; i++) assert_int_equal(attn_execute(plan, &io, workspace), ATTN_OK);
  assert_int_equal(n.calls, before);
  for (size_t i = 0; i < 64; i++) assert_int_equal(workspace[bytes + i], 0xcd);
  free(workspace);
  attn_plan_destroy(plan);
  attn_context_destroy(c);
  assert_int_equal(n.live, 0);
}

/* A host's own threads, here none: bodies run backwards, one after the other. */
static void backwards(void *user, int count, void (*body)(void *arg, int index), void *arg) {
  ++*(int *)user;
  for (int i = count - 1; i >= 0; i--) body(arg, i);
}

static void test_host_parallel_for(void **unused) {
  (void)unused;
  int calls = 0;
  attn_problem p = { .batch = 2, .heads_q = 4, .seq_q = 100, .seq_kv = 60, .head_dim = 16 };
  attn_config config = { .preferred = ATTN_BACKEND_FLASH, .threads = 4 };
  fill(8);
  attn_context *own = context_of(config);
  run(own, &p, (attn_io){ .q = q, .k = k, .v = v, .out = out });
  attn_context_destroy(own);
  config.parallel_for = backwards, config.parallel_for_user = &calls;
  attn_context *hosted = context_of(config);
  run(hosted, &p, (attn_io){ .q = q, .k = k, .v = v, .out = other });
  attn_context_destroy(hosted);
  assert_true(calls > 0);
  assert_memory_equal(out, other, 2 * 4 * 100 * 16 * sizeof(float));
}

/* One plan, many threads at once, each with its own workspace and output. */
static attn_plan *shared_plan;
static void *execute_often(void *arg) {
  float *result = arg;
  void *workspace = malloc(attn_plan_workspace(shared_plan));
  attn_io io = { .q = q, .k = k, .v = v, .out = result };
  for (int i = 0; i < 20; i++)
    if (attn_execute(shared_plan, &io, workspace)) abort();
  free(workspace);
  return NULL;
}

static void test_a_plan_is_shared_by_threads(void **unused) {
  (void)unused;
  enum { THREADS = 4, COUNT = 2 * 50 * 16 };
  static float results[THREADS][COUNT];
  attn_problem p = { .batch = 1, .heads_q = 2, .seq_q = 50, .seq_kv = 600, .head_dim = 16 };
  fill(9);
  attn_context *c = context_of((attn_config){ .threads = 2, .preferred = ATTN_BACKEND_FLASH });
  assert_int_equal(attn_plan_create(c, &p, &shared_plan), ATTN_OK);
  pthread_t threads[THREADS];
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, execute_often, results[i]);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  for (int i = 1; i < THREADS; i++) assert_memory_equal(results[0], results[i], sizeof(results[0]));
  attn_plan_destroy(shared_plan);
  attn_context_destroy(c);
}

static void test_default_context(void **unused) {
  (void)unused;
  assert_non_null(attn_default_context());
  assert_ptr_equal(attn_default_context(), attn_default_context());
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 3 };
  fill(10);
  assert_int_equal(attn_sdpa(NULL, &p, &(attn_io){ .q = q, .k = k, .v = v, .out = out }), ATTN_OK);
  assert_memory_equal(out, v, 3 * sizeof(float));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_backends_agree_with_the_reference),
    cmocka_unit_test(test_mask_probe_is_exact),
    cmocka_unit_test(test_removed_keys_do_not_leak),
    cmocka_unit_test(test_bad_calls_are_errors_and_write_nothing),
    cmocka_unit_test(test_empty_problems_do_nothing),
    cmocka_unit_test(test_a_named_implementation_is_planned),
    cmocka_unit_test(test_execute_allocates_nothing),
    cmocka_unit_test(test_host_parallel_for),
    cmocka_unit_test(test_a_plan_is_shared_by_threads),
    cmocka_unit_test(test_default_context),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
