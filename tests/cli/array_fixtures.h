// SPDX-License-Identifier: Apache-2.0
/* What the tests of array files share: files that NumPy and safetensors wrote, broken ones put
 * together piece by piece, and a folder to work in. */
#ifndef TESTS_CLI_ARRAY_FIXTURES_H
#define TESTS_CLI_ARRAY_FIXTURES_H

#include "array.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

/* Written by NumPy 2.4.6, ml_dtypes 0.7.0 and safetensors 0.8.0. */
static const char numpy_f8[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f8', 'fortran_order': False, 'shape': (2, 3), }           "
    "                                               \n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\xe0?\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\xf8?\x00\x00\x00"
    "\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x04@";
static const char numpy_f4_fortran[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': True, 'shape': (2, 3), }            "
    "                                               \n\x00\x00\x00\x00\x00\x00@@\x00\x00\x80?\x00"
    "\x00\x80@\x00\x00\x00@\x00\x00\xa0@";
static const char numpy_f4_big[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '>f4', 'fortran_order': False, 'shape': (2, 3), }           "
    "                                               \n\x00\x00\x00\x00?\x80\x00\x00@\x00\x00\x00@"
    "@\x00\x00@\x80\x00\x00@\xa0\x00\x00";
static const char numpy_f2[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f2', 'fortran_order': False, 'shape': (2, 3), }           "
    "                                               \n\x00\x00\x00<\x00@\x00\x42\x00\x44\x00\x45";
static const char numpy_bool[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }             "
    "                                               \n\x01\x00\x01";
static const char numpy_i8_scalar[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<i8', 'fortran_order': False, 'shape': (), }               "
    "                                               \n\xf9\xff\xff\xff\xff\xff\xff\xff";
static const char numpy_u2_empty[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<u2', 'fortran_order': False, 'shape': (0, 4), }           "
    "                                               \n";
static const char numpy_bf16[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<V2', 'fortran_order': False, 'shape': (2, 3), }           "
    "                                               \n\x00\x00\x80?\x00@@@\x80@\xa0@";
static const char numpy_e4m3[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<V1', 'fortran_order': False, 'shape': (2,), }             "
    "                                               \n8@";
static const char numpy_e5m2[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<f1', 'fortran_order': False, 'shape': (2,), }             "
    "                                               \n<@";
static const char numpy_structured[] =
    "\x93NUMPY\x01\x00v\x00{'descr': [('a', '<f4'), ('b', '<i4')], 'fortran_order': False, 'shape"
    "': (2,), }                                     \n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00";
static const char numpy_object[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (2,), }              "
    "                                               \n\x80\x04\x95\x8d\x00\x00\x00\x00\x00\x00"
    "\x00\x8c\x16numpy._core.multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c"
    "\x07ndarray\x94\x93\x94K\x00\x85\x94\x43\x01\x62\x94\x87\x94R\x94(K\x01K\x02\x85\x94h\x03"
    "\x8c\x05\x64type\x94\x93\x94\x8c\x02O8\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01|\x94NNNJ\xff"
    "\xff\xff\xffJ\xff\xff\xff\xffK?t\x94\x62\x89]\x94(NK\x01\x65t\x94\x62.";
static const char numpy_complex[] =
    "\x93NUMPY\x01\x00v\x00{'descr': '<c8', 'fortran_order': False, 'shape': (2,), }             "
    "                                               \n\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"
    "\x00\x00\x00\x00\x00\x00";
static const char numpy_i4_version2[] =
    "\x93NUMPY\x02\x00t\x00\x00\x00{'descr': '<i4', 'fortran_order': False, 'shape': (2, 3), }   "
    "                                                     \n\x00\x00\x00\x00\x01\x00\x00\x00\x02"
    "\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00";
static const char numpy_u4_version3[] =
    "\x93NUMPY\x03\x00t\x00\x00\x00{'descr': '<u4', 'fortran_order': False, 'shape': (2, 3), }   "
    "                                                     \n\x00\x00\x00\x00\x01\x00\x00\x00\x02"
    "\x00\x00\x00\x03\x00\x00\x00\x04\x00\x00\x00\x05\x00\x00\x00";
static const char numpy_npz_stored[] =
    "PK\x03\x04-\x00\x00\x00\x00\x00\x00\x00!\x00O\xe9\x00*\xff\xff\xff\xff\xff\xff\xff\xff\x05"
    "\x00\x14\x00q.npy\x01\x00\x10\x00\x98\x00\x00\x00\x00\x00\x00\x00\x98\x00\x00\x00\x00\x00"
    "\x00\x00\x93NUMPY\x01\x00v\x00{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   "
    "                                                       \n\x00\x00\x00\x00\x00\x00\x80?\x00"
    "\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@PK\x03\x04-\x00\x00\x00\x00\x00\x00\x00!\x00"
    "\xfe\xb5\x33\xe3\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00k.npy\x01\x00\x10\x00\x81"
    "\x00\x00\x00\x00\x00\x00\x00\x81\x00\x00\x00\x00\x00\x00\x00\x93NUMPY\x01\x00v\x00{'descr': "
    "'|i1', 'fortran_order': False, 'shape': (1,), }                                             "
    "               \n\x05PK\x01\x02-\x03-\x00\x00\x00\x00\x00\x00\x00!\x00O\xe9\x00*\x98\x00\x00"
    "\x00\x98\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00\x00\x00"
    "q.npyPK\x01\x02-\x03-\x00\x00\x00\x00\x00\x00\x00!\x00\xfe\xb5\x33\xe3\x81\x00\x00\x00\x81"
    "\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\xcf\x00\x00\x00k.npyPK"
    "\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00\x66\x00\x00\x00\x87\x01\x00\x00\x00\x00";
static const char numpy_npz_deflated[] =
    "PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00z\xfb\xde*\xff\xff\xff\xff\xff\xff\xff\xff\x05"
    "\x00\x14\x00q.npy\x01\x00\x10\x00 \x10\x00\x00\x00\x00\x00\x00\x63\x00\x00\x00\x00\x00\x00"
    "\x00\xed\xc8\xb1\x0e@0\x14\x46\xe1Z=\xc5\xdd.I\x07\x11\x16\x31\xdb\x88\xc5`\x92\x46+\x06\x41"
    "Z\xb1\x88\xa7\xf0\xc2x\x05\x8b\xe5\xff\xb6s\xae\xaa)\xeb\xd6\x13\xbb\x38X\x1b\xd7[\xce\x88"
    "\xf3!aI<,v\xb3j\xee\x16\xab\xcd\xfb\x0b\x35\x39\xf3|7\xaa\xd5<\x1d\xc4\x91\xa4\x34\n%\x9d"
    "\xf4\x91/\x00\x00\x00\x00\x00\x00\x00\xe0w7PK\x03\x04-\x00\x00\x00\x08\x00\x00\x00!\x00\x90"
    "\xbc\xdd\xc2\xff\xff\xff\xff\xff\xff\xff\xff\x05\x00\x14\x00k.npy\x01\x00\x10\x00\x8c\x00"
    "\x00\x00\x00\x00\x00\x00R\x00\x00\x00\x00\x00\x00\x00\x9b\xec\x17\xea\x1b\x10\xc9\xc8P\xc6P"
    "\xad\x9e\x92Z\x9c\\\xa4n\xa5\xa0n\x97i\xa4\xae\xa3\xa0\x9e\x96_TR\x94\x98\x17\x9f_\x94\x92\n"
    "\x12wK\xcc)N\x05\x8a\x17g$\x16\xa4\x02\xf9\x1a\x46:\n\xc6\x9a:\n\xb5\nd\x03.\x06\x06\x06\x46"
    "\x06&\x06\x66\x06\x16\x06V\x00PK\x01\x02-\x03-\x00\x00\x00\x08\x00\x00\x00!\x00z\xfb\xde*c"
    "\x00\x00\x00 \x10\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x00\x00"
    "\x00\x00q.npyPK\x01\x02-\x03-\x00\x00\x00\x08\x00\x00\x00!\x00\x90\xbc\xdd\xc2R\x00\x00\x00"
    "\x8c\x00\x00\x00\x05\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80\x01\x9a\x00\x00\x00k.np"
    "yPK\x05\x06\x00\x00\x00\x00\x02\x00\x02\x00\x66\x00\x00\x00#\x01\x00\x00\x00\x00";
static const char numpy_safetensors[] =
    "\xd0\x00\x00\x00\x00\x00\x00\x00{\"__metadata__\":{\"format\":\"np\"},\"one\":{\"dtype\":\"F"
    "64\",\"shape\":[],\"data_offsets\":[0,8]},\"layer.q\":{\"dtype\":\"F32\",\"shape\":[2,3],\"d"
    "ata_offsets\":[8,32]},\"k\":{\"dtype\":\"BF16\",\"shape\":[2,3],\"data_offsets\":[32,44]}}  "
    "\x00\x00\x00\x00\x00\x00\xf8?\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00"
    "\x80@\x00\x00\xa0@\x00\x00\x80?\x00@@@\x80@\xa0@";

#define FIXTURE(name) numpy_##name, sizeof numpy_##name - 1

struct fixture {
  const char *bytes;
  size_t size;
};

static const double f8[] = { 0, 0.5, 1, 1.5, 2, 2.5 };
static const float f4[] = { 0, 1, 2, 3, 4, 5 };
static const uint16_t f2[] = { 0, 0x3c00, 0x4000, 0x4200, 0x4400, 0x4500 };
static const uint16_t bf16[] = { 0, 0x3f80, 0x4000, 0x4040, 0x4080, 0x40a0 };
static const int16_t i2[] = { 0, 1, 2, 3, 4, 5 };
static const int32_t i4[] = { 0, 1, 2, 3, 4, 5 };

/* ---- Helpers --------------------------------------------------------------------------------- */

static char err[1024];

typedef struct buffer {
  unsigned char bytes[8192];
  size_t size;
} buffer;

static inline void put(buffer *b, const void *data, size_t size) {
  assert_true(size <= sizeof b->bytes - b->size);
  memcpy(b->bytes + b->size, data, size);
  b->size += size;
}

static inline void poke(buffer *b, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) b->bytes[at + i] = (unsigned char)(value >> 8 * i);
}

static inline void put_le(buffer *b, uint64_t value, size_t width) {
  static const unsigned char zeros[8];
  put(b, zeros, width);
  poke(b, b->size - width, value, width);
}

static inline void put_zeros(buffer *b, size_t size) {
  for (size_t i = 0; i < size; i++) put_le(b, 0, 1);
}

static inline void put_npy(buffer *b, int version, const char *header, size_t data) {
  put(b, "\x93NUMPY", 6);
  put_le(b, (uint64_t)version, 2);
  put_le(b, strlen(header), version == 1 ? 2 : 4);
  put(b, header, strlen(header));
  put_zeros(b, data);
}

static inline void put_safetensors(buffer *b, const char *header, size_t data) {
  put_le(b, strlen(header), 8);
  put(b, header, strlen(header));
  put_zeros(b, data);
}

/* So that a read past the end is seen by the sanitizer. */
static inline void *exact_copy(const void *bytes, size_t size) {
  void *copy = malloc(size ? size : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  return copy;
}

typedef int (*parser)(const void *, size_t, const char *, array *, char *, size_t);

static inline int parse_npy(const void *bytes, size_t size, const char *member, array *a, char *e,
                            size_t e_size) {
  (void)member;
  return array_parse_npy(bytes, size, a, e, e_size);
}

static inline void expect_message(const char *part) {
  if (strstr(err, part) == NULL) fail_msg("message \"%s\" does not say \"%s\"", err, part);
}

static inline void expect_refused(parser parse, const buffer *b, const char *member,
                                  const char *part) {
  void *copy = exact_copy(b->bytes, b->size);
  array a;
  if (parse(copy, b->size, member, &a, err, sizeof err) == 0)
    fail_msg("accepted, not \"%s\"", part);
  free(copy);
  assert_null(a.data);
  expect_message(part);
}

static inline void expect_load_refused(const char *spec, const char *part) {
  array a;
  assert_int_equal(array_load(spec, &a, err, sizeof err), -1);
  expect_message(part);
}

static inline void expect_array(const array *a, array_dtype dtype, int ndim, const int64_t *shape,
                                const void *data) {
  assert_int_equal(a->dtype, dtype);
  assert_int_equal(a->ndim, ndim);
  for (int d = 0; d < ndim; d++) assert_int_equal(a->shape[d], shape[d]);
  assert_int_equal(a->bytes, (size_t)array_count(a) * array_dtype_size(dtype));
  assert_false(a->fortran_order);
  assert_int_equal((uintptr_t)a->data % array_dtype_size(dtype), 0);
  assert_memory_equal(a->data, data, a->bytes);
}

static inline void write_file(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

#define NPY(descr, order, shape)                                                                   \
  "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}\n"
#define SHAPED(shape) NPY("'<f8'", "False", shape)

/* ---- A folder of its own --------------------------------------------------------------------- */

static char array_folder[4096];

static inline int enter_folder(void **state) {
  (void)state;
  const char *parent = getenv("TMPDIR");
  snprintf(array_folder, sizeof array_folder, "%s/test_array_XXXXXX", parent ? parent : "/tmp");
  return mkdtemp(array_folder) == NULL || chdir(array_folder) != 0;
}

static void remove_all(const char *path) {
  DIR *d = opendir(path);
  if (d == NULL) return;
  for (struct dirent *e = readdir(d); e != NULL; e = readdir(d)) {
    char name[8192];
    struct stat st;
    snprintf(name, sizeof name, "%s/%s", path, e->d_name);
    if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0) continue;
    if (lstat(name, &st) == 0 && S_ISDIR(st.st_mode))
      remove_all(name);
    else
      unlink(name);
  }
  closedir(d);
  rmdir(path);
}

static inline int leave_folder(void **state) {
  (void)state;
  if (chdir("/") != 0) return -1;
  remove_all(array_folder);
  return 0;
}

#endif
