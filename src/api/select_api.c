// SPDX-License-Identifier: Apache-2.0
#include "api/context.h"
#include "core/status.h"

attn_status attn_select(attn_context *context, const attn_problem *problem,
                        attn_recommendation *recommendation) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  if (!problem) return core_fail(ATTN_ERROR_NULL, "problem is NULL");
  if (!recommendation) return core_fail(ATTN_ERROR_NULL, "recommendation is NULL");
  bool fresh;
  attn_status status = select_run(context->select, problem, recommendation, &fresh);
  if (!status && fresh && (context->verbose >= 1 || context->config.log)) {
    char shape[512];
    attn_problem_format(problem, shape, sizeof(shape));
    context_log(context, ATTN_LOG_CHOICE,
                "choice implementation=%s source=%s reason=\"%s\" shape=\"%s\"",
                recommendation->implementation, attn_choice_source_name(recommendation->source),
                recommendation->reason, shape);
  }
  return status;
}

attn_status attn_select_tensors(attn_context *context, const attn_tensor *q, const attn_tensor *k,
                                const attn_tensor *v, attn_causal causal,
                                attn_recommendation *recommendation) {
  attn_problem problem = { .causal = causal };
  attn_status status = attn_problem_from_tensors(q, k, v, &problem);
  return status ? status : attn_select(context, &problem, recommendation);
}

attn_status attn_select_simple(attn_context *context, int64_t seq_len, int64_t head_dim,
                               int64_t batch, attn_recommendation *recommendation) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  const attn_capability *c = &context->capability;
  bool half = c->device != ATTN_DEVICE_CPU && c->f16 == ATTN_YES;
  attn_problem problem = { .batch = batch,
                           .heads_q = 1,
                           .seq_q = seq_len,
                           .seq_kv = seq_len,
                           .head_dim = head_dim,
                           .dtype = half ? ATTN_F16 : ATTN_F32 };
  return attn_select(context, &problem, recommendation);
}

attn_status attn_record(attn_context *context, const attn_problem *problem,
                        const char *implementation, double seconds) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  attn_status status = select_record(context->select, problem, implementation, seconds);
  if (!status) context_wisdom_record(context, problem, implementation, seconds);
  return status;
}

int attn_record_count(const attn_context *context) {
  return context ? select_record_count(context->select) : 0;
}

void attn_record_clear(attn_context *context) {
  if (!context) return;
  select_record_clear(context->select);
  if (context->wisdom) wisdom_clear_times(context->wisdom);
}

void attn_cache_clear(attn_context *context) {
  if (context) select_cache_clear(context->select);
}

attn_cache_stats attn_cache_statistics(const attn_context *context) {
  return context ? select_cache_stats(context->select) : (attn_cache_stats){ 0 };
}
