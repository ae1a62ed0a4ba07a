// SPDX-License-Identifier: Apache-2.0
#ifndef CORE_THREADS_H
#define CORE_THREADS_H

#include "core/alloc.h"

/* A body is called once per worker index in [0, workers) and pulls its work items from a counter
 * that all bodies of the run share, so it must not wait for another body: they may run one by one.
 */
typedef void (*threads_body)(void *arg, int worker);

typedef struct threads_pool threads_pool;

/* A pool of `threads` threads, the caller of threads_run being one of them; <= 0 means
 * threads_usable_cores(). Starts no thread: the runs that need them do, and the pool keeps them.
 * Returns NULL when `allocator`, which is copied, has no memory. */
threads_pool *threads_pool_create(int threads, const core_allocator *allocator);

/* Ends and joins the threads. No run may be in progress. In a child of fork() it only frees. */
void threads_pool_destroy(threads_pool *pool);

int threads_pool_size(const threads_pool *pool);

/* Runs body(arg, i) once for each i in [0, workers) and returns when all are done; what the bodies
 * wrote is then visible to the caller. `workers` is clamped to the pool's size. The caller runs
 * index 0, and every index that no thread of the pool has taken by the time it is done with its
 * own, so a thread that is slow to wake delays nobody.
 *
 * Any thread may call it at any time, bodies included. When the pool is busy with another run, or
 * was created before a fork() in this process's parent, or has no threads because none could be
 * started, all indices run one after the other in the calling thread. Allocates nothing but the
 * threads it starts. Idle threads spin for some tens of microseconds after a run, then sleep. The
 * pool's threads keep the affinity of the caller that started them, less the core of a caller they
 * were found sharing a core with. They block signals. */
void threads_run(threads_pool *pool, int workers, threads_body body, void *arg);

/* Cores the calling thread may use: its affinity mask or the cgroup's CPU quota rounded up,
 * whichever is less; at least 1. Reads /proc and /sys, so keep the answer. */
int threads_usable_cores(void);

/* The quota's part of threads_usable_cores, INT_MAX when there is none; `membership` has the form
 * of /proc/self/cgroup and `root` that of /sys/fs/cgroup. */
int threads_quota_cores(const char *membership, const char *root);

#endif
