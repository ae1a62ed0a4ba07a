// SPDX-License-Identifier: Apache-2.0
#include "problem_gen.h"

#include <math.h>
#include <stdlib.h>

uint64_t gen_random(uint64_t *state) { // SplitMix64, Steele, Lea and Flood 2014
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

int64_t gen_between(uint64_t *s, int64_t low, int64_t high) {
  return low + (int64_t)(gen_random(s) % (uint64_t)(high - low + 1));
}

bool gen_one_in(uint64_t *s, int n) { return gen_random(s) % (uint64_t)n == 0; }

static double uniform(uint64_t *s) { return (double)(gen_random(s) >> 11) * 0x1p-53; }

float gen_normal(uint64_t *s) { // Box and Muller
  double u = uniform(s) + 0x1p-54, v = uniform(s);
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

#define COUNT(array) (int64_t)(sizeof(array) / sizeof((array)[0]))
#define PICK(s, array) (array)[gen_between(s, 0, COUNT(array) - 1)]

static bool is_block(attn_dtype t) { return t == ATTN_Q8_0 || t == ATTN_Q4_0; }
static bool is_fp8(attn_dtype t) { return t == ATTN_F8E4M3 || t == ATTN_F8E5M2; }

/* ---- Sizes */

static int64_t draw_dim(uint64_t *s) {
  static const int64_t usual[] = { 8, 16, 32, 48, 64, 72, 80, 96, 112, 128 };
  if (gen_one_in(s, 2)) return gen_between(s, 1, 40);
  return gen_one_in(s, 2) ? PICK(s, usual) : gen_between(s, 1, 130);
}

/* Lengths are log-uniform: mostly short, now and then the longest. */
static int64_t draw_length(uint64_t *s, int64_t most) {
  return (int64_t)exp(uniform(s) * log((double)most + 0.999));
}

static void draw_sizes(uint64_t *s, const gen_options *o, attn_problem *p) {
  static const int64_t groups[] = { 1, 1, 1, 2, 3, 4, 8 };
  p->batch = gen_one_in(s, 40) ? 0 : gen_one_in(s, 10) ? 4 : gen_between(s, 1, 3);
  p->heads_kv = gen_between(s, 1, 3);
  p->heads_q = gen_one_in(s, 60) ? 0 : p->heads_kv * PICK(s, groups);
  p->seq_q = gen_one_in(s, 5) ? gen_between(s, 0, 3) : draw_length(s, o->max_seq);
  p->seq_kv = gen_one_in(s, 3) ? p->seq_q : gen_one_in(s, 30) ? 0 : draw_length(s, o->max_seq);
  if (gen_one_in(s, 30)) // few queries over many keys are split over the keys
    p->seq_kv = gen_between(s, 500, 1500), p->seq_q = gen_between(s, 1, 16);
  p->head_dim = draw_dim(s);
  if (gen_one_in(s, 4)) p->head_dim_v = draw_dim(s);
  if (!gen_one_in(s, 30)) return;
  static const int64_t wide[][2] = { { 576, 512 }, { 192, 128 }, { 256, 256 }, { 1024, 1 } };
  const int64_t *pair = PICK(s, wide);
  p->head_dim = pair[0], p->head_dim_v = pair[1];
  if (p->seq_q > 20) p->seq_q = 20;
}

/* ---- Types, storage */

static void draw_types(uint64_t *s, attn_problem *p) {
  static const attn_dtype types[] = { ATTN_F16,    ATTN_F16,    ATTN_BF16, ATTN_BF16,
                                      ATTN_F8E4M3, ATTN_F8E5M2, ATTN_F64 };
  static const attn_dtype caches[] = { ATTN_F32,  ATTN_F16,  ATTN_BF16,   ATTN_INT8,  ATTN_INT8,
                                       ATTN_Q8_0, ATTN_Q4_0, ATTN_F8E4M3, ATTN_F8E5M2 };
  if (gen_one_in(s, 3)) p->dtype = PICK(s, types);
  if (p->dtype != ATTN_F64 && gen_one_in(s, 4)) p->kv_dtype = PICK(s, caches);
  if (is_block(p->kv_dtype)) {
    p->head_dim = (p->head_dim + 31) / 32 * 32;
    p->head_dim_v = (p->head_dim_v + 31) / 32 * 32;
  }
  if (gen_one_in(s, 3)) p->out_dtype = gen_one_in(s, 2) ? ATTN_F32 : p->dtype;
  if (is_fp8(p->dtype) || is_fp8(p->kv_dtype))
    p->fp8_scale = (attn_fp8_scale)gen_between(s, 0, ATTN_FP8_SCALE_COUNT - 1);
}

/* Packed, paged and cached sequences, and a prefix that all share. */
static void draw_storage(uint64_t *s, attn_problem *p) {
  static const int64_t pages[] = { 1, 16, 16, 64, 128, 528 };
  if (gen_one_in(s, 6)) p->prefix = gen_one_in(s, 5) ? p->seq_kv : gen_between(s, 0, p->seq_kv);
  int64_t own = p->seq_kv - p->prefix;
  if (gen_one_in(s, 6)) {
    p->varlen = true;
    p->batch = gen_between(s, 0, 5);
    p->total_q = gen_between(s, 0, p->batch * p->seq_q);
    p->total_kv = gen_between(s, 0, p->batch * own);
  }
  if (gen_one_in(s, 6)) {
    p->page_size = gen_one_in(s, 2) ? PICK(s, pages) : gen_between(s, 1, 40);
    p->pages_per_seq = (own + p->page_size - 1) / p->page_size + gen_between(s, 0, 2);
    p->num_pages = gen_one_in(s, 4) ? gen_between(s, 1, 4)
                                    : p->batch * p->pages_per_seq + gen_between(s, 1, 3);
    p->total_kv = 0;
    p->kv_lengths = !gen_one_in(s, 3);
  } else if (!p->varlen && gen_one_in(s, 5)) {
    p->kv_lengths = true;
  }
}

/* ---- Structure and masks */

static void draw_structure(uint64_t *s, attn_problem *p, bool basic) {
  const int64_t far = (int64_t)1 << 40;
  if (gen_one_in(s, 2)) p->causal = (attn_causal)gen_between(s, 1, basic ? 2 : 3);
  if (p->causal == ATTN_CAUSAL_OFFSET) {
    p->causal_offset = gen_between(s, -p->seq_q - 2, p->seq_kv + 2);
    if (gen_one_in(s, 15)) p->causal_offset = gen_one_in(s, 2) ? far : -far;
  }
  if (basic || !gen_one_in(s, 5)) return;
  p->window = true;
  p->window_left = gen_one_in(s, 4) ? -1 : gen_between(s, 0, p->seq_kv);
  p->window_right = gen_one_in(s, 4) ? -1 : gen_between(s, 0, p->seq_kv);
  if (gen_one_in(s, 3)) p->window_left = gen_between(s, 0, 3), p->window_right = 0;
  if (gen_one_in(s, 20)) p->window_left = INT64_MAX;
  if (!p->causal) p->window_align = (attn_causal)gen_between(s, 0, ATTN_CAUSAL_BOTTOM_RIGHT);
}

/* Every dimension broadcast or not, whole or cut short, contiguous or not. */
static void draw_mask(uint64_t *s, attn_problem *p, bool basic) {
  static const attn_dtype types[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16 };
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  int order[4] = { 3, 2, 1, 0 };
  int64_t stride = 1;
  if (!gen_one_in(s, 3)) return;
  p->mask = gen_one_in(s, 2) ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
  if (p->mask == ATTN_MASK_ADDITIVE && !basic) p->mask_dtype = PICK(s, types);
  for (int i = 0; i < 4; i++) p->mask_dims[i] = gen_one_in(s, 2) ? full[i] : 1;
  if (!basic && p->seq_kv > 3 && gen_one_in(s, 6))
    p->mask_dims[3] = gen_between(s, 2, p->seq_kv - 1);
  if (!gen_one_in(s, 3)) return;
  for (int i = 3; i > 0 && gen_one_in(s, 2); i--) { // columns need not be innermost
    int j = (int)gen_between(s, 0, i), x = order[i];
    order[i] = order[j], order[j] = x;
  }
  for (int i = 0; i < 4; i++) {
    p->mask_strides[order[i]] = stride;
    stride = stride * (p->mask_dims[order[i]] ? p->mask_dims[order[i]] : 1) + gen_between(s, 0, 3);
  }
  if (gen_one_in(s, 4)) { // a full dimension that is expanded all the same
    int64_t d = gen_between(s, 0, 2);
    p->mask_dims[d] = full[d], p->mask_strides[d] = 0;
  }
}

static void draw_features(uint64_t *s, attn_problem *p) {
  static const float caps[] = { 0.5f, 2, 20, 30, 50, 1e6f };
  if (gen_one_in(s, 6)) p->softcap = PICK(s, caps);
  p->alibi = gen_one_in(s, 7);
  if (llabs(p->causal_offset) > 1 << 20) p->alibi = false; // distances are clamped at 2^30
  if (p->alibi && gen_one_in(s, 3)) p->alibi_batch_stride = p->heads_q + gen_between(s, 0, 2);
  if (p->alibi && !p->causal && gen_one_in(s, 2))
    p->window_align = (attn_causal)gen_between(s, 1, ATTN_CAUSAL_BOTTOM_RIGHT);
  p->sinks = gen_one_in(s, 7);
  p->score_mod = gen_one_in(s, 9);
  if (gen_one_in(s, 9)) p->dropout = 0.1f * (float)gen_between(s, 1, 9);
  p->batch_invariant = gen_one_in(s, 9);
  if (!p->varlen && gen_one_in(s, 8))
    p->weights = (attn_weights)gen_between(s, 1, ATTN_WEIGHTS_COUNT - 1);
}

static void draw_scale(uint64_t *s, attn_problem *p) {
  static const float scales[] = { 0, 1, 2, -0.5f, -1e-3f, 1e-20f, 30, -100, 1e4f, -1e6f };
  if (gen_one_in(s, 5)) p->scale_set = true, p->scale = PICK(s, scales);
}

/* ---- Strides */

gen_tensor gen_tensor_of(const attn_problem *p, enum gen_role role) {
  bool keys = role == GEN_K || role == GEN_V, paged = keys && p->page_size;
  int64_t own = p->seq_kv - p->prefix;
  gen_tensor t = { .heads = keys ? p->heads_kv : p->heads_q };
  t.outer = paged ? p->num_pages : p->varlen ? 1 : p->batch;
  t.rows = paged   ? p->page_size
           : !keys ? (p->varlen ? p->total_q : p->seq_q)
                   : (p->varlen ? p->total_kv : own);
  t.dim = role == GEN_Q || role == GEN_K ? p->head_dim : p->head_dim_v;
  t.strides = role == GEN_Q   ? p->q_strides
              : role == GEN_K ? p->k_strides
              : role == GEN_V ? p->v_strides
                              : p->out_strides;
  t.dtype = keys ? p->kv_dtype : role == GEN_Q ? p->dtype : p->out_dtype;
  return t;
}

int64_t gen_tensor_span(const gen_tensor *t) {
  const attn_strides *s = &t->strides;
  if (!t->outer || !t->heads || !t->rows || !t->dim) return 0;
  return (t->outer - 1) * s->batch + (t->heads - 1) * s->head + (t->rows - 1) * s->row +
         (t->dim - 1) * s->col + 1;
}

/* Dimensions in any order, mostly the columns innermost, with room behind each. */
static attn_strides draw_strides_of(uint64_t *s, const gen_tensor *t, bool packed) {
  attn_strides x = { 0 };
  int64_t *strides[4] = { &x.col, &x.row, &x.head, &x.batch };
  const int64_t sizes[4] = { t->dim, t->rows, t->heads, t->outer };
  int order[4] = { 0, 1, 2, 3 };
  bool block = is_block(t->dtype);
  int first = block || !gen_one_in(s, 5) ? 1 : 0;
  for (int i = 3; i > first; i--) {
    int j = (int)gen_between(s, first, i), o = order[i];
    order[i] = order[j], order[j] = o;
  }
  int64_t step = block || !gen_one_in(s, 8) ? 1 : gen_between(s, 2, 3);
  for (int i = 0; i < 4; i++) {
    *strides[order[i]] = step;
    step *= sizes[order[i]] ? sizes[order[i]] : 1;
    if (gen_one_in(s, 2)) step += block ? 32 * gen_between(s, 0, 1) : gen_between(s, 0, 5);
  }
  if (packed) x.batch = 0;
  return x;
}

static void draw_strides(uint64_t *s, attn_problem *p) {
  attn_problem r;
  if (gen_one_in(s, 2)) {
    p->layout = gen_one_in(s, 2) ? ATTN_LAYOUT_BSHD : ATTN_LAYOUT_BHSD;
    return;
  }
  if (attn_problem_resolve(p, &r)) return;
  attn_strides *all[4] = { &p->q_strides, &p->k_strides, &p->v_strides, &p->out_strides };
  for (int role = GEN_Q; role <= GEN_OUT; role++) {
    gen_tensor t = gen_tensor_of(&r, (enum gen_role)role);
    bool paged = (role == GEN_K || role == GEN_V) && p->page_size;
    *all[role] = draw_strides_of(s, &t, p->varlen && !paged);
    if (role == GEN_OUT || !gen_one_in(s, 8)) continue;
    int64_t *sides[] = { &all[role]->batch, &all[role]->head, &all[role]->row };
    *PICK(s, sides) = 0;
  }
  if (gen_one_in(s, 6) && r.head_dim_v <= r.head_dim) p->v_strides = p->k_strides; // v within k
  p->layout = ATTN_LAYOUT_STRIDED;
}

void gen_problem(uint64_t seed, int64_t index, const gen_options *o, attn_problem *problem) {
  uint64_t s = seed * 0x2545f4914f6cdd1du + (uint64_t)index * 0x9e3779b97f4a7c15u;
  s = gen_random(&s); // neighbours would else share most of their draws
  for (;;) {
    attn_problem p = { 0 };
    draw_sizes(&s, o, &p);
    if (!o->basic) draw_types(&s, &p), draw_storage(&s, &p);
    draw_structure(&s, &p, o->basic);
    draw_mask(&s, &p, o->basic);
    draw_scale(&s, &p);
    if (!o->basic) draw_features(&s, &p);
    p.return_lse = gen_one_in(&s, 2);
    if (attn_problem_validate(&p)) continue;
    draw_strides(&s, &p);
    if (attn_problem_validate(&p)) continue;
    *problem = p;
    return;
  }
}

/* ---- Statistics */

static bool broadcast(const attn_problem *p, int i) {
  return p->mask_dims[i] == 1 || p->mask_strides[i] == 0;
}
/* Dimensions of a mask as bits, one that it has (and does not broadcast) set. */
static int pattern(const attn_problem *p) {
  int bits = 0;
  for (int i = 0; i < 4 && p->mask; i++) bits |= !broadcast(p, i) << i;
  return p->mask ? bits : -1;
}
static bool expanded(const attn_strides *s, int64_t batch, int64_t heads, int64_t rows) {
  return (!s->batch && batch > 1) || (!s->head && heads > 1) || (!s->row && rows > 1);
}
static bool expands(const attn_problem *p, enum gen_role role) {
  gen_tensor t = gen_tensor_of(p, role);
  return expanded(&t.strides, t.outer, t.heads, t.rows);
}
static bool has_queries(const attn_problem *p) {
  return p->batch && p->heads_q && (p->varlen ? p->total_q : p->seq_q);
}

#define MASK_FEATURES(X)                                                                           \
  X("mask [1, 1, 1, 1]", pattern(p) == 0)                                                          \
  X("mask [B, 1, 1, 1]", pattern(p) == 1)                                                          \
  X("mask [1, H, 1, 1]", pattern(p) == 2)                                                          \
  X("mask [B, H, 1, 1]", pattern(p) == 3)                                                          \
  X("mask [1, 1, L, 1]", pattern(p) == 4)                                                          \
  X("mask [B, 1, L, 1]", pattern(p) == 5)                                                          \
  X("mask [1, H, L, 1]", pattern(p) == 6)                                                          \
  X("mask [B, H, L, 1]", pattern(p) == 7)                                                          \
  X("mask [1, 1, 1, S]", pattern(p) == 8)                                                          \
  X("mask [B, 1, 1, S]", pattern(p) == 9)                                                          \
  X("mask [1, H, 1, S]", pattern(p) == 10)                                                         \
  X("mask [B, H, 1, S]", pattern(p) == 11)                                                         \
  X("mask [1, 1, L, S]", pattern(p) == 12)                                                         \
  X("mask [B, 1, L, S]", pattern(p) == 13)                                                         \
  X("mask [1, H, L, S]", pattern(p) == 14)                                                         \
  X("mask [B, H, L, S]", pattern(p) == 15)                                                         \
  X("bool mask", p->mask == ATTN_MASK_BOOL)                                                        \
  X("additive mask f32", p->mask == ATTN_MASK_ADDITIVE && p->mask_dtype == ATTN_F32)               \
  X("additive mask f16", p->mask == ATTN_MASK_ADDITIVE && p->mask_dtype == ATTN_F16)               \
  X("additive mask bf16", p->mask == ATTN_MASK_ADDITIVE && p->mask_dtype == ATTN_BF16)             \
  X("short mask", p->mask && p->mask_dims[3] > 1 && p->mask_dims[3] < p->seq_kv)                   \
  X("mask, columns apart", p->mask && p->mask_strides[3] > 1 && p->mask_dims[3] > 1)

#define TYPE_FEATURES(X)                                                                           \
  X("dtype f32", p->dtype == ATTN_F32)                                                             \
  X("dtype f16", p->dtype == ATTN_F16)                                                             \
  X("dtype bf16", p->dtype == ATTN_BF16)                                                           \
  X("dtype f8e4m3", p->dtype == ATTN_F8E4M3)                                                       \
  X("dtype f8e5m2", p->dtype == ATTN_F8E5M2)                                                       \
  X("dtype f64", p->dtype == ATTN_F64)                                                             \
  X("kv_dtype f32", p->kv_dtype != p->dtype && p->kv_dtype == ATTN_F32)                            \
  X("kv_dtype f16", p->kv_dtype != p->dtype && p->kv_dtype == ATTN_F16)                            \
  X("kv_dtype bf16", p->kv_dtype != p->dtype && p->kv_dtype == ATTN_BF16)                          \
  X("kv_dtype f8e4m3", p->kv_dtype != p->dtype && p->kv_dtype == ATTN_F8E4M3)                      \
  X("kv_dtype f8e5m2", p->kv_dtype != p->dtype && p->kv_dtype == ATTN_F8E5M2)                      \
  X("kv_dtype int8", p->kv_dtype == ATTN_INT8)                                                     \
  X("kv_dtype q8_0", p->kv_dtype == ATTN_Q8_0)                                                     \
  X("kv_dtype q4_0", p->kv_dtype == ATTN_Q4_0)                                                     \
  X("out_dtype f16", p->out_dtype == ATTN_F16)                                                     \
  X("out_dtype bf16", p->out_dtype == ATTN_BF16)                                                   \
  X("out_dtype f8e4m3", p->out_dtype == ATTN_F8E4M3)                                               \
  X("out_dtype f8e5m2", p->out_dtype == ATTN_F8E5M2)                                               \
  X("out_dtype f64", p->out_dtype == ATTN_F64)                                                     \
  X("out_dtype f32 for another dtype", p->out_dtype == ATTN_F32 && p->dtype != ATTN_F32)           \
  X("fp8 scale a tensor", p->fp8_scale == ATTN_FP8_SCALE_TENSOR)                                   \
  X("fp8 scale a head", p->fp8_scale == ATTN_FP8_SCALE_HEAD)

#define STRUCTURE_FEATURES(X)                                                                      \
  X("nothing to do", !has_queries(p))                                                              \
  X("no keys", has_queries(p) && !p->seq_kv)                                                       \
  X("one query", p->seq_q == 1)                                                                    \
  X("many keys", p->seq_kv >= 500)                                                                 \
  X("gqa", p->heads_q != p->heads_kv)                                                              \
  X("head_dim_v", p->head_dim_v != p->head_dim)                                                    \
  X("head_dim above 130", p->head_dim > 130)                                                       \
  X("causal top-left", p->causal == ATTN_CAUSAL_TOP_LEFT)                                          \
  X("causal bottom-right", p->causal == ATTN_CAUSAL_BOTTOM_RIGHT)                                  \
  X("causal offset", p->causal == ATTN_CAUSAL_OFFSET && p->causal_offset >= 0)                     \
  X("causal offset below 0", p->causal == ATTN_CAUSAL_OFFSET && p->causal_offset < 0)              \
  X("window", p->window && p->causal)                                                              \
  X("window top-left", p->window && p->window_align == ATTN_CAUSAL_TOP_LEFT)                       \
  X("window bottom-right", p->window && p->window_align == ATTN_CAUSAL_BOTTOM_RIGHT)               \
  X("kv_lengths", p->kv_lengths && !p->page_size)                                                  \
  X("varlen", p->varlen && !p->page_size)                                                          \
  X("paged", p->page_size && !p->varlen)                                                           \
  X("paged varlen", p->page_size && p->varlen)                                                     \
  X("prefix", p->prefix > 0)                                                                       \
  X("bshd", p->q_strides.head == p->head_dim && p->heads_q > 1 && p->seq_q > 1)                    \
  X("columns of q apart", p->q_strides.col > 1)                                                    \
  X("columns of k apart", p->k_strides.col > 1)                                                    \
  X("columns of v apart", p->v_strides.col > 1)                                                    \
  X("columns of out apart", p->out_strides.col > 1)                                                \
  X("expanded q", expands(p, GEN_Q))                                                               \
  X("expanded k", expands(p, GEN_K))                                                               \
  X("expanded v", expands(p, GEN_V))

#define SCORE_FEATURES(X)                                                                          \
  X("scale 0", p->scale == 0)                                                                      \
  X("scale below 0", p->scale < 0)                                                                 \
  X("huge scale", fabsf(p->scale) > 10)                                                            \
  X("softcap", p->softcap > 0)                                                                     \
  X("alibi", p->alibi && !p->alibi_batch_stride)                                                   \
  X("alibi a batch", p->alibi && p->alibi_batch_stride)                                            \
  X("sinks", p->sinks)                                                                             \
  X("score_mod", p->score_mod)                                                                     \
  X("dropout", p->dropout > 0)                                                                     \
  X("lse", p->return_lse)                                                                          \
  X("weights: scores", p->weights == ATTN_WEIGHTS_SCORES)                                          \
  X("weights: capped", p->weights == ATTN_WEIGHTS_CAPPED)                                          \
  X("weights: masked", p->weights == ATTN_WEIGHTS_MASKED)                                          \
  X("weights: probs", p->weights == ATTN_WEIGHTS_PROBS)                                            \
  X("weights: column sums", p->weights == ATTN_WEIGHTS_COLUMN_SUMS)                                \
  X("batch_invariant", p->batch_invariant)

#define FEATURES(X) TYPE_FEATURES(X) STRUCTURE_FEATURES(X) MASK_FEATURES(X) SCORE_FEATURES(X)

static const char *const feature_names[] = {
#define X(name, condition) name,
  FEATURES(X)
#undef X
};

int gen_feature_count(void) { return (int)COUNT(feature_names); }
const char *gen_feature_name(int feature) { return feature_names[feature]; }

bool gen_has_feature(const attn_problem *p, int feature) {
  const bool has[] = {
#define X(name, condition) condition,
    FEATURES(X)
#undef X
  };
  return has[feature];
}
