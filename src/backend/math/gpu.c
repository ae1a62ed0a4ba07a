// SPDX-License-Identifier: Apache-2.0
/*
 * Math on GPUs as frameworks run it: types other than f32 and f64 are upcast to f32 in memory, keys
 * and values of a group are expanded, scores are written by one matrix product, changed by passes
 * (cap, mask, softmax, dropout) in memory, and read by another product; the result is converted
 * back.
 */
#include "backend/gpu.h"
#include "core/size.h"

static bool f64_on_metal(const backend_query *q, double *value, double *limit) {
  (void)limit;
  *value = q->problem->dtype;
  return q->problem->dtype == ATTN_F64 && q->capability->device == ATTN_DEVICE_METAL;
}

/* A callback of the host cannot be called by a kernel; library products choose their reductions by
 * the size of the whole batch. */
static const backend_constraint rows[] = {
  { ATTN_REASON_DTYPE, f64_on_metal },
  { ATTN_REASON_PAGED, gpu_paged },
  { ATTN_REASON_PREFIX, gpu_prefix },
  { ATTN_REASON_SCORE_MOD, gpu_score_mod },
  { ATTN_REASON_BATCH_INVARIANT, gpu_batch_invariant },
};

static void supports(const backend_query *q, backend_reasons *r) { GPU_CHECK(rows, q, r); }

/* Elements of what the products read and write, for all query heads. */
typedef struct counts {
  double q, kv, out, scores;
} counts;

static counts count(const attn_problem *p) {
  double heads = (double)p->batch * (double)p->heads_q;
  int64_t seq_q, seq_kv;
  gpu_lengths(p, &seq_q, &seq_kv);
  double sq = (double)seq_q, skv = (double)seq_kv;
  return (counts){ .q = heads * sq * (double)p->head_dim,
                   .kv = heads * skv * (double)(p->head_dim + p->head_dim_v),
                   .out = heads * sq * (double)p->head_dim_v,
                   .scores = heads * sq * skv };
}

/* Passes over the scores in memory beside the softmax, each reading and writing them. */
static int score_passes(const attn_problem *p) {
  bool masks = p->mask || p->causal || p->window || p->alibi || p->kv_lengths;
  return masks + (p->softcap > 0) + (p->dropout > 0) + p->sinks;
}

static void estimate(const backend_query *q, backend_cost *cost) {
  const attn_problem *p = q->problem;
  const attn_problem_size *s = q->size;
  counts n = count(p);
  bool f64 = p->dtype == ATTN_F64, upcast = p->dtype != ATTN_F32 && !f64;
  bool upcast_kv = p->kv_dtype != ATTN_F32 && !f64, expand = p->heads_kv != p->heads_q;
  double element = f64 ? 8 : 4, scores = element * n.scores;
  double copies = 0, pass_bytes = 2 * scores * (1 + score_passes(p)) + (double)s->mask_bytes;
  int launches = 3 + score_passes(p); // two products and a softmax
  if (upcast) pass_bytes += (double)s->q_bytes + element * n.q, copies += element * n.q, launches++;
  if (upcast_kv || expand) {
    pass_bytes += (double)(s->k_bytes + s->v_bytes) + element * n.kv;
    copies += element * n.kv, launches += 2;
  }
  bool downcast = p->out_dtype != (f64 ? ATTN_F64 : ATTN_F32);
  if (downcast) {
    pass_bytes += element * n.out + (double)s->out_bytes;
    copies += element * n.out, launches++;
  }
  // Packed sequences are a loop over them.
  if (p->varlen) launches *= (int)size_max(1, size_min(p->batch, 1 << 20));
  *cost = (backend_cost){
    // every pair is computed, whatever structure would leave out
    .flops = 2 * n.scores * (double)(p->head_dim + p->head_dim_v),
    .bytes =
        element * (n.q + n.kv + n.out) + 2 * scores, // scores written by one product, read by one
    .pass_bytes = pass_bytes,
    .bandwidth_efficiency = GPU_BANDWIDTH_UNFUSED,
    // stated: a large f32 product of a vendor library, TF32 off; Apple's reach less of a shared
    // peak
    .efficiency = q->capability->device == ATTN_DEVICE_METAL ? 0.7 : 0.8,
    .compute = f64 ? ATTN_F64 : ATTN_F32,
    .launches = launches,
    .items = (double)p->batch * (double)p->heads_q * (double)((p->seq_q + 63) / 64) *
             (double)((p->seq_kv + 127) / 128),        // the products' own tiles
    .workspace_bytes = gpu_bytes(2 * scores + copies), // scores and probabilities
    .splits = 1,
  };
}

#define MATH_ON(symbol, type, label)                                                               \
  const backend_implementation symbol = { .device = type,                                          \
                                          .name = label,                                           \
                                          .deterministic = true,                                   \
                                          .supports = supports,                                    \
                                          .estimate = estimate }
MATH_ON(math_cuda, ATTN_DEVICE_CUDA, "math/cuda");
MATH_ON(math_rocm, ATTN_DEVICE_ROCM, "math/rocm");
MATH_ON(math_metal, ATTN_DEVICE_METAL, "math/metal");
MATH_ON(math_xpu, ATTN_DEVICE_XPU, "math/xpu");
