// SPDX-License-Identifier: Apache-2.0
/* attn-property: random problems over the whole space, every implementation that takes them,
 * against the float64 reference. A failure is shrunk and printed with the line that repeats it. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "shrink.h"
#include "tally.h"

static const char help[] =
    "usage: attn-property [--seed S] [--count N] [--index I] [--max-seq N] [--features basic|all]\n"
    "                     [--backend NAME] [--isa NAME] [--stats] [--self-test]\n"
    "       attn-property --data-seed D SHAPE\n\n"
    "Random problems against the float64 reference: errors within bounds, the same bits for 1, 2, "
    "3 and\n"
    "8 threads, nothing written outside the outputs and the workspace. Ends with\n"
    "'N passed, N failed, N skipped' (problems; skipped: no implementation takes them).\n\n"
    "  --index I       the first problem of the seed (0); without --count it alone\n"
    "  --data-seed D   one given problem with the data of this seed\n"
    "  --stats         how often each feature was drawn, and what each implementation did\n"
    "  --self-test     falsifies results in several ways, each of which must be noticed, and "
    "looks\n"
    "                  whether every feature is drawn\n";

#define UNSET INT64_MIN // a numeric option that was not given
enum { FEATURES = 128, SHOWN = 5, TRIALS = 800 };

typedef struct property {
  cli_common common;
  int64_t seed, data_seed, count, index, max_seq, shown;
  const char *features;
  bool stats, self_test;
  gen_options gen;
  check_set set;
  tally tallies[CHECK_MAX];
  int64_t drawn[FEATURES], traits[GEN_TRAIT_COUNT];
  int64_t passed, failed, skipped;
  attn_problem given; /* for --data-seed */
} property;

/* One problem, its data and reference. */
typedef struct trial {
  gen_case data;
  accuracy_reference reference;
  char line[256]; /* that repeats it */
} trial;

static bool make(property *t, const attn_problem *p, uint64_t seed, trial *x) {
  memset(&x->reference, 0, sizeof(x->reference));
  return gen_case_make(p, seed, &t->gen, &x->data) &&
         accuracy_reference_make(&x->data, &x->reference);
}

static void unmake(trial *x) {
  accuracy_reference_free(&x->reference);
  gen_case_free(&x->data);
}

static void announce(const check_implementation *x, const char *line) {
  char words[TALLY_SHAPE + 256];
  snprintf(words, sizeof(words), "\nattn-property: %s crashed; again: %s\n", x->name, line);
  check_if_crashing(words);
}

/* ---- Failures */

typedef struct suspect {
  property *t;
  int implementation;
  uint64_t seed;
  accuracy_result fault;
} suspect;

static bool still_fails(void *user, const attn_problem *p) {
  suspect *s = user;
  trial x;
  accuracy_result r = { .ok = true };
  check_implementation *implementation = &s->t->set.list[s->implementation];
  char shape[TALLY_SHAPE], line[TALLY_SHAPE + 64];
  attn_problem_format(p, shape, sizeof(shape));
  snprintf(line, sizeof(line), "attn-property --data-seed %llu %s", (unsigned long long)s->seed,
           shape);
  bool fails = false;
  if (make(s->t, p, s->seed, &x)) {
    announce(implementation, line);
    attn_status status = check_run(implementation, &x.data, &x.reference, CHECK_HONEST, &r);
    check_if_crashing(NULL);
    fails = status != ATTN_ERROR_UNSUPPORTED && (status || !r.ok);
    if (fails) s->fault = r;
    if (fails && status) snprintf(s->fault.what, sizeof(s->fault.what), "%s", attn_last_error());
  }
  unmake(&x);
  return fails;
}

static void show(property *t, const attn_problem *p, const trial *x, suspect *s) {
  char shape[TALLY_SHAPE];
  check_if_crashing(NULL);
  printf("FAIL %s: %s\n", t->set.list[s->implementation].name, s->fault.what);
  attn_problem_format(p, shape, sizeof(shape));
  cli_wrap("  problem  ", shape);
  printf("  again    %s\n", x->line);
  if (t->shown++ >= SHOWN) return;
  attn_problem small = shrink_problem(p, TRIALS, still_fails, s);
  attn_problem_format(&small, shape, sizeof(shape));
  printf("  smaller  %s\n", s->fault.what);
  cli_wrap("           ", shape);
  printf("  again    attn-property --data-seed %llu %s\n", (unsigned long long)s->seed, shape);
}

/* ---- One problem */

/* SHAPE text must make the same problem again, or no failure could be repeated. */
static bool reads_back(const attn_problem *p) {
  char text[TALLY_SHAPE], again[TALLY_SHAPE];
  attn_problem q;
  int n = attn_problem_format(p, text, sizeof(text));
  if (n >= (int)sizeof(text) || attn_problem_parse(text, &q)) return false;
  attn_problem_format(&q, again, sizeof(again));
  return !strcmp(text, again) && !attn_problem_validate(&q);
}

static void count_features(property *t, const trial *x) {
  for (int i = 0; i < gen_feature_count(); i++) t->drawn[i] += gen_has_feature(&x->data.problem, i);
  for (int i = 0; i < GEN_TRAIT_COUNT; i++) t->traits[i] += x->data.traits >> i & 1;
}

static void run_problem(property *t, const attn_problem *p, uint64_t seed, trial *x) {
  int ran = 0;
  bool ok = make(t, p, seed, x);
  if (!ok) printf("FAIL no data or reference: %s\n  again    %s\n", attn_last_error(), x->line);
  if (ok && !reads_back(p)) {
    ok = false;
    printf("FAIL the SHAPE text does not read back\n  again    %s\n", x->line);
  }
  if (ok) count_features(t, x);
  for (int i = 0; ok && i < t->set.count; i++) {
    suspect s = { .t = t, .implementation = i, .seed = seed };
    announce(&t->set.list[i], x->line);
    attn_status status =
        check_run(&t->set.list[i], &x->data, &x->reference, CHECK_HONEST, &s.fault);
    if (status && status != ATTN_ERROR_UNSUPPORTED)
      snprintf(s.fault.what, sizeof(s.fault.what), "%s", attn_last_error());
    ok = tally_note(&t->tallies[i], &t->set.list[i], p, status, &s.fault);
    ran += status != ATTN_ERROR_UNSUPPORTED;
    if (ok) continue;
    if (status == ATTN_ERROR_UNSUPPORTED)
      snprintf(s.fault.what, sizeof(s.fault.what), "rejects the problem without a reason");
    show(t, p, x, &s);
  }
  check_if_crashing(NULL);
  unmake(x);
  if (!ok)
    t->failed++;
  else if (ran)
    t->passed++;
  else
    t->skipped++;
}

static uint64_t data_seed(const property *t, int64_t index) {
  return ((uint64_t)t->seed * 1000003 + (uint64_t)index) & INT64_MAX; // as --data-seed takes it
}

static void repeat_line(const property *t, int64_t index, trial *x) {
  snprintf(x->line, sizeof(x->line),
           "attn-property --seed %lld --count 1 --index %lld --max-seq %lld --features %s",
           (long long)t->seed, (long long)index, (long long)t->max_seq, t->features);
}

static void print_stats(const property *t) {
  char reasons[512];
  for (int i = 0; i < gen_feature_count(); i++)
    printf("  %6lld  %s\n", (long long)t->drawn[i], gen_feature_name(i));
  for (int i = 0; i < GEN_TRAIT_COUNT; i++)
    printf("  %6lld  data: %s\n", (long long)t->traits[i], gen_trait_name(i));
  for (int i = 0; i < t->set.count; i++) {
    const tally *x = &t->tallies[i];
    tally_reasons(x, reasons, sizeof(reasons));
    printf("  %s: %lld ran, error up to %.3f of its bound, %lld rejected\n", t->set.list[i].name,
           (long long)x->run, x->worst, (long long)x->rejected);
    if (x->rejected) cli_wrap("      ", reasons);
    if (x->shape[0]) cli_wrap("      worst on ", x->shape);
  }
}

static int run(property *t) {
  static trial x;
  for (int64_t i = t->index; i < t->index + t->count; i++) {
    attn_problem p;
    gen_problem((uint64_t)t->seed, i, &t->gen, &p);
    repeat_line(t, i, &x);
    run_problem(t, &p, data_seed(t, i), &x);
  }
  if (t->stats) print_stats(t);
  printf("%lld passed, %lld failed, %lld skipped\n", (long long)t->passed, (long long)t->failed,
         (long long)t->skipped);
  return cli_finish(t->failed || !t->passed ? CLI_FAILED : CLI_OK);
}

static int run_given(property *t) {
  static trial x;
  snprintf(x.line, sizeof(x.line), "(this)");
  t->shown = SHOWN;
  run_problem(t, &t->given, (uint64_t)t->data_seed, &x);
  if (t->stats) print_stats(t);
  printf("%lld passed, %lld failed, %lld skipped\n", (long long)t->passed, (long long)t->failed,
         (long long)t->skipped);
  return cli_finish(t->failed || !t->passed ? CLI_FAILED : CLI_OK);
}

/* ---- Testing the test */

typedef struct mole {
  int64_t applied, caught;
} mole;

static void falsify_problem(property *t, const attn_problem *p, int64_t index, mole *moles) {
  trial x;
  if (!make(t, p, data_seed(t, index), &x)) {
    printf("no data or reference: %s\n", attn_last_error());
    moles[CHECK_HONEST].applied++;
  } else {
    count_features(t, &x);
    for (int how = CHECK_HONEST; how < CHECK_FALSIFICATIONS; how++) {
      check_implementation *implementation = NULL;
      accuracy_result r;
      attn_status status = ATTN_ERROR_UNSUPPORTED;
      for (int i = 0; i < t->set.count && status == ATTN_ERROR_UNSUPPORTED; i++) {
        implementation = &t->set.list[(index + how + i) % t->set.count];
        status =
            check_run(implementation, &x.data, &x.reference, (enum check_falsification)how, &r);
      }
      if (status == ATTN_ERROR_UNSUPPORTED) continue;
      moles[how].applied++;
      bool noticed = status || !r.ok;
      moles[how].caught += noticed == (how != CHECK_HONEST);
      if (noticed != (how != CHECK_HONEST))
        printf("%s with %s, %s\n  again    attn-property --seed %lld --count 1 --index %lld\n",
               implementation->name, check_falsification_name(how),
               noticed ? r.what : "not noticed", (long long)t->seed, (long long)index);
    }
  }
  unmake(&x);
}

/* Draws alone, enough of them that each feature must come up. */
static int64_t missing_features(property *t) {
  int64_t missing = 0;
  for (int64_t i = 0; i < 6000; i++) {
    attn_problem p, r;
    gen_problem((uint64_t)t->seed, i, &t->gen, &p);
    if (attn_problem_resolve(&p, &r)) return 1;
    for (int k = 0; k < gen_feature_count(); k++) t->drawn[k] += gen_has_feature(&r, k);
  }
  for (int64_t i = 0; i < 1500; i++) {
    attn_problem p;
    trial x;
    gen_problem((uint64_t)t->seed, i, &t->gen, &p);
    if (!gen_case_make(&p, data_seed(t, i), &t->gen, &x.data)) return 1;
    for (int k = 0; k < GEN_TRAIT_COUNT; k++) t->traits[k] += x.data.traits >> k & 1;
    gen_case_free(&x.data);
  }
  for (int i = 0; i < gen_feature_count(); i++)
    if (!t->drawn[i]) missing++, printf("never drawn: %s\n", gen_feature_name(i));
  for (int i = 0; i < GEN_TRAIT_COUNT; i++)
    if (!t->traits[i]) missing++, printf("never drawn: %s\n", gen_trait_name(i));
  return missing;
}

static int self_test(property *t) {
  mole moles[CHECK_FALSIFICATIONS] = { 0 };
  for (int64_t i = t->index; i < t->index + t->count; i++) {
    attn_problem p;
    gen_problem((uint64_t)t->seed, i, &t->gen, &p);
    falsify_problem(t, &p, i, moles);
  }
  bool ok = t->gen.basic || !missing_features(t);
  if (t->stats) print_stats(t);
  for (int how = 0; how < CHECK_FALSIFICATIONS; how++) {
    printf("%s: %lld of %lld %s\n", check_falsification_name(how), (long long)moles[how].caught,
           (long long)moles[how].applied, how ? "noticed" : "right");
    ok = ok && moles[how].applied && moles[how].caught == moles[how].applied;
  }
  return cli_finish(ok ? CLI_OK : CLI_FAILED);
}

/* ---- Command line */

static int check_options(property *t) {
  cli_common *c = &t->common;
  bool shape = c->shape[0] || c->shape_count;
  if (shape != (t->data_seed != UNSET) || c->shape_count > 1 || (c->shape[0] && c->shape_count))
    return cli_usage(c, "one SHAPE and --data-seed go together");
  if (t->count == UNSET) t->count = t->index == UNSET ? 300 : 1;
  if (t->index == UNSET) t->index = 0;
  if (t->index < 0) return cli_usage(c, "--index of value %lld is negative", (long long)t->index);
  if (t->count < 1)
    return cli_usage(c, "--count of value %lld is not positive", (long long)t->count);
  if (t->max_seq < 1 || t->max_seq > 100000)
    return cli_usage(c, "--max-seq of value %lld is not in [1, 100000]", (long long)t->max_seq);
  t->gen = (gen_options){ .max_seq = t->max_seq, .basic = !strcmp(t->features, "basic") };
  if (!t->gen.basic && strcmp(t->features, "all"))
    return cli_usage(c, "--features of value \"%s\" is not basic or all", t->features);
  if (!shape) return CLI_OK;
  return cli_problem(c, c->shape[0] ? c->shape : c->shapes[0], &t->given);
}

int main(int argc, char **argv) {
  static property t = {
    .seed = 1, .data_seed = UNSET, .count = UNSET, .index = UNSET, .max_seq = 300, .features = "all"
  };
  const cli_option options[] = { { "--seed", CLI_INT, &t.seed },
                                 { "--data-seed", CLI_INT, &t.data_seed },
                                 { "--count", CLI_INT, &t.count },
                                 { "--index", CLI_INT, &t.index },
                                 { "--max-seq", CLI_INT, &t.max_seq },
                                 { "--features", CLI_TEXT, &t.features },
                                 { "--stats", CLI_FLAG, &t.stats },
                                 { "--self-test", CLI_FLAG, &t.self_test },
                                 { 0 } };
  char name[] = "property"; // messages begin with "attn property"
  argv[0] = name;
  int status = cli_parse(&t.common, argc, argv, options);
  if (status) return status;
  if (t.common.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if ((status = check_options(&t))) return status;
  const attn_config *config = &t.common.config;
  if (!check_open(&t.set, config->preferred, config->isa))
    return cli_fail(&t.common, "%s", attn_last_error());
  if (!t.set.count) return cli_fail(&t.common, "no such implementation runs on this machine");
  printf("seed %lld\n", (long long)(t.data_seed != UNSET ? t.data_seed : t.seed));
  status = t.data_seed != UNSET ? run_given(&t) : t.self_test ? self_test(&t) : run(&t);
  check_close(&t.set);
  return status;
}
