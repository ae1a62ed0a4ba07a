// SPDX-License-Identifier: Apache-2.0
#include <signal.h>
#include <string.h>

#include "cli.h"

static const struct {
  const char *name;
  int (*run)(int argc, char **argv);
  const char *summary;
} commands[] = {
  { "info", cmd_info, "what hardware there is, which kernels it runs" },
  { "select", cmd_select, "which backend for a problem, and why not the others" },
  { "run", cmd_run, "attention on NumPy and safetensors files" },
  { "bench", cmd_bench, "measured speed of every implementation, and the machine's limits" },
  { "verify", cmd_verify, "error of every implementation against the float64 reference" },
  { "regret", cmd_regret, "how good the selector's choices are, on random problems" },
};
enum { COMMANDS = sizeof(commands) / sizeof(commands[0]) };

static int help(FILE *out) {
  fprintf(out, "attn %s: choose, explain and run scaled dot-product attention\n\n", attn_version());
  fprintf(out, "usage: attn COMMAND [OPTIONS]\n\n");
  for (int i = 0; i < COMMANDS; i++)
    fprintf(out, "  %-8s %s\n", commands[i].name, commands[i].summary);
  fprintf(
      out,
      "\n'attn COMMAND --help' describes a command. Each takes --json.\n\n"
      "  attn info\n"
      "  attn select --heads 32:8 --seq 1:8192 --dim 128 --dtype bf16 --causal br --hw h100-sxm\n"
      "  attn bench --heads 16 --seq 2048 --dim 128 --backend all\n\n"
      "Exit status: 0 ok, 1 failed, 2 bad usage. Environment: ATTN_BACKEND, ATTN_ISA,\n"
      "ATTN_NUM_THREADS, ATTN_VERBOSE (0 to 2).\n");
  return out == stdout ? cli_finish(CLI_OK) : CLI_USAGE;
}

static int find(const char *name) {
  for (int i = 0; i < COMMANDS; i++)
    if (!strcmp(name, commands[i].name)) return i;
  return -1;
}

int main(int argc, char **argv) {
  signal(SIGPIPE, SIG_IGN); // a closed pipe is a write error, which is reported
  if (argc < 2) return help(stderr);
  const char *word = argv[1];
  if (!strcmp(word, "--help") || !strcmp(word, "-h")) return help(stdout);
  if (!strcmp(word, "--version")) {
    printf("attn %s\n", attn_version());
    return cli_finish(CLI_OK);
  }
  if (!strcmp(word, "help")) {
    int c = argc > 2 ? find(argv[2]) : -1;
    char flag[] = "--help", *args[] = { argc > 2 ? argv[2] : NULL, flag, NULL };
    if (argc == 2) return help(stdout);
    if (c >= 0) return commands[c].run(2, args);
    word = argv[2];
  }
  int c = find(word);
  if (c >= 0) return commands[c].run(argc - 1, argv + 1);
  fprintf(stderr, "attn: no command \"%s\"; there are", word);
  for (int i = 0; i < COMMANDS; i++) fprintf(stderr, "%s %s", i ? "," : "", commands[i].name);
  fprintf(stderr, "\n");
  return CLI_USAGE;
}
