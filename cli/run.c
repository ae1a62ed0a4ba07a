// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_files.h"

static const char help[] =
    "usage: attn run -q Q.npy -k K.npy -v V.npy [-o O.npy] [OPTIONS]\n\n"
    "Attention on files (.npy, FILE.npz:member, FILE.safetensors:tensor), with what was chosen\n"
    "and how fast. Arrays are [batch, heads, seq, dim]; with --layout bshd [batch, seq, heads,\n"
    "dim]; 3-D ones [batch, seq, heads * dim] with --heads Q:KV; 2-D ones [seq, dim]; packed ones\n"
    "[total, heads, dim] with --cu-seqlens; paged K and V [pages, page_size, heads, dim] with\n"
    "--block-table.\n\n"
    "  --mask M.npy           bool (true = attend) or added numbers, broadcast from the right\n"
    "  --causal [tl|br|N]  --window LEFT:RIGHT  --scale X  --softcap X  --dropout P --seed N\n"
    "  --kv-len L             keys of each sequence: a list 3,0,7 or a file\n"
    "  --cu-seqlens Q[;KV]    offsets of packed sequences, likewise\n"
    "  --block-table T.npy    [batch, pages] of page numbers\n"
    "  --alibi A.npy  --sinks S.npy         slopes and sink logits, f32 [heads]\n"
    "  --past-k F --past-v F  keys and values that come before; --present-k F --present-v F\n"
    "                         save all of them\n"
    "  --prefix-k F --prefix-v F   keys and values that all sequences share [heads, keys, dim]\n"
    "  --dtype bf16|f8e4m3|f8e5m2           what u2 and u1 files hold;  --out-dtype f32\n"
    "  --kv-dtype T           turn K and V into a cache of f16, bf16, f8e4m3, int8, q8_0, q4_0, "
    "...\n"
    "  --kv-dtype int8 --k-scale F --v-scale F   K and V are int8 with these scales\n"
    "  -o O.npy  --lse L.npy  outputs; also --weights-out W.npy with\n"
    "                         --weights probs|scores|capped|masked|column-sums\n"
    "  --reference R.npy      compare with this output; --tolerance X: fail beyond it\n"
    "  --check                compare with the library's float64 reference\n"
    "  --explain              show the hardware and the whole recommendation first\n"
    "  --repeat N             timed calls (5)\n"
    "  --backend NAME  --strict  --threads N  --isa NAME  --json\n\n"
    "  attn run -q q.npy -k k.npy -v v.npy --causal br -o out.npy --check\n";

/* Without --tolerance a comparison fails only on NaN or infinity that the other side lacks. */
#define ANY_FINITE 1e300

typedef struct run_options {
  run_names names;
  int64_t repeat, seed;
  double tolerance;
  bool check, explain;
} run_options;

typedef struct outcome {
  double time, error; /* error NAN when nothing was compared */
  size_t workspace;
  char implementation[ATTN_IMPLEMENTATION_NAME];
} outcome;

/* Element i of an array of floats as run_files_load leaves them; u16 is bf16. */
static double element(const array *a, int64_t i) {
  attn_dtype type = a->dtype == ARRAY_F64   ? ATTN_F64
                    : a->dtype == ARRAY_F32 ? ATTN_F32
                    : a->dtype == ARRAY_F16 ? ATTN_F16
                                            : ATTN_BF16;
  return attn_dtype_load(type, a->data, i);
}

/* Largest difference; NaN on one side alone is infinite, on both none. */
static void note(double got, double want, double *worst) {
  double d = fabs(got - want);
  if (isnan(got) && isnan(want))
    d = 0;
  else if (got == want)
    d = 0;
  else if (isnan(d))
    d = (double)INFINITY;
  if (d > *worst) *worst = d;
}

static void compare_files(const run_files *f, double *worst) {
  *worst = fmax(*worst, 0);
  for (int64_t i = 0; i < array_count(&f->out); i++)
    note(element(&f->out, i), element(&f->reference, i), worst);
}

/* Against attn_reference, whose output is [batch, heads, seq, dim] ([total, heads, dim] packed). */
static int compare_reference(const cli_common *c, const attn_problem *resolved, const attn_io *io,
                             const run_files *f, double *worst) {
  const attn_problem *p = resolved;
  int64_t rows = p->varlen ? p->total_q : p->seq_q, dv = p->head_dim_v;
  int64_t outer = p->varlen ? 1 : p->batch, count = outer * rows * p->heads_q * dv;
  double *want = malloc((size_t)(count ? count : 1) * sizeof(*want));
  if (!want) return cli_fail(c, "the reference's output could not be allocated");
  if (attn_reference(p, io, want, NULL, NULL)) {
    free(want);
    return cli_fail(c, "%s", attn_last_error());
  }
  *worst = fmax(*worst, 0); // NAN until something was compared
  for (int64_t i = 0; i < count; i++) {
    int64_t column = i % dv, h, row, b = i / dv / p->heads_q / rows;
    if (p->varlen)
      h = i / dv % p->heads_q, row = i / dv / p->heads_q;
    else
      row = i / dv % rows, h = i / dv / rows % p->heads_q;
    int64_t at =
        b * p->out_strides.batch + h * p->out_strides.head + row * p->out_strides.row + column;
    note(element(&f->out, at), want[i], worst);
  }
  free(want);
  return CLI_OK;
}

static int execute(const cli_common *c, attn_context *context, const attn_problem *p,
                   const attn_io *io, int64_t repeat, outcome *o) {
  attn_plan *plan;
  if (attn_plan_create(context, p, &plan)) return cli_fail(c, "%s", attn_last_error());
  o->workspace = attn_plan_workspace(plan);
  snprintf(o->implementation, sizeof(o->implementation), "%s", attn_plan_implementation(plan));
  void *workspace = malloc(o->workspace ? o->workspace : 1);
  double *times = malloc((size_t)(repeat ? repeat : 1) * sizeof(*times));
  int status = workspace && times
                   ? CLI_OK
                   : cli_fail(c, "a workspace of %zu bytes could not be allocated", o->workspace);
  for (int64_t i = -1; !status && i < repeat; i++) { // one call first, untimed
    double start = cli_now();
    if (attn_execute(plan, io, workspace)) status = cli_fail(c, "%s", attn_last_error());
    if (i >= 0)
      times[i] = cli_now() - start;
    else
      times[0] = cli_now() - start;
  }
  if (!status) o->time = cli_median(times, repeat ? (int)repeat : 1);
  free(times), free(workspace);
  attn_plan_destroy(plan);
  return status;
}

/* Most that would keep an output from being saved, found before any is. */
static int check_folders(const cli_common *c, const run_names *n) {
  const char *const outputs[] = { n->out, n->lse, n->weights_out, n->present_k, n->present_v };
  for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++) {
    char folder[4096];
    const char *slash = outputs[i] ? strrchr(outputs[i], '/') : NULL;
    if (!outputs[i]) continue;
    if (strstr(outputs[i], ".npz") || strstr(outputs[i], ".safetensors") ||
        !strcmp(outputs[i], "-"))
      return cli_usage(c, "output \"%s\": .npy files are written, nothing else", outputs[i]);
    for (size_t j = 0; j < i; j++)
      if (outputs[j] && !strcmp(outputs[i], outputs[j]))
        return cli_usage(c, "two outputs are named %s", outputs[i]);
    snprintf(folder, sizeof(folder), "%.*s", slash ? (int)(slash - outputs[i]) + 1 : 1,
             slash ? outputs[i] : ".");
    if (access(folder, W_OK))
      return cli_fail(c, "%s: the folder %s: %s", outputs[i], folder, strerror(errno));
  }
  return CLI_OK;
}

static int save(const cli_common *c, const run_names *n, const run_files *f) {
  char err[512];
  const struct {
    const char *name;
    const array *a;
  } outputs[] = { { n->out, &f->out },
                  { n->lse, &f->lse },
                  { n->weights_out, &f->weights },
                  { n->present_k, &f->k },
                  { n->present_v, &f->v } };
  for (size_t i = 0; i < sizeof(outputs) / sizeof(outputs[0]); i++)
    if (outputs[i].name && array_save_npy(outputs[i].name, outputs[i].a, err, sizeof(err)))
      return cli_fail(c, "%s", err);
  return CLI_OK;
}

static int report(const cli_common *c, const attn_capability *hardware,
                  const attn_recommendation *r, const attn_problem *p, const outcome *o,
                  const run_options *options) {
  char time[CLI_NUMBER], error[64] = "not compared";
  if (!isnan(o->error)) snprintf(error, sizeof(error), "%.3g", o->error);
  if (c->json) {
    json_t *j = cli_recommendation_json(r);
    char shape[1024];
    attn_problem_format(p, shape, sizeof(shape));
    json_object_set_new(j, "shape", json_string(shape));
    if (options->explain) json_object_set_new(j, "hardware", cli_device_json(hardware));
    json_object_set_new(j, "time_ms", cli_real(1e3 * o->time));
    json_object_set_new(j, "max_error", cli_real(o->error));
    return cli_print_json(j);
  }
  if (!options->explain) {
    cli_wrap("chosen  ", r->implementation);
    cli_wrap("why     ", r->reason);
  }
  printf("ok: %s, %s, max error %s\n", o->implementation, cli_time(o->time, time), error);
  return cli_finish(CLI_OK);
}

static void explain(attn_context *context, const attn_problem *p, const attn_recommendation *r) {
  char text[1024];
  cli_print_device(attn_context_capability(context));
  attn_problem_format(p, text, sizeof(text));
  putchar('\n');
  cli_wrap("problem ", text);
  putchar('\n');
  cli_print_recommendation(r);
  putchar('\n');
}

/* SHAPE options that the files answer. */
static int check_shape(const cli_common *c) {
  static const char *const answered[] = { "--batch",        "--seq",          "--dim",
                                          "--mask-strides", "--alibi-stride", "--score-mod",
                                          "--kv-lengths",   "--varlen",       "--prefix",
                                          "--page-size",    "--num-pages",    "--pages-per-seq",
                                          "--q-strides",    "--k-strides",    "--v-strides",
                                          "--out-strides" };
  char copy[sizeof(c->shape)], *save = NULL;
  snprintf(copy, sizeof(copy), "%s", c->shape);
  for (char *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    w[strcspn(w, "=")] = 0;
    for (size_t i = 0; i < sizeof(answered) / sizeof(answered[0]); i++)
      if (!strcmp(w, answered[i])) return cli_usage(c, "%s: the files say this", w);
  }
  return CLI_OK;
}

static int run(cli_common *c, run_options *options, run_files *f) {
  attn_problem p, resolved;
  attn_io io = { .dropout_seed = (uint64_t)options->seed };
  char shape[4200];
  snprintf(shape, sizeof(shape), "--heads 0 --seq 0 --dim 1 %s",
           c->shape); // sizes come from the files
  if (attn_problem_parse(shape, &p)) return cli_usage(c, "%s", attn_last_error());
  attn_problem said = p; // without what only the files' types can tell
  said.kv_dtype = said.out_dtype = ATTN_DTYPE_DEFAULT, said.fp8_scale = ATTN_FP8_SCALE_NONE;
  if (p.layout == ATTN_LAYOUT_STRIDED)
    return cli_usage(c, "--layout of value \"strided\": files are bhsd or bshd");
  if (attn_problem_validate(&said)) return cli_usage(c, "%s", attn_last_error());
  if (!options->names.weights_out != !p.weights)
    return cli_usage(c, "--weights KIND and --weights-out go together");
  int status = check_folders(c, &options->names);
  if (!status) status = run_files_load(c, &options->names, f, &p, &io);
  if (status) return status;
  if (attn_problem_resolve(&p, &resolved)) return cli_fail(c, "%s", attn_last_error());
  attn_context *context = cli_context(c);
  if (!context) return CLI_FAILED;
  static attn_recommendation r;
  outcome o = { .error = (double)NAN };
  if (attn_select(context, &resolved, &r)) status = cli_fail(c, "%s", attn_last_error());
  if (!status && options->explain && !c->json) explain(context, &p, &r);
  if (!status) status = execute(c, context, &resolved, &io, options->repeat, &o);
  if (!status && options->names.reference) compare_files(f, &o.error);
  if (!status && options->check) status = compare_reference(c, &resolved, &io, f, &o.error);
  if (!status && isinf(o.error) && options->tolerance == ANY_FINITE)
    status = cli_fail(c, "%s: max error inf: NaN or infinity where the other has none",
                      o.implementation);
  if (!status && o.error > options->tolerance)
    status = cli_fail(c, "%s: max error %.3g exceeds the tolerance %.3g", o.implementation, o.error,
                      options->tolerance);
  if (!status) status = save(c, &options->names, f);
  if (!status) status = report(c, attn_context_capability(context), &r, &p, &o, options);
  attn_context_destroy(context);
  return status;
}

int cmd_run(int argc, char **argv) {
  cli_common c = { 0 };
  run_options o = { .repeat = 5, .tolerance = ANY_FINITE };
  run_names *n = &o.names;
  const cli_option options[] = {
    { "--query -q", CLI_TEXT, &n->q },
    { "--key -k", CLI_TEXT, &n->k },
    { "--value -v", CLI_TEXT, &n->v },
    { "--output -o", CLI_TEXT, &n->out },
    { "--mask", CLI_TEXT, &n->mask },
    { "--lse", CLI_TEXT, &n->lse },
    { "--reference", CLI_TEXT, &n->reference },
    { "--compare", CLI_TEXT, &n->reference },
    { "--alibi", CLI_TEXT, &n->alibi },
    { "--sinks", CLI_TEXT, &n->sinks },
    { "--kv-len", CLI_TEXT, &n->kv_len },
    { "--cu-seqlens", CLI_TEXT, &n->cu_seqlens },
    { "--block-table", CLI_TEXT, &n->block_table },
    { "--q-scale", CLI_TEXT, &n->q_scale },
    { "--k-scale", CLI_TEXT, &n->k_scale },
    { "--v-scale", CLI_TEXT, &n->v_scale },
    { "--past-k", CLI_TEXT, &n->past_k },
    { "--past-v", CLI_TEXT, &n->past_v },
    { "--present-k", CLI_TEXT, &n->present_k },
    { "--present-v", CLI_TEXT, &n->present_v },
    { "--prefix-k", CLI_TEXT, &n->prefix_k },
    { "--prefix-v", CLI_TEXT, &n->prefix_v },
    { "--weights-out", CLI_TEXT, &n->weights_out },
    { "--tolerance", CLI_FLOAT, &o.tolerance },
    { "--repeat", CLI_INT, &o.repeat },
    { "--seed", CLI_INT, &o.seed },
    { "--check", CLI_FLAG, &o.check },
    { "--explain", CLI_FLAG, &o.explain },
    { 0 },
  };
  int status = cli_parse(&c, argc, argv, options);
  if (status) return status;
  if (c.help) return fputs(help, stdout), cli_finish(CLI_OK);
  if (c.shape_count) return cli_usage(&c, "unexpected word \"%s\"", c.shapes[0]);
  if (c.config.capability)
    return cli_usage(&c, "--hw predicts, run needs the hardware: use select");
  if ((status = cli_single(&c))) return status;
  if (o.repeat < 0 || o.repeat > 1000000)
    return cli_usage(&c, "--repeat of value %lld is not in [0, 1000000]", (long long)o.repeat);
  if (o.tolerance < ANY_FINITE && !n->reference && !o.check)
    return cli_usage(&c, "--tolerance needs --reference or --check");
  if ((status = check_shape(&c))) return status;
  if (!(o.tolerance >= 0))
    return cli_usage(&c, "--tolerance of value %g is no number >= 0", o.tolerance);
  run_files f = { 0 };
  status = run(&c, &o, &f);
  run_files_release(&f);
  return status;
}
