// SPDX-License-Identifier: Apache-2.0
/* The cost model: work and bytes against counting, time against its formula, and predictions
 * against published measurements. */
#include "select_support.h"

#include <stdio.h>
#include <stdlib.h>

#include "backend/gpu.h"
#include "random_problem.h"
#include "select/internal.h"

/* What estimate and pricing are asked with. */
typedef struct question {
  attn_problem problem;
  attn_problem_size size;
  attn_capability capability;
  attn_config config;
  backend_query query;
} question;

static void ask(question *q, const char *hardware, const attn_problem *p) {
  *q = (question){ .capability = profile(hardware) };
  if (attn_problem_resolve(p, &q->problem) || attn_problem_measure(&q->problem, &q->size))
    fail_msg("%s", attn_last_error());
  q->query = (backend_query){ .problem = &q->problem,
                              .size = &q->size,
                              .capability = &q->capability,
                              .config = &q->config,
                              .threads = 1 };
}

static const backend_implementation *on_device(attn_backend backend, attn_device_type device) {
  int count;
  const backend_family *const *families = backend_registry(&count);
  for (int f = 0; f < count; f++)
    for (int i = 0; families[f]->backend == backend && i < families[f]->count; i++)
      if (families[f]->implementations[i]->device == device) return families[f]->implementations[i];
  fail_msg("no %s on %s", attn_backend_name(backend), attn_device_type_name(device));
  return NULL;
}

static backend_cost estimate(attn_backend backend, const char *hardware, const char *shape) {
  question q;
  backend_cost cost;
  attn_problem p = problem_of(shape);
  ask(&q, hardware, &p);
  on_device(backend, q.capability.device)->estimate(&q.query, &cost);
  return cost;
}

static bool near(double a, double b, double tolerance) {
  return fabs(a - b) <= tolerance * fabs(b);
}

/* ---- work */

/* Tiles that hold a pair which structure leaves, or lie between such tiles, by going through them.
 */
static double count_tiles(const attn_problem *p, int64_t tile_q, int64_t tile_k, int64_t heads) {
  int64_t queries = tile_q / heads > 1 ? tile_q / heads : 1;
  int64_t blocks = (p->seq_kv + tile_k - 1) / tile_k,
          diagonal = problem_diagonal(p, p->seq_q, p->seq_kv);
  double count = 0;
  for (int64_t i = 0; i < p->seq_q; i += queries) {
    int64_t low = 0, high = blocks;
    if (p->causal || (p->window && p->window_right >= 0)) {
      int64_t end = i + queries + diagonal + (p->causal ? 0 : p->window_right);
      high = end <= 0 ? 0 : (end + tile_k - 1) / tile_k;
    }
    if (p->window && p->window_left >= 0) {
      int64_t begin = i + diagonal - p->window_left;
      low = begin <= 0 ? 0 : begin / tile_k;
    }
    if (high > blocks) high = blocks;
    if (low < high) count += (double)(high - low);
  }
  return count;
}

static void test_tiles_are_counted_exactly(void **unused) {
  (void)unused;
  static const int64_t tiles[] = { 1, 16, 32, 64, 80, 112, 128, 176, 192, 256 };
  uint64_t seed = 3, random = seed;
  print_message("seed %llu\n", (unsigned long long)seed);
  for (int n = 0; n < 20000; n++) {
    attn_problem p = { 0 };
    random_problem_sizes(&random, &p);
    random_problem_masks(&random, &p);
    p.mask = ATTN_MASK_NONE;
    p.batch = 1;
    p.seq_q = random_int(&random, 0, 700), p.seq_kv = random_int(&random, 0, 700);
    if (p.causal == ATTN_CAUSAL_OFFSET) p.causal_offset = random_int(&random, -900, 900);
    if (p.window) p.window_left = random_int(&random, -1, 800);
    if (p.window) p.window_right = random_int(&random, -1, 800);
    int64_t tile_q = tiles[random_int(&random, 0, 9)], tile_k = tiles[random_int(&random, 0, 9)];
    int64_t heads = random_int(&random, 1, 5);
    attn_problem r;
    memset(p.mask_dims, 0, sizeof(p.mask_dims));
    memset(p.mask_strides, 0, sizeof(p.mask_strides));
    if (attn_problem_resolve(&p, &r)) fail_msg("%s", attn_last_error());
    double counted = count_tiles(&r, tile_q, tile_k, heads);
    double computed = gpu_tiles(&r, r.seq_q, r.seq_kv, tile_q, tile_k, heads);
    if (counted == computed) continue;
    char shape[512];
    attn_problem_format(&r, shape, sizeof(shape));
    fail_msg("%s, tiles %d x %d, %d heads: %g, counted %g", shape, (int)tile_q, (int)tile_k,
             (int)heads, computed, counted);
  }
}

/* Ends of int64: saturated, not wrapped. */
static void test_tiles_of_extreme_offsets(void **unused) {
  (void)unused;
  static const int64_t ends[] = { INT64_MIN, INT64_MIN + 1, -1, 0, INT64_MAX - 1, INT64_MAX };
  for (int a = 0; a < 6; a++)
    for (int b = 0; b < 6; b++) {
      attn_problem p = { .batch = 1, .heads_q = 1, .seq_q = 300, .seq_kv = 500, .head_dim = 8 };
      attn_problem r;
      p.causal = ATTN_CAUSAL_OFFSET, p.causal_offset = ends[a];
      p.window = true, p.window_left = ends[b], p.window_right = -1;
      assert_int_equal(attn_problem_resolve(&p, &r), ATTN_OK);
      double tiles = gpu_tiles(&r, 300, 500, 128, 64, 1);
      assert_true(tiles >= 0 && tiles <= 24);
      if (ends[a] < -300) assert_true(tiles == 0);
      if (ends[a] > 800 && ends[b] < 0) assert_true(tiles == 24);
    }
  static const char *const long_shapes[] = { "--seq 72057594037927936:8 --dim 1 --causal br",
                                             "--seq 8:72057594037927936 --dim 1 --window 9:9" };
  for (int i = 0; i < 2; i++) {
    attn_context *c = context_on("h100-sxm", (attn_config){ 0 });
    attn_problem p = problem_of(long_shapes[i]);
    attn_recommendation answer;
    assert_int_equal(attn_select(c, &p, &answer), ATTN_ERROR_UNSUPPORTED);
    attn_context_destroy(c);
  }
}

static void test_causal_halves_the_work(void **unused) {
  (void)unused;
  backend_cost full =
      estimate(ATTN_BACKEND_FLASH, "a100-80-sxm", "--heads 8 --seq 8192 --dim 128 --dtype f16");
  backend_cost causal = estimate(ATTN_BACKEND_FLASH, "a100-80-sxm",
                                 "--heads 8 --seq 8192 --dim 128 --dtype f16 --causal br");
  assert_true(near(full.flops, 4.0 * 8 * 8192 * 8192 * 128, 1e-12));
  // 64 tiles of 128 queries; tile t sees t + 1 times 128 keys.
  assert_true(near(causal.flops, 4.0 * 8 * 128 * (128.0 * 64 * 65 / 2) * 128, 1e-12));
  // Math computes what it then masks.
  backend_cost math = estimate(ATTN_BACKEND_MATH, "a100-80-sxm",
                               "--heads 8 --seq 8192 --dim 128 --dtype f16 --causal br");
  assert_true(near(math.flops, full.flops, 1e-12));
}

static void test_padding_is_work(void **unused) {
  (void)unused;
  backend_cost one = estimate(ATTN_BACKEND_FLASH, "a100-80-sxm", "--seq 1:1 --dim 64 --dtype f16");
  assert_true(near(one.flops, 4.0 * 128 * 128 * 64, 1e-12));
  backend_cost odd = estimate(ATTN_BACKEND_FLASH, "a100-80-sxm", "--seq 512 --dim 80 --dtype f16");
  assert_true(near(odd.flops, 4.0 * 512 * 512 * 96, 1e-12)); // the kernel is for 96
  backend_cost window = estimate(ATTN_BACKEND_FLASH, "a100-80-sxm",
                                 "--seq 65536 --dim 64 --dtype f16 --causal br --window 255:0");
  backend_cost longer = estimate(ATTN_BACKEND_FLASH, "a100-80-sxm",
                                 "--seq 131072 --dim 64 --dtype f16 --causal br --window 255:0");
  assert_true(near(longer.flops, 2 * window.flops, 0.01)); // grows with S, not with its square
}

/* ---- bytes */

static void test_bytes_are_those_of_the_types_and_heads(void **unused) {
  (void)unused;
  backend_cost c =
      estimate(ATTN_BACKEND_FLASH_DECODE, "a100-80-sxm",
               "--batch 2 --heads 32:8 --seq 1:8192 --dim 128 --dtype bf16 --causal br");
  double kv = 2.0 * 2 * 8 * 8192 * 128 * 2, rows = 2.0 * 32;
  double partials = rows * c.splits * 129 * 4; // written, then read by the second kernel
  assert_true(c.splits > 1);
  assert_true(near(c.bytes, kv + 2 * rows * 128 * 2 + rows * 4 + partials, 1e-12));
  assert_true(near(c.pass_bytes, partials, 1e-12));
  assert_int_equal(c.launches, 2);
  // Math: stored once, written and read as f32 for every query head; scores thrice over.
  c = estimate(ATTN_BACKEND_MATH, "a100-80-sxm",
               "--heads 32:8 --seq 1:8192 --dim 128 --dtype bf16");
  double stored = 2.0 * 8 * 8192 * 128 * 2, expanded = 2.0 * 32 * 8192 * 128 * 4;
  assert_true(c.bytes > expanded && c.pass_bytes > stored + expanded);
  assert_true(c.bytes + c.pass_bytes < 1.1 * (stored + 2 * expanded));
  assert_true(c.launches >= 5);
}

static void test_keys_that_nobody_attends_are_not_read(void **unused) {
  (void)unused;
  backend_cost all = estimate(ATTN_BACKEND_FLASH_DECODE, "a100-80-sxm",
                              "--heads 8 --seq 1:65536 --dim 128 --dtype f16");
  backend_cost window = estimate(ATTN_BACKEND_FLASH_DECODE, "a100-80-sxm",
                                 "--heads 8 --seq 1:65536 --dim 128 --dtype f16 --window 1023:0");
  assert_true(window.bytes < all.bytes / 32);
}

static void test_expected_memory(void **unused) {
  (void)unused;
  // Flash: linear in S, log-sum-exp alone; scores never.
  attn_recommendation a = choose_on("a100-80-sxm", "--heads 8 --seq 16384 --dim 64 --dtype f16");
  attn_recommendation b = choose_on("a100-80-sxm", "--heads 8 --seq 32768 --dim 64 --dtype f16");
  assert_int_equal(a.backend, ATTN_BACKEND_FLASH);
  assert_int_equal(b.backend, ATTN_BACKEND_FLASH);
  assert_true(near((double)b.memory_bytes, 2 * (double)a.memory_bytes, 0.01));
  assert_int_equal(a.workspace_bytes, 8 * 16384 * 4);
  assert_int_equal(a.memory_bytes, 4 * 8 * 16384 * 64 * 2 + 8 * 16384 * 4);
  // Math: scores and probabilities.
  backend_cost math =
      estimate(ATTN_BACKEND_MATH, "a100-80-sxm", "--heads 8 --seq 2048 --dim 64 --dtype f32");
  assert_int_equal(math.workspace_bytes, 2 * (int64_t)8 * 2048 * 2048 * 4);
}

static void test_sizes_of_enormous_problems_saturate(void **unused) {
  (void)unused;
  attn_context *c = context_on("h100-sxm", (attn_config){ 0 });
  attn_problem p = problem_of("--batch 1000000 --heads 1000 --seq 20000 --dim 2 --dtype f16");
  attn_recommendation r;
  assert_int_equal(attn_select(c, &p, &r), ATTN_ERROR_UNSUPPORTED);
  const attn_reason *why = rejected_for(&r, ATTN_BACKEND_MATH, ATTN_REASON_MEMORY_DEVICE);
  assert_true(why && why->value > 3.2e18 && isfinite(why->value));
  attn_context_destroy(c);
}

/* ---- splits */

static void test_splits_follow_the_rule(void **unused) {
  (void)unused;
  // 32 items on 216 slots: 6 fill 0.89 of a wave, 27 all of four; 0.89 is within 85 % of 1.
  assert_int_equal(gpu_splits(32, 216, 64, 128), 6);
  assert_int_equal(gpu_splits(0.8 * 216, 216, 64, 128), 1); // nearly full: not split
  assert_int_equal(gpu_splits(48, 108, 64, 128), 2); // the example of the heuristic's own comment
  assert_int_equal(gpu_splits(1, 216, 8, 128), 7);   // 8 blocks of keys: 7 reach 85 % of 8
  assert_int_equal(gpu_splits(1, 10000, 9000, 128), 109);
  assert_int_equal(gpu_splits(0, 216, 64, 128), 1);
  // FlashAttention-3 does not split up to four blocks of keys.
  assert_int_equal(
      estimate(ATTN_BACKEND_FLASH_V3, "h100-sxm", "--seq 1:704 --dim 128 --dtype f16").splits, 1);
  assert_true(
      estimate(ATTN_BACKEND_FLASH_V3, "h100-sxm", "--seq 1:8192 --dim 128 --dtype f16").splits > 1);
}

/* ---- time */

static attn_capability simple_gpu(void) {
  return (attn_capability){ .device = ATTN_DEVICE_CUDA,
                            .compute_units = 100,
                            .clock_hz = 1e9,
                            .bandwidth = 1e12,
                            .peak_f16 = 100e12,
                            .peak_f32 = 10e12 };
}

static cost_price price_on(const attn_capability *c, int threads, backend_cost cost) {
  backend_query q = { .capability = c, .threads = threads };
  return cost_of(&cost, &q);
}

static void test_time_is_overhead_and_the_larger_part(void **unused) {
  (void)unused;
  attn_capability gpu = simple_gpu();
  backend_cost c = {
    .flops = 50e9, .efficiency = 0.5, .compute = ATTN_F16, .items = 100, .splits = 1
  };
  assert_true(near(price_on(&gpu, 1, c).time, 1e-3, 1e-12));
  c.bytes = 2e9; // 2 ms: the larger part
  assert_true(near(price_on(&gpu, 1, c).time, 2e-3, 1e-12));
  c.bandwidth_efficiency = 0.5;
  assert_true(near(price_on(&gpu, 1, c).time, 4e-3, 1e-12));
  c.pass_bytes = 1e9; // beside it, not under it
  assert_true(near(price_on(&gpu, 1, c).time, 6e-3, 1e-12));
  c.launches = 2, c.overhead = 1e-3;
  assert_true(price_on(&gpu, 1, c).time > 7e-3 && price_on(&gpu, 1, c).time < 7.1e-3);
}

static void test_waves_are_whole(void **unused) {
  (void)unused;
  attn_capability gpu = simple_gpu();
  backend_cost c = {
    .flops = 100e9, .efficiency = 1, .compute = ATTN_F16, .items = 100, .splits = 1
  };
  double one_wave = price_on(&gpu, 1, c).time;
  c.items = 101, c.flops = 101e9; // one item more takes a second wave
  assert_true(near(price_on(&gpu, 1, c).time, 2 * one_wave, 1e-9));
  c.items = 200, c.flops = 200e9;
  assert_true(near(price_on(&gpu, 1, c).time, 2 * one_wave, 1e-9));
  c.items = 10, c.flops = 10e9; // a tenth of the device takes as long for a tenth of the work
  cost_price p = price_on(&gpu, 1, c);
  assert_true(near(p.time, one_wave, 1e-9) && p.units == 10);
  c.item_seconds = 1e-3;
  assert_true(near(price_on(&gpu, 1, c).time, one_wave + 1e-3, 1e-9));
}

/* One unit cannot draw the bandwidth of all. */
static void test_few_units_get_a_share_of_bandwidth(void **unused) {
  (void)unused;
  attn_capability gpu = simple_gpu();
  backend_cost c = { .bytes = 1e9, .efficiency = 1, .compute = ATTN_F16, .items = 1, .splits = 1 };
  assert_true(near(price_on(&gpu, 1, c).time, 1e9 / 32e9, 1e-9)); // 32 bytes a clock
  c.items = 10;
  assert_true(near(price_on(&gpu, 1, c).time, 1e9 / 320e9, 1e-9));
  c.items = 50;
  assert_true(near(price_on(&gpu, 1, c).time, 1e9 / 1e12, 1e-9));
  gpu.clock_hz = 0; // unknown: twice the fair share
  c.items = 10;
  assert_true(near(price_on(&gpu, 1, c).time, 1e9 / 0.2e12, 1e-9));
}

static void test_threads_scale_a_cpu(void **unused) {
  (void)unused;
  attn_capability cpu = test_cpu();
  backend_cost c = { .flops = 4e9, .efficiency = 1, .compute = ATTN_F32, .items = 64, .splits = 1 };
  assert_true(near(price_on(&cpu, 4, c).time, 0.01, 1e-9));
  assert_true(near(price_on(&cpu, 1, c).time, 0.04, 1e-9));
  assert_true(near(price_on(&cpu, 9, c).time, 0.01, 1e-9)); // no more than there are cores
  assert_true(price_on(&cpu, 2, c).units == 2);
}

static void test_unknown_facts_give_no_time(void **unused) {
  (void)unused;
  backend_cost c = {
    .flops = 1e9, .efficiency = 1, .compute = ATTN_F16, .items = 100, .splits = 1
  };
  attn_capability gpu = simple_gpu();
  gpu.peak_f16 = 0;
  assert_true(isnan(price_on(&gpu, 1, c).time));
  gpu = simple_gpu(), gpu.bandwidth = 0;
  assert_true(isnan(price_on(&gpu, 1, c).time));
  gpu = simple_gpu(), gpu.compute_units = 0;
  assert_true(isnan(price_on(&gpu, 1, c).time));
  gpu = simple_gpu(), c.compute = ATTN_F64; // no profile tells a rate for f64
  assert_true(isnan(price_on(&gpu, 1, c).time));
}

static void test_objectives_weigh_units(void **unused) {
  (void)unused;
  assert_true(cost_score(ATTN_OBJECTIVE_LATENCY, 2, 1, 4) == 2);
  assert_true(cost_score(ATTN_OBJECTIVE_THROUGHPUT, 2, 1, 4) == 0.5);
  assert_true(near(cost_score(ATTN_OBJECTIVE_BALANCED, 2, 1, 4), sqrt(2 * 0.5), 1e-12));
  assert_true(cost_score(ATTN_OBJECTIVE_THROUGHPUT, 2, 1, 0) == 2); // unknown: the whole device
}

/* ---- against what was measured */

/* Milliseconds, forward, no mask unless causal. */
static const struct measured {
  const char *hardware;
  attn_backend backend;
  const char *shape;
  double ms;
} published[] = {
  // FlashAttention-3 paper (H100 SXM5)
  { "h100-sxm", ATTN_BACKEND_FLASH, "--batch 32 --heads 32 --seq 512 --dim 64 --dtype f16",
    0.2437 },
  { "h100-sxm", ATTN_BACKEND_FLASH, "--batch 2 --heads 32 --seq 8192 --dim 64 --dtype f16",
    3.4146 },
  { "h100-sxm", ATTN_BACKEND_FLASH, "--batch 32 --heads 16 --seq 512 --dim 128 --dtype f16",
    0.2224 },
  { "h100-sxm", ATTN_BACKEND_FLASH, "--batch 1 --heads 16 --seq 16384 --dim 128 --dtype f16",
    5.9433 },
  { "h100-sxm", ATTN_BACKEND_FLASH, "--batch 4 --heads 8 --seq 4096 --dim 256 --dtype f16",
    1.7020 },
  { "h100-sxm", ATTN_BACKEND_CUDNN, "--batch 32 --heads 32 --seq 512 --dim 64 --dtype f16",
    0.2051 },
  { "h100-sxm", ATTN_BACKEND_CUDNN, "--batch 2 --heads 32 --seq 8192 --dim 64 --dtype f16",
    2.6687 },
  { "h100-sxm", ATTN_BACKEND_CUDNN, "--batch 32 --heads 16 --seq 512 --dim 128 --dtype f16",
    0.1383 },
  { "h100-sxm", ATTN_BACKEND_CUDNN, "--batch 1 --heads 16 --seq 16384 --dim 128 --dtype f16",
    3.6958 },
  { "h100-sxm", ATTN_BACKEND_CUDNN, "--batch 4 --heads 8 --seq 4096 --dim 256 --dtype f16",
    0.9462 },
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 32 --heads 32 --seq 512 --dim 64 --dtype f16",
    0.2064 },
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 2 --heads 32 --seq 8192 --dim 64 --dtype f16",
    2.2168 },
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 32 --heads 16 --seq 512 --dim 128 --dtype f16",
    0.1472 },
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 1 --heads 16 --seq 16384 --dim 128 --dtype f16",
    3.3936 },
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 4 --heads 8 --seq 4096 --dim 256 --dtype f16",
    0.7470 },
  // meta-pytorch/tritonbench#1254 (H100)
  { "h100-sxm", ATTN_BACKEND_FLASH_V3, "--batch 4 --heads 48 --seq 2048 --dim 128 --dtype bf16",
    0.6674 },
  // pytorch/pytorch#126122 (A100)
  { "a100-80-sxm", ATTN_BACKEND_FLASH, "--heads 32 --seq 4096 --dim 64 --dtype bf16", 0.7994 },
  { "a100-80-sxm", ATTN_BACKEND_FLASH, "--heads 16 --seq 4096 --dim 128 --dtype bf16", 0.7501 },
  { "a100-80-sxm", ATTN_BACKEND_CUDNN, "--heads 32 --seq 8192 --dim 64 --dtype bf16", 3.2344 },
  { "a100-80-sxm", ATTN_BACKEND_CUDNN, "--heads 16 --seq 4096 --dim 128 --dtype bf16", 0.8070 },
  // NVIDIA/cudnn-frontend (cuDNN 9.22)
  { "gb200", ATTN_BACKEND_CUDNN, "--batch 2 --heads 64:8 --seq 8192 --dim 128 --dtype bf16",
    2.483 },
  { "gb200", ATTN_BACKEND_CUDNN,
    "--batch 2 --heads 64:8 --seq 8192 --dim 128 --dtype bf16 --causal tl", 1.397 },
  { "gb200", ATTN_BACKEND_CUDNN, "--batch 2 --heads 128 --seq 4096 --dim 192:128 --dtype bf16",
    1.650 },
  { "gb200", ATTN_BACKEND_CUDNN, "--heads 40 --seq 75600 --dim 128 --dtype bf16", 76.372 },
  { "gb300", ATTN_BACKEND_CUDNN, "--heads 32 --seq 6144 --dim 128 --dtype bf16", 0.363 },
  { "gb300", ATTN_BACKEND_CUDNN, "--batch 2 --heads 64 --seq 16384 --dim 192:128 --dtype bf16",
    10.590 },
  // flagos-ai/FlagAttention#17 (RTX 3090)
  { "rtx-3090", ATTN_BACKEND_FLASH_DECODE, "--batch 2 --heads 32 --seq 1:512 --dim 64 --dtype f16",
    0.0265 },
  { "rtx-3090", ATTN_BACKEND_FLASH_DECODE, "--batch 2 --heads 32 --seq 1:8192 --dim 64 --dtype f16",
    0.1850 },
  { "rtx-3090", ATTN_BACKEND_FLASH_DECODE,
    "--batch 2 --heads 32 --seq 1:131072 --dim 64 --dtype f16", 2.5594 },
};
enum { PUBLISHED = sizeof(published) / sizeof(published[0]) };

static double predict(const struct measured *m) {
  question q;
  backend_cost cost;
  attn_problem p = problem_of(m->shape);
  ask(&q, m->hardware, &p);
  on_device(m->backend, q.capability.device)->estimate(&q.query, &cost);
  return cost_of(&cost, &q.query).time;
}

static int compare(const void *a, const void *b) {
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void test_predictions_match_published_times(void **unused) {
  (void)unused;
  double errors[PUBLISHED];
  for (int i = 0; i < PUBLISHED; i++) {
    double predicted = predict(&published[i]), measured = published[i].ms * 1e-3;
    errors[i] = fabs(log(predicted / measured));
    if (errors[i] > log(1.4))
      fail_msg("%s on %s, %s: %.4g ms predicted, %.4g measured",
               attn_backend_name(published[i].backend), published[i].hardware, published[i].shape,
               predicted * 1e3, published[i].ms);
  }
  qsort(errors, PUBLISHED, sizeof(errors[0]), compare);
  assert_true(errors[PUBLISHED / 2] < log(1.08));
}

/* Where one backend was measured more than 10 % faster than another, it is predicted to be faster.
 */
static void test_predictions_rank_as_measured(void **unused) {
  (void)unused;
  int compared = 0;
  for (int i = 0; i < PUBLISHED; i++)
    for (int j = 0; j < PUBLISHED; j++) {
      const struct measured *a = &published[i], *b = &published[j];
      if (strcmp(a->hardware, b->hardware) || strcmp(a->shape, b->shape) || a->ms * 1.1 >= b->ms)
        continue;
      compared++;
      if (predict(a) >= predict(b))
        fail_msg("%s, %s: %s was faster than %s", a->hardware, a->shape,
                 attn_backend_name(a->backend), attn_backend_name(b->backend));
    }
  assert_true(compared >= 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_tiles_are_counted_exactly),
    cmocka_unit_test(test_tiles_of_extreme_offsets),
    cmocka_unit_test(test_causal_halves_the_work),
    cmocka_unit_test(test_padding_is_work),
    cmocka_unit_test(test_bytes_are_those_of_the_types_and_heads),
    cmocka_unit_test(test_keys_that_nobody_attends_are_not_read),
    cmocka_unit_test(test_expected_memory),
    cmocka_unit_test(test_sizes_of_enormous_problems_saturate),
    cmocka_unit_test(test_splits_follow_the_rule),
    cmocka_unit_test(test_time_is_overhead_and_the_larger_part),
    cmocka_unit_test(test_waves_are_whole),
    cmocka_unit_test(test_few_units_get_a_share_of_bandwidth),
    cmocka_unit_test(test_threads_scale_a_cpu),
    cmocka_unit_test(test_unknown_facts_give_no_time),
    cmocka_unit_test(test_objectives_weigh_units),
    cmocka_unit_test(test_predictions_match_published_times),
    cmocka_unit_test(test_predictions_rank_as_measured),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
