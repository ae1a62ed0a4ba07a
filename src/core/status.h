// SPDX-License-Identifier: Apache-2.0
#ifndef CORE_STATUS_H
#define CORE_STATUS_H

#include "attn/attn.h"

/* The one way to fail: formats the thread's attn_last_error() and returns `status`. */
attn_status core_fail(attn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
