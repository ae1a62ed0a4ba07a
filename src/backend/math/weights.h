// SPDX-License-Identifier: Apache-2.0
/* Scores and probabilities on request (attn_problem.weights). Each does nothing unless asked for. */
#ifndef BACKEND_MATH_WEIGHTS_H
#define BACKEND_MATH_WEIGHTS_H

#include "engine/internal.h"

/* Scaled (and capped) scores of every key of the sequence, before any mask. */
void weights_raw(const engine_call *call, const engine_sequence *s, int64_t head,
                 const engine_tile *tile, const engine_scratch *scratch);
/* Scores after masks; `scores` holds keys [low, high) of the tile at scores[key][lane]. */
void weights_masked(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                    const float *scores, int64_t low, int64_t high);
/* Probabilities: weights over their sum, which is in the tile. */
void weights_probs(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                   const float *weights, int64_t low, int64_t high);
/* Adds the probabilities of the tile's rows of query head `head` to out[key]. */
void weights_column_sums(const engine_call *call, const engine_tile *tile, int64_t head,
                         const float *weights, int64_t low, int64_t high, float *out);

#endif
