// SPDX-License-Identifier: Apache-2.0
/* Which keys structure leaves a query: causal, window, lengths. Saturating, so that offsets near the
 * ends of int64 cannot wrap. */
#include <math.h>

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

void problem_key_range(const attn_problem *p, int64_t i, int64_t seq_q, int64_t seq_kv,
                       int64_t *begin, int64_t *end) {
  int64_t low = 0, high = seq_kv, at = add(i, problem_diagonal(p, seq_q, seq_kv));
  if (p->causal) high = size_min(high, add(at, 1));
  if (p->window && p->window_left >= 0) low = size_max(low, add(at, -p->window_left));
  if (p->window && p->window_right >= 0) high = size_min(high, add(add(at, p->window_right), 1));
  high = size_max(high, 0);
  *begin = size_min(low, high);
  *end = high;
}

/* Sum over i in [0, n) of min(max(i + first, 0), cap): a ramp cut at both ends. */
static double ramp(double n, double first, double cap) {
  double start = fmin(fmax(-first, 0), n);      // rows before it count 0
  double full = fmin(fmax(cap - first, start), n); // rows from it on count cap
  double m = full - start;
  double lowest = first + start;
  return m * lowest + m * (m - 1) / 2 + (n - full) * cap;
}

double problem_pairs(const attn_problem *p, int64_t seq_q, int64_t seq_kv) {
  double n = (double)seq_q, keys = (double)seq_kv;
  double diagonal = (double)problem_diagonal(p, seq_q, seq_kv);
  bool left = p->window && p->window_left >= 0, right = p->window && p->window_right >= 0;
  // pairs below an upper edge j < i + diagonal + 1 (+ right), less those below the lower edge
  double above = n * keys;
  double edge = INFINITY;
  if (p->causal) edge = diagonal + 1;
  if (right) edge = fmin(edge, diagonal + (double)p->window_right + 1);
  if (isfinite(edge)) above = ramp(n, edge, keys);
  if (!left) return above;
  // rows whose lower edge passes their upper one (only when edge < lower + 1) have no keys at all
  double lower = diagonal - (double)p->window_left;
  if (edge <= lower) return 0;
  return above - ramp(n, lower, keys);
}
