// SPDX-License-Identifier: Apache-2.0
#include "conformance_case.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const role_names[ROLES] = { "Q",
                                               "K",
                                               "V",
                                               "attn_mask",
                                               "past_key",
                                               "past_value",
                                               "nonpad_kv_seqlen",
                                               "Y",
                                               "present_key",
                                               "present_value",
                                               "qk_matmul_output" };

const char *conformance_role_name(int role) { return role_names[role]; }

bool conformance_fault(test_case *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(c->why, sizeof(c->why), format, args);
  va_end(args);
  return false;
}

static void *allocate(test_case *c, size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) conformance_fault(c, "no memory for %zu bytes", bytes);
  return p;
}

/* ---- Reading */

/* An unknown attribute may change what is computed, so it is a fault. */
static bool read_attribute(test_case *c, const char *key, const json_t *value) {
  attributes *a = &c->a;
  const struct {
    const char *key;
    int64_t *integer, low, high;
    double *real;
  } known[] = {
    { "q_num_heads", &a->q_heads, 1, INT32_MAX, NULL },
    { "kv_num_heads", &a->kv_heads, 1, INT32_MAX, NULL },
    { "is_causal", &a->causal, 0, 1, NULL },
    { "qk_matmul_output_mode", &a->mode, 0, 3, NULL },
    { "softmax_precision", &a->softmax_precision, 0, INT32_MAX, NULL },
    { "scale", NULL, 0, 0, &a->scale },
    { "softcap", NULL, 0, 0, &a->softcap },
  };
  size_t i = 0, count = sizeof(known) / sizeof(known[0]);
  while (i < count && strcmp(key, known[i].key)) i++;
  if (i == count) return conformance_fault(c, "unknown attribute %s", key);
  if (known[i].real) {
    if (!json_is_number(value)) return conformance_fault(c, "attribute %s is no number", key);
    *known[i].real = json_number_value(value);
    a->scale_set = a->scale_set || known[i].real == &a->scale;
    return true;
  }
  int64_t x = *known[i].integer = json_integer_value(value);
  if (json_is_integer(value) && x >= known[i].low && x <= known[i].high) return true;
  return conformance_fault(c, "attribute %s is no integer in %" PRId64 "..%" PRId64, key,
                           known[i].low, known[i].high);
}

static bool read_attributes(test_case *c, json_t *object) {
  const char *key;
  json_t *value;
  if (!json_is_object(object))
    return conformance_fault(c, "case.json has no object \"attributes\"");
  json_object_foreach(object, key, value) {
    if (!read_attribute(c, key, value)) return false;
  }
  return true;
}

static bool shape_agrees(test_case *c, int role, const json_t *tensor) {
  const json_t *shape = json_object_get(tensor, "shape");
  const array *t = &c->t[role];
  bool same = json_array_size(shape) == (size_t)t->ndim;
  for (int d = 0; same && d < t->ndim; d++)
    same = json_integer_value(json_array_get(shape, (size_t)d)) == t->shape[d];
  return same ||
         conformance_fault(c, "%s.npy has another shape than case.json says", role_names[role]);
}

static bool read_tensors(test_case *c, const json_t *root) {
  char path[PATH_MAX + 32], err[256];
  for (int r = 0; r < ROLES; r++) {
    const json_t *tensor =
        json_object_get(json_object_get(root, r < Y ? "inputs" : "outputs"), role_names[r]);
    snprintf(path, sizeof(path), "%s/%s.npy", c->folder, role_names[r]);
    bool needed = r <= V || r == Y;
    if (!needed && !tensor && access(path, F_OK)) continue;
    if (array_load(path, &c->t[r], err, sizeof(err)))
      return conformance_fault(c, "%s.npy: %s", role_names[r], err);
    c->has[r] = true;
    if (tensor && !shape_agrees(c, r, tensor)) return false;
  }
  if (c->has[PAST_K] != c->has[PAST_V])
    return conformance_fault(c, "past_key and past_value go together");
  return true;
}

static bool read_files(test_case *c) {
  char path[PATH_MAX + 32];
  json_error_t error;
  snprintf(path, sizeof(path), "%s/case.json", c->folder);
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) return conformance_fault(c, "case.json, line %d: %s", error.line, error.text);
  bool ok = read_attributes(c, json_object_get(root, "attributes")) && read_tensors(c, root);
  json_decref(root);
  return ok;
}

/* ---- From a case to a problem */

attn_dtype conformance_dtype(const array *t) {
  if (t->dtype == ARRAY_F32) return ATTN_F32;
  return t->dtype == ARRAY_F16 ? ATTN_F16 : ATTN_DTYPE_DEFAULT;
}

static bool see(test_case *c, int role, int64_t heads, view *v) {
  const array *t = &c->t[role];
  const int64_t *s = t->shape;
  const char *name = role_names[role];
  if (!conformance_dtype(t))
    return conformance_fault(c, "%s is %s, not f32 or f16", name, array_dtype_name(t->dtype));
  if (t->ndim == 4) {
    *v = (view){ t->data, s[0], s[1], s[2], s[3], { s[1] * s[2] * s[3], s[2] * s[3], s[3], 1 } };
  } else if (t->ndim == 3) {
    if (heads < 1)
      return conformance_fault(c, "%s has rank 3, the number of heads is missing", name);
    if (s[2] % heads)
      return conformance_fault(c, "%s has rows of %" PRId64 " for %" PRId64 " heads", name, s[2],
                               heads);
    int64_t dim = s[2] / heads;
    *v = (view){ t->data, s[0], heads, s[1], dim, { s[1] * s[2], dim, s[2], 1 } };
  } else {
    return conformance_fault(c, "%s has rank %d, not 3 or 4", name, t->ndim);
  }
  if (v->heads < 1 || v->dim < 1)
    return conformance_fault(c, "%s has no heads or empty rows", name);
  if (heads && v->heads != heads)
    return conformance_fault(c, "%s has %" PRId64 " heads, the attribute says %" PRId64, name,
                             v->heads, heads);
  return true;
}

static void copy_rows(const view *from, int64_t batch, int64_t head, size_t width, char **to) {
  size_t row = (size_t)from->dim * width;
  for (int64_t i = 0; i < from->rows; i++, *to += row) {
    int64_t at = batch * from->strides.batch + head * from->strides.head + i * from->strides.row;
    memcpy(*to, from->data + (size_t)at * width, row);
  }
}

/* Replaces *now by past and *now, one after the other along seq, in memory of the case. */
static bool join(test_case *c, int past_role, view *now, char **joined) {
  view past = *now;
  past.rows = 0;
  if (c->has[past_role]) {
    if (c->t[past_role].ndim != 4)
      return conformance_fault(c, "%s has no rank 4", role_names[past_role]);
    if (!see(c, past_role, 0, &past)) return false;
    if (past.batch != now->batch || past.heads != now->heads || past.dim != now->dim ||
        c->t[past_role].dtype != c->t[Q].dtype)
      return conformance_fault(c, "%s does not fit what it precedes", role_names[past_role]);
  }
  size_t width = array_dtype_size(c->t[Q].dtype);
  int64_t rows = past.rows + now->rows, dim = now->dim;
  char *to = *joined = allocate(c, (size_t)(now->batch * now->heads * rows * dim) * width);
  if (!to) return false;
  for (int64_t b = 0; b < now->batch; b++)
    for (int64_t h = 0; h < now->heads; h++) {
      copy_rows(&past, b, h, width, &to);
      copy_rows(now, b, h, width, &to);
    }
  attn_strides strides = { now->heads * rows * dim, rows * dim, dim, 1 };
  *now = (view){ *joined, now->batch, now->heads, rows, dim, strides };
  return true;
}

static bool make_views(test_case *c) {
  if (!see(c, Q, c->a.q_heads, &c->q) || !see(c, K, c->a.kv_heads, &c->k) ||
      !see(c, V, c->a.kv_heads, &c->v))
    return false;
  if (c->t[K].ndim != c->t[Q].ndim || c->t[V].ndim != c->t[Q].ndim)
    return conformance_fault(c, "Q, K and V differ in rank");
  if (c->t[K].dtype != c->t[Q].dtype || c->t[V].dtype != c->t[Q].dtype)
    return conformance_fault(c, "Q, K and V differ in dtype");
  /* Joined only where needed: K and V of rank 3 are else read through their strides. */
  if ((c->has[PAST_K] || c->has[PRESENT_K]) && !join(c, PAST_K, &c->k, &c->joined_k)) return false;
  if ((c->has[PAST_V] || c->has[PRESENT_V]) && !join(c, PAST_V, &c->v, &c->joined_v)) return false;
  const view *k = &c->k, *v = &c->v;
  if (k->batch != c->q.batch || v->batch != c->q.batch || k->dim != c->q.dim ||
      v->heads != k->heads || v->rows != k->rows)
    return conformance_fault(c, "Q, K and V disagree in size");
  return true;
}

/* The library repeats a mask of one column, the operator continues it with "removed"; two columns
 * mean the same to both. */
static bool widen_mask(test_case *c, int64_t columns) {
  const array *t = &c->t[MASK];
  size_t width = array_dtype_size(t->dtype);
  int64_t given = t->shape[t->ndim - 1], rows = 1;
  for (int d = 0; d < t->ndim - 1; d++) rows *= t->shape[d];
  char *to = c->mask = allocate(c, (size_t)(rows * columns) * width);
  if (!to) return false;
  const float minus_infinity = -INFINITY;
  for (int64_t i = 0; i < rows; i++)
    for (int64_t j = 0; j < columns; j++, to += width) {
      if (j < given)
        memcpy(to, (char *)t->data + (size_t)(i * given + j) * width, width);
      else if (t->dtype == ARRAY_BOOL)
        *to = 0;
      else if (attn_dtype_from_f32(conformance_dtype(t), &minus_infinity, to, 1))
        return conformance_fault(c, "%s", attn_last_error());
    }
  c->io.mask = c->mask;
  return true;
}

static bool make_mask(test_case *c) {
  attn_problem *p = &c->problem;
  const array *t = &c->t[MASK];
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  if (!c->has[MASK]) return true;
  if (t->ndim < 1 || t->ndim > 4) return conformance_fault(c, "attn_mask has rank %d", t->ndim);
  if (t->dtype == ARRAY_BOOL)
    p->mask = ATTN_MASK_BOOL;
  else if (conformance_dtype(t))
    p->mask = ATTN_MASK_ADDITIVE, p->mask_dtype = conformance_dtype(t);
  else
    return conformance_fault(c, "attn_mask is %s", array_dtype_name(t->dtype));
  for (int d = 0; d < 4; d++) {
    int at = d - (4 - t->ndim);
    int64_t size = p->mask_dims[d] = at < 0 ? 1 : t->shape[at];
    bool fits = d == 3 ? size <= full[d] : size == 1 || size == full[d];
    if (!fits)
      return conformance_fault(
          c, "attn_mask has %" PRId64 " in dimension %d from the right, not %" PRId64, size, 4 - d,
          full[d]);
  }
  c->io.mask = t->data;
  if (p->mask_dims[3] >= 2 || p->seq_kv < 1 || p->mask_dims[3] == p->seq_kv) return true;
  p->mask_dims[3] = p->seq_kv < 2 ? 1 : 2;
  return widen_mask(c, p->mask_dims[3]);
}

static bool make_lengths(test_case *c) {
  const array *t = &c->t[LENGTHS];
  int64_t past = c->has[PAST_K] ? c->t[PAST_K].shape[2] : 0;
  if (c->a.causal) {
    c->problem.causal = past ? ATTN_CAUSAL_OFFSET : ATTN_CAUSAL_TOP_LEFT;
    c->problem.causal_offset = past;
  }
  if (!c->has[LENGTHS]) return true;
  if (t->dtype != ARRAY_I64 || t->ndim != 1 || t->shape[0] != c->problem.batch)
    return conformance_fault(c, "nonpad_kv_seqlen is not i64 [batch]");
  c->lengths = allocate(c, (size_t)t->shape[0] * sizeof(*c->lengths));
  if (!c->lengths) return false;
  for (int64_t b = 0; b < t->shape[0]; b++) {
    int64_t length = ((const int64_t *)t->data)[b];
    if (length < 0 || length > c->problem.seq_kv || length > INT32_MAX)
      return conformance_fault(c, "nonpad_kv_seqlen[%" PRId64 "] is %" PRId64, b, length);
    c->lengths[b] = (int32_t)length;
  }
  c->problem.kv_lengths = true;
  c->io.kv_len = c->lengths;
  if (c->a.causal) c->problem.causal = ATTN_CAUSAL_BOTTOM_RIGHT, c->problem.causal_offset = 0;
  return true;
}

static bool make_outputs(test_case *c) {
  static const attn_weights modes[] = { ATTN_WEIGHTS_SCORES, ATTN_WEIGHTS_CAPPED,
                                        ATTN_WEIGHTS_MASKED, ATTN_WEIGHTS_PROBS };
  attn_problem *p = &c->problem;
  int64_t heads = p->heads_q, rows = p->seq_q, dim = c->v.dim;
  array want = { .ndim = c->t[Q].ndim, .shape = { p->batch, heads, rows, dim } };
  p->out_strides = (attn_strides){ heads * rows * dim, rows * dim, dim, 1 };
  if (want.ndim == 3) {
    want.shape[1] = rows, want.shape[2] = heads * dim;
    p->out_strides = (attn_strides){ heads * rows * dim, dim, heads * dim, 1 };
  }
  const array *y = &c->t[Y];
  bool same = y->ndim == want.ndim && y->dtype == c->t[Q].dtype;
  for (int d = 0; same && d < y->ndim; d++) same = y->shape[d] == want.shape[d];
  if (!same) return conformance_fault(c, "Y has another shape or dtype than Q, K and V make");
  c->io.out = c->out = allocate(c, y->bytes);
  if (!c->out || !c->has[QK]) return c->out;

  const array *w = &c->t[QK];
  if (w->ndim != 4 || w->shape[0] != p->batch || w->shape[1] != heads || w->shape[2] != rows ||
      w->shape[3] != p->seq_kv || !conformance_dtype(w))
    return conformance_fault(c, "qk_matmul_output has another shape or dtype than Q and K make");
  p->weights = modes[c->a.mode];
  c->weights_count = array_count(w);
  c->io.weights = c->weights = allocate(c, (size_t)c->weights_count * sizeof(float));
  return c->weights;
}

static bool make_problem(test_case *c) {
  if (!make_views(c)) return false;
  c->problem = (attn_problem){
    .batch = c->q.batch,
    .heads_q = c->q.heads,
    .heads_kv = c->k.heads,
    .seq_q = c->q.rows,
    .seq_kv = c->k.rows,
    .head_dim = c->q.dim,
    .head_dim_v = c->v.dim,
    .dtype = conformance_dtype(&c->t[Q]),
    .scale_set = c->a.scale_set,
    .scale = (float)c->a.scale,
    .softcap = (float)c->a.softcap,
    .layout = ATTN_LAYOUT_STRIDED,
    .q_strides = c->q.strides,
    .k_strides = c->k.strides,
    .v_strides = c->v.strides,
  };
  c->io = (attn_io){ .q = c->q.data, .k = c->k.data, .v = c->v.data };
  return make_mask(c) && make_lengths(c) && make_outputs(c);
}

void conformance_release(test_case *c) {
  for (int r = 0; r < ROLES; r++) array_release(&c->t[r]);
  free(c->joined_k), free(c->joined_v), free(c->mask);
  free(c->out), free(c->weights), free(c->lengths);
}

bool conformance_read(test_case *c) { return read_files(c) && make_problem(c); }
