// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>

#include "api/context.h"
#include "core/status.h"

static bool is_empty(const attn_problem *p) {
  return p->batch == 0 || p->heads_q == 0 || (p->varlen ? p->total_q : p->seq_q) == 0;
}

static attn_status prepare(attn_context *context, const attn_recommendation *rec,
                           const attn_problem *resolved, attn_plan *plan) {
  const backend_implementation *implementation = select_find(context->select, rec);
  if (rec->predicted || !implementation || !implementation->plan)
    return core_fail(ATTN_ERROR_UNSUPPORTED,
                     "%s is predicted for hardware that is not here: it can be selected, not planned",
                     rec->implementation);
  attn_problem_size size;
  attn_status status = attn_problem_measure(resolved, &size);
  if (status) return status;
  *plan = (attn_plan){ .context = context,
                       .implementation = implementation,
                       .backend = rec->backend,
                       .empty = is_empty(resolved) };
  memcpy(plan->name, rec->implementation, sizeof(plan->name));
  backend_query query = { .problem = resolved,
                          .size = &size,
                          .capability = &context->capability,
                          .config = &context->config,
                          .kernels = context->kernels,
                          .threads = context->threads };
  implementation->plan(&query, &plan->plan);
  if (plan->empty) plan->plan.workspace = 0;
  return ATTN_OK;
}

static attn_status create(attn_context *context, const attn_problem *problem,
                          const char *implementation, attn_plan **plan) {
  attn_problem resolved;
  attn_recommendation rec;
  attn_status status = attn_problem_resolve(problem, &resolved);
  if (!status && implementation)
    status = select_run_named(context->select, &resolved, implementation, &rec);
  else if (!status) status = attn_select(context, &resolved, &rec);
  if (status) return status;
  core_allocator *a = &context->allocator;
  attn_plan *made = a->alloc(a->user, sizeof(*made), _Alignof(attn_plan));
  if (!made) return core_fail(ATTN_ERROR_MEMORY, "a plan of %zu bytes could not be allocated", sizeof(*made));
  status = prepare(context, &rec, &resolved, made);
  if (status) a->free(a->user, made);
  else *plan = made;
  return status;
}

attn_status attn_plan_create(attn_context *context, const attn_problem *problem, attn_plan **plan) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  if (!problem) return core_fail(ATTN_ERROR_NULL, "problem is NULL");
  if (!plan) return core_fail(ATTN_ERROR_NULL, "plan is NULL");
  return create(context, problem, NULL, plan);
}

attn_status attn_plan_create_for(attn_context *context, const attn_problem *problem,
                                 const char *implementation, attn_plan **plan) {
  if (!context) return core_fail(ATTN_ERROR_NULL, "context is NULL");
  if (!problem) return core_fail(ATTN_ERROR_NULL, "problem is NULL");
  if (!implementation) return core_fail(ATTN_ERROR_NULL, "implementation is NULL");
  if (!plan) return core_fail(ATTN_ERROR_NULL, "plan is NULL");
  return create(context, problem, implementation, plan);
}

void attn_plan_destroy(attn_plan *plan) {
  if (plan) plan->context->allocator.free(plan->context->allocator.user, plan);
}

size_t attn_plan_workspace(const attn_plan *plan) { return plan ? plan->plan.workspace : 0; }

attn_backend attn_plan_backend(const attn_plan *plan) {
  return plan ? plan->backend : ATTN_BACKEND_AUTO;
}

const char *attn_plan_implementation(const attn_plan *plan) { return plan ? plan->name : NULL; }

const attn_problem *attn_plan_problem(const attn_plan *plan) {
  return plan ? &plan->plan.problem : NULL;
}
