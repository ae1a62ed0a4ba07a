// SPDX-License-Identifier: Apache-2.0
/* Spellings of a problem's enums in SHAPE text, in the order of the enums. */
#ifndef CORE_PROBLEM_WORDS_H
#define CORE_PROBLEM_WORDS_H

#include "attn/attn.h"

static const char *const causal_words[] = { "none", "tl", "br" }; /* else an offset */
static const char *const layout_words[] = { "bhsd", "bshd", "strided" };
static const char *const fp8_scale_words[] = { "none", "tensor", "head" };
static const char *const weights_words[] = { "none",   "scores", "capped",
                                             "masked", "probs",  "column-sums" };

_Static_assert(sizeof(causal_words) / sizeof(char *) == ATTN_CAUSAL_OFFSET, "causal");
_Static_assert(sizeof(layout_words) / sizeof(char *) == ATTN_LAYOUT_COUNT, "layout");
_Static_assert(sizeof(fp8_scale_words) / sizeof(char *) == ATTN_FP8_SCALE_COUNT, "fp8 scale");
_Static_assert(sizeof(weights_words) / sizeof(char *) == ATTN_WEIGHTS_COUNT, "weights");

#endif
