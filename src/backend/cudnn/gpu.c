// SPDX-License-Identifier: Apache-2.0
/*
 * cuDNN's fused attention. Its limits depend on its version: the rows follow PyTorch's selector
 * (sdp_utils.cpp) and cudnn-frontend (sdpa_support_surface.h). An unknown version (0, as in every
 * profile) is taken for 9.22, the release whose measurements the cost model knows.
 */
#include <math.h>

#include "backend/gpu.h"

enum { ASSUMED_VERSION = 92200 }; /* cudnnGetVersion(): 8903 is 8.9.3, 92200 is 9.22.0 */

static int version_of(const backend_query *q) {
  return q->capability->cudnn_version ? q->capability->cudnn_version : ASSUMED_VERSION;
}

/* Hopper and data-center Blackwell, which have more of everything. */
static bool is_9_or_10(const backend_query *q) {
  return q->capability->compute_major == 9 || q->capability->compute_major == 10;
}

static bool too_old(const backend_query *q, double *value, double *limit) {
  *value = version_of(q);
  *limit = gpu_is_fp8(q->problem->dtype) ? 90100 : 8903;
  return *value < *limit;
}

/* 9.10.0 gave wrong results, and so did 9.10.1 in 16 bits. */
static bool broken_release(const backend_query *q, double *value, double *limit) {
  *value = version_of(q), *limit = 91002;
  return version_of(q) == 91000 || (version_of(q) == 91001 && !gpu_is_fp8(q->problem->dtype));
}

static bool fp8_hardware(const backend_query *q, double *value, double *limit) {
  *value = q->problem->dtype, *limit = 9.0;
  return gpu_is_fp8(q->problem->dtype) && !(gpu_cc(q) >= 9.0);
}

/* Head sizes to 128; 192 with 128 from 9.11 (fp8: 9.19), and all to 256 from 9.22 (fp8: 9.26), on
 * compute capability 9.x and 10.x. */
static bool head_dim_large(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  bool fp8 = gpu_is_fp8(p->dtype), wide = is_9_or_10(q);
  int64_t largest = p->head_dim > p->head_dim_v ? p->head_dim : p->head_dim_v;
  *value = (double)largest;
  *limit = wide && version_of(q) >= (fp8 ? 92600 : 92200) ? 256 : 128;
  bool mla = wide && version_of(q) >= (fp8 ? 91900 : 91100);
  return *value > *limit && !(mla && p->head_dim == 192 && p->head_dim_v == 128);
}

/* An additive mask needs 8.9.3, a bool one 9.0; fp8 takes none. */
static bool mask(const backend_query *q, double *value, double *limit) {
  if (!q->problem->mask) return false;
  *value = q->problem->mask;
  if (gpu_is_fp8(q->problem->dtype)) return true;
  *limit = q->problem->mask == ATTN_MASK_BOOL ? 90000 : 8903;
  return version_of(q) < *limit;
}

static bool window_version(const backend_query *q, double *value, double *limit) {
  *value = version_of(q), *limit = 90200;
  return q->problem->window && version_of(q) < 90200;
}

/* A window goes with causal, without bias or dropout, and not beyond the last key. */
static bool window(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  (void)value, (void)limit;
  bool padded = p->kv_lengths || p->varlen;
  return p->window &&
         (!p->causal || p->mask || p->dropout > 0 || (!padded && p->seq_q > p->seq_kv));
}

/* Bottom right goes without mask, ALiBi and dropout, in fp8 on 10.x alone, and not with more
 * queries than keys. Where both corners fall together it is taken for top left. */
static bool bottom_right(const backend_query *q, double *value, double *limit) {
  const attn_problem *p = q->problem;
  bool padded = p->kv_lengths || p->varlen;
  *value = (double)(p->seq_kv - p->seq_q), *limit = 0;
  if (gpu_alignment(p) != ATTN_CAUSAL_BOTTOM_RIGHT || (!padded && p->seq_q == p->seq_kv))
    return false;
  if (gpu_is_fp8(p->dtype) && q->capability->compute_major < 10) return true;
  return p->mask || p->alibi || p->dropout > 0 || (!padded && p->seq_q > p->seq_kv);
}

static bool alibi(const backend_query *q, double *value, double *limit) {
  (void)value, (void)limit;
  return q->problem->alibi && (!q->problem->causal || gpu_is_fp8(q->problem->dtype));
}

/* Probabilities are kept in sixteenths; 9.11 to 9.13 have no dropout. */
static bool dropout(const backend_query *q, double *value, double *limit) {
  double sixteenths = (double)q->problem->dropout * 16;
  *value = (double)q->problem->dropout, *limit = 1.0 / 16;
  if (q->problem->dropout == 0) return false;
  return sixteenths != floor(sixteenths) || (version_of(q) >= 91100 && version_of(q) < 91400);
}

static bool dropout_one_query(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_q, *limit = 2;
  return q->problem->dropout > 0 && q->problem->seq_q < 2;
}

static bool one_key(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->seq_kv, *limit = 2;
  return q->problem->seq_kv < 2;
}

static bool varlen_hardware(const backend_query *q, double *value, double *limit) {
  *value = gpu_cc(q), *limit = 9.0;
  return q->problem->varlen && !is_9_or_10(q);
}

static bool paged_version(const backend_query *q, double *value, double *limit) {
  *value = version_of(q), *limit = 90500;
  return q->problem->page_size && version_of(q) < 90500;
}

/* Pages go with lengths of queries and keys. */
static bool paged_lengths(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = (double)q->problem->page_size;
  return q->problem->page_size && !q->problem->kv_lengths && !q->problem->varlen;
}

static const backend_constraint rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_below_80 },
  GPU_ROWS_COMMON,
  { ATTN_REASON_VERSION, too_old },
  { ATTN_REASON_VERSION, broken_release },
  { ATTN_REASON_DTYPE, gpu_not_16bit_fp8 },
  { ATTN_REASON_DTYPE, fp8_hardware },
  { ATTN_REASON_FP8_SCALE, gpu_fp8_scale_head },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_fp8_16 },
  { ATTN_REASON_HEAD_DIM_LARGE, head_dim_large },
  { ATTN_REASON_MASK, mask },
  { ATTN_REASON_VERSION, window_version },
  { ATTN_REASON_WINDOW, window },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_no_corner },
  { ATTN_REASON_CAUSAL_ALIGNMENT, bottom_right },
  { ATTN_REASON_SOFTCAP, gpu_softcap },
  { ATTN_REASON_ALIBI, alibi },
  { ATTN_REASON_DROPOUT, dropout },
  { ATTN_REASON_SEQ_SMALL, dropout_one_query },
  { ATTN_REASON_SEQ_SMALL, one_key },
  { ATTN_REASON_VARLEN, varlen_hardware },
  { ATTN_REASON_VERSION, paged_version },
  { ATTN_REASON_PAGED, paged_lengths },
  { ATTN_REASON_BATCH_LARGE, gpu_batch_65535 },
  { ATTN_REASON_HEADS_LARGE, gpu_heads_65535 },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

static int64_t pad(int64_t x, int64_t to) { return (x + to - 1) / to * to; }

/* Its tiles are not published. Stated: 128 by 128, 64 where a sequence is no longer than that, and
 * from Blackwell on two such tiles of queries a work item. Keys are not split: when it does so is
 * internal. */
static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  bool blackwell = q->capability->compute_major >= 10 && q->capability->compute_major < 12;
  gpu_kernel k = {
    .tile_q = p->seq_q <= 64                  ? 64
              : p->seq_q <= 128 || !blackwell ? 128
                                              : 256,
    .tile_k = p->seq_kv <= 64 ? 64 : 128,
    .dim = pad(p->head_dim, 64),
    .dim_v = pad(p->head_dim_v, 64),
    .max_splits = 1,
    .slots_per_unit = 1,
    .converts_output = gpu_is_fp8(p->dtype) && p->out_dtype == ATTN_F32,
  };
  k.efficiency = gpu_efficiency(ATTN_BACKEND_CUDNN, q->capability, (k.dim + k.dim_v) / 2, p);
  gpu_estimate(q, &k, cost);
}

/* Frameworks leave it out where results must repeat (check_cudnn_deterministic, sdp_utils.cpp). */
const backend_implementation cudnn_cuda = {
  .device = ATTN_DEVICE_CUDA,
  .name = "cudnn/cuda",
  .deterministic = false,
  .supports = supports,
  .estimate = estimate,
};
