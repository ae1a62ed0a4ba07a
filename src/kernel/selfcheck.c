// SPDX-License-Identifier: Apache-2.0
/* A level proves itself against scalar before its first use: a miscompiled or mis-emulated kernel
 * must cost speed, never results. */
#include "kernel/kernel.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

enum { ROWS = KERNEL_MAX_LANES, DIM = 19, KEYS = 23, PAD = 3, BLOCK = 9 };

typedef struct fixture {
  float q[ROWS][DIM], k[KEYS][DIM + PAD], v[KEYS][DIM + PAD], bias[ROWS][KEYS], slope[ROWS];
  int32_t low[ROWS], high[ROWS], position[ROWS];
} fixture;

static float draw(uint32_t *state) { // xorshift32, uniform in [-1, 1)
  *state ^= *state << 13, *state ^= *state >> 17, *state ^= *state << 5;
  return (float)(int32_t)*state * 0x1p-31f;
}

static void fill(fixture *f) {
  uint32_t s = 2463534242u;
  for (int i = 0; i < ROWS; i++) {
    for (int c = 0; c < DIM; c++) f->q[i][c] = 2 * draw(&s);
    for (int j = 0; j < KEYS; j++) f->bias[i][j] = (i + j) % 5 == 0 ? -INFINITY : draw(&s);
    f->slope[i] = 0.125f * (float)(i % 4);
    f->low[i] = i % 3 - 1;
    f->high[i] = i == 5 ? 0 : KEYS - i % 7; // row 5 is empty
    f->position[i] = i - 4;
  }
  for (int j = 0; j < KEYS; j++)
    for (int c = 0; c < DIM + PAD; c++) {
      f->k[j][c] = c < DIM ? draw(&s) : NAN; // padding must not be read
      f->v[j][c] = c < DIM ? draw(&s) : NAN;
    }
  f->v[3][2] = INFINITY; // only lanes where key 3 is alive may see it
}

/* Attention of one tile in two blocks of keys, through every entry of the table. */
static void run_tile(const kernel_table *t, const fixture *f, int first, int vectors, bool natural,
                     float out[][DIM]) {
  _Alignas(KERNEL_ALIGN) float qt[DIM * ROWS], p[KEYS * ROWS], ot[DIM * ROWS], factor[ROWS];
  _Alignas(KERNEL_ALIGN) float max[ROWS], new_max[ROWS], sum[ROWS], alpha[ROWS], slope[ROWS];
  _Alignas(KERNEL_ALIGN) uint32_t alive[KEYS * ROWS];
  const float *rows[ROWS];
  float *outs[ROWS];
  int32_t low[ROWS], high[ROWS], position[ROWS];
  int lanes = vectors * t->width;
  memset(ot, 0, sizeof(ot));
  for (int i = 0; i < lanes; i++) {
    rows[i] = f->q[first + i], outs[i] = out[first + i];
    max[i] = -INFINITY, sum[i] = 0, slope[i] = f->slope[first + i];
  }
  t->load_queries(rows, vectors, DIM, natural ? 1.0f : 1.44269504f, qt);
  for (int k0 = 0, n = BLOCK; k0 < KEYS; k0 += n, n = KEYS - k0) {
    memcpy(new_max, max, sizeof(max));
    for (int i = 0; i < lanes; i++) {
      low[i] = f->low[first + i] - k0, high[i] = f->high[first + i] - k0;
      position[i] = f->position[first + i] - k0;
    }
    t->scores(f->k[k0], DIM + PAD, n, qt, DIM, vectors, p, natural ? NULL : new_max);
    if (natural) {
      t->softcap(p, n, vectors, 2.5f);
      t->alibi(p, n, vectors, slope, position);
      t->add_bias(p, n, vectors, &f->bias[first][k0], KEYS);
    } else {
      t->add_bias(p, n, vectors, &f->bias[7][k0], 0);
      memcpy(new_max, max, sizeof(max));
    }
    t->limit(p, n, vectors, low, high);
    t->row_max(p, n, vectors, new_max);
    t->alive(p, n, vectors, alive);
    t->softmax(p, n, vectors, max, new_max, alpha, sum, natural);
    t->values_masked(f->v[k0], DIM + PAD, n, p, alive, DIM, vectors, alpha, ot);
    if (!natural) { // and the unmasked one, whose result is ot without the infinity's column
      _Alignas(KERNEL_ALIGN) float other[DIM * ROWS];
      memset(other, 0, sizeof(other));
      t->values(f->v[k0], DIM + PAD, n, p, 2, vectors, alpha, other);
      for (int i = 0; i < 2 * lanes; i++) ot[i] += 0.5f * other[i];
    }
    memcpy(max, new_max, sizeof(max));
  }
  for (int i = 0; i < lanes; i++) factor[i] = sum[i] > 0 ? 1 / sum[i] : 0;
  t->store_rows(ot, DIM, vectors, factor, outs);
}

static void run_all(const kernel_table *t, const fixture *f, int vectors, bool natural,
                    float out[][DIM]) {
  for (int first = 0; first < ROWS; first += vectors * t->width)
    run_tile(t, f, first, vectors, natural, out);
}

/* The narrow kernels on a few rows; key 3's infinity is dead for all of them. */
static void run_narrow(const kernel_table *t, const fixture *f, float out[][DIM]) {
  enum { FEW = 7, LD = 32 };
  int lanes = (FEW + t->width - 1) / t->width * t->width;
  _Alignas(KERNEL_ALIGN) float q[FEW][LD] = { { 0 } }, o[FEW][LD] = { { 0 } }, p[KEYS * ROWS];
  float alpha[ROWS] = { 0 };
  uint32_t alive[KEYS * ROWS];
  for (int r = 0; r < FEW; r++) memcpy(q[r], f->q[r], sizeof(f->q[r]));
  memset(alive, 0xff, sizeof(alive));
  for (int r = 0; r < lanes; r++) alive[3 * lanes + r] = 0;
  t->narrow_scores(ATTN_F32, f->k, DIM + PAD, KEYS, q[0], LD, FEW, DIM, lanes, p);
  t->narrow_values(ATTN_F32, f->v, DIM + PAD, KEYS, p, alive, FEW, DIM, lanes, alpha, o[0], LD);
  for (int r = 0; r < FEW; r++) memcpy(out[r], o[r], sizeof(out[r]));
}

static uint16_t bf16(float x) { // by truncation: any bf16 near will do
  uint32_t bits;
  memcpy(&bits, &x, sizeof(bits));
  return (uint16_t)(bits >> 16);
}

/* The bf16 kernels of one tile, the second block starting in the middle of the packed values. */
static void run_pairs(const kernel_pairs *t, int width, const fixture *f, int first, int vectors,
                      float out[][DIM]) {
  enum { LD = DIM + 1, PACKED = 1 << 13, SECOND = 10 };
  uint16_t q[ROWS][DIM], k[KEYS][LD], v[KEYS][LD];
  const uint16_t *rows[ROWS];
  _Alignas(KERNEL_ALIGN) uint32_t qt[DIM * ROWS], w[KEYS * ROWS], alive[KEYS * ROWS];
  _Alignas(KERNEL_ALIGN) float p[KEYS * ROWS], ot[DIM * ROWS] = { 0 }, max[ROWS], alpha[ROWS];
  _Alignas(KERNEL_ALIGN) char packed[PACKED];
  int lanes = vectors * width;
  for (int i = 0; i < lanes; i++) {
    for (int c = 0; c < DIM; c++) q[i][c] = bf16(f->q[first + i][c]);
    rows[i] = q[i], max[i] = -INFINITY, alpha[i] = 0.5f;
  }
  for (int j = 0; j < KEYS; j++)
    for (int c = 0; c < LD; c++) k[j][c] = c < DIM ? bf16(f->k[j][c]) : 0, v[j][c] = bf16(f->v[j][c]);
  t->load_queries(rows, vectors, DIM, qt);
  if (t->pack_bytes(KEYS, DIM) <= PACKED) t->pack_values(v[0], LD, KEYS, DIM, packed);
  for (int j = 0, n = SECOND; j < KEYS; j += n, n = KEYS - j) {
    t->scores(k[j], LD, n, qt, DIM, vectors, 0.25f, p, max);
    for (int i = 0; i < n * lanes; i++) alive[i] = j + i / lanes == 3 ? 0 : UINT32_MAX;
    for (int i = 0; i < n * lanes; i++) p[i] = alive[i] ? p[i] : 0;
    t->pack_weights(p, n, vectors, w);
    if (j == 0) t->values_masked(packed, KEYS, j, n, w, alive, DIM, vectors, alpha, ot);
    else t->values(packed, KEYS, j, n, w, DIM, vectors, alpha, ot);
  }
  for (int i = 0; i < lanes; i++)
    for (int c = 0; c < DIM; c++) out[first + i][c] = ot[c * lanes + i] + max[i];
}

static bool pairs_agree(const kernel_table *t, const fixture *f) {
  float expected[ROWS][DIM], out[ROWS][DIM];
  for (int first = 0; first < ROWS; first += kernel_scalar.width)
    run_pairs(&kernel_pairs_scalar, kernel_scalar.width, f, first, 1, expected);
  for (int vectors = 1; vectors <= KERNEL_MAX_VECTORS; vectors++) {
    for (int first = 0; first < ROWS; first += vectors * t->width)
      run_pairs(t->pairs, t->width, f, first, vectors, out);
    for (int i = 0; i < ROWS; i++) // weights are rounded: a tie may fall to either side
      for (int c = 0; c < DIM; c++)
        if (!(fabsf(out[i][c] - expected[i][c]) <= 0x1p-8f * (1 + fabsf(expected[i][c])))) return false;
  }
  return true;
}

static bool agree(float out[][DIM], float expected[][DIM]) {
  for (int i = 0; i < ROWS; i++)
    for (int c = 0; c < DIM; c++) {
      float a = out[i][c], b = expected[i][c];
      if (isfinite(b) ? !(fabsf(a - b) <= 1e-5f * (1 + fabsf(b))) : a != b) return false;
    }
  return true;
}

const char *kernel_selfcheck(const kernel_table *table) {
  fixture f;
  fill(&f);
  for (int natural = 0; natural < 2; natural++) {
    float expected[ROWS][DIM], out[ROWS][DIM];
    run_all(&kernel_scalar, &f, 1, natural, expected);
    for (int vectors = 1; vectors <= KERNEL_MAX_VECTORS; vectors++) {
      memset(out, 0x7f, sizeof(out));
      run_all(table, &f, vectors, natural, out);
      if (!agree(out, expected))
        return natural ? "self-check: masked and capped tile differs from scalar"
                       : "self-check: plain tile differs from scalar";
    }
  }
  float expected[ROWS][DIM] = { { 0 } }, out[ROWS][DIM] = { { 0 } };
  run_narrow(&kernel_scalar, &f, expected);
  run_narrow(table, &f, out);
  if (!agree(out, expected)) return "self-check: narrow tile differs from scalar";
  if (table->pairs && !pairs_agree(table, &f)) return "self-check: bf16 tile differs from scalar";
  return NULL;
}
