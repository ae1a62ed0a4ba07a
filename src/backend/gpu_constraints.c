// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "backend/gpu.h"
#include "core/size.h"

double gpu_cc(const backend_query *q) {
  const attn_capability *c = q->capability;
  return c->compute_major > 0 ? c->compute_major + c->compute_minor / 10.0 : (double)NAN;
}

bool gpu_is_fp8(attn_dtype t) { return t == ATTN_F8E4M3 || t == ATTN_F8E5M2; }

static bool is_16bit(attn_dtype t) { return t == ATTN_F16 || t == ATTN_BF16; }

attn_causal gpu_alignment(const attn_problem *p) {
  if (p->causal || !(p->window || p->alibi)) return p->causal;
  return p->window_align ? p->window_align : ATTN_CAUSAL_BOTTOM_RIGHT;
}

/* The lengths that bottom right counts from are known only from the data. */
static bool lengths_are_data(const attn_problem *p) { return p->varlen || p->kv_lengths; }

/* A predicate with a value and a limit. */
#define RULE(name, condition, value_of, limit_of)                                                  \
  GPU_PREDICATE(name) {                                                                            \
    const attn_problem *p = q->problem;                                                            \
    (void)p;                                                                                       \
    if (!(condition)) return false;                                                                \
    *value = (double)(value_of);                                                                   \
    *limit = (double)(limit_of);                                                                   \
    return true;                                                                                   \
  }

/* NAN fails every comparison: an unknown capability meets no requirement. */
RULE(gpu_cc_below_80, !(gpu_cc(q) >= 8.0), gpu_cc(q), 8.0)
RULE(gpu_cc_below_50, !(gpu_cc(q) >= 5.0), gpu_cc(q), 5.0)
RULE(gpu_cc_not_90, q->capability->compute_major != 9 || q->capability->compute_minor != 0,
     gpu_cc(q), 9.0)

GPU_PREDICATE(gpu_rocm_arch) {
  static const char *const known[] = { "gfx90a", "gfx942", "gfx950", "gfx11" };
  (void)value, (void)limit;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (!strncmp(q->capability->arch, known[i], strlen(known[i]))) return false;
  return true;
}

RULE(gpu_not_16bit, !is_16bit(p->dtype), p->dtype, NAN)
RULE(gpu_not_16bit_f32, !is_16bit(p->dtype) && p->dtype != ATTN_F32, p->dtype, NAN)
RULE(gpu_not_16bit_fp8, !is_16bit(p->dtype) && !gpu_is_fp8(p->dtype), p->dtype, NAN)
RULE(gpu_bf16_unsupported,
     p->dtype == ATTN_BF16 && (q->capability->bf16 == ATTN_NO || gpu_cc(q) < 8.0), p->dtype,
     q->capability->device == ATTN_DEVICE_CUDA ? 8.0 : (double)NAN)
RULE(gpu_kv_dtype_differs, p->kv_dtype != p->dtype, p->kv_dtype, NAN)
RULE(gpu_out_dtype_differs, p->out_dtype != p->dtype && !gpu_is_fp8(p->dtype), p->out_dtype, NAN)
RULE(gpu_fp8_scale_head, p->fp8_scale == ATTN_FP8_SCALE_HEAD, p->fp8_scale, NAN)

RULE(gpu_head_dim_above_256, p->head_dim > 256 || p->head_dim_v > 256,
     size_max(p->head_dim, p->head_dim_v), 256)
RULE(gpu_head_dim_not_8, p->head_dim % 8 || p->head_dim_v % 8,
     p->head_dim % 8 ? p->head_dim : p->head_dim_v, 8)
RULE(gpu_head_dim_fp8_16, gpu_is_fp8(p->dtype) && (p->head_dim % 16 || p->head_dim_v % 16),
     p->head_dim % 16 ? p->head_dim : p->head_dim_v, 16)
RULE(gpu_head_dims_differ, p->head_dim != p->head_dim_v, p->head_dim_v, p->head_dim)
RULE(gpu_batch_65535, p->batch > 65535, p->batch, 65535)
RULE(gpu_heads_65535, p->heads_q > 65535, p->heads_q, 65535)
RULE(gpu_inner_stride, p->q_strides.col != 1 || p->k_strides.col != 1 || p->v_strides.col != 1,
     p->q_strides.col != 1   ? p->q_strides.col
     : p->k_strides.col != 1 ? p->k_strides.col
                             : p->v_strides.col,
     1)

RULE(gpu_mask, p->mask, p->mask, NAN)

/* Value and limit of a misplaced diagonal: the offset that the problem asks for, and the one there
 * is; NAN where that follows from the data. */
static bool diagonal_offset(const attn_problem *p, double *value, double *limit) {
  *value = p->causal == ATTN_CAUSAL_OFFSET ? (double)p->causal_offset : 0;
  *limit = lengths_are_data(p) ? (double)NAN : (double)(p->seq_kv - p->seq_q);
  return true;
}

GPU_PREDICATE(gpu_not_bottom_right) {
  const attn_problem *p = q->problem;
  attn_causal at = gpu_alignment(p);
  if (at == ATTN_CAUSAL_NONE || at == ATTN_CAUSAL_BOTTOM_RIGHT) return false;
  int64_t offset = at == ATTN_CAUSAL_OFFSET ? p->causal_offset : 0;
  if (!lengths_are_data(p) && offset == p->seq_kv - p->seq_q) return false;
  return diagonal_offset(p, value, limit);
}

GPU_PREDICATE(gpu_no_corner) {
  const attn_problem *p = q->problem;
  if (gpu_alignment(p) != ATTN_CAUSAL_OFFSET || p->causal_offset == 0) return false;
  if (!lengths_are_data(p) && p->causal_offset == p->seq_kv - p->seq_q) return false;
  return diagonal_offset(p, value, limit);
}

RULE(gpu_window, p->window, NAN, NAN)
RULE(gpu_softcap, p->softcap > 0, p->softcap, NAN)
RULE(gpu_softcap_dropout, p->softcap > 0 && p->dropout > 0, p->softcap, NAN)
RULE(gpu_alibi, p->alibi, NAN, NAN)
RULE(gpu_sinks, p->sinks, NAN, NAN)
RULE(gpu_score_mod, p->score_mod, NAN, NAN)
RULE(gpu_dropout, p->dropout > 0, p->dropout, NAN)
/* Paged keys run on the split kernels, which have no dropout (flash_api.cpp). */
RULE(gpu_paged_dropout, p->page_size > 0 && p->dropout > 0, p->dropout, NAN)
RULE(gpu_varlen, p->varlen, NAN, NAN)
RULE(gpu_not_varlen, !p->varlen, NAN, NAN)
RULE(gpu_paged, p->page_size > 0, p->page_size, NAN)
RULE(gpu_prefix, p->prefix > 0, p->prefix, NAN)
RULE(gpu_page_size_256, p->page_size % 256, p->page_size, 256)
RULE(gpu_kv_lengths, p->kv_lengths, NAN, NAN)
RULE(gpu_lse, p->return_lse, NAN, NAN)
RULE(gpu_weights, p->weights, p->weights, NAN)
RULE(gpu_batch_invariant, p->batch_invariant, NAN, NAN)
