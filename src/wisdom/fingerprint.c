// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "wisdom/internal.h"

/* Memory in MiB, to a quarter of a power of two: what a kernel reserves differs from boot to boot.
 */
static long memory_class(int64_t bytes) {
  return bytes > 0 ? lround(exp2(round(4 * log2((double)bytes)) / 4 - 20)) : 0;
}

static void put(char *text, size_t size, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void put(char *text, size_t size, const char *format, ...) {
  size_t used = strlen(text);
  va_list args;
  va_start(args, format);
  vsnprintf(text + used, size - used, format, args);
  va_end(args);
}

uint64_t attn_wisdom_machine(const attn_capability *c, char description[ATTN_WISDOM_DESCRIPTION]) {
  char text[ATTN_WISDOM_DESCRIPTION] = "";
  if (description) description[0] = 0;
  if (!c) return 0;
  const char *device = attn_device_type_name(c->device);
  put(text, sizeof(text), "%s \"%s\" %s", device ? device : "unknown", c->name, c->arch);
  put(text, sizeof(text), " units=%d memory=%ldMiB", c->compute_units,
      memory_class(c->memory_total));
  if (c->device == ATTN_DEVICE_CPU)
    put(text, sizeof(text), " isa=%x l1=%" PRId64 " l2=%" PRId64 " l3=%" PRId64 " nodes=%d",
        (unsigned)c->isa_flags, c->l1_bytes, c->l2_bytes, c->l3_bytes, c->numa_nodes);
  else
    put(text, sizeof(text), " compute=%d.%d l2=%" PRId64 " cudnn=%d", c->compute_major,
        c->compute_minor, c->l2_bytes, c->cudnn_version);
  uint64_t h = 0xcbf29ce484222325u; // FNV-1a
  for (char *p = text; *p; p++) {
    if (*p < 32 || *p > 126) *p = '?'; // a profile file's name may be anything
    h = (h ^ (unsigned char)*p) * 0x100000001b3u;
  }
  h ^= h >> 32, h *= 0x94d049bb133111ebu, h ^= h >> 29;
  if (description) snprintf(description, ATTN_WISDOM_DESCRIPTION, "%s", text);
  return h ? h : 1;
}
