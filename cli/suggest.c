// SPDX-License-Identifier: Apache-2.0
/* The known option that an unknown one most resembles. */
#include <string.h>

#include "cli.h"

/* The words of include/attn/attn.h's SHAPE syntax. */
static const char *const shape_options[] = { "--batch",        "--heads",
                                             "--seq",          "--dim",
                                             "--dtype",        "--kv-dtype",
                                             "--out-dtype",    "--fp8-scale",
                                             "--scale",        "--softcap",
                                             "--causal",       "--window",
                                             "--window-align", "--mask",
                                             "--mask-strides", "--alibi",
                                             "--sinks",        "--score-mod",
                                             "--kv-lengths",   "--varlen",
                                             "--prefix",       "--page-size",
                                             "--num-pages",    "--pages-per-seq",
                                             "--dropout",      "--lse",
                                             "--weights",      "--layout",
                                             "--q-strides",    "--k-strides",
                                             "--v-strides",    "--out-strides",
                                             "--alibi-stride", "--batch-invariant" };

const char *cli_shape_option(int index) {
  const int count = sizeof(shape_options) / sizeof(shape_options[0]);
  return index >= 0 && index < count ? shape_options[index] : NULL;
}

enum { LONGEST = 32 };

/* Optimal string alignment distance: insert, delete, replace, swap neighbours (Damerau 1964). */
static int distance(const char *a, const char *b) {
  int n = (int)strlen(a), m = (int)strlen(b), d[LONGEST + 1][LONGEST + 1];
  if (n > LONGEST || m > LONGEST) return 2 * LONGEST;
  for (int i = 0; i <= n; i++)
    for (int j = 0; j <= m; j++) {
      if (!i || !j) {
        d[i][j] = i + j;
        continue;
      }
      int best = d[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      if (d[i - 1][j] + 1 < best) best = d[i - 1][j] + 1;
      if (d[i][j - 1] + 1 < best) best = d[i][j - 1] + 1;
      bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped && d[i - 2][j - 2] + 1 < best) best = d[i - 2][j - 2] + 1;
      d[i][j] = best;
    }
  return d[n][m];
}

typedef struct nearest {
  const char *word; /* without dashes and value */
  char found[LONGEST + 3];
  int distance;
} nearest;

static void consider(nearest *n, const char *option) {
  char name[LONGEST + 3];
  snprintf(name, sizeof(name), "%.*s", (int)strcspn(option, " "), option);
  int d = distance(n->word, name + strspn(name, "-"));
  if (d >= n->distance) return;
  n->distance = d;
  memcpy(n->found, name, sizeof(name));
}

int cli_unknown_option(const cli_common *c, const char *word, const cli_option *options) {
  char bare[LONGEST + 1];
  const char *start = word + strspn(word, "-");
  snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(start, "="), start);
  // more than half of the word wrong is no resemblance
  nearest n = { .word = bare, .distance = (int)strlen(bare) / 2 + 1 };
  for (const cli_option *o = options; o && o->name; o++) consider(&n, o->name);
  for (int i = 0; cli_common_option(i); i++) consider(&n, cli_common_option(i));
  for (int i = 0; cli_shape_option(i); i++) consider(&n, cli_shape_option(i));
  if (n.found[0]) return cli_usage(c, "unknown option %s; the nearest is %s", word, n.found);
  return cli_usage(c, "unknown option %s", word);
}
