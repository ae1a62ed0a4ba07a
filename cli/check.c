// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A host's threads: bodies one after the other, the last first. */
static void backwards(void *user, int count, void (*body)(void *arg, int index), void *arg) {
  (void)user;
  for (int i = count - 1; i >= 0; i--) body(arg, i);
}

static bool open_one(check_implementation *x, attn_backend backend, attn_isa isa) {
  static const int threads[CHECK_THREADS] = { 1, 2, 3, 8 };
  x->backend = backend, x->isa = isa;
  snprintf(x->name, sizeof(x->name), "%s/cpu/%s", attn_backend_name(backend), attn_isa_name(isa));
  for (int i = 0; i < CHECK_THREADS; i++) {
    attn_config config = { .threads = threads[i], .preferred = backend, .strict = true, .isa = isa,
                           .ignore_environment = true, .no_measure = true };
    if (threads[i] == 3) config.parallel_for = backwards;
    if (attn_context_create(&config, &x->contexts[i])) return false;
  }
  return true;
}

/* Bits of the backends that have an implementation on the CPU: those not rejected for its absence. */
static bool backends_here(unsigned *bits) {
  attn_config config = { .ignore_environment = true, .no_measure = true };
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 1, .seq_kv = 1, .head_dim = 1 };
  static attn_recommendation r;
  attn_context *context;
  if (attn_context_create(&config, &context)) return false;
  bool ok = !attn_select(context, &p, &r);
  *bits = ~0u;
  for (int i = 0; ok && i < r.rejection_count; i++)
    if (r.reasons[r.rejections[i].first_reason].code == ATTN_REASON_DEVICE_ABSENT)
      *bits &= ~(1u << r.rejections[i].backend);
  attn_context_destroy(context);
  return ok;
}

bool check_open(check_set *set, attn_backend only, attn_isa isa) {
  attn_kernel_info levels[8];
  int count = attn_kernels(levels, 8);
  unsigned here;
  memset(set, 0, sizeof(*set));
  if (!backends_here(&here)) return false;
  for (int l = 0; l < count; l++) {
    if (!levels[l].ok || (isa && levels[l].isa != isa)) continue;
    for (int b = ATTN_BACKEND_AUTO + 1; b < ATTN_BACKEND_COUNT; b++) {
      if ((only && b != (int)only) || !(here >> b & 1) || set->count == CHECK_MAX) continue;
      if (!open_one(&set->list[set->count++], (attn_backend)b, levels[l].isa)) return false;
    }
  }
  return true;
}

void check_close(check_set *set) {
  for (int i = 0; i < set->count; i++)
    for (int t = 0; t < CHECK_THREADS; t++) attn_context_destroy(set->list[i].contexts[t]);
  set->count = 0;
}

/* Everything the call wrote, one after the other. */
static void *snapshot(const gen_case *c, size_t *bytes) {
  size_t lse = c->lse_count * 4, weights = c->weights_count * 4;
  *bytes = c->out_bytes + lse + weights;
  char *p = malloc(*bytes + 1);
  if (!p) return NULL;
  memcpy(p, c->io.out, c->out_bytes);
  memcpy(p + c->out_bytes, c->io.lse, lse);
  memcpy(p + c->out_bytes + lse, c->io.weights, weights);
  return p;
}

/* Canary bytes behind the workspace must stay. */
static attn_status run_once(attn_context *context, gen_case *c, bool *overrun) {
  attn_plan *plan;
  attn_status status = attn_plan_create(context, &c->problem, &plan);
  if (status) return status;
  size_t bytes = attn_plan_workspace(plan);
  unsigned char *workspace = malloc(bytes + 64);
  gen_case_poison(c);
  if (!workspace) status = ATTN_ERROR_MEMORY;
  else {
    memset(workspace, 0xa5, bytes + 64);
    status = attn_execute(plan, &c->io, bytes ? workspace : NULL);
    for (size_t i = 0; i < 64; i++) *overrun |= workspace[bytes + i] != 0xa5;
  }
  free(workspace);
  attn_plan_destroy(plan);
  return status;
}

attn_status check_run(check_implementation *x, gen_case *c, const accuracy_reference *r, bool perturb,
                      accuracy_result *result) {
  size_t bytes = 0;
  void *first = NULL;
  attn_status status = ATTN_OK;
  bool overrun = false;
  *result = (accuracy_result){ .ok = true };
  if (perturb && !c->out_bytes) return ATTN_ERROR_UNSUPPORTED; // nothing to falsify
  for (int t = 0; t < CHECK_THREADS && !status; t++) {
    status = run_once(x->contexts[t], c, &overrun);
    if (status) break;
    if (t == 0) {
      if (perturb && c->out_bytes) ((unsigned char *)c->io.out)[c->out_bytes - 1] ^= 0x40;
      *result = accuracy_check(c, r);
      first = snapshot(c, &bytes);
      if (!first) status = ATTN_ERROR_MEMORY;
      continue;
    }
    void *again = snapshot(c, &bytes);
    if (again && memcmp(first, again, bytes) && !perturb && result->ok) {
      result->ok = false, result->worst = (double)INFINITY;
      snprintf(result->what, sizeof(result->what), "bits differ between 1 thread and variant %d", t);
    }
    free(again);
  }
  if (overrun && !status) {
    result->ok = false, result->worst = (double)INFINITY;
    snprintf(result->what, sizeof(result->what), "the workspace was overrun");
  }
  free(first);
  return status;
}
