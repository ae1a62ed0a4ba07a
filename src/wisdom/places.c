// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/status.h"
#include "wisdom/internal.h"

#ifndef ATTN_SYSTEM_WISDOM
#define ATTN_SYSTEM_WISDOM "/etc/attn/wisdom"
#endif

/* "" in a program that runs with rights that its user does not have. */
static const char *environment(const char *name) {
#if defined(__GLIBC__)
  const char *text = secure_getenv(name);
#else
  const char *text = getenv(name);
#endif
  return text ? text : "";
}

static void put(char *out, const char *folder, const char *rest) {
  if (snprintf(out, WISDOM_PATH, "%s%s", folder, rest) >= WISDOM_PATH) out[0] = 0;
}

attn_status wisdom_places_find(const char *named, wisdom_places *places) {
  *places = (wisdom_places){ .make_folders = !named };
  if (named && strlen(named) >= WISDOM_PATH)
    return core_fail(ATTN_ERROR_VALUE, "the path of the wisdom file has more than %d bytes",
                     WISDOM_PATH - 1);
  if (named && !*named) return ATTN_OK;
  put(places->system, ATTN_SYSTEM_WISDOM, "");
  if (named) {
    put(places->own, named, "");
    return ATTN_OK;
  }
  // As the XDG base directory specification has it: relative folders are ignored.
  const char *data = environment("XDG_DATA_HOME"), *home = environment("HOME");
  if (data[0] == '/')
    put(places->own, data, "/attn/wisdom");
  else if (home[0] == '/')
    put(places->own, home, "/.local/share/attn/wisdom");
  return ATTN_OK;
}
