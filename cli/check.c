// SPDX-License-Identifier: Apache-2.0
#include "check.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- Implementations */

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
    attn_config config = { .threads = threads[i],
                           .preferred = backend,
                           .strict = true,
                           .isa = isa,
                           .ignore_environment = true,
                           .no_measure = true };
    if (threads[i] == 3) config.parallel_for = backwards;
    if (attn_context_create(&config, &x->contexts[i])) return false;
  }
  return true;
}

bool check_backends(unsigned *bits) {
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
  if (!check_backends(&here)) return false;
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

int check_reasons(check_implementation *x, const attn_problem *problem, attn_reason_code *codes,
                  int capacity) {
  static attn_recommendation r;
  int count = 0;
  r.rejection_count = 0;
  if (attn_select(x->contexts[0], problem, &r) == ATTN_OK) return 0;
  for (int i = 0; i < r.rejection_count; i++) {
    const attn_rejection *rejection = &r.rejections[i];
    if (rejection->backend != x->backend) continue;
    for (int k = 0; k < rejection->reason_count; k++) {
      attn_reason_code code = r.reasons[rejection->first_reason + k].code;
      if (code == ATTN_REASON_STRICT || code == ATTN_REASON_DEVICE_ABSENT) continue;
      if (count < capacity) codes[count] = code;
      count++;
    }
  }
  return count;
}

/* ---- Workspace */

/* Canary, workspace, canary, inaccessible page; the canary behind has less than 64 bytes. */
typedef struct workspace {
  unsigned char *base, *end; /* of what may be written to */
  unsigned char *data;
  size_t bytes;
} workspace;

static workspace room; // kept from call to call: mapping anew for each costs more than the calls

static bool workspace_fit(size_t bytes) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE), need = (bytes + 128 + page - 1) / page * page;
  if (room.base && (size_t)(room.end - room.base) >= need) return true;
  if (room.base) munmap(room.base, (size_t)(room.end - room.base) + page);
  void *map = mmap(NULL, need + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  room.base = map == MAP_FAILED ? NULL : map;
  if (!room.base || mprotect(room.base + need, page, PROT_NONE)) return false;
  room.end = room.base + need;
  return true;
}

/* Variants differ in the alignment, the distance to the page and what the memory holds. */
static bool workspace_prepare(size_t bytes, int variant) {
  static const int behind[CHECK_THREADS] = { 0, 1, 24, 63 };
  if (!workspace_fit(bytes)) return false;
  room.bytes = bytes;
  room.data = room.end - behind[variant] - bytes;
  if (variant == 1) // the best alignment
    room.data -= (uintptr_t)room.data % 64;
  memset(room.data - 64, GEN_CANARY, (size_t)(room.end - room.data) + 64);
  memset(room.data, variant % 2 ? 0xa5 : 0xff, bytes);
  return true;
}

static bool workspace_intact(void) {
  for (const unsigned char *p = room.data - 64; p < room.data; p++)
    if (*p != GEN_CANARY) return false;
  for (const unsigned char *p = room.data + room.bytes; p < room.end; p++)
    if (*p != GEN_CANARY) return false;
  return true;
}

/* ---- Falsification */

const char *check_falsification_name(int how) {
  static const char *const names[] = { "nothing",
                                       "a wrong value",
                                       "a NaN",
                                       "a row not written",
                                       "a byte between rows",
                                       "a byte around out",
                                       "a wrong log-sum-exp",
                                       "a bit that differs with threads",
                                       "a byte behind the workspace" };
  return names[how];
}

/* A row of out that is written to, picked by the case's seed; false if there is none. */
static bool pick_row(const gen_case *c, gen_tensor *t, int64_t *at) {
  uint64_t s = c->seed;
  *t = gen_tensor_of(&c->problem, GEN_OUT);
  if (!t->outer || !t->heads || !t->rows) return false;
  *at = gen_between(&s, 0, t->outer - 1) * t->strides.batch +
        gen_between(&s, 0, t->heads - 1) * t->strides.head +
        gen_between(&s, 0, t->rows - 1) * t->strides.row;
  return true;
}

static bool falsify_around(gen_case *c) {
  for (int i = 0; i < c->block_count; i++) {
    gen_block *b = &c->blocks[i];
    if (!b->output || b->data == b->base) continue;
    b->data[-1] ^= 1;
    return true;
  }
  return false;
}

static bool falsify(gen_case *c, const accuracy_reference *r, enum check_falsification how,
                    int variant) {
  gen_tensor t;
  int64_t at, size;
  if (!pick_row(c, &t, &at)) return false;
  unsigned char *out = c->io.out;
  size = attn_dtype_bytes(t.dtype, 1);
  switch (how) {
  case CHECK_VALUE:
  case CHECK_NAN:
  case CHECK_LSE:
    return variant || accuracy_falsify(c, r, how == CHECK_LSE, how == CHECK_NAN);
  case CHECK_UNWRITTEN:
    for (int64_t d = 0; d < t.dim; d++)
      memset(out + (at + d * t.strides.col) * size, variant % 2 ? 0xa5 : 0xff, (size_t)size);
    return true;
  case CHECK_BETWEEN:
    for (size_t i = 0; c->gaps && i < c->out_bytes; i++) {
      if (!c->gaps[i]) continue;
      out[i] ^= 1;
      return true;
    }
    return false;
  case CHECK_AROUND:
    return falsify_around(c);
  case CHECK_BITS:
    if (variant == 2) out[at * size] ^= 1;
    return true;
  case CHECK_WORKSPACE:
    if (variant == 1) room.end[-1] ^= 1;
    return true;
  default:
    return true;
  }
}

/* ---- Running */

/* Everything the call wrote, one after the other. */
static unsigned char *snapshot(const gen_case *c) {
  size_t lse = c->lse_count * 4, weights = c->weights_count * 4;
  unsigned char *p = malloc(c->out_bytes + lse + weights + 1);
  if (!p) return NULL;
  memcpy(p, c->io.out, c->out_bytes);
  memcpy(p + c->out_bytes, c->io.lse, lse);
  memcpy(p + c->out_bytes + lse, c->io.weights, weights);
  return p;
}

/* Are they what the snapshot holds, gaps left aside? */
static bool same_bits(const gen_case *c, const unsigned char *first) {
  size_t lse = c->lse_count * 4, n = c->out_bytes;
  const unsigned char *out = c->io.out;
  if (!c->gaps && memcmp(first, out, n)) return false;
  for (size_t i = 0; c->gaps && i < n; i++)
    if (!c->gaps[i] && first[i] != out[i]) return false;
  return !memcmp(first + n, c->io.lse, lse) &&
         !memcmp(first + n + lse, c->io.weights, c->weights_count * 4);
}

static void fail(accuracy_result *r, const char *what, int variant) {
  static const char *const names[CHECK_THREADS] = { "1 thread", "2 threads",
                                                    "a host's 3 threads, last first", "8 threads" };
  if (!r->ok) return;
  r->ok = false, r->worst = (double)INFINITY;
  snprintf(r->what, sizeof(r->what), "%s (%s)", what, names[variant]);
}

static attn_status run_once(check_implementation *x, gen_case *c, int variant, bool *rejected) {
  attn_plan *plan;
  attn_status status = attn_plan_create(x->contexts[variant], &c->problem, &plan);
  *rejected = status == ATTN_ERROR_UNSUPPORTED;
  if (status) return status;
  size_t bytes = attn_plan_workspace(plan);
  gen_case_poison(c, variant % 2 ? 0xa5 : 0xff);
  status = ATTN_ERROR_MEMORY;
  if (workspace_prepare(bytes, variant))
    status = attn_execute(plan, &c->io, bytes ? room.data : NULL);
  attn_plan_destroy(plan);
  return status;
}

attn_status check_run(check_implementation *x, gen_case *c, const accuracy_reference *r,
                      enum check_falsification how, accuracy_result *result) {
  unsigned char *first = NULL;
  attn_status status = ATTN_OK;
  *result = (accuracy_result){ .ok = true };
  for (int t = 0; t < CHECK_THREADS && !status; t++) {
    bool rejected;
    status = run_once(x, c, t, &rejected);
    if (status == ATTN_ERROR_UNSUPPORTED && (!rejected || t)) {
      fail(result, rejected ? "rejects what it ran with 1 thread" : "rejects in attn_execute", t);
      status = ATTN_OK;
      break;
    }
    if (status) break;
    if (how && !falsify(c, r, how, t)) status = ATTN_ERROR_UNSUPPORTED;
    if (!gen_case_intact(c, t % 2 ? 0xa5 : 0xff))
      fail(result, "bytes between or around outputs were written to", t);
    if (!workspace_intact()) fail(result, "the workspace was overrun", t);
    if (t == 0) {
      accuracy_result compared = accuracy_check(c, r);
      if (result->ok) *result = compared;
      first = snapshot(c);
      if (!first) status = ATTN_ERROR_MEMORY;
    } else if (!same_bits(c, first)) {
      fail(result, "other bits than with 1 thread", t);
    }
  }
  free(first);
  return status;
}

/* ---- Crashes */

static char last_words[4096];
static volatile sig_atomic_t last_length;

static void say_last_words(int signal_number) {
  ssize_t n = write(STDERR_FILENO, last_words, (size_t)last_length);
  (void)n;
  signal(signal_number, SIG_DFL);
  raise(signal_number);
}

void check_if_crashing(const char *text) {
  static const int signals[] = { SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT };
  static bool installed;
  last_length = 0;
  if (!text) return;
  last_length = snprintf(last_words, sizeof(last_words), "%s", text);
  if (last_length >= (int)sizeof(last_words)) last_length = sizeof(last_words) - 1;
  for (int i = 0; !installed && i < (int)(sizeof(signals) / sizeof(signals[0])); i++) {
    struct sigaction before; // a sanitizer's handler says more
    if (sigaction(signals[i], NULL, &before) || before.sa_handler != SIG_DFL) continue;
    signal(signals[i], say_last_words);
  }
  installed = true;
}
