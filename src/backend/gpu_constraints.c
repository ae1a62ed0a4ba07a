// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "backend/gpu.h"
#include "core/size.h"

/* Compute capability as major + minor / 10: how it is printed. Unknown (0.0) violates nothing. */
static double cc_of(const backend_query *q) {
  return q->capability->compute_major + q->capability->compute_minor / 10.0;
}

static bool is_fp8(attn_dtype t) { return t == ATTN_F8E4M3 || t == ATTN_F8E5M2; }
static bool is_16bit(attn_dtype t) { return t == ATTN_F16 || t == ATTN_BF16; }

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

RULE(gpu_cc_below_80, cc_of(q) > 0 && q->capability->compute_major < 8, cc_of(q), 8.0)
RULE(gpu_cc_below_50, cc_of(q) > 0 && q->capability->compute_major < 5, cc_of(q), 5.0)
RULE(gpu_cc_not_90, q->capability->compute_major != 9 || q->capability->compute_minor != 0, cc_of(q), 9.0)

GPU_PREDICATE(gpu_rocm_arch) {
  static const char *const known[] = { "gfx90a", "gfx942", "gfx950", "gfx11" };
  const char *arch = q->capability->arch;
  (void)value, (void)limit;
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
    if (!strncmp(arch, known[i], strlen(known[i]))) return false;
  return arch[0] != 0;
}

RULE(gpu_not_16bit, !is_16bit(p->dtype), p->dtype, NAN)
RULE(gpu_not_16bit_f32, !is_16bit(p->dtype) && p->dtype != ATTN_F32, p->dtype, NAN)
RULE(gpu_not_16bit_fp8, !is_16bit(p->dtype) && !is_fp8(p->dtype), p->dtype, NAN)
RULE(gpu_bf16_unsupported, p->dtype == ATTN_BF16 && q->capability->bf16 == ATTN_NO, p->dtype, NAN)
RULE(gpu_fp8_unsupported,
     is_fp8(p->dtype) && (q->capability->f8 == ATTN_NO || (cc_of(q) > 0 && q->capability->compute_major < 9)),
     p->dtype, NAN)
RULE(gpu_kv_dtype_differs, p->kv_dtype != p->dtype, p->kv_dtype, NAN)
RULE(gpu_out_dtype_differs, p->out_dtype != p->dtype && !is_fp8(p->dtype), p->out_dtype, NAN)
RULE(gpu_head_dim_above_256, p->head_dim > 256 || p->head_dim_v > 256,
     size_max(p->head_dim, p->head_dim_v), 256)
RULE(gpu_head_dim_not_8, p->head_dim % 8 || p->head_dim_v % 8,
     p->head_dim % 8 ? p->head_dim : p->head_dim_v, 8)
RULE(gpu_head_dim_align,
     p->head_dim % (p->dtype == ATTN_F32 ? 4 : 8) || p->head_dim_v % (p->dtype == ATTN_F32 ? 4 : 8),
     p->head_dim % (p->dtype == ATTN_F32 ? 4 : 8) ? p->head_dim : p->head_dim_v,
     p->dtype == ATTN_F32 ? 4 : 8)
RULE(gpu_head_dim_fp8_16, is_fp8(p->dtype) && (p->head_dim % 16 || p->head_dim_v % 16),
     p->head_dim % 16 ? p->head_dim : p->head_dim_v, 16)
RULE(gpu_head_dims_differ, p->head_dim != p->head_dim_v, p->head_dim_v, p->head_dim)
RULE(gpu_mask, p->mask, p->mask, NAN)
RULE(gpu_top_left, p->causal == ATTN_CAUSAL_TOP_LEFT && (p->seq_q != p->seq_kv || p->kv_lengths || p->varlen),
     p->seq_q, p->seq_kv)
RULE(gpu_causal_offset, p->causal == ATTN_CAUSAL_OFFSET && p->causal_offset != p->seq_kv - p->seq_q,
     p->causal_offset, p->seq_kv - p->seq_q)
RULE(gpu_window, p->window, p->window_left, p->window_right)
RULE(gpu_softcap, p->softcap > 0, p->softcap, 0)
RULE(gpu_softcap_dropout, p->softcap > 0 && p->dropout > 0, p->dropout, 0)
RULE(gpu_alibi, p->alibi, NAN, NAN)
RULE(gpu_sinks, p->sinks, NAN, NAN)
RULE(gpu_score_mod, p->score_mod, NAN, NAN)
RULE(gpu_dropout, p->dropout > 0, p->dropout, 0)
RULE(gpu_varlen, p->varlen, NAN, NAN)
RULE(gpu_not_varlen, !p->varlen, NAN, NAN)
RULE(gpu_paged, p->page_size > 0, p->page_size, NAN)
RULE(gpu_page_size_256, p->page_size % 256, p->page_size, 256)
RULE(gpu_kv_lengths, p->kv_lengths, NAN, NAN)
RULE(gpu_weights, p->weights, p->weights, NAN)
RULE(gpu_inner_stride, p->q_strides.col != 1 || p->k_strides.col != 1 || p->v_strides.col != 1,
     size_max(p->q_strides.col, size_max(p->k_strides.col, p->v_strides.col)), 1)
RULE(gpu_batch_65535, p->batch > 65535, p->batch, 65535)
RULE(gpu_heads_65535, p->heads_q > 65535, p->heads_q, 65535)
RULE(gpu_batch_invariant, p->batch_invariant, NAN, NAN)
RULE(gpu_f64, p->dtype == ATTN_F64, p->dtype, NAN)
