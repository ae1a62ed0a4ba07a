// SPDX-License-Identifier: Apache-2.0
/* The data of a call, checked before anything is written. */
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

static bool has_queries(const attn_problem *p) {
  return p->batch && p->heads_q && (p->varlen ? p->total_q : p->seq_q);
}

#define NEED(condition, pointer)                                                                   \
  if ((condition) && !io->pointer) return core_fail(ATTN_ERROR_NULL, "io." #pointer " is NULL")

static attn_status check_pointers(const attn_problem *p, const attn_io *io) {
  bool queries = has_queries(p), sequences = p->batch > 0;
  int64_t own = problem_own_keys(p, p->seq_kv);
  int64_t kv_rows = p->page_size ? p->num_pages : p->varlen ? p->total_kv : own;
  bool keys = queries && own && kv_rows, prefix = queries && p->prefix;
  bool scaled_prefix = prefix && p->kv_dtype == ATTN_INT8;
  bool key_scales = ((keys || prefix) && problem_fp8_scale(p, p->kv_dtype)) ||
                    (keys && p->kv_dtype == ATTN_INT8);
  NEED(queries, q);
  NEED(queries, out);
  NEED(keys, k);
  NEED(keys, v);
  NEED(prefix, k_prefix);
  NEED(prefix, v_prefix);
  NEED(scaled_prefix, k_prefix_scale);
  NEED(scaled_prefix, v_prefix_scale);
  NEED((keys || prefix) && p->mask, mask);
  NEED(queries && p->return_lse, lse);
  NEED(queries && p->weights && p->seq_kv, weights);
  NEED(queries && p->alibi, alibi_slopes);
  NEED(queries && p->sinks, sinks);
  NEED(queries && p->score_mod, score_mod);
  NEED(sequences && p->kv_lengths, kv_len);
  NEED(sequences && p->varlen, cu_seqlens_q);
  NEED(sequences && p->varlen && !p->page_size, cu_seqlens_kv);
  NEED(queries && problem_fp8_scale(p, p->dtype), q_scale);
  NEED(key_scales, k_scale);
  NEED(key_scales, v_scale);
  return ATTN_OK;
}

typedef struct offsets {
  const char *name, *total_name, *longest_name;
  const int32_t *cu;
  int64_t total, longest;
} offsets;

static attn_status check_offsets(const offsets *o, int64_t batch) {
  const int32_t *cu = o->cu;
  if (!batch) {
    if (!o->total) return ATTN_OK;
    return core_fail(ATTN_ERROR_SHAPE, "%s of value (%lld) is not 0, but batch is", o->total_name,
                     (long long)o->total);
  }
  if (cu[0] != 0)
    return core_fail(ATTN_ERROR_SHAPE, "%s[0] of value (%d) is not 0", o->name, cu[0]);
  for (int64_t i = 0; i < batch; i++) {
    int64_t length = (int64_t)cu[i + 1] - cu[i];
    if (length < 0)
      return core_fail(ATTN_ERROR_SHAPE, "%s[%lld] of value (%d) is less than the one before (%d)",
                       o->name, (long long)(i + 1), cu[i + 1], cu[i]);
    if (length > o->longest)
      return core_fail(ATTN_ERROR_SHAPE,
                       "%s[%lld] of value (%d) makes sequence %lld longer (%lld) than %s (%lld)",
                       o->name, (long long)(i + 1), cu[i + 1], (long long)i, (long long)length,
                       o->longest_name, (long long)o->longest);
  }
  if (cu[batch] != o->total)
    return core_fail(ATTN_ERROR_SHAPE, "%s[%lld] of value (%d) differs from %s (%lld)", o->name,
                     (long long)batch, cu[batch], o->total_name, (long long)o->total);
  return ATTN_OK;
}

static attn_status check_lengths(const attn_problem *p, const attn_io *io) {
  for (int64_t b = 0; b < p->batch; b++)
    if (io->kv_len[b] < 0 || io->kv_len[b] > p->seq_kv)
      return core_fail(ATTN_ERROR_SHAPE, "kv_len[%lld] of value (%d) is not in [0, seq_kv (%lld)]",
                       (long long)b, io->kv_len[b], (long long)p->seq_kv);
  return ATTN_OK;
}

static attn_status check_pages(const attn_problem *p, const attn_io *io) {
  for (int64_t b = 0; b < p->batch; b++) {
    int64_t length = problem_own_keys(p, p->kv_lengths ? io->kv_len[b] : p->seq_kv);
    NEED(length > 0, block_table);
    for (int64_t i = 0; i < size_ceil_div(length, p->page_size); i++) {
      int32_t page = io->block_table[b * p->pages_per_seq + i];
      if (page < 0 || page >= p->num_pages)
        return core_fail(ATTN_ERROR_SHAPE,
                         "block_table[%lld][%lld] of value (%d) is not in [0, num_pages (%lld))",
                         (long long)b, (long long)i, page, (long long)p->num_pages);
    }
  }
  return ATTN_OK;
}

attn_status problem_check_io(const attn_problem *p, const attn_io *io) {
  if (!io) return core_fail(ATTN_ERROR_NULL, "io is NULL");
  attn_status status = check_pointers(p, io);
  if (!status && p->varlen)
    status = check_offsets(
        &(offsets){ "cu_seqlens_q", "total_q", "seq_q", io->cu_seqlens_q, p->total_q, p->seq_q },
        p->batch);
  if (!status && p->varlen && !p->page_size)
    status = check_offsets(&(offsets){ "cu_seqlens_kv", "total_kv", "seq_kv", io->cu_seqlens_kv,
                                       p->total_kv, problem_own_keys(p, p->seq_kv) },
                           p->batch);
  if (!status && p->kv_lengths) status = check_lengths(p, io);
  if (!status && p->page_size && has_queries(p)) status = check_pages(p, io);
  return status;
}
