// SPDX-License-Identifier: Apache-2.0
/* The public face of dtype conversion. */
#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/status.h"

static attn_status check(attn_dtype dtype, const void *src, const void *dst, int64_t count) {
  const dtype_info *t = dtype_get(dtype);
  if (!t) return core_fail(ATTN_ERROR_DTYPE, "dtype of value (%d) is no dtype", (int)dtype);
  if (count < 0 || count % t->block)
    return core_fail(ATTN_ERROR_SHAPE, "count of value (%lld) is not a multiple >= 0 of %lld, the block of %s",
                     (long long)count, (long long)t->block, t->name);
  if (count && (!src || !dst)) return core_fail(ATTN_ERROR_NULL, "%s is NULL", src ? "dst" : "src");
  return ATTN_OK;
}

attn_status attn_dtype_from_f32(attn_dtype dtype, const float *src, void *dst, int64_t count) {
  attn_status status = check(dtype, src, dst, count);
  if (!status && count) dtype_get(dtype)->from_f32(src, dst, count);
  return status;
}

attn_status attn_dtype_to_f32(attn_dtype dtype, const void *src, float *dst, int64_t count) {
  attn_status status = check(dtype, src, dst, count);
  if (!status && count) dtype_get(dtype)->to_f32(src, dst, count);
  return status;
}

double attn_dtype_load(attn_dtype dtype, const void *data, int64_t index) {
  const dtype_info *t = dtype_get(dtype);
  float block[32];
  double x;
  if (!t || !data || index < 0) return (double)NAN;
  const char *at = (const char *)data + index / t->block * t->block_bytes;
  if (dtype == ATTN_F64) {
    memcpy(&x, at, sizeof(x));
    return x;
  }
  t->to_f32(at, block, t->block);
  return (double)block[index % t->block];
}
