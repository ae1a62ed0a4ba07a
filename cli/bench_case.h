// SPDX-License-Identifier: Apache-2.0
/* Measuring one problem with several implementations. */
#ifndef CLI_BENCH_CASE_H
#define CLI_BENCH_CASE_H

#include "cli.h"

typedef struct bench_share {
  double gflops, gbps; /* FLOPs of the problem; bytes of K and V */
  double share;      /* of the limit that binds: the larger of the two least times over the time */
  const char *limit; /* "fma", "bf16" or "read"; NULL when limits were not measured */
} bench_share;

typedef struct bench_result {
  char implementation[ATTN_IMPLEMENTATION_NAME];
  char shape[1024];
  int threads;
  double time;
  size_t workspace;
  bench_share share;
} bench_result;

typedef struct bench_list {
  attn_problem *problems;
  bench_result *results;
  char **skipped; /* "implementation: reasons" */
  int count, result_count, skipped_count;
} bench_list;

/* Inputs and outputs for a resolved problem, of normal numbers; sequences of varlen have different
 * lengths. NULL when they would take more than `most_bytes`, or memory is short. */
typedef struct bench_data bench_data;
bench_data *bench_data_make(const attn_problem *resolved, int64_t most_bytes);
const attn_io *bench_data_io(const bench_data *data);
void bench_data_free(bench_data *data);

bool bench_add(bench_list *list, const attn_problem *problem);
/* Adds results for the backends and ISA levels that the options ask for. */
int bench_problem(const cli_common *c, bench_list *list, const attn_problem *problem, int threads,
                  int repeat, double min_time, const attn_limits *limits);
/* Bars as SVG; without a list it only finds out whether the file can be made. */
int bench_plot(const cli_common *c, const char *path, const bench_list *list);
void bench_free(bench_list *list);

#endif
