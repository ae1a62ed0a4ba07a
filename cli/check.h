// SPDX-License-Identifier: Apache-2.0
/* Every implementation on one problem: against the reference, and the same bits for every number of
 * threads. */
#ifndef CLI_CHECK_H
#define CLI_CHECK_H

#include "accuracy.h"
#include "attn/select.h"

/* One implementation: a backend with kernels of one ISA level, and its contexts. */
enum { CHECK_THREADS = 4, CHECK_MAX = 32 };
typedef struct check_implementation {
  attn_backend backend;
  attn_isa isa;
  char name[ATTN_IMPLEMENTATION_NAME];
  attn_context *contexts[CHECK_THREADS];
} check_implementation;

typedef struct check_set {
  check_implementation list[CHECK_MAX];
  int count;
} check_set;

/* Backends of the CPU (or `only`) with every usable ISA level (or `isa`). False with attn_last_error. */
bool check_open(check_set *set, attn_backend only, attn_isa isa);
void check_close(check_set *set);

/* Runs one implementation. ATTN_ERROR_UNSUPPORTED: it says that it cannot; *rejection (may be NULL)
 * then names why. `perturb` falsifies the result, to test the test. */
attn_status check_run(check_implementation *x, gen_case *c, const accuracy_reference *r, bool perturb,
                      accuracy_result *result);

#endif
