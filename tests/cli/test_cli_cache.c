// SPDX-License-Identifier: Apache-2.0
/* attn run with caches of other types, and with keys that sequences share. */
#include "spawn.h"

#include "array.h"
#include "attn/attn.h"

enum { HEADS = 2, KEYS = 10, PREFIX = 4, DIM = 32 };

static void save(const char *path, const float *x, int ndim, const int64_t *shape) {
  char err[256];
  array a = { .dtype = ARRAY_F32, .ndim = ndim, .data = (void *)(uintptr_t)x };
  int64_t n = 1;
  for (int i = 0; i < ndim; i++) a.shape[i] = shape[i], n *= shape[i];
  a.bytes = (size_t)n * sizeof(float);
  if (array_save_npy(path, &a, err, sizeof(err))) fail_msg("%s", err);
}

static void save_inputs(void) {
  static float q[HEADS * 3 * DIM], k[2][HEADS * KEYS * DIM];
  uint32_t s = 7;
  for (int i = 0; i < HEADS * 3 * DIM; i++) q[i] = (float)(s = s * 1664525u + 1013904223u) * 0x1p-31f - 1;
  for (int i = 0; i < 2 * HEADS * KEYS * DIM; i++)
    k[i % 2][i / 2] = (float)(s = s * 1664525u + 1013904223u) * 0x1p-31f - 1;
  save("q.npy", q, 4, (int64_t[]){ 1, HEADS, 3, DIM });
  save("k.npy", k[0], 4, (int64_t[]){ 1, HEADS, KEYS, DIM });
  save("v.npy", k[1], 4, (int64_t[]){ 1, HEADS, KEYS, DIM });
  for (int t = 0; t < 2; t++) { // the same keys, the first ones apart
    static float first[HEADS * PREFIX * DIM], rest[HEADS * (KEYS - PREFIX) * DIM];
    for (int h = 0; h < HEADS; h++) {
      memcpy(first + h * PREFIX * DIM, k[t] + h * KEYS * DIM, PREFIX * DIM * sizeof(float));
      memcpy(rest + h * (KEYS - PREFIX) * DIM, k[t] + (h * KEYS + PREFIX) * DIM,
             (KEYS - PREFIX) * DIM * sizeof(float));
    }
    save(t ? "pv.npy" : "pk.npy", first, 3, (int64_t[]){ HEADS, PREFIX, DIM });
    save(t ? "rv.npy" : "rk.npy", rest, 4, (int64_t[]){ 1, HEADS, KEYS - PREFIX, DIM });
  }
}

static void test_every_cache_type(void **state) {
  (void)state;
  static const char *const types[] = { "f16", "bf16", "f8e4m3", "f8e5m2", "int8", "q8_0", "q4_0" };
  save_inputs();
  for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
    // the arithmetic is exact to the reference on the cache; the cache itself is coarser than f32
    succeeds("run -q q.npy -k k.npy -v v.npy --kv-dtype %s --check --tolerance 1e-5 -o o.npy", types[i]);
    fails(1, "tolerance", "run -q q.npy -k k.npy -v v.npy -o plain.npy --reference o.npy --tolerance 1e-7");
  }
  fails(2, "--kv-dtype", "run -q q.npy -k k.npy -v v.npy --kv-dtype int9");
}

static void test_shared_prefix_is_the_same_as_all_keys(void **state) {
  (void)state;
  char whole[4096 + 1024], split[4096 + 1024];
  save_inputs();
  succeeds("run -q q.npy -k k.npy -v v.npy --causal br -o whole.npy");
  succeeds("run -q q.npy -k rk.npy -v rv.npy --prefix-k pk.npy --prefix-v pv.npy --causal br -o split.npy");
  FILE *a = fopen("whole.npy", "rb"), *b = fopen("split.npy", "rb");
  assert_true(a && b);
  size_t n = fread(whole, 1, sizeof(whole), a), m = fread(split, 1, sizeof(split), b);
  fclose(a), fclose(b);
  assert_true(n > 128 && n == m);
  assert_memory_equal(whole, split, n);
  fails(2, "together", "run -q q.npy -k rk.npy -v rv.npy --prefix-k pk.npy");
  fails(1, "--prefix-v", "run -q q.npy -k rk.npy -v rv.npy --prefix-k pk.npy --prefix-v rv.npy");
}

static void test_outputs_that_cannot_be(void **state) {
  (void)state;
  save_inputs();
  fails(2, "two outputs", "run -q q.npy -k k.npy -v v.npy -o same.npy --lse same.npy");
  fails(2, ".npy files", "run -q q.npy -k k.npy -v v.npy -o out.npz");
  fails(1, "not a regular file", "bench --seq 9 --dim 8 --no-limits --min-time 0 --repeat 1 --plot /dev/null");
  fails(1, "not a regular file", "bench --file /dev/zero --no-limits");
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_cache_type),
    cmocka_unit_test(test_shared_prefix_is_the_same_as_all_keys),
    cmocka_unit_test(test_outputs_that_cannot_be),
  };
  return cmocka_run_group_tests(tests, spawn_setup, spawn_teardown);
}
