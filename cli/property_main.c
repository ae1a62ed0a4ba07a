// SPDX-License-Identifier: Apache-2.0
/* attn-property: random problems over the whole space, every implementation that takes them, against
 * the float64 reference. A failure is shrunk and printed with the line that repeats it. */
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "cli.h"

static const char help[] =
    "usage: attn-property [--seed S] [--count N] [--index I] [--max-seq N] [--features basic|all]\n"
    "                     [--backend NAME] [--isa NAME] [--stats] [--self-test]\n\n"
    "Random problems against the float64 reference: errors within bounds, the same bits for 1, 2, 3 and 8\n"
    "threads, nothing written outside the outputs and the workspace. Ends with\n"
    "'N passed, N failed, N skipped' (problems; skipped: no implementation takes them).\n\n"
    "  --index I     the I-th problem alone        --stats      how often each feature was drawn\n"
    "  --self-test   falsify results: every problem must then fail\n";

typedef struct property {
  uint64_t seed;
  int64_t count, index, max_seq, shown;
  const char *features;
  bool stats, self_test;
  gen_options gen;
  check_set set;
} property;

/* First implementation that fails on the problem, or -1; *ran counts those that took it. */
static int first_failure(property *t, const attn_problem *p, uint64_t seed, int *ran, accuracy_result *fault) {
  gen_case data;
  accuracy_reference reference = { 0 };
  int failing = -1;
  *ran = 0;
  bool made = gen_case_make(p, seed, &t->gen, &data) && accuracy_reference_make(&data, &reference);
  for (int i = 0; made && i < t->set.count && failing < 0; i++) {
    accuracy_result r;
    attn_status status = check_run(&t->set.list[i], &data, &reference, t->self_test, &r);
    if (status == ATTN_ERROR_UNSUPPORTED) continue;
    ++*ran;
    if (status) snprintf(r.what, sizeof(r.what), "%s", attn_last_error());
    if (status || !r.ok) failing = i, *fault = r;
  }
  if (!made) snprintf(fault->what, sizeof(fault->what), "no data or reference: %s", attn_last_error()), failing = 0;
  accuracy_reference_free(&reference);
  gen_case_free(&data);
  return failing;
}

/* Candidate simplifications; false when the k-th changes nothing. */
static bool simplify(attn_problem *p, int k) {
  attn_problem before = *p;
  int64_t *sizes[] = { &p->batch, &p->seq_q, &p->seq_kv, &p->head_dim, &p->head_dim_v };
  enum { SIZES = sizeof(sizes) / sizeof(sizes[0]) };
  if (k < SIZES) *sizes[k] = *sizes[k] > 1 ? *sizes[k] / 2 : *sizes[k];
  else if (k < 2 * SIZES) *sizes[k - SIZES] = *sizes[k - SIZES] > 1 ? *sizes[k - SIZES] - 1 : *sizes[k - SIZES];
  else switch (k - 2 * SIZES) {
  case 0: p->heads_q = p->heads_kv; break;
  case 1: p->heads_q = p->heads_kv = 1; break;
  case 2: p->causal = ATTN_CAUSAL_NONE; break;
  case 3: p->window = false; break;
  case 4: p->mask = ATTN_MASK_NONE; break;
  case 5: p->softcap = 0; break;
  case 6: p->alibi = false; break;
  case 7: p->sinks = false; break;
  case 8: p->score_mod = false; break;
  case 9: p->dropout = 0; break;
  case 10: p->kv_lengths = false; break;
  case 11: p->weights = ATTN_WEIGHTS_NONE; break;
  case 12: p->return_lse = false; break;
  case 13: p->batch_invariant = false; break;
  case 14: p->dtype = p->kv_dtype = p->out_dtype = ATTN_F32, p->fp8_scale = ATTN_FP8_SCALE_NONE; break;
  case 15: p->layout = ATTN_LAYOUT_BHSD; break;
  case 16: p->varlen = false, p->total_q = p->total_kv = 0; break;
  case 17: p->page_size = p->num_pages = p->pages_per_seq = 0; break;
  case 18: p->scale_set = false, p->scale = 0; break;
  case 19: p->head_dim_v = 0; break;
  case 20: p->prefix = 0; break;
  default: return false;
  }
  if (k < 2 * SIZES || k - 2 * SIZES < 2 || k - 2 * SIZES > 14) { // sizes changed: strides and masks with them
    if (p->layout == ATTN_LAYOUT_STRIDED) p->layout = ATTN_LAYOUT_BHSD;
    for (int i = 0; i < 4; i++) p->mask_dims[i] = p->mask_dims[i] == 1 ? 1 : 0;
    memset(p->mask_strides, 0, sizeof(p->mask_strides));
  }
  return memcmp(&before, p, sizeof(before)) != 0;
}

static attn_problem shrink(property *t, attn_problem p, uint64_t seed) {
  for (bool better = true; better;) {
    better = false;
    for (int k = 0; k < 64; k++) {
      attn_problem smaller = p;
      accuracy_result fault;
      int ran;
      if (!simplify(&smaller, k) || attn_problem_validate(&smaller)) continue;
      if (first_failure(t, &smaller, seed, &ran, &fault) < 0) continue;
      p = smaller, better = true;
    }
  }
  return p;
}

static void show(property *t, int64_t index, const attn_problem *p, uint64_t seed, int failing, const accuracy_result *fault) {
  char shape[1024];
  printf("FAIL %s: %s\n", t->set.list[failing].name, fault->what);
  attn_problem_format(p, shape, sizeof(shape));
  cli_wrap("  problem ", shape);
  if (t->shown++ < 5 && !t->self_test) {
    attn_problem small = shrink(t, *p, seed);
    attn_problem_format(&small, shape, sizeof(shape));
    cli_wrap("  smaller ", shape);
  }
  printf("  again   attn-property --seed %llu --index %lld --max-seq %lld --features %s\n",
         (unsigned long long)t->seed, (long long)index, (long long)t->max_seq, t->features);
}

static int run(property *t) {
  int64_t passed = 0, failed = 0, skipped = 0, drawn[GEN_FEATURES] = { 0 };
  const char *seen[GEN_FEATURES] = { 0 };
  int kinds = 0;
  printf("seed %llu\n", (unsigned long long)t->seed);
  for (int64_t i = t->index < 0 ? 0 : t->index; i < (t->index < 0 ? t->count : t->index + 1); i++) {
    attn_problem p;
    accuracy_result fault = { 0 };
    const char *names[GEN_FEATURES];
    int ran;
    uint64_t seed = t->seed * 1000003u + (uint64_t)i;
    gen_problem(t->seed, i, &t->gen, &p);
    for (int k = gen_features(&p, names) - 1; k >= 0; k--) {
      int at = 0;
      while (at < kinds && strcmp(seen[at], names[k])) at++;
      if (at == kinds && kinds < GEN_FEATURES) seen[kinds++] = names[k];
      if (at < GEN_FEATURES) drawn[at]++;
    }
    int failing = first_failure(t, &p, seed, &ran, &fault);
    if (failing >= 0) failed++, show(t, i, &p, seed, failing, &fault);
    else if (ran) passed++;
    else skipped++;
  }
  for (int k = 0; t->stats && k < kinds; k++) printf("  %6lld  %s\n", (long long)drawn[k], seen[k]);
  printf("%lld passed, %lld failed, %lld skipped\n", (long long)passed, (long long)failed, (long long)skipped);
  if (t->self_test) return cli_finish(passed ? CLI_FAILED : CLI_OK);
  return cli_finish(failed || !passed ? CLI_FAILED : CLI_OK);
}

int main(int argc, char **argv) {
  cli_common c = { 0 };
  static property t = { .count = 300, .index = -1, .max_seq = 300, .features = "all" };
  int64_t seed = 1;
  const cli_option options[] = { { "--seed", CLI_INT, &seed },           { "--count", CLI_INT, &t.count },
                                 { "--index", CLI_INT, &t.index },       { "--max-seq", CLI_INT, &t.max_seq },
                                 { "--features", CLI_TEXT, &t.features }, { "--stats", CLI_FLAG, &t.stats },
                                 { "--self-test", CLI_FLAG, &t.self_test }, { 0 } };
  char name[] = "property"; // messages begin with "attn property"
  argv[0] = name;
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.shape[0] || c.shape_count) return cli_usage(&c, "takes no SHAPE: problems are drawn from the seed");
  if (t.count < 1 || t.max_seq < 1 || t.max_seq > 100000) return cli_usage(&c, "--count and --max-seq must be positive");
  t.seed = (uint64_t)seed;
  t.gen = (gen_options){ .max_seq = t.max_seq, .basic = !strcmp(t.features, "basic") };
  if (!t.gen.basic && strcmp(t.features, "all")) return cli_usage(&c, "--features is basic or all");
  if (!check_open(&t.set, c.config.preferred, c.config.isa)) return cli_fail(&c, "%s", attn_last_error());
  status = run(&t);
  check_close(&t.set);
  return status;
}
