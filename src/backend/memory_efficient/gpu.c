// SPDX-License-Identifier: Apache-2.0
/* CUTLASS's memory-efficient attention, as xformers and PyTorch ship it; on ROCm AOTriton's. Heads
 * of a group are shared without expansion, as since mid-2026. */
#include "backend/gpu.h"

/* Elements that rows of 16 bytes hold where tensor cores are used (minimum_gemm_alignment,
 * sdp_utils.cpp). */
static bool head_dim_align(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  int major = q->capability->compute_major;
  bool wide = p->dtype == ATTN_F32, rocm = q->capability->device == ATTN_DEVICE_ROCM;
  int64_t align = wide ? (major >= 8 || rocm ? 4 : 1) : (major >= 7 || rocm ? 8 : 1);
  *limit = (double)align;
  *value = (double)(p->head_dim % align ? p->head_dim : p->head_dim_v);
  return p->head_dim % align || p->head_dim_v % align;
}

#define ROWS                                                                                       \
  GPU_ROWS_COMMON, { ATTN_REASON_DTYPE, gpu_not_16bit_f32 },                                       \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, head_dim_align },                                           \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_no_corner }, { ATTN_REASON_SOFTCAP, gpu_softcap },       \
      { ATTN_REASON_ALIBI, gpu_alibi }, { ATTN_REASON_PAGED, gpu_paged },                          \
      { ATTN_REASON_BATCH_LARGE, gpu_batch_65535 }, {                                              \
    ATTN_REASON_HEADS_LARGE, gpu_heads_65535                                                       \
  }

static const backend_constraint cuda_rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_50 },
  ROWS,
};
static const backend_constraint rocm_rows[] = {
  { ATTN_REASON_ARCH, gpu_rocm_arch },
  ROWS,
  { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },
  { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ },
};

static void cuda_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(cuda_rows, q, r);
}
static void rocm_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(rocm_rows, q, r);
}

/* The kernels of PyTorch's generator: 64 x 64 to head_dim 64, 64 x 128 to 128 with the output in
 * registers, 32 x 128 above. */
static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  int64_t dim = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
  gpu_kernel k = {
    .tile_q = dim <= 128 ? 64 : 32,
    .tile_k = dim <= 64 ? 64 : 128,
    .dim = p->head_dim,
    .dim_v = p->head_dim_v,
    .efficiency = gpu_efficiency(ATTN_BACKEND_MEMORY_EFFICIENT, q->capability, dim, p),
    .max_splits = 1,
    .slots_per_unit = 1,
  };
  gpu_estimate(q, &k, cost);
}

const backend_implementation memory_efficient_cuda = { .device = ATTN_DEVICE_CUDA,
                                                       .name = "memory_efficient/cuda",
                                                       .deterministic = true,
                                                       .supports = cuda_supports,
                                                       .estimate = estimate };
const backend_implementation memory_efficient_rocm = { .device = ATTN_DEVICE_ROCM,
                                                       .name = "memory_efficient/rocm",
                                                       .deterministic = true,
                                                       .supports = rocm_supports,
                                                       .estimate = estimate };
