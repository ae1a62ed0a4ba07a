// SPDX-License-Identifier: Apache-2.0
/*
 * What a call does, counted: so many multiply-adds, scores, converted elements, rows set up, ... A
 * machine is what each of these takes (engine_rates); their products add up to the work of a call.
 * The counts follow from problem and schedule alone; the rates are measured (tune/calibrate.h).
 */
#ifndef ENGINE_WORK_H
#define ENGINE_WORK_H

#include "engine/schedule.h"

/* Name, and nanoseconds on the machine of docs/performance.md, for machines that are not
 * calibrated. A "lane" is a place of a tile, used or not; elements are those of one row of K and V
 * together. */
#define ENGINE_OPS(X)                                                                              \
  X(CALL, "call", 60)                    /* serial: checks, set-up */                              \
  X(FORK, "fork", 1000)                  /* serial: sharing a call, threads being awake */         \
  X(ITEM, "item", 220)                   /* taking an item */                                      \
  X(ROW, "row", 4.2)                     /* finding, setting up, finishing a row of queries */     \
  X(TILE, "tile", 20)                    /* ... a tile of them */                                  \
  X(TILE_ELEMENT, "tile_element", 0.155) /* lane of q in or out out, transposed */                 \
  X(ROW_ELEMENT, "row_element", 0.125)   /* narrow: element of q in or out out */                  \
  X(IO_16, "io_16", 0.068)               /* element of q or out from or to 16 bits */              \
  X(IO_SLOW, "io_slow", 1)               /* ... from 8 bits or with columns apart */               \
  X(BLOCK, "block", 400)                 /* a tile meets a block of keys */                        \
  X(MAC_F32, "mac_f32", 0.0078)          /* multiply-add of a lane, f32, tile of two vectors */    \
  X(MAC_F32_ONE, "mac_f32_one", 0.0088)  /* ... of one vector */                                   \
  X(MAC_PAIRS, "mac_pairs", 0.0037)      /* ... in bf16 pairs */                                   \
  X(MAC_PAIRS_ONE, "mac_pairs_one", 0.006)                                                         \
  X(SCORE, "score", 0.02) /* online softmax of a lane and key */                                   \
  X(SCORE_PAIRS, "score_pairs", 0.045)                                                             \
  X(NATURAL, "natural", 0.025) /* lane and key: not base 2, maximum apart */                       \
  X(SOFTCAP, "softcap", 0.27)                                                                      \
  X(ALIBI, "alibi", 0.033)                                                                         \
  X(BIAS, "bias", 0.1)             /* lane and key: mask added, a row of it a lane */              \
  X(MASK_BYTE, "mask_byte", 0.055) /* element of a mask read */                                    \
  X(MASK_32, "mask_32", 0.43)                                                                      \
  X(MASK_16, "mask_16", 1.3)                                                                       \
  X(LIMIT, "limit", 0.16)    /* lane and key in a block that structure cuts */                     \
  X(DROPOUT, "dropout", 8.5) /* row and key */                                                     \
  X(KV_ROW, "kv_row", 3.7)   /* row of K or V fetched on its own */                                \
  X(KV_F32, "kv_f32", 0.082) /* element of K or V converted or gathered into a block */            \
  X(KV_16, "kv_16", 0.012)                                                                         \
  X(KV_F8, "kv_f8", 1)                                                                             \
  X(KV_INT8, "kv_int8", 0.137)                                                                     \
  X(KV_Q8_0, "kv_q8_0", 0.31)                                                                      \
  X(KV_Q4_0, "kv_q4_0", 0.325)                                                                     \
  X(PACK, "pack", 0.056)            /* element of V arranged in pairs */                           \
  X(NARROW_TILE, "narrow_tile", 50) /* few rows, lanes along head_dim: as tile, block, score */    \
  X(NARROW_BLOCK, "narrow_block", 210)                                                             \
  X(NARROW_SCORE, "narrow_score", 0.16)                                                            \
  X(NARROW_LOAD, "narrow_load", 0.021) /* element of K or V loaded, once in four rows */           \
  X(NARROW_MAC, "narrow_mac", 0.0044)  /* multiply-add of a row */                                 \
  X(MERGE, "merge", 0.21)              /* element of a split's sums */                             \
  X(L2_BYTE, "l2_byte", 0.0005)        /* byte from L2; L3; the other core's caches count as L3 */ \
  X(L3_BYTE, "l3_byte", 0.006)                                                                     \
  X(FAR_ROW, "far_row", 14)  /* row of K or V from memory, apart from its neighbours */            \
  X(F64_MAC, "f64_mac", 0.3) /* plain loops in doubles */

typedef enum engine_op {
#define X(id, name, ns) ENGINE_##id,
  ENGINE_OPS(X)
#undef X
      ENGINE_OP_COUNT,
  ENGINE_SERIAL = ENGINE_ITEM /* operations before are done once, not shared by threads */
} engine_op;

const char *engine_op_name(int op);

typedef struct engine_rates {
  double seconds[ENGINE_OP_COUNT]; /* of one operation on one core */
} engine_rates;

/* Rates of a CPU that was not calibrated: those of the machine above, scaled by the ratio of peaks
 * (unscaled where the capability has none) and of vector widths. */
void engine_rates_default(const attn_capability *cpu, const kernel_table *kernels,
                          engine_rates *rates);

typedef struct engine_work {
  double count[ENGINE_OP_COUNT];
  double bytes; /* moved to and from memory */
} engine_work;

/* What engine_schedule_execute does; for `textbook` what math does, whose passes walk the same
 * tiles and keep `score_bytes` of scores between them. */
void engine_work_count(const backend_query *query, const engine_schedule *schedule, bool textbook,
                       double score_bytes, engine_work *work);

/* Prices counted work; query->rates NULL: the default ones. */
void engine_work_price(const backend_query *query, const engine_schedule *schedule,
                       const engine_work *work, backend_cost *cost);

#endif
