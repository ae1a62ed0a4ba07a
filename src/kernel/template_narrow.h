// SPDX-License-Identifier: Apache-2.0
/*
 * Kernels for few query rows (decoding), where lanes lie along head_dim and K and V stream through
 * once in their own type. Included by template_f32.h, with its vector words.
 */

/* One vector of a row in its own type, widened; the tail variant reads n < VW elements. */
/* Rows come from memory once; hardware prefetchers lose the stream at every page and at every change
 * between K and V. 4 KiB ahead gave 28 GB/s where none gave 19 (docs/performance.md). */
enum { PREFETCH_BYTES = 4096 };

INLINE vf source_load(const int type, const void *row, int64_t c) {
  vf_prefetch((const char *)row + c * (type == ATTN_F32 ? 4 : 2) + PREFETCH_BYTES);
  if (type == ATTN_F16) return vf_from_f16((const uint16_t *)row + c);
  if (type == ATTN_BF16) return vf_from_bf16((const uint16_t *)row + c);
  return vf_loadu((const float *)row + c);
}

INLINE vf source_load_part(const int type, const void *row, int64_t c, int64_t n) {
  if (type == ATTN_F16) return vf_from_f16_part((const uint16_t *)row + c, n);
  if (type == ATTN_BF16) return vf_from_bf16_part((const uint16_t *)row + c, n);
  return vf_load_part((const float *)row + c, n);
}

INLINE const void *source_row(const int type, const void *base, int64_t offset) {
  return (const char *)base + offset * (type == ATTN_F32 ? 4 : 2);
}

/* p[j][r] for nk keys and nr rows: nk * nr is 8 or 16 accumulators, a multiple of 4. */
INLINE void narrow_scores_group(const int type, const void *k, int64_t ldk, const float *q,
                                int64_t ldq, int64_t dim, const int nk, const int nr, int lanes,
                                float *p) {
  vf sum[GROUP_MAX];
  UNROLL for (int i = 0; i < nk * nr; i++) sum[i] = vf_zero();
  int64_t c = 0;
  for (; c + VW <= dim; c += VW) {
    vf x[8];
    UNROLL for (int j = 0; j < nk; j++) x[j] = source_load(type, source_row(type, k, j * ldk), c);
    UNROLL for (int r = 0; r < nr; r++) {
      vf y = vf_load(q + r * ldq + c);
      UNROLL for (int j = 0; j < nk; j++) sum[j * nr + r] = vf_fma(x[j], y, sum[j * nr + r]);
    }
  }
  if (c < dim) {
    UNROLL for (int j = 0; j < nk; j++) {
      vf x = source_load_part(type, source_row(type, k, j * ldk), c, dim - c);
      UNROLL for (int r = 0; r < nr; r++)
        sum[j * nr + r] = vf_fma(x, vf_load(q + r * ldq + c), sum[j * nr + r]);
    }
  }
  UNROLL for (int i = 0; i < nk * nr; i += 4) {
    float out[4];
    vf_sum4(sum + i, out);
    UNROLL for (int e = 0; e < 4; e++) p[(i + e) / nr * lanes + (i + e) % nr] = out[e];
  }
}

INLINE void narrow_scores_rows(const int type, const void *k, int64_t ldk, int keys, const float *q,
                               int64_t ldq, int64_t dim, const int nr, int lanes, float *p) {
  const int group = nr == 1 ? 8 : nr == 2 ? NARROW_KEYS_2 : NARROW_KEYS_4;
  int j = 0;
  for (; j + group <= keys; j += group)
    narrow_scores_group(type, source_row(type, k, j * ldk), ldk, q, ldq, dim, group, nr, lanes,
                        p + (int64_t)j * lanes);
  for (; j < keys; j++) { // single keys: 4 accumulators, those past nr unused
    const void *row = source_row(type, k, j * ldk);
    vf sum[4] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
    for (int64_t c = 0; c < dim; c += VW) {
      vf x = dim - c < VW ? source_load_part(type, row, c, dim - c) : source_load(type, row, c);
      UNROLL for (int r = 0; r < nr; r++) sum[r] = vf_fma(x, vf_load(q + r * ldq + c), sum[r]);
    }
    float out[4];
    vf_sum4(sum, out);
    for (int r = 0; r < nr; r++) p[(int64_t)j * lanes + r] = out[r];
  }
}

INLINE void narrow_scores_type(const int type, const void *k, int64_t ldk, int keys, const float *q,
                               int64_t ldq, int rows, int64_t dim, int lanes, float *p) {
  for (int j = 0; j < keys; j++)
    for (int v = 0; v < lanes; v += VW) vf_store(p + (int64_t)j * lanes + v, vf_zero());
  int r = 0;
  for (; r + 4 <= rows; r += 4)
    narrow_scores_rows(type, k, ldk, keys, q + r * ldq, ldq, dim, 4, lanes, p + r);
  if (r + 2 <= rows) {
    narrow_scores_rows(type, k, ldk, keys, q + r * ldq, ldq, dim, 2, lanes, p + r);
    r += 2;
  }
  if (r < rows) narrow_scores_rows(type, k, ldk, keys, q + r * ldq, ldq, dim, 1, lanes, p + r);
}

static void narrow_scores(attn_dtype type, const void *k, int64_t ldk, int keys, const float *q,
                          int64_t ldq, int rows, int64_t dim, int lanes, float *p) {
  if (type == ATTN_F16) narrow_scores_type(ATTN_F16, k, ldk, keys, q, ldq, rows, dim, lanes, p);
  else if (type == ATTN_BF16) narrow_scores_type(ATTN_BF16, k, ldk, keys, q, ldq, rows, dim, lanes, p);
  else narrow_scores_type(ATTN_F32, k, ldk, keys, q, ldq, rows, dim, lanes, p);
}

/* o[r][c .. c + nv * VW) = alpha * o + sum_j p[j][r] * v[j]; the last vector has `last` elements. */
INLINE void narrow_values_group(const int type, const void *v, int64_t ldv, int keys, const float *p,
                                const uint32_t *alive, const int nr, const int nv, int64_t c,
                                int64_t last, int lanes, const float *alpha, float *o, int64_t ldo) {
  vf sum[GROUP_MAX];
  UNROLL for (int i = 0; i < nr * nv; i++) sum[i] = vf_zero();
  for (int j = 0; j < keys; j++) {
    const void *row = source_row(type, v, j * ldv);
    vf x[8];
    UNROLL for (int u = 0; u < nv; u++)
      x[u] = u == nv - 1 && last < VW ? source_load_part(type, row, c + u * VW, last)
                                      : source_load(type, row, c + u * VW);
    UNROLL for (int r = 0; r < nr; r++) {
      if (alive && !alive[(int64_t)j * lanes + r]) continue;
      vf w = vf_set1(p[(int64_t)j * lanes + r]);
      UNROLL for (int u = 0; u < nv; u++) sum[r * nv + u] = vf_fma(x[u], w, sum[r * nv + u]);
    }
  }
  UNROLL for (int r = 0; r < nr; r++) UNROLL for (int u = 0; u < nv; u++) {
    float *at = o + r * ldo + c + u * VW;
    vf_store(at, vf_fma(vf_set1(alpha[r]), vf_load(at), sum[r * nv + u]));
  }
}

INLINE void narrow_values_rows(const int type, const void *v, int64_t ldv, int keys, const float *p,
                               const uint32_t *alive, const int nr, int64_t dim, int lanes,
                               const float *alpha, float *o, int64_t ldo) {
  const int wide = nr == 4 ? NARROW_COLS_4 : 8;
  int64_t c = 0;
  if (!alive)
    for (; c + wide * VW <= dim; c += wide * VW)
      narrow_values_group(type, v, ldv, keys, p, NULL, nr, wide, c, VW, lanes, alpha, o, ldo);
  for (; c < dim; c += VW) {
    int64_t last = dim - c < VW ? dim - c : VW;
    if (alive)
      narrow_values_group(type, v, ldv, keys, p, alive, nr, 1, c, last, lanes, alpha, o, ldo);
    else
      narrow_values_group(type, v, ldv, keys, p, NULL, nr, 1, c, last, lanes, alpha, o, ldo);
  }
}

INLINE void narrow_values_type(const int type, const void *v, int64_t ldv, int keys, const float *p,
                               const uint32_t *alive, int rows, int64_t dim, int lanes,
                               const float *alpha, float *o, int64_t ldo) {
  int r = 0;
  for (; r + 4 <= rows; r += 4)
    narrow_values_rows(type, v, ldv, keys, p + r, alive ? alive + r : NULL, 4, dim, lanes, alpha + r,
                       o + r * ldo, ldo);
  if (r + 2 <= rows) {
    narrow_values_rows(type, v, ldv, keys, p + r, alive ? alive + r : NULL, 2, dim, lanes, alpha + r,
                       o + r * ldo, ldo);
    r += 2;
  }
  if (r < rows)
    narrow_values_rows(type, v, ldv, keys, p + r, alive ? alive + r : NULL, 1, dim, lanes, alpha + r,
                       o + r * ldo, ldo);
}

static void narrow_values(attn_dtype type, const void *v, int64_t ldv, int keys, const float *p,
                          const uint32_t *alive, int rows, int64_t dim, int lanes,
                          const float *alpha, float *o, int64_t ldo) {
  if (type == ATTN_F16)
    narrow_values_type(ATTN_F16, v, ldv, keys, p, alive, rows, dim, lanes, alpha, o, ldo);
  else if (type == ATTN_BF16)
    narrow_values_type(ATTN_BF16, v, ldv, keys, p, alive, rows, dim, lanes, alpha, o, ldo);
  else narrow_values_type(ATTN_F32, v, ldv, keys, p, alive, rows, dim, lanes, alpha, o, ldo);
}

INLINE void widen_type(const int type, const void *src, float *dst, int64_t n) {
  int64_t c = 0;
  for (; c + VW <= n; c += VW) vf_storeu(dst + c, source_load(type, src, c));
  if (c < n) vf_store_part(dst + c, n - c, source_load_part(type, src, c, n - c));
}

static void widen(attn_dtype type, const void *src, float *dst, int64_t n) {
  if (type == ATTN_F16) widen_type(ATTN_F16, src, dst, n);
  else if (type == ATTN_BF16) widen_type(ATTN_BF16, src, dst, n);
  else widen_type(ATTN_F32, src, dst, n);
}

/* The last few elements go through a vector of zeros: 16-bit partial stores are not on every level. */
INLINE void narrow_type(const int type, const float *src, uint16_t *dst, int64_t n) {
  int64_t c = 0;
  for (; c + VW <= n; c += VW)
    if (type == ATTN_F16) vf_to_f16(dst + c, vf_loadu(src + c));
    else vf_to_bf16(dst + c, vf_loadu(src + c));
  if (c == n) return;
  uint16_t last[VW];
  vf x = vf_load_part(src + c, n - c);
  if (type == ATTN_F16) vf_to_f16(last, x);
  else vf_to_bf16(last, x);
  for (int64_t i = 0; c + i < n; i++) dst[c + i] = last[i];
}

static void narrow(attn_dtype type, const float *src, void *dst, int64_t n) {
  float *out = dst;
  if (type == ATTN_F16) narrow_type(ATTN_F16, src, dst, n);
  else if (type == ATTN_BF16) narrow_type(ATTN_BF16, src, dst, n);
  else
    for (int64_t c = 0; c < n; c++) out[c] = src[c];
}
