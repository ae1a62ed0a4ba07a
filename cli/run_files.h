// SPDX-License-Identifier: Apache-2.0
/* The arrays of `attn run`: files in, a problem and its data out. */
#ifndef CLI_RUN_FILES_H
#define CLI_RUN_FILES_H

#include "array.h"
#include "cli.h"

/* Names of files (or, for the small integer arrays, lists "0,3,5"); NULL where not given. */
typedef struct run_names {
  const char *q, *k, *v, *out, *mask, *lse, *reference, *alibi, *sinks, *kv_len, *cu_seqlens;
  const char *block_table, *q_scale, *k_scale, *v_scale, *past_k, *past_v, *present_k, *present_v;
  const char *weights_out, *prefix_k, *prefix_v;
} run_names;

typedef struct run_files {
  array q, k, v, mask, reference;
  array out, lse, weights; /* allocated by run_files_load */
  array side[12];          /* slopes, sinks, lengths, offsets, tables, scales */
  int sides;
  int64_t rank; /* of Q, and so of the output */
} run_files;

/* Loads everything, fills sizes and strides of *problem (which holds the options) and *io. CLI_OK,
 * or another exit status after saying why. */
int run_files_load(const cli_common *c, const run_names *names, run_files *f, attn_problem *problem,
                   attn_io *io);
void run_files_release(run_files *f);

/* ---- run_cache.c */

/* The cache type that --kv-dtype asks for where K holds floats of another; DEFAULT: as the file is. Takes
 * it out of the problem, which then describes the files. */
attn_dtype run_cache_wanted(const run_files *f, attn_problem *problem);
/* Converts K and V, and the problem with them. */
int run_cache_quantise(const cli_common *c, run_files *f, attn_problem *problem, attn_io *io,
                       attn_dtype wanted);

#endif
