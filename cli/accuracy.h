// SPDX-License-Identifier: Apache-2.0
/*
 * How wrong a result may be. With u = 2^-24, S the size of scores (|q| |k| |scale| plus biases) and V
 * the largest |v|, a score is off by a few u S in plain f32, a probability by as much relative to
 * itself, and a weighted mean of values by that times V. The bound is
 *
 *   V max(4e-6, u (16 + 4 S)) + the rounding of the output type,
 *
 * whose first part is the promise for ordinary inputs and whose second is about twice what plain f32
 * arithmetic makes of large scores. f64 problems get 1e-12 (1 + S) V.
 */
#ifndef CLI_ACCURACY_H
#define CLI_ACCURACY_H

#include "problem_gen.h"

typedef struct accuracy_result {
  bool ok;
  double worst;  /* largest error / bound over all outputs */
  double error;  /* largest absolute error of out */
  double bound;  /* its bound */
  char what[160]; /* the first fault */
} accuracy_result;

/* What attn_reference makes of a case. */
typedef struct accuracy_reference {
  double *out, *lse, *weights;
} accuracy_reference;

bool accuracy_reference_make(const gen_case *c, accuracy_reference *r);
void accuracy_reference_free(accuracy_reference *r);

/* Compares the case's outputs: values, kinds of non-finite ones, LSE, weights, and that nothing between
 * the rows of a strided output was touched. */
accuracy_result accuracy_check(const gen_case *c, const accuracy_reference *r);

#endif
