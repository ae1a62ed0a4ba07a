// SPDX-License-Identifier: Apache-2.0
/* The portable kernels: the meaning of each table entry, and what the SIMD ones are tested against. */
#include "kernel/kernel.h"

#include "core/dtype.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 4 };

static void load_queries(const float *const *rows, int vectors, int64_t dim, float scale, float *qt) {
  int lanes = vectors * WIDTH;
  for (int64_t c = 0; c < dim; c++)
    for (int i = 0; i < lanes; i++) qt[c * lanes + i] = rows[i] ? scale * rows[i][c] : 0.0f;
}

static void row_max(const float *p, int keys, int vectors, float *max) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++)
      if (p[j * lanes + i] > max[i]) max[i] = p[j * lanes + i];
}

static void scores(const float *k, int64_t ldk, int keys, const float *qt, int64_t dim, int vectors,
                   float *p, float *max) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++) {
    float sum[KERNEL_MAX_LANES] = { 0 };
    for (int64_t c = 0; c < dim; c++)
      for (int i = 0; i < lanes; i++) sum[i] += k[j * ldk + c] * qt[c * lanes + i];
    memcpy(p + j * lanes, sum, (size_t)lanes * sizeof(float));
  }
  if (max) row_max(p, keys, vectors, max);
}

static void softcap(float *p, int keys, int vectors, float cap) {
  for (int i = 0; i < keys * vectors * WIDTH; i++) p[i] = cap * tanhf(p[i] / cap);
}

static void add_bias(float *p, int keys, int vectors, const float *bias, int64_t ld) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++) {
      float b = bias[i * ld + j], *s = p + j * lanes + i;
      *s = b == -INFINITY ? b : *s + b; // a NaN score under a mask must not survive
    }
}

static void alibi(float *p, int keys, int vectors, const float *slope, const int32_t *position) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++)
      p[j * lanes + i] -= slope[i] * fabsf((float)position[i] - (float)j);
}

static void limit(float *p, int keys, int vectors, const int32_t *low, const int32_t *high) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++)
      if (j < low[i] || j >= high[i]) p[j * lanes + i] = -INFINITY;
}

static void softmax(float *p, int keys, int vectors, const float *old_max, const float *new_max,
                    float *alpha, float *sum, bool natural) {
  int lanes = vectors * WIDTH;
  for (int i = 0; i < lanes; i++) {
    float m = new_max[i] == -INFINITY ? 0.0f : new_max[i], block = 0.0f;
    alpha[i] = natural ? expf(old_max[i] - m) : exp2f(old_max[i] - m);
    for (int j = 0; j < keys; j++) {
      float x = p[j * lanes + i] - m, e = natural ? expf(x) : exp2f(x);
      p[j * lanes + i] = e;
      block += e;
    }
    sum[i] = alpha[i] * sum[i] + block;
  }
}

static void alive(const float *p, int keys, int vectors, uint32_t *mask) {
  for (int i = 0; i < keys * vectors * WIDTH; i++) mask[i] = p[i] == -INFINITY ? 0 : UINT32_MAX;
}

static void values_if(const float *v, int64_t ldv, int keys, const float *p, const uint32_t *mask,
                      int64_t dim, int vectors, const float *alpha, float *ot) {
  int lanes = vectors * WIDTH;
  for (int64_t c = 0; c < dim; c++) {
    float sum[KERNEL_MAX_LANES] = { 0 };
    for (int j = 0; j < keys; j++)
      for (int i = 0; i < lanes; i++) {
        float x = !mask || mask[j * lanes + i] ? v[j * ldv + c] : 0.0f;
        sum[i] += x * p[j * lanes + i];
      }
    for (int i = 0; i < lanes; i++) ot[c * lanes + i] = alpha[i] * ot[c * lanes + i] + sum[i];
  }
}

static void values(const float *v, int64_t ldv, int keys, const float *p, int64_t dim, int vectors,
                   const float *alpha, float *ot) {
  values_if(v, ldv, keys, p, NULL, dim, vectors, alpha, ot);
}

static bool nonfinite(const float *x, int64_t n) {
  bool any = false;
  for (int64_t i = 0; i < n; i++) any |= !isfinite(x[i]);
  return any;
}

static void store_rows(const float *ot, int64_t dim, int vectors, const float *factor,
                       float *const *rows) {
  int lanes = vectors * WIDTH;
  for (int i = 0; i < lanes; i++)
    if (rows[i])
      for (int64_t c = 0; c < dim; c++) rows[i][c] = factor[i] * ot[c * lanes + i];
}

static float element(attn_dtype type, const void *base, int64_t i) {
  if (type == ATTN_F16) return dtype_f16_to_f32(((const uint16_t *)base)[i]);
  if (type == ATTN_BF16) return dtype_bf16_to_f32(((const uint16_t *)base)[i]);
  return ((const float *)base)[i];
}

static void widen(attn_dtype type, const void *src, float *dst, int64_t n) {
  for (int64_t c = 0; c < n; c++) dst[c] = element(type, src, c);
}

static void narrow(attn_dtype type, const float *src, void *dst, int64_t n) {
  dtype_get(type)->from_f32(src, dst, n);
}

static void narrow_scores(attn_dtype type, const void *k, int64_t ldk, int keys, const float *q,
                          int64_t ldq, int rows, int64_t dim, int lanes, float *p) {
  for (int j = 0; j < keys; j++)
    for (int r = 0; r < lanes; r++) {
      float sum = 0;
      for (int64_t c = 0; r < rows && c < dim; c++) sum += element(type, k, j * ldk + c) * q[r * ldq + c];
      p[(int64_t)j * lanes + r] = sum;
    }
}

static void narrow_values(attn_dtype type, const void *v, int64_t ldv, int keys, const float *p,
                          const uint32_t *mask, int rows, int64_t dim, int lanes,
                          const float *alpha, float *o, int64_t ldo) {
  for (int r = 0; r < rows; r++)
    for (int64_t c = 0; c < dim; c++) {
      float sum = 0;
      for (int j = 0; j < keys; j++)
        if (!mask || mask[(int64_t)j * lanes + r])
          sum += p[(int64_t)j * lanes + r] * element(type, v, j * ldv + c);
      o[r * ldo + c] = alpha[r] * o[r * ldo + c] + sum;
    }
}

const kernel_table kernel_scalar = {
  .isa = ATTN_ISA_SCALAR,
  .name = "scalar",
  .width = WIDTH,
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
  .values_masked = values_if,
  .nonfinite = nonfinite,
  .store_rows = store_rows,
  .narrow_scores = narrow_scores,
  .narrow_values = narrow_values,
  .widen = widen,
  .narrow = narrow,
};
