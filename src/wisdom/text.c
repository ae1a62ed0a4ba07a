// SPDX-License-Identifier: Apache-2.0
/*
 * Every line ends with the checksum of what is before it. Lines are found by their checksums where
 * line ends are damaged, and read also where the first line is: one damaged byte costs one line at
 * most.
 */
#include <inttypes.h>
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "wisdom/internal.h"

static const char header[] = "attn-wisdom ", footer[] = "end ";
enum { MARK = 10 }; /* " #" and eight digits */
static const int64_t DAY = 86400 * (int64_t)1000000000;

typedef enum found { FOUND, FOUND_JOINED, FOUND_NOTHING } found;

/* Whether a mark is at `at`, and the checksum it says. */
static bool read_mark(const char *at, uint32_t *crc) {
  uint32_t value = 0;
  if (at[0] != ' ' || at[1] != '#') return false;
  for (int i = 2; i < MARK; i++) {
    char c = at[i];
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    value = value << 4 | (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  *crc = value;
  return true;
}

/* Takes the next line at *at, which moves past it, without its mark. JOINED: what ends it is no
 * newline, another line may follow. */
static found next_line(const char *text, size_t length, size_t *at, char line[WISDOM_LINE]) {
  const char *begin = text + *at, *newline = memchr(begin, '\n', length - *at);
  size_t size = newline ? (size_t)(newline - begin) : length - *at;
  uint32_t said, crc = 0;
  *at += size + (newline != NULL);
  if (size > MARK && size - MARK < WISDOM_LINE && read_mark(begin + size - MARK, &said) &&
      wisdom_crc(0, begin, size - MARK) == said) {
    memcpy(line, begin, size - MARK);
    line[size - MARK] = 0;
    return FOUND;
  }
  for (size_t i = 0; i + MARK < size && i < WISDOM_LINE; i++) {
    if (read_mark(begin + i, &said) && crc == said) {
      memcpy(line, begin, i);
      line[i] = 0;
      *at = (size_t)(begin - text) + i + MARK + 1;
      return FOUND_JOINED;
    }
    crc = wisdom_crc(crc, begin + i, 1);
  }
  return FOUND_NOTHING;
}

/* The number after a word, or -1. */
static int64_t number_after(const char *line, const char *word) {
  size_t length = strlen(word);
  if (strncmp(line, word, length) != 0) return -1;
  line += length;
  size_t digits = strspn(line, "0123456789");
  return digits && digits < 10 && !line[digits] ? atoll(line) : -1;
}

typedef struct reader {
  wisdom_store *store;
  wisdom_keep want;
  void *user;
  bool override;
  attn_wisdom_file *file;
  int64_t latest; /* a later time is a clock's mistake */
  int good;       /* lines read */
  int64_t since;  /* lines, good or bad, since the first line */
  bool ended;
} reader;

static bool take_entry(reader *r, char *line) {
  wisdom_entry e;
  if (!wisdom_line_read(line, &e)) {
    r->file->damaged++;
    return true;
  }
  r->good++;
  r->file->unknown += e.kind == WISDOM_OTHER;
  if (e.when > r->latest) e.when = 0;
  return (r->want && !r->want(r->user, &e, 0)) || wisdom_store_add(r->store, &e, r->override);
}

/* False when memory is short. */
static bool take_line(reader *r, char *line, bool first) {
  int64_t format = number_after(line, header), lines = number_after(line, footer);
  if (format > 0) {
    if (first && format > WISDOM_FORMAT) r->file->state = ATTN_WISDOM_FUTURE;
    r->since = 0, r->ended = false; // files may be joined
    return true;
  }
  if (first) r->file->damaged++;
  if (lines >= 0) {
    if (lines > r->since) r->file->damaged++;
    r->ended = true;
    return true;
  }
  r->file->lines++, r->since++;
  r->ended = false;
  return take_entry(r, line);
}

static void conclude(reader *r, const char *text, size_t length) {
  char begin[64];
  attn_wisdom_file *f = r->file;
  int n = snprintf(begin, sizeof(begin), "%s%d", header, WISDOM_FORMAT);
  n += snprintf(begin + n, sizeof(begin) - (size_t)n, " #%08" PRIx32 "\n",
                wisdom_crc(0, begin, (size_t)n));
  bool start = length <= (size_t)n && !memcmp(text, begin, length); // of a first line, or all of it
  bool ours = start || (length > (size_t)n && !memcmp(text, begin, (size_t)n));
  if (!r->ended && length) f->damaged++;
  f->state = !ours && !r->good ? ATTN_WISDOM_FOREIGN
             : f->damaged      ? ATTN_WISDOM_DAMAGED
                               : ATTN_WISDOM_READ;
}

bool wisdom_text_read(wisdom_store *store, const char *text, size_t length, wisdom_keep want,
                      void *user, bool override, attn_wisdom_file *file) {
  char line[WISDOM_LINE];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  file->state = ATTN_WISDOM_READ;
  file->bytes = (int64_t)length;
  file->lines = file->damaged = file->unknown = 0;
  reader r = { store, want, user, override, file, (int64_t)now.tv_sec * 1000000000 + DAY,
               0,     0,    false };
  if (!length) return true;
  wisdom_locale locale = wisdom_locale_enter();
  bool enough = true;
  for (size_t at = 0; at < length && enough && file->state != ATTN_WISDOM_FUTURE;) {
    bool first = at == 0;
    found what = next_line(text, length, &at, line);
    if (what == FOUND_JOINED) file->damaged++;
    if (what == FOUND_NOTHING)
      file->damaged++, file->lines += !first, r.since += !first;
    else
      enough = take_line(&r, line, first);
  }
  wisdom_locale_leave(locale);
  if (file->state != ATTN_WISDOM_FUTURE) conclude(&r, text, length);
  return enough;
}

static int compare_text(const wisdom_entry *a, const wisdom_entry *b) {
  int order = strcmp(a->subject, b->subject);
  return order ? order : strcmp(a->text, b->text);
}

/* By machine, kind, what it is of, age; lines of unknown kinds come last. */
static int compare(const void *left, const void *right) {
  const wisdom_entry *a = *(const wisdom_entry *const *)left;
  const wisdom_entry *b = *(const wisdom_entry *const *)right;
  bool last_a = a->kind == WISDOM_OTHER, last_b = b->kind == WISDOM_OTHER;
  if (last_a != last_b) return last_a - last_b;
  if (a->machine != b->machine) return a->machine < b->machine ? -1 : 1;
  if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
  int order = compare_text(a, b);
  if (order) return order;
  if (a->version != b->version) return a->version < b->version ? -1 : 1;
  if (a->threads != b->threads) return a->threads < b->threads ? -1 : 1;
  if (a->when != b->when) return a->when < b->when ? -1 : 1;
  return (a->number > b->number) - (a->number < b->number);
}

static size_t put_line(char *at, const char *line) {
  size_t length = strlen(line);
  memcpy(at, line, length);
  return length +
         (size_t)snprintf(at + length, MARK + 2, " #%08" PRIx32 "\n", wisdom_crc(0, line, length));
}

bool wisdom_text_write(const wisdom_store *s, const core_allocator *a, wisdom_text *text) {
  enum { REST = 160 }; /* more than a line has beside its texts */
  char line[WISDOM_LINE];
  size_t room = 2 * REST, length = 0;
  int64_t lines = 0;
  for (int i = 0; i < s->count; i++)
    room += strlen(s->entries[i].text) + strlen(s->entries[i].subject) + REST;
  const wisdom_entry **order =
      a->alloc(a->user, ((size_t)s->count + 1) * sizeof(*order), alignof(wisdom_entry *));
  char *bytes = a->alloc(a->user, room, 1);
  if (!order || !bytes) {
    if (order) a->free(a->user, order);
    if (bytes) a->free(a->user, bytes);
    return false;
  }
  for (int i = 0; i < s->count; i++) order[i] = &s->entries[i];
  qsort(order, (size_t)s->count, sizeof(*order), compare);
  wisdom_locale locale = wisdom_locale_enter();
  snprintf(line, sizeof(line), "%s%d", header, WISDOM_FORMAT);
  length += put_line(bytes, line);
  for (int i = 0; i < s->count; i++)
    if (wisdom_line_write(order[i], line) > 0) length += put_line(bytes + length, line), lines++;
  snprintf(line, sizeof(line), "%s%" PRId64, footer, lines);
  length += put_line(bytes + length, line);
  bytes[length] = 0;
  wisdom_locale_leave(locale);
  a->free(a->user, order);
  *text = (wisdom_text){ bytes, length };
  return true;
}
