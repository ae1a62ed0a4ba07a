// SPDX-License-Identifier: Apache-2.0
/* Reason codes: name and sentence. A sentence's %V and %L stand for value and limit, %B and %M for them
 * as bytes, %C and %D as compute capabilities, %T for value as a dtype. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "attn/select.h"

static const struct {
  const char *name, *sentence;
} table[ATTN_REASON_COUNT] = {
  [ATTN_REASON_NONE] = { "none", "no reason" },
  [ATTN_REASON_DEVICE_ABSENT] = { "device_absent", "no device of its type here" },
  [ATTN_REASON_PLUGIN_ABSENT] = { "plugin_absent", "the device is here, the plug-in that runs it is not" },
  [ATTN_REASON_COMPUTE_CAPABILITY] = { "compute_capability", "needs compute capability %D, device has %C" },
  [ATTN_REASON_ARCH] = { "arch", "the device's architecture is not supported" },
  [ATTN_REASON_ISA] = { "isa", "no usable kernel for this CPU" },
  [ATTN_REASON_DTYPE] = { "dtype", "does not take dtype %T here" },
  [ATTN_REASON_KV_DTYPE] = { "kv_dtype", "does not take kv_dtype %T with this dtype" },
  [ATTN_REASON_OUT_DTYPE] = { "out_dtype", "does not write out_dtype %T" },
  [ATTN_REASON_HEAD_DIM_LARGE] = { "head_dim_large", "head_dim %V exceeds %L" },
  [ATTN_REASON_HEAD_DIM_MULTIPLE] = { "head_dim_multiple", "head_dim %V is not a multiple of %L" },
  [ATTN_REASON_HEAD_DIM_PAIR] = { "head_dim_pair", "head_dim_v %V does not go with head_dim %L" },
  [ATTN_REASON_HEAD_DIM_SET] = { "head_dim_set", "no kernel for head_dim %V" },
  [ATTN_REASON_MASK] = { "mask", "takes no mask tensor of this kind" },
  [ATTN_REASON_CAUSAL_ALIGNMENT] = { "causal_alignment", "does not have this causal alignment for these lengths" },
  [ATTN_REASON_WINDOW] = { "window", "has no such sliding window" },
  [ATTN_REASON_SOFTCAP] = { "softcap", "has no softcap (%V) for this problem" },
  [ATTN_REASON_ALIBI] = { "alibi", "has no ALiBi" },
  [ATTN_REASON_SINKS] = { "sinks", "has no attention sinks" },
  [ATTN_REASON_SCORE_MOD] = { "score_mod", "cannot call a score callback" },
  [ATTN_REASON_DROPOUT] = { "dropout", "has no dropout of %V" },
  [ATTN_REASON_GQA] = { "gqa", "cannot share key heads between query heads" },
  [ATTN_REASON_VARLEN] = { "varlen", "cannot run packed sequences" },
  [ATTN_REASON_NOT_VARLEN] = { "not_varlen", "runs packed sequences only" },
  [ATTN_REASON_PAGED] = { "paged", "cannot read paged keys" },
  [ATTN_REASON_PREFIX] = { "prefix", "cannot share a prefix of %V keys" },
  [ATTN_REASON_PAGE_SIZE] = { "page_size", "page_size %V is not a multiple of %L" },
  [ATTN_REASON_KV_LENGTHS] = { "kv_lengths", "takes no key lengths" },
  [ATTN_REASON_LSE] = { "lse", "does not return log-sum-exp" },
  [ATTN_REASON_WEIGHTS] = { "weights", "does not return scores or probabilities" },
  [ATTN_REASON_INNER_STRIDE] = { "inner_stride", "needs inner stride %L, a tensor has %V" },
  [ATTN_REASON_BATCH_LARGE] = { "batch_large", "batch %V exceeds %L" },
  [ATTN_REASON_HEADS_LARGE] = { "heads_large", "heads_q %V exceeds %L" },
  [ATTN_REASON_SEQ_Q_LARGE] = { "seq_q_large", "is for at most %L queries, there are %V" },
  [ATTN_REASON_SEQ_SMALL] = { "seq_small", "needs a sequence length of %L, there is %V" },
  [ATTN_REASON_VERSION] = { "version", "needs version %L, has %V" },
  [ATTN_REASON_DETERMINISTIC] = { "deterministic", "its results do not repeat bit for bit" },
  [ATTN_REASON_BATCH_INVARIANT] = { "batch_invariant", "a row's bits may depend on the other rows" },
  [ATTN_REASON_DISABLED] = { "disabled", "disabled by configuration" },
  [ATTN_REASON_FLASH_MIN_SEQ_LEN] = { "flash_min_seq_len", "seq_kv %V is below flash_min_seq_len %L" },
  [ATTN_REASON_MEMORY_BUDGET] = { "memory_budget", "needs %B of workspace, the budget is %M" },
  [ATTN_REASON_MEMORY_DEVICE] = { "memory_device", "needs %B in all, the device has %M" },
  [ATTN_REASON_DEBUG] = { "debug", "debug takes math" },
  [ATTN_REASON_FP8_SCALE] = { "fp8_scale", "does not take fp8 scales of this kind" },
  [ATTN_REASON_STRICT] = { "strict", "strict demands another backend" },
};

const char *attn_reason_name(attn_reason_code code) {
  return (unsigned)code < ATTN_REASON_COUNT ? table[code].name : NULL;
}

static int put_bytes(char *out, size_t size, double bytes) {
  static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB" };
  int u = 0;
  while (bytes >= 1024 && u < 4) bytes /= 1024, u++;
  return snprintf(out, size, u ? "%.1f %s" : "%.0f %s", bytes, units[u]);
}

static int put_item(char *out, size_t size, char what, const attn_reason *r) {
  double x = what == 'L' || what == 'M' || what == 'D' ? r->limit : r->value;
  if (what == 'B' || what == 'M') return put_bytes(out, size, x);
  if (what == 'C' || what == 'D') return snprintf(out, size, "%.1f", x);
  if (what == 'T') {
    const char *name = isfinite(x) ? attn_dtype_name((attn_dtype)(int)x) : NULL;
    return snprintf(out, size, "%s", name ? name : "?");
  }
  return snprintf(out, size, "%.10g", x);
}

int attn_reason_text(const attn_reason *reason, char *buffer, size_t size) {
  if (!reason || (unsigned)reason->code >= ATTN_REASON_COUNT) return snprintf(buffer, size, "unknown");
  char text[256];
  size_t at = 0;
  for (const char *s = table[reason->code].sentence; *s && at + 1 < sizeof(text); s++) {
    if (*s != '%') {
      text[at++] = *s;
      continue;
    }
    int n = put_item(text + at, sizeof(text) - at, *++s, reason);
    at += n > 0 && (size_t)n < sizeof(text) - at ? (size_t)n : 0;
  }
  text[at] = 0;
  return snprintf(buffer, size, "%s", text);
}

const char *attn_choice_source_name(attn_choice_source source) {
  static const char *const names[] = { "heuristic", "model", "measured", "forced" };
  return (unsigned)source < ATTN_CHOICE_SOURCE_COUNT ? names[source] : NULL;
}
