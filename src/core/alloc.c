// SPDX-License-Identifier: Apache-2.0
#include "core/alloc.h"

#include <stdint.h>
#include <stdlib.h>

static void *default_alloc(void *user, size_t size, size_t alignment) {
  (void)user;
  if (alignment < sizeof(void *)) alignment = sizeof(void *);
  if (size > SIZE_MAX - alignment) return NULL;
  size_t rounded = (size + alignment - 1) / alignment * alignment;
  return aligned_alloc(alignment, rounded ? rounded : alignment);
}

static void default_free(void *user, void *ptr) {
  (void)user;
  free(ptr);
}

core_allocator core_allocator_default(void) {
  return (core_allocator){ .alloc = default_alloc, .free = default_free, .user = NULL };
}
