// SPDX-License-Identifier: Apache-2.0
/* Every backend there is: a folder each, and a line here. */
#include "backend/backend.h"

extern const backend_family backend_flash, backend_flash_v3, backend_math, backend_memory_efficient,
    backend_cudnn, backend_metal, backend_cpu, backend_varlen, backend_flash_decode;

static const backend_family *const families[] = {
  &backend_flash, &backend_flash_v3, &backend_math,   &backend_memory_efficient, &backend_cudnn,
  &backend_metal, &backend_cpu,      &backend_varlen, &backend_flash_decode,
};

const backend_family *const *backend_registry(int *count) {
  *count = (int)(sizeof(families) / sizeof(families[0]));
  return families;
}
