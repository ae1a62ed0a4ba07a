// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation flash_decode_cpu, flash_decode_cuda, flash_decode_rocm,
    flash_decode_metal;

static const backend_implementation *const implementations[] = {
  &flash_decode_cpu, &flash_decode_cuda, &flash_decode_rocm, &flash_decode_metal
};

const backend_family backend_flash_decode = {
  .backend = ATTN_BACKEND_FLASH_DECODE,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
