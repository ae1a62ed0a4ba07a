// SPDX-License-Identifier: Apache-2.0
#include <stdint.h>
#include <time.h>

#include "api/context.h"
#include "core/status.h"

static void run_on_host(void *user, int workers, void (*body)(void *arg, int index), void *arg) {
  const attn_config *config = user;
  config->parallel_for(config->parallel_for_user, workers, body, arg);
}

static void run_on_pool(void *user, int workers, void (*body)(void *arg, int index), void *arg) {
  threads_run(user, workers, body, arg);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void log_call(const attn_plan *plan, double seconds) {
  char shape[512];
  attn_problem_format(&plan->plan.problem, shape, sizeof(shape));
  context_log(plan->context, ATTN_LOG_CALL, "call implementation=%s time_us=%.3f shape=\"%s\"",
              plan->name, 1e6 * seconds, shape);
}

attn_status attn_execute(const attn_plan *plan, const attn_io *io, void *workspace) {
  if (!plan) return core_fail(ATTN_ERROR_NULL, "plan is NULL");
  if (!io) return core_fail(ATTN_ERROR_NULL, "io is NULL");
  attn_status status = problem_check_io(&plan->plan.problem, io);
  if (status) return status;
  if (plan->plan.workspace && !workspace)
    return core_fail(ATTN_ERROR_NULL, "workspace is NULL, the plan needs %zu bytes",
                     plan->plan.workspace);
  if (plan->empty) return ATTN_OK;
  attn_context *c = plan->context;
  backend_parallel parallel = { run_on_pool, c->pool };
  if (c->config.parallel_for) parallel = (backend_parallel){ run_on_host, &c->config };
  uintptr_t align = KERNEL_ALIGN - 1, at = ((uintptr_t)workspace + align) & ~align;
  bool timed = c->verbose >= 2;
  double start = timed ? now() : 0;
  plan->implementation->execute(&plan->plan, io, workspace ? (void *)at : NULL, &parallel);
  if (timed) log_call(plan, now() - start);
  return ATTN_OK;
}

attn_status attn_sdpa(attn_context *context, const attn_problem *problem, const attn_io *io) {
  if (!context) context = attn_default_context();
  if (!context) return ATTN_ERROR_MEMORY;
  attn_plan *plan;
  attn_status status = attn_plan_create(context, problem, &plan);
  if (status) return status;
  core_allocator *a = &context->allocator;
  size_t bytes = attn_plan_workspace(plan);
  void *workspace = bytes ? a->alloc(a->user, bytes, KERNEL_ALIGN) : NULL;
  if (bytes && !workspace)
    status = core_fail(ATTN_ERROR_MEMORY, "a workspace of %zu bytes could not be allocated", bytes);
  if (!status) status = attn_execute(plan, io, workspace);
  if (workspace) a->free(a->user, workspace);
  attn_plan_destroy(plan);
  return status;
}
