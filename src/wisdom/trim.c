// SPDX-License-Identifier: Apache-2.0
#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "wisdom/internal.h"

/* The newest first among the times of one problem, implementation and number of threads. */
static int by_group(const void *left, const void *right) {
  const wisdom_entry *a = *(wisdom_entry *const *)left, *b = *(wisdom_entry *const *)right;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->machine != b->machine) return a->machine < b->machine ? -1 : 1;
  if (a->version != b->version) return a->version < b->version ? -1 : 1;
  if (a->threads != b->threads) return a->threads < b->threads ? -1 : 1;
  int order = strcmp(a->subject, b->subject);
  if (!order) order = strcmp(a->text, b->text);
  if (order) return order;
  if (a->when != b->when) return a->when > b->when ? -1 : 1;
  return (a->number > b->number) - (a->number < b->number);
}

/* The newest first within a kind of a machine. */
static int by_age(const void *left, const void *right) {
  const wisdom_entry *a = *(wisdom_entry *const *)left, *b = *(wisdom_entry *const *)right;
  if (a->machine != b->machine) return a->machine < b->machine ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  if (a->when != b->when) return a->when > b->when ? -1 : 1;
  return by_group(left, right);
}

static bool same_group(const wisdom_entry *a, const wisdom_entry *b) {
  return a->kind == WISDOM_TIME && b->kind == WISDOM_TIME && a->machine == b->machine &&
         a->version == b->version && a->threads == b->threads && !strcmp(a->subject, b->subject) &&
         !strcmp(a->text, b->text);
}

static bool same_machine(const wisdom_entry *a, const wisdom_entry *b) {
  return a->machine == b->machine && a->kind == b->kind;
}

typedef struct trimmer {
  const wisdom_store *store;
  wisdom_entry **order;
  bool *drop; /* of each entry by its number */
} trimmer;

static void drop(trimmer *t, const wisdom_entry *e) { t->drop[e - t->store->entries] = true; }

static void drop_samples(trimmer *t) {
  int in_group = 0;
  qsort(t->order, (size_t)t->store->count, sizeof(*t->order), by_group);
  for (int i = 0; i < t->store->count; i++) {
    in_group = i && same_group(t->order[i - 1], t->order[i]) ? in_group + 1 : 0;
    if (in_group >= WISDOM_SAMPLES) drop(t, t->order[i]);
  }
}

static void drop_beyond_bounds(trimmer *t) {
  int kept = 0;
  size_t bytes = 0;
  qsort(t->order, (size_t)t->store->count, sizeof(*t->order), by_age);
  for (int i = 0; i < t->store->count; i++) {
    const wisdom_entry *e = t->order[i];
    if (!i || !same_machine(t->order[i - 1], e)) kept = 0, bytes = 0;
    if (t->drop[e - t->store->entries]) continue;
    kept++, bytes += strlen(e->text) + strlen(e->subject) + 100;
    if (kept > (e->kind == WISDOM_OTHER ? WISDOM_OTHERS : WISDOM_PER_MACHINE) ||
        bytes > WISDOM_MACHINE_BYTES)
      drop(t, e);
  }
}

/* Machines of which nothing was heard for longest go. `order` is by machine. */
static void drop_machines(trimmer *t, uint64_t own) {
  for (;;) {
    uint64_t oldest = 0, machine = 0;
    int64_t oldest_when = INT64_MAX, newest = -1;
    int machines = 0;
    for (int i = 0; i <= t->store->count; i++) {
      const wisdom_entry *e = i < t->store->count ? t->order[i] : NULL;
      if (!e || e->machine != machine) {
        if (machine && newest >= 0) {
          machines++;
          if (machine != own && newest < oldest_when) oldest_when = newest, oldest = machine;
        }
        machine = e ? e->machine : 0, newest = -1;
      }
      if (e && !t->drop[e - t->store->entries] && e->when > newest) newest = e->when;
    }
    if (machines <= WISDOM_MACHINES || !oldest) return;
    for (int i = 0; i < t->store->count; i++)
      if (t->order[i]->machine == oldest) drop(t, t->order[i]);
  }
}

static bool not_dropped(void *user, const wisdom_entry *entry, int number) {
  (void)entry;
  return !((const bool *)user)[number];
}

bool wisdom_store_trim(wisdom_store *s, uint64_t own) {
  const core_allocator *a = s->allocator;
  size_t count = (size_t)s->count;
  if (!count) return true;
  trimmer t = { s, a->alloc(a->user, count * sizeof(*t.order), alignof(wisdom_entry *)),
                a->alloc(a->user, count, 1) };
  bool ok = t.order && t.drop;
  if (ok) {
    memset(t.drop, 0, count);
    for (size_t i = 0; i < count; i++) t.order[i] = &s->entries[i];
    drop_samples(&t);
    drop_beyond_bounds(&t);
    drop_machines(&t, own);
    if (memchr(t.drop, 1, count)) ok = wisdom_store_filter(s, not_dropped, t.drop);
  }
  if (t.order) a->free(a->user, t.order);
  if (t.drop) a->free(a->user, t.drop);
  return ok;
}
