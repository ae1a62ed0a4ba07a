// SPDX-License-Identifier: Apache-2.0
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdint.h>

/* SplitMix64 (Steele, Lea, Flood 2014). */
static inline uint64_t random_next(uint64_t *state) {
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

/* Uniform in [low, high]. */
static inline int64_t random_int(uint64_t *state, int64_t low, int64_t high) {
  return low + (int64_t)(random_next(state) % (uint64_t)(high - low + 1));
}

/* Uniform in [-1, 1). */
static inline float random_float(uint64_t *state) {
  return (float)(int32_t)(random_next(state) >> 32) * 0x1p-31f;
}

#endif
