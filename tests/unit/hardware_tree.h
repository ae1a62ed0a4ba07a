// SPDX-License-Identifier: Apache-2.0
/* A folder of files in the system's temporary place, as a stand-in for /proc and /sys. */
#ifndef TEST_HARDWARE_TREE_H
#define TEST_HARDWARE_TREE_H

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct tree {
  char root[256];
} tree;

static void tree_make(tree *t) {
  const char *place = getenv("TMPDIR");
  snprintf(t->root, sizeof t->root, "%s/attn-tree-XXXXXX", place ? place : P_tmpdir);
  if (!mkdtemp(t->root)) abort();
}

static void tree_write_bytes(tree *t, const char *path, const void *data, size_t size) {
  char full[1024];
  snprintf(full, sizeof full, "%s%s", t->root, path);
  for (char *slash = full + strlen(t->root) + 1; (slash = strchr(slash, '/')) != NULL; slash++) {
    *slash = '\0';
    mkdir(full, 0700);
    *slash = '/';
  }
  FILE *file = fopen(full, "wb");
  if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0) abort();
}

__attribute__((unused)) static void tree_write(tree *t, const char *path, const char *text) {
  tree_write_bytes(t, path, text, strlen(text));
}

static int tree_remove_one(const char *path, const struct stat *info, int flag, struct FTW *ftw) {
  (void)info, (void)flag, (void)ftw;
  return remove(path);
}

static void tree_remove(tree *t) { nftw(t->root, tree_remove_one, 16, FTW_DEPTH | FTW_PHYS); }

#endif
