// SPDX-License-Identifier: Apache-2.0
/* Array files: what NumPy and safetensors write is read as they mean it, what is broken or hostile
 * is refused with its reason, and saving replaces a file whole or not at all. */
#include "array.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

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

static const struct fixture {
  const char *bytes;
  size_t size;
} fixtures[] = {
  { FIXTURE(f8) },         { FIXTURE(f4_fortran) },   { FIXTURE(f4_big) },
  { FIXTURE(f2) },         { FIXTURE(bool) },         { FIXTURE(i8_scalar) },
  { FIXTURE(u2_empty) },   { FIXTURE(bf16) },         { FIXTURE(e4m3) },
  { FIXTURE(e5m2) },       { FIXTURE(structured) },   { FIXTURE(object) },
  { FIXTURE(complex) },    { FIXTURE(i4_version2) },  { FIXTURE(u4_version3) },
  { FIXTURE(npz_stored) }, { FIXTURE(npz_deflated) }, { FIXTURE(safetensors) },
};

enum { FIXTURES = sizeof fixtures / sizeof fixtures[0] };

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

static void put(buffer *b, const void *data, size_t size) {
  assert_true(size <= sizeof b->bytes - b->size);
  memcpy(b->bytes + b->size, data, size);
  b->size += size;
}

static void poke(buffer *b, size_t at, uint64_t value, size_t width) {
  for (size_t i = 0; i < width; i++) b->bytes[at + i] = (unsigned char)(value >> 8 * i);
}

static void put_le(buffer *b, uint64_t value, size_t width) {
  static const unsigned char zeros[8];
  put(b, zeros, width);
  poke(b, b->size - width, value, width);
}

static void put_zeros(buffer *b, size_t size) {
  for (size_t i = 0; i < size; i++) put_le(b, 0, 1);
}

static void put_npy(buffer *b, int version, const char *header, size_t data) {
  put(b, "\x93NUMPY", 6);
  put_le(b, (uint64_t)version, 2);
  put_le(b, strlen(header), version == 1 ? 2 : 4);
  put(b, header, strlen(header));
  put_zeros(b, data);
}

static void put_safetensors(buffer *b, const char *header, size_t data) {
  put_le(b, strlen(header), 8);
  put(b, header, strlen(header));
  put_zeros(b, data);
}

/* So that a read past the end is seen by the sanitizer. */
static void *exact_copy(const void *bytes, size_t size) {
  void *copy = malloc(size ? size : 1);
  assert_non_null(copy);
  memcpy(copy, bytes, size);
  return copy;
}

typedef int (*parser)(const void *, size_t, const char *, array *, char *, size_t);

static int parse_npy(const void *bytes, size_t size, const char *member, array *a, char *e,
                     size_t e_size) {
  (void)member;
  return array_parse_npy(bytes, size, a, e, e_size);
}

static void expect_message(const char *part) {
  if (strstr(err, part) == NULL) fail_msg("message \"%s\" does not say \"%s\"", err, part);
}

static void expect_refused(parser parse, const buffer *b, const char *member, const char *part) {
  void *copy = exact_copy(b->bytes, b->size);
  array a;
  if (parse(copy, b->size, member, &a, err, sizeof err) == 0)
    fail_msg("accepted, not \"%s\"", part);
  free(copy);
  assert_null(a.data);
  expect_message(part);
}

static void expect_load_refused(const char *spec, const char *part) {
  array a;
  assert_int_equal(array_load(spec, &a, err, sizeof err), -1);
  expect_message(part);
}

static void expect_array(const array *a, array_dtype dtype, int ndim, const int64_t *shape,
                         const void *data) {
  assert_int_equal(a->dtype, dtype);
  assert_int_equal(a->ndim, ndim);
  for (int d = 0; d < ndim; d++) assert_int_equal(a->shape[d], shape[d]);
  assert_int_equal(a->bytes, (size_t)array_count(a) * array_dtype_size(dtype));
  assert_false(a->fortran_order);
  assert_int_equal((uintptr_t)a->data % array_dtype_size(dtype), 0);
  assert_memory_equal(a->data, data, a->bytes);
}

static void write_file(const char *path, const void *bytes, size_t size) {
  FILE *f = fopen(path, "wb");
  assert_non_null(f);
  assert_int_equal(fwrite(bytes, 1, size, f), size);
  assert_int_equal(fclose(f), 0);
}

static void expect_file(const char *path, const void *bytes, size_t size) {
  static unsigned char have[65536];
  FILE *f = fopen(path, "rb");
  assert_non_null(f);
  assert_int_equal(fread(have, 1, sizeof have, f), size);
  fclose(f);
  assert_memory_equal(have, bytes, size);
}

static int files_in(const char *folder) {
  DIR *d = opendir(folder);
  assert_non_null(d);
  int count = -2; /* . and .. */
  while (readdir(d) != NULL) count++;
  closedir(d);
  return count;
}

/* ---- npy ------------------------------------------------------------------------------------- */

static void numpy_files_are_read(void **state) {
  (void)state;
  static const int64_t minus_seven = -7;
  static const struct {
    struct fixture file;
    array_dtype dtype;
    int ndim;
    int64_t shape[2];
    const void *data;
  } rows[] = {
    { { FIXTURE(f8) }, ARRAY_F64, 2, { 2, 3 }, f8 },
    { { FIXTURE(f4_fortran) }, ARRAY_F32, 2, { 2, 3 }, f4 },
    { { FIXTURE(f4_big) }, ARRAY_F32, 2, { 2, 3 }, f4 },
    { { FIXTURE(f2) }, ARRAY_F16, 2, { 2, 3 }, f2 },
    { { FIXTURE(bool) }, ARRAY_BOOL, 1, { 3 }, "\1\0\1" },
    { { FIXTURE(i8_scalar) }, ARRAY_I64, 0, { 0 }, &minus_seven },
    { { FIXTURE(u2_empty) }, ARRAY_U16, 2, { 0, 4 }, "" },
    { { FIXTURE(bf16) }, ARRAY_U16, 2, { 2, 3 }, bf16 },
    { { FIXTURE(e4m3) }, ARRAY_U8, 1, { 2 }, "\x38\x40" },
    { { FIXTURE(e5m2) }, ARRAY_U8, 1, { 2 }, "\x3c\x40" },
    { { FIXTURE(i4_version2) }, ARRAY_I32, 2, { 2, 3 }, i4 },
    { { FIXTURE(u4_version3) }, ARRAY_U32, 2, { 2, 3 }, i4 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    void *copy = exact_copy(rows[i].file.bytes, rows[i].file.size);
    array a;
    assert_int_equal(array_parse_npy(copy, rows[i].file.size, &a, err, sizeof err), 0);
    assert_int_equal(array_to_c_order(&a, err, sizeof err), 0);
    expect_array(&a, rows[i].dtype, rows[i].ndim, rows[i].shape, rows[i].data);
    array_release(&a);
    free(copy);
    write_file("numpy.npy", rows[i].file.bytes, rows[i].file.size);
    assert_int_equal(array_load("numpy.npy", &a, err, sizeof err), 0);
    expect_array(&a, rows[i].dtype, rows[i].ndim, rows[i].shape, rows[i].data);
    array_release(&a);
  }
}

static void unsupported_numpy_dtypes_are_refused(void **state) {
  (void)state;
  array a;
  assert_int_equal(array_parse_npy(FIXTURE(structured), &a, err, sizeof err), -1);
  expect_message("structured");
  assert_int_equal(array_parse_npy(FIXTURE(object), &a, err, sizeof err), -1);
  expect_message("pickle");
  assert_int_equal(array_parse_npy(FIXTURE(complex), &a, err, sizeof err), -1);
  expect_message("dtype '<c8' is not supported");
}

static void legal_npy_headers_are_read(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    int ndim;
  } rows[] = {
    { "{'descr': '|u1', 'fortran_order': False, 'shape': (2,), }\n", 2, 1 },
    { "{\"shape\":(2,3),\"fortran_order\":False,\"descr\":\"|u1\"}\n", 6, 2 },
    { " \t{ 'shape' : ( 2 , 3 , ) ,\n'descr':'=i2' , 'fortran_order':True } \r\n", 12, 2 },
    { "{'descr': '<i1', 'fortran_order': False, 'shape': ()}\n", 1, 0 },
    { "{'descr': '>u1', 'fortran_order': False, 'shape': (1, 1, 1, 1, 1, 1, 1, 2)}\n", 2, 8 },
    { "{'descr': '|V1', 'fortran_order': False, 'shape': (3,)}\n", 3, 1 },
    { "{'descr': '|V2', 'fortran_order': False, 'shape': (3,)}\n", 6, 1 },
    { "{'descr': '>i8', 'fortran_order': True, 'shape': (0,)}\n", 0, 1 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    buffer b = { .size = 0 };
    array a;
    put_npy(&b, i % 2 ? 1 : 2, rows[i].header, rows[i].data);
    if (array_parse_npy(b.bytes, b.size, &a, err, sizeof err) != 0)
      fail_msg("%s: %s", rows[i].header, err);
    assert_int_equal(a.ndim, rows[i].ndim);
    assert_int_equal(a.bytes, rows[i].data);
    array_release(&a);
  }
}

#define NPY(descr, order, shape)                                                                   \
  "{'descr': " descr ", 'fortran_order': " order ", 'shape': " shape "}\n"
#define SHAPED(shape) NPY("'<f8'", "False", shape)
#define TYPED(descr) NPY(descr, "False", "()")

static void broken_npy_headers_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *why;
  } rows[] = {
    { "\n", 0, "ends where '{'" },
    { "{}\n", 0, "lacks the key 'descr'" },
    { "{'descr': '<f8', 'fortran_order': False}\n", 0, "lacks the key 'shape'" },
    { "{'descr': '<f8', 'shape': ()}\n", 8, "lacks the key 'fortran_order'" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': (), 'shape': ()}\n", 8, "'shape' twice" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': (), 'x': 1}\n", 8, "unknown key 'x'" },
    { "{'descr' '<f8'}\n", 0, "not ':'" },
    { "{'descr': '<f8',, 'shape': ()}\n", 0, "not a key" },
    { "{, 'descr': '<f8'}\n", 0, "not a key" },
    { "{'descr': '<f8' 'shape': ()}\n", 0, "not ',' or '}'" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': ()\n", 8, "ends where ',' or '}'" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': ()} x\n", 8, "not the end" },
    { "{'descr': '<f8\n", 0, "not a plain character" },
    { "{'de\\x73cr': '<f8'}\n", 0, "not a plain character" },
    { "{'descr\": '<f8'}\n", 0, "unknown key" },
    { TYPED("''"), 8, "does not begin" },
    { TYPED("'f8'"), 8, "does not begin" },
    { TYPED("'<'"), 8, "not supported" },
    { TYPED("'<f16'"), 16, "not supported" },
    { TYPED("'<U4'"), 16, "not supported" },
    { TYPED("'<M8[ns]'"), 8, "not supported" },
    { TYPED("'|f8'"), 8, "byte order unclear" },
    { TYPED("'>V2'"), 2, "byte order unclear" },
    { TYPED("'|O8'"), 8, "pickle" },
    { TYPED("('<f8', (2,))"), 16, "structured" },
    { TYPED("[]"), 0, "structured" },
    { TYPED("float"), 8, "not a dtype string" },
    { TYPED("'\x1b[31m'"), 8, "'?[31m'" },
    { NPY("'<f8'", "0", "()"), 8, "not True or False" },
    { NPY("'<f8'", "false", "()"), 8, "not True or False" },
    { NPY("'<f8'", "Falsely", "()"), 8, "not ',' or '}'" },
    { SHAPED("3"), 24, "not a shape" },
    { SHAPED("[3]"), 24, "not a shape" },
    { SHAPED("(3)"), 24, "lacks its comma" },
    { SHAPED("(,)"), 8, "not a size" },
    { SHAPED("(3,,)"), 24, "not a size" },
    { SHAPED("(3 4)"), 96, "not ',' or ')'" },
    { SHAPED("(-1,)"), 8, "negative" },
    { SHAPED("(+1,)"), 8, "not a size" },
    { SHAPED("(3L,)"), 24, "not ',' or ')'" },
    { SHAPED("(1e1,)"), 80, "not ',' or ')'" },
    { SHAPED("(0x10,)"), 0, "not ',' or ')'" },
    { SHAPED("(03,)"), 24, "leading zero" },
    { SHAPED("(9223372036854775808,)"), 8, "limit of 9223372036854775807" },
    { SHAPED("(99999999999999999999999,)"), 8, "limit of 9223372036854775807" },
    { SHAPED("(9223372036854775807,)"), 8, "limit of 9223372036854775807" },
    { SHAPED("(0, 9223372036854775807)"), 0, "limit of 9223372036854775807" }, /* strides */
    { SHAPED("(4294967296, 4294967296)"), 8, "limit of 9223372036854775807" },
    { SHAPED("(1, 1, 1, 1, 1, 1, 1, 1, 1)"), 8, "limit of 8 dimensions" },
    { SHAPED("(2, 3"), 48, "not ',' or ')'" },
    { SHAPED("(2, 3)"), 47, "needs 48 bytes, 47" },
    { SHAPED("(2, 3)"), 49, "trailing bytes: the shape needs 48 bytes, 49" },
    { SHAPED("(0,)"), 1, "trailing bytes" },
    { SHAPED("()"), 7, "needs 8 bytes, 7" },
    { "{'descr': '<f8', 'fortran_order': False, 'shape': ()}", 8, "newline" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    buffer b = { .size = 0 };
    put_npy(&b, 1 + (int)(i % 3), rows[i].header, rows[i].data);
    expect_refused(parse_npy, &b, NULL, rows[i].why);
  }
}

static void broken_npy_fixed_fields_are_refused(void **state) {
  (void)state;
  static const struct {
    size_t at, width;
    uint64_t value;
    const char *why;
  } rows[] = {
    { 0, 1, 'N', "not an npy file" },
    { 6, 1, 0, "version 0.0" },
    { 6, 1, 4, "version 4.0" },
    { 7, 1, 1, "version 2.1" },
    { 8, 4, 0xffffffff, "longer than" },
    { 8, 4, 0, "newline" },
    { 8, 4, 60, "newline" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    buffer b = { .size = 0 };
    put_npy(&b, 2, SHAPED("()"), 8);
    poke(&b, rows[i].at, rows[i].value, rows[i].width);
    expect_refused(parse_npy, &b, NULL, rows[i].why);
  }
  buffer b = { .size = 11 };
  memcpy(b.bytes, "\x93NUMPY\2\0\0\0\0", 11);
  expect_refused(parse_npy, &b, NULL, "within its fixed header");
  b.size = 9;
  expect_refused(parse_npy, &b, NULL, "shorter than any header");
}

static void fortran_order_of_any_rank_becomes_c_order(void **state) {
  (void)state;
  buffer b = { .size = 0 };
  array a;
  put_npy(&b, 1, NPY("'>u2'", "True", "(3, 1, 4, 2)"), 48);
  /* Element (i, 0, j, k) holds 100 i + 10 j + k. */
  for (size_t k = 0; k < 2; k++)
    for (size_t j = 0; j < 4; j++)
      for (size_t i = 0; i < 3; i++)
        b.bytes[b.size - 48 + 2 * (i + 3 * j + 12 * k) + 1] = (unsigned char)(100 * i + 10 * j + k);
  assert_int_equal(array_parse_npy(b.bytes, b.size, &a, err, sizeof err), 0);
  assert_true(a.fortran_order);
  assert_int_equal(array_to_c_order(&a, err, sizeof err), 0);
  for (int n = 0; n < 24; n++)
    assert_int_equal(((uint16_t *)a.data)[n], 100 * (n / 8) + 10 * (n / 2 % 4) + n % 2);
  array_release(&a);
}

/* ---- npz ------------------------------------------------------------------------------------- */

enum {
  LOCAL = 0x04034b50,
  CENTRAL = 0x02014b50,
  END = 0x06054b50,
  END64 = 0x06064b50,
  LOCATOR = 0x07064b50
};

/* A ZIP archive of one member; with `zip64` every size and count is in the wide fields. */
static void put_zip(buffer *b, const char *name, const buffer *content, bool pack, bool zip64) {
  unsigned char packed[8192];
  size_t size = content->size;
  memcpy(packed, content->bytes, size);
  if (pack) {
    z_stream s = { .next_in = (Bytef *)(uintptr_t)content->bytes,
                   .avail_in = (uInt)size,
                   .next_out = packed,
                   .avail_out = sizeof packed };
    assert_int_equal(deflateInit2(&s, 9, Z_DEFLATED, -15, 8, Z_DEFAULT_STRATEGY), Z_OK);
    assert_int_equal(deflate(&s, Z_FINISH), Z_STREAM_END);
    size = s.total_out;
    deflateEnd(&s);
  }
  uint64_t narrow = 0xffffffff, crc = crc32(0, content->bytes, (uInt)content->size);
  for (int central = 0; central < 2; central++) {
    put_le(b, central ? CENTRAL : LOCAL, 4);
    put_le(b, 45, central ? 4 : 2);
    put_le(b, 0, 2);
    put_le(b, pack ? 8 : 0, 2);
    put_le(b, 0, 4);
    put_le(b, crc, 4);
    put_le(b, zip64 ? narrow : size, 4);
    put_le(b, zip64 ? narrow : content->size, 4);
    put_le(b, strlen(name), 2);
    put_le(b, zip64 ? 33 : 0, 2);
    if (central) put_zeros(b, 10);
    if (central) put_le(b, zip64 ? narrow : 0, 4);
    put(b, name, strlen(name));
    if (zip64) {
      put_le(b, 0x1234, 2); /* a field of someone else's first */
      put_le(b, 1, 2);
      put_le(b, 7, 1);
      put_le(b, 1, 2);
      put_le(b, 24, 2);
      put_le(b, content->size, 8);
      put_le(b, size, 8);
      put_le(b, 0, 8);
    }
    if (!central) put(b, packed, size);
  }
  size_t directory = 30 + strlen(name) + (zip64 ? 33 : 0) + size, end = b->size;
  if (zip64) {
    put_le(b, END64, 4);
    put_le(b, 44, 8);
    put_zeros(b, 12);
    put_le(b, 1, 8);
    put_le(b, 1, 8);
    put_le(b, end - directory, 8);
    put_le(b, directory, 8);
    put_le(b, LOCATOR, 4);
    put_le(b, 0, 4);
    put_le(b, end, 8);
    put_le(b, 1, 4);
  }
  put_le(b, END, 4);
  put_le(b, 0, 4);
  put_le(b, zip64 ? 0xffff : 1, 2);
  put_le(b, zip64 ? 0xffff : 1, 2);
  put_le(b, zip64 ? narrow : end - directory, 4);
  put_le(b, zip64 ? narrow : directory, 4);
  put_le(b, 0, 2);
}

static size_t find_record(const buffer *b, uint32_t signature) {
  buffer wanted = { .size = 0 };
  put_le(&wanted, signature, 4);
  for (size_t at = b->size - 4; at > 0; at--)
    if (memcmp(b->bytes + at, wanted.bytes, 4) == 0) return at;
  assert_memory_equal(b->bytes, wanted.bytes, 4);
  return 0;
}

static void npz_members_are_read(void **state) {
  (void)state;
  static const int64_t q[] = { 2, 3 }, zeros_shape[] = { 20, 50 }, one[] = { 1 };
  static const float zeros[1000];
  static const struct {
    const char *spec;
    array_dtype dtype;
    int ndim;
    const int64_t *shape;
    const void *data;
  } rows[] = {
    { "stored.npz:q", ARRAY_F32, 2, q, f4 },
    { "stored.npz:q.npy", ARRAY_F32, 2, q, f4 },
    { "stored.npz:k", ARRAY_I8, 1, one, "\5" },
    { "deflated.npz:q", ARRAY_F32, 2, zeros_shape, zeros },
    { "./deflated.npz:k.npy", ARRAY_I16, 2, q, i2 },
  };
  write_file("stored.npz", FIXTURE(npz_stored));
  write_file("deflated.npz", FIXTURE(npz_deflated));
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    array a;
    if (array_load(rows[i].spec, &a, err, sizeof err) != 0) fail_msg("%s", err);
    expect_array(&a, rows[i].dtype, rows[i].ndim, rows[i].shape, rows[i].data);
    array_release(&a);
  }
  expect_load_refused("stored.npz:v", "stored.npz: no member 'v'; the file has 'q.npy', 'k.npy'");
  expect_load_refused("stored.npz:q.np", "no member 'q.np'");
  expect_load_refused("stored.npz:", "no member ''");
  expect_load_refused("stored.npz", "a member has to be named; the file has 'q.npy', 'k.npy'");
}

static void npz_of_every_kind_is_read(void **state) {
  (void)state;
  for (int kind = 0; kind < 8; kind++) {
    buffer content = { .size = 0 }, b = { .size = 0 };
    put_npy(&content, 1, SHAPED("(300,)"), 2400);
    put_zip(&b, "only.npy", &content, kind & 1, kind & 2);
    if (kind & 4) { /* an archive comment, within it what looks like an end record */
      poke(&b, b.size - 2, 26, 2);
      put_le(&b, END, 4);
      put_zeros(&b, 22);
    }
    void *copy = exact_copy(b.bytes, b.size);
    array a;
    if (array_parse_npz(copy, b.size, NULL, &a, err, sizeof err) != 0)
      fail_msg("%d: %s", kind, err);
    assert_int_equal(a.bytes, 2400);
    array_release(&a);
    if (kind & 4) b.bytes[b.size - 1] = 1; /* the comment does not matter */
    expect_refused(array_parse_npz, &b, "other", "no member 'other'; the file has 'only.npy'");
    free(copy);
  }
}

static void lying_npz_files_are_refused(void **state) {
  (void)state;
  enum { STORED = 0, PACKED = 1, WIDE = 2 };
  static const struct {
    int kind;
    uint32_t record;
    size_t at, width;
    uint64_t value;
    const char *why;
  } rows[] = {
    { STORED, CENTRAL, 0, 1, 0, "has no entry" },
    { STORED, CENTRAL, 8, 2, 1, "encrypted" },
    { STORED, CENTRAL, 8, 2, 0x2000, "encrypted" },
    { STORED, CENTRAL, 10, 2, 12, "method 12" },
    { STORED, CENTRAL, 10, 2, 8, "differs between" },
    { STORED, CENTRAL, 16, 4, 1, "CRC-32" },
    { STORED, CENTRAL, 20, 4, 0x7fffffff, "does not lie within" },
    { STORED, CENTRAL, 20, 4, 5, "stored in 5 bytes but declares" },
    { STORED, CENTRAL, 20, 4, 0xffffffff, "lacks its ZIP64 sizes" },
    { STORED, CENTRAL, 28, 2, 0xffff, "ends within" },
    { STORED, CENTRAL, 28, 2, 7, "bytes after its last entry" },
    { STORED, CENTRAL, 30, 2, 1, "ends within" },
    { STORED, CENTRAL, 42, 4, 1, "no local header" },
    { STORED, CENTRAL, 42, 4, 0x7fffffff, "no local header" },
    { STORED, LOCAL, 0, 1, 0, "no local header" },
    { STORED, LOCAL, 8, 2, 8, "differs between" },
    { STORED, LOCAL, 26, 2, 7, "differs between" },
    { STORED, LOCAL, 28, 2, 0xffff, "differs between" },
    { STORED, LOCAL, 28, 2, 1, "does not lie within" },
    { STORED, LOCAL, 30, 1, 'X', "differs between" },
    { STORED, LOCAL, 38, 1, 'X', "CRC-32" },
    { STORED, END, 0, 1, 0, "no end record" },
    { STORED, END, 4, 2, 1, "several disks" },
    { STORED, END, 8, 2, 2, "several disks" },
    { STORED, END, 8, 4, 0x20002, "no entry" },
    { STORED, END, 8, 4, 0, "bytes after its last entry" },
    { STORED, END, 8, 4, 0xffffffff, "no entry" },
    { STORED, END, 12, 4, 0x7fffffff, "outside" },
    { STORED, END, 12, 4, 10, "no entry" },
    { STORED, END, 16, 4, 0, "no entry" },
    { STORED, END, 16, 4, 0x7fffffff, "outside" },
    { STORED, END, 16, 4, 0xffffffff, "lacks the ZIP64 locator" },
    { STORED, END, 20, 2, 5, "no end record" },
    { PACKED, CENTRAL, 24, 4, 2461, "does not inflate" },
    { PACKED, CENTRAL, 24, 4, 1, "does not inflate" },
    { PACKED, CENTRAL, 24, 4, 0, "does not inflate" },
    { PACKED, CENTRAL, 24, 4, 0x7fffffff, "limit of deflate (1032 to 1)" },
    { PACKED, CENTRAL, 20, 4, 9, "does not inflate" },
    { PACKED, CENTRAL, 20, 4, 0, "limit of deflate" },
    { PACKED, LOCAL, 38, 1, 7, "does not inflate" },
    { WIDE, CENTRAL, 46 + 8 + 5, 2, 2, "lacks its ZIP64 sizes" },
    { WIDE, CENTRAL, 46 + 8 + 7, 2, 16, "lacks its ZIP64 sizes" },
    { WIDE, CENTRAL, 46 + 8 + 7, 2, 25, "lacks its ZIP64 sizes" },
    { WIDE, CENTRAL, 46 + 8 + 17, 8, UINT64_MAX, "does not lie within" },
    { WIDE, CENTRAL, 46 + 8 + 25, 8, UINT64_MAX, "no local header" },
    { WIDE, LOCATOR, 0, 1, 0, "lacks the ZIP64 locator" },
    { WIDE, LOCATOR, 8, 8, UINT64_MAX, "no ZIP64 end record" },
    { WIDE, END64, 16, 4, 1, "several disks" },
    { WIDE, END64, 32, 8, UINT64_MAX, "several disks" },
    { WIDE, END64, 40, 8, UINT64_MAX, "outside" },
    { WIDE, END64, 48, 8, UINT64_MAX, "outside" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    buffer content = { .size = 0 }, b = { .size = 0 };
    put_npy(&content, 1, SHAPED("(300,)"), 2400);
    put_zip(&b, "only.npy", &content, rows[i].kind & PACKED, rows[i].kind & WIDE);
    poke(&b, find_record(&b, rows[i].record) + rows[i].at, rows[i].value, rows[i].width);
    expect_refused(array_parse_npz, &b, NULL, rows[i].why);
  }
}

static void npz_content_is_judged_too(void **state) {
  (void)state;
  buffer content = { .size = 0 }, b = { .size = 0 }, none = { .size = 0 };
  put(&content, "hello", 5);
  put_zip(&b, "a\x1b.npy", &content, false, false);
  expect_refused(array_parse_npz, &b, NULL, "member 'a?.npy': npy file of 5 bytes");
  put_le(&none, END, 4);
  put_zeros(&none, 18);
  expect_refused(array_parse_npz, &none, NULL, "has no members");
  none.size--;
  expect_refused(array_parse_npz, &none, NULL, "shorter than any ZIP");
  /* The same member listed twice. */
  size_t central = find_record(&b, CENTRAL), end = find_record(&b, END), entry = end - central;
  buffer twice = { .size = 0 };
  put(&twice, b.bytes, end);
  put(&twice, b.bytes + central, entry);
  put(&twice, b.bytes + end, 22);
  poke(&twice, end + entry + 8, 0x20002, 4);
  poke(&twice, end + entry + 12, 2 * entry, 4);
  expect_refused(array_parse_npz, &twice, "a\x1b", "more than one member");
}

/* ---- safetensors ----------------------------------------------------------------------------- */

static void safetensors_are_read(void **state) {
  (void)state;
  static const int64_t shape[] = { 2, 3 };
  static const double one = 1.5;
  array a;
  write_file("m.safetensors", FIXTURE(safetensors));
  assert_int_equal(array_load("m.safetensors:layer.q", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F32, 2, shape, f4);
  array_release(&a);
  assert_int_equal(array_load("m.safetensors:k", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_BF16, 2, shape, bf16);
  array_release(&a);
  assert_int_equal(array_load("m.safetensors:one", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F64, 0, NULL, &one);
  array_release(&a);
  expect_load_refused("m.safetensors:x", "no tensor 'x'; the file has 'one', 'layer.q', 'k'");
  expect_load_refused("m.safetensors:__metadata__", "no tensor '__metadata__'");
  expect_load_refused("m.safetensors", "a tensor has to be named");
}

static void every_safetensors_dtype_is_known(void **state) {
  (void)state;
  static const char *const names[] = { "F64",     "F32",  "F16", "BF16", "F8_E4M3",
                                       "F8_E5M2", "BOOL", "I8",  "U8",   "I16",
                                       "U16",     "I32",  "U32", "I64",  "U64" };
  for (int t = 0; t <= ARRAY_U64; t++) {
    char header[128];
    buffer b = { .size = 0 };
    size_t bytes = 2 * array_dtype_size((array_dtype)t);
    snprintf(header, sizeof header,
             "{\"a:b\":{\"dtype\":\"%s\",\"shape\":[2,1],\"data_offsets\":[0,%zu]}}  ", names[t],
             bytes);
    put_safetensors(&b, header, bytes);
    array a;
    assert_int_equal(array_parse_safetensors(b.bytes, b.size, NULL, &a, err, sizeof err), 0);
    assert_int_equal(a.dtype, t);
    assert_non_null(array_dtype_name(a.dtype));
    array_release(&a);
  }
  assert_null(array_dtype_name((array_dtype)(ARRAY_U64 + 1)));
  assert_int_equal(array_dtype_size((array_dtype)(ARRAY_U64 + 1)), 0);
}

#define TENSOR(dtype, shape, offsets)                                                              \
  "{\"t\":{\"dtype\":" dtype ",\"shape\":" shape ",\"data_offsets\":" offsets "}}"

static void broken_safetensors_are_refused(void **state) {
  (void)state;
  static const struct {
    const char *header;
    size_t data;
    const char *why;
  } rows[] = {
    { "", 0, "not JSON" },
    { "{", 0, "not JSON" },
    { "[]", 0, "not a JSON object" },
    { "{}x", 0, "not JSON" },
    { "{}", 0, "has no tensors" },
    { "{\"__metadata__\":{\"a\":\"b\"}}", 0, "has no tensors" },
    { "{\"t\":1}", 0, "'t' has no data_offsets" },
    { "{\"t\":{\"dtype\":\"U8\",\"dtype\":\"U8\"}}", 0, "not JSON: duplicate" },
    { TENSOR("\"U8\"", "[2]", "[0,2,2]"), 2, "no data_offsets of two" },
    { TENSOR("\"U8\"", "[2]", "[0,2.0]"), 2, "no data_offsets of two" },
    { TENSOR("\"U8\"", "[2]", "[-1,1]"), 2, "are no range" },
    { TENSOR("\"U8\"", "[2]", "[2,0]"), 2, "are no range" },
    { TENSOR("\"U8\"", "[2]", "[0,2]"), 1, "ends at byte 2 of data, of which the file has 1" },
    { TENSOR("\"U8\"", "[2]", "[0,9223372036854775807]"), 2, "of which the file has 2" },
    { TENSOR("\"U8\"", "[2]", "[0,9223372036854775808]"), 2, "not JSON: too big integer" },
    { TENSOR("\"U8\"", "[2]", "[0,2]"), 3, "trailing bytes: its tensors need 2 bytes, 3" },
    { TENSOR("\"U8\"", "[3]", "[0,2]"), 2, "needs 3 bytes by its shape, data_offsets give 2" },
    { TENSOR("\"F4\"", "[4]", "[0,2]"), 2, "unsupported dtype 'F4'" },
    { TENSOR("1", "[2]", "[0,2]"), 2, "no dtype" },
    { TENSOR("\"U8\"", "2", "[0,2]"), 2, "no shape" },
    { TENSOR("\"U8\"", "[-2]", "[0,2]"), 2, "at dimension 0" },
    { TENSOR("\"U8\"", "[2,\"1\"]", "[0,2]"), 2, "at dimension 1" },
    { TENSOR("\"U8\"", "[1,1,1,1,1,1,1,1,2]", "[0,2]"), 2, "9 dimensions, above the limit of 8" },
    { TENSOR("\"F64\"", "[4294967296,4294967296]", "[0,0]"), 0, "limit of 9223372036854775807" },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    buffer b = { .size = 0 };
    put_safetensors(&b, rows[i].header, rows[i].data);
    expect_refused(array_parse_safetensors, &b, NULL, rows[i].why);
  }
  buffer b = { .size = 0 };
  put_safetensors(&b, "{}", 0);
  poke(&b, 0, 3, 8);
  expect_refused(array_parse_safetensors, &b, NULL, "longer than the 2 bytes");
  poke(&b, 0, 100000001, 8);
  expect_refused(array_parse_safetensors, &b, NULL, "above the limit of 100000000");
  poke(&b, 0, UINT64_MAX, 8);
  expect_refused(array_parse_safetensors, &b, NULL, "above the limit of 100000000");
  b.size = 7;
  expect_refused(array_parse_safetensors, &b, NULL, "shorter than the 8 bytes");
}

static void a_missing_name_lists_eight(void **state) {
  (void)state;
  char header[1024] = "{";
  buffer b = { .size = 0 };
  for (int i = 0; i < 11; i++)
    snprintf(header + strlen(header), sizeof header - strlen(header),
             "%s\"t%d\\u001b\":{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}",
             i ? "," : "", i);
  strcat(header, "}");
  put_safetensors(&b, header, 0);
  expect_refused(array_parse_safetensors, &b, "q",
                 "no tensor 'q'; the file has 't0?', 't1?', 't2?', 't3?', 't4?', 't5?', 't6?', "
                 "'t7?' and 3 more");
}

/* ---- Damage of any kind ---------------------------------------------------------------------- */

static void touch(const array *a) {
  volatile unsigned char sum = 0;
  for (size_t i = 0; i < a->bytes; i++) sum = (unsigned char)(sum + ((unsigned char *)a->data)[i]);
}

static const parser parsers[] = { parse_npy, array_parse_npz, array_parse_safetensors };

static void files_cut_short_are_refused(void **state) {
  (void)state;
  for (size_t f = 0; f < FIXTURES; f++)
    for (size_t size = 0; size < fixtures[f].size; size++) {
      void *copy = exact_copy(fixtures[f].bytes, size);
      for (size_t p = 0; p < 3; p++) {
        array a;
        assert_int_equal(parsers[p](copy, size, p ? "k" : NULL, &a, err, sizeof err), -1);
        assert_true(strlen(err) > 10);
        assert_int_equal(parsers[p](copy, size, NULL, &a, NULL, 0), -1);
      }
      free(copy);
    }
}

static void changed_bytes_stay_within_the_file(void **state) {
  (void)state;
  for (size_t f = 0; f < FIXTURES; f++)
    for (size_t at = 0; at < fixtures[f].size; at++)
      for (int change = 0; change < 4; change++) {
        unsigned char *copy = exact_copy(fixtures[f].bytes, fixtures[f].size);
        copy[at] = (unsigned char[]){ (unsigned char)(copy[at] ^ 1),
                                      (unsigned char)(copy[at] ^ 0x80), 0, 0xff }[change];
        for (size_t p = 0; p < 3; p++) {
          array a;
          if (parsers[p](copy, fixtures[f].size, p ? "k" : NULL, &a, err, sizeof err) != 0)
            continue;
          assert_int_equal(array_to_c_order(&a, err, sizeof err), 0);
          touch(&a);
          array_release(&a);
        }
        free(copy);
      }
}

/* ---- Files ----------------------------------------------------------------------------------- */

static void things_that_are_not_files_are_refused(void **state) {
  (void)state;
  assert_int_equal(mkdir("folder.npy", 0777), 0);
  assert_int_equal(mkfifo("fifo.npy", 0666), 0);
  write_file("empty.npy", "", 0);
  expect_load_refused("missing.npy", "missing.npy: cannot open: No such file");
  expect_load_refused("missing.npz:q", "missing.npz: cannot open: No such file");
  expect_load_refused("folder.npy", "folder.npy: Is a directory");
  expect_load_refused("fifo.npy", "fifo.npy: not a regular file but a FIFO");
  expect_load_refused("empty.npy", "empty.npy: file is empty");
  expect_load_refused("empty.txt", "not a name of the form");
  expect_load_refused("empty.npy:q", "not a name of the form");
  expect_load_refused("", "not a name of the form");
  expect_load_refused(".npy", "not a name of the form");
  if (geteuid() != 0) {
    write_file("secret.npy", FIXTURE(f8));
    assert_int_equal(chmod("secret.npy", 0), 0);
    expect_load_refused("secret.npy", "secret.npy: cannot open: Permission denied");
  }
}

static void names_may_hold_colons(void **state) {
  (void)state;
  static const int64_t shape[] = { 2, 3 };
  array a;
  buffer b = { .size = 0 };
  put_safetensors(&b, "{\"w.npz:0\":{\"dtype\":\"U8\",\"shape\":[1],\"data_offsets\":[0,1]}}", 1);
  write_file("c.safetensors", b.bytes, b.size);
  assert_int_equal(array_load("c.safetensors:w.npz:0", &a, err, sizeof err), 0);
  array_release(&a);
  assert_int_equal(array_load("c.safetensors", &a, err, sizeof err), 0);
  array_release(&a);
  write_file("x.npz:y.npy", FIXTURE(f8));
  assert_int_equal(array_load("x.npz:y.npy", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F64, 2, shape, f8);
  array_release(&a);
  assert_int_equal(mkdir("d.npz:e", 0777), 0);
  write_file("d.npz:e/f.npz", FIXTURE(npz_stored));
  assert_int_equal(array_load("d.npz:e/f.npz:q", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_F32, 2, shape, f4);
  array_release(&a);
}

/* Holes, so that no disk space is used. */
static void large_files_are_mapped(void **state) {
  (void)state;
  buffer b = { .size = 0 };
  array a;
  put_npy(&b, 1, NPY("'|u1'", "False", "(268435456,)"), 0);
  write_file("large.npy", b.bytes, b.size);
  if (truncate("large.npy", (off_t)b.size + 268435456) != 0) skip();
  assert_int_equal(array_load("large.npy", &a, err, sizeof err), 0);
  assert_true(a.mapped);
  assert_int_equal(a.bytes, 268435456);
  assert_int_equal(((unsigned char *)a.data)[268435455], 0);
  array_release(&a);
  /* Trailing bytes, or no address space for so much (valgrind). */
  if (truncate("large.npy", (off_t)1 << 42) == 0) expect_load_refused("large.npy", "large.npy: ");
  assert_int_equal(unlink("large.npy"), 0);
}

/* ---- Saving ---------------------------------------------------------------------------------- */

static array array_of(const void *data, array_dtype dtype, int64_t rows, int64_t columns) {
  array a = {
    .dtype = dtype, .ndim = 2, .shape = { rows, columns }, .data = (void *)(uintptr_t)data
  };
  a.bytes = (size_t)(rows * columns) * array_dtype_size(dtype);
  return a;
}

static void save(const char *path, const array *a) {
  if (array_save_npy(path, a, err, sizeof err) != 0) fail_msg("%s", err);
}

static void files_are_saved_as_numpy_writes_them(void **state) {
  (void)state;
  static const struct fixture same[] = {
    { FIXTURE(f8) },   { FIXTURE(f4_fortran) }, { FIXTURE(f2) },
    { FIXTURE(bool) }, { FIXTURE(i8_scalar) },  { FIXTURE(u2_empty) },
  };
  for (size_t i = 0; i < sizeof same / sizeof same[0]; i++) {
    array a;
    assert_int_equal(array_parse_npy(same[i].bytes, same[i].size, &a, err, sizeof err), 0);
    save("saved.npy", &a);
    expect_file("saved.npy", same[i].bytes, same[i].size);
  }
  static const int64_t shape[] = { 2, 3 };
  array half = array_of(bf16, ARRAY_BF16, 2, 3), a;
  save("saved.npy", &half);
  assert_int_equal(array_load("saved.npy", &a, err, sizeof err), 0);
  expect_array(&a, ARRAY_U16, 2, shape, bf16);
  array_release(&a);
}

static void long_headers_are_padded_as_numpy_does(void **state) {
  (void)state;
  unsigned char header[ARRAY_NPY_HEADER_MAX];
  array a = { .dtype = ARRAY_F8E5M2, .ndim = ARRAY_MAX_DIMS, .fortran_order = 1 };
  for (int d = 0; d < a.ndim; d++) a.shape[d] = INT64_MAX;
  assert_int_equal(array_npy_header(&a, header), 256); /* all four as NumPy 2.4.6 */
  array edge = { .dtype = ARRAY_U8, .ndim = 4, .shape = { 1, 1000000000000, 1000000000000 } };
  edge.shape[3] = 10000000;
  assert_int_equal(array_npy_header(&edge, header), 128);
  edge.shape[3] = 100000000;
  assert_int_equal(array_npy_header(&edge, header), 192);
  edge.fortran_order = 1;
  edge.shape[0] = 7;
  edge.shape[3] = 1000000000000000000;
  assert_int_equal(array_npy_header(&edge, header), 128);
}

static void saving_keeps_modes_and_links(void **state) {
  (void)state;
  struct stat st;
  array a = array_of(f8, ARRAY_F64, 2, 3);
  assert_int_equal(mkdir("out", 0777), 0);
  mode_t mask = umask(027);
  save("out/new.npy", &a);
  umask(mask);
  assert_int_equal(stat("out/new.npy", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0640);
  assert_int_equal(chmod("out/new.npy", 0604), 0);
  assert_int_equal(symlink("out/new.npy", "link.npy"), 0);
  assert_int_equal(symlink("link.npy", "link2.npy"), 0);
  array b = array_of(f4, ARRAY_F32, 2, 3);
  save("link2.npy", &b);
  assert_int_equal(lstat("link2.npy", &st), 0);
  assert_true(S_ISLNK(st.st_mode));
  assert_int_equal(lstat("out/new.npy", &st), 0);
  assert_int_equal(st.st_mode & 07777, 0604);
  assert_int_equal(st.st_size, 128 + 24);
  char absolute[4096];
  assert_non_null(getcwd(absolute, sizeof absolute - 32));
  strcat(absolute, "/out/later.npy");
  assert_int_equal(symlink(absolute, "dangling.npy"), 0);
  save("dangling.npy", &a);
  expect_file(absolute, FIXTURE(f8));
  assert_int_equal(symlink("loop.npy", "loop.npy"), 0);
  assert_int_equal(array_save_npy("loop.npy", &a, err, sizeof err), -1);
  expect_message("Too many levels of symbolic links");
  assert_int_equal(files_in("out"), 2);
}

static void expect_not_saved(const char *path, const array *a, const char *part) {
  assert_int_equal(array_save_npy(path, a, err, sizeof err), -1);
  expect_message(part);
}

static void a_failed_save_leaves_the_old_file(void **state) {
  (void)state;
  static const float much[50000];
  array good = array_of(f8, ARRAY_F64, 2, 3), big = array_of(much, ARRAY_F32, 500, 100);
  assert_int_equal(mkdir("full", 0777), 0);
  save("full/a.npy", &good);
  struct rlimit old, tight;
  assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
  tight = old;
  tight.rlim_cur = 100000;
  void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
  assert_int_equal(setrlimit(RLIMIT_FSIZE, &tight), 0);
  int there = array_save_npy("full/a.npy", &big, err, sizeof err);
  int fresh = array_save_npy("full/b.npy", &big, err, sizeof err);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, handler);
  assert_int_equal(there, -1);
  assert_int_equal(fresh, -1);
  expect_message("full/b.npy: cannot write: File too large");
  expect_file("full/a.npy", FIXTURE(f8));
  assert_int_equal(files_in("full"), 1);

  assert_int_equal(mkdir("full/folder", 0777), 0);
  assert_int_equal(mkfifo("full/fifo", 0666), 0);
  expect_not_saved("full/folder", &good, "Is a directory");
  expect_not_saved("full/folder/", &good, "Is a directory");
  expect_not_saved("full/fifo", &good, "not a regular file but a FIFO");
  expect_not_saved("full/a.npy/x.npy", &good, "Not a directory");
  expect_not_saved("nowhere/x.npy", &good, "nowhere/x.npy: cannot open the folder: No such file");
  expect_not_saved("/dev/null", &good, "not a regular file but a device");
  expect_not_saved("", &good, "No such file");
  assert_int_equal(files_in("full"), 3);
}

static void arrays_that_contradict_themselves_are_not_saved(void **state) {
  (void)state;
  array a = array_of(f8, ARRAY_F64, 2, 3);
  a.bytes--;
  expect_not_saved("bad.npy", &a, "needs 48 bytes, the array has 47");
  a = array_of(f8, (array_dtype)99, 2, 3);
  expect_not_saved("bad.npy", &a, "unknown dtype 99");
  a = array_of(f8, ARRAY_F64, 2, 3);
  a.ndim = 9;
  expect_not_saved("bad.npy", &a, "9 dimensions");
  a.ndim = 2;
  a.shape[1] = -3;
  expect_not_saved("bad.npy", &a, "negative size -3 at dimension 1");
  assert_int_equal(access("bad.npy", F_OK), -1);
}

/* ---- A folder of its own --------------------------------------------------------------------- */

static char folder[4096];

static int enter_folder(void **state) {
  (void)state;
  const char *parent = getenv("TMPDIR");
  snprintf(folder, sizeof folder, "%s/test_array_XXXXXX", parent ? parent : "/tmp");
  return mkdtemp(folder) == NULL || chdir(folder) != 0;
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

static int leave_folder(void **state) {
  (void)state;
  if (chdir("/") != 0) return -1;
  remove_all(folder);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(numpy_files_are_read),
    cmocka_unit_test(unsupported_numpy_dtypes_are_refused),
    cmocka_unit_test(legal_npy_headers_are_read),
    cmocka_unit_test(broken_npy_headers_are_refused),
    cmocka_unit_test(broken_npy_fixed_fields_are_refused),
    cmocka_unit_test(fortran_order_of_any_rank_becomes_c_order),
    cmocka_unit_test(npz_members_are_read),
    cmocka_unit_test(npz_of_every_kind_is_read),
    cmocka_unit_test(lying_npz_files_are_refused),
    cmocka_unit_test(npz_content_is_judged_too),
    cmocka_unit_test(safetensors_are_read),
    cmocka_unit_test(every_safetensors_dtype_is_known),
    cmocka_unit_test(broken_safetensors_are_refused),
    cmocka_unit_test(a_missing_name_lists_eight),
    cmocka_unit_test(files_cut_short_are_refused),
    cmocka_unit_test(changed_bytes_stay_within_the_file),
    cmocka_unit_test(things_that_are_not_files_are_refused),
    cmocka_unit_test(names_may_hold_colons),
    cmocka_unit_test(large_files_are_mapped),
    cmocka_unit_test(files_are_saved_as_numpy_writes_them),
    cmocka_unit_test(long_headers_are_padded_as_numpy_does),
    cmocka_unit_test(saving_keeps_modes_and_links),
    cmocka_unit_test(a_failed_save_leaves_the_old_file),
    cmocka_unit_test(arrays_that_contradict_themselves_are_not_saved),
  };
  return cmocka_run_group_tests_name("array", tests, enter_folder, leave_folder);
}
