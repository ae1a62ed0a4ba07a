// SPDX-License-Identifier: Apache-2.0
/* Few queries over many keys: the device's flash kernel with the keys split over compute units. */
#include "backend/gpu.h"

enum {
  CUDA_SEQ_Q = 64, /* one tile of queries; more of them fill the device without splits */
  METAL_SEQ_Q = 8, /* MLX's sdpa_vector takes no more */
};

static bool many_queries(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_q;
  *limit = q->capability->device == ATTN_DEVICE_METAL ? METAL_SEQ_Q : CUDA_SEQ_Q;
  return *value > *limit;
}

/* The split kernels have no dropout (flash_api.cpp). */
#define ROWS                                                                                       \
  GPU_ROWS_FLASH, { ATTN_REASON_SEQ_Q_LARGE, many_queries }, { ATTN_REASON_DROPOUT, gpu_dropout }, \
  {                                                                                                \
    ATTN_REASON_VARLEN, gpu_varlen                                                                 \
  }

static const backend_constraint cuda_rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  ROWS,
};
static const backend_constraint rocm_rows[] = { { ATTN_REASON_ARCH, gpu_rocm_arch }, ROWS };
/* What the device's flash, MLX's fused kernel, needs; head sizes up to 256. */
static const backend_constraint metal_rows[] = {
  GPU_ROWS_COMMON,
  { ATTN_REASON_SEQ_Q_LARGE, many_queries },
  { ATTN_REASON_DTYPE, gpu_not_16bit_f32 },
  { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },
  { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_not_bottom_right },
  { ATTN_REASON_WINDOW, gpu_window },
  { ATTN_REASON_SOFTCAP, gpu_softcap },
  { ATTN_REASON_ALIBI, gpu_alibi },
  { ATTN_REASON_DROPOUT, gpu_dropout },
  { ATTN_REASON_VARLEN, gpu_varlen },
  { ATTN_REASON_PAGED, gpu_paged },
  { ATTN_REASON_KV_LENGTHS, gpu_kv_lengths },
  { ATTN_REASON_LSE, gpu_lse },
};

static void cuda_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(cuda_rows, q, r);
}
static void rocm_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(rocm_rows, q, r);
}
static void metal_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(metal_rows, q, r);
}

/* Tiles of run_mha_fwd_splitkv_dispatch (flash_fwd_launch_template.h); it counts two slots a unit.
 * MLX's kernels have no matrix tiles: a simdgroup reads a key for each query. */
static void estimate(const backend_query *q, backend_cost *cost) {
  gpu_kernel k = gpu_flash_kernel(q);
  if (q->capability->device == ATTN_DEVICE_METAL) {
    k.tile_q = 1, k.tile_k = 32, k.dim = q->problem->head_dim, k.dim_v = q->problem->head_dim_v;
  } else {
    k.tile_q = 64, k.tile_k = k.dim <= 64 ? 256 : k.dim <= 128 ? 128 : 64;
  }
  k.efficiency =
      gpu_efficiency(ATTN_BACKEND_FLASH_DECODE, q->capability, (k.dim + k.dim_v) / 2, q->problem);
  k.max_splits = 128;
  k.slots_per_unit = 2;
  k.pack_heads = true;
  gpu_estimate(q, &k, cost);
}

#define DECODE_ON(symbol, type, label, check)                                                      \
  const backend_implementation symbol = {                                                          \
    .device = type, .name = label, .deterministic = true, .supports = check, .estimate = estimate  \
  }
DECODE_ON(flash_decode_cuda, ATTN_DEVICE_CUDA, "flash_decode/cuda", cuda_supports);
DECODE_ON(flash_decode_rocm, ATTN_DEVICE_ROCM, "flash_decode/rocm", rocm_supports);
DECODE_ON(flash_decode_metal, ATTN_DEVICE_METAL, "flash_decode/metal", metal_supports);
