// SPDX-License-Identifier: Apache-2.0
/* What one implementation did over many problems. */
#ifndef CLI_TALLY_H
#define CLI_TALLY_H

#include "check.h"

enum { TALLY_SHAPE = 1024 };
typedef struct tally {
  int64_t run, rejected, failed;
  int64_t reasons[ATTN_REASON_COUNT]; /* a rejection counts under each of its codes */
  double worst;                       /* largest error / bound */
  char shape[TALLY_SHAPE];            /* of the worst, or of the first failure */
  char fault[256];                    /* the first one */
} tally;

/* Counts what check_run said. Returns whether all is well: the implementation ran and was right, or
 * it named its reasons to reject. */
bool tally_note(tally *t, check_implementation *x, const attn_problem *p, attn_status status,
                const accuracy_result *r);

/* "seq_q_large 12, dtype 3"; "" when nothing was rejected. */
void tally_reasons(const tally *t, char *buffer, size_t size);

#endif
