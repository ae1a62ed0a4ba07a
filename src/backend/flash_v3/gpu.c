// SPDX-License-Identifier: Apache-2.0
/* FlashAttention-3: wgmma and TMA warp specialisation, which compute capability 9.0 alone has. */
#include "backend/gpu.h"

/* head_dim_v may differ: qk 129-192 with v 97-128, or qk <= 64 with v up to 512, 16-bit types. */
static bool head_dim_pair(const backend_query *q, double *value, double *limit) {
  int64_t d = q->problem->head_dim, v = q->problem->head_dim_v;
  *value = (double)v, *limit = (double)d;
  if (d == v) return false;
  bool two_byte = q->problem->dtype == ATTN_F16 || q->problem->dtype == ATTN_BF16;
  bool mla = d >= 129 && d <= 192 && v >= 97 && v <= 128, wide = d <= 64 && v <= 512;
  return !(two_byte && (mla || wide));
}

static bool head_dim_large(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->head_dim, *limit = 256;
  return q->problem->head_dim > 256;
}

static bool fp8_e5m2(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->dtype;
  return q->problem->dtype == ATTN_F8E5M2;
}

static const backend_constraint rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_not_90 },
  GPU_ROWS_COMMON,
  { ATTN_REASON_DTYPE, gpu_not_16bit_fp8 },
  { ATTN_REASON_DTYPE, fp8_e5m2 },
  { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },
  { ATTN_REASON_HEAD_DIM_LARGE, head_dim_large },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_fp8_16 },
  { ATTN_REASON_HEAD_DIM_PAIR, head_dim_pair },
  { ATTN_REASON_MASK, gpu_mask },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_top_left },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset },
  { ATTN_REASON_ALIBI, gpu_alibi },
  { ATTN_REASON_DROPOUT, gpu_dropout },
  { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

/* Tiles of hopper/tile_size.h, rounded; it splits keys like flash decoding does. */
static void estimate(const backend_query *q, backend_cost *cost) {
  int64_t dim = q->problem->head_dim;
  gpu_kernel k = { .tile_q = 128,
                   .tile_k = dim <= 64 ? 192 : dim <= 128 ? 176 : 80,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_FLASH_V3, q->capability, dim),
                   .launches = 1,
                   .max_splits = 128,
                   .pack_heads = true };
  if (dim <= 64) k.tile_q = 192;
  gpu_estimate(q, &k, cost);
}

const backend_implementation flash_v3_cuda = {
  .device = ATTN_DEVICE_CUDA,
  .name = "flash_v3/cuda",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
};
