// SPDX-License-Identifier: Apache-2.0
/* npz and safetensors: what NumPy and safetensors write is read as they mean it, what is broken or
 * hostile is refused with its reason. */
#include "array_fixtures.h"

#include <zlib.h>

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

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(npz_members_are_read),
    cmocka_unit_test(npz_of_every_kind_is_read),
    cmocka_unit_test(lying_npz_files_are_refused),
    cmocka_unit_test(npz_content_is_judged_too),
    cmocka_unit_test(safetensors_are_read),
    cmocka_unit_test(every_safetensors_dtype_is_known),
    cmocka_unit_test(broken_safetensors_are_refused),
    cmocka_unit_test(a_missing_name_lists_eight),
  };
  return cmocka_run_group_tests_name("array_containers", tests, enter_folder, leave_folder);
}
