// SPDX-License-Identifier: Apache-2.0
/* Every implementation on one problem: against the reference, the same bits for every number of
 * threads, and nothing written outside the outputs and the workspace. */
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

/* Bits (1 << attn_backend) of the backends that have an implementation on the CPU: those that are
 * not rejected for its absence. False with attn_last_error. */
bool check_backends(unsigned *bits);

/* Backends of the CPU (or `only`) with every usable ISA level (or `isa`). False with
 * attn_last_error. */
bool check_open(check_set *set, attn_backend only, attn_isa isa);
void check_close(check_set *set);

/* Ways to falsify a result, to test the test. */
enum check_falsification {
  CHECK_HONEST = 0,
  CHECK_VALUE,     /* one element off by 4 times its bound */
  CHECK_NAN,       /* one element NaN where it is finite */
  CHECK_UNWRITTEN, /* one row left as it was */
  CHECK_BETWEEN,   /* a byte between rows of out */
  CHECK_AROUND,    /* a byte before or behind out */
  CHECK_LSE,       /* one log-sum-exp off by 4 times its bound, or not -inf */
  CHECK_BITS,      /* the last bit of one element, with some number of threads */
  CHECK_WORKSPACE, /* a byte behind the workspace */
  CHECK_FALSIFICATIONS
};
const char *check_falsification_name(int how);

/* Runs one implementation with 1, 2, 3 and 8 threads. ATTN_ERROR_UNSUPPORTED: it says before
 * running that it cannot (see check_reasons), or the falsification does not apply. Any other
 * failure is one of the implementation. */
attn_status check_run(check_implementation *x, gen_case *c, const accuracy_reference *r,
                      enum check_falsification how, accuracy_result *result);

/* Why the implementation rejects a problem: writes up to `capacity` codes and returns how many
 * there are; 0 if it names none, which is a fault. */
int check_reasons(check_implementation *x, const attn_problem *problem, attn_reason_code *codes,
                  int capacity);

/* Says `text` on standard error should the process crash from now on; copied, NULL for nothing. */
void check_if_crashing(const char *text);

#endif
