// SPDX-License-Identifier: Apache-2.0
/* The reference means what attn.h says. Mostly by the mask probe: with q = 0 all scores are equal,
 * and with V the identity a row of the output is 1 / count for each of the `count` keys it attends,
 * which needs no tolerance. Everything that must not be read is NaN. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attn/attn.h"
#include "core/philox.h"
#include "random_problem.h"
#include "structure.h"

enum { ROOM = 1 << 15 };
static float q[ROOM], k[ROOM], v[ROOM];
static double out[ROOM], lse[ROOM], weights[ROOM];

typedef struct lengths {
  int64_t first_q, first_kv, seq_q, seq_kv;
} lengths;

static lengths lengths_of(const attn_problem *p, const attn_io *io, int64_t b) {
  lengths n = { 0, 0, p->seq_q, p->seq_kv };
  if (p->varlen) n.first_q = io->cu_seqlens_q[b], n.seq_q = io->cu_seqlens_q[b + 1] - n.first_q;
  if (p->varlen && !p->page_size)
    n.first_kv = io->cu_seqlens_kv[b], n.seq_kv = io->cu_seqlens_kv[b + 1] - n.first_kv;
  if (p->kv_lengths) n.seq_kv = io->kv_len[b];
  return n;
}

/* Where row j of a KV head of sequence b lies, in rows. */
static int64_t kv_row(const attn_problem *p, const attn_io *io, int64_t b, int64_t head,
                      int64_t j) {
  if (p->page_size) {
    int64_t page = io->block_table[b * p->pages_per_seq + j / p->page_size];
    return (page * p->page_size + j % p->page_size) * p->heads_kv + head;
  }
  if (p->varlen) return (io->cu_seqlens_kv[b] + j) * p->heads_kv + head;
  return (b * p->heads_kv + head) * p->seq_kv + j;
}

typedef bool sees(void *user, const attn_problem *p, const lengths *n, int64_t b, int64_t h,
                  int64_t i, int64_t j);

static bool by_structure(void *user, const attn_problem *p, const lengths *n, int64_t b, int64_t h,
                         int64_t i, int64_t j) {
  (void)user, (void)b, (void)h;
  return structure_sees(p, i, j, n->seq_q, n->seq_kv);
}

static void place_identity(const attn_problem *p, const attn_io *io) {
  for (int64_t x = 0; x < ROOM; x++) q[x] = 0, k[x] = v[x] = NAN;
  for (int64_t b = 0; b < p->batch; b++) {
    lengths n = lengths_of(p, io, b);
    for (int64_t head = 0; head < p->heads_kv; head++)
      for (int64_t j = 0; j < n.seq_kv; j++) {
        int64_t row = kv_row(p, io, b, head, j);
        k[row] = 1;
        for (int64_t c = 0; c < p->head_dim_v; c++) v[row * p->head_dim_v + c] = c == j ? 1 : 0;
      }
  }
}

static void run(const attn_problem *p, attn_io io) {
  for (int64_t x = 0; x < ROOM; x++) out[x] = lse[x] = weights[x] = -77;
  io.q = q, io.k = k, io.v = v;
  if (attn_reference(p, &io, out, lse, weights)) fail_msg("%s", attn_last_error());
}

/* Runs the probe and compares every row with what `attends` says. head_dim is 1, head_dim_v seq_kv.
 */
static void probe(attn_problem p, attn_io io, sees *attends, void *user) {
  char text[512];
  p.head_dim = 1;
  p.head_dim_v = p.seq_kv ? p.seq_kv : 1;
  if (!p.heads_kv) p.heads_kv = p.heads_q;
  attn_problem_format(&p, text, sizeof(text));
  place_identity(&p, &io);
  run(&p, io);
  for (int64_t b = 0; b < p.batch; b++) {
    lengths n = lengths_of(&p, &io, b);
    for (int64_t h = 0; h < p.heads_q; h++)
      for (int64_t i = 0; i < n.seq_q; i++) {
        int64_t row = (b * p.heads_q + h) * p.seq_q + i, count = 0;
        double l = lse[p.varlen ? h * p.total_q + n.first_q + i : row];
        const double *o = out + (p.varlen ? (n.first_q + i) * p.heads_q + h : row) * p.head_dim_v;
        for (int64_t j = 0; j < n.seq_kv; j++) count += attends(user, &p, &n, b, h, i, j);
        for (int64_t c = 0; c < p.head_dim_v; c++) {
          bool one = c < n.seq_kv && attends(user, &p, &n, b, h, i, c);
          if (o[c] != (one ? 1.0 / (double)count : 0))
            fail_msg("row (%d, %d, %d) has %g for key %d: %s", (int)b, (int)h, (int)i, o[c], (int)c,
                     text);
        }
        if (l != (count ? log((double)count) : -INFINITY))
          fail_msg("row (%d, %d, %d) has LSE %g: %s", (int)b, (int)h, (int)i, l, text);
      }
  }
}

static attn_problem shape(int64_t seq_q, int64_t seq_kv) {
  return (attn_problem){ .batch = 1, .heads_q = 1, .seq_q = seq_q, .seq_kv = seq_kv };
}

static void expect_row(int64_t row, int64_t dim, const double *expected) {
  for (int64_t c = 0; c < dim; c++) assert_true(out[row * dim + c] == expected[c]);
}
#define EXPECT_ROW(row, ...)                                                                       \
  expect_row(row, sizeof((double[]){ __VA_ARGS__ }) / sizeof(double), (double[]){ __VA_ARGS__ })

static void test_causal_alignment(void **state) {
  (void)state;
  attn_problem p = shape(1, 5);
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(0, 1, 0, 0, 0, 0);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(0, .2, .2, .2, .2, .2);
  p.seq_q = 2;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(0, .25, .25, .25, .25, 0);
  EXPECT_ROW(1, .2, .2, .2, .2, .2);
  assert_true(fabs(lse[0] - 1.3863) < 5e-5 && fabs(lse[1] - 1.6094) < 5e-5);
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(0, 1, 0, 0, 0, 0);
  EXPECT_ROW(1, .5, .5, 0, 0, 0);
  assert_true(lse[0] == 0 && fabs(lse[1] - .6931) < 5e-5);
  p = shape(5, 2); // more queries than keys: leading rows are empty
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  for (int i = 0; i < 3; i++) {
    EXPECT_ROW(i, 0, 0);
    assert_true(lse[i] == -INFINITY);
  }
  EXPECT_ROW(3, 1, 0);
  EXPECT_ROW(4, .5, .5);
  p.causal = ATTN_CAUSAL_TOP_LEFT;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(0, 1, 0);
  for (int i = 1; i < 5; i++) EXPECT_ROW(i, .5, .5);
}

static void test_window(void **state) {
  (void)state;
  attn_problem p = shape(8, 8);
  p.window = true, p.window_left = 2, p.window_right = 0;
  probe(p, (attn_io){ 0 }, by_structure, NULL);
  EXPECT_ROW(5, 0, 0, 0, 1. / 3, 1. / 3, 1. / 3, 0, 0);
}

static void test_key_lengths(void **state) {
  (void)state;
  static const int32_t kv_len[3] = { 3, 0, 7 };
  attn_problem p = { .batch = 3, .heads_q = 2, .seq_q = 2, .seq_kv = 7, .kv_lengths = true };
  probe(p, (attn_io){ .kv_len = kv_len }, by_structure, NULL);
  EXPECT_ROW(0, 1. / 3, 1. / 3, 1. / 3, 0, 0, 0, 0);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT; // on the sequence's own length
  probe(p, (attn_io){ .kv_len = kv_len }, by_structure, NULL);
  EXPECT_ROW(0, .5, .5, 0, 0, 0, 0, 0);
}

static void test_packed_sequences_do_not_see_each_other(void **state) {
  (void)state;
  static const int32_t cu_q[5] = { 0, 2, 2, 5, 6 }, cu_kv[5] = { 0, 3, 7, 7, 9 };
  attn_problem p = { .batch = 4, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_kv = 4 };
  p.varlen = true, p.total_q = 6, p.total_kv = 9;
  attn_io io = { .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv };
  for (int c = 0; c < 3; c++) {
    p.causal = (attn_causal)c;
    probe(p, io, by_structure, NULL);
  }
}

static void test_pages_are_found_and_others_not_read(void **state) {
  (void)state;
  // Used pages in any order, NaN in every other; entries past the length are not page numbers.
  static const int32_t table[2][4] = { { 6, 1, 4, -1 }, { 3, 0, -9, 99 } };
  static const int32_t kv_len[2] = { 8, 5 };
  attn_problem p = { .batch = 2, .heads_q = 4, .heads_kv = 2, .seq_q = 3, .seq_kv = 9 };
  p.page_size = 3, p.num_pages = 8, p.pages_per_seq = 4, p.kv_lengths = true;
  attn_io io = { .kv_len = kv_len, .block_table = table[0] };
  probe(p, io, by_structure, NULL);
  p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  probe(p, io, by_structure, NULL);
  static const int32_t cu_q[3] = { 0, 1, 4 };
  p.varlen = true, p.total_q = 4, io.cu_seqlens_q = cu_q;
  probe(p, io, by_structure, NULL);
}

/* The head of K and V that a query head reads: V of KV head g is all g + 1. */
static void test_head_groups(void **state) {
  (void)state;
  attn_problem p = { .batch = 1, .heads_q = 6, .heads_kv = 2, .seq_q = 1, .seq_kv = 2 };
  p.head_dim = p.head_dim_v = 1;
  for (int x = 0; x < 4; x++) k[x] = 0, v[x] = (float)(x / 2 + 1);
  run(&p, (attn_io){ 0 });
  for (int h = 0; h < 6; h++) assert_true(out[h] == h / 3 + 1);
}

static bool by_bool_mask(void *user, const attn_problem *p, const lengths *n, int64_t b, int64_t h,
                         int64_t i, int64_t j) {
  const uint8_t *mask = user;
  return structure_sees(p, i, j, n->seq_q, n->seq_kv) &&
         mask[((b * p->heads_q + h) * p->seq_q + i) * p->seq_kv + j];
}

static void test_masks_and_causal_are_both_kept(void **state) {
  (void)state;
  static const uint8_t row[4] = { 1, 0, 1, 1 };
  static uint8_t mask[2 * 2 * 6 * 10];
  attn_problem p = shape(4, 4);
  p.causal = ATTN_CAUSAL_TOP_LEFT, p.mask = ATTN_MASK_BOOL;
  p.mask_dims[0] = p.mask_dims[1] = p.mask_dims[2] = 1;
  for (int i = 0; i < 16; i++) mask[i] = row[i % 4];
  probe(p, (attn_io){ .mask = row }, by_bool_mask, mask);
  EXPECT_ROW(1, 1, 0, 0, 0);
  p = (attn_problem){ .batch = 2, .heads_q = 2, .seq_q = 6, .seq_kv = 10, .mask = ATTN_MASK_BOOL };
  for (int i = 0; i < 240; i++) mask[i] = (uint8_t)(i * 37 % 5 > 1) * 255; // any non-zero keeps
  memset(mask + 50, 0, 10); // row 5 of head 0 has nothing left
  probe(p, (attn_io){ .mask = mask }, by_bool_mask, mask);
  assert_true(lse[5] == -INFINITY && out[50] == 0);
}

static bool before_key_3(void *user, const attn_problem *p, const lengths *n, int64_t b, int64_t h,
                         int64_t i, int64_t j) {
  (void)user, (void)p, (void)n, (void)b, (void)h, (void)i;
  return j < 3;
}

static void test_a_short_mask_removes_the_keys_past_it(void **state) {
  (void)state;
  static const uint8_t keep[3] = { 1, 1, 1 };
  static const float zero[1] = { 0 }, zeros[3] = { 0 };
  attn_problem p = shape(2, 5);
  p.mask = ATTN_MASK_BOOL;
  p.mask_dims[0] = p.mask_dims[1] = p.mask_dims[2] = 1, p.mask_dims[3] = 3;
  probe(p, (attn_io){ .mask = keep }, before_key_3, NULL);
  p.mask = ATTN_MASK_ADDITIVE;
  probe(p, (attn_io){ .mask = zeros }, before_key_3, NULL);
  p.mask_dims[3] = 1; // a single column is broadcast
  probe(p, (attn_io){ .mask = zero }, by_structure, NULL);
}

/* Random structure against its definition. */
static void test_random_structure(void **state) {
  (void)state;
  const uint64_t seed = 1234;
  uint64_t r = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 3000; n++) {
    attn_problem p = { 0 };
    int32_t cu_q[4] = { 0 }, cu_kv[4] = { 0 }, kv_len[3] = { 0 }, table[3 * 19];
    random_problem_sizes(&r, &p);
    random_problem_masks(&r, &p);
    p.mask = ATTN_MASK_NONE;
    p.varlen = random_chance(&r, 3);
    if (random_chance(&r, 3)) p.page_size = random_int(&r, 1, 4);
    if (p.page_size) p.pages_per_seq = p.seq_kv / p.page_size + 1;
    p.num_pages = p.batch * p.pages_per_seq;
    for (int64_t x = 0; x < p.num_pages; x++) table[x] = (int32_t)(p.num_pages - 1 - x);
    p.kv_lengths = (p.page_size || !p.varlen) && random_chance(&r, 2);
    for (int64_t b = 0; b < p.batch; b++) {
      kv_len[b] = (int32_t)random_int(&r, 0, p.seq_kv);
      cu_q[b + 1] = cu_q[b] + (int32_t)random_int(&r, 0, p.seq_q);
      cu_kv[b + 1] = cu_kv[b] + (int32_t)random_int(&r, 0, p.seq_kv);
    }
    if (p.varlen) p.total_q = cu_q[p.batch], p.total_kv = cu_kv[p.batch];
    attn_io io = {
      .kv_len = kv_len, .cu_seqlens_q = cu_q, .cu_seqlens_kv = cu_kv, .block_table = table
    };
    probe(p, io, by_structure, NULL);
  }
}

static void expect_near(double got, double expected, double tolerance) {
  if (!(fabs(got - expected) <= tolerance)) fail_msg("%.9g, not %.9g", got, expected);
}

/* One row of scores q * k; V the identity. */
static attn_problem row_of(int keys, const float *scores) {
  attn_problem p = shape(1, keys);
  p.head_dim = 1, p.head_dim_v = keys, p.scale = 1;
  q[0] = 1;
  for (int j = 0; j < keys; j++) {
    k[j] = scores[j];
    for (int c = 0; c < keys; c++) v[j * keys + c] = c == j ? 1 : 0;
  }
  return p;
}

static void test_scale(void **state) {
  (void)state;
  attn_problem p = row_of(2, (const float[]){ 1, -1 });
  p.scale = -2;
  run(&p, (attn_io){ 0 });
  expect_near(out[0], .0180, 5e-5);
  expect_near(out[1], .9820, 5e-5);
  expect_near(lse[0], 2.0181, 5e-5);
  p.scale = -1e4f;
  run(&p, (attn_io){ 0 });
  EXPECT_ROW(0, 0, 1);
  p.scale_set = true, p.scale = 0; // causal after scaling: the mean of what is left
  p.seq_q = 2, q[1] = 5, p.causal = ATTN_CAUSAL_TOP_LEFT;
  run(&p, (attn_io){ 0 });
  EXPECT_ROW(0, 1, 0);
  EXPECT_ROW(1, .5, .5);
  p = row_of(2, (const float[]){ 3, 1 });
  p.scale = 0, p.head_dim = 4; // default: 1 / sqrt(4)
  const float wide_k[8] = { 1, 1, 1, 1, 0, 0, 0, 0 };
  memcpy(k, wide_k, sizeof(wide_k));
  for (int c = 0; c < 4; c++) q[c] = 1;
  run(&p, (attn_io){ 0 });
  expect_near(out[0], 1 / (1 + exp(-2)), 1e-15);
}

static void test_softcap_is_after_scale_and_before_masks(void **state) {
  (void)state;
  static const float mask[2] = { 0, 3 };
  attn_problem p = row_of(2, (const float[]){ 200, 0 });
  p.scale = .5f, p.softcap = 50; // scores [100, 0]
  run(&p, (attn_io){ 0 });
  expect_near(lse[0], 48.2014, 5e-5);
  p.mask = ATTN_MASK_ADDITIVE;
  p.scale = .005f, p.softcap = 2;
  run(&p, (attn_io){ .mask = mask });
  double a = 2 * tanh(.005f * 200.0 / 2), b = 3;
  expect_near(lse[0], log(exp(a) + exp(b)), 1e-14);
  p.softcap = 0; // off
  run(&p, (attn_io){ .mask = mask });
  expect_near(lse[0], log(exp((double).005f * 200) + exp(b)), 1e-14);
}

static void test_sinks(void **state) {
  (void)state;
  static const float zero[1] = { 0 }, none[1] = { -INFINITY }, large[1] = { 500 };
  static const uint8_t nothing[3] = { 0 };
  attn_problem p = row_of(3, (const float[]){ 0, 0, 0 });
  run(&p, (attn_io){ 0 });
  expect_near(lse[0], 1.0986, 5e-5); // ln 3: natural logarithm
  p.sinks = true;
  run(&p, (attn_io){ .sinks = zero });
  EXPECT_ROW(0, .25, .25, .25);
  assert_true(lse[0] == log(4));
  run(&p, (attn_io){ .sinks = none });
  EXPECT_ROW(0, 1. / 3, 1. / 3, 1. / 3);
  assert_true(lse[0] == log(3));
  run(&p, (attn_io){ .sinks = large });
  assert_true(lse[0] == 500);
  p.mask = ATTN_MASK_BOOL;
  run(&p, (attn_io){ .sinks = large, .mask = nothing });
  EXPECT_ROW(0, 0, 0, 0);
  assert_true(lse[0] == 500);
  run(&p, (attn_io){ .sinks = none, .mask = nothing });
  EXPECT_ROW(0, 0, 0, 0);
  assert_true(lse[0] == -INFINITY);
}

static void test_alibi(void **state) {
  (void)state;
  static const float slopes[4] = { .5f, 1, 2, 4 };
  attn_problem p = { .batch = 2, .heads_q = 2, .seq_q = 2, .seq_kv = 3, .head_dim = 1 };
  p.alibi = true, p.alibi_batch_stride = 2, p.weights = ATTN_WEIGHTS_MASKED;
  for (int x = 0; x < 12; x++) q[x] = k[x] = v[x] = 0;
  for (int top_left = 0; top_left < 2; top_left++) {
    p.window_align = top_left ? ATTN_CAUSAL_TOP_LEFT : ATTN_CAUSAL_NONE;
    run(&p, (attn_io){ .alibi_slopes = slopes });
    for (int x = 0; x < 24; x++) {
      int j = x % 3, i = x / 3 % 2, bh = x / 6, diagonal = top_left ? 0 : 1;
      assert_true(weights[x] == -(double)slopes[bh] * abs(i + diagonal - j));
    }
  }
}

/* Removes odd keys; marks what it was called with. */
static void odd_keys(void *user, float *scores, int64_t ld, int64_t batch, int lanes,
                     const int64_t *head, const int64_t *q_index, int64_t kv_begin,
                     int64_t kv_count) {
  (void)user;
  for (int64_t j = 0; j < kv_count; j++)
    for (int l = 0; l < lanes; l++) {
      int64_t key = kv_begin + j;
      float mark = (float)(batch * 1000 + head[l] * 100 + q_index[l] * 10 + key);
      scores[j * ld + l] = key % 2 ? -INFINITY : scores[j * ld + l] + mark;
    }
}

static void test_score_mod(void **state) {
  (void)state;
  attn_problem p = { .batch = 2, .heads_q = 3, .seq_q = 2, .seq_kv = 4, .head_dim = 1, .scale = 1 };
  p.score_mod = true, p.softcap = 2, p.weights = ATTN_WEIGHTS_MASKED;
  for (int x = 0; x < 24; x++) q[x] = 1, k[x] = 4, v[x] = x % 2 ? NAN : 1;
  run(&p, (attn_io){ .score_mod = odd_keys });
  for (int x = 0; x < 48; x++) {
    int j = x % 4, i = x / 4 % 2, h = x / 8 % 3, b = x / 24;
    float after_cap = (float)(2 * tanh(2));
    float mark = (float)(b * 1000 + h * 100 + i * 10 + j);
    assert_true(weights[x] == (j % 2 ? -INFINITY : (double)(after_cap + mark)));
  }
  for (int x = 0; x < 12; x++) expect_near(out[x], 1, 1e-15); // removed keys have NaN values
}

static void test_weights(void **state) {
  (void)state;
  static const uint8_t mask[3] = { 1, 0, 1 };
  static const int32_t kv_len[2] = { 3, 2 };
  attn_problem p = { .batch = 2, .heads_q = 1, .seq_q = 2, .seq_kv = 3, .head_dim = 1, .scale = 2 };
  p.softcap = 5, p.mask = ATTN_MASK_BOOL, p.kv_lengths = true, p.dropout = .9f;
  p.mask_dims[0] = p.mask_dims[1] = p.mask_dims[2] = 1;
  for (int x = 0; x < 6; x++) q[x] = (float)(x % 3 + 1), k[x] = (float)(x % 5 - 1), v[x] = 1;
  attn_io io = { .mask = mask, .kv_len = kv_len };
  double probs[12], columns[6] = { 0 };
  p.weights = ATTN_WEIGHTS_PROBS;
  run(&p, io);
  memcpy(probs, weights, sizeof(probs));
  for (int w = 1; w < ATTN_WEIGHTS_COUNT; w++) {
    p.weights = (attn_weights)w;
    run(&p, io);
    for (int x = 0; x < 12; x++) {
      int j = x % 3, i = x / 3 % 2, b = x / 6;
      double score = 2.0 * (double)(q[b * 2 + i] * k[b * 3 + j]), cap = 5 * tanh(score / 5);
      bool exists = j < kv_len[b], kept = exists && mask[j];
      if (w == ATTN_WEIGHTS_SCORES) assert_true(weights[x] == (exists ? score : -INFINITY));
      if (w == ATTN_WEIGHTS_CAPPED) assert_true(weights[x] == (exists ? cap : -INFINITY));
      if (w == ATTN_WEIGHTS_MASKED) assert_true(weights[x] == (kept ? cap : -INFINITY));
      if (w == ATTN_WEIGHTS_PROBS)
        expect_near(weights[x], kept ? exp(cap - lse[b * 2 + i]) : 0, 1e-15);
      if (w == ATTN_WEIGHTS_PROBS) columns[b * 3 + j] += probs[x];
    }
  }
  for (int x = 0; x < 6; x++) assert_true(weights[x] == columns[x]);
  assert_true(weights[6] == -77); // and nothing beyond
}

static void test_dropout_scales_what_it_keeps(void **state) {
  (void)state;
  attn_problem p = { .batch = 2, .heads_q = 2, .seq_q = 3, .seq_kv = 9, .head_dim = 1 };
  p.head_dim_v = 9, p.dropout = 0.375f, p.weights = ATTN_WEIGHTS_PROBS;
  attn_io io = { .dropout_seed = 5, .dropout_offset = 1000 };
  p.heads_kv = 2;
  place_identity(&p, &io);
  for (int x = 0; x < 36; x++) k[x] = (float)x / 8, q[x % 12] = 1;
  run(&p, io);
  for (int x = 0; x < 108; x++) { // probabilities are those before dropout
    bool keep = philox_keep(5, 1000, (uint64_t)x / 9, (uint64_t)x % 9, p.dropout);
    assert_true(out[x] == (keep ? weights[x] / 0.625 : 0));
  }
}

static void test_masks_of_very_negative_numbers_are_ordinary(void **state) {
  (void)state;
  const float lowest = -3.402823466e38f;
  const float mask[3] = { lowest, lowest, lowest };
  attn_problem p = row_of(3, (const float[]){ 1, 2, 3 });
  p.mask = ATTN_MASK_ADDITIVE;
  run(&p, (attn_io){ .mask = mask });
  EXPECT_ROW(0, 1. / 3, 1. / 3, 1. / 3);      // the scores drown
  const uint16_t f16[2] = { 0xfbff, 0xfbff }; // -65504; a sum in f16 would be -inf
  p = row_of(2, (const float[]){ -20, -21 });
  p.mask = ATTN_MASK_ADDITIVE, p.mask_dtype = ATTN_F16;
  run(&p, (attn_io){ .mask = f16 });
  expect_near(out[0], 1 / (1 + exp(-1)), 1e-10);
}

static void test_nan_goes_where_it_is_attended_and_nowhere_else(void **state) {
  (void)state;
  static const uint8_t first[2] = { 1, 0 };
  static const float removed[2] = { 0, -INFINITY };
  static const int32_t one[1] = { 1 };
  for (int poison = 0; poison < 4; poison++) {
    attn_problem p = row_of(2, (const float[]){ 1, 2 });
    float bad = poison % 2 ? NAN : INFINITY;
    if (poison < 2)
      k[1] = bad;
    else
      v[2] = v[3] = bad;
    p.mask = ATTN_MASK_BOOL;
    run(&p, (attn_io){ .mask = first });
    EXPECT_ROW(0, 1, 0);
    p.mask = ATTN_MASK_ADDITIVE;
    run(&p, (attn_io){ .mask = removed });
    EXPECT_ROW(0, 1, 0);
    p.mask = ATTN_MASK_NONE, p.kv_lengths = true;
    run(&p, (attn_io){ .kv_len = one });
    EXPECT_ROW(0, 1, 0);
    assert_true(lse[0] == 1);
    p.kv_lengths = false, p.causal = ATTN_CAUSAL_TOP_LEFT;
    run(&p, (attn_io){ 0 });
    EXPECT_ROW(0, 1, 0);
    p.causal = ATTN_CAUSAL_NONE;
    run(&p, (attn_io){ 0 });
    assert_true(isnan(out[1]) || isinf(out[1]));
  }
  attn_problem p = row_of(2, (const float[]){ 1, 2 });
  q[0] = NAN;
  run(&p, (attn_io){ 0 });
  assert_true(isnan(out[0]) && isnan(out[1]) && isnan(lse[0]));
  p.mask = ATTN_MASK_BOOL, p.weights = ATTN_WEIGHTS_PROBS, p.dropout = 0.999f;
  run(&p, (attn_io){ .mask = first }); // a removed key has weight 0 beside a NaN
  assert_true(isnan(weights[0]) && weights[1] == 0);
  assert_true(isnan(out[0])); // and dropping does not hide it
  p.weights = ATTN_WEIGHTS_NONE, p.dropout = 0;
  p.mask = ATTN_MASK_ADDITIVE;
  const float nan_mask[2] = { NAN, 0 };
  q[0] = 1;
  run(&p, (attn_io){ .mask = nan_mask });
  assert_true(isnan(out[0]) && isnan(lse[0]));
}

static void test_sizes_of_zero_and_one(void **state) {
  (void)state;
  for (int x = 0; x < ROOM; x++) q[x] = k[x] = v[x] = 1;
  for (int bits = 0; bits < 64; bits++) {
    attn_problem p = { .batch = bits & 1,
                       .heads_q = bits >> 1 & 1,
                       .seq_q = bits >> 2 & 1,
                       .seq_kv = bits >> 3 & 1,
                       .head_dim = 1 + (bits >> 4 & 1),
                       .head_dim_v = 1 + (bits >> 5 & 1) };
    run(&p, (attn_io){ 0 });
    bool row = p.batch && p.heads_q && p.seq_q;
    for (int c = 0; c < 3; c++) {
      double expected = !row || c >= p.head_dim_v ? -77 : p.seq_kv ? 1 : 0;
      assert_true(out[c] == expected);
    }
    if (row && !p.seq_kv) assert_true(lse[0] == -INFINITY);
  }
}

static void test_faults_leave_outputs_alone(void **state) {
  (void)state;
  attn_problem p = row_of(2, (const float[]){ 1, 2 });
  attn_io io = { .q = q, .k = k };
  out[0] = lse[0] = -77;
  assert_int_equal(attn_reference(&p, &io, out, lse, NULL), ATTN_ERROR_NULL);
  io.v = v;
  assert_int_equal(attn_reference(&p, &io, NULL, lse, NULL), ATTN_ERROR_NULL);
  assert_non_null(strstr(attn_last_error(), "out"));
  assert_int_equal(attn_reference(&p, NULL, out, lse, NULL), ATTN_ERROR_NULL);
  assert_int_equal(attn_reference(NULL, &io, out, lse, NULL), ATTN_ERROR_NULL);
  p.head_dim = 0;
  assert_int_equal(attn_reference(&p, &io, out, lse, NULL), ATTN_ERROR_SHAPE);
  assert_true(out[0] == -77 && lse[0] == -77);
  p.head_dim = 1; // outputs of io are not needed, nor are lse and weights
  assert_int_equal(attn_reference(&p, &io, out, NULL, NULL), ATTN_OK);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_causal_alignment),
    cmocka_unit_test(test_window),
    cmocka_unit_test(test_key_lengths),
    cmocka_unit_test(test_packed_sequences_do_not_see_each_other),
    cmocka_unit_test(test_pages_are_found_and_others_not_read),
    cmocka_unit_test(test_head_groups),
    cmocka_unit_test(test_masks_and_causal_are_both_kept),
    cmocka_unit_test(test_a_short_mask_removes_the_keys_past_it),
    cmocka_unit_test(test_random_structure),
    cmocka_unit_test(test_scale),
    cmocka_unit_test(test_softcap_is_after_scale_and_before_masks),
    cmocka_unit_test(test_sinks),
    cmocka_unit_test(test_alibi),
    cmocka_unit_test(test_score_mod),
    cmocka_unit_test(test_weights),
    cmocka_unit_test(test_dropout_scales_what_it_keeps),
    cmocka_unit_test(test_masks_of_very_negative_numbers_are_ordinary),
    cmocka_unit_test(test_nan_goes_where_it_is_attended_and_nowhere_else),
    cmocka_unit_test(test_sizes_of_zero_and_one),
    cmocka_unit_test(test_faults_leave_outputs_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
