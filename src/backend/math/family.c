// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation math_cpu, math_cuda, math_rocm, math_metal, math_xpu;

static const backend_implementation *const implementations[] = { &math_cpu, &math_cuda, &math_rocm,
                                                                 &math_metal, &math_xpu };

const backend_family backend_math = {
  .backend = ATTN_BACKEND_MATH,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
