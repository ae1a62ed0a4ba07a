// SPDX-License-Identifier: Apache-2.0
/* attn-conformance: stored cases of the ONNX operator Attention against the library's public API.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "array.h"
#include "cli.h"

static const char help[] =
    "usage: attn-conformance FOLDER [--backend NAME|all]\n\n"
    "Runs every sub-folder of FOLDER that has a case.json (see tests/conformance/README.md) and\n"
    "compares the results with the stored ones. A case that nothing may run is skipped, with the\n"
    "reasons. Ends with 'N passed, N failed, N skipped' and exits with 1 when a case failed or\n"
    "there was none.\n\n"
    "  --backend NAME   this backend alone; all: every CPU backend that takes the case, each in\n"
    "                   turn; default: the one that selection chooses\n";

enum role { Q, K, V, MASK, PAST_K, PAST_V, LENGTHS, Y, PRESENT_K, PRESENT_V, QK, ROLES };
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

typedef struct tolerance {
  attn_dtype dtype;
  double absolute, relative;
} tolerance;
static const tolerance tolerances[] = { { ATTN_F32, 1e-5, 1e-5 }, { ATTN_F16, 2e-3, 2e-3 } };
enum { TOLERANCES = sizeof(tolerances) / sizeof(tolerances[0]), WHY = 512 };

typedef struct attributes {
  int64_t q_heads, kv_heads, causal, mode, softmax_precision;
  double scale, softcap;
  bool scale_set;
} attributes;

/* A tensor of rank 3 or 4 seen as [batch, heads, seq, dim]; rows are contiguous. */
typedef struct view {
  const char *data;
  int64_t batch, heads, rows, dim;
  attn_strides strides;
} view;

typedef struct test_case {
  const char *name;
  char folder[PATH_MAX];
  array t[ROLES];
  bool has[ROLES];
  attributes a;
  view q, k, v;
  char *joined_k, *joined_v, *mask, *out;
  float *weights;
  int32_t *lengths;
  int64_t weights_count;
  attn_problem problem;
  attn_io io;
  char why[WHY];
} test_case;

typedef struct runner {
  attn_context *contexts[ATTN_BACKEND_COUNT];
  int count;
  int64_t passed, failed, skipped;
} runner;

static bool fault(test_case *c, const char *format, ...) __attribute__((format(printf, 2, 3)));
static bool fault(test_case *c, const char *format, ...) {
  va_list args;
  va_start(args, format);
  vsnprintf(c->why, sizeof(c->why), format, args);
  va_end(args);
  return false;
}

static void append(test_case *c, const char *separator, const char *text) {
  size_t used = strlen(c->why);
  snprintf(c->why + used, sizeof(c->why) - used, "%s%s", separator, text ? text : "?");
}

static void *allocate(test_case *c, size_t bytes) {
  void *p = malloc(bytes ? bytes : 1);
  if (!p) fault(c, "no memory for %zu bytes", bytes);
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
  if (i == count) return fault(c, "unknown attribute %s", key);
  if (known[i].real) {
    if (!json_is_number(value)) return fault(c, "attribute %s is no number", key);
    *known[i].real = json_number_value(value);
    a->scale_set = a->scale_set || known[i].real == &a->scale;
    return true;
  }
  int64_t x = *known[i].integer = json_integer_value(value);
  if (json_is_integer(value) && x >= known[i].low && x <= known[i].high) return true;
  return fault(c, "attribute %s is no integer in %" PRId64 "..%" PRId64, key, known[i].low,
               known[i].high);
}

static bool read_attributes(test_case *c, json_t *object) {
  const char *key;
  json_t *value;
  if (!json_is_object(object)) return fault(c, "case.json has no object \"attributes\"");
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
  return same || fault(c, "%s.npy has another shape than case.json says", role_names[role]);
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
      return fault(c, "%s.npy: %s", role_names[r], err);
    c->has[r] = true;
    if (tensor && !shape_agrees(c, r, tensor)) return false;
  }
  if (c->has[PAST_K] != c->has[PAST_V]) return fault(c, "past_key and past_value go together");
  return true;
}

static bool read_case(test_case *c) {
  char path[PATH_MAX + 32];
  json_error_t error;
  snprintf(path, sizeof(path), "%s/case.json", c->folder);
  json_t *root = json_load_file(path, JSON_REJECT_DUPLICATES, &error);
  if (!root) return fault(c, "case.json, line %d: %s", error.line, error.text);
  bool ok = read_attributes(c, json_object_get(root, "attributes")) && read_tensors(c, root);
  json_decref(root);
  return ok;
}

/* ---- From a case to a problem */

static attn_dtype float_dtype(const array *t) {
  if (t->dtype == ARRAY_F32) return ATTN_F32;
  return t->dtype == ARRAY_F16 ? ATTN_F16 : ATTN_DTYPE_DEFAULT;
}

static bool see(test_case *c, int role, int64_t heads, view *v) {
  const array *t = &c->t[role];
  const int64_t *s = t->shape;
  const char *name = role_names[role];
  if (!float_dtype(t))
    return fault(c, "%s is %s, not f32 or f16", name, array_dtype_name(t->dtype));
  if (t->ndim == 4) {
    *v = (view){ t->data, s[0], s[1], s[2], s[3], { s[1] * s[2] * s[3], s[2] * s[3], s[3], 1 } };
  } else if (t->ndim == 3) {
    if (heads < 1) return fault(c, "%s has rank 3, the number of heads is missing", name);
    if (s[2] % heads)
      return fault(c, "%s has rows of %" PRId64 " for %" PRId64 " heads", name, s[2], heads);
    int64_t dim = s[2] / heads;
    *v = (view){ t->data, s[0], heads, s[1], dim, { s[1] * s[2], dim, s[2], 1 } };
  } else {
    return fault(c, "%s has rank %d, not 3 or 4", name, t->ndim);
  }
  if (v->heads < 1 || v->dim < 1) return fault(c, "%s has no heads or empty rows", name);
  if (heads && v->heads != heads)
    return fault(c, "%s has %" PRId64 " heads, the attribute says %" PRId64, name, v->heads, heads);
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
    if (c->t[past_role].ndim != 4) return fault(c, "%s has no rank 4", role_names[past_role]);
    if (!see(c, past_role, 0, &past)) return false;
    if (past.batch != now->batch || past.heads != now->heads || past.dim != now->dim ||
        c->t[past_role].dtype != c->t[Q].dtype)
      return fault(c, "%s does not fit what it precedes", role_names[past_role]);
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
    return fault(c, "Q, K and V differ in rank");
  if (c->t[K].dtype != c->t[Q].dtype || c->t[V].dtype != c->t[Q].dtype)
    return fault(c, "Q, K and V differ in dtype");
  /* Joined only where needed: K and V of rank 3 are else read through their strides. */
  if ((c->has[PAST_K] || c->has[PRESENT_K]) && !join(c, PAST_K, &c->k, &c->joined_k)) return false;
  if ((c->has[PAST_V] || c->has[PRESENT_V]) && !join(c, PAST_V, &c->v, &c->joined_v)) return false;
  const view *k = &c->k, *v = &c->v;
  if (k->batch != c->q.batch || v->batch != c->q.batch || k->dim != c->q.dim ||
      v->heads != k->heads || v->rows != k->rows)
    return fault(c, "Q, K and V disagree in size");
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
      else if (attn_dtype_from_f32(float_dtype(t), &minus_infinity, to, 1))
        return fault(c, "%s", attn_last_error());
    }
  c->io.mask = c->mask;
  return true;
}

static bool make_mask(test_case *c) {
  attn_problem *p = &c->problem;
  const array *t = &c->t[MASK];
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  if (!c->has[MASK]) return true;
  if (t->ndim < 1 || t->ndim > 4) return fault(c, "attn_mask has rank %d", t->ndim);
  if (t->dtype == ARRAY_BOOL)
    p->mask = ATTN_MASK_BOOL;
  else if (float_dtype(t))
    p->mask = ATTN_MASK_ADDITIVE, p->mask_dtype = float_dtype(t);
  else
    return fault(c, "attn_mask is %s", array_dtype_name(t->dtype));
  for (int d = 0; d < 4; d++) {
    int at = d - (4 - t->ndim);
    int64_t size = p->mask_dims[d] = at < 0 ? 1 : t->shape[at];
    bool fits = d == 3 ? size <= full[d] : size == 1 || size == full[d];
    if (!fits)
      return fault(c, "attn_mask has %" PRId64 " in dimension %d from the right, not %" PRId64,
                   size, 4 - d, full[d]);
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
    return fault(c, "nonpad_kv_seqlen is not i64 [batch]");
  c->lengths = allocate(c, (size_t)t->shape[0] * sizeof(*c->lengths));
  if (!c->lengths) return false;
  for (int64_t b = 0; b < t->shape[0]; b++) {
    int64_t length = ((const int64_t *)t->data)[b];
    if (length < 0 || length > c->problem.seq_kv || length > INT32_MAX)
      return fault(c, "nonpad_kv_seqlen[%" PRId64 "] is %" PRId64, b, length);
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
  if (!same) return fault(c, "Y has another shape or dtype than Q, K and V make");
  c->io.out = c->out = allocate(c, y->bytes);
  if (!c->out || !c->has[QK]) return c->out;

  const array *w = &c->t[QK];
  if (w->ndim != 4 || w->shape[0] != p->batch || w->shape[1] != heads || w->shape[2] != rows ||
      w->shape[3] != p->seq_kv || !float_dtype(w))
    return fault(c, "qk_matmul_output has another shape or dtype than Q and K make");
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
    .dtype = float_dtype(&c->t[Q]),
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

static void release(test_case *c) {
  for (int r = 0; r < ROLES; r++) array_release(&c->t[r]);
  free(c->joined_k), free(c->joined_v), free(c->mask);
  free(c->out), free(c->weights), free(c->lengths);
}

/* ---- Comparing */

static bool compare(test_case *c, int role, attn_dtype dtype, const void *got, double *worst) {
  const array *t = &c->t[role];
  const tolerance *limit = tolerances;
  while (limit->dtype != c->problem.dtype) limit++;
  for (int64_t i = 0, count = array_count(t); i < count; i++) {
    double want = attn_dtype_load(float_dtype(t), t->data, i), x = attn_dtype_load(dtype, got, i);
    if (x == want || (isnan(x) && isnan(want))) continue;
    double error = fabs(x - want);
    /* Written so that a NaN or an infinite error fails. */
    bool ok = isfinite(want) && error <= limit->absolute + limit->relative * fabs(want);
    if (!ok && !c->why[0])
      fault(c, "%s[%" PRId64 "] is %.9g, expected %.9g", role_names[role], i, x, want);
    if (!(error <= *worst)) *worst = isnan(*worst) ? *worst : error;
  }
  return !c->why[0];
}

static bool present_equals(test_case *c, int role, const view *joined) {
  const array *t = &c->t[role];
  if (!c->has[role]) return true;
  if (t->ndim != 4 || t->dtype != c->t[Q].dtype || t->shape[0] != joined->batch ||
      t->shape[1] != joined->heads || t->shape[2] != joined->rows || t->shape[3] != joined->dim)
    return fault(c, "%s has another shape or dtype than the joined input", role_names[role]);
  if (!memcmp(t->data, joined->data, t->bytes)) return true;
  return fault(c, "%s differs from the joined input", role_names[role]);
}

/* ---- Running */

static void say(const test_case *c, const char *verdict, const char *implementation, double error) {
  printf("%-4s %s %s ", verdict, c->name, implementation);
  if (error < 0)
    printf("-");
  else
    printf("%.1e", error);
  printf("%s%s\n", c->why[0] ? " " : "", c->why);
}

static bool tells(attn_reason_code code) {
  return code != ATTN_REASON_DEVICE_ABSENT && code != ATTN_REASON_PLUGIN_ABSENT &&
         code != ATTN_REASON_STRICT;
}

/* "flash/cpu/avx2:weights,mask ...". An implementation that is out for a reason that lies not in
 * the case says nothing about it. */
static void explain(test_case *c, const attn_recommendation *r) {
  c->why[0] = 0;
  for (int i = 0; i < r->rejection_count; i++) {
    const attn_rejection *x = &r->rejections[i];
    const attn_reason *reasons = r->reasons + x->first_reason;
    bool use = true;
    for (int k = 0; k < x->reason_count; k++) use = use && tells(reasons[k].code);
    if (!use) continue;
    append(c, c->why[0] ? " " : "", x->implementation);
    for (int k = 0; k < x->reason_count; k++)
      append(c, k ? "," : ":", attn_reason_name(reasons[k].code));
  }
  if (!c->why[0]) fault(c, "%s", attn_last_error());
}

/* To the library a key past its sequence's length has no score; the operator's scores before masks
 * cover it: they take a call without lengths. */
static bool unmasked_scores(test_case *c, attn_context *context) {
  attn_problem p = c->problem;
  if (!p.kv_lengths || c->a.mode > 1) return true;
  p.kv_lengths = false;
  p.causal = ATTN_CAUSAL_NONE;
  return !attn_sdpa(context, &p, &c->io) || fault(c, "scores: %s", attn_last_error());
}

/* False where the context's backends refuse the case; c->why then says so. */
static bool run_on(runner *t, test_case *c, attn_context *context) {
  attn_recommendation r;
  double worst = 0;
  memset(&r, 0, sizeof(r));
  c->why[0] = 0;
  attn_status status = attn_select(context, &c->problem, &r);
  if (status == ATTN_ERROR_UNSUPPORTED) {
    explain(c, &r);
    return false;
  }
  /* All bits set is NaN in each dtype: an element that is not written shows. */
  memset(c->out, 0xff, c->t[Y].bytes);
  if (c->weights) memset(c->weights, 0xff, (size_t)c->weights_count * sizeof(float));
  if (!status) status = attn_sdpa(context, &c->problem, &c->io);
  if (status) {
    fault(c, "%s: %s", attn_status_string(status), attn_last_error());
    worst = -1;
  } else {
    compare(c, Y, c->problem.dtype, c->out, &worst);
    if (c->weights && unmasked_scores(c, context)) compare(c, QK, ATTN_F32, c->weights, &worst);
    if (!c->why[0] && present_equals(c, PRESENT_K, &c->k)) present_equals(c, PRESENT_V, &c->v);
  }
  if (c->why[0])
    t->failed++;
  else
    t->passed++;
  say(c, c->why[0] ? "FAIL" : "ok", r.implementation[0] ? r.implementation : "-", worst);
  return true;
}

static void run_case(runner *t, const char *folder, const char *name) {
  test_case c = { .name = name };
  int n = snprintf(c.folder, sizeof(c.folder), "%s/%s", folder, name);
  if (n >= (int)sizeof(c.folder)) fault(&c, "the path is too long");
  if (c.why[0] || !read_case(&c) || !make_problem(&c)) {
    t->failed++;
    say(&c, "FAIL", "-", -1);
  } else {
    bool ran = false;
    for (int i = 0; i < t->count; i++) ran |= run_on(t, &c, t->contexts[i]);
    if (!ran) {
      t->skipped++;
      say(&c, "skip", "-", -1);
    }
  }
  release(&c);
}

static bool has_case(const char *folder, const char *name) {
  char path[PATH_MAX];
  int n = snprintf(path, sizeof(path), "%s/%s/case.json", folder, name);
  return n >= (int)sizeof(path) || !access(path, F_OK);
}

static int run_folder(runner *t, const char *folder) {
  struct dirent **entries;
  int count = scandir(folder, &entries, NULL, alphasort);
  if (count < 0) {
    fprintf(stderr, "attn-conformance: cannot list %s: %s\n", folder, strerror(errno));
    return CLI_FAILED;
  }
  bool found = false;
  for (int i = 0; i < count; i++) {
    const char *name = entries[i]->d_name;
    if (strcmp(name, ".") && strcmp(name, "..") && has_case(folder, name)) {
      run_case(t, folder, name);
      found = true;
    }
    free(entries[i]);
  }
  free(entries);
  if (!found) fprintf(stderr, "attn-conformance: no case in %s\n", folder);
  printf("%" PRId64 " passed, %" PRId64 " failed, %" PRId64 " skipped\n", t->passed, t->failed,
         t->skipped);
  return t->failed || !found ? CLI_FAILED : CLI_OK;
}

static bool open_contexts(runner *t, bool all, attn_backend backend) {
  static const attn_backend cpu[] = {
    ATTN_BACKEND_FLASH, ATTN_BACKEND_MATH,         ATTN_BACKEND_MEMORY_EFFICIENT,
    ATTN_BACKEND_CPU,   ATTN_BACKEND_FLASH_DECODE, ATTN_BACKEND_VARLEN
  };
  attn_config config = { .no_measure = true };
  for (int count = all ? (int)(sizeof(cpu) / sizeof(cpu[0])) : 1; t->count < count; t->count++) {
    config.preferred = all ? cpu[t->count] : backend;
    config.strict = config.preferred != ATTN_BACKEND_AUTO;
    if (attn_context_create(&config, &t->contexts[t->count])) {
      fprintf(stderr, "attn-conformance: %s\n", attn_last_error());
      return false;
    }
  }
  return true;
}

static int usage(const char *what, const char *word) {
  fprintf(stderr, "attn-conformance: %s%s\ntry attn-conformance --help\n", what, word);
  return CLI_USAGE;
}

int main(int argc, char **argv) {
  const char *folder = NULL, *value;
  attn_backend backend = ATTN_BACKEND_AUTO;
  bool all = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--help") || !strcmp(argv[i], "-h")) {
      fputs(help, stdout);
      return cli_finish(CLI_OK);
    }
    if (!strncmp(argv[i], "--backend", 9) && (!argv[i][9] || argv[i][9] == '=')) {
      value = argv[i][9] ? argv[i] + 10 : argv[++i];
      if (!value) return usage("--backend needs a value", "");
      all = !strcmp(value, "all");
      if (!all && attn_backend_from_name(value, &backend))
        return usage("--backend: ", attn_last_error());
    } else if (argv[i][0] == '-' && argv[i][1]) {
      return usage("unknown option ", argv[i]);
    } else if (folder) {
      return usage("more than one folder: ", argv[i]);
    } else {
      folder = argv[i];
    }
  }
  if (!folder) return usage("needs a FOLDER", "");

  runner t = { 0 };
  int status = CLI_FAILED;
  if (open_contexts(&t, all, backend)) {
    for (size_t i = 0; i < TOLERANCES; i++)
      printf("tolerance %s: %g absolute + %g relative\n", attn_dtype_name(tolerances[i].dtype),
             tolerances[i].absolute, tolerances[i].relative);
    status = run_folder(&t, folder);
  }
  for (int i = 0; i < t.count; i++) attn_context_destroy(t.contexts[i]);
  return cli_finish(status);
}
