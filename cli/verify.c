// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "check.h"
#include "cli.h"

static const char help[] =
    "usage: attn verify [SHAPE...] [--count N] [--seed S] [OPTIONS]\n\n"
    "Error of every implementation against the float64 reference, with the same bits demanded of 1, 2, 3\n"
    "and 8 threads. Without SHAPE: random problems of odd sizes, strides and alignments.\n\n"
    "  --count N          random problems (500);  --seed S (1);  --max-seq N (70)\n"
    "  --backend NAME     one backend;  --isa NAME: one ISA level\n"
    "  --features all     every feature of a problem (default: f32, causal, masks, GQA, strides)\n"
    "  --json\n\n"
    "  attn verify\n"
    "  attn verify --heads 8:2 --seq 100:300 --dim 80 --causal br\n";

typedef struct verify_options {
  int64_t count, seed, max_seq;
  const char *features;
} verify_options;

/* What one implementation did over all problems. */
typedef struct tally {
  int64_t run, rejected, failed;
  double worst;
  char shape[1024], fault[160];
} tally;

static void note(tally *t, json_t *list, const check_implementation *x, const attn_problem *p, attn_status status,
                 const accuracy_result *r) {
  char shape[1024];
  attn_problem_format(p, shape, sizeof(shape));
  if (status == ATTN_ERROR_UNSUPPORTED) {
    t->rejected++;
    return;
  }
  bool ok = !status && r->ok;
  t->run++;
  if (!ok) t->failed++;
  if (!ok || r->worst > t->worst || !t->shape[0]) {
    bool keep = ok && t->failed; // the first fault stays
    if (!keep) {
      t->worst = r->worst;
      snprintf(t->shape, sizeof(t->shape), "%s", shape);
      snprintf(t->fault, sizeof(t->fault), "%s", status ? attn_last_error() : r->what);
    }
  }
  if (list)
    json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:o, s:b}", "implementation", x->name, "shape", shape,
                                          "max_error", cli_real(r->error), "bound", cli_real(r->bound), "ok", ok));
}

static int verify_problem(const cli_common *c, check_set *set, tally *tallies, json_t *list, const attn_problem *p,
                          uint64_t seed, const gen_options *gen) {
  gen_case data;
  accuracy_reference reference = { 0 };
  if (!gen_case_make(p, seed, gen, &data) || !accuracy_reference_make(&data, &reference)) {
    gen_case_free(&data);
    accuracy_reference_free(&reference);
    return cli_fail(c, "a problem's data or reference could not be made: %s", attn_last_error());
  }
  for (int i = 0; i < set->count; i++) {
    accuracy_result r;
    attn_status status = check_run(&set->list[i], &data, &reference, false, &r);
    note(&tallies[i], list, &set->list[i], p, status, &r);
  }
  accuracy_reference_free(&reference);
  gen_case_free(&data);
  return CLI_OK;
}

static int report(const cli_common *c, const check_set *set, const tally *tallies, json_t *list) {
  int64_t failed = 0, run = 0;
  for (int i = 0; i < set->count; i++) failed += tallies[i].failed, run += tallies[i].run;
  if (c->json) {
    int status = cli_print_json(list);
    return status ? status : failed || !run ? CLI_FAILED : CLI_OK;
  }
  cli_table t = { 0 };
  cli_row(&t, "implementation\trun\trejected\tfailed\tworst error / bound");
  for (int i = 0; i < set->count; i++)
    cli_row(&t, "%s\t%lld\t%lld\t%lld\t%.3f", set->list[i].name, (long long)tallies[i].run,
            (long long)tallies[i].rejected, (long long)tallies[i].failed, tallies[i].worst);
  cli_table_print(&t);
  for (int i = 0; i < set->count; i++)
    if (tallies[i].failed) {
      printf("\n%s: %s\n", set->list[i].name, tallies[i].fault);
      cli_wrap("  on ", tallies[i].shape);
    }
  if (failed || !run) return cli_finish(CLI_OK), cli_fail(c, "%lld of %lld results are wrong", (long long)failed, (long long)run);
  printf("ok: %lld results within their bounds\n", (long long)run);
  return cli_finish(CLI_OK);
}

int cmd_verify(int argc, char **argv) {
  cli_common c = { 0 };
  verify_options o = { .count = 500, .seed = 1, .max_seq = 70, .features = "basic" };
  const cli_option options[] = { { "--count", CLI_INT, &o.count }, { "--seed", CLI_INT, &o.seed },
                                 { "--max-seq", CLI_INT, &o.max_seq }, { "--features", CLI_TEXT, &o.features }, { 0 } };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.config.capability) return cli_usage(&c, "--hw predicts, verify needs the hardware");
  if (o.count < 1 || o.max_seq < 1 || o.max_seq > 100000) return cli_usage(&c, "--count and --max-seq must be positive");
  bool all = !strcmp(o.features, "all");
  if (!all && strcmp(o.features, "basic")) return cli_usage(&c, "--features of value \"%s\" is not basic or all", o.features);
  static check_set set;
  static tally tallies[CHECK_MAX];
  attn_problem problems[256];
  int given = 0;
  if (c.shape[0] && (status = cli_problem(&c, c.shape, &problems[given++]))) return status;
  for (int i = 0; i < c.shape_count && given < 256; i++)
    if ((status = cli_problem(&c, c.shapes[i], &problems[given++]))) return status;
  if (!check_open(&set, c.config.preferred, c.config.isa)) return cli_fail(&c, "%s", attn_last_error());
  if (!set.count) return cli_fail(&c, "no such implementation runs on this machine");
  gen_options gen = { .max_seq = o.max_seq, .basic = !all };
  json_t *list = c.json ? json_array() : NULL;
  for (int64_t i = 0; !status && i < (given ? given : o.count); i++) {
    attn_problem p;
    if (given) p = problems[i];
    else gen_problem((uint64_t)o.seed, i, &gen, &p);
    status = verify_problem(&c, &set, tallies, list, &p, (uint64_t)(o.seed * 1000003 + i), &gen);
  }
  if (!status) status = report(&c, &set, tallies, list);
  check_close(&set);
  return status;
}
