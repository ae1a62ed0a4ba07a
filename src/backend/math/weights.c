// SPDX-License-Identifier: Apache-2.0
#include "backend/math/weights.h"

#include <math.h>

#include "core/size.h"

static float *weights_row(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                          int lane) {
  const attn_problem *p = call->problem;
  return (float *)call->io->weights +
         ((s->index * p->heads_q + tile->head[lane]) * p->seq_q + tile->query[lane]) * p->seq_kv;
}

static void fill(float *row, int64_t begin, int64_t end, float x) {
  for (int64_t j = begin; j < end; j++) row[j] = x;
}

void weights_raw(const engine_call *call, const engine_sequence *s, int64_t head,
                 const engine_tile *tile, const engine_scratch *scratch) {
  const attn_problem *p = call->problem;
  if (p->weights != ATTN_WEIGHTS_SCORES && p->weights != ATTN_WEIGHTS_CAPPED) return;
  int vectors = call->tiles.vectors;
  for (int64_t j = 0; j < s->seq_kv; j += call->tiles.keys) {
    int count = (int)size_min(call->tiles.keys, s->seq_kv - j);
    engine_block k = engine_rows(&call->k, call, s, head, j, count, scratch->k);
    call->kernels->scores(k.rows, k.ld, count, tile->qt, p->head_dim, vectors, scratch->p, NULL);
    if (p->weights == ATTN_WEIGHTS_CAPPED && p->softcap > 0)
      call->kernels->softcap(scratch->p, count, vectors, p->softcap);
    for (int lane = 0; lane < tile->used; lane++) {
      float *row = weights_row(call, s, tile, lane) + j;
      for (int x = 0; x < count; x++) row[x] = scratch->p[(int64_t)x * call->lanes + lane];
    }
  }
  for (int lane = 0; lane < tile->used; lane++) // keys past the length do not exist
    fill(weights_row(call, s, tile, lane), s->seq_kv, p->seq_kv, -INFINITY);
}

void weights_masked(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                    const float *scores, int64_t low, int64_t high) {
  const attn_problem *p = call->problem;
  if (p->weights != ATTN_WEIGHTS_MASKED) return;
  for (int lane = 0; lane < tile->used; lane++) {
    float *row = weights_row(call, s, tile, lane);
    fill(row, 0, low, -INFINITY);
    for (int64_t j = low; j < high; j++) row[j] = scores[j * call->lanes + lane];
    fill(row, high, p->seq_kv, -INFINITY);
  }
}

void weights_probs(const engine_call *call, const engine_sequence *s, const engine_tile *tile,
                   const float *weights, int64_t low, int64_t high) {
  const attn_problem *p = call->problem;
  if (p->weights != ATTN_WEIGHTS_PROBS) return;
  for (int lane = 0; lane < tile->used; lane++) {
    float *row = weights_row(call, s, tile, lane);
    float factor = (float)engine_tile_factor(call, tile, lane, NULL);
    fill(row, 0, low, 0);
    for (int64_t j = low; j < high; j++) { // a removed key has probability 0 also in a row of NaN
      float w = weights[j * call->lanes + lane];
      row[j] = w == 0 ? 0 : factor * w;
    }
    fill(row, high, p->seq_kv, 0);
  }
}

void weights_column_sums(const engine_call *call, const engine_tile *tile, int64_t head,
                         const float *weights, int64_t low, int64_t high, float *out) {
  for (int lane = 0; lane < tile->used; lane++) {
    if (tile->head[lane] != head || tile->sum[lane] == 0) continue;
    float factor = (float)engine_tile_factor(call, tile, lane, NULL);
    for (int64_t j = low; j < high; j++) {
      float w = weights[j * call->lanes + lane];
      out[j] += w == 0 ? 0 : factor * w;
    }
  }
}
