// SPDX-License-Identifier: Apache-2.0
/* Shared by the engine's files, and by math, which walks the same tiles in three passes. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/engine.h"

/* A worker's scratch memory. */
typedef struct engine_scratch {
  float *p;        /* [keys][lanes] */
  uint32_t *alive; /* [keys][lanes] */
  float *bias;     /* [lanes][keys] */
  float *k, *v;    /* [keys][dim]: converted or gathered rows; unused when direct */
  float *rows;     /* [lanes][max(dim, dim_v)]: converted query or output rows */
  float *qt, *ot;  /* [tiles][dim][lanes] */
  struct engine_tile *tiles;
} engine_scratch;

/* One tile of query rows: where each lane's row is and which keys structure leaves it. Lanes past
 * `used` are padding: zero queries that attend nothing. */
typedef struct engine_tile {
  _Alignas(KERNEL_ALIGN) float max[KERNEL_MAX_LANES];
  _Alignas(KERNEL_ALIGN) float sum[KERNEL_MAX_LANES];
  _Alignas(KERNEL_ALIGN) float slope[KERNEL_MAX_LANES];
  int64_t head[KERNEL_MAX_LANES], query[KERNEL_MAX_LANES];
  int64_t low[KERNEL_MAX_LANES], high[KERNEL_MAX_LANES]; /* keys [low, high) */
  int64_t any_low, any_high; /* some lane attends only inside */
  int64_t all_low, all_high; /* every lane attends inside */
  int64_t diagonal;
  int used;
  float *qt, *ot;
} engine_tile;

engine_scratch engine_scratch_get(const engine_call *call, void *memory);

/* Fills the tile's lanes with rows from `row` on, at most to row_end, and loads its queries. */
void engine_tile_load(const engine_call *call, const engine_sequence *s, int64_t head, int64_t row,
                      int64_t row_end, const engine_scratch *scratch, engine_tile *tile);

/* Rows [first, first + count) of K or V for a KV head; *ld receives their distance. */
const float *engine_rows(const engine_side *side, const engine_call *call, const engine_sequence *s,
                         int64_t head, int64_t first, int count, float *buffer, int64_t *ld);

/* The keys of [begin, end) that the tile needs to look at; false if none. */
bool engine_tile_clip(const engine_tile *tile, int64_t *begin, int64_t *end);

/* Masked scores of `count` keys from key `begin` on into p; k points at that key's row. *removed
 * tells whether a key may have been removed for some lane; false if every key was, for all. Maxima go
 * to new_max, which holds the running ones before. */
bool engine_tile_scores(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                        int64_t begin, int count, const float *k, int64_t ldk,
                        const engine_scratch *scratch, float *p, float *new_max, bool *removed);

/* Writes the tile's rows to out and lse, from ot, max and sum. */
void engine_tile_finish(const engine_call *call, const engine_sequence *s, engine_tile *tile,
                        const engine_scratch *scratch);

/* Multiplies the weights of dropped keys by 0 (the 1 / (1 - p) comes at the end). */
void engine_dropout(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                    int64_t begin, int count, float *p);

#endif
