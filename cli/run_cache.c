// SPDX-License-Identifier: Apache-2.0
/* --kv-dtype on files of floats: K and V become a cache of that type before the run. */
#include <stdlib.h>
#include <string.h>

#include "attn/kvcache.h"
#include "run_files.h"

attn_dtype run_cache_wanted(const run_files *f, attn_problem *p) {
  attn_dtype wanted = p->kv_dtype, held = ATTN_DTYPE_DEFAULT;
  if (f->k.dtype == ARRAY_F32) held = ATTN_F32;
  if (f->k.dtype == ARRAY_F16) held = ATTN_F16;
  if (f->k.dtype == ARRAY_BF16 || (f->k.dtype == ARRAY_U16 && p->dtype == ATTN_BF16)) held = ATTN_BF16;
  if (!wanted || !held || wanted == held) return ATTN_DTYPE_DEFAULT;
  p->kv_dtype = ATTN_DTYPE_DEFAULT;
  return wanted;
}

static int new_cache(const cli_common *c, attn_dtype type, const array *from, array *to) {
  int64_t bytes = attn_dtype_bytes(type, array_count(from));
  if (bytes < 0)
    return cli_fail(c, "--kv-dtype %s: %lld elements do not fill blocks of 32", attn_dtype_name(type),
                    (long long)array_count(from));
  *to = (array){ .dtype = ARRAY_U8, .ndim = 1, .shape = { bytes }, .bytes = (size_t)bytes };
  to->data = to->owner = array_alloc(to->bytes ? to->bytes : 1);
  if (to->data) return CLI_OK;
  return cli_fail(c, "a cache of %zu bytes could not be allocated", to->bytes);
}

int run_cache_quantise(const cli_common *c, run_files *f, attn_problem *p, attn_io *io,
                       attn_dtype wanted) {
  if (p->prefix) return cli_fail(c, "--kv-dtype converts no prefix: give all files in the cache's type");
  // pages and packed sequences are filled like sequences of their own
  int64_t outer = p->page_size ? p->num_pages : p->varlen ? 1 : p->batch;
  int64_t rows = p->page_size ? p->page_size : p->varlen ? p->total_kv : p->seq_kv;
  attn_problem cache = { .batch = outer, .heads_q = p->heads_kv, .seq_q = 1, .seq_kv = rows,
                         .head_dim = p->head_dim, .head_dim_v = p->head_dim_v, .kv_dtype = wanted };
  array k = { 0 }, v = { 0 };
  int status = new_cache(c, wanted, &f->k, &k);
  if (!status) status = new_cache(c, wanted, &f->v, &v);
  attn_kv_cache to = { .k = k.data, .v = v.data };
  if (!status && wanted == ATTN_INT8) {
    array *scales[2] = { &f->side[f->sides++], &f->side[f->sides++] };
    for (int i = 0; i < 2; i++) {
      scales[i]->data = scales[i]->owner = array_alloc((size_t)(outer * rows * p->heads_kv + 1) * sizeof(float));
      if (!scales[i]->data) status = cli_fail(c, "the scales could not be allocated");
    }
    io->k_scale = to.k_scale = scales[0]->data, io->v_scale = to.v_scale = scales[1]->data;
  }
  if (!status && attn_problem_set_layout(&cache, ATTN_LAYOUT_BHSD)) status = cli_fail(c, "%s", attn_last_error());
  cache.k_strides = p->k_strides, cache.v_strides = p->v_strides; // the files' own order
  attn_kv_rows from = { .k = f->k.data, .v = f->v.data, .dtype = p->kv_dtype, .count = rows,
                        .k_strides = p->k_strides, .v_strides = p->v_strides };
  if (!status && attn_kv_append(&cache, &to, &from)) status = cli_fail(c, "%s", attn_last_error());
  array_release(&f->k), array_release(&f->v);
  f->k = k, f->v = v;
  p->kv_dtype = wanted;
  return status;
}
