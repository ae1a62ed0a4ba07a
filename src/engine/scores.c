// SPDX-License-Identifier: Apache-2.0
/* Scores of one tile against one block of keys, with everything that may change or remove them. */
#include "engine/internal.h"

#include <math.h>
#include <string.h>

#include "core/philox.h"
#include "core/size.h"

bool engine_tile_clip(const engine_tile *tile, int64_t *begin, int64_t *end) {
  *begin = size_max(*begin, tile->any_low);
  *end = size_min(*end, tile->any_high);
  return *begin < *end;
}

int64_t engine_mask_offset(const engine_call *call, const engine_sequence *s, int64_t head,
                           int64_t query) {
  const int64_t *st = call->problem->mask_strides;
  return s->index * st[0] + head * st[1] + query * st[2];
}

static int64_t mask_offset(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                           int lane) {
  return engine_mask_offset(call, s, tile->head[lane], tile->query[lane]);
}

bool engine_mask_row(const engine_call *call, int64_t offset, int64_t begin, int count, float *dst) {
  const attn_problem *p = call->problem;
  int64_t stride = p->mask_strides[3], columns = p->mask_dims[3];
  int have = count;
  if (columns > 1 || p->seq_kv <= 1) // a single column is broadcast, not short
    have = (int)size_max(0, size_min(count, columns - begin));
  bool any = false;
  if (p->mask == ATTN_MASK_BOOL) {
    const uint8_t *m = (const uint8_t *)call->io->mask + offset + begin * stride;
    uint8_t seen = 0;
    if (stride == 1) // apart, so that it becomes vectors
      for (int j = 0; j < have; j++) seen |= m[j], dst[j] = m[j] ? 0.0f : -INFINITY;
    else
      for (int j = 0; j < have; j++) seen |= m[j * stride], dst[j] = m[j * stride] ? 0.0f : -INFINITY;
    any = seen != 0;
  } else {
    const dtype_info *type = call->mask_type;
    const char *m = (const char *)call->io->mask + (offset + begin * stride) * type->block_bytes;
    if (stride == 1) type->to_f32(m, dst, have);
    else
      for (int j = 0; j < have; j++) type->to_f32(m + j * stride * type->block_bytes, dst + j, 1);
    for (int j = 0; j < have; j++) any |= dst[j] != -INFINITY;
  }
  for (int j = have; j < count; j++) dst[j] = -INFINITY;
  return any;
}

/* Fills scratch->bias for the tile. *ld is 0 when all rows are the same. False if no key is left. */
static bool load_bias(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                      int64_t begin, int count, const engine_scratch *scratch, int64_t *ld) {
  int64_t first = mask_offset(call, s, tile, 0);
  bool same = true, any = false;
  for (int lane = 1; lane < tile->used && same; lane++)
    same = mask_offset(call, s, tile, lane) == first;
  *ld = same ? 0 : call->tiles.keys;
  if (same) return engine_mask_row(call, first, begin, count, scratch->bias);
  for (int lane = 0; lane < tile->used; lane++)
    any |= engine_mask_row(call, mask_offset(call, s, tile, lane), begin, count,
                    scratch->bias + lane * *ld);
  for (int lane = tile->used; lane < call->lanes; lane++)
    memset(scratch->bias + lane * *ld, 0, (size_t)count * sizeof(float));
  return any;
}

static int32_t relative(int64_t key, int64_t begin) {
  return (int32_t)size_max(-(1 << 30), size_min(1 << 30, key - begin));
}

bool engine_tile_scores(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                        int64_t begin, int count, engine_block k, const engine_scratch *scratch,
                        float *p, float *new_max, bool *removed) {
  const attn_problem *problem = call->problem;
  const kernel_table *kernels = call->kernels;
  int vectors = call->tiles.vectors;
  bool limited = begin < tile->all_low || begin + count > tile->all_high;
  bool mask = problem->mask != ATTN_MASK_NONE, plain = !limited && !mask && !call->natural;
  int64_t ld = 0;
  *removed = limited || mask;
  if (mask && !load_bias(call, s, tile, begin, count, scratch, &ld)) return false;

  if (call->tiles.narrow)
    kernels->narrow_scores(k.type, k.rows, k.ld, count, tile->qt, engine_narrow_ld(problem->head_dim),
                           tile->used, problem->head_dim, call->lanes, p);
  else if (call->tiles.pairs)
    kernels->pairs->scores(k.rows, k.ld, count, (const uint32_t *)(const void *)tile->qt,
                           problem->head_dim, vectors, call->query_scale, p,
                           plain ? new_max : NULL);
  else
    kernels->scores(k.rows, k.ld, count, tile->qt, problem->head_dim, vectors, p,
                    plain ? new_max : NULL);
  if (plain && !call->tiles.narrow) return true;
  if (problem->softcap > 0) kernels->softcap(p, count, vectors, problem->softcap);
  if (problem->score_mod)
    call->io->score_mod(call->io->score_mod_user, p, call->lanes, s->index, tile->used, tile->head,
                        tile->query, begin, count);
  if (problem->alibi) {
    int32_t position[KERNEL_MAX_LANES] = { 0 };
    for (int lane = 0; lane < tile->used; lane++)
      position[lane] = relative(tile->query[lane] + tile->diagonal, begin);
    kernels->alibi(p, count, vectors, tile->slope, position);
  }
  if (mask) kernels->add_bias(p, count, vectors, scratch->bias, ld);
  if (limited) {
    int32_t low[KERNEL_MAX_LANES], high[KERNEL_MAX_LANES];
    for (int lane = 0; lane < call->lanes; lane++) {
      low[lane] = relative(tile->low[lane], begin);
      high[lane] = relative(tile->high[lane], begin);
    }
    kernels->limit(p, count, vectors, low, high);
  }
  kernels->row_max(p, count, vectors, new_max);
  return true;
}

void engine_dropout(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                    int64_t begin, int count, float *p) {
  const attn_problem *problem = call->problem;
  for (int lane = 0; lane < tile->used; lane++) {
    uint64_t row = (uint64_t)((s->index * problem->heads_q + tile->head[lane]) * problem->seq_q +
                              tile->query[lane]);
    for (int j = 0; j < count; j++)
      if (!philox_keep(call->io->dropout_seed, call->io->dropout_offset, row, (uint64_t)(begin + j),
                       problem->dropout))
        p[(int64_t)j * call->lanes + lane] = 0;
  }
}
