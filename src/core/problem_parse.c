// SPDX-License-Identifier: Apache-2.0
/* SHAPE text as a problem: one table names the options, another the short words. */
#include <stdio.h>
#include <string.h>

#include "core/decimal.h"
#include "core/problem.h"
#include "core/problem_words.h"
#include "core/status.h"

static attn_status bad(const char *option, const char *value, const char *expected) {
  return core_fail(ATTN_ERROR_PARSE, "%s of value \"%.60s\" is not %s", option, value, expected);
}

/* 1 to `count` integers separated by ':'; returns how many there were, 0 if it is no such list. */
static int read_ints(const char *text, int64_t *out, int count) {
  for (int n = 0; n < count; n++, text++) {
    if (!decimal_read_int(&text, &out[n])) return 0;
    if (!*text) return n + 1;
    if (*text != ':') return 0;
  }
  return 0;
}

static int find_word(const char *text, const char *const *words, int count) {
  for (int i = 0; i < count; i++)
    if (!strcmp(text, words[i])) return i;
  return -1;
}
#define FIND(text, words) find_word(text, words, (int)(sizeof(words) / sizeof(words[0])))

static bool read_dtype(const char *text, attn_dtype *out) {
  for (int t = ATTN_F32; t < ATTN_DTYPE_COUNT; t++)
    if (!strcmp(text, attn_dtype_name((attn_dtype)t))) {
      *out = (attn_dtype)t;
      return true;
    }
  return false;
}

typedef attn_status setter(attn_problem *p, const char *option, const char *value);

#define SET_INT(field)                                                                             \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    return read_ints(value, &p->field, 1) ? ATTN_OK : bad(option, value, "a whole number");        \
  }
#define SET_FLOAT(field)                                                                           \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    return decimal_read_float(value, &p->field) ? ATTN_OK : bad(option, value, "a finite number"); \
  }
#define SET_DTYPE(field)                                                                           \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    if (read_dtype(value, &p->field)) return ATTN_OK;                                              \
    return bad(option, value, "f32, f16, bf16, f8e4m3, f8e5m2, f64, int8, q8_0 or q4_0");          \
  }
#define SET_WORD(field, type, words, expected)                                                     \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    int i = FIND(value, words);                                                                    \
    if (i < 0) return bad(option, value, expected);                                                \
    p->field = (type)i;                                                                            \
    return ATTN_OK;                                                                                \
  }
#define SET_SWITCH(field)                                                                          \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    (void)option, (void)value;                                                                     \
    p->field = true;                                                                               \
    return ATTN_OK;                                                                                \
  }
#define SET_STRIDES(field)                                                                         \
  static attn_status set_##field(attn_problem *p, const char *option, const char *value) {         \
    return read_strides(p, option, value, &p->field);                                              \
  }

static attn_status read_strides(attn_problem *p, const char *option, const char *value,
                                attn_strides *strides) {
  int64_t n[4] = { 0, 0, 0, 1 };
  if (read_ints(value, n, 4) < 3) return bad(option, value, "BATCH:HEAD:ROW[:COL]");
  *strides = (attn_strides){ n[0], n[1], n[2], n[3] };
  p->layout = ATTN_LAYOUT_STRIDED;
  return ATTN_OK;
}

SET_INT(batch)
SET_INT(alibi_batch_stride)
SET_INT(prefix)
SET_INT(page_size)
SET_INT(num_pages)
SET_INT(pages_per_seq)
SET_FLOAT(softcap)
SET_FLOAT(dropout)
SET_DTYPE(dtype)
SET_DTYPE(kv_dtype)
SET_DTYPE(out_dtype)
SET_WORD(fp8_scale, attn_fp8_scale, fp8_scale_words, "none, tensor or head")
SET_WORD(window_align, attn_causal, causal_words, "none, tl or br")
SET_WORD(weights, attn_weights, weights_words, "none, scores, capped, masked, probs or column-sums")
SET_WORD(layout, attn_layout, layout_words, "bhsd, bshd or strided")
SET_SWITCH(alibi)
SET_SWITCH(sinks)
SET_SWITCH(score_mod)
SET_SWITCH(kv_lengths)
SET_SWITCH(return_lse)
SET_SWITCH(batch_invariant)
SET_STRIDES(q_strides)
SET_STRIDES(k_strides)
SET_STRIDES(v_strides)
SET_STRIDES(out_strides)

static attn_status set_heads(attn_problem *p, const char *option, const char *value) {
  int64_t n[2] = { 0, 0 };
  if (!read_ints(value, n, 2)) return bad(option, value, "Q or Q:KV");
  p->heads_q = n[0], p->heads_kv = n[1];
  return ATTN_OK;
}

static attn_status set_seq(attn_problem *p, const char *option, const char *value) {
  int64_t n[2] = { 0, 0 };
  int count = read_ints(value, n, 2);
  if (!count) return bad(option, value, "Q or Q:KV");
  p->seq_q = n[0], p->seq_kv = n[count - 1];
  return ATTN_OK;
}

static attn_status set_dim(attn_problem *p, const char *option, const char *value) {
  int64_t n[2] = { 0, 0 };
  if (!read_ints(value, n, 2)) return bad(option, value, "D or D:DV");
  p->head_dim = n[0], p->head_dim_v = n[1];
  return ATTN_OK;
}

static attn_status set_varlen(attn_problem *p, const char *option, const char *value) {
  int64_t n[2] = { 0, 0 };
  int count = read_ints(value, n, 2);
  if (!count) return bad(option, value, "TOTAL_Q or TOTAL_Q:TOTAL_KV");
  p->varlen = true, p->total_q = n[0], p->total_kv = n[count - 1];
  return ATTN_OK;
}

static attn_status set_scale(attn_problem *p, const char *option, const char *value) {
  if (!decimal_read_float(value, &p->scale)) return bad(option, value, "a finite number");
  p->scale_set = true;
  return ATTN_OK;
}

static attn_status set_causal(attn_problem *p, const char *option, const char *value) {
  int kind = FIND(value, causal_words);
  int64_t offset = 0;
  if (kind < 0 && !read_ints(value, &offset, 1))
    return bad(option, value, "tl, br, none or an offset");
  p->causal = kind < 0 ? ATTN_CAUSAL_OFFSET : (attn_causal)kind;
  p->causal_offset = offset;
  return ATTN_OK;
}

/* A negative side is unbounded, as is "inf". */
static bool read_side(const char **text, int64_t *out) {
  if (!strncmp(*text, "inf", 3)) {
    *text += 3;
    *out = -1;
    return true;
  }
  return decimal_read_int(text, out);
}

static attn_status set_window(attn_problem *p, const char *option, const char *value) {
  const char *s = value;
  int64_t left, right;
  if (!read_side(&s, &left) || *s++ != ':' || !read_side(&s, &right) || *s)
    return bad(option, value, "LEFT:RIGHT, each a number or inf");
  p->window = true, p->window_left = left, p->window_right = right;
  return ATTN_OK;
}

/* KIND[:BxHxQxK], each dimension a number or '*' for full. */
static attn_status set_mask(attn_problem *p, const char *option, const char *value) {
  static const char expected[] = "bool, f32, f16, bf16 or none, with :BxHxQxK if not all is full";
  static const char *const kinds[] = { "none", "bool", "f32", "f16", "bf16" };
  static const attn_dtype dtypes[] = { ATTN_DTYPE_DEFAULT, ATTN_DTYPE_DEFAULT, ATTN_F32, ATTN_F16,
                                       ATTN_BF16 };
  const char *colon = strchr(value, ':');
  size_t length = colon ? (size_t)(colon - value) : strlen(value);
  int64_t dims[4] = { 0, 0, 0, 0 };
  int kind = -1;
  for (int i = 0; i < 5; i++)
    if (strlen(kinds[i]) == length && !strncmp(kinds[i], value, length)) kind = i;
  if (kind < 0 || (kind == 0 && colon)) return bad(option, value, expected);
  const char *s = colon ? colon + 1 : NULL;
  for (int i = 0; s && i < 4; i++) {
    if (*s == '*')
      s++;
    else if (!decimal_read_int(&s, &dims[i]))
      return bad(option, value, expected);
    if (*s != (i < 3 ? 'x' : 0)) return bad(option, value, expected);
    s++;
  }
  p->mask = kind == 0 ? ATTN_MASK_NONE : kind == 1 ? ATTN_MASK_BOOL : ATTN_MASK_ADDITIVE;
  p->mask_dtype = dtypes[kind];
  memcpy(p->mask_dims, dims, sizeof(dims));
  return ATTN_OK;
}

static attn_status set_mask_strides(attn_problem *p, const char *option, const char *value) {
  int64_t n[4];
  if (read_ints(value, n, 4) != 4) return bad(option, value, "BATCH:HEAD:ROW:COL");
  memcpy(p->mask_strides, n, sizeof(n));
  return ATTN_OK;
}

typedef struct row {
  const char *name;
  setter *set;
  bool is_switch;
} row;

static const row rows[] = {
  { "--batch", set_batch, false },
  { "--heads", set_heads, false },
  { "--seq", set_seq, false },
  { "--dim", set_dim, false },
  { "--dtype", set_dtype, false },
  { "--kv-dtype", set_kv_dtype, false },
  { "--out-dtype", set_out_dtype, false },
  { "--fp8-scale", set_fp8_scale, false },
  { "--scale", set_scale, false },
  { "--softcap", set_softcap, false },
  { "--causal", set_causal, false },
  { "--window", set_window, false },
  { "--window-align", set_window_align, false },
  { "--mask", set_mask, false },
  { "--mask-strides", set_mask_strides, false },
  { "--alibi", set_alibi, true },
  { "--alibi-stride", set_alibi_batch_stride, false },
  { "--sinks", set_sinks, true },
  { "--score-mod", set_score_mod, true },
  { "--kv-lengths", set_kv_lengths, true },
  { "--varlen", set_varlen, false },
  { "--prefix", set_prefix, false },
  { "--page-size", set_page_size, false },
  { "--num-pages", set_num_pages, false },
  { "--pages-per-seq", set_pages_per_seq, false },
  { "--dropout", set_dropout, false },
  { "--lse", set_return_lse, true },
  { "--weights", set_weights, false },
  { "--batch-invariant", set_batch_invariant, true },
  { "--layout", set_layout, false },
  { "--q-strides", set_q_strides, false },
  { "--k-strides", set_k_strides, false },
  { "--v-strides", set_v_strides, false },
  { "--out-strides", set_out_strides, false },
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static const row *find_row(const char *option, size_t length) {
  for (int i = 0; i < ROWS; i++)
    if (strlen(rows[i].name) == length && !strncmp(rows[i].name, option, length)) return &rows[i];
  return NULL;
}

/* "--causal" alone means tl; a following word counts only if it can be its value. */
static bool is_causal_value(const char *value) {
  int64_t n;
  return value && (FIND(value, causal_words) >= 0 || read_ints(value, &n, 1));
}

/* Applies a long option; *words receives how many words it took, *used_row the row, NULL if none.
 */
static attn_status apply_option(attn_problem *p, const char *option, const char *value, int *words,
                                const row **used_row) {
  const char *equals = strchr(option, '=');
  const row *r = find_row(option, equals ? (size_t)(equals - option) : strlen(option));
  *used_row = r;
  *words = 0;
  if (!r) return ATTN_OK;
  if (equals && r->is_switch) return core_fail(ATTN_ERROR_PARSE, "%s takes no value", r->name);
  bool takes_next = !equals && !r->is_switch;
  if (equals)
    value = equals + 1;
  else if (r->set == set_causal && !is_causal_value(value))
    value = "tl", takes_next = false;
  if (!r->is_switch && !value) return core_fail(ATTN_ERROR_PARSE, "%s needs a value", r->name);
  attn_problem copy = *p;
  attn_status status = r->set(&copy, r->name, value);
  if (status) return status;
  *p = copy;
  *words = takes_next ? 2 : 1;
  return ATTN_OK;
}

attn_status attn_problem_option(attn_problem *problem, const char *option, const char *value,
                                int *used) {
  if (!problem || !option)
    return core_fail(ATTN_ERROR_NULL, "%s is NULL", problem ? "option" : "problem");
  const row *r;
  int words;
  attn_status status = apply_option(problem, option, value, &words, &r);
  if (status) return status;
  if (!r && !used) return core_fail(ATTN_ERROR_NOT_FOUND, "no SHAPE option \"%.60s\"", option);
  if (used) *used = words;
  return ATTN_OK;
}

/* b1 hq32 hkv8 sq1 skv8192 d128 dv128. The bit says which size was given. */
enum { GIVEN_Q = 1, GIVEN_KV = 2, GIVEN_DIM = 4 };
static const struct short_word {
  const char *prefix;
  size_t offset;
  unsigned given;
} short_words[] = {
  { "b", offsetof(attn_problem, batch), 0 },
  { "hq", offsetof(attn_problem, heads_q), 0 },
  { "hkv", offsetof(attn_problem, heads_kv), 0 },
  { "sq", offsetof(attn_problem, seq_q), GIVEN_Q },
  { "skv", offsetof(attn_problem, seq_kv), GIVEN_KV },
  { "d", offsetof(attn_problem, head_dim), GIVEN_DIM },
  { "dv", offsetof(attn_problem, head_dim_v), 0 },
};

static bool apply_short(attn_problem *p, const char *word, unsigned *given) {
  for (size_t i = 0; i < sizeof(short_words) / sizeof(short_words[0]); i++) {
    const struct short_word *s = &short_words[i];
    size_t n = strlen(s->prefix);
    int64_t x;
    if (strncmp(word, s->prefix, n) || word[n] < '0' || word[n] > '9') continue;
    if (!read_ints(word + n, &x, 1)) return false;
    memcpy((char *)p + s->offset, &x, sizeof(x));
    *given |= s->given;
    return true;
  }
  return false;
}

/* What a whole text must have: sizes without a sensible default, and every stride or none. */
static attn_status finish(attn_problem *p, unsigned given, uint64_t seen) {
  static const char *const strides[] = { "--q-strides", "--k-strides", "--v-strides",
                                         "--out-strides" };
  if (!(given & (GIVEN_Q | GIVEN_KV))) return core_fail(ATTN_ERROR_PARSE, "--seq is missing");
  if (!(given & GIVEN_DIM)) return core_fail(ATTN_ERROR_PARSE, "--dim is missing");
  if (!(given & GIVEN_Q)) p->seq_q = p->seq_kv;
  if (!(given & GIVEN_KV)) p->seq_kv = p->seq_q;
  for (int i = 0; i < 4 && p->layout == ATTN_LAYOUT_STRIDED; i++)
    if (!(seen >> (find_row(strides[i], strlen(strides[i])) - rows) & 1))
      return core_fail(ATTN_ERROR_PARSE, "%s is missing: a strided layout needs all four",
                       strides[i]);
  return ATTN_OK;
}

static attn_status parse_words(attn_problem *p, char **words, int count) {
  unsigned given = 0;
  uint64_t seen = 0;
  _Static_assert(ROWS <= 64, "one bit a row");
  for (int i = 0, used; i < count; i += used) {
    const row *r;
    attn_status status = apply_option(p, words[i], i + 1 < count ? words[i + 1] : NULL, &used, &r);
    if (status) return status;
    if (r) {
      seen |= (uint64_t)1 << (r - rows);
      if (r->set == set_seq) given |= GIVEN_Q | GIVEN_KV;
      if (r->set == set_dim) given |= GIVEN_DIM;
      continue;
    }
    used = 1;
    if (!apply_short(p, words[i], &given))
      return core_fail(ATTN_ERROR_PARSE, "\"%.60s\" is no part of a SHAPE", words[i]);
  }
  return finish(p, given, seen);
}

enum { MAX_WORDS = 128, MAX_TEXT = 4096 };

attn_status attn_problem_parse(const char *text, attn_problem *problem) {
  char copy[MAX_TEXT], *words[MAX_WORDS], *save = NULL;
  int count = 0;
  if (!text || !problem) return core_fail(ATTN_ERROR_NULL, "%s is NULL", text ? "problem" : "text");
  if (strlen(text) >= sizeof(copy))
    return core_fail(ATTN_ERROR_PARSE, "text of %zu characters is longer than %d", strlen(text),
                     MAX_TEXT - 1);
  memcpy(copy, text, strlen(text) + 1);
  for (char *w = strtok_r(copy, " \t\r\n", &save); w; w = strtok_r(NULL, " \t\r\n", &save)) {
    if (count == MAX_WORDS)
      return core_fail(ATTN_ERROR_PARSE, "text has more than %d words", MAX_WORDS);
    words[count++] = w;
  }
  attn_problem p = { .batch = 1, .heads_q = 1 };
  attn_status status = parse_words(&p, words, count);
  if (!status) *problem = p;
  return status;
}
