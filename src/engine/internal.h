// SPDX-License-Identifier: Apache-2.0
/* Shared by the engine's files, and by math, which walks the same tiles in three passes. */
#ifndef ENGINE_INTERNAL_H
#define ENGINE_INTERNAL_H

#include "engine/engine.h"

/* Distance of narrow rows: head_dim rounded up so that every row is aligned and zero-padded. */
static inline int64_t engine_narrow_ld(int64_t dim) { return (dim + 15) / 16 * 16; }

/* Consecutive rows of K or V, `ld` elements of `type` (f32, f16 or bf16) apart; or, with `packed`
 * not 0, that many rows of V as kernel_pairs.pack_values left them, from row `first` on. */
typedef struct engine_block {
  const void *rows;
  int64_t ld;
  attn_dtype type;
  int packed, first;
} engine_block;

/* A worker's scratch memory. */
typedef struct engine_scratch {
  float *p;        /* [keys][lanes] */
  uint32_t *alive; /* [keys][lanes] */
  float *bias;     /* [lanes][keys] */
  float *k, *v;    /* [keys][dim]: converted or gathered rows; unused when direct */
  void *packed;    /* a block of V for bf16 arithmetic */
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

/* Whether the kernels read rows of K (or V) in place. Those of bf16 arithmetic want whole pairs of K. */
bool engine_side_direct(const attn_problem *problem, engine_tiles tiles, bool value);

engine_scratch engine_scratch_get(const engine_call *call, void *memory);

/* Fills the tile's lanes with rows from `row` on, at most to row_end, and loads its queries. */
void engine_tile_load(const engine_call *call, const engine_sequence *s, int64_t head, int64_t row,
                      int64_t row_end, const engine_scratch *scratch, engine_tile *tile);

/* Rows [first, first + count) of K or V for a KV head: in place where that can be, else converted to
 * f32 in `buffer`. */
engine_block engine_rows(const engine_side *side, const engine_call *call, const engine_sequence *s,
                         int64_t head, int64_t first, int count, float *buffer);

/* A block of V in the order in which the value kernels of bf16 arithmetic read it. */
engine_block engine_pack(const engine_call *call, engine_block v, int count, void *packed);

/* The block from its j-th row on. */
static inline engine_block engine_block_from(engine_block block, int64_t j) {
  block.first += (int)j;
  if (block.packed) return block;
  block.rows = (const char *)block.rows + j * block.ld * (block.type == ATTN_F32 ? 4 : 2);
  return block;
}

/* Row j of K or V as stored: its first element, the distance of columns, what to multiply it with. */
typedef struct engine_row {
  const char *data;
  int64_t col;
  float scale;
} engine_row;
engine_row engine_row_at(const engine_side *side, const engine_call *call, const engine_sequence *s,
                         int64_t head, int64_t j);
/* Element offset of a query or output row. */
int64_t engine_query_offset(const engine_call *call, const engine_sequence *s,
                            const attn_strides *strides, int64_t head, int64_t i);
/* Index of a row's log-sum-exp. */
int64_t engine_lse_index(const engine_call *call, const engine_sequence *s, int64_t head, int64_t i);
/* Where a row of the mask starts, in elements. */
int64_t engine_mask_offset(const engine_call *call, const engine_sequence *s, int64_t head,
                           int64_t query);
/* Mask elements [begin, begin + count) of a row as numbers to add; keys past a short mask are removed.
 * True if any key is left. */
bool engine_mask_row(const engine_call *call, int64_t offset, int64_t begin, int count, float *dst);

/* The keys of [begin, end) that the tile needs to look at; false if none. */
bool engine_tile_clip(const engine_tile *tile, int64_t *begin, int64_t *end);

/* Masked scores of `count` keys from key `begin` on into p; k begins with that key's row. *removed
 * tells whether a key may have been removed for some lane; false if every key was, for all. Maxima go
 * to new_max, which holds the running ones before. */
bool engine_tile_scores(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                        int64_t begin, int count, engine_block k, const engine_scratch *scratch,
                        float *p, float *new_max, bool *removed);

/* Sums of p times V into the tile; `alive` NULL, or which keys of p are not removed. */
void engine_tile_values(const engine_call *call, engine_tile *tile, engine_block v, int count,
                        const float *p, const uint32_t *alive, const float *alpha);
/* Rows of the tile's sums times factor[lane] to rows[lane]; NULL rows are skipped. */
void engine_tile_rows(const engine_call *call, const engine_tile *tile, const float *factor,
                      float *const *rows);
/* Floats of the tile's sums. */
static inline int64_t engine_tile_floats(const engine_call *call) {
  int64_t dim = call->problem->head_dim_v;
  return call->tiles.narrow ? KERNEL_NARROW_ROWS * engine_narrow_ld(dim) : dim * call->lanes;
}

/* Whether NaN or infinity came out anywhere: the sign that a removed key's value may have leaked in, as
 * 0 times it is NaN. */
bool engine_tile_nonfinite(const engine_call *call, const engine_tile *tile);

/* What turns a lane's weights into probabilities: 1 / their sum, the sink counted; 0 for an empty row.
 * *lse (may be NULL) receives the log-sum-exp. */
double engine_tile_factor(const engine_call *call, const engine_tile *tile, int lane, double *lse);

/* Writes the tile's rows to out and lse, from ot, max and sum. */
void engine_tile_finish(const engine_call *call, const engine_sequence *s, engine_tile *tile,
                        const engine_scratch *scratch);

/* Multiplies the weights of dropped keys by 0 (the 1 / (1 - p) comes at the end). */
void engine_dropout(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                    int64_t begin, int count, float *p);

#endif
