// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "core/size.h"
#include "engine/schedule.h"

/* One exponential with its maximum and sum costs as much as this many FLOPs of the inner loops: 15 G
 * exponentials/s beside 271 GFLOP/s measured on one Zen 5 core (docs/performance.md). */
static const double EXP_FLOPS = 18;
/* Setting up a tile (lane bookkeeping, transposing queries in and outputs out), seconds a row. */
static const double ROW_SECONDS = 15e-9;
/* Sharing a call with other threads costs 0.2 to 0.4 us while they are awake from the call before, 8 us
 * once they sleep (docs/decisions.md); what a host does between calls is unknown. And a plain call. */
static const double FORK_SECONDS = 5e-6, CALL_SECONDS = 0.3e-6;

/* Share of the peak that the narrow kernels reach on keys in cache: 0.19 with one row, 0.63 with four
 * (docs/performance.md). */
static const double NARROW_ONE_ROW = 0.19, NARROW_BEST = 0.65;

/* Share of the capability's peak that a level's vectors can reach: the peak is of the best level. */
static double isa_share(const backend_query *query) {
  int best = kernel_described(query->capability->isa)->width, own = query->kernels->width;
  double share = (double)own / (double)best;
  return query->kernels->isa == ATTN_ISA_SCALAR && best > own ? share / 2 : share; // no FMA
}

void engine_schedule_estimate(const backend_query *query, const engine_schedule *s,
                              double efficiency, backend_cost *cost) {
  const attn_problem *p = query->problem;
  const attn_problem_size *size = query->size;
  double lanes = (double)s->tiles.vectors * query->kernels->width;
  double rows = (double)s->rows, per_pair = 2.0 * (double)(p->head_dim + p->head_dim_v);
  double heads = (double)p->batch * (double)p->heads_kv;
  double padded = rows > 0 ? lanes * (double)size_ceil_div(s->rows, (int64_t)lanes) / rows : 0;
  if (s->tiles.narrow) { // no padding to lanes, but a load for every one to four rows
    padded = 1;
    efficiency *= fmin(NARROW_BEST, NARROW_ONE_ROW * rows);
  }
  double pairs = size->score_pairs * padded;
  if ((p->causal || p->window) && p->heads_kv && !s->tiles.narrow) { // a tile computes up to its last row's diagonal
    double queries = lanes / (double)(p->heads_q / p->heads_kv);
    pairs += 0.5 * size->score_pairs / (double)size_max(1, p->seq_kv) * queries;
  }
  double kv = (double)(size->k_bytes + size->v_bytes), resident = kv / (heads > 0 ? heads : 1);
  double exp_flops = s->tiles.pairs ? 2 * EXP_FLOPS : EXP_FLOPS; // of the faster inner loops
  double l3 = (double)query->capability->l3_bytes;
  double reads = resident > l3 / 2 ? (double)s->blocks : 1; // every item streams its head's keys
  double partials = s->splits > 1 ? 2.0 * heads * rows * (double)s->splits *
                                        (double)(p->head_dim_v + 2) * sizeof(float)
                                  : 0;
  *cost = (backend_cost){
    .flops = pairs * per_pair,
    .bytes = (double)(size->q_bytes + size->out_bytes + size->mask_bytes) + kv * reads + partials,
    .efficiency = efficiency * isa_share(query) * per_pair / (per_pair + exp_flops),
    .compute = s->tiles.pairs ? ATTN_BF16 : ATTN_F32,
    .overhead = CALL_SECONDS + (s->workers > 1 ? FORK_SECONDS : 0) +
                ROW_SECONDS * heads * rows * padded * (double)s->splits / s->workers,
    .items = heads * (double)s->blocks * (double)s->splits,
    .workspace_bytes = engine_schedule_workspace(p, s),
    .splits = (int)s->splits,
  };
}
