// SPDX-License-Identifier: Apache-2.0
#ifndef CORE_ALLOC_H
#define CORE_ALLOC_H

#include <stddef.h>

/* Same layout and meaning as the public attn_allocator, which converts to it field by field. */
typedef struct core_allocator {
  void *(*alloc)(void *user, size_t size, size_t alignment);
  void (*free)(void *user, void *ptr);
  void *user;
} core_allocator;

/* malloc-backed allocator (aligned_alloc / free). */
core_allocator core_allocator_default(void);

#endif
