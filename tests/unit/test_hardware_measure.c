// SPDX-License-Identifier: Apache-2.0
/* The measuring loops do the work they are timed for, and measured numbers are consistent. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "attn/hardware.h"
#include "hardware/internal.h"
#include "hardware/measure.h"

static int levels(int flags[4]) {
  attn_capability cpu;
  hardware_cpu_detect(&cpu);
  int count = 0;
  flags[count++] = 0;
  const int avx2 = ATTN_CPU_AVX2 | ATTN_CPU_FMA;
  if ((cpu.isa_flags & avx2) == avx2) flags[count++] = avx2;
  if (cpu.isa_flags & ATTN_CPU_AVX512F) flags[count++] = avx2 | ATTN_CPU_AVX512F;
  if (cpu.isa_flags & ATTN_CPU_AVX512BF16) flags[count++] = cpu.isa_flags;
  return count;
}

/* With x = 1 a sum grows by y every round: what is returned counts the multiply-adds. */
static void test_f32_rounds_are_all_done(void **state) {
  (void)state;
  int flags[4], count = levels(flags);
  for (int i = 0; i < count; i++) {
    measure_loops loops;
    measure_loops_choose(flags[i], &loops);
    float seeds[MEASURE_SEEDS] = { 0 };
    seeds[16] = 1;
    seeds[17] = 2;
    float none = loops.f32(0, seeds), one = loops.f32(1, seeds), many = loops.f32(1000, seeds);
    assert_true(none == 0);
    assert_true(one > 0 && many == 1000 * one);
    /* Returned are all lanes, or two of eight of the AVX2 loop's twelve sums. */
    double lanes = loops.f32_flops / 2;
    assert_true(one == 2 * lanes || one == 2 * lanes / 4);
  }
}

static void test_bf16_rounds_are_all_done(void **state) {
  (void)state;
  int flags[4], count = levels(flags);
  measure_loops loops;
  measure_loops_choose(flags[count - 1], &loops);
  if (!loops.bf16) {
    print_message("no bf16 dot product on this CPU\n");
    skip();
  }
  float seeds[MEASURE_SEEDS] = { 0 };
  /* 1.0 is 0x3f800000: as a pair of bf16 it is (0, 1). */
  seeds[16] = 1;
  seeds[17] = 2;
  float one = loops.bf16(1, seeds);
  assert_true(one == 2 * (float)(loops.bf16_flops / 4));
  assert_true(loops.bf16(1000, seeds) == 1000 * one);
}

static void test_reading_reads_every_byte(void **state) {
  (void)state;
  unsigned seed = (unsigned)time(NULL);
  srand(seed);
  print_message("seed %u\n", seed);
  enum { SIZE = 64 << 10 };
  char *data = aligned_alloc(4096, SIZE);
  assert_non_null(data);
  memset(data, 0, SIZE);
  int flags[4], count = levels(flags);
  for (int i = 0; i < count; i++) {
    measure_loops loops;
    measure_loops_choose(flags[i], &loops);
    assert_true(loops.read(data, SIZE) == 0);
    for (int k = 0; k < 300; k++) {
      /* The first and last bytes, then any. Which half of a lane comes back is the loop's. */
      size_t at = k < 256   ? (size_t)k
                  : k < 258 ? SIZE - 1 - (size_t)(k - 256)
                            : (size_t)rand() % SIZE;
      data[at] = (char)0xff;
      assert_true(loops.read(data, SIZE) != 0);
      data[at] = 0;
    }
  }
  free(data);
}

static void test_flushing_keeps_the_data(void **state) {
  (void)state;
  enum { SIZE = 1 << 20 };
  int flags[4], count = levels(flags);
  measure_loops loops;
  measure_loops_choose(flags[count - 1], &loops);
  if (!loops.flush) skip();
  unsigned char *data = aligned_alloc(4096, SIZE);
  assert_non_null(data);
  for (int i = 0; i < SIZE; i++) data[i] = (unsigned char)(i * 31 >> 3);
  loops.flush(data, SIZE);
  for (int i = 0; i < SIZE; i++) assert_int_equal(data[i], (unsigned char)(i * 31 >> 3));
  free(data);
}

static void test_the_chain_is_computed(void **state) {
  (void)state;
  const uint64_t seed = 0x0123456789abcdefu;
  uint64_t x = seed;
  for (int i = 0; i < 16 * 37; i++) {
    x += seed;
    x = x << 7 | x >> 57;
  }
  assert_true(measure_chain(37, seed) == x);
}

static void test_measured_numbers_are_there_and_stay(void **state) {
  (void)state;
  attn_capability cpu, again;
  attn_hardware_detect(&cpu, 1, NULL, 0);
  assert_true(cpu.peak_f32 == 0 && cpu.bandwidth == 0 && cpu.clock_hz == 0);
  again = cpu;
  assert_int_equal(attn_hardware_measure(&cpu), ATTN_OK);
  /* No CPU is outside these, however busy it is. */
  assert_true(cpu.peak_f32 > 1e6 && cpu.peak_f32 < 1e15);
  assert_true(cpu.bandwidth > 1e6 && cpu.bandwidth < 1e14);
  assert_true(cpu.clock_hz > 1e6 && cpu.clock_hz < 1e10);
  assert_int_equal(attn_hardware_measure(&again), ATTN_OK);
  assert_true(again.peak_f32 == cpu.peak_f32 && again.bandwidth == cpu.bandwidth &&
              again.clock_hz == cpu.clock_hz);
}

static void test_only_this_machine_s_cpu_is_measured(void **state) {
  (void)state;
  attn_capability c, before;
  assert_int_equal(attn_profile_find("epyc-9654", &c), ATTN_OK);
  before = c;
  assert_int_equal(attn_hardware_measure(&c), ATTN_ERROR_VALUE);
  assert_memory_equal(&c, &before, sizeof c);
  assert_int_equal(attn_profile_find("h100-sxm", &c), ATTN_OK);
  assert_int_equal(attn_hardware_measure(&c), ATTN_ERROR_VALUE);
  assert_int_equal(attn_hardware_measure(NULL), ATTN_ERROR_NULL);
}

static void test_limits(void **state) {
  (void)state;
  attn_capability cpu;
  hardware_cpu_detect(&cpu);
  attn_limits l;
  assert_int_equal(attn_hardware_limits(1, &l), ATTN_OK);
  assert_int_equal(l.threads, 1);
  assert_true(l.f32_flops > 1e6 && l.read_bandwidth > 1e6 && l.clock_hz > 1e6);
  assert_true((l.bf16_flops > 0) == ((cpu.isa_flags & ATTN_CPU_AVX512BF16) != 0));
  assert_int_equal(attn_hardware_limits(0, &l), ATTN_OK);
  assert_int_equal(l.threads, cpu.compute_units);
  /* More threads than cores still end. */
  assert_int_equal(attn_hardware_limits(cpu.compute_units + 1, &l), ATTN_OK);

  attn_limits before = l;
  assert_int_equal(attn_hardware_limits(-1, &l), ATTN_ERROR_VALUE);
  assert_int_equal(attn_hardware_limits(1 << 20, &l), ATTN_ERROR_VALUE);
  assert_memory_equal(&l, &before, sizeof l);
  assert_int_equal(attn_hardware_limits(1, NULL), ATTN_ERROR_NULL);
}

static void *measure_in_thread(void *arg) {
  attn_capability *cpu = arg;
  attn_hardware_detect(cpu, 1, NULL, 0);
  return attn_hardware_measure(cpu) == ATTN_OK ? arg : NULL;
}

static void test_threads_get_one_answer(void **state) {
  (void)state;
  enum { THREADS = 6 };
  pthread_t threads[THREADS];
  attn_capability cpus[THREADS];
  for (int i = 0; i < THREADS; i++)
    assert_int_equal(pthread_create(&threads[i], NULL, measure_in_thread, &cpus[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    void *ok;
    pthread_join(threads[i], &ok);
    assert_non_null(ok);
    assert_true(cpus[i].peak_f32 == cpus[0].peak_f32);
    assert_string_equal(cpus[i].arch, cpus[0].arch);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_f32_rounds_are_all_done),
    cmocka_unit_test(test_bf16_rounds_are_all_done),
    cmocka_unit_test(test_reading_reads_every_byte),
    cmocka_unit_test(test_flushing_keeps_the_data),
    cmocka_unit_test(test_the_chain_is_computed),
    cmocka_unit_test(test_threads_get_one_answer),
    cmocka_unit_test(test_measured_numbers_are_there_and_stay),
    cmocka_unit_test(test_only_this_machine_s_cpu_is_measured),
    cmocka_unit_test(test_limits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
