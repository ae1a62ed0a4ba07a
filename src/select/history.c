// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "select/internal.h"

typedef struct record {
  problem_key key;
  char name[ATTN_IMPLEMENTATION_NAME];
  double seconds;
} record;

struct history {
  record ring[HISTORY_CAPACITY];
  int count, next;
};

enum { MIN_AGREEING = 3, CONSIDERED = 64 };
/* Records further than this from the median are outliers; more spread than this is disagreement. */
static const double OUTLIER = 1.5;

history *history_create(const core_allocator *a) {
  history *h = a->alloc(a->user, sizeof(*h), _Alignof(history));
  if (h) h->count = h->next = 0;
  return h;
}

void history_destroy(history *h, const core_allocator *a) {
  if (h) a->free(a->user, h);
}

void history_add(history *h, const problem_key *key, const char *name, double seconds) {
  record *r = &h->ring[h->next];
  r->key = *key;
  strncpy(r->name, name, sizeof(r->name) - 1);
  r->name[sizeof(r->name) - 1] = 0;
  r->seconds = seconds;
  h->next = (h->next + 1) % HISTORY_CAPACITY;
  if (h->count < HISTORY_CAPACITY) h->count++;
}

int history_count(const history *h) { return h->count; }
void history_clear(history *h) { h->count = h->next = 0; }

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

bool history_lookup(const history *h, const problem_key *key, const char *name, double *seconds) {
  double times[CONSIDERED];
  int n = 0;
  for (int i = 1; i <= h->count && n < CONSIDERED; i++) { // newest first
    const record *r = &h->ring[(h->next - i + HISTORY_CAPACITY) % HISTORY_CAPACITY];
    if (!strcmp(r->name, name) && problem_key_equal(&r->key, key)) times[n++] = r->seconds;
  }
  if (n < MIN_AGREEING) return false;
  qsort(times, (size_t)n, sizeof(times[0]), compare);
  double median = times[n / 2];
  int first = 0, last = n;
  while (first < n && times[first] < median / OUTLIER) first++;
  while (last > first && times[last - 1] > median * OUTLIER) last--;
  if (last - first < MIN_AGREEING || 2 * (last - first) < n) return false;
  *seconds = times[first + (last - first) / 2];
  return true;
}
