// SPDX-License-Identifier: Apache-2.0
/* npy: what NumPy writes is read as it means it, what is broken or hostile is refused with its
 * reason. */
#include "array_fixtures.h"

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

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(numpy_files_are_read),
    cmocka_unit_test(unsupported_numpy_dtypes_are_refused),
    cmocka_unit_test(legal_npy_headers_are_read),
    cmocka_unit_test(broken_npy_headers_are_refused),
    cmocka_unit_test(broken_npy_fixed_fields_are_refused),
    cmocka_unit_test(fortran_order_of_any_rank_becomes_c_order),
  };
  return cmocka_run_group_tests_name("array_npy", tests, enter_folder, leave_folder);
}
