// SPDX-License-Identifier: Apache-2.0
/* FlashAttention-2 as flash-attention and PyTorch ship it (CUDA), Composable Kernel / AOTriton
 * (ROCm) and oneDNN Graph (XPU). */
#include "backend/gpu.h"

static const backend_constraint cuda_rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  GPU_ROWS_FLASH,
  { ATTN_REASON_VARLEN, gpu_varlen },
};
static const backend_constraint rocm_rows[] = {
  { ATTN_REASON_ARCH, gpu_rocm_arch },
  GPU_ROWS_FLASH,
  { ATTN_REASON_VARLEN, gpu_varlen },
};
static const backend_constraint xpu_rows[] = {
  GPU_ROWS_FLASH,
  { ATTN_REASON_VARLEN, gpu_varlen },
  { ATTN_REASON_WINDOW, gpu_window },
  { ATTN_REASON_SOFTCAP, gpu_softcap },
  { ATTN_REASON_ALIBI, gpu_alibi },
  { ATTN_REASON_DROPOUT, gpu_dropout },
  { ATTN_REASON_PAGED, gpu_paged },
  { ATTN_REASON_KV_LENGTHS, gpu_kv_lengths },
};

static void cuda_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(cuda_rows, q, r);
}
static void rocm_supports(const backend_query *q, backend_reasons *r) {
  GPU_CHECK(rocm_rows, q, r);
}
static void xpu_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(xpu_rows, q, r); }

/* One query of a group is laid out as that many rows (seqlenq_ngroups_swapped in flash_api.cpp). */
static bool swaps_heads(const attn_problem *p) {
  return p->seq_q == 1 && !p->window && !p->alibi && p->dropout == 0;
}

static void estimate(const backend_query *q, backend_cost *cost) {
  gpu_kernel k = gpu_flash_kernel(q);
  k.efficiency =
      gpu_efficiency(ATTN_BACKEND_FLASH, q->capability, (k.dim + k.dim_v) / 2, q->problem);
  k.max_splits = 1;
  k.pack_heads = swaps_heads(q->problem);
  gpu_estimate(q, &k, cost);
}

#define FLASH_ON(symbol, type, label, check)                                                       \
  const backend_implementation symbol = {                                                          \
    .device = type, .name = label, .deterministic = true, .supports = check, .estimate = estimate  \
  }
FLASH_ON(flash_cuda, ATTN_DEVICE_CUDA, "flash/cuda", cuda_supports);
FLASH_ON(flash_rocm, ATTN_DEVICE_ROCM, "flash/rocm", rocm_supports);
FLASH_ON(flash_xpu, ATTN_DEVICE_XPU, "flash/xpu", xpu_supports);
