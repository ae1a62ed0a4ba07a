// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "select/internal.h"

typedef struct text {
  char *buffer;
  size_t size, at;
} text;

__attribute__((format(printf, 2, 3))) static void put(text *t, const char *format, ...) {
  va_list args;
  va_start(args, format);
  size_t room = t->size > t->at ? t->size - t->at : 0;
  int n = vsnprintf(t->buffer ? t->buffer + (room ? t->at : 0) : NULL, room, format, args);
  va_end(args);
  if (n > 0) t->at += (size_t)n;
}

static void put_time(text *t, double seconds) {
  if (isnan(seconds)) put(t, "an unknown time");
  else if (seconds < 1e-3) put(t, "%.3g us", 1e6 * seconds);
  else if (seconds < 1) put(t, "%.3g ms", 1e3 * seconds);
  else put(t, "%.3g s", seconds);
}

int explain_rejection(const candidate *c, char *buffer, size_t size) {
  text t = { buffer, size, 0 };
  put(&t, "%s: ", c->name);
  for (int i = 0; i < c->reasons.count; i++) {
    char reason[160];
    attn_reason_text(&c->reasons.items[i], reason, sizeof(reason));
    put(&t, "%s%s", i ? "; " : "", reason);
  }
  return (int)t.at;
}

/* Which of the two rooflines holds the winner. */
static const char *bound_of(const backend_query *query, const candidate *c) {
  backend_cost no_bytes = c->cost, no_flops = c->cost, neither = c->cost;
  no_bytes.bytes = no_flops.flops = neither.bytes = neither.flops = 0;
  double units, base = cost_seconds(&neither, query, &units);
  double arithmetic = cost_seconds(&no_bytes, query, &units) - base;
  double memory = cost_seconds(&no_flops, query, &units) - base;
  if (base > arithmetic && base > memory) return "overhead";
  return arithmetic >= memory ? "arithmetic" : "memory traffic";
}

void explain_choice(const backend_query *query, const candidate *winner, const candidate *second,
                    const candidate *math, const candidate *preferred, attn_recommendation *rec) {
  text t = { rec->reason, sizeof(rec->reason), 0 };
  const char *word = winner->source == ATTN_CHOICE_MEASURED ? "measured" : "expected";
  if (preferred && preferred != winner) {
    put(&t, "preferred %s cannot run (", attn_backend_name(preferred->backend));
    for (int i = 0; i < preferred->reasons.count && i < 2; i++) {
      char reason[160];
      attn_reason_text(&preferred->reasons.items[i], reason, sizeof(reason));
      put(&t, "%s%s", i ? "; " : "", reason);
    }
    put(&t, "); ");
  }
  if (rec->source == ATTN_CHOICE_FORCED) {
    put(&t, query->config->debug ? "debug takes math" : "preferred: ");
    if (query->config->debug) return;
    put_time(&t, winner->time);
    put(&t, " %s", word);
  } else if (rec->source == ATTN_CHOICE_HEURISTIC) {
    put(&t, "first in the fixed order: the device's peak or bandwidth is unknown, so nothing is priced");
    return;
  } else {
    put_time(&t, winner->time);
    put(&t, " %s, limited by %s", word, bound_of(query, winner));
  }
  if (second && second != winner) {
    put(&t, ", against ");
    put_time(&t, second->time);
    put(&t, " for %s", second->name);
  } else {
    put(&t, ", and nothing else can run it");
  }
  if (math && math != winner && math != second && math->time > 0)
    put(&t, " (math: %.3g x)", math->time / winner->time);
}
