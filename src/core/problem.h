// SPDX-License-Identifier: Apache-2.0
#ifndef CORE_PROBLEM_H
#define CORE_PROBLEM_H

#include "attn/attn.h"

/* Everything of a resolved problem that can change an answer, in a fixed order: cache, history and
 * wisdom use it, and two problems with equal keys are the same problem. Padding-free. */
typedef struct problem_key {
  uint64_t words[72];
  int count;
  uint64_t hash;
} problem_key;

/* `resolved` as attn_problem_resolve left it. Strides enter as classes that can change the choice
 * (inner stride 1 or not, dense or not), not as numbers. */
void problem_key_make(const attn_problem *resolved, problem_key *key);
bool problem_key_equal(const problem_key *a, const problem_key *b);

/* Strides of q, k, v and out that `layout` (not STRIDED) gives, saturating; heads_kv and head_dim_v
 * may still be 0 for their defaults. */
void problem_layout_strides(const attn_problem *problem, attn_layout layout,
                            attn_strides strides[4]);

/* fp8_scale where it applies: to q, or to k and v, that are of an fp8 type; else NONE. */
static inline attn_fp8_scale problem_fp8_scale(const attn_problem *p, attn_dtype dtype) {
  return dtype == ATTN_F8E4M3 || dtype == ATTN_F8E5M2 ? p->fp8_scale : ATTN_FP8_SCALE_NONE;
}

/* Rows of k and v that one sequence has in them: those after the shared prefix. */
static inline int64_t problem_own_keys(const attn_problem *p, int64_t seq_kv) {
  return seq_kv > p->prefix ? seq_kv - p->prefix : 0;
}

/* Offset of the diagonal: query i sits on key i + offset. For causal (also without a window), the
 * window and ALiBi. seq_q, seq_kv: the sequence's own lengths. */
int64_t problem_diagonal(const attn_problem *resolved, int64_t seq_q, int64_t seq_kv);

/* Keys [*begin, *end) that structure (causal, window, length) leaves for query i; empty: begin =
 * end. */
void problem_key_range(const attn_problem *resolved, int64_t i, int64_t seq_q, int64_t seq_kv,
                       int64_t *begin, int64_t *end);

/* (query, key) pairs that structure leaves for one head of one sequence; O(1) or O(seq_q) work
 * bounded by a closed form (never a loop over seq_q of more than 2 * window steps). */
double problem_pairs(const attn_problem *resolved, int64_t seq_q, int64_t seq_kv);

/* Checks the data of a call against a resolved problem before anything is written: pointers that
 * the problem needs, lengths, cu_seqlens, block tables. */
attn_status problem_check_io(const attn_problem *resolved, const attn_io *io);

#endif
