// SPDX-License-Identifier: Apache-2.0
/* Buffers and numbers for a problem. Each part draws from a stream of its own, so that a part keeps
 * its numbers while a failing problem is made smaller around it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "problem_gen.h"

enum stream {
  KINDS,
  MEMORY,
  DATA_Q,
  DATA_K,
  DATA_V,
  PREFIX_K,
  PREFIX_V,
  DATA_MASK,
  LENGTHS,
  PAGES,
  SIDES,
  SPECIALS
};

static uint64_t stream(const gen_case *c, enum stream which) {
  uint64_t s = c->seed + 0x632be59bd9b4e019u * (uint64_t)(which + 1);
  return gen_random(&s);
}

static void set_trait(gen_case *c, enum gen_trait t) { c->traits |= 1u << t; }
static bool has_trait(const gen_case *c, enum gen_trait t) { return c->traits >> t & 1; }

const char *gen_trait_name(int trait) {
  static const char *const names[] = {
#define X(name, text) text,
    GEN_TRAITS(X)
#undef X
  };
  return names[trait];
}

/* ---- Memory */

/* Filled with 0xff, NaN in every type: what is not an element must not show in a result. */
static void *take(gen_case *c, int64_t size, int64_t align, bool output) {
  uint64_t s = stream(c, MEMORY) + (uint64_t)c->block_count;
  size_t n = size > 0 ? (size_t)size : 0, page = (size_t)sysconf(_SC_PAGESIZE);
  gen_block *b = &c->blocks[c->block_count];
  if (c->block_count == GEN_BLOCKS) return NULL;
  *b = (gen_block){ .bytes = n, .output = output, .mapped = gen_one_in(&s, 3) };
  if (b->mapped) { // ends at an inaccessible page
    size_t pages = (n + page - 1) / page * page;
    b->base_bytes = pages + page;
    void *map =
        mmap(NULL, b->base_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (map == MAP_FAILED) return NULL;
    b->base = map, b->data = b->base + pages - n;
    memset(b->base, GEN_CANARY, pages);
    if (mprotect(b->base + pages, page, PROT_NONE)) return NULL;
    set_trait(c, GEN_GUARDED);
  } else { // an input ends where its allocation ends, which sanitizers watch
    int64_t steps = gen_between(&s, 0, 3);
    size_t before = (size_t)(align * steps) + (output ? 64 : 0);
    b->base_bytes = before + n + (output ? 64 : 0);
    b->base = malloc(b->base_bytes ? b->base_bytes : 1);
    if (!b->base) return NULL;
    b->data = b->base + before;
    memset(b->base, GEN_CANARY, b->base_bytes);
    if (align * steps % 16) set_trait(c, GEN_UNALIGNED);
  }
  memset(b->data, 0xff, n);
  c->block_count++;
  return b->data;
}

static void make_inputs_read_only(gen_case *c) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < c->block_count; i++) {
    gen_block *b = &c->blocks[i];
    if (b->mapped && !b->output && b->base_bytes > page)
      mprotect(b->base, b->base_bytes - page, PROT_READ);
  }
}

static bool is_canary(const unsigned char *from, const unsigned char *to) {
  while (from < to)
    if (*from++ != GEN_CANARY) return false;
  return true;
}

bool gen_case_intact(const gen_case *c, int byte) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  for (int i = 0; i < c->block_count; i++) {
    const gen_block *b = &c->blocks[i];
    const unsigned char *end = b->base + b->base_bytes - (b->mapped ? page : 0);
    if (b->output && (!is_canary(b->base, b->data) || !is_canary(b->data + b->bytes, end)))
      return false;
  }
  const unsigned char *out = c->io.out;
  for (size_t i = 0; c->gaps && i < c->out_bytes; i++)
    if (c->gaps[i] && out[i] != (unsigned char)byte) return false;
  return true;
}

void gen_case_poison(gen_case *c, int byte) {
  for (int i = 0; i < c->block_count; i++)
    if (c->blocks[i].output) memset(c->blocks[i].data, byte, c->blocks[i].bytes);
}

void gen_case_free(gen_case *c) {
  for (int i = 0; i < c->block_count; i++) {
    gen_block *b = &c->blocks[i];
    if (b->mapped)
      munmap(b->base, b->base_bytes);
    else
      free(b->base);
  }
  free(c->gaps);
  c->block_count = 0, c->gaps = NULL;
}

/* ---- Elements */

static bool is_block(attn_dtype t) { return t == ATTN_Q8_0 || t == ATTN_Q4_0; }
static bool can_be_special(attn_dtype t) { return !is_block(t) && t != ATTN_INT8; }

static void put(void *data, attn_dtype t, int64_t at, float x) {
  attn_dtype_from_f32(t, &x, (char *)data + at * attn_dtype_bytes(t, 1), 1);
}

static int64_t row_at(const gen_tensor *t, int64_t outer, int64_t head, int64_t row) {
  return outer * t->strides.batch + head * t->strides.head + row * t->strides.row;
}

static void put_row(void *data, const gen_tensor *t, int64_t at, const float *x, uint64_t *s) {
  for (int64_t d = 0; t->dtype == ATTN_F64 && d < t->dim; d++) { // more bits than a float has
    double wide = (double)x[d] * (1 + 0x1p-30 * (double)gen_between(s, -99, 99));
    memcpy((char *)data + (at + d * t->strides.col) * 8, &wide, 8);
  }
  if (t->dtype == ATTN_F64) return;
  if (t->strides.col == 1)
    attn_dtype_from_f32(t->dtype, x, (char *)data + attn_dtype_bytes(t->dtype, at), t->dim);
  for (int64_t d = 0; t->strides.col != 1 && d < t->dim; d++)
    put(data, t->dtype, at + d * t->strides.col, x[d]);
}

static void *tensor(gen_case *c, const gen_tensor *t, enum stream which, float spread,
                    float center) {
  uint64_t s = stream(c, which);
  int64_t span = gen_tensor_span(t), block = is_block(t->dtype) ? 32 : 1;
  int64_t bytes = attn_dtype_bytes(t->dtype, (span + block - 1) / block * block);
  void *data = take(c, bytes, block > 1 ? 2 : attn_dtype_bytes(t->dtype, 1), false);
  float *x = malloc((size_t)(t->dim + 1) * sizeof(float));
  bool quants = t->dtype == ATTN_INT8; // their scales make them numbers
  for (int64_t o = 0; data && x && o < t->outer; o++)
    for (int64_t h = 0; h < t->heads; h++)
      for (int64_t r = 0; r < t->rows; r++) {
        for (int64_t d = 0; d < t->dim; d++)
          x[d] = (quants ? 40 : spread) * gen_normal(&s) + (quants ? 0 : center);
        put_row(data, t, row_at(t, o, h, r), x, &s);
      }
  free(x);
  return x ? data : NULL;
}

static float *floats(gen_case *c, int64_t n, uint64_t *s, float spread, float center) {
  float *p = take(c, n * 4, 4, false);
  for (int64_t i = 0; p && i < n; i++) p[i] = center + spread * gen_normal(s);
  return p;
}

/* Inputs are const to the library alone. */
static void *writable(const void *p) { return (void *)(uintptr_t)p; }

/* ---- Lengths and pages */

static int32_t *lengths(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  int32_t *n = take(c, p->batch * 4, 4, false);
  int kind = (int)gen_between(s, 0, 5);
  for (int64_t b = 0; n && b < p->batch; b++) {
    bool whole = kind == 0 || (kind == 1 && gen_one_in(s, 2));
    n[b] = (int32_t)(whole ? p->seq_kv : gen_one_in(s, 8) ? 0 : gen_between(s, 0, p->seq_kv));
  }
  return n;
}

/* Offsets to `total` with no sequence above `longest`. */
static int32_t *offsets(gen_case *c, int64_t total, int64_t longest, uint64_t *s) {
  int64_t batch = c->problem.batch, left = total;
  int32_t *cu = take(c, (batch + 1) * 4, 4, false);
  if (!cu) return NULL;
  cu[0] = 0;
  for (int64_t b = 0; b < batch; b++) {
    int64_t rest = (batch - b - 1) * longest, low = left - rest > 0 ? left - rest : 0;
    int64_t high = left < longest ? left : longest;
    int64_t n = b == batch - 1 ? left : gen_one_in(s, 6) ? low : gen_between(s, low, high);
    cu[b + 1] = cu[b] + (int32_t)n;
    left -= n;
  }
  return cu;
}

/* Keys of sequence b that k and v hold. */
static int64_t own_length(const gen_case *c, int64_t b) {
  const attn_problem *p = &c->problem;
  if (p->varlen && !p->page_size) return c->io.cu_seqlens_kv[b + 1] - c->io.cu_seqlens_kv[b];
  int64_t n = (p->kv_lengths ? c->io.kv_len[b] : p->seq_kv) - p->prefix;
  return n > 0 ? n : 0;
}

/* A permutation of pages, or any pages; entries past a sequence's length name none. */
static int32_t *block_table(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  int64_t n = p->batch * p->pages_per_seq;
  int32_t *table = p->num_pages ? take(c, n * 4, 4, false) : NULL;
  bool shared = p->num_pages < n || gen_one_in(s, 6);
  for (int64_t i = 0; table && i < n; i++)
    table[i] = (int32_t)(shared ? gen_between(s, 0, p->num_pages - 1) : i);
  for (int64_t i = n - 1; table && i > 0; i--) {
    int64_t j = gen_between(s, 0, i);
    int32_t x = table[i];
    table[i] = table[j], table[j] = x;
  }
  static const int32_t none[] = { -1, INT32_MAX, INT32_MIN, 1 << 20 };
  for (int64_t b = 0; table && b < p->batch; b++)
    for (int64_t i = (own_length(c, b) + p->page_size - 1) / p->page_size; i < p->pages_per_seq;
         i++)
      table[b * p->pages_per_seq + i] = none[gen_between(s, 0, 3)];
  if (shared) set_trait(c, GEN_SHARED_PAGES);
  return table;
}

/* Where key j of sequence b lies in k and v; false in the prefix and past its length. */
static bool locate(const gen_case *c, int64_t b, int64_t j, int64_t *outer, int64_t *row) {
  const attn_problem *p = &c->problem;
  int64_t own = j - p->prefix;
  if (own < 0 || own >= own_length(c, b)) return false;
  *outer = b, *row = own;
  if (p->page_size) {
    *outer = c->io.block_table[b * p->pages_per_seq + own / p->page_size];
    *row = own % p->page_size;
  } else if (p->varlen) {
    *outer = 0, *row = c->io.cu_seqlens_kv[b] + own;
  }
  return true;
}

/* Does another key, too, lie where one lies? */
static bool aliased(const gen_case *c, const gen_tensor *t) {
  const attn_strides *s = &t->strides;
  return has_trait(c, GEN_SHARED_PAGES) || (!s->batch && t->outer > 1) ||
         (!s->head && t->heads > 1) || (!s->row && t->rows > 1);
}

/* ---- NaN and infinities */

static void spoil_row(void *data, const gen_tensor *t, int64_t outer, int64_t row, float x) {
  for (int64_t h = 0; h < t->heads; h++) {
    int64_t at = row_at(t, outer, h, row);
    if (is_block(t->dtype)) // scales of NaN
      memset((char *)data + attn_dtype_bytes(t->dtype, at), 0xff,
             (size_t)attn_dtype_bytes(t->dtype, t->dim));
    for (int64_t d = 0; d < t->dim && can_be_special(t->dtype); d++)
      put(data, t->dtype, at + d * t->strides.col, x);
  }
}

/* Key and value in a place that no result may depend on. */
static void spoil_key(gen_case *c, const gen_tensor *k, const gen_tensor *v, int64_t outer,
                      int64_t row, float x) {
  spoil_row(writable(c->io.k), k, outer, row, x);
  spoil_row(writable(c->io.v), v, outer, row, x);
  for (int64_t h = 0; k->dtype == ATTN_INT8 && h < k->heads; h++) {
    int64_t token = (outer * k->rows + row) * k->heads + h;
    ((float *)writable(c->io.k_scale))[token] = x;
    ((float *)writable(c->io.v_scale))[token] = x;
  }
}

/* Rows of k and v past every length, in no page or behind a page's last key. */
static void spoil_unread(gen_case *c, const gen_tensor *k, const gen_tensor *v) {
  const attn_problem *p = &c->problem;
  bool *read = calloc((size_t)(k->outer * k->rows) + 1, sizeof(bool));
  if (!read || aliased(c, k) || aliased(c, v) || (p->varlen && !p->page_size)) {
    free(read);
    return;
  }
  int64_t outer, row;
  for (int64_t b = 0; b < p->batch; b++)
    for (int64_t j = 0; j < p->seq_kv; j++)
      if (locate(c, b, j, &outer, &row)) read[outer * k->rows + row] = true;
  for (int64_t i = 0; i < k->outer * k->rows; i++)
    if (!read[i]) spoil_key(c, k, v, i / k->rows, i % k->rows, NAN), set_trait(c, GEN_UNREAD);
  free(read);
}

static int64_t mask_at(const attn_problem *p, int64_t b, int64_t h, int64_t i, int64_t j) {
  const int64_t *s = p->mask_strides;
  return b * s[0] + h * s[1] + i * s[2] + j * s[3];
}

static void remove_at(const gen_case *c, int64_t at) {
  const attn_problem *p = &c->problem;
  if (p->mask == ATTN_MASK_BOOL)
    ((uint8_t *)writable(c->io.mask))[at] = 0;
  else
    put(writable(c->io.mask), p->mask_dtype, at, -INFINITY);
}

/* A few keys that a mask removes for everyone hold NaN or infinity. */
static void spoil_removed(gen_case *c, const gen_tensor *k, const gen_tensor *v, uint64_t *s) {
  const attn_problem *p = &c->problem;
  const int64_t *dims = p->mask_dims;
  if (!p->mask || dims[3] < 2 || aliased(c, k) || aliased(c, v)) return;
  for (int64_t n = 1 + dims[3] / 8; n > 0; n--) {
    int64_t j = gen_between(s, 0, dims[3] - 1), outer, row;
    float x = gen_one_in(s, 3) ? INFINITY : NAN;
    for (int64_t b = 0; b < dims[0]; b++)
      for (int64_t h = 0; h < dims[1]; h++)
        for (int64_t i = 0; i < dims[2]; i++) remove_at(c, mask_at(p, b, h, i, j));
    for (int64_t b = 0; b < p->batch; b++)
      if (locate(c, b, j, &outer, &row)) spoil_key(c, k, v, outer, row, x);
  }
  set_trait(c, GEN_REMOVED);
}

/* A whole row or one element, in some places of a tensor that rows may attend. */
static void spoil_some(void *data, const gen_tensor *t, int64_t count, bool infinite, uint64_t *s) {
  if (!t->outer || !t->heads || !t->rows || !can_be_special(t->dtype)) return;
  for (; count > 0; count--) {
    int64_t at = row_at(t, gen_between(s, 0, t->outer - 1), gen_between(s, 0, t->heads - 1),
                        gen_between(s, 0, t->rows - 1));
    float x = !infinite || gen_one_in(s, 2) ? NAN : gen_one_in(s, 2) ? INFINITY : -INFINITY;
    int64_t only = gen_one_in(s, 2) ? gen_between(s, 0, t->dim - 1) : -1;
    for (int64_t d = 0; d < t->dim; d++)
      if (only < 0 || only == d) put(data, t->dtype, at + d * t->strides.col, x);
  }
}

static void spoil_mask(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  const int64_t *n = p->mask_dims;
  if (p->mask != ATTN_MASK_ADDITIVE || !n[0] || !n[1] || !n[2] || !n[3]) return;
  int64_t at = mask_at(p, gen_between(s, 0, n[0] - 1), gen_between(s, 0, n[1] - 1),
                       gen_between(s, 0, n[2] - 1), gen_between(s, 0, n[3] - 1));
  put(writable(c->io.mask), p->mask_dtype, at, gen_one_in(s, 2) ? NAN : INFINITY);
  set_trait(c, GEN_SPECIAL_MASK);
}

static void spoil(gen_case *c, const gen_options *o) {
  uint64_t s = stream(c, SPECIALS);
  const attn_problem *p = &c->problem;
  gen_tensor q = gen_tensor_of(p, GEN_Q), k = gen_tensor_of(p, GEN_K), v = gen_tensor_of(p, GEN_V);
  int64_t few = 1 + k.outer * k.heads * k.rows / 50;
  int kind = (int)gen_between(&s, 0, 23);
  if (o->plain_data) return;
  if (kind == 0 || kind == 1) {
    spoil_some(writable(c->io.k), &k, few, true, &s);
    set_trait(c, GEN_SPECIAL_K);
  }
  if (kind == 1 || kind == 2) {
    spoil_some(writable(c->io.v), &v, few, true, &s);
    set_trait(c, GEN_SPECIAL_V);
  }
  if (kind == 3) {
    spoil_some(writable(c->io.q), &q, 1, false, &s);
    set_trait(c, GEN_SPECIAL_Q);
  }
  if (kind == 4) spoil_mask(c, &s);
  if (gen_one_in(&s, 3)) spoil_removed(c, &k, &v, &s);
  if (gen_one_in(&s, 2)) spoil_unread(c, &k, &v);
}

/* ---- Masks and the rest */

/* -inf or a number that comes near: the lowest of the type, or what models use for "never". */
static float removal(gen_case *c, uint64_t *s) {
  attn_dtype t = c->problem.mask_dtype;
  if (gen_one_in(s, 2)) return -INFINITY;
  set_trait(c, GEN_FINITE_LOW);
  if (gen_one_in(s, 2)) return t == ATTN_F16 || gen_one_in(s, 2) ? -1e4f : -1e9f;
  return t == ATTN_F16 ? -65504.0f : t == ATTN_BF16 ? -0x1.fep127f : -0x1.fffffep127f;
}

typedef struct mask_kind {
  int shape;
  int64_t run;
  float removed;
} mask_kind;

static bool mask_removes(const mask_kind *m, int64_t i, int64_t j, uint64_t *s) {
  switch (m->shape) {
  case 0: // runs that empty whole rows and tiles now and then
    return (i + j / m->run) % 2;
  case 1:
    return false;
  case 2: // blocks, as of documents
    return i / m->run != j / m->run;
  case 3:
    return j > i;
  default:
    return gen_one_in(s, 4);
  }
}

static void *mask(gen_case *c) {
  const attn_problem *p = &c->problem;
  const int64_t *dims = p->mask_dims;
  uint64_t s = stream(c, DATA_MASK);
  bool keep = p->mask == ATTN_MASK_BOOL, empty = gen_one_in(&s, 6);
  int64_t n = 1, width = keep ? 1 : attn_dtype_bytes(p->mask_dtype, 1);
  for (int d = 0; d < 4; d++) n = dims[d] ? n + (dims[d] - 1) * p->mask_strides[d] : -INT32_MAX;
  void *data = take(c, n > 0 ? n * width : 0, width, false);
  mask_kind m = { .shape = (int)gen_between(&s, 0, 5), .run = gen_between(&s, 1, 40) };
  m.removed = keep ? 0 : removal(c, &s);
  c->io.mask = data;
  for (int64_t row = 0; data && row < dims[0] * dims[1] * dims[2]; row++) {
    int64_t i = row % dims[2], h = row / dims[2] % dims[1], b = row / dims[2] / dims[1];
    bool none = empty && gen_one_in(&s, 3);
    if (none) set_trait(c, GEN_EMPTY_ROWS);
    for (int64_t j = 0; j < dims[3]; j++) {
      int64_t at = mask_at(p, b, h, i, j);
      bool removed = mask_removes(&m, i, j, &s);
      float bias = gen_normal(&s);
      if (none)
        remove_at(c, at);
      else if (keep)
        ((uint8_t *)data)[at] = removed ? 0 : (uint8_t)gen_between(&s, 1, 255);
      else
        put(data, p->mask_dtype, at, removed ? m.removed : bias);
    }
  }
  return data;
}

/* score_mod that changes scores, or (user 1) removes some keys. */
static void modify(void *user, float *scores, int64_t ld, int64_t batch, int lanes,
                   const int64_t *head, const int64_t *q_index, int64_t kv_begin,
                   int64_t kv_count) {
  int kind = *(const int *)user;
  for (int64_t j = 0; j < kv_count; j++)
    for (int i = 0; i < lanes; i++) {
      float *x = &scores[j * ld + i];
      float bias = 0.25f * (float)((kv_begin + j + q_index[i] + head[i] + batch) % 5);
      if (kind == 0)
        *x = 0.5f * *x + bias;
      else if ((kv_begin + j + 2 * q_index[i] + head[i]) % 3 == 0)
        *x = -INFINITY;
    }
}

static void sinks(gen_case *c, bool plain, uint64_t *s) {
  int64_t n = c->problem.heads_q;
  float *x = floats(c, n, s, 1, gen_one_in(s, 6) ? 20 : 0);
  c->io.sinks = x;
  if (!x || !n || plain || !gen_one_in(s, 4)) return;
  x[gen_between(s, 0, n - 1)] = -INFINITY;
  set_trait(c, GEN_NO_SINK);
}

static void scales(gen_case *c, uint64_t *s) {
  const attn_problem *p = &c->problem;
  gen_tensor k = gen_tensor_of(p, GEN_K);
  bool int8 = p->kv_dtype == ATTN_INT8;
  int64_t count = int8 ? k.outer * k.rows * k.heads : k.heads;
  if (p->fp8_scale) c->io.q_scale = floats(c, p->heads_q, s, 0.1f, 0.5f);
  if (!p->fp8_scale && !int8) return;
  float center = int8 ? 0.02f : 0.5f;
  c->io.k_scale = floats(c, count, s, 0.1f * center, center);
  c->io.v_scale = floats(c, count, s, 0.1f * center, center);
  if (!int8 || !p->prefix) return;
  c->io.k_prefix_scale = floats(c, p->prefix * k.heads, s, 0.1f * center, center);
  c->io.v_prefix_scale = floats(c, p->prefix * k.heads, s, 0.1f * center, center);
}

static void sides(gen_case *c, const gen_options *o) {
  static const int kinds[] = { 0, 1 };
  const attn_problem *p = &c->problem;
  attn_io *io = &c->io;
  uint64_t l = stream(c, LENGTHS), t = stream(c, PAGES), s = stream(c, SIDES);
  if (p->kv_lengths) io->kv_len = lengths(c, &l);
  if (p->varlen) io->cu_seqlens_q = offsets(c, p->total_q, p->seq_q, &l);
  if (p->varlen && !p->page_size)
    io->cu_seqlens_kv = offsets(c, p->total_kv, p->seq_kv - p->prefix, &l);
  if (p->page_size) io->block_table = block_table(c, &t);
  if (p->mask) mask(c);
  if (p->alibi)
    io->alibi_slopes =
        floats(c, p->heads_q + (p->batch - 1) * p->alibi_batch_stride, &s, 0.1f, 0.1f);
  if (p->sinks) sinks(c, o->plain_data, &s);
  scales(c, &s);
  io->dropout_seed = gen_random(&s), io->dropout_offset = gen_random(&s) % 1000;
  if (!p->score_mod) return;
  bool removes = gen_one_in(&s, 3);
  io->score_mod = modify, io->score_mod_user = (void *)(uintptr_t)&kinds[removes];
  if (removes) set_trait(c, GEN_MOD_REMOVES);
}

/* ---- All of it */

static void tensors(gen_case *c) {
  const attn_problem *p = &c->problem;
  gen_tensor q = gen_tensor_of(p, GEN_Q), k = gen_tensor_of(p, GEN_K), v = gen_tensor_of(p, GEN_V);
  uint64_t s = stream(c, KINDS);
  bool zeros = gen_one_in(&s, 12), large = gen_one_in(&s, 8), shared = gen_one_in(&s, 3);
  float spread = large ? 3 : 1, shift_k = gen_one_in(&s, 12) ? 4 : 0;
  float shift_v = gen_one_in(&s, 12) ? 4 : 0;
  if (zeros) set_trait(c, GEN_EQUAL_SCORES);
  if (large) set_trait(c, GEN_LARGE_SCORES);
  c->io.q = tensor(c, &q, DATA_Q, zeros ? 0 : spread, 0);
  c->io.k = tensor(c, &k, DATA_K, spread, shift_k);
  if (shared && v.dim <= k.dim && !memcmp(&v.strides, &k.strides, sizeof(v.strides))) {
    c->io.v = c->io.k;
    set_trait(c, GEN_SHARED_KV);
  } else {
    c->io.v = tensor(c, &v, DATA_V, spread, shift_v);
  }
  if (!p->prefix) return;
  k.outer = v.outer = 1, k.rows = v.rows = p->prefix;
  k.strides = (attn_strides){ 0, p->prefix * k.dim, k.dim, 1 };
  v.strides = (attn_strides){ 0, p->prefix * v.dim, v.dim, 1 };
  c->io.k_prefix = tensor(c, &k, PREFIX_K, spread, shift_k);
  c->io.v_prefix = tensor(c, &v, PREFIX_V, spread, shift_v);
}

/* Bytes of out that are no element. */
static bool find_gaps(gen_case *c) {
  gen_tensor t = gen_tensor_of(&c->problem, GEN_OUT);
  size_t size = (size_t)attn_dtype_bytes(t.dtype, 1);
  int64_t elements = t.outer * t.heads * t.rows * t.dim;
  if ((size_t)elements * size == c->out_bytes) return true;
  c->gaps = malloc(c->out_bytes);
  if (!c->gaps) return false;
  memset(c->gaps, 1, c->out_bytes);
  for (int64_t i = 0; i < elements; i++) {
    int64_t d = i % t.dim, row = i / t.dim, r = row % t.rows, h = row / t.rows % t.heads;
    int64_t at = row_at(&t, row / t.rows / t.heads, h, r) + d * t.strides.col;
    memset(c->gaps + (size_t)at * size, 0, size);
  }
  return true;
}

static bool outputs(gen_case *c) {
  const attn_problem *p = &c->problem;
  gen_tensor out = gen_tensor_of(p, GEN_OUT);
  bool sums = p->weights == ATTN_WEIGHTS_COLUMN_SUMS;
  int64_t rows = p->heads_q * (p->varlen ? p->total_q : p->batch * p->seq_q);
  int64_t weights = p->batch * p->heads_q * p->seq_kv * (sums ? 1 : p->seq_q);
  c->out_bytes = (size_t)attn_dtype_bytes(out.dtype, gen_tensor_span(&out));
  c->lse_count = p->return_lse ? (size_t)rows : 0;
  c->weights_count = p->weights && rows ? (size_t)weights : 0; // no queries: untouched
  c->io.out = take(c, (int64_t)c->out_bytes, attn_dtype_bytes(out.dtype, 1), true);
  c->io.lse = take(c, (int64_t)c->lse_count * 4, 4, true);
  c->io.weights = take(c, p->weights ? weights * 4 : 0, 4, true);
  return c->io.out && c->io.lse && c->io.weights && find_gaps(c);
}

bool gen_case_make(const attn_problem *problem, uint64_t seed, const gen_options *o, gen_case *c) {
  memset(c, 0, sizeof(*c));
  c->seed = seed;
  if (attn_problem_resolve(problem, &c->problem)) return false;
  const attn_problem *p = &c->problem;
  tensors(c);
  sides(c, o);
  const attn_io *io = &c->io;
  bool ok = io->q && io->k && io->v && (!p->prefix || (io->k_prefix && io->v_prefix)) &&
            (!p->kv_lengths || io->kv_len) && (!p->varlen || io->cu_seqlens_q) &&
            (!p->page_size || io->block_table) && (!p->mask || io->mask) &&
            (!p->sinks || io->sinks) && (p->kv_dtype != ATTN_INT8 || io->v_scale) && outputs(c);
  if (!ok) return false;
  spoil(c, o);
  make_inputs_read_only(c);
  return true;
}
