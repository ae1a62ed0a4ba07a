// SPDX-License-Identifier: Apache-2.0
/* Random problems and data for them, from a seed: what `attn verify` and `attn-property` run. */
#ifndef CLI_PROBLEM_GEN_H
#define CLI_PROBLEM_GEN_H

#include <stdbool.h>
#include <stdint.h>

#include "attn/attn.h"

typedef struct gen_options {
  int64_t max_seq; /* lengths go from 0 to this */
  bool basic;      /* f32, no features beyond causal, masks, GQA and strides */
  bool plain_data; /* no NaN or infinity in the inputs */
} gen_options;

/* One buffer; `guard` puts an inaccessible page right behind it. */
typedef struct gen_block {
  void *data, *base;
  size_t bytes, base_bytes;
} gen_block;

enum { GEN_BLOCKS = 24 };
typedef struct gen_case {
  attn_problem problem; /* resolved */
  attn_io io;
  gen_block blocks[GEN_BLOCKS];
  int count;
  size_t out_bytes, lse_count, weights_count;
  double max_value; /* largest finite |v| after scales */
  double mask_size;  /* largest finite |mask| that leaves something of a score */
  double score_size; /* bound of |score| before softmax: |q| |k| |scale| + biases */
} gen_case;

/* The index-th problem of a seed; always valid. */
void gen_problem(uint64_t seed, int64_t index, const gen_options *options, attn_problem *problem);
/* Data for a problem, outputs poisoned. False when memory is short or the problem is invalid. */
bool gen_case_make(const attn_problem *problem, uint64_t seed, const gen_options *options, gen_case *c);
/* Poisons the outputs again. */
void gen_case_poison(gen_case *c);
void gen_case_free(gen_case *c);

/* Feature names that a problem has, for statistics and skips; returns how many were written. */
enum { GEN_FEATURES = 40 };
int gen_features(const attn_problem *problem, const char *names[GEN_FEATURES]);

uint64_t gen_random(uint64_t *state);

#endif
