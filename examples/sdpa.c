// SPDX-License-Identifier: Apache-2.0
/* Attention in one call, and the same with a plan that is made once and executed often. */
#include <attn/attn.h>
#include <attn/select.h>

#include <stdio.h>
#include <stdlib.h>

static int failed(const char *what) {
  fprintf(stderr, "%s: %s\n", what, attn_last_error());
  return 1;
}

int main(void) {
  // 8 query heads share 2 key heads; 5 new queries see a cache of 64 keys, the last 5 being theirs.
  attn_problem problem = { .batch = 1,
                           .heads_q = 8,
                           .heads_kv = 2,
                           .seq_q = 5,
                           .seq_kv = 64,
                           .head_dim = 32,
                           .causal = ATTN_CAUSAL_BOTTOM_RIGHT };
  size_t q_count = 8 * 5 * 32, kv_count = 2 * 64 * 32;
  float *q = malloc(q_count * sizeof(float)), *k = malloc(kv_count * sizeof(float));
  float *v = malloc(kv_count * sizeof(float)), *out = malloc(q_count * sizeof(float));
  if (!q || !k || !v || !out) return 1;
  for (size_t i = 0; i < q_count; i++) q[i] = (float)(i % 17) / 17 - 0.5f;
  for (size_t i = 0; i < kv_count; i++) k[i] = (float)(i % 13) / 13 - 0.5f, v[i] = (float)(i % 7);
  attn_io io = { .q = q, .k = k, .v = v, .out = out };

  if (attn_sdpa(NULL, &problem, &io)) return failed("attn_sdpa");
  printf("out[0..3] = %.6f %.6f %.6f %.6f\n", (double)out[0], (double)out[1], (double)out[2],
         (double)out[3]);

  attn_context *context;
  attn_plan *plan;
  if (attn_context_create(NULL, &context)) return failed("attn_context_create");
  attn_recommendation choice;
  if (attn_select(context, &problem, &choice)) return failed("attn_select");
  printf("%s: %s\n", choice.implementation, choice.reason);
  if (attn_plan_create(context, &problem, &plan)) return failed("attn_plan_create");
  void *workspace = malloc(attn_plan_workspace(plan) + 1);
  for (int step = 0; step < 3; step++)
    if (attn_execute(plan, &io, workspace)) return failed("attn_execute");
  printf("%s, %zu bytes of workspace\n", attn_plan_implementation(plan), attn_plan_workspace(plan));

  free(workspace);
  attn_plan_destroy(plan);
  attn_context_destroy(context);
  free(q), free(k), free(v), free(out);
  return 0;
}
