// SPDX-License-Identifier: Apache-2.0
#include "attn/select.h"
#include "core/size.h"
#include "core/status.h"

static attn_strides strides_of(const attn_tensor *t) {
  const int64_t *s = t->strides, *n = t->shape;
  if (s[0] || s[1] || s[2] || s[3]) return (attn_strides){ s[0], s[1], s[2], s[3] ? s[3] : 1 };
  int64_t row = n[3], head = 0, batch = 0; // an overflow is found when the problem is validated
  if (!size_mul(n[2], row, &head) || !size_mul(n[1], head, &batch)) head = batch = INT64_MAX;
  return (attn_strides){ batch, head, row, 1 };
}

static attn_status same(const char *what, int64_t a, const char *a_name, int64_t b,
                        const char *b_name) {
  if (a == b) return ATTN_OK;
  return core_fail(ATTN_ERROR_SHAPE, "%s of %s (%lld) differs from that of %s (%lld)", what, a_name,
                   (long long)a, b_name, (long long)b);
}

attn_status attn_problem_from_tensors(const attn_tensor *q, const attn_tensor *k,
                                      const attn_tensor *v, attn_problem *problem) {
  if (!q || !k || !v || !problem)
    return core_fail(ATTN_ERROR_NULL, "%s is NULL", !q ? "q" : !k ? "k" : !v ? "v" : "problem");
  attn_status status = same("batch", k->shape[0], "k", q->shape[0], "q");
  if (!status) status = same("batch", v->shape[0], "v", q->shape[0], "q");
  if (!status) status = same("heads", v->shape[1], "v", k->shape[1], "k");
  if (!status) status = same("key length", v->shape[2], "v", k->shape[2], "k");
  if (!status) status = same("head_dim", k->shape[3], "k", q->shape[3], "q");
  if (!status && k->dtype != v->dtype)
    status = core_fail(ATTN_ERROR_DTYPE, "dtype of k and dtype of v differ");
  if (status) return status;
  attn_problem p = *problem;
  p.batch = q->shape[0], p.heads_q = q->shape[1], p.seq_q = q->shape[2], p.head_dim = q->shape[3];
  p.heads_kv = k->shape[1], p.seq_kv = k->shape[2], p.head_dim_v = v->shape[3];
  p.dtype = q->dtype, p.kv_dtype = k->dtype;
  p.q_strides = strides_of(q), p.k_strides = strides_of(k), p.v_strides = strides_of(v);
  int64_t head = 0, batch = 0;
  if (!size_mul(p.seq_q, p.head_dim_v, &head) || !size_mul(p.heads_q, head, &batch))
    head = batch = INT64_MAX;
  p.out_strides = (attn_strides){ batch, head, p.head_dim_v, 1 };
  p.layout = ATTN_LAYOUT_STRIDED;
  status = attn_problem_validate(&p);
  if (!status) *problem = p;
  return status;
}
