// SPDX-License-Identifier: Apache-2.0
/* A run is a ticket: one 64-bit word holding a generation, the number of indices and the next index
 * nobody has taken. Threads of the pool and the caller take indices by compare-and-swap, so a
 * thread that wakes late finds nothing left and cannot touch a later run: its generation differs.
 * docs/decisions.md says why this is not pthreadpool. */
#include "core/threads.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#if defined(__linux__)
#include <sys/syscall.h>
#endif
#if defined(SYS_futex) && !defined(THREADS_NO_FUTEX)
#include <linux/futex.h>
#define HAVE_FUTEX 1
#else
#define HAVE_FUTEX 0
#endif

enum {
  LINE = 128,           /* x86 prefetches cache lines in pairs; Apple's are this long */
  MAX_THREADS = 0xffff, /* indices have 16 bits of the ticket */
  MASK_WORDS = 8,       /* the kernel's most is 8192 cores, a cpu_set_t holds 1024 */
  PAUSES_PER_LOOK = 16, /* reading the clock costs as much as one or two pauses */
  MAX_TEXT = 4096,
};

/* As long as waking a sleeping thread takes (20 to 50 us where it was measured): then a call costs
 * at most twice what it would had we known whether to sleep. */
static const int64_t SPIN_NS = 50 * 1000;

#if defined(__linux__)
typedef struct placement {
  cpu_set_t given[MASK_WORDS];
  cpu_set_t chosen[MASK_WORDS]; /* all zero until we choose */
} placement;
#else
typedef struct placement {
  char unused;
} placement;
#endif

#if HAVE_FUTEX
typedef struct parking {
  char unused;
} parking;
#else
typedef struct parking {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
} parking;
#endif

struct threads_pool {
  core_allocator allocator;
  int size;
  int started;     /* threads that run; guarded by busy */
  int startable;   /* size - 1 until the system refuses a thread */
  int64_t spin_ns; /* 0: the pool has more threads than there are cores for them */
  pid_t owner;
  parking park;

  alignas(LINE) _Atomic uint64_t ticket;
  threads_body body; /* for whoever holds an index of the ticket, as the next two */
  void *arg;
  int caller_cpu;

  alignas(LINE) atomic_uint unfinished; /* indices above 0 that are not done */
  atomic_bool caller_sleeps;
  atomic_bool busy;

  alignas(LINE) atomic_uint epoch; /* what idle threads sleep on */
  atomic_int sleepers;
  atomic_bool stop;

  alignas(LINE) pthread_t threads[];
};

static void pause_cpu(void) {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("isb" ::: "memory"); // yield is a no-op on most cores, this is not
#endif
}

static int64_t clock_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

#if HAVE_FUTEX

static bool park_init(parking *park) {
  (void)park;
  return true;
}

static void park_destroy(parking *park) { (void)park; }

/* Returns once *word may differ from `seen`. */
static void park_wait(parking *park, atomic_uint *word, unsigned seen) {
  (void)park;
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void park_wake(parking *park, atomic_uint *word, int count) {
  (void)park;
  syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, count, NULL, NULL, 0);
}

#else

static bool park_init(parking *park) {
  if (pthread_mutex_init(&park->mutex, NULL)) return false;
  if (!pthread_cond_init(&park->changed, NULL)) return true;
  pthread_mutex_destroy(&park->mutex);
  return false;
}

static void park_destroy(parking *park) {
  pthread_cond_destroy(&park->changed);
  pthread_mutex_destroy(&park->mutex);
}

static void park_wait(parking *park, atomic_uint *word, unsigned seen) {
  pthread_mutex_lock(&park->mutex);
  while (atomic_load(word) == seen) pthread_cond_wait(&park->changed, &park->mutex);
  pthread_mutex_unlock(&park->mutex);
}

static void park_wake(parking *park, atomic_uint *word, int count) {
  (void)word;
  (void)count; // callers and idle threads share the condition
  pthread_mutex_lock(&park->mutex);
  pthread_cond_broadcast(&park->changed);
  pthread_mutex_unlock(&park->mutex);
}

#endif

static uint64_t ticket_make(uint64_t last, int workers) {
  uint32_t generation = (uint32_t)(last >> 32) + 1;
  return (uint64_t)generation << 32 | (uint64_t)workers << 16 | 1; // the caller has index 0
}

static unsigned ticket_next(uint64_t ticket) { return ticket & 0xffff; }

static bool ticket_open(uint64_t ticket) { return ticket_next(ticket) < ((ticket >> 16) & 0xffff); }

/* The next index, or 0 when there is none. */
static int take_index(threads_pool *pool) {
  uint64_t ticket = atomic_load_explicit(&pool->ticket, memory_order_acquire);
  while (ticket_open(ticket))
    if (atomic_compare_exchange_weak_explicit(&pool->ticket, &ticket, ticket + 1,
                                              memory_order_acquire, memory_order_acquire))
      return (int)ticket_next(ticket);
  return 0;
}

static bool work_waits(threads_pool *pool) {
  return ticket_open(atomic_load_explicit(&pool->ticket, memory_order_acquire));
}

static bool work_or_stop(threads_pool *pool) {
  return work_waits(pool) || atomic_load_explicit(&pool->stop, memory_order_relaxed);
}

static bool all_finished(threads_pool *pool) {
  return !atomic_load_explicit(&pool->unfinished, memory_order_acquire);
}

static bool spin_until(threads_pool *pool, bool (*ready)(threads_pool *)) {
  if (ready(pool)) return true;
  if (!pool->spin_ns) return false;
  int64_t start = clock_ns();
  do {
    for (int i = 0; i < PAUSES_PER_LOOK; i++) {
      if (ready(pool)) return true;
      pause_cpu();
    }
  } while (clock_ns() - start < pool->spin_ns);
  return false;
}

/* The pool is ours to the last line: destroying it joins this thread. */
static void finish_index(threads_pool *pool) {
  if (atomic_fetch_sub(&pool->unfinished, 1) != 1) return;
  if (atomic_load(&pool->caller_sleeps)) park_wake(&pool->park, &pool->unfinished, 1);
}

/* Returns after any run that wanted a sleeper, even if nothing is left of it: the next is likely
 * near, so the caller spins again. */
static void sleep_for_work(threads_pool *pool) {
  // Counted before looking again; publish() stores the ticket before counting. One sees the other.
  atomic_fetch_add(&pool->sleepers, 1);
  unsigned seen = atomic_load(&pool->epoch);
  if (!ticket_open(atomic_load(&pool->ticket)) && !atomic_load(&pool->stop))
    park_wait(&pool->park, &pool->epoch, seen);
  atomic_fetch_sub(&pool->sleepers, 1);
}

#if defined(__linux__)

static int this_cpu(void) { return sched_getcpu(); }

/* Some schedulers wake a thread on its waker's core and leave both there for milliseconds
 * (measured: no speed-up at all for calls up to 10 ms). So a thread found on the caller's core
 * keeps off that core from then on, asleep too, or each wake-up would bring it back. */
static void step_aside(placement *place, int caller_cpu) {
  cpu_set_t now[MASK_WORDS];
  if (sched_getaffinity(0, sizeof now, now)) return;
  if (memcmp(now, place->chosen, sizeof now)) memcpy(place->given, now, sizeof now);
  memcpy(place->chosen, place->given, sizeof now);
  CPU_CLR_S((size_t)caller_cpu, sizeof now, place->chosen);
  sched_setaffinity(0, sizeof now, place->chosen); // fails, rightly, when it has no other core
}

static int affinity_cores(void) {
  cpu_set_t allowed[MASK_WORDS];
  if (sched_getaffinity(0, sizeof allowed, allowed)) return 0;
  return CPU_COUNT_S(sizeof allowed, allowed);
}

#else

static int this_cpu(void) { return -1; }

static void step_aside(placement *place, int caller_cpu) {
  (void)place;
  (void)caller_cpu;
}

static int affinity_cores(void) { return 0; }

#endif

static void run_index(threads_pool *pool, int index, placement *place) {
  int cpu = this_cpu();
  if (cpu >= 0 && cpu == pool->caller_cpu && pool->spin_ns) step_aside(place, cpu);
  pool->body(pool->arg, index);
}

static void *thread_main(void *arg) {
  threads_pool *pool = arg;
  placement place = { 0 };
  while (!atomic_load_explicit(&pool->stop, memory_order_acquire)) {
    for (int index; (index = take_index(pool)) != 0;) {
      run_index(pool, index, &place);
      finish_index(pool);
    }
    if (!spin_until(pool, work_or_stop)) sleep_for_work(pool);
  }
  return NULL;
}

/* Signals are for the host's own threads, except those that a thread causes itself or that sample
 * where it is. */
static void worker_signals(sigset_t *blocked) {
  static const int allowed[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF };
  sigfillset(blocked);
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) sigdelset(blocked, allowed[i]);
}

static void start_threads(threads_pool *pool, int wanted) {
  if (wanted > pool->startable) wanted = pool->startable;
  if (pool->started >= wanted) return;
  sigset_t blocked, before;
  worker_signals(&blocked);
  pthread_sigmask(SIG_SETMASK, &blocked, &before);
  while (pool->started < wanted) {
    if (pthread_create(&pool->threads[pool->started], NULL, thread_main, pool)) {
      pool->startable = pool->started;
      break;
    }
    pool->started++;
  }
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void run_serial(int workers, threads_body body, void *arg) {
  for (int i = 0; i < workers; i++) body(arg, i);
}

static void publish(threads_pool *pool, int workers, threads_body body, void *arg) {
  pool->body = body;
  pool->arg = arg;
  pool->caller_cpu = this_cpu();
  atomic_store_explicit(&pool->unfinished, (unsigned)workers - 1, memory_order_relaxed);
  uint64_t last = atomic_load_explicit(&pool->ticket, memory_order_relaxed);
  atomic_store(&pool->ticket, ticket_make(last, workers));

  int sleepers = atomic_load(&pool->sleepers);
  int wanted = workers - 1 - (pool->started - sleepers); // those awake see the ticket by themselves
  if (wanted > sleepers) wanted = sleepers;
  if (wanted <= 0) return;
  atomic_fetch_add(&pool->epoch, 1);
  park_wake(&pool->park, &pool->epoch, wanted);
}

static void wait_finished(threads_pool *pool) {
  if (spin_until(pool, all_finished)) return;
  atomic_store(&pool->caller_sleeps, true);
  for (unsigned left; (left = atomic_load(&pool->unfinished)) != 0;)
    park_wait(&pool->park, &pool->unfinished, left);
  atomic_store_explicit(&pool->caller_sleeps, false, memory_order_relaxed);
}

void threads_run(threads_pool *pool, int workers, threads_body body, void *arg) {
  if (workers > pool->size) workers = pool->size;
  if (workers <= 1 || pool->owner != getpid() ||
      atomic_exchange_explicit(&pool->busy, true, memory_order_acquire)) {
    run_serial(workers, body, arg);
    return;
  }
  start_threads(pool, workers - 1);
  publish(pool, workers, body, arg);
  body(arg, 0);
  for (int index; (index = take_index(pool)) != 0;) {
    body(arg, index);
    atomic_fetch_sub_explicit(&pool->unfinished, 1, memory_order_relaxed);
  }
  wait_finished(pool);
  atomic_store_explicit(&pool->busy, false, memory_order_release);
}

threads_pool *threads_pool_create(int threads, const core_allocator *allocator) {
  int cores = threads_usable_cores();
  int size = threads > 0 ? threads : cores;
  if (size > MAX_THREADS) size = MAX_THREADS;
  size_t bytes = sizeof(threads_pool) + (size_t)(size - 1) * sizeof(pthread_t);
  threads_pool *pool = allocator->alloc(allocator->user, bytes, LINE);
  if (!pool) return NULL;
  memset(pool, 0, bytes);
  pool->allocator = *allocator;
  pool->size = size;
  pool->startable = size - 1;
  pool->spin_ns = size > cores ? 0 : SPIN_NS;
  pool->owner = getpid();
  if (park_init(&pool->park)) return pool;
  allocator->free(allocator->user, pool);
  return NULL;
}

void threads_pool_destroy(threads_pool *pool) {
  if (pool->owner == getpid()) {
    atomic_store(&pool->stop, true);
    atomic_fetch_add(&pool->epoch, 1);
    park_wake(&pool->park, &pool->epoch, INT_MAX);
    for (int i = 0; i < pool->started; i++) pthread_join(pool->threads[i], NULL);
    park_destroy(&pool->park);
  }
  core_allocator allocator = pool->allocator;
  allocator.free(allocator.user, pool);
}

int threads_pool_size(const threads_pool *pool) { return pool->size; }

static int lesser(int a, int b) { return a < b ? a : b; }

/* Without stdio, whose buffers are not from the caller's allocator. */
static bool read_text(const char *path, char text[MAX_TEXT]) {
  int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  size_t length = 0;
  ssize_t got;
  while (length < MAX_TEXT - 1 && (got = read(file, text + length, MAX_TEXT - 1 - length)) > 0)
    length += (size_t)got;
  close(file);
  text[length] = 0;
  return length > 0;
}

static bool read_member(const char *folder, const char *name, char text[MAX_TEXT]) {
  char path[MAX_TEXT];
  int length = snprintf(path, sizeof path, "%s/%s", folder, name);
  return length > 0 && length < MAX_TEXT && read_text(path, text);
}

static int quota_of(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return INT_MAX;
  long long cores = quota / period + (quota % period != 0);
  return cores < INT_MAX ? (int)cores : INT_MAX;
}

/* cpu.max is "QUOTA PERIOD" or "max PERIOD"; version 1 has a file each, -1 for no quota. */
static int quota_at(const char *folder, bool unified) {
  char text[MAX_TEXT];
  if (unified) {
    char *period;
    if (!read_member(folder, "cpu.max", text)) return INT_MAX;
    long long quota = strtoll(text, &period, 10);
    return quota_of(quota, strtoll(period, NULL, 10));
  }
  if (!read_member(folder, "cpu.cfs_quota_us", text)) return INT_MAX;
  long long quota = strtoll(text, NULL, 10);
  if (!read_member(folder, "cpu.cfs_period_us", text)) return INT_MAX;
  return quota_of(quota, strtoll(text, NULL, 10));
}

/* The least quota of the group and those above it. Inside a container the path may name a folder
 * that is not mounted; the mount itself is then the container's group, and is looked at last. */
static int quota_above(const char *root, const char *hierarchy, const char *group, bool unified) {
  char folder[MAX_TEXT];
  int mount = snprintf(folder, sizeof folder, "%s%s", root, hierarchy);
  if (mount < 0 || mount >= MAX_TEXT) return INT_MAX;
  int length = snprintf(folder + mount, (size_t)(MAX_TEXT - mount), "%s", group);
  if (length < 0 || length >= MAX_TEXT - mount) folder[mount] = 0;
  int cores = quota_at(folder, unified);
  for (char *slash; (slash = strrchr(folder + mount, '/')) != NULL;) {
    *slash = 0;
    cores = lesser(cores, quota_at(folder, unified));
  }
  return cores;
}

static bool lists_cpu(const char *controllers) {
  for (const char *name = controllers; name; name = strchr(name, ',')) {
    name += *name == ',';
    if (!strncmp(name, "cpu", 3) && (name[3] == ',' || !name[3])) return true;
  }
  return false;
}

/* A line is ID:CONTROLLERS:GROUP; version 2 is ID 0 without controllers. */
static int quota_of_line(char *line, const char *root) {
  char *controllers = strchr(line, ':');
  char *group = controllers ? strchr(controllers + 1, ':') : NULL;
  if (!group) return INT_MAX;
  *controllers++ = 0;
  *group++ = 0;
  if (!*controllers)
    return lesser(quota_above(root, "", group, true), quota_above(root, "/unified", group, true));
  if (!lists_cpu(controllers)) return INT_MAX;
  char hierarchy[256];
  snprintf(hierarchy, sizeof hierarchy, "/%s", controllers);
  return lesser(quota_above(root, hierarchy, group, false),
                quota_above(root, "/cpu", group, false));
}

int threads_quota_cores(const char *membership, const char *root) {
  char text[MAX_TEXT];
  int cores = INT_MAX;
  if (!read_text(membership, text)) return cores;
  for (char *line = text, *end; *line; line = end) {
    end = line + strcspn(line, "\n");
    if (*end) *end++ = 0;
    cores = lesser(cores, quota_of_line(line, root));
  }
  return cores;
}

int threads_usable_cores(void) {
  int cores = affinity_cores();
  if (cores <= 0) cores = (int)sysconf(_SC_NPROCESSORS_ONLN);
#if defined(__linux__)
  cores = lesser(cores, threads_quota_cores("/proc/self/cgroup", "/sys/fs/cgroup"));
#endif
  return cores > 1 ? cores : 1;
}
