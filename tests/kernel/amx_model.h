// SPDX-License-Identifier: Apache-2.0
/*
 * AMX's tile instructions in software, after their operation sections in the Intel SDM (volume 2):
 * TDPBF16PS sums the even and the odd products of a row apart, by FMA with denormals as zero, and adds
 * both to the sum at the end. Faults that hardware raises (an unconfigured tile, a bad configuration)
 * abort.
 */
#ifndef TESTS_KERNEL_AMX_MODEL_H
#define TESTS_KERNEL_AMX_MODEL_H

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct amx_tile {
  uint8_t rows, bytes;
  unsigned char data[16][64];
} amx_tile;

static __thread struct {
  int configured;
  amx_tile tile[8];
} amx;

static inline amx_tile *amx_use(int t) {
  if (!amx.configured || t < 0 || t > 7 || !amx.tile[t].rows) abort();
  return &amx.tile[t];
}

static inline void amx_loadconfig(const void *memory) {
  const uint8_t *c = memory;
  if (c[0] != 1 || c[1] != 0) abort();
  memset(&amx, 0, sizeof(amx));
  for (int t = 0; t < 8; t++) {
    uint16_t bytes;
    memcpy(&bytes, c + 16 + 2 * t, 2);
    if (bytes > 64 || c[48 + t] > 16) abort();
    amx.tile[t].bytes = (uint8_t)bytes, amx.tile[t].rows = c[48 + t];
  }
  amx.configured = 1;
}

static inline void amx_release(void) { memset(&amx, 0, sizeof(amx)); }

static inline void amx_zero(int t) { memset(amx_use(t)->data, 0, sizeof(amx.tile[t].data)); }

static inline void amx_loadd(int t, const void *base, size_t stride) {
  amx_tile *x = amx_use(t);
  memset(x->data, 0, sizeof(x->data));
  for (int r = 0; r < x->rows; r++) memcpy(x->data[r], (const char *)base + (size_t)r * stride, x->bytes);
}

static inline void amx_stored(int t, void *base, size_t stride) {
  amx_tile *x = amx_use(t);
  for (int r = 0; r < x->rows; r++) memcpy((char *)base + (size_t)r * stride, x->data[r], x->bytes);
}

static inline float amx_flush(float x) { return fabsf(x) < 0x1p-126f ? copysignf(0, x) : x; }

static inline float amx_bf16(const amx_tile *x, int row, int column) {
  uint16_t h;
  memcpy(&h, x->data[row] + 2 * column, 2);
  uint32_t bits = (uint32_t)h << 16;
  float f;
  memcpy(&f, &bits, 4);
  return amx_flush(f);
}

static inline void amx_dpbf16ps(int c, int a, int b) {
  amx_tile *z = amx_use(c), *x = amx_use(a), *y = amx_use(b);
  if (z->rows != x->rows || z->bytes != y->bytes || x->bytes / 4 != y->rows) abort();
  for (int m = 0; m < z->rows; m++)
    for (int n = 0; n < z->bytes / 4; n++) {
      float even = 0, odd = 0, sum;
      for (int k = 0; k < x->bytes / 4; k++) {
        even = amx_flush(fmaf(amx_bf16(x, m, 2 * k), amx_bf16(y, k, 2 * n), even));
        odd = amx_flush(fmaf(amx_bf16(x, m, 2 * k + 1), amx_bf16(y, k, 2 * n + 1), odd));
      }
      memcpy(&sum, z->data[m] + 4 * n, 4);
      sum = amx_flush(amx_flush(sum) + amx_flush(even + odd));
      memcpy(z->data[m] + 4 * n, &sum, 4);
    }
}

#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbf16ps
#define _tile_loadconfig amx_loadconfig
#define _tile_release amx_release
#define _tile_zero amx_zero
#define _tile_loadd amx_loadd
#define _tile_stored amx_stored
#define _tile_dpbf16ps amx_dpbf16ps
#define TABLE kernel_amx_model

#endif
