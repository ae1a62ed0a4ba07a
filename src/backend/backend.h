// SPDX-License-Identifier: Apache-2.0
/*
 * What a backend is to the rest of the library. A backend folder exports one backend_family; the
 * registry lists the families. Selection sees backends only through this header.
 */
#ifndef BACKEND_BACKEND_H
#define BACKEND_BACKEND_H

#include "attn/attn.h"
#include "attn/hardware.h"
#include "attn/select.h"
#include "core/problem.h"

struct kernel_table;
struct engine_rates;

/* What selection asks about. */
typedef struct backend_query {
  const attn_problem *problem; /* resolved */
  const attn_problem_size *size;
  const attn_capability *capability;
  const attn_config *config;   /* effective */
  const struct kernel_table *kernels; /* CPU: the table in use (the best there is, for a profile) */
  int threads;                 /* most threads a call may use */
  const struct engine_rates *rates;   /* CPU: what elementary operations take here; NULL: defaults */
} backend_query;

enum { BACKEND_MAX_REASONS = 32 };
typedef struct backend_reasons {
  int count;
  attn_reason items[BACKEND_MAX_REASONS];
} backend_reasons;

/* Adds a reason; beyond the capacity it is dropped (no table has so many rows that can hold at once). */
void backend_reject(backend_reasons *reasons, attn_reason_code code, double value, double limit);

/* What an implementation will do, before it is priced. */
typedef struct backend_cost {
  double flops;       /* done, padding of tiles counted */
  double bytes;       /* moved to and from memory while the arithmetic runs */
  double pass_bytes;  /* moved by passes before, between or after it: their time is added */
  double bandwidth_efficiency; /* share of the bandwidth that it reaches; 0: all of it */
  double efficiency;  /* share of the peak that the inner loop reaches; (0, 1] */
  attn_dtype compute; /* whose peak counts: ATTN_F32, F16, BF16, F8E4M3 */
  int launches;       /* of GPU kernels; 0 on the CPU */
  double work_seconds; /* CPU: of one core doing all of it, in place of flops, peak and efficiency */
  double overhead;    /* other seconds: forks, calls, set-up */
  double items;       /* equal work items that can run side by side */
  double item_seconds; /* of each item beside its arithmetic: first loads, last stores */
  int64_t workspace_bytes; /* exactly what a plan would ask for (CPU); predicted (GPU) */
  int splits;
} backend_cost;

/* A prepared call. `schedule` is the backend's own. */
typedef struct backend_plan {
  attn_problem problem; /* resolved */
  const struct kernel_table *kernels;
  int threads;     /* workers a call uses at most */
  size_t workspace; /* bytes, slack for alignment included */
  int64_t schedule[24];
} backend_plan;

/* Runs body(arg, i) for i in [0, workers); see threads_run. */
typedef struct backend_parallel {
  void (*run)(void *user, int workers, void (*body)(void *arg, int index), void *arg);
  void *user;
} backend_parallel;

typedef struct backend_implementation {
  attn_device_type device;
  const char *name; /* "flash/cuda"; the CPU's gets the ISA appended: "flash/cpu" -> "flash/cpu/avx2" */
  bool deterministic;
  /* All reasons, from the backend's table of constraints. */
  void (*supports)(const backend_query *query, backend_reasons *reasons);
  void (*estimate)(const backend_query *query, backend_cost *cost);
  /* NULL for implementations that a device plug-in runs. `plan` cannot fail for a supported query. */
  void (*plan)(const backend_query *query, backend_plan *plan);
  /* io has passed problem_check_io; workspace is 64-byte aligned or NULL when none is needed. */
  void (*execute)(const backend_plan *plan, const attn_io *io, void *workspace,
                  const backend_parallel *parallel);
} backend_implementation;

typedef struct backend_family {
  attn_backend backend;
  int count;
  const backend_implementation *const *implementations;
} backend_family;

/* Families in the order of attn_backend. */
const backend_family *const *backend_registry(int *count);

/* One row of a table of constraints. Returns true when the row is violated, with value and limit. */
typedef struct backend_constraint {
  attn_reason_code code;
  bool (*violated)(const backend_query *query, double *value, double *limit);
} backend_constraint;
void backend_check(const backend_constraint *rows, int count, const backend_query *query,
                   backend_reasons *reasons);

#endif
