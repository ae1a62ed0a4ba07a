// SPDX-License-Identifier: Apache-2.0
#include "hardware/measure.h"

#include <string.h>

#include "attn/hardware.h"
#if defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Vectors of the architecture's base level; the compiler turns them into what it has. */
typedef float float4 __attribute__((vector_size(16)));
typedef uint32_t word4 __attribute__((vector_size(16)));

/* Sixteen sums in flight: multiply-add latency (4 cycles) times units (2 to 4). They start from
 * different values, or the compiler would find them equal and keep one. */
#define EACH16(X)                                                                                  \
  X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15)

static float4 splat(float x) { return (float4){ x, x, x, x }; }

static inline float4 multiply_add(float4 sum, float4 x, float4 y) {
#if defined(__aarch64__)
  return (float4)vfmaq_f32((float32x4_t)y, (float32x4_t)sum, (float32x4_t)x);
#else
  return sum * x + y;
#endif
}

static float f32_base(int64_t rounds, const float *seeds) {
#define START(i) float4 s##i = splat(seeds[i]);
#define STEP(i) s##i = multiply_add(s##i, x, y);
#define SUM(i) total += s##i;
  EACH16(START)
  const float4 x = splat(seeds[16]), y = splat(seeds[17]);
  for (int64_t r = 0; r < rounds; r++) {
    EACH16(STEP)
  }
  float4 total = splat(0);
  EACH16(SUM)
  return total[0] + total[1] + total[2] + total[3];
#undef START
#undef STEP
#undef SUM
}

#if defined(__clang__) || __GNUC__ >= 8
__attribute__((no_sanitize("address", "thread", "undefined")))
#endif
static uint64_t
read_base(const void *data, size_t bytes) {
  const char *p = data;
  word4 a = { 0 }, b = a, c = a, d = a;
  for (size_t i = 0; i < bytes; i += 64) {
    word4 v[4];
    memcpy(v, p + i, sizeof v);
    a |= v[0];
    b |= v[1];
    c |= v[2];
    d |= v[3];
  }
  a |= b | c | d;
  return (uint64_t)a[0] | a[1] | a[2] | a[3];
}

#if defined(__aarch64__) && defined(__linux__)
/* Linux lets programs clean and invalidate by address (SCTLR_EL1.UCI). 64 is the line of every
 * core named in cpu_arm.c; a longer line is only flushed more than once. */
static void flush_arm(void *data, size_t bytes) {
  for (char *p = data, *end = p + bytes; p < end; p += 64)
    __asm__ volatile("dc civac, %0" : : "r"(p) : "memory");
  __asm__ volatile("dsb ish" : : : "memory");
}
#endif

/* Add, then rotate, each waiting for the one before: two cycles. Neither is renamed away (as adding
 * a constant or moving a register can be), there is no closed form, and Arm, whose logical
 * operations rotate an operand at no cost, has no such addition. */
uint64_t measure_chain(int64_t rounds, uint64_t seed) {
  uint64_t x = seed;
#define STEP(i)                                                                                    \
  x += seed;                                                                                       \
  x = x << 7 | x >> 57;
  for (int64_t r = 0; r < rounds; r++) {
    EACH16(STEP)
  }
#undef STEP
  return x;
}

void measure_loops_choose(int isa_flags, measure_loops *loops) {
  *loops = (measure_loops){ .f32 = f32_base, .f32_flops = 16 * 4 * 2, .read = read_base };
#if defined(__aarch64__) && defined(__linux__)
  loops->flush = flush_arm;
#endif
  measure_loops_x86(isa_flags, loops);
}
