// SPDX-License-Identifier: Apache-2.0
/* Block sizes: a table of one row so far, scaled by the size of a row and of the L2 cache. */
#include "core/size.h"
#include "engine/engine.h"

/* 128 keys: at head_dim 128 a block of K and V is 128 KiB f32, which with 8 tiles of queries and
 * outputs (256 KiB) stays inside a 1 MiB L2; 64 and 256 were 1-3 % slower on Zen 5
 * (docs/performance.md). The number of keys is the same for every backend and cache: it is the one
 * choice that changes bits. */
enum { KEYS = 128, TILES = 8, DEFAULT_L2 = 512 << 10 };

engine_tiles engine_choose_tiles(const kernel_table *kernels, const attn_problem *problem,
                                 int64_t rows, int64_t l2_bytes) {
  engine_tiles t = { .vectors = rows <= kernels->width ? 1 : 2, .keys = KEYS };
  // The narrow kernels sum in another order, so a row would depend on how many there are.
  t.narrow = rows <= KERNEL_NARROW_ROWS && !problem->batch_invariant && !problem->weights;
  int64_t lanes = (int64_t)t.vectors * kernels->width, cache = l2_bytes ? l2_bytes : DEFAULT_L2;
  int64_t tile_bytes = lanes * (problem->head_dim + problem->head_dim_v) * (int64_t)sizeof(float);
  int64_t fit = size_max(1, cache / 2 / tile_bytes);
  t.tiles = (int)size_min(size_min(fit, TILES), size_max(1, size_ceil_div(rows, lanes)));
  return t;
}

bool engine_use_pairs(const kernel_table *kernels, const attn_problem *problem,
                      engine_tiles tiles) {
  // Weights are rounded to bf16, which the rounding of a bf16 output covers and an f32 one would show.
  return kernels->pairs && problem->dtype == ATTN_BF16 && problem->kv_dtype == ATTN_BF16 &&
         problem->out_dtype == ATTN_BF16 && !tiles.narrow;
}
