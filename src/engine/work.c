// SPDX-License-Identifier: Apache-2.0
#include "engine/work.h"

#include <math.h>

#include "core/size.h"
#include "engine/internal.h"

/* Sequences of a packed problem are data; their lengths are taken to fall from the longest as
 * longest * (1 - x)^k, x in (0, 1) and k such that the totals are met, at as many places as this.
 */
enum { SAMPLES = 4 };

/* One shape of sequence, and how many there are of it. */
typedef struct shape {
  double sequences;
  int64_t seq_q, seq_kv;
} shape;

typedef struct counting {
  const backend_query *query;
  const attn_problem *p;
  const engine_schedule *s;
  bool textbook;
  double lanes, group;
  engine_work *work;
} counting;

/* Keys that some of `queries` neighbours attend, where one attends `keys`. */
static double keys_together(const attn_problem *p, double keys, double queries, double seq_kv) {
  double growth = p->window ? 1 : p->causal ? 0.5 : 0;
  return keys > 0 ? fmin(keys + growth * fmax(0, queries - 1), seq_kv) : 0;
}

static engine_op op_of_kv(attn_dtype type) {
  switch (type) {
  case ATTN_F16:
  case ATTN_BF16:
    return ENGINE_KV_16;
  case ATTN_F8E4M3:
  case ATTN_F8E5M2:
    return ENGINE_KV_F8;
  case ATTN_INT8:
    return ENGINE_KV_INT8;
  case ATTN_Q8_0:
    return ENGINE_KV_Q8_0;
  case ATTN_Q4_0:
    return ENGINE_KV_Q4_0;
  default:
    return ENGINE_KV_F32;
  }
}

/* Fetching K and V for items: `keys` rows of each in all. */
static void count_fetch(const counting *c, double keys) {
  const attn_problem *p = c->p;
  double *n = c->work->count;
  bool gathered = p->prefix > 0 || (p->page_size > 0 && p->page_size < c->s->tiles.keys);
  const double dims[2] = { (double)p->head_dim, (double)p->head_dim_v };
  for (int value = 0; value < 2; value++) {
    if (engine_side_direct(p, c->s->tiles, value) && !gathered) continue;
    bool copied = c->s->tiles.pairs || p->kv_dtype == ATTN_F32;
    n[ENGINE_KV_ROW] += keys;
    n[copied ? ENGINE_KV_F32 : op_of_kv(p->kv_dtype)] += keys * dims[value];
  }
  if (c->s->tiles.pairs) n[ENGINE_PACK] += keys * dims[1];
}

/* What may change or remove scores, for `scores` lanes and keys of `tiles` tiles. */
static void count_scores(const counting *c, double tiles, double rows, double keys,
                         double queries) {
  const attn_problem *p = c->p;
  double *n = c->work->count, scores = tiles * c->lanes * keys;
  bool natural =
      p->softcap > 0 || p->alibi || p->score_mod || p->weights || p->mask == ATTN_MASK_ADDITIVE;
  if (natural || p->mask) n[ENGINE_NATURAL] += scores;
  if (p->softcap > 0) n[ENGINE_SOFTCAP] += scores;
  if (p->alibi) n[ENGINE_ALIBI] += scores;
  if (p->dropout > 0) n[ENGINE_DROPOUT] += rows * keys;
  if (p->mask) {
    bool shared = p->mask_dims[2] == 1 && (p->mask_dims[1] == 1 || c->group == 1);
    double read = (shared ? tiles : rows) * keys;
    n[p->mask == ATTN_MASK_BOOL                                 ? ENGINE_MASK_BYTE
      : p->mask_dtype == ATTN_F16 || p->mask_dtype == ATTN_BF16 ? ENGINE_MASK_16
                                                                : ENGINE_MASK_32] += read;
    n[ENGINE_BIAS] += shared ? 0.3 * scores : scores;
  }
  if ((p->causal || p->window) && queries > 1) { // blocks that hold an edge
    double edges = p->window ? 2 : 1, block = c->s->tiles.keys;
    n[ENGINE_LIMIT] += tiles * c->lanes * fmin(keys, edges * (block + queries));
  }
}

static void count_tiles(const counting *c, double tiles, double rows, double keys) {
  const attn_problem *p = c->p;
  const engine_tiles *t = &c->s->tiles;
  double *n = c->work->count, dims = (double)(p->head_dim + p->head_dim_v);
  double scores = tiles * c->lanes * keys;
  n[t->narrow ? ENGINE_NARROW_BLOCK : ENGINE_BLOCK] +=
      tiles * (keys > 0 ? 0.5 + keys / t->keys : 0);
  n[t->narrow ? ENGINE_NARROW_SCORE : t->pairs ? ENGINE_SCORE_PAIRS : ENGINE_SCORE] += scores;
  if (t->narrow) {
    double each = rows / fmax(tiles, 1); // rows go by fours, twos and ones
    double passes = floor(each / 4) + (fmod(each, 4) >= 2) + (fmod(each, 2) >= 1);
    n[ENGINE_NARROW_LOAD] += tiles * passes * keys * dims;
    n[ENGINE_NARROW_MAC] += rows * keys * dims;
  } else if (t->pairs) {
    n[t->vectors > 1 ? ENGINE_MAC_PAIRS : ENGINE_MAC_PAIRS_ONE] += scores * dims;
  } else {
    n[t->vectors > 1 ? ENGINE_MAC_F32 : ENGINE_MAC_F32_ONE] += scores * dims;
  }
}

/* Queries in, outputs out. */
static void count_rows(const counting *c, double tiles, double rows) {
  const attn_problem *p = c->p;
  double *n = c->work->count, dims = (double)(p->head_dim + p->head_dim_v);
  double times = c->textbook ? 3 : c->s->splits > 1 ? (double)c->s->splits + 1 : 1;
  n[ENGINE_ROW] += times * rows;
  n[c->s->tiles.narrow ? ENGINE_NARROW_TILE : ENGINE_TILE] += times * tiles;
  if (c->s->tiles.narrow)
    n[ENGINE_ROW_ELEMENT] += times * rows * dims;
  else
    n[ENGINE_TILE_ELEMENT] += times * tiles * c->lanes * dims;
  bool pairs = c->s->tiles.pairs;
  if (p->dtype != ATTN_F32 && !pairs)
    n[p->dtype == ATTN_F16 || p->dtype == ATTN_BF16 ? ENGINE_IO_16 : ENGINE_IO_SLOW] +=
        times * rows * (double)p->head_dim;
  if (p->out_dtype != ATTN_F32)
    n[p->out_dtype == ATTN_F16 || p->out_dtype == ATTN_BF16 ? ENGINE_IO_16 : ENGINE_IO_SLOW] +=
        rows * (double)p->head_dim_v;
  if (c->s->splits > 1)
    n[ENGINE_MERGE] += rows * (double)c->s->splits * (double)(p->head_dim_v + 2);
}

static void count_shape(const counting *c, const shape *z) {
  const attn_problem *p = c->p;
  double heads = z->sequences * (double)p->heads_kv, queries = (double)z->seq_q;
  double rows = queries * c->group, row_keys, tiles, items;
  if (!(rows > 0)) return;
  row_keys = problem_pairs(p, z->seq_q, z->seq_kv) / queries;
  tiles = ceil(rows / c->lanes);
  items = ceil(tiles / c->s->tiles.tiles);
  double per_tile = fmin(queries, ceil(c->lanes / c->group)),
         per_item = fmin(queries, per_tile * c->s->tiles.tiles);
  double tile_keys = keys_together(p, row_keys, per_tile, (double)z->seq_kv);
  double item_keys = keys_together(p, row_keys, per_item, (double)z->seq_kv);
  c->work->count[ENGINE_ITEM] += heads * items * (double)c->s->splits;
  count_fetch(c, heads * items * item_keys);
  count_tiles(c, heads * tiles, heads * rows, tile_keys);
  count_scores(c, heads * tiles, heads * rows, tile_keys, per_tile);
  count_rows(c, heads * tiles, heads * rows);
}

static int shapes_of(const attn_problem *p, shape shapes[SAMPLES]) {
  shapes[0] = (shape){ (double)p->batch, p->seq_q, p->seq_kv };
  if (!p->varlen || p->batch < 1) return 1;
  double batch = (double)p->batch;
  double power_q = batch * (double)p->seq_q / fmax((double)p->total_q, 1) - 1, power_kv = 0;
  if (!p->page_size)
    power_kv = batch * (double)(p->seq_kv - p->prefix) / fmax((double)p->total_kv, 1) - 1;
  for (int i = 0; i < SAMPLES; i++) {
    double left = 1 - (i + 0.5) / SAMPLES;
    shapes[i].sequences = batch / SAMPLES;
    shapes[i].seq_q = (int64_t)(0.5 + (double)p->seq_q * pow(left, fmax(0, power_q)));
    shapes[i].seq_kv =
        p->prefix + (int64_t)(0.5 + (double)(p->seq_kv - p->prefix) * pow(left, fmax(0, power_kv)));
  }
  return SAMPLES;
}

/* Bytes read again and again with `footprint` bytes of others between: from the first cache that
 * holds them. What one thread has in its L2 another one does not. */
static void count_bytes(const counting *c, double bytes, double footprint, double rows) {
  const attn_capability *cpu = c->query->capability;
  double l2 = (double)cpu->l2_bytes, l3 = (double)cpu->l3_bytes;
  // Not a step: of a footprint a little larger than a cache some is still found there.
  double beyond_l3 = l3 > 0 ? fmin(1, fmax(0, (footprint - 0.5 * l3) / l3)) : 1;
  double beyond_l2 = l2 > 0 ? fmin(1, fmax(0, (footprint - 0.5 * l2) / l2)) : 1;
  if (l3 <= 0) beyond_l3 = beyond_l2;
  if (rows > 0) c->work->count[ENGINE_FAR_ROW] += rows * beyond_l3;
  c->work->bytes += bytes * beyond_l3;
  c->work->count[ENGINE_L3_BYTE] += bytes * (beyond_l2 - beyond_l3 > 0 ? beyond_l2 - beyond_l3 : 0);
  c->work->count[ENGINE_L2_BYTE] += bytes * (1 - beyond_l2);
}

/* Share of the keys that are looked at at all. */
static double keys_touched(const attn_problem *p) {
  if (!p->window || p->seq_kv < 1 || p->seq_q < 1) return 1;
  double row = problem_pairs(p, p->seq_q, p->seq_kv) / (double)p->seq_q;
  return fmin(1, (row + (double)p->seq_q) / (double)p->seq_kv);
}

static void count_traffic(const counting *c, double score_bytes) {
  const attn_problem *p = c->p;
  const attn_problem_size *z = c->query->size;
  double heads = fmax(1, (double)p->batch * (double)p->heads_kv);
  double kv = ((double)z->k_bytes + (double)z->v_bytes) * keys_touched(p);
  double once = kv + (double)z->q_bytes + (double)z->out_bytes + (double)z->mask_bytes;
  bool apart = p->page_size > 0 || p->k_strides.row > p->head_dim;
  double rows = heads * keys_touched(p) * (double)p->seq_kv;
  count_bytes(c, once, once + score_bytes, apart ? 2 * rows : 0);
  double again = kv * fmax(0, (double)c->s->blocks - 1); // every item of a head reads its keys
  if (again > 0) count_bytes(c, again, kv / heads, 0);
  if (score_bytes > 0) count_bytes(c, 4 * score_bytes, 2 * score_bytes, 0);
}

void engine_work_count(const backend_query *query, const engine_schedule *schedule, bool textbook,
                       double score_bytes, engine_work *work) {
  const attn_problem *p = query->problem;
  shape shapes[SAMPLES];
  *work = (engine_work){ 0 };
  counting c = { query,
                 p,
                 schedule,
                 textbook,
                 (double)schedule->tiles.vectors * query->kernels->width,
                 p->heads_kv ? (double)(p->heads_q / p->heads_kv) : 1,
                 work };
  int count = shapes_of(p, shapes);
  for (int i = 0; i < count; i++) count_shape(&c, &shapes[i]);
  work->count[ENGINE_CALL] = 1;
  work->count[ENGINE_FORK] = schedule->workers > 1 ? textbook ? 3 : 1 : 0;
  count_traffic(&c, score_bytes);
}
