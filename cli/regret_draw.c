// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "problem_gen.h"
#include "regret.h"

/* Longest call of the yardstick, and of f64, whose loops are plain. */
static const double MOST_FLOPS = 6e9, MOST_F64_FLOPS = 1e8;

#define COUNT(array) (int64_t)(sizeof(array) / sizeof((array)[0]))
#define PICK(s, array) (array)[gen_between(s, 0, COUNT(array) - 1)]

/* Whole numbers whose logarithm is uniform. */
static int64_t draw_log(uint64_t *s, int64_t low, int64_t high) {
  double u = (double)(gen_random(s) >> 11) * 0x1p-53;
  return (int64_t)((double)low * exp(u * log(((double)high + 0.999) / (double)low)));
}

static void draw_heads(uint64_t *s, attn_problem *p, int64_t most) {
  static const int64_t groups[] = { 1, 1, 1, 2, 4, 4, 8, 16 };
  p->heads_kv = draw_log(s, 1, most);
  p->heads_q = p->heads_kv * PICK(s, groups);
}

static void draw_prefill(uint64_t *s, attn_problem *p) {
  p->batch = draw_log(s, 1, 8);
  draw_heads(s, p, 32);
  p->seq_q = draw_log(s, 32, 4096);
  p->seq_kv = gen_one_in(s, 4) ? draw_log(s, 32, 8192) : p->seq_q;
}

static void draw_decode(uint64_t *s, attn_problem *p) {
  p->batch = draw_log(s, 1, 16);
  draw_heads(s, p, 16);
  p->seq_q = gen_one_in(s, 4) ? draw_log(s, 2, 16) : 1;
  p->seq_kv = draw_log(s, 64, 131072);
}

static void draw_small(uint64_t *s, attn_problem *p) {
  p->batch = draw_log(s, 1, 4);
  draw_heads(s, p, 8);
  p->seq_q = draw_log(s, 1, 96);
  p->seq_kv = gen_one_in(s, 2) ? draw_log(s, 1, 96) : p->seq_q;
}

/* Totals between a quarter and nine tenths of all being the longest. */
static void draw_ragged(uint64_t *s, attn_problem *p) {
  p->varlen = true;
  p->batch = draw_log(s, 2, 64);
  draw_heads(s, p, 16);
  p->seq_kv = draw_log(s, 16, 4096);
  p->seq_q = gen_one_in(s, 4) ? 1 : p->seq_kv;
  p->total_kv = p->batch * p->seq_kv * gen_between(s, 25, 90) / 100;
  p->total_q = p->seq_q == 1 ? p->batch : p->total_kv;
}

static void draw_types(uint64_t *s, attn_problem *p, bool decode) {
  static const attn_dtype types[] = { ATTN_F32,  ATTN_F32,  ATTN_F32,    ATTN_F32,
                                      ATTN_BF16, ATTN_BF16, ATTN_F16,    ATTN_F16,
                                      ATTN_BF16, ATTN_F16,  ATTN_F8E4M3, ATTN_F8E5M2 };
  static const attn_dtype caches[] = { ATTN_F16,  ATTN_BF16, ATTN_INT8,   ATTN_INT8,  ATTN_Q8_0,
                                       ATTN_Q8_0, ATTN_Q4_0, ATTN_F8E4M3, ATTN_F8E5M2 };
  p->dtype = gen_one_in(s, 50) ? ATTN_F64 : PICK(s, types);
  if (p->dtype != ATTN_F64 && gen_one_in(s, decode ? 2 : 8)) p->kv_dtype = PICK(s, caches);
}

static void draw_dims(uint64_t *s, attn_problem *p) {
  static const int64_t dims[] = { 32, 48, 64, 64, 72, 80, 96, 112, 128, 128, 128, 192, 256 };
  p->head_dim = PICK(s, dims);
  if (gen_one_in(s, 20)) p->head_dim_v = PICK(s, dims);
  if (gen_one_in(s, 30)) p->head_dim = 576, p->head_dim_v = 512;
  if (p->kv_dtype != ATTN_Q8_0 && p->kv_dtype != ATTN_Q4_0) return;
  p->head_dim = (p->head_dim + 31) / 32 * 32; // whole blocks
  p->head_dim_v = (p->head_dim_v + 31) / 32 * 32;
}

static void draw_mask(uint64_t *s, attn_problem *p) {
  static const attn_dtype types[] = { ATTN_F32, ATTN_F16, ATTN_BF16 };
  if (p->varlen || !gen_one_in(s, 7)) return;
  p->mask = gen_one_in(s, 2) ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
  if (p->mask == ATTN_MASK_ADDITIVE) p->mask_dtype = PICK(s, types);
  p->mask_dims[0] = gen_one_in(s, 2) ? 1 : p->batch;
  p->mask_dims[1] = 1;
  p->mask_dims[2] = gen_one_in(s, 2) ? 1 : p->seq_q;
  p->mask_dims[3] = p->seq_kv;
}

static void draw_features(uint64_t *s, attn_problem *p) {
  if (!gen_one_in(s, 3)) p->causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  if (gen_one_in(s, 7)) {
    p->window = true;
    p->window_left = draw_log(s, 16, 4096);
    p->window_right = p->causal ? 0 : draw_log(s, 1, 256);
  }
  draw_mask(s, p);
  p->softcap = gen_one_in(s, 20) ? 30.0f : 0;
  p->alibi = gen_one_in(s, 20);
  p->sinks = gen_one_in(s, 20);
  p->return_lse = gen_one_in(s, 8);
  p->dropout = gen_one_in(s, 40) ? 0.1f : 0;
  p->layout = gen_one_in(s, 3) ? ATTN_LAYOUT_BSHD : ATTN_LAYOUT_BHSD;
  if (p->varlen || !gen_one_in(s, 10)) return;
  p->page_size = 16;
  p->pages_per_seq = (p->seq_kv + 15) / 16;
  p->num_pages = p->batch * p->pages_per_seq;
}

static bool fits(const attn_problem *p) {
  attn_problem_size z;
  if (attn_problem_measure(p, &z)) return false;
  double bytes = (double)z.q_bytes + (double)z.k_bytes + (double)z.v_bytes + (double)z.out_bytes +
                 (double)z.mask_bytes;
  return bytes <= REGRET_TENSOR_BYTES && z.scores_bytes <= REGRET_TENSOR_BYTES &&
         z.flops <= (p->dtype == ATTN_F64 ? MOST_F64_FLOPS : MOST_FLOPS);
}

void regret_draw(uint64_t seed, int64_t index, attn_problem *p) {
  uint64_t state = seed * 0x2545f4914f6cdd1du + (uint64_t)index;
  gen_random(&state);
  int64_t kind = gen_between(&state, 0, 9);
  do { // the bounds are on products, so that each size alone may be large
    *p = (attn_problem){ 0 };
    if (kind < 4)
      draw_prefill(&state, p);
    else if (kind < 7)
      draw_decode(&state, p);
    else if (kind < 9)
      draw_small(&state, p);
    else
      draw_ragged(&state, p);
    draw_types(&state, p, p->seq_q == 1);
    draw_dims(&state, p);
    draw_features(&state, p);
  } while (!fits(p));
}
