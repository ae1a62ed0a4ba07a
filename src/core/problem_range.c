// SPDX-License-Identifier: Apache-2.0
/* Which keys structure leaves a query: causal, window, lengths. Sums saturate, and the offset's
 * parts are added before the query's index: whatever saturates then lies outside the keys anyway,
 * so that ranges are exact also for offsets near the ends of int64. */
#include "core/problem.h"
#include "core/size.h"

static int64_t add(int64_t a, int64_t b) {
  int64_t r;
  if (size_add(a, b, &r)) return r;
  return b > 0 ? INT64_MAX : INT64_MIN;
}

int64_t problem_diagonal(const attn_problem *p, int64_t seq_q, int64_t seq_kv) {
  attn_causal kind = p->causal;
  if (kind == ATTN_CAUSAL_NONE) kind = p->window_align ? p->window_align : ATTN_CAUSAL_BOTTOM_RIGHT;
  if (kind == ATTN_CAUSAL_OFFSET) return p->causal_offset;
  return kind == ATTN_CAUSAL_TOP_LEFT ? 0 : seq_kv - seq_q;
}

/* Query i sees keys [i + low, i + high), as far as either end is bounded. */
typedef struct band {
  bool has_low, has_high;
  int64_t low, high;
} band;

static band band_of(const attn_problem *p, int64_t diagonal) {
  band b = { .high = INT64_MAX };
  if (p->causal) b.has_high = true, b.high = add(diagonal, 1);
  if (!p->window) return b;
  if (p->window_left >= 0) b.has_low = true, b.low = add(diagonal, -p->window_left);
  if (p->window_right >= 0) {
    b.has_high = true;
    b.high = size_min(b.high, add(add(diagonal, p->window_right), 1));
  }
  return b;
}

void problem_key_range(const attn_problem *p, int64_t i, int64_t seq_q, int64_t seq_kv,
                       int64_t *begin, int64_t *end) {
  band b = band_of(p, problem_diagonal(p, seq_q, seq_kv));
  int64_t high = b.has_high ? size_max(0, size_min(seq_kv, add(i, b.high))) : seq_kv;
  *begin = b.has_low ? size_min(high, size_max(0, add(i, b.low))) : 0;
  *end = high;
}

/* Sum over i in [0, n) of min(max(i + first, 0), cap): a ramp cut at both ends. */
static double ramp(int64_t n, int64_t first, int64_t cap) {
  first = size_max(-n, size_min(first, cap));
  int64_t start = size_max(0, -first);                      // rows before it count 0
  int64_t full = size_max(start, size_min(n, cap - first)); // rows from it on count cap
  double rows = (double)(full - start), lowest = (double)(first + start);
  return rows * lowest + rows * (rows - 1) / 2 + (double)(n - full) * (double)cap;
}

double problem_pairs(const attn_problem *p, int64_t seq_q, int64_t seq_kv) {
  // A row's upper edge is never below its lower one: their difference counts what is between.
  band b = band_of(p, problem_diagonal(p, seq_q, seq_kv));
  double below = b.has_high ? ramp(seq_q, b.high, seq_kv) : (double)seq_q * (double)seq_kv;
  return b.has_low ? below - ramp(seq_q, b.low, seq_kv) : below;
}
