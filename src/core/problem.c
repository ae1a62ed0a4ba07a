// SPDX-License-Identifier: Apache-2.0
/* Defaults, validation and sizes of a problem. */
#include "core/problem.h"

#include <math.h>
#include <string.h>

#include "core/dtype.h"
#include "core/size.h"
#include "core/status.h"

#define FAIL_IF(condition, status, ...)                                                            \
  do {                                                                                             \
    if (condition) return core_fail(status, __VA_ARGS__);                                          \
  } while (0)

/* Beyond it f32 scores of ordinary queries and keys (to 1e8) would overflow. */
static const float LARGEST_SCALE = 1e30f;

static bool is_fp8(attn_dtype t) { return t == ATTN_F8E4M3 || t == ATTN_F8E5M2; }

static attn_status check_enums(const attn_problem *p) {
#define ENUM(field, count)                                                                         \
  FAIL_IF((unsigned)p->field >= (unsigned)(count), ATTN_ERROR_VALUE,                               \
          #field " of value (%d) is not in [0, %d)", (int)p->field, (int)(count))
  ENUM(causal, ATTN_CAUSAL_COUNT);
  ENUM(window_align, ATTN_CAUSAL_COUNT);
  ENUM(mask, ATTN_MASK_KIND_COUNT);
  ENUM(layout, ATTN_LAYOUT_COUNT);
  ENUM(weights, ATTN_WEIGHTS_COUNT);
  ENUM(fp8_scale, ATTN_FP8_SCALE_COUNT);
#undef ENUM
#define DTYPE(field)                                                                               \
  FAIL_IF((unsigned)p->field >= ATTN_DTYPE_COUNT, ATTN_ERROR_DTYPE,                                \
          #field " of value (%d) is no dtype", (int)p->field)
  DTYPE(dtype);
  DTYPE(kv_dtype);
  DTYPE(out_dtype);
  DTYPE(mask_dtype);
#undef DTYPE
  return ATTN_OK;
}

static attn_status check_sizes(const attn_problem *p) {
#define SIZE(field)                                                                                \
  FAIL_IF(p->field < 0, ATTN_ERROR_SHAPE, #field " of value (%lld) is negative",                   \
          (long long)p->field)
  SIZE(batch);
  SIZE(heads_q);
  SIZE(heads_kv);
  SIZE(seq_q);
  SIZE(seq_kv);
  SIZE(prefix);
  SIZE(head_dim);
  SIZE(head_dim_v);
  SIZE(page_size);
  SIZE(num_pages);
  SIZE(pages_per_seq);
  SIZE(total_q);
  SIZE(total_kv);
#undef SIZE
  FAIL_IF(p->head_dim == 0, ATTN_ERROR_SHAPE, "head_dim of value (0) is less than 1");
  FAIL_IF(p->heads_kv ? p->heads_q % p->heads_kv != 0 : false, ATTN_ERROR_SHAPE,
          "heads_q of value (%lld) is not a multiple of heads_kv (%lld)", (long long)p->heads_q,
          (long long)p->heads_kv);
  return ATTN_OK;
}

static attn_status check_numbers(const attn_problem *p) {
  FAIL_IF(isfinite(p->scale) && fabsf(p->scale) > LARGEST_SCALE, ATTN_ERROR_VALUE,
          "scale of value (%g) is not in [-%g, %g]", (double)p->scale, (double)LARGEST_SCALE,
          (double)LARGEST_SCALE);
  FAIL_IF(!isfinite(p->scale), ATTN_ERROR_VALUE, "scale of value (%g) is not finite",
          (double)p->scale);
  FAIL_IF(!(p->softcap >= 0) || !isfinite(p->softcap), ATTN_ERROR_VALUE,
          "softcap of value (%g) is not a finite number >= 0", (double)p->softcap);
  FAIL_IF(!(p->dropout >= 0) || !(p->dropout < 1), ATTN_ERROR_VALUE,
          "dropout of value (%g) is not in [0, 1)", (double)p->dropout);
  FAIL_IF(p->window_align == ATTN_CAUSAL_OFFSET, ATTN_ERROR_VALUE,
          "window_align cannot be an offset: set causal, whose offset the window follows");
  return ATTN_OK;
}

static attn_status check_dtypes(const attn_problem *r) {
  bool q_ok = r->dtype == ATTN_F32 || r->dtype == ATTN_F16 || r->dtype == ATTN_BF16 ||
              r->dtype == ATTN_F64 || is_fp8(r->dtype);
  FAIL_IF(!q_ok, ATTN_ERROR_DTYPE, "dtype of value (%s) is for a KV cache only",
          attn_dtype_name(r->dtype));
  FAIL_IF((r->kv_dtype == ATTN_F64) != (r->dtype == ATTN_F64), ATTN_ERROR_DTYPE,
          "kv_dtype of value (%s) does not go with dtype (%s)", attn_dtype_name(r->kv_dtype),
          attn_dtype_name(r->dtype));
  FAIL_IF(r->out_dtype != r->dtype && r->out_dtype != ATTN_F32, ATTN_ERROR_DTYPE,
          "out_dtype of value (%s) is neither dtype (%s) nor f32", attn_dtype_name(r->out_dtype),
          attn_dtype_name(r->dtype));
  FAIL_IF(r->mask == ATTN_MASK_ADDITIVE && r->mask_dtype != ATTN_F32 && r->mask_dtype != ATTN_F16 &&
              r->mask_dtype != ATTN_BF16,
          ATTN_ERROR_DTYPE, "mask_dtype of value (%s) is none of f32, f16, bf16",
          attn_dtype_name(r->mask_dtype));
  FAIL_IF(r->fp8_scale && !is_fp8(r->dtype) && !is_fp8(r->kv_dtype), ATTN_ERROR_DTYPE,
          "fp8_scale is set, but neither dtype (%s) nor kv_dtype (%s) is an fp8 type",
          attn_dtype_name(r->dtype), attn_dtype_name(r->kv_dtype));
  int64_t block = dtype_get(r->kv_dtype)->block;
  if (block == 1) return ATTN_OK; // saves two divisions
  FAIL_IF(r->head_dim % block, ATTN_ERROR_SHAPE,
          "head_dim of value (%lld) is not a multiple of %lld, the block of %s",
          (long long)r->head_dim, (long long)block, attn_dtype_name(r->kv_dtype));
  FAIL_IF(r->head_dim_v % block, ATTN_ERROR_SHAPE,
          "head_dim_v of value (%lld) is not a multiple of %lld, the block of %s",
          (long long)r->head_dim_v, (long long)block, attn_dtype_name(r->kv_dtype));
  return ATTN_OK;
}

static attn_status check_layout_fields(const attn_problem *r) {
  int64_t capacity;
  if (r->page_size) {
    FAIL_IF(!size_mul(r->pages_per_seq, r->page_size, &capacity), ATTN_ERROR_OVERFLOW,
            "pages_per_seq (%lld) times page_size (%lld) overflows", (long long)r->pages_per_seq,
            (long long)r->page_size);
    FAIL_IF(capacity < problem_own_keys(r, r->seq_kv), ATTN_ERROR_SHAPE,
            "seq_kv of value (%lld) less prefix (%lld) exceeds pages_per_seq * page_size (%lld)",
            (long long)r->seq_kv, (long long)r->prefix, (long long)capacity);
  } else {
    FAIL_IF(r->num_pages || r->pages_per_seq, ATTN_ERROR_SHAPE,
            "page_size is 0, but num_pages (%lld) or pages_per_seq (%lld) is not",
            (long long)r->num_pages, (long long)r->pages_per_seq);
    FAIL_IF(r->varlen && r->kv_lengths, ATTN_ERROR_VALUE,
            "kv_lengths cannot be set with varlen: cu_seqlens_kv gives the lengths");
  }
  FAIL_IF(r->prefix > r->seq_kv, ATTN_ERROR_SHAPE, "prefix of value (%lld) exceeds seq_kv (%lld)",
          (long long)r->prefix, (long long)r->seq_kv);
  FAIL_IF(r->varlen && r->weights, ATTN_ERROR_VALUE, "weights are not available for varlen");
  FAIL_IF(!r->varlen && (r->total_q || r->total_kv), ATTN_ERROR_SHAPE,
          "varlen is not set, but total_q (%lld) or total_kv (%lld) is", (long long)r->total_q,
          (long long)r->total_kv);
  return ATTN_OK;
}

static attn_status check_mask(const attn_problem *r) {
  static const char *const names[4] = { "batch", "heads_q", "seq_q", "seq_kv" };
  const int64_t full[4] = { r->batch, r->heads_q, r->seq_q, r->seq_kv };
  if (!r->mask) return ATTN_OK;
  for (int i = 0; i < 4; i++) {
    int64_t d = r->mask_dims[i];
    FAIL_IF(d != 1 && d != full[i] && !(i == 3 && d >= 0 && d < full[3]), ATTN_ERROR_SHAPE,
            "mask_dims[%d] of value (%lld) is neither 1 nor %s (%lld)", i, (long long)d, names[i],
            (long long)full[i]);
    FAIL_IF(r->mask_strides[i] < 0, ATTN_ERROR_STRIDE,
            "mask_strides[%d] of value (%lld) is negative", i, (long long)r->mask_strides[i]);
  }
  FAIL_IF(
      r->mask_strides[3] == 0 && r->mask_dims[3] > 1, ATTN_ERROR_STRIDE,
      "mask_strides[3] of value (0) expands mask_dims[3] of value (%lld), which is neither 1 nor "
      "seq_kv (%lld)",
      (long long)r->mask_dims[3], (long long)r->seq_kv);
  return ATTN_OK;
}

/* Sizes and strides of one tensor, outermost first. */
typedef struct tensor {
  const char *name;
  int64_t size[4], stride[4];
  attn_dtype dtype;
} tensor;

static void tensors_of(const attn_problem *r, tensor t[4]) {
  bool paged = r->page_size > 0;
  int64_t kv_outer = paged ? r->num_pages : r->varlen ? 1 : r->batch;
  int64_t kv_rows = paged ? r->page_size : r->varlen ? r->total_kv : problem_own_keys(r, r->seq_kv);
  int64_t q_outer = r->varlen ? 1 : r->batch, q_rows = r->varlen ? r->total_q : r->seq_q;
#define TENSOR(label, outer, heads, rows, dim, st, type)                                           \
  (tensor){ label, { outer, heads, rows, dim }, { st.batch, st.head, st.row, st.col }, type }
  t[0] = TENSOR("q", q_outer, r->heads_q, q_rows, r->head_dim, r->q_strides, r->dtype);
  t[1] = TENSOR("k", kv_outer, r->heads_kv, kv_rows, r->head_dim, r->k_strides, r->kv_dtype);
  t[2] = TENSOR("v", kv_outer, r->heads_kv, kv_rows, r->head_dim_v, r->v_strides, r->kv_dtype);
  t[3] = TENSOR("out", q_outer, r->heads_q, q_rows, r->head_dim_v, r->out_strides, r->out_dtype);
#undef TENSOR
}

/* Elements from the first to the last, inclusive; false on overflow. */
static bool extent(const tensor *t, int64_t *out) {
  int64_t total = 1;
  for (int i = 0; i < 4; i++) {
    int64_t step;
    if (t->size[i] == 0) {
      *out = 0;
      return true;
    }
    if (!size_mul(t->size[i] - 1, t->stride[i], &step) || !size_add(total, step, &total))
      return false;
  }
  *out = total;
  return true;
}

/* Sufficient for distinct addresses: by ascending stride, each steps over all that lies inside. */
static bool overlaps(const tensor *t) {
  int order[4] = { 0, 1, 2, 3 };
  for (int i = 1; i < 4; i++)
    for (int j = i; j > 0 && t->stride[order[j]] < t->stride[order[j - 1]]; j--) {
      int x = order[j];
      order[j] = order[j - 1], order[j - 1] = x;
    }
  int64_t inside = 1;
  for (int i = 0; i < 4; i++)
    if (t->size[i] == 0) return false;
  for (int i = 0; i < 4; i++) {
    int64_t n = t->size[order[i]], s = t->stride[order[i]];
    if (n == 1) continue;
    if (s < inside) return true;
    inside += (n - 1) * s;
  }
  return false;
}

/* Product of `count` sizes, empty ones counted as 1, times 8 bytes (the widest type; the
 * reference's outputs have it too): when it fits, the product of any of the sizes does. */
static bool bytes_fit(int count, const int64_t *sizes) {
  int64_t bytes = 8;
  for (int i = 0; i < count; i++)
    if (!size_mul(bytes, size_max(sizes[i], 1), &bytes)) return false;
  return true;
}
#define BYTES_FIT(...)                                                                             \
  bytes_fit((int)(sizeof((int64_t[]){ __VA_ARGS__ }) / sizeof(int64_t)), (int64_t[]){ __VA_ARGS__ })

static attn_status check_tensor(const tensor *t) {
  static const char *const dims[4] = { "batch", "head", "row", "col" };
  int64_t span, bytes, block = dtype_get(t->dtype)->block;
  for (int i = 0; i < 4; i++)
    FAIL_IF(t->stride[i] < 0, ATTN_ERROR_STRIDE, "%s_strides.%s of value (%lld) is negative",
            t->name, dims[i], (long long)t->stride[i]);
  FAIL_IF(
      !bytes_fit(4, t->size) || !extent(t, &span) || !size_mul(span, 8, &bytes),
      ATTN_ERROR_OVERFLOW,
      "the bytes of %s, sizes (%lld, %lld, %lld, %lld), strides (%lld, %lld, %lld, %lld), do not "
      "fit 63 bits",
      t->name, (long long)t->size[0], (long long)t->size[1], (long long)t->size[2],
      (long long)t->size[3], (long long)t->stride[0], (long long)t->stride[1],
      (long long)t->stride[2], (long long)t->stride[3]);
  if (block == 1) return ATTN_OK;
  for (int i = 0; i < 3; i++)
    FAIL_IF(t->stride[i] % block, ATTN_ERROR_STRIDE,
            "%s_strides.%s of value (%lld) is not a multiple of %lld, the block of %s", t->name,
            dims[i], (long long)t->stride[i], (long long)block, attn_dtype_name(t->dtype));
  FAIL_IF(t->stride[3] != 1, ATTN_ERROR_STRIDE,
          "%s_strides.col of value (%lld) is not 1, as %s needs", t->name, (long long)t->stride[3],
          attn_dtype_name(t->dtype));
  return ATTN_OK;
}

static attn_status check_tensors(const attn_problem *r) {
  tensor tensors[4];
  tensors_of(r, tensors);
  for (int i = 0; i < 4; i++) {
    attn_status status = check_tensor(&tensors[i]);
    if (status) return status;
  }
  FAIL_IF(overlaps(&tensors[3]), ATTN_ERROR_STRIDE,
          "out_strides (%lld, %lld, %lld, %lld) let elements of out overlap",
          (long long)r->out_strides.batch, (long long)r->out_strides.head,
          (long long)r->out_strides.row, (long long)r->out_strides.col);
  return ATTN_OK;
}

/* What calls and backends address besides q, k, v and out. */
static attn_status check_products(const attn_problem *r) {
  FAIL_IF(!BYTES_FIT(r->batch, r->heads_q, r->seq_q, r->seq_kv), ATTN_ERROR_OVERFLOW,
          "batch (%lld) * heads_q (%lld) * seq_q (%lld) * seq_kv (%lld) scores do not fit 63 bits",
          (long long)r->batch, (long long)r->heads_q, (long long)r->seq_q, (long long)r->seq_kv);
  int64_t dim = size_max(r->head_dim, r->head_dim_v);
  FAIL_IF(!BYTES_FIT(r->batch, r->heads_kv, r->seq_kv, dim), ATTN_ERROR_OVERFLOW,
          "batch (%lld) * heads_kv (%lld) * seq_kv (%lld) * head_dim (%lld) do not fit 63 bits",
          (long long)r->batch, (long long)r->heads_kv, (long long)r->seq_kv, (long long)dim);
  FAIL_IF(!BYTES_FIT(r->batch, r->pages_per_seq), ATTN_ERROR_OVERFLOW,
          "batch (%lld) * pages_per_seq (%lld) do not fit 63 bits", (long long)r->batch,
          (long long)r->pages_per_seq);
  FAIL_IF(r->alibi_batch_stride < 0, ATTN_ERROR_STRIDE,
          "alibi_batch_stride of value (%lld) is negative", (long long)r->alibi_batch_stride);
  tensor slopes = { .size = { 1, 1, r->batch, r->heads_q },
                    .stride = { 0, 0, r->alibi_batch_stride, 1 } };
  tensor mask = { 0 };
  int64_t span, bytes;
  FAIL_IF(!extent(&slopes, &span) || !size_mul(span, 8, &bytes), ATTN_ERROR_OVERFLOW,
          "batch (%lld) * alibi_batch_stride (%lld) do not fit 63 bits", (long long)r->batch,
          (long long)r->alibi_batch_stride);
  memcpy(mask.size, r->mask_dims, sizeof(mask.size));
  memcpy(mask.stride, r->mask_strides, sizeof(mask.stride));
  FAIL_IF(!extent(&mask, &span) || !size_mul(span, 8, &bytes), ATTN_ERROR_OVERFLOW,
          "the bytes of mask, strides (%lld, %lld, %lld, %lld), do not fit 63 bits",
          (long long)mask.stride[0], (long long)mask.stride[1], (long long)mask.stride[2],
          (long long)mask.stride[3]);
  return ATTN_OK;
}

/* Saturates, so that an overflow is found in check_tensor, not hidden by wrapping. */
static int64_t product(int64_t a, int64_t b) {
  int64_t r;
  return size_mul(a, b, &r) ? r : INT64_MAX;
}

static attn_strides contiguous(attn_layout layout, bool packed, int64_t heads, int64_t rows,
                               int64_t dim) {
  attn_strides s = { .col = 1 };
  if (layout == ATTN_LAYOUT_BHSD && !packed) {
    s.row = dim;
    s.head = product(rows, dim);
    s.batch = product(heads, s.head);
  } else {
    s.head = dim;
    s.row = product(heads, dim);
    s.batch = product(rows, s.row);
  }
  return s;
}

void problem_layout_strides(const attn_problem *p, attn_layout layout, attn_strides strides[4]) {
  bool paged = p->page_size > 0, packed_kv = p->varlen || paged;
  int64_t heads_kv = p->heads_kv ? p->heads_kv : p->heads_q;
  int64_t dim_v = p->head_dim_v ? p->head_dim_v : p->head_dim;
  int64_t kv_rows = paged ? p->page_size : problem_own_keys(p, p->seq_kv);
  strides[0] = contiguous(layout, p->varlen, p->heads_q, p->seq_q, p->head_dim);
  strides[1] = contiguous(layout, packed_kv, heads_kv, kv_rows, p->head_dim);
  strides[2] = contiguous(layout, packed_kv, heads_kv, kv_rows, dim_v);
  strides[3] = contiguous(layout, p->varlen, p->heads_q, p->seq_q, dim_v);
  if (p->varlen) strides[0].batch = strides[3].batch = 0;
  if (p->varlen && !paged) strides[1].batch = strides[2].batch = 0;
}

static void fill_strides(attn_problem *r) {
  attn_strides s[4] = { r->q_strides, r->k_strides, r->v_strides, r->out_strides };
  if (r->layout != ATTN_LAYOUT_STRIDED) problem_layout_strides(r, r->layout, s);
  for (int i = 0; i < 4; i++)
    if (s[i].col == 0) s[i].col = 1;
  if (r->varlen) s[0].batch = s[3].batch = 0;
  if (r->varlen && !r->page_size) s[1].batch = s[2].batch = 0;
  r->q_strides = s[0], r->k_strides = s[1], r->v_strides = s[2], r->out_strides = s[3];
  r->layout = ATTN_LAYOUT_STRIDED;
}

/* A full dimension that strides expand is a broadcast one, and is resolved as such: "all strides 0"
 * keeps its one meaning, contiguous. */
static void fill_mask(attn_problem *r) {
  const int64_t full[4] = { r->batch, r->heads_q, r->seq_q, r->seq_kv };
  bool given = false;
  for (int i = 0; i < 4; i++) {
    if (!r->mask)
      r->mask_dims[i] = r->mask_strides[i] = 0;
    else if (r->mask_dims[i] == 0)
      r->mask_dims[i] = full[i];
    given |= r->mask_strides[i] != 0;
  }
  int64_t stride = 1;
  for (int i = 3; i >= 0 && r->mask; i--) {
    if (!given)
      r->mask_strides[i] = stride;
    else if (r->mask_strides[i] == 0 && r->mask_dims[i] == full[i] && full[i])
      r->mask_dims[i] = 1;
    stride = product(stride, size_max(r->mask_dims[i], 1));
    if (r->mask_dims[i] <= 1) r->mask_strides[i] = 0;
  }
}

static void fill_defaults(attn_problem *r) {
  if (!r->heads_kv) r->heads_kv = r->heads_q;
  if (!r->head_dim_v) r->head_dim_v = r->head_dim;
  if (!r->dtype) r->dtype = ATTN_F32;
  if (!r->kv_dtype) r->kv_dtype = r->dtype;
  if (!r->out_dtype) r->out_dtype = is_fp8(r->dtype) ? ATTN_F32 : r->dtype;
  if (!r->mask_dtype || r->mask != ATTN_MASK_ADDITIVE) r->mask_dtype = ATTN_F32;
  if (!r->scale_set && r->scale == 0) r->scale = (float)(1.0 / sqrt((double)r->head_dim));
  r->scale_set = true;
  if (r->causal != ATTN_CAUSAL_OFFSET) r->causal_offset = 0;
  if (r->window_left < 0 && r->window_right < 0) r->window = false;
  r->window_left = !r->window ? 0 : size_max(r->window_left, -1);
  r->window_right = !r->window ? 0 : size_max(r->window_right, -1);
  if (r->causal || !(r->window || r->alibi))
    r->window_align = ATTN_CAUSAL_NONE;
  else if (!r->window_align)
    r->window_align = ATTN_CAUSAL_BOTTOM_RIGHT;
  r->softcap += 0.0f, r->dropout += 0.0f; // -0 is 0
  if (!r->alibi) r->alibi_batch_stride = 0;
}

attn_status attn_problem_resolve(const attn_problem *problem, attn_problem *resolved) {
  if (!problem) return core_fail(ATTN_ERROR_NULL, "problem is NULL");
  if (!resolved) return core_fail(ATTN_ERROR_NULL, "resolved is NULL");
  attn_status status = check_enums(problem);
  if (!status) status = check_sizes(problem);
  if (!status) status = check_numbers(problem);
  if (status) return status;
  attn_problem r = *problem;
  fill_defaults(&r);
  fill_strides(&r);
  fill_mask(&r);
  status = check_dtypes(&r);
  if (!status) status = check_layout_fields(&r);
  if (!status) status = check_mask(&r);
  if (!status) status = check_tensors(&r);
  if (!status) status = check_products(&r);
  if (!status) *resolved = r;
  return status;
}

attn_status attn_problem_validate(const attn_problem *problem) {
  attn_problem resolved;
  return attn_problem_resolve(problem, &resolved);
}

attn_status attn_problem_set_layout(attn_problem *problem, attn_layout layout) {
  if (!problem) return core_fail(ATTN_ERROR_NULL, "problem is NULL");
  if ((unsigned)layout >= ATTN_LAYOUT_COUNT || layout == ATTN_LAYOUT_STRIDED)
    return core_fail(ATTN_ERROR_VALUE, "layout of value (%d) is no contiguous layout", (int)layout);
  attn_problem copy = *problem, resolved;
  copy.layout = layout;
  attn_status status = attn_problem_resolve(&copy, &resolved);
  if (status) return status;
  problem->layout = ATTN_LAYOUT_STRIDED;
  problem->q_strides = resolved.q_strides;
  problem->k_strides = resolved.k_strides;
  problem->v_strides = resolved.v_strides;
  problem->out_strides = resolved.out_strides;
  return ATTN_OK;
}

/* Bytes of `rows` rows of `dim` elements. */
static int64_t row_bytes(attn_dtype dtype, int64_t rows, int64_t dim) {
  const dtype_info *t = dtype_get(dtype);
  return rows * (dim / t->block * t->block_bytes);
}

attn_status attn_problem_measure(const attn_problem *problem, attn_problem_size *size) {
  attn_problem r;
  if (!size) return core_fail(ATTN_ERROR_NULL, "size is NULL");
  attn_status status = attn_problem_resolve(problem, &r);
  if (status) return status;
  int64_t q_rows = r.heads_q * (r.varlen ? r.total_q : r.batch * r.seq_q);
  int64_t own = r.varlen && !r.page_size ? r.total_kv : r.batch * problem_own_keys(&r, r.seq_kv);
  int64_t kv_rows = r.heads_kv * (own + r.prefix);
  int64_t scales = r.kv_dtype == ATTN_INT8 ? kv_rows * (int64_t)sizeof(float) : 0;
  int64_t mask_bytes = r.mask == ATTN_MASK_ADDITIVE ? dtype_get(r.mask_dtype)->block_bytes : 1;
  for (int i = 0; i < 4; i++) mask_bytes *= r.mask_dims[i];
  double pairs = (double)r.batch * (double)r.heads_q * problem_pairs(&r, r.seq_q, r.seq_kv);
  *size = (attn_problem_size){
    .q_bytes = row_bytes(r.dtype, q_rows, r.head_dim),
    .k_bytes = row_bytes(r.kv_dtype, kv_rows, r.head_dim) + scales,
    .v_bytes = row_bytes(r.kv_dtype, kv_rows, r.head_dim_v) + scales,
    .out_bytes = row_bytes(r.out_dtype, q_rows, r.head_dim_v),
    .mask_bytes = r.mask ? mask_bytes : 0,
    .lse_bytes = r.return_lse ? q_rows * (int64_t)sizeof(float) : 0,
    .scores_bytes = r.batch * r.heads_q * r.seq_q * r.seq_kv * (int64_t)sizeof(float),
    .score_pairs = pairs,
    .flops = 2.0 * pairs * (double)(r.head_dim + r.head_dim_v),
  };
  return ATTN_OK;
}
