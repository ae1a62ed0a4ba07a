// SPDX-License-Identifier: Apache-2.0
/* Every backend there is: a folder each, and a line here. */
#include "backend/backend.h"

#define FAMILIES(X)                                                                                \
  X(backend_flash)                                                                                 \
  X(backend_flash_v3)                                                                              \
  X(backend_math)                                                                                  \
  X(backend_memory_efficient)                                                                      \
  X(backend_cudnn)                                                                                 \
  X(backend_metal)                                                                                 \
  X(backend_cpu)                                                                                   \
  X(backend_varlen)                                                                                \
  X(backend_flash_decode)

#define DECLARE(family) extern const backend_family family;
#define POINTER(family) &family,

FAMILIES(DECLARE)

static const backend_family *const families[] = { FAMILIES(POINTER) };

const backend_family *const *backend_registry(int *count) {
  *count = (int)(sizeof(families) / sizeof(families[0]));
  return families;
}
