// SPDX-License-Identifier: Apache-2.0
/* FlashAttention-3: wgmma and TMA warp specialisation, which compute capability 9.0 alone has. It
 * needs CUDA 12.3, which a capability does not tell. */
#include <math.h>

#include "backend/gpu.h"

static bool is_16bit(const attn_problem *p) {
  return p->dtype == ATTN_F16 || p->dtype == ATTN_BF16;
}

/* head_dim_v may differ: qk 129-192 with v 97-128, or qk <= 64 with v up to 512, 16-bit types. */
static bool head_dim_pair(const backend_query *q, double *value, double *limit) {
  int64_t d = q->problem->head_dim, v = q->problem->head_dim_v;
  *value = (double)v, *limit = (double)d;
  if (d == v) return false;
  bool mla = d >= 129 && d <= 192 && v >= 97 && v <= 128, wide = d <= 64 && v <= 512;
  return !(is_16bit(q->problem) && (mla || wide));
}

static bool head_dim_large(const backend_query *q, double *value, double *limit) {
  *value = (double)q->problem->head_dim, *limit = 256;
  return q->problem->head_dim > 256;
}

static bool fp8_e5m2(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->dtype;
  return q->problem->dtype == ATTN_F8E5M2;
}

/* It writes bf16 for fp8 inputs. */
static bool fp8_output(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->out_dtype;
  return gpu_is_fp8(q->problem->out_dtype);
}

/* Its scales are per key head, also the queries'. */
static bool fp8_scale_query_head(const backend_query *q, double *value, double *limit) {
  return q->problem->heads_q != q->problem->heads_kv && gpu_fp8_scale_head(q, value, limit);
}

static const backend_constraint rows[] = {
  { ATTN_REASON_COMPUTE_CAPABILITY, gpu_cc_not_90 },
  GPU_ROWS_COMMON,
  { ATTN_REASON_DTYPE, gpu_not_16bit_fp8 },
  { ATTN_REASON_DTYPE, fp8_e5m2 },
  { ATTN_REASON_OUT_DTYPE, fp8_output },
  { ATTN_REASON_FP8_SCALE, fp8_scale_query_head },
  { ATTN_REASON_HEAD_DIM_LARGE, head_dim_large },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_not_8 },
  { ATTN_REASON_HEAD_DIM_MULTIPLE, gpu_head_dim_fp8_16 },
  { ATTN_REASON_HEAD_DIM_PAIR, head_dim_pair },
  { ATTN_REASON_MASK, gpu_mask },
  { ATTN_REASON_CAUSAL_ALIGNMENT, gpu_not_bottom_right },
  { ATTN_REASON_ALIBI, gpu_alibi },
  { ATTN_REASON_DROPOUT, gpu_dropout },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

/* Tiles of tile_size_fwd_sm90 (hopper/tile_size.h). */
static void choose_tiles(const attn_problem *p, gpu_kernel *k) {
  bool causal = p->causal != ATTN_CAUSAL_NONE, local = p->window, fp8 = gpu_is_fp8(p->dtype);
  k->tile_q = 128;
  if (k->dim <= 64) {
    k->tile_q = 192;
    k->tile_k = fp8 ? 160 : causal ? 128 : local ? 160 : 192;
    if (!fp8 && k->dim_v > 256)
      k->tile_q = 64, k->tile_k = 64;
    else if (!fp8 && k->dim_v > 64)
      k->tile_q = 128, k->tile_k = 112;
  } else if (k->dim <= 96) {
    k->tile_q = 192, k->tile_k = fp8 || local ? 128 : 144;
  } else if (k->dim <= 128) {
    k->tile_k = fp8 ? 224 : causal || local ? 128 : 176;
  } else if (k->dim <= 192) {
    k->tile_k = fp8 ? 160 : local ? 96 : k->dim_v <= 128 ? 128 : 112;
  } else {
    k->tile_k = fp8 ? 128 : local ? 64 : 80;
  }
}

static int64_t padded_dim(int64_t d) {
  return d <= 64 ? 64 : d <= 96 ? 96 : d <= 128 ? 128 : d <= 192 ? 192 : d <= 256 ? 256 : 512;
}

/* PackGQA where it fills tiles better, and one warpgroup's tile for few rows at head_dim 128
 * (hopper/heuristics.h); splits on as many slots as units, none for up to 4 blocks of keys. */
static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  gpu_kernel k = { .dim = padded_dim(p->head_dim), .dim_v = padded_dim(p->head_dim_v) };
  choose_tiles(p, &k);
  double queries = (double)p->seq_q, tile = (double)k.tile_q;
  double packed = queries * (p->heads_kv ? (double)(p->heads_q / p->heads_kv) : 1);
  double plain_share = queries / (ceil(queries / tile) * tile);
  k.pack_heads = p->varlen || plain_share < 0.9 * packed / (ceil(packed / tile) * tile);
  if (k.dim == 128 && (k.pack_heads ? packed : queries) <= 64) k.tile_q = 64;
  k.efficiency = gpu_efficiency(ATTN_BACKEND_FLASH_V3, q->capability, (k.dim + k.dim_v) / 2, p);
  k.max_splits = 256;
  k.min_split_blocks = 5;
  k.slots_per_unit = 1;
  k.converts_output = gpu_is_fp8(p->dtype) && p->out_dtype == ATTN_F32;
  gpu_estimate(q, &k, cost);
}

const backend_implementation flash_v3_cuda = {
  .device = ATTN_DEVICE_CUDA,
  .name = "flash_v3/cuda",
  .deterministic = true,
  .supports = supports,
  .estimate = estimate,
};
