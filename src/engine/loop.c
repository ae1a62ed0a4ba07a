// SPDX-License-Identifier: Apache-2.0
#include "engine/engine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "core/size.h"
#include "engine/internal.h"

enum { FAR_ELEMENTS = 1 << 18 }; /* of Q: what an L2 cache holds beside K and V */

static int64_t round_up(int64_t bytes) {
  return (bytes + KERNEL_ALIGN - 1) / KERNEL_ALIGN * KERNEL_ALIGN;
}

bool engine_side_direct(const attn_problem *p, engine_tiles tiles, bool value) {
  bool readable = p->kv_dtype == ATTN_F32 ||
                  (tiles.narrow && (p->kv_dtype == ATTN_F16 || p->kv_dtype == ATTN_BF16)) ||
                  (tiles.pairs && (value || p->head_dim % 2 == 0));
  return readable && (value ? p->v_strides.col : p->k_strides.col) == 1;
}

static bool query_direct(const attn_problem *p, engine_tiles tiles) {
  return (p->dtype == ATTN_F32 || tiles.pairs) && p->q_strides.col == 1;
}

static bool out_direct(const attn_problem *p) {
  return p->out_dtype == ATTN_F32 && p->out_strides.col == 1;
}

/* Walks the layout of a worker's scratch; with memory NULL only measures. */
static int64_t lay_out(const attn_problem *p, int lanes, engine_tiles tiles,
                       const kernel_pairs *pairs, char *memory, engine_scratch *out) {
  int64_t at = 0, f = (int64_t)sizeof(float), block = (int64_t)tiles.keys * lanes * f;
  bool gathered = p->page_size || p->prefix; // a block of keys may lie in several pieces
  bool buffered_k = !engine_side_direct(p, tiles, false) || gathered;
  bool buffered_v = !engine_side_direct(p, tiles, true) || gathered;
  bool buffered_rows = !query_direct(p, tiles) || !out_direct(p);
  engine_scratch s;
#define PLACE(field, type, bytes)                                                                  \
  do {                                                                                             \
    s.field = memory ? (type)(memory + at) : NULL;                                                 \
    at += round_up(bytes);                                                                         \
  } while (0)
  PLACE(tiles, engine_tile *, tiles.tiles * (int64_t)sizeof(engine_tile));
  PLACE(p, float *, block);
  PLACE(alive, uint32_t *, block);
  PLACE(bias, float *, p->mask != ATTN_MASK_NONE ? block : 0);
  PLACE(k, float *, buffered_k ? tiles.keys * p->head_dim * f : 0);
  PLACE(v, float *, buffered_v ? tiles.keys * p->head_dim_v * f : 0);
  PLACE(packed, void *, tiles.pairs ? pairs->pack_bytes(tiles.keys, p->head_dim_v) : 0);
  PLACE(rows, float *, buffered_rows ? lanes * size_max(p->head_dim, p->head_dim_v) * f : 0);
  int64_t q_floats = p->head_dim * lanes, o_floats = p->head_dim_v * lanes;
  if (tiles.narrow) {
    q_floats = KERNEL_NARROW_ROWS * engine_narrow_ld(p->head_dim);
    o_floats = KERNEL_NARROW_ROWS * engine_narrow_ld(p->head_dim_v);
  }
  PLACE(qt, float *, tiles.tiles * q_floats * f);
  PLACE(ot, float *, tiles.tiles * o_floats * f);
#undef PLACE
  if (out) *out = s;
  return at;
}

size_t engine_scratch_bytes(const attn_problem *problem, const kernel_table *kernels,
                            engine_tiles tiles) {
  return (size_t)lay_out(problem, tiles.vectors * kernels->width, tiles, kernels->pairs, NULL,
                         NULL);
}

engine_scratch engine_scratch_get(const engine_call *call, void *memory) {
  const attn_problem *p = call->problem;
  engine_scratch s;
  lay_out(p, call->lanes, call->tiles, call->kernels->pairs, memory, &s);
  for (int t = 0; t < call->tiles.tiles; t++) { // narrow calls have one tile
    s.tiles[t].qt = s.qt + t * p->head_dim * call->lanes;
    s.tiles[t].ot = s.ot + t * engine_tile_floats(call);
  }
  return s;
}

static engine_side side_get(const attn_problem *p, const attn_io *io, bool value,
                            engine_tiles tiles) {
  const attn_strides *strides = value ? &p->v_strides : &p->k_strides;
  bool int8 = p->kv_dtype == ATTN_INT8, scaled = problem_fp8_scale(p, p->kv_dtype) || int8;
  const float *scales = !scaled ? NULL : value ? io->v_scale : io->k_scale;
  return (engine_side){ .data = value ? io->v : io->k,
                        .prefix = value ? io->v_prefix : io->k_prefix,
                        .prefix_scales = !int8 ? scales : value ? io->v_prefix_scale : io->k_prefix_scale,
                        .type = dtype_get(p->kv_dtype),
                        .strides = *strides,
                        .dim = value ? p->head_dim_v : p->head_dim,
                        .dtype = p->kv_dtype,
                        .direct = engine_side_direct(p, tiles, value) && !scaled,
                        .scales = scales };
}

void engine_call_init(engine_call *call, const backend_plan *plan, engine_tiles tiles,
                      const attn_io *io) {
  const attn_problem *p = &plan->problem;
  bool natural =
      p->softcap > 0 || p->alibi || p->score_mod || p->weights || p->mask == ATTN_MASK_ADDITIVE;
  *call = (engine_call){
    .problem = p,
    .io = io,
    .kernels = plan->kernels,
    .tiles = tiles,
    .lanes = tiles.vectors * plan->kernels->width,
    .group = p->heads_q / p->heads_kv,
    .natural = natural,
    .masks = p->causal || p->window || p->mask || p->kv_lengths || p->score_mod,
    .query_scale = natural ? p->scale : p->scale * 0x1.715476p+0f, // log2(e)
    .q_type = dtype_get(p->dtype),
    .out_type = dtype_get(p->out_dtype),
    .mask_type = dtype_get(p->mask_dtype),
    .q_direct = query_direct(p, tiles),
    .out_direct = out_direct(p),
    .far = (double)p->batch * (double)p->heads_q * (double)p->seq_q * (double)p->head_dim > FAR_ELEMENTS,
    .k = side_get(p, io, false, tiles),
    .v = side_get(p, io, true, tiles),
  };
}

engine_sequence engine_sequence_get(const engine_call *call, int64_t index) {
  const attn_problem *p = call->problem;
  const attn_io *io = call->io;
  engine_sequence s = { .index = index, .seq_q = p->seq_q, .seq_kv = p->seq_kv };
  if (p->varlen) {
    s.first_q = io->cu_seqlens_q[index];
    s.seq_q = io->cu_seqlens_q[index + 1] - s.first_q;
    if (!p->page_size) {
      s.first_kv = io->cu_seqlens_kv[index];
      s.seq_kv = p->prefix + io->cu_seqlens_kv[index + 1] - s.first_kv;
    }
  }
  if (p->kv_lengths) s.seq_kv = io->kv_len[index];
  return s;
}

/* One block of keys, the first being key `block`, for one tile: scores, softmax, values. */
static void tile_block(const engine_call *call, const engine_item *item, engine_tile *tile,
                       int64_t block, engine_block k, engine_block v, int64_t end, bool careful,
                       const engine_scratch *scratch) {
  const kernel_table *kernels = call->kernels;
  int vectors = call->tiles.vectors;
  int64_t begin = block;
  bool removed;
  _Alignas(KERNEL_ALIGN) float new_max[KERNEL_MAX_LANES], alpha[KERNEL_MAX_LANES];
  if (!engine_tile_clip(tile, &begin, &end)) return;
  if (call->tiles.pairs) begin -= (begin - block) % 2; // a key before the range is removed for all
  int count = (int)(end - begin);
  memcpy(new_max, tile->max, sizeof(new_max));
  if (!engine_tile_scores(call, &item->sequence, tile, begin, count,
                          engine_block_from(k, begin - block), scratch, scratch->p, new_max,
                          &removed))
    return;
  careful = careful && removed;
  if (careful) kernels->alive(scratch->p, count, vectors, scratch->alive);
  kernels->softmax(scratch->p, count, vectors, tile->max, new_max, alpha, tile->sum, call->natural);
  memcpy(tile->max, new_max, sizeof(new_max));
  if (call->problem->dropout > 0)
    engine_dropout(call, &item->sequence, tile, begin, count, scratch->p);
  if (call->tiles.pairs) // in place
    kernels->pairs->pack_weights(scratch->p, count, vectors, (uint32_t *)(void *)scratch->p);
  engine_tile_values(call, tile, engine_block_from(v, begin - block), count, scratch->p,
                     careful ? scratch->alive : NULL, alpha);
}

/* All blocks of keys that any row of the item attends, each for every tile while it is in cache. */
static void run_blocks(const engine_call *call, const engine_item *item, int tiles, bool careful,
                       const engine_scratch *scratch) {
  int64_t low = INT64_MAX, high = 0, keys = call->tiles.keys;
  for (int t = 0; t < tiles; t++) {
    low = size_min(low, scratch->tiles[t].any_low);
    high = size_max(high, scratch->tiles[t].any_high);
  }
  low = size_max(low, item->key_begin);
  high = size_min(high, item->key_end);
  if (call->tiles.pairs) low -= low % 2; // pairs of keys are the same whatever rows share the item
  while (low < high) {
    int64_t next = size_min(high, low / keys * keys + keys);
    int count = (int)(next - low);
    engine_block k =
        engine_rows(&call->k, call, &item->sequence, item->head, low, count, scratch->k);
    engine_block v =
        engine_rows(&call->v, call, &item->sequence, item->head, low, count, scratch->v);
    if (call->tiles.pairs) v = engine_pack(call, v, count, scratch->packed);
    for (int t = 0; t < tiles; t++)
      tile_block(call, item, &scratch->tiles[t], low, k, v, next, careful, scratch);
    low = next;
  }
}

bool engine_tile_nonfinite(const engine_call *call, const engine_tile *tile) {
  return call->kernels->nonfinite(tile->ot, engine_tile_floats(call));
}

static bool any_nonfinite(const engine_call *call, int tiles, const engine_scratch *scratch) {
  for (int t = 0; t < tiles; t++)
    if (engine_tile_nonfinite(call, &scratch->tiles[t])) return true;
  return false;
}

static int load_tiles(const engine_call *call, const engine_item *item,
                      const engine_scratch *scratch) {
  int tiles = 0;
  for (int64_t row = item->row_begin; row < item->row_end; row += call->lanes)
    engine_tile_load(call, &item->sequence, item->head, row, item->row_end, scratch,
                     &scratch->tiles[tiles++]);
  return tiles;
}

static void store_partial(const engine_call *call, const engine_item *item, int tiles,
                          const engine_scratch *scratch) {
  int64_t dim = call->problem->head_dim_v;
  _Alignas(KERNEL_ALIGN) float one[KERNEL_MAX_LANES];
  for (int lane = 0; lane < call->lanes; lane++) one[lane] = 1.0f;
  for (int t = 0; t < tiles; t++) {
    engine_tile *tile = &scratch->tiles[t];
    float *rows[KERNEL_MAX_LANES] = { 0 };
    for (int lane = 0; lane < tile->used; lane++) {
      rows[lane] = item->partial + ((int64_t)t * call->lanes + lane) * item->partial_stride;
      rows[lane][dim] = tile->max[lane];
      rows[lane][dim + 1] = tile->sum[lane];
    }
    engine_tile_rows(call, tile, one, rows);
  }
}

void engine_run_item(const engine_call *call, const engine_item *item, void *memory) {
  engine_scratch scratch = engine_scratch_get(call, memory);
  int tiles = load_tiles(call, item, &scratch);
  run_blocks(call, item, tiles, false, &scratch);
  // Optimistic: the unmasked value kernel first, and again with care where it mattered.
  if (call->masks && any_nonfinite(call, tiles, &scratch)) {
    load_tiles(call, item, &scratch);
    run_blocks(call, item, tiles, true, &scratch);
  }
  if (item->partial) {
    store_partial(call, item, tiles, &scratch);
    return;
  }
  for (int t = 0; t < tiles; t++)
    engine_tile_finish(call, &item->sequence, &scratch.tiles[t], &scratch);
}

/* Weight of a split's sums relative to the merged maximum; exp(-inf) of an empty split is 0. */
static double split_weight(const engine_call *call, float max, float sum, float top) {
  if (sum == 0) return 0;
  double x = (double)max - (double)top;
  return call->natural ? exp(x) : exp2(x);
}

static void merge_row(const engine_call *call, engine_tile *tile, int lane, float weight,
                      const float *part) {
  int64_t dim = call->problem->head_dim_v, step = call->tiles.narrow ? 1 : call->lanes;
  float *o = tile->ot + (call->tiles.narrow ? lane * engine_narrow_ld(dim) : lane);
  for (int64_t c = 0; c < dim; c++) o[c * step] += weight * part[c];
}

void engine_merge_item(const engine_call *call, const engine_item *item, int splits,
                       int64_t split_stride, void *memory) {
  engine_scratch scratch = engine_scratch_get(call, memory);
  int64_t dim = call->problem->head_dim_v, lanes = call->lanes;
  int tiles = load_tiles(call, item, &scratch);
  for (int t = 0; t < tiles; t++) {
    engine_tile *tile = &scratch.tiles[t];
    for (int lane = 0; lane < tile->used; lane++) {
      const float *row = item->partial + (t * lanes + lane) * item->partial_stride;
      float top = -INFINITY;
      for (int s = 0; s < splits; s++) top = fmaxf(top, row[s * split_stride + dim]);
      double sum = 0;
      for (int s = 0; s < splits; s++) {
        const float *part = row + s * split_stride;
        double w = split_weight(call, part[dim], part[dim + 1], top);
        if (part[dim + 1] == 0) continue; // an empty split has no values to weigh
        sum += w * (double)part[dim + 1];
        merge_row(call, tile, lane, (float)w, part);
      }
      tile->max[lane] = top;
      tile->sum[lane] = (float)sum;
    }
    engine_tile_finish(call, &item->sequence, tile, &scratch);
  }
}

typedef struct shared_work {
  atomic_llong next;
  int64_t count;
  char *scratch;
  size_t scratch_bytes;
  void (*item)(void *context, int64_t i, void *scratch);
  void *context;
} shared_work;

static void drain(void *arg, int worker) {
  shared_work *work = arg;
  void *scratch = work->scratch + (size_t)worker * work->scratch_bytes;
  for (;;) {
    int64_t i = atomic_fetch_add_explicit(&work->next, 1, memory_order_relaxed);
    if (i >= work->count) return;
    work->item(work->context, i, scratch);
  }
}

void engine_for_each(const backend_parallel *parallel, int workers, int64_t count, char *scratch,
                     size_t scratch_bytes, void (*item)(void *context, int64_t i, void *scratch),
                     void *context) {
  if (workers > count) workers = (int)count;
  if (workers <= 1) {
    for (int64_t i = 0; i < count; i++) item(context, i, scratch);
    return;
  }
  shared_work work = { .count = count,
                       .scratch = scratch,
                       .scratch_bytes = scratch_bytes,
                       .item = item,
                       .context = context };
  atomic_init(&work.next, 0);
  parallel->run(parallel->user, workers, drain, &work);
}
