// SPDX-License-Identifier: Apache-2.0
#include "core/decimal.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "core/size.h"

static bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool decimal_read_int(const char **text, int64_t *out) {
  const char *s = *text;
  bool negative = *s == '-';
  int64_t x = 0;
  if (*s == '-' || *s == '+') s++;
  if (!is_digit(*s)) return false;
  for (; is_digit(*s); s++) {
    int64_t digit = negative ? '0' - *s : *s - '0';
    if (!size_mul(x, 10, &x) || !size_add(x, digit, &x)) return false;
  }
  *text = s;
  *out = x;
  return true;
}

/* Digits after each other as an integer and a power of ten; those past 18 only count. */
typedef struct digits {
  uint64_t mantissa;
  int64_t exponent;
  int count;
} digits;

static const char *take_digits(const char *s, digits *d, bool fraction) {
  for (; is_digit(*s); s++, d->count++) {
    bool room = d->mantissa < 100000000000000000u;
    if (room) d->mantissa = d->mantissa * 10 + (uint64_t)(*s - '0');
    d->exponent += !room - fraction;
  }
  return s;
}

/* A double is exact up to 10^22 and off by little beyond: far less than what a float can see. */
static double scale_by_ten(double x, int64_t exponent) {
  if (x == 0) return x;
  if (exponent > 400) return INFINITY;
  if (exponent < -400) return 0;
  if (exponent < -300) return x / 1e300 / pow(10, (double)(-exponent - 300));
  if (exponent < 0) return x / pow(10, (double)-exponent);
  return x * pow(10, (double)exponent);
}

bool decimal_read_float(const char *text, float *out) {
  digits d = { 0 };
  const char *s = text;
  bool negative = *s == '-';
  if (*s == '-' || *s == '+') s++;
  s = take_digits(s, &d, false);
  if (*s == '.') s = take_digits(s + 1, &d, true);
  if (!d.count) return false;
  int64_t exponent = 0;
  if (*s == 'e' || *s == 'E') {
    s++;
    if (!decimal_read_int(&s, &exponent)) return false;
  }
  if (*s || !size_add(exponent, d.exponent, &exponent)) return false;
  double x = scale_by_ten((double)d.mantissa, exponent);
  if (x > 3.4028235677973366e38) return false; // halfway past the largest float
  *out = (float)(negative ? -x : x);
  return true;
}

void decimal_write_float(float x, char out[DECIMAL_FLOAT_SIZE]) {
  bool plain = fabsf(x) >= 1e-4f && fabsf(x) < 1e9f; // "30", not "3e+01"
  for (int places = 1; places <= 9; places++) {      // 9 always suffice for binary32
    float back;
    snprintf(out, DECIMAL_FLOAT_SIZE, "%.*g", places, (double)x);
    for (char *c = out; *c; c++)
      if (!is_digit(*c) && *c != '-' && *c != '+' && *c != 'e' && isfinite(x)) *c = '.';
    if (plain && strchr(out, 'e')) continue;
    if (decimal_read_float(out, &back) && back == x) return;
  }
}
