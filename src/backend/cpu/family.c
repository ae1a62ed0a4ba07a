// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation cpu_cpu;

static const backend_implementation *const implementations[] = { &cpu_cpu };

const backend_family backend_cpu = {
  .backend = ATTN_BACKEND_CPU,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
