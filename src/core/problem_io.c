// SPDX-License-Identifier: Apache-2.0
/* The data of a call, checked before anything is written. */
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

#define NEED(condition, pointer)                                                                   \
  if ((condition) && !io->pointer) return core_fail(ATTN_ERROR_NULL, "io." #pointer " is NULL")

static attn_status check_pointers(const attn_problem *p, const attn_io *io) {
  bool queries = p->batch && p->heads_q && (p->varlen ? p->total_q : p->seq_q);
  int64_t kv_rows = p->page_size ? p->num_pages : p->varlen ? p->total_kv : p->seq_kv;
  bool keys = queries && p->heads_kv && kv_rows;
  NEED(queries, q);
  NEED(queries, out);
  NEED(keys, k);
  NEED(keys, v);
  NEED(queries && p->mask && kv_rows && p->mask_dims[3], mask);
  NEED(queries && p->return_lse, lse);
  NEED(queries && p->weights && kv_rows, weights);
  NEED(queries && p->alibi, alibi_slopes);
  NEED(queries && p->sinks, sinks);
  NEED(queries && p->score_mod, score_mod);
  NEED(p->batch && p->kv_lengths, kv_len);
  NEED(p->varlen, cu_seqlens_q);
  NEED(p->varlen && !p->page_size, cu_seqlens_kv);
  NEED(keys && p->page_size && p->pages_per_seq, block_table);
  NEED(queries && p->fp8_scale, q_scale);
  NEED(keys && (p->fp8_scale || p->kv_dtype == ATTN_INT8), k_scale);
  NEED(keys && (p->fp8_scale || p->kv_dtype == ATTN_INT8), v_scale);
  return ATTN_OK;
}

static attn_status check_offsets(const char *name, const int32_t *cu, int64_t batch, int64_t total,
                                 int64_t longest, const char *longest_name) {
  if (cu[0] != 0) return core_fail(ATTN_ERROR_SHAPE, "%s[0] of value (%d) is not 0", name, cu[0]);
  for (int64_t i = 0; i < batch; i++) {
    int64_t length = (int64_t)cu[i + 1] - cu[i];
    if (length < 0)
      return core_fail(ATTN_ERROR_SHAPE, "%s[%lld] of value (%d) is less than the one before (%d)",
                       name, (long long)(i + 1), cu[i + 1], cu[i]);
    if (length > longest)
      return core_fail(ATTN_ERROR_SHAPE, "%s gives sequence %lld length %lld, more than %s (%lld)",
                       name, (long long)i, (long long)length, longest_name, (long long)longest);
  }
  if (cu[batch] != total)
    return core_fail(ATTN_ERROR_SHAPE, "%s[%lld] of value (%d) differs from the total (%lld)", name,
                     (long long)batch, cu[batch], (long long)total);
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
    int64_t length = p->kv_lengths ? io->kv_len[b] : p->seq_kv;
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
  attn_status status = check_pointers(p, io);
  if (!status && p->varlen)
    status = check_offsets("cu_seqlens_q", io->cu_seqlens_q, p->batch, p->total_q, p->seq_q, "seq_q");
  if (!status && p->varlen && !p->page_size)
    status =
        check_offsets("cu_seqlens_kv", io->cu_seqlens_kv, p->batch, p->total_kv, p->seq_kv, "seq_kv");
  if (!status && p->kv_lengths) status = check_lengths(p, io);
  if (!status && p->page_size && p->heads_q) status = check_pages(p, io);
  return status;
}
