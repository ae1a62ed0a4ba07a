// SPDX-License-Identifier: Apache-2.0
/* Pricing: overhead + max(arithmetic, memory), each with the share of the device that is kept busy.
 * docs/selection.md has the formulas. */
#include <math.h>

#include "select/internal.h"

/* Issuing one GPU kernel in a stream: between the 2 to 3 us of a bare launch and the 7 to 8 us a
 * kernel that flagos-ai/FlagAttention#17 shows for short decoding run from PyTorch. */
static const double LAUNCH_SECONDS = 5e-6;
/* Bytes a clock that one GPU unit draws from memory: half of the 64 that its port to the L2 cache
 * passes (NVIDIA's and AMD's data sheets), as loads wait for memory. */
static const double UNIT_BYTES_PER_CLOCK = 32;
/* Stated, where the clock is unknown: twice its share of the device's bandwidth. */
static const double UNIT_BANDWIDTH_SHARES = 2;
/* On a CPU a quarter of the cores reach the bandwidth of all, but never one of two. */
static const double CPU_CORES_SHARE = 4;

static double peak_of(const attn_capability *c, attn_dtype compute) {
  switch (compute) {
  case ATTN_F16:
    return c->peak_f16;
  case ATTN_BF16:
    return c->peak_bf16;
  case ATTN_F8E4M3:
  case ATTN_F8E5M2:
    return c->peak_f8;
  case ATTN_F64:
    return c->device == ATTN_DEVICE_CPU ? c->peak_f32 / 2 : 0; // half the lanes
  default:
    return c->peak_f32;
  }
}

/* Share of the device's bandwidth that `busy` units reach together. */
static double bandwidth_share(const attn_capability *c, double busy) {
  double units = c->compute_units;
  if (c->device == ATTN_DEVICE_CPU)
    return fmin(1, busy / fmin(fmax(2, units / CPU_CORES_SHARE), units));
  if (c->clock_hz > 0) return fmin(1, busy * UNIT_BYTES_PER_CLOCK * c->clock_hz / c->bandwidth);
  return fmin(1, busy * UNIT_BANDWIDTH_SHARES / units);
}

cost_price cost_of(const backend_cost *cost, const backend_query *query) {
  const attn_capability *c = query->capability;
  double total = c->compute_units, items = fmax(cost->items, 1);
  double slots = c->device == ATTN_DEVICE_CPU ? fmin(query->threads, total) : total;
  cost_price price = { .time = NAN, .units = total > 0 ? fmin(items, slots) : 1 };
  double peak = peak_of(c, cost->compute);
  if (!(peak > 0) || !(c->bandwidth > 0) || !(total > 0)) return price;
  // The last wave's gap: units are busy for `waves` items each, `items / waves` of them on average.
  double waves = ceil(items / slots), active = items / waves;
  double reached = cost->bandwidth_efficiency > 0 ? cost->bandwidth_efficiency : 1;
  double bandwidth = c->bandwidth * reached;
  price.overhead = cost->overhead + LAUNCH_SECONDS * cost->launches;
  price.arithmetic =
      cost->work_seconds > 0
          ? cost->work_seconds / active
          : cost->flops / (peak * cost->efficiency * active / total) + waves * cost->item_seconds;
  price.memory = cost->bytes / (bandwidth * bandwidth_share(c, price.units));
  double passes = cost->pass_bytes / bandwidth;
  // One CPU core does not compute while it waits for most of its loads: their times add up.
  bool adds = c->device == ATTN_DEVICE_CPU;
  price.time = price.overhead + passes +
               (adds ? price.arithmetic + price.memory : fmax(price.arithmetic, price.memory));
  price.memory += passes;
  return price;
}

double cost_score(attn_objective objective, double time, double units, double all_units) {
  double share = all_units > 0 ? units / all_units : 1;
  switch (objective) {
  case ATTN_OBJECTIVE_THROUGHPUT:
    return time * share;
  case ATTN_OBJECTIVE_BALANCED:
    return time * sqrt(share);
  default:
    return time;
  }
}

/* The ratio of two modelled times is off by a factor of e^0.35 two times out of three, that of two
 * medians of records by e^0.10; each side has its share of that. */
double cost_sigma(attn_choice_source source) {
  return (source == ATTN_CHOICE_MEASURED ? 0.10 : 0.35) / sqrt(2.0);
}
