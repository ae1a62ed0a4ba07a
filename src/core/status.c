// SPDX-License-Identifier: Apache-2.0
#include "core/status.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static _Thread_local char last_error[1024];

attn_status core_fail(attn_status status, const char *format, ...) {
  char text[sizeof(last_error)]; // an argument may be the previous error
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  memcpy(last_error, text, sizeof(text));
  return status;
}

const char *attn_last_error(void) { return last_error; }

const char *attn_status_string(attn_status status) {
  static const char *const texts[ATTN_STATUS_COUNT] = {
    [ATTN_OK] = "ok",
    [ATTN_ERROR_NULL] = "a required pointer is NULL",
    [ATTN_ERROR_SHAPE] = "invalid shape",
    [ATTN_ERROR_STRIDE] = "invalid stride",
    [ATTN_ERROR_DTYPE] = "invalid dtype",
    [ATTN_ERROR_VALUE] = "invalid value",
    [ATTN_ERROR_OVERFLOW] = "size overflow",
    [ATTN_ERROR_UNSUPPORTED] = "unsupported",
    [ATTN_ERROR_MEMORY_BUDGET] = "nothing fits the memory budget",
    [ATTN_ERROR_MEMORY] = "out of memory",
    [ATTN_ERROR_NOT_FOUND] = "not found",
    [ATTN_ERROR_PARSE] = "text that cannot be read",
    [ATTN_ERROR_IO] = "input or output failed",
  };
  if ((unsigned)status >= ATTN_STATUS_COUNT) return "unknown status";
  return texts[status];
}

#ifndef ATTN_VERSION_STRING
#define QUOTE(x) #x
#define DOTTED(major, minor, patch) QUOTE(major) "." QUOTE(minor) "." QUOTE(patch)
#define ATTN_VERSION_STRING DOTTED(ATTN_VERSION_MAJOR, ATTN_VERSION_MINOR, ATTN_VERSION_PATCH)
#endif

const char *attn_version(void) { return ATTN_VERSION_STRING; }
