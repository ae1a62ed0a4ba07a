// SPDX-License-Identifier: Apache-2.0
/* Getting at rows: strides, pages, dtypes and scales in, f32 rows out; and back for the output. */
#include "engine/internal.h"

#include <math.h>
#include <string.h>

/* Bytes from the start to element `offset` of a (possibly blocked) type. */
static int64_t byte_offset(const dtype_info *type, int64_t offset) {
  return offset / type->block * type->block_bytes;
}

static void convert_row(const engine_call *call, attn_dtype dtype, const char *src, int64_t col,
                        int64_t dim, float *dst) {
  const dtype_info *type = dtype_get(dtype);
  bool vectors = dtype == ATTN_F32 || dtype == ATTN_F16 || dtype == ATTN_BF16;
  if (col == 1 && vectors) {
    call->kernels->widen(dtype, src, dst, dim);
    return;
  }
  if (col == 1) {
    type->to_f32(src, dst, dim);
    return;
  }
  for (int64_t c = 0; c < dim; c++) type->to_f32(src + c * col * type->block_bytes, dst + c, 1);
}

/* A row as stored, followed by a zero where its length is odd. */
static void copy_row(engine_row source, int64_t dim, uint16_t *dst) {
  const uint16_t *src = (const uint16_t *)(const void *)source.data;
  for (int64_t c = 0; c < dim; c++) dst[c] = src[c * source.col];
  if (dim % 2) dst[dim] = 0;
}

static float scale_of(const attn_problem *p, const float *scales, int64_t token, int64_t head) {
  if (!scales) return 1.0f;
  if (p->kv_dtype == ATTN_INT8) return scales[token * p->heads_kv + head];
  return scales[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? head : 0];
}

/* Element offset of a sequence's own key j, counted after the prefix, and its token's number. */
static int64_t own_offset(const engine_side *side, const attn_problem *p, const attn_io *io,
                          const engine_sequence *s, int64_t head, int64_t j, int64_t *token) {
  const attn_strides *st = &side->strides;
  if (p->page_size) {
    int64_t page = io->block_table[s->index * p->pages_per_seq + j / p->page_size];
    *token = page * p->page_size + j % p->page_size;
    return page * st->batch + head * st->head + j % p->page_size * st->row;
  }
  if (p->varlen) {
    *token = s->first_kv + j;
    return head * st->head + (s->first_kv + j) * st->row;
  }
  *token = s->index * problem_own_keys(p, p->seq_kv) + j;
  return s->index * st->batch + head * st->head + j * st->row;
}

engine_row engine_row_at(const engine_side *side, const engine_call *call, const engine_sequence *s,
                         int64_t head, int64_t j) {
  const attn_problem *p = call->problem;
  int64_t token;
  if (j < p->prefix) {
    int64_t offset = (head * p->prefix + j) * side->dim;
    return (engine_row){ side->prefix + byte_offset(side->type, offset), 1,
                         scale_of(p, side->prefix_scales, j, head) };
  }
  int64_t offset = own_offset(side, p, call->io, s, head, j - p->prefix, &token);
  return (engine_row){ side->data + byte_offset(side->type, offset), side->strides.col,
                       scale_of(p, side->scales, token, head) };
}

/* Rows that lie one stride apart: all in the prefix, or all after it and in one page. */
static bool in_one_piece(const attn_problem *p, int64_t first, int count) {
  int64_t last = first + count - 1;
  if (first < p->prefix) return last < p->prefix;
  if (!p->page_size) return true;
  return (first - p->prefix) / p->page_size == (last - p->prefix) / p->page_size;
}

engine_block engine_rows(const engine_side *side, const engine_call *call, const engine_sequence *s,
                         int64_t head, int64_t first, int count, float *buffer) {
  if (side->direct && in_one_piece(call->problem, first, count)) {
    const void *rows = engine_row_at(side, call, s, head, first).data;
    int64_t ld = first < call->problem->prefix ? side->dim : side->strides.row;
    return (engine_block){ rows, ld, side->dtype, 0, 0 };
  }
  if (call->tiles.pairs) {
    int64_t ld = side->dim + side->dim % 2;
    uint16_t *rows = (uint16_t *)(void *)buffer;
    for (int j = 0; j < count; j++)
      copy_row(engine_row_at(side, call, s, head, first + j), side->dim, rows + j * ld);
    return (engine_block){ rows, ld, ATTN_BF16, 0, 0 };
  }
  for (int j = 0; j < count; j++) {
    float *row = buffer + j * side->dim;
    engine_row source = engine_row_at(side, call, s, head, first + j);
    convert_row(call, side->dtype, source.data, source.col, side->dim, row);
    if (source.scale != 1.0f)
      for (int64_t c = 0; c < side->dim; c++) row[c] *= source.scale;
  }
  return (engine_block){ buffer, side->dim, ATTN_F32, 0, 0 };
}

engine_block engine_pack(const engine_call *call, engine_block v, int count, void *packed) {
  call->kernels->pairs->pack_values(v.rows, v.ld, count, call->problem->head_dim_v, packed);
  return (engine_block){ .rows = packed, .type = ATTN_BF16, .packed = count };
}

int64_t engine_query_offset(const engine_call *call, const engine_sequence *s,
                            const attn_strides *st, int64_t head, int64_t i) {
  return (call->problem->varlen ? 0 : s->index * st->batch) + head * st->head +
         (s->first_q + i) * st->row;
}

int64_t engine_lse_index(const engine_call *call, const engine_sequence *s, int64_t head, int64_t i) {
  const attn_problem *p = call->problem;
  if (p->varlen) return head * p->total_q + s->first_q + i;
  return (s->index * p->heads_q + head) * p->seq_q + i;
}

static void fill_lanes(const engine_call *call, const engine_sequence *s, int64_t head, int64_t row,
                       engine_tile *tile) {
  const attn_problem *p = call->problem;
  int64_t i = row / call->group, g = row % call->group;
  tile->any_low = tile->all_high = INT64_MAX;
  tile->any_high = tile->all_low = 0;
  int64_t low = 0, high = 0, of = -1;
  for (int lane = 0; lane < tile->used; lane++) {
    if (i != of) problem_key_range(p, of = i, s->seq_q, s->seq_kv, &low, &high);
    tile->head[lane] = head * call->group + g;
    tile->query[lane] = i;
    tile->low[lane] = low, tile->high[lane] = high;
    if (low < high) {
      if (low < tile->any_low) tile->any_low = low;
      if (high > tile->any_high) tile->any_high = high;
    }
    if (low > tile->all_low) tile->all_low = low;
    if (high < tile->all_high) tile->all_high = high;
    if (++g == call->group) g = 0, i++;
  }
  for (int lane = tile->used; lane < call->lanes; lane++) tile->low[lane] = tile->high[lane] = 0;
}

/* Query rows as they are, scaled, zero-padded. */
static void load_narrow(const engine_call *call, const float *const *rows, engine_tile *tile) {
  int64_t dim = call->problem->head_dim, ld = engine_narrow_ld(dim);
  for (int r = 0; r < tile->used; r++) {
    float *dst = tile->qt + r * ld;
    for (int64_t c = 0; c < dim; c++) dst[c] = call->query_scale * rows[r][c];
    for (int64_t c = dim; c < ld; c++) dst[c] = 0;
  }
}

/* Reads a line at a time what transposing would wait for line by line: it takes one of each row in turn,
 * so memory never streams. Loads, as hints did not start the stream (docs/performance.md). */
static void fetch_rows(const void *const *rows, int count, int64_t bytes) {
  for (int i = 0; i < count; i++)
    for (int64_t b = 0; b < bytes; b += KERNEL_ALIGN) (void)((volatile const char *)rows[i])[b];
}

void engine_tile_load(const engine_call *call, const engine_sequence *s, int64_t head, int64_t row,
                      int64_t row_end, const engine_scratch *scratch, engine_tile *tile) {
  const attn_problem *p = call->problem;
  const void *rows[KERNEL_MAX_LANES] = { 0 };
  tile->used = (int)(row_end - row < call->lanes ? row_end - row : call->lanes);
  tile->diagonal = problem_diagonal(p, s->seq_q, s->seq_kv);
  fill_lanes(call, s, head, row, tile);
  for (int lane = 0; lane < tile->used; lane++) {
    int64_t offset = engine_query_offset(call, s, &p->q_strides, tile->head[lane], tile->query[lane]);
    engine_row source = { (const char *)call->io->q + byte_offset(call->q_type, offset),
                          p->q_strides.col, 1 };
    float *dst = scratch->rows + lane * p->head_dim;
    rows[lane] = call->q_direct ? (const void *)source.data : dst;
    if (call->q_direct) continue;
    if (call->tiles.pairs) {
      copy_row(source, p->head_dim, (uint16_t *)(void *)dst);
      continue;
    }
    convert_row(call, p->dtype, source.data, source.col, p->head_dim, dst);
    if (problem_fp8_scale(p, p->dtype)) {
      float scale = call->io->q_scale[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? tile->head[lane] : 0];
      for (int64_t c = 0; c < p->head_dim; c++) dst[c] *= scale;
    }
  }
  if (call->far && call->q_direct)
    fetch_rows(rows, tile->used, p->head_dim * call->q_type->block_bytes);
  if (p->alibi)
    for (int lane = 0; lane < call->lanes; lane++)
      tile->slope[lane] =
          lane < tile->used
              ? call->io->alibi_slopes[s->index * p->alibi_batch_stride + tile->head[lane]]
              : 0;
  for (int lane = 0; lane < call->lanes; lane++) tile->max[lane] = -INFINITY, tile->sum[lane] = 0;
  memset(tile->ot, 0, (size_t)engine_tile_floats(call) * sizeof(float));
  if (call->tiles.narrow)
    load_narrow(call, (const float *const *)rows, tile);
  else if (call->tiles.pairs)
    call->kernels->pairs->load_queries((const uint16_t *const *)rows, call->tiles.vectors,
                                       p->head_dim, (uint32_t *)(void *)tile->qt);
  else
    call->kernels->load_queries((const float *const *)rows, call->tiles.vectors, p->head_dim,
                                call->query_scale, tile->qt);
}

void engine_tile_values(const engine_call *call, engine_tile *tile, engine_block v, int count,
                        const float *p, const uint32_t *alive, const float *alpha) {
  const kernel_table *kernels = call->kernels;
  int64_t dim = call->problem->head_dim_v;
  if (call->tiles.narrow)
    kernels->narrow_values(v.type, v.rows, v.ld, count, p, alive, tile->used, dim, call->lanes, alpha,
                           tile->ot, engine_narrow_ld(dim));
  else if (call->tiles.pairs) {
    const uint32_t *w = (const uint32_t *)(const void *)p;
    if (alive)
      kernels->pairs->values_masked(v.rows, v.packed, v.first, count, w, alive, dim,
                                    call->tiles.vectors, alpha, tile->ot);
    else
      kernels->pairs->values(v.rows, v.packed, v.first, count, w, dim, call->tiles.vectors, alpha,
                             tile->ot);
  } else if (alive)
    kernels->values_masked(v.rows, v.ld, count, p, alive, dim, call->tiles.vectors, alpha, tile->ot);
  else
    kernels->values(v.rows, v.ld, count, p, dim, call->tiles.vectors, alpha, tile->ot);
}

void engine_tile_rows(const engine_call *call, const engine_tile *tile, const float *factor,
                      float *const *rows) {
  int64_t dim = call->problem->head_dim_v, ld = engine_narrow_ld(dim);
  if (!call->tiles.narrow) {
    call->kernels->store_rows(tile->ot, dim, call->tiles.vectors, factor, rows);
    return;
  }
  for (int r = 0; r < tile->used; r++)
    for (int64_t c = 0; rows[r] && c < dim; c++) rows[r][c] = factor[r] * tile->ot[r * ld + c];
}

/* A sink is one more logit without a value: it joins the maximum and the sum. */
static void add_sink(const engine_call *call, const engine_tile *tile, int lane, double *max,
                     double *sum) {
  if (!call->problem->sinks) return;
  double sink = (double)call->io->sinks[tile->head[lane]];
  if (sink == -INFINITY) return;
  double top = *sum > 0 && *max > sink ? *max : sink;
  *sum = (*sum > 0 ? *sum * exp(*max - top) : *sum) + exp(sink - top);
  *max = top;
}

double engine_tile_factor(const engine_call *call, const engine_tile *tile, int lane, double *lse) {
  const attn_problem *p = call->problem;
  double unit = call->natural ? 1.0 : 0x1.62e42fefa39efp-1; // ln 2
  double own = (double)tile->max[lane] * unit, max = own, sum = (double)tile->sum[lane];
  bool empty = sum == 0;
  if (p->sinks) add_sink(call, tile, lane, &max, &sum);
  if (lse) *lse = sum == 0 ? -INFINITY : max + log(sum);
  if (empty) return 0;
  return (p->sinks ? exp(own - max) : 1.0) / sum; // the tile's weights are relative to its own maximum
}

void engine_tile_finish(const engine_call *call, const engine_sequence *s, engine_tile *tile,
                        const engine_scratch *scratch) {
  const attn_problem *p = call->problem;
  _Alignas(KERNEL_ALIGN) float factor[KERNEL_MAX_LANES] = { 0 };
  float *rows[KERNEL_MAX_LANES] = { 0 };
  for (int lane = 0; lane < tile->used; lane++) {
    double lse, f = engine_tile_factor(call, tile, lane, p->return_lse ? &lse : NULL);
    factor[lane] = (float)(f / (1.0 - (double)p->dropout));
    if (p->return_lse)
      call->io->lse[engine_lse_index(call, s, tile->head[lane], tile->query[lane])] = (float)lse;
    int64_t offset = engine_query_offset(call, s, &p->out_strides, tile->head[lane], tile->query[lane]);
    rows[lane] = call->out_direct ? (float *)call->io->out + offset
                                  : scratch->rows + lane * p->head_dim_v;
  }
  engine_tile_rows(call, tile, factor, rows);
  for (int lane = 0; lane < tile->used; lane++) {
    if (tile->sum[lane] == 0) memset(rows[lane], 0, (size_t)p->head_dim_v * sizeof(float));
    if (call->out_direct) continue;
    int64_t offset = engine_query_offset(call, s, &p->out_strides, tile->head[lane], tile->query[lane]);
    int64_t bytes = call->out_type->block_bytes, col = p->out_strides.col;
    char *dst = (char *)call->io->out + offset * bytes;
    bool vectors = p->out_dtype == ATTN_F16 || p->out_dtype == ATTN_BF16;
    if (col == 1 && vectors) call->kernels->narrow(p->out_dtype, rows[lane], dst, p->head_dim_v);
    else if (col == 1) call->out_type->from_f32(rows[lane], dst, p->head_dim_v);
    else
      for (int64_t c = 0; c < p->head_dim_v; c++)
        call->out_type->from_f32(rows[lane] + c, dst + c * col * bytes, 1);
  }
}
