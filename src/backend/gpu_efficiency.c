// SPDX-License-Identifier: Apache-2.0
/*
 * Share of the dense 16-bit peak (hardware.csv) that a forward kernel reaches on large problems.
 * "paper": FlashAttention-3 paper, H100 SXM5 figures over 989 TFLOP/s, at 8192 tokens; "#126122":
 * pytorch/pytorch#126122, A100 at 4096 over 312; "cudnn-frontend": its GB200 benchmark results over
 * 2500; "stated": no measurement, the nearest device's value carried over, as the comment says.
 */
#include <string.h>

#include "backend/gpu.h"

/* Classes of devices that share a row. */
typedef enum device_class { AMPERE_ADA, HOPPER, BLACKWELL_DC, BLACKWELL_RTX, OTHER_CUDA, CDNA, OTHER } device_class;

static device_class class_of(const attn_capability *c) {
  if (c->device == ATTN_DEVICE_ROCM) return CDNA;
  if (c->device != ATTN_DEVICE_CUDA) return OTHER;
  if (c->compute_major == 8) return AMPERE_ADA;
  if (c->compute_major == 9) return HOPPER;
  if (c->compute_major == 10 || c->compute_major == 11) return BLACKWELL_DC;
  if (c->compute_major == 12) return BLACKWELL_RTX;
  return OTHER_CUDA;
}

static const struct row {
  attn_backend backend;
  device_class device;
  double d64, d128, d256;
} table[] = {
  { ATTN_BACKEND_FLASH, AMPERE_ADA, 0.55, 0.587, 0.52 },      // #126122; 256 stated from 128
  { ATTN_BACKEND_FLASH, HOPPER, 0.325, 0.374, 0.328 },        // paper
  { ATTN_BACKEND_FLASH, BLACKWELL_DC, 0.14, 0.16, 0.14 },     // stated: H100's rate, no newer units
  { ATTN_BACKEND_FLASH, BLACKWELL_RTX, 0.55, 0.587, 0.52 },   // stated: as Ampere, same instructions
  { ATTN_BACKEND_FLASH, CDNA, 0.35, 0.40, 0.30 },             // stated
  { ATTN_BACKEND_FLASH, OTHER, 0.40, 0.45, 0.35 },            // stated
  { ATTN_BACKEND_FLASH_V3, HOPPER, 0.50, 0.653, 0.754 },      // paper
  { ATTN_BACKEND_CUDNN, AMPERE_ADA, 0.527, 0.546, 0.45 },     // #126122; 256 stated
  { ATTN_BACKEND_CUDNN, HOPPER, 0.417, 0.607, 0.586 },        // paper
  { ATTN_BACKEND_CUDNN, BLACKWELL_DC, 0.50, 0.70, 0.70 },     // cudnn-frontend at 128; others stated
  { ATTN_BACKEND_CUDNN, BLACKWELL_RTX, 0.50, 0.52, 0.45 },    // stated: slower than FA2 there
  { ATTN_BACKEND_MEMORY_EFFICIENT, HOPPER, 0.17, 0.19, 0.15 },     // stated: half of FA2
  { ATTN_BACKEND_MEMORY_EFFICIENT, AMPERE_ADA, 0.30, 0.30, 0.22 }, // stated: half of FA2
  { ATTN_BACKEND_MEMORY_EFFICIENT, OTHER_CUDA, 0.25, 0.25, 0.20 }, // stated
  { ATTN_BACKEND_MEMORY_EFFICIENT, BLACKWELL_DC, 0.07, 0.08, 0.07 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, BLACKWELL_RTX, 0.30, 0.30, 0.22 },
  { ATTN_BACKEND_MEMORY_EFFICIENT, CDNA, 0.20, 0.20, 0.15 },
  { ATTN_BACKEND_METAL, OTHER, 0.70, 0.75, 0.60 },            // stated: near MLX's own GEMMs
};

double gpu_efficiency(attn_backend backend, const attn_capability *capability, int64_t head_dim) {
  if (backend == ATTN_BACKEND_FLASH_DECODE || backend == ATTN_BACKEND_VARLEN)
    backend = ATTN_BACKEND_FLASH; // ways of scheduling the same kernel
  device_class device = class_of(capability);
  for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
    const struct row *r = &table[i];
    if (r->backend != backend || r->device != device) continue;
    return head_dim <= 64 ? r->d64 : head_dim <= 128 ? r->d128 : r->d256;
  }
  return 0.3; // stated: a fused kernel of unknown quality
}
