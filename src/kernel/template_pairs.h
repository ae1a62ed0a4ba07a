// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels of bf16 arithmetic, shaped as those of f32. Included by template_f32.h where the
 * vector words have pairs: vp                     a vector of VW pairs vp_zero, vp_load aligned
 *   vp_load_part(p, n)     n <= 2 * VW elements from any address, zeros after them
 *   vp_set1(p)             the pair at any address in every lane
 *   vp_and(a, b)           bits
 *   vp_halves(a, b)        low halves of a, high halves of b
 *   vp_round(even, odd)    two f32 vectors rounded to pairs
 *   vp_interleave(a, b)    pairs of the first VW elements of a and of b
 *   vf_dot(sum, a, b)      sum + a.low * b.low + a.high * b.high, lane by lane
 *   vp_as_vf, vf_as_vp     the same bits
 */

#include "kernel/template_pairs_load.h"

INLINE void pairs_scores_group(const uint16_t *k, int64_t ldk, const uint32_t *qt, int64_t dim,
                               const int nv, const int nk, vf scale, float *p,
                               vf max[KERNEL_MAX_VECTORS]) {
  vf sum[GROUP_MAX][KERNEL_MAX_VECTORS];
  UNROLL for (int j = 0; j < nk; j++) UNROLL for (int v = 0; v < nv; v++) sum[j][v] = vf_zero();
  for (int64_t c = 0; c < dim; c += 2, qt += nv * VW) {
    vp q[KERNEL_MAX_VECTORS];
    UNROLL for (int v = 0; v < nv; v++) q[v] = vp_load(qt + v * VW);
    UNROLL for (int j = 0; j < nk; j++) {
      vp x = vp_set1(k + j * ldk + c);
      UNROLL for (int v = 0; v < nv; v++) sum[j][v] = vf_dot(sum[j][v], q[v], x);
    }
  }
  UNROLL for (int j = 0; j < nk; j++) UNROLL for (int v = 0; v < nv; v++) {
    vf s = vf_mul(scale, sum[j][v]);
    max[v] = vf_max(s, max[v]);
    vf_store(p + (j * nv + v) * VW, s);
  }
}

INLINE void pairs_scores_all(const uint16_t *k, int64_t ldk, int keys, const uint32_t *qt,
                             int64_t dim, const int nv, const int group, float scale, float *p,
                             float *row_max) {
  vf max[KERNEL_MAX_VECTORS], factor = vf_set1(scale);
  UNROLL for (int v = 0; v < nv; v++) max[v] = row_max ? vf_load(row_max + v * VW) : vf_zero();
  int j = 0;
#define SCORES(n)                                                                                  \
  {                                                                                                \
    pairs_scores_group(k + j * ldk, ldk, qt, dim, nv, n, factor, p + (ptrdiff_t)j * nv * VW, max); \
    j += n;                                                                                        \
  }
  while (j + group <= keys) SCORES(group)
  while (j + 4 <= keys) SCORES(4)
  while (j < keys) SCORES(1)
#undef SCORES
  if (row_max) UNROLL for (int v = 0; v < nv; v++) vf_store(row_max + v * VW, max[v]);
}

static void pairs_scores(const uint16_t *k, int64_t ldk, int keys, const uint32_t *qt, int64_t dim,
                         int vectors, float scale, float *p, float *row_max) {
  if (vectors == 2)
    pairs_scores_all(k, ldk, keys, qt, dim, 2, KEYS_2, scale, p, row_max);
  else
    pairs_scores_all(k, ldk, keys, qt, dim, 1, KEYS_1, scale, p, row_max);
}

/* packed[j / 2][c] = v[j, j + 1][c] */
static void pairs_pack_values(const uint16_t *v, int64_t ldv, int keys, int64_t dim, void *packed) {
  uint32_t *out = packed;
  for (int j = 0; j < keys; j += 2, v += 2 * ldv, out += dim)
    for (int64_t c = 0; c < dim; c += VW) {
      int64_t n = dim - c < VW ? dim - c : VW;
      vp odd = j + 1 < keys ? vp_load_part(v + ldv + c, n) : vp_zero();
      vf_store_part((float *)(void *)(out + c), n,
                    vp_as_vf(vp_interleave(vp_load_part(v + c, n), odd)));
    }
}

static int64_t pairs_pack_bytes(int keys, int64_t dim) { return (keys + 1) / 2 * dim * 4; }

INLINE vp pairs_alive(const uint32_t *alive, int j, int keys, const int nv, int u) {
  vp odd = j + 1 < keys ? vp_load(alive + ((j + 1) * nv + u) * VW) : vp_zero();
  return vp_halves(vp_load(alive + (j * nv + u) * VW), odd);
}

INLINE void pairs_values_group(const uint32_t *v, int64_t ldv, int keys, const uint32_t *w,
                               const uint32_t *alive, const int nv, const int nc,
                               const float *alpha, float *ot) {
  vf sum[GROUP_MAX][KERNEL_MAX_VECTORS];
  UNROLL for (int c = 0; c < nc; c++) UNROLL for (int u = 0; u < nv; u++) sum[c][u] = vf_zero();
  for (int j = 0; j < keys; j += 2, v += ldv) {
    vp weight[KERNEL_MAX_VECTORS];
    UNROLL for (int u = 0; u < nv; u++) weight[u] = vp_load(w + (j / 2 * nv + u) * VW);
    UNROLL for (int c = 0; c < nc; c++) {
      vp x = vp_set1(v + c);
      UNROLL for (int u = 0; u < nv; u++) {
        vp y = alive ? vp_and(x, pairs_alive(alive, j, keys, nv, u)) : x;
        sum[c][u] = vf_dot(sum[c][u], weight[u], y);
      }
    }
  }
  UNROLL for (int c = 0; c < nc; c++) UNROLL for (int u = 0; u < nv; u++) {
    float *o = ot + (c * nv + u) * VW;
    vf_store(o, vf_fma(vf_load(alpha + u * VW), vf_load(o), sum[c][u]));
  }
}

INLINE void pairs_values_all(const uint32_t *v, int keys, const uint32_t *w, const uint32_t *alive,
                             int64_t dim, const int nv, const int group, const float *alpha,
                             float *ot) {
  int64_t c = 0;
#define VALUES(n)                                                                                  \
  {                                                                                                \
    pairs_values_group(v + c, dim, keys, w, alive, nv, n, alpha, ot + c * nv * VW);                \
    c += n;                                                                                        \
  }
  while (c + group <= dim) VALUES(group)
  while (c + 4 <= dim) VALUES(4)
  while (c < dim) VALUES(1)
#undef VALUES
}

static void pairs_values(const void *packed, int packed_keys, int first, int keys,
                         const uint32_t *w, int64_t dim, int vectors, const float *alpha,
                         float *ot) {
  const uint32_t *v = (const uint32_t *)packed + first / 2 * dim;
  (void)packed_keys;
  if (vectors == 2)
    pairs_values_all(v, keys, w, NULL, dim, 2, COLS_2, alpha, ot);
  else
    pairs_values_all(v, keys, w, NULL, dim, 1, COLS_1, alpha, ot);
}

static void pairs_values_masked(const void *packed, int packed_keys, int first, int keys,
                                const uint32_t *w, const uint32_t *alive, int64_t dim, int vectors,
                                const float *alpha, float *ot) {
  const uint32_t *v = (const uint32_t *)packed + first / 2 * dim;
  (void)packed_keys;
  if (vectors == 2)
    pairs_values_all(v, keys, w, alive, dim, 2, 4, alpha, ot);
  else
    pairs_values_all(v, keys, w, alive, dim, 1, 4, alpha, ot);
}

static const kernel_pairs pairs_table = {
  .load_queries = pairs_load_queries,
  .scores = pairs_scores,
  .pack_weights = pairs_pack_weights,
  .pack_values = pairs_pack_values,
  .pack_bytes = pairs_pack_bytes,
  .values = pairs_values,
  .values_masked = pairs_values_masked,
};
