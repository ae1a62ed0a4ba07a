// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "core/problem.h"

/* SplitMix64's finaliser (Steele, Lea, Flood, OOPSLA 2014): its first round for each word with its
 * position, all of it for their sum. Not in a chain: a lookup must not wait for dependent products.
 */
static uint64_t round_one(uint64_t z) { return (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u; }

static uint64_t hash_words(const uint64_t *words, int count) {
  uint64_t sum = (uint64_t)count;
  for (int i = 0; i < count; i++) {
    uint64_t z = round_one(words[i] ^ (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u);
    sum += z ^ (z >> 27);
  }
  sum = round_one(sum);
  sum = (sum ^ (sum >> 27)) * 0x94d049bb133111ebu;
  return sum ^ (sum >> 31);
}

static void put(problem_key *key, uint64_t word) { key->words[key->count++] = word; }

static uint64_t float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

/* What of a tensor's strides can change a choice, as bits: a unit inner stride, packed rows, no
 * gaps at all, and what is expanded (stride 0). */
static uint64_t stride_class(const attn_strides *s, int64_t outer, int64_t heads, int64_t rows,
                             int64_t dim) {
  const int64_t size[4] = { outer, heads, rows, dim };
  const int64_t stride[4] = { s->batch, s->head, s->row, s->col };
  int64_t elements = 1, extent = 1; // validation has checked both for overflow
  uint64_t bits = (uint64_t)(s->col == 1) | (uint64_t)(s->row == dim) << 1;
  for (int i = 0; i < 4; i++) {
    if (size[i] == 0) return bits;
    elements *= size[i];
    extent += (size[i] - 1) * stride[i];
    bits |= (uint64_t)(size[i] > 1 && stride[i] == 0) << (3 + i);
  }
  return bits | (uint64_t)(elements == extent) << 2;
}

static void put_strides(problem_key *key, const attn_problem *p) {
  int64_t q_outer = p->varlen ? 1 : p->batch, q_rows = p->varlen ? p->total_q : p->seq_q;
  int64_t kv_outer = p->page_size ? p->num_pages : q_outer;
  int64_t kv_rows = p->page_size ? p->page_size : p->varlen ? p->total_kv : problem_own_keys(p, p->seq_kv);
  uint64_t mask = (uint64_t)(p->mask_strides[3] == 1); // expanded dimensions have become 1
  put(key, stride_class(&p->q_strides, q_outer, p->heads_q, q_rows, p->head_dim) |
               stride_class(&p->k_strides, kv_outer, p->heads_kv, kv_rows, p->head_dim) << 8 |
               stride_class(&p->v_strides, kv_outer, p->heads_kv, kv_rows, p->head_dim_v) << 16 |
               stride_class(&p->out_strides, q_outer, p->heads_q, q_rows, p->head_dim_v) << 24 |
               mask << 32);
}

void problem_key_make(const attn_problem *p, problem_key *key) {
  const int64_t sizes[] = {
    p->batch,        p->heads_q,      p->heads_kv,      p->seq_q,        p->seq_kv,
    p->head_dim,     p->head_dim_v,   p->causal_offset, p->window_left,  p->window_right,
    p->total_q,      p->total_kv,     p->page_size,     p->num_pages,    p->pages_per_seq,
    p->mask_dims[0], p->mask_dims[1], p->mask_dims[2],  p->mask_dims[3], p->alibi_batch_stride,
    p->prefix,
  };
  const bool flags[] = { p->window,     p->alibi,  p->sinks,      p->score_mod,
                         p->kv_lengths, p->varlen, p->return_lse, p->batch_invariant };
  uint64_t bits = (uint64_t)p->weights << 32;
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) bits |= (uint64_t)flags[i] << i;
  key->count = 0;
  for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) put(key, (uint64_t)sizes[i]);
  put(key, (uint64_t)p->dtype | (uint64_t)p->kv_dtype << 8 | (uint64_t)p->out_dtype << 16 |
               (uint64_t)p->mask_dtype << 24 | (uint64_t)p->fp8_scale << 32 |
               (uint64_t)p->causal << 40 | (uint64_t)p->window_align << 48 |
               (uint64_t)p->mask << 56);
  put(key, bits);
  put(key, float_bits(p->scale) | float_bits(p->softcap) << 32);
  put(key, float_bits(p->dropout));
  put_strides(key, p);
  key->hash = hash_words(key->words, key->count);
}

bool problem_key_equal(const problem_key *a, const problem_key *b) {
  return a->hash == b->hash && a->count == b->count &&
         !memcmp(a->words, b->words, (size_t)a->count * sizeof(a->words[0]));
}
