// SPDX-License-Identifier: Apache-2.0
/* What the subcommands of `attn` share. They see include/attn/ alone. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "attn/attn.h"
#include "attn/hardware.h"
#include "attn/select.h"

enum { CLI_OK = 0, CLI_FAILED = 1, CLI_USAGE = 2, CLI_WIDTH = 100 };

/* A subcommand; argv[0] is its name. Returns an exit status. */
int cmd_info(int argc, char **argv);
int cmd_select(int argc, char **argv);
int cmd_run(int argc, char **argv);
int cmd_bench(int argc, char **argv);
int cmd_verify(int argc, char **argv);
int cmd_regret(int argc, char **argv);

/* ---- options.c */

/* An option of one subcommand beside those that all have. */
typedef enum cli_kind { CLI_FLAG, CLI_TEXT, CLI_INT, CLI_FLOAT } cli_kind;
typedef struct cli_option {
  const char *name; /* "--repeat"; a short form may follow after a space: "--query -q" */
  cli_kind kind;
  void *target; /* bool *, const char **, int64_t *, double * */
} cli_option;

typedef struct cli_common {
  const char *command;
  bool json, help, backend_all, isa_all;
  attn_config config;
  attn_capability hardware; /* of --hw; config.capability points here then */
  int64_t threads[16];      /* of --threads; the first is in config */
  int thread_count;
  char shape[4096];        /* SHAPE options, as one text */
  const char *shapes[256]; /* SHAPE texts given as one argument each */
  int shape_count;
} cli_common;

/* Reads a command line. `options` ends with a NULL name. CLI_OK, or CLI_USAGE after saying why. */
int cli_parse(cli_common *c, int argc, char **argv, const cli_option *options);
/* Says what is wrong with the command line and returns CLI_USAGE. */
int cli_usage(const cli_common *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says what failed (with --json as an object on standard output too) and returns CLI_FAILED. */
int cli_fail(const cli_common *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Says that `word` is no option, and which one it may have been meant for. CLI_USAGE. */
int cli_unknown_option(const cli_common *c, const char *word, const cli_option *options);
/* The options of every subcommand and those of SHAPE, with short forms; NULL after the last. */
const char *cli_common_option(int index);
const char *cli_shape_option(int index);
/* The problem that the SHAPE words make; CLI_USAGE after saying why not. */
int cli_problem(const cli_common *c, const char *shape, attn_problem *problem);
/* CLI_USAGE after saying so, where an option asks for several runs, which bench alone does. */
int cli_single(const cli_common *c);
/* A context with the common options; NULL after saying why not. */
attn_context *cli_context(const cli_common *c);

/* ---- output.c */

/* Numbers for people: "1.23 ms", "12.0 MiB"; for NAN "unknown". Each returns `buffer`. */
enum { CLI_NUMBER = 32 };
const char *cli_time(double seconds, char buffer[CLI_NUMBER]);
const char *cli_bytes(double bytes, char buffer[CLI_NUMBER]);
const char *cli_ratio(double x, char buffer[CLI_NUMBER]);

/* Prints text indented and wrapped to CLI_WIDTH columns, the first line after `label`. */
void cli_wrap(const char *label, const char *text);

/* A table whose columns are as wide as they need; the last is cut where it would pass CLI_WIDTH. */
enum { CLI_COLUMNS = 10 };
typedef struct cli_table {
  int columns, rows, capacity;
  char **cells;
} cli_table;
/* Cells separated by tabs; the first row is the heading. */
void cli_row(cli_table *t, const char *format, ...) __attribute__((format(printf, 2, 3)));
void cli_table_print(cli_table *t); /* and frees it */

/* null for NAN and infinities, which JSON does not have. */
json_t *cli_real(double x);
json_t *cli_real_or_null(double x, bool known);
/* "3 of 8" on standard error where that is a terminal; a total of 0 wipes it away. */
void cli_progress(int done, int total);

/* A string; bytes that are no UTF-8, as file names may hold, become '?'. */
json_t *cli_text(const char *text);
/* Prints the object and takes it. Returns CLI_OK, or CLI_FAILED if standard output failed. */
int cli_print_json(json_t *object);
/* Flushes standard output; CLI_FAILED if anything could not be written. */
int cli_finish(int status);

/* The human text and the JSON object of a recommendation, shared by select and run. */
void cli_print_recommendation(const attn_recommendation *r);
json_t *cli_recommendation_json(const attn_recommendation *r);
/* Every reason of a rejection, with "; " between. */
void cli_rejection_text(const attn_recommendation *r, const attn_rejection *x, char *buffer,
                        size_t size);
/* Devices as `attn info` shows them. */
void cli_print_device(const attn_capability *c);
json_t *cli_device_json(const attn_capability *c);

/* ---- timing.c */

double cli_now(void);
double cli_median(double *values, int count); /* sorts */

#endif
