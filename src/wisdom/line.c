// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "wisdom/internal.h"

uint32_t wisdom_crc(uint32_t crc, const char *bytes, size_t length) {
  static const uint32_t table[16] = {
    // of the reflected polynomial 0xedb88320, four bits a step
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c
  };
  crc = ~crc;
  for (size_t i = 0; i < length; i++) {
    crc ^= (unsigned char)bytes[i];
    crc = crc >> 4 ^ table[crc & 15];
    crc = crc >> 4 ^ table[crc & 15];
  }
  return ~crc;
}

wisdom_locale wisdom_locale_enter(void) {
  locale_t own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  return (wisdom_locale){ own, own ? uselocale(own) : (locale_t)0 };
}

void wisdom_locale_leave(wisdom_locale locale) {
  if (!locale.own) return;
  uselocale(locale.old);
  freelocale(locale.own);
}

bool wisdom_name_ok(const char *name) {
  size_t length =
      strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.:+/-");
  return length > 0 && length < ATTN_WISDOM_NAME && !name[length];
}

/* All of `text` as a number in [0, limit], without sign or leading zeros: one number, one text. */
static bool read_int(const char *text, int64_t limit, int64_t *out) {
  size_t length = strspn(text, "0123456789");
  if (length == 0 || length > 19 || text[length] || (text[0] == '0' && length > 1)) return false;
  errno = 0;
  long long n = strtoll(text, NULL, 10);
  if (errno || n > limit) return false;
  *out = n;
  return true;
}

static bool read_hex(const char *text, uint64_t *out) {
  if (strlen(text) != 16 || strspn(text, "0123456789abcdef") != 16) return false;
  *out = strtoull(text, NULL, 16);
  return *out != 0;
}

static bool read_real(const char *text, double *out) {
  char *end;
  if (!*text || strspn(text, "0123456789+-e.") != strlen(text)) return false;
  *out = strtod(text, &end);
  return !*end && isfinite(*out);
}

bool wisdom_version_read(const char *text, uint32_t *version) {
  uint32_t v = 0;
  for (int part = 0; part < 3; part++) {
    char word[8];
    int64_t n;
    size_t length = strcspn(text, ".");
    if (length >= sizeof(word) || (text[length] == '.') != (part < 2)) return false;
    memcpy(word, text, length);
    word[length] = 0;
    if (!read_int(word, 1023, &n)) return false;
    v = v << 10 | (uint32_t)n;
    text += length + (part < 2);
  }
  *version = v;
  return true;
}

/* Ends the first word and returns where the next begins; NULL if there is none. */
static char *next_word(char *word) {
  char *blank = strchr(word, ' ');
  if (!blank || !blank[1] || blank[1] == ' ') return NULL;
  *blank = 0;
  return blank + 1;
}

static bool printable(const char *text) {
  for (; *text; text++)
    if ((unsigned char)*text < 32 || *text == 127) return false;
  return true;
}

/* The words after the kind, of which the last takes the rest of the line. */
static bool split(char *rest, char **words, int count) {
  for (int i = 0; i < count; i++) {
    if (!rest) return false;
    words[i] = rest;
    if (i + 1 < count) rest = next_word(rest);
  }
  return true;
}

static bool read_time(char *rest, wisdom_entry *e) {
  char *w[7];
  int64_t threads;
  if (!split(rest, w, 7) || !read_hex(w[0], &e->machine) ||
      !wisdom_version_read(w[1], &e->version) || !read_int(w[2], INT64_MAX, &e->when) ||
      !read_int(w[3], INT_MAX, &threads) || !wisdom_name_ok(w[4]) || !read_real(w[5], &e->number) ||
      !(e->number > 0) || threads < 1)
    return false;
  e->kind = WISDOM_TIME, e->threads = (int)threads, e->subject = w[4], e->text = w[6];
  return true;
}

static bool read_value(char *rest, wisdom_entry *e) {
  char *w[6];
  if (!split(rest, w, 6) || !read_hex(w[0], &e->machine) ||
      !wisdom_version_read(w[1], &e->version) || !read_int(w[2], INT64_MAX, &e->when) ||
      !wisdom_name_ok(w[3]) || !wisdom_name_ok(w[4]) || !read_real(w[5], &e->number))
    return false;
  e->kind = WISDOM_VALUE, e->subject = w[3], e->text = w[4];
  return true;
}

static bool read_machine(char *rest, wisdom_entry *e) {
  char *w[2];
  if (!split(rest, w, 2) || !read_hex(w[0], &e->machine) || strlen(w[1]) >= ATTN_WISDOM_DESCRIPTION)
    return false;
  e->kind = WISDOM_MACHINE, e->text = w[1];
  return true;
}

bool wisdom_line_read(char *line, wisdom_entry *e) {
  *e = (wisdom_entry){ .kind = WISDOM_OTHER, .subject = "", .text = line };
  if (!*line || !printable(line)) return false;
  if (!strncmp(line, "time ", 5)) return read_time(line + 5, e);
  if (!strncmp(line, "value ", 6)) return read_value(line + 6, e);
  if (!strncmp(line, "machine ", 8)) return read_machine(line + 8, e);
  return true;
}

/* The fewest digits that read back as the same number. */
static void write_real(double x, char out[32]) {
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(out, 32, "%.*g", digits, x);
    if (strtod(out, NULL) == x) break;
  }
}

static void write_version(uint32_t v, char out[16]) {
  snprintf(out, 16, "%u.%u.%u", v >> 20, v >> 10 & 1023, v & 1023);
}

int wisdom_line_write(const wisdom_entry *e, char line[WISDOM_LINE]) {
  char number[32], version[16];
  int n = -1;
  write_real(e->number, number);
  write_version(e->version, version);
  switch (e->kind) {
  case WISDOM_MACHINE:
    n = snprintf(line, WISDOM_LINE, "machine %016" PRIx64 " %s", e->machine, e->text);
    break;
  case WISDOM_VALUE:
    n = snprintf(line, WISDOM_LINE, "value %016" PRIx64 " %s %" PRId64 " %s %s %s", e->machine,
                 version, e->when, e->subject, e->text, number);
    break;
  case WISDOM_TIME:
    n = snprintf(line, WISDOM_LINE, "time %016" PRIx64 " %s %" PRId64 " %d %s %s %s", e->machine,
                 version, e->when, e->threads, e->subject, number, e->text);
    break;
  case WISDOM_OTHER:
    n = snprintf(line, WISDOM_LINE, "%s", e->text);
    break;
  }
  return n < WISDOM_LINE ? n : -1;
}
