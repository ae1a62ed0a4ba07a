// SPDX-License-Identifier: Apache-2.0
/* Strides, pages, packing, head groups, dtypes, scales, broadcast masks and kinds of masks are ways
 * of writing the same thing down: any problem equals, bit for bit, one plain f64 call a sequence
 * and head whose inputs were gathered element by element. Buffers are exactly as large as the
 * strides say, so that AddressSanitizer sees any element too many. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "core/dtype.h"
#include "core/problem.h"
#include "random_problem.h"
#include "structure.h"

typedef struct data {
  attn_problem p; /* resolved */
  attn_io io;
  void *q, *k, *v, *mask;
  float *slopes, *sinks, *q_scale, *k_scale, *v_scale;
  int32_t *cu_q, *cu_kv, *kv_len, *table;
} data;

static int64_t extent(const int64_t size[4], const int64_t stride[4]) {
  int64_t n = 1;
  for (int i = 0; i < 4; i++) {
    if (!size[i]) return 0;
    n += (size[i] - 1) * stride[i];
  }
  return n;
}

/* `n` elements of random numbers in [-1, 1). */
static void *random_elements(uint64_t *r, attn_dtype dtype, int64_t n) {
  const dtype_info *type = dtype_get(dtype);
  int64_t padded = (n + 31) / 32 * 32;
  float *floats = malloc((size_t)padded * sizeof(float) + 1);
  char *whole = malloc((size_t)(padded / type->block * type->block_bytes) + 1);
  for (int64_t i = 0; i < padded; i++) floats[i] = random_float(r);
  if (dtype == ATTN_INT8)
    for (int64_t i = 0; i < padded; i++) floats[i] *= 127;
  type->from_f32(floats, whole, padded);
  size_t bytes = (size_t)(n / type->block * type->block_bytes);
  char *exact = malloc(bytes + !bytes);
  memcpy(exact, whole, bytes);
  free(floats), free(whole);
  return exact;
}

static void *random_tensor(uint64_t *r, attn_dtype dtype, int64_t outer, int64_t heads,
                           int64_t rows, int64_t dim, const attn_strides *s) {
  int64_t n = extent((const int64_t[4]){ outer, heads, rows, dim },
                     (const int64_t[4]){ s->batch, s->head, s->row, s->col });
  int64_t block = dtype_get(dtype)->block;
  return random_elements(r, dtype, (n + block - 1) / block * block);
}

static float *random_floats(uint64_t *r, int64_t n) { return random_elements(r, ATTN_F32, n); }

static void *random_mask(uint64_t *r, const attn_problem *p) {
  int64_t n = p->mask ? extent(p->mask_dims, p->mask_strides) : 0;
  if (p->mask != ATTN_MASK_BOOL) { // a third of the keys is removed
    float *floats = random_floats(r, n);
    for (int64_t i = 0; i < n; i++)
      if (floats[i] > 0.33f) floats[i] = -INFINITY;
    void *mask = random_elements(r, p->mask_dtype, n);
    dtype_get(p->mask_dtype)->from_f32(floats, mask, n);
    free(floats);
    return mask;
  }
  uint8_t *mask = malloc((size_t)n + 1);
  for (int64_t i = 0; i < n; i++)
    mask[i] = (uint8_t)(random_chance(r, 3) ? 0 : random_int(r, 1, 255));
  return mask;
}

static int32_t *random_offsets(uint64_t *r, int64_t batch, int64_t longest) {
  int32_t *cu = calloc((size_t)batch + 1, sizeof(*cu));
  for (int64_t b = 0; b < batch; b++) cu[b + 1] = cu[b] + (int32_t)random_int(r, 0, longest);
  return cu;
}

static data make(uint64_t *r) {
  data d = { .p = random_problem(r) };
  attn_problem *p = &d.p;
  p->score_mod = false, p->weights = ATTN_WEIGHTS_NONE;
  d.cu_q = random_offsets(r, p->batch, p->seq_q);
  d.cu_kv = random_offsets(r, p->batch, p->seq_kv);
  d.kv_len = calloc((size_t)p->batch + 1, sizeof(int32_t));
  if (p->varlen) p->total_q = d.cu_q[p->batch], p->total_kv = d.cu_kv[p->batch];
  if (attn_problem_resolve(p, p)) fail_msg("%s", attn_last_error());
  d.table = calloc((size_t)(p->batch * p->pages_per_seq) + 1, sizeof(int32_t));
  for (int64_t b = 0; b < p->batch; b++) {
    d.kv_len[b] = (int32_t)random_int(r, 0, p->seq_kv);
    int64_t length = p->kv_lengths ? d.kv_len[b] : p->seq_kv;
    for (int64_t i = 0; i < p->pages_per_seq; i++)
      d.table[b * p->pages_per_seq + i] =
          i * p->page_size < length ? (int32_t)random_int(r, 0, p->num_pages - 1) : -1;
  }
  int64_t outer = p->varlen ? 1 : p->batch, kv_outer = p->page_size ? p->num_pages : outer;
  int64_t rows = p->varlen ? p->total_q : p->seq_q;
  int64_t kv_rows = p->page_size ? p->page_size : p->varlen ? p->total_kv : p->seq_kv;
  d.q = random_tensor(r, p->dtype, outer, p->heads_q, rows, p->head_dim, &p->q_strides);
  d.k = random_tensor(r, p->kv_dtype, kv_outer, p->heads_kv, kv_rows, p->head_dim, &p->k_strides);
  d.v = random_tensor(r, p->kv_dtype, kv_outer, p->heads_kv, kv_rows, p->head_dim_v, &p->v_strides);
  d.mask = random_mask(r, p);
  d.slopes = random_floats(r, p->heads_q + (p->batch - 1) * p->alibi_batch_stride * (p->batch > 0));
  d.sinks = random_floats(r, p->heads_q);
  int64_t scales = p->kv_dtype == ATTN_INT8 ? kv_outer * kv_rows : 1;
  d.q_scale = random_floats(r, p->heads_q);
  d.k_scale = random_floats(r, scales * p->heads_kv);
  d.v_scale = random_floats(r, scales * p->heads_kv);
  d.io = (attn_io){ .q = d.q,
                    .k = d.k,
                    .v = d.v,
                    .mask = d.mask,
                    .alibi_slopes = d.slopes,
                    .sinks = d.sinks,
                    .kv_len = d.kv_len,
                    .cu_seqlens_q = d.cu_q,
                    .cu_seqlens_kv = d.cu_kv,
                    .block_table = d.table,
                    .q_scale = d.q_scale,
                    .k_scale = d.k_scale,
                    .v_scale = d.v_scale,
                    .dropout_seed = random_next(r),
                    .dropout_offset = random_next(r) };
  return d;
}

static void release(data *d) {
  void *all[] = { d->q,       d->k,       d->v,    d->mask,  d->slopes, d->sinks, d->q_scale,
                  d->k_scale, d->v_scale, d->cu_q, d->cu_kv, d->kv_len, d->table };
  for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) free(all[i]);
}

static bool is_fp8(attn_dtype dtype) { return dtype == ATTN_F8E4M3 || dtype == ATTN_F8E5M2; }

/* One element as a double. */
static double element(const void *memory, attn_dtype dtype, int64_t at) {
  const dtype_info *type = dtype_get(dtype);
  float block[32];
  if (dtype == ATTN_F64) return ((const double *)memory)[at];
  type->to_f32((const char *)memory + at / type->block * type->block_bytes, block, type->block);
  return (double)block[at % type->block];
}

static double kv_element(const data *d, bool value, int64_t b, int64_t head, int64_t j, int64_t c) {
  const attn_problem *p = &d->p;
  const attn_strides *s = value ? &p->v_strides : &p->k_strides;
  const float *scale = value ? d->v_scale : d->k_scale;
  int64_t outer = p->varlen ? 0 : b, row = p->varlen ? d->cu_kv[b] + j : j;
  int64_t rows = p->varlen ? 0 : p->seq_kv;
  if (p->page_size) {
    outer = d->table[b * p->pages_per_seq + j / p->page_size];
    row = j % p->page_size;
    rows = p->page_size;
  }
  int64_t at = outer * s->batch + head * s->head + row * s->row + c * s->col;
  double x = element(value ? d->v : d->k, p->kv_dtype, at), factor = 1;
  if (p->kv_dtype == ATTN_INT8)
    factor = (double)scale[(outer * rows + row) * p->heads_kv + head];
  else if (p->fp8_scale && is_fp8(p->kv_dtype))
    factor = (double)scale[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? head : 0];
  return factor * x;
}

static float mask_element(const data *d, int64_t b, int64_t h, int64_t i, int64_t j) {
  const attn_problem *p = &d->p;
  const int64_t index[4] = { b, h, i, j };
  int64_t at = 0;
  for (int x = 0; x < 4 && p->mask; x++) {
    bool broadcast = p->mask_dims[x] == 1;
    if (x == 3 && !broadcast && j >= p->mask_dims[3]) return -INFINITY;
    at += (broadcast ? 0 : index[x]) * p->mask_strides[x];
  }
  if (p->mask == ATTN_MASK_BOOL) return ((const uint8_t *)d->mask)[at] ? 0 : -INFINITY;
  return p->mask ? (float)element(d->mask, p->mask_dtype, at) : 0;
}

typedef struct plain {
  attn_problem p;
  double *q, *k, *v, *out, lse[16];
  float *mask;
} plain;

static plain gather(const data *d, int64_t b, int64_t h) {
  const attn_problem *p = &d->p;
  plain t = { .p = { .batch = 1, .heads_q = 1, .dtype = ATTN_F64, .mask = ATTN_MASK_ADDITIVE } };
  int64_t first_q = p->varlen ? d->cu_q[b] : 0, head = h / (p->heads_q / p->heads_kv);
  t.p.seq_q = p->varlen ? d->cu_q[b + 1] - first_q : p->seq_q;
  t.p.seq_kv = p->kv_lengths                ? d->kv_len[b]
               : p->varlen && !p->page_size ? d->cu_kv[b + 1] - d->cu_kv[b]
                                            : p->seq_kv;
  t.p.head_dim = p->head_dim, t.p.head_dim_v = p->head_dim_v;
  t.p.scale_set = true, t.p.scale = p->scale, t.p.softcap = p->softcap;
  t.p.alibi = p->alibi, t.p.sinks = p->sinks, t.p.dropout = p->dropout;
  // Structure is written into the mask; causal only stays for the diagonal of ALiBi.
  t.p.causal = p->causal, t.p.causal_offset = p->causal_offset, t.p.window_align = p->window_align;
  t.q = calloc((size_t)(t.p.seq_q * p->head_dim) + 1, sizeof(double));
  t.k = calloc((size_t)(t.p.seq_kv * p->head_dim) + 1, sizeof(double));
  t.v = calloc((size_t)(t.p.seq_kv * p->head_dim_v) + 1, sizeof(double));
  t.out = calloc((size_t)(t.p.seq_q * p->head_dim_v) + 1, sizeof(double));
  t.mask = calloc((size_t)(t.p.seq_q * t.p.seq_kv) + 1, sizeof(float));
  double scale = 1;
  if (p->fp8_scale && is_fp8(p->dtype))
    scale = (double)d->q_scale[p->fp8_scale == ATTN_FP8_SCALE_HEAD ? h : 0];
  for (int64_t i = 0; i < t.p.seq_q; i++) {
    for (int64_t c = 0; c < p->head_dim; c++)
      t.q[i * p->head_dim + c] =
          scale * element(d->q, p->dtype,
                          (p->varlen ? 0 : b * p->q_strides.batch) + h * p->q_strides.head +
                              (first_q + i) * p->q_strides.row + c * p->q_strides.col);
    for (int64_t j = 0; j < t.p.seq_kv; j++)
      t.mask[i * t.p.seq_kv + j] =
          structure_sees(p, i, j, t.p.seq_q, t.p.seq_kv) ? mask_element(d, b, h, i, j) : -INFINITY;
  }
  for (int64_t j = 0; j < t.p.seq_kv; j++) {
    for (int64_t c = 0; c < p->head_dim; c++)
      t.k[j * p->head_dim + c] = kv_element(d, false, b, head, j, c);
    for (int64_t c = 0; c < p->head_dim_v; c++)
      t.v[j * p->head_dim_v + c] = kv_element(d, true, b, head, j, c);
  }
  return t;
}

static void check_head(const data *d, int64_t b, int64_t h, const double *out, const double *lse) {
  const attn_problem *p = &d->p;
  plain t = gather(d, b, h);
  attn_io io = { .q = t.q,
                 .k = t.k,
                 .v = t.v,
                 .mask = t.mask,
                 .alibi_slopes = d->slopes + b * p->alibi_batch_stride + h,
                 .sinks = d->sinks + h,
                 .dropout_seed = d->io.dropout_seed };
  io.dropout_offset = d->io.dropout_offset + (uint64_t)((b * p->heads_q + h) * p->seq_q);
  if (attn_reference(&t.p, &io, t.out, t.lse, NULL)) fail_msg("plain: %s", attn_last_error());
  for (int64_t i = 0; i < t.p.seq_q; i++) {
    int64_t row = (b * p->heads_q + h) * p->seq_q + i, lse_row = row;
    if (p->varlen)
      row = (d->cu_q[b] + i) * p->heads_q + h, lse_row = h * p->total_q + d->cu_q[b] + i;
    bool same = !memcmp(out + row * p->head_dim_v, t.out + i * p->head_dim_v,
                        (size_t)p->head_dim_v * sizeof(double));
    if (!same || memcmp(&lse[lse_row], &t.lse[i], sizeof(double))) {
      char text[1024];
      attn_problem_format(p, text, sizeof(text));
      fail_msg("row (%d, %d, %d): %s", (int)b, (int)h, (int)i, text);
    }
  }
  free(t.q), free(t.k), free(t.v), free(t.out), free(t.mask);
}

static void test_every_form_equals_the_plain_one(void **state) {
  (void)state;
  const uint64_t seed = 99;
  uint64_t r = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 6000; n++) {
    data d = make(&r);
    int64_t rows = d.p.heads_q * (d.p.varlen ? d.p.total_q : d.p.batch * d.p.seq_q);
    double *out = calloc((size_t)(rows * d.p.head_dim_v) + 1, sizeof(double));
    double *lse = calloc((size_t)rows + 1, sizeof(double));
    if (attn_reference(&d.p, &d.io, out, lse, NULL)) fail_msg("%s", attn_last_error());
    for (int64_t b = 0; b < d.p.batch; b++)
      for (int64_t h = 0; h < d.p.heads_q; h++) check_head(&d, b, h, out, lse);
    free(out), free(lse);
    release(&d);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_form_equals_the_plain_one),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
