// SPDX-License-Identifier: Apache-2.0
#include "backend/gpu.h"

const double GPU_ITEM_SECONDS = 1.5e-6;
const double GPU_BANDWIDTH_FUSED = 0.90, GPU_BANDWIDTH_UNFUSED = 0.70;

typedef enum device_class {
  AMPERE,        /* 8.0, 8.6, 8.7 */
  ADA,           /* 8.9 */
  HOPPER,        /* 9.0 */
  BLACKWELL_DC,  /* 10.x, 11.0 */
  BLACKWELL_RTX, /* 12.x */
  OLDER,         /* below 8.0 */
  CDNA,
  OTHER
} device_class;

static device_class class_of(const attn_capability *c) {
  if (c->device == ATTN_DEVICE_ROCM) return CDNA;
  if (c->device != ATTN_DEVICE_CUDA) return OTHER;
  if (c->compute_major == 8) return c->compute_minor == 9 ? ADA : AMPERE;
  if (c->compute_major == 9) return HOPPER;
  if (c->compute_major == 10 || c->compute_major == 11) return BLACKWELL_DC;
  return c->compute_major == 12 ? BLACKWELL_RTX : OLDER;
}

static const struct row {
  attn_backend backend;
  device_class device;
  bool fp8;
  double d64, d128, d256;
} table[] = {
  { ATTN_BACKEND_FLASH, AMPERE, false, 0.565, 0.62, 0.55 },
  { ATTN_BACKEND_FLASH, ADA, false, 0.565, 0.62, 0.55 },
  { ATTN_BACKEND_FLASH, HOPPER, false, 0.325, 0.374, 0.328 },
  { ATTN_BACKEND_FLASH, BLACKWELL_DC, false, 0.14, 0.16, 0.14 },
  { ATTN_BACKEND_FLASH, BLACKWELL_RTX, false, 0.565, 0.62, 0.55 },
  { ATTN_BACKEND_FLASH, CDNA, false, 0.35, 0.40, 0.30 },
  { ATTN_BACKEND_FLASH, OTHER, false, 0.40, 0.45, 0.35 },
  { ATTN_BACKEND_FLASH_V3, HOPPER, false, 0.50, 0.653, 0.754 },
  { ATTN_BACKEND_FLASH_V3, HOPPER, true, 0.50, 0.653, 0.754 },
  { ATTN_BACKEND_CUDNN, AMPERE, false, 0.55, 0.57, 0.50 },
  { ATTN_BACKEND_CUDNN, ADA, false, 0.565, 0.62, 0.55 },
  { ATTN_BACKEND_CUDNN, HOPPER, false, 0.417, 0.607, 0.586 },
  { ATTN_BACKEND_CUDNN, HOPPER, true, 0.417, 0.607, 0.586 },
  { ATTN_BACKEND_CUDNN, BLACKWELL_DC, false, 0.50, 0.70, 0.70 },
  { ATTN_BACKEND_CUDNN, BLACKWELL_DC, true, 0.50, 0.70, 0.70 },
  { ATTN_BACKEND_CUDNN, BLACKWELL_RTX, false, 0.50, 0.52, 0.45 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, HOPPER, false, 0.17, 0.19, 0.15 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, AMPERE, false, 0.30, 0.30, 0.22 },
};

static double interpolate(double x, double x0, double y0, double x1, double y1) {
  return y0 + (y1 - y0) * (x - x0) / (x1 - x0);
}

double gpu_efficiency(attn_backend backend, const attn_capability *capability, int64_t head_dim,
                      attn_dtype dtype) {
  if (dtype == ATTN_F32) return 0.6;
  if (backend == ATTN_BACKEND_FLASH_DECODE || backend == ATTN_BACKEND_VARLEN)
    backend = ATTN_BACKEND_FLASH;
  device_class device = class_of(capability);
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const struct row *r = &table[i];
    if (r->backend != backend || r->device != device || r->fp8 != gpu_is_fp8(dtype)) continue;
    double d = (double)head_dim;
    if (d <= 64) return r->d64 * d / 64;
    if (d <= 128) return interpolate(d, 64, r->d64, 128, r->d128);
    return d < 256 ? interpolate(d, 128, r->d128, 256, r->d256) : r->d256;
  }
  return 0.3;
}
