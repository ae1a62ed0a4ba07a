// SPDX-License-Identifier: Apache-2.0
/* A problem as SHAPE text. Defaults are left out in their filled-in form too, so that a problem and
 * what it resolves to print alike. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "core/decimal.h"
#include "core/problem.h"
#include "core/problem_words.h"
#include "core/size.h"

typedef struct writer {
  char *buffer;
  size_t size;
  int length;
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  size_t at = (size_t)w->length < w->size ? (size_t)w->length : w->size;
  va_list args;
  va_start(args, format);
  w->length +=
      vsnprintf(w->buffer ? w->buffer + at : NULL, w->buffer ? w->size - at : 0, format, args);
  va_end(args);
}

/* "?" for values that no valid problem has. */
static const char *word(const char *const *words, size_t bytes, int i) {
  return i >= 0 && (size_t)i < bytes / sizeof(*words) ? words[i] : "?";
}
#define WORD(words, i) word(words, sizeof(words), (int)(i))

static const char *dtype_word(attn_dtype dtype) {
  const char *name = attn_dtype_name(dtype);
  return name ? name : "?";
}

static void put_int(writer *w, const char *option, int64_t x) {
  put(w, " %s %lld", option, (long long)x);
}

static void put_pair(writer *w, const char *option, int64_t a, int64_t b) {
  put_int(w, option, a);
  if (a != b) put(w, ":%lld", (long long)b);
}

static void put_float(writer *w, const char *option, float x) {
  char text[DECIMAL_FLOAT_SIZE];
  decimal_write_float(x, text);
  put(w, " %s %s", option, text);
}

static void put_switch(writer *w, const char *option, bool on) {
  if (on) put(w, " %s", option);
}

static void put_dtypes(writer *w, const attn_problem *p) {
  attn_dtype dtype = p->dtype ? p->dtype : ATTN_F32;
  bool fp8 = dtype == ATTN_F8E4M3 || dtype == ATTN_F8E5M2;
  put(w, " --dtype %s", dtype_word(dtype));
  if (p->kv_dtype && p->kv_dtype != dtype) put(w, " --kv-dtype %s", dtype_word(p->kv_dtype));
  if (p->out_dtype && p->out_dtype != (fp8 ? ATTN_F32 : dtype))
    put(w, " --out-dtype %s", dtype_word(p->out_dtype));
  if (p->fp8_scale) put(w, " --fp8-scale %s", WORD(fp8_scale_words, p->fp8_scale));
}

static void put_side(writer *w, char before, int64_t side) {
  if (side < 0)
    put(w, "%cinf", before);
  else
    put(w, "%c%lld", before, (long long)side);
}

static void put_structure(writer *w, const attn_problem *p) {
  if (p->causal == ATTN_CAUSAL_OFFSET)
    put_int(w, "--causal", p->causal_offset);
  else if (p->causal)
    put(w, " --causal %s", WORD(causal_words, p->causal));
  if (p->window && (p->window_left >= 0 || p->window_right >= 0)) {
    put(w, " --window");
    put_side(w, ' ', p->window_left);
    put_side(w, ':', p->window_right);
  }
  if (!p->causal && p->window_align && p->window_align != ATTN_CAUSAL_BOTTOM_RIGHT)
    put(w, " --window-align %s", WORD(causal_words, p->window_align));
}

static void put_mask(writer *w, const attn_problem *p) {
  const int64_t full[4] = { p->batch, p->heads_q, p->seq_q, p->seq_kv };
  const int64_t *strides = p->mask_strides;
  if (!p->mask) return;
  bool all_full = true, given = false, dense = true;
  int64_t dims[4], step = 1;
  for (int i = 3; i >= 0; i--) {
    dims[i] = p->mask_dims[i] == full[i] ? 0 : p->mask_dims[i];
    all_full &= dims[i] == 0;
    given |= strides[i] != 0;
    int64_t n = dims[i] ? dims[i] : full[i];
    dense &= strides[i] == (n <= 1 ? 0 : step);
    if (!size_mul(step, n ? n : 1, &step)) step = INT64_MAX;
  }
  put(w, " --mask %s",
      p->mask == ATTN_MASK_BOOL       ? "bool"
      : p->mask != ATTN_MASK_ADDITIVE ? "?"
      : p->mask_dtype                 ? dtype_word(p->mask_dtype)
                                      : "f32");
  for (int i = 0; i < 4 && !all_full; i++) {
    put(w, "%c", i ? 'x' : ':');
    if (dims[i])
      put(w, "%lld", (long long)dims[i]);
    else
      put(w, "*");
  }
  if (given && !dense)
    put(w, " --mask-strides %lld:%lld:%lld:%lld", (long long)strides[0], (long long)strides[1],
        (long long)strides[2], (long long)strides[3]);
}

static bool same_strides(const attn_strides *a, const attn_strides *b, bool batch) {
  return (!batch || a->batch == b->batch) && a->head == b->head && a->row == b->row &&
         (a->col ? a->col : 1) == b->col;
}

static void put_strides(writer *w, const char *option, const attn_strides *s) {
  put(w, " %s %lld:%lld:%lld", option, (long long)s->batch, (long long)s->head, (long long)s->row);
  if (s->col != 0 && s->col != 1) put(w, ":%lld", (long long)s->col);
}

/* Strides that a layout gives print as the layout, BHSD being the default. */
static void put_layout(writer *w, const attn_problem *p) {
  const attn_strides *given[4] = { &p->q_strides, &p->k_strides, &p->v_strides, &p->out_strides };
  attn_layout layout = p->layout;
  for (int l = ATTN_LAYOUT_BHSD; p->layout == ATTN_LAYOUT_STRIDED && l < ATTN_LAYOUT_STRIDED; l++) {
    attn_strides dense[4];
    bool same = true;
    problem_layout_strides(p, (attn_layout)l, dense);
    for (int i = 0; i < 4; i++) {
      bool has_batch = !p->varlen || (p->page_size && (i == 1 || i == 2));
      same &= same_strides(given[i], &dense[i], has_batch);
    }
    if (same && layout == ATTN_LAYOUT_STRIDED) layout = (attn_layout)l;
  }
  if (layout == ATTN_LAYOUT_BHSD) return;
  put(w, " --layout %s", WORD(layout_words, layout));
  if (layout != ATTN_LAYOUT_STRIDED) return;
  put_strides(w, "--q-strides", given[0]);
  put_strides(w, "--k-strides", given[1]);
  put_strides(w, "--v-strides", given[2]);
  put_strides(w, "--out-strides", given[3]);
}

int attn_problem_format(const attn_problem *p, char *buffer, size_t size) {
  writer w = { buffer, size, 0 };
  if (buffer && size) buffer[0] = 0;
  if (!p) return 0;
  put(&w, "--batch %lld", (long long)p->batch);
  put_pair(&w, "--heads", p->heads_q, p->heads_kv ? p->heads_kv : p->heads_q);
  put_pair(&w, "--seq", p->seq_q, p->seq_kv);
  put_pair(&w, "--dim", p->head_dim, p->head_dim_v ? p->head_dim_v : p->head_dim);
  put_dtypes(&w, p);
  float scale = (float)(1.0 / sqrt((double)p->head_dim));
  if ((p->scale_set || p->scale != 0) && p->scale != scale) put_float(&w, "--scale", p->scale);
  if (p->softcap != 0) put_float(&w, "--softcap", p->softcap);
  put_structure(&w, p);
  put_mask(&w, p);
  put_switch(&w, "--alibi", p->alibi);
  if (p->alibi && p->alibi_batch_stride) put_int(&w, "--alibi-stride", p->alibi_batch_stride);
  put_switch(&w, "--sinks", p->sinks);
  put_switch(&w, "--score-mod", p->score_mod);
  put_switch(&w, "--kv-lengths", p->kv_lengths);
  if (p->varlen) put(&w, " --varlen %lld:%lld", (long long)p->total_q, (long long)p->total_kv);
  if (p->prefix) put_int(&w, "--prefix", p->prefix);
  if (p->page_size) put_int(&w, "--page-size", p->page_size);
  if (p->num_pages) put_int(&w, "--num-pages", p->num_pages);
  if (p->pages_per_seq) put_int(&w, "--pages-per-seq", p->pages_per_seq);
  if (p->dropout != 0) put_float(&w, "--dropout", p->dropout);
  put_switch(&w, "--lse", p->return_lse);
  if (p->weights) put(&w, " --weights %s", WORD(weights_words, p->weights));
  put_switch(&w, "--batch-invariant", p->batch_invariant);
  put_layout(&w, p);
  return w.length;
}
