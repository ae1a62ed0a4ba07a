// SPDX-License-Identifier: Apache-2.0
/* Small random problems that are valid, over every field. */
#ifndef TESTS_RANDOM_PROBLEM_H
#define TESTS_RANDOM_PROBLEM_H

#include "attn/attn.h"
#include "random.h"

static inline bool random_chance(uint64_t *r, int one_in) { return random_int(r, 1, one_in) == 1; }

static inline void random_problem_sizes(uint64_t *r, attn_problem *p) {
  static const int64_t groups[] = { 1, 1, 2, 3, 4 };
  int64_t heads_kv = random_int(r, 1, 3);
  p->batch = random_int(r, random_chance(r, 10) ? 0 : 1, 3);
  p->heads_q = heads_kv * groups[random_int(r, 0, 4)];
  p->heads_kv = random_chance(r, 3) && p->heads_q == heads_kv ? 0 : heads_kv;
  p->seq_q = random_int(r, random_chance(r, 10) ? 0 : 1, 9);
  p->seq_kv = random_chance(r, 3) ? p->seq_q : random_int(r, random_chance(r, 10) ? 0 : 1, 17);
  p->head_dim = random_int(r, 1, 9);
  p->head_dim_v = random_chance(r, 2) ? 0 : random_int(r, 1, 9);
}

static inline void random_problem_dtypes(uint64_t *r, attn_problem *p) {
  static const attn_dtype q[] = { ATTN_DTYPE_DEFAULT, ATTN_F32,    ATTN_F16, ATTN_BF16,
                                  ATTN_F8E4M3,        ATTN_F8E5M2, ATTN_F64 };
  static const attn_dtype kv[] = { ATTN_F32,    ATTN_F16,  ATTN_BF16, ATTN_F8E4M3,
                                   ATTN_F8E5M2, ATTN_INT8, ATTN_Q8_0, ATTN_Q4_0 };
  p->dtype = q[random_int(r, 0, 6)];
  if (p->dtype != ATTN_F64 && random_chance(r, 3)) p->kv_dtype = kv[random_int(r, 0, 7)];
  if (p->kv_dtype == ATTN_Q8_0 || p->kv_dtype == ATTN_Q4_0) {
    p->head_dim = 32 * random_int(r, 1, 2);
    p->head_dim_v = random_chance(r, 2) ? 0 : 32 * random_int(r, 1, 2);
  }
  if (random_chance(r, 4)) p->out_dtype = random_chance(r, 2) ? p->dtype : ATTN_F32;
  bool fp8 = p->dtype == ATTN_F8E4M3 || p->dtype == ATTN_F8E5M2 || p->kv_dtype == ATTN_F8E4M3 ||
             p->kv_dtype == ATTN_F8E5M2;
  if (fp8) p->fp8_scale = (attn_fp8_scale)random_int(r, 0, 2);
}

static inline void random_problem_masks(uint64_t *r, attn_problem *p) {
  static const attn_dtype dtypes[] = { ATTN_DTYPE_DEFAULT, ATTN_F32, ATTN_F16, ATTN_BF16 };
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  p->causal = (attn_causal)(random_chance(r, 2) ? random_int(r, 0, 3) : 0);
  if (p->causal == ATTN_CAUSAL_OFFSET) p->causal_offset = random_int(r, -5, 12);
  p->window = random_chance(r, 3);
  if (p->window) {
    p->window_left = random_int(r, -1, 6);
    p->window_right = random_int(r, -1, 6);
    p->window_align = (attn_causal)random_int(r, 0, 2);
  }
  p->mask = (attn_mask_kind)(random_chance(r, 2) ? random_int(r, 0, 2) : 0);
  if (p->mask) {
    if (p->mask == ATTN_MASK_ADDITIVE) p->mask_dtype = dtypes[random_int(r, 0, 3)];
    for (int i = 0; i < 4; i++)
      p->mask_dims[i] = random_chance(r, 3) ? 1 : random_chance(r, 2) ? 0 : full[i];
    if (p->seq_kv > 3 && random_chance(r, 4)) p->mask_dims[3] = p->seq_kv - 2;
    if (random_chance(r, 4)) { // rows padded, or columns first
      int64_t m[4], pad = random_int(r, 0, 3);
      for (int i = 0; i < 4; i++) m[i] = p->mask_dims[i] ? p->mask_dims[i] : full[i];
      p->mask_strides[3] = 1;
      p->mask_strides[2] = m[3] + pad;
      p->mask_strides[1] = m[2] * (m[3] + pad);
      p->mask_strides[0] = random_chance(r, 3) ? 0 : m[1] * m[2] * (m[3] + pad);
    }
  }
}

static inline void random_problem_extras(uint64_t *r, attn_problem *p) {
  if (random_chance(r, 2)) {
    p->scale_set = random_chance(r, 2);
    p->scale = random_chance(r, 5) ? 0 : random_float(r);
  }
  if (random_chance(r, 4)) p->softcap = 3 + 2 * random_float(r);
  p->alibi = random_chance(r, 5);
  if (p->alibi && random_chance(r, 2)) p->alibi_batch_stride = p->heads_q + random_int(r, 0, 2);
  p->sinks = random_chance(r, 5);
  p->score_mod = random_chance(r, 8);
  if (random_chance(r, 6)) p->dropout = 0.5f + 0.4f * random_float(r);
  p->return_lse = random_chance(r, 2);
  p->batch_invariant = random_chance(r, 5);
  p->varlen = random_chance(r, 4);
  if (random_chance(r, 4)) {
    p->page_size = random_int(r, 1, 5);
    p->num_pages = random_int(r, 1, 12);
    p->pages_per_seq = p->seq_kv / p->page_size + random_int(r, 1, 2);
  }
  if (p->varlen) {
    p->total_q = p->batch * p->seq_q - (p->seq_q && p->batch ? random_int(r, 0, 1) : 0);
    p->total_kv = p->batch * p->seq_kv;
  }
  if (!p->varlen || p->page_size) p->kv_lengths = random_chance(r, 4);
  if (!p->varlen && random_chance(r, 4)) p->weights = (attn_weights)random_int(r, 0, 5);
}

/* A contiguous layout, or its strides with gaps, expanded K/V or columns apart. */
static inline void random_problem_layout(uint64_t *r, attn_problem *p) {
  p->layout = (attn_layout)random_int(r, 0, 1);
  if (!random_chance(r, 3) || attn_problem_set_layout(p, p->layout)) return;
  bool blocks = p->kv_dtype == ATTN_Q8_0 || p->kv_dtype == ATTN_Q4_0;
  int64_t gap = random_int(r, 1, 2);
  attn_strides *all[4] = { &p->q_strides, &p->k_strides, &p->v_strides, &p->out_strides };
  for (int i = 0; i < 4; i++) {
    if (random_chance(r, 2)) continue;
    all[i]->batch *= gap, all[i]->head *= gap, all[i]->row *= gap;
    if ((i == 0 || i == 3 || !blocks) && random_chance(r, 2)) all[i]->col = gap;
  }
  if (random_chance(r, 3)) p->k_strides.head = p->v_strides.head = 0;
  if (random_chance(r, 3)) p->k_strides.batch = 0;
}

static inline attn_problem random_problem(uint64_t *r) {
  attn_problem p = { 0 };
  random_problem_sizes(r, &p);
  random_problem_dtypes(r, &p);
  random_problem_masks(r, &p);
  random_problem_extras(r, &p);
  random_problem_layout(r, &p);
  return p;
}

#endif
