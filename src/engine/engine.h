// SPDX-License-Identifier: Apache-2.0
/*
 * The tile loop that the CPU backends schedule: online softmax over blocks of keys for a range of
 * query rows of one KV head.
 *
 * The query heads of a GQA group are processed together: the rows of an item are the pairs
 * (query i, head g of the group) flattened as row = i * group + g, so K and V are read once for the
 * group and a tile spans few queries, which keeps causal clipping tight.
 *
 * A row's result depends on nothing but the row: key blocks start at multiples of `keys` from key 0
 * of its sequence, and every lane's arithmetic is the same wherever the row lies in a tile.
 */
#ifndef ENGINE_ENGINE_H
#define ENGINE_ENGINE_H

#include "attn/attn.h"
#include "backend/backend.h"
#include "core/dtype.h"
#include "kernel/kernel.h"

enum { ENGINE_MAX_TILES = 16, ENGINE_MAX_KEYS = 256 };

/* How rows and keys are cut. `keys` is the only one that can change bits. */
typedef struct engine_tiles {
  int vectors; /* query vectors of a tile */
  int tiles;   /* tiles of an item: rows that share a block of keys while it is in cache */
  int keys;    /* keys of a block */
  bool narrow; /* few rows: lanes along head_dim, K and V read once in their own type */
  bool pairs;  /* bf16 arithmetic: kernel_table.pairs */
} engine_tiles;

/* Choice for a problem, pairs aside: `rows` flattened rows of one KV head, l2_bytes 0 if unknown. */
engine_tiles engine_choose_tiles(const kernel_table *kernels, const attn_problem *problem,
                                 int64_t rows, int64_t l2_bytes);
/* Whether bf16 arithmetic serves the problem. */
bool engine_use_pairs(const kernel_table *kernels, const attn_problem *problem, engine_tiles tiles);

/* One of K and V: how to get at its rows. */
typedef struct engine_side {
  const char *data;
  const dtype_info *type;
  attn_strides strides;
  int64_t dim;
  attn_dtype dtype;
  bool direct;         /* rows can be read in place by the kernels in use */
  const float *scales; /* fp8 or int8 */
  const char *prefix;  /* keys shared by the batch, see attn_problem.prefix */
  const float *prefix_scales;
} engine_side;

/* Everything that is constant during one call. */
typedef struct engine_call {
  const attn_problem *problem; /* resolved */
  const attn_io *io;
  const kernel_table *kernels;
  engine_tiles tiles;
  int lanes;       /* of a tile */
  int64_t group;   /* heads_q / heads_kv */
  bool natural;    /* scores in natural units; else scaled by log2(e) for 2^x */
  bool masks;      /* a key of a tile may be removed for some rows and not for others */
  float query_scale;
  const dtype_info *q_type, *out_type, *mask_type;
  bool q_direct, out_direct;
  bool far;        /* queries come from memory, not from a cache */
  engine_side k, v;
} engine_call;

/* One sequence of the batch. */
typedef struct engine_sequence {
  int64_t index;           /* in the batch */
  int64_t seq_q, seq_kv;   /* its own lengths */
  int64_t first_q, first_kv; /* rows before it in packed tensors (varlen), else 0 */
} engine_sequence;

/* A piece of work: rows [row_begin, row_end) of KV head `head`, keys [key_begin, key_end). With
 * `partial`, the unfinished sums go there instead of to the outputs: per row head_dim_v sums, then
 * the running maximum and the sum of weights, rows `partial_stride` floats apart. */
typedef struct engine_item {
  engine_sequence sequence;
  int64_t head;
  int64_t row_begin, row_end;
  int64_t key_begin, key_end;
  float *partial;
  int64_t partial_stride;
} engine_item;

/* Bytes of scratch one worker needs; a multiple of 64. */
size_t engine_scratch_bytes(const attn_problem *problem, const kernel_table *kernels,
                            engine_tiles tiles);

void engine_call_init(engine_call *call, const backend_plan *plan, engine_tiles tiles,
                      const attn_io *io);
engine_sequence engine_sequence_get(const engine_call *call, int64_t index);
void engine_run_item(const engine_call *call, const engine_item *item, void *scratch);

/* Finishes rows from `splits` partial sums, the first at `partial`, consecutive splits of a row
 * `split_stride` floats apart, merged in order of split. */
void engine_merge_item(const engine_call *call, const engine_item *item, int splits,
                       int64_t split_stride, void *scratch);

/* Distributes items [0, count) over workers by a shared counter. item(context, i, scratch) runs with
 * the worker's own scratch. One worker runs in the calling thread without a fork. */
void engine_for_each(const backend_parallel *parallel, int workers, int64_t count, char *scratch,
                     size_t scratch_bytes, void (*item)(void *context, int64_t i, void *scratch),
                     void *context);

#endif
