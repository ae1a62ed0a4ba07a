// SPDX-License-Identifier: Apache-2.0
/* Sets of four entries, one lock a set: a hit takes an uncontended lock and one copy. */
#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "select/internal.h"

enum { WAYS = 4, SETS = CACHE_CAPACITY / WAYS };

typedef struct entry {
  bool used;
  attn_status status;
  uint64_t generation, age;
  problem_key key;
  attn_recommendation rec;
} entry;

typedef struct set {
  pthread_mutex_t lock;
  uint64_t clock;
  int64_t hits, misses;
  entry ways[WAYS];
} set;

struct cache {
  set sets[SETS];
};

/* Copies what is in use: the arrays are mostly empty. */
static void copy(attn_recommendation *to, const attn_recommendation *from) {
  memcpy(to, from, offsetof(attn_recommendation, alternatives));
  memcpy(to->alternatives, from->alternatives,
         (size_t)from->alternative_count * sizeof(from->alternatives[0]));
  memcpy(to->rejections, from->rejections,
         (size_t)from->rejection_count * sizeof(from->rejections[0]));
  memcpy(to->reasons, from->reasons, (size_t)from->reason_count * sizeof(from->reasons[0]));
}

cache *cache_create(const core_allocator *a) {
  cache *c = a->alloc(a->user, sizeof(*c), _Alignof(cache));
  if (!c) return NULL;
  for (int i = 0; i < SETS; i++) {
    set *s = &c->sets[i];
    pthread_mutex_init(&s->lock, NULL);
    s->clock = 0, s->hits = s->misses = 0;
    for (int w = 0; w < WAYS; w++) s->ways[w].used = false;
  }
  return c;
}

void cache_destroy(cache *c, const core_allocator *a) {
  if (!c) return;
  for (int i = 0; i < SETS; i++) pthread_mutex_destroy(&c->sets[i].lock);
  a->free(a->user, c);
}

static set *set_of(cache *c, const problem_key *key) { return &c->sets[key->hash % SETS]; }

bool cache_get(cache *c, const problem_key *key, uint64_t generation, attn_recommendation *rec,
               attn_status *status) {
  set *s = set_of(c, key);
  bool found = false;
  pthread_mutex_lock(&s->lock);
  for (int w = 0; w < WAYS && !found; w++) {
    entry *e = &s->ways[w];
    if (!e->used || e->generation != generation || !problem_key_equal(&e->key, key)) continue;
    copy(rec, &e->rec);
    *status = e->status;
    e->age = ++s->clock;
    found = true;
  }
  if (found) s->hits++;
  else s->misses++;
  pthread_mutex_unlock(&s->lock);
  return found;
}

void cache_put(cache *c, const problem_key *key, uint64_t generation, const attn_recommendation *rec,
               attn_status status) {
  set *s = set_of(c, key);
  pthread_mutex_lock(&s->lock);
  entry *victim = &s->ways[0];
  for (int w = 0; w < WAYS; w++) {
    entry *e = &s->ways[w];
    bool stale = !e->used || e->generation != generation || problem_key_equal(&e->key, key);
    if (stale) {
      victim = e;
      break;
    }
    if (e->age < victim->age) victim = e;
  }
  victim->used = true;
  victim->status = status;
  victim->generation = generation;
  victim->age = ++s->clock;
  victim->key = *key;
  copy(&victim->rec, rec);
  pthread_mutex_unlock(&s->lock);
}

void cache_clear(cache *c) {
  for (int i = 0; i < SETS; i++) {
    set *s = &c->sets[i];
    pthread_mutex_lock(&s->lock);
    for (int w = 0; w < WAYS; w++) s->ways[w].used = false;
    pthread_mutex_unlock(&s->lock);
  }
}

attn_cache_stats cache_stats(cache *c) {
  attn_cache_stats stats = { .capacity = CACHE_CAPACITY };
  for (int i = 0; i < SETS; i++) {
    set *s = &c->sets[i];
    pthread_mutex_lock(&s->lock);
    stats.hits += s->hits;
    stats.misses += s->misses;
    for (int w = 0; w < WAYS; w++) stats.entries += s->ways[w].used;
    pthread_mutex_unlock(&s->lock);
  }
  return stats;
}
