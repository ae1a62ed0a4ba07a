// SPDX-License-Identifier: Apache-2.0
/* Detection on the machine that runs this: nothing is reported that was not read. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attn/hardware.h"
#include "hardware/internal.h"

#if defined(__aarch64__)
#define FLAGS "Features"
#else
#define FLAGS "flags"
#endif

/* Whether /proc/cpuinfo's flags ("Features" on Arm) hold the word; -1 when that cannot be read, as
 * under an emulator that shows another architecture's. */
static int linux_says(const char *word) {
  char line[8192];
  FILE *file = fopen("/proc/cpuinfo", "r");
  if (!file) return -1;
  int found = -1;
  while (found < 0 && fgets(line, sizeof line, file)) {
    if (strncmp(line, FLAGS, strlen(FLAGS)) != 0) continue;
    found = 0;
    for (char *at = strtok(line, " \t\n"); at; at = strtok(NULL, " \t\n"))
      if (strcmp(at, word) == 0) found = 1;
  }
  fclose(file);
  return found;
}

static void test_the_cpu_is_always_there(void **state) {
  (void)state;
  attn_capability devices[8];
  char notes[1024];
  memset(devices, 0x5a, sizeof devices);
  int count = attn_hardware_detect(devices, 8, notes, sizeof notes);
  assert_true(count >= 1);
  const attn_capability *cpu = &devices[0];
  assert_int_equal(cpu->device, ATTN_DEVICE_CPU);
  assert_int_equal(cpu->source, ATTN_SOURCE_DETECTED);
  assert_int_equal(cpu->device_index, 0);
  assert_true(cpu->compute_units >= 1);
  assert_true(cpu->cores_total >= 1);
  assert_int_equal(cpu->isa, hardware_isa(cpu->isa_flags));
  assert_int_equal(cpu->compute_major, 0);
  assert_int_equal(cpu->cudnn_version, 0);
  assert_int_equal(cpu->shared_memory_bytes, 0);
  /* Measured by attn_hardware_measure, never guessed. */
  assert_true(cpu->peak_f32 == 0 && cpu->peak_f16 == 0 && cpu->peak_bf16 == 0 && cpu->peak_f8 == 0);
  assert_true(cpu->bandwidth == 0 && cpu->clock_hz == 0);
}

static void test_flags_agree_with_the_system(void **state) {
  (void)state;
  static const struct {
    const char *word;
    int flag;
  } words[] = {
#if defined(__aarch64__)
    { "asimd", ATTN_CPU_NEON },
    { "asimdhp", ATTN_CPU_ARM_FP16 },
    { "asimddp", ATTN_CPU_ARM_DOT },
    { "bf16", ATTN_CPU_ARM_BF16 },
    { "i8mm", ATTN_CPU_ARM_I8MM },
    { "sve", ATTN_CPU_SVE },
  };
  const char *always = "fp";
#else
    { "sse4_2", ATTN_CPU_SSE42 },
    { "avx", ATTN_CPU_AVX },
    { "avx2", ATTN_CPU_AVX2 },
    { "fma", ATTN_CPU_FMA },
    { "f16c", ATTN_CPU_F16C },
    { "avx512f", ATTN_CPU_AVX512F },
    { "avx512bw", ATTN_CPU_AVX512BW },
    { "avx512dq", ATTN_CPU_AVX512DQ },
    { "avx512vl", ATTN_CPU_AVX512VL },
    { "avx512_vnni", ATTN_CPU_AVX512VNNI },
    { "avx512_bf16", ATTN_CPU_AVX512BF16 },
    { "avx512_fp16", ATTN_CPU_AVX512FP16 },
    { "avx_vnni", ATTN_CPU_AVXVNNI },
    { "amx_tile", ATTN_CPU_AMX_TILE },
  };
  const char *always = "fpu";
#endif
  if (linux_says(always) != 1) skip();
  attn_capability cpu;
  hardware_cpu_detect(&cpu);
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    /* A word that this kernel is too old to know is missing there, so only its presence binds. */
    if (linux_says(words[i].word) == 1 && !(cpu.isa_flags & words[i].flag))
      fail_msg("%s is in /proc/cpuinfo and was not detected", words[i].word);
  }
#if defined(__aarch64__)
  assert_int_equal(cpu.isa, ATTN_ISA_NEON);
#else
  if (linux_says("avx512f") == 1 && linux_says("avx512bw") == 1 && linux_says("avx512dq") == 1 &&
      linux_says("avx512vl") == 1)
    assert_true(cpu.isa >= ATTN_ISA_AVX512 && cpu.isa <= ATTN_ISA_AMX);
  else if (linux_says("avx2") == 0)
    assert_int_equal(cpu.isa, ATTN_ISA_SCALAR);
#endif
}

static void test_memory_is_the_machine_s_or_less(void **state) {
  (void)state;
  attn_capability cpu;
  hardware_cpu_detect(&cpu);
  int64_t physical = (int64_t)sysconf(_SC_PHYS_PAGES) * sysconf(_SC_PAGESIZE);
  assert_true(cpu.memory_total > 0 && cpu.memory_total <= physical + physical / 100);
  assert_true(cpu.memory_available >= 0 && cpu.memory_available <= cpu.memory_total);
}

static void test_capacity_and_notes_may_be_small_or_absent(void **state) {
  (void)state;
  attn_capability two[2];
  char notes[1024], cut[12];
  int count = attn_hardware_detect(NULL, 0, notes, sizeof notes);
  assert_true(count >= 1);
  assert_int_equal(attn_hardware_detect(NULL, 7, NULL, 0), count);
  assert_int_equal(attn_hardware_detect(two, -1, NULL, 5), count);
  memset(two, 0x5a, sizeof two);
  assert_int_equal(attn_hardware_detect(two, 1, cut, sizeof cut), count);
  assert_int_equal(((unsigned char *)&two[1])[0], 0x5a);
  assert_true(strlen(cut) < sizeof cut);
  assert_int_equal(attn_hardware_detect(two, 1, notes, 0), count);
}

static void test_every_kind_is_found_or_explained(void **state) {
  (void)state;
  attn_capability devices[16];
  char notes[1024];
  int count = attn_hardware_detect(devices, 16, notes, sizeof notes);
  for (attn_device_type type = ATTN_DEVICE_CUDA; type < ATTN_DEVICE_TYPE_COUNT; type++) {
    bool found = false;
    for (int i = 1; i < count && i < 16; i++) found |= devices[i].device == type;
    if (!found && !strstr(notes, attn_device_type_name(type)))
      fail_msg("nothing about %s in '%s'", attn_device_type_name(type), notes);
  }
}

static void test_detection_repeats(void **state) {
  (void)state;
  attn_capability a, b;
  char first[4096], second[4096];
  hardware_cpu_detect(&a);
  hardware_cpu_detect(&b);
  a.memory_available = b.memory_available = 0;
  attn_capability_format(&a, first, sizeof first);
  attn_capability_format(&b, second, sizeof second);
  assert_string_equal(first, second);
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_the_cpu_is_always_there),
    cmocka_unit_test(test_flags_agree_with_the_system),
    cmocka_unit_test(test_memory_is_the_machine_s_or_less),
    cmocka_unit_test(test_capacity_and_notes_may_be_small_or_absent),
    cmocka_unit_test(test_every_kind_is_found_or_explained),
    cmocka_unit_test(test_detection_repeats),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
