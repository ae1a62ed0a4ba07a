// SPDX-License-Identifier: Apache-2.0
/*
 * The f32 kernels, written once. Before including, an ISA's file includes its vector words and defines
 *   ISA_ID, ISA_NAME, TABLE  identity and the table's symbol
 *   KEYS_1, KEYS_2           keys of a score group for 1 and 2 query vectors: accumulators in flight
 *   COLS_1, COLS_2           value columns of a group, likewise
 *   NARROW_KEYS_2, _4        keys of a narrow score group for 2 and 4 rows
 *   NARROW_COLS_4            vectors of value columns of a narrow group for 4 rows
 *   PAIRS                    where the ISA has bf16 arithmetic: the header that defines pairs_table
 * and, where K and V are better read a vector at a time than by a broadcast an element,
 *   ELEMENTS, vf_element     elements read at once; p[i] in every lane, where p[0 .. n) may be read
 */
#include "kernel/kernel.h"

#include <stddef.h>

#define UNROLL _Pragma("GCC unroll 32")
enum { GROUP_MAX = 32 };

#ifndef ELEMENTS
#define ELEMENTS 1
INLINE vf vf_element(const float *p, int i, int n) {
  (void)n;
  return vf_set1(p[i]);
}
#endif

/* 2^x for x <= 0 and 2^x - 1: minimax polynomials of 2^r - 1 over r in [-1/2, 1/2], r times degree 5,
 * fitted by Remez exchange for relative error in 2^r with p(0) = 1; 2.6e-9 in exact arithmetic, 8.4e-8
 * evaluated in f32 (tests/kernel/test_exp.c covers every x in range). */
INLINE vf exp2_reduced(vf r) {
  vf p = vf_set1(0x1.470b4ap-13f);
  p = vf_fma(p, r, vf_set1(0x1.5f7276p-10f));
  p = vf_fma(p, r, vf_set1(0x1.3b270ep-7f));
  p = vf_fma(p, r, vf_set1(0x1.c6ae72p-5f));
  p = vf_fma(p, r, vf_set1(0x1.ebfbe2p-3f));
  return vf_fma(p, r, vf_set1(0x1.62e432p-1f)); // (2^r - 1) / r
}

INLINE vf exp_step(vf x, int natural) {
  const vf log2e = vf_set1(0x1.715476p+0f), log2e_low = vf_set1(0x1.4ae0c0p-26f);
  vf t = natural ? vf_mul(x, log2e) : x, n = vf_round(t), r;
  if (natural) // x * log2(e) - n with the product's low part kept
    r = vf_fma(x, log2e_low, vf_fma(x, log2e, vf_sub(vf_zero(), n)));
  else
    r = vf_sub(x, n);
  return vf_scale_flush(vf_fma(exp2_reduced(r), r, vf_set1(1.0f)), n, t);
}

static void load_queries(const float *const *rows, int vectors, int64_t dim, float scale, float *qt) {
  const int64_t lanes = (int64_t)vectors * VW;
  for (int v = 0; v < vectors; v++, rows += VW, qt += VW)
    for (int64_t c = 0; c < dim; c += VW) {
      int64_t n = dim - c < VW ? dim - c : VW;
      vf r[VW];
      for (int i = 0; i < VW; i++)
        r[i] = rows[i] ? vf_mul(vf_set1(scale), vf_load_part(rows[i] + c, n)) : vf_zero();
      vf_transpose(r);
      for (int64_t i = 0; i < n; i++) vf_store(qt + (c + i) * lanes, r[i]);
    }
}

INLINE void scores_steps(const float *k, int64_t ldk, const float *qt, const int steps,
                         const int nv, const int nk, vf sum[GROUP_MAX][KERNEL_MAX_VECTORS]) {
  UNROLL for (int c = 0; c < steps; c++) {
    vf q[KERNEL_MAX_VECTORS];
    UNROLL for (int v = 0; v < nv; v++) q[v] = vf_load(qt + (c * nv + v) * VW);
    UNROLL for (int j = 0; j < nk; j++) {
      vf x = vf_element(k + j * ldk, c, steps);
      UNROLL for (int v = 0; v < nv; v++) sum[j][v] = vf_fma(x, q[v], sum[j][v]);
    }
  }
}

INLINE void scores_group(const float *k, int64_t ldk, const float *qt, int64_t dim, const int nv,
                         const int nk, float *p, vf max[KERNEL_MAX_VECTORS]) {
  vf sum[GROUP_MAX][KERNEL_MAX_VECTORS];
  UNROLL for (int j = 0; j < nk; j++) UNROLL for (int v = 0; v < nv; v++) sum[j][v] = vf_zero();
  int64_t c = 0;
  for (; c + ELEMENTS <= dim; c += ELEMENTS)
    scores_steps(k + c, ldk, qt + c * nv * VW, ELEMENTS, nv, nk, sum);
  for (; ELEMENTS > 1 && c < dim; c++) scores_steps(k + c, ldk, qt + c * nv * VW, 1, nv, nk, sum);
  UNROLL for (int j = 0; j < nk; j++) UNROLL for (int v = 0; v < nv; v++) {
    max[v] = vf_max(sum[j][v], max[v]);
    vf_store(p + (j * nv + v) * VW, sum[j][v]);
  }
}

INLINE void scores_all(const float *k, int64_t ldk, int keys, const float *qt, int64_t dim,
                       const int nv, const int group, float *p, float *row_max) {
  vf max[KERNEL_MAX_VECTORS];
  UNROLL for (int v = 0; v < nv; v++) max[v] = row_max ? vf_load(row_max + v * VW) : vf_zero();
  int j = 0;
#define SCORES(n)                                                                                  \
  {                                                                                                \
    scores_group(k + j * ldk, ldk, qt, dim, nv, n, p + (ptrdiff_t)j * nv * VW, max);               \
    j += n;                                                                                        \
  }
  while (j + group <= keys) SCORES(group)
  while (j + 4 <= keys) SCORES(4)
  while (j < keys) SCORES(1)
#undef SCORES
  if (row_max) UNROLL for (int v = 0; v < nv; v++) vf_store(row_max + v * VW, max[v]);
}

static void scores(const float *k, int64_t ldk, int keys, const float *qt, int64_t dim, int vectors,
                   float *p, float *row_max) {
  if (vectors == 2)
    scores_all(k, ldk, keys, qt, dim, 2, KEYS_2, p, row_max);
  else
    scores_all(k, ldk, keys, qt, dim, 1, KEYS_1, p, row_max);
}

static void row_max(const float *p, int keys, int vectors, float *max) {
  for (int v = 0; v < vectors; v++) {
    vf m = vf_load(max + v * VW);
    for (int j = 0; j < keys; j++) m = vf_max(vf_load(p + (j * vectors + v) * VW), m);
    vf_store(max + v * VW, m);
  }
}

/* tanh by exp(2|x|) - 1, which keeps relative accuracy for small x; saturates at |x| > 10. */
INLINE vf tanh_vector(vf x) {
  vf y = vf_min(vf_set1(30.0f), vf_mul(vf_abs(x), vf_set1(0x1.715476p+1f)));
  vf n = vf_round(y), r = vf_sub(y, n), power = vf_scale(vf_set1(1.0f), n);
  vf m = vf_fma(power, vf_mul(exp2_reduced(r), r), vf_sub(power, vf_set1(1.0f)));
  return vf_copysign(vf_div(m, vf_add(m, vf_set1(2.0f))), x);
}

static void softcap(float *p, int keys, int vectors, float cap) {
  for (int i = 0; i < keys * vectors; i++, p += VW)
    vf_store(p, vf_mul(vf_set1(cap), tanh_vector(vf_div(vf_load(p), vf_set1(cap)))));
}

INLINE vf biased(vf s, vf bias) {
  const vf removed = vf_set1(-INFINITY);
  return vf_select(vf_equal(bias, removed), removed, vf_add(s, bias));
}

static void add_bias(float *p, int keys, int vectors, const float *bias, int64_t ld) {
  if (ld == 0) {
    for (int j = 0; j < keys; j++)
      for (int v = 0; v < vectors; v++, p += VW) vf_store(p, biased(vf_load(p), vf_set1(bias[j])));
    return;
  }
  for (int v = 0; v < vectors; v++)
    for (int j = 0; j < keys; j += VW) {
      int n = keys - j < VW ? keys - j : VW;
      vf r[VW];
      for (int i = 0; i < VW; i++) r[i] = vf_load_part(bias + (v * VW + i) * ld + j, n);
      vf_transpose(r);
      for (int i = 0; i < n; i++) {
        float *s = p + ((ptrdiff_t)(j + i) * vectors + v) * VW;
        vf_store(s, biased(vf_load(s), r[i]));
      }
    }
}

static void alibi(float *p, int keys, int vectors, const float *slope, const int32_t *position) {
  for (int v = 0; v < vectors; v++) {
    vf s = vf_load(slope + v * VW), at = vf_from_int(vi_loadu(position + v * VW));
    for (int j = 0; j < keys; j++) {
      float *x = p + (j * vectors + v) * VW;
      vf_store(x, vf_fnma(s, vf_abs(vf_sub(at, vf_set1((float)j))), vf_load(x)));
    }
  }
}

static void limit(float *p, int keys, int vectors, const int32_t *low, const int32_t *high) {
  const vf removed = vf_set1(-INFINITY);
  for (int v = 0; v < vectors; v++) {
    vi lo = vi_loadu(low + v * VW), hi = vi_loadu(high + v * VW);
    for (int j = 0; j < keys; j++) {
      vi at = vi_set1(j);
      float *x = p + (j * vectors + v) * VW;
      vm out = vm_or(vi_greater(lo, at), vm_not(vi_greater(hi, at)));
      vf_store(x, vf_select(out, removed, vf_load(x)));
    }
  }
}

INLINE void softmax_all(float *p, int keys, const int nv, const float *old_max,
                        const float *new_max, float *alpha, float *sum, const int natural) {
  vf m[KERNEL_MAX_VECTORS], block[KERNEL_MAX_VECTORS];
  UNROLL for (int v = 0; v < nv; v++) {
    vf max = vf_load(new_max + v * VW);
    m[v] = vf_select(vf_equal(max, vf_set1(-INFINITY)), vf_zero(), max);
    block[v] = vf_zero();
  }
  for (int j = 0; j < keys; j++) UNROLL for (int v = 0; v < nv; v++, p += VW) {
    vf e = exp_step(vf_sub(vf_load(p), m[v]), natural);
    vf_store(p, e);
    block[v] = vf_add(block[v], e);
  }
  UNROLL for (int v = 0; v < nv; v++) {
    vf a = exp_step(vf_sub(vf_load(old_max + v * VW), m[v]), natural);
    vf_store(alpha + v * VW, a);
    vf_store(sum + v * VW, vf_fma(a, vf_load(sum + v * VW), block[v]));
  }
}

static void softmax(float *p, int keys, int vectors, const float *old_max, const float *new_max,
                    float *alpha, float *sum, bool natural) {
  if (vectors == 2 && natural) softmax_all(p, keys, 2, old_max, new_max, alpha, sum, 1);
  else if (vectors == 2) softmax_all(p, keys, 2, old_max, new_max, alpha, sum, 0);
  else if (natural) softmax_all(p, keys, 1, old_max, new_max, alpha, sum, 1);
  else softmax_all(p, keys, 1, old_max, new_max, alpha, sum, 0);
}

static void alive(const float *p, int keys, int vectors, uint32_t *mask) {
  for (int i = 0; i < keys * vectors; i++, p += VW, mask += VW)
    vi_storeu(mask, vm_bits(vm_not(vf_equal(vf_load(p), vf_set1(-INFINITY)))));
}

INLINE void values_group(const float *v, int64_t ldv, int keys, const float *p, const uint32_t *mask,
                         const int nv, const int nc, const float *alpha, float *ot) {
  vf sum[GROUP_MAX][KERNEL_MAX_VECTORS];
  UNROLL for (int c = 0; c < nc; c++) UNROLL for (int u = 0; u < nv; u++) sum[c][u] = vf_zero();
  for (int j = 0; j < keys; j++, v += ldv) {
    vf w[KERNEL_MAX_VECTORS];
    UNROLL for (int u = 0; u < nv; u++) w[u] = vf_load(p + (j * nv + u) * VW);
    UNROLL for (int c = 0; c < nc; c++) {
      vf x = vf_element(v, c, nc);
      UNROLL for (int u = 0; u < nv; u++) {
        vf y = mask ? vf_and_bits(x, vi_loadu(mask + (j * nv + u) * VW)) : x;
        sum[c][u] = vf_fma(y, w[u], sum[c][u]);
      }
    }
  }
  UNROLL for (int c = 0; c < nc; c++) UNROLL for (int u = 0; u < nv; u++) {
    float *o = ot + (c * nv + u) * VW;
    vf_store(o, vf_fma(vf_load(alpha + u * VW), vf_load(o), sum[c][u]));
  }
}

INLINE void values_all(const float *v, int64_t ldv, int keys, const float *p, const uint32_t *mask,
                       int64_t dim, const int nv, const int group, const float *alpha, float *ot) {
  int64_t c = 0;
#define VALUES(n)                                                                                  \
  {                                                                                                \
    values_group(v + c, ldv, keys, p, mask, nv, n, alpha, ot + c * nv * VW);                       \
    c += n;                                                                                        \
  }
  while (c + group <= dim) VALUES(group)
  while (c + 4 <= dim) VALUES(4)
  while (c < dim) VALUES(1)
#undef VALUES
}

static void values(const float *v, int64_t ldv, int keys, const float *p, int64_t dim, int vectors,
                   const float *alpha, float *ot) {
  if (vectors == 2)
    values_all(v, ldv, keys, p, NULL, dim, 2, COLS_2, alpha, ot);
  else
    values_all(v, ldv, keys, p, NULL, dim, 1, COLS_1, alpha, ot);
}

static void values_masked(const float *v, int64_t ldv, int keys, const float *p,
                          const uint32_t *mask, int64_t dim, int vectors, const float *alpha,
                          float *ot) {
  if (vectors == 2)
    values_all(v, ldv, keys, p, mask, dim, 2, 4, alpha, ot);
  else
    values_all(v, ldv, keys, p, mask, dim, 1, 4, alpha, ot);
}

/* x - x is 0 for finite x and NaN for others, and NaN stays in a sum. */
static bool nonfinite(const float *x, int64_t n) {
  vf sum[4] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
  float lanes[4];
  int64_t i = 0;
  for (; i + 4 * VW <= n; i += 4 * VW) UNROLL for (int u = 0; u < 4; u++) {
    vf y = vf_load(x + i + u * VW);
    sum[u] = vf_add(sum[u], vf_sub(y, y));
  }
  for (; i < n; i += VW) {
    vf y = vf_load_part(x + i, n - i < VW ? n - i : VW);
    sum[0] = vf_add(sum[0], vf_sub(y, y));
  }
  vf_sum4(sum, lanes);
  return isnan(lanes[0] + lanes[1] + lanes[2] + lanes[3]);
}

static void store_rows(const float *ot, int64_t dim, int vectors, const float *factor,
                       float *const *rows) {
  const int64_t lanes = (int64_t)vectors * VW;
  for (int v = 0; v < vectors; v++, rows += VW, ot += VW) {
    vf f = vf_load(factor + v * VW);
    for (int64_t c = 0; c < dim; c += VW) {
      int64_t n = dim - c < VW ? dim - c : VW;
      vf r[VW];
      for (int i = 0; i < VW; i++) r[i] = i < n ? vf_mul(f, vf_load(ot + (c + i) * lanes)) : vf_zero();
      vf_transpose(r);
      for (int i = 0; i < VW; i++)
        if (rows[i]) vf_store_part(rows[i] + c, n, r[i]);
    }
  }
}

#include "kernel/template_narrow.h"
#ifdef PAIRS
#include PAIRS
#endif

const kernel_table TABLE = {
  .isa = ISA_ID,
  .name = ISA_NAME,
  .width = VW,
  .load_queries = load_queries,
  .scores = scores,
  .row_max = row_max,
  .softcap = softcap,
  .add_bias = add_bias,
  .alibi = alibi,
  .limit = limit,
  .softmax = softmax,
  .values = values,
  .alive = alive,
  .values_masked = values_masked,
  .nonfinite = nonfinite,
  .store_rows = store_rows,
  .narrow_scores = narrow_scores,
  .narrow_values = narrow_values,
  .widen = widen,
  .narrow = narrow,
#ifdef PAIRS
  .pairs = &pairs_table,
#endif
};
