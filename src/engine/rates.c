// SPDX-License-Identifier: Apache-2.0
#include "engine/work.h"

/* FLOP/s of one core of the machine that the default rates were measured on, f32 and bf16. */
static const double PEAK_F32 = 271e9, PEAK_BF16 = 542e9;
enum { WIDTH = 16 };

static const struct {
  const char *name;
  double nanoseconds;
} ops[] = {
#define X(id, name, ns) { name, ns },
  ENGINE_OPS(X)
#undef X
};

const char *engine_op_name(int op) { return op >= 0 && op < ENGINE_OP_COUNT ? ops[op].name : NULL; }

void engine_rates_default(const attn_capability *cpu, const kernel_table *kernels,
                          engine_rates *rates) {
  double best = kernel_described(cpu->isa)->width, own = kernels->width, slower = 1, pairs = 1;
  if (cpu->peak_f32 > 0 && cpu->compute_units > 0)
    slower = PEAK_F32 * cpu->compute_units / cpu->peak_f32 * (best / own);
  else
    slower = WIDTH / own;
  if (cpu->peak_bf16 > 0 && cpu->compute_units > 0)
    pairs = PEAK_BF16 * cpu->compute_units / cpu->peak_bf16;
  if (kernels->isa == ATTN_ISA_SCALAR && best > own) slower *= 2; // no fused multiply-adds
  for (int i = 0; i < ENGINE_OP_COUNT; i++) {
    double factor = i < ENGINE_SERIAL                                    ? 1
                    : i == ENGINE_MAC_PAIRS || i == ENGINE_MAC_PAIRS_ONE ? pairs
                                                                         : slower;
    rates->seconds[i] = 1e-9 * ops[i].nanoseconds * factor;
  }
}
