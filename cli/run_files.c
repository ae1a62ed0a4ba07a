// SPDX-License-Identifier: Apache-2.0
#include "run_files.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static int load(const cli_common *c, const char *what, const char *spec, array *a) {
  char err[512];
  if (!spec) return cli_usage(c, "%s is missing", what);
  if (array_load(spec, a, err, sizeof(err))) return cli_fail(c, "%s: %s", what, err);
  return CLI_OK;
}

/* What an array's elements are, given what the user said they are. */
static int element_type(const cli_common *c, const char *what, const array *a, attn_dtype said,
                        attn_dtype *out) {
  switch (a->dtype) {
  case ARRAY_F64:
    *out = ATTN_F64;
    return CLI_OK;
  case ARRAY_F32:
    *out = ATTN_F32;
    return CLI_OK;
  case ARRAY_F16:
    *out = ATTN_F16;
    return CLI_OK;
  case ARRAY_BF16:
    *out = ATTN_BF16;
    return CLI_OK;
  case ARRAY_F8E4M3:
    *out = ATTN_F8E4M3;
    return CLI_OK;
  case ARRAY_F8E5M2:
    *out = ATTN_F8E5M2;
    return CLI_OK;
  case ARRAY_U16:
    if (said == ATTN_BF16) return *out = said, CLI_OK;
    return cli_fail(c, "%s holds u16; say what it is with --dtype bf16", what);
  case ARRAY_U8:
    if (said == ATTN_F8E4M3 || said == ATTN_F8E5M2) return *out = said, CLI_OK;
    return cli_fail(c, "%s holds u8; say what it is with --dtype f8e4m3 or f8e5m2", what);
  case ARRAY_I8:
    if (said == ATTN_INT8) return *out = said, CLI_OK;
    return cli_fail(c, "%s holds i8; say --kv-dtype int8, with --k-scale and --v-scale", what);
  default:
    return cli_fail(c, "%s holds %s, which attention does not take", what,
                    array_dtype_name(a->dtype));
  }
}

static int dtype_of(const cli_common *c, const char *what, const array *a, attn_dtype said,
                    attn_dtype *out) {
  int status = element_type(c, what, a, said, out);
  if (!status && said && said != *out)
    status = cli_fail(c, "%s holds %s, the command line says %s", what, attn_dtype_name(*out),
                      attn_dtype_name(said));
  return status;
}

/* A tensor as [batch, heads, seq, dim] with strides in elements. */
typedef struct view {
  int64_t n[4];
  attn_strides s;
} view;

/* `heads` is for 3-D arrays, [batch, seq, heads * dim]. Packed: [total, heads, dim]; paged: [pages,
 * page_size, heads, dim]. */
static int view_of(const cli_common *c, const char *what, const array *a, int64_t heads,
                   attn_layout layout, bool packed, bool paged, view *v) {
  const int64_t *d = a->shape;
  if (packed && !paged) {
    if (a->ndim != 3)
      return cli_fail(c, "%s has %d dimensions; packed tensors have 3 [total, heads, dim]", what,
                      a->ndim);
    *v = (view){ { 1, d[1], d[0], d[2] }, { 0, d[2], d[1] * d[2], 1 } };
  } else if (a->ndim == 4 && (layout == ATTN_LAYOUT_BSHD || paged)) {
    *v = (view){ { d[0], d[2], d[1], d[3] }, { d[1] * d[2] * d[3], d[3], d[2] * d[3], 1 } };
  } else if (a->ndim == 4) {
    *v = (view){ { d[0], d[1], d[2], d[3] }, { d[1] * d[2] * d[3], d[2] * d[3], d[3], 1 } };
  } else if (a->ndim == 3) {
    if (heads < 1)
      return cli_fail(c, "%s has 3 dimensions [batch, seq, heads * dim]: say --heads Q:KV", what);
    if (d[2] % heads)
      return cli_fail(c, "%s: last dimension %lld is not a multiple of %lld heads", what,
                      (long long)d[2], (long long)heads);
    int64_t dim = d[2] / heads;
    *v = (view){ { d[0], heads, d[1], dim }, { d[1] * d[2], dim, d[2], 1 } };
  } else if (a->ndim == 2) {
    *v = (view){ { 1, 1, d[0], d[1] }, { d[0] * d[1], d[0] * d[1], d[1], 1 } };
  } else {
    return cli_fail(c, "%s has %d dimensions, not 2, 3 or 4", what, a->ndim);
  }
  if (heads > 0 && v->n[1] != heads)
    return cli_fail(c, "%s has %lld heads, --heads says %lld", what, (long long)v->n[1],
                    (long long)heads);
  return CLI_OK;
}

/* A small integer array: "0,3,5" or a file of i32 or i64. */
static int load_ints(const cli_common *c, const char *what, const char *text, run_files *f,
                     const int32_t **out, int64_t *count) {
  array *a = &f->side[f->sides++];
  bool list = text[0] && !text[strspn(text, "-0123456789,")];
  if (list) {
    int64_t n = 1;
    for (const char *p = text; *p; p++) n += *p == ',';
    int32_t *x = array_alloc((size_t)n * sizeof(*x));
    if (!x) return cli_fail(c, "%s: out of memory", what);
    *a = (array){ .dtype = ARRAY_I32,
                  .ndim = 1,
                  .shape = { n },
                  .data = x,
                  .bytes = (size_t)n * sizeof(*x),
                  .owner = x };
    for (int64_t i = 0; i < n; i++) {
      char *end;
      long value = strtol(text, &end, 10);
      if (end == text || (*end && *end != ',') || value > INT_MAX || value < INT_MIN)
        return cli_usage(c, "%s: item %lld is no 32-bit whole number", what, (long long)i);
      x[i] = (int32_t)value;
      text = *end ? end + 1 : end;
    }
  } else {
    int status = load(c, what, text, a);
    if (status) return status;
    if (a->dtype == ARRAY_I64) {
      int64_t n64 = array_count(a);
      int32_t *x = array_alloc((size_t)n64 * sizeof(*x));
      if (!x) return cli_fail(c, "%s: out of memory", what);
      for (int64_t i = 0; i < n64; i++) {
        int64_t value = ((const int64_t *)a->data)[i];
        if (value < INT_MIN || value > INT_MAX) {
          free(x);
          return cli_fail(c, "%s: item %lld of value %lld does not fit 32 bits", what, (long long)i,
                          (long long)value);
        }
        x[i] = (int32_t)value;
      }
      array narrow = { .dtype = ARRAY_I32,
                       .ndim = a->ndim,
                       .data = x,
                       .bytes = (size_t)n64 * sizeof(*x),
                       .owner = x };
      memcpy(narrow.shape, a->shape, sizeof(narrow.shape));
      array_release(a);
      *a = narrow;
    }
    if (a->dtype != ARRAY_I32)
      return cli_fail(c, "%s holds %s, not i32 or i64", what, array_dtype_name(a->dtype));
  }
  *out = a->data;
  *count = array_count(a);
  return CLI_OK;
}

static int load_floats(const cli_common *c, const char *what, const char *name, run_files *f,
                       const float **out, int64_t need) {
  array *a = &f->side[f->sides++];
  int status = load(c, what, name, a);
  if (status) return status;
  if (a->dtype != ARRAY_F32)
    return cli_fail(c, "%s holds %s, not f32", what, array_dtype_name(a->dtype));
  if (array_count(a) != need)
    return cli_fail(c, "%s holds %lld numbers, not %lld", what, (long long)array_count(a),
                    (long long)need);
  *out = a->data;
  return CLI_OK;
}

/* Past keys before the new ones, along the sequence. */
static int prepend(const cli_common *c, const char *what, const char *past_name, int64_t heads,
                   attn_layout layout, array *a) {
  array past = { 0 }, all = { 0 };
  view p, n;
  bool rows_first = layout == ATTN_LAYOUT_BSHD;
  int status = load(c, what, past_name, &past);
  if (!status) status = view_of(c, what, &past, heads, layout, false, false, &p);
  if (!status) status = view_of(c, "the new keys", a, heads, layout, false, false, &n);
  if (!status &&
      (past.dtype != a->dtype || p.n[0] != n.n[0] || p.n[1] != n.n[1] || p.n[3] != n.n[3]))
    status = cli_fail(c, "%s does not match the new keys in batch, heads, head size or type", what);
  size_t e = array_dtype_size(a->dtype);
  int64_t seq = status ? 0 : p.n[2] + n.n[2], d = status ? 0 : p.n[3];
  if (!status) {
    all = (array){ .dtype = a->dtype, .ndim = 4, .shape = { p.n[0], p.n[1], seq, d } };
    if (rows_first) all.shape[1] = seq, all.shape[2] = p.n[1];
    all.bytes = (size_t)(p.n[0] * p.n[1] * seq * d) * e;
    all.data = all.owner = array_alloc(all.bytes);
    if (!all.data) status = cli_fail(c, "%s: out of memory", what);
  }
  for (int64_t bh = 0; !status && bh < p.n[0] * p.n[1]; bh++)
    for (int64_t i = 0; i < seq; i++) {
      const view *from = i < p.n[2] ? &p : &n;
      const array *source = i < p.n[2] ? &past : a;
      int64_t row = i < p.n[2] ? i : i - p.n[2], b = bh / p.n[1], h = bh % p.n[1];
      int64_t at = b * from->s.batch + h * from->s.head + row * from->s.row;
      int64_t to = rows_first ? (b * seq + i) * p.n[1] + h : bh * seq + i;
      memcpy((char *)all.data + (size_t)(to * d) * e, (const char *)source->data + (size_t)at * e,
             (size_t)d * e);
    }
  array_release(&past);
  if (status) {
    array_release(&all);
    return status;
  }
  array_release(a);
  *a = all;
  return CLI_OK;
}

static int set_mask(const cli_common *c, const array *m, attn_problem *p) {
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  static const char *const names[4] = { "batch", "heads_q", "seq_q", "seq_kv" };
  attn_dtype dtype = ATTN_F32;
  if (m->ndim < 1 || m->ndim > 4)
    return cli_fail(c, "the mask has %d dimensions, not 1 to 4", m->ndim);
  p->mask = m->dtype == ARRAY_BOOL ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
  if (m->dtype != ARRAY_BOOL) {
    if (m->dtype != ARRAY_F32 && m->dtype != ARRAY_F16 && m->dtype != ARRAY_BF16 &&
        m->dtype != ARRAY_U16)
      return cli_fail(c, "the mask holds %s, not bool, f32, f16 or bf16 (as u16)",
                      array_dtype_name(m->dtype));
    int status = element_type(c, "the mask", m, ATTN_BF16, &dtype);
    if (status) return status;
    p->mask_dtype = dtype;
  }
  for (int i = 0; i < 4; i++) {
    int from = i - (4 - m->ndim);
    p->mask_dims[i] = from < 0 ? 1 : m->shape[from];
    bool fits =
        p->mask_dims[i] == 1 || p->mask_dims[i] == full[i] || (i == 3 && p->mask_dims[i] < full[i]);
    if (!fits)
      return cli_fail(c, "the mask's %s dimension of %lld is neither 1 nor %lld", names[i],
                      (long long)p->mask_dims[i], (long long)full[i]);
  }
  return CLI_OK;
}

/* "K (k.npy)" */
enum { NAMED = 300 };
static const char *named(const char *what, const char *file, char buffer[NAMED]) {
  snprintf(buffer, NAMED, "%s (%s)", what, file);
  return buffer;
}

static int set_tensors(const cli_common *c, const run_names *n, run_files *f, attn_problem *p) {
  view q, k, v;
  char buffers[3][NAMED];
  const char *qn = named("Q", n->q, buffers[0]), *kn = named("K", n->k, buffers[1]),
             *vn = named("V", n->v, buffers[2]);
  bool packed = n->cu_seqlens != NULL;
  attn_dtype kd, vd;
  bool paged = p->page_size > 0;
  int64_t kv_heads = p->heads_kv ? p->heads_kv : p->heads_q;
  attn_layout layout = p->layout;
  int status = dtype_of(c, qn, &f->q, p->dtype, &p->dtype);
  attn_dtype kv_said = p->kv_dtype ? p->kv_dtype : p->dtype;
  if (!status && p->kv_dtype)
    status = dtype_of(c, kn, &f->k, kv_said, &kd);
  else if (!status)
    status = element_type(c, kn, &f->k, kv_said, &kd);
  if (!status) status = element_type(c, vn, &f->v, kv_said, &vd);
  if (!status && kd != vd)
    status =
        cli_fail(c, "%s holds %s, %s holds %s", kn, attn_dtype_name(kd), vn, attn_dtype_name(vd));
  if (!status) status = view_of(c, qn, &f->q, p->heads_q, layout, packed, false, &q);
  if (!status) status = view_of(c, kn, &f->k, kv_heads, layout, packed, paged, &k);
  if (!status) status = view_of(c, vn, &f->v, kv_heads, layout, packed, paged, &v);
  if (status) return status;
  if (k.n[2] != v.n[2])
    return cli_fail(c, "%s has %lld keys, %s has %lld", kn, (long long)k.n[2], vn,
                    (long long)v.n[2]);
  if (k.n[1] != v.n[1])
    return cli_fail(c, "%s has %lld heads, %s has %lld", kn, (long long)k.n[1], vn,
                    (long long)v.n[1]);
  if (k.n[0] != v.n[0] || (!paged && !packed && k.n[0] != q.n[0]))
    return cli_fail(c, "batch sizes differ: %s has %lld, %s %lld, %s %lld", qn, (long long)q.n[0],
                    kn, (long long)k.n[0], vn, (long long)v.n[0]);
  if (q.n[3] != k.n[3])
    return cli_fail(c, "head_dim differs: %s has %lld, %s %lld", qn, (long long)q.n[3], kn,
                    (long long)k.n[3]);
  p->kv_dtype = kd;
  p->heads_q = q.n[1], p->heads_kv = k.n[1], p->head_dim = q.n[3], p->head_dim_v = v.n[3];
  if (packed)
    p->varlen = true, p->total_q = q.n[2], p->total_kv = paged ? 0 : k.n[2];
  else
    p->batch = q.n[0], p->seq_q = q.n[2];
  if (paged)
    p->num_pages = k.n[0], p->page_size = k.n[2];
  else if (!packed)
    p->seq_kv = k.n[2];
  p->q_strides = q.s, p->k_strides = k.s, p->v_strides = v.s;
  int64_t dv = p->head_dim_v; // the output has Q's rank and order
  if (packed)
    p->out_strides = (attn_strides){ 0, dv, p->heads_q * dv, 1 };
  else if (f->q.ndim == 3 || (f->q.ndim == 4 && layout == ATTN_LAYOUT_BSHD))
    p->out_strides = (attn_strides){ p->seq_q * p->heads_q * dv, dv, p->heads_q * dv, 1 };
  else
    p->out_strides = (attn_strides){ p->heads_q * p->seq_q * dv, p->seq_q * dv, dv, 1 };
  p->layout = ATTN_LAYOUT_STRIDED;
  return CLI_OK;
}

static int64_t longest(const int32_t *cu, int64_t n) {
  int64_t most = 0;
  for (int64_t i = 0; i + 1 < n; i++)
    if ((int64_t)cu[i + 1] - cu[i] > most) most = (int64_t)cu[i + 1] - cu[i];
  return most;
}

/* Offsets "Q" or "Q,KV" (two files or two lists between a semicolon). */
static int set_offsets(const cli_common *c, const char *text, run_files *f, attn_problem *p,
                       attn_io *io) {
  const char *second = strchr(text, ';');
  char *first = strndup(text, second ? (size_t)(second - text) : strlen(text));
  int64_t nq, nk;
  if (!first) return cli_fail(c, "--cu-seqlens: out of memory");
  int status = load_ints(c, "--cu-seqlens", first, f, &io->cu_seqlens_q, &nq);
  free(first);
  if (status) return status;
  io->cu_seqlens_kv = io->cu_seqlens_q, nk = nq;
  if (second && (status = load_ints(c, "--cu-seqlens", second + 1, f, &io->cu_seqlens_kv, &nk)))
    return status;
  if (nq != nk || nq < 1)
    return cli_fail(c, "--cu-seqlens: %lld offsets of queries, %lld of keys", (long long)nq,
                    (long long)nk);
  p->batch = nq - 1;
  p->seq_q = longest(io->cu_seqlens_q, nq);
  if (!p->page_size) p->seq_kv = longest(io->cu_seqlens_kv, nk);
  return CLI_OK;
}

/* Keys shared by the batch: [heads_kv, prefix, dim], or with a leading 1. */
static int set_prefix(const cli_common *c, const run_names *n, run_files *f, attn_problem *p,
                      attn_io *io) {
  const char *names[2] = { n->prefix_k, n->prefix_v };
  const int64_t dims[2] = { p->head_dim, p->head_dim_v };
  if (!names[0] || !names[1]) return cli_usage(c, "--prefix-k and --prefix-v go together");
  for (int i = 0; i < 2; i++) {
    array *a = &f->side[f->sides++];
    attn_dtype type;
    int status = load(c, i ? "--prefix-v" : "--prefix-k", names[i], a);
    if (!status) status = dtype_of(c, i ? "--prefix-v" : "--prefix-k", a, p->kv_dtype, &type);
    if (status) return status;
    const int64_t *d = a->shape + (a->ndim == 4);
    bool fits = (a->ndim == 3 || (a->ndim == 4 && a->shape[0] == 1)) && d[0] == p->heads_kv &&
                d[2] == dims[i];
    if (!fits || type != p->kv_dtype)
      return cli_fail(c, "%s is not [%lld, keys, %lld] of %s", i ? "--prefix-v" : "--prefix-k",
                      (long long)p->heads_kv, (long long)dims[i], attn_dtype_name(p->kv_dtype));
    if (i && d[1] != p->prefix)
      return cli_fail(c, "--prefix-k has %lld keys, --prefix-v has %lld", (long long)p->prefix,
                      (long long)d[1]);
    p->prefix = d[1];
    if (i)
      io->v_prefix = a->data;
    else
      io->k_prefix = a->data;
  }
  p->seq_kv += p->prefix;
  return CLI_OK;
}

static bool is_fp8(attn_dtype t) { return t == ATTN_F8E4M3 || t == ATTN_F8E5M2; }

/* Scales of fp8 tensors, one or one a head, and of an int8 cache, one a row and head. */
static int set_scales(const cli_common *c, const run_names *n, run_files *f, const attn_problem *p,
                      attn_io *io) {
  int64_t rows = p->page_size ? p->num_pages * p->page_size
                 : p->varlen  ? p->total_kv
                              : p->batch * (p->seq_kv - p->prefix);
  const struct {
    const char *what, *name;
    const float **to;
    attn_dtype type;
    int64_t heads;
  } all[] = { { "--q-scale", n->q_scale, &io->q_scale, p->dtype, p->heads_q },
              { "--k-scale", n->k_scale, &io->k_scale, p->kv_dtype, p->heads_kv },
              { "--v-scale", n->v_scale, &io->v_scale, p->kv_dtype, p->heads_kv } };
  int status = CLI_OK;
  for (int i = 0; !status && i < 3; i++) {
    if (!all[i].name) continue;
    bool fp8 = is_fp8(all[i].type) && p->fp8_scale;
    if (!fp8 && all[i].type != ATTN_INT8)
      return cli_fail(c, "%s is for fp8 with --fp8-scale tensor or head, and for an int8 cache",
                      all[i].what);
    int64_t need = !fp8                                  ? rows * all[i].heads
                   : p->fp8_scale == ATTN_FP8_SCALE_HEAD ? all[i].heads
                                                         : 1;
    status = load_floats(c, all[i].what, all[i].name, f, all[i].to, need);
  }
  return status;
}

static int set_sides(const cli_common *c, const run_names *n, run_files *f, attn_problem *p,
                     attn_io *io) {
  int status = CLI_OK;
  int64_t count;
  if (n->block_table) {
    if ((status = load_ints(c, "--block-table", n->block_table, f, &io->block_table, &count)))
      return status;
    const array *table = &f->side[f->sides - 1];
    p->pages_per_seq = table->ndim == 2 ? table->shape[1] : count;
    if (table->ndim != 2 && p->batch != 1)
      return cli_fail(c, "--block-table needs 2 dimensions [batch, pages], it has %d", table->ndim);
    if (table->ndim == 2 && table->shape[0] != p->batch)
      return cli_fail(c, "--block-table has %lld rows, the batch is %lld",
                      (long long)table->shape[0], (long long)p->batch);
    p->seq_kv = p->prefix + p->pages_per_seq * p->page_size;
  }
  if (n->kv_len) {
    if ((status = load_ints(c, "--kv-len", n->kv_len, f, &io->kv_len, &count))) return status;
    if (count != p->batch)
      return cli_fail(c, "--kv-len has %lld lengths, the batch is %lld", (long long)count,
                      (long long)p->batch);
    p->kv_lengths = true;
  }
  if (n->alibi)
    p->alibi = true, status = load_floats(c, "--alibi", n->alibi, f, &io->alibi_slopes, p->heads_q);
  if (!status && n->sinks)
    p->sinks = true, status = load_floats(c, "--sinks", n->sinks, f, &io->sinks, p->heads_q);
  return status ? status : set_scales(c, n, f, p, io);
}

static int allocate(const cli_common *c, array *a, array_dtype dtype, int ndim,
                    const int64_t *shape) {
  *a = (array){ .dtype = dtype, .ndim = ndim };
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) a->shape[i] = shape[i], n *= shape[i];
  a->bytes = (size_t)n * array_dtype_size(dtype);
  a->data = a->owner = array_alloc(a->bytes ? a->bytes : 1);
  if (!a->data) return cli_fail(c, "an output of %zu bytes could not be allocated", a->bytes);
  memset(a->data, 0, a->bytes);
  return CLI_OK;
}

static array_dtype stored(attn_dtype t) {
  switch (t) {
  case ATTN_F64:
    return ARRAY_F64;
  case ATTN_F16:
    return ARRAY_F16;
  case ATTN_BF16:
    return ARRAY_U16;
  case ATTN_F8E4M3:
  case ATTN_F8E5M2:
    return ARRAY_U8;
  default:
    return ARRAY_F32;
  }
}

static int allocate_outputs(const cli_common *c, const run_names *n, run_files *f, attn_problem *p,
                            attn_io *io) {
  attn_problem r;
  int64_t shape[4];
  int status;
  if (n->lse) p->return_lse = true;
  if (attn_problem_resolve(p, &r)) return cli_fail(c, "%s", attn_last_error());
  memcpy(shape, f->q.shape, sizeof(shape));
  shape[f->q.ndim - 1] = f->q.ndim == 3 && !p->varlen ? r.heads_q * r.head_dim_v : r.head_dim_v;
  if ((status = allocate(c, &f->out, stored(r.out_dtype), f->q.ndim, shape))) return status;
  io->out = f->out.data;
  if (n->lse) {
    const int64_t dense[3] = { r.batch, r.heads_q, r.seq_q }, packed[2] = { r.heads_q, r.total_q };
    if ((status = allocate(c, &f->lse, ARRAY_F32, r.varlen ? 2 : 3, r.varlen ? packed : dense)))
      return status;
    io->lse = f->lse.data;
  }
  if (r.weights) {
    bool sums = r.weights == ATTN_WEIGHTS_COLUMN_SUMS;
    const int64_t whole[4] = { r.batch, r.heads_q, r.seq_q, r.seq_kv },
                  columns[3] = { r.batch, r.heads_q, r.seq_kv };
    if ((status = allocate(c, &f->weights, ARRAY_F32, sums ? 3 : 4, sums ? columns : whole)))
      return status;
    io->weights = f->weights.data;
  }
  return CLI_OK;
}

static const char *shape_text(const array *a, char *buffer, size_t size) {
  size_t at = (size_t)snprintf(buffer, size, "[");
  for (int i = 0; i < a->ndim && at < size; i++)
    at += (size_t)snprintf(buffer + at, size - at, "%s%lld", i ? ", " : "", (long long)a->shape[i]);
  if (at < size) snprintf(buffer + at, size - at, "]");
  return buffer;
}

/* A reference has the output's shape, and numbers of any float type (u16: bf16 as the output). */
static int load_reference(const cli_common *c, const char *name, run_files *f) {
  char got[200], want[200];
  const array *r = &f->reference, *out = &f->out;
  int status = load(c, "--reference", name, &f->reference);
  if (status) return status;
  bool same = r->ndim == out->ndim;
  for (int i = 0; same && i < r->ndim; i++) same = r->shape[i] == out->shape[i];
  if (!same)
    return cli_fail(c, "--reference (%s) has the shape %s, the output %s", name,
                    shape_text(r, got, sizeof(got)), shape_text(out, want, sizeof(want)));
  bool floats = r->dtype == ARRAY_F64 || r->dtype == ARRAY_F32 || r->dtype == ARRAY_F16 ||
                r->dtype == ARRAY_BF16 || (r->dtype == ARRAY_U16 && out->dtype == ARRAY_U16);
  if (!floats)
    return cli_fail(c, "--reference (%s) holds %s, not f64, f32, f16 or the output's type", name,
                    array_dtype_name(r->dtype));
  return CLI_OK;
}

int run_files_load(const cli_common *c, const run_names *n, run_files *f, attn_problem *p,
                   attn_io *io) {
  int status = load(c, "-q", n->q, &f->q);
  if (!status) status = load(c, "-k", n->k, &f->k);
  if (!status) status = load(c, "-v", n->v, &f->v);
  int64_t kv_heads = p->heads_kv ? p->heads_kv : p->heads_q;
  if (!status && !n->past_k != !n->past_v)
    status = cli_usage(c, "--past-k and --past-v go together");
  if (!status && !n->past_k && (n->present_k || n->present_v))
    status = cli_usage(c, "--present-k and --present-v need --past-k and --past-v");
  if (!status && n->past_k && (n->cu_seqlens || n->block_table))
    status = cli_usage(c, "--past-k goes with neither --cu-seqlens nor --block-table");
  if (!status && n->past_k) status = prepend(c, "--past-k", n->past_k, kv_heads, p->layout, &f->k);
  if (!status && n->past_v) status = prepend(c, "--past-v", n->past_v, kv_heads, p->layout, &f->v);
  if (!status && n->block_table && !p->page_size) p->page_size = 1; // the real one is in K's shape
  attn_dtype cache = status ? ATTN_DTYPE_DEFAULT : run_cache_wanted(f, p);
  if (!status) status = set_tensors(c, n, f, p);
  if (!status && n->cu_seqlens) status = set_offsets(c, n->cu_seqlens, f, p, io);
  if (!status && (n->prefix_k || n->prefix_v)) status = set_prefix(c, n, f, p, io);
  if (!status) status = set_sides(c, n, f, p, io);
  if (!status && cache) status = run_cache_quantise(c, f, p, io, cache);
  if (!status && n->mask) {
    status = load(c, "--mask", n->mask, &f->mask);
    if (!status) status = set_mask(c, &f->mask, p);
  }
  if (!status) status = allocate_outputs(c, n, f, p, io);
  if (!status && n->reference) status = load_reference(c, n->reference, f);
  io->q = f->q.data, io->k = f->k.data, io->v = f->v.data, io->mask = f->mask.data;
  return status;
}

void run_files_release(run_files *f) {
  array *all[] = { &f->q, &f->k, &f->v, &f->mask, &f->reference, &f->out, &f->lse, &f->weights };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) array_release(all[i]);
  for (int i = 0; i < f->sides; i++) array_release(&f->side[i]);
}
