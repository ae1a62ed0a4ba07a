// SPDX-License-Identifier: Apache-2.0
/* Size arithmetic that cannot wrap. Each returns false on overflow and leaves *out alone. */
#ifndef CORE_SIZE_H
#define CORE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool size_mul(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline bool size_add(int64_t a, int64_t b, int64_t *out) {
  int64_t r;
  if (__builtin_add_overflow(a, b, &r)) return false;
  *out = r;
  return true;
}

static inline int64_t size_min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t size_max(int64_t a, int64_t b) { return a > b ? a : b; }
/* a >= 0, b > 0 */
static inline int64_t size_ceil_div(int64_t a, int64_t b) { return a / b + (a % b != 0); }

#endif
