// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"

const char *cli_time(double s, char buffer[CLI_NUMBER]) {
  if (!isfinite(s))
    snprintf(buffer, CLI_NUMBER, "unknown");
  else if (s < 1e-3)
    snprintf(buffer, CLI_NUMBER, "%.3g us", 1e6 * s);
  else if (s < 1)
    snprintf(buffer, CLI_NUMBER, "%.4g ms", 1e3 * s);
  else
    snprintf(buffer, CLI_NUMBER, "%.4g s", s);
  return buffer;
}

const char *cli_bytes(double bytes, char buffer[CLI_NUMBER]) {
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
  int u = 0;
  for (; bytes >= 1024 && u < 5; u++) bytes /= 1024;
  snprintf(buffer, CLI_NUMBER, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
  return buffer;
}

const char *cli_ratio(double x, char buffer[CLI_NUMBER]) {
  snprintf(buffer, CLI_NUMBER, isfinite(x) ? "%.3g" : "unknown", x);
  return buffer;
}

void cli_wrap(const char *label, const char *text) {
  int indent = (int)strlen(label), at = printf("%s", label);
  while (*text) {
    size_t n = strcspn(text, " ");
    if (at > indent && at + (int)n + 1 > CLI_WIDTH)
      at = printf("\n%*s", indent, "") - 1;
    else if (at > indent)
      at += printf(" ");
    at += printf("%.*s", (int)n, text);
    text += n;
    text += strspn(text, " ");
  }
  putchar('\n');
}

void cli_row(cli_table *t, const char *format, ...) {
  char line[1024];
  va_list args;
  va_start(args, format);
  vsnprintf(line, sizeof(line), format, args);
  va_end(args);
  if (t->rows == t->capacity) {
    t->capacity = t->capacity ? 2 * t->capacity : 16;
    t->cells = realloc(t->cells, (size_t)t->capacity * sizeof(*t->cells));
    if (!t->cells) abort();
  }
  t->cells[t->rows] = strdup(line);
  if (!t->cells[t->rows]) abort();
  t->rows++;
}

/* The c-th cell of a row and its length. */
static const char *cell(const char *row, int c, int *length) {
  while (c-- > 0 && *row) {
    row += strcspn(row, "\t");
    if (*row) row++;
  }
  *length = (int)strcspn(row, "\t");
  return row;
}

void cli_table_print(cli_table *t) {
  int widths[CLI_COLUMNS] = { 0 }, n;
  for (int r = 0; r < t->rows; r++)
    for (int c = 0; c < CLI_COLUMNS; c++) {
      cell(t->cells[r], c, &n);
      if (n > widths[c]) widths[c] = n;
      if (n && c >= t->columns) t->columns = c + 1;
    }
  for (int r = 0; r < t->rows; r++) {
    int at = 0;
    for (int c = 0; c < t->columns; c++) {
      const char *text = cell(t->cells[r], c, &n);
      int room = CLI_WIDTH - at - 2;
      if (n > room) n = room > 0 ? room : 0;
      bool last = c == t->columns - 1;
      at += printf("  %-*.*s", last ? 0 : widths[c], n, text);
    }
    putchar('\n');
    free(t->cells[r]);
  }
  free(t->cells);
  *t = (cli_table){ 0 };
}

json_t *cli_real(double x) { return isfinite(x) ? json_real(x) : json_null(); }
json_t *cli_real_or_null(double x, bool known) { return known ? cli_real(x) : json_null(); }

void cli_progress(int done, int total) {
  if (!isatty(STDERR_FILENO)) return;
  if (total > 1)
    fprintf(stderr, "\r%d of %d", done + 1, total);
  else
    fputs("\r                        \r", stderr);
}

json_t *cli_text(const char *text) {
  json_t *value = json_string(text);
  if (value) return value;
  char copy[2048];
  snprintf(copy, sizeof(copy), "%s", text);
  for (char *p = copy; *p; p++)
    if (*p & 0x80) *p = '?';
  return json_string(copy);
}

int cli_finish(int status) {
  if (fflush(stdout) || ferror(stdout)) {
    fprintf(stderr, "attn: standard output could not be written\n");
    return CLI_FAILED;
  }
  return status;
}

int cli_print_json(json_t *object) {
  if (!object) return fprintf(stderr, "attn: the JSON could not be made\n"), CLI_FAILED;
  json_dumpf(object, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(12));
  putchar('\n');
  json_decref(object);
  return cli_finish(CLI_OK);
}

void cli_rejection_text(const attn_recommendation *r, const attn_rejection *x, char *buffer,
                        size_t size) {
  size_t at = 0;
  if (size) buffer[0] = 0;
  for (int i = 0; i < x->reason_count && at < size; i++) {
    char reason[200];
    attn_reason_text(&r->reasons[x->first_reason + i], reason, sizeof(reason));
    at += (size_t)snprintf(buffer + at, size - at, "%s%s", i ? "; " : "", reason);
  }
}

static void print_rejections(const attn_recommendation *r) {
  char absent[512] = "", label[64], text[2048];
  for (int i = 0; i < r->rejection_count; i++) {
    const attn_rejection *x = &r->rejections[i];
    const attn_reason *reasons = &r->reasons[x->first_reason];
    if (x->reason_count == 1 && reasons[0].code == ATTN_REASON_DEVICE_ABSENT) {
      size_t at = strlen(absent);
      snprintf(absent + at, sizeof(absent) - at, "%s%s", at ? ", " : "",
               attn_backend_name(x->backend));
      continue;
    }
    cli_rejection_text(r, x, text, sizeof(text));
    snprintf(label, sizeof(label), "  %-28s ", x->implementation);
    cli_wrap(label, text);
  }
  snprintf(label, sizeof(label), "  %-28s ", "not on this device type");
  if (absent[0]) cli_wrap(label, absent);
}

void cli_print_recommendation(const attn_recommendation *r) {
  char a[CLI_NUMBER], b[CLI_NUMBER], s[CLI_NUMBER], text[512];
  if (r->backend) {
    printf("%s  (%s on %s%s)\n", r->implementation, attn_backend_display_name(r->backend),
           attn_device_type_name(r->device), r->predicted ? ", predicted" : "");
    cli_wrap("  why         ", r->reason);
    snprintf(text, sizeof(text), "%s, source %s, confidence %.2f", cli_time(r->time, a),
             attn_choice_source_name(r->source), r->confidence);
    cli_wrap("  expected    ", text);
    if (isfinite(r->speedup)) printf("  speed-up    %.3g x over math\n", r->speedup);
    printf("  memory      %s in all, %s of it workspace\n", cli_bytes((double)r->memory_bytes, a),
           cli_bytes((double)r->workspace_bytes, b));
    printf("\nranking\n");
    cli_table t = { 0 };
    cli_row(&t, "implementation\tscore\ttime\tspeed-up\tworkspace\tsource");
    double math = r->speedup * r->time;
    cli_row(&t, "%s\t%s\t%s\t%s\t%s\t%s", r->implementation, "chosen", cli_time(r->time, a),
            cli_ratio(r->speedup, s), cli_bytes((double)r->workspace_bytes, b),
            attn_choice_source_name(r->source));
    for (int i = 0; i < r->alternative_count; i++) {
      const attn_alternative *x = &r->alternatives[i];
      cli_row(&t, "%s\t%.3f\t%s\t%s\t%s\t%s", x->implementation, x->score, cli_time(x->time, a),
              cli_ratio(math / x->time, s), cli_bytes((double)x->workspace_bytes, b),
              attn_choice_source_name(x->source));
    }
    cli_table_print(&t);
  }
  if (r->rejection_count) printf("\nrejected\n");
  print_rejections(r);
}

static json_t *rejections_json(const attn_recommendation *r) {
  json_t *list = json_array();
  for (int i = 0; i < r->rejection_count; i++) {
    const attn_rejection *x = &r->rejections[i];
    json_t *reasons = json_array();
    for (int j = 0; j < x->reason_count; j++) {
      const attn_reason *reason = &r->reasons[x->first_reason + j];
      char text[200];
      attn_reason_text(reason, text, sizeof(text));
      json_array_append_new(reasons, json_pack("{s:s, s:o, s:o, s:s}", "code",
                                               attn_reason_name(reason->code), "value",
                                               cli_real(reason->value), "limit",
                                               cli_real(reason->limit), "text", text));
    }
    json_array_append_new(list,
                          json_pack("{s:s, s:s, s:o}", "backend", attn_backend_name(x->backend),
                                    "implementation", x->implementation, "reasons", reasons));
  }
  return list;
}

json_t *cli_recommendation_json(const attn_recommendation *r) {
  json_t *alternatives = json_array();
  for (int i = 0; i < r->alternative_count; i++) {
    const attn_alternative *x = &r->alternatives[i];
    json_array_append_new(alternatives, json_pack("{s:s, s:s, s:o, s:o, s:I, s:s}", "backend",
                                                  attn_backend_name(x->backend), "implementation",
                                                  x->implementation, "score", cli_real(x->score),
                                                  "expected_time_ms", cli_real(1e3 * x->time),
                                                  "workspace_bytes", (json_int_t)x->workspace_bytes,
                                                  "source", attn_choice_source_name(x->source)));
  }
  return json_pack(
      "{s:s, s:s, s:s, s:s, s:b, s:f, s:o, s:o, s:I, s:I, s:o, s:o, s:i, s:s, s:o, s:o}", "backend",
      attn_backend_name(r->backend), "implementation", r->implementation, "device",
      attn_device_type_name(r->device), "source", attn_choice_source_name(r->source), "predicted",
      r->predicted, "confidence", r->confidence, "expected_time_ms", cli_real(1e3 * r->time),
      "expected_speedup", cli_real(r->speedup), "expected_memory_bytes",
      (json_int_t)r->memory_bytes, "workspace_bytes", (json_int_t)r->workspace_bytes, "flops",
      cli_real(r->flops), "bytes", cli_real(r->bytes), "splits", r->splits, "reason", r->reason,
      "alternatives", alternatives, "rejected", rejections_json(r));
}
