// SPDX-License-Identifier: Apache-2.0
#ifndef WISDOM_INTERNAL_H
#define WISDOM_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attn/hardware.h"
#include "attn/wisdom.h"
#include "core/alloc.h"

/* Bounds of what is kept, in a file and in memory. A line has at most WISDOM_LINE bytes. */
enum {
  WISDOM_FORMAT = 1,
  WISDOM_LINE = 4096,
  WISDOM_SAMPLES = 16,       /* times of one problem, implementation and number of threads */
  WISDOM_PER_MACHINE = 2000, /* times, and as many values */
  WISDOM_MACHINE_BYTES = 1 << 20,
  WISDOM_MACHINES = 16,
  WISDOM_OTHERS = 256,          /* lines of an unknown kind */
  WISDOM_FILE_BYTES = 32 << 20, /* more is not read */
};

/* ---- line.c: one line of a file */

typedef enum wisdom_kind { WISDOM_MACHINE, WISDOM_VALUE, WISDOM_TIME, WISDOM_OTHER } wisdom_kind;

typedef struct wisdom_entry {
  wisdom_kind kind;
  bool fresh;          /* not in the file that is written */
  int threads;         /* TIME */
  uint32_t version;    /* of the library: TIME, VALUE */
  uint64_t machine;    /* fingerprint; 0: OTHER */
  int64_t when;        /* nanoseconds since 1970, UTC; 0 for MACHINE and OTHER */
  double number;       /* seconds, or the value */
  const char *subject; /* TIME: implementation, VALUE: implementation or "machine", else "" */
  const char *text;    /* TIME: SHAPE, VALUE: key, MACHINE: description, OTHER: the whole line */
} wisdom_entry;

uint32_t wisdom_crc(uint32_t crc, const char *bytes, size_t length); /* CRC-32; begin with 0 */
/* [a-zA-Z0-9_.:+/-], 1 to ATTN_WISDOM_NAME - 1 characters. */
bool wisdom_name_ok(const char *name);
/* "1.2.3" with each part below 1024 as a number that grows with it; false on anything else. */
bool wisdom_version_read(const char *text, uint32_t *version);
/* Splits `line` (without its checksum), which is changed and which the entry points into. False if
 * it is none. Runs in the "C" locale (wisdom_locale_enter). */
bool wisdom_line_read(char *line, wisdom_entry *entry);
/* Writes the line without checksum and newline. Its length, or -1 if it is longer than WISDOM_LINE.
 */
int wisdom_line_write(const wisdom_entry *entry, char line[WISDOM_LINE]);

/* Numbers have a '.' whatever the host's locale: the thread's is changed and put back. */
typedef struct wisdom_locale {
  void *own, *old;
} wisdom_locale;
wisdom_locale wisdom_locale_enter(void);
void wisdom_locale_leave(wisdom_locale locale);

/* ---- store.c: a set of entries */

typedef struct wisdom_chunk wisdom_chunk;
typedef struct wisdom_store {
  const core_allocator *allocator;
  wisdom_entry *entries;
  int count, capacity;
  int *index; /* open addressing; entry number + 1, 0: empty */
  int index_size;
  wisdom_chunk *chunks; /* of text */
} wisdom_store;

void wisdom_store_init(wisdom_store *store, const core_allocator *allocator);
void wisdom_store_free(wisdom_store *store);
/* Adds a copy. A value or machine that is there already gives way to the newer one, or with
 * `override` to this one; equal times are one. False when memory is short. */
bool wisdom_store_add(wisdom_store *store, const wisdom_entry *entry, bool override);
/* The entry that is the same but for a value's number; NULL if there is none. */
const wisdom_entry *wisdom_store_find(const wisdom_store *store, const wisdom_entry *entry);
const wisdom_entry *wisdom_store_value(const wisdom_store *store, uint64_t machine,
                                       uint32_t version, const char *subject, const char *key);
/* Keeps the entries that `keep` is true for. False, and nothing changed, when memory is short. */
typedef bool (*wisdom_keep)(void *user, const wisdom_entry *entry, int number);
bool wisdom_store_filter(wisdom_store *store, wisdom_keep keep, void *user);
/* Brings the store within the bounds; what is oldest goes. The machine `own` is not among those
 * that go. False when memory is short. */
bool wisdom_store_trim(wisdom_store *store, uint64_t own);

/* ---- text.c: the text of a file */

typedef struct wisdom_text {
  char *bytes;
  size_t length;
} wisdom_text;

/* Entries for which `want` (NULL: all) is true are added. Never fails but for memory (false): what
 * cannot be read is counted in *file, whose state is set. */
bool wisdom_text_read(wisdom_store *store, const char *text, size_t length, wisdom_keep want,
                      void *user, bool override, attn_wisdom_file *file);
/* A whole file's text, in an order that depends on the entries alone. False when memory is short.
 */
bool wisdom_text_write(const wisdom_store *store, const core_allocator *allocator,
                       wisdom_text *text);

/* ---- file.c */

/* Reads a file of at most WISDOM_FILE_BYTES. *file gets state ABSENT or UNREADABLE (then `why` says
 * it), or FOREIGN where the file is larger; READ otherwise. False when memory is short. */
enum { WISDOM_WHY = 256 };
bool wisdom_file_read(const char *path, const core_allocator *allocator, wisdom_text *text,
                      attn_wisdom_file *file, char why[WISDOM_WHY]);
/* Replaces the file at once or not at all and syncs it. `temporary` is the suffix of the file that
 * is written first. */
attn_status wisdom_file_write(const char *path, const char *temporary, const wisdom_text *text);
/* The exclusive lock of a file that is rewritten: PATH.lock, which stays. -1 after core_fail. */
int wisdom_file_lock(const char *path);
void wisdom_file_unlock(int lock);
/* Makes the folders that the file lies in. */
attn_status wisdom_file_folders(const char *path);

/* ---- places.c */

/* Where wisdom lies; "" where there is none. */
enum { WISDOM_PATH = 4096 };
typedef struct wisdom_places {
  char system[WISDOM_PATH], own[WISDOM_PATH];
  bool make_folders; /* of `own`: not of a place that someone named */
} wisdom_places;
/* `named` NULL: the places of the environment; "": none. */
attn_status wisdom_places_find(const char *named, wisdom_places *places);

#endif
