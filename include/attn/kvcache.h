// SPDX-License-Identifier: Apache-2.0
/*
 * Writing keys and values into a cache that attn_execute reads: converted or quantised, contiguous,
 * strided or paged.
 *
 *     attn_problem p = { ..., .kv_dtype = ATTN_INT8, .kv_lengths = true };    one decoding step
 *     attn_kv_append(&p, &cache, &(attn_kv_rows){ .k = k, .v = v, .count = 1, .position = lengths });
 */
#ifndef ATTN_KVCACHE_H
#define ATTN_KVCACHE_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cache's memory, owned by the caller; what the problem needs of it, as in attn_io. */
typedef struct attn_kv_cache {
  void *k, *v;               /* as problem.k_strides, v_strides and kv_dtype say; or pages */
  float *k_scale, *v_scale;  /* int8: written, f32 [batch or pages, seq or page_size, heads_kv];
                                fp8 with problem.fp8_scale: read, elements are divided by them */
  const int32_t *block_table; /* [batch, pages_per_seq], for paged caches */
} attn_kv_cache;

/* New rows. */
typedef struct attn_kv_rows {
  const void *k, *v;             /* [batch, heads_kv, count, dim]; strides all 0: contiguous */
  attn_dtype dtype;              /* f32 (default), f16 or bf16 */
  attn_strides k_strides, v_strides;
  int64_t count;                 /* rows of each sequence */
  const int32_t *counts;         /* NULL, or [batch]: how many of them each sequence has */
  const int32_t *position;       /* [batch]: the key that each sequence's first new row becomes,
                                    counted as kv_len counts; NULL: right after the prefix */
} attn_kv_rows;

/*
 * Writes rows [0, counts[b]) of every sequence to keys position[b] and on. Everything is checked before
 * anything is written: pointers, dtypes, position + counts <= seq_kv, page numbers. Packed (varlen) keys
 * have no room to append to: ATTN_ERROR_VALUE. Thread-safe on different sequences of a cache.
 *
 * What quantisation loses, per element x of a row or block whose largest magnitude is a:
 *   f16, bf16, fp8   half a unit in the last place
 *   int8             a / 254, one scale a / 127 a token and head
 *   q8_0             a / 254 and 2^-11 |x| for the f16 scale, blocks of 32
 *   q4_0             a / 16 and 2^-11 |x|; a / 8 at the end of the range that the largest is not on
 */
ATTN_API attn_status attn_kv_append(const attn_problem *problem, const attn_kv_cache *cache,
                                    const attn_kv_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
