// SPDX-License-Identifier: Apache-2.0
#ifndef API_CONTEXT_H
#define API_CONTEXT_H

#include "attn/attn.h"
#include "attn/hardware.h"
#include "backend/backend.h"
#include "core/alloc.h"
#include "core/threads.h"
#include "kernel/kernel.h"
#include "select/select.h"
#include "wisdom/wisdom.h"

struct attn_context {
  attn_config config; /* effective; capability points to the member below */
  attn_capability capability;
  core_allocator allocator;
  const kernel_table *kernels;
  int threads;
  threads_pool *pool; /* NULL when the host has its own parallel_for */
  select_state *select;
  wisdom *wisdom;    /* NULL: off */
  char *wisdom_path; /* what config.wisdom_path points to; may be NULL */
  int verbose;       /* ATTN_VERBOSE */
};

struct attn_plan {
  attn_context *context;
  const backend_implementation *implementation;
  backend_plan plan;
  attn_backend backend;
  char name[ATTN_IMPLEMENTATION_NAME];
  bool empty; /* no output element: nothing to run */
};

/* Sends a line to the context's sink (to standard error where only ATTN_VERBOSE asks for it). */
void context_log(const attn_context *context, attn_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- wisdom_api.c */

/* Reads the files and hands what they say to the selector. */
attn_status context_wisdom_load(attn_context *context);
/* Saves where the configuration wants it. */
void context_wisdom_close(attn_context *context);
void context_wisdom_record(attn_context *context, const attn_problem *problem,
                           const char *implementation, double seconds);

#endif
