// SPDX-License-Identifier: Apache-2.0
#ifndef WISDOM_STATE_H
#define WISDOM_STATE_H

#include <pthread.h>

#include "wisdom/internal.h"
#include "wisdom/wisdom.h"

enum { WISDOM_PENDING = 1000 };

/* A recorded time that is not yet an entry: making one takes longer than a host should wait. */
typedef struct wisdom_pending {
  attn_problem problem;
  char implementation[ATTN_WISDOM_NAME];
  double seconds;
  int64_t when;
} wisdom_pending;

/* What is to go from the file at the next save. */
typedef struct wisdom_forgotten {
  uint64_t machine;
  char implementation[ATTN_WISDOM_NAME]; /* "": any */
  int64_t when;
} wisdom_forgotten;
enum { WISDOM_FORGOTTEN = 64 };

struct wisdom {
  core_allocator allocator;
  wisdom_log log;
  void *log_user;
  uint64_t machine;
  char description[ATTN_WISDOM_DESCRIPTION];
  uint32_t version;
  int threads;
  char *path; /* that is written; NULL: none */
  bool make_folders;
  attn_wisdom_file system, own;

  pthread_mutex_t saving; /* held before `lock` */
  pthread_mutex_t lock;   /* of all below */
  wisdom_store store;
  wisdom_pending *pending; /* ring, made with the first record */
  int pending_first, pending_count;
  wisdom_forgotten forgotten[WISDOM_FORGOTTEN];
  int forgotten_count;
  int others; /* in the files, not kept here */
  int64_t clock;
  uint64_t generation;
};

/* ---- wisdom.c */

void wisdom_logf(const wisdom *w, attn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Says what was wrong with a file. */
void wisdom_log_file(const wisdom *w, const attn_wisdom_file *file, const char *why);
/* Whether the entry applies to the context. */
bool wisdom_applies(const wisdom *w, const wisdom_entry *entry);
/* Makes entries of the pending records; the lock is held. False when memory is short. */
bool wisdom_settle(wisdom *w);
/* Nanoseconds since 1970, later than any it gave before; the lock is held. */
int64_t wisdom_now(wisdom *w);

/* ---- merge.c */

bool wisdom_matches(const wisdom_entry *entry, uint64_t machine, const char *implementation);
/* ATTN_OK for a file whose place may be written to; else the failure. */
attn_status wisdom_check_place(const attn_wisdom_file *file, const char *why);
/* Reads a file whole and adds its entries. Fails where it cannot be read. `absent`: that it is not
 * there is no failure. */
attn_status wisdom_gather(wisdom_store *store, const char *path, bool absent, wisdom_keep want,
                          void *user, attn_wisdom_file *file);
/* Trims the store and replaces the file by it, unless something is there that may not be
 * overwritten. */
attn_status wisdom_replace(wisdom_store *store, const char *path);

#endif
