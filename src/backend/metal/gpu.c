// SPDX-License-Identifier: Apache-2.0
/* The fused kernels of MLX on Apple GPUs. */
#include "backend/gpu.h"

static bool head_dim_set(const backend_query *q, double *value, double *limit) {
  static const int64_t sizes[] = { 64, 80, 96, 128, 256 };
  (void)limit;
  *value = (double)q->problem->head_dim;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
    if (q->problem->head_dim == sizes[i]) return false;
  return true;
}

static const backend_constraint rows[] = {
  GPU_ROWS_COMMON,
  { ATTN_REASON_DTYPE, gpu_not_16bit_f32 },
  { ATTN_REASON_HEAD_DIM_SET, head_dim_set },
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

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

/* Blocks of steel_attention (mlx): 32 queries by 32 keys, 16 keys from head_dim 128 on. */
static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  gpu_kernel k = {
    .tile_q = 32,
    .tile_k = p->head_dim < 128 ? 32 : 16,
    .dim = p->head_dim,
    .dim_v = p->head_dim_v,
    .efficiency = gpu_efficiency(ATTN_BACKEND_METAL, q->capability, p->head_dim, p),
    .max_splits = 1,
    .slots_per_unit = 1,
  };
  gpu_estimate(q, &k, cost);
}

const backend_implementation metal_metal = { .device = ATTN_DEVICE_METAL,
                                             .name = "metal/metal",
                                             .deterministic = true,
                                             .supports = supports,
                                             .estimate = estimate };
