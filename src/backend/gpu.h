// SPDX-License-Identifier: Apache-2.0
/*
 * What the descriptions of GPU implementations are made of: predicates for their tables of
 * constraints, and the cost of a fused kernel. The facts come from the implementations' own checks;
 * docs/selection.md names the sources.
 */
#ifndef BACKEND_GPU_H
#define BACKEND_GPU_H

#include "backend/backend.h"

#define GPU_PREDICATE(name) bool name(const backend_query *q, double *value, double *limit)

/* Hardware. What is not known does not meet a requirement. */
GPU_PREDICATE(gpu_cc_below_80);
GPU_PREDICATE(gpu_cc_below_50);
GPU_PREDICATE(gpu_cc_not_90);
GPU_PREDICATE(gpu_rocm_arch); /* not gfx90a, gfx942, gfx950, gfx11xx */
/* Types. */
GPU_PREDICATE(gpu_not_16bit);        /* dtype other than f16, bf16 */
GPU_PREDICATE(gpu_not_16bit_f32);    /* ... or f32 */
GPU_PREDICATE(gpu_not_16bit_fp8);    /* ... or fp8 */
GPU_PREDICATE(gpu_bf16_unsupported); /* bf16 on a device without it */
GPU_PREDICATE(gpu_kv_dtype_differs);
GPU_PREDICATE(gpu_out_dtype_differs); /* output in another type than q; fp8 may give f32 */
GPU_PREDICATE(gpu_fp8_scale_head);    /* fp8 scales a head */
/* Sizes. */
GPU_PREDICATE(gpu_head_dim_above_256);
GPU_PREDICATE(gpu_head_dim_not_8);
GPU_PREDICATE(gpu_head_dim_fp8_16); /* fp8: multiple of 16 */
GPU_PREDICATE(gpu_head_dims_differ);
GPU_PREDICATE(gpu_batch_65535);
GPU_PREDICATE(gpu_heads_65535);
GPU_PREDICATE(gpu_inner_stride);
/* Semantics. */
GPU_PREDICATE(gpu_mask);
GPU_PREDICATE(gpu_not_bottom_right); /* the diagonal does not end at the bottom right */
GPU_PREDICATE(gpu_no_corner);        /* nor does it begin at the top left */
GPU_PREDICATE(gpu_window);
GPU_PREDICATE(gpu_softcap);
GPU_PREDICATE(gpu_softcap_dropout);
GPU_PREDICATE(gpu_alibi);
GPU_PREDICATE(gpu_sinks);
GPU_PREDICATE(gpu_score_mod);
GPU_PREDICATE(gpu_dropout);
GPU_PREDICATE(gpu_paged_dropout);
GPU_PREDICATE(gpu_varlen);
GPU_PREDICATE(gpu_not_varlen);
GPU_PREDICATE(gpu_paged);
GPU_PREDICATE(gpu_prefix);
GPU_PREDICATE(gpu_page_size_256);
GPU_PREDICATE(gpu_kv_lengths);
GPU_PREDICATE(gpu_lse);
GPU_PREDICATE(gpu_weights);
GPU_PREDICATE(gpu_batch_invariant);

/* Compute capability as it is printed, major.minor; NAN if unknown. */
double gpu_cc(const backend_query *q);
bool gpu_is_fp8(attn_dtype dtype);
/* Where the diagonal of causal, of the window or of ALiBi lies; NONE without any of them. */
attn_causal gpu_alignment(const attn_problem *p);

/* Rows that every fused kernel has. */
#define GPU_ROWS_COMMON                                                                            \
  { ATTN_REASON_DTYPE, gpu_bf16_unsupported }, { ATTN_REASON_KV_DTYPE, gpu_kv_dtype_differs },     \
      { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs }, { ATTN_REASON_SINKS, gpu_sinks },          \
      { ATTN_REASON_SCORE_MOD, gpu_score_mod }, { ATTN_REASON_WEIGHTS, gpu_weights },              \
      { ATTN_REASON_INNER_STRIDE, gpu_inner_stride },                                              \
      { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant }, {                                      \
    ATTN_REASON_PREFIX, gpu_prefix                                                                 \
  }

/* Rows of FlashAttention-2, whatever the device and the schedule. Batches and heads are grid
 * dimensions y and z of its launch, which hold 65,535. */
#define GPU_ROWS_FLASH                                                                             \
  GPU_ROWS_COMMON, { ATTN_REASON_DTYPE, gpu_not_16bit },                                           \
      { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },                                      \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },                                       \
      { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ }, { ATTN_REASON_MASK, gpu_mask },         \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_not_bottom_right },                                      \
      { ATTN_REASON_SOFTCAP, gpu_softcap_dropout }, { ATTN_REASON_DROPOUT, gpu_paged_dropout },    \
      { ATTN_REASON_PAGE_SIZE, gpu_page_size_256 }, { ATTN_REASON_BATCH_LARGE, gpu_batch_65535 },  \
  {                                                                                                \
    ATTN_REASON_HEADS_LARGE, gpu_heads_65535                                                       \
  }

#define GPU_CHECK(rows, query, reasons)                                                            \
  backend_check(rows, (int)(sizeof(rows) / sizeof((rows)[0])), query, reasons)

/* How a fused kernel cuts a problem, and the share of the dense peak that it reaches. */
typedef struct gpu_kernel {
  int64_t tile_q, tile_k;
  int64_t dim, dim_v; /* head sizes as its tiles hold them */
  double efficiency;
  int max_splits;       /* over keys; 1: not split */
  int min_split_blocks; /* fewer blocks of keys than this are not split */
  int slots_per_unit;   /* work items that the splitting rule counts on a compute unit */
  bool pack_heads;      /* the query heads of a group share a tile */
  bool converts_output; /* it writes 16 bits where f32 is asked for: one more pass */
} gpu_kernel;
void gpu_estimate(const backend_query *query, const gpu_kernel *kernel, backend_cost *cost);
/* A number of bytes as an integer; what no integer holds becomes the largest. */
int64_t gpu_bytes(double bytes);

/* Seconds that a tile of queries costs beside its arithmetic; see gpu_efficiency.c. */
extern const double GPU_ITEM_SECONDS;
/* Share of the nominal bandwidth that streaming kernels, and separate library calls, reach. */
extern const double GPU_BANDWIDTH_FUSED, GPU_BANDWIDTH_UNFUSED;

/* Share of the dense peak by backend, device, head size (as tiles hold it) and the problem's dtype
 * and window; the table and its sources are in gpu_efficiency.c. */
double gpu_efficiency(attn_backend backend, const attn_capability *capability, int64_t head_dim,
                      const attn_problem *problem);

/* Splits over keys as FlashAttention chooses them for `items` work items on `slots`: 1 when they
 * fill 80 % of the slots; else the smallest number within 85 % of the best wave efficiency. */
int gpu_splits(double items, double slots, int64_t key_blocks, int max_splits);

/* (query tile, key tile) pairs of one head that a kernel visits: tiles that causal or window leave
 * empty are skipped. `rows_per_query` > 1: that many heads share a tile. Exact; no loop over tiles.
 */
double gpu_tiles(const attn_problem *p, int64_t seq_q, int64_t seq_kv, int64_t tile_q,
                 int64_t tile_k, int64_t rows_per_query);

/* Lengths of a sequence: with varlen the mean ones, as far as the totals tell. */
void gpu_lengths(const attn_problem *p, int64_t *seq_q, int64_t *seq_kv);

/* FlashAttention-2's tiles (flash_fwd_launch_template.h) and padded head size. */
gpu_kernel gpu_flash_kernel(const backend_query *q);

#endif
