// SPDX-License-Identifier: Apache-2.0
/* Every word has one name that reads back; errors stay with the thread that made them. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "attn/attn.h"
#include "core/status.h"

static void test_backends(void **state) {
  (void)state;
  static const char *const names[ATTN_BACKEND_COUNT][2] = {
    { "auto", "automatic" },
    { "flash", "FlashAttention" },
    { "flash_v3", "FlashAttention-3" },
    { "math", "Math" },
    { "memory_efficient", "Memory-Efficient" },
    { "cudnn", "cuDNN" },
    { "metal", "Metal" },
    { "cpu", "CPU" },
    { "varlen", "VarLen" },
    { "flash_decode", "Flash Decoding" },
  };
  for (int i = 0; i < ATTN_BACKEND_COUNT; i++) {
    attn_backend backend = ATTN_BACKEND_COUNT;
    assert_string_equal(attn_backend_name((attn_backend)i), names[i][0]);
    assert_string_equal(attn_backend_display_name((attn_backend)i), names[i][1]);
    assert_int_equal(attn_backend_from_name(names[i][0], &backend), ATTN_OK);
    assert_int_equal(backend, i);
  }
  attn_backend backend = ATTN_BACKEND_CPU;
  assert_int_equal(attn_backend_from_name("flsh", &backend), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(backend, ATTN_BACKEND_CPU);
  assert_non_null(strstr(attn_last_error(), "flsh"));
  for (int i = 0; i < ATTN_BACKEND_COUNT; i++)
    assert_non_null(strstr(attn_last_error(), names[i][0]));
  assert_int_equal(attn_backend_from_name(NULL, &backend), ATTN_ERROR_NULL);
  assert_int_equal(attn_backend_from_name("cpu", NULL), ATTN_ERROR_NULL);
  assert_null(attn_backend_name(ATTN_BACKEND_COUNT));
  assert_null(attn_backend_name((attn_backend)-1));
  assert_null(attn_backend_display_name((attn_backend)-1));
}

static void test_devices_and_isas(void **state) {
  (void)state;
  static const char *const devices[] = { "cpu", "cuda", "rocm", "metal", "xpu" };
  static const char *const isas[] = { "auto", "scalar", "avx2", "avx512", "avx512bf16", "amx", "neon" };
  assert_int_equal(sizeof(devices) / sizeof(devices[0]), ATTN_DEVICE_TYPE_COUNT);
  assert_int_equal(sizeof(isas) / sizeof(isas[0]), ATTN_ISA_COUNT);
  for (int i = 0; i < ATTN_DEVICE_TYPE_COUNT; i++)
    assert_string_equal(attn_device_type_name((attn_device_type)i), devices[i]);
  for (int i = 0; i < ATTN_ISA_COUNT; i++) {
    attn_isa isa = ATTN_ISA_COUNT;
    assert_string_equal(attn_isa_name((attn_isa)i), isas[i]);
    assert_int_equal(attn_isa_from_name(isas[i], &isa), ATTN_OK);
    assert_int_equal(isa, i);
  }
  attn_isa isa = ATTN_ISA_AVX2;
  assert_int_equal(attn_isa_from_name("avx", &isa), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(isa, ATTN_ISA_AVX2);
  assert_int_equal(attn_isa_from_name(NULL, &isa), ATTN_ERROR_NULL);
  assert_null(attn_device_type_name(ATTN_DEVICE_TYPE_COUNT));
  assert_null(attn_isa_name((attn_isa)-3));
}

static void test_statuses(void **state) {
  (void)state;
  for (int i = 0; i < ATTN_STATUS_COUNT; i++) {
    assert_true(strlen(attn_status_string((attn_status)i)) > 0);
    for (int j = 0; j < i; j++)
      assert_string_not_equal(attn_status_string((attn_status)i),
                              attn_status_string((attn_status)j));
  }
  assert_non_null(attn_status_string((attn_status)-1));
  assert_non_null(attn_status_string(ATTN_STATUS_COUNT));
}

static void test_version_is_that_of_the_header(void **state) {
  (void)state;
  char expected[32];
  snprintf(expected, sizeof(expected), "%d.%d.%d", ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR,
           ATTN_VERSION_PATCH);
  assert_string_equal(attn_version(), expected);
}

static void test_errors_keep_their_words(void **state) {
  (void)state;
  char long_text[3000];
  assert_int_equal(core_fail(ATTN_ERROR_SHAPE, "%s of value (%d)", "seq", 7), ATTN_ERROR_SHAPE);
  assert_string_equal(attn_last_error(), "seq of value (7)");
  core_fail(ATTN_ERROR_SHAPE, "in file: %s", attn_last_error()); // may quote the one before
  assert_string_equal(attn_last_error(), "in file: seq of value (7)");
  assert_int_equal(attn_problem_validate(NULL), ATTN_ERROR_NULL);
  attn_problem good = { .head_dim = 1 };
  assert_int_equal(attn_problem_validate(&good), ATTN_OK);
  assert_string_equal(attn_last_error(), "problem is NULL"); // success changes nothing
  memset(long_text, 'x', sizeof(long_text) - 1);
  long_text[sizeof(long_text) - 1] = 0;
  core_fail(ATTN_ERROR_IO, "%s", long_text); // cut, not overrun
  assert_true(strlen(attn_last_error()) >= 511 && strlen(attn_last_error()) < 3000);
}

static void *other_thread(void *arg) {
  snprintf(arg, 64, "%.63s", attn_last_error());
  core_fail(ATTN_ERROR_IO, "of the other thread");
  return NULL;
}

static void test_errors_belong_to_their_thread(void **state) {
  (void)state;
  pthread_t thread;
  char seen[64] = "?";
  core_fail(ATTN_ERROR_IO, "of this thread");
  assert_int_equal(pthread_create(&thread, NULL, other_thread, seen), 0);
  pthread_join(thread, NULL);
  assert_string_equal(seen, ""); // nothing has failed there
  assert_string_equal(attn_last_error(), "of this thread");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_backends),
    cmocka_unit_test(test_devices_and_isas),
    cmocka_unit_test(test_statuses),
    cmocka_unit_test(test_version_is_that_of_the_header),
    cmocka_unit_test(test_errors_keep_their_words),
    cmocka_unit_test(test_errors_belong_to_their_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
