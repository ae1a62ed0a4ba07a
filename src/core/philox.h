// SPDX-License-Identifier: Apache-2.0
/*
 * Dropout's random numbers: Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011), one number a
 * weight, the same whatever computes them in whatever tiles. The weight of query i and key j in
 * head h of sequence b has
 *
 *   row = (b * heads_q + h) * seq_q + i       (seq_q as in the problem, also for packed sequences)
 *   counter = { j / 4 in words 0 and 1, row + offset in words 2 and 3 }, key = seed, low words
 * first number = word j % 4 of the result, read as a fraction of 2^32
 *
 * and is kept when number >= dropout; kept weights are divided by 1 - dropout.
 */
#ifndef CORE_PHILOX_H
#define CORE_PHILOX_H

#include <stdbool.h>
#include <stdint.h>

static inline void philox4x32_10(uint32_t c[4], uint64_t seed) {
  uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
  for (int round = 0; round < 10; round++) {
    uint64_t a = (uint64_t)0xD2511F53u * c[0], b = (uint64_t)0xCD9E8D57u * c[2];
    uint32_t x0 = (uint32_t)(b >> 32) ^ c[1] ^ k0, x2 = (uint32_t)(a >> 32) ^ c[3] ^ k1;
    c[0] = x0, c[1] = (uint32_t)b, c[2] = x2, c[3] = (uint32_t)a;
    k0 += 0x9E3779B9u, k1 += 0xBB67AE85u;
  }
}

/* Whether the weight survives dropout with probability `dropout` of not doing so. */
static inline bool philox_keep(uint64_t seed, uint64_t offset, uint64_t row, uint64_t key,
                               float dropout) {
  uint64_t upper = row + offset;
  uint32_t c[4] = { (uint32_t)(key / 4), (uint32_t)(key / 4 >> 32), (uint32_t)upper,
                    (uint32_t)(upper >> 32) };
  philox4x32_10(c, seed);
  return (double)c[key % 4] * 0x1p-32 >= (double)dropout;
}

#endif
