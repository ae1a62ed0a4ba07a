// SPDX-License-Identifier: Apache-2.0
#include "tally.h"

#include <math.h>
#include <stdio.h>

static void fault(tally *t, const attn_problem *p, const char *what) {
  if (t->failed++) return;
  snprintf(t->fault, sizeof(t->fault), "%s", what);
  attn_problem_format(p, t->shape, sizeof(t->shape));
  t->worst = (double)INFINITY;
}

static bool note_rejection(tally *t, check_implementation *x, const attn_problem *p) {
  attn_reason_code codes[16];
  int count = check_reasons(x, p, codes, 16);
  t->rejected++;
  for (int i = 0; i < count && i < 16; i++) t->reasons[codes[i]]++;
  if (!count) fault(t, p, "rejects the problem without a reason");
  return count > 0;
}

bool tally_note(tally *t, check_implementation *x, const attn_problem *p, attn_status status,
                const accuracy_result *r) {
  if (status == ATTN_ERROR_UNSUPPORTED) return note_rejection(t, x, p);
  t->run++;
  if (status || !r->ok) {
    fault(t, p, status ? attn_last_error() : r->what);
    return false;
  }
  if (t->failed || (t->shape[0] && r->worst <= t->worst)) return true;
  t->worst = r->worst;
  attn_problem_format(p, t->shape, sizeof(t->shape));
  return true;
}

void tally_reasons(const tally *t, char *buffer, size_t size) {
  size_t at = 0;
  if (size) buffer[0] = 0;
  for (int i = 0; i < ATTN_REASON_COUNT && at < size; i++)
    if (t->reasons[i])
      at += (size_t)snprintf(buffer + at, size - at, "%s%s %lld", at ? ", " : "",
                             attn_reason_name((attn_reason_code)i), (long long)t->reasons[i]);
}
