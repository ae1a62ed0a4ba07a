// SPDX-License-Identifier: Apache-2.0
/*
 * Math on GPUs as frameworks run it: f16 and bf16 inputs are upcast to f32 in memory, keys and values
 * of a GQA group are expanded, scores are written by one matrix product, changed by a softmax (and a
 * mask) in memory, and read by another; the result is converted back.
 */
#include "backend/gpu.h"

static const backend_constraint rows[] = {
  { ATTN_REASON_PREFIX, gpu_prefix },
  { ATTN_REASON_PAGED, gpu_paged },
  { ATTN_REASON_VARLEN, gpu_varlen },
  { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  const attn_problem_size *s = q->size;
  bool upcast = p->dtype != ATTN_F32;
  double group = p->heads_kv ? (double)(p->heads_q / p->heads_kv) : 1;
  double q_count = (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->head_dim;
  double kv_count = (double)p->batch * (double)p->heads_q * (double)p->seq_kv *
                    (double)(p->head_dim + p->head_dim_v);
  double out_count = (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->head_dim_v;
  double stored = (double)(s->q_bytes + s->k_bytes + s->v_bytes), scores = (double)s->scores_bytes;
  double bytes = 4 * (q_count + kv_count + out_count) + (double)s->mask_bytes;
  int launches = 3; // two products and a softmax
  double copies = 0;
  if (upcast || group > 1) { // read as stored, written as f32 for every query head
    copies = 4 * (upcast ? q_count + kv_count : kv_count);
    bytes += stored + copies;
    launches += upcast ? 3 : 2;
  }
  if (upcast) bytes += 4 * out_count + (double)s->out_bytes, launches++;
  bytes += 4 * scores; // written, read and written by the softmax, read
  bool extra = p->mask || p->causal || p->window || p->alibi;
  if (extra) bytes += 2 * scores, launches++;
  if (p->softcap > 0) bytes += 2 * scores, launches++;
  if (p->dropout > 0) bytes += 2 * scores, launches++;
  *cost = (backend_cost){
    // every pair is computed, whatever structure would leave out
    .flops = 2 * (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_kv *
             (double)(p->head_dim + p->head_dim_v),
    .bytes = bytes,
    // stated: a large f32 GEMM of a vendor library, TF32 off; Apple's reach less of a shared peak
    .efficiency = q->capability->device == ATTN_DEVICE_METAL ? 0.7 : 0.8,
    .compute = ATTN_F32,
    .launches = launches,
    .items = (double)p->batch * (double)p->heads_q * (double)((p->seq_q + 63) / 64) *
             (double)((p->seq_kv + 127) / 128), // the products' own tiles
    .workspace_bytes = (int64_t)(2 * scores + copies + (upcast ? 4 * out_count : 0)),
    .splits = 1,
  };
}

#define MATH_ON(symbol, type, label)                                                               \
  const backend_implementation symbol = { .device = type, .name = label, .deterministic = true,    \
                                          .supports = supports, .estimate = estimate }
MATH_ON(math_cuda, ATTN_DEVICE_CUDA, "math/cuda");
MATH_ON(math_rocm, ATTN_DEVICE_ROCM, "math/rocm");
MATH_ON(math_metal, ATTN_DEVICE_METAL, "math/metal");
MATH_ON(math_xpu, ATTN_DEVICE_XPU, "math/xpu");
