// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "attn/attn.h"
#include "core/size.h"
#include "core/status.h"

/* In double: the weights' own rounding must not show in f32 outputs. */
static void merge_row(int64_t dim, const float *a, double lse_a, const float *b, double lse_b,
                      float *out, float *lse) {
  double top = lse_a > lse_b ? lse_a : lse_b;
  if (isnan(lse_a) || isnan(lse_b)) top = NAN;
  if (top == -INFINITY) { // both empty
    for (int64_t c = 0; c < dim; c++) out[c] = 0;
    *lse = -INFINITY;
    return;
  }
  double wa = exp(lse_a - top), wb = exp(lse_b - top), sum = wa + wb;
  wa /= sum, wb /= sum;
  for (int64_t c = 0; c < dim; c++) { // an empty part is not read: its values may be anything
    double x = lse_a == -INFINITY ? 0 : wa * (double)a[c];
    double y = lse_b == -INFINITY ? 0 : wb * (double)b[c];
    out[c] = (float)(x + y);
  }
  *lse = (float)(top + log(sum));
}

attn_status attn_merge(int64_t rows, int64_t head_dim_v, const float *out_a, const float *lse_a,
                       const float *out_b, const float *lse_b, float *out, float *lse) {
  int64_t elements;
  if (rows < 0)
    return core_fail(ATTN_ERROR_SHAPE, "rows of value (%lld) is negative", (long long)rows);
  if (head_dim_v < 0)
    return core_fail(ATTN_ERROR_SHAPE, "head_dim_v of value (%lld) is negative",
                     (long long)head_dim_v);
  if (!size_mul(rows, head_dim_v, &elements))
    return core_fail(ATTN_ERROR_OVERFLOW, "rows * head_dim_v does not fit 63 bits");
  if (rows == 0) return ATTN_OK;
  const struct {
    const char *name;
    bool missing;
  } arguments[] = { { "out_a", head_dim_v && !out_a }, { "lse_a", !lse_a },
                    { "out_b", head_dim_v && !out_b }, { "lse_b", !lse_b },
                    { "out", head_dim_v && !out },     { "lse", !lse } };
  for (size_t i = 0; i < sizeof(arguments) / sizeof(arguments[0]); i++)
    if (arguments[i].missing) return core_fail(ATTN_ERROR_NULL, "%s is NULL", arguments[i].name);
  for (int64_t r = 0; r < rows; r++) {
    float merged;
    merge_row(head_dim_v, out_a, (double)lse_a[r], out_b, (double)lse_b[r], out, &merged);
    lse[r] = merged;
    if (head_dim_v == 0) continue; // the pointers may be NULL
    out_a += head_dim_v, out_b += head_dim_v, out += head_dim_v;
  }
  return ATTN_OK;
}
