// SPDX-License-Identifier: Apache-2.0
/*
 * Sets of four entries, each a seqlock, so that a hit takes no lock and writes nothing that other
 * threads read often. Why a torn entry is never used: every word of an entry is stored with release
 * and loaded with acquire order. A reader that loads one word of a later version therefore also
 * sees that version's odd sequence number, which its last check finds changed; a reader that loads
 * none has the version whose even number it loaded first. Writers hold a mutex.
 */
#include <assert.h>
#include <stddef.h>
#include <string.h>

#include "select/internal.h"

/* An answer with about 80 reasons has 500 words; a longer one is not kept. */
enum { WAYS = 4, SETS = CACHE_CAPACITY / WAYS, ANSWER_WORDS = 512, STRIPES = 16, LINE = 64 };

typedef _Atomic uint64_t word;

typedef struct slot {
  word sequence; /* odd while it is written */
  word tag;      /* the key's hash with bit 0 set; 0: empty */
  word generation;
  atomic_bool recent; /* used since the set last looked for a victim */
} slot;

typedef struct body {
  word key[CACHE_KEY_WORDS];
  word answer[ANSWER_WORDS];
} body;

/* Counts of some of the threads, a cache line each: hits of many threads do not meet. */
typedef struct stripe {
  _Alignas(LINE) atomic_llong hits;
  atomic_llong misses;
} stripe;

struct cache {
  stripe stripes[STRIPES];
  pthread_mutex_t lock; /* of writers */
  slot slots[CACHE_CAPACITY];
  body bodies[CACHE_CAPACITY]; /* touched when used */
};

_Static_assert(offsetof(attn_recommendation, alternatives) % 8 == 0, "head is whole words");
_Static_assert(sizeof(attn_alternative) % 8 == 0, "alternatives are whole words");
_Static_assert(sizeof(attn_problem) == 424,
               "a new field of attn_problem belongs into cache_key_make");

static uint64_t pair(uint32_t low, uint32_t high) { return low | (uint64_t)high << 32; }

static uint32_t float_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, sizeof(bits));
  return bits;
}

static uint64_t *put_strides(uint64_t *w, const attn_strides *s) {
  *w++ = (uint64_t)s->batch, *w++ = (uint64_t)s->head;
  *w++ = (uint64_t)s->row, *w++ = (uint64_t)s->col;
  return w;
}

/* Multiplier of word i for multilinear hashing (Dietzfelbinger, STACS 1996): odd, without pattern.
 */
static inline uint64_t multiplier(int i) {
  uint64_t z = (uint64_t)(i + 1) * 0x9e3779b97f4a7c15u; // SplitMix64
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return (z ^ (z >> 31)) | 1;
}

void cache_key_make(const attn_problem *p, uint64_t generation, cache_key *key) {
  uint64_t *w = key->words;
  const int64_t sizes[] = {
    p->batch,         p->heads_q,           p->heads_kv,      p->seq_q,       p->seq_kv,
    p->head_dim,      p->head_dim_v,        p->causal_offset, p->window_left, p->window_right,
    p->total_q,       p->total_kv,          p->prefix,        p->page_size,   p->num_pages,
    p->pages_per_seq, p->alibi_batch_stride
  };
  memcpy(w, sizes, sizeof(sizes));
  w += sizeof(sizes) / sizeof(sizes[0]);
  memcpy(w, p->mask_dims, sizeof(p->mask_dims)), w += 4;
  memcpy(w, p->mask_strides, sizeof(p->mask_strides)), w += 4;
  *w++ = pair(p->dtype, p->kv_dtype);
  *w++ = pair(p->out_dtype, p->mask_dtype);
  *w++ = pair(p->fp8_scale, p->causal);
  *w++ = pair(p->window_align, p->mask);
  *w++ = pair(p->weights, p->layout);
  *w++ = pair(float_bits(p->scale), float_bits(p->softcap));
  const bool flags[] = { p->scale_set,  p->window, p->alibi,      p->sinks,          p->score_mod,
                         p->kv_lengths, p->varlen, p->return_lse, p->batch_invariant };
  uint32_t bits = 0;
  for (size_t i = 0; i < sizeof(flags) / sizeof(flags[0]); i++) bits |= (uint32_t)flags[i] << i;
  *w++ = pair(float_bits(p->dropout), bits);
  w = put_strides(w, &p->q_strides);
  w = put_strides(w, &p->k_strides);
  w = put_strides(w, &p->v_strides);
  w = put_strides(w, &p->out_strides);
  *w++ = generation;
  assert(w == key->words + CACHE_KEY_WORDS);
  uint64_t hash = 0;
#pragma GCC unroll 64 // so that the multipliers are constants
  for (int i = 0; i < CACHE_KEY_WORDS; i++) hash += key->words[i] * multiplier(i);
  key->hash = hash;
}

cache *cache_create(const core_allocator *a) {
  cache *c = a->alloc(a->user, sizeof(*c), _Alignof(cache));
  if (!c) return NULL;
  pthread_mutex_init(&c->lock, NULL);
  for (int i = 0; i < STRIPES; i++) {
    atomic_init(&c->stripes[i].hits, 0);
    atomic_init(&c->stripes[i].misses, 0);
  }
  for (int i = 0; i < CACHE_CAPACITY; i++) {
    atomic_init(&c->slots[i].sequence, 0);
    atomic_init(&c->slots[i].tag, 0);
    atomic_init(&c->slots[i].generation, 0);
    atomic_init(&c->slots[i].recent, false);
  }
  return c;
}

void cache_destroy(cache *c, const core_allocator *a) {
  if (!c) return;
  pthread_mutex_destroy(&c->lock);
  a->free(a->user, c);
}

static stripe *own_stripe(cache *c) {
  static _Thread_local char here; // its address tells threads apart
  return &c->stripes[((uint64_t)(uintptr_t)&here * 0x9e3779b97f4a7c15u) >> 60];
}

/* The set is of the hash's high bits, which all bits of all words reach. */
static int first_slot(const cache_key *key) { return (int)(key->hash >> 57) * WAYS; }
_Static_assert(SETS == 1 << 7, "first_slot takes 7 bits");

static uint64_t load(const word *w) { return atomic_load_explicit(w, memory_order_acquire); }
static void store(word *w, uint64_t x) { atomic_store_explicit(w, x, memory_order_release); }

static bool same_key(const body *b, const cache_key *key) {
  uint64_t differ = 0;
  for (int i = 0; i < CACHE_KEY_WORDS; i++) differ |= load(&b->key[i]) ^ key->words[i];
  return !differ;
}

static const word *load_bytes(const word *from, void *to, size_t bytes) {
  char *out = to;
  for (; bytes >= sizeof(uint64_t); bytes -= sizeof(uint64_t), out += sizeof(uint64_t)) {
    uint64_t w = load(from++);
    memcpy(out, &w, sizeof(w));
  }
  if (bytes) {
    uint64_t w = load(from++);
    memcpy(out, &w, bytes);
  }
  return from;
}

static word *store_bytes(word *to, const void *from, size_t bytes) {
  for (const char *in = from; bytes; in += sizeof(uint64_t)) {
    uint64_t w = 0;
    size_t n = bytes < sizeof(w) ? bytes : sizeof(w);
    memcpy(&w, in, n);
    store(to++, w);
    bytes -= n;
  }
  return to;
}

static size_t answer_words(const attn_recommendation *r) {
  size_t rejections = (size_t)r->rejection_count * sizeof(r->rejections[0]);
  return (offsetof(attn_recommendation, alternatives) +
          (size_t)r->alternative_count * sizeof(r->alternatives[0]) +
          (size_t)r->reason_count * sizeof(r->reasons[0]) + (rejections + 7) / 8 * 8) /
         8;
}

/* False when what was read cannot be an answer: it was being written. */
static bool load_answer(const word *w, attn_recommendation *r) {
  w = load_bytes(w, r, offsetof(attn_recommendation, alternatives));
  if ((unsigned)r->alternative_count > ATTN_MAX_CANDIDATES ||
      (unsigned)r->rejection_count > ATTN_MAX_CANDIDATES ||
      (unsigned)r->reason_count > ATTN_MAX_REASONS || answer_words(r) > ANSWER_WORDS)
    return false;
  w = load_bytes(w, r->alternatives, (size_t)r->alternative_count * sizeof(r->alternatives[0]));
  w = load_bytes(w, r->rejections, (size_t)r->rejection_count * sizeof(r->rejections[0]));
  load_bytes(w, r->reasons, (size_t)r->reason_count * sizeof(r->reasons[0]));
  return true;
}

bool cache_get(cache *c, const cache_key *key, attn_recommendation *rec) {
  int first = first_slot(key);
  for (int i = first; i < first + WAYS; i++) {
    slot *s = &c->slots[i];
    uint64_t sequence = load(&s->sequence);
    if (sequence & 1 || load(&s->tag) != (key->hash | 1)) continue;
    if (!same_key(&c->bodies[i], key) || !load_answer(c->bodies[i].answer, rec)) continue;
    if (atomic_load_explicit(&s->sequence, memory_order_relaxed) != sequence) continue;
    if (!atomic_load_explicit(&s->recent, memory_order_relaxed))
      atomic_store_explicit(&s->recent, true, memory_order_relaxed);
    atomic_fetch_add_explicit(&own_stripe(c)->hits, 1, memory_order_relaxed);
    return true;
  }
  atomic_fetch_add_explicit(&own_stripe(c)->misses, 1, memory_order_relaxed);
  return false;
}

/* The key's own entry, an empty one, one of an older generation, or one not used of late. */
static int choose_victim(cache *c, const cache_key *key) {
  int first = first_slot(key), victim = -1;
  uint64_t generation = key->words[CACHE_KEY_WORDS - 1];
  for (int i = first; i < first + WAYS; i++)
    if (load(&c->slots[i].tag) == (key->hash | 1) && same_key(&c->bodies[i], key)) return i;
  for (int i = first; i < first + WAYS; i++)
    if (!load(&c->slots[i].tag) || load(&c->slots[i].generation) != generation) return i;
  for (int i = first; i < first + WAYS; i++) {
    bool recent = atomic_exchange_explicit(&c->slots[i].recent, false, memory_order_relaxed);
    if (!recent && victim < 0) victim = i;
  }
  return victim < 0 ? first + (int)(key->hash % WAYS) : victim;
}

void cache_put(cache *c, const cache_key *key, const attn_recommendation *rec) {
  if (answer_words(rec) > ANSWER_WORDS) return;
  pthread_mutex_lock(&c->lock);
  int i = choose_victim(c, key);
  slot *s = &c->slots[i];
  body *b = &c->bodies[i];
  uint64_t sequence = load(&s->sequence);
  atomic_store_explicit(&s->sequence, sequence + 1, memory_order_relaxed);
  store(&s->tag, key->hash | 1);
  store(&s->generation, key->words[CACHE_KEY_WORDS - 1]);
  for (int k = 0; k < CACHE_KEY_WORDS; k++) store(&b->key[k], key->words[k]);
  word *w = store_bytes(b->answer, rec, offsetof(attn_recommendation, alternatives));
  w = store_bytes(w, rec->alternatives,
                  (size_t)rec->alternative_count * sizeof(rec->alternatives[0]));
  w = store_bytes(w, rec->rejections, (size_t)rec->rejection_count * sizeof(rec->rejections[0]));
  store_bytes(w, rec->reasons, (size_t)rec->reason_count * sizeof(rec->reasons[0]));
  store(&s->sequence, sequence + 2);
  pthread_mutex_unlock(&c->lock);
}

void cache_clear(cache *c) {
  pthread_mutex_lock(&c->lock);
  for (int i = 0; i < CACHE_CAPACITY; i++) {
    uint64_t sequence = load(&c->slots[i].sequence);
    atomic_store_explicit(&c->slots[i].sequence, sequence + 1, memory_order_relaxed);
    store(&c->slots[i].tag, 0);
    store(&c->slots[i].sequence, sequence + 2);
  }
  pthread_mutex_unlock(&c->lock);
}

attn_cache_stats cache_stats(cache *c, uint64_t generation) {
  attn_cache_stats stats = { .capacity = CACHE_CAPACITY };
  for (int i = 0; i < STRIPES; i++) {
    stats.hits += atomic_load_explicit(&c->stripes[i].hits, memory_order_relaxed);
    stats.misses += atomic_load_explicit(&c->stripes[i].misses, memory_order_relaxed);
  }
  for (int i = 0; i < CACHE_CAPACITY; i++)
    stats.entries += load(&c->slots[i].tag) && load(&c->slots[i].generation) == generation;
  return stats;
}
