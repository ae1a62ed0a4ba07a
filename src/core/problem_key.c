// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "core/dtype.h"
#include "core/problem.h"
#include "core/size.h"

static uint64_t mix(uint64_t h, uint64_t word) { // SplitMix64's finaliser, Steele et al. 2014
  uint64_t z = h + word + 0x9e3779b97f4a7c15u;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static void put(problem_key *key, uint64_t word) { key->words[key->count++] = word; }

static uint64_t float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

/* What of a tensor's strides can change a choice: inner stride, rows packed, anything expanded. */
static uint64_t stride_class(const attn_strides *s, int64_t dim) {
  return (uint64_t)(s->col == 1) | (uint64_t)(s->row == dim) << 1 | (uint64_t)(s->row == 0) << 2 |
         (uint64_t)(s->head == 0) << 3 | (uint64_t)(s->batch == 0) << 4;
}

void problem_key_make(const attn_problem *p, problem_key *key) {
  key->count = 0;
  const int64_t sizes[] = { p->batch,     p->heads_q,   p->heads_kv, p->seq_q,
                            p->seq_kv,    p->head_dim,  p->head_dim_v, p->causal_offset,
                            p->window_left, p->window_right, p->total_q, p->total_kv,
                            p->page_size, p->num_pages, p->pages_per_seq, p->alibi_batch_stride };
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) put(key, (uint64_t)sizes[i]);
  put(key, (uint64_t)p->dtype | (uint64_t)p->kv_dtype << 8 | (uint64_t)p->out_dtype << 16 |
               (uint64_t)p->mask_dtype << 24 | (uint64_t)p->fp8_scale << 32 |
               (uint64_t)p->causal << 40 | (uint64_t)p->window_align << 48 | (uint64_t)p->mask << 56);
  const bool flags[] = { p->window, p->alibi,  p->sinks,      p->score_mod,
                         p->kv_lengths, p->varlen, p->return_lse, p->batch_invariant };
  uint64_t bits = (uint64_t)p->weights << 32;
  for (size_t i = 0; i < sizeof(flags); i++) bits |= (uint64_t)flags[i] << i;
  put(key, bits);
  put(key, float_bits(p->scale) | float_bits(p->softcap) << 32);
  put(key, float_bits(p->dropout));
  for (int i = 0; i < 4; i++) put(key, (uint64_t)p->mask_dims[i]);
  put(key, (uint64_t)(p->mask_strides[3] == 1));
  put(key, stride_class(&p->q_strides, p->head_dim) |
               stride_class(&p->k_strides, p->head_dim) << 8 |
               stride_class(&p->v_strides, p->head_dim_v) << 16 |
               stride_class(&p->out_strides, p->head_dim_v) << 24);
  key->hash = 0;
  for (int i = 0; i < key->count; i++) key->hash = mix(key->hash, key->words[i]);
}

bool problem_key_equal(const problem_key *a, const problem_key *b) {
  return a->hash == b->hash && a->count == b->count &&
         !memcmp(a->words, b->words, (size_t)a->count * sizeof(a->words[0]));
}
