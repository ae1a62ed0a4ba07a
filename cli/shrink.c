// SPDX-License-Identifier: Apache-2.0
#include "shrink.h"

#include <stddef.h>
#include <string.h>

static const size_t sizes[] = {
#define SIZE(field) offsetof(attn_problem, field)
  SIZE(batch),       SIZE(seq_kv),       SIZE(seq_q),         SIZE(head_dim),     SIZE(head_dim_v),
  SIZE(prefix),      SIZE(total_q),      SIZE(total_kv),      SIZE(page_size),    SIZE(num_pages),
  SIZE(window_left), SIZE(window_right), SIZE(pages_per_seq), SIZE(causal_offset)
#undef SIZE
};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), WAYS = 4 };

static int64_t smaller(int64_t n, int way) {
  switch (way) {
  case 0:
    return 1;
  case 1:
    return n / 2;
  case 2:
    return n / 32 * 16; // what block types allow
  default:
    return n > 0 ? n - 1 : n + 1;
  }
}

// A table, one line each.
// clang-format off
static bool drop(attn_problem *p, int k) {
  attn_problem dense = *p;
  attn_strides *all[4] = { &p->q_strides, &p->k_strides, &p->v_strides, &p->out_strides };
  attn_strides *own[4] = { &dense.q_strides, &dense.k_strides, &dense.v_strides,
                           &dense.out_strides };
  switch (k) {
  case 0: p->heads_q = p->heads_kv = 1; return true;
  case 1: p->heads_q = p->heads_kv; return true;
  case 2: p->heads_q /= p->heads_kv ? p->heads_kv : 1, p->heads_kv = 1; return true;
  case 3: p->causal = ATTN_CAUSAL_NONE; return true;
  case 4: p->window = false; return true;
  case 5: p->mask = ATTN_MASK_NONE; return true;
  case 6: p->softcap = 0; return true;
  case 7: p->alibi = false; return true;
  case 8: p->sinks = false; return true;
  case 9: p->score_mod = false; return true;
  case 10: p->dropout = 0; return true;
  case 11: p->kv_lengths = false; return true;
  case 12: p->weights = ATTN_WEIGHTS_NONE; return true;
  case 13: p->return_lse = false; return true;
  case 14: p->batch_invariant = false; return true;
  case 15: p->varlen = false, p->total_q = p->total_kv = 0; return true;
  case 16: p->page_size = p->num_pages = p->pages_per_seq = 0; return true;
  case 17: p->prefix = 0; return true;
  case 18: p->scale_set = false, p->scale = 0; return true;
  case 19: p->head_dim_v = 0; return true;
  case 20: p->layout = ATTN_LAYOUT_BHSD; return true;
  case 21: p->dtype = p->kv_dtype = p->out_dtype = ATTN_DTYPE_DEFAULT, p->fp8_scale = 0; return true;
  case 22: p->kv_dtype = ATTN_DTYPE_DEFAULT; return true;
  case 23: p->out_dtype = ATTN_DTYPE_DEFAULT; return true;
  case 24: p->fp8_scale = ATTN_FP8_SCALE_NONE; return true;
  case 25: p->mask_dtype = ATTN_F32; return true;
  case 26: memset(p->mask_strides, 0, sizeof(p->mask_strides)); return true;
  case 27: case 28: case 29: case 30:
    p->mask_dims[k - 27] = 1;
    return true;
  case 31: case 32: case 33: case 34: // one tensor after the other contiguous
    if (p->layout == ATTN_LAYOUT_STRIDED && !attn_problem_set_layout(&dense, ATTN_LAYOUT_BHSD))
      *all[k - 31] = *own[k - 31];
    return true;
  default: return false;
  }
}
// clang-format on

/* What a smaller size makes of the others. */
static void settle(attn_problem *p, const bool full[4]) {
  for (int i = 0; i < 4; i++)
    if (full[i]) p->mask_dims[i] = 0;
  if (p->mask_dims[3] > p->seq_kv) p->mask_dims[3] = 0;
  if (p->prefix > p->seq_kv) p->prefix = p->seq_kv;
  int64_t own = p->seq_kv - p->prefix;
  if (p->varlen && p->total_q > p->batch * p->seq_q) p->total_q = p->batch * p->seq_q;
  if (p->varlen && p->total_kv > p->batch * own) p->total_kv = p->batch * own;
  if (p->page_size && p->pages_per_seq * p->page_size < own)
    p->pages_per_seq = (own + p->page_size - 1) / p->page_size;
  if (p->page_size && !p->num_pages) p->num_pages = 1;
}

/* The k-th simplification; false behind the last. */
static bool simplify(attn_problem *p, int k) {
  const int64_t now[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  bool full[4];
  for (int i = 0; i < 4; i++) full[i] = p->mask_dims[i] == now[i] && now[i] != 1;
  if (k < SIZES * WAYS) {
    int64_t *size = (int64_t *)(void *)((char *)p + sizes[k / WAYS]);
    if (*size == 0 || *size == 1) return true;
    *size = smaller(*size, k % WAYS);
  } else if (!drop(p, k - SIZES * WAYS)) {
    return false;
  }
  settle(p, full);
  return true;
}

attn_problem shrink_problem(const attn_problem *problem, int trials, shrink_fails *fails,
                            void *user) {
  attn_problem p = *problem;
  for (bool better = true; better && trials > 0;) {
    better = false;
    for (int k = 0; trials > 0; k++) {
      attn_problem trial = p;
      char before[1024], after[1024];
      if (!simplify(&trial, k)) break;
      if (attn_problem_validate(&trial)) continue;
      attn_problem_format(&p, before, sizeof(before));
      attn_problem_format(&trial, after, sizeof(after));
      if (!strcmp(before, after)) continue;
      trials--;
      if (fails(user, &trial)) p = trial, better = true;
    }
  }
  return p;
}
