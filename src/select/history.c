// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "select/internal.h"

enum {
  BUCKETS = 1024, /* power of two, about one record each */
  MIN_AGREEING = 3,
  CONSIDERED = 64, /* newest records of a problem and implementation that its median is taken of */
};
/* In logarithms of time: records further from the median than OUTLIER robust deviations (1.4826
 * times the median absolute deviation, which is the standard deviation of normal errors) do not
 * count; FLOOR keeps close records from expelling each other; a deviation above DISAGREE is no
 * agreement. */
static const double OUTLIER = 3, DEVIATION = 1.4826, FLOOR = 0.05, DISAGREE = 0.25;

/* Records are numbered from 1 on; number n lies at (n - 1) % HISTORY_CAPACITY until it is
 * overwritten. `older` is the number of the next older record of the same bucket. */
typedef struct record {
  history_key key;
  const backend_implementation *implementation;
  double log_seconds;
  uint64_t older;
} record;

struct history {
  record ring[HISTORY_CAPACITY];
  uint64_t newest[BUCKETS];  /* numbers; 0: none */
  uint64_t added, forgotten; /* records (forgotten, added] are there */
};

history *history_create(const core_allocator *a) {
  history *h = a->alloc(a->user, sizeof(*h), _Alignof(history));
  if (!h) return NULL;
  h->added = 0;
  history_clear(h);
  return h;
}

void history_destroy(history *h, const core_allocator *a) {
  if (h) a->free(a->user, h);
}

void history_clear(history *h) {
  h->forgotten = h->added;
  memset(h->newest, 0, sizeof(h->newest));
}

int history_count(const history *h) { return (int)(h->added - h->forgotten); }

static uint64_t mix(uint64_t z) { // SplitMix64's finaliser
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

history_key history_key_of(const problem_key *key) {
  uint64_t low = (uint64_t)key->count;
  for (int i = 0; i < key->count; i++) low = mix(low + key->words[i]); // a chain, unlike key->hash
  return (history_key){ key->hash, low };
}

static uint64_t bucket_of(history_key key, const backend_implementation *implementation) {
  return mix(key.low + (uint64_t)(uintptr_t)implementation) % BUCKETS;
}

void history_add(history *h, history_key key, const backend_implementation *implementation,
                 double seconds) {
  uint64_t bucket = bucket_of(key, implementation);
  h->ring[h->added % HISTORY_CAPACITY] = (record){ .key = key,
                                                   .implementation = implementation,
                                                   .log_seconds = log(seconds),
                                                   .older = h->newest[bucket] };
  h->newest[bucket] = ++h->added;
  if (h->added - h->forgotten > HISTORY_CAPACITY) h->forgotten++;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double median(double *sorted, int n) {
  return n % 2 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

static double deviation(const double *times, int n, double centre) {
  double away[CONSIDERED];
  for (int i = 0; i < n; i++) away[i] = fabs(times[i] - centre);
  qsort(away, (size_t)n, sizeof(away[0]), compare);
  return DEVIATION * median(away, n);
}

bool history_lookup(const history *h, history_key key, const backend_implementation *implementation,
                    double *seconds) {
  double times[CONSIDERED];
  int n = 0, kept = 0;
  uint64_t number = h->newest[bucket_of(key, implementation)];
  while (number > h->forgotten && n < CONSIDERED) {
    const record *r = &h->ring[(number - 1) % HISTORY_CAPACITY];
    if (r->implementation == implementation && r->key.high == key.high && r->key.low == key.low)
      times[n++] = r->log_seconds;
    number = r->older;
  }
  if (n < MIN_AGREEING) return false;
  qsort(times, (size_t)n, sizeof(times[0]), compare);
  double centre = median(times, n), spread = deviation(times, n, centre);
  if (spread > DISAGREE) return false;
  for (int i = 0; i < n; i++)
    if (fabs(times[i] - centre) <= OUTLIER * fmax(spread, FLOOR)) times[kept++] = times[i];
  if (kept < MIN_AGREEING || 2 * kept < n) return false;
  *seconds = exp(median(times, kept));
  return true;
}
