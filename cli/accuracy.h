// SPDX-License-Identifier: Apache-2.0
/*
 * How wrong a result may be. The measure is the plain computation in f32 (plain.h): a row of the
 * output may be off by
 *
 *   V max(4e-6, 2 P, 2 E) + half a unit in the last place of the output type
 *
 * where V is the largest |v| that the row attends, P the largest error (over V) that the plain
 * computation makes of rows no more exposed to rounding than this one, and E three standard deviations
 * of what roundings are expected to do to the row: of few rows plain's error may be small by luck. With
 * dropout the first part is divided by what is kept. f16, bf16 and fp8 inputs are measured by f32 too,
 * not by a plain computation in their own type, as the library promises f32 scores and sums: that is
 * the stricter one. f64 problems get 1e-14 (1 + E / u) V, about a hundred roundings; with a score_mod,
 * whose tiles are f32, they count as f32.
 *
 * The log-sum-exp may be off as the weights whose logarithm it is, max(4e-6, 2 P', 2 E), and by one
 * rounding of itself; it is -inf exactly when the reference's is. Probabilities likewise. Scores may be
 * off by twice what plain makes of scores as exposed, or what is expected.
 *
 * NaN for NaN, infinities with their sign, finite for finite, but for
 *  - a result within its bound of the output type's overflow, which may be either side of it;
 *  - an infinite value whose weight is too small for f32: NaN as well as infinite;
 *  - a value of NaN or infinity whose score arithmetic or score_mod makes -inf: by IEEE arithmetic 0
 *    times it is NaN, by the library's word such a key counts as removed; both are taken;
 *  - probabilities of a row of NaN: 0 is taken where a weight is 0, and sums may leave it out.
 */
#ifndef CLI_ACCURACY_H
#define CLI_ACCURACY_H

#include "plain.h"
#include "problem_gen.h"

typedef struct accuracy_result {
  bool ok;
  double worst;        /* largest error / bound over all outputs */
  double error, bound; /* of the element of `out` with the largest error / bound */
  char what[256];      /* the first fault */
} accuracy_result;

enum { ACCURACY_SIZES = 64 };

/* The plain computation's largest error on rows of up to a size, by powers of two. */
typedef struct accuracy_curve {
  double error[ACCURACY_SIZES];
} accuracy_curve;

/* What attn_reference makes of a case, and what the plain computation does. */
typedef struct accuracy_reference {
  double *out, *lse, *weights;
  plain_result plain;
  accuracy_curve out_curve, lse_curve, probability_curve, score_curve;
} accuracy_reference;

/* False when memory is short or the reference refuses the case (attn_last_error). */
bool accuracy_reference_make(const gen_case *c, accuracy_reference *r);
void accuracy_reference_free(accuracy_reference *r);

/* Compares everything that the case's call wrote. */
accuracy_result accuracy_check(const gen_case *c, const accuracy_reference *r);

/* Puts one number of the output (or LSE), picked by the case's seed among those whose reference is
 * finite, off by 4 times its bound, or makes it NaN. False when there is none. */
bool accuracy_falsify(gen_case *c, const accuracy_reference *r, bool lse, bool nan);

#endif
