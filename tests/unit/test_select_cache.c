// SPDX-License-Identifier: Apache-2.0
/* The cache: its key holds everything, it is bounded, and threads that read while others write
 * never get an answer that nobody gave. */
#include "select_support.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "core/alloc.h"
#include "random.h"
#include "select/internal.h"

static cache *new_cache(void) {
  core_allocator a = core_allocator_default();
  cache *c = cache_create(&a);
  assert_non_null(c);
  return c;
}

static void drop(cache *c) {
  core_allocator a = core_allocator_default();
  cache_destroy(c, &a);
}

/* Every field of attn_problem: where it lies. */
#define FIELD(name)                                                                                \
  { #name, offsetof(attn_problem, name), sizeof(((attn_problem *)0)->name) }
static const struct field {
  const char *name;
  size_t offset, size;
} fields[] = {
  FIELD(batch),        FIELD(heads_q),
  FIELD(heads_kv),     FIELD(seq_q),
  FIELD(seq_kv),       FIELD(head_dim),
  FIELD(head_dim_v),   FIELD(dtype),
  FIELD(kv_dtype),     FIELD(out_dtype),
  FIELD(fp8_scale),    FIELD(scale_set),
  FIELD(scale),        FIELD(softcap),
  FIELD(causal),       FIELD(causal_offset),
  FIELD(window),       FIELD(window_left),
  FIELD(window_right), FIELD(window_align),
  FIELD(mask),         FIELD(mask_dtype),
  FIELD(mask_dims),    FIELD(mask_strides),
  FIELD(alibi),        FIELD(alibi_batch_stride),
  FIELD(sinks),        FIELD(score_mod),
  FIELD(kv_lengths),   FIELD(varlen),
  FIELD(total_q),      FIELD(total_kv),
  FIELD(prefix),       FIELD(page_size),
  FIELD(num_pages),    FIELD(pages_per_seq),
  FIELD(dropout),      FIELD(return_lse),
  FIELD(weights),      FIELD(batch_invariant),
  FIELD(layout),       FIELD(q_strides),
  FIELD(k_strides),    FIELD(v_strides),
  FIELD(out_strides),
};

static void test_key_holds_every_field(void **unused) {
  (void)unused;
  size_t covered = 0, end = 0;
  cache_key base, other;
  attn_problem zero;
  memset(&zero, 0, sizeof(zero));
  cache_key_make(&zero, 5, &base);
  for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
    const struct field *f = &fields[i];
    for (size_t byte = 0; byte < f->size; byte++) {
      attn_problem p = zero;
      ((unsigned char *)&p)[f->offset + byte] = 1; // also a legal bool
      cache_key_make(&p, 5, &other);
      if (!memcmp(base.words, other.words, sizeof(base.words)))
        fail_msg("byte %zu of %s is not in the key", byte, f->name);
    }
    // Fields follow each other with less padding than another one would fill.
    assert_true(f->offset >= end && f->offset - end < 8);
    end = f->offset + f->size;
    covered += f->size;
  }
  assert_true(sizeof(attn_problem) - end < 8);
  assert_true(sizeof(attn_problem) - covered < 64);
  cache_key_make(&zero, 6, &other);
  assert_memory_not_equal(base.words, other.words, sizeof(base.words));
}

static void test_questions_are_kept_apart(void **unused) {
  (void)unused;
  static const char *const shapes[] = {
    "--heads 8 --seq 512 --dim 64 --dtype f16",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --mask bool",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --mask bool:*x1x1x*",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --mask f32",
    "--heads 8 --seq 512 --dim 64 --dtype bf16",
    "--heads 8 --seq 512 --dim 64 --dtype f8e4m3",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --causal br",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --dropout 0.125",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --softcap 30",
    "--heads 8 --seq 512 --dim 64 --dtype f16 --window 64:0",
    "--heads 8:2 --seq 512 --dim 64 --dtype f16",
  };
  enum { N = sizeof(shapes) / sizeof(shapes[0]) };
  attn_context *c = context_on("h100-sxm", (attn_config){ 0 });
  attn_recommendation first[N];
  for (int i = 0; i < N; i++) first[i] = choose(c, shapes[i]);
  for (int i = 0; i < N; i++) {
    attn_recommendation again = choose(c, shapes[i]);
    check_consistent(&again);
    assert_string_equal(again.implementation, first[i].implementation);
    assert_string_equal(again.reason, first[i].reason);
    assert_int_equal(again.reason_count, first[i].reason_count);
    assert_memory_equal(again.reasons, first[i].reasons,
                        (size_t)again.reason_count * sizeof(again.reasons[0]));
    assert_memory_equal(again.rejections, first[i].rejections,
                        (size_t)again.rejection_count * sizeof(again.rejections[0]));
    assert_int_equal(again.alternative_count, first[i].alternative_count);
    for (int a = 0; a < again.alternative_count; a++)
      assert_string_equal(again.alternatives[a].implementation,
                          first[i].alternatives[a].implementation);
  }
  attn_cache_stats s = attn_cache_statistics(c);
  assert_int_equal(s.misses, N);
  assert_int_equal(s.hits, N);
  assert_int_equal(s.entries, N);
  attn_cache_clear(c);
  assert_int_equal(attn_cache_statistics(c).entries, 0);
  attn_recommendation masked = choose(c, shapes[1]), plain = choose(c, shapes[0]);
  assert_null(rejected_for(&plain, ATTN_BACKEND_FLASH_V3, ATTN_REASON_MASK));
  assert_non_null(rejected_for(&masked, ATTN_BACKEND_FLASH_V3, ATTN_REASON_MASK));
  assert_int_equal(attn_cache_statistics(c).misses, N + 2);
  attn_context_destroy(c);
}

static void test_errors_are_not_cached_as_answers(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ .memory_budget = 1 });
  attn_problem p = problem_of("--heads 8 --seq 256 --dim 64"), bad = p;
  attn_recommendation r;
  bad.seq_kv = -1;
  for (int i = 0; i < 2; i++) {
    assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_MEMORY_BUDGET);
    assert_int_equal(attn_select(c, &bad, &r), ATTN_ERROR_SHAPE);
  }
  assert_int_equal(attn_cache_statistics(c).entries, 0);
  attn_context_destroy(c);
}

static void test_recording_makes_answers_old(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem p = problem_of("--heads 4 --seq 512 --dim 64");
  choose(c, "--heads 4 --seq 512 --dim 64");
  choose(c, "--heads 4 --seq 512 --dim 64");
  assert_int_equal(attn_cache_statistics(c).hits, 1);
  assert_int_equal(attn_record(c, &p, "math", 1e-3), ATTN_OK);
  assert_int_equal(attn_cache_statistics(c).entries, 0);
  choose(c, "--heads 4 --seq 512 --dim 64");
  assert_int_equal(attn_cache_statistics(c).hits, 1);
  attn_context_destroy(c);
}

static void test_cache_is_bounded(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_recommendation r;
  attn_cache_stats s = { 0 };
  for (int i = 1; i <= 3000; i++) {
    attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = i, .seq_kv = i, .head_dim = 8 };
    assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
    s = attn_cache_statistics(c);
    assert_true(s.entries <= s.capacity);
  }
  assert_true(s.entries > s.capacity * 3 / 4);
  assert_int_equal(s.misses, 3000);
  attn_context_destroy(c);
}

/* What is asked again and again stays while many others pass by once. */
static void test_entries_in_use_stay(void **unused) {
  (void)unused;
  attn_context *c = context_on_cpu((attn_config){ 0 });
  attn_problem hot = problem_of("--heads 4 --seq 512 --dim 64");
  attn_recommendation r;
  for (int i = 1; i <= 4000; i++) {
    attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = i, .seq_kv = i, .head_dim = 8 };
    assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
    assert_int_equal(attn_select(c, &hot, &r), ATTN_OK);
  }
  assert_true(attn_cache_statistics(c).hits > 3950);
  attn_context_destroy(c);
}

/* An answer in which everything follows from one number: a torn one would not fit together. */
static void make_answer(uint64_t number, attn_recommendation *r) {
  memset(r, 0, sizeof(*r));
  r->backend = ATTN_BACKEND_MATH;
  r->flops = (double)number;
  r->alternative_count = 1 + (int)(number % 9);
  r->rejection_count = 1 + (int)(number % 7);
  r->reason_count = (int)(number % 60);
  snprintf(r->reason, sizeof(r->reason), "%llu", (unsigned long long)number);
  for (int i = 0; i < r->alternative_count; i++) r->alternatives[i].time = (double)number + i;
  for (int i = 0; i < r->rejection_count; i++) r->rejections[i].first_reason = (int)(number + 3);
  for (int i = 0; i < r->reason_count; i++) r->reasons[i].value = (double)number;
}

static bool is_answer(const attn_recommendation *r, uint64_t number) {
  attn_recommendation whole;
  make_answer(number, &whole);
  size_t head = offsetof(attn_recommendation, alternatives);
  return !memcmp(r, &whole, head) &&
         !memcmp(r->alternatives, whole.alternatives,
                 (size_t)whole.alternative_count * sizeof(whole.alternatives[0])) &&
         !memcmp(r->rejections, whole.rejections,
                 (size_t)whole.rejection_count * sizeof(whole.rejections[0])) &&
         !memcmp(r->reasons, whole.reasons, (size_t)whole.reason_count * sizeof(whole.reasons[0]));
}

enum { QUESTIONS = 12, ROUNDS = 20000 };

typedef struct worker {
  cache *cache;
  uint64_t seed;
  long torn, hits;
} worker;

/* One set for several questions, so that entries change under readers all the time. The answer to a
 * question is a version of it: number = question + QUESTIONS * version. */
static void *hammer(void *arg) {
  worker *w = arg;
  uint64_t random = w->seed;
  for (int i = 0; i < ROUNDS; i++) {
    uint64_t question = random_next(&random) % QUESTIONS;
    attn_problem p = { .batch = (int64_t)question };
    attn_recommendation r;
    cache_key key;
    cache_key_make(&p, 0, &key);
    key.hash &= ~(uint64_t)0 >> 7; // the first set
    if (cache_get(w->cache, &key, &r)) {
      w->hits++;
      uint64_t number = (uint64_t)r.flops;
      if (number % QUESTIONS != question || !is_answer(&r, number)) w->torn++;
    }
    if (random_next(&random) % 2) {
      make_answer(question + QUESTIONS * (random_next(&random) % 1000), &r);
      cache_put(w->cache, &key, &r);
    }
    if (i % 5000 == 4999) cache_clear(w->cache);
  }
  return NULL;
}

static void test_no_answer_is_torn(void **unused) {
  (void)unused;
  enum { THREADS = 4 };
  cache *c = new_cache();
  pthread_t threads[THREADS];
  worker workers[THREADS];
  long hits = 0;
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){ .cache = c, .seed = (uint64_t)i + 1 };
    assert_int_equal(pthread_create(&threads[i], NULL, hammer, &workers[i]), 0);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    assert_int_equal(workers[i].torn, 0);
    hits += workers[i].hits;
  }
  assert_true(hits > 100);
  attn_cache_stats s = cache_stats(c, 0);
  assert_true(s.hits == hits && s.hits + s.misses == THREADS * ROUNDS);
  drop(c);
}

/* An answer that is too long to keep is given, not kept. */
static void test_long_answers_are_not_kept(void **unused) {
  (void)unused;
  cache *c = new_cache();
  attn_recommendation r, out;
  make_answer(59, &r);
  r.reason_count = ATTN_MAX_REASONS;
  cache_key key;
  cache_key_make(&(attn_problem){ .batch = 1 }, 0, &key);
  cache_put(c, &key, &r);
  assert_false(cache_get(c, &key, &out));
  make_answer(59, &r);
  cache_put(c, &key, &r);
  assert_true(cache_get(c, &key, &out));
  assert_true(is_answer(&out, 59));
  drop(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_key_holds_every_field),
    cmocka_unit_test(test_questions_are_kept_apart),
    cmocka_unit_test(test_errors_are_not_cached_as_answers),
    cmocka_unit_test(test_recording_makes_answers_old),
    cmocka_unit_test(test_cache_is_bounded),
    cmocka_unit_test(test_entries_in_use_stay),
    cmocka_unit_test(test_no_answer_is_torn),
    cmocka_unit_test(test_long_answers_are_not_kept),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
