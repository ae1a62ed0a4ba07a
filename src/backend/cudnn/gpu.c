// SPDX-License-Identifier: Apache-2.0
/* cuDNN's fused attention. Its limits depend on its version; an unknown version (0, as in every
 * profile) is taken for 9.10, and the recommendation's reasons name the version where one decided. */
#include <math.h>

#include "backend/gpu.h"

enum { ASSUMED_VERSION = 91000 };

static int version_of(const backend_query *q) {
  return q->capability->cudnn_version ? q->capability->cudnn_version : ASSUMED_VERSION;
}

/* Head sizes to 128; 192/128 from 9.11 on 9.x and 10.x; 256 from 9.22. */
static bool head_dim(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  int64_t d = p->head_dim, v = p->head_dim_v;
  *value = (double)(d > v ? d : v), *limit = 128;
  if (d <= 128 && v <= 128) return false;
  int major = q->capability->compute_major;
  if (d <= 192 && v <= 128) return !(version_of(q) >= 91100 && (major == 9 || major == 10));
  *limit = 256;
  return !(d <= 256 && v <= 256 && version_of(q) >= 92200);
}

/* A mask tensor needs 8.9.3, a bool one 9.0 (before, only an additive bias was taken). */
static bool mask_version(const backend_query *q, double *value, double *limit) {
  if (!q->problem->mask) return false;
  *value = version_of(q);
  *limit = q->problem->mask == ATTN_MASK_BOOL ? 90000 : 8903;
  if (version_of(q) >= 10000) return version_of(q) < *limit; // numbered MAJOR * 10000 from 9.0 on
  return q->problem->mask == ATTN_MASK_BOOL || version_of(q) < 8903;
}

static bool window(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  *value = version_of(q), *limit = 90200;
  return p->window && (version_of(q) < 90200 || !p->causal || p->window_right > 0);
}

/* Probabilities are kept in sixteenths; 9.11 to 9.13 have no dropout. */
static bool dropout(const backend_query *q, double *value, double *limit) {
  double p = (double)q->problem->dropout * 16;
  *value = (double)q->problem->dropout, *limit = 1.0 / 16;
  if (q->problem->dropout == 0) return false;
  return p != floor(p) || (version_of(q) >= 91100 && version_of(q) < 91400);
}

static bool dropout_one_query(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_q, *limit = 2;
  return q->problem->dropout > 0 && q->problem->seq_q < 2;
}

static bool one_key(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_kv, *limit = 2;
  return q->problem->seq_kv < 2;
}

static bool varlen_arch(const backend_query *q, double *value, double *limit) {
  *value = q->capability->compute_major + q->capability->compute_minor / 10.0, *limit = 9;
  return q->problem->varlen && q->capability->compute_major != 9 && q->capability->compute_major != 10;
}

static bool paged_version(const backend_query *q, double *value, double *limit) {
  *value = version_of(q), *limit = 90500;
  return q->problem->page_size && version_of(q) < 90500;
}

static bool deterministic(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  return q->config->deterministic;
}

static const backend_constraint rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  GPU_ROWS_COMMON,
  { ATTN_REASON_DTYPE, gpu_not_16bit_fp8 },
  { ATTN_REASON_DTYPE, gpu_fp8_unsupported },
  { ATTN_REASON_OUT_DTYPE, gpu_out_dtype_differs },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },
  { ATTN_REASON_HEAD_DIM_LARGE, head_dim },
  { ATTN_REASON_MASK, mask_version },
  { ATTN_REASON_WINDOW, window },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_causal_offset },
  { ATTN_REASON_SOFTCAP, gpu_softcap },
  { ATTN_REASON_DROPOUT, dropout },
  { ATTN_REASON_SEQ_SMALL, dropout_one_query },
  { ATTN_REASON_SEQ_SMALL, one_key },
  { ATTN_REASON_COMPUTE_CAPABILITY, varlen_arch },
  { ATTN_REASON_VERSION, paged_version },
  { ATTN_REASON_BATCH_LARGE, gpu_batch_65535 },
  { ATTN_REASON_HEADS_LARGE, gpu_heads_65535 },
  { ATTN_REASON_DETERMINISTIC, deterministic },
  { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

/* Its heuristics pick smaller tiles for short sequences; keys are split inside. */
static void estimate(const backend_query *q, backend_cost *cost) {
  int64_t dim = q->problem->head_dim;
  gpu_kernel k = { .tile_q = q->problem->seq_q <= 64 ? 64 : 128,
                   .tile_k = q->problem->seq_kv <= 64 ? 64 : 128,
                   .efficiency = gpu_efficiency(ATTN_BACKEND_CUDNN, q->capability, dim),
                   .launches = 1,
                   .max_splits = 1 };
  gpu_estimate(q, &k, cost);
}

const backend_implementation cudnn_cuda = {
  .device = ATTN_DEVICE_CUDA,
  .name = "cudnn/cuda",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
};
