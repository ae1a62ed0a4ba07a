// SPDX-License-Identifier: Apache-2.0
/* Packed sequences on the device's flash kernel: what flash takes, plus cu_seqlens. */
#include "backend/gpu.h"

#define ROWS                                                                                       \
  GPU_ROWS_COMMON, { ATTN_REASON_NOT_VARLEN, gpu_not_varlen },                                     \
      { ATTN_REASON_DTYPE, gpu_not_16bit }, { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },      \
      { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },                                      \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },                                       \
      { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ }, { ATTN_REASON_MASK, gpu_mask },         \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_top_left },                                              \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset },                                         \
      { ATTN_REASON_SOFTCAP, gpu_softcap_dropout },                                                \
      { ATTN_REASON_PAGE_SIZE, gpu_page_size_256 },                                                \
      { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant }

static const backend_constraint cuda_rows[] = { { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 }, ROWS };
static const backend_constraint rocm_rows[] = { { ATTN_REASON_ARCH, gpu_rocm_arch }, ROWS };

static void cuda_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(cuda_rows, q, r); }
static void rocm_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rocm_rows, q, r); }

static void estimate(const backend_query *q, backend_cost *cost) {
  int64_t dim = q->problem->head_dim;
  gpu_kernel k = { .tile_q = 128,
                   .tile_k = dim <= 64 ? 128 : 64,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_VARLEN, q->capability, dim),
                   .launches = 1,
                   .max_splits = 1 };
  gpu_estimate(q, &k, cost);
}

const backend_implementation varlen_cuda = { .device = ATTN_DEVICE_CUDA,
                                             .name = "varlen/cuda",
                                             .deterministic = true,
                                             .supports = cuda_supports,
                                             .estimate = estimate };
const backend_implementation varlen_rocm = { .device = ATTN_DEVICE_ROCM,
                                             .name = "varlen/rocm",
                                             .deterministic = true,
                                             .supports = rocm_supports,
                                             .estimate = estimate };
