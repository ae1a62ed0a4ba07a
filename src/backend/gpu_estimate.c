// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "backend/gpu.h"
#include "core/size.h"

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

/* Sum over t in [0, n) of floor((a * t + b) / m), a, b >= 0, m > 0: whole steps are summed, the
 * rest is counted along the other axis, as in Euclid's algorithm. Exact while the sum is below
 * 2^53. */
static double floor_sum(int64_t n, int64_t m, int64_t a, int64_t b) {
  double sum = 0;
  for (;;) {
    double count = (double)n;
    sum += count * (count - 1) / 2 * (double)(a / m) + count * (double)(b / m);
    a %= m, b %= m;
    int64_t top = a * n + b;
    if (top < m) return sum;
    n = top / m, b = top % m;
    int64_t swap = m;
    m = a, a = swap;
  }
}

/* Sum over t in [0, n) of floor((a * t + b) / m) cut to [0, cap]. */
static double ramp_sum(int64_t n, int64_t m, int64_t a, int64_t b, int64_t cap) {
  int64_t start = b >= 0 ? 0 : size_ceil_div(-b, a);               // before it: below 0
  int64_t full = b >= cap * m ? 0 : size_ceil_div(cap * m - b, a); // from it on: cap
  start = size_min(start, n);
  full = size_max(start, size_min(full, n));
  return floor_sum(full - start, m, a, b + a * start) + (double)(n - full) * (double)cap;
}

static int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (size_add(a, b, &r)) return r;
  return b > 0 ? INT64_MAX : INT64_MIN;
}

double gpu_tiles(const attn_problem *p, int64_t seq_q, int64_t seq_kv, int64_t tile_q,
                 int64_t tile_k, int64_t rows_per_query) {
  int64_t queries = size_max(1, tile_q / rows_per_query);
  int64_t n = size_ceil_div(seq_q, queries), blocks = size_ceil_div(seq_kv, tile_k);
  int64_t diagonal = problem_diagonal(p, seq_q, seq_kv);
  double above = (double)n * (double)blocks, below = 0;
  if (!n || !blocks) return 0;
  if (p->causal || (p->window && p->window_right >= 0)) {
    // Tile t ends before the key after its last query's: floor((queries * t + b) / tile_k).
    int64_t right = p->causal ? 0 : p->window_right;
    int64_t edge =
        size_max(-seq_q - queries, size_min(add(add(diagonal, right), 1), seq_kv + tile_k));
    above = ramp_sum(n, tile_k, queries, queries - 1 + edge + tile_k - 1, blocks);
  }
  if (p->window && p->window_left >= 0) {
    int64_t edge =
        size_max(-seq_q - queries, size_min(add(diagonal, -p->window_left), seq_kv + tile_k));
    below = ramp_sum(n, tile_k, queries, edge, blocks);
  }
  return above - below;
}

int64_t gpu_bytes(double bytes) { return bytes < 9e18 ? (int64_t)bytes : INT64_MAX; }

/* What a problem is to a kernel. */
typedef struct view {
  int64_t seq_q, seq_kv;
  double used_keys;               /* that some row attends */
  double heads, q_tiles, visited; /* (head, tile of queries) pairs; tiles of scores of a head */
  double out_rows;
} view;

static int64_t mean(int64_t total, int64_t batch, int64_t longest) {
  return batch ? size_min(longest, size_ceil_div(total, batch)) : longest;
}

void gpu_lengths(const attn_problem *p, int64_t *seq_q, int64_t *seq_kv) {
  *seq_q = p->varlen ? mean(p->total_q, p->batch, p->seq_q) : p->seq_q;
  *seq_kv = p->varlen && !p->page_size ? mean(p->total_kv, p->batch, p->seq_kv) : p->seq_kv;
}

static view view_of(const attn_problem *p, const gpu_kernel *k) {
  view v = { 0 };
  gpu_lengths(p, &v.seq_q, &v.seq_kv);
  int64_t group = p->heads_kv ? p->heads_q / p->heads_kv : 1, rows = k->pack_heads ? group : 1;
  int64_t first, end, ignored;
  problem_key_range(p, 0, v.seq_q, v.seq_kv, &first, &ignored);
  problem_key_range(p, size_max(0, v.seq_q - 1), v.seq_q, v.seq_kv, &ignored, &end);
  v.used_keys = fmax(0, (double)end - (double)first);
  v.heads = (double)p->batch * (double)(k->pack_heads ? p->heads_kv : p->heads_q);
  v.q_tiles = ceil((double)v.seq_q * (double)rows / (double)k->tile_q);
  double query_tiles = (double)size_ceil_div(v.seq_q, size_max(1, k->tile_q / rows));
  double tiles = gpu_tiles(p, v.seq_q, v.seq_kv, k->tile_q, k->tile_k, rows);
  v.visited = query_tiles > 0 ? tiles * v.q_tiles / query_tiles : 0; // groups that fill no tile
  v.out_rows = (double)p->batch * (double)p->heads_q * (double)v.seq_q;
  return v;
}

/* K and V come from memory once while a head's keys stay in half of the L2 cache; else once for
 * every wave of its query tiles. */
static double kv_bytes(const backend_query *query, const view *v) {
  const attn_problem *p = query->problem;
  double heads = (double)p->batch * (double)p->heads_kv, units = query->capability->compute_units;
  if (!(heads > 0) || v->seq_kv == 0) return 0;
  double used = v->used_keys / (double)v->seq_kv;
  double bytes = used * (double)(query->size->k_bytes + query->size->v_bytes);
  if (bytes / heads <= (double)query->capability->l2_bytes / 2 || !(units > 0)) return bytes;
  return bytes * fmax(1, ceil(v->heads / heads * v->q_tiles / units));
}

/* A mask shared by heads or sequences is read again for each, unless it stays in half of the L2. */
static double mask_bytes(const backend_query *query) {
  const attn_problem *p = query->problem;
  double bytes = (double)query->size->mask_bytes;
  if (bytes <= (double)query->capability->l2_bytes / 2) return bytes;
  return bytes * (p->mask_dims[0] == 1 ? (double)p->batch : 1) *
         (p->mask_dims[1] == 1 ? (double)p->heads_q : 1);
}

void gpu_estimate(const backend_query *query, const gpu_kernel *k, backend_cost *cost) {
  const attn_problem *p = query->problem;
  const attn_problem_size *size = query->size;
  view v = view_of(p, k);
  double items = v.heads * v.q_tiles;
  double slots = (double)query->capability->compute_units * k->slots_per_unit;
  int64_t key_blocks = size_ceil_div((int64_t)v.used_keys, k->tile_k);
  bool split = slots > 0 && k->max_splits > 1 && key_blocks >= k->min_split_blocks;
  int splits = split ? gpu_splits(items, slots, key_blocks, k->max_splits) : 1;
  double written = k->converts_output ? v.out_rows * (double)p->head_dim_v * 2 : 0;
  double lse = 4 * v.out_rows; // every one of these kernels writes it
  double partials = splits > 1 ? v.out_rows * splits * (double)(k->dim_v + 1) * 4 : 0;
  double pair = 2 * (double)(k->dim + k->dim_v);
  *cost = (backend_cost){
    .flops = pair * (double)k->tile_q * (double)k->tile_k * v.visited * v.heads,
    .bytes = (double)size->q_bytes + (written > 0 ? written : (double)size->out_bytes) + lse +
             mask_bytes(query) + kv_bytes(query, &v) + partials,
    .pass_bytes = partials + (written > 0 ? written + (double)size->out_bytes : 0),
    .bandwidth_efficiency = GPU_BANDWIDTH_FUSED,
    .efficiency = k->efficiency,
    .compute = gpu_is_fp8(p->dtype) ? ATTN_F8E4M3 : p->dtype,
    .launches = 1 + (splits > 1) + (written > 0),
    .items = items * splits,
    .item_seconds = GPU_ITEM_SECONDS,
    .workspace_bytes = gpu_bytes((p->return_lse ? 0 : lse) + partials + written),
    .splits = splits,
  };
}

static int64_t flash_dim(int64_t d) {
  static const int64_t sizes[] = { 32, 64, 96, 128, 192, 256 };
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
    if (d <= sizes[i]) return sizes[i];
  return d;
}

gpu_kernel gpu_flash_kernel(const backend_query *q) {
  const attn_problem *p = q->problem;
  const attn_capability *c = q->capability;
  bool small =
      c->compute_major == 8 && c->compute_minor > 0; // 8.6, 8.7, 8.9: 100 KB of shared memory
  bool causal = p->causal != ATTN_CAUSAL_NONE, dropout = p->dropout > 0;
  gpu_kernel k = { .tile_q = 128, .tile_k = 64, .max_splits = 1, .slots_per_unit = 1 };
  k.dim = flash_dim(p->head_dim), k.dim_v = flash_dim(p->head_dim_v);
  if (k.dim <= 64)
    k.tile_k = dropout && k.dim == 64 ? 64 : 128;
  else if (k.dim <= 96)
    k.tile_q = small && causal ? 64 : 128;
  else if (k.dim == 128 && (small || dropout)) {
    if (small && causal && !dropout)
      k.tile_q = 64;
    else
      k.tile_k = 32;
  } else if (k.dim == 192 && dropout)
    k.tile_q = 64;
  else if (k.dim > 192) { // 128 x 64 where a block has 128 KB, but two do not fit
    bool one = c->shared_memory_bytes >= 128 << 10 && c->shared_memory_bytes < 192 << 10;
    k.tile_q = one ? 128 : 64;
  }
  return k;
}
