// SPDX-License-Identifier: Apache-2.0
/*
 * Every number that says how well a GPU kernel does, and where it comes from.
 *
 * An efficiency is the share of the dense peak of hardware.csv that a forward kernel's tiles reach,
 * padding counted as work. Those with a source are medians over its measurements of the efficiency
 * that makes the cost model (docs/selection.md) give the measured time:
 *   FA3    FlashAttention-3 paper, H100 SXM5, 512 to 16,384 tokens, no mask
 *   PT     pytorch/pytorch#126122, A100 at 4,096 and 8,192 tokens
 *   CUDNN  NVIDIA/cudnn-frontend benchmark results of 2026-04, cuDNN 9.22 on GB200 and GB300
 *   FLAG   flagos-ai/FlagAttention#17, RTX 3090, one query over 512 to 524,288 keys
 * "stated" numbers rest on no measurement: they carry the nearest measured device over.
 */
#include "backend/gpu.h"

/* First loads and last stores of a work item: with 1.5 us the FA3 and CUDNN rows of 512 tokens need
 * the same efficiency as those of 16,384; 0.8 and 2.2 us fit both worse. */
const double GPU_ITEM_SECONDS = 1.5e-6;
/* FLAG, longest rows: 0.90 of 936 GB/s with flash decoding, 0.69 with separate products. */
const double GPU_BANDWIDTH_FUSED = 0.90, GPU_BANDWIDTH_UNFUSED = 0.70;

/* Devices that share a row. */
typedef enum device_class {
  ANY,
  AMPERE,          /* 8.0, 8.6, 8.7 */
  ADA,             /* 8.9 */
  HOPPER,          /* 9.x */
  BLACKWELL,       /* 10.x, 11.x */
  BLACKWELL_ULTRA, /* 10.3: twice the rate of exponentials */
  BLACKWELL_RTX    /* 12.x */
} device_class;

static device_class class_of(const attn_capability *c) {
  if (c->device != ATTN_DEVICE_CUDA) return ANY;
  switch (c->compute_major) {
  case 8:
    return c->compute_minor == 9 ? ADA : AMPERE;
  case 9:
    return HOPPER;
  case 10:
    return c->compute_minor == 3 ? BLACKWELL_ULTRA : BLACKWELL;
  case 11:
    return BLACKWELL;
  case 12:
    return BLACKWELL_RTX;
  default:
    return ANY;
  }
}

/* The first row that fits counts. */
static const struct row {
  attn_backend backend;
  device_class device;
  bool fp8;
  double d64, d128, d256;
} table[] = {
  { ATTN_BACKEND_FLASH, AMPERE, false, 0.576, 0.630, 0.56 },  // PT; 256 stated from 128
  { ATTN_BACKEND_FLASH, ADA, false, 0.576, 0.630, 0.56 },     // stated: as Ampere
  { ATTN_BACKEND_FLASH, HOPPER, false, 0.349, 0.391, 0.342 }, // FA3
  // stated: the instructions of Ampere at Hopper's rate a unit, of a larger peak
  { ATTN_BACKEND_FLASH, BLACKWELL, false, 0.15, 0.17, 0.15 },
  { ATTN_BACKEND_FLASH, BLACKWELL_ULTRA, false, 0.15, 0.17, 0.15 },
  { ATTN_BACKEND_FLASH, BLACKWELL_RTX, false, 0.576, 0.630, 0.56 }, // stated: as Ampere
  { ATTN_BACKEND_FLASH, ANY, false, 0.35, 0.40, 0.30 },             // stated: CDNA, Xe

  // Rows of a tile that hold no query cost little beside the loads: more of the peak is reached.
  { ATTN_BACKEND_FLASH_DECODE, AMPERE, false, 0.773, 0.773,
    0.77 },                                                       // FLAG, at most: memory holds it
  { ATTN_BACKEND_FLASH_DECODE, ADA, false, 0.773, 0.773, 0.77 },  // stated: as Ampere
  { ATTN_BACKEND_FLASH_DECODE, HOPPER, false, 0.50, 0.50, 0.50 }, // stated: mma of wgmma's peak
  { ATTN_BACKEND_FLASH_DECODE, BLACKWELL, false, 0.22, 0.22, 0.22 },       // stated, likewise
  { ATTN_BACKEND_FLASH_DECODE, BLACKWELL_ULTRA, false, 0.22, 0.22, 0.22 }, // stated, likewise
  { ATTN_BACKEND_FLASH_DECODE, BLACKWELL_RTX, false, 0.773, 0.773, 0.77 }, // stated: as Ampere
  { ATTN_BACKEND_FLASH_DECODE, ANY, false, 0.50, 0.50, 0.50 },             // stated

  { ATTN_BACKEND_FLASH_V3, HOPPER, false, 0.546, 0.685,
    0.788 },                                                  // FA3; tritonbench#1254: 0.675 at 128
  { ATTN_BACKEND_FLASH_V3, HOPPER, true, 0.305, 0.45, 0.60 }, // FA3 at 64; others stated

  { ATTN_BACKEND_CUDNN, AMPERE, false, 0.560, 0.585, 0.50 },  // PT; 256 stated
  { ATTN_BACKEND_CUDNN, ADA, false, 0.576, 0.630, 0.56 },     // stated: level with FlashAttention-2
  { ATTN_BACKEND_CUDNN, HOPPER, false, 0.445, 0.656, 0.611 }, // FA3
  { ATTN_BACKEND_CUDNN, HOPPER, true, 0.240, 0.40, 0.50 },    // FA3 at 64; others stated
  // 64 from windows of 128 keys, which reach WINDOW_SHARE; 256 from 192/128
  { ATTN_BACKEND_CUDNN, BLACKWELL, false, 0.42, 0.677, 0.70 },       // CUDNN
  { ATTN_BACKEND_CUDNN, BLACKWELL, true, 0.24, 0.449, 0.67 },        // CUDNN
  { ATTN_BACKEND_CUDNN, BLACKWELL_ULTRA, false, 0.43, 0.804, 0.83 }, // CUDNN
  { ATTN_BACKEND_CUDNN, BLACKWELL_ULTRA, true, 0.29, 0.643, 0.87 },  // CUDNN
  { ATTN_BACKEND_CUDNN, BLACKWELL_RTX, false, 0.52, 0.55, 0.48 }, // stated: below FlashAttention-2
  { ATTN_BACKEND_CUDNN, BLACKWELL_RTX, true, 0.30, 0.40, 0.40 },  // stated

  // stated: half of FlashAttention-2, as its paper's figures show xformers on A100
  { ATTN_BACKEND_MEMORY_EFFICIENT, AMPERE, false, 0.29, 0.31, 0.24 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, ADA, false, 0.29, 0.31, 0.24 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, HOPPER, false, 0.17, 0.19, 0.14 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, BLACKWELL, false, 0.07, 0.08, 0.06 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, BLACKWELL_ULTRA, false, 0.07, 0.08, 0.06 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, BLACKWELL_RTX, false, 0.29, 0.31, 0.24 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, ANY, false, 0.20, 0.22, 0.15 },

  { ATTN_BACKEND_METAL, ANY, false, 0.70, 0.75, 0.60 }, // stated: near MLX's own matrix products
};

/* CUDNN: windows of 128 keys at head_dim 64, where every tile is masked. */
static const double WINDOW_SHARE = 0.6;
/* stated: f32 through plain multiply-adds, near a matrix product of that kind. */
static const double F32_EFFICIENCY = 0.6;
/* stated: a fused kernel of unknown quality. */
static const double UNKNOWN_EFFICIENCY = 0.3;

/* By head size: kernels are made for few sizes, and what a score costs beside its products (maxima,
 * exponentials) weighs more in small ones; below 64 that is all, so the rate falls with the size.
 */
static double at_head_dim(const struct row *r, double d) {
  if (d <= 64) return r->d64 * d / 64;
  if (d <= 128) return r->d64 + (r->d128 - r->d64) * (d - 64) / 64;
  return d < 256 ? r->d128 + (r->d256 - r->d128) * (d - 128) / 128 : r->d256;
}

double gpu_efficiency(attn_backend backend, const attn_capability *capability, int64_t head_dim,
                      const attn_problem *p) {
  device_class device = class_of(capability);
  if (p->dtype == ATTN_F32) return F32_EFFICIENCY;
  if (backend == ATTN_BACKEND_VARLEN)
    backend = ATTN_BACKEND_FLASH; // another schedule of its kernel
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const struct row *r = &table[i];
    if (r->backend != backend || r->fp8 != gpu_is_fp8(p->dtype)) continue;
    if (r->device != device && r->device != ANY) continue;
    bool masked = backend == ATTN_BACKEND_CUDNN && p->window && capability->compute_major >= 10;
    return at_head_dim(r, (double)head_dim) * (masked ? WINDOW_SHARE : 1);
  }
  return UNKNOWN_EFFICIENCY;
}
