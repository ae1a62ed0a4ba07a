// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation varlen_cpu, varlen_cuda, varlen_rocm;

static const backend_implementation *const implementations[] = { &varlen_cpu, &varlen_cuda,
                                                                 &varlen_rocm };

const backend_family backend_varlen = {
  .backend = ATTN_BACKEND_VARLEN,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
