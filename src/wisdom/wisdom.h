// SPDX-License-Identifier: Apache-2.0
/* What a context knows from files and will write to them. Thread-safe. */
#ifndef WISDOM_WISDOM_H
#define WISDOM_WISDOM_H

#include "attn/wisdom.h"
#include "core/alloc.h"

typedef struct wisdom wisdom;
typedef void (*wisdom_log)(void *user, attn_log_level level, const char *message);

typedef struct wisdom_setup {
  const char *path; /* NULL: the default places; "": none */
  const attn_capability *capability;
  int threads;
  const core_allocator *allocator;
  wisdom_log log;
  void *log_user;
} wisdom_setup;

/* Reads the files. What is wrong with them goes to the log; fails for lack of memory, or for a path
 * that is too long. */
attn_status wisdom_create(const wisdom_setup *setup, wisdom **w);
void wisdom_destroy(wisdom *w);

/* Notes a time, in constant time; `implementation` is a full name. When many come between two saves
 * the latest thousand are kept. */
void wisdom_record(wisdom *w, const attn_problem *problem, const char *implementation,
                   double seconds);
/* Forgets the times in memory, not those in files. */
void wisdom_clear_times(wisdom *w);
/* The latest `most` times that apply to the context, oldest first, after a visit with NULL texts.
 * Visits hold the lock: they call nothing here. */
typedef void (*wisdom_visit_time)(void *user, const char *shape, const char *implementation,
                                  double seconds);
attn_status wisdom_each_time(wisdom *w, int most, wisdom_visit_time visit, void *user);

bool wisdom_value(wisdom *w, const char *subject, const char *key, double *value);
attn_status wisdom_set_value(wisdom *w, const char *subject, const char *key, double value);
/* Every value that applies to the context, in no order; visits as above. */
typedef void (*wisdom_visit_value)(void *user, const char *subject, const char *key, double value);
void wisdom_each_value(wisdom *w, wisdom_visit_value visit, void *user);

/* As the public functions of these names. */
attn_status wisdom_import(wisdom *w, const char *path, attn_wisdom_file *file);
attn_status wisdom_import_text(wisdom *w, const char *text, size_t length, attn_wisdom_file *file);
attn_status wisdom_export(wisdom *w, const char *path);
attn_status wisdom_export_text(wisdom *w, char **text, size_t *length);
attn_status wisdom_forget(wisdom *w, uint64_t machine, const char *implementation);
attn_status wisdom_save(wisdom *w);
void wisdom_statistics(wisdom *w, attn_wisdom_stats *stats);

#endif
