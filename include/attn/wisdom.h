// SPDX-License-Identifier: Apache-2.0
/*
 * Wisdom: measured times (attn_record) and calibration numbers, kept in files from one process to
 * the next. docs/wisdom.md has the format and the guarantees.
 *
 * A context reads wisdom when it is made: the system's file, then the user's, or in its place the
 * one that attn_config.wisdom_path or ATTN_WISDOM names. Nothing is written unless the host asks
 * for it: attn_wisdom_save, or ATTN_WISDOM_AUTOSAVE in attn_config.wisdom.
 *
 * An entry belongs to a machine (a fingerprint of the hardware) and to a version of the library. A
 * context uses entries of its own machine and version, times also of its own number of threads
 * alone; it keeps and hands on the others. Every function is thread-safe.
 */
#ifndef ATTN_WISDOM_H
#define ATTN_WISDOM_H

#include "attn/attn.h"
#include "attn/hardware.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { ATTN_WISDOM_NAME = 64, ATTN_WISDOM_DESCRIPTION = 256 };

/* Identifies hardware: what of it can change a time (model, instruction sets, caches, cores,
 * memory; of GPUs model, architecture, units, memory, library). Never 0. `description` (may be
 * NULL) receives what it was made of. */
ATTN_API uint64_t attn_wisdom_machine(const attn_capability *capability,
                                      char description[ATTN_WISDOM_DESCRIPTION]);

/* ---- Calibration ------------------------------------------------------------------------- */

/* A number of this machine and library version by name. `subject` is an implementation
 * ("flash/cpu/avx512") or "machine", `key` what the number is ("peak_f32"); both consist of
 * letters, digits and _ . : + / -, at most 63. ATTN_ERROR_NOT_FOUND if there is none. */
ATTN_API attn_status attn_wisdom_get(const attn_context *context, const char *subject,
                                     const char *key, double *value);
/* Replaces what was there; `value` is finite. Answers that the selector has cached become old. */
ATTN_API attn_status attn_wisdom_set(attn_context *context, const char *subject, const char *key,
                                     double value);

/* ---- Files and text ---------------------------------------------------------------------- */

typedef enum attn_wisdom_state {
  ATTN_WISDOM_NONE = 0,   /* there is no such place */
  ATTN_WISDOM_ABSENT,     /* no file there */
  ATTN_WISDOM_READ,       /* read, every line of it */
  ATTN_WISDOM_DAMAGED,    /* read but for some lines: they are not kept */
  ATTN_WISDOM_FUTURE,     /* of a later format: not read, and never overwritten */
  ATTN_WISDOM_FOREIGN,    /* no wisdom, or too large: not read, and never overwritten */
  ATTN_WISDOM_UNREADABLE, /* not readable by this user, or no regular file */
  ATTN_WISDOM_STATE_COUNT
} attn_wisdom_state;
ATTN_API const char *attn_wisdom_state_name(attn_wisdom_state state); /* NULL if unknown */

/* What reading a file or text met. */
typedef struct attn_wisdom_file {
  char path[1024]; /* cut where longer; "" for text */
  attn_wisdom_state state;
  int64_t bytes;
  int lines;   /* without the first */
  int damaged; /* among them: the checksum or a field is wrong */
  int unknown; /* among them: of a kind that this version does not know; kept as they are */
} attn_wisdom_file;

/* Adds the entries of a file, or of text (NULL, 0 is no text), to the context's. Damaged lines are
 * skipped with a warning to the log. `file` (may be NULL) receives what was met. ATTN_ERROR_IO for
 * a file that cannot be read, ATTN_ERROR_PARSE for one that is no wisdom or of a later format. */
ATTN_API attn_status attn_wisdom_import(attn_context *context, const char *path,
                                        attn_wisdom_file *file);
ATTN_API attn_status attn_wisdom_import_text(attn_context *context, const char *text, size_t length,
                                             attn_wisdom_file *file);

/* Writes all that the context has, saved or not. The file is replaced at once or not at all, except
 * one that is no wisdom or of a later format: ATTN_ERROR_PARSE. */
ATTN_API attn_status attn_wisdom_export(attn_context *context, const char *path);
/* The same as text: *text is NUL-terminated, of *length bytes (may be NULL); free it with
 * attn_wisdom_free_text. */
ATTN_API attn_status attn_wisdom_export_text(attn_context *context, char **text, size_t *length);
ATTN_API void attn_wisdom_free_text(attn_context *context, char *text);

/* Merges files into `output`, which is replaced at once and may be one of them: times add up, of
 * two values the newer stays, old times and machines beyond the bounds go. Damaged lines are left
 * out and counted in files[i] (may be NULL). Fails as attn_wisdom_import and attn_wisdom_export. */
ATTN_API attn_status attn_wisdom_merge(const char *const *paths, int count, const char *output,
                                       attn_wisdom_file *files);

/* Forgets what is known of a machine (0: of any) and an implementation ("flash/cpu/avx512", or
 * "flash" for all that begin with it; NULL: of any, and of the machine itself): in this context
 * now, in its file at the next attn_wisdom_save. */
ATTN_API attn_status attn_wisdom_forget(attn_context *context, uint64_t machine,
                                        const char *implementation);

/* Merges what this context has recorded, imported and set since it was made or last saved into its
 * file. Any number of processes may save at once and nothing is lost; when the call returns ATTN_OK
 * the entries are on the disk. Entries of this machine and an older library version are dropped.
 * ATTN_ERROR_NOT_FOUND without a file to save to; ATTN_ERROR_IO if it cannot be written;
 * ATTN_ERROR_PARSE if what is there is no wisdom or of a later format. */
ATTN_API attn_status attn_wisdom_save(attn_context *context);

/* ---- What there is ----------------------------------------------------------------------- */

typedef struct attn_wisdom_stats {
  uint64_t machine;
  char description[ATTN_WISDOM_DESCRIPTION];
  uint64_t generation; /* grows with every change of what the context knows */
  int times, values;   /* that the context may use */
  int others;          /* of other machines, versions and numbers of threads */
  int unsaved;
  attn_wisdom_file system, own; /* as they were read; `own` is the one that is written */
} attn_wisdom_stats;
ATTN_API attn_status attn_wisdom_statistics(const attn_context *context, attn_wisdom_stats *stats);

/* What a file holds, machine by machine. */
typedef struct attn_wisdom_entries {
  uint64_t machine;
  char description[ATTN_WISDOM_DESCRIPTION]; /* "" if the file does not say */
  int times, values;                         /* of this library version */
  int others;                                /* of other versions */
  int64_t newest;                            /* seconds since 1970 of the latest entry */
} attn_wisdom_entries;
/* Writes up to `capacity` machines and returns how many there are in *count; 0 for a file that is
 * not there. `file` (may be NULL) receives its state. Fails for lack of memory alone. */
ATTN_API attn_status attn_wisdom_list(const char *path, attn_wisdom_entries *entries, int capacity,
                                      int *count, attn_wisdom_file *file);

#ifdef __cplusplus
}
#endif

#endif
