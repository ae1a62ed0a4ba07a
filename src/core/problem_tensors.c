// SPDX-License-Identifier: Apache-2.0
#include "attn/select.h"
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

/* Strides as given; all 0: contiguous, saturating, so that an overflow is found in validation. */
static attn_status strides_of(const char *name, const attn_tensor *t, attn_strides *out) {
  const int64_t *s = t->strides, *n = t->shape;
  if (!s[0] && !s[1] && !s[2] && !s[3]) {
    int64_t head, batch;
    if (!size_mul(n[2], n[3], &head)) head = INT64_MAX;
    if (!size_mul(n[1], head, &batch)) batch = INT64_MAX;
    *out = (attn_strides){ batch, head, n[3], 1 };
    return ATTN_OK;
  }
  if (s[3] == 0 && n[3] > 1) // attn_strides.col cannot say so: its 0 means 1
    return core_fail(ATTN_ERROR_STRIDE, "%s.strides[3] of value (0) expands dim of size (%lld)",
                     name, (long long)n[3]);
  *out = (attn_strides){ s[0], s[1], s[2], s[3] };
  return ATTN_OK;
}

static attn_status same(const char *what, int64_t a, const char *a_name, int64_t b,
                        const char *b_name) {
  if (a == b) return ATTN_OK;
  return core_fail(ATTN_ERROR_SHAPE, "%s of %s (%lld) differs from that of %s (%lld)", what, a_name,
                   (long long)a, b_name, (long long)b);
}

static attn_status check_shapes(const attn_tensor *q, const attn_tensor *k, const attn_tensor *v) {
  attn_status status = same("batch", k->shape[0], "k", q->shape[0], "q");
  if (!status) status = same("batch", v->shape[0], "v", q->shape[0], "q");
  if (!status) status = same("heads", v->shape[1], "v", k->shape[1], "k");
  if (!status) status = same("key length", v->shape[2], "v", k->shape[2], "k");
  if (!status) status = same("head_dim", k->shape[3], "k", q->shape[3], "q");
  if (status) return status;
  // 0 would mean "as the other" in a problem
  if (k->shape[1] == 0 && q->shape[1] != 0)
    return core_fail(ATTN_ERROR_SHAPE, "heads of k (0) do not go with those of q (%lld)",
                     (long long)q->shape[1]);
  if (v->shape[3] == 0) return core_fail(ATTN_ERROR_SHAPE, "head_dim of v is 0");
  if (k->dtype != v->dtype)
    return core_fail(ATTN_ERROR_DTYPE, "dtype of v (%d) differs from that of k (%d)", (int)v->dtype,
                     (int)k->dtype);
  return ATTN_OK;
}

attn_status attn_problem_from_tensors(const attn_tensor *q, const attn_tensor *k,
                                      const attn_tensor *v, attn_problem *problem) {
  if (!q || !k || !v || !problem)
    return core_fail(ATTN_ERROR_NULL, "%s is NULL", !q ? "q" : !k ? "k" : !v ? "v" : "problem");
  attn_problem p = *problem;
  if (p.varlen || p.page_size)
    return core_fail(ATTN_ERROR_VALUE, "[batch, heads, seq, dim] tensors cannot be %s",
                     p.varlen ? "varlen" : "paged");
  attn_status status = check_shapes(q, k, v);
  if (!status) status = strides_of("q", q, &p.q_strides);
  if (!status) status = strides_of("k", k, &p.k_strides);
  if (!status) status = strides_of("v", v, &p.v_strides);
  if (status) return status;
  p.batch = q->shape[0], p.heads_q = q->shape[1], p.seq_q = q->shape[2], p.head_dim = q->shape[3];
  p.heads_kv = k->shape[1], p.seq_kv = p.prefix + k->shape[2], p.head_dim_v = v->shape[3];
  p.dtype = q->dtype, p.kv_dtype = k->dtype;
  attn_strides dense[4];
  problem_layout_strides(&p, ATTN_LAYOUT_BHSD, dense);
  p.out_strides = dense[3];
  p.layout = ATTN_LAYOUT_STRIDED;
  status = attn_problem_validate(&p);
  if (!status) *problem = p;
  return status;
}
