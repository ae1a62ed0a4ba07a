// SPDX-License-Identifier: Apache-2.0
/* The exponential inside softmax, over every float of its range, against the C library's double one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "kernel/kernel.h"

enum { STEP = 61 }; /* bit patterns skipped: coprime to everything, about 18 million left */

static float from_bits(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof(x));
  return x;
}

/* p = exp(x - 0) for the lanes of a whole tile, x <= 0 */
static void exponentials(const kernel_table *t, float *x, bool natural) {
  _Alignas(64) float zero[KERNEL_MAX_LANES] = { 0 }, alpha[KERNEL_MAX_LANES], sum[KERNEL_MAX_LANES];
  memset(sum, 0, sizeof(sum));
  t->softmax(x, 1, KERNEL_MAX_VECTORS, zero, zero, alpha, sum, natural);
}

static double worst_error(const kernel_table *t, bool natural) {
  double worst = 0;
  int lanes = KERNEL_MAX_VECTORS * t->width;
  _Alignas(64) float x[KERNEL_MAX_LANES], e[KERNEL_MAX_LANES];
  double lowest = natural ? -126 * 0.69314718055994531 : -126;
  for (uint32_t bits = 0x80000000u; from_bits(bits) > lowest; bits += STEP * (uint32_t)lanes) {
    for (int i = 0; i < lanes; i++) {
      x[i] = from_bits(bits + STEP * (uint32_t)i);
      if (!((double)x[i] > lowest)) x[i] = -1;
      e[i] = x[i];
    }
    exponentials(t, e, natural);
    for (int i = 0; i < lanes; i++) {
      double exact = natural ? exp((double)x[i]) : exp2((double)x[i]);
      worst = fmax(worst, fabs((double)e[i] / exact - 1));
    }
  }
  return worst;
}

static void test_error_over_the_whole_range(void **unused) {
  (void)unused;
  for (attn_isa isa = ATTN_ISA_SCALAR; isa < ATTN_ISA_COUNT; isa++) {
    const kernel_table *t = kernel_exact(isa);
    if (!t) continue;
    double base2 = worst_error(t, false), natural = worst_error(t, true);
    print_message("%s: 2^x %.2e, e^x %.2e\n", t->name, base2, natural);
    assert_true(base2 <= 1.2e-7); // one unit in the last place is 1.19e-7
    assert_true(natural <= 1.5e-7);
  }
}

static void test_ends_of_the_range(void **unused) {
  (void)unused;
  const float inputs[] = { 0.0f, -0.0f, -INFINITY, NAN, -127.0f, -3e38f, -150.0f, -88.0f };
  for (attn_isa isa = ATTN_ISA_AVX2; isa < ATTN_ISA_COUNT; isa++) {
    const kernel_table *t = kernel_exact(isa);
    if (!t) continue;
    for (int natural = 0; natural < 2; natural++) {
      _Alignas(64) float x[KERNEL_MAX_LANES] = { 0 };
      memcpy(x, inputs, sizeof(inputs));
      exponentials(t, x, natural);
      assert_true(x[0] == 1.0f && x[1] == 1.0f);
      assert_true(x[2] == 0.0f);
      assert_true(isnan(x[3]));
      assert_true(x[5] == 0.0f && x[6] == 0.0f); // no denormals
      if (!natural) assert_true(x[4] == 0.0f);
    }
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_error_over_the_whole_range),
    cmocka_unit_test(test_ends_of_the_range),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
