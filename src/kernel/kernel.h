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
} kernel_table;

extern const kernel_table kernel_scalar;
#if defined(__x86_64__)
extern const kernel_table kernel_avx2, kernel_avx512;
#endif

/* The newest level, at most `highest` (AUTO: no limit), that this CPU runs and that passed its
 * self-check. Never NULL: scalar always works. Thread-safe. */
const kernel_table *kernel_best(attn_isa highest);
/* That level exactly, or NULL. */
const kernel_table *kernel_exact(attn_isa isa);
/* The level's table without asking the CPU (what-if); scalar where this build has none. */
const kernel_table *kernel_described(attn_isa isa);

/* Compares `table` with scalar on a small problem of odd sizes. NULL, or what disagreed (static). */
const char *kernel_selfcheck(const kernel_table *table);

#endif
