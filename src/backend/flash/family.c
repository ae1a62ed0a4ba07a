// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation flash_cpu, flash_cuda, flash_rocm, flash_xpu;

static const backend_implementation *const implementations[] = { &flash_cpu, &flash_cuda,
                                                                 &flash_rocm, &flash_xpu };

const backend_family backend_flash = {
  .backend = ATTN_BACKEND_FLASH,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
