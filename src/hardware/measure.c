// SPDX-License-Identifier: Apache-2.0
/*
 * What this machine reaches: multiply-adds, memory reads, clock. A team of threads, started for the
 * measurement and ended after it, goes through short windows together; a window's speed is all
 * threads' work over the time from the first start to the last end. Best of the windows for a quick
 * answer (other processes only ever slow a window down), their upper quartile for a careful one,
 * which neither one lucky window nor a neighbour that is there half of the time decides.
 *
 * Memory is read after its lines were flushed from all caches, so a few megabytes say as much as a
 * buffer of several times the last-level cache, whose page faults would take longer than the rest.
 */
#include "hardware/measure.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "core/size.h"
#include "core/status.h"
#include "core/threads.h"
#include "hardware/internal.h"

enum { MAX_WINDOWS = 64, MAX_THREADS = 4096 };

/* How long and how much. */
typedef struct effort {
  double window;                     /* seconds of one compute window */
  int windows, passes;               /* compute windows at most; memory passes */
  bool careful;                      /* else no more windows once they stop getting better */
  int64_t thread_bytes, total_bytes; /* memory read per thread, at most in all */
  bool huge_pages;
} effort;

static const effort quick = {
  .window = 4e-4, .windows = 20, .passes = 12, .thread_bytes = 8 << 20, .total_bytes = 256 << 20
};
static const effort careful = { .window = 2e-3,
                                .windows = 60,
                                .passes = 40,
                                .careful = true,
                                .thread_bytes = 16 << 20,
                                .total_bytes = 512 << 20,
                                .huge_pages = true };

typedef struct result {
  double f32_flops, bf16_flops, read_bandwidth, clock_hz;
} result;

typedef struct span {
  double begin, end;
  char pad[112]; /* a thread's own cache lines */
} span;

enum { START_WAIT = 0, START_GO, START_CANCEL };

typedef struct team {
  const effort *effort;
  measure_loops loops;
  int threads;
  atomic_int start, arrived, turn;
  atomic_bool enough;
  float seeds[MEASURE_SEEDS];
  span *spans;
  int64_t rounds;
  char *memory;
  size_t part; /* bytes of one thread */
  double rates[MAX_WINDOWS];
  result result;
} team;

typedef struct member {
  team *team;
  int index, cpu; /* cpu -1: any */
  pthread_t thread;
} member;

/* Keeps loops' results alive. */
static _Atomic uint64_t sink;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Spinning, so that all leave together; yielding after a while, in case there are fewer cores than
 * threads (a thread that yields loses its time slice to whatever else runs on the core). */
static void meet(team *t) {
  int turn = atomic_load(&t->turn);
  if (atomic_fetch_add(&t->arrived, 1) + 1 == t->threads) {
    atomic_store(&t->arrived, 0);
    atomic_store(&t->turn, turn + 1);
    return;
  }
  for (int spin = 0; atomic_load(&t->turn) == turn; spin++)
    if (spin > 1 << 20) sched_yield();
}

typedef void (*window_body)(team *t, int index, int64_t rounds);

static void run_f32(team *t, int index, int64_t rounds) {
  (void)index;
  atomic_fetch_or(&sink, (uint64_t)(t->loops.f32(rounds, t->seeds) > 0));
}

static void run_bf16(team *t, int index, int64_t rounds) {
  (void)index;
  atomic_fetch_or(&sink, (uint64_t)(t->loops.bf16(rounds, t->seeds) > 0));
}

static void run_chain(team *t, int index, int64_t rounds) {
  (void)t;
  atomic_fetch_or(&sink, measure_chain(rounds, 0x9e3779b97f4a7c15u + (uint64_t)index));
}

static void run_read(team *t, int index, int64_t rounds) {
  (void)rounds;
  atomic_fetch_or(&sink, t->loops.read(t->memory + (size_t)index * t->part, t->part));
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static double summary(team *t, int count) {
  qsort(t->rates, (size_t)count, sizeof t->rates[0], compare);
  return t->rates[t->effort->careful ? count * 3 / 4 : count - 1];
}

/* Rounds that take about `time`, timed on this thread alone. */
static int64_t rounds_for(team *t, window_body body, double time) {
  int64_t rounds = 1000;
  for (;;) {
    double begin = seconds();
    body(t, 0, rounds);
    double taken = seconds() - begin;
    if (taken >= 4e-5 || rounds > INT64_C(1) << 40) {
      double wanted = (double)rounds * time / (taken > 0 ? taken : time);
      return wanted < 1 ? 1 : (int64_t)wanted;
    }
    rounds *= 2;
  }
}

/* All threads run the body in windows. Returns work of one thread's round times rounds a second,
 * all threads together, to thread 0; 0 to the others. */
static double measure_windows(team *t, int index, window_body body, double work, int windows) {
  if (index == 0) {
    t->rounds = body == run_read ? 1 : rounds_for(t, body, t->effort->window);
    atomic_store(&t->enough, false);
  }
  double best = 0;
  int count = 0, stale = 0;
  while (count < windows) {
    if (body == run_read && t->loops.flush) {
      t->loops.flush(t->memory + (size_t)index * t->part, t->part);
    }
    meet(t);
    if (atomic_load(&t->enough)) break;
    t->spans[index].begin = seconds();
    body(t, index, t->rounds);
    t->spans[index].end = seconds();
    meet(t);
    if (index == 0) {
      double begin = t->spans[0].begin, end = t->spans[0].end;
      for (int i = 1; i < t->threads; i++) {
        if (t->spans[i].begin < begin) begin = t->spans[i].begin;
        if (t->spans[i].end > end) end = t->spans[i].end;
      }
      double rate = end > begin ? work * (double)t->rounds * t->threads / (end - begin) : 0;
      t->rates[count] = rate;
      stale = rate > best * 1.01 ? 0 : stale + 1;
      if (rate > best) best = rate;
      if (!t->effort->careful && stale >= 6) atomic_store(&t->enough, true);
    }
    count++;
  }
  /* Nobody may start what follows while `enough` can still be read. */
  meet(t);
  return index == 0 ? summary(t, count) : 0;
}

static void measure_member(team *t, int index) {
  const effort *e = t->effort;
  /* First touch by the thread that reads places each part near it. */
  char *part = t->memory + (size_t)index * t->part;
  for (size_t i = 0; i < t->part; i += 4096) part[i] = 1;

  double f32 = measure_windows(t, index, run_f32, t->loops.f32_flops, e->windows);
  double bf16 = 0;
  if (t->loops.bf16)
    bf16 = measure_windows(t, index, run_bf16, t->loops.bf16_flops, e->windows);
  double read = measure_windows(t, index, run_read, (double)t->part, e->passes);
  double clock = measure_windows(t, index, run_chain, MEASURE_CHAIN_CYCLES, e->windows / 3);
  if (index == 0) t->result = (result){ f32, bf16, read, clock / t->threads };
}

static void *member_main(void *arg) {
  member *m = arg;
#if defined(__linux__)
  /* Else new threads may share a core until the scheduler spreads them, some windows later. */
  if (m->cpu >= 0) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)m->cpu, &set);
    sched_setaffinity(0, sizeof set, &set);
  }
#endif
  int start;
  while ((start = atomic_load(&m->team->start)) == START_WAIT) sched_yield();
  if (start == START_GO) measure_member(m->team, m->index);
  return NULL;
}

/* One member a CPU where there are as many as CPUs that this process may run on; which ones a
 * smaller team should take the scheduler knows better. */
static void assign_cpus(const team *t, member *members) {
  for (int i = 0; i < t->threads; i++) members[i].cpu = -1;
#if defined(__linux__)
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0 || CPU_COUNT(&set) != t->threads) return;
  int next = 0;
  for (size_t cpu = 0; cpu < CPU_SETSIZE && next < t->threads; cpu++)
    if (CPU_ISSET(cpu, &set)) members[next++].cpu = (int)cpu;
#endif
}

/* Returns how many were started. The host's signals are not ours to handle. */
static int start_members(team *t, member *members) {
  sigset_t all, old;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &old);
  int started = 0;
  for (; started < t->threads; started++) {
    members[started].team = t;
    members[started].index = started;
    if (pthread_create(&members[started].thread, NULL, member_main, &members[started]) != 0) break;
  }
  pthread_sigmask(SIG_SETMASK, &old, NULL);
  return started;
}

static attn_status run_team(team *t) {
  member *members = calloc((size_t)t->threads, sizeof *members);
  t->spans = calloc((size_t)t->threads, sizeof *t->spans);
  attn_status status = ATTN_OK;
  if (!members || !t->spans) {
    status = core_fail(ATTN_ERROR_MEMORY, "measurement: no memory for %d threads", t->threads);
    goto done;
  }
  assign_cpus(t, members);
  int started = start_members(t, members);
  bool all = started == t->threads;
  atomic_store(&t->start, all ? START_GO : START_CANCEL);
  for (int i = 0; i < started; i++) pthread_join(members[i].thread, NULL);
  if (!all)
    status = core_fail(ATTN_ERROR_MEMORY, "measurement: only %d of %d threads could be started",
                       started, t->threads);
done:
  free(members);
  free(t->spans);
  return status;
}

/* Bytes of one thread's part: without flushing, all parts together must be well beyond the caches.
 */
static size_t part_bytes(const team *t) {
  hardware_memory memory;
  int64_t part = t->effort->thread_bytes, total = t->effort->total_bytes;
  if (!t->loops.flush) {
    hardware_topology topology;
    hardware_topology_detect(&topology, (hardware_notes){ NULL, 0 });
    int64_t domains = topology.l3_cpus > 0 ? size_ceil_div(t->threads, topology.l3_cpus) : 1;
    int64_t wanted = topology.l3_bytes > 0 ? 4 * domains * topology.l3_bytes : 128 << 20;
    part = size_max(part, wanted / t->threads);
  }
  hardware_memory_read("", &memory, (hardware_notes){ NULL, 0 });
  if (memory.available > 0) total = size_min(total, memory.available / 8);
  part = size_min(part, total / t->threads);
  /* A page a thread at least. */
  return (size_t)size_max(part / 4096, 1) * 4096;
}

static attn_status measure(int threads, const effort *how, result *out) {
  attn_capability cpu = { 0 };
  hardware_x86_detect(&cpu);
  hardware_arm_detect(&cpu);
  team t = { .effort = how, .threads = threads };
  measure_loops_choose(cpu.isa_flags, &t.loops);
  /* s <- s * x + y settles at y / (1 - x): neither huge nor subnormal. */
  for (int i = 0; i < MEASURE_SEEDS; i++) t.seeds[i] = 1.0f + 0.03125f * (float)i;
  t.seeds[16] = 0.75f;
  t.seeds[17] = 0.5f;
  t.part = part_bytes(&t);
  size_t bytes = t.part * (size_t)threads;
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANON, -1, 0);
  if (memory == MAP_FAILED)
    return core_fail(ATTN_ERROR_MEMORY, "measurement: %zu bytes: %s", bytes, strerror(errno));
#if defined(MADV_HUGEPAGE)
  if (how->huge_pages) madvise(memory, bytes, MADV_HUGEPAGE);
#endif
  t.memory = memory;
  attn_status status = run_team(&t);
  munmap(memory, bytes);
  if (status == ATTN_OK) *out = t.result;
  return status;
}

static struct {
  pthread_once_t once;
  attn_status status;
  result result;
} cache = { .once = PTHREAD_ONCE_INIT };

static void measure_once(void) {
  cache.status = measure(threads_usable_cores(), &quick, &cache.result);
}

attn_status attn_hardware_measure(attn_capability *cpu) {
  if (!cpu) return core_fail(ATTN_ERROR_NULL, "cpu is NULL");
  if (cpu->device != ATTN_DEVICE_CPU || cpu->source != ATTN_SOURCE_DETECTED)
    return core_fail(ATTN_ERROR_VALUE, "cpu is not this machine's CPU as it was detected");
  pthread_once(&cache.once, measure_once);
  if (cache.status != ATTN_OK)
    return core_fail(cache.status, "this process could not measure its CPU");
  cpu->peak_f32 = cache.result.f32_flops;
  cpu->peak_bf16 = cache.result.bf16_flops;
  cpu->bandwidth = cache.result.read_bandwidth;
  cpu->clock_hz = cache.result.clock_hz;
  return ATTN_OK;
}

attn_status attn_hardware_limits(int threads, attn_limits *limits) {
  if (!limits) return core_fail(ATTN_ERROR_NULL, "limits is NULL");
  if (threads < 0 || threads > MAX_THREADS)
    return core_fail(ATTN_ERROR_VALUE, "threads is %d, not within 0 and %d", threads, MAX_THREADS);
  if (threads == 0) threads = threads_usable_cores();
  result r;
  attn_status status = measure(threads, &careful, &r);
  if (status != ATTN_OK) return status;
  *limits = (attn_limits){ .threads = threads,
                           .f32_flops = r.f32_flops,
                           .bf16_flops = r.bf16_flops,
                           .read_bandwidth = r.read_bandwidth,
                           .clock_hz = r.clock_hz };
  return ATTN_OK;
}
