// SPDX-License-Identifier: Apache-2.0
/* What `attn regret` measures. */
#ifndef CLI_REGRET_H
#define CLI_REGRET_H

#include "cli.h"

/* Bounds on a drawn problem, so that a minute measures dozens of them. */
enum { REGRET_TENSOR_BYTES = 300 << 20, REGRET_WORKSPACE_BYTES = 512 << 20 };

/* The index-th problem of a seed: prefill, decode, small or ragged, log-uniform in its sizes, of
 * any type; valid, not resolved. */
void regret_draw(uint64_t seed, int64_t index, attn_problem *problem);

/* One implementation on a problem. */
typedef struct regret_time {
  char implementation[ATTN_IMPLEMENTATION_NAME];
  double predicted, measured; /* seconds; predicted may be NAN */
} regret_time;

typedef struct regret_case {
  attn_problem problem;
  double confidence;
  regret_time times[ATTN_MAX_CANDIDATES]; /* the first is the choice */
  int count;
  double regret; /* time of the choice over the least time, >= 1 */
  int best;      /* in times */
} regret_case;

/* Selects, then times the choice and its alternatives by turns: for `seconds` of calls in all, or
 * seven rounds if those take longer. With `tuned` that is done twice, the selector having been told
 * the first times before the second. CLI_OK, or CLI_FAILED after saying why. */
int regret_measure(const cli_common *c, attn_context *context, double seconds, bool tuned,
                   regret_case *out);

#endif
