// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"

static void say(const cli_common *c, const char *format, va_list args) {
  fprintf(stderr, "attn %s: ", c->command);
  vfprintf(stderr, format, args);
  fputc('\n', stderr);
}

int cli_usage(const cli_common *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  say(c, format, args);
  va_end(args);
  fprintf(stderr, "Try 'attn %s --help'.\n", c->command);
  return CLI_USAGE;
}

int cli_fail(const cli_common *c, const char *format, ...) {
  char text[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof(text), format, args);
  va_end(args);
  if (c->json) cli_print_json(json_pack("{s:o}", "error", cli_text(text)));
  fprintf(stderr, "attn %s: %s\n", c->command, text);
  return CLI_FAILED;
}

static bool read_int(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long x = strtoll(text, &end, 10);
  if (end == text || *end || errno) return false;
  *out = x;
  return true;
}

/* Bytes with an optional K, M, G, KiB, MiB or GiB. */
static bool read_bytes(const char *text, int64_t *out) {
  static const struct {
    const char *suffix;
    double factor;
  } units[] = { { "", 1 },       { "K", 1e3 },       { "M", 1e6 },         { "G", 1e9 },
                { "KiB", 1024 }, { "MiB", 1048576 }, { "GiB", 1073741824 } };
  char *end;
  double x = strtod(text, &end);
  if (end == text || !(x >= 0)) return false;
  for (size_t i = 0; i < sizeof(units) / sizeof(units[0]); i++)
    if (!strcmp(end, units[i].suffix) && x * units[i].factor < 9e18) {
      *out = (int64_t)(x * units[i].factor);
      return true;
    }
  return false;
}

/* Does `word` name the option ("--query -q"), or is it "--query=value"? */
static bool names(const char *option, const char *word, const char **value) {
  size_t n = strcspn(option, " ");
  if (!strncmp(word, option, n) && (word[n] == 0 || word[n] == '=')) {
    if (word[n] == '=') *value = word + n + 1;
    return true;
  }
  return option[n] && !strcmp(word, option + n + 1);
}

static int set_own(cli_common *c, const cli_option *o, const char *word, const char *value) {
  char *end;
  switch (o->kind) {
  case CLI_FLAG:
    *(bool *)o->target = true;
    return CLI_OK;
  case CLI_TEXT:
    *(const char **)o->target = value;
    return CLI_OK;
  case CLI_INT:
    if (read_int(value, o->target)) return CLI_OK;
    return cli_usage(c, "%s of value \"%s\" is no whole number", word, value);
  case CLI_FLOAT:
    *(double *)o->target = strtod(value, &end);
    if (end != value && !*end) return CLI_OK;
    return cli_usage(c, "%s of value \"%s\" is no number", word, value);
  }
  return CLI_USAGE;
}

static int set_threads(cli_common *c, const char *value) {
  char copy[256], *save = NULL;
  snprintf(copy, sizeof(copy), "%s", value);
  c->thread_count = 0;
  for (char *w = strtok_r(copy, ",", &save); w; w = strtok_r(NULL, ",", &save)) {
    int64_t n;
    if (!read_int(w, &n) || n < 0 || n > 4096 || c->thread_count == 16)
      return cli_usage(c, "--threads of value \"%s\" is not N or N,N,... with N in [0, 4096]",
                       value);
    c->threads[c->thread_count++] = n;
  }
  if (!c->thread_count) return cli_usage(c, "--threads needs a value");
  c->config.threads = (int)c->threads[0];
  return CLI_OK;
}

static int set_hardware(cli_common *c, const char *value) {
  size_t n = strlen(value);
  bool path = strchr(value, '/') || (n > 8 && !strcmp(value + n - 8, ".profile"));
  attn_status status =
      path ? attn_capability_read(value, &c->hardware) : attn_profile_find(value, &c->hardware);
  if (status) return cli_usage(c, "--hw: %s", attn_last_error());
  c->config.capability = &c->hardware;
  return CLI_OK;
}

static int set_objective(cli_common *c, const char *value) {
  static const char *const names_of[] = { "latency", "throughput", "balanced" };
  for (int i = 0; i < 3; i++)
    if (!strcmp(value, names_of[i])) {
      c->config.objective = (attn_objective)i;
      return CLI_OK;
    }
  return cli_usage(c, "--objective of value \"%s\" is not latency, throughput or balanced", value);
}

static int set_backend(cli_common *c, const char *value, bool disable) {
  attn_backend b;
  if (!disable && !strcmp(value, "all")) {
    c->backend_all = true;
    return CLI_OK;
  }
  if (attn_backend_from_name(value, &b))
    return cli_usage(c, "%s: %s", disable ? "--disable" : "--backend", attn_last_error());
  if (disable && b == ATTN_BACKEND_AUTO) return cli_usage(c, "--disable: auto is no backend");
  if (disable)
    c->config.disabled |= 1u << b;
  else
    c->config.preferred = b;
  return CLI_OK;
}

static int set_isa(cli_common *c, const char *value) {
  if (!strcmp(value, "all")) {
    c->isa_all = true;
    return CLI_OK;
  }
  if (attn_isa_from_name(value, &c->config.isa))
    return cli_usage(c, "--isa: %s", attn_last_error());
  return CLI_OK;
}

static const char *const flags[] = { "--json", "--help -h", "--strict", "--deterministic",
                                     "--debug" };
static const char *const valued[] = { "--threads", "--hw",  "--objective",     "--backend",
                                      "--disable", "--isa", "--memory-budget", "--flash-min-seq" };
enum { FLAGS = sizeof(flags) / sizeof(flags[0]), VALUED = sizeof(valued) / sizeof(valued[0]) };

const char *cli_common_option(int index) {
  if (index < 0 || index >= FLAGS + VALUED) return NULL;
  return index < FLAGS ? flags[index] : valued[index - FLAGS];
}

/* Options that every subcommand takes. *used: words consumed, 0 if it is none of them. */
static int set_common(cli_common *c, const char *word, const char *next, int *used) {
  bool *targets[] = { &c->json, &c->help, &c->config.strict, &c->config.deterministic,
                      &c->config.debug };
  const char *value = NULL;
  *used = 0;
  for (int i = 0; i < FLAGS; i++)
    if (names(flags[i], word, &value)) {
      *used = 1;
      *targets[i] = true;
      return value ? cli_usage(c, "%s takes no value", word) : CLI_OK;
    }
  for (int i = 0; i < VALUED; i++) {
    if (!names(valued[i], word, &value)) continue;
    *used = value ? 1 : 2;
    if (!value) value = next;
    if (!value) return cli_usage(c, "%s needs a value", word);
    switch (i) {
    case 0:
      return set_threads(c, value);
    case 1:
      return set_hardware(c, value);
    case 2:
      return set_objective(c, value);
    case 3:
      return set_backend(c, value, false);
    case 4:
      return set_backend(c, value, true);
    case 5:
      return set_isa(c, value);
    case 6:
      if (read_bytes(value, &c->config.memory_budget)) return CLI_OK;
      return cli_usage(c, "--memory-budget of value \"%s\" is no number of bytes", value);
    default:
      if (read_int(value, &c->config.flash_min_seq_len) && c->config.flash_min_seq_len >= 0)
        return CLI_OK;
      return cli_usage(c, "--flash-min-seq of value \"%s\" is no whole number >= 0", value);
    }
  }
  return CLI_OK;
}

static int set_option(cli_common *c, const cli_option *options, const char *word, const char *next,
                      int *used) {
  const char *value = NULL;
  *used = 0;
  for (const cli_option *o = options; o && o->name; o++) {
    if (!names(o->name, word, &value)) continue;
    *used = value || o->kind == CLI_FLAG ? 1 : 2;
    if (value && o->kind == CLI_FLAG) return cli_usage(c, "%s takes no value", word);
    if (!value && o->kind != CLI_FLAG && !(value = next))
      return cli_usage(c, "%s needs a value", word);
    return set_own(c, o, word, value);
  }
  return CLI_OK;
}

/* One word (and its value) of SHAPE, kept as text. */
static int set_shape(cli_common *c, const char *word, const char *next, int *used) {
  attn_problem scratch = { 0 };
  if (attn_problem_option(&scratch, word, next, used)) return cli_usage(c, "%s", attn_last_error());
  size_t at = strlen(c->shape);
  for (int i = 0; i < *used; i++) {
    int n = snprintf(c->shape + at, sizeof(c->shape) - at, "%s%s", at ? " " : "", i ? next : word);
    at += (size_t)n;
    if (at >= sizeof(c->shape))
      return cli_usage(c, "SHAPE is longer than %zu characters", sizeof(c->shape));
  }
  return CLI_OK;
}

int cli_parse(cli_common *c, int argc, char **argv, const cli_option *options) {
  c->command = argv[0];
  for (int i = 1; i < argc;) {
    const char *word = argv[i], *next = i + 1 < argc ? argv[i + 1] : NULL;
    int used = 0, status;
    if (word[0] == '-' && word[1] && !strchr(word, ' ')) { // with a space it is a whole SHAPE
      status = set_option(c, options, word, next, &used);
      if (!status && !used) status = set_common(c, word, next, &used);
      if (!status && !used) status = set_shape(c, word, next, &used);
      if (status) return status;
      if (!used) return cli_unknown_option(c, word, options);
    } else {
      if (c->shape_count == (int)(sizeof(c->shapes) / sizeof(c->shapes[0])))
        return cli_usage(c, "more than %d shapes", c->shape_count);
      c->shapes[c->shape_count++] = word;
      used = 1;
    }
    i += used;
  }
  return CLI_OK;
}

int cli_problem(const cli_common *c, const char *shape, attn_problem *problem) {
  if (attn_problem_parse(shape, problem)) return cli_usage(c, "%s", attn_last_error());
  if (attn_problem_validate(problem)) return cli_usage(c, "%s", attn_last_error());
  return CLI_OK;
}

int cli_single(const cli_common *c) {
  if (c->backend_all || c->isa_all)
    return cli_usage(c, "--backend all and --isa all are for bench");
  if (c->thread_count > 1)
    return cli_usage(c, "--threads takes one number here; several are for bench");
  return CLI_OK;
}

attn_context *cli_context(const cli_common *c) {
  attn_context *context;
  if (!attn_context_create(&c->config, &context)) return context;
  cli_fail(c, "%s", attn_last_error());
  return NULL;
}
