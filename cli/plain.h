// SPDX-License-Identifier: Apache-2.0
/*
 * The plain computation: what a textbook makes of a problem in f32, row by row, scores first, then
 * their softmax, then the values. Its error is the yardstick for every implementation. Written from
 * attn.h alone, so that it is also a second opinion on attn_reference.
 *
 * Rounding depends on the order of sums, of which a textbook says nothing; the error of a row is
 * the largest of three orders (forwards, backwards, eight partial sums), else luck would decide.
 */
#ifndef CLI_PLAIN_H
#define CLI_PLAIN_H

#include "problem_gen.h"

typedef struct plain_row {
  double size;  /* what the roundings of the first order are expected to do to the row: their root
                   mean  square is 2^-24 / sqrt(3) times this (independent and uniform; Higham and
                   Mary 2019  justify it) */
  double value; /* largest |v| attended */
  double out, lse, probability; /* largest errors against the reference; finite ones only */
  bool underflow; /* an attended key's weight is, or may be, below what f32 can hold */
  bool
      vanished; /* a key whose score arithmetic or score_mod makes -inf has a value of NaN or inf */
} plain_row;

typedef struct plain_result {
  plain_row *rows;                 /* in the order of the reference's rows of out */
  float *score_size, *score_error; /* in the order of weights, for those that are scores; or NULL */
  double narrow_error; /* of the same computation with scores, probabilities and output rounded to
                          the type of q; for f32 that of the first order */
  char fault[160];     /* "", or where plain and reference are not even of a kind */
} plain_result;

/* `out`, `lse` and `weights` (may be NULL) are attn_reference's for the case without dropout. */
bool plain_run(const gen_case *c, const double *out, const double *lse, const double *weights,
               plain_result *result);
void plain_free(plain_result *result);

#endif
