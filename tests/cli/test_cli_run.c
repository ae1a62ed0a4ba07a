// SPDX-License-Identifier: Apache-2.0
/* `attn run` on arrays in files: what it saves is what the float64 reference computes. */
#include <math.h>

#include "array.h"
#include "attn/attn.h"
#include "spawn.h"

static const float NONE = -INFINITY;
static uint64_t seed = 1;

static float uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (float)(seed >> 40) * 0x1p-23f - 1;
}

/* One attention call: its data in memory and, under fixed names, in files. */
typedef struct example {
  attn_problem p;
  attn_io io;
  void *blocks[16];
  int count;
} example;

static void *block(example *e, size_t bytes) {
  void *p = calloc(1, bytes + 1);
  assert_non_null(p);
  assert_true(e->count < 16);
  return e->blocks[e->count++] = p;
}

static void example_free(example *e) {
  for (int i = 0; i < e->count; i++) free(e->blocks[i]);
}

/* A file of the data; dims end with -1. */
static void save(const char *name, array_dtype type, const void *data, const int64_t *dims) {
  array a = { .dtype = type, .data = (void *)(uintptr_t)data };
  char err[256];
  for (; dims[a.ndim] >= 0; a.ndim++) a.shape[a.ndim] = dims[a.ndim];
  a.bytes = (size_t)array_count(&a) * array_dtype_size(type);
  if (array_save_npy(name, &a, err, sizeof(err))) fail_msg("%s", err);
}
#define DIMS(...) ((const int64_t[]){ __VA_ARGS__, -1 })

static const float *floats(example *e, const char *name, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; dims[i] >= 0; i++) n *= dims[i];
  float *x = block(e, (size_t)n * sizeof(*x));
  for (int64_t i = 0; i < n; i++) x[i] = uniform();
  save(name, ARRAY_F32, x, dims);
  return x;
}

/* Numbers of 16 bits that are exact in f16 and bf16: sixteenths below 2 in magnitude. */
static const uint16_t *halves(example *e, const char *name, array_dtype type, const int64_t *dims) {
  int64_t n = 1;
  for (int i = 0; dims[i] >= 0; i++) n *= dims[i];
  uint16_t *x = block(e, (size_t)n * sizeof(*x));
  for (int64_t i = 0; i < n; i++) {
    uint16_t sign = uniform() < 0 ? 0x8000 : 0, step = (uint16_t)((uniform() + 1) * 7.9f);
    x[i] = (uint16_t)(sign | (type == ARRAY_F16 ? 0x3c00 + (step << 6) : 0x3f80 + (step << 3)));
  }
  save(name, type, x, dims);
  return x;
}

/* The usual case: 2 batches, 4 query heads on 2, 5 queries, 9 keys, dims 8 and 6, all f32. */
static example dense(void) {
  example e = { .p = { .batch = 2,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .seq_q = 5,
                       .seq_kv = 9,
                       .head_dim = 8,
                       .head_dim_v = 6 } };
  e.io.q = floats(&e, "q.npy", DIMS(2, 4, 5, 8));
  e.io.k = floats(&e, "k.npy", DIMS(2, 2, 9, 8));
  e.io.v = floats(&e, "v.npy", DIMS(2, 2, 9, 6));
  return e;
}

static array load(const char *name) {
  array a;
  char err[256];
  if (array_load(name, &a, err, sizeof(err))) fail_msg("%s", err);
  return a;
}

static void close_to(double got, double want, double bound, int64_t at) {
  if (got == want) return;
  if (!(fabs(got - want) <= bound))
    fail_msg("element %lld is %.9g, the reference is %.9g", (long long)at, got, want);
}

/* Compares o.npy with the reference, and l.npy and w.npy where the problem asks for them; values of
 * V are within 1 in magnitude, of 16 bits within 2. Frees the example. */
static void check(example *e, const attn_strides *out, double extra) {
  attn_problem r;
  assert_int_equal(attn_problem_resolve(&e->p, &r), ATTN_OK);
  int64_t seq = r.varlen ? r.total_q : r.seq_q, outer = r.varlen ? 1 : r.batch, dv = r.head_dim_v;
  int64_t rows = outer * r.heads_q * seq, weights = r.batch * r.heads_q * r.seq_q * r.seq_kv;
  if (r.weights == ATTN_WEIGHTS_COLUMN_SUMS) weights /= r.seq_q;
  double *want = block(e, (size_t)(rows * dv) * sizeof(*want)),
         *lse = block(e, (size_t)rows * sizeof(*lse));
  double *w = r.weights ? block(e, (size_t)weights * sizeof(*w)) : NULL;
  if (attn_reference(&r, &e->io, want, lse, w)) fail_msg("%s", attn_last_error());
  array a = load("o.npy");
  assert_int_equal(array_count(&a), rows * dv);
  const attn_strides s = out        ? *out
                         : r.varlen ? (attn_strides){ 0, dv, r.heads_q * dv, 1 }
                                    : (attn_strides){ r.heads_q * seq * dv, seq * dv, dv, 1 };
  for (int64_t i = 0; i < rows * dv; i++) {
    int64_t row = r.varlen ? i / dv / r.heads_q : i / dv % seq,
            h = r.varlen ? i / dv % r.heads_q : i / dv / seq % r.heads_q;
    int64_t at = i / dv / seq / r.heads_q * s.batch + h * s.head + row * s.row + i % dv;
    double got = attn_dtype_load(r.out_dtype, a.data, at);
    double rounded = r.out_dtype == ATTN_BF16 ? 2 * 0x1p-9 : 0; // may be rounded to bf16
    close_to(got, want[i], 4e-6 * (r.dtype == ATTN_F32 ? 1 : 2) + rounded + extra * fabs(want[i]), i);
  }
  array_release(&a);
  if (r.return_lse) {
    a = load("l.npy");
    assert_int_equal(array_count(&a), rows);
    for (int64_t i = 0; i < rows; i++) close_to((double)((float *)a.data)[i], lse[i], 1e-5, i);
    array_release(&a);
  }
  if (w) {
    a = load("w.npy");
    assert_int_equal(array_count(&a), weights);
    for (int64_t i = 0; i < weights; i++) close_to((double)((float *)a.data)[i], w[i], 1e-5, i);
    array_release(&a);
  }
  example_free(e);
}

#define RUN "run -q q.npy -k k.npy -v v.npy -o o.npy --repeat 0 "

static void ranks_and_layouts(void **state) {
  (void)state;
  example e = dense();
  const spawned *s = succeeds(RUN "--check");
  readable(s->out);
  assert_non_null(strstr(s->out, "\nok: "));
  check(&e, NULL, 0);

  e = dense();
  e.io.q = floats(&e, "q.npy", DIMS(2, 5, 4, 8)), e.io.k = floats(&e, "k.npy", DIMS(2, 9, 2, 8));
  e.io.v = floats(&e, "v.npy", DIMS(2, 9, 2, 6));
  e.p.layout = ATTN_LAYOUT_BSHD;
  const attn_strides rows_first = { 5 * 4 * 6, 6, 4 * 6, 1 };
  succeeds(RUN "--layout bshd");
  check(&e, &rows_first, 0);

  e = dense();
  e.io.q = floats(&e, "q.npy", DIMS(2, 5, 4 * 8)), e.io.k = floats(&e, "k.npy", DIMS(2, 9, 2 * 8));
  e.io.v = floats(&e, "v.npy", DIMS(2, 9, 2 * 6));
  e.p.layout = ATTN_LAYOUT_BSHD;
  succeeds(RUN "--heads 4:2");
  array a = load("o.npy");
  assert_int_equal(a.ndim, 3);
  assert_int_equal(a.shape[2], 24);
  array_release(&a);
  check(&e, &rows_first, 0);

  e = dense();
  e.io.q = floats(&e, "q.npy", DIMS(5, 8)), e.io.k = floats(&e, "k.npy", DIMS(9, 8)),
  e.io.v = floats(&e, "v.npy", DIMS(9, 6));
  e.p.batch = e.p.heads_q = e.p.heads_kv = 1;
  succeeds(RUN);
  a = load("o.npy");
  assert_int_equal(a.ndim, 2);
  array_release(&a);
  check(&e, NULL, 0);
}

static void structure_options(void **state) {
  static const struct {
    const char *options;
    attn_problem p; /* the fields that the options set */
  } cases[] = {
    { "--causal", { .causal = ATTN_CAUSAL_TOP_LEFT } },
    { "--causal tl", { .causal = ATTN_CAUSAL_TOP_LEFT } },
    { "--causal br", { .causal = ATTN_CAUSAL_BOTTOM_RIGHT } },
    { "--causal 2", { .causal = ATTN_CAUSAL_OFFSET, .causal_offset = 2 } },
    { "--causal=-2", { .causal = ATTN_CAUSAL_OFFSET, .causal_offset = -2 } },
    { "--window 3:1", { .window = true, .window_left = 3, .window_right = 1 } },
    { "--window=-1:0", { .window = true, .window_left = -1 } },
    { "--causal br --window 2:0",
      { .causal = ATTN_CAUSAL_BOTTOM_RIGHT, .window = true, .window_left = 2 } },
    { "--softcap 0.5", { .softcap = 0.5f } },
    { "--scale 0.75", { .scale = 0.75f } },
    { "--scale 0", { .scale_set = true } },
    { "--scale=-1", { .scale = -1 } },
    { "--backend math", { 0 } },
    { "--backend memory_efficient --isa scalar --threads 2", { 0 } },
  };
  (void)state;
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    const attn_problem *c = &cases[i].p;
    example e = dense();
    e.p.causal = c->causal, e.p.causal_offset = c->causal_offset, e.p.softcap = c->softcap,
    e.p.scale = c->scale;
    e.p.window = c->window, e.p.window_left = c->window_left, e.p.window_right = c->window_right;
    e.p.scale_set = c->scale_set, e.p.return_lse = true;
    succeeds(RUN "--lse l.npy %s", cases[i].options);
    check(&e, NULL, 0);
  }
}

static void masks(void **state) {
  static const int64_t shapes[][5] = { { 2, 4, 5, 9, -1 }, { 1, 1, 5, 9, -1 }, { 2, 1, 1, 9, -1 },
                                       { 5, 9, -1 },       { 9, -1 },          { 4, 5, 1, -1 },
                                       { 4, 1, 9, -1 },    { 5, 7, -1 } };
  (void)state;
  for (size_t i = 0; i < 2 * sizeof(shapes) / sizeof(shapes[0]); i++) {
    const int64_t *d = shapes[i / 2];
    bool additive = i % 2;
    int n = 0;
    int64_t count = 1;
    example e = dense();
    for (; d[n] >= 0; n++) count *= d[n];
    for (int k = 0; k < 4; k++) e.p.mask_dims[k] = k < 4 - n ? 1 : d[k - 4 + n];
    float *numbers = block(&e, (size_t)count * sizeof(*numbers));
    uint8_t *bits = block(&e, (size_t)count);
    for (int64_t k = 0; k < count; k++)
      bits[k] = uniform() < 0.4f, numbers[k] = bits[k] ? uniform() : NONE;
    e.p.mask = additive ? ATTN_MASK_ADDITIVE : ATTN_MASK_BOOL;
    e.p.return_lse = true;
    e.io.mask = additive ? (void *)numbers : bits;
    save("m.npy", additive ? ARRAY_F32 : ARRAY_BOOL, e.io.mask, d);
    succeeds(RUN "--mask m.npy --lse l.npy");
    check(&e, NULL, 0);
  }
}

static void side_inputs(void **state) {
  (void)state;
  example e = dense();
  e.p.alibi = e.p.sinks = e.p.return_lse = true;
  e.p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
  e.io.alibi_slopes = floats(&e, "a.npy", DIMS(4)), e.io.sinks = floats(&e, "s.npy", DIMS(4));
  succeeds(RUN "--alibi a.npy --sinks s.npy --causal br --lse l.npy");
  check(&e, NULL, 0);

  static const int32_t lengths[] = { 9, 3 };
  static const int64_t wide[] = { 9, 3 };
  static const char *const forms[] = { "9,3", "n32.npy", "n64.npy" };
  save("n32.npy", ARRAY_I32, lengths, DIMS(2));
  save("n64.npy", ARRAY_I64, wide, DIMS(2));
  for (int i = 0; i < 3; i++) {
    e = dense();
    e.p.kv_lengths = true, e.io.kv_len = lengths;
    succeeds(RUN "--kv-len %s", forms[i]);
    check(&e, NULL, 0);
  }
}

static void packed_and_paged(void **state) {
  static const int32_t cu_q[] = { 0, 3, 3, 7 }, cu_kv[] = { 0, 2, 6, 11 },
                       table[] = { 4, 0, 2, 1, 3, 3 }, lengths[] = { 8, 5 };
  (void)state;
  example e = { .p = { .batch = 3,
                       .heads_q = 4,
                       .heads_kv = 2,
                       .seq_q = 4,
                       .seq_kv = 5,
                       .head_dim = 8,
                       .varlen = true,
                       .total_q = 7,
                       .total_kv = 11,
                       .causal = ATTN_CAUSAL_BOTTOM_RIGHT,
                       .return_lse = true } };
  e.io.q = floats(&e, "q.npy", DIMS(7, 4, 8)), e.io.k = floats(&e, "k.npy", DIMS(11, 2, 8)),
  e.io.v = floats(&e, "v.npy", DIMS(11, 2, 8));
  e.io.cu_seqlens_q = cu_q, e.io.cu_seqlens_kv = cu_kv;
  succeeds(RUN "--causal br --lse l.npy --cu-seqlens '0,3,3,7;0,2,6,11'");
  check(&e, NULL, 0);

  e = (example){ .p = { .batch = 2,
                        .heads_q = 4,
                        .heads_kv = 2,
                        .seq_q = 5,
                        .seq_kv = 12,
                        .head_dim = 8,
                        .page_size = 4,
                        .num_pages = 5,
                        .pages_per_seq = 3,
                        .kv_lengths = true } };
  e.io.q = floats(&e, "q.npy", DIMS(2, 4, 5, 8)), e.io.k = floats(&e, "k.npy", DIMS(5, 4, 2, 8)),
  e.io.v = floats(&e, "v.npy", DIMS(5, 4, 2, 8));
  e.io.block_table = table, e.io.kv_len = lengths;
  save("t.npy", ARRAY_I32, table, DIMS(2, 3));
  succeeds(RUN "--block-table t.npy --kv-len 8,5");
  check(&e, NULL, 0);
}

/* 4 old keys and 5 new ones make the 9 of the whole. */
static void past_keys(void **state) {
  (void)state;
  for (int bshd = 0; bshd < 2; bshd++) {
    int64_t dims[2] = { 8, 6 };
    const char *const names[2] = { "k", "v" };
    example e = dense();
    for (int t = 0; t < 2; t++) {
      int64_t d = dims[t], outer = bshd ? 2 : 4, inner = bshd ? 2 * d : d;
      const float *whole = t ? e.io.v : e.io.k;
      float *old = block(&e, (size_t)(outer * 4 * inner) * sizeof(*old)),
            *new = block(&e, (size_t)(outer * 5 * inner) * sizeof(*new));
      char name[2][32];
      for (int64_t o = 0; o < outer; o++) {
        memcpy(old + o * 4 * inner, whole + o * 9 * inner, (size_t)(4 * inner) * sizeof(*old));
        memcpy(new + o * 5 * inner, whole + (o * 9 + 4) * inner,
               (size_t)(5 * inner) * sizeof(*new));
      }
      snprintf(name[0], sizeof(name[0]), "past_%s.npy", names[t]),
          snprintf(name[1], sizeof(name[1]), "%s.npy", names[t]);
      save(name[0], ARRAY_F32, old, bshd ? DIMS(2, 4, 2, d) : DIMS(2, 2, 4, d));
      save(name[1], ARRAY_F32, new, bshd ? DIMS(2, 5, 2, d) : DIMS(2, 2, 5, d));
    }
    if (bshd) e.io.q = floats(&e, "q.npy", DIMS(2, 5, 4, 8)), e.p.layout = ATTN_LAYOUT_BSHD;
    succeeds(RUN "--past-k past_k.npy --past-v past_v.npy --present-k pk.npy --present-v pv.npy%s",
             bshd ? " --layout bshd" : "");
    array a = load("pk.npy");
    assert_int_equal(a.shape[bshd ? 1 : 2], 9);
    assert_memory_equal(a.data, e.io.k, 2 * 2 * 9 * 8 * sizeof(float));
    array_release(&a);
    a = load("pv.npy");
    assert_memory_equal(a.data, e.io.v, 2 * 2 * 9 * 6 * sizeof(float));
    array_release(&a);
    const attn_strides rows_first = { 5 * 4 * 6, 6, 4 * 6, 1 };
    check(&e, bshd ? &rows_first : NULL, 0);
  }
}

static void weights(void **state) {
  static const char *const kinds[] = { "scores", "capped", "masked", "probs", "column-sums" };
  (void)state;
  for (int i = 0; i < 5; i++) {
    example e = dense();
    e.p.weights = (attn_weights)(i + 1), e.p.softcap = 2, e.p.causal = ATTN_CAUSAL_BOTTOM_RIGHT;
    succeeds(RUN "--softcap 2 --causal br --weights %s --weights-out w.npy", kinds[i]);
    check(&e, NULL, 0);
  }
}

static void half_types(void **state) {
  (void)state;
  for (int i = 0; i < 4; i++) {
    bool bf16 = i & 1, wide = i & 2;
    array_dtype type = bf16 ? ARRAY_U16 : ARRAY_F16;
    example e = dense();
    e.p.dtype = bf16 ? ATTN_BF16 : ATTN_F16, e.p.out_dtype = wide ? ATTN_F32 : ATTN_DTYPE_DEFAULT;
    e.io.q = halves(&e, "q.npy", type, DIMS(2, 4, 5, 8)),
    e.io.k = halves(&e, "k.npy", type, DIMS(2, 2, 9, 8));
    e.io.v = halves(&e, "v.npy", type, DIMS(2, 2, 9, 6));
    succeeds(RUN "%s%s", bf16 ? "--dtype bf16" : "", wide ? " --out-dtype f32" : "");
    check(&e, NULL, wide ? 0 : bf16 ? 0x1p-8 : 0x1p-11);
    if (bf16) fails(1, "--dtype bf16", RUN);
  }
}

static void comparison(void **state) {
  static const char *const keys[] = {
    "implementation:s", "backend:s",         "reason:s",   "shape:s",        "time_ms:n",
    "max_error:n",      "workspace_bytes:i", "rejected:a", "alternatives:a", NULL
  };
  (void)state;
  example e = dense();
  succeeds(RUN);
  succeeds("run -q q.npy -k k.npy -v v.npy --reference o.npy --tolerance 0");
  succeeds("run -q q.npy -k k.npy -v v.npy --check --tolerance 8e-6");
  json_t *o = parsed(succeeds(RUN "--check --json"));
  has_keys(o, keys);
  json_decref(o);
  array a = load("o.npy"), kept;
  float *x = block(&e, a.bytes);
  memcpy(x, a.data, a.bytes);
  x[7] += 0.25f;
  save("r.npy", ARRAY_F32, x, DIMS(2, 4, 5, 6));
  array_release(&a);
  assert_non_null(strstr(succeeds("run -q q.npy -k k.npy -v v.npy --reference r.npy --check")->out,
                         "max error 0.25"));
  save("kept.npy", ARRAY_F32, x, DIMS(4));
  fails(1, "0.25", "run -q q.npy -k k.npy -v v.npy --reference r.npy --tolerance 0.2 -o kept.npy");
  kept = load("kept.npy");
  assert_int_equal(array_count(&kept), 4);
  array_release(&kept);
  o = parsed(fails(1, "tolerance",
                   "run -q q.npy -k k.npy -v v.npy --reference r.npy --tolerance 0.2 --json"));
  has_keys(o, (const char *const[]){ "error:s", NULL });
  json_decref(o);
  succeeds("run -q q.npy -k k.npy -v v.npy --reference r.npy --tolerance 0.3");
  save("r.npy", ARRAY_F32, x, DIMS(2, 4, 5, 5));
  fails(1, "shape", "run -q q.npy -k k.npy -v v.npy --reference r.npy");
  readable(succeeds("run -q q.npy -k k.npy -v v.npy --explain")->out);
  o = parsed(succeeds("run -q q.npy -k k.npy -v v.npy --explain --json"));
  assert_true(json_is_object(json_object_get(o, "hardware")));
  json_decref(o);
  example_free(&e);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(ranks_and_layouts),
    cmocka_unit_test(structure_options),
    cmocka_unit_test(masks),
    cmocka_unit_test(side_inputs),
    cmocka_unit_test(packed_and_paged),
    cmocka_unit_test(past_keys),
    cmocka_unit_test(weights),
    cmocka_unit_test(half_types),
    cmocka_unit_test(comparison),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
