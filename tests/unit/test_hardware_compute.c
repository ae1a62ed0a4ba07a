// SPDX-License-Identifier: Apache-2.0
/* What follows from a CUDA compute capability. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "attn/hardware.h"

static const struct row {
  int major, minor;
  const char *arch;
  int shared_kb;
  attn_known tensor, f16, bf16, f8;
} rows[] = {
  { 5, 0, "Maxwell", 64, ATTN_NO, ATTN_NO, ATTN_NO, ATTN_NO },
  { 5, 2, "Maxwell", 96, ATTN_NO, ATTN_NO, ATTN_NO, ATTN_NO },
  { 5, 3, "Maxwell", 64, ATTN_NO, ATTN_YES, ATTN_NO, ATTN_NO },
  { 6, 0, "Pascal", 64, ATTN_NO, ATTN_YES, ATTN_NO, ATTN_NO },
  { 6, 1, "Pascal", 96, ATTN_NO, ATTN_YES, ATTN_NO, ATTN_NO },
  { 7, 0, "Volta", 96, ATTN_YES, ATTN_YES, ATTN_NO, ATTN_NO },
  { 7, 5, "Turing", 64, ATTN_YES, ATTN_YES, ATTN_NO, ATTN_NO },
  { 8, 0, "Ampere", 164, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_NO },
  { 8, 6, "Ampere", 100, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_NO },
  { 8, 7, "Ampere", 164, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_NO },
  { 8, 9, "Ada", 100, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 9, 0, "Hopper", 228, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 10, 0, "Blackwell", 228, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 10, 3, "Blackwell", 228, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 11, 0, "Blackwell", 228, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 12, 0, "Blackwell", 100, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
  { 12, 1, "Blackwell", 100, ATTN_YES, ATTN_YES, ATTN_YES, ATTN_YES },
};

static void test_each_architecture_has_its_facts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    const struct row *r = &rows[i];
    attn_capability c;
    assert_int_equal(attn_capability_from_compute(r->major, r->minor, &c), ATTN_OK);
    assert_int_equal(c.device, ATTN_DEVICE_CUDA);
    assert_int_equal(c.source, ATTN_SOURCE_COMPUTE_CAPABILITY);
    assert_int_equal(c.compute_major, r->major);
    assert_int_equal(c.compute_minor, r->minor);
    assert_string_equal(c.arch, r->arch);
    assert_int_equal(c.shared_memory_bytes, r->shared_kb * 1024);
    assert_int_equal(c.tensor_cores, r->tensor);
    assert_int_equal(c.f16, r->f16);
    assert_int_equal(c.bf16, r->bf16);
    assert_int_equal(c.f8, r->f8);
  }
}

static void test_what_does_not_follow_stays_unknown(void **state) {
  (void)state;
  attn_capability c;
  memset(&c, 0x5a, sizeof c);
  assert_int_equal(attn_capability_from_compute(9, 0, &c), ATTN_OK);
  assert_int_equal(c.memory_total, 0);
  assert_int_equal(c.memory_available, 0);
  assert_int_equal(c.compute_units, 0);
  assert_true(c.clock_hz == 0 && c.bandwidth == 0);
  assert_true(c.peak_f32 == 0 && c.peak_f16 == 0 && c.peak_bf16 == 0 && c.peak_f8 == 0);
  assert_int_equal(c.l2_bytes, 0);
  assert_int_equal(c.cudnn_version, 0);
  assert_int_equal(c.unified_memory, ATTN_UNKNOWN);
}

static void test_unreleased_pairs_are_errors_and_change_nothing(void **state) {
  (void)state;
  const int pairs[][2] = { { 0, 0 }, { 3, 5 },  { 4, 0 },  { 5, 1 },  { 8, 1 },  { 9, 1 },
                           { 9, 5 }, { 12, 2 }, { 13, 0 }, { -1, 0 }, { 9, -1 }, { 90, 0 } };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    attn_capability c, before;
    memset(&c, 0x5a, sizeof c);
    before = c;
    assert_int_equal(attn_capability_from_compute(pairs[i][0], pairs[i][1], &c), ATTN_ERROR_VALUE);
    assert_memory_equal(&c, &before, sizeof c);
  }
  assert_int_equal(attn_capability_from_compute(9, 0, NULL), ATTN_ERROR_NULL);
  attn_capability c;
  attn_capability_from_compute(9, 1, &c);
  assert_non_null(strstr(attn_last_error(), "9.1"));
}

static void test_every_isa_flag_has_its_own_name(void **state) {
  (void)state;
  const char *names[31];
  int count = 0;
  for (int bit = 0; bit < 31; bit++) {
    const char *name = attn_isa_flag_name(1 << bit);
    if (!name) continue;
    for (int i = 0; i < count; i++) assert_string_not_equal(name, names[i]);
    names[count++] = name;
  }
  assert_int_equal(count, 22);
  assert_string_equal(attn_isa_flag_name(ATTN_CPU_AVX512BF16), "avx512bf16");
  assert_null(attn_isa_flag_name(0));
  assert_null(attn_isa_flag_name(ATTN_CPU_AVX | ATTN_CPU_AVX2));
  assert_null(attn_isa_flag_name(-1));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_each_architecture_has_its_facts),
    cmocka_unit_test(test_what_does_not_follow_stays_unknown),
    cmocka_unit_test(test_unreleased_pairs_are_errors_and_change_nothing),
    cmocka_unit_test(test_every_isa_flag_has_its_own_name),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
