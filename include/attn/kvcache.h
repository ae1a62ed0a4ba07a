// SPDX-License-Identifier: Apache-2.0
/*
 * Writing keys and values into a cache that attn_execute reads: converted or quantised, contiguous,
 * strided or paged.
 *
 *     attn_problem p = { ..., .kv_dtype = ATTN_INT8, .kv_lengths = true };    one decoding step
 *     attn_kv_append(&p, &cache, &(attn_kv_rows){ .k = k, .v = v, .count = 1, .position = lengths
 * });
 */
#ifndef ATTN_KVCACHE_H
#define ATTN_KVCACHE_H

#include "attn/attn.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The cache's memory, owned by the caller; what the problem needs of it, as in attn_io. */
typedef struct attn_kv_cache {
  void *k, *v;                /* as problem.k_strides, v_strides and kv_dtype say; or pages */
  float *k_scale, *v_scale;   /* int8: written, f32 [batch or pages, seq or page_size, heads_kv];
                                 fp8 with problem.fp8_scale: read, elements are divided by them */
  const int32_t *block_table; /* [batch, pages_per_seq], for paged caches */
} attn_kv_cache;

/* New rows. They may not overlap the cache. */
typedef struct attn_kv_rows {
  const void *k, *v; /* [batch, heads_kv, count, dim]; all four strides 0: contiguous;
                        { 0, 0, 0, 1 } is one row for all */
  attn_dtype dtype;  /* f32 (default), f16 or bf16 */
  attn_strides k_strides, v_strides;
  int64_t count;           /* rows of each sequence */
  const int32_t *counts;   /* NULL, or [batch]: how many of them each sequence has */
  const int32_t *position; /* [batch]: the key that each sequence's first new row becomes,
                              counted as kv_len counts; NULL: right after the prefix */
} attn_kv_rows;

/*
 * Writes rows [0, counts[b]) of every sequence to keys position[b] and on. Everything is checked
 * before anything is written: pointers, dtypes, strides (the cache's may not overlap), that fp8
 * scales are finite and not 0, position + counts <= seq_kv, page numbers. Packed (varlen) keys have
 * no room to append to: ATTN_ERROR_VALUE. Thread-safe on different sequences of a cache; pages that
 * are written must belong to one sequence, which is not checked.
 *
 * What quantisation loses at most, per element x of a row (int8) or block of 32 (q8_0, q4_0) of
 * finite values whose largest magnitude is a:
 *
 *   f16, bf16  half a unit in the last place
 *   fp8        half a unit in the last place of x / scale, times the scale; past the largest value
 *              e4m3 gives NaN, e5m2 an infinity
 *   int8       a / 254 + 2^-143; one scale a / 127 a token and head, 0 for a row of zeros
 *   q8_0       a / 254 + |x| 2^-11 + 127 * 2^-25, for the scale is f16; a up to 8.3e6
 *   q4_0       a / 16 + |x| 2^-11 + 8 * 2^-25; a / 8 in place of a / 16 for an x past 7.5/8 a on
 *              the side that the largest is not on; a up to 5.2e5
 *
 * A larger a makes the block's scale infinite. A row or block with an infinity reads back as NaN
 * and infinities. A NaN does not count for a; quantised, it is some number of the row's range.
 */
ATTN_API attn_status attn_kv_append(const attn_problem *problem, const attn_kv_cache *cache,
                                    const attn_kv_rows *rows);

#ifdef __cplusplus
}
#endif

#endif
