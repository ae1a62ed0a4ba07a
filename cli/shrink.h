// SPDX-License-Identifier: Apache-2.0
/* Makes a problem that fails smaller. */
#ifndef CLI_SHRINK_H
#define CLI_SHRINK_H

#include <stdbool.h>

#include "attn/attn.h"

/* Does the (valid) problem still fail? */
typedef bool shrink_fails(void *user, const attn_problem *problem);

/* Halves sizes and drops features one by one while it still fails; at most `trials` questions. */
attn_problem shrink_problem(const attn_problem *problem, int trials, shrink_fails *fails,
                            void *user);

#endif
