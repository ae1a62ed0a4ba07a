// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation flash_v3_cuda;

static const backend_implementation *const implementations[] = { &flash_v3_cuda };

const backend_family backend_flash_v3 = {
  .backend = ATTN_BACKEND_FLASH_V3,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
