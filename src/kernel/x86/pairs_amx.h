// SPDX-License-Identifier: Apache-2.0
/*
 * The kernels of bf16 arithmetic on AMX tiles: 16 rows of 64 bytes each. A tile product adds
 * A[16 rows][16 pairs] times B[16 pairs][16 lanes] to C[16][16] in f32, and the tile buffers already are
 * what it wants: B is qt or w in place, 16 lanes of it; A is 16 rows of K in place for scores, and for
 * values V packed as [column][key]; C is p, or a block's sums. What does not fill a tile goes through
 * zeroed copies, so that one configuration serves all and nothing past a buffer is read.
 */
#include <stddef.h>
#include <string.h>

#include "kernel/template_pairs_load.h"

enum { TILE = 16, TILE_PAIRS = 16, TILE_KEYS = 32, TILE_BYTES = 64 };
/* Registers: sums of two row tiles by two vectors, then two A and two B. Macros, as they end up in names. */
#define C00 0
#define C01 1
#define C10 2
#define C11 3
#define A0 4
#define A1 5
#define B0 6
#define B1 7

/* The memory form that LDTILECFG reads (Intel SDM, volume 2, LDTILECFG). */
typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes_per_row[16];
  uint8_t rows[16];
} tile_config;

static void tiles_begin(void) {
  static const tile_config config = { .palette = 1,
                                      .bytes_per_row = { 64, 64, 64, 64, 64, 64, 64, 64 },
                                      .rows = { 16, 16, 16, 16, 16, 16, 16, 16 } };
  _tile_loadconfig(&config);
}
/* Leaves the tiles unused, so that a context switch does not save them. */
static void tiles_end(void) { _tile_release(); }

/* Where a tile is loaded from. */
typedef struct tile_source {
  const void *data;
  int64_t stride; /* bytes */
} tile_source;

typedef struct tile_copy {
  _Alignas(TILE_BYTES) char bytes[TILE * TILE_BYTES];
} tile_copy;

/* `rows` rows of `elements` 16-bit elements from `data`, in place if they fill a tile. */
static tile_source rows_of(const uint16_t *data, int64_t ld, int64_t rows, int64_t elements,
                           tile_copy *copy) {
  if (rows >= TILE && elements >= TILE_KEYS) return (tile_source){ data, ld * 2 };
  for (int i = 0; i < TILE; i++) {
    vp x = i < rows ? vp_load_part(data + i * ld, elements < TILE_KEYS ? elements : TILE_KEYS) : vp_zero();
    vp_store((uint32_t *)(void *)(copy->bytes + i * TILE_BYTES), x);
  }
  return (tile_source){ copy->bytes, TILE_BYTES };
}

/* 16 lanes of `pairs` rows of pairs. */
static tile_source pairs_of(const uint32_t *data, int64_t lanes, int64_t pairs, tile_copy *copy) {
  if (pairs >= TILE_PAIRS) return (tile_source){ data, lanes * 4 };
  for (int i = 0; i < TILE; i++)
    vp_store((uint32_t *)(void *)(copy->bytes + i * TILE_BYTES), i < pairs ? vp_load(data + i * lanes) : vp_zero());
  return (tile_source){ copy->bytes, TILE_BYTES };
}

/* sums[row][32]: one or two tiles of rows times one or two vectors of lanes, 16 rows a tile; A given by
 * rows `ld` elements apart, `length` elements of each, B by pairs of them. */
static void tile_product(const uint16_t *a, int64_t ld, int64_t rows, int64_t length, const uint32_t *b,
                         int vectors, float *sums) {
  const int64_t lanes = (int64_t)vectors * VW;
  const bool two_rows = rows > TILE, two = vectors == 2;
  tile_copy copies[4];
  _tile_zero(C00);
  _tile_zero(C01);
  _tile_zero(C10);
  _tile_zero(C11);
  for (int64_t c = 0; c < length; c += TILE_KEYS) {
    int64_t left = length - c, pairs = (left + 1) / 2;
    tile_source a0 = rows_of(a + c, ld, rows, left, &copies[0]);
    tile_source b0 = pairs_of(b + c / 2 * lanes, lanes, pairs, &copies[2]);
    _tile_loadd(A0, a0.data, (size_t)a0.stride);
    _tile_loadd(B0, b0.data, (size_t)b0.stride);
    _tile_dpbf16ps(C00, A0, B0);
    if (two) {
      tile_source b1 = pairs_of(b + c / 2 * lanes + VW, lanes, pairs, &copies[3]);
      _tile_loadd(B1, b1.data, (size_t)b1.stride);
      _tile_dpbf16ps(C01, A0, B1);
    }
    if (two_rows) {
      tile_source a1 = rows_of(a + TILE * ld + c, ld, rows - TILE, left, &copies[1]);
      _tile_loadd(A1, a1.data, (size_t)a1.stride);
      _tile_dpbf16ps(C10, A1, B0);
      if (two) _tile_dpbf16ps(C11, A1, B1);
    }
  }
  _tile_stored(C00, sums, 2 * TILE_BYTES);
  if (two) _tile_stored(C01, sums + VW, 2 * TILE_BYTES);
  if (two_rows) _tile_stored(C10, sums + 2 * TILE * VW, 2 * TILE_BYTES);
  if (two_rows && two) _tile_stored(C11, sums + (2 * TILE + 1) * VW, 2 * TILE_BYTES);
}

/* Rows of K hold dim rounded up to even elements, and the last of an odd dim is zero. */
static void amx_scores(const uint16_t *k, int64_t ldk, int keys, const uint32_t *qt, int64_t dim,
                       int vectors, float scale, float *p, float *row_max) {
  _Alignas(TILE_BYTES) float sums[2 * TILE * 2 * VW];
  vf max[KERNEL_MAX_VECTORS], factor = vf_set1(scale);
  for (int v = 0; v < vectors; v++) max[v] = row_max ? vf_load(row_max + v * VW) : vf_zero();
  tiles_begin();
  for (int j = 0; j < keys; j += 2 * TILE) {
    int rows = keys - j < 2 * TILE ? keys - j : 2 * TILE;
    tile_product(k + j * ldk, ldk, rows, dim + dim % 2, qt, vectors, sums);
    for (int i = 0; i < rows; i++)
      for (int v = 0; v < vectors; v++, p += VW) {
        vf s = vf_mul(factor, vf_load(sums + (2 * i + v) * VW));
        max[v] = vf_max(s, max[v]);
        vf_store(p, s);
      }
  }
  tiles_end();
  for (int v = 0; row_max && v < vectors; v++) vf_store(row_max + v * VW, max[v]);
}

/* packed[c][key], rows of a whole number of tiles, zeros after the last key */
static int64_t amx_row(int keys) { return (keys + TILE_KEYS - 1) / TILE_KEYS * TILE_KEYS; }

static int64_t amx_pack_bytes(int keys, int64_t dim) { return amx_row(keys) * dim * 2; }

static void amx_pack_values(const uint16_t *v, int64_t ldv, int keys, int64_t dim, void *packed) {
  const int64_t ld = amx_row(keys);
  uint16_t *out = packed;
  for (int j = 0; j < ld; j += TILE_KEYS)
    for (int64_t c = 0; c < dim; c += VW) { // 16 columns of 32 keys: pairs of keys, transposed
      int64_t n = dim - c < VW ? dim - c : VW;
      vf r[VW];
      for (int i = 0; i < VW; i++) {
        int key = j + 2 * i;
        vp even = key < keys ? vp_load_part(v + key * ldv + c, n) : vp_zero();
        vp odd = key + 1 < keys ? vp_load_part(v + (key + 1) * ldv + c, n) : vp_zero();
        r[i] = vp_as_vf(vp_interleave(even, odd));
      }
      vf_transpose(r);
      for (int i = 0; i < n; i++) vf_storeu((float *)(void *)(out + (c + i) * ld + j), r[i]);
    }
}

/* ot[c .. c + rows) = alpha * ot + sums */
static void add_sums(const float *sums, int64_t rows, int vectors, const float *alpha, float *ot) {
  for (int64_t i = 0; i < rows; i++)
    for (int v = 0; v < vectors; v++, ot += VW)
      vf_store(ot, vf_fma(vf_load(alpha + v * VW), vf_load(ot), vf_load(sums + (2 * i + v) * VW)));
}

static void amx_values(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                       int64_t dim, int vectors, const float *alpha, float *ot) {
  _Alignas(TILE_BYTES) float sums[2 * TILE * 2 * VW];
  const int64_t ld = amx_row(packed_keys), lanes = (int64_t)vectors * VW;
  const uint16_t *v = (const uint16_t *)packed + first;
  tiles_begin();
  for (int64_t c = 0; c < dim; c += 2 * TILE) {
    int64_t rows = dim - c < 2 * TILE ? dim - c : 2 * TILE;
    tile_product(v + c * ld, ld, rows, keys, w, vectors, sums);
    add_sums(sums, rows, vectors, alpha, ot + c * lanes);
  }
  tiles_end();
}

static bool bf16_finite(uint16_t x) { return (x & 0x7f80) != 0x7f80; }

/* A tile product knows no lanes: it runs without the numbers that are not finite, which are then added for
 * the lanes that see them. What else a dead lane meets it multiplies by its zero weight. */
static void amx_values_masked(const void *packed, int packed_keys, int first, int keys, const uint32_t *w,
                              const uint32_t *alive, int64_t dim, int vectors, const float *alpha,
                              float *ot) {
  enum { MAX_KEYS = 256 + TILE_KEYS };
  _Alignas(TILE_BYTES) float sums[2 * TILE * 2 * VW];
  uint16_t clean[TILE][MAX_KEYS];
  const int64_t ld = amx_row(packed_keys), lanes = (int64_t)vectors * VW;
  const uint16_t *v = (const uint16_t *)packed + first;
  for (int64_t c = 0; c < dim; c += TILE) {
    int64_t rows = dim - c < TILE ? dim - c : TILE;
    for (int64_t i = 0; i < rows; i++)
      for (int j = 0; j < keys; j++) {
        uint16_t x = v[(c + i) * ld + j];
        clean[i][j] = bf16_finite(x) ? x : 0;
      }
    tiles_begin();
    tile_product(clean[0], MAX_KEYS, rows, keys, w, vectors, sums);
    tiles_end();
    for (int64_t i = 0; i < rows; i++)
      for (int j = 0; j < keys; j++) {
        uint16_t x = v[(c + i) * ld + j];
        if (bf16_finite(x)) continue;
        for (int64_t lane = 0; lane < lanes; lane++)
          if (alive[j * lanes + lane]) {
            uint32_t pair = w[j / 2 * lanes + lane];
            sums[i * 2 * VW + lane] +=
                dtype_bf16_to_f32((uint16_t)(j % 2 ? pair >> 16 : pair)) * dtype_bf16_to_f32(x);
          }
      }
    add_sums(sums, rows, vectors, alpha, ot + c * lanes);
  }
}

static const kernel_pairs pairs_table = {
  .load_queries = pairs_load_queries,
  .scores = amx_scores,
  .pack_weights = pairs_pack_weights,
  .pack_values = amx_pack_values,
  .pack_bytes = amx_pack_bytes,
  .values = amx_values,
  .values_masked = amx_values_masked,
};
