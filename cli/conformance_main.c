// SPDX-License-Identifier: Apache-2.0
/* attn-conformance: stored cases of the ONNX operator Attention against the library's public API.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "check.h"
#include "cli.h"
#include "conformance_case.h"

static const char help[] =
    "usage: attn-conformance FOLDER [--backend NAME|all] [--all]\n\n"
    "Runs every sub-folder of FOLDER that has a case.json (see tests/conformance/README.md) and\n"
    "compares the results with the stored ones. A case that nothing may run is skipped, with the\n"
    "reasons. Ends with 'N passed, N failed, N skipped' and exits with 1 when a case failed or\n"
    "there was none.\n\n"
    "  --backend NAME   this backend alone; default: the one that selection chooses\n"
    "  --all            every CPU backend that takes the case, each in turn (also --backend all)\n";

typedef struct tolerance {
  attn_dtype dtype;
  double absolute, relative;
} tolerance;
static const tolerance tolerances[] = { { ATTN_F32, 1e-5, 1e-5 }, { ATTN_F16, 2e-3, 2e-3 } };
enum { TOLERANCES = sizeof(tolerances) / sizeof(tolerances[0]) };

typedef struct runner {
  attn_context *contexts[ATTN_BACKEND_COUNT];
  int count;
  int64_t passed, failed, skipped;
} runner;

static void append(test_case *c, const char *separator, const char *text) {
  size_t used = strlen(c->why);
  snprintf(c->why + used, sizeof(c->why) - used, "%s%s", separator, text ? text : "?");
}

/* ---- Comparing */

static bool compare(test_case *c, int role, attn_dtype dtype, const void *got, double *worst) {
  const array *t = &c->t[role];
  const tolerance *limit = tolerances;
  while (limit->dtype != c->problem.dtype) limit++;
  for (int64_t i = 0, count = array_count(t); i < count; i++) {
    double want = attn_dtype_load(conformance_dtype(t), t->data, i),
           x = attn_dtype_load(dtype, got, i);
    if (x == want || (isnan(x) && isnan(want))) continue;
    double error = fabs(x - want);
    /* Written so that a NaN or an infinite error fails. */
    bool ok = isfinite(want) && error <= limit->absolute + limit->relative * fabs(want);
    if (!ok && !c->why[0])
      conformance_fault(c, "%s[%" PRId64 "] is %.9g, expected %.9g", conformance_role_name(role), i,
                        x, want);
    if (!(error <= *worst)) *worst = isnan(*worst) ? *worst : error;
  }
  return !c->why[0];
}

static bool present_equals(test_case *c, int role, const view *joined) {
  const array *t = &c->t[role];
  if (!c->has[role]) return true;
  if (t->ndim != 4 || t->dtype != c->t[Q].dtype || t->shape[0] != joined->batch ||
      t->shape[1] != joined->heads || t->shape[2] != joined->rows || t->shape[3] != joined->dim)
    return conformance_fault(c, "%s has another shape or dtype than the joined input",
                             conformance_role_name(role));
  if (!memcmp(t->data, joined->data, t->bytes)) return true;
  return conformance_fault(c, "%s differs from the joined input", conformance_role_name(role));
}

/* ---- Running */

static void say(const test_case *c, const char *verdict, const char *implementation, double error) {
  printf("%-4s %s %s ", verdict, c->name, implementation);
  if (error < 0)
    printf("-");
  else
    printf("%.1e", error);
  printf("%s%s\n", c->why[0] ? " " : "", c->why);
}

static bool tells(attn_reason_code code) {
  return code != ATTN_REASON_DEVICE_ABSENT && code != ATTN_REASON_PLUGIN_ABSENT &&
         code != ATTN_REASON_STRICT;
}

/* "flash/cpu/avx2:weights,mask ...", of `only` where one backend is demanded. An implementation
 * that is out for a reason that lies not in the case says nothing about it. */
static void explain(test_case *c, const attn_recommendation *r, attn_backend only) {
  c->why[0] = 0;
  for (int i = 0; i < r->rejection_count; i++) {
    const attn_rejection *x = &r->rejections[i];
    const attn_reason *reasons = r->reasons + x->first_reason;
    bool use = !only || x->backend == only;
    for (int k = 0; k < x->reason_count; k++) use = use && tells(reasons[k].code);
    if (!use) continue;
    append(c, c->why[0] ? " " : "", x->implementation);
    for (int k = 0; k < x->reason_count; k++)
      append(c, k ? "," : ":", attn_reason_name(reasons[k].code));
  }
  if (!c->why[0]) conformance_fault(c, "%s", attn_last_error());
}

/* To the library a key past its sequence's length has no score; the operator's scores before masks
 * cover it: they take a call without lengths. */
static bool unmasked_scores(test_case *c, attn_context *context) {
  attn_problem p = c->problem;
  if (!p.kv_lengths || c->a.mode > 1) return true;
  p.kv_lengths = false;
  p.causal = ATTN_CAUSAL_NONE;
  return !attn_sdpa(context, &p, &c->io) || conformance_fault(c, "scores: %s", attn_last_error());
}

/* False where the context's backends refuse the case; c->why then says so. */
static bool run_on(runner *t, test_case *c, attn_context *context) {
  attn_recommendation r;
  double worst = 0;
  memset(&r, 0, sizeof(r));
  c->why[0] = 0;
  attn_status status = attn_select(context, &c->problem, &r);
  if (status == ATTN_ERROR_UNSUPPORTED) {
    explain(c, &r, attn_context_config(context)->preferred);
    return false;
  }
  /* All bits set is NaN in each dtype: an element that is not written shows. */
  memset(c->out, 0xff, c->t[Y].bytes);
  if (c->weights) memset(c->weights, 0xff, (size_t)c->weights_count * sizeof(float));
  if (!status) status = attn_sdpa(context, &c->problem, &c->io);
  if (status) {
    conformance_fault(c, "%s: %s", attn_status_string(status), attn_last_error());
    worst = -1;
  } else {
    compare(c, Y, c->problem.dtype, c->out, &worst);
    if (c->weights && unmasked_scores(c, context)) compare(c, QK, ATTN_F32, c->weights, &worst);
    if (!c->why[0] && present_equals(c, PRESENT_K, &c->k)) present_equals(c, PRESENT_V, &c->v);
  }
  if (c->why[0])
    t->failed++;
  else
    t->passed++;
  say(c, c->why[0] ? "FAIL" : "ok", r.implementation[0] ? r.implementation : "-", worst);
  return true;
}

static void run_case(runner *t, const char *folder, const char *name) {
  test_case c = { .name = name };
  int n = snprintf(c.folder, sizeof(c.folder), "%s/%s", folder, name);
  if (n >= (int)sizeof(c.folder)) conformance_fault(&c, "the path is too long");
  if (c.why[0] || !conformance_read(&c)) {
    t->failed++;
    say(&c, "FAIL", "-", -1);
  } else {
    bool ran = false;
    for (int i = 0; i < t->count; i++) ran |= run_on(t, &c, t->contexts[i]);
    if (!ran) {
      t->skipped++;
      say(&c, "skip", "-", -1);
    }
  }
  conformance_release(&c);
}

static bool has_case(const char *folder, const char *name) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s/case.json", folder, name);
  return n >= (int)sizeof(path) || !access(path, F_OK);
}

static int run_folder(runner *t, const char *folder) {
  struct dirent **entries;
  int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) {
    fprintf(stderr, "attn-conformance: cannot list %s: %s\n", folder, strerror(errno));
    return CLI_FAILED;
  }
  bool found = false;
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (strcmp(name, ".") && strcmp(name, "..") && has_case(folder, name)) {
      run_case(t, folder, name);
      found = true;
    }
    free(entries[i]);
  }
  free(entries);
  if (!found) fprintf(stderr, "attn-conformance: no case in %s\n", folder);
  printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", t->passed, t->failed,
         t->skipped);
  return t->failed || !found ? CLI_FAILED : CLI_OK;
}

static bool open_context(runner *t, attn_backend backend) {
  attn_config config = { .no_measure = true,
                         .preferred = backend,
                         .strict = backend != ATTN_BACKEND_AUTO };
  if (!attn_context_create(&config, &t->contexts[t->count])) return ++t->count;
  fprintf(stderr, "attn-conformance: %s\n", attn_last_error());
  return false;
}

static bool open_contexts(runner *t, bool all, attn_backend backend) {
  unsigned here;
  if (!all) return open_context(t, backend);
  if (!check_backends(&here)) {
    fprintf(stderr, "attn-conformance: %s\n", attn_last_error());
    return false;
  }
  for (int b = ATTN_BACKEND_AUTO + 1; b < ATTN_BACKEND_COUNT; b++)
    if (here >> b & 1 && !open_context(t, (attn_backend)b)) return false;
  return true;
}

static int usage(const char *what, const char *word) {
  fprintf(stderr, "attn-conformance: %s%s\ntry attn-conformance --help\n", what, word);
  return CLI_USAGE;
}

int main(int argc, char **argv) {
  const char *folder = NULL, *value;
  attn_backend backend = ATTN_BACKEND_AUTO;
  bool all = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      fputs(help, stdout);
      return cli_finish(CLI_OK);
    }
    if (!strcmp(argv[i], "--all")) {
      all = true;
    } else if (!strncmp(argv[i], "--backend", 9) && (!argv[i][9] || argv[i][9] == '=')) {
      value = argv[i][9] ? argv[i] + 10 : argv[++i];
      if (!value) return usage("--backend needs a value", "");
      all = !strcmp(value, "all");
      if (!all && attn_backend_from_name(value, &backend))
        return usage("--backend: ", attn_last_error());
    } else if (argv[i][0] == '-' && argv[i][1]) {
      return usage("unknown option ", argv[i]);
    } else if (folder) {
      return usage("more than one folder: ", argv[i]);
    } else {
      folder = argv[i];
    }
  }
  if (!folder) return usage("needs a FOLDER", "");

  runner t = { 0 };
  int status = CLI_FAILED;
  if (open_contexts(&t, all, backend)) {
    for (size_t i = 0; i < TOLERANCES; i++)
      printf("tolerance %s: %g absolute + %g relative\n", attn_dtype_name(tolerances[i].dtype),
             tolerances[i].absolute, tolerances[i].relative);
    status = run_folder(&t, folder);
  }
  for (int i = 0; i < t.count; i++) attn_context_destroy(t.contexts[i]);
  return cli_finish(status);
}
