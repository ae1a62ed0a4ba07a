// SPDX-License-Identifier: Apache-2.0
#include "backend/backend.h"

extern const backend_implementation cudnn_cuda;

static const backend_implementation *const implementations[] = { &cudnn_cuda };

const backend_family backend_cudnn = {
  .backend = ATTN_BACKEND_CUDNN,
  .count = sizeof(implementations) / sizeof(implementations[0]),
  .implementations = implementations,
};
