// SPDX-License-Identifier: Apache-2.0
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "core/threads.h"

#include <dirent.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* cmocka asserts may only run in the test's own thread: bodies count, the test looks. */

enum { MOST_WORKERS = 64, ITEMS = 200, CHILD_LIMIT_S = 20 };

static int64_t live_blocks;

static void *counted_alloc(void *user, size_t size, size_t alignment) {
  (void)user;
  live_blocks++;
  return aligned_alloc(alignment, (size + alignment - 1) / alignment * alignment);
}

static void counted_free(void *user, void *ptr) {
  (void)user;
  live_blocks--;
  free(ptr);
}

static void *no_alloc(void *user, size_t size, size_t alignment) {
  (void)user;
  (void)size;
  (void)alignment;
  return NULL;
}

static const core_allocator counted = { .alloc = counted_alloc, .free = counted_free };

static threads_pool *make_pool(int threads) {
  threads_pool *pool = threads_pool_create(threads, &counted);
  assert_non_null(pool);
  return pool;
}

/* What a real body does: pull items from a shared counter, write each item's own place. */
typedef struct job {
  atomic_int next;
  int items[ITEMS];
  atomic_int calls[MOST_WORKERS];
  pthread_t thread[MOST_WORKERS];
} job;

static void job_body(void *arg, int worker) {
  job *j = arg;
  atomic_fetch_add(&j->calls[worker], 1);
  j->thread[worker] = pthread_self();
  for (int i; (i = atomic_fetch_add(&j->next, 1)) < ITEMS;) j->items[i]++;
}

static bool job_is_right(const job *j, int workers) {
  for (int i = 0; i < ITEMS; i++)
    if (j->items[i] != 1) return false;
  for (int w = 0; w < MOST_WORKERS; w++)
    if (atomic_load(&j->calls[w]) != (w < workers)) return false;
  return true;
}

static bool run_job(threads_pool *pool, int workers) {
  job j = { .next = 0 };
  threads_run(pool, workers, job_body, &j);
  int size = threads_pool_size(pool);
  return job_is_right(&j, workers < size ? workers : size);
}

static int count_threads(void) {
  DIR *folder = opendir("/proc/self/task");
  if (!folder) return -1;
  int count = 0;
  for (struct dirent *entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}

static double clock_ms(clockid_t clock) {
  struct timespec now;
  clock_gettime(clock, &now);
  return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static void every_index_runs_once(void **state) {
  (void)state;
  for (int size = 1; size <= 8; size++) {
    threads_pool *pool = make_pool(size);
    assert_int_equal(threads_pool_size(pool), size);
    for (int workers = 1; workers <= size + 2; workers++)
      for (int i = 0; i < 20; i++) assert_true(run_job(pool, workers));
    threads_pool_destroy(pool);
  }
}

/* Gaps around the spin's length, so that threads are met spinning, falling asleep and asleep. */
static void no_run_is_lost_at_any_gap(void **state) {
  (void)state;
  threads_pool *pool = make_pool(2);
  for (int i = 0; i < 4000; i++) {
    double end = clock_ms(CLOCK_MONOTONIC) + (i % 100) * 1e-3;
    while (clock_ms(CLOCK_MONOTONIC) < end) {
    }
    assert_true(run_job(pool, 2));
  }
  threads_pool_destroy(pool);
}

static void index_zero_is_the_callers(void **state) {
  (void)state;
  threads_pool *pool = make_pool(4);
  job j = { .next = 0 };
  threads_run(pool, 4, job_body, &j);
  assert_true(pthread_equal(j.thread[0], pthread_self()));
  threads_pool_destroy(pool);
}

static void no_workers_run_nothing(void **state) {
  (void)state;
  threads_pool *pool = make_pool(2);
  job j = { .next = 0 };
  threads_run(pool, 0, job_body, &j);
  threads_run(pool, -3, job_body, &j);
  assert_int_equal(atomic_load(&j.next), 0);
  threads_pool_destroy(pool);
}

static void threads_start_when_needed(void **state) {
  (void)state;
  int before = count_threads();
  if (before < 0) skip();
  threads_pool *single = make_pool(1), *pool = make_pool(6);
  assert_true(run_job(single, 5));
  assert_true(run_job(pool, 1));
  assert_int_equal(count_threads(), before);
  assert_true(run_job(pool, 2));
  assert_int_equal(count_threads(), before + 1);
  assert_true(run_job(pool, 6));
  assert_true(run_job(pool, 3));
  assert_int_equal(count_threads(), before + 5);
  threads_pool_destroy(pool);
  threads_pool_destroy(single);
}

static void runs_allocate_nothing(void **state) {
  (void)state;
  threads_pool *pool = make_pool(3);
  int64_t before = live_blocks;
  for (int i = 0; i < 10; i++) assert_true(run_job(pool, 3));
  assert_int_equal(live_blocks, before);
  threads_pool_destroy(pool);
  assert_int_equal(live_blocks, before - 1);
  assert_null(threads_pool_create(2, &(core_allocator){ .alloc = no_alloc }));
}

typedef struct host {
  threads_pool *pool;
  int runs;
  int wrong;
} host;

static void *host_main(void *arg) {
  host *h = arg;
  for (int i = 0; i < h->runs; i++)
    h->wrong += !run_job(h->pool, 1 + i % threads_pool_size(h->pool));
  return NULL;
}

static void run_hosts(host *hosts, int count) {
  pthread_t threads[16];
  for (int i = 0; i < count; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, host_main, &hosts[i]), 0);
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < count; i++) assert_int_equal(hosts[i].wrong, 0);
}

static void hosts_may_share_a_pool(void **state) {
  (void)state;
  threads_pool *pool = make_pool(3);
  host hosts[4];
  for (int i = 0; i < 4; i++) hosts[i] = (host){ .pool = pool, .runs = 500 };
  run_hosts(hosts, 4);
  threads_pool_destroy(pool);
}

static void pools_do_not_disturb_each_other(void **state) {
  (void)state;
  host hosts[12];
  for (int i = 0; i < 12; i++) hosts[i] = (host){ .pool = make_pool(1 + i % 4), .runs = 100 };
  run_hosts(hosts, 12);
  for (int i = 0; i < 12; i++) threads_pool_destroy(hosts[i].pool);
}

typedef struct nest {
  threads_pool *pool;
  threads_pool *other;
  atomic_int wrong;
} nest;

static void nest_body(void *arg, int worker) {
  nest *n = arg;
  (void)worker;
  if (!run_job(n->pool, 4)) atomic_fetch_add(&n->wrong, 1);
  if (!run_job(n->other, 2)) atomic_fetch_add(&n->wrong, 1);
}

static void bodies_may_run_more(void **state) {
  (void)state;
  nest n = { .pool = make_pool(4), .other = make_pool(2) };
  for (int i = 0; i < 50; i++) threads_run(n.pool, 4, nest_body, &n);
  assert_int_equal(atomic_load(&n.wrong), 0);
  threads_pool_destroy(n.pool);
  threads_pool_destroy(n.other);
}

static void pools_come_and_go(void **state) {
  (void)state;
  int64_t before = live_blocks;
  for (int i = 0; i < 1000; i++) {
    threads_pool *pool = make_pool(3);
    if (i % 4) assert_true(run_job(pool, 1 + i % 3));
    threads_pool_destroy(pool);
  }
  assert_int_equal(live_blocks, before);
}

static void pool_may_exceed_the_cores(void **state) {
  (void)state;
  int size = 4 * threads_usable_cores() + 1;
  threads_pool *pool = make_pool(size < MOST_WORKERS ? size : MOST_WORKERS);
  for (int i = 0; i < 50; i++) assert_true(run_job(pool, MOST_WORKERS));
  threads_pool_destroy(pool);
}

/* The child's exit status is the number of wrong runs; a hang ends with SIGALRM. */
static int fork_and_run(threads_pool *pool) {
  pid_t child = fork();
  if (!child) {
    alarm(CHILD_LIMIT_S);
    int wrong = 0;
    for (int i = 0; i < 10; i++) wrong += !run_job(pool, 3);
    job j = { .next = 0 };
    threads_run(pool, 3, job_body, &j);
    for (int w = 0; w < 3; w++) wrong += !pthread_equal(j.thread[w], pthread_self());
    threads_pool_destroy(pool);
    _exit(wrong);
  }
  int status = -1;
  waitpid(child, &status, 0);
  return status;
}

static void children_run_serially(void **state) {
  (void)state;
  threads_pool *fresh = make_pool(3), *used = make_pool(3);
  assert_true(run_job(used, 3));
  assert_int_equal(fork_and_run(fresh), 0);
  assert_int_equal(fork_and_run(used), 0);
  assert_true(run_job(fresh, 3));
  assert_true(run_job(used, 3));
  threads_pool_destroy(fresh);
  threads_pool_destroy(used);
}

static void children_of_a_busy_pool_run_serially(void **state) {
  (void)state;
  host h = { .pool = make_pool(3), .runs = 3000 };
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, host_main, &h), 0);
  for (int i = 0; i < 10; i++) assert_int_equal(fork_and_run(h.pool), 0);
  pthread_join(thread, NULL);
  assert_int_equal(h.wrong, 0);
  threads_pool_destroy(h.pool);
}

static void refused_threads_are_done_without(void **state) {
  (void)state;
#if defined(__GLIBC__)
  pthread_attr_t before, huge;
  assert_int_equal(pthread_getattr_default_np(&before), 0);
  pthread_attr_init(&huge);
  pthread_attr_setstacksize(&huge, SIZE_MAX / 4 + 1); // more than any address space
  threads_pool *pool = make_pool(4);
  assert_int_equal(pthread_setattr_default_np(&huge), 0);
  int threads = count_threads();
  bool right = run_job(pool, 4) && run_job(pool, 4);
  assert_int_equal(pthread_setattr_default_np(&before), 0);
  assert_true(right);
  assert_int_equal(count_threads(), threads);
  threads_pool_destroy(pool);
#else
  skip();
#endif
}

typedef struct watch {
  atomic_bool begun;
  bool blocked;
  double limit;
} watch;

static void watch_body(void *arg, int worker) {
  watch *w = arg;
  if (!worker) {
    while (!atomic_load(&w->begun) && clock_ms(CLOCK_MONOTONIC) < w->limit) sched_yield();
    return;
  }
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  w->blocked = sigismember(&mask, SIGINT) && !sigismember(&mask, SIGSEGV);
  atomic_store(&w->begun, true);
}

static void host_signals_pass_the_threads_by(void **state) {
  (void)state;
  threads_pool *pool = make_pool(2);
  watch w = { .limit = clock_ms(CLOCK_MONOTONIC) + 10000 };
  threads_run(pool, 2, watch_body, &w);
  sigset_t mask;
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  assert_false(sigismember(&mask, SIGINT));
  assert_true(w.blocked);
  threads_pool_destroy(pool);
}

static void idle_threads_sleep(void **state) {
  (void)state;
  threads_pool *pool = make_pool(2);
  assert_true(run_job(pool, 2));
  double before = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
  usleep(300 * 1000);
  assert_true(clock_ms(CLOCK_PROCESS_CPUTIME_ID) - before < 50);
  threads_pool_destroy(pool);
}

static void cores_follow_the_affinity(void **state) {
  (void)state;
  assert_true(threads_usable_cores() >= 1);
#if defined(__linux__)
  cpu_set_t before, one;
  assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
  assert_true(threads_usable_cores() <= CPU_COUNT(&before));
  CPU_ZERO(&one);
  for (size_t cpu = 0; cpu < CPU_SETSIZE && !CPU_COUNT(&one); cpu++)
    if (CPU_ISSET(cpu, &before)) CPU_SET(cpu, &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  int cores = threads_usable_cores();
  threads_pool *pool = make_pool(0), *crowded = make_pool(3);
  bool right = threads_pool_size(pool) == 1 && run_job(crowded, 3);
  assert_int_equal(sched_setaffinity(0, sizeof before, &before), 0);
  assert_int_equal(cores, 1);
  assert_true(right);
  threads_pool_destroy(pool);
  threads_pool_destroy(crowded);
#endif
}

/* A group tree as under /sys/fs/cgroup. Paths end in '/' for folders; a shorter list ends in NULL.
 */
typedef struct quota_case {
  const char *membership;
  const char *entries[12]; /* path, text, path, text, … */
  int cores;
} quota_case;

static const quota_case quota_cases[] = {
  { "0::/\n", { NULL }, INT_MAX },
  { "0::/a/b\n", { "a/", "", "a/b/", "", "a/b/cpu.max", "250000 100000\n" }, 3 },
  { "0::/a/b\n",
    { "a/", "", "a/b/", "", "a/cpu.max", "100000 100000\n", "a/b/cpu.max", "max 100000\n" },
    1 },
  { "0::/a\n", { "a/", "", "a/cpu.max", "max 100000\n" }, INT_MAX },
  { "0::/a\n", { "a/", "", "a/cpu.max", "10000 100000\n" }, 1 },
  { "0::/not/mounted\n", { "cpu.max", "400000 100000\n" }, 4 },
  { "0::/a\n", { "a/", "", "a/cpu.max", "nonsense" }, INT_MAX },
  { "3:memory:/m\n4:cpu,cpuacct:/d\n0::/\n",
    { "cpu,cpuacct/", "", "cpu,cpuacct/d/", "", "cpu,cpuacct/d/cpu.cfs_quota_us", "150000\n",
      "cpu,cpuacct/d/cpu.cfs_period_us", "100000\n" },
    2 },
  { "4:cpuacct,cpu:/docker/x\n",
    { "cpu/", "", "cpu/cpu.cfs_quota_us", "500000\n", "cpu/cpu.cfs_period_us", "100000\n" },
    5 },
  { "4:cpu:/\n",
    { "cpu/", "", "cpu/cpu.cfs_quota_us", "-1\n", "cpu/cpu.cfs_period_us", "100000\n" },
    INT_MAX },
  { "5:cpuset:/\n",
    { "cpu/", "", "cpu/cpu.cfs_quota_us", "100000\n", "cpu/cpu.cfs_period_us", "100000\n" },
    INT_MAX },
  { "1:cpu:/\n0::/a\n",
    { "unified/", "", "unified/a/", "", "unified/a/cpu.max", "200000 100000\n" },
    2 },
  { "no colons\n\n7\n:\n", { NULL }, INT_MAX },
};

static void make_entry(const char *root, const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", root, path);
  if (full[strlen(full) - 1] == '/') {
    assert_int_equal(mkdir(full, 0700), 0);
    return;
  }
  FILE *file = fopen(full, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
}

static void remove_entry(const char *root, const char *path) {
  char full[512];
  snprintf(full, sizeof full, "%s/%s", root, path);
  remove(full);
}

static void quotas_are_read_as_the_kernel_writes_them(void **state) {
  (void)state;
  char root[64] = "threads_XXXXXX", membership[80];
  assert_non_null(mkdtemp(root));
  snprintf(membership, sizeof membership, "%s/membership", root);
  for (size_t c = 0; c < sizeof quota_cases / sizeof *quota_cases; c++) {
    const quota_case *q = &quota_cases[c];
    int count = 0;
    make_entry(root, "membership", q->membership);
    for (; count < 12 && q->entries[count]; count += 2)
      make_entry(root, q->entries[count], q->entries[count + 1]);
    int cores = threads_quota_cores(membership, root);
    while ((count -= 2) >= 0) remove_entry(root, q->entries[count]);
    if (cores != q->cores) fail_msg("case %zu: %d cores, expected %d", c, cores, q->cores);
  }
  remove_entry(root, "membership");
  assert_int_equal(threads_quota_cores(membership, root), INT_MAX);
  assert_int_equal(rmdir(root), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_index_runs_once),
    cmocka_unit_test(no_run_is_lost_at_any_gap),
    cmocka_unit_test(index_zero_is_the_callers),
    cmocka_unit_test(no_workers_run_nothing),
    cmocka_unit_test(threads_start_when_needed),
    cmocka_unit_test(runs_allocate_nothing),
    cmocka_unit_test(hosts_may_share_a_pool),
    cmocka_unit_test(pools_do_not_disturb_each_other),
    cmocka_unit_test(bodies_may_run_more),
    cmocka_unit_test(pools_come_and_go),
    cmocka_unit_test(pool_may_exceed_the_cores),
    cmocka_unit_test(children_run_serially),
    cmocka_unit_test(children_of_a_busy_pool_run_serially),
    cmocka_unit_test(refused_threads_are_done_without),
    cmocka_unit_test(host_signals_pass_the_threads_by),
    cmocka_unit_test(idle_threads_sleep),
    cmocka_unit_test(cores_follow_the_affinity),
    cmocka_unit_test(quotas_are_read_as_the_kernel_writes_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
