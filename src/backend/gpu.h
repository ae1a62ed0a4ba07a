// SPDX-License-Identifier: Apache-2.0
/*
 * What the descriptions of GPU implementations are made of: predicates for their tables of
 * constraints, and the cost of a fused kernel. The facts come from the implementations' own checks
 * (flash-attention, PyTorch's selectors, cuDNN's documentation); docs/selection.md lists them.
 */
#ifndef BACKEND_GPU_H
#define BACKEND_GPU_H

#include "backend/backend.h"

#define GPU_PREDICATE(name) bool name(const backend_query *q, double *value, double *limit)

GPU_PREDICATE(gpu_cc_below_80);
GPU_PREDICATE(gpu_cc_below_50);
GPU_PREDICATE(gpu_cc_not_90);
GPU_PREDICATE(gpu_rocm_arch);          /* not gfx90a, gfx942, gfx950, gfx11xx */
GPU_PREDICATE(gpu_not_16bit);          /* dtype other than f16, bf16 */
GPU_PREDICATE(gpu_not_16bit_f32);      /* ... or f32 */
GPU_PREDICATE(gpu_not_16bit_fp8);      /* ... or fp8 */
GPU_PREDICATE(gpu_bf16_unsupported);   /* bf16 on a device without it */
GPU_PREDICATE(gpu_fp8_unsupported);    /* fp8 on a device without it, or below 9.0 */
GPU_PREDICATE(gpu_kv_dtype_differs);
GPU_PREDICATE(gpu_out_dtype_differs);  /* output in another type than q, but bf16/f32 for fp8 */
GPU_PREDICATE(gpu_head_dim_above_256);
GPU_PREDICATE(gpu_head_dim_not_8);
GPU_PREDICATE(gpu_head_dim_align);     /* multiple of 8 for 16-bit, 4 for f32 */
GPU_PREDICATE(gpu_head_dim_fp8_16);    /* fp8: multiple of 16 */
GPU_PREDICATE(gpu_head_dims_differ);
GPU_PREDICATE(gpu_mask);
GPU_PREDICATE(gpu_top_left);           /* top-left causal where it differs from bottom-right */
GPU_PREDICATE(gpu_causal_offset);
GPU_PREDICATE(gpu_window);
GPU_PREDICATE(gpu_softcap);
GPU_PREDICATE(gpu_softcap_dropout);
GPU_PREDICATE(gpu_alibi);
GPU_PREDICATE(gpu_sinks);
GPU_PREDICATE(gpu_score_mod);
GPU_PREDICATE(gpu_dropout);
GPU_PREDICATE(gpu_varlen);
GPU_PREDICATE(gpu_not_varlen);
GPU_PREDICATE(gpu_paged);
GPU_PREDICATE(gpu_prefix);
GPU_PREDICATE(gpu_page_size_256);
GPU_PREDICATE(gpu_kv_lengths);
GPU_PREDICATE(gpu_weights);
GPU_PREDICATE(gpu_inner_stride);
GPU_PREDICATE(gpu_batch_65535);
GPU_PREDICATE(gpu_heads_65535);
GPU_PREDICATE(gpu_batch_invariant);
GPU_PREDICATE(gpu_f64);

/* Rows that every fused kernel has. */
#define GPU_ROWS_COMMON                                                                            \
  { ATTN_REASON_DTYPE, gpu_bf16_unsupported }, { ATTN_REASON_KV_DTYPE, gpu_kv_dtype_differs },     \
      { ATTN_REASON_SINKS, gpu_sinks }, { ATTN_REASON_SCORE_MOD, gpu_score_mod },                  \
      { ATTN_REASON_WEIGHTS, gpu_weights }, { ATTN_REASON_INNER_STRIDE, gpu_inner_stride },        \
      { ATTN_REASON_PREFIX, gpu_prefix }

#define GPU_CHECK(rows, query, reasons)                                                            \
  backend_check(rows, (int)(sizeof(rows) / sizeof((rows)[0])), query, reasons)

/* The fused kernel of an implementation: its tile and the share of the dense peak it reaches. */
typedef struct gpu_kernel {
  int tile_q, tile_k;
  double efficiency;
  int launches;
  int max_splits; /* 1: keys are not split */
  bool pack_heads; /* the query heads of a group share a tile when there are few queries */
} gpu_kernel;
void gpu_estimate(const backend_query *query, const gpu_kernel *kernel, backend_cost *cost);

/* Share of the dense 16-bit peak by backend, device and head_dim; the table and its sources are in
 * gpu_efficiency.c. */
double gpu_efficiency(attn_backend backend, const attn_capability *capability, int64_t head_dim);

/* Splits over keys as FlashAttention's heuristic takes them for `items` on `slots`. */
int gpu_splits(double items, double slots, int64_t key_blocks, int max_splits);

#endif
