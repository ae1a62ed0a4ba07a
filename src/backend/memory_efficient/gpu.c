// SPDX-License-Identifier: Apache-2.0
/* CUTLASS's memory-efficient attention, as xformers and PyTorch ship it. */
#include "backend/gpu.h"

#define ROWS                                                                                       \
  GPU_ROWS_COMMON, { ATTN_REASON_DTYPE, gpu_not_16bit_f32 },                                       \
      { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },                                            \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_align },                                       \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset }, { ATTN_REASON_SOFTCAP, gpu_softcap },   \
      { ATTN_REASON_ALIBI, gpu_alibi }, { ATTN_REASON_PAGED, gpu_paged },                          \
      { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant }

static const backend_constraint cuda_rows[] = { { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_50 }, ROWS };
static const backend_constraint rocm_rows[] = { { ATTN_REASON_ARCH, gpu_rocm_arch }, ROWS };

static void cuda_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(cuda_rows, q, r); }
static void rocm_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rocm_rows, q, r); }

static void estimate(const backend_query *q, backend_cost *cost) {
  gpu_kernel k = { .tile_q = 64,
                   .tile_k = 64,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_MEMORY_EFFICIENT, q->capability,
                                                q->problem->head_dim),
                   .launches = 1,
                   .max_splits = 1 };
  gpu_estimate(q, &k, cost);
  if (q->problem->dtype == ATTN_F32) cost->efficiency = 0.6; // stated: near a plain f32 GEMM
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
