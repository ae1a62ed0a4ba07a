// SPDX-License-Identifier: Apache-2.0
/* Reason codes: name and sentence. In a sentence %V and %L stand for value and limit, %B and %M for
 * them as bytes, %C and %D as compute capabilities, %X and %Y as cuDNN versions; for value alone %T
 * is a dtype, %K a kind of mask, %F of scales, %P a device. `bare` is said where a number of
 * `sentence` is not known. */
#include <math.h>
#include <stdio.h>

#include "select/internal.h"

static const struct {
  const char *name, *sentence, *bare;
} table[ATTN_REASON_COUNT] = {
  [ATTN_REASON_NONE] = { "none", "no reason", "" },
  [ATTN_REASON_DEVICE_ABSENT] = { "device_absent", "there is no %P device here",
                                  "has no implementation for this device" },
  [ATTN_REASON_PLUGIN_ABSENT] = { "plugin_absent",
                                  "the %P device is here, the plug-in that runs it is not",
                                  "the device is here, the plug-in that runs it is not" },
  [ATTN_REASON_COMPUTE_CAPABILITY] = { "compute_capability",
                                       "needs compute capability %D, device has %C",
                                       "needs compute capability %D, the device's is unknown" },
  [ATTN_REASON_ARCH] = { "arch", "the device's architecture is none of those it has kernels for",
                         "" },
  [ATTN_REASON_ISA] = { "isa", "has no usable kernel for this CPU", "" },
  [ATTN_REASON_DTYPE] = { "dtype", "takes dtype %T from compute capability %D on",
                          "does not take dtype %T" },
  [ATTN_REASON_KV_DTYPE] = { "kv_dtype", "does not take kv_dtype %T with this dtype", "" },
  [ATTN_REASON_OUT_DTYPE] = { "out_dtype", "does not write out_dtype %T", "" },
  [ATTN_REASON_HEAD_DIM_LARGE] = { "head_dim_large", "head_dim %V exceeds %L", "" },
  [ATTN_REASON_HEAD_DIM_MULTIPLE] = { "head_dim_multiple", "head_dim %V is not a multiple of %L",
                                      "" },
  [ATTN_REASON_HEAD_DIM_PAIR] = { "head_dim_pair", "head_dim_v %V does not go with head_dim %L",
                                  "" },
  [ATTN_REASON_HEAD_DIM_SET] = { "head_dim_set", "has no kernel for head_dim %V", "" },
  [ATTN_REASON_MASK] = { "mask", "takes %K masks from version %Y on", "takes no %K mask tensor" },
  [ATTN_REASON_CAUSAL_ALIGNMENT] = { "causal_alignment",
                                     "puts the diagonal at offset %L, the problem at %V",
                                     "puts each sequence's diagonal at its end" },
  [ATTN_REASON_WINDOW] = { "window", "takes no such sliding window", "" },
  [ATTN_REASON_SOFTCAP] = { "softcap", "takes no softcap here (%V)", "" },
  [ATTN_REASON_ALIBI] = { "alibi", "takes no ALiBi slopes here", "" },
  [ATTN_REASON_SINKS] = { "sinks", "takes no attention sinks", "" },
  [ATTN_REASON_SCORE_MOD] = { "score_mod", "cannot call a function for scores", "" },
  [ATTN_REASON_DROPOUT] = { "dropout", "has no dropout of %V here", "" },
  [ATTN_REASON_GQA] = { "gqa", "cannot share key heads between query heads", "" },
  [ATTN_REASON_VARLEN] = { "varlen",
                           "takes packed sequences from compute capability %D on, device has %C",
                           "cannot run packed sequences" },
  [ATTN_REASON_NOT_VARLEN] = { "not_varlen", "runs packed sequences only", "" },
  [ATTN_REASON_PAGED] = { "paged", "cannot read keys in pages here", "" },
  [ATTN_REASON_PREFIX] = { "prefix", "cannot share a prefix of %V keys", "" },
  [ATTN_REASON_PAGE_SIZE] = { "page_size", "page_size %V is not a multiple of %L", "" },
  [ATTN_REASON_KV_LENGTHS] = { "kv_lengths", "takes no key lengths", "" },
  [ATTN_REASON_LSE] = { "lse", "does not return log-sum-exp", "" },
  [ATTN_REASON_WEIGHTS] = { "weights", "does not return scores or probabilities", "" },
  [ATTN_REASON_INNER_STRIDE] = { "inner_stride", "needs inner stride %L, a tensor has %V", "" },
  [ATTN_REASON_BATCH_LARGE] = { "batch_large", "batch %V exceeds %L", "" },
  [ATTN_REASON_HEADS_LARGE] = { "heads_large", "heads_q %V exceeds %L", "" },
  [ATTN_REASON_SEQ_Q_LARGE] = { "seq_q_large", "is for at most %L queries, there are %V", "" },
  [ATTN_REASON_SEQ_SMALL] = { "seq_small", "needs a sequence length of at least %L, there is %V",
                              "" },
  [ATTN_REASON_VERSION] = { "version", "needs version %Y, has %X", "" },
  [ATTN_REASON_DETERMINISTIC] = { "deterministic", "its results need not repeat bit for bit", "" },
  [ATTN_REASON_BATCH_INVARIANT] = { "batch_invariant", "a row's bits may depend on the other rows",
                                    "" },
  [ATTN_REASON_DISABLED] = { "disabled", "is disabled by the configuration", "" },
  [ATTN_REASON_FLASH_MIN_SEQ_LEN] = { "flash_min_seq_len",
                                      "seq_kv %V is below flash_min_seq_len %L", "" },
  [ATTN_REASON_MEMORY_BUDGET] = { "memory_budget", "needs %B of workspace, the budget is %M", "" },
  [ATTN_REASON_MEMORY_DEVICE] = { "memory_device", "needs %B in all, the device has %M", "" },
  [ATTN_REASON_DEBUG] = { "debug", "debug takes math", "" },
  [ATTN_REASON_STRICT] = { "strict", "strict demands the preferred backend", "" },
  [ATTN_REASON_FP8_SCALE] = { "fp8_scale", "takes no fp8 scales per %F here", "" },
};

const char *attn_reason_name(attn_reason_code code) {
  return (unsigned)code < ATTN_REASON_COUNT ? table[code].name : NULL;
}

static void put_version(text *t, double x) {
  int v = (int)x; // 8903 is 8.9.3, 90501 is 9.5.1
  int major = v < 10000 ? v / 1000 : v / 10000, rest = v < 10000 ? v % 1000 : v % 10000;
  text_put(t, "%d.%d", major, rest / 100);
  if (rest % 100) text_put(t, ".%d", rest % 100);
}

static void put_capability(text *t, double x) { // 9.0, 12.1
  int tenths = (int)(x * 10 + 0.5);
  text_put(t, "%d.%d", tenths / 10, tenths % 10);
}

static const char *word_of(char what, int value) {
  static const char *const masks[] = { "", "bool", "additive" };
  static const char *const scales[] = { "", "tensor", "head" };
  const char *word = NULL;
  if (what == 'T')
    word = attn_dtype_name((attn_dtype)value);
  else if (what == 'P')
    word = attn_device_type_name((attn_device_type)value);
  else if (what == 'K' && value > 0 && value < 3)
    word = masks[value];
  else if (what == 'F' && value > 0 && value < 3)
    word = scales[value];
  return word ? word : "such";
}

/* Puts one item; false when its number is not known. */
static bool put_item(text *t, char what, const attn_reason *r) {
  bool limit = what == 'L' || what == 'M' || what == 'D' || what == 'Y';
  double x = limit ? r->limit : r->value;
  if (!isfinite(x)) return false;
  if (what == 'B' || what == 'M')
    text_bytes(t, x);
  else if (what == 'C' || what == 'D')
    put_capability(t, x);
  else if (what == 'X' || what == 'Y')
    put_version(t, x);
  else if (what == 'V' || what == 'L')
    text_number(t, x);
  else
    text_put(t, "%s", word_of(what, (int)x));
  return true;
}

static bool put_sentence(text *t, const char *sentence, const attn_reason *r) {
  bool known = true;
  t->at = 0;
  for (const char *s = sentence; *s; s++) {
    if (*s != '%')
      text_put(t, "%c", *s);
    else if (!put_item(t, *++s, r))
      text_put(t, "?"), known = false;
  }
  return known;
}

int attn_reason_text(const attn_reason *reason, char *buffer, size_t size) {
  text t = { buffer, size, 0 };
  if (size) buffer[0] = 0;
  if (!reason || (unsigned)reason->code >= ATTN_REASON_COUNT) {
    text_put(&t, "unknown reason");
  } else if (!put_sentence(&t, table[reason->code].sentence, reason) &&
             table[reason->code].bare[0]) {
    put_sentence(&t, table[reason->code].bare, reason);
  }
  return (int)t.at;
}

const char *attn_choice_source_name(attn_choice_source source) {
  static const char *const names[] = { "heuristic", "model", "measured", "forced" };
  return (unsigned)source < ATTN_CHOICE_SOURCE_COUNT ? names[source] : NULL;
}
