// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench_case.h"
#include "regret.h"

enum { MOST_ROUNDS = 201, LEAST_ROUNDS = 7, RECORDS = 5 };
/* A turn repeats a short call for this long, so that a clock's resolution and a neighbour's
 * interrupt weigh little. */
static const double TURN_SECONDS = 1e-4;
/* Calls shorter than this are made once untimed before each turn: threads that slept through a turn
 * of one thread take tens of microseconds to wake, which would count against whoever comes next. */
static const double WAKE_BELOW = 2e-3;
/* Slower than this in every one of the first rounds: never the best, more would change nothing. */
static const double HOPELESS = 3;

typedef struct contender {
  attn_plan *plan;
  void *workspace;
  bool wake;
  int calls, count; /* of a turn; turns timed */
  double least, times[MOST_ROUNDS];
} contender;

static int add(const cli_common *c, attn_context *context, const attn_problem *p, const char *name,
               double predicted, regret_case *out, contender *x) {
  *x = (contender){ 0 };
  if (attn_plan_create_for(context, p, name, &x->plan)) return cli_fail(c, "%s", attn_last_error());
  x->workspace = malloc(attn_plan_workspace(x->plan) + 1);
  regret_time *t = &out->times[out->count++];
  *t = (regret_time){ .predicted = predicted };
  snprintf(t->implementation, sizeof(t->implementation), "%s", name);
  return x->workspace ? CLI_OK : cli_fail(c, "out of memory");
}

/* The choice first, then its alternatives but for those whose workspace passes all bounds. */
static int prepare(const cli_common *c, attn_context *context, regret_case *out, contender *all) {
  static attn_recommendation r;
  if (attn_select(context, &out->problem, &r)) return cli_fail(c, "%s", attn_last_error());
  out->confidence = r.confidence;
  out->count = 0;
  int status = add(c, context, &out->problem, r.implementation, r.time, out, all);
  for (int i = 0; !status && i < r.alternative_count; i++) {
    const attn_alternative *a = &r.alternatives[i];
    if (a->workspace_bytes <= REGRET_WORKSPACE_BYTES)
      status = add(c, context, &out->problem, a->implementation, a->time, out, &all[out->count]);
  }
  return status;
}

static int turn(const cli_common *c, contender *x, const attn_io *io, double *seconds) {
  if (x->wake && attn_execute(x->plan, io, x->workspace))
    return cli_fail(c, "%s", attn_last_error());
  double start = cli_now();
  for (int i = 0; i < x->calls; i++)
    if (attn_execute(x->plan, io, x->workspace)) return cli_fail(c, "%s", attn_last_error());
  *seconds = (cli_now() - start) / x->calls;
  return CLI_OK;
}

/* One call to touch all memory, then as many as fill a turn. */
static int warm_up(const cli_common *c, contender *x, const attn_io *io) {
  double seconds = 0;
  x->calls = 1;
  int status = turn(c, x, io, &seconds);
  if (!status && seconds < TURN_SECONDS) status = turn(c, x, io, &seconds);
  x->wake = seconds < WAKE_BELOW;
  x->calls = (int)fmin(fmax(1, TURN_SECONDS / fmax(seconds, 1e-8)), 10000);
  return status;
}

static int time_all(const cli_common *c, regret_case *out, contender *all, const attn_io *io,
                    double budget) {
  double spent = 0, best = INFINITY;
  int status = CLI_OK;
  for (int i = 0; !status && i < out->count; i++) status = warm_up(c, &all[i], io);
  for (int round = 0; round < MOST_ROUNDS && (round < LEAST_ROUNDS || spent < budget); round++) {
    for (int i = 0; !status && i < out->count; i++) {
      contender *x = &all[i];
      if (i && round >= LEAST_ROUNDS && x->least > HOPELESS * best) continue;
      status = turn(c, x, io, &x->times[x->count]);
      spent += x->times[x->count] * x->calls;
      x->least = fmin(x->count ? x->least : INFINITY, x->times[x->count]);
      best = fmin(best, x->times[x->count++]);
    }
    if (status) return status;
  }
  return CLI_OK;
}

/* Tells the selector some of the times of each implementation: the medians of equal parts. */
static int record(const cli_common *c, attn_context *context, regret_case *out, contender *all) {
  for (int i = 0; i < out->count; i++) {
    int parts = all[i].count < RECORDS ? all[i].count : RECORDS;
    for (int k = 0; k < parts; k++) {
      double part[MOST_ROUNDS];
      int n = 0;
      for (int j = k; j < all[i].count; j += parts) part[n++] = all[i].times[j];
      if (attn_record(context, &out->problem, out->times[i].implementation, cli_median(part, n)))
        return cli_fail(c, "%s", attn_last_error());
    }
  }
  return CLI_OK;
}

static void rate(regret_case *out, contender *all) {
  out->best = 0;
  for (int i = 0; i < out->count; i++) {
    out->times[i].measured = cli_median(all[i].times, all[i].count);
    if (out->times[i].measured < out->times[out->best].measured) out->best = i;
  }
  out->regret = out->times[0].measured / out->times[out->best].measured;
}

static void finish(contender *all) {
  for (int i = 0; i < ATTN_MAX_CANDIDATES; i++) {
    attn_plan_destroy(all[i].plan);
    free(all[i].workspace);
  }
  memset(all, 0, ATTN_MAX_CANDIDATES * sizeof(*all));
}

int regret_measure(const cli_common *c, attn_context *context, double seconds, bool tuned,
                   regret_case *out) {
  static contender all[ATTN_MAX_CANDIDATES];
  attn_problem resolved;
  bench_data *data = NULL;
  int status = CLI_OK;
  if (attn_problem_resolve(&out->problem, &resolved)) return cli_fail(c, "%s", attn_last_error());
  if (!(data = bench_data_make(&resolved, 3ll * REGRET_TENSOR_BYTES)))
    return cli_fail(c, "memory for the tensors of a problem could not be allocated");
  for (int pass = tuned ? 0 : 1; !status && pass < 2; pass++) {
    status = prepare(c, context, out, all);
    if (!status) status = time_all(c, out, all, bench_data_io(data), seconds);
    if (!status && pass == 0) status = record(c, context, out, all);
    if (!status) rate(out, all);
    finish(all);
  }
  bench_data_free(data);
  return status;
}
