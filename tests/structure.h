// SPDX-License-Identifier: Apache-2.0
/* Which keys a query sees, word by word from attn.h. */
#ifndef TESTS_STRUCTURE_H
#define TESTS_STRUCTURE_H

#include "attn/attn.h"

typedef __int128 structure_wide; /* cannot wrap here */

static inline structure_wide structure_diagonal(const attn_problem *p, int64_t seq_q,
                                                int64_t seq_kv) {
  attn_causal kind = p->causal ? p->causal : p->window_align;
  if (kind == ATTN_CAUSAL_OFFSET) return p->causal_offset;
  return kind == ATTN_CAUSAL_TOP_LEFT ? 0 : (structure_wide)seq_kv - seq_q;
}

/* Causal, window and length; seq_q and seq_kv are the sequence's own. */
static inline bool structure_sees(const attn_problem *p, int64_t i, int64_t j, int64_t seq_q,
                                  int64_t seq_kv) {
  structure_wide at = i + structure_diagonal(p, seq_q, seq_kv);
  if (j < 0 || j >= seq_kv) return false;
  if (p->causal && j > at) return false;
  if (p->window && p->window_left >= 0 && j < at - p->window_left) return false;
  if (p->window && p->window_right >= 0 && j > at + p->window_right) return false;
  return true;
}

#endif
