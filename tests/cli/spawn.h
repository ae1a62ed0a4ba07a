// SPDX-License-Identifier: Apache-2.0
/* Running the built `attn` in a folder of its own and looking at what it says. */
#ifndef TESTS_CLI_SPAWN_H
#define TESTS_CLI_SPAWN_H

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

typedef struct spawned {
  int status;
  char out[1 << 18], err[1 << 14];
} spawned;

static char spawn_folder[64];

/* Group fixtures: the tests work inside a new folder, and without the user's environment. */
static inline int spawn_setup(void **state) {
  static const char *const names[] = { "ATTN_BACKEND", "ATTN_ISA", "ATTN_NUM_THREADS",
                                       "ATTN_VERBOSE" };
  (void)state;
  for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) unsetenv(names[i]);
  snprintf(spawn_folder, sizeof(spawn_folder), "/tmp/attn-cli-XXXXXX");
  if (!mkdtemp(spawn_folder) || chdir(spawn_folder)) return -1;
  return 0;
}

static inline int spawn_teardown(void **state) {
  (void)state;
  DIR *d = opendir(".");
  for (struct dirent *e; d && (e = readdir(d));)
    if (e->d_name[0] != '.') remove(e->d_name);
  if (d) closedir(d);
  return chdir("/") || rmdir(spawn_folder) ? -1 : 0;
}

static inline void read_text(const char *path, char *text, size_t size) {
  FILE *in = fopen(path, "rb");
  assert_non_null(in);
  size_t n = fread(text, 1, size, in);
  assert_true(n < size);
  text[n] = 0;
  fclose(in);
}

static inline void write_bytes(const char *path, const void *bytes, size_t size) {
  FILE *out = fopen(path, "wb");
  assert_non_null(out);
  assert_int_equal(fwrite(bytes, 1, size, out), size);
  assert_int_equal(fclose(out), 0);
}

/* Runs attn with arguments as a shell reads them; the result lasts until the next call. */
__attribute__((format(printf, 1, 2))) static inline const spawned *attn(const char *format, ...) {
  static spawned s;
  char arguments[8192], command[9216];
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof(arguments), format, args);
  va_end(args);
  snprintf(command, sizeof(command), ">stdout.txt 2>stderr.txt '%s' %s", ATTN_COMMAND, arguments);
  int raw = system(command); // NOLINT(cert-env33-c): the shell reads the tests' own quoted words
  assert_true(WIFEXITED(raw));
  s.status = WEXITSTATUS(raw);
  read_text("stdout.txt", s.out, sizeof(s.out));
  read_text("stderr.txt", s.err, sizeof(s.err));
  if (strstr(s.err, "Sanitizer") || strstr(s.err, "runtime error"))
    fail_msg("attn %s\n%s", arguments, s.err);
  return &s;
}

/* The exit status, and a word that standard error must hold. */
__attribute__((format(printf, 3, 4))) static inline const spawned *
fails(int status, const char *word, const char *format, ...) {
  char arguments[8192];
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof(arguments), format, args);
  va_end(args);
  const spawned *s = attn("%s", arguments);
  if (s->status != status)
    fail_msg("attn %s\nexit status %d, not %d\n%s", arguments, s->status, status, s->err);
  if (!strstr(s->err, word))
    fail_msg("attn %s\nthe message has no \"%s\":\n%s", arguments, word, s->err);
  return s;
}

__attribute__((format(printf, 1, 2))) static inline const spawned *succeeds(const char *format,
                                                                            ...) {
  char arguments[8192];
  va_list args;
  va_start(args, format);
  vsnprintf(arguments, sizeof(arguments), format, args);
  va_end(args);
  const spawned *s = attn("%s", arguments);
  if (s->status) fail_msg("attn %s\nexit status %d\n%s", arguments, s->status, s->err);
  return s;
}

/* No control characters but newlines; at most `width` characters a line (UTF-8). */
static inline void plain(const char *text, int width) {
  int column = 0;
  assert_true(text[0]);
  for (const char *p = text; *p; p++) {
    unsigned char c = (unsigned char)*p;
    if (c != '\n' && (c < 32 || c == 127)) fail_msg("control character %d in:\n%s", c, text);
    if (c == '\n')
      column = 0;
    else if ((c & 0xc0) != 0x80 && ++column > width)
      fail_msg("more than %d columns:\n%s", width, text);
  }
}

static inline void readable(const char *output) { plain(output, 100); }
/* A message is one line, however long, so that it can be searched for. */
static inline void readable_message(const char *message) { plain(message, 1000); }

/* Standard output as JSON; json_decref it. */
static inline json_t *parsed(const spawned *s) {
  json_error_t error;
  json_t *root = json_loads(s->out, JSON_REJECT_DUPLICATES, &error);
  if (!root) fail_msg("no JSON, line %d: %s\n%s", error.line, error.text, s->out);
  return root;
}

/* Every key of a list that ends with NULL is there. A key may be followed by its type: 's' string,
 * 'n' number, 'N' number or null, 'S' string or null, 'i' integer, 'b' boolean, 'B' boolean or
 * null, 'a' array: "name:s". */
static inline void has_keys(const json_t *o, const char *const *keys) {
  assert_true(json_is_object(o));
  for (; *keys; keys++) {
    char name[64];
    const char *colon = strchr(*keys, ':');
    snprintf(name, sizeof(name), "%.*s", (int)(colon ? (size_t)(colon - *keys) : strlen(*keys)),
             *keys);
    const json_t *v = json_object_get(o, name);
    if (!v) fail_msg("no key \"%s\"", name);
    bool null = json_is_null(v), ok = true;
    switch (colon ? colon[1] : 0) {
    case 's':
      ok = json_is_string(v);
      break;
    case 'S':
      ok = json_is_string(v) || null;
      break;
    case 'n':
      ok = json_is_number(v);
      break;
    case 'N':
      ok = json_is_number(v) || null;
      break;
    case 'i':
      ok = json_is_integer(v);
      break;
    case 'b':
      ok = json_is_boolean(v);
      break;
    case 'B':
      ok = json_is_boolean(v) || null;
      break;
    case 'a':
      ok = json_is_array(v);
      break;
    default:
      break;
    }
    if (!ok) fail_msg("key \"%s\" has the wrong type", *keys);
  }
}

#endif
