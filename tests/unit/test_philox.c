// SPDX-License-Identifier: Apache-2.0
/* Dropout's numbers are Philox4x32-10's, and drop as often as asked. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <string.h>

#include "core/philox.h"

/* Known answers of the authors' library Random123 (tests/kat_vectors, philox4x32 10). */
static void test_known_answers(void **state) {
  (void)state;
  static const struct {
    uint32_t counter[4], key[2], expected[4];
  } known[] = {
    { { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
    { { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff },
      { 0xffffffff, 0xffffffff },
      { 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
    { { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 },
      { 0xa4093822, 0x299f31d0 },
      { 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
  };
  for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
    uint32_t c[4];
    memcpy(c, known[i].counter, sizeof(c));
    philox4x32_10(c, (uint64_t)known[i].key[1] << 32 | known[i].key[0]);
    assert_memory_equal(c, known[i].expected, sizeof(c));
  }
}

static void test_a_weight_has_its_counter(void **state) {
  (void)state;
  uint64_t seed = 0x123456789abcdefu, offset = 0xfffffffffu, row = 77, key = 0x500000006u;
  uint64_t upper = row + offset;
  uint32_t c[4] = { (uint32_t)(key / 4), (uint32_t)(key / 4 >> 32), (uint32_t)upper,
                    (uint32_t)(upper >> 32) };
  philox4x32_10(c, seed);
  float fraction = (float)c[2] * 0x1p-32f; // key % 4 == 2
  assert_true(philox_keep(seed, offset, row, key, fraction * 0.999f));
  assert_false(philox_keep(seed, offset, row, key, fraction * 1.001f));
}

static void test_weights_are_dropped_as_often_as_asked(void **state) {
  (void)state;
  const float rates[] = { 0.0f, 0.1f, 0.5f, 0.9f };
  for (int r = 0; r < 4; r++) {
    int kept = 0, rows = 300, keys = 1000;
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < keys; j++) kept += philox_keep(7, 3, (uint64_t)i, (uint64_t)j, rates[r]);
    double n = rows * keys, p = 1 - (double)rates[r];
    assert_true(fabs(kept - n * p) <= 5 * sqrt(n * p * (1 - p))); // five standard deviations
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_known_answers),
    cmocka_unit_test(test_a_weight_has_its_counter),
    cmocka_unit_test(test_weights_are_dropped_as_often_as_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
