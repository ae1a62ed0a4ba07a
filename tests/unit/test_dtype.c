// SPDX-License-Identifier: Apache-2.0
/* Conversions are right for every pattern of the small types, and round to nearest even. The oracle
 * knows only what a pattern is worth, as a double from its fields, and searches the nearest one. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "random.h"

typedef struct format {
  attn_dtype dtype;
  int bits, exponent, mantissa;
  bool finite; /* no infinities, one NaN a sign */
} format;

static const format formats[] = {
  { ATTN_F16, 16, 5, 10, false },
  { ATTN_BF16, 16, 8, 7, false },
  { ATTN_F8E5M2, 8, 5, 2, false },
  { ATTN_F8E4M3, 8, 4, 3, true },
};
enum { FORMATS = sizeof(formats) / sizeof(formats[0]) };

static uint32_t bits_of(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof(u));
  return u;
}

static float float_of(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof(f));
  return f;
}

/* What a pattern without its sign is worth. */
static double worth(const format *f, uint32_t magnitude) {
  int bias = (1 << (f->exponent - 1)) - 1, e = (int)(magnitude >> f->mantissa);
  double m = (double)(magnitude & ((1u << f->mantissa) - 1)), one = (double)(1u << f->mantissa);
  bool top = e == (1 << f->exponent) - 1;
  if (f->finite && top && m + 1 == one) return NAN;
  if (!f->finite && top) return m != 0 ? NAN : INFINITY;
  return e ? ldexp(1 + m / one, e - bias) : ldexp(m / one, 1 - bias);
}

static float widen(const format *f, uint32_t pattern) {
  uint8_t small = (uint8_t)pattern;
  uint16_t large = (uint16_t)pattern;
  float out;
  dtype_get(f->dtype)->to_f32(f->bits == 8 ? (void *)&small : (void *)&large, &out, 1);
  return out;
}

static uint32_t narrow(const format *f, float x) {
  uint8_t small = 0;
  uint16_t large = 0;
  dtype_get(f->dtype)->from_f32(&x, f->bits == 8 ? (void *)&small : (void *)&large, 1);
  return f->bits == 8 ? small : large;
}

static void test_every_pattern_widens_to_its_worth(void **state) {
  (void)state;
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    uint32_t sign = 1u << (f->bits - 1);
    for (uint32_t h = 0; h < 2 * sign; h++) {
      double expected = worth(f, h & (sign - 1));
      float got = widen(f, h);
      assert_int_equal(signbit(got) != 0, (h & sign) != 0);
      if (isnan(expected))
        assert_true(isnan(got));
      else
        assert_true((double)fabsf(got) == expected);
    }
  }
}

static void test_every_pattern_comes_back(void **state) {
  (void)state;
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    for (uint32_t h = 0; h < 1u << f->bits; h++) {
      float x = widen(f, h);
      uint32_t back = narrow(f, x);
      if (!isnan(x))
        assert_int_equal(back, h);
      else
        assert_true(isnan(widen(f, back)) && back >> (f->bits - 1) == h >> (f->bits - 1));
    }
  }
}

/* The nearest pattern to |x|: `table` holds what the finite ones are worth, ascending. One step
 * past the largest finite value stands for everything larger. */
static uint32_t nearest(const format *f, const double *table, int finite, double x) {
  uint32_t above = f->finite ? (1u << (f->bits - 1)) - 1 : (uint32_t)finite;
  double past = 2 * table[finite - 1] - table[finite - 2];
  int low = 0, high = finite;
  while (high - low > 1) {
    int mid = (low + high) / 2;
    if (table[mid] <= x)
      low = mid;
    else
      high = mid;
  }
  double up = high == finite ? past : table[high], down = table[low];
  if (x >= past) return above;
  bool rise = x - down > up - x || (x - down == up - x && (low & 1));
  if (!rise) return (uint32_t)low;
  return high == finite ? above : (uint32_t)high;
}

static void check_narrow(const format *f, const double *table, int finite, float x) {
  uint32_t expected = nearest(f, table, finite, fabs((double)x));
  if (signbit(x)) expected |= 1u << (f->bits - 1);
  uint32_t got = narrow(f, x);
  if (got != expected)
    fail_msg("%s of %a: %#x, expected %#x", attn_dtype_name(f->dtype), (double)x, got, expected);
}

static int fill_table(const format *f, double *table) {
  int n = 0;
  for (uint32_t h = 0; h < 1u << (f->bits - 1); h++) {
    double x = worth(f, h);
    if (!isfinite(x)) break;
    table[n++] = x;
  }
  return n;
}

static void test_narrowing_rounds_to_nearest_even(void **state) {
  (void)state;
  static double table[32768];
  const uint64_t seed = 20240607;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    int finite = fill_table(f, table);
    for (int h = 0; h < finite; h++) { // both sides of every value and of every midpoint
      double past = 2 * table[finite - 1] - table[finite - 2];
      double up = h + 1 < finite ? table[h + 1] : past;
      float at[2] = { (float)table[h], (float)((table[h] + up) / 2) };
      for (int k = 0; k < 2; k++) {
        check_narrow(f, table, finite, at[k]);
        check_narrow(f, table, finite, -at[k]);
        check_narrow(f, table, finite, nextafterf(at[k], INFINITY));
        check_narrow(f, table, finite, -nextafterf(at[k], 0));
      }
    }
    for (int n = 0; n < 1000000; n++) { // any float, then floats in the range of the type
      float any = float_of((uint32_t)random_next(&random));
      if (isfinite(any)) check_narrow(f, table, finite, any);
      double top = log2(table[finite - 1]) + 1, bottom = log2(table[1]) - 3;
      double e = bottom + (top - bottom) * (double)(random_next(&random) >> 11) * 0x1p-53;
      check_narrow(f, table, finite, (float)exp2(e));
    }
  }
}

static void test_infinities_and_nans_narrow_as_ocp_and_ieee_say(void **state) {
  (void)state;
  const uint64_t seed = 77;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    uint32_t sign = 1u << (f->bits - 1);
    uint32_t infinity = f->finite ? sign - 1 : ((1u << f->exponent) - 1) << f->mantissa;
    assert_int_equal(narrow(f, INFINITY), infinity); // e4m3: NaN
    assert_int_equal(narrow(f, -INFINITY), infinity | sign);
    for (int n = 0; n < 100000; n++) {
      uint32_t u = (uint32_t)random_next(&random) | 0x7f800000u;
      if (!(u & 0x7fffffu)) u |= 1; // the smallest payload: must not become an infinity
      uint32_t h = narrow(f, float_of(u));
      assert_true(isnan(widen(f, h)));
      assert_int_equal(h >> (f->bits - 1), u >> 31);
    }
  }
  assert_int_equal(narrow(&formats[3], 448), 0x7e);
  assert_int_equal(narrow(&formats[3], 464), 0x7e); // halfway to 480: to the even 448
  assert_int_equal(narrow(&formats[3], 465), 0x7f);
  assert_int_equal(narrow(&formats[2], 57344), 0x7b);
  assert_int_equal(narrow(&formats[2], 61440), 0x7c);
  assert_int_equal(dtype_f32_to_bf16(-3.402823466e38f), 0xff80); // finfo.min is -inf in bf16
}

static void test_single_conversions_agree_with_rows(void **state) {
  (void)state;
  for (uint32_t h = 0; h < 65536; h++) {
    assert_int_equal(bits_of(dtype_f16_to_f32((uint16_t)h)), bits_of(widen(&formats[0], h)));
    assert_int_equal(bits_of(dtype_bf16_to_f32((uint16_t)h)), bits_of(widen(&formats[1], h)));
    float x = float_of(h << 16 | (h * 40503u & 0xffffu));
    assert_int_equal(dtype_f32_to_f16(x), narrow(&formats[0], x));
    assert_int_equal(dtype_f32_to_bf16(x), narrow(&formats[1], x));
  }
}

/* A row converts as its elements one by one do, at any length and alignment. */
static void test_rows_convert_as_single_elements(void **state) {
  (void)state;
  unsigned char raw[2 * 301 + 1];
  float row[301];
  for (size_t i = 0; i < sizeof(raw); i++) raw[i] = (unsigned char)(i * 131 + 7);
  for (int i = 0; i < FORMATS; i++) {
    const format *f = &formats[i];
    int bytes = f->bits / 8;
    dtype_get(f->dtype)->to_f32(raw + 1, row, 301);
    for (int j = 0; j < 301; j++) {
      uint32_t h = raw[1 + j * bytes];
      if (bytes == 2) h |= (uint32_t)raw[2 + j * bytes] << 8;
      assert_int_equal(bits_of(row[j]), bits_of(widen(f, h)));
    }
  }
}

static void test_int8_is_its_integer(void **state) {
  (void)state;
  const dtype_info *t = dtype_get(ATTN_INT8);
  for (int i = -128; i < 128; i++) {
    int8_t q = (int8_t)i, back;
    float x;
    t->to_f32(&q, &x, 1);
    assert_true(x == (float)i);
    t->from_f32(&x, &back, 1);
    assert_int_equal(back, i);
  }
  const float in[] = { 0.5f, 1.5f, -2.5f, 127.6f, 1e30f, -1e30f, -INFINITY, NAN };
  const int8_t expected[] = { 0, 2, -2, 127, 127, -128, -128, 0 };
  int8_t out[8];
  t->from_f32(in, out, 8);
  assert_memory_equal(out, expected, 8);
}

static void test_f64_and_f32_rows(void **state) {
  (void)state;
  const double in[3] = { 0.1, -1e-50, 1 + 0x1p-24 };
  float out[3], copy[3];
  double back[3];
  dtype_get(ATTN_F64)->to_f32(in, out, 3);
  assert_true(out[0] == 0.1f && out[1] == 0 && signbit(out[1]) && out[2] == 1);
  dtype_get(ATTN_F64)->from_f32(out, back, 3);
  for (int i = 0; i < 3; i++) assert_true(back[i] == (double)out[i]);
  dtype_get(ATTN_F32)->to_f32(out, copy, 3);
  assert_memory_equal(copy, out, sizeof(out));
}

static void test_q8_0_blocks(void **state) {
  (void)state;
  float x[64], back[64];
  unsigned char blocks[2 * 34];
  for (int i = 0; i < 32; i++) x[i] = (float)(i - 16) * 0.5f;
  x[31] = -63.5f; // largest magnitude: d = 0.5
  memset(x + 32, 0, 32 * sizeof(float));
  dtype_get(ATTN_Q8_0)->from_f32(x, blocks, 64);
  assert_int_equal(blocks[0] | blocks[1] << 8, 0x3800); // 0.5 in f16
  for (int i = 0; i < 31; i++) assert_int_equal((int8_t)blocks[2 + i], i - 16);
  assert_int_equal((int8_t)blocks[2 + 31], -127);
  for (int i = 34; i < 68; i++) assert_int_equal(blocks[i], 0);
  dtype_get(ATTN_Q8_0)->to_f32(blocks, back, 64);
  assert_memory_equal(back, x, sizeof(x));
}

static void test_q4_0_blocks(void **state) {
  (void)state;
  float x[64], back[64];
  unsigned char blocks[2 * 18];
  for (int i = 0; i < 32; i++) x[i] = (float)(i - 16); // largest magnitude -16: d = 2
  memset(x + 32, 0, 32 * sizeof(float));
  dtype_get(ATTN_Q4_0)->from_f32(x, blocks, 64);
  assert_int_equal(blocks[0] | blocks[1] << 8, 0x4000); // 2 in f16
  for (int j = 0; j < 16; j++) {                        // q = min(15, floor(x / 2 + 8.5))
    int low = j % 2 ? (j + 1) / 2 : j / 2, high = j == 15 ? 15 : 8 + (j + 1) / 2;
    assert_int_equal(blocks[2 + j] & 15, low);
    assert_int_equal(blocks[2 + j] >> 4, high);
  }
  assert_int_equal(blocks[18] | blocks[19] << 8, 0x8000); // 0 / -8, as ggml has it
  for (int j = 0; j < 16; j++) assert_int_equal(blocks[20 + j], 0x88);
  dtype_get(ATTN_Q4_0)->to_f32(blocks, back, 64);
  for (int i = 0; i < 16; i++) {
    assert_true(back[i] == 2 * (float)((blocks[2 + i] & 15) - 8));
    assert_true(back[16 + i] == 2 * (float)((blocks[2 + i] >> 4) - 8));
  }
  for (int i = 32; i < 64; i++) assert_true(back[i] == 0);
  for (int i = 0; i < 32; i++) x[i] = -x[i]; // the scale takes the extreme's sign
  dtype_get(ATTN_Q4_0)->from_f32(x, blocks, 32);
  assert_int_equal(blocks[0] | blocks[1] << 8, 0xc000);
  assert_int_equal(blocks[2] & 15, 0);
}

static void test_blocks_stay_within_half_a_step(void **state) {
  (void)state;
  const uint64_t seed = 5;
  uint64_t random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  const attn_dtype dtypes[2] = { ATTN_Q8_0, ATTN_Q4_0 };
  for (int n = 0; n < 20000; n++) {
    float x[32], back[32], largest = 0, size = exp2f(20 * random_float(&random) - 4);
    unsigned char block[34];
    for (int i = 0; i < 32; i++) {
      x[i] = size * random_float(&random);
      largest = fmaxf(largest, fabsf(x[i]));
    }
    if (largest < 0x1p-7f || largest > 60000) continue; // the f16 scale would be too coarse
    for (int t = 0; t < 2; t++) {
      dtype_get(dtypes[t])->from_f32(x, block, 32);
      dtype_get(dtypes[t])->to_f32(block, back, 32);
      // The f16 scale is off by 2^-11 at most; the far end of 4 bits, +8, does not exist.
      float step = largest / (t ? 8 : 127), slack = largest * 0x1p-10f;
      for (int i = 0; i < 32; i++)
        assert_true(fabsf(back[i] - x[i]) <= (t ? 1.0f : 0.5f) * step + slack);
    }
  }
}

static void test_odd_inputs_of_blocks_are_defined(void **state) {
  (void)state;
  float x[32] = { NAN, INFINITY, -INFINITY, 1e-44f };
  unsigned char block[34];
  for (int i = 4; i < 32; i++) x[i] = 1e-44f;
  dtype_get(ATTN_Q8_0)->from_f32(x, block, 32);
  dtype_get(ATTN_Q4_0)->from_f32(x, block, 32);
  x[0] = x[1] = x[2] = 1e-44f; // 1 / d overflows
  dtype_get(ATTN_Q8_0)->from_f32(x, block, 32);
  dtype_get(ATTN_Q4_0)->from_f32(x, block, 32);
}

static void test_table_and_byte_counts(void **state) {
  (void)state;
  assert_null(dtype_get(ATTN_DTYPE_DEFAULT));
  assert_null(dtype_get(ATTN_DTYPE_COUNT));
  assert_null(dtype_get((attn_dtype)-1));
  for (int t = ATTN_F32; t < ATTN_DTYPE_COUNT; t++) {
    const dtype_info *info = dtype_get((attn_dtype)t);
    assert_true(info->to_f32 && info->from_f32);
    assert_string_equal(attn_dtype_name((attn_dtype)t), info->name);
    assert_int_equal(attn_dtype_bytes((attn_dtype)t, 64), 64 / info->block * info->block_bytes);
  }
  assert_string_equal(attn_dtype_name(ATTN_DTYPE_DEFAULT), "default");
  assert_null(attn_dtype_name(ATTN_DTYPE_COUNT));
  assert_int_equal(attn_dtype_bytes(ATTN_F16, 3), 6);
  assert_int_equal(attn_dtype_bytes(ATTN_Q8_0, 64), 68);
  assert_int_equal(attn_dtype_bytes(ATTN_Q4_0, 64), 36);
  assert_int_equal(attn_dtype_bytes(ATTN_Q4_0, 33), -1);
  assert_int_equal(attn_dtype_bytes(ATTN_F32, -1), -1);
  assert_int_equal(attn_dtype_bytes(ATTN_F32, INT64_MAX / 2), -1);
  assert_int_equal(attn_dtype_bytes(ATTN_DTYPE_DEFAULT, 1), -1);
  assert_int_equal(attn_dtype_bytes((attn_dtype)99, 1), -1);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_pattern_widens_to_its_worth),
    cmocka_unit_test(test_every_pattern_comes_back),
    cmocka_unit_test(test_narrowing_rounds_to_nearest_even),
    cmocka_unit_test(test_infinities_and_nans_narrow_as_ocp_and_ieee_say),
    cmocka_unit_test(test_single_conversions_agree_with_rows),
    cmocka_unit_test(test_rows_convert_as_single_elements),
    cmocka_unit_test(test_int8_is_its_integer),
    cmocka_unit_test(test_f64_and_f32_rows),
    cmocka_unit_test(test_q8_0_blocks),
    cmocka_unit_test(test_q4_0_blocks),
    cmocka_unit_test(test_blocks_stay_within_half_a_step),
    cmocka_unit_test(test_odd_inputs_of_blocks_are_defined),
    cmocka_unit_test(test_table_and_byte_counts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
