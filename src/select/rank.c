// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"
#include "core/status.h"
#include "kernel/kernel.h"
#include "select/internal.h"

static bool is_flash_family(attn_backend b) {
  return b == ATTN_BACKEND_FLASH || b == ATTN_BACKEND_FLASH_V3 || b == ATTN_BACKEND_FLASH_DECODE;
}

/* What configuration and memory exclude, beside the implementation's own constraints. */
static void check_config(const backend_query *q, candidate *c) {
  const attn_config *config = q->config;
  const attn_problem_size *s = q->size;
  if (config->disabled >> c->backend & 1) backend_reject(&c->reasons, ATTN_REASON_DISABLED, NAN, NAN);
  if (config->flash_min_seq_len && is_flash_family(c->backend) &&
      q->problem->seq_kv < config->flash_min_seq_len)
    backend_reject(&c->reasons, ATTN_REASON_FLASH_MIN_SEQ_LEN, (double)q->problem->seq_kv,
                   (double)config->flash_min_seq_len);
  if (config->deterministic && !c->implementation->deterministic)
    backend_reject(&c->reasons, ATTN_REASON_DETERMINISTIC, NAN, NAN);
  if (config->debug && c->backend != ATTN_BACKEND_MATH)
    backend_reject(&c->reasons, ATTN_REASON_DEBUG, NAN, NAN);
  if (config->memory_budget && c->cost.workspace_bytes > config->memory_budget)
    backend_reject(&c->reasons, ATTN_REASON_MEMORY_BUDGET, (double)c->cost.workspace_bytes,
                   (double)config->memory_budget);
  double total = (double)s->q_bytes + (double)s->k_bytes + (double)s->v_bytes + (double)s->out_bytes +
                 (double)s->mask_bytes + (double)c->cost.workspace_bytes;
  if (q->capability->memory_total > 0 && total > (double)q->capability->memory_total)
    backend_reject(&c->reasons, ATTN_REASON_MEMORY_DEVICE, total, (double)q->capability->memory_total);
}

static double objective_time(const backend_query *q, double time, double units) {
  double total = q->capability->compute_units > 0 ? q->capability->compute_units : 1;
  double throughput = time * units / total; // device-seconds when many calls run side by side
  switch (q->config->objective) {
  case ATTN_OBJECTIVE_THROUGHPUT: return throughput;
  case ATTN_OBJECTIVE_BALANCED: return sqrt(time * throughput);
  default: return time;
  }
}

static void price(select_state *state, const backend_query *q, const problem_key *key, candidate *c) {
  double units, measured;
  c->implementation->estimate(q, &c->cost);
  c->time = cost_seconds(&c->cost, q, &units);
  c->source = isnan(c->time) ? ATTN_CHOICE_HEURISTIC : ATTN_CHOICE_MODEL;
  if (q->config->autotune != ATTN_AUTOTUNE_OFF) {
    pthread_mutex_lock(&state->lock);
    if (history_lookup(state->history, key, c->name, &measured))
      c->time = measured, c->source = ATTN_CHOICE_MEASURED;
    pthread_mutex_unlock(&state->lock);
    if (units == 0) units = 1;
  }
  c->score_time = objective_time(q, c->time, units);
}

static void add_candidate(select_state *state, const backend_query *q, const problem_key *key,
                          const backend_family *family, const backend_implementation *impl,
                          ranking *r) {
  const attn_capability *cap = q->capability;
  if (r->count == ATTN_MAX_CANDIDATES) return;
  candidate *c = &r->candidates[r->count++];
  memset(c, 0, sizeof(*c));
  c->backend = family->backend;
  c->implementation = impl;
  c->time = c->score_time = NAN;
  bool cpu = impl->device == ATTN_DEVICE_CPU;
  snprintf(c->name, sizeof(c->name), cpu && cap->device == ATTN_DEVICE_CPU ? "%s/%s" : "%s", impl->name,
           q->kernels ? q->kernels->name : "");
  if (impl->device != cap->device) {
    backend_reject(&c->reasons, ATTN_REASON_DEVICE_ABSENT, NAN, NAN);
    return;
  }
  impl->supports(q, &c->reasons);
  if (cap->source == ATTN_SOURCE_DETECTED && !impl->execute)
    backend_reject(&c->reasons, ATTN_REASON_PLUGIN_ABSENT, NAN, NAN);
  price(state, q, key, c);
  check_config(q, c);
}

/* One candidate for each implementation on the device, one for a backend that has none there. */
static void collect(select_state *state, const backend_query *q, const problem_key *key, ranking *r) {
  int count;
  const backend_family *const *families = backend_registry(&count);
  for (int f = 0; f < count; f++) {
    bool any = false;
    for (int i = 0; i < families[f]->count; i++) {
      if (families[f]->implementations[i]->device != q->capability->device) continue;
      add_candidate(state, q, key, families[f], families[f]->implementations[i], r);
      any = true;
    }
    if (!any) add_candidate(state, q, key, families[f], families[f]->implementations[0], r);
  }
}

/* Where nothing can be priced: fused before unfused, newest first. */
static int fixed_order(attn_backend b) {
  static const attn_backend order[] = { ATTN_BACKEND_FLASH_V3, ATTN_BACKEND_VARLEN,
                                        ATTN_BACKEND_FLASH, ATTN_BACKEND_FLASH_DECODE,
                                        ATTN_BACKEND_CUDNN, ATTN_BACKEND_METAL,
                                        ATTN_BACKEND_MEMORY_EFFICIENT, ATTN_BACKEND_CPU,
                                        ATTN_BACKEND_MATH };
  for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++)
    if (order[i] == b) return i;
  return ATTN_BACKEND_COUNT;
}

static int compare(const void *a, const void *b) {
  const candidate *x = *(const candidate *const *)a, *y = *(const candidate *const *)b;
  bool unknown_x = isnan(x->score_time), unknown_y = isnan(y->score_time);
  if (unknown_x != unknown_y) return unknown_x - unknown_y;
  if (!unknown_x && x->score_time != y->score_time) return x->score_time < y->score_time ? -1 : 1;
  return fixed_order(x->backend) - fixed_order(y->backend);
}

/* P(t_other >= 0.95 t_winner) for log-normal errors. The errors of implementations of one device are
 * largely shared (peak, bandwidth), so alternatives are bounded by the closest, not multiplied. */
static double confidence_of(const candidate *winner, candidate *const *ranked, int count) {
  double least = 1;
  for (int i = 0; i < count; i++) {
    if (ranked[i] == winner) continue;
    if (isnan(winner->time) || isnan(ranked[i]->time)) {
      least = fmin(least, 1.0 / count);
      continue;
    }
    double a = cost_sigma(winner->source), b = cost_sigma(ranked[i]->source);
    double z = (log(ranked[i]->time / winner->time) - log(0.95)) / sqrt(a * a + b * b);
    least = fmin(least, 0.5 * erfc(-z / sqrt(2.0)));
  }
  return least;
}

static void put_rejections(const ranking *r, attn_recommendation *rec) {
  for (int i = 0; i < r->count; i++) {
    const candidate *c = &r->candidates[i];
    if (!c->reasons.count) continue;
    attn_rejection *out = &rec->rejections[rec->rejection_count++];
    *out = (attn_rejection){ .backend = c->backend, .first_reason = rec->reason_count };
    memcpy(out->implementation, c->name, sizeof(out->implementation));
    for (int j = 0; j < c->reasons.count && rec->reason_count < ATTN_MAX_REASONS; j++, out->reason_count++)
      rec->reasons[rec->reason_count++] = c->reasons.items[j];
  }
}

/* Nothing is left: a budget that excluded all is another error than a problem no one takes. */
static attn_status nothing_left(const backend_query *q, const ranking *r) {
  double smallest = INFINITY;
  char text[900];
  size_t at = 0;
  text[0] = 0;
  for (int i = 0; i < r->count; i++) {
    const candidate *c = &r->candidates[i];
    bool only_budget = c->reasons.count == 1 && c->reasons.items[0].code == ATTN_REASON_MEMORY_BUDGET;
    if (only_budget) smallest = fmin(smallest, c->reasons.items[0].value);
    if (c->reasons.items[0].code == ATTN_REASON_DEVICE_ABSENT || at + 200 > sizeof(text)) continue;
    at += (size_t)snprintf(text + at, sizeof(text) - at, "%s", at ? " | " : "");
    int n = explain_rejection(c, text + at, sizeof(text) - at);
    at = (size_t)size_min((int64_t)at + n, sizeof(text) - 1);
  }
  if (isfinite(smallest))
    return core_fail(ATTN_ERROR_MEMORY_BUDGET,
                     "memory_budget of %lld bytes is too small: the least that any backend needs is %.0f",
                     (long long)q->config->memory_budget, smallest);
  return core_fail(ATTN_ERROR_UNSUPPORTED, "no implementation can run the problem: %s", text);
}

static candidate *find(ranking *r, attn_backend backend) {
  for (int i = 0; i < r->count; i++)
    if (r->candidates[i].backend == backend) return &r->candidates[i];
  return NULL;
}

static void fill(const backend_query *q, candidate *const *ranked, int count, candidate *winner,
                 const candidate *math, attn_recommendation *rec) {
  const attn_problem_size *s = q->size;
  rec->backend = winner->backend;
  memcpy(rec->implementation, winner->name, sizeof(rec->implementation));
  rec->confidence = confidence_of(winner, ranked, count);
  rec->time = winner->time;
  rec->speedup = math && math->time > 0 && winner->time > 0 ? math->time / winner->time : NAN;
  rec->workspace_bytes = winner->cost.workspace_bytes;
  rec->memory_bytes = s->q_bytes + s->k_bytes + s->v_bytes + s->out_bytes + s->mask_bytes +
                      s->lse_bytes + rec->workspace_bytes;
  rec->flops = winner->cost.flops;
  rec->bytes = winner->cost.bytes;
  rec->splits = winner->cost.splits;
  double best = winner->score_time;
  for (int i = 0; i < count; i++) best = fmin(best, ranked[i]->score_time);
  for (int i = 0; i < count; i++) {
    const candidate *c = ranked[i];
    if (c == winner) continue;
    attn_alternative *a = &rec->alternatives[rec->alternative_count++];
    *a = (attn_alternative){ .backend = c->backend,
                             .score = isnan(c->score_time) || !(c->score_time > 0)
                                          ? 1.0 / (1 + i)
                                          : best / c->score_time,
                             .time = c->time,
                             .workspace_bytes = c->cost.workspace_bytes,
                             .source = c->source };
    memcpy(a->implementation, c->name, sizeof(a->implementation));
  }
}

attn_status rank_problem(select_state *state, const backend_query *q, const problem_key *key,
                         attn_recommendation *rec) {
  ranking r = { .count = 0 };
  candidate *ranked[ATTN_MAX_CANDIDATES];
  int count = 0;
  collect(state, q, key, &r);
  for (int i = 0; i < r.count; i++)
    if (!r.candidates[i].reasons.count) ranked[count++] = &r.candidates[i];
  qsort(ranked, (size_t)count, sizeof(ranked[0]), compare);
  memset(rec, 0, offsetof(attn_recommendation, alternatives));
  rec->device = q->capability->device;
  rec->predicted = q->capability->source != ATTN_SOURCE_DETECTED;
  rec->time = rec->speedup = NAN;
  candidate *math = find(&r, ATTN_BACKEND_MATH);
  candidate *preferred = q->config->preferred ? find(&r, q->config->preferred) : NULL;
  bool refused = preferred && preferred->reasons.count && !q->config->debug;
  if (!count || (refused && q->config->strict)) {
    put_rejections(&r, rec);
    if (!refused || !q->config->strict) return nothing_left(q, &r);
    char text[600];
    explain_rejection(preferred, text, sizeof(text));
    return core_fail(ATTN_ERROR_UNSUPPORTED, "the preferred backend cannot run the problem: %s", text);
  }
  candidate *winner = ranked[0];
  if (preferred && !preferred->reasons.count) winner = preferred;
  bool forced = q->config->debug || winner == preferred;
  rec->source = forced ? ATTN_CHOICE_FORCED : winner->source;
  fill(q, ranked, count, winner, math, rec);
  candidate *second = ranked[0] != winner ? ranked[0] : count > 1 ? ranked[1] : NULL;
  explain_choice(q, winner, second, math, q->config->debug ? NULL : preferred, rec);
  put_rejections(&r, rec);
  return ATTN_OK;
}
