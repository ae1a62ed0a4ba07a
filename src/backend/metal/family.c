// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation metal_metal;

static const backend_implementation *const implementations[] = { &metal_metal };

const backend_family backend_metal = {
  .backend = ATTN_BACKEND_METAL,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
