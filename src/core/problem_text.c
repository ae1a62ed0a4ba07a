// SPDX-License-Identifier: Apache-2.0
/* A problem as the command line's SHAPE, both ways. One table names the options. */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/problem.h"
#include "core/status.h"

static const char *const causal_names[] = { "none", "tl", "br" };
static const char *const layout_names[] = { "bhsd", "bshd", "strided" };
static const char *const weights_names[] = { "none", "scores", "capped", "masked", "probs", "column-sums" };
static const char *const fp8_names[] = { "none", "tensor", "head" };

static attn_status bad(const char *option, const char *value, const char *expected) {
  return core_fail(ATTN_ERROR_PARSE, "%s of value \"%.60s\" is not %s", option, value, expected);
}

/* Up to `count` integers separated by ':'; returns how many there were, 0 if it is no such list. */
static int read_ints(const char *text, int64_t *out, int count) {
  for (int n = 0; n < count; n++) {
    char *end;
    errno = 0;
    if (!isdigit((unsigned char)*text) && *text != '-') return 0;
    out[n] = strtoll(text, &end, 10);
    if (end == text || errno) return 0;
    if (!*end) return n + 1;
    if (*end != ':') return 0;
    text = end + 1;
  }
  return 0;
}

static bool read_float(const char *text, float *out) {
  char *end;
  float x = strtof(text, &end);
  if (end == text || *end) return false;
  *out = x;
  return true;
}

static int find_name(const char *text, const char *const *names, int count) {
  for (int i = 0; i < count; i++)
    if (!strcmp(text, names[i])) return i;
  return -1;
}
#define FIND(text, names) find_name(text, names, (int)(sizeof(names) / sizeof(names[0])))

static bool read_dtype(const char *text, attn_dtype *out) {
  for (int t = ATTN_F32; t < ATTN_DTYPE_COUNT; t++)
    if (!strcmp(text, attn_dtype_name((attn_dtype)t))) {
      *out = (attn_dtype)t;
      return true;
    }
  return false;
}

/* One window side: "inf" or a negative number is unbounded. */
static bool read_side(const char *text, size_t length, int64_t *out) {
  char copy[32];
  if (length == 0 || length >= sizeof(copy)) return false;
  memcpy(copy, text, length);
  copy[length] = 0;
  if (!strcmp(copy, "inf")) *out = -1;
  else if (read_ints(copy, out, 1) != 1) return false;
  if (*out < 0) *out = -1;
  return true;
}

static attn_status set_window(attn_problem *p, const char *option, const char *value) {
  const char *colon = strchr(value, ':');
  int64_t left, right;
  if (!colon || !read_side(value, (size_t)(colon - value), &left) ||
      !read_side(colon + 1, strlen(colon + 1), &right))
    return bad(option, value, "LEFT:RIGHT, each a number or inf");
  p->window = true, p->window_left = left, p->window_right = right;
  return ATTN_OK;
}

static attn_status set_causal(attn_problem *p, const char *option, const char *value) {
  int kind = FIND(value, causal_names);
  int64_t offset;
  if (kind >= 0) p->causal = (attn_causal)kind;
  else if (read_ints(value, &offset, 1) == 1) p->causal = ATTN_CAUSAL_OFFSET, p->causal_offset = offset;
  else return bad(option, value, "tl, br, none or an offset");
  return ATTN_OK;
}

/* KIND[:BxHxQxK], each dimension a number or '*' for full. */
static attn_status set_mask(attn_problem *p, const char *option, const char *value) {
  const char *expected = "bool, f32, f16 or bf16, with :BxHxQxK where dimensions are broadcast";
  const char *colon = strchr(value, ':');
  size_t length = colon ? (size_t)(colon - value) : strlen(value);
  char kind[8];
  int64_t dims[4] = { 0, 0, 0, 0 };
  if (length >= sizeof(kind)) return bad(option, value, expected);
  memcpy(kind, value, length);
  kind[length] = 0;
  attn_dtype dtype = ATTN_DTYPE_DEFAULT;
  bool is_bool = !strcmp(kind, "bool");
  if (!is_bool && !read_dtype(kind, &dtype)) return bad(option, value, expected);
  for (int i = 0; colon && i < 4; i++) {
    char *end = NULL;
    const char *at = i ? colon : colon + 1;
    if (*at == '*') dims[i] = 0, end = (char *)(uintptr_t)at + 1;
    else if (isdigit((unsigned char)*at)) dims[i] = strtoll(at, &end, 10);
    if (!end || *end != (i < 3 ? 'x' : 0)) return bad(option, value, expected);
    colon = end + 1;
  }
  p->mask = is_bool ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
  p->mask_dtype = dtype;
  memcpy(p->mask_dims, dims, sizeof(dims));
  return ATTN_OK;
}

static attn_status set_strides(attn_strides *s, const char *option, const char *value) {
  int64_t n[4] = { 0, 0, 0, 1 };
  if (read_ints(value, n, 4) < 3) return bad(option, value, "BATCH:HEAD:ROW[:COL]");
  *s = (attn_strides){ n[0], n[1], n[2], n[3] };
  return ATTN_OK;
}

/* What an option's value is and which field takes it. */
typedef enum kind { INT, PAIR, FLOAT, DTYPE, SWITCH, STRIDES, OWN } kind;
typedef struct row {
  const char *name;
  kind kind;
  size_t offset, second; /* of the field(s) in attn_problem */
  attn_status (*set)(attn_problem *p, const char *option, const char *value);
} row;

static attn_status set_heads(attn_problem *p, const char *option, const char *value);
static attn_status set_seq(attn_problem *p, const char *option, const char *value);
static attn_status set_scale(attn_problem *p, const char *option, const char *value);
static attn_status set_layout(attn_problem *p, const char *option, const char *value);
static attn_status set_weights(attn_problem *p, const char *option, const char *value);
static attn_status set_fp8(attn_problem *p, const char *option, const char *value);
static attn_status set_align(attn_problem *p, const char *option, const char *value);
static attn_status set_varlen(attn_problem *p, const char *option, const char *value);
static attn_status set_mask_strides(attn_problem *p, const char *option, const char *value);

#define AT(field) offsetof(attn_problem, field)
static const row rows[] = {
  { "--batch", INT, AT(batch), 0, NULL },
  { "--heads", OWN, 0, 0, set_heads },
  { "--seq", OWN, 0, 0, set_seq },
  { "--dim", PAIR, AT(head_dim), AT(head_dim_v), NULL },
  { "--dtype", DTYPE, AT(dtype), 0, NULL },
  { "--kv-dtype", DTYPE, AT(kv_dtype), 0, NULL },
  { "--out-dtype", DTYPE, AT(out_dtype), 0, NULL },
  { "--fp8-scale", OWN, 0, 0, set_fp8 },
  { "--scale", OWN, 0, 0, set_scale },
  { "--softcap", FLOAT, AT(softcap), 0, NULL },
  { "--causal", OWN, 0, 0, set_causal },
  { "--window", OWN, 0, 0, set_window },
  { "--window-align", OWN, 0, 0, set_align },
  { "--mask", OWN, 0, 0, set_mask },
  { "--mask-strides", OWN, 0, 0, set_mask_strides },
  { "--alibi", SWITCH, AT(alibi), 0, NULL },
  { "--alibi-stride", INT, AT(alibi_batch_stride), 0, NULL },
  { "--sinks", SWITCH, AT(sinks), 0, NULL },
  { "--score-mod", SWITCH, AT(score_mod), 0, NULL },
  { "--kv-lengths", SWITCH, AT(kv_lengths), 0, NULL },
  { "--varlen", OWN, 0, 0, set_varlen },
  { "--page-size", INT, AT(page_size), 0, NULL },
  { "--num-pages", INT, AT(num_pages), 0, NULL },
  { "--pages-per-seq", INT, AT(pages_per_seq), 0, NULL },
  { "--dropout", FLOAT, AT(dropout), 0, NULL },
  { "--lse", SWITCH, AT(return_lse), 0, NULL },
  { "--weights", OWN, 0, 0, set_weights },
  { "--batch-invariant", SWITCH, AT(batch_invariant), 0, NULL },
  { "--layout", OWN, 0, 0, set_layout },
  { "--q-strides", STRIDES, AT(q_strides), 0, NULL },
  { "--k-strides", STRIDES, AT(k_strides), 0, NULL },
  { "--v-strides", STRIDES, AT(v_strides), 0, NULL },
  { "--out-strides", STRIDES, AT(out_strides), 0, NULL },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static attn_status set_heads(attn_problem *p, const char *option, const char *value) {
  int64_t n[2] = { 0, 0 };
  if (!read_ints(value, n, 2)) return bad(option, value, "Q or Q:KV");
  p->heads_q = n[0], p->heads_kv = n[1];
  return ATTN_OK;
}

static attn_status set_seq(attn_problem *p, const char *option, const char *value) {
  int64_t n[2];
  int count = read_ints(value, n, 2);
  if (!count) return bad(option, value, "Q or Q:KV");
  p->seq_q = n[0], p->seq_kv = n[count - 1];
  return ATTN_OK;
}

static attn_status set_scale(attn_problem *p, const char *option, const char *value) {
  if (!read_float(value, &p->scale)) return bad(option, value, "a number");
  p->scale_set = true;
  return ATTN_OK;
}

#define NAMED(function, field, type, names, expected)                                              \
  static attn_status function(attn_problem *p, const char *option, const char *value) {            \
    int i = FIND(value, names);                                                                    \
    if (i < 0) return bad(option, value, expected);                                                \
    p->field = (type)i;                                                                            \
    return ATTN_OK;                                                                                \
  }
NAMED(set_layout, layout, attn_layout, layout_names, "bhsd, bshd or strided")
NAMED(set_weights, weights, attn_weights, weights_names,
      "none, scores, capped, masked, probs or column-sums")
NAMED(set_fp8, fp8_scale, attn_fp8_scale, fp8_names, "none, tensor or head")
NAMED(set_align, window_align, attn_causal, causal_names, "none, tl or br")

static attn_status set_varlen(attn_problem *p, const char *option, const char *value) {
  int64_t n[2];
  int count = read_ints(value, n, 2);
  if (!count) return bad(option, value, "TOTAL_Q:TOTAL_KV");
  p->varlen = true, p->total_q = n[0], p->total_kv = n[count - 1];
  return ATTN_OK;
}

static attn_status set_mask_strides(attn_problem *p, const char *option, const char *value) {
  int64_t n[4];
  if (read_ints(value, n, 4) != 4) return bad(option, value, "B:H:Q:K");
  memcpy(p->mask_strides, n, sizeof(n));
  return ATTN_OK;
}

static attn_status apply(attn_problem *p, const row *r, const char *value) {
  void *field = (char *)p + r->offset;
  int64_t n[2];
  int count;
  switch (r->kind) {
  case INT:
    if (read_ints(value, n, 1) != 1) return bad(r->name, value, "a whole number");
    *(int64_t *)field = n[0];
    return ATTN_OK;
  case PAIR:
    if (!(count = read_ints(value, n, 2))) return bad(r->name, value, "N or N:M");
    *(int64_t *)field = n[0];
    *(int64_t *)(void *)((char *)p + r->second) = count == 2 ? n[1] : 0;
    return ATTN_OK;
  case FLOAT:
    return read_float(value, field) ? ATTN_OK : bad(r->name, value, "a number");
  case DTYPE:
    return read_dtype(value, field)
               ? ATTN_OK
               : bad(r->name, value, "f32, f16, bf16, f8e4m3, f8e5m2, f64, int8, q8_0 or q4_0");
  case SWITCH:
    *(bool *)field = true;
    return ATTN_OK;
  case STRIDES:
    return set_strides(field, r->name, value);
  case OWN:
    break;
  }
  return r->set(p, r->name, value);
}

/* "--causal" alone means tl; a following word counts only if it can be its value. */
static bool is_causal_value(const char *value) {
  int64_t n;
  return value && (FIND(value, causal_names) >= 0 || read_ints(value, &n, 1) == 1);
}

attn_status attn_problem_option(attn_problem *problem, const char *option, const char *value,
                                int *used) {
  if (!problem || !option) return core_fail(ATTN_ERROR_NULL, "%s is NULL", problem ? "option" : "problem");
  const char *equals = strchr(option, '=');
  size_t length = equals ? (size_t)(equals - option) : strlen(option);
  const row *r = NULL;
  for (int i = 0; i < ROWS; i++)
    if (strlen(rows[i].name) == length && !strncmp(rows[i].name, option, length)) r = &rows[i];
  if (used) *used = 0;
  if (!r) return used ? ATTN_OK : core_fail(ATTN_ERROR_NOT_FOUND, "no option %.60s", option);
  bool takes = r->kind != SWITCH;
  if (equals && !takes) return core_fail(ATTN_ERROR_PARSE, "%s takes no value", r->name);
  const char *text = equals ? equals + 1 : value;
  int words = equals || !takes ? 1 : 2;
  if (r->set == set_causal && !equals && !is_causal_value(value)) text = "tl", words = 1;
  if (takes && !text) return core_fail(ATTN_ERROR_PARSE, "%s needs a value", r->name);
  attn_problem copy = *problem;
  attn_status status = apply(&copy, r, text);
  if (status) return status;
  *problem = copy;
  if (used) *used = words;
  return ATTN_OK;
}

/* Short words: b1 hq32 hkv8 sq1 skv8192 d128 dv128. */
static bool short_word(attn_problem *p, const char *word) {
  static const struct {
    const char *prefix;
    size_t offset;
  } words[] = { { "b", AT(batch) },   { "hq", AT(heads_q) },  { "hkv", AT(heads_kv) },
                { "sq", AT(seq_q) },  { "skv", AT(seq_kv) },  { "dv", AT(head_dim_v) },
                { "d", AT(head_dim) } };
  for (size_t i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
    size_t n = strlen(words[i].prefix);
    int64_t x;
    if (strncmp(word, words[i].prefix, n) || !isdigit((unsigned char)word[n])) continue;
    if (read_ints(word + n, &x, 1) != 1) return false;
    *(int64_t *)(void *)((char *)p + words[i].offset) = x;
    return true;
  }
  return false;
}

enum { MAX_WORDS = 128, MAX_TEXT = 4096 };

static attn_status parse_words(attn_problem *p, char **words, int count) {
  for (int i = 0; i < count;) {
    int used;
    attn_status status = attn_problem_option(p, words[i], i + 1 < count ? words[i + 1] : NULL, &used);
    if (status) return status;
    if (!used && !short_word(p, words[i]))
      return core_fail(ATTN_ERROR_PARSE, "\"%.60s\" is no option of a problem", words[i]);
    i += used ? used : 1;
  }
  return ATTN_OK;
}

attn_status attn_problem_parse(const char *text, attn_problem *problem) {
  if (!text || !problem) return core_fail(ATTN_ERROR_NULL, "%s is NULL", text ? "problem" : "text");
  char copy[MAX_TEXT], *words[MAX_WORDS], *save = NULL;
  int count = 0;
  if (strlen(text) >= sizeof(copy))
    return core_fail(ATTN_ERROR_PARSE, "text of %zu characters is longer than %d", strlen(text), MAX_TEXT - 1);
  strcpy(copy, text);
  for (char *w = strtok_r(copy, " \t\r\n", &save); w; w = strtok_r(NULL, " \t\r\n", &save)) {
    if (count == MAX_WORDS) return core_fail(ATTN_ERROR_PARSE, "text has more than %d words", MAX_WORDS);
    words[count++] = w;
  }
  attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = -1, .seq_kv = -1 };
  attn_status status = parse_words(&p, words, count);
  if (status) return status;
  if (p.seq_q < 0 && p.seq_kv < 0) return core_fail(ATTN_ERROR_PARSE, "--seq is missing");
  if (p.seq_q < 0) p.seq_q = p.seq_kv;
  if (p.seq_kv < 0) p.seq_kv = p.seq_q;
  if (!p.head_dim) return core_fail(ATTN_ERROR_PARSE, "--dim is missing");
  *problem = p;
  return ATTN_OK;
}

typedef struct writer {
  char *buffer;
  size_t size;
  int length;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  size_t at = (size_t)w->length < w->size ? (size_t)w->length : w->size;
  va_list args;
  va_start(args, format);
  w->length += vsnprintf(w->buffer ? w->buffer + at : NULL, w->buffer ? w->size - at : 0, format, args);
  va_end(args);
}

static void put_pair(writer *w, const char *option, int64_t a, int64_t b) {
  if (a == b) put(w, " %s %lld", option, (long long)a);
  else put(w, " %s %lld:%lld", option, (long long)a, (long long)b);
}

static void put_strides(writer *w, const char *option, const attn_strides *s) {
  put(w, " %s %lld:%lld:%lld:%lld", option, (long long)s->batch, (long long)s->head,
      (long long)s->row, (long long)(s->col ? s->col : 1));
}

static void put_masks(writer *w, const attn_problem *p) {
  if (p->causal == ATTN_CAUSAL_OFFSET) put(w, " --causal %lld", (long long)p->causal_offset);
  else if (p->causal) put(w, " --causal %s", causal_names[p->causal]);
  if (p->window) {
    put(w, " --window ");
    if (p->window_left < 0) put(w, "inf:");
    else put(w, "%lld:", (long long)p->window_left);
    if (p->window_right < 0) put(w, "inf");
    else put(w, "%lld", (long long)p->window_right);
  }
  if (p->window_align) put(w, " --window-align %s", causal_names[p->window_align % 3]);
  if (p->mask) {
    const char *name = p->mask == ATTN_MASK_BOOL ? "bool"
                       : p->mask_dtype           ? attn_dtype_name(p->mask_dtype)
                                                 : "f32";
    const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
    bool plain = true;
    for (int i = 0; i < 4; i++) plain &= p->mask_dims[i] == 0 || p->mask_dims[i] == full[i];
    put(w, " --mask %s", name);
    for (int i = 0; i < 4 && !plain; i++) {
      put(w, "%c", i ? 'x' : ':');
      if (p->mask_dims[i] == 0) put(w, "*");
      else put(w, "%lld", (long long)p->mask_dims[i]);
    }
    const int64_t *s = p->mask_strides;
    if (s[0] || s[1] || s[2] || s[3])
      put(w, " --mask-strides %lld:%lld:%lld:%lld", (long long)s[0], (long long)s[1],
          (long long)s[2], (long long)s[3]);
  }
}

static void put_layout(writer *w, const attn_problem *p) {
  if (p->layout == ATTN_LAYOUT_BSHD) put(w, " --layout bshd");
  if (p->layout != ATTN_LAYOUT_STRIDED) return;
  attn_problem dense = *p;
  static const attn_layout layouts[] = { ATTN_LAYOUT_BHSD, ATTN_LAYOUT_BSHD };
  for (int i = 0; i < 2; i++) { // contiguous strides print as their layout
    if (attn_problem_set_layout(&dense, layouts[i])) continue;
    const attn_strides *a = &dense.q_strides, *b = &p->q_strides;
    bool equal = true;
    for (int t = 0; t < 4; t++, a++, b++)
      equal &= a->batch == b->batch && a->head == b->head && a->row == b->row &&
               a->col == (b->col ? b->col : 1);
    if (!equal) continue;
    if (i == 1) put(w, " --layout bshd");
    return;
  }
  put(w, " --layout strided");
  put_strides(w, "--q-strides", &p->q_strides);
  put_strides(w, "--k-strides", &p->k_strides);
  put_strides(w, "--v-strides", &p->v_strides);
  put_strides(w, "--out-strides", &p->out_strides);
}

/* The scale is left out where it is the default for the head size. */
static bool default_scale(const attn_problem *p) {
  if (!p->scale_set) return p->scale == 0;
  attn_problem probe = { .head_dim = p->head_dim }, resolved;
  return !attn_problem_resolve(&probe, &resolved) && resolved.scale == p->scale;
}

int attn_problem_format(const attn_problem *p, char *buffer, size_t size) {
  if (!p) return 0;
  writer w = { buffer, size, 0 };
  put(&w, "--batch %lld", (long long)p->batch);
  put_pair(&w, "--heads", p->heads_q, p->heads_kv ? p->heads_kv : p->heads_q);
  put_pair(&w, "--seq", p->seq_q, p->seq_kv);
  put_pair(&w, "--dim", p->head_dim, p->head_dim_v ? p->head_dim_v : p->head_dim);
  attn_dtype dtype = p->dtype ? p->dtype : ATTN_F32;
  put(&w, " --dtype %s", attn_dtype_name(dtype));
  bool fp8 = dtype == ATTN_F8E4M3 || dtype == ATTN_F8E5M2;
  if (p->kv_dtype && p->kv_dtype != dtype) put(&w, " --kv-dtype %s", attn_dtype_name(p->kv_dtype));
  if (p->out_dtype && p->out_dtype != (fp8 ? ATTN_F32 : dtype))
    put(&w, " --out-dtype %s", attn_dtype_name(p->out_dtype));
  if (p->fp8_scale) put(&w, " --fp8-scale %s", fp8_names[p->fp8_scale % 3]);
  if (!default_scale(p)) put(&w, " --scale %.9g", (double)p->scale);
  if (p->softcap != 0) put(&w, " --softcap %.9g", (double)p->softcap);
  put_masks(&w, p);
  if (p->alibi) put(&w, " --alibi");
  if (p->alibi_batch_stride) put(&w, " --alibi-stride %lld", (long long)p->alibi_batch_stride);
  if (p->sinks) put(&w, " --sinks");
  if (p->score_mod) put(&w, " --score-mod");
  if (p->kv_lengths) put(&w, " --kv-lengths");
  if (p->varlen) put(&w, " --varlen %lld:%lld", (long long)p->total_q, (long long)p->total_kv);
  if (p->page_size)
    put(&w, " --page-size %lld --num-pages %lld --pages-per-seq %lld", (long long)p->page_size,
        (long long)p->num_pages, (long long)p->pages_per_seq);
  if (p->dropout != 0) put(&w, " --dropout %.9g", (double)p->dropout);
  if (p->return_lse) put(&w, " --lse");
  if (p->weights) put(&w, " --weights %s", weights_names[p->weights % ATTN_WEIGHTS_COUNT]);
  if (p->batch_invariant) put(&w, " --batch-invariant");
  put_layout(&w, p);
  return w.length;
}
