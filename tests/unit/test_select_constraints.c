// SPDX-License-Identifier: Apache-2.0
/* What each GPU implementation takes and refuses, row by row, and that every reason has words. */
#include "select_support.h"

#include <stdio.h>

#define YES ATTN_REASON_NONE

typedef struct row {
  const char *hardware; /* a profile, or a compute capability */
  attn_backend backend;
  const char *shape;
  attn_reason_code code; /* YES: taken */
} row;

static attn_capability hardware_of(const char *name) {
  attn_capability c;
  if (name[0] >= '0' && name[0] <= '9') {
    int major, minor;
    assert_int_equal(sscanf(name, "%d.%d", &major, &minor), 2);
    c = (attn_capability){ .device = ATTN_DEVICE_CUDA, .source = ATTN_SOURCE_FILE };
    c.compute_major = major, c.compute_minor = minor;
  } else if (!strncmp(name, "gfx", 3)) {
    c = (attn_capability){ .device = ATTN_DEVICE_ROCM, .source = ATTN_SOURCE_FILE };
    strcpy(c.arch, name);
  } else {
    c = profile(name);
  }
  return c;
}

static void check_row(const row *x, const attn_capability *hardware, const char *label) {
  attn_context *c = context_with(hardware, (attn_config){ 0 });
  attn_problem p = problem_of(x->shape);
  attn_recommendation r;
  attn_status status = attn_select(c, &p, &r); // what nothing takes has its rejections too
  if (status && status != ATTN_ERROR_UNSUPPORTED) fail_msg("%s: %s", x->shape, attn_last_error());
  bool right =
      x->code ? rejected_for(&r, x->backend, x->code) != NULL : !rejection_of(&r, x->backend);
  attn_context_destroy(c);
  if (!right)
    fail_msg("%s on %s, %s: not as expected (%s)", attn_backend_name(x->backend), label, x->shape,
             x->code ? attn_reason_name(x->code) : "taken");
}

static void check_rows(const row *rows, size_t count) {
  for (size_t i = 0; i < count; i++) {
    attn_capability hardware = hardware_of(rows[i].hardware);
    check_row(&rows[i], &hardware, rows[i].hardware);
  }
}
#define CHECK(rows) check_rows(rows, sizeof(rows) / sizeof((rows)[0]))

#define FLASH ATTN_BACKEND_FLASH
#define V3 ATTN_BACKEND_FLASH_V3
#define CUDNN ATTN_BACKEND_CUDNN
#define EFFICIENT ATTN_BACKEND_MEMORY_EFFICIENT
#define MATH ATTN_BACKEND_MATH
#define METAL ATTN_BACKEND_METAL
#define VARLEN ATTN_BACKEND_VARLEN
#define DECODE ATTN_BACKEND_FLASH_DECODE

#define F16 "--dtype f16 --heads 8 --seq 512 --dim 64 "
#define BF16 "--dtype bf16 --heads 8 --seq 512 --dim 64 "
#define DECODE_F16 "--dtype f16 --heads 8 --seq 1:4096 --dim 64 "
#define PAGES "--kv-lengths --num-pages 64 --pages-per-seq 32 "

static void test_hardware(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "7.5", FLASH, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "8.0", FLASH, F16, YES },
    { "8.6", FLASH, F16, YES },
    { "8.9", FLASH, F16, YES },
    { "9.0", FLASH, F16, YES },
    { "10.0", FLASH, F16, YES },
    { "11.0", FLASH, F16, YES },
    { "12.0", FLASH, F16, YES },
    { "gfx90a", FLASH, F16, YES },
    { "gfx942", FLASH, BF16, YES },
    { "gfx950", FLASH, F16, YES },
    { "gfx1100", FLASH, F16, YES },
    { "gfx908", FLASH, F16, ATTN_REASON_ARCH },
    { "gfx1030", EFFICIENT, F16, ATTN_REASON_ARCH },
    { "8.0", V3, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "8.9", V3, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "9.0", V3, F16, YES },
    { "10.0", V3, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "10.3", V3, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "12.0", V3, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "7.5", CUDNN, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "8.0", CUDNN, F16, YES },
    { "12.1", CUDNN, F16, YES },
    { "3.7", EFFICIENT, F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "5.0", EFFICIENT, F16, YES },
    { "3.7", MATH, F16, YES },
    { "7.5", DECODE, DECODE_F16, ATTN_REASON_COMPUTE_CAPABILITY },
    { "8.0", DECODE, DECODE_F16, YES },
    { "gfx908", DECODE, DECODE_F16, ATTN_REASON_ARCH },
    { "a100-80-sxm", METAL, F16, ATTN_REASON_DEVICE_ABSENT },
    { "m2-max", FLASH, F16, ATTN_REASON_DEVICE_ABSENT },
    { "m2-max", METAL, F16, YES },
    { "max-1550", FLASH, BF16, YES },
    { "max-1550", CUDNN, BF16, ATTN_REASON_DEVICE_ABSENT },
  };
  CHECK(rows);
}

/* A requirement that is not known to be met is not met. */
static void test_unknown_capability_meets_nothing(void **unused) {
  (void)unused;
  attn_capability cuda = { .device = ATTN_DEVICE_CUDA, .source = ATTN_SOURCE_FILE };
  static const attn_backend all[] = { FLASH, V3, CUDNN, EFFICIENT };
  for (int i = 0; i < 4; i++)
    check_row(&(row){ .backend = all[i], .shape = F16, .code = ATTN_REASON_COMPUTE_CAPABILITY },
              &cuda, "an unknown CUDA device");
  attn_recommendation r = choose_with(&cuda, (attn_config){ 0 }, F16);
  assert_int_equal(r.backend, MATH);
  char text[128];
  attn_reason_text(rejected_for(&r, FLASH, ATTN_REASON_COMPUTE_CAPABILITY), text, sizeof(text));
  assert_string_equal(text, "needs compute capability 8.0, the device's is unknown");
  attn_capability rocm = { .device = ATTN_DEVICE_ROCM, .source = ATTN_SOURCE_FILE };
  check_row(&(row){ .backend = FLASH, .shape = F16, .code = ATTN_REASON_ARCH }, &rocm,
            "an unknown ROCm device");
}

static void test_dtypes(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "a100-80-sxm", FLASH, "--dtype f32 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "a100-80-sxm", FLASH, "--dtype f64 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", FLASH, "--dtype f8e4m3 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "a100-80-sxm", FLASH, BF16, YES },
    { "a100-80-sxm", FLASH, F16 "--kv-dtype int8", ATTN_REASON_KV_DTYPE },
    { "a100-80-sxm", FLASH, F16 "--out-dtype f32", ATTN_REASON_OUT_DTYPE },
    { "h100-sxm", V3, "--dtype f32 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", V3, "--dtype f8e4m3 --seq 512 --dim 64", YES },
    { "h100-sxm", V3, "--dtype f8e5m2 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", V3, "--dtype f8e4m3 --seq 512 --dim 64 --out-dtype f8e4m3",
      ATTN_REASON_OUT_DTYPE },
    { "h100-sxm", V3, "--dtype f8e4m3 --heads 8:2 --seq 512 --dim 64 --fp8-scale head",
      ATTN_REASON_FP8_SCALE },
    { "h100-sxm", V3, "--dtype f8e4m3 --heads 8 --seq 512 --dim 64 --fp8-scale head", YES },
    { "h100-sxm", CUDNN, "--dtype f32 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", CUDNN, "--dtype f8e4m3 --seq 512 --dim 128", YES },
    { "h100-sxm", CUDNN, "--dtype f8e5m2 --seq 512 --dim 128", YES },
    { "l40s", CUDNN, "--dtype f8e4m3 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "h100-sxm", CUDNN, "--dtype f8e4m3 --seq 512 --dim 128 --fp8-scale head",
      ATTN_REASON_FP8_SCALE },
    { "v100-sxm2-32", EFFICIENT, F16, YES },
    { "v100-sxm2-32", EFFICIENT, BF16, ATTN_REASON_DTYPE },
    { "a100-80-sxm", EFFICIENT, BF16, YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f32 --seq 512 --dim 64", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f64 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", EFFICIENT, "--dtype f8e4m3 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "h100-sxm", MATH, "--dtype f8e5m2 --seq 512 --dim 64", YES },
    { "h100-sxm", MATH, "--dtype f64 --seq 512 --dim 64", YES },
    { "m2-max", MATH, "--dtype f64 --seq 512 --dim 64", ATTN_REASON_DTYPE },
    { "m2-max", METAL, "--dtype f32 --seq 512 --dim 128", YES },
    { "m2-max", METAL, "--dtype bf16 --seq 512 --dim 128", YES },
    { "m1", METAL, "--dtype bf16 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "m2-max", METAL, "--dtype f8e4m3 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "m2-max", DECODE, "--dtype f32 --seq 1:512 --dim 128", YES },
    { "max-1550", FLASH, "--dtype f32 --seq 512 --dim 128", ATTN_REASON_DTYPE },
    { "a100-80-sxm", DECODE, "--dtype f32 --seq 1:512 --dim 128", ATTN_REASON_DTYPE },
  };
  CHECK(rows);
}

static void test_head_dims(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 256", YES },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 264", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 60", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 192:128", YES },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 136:104", YES },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 128:104", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 192:96", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 64:512", YES },
    { "h100-sxm", V3, "--dtype bf16 --seq 512 --dim 64:520", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", V3, "--dtype f8e4m3 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_PAIR },
    { "h100-sxm", V3, "--dtype f8e4m3 --seq 512 --dim 72", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "h100-sxm", V3, "--dtype f16 --seq 512 --dim 72", YES },
    { "h100-sxm", V3, "--dtype f16 --seq 512 --dim 272", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", CUDNN, "--dtype f16 --seq 512 --dim 128", YES },
    { "a100-80-sxm", CUDNN, "--dtype f16 --seq 512 --dim 136", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", CUDNN, "--dtype f16 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", CUDNN, "--dtype f16 --seq 512 --dim 128:64", YES },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 60", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 264", ATTN_REASON_HEAD_DIM_LARGE },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --seq 512 --dim 512:96", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --seq 512 --dim 60", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "a100-80-sxm", EFFICIENT, "--dtype f32 --seq 512 --dim 36", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f32 --seq 512 --dim 34", ATTN_REASON_HEAD_DIM_MULTIPLE },
    { "v100-sxm2-32", EFFICIENT, "--dtype f32 --seq 512 --dim 34", YES },
    { "a100-80-sxm", MATH, "--dtype f16 --seq 512 --dim 300:7", YES },
    { "m2-max", METAL, "--dtype f16 --seq 512 --dim 64", YES },
    { "m2-max", METAL, "--dtype f16 --seq 512 --dim 72", ATTN_REASON_HEAD_DIM_SET },
    { "m2-max", METAL, "--dtype f16 --seq 512 --dim 80", YES },
    { "m2-max", METAL, "--dtype f16 --seq 512 --dim 128:64", ATTN_REASON_HEAD_DIM_PAIR },
    { "m2-max", METAL, "--dtype f16 --seq 512 --dim 256", YES },
    { "m2-max", DECODE, "--dtype f16 --seq 1:512 --dim 264", ATTN_REASON_HEAD_DIM_LARGE },
    { "max-1550", FLASH, "--dtype f16 --seq 512 --dim 264", ATTN_REASON_HEAD_DIM_LARGE },
  };
  CHECK(rows);
}

static void test_masks_and_diagonals(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "h100-sxm", FLASH, F16 "--mask bool", ATTN_REASON_MASK },
    { "h100-sxm", FLASH, F16 "--mask f32", ATTN_REASON_MASK },
    { "h100-sxm", V3, F16 "--mask f32", ATTN_REASON_MASK },
    { "h100-sxm", CUDNN, F16 "--mask f32", YES },
    { "h100-sxm", CUDNN, F16 "--mask bool", YES },
    { "h100-sxm", CUDNN, "--dtype f8e4m3 --seq 512 --dim 64 --mask f32", ATTN_REASON_MASK },
    { "a100-80-sxm", EFFICIENT, F16 "--mask bool", YES },
    { "a100-80-sxm", EFFICIENT, F16 "--mask f32:1x1x*x*", YES },
    { "a100-80-sxm", MATH, F16 "--mask bool", YES },
    { "a100-80-sxm", DECODE, DECODE_F16 "--mask bool", ATTN_REASON_MASK },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --causal br", YES },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --causal tl",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 64 --causal tl", YES },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --causal 508", YES },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --causal 7",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 512 --dim 64 --causal tl --kv-lengths",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --window 8:8", YES },
    { "a100-80-sxm", FLASH, "--dtype f16 --seq 4:512 --dim 64 --window 8:8 --window-align tl",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "h100-sxm", V3, "--dtype f16 --seq 4:512 --dim 64 --causal tl",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 4:512 --dim 64 --causal tl", YES },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 4:512 --dim 64 --causal br", YES },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 4:512 --dim 64 --causal 7",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 512:4 --dim 64 --causal br",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 4:512 --dim 64 --causal br --mask f32",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "h100-sxm", CUDNN, "--dtype f8e4m3 --seq 4:512 --dim 64 --causal br",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "b200", CUDNN, "--dtype f8e4m3 --seq 4:512 --dim 64 --causal br", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --seq 4:512 --dim 64 --causal tl", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --seq 4:512 --dim 64 --causal br", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --seq 4:512 --dim 64 --causal 7",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "a100-80-sxm", MATH, "--dtype f16 --seq 4:512 --dim 64 --causal 7", YES },
    { "m2-max", METAL, "--dtype f16 --seq 4:512 --dim 64 --causal br --mask bool", YES },
  };
  CHECK(rows);
}

static void test_features(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "a100-80-sxm", FLASH, F16 "--window 64:0 --softcap 30 --alibi", YES },
    { "a100-80-sxm", FLASH, F16 "--softcap 30 --dropout 0.1", ATTN_REASON_SOFTCAP },
    { "a100-80-sxm", FLASH, F16 "--dropout 0.1", YES },
    { "a100-80-sxm", FLASH, F16 "--sinks", ATTN_REASON_SINKS },
    { "a100-80-sxm", FLASH, F16 "--score-mod", ATTN_REASON_SCORE_MOD },
    { "a100-80-sxm", FLASH, F16 "--weights probs", ATTN_REASON_WEIGHTS },
    { "a100-80-sxm", FLASH, F16 "--lse", YES },
    { "a100-80-sxm", FLASH, F16 "--kv-lengths", YES },
    { "a100-80-sxm", FLASH, F16 "--batch-invariant", ATTN_REASON_BATCH_INVARIANT },
    { "a100-80-sxm", FLASH, "--dtype f16 --heads 8:2 --seq 512 --dim 64", YES },
    { "h100-sxm", V3, F16 "--window 64:0 --softcap 30", YES },
    { "h100-sxm", V3, F16 "--alibi", ATTN_REASON_ALIBI },
    { "h100-sxm", V3, F16 "--dropout 0.5", ATTN_REASON_DROPOUT },
    { "h100-sxm", CUDNN, F16 "--window 64:0", ATTN_REASON_WINDOW },
    { "h100-sxm", CUDNN, F16 "--window 64:0 --causal br", YES },
    { "h100-sxm", CUDNN, F16 "--softcap 30", ATTN_REASON_SOFTCAP },
    { "h100-sxm", CUDNN, F16 "--alibi --causal tl", YES },
    { "h100-sxm", CUDNN, F16 "--alibi", ATTN_REASON_ALIBI },
    { "h100-sxm", CUDNN, F16 "--dropout 0.1", ATTN_REASON_DROPOUT },
    { "h100-sxm", CUDNN, F16 "--dropout 0.125", YES },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 1:512 --dim 64 --dropout 0.125",
      ATTN_REASON_SEQ_SMALL },
    { "h100-sxm", CUDNN, "--dtype f16 --seq 512:1 --dim 64", ATTN_REASON_SEQ_SMALL },
    { "h100-sxm", CUDNN, "--dtype f16 --batch 65535 --seq 2 --dim 64", YES },
    { "h100-sxm", CUDNN, "--dtype f16 --batch 65536 --seq 2 --dim 64", ATTN_REASON_BATCH_LARGE },
    { "h100-sxm", CUDNN, "--dtype f16 --heads 65536 --seq 2 --dim 64", ATTN_REASON_HEADS_LARGE },
    { "a100-80-sxm", FLASH, "--dtype f16 --batch 65536 --seq 2 --dim 64", ATTN_REASON_BATCH_LARGE },
    { "a100-80-sxm", EFFICIENT, F16 "--window 64:0", YES },
    { "a100-80-sxm", EFFICIENT, F16 "--softcap 30", ATTN_REASON_SOFTCAP },
    { "a100-80-sxm", EFFICIENT, F16 "--alibi", ATTN_REASON_ALIBI },
    { "a100-80-sxm", EFFICIENT, F16 "--dropout 0.1", YES },
    { "a100-80-sxm", EFFICIENT, "--dtype f16 --heads 8:2 --seq 512 --dim 64", YES },
    { "a100-80-sxm", MATH, F16 "--softcap 30 --alibi --window 9:9 --dropout 0.3 --sinks", YES },
    { "a100-80-sxm", MATH, F16 "--weights probs", YES },
    { "a100-80-sxm", MATH, F16 "--score-mod", ATTN_REASON_SCORE_MOD },
    { "m2-max", METAL, F16 "--lse", ATTN_REASON_LSE },
    { "m2-max", METAL, F16 "--softcap 30", ATTN_REASON_SOFTCAP },
    { "max-1550", FLASH, F16 "--window 9:9", ATTN_REASON_WINDOW },
    { "a100-80-sxm", DECODE, "--dtype f16 --seq 64:4096 --dim 128", YES },
    { "a100-80-sxm", DECODE, "--dtype f16 --seq 65:4096 --dim 128", ATTN_REASON_SEQ_Q_LARGE },
    { "m2-max", DECODE, "--dtype f16 --seq 9:4096 --dim 128", ATTN_REASON_SEQ_Q_LARGE },
    { "a100-80-sxm", DECODE, DECODE_F16 "--dropout 0.5", ATTN_REASON_DROPOUT },
  };
  CHECK(rows);
}

static void test_packed_and_paged(void **unused) {
  (void)unused;
  static const row rows[] = {
    { "a100-80-sxm", VARLEN, F16, ATTN_REASON_NOT_VARLEN },
    { "a100-80-sxm", VARLEN, F16 "--batch 3 --varlen 900:900", YES },
    { "a100-80-sxm", VARLEN, F16 "--batch 3 --varlen 900:900 --causal tl",
      ATTN_REASON_CAUSAL_ALIGNMENT },
    { "mi300x", VARLEN, F16 "--batch 3 --varlen 900:900", YES },
    { "a100-80-sxm", FLASH, F16 "--batch 3 --varlen 900:900", ATTN_REASON_VARLEN },
    { "h100-sxm", V3, F16 "--batch 3 --varlen 900:900", YES },
    { "h100-sxm", CUDNN, F16 "--batch 3 --varlen 900:900", YES },
    { "a100-80-sxm", CUDNN, F16 "--batch 3 --varlen 900:900", ATTN_REASON_VARLEN },
    { "rtx-5090", CUDNN, F16 "--batch 3 --varlen 900:900", ATTN_REASON_VARLEN },
    { "a100-80-sxm", EFFICIENT, F16 "--batch 3 --varlen 900:900", YES },
    { "a100-80-sxm", MATH, F16 "--batch 3 --varlen 900:900", YES },
    { "m2-max", METAL, F16 "--batch 3 --varlen 900:900", ATTN_REASON_VARLEN },
    { "a100-80-sxm", FLASH, DECODE_F16 "--page-size 256 " PAGES, YES },
    { "a100-80-sxm", FLASH, DECODE_F16 "--page-size 128 " PAGES, ATTN_REASON_PAGE_SIZE },
    { "a100-80-sxm", FLASH, DECODE_F16 "--page-size 256 --dropout 0.5 " PAGES,
      ATTN_REASON_DROPOUT },
    { "a100-80-sxm", DECODE, DECODE_F16 "--page-size 128 " PAGES, ATTN_REASON_PAGE_SIZE },
    { "h100-sxm", V3, DECODE_F16 "--page-size 128 " PAGES, YES },
    { "h100-sxm", CUDNN, DECODE_F16 "--page-size 128 " PAGES, YES },
    { "h100-sxm", CUDNN, DECODE_F16 "--page-size 128 --num-pages 64 --pages-per-seq 32",
      ATTN_REASON_PAGED },
    { "a100-80-sxm", EFFICIENT, DECODE_F16 "--page-size 256 " PAGES, ATTN_REASON_PAGED },
    { "a100-80-sxm", MATH, DECODE_F16 "--page-size 256 " PAGES, ATTN_REASON_PAGED },
    { "m2-max", METAL, DECODE_F16 "--page-size 256 " PAGES, ATTN_REASON_PAGED },
  };
  CHECK(rows);
}

static void test_strides(void **unused) {
  (void)unused;
  attn_problem p = problem_of(F16);
  assert_int_equal(attn_problem_set_layout(&p, ATTN_LAYOUT_BHSD), ATTN_OK);
  p.k_strides.col = 512, p.k_strides.row = 1;
  attn_context *c = context_on("h100-sxm", (attn_config){ 0 });
  attn_recommendation r;
  assert_int_equal(attn_select(c, &p, &r), ATTN_OK);
  assert_int_equal(r.backend, MATH);
  static const attn_backend all[] = { FLASH, V3, CUDNN, EFFICIENT };
  for (int i = 0; i < 4; i++) {
    const attn_reason *why = rejected_for(&r, all[i], ATTN_REASON_INNER_STRIDE);
    assert_true(why && why->value == 512 && why->limit == 1);
  }
  attn_context_destroy(c);
}

static void test_cudnn_versions(void **unused) {
  (void)unused;
  static const struct {
    int version;
    row row;
  } rows[] = {
    { 8902, { "h100-sxm", CUDNN, F16, ATTN_REASON_VERSION } },
    { 8903, { "h100-sxm", CUDNN, F16, YES } },
    { 8902, { "h100-sxm", CUDNN, F16 "--mask f32", ATTN_REASON_MASK } },
    { 8905, { "h100-sxm", CUDNN, F16 "--mask f32", YES } },
    { 8905, { "h100-sxm", CUDNN, F16 "--mask bool", ATTN_REASON_MASK } },
    { 90000, { "h100-sxm", CUDNN, F16 "--mask bool", YES } },
    { 90100, { "h100-sxm", CUDNN, F16 "--window 64:0 --causal br", ATTN_REASON_VERSION } },
    { 90200, { "h100-sxm", CUDNN, F16 "--window 64:0 --causal br", YES } },
    { 90000, { "h100-sxm", CUDNN, "--dtype f8e4m3 --seq 512 --dim 64", ATTN_REASON_VERSION } },
    { 91000, { "h100-sxm", CUDNN, F16, ATTN_REASON_VERSION } },
    { 91002, { "h100-sxm", CUDNN, F16, YES } },
    { 91002,
      { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_LARGE } },
    { 91100, { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 192:128", YES } },
    { 91100, { "b200", CUDNN, "--dtype f16 --seq 512 --dim 192:128", YES } },
    { 91100,
      { "rtx-5090", CUDNN, "--dtype f16 --seq 512 --dim 192:128", ATTN_REASON_HEAD_DIM_LARGE } },
    { 92100, { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 256", ATTN_REASON_HEAD_DIM_LARGE } },
    { 92200, { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 256", YES } },
    { 0, { "h100-sxm", CUDNN, "--dtype f16 --seq 512 --dim 256", YES } }, // taken for 9.22
    { 91200, { "h100-sxm", CUDNN, F16 "--dropout 0.125", ATTN_REASON_DROPOUT } },
    { 91400, { "h100-sxm", CUDNN, F16 "--dropout 0.125", YES } },
    { 90400, { "h100-sxm", CUDNN, DECODE_F16 "--page-size 128 " PAGES, ATTN_REASON_VERSION } },
    { 90500, { "h100-sxm", CUDNN, DECODE_F16 "--page-size 128 " PAGES, YES } },
  };
  for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
    attn_capability c = hardware_of(rows[i].row.hardware);
    char label[64];
    c.cudnn_version = rows[i].version;
    snprintf(label, sizeof(label), "%s with cuDNN %d", rows[i].row.hardware, rows[i].version);
    check_row(&rows[i].row, &c, label);
  }
}

/* All reasons, not the first: a problem that breaks every rule is told every rule. */
static void test_all_reasons_are_given(void **unused) {
  (void)unused;
  attn_recommendation r;
  attn_problem p = problem_of("--heads 70000 --batch 70000 --seq 3:2 --dim 300:301 --causal tl "
                              "--softcap 9 --alibi --sinks --score-mod --mask bool --dropout 0.3 "
                              "--batch-invariant --weights probs --kv-dtype f16 --lse");
  attn_context *c = context_on("a100-80-sxm", (attn_config){ .disabled = 1u << FLASH });
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  static const attn_reason_code flash[] = {
    ATTN_REASON_DTYPE,         ATTN_REASON_KV_DTYPE,          ATTN_REASON_HEAD_DIM_LARGE,
    ATTN_REASON_SINKS,         ATTN_REASON_HEAD_DIM_MULTIPLE, ATTN_REASON_HEAD_DIM_PAIR,
    ATTN_REASON_MASK,          ATTN_REASON_CAUSAL_ALIGNMENT,  ATTN_REASON_SOFTCAP,
    ATTN_REASON_BATCH_LARGE,   ATTN_REASON_HEADS_LARGE,       ATTN_REASON_SCORE_MOD,
    ATTN_REASON_WEIGHTS,       ATTN_REASON_BATCH_INVARIANT,   ATTN_REASON_DISABLED,
    ATTN_REASON_MEMORY_DEVICE,
  };
  for (size_t i = 0; i < sizeof(flash) / sizeof(flash[0]); i++)
    if (!rejected_for(&r, FLASH, flash[i])) fail_msg("flash: no %s", attn_reason_name(flash[i]));
  int listed = 0;
  for (int i = 0; i < r.rejection_count; i++) listed += r.rejections[i].reason_count;
  assert_int_equal(listed, r.reason_count);
  assert_true(r.reason_count > 60 && r.reason_count < ATTN_MAX_REASONS);
  attn_context_destroy(c);
}

static void test_every_reason_has_words(void **unused) {
  (void)unused;
  for (int code = 0; code < ATTN_REASON_COUNT; code++) {
    char text[256], bare[256], cut[8] = "#######";
    attn_reason r = { (attn_reason_code)code, 2, 3 };
    assert_non_null(attn_reason_name(r.code));
    int length = attn_reason_text(&r, text, sizeof(text));
    assert_int_equal(length, (int)strlen(text));
    assert_true(length > 5);
    assert_null(strpbrk(text, "%?"));
    r.value = r.limit = (double)NAN; // unknown numbers leave no "nan"
    attn_reason_text(&r, bare, sizeof(bare));
    assert_true(strlen(bare) > 5 && !strstr(bare, "nan") && !strchr(bare, '%'));
    assert_int_equal(attn_reason_text(&r, cut, 4), (int)strlen(bare));
    assert_true(cut[3] == 0 && cut[4] == '#');
    assert_int_equal(attn_reason_text(&r, NULL, 0), (int)strlen(bare));
    for (int other = 0; other < code; other++)
      assert_string_not_equal(attn_reason_name((attn_reason_code)other), attn_reason_name(r.code));
  }
  assert_null(attn_reason_name(ATTN_REASON_COUNT));
}

static void test_texts_name_value_and_limit(void **unused) {
  (void)unused;
  static const struct {
    attn_reason reason;
    const char *text;
  } cases[] = {
    { { ATTN_REASON_COMPUTE_CAPABILITY, 8.0, 9.0 },
      "needs compute capability 9.0, device has 8.0" },
    { { ATTN_REASON_COMPUTE_CAPABILITY, 12.1, 9.0 },
      "needs compute capability 9.0, device has 12.1" },
    { { ATTN_REASON_DTYPE, ATTN_F8E5M2, (double)NAN }, "does not take dtype f8e5m2" },
    { { ATTN_REASON_DTYPE, ATTN_BF16, 8.0 }, "takes dtype bf16 from compute capability 8.0 on" },
    { { ATTN_REASON_HEAD_DIM_LARGE, 264, 256 }, "head_dim 264 exceeds 256" },
    { { ATTN_REASON_MEMORY_BUDGET, 3221225472.0, 1048576 },
      "needs 3 GiB of workspace, the budget is 1 MiB" },
    { { ATTN_REASON_VERSION, 90501, 91002 }, "needs version 9.10.2, has 9.5.1" },
    { { ATTN_REASON_VERSION, 8902, 8903 }, "needs version 8.9.3, has 8.9.2" },
    { { ATTN_REASON_MASK, ATTN_MASK_BOOL, 90000 }, "takes bool masks from version 9.0 on" },
    { { ATTN_REASON_DROPOUT, (double)0.1f, (double)NAN }, "has no dropout of 0.1 here" },
    { { ATTN_REASON_CAUSAL_ALIGNMENT, 0, 508 },
      "puts the diagonal at offset 508, the problem at 0" },
  };
  for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
    char text[256];
    attn_reason_text(&cases[i].reason, text, sizeof(text));
    assert_string_equal(text, cases[i].text);
  }
  char text[32];
  assert_true(attn_reason_text(NULL, text, sizeof(text)) > 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_hardware),
    cmocka_unit_test(test_unknown_capability_meets_nothing),
    cmocka_unit_test(test_dtypes),
    cmocka_unit_test(test_head_dims),
    cmocka_unit_test(test_masks_and_diagonals),
    cmocka_unit_test(test_features),
    cmocka_unit_test(test_packed_and_paged),
    cmocka_unit_test(test_strides),
    cmocka_unit_test(test_cudnn_versions),
    cmocka_unit_test(test_all_reasons_are_given),
    cmocka_unit_test(test_every_reason_has_words),
    cmocka_unit_test(test_texts_name_value_and_limit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
