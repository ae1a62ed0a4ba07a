// SPDX-License-Identifier: Apache-2.0
/* Buffers whose last byte touches an inaccessible page: reading or writing past the end crashes. */
#ifndef TESTS_GUARD_H
#define TESTS_GUARD_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct guarded {
  void *data;
  void *map;
  size_t map_bytes;
} guarded;

static inline guarded guarded_new(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (bytes + page - 1) / page * page;
  guarded g = { .map_bytes = pages + page };
  g.map = mmap(NULL, g.map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (g.map == MAP_FAILED) return (guarded){ 0 };
  mprotect((char *)g.map + pages, page, PROT_NONE);
  g.data = (char *)g.map + pages - bytes;
  memset(g.data, 0xa5, bytes); // poison: an element left unwritten is an absurd number
  return g;
}

static inline void guarded_free(guarded *g) {
  if (g->map) munmap(g->map, g->map_bytes);
  *g = (guarded){ 0 };
}

#endif
