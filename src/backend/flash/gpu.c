// SPDX-License-Identifier: Apache-2.0
/* FlashAttention-2 as flash-attention and PyTorch ship it (CUDA), Composable Kernel / AOTriton (ROCm)
 * and oneDNN Graph (XPU). */
#include "backend/gpu.h"

#define FLASH_ROWS                                                                                 \
  GPU_ROWS_COMMON, { ATTN_REASON_DTYPE, gpu_not_16bit },                                           \
      { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },                                            \
      { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },                                      \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },                                       \
      { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ }, { ATTN_REASON_MASK, gpu_mask },         \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_top_left },                                              \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset },                                         \
      { ATTN_REASON_SOFTCAP, gpu_softcap_dropout }, { ATTN_REASON_VARLEN, gpu_varlen },            \
      { ATTN_REASON_PAGE_SIZE, gpu_page_size_256 },                                                \
      { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant }

static const backend_constraint cuda_rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  FLASH_ROWS,
};
static const backend_constraint rocm_rows[] = {
  { ATTN_REASON_ARCH, gpu_rocm_arch },
  FLASH_ROWS,
};
static const backend_constraint xpu_rows[] = {
  FLASH_ROWS,
  { ATTN_REASON_WINDOW, gpu_window },
  { ATTN_REASON_SOFTCAP, gpu_softcap },
  { ATTN_REASON_ALIBI, gpu_alibi },
  { ATTN_REASON_DROPOUT, gpu_dropout },
  { ATTN_REASON_PAGED, gpu_paged },
};

static void cuda_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(cuda_rows, q, r); }
static void rocm_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rocm_rows, q, r); }
static void xpu_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(xpu_rows, q, r); }

/* Blocks of 128 queries by 128 keys at head_dim 64, 128 by 64 above (flash_fwd_launch_template.h). */
static void estimate(const backend_query *q, backend_cost *cost) {
  int64_t dim = q->problem->head_dim;
  gpu_kernel k = { .tile_q = 128,
                   .tile_k = dim <= 64 ? 128 : 64,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_FLASH, q->capability, dim),
                   .launches = 1,
                   .max_splits = 1 };
  gpu_estimate(q, &k, cost);
}

#define FLASH_ON(symbol, type, label, check)                                                       \
  const backend_implementation symbol = { .device = type, .name = label, .deterministic = true,    \
                                          .supports = check, .estimate = estimate }
FLASH_ON(flash_cuda, ATTN_DEVICE_CUDA, "flash/cuda", cuda_supports);
FLASH_ON(flash_rocm, ATTN_DEVICE_ROCM, "flash/rocm", rocm_supports);
FLASH_ON(flash_xpu, ATTN_DEVICE_XPU, "flash/xpu", xpu_supports);
