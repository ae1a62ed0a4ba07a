// SPDX-License-Identifier: Apache-2.0
/* What the tests of selection share: contexts on hardware of their choice, and questions to them.
 */
#ifndef TESTS_SELECT_SUPPORT_H
#define TESTS_SELECT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "attn/select.h"

static inline attn_context *context_with(const attn_capability *hardware, attn_config config) {
  attn_context *c = NULL;
  config.capability = hardware;
  config.ignore_environment = config.no_measure = true;
  if (attn_context_create(&config, &c)) fail_msg("%s", attn_last_error());
  return c;
}

static inline attn_capability profile(const char *name) {
  attn_capability c;
  if (attn_profile_find(name, &c)) fail_msg("%s", attn_last_error());
  return c;
}

static inline attn_context *context_on(const char *hardware, attn_config config) {
  attn_capability c = profile(hardware);
  return context_with(&c, config);
}

/* A CPU with everything known, so that its costs do not depend on the machine of the test. */
static inline attn_capability test_cpu(void) {
  return (attn_capability){ .device = ATTN_DEVICE_CPU,
                            .source = ATTN_SOURCE_DETECTED,
                            .name = "test",
                            .compute_units = 4,
                            .bandwidth = 50e9,
                            .peak_f32 = 400e9,
                            .l2_bytes = 1 << 20,
                            .l3_bytes = 16 << 20,
                            .isa = ATTN_ISA_SCALAR };
}

static inline attn_context *context_on_cpu(attn_config config) {
  attn_capability cpu = test_cpu();
  if (!config.threads) config.threads = 4;
  return context_with(&cpu, config);
}

static inline attn_problem problem_of(const char *shape) {
  attn_problem p;
  if (attn_problem_parse(shape, &p)) fail_msg("%s: %s", shape, attn_last_error());
  return p;
}

static inline attn_recommendation choose(attn_context *c, const char *shape) {
  attn_problem p = problem_of(shape);
  attn_recommendation r;
  if (attn_select(c, &p, &r)) fail_msg("%s: %s", shape, attn_last_error());
  return r;
}

static inline attn_recommendation choose_with(const attn_capability *hardware, attn_config config,
                                              const char *shape) {
  attn_context *c = context_with(hardware, config);
  attn_recommendation r = choose(c, shape);
  attn_context_destroy(c);
  return r;
}

static inline attn_recommendation choose_on(const char *hardware, const char *shape) {
  attn_capability c = profile(hardware);
  return choose_with(&c, (attn_config){ 0 }, shape);
}

static inline attn_recommendation choose_on_cpu(attn_config config, const char *shape) {
  attn_context *c = context_on_cpu(config);
  attn_recommendation r = choose(c, shape);
  attn_context_destroy(c);
  return r;
}

static inline const attn_rejection *rejection_of(const attn_recommendation *r, attn_backend b) {
  for (int i = 0; i < r->rejection_count; i++)
    if (r->rejections[i].backend == b) return &r->rejections[i];
  return NULL;
}

/* The reason of that code with which a backend was rejected; NULL if it was not, or not for that.
 */
static inline const attn_reason *rejected_for(const attn_recommendation *r, attn_backend b,
                                              attn_reason_code code) {
  const attn_rejection *x = rejection_of(r, b);
  for (int i = 0; x && i < x->reason_count; i++)
    if (r->reasons[x->first_reason + i].code == code) return &r->reasons[x->first_reason + i];
  return NULL;
}

static inline const attn_alternative *alternative_of(const attn_recommendation *r, attn_backend b) {
  for (int i = 0; i < r->alternative_count; i++)
    if (r->alternatives[i].backend == b) return &r->alternatives[i];
  return NULL;
}

/* What holds for every recommendation. Returns what does not, or NULL. */
static inline const char *inconsistency(const attn_recommendation *r) {
  double last = 1;
  int seen[ATTN_BACKEND_COUNT] = { 0 };
  seen[r->backend]++;
  for (int i = 0; i < r->alternative_count; i++) {
    const attn_alternative *a = &r->alternatives[i];
    if (!strcmp(a->implementation, r->implementation)) return "an alternative is the winner";
    if (!(a->score > 0) || !(a->score <= last)) return "scores are not in (0, 1] and descending";
    if (a->workspace_bytes < 0) return "negative workspace";
    last = a->score;
    seen[a->backend]++;
  }
  for (int i = 0; i < r->rejection_count; i++) {
    if (!strcmp(r->rejections[i].implementation, r->implementation))
      return "the winner is rejected";
    if (r->rejections[i].reason_count < 1) return "a rejection without a reason";
    seen[r->rejections[i].backend]++;
  }
  for (int b = 1; b < ATTN_BACKEND_COUNT; b++)
    if (seen[b] != 1) return "a backend is not there exactly once";
  if (!(r->confidence >= 0) || !(r->confidence <= 1)) return "confidence outside [0, 1]";
  if (!r->reason[0] || !memchr(r->reason, 0, sizeof(r->reason))) return "no reason";
  if (strchr(r->reason, '%') || strstr(r->reason, "nan")) return "a reason with a hole";
  if (r->workspace_bytes < 0 || r->memory_bytes < r->workspace_bytes) return "memory";
  if (!(r->flops >= 0) || !(r->bytes >= 0) || r->splits < 1) return "work";
  return NULL;
}

static inline void check_consistent(const attn_recommendation *r) {
  const char *fault = inconsistency(r);
  if (fault) fail_msg("%s", fault);
}

#endif
