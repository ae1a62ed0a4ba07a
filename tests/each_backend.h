// SPDX-License-Identifier: Apache-2.0
/* Every CPU backend, each with its best kernels and with the scalar ones: a "way". Include after
 * cmocka. */
#ifndef TESTS_EACH_BACKEND_H
#define TESTS_EACH_BACKEND_H

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/attn.h"
#include "attn/select.h"

static const attn_backend way_backends[] = {
  ATTN_BACKEND_FLASH, ATTN_BACKEND_MATH,         ATTN_BACKEND_MEMORY_EFFICIENT,
  ATTN_BACKEND_CPU,   ATTN_BACKEND_FLASH_DECODE, ATTN_BACKEND_VARLEN
};
enum { WAYS = 2 * sizeof(way_backends) / sizeof(way_backends[0]) };

static inline attn_backend way_backend(int way) { return way_backends[way / 2]; }
static inline const char *way_name(int way) { return attn_backend_name(way_backend(way)); }

static inline attn_context *way_context(int way, int threads) {
  attn_config config = { .preferred = way_backend(way),
                         .strict = true,
                         .threads = threads,
                         .isa = way % 2 ? ATTN_ISA_SCALAR : ATTN_ISA_AUTO,
                         .ignore_environment = true,
                         .no_measure = true };
  attn_context *c = NULL;
  if (attn_context_create(&config, &c)) fail_msg("attn_context_create: %s", attn_last_error());
  return c;
}

/* A backend that does not run says why, in words, beyond having been left out. */
static inline void way_check_reasons(attn_context *c, int way, const attn_problem *p) {
  attn_recommendation rec;
  assert_int_equal(attn_select(c, p, &rec), ATTN_ERROR_UNSUPPORTED);
  int told = 0;
  for (int i = 0; i < rec.rejection_count; i++) {
    const attn_rejection *r = &rec.rejections[i];
    if (r->backend != way_backend(way) || !strstr(r->implementation, "/cpu")) continue;
    for (int j = 0; j < r->reason_count; j++) {
      const attn_reason *reason = &rec.reasons[r->first_reason + j];
      char text[256] = "";
      assert_true(attn_reason_text(reason, text, sizeof(text)) > 0 && text[0]);
      told += reason->code != ATTN_REASON_NONE && reason->code != ATTN_REASON_STRICT;
    }
  }
  if (!told) fail_msg("%s does not say why it cannot run", way_name(way));
}

/* False when the way rejects the problem, with its reasons checked. */
static inline bool way_run(int way, int threads, const attn_problem *p, const attn_io *io) {
  attn_context *c = way_context(way, threads);
  attn_status status = attn_sdpa(c, p, io);
  if (status && status != ATTN_ERROR_UNSUPPORTED)
    fail_msg("%s: %s", way_name(way), attn_last_error());
  if (status) way_check_reasons(c, way, p);
  attn_context_destroy(c);
  return !status;
}

/* For (EACH_WAY(w, problem, io)) body: after the run on each way that takes the problem. At least
 * one must. */
#define EACH_WAY(w, p, io)                                                                         \
  for (int w = 0, ran_##w = 0; w < WAYS || (assert_true(ran_##w), 0); w++)                         \
    if (way_run(w, 2, p, io) && ++ran_##w)

/* NaN exactly where the reference has NaN, else within `bound`. */
static inline void way_compare(int way, const char *what, const float *got, const double *want,
                               int64_t count, double bound) {
  for (int64_t i = 0; i < count; i++) {
    double g = (double)got[i], e = want[i];
    if (!(isnan(e) ? isnan(g) : g == e || fabs(g - e) <= bound))
      fail_msg("%s: %s[%lld] is %.9g, reference %.9g", way_name(way), what, (long long)i, g, e);
  }
}

#endif
