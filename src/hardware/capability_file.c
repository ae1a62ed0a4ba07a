// SPDX-License-Identifier: Apache-2.0
/* Profile files. One table of fields serves writing and reading. Numbers are in the "C" locale,
 * whatever the host's is: the calling thread's is changed for the conversion and put back. */
#include "hardware/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

#include "core/status.h"

static const char header[] = "attn-profile ";
enum { VERSION = 1, SIZE_LIMIT = 1 << 20, LINE_LIMIT = 512 };

enum kind { TEXT, DEVICE, COMPUTE, INT64, INT, REAL, KNOWN, ISA, FLAGS };
static const struct field {
  const char *key;
  enum kind kind;
  size_t offset, size; /* size: of the array, for TEXT */
} fields[] = {
#define FIELD(key, kind)                                                                           \
  { #key, kind, offsetof(attn_capability, key), 0 }
#define STRING(key)                                                                                \
  { #key, TEXT, offsetof(attn_capability, key), sizeof(((attn_capability *)0)->key) }
  STRING(name),
  FIELD(device, DEVICE),
  STRING(arch),
  { "compute_capability", COMPUTE, 0, 0 },
  FIELD(memory_total, INT64),
  FIELD(memory_available, INT64),
  FIELD(compute_units, INT),
  FIELD(clock_hz, REAL),
  FIELD(bandwidth, REAL),
  FIELD(tensor_cores, KNOWN),
  FIELD(f16, KNOWN),
  FIELD(bf16, KNOWN),
  FIELD(f8, KNOWN),
  FIELD(peak_f32, REAL),
  FIELD(peak_f16, REAL),
  FIELD(peak_bf16, REAL),
  FIELD(peak_f8, REAL),
  FIELD(shared_memory_bytes, INT64),
  FIELD(l1_bytes, INT64),
  FIELD(l2_bytes, INT64),
  FIELD(l3_bytes, INT64),
  FIELD(cudnn_version, INT),
  FIELD(unified_memory, KNOWN),
  FIELD(isa, ISA),
  FIELD(isa_flags, FLAGS),
  FIELD(cores_total, INT),
  FIELD(numa_nodes, INT),
  FIELD(cache_line, INT),
#undef FIELD
#undef STRING
};
enum { FIELDS = sizeof(fields) / sizeof(fields[0]) };

static void *field_of(const struct field *field, const attn_capability *c) {
  return (char *)(uintptr_t)c + field->offset;
}

/* ---- Writing ----------------------------------------------------------------------------- */

typedef struct writer {
  char *buffer;
  size_t size;
  int length;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  size_t used = (size_t)w->length;
  va_list args;
  va_start(args, format);
  int n = vsnprintf(used < w->size ? w->buffer + used : NULL, used < w->size ? w->size - used : 0,
                    format, args);
  va_end(args);
  if (n > 0) w->length += n;
}

/* The fewest digits that read back as the same number. */
static void put_real(writer *w, const char *key, double value) {
  char text[40];
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  locale_t old = c_locale ? uselocale(c_locale) : (locale_t)0;
  for (int digits = 6; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, value);
    if (strtod(text, NULL) == value) break;
  }
  if (c_locale) {
    uselocale(old);
    freelocale(c_locale);
  }
  put(w, "%s %s\n", key, text);
}

static void put_flags(writer *w, const char *key, int flags) {
  put(w, "%s", key);
  for (int bit = 0; bit < 31; bit++) {
    const char *name = flags & (1 << bit) ? attn_isa_flag_name(1 << bit) : NULL;
    if (name) put(w, " %s", name);
  }
  put(w, "\n");
}

static void put_field(writer *w, const struct field *field, const attn_capability *c) {
  const void *at = field_of(field, c);
  char text[sizeof c->notes];
  switch (field->kind) {
  case TEXT:
    hardware_text_copy(text, field->size, at);
    if (text[0]) put(w, "%s %s\n", field->key, text);
    break;
  case DEVICE: {
    const char *name = attn_device_type_name(c->device);
    if (name) put(w, "device %s\n", name);
    break;
  }
  case COMPUTE:
    if (c->compute_major > 0)
      put(w, "compute_capability %d.%d\n", c->compute_major, c->compute_minor);
    break;
  case INT64:
    if (*(const int64_t *)at > 0) put(w, "%s %lld\n", field->key, (long long)*(const int64_t *)at);
    break;
  case INT:
    if (*(const int *)at > 0) put(w, "%s %d\n", field->key, *(const int *)at);
    break;
  case REAL:
    if (*(const double *)at > 0 && isfinite(*(const double *)at))
      put_real(w, field->key, *(const double *)at);
    break;
  case KNOWN:
    if (*(const attn_known *)at != ATTN_UNKNOWN)
      put(w, "%s %s\n", field->key, *(const attn_known *)at == ATTN_YES ? "yes" : "no");
    break;
  case ISA:
    if (c->isa != ATTN_ISA_AUTO && attn_isa_name(c->isa)) put(w, "isa %s\n", attn_isa_name(c->isa));
    break;
  case FLAGS:
    if (c->isa_flags) put_flags(w, field->key, c->isa_flags);
    break;
  }
}

int attn_capability_format(const attn_capability *capability, char *buffer, size_t size) {
  writer w = { buffer, buffer ? size : 0, 0 };
  if (w.size > 0) buffer[0] = '\0';
  if (!capability) return 0;
  put(&w, "%s%d\n", header, VERSION);
  char notes[sizeof capability->notes];
  hardware_text_copy(notes, sizeof notes, capability->notes);
  if (notes[0]) put(&w, "# %s\n", notes);
  for (int i = 0; i < FIELDS; i++) put_field(&w, &fields[i], capability);
  return w.length;
}

/* ---- Reading ----------------------------------------------------------------------------- */

/* A non-negative finite number; false on anything else. */
static bool read_real(const char *text, double *value) {
  if (!*text || strspn(text, "0123456789+-eE.") != strlen(text) || *text == '-') return false;
  locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (!c_locale) return false;
  locale_t old = uselocale(c_locale);
  char *end;
  double x = strtod(text, &end);
  uselocale(old);
  freelocale(c_locale);
  if (*end || !isfinite(x) || x < 0) return false;
  *value = x;
  return true;
}

/* Whole numbers may be written as 80e9 too. */
static bool read_int(const char *text, int64_t limit, int64_t *value) {
  int64_t whole;
  if (*text && strspn(text, "0123456789") == strlen(text)) {
    errno = 0;
    whole = strtoll(text, NULL, 10);
    if (errno) return false;
  } else {
    double x;
    if (!read_real(text, &x) || x != floor(x) || x >= 9223372036854775808.0) return false;
    whole = (int64_t)x;
  }
  if (whole > limit) return false;
  *value = whole;
  return true;
}

static bool read_device(const char *text, attn_device_type *device) {
  for (int i = 0; i < ATTN_DEVICE_TYPE_COUNT; i++) {
    const char *name = attn_device_type_name((attn_device_type)i);
    if (name && strcmp(text, name) == 0) {
      *device = (attn_device_type)i;
      return true;
    }
  }
  return false;
}

static bool read_isa(const char *text, attn_isa *isa) {
  for (int i = 0; i < ATTN_ISA_COUNT; i++) {
    const char *name = attn_isa_name((attn_isa)i);
    if (name && strcmp(text, name) == 0) {
      *isa = (attn_isa)i;
      return true;
    }
  }
  return false;
}

static bool read_flags(const char *text, int *flags) {
  int found = 0;
  while (*text) {
    size_t length = strcspn(text, " ");
    int bit = 0;
    for (; bit < 31; bit++) {
      const char *name = attn_isa_flag_name(1 << bit);
      if (name && strlen(name) == length && memcmp(name, text, length) == 0) break;
    }
    if (bit == 31) return false;
    found |= 1 << bit;
    text += length;
    text += strspn(text, " ");
  }
  *flags = found;
  return true;
}

static bool read_compute(const char *text, attn_capability *c) {
  int64_t major, minor;
  char whole[8];
  size_t length = strcspn(text, ".");
  if (length == 0 || length >= sizeof whole || text[length] != '.') return false;
  memcpy(whole, text, length);
  whole[length] = '\0';
  const char *rest = text + length + 1;
  if (strspn(whole, "0123456789") != length || strspn(rest, "0123456789") != strlen(rest))
    return false;
  if (!read_int(whole, 99, &major) || !read_int(rest, 9, &minor)) return false;
  c->compute_major = (int)major;
  c->compute_minor = (int)minor;
  return true;
}

static bool read_field(const struct field *field, const char *text, attn_capability *c) {
  void *at = field_of(field, c);
  int64_t whole;
  switch (field->kind) {
  case TEXT:
    if (strlen(text) >= field->size) return false;
    memcpy(at, text, strlen(text) + 1);
    return true;
  case DEVICE:
    return read_device(text, &c->device);
  case COMPUTE:
    return read_compute(text, c);
  case INT64:
    return read_int(text, INT64_MAX, at);
  case INT:
    if (!read_int(text, INT_MAX, &whole)) return false;
    *(int *)at = (int)whole;
    return true;
  case REAL:
    return read_real(text, at);
  case KNOWN: {
    bool yes = strcmp(text, "yes") == 0, no = strcmp(text, "no") == 0;
    if (!yes && !no && strcmp(text, "unknown") != 0) return false;
    *(attn_known *)at = yes ? ATTN_YES : no ? ATTN_NO : ATTN_UNKNOWN;
    return true;
  }
  case ISA:
    return read_isa(text, &c->isa);
  case FLAGS:
    return read_flags(text, &c->isa_flags);
  }
  return false;
}

/* One line without its end, `line` NUL-terminated and `length` long. */
static void read_line(const char *line, size_t length, int number, attn_capability *c,
                      bool *device_given) {
  hardware_notes notes = hardware_notes_of(c);
  for (size_t i = 0; i < length; i++) {
    if ((line[i] < ' ' && line[i] != '\t') || line[i] > '~') {
      hardware_note(notes, "line %d skipped: not plain text", number);
      return;
    }
  }
  char text[LINE_LIMIT];
  hardware_text_copy(text, sizeof text, line);
  if (!text[0]) return;
  char *value = text + strcspn(text, " ");
  if (*value) *value++ = '\0';
  for (int i = 0; i < FIELDS; i++) {
    if (strcmp(text, fields[i].key) != 0) continue;
    if (!read_field(&fields[i], value, c))
      hardware_note(notes, "line %d skipped: %s cannot be '%.32s'", number, text, value);
    else if (fields[i].kind == DEVICE)
      *device_given = true;
    return;
  }
  hardware_note(notes, "line %d skipped: unknown key '%.32s'", number, text);
}

static attn_status read_header(const char *line, const char *where) {
  size_t length = sizeof header - 1;
  if (strncmp(line, header, length) != 0)
    return core_fail(ATTN_ERROR_PARSE, "%s: the first line is not \"%s%d\"", where, header,
                     VERSION);
  int64_t version;
  if (strspn(line + length, "0123456789") != strlen(line + length) ||
      !read_int(line + length, INT_MAX, &version) || version < 1)
    return core_fail(ATTN_ERROR_PARSE, "%s: the first line has no version number", where);
  if (version > VERSION)
    return core_fail(ATTN_ERROR_PARSE, "%s: profile version %lld, this library reads up to %d",
                     where, (long long)version, VERSION);
  return ATTN_OK;
}

attn_status hardware_capability_parse(const char *text, size_t length, const char *where,
                                      attn_capability *capability) {
  attn_capability c = { .source = ATTN_SOURCE_FILE };
  bool device_given = false;
  size_t at = 0;
  for (int number = 1; number == 1 || at < length; number++) {
    const char *newline = at < length ? memchr(text + at, '\n', length - at) : NULL;
    size_t end = newline ? (size_t)(newline - text) : length;
    size_t next = newline ? end + 1 : length;
    while (end > at && (text[end - 1] == '\r' || text[end - 1] == ' ' || text[end - 1] == '\t'))
      end--;
    char line[LINE_LIMIT];
    bool fits = end - at < sizeof line;
    size_t used = fits ? end - at : sizeof line - 1;
    memcpy(line, text + at, used);
    line[used] = '\0';
    if (number == 1) {
      attn_status status = read_header(line, where);
      if (status != ATTN_OK) return status;
    } else if (line[strspn(line, " \t")] == '#') {
      /* a comment of any length */
    } else if (!fits) {
      hardware_note(hardware_notes_of(&c), "line %d skipped: longer than %d characters", number,
                    LINE_LIMIT - 1);
    } else {
      read_line(line, used, number, &c, &device_given);
    }
    at = next;
  }
  if (!device_given) hardware_note(hardware_notes_of(&c), "no device given, taken as cpu");
  *capability = c;
  return ATTN_OK;
}

/* A regular file only: a pipe could block, a device never end. */
static attn_status load(const char *path, char **text, size_t *length) {
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return core_fail(ATTN_ERROR_IO, "profile %s: %s", path, strerror(errno));
  attn_status status = ATTN_OK;
  struct stat info;
  char *buffer = NULL;
  size_t used = 0;
  if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
    status = core_fail(ATTN_ERROR_IO, "profile %s: not a regular file", path);
    goto done;
  }
  buffer = malloc(SIZE_LIMIT + 1);
  if (!buffer) {
    status = core_fail(ATTN_ERROR_MEMORY, "profile %s: %d bytes", path, SIZE_LIMIT + 1);
    goto done;
  }
  while (used <= SIZE_LIMIT) {
    ssize_t got = read(fd, buffer + used, SIZE_LIMIT + 1 - used);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      status = core_fail(ATTN_ERROR_IO, "profile %s: %s", path, strerror(errno));
      goto done;
    }
    if (got == 0) break;
    used += (size_t)got;
  }
  if (used > SIZE_LIMIT)
    status = core_fail(ATTN_ERROR_PARSE, "profile %s: larger than %d bytes", path, SIZE_LIMIT);
done:
  close(fd);
  if (status != ATTN_OK) {
    free(buffer);
    return status;
  }
  *text = buffer;
  *length = used;
  return ATTN_OK;
}

attn_status attn_capability_read(const char *path, attn_capability *capability) {
  if (!path) return core_fail(ATTN_ERROR_NULL, "path is NULL");
  if (!capability) return core_fail(ATTN_ERROR_NULL, "capability is NULL");
  char *text = NULL;
  size_t length = 0;
  attn_status status = load(path, &text, &length);
  if (status != ATTN_OK) return status;
  status = hardware_capability_parse(text, length, path, capability);
  free(text);
  return status;
}
