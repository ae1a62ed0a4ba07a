// SPDX-License-Identifier: Apache-2.0
/* Pricing: overhead + max(arithmetic, memory), each with the share of the device that is kept busy. */
#include <math.h>

#include "select/internal.h"

/* Issuing one GPU kernel and waiting its turn: 4 us, a typical launch latency of current drivers. */
static const double LAUNCH_SECONDS = 4e-6;
/* How much more than its fair share of bandwidth one GPU unit can draw, when others idle: a unit's
 * loads in flight limit it to about twice. On a CPU the measured bandwidth is reached by about a
 * quarter of the cores, but never by one of two. */
static const double GPU_UNIT_BANDWIDTH = 2.0;

static double peak_of(const attn_capability *c, attn_dtype compute) {
  switch (compute) {
  case ATTN_F16: return c->peak_f16;
  case ATTN_BF16: return c->peak_bf16;
  case ATTN_F8E4M3:
  case ATTN_F8E5M2: return c->peak_f8;
  case ATTN_F64: return c->peak_f32 / 2;
  default: return c->peak_f32;
  }
}

static double bandwidth_share(bool cpu, double active, double units) {
  double full = cpu ? fmax(2, units / 4) : units / GPU_UNIT_BANDWIDTH;
  return fmin(1, active / fmin(full, units));
}

double cost_seconds(const backend_cost *cost, const backend_query *query, double *units) {
  const attn_capability *c = query->capability;
  bool cpu = c->device == ATTN_DEVICE_CPU;
  double peak = peak_of(c, cost->compute), total = c->compute_units;
  if (!(peak > 0) || !(c->bandwidth > 0) || !(total > 0)) {
    *units = 0;
    return NAN;
  }
  double slots = cpu ? fmin(query->threads, total) : total;
  double items = fmax(cost->items, 1), waves = ceil(items / slots);
  double active = items / waves; // units busy on average, the last wave's gap counted
  *units = fmin(items, slots);
  double arithmetic = cost->flops / (peak * cost->efficiency * active / total) + waves * cost->item_seconds;
  double share = cost->bandwidth_efficiency > 0 ? cost->bandwidth_efficiency : 1;
  double bandwidth = c->bandwidth * share * bandwidth_share(cpu, *units, total);
  return cost->overhead + LAUNCH_SECONDS * cost->launches + fmax(arithmetic, cost->bytes / bandwidth) +
         cost->pass_bytes / (c->bandwidth * share);
}

/* A model's time is within about 35 % two times out of three; medians of records within 5 %. */
double cost_sigma(attn_choice_source source) {
  return source == ATTN_CHOICE_MEASURED ? 0.05 : 0.35;
}
