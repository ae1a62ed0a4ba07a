// SPDX-License-Identifier: Apache-2.0
#include <stdalign.h>
#include <string.h>

#include "wisdom/internal.h"

enum { CHUNK = 16 << 10 };

struct wisdom_chunk {
  wisdom_chunk *next;
  size_t size, used;
  char bytes[];
};

static void *take(const wisdom_store *s, size_t size, size_t alignment) {
  return s->allocator->alloc(s->allocator->user, size, alignment);
}

static void give(const wisdom_store *s, void *p) {
  if (p) s->allocator->free(s->allocator->user, p);
}

void wisdom_store_init(wisdom_store *s, const core_allocator *allocator) {
  *s = (wisdom_store){ .allocator = allocator };
}

void wisdom_store_free(wisdom_store *s) {
  for (wisdom_chunk *c = s->chunks, *next; c; c = next) {
    next = c->next;
    give(s, c);
  }
  give(s, s->entries);
  give(s, s->index);
  wisdom_store_init(s, s->allocator);
}

static const char *keep_text(wisdom_store *s, const char *text) {
  size_t size = strlen(text) + 1;
  wisdom_chunk *c = s->chunks;
  if (!c || c->size - c->used < size) {
    size_t room = size > CHUNK ? size : CHUNK;
    c = take(s, sizeof(*c) + room, alignof(wisdom_chunk));
    if (!c) return NULL;
    c->next = s->chunks, c->size = room, c->used = 0;
    s->chunks = c;
  }
  char *copy = memcpy(c->bytes + c->used, text, size);
  c->used += size;
  return copy;
}

static uint64_t hash_text(uint64_t h, const char *text) {
  for (; *text; text++) h = (h ^ (unsigned char)*text) * 0x100000001b3u; // FNV-1a
  return h * 31 + 1;
}

/* Of what makes two entries the same. */
static uint64_t hash(const wisdom_entry *e) {
  uint64_t h = 0xcbf29ce484222325u ^ e->machine * 0x9e3779b97f4a7c15u;
  h = (h ^ (uint64_t)e->kind) * 0xbf58476d1ce4e5b9u;
  if (e->kind == WISDOM_TIME || e->kind == WISDOM_VALUE) h = hash_text(h ^ e->version, e->subject);
  if (e->kind == WISDOM_TIME) h = (h ^ (uint64_t)e->when) * 0x94d049bb133111ebu;
  if (e->kind != WISDOM_MACHINE) h = hash_text(h, e->text);
  return h ^ h >> 29;
}

static bool same(const wisdom_entry *a, const wisdom_entry *b) {
  if (a->kind != b->kind || a->machine != b->machine) return false;
  if (a->kind == WISDOM_MACHINE) return true;
  if (a->version != b->version || strcmp(a->subject, b->subject) || strcmp(a->text, b->text))
    return false;
  return a->kind != WISDOM_TIME || (a->when == b->when && a->threads == b->threads &&
                                    !(a->number < b->number) && !(a->number > b->number));
}

/* Where the entry is in the index, or where it would go. */
static int *place(const wisdom_store *s, const wisdom_entry *e) {
  size_t mask = (size_t)s->index_size - 1, at = (size_t)hash(e) & mask;
  while (s->index[at] && !same(&s->entries[s->index[at] - 1], e)) at = (at + 1) & mask;
  return &s->index[at];
}

/* Room for one more entry, with an index that is at most half full. */
static bool grow(wisdom_store *s) {
  if (s->count < s->capacity) return true;
  int capacity = s->capacity ? 2 * s->capacity : 64;
  size_t index_bytes = 2 * (size_t)capacity * sizeof(int);
  wisdom_entry *entries = take(s, (size_t)capacity * sizeof(*entries), alignof(wisdom_entry));
  int *index = take(s, index_bytes, alignof(int));
  if (!entries || !index) {
    give(s, entries);
    give(s, index);
    return false;
  }
  if (s->count) memcpy(entries, s->entries, (size_t)s->count * sizeof(*entries));
  memset(index, 0, index_bytes);
  give(s, s->entries);
  give(s, s->index);
  s->entries = entries, s->capacity = capacity, s->index = index, s->index_size = 2 * capacity;
  for (int i = 0; i < s->count; i++) *place(s, &entries[i]) = i + 1;
  return true;
}

/* Whether `new` takes the place of `old`, whatever the order in which they come. */
static bool newer(const wisdom_entry *new, const wisdom_entry *old) {
  if (new->when != old->when) return new->when > old->when;
  if (new->kind == WISDOM_MACHINE) return strcmp(new->text, old->text) > 0;
  return new->number > old->number;
}

bool wisdom_store_add(wisdom_store *s, const wisdom_entry *e, bool override) {
  if (!grow(s)) return false;
  int *at = place(s, e);
  if (*at) {
    wisdom_entry *old = &s->entries[*at - 1];
    if (e->kind != WISDOM_MACHINE && e->kind != WISDOM_VALUE) return true;
    if (!override && !newer(e, old)) return true;
    if (e->kind == WISDOM_MACHINE && strcmp(e->text, old->text)) {
      const char *text = keep_text(s, e->text);
      if (!text) return false;
      old->text = text;
    }
    old->when = e->when, old->number = e->number, old->fresh = e->fresh;
    return true;
  }
  wisdom_entry copy = *e;
  copy.subject = *e->subject ? keep_text(s, e->subject) : "";
  copy.text = keep_text(s, e->text);
  if (!copy.subject || !copy.text) return false;
  s->entries[s->count] = copy;
  *at = ++s->count;
  return true;
}

const wisdom_entry *wisdom_store_find(const wisdom_store *s, const wisdom_entry *e) {
  int at = s->count ? *place(s, e) : 0;
  return at ? &s->entries[at - 1] : NULL;
}

const wisdom_entry *wisdom_store_value(const wisdom_store *s, uint64_t machine, uint32_t version,
                                       const char *subject, const char *key) {
  wisdom_entry e = {
    .kind = WISDOM_VALUE, .machine = machine, .version = version, .subject = subject, .text = key
  };
  return wisdom_store_find(s, &e);
}

bool wisdom_store_filter(wisdom_store *s, wisdom_keep keep, void *user) {
  wisdom_store kept;
  wisdom_store_init(&kept, s->allocator);
  for (int i = 0; i < s->count; i++)
    if (keep(user, &s->entries[i], i) && !wisdom_store_add(&kept, &s->entries[i], false)) {
      wisdom_store_free(&kept);
      return false;
    }
  wisdom_store_free(s);
  *s = kept;
  return true;
}
