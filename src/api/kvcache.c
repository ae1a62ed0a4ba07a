// SPDX-License-Identifier: Apache-2.0
#include "attn/kvcache.h"

#include <math.h>

#include "core/dtype.h"
#include "core/problem.h"
#include "core/size.h"
#include "core/status.h"

enum { CHUNK = 256 }; /* elements converted at a time; a multiple of every block */

#define FAIL_IF(condition, status, ...)                                                            \
  do {                                                                                             \
    if (condition) return core_fail(status, __VA_ARGS__);                                          \
  } while (0)

/* One of K and V: where rows come from and go to. */
typedef struct side {
  const char *name, *src;
  char *dst;
  float *scales;
  attn_strides from, to;
  int64_t dim;
} side;

typedef struct append {
  const attn_problem *p; /* resolved */
  const attn_kv_cache *cache;
  const attn_kv_rows *rows;
  attn_dtype dtype;
} append;

static int64_t count_of(const append *a, int64_t b) {
  return a->rows->counts ? a->rows->counts[b] : a->rows->count;
}

static int64_t position_of(const append *a, int64_t b) {
  return a->rows->position ? a->rows->position[b] : a->p->prefix;
}

static attn_status check_sequence(const append *a, int64_t b) {
  const attn_problem *p = a->p;
  int64_t count = count_of(a, b), at = position_of(a, b);
  FAIL_IF(count < 0 || count > a->rows->count, ATTN_ERROR_SHAPE,
          "rows.counts[%lld] of value (%lld) is not in [0, rows.count (%lld)]", (long long)b,
          (long long)count, (long long)a->rows->count);
  FAIL_IF(at < p->prefix || at > p->seq_kv, ATTN_ERROR_SHAPE,
          "rows.position[%lld] of value (%lld) is not in [prefix (%lld), seq_kv (%lld)]",
          (long long)b, (long long)at, (long long)p->prefix, (long long)p->seq_kv);
  FAIL_IF(count > p->seq_kv - at, ATTN_ERROR_SHAPE,
          "rows.position[%lld] (%lld) and %lld rows pass seq_kv (%lld)", (long long)b,
          (long long)at, (long long)count, (long long)p->seq_kv);
  if (!p->page_size || !count) return ATTN_OK;
  int64_t first = (at - p->prefix) / p->page_size,
          last = (at - p->prefix + count - 1) / p->page_size;
  for (int64_t i = first; i <= last; i++) {
    int32_t page = a->cache->block_table[b * p->pages_per_seq + i];
    FAIL_IF(page < 0 || page >= p->num_pages, ATTN_ERROR_SHAPE,
            "block_table[%lld][%lld] of value (%d) is not in [0, num_pages (%lld))", (long long)b,
            (long long)i, page, (long long)p->num_pages);
  }
  return ATTN_OK;
}

/* Whether the distances that the rows of `s` are read at fit. */
static attn_status check_source(const append *a, const side *s) {
  static const char *const dims[4] = { "batch", "head", "row", "col" };
  const int64_t stride[4] = { s->from.batch, s->from.head, s->from.row, s->from.col };
  const int64_t size[4] = { a->p->batch, a->p->heads_kv, a->rows->count, s->dim };
  int64_t span = 1;
  for (int i = 0; i < 4; i++) {
    int64_t step, bytes;
    FAIL_IF(stride[i] < 0, ATTN_ERROR_STRIDE, "rows.%s_strides.%s of value (%lld) is negative",
            s->name, dims[i], (long long)stride[i]);
    FAIL_IF(!size_mul(size[i] - 1, stride[i], &step) || !size_add(span, step, &span) ||
                !size_mul(span, 4, &bytes),
            ATTN_ERROR_OVERFLOW,
            "the bytes of rows.%s, %lld apart in %s of size (%lld), do not fit 63 bits", s->name,
            (long long)stride[i], dims[i], (long long)size[i]);
  }
  return ATTN_OK;
}

/* Sufficient for distinct addresses: by ascending stride, each steps over all that lies inside. */
static attn_status check_distinct(const append *a, const side *s) {
  const attn_problem *p = a->p;
  const int64_t stride[4] = { s->to.batch, s->to.head, s->to.row, s->to.col };
  const int64_t size[4] = { p->page_size ? p->num_pages : p->batch, p->heads_kv,
                            p->page_size ? p->page_size : problem_own_keys(p, p->seq_kv), s->dim };
  int64_t inside = 1;
  for (int i = 0; i < 4; i++)
    if (!size[i]) return ATTN_OK;
  for (int done = 0, step = 0; step < 4; step++) {
    int least = -1;
    for (int i = 0; i < 4; i++)
      if (!(done >> i & 1) && (least < 0 || stride[i] < stride[least])) least = i;
    done |= 1 << least;
    if (size[least] == 1) continue;
    FAIL_IF(stride[least] < inside, ATTN_ERROR_STRIDE,
            "%s_strides (%lld, %lld, %lld, %lld) let elements of cache.%s overlap", s->name,
            (long long)stride[0], (long long)stride[1], (long long)stride[2], (long long)stride[3],
            s->name);
    inside += (size[least] - 1) * stride[least];
  }
  return ATTN_OK;
}

static attn_status check_side(const append *a, const side *s) {
  const attn_problem *p = a->p;
  attn_fp8_scale kind = problem_fp8_scale(p, p->kv_dtype);
  FAIL_IF(!s->src, ATTN_ERROR_NULL, "rows.%s is NULL", s->name);
  FAIL_IF(!s->dst, ATTN_ERROR_NULL, "cache.%s is NULL", s->name);
  FAIL_IF((p->kv_dtype == ATTN_INT8 || kind) && !s->scales, ATTN_ERROR_NULL,
          "cache.%s_scale is NULL", s->name);
  for (int64_t h = 0; kind && h < (kind == ATTN_FP8_SCALE_HEAD ? p->heads_kv : 1); h++)
    FAIL_IF(!isfinite(s->scales[h]) || s->scales[h] == 0, ATTN_ERROR_VALUE,
            "cache.%s_scale[%lld] of value (%g) is not finite and other than 0", s->name,
            (long long)h, (double)s->scales[h]);
  attn_status status = check_source(a, s);
  return status ? status : check_distinct(a, s);
}

static attn_status check(const append *a, const side sides[2]) {
  const attn_problem *p = a->p;
  const attn_kv_rows *r = a->rows;
  FAIL_IF(p->varlen, ATTN_ERROR_VALUE, "varlen keys are packed: there is no room to append to");
  FAIL_IF(a->dtype != ATTN_F32 && a->dtype != ATTN_F16 && a->dtype != ATTN_BF16, ATTN_ERROR_DTYPE,
          "rows.dtype of value (%d) is none of f32, f16, bf16", (int)r->dtype);
  FAIL_IF(r->count < 0, ATTN_ERROR_SHAPE, "rows.count of value (%lld) is negative",
          (long long)r->count);
  if (!r->count || !p->batch || !p->heads_kv) return ATTN_OK;
  FAIL_IF(p->page_size && !a->cache->block_table, ATTN_ERROR_NULL, "cache.block_table is NULL");
  attn_status status = check_side(a, &sides[0]);
  if (!status) status = check_side(a, &sides[1]);
  for (int64_t b = 0; !status && b < p->batch; b++) status = check_sequence(a, b);
  return status;
}

/* Elements [c, c + n) of a source row as f32. */
static void read_row(attn_dtype dtype, const char *row, int64_t col, int64_t c, int64_t n,
                     float *out) {
  const dtype_info *t = dtype_get(dtype);
  if (col == 1) {
    t->to_f32(row + c * t->block_bytes, out, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) t->to_f32(row + (c + i) * col * t->block_bytes, out + i, 1);
}

static float largest(attn_dtype dtype, const char *row, int64_t col, int64_t dim) {
  float most = 0, x[CHUNK];
  for (int64_t c = 0; c < dim; c += CHUNK) {
    int64_t n = size_min(CHUNK, dim - c);
    read_row(dtype, row, col, c, n, x);
    for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(x[i])); // NaN does not count
  }
  return most;
}

static void write_row(const dtype_info *t, const float *x, char *row, int64_t col, int64_t c,
                      int64_t n) {
  if (col == 1) {
    t->from_f32(x, row + c / t->block * t->block_bytes, n);
    return;
  }
  for (int64_t i = 0; i < n; i++) t->from_f32(x + i, row + (c + i) * col * t->block_bytes, 1);
}

/* Converts one row; `divisor` 0 leaves zeros, as int8 rows of nothing but 0 have. */
static void convert_row(const append *a, const side *s, const char *src, char *dst, float divisor) {
  const dtype_info *t = dtype_get(a->p->kv_dtype);
  float x[CHUNK];
  for (int64_t c = 0; c < s->dim; c += CHUNK) {
    int64_t n = size_min(CHUNK, s->dim - c);
    read_row(a->dtype, src, s->from.col, c, n, x);
    // a true division: the inverse of a denormal scale is infinite
    for (int64_t i = 0; divisor != 1 && i < n; i++) x[i] = divisor == 0 ? 0 : x[i] / divisor;
    write_row(t, x, dst, s->to.col, c, n);
  }
}

static void append_row(const append *a, const side *s, int64_t b, int64_t h, int64_t i) {
  const attn_problem *p = a->p;
  int64_t j = position_of(a, b) - p->prefix + i, outer = b, row = j;
  int64_t token = b * problem_own_keys(p, p->seq_kv) + j;
  if (p->page_size) {
    outer = a->cache->block_table[b * p->pages_per_seq + j / p->page_size];
    row = j % p->page_size;
    token = outer * p->page_size + row;
  }
  const dtype_info *from = dtype_get(a->dtype), *to = dtype_get(p->kv_dtype);
  int64_t in = b * s->from.batch + h * s->from.head + i * s->from.row;
  int64_t out = outer * s->to.batch + h * s->to.head + row * s->to.row;
  const char *src = s->src + in * from->block_bytes;
  float divisor = 1;
  attn_fp8_scale kind = problem_fp8_scale(p, p->kv_dtype);
  if (kind) divisor = s->scales[kind == ATTN_FP8_SCALE_HEAD ? h : 0];
  if (p->kv_dtype == ATTN_INT8) {
    divisor = largest(a->dtype, src, s->from.col, s->dim) / 127;
    s->scales[token * p->heads_kv + h] = divisor;
  }
  convert_row(a, s, src, s->dst + out / to->block * to->block_bytes, divisor);
}

/* Saturates: the overflow is found in check_source, where the distance is used. */
static int64_t product(int64_t x, int64_t y) {
  int64_t r;
  return size_mul(x, y, &r) ? r : INT64_MAX;
}

static attn_strides source_strides(const attn_strides *given, const append *a, int64_t dim) {
  attn_strides s = *given;
  if (!s.batch && !s.head && !s.row && !s.col) {
    s.row = dim, s.head = product(size_max(a->rows->count, 0), dim);
    s.batch = product(a->p->heads_kv, s.head);
  }
  if (!s.col) s.col = 1;
  return s;
}

attn_status attn_kv_append(const attn_problem *problem, const attn_kv_cache *cache,
                           const attn_kv_rows *rows) {
  attn_problem p;
  if (!cache || !rows) return core_fail(ATTN_ERROR_NULL, "%s is NULL", cache ? "rows" : "cache");
  attn_status status = attn_problem_resolve(problem, &p);
  if (status) return status;
  append a = { &p, cache, rows, rows->dtype ? rows->dtype : ATTN_F32 };
  const side sides[2] = {
    { "k", rows->k, cache->k, cache->k_scale, source_strides(&rows->k_strides, &a, p.head_dim),
      p.k_strides, p.head_dim },
    { "v", rows->v, cache->v, cache->v_scale, source_strides(&rows->v_strides, &a, p.head_dim_v),
      p.v_strides, p.head_dim_v },
  };
  status = check(&a, sides);
  if (status || !rows->count) return status;
  for (int64_t b = 0; b < p.batch; b++)
    for (int64_t h = 0; h < p.heads_kv; h++)
      for (int64_t i = 0; i < count_of(&a, b); i++) {
        append_row(&a, &sides[0], b, h, i);
        append_row(&a, &sides[1], b, h, i);
      }
  return ATTN_OK;
}
