// SPDX-License-Identifier: Apache-2.0
#ifndef CORE_DTYPE_H
#define CORE_DTYPE_H

#include "attn/attn.h"

/* One row a dtype; block dtypes hold `block` elements in `block_bytes`. The conversions are the
 * portable ones, correct for every bit pattern (round to nearest even, NaN stays NaN, f8e4m3
 * saturates to NaN as OCP says for overflow); kernels may have faster ones that agree bit for bit. */
typedef struct dtype_info {
  const char *name;
  int64_t block, block_bytes;
  /* n consecutive elements, n a multiple of `block`. NULL where the type has no such conversion. */
  void (*to_f32)(const void *src, float *dst, int64_t n);
  void (*from_f32)(const float *src, void *dst, int64_t n);
} dtype_info;

/* NULL for ATTN_DTYPE_DEFAULT and unknown values. */
const dtype_info *dtype_get(attn_dtype dtype);

float dtype_f16_to_f32(uint16_t h);
uint16_t dtype_f32_to_f16(float f);
float dtype_bf16_to_f32(uint16_t h);
uint16_t dtype_f32_to_bf16(float f);

#endif
