// SPDX-License-Identifier: Apache-2.0
/* Random problems and data for them, from a seed: what `attn verify` and `attn-property` run. */
#ifndef CLI_PROBLEM_GEN_H
#define CLI_PROBLEM_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "attn/attn.h"

typedef struct gen_options {
  int64_t max_seq; /* lengths go from 0 to this */
  bool basic;      /* f32 and no features beyond causal, masks, GQA, strides and LSE */
  bool plain_data; /* ordinary numbers: no NaN, no infinity, no -inf sinks */
} gen_options;

/* The index-th problem of a seed; always valid, not resolved. */
void gen_problem(uint64_t seed, int64_t index, const gen_options *options, attn_problem *problem);

/* What a problem can have, for statistics. */
int gen_feature_count(void);
const char *gen_feature_name(int feature);
bool gen_has_feature(const attn_problem *resolved, int feature);

/* What the data of a case can have beside ordinary numbers in ordinary memory. */
#define GEN_TRAITS(X)                                                                              \
  X(GUARDED, "guard pages")                                                                        \
  X(UNALIGNED, "bases aligned to the element only")                                                \
  X(SHARED_KV, "v within k")                                                                       \
  X(SHARED_PAGES, "pages in several sequences")                                                    \
  X(UNREAD, "NaN where nothing may read")                                                          \
  X(REMOVED, "NaN in keys that a mask removes")                                                    \
  X(SPECIAL_K, "NaN or infinity in keys")                                                          \
  X(SPECIAL_V, "NaN or infinity in values")                                                        \
  X(SPECIAL_Q, "NaN in queries")                                                                   \
  X(SPECIAL_MASK, "NaN or +inf in a mask")                                                         \
  X(EMPTY_ROWS, "rows of a mask without a key")                                                    \
  X(FINITE_LOW, "very low finite mask values")                                                     \
  X(EQUAL_SCORES, "queries of zeros")                                                              \
  X(LARGE_SCORES, "inputs of three times the size")                                                \
  X(NO_SINK, "sinks of -inf")                                                                      \
  X(MOD_REMOVES, "score_mod that removes keys")

enum gen_trait {
#define X(name, text) GEN_##name,
  GEN_TRAITS(X)
#undef X
      GEN_TRAIT_COUNT
};
const char *gen_trait_name(int trait);

/* One buffer. Outputs have canaries before and behind, inputs end where their memory ends. */
typedef struct gen_block {
  unsigned char *data, *base;
  size_t bytes, base_bytes;
  bool mapped, output;
} gen_block;

enum { GEN_BLOCKS = 24, GEN_CANARY = 0xa5 };
typedef struct gen_case {
  attn_problem problem; /* resolved */
  attn_io io;
  uint64_t seed;
  uint32_t traits; /* bit (1 << gen_trait) */
  size_t out_bytes, lse_count, weights_count;
  unsigned char *gaps; /* a byte for each of out: not 0 between rows; NULL where there are none */
  gen_block blocks[GEN_BLOCKS];
  int block_count;
} gen_case;

/* Data for a problem, outputs poisoned; the same for the same seed. Guarded inputs are read-only.
 * False when memory is short or the problem is invalid (attn_last_error). */
bool gen_case_make(const attn_problem *problem, uint64_t seed, const gen_options *options,
                   gen_case *c);
/* Fills every output with a byte: 0xff is NaN in each type, so that what is left out shows. */
void gen_case_poison(gen_case *c, int byte);
/* False when anything around the outputs or between the rows of `out`, poisoned with `byte`, was
 * written to. */
bool gen_case_intact(const gen_case *c, int byte);
void gen_case_free(gen_case *c);

/* Sizes, strides and type of a tensor of a resolved problem, as attn.h lays it out. */
typedef struct gen_tensor {
  int64_t outer, heads, rows, dim; /* outer: batch, or pages, or 1 for packed tensors */
  attn_strides strides;
  attn_dtype dtype;
} gen_tensor;
enum gen_role { GEN_Q, GEN_K, GEN_V, GEN_OUT };
gen_tensor gen_tensor_of(const attn_problem *resolved, enum gen_role role);
int64_t gen_tensor_span(const gen_tensor *t); /* elements from the first to the last */

/* SplitMix64, and draws from it. */
uint64_t gen_random(uint64_t *state);
int64_t gen_between(uint64_t *state, int64_t low, int64_t high);
bool gen_one_in(uint64_t *state, int n);
float gen_normal(uint64_t *state);

#endif
