// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "core/decimal.h"
#include "select/internal.h"

void text_put(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = t->size > t->at ? t->size - t->at : 0;
  int n = vsnprintf(room ? t->buffer + t->at : NULL, room, format, args);
  va_end(args);
  if (n > 0) t->at += (size_t)n;
}

void text_number(text *t, double x) {
  char digits[DECIMAL_FLOAT_SIZE];
  if (x == floor(x) && fabs(x) < 1e18) {
    text_put(t, "%lld", (long long)x);
  } else if (isfinite(x) && fabs(x) < 1e30) {
    decimal_write_float((float)x, digits);
    text_put(t, "%s", digits);
  } else {
    text_put(t, "unknown");
  }
}

void text_short(text *t, double x) {
  int decimals = 0;
  if (!(fabs(x) < 1e15)) {
    text_put(t, isnan(x) ? "unknown" : "many");
    return;
  }
  if (x > 0 && x < 1e-3) x = 1e-3;
  while (decimals < 5 && fabs(x) < 99.95 && x != 0) x *= 10, decimals++;
  long long whole = llround(x), scale = 1;
  for (int i = 0; i < decimals; i++) scale *= 10;
  while (decimals && whole % 10 == 0) whole /= 10, scale /= 10, decimals--;
  if (decimals)
    text_put(t, "%lld.%0*lld", whole / scale, decimals, whole % scale);
  else
    text_put(t, "%lld", whole);
}

void text_time(text *t, double seconds) {
  if (isnan(seconds)) {
    text_put(t, "an unknown time");
    return;
  }
  double unit = seconds < 1e-3 ? 1e6 : seconds < 1 ? 1e3 : 1;
  text_short(t, seconds * unit);
  text_put(t, unit == 1e6 ? " us" : unit == 1e3 ? " ms" : " s");
}

void text_bytes(text *t, double bytes) {
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
  int u = 0;
  while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
  text_short(t, bytes);
  text_put(t, " %s", units[u]);
}
