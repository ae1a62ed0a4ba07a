// SPDX-License-Identifier: Apache-2.0
/* Few queries over many keys: the device's flash kernel with the keys split over compute units. */
#include "backend/gpu.h"

enum { MAX_SEQ_Q = 64 }; /* one tile of queries; more of them fill the device without splits */

static bool many_queries(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_q, *limit = MAX_SEQ_Q;
  return q->problem->seq_q > MAX_SEQ_Q;
}

#define ROWS                                                                                       \
  GPU_ROWS_COMMON, { ATTN_REASON_SEQ_Q_LARGE, many_queries },                                      \
      { ATTN_REASON_DTYPE, gpu_not_16bit }, { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },      \
      { ATTN_REASON_HEAD_DIM_LARGE, gpu_head_dim_above_256 },                                      \
      { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },                                       \
      { ATTN_REASON_HEAD_DIM_PAIR, gpu_head_dims_differ }, { ATTN_REASON_MASK, gpu_mask },         \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_top_left },                                              \
      { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset },                                         \
      { ATTN_REASON_DROPOUT, gpu_dropout }, { ATTN_REASON_VARLEN, gpu_varlen },                    \
      { ATTN_REASON_PAGE_SIZE, gpu_page_size_256 },                                                \
      { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant }

static const backend_constraint cuda_rows[] = { { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 }, ROWS };
static const backend_constraint rocm_rows[] = { { ATTN_REASON_ARCH, gpu_rocm_arch }, ROWS };
static const backend_constraint metal_rows[] = { ROWS };

static void cuda_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(cuda_rows, q, r); }
static void rocm_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rocm_rows, q, r); }
static void metal_supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(metal_rows, q, r); }

static void estimate(const backend_query *q, backend_cost *cost) {
  int64_t dim = q->problem->head_dim;
  gpu_kernel k = { .tile_q = 64,
                   .tile_k = dim <= 64 ? 256 : 128,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_FLASH_DECODE, q->capability, dim),
                   .launches = 1,
                   .max_splits = 128,
                   .pack_heads = true };
  gpu_estimate(q, &k, cost);
}

#define DECODE_ON(symbol, type, label, check)                                                      \
  const backend_implementation symbol = { .device = type, .name = label, .deterministic = true,    \
                                          .supports = check, .estimate = estimate }
DECODE_ON(flash_decode_cuda, ATTN_DEVICE_CUDA, "flash_decode/cuda", cuda_supports);
DECODE_ON(flash_decode_rocm, ATTN_DEVICE_ROCM, "flash_decode/rocm", rocm_supports);
DECODE_ON(flash_decode_metal, ATTN_DEVICE_METAL, "flash_decode/metal", metal_supports);
