// SPDX-License-Identifier: Apache-2.0
/* What the readers share, opening by name, and saving. */
#include "array.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Below this a file is read: a mapping dies by SIGBUS when someone truncates the file. */
enum { MAP_FROM = 256 << 20, ALIGNMENT = 64 };

static const struct {
  const char *name;
  size_t size;
} dtypes[] = {
  [ARRAY_F64] = { "f64", 8 },   [ARRAY_F32] = { "f32", 4 },       [ARRAY_F16] = { "f16", 2 },
  [ARRAY_BF16] = { "bf16", 2 }, [ARRAY_F8E4M3] = { "f8e4m3", 1 }, [ARRAY_F8E5M2] = { "f8e5m2", 1 },
  [ARRAY_BOOL] = { "bool", 1 }, [ARRAY_I8] = { "i8", 1 },         [ARRAY_U8] = { "u8", 1 },
  [ARRAY_I16] = { "i16", 2 },   [ARRAY_U16] = { "u16", 2 },       [ARRAY_I32] = { "i32", 4 },
  [ARRAY_U32] = { "u32", 4 },   [ARRAY_I64] = { "i64", 8 },       [ARRAY_U64] = { "u64", 8 },
};

static bool known(array_dtype t) { return (unsigned)t < sizeof dtypes / sizeof dtypes[0]; }

size_t array_dtype_size(array_dtype t) { return known(t) ? dtypes[t].size : 0; }
const char *array_dtype_name(array_dtype t) { return known(t) ? dtypes[t].name : NULL; }

int64_t array_count(const array *a) {
  int64_t count = 1;
  for (int d = 0; d < a->ndim; d++) count *= a->shape[d];
  return count;
}

int array_fail(char *err, size_t err_size, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(err, err_size, format, args);
  va_end(args);
  return -1;
}

/* Sizes of 0 do not hide an overflow of the others: strides are made from those too. */
int array_need(const array *a, size_t *need, char *err, size_t err_size) {
  int64_t bytes = (int64_t)array_dtype_size(a->dtype);
  bool empty = false;
  for (int d = 0; d < a->ndim; d++) {
    if (a->shape[d] == 0)
      empty = true;
    else if (__builtin_mul_overflow(bytes, a->shape[d], &bytes))
      return array_fail(err, err_size, "shape needs more than the limit of %" PRId64 " bytes",
                        INT64_MAX);
  }
  if ((uint64_t)bytes > SIZE_MAX)
    return array_fail(err, err_size, "shape needs %" PRId64 " bytes, above the limit of %zu", bytes,
                      (size_t)SIZE_MAX);
  *need = empty ? 0 : (size_t)bytes;
  return 0;
}

void *array_alloc(size_t bytes) {
  if (bytes > SIZE_MAX - ALIGNMENT) return NULL;
  return aligned_alloc(ALIGNMENT, bytes / ALIGNMENT * ALIGNMENT + ALIGNMENT);
}

static void release_buffer(void *buffer, size_t bytes, int mapped) {
  if (mapped)
    munmap(buffer, bytes);
  else
    free(buffer);
}

void array_adopt(array *a, void *buffer, size_t bytes, int mapped) {
  if (a->owner != NULL) {
    release_buffer(buffer, bytes, mapped);
    return;
  }
  a->owner = buffer;
  a->owner_bytes = bytes;
  a->mapped = mapped;
}

void array_release(array *a) {
  release_buffer(a->owner, a->owner_bytes, a->mapped);
  memset(a, 0, sizeof *a);
}

/* Replaces the data by a copy of the same size that the array owns. */
static void own(array *a, void *copy) {
  release_buffer(a->owner, a->owner_bytes, a->mapped);
  a->data = a->owner = copy;
  a->owner_bytes = a->bytes;
  a->mapped = 0;
}

static void *alloc_copy(const array *a, char *err, size_t err_size) {
  void *copy = array_alloc(a->bytes);
  if (copy == NULL) array_fail(err, err_size, "no memory for %zu bytes", a->bytes);
  return copy;
}

int array_swap_bytes(array *a, char *err, size_t err_size) {
  size_t width = array_dtype_size(a->dtype);
  unsigned char *copy = alloc_copy(a, err, err_size);
  if (copy == NULL) return -1;
  const unsigned char *from = a->data;
  for (size_t i = 0; i < a->bytes; i += width)
    for (size_t b = 0; b < width; b++) copy[i + b] = from[i + width - 1 - b];
  own(a, copy);
  return 0;
}

/* Walks the output in C order; step[d] is what index d adds in the Fortran-ordered input. */
static void transpose(const array *a, unsigned char *to) {
  const unsigned char *from = a->data;
  size_t width = array_dtype_size(a->dtype), step[ARRAY_MAX_DIMS];
  int64_t index[ARRAY_MAX_DIMS] = { 0 };
  size_t stride = width;
  for (int d = 0; d < a->ndim; d++) {
    step[d] = stride;
    stride *= (size_t)a->shape[d];
  }
  size_t at = 0;
  for (size_t done = 0; done < a->bytes; done += width) {
    memcpy(to + done, from + at, width);
    for (int d = a->ndim - 1; d >= 0; d--) {
      at += step[d];
      if (++index[d] < a->shape[d]) break;
      at -= step[d] * (size_t)a->shape[d];
      index[d] = 0;
    }
  }
}

int array_to_c_order(array *a, char *err, size_t err_size) {
  int long_axes = 0;
  for (int d = 0; d < a->ndim; d++) long_axes += a->shape[d] > 1;
  bool turn = a->fortran_order && long_axes > 1 && a->bytes > 0;
  bool shift = (uintptr_t)a->data % array_dtype_size(a->dtype) != 0;
  if (turn || shift) {
    unsigned char *copy = alloc_copy(a, err, err_size);
    if (copy == NULL) return -1;
    if (turn)
      transpose(a, copy);
    else
      memcpy(copy, a->data, a->bytes);
    own(a, copy);
  }
  a->fortran_order = 0;
  return 0;
}

/* ---- Names in messages ----------------------------------------------------------------------- */

const char *array_name_text(const char *name, size_t length, char out[ARRAY_NAME_TEXT]) {
  size_t n = 0;
  bool cut = length > ARRAY_NAME_TEXT - 1;
  if (cut) length = ARRAY_NAME_TEXT - 4;
  for (; n < length; n++) {
    unsigned char c = (unsigned char)name[n];
    unsigned char before = n ? (unsigned char)name[n - 1] : 0;
    /* UTF-8 may pass, but for C2 80 to C2 9F and stray such bytes: terminals obey those too. */
    bool control =
        c < 0x20 || c == 0x7f || (c >= 0x80 && c < 0xa0 && (before < 0x80 || before == 0xc2));
    out[n] = control ? '?' : (char)c;
  }
  memcpy(out + n, "...", cut ? 3 : 0);
  out[n + (cut ? 3 : 0)] = '\0';
  return out;
}

void array_names_add(array_names *names, const char *name, size_t length) {
  char text[ARRAY_NAME_TEXT];
  if (names->count++ >= ARRAY_NAMES_LISTED) return;
  names->used +=
      (size_t)snprintf(names->text + names->used, sizeof names->text - names->used, "%s'%s'",
                       names->used ? ", " : "", array_name_text(name, length, text));
}

int array_names_fail(const array_names *names, const char *kind, const char *asked, char *err,
                     size_t err_size) {
  char text[ARRAY_NAME_TEXT], more[48] = "";
  if (names->count > ARRAY_NAMES_LISTED)
    snprintf(more, sizeof more, " and %" PRIu64 " more", names->count - ARRAY_NAMES_LISTED);
  if (names->count == 0) return array_fail(err, err_size, "the file has no %ss", kind);
  if (asked == NULL)
    return array_fail(err, err_size, "a %s has to be named; the file has %s%s", kind, names->text,
                      more);
  return array_fail(err, err_size, "no %s '%s'; the file has %s%s", kind,
                    array_name_text(asked, strlen(asked), text), names->text, more);
}

/* ---- Loading by name ------------------------------------------------------------------------- */

typedef struct source {
  void *bytes;
  size_t size;
  int mapped;
} source;

static int fail_errno(char *err, size_t err_size, const char *what) {
  return array_fail(err, err_size, "cannot %s: %s", what, strerror(errno));
}

static int read_source(int fd, source *src, char *err, size_t err_size) {
  unsigned char *bytes = array_alloc(src->size);
  if (bytes == NULL) return array_fail(err, err_size, "no memory for %zu bytes", src->size);
  size_t done = 0;
  while (done < src->size) {
    ssize_t n = read(fd, bytes + done, src->size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n > 0) {
      done += (size_t)n;
      continue;
    }
    if (n < 0)
      fail_errno(err, err_size, "read");
    else
      array_fail(err, err_size, "file shrank from %zu to %zu bytes while it was read", src->size,
                 done);
    free(bytes);
    return -1;
  }
  src->bytes = bytes;
  src->mapped = 0;
  return 0;
}

static int map_source(int fd, source *src, char *err, size_t err_size) {
  void *bytes = mmap(NULL, src->size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (bytes == MAP_FAILED) return fail_errno(err, err_size, "map");
  src->bytes = bytes;
  src->mapped = 1;
  return 0;
}

static int check_regular(const struct stat *st, char *err, size_t err_size) {
  if (S_ISDIR(st->st_mode)) return array_fail(err, err_size, "%s", strerror(EISDIR));
  if (!S_ISREG(st->st_mode))
    return array_fail(err, err_size, "not a regular file but a %s",
                      S_ISFIFO(st->st_mode)   ? "FIFO"
                      : S_ISSOCK(st->st_mode) ? "socket"
                                              : "device");
  return 0;
}

static int open_source(const char *path, source *src, char *err, size_t err_size) {
  /* O_NONBLOCK: to open a FIFO for reading would wait for its writer. */
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
  if (fd < 0) return fail_errno(err, err_size, "open");
  struct stat st;
  int result =
      fstat(fd, &st) != 0 ? fail_errno(err, err_size, "stat") : check_regular(&st, err, err_size);
  if (result == 0 && st.st_size == 0) result = array_fail(err, err_size, "file is empty");
  if (result == 0 && (uint64_t)st.st_size > (uint64_t)PTRDIFF_MAX)
    result = array_fail(err, err_size, "file of %lld bytes is above the limit of %td",
                        (long long)st.st_size, PTRDIFF_MAX);
  if (result == 0) {
    src->size = (size_t)st.st_size;
    result = (st.st_size < MAP_FROM ? read_source : map_source)(fd, src, err, err_size);
  }
  close(fd);
  return result;
}

static int parse_npy_file(const void *bytes, size_t size, const char *member, array *out, char *err,
                          size_t err_size) {
  (void)member;
  return array_parse_npy(bytes, size, out, err, err_size);
}

typedef struct file_format {
  const char *extension;
  int (*parse)(const void *bytes, size_t size, const char *member, array *out, char *err,
               size_t err_size);
} file_format;

static const file_format formats[] = {
  { ".npy", parse_npy_file },
  { ".npz", array_parse_npz },
  { ".safetensors", array_parse_safetensors },
};

enum { FORMATS = sizeof formats / sizeof formats[0] };

/* A spec taken apart; path is as long as path_length says. */
typedef struct spec_parts {
  int path_length;
  const char *member; /* NULL: none */
  const file_format *format;
} spec_parts;

static bool exists(const char *spec, size_t length) {
  char path[PATH_MAX];
  struct stat st;
  if (length >= sizeof path) return false;
  memcpy(path, spec, length);
  path[length] = '\0';
  return stat(path, &st) == 0;
}

/* Paths and tensor names may both hold ".npz:", so that files decide; with none, the first split
 * is the one to complain about. */
static int split_spec(const char *spec, spec_parts *parts, char *err, size_t err_size) {
  size_t length = strlen(spec);
  if (length >= INT_MAX) return array_fail(err, err_size, "name of %zu bytes is too long", length);
  spec_parts whole = { .path_length = (int)length }, first = { .path_length = 0 };
  for (size_t f = 0; f < FORMATS; f++) {
    size_t n = strlen(formats[f].extension);
    if (length > n && strcmp(spec + length - n, formats[f].extension) == 0)
      whole.format = &formats[f];
  }
  for (const char *colon = strchr(spec, ':'); colon != NULL; colon = strchr(colon + 1, ':'))
    for (size_t f = 1; f < FORMATS; f++) {
      size_t n = strlen(formats[f].extension), before = (size_t)(colon - spec);
      if (before <= n || memcmp(colon - n, formats[f].extension, n) != 0) continue;
      spec_parts here = { (int)before, colon + 1, &formats[f] };
      if (first.format == NULL) first = here;
      if (!exists(spec, before)) continue;
      *parts = here;
      return 0;
    }
  bool take_whole = whole.format != NULL && (first.format == NULL || exists(spec, length));
  *parts = take_whole ? whole : first;
  if (parts->format == NULL)
    return array_fail(err, err_size,
                      "%s: not a name of the form PATH.npy, PATH.npz:MEMBER or "
                      "PATH.safetensors:TENSOR",
                      spec);
  return 0;
}

int array_load(const char *spec, array *out, char *err, size_t err_size) {
  memset(out, 0, sizeof *out);
  spec_parts parts = { .path_length = 0 };
  if (split_spec(spec, &parts, err, err_size) != 0) return -1;
  char why[1024], path[PATH_MAX];
  source src;
  if (parts.path_length >= PATH_MAX)
    return array_fail(err, err_size, "%s: %s", spec, strerror(ENAMETOOLONG));
  snprintf(path, sizeof path, "%.*s", parts.path_length, spec);
  if (open_source(path, &src, why, sizeof why) != 0)
    return array_fail(err, err_size, "%s: %s", path, why);
  int result = parts.format->parse(src.bytes, src.size, parts.member, out, why, sizeof why);
  if (result == 0)
    array_adopt(out, src.bytes, src.size, src.mapped);
  else
    release_buffer(src.bytes, src.size, src.mapped);
  if (result == 0) result = array_to_c_order(out, why, sizeof why);
  if (result != 0) {
    array_release(out);
    return array_fail(err, err_size, "%s: %s", path, why);
  }
  return 0;
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static int check_array(const array *a, char *err, size_t err_size) {
  if (!known(a->dtype)) return array_fail(err, err_size, "unknown dtype %d", (int)a->dtype);
  if (a->ndim < 0 || a->ndim > ARRAY_MAX_DIMS)
    return array_fail(err, err_size, "%d dimensions are outside 0 to %d", a->ndim, ARRAY_MAX_DIMS);
  for (int d = 0; d < a->ndim; d++)
    if (a->shape[d] < 0)
      return array_fail(err, err_size, "negative size %" PRId64 " at dimension %d", a->shape[d], d);
  size_t need = 0;
  if (array_need(a, &need, err, err_size) != 0) return -1;
  if (need != a->bytes)
    return array_fail(err, err_size, "the shape needs %zu bytes, the array has %zu", need,
                      a->bytes);
  return 0;
}

/* By hand, because realpath fails where the last target does not exist yet. */
static int follow_links(char target[PATH_MAX], char *err, size_t err_size) {
  char link[PATH_MAX];
  for (int hop = 0; hop < 40; hop++) {
    ssize_t n = readlink(target, link, sizeof link);
    if (n < 0) /* EINVAL: not a link */
      return errno == EINVAL || errno == ENOENT ? 0 : fail_errno(err, err_size, "follow the path");
    char *slash = strrchr(target, '/');
    size_t keep = link[0] == '/' || slash == NULL ? 0 : (size_t)(slash - target) + 1;
    if (keep + (size_t)n >= PATH_MAX)
      return array_fail(err, err_size, "cannot follow the path: %s", strerror(ENAMETOOLONG));
    memcpy(target + keep, link, (size_t)n);
    target[keep + (size_t)n] = '\0';
  }
  return array_fail(err, err_size, "cannot follow the path: %s", strerror(ELOOP));
}

static int write_all(int fd, const void *data, size_t size) {
  const unsigned char *from = data;
  while (size > 0) {
    ssize_t n = write(fd, from, size);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return -1;
    from += n;
    size -= (size_t)n;
  }
  return 0;
}

/* Not mkstemp: its mode is 0600, and only open applies the umask without touching it. */
static int create_temporary(int folder, char name[64], mode_t mode) {
  static atomic_uint counter;
  int fd = -1;
  for (int attempt = 0; attempt < 1000; attempt++) {
    snprintf(name, 64, ".attn-save-%ld-%u", (long)getpid(), atomic_fetch_add(&counter, 1));
    fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd >= 0 || errno != EEXIST) break;
  }
  return fd;
}

static int replace(int folder, const char *base, const array *a, char *err, size_t err_size) {
  unsigned char header[ARRAY_NPY_HEADER_MAX];
  size_t header_size = array_npy_header(a, header);
  char temporary[64];
  struct stat old;
  bool replaces = fstatat(folder, base, &old, AT_SYMLINK_NOFOLLOW) == 0;
  if (!replaces && errno != ENOENT) return fail_errno(err, err_size, "stat");
  if (replaces && check_regular(&old, err, err_size) != 0) return -1;
  int fd = create_temporary(folder, temporary, replaces ? 0600 : 0666);
  if (fd < 0) return fail_errno(err, err_size, "create a temporary file");
  const char *step = "write";
  if (write_all(fd, header, header_size) != 0 || write_all(fd, a->data, a->bytes) != 0) goto fail;
  step = "set the mode";
  if (replaces && fchmod(fd, old.st_mode & 0777) != 0) goto fail;
  step = "sync";
  if (fsync(fd) != 0) goto fail;
  step = "close";
  int closed = close(fd);
  fd = -1;
  if (closed != 0) goto fail;
  step = "rename";
  if (renameat(folder, temporary, folder, base) != 0) goto fail;
  /* EINVAL: a file system whose folders cannot be synced. */
  if (fsync(folder) != 0 && errno != EINVAL)
    return fail_errno(err, err_size, "sync the folder (the file itself is complete)");
  return 0;
fail:
  fail_errno(err, err_size, step);
  if (fd >= 0) close(fd);
  unlinkat(folder, temporary, 0);
  return -1;
}

int array_save_npy(const char *path, const array *a, char *err, size_t err_size) {
  char why[256], target[PATH_MAX];
  size_t length = strlen(path);
  if (length >= sizeof target)
    return array_fail(err, err_size, "%s: %s", path, strerror(ENAMETOOLONG));
  memcpy(target, path, length + 1);
  if (check_array(a, why, sizeof why) != 0 || follow_links(target, why, sizeof why) != 0)
    return array_fail(err, err_size, "%s: %s", path, why);
  char *slash = strrchr(target, '/');
  const char *base = slash ? slash + 1 : target;
  if (*base == '\0')
    return array_fail(err, err_size, "%s: %s", path, strerror(*path ? EISDIR : ENOENT));
  if (slash) *slash = '\0';
  int folder = open(slash == NULL     ? "."
                    : slash == target ? "/"
                                      : target,
                    O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0)
    return array_fail(err, err_size, "%s: cannot open the folder: %s", path, strerror(errno));
  int result = replace(folder, base, a, why, sizeof why);
  close(folder);
  return result == 0 ? 0 : array_fail(err, err_size, "%s: %s", path, why);
}
