// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void hardware_note(hardware_notes notes, const char *format, ...) {
  if (!notes.text || notes.size < 8) return;
  size_t used = strnlen(notes.text, notes.size - 1);
  char line[512];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof line, format, args);
  va_end(args);
  int length = snprintf(notes.text + used, notes.size - used, "%s%s", used ? "; " : "", line);
  if (length < 0) {
    notes.text[used] = '\0';
  } else if ((size_t)length >= notes.size - used) {
    memcpy(notes.text + notes.size - 4, "...", 4);
  }
}

hardware_notes hardware_notes_of(attn_capability *capability) {
  return (hardware_notes){ capability->notes, sizeof capability->notes };
}

void hardware_text_copy(char *out, size_t size, const char *in) {
  if (size == 0) return;
  size_t n = 0;
  bool blank = false;
  for (; *in && n + 1 < size; in++) {
    char c = *in;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      blank = true;
      continue;
    }
    if (blank && n > 0) {
      if (n + 2 >= size) break;
      out[n++] = ' ';
    }
    blank = false;
    out[n++] = c > ' ' && c < 127 ? c : '?';
  }
  out[n] = '\0';
}

static const char *skip_separators(const char *s) {
  while (*s == '-' || *s == '_' || *s == ' ') s++;
  return s;
}

bool hardware_names_equal(const char *a, const char *b) {
  for (;; a++, b++) {
    a = skip_separators(a);
    b = skip_separators(b);
    if (tolower((unsigned char)*a) != tolower((unsigned char)*b)) return false;
    if (*a == '\0') return true;
  }
}
