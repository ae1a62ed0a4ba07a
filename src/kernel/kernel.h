// SPDX-License-Identifier: Apache-2.0
/*
 * Micro-kernels behind one table of function pointers, one table an ISA level.
 *
 * A tile is kept transposed: `lanes` = vectors * width query rows lie along the vector lanes, so that
 *  - K and V are read in place, one broadcast an element, whatever their row stride or size;
 *  - maxima, sums and rescaling are vertical operations, one lane a row, with no horizontal sums;
 *  - a row's arithmetic is the same chain of operations wherever in a tile it lies, and whatever the
 *    other rows hold, which is what makes results independent of tiles, threads and batch.
 * Tile buffers: qt[head_dim][lanes], p[keys][lanes], ot[head_dim_v][lanes], 64-byte aligned, lanes
 * contiguous. K and V rows (`ldk`, `ldv` elements apart) and everything else may be unaligned.
 * No kernel reads or writes past the elements named.
 */
#ifndef KERNEL_KERNEL_H
#define KERNEL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "attn/attn.h"
#include "attn/hardware.h"

enum { KERNEL_MAX_VECTORS = 2, KERNEL_MAX_LANES = 32, KERNEL_ALIGN = 64, KERNEL_NARROW_ROWS = 8 };

/*
 * bf16 arithmetic: an ISA's instruction that adds two products of bf16 to an f32. Queries, K and V
 * are used as stored, weights are rounded to bf16, sums stay f32. A pair is two bf16 in 32 bits,
 * the earlier one low: of neighbouring columns in queries and K, of neighbouring keys in weights
 * and V. Tiles as above: qt[pairs of head_dim][lanes], an odd head_dim padded with 0; w[pairs of
 * keys][lanes].
 */
typedef struct kernel_pairs {
  /* qt[c / 2][lane] = rows[lane][c, c + 1]; a NULL row gives a zero lane. */
  void (*load_queries)(const uint16_t *const *rows, int vectors, int64_t dim, uint32_t *qt);
  /* p[j][lane] = scale * (k[j] . q[lane]); row_max as for `scores`. Rows of K hold dim rounded up
   * to even elements. */
  void (*scores)(const uint16_t *k, int64_t ldk, int keys, const uint32_t *qt, int64_t dim,
                 int vectors, float scale, float *p, float *row_max);
  /* w[j / 2][lane] = p[j, j + 1][lane] rounded to nearest even, 0 past the last key. w may be p. */
  void (*pack_weights)(const float *p, int keys, int vectors, uint32_t *w);
  /* `keys` rows of V, of any alignment, in the order that `values` reads; pack_bytes(keys, dim)
   * bytes. */
  void (*pack_values)(const uint16_t *v, int64_t ldv, int keys, int64_t dim, void *packed);
  int64_t (*pack_bytes)(int keys, int64_t dim);
  /* ot[c] = alpha * ot[c] + sum_j w[j] * v[first + j][c], j < keys, V as packed with `packed_keys`
   * rows; `first` is even. */
  void (*values)(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                 int64_t dim, int vectors, const float *alpha, float *ot);
  /* The same bits, but v[first + j] does not reach lanes whose alive[j][lane] is 0. */
  void (*values_masked)(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                        const uint32_t *alive, int64_t dim, int vectors, const float *alpha,
                        float *ot);
} kernel_pairs;

typedef struct kernel_table {
  attn_isa isa;
  const char *name;
  int width; /* f32 lanes of one vector; lanes of a tile = width or 2 * width */

  /* qt[c][lane] = scale * rows[lane][c]; a NULL row gives a zero lane. */
  void (*load_queries)(const float *const *rows, int vectors, int64_t dim, float scale, float *qt);

  /* p[j][lane] = k[j] . q[lane], summed over dim in order. With row_max: row_max[lane] becomes the
   * maximum of itself and the new scores (NaN scores are ignored there). */
  void (*scores)(const float *k, int64_t ldk, int keys, const float *qt, int64_t dim, int vectors,
                 float *p, float *row_max);
  void (*row_max)(const float *p, int keys, int vectors, float *row_max);

  /* s <- cap * tanh(s / cap) */
  void (*softcap)(float *p, int keys, int vectors, float cap);
  /* s <- s + bias[lane][j], or -inf where the bias is -inf. bias rows `ld` apart; ld 0: one row. */
  void (*add_bias)(float *p, int keys, int vectors, const float *bias, int64_t ld);
  /* s <- s - slope[lane] * |position[lane] - j| */
  void (*alibi)(float *p, int keys, int vectors, const float *slope, const int32_t *position);
  /* s <- -inf unless low[lane] <= j < high[lane] */
  void (*limit)(float *p, int keys, int vectors, const int32_t *low, const int32_t *high);

  /* One step of the online softmax for a block of scores whose maxima are already in new_max:
   *   m = new_max (0 where -inf), alpha = exp(old_max - m), p = exp(p - m), sum = alpha * sum + sum p
   * with exp to the base e when `natural`, else to the base 2. */
  void (*softmax)(float *p, int keys, int vectors, const float *old_max, const float *new_max,
                  float *alpha, float *sum, bool natural);

  /* ot[c] = alpha * ot[c] + sum_j p[j] * v[j][c] */
  void (*values)(const float *v, int64_t ldv, int keys, const float *p, int64_t dim, int vectors,
                 const float *alpha, float *ot);
  /* alive[i] = all ones unless s is -inf. For `values_masked`, which gives the bits of `values` but
   * does not let v[j] (NaN, Inf) into lanes that are not alive. */
  void (*alive)(const float *p, int keys, int vectors, uint32_t *alive);
  void (*values_masked)(const float *v, int64_t ldv, int keys, const float *p, const uint32_t *alive,
                        int64_t dim, int vectors, const float *alpha, float *ot);

  /* Whether any of n numbers is NaN or infinite; x as a tile buffer. */
  bool (*nonfinite)(const float *x, int64_t n);

  /* rows[lane][c] = factor[lane] * ot[c][lane]; NULL rows are skipped. */
  void (*store_rows)(const float *ot, int64_t dim, int vectors, const float *factor,
                     float *const *rows);

  /*
   * For few rows (decoding): lanes along head_dim, K and V read once in their own type (f32, f16 or
   * bf16; ldk, ldv in elements). q: f32 [rows][ldq], scaled, zero-padded to a multiple of width; p as
   * above, with zeros in the lanes past `rows`; o: f32 [rows][ldo], ldo a multiple of width.
   * `alive` NULL, or as for values_masked. A row's sums do not depend on the number of rows.
   */
  void (*narrow_scores)(attn_dtype type, const void *k, int64_t ldk, int keys, const float *q,
                        int64_t ldq, int rows, int64_t dim, int lanes, float *p);
  void (*narrow_values)(attn_dtype type, const void *v, int64_t ldv, int keys, const float *p,
                        const uint32_t *alive, int rows, int64_t dim, int lanes, const float *alpha,
                        float *o, int64_t ldo);
  /* n consecutive f32, f16 or bf16 elements to f32. */
  void (*widen)(attn_dtype type, const void *src, float *dst, int64_t n);
  /* And back, rounded to nearest even, NaN kept quiet: the bits of dtype_get(type)->from_f32. */
  void (*narrow)(attn_dtype type, const float *src, void *dst, int64_t n);

  const kernel_pairs *pairs; /* NULL: no bf16 arithmetic */
} kernel_table;

extern const kernel_table kernel_scalar;
extern const kernel_pairs
    kernel_pairs_scalar; /* what pairs mean; in no level, f32 is as fast there */
#if defined(__x86_64__)
extern const kernel_table kernel_avx2, kernel_avx512, kernel_avx512_bf16, kernel_amx;
#elif defined(__aarch64__)
extern const kernel_table kernel_neon;
#endif

/* The newest level, at most `highest` (AUTO: no limit), that this CPU runs and that passed its
 * self-check; scalar where `highest` is of another architecture. Never NULL. Thread-safe. */
const kernel_table *kernel_best(attn_isa highest);
/* That level exactly, or NULL. */
const kernel_table *kernel_exact(attn_isa isa);
/* The level's table without asking the CPU (what-if); scalar where this build has none. */
const kernel_table *kernel_described(attn_isa isa);

/* Compares `table` with scalar on a small problem of odd sizes. NULL, or what disagreed (static). */
const char *kernel_selfcheck(const kernel_table *table);

#endif
