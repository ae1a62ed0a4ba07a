// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "select/internal.h"

void explain_rejection(text *t, const candidate *c, int most) {
  text_put(t, "%s: ", c->name);
  for (int i = 0; i < c->reasons.count && i < most; i++) {
    char reason[192];
    attn_reason_text(&c->reasons.items[i], reason, sizeof(reason));
    text_put(t, "%s%s", i ? "; " : "", reason);
  }
  if (c->reasons.count > most) text_put(t, "; and %d more", c->reasons.count - most);
}

static const char *kind_of(const candidate *c) {
  return c->source == ATTN_CHOICE_MEASURED ? "measured" : "expected";
}

/* The time, and what holds it. */
static void put_winner(text *t, const candidate *w) {
  text_time(t, w->time);
  text_put(t, " %s", kind_of(w));
  if (w->source != ATTN_CHOICE_MODEL) return;
  double work = fmax(w->price.arithmetic, w->price.memory);
  if (w->price.overhead > work)
    text_put(t, ", most of it overhead");
  else if (w->price.arithmetic > w->price.memory)
    text_put(t, ", limited by arithmetic");
  else
    text_put(t, ", limited by memory traffic");
}

static void put_rival(text *t, const candidate *rival) {
  text_time(t, rival->time);
  if (rival->source == ATTN_CHOICE_MEASURED) text_put(t, " measured");
  text_put(t, " for %s", rival->name);
}

/* "; 0.52 ms of one unit a call, against 1.1": what the objective compared. */
static void put_objective(text *t, const backend_query *q, const candidate *w,
                          const candidate *rival) {
  attn_objective o = q->config->objective;
  double units = q->capability->compute_units;
  if (o == ATTN_OBJECTIVE_LATENCY || !rival || !(units > 0)) return;
  text_put(t, "; %s counts ", o == ATTN_OBJECTIVE_THROUGHPUT ? "throughput" : "balanced");
  text_time(t, w->score_time * (o == ATTN_OBJECTIVE_THROUGHPUT ? units : sqrt(units)));
  text_put(t, " against ");
  text_time(t, rival->score_time * (o == ATTN_OBJECTIVE_THROUGHPUT ? units : sqrt(units)));
  text_put(t,
           o == ATTN_OBJECTIVE_THROUGHPUT ? " of one unit" : " (times the root of the units used)");
}

/* "preferred: " and how it stands beside the model's own choice. */
static void put_preferred(text *t, const candidate *w, const candidate *rival) {
  text_put(t, "%s is preferred: ", attn_backend_name(w->backend));
  put_winner(t, w);
  if (!rival) {
    text_put(t, "; nothing else can run it");
  } else if (rival->time < w->time) {
    text_put(t, "; the fastest would be %s with ", rival->name);
    text_time(t, rival->time);
    text_put(t, " (");
    text_short(t, w->time / rival->time);
    text_put(t, " x faster)");
  } else {
    text_put(t, ", against ");
    put_rival(t, rival);
  }
}

static void put_refused(text *t, const candidate *preferred) {
  text_put(t, "preferred %s cannot run: ", attn_backend_name(preferred->backend));
  for (int i = 0; i < preferred->reasons.count && i < 2; i++) {
    char reason[192];
    attn_reason_text(&preferred->reasons.items[i], reason, sizeof(reason));
    text_put(t, "%s%s", i ? "; " : "", reason);
  }
  if (preferred->reasons.count > 2) text_put(t, "; and %d more", preferred->reasons.count - 2);
  text_put(t, ". Instead: ");
}

void explain_choice(const backend_query *q, const ranking *r, attn_recommendation *rec) {
  text t = { rec->reason, sizeof(rec->reason), 0 };
  const candidate *w = r->winner, *math = r->math;
  const candidate *rival = r->order[0] != w ? r->order[0] : r->order_count > 1 ? r->order[1] : NULL;
  if (r->preferred && r->preferred != w) put_refused(&t, r->preferred);
  if (q->config->debug) {
    text_put(&t, "debug takes math: ");
    put_winner(&t, w);
    return;
  }
  if (r->preferred == w) {
    put_preferred(&t, w, rival);
    return;
  }
  if (!rival) {
    text_put(&t, "the only one that can run it: ");
    put_winner(&t, w);
    return;
  }
  if (isnan(w->time)) {
    text_put(&t, "first in the fixed order: the device's peak, bandwidth or number of units is "
                 "unknown, so nothing is priced");
    return;
  }
  put_winner(&t, w);
  text_put(&t, ", against ");
  put_rival(&t, rival);
  put_objective(&t, q, w, rival);
  if (math && math != w && math != rival && math->able && math->time > 0) {
    text_put(&t, " (math: ");
    text_time(&t, math->time);
    text_put(&t, ")");
  }
}
