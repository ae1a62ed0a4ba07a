// SPDX-License-Identifier: Apache-2.0
#include "problem_gen.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

uint64_t gen_random(uint64_t *state) { // SplitMix64
  uint64_t z = (*state += 0x9e3779b97f4a7c15u);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

static int64_t between(uint64_t *s, int64_t low, int64_t high) {
  return low + (int64_t)(gen_random(s) % (uint64_t)(high - low + 1));
}
static bool one_in(uint64_t *s, int n) { return gen_random(s) % (uint64_t)n == 0; }

static float normal(uint64_t *s) {
  double u = ((double)(gen_random(s) >> 11) + 0.5) * 0x1p-53, v = (double)(gen_random(s) >> 11) * 0x1p-53;
  return (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
}

/* ---- Problems */

static int64_t draw_dim(uint64_t *s) {
  static const int64_t usual[] = { 8, 16, 32, 48, 64, 72, 80, 96, 128 };
  return one_in(s, 2) ? between(s, 1, 40) : one_in(s, 2) ? usual[between(s, 0, 8)] : between(s, 1, 130);
}

/* Lengths are log-uniform: mostly short, now and then the longest. */
static int64_t draw_length(uint64_t *s, int64_t most) {
  return (int64_t)exp((double)(gen_random(s) >> 11) * 0x1p-53 * log((double)most + 0.999));
}

static void draw_sizes(uint64_t *s, const gen_options *o, attn_problem *p) {
  static const int64_t groups[] = { 1, 1, 1, 2, 3, 4, 8 };
  p->batch = one_in(s, 30) ? 0 : between(s, 1, 3);
  p->heads_kv = between(s, 1, 3);
  p->heads_q = one_in(s, 40) ? 0 : p->heads_kv * groups[between(s, 0, 6)];
  p->seq_q = one_in(s, 5) ? between(s, 0, 3) : draw_length(s, o->max_seq);
  p->seq_kv = one_in(s, 3) ? p->seq_q : one_in(s, 20) ? 0 : draw_length(s, o->max_seq);
  if (one_in(s, 30)) p->seq_kv = between(s, 500, 1500), p->seq_q = between(s, 1, 8); // splits over keys
  p->head_dim = draw_dim(s);
  if (one_in(s, 4)) p->head_dim_v = draw_dim(s);
  if (one_in(s, 60)) p->head_dim = 576, p->head_dim_v = 512;
  if (one_in(s, 60)) p->head_dim = 192, p->head_dim_v = 128;
}

static void draw_structure(uint64_t *s, attn_problem *p, bool basic) {
  p->causal = one_in(s, 2) ? ATTN_CAUSAL_NONE : (attn_causal)between(s, 1, basic ? 2 : 3);
  if (p->causal == ATTN_CAUSAL_OFFSET) p->causal_offset = between(s, -p->seq_q - 2, p->seq_kv + 2);
  if (!basic && one_in(s, 5)) {
    p->window = true;
    p->window_left = one_in(s, 4) ? -1 : between(s, 0, p->seq_kv);
    p->window_right = one_in(s, 4) ? -1 : between(s, 0, p->seq_kv);
    if (!p->causal) p->window_align = (attn_causal)between(s, 0, 2);
  }
  if (one_in(s, 3)) {
    const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
    p->mask = one_in(s, 2) ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
    static const attn_dtype types[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16 };
    if (p->mask == ATTN_MASK_ADDITIVE) p->mask_dtype = basic ? ATTN_F32 : types[between(s, 0, 3)];
    for (int i = 0; i < 4; i++) p->mask_dims[i] = one_in(s, 2) ? full[i] : 1;
    if (!basic && one_in(s, 6) && p->seq_kv > 3) p->mask_dims[3] = between(s, 2, p->seq_kv - 1);
  }
}

static void draw_scale(uint64_t *s, attn_problem *p) {
  static const float scales[] = { 0, -0.5f, 1, 2, -1e-3f, 30 };
  if (one_in(s, 5)) p->scale_set = true, p->scale = scales[between(s, 0, 5)];
}

/* Packed or paged sequences; exclusive with dense strides. */
static void draw_storage(uint64_t *s, attn_problem *p) {
  if (one_in(s, 7)) {
    p->varlen = true;
    p->batch = between(s, 0, 5);
    p->total_q = between(s, 0, p->batch * p->seq_q);
    p->total_kv = between(s, 0, p->batch * p->seq_kv);
    if (!p->batch) p->total_q = p->total_kv = 0;
  }
  if (one_in(s, 6)) p->prefix = between(s, 0, p->seq_kv);
  if (p->varlen) p->total_kv = between(s, 0, p->batch * (p->seq_kv - p->prefix));
  if (one_in(s, 7)) {
    p->page_size = one_in(s, 3) ? 16 : between(s, 1, 40);
    p->pages_per_seq = (p->seq_kv - p->prefix + p->page_size - 1) / p->page_size + between(s, 0, 2);
    p->num_pages = p->batch * p->pages_per_seq + between(s, 1, 3);
    p->total_kv = 0;
    p->kv_lengths = p->varlen || one_in(s, 2);
  } else if (!p->varlen && one_in(s, 6)) {
    p->kv_lengths = true;
  }
}

static void draw_types(uint64_t *s, attn_problem *p) {
  static const attn_dtype types[] = { ATTN_F32, ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_F8E4M3, ATTN_F8E5M2, ATTN_F64 };
  static const attn_dtype caches[] = { ATTN_F32, ATTN_F16, ATTN_BF16, ATTN_INT8, ATTN_Q8_0, ATTN_Q4_0, ATTN_F8E4M3 };
  if (one_in(s, 3)) p->dtype = types[between(s, 0, 6)];
  if (p->dtype != ATTN_F64 && one_in(s, 6)) p->kv_dtype = caches[between(s, 0, 6)];
  if (p->kv_dtype == ATTN_Q8_0 || p->kv_dtype == ATTN_Q4_0) {
    p->head_dim = (p->head_dim + 31) / 32 * 32;
    p->head_dim_v = p->head_dim_v ? (p->head_dim_v + 31) / 32 * 32 : 0;
  }
  if (one_in(s, 3)) p->out_dtype = ATTN_F32;
  bool fp8 = p->dtype == ATTN_F8E4M3 || p->dtype == ATTN_F8E5M2 || p->kv_dtype == ATTN_F8E4M3;
  if (fp8) p->fp8_scale = (attn_fp8_scale)between(s, 0, 2);
}

static void draw_features(uint64_t *s, attn_problem *p) {
  if (one_in(s, 6)) p->softcap = 0.5f * (float)between(s, 1, 60);
  p->alibi = one_in(s, 7);
  if (p->alibi && one_in(s, 3)) p->alibi_batch_stride = p->heads_q;
  p->sinks = one_in(s, 7);
  p->score_mod = one_in(s, 9);
  if (one_in(s, 9)) p->dropout = 0.1f * (float)between(s, 1, 9);
  p->batch_invariant = one_in(s, 9);
  if (!p->varlen && one_in(s, 9)) p->weights = (attn_weights)between(s, 1, ATTN_WEIGHTS_COUNT - 1);
}

/* Padding between rows and heads, other orders, expanded K and V, inner strides above 1. */
static void draw_strides(uint64_t *s, attn_problem *p) {
  bool blocks = p->kv_dtype == ATTN_Q8_0 || p->kv_dtype == ATTN_Q4_0;
  if (!one_in(s, 2)) {
    p->layout = one_in(s, 2) ? ATTN_LAYOUT_BSHD : ATTN_LAYOUT_BHSD;
    return;
  }
  if (attn_problem_set_layout(p, one_in(s, 2) ? ATTN_LAYOUT_BSHD : ATTN_LAYOUT_BHSD)) return;
  attn_strides *all[4] = { &p->q_strides, &p->k_strides, &p->v_strides, &p->out_strides };
  for (int t = 0; t < 4; t++) { // spread every stride, then pad
    int64_t spread = blocks ? 1 : one_in(s, 6) ? between(s, 2, 3) : 1, pad = blocks ? 32 : between(s, 0, 5);
    attn_strides *x = all[t];
    bool rows_inside = x->row < x->head;
    x->col *= spread, x->row *= spread, x->head *= spread, x->batch *= spread;
    int64_t rows = p->varlen ? (t == 1 || t == 2 ? p->total_kv : p->total_q) : t == 1 || t == 2 ? p->seq_kv - p->prefix : p->seq_q;
    if (p->page_size && (t == 1 || t == 2)) rows = p->page_size;
    int64_t heads = t == 1 || t == 2 ? p->heads_kv : p->heads_q;
    if (rows_inside) x->row += pad, x->head += pad * rows, x->batch = heads * x->head + pad;
    else x->head += pad, x->row += pad * heads, x->batch = rows * x->row + pad;
    if (p->varlen && !(p->page_size && (t == 1 || t == 2))) x->batch = 0;
  }
  if (one_in(s, 5) && !p->page_size) { // expanded
    if (one_in(s, 2)) p->k_strides.head = p->v_strides.head = 0;
    else if (!p->varlen) p->k_strides.batch = 0;
  }
}

void gen_problem(uint64_t seed, int64_t index, const gen_options *o, attn_problem *problem) {
  uint64_t s = seed * 0x2545f4914f6cdd1du + (uint64_t)index * 0x9e3779b97f4a7c15u;
  for (;;) {
    attn_problem p = { 0 };
    draw_sizes(&s, o, &p);
    if (!o->basic) draw_types(&s, &p), draw_storage(&s, &p);
    draw_structure(&s, &p, o->basic);
    draw_scale(&s, &p);
    if (!o->basic) draw_features(&s, &p);
    p.return_lse = one_in(&s, 2);
    if (!attn_problem_validate(&p)) draw_strides(&s, &p);
    if (!attn_problem_validate(&p)) {
      *problem = p;
      return;
    }
  }
}

/* ---- Data */

static void *take(gen_case *c, int64_t bytes, uint64_t *s, int64_t align) {
  gen_block *b = &c->blocks[c->count];
  size_t n = bytes > 0 ? (size_t)bytes : 0;
  if (one_in(s, 3)) { // ends at an inaccessible page
    size_t page = (size_t)sysconf(_SC_PAGESIZE), pages = (n + page - 1) / page * page;
    char *map = mmap(NULL, pages + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    mprotect(map + pages, page, PROT_NONE);
    *b = (gen_block){ map + pages - n, map, n, pages + page };
  } else { // aligned to the element and no more
    char *base = malloc(n + 128);
    if (!base) return NULL;
    uintptr_t at = ((uintptr_t)base + 63) / 64 * 64 + (uintptr_t)(align * between(s, 0, 3));
    *b = (gen_block){ base + (at - (uintptr_t)base), base, n, 0 };
  }
  c->count++;
  return b->data;
}

static void put_element(void *p, attn_dtype type, int64_t i, float x) {
  attn_dtype_from_f32(type, &x, (char *)p + i * attn_dtype_bytes(type, 1), 1);
}

/* Rows of a tensor as the problem lays them out. */
typedef struct rows {
  int64_t outer, heads, count, dim;
  attn_strides s;
  attn_dtype type;
} rows;

static int64_t span(const rows *r) {
  if (!r->outer || !r->heads || !r->count) return 0;
  return (r->outer - 1) * r->s.batch + (r->heads - 1) * r->s.head + (r->count - 1) * r->s.row + (r->dim - 1) * r->s.col + 1;
}

static rows rows_of(const attn_problem *p, bool keys, bool value) {
  bool paged = keys && p->page_size;
  rows r = { .outer = paged ? p->num_pages : p->varlen ? 1 : p->batch,
             .heads = keys ? p->heads_kv : p->heads_q,
             .count = paged ? p->page_size : p->varlen ? (keys ? p->total_kv : p->total_q) : keys ? p->seq_kv - p->prefix : p->seq_q,
             .dim = value ? p->head_dim_v : p->head_dim,
             .s = keys ? (value ? p->v_strides : p->k_strides) : value ? p->out_strides : p->q_strides,
             .type = keys ? p->kv_dtype : value ? p->out_dtype : p->dtype };
  return r;
}

static bool is_block(attn_dtype t) { return t == ATTN_Q8_0 || t == ATTN_Q4_0; }

static void *tensor(gen_case *c, const rows *r, uint64_t *s, float spread) {
  int64_t n = span(r), step = is_block(r->type) ? 32 : 1, bytes = attn_dtype_bytes(r->type, (n + step - 1) / step * step);
  char *p = take(c, bytes, s, is_block(r->type) ? 2 : attn_dtype_bytes(r->type, 1));
  float block[32];
  if (r->type == ATTN_INT8) spread = 40; // quants, scaled by tokens
  for (int64_t i = 0; p && i < n; i += step) {
    for (int64_t j = 0; j < step; j++) block[j] = spread * normal(s);
    attn_dtype_from_f32(r->type, block, p + attn_dtype_bytes(r->type, i), step);
  }
  return p;
}

static bool can_be_special(attn_dtype t) { return t == ATTN_F32 || t == ATTN_F16 || t == ATTN_BF16 || t == ATTN_F64; }

static void poison_row(void *p, const rows *r, int64_t outer, int64_t head, int64_t row, float x) {
  if (!can_be_special(r->type)) return;
  for (int64_t d = 0; d < r->dim; d++)
    put_element(p, r->type, outer * r->s.batch + head * r->s.head + row * r->s.row + d * r->s.col, x);
}

/* NaN or infinity in a few keys: attended by some rows, removed for others. */
static void poison_keys(gen_case *c, const rows *k, const rows *v, uint64_t *s) {
  int64_t n = k->outer * k->heads * k->count;
  for (int64_t i = 0; n && i < 1 + n / 50; i++) {
    int64_t outer = between(s, 0, k->outer - 1), head = between(s, 0, k->heads - 1), row = between(s, 0, k->count - 1);
    if (one_in(s, 2)) poison_row((void *)(uintptr_t)c->io.v, v, outer, head, row, NAN);
    else poison_row((void *)(uintptr_t)c->io.k, k, outer, head, row, one_in(s, 2) ? NAN : INFINITY);
  }
}

static int32_t *lengths(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  int32_t *n = take(c, p->batch * 4, s, 4);
  for (int64_t b = 0; n && b < p->batch; b++) n[b] = (int32_t)between(s, 0, p->seq_kv);
  return n;
}

/* Offsets to `total` with no sequence above `longest`. */
static int32_t *offsets(gen_case *c, int64_t total, int64_t longest, uint64_t *s) {
  int64_t batch = c->problem.batch, left = total;
  int32_t *cu = take(c, (batch + 1) * 4, s, 4);
  if (!cu) return NULL;
  cu[0] = 0;
  for (int64_t b = 0; b < batch; b++) {
    int64_t rest = (batch - b - 1) * longest, low = left - rest > 0 ? left - rest : 0;
    int64_t high = left < longest ? left : longest, n = b == batch - 1 ? left : between(s, low, high);
    cu[b + 1] = cu[b] + (int32_t)n;
    left -= n;
  }
  return cu;
}

/* A permutation of pages; entries past a sequence's length name no page. */
static int32_t *block_table(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  int64_t n = p->batch * p->pages_per_seq;
  int32_t *table = take(c, n * 4, s, 4);
  for (int64_t i = 0; table && i < n; i++) table[i] = (int32_t)i;
  for (int64_t i = n - 1; table && i > 0; i--) {
    int64_t j = between(s, 0, i);
    int32_t x = table[i];
    table[i] = table[j], table[j] = x;
  }
  for (int64_t b = 0; table && b < p->batch; b++) {
    int64_t used = (p->kv_lengths ? c->io.kv_len[b] : p->seq_kv) - p->prefix;
    if (used < 0) used = 0;
    for (int64_t i = (used + p->page_size - 1) / p->page_size; i < p->pages_per_seq; i++) table[b * p->pages_per_seq + i] = -1;
  }
  return table;
}

static float *floats(gen_case *c, int64_t n, uint64_t *s, float spread, float center) {
  float *p = take(c, n * 4, s, 4);
  for (int64_t i = 0; p && i < n; i++) p[i] = center + spread * normal(s);
  return p;
}

static void *mask(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  int64_t n = 1;
  for (int i = 0; i < 4; i++) n = p->mask_dims[i] ? n + (p->mask_dims[i] - 1) * p->mask_strides[i] : n;
  attn_dtype type = p->mask_dtype;
  void *m = take(c, p->mask == ATTN_MASK_BOOL ? n : attn_dtype_bytes(type, n), s, p->mask == ATTN_MASK_BOOL ? 1 : attn_dtype_bytes(type, 1));
  int kind = (int)between(s, 0, 5);
  int64_t run = between(s, 1, 40); // runs of removed keys empty whole rows and tiles now and then
  for (int64_t i = 0; m && i < n; i++) {
    bool removed = kind == 0 ? (i / run) % 2 : kind == 1 ? false : one_in(s, 4);
    if (p->mask == ATTN_MASK_BOOL) ((uint8_t *)m)[i] = removed ? 0 : (uint8_t)between(s, 1, 255);
    else {
      // the lowest finite number instead of -inf: f16's leaves few bits of a score, f32's leaves none
      float lowest = type == ATTN_F16 ? -65504.0f : -3.3895e38f, x = removed ? (kind == 2 ? lowest : -INFINITY) : normal(s);
      put_element(m, type, i, x);
      if (x > -1e30f) c->mask_size = fmax(c->mask_size, fabs((double)x));
    }
  }
  return m;
}

static void halve(void *user, float *scores, int64_t ld, int64_t batch, int lanes, const int64_t *head,
                  const int64_t *q_index, int64_t kv_begin, int64_t kv_count) {
  (void)user;
  for (int64_t j = 0; j < kv_count; j++)
    for (int i = 0; i < lanes; i++) {
      float bias = 0.25f * (float)((kv_begin + j + q_index[i] + head[i] + batch) % 5);
      scores[j * ld + i] = 0.5f * scores[j * ld + i] + bias;
    }
}

/* Largest row norms in double, for the size of scores. */
static double largest_norm(const void *data, const rows *r, bool values) {
  double worst = 0;
  for (int64_t o = 0; o < r->outer; o++)
    for (int64_t h = 0; h < r->heads; h++)
      for (int64_t i = 0; i < r->count; i++) {
        double sum = 0;
        for (int64_t d = 0; d < r->dim; d++) {
          int64_t at = o * r->s.batch + h * r->s.head + i * r->s.row + d * r->s.col;
          double x = attn_dtype_load(r->type, data, at);
          if (!isfinite(x)) continue;
          sum = values ? fmax(sum, fabs(x)) : sum + x * x;
        }
        worst = fmax(worst, values ? sum : sqrt(sum));
      }
  return worst;
}

/* Scale factors that multiply a tensor, at most. */
static double largest(const float *x, int64_t n) {
  double most = 0;
  for (int64_t i = 0; x && i < n; i++) most = fmax(most, fabs((double)x[i]));
  return x ? most : 1;
}

static void measure(gen_case *c, const rows *q, const rows *k, const rows *v, int64_t scales) {
  const attn_problem *p = &c->problem;
  double fq = c->io.q_scale ? largest(c->io.q_scale, p->heads_q) : 1;
  double fk = largest(c->io.k_scale, scales), fv = largest(c->io.v_scale, scales);
  c->max_value = fv * largest_norm(c->io.v, v, true);
  c->score_size = fabs((double)p->scale) * fq * fk * largest_norm(c->io.q, q, false) * largest_norm(c->io.k, k, false);
  if (p->mask == ATTN_MASK_ADDITIVE) c->score_size += c->mask_size;
  if (p->alibi) c->score_size += largest(c->io.alibi_slopes, p->heads_q) * (double)(p->seq_q + p->seq_kv + llabs(p->causal_offset));
  if (p->score_mod) c->score_size += 2;
  if (p->sinks) c->score_size += 6;
}

static bool fill_sides(gen_case *c, uint64_t *s, int64_t scales) {
  attn_problem *p = &c->problem;
  attn_io *io = &c->io;
  if (p->kv_lengths) io->kv_len = lengths(c, s);
  if (p->varlen) io->cu_seqlens_q = offsets(c, p->total_q, p->seq_q, s);
  if (p->varlen && !p->page_size) io->cu_seqlens_kv = offsets(c, p->total_kv, p->seq_kv - p->prefix, s);
  if (p->page_size) io->block_table = block_table(c, s);
  if (p->mask) io->mask = mask(c, s);
  if (p->alibi) io->alibi_slopes = floats(c, p->heads_q + p->batch * p->alibi_batch_stride, s, 0.1f, 0.1f);
  if (p->sinks) io->sinks = floats(c, p->heads_q, s, 1, 0);
  if (p->sinks && one_in(s, 4) && p->heads_q) ((float *)(uintptr_t)io->sinks)[0] = -INFINITY;
  if (p->fp8_scale) io->q_scale = floats(c, p->heads_q, s, 0.1f, 0.5f);
  if (p->fp8_scale || p->kv_dtype == ATTN_INT8) {
    float center = p->kv_dtype == ATTN_INT8 ? 0.02f : 0.5f;
    io->k_scale = floats(c, scales, s, 0.1f * center, center), io->v_scale = floats(c, scales, s, 0.1f * center, center);
  }
  if (p->score_mod) io->score_mod = halve;
  io->dropout_seed = gen_random(s), io->dropout_offset = gen_random(s) % 1000;
  return true;
}

/* The shared keys, like the others, and their share of the sizes. */
static void add_prefix(gen_case *c, const rows *k, const rows *v, uint64_t *s, float spread) {
  const attn_problem *p = &c->problem;
  rows pk = *k, pv = *v, q = rows_of(p, false, false);
  pk.outer = pv.outer = 1, pk.count = pv.count = p->prefix;
  pk.s = (attn_strides){ 0, p->prefix * pk.dim, pk.dim, 1 }, pv.s = (attn_strides){ 0, p->prefix * pv.dim, pv.dim, 1 };
  c->io.k_prefix = tensor(c, &pk, s, spread), c->io.v_prefix = tensor(c, &pv, s, spread);
  double fk = 1, fv = 1, fq = c->io.q_scale ? largest(c->io.q_scale, p->heads_q) : 1;
  if (p->kv_dtype == ATTN_INT8) {
    c->io.k_prefix_scale = floats(c, p->prefix * p->heads_kv, s, 0.002f, 0.02f);
    c->io.v_prefix_scale = floats(c, p->prefix * p->heads_kv, s, 0.002f, 0.02f);
    fk = largest(c->io.k_prefix_scale, p->prefix * p->heads_kv), fv = largest(c->io.v_prefix_scale, p->prefix * p->heads_kv);
  } else if (c->io.k_scale) {
    fk = largest(c->io.k_scale, p->heads_kv), fv = largest(c->io.v_scale, p->heads_kv);
  }
  c->max_value = fmax(c->max_value, fv * largest_norm(c->io.v_prefix, &pv, true));
  c->score_size += fabs((double)p->scale) * fq * fk * largest_norm(c->io.q, &q, false) * largest_norm(c->io.k_prefix, &pk, false);
}

bool gen_case_make(const attn_problem *problem, uint64_t seed, const gen_options *o, gen_case *c) {
  uint64_t s = seed ^ 0x1234567;
  memset(c, 0, sizeof(*c));
  if (attn_problem_resolve(problem, &c->problem)) return false;
  const attn_problem *p = &c->problem;
  rows q = rows_of(p, false, false), k = rows_of(p, true, false), v = rows_of(p, true, true), out = rows_of(p, false, true);
  int64_t scales = p->kv_dtype == ATTN_INT8 ? k.outer * k.count * k.heads : p->heads_q + 1;
  float spread = one_in(&s, 8) ? 3.0f : 1.0f;
  c->io.q = tensor(c, &q, &s, one_in(&s, 12) ? 0.0f : spread);
  c->io.k = tensor(c, &k, &s, spread);
  c->io.v = tensor(c, &v, &s, spread);
  fill_sides(c, &s, scales);
  measure(c, &q, &k, &v, scales);
  if (p->prefix) add_prefix(c, &k, &v, &s, spread);
  if (!o->plain_data && one_in(&s, 5)) poison_keys(c, &k, &v, &s);
  int64_t lse = p->varlen ? p->heads_q * p->total_q : p->batch * p->heads_q * p->seq_q;
  int64_t weights = p->batch * p->heads_q * p->seq_kv * (p->weights == ATTN_WEIGHTS_COLUMN_SUMS ? 1 : p->seq_q);
  c->out_bytes = (size_t)attn_dtype_bytes(p->out_dtype, span(&out));
  c->io.out = take(c, (int64_t)c->out_bytes, &s, attn_dtype_bytes(p->out_dtype, 1));
  c->lse_count = p->return_lse ? (size_t)lse : 0;
  c->io.lse = take(c, (int64_t)c->lse_count * 4, &s, 4);
  c->weights_count = p->weights ? (size_t)weights : 0;
  c->io.weights = take(c, (int64_t)c->weights_count * 4, &s, 4);
  if (c->count != 0 && (!c->io.q || !c->io.k || !c->io.v || !c->io.out || !c->io.lse || !c->io.weights)) return false;
  gen_case_poison(c);
  return true;
}

void gen_case_poison(gen_case *c) {
  memset(c->io.out, 0xa5, c->out_bytes);
  memset(c->io.lse, 0xa5, c->lse_count * 4);
  memset(c->io.weights, 0xa5, c->weights_count * 4);
}

void gen_case_free(gen_case *c) {
  for (int i = 0; i < c->count; i++) {
    gen_block *b = &c->blocks[i];
    if (b->base_bytes) munmap(b->base, b->base_bytes);
    else free(b->base);
  }
  c->count = 0;
}

int gen_features(const attn_problem *p, const char *names[GEN_FEATURES]) {
  int n = 0;
#define FEATURE(condition, name)                                                                   \
  if (condition) names[n++] = name
  FEATURE(p->heads_kv && p->heads_q != p->heads_kv, "gqa");
  FEATURE(p->head_dim_v && p->head_dim_v != p->head_dim, "head_dim_v");
  FEATURE(p->causal == ATTN_CAUSAL_TOP_LEFT, "causal top-left");
  FEATURE(p->causal == ATTN_CAUSAL_BOTTOM_RIGHT, "causal bottom-right");
  FEATURE(p->causal == ATTN_CAUSAL_OFFSET, "causal offset");
  FEATURE(p->window, "window");
  FEATURE(p->mask == ATTN_MASK_BOOL, "bool mask");
  FEATURE(p->mask == ATTN_MASK_ADDITIVE, "additive mask");
  FEATURE(p->mask && p->mask_dims[3] > 1 && p->mask_dims[3] < p->seq_kv, "short mask");
  FEATURE(p->softcap > 0, "softcap");
  FEATURE(p->scale_set, "scale");
  FEATURE(p->alibi, "alibi");
  FEATURE(p->sinks, "sinks");
  FEATURE(p->score_mod, "score_mod");
  FEATURE(p->kv_lengths, "kv_lengths");
  FEATURE(p->varlen, "varlen");
  FEATURE(p->prefix, "prefix");
  FEATURE(p->page_size, "paged");
  FEATURE(p->dropout > 0, "dropout");
  FEATURE(p->return_lse, "lse");
  FEATURE(p->weights, "weights");
  FEATURE(p->batch_invariant, "batch_invariant");
  FEATURE(p->fp8_scale, "fp8 scales");
  FEATURE(p->dtype && p->dtype != ATTN_F32, attn_dtype_name(p->dtype));
  FEATURE(p->kv_dtype && p->kv_dtype != p->dtype, "kv_dtype");
  FEATURE(p->layout == ATTN_LAYOUT_STRIDED, "strides");
  FEATURE(p->layout == ATTN_LAYOUT_BSHD, "bshd");
#undef FEATURE
  return n;
}
