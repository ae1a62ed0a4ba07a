// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "backend/gpu.h"
#include "core/size.h"

/* FlashAttention's num_splits_heuristic, restated: 1 when the items fill 80 % of the slots; else the
 * smallest number of splits within 85 % of the best wave efficiency. */
int gpu_splits(double items, double slots, int64_t key_blocks, int max_splits) {
  if (items >= 0.8 * slots || items <= 0) return 1;
  int64_t most = size_min(size_min(max_splits, key_blocks), (int64_t)slots);
  double best = 0;
  for (int64_t n = 1; n <= most; n++) {
    double waves = items * (double)n / slots;
    best = fmax(best, waves / ceil(waves));
  }
  for (int64_t n = 1; n <= most; n++) {
    double waves = items * (double)n / slots;
    if (waves / ceil(waves) >= 0.85 * best) return (int)n;
  }
  return 1;
}

static double round_up(double x, double to) { return ceil(x / to) * to; }

void gpu_estimate(const backend_query *query, const gpu_kernel *k, backend_cost *cost) {
  const attn_problem *p = query->problem;
  const attn_problem_size *size = query->size;
  double group = p->heads_kv ? (double)(p->heads_q / p->heads_kv) : 1;
  bool packed = k->pack_heads && p->seq_q * (int64_t)group <= k->tile_q;
  double rows = (double)p->seq_q * (packed ? group : 1);
  double heads = (double)p->batch * (packed ? (double)p->heads_kv : (double)p->heads_q);
  double q_tiles = ceil(rows / k->tile_q), slots = (double)query->capability->compute_units;
  int64_t key_blocks = size_ceil_div(p->seq_kv, k->tile_k);
  int splits = slots > 0 ? gpu_splits(heads * q_tiles, slots, key_blocks, k->max_splits) : 1;
  // Tiles compute whole: rows and keys are padded, and diagonals cost half a tile more per row tile.
  double pad = rows > 0 && p->seq_kv > 0
                   ? q_tiles * k->tile_q / rows * round_up((double)p->seq_kv, k->tile_k) / (double)p->seq_kv
                   : 0;
  double pairs = size->score_pairs * pad;
  if (p->causal || p->window)
    pairs = fmin((double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->seq_kv * pad,
                 pairs + heads * q_tiles * k->tile_q * 0.5 * k->tile_k);
  double out_rows = (double)p->batch * (double)p->heads_q * (double)p->seq_q;
  double partials = splits > 1 ? out_rows * splits * (double)(p->head_dim_v + 1) * 4 : 0;
  double structure = p->seq_q && p->seq_kv // keys that no row attends are not read
                         ? fmin(1, size->score_pairs / fmax(1, (double)p->batch * (double)p->heads_q) /
                                       (double)p->seq_kv / (p->seq_q > 1 ? 0.5 : 1))
                         : 1;
  bool fp8 = p->dtype == ATTN_F8E4M3 || p->dtype == ATTN_F8E5M2;
  *cost = (backend_cost){
    .flops = 2 * pairs * (double)(p->head_dim + p->head_dim_v),
    .bytes = (double)(size->q_bytes + size->out_bytes + size->mask_bytes) +
             structure * (double)(size->k_bytes + size->v_bytes) + 2 * partials,
    .efficiency = k->efficiency,
    .compute = fp8 ? ATTN_F8E4M3 : p->dtype,
    .launches = k->launches + (splits > 1 ? 1 : 0),
    .items = heads * q_tiles * splits,
    .workspace_bytes = (int64_t)(out_rows * 4 + partials), // log-sum-exp and partial sums
    .splits = splits,
  };
}
