// SPDX-License-Identifier: Apache-2.0
#include "regret.h"

#include <math.h>
#include <stdlib.h>

static const char help[] =
    "usage: attn regret [--shapes N] [--seed S] [SHAPE...] [OPTIONS]\n\n"
    "How good the selector's choices are: on random problems (prefill, decode, small and ragged, "
    "of\n"
    "every type) its choice and every alternative are timed by turns. Regret is the time of the\n"
    "choice over that of the fastest. With SHAPE: on those problems.\n\n"
    "  --shapes N         random problems (60);  --seed S (1)\n"
    "  --time-limit S     no new problem after so many seconds (none)\n"
    "  --min-time S       timed calls of each problem (0.5)\n"
    "  --tuned            tell the selector the measured times, then choose and measure afresh\n"
    "  --details          every problem with the times of all its implementations\n"
    "  --threads N        (the cores there are)\n"
    "  --json\n\n"
    "  attn regret --shapes 60 --seed 1\n"
    "  attn regret --shapes 20 --tuned --details\n";

typedef struct regret_options {
  int64_t shapes, seed;
  double time_limit, min_time;
  bool tuned, details;
} regret_options;

enum { FROM = 5, TO = 10, BINS = TO - FROM + 1 }; /* tenths of confidence; the first is all below */

typedef struct summary {
  double geomean, p95, max, error_median, error_p90;
  const regret_case *worst;
  int choices[BINS], right[BINS];
  double confidence[BINS]; /* sums */
} summary;

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* The value that a share of them does not exceed; sorts. */
static double quantile(double *values, int count, double share) {
  if (!count) return (double)NAN;
  qsort(values, (size_t)count, sizeof(*values), compare);
  int i = (int)ceil(share * count) - 1;
  return values[i < 0 ? 0 : i];
}

static void summarise(const regret_case *cases, int count, summary *s) {
  double *regrets = calloc((size_t)count, sizeof(double)), logs = 0;
  double *errors = calloc((size_t)count, sizeof(double));
  int priced = 0;
  if (!regrets || !errors) abort();
  *s = (summary){ 0 };
  for (int i = 0; i < count; i++) {
    const regret_case *k = &cases[i];
    regrets[i] = k->regret;
    logs += log(k->regret);
    if (!s->worst || k->regret > s->worst->regret) s->worst = k;
    if (isfinite(k->times[0].predicted))
      errors[priced++] = fabs(k->times[0].predicted / k->times[0].measured - 1);
    int bin = (int)(10 * k->confidence) - FROM + 1;
    bin = bin < 0 ? 0 : bin > BINS - 1 ? BINS - 1 : bin;
    s->choices[bin]++;
    s->right[bin] += k->regret <= 1 / 0.95;
    s->confidence[bin] += k->confidence;
  }
  s->geomean = exp(logs / count);
  s->p95 = quantile(regrets, count, 0.95);
  s->max = s->worst->regret;
  s->error_median = quantile(errors, priced, 0.5);
  s->error_p90 = quantile(errors, priced, 0.9);
  free(regrets), free(errors);
}

static json_t *case_json(const regret_case *k) {
  char shape[1024];
  json_t *times = json_array();
  for (int i = 0; i < k->count; i++)
    json_array_append_new(times,
                          json_pack("{s:s, s:o, s:o}", "implementation", k->times[i].implementation,
                                    "predicted_ms", cli_real(1e3 * k->times[i].predicted),
                                    "time_ms", cli_real(1e3 * k->times[i].measured)));
  attn_problem_format(&k->problem, shape, sizeof(shape));
  return json_pack("{s:s, s:f, s:f, s:s, s:s, s:o}", "shape", shape, "regret", k->regret,
                   "confidence", k->confidence, "chosen", k->times[0].implementation, "fastest",
                   k->times[k->best].implementation, "times", times);
}

static json_t *reliability_json(const summary *s) {
  json_t *list = json_array();
  for (int i = 0; i < BINS; i++) {
    double mean = s->choices[i] ? s->confidence[i] / s->choices[i] : (double)NAN;
    json_array_append_new(list, json_pack("{s:f, s:f, s:i, s:i, s:o}", "from",
                                          i ? 0.1 * (FROM + i - 1) : 0, "to", 0.1 * (FROM + i),
                                          "choices", s->choices[i], "within_5_percent", s->right[i],
                                          "confidence", cli_real(mean)));
  }
  return list;
}

static int print_json(const regret_options *o, const regret_case *cases, int count) {
  summary s;
  char shape[1024];
  summarise(cases, count, &s);
  const regret_case *w = s.worst;
  attn_problem_format(&w->problem, shape, sizeof(shape));
  json_t *all =
      json_pack("{s:i, s:I, s:f, s:f, s:f, s:s, s:s, s:s, s:o, s:o, s:o}", "shapes", count, "seed",
                (json_int_t)o->seed, "geomean", s.geomean, "p95", s.p95, "max", s.max, "worst",
                shape, "worst_chosen", w->times[0].implementation, "worst_fastest",
                w->times[w->best].implementation, "model_error_median", cli_real(s.error_median),
                "model_error_p90", cli_real(s.error_p90), "reliability", reliability_json(&s));
  if (o->details) {
    json_t *list = json_array();
    for (int i = 0; i < count; i++) json_array_append_new(list, case_json(&cases[i]));
    json_object_set_new(all, "cases", list);
  }
  return cli_print_json(all);
}

static void print_case(const regret_case *k) {
  char shape[1024], predicted[CLI_NUMBER], measured[CLI_NUMBER];
  cli_table t = { 0 };
  attn_problem_format(&k->problem, shape, sizeof(shape));
  cli_wrap("", shape);
  cli_row(&t, "implementation\tmeasured\tpredicted\tregret");
  for (int i = 0; i < k->count; i++) {
    const regret_time *x = &k->times[i];
    cli_row(&t, "%s\t%s\t%s\t%.3f", x->implementation, cli_time(x->measured, measured),
            cli_time(x->predicted, predicted), x->measured / k->times[k->best].measured);
  }
  cli_table_print(&t);
  putchar('\n');
}

static int print_text(const regret_options *o, const regret_case *cases, int count) {
  summary s;
  char shape[1024];
  cli_table t = { 0 };
  summarise(cases, count, &s);
  for (int i = 0; o->details && i < count; i++) print_case(&cases[i]);
  printf("%d problems: the choice took %.3f times the fastest (geometric mean), 95 of 100 at most\n"
         "%.3f, the worst %.3f. Model error: median %.1f %%, 90th percentile %.1f %%\n",
         count, s.geomean, s.p95, s.max, 100 * s.error_median, 100 * s.error_p90);
  attn_problem_format(&s.worst->problem, shape, sizeof(shape));
  cli_wrap("worst  ", shape);
  printf("       %s where %s was faster\n\n", s.worst->times[0].implementation,
         s.worst->times[s.worst->best].implementation);
  cli_row(&t, "confidence\tchoices\twithin 5 %% of the fastest");
  for (int i = 0; i < BINS; i++) {
    if (!s.choices[i]) continue;
    cli_row(&t, "%.2f (%.1f to %.1f)\t%d\t%d (%.2f)", s.confidence[i] / s.choices[i],
            i ? 0.1 * (FROM + i - 1) : 0, 0.1 * (FROM + i), s.choices[i], s.right[i],
            (double)s.right[i] / s.choices[i]);
  }
  cli_table_print(&t);
  return cli_finish(CLI_OK);
}

static int run(const cli_common *c, const regret_options *o) {
  int given = c->shape_count + (c->shape[0] != 0), status = CLI_OK, done = 0;
  int count = given ? given : (int)o->shapes;
  regret_case *cases = calloc((size_t)count, sizeof(*cases));
  if (!cases) return cli_fail(c, "out of memory");
  for (int i = 0; !status && i < given; i++)
    status = cli_problem(c, i < c->shape_count ? c->shapes[i] : c->shape, &cases[i].problem);
  attn_context *context = status ? NULL : cli_context(c);
  if (!status && !context) status = CLI_FAILED;
  double start = cli_now();
  for (int i = 0; !status && i < count; i++) {
    if (i && o->time_limit > 0 && cli_now() - start > o->time_limit) break;
    cli_progress(i, count);
    if (!given) regret_draw((uint64_t)o->seed, i, &cases[i].problem);
    status = regret_measure(c, context, o->min_time, o->tuned, &cases[i]);
    done += !status;
    cli_progress(0, 0);
  }
  if (!status) status = c->json ? print_json(o, cases, done) : print_text(o, cases, done);
  attn_context_destroy(context);
  free(cases);
  return status;
}

int cmd_regret(int argc, char **argv) {
  cli_common c = { 0 };
  regret_options o = { .shapes = 60, .seed = 1, .min_time = 0.5 };
  const cli_option options[] = { { "--shapes", CLI_INT, &o.shapes },
                                 { "--seed", CLI_INT, &o.seed },
                                 { "--time-limit", CLI_FLOAT, &o.time_limit },
                                 { "--min-time", CLI_FLOAT, &o.min_time },
                                 { "--tuned", CLI_FLAG, &o.tuned },
                                 { "--details", CLI_FLAG, &o.details },
                                 { 0 } };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if ((status = cli_single(&c))) return status;
  if (c.config.capability) return cli_usage(&c, "--hw predicts, regret needs the hardware");
  if (c.config.preferred || c.config.debug)
    return cli_usage(&c, "--backend and --debug leave the selector no choice");
  if (o.shapes < 1 || o.shapes > 10000)
    return cli_usage(&c, "--shapes of value %lld is not in [1, 10000]", (long long)o.shapes);
  if (!(o.min_time >= 0) || o.min_time > 3600)
    return cli_usage(&c, "--min-time of value %g is not in [0, 3600]", o.min_time);
  if (!(o.time_limit >= 0))
    return cli_usage(&c, "--time-limit of value %g is negative", o.time_limit);
  return run(&c, &o);
}
