// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/size.h"
#include "core/status.h"
#include "select/internal.h"

static bool is_flash_family(attn_backend b) {
  return b == ATTN_BACKEND_FLASH || b == ATTN_BACKEND_FLASH_V3 || b == ATTN_BACKEND_FLASH_DECODE;
}

/* Inputs, outputs and workspace. */
static double all_bytes(const attn_problem_size *s, const candidate *c) {
  return (double)s->q_bytes + (double)s->k_bytes + (double)s->v_bytes + (double)s->out_bytes +
         (double)s->mask_bytes + (double)s->lse_bytes + (double)c->cost.workspace_bytes;
}

/* What configuration and memory exclude, beside the implementation's own constraints. */
static void check_config(const backend_query *q, candidate *c) {
  const attn_config *config = q->config;
  backend_reasons *r = &c->reasons;
  double workspace = (double)c->cost.workspace_bytes, budget = (double)config->memory_budget;
  if (config->disabled >> c->backend & 1) backend_reject(r, ATTN_REASON_DISABLED, NAN, NAN);
  if (is_flash_family(c->backend) && q->problem->seq_kv < config->flash_min_seq_len)
    backend_reject(r, ATTN_REASON_FLASH_MIN_SEQ_LEN, (double)q->problem->seq_kv,
                   (double)config->flash_min_seq_len);
  if (config->deterministic && !c->implementation->deterministic)
    backend_reject(r, ATTN_REASON_DETERMINISTIC, NAN, NAN);
  if (config->debug && c->backend != ATTN_BACKEND_MATH)
    backend_reject(r, ATTN_REASON_DEBUG, NAN, NAN);
  if (budget > 0 && workspace > budget)
    backend_reject(r, ATTN_REASON_MEMORY_BUDGET, workspace, budget);
  double all = all_bytes(q->size, c), there = (double)q->capability->memory_total;
  if (there > 0 && all > there) backend_reject(r, ATTN_REASON_MEMORY_DEVICE, all, there);
}

static void price(select_state *state, const backend_query *q, history_key key, candidate *c) {
  double measured;
  c->implementation->estimate(q, &c->cost);
  c->price = cost_of(&c->cost, q);
  c->time = c->price.time;
  c->source = isnan(c->time) ? ATTN_CHOICE_HEURISTIC : ATTN_CHOICE_MODEL;
  if (q->config->autotune != ATTN_AUTOTUNE_OFF) {
    pthread_mutex_lock(&state->lock);
    bool found = history_lookup(state->history, key, c->implementation, &measured);
    pthread_mutex_unlock(&state->lock);
    if (found) c->time = measured, c->source = ATTN_CHOICE_MEASURED;
  }
  c->score_time =
      cost_score(q->config->objective, c->time, c->price.units, q->capability->compute_units);
}

static candidate *add_candidate(const backend_query *q, attn_backend backend,
                                const backend_implementation *impl, ranking *r) {
  candidate *c = &r->candidates[r->count++];
  c->backend = backend;
  c->implementation = impl;
  c->source = ATTN_CHOICE_HEURISTIC;
  c->time = c->score_time = NAN;
  c->reasons.count = 0;
  c->able = false;
  select_name(impl, q->capability, q->kernels, c->name);
  return c;
}

static void consider(select_state *state, const backend_query *q, history_key key, candidate *c) {
  const backend_implementation *impl = c->implementation;
  impl->supports(q, &c->reasons);
  c->able = !c->reasons.count;
  if (q->capability->source == ATTN_SOURCE_DETECTED && !impl->execute)
    backend_reject(&c->reasons, ATTN_REASON_PLUGIN_ABSENT, impl->device, NAN);
  price(state, q, key, c);
  check_config(q, c);
}

/* The one device of a family, or NAN. */
static double device_of(const backend_family *family) {
  for (int i = 1; i < family->count; i++)
    if (family->implementations[i]->device != family->implementations[0]->device)
      return (double)NAN;
  return family->implementations[0]->device;
}

/* One candidate for each implementation on the device, one for a backend that has none there. */
static void collect(select_state *state, const backend_query *q, history_key key, ranking *r) {
  int count;
  const backend_family *const *families = backend_registry(&count);
  for (int f = 0; f < count; f++) {
    const backend_family *family = families[f];
    bool any = false;
    for (int i = 0; i < family->count && r->count < ATTN_MAX_CANDIDATES; i++) {
      const backend_implementation *impl = family->implementations[i];
      if (impl->device != q->capability->device) continue;
      consider(state, q, key, add_candidate(q, family->backend, impl, r));
      any = true;
    }
    if (any || r->count == ATTN_MAX_CANDIDATES) continue;
    candidate *c = add_candidate(q, family->backend, family->implementations[0], r);
    backend_reject(&c->reasons, ATTN_REASON_DEVICE_ABSENT, device_of(family), NAN);
  }
}

/* Where nothing can be priced: fused before unfused, newest first. */
static int fixed_order(attn_backend b) {
  static const attn_backend order[] = {
    ATTN_BACKEND_FLASH_V3,         ATTN_BACKEND_VARLEN, ATTN_BACKEND_FLASH,
    ATTN_BACKEND_FLASH_DECODE,     ATTN_BACKEND_CUDNN,  ATTN_BACKEND_METAL,
    ATTN_BACKEND_MEMORY_EFFICIENT, ATTN_BACKEND_CPU,    ATTN_BACKEND_MATH,
  };
  for (int i = 0; i < (int)(sizeof(order) / sizeof(order[0])); i++)
    if (order[i] == b) return i;
  return ATTN_BACKEND_COUNT;
}

static int by_fixed_order(const void *a, const void *b) {
  const candidate *x = *(const candidate *const *)a, *y = *(const candidate *const *)b;
  return fixed_order(x->backend) - fixed_order(y->backend);
}

static int by_score(const void *a, const void *b) {
  const candidate *x = *(const candidate *const *)a, *y = *(const candidate *const *)b;
  if (x->score_time != y->score_time) return x->score_time < y->score_time ? -1 : 1;
  return by_fixed_order(a, b);
}

static bool all_priced(const ranking *r) {
  for (int i = 0; i < r->order_count; i++)
    if (isnan(r->order[i]->score_time)) return false;
  return true;
}

/* Best first. Without prices the fixed order decides, within which measured ones change places. */
static void sort(ranking *r) {
  candidate *measured[ATTN_MAX_CANDIDATES];
  int count = 0;
  if (all_priced(r)) {
    qsort(r->order, (size_t)r->order_count, sizeof(r->order[0]), by_score);
    return;
  }
  qsort(r->order, (size_t)r->order_count, sizeof(r->order[0]), by_fixed_order);
  for (int i = 0; i < r->order_count; i++)
    if (!isnan(r->order[i]->score_time)) measured[count++] = r->order[i];
  qsort(measured, (size_t)count, sizeof(measured[0]), by_score);
  for (int i = 0, at = 0; i < r->order_count; i++)
    if (!isnan(r->order[i]->score_time)) r->order[i] = measured[at++];
}

static double normal_cdf(double z) { return 0.5 * erfc(-z / sqrt(2.0)); }

/* Probability that nothing scores less than 0.95 of the winner when expected times are off by
 * independent log-normal factors. They are independent given the winner's own, over which Hermite's
 * rule with 7 points integrates (Abramowitz, Stegun, 25.4.46, for the standard normal weight). */
static double confidence_of(const ranking *r) {
  static const double at[] = { 0, 1.154405394739968, 2.366759410734541, 3.750439717725742 };
  static const double weight[] = { 0.457142857142857, 0.240123178605013, 0.030757123967586,
                                   0.000548268855972 };
  double lead[ATTN_MAX_CANDIDATES], sigma[ATTN_MAX_CANDIDATES], total = 0;
  double own = cost_sigma(r->winner->source);
  int n = 0;
  if (r->order_count > 1 && !all_priced(r)) return 1.0 / r->order_count;
  for (int i = 0; i < r->order_count; i++) {
    const candidate *c = r->order[i];
    if (c == r->winner) continue;
    double s = cost_sigma(c->source), x = log(c->score_time / r->winner->score_time) - log(0.95);
    if (x > 4 * own + 4 * s) continue; // as good as certain
    lead[n] = x, sigma[n++] = s;
  }
  for (int i = -3; i <= 3 && n; i++) {
    double z = i < 0 ? -at[-i] : at[i], p = weight[i < 0 ? -i : i];
    for (int k = 0; k < n; k++) p *= normal_cdf((lead[k] - own * z) / sigma[k]);
    total += p;
  }
  return n ? fmin(total, 1) : 1;
}

static void put_rejections(const ranking *r, attn_recommendation *rec) {
  for (int i = 0; i < r->count; i++) {
    const candidate *c = &r->candidates[i];
    if (!c->reasons.count) continue;
    attn_rejection *out = &rec->rejections[rec->rejection_count++];
    *out = (attn_rejection){ .backend = c->backend, .first_reason = rec->reason_count };
    memcpy(out->implementation, c->name, sizeof(out->implementation));
    for (int j = 0; j < c->reasons.count && rec->reason_count < ATTN_MAX_REASONS; j++) {
      rec->reasons[rec->reason_count++] = c->reasons.items[j];
      out->reason_count++;
    }
  }
}

static void put_alternatives(const ranking *r, attn_recommendation *rec) {
  double best = r->order[0]->score_time;
  bool priced = all_priced(r);
  for (int i = 0; i < r->order_count; i++) {
    const candidate *c = r->order[i];
    if (c == r->winner) continue;
    int place = rec->alternative_count++;
    attn_alternative *a = &rec->alternatives[place];
    double score = priced && c->score_time > 0 ? best / c->score_time : 1.0 / (1 + place);
    *a = (attn_alternative){ .backend = c->backend,
                             .score = fmin(score, 1),
                             .time = c->time,
                             .workspace_bytes = c->cost.workspace_bytes,
                             .source = c->source };
    memcpy(a->implementation, c->name, sizeof(a->implementation));
  }
}

static int64_t to_int64(double x) { return x < 9e18 ? (int64_t)x : INT64_MAX; }

static void fill(const backend_query *q, const ranking *r, attn_recommendation *rec) {
  const candidate *w = r->winner, *math = r->math;
  bool forced = q->config->debug || r->order_count == 1 || w == r->preferred;
  rec->backend = w->backend;
  memcpy(rec->implementation, w->name, sizeof(rec->implementation));
  rec->source = forced ? ATTN_CHOICE_FORCED : w->source;
  rec->confidence = confidence_of(r);
  rec->time = w->time;
  if (math && math->able) rec->speedup = math->time / w->time;
  rec->workspace_bytes = w->cost.workspace_bytes;
  rec->memory_bytes = to_int64(all_bytes(q->size, w));
  rec->flops = w->cost.flops;
  rec->bytes = w->cost.bytes + w->cost.pass_bytes;
  rec->splits = w->cost.splits;
  put_alternatives(r, rec);
}

/* Nothing is left: a budget that excluded all is another error than a problem no one takes. */
static attn_status nothing_left(const backend_query *q, const ranking *r) {
  const candidate *least = NULL;
  char buffer[1400], need[32], budget[32];
  text t = { buffer, sizeof(buffer), 0 }, a = { need, sizeof(need), 0 };
  text b = { budget, sizeof(budget), 0 };
  buffer[0] = 0;
  for (int i = 0; i < r->count; i++) {
    const candidate *c = &r->candidates[i];
    attn_reason_code first = c->reasons.items[0].code;
    bool only_budget = c->reasons.count == 1 && first == ATTN_REASON_MEMORY_BUDGET;
    if (only_budget && (!least || c->cost.workspace_bytes < least->cost.workspace_bytes)) least = c;
    if (first == ATTN_REASON_DEVICE_ABSENT) continue;
    if (t.at) text_put(&t, " | ");
    explain_rejection(&t, c, 4);
  }
  if (!least)
    return core_fail(ATTN_ERROR_UNSUPPORTED, "no implementation can run the problem: %s", buffer);
  text_bytes(&a, (double)least->cost.workspace_bytes);
  text_bytes(&b, (double)q->config->memory_budget);
  return core_fail(
      ATTN_ERROR_MEMORY_BUDGET,
      "memory_budget of %lld bytes (%s) is too small: the least that is needed is %lld "
      "bytes (%s), by %s",
      (long long)q->config->memory_budget, budget, (long long)least->cost.workspace_bytes, need,
      least->name);
}

/* Whether `strict` demands a backend that cannot run; the others are then rejected for that. */
static bool refuse(const backend_query *q, ranking *r) {
  const candidate *p = r->preferred;
  if (!q->config->strict || !p || !p->reasons.count) return false;
  for (int i = 0; i < r->count; i++)
    if (!r->candidates[i].reasons.count)
      backend_reject(&r->candidates[i].reasons, ATTN_REASON_STRICT, NAN, NAN);
  return true;
}

/* The backend's candidate that ranks best, or one that cannot run. */
static candidate *find(ranking *r, attn_backend backend) {
  for (int i = 0; i < r->order_count; i++)
    if (r->order[i]->backend == backend) return r->order[i];
  for (int i = 0; i < r->count; i++)
    if (r->candidates[i].backend == backend) return &r->candidates[i];
  return NULL;
}

attn_status rank_problem(select_state *state, const backend_query *q, history_key key,
                         attn_recommendation *rec) {
  ranking r;
  r.count = r.order_count = 0;
  collect(state, q, key, &r);
  for (int i = 0; i < r.count; i++)
    if (!r.candidates[i].reasons.count) r.order[r.order_count++] = &r.candidates[i];
  sort(&r);
  r.math = find(&r, ATTN_BACKEND_MATH);
  candidate *preferred =
      q->config->preferred && !q->config->debug ? find(&r, q->config->preferred) : NULL;
  r.preferred = preferred;
  memset(rec, 0, offsetof(attn_recommendation, alternatives));
  rec->device = q->capability->device;
  rec->predicted = q->capability->source != ATTN_SOURCE_DETECTED;
  rec->time = rec->speedup = NAN;
  if (refuse(q, &r)) {
    char why[1400];
    text t = { why, sizeof(why), 0 };
    explain_rejection(&t, preferred, BACKEND_MAX_REASONS);
    put_rejections(&r, rec);
    return core_fail(ATTN_ERROR_UNSUPPORTED, "the preferred backend cannot run the problem: %s",
                     why);
  }
  if (!r.order_count) {
    put_rejections(&r, rec);
    return nothing_left(q, &r);
  }
  r.winner = preferred && !preferred->reasons.count ? preferred : r.order[0];
  fill(q, &r, rec);
  explain_choice(q, &r, rec);
  put_rejections(&r, rec);
  return ATTN_OK;
}
