// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "bench_case.h"

static const char help[] =
    "usage: attn bench SHAPE... [OPTIONS]\n\n"
    "Measured time of every implementation, as a share of what this machine can do at most,\n"
    "measured in the same run. Implementations take turns; times are medians.\n\n"
    "SHAPE  as in 'attn select': options for one problem, or quoted texts for several\n"
    "  --file FILE        shapes, one a line, '#' begins a comment\n"
    "  --backend NAME|all one backend, or all that can run the problem (the selector's choice)\n"
    "  --isa NAME|all     kernels of one ISA level, or of all\n"
    "  --threads N[,N]    numbers of threads (the cores there are)\n"
    "  --repeat N         least timed calls (9);  --min-time S: least seconds timed (0.2)\n"
    "  --limits           print the machine's limits (alone: nothing else)\n"
    "  --no-limits        do not measure them (saves about a second for each number of threads)\n"
    "  --plot FILE.svg    bars of the shares\n"
    "  --json\n\n"
    "  attn bench --heads 16 --seq 2048 --dim 128 --backend all\n"
    "  attn bench \"--heads 32:8 --seq 1:8192 --dim 128\" \"--heads 8 --seq 128 --dim 64\"\n";

typedef struct bench_options {
  const char *file, *plot;
  int64_t repeat;
  double min_time;
  bool limits, no_limits;
} bench_options;

static json_t *limits_json(const attn_limits *l) {
  return json_pack("{s:i, s:o, s:o, s:o, s:o}", "threads", l->threads, "fma_gflops",
                   cli_real(l->f32_flops / 1e9), "bf16_gflops",
                   cli_real_or_null(l->bf16_flops / 1e9, l->bf16_flops > 0), "read_gbps",
                   cli_real(l->read_bandwidth / 1e9), "clock_ghz",
                   cli_real_or_null(l->clock_hz / 1e9, l->clock_hz > 0));
}

static void print_limits(const attn_limits *l) {
  printf("limits with %d thread%s: %.1f GFLOP/s f32", l->threads, l->threads == 1 ? "" : "s",
         l->f32_flops / 1e9);
  if (l->bf16_flops > 0) printf(", %.1f bf16", l->bf16_flops / 1e9);
  printf(", %.1f GB/s read\n", l->read_bandwidth / 1e9);
}

static int read_shapes(const cli_common *c, const char *path, bench_list *list) {
  struct stat is;
  if (!stat(path, &is) && !S_ISREG(is.st_mode)) return cli_fail(c, "%s: not a regular file", path);
  FILE *in = fopen(path, "r");
  char line[4096];
  int status = CLI_OK, number = 0;
  if (!in) return cli_fail(c, "%s: %s", path, strerror(errno));
  while (!status && fgets(line, sizeof(line), in)) {
    number++;
    if (strlen(line) == sizeof(line) - 1) {
      status =
          cli_fail(c, "%s line %d: longer than %zu characters", path, number, sizeof(line) - 2);
      break;
    }
    line[strcspn(line, "#\n")] = 0;
    if (!line[strspn(line, " \t\r")]) continue;
    attn_problem p;
    if (attn_problem_parse(line, &p) || attn_problem_validate(&p))
      status = cli_fail(c, "%s line %d: %s", path, number, attn_last_error());
    else if (!bench_add(list, &p))
      status = cli_fail(c, "%s: out of memory", path);
  }
  if (!status && ferror(in)) status = cli_fail(c, "%s: %s", path, strerror(errno));
  fclose(in);
  return status;
}

static int collect(const cli_common *c, const bench_options *o, bench_list *list) {
  attn_problem p;
  int status;
  if (o->file && (status = read_shapes(c, o->file, list))) return status;
  if (c->shape[0]) {
    if ((status = cli_problem(c, c->shape, &p))) return status;
    bench_add(list, &p);
  }
  for (int i = 0; i < c->shape_count; i++) {
    if ((status = cli_problem(c, c->shapes[i], &p))) return status;
    bench_add(list, &p);
  }
  if (!list->count && !o->limits) return cli_usage(c, "no SHAPE given");
  return CLI_OK;
}

static json_t *result_json(const bench_result *r) {
  const bench_share *s = &r->share;
  json_t *limit = s->limit ? json_string(s->limit) : json_null();
  return json_pack("{s:s, s:s, s:i, s:o, s:o, s:o, s:o, s:o, s:I}", "implementation",
                   r->implementation, "shape", r->shape, "threads", r->threads, "time_ms",
                   cli_real(1e3 * r->time), "gflops", cli_real(s->gflops), "gbps",
                   cli_real(s->gbps), "limit", limit, "share", cli_real(s->share),
                   "workspace_bytes", (json_int_t)r->workspace);
}

static void print_results(const bench_list *list) {
  const char *shape = NULL;
  cli_table t = { 0 };
  for (int i = 0; i < list->result_count; i++) {
    const bench_result *r = &list->results[i];
    char time[CLI_NUMBER], bytes[CLI_NUMBER], share[32] = "-";
    if (!shape || strcmp(shape, r->shape)) {
      if (t.rows) cli_table_print(&t);
      putchar('\n');
      cli_wrap("", r->shape);
      cli_row(&t, "implementation\tthreads\ttime\tGFLOP/s\tGB/s\tshare\tof\tworkspace");
      shape = r->shape;
    }
    if (r->share.limit) snprintf(share, sizeof(share), "%.1f %%", 100 * r->share.share);
    cli_row(&t, "%s\t%d\t%s\t%.1f\t%.1f\t%s\t%s\t%s", r->implementation, r->threads,
            cli_time(r->time, time), r->share.gflops, r->share.gbps, share,
            r->share.limit ? r->share.limit : "-", cli_bytes((double)r->workspace, bytes));
  }
  if (t.rows) cli_table_print(&t);
}

static int output(const cli_common *c, const bench_list *list, const attn_limits *limits,
                  int limit_count) {
  char nothing[1200];
  bool failed = list->count && !list->result_count;
  snprintf(nothing, sizeof(nothing), "nothing could run any of the shapes%s%s",
           list->skipped_count ? ": " : "", list->skipped_count ? list->skipped[0] : "");
  if (!c->json) {
    for (int i = 0; i < limit_count; i++) print_limits(&limits[i]);
    print_results(list);
    for (int i = 0; i < list->skipped_count; i++)
      cli_wrap(i ? "         " : "\nskipped  ", list->skipped[i]);
    return failed ? cli_finish(CLI_OK), cli_fail(c, "%s", nothing) : cli_finish(CLI_OK);
  }
  json_t *results = json_array(), *measured = json_array(), *skipped = json_array();
  for (int i = 0; i < list->result_count; i++)
    json_array_append_new(results, result_json(&list->results[i]));
  for (int i = 0; i < limit_count; i++) json_array_append_new(measured, limits_json(&limits[i]));
  for (int i = 0; i < list->skipped_count; i++)
    json_array_append_new(skipped, json_string(list->skipped[i]));
  json_t *o =
      json_pack("{s:o, s:o, s:o}", "limits", measured, "results", results, "skipped", skipped);
  if (failed)
    json_object_set_new(o, "error", cli_text(nothing)),
        fprintf(stderr, "attn bench: %s\n", nothing);
  int status = cli_print_json(o);
  return failed ? CLI_FAILED : status;
}

int cmd_bench(int argc, char **argv) {
  cli_common c = { 0 };
  bench_options o = { .repeat = 9, .min_time = 0.2 };
  const cli_option options[] = { { "--file", CLI_TEXT, &o.file },
                                 { "--plot", CLI_TEXT, &o.plot },
                                 { "--repeat", CLI_INT, &o.repeat },
                                 { "--min-time", CLI_FLOAT, &o.min_time },
                                 { "--limits", CLI_FLAG, &o.limits },
                                 { "--no-limits", CLI_FLAG, &o.no_limits },
                                 { 0 } };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.config.capability) return cli_usage(&c, "--hw predicts, bench measures: use select");
  if (o.repeat < 1 || o.repeat > 100000)
    return cli_usage(&c, "--repeat of value %lld is not in [1, 100000]", (long long)o.repeat);
  if (!(o.min_time >= 0) || o.min_time > 3600)
    return cli_usage(&c, "--min-time of value %g is not in [0, 3600]", o.min_time);
  static bench_list list;
  attn_limits limits[16] = { 0 };
  if (o.limits && o.no_limits) return cli_usage(&c, "--limits and --no-limits exclude each other");
  status = collect(&c, &o, &list);
  if (!status && o.plot) status = bench_plot(&c, o.plot, NULL); // a bad path fails before the work
  if (!c.thread_count) c.threads[c.thread_count++] = 0;
  int limit_count = o.no_limits ? 0 : c.thread_count;
  for (int i = 0; !status && i < limit_count; i++)
    if (attn_hardware_limits((int)c.threads[i], &limits[i]))
      status = cli_fail(&c, "%s", attn_last_error());
  for (int t = 0; !status && t < c.thread_count; t++)
    for (int i = 0; !status && i < list.count; i++) {
      cli_progress(t * list.count + i, c.thread_count * list.count);
      status = bench_problem(&c, &list, &list.problems[i], (int)c.threads[t], (int)o.repeat,
                             o.min_time, limit_count ? &limits[t] : NULL);
      cli_progress(0, 0);
    }
  if (!status && o.plot) status = bench_plot(&c, o.plot, &list);
  if (!status) status = output(&c, &list, limits, limit_count);
  bench_free(&list);
  return status;
}
