// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "engine/work.h"

static double seconds_of(const engine_rates *rates, const engine_work *work, int begin, int end) {
  double sum = 0;
  for (int i = begin; i < end; i++) sum += rates->seconds[i] * work->count[i];
  return sum;
}

void engine_work_price(const backend_query *query, const engine_schedule *s,
                       const engine_work *work, backend_cost *cost) {
  const attn_problem *p = query->problem;
  engine_rates own;
  const engine_rates *rates = query->rates;
  if (!rates) engine_rates_default(query->capability, query->kernels, &own), rates = &own;
  double macs = 0;
  for (int i = ENGINE_MAC_F32; i <= ENGINE_MAC_PAIRS_ONE; i++) macs += work->count[i];
  macs += work->count[ENGINE_NARROW_MAC] + work->count[ENGINE_F64_MAC];
  *cost = (backend_cost){
    .flops = 2 * macs,
    .bytes = work->bytes,
    .work_seconds = seconds_of(rates, work, ENGINE_SERIAL, ENGINE_OP_COUNT),
    .compute = p->dtype == ATTN_F64 ? ATTN_F64
               : s->tiles.pairs     ? ATTN_BF16
                                    : ATTN_F32,
    .overhead = seconds_of(rates, work, 0, ENGINE_SERIAL),
    .items =
        fmax(1, (double)p->batch * (double)p->heads_kv * (double)s->blocks * (double)s->splits),
    .workspace_bytes = engine_schedule_workspace(p, s),
    .splits = (int)s->splits,
  };
}

void engine_schedule_estimate(const backend_query *query, const engine_schedule *s,
                              backend_cost *cost) {
  engine_work work;
  engine_work_count(query, s, false, 0, &work);
  engine_work_price(query, s, &work, cost);
}
