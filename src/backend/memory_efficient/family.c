// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation memory_efficient_cpu, memory_efficient_cuda,
    memory_efficient_rocm;

static const backend_implementation *const implementations[] = { &memory_efficient_cpu,
                                                                 &memory_efficient_cuda,
                                                                 &memory_efficient_rocm };

const backend_family backend_memory_efficient = {
  .backend = ATTN_BACKEND_MEMORY_EFFICIENT,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
