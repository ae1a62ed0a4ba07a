// SPDX-License-Identifier: Apache-2.0
/* Packed sequences on the device's FlashAttention-2: what that takes, plus cu_seqlens. */
#include "backend/gpu.h"

static const backend_constraint cuda_rows[] = {
  { ATTN_REASON_NOT_VARLEN, gpu_not_varlen },
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  GPU_ROWS_FLASH,
};
static const backend_constraint rocm_rows[] = {
  { ATTN_REASON_NOT_VARLEN, gpu_not_varlen },
  { ATTN_REASON_ARCH, gpu_rocm_arch },
  GPU_ROWS_FLASH,
};

static void cuda_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(cuda_rows, q, r);
}
static void rocm_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(rocm_rows, q, r);
}

static void estimate(const backend_query *q, backend_cost *cost) {
  gpu_kernel k = gpu_flash_kernel(q);
  k.efficiency =
      gpu_efficiency(ATTN_BACKEND_VARLEN, q->capability, (k.dim + k.dim_v) / 2, q->problem);
  k.max_splits = 1;
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
