// SPDX-License-Identifier: Apache-2.0
/* Profile files: what is written reads back, and no file can do harm. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "hardware_tree.h"
#include "attn/hardware.h"
#include "hardware/internal.h"

static attn_status parse(const char *text, attn_capability *c) {
  return hardware_capability_parse(text, strlen(text), "text", c);
}

static void assert_same_facts(const attn_capability *a, const attn_capability *b) {
  assert_string_equal(a->name, b->name);
  assert_int_equal(a->device, b->device);
  assert_string_equal(a->arch, b->arch);
  assert_int_equal(a->compute_major, b->compute_major);
  assert_int_equal(a->compute_minor, b->compute_minor);
  assert_int_equal(a->memory_total, b->memory_total);
  assert_int_equal(a->memory_available, b->memory_available);
  assert_int_equal(a->compute_units, b->compute_units);
  assert_true(a->clock_hz == b->clock_hz && a->bandwidth == b->bandwidth);
  assert_int_equal(a->tensor_cores, b->tensor_cores);
  assert_int_equal(a->f16, b->f16);
  assert_int_equal(a->bf16, b->bf16);
  assert_int_equal(a->f8, b->f8);
  assert_true(a->peak_f32 == b->peak_f32 && a->peak_f16 == b->peak_f16);
  assert_true(a->peak_bf16 == b->peak_bf16 && a->peak_f8 == b->peak_f8);
  assert_int_equal(a->shared_memory_bytes, b->shared_memory_bytes);
  assert_int_equal(a->l1_bytes, b->l1_bytes);
  assert_int_equal(a->l2_bytes, b->l2_bytes);
  assert_int_equal(a->l3_bytes, b->l3_bytes);
  assert_int_equal(a->cudnn_version, b->cudnn_version);
  assert_int_equal(a->unified_memory, b->unified_memory);
  assert_int_equal(a->isa, b->isa);
  assert_int_equal(a->isa_flags, b->isa_flags);
  assert_int_equal(a->cores_total, b->cores_total);
  assert_int_equal(a->numa_nodes, b->numa_nodes);
  assert_int_equal(a->cache_line, b->cache_line);
}

static void assert_round_trip(const attn_capability *c) {
  char text[4096];
  int length = attn_capability_format(c, text, sizeof text);
  assert_true(length > 0 && (size_t)length < sizeof text);
  assert_int_equal((size_t)length, strlen(text));
  attn_capability back;
  assert_int_equal(parse(text, &back), ATTN_OK);
  assert_same_facts(c, &back);
  assert_int_equal(back.source, ATTN_SOURCE_FILE);
  assert_string_equal(back.notes, "");
}

static void test_every_profile_and_this_machine_round_trip(void **state) {
  (void)state;
  for (int i = 0; i < attn_profile_count(); i++) assert_round_trip(attn_profile_get(i));
  attn_capability cpu;
  hardware_cpu_detect(&cpu);
  cpu.peak_f32 = 1e12 / 3; /* as measurements are: no short decimal */
  cpu.bandwidth = 4.9406564584124654e-324;
  cpu.cudnn_version = 90501;
  cpu.memory_available = INT64_MAX;
  assert_round_trip(&cpu);
}

static void test_unknown_facts_are_left_out(void **state) {
  (void)state;
  attn_capability c = { .device = ATTN_DEVICE_CUDA, .bandwidth = -1 };
  char text[256];
  attn_capability_format(&c, text, sizeof text);
  assert_string_equal(text, "attn-profile 1\ndevice cuda\n");
}

static void test_format_counts_as_snprintf(void **state) {
  (void)state;
  const attn_capability *c = attn_profile_get(0);
  char whole[4096], part[64];
  int length = attn_capability_format(c, whole, sizeof whole);
  assert_int_equal(attn_capability_format(c, NULL, 0), length);
  assert_int_equal(attn_capability_format(c, NULL, 100), length);
  for (size_t size = 1; size <= sizeof part; size++) {
    memset(part, 'x', sizeof part);
    assert_int_equal(attn_capability_format(c, part, size), length);
    assert_int_equal(strlen(part), size - 1);
    assert_memory_equal(part, whole, size - 1);
  }
}

static void test_a_name_cannot_add_lines(void **state) {
  (void)state;
  attn_capability c = { .device = ATTN_DEVICE_CUDA }, back;
  strcpy(c.name, "evil\ndevice metal\n\x1b[31m");
  strcpy(c.notes, "a\nmemory_total 5");
  char text[512];
  attn_capability_format(&c, text, sizeof text);
  assert_int_equal(parse(text, &back), ATTN_OK);
  assert_int_equal(back.device, ATTN_DEVICE_CUDA);
  assert_int_equal(back.memory_total, 0);
  assert_null(strchr(text, '\x1b'));
}

static void test_numbers_do_not_depend_on_the_locale(void **state) {
  (void)state;
  const char *locales[] = { "de_DE.UTF-8", "fr_FR.UTF-8", "de_DE", "C" };
  const char *found = NULL;
  for (size_t i = 0; i < sizeof locales / sizeof locales[0] && !found; i++)
    found = setlocale(LC_ALL, locales[i]);
  attn_capability c = { .device = ATTN_DEVICE_CUDA, .bandwidth = 1.5e-3 }, back;
  char text[256];
  attn_capability_format(&c, text, sizeof text);
  attn_status status = parse(text, &back);
  setlocale(LC_ALL, "C");
  assert_non_null(strstr(text, "bandwidth 0.0015\n"));
  assert_int_equal(status, ATTN_OK);
  assert_true(back.bandwidth == 1.5e-3);
}

static void test_comments_blanks_and_line_ends(void **state) {
  (void)state;
  attn_capability c;
  assert_int_equal(parse("attn-profile 1\r\n\r\n  # note: \xc3\xa9\r\n\tname \t Two  Words \r\n"
                         "device cuda\r\nmemory_total 80e9\r\ncompute_capability 9.0",
                         &c),
                   ATTN_OK);
  assert_string_equal(c.notes, "");
  assert_string_equal(c.name, "Two Words");
  assert_int_equal(c.memory_total, INT64_C(80000000000));
  assert_int_equal(c.compute_major, 9);
}

static void test_unknown_keys_are_skipped_and_named(void **state) {
  (void)state;
  attn_capability c;
  assert_int_equal(parse("attn-profile 1\ndevice cuda\nwarp_size 32\nname X\n", &c), ATTN_OK);
  assert_string_equal(c.name, "X");
  assert_non_null(strstr(c.notes, "line 3"));
  assert_non_null(strstr(c.notes, "warp_size"));
}

static void test_a_damaged_line_costs_that_line_only(void **state) {
  (void)state;
  const char *bad[] = { "memory_total -5",
                        "memory_total 1e30",
                        "memory_total 9223372036854775808",
                        "memory_total 1.5",
                        "memory_total 0x10",
                        "memory_total",
                        "memory_total many",
                        "compute_units 2147483648",
                        "compute_units 4 5",
                        "clock_hz nan",
                        "clock_hz inf",
                        "clock_hz 1e999",
                        "clock_hz -1",
                        "clock_hz 1,5",
                        "clock_hz ..",
                        "tensor_cores maybe",
                        "compute_capability 9",
                        "compute_capability 9.",
                        "compute_capability .9",
                        "compute_capability 9.10",
                        "compute_capability 123.0",
                        "compute_capability 9.0.1",
                        "compute_capability -9.0",
                        "compute_capability 9999999999.0",
                        "device tpu",
                        "device",
                        "isa mmx",
                        "isa_flags avx2 mmx",
                        "name \x1b[31mred",
                        "name \xff\xfe",
                        "name 0123456789012345678901234567890123456789012345678901234567890123",
                        "arch 01234567890123456789012345678901" };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    char text[512];
    attn_capability c;
    snprintf(text, sizeof text, "attn-profile 1\ndevice metal\n%s\nl2_bytes 7\n", bad[i]);
    assert_int_equal(parse(text, &c), ATTN_OK);
    assert_int_equal(c.device, ATTN_DEVICE_METAL);
    assert_int_equal(c.l2_bytes, 7);
    if (!strstr(c.notes, "line 3 skipped")) fail_msg("%s: notes are '%s'", bad[i], c.notes);
    char key[32];
    sscanf(bad[i], "%31s", key);
    if (!strstr(bad[i], "\x1b") && !strstr(bad[i], "\xff")) assert_non_null(strstr(c.notes, key));
    for (const char *s = c.notes; *s; s++) assert_true(*s >= ' ' && *s <= '~');
    assert_int_equal(c.memory_total, 0);
    assert_int_equal(c.compute_units, 0);
    assert_true(c.clock_hz == 0);
    assert_int_equal(c.compute_major, 0);
    assert_int_equal(c.isa_flags, 0);
    assert_string_equal(c.name, "");
    assert_string_equal(c.arch, "");
  }
}

static void test_a_nul_or_an_overlong_line_costs_that_line_only(void **state) {
  (void)state;
  attn_capability c;
  const char nul[] = "attn-profile 1\ndevice rocm\nname a\0b\nl2_bytes 7\n";
  assert_int_equal(hardware_capability_parse(nul, sizeof nul - 1, "text", &c), ATTN_OK);
  assert_string_equal(c.name, "");
  assert_int_equal(c.l2_bytes, 7);
  assert_non_null(strstr(c.notes, "line 3"));

  char text[3000] = "attn-profile 1\ndevice rocm\nname ";
  size_t used = strlen(text);
  memset(text + used, 'x', 2000);
  strcpy(text + used + 2000, "\nl2_bytes 7\n");
  assert_int_equal(parse(text, &c), ATTN_OK);
  assert_string_equal(c.name, "");
  assert_int_equal(c.l2_bytes, 7);
  assert_non_null(strstr(c.notes, "line 3"));
}

static void test_the_first_line_decides(void **state) {
  (void)state;
  const struct {
    const char *text, *reason;
  } cases[] = {
    { "", "first line" },
    { "\nattn-profile 1\n", "first line" },
    { "device cuda\n", "first line" },
    { "attn-profile", "first line" },
    { "attn-profile \n", "first line" },
    { "attn-profile x\n", "version" },
    { "attn-profile 0\n", "version" },
    { "attn-profile -1\n", "version" },
    { "attn-profile 1.5\n", "version" },
    { "attn-profile 2\ndevice cuda\n", "version 2" },
    { "attn-profile 99999999999999999999\n", "version" },
    { "ATTN-PROFILE 1\n", "first line" },
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    attn_capability c, before;
    memset(&c, 0x5a, sizeof c);
    before = c;
    assert_int_equal(parse(cases[i].text, &c), ATTN_ERROR_PARSE);
    assert_memory_equal(&c, &before, sizeof c);
    if (!strstr(attn_last_error(), cases[i].reason))
      fail_msg("'%s': %s", cases[i].text, attn_last_error());
  }
  attn_capability c;
  assert_int_equal(parse("attn-profile 1", &c), ATTN_OK);
  assert_non_null(strstr(c.notes, "cpu"));
}

static void test_files(void **state) {
  (void)state;
  tree t;
  tree_make(&t);
  char path[512], text[4096];
  attn_capability c;
  attn_capability_format(attn_profile_get(3), text, sizeof text);
  tree_write(&t, "/ok", text);
  snprintf(path, sizeof path, "%s/ok", t.root);
  assert_int_equal(attn_capability_read(path, &c), ATTN_OK);
  assert_same_facts(&c, attn_profile_get(3));

  snprintf(path, sizeof path, "%s/missing", t.root);
  assert_int_equal(attn_capability_read(path, &c), ATTN_ERROR_IO);
  assert_non_null(strstr(attn_last_error(), "missing"));
  assert_int_equal(attn_capability_read(t.root, &c), ATTN_ERROR_IO);
  assert_int_equal(attn_capability_read("/dev/zero", &c), ATTN_ERROR_IO);

  char *big = malloc((1 << 20) + 1);
  assert_non_null(big);
  memset(big, '#', (1 << 20) + 1);
  memcpy(big, "attn-profile 1\n", 15);
  tree_write_bytes(&t, "/limit", big, 1 << 20);
  tree_write_bytes(&t, "/over", big, (1 << 20) + 1);
  free(big);
  snprintf(path, sizeof path, "%s/limit", t.root);
  assert_int_equal(attn_capability_read(path, &c), ATTN_OK);
  snprintf(path, sizeof path, "%s/over", t.root);
  assert_int_equal(attn_capability_read(path, &c), ATTN_ERROR_PARSE);
  assert_non_null(strstr(attn_last_error(), "1048576"));

  /* A pipe without a writer must not block. */
  snprintf(path, sizeof path, "%s/pipe", t.root);
  assert_int_equal(mkfifo(path, 0600), 0);
  assert_int_equal(attn_capability_read(path, &c), ATTN_ERROR_IO);
  assert_int_equal(attn_capability_read(NULL, &c), ATTN_ERROR_NULL);
  assert_int_equal(attn_capability_read(path, NULL), ATTN_ERROR_NULL);
  tree_remove(&t);
}

/* Mutated profiles: whatever is accepted obeys the type's own rules. */
static void test_random_damage(void **state) {
  (void)state;
  unsigned seed = (unsigned)time(NULL);
  srand(seed);
  print_message("seed %u\n", seed);
  for (int round = 0; round < 3000; round++) {
    char text[4096];
    int length =
        attn_capability_format(attn_profile_get(rand() % attn_profile_count()), text, sizeof text);
    for (int k = rand() % 6; k > 0; k--) {
      int at = 15 + rand() % (length - 15);
      if (rand() % 3 == 0) {
        int cut = rand() % 40;
        if (at + cut < length) {
          memmove(text + at, text + at + cut, (size_t)(length - at - cut));
          length -= cut;
        }
      } else {
        text[at] = (char)(rand() % 256);
      }
    }
    attn_capability c;
    assert_int_equal(hardware_capability_parse(text, (size_t)length, "text", &c), ATTN_OK);
    assert_true(c.device < ATTN_DEVICE_TYPE_COUNT && c.isa < ATTN_ISA_COUNT);
    assert_true(c.memory_total >= 0 && c.l2_bytes >= 0 && c.compute_units >= 0);
    assert_true(c.bandwidth >= 0 && c.bandwidth < HUGE_VAL && c.peak_f32 >= 0);
    assert_true(memchr(c.name, '\0', sizeof c.name) && memchr(c.notes, '\0', sizeof c.notes));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_every_profile_and_this_machine_round_trip),
    cmocka_unit_test(test_unknown_facts_are_left_out),
    cmocka_unit_test(test_format_counts_as_snprintf),
    cmocka_unit_test(test_a_name_cannot_add_lines),
    cmocka_unit_test(test_numbers_do_not_depend_on_the_locale),
    cmocka_unit_test(test_comments_blanks_and_line_ends),
    cmocka_unit_test(test_unknown_keys_are_skipped_and_named),
    cmocka_unit_test(test_a_damaged_line_costs_that_line_only),
    cmocka_unit_test(test_a_nul_or_an_overlong_line_costs_that_line_only),
    cmocka_unit_test(test_the_first_line_decides),
    cmocka_unit_test(test_files),
    cmocka_unit_test(test_random_damage),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
