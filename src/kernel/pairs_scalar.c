// SPDX-License-Identifier: Apache-2.0
/* The portable meaning of kernel_pairs, for tiles of the scalar table's width. */
#include "core/dtype.h"
#include "kernel/kernel.h"

enum { WIDTH = 4 };

static float low(uint32_t pair) { return dtype_bf16_to_f32((uint16_t)pair); }
static float high(uint32_t pair) { return dtype_bf16_to_f32((uint16_t)(pair >> 16)); }
static uint32_t pair_of(uint16_t a, uint16_t b) { return a | (uint32_t)b << 16; }

static void load_queries(const uint16_t *const *rows, int vectors, int64_t dim, uint32_t *qt) {
  int lanes = vectors * WIDTH;
  for (int64_t c = 0; c < dim; c += 2)
    for (int i = 0; i < lanes; i++)
      qt[c / 2 * lanes + i] = rows[i] ? pair_of(rows[i][c], c + 1 < dim ? rows[i][c + 1] : 0) : 0;
}

static void scores(const uint16_t *k, int64_t ldk, int keys, const uint32_t *qt, int64_t dim,
                   int vectors, float scale, float *p, float *row_max) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < lanes; i++) {
      float sum = 0;
      for (int64_t c = 0; c < dim; c += 2) {
        uint32_t q = qt[c / 2 * lanes + i];
        sum += low(q) * dtype_bf16_to_f32(k[j * ldk + c]);
        if (c + 1 < dim) sum += high(q) * dtype_bf16_to_f32(k[j * ldk + c + 1]);
      }
      p[j * lanes + i] = scale * sum;
      if (row_max && scale * sum > row_max[i]) row_max[i] = scale * sum;
    }
}

static void pack_weights(const float *p, int keys, int vectors, uint32_t *w) {
  int lanes = vectors * WIDTH;
  for (int j = 0; j < keys; j += 2)
    for (int i = 0; i < lanes; i++) {
      float odd = j + 1 < keys ? p[(j + 1) * lanes + i] : 0;
      w[j / 2 * lanes + i] = pair_of(dtype_f32_to_bf16(p[j * lanes + i]), dtype_f32_to_bf16(odd));
    }
}

static void pack_values(const uint16_t *v, int64_t ldv, int keys, int64_t dim, void *packed) {
  uint32_t *out = packed;
  for (int j = 0; j < keys; j += 2)
    for (int64_t c = 0; c < dim; c++)
      *out++ = pair_of(v[j * ldv + c], j + 1 < keys ? v[(j + 1) * ldv + c] : 0);
}

static int64_t pack_bytes(int keys, int64_t dim) { return (keys + 1) / 2 * dim * 4; }

static void values_masked(const void *packed, int packed_keys, int first, int keys,
                          const uint32_t *w, const uint32_t *alive, int64_t dim, int vectors,
                          const float *alpha, float *ot) {
  int lanes = vectors * WIDTH;
  const uint32_t *v = (const uint32_t *)packed + first / 2 * dim;
  (void)packed_keys;
  for (int64_t c = 0; c < dim; c++)
    for (int i = 0; i < lanes; i++) {
      float sum = 0;
      for (int j = 0; j < keys; j++) {
        if (alive && !alive[j * lanes + i]) continue;
        uint32_t weight = w[j / 2 * lanes + i], x = v[j / 2 * dim + c];
        sum += j % 2 ? high(weight) * high(x) : low(weight) * low(x);
      }
      ot[c * lanes + i] = alpha[i] * ot[c * lanes + i] + sum;
    }
}

static void values(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                   int64_t dim, int vectors, const float *alpha, float *ot) {
  values_masked(packed, packed_keys, first, keys, w, NULL, dim, vectors, alpha, ot);
}

const kernel_pairs kernel_pairs_scalar = {
  .load_queries = load_queries,
  .scores = scores,
  .pack_weights = pack_weights,
  .pack_values = pack_values,
  .pack_bytes = pack_bytes,
  .values = values,
  .values_masked = values_masked,
};
