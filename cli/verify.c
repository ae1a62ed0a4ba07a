// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "check.h"
#include "cli.h"
#include "tally.h"

static const char help[] =
    "usage: attn verify [SHAPE...] [--count N] [--seed S] [OPTIONS]\n\n"
    "Error of every implementation against the float64 reference; the same bits are demanded of 1, "
    "2,\n"
    "3 and 8 threads, and nothing may be written outside the outputs. Without SHAPE: random "
    "problems of\n"
    "odd sizes, strides and alignments.\n\n"
    "  --count N          random problems (500);  --seed S (1);  --max-seq N (70)\n"
    "  --backend NAME     one backend;  --isa NAME: one ISA level\n"
    "  --features all     every feature of a problem (default: f32, causal, masks, GQA, strides)\n"
    "  --json             a list of every result; rejections are counted on standard error\n\n"
    "The bound is twice the error of the plain computation in f32, at least 4e-6 of the largest "
    "value,\n"
    "and half a unit in the last place of the output. The table tells how much of it was used at "
    "most.\n\n"
    "  attn verify\n"
    "  attn verify --heads 8:2 --seq 100:300 --dim 80 --causal br\n";

typedef struct verify {
  const cli_common *common;
  int64_t count, seed, max_seq;
  const char *features;
  gen_options gen;
  check_set set;
  tally tallies[CHECK_MAX];
  json_t *list;
} verify;

static void list_result(verify *v, const check_implementation *x, const attn_problem *p, bool ok,
                        const accuracy_result *r, double plain_error) {
  char shape[TALLY_SHAPE];
  if (!v->list) return;
  attn_problem_format(p, shape, sizeof(shape));
  json_array_append_new(v->list, json_pack("{s:s, s:s, s:o, s:o, s:o, s:b}", "implementation",
                                           x->name, "shape", shape, "max_error", cli_real(r->error),
                                           "bound", cli_real(r->bound), "plain_error",
                                           cli_real(plain_error), "ok", ok));
}

static int verify_problem(verify *v, const attn_problem *p, uint64_t seed) {
  gen_case data;
  accuracy_reference reference = { 0 };
  char shape[TALLY_SHAPE], words[TALLY_SHAPE + 128];
  attn_problem_format(p, shape, sizeof(shape));
  int status = CLI_OK;
  if (!gen_case_make(p, seed, &v->gen, &data) || !accuracy_reference_make(&data, &reference))
    status = cli_fail(v->common, "data or reference of %s could not be made: %s", shape,
                      attn_last_error());
  for (int i = 0; !status && i < v->set.count; i++) {
    check_implementation *x = &v->set.list[i];
    accuracy_result r;
    snprintf(words, sizeof(words), "\nattn verify: %s crashed on %s\n", x->name, shape);
    check_if_crashing(words);
    attn_status ran = check_run(x, &data, &reference, CHECK_HONEST, &r);
    check_if_crashing(NULL);
    bool ok = tally_note(&v->tallies[i], x, p, ran, &r);
    if (ran != ATTN_ERROR_UNSUPPORTED || !ok)
      list_result(v, x, p, ok, &r, reference.plain.narrow_error);
  }
  accuracy_reference_free(&reference);
  gen_case_free(&data);
  return status;
}

static void print_table(const verify *v) {
  cli_table t = { 0 };
  char reasons[512], label[64];
  cli_row(&t, "implementation\trun\trejected\tfailed\terror / bound");
  for (int i = 0; i < v->set.count; i++) {
    const tally *x = &v->tallies[i];
    char worst[CLI_NUMBER] = "-";
    if (x->run) snprintf(worst, sizeof(worst), "%.3f", x->worst);
    cli_row(&t, "%s\t%lld\t%lld\t%lld\t%s", v->set.list[i].name, (long long)x->run,
            (long long)x->rejected, (long long)x->failed, worst);
  }
  cli_table_print(&t);
  for (int i = 0; i < v->set.count; i++) {
    const tally *x = &v->tallies[i];
    printf("\n%s\n", v->set.list[i].name);
    tally_reasons(x, reasons, sizeof(reasons));
    if (x->rejected) cli_wrap("  rejected  ", reasons);
    if (x->failed) cli_wrap("  fault     ", x->fault);
    snprintf(label, sizeof(label), x->failed ? "  on        " : "  worst on  ");
    if (x->shape[0]) cli_wrap(label, x->shape);
  }
}

static void print_rejections(const verify *v) {
  char reasons[512];
  for (int i = 0; i < v->set.count; i++) {
    if (!v->tallies[i].rejected) continue;
    tally_reasons(&v->tallies[i], reasons, sizeof(reasons));
    fprintf(stderr, "attn verify: %s rejected %lld of %lld: %s\n", v->set.list[i].name,
            (long long)v->tallies[i].rejected,
            (long long)(v->tallies[i].rejected + v->tallies[i].run), reasons);
  }
}

static int report(verify *v) {
  int64_t failed = 0, run = 0;
  for (int i = 0; i < v->set.count; i++) failed += v->tallies[i].failed, run += v->tallies[i].run;
  bool ok = !failed && run;
  if (v->list) {
    print_rejections(v);
    int status = cli_print_json(v->list);
    return status || ok ? status : CLI_FAILED;
  }
  print_table(v);
  if (ok) printf("\nok: %lld results within their bounds\n", (long long)run);
  int status = cli_finish(CLI_OK);
  if (!run) return cli_fail(v->common, "no implementation takes any of the problems");
  if (failed)
    return cli_fail(v->common, "%lld of %lld results are wrong", (long long)failed, (long long)run);
  return status;
}

static int run(verify *v) {
  const cli_common *c = v->common;
  static attn_problem problems[257];
  int given = 0, status;
  if (c->shape[0] && (status = cli_problem(c, c->shape, &problems[given++]))) return status;
  for (int i = 0; i < c->shape_count; i++)
    if ((status = cli_problem(c, c->shapes[i], &problems[given++]))) return status;
  if (!check_open(&v->set, c->config.preferred, c->config.isa))
    return cli_fail(c, "%s", attn_last_error());
  if (!v->set.count) return cli_fail(c, "no such implementation runs on this machine");
  if (c->json) v->list = json_array();
  status = CLI_OK;
  for (int64_t i = 0; !status && i < (given ? given : v->count); i++) {
    attn_problem p;
    if (given)
      p = problems[i];
    else
      gen_problem((uint64_t)v->seed, i, &v->gen, &p);
    status = verify_problem(v, &p, (uint64_t)v->seed * 1000003 + (uint64_t)i);
  }
  if (status)
    json_decref(v->list);
  else
    status = report(v);
  check_close(&v->set);
  return status;
}

int cmd_verify(int argc, char **argv) {
  cli_common c = { 0 };
  static verify v;
  v = (verify){ .common = &c, .count = 500, .seed = 1, .max_seq = 70, .features = "basic" };
  const cli_option options[] = { { "--count", CLI_INT, &v.count },
                                 { "--seed", CLI_INT, &v.seed },
                                 { "--max-seq", CLI_INT, &v.max_seq },
                                 { "--features", CLI_TEXT, &v.features },
                                 { 0 } };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.config.capability) return cli_usage(&c, "--hw predicts, verify needs the hardware");
  if (v.count < 1)
    return cli_usage(&c, "--count of value %lld is not positive", (long long)v.count);
  if (v.max_seq < 1 || v.max_seq > 100000)
    return cli_usage(&c, "--max-seq of value %lld is not in [1, 100000]", (long long)v.max_seq);
  bool all = !strcmp(v.features, "all");
  if (!all && strcmp(v.features, "basic"))
    return cli_usage(&c, "--features of value \"%s\" is not basic or all", v.features);
  v.gen = (gen_options){ .max_seq = v.max_seq, .basic = !all };
  return run(&v);
}
