// SPDX-License-Identifier: Apache-2.0
/* What it costs to hand work to a second thread, after gaps of several lengths. With
 * -DBENCH_PTHREADPOOL and -lpthreadpool it measures that library the same way instead. */
#include "core/threads.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#if defined(BENCH_PTHREADPOOL)
#include <pthreadpool.h>
#endif

enum { MOST_CALLS = 50000, MEET_LIMIT_US = 20000 };

typedef enum gap_kind { BUSY, ASLEEP } gap_kind;

typedef struct runner {
#if defined(BENCH_PTHREADPOOL)
  pthreadpool_t pool;
  uint32_t flags;
#else
  threads_pool *pool;
#endif
  int workers;
} runner;

typedef struct meeting {
  atomic_bool begun;
  double begun_at;
} meeting;

static double clock_us(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec * 1e-3;
}

static double now_us(void) { return clock_us(CLOCK_MONOTONIC); }

static void nothing(void *arg, int worker) {
  (void)arg;
  (void)worker;
}

/* Index 0 holds its thread until another has begun, so the wake-up cannot be avoided. */
static void meet(void *arg, int worker) {
  meeting *m = arg;
  if (worker == 1) {
    m->begun_at = now_us();
    atomic_store(&m->begun, true);
  } else if (worker == 0) {
    double limit = now_us() + MEET_LIMIT_US;
    while (!atomic_load(&m->begun) && now_us() < limit) {
    }
  }
}

#if defined(BENCH_PTHREADPOOL)
typedef struct item {
  threads_body body;
  void *arg;
} item;

static void run_item(void *arg, size_t index) {
  item *i = arg;
  i->body(i->arg, (int)index);
}

static void run(runner *r, threads_body body, void *arg) {
  pthreadpool_parallelize_1d(r->pool, run_item, &(item){ body, arg }, (size_t)r->workers, r->flags);
}
#else
static void run(runner *r, threads_body body, void *arg) {
  threads_run(r->pool, r->workers, body, arg);
}
#endif

static void wait_gap(double us, gap_kind kind) {
  if (us > 0 && kind == ASLEEP) usleep((useconds_t)us);
  double end = now_us() + us;
  while (kind == BUSY && now_us() < end) {
  }
}

static int by_size(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void report(const char *what, double gap, gap_kind kind, double *us, int count) {
  qsort(us, (size_t)count, sizeof *us, by_size);
  printf("%-16s %6.0f us %-6s  median %7.2f  p90 %7.2f  p99 %7.2f us\n", what, gap,
         gap > 0 ? kind == BUSY ? "busy" : "asleep" : "", us[count / 2], us[count * 9 / 10],
         us[count * 99 / 100]);
}

static void measure(runner *r, bool start, double gap, gap_kind kind, int count, double *us) {
  for (int i = 0; i < 3; i++) run(r, nothing, NULL);
  for (int i = 0; i < count; i++) {
    meeting m = { .begun = false };
    wait_gap(gap, kind);
    double begin = now_us();
    run(r, start ? meet : nothing, &m);
    us[i] = (start ? m.begun_at : now_us()) - begin;
  }
  report(start ? "second begins" : "empty call", gap, kind, us, count);
}

typedef struct work {
  atomic_int left;
} work;

static void work_body(void *arg, int worker) {
  work *w = arg;
  (void)worker;
  while (atomic_fetch_sub(&w->left, 1) > 0) {
    volatile double x = 1;
    for (int i = 0; i < 2000; i++) x = x * 1.0000001 + 1e-9;
  }
}

static double time_work(runner *r, int items, double gap, gap_kind kind, double *us, int count) {
  for (int i = 0; i < count; i++) {
    work w = { .left = items };
    wait_gap(gap, kind);
    double begin = now_us();
    if (r) {
      run(r, work_body, &w);
    } else {
      work_body(&w, 0);
    }
    us[i] = now_us() - begin;
  }
  qsort(us, (size_t)count, sizeof *us, by_size);
  return us[count / 2];
}

/* Whether the threads get a core each: a scheduler may keep them on one after a sleep. */
static void measure_speedup(runner *r, double *us) {
  static const double gaps[] = { 0, 1000, 10000 };
  static const int items[] = { 20, 100, 1000 };
  for (size_t i = 0; i < sizeof items / sizeof *items; i++)
    for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
      double alone = time_work(NULL, items[i], gaps[g], ASLEEP, us, 50);
      double together = time_work(r, items[i], gaps[g], ASLEEP, us, 50);
      printf("%6.0f us of work after %6.0f us asleep: %.2f times faster\n", alone, gaps[g],
             alone / together);
    }
}

static void measure_idle(runner *r) {
  enum { ROUNDS = 20, IDLE_US = 100000 };
  double used = 0;
  for (int i = 0; i < ROUNDS; i++) {
    run(r, nothing, NULL);
    double before = clock_us(CLOCK_PROCESS_CPUTIME_ID);
    usleep(IDLE_US);
    used += clock_us(CLOCK_PROCESS_CPUTIME_ID) - before;
  }
  printf("CPU time of the process in the %d ms after a call: %.0f us\n", IDLE_US / 1000,
         used / ROUNDS);
}

static void measure_all(runner *r) {
  static const struct {
    double gap;
    int count;
  } rows[] = { { 0, MOST_CALLS }, { 20, 5000 }, { 50, 5000 }, { 1000, 1000 }, { 10000, 200 } };
  double *us = malloc(MOST_CALLS * sizeof *us);
  if (!us) return;
  for (int start = 0; start < 2; start++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
      for (int kind = BUSY; kind <= (rows[i].gap > 0 ? ASLEEP : BUSY); kind++)
        measure(r, start, rows[i].gap, (gap_kind)kind, rows[i].count, us);
  measure_speedup(r, us);
  measure_idle(r);
  free(us);
}

int main(int argc, char **argv) {
  runner r = { .workers = argc > 1 ? atoi(argv[1]) : 2 };
  if (r.workers < 2) r.workers = 2;
  printf("%d threads on %d usable cores\n", r.workers, threads_usable_cores());
#if defined(BENCH_PTHREADPOOL)
  r.pool = pthreadpool_create((size_t)r.workers);
  for (r.flags = 0; r.flags <= PTHREADPOOL_FLAG_YIELD_WORKERS;
       r.flags += PTHREADPOOL_FLAG_YIELD_WORKERS) {
    printf("pthreadpool, %s\n", r.flags ? "PTHREADPOOL_FLAG_YIELD_WORKERS" : "no flags");
    measure_all(&r);
  }
  pthreadpool_destroy(r.pool);
#else
  core_allocator allocator = core_allocator_default();
  r.pool = threads_pool_create(r.workers, &allocator);
  if (!r.pool) return 1;
  measure_all(&r);
  threads_pool_destroy(r.pool);
#endif
  return 0;
}
