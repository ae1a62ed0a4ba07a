// SPDX-License-Identifier: Apache-2.0
#include "core/dtype.h"

#include <math.h>
#include <stddef.h>
#include <string.h>

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

float dtype_bf16_to_f32(uint16_t h) { return float_of((uint32_t)h << 16); }

uint16_t dtype_f32_to_bf16(float f) {
  uint32_t u = bits_of(f);
  if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40); // quiet NaN
  return (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

/* A small IEEE-like format of 1 sign, `exponent` and `mantissa` bits, widened. With `finite`, as
 * e4m3 has it, only an all-ones magnitude is NaN and there are no infinities. Without branches on
 * data, and without float denormals, which a host may have told the CPU to flush. */
static inline float widen_small(uint32_t h, int exponent, int mantissa, bool finite) {
  uint32_t magnitude = h & ((1u << (exponent + mantissa)) - 1);
  uint32_t sign = h >> (exponent + mantissa) << 31, shifted = magnitude << (23 - mantissa);
  uint32_t infinity = ((1u << exponent) - 1) << mantissa, hidden = 1u << mantissa;
  uint32_t bias = (1u << (exponent - 1)) - 1;
  float step = float_of((128u - bias - (uint32_t)mantissa) << 23); // of denormals: 2^(1 - bias - m)
  uint32_t denormal = bits_of((float)(int32_t)magnitude * step);
  uint32_t bits = magnitude < hidden ? denormal : shifted + ((127u - bias) << 23);
  if (finite)
    bits = magnitude == infinity + hidden - 1 ? 0x7fc00000u | shifted : bits;
  else if (magnitude >= infinity)
    bits = 0x7f800000u | (shifted & 0x7fffffu) | (magnitude > infinity ? 0x400000u : 0);
  return float_of(bits | sign);
}

/* The nearest value of such a format, ties to even; too large becomes infinity, or NaN if `finite`.
 */
static uint32_t narrow_small(float f, int exponent, int mantissa, bool finite) {
  uint32_t u = bits_of(f), sign = u >> 31 << (exponent + mantissa), a = u & 0x7fffffffu;
  int bias = (1 << (exponent - 1)) - 1;
  uint32_t ones = (1u << (exponent + mantissa)) - 1;
  uint32_t infinity = ((1u << exponent) - 1) << mantissa;
  if (a > 0x7f800000u) // keep a payload's top bits, as hardware does, but stay a quiet NaN
    return sign | (finite ? ones
                          : infinity | 1u << (mantissa - 1) |
                                (a >> (23 - mantissa) & ((1u << mantissa) - 1)));
  int e = (int)(a >> 23) - 127, shift = 23 - mantissa;
  uint32_t m = (a & 0x7fffffu) | 0x800000u;
  if (e < 1 - bias) shift += 1 - bias - e;      // denormal in the small format
  if (a < 0x800000u || shift > 25) return sign; // below half of the smallest
  uint32_t half = 1u << (shift - 1), rest = m & ((1u << shift) - 1), r = m >> shift;
  if (rest > half || (rest == half && (r & 1))) r++;
  if (e >= 1 - bias) r += (uint32_t)(e + bias - 1) << mantissa; // the hidden bit adds one exponent
  if (finite ? r >= ones : r >= infinity) return sign | (finite ? ones : infinity);
  return sign | r;
}

float dtype_f16_to_f32(uint16_t h) { return widen_small(h, 5, 10, false); }
uint16_t dtype_f32_to_f16(float f) { return (uint16_t)narrow_small(f, 5, 10, false); }

#define CONVERSIONS(name, type, widen, narrow)                                                     \
  static void name##_to_f32(const void *src, float *dst, int64_t n) {                              \
    const unsigned char *p = src;                                                                  \
    for (int64_t i = 0; i < n; i++) {                                                              \
      type x;                                                                                      \
      memcpy(&x, p + i * (int64_t)sizeof(x), sizeof(x));                                           \
      dst[i] = widen;                                                                              \
    }                                                                                              \
  }                                                                                                \
  static void name##_from_f32(const float *src, void *dst, int64_t n) {                            \
    unsigned char *p = dst;                                                                        \
    for (int64_t i = 0; i < n; i++) {                                                              \
      float f = src[i];                                                                            \
      type x = narrow;                                                                             \
      memcpy(p + i * (int64_t)sizeof(x), &x, sizeof(x));                                           \
    }                                                                                              \
  }

static int8_t to_int8(float f) {
  if (!(f >= -128)) return isnan(f) ? 0 : -128;
  return f > 127 ? 127 : (int8_t)lrintf(f);
}

CONVERSIONS(f32, float, x, f)
CONVERSIONS(f64, double, (float)x, (double)f)
CONVERSIONS(f16, uint16_t, dtype_f16_to_f32(x), dtype_f32_to_f16(f))
CONVERSIONS(bf16, uint16_t, dtype_bf16_to_f32(x), dtype_f32_to_bf16(f))
CONVERSIONS(f8e4m3, uint8_t, widen_small(x, 4, 3, true), (uint8_t)narrow_small(f, 4, 3, true))
CONVERSIONS(f8e5m2, uint8_t, widen_small(x, 5, 2, false), (uint8_t)narrow_small(f, 5, 2, false))
CONVERSIONS(int8, int8_t, (float)x, to_int8(f))

/* Blocks of ggml's KV caches: a scale d in f16 before 32 quants. Layout and rounding are those of
 * quantize_row_q8_0_ref and quantize_row_q4_0_ref in ggml/src/ggml-quants.c. */
enum { BLOCK = 32 };
typedef struct q8_0_block {
  uint16_t d;
  int8_t q[BLOCK];
} q8_0_block;
typedef struct q4_0_block {
  uint16_t d;
  uint8_t q[BLOCK / 2]; /* element j in the low half of byte j, j + 16 in the high half, plus 8 */
} q4_0_block;

static void q8_0_to_f32(const void *src, float *dst, int64_t n) {
  for (int64_t i = 0; i < n / BLOCK; i++, dst += BLOCK) {
    q8_0_block b;
    memcpy(&b, (const char *)src + i * (int64_t)sizeof(b), sizeof(b));
    float d = dtype_f16_to_f32(b.d);
    for (int j = 0; j < BLOCK; j++) dst[j] = d * (float)b.q[j];
  }
}

static void q8_0_from_f32(const float *src, void *dst, int64_t n) {
  for (int64_t i = 0; i < n / BLOCK; i++, src += BLOCK) {
    q8_0_block b;
    float largest = 0;
    for (int j = 0; j < BLOCK; j++) largest = fmaxf(largest, fabsf(src[j]));
    float d = largest / 127, inverse = d != 0 ? 1 / d : 0;
    b.d = dtype_f32_to_f16(d);
    for (int j = 0; j < BLOCK; j++) b.q[j] = to_int8(roundf(src[j] * inverse));
    memcpy((char *)dst + i * (int64_t)sizeof(b), &b, sizeof(b));
  }
}

static void q4_0_to_f32(const void *src, float *dst, int64_t n) {
  for (int64_t i = 0; i < n / BLOCK; i++, dst += BLOCK) {
    q4_0_block b;
    memcpy(&b, (const char *)src + i * (int64_t)sizeof(b), sizeof(b));
    float d = dtype_f16_to_f32(b.d);
    for (int j = 0; j < BLOCK / 2; j++) {
      dst[j] = d * (float)((b.q[j] & 15) - 8);
      dst[j + BLOCK / 2] = d * (float)((b.q[j] >> 4) - 8);
    }
  }
}

static uint8_t to_nibble(float f) {
  float x = f + 8.5f;
  if (!(x > 0)) return 0;
  return x >= 15 ? 15 : (uint8_t)x;
}

static void q4_0_from_f32(const float *src, void *dst, int64_t n) {
  for (int64_t i = 0; i < n / BLOCK; i++, src += BLOCK) {
    q4_0_block b;
    float extreme = 0; // the value of largest magnitude, with its sign, becomes -8
    for (int j = 0; j < BLOCK; j++)
      if (fabsf(src[j]) > fabsf(extreme)) extreme = src[j];
    float d = extreme / -8, inverse = d != 0 ? 1 / d : 0;
    b.d = dtype_f32_to_f16(d);
    for (int j = 0; j < BLOCK / 2; j++)
      b.q[j] =
          (uint8_t)(to_nibble(src[j] * inverse) | to_nibble(src[j + BLOCK / 2] * inverse) << 4);
    memcpy((char *)dst + i * (int64_t)sizeof(b), &b, sizeof(b));
  }
}

#define PLAIN(name, bytes)                                                                         \
  { #name, 1, bytes, name##_to_f32, name##_from_f32 }
static const dtype_info table[ATTN_DTYPE_COUNT] = {
  [ATTN_F32] = PLAIN(f32, 4),
  [ATTN_F16] = PLAIN(f16, 2),
  [ATTN_BF16] = PLAIN(bf16, 2),
  [ATTN_F8E4M3] = PLAIN(f8e4m3, 1),
  [ATTN_F8E5M2] = PLAIN(f8e5m2, 1),
  [ATTN_F64] = PLAIN(f64, 8),
  [ATTN_INT8] = PLAIN(int8, 1),
  [ATTN_Q8_0] = { "q8_0", BLOCK, sizeof(q8_0_block), q8_0_to_f32, q8_0_from_f32 },
  [ATTN_Q4_0] = { "q4_0", BLOCK, sizeof(q4_0_block), q4_0_to_f32, q4_0_from_f32 },
};

const dtype_info *dtype_get(attn_dtype dtype) {
  return dtype > ATTN_DTYPE_DEFAULT && dtype < ATTN_DTYPE_COUNT ? &table[dtype] : NULL;
}
