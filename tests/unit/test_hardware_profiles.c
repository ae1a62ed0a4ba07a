// SPDX-License-Identifier: Apache-2.0
/* Named profiles: their facts, and how they are found. */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attn/hardware.h"
#include "hardware/internal.h"

static attn_capability find(const char *name) {
  attn_capability c;
  if (attn_profile_find(name, &c) != ATTN_OK) fail_msg("%s: %s", name, attn_last_error());
  return c;
}

static void test_facts_are_complete_and_plausible(void **state) {
  (void)state;
  assert_true(attn_profile_count() >= 30);
  for (int i = 0; i < attn_profile_count(); i++) {
    const attn_capability *p = attn_profile_get(i);
    assert_non_null(p);
    assert_true(p->name[0] && p->arch[0] && p->notes[0]);
    assert_int_equal(p->source, ATTN_SOURCE_PROFILE);
    assert_true(p->compute_units >= 8 && p->compute_units <= 400);
    assert_true(p->clock_hz >= 1e9 && p->clock_hz <= 5e9);
    assert_true(p->bandwidth >= 50e9 && p->bandwidth <= 10e12);
    assert_true(p->peak_f32 >= 1e12 && p->peak_f32 <= 200e12);
    /* What changes with the moment is no profile's. */
    assert_int_equal(p->memory_available, 0);
    assert_int_equal(p->cudnn_version, 0);
    assert_int_equal(p->device_index, 0);
    if (p->device == ATTN_DEVICE_CPU) {
      assert_true(p->isa >= ATTN_ISA_AVX512);
      assert_int_equal(hardware_isa(p->isa_flags), p->isa);
      char arch[sizeof p->arch];
      hardware_arch(p->isa_flags, 0, arch, sizeof arch);
      assert_string_equal(arch, p->arch);
      assert_int_equal(p->cores_total, p->compute_units);
      assert_true(p->l1_bytes >= 32 << 10 && p->l2_bytes > p->l1_bytes &&
                  p->l3_bytes > p->l2_bytes);
    } else {
      assert_true(p->memory_total >= INT64_C(12) << 30);
      assert_int_equal(p->f16, ATTN_YES);
      assert_true(p->peak_f16 >= p->peak_f32);
      assert_true(p->peak_bf16 == (p->bf16 == ATTN_YES ? p->peak_f16 : 0));
      assert_true((p->peak_f8 > 0) == (p->f8 == ATTN_YES));
      assert_int_equal(p->isa_flags, 0);
    }
  }
  assert_null(attn_profile_get(-1));
  assert_null(attn_profile_get(attn_profile_count()));
}

static void test_names_are_unique(void **state) {
  (void)state;
  for (int i = 0; i < attn_profile_count(); i++)
    for (int j = 0; j < i; j++)
      assert_false(hardware_names_equal(attn_profile_get(i)->name, attn_profile_get(j)->name));
}

/* A CUDA device's f32 peak is units * lanes * 2 * clock; H20 and Blackwell's data-centre cards are
 * published at another clock than the boost clock listed. */
static void test_cuda_peaks_agree_with_units_and_clock(void **state) {
  (void)state;
  for (int i = 0; i < attn_profile_count(); i++) {
    const attn_capability *p = attn_profile_get(i);
    if (p->device != ATTN_DEVICE_CUDA) continue;
    bool half_lanes = p->compute_major == 7 || (p->compute_major == 8 && p->compute_minor == 0);
    double peak = p->compute_units * (half_lanes ? 64.0 : 128.0) * 2 * p->clock_hz;
    double ratio = p->peak_f32 / peak;
    if (ratio < 0.97 || ratio > 1.13) fail_msg("%s: %g of units times clock", p->name, ratio);
    attn_capability c;
    assert_int_equal(attn_capability_from_compute(p->compute_major, p->compute_minor, &c), ATTN_OK);
    assert_string_equal(c.arch, p->arch);
    assert_int_equal(c.tensor_cores, p->tensor_cores);
    assert_int_equal(c.bf16, p->bf16);
    assert_int_equal(c.f8, p->f8);
    assert_int_equal(c.shared_memory_bytes, p->shared_memory_bytes);
  }
}

static void test_known_devices(void **state) {
  (void)state;
  attn_capability c = find("h100-sxm");
  assert_int_equal(c.compute_major, 9);
  assert_int_equal(c.compute_units, 132);
  assert_int_equal(c.memory_total, INT64_C(80) << 30);
  assert_true(c.bandwidth == 3350e9 && c.peak_bf16 == 989e12 && c.peak_f8 == 1979e12);
  assert_int_equal(c.l2_bytes, 50 << 20);
  c = find("t4");
  assert_int_equal(c.bf16, ATTN_NO);
  assert_true(c.peak_bf16 == 0 && c.peak_f16 == 65e12);
  assert_string_equal(find("b200").arch, "Blackwell");
  assert_string_equal(find("rtx-5090").arch, "Blackwell");
  assert_string_equal(find("jetson-thor").arch, "Blackwell");
  assert_int_equal(find("mi300x").device, ATTN_DEVICE_ROCM);
  assert_string_equal(find("mi300x").arch, "gfx942");
  assert_int_equal(find("m1-max").bf16, ATTN_NO);
  c = find("m2-max");
  assert_int_equal(c.device, ATTN_DEVICE_METAL);
  assert_int_equal(c.bf16, ATTN_YES);
  assert_int_equal(c.tensor_cores, ATTN_NO);
  assert_int_equal(c.unified_memory, ATTN_YES);
  assert_int_equal(find("max-1550").device, ATTN_DEVICE_XPU);
}

static void test_case_and_separators_do_not_matter(void **state) {
  (void)state;
  assert_string_equal(find("H100-SXM").name, "h100-sxm");
  assert_string_equal(find("RTX 4090").name, "rtx-4090");
  assert_string_equal(find("rtx4090").name, "rtx-4090");
  assert_string_equal(find("MI300X").name, "mi300x");
}

static void test_aliases_say_what_they_stand_for(void **state) {
  (void)state;
  const char *pairs[][2] = { { "a100", "a100-80-sxm" },       { "A100-80", "a100-80-sxm" },
                             { "a100-40", "a100-40-sxm" },    { "h100", "h100-sxm" },
                             { "H200", "h200-sxm" },          { "mi250x", "mi250x-gcd" },
                             { "orin", "jetson-agx-orin-64" } };
  for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
    attn_capability c = find(pairs[i][0]);
    assert_string_equal(c.name, pairs[i][1]);
    assert_non_null(strstr(c.notes, "taken for"));
    assert_non_null(strstr(c.notes, pairs[i][1]));
  }
  assert_null(strstr(find("h100-sxm").notes, "taken for"));
}

static void test_an_unknown_name_lists_the_nearest_and_changes_nothing(void **state) {
  (void)state;
  attn_capability c, before;
  memset(&c, 0x5a, sizeof c);
  before = c;
  assert_int_equal(attn_profile_find("a100-90", &c), ATTN_ERROR_NOT_FOUND);
  assert_memory_equal(&c, &before, sizeof c);
  assert_non_null(strstr(attn_last_error(), "a100-90"));
  assert_non_null(strstr(attn_last_error(), "a100-80-sxm"));
  assert_int_equal(attn_profile_find("rtx-4080", &c), ATTN_ERROR_NOT_FOUND);
  assert_non_null(strstr(attn_last_error(), "rtx-4090"));
  assert_int_equal(attn_profile_find("", &c), ATTN_ERROR_NOT_FOUND);
  assert_int_equal(attn_profile_find(NULL, &c), ATTN_ERROR_NULL);
  assert_int_equal(attn_profile_find("t4", NULL), ATTN_ERROR_NULL);

  char *huge = malloc(100001);
  assert_non_null(huge);
  memset(huge, '\x1b', 100000);
  huge[100000] = '\0';
  assert_int_equal(attn_profile_find(huge, &c), ATTN_ERROR_NOT_FOUND);
  assert_null(strchr(attn_last_error(), '\x1b'));
  free(huge);
}

static void test_a_device_name_needs_its_units_too(void **state) {
  (void)state;
  const attn_capability *p = hardware_profile_of_device("NVIDIA H100 80GB HBM3", 9, 0, 132);
  assert_non_null(p);
  assert_string_equal(p->name, "h100-sxm");
  /* A MIG slice has the name of the card. */
  assert_null(hardware_profile_of_device("NVIDIA H100 80GB HBM3", 9, 0, 16));
  assert_null(hardware_profile_of_device("NVIDIA H100 80GB HBM3", 8, 0, 132));
  assert_null(hardware_profile_of_device("NVIDIA H100 80GB HBM3 ", 9, 0, 132));
  assert_null(hardware_profile_of_device("", 9, 0, 132));
}

int main(void) {
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(test_facts_are_complete_and_plausible),
    cmocka_unit_test(test_names_are_unique),
    cmocka_unit_test(test_cuda_peaks_agree_with_units_and_clock),
    cmocka_unit_test(test_known_devices),
    cmocka_unit_test(test_case_and_separators_do_not_matter),
    cmocka_unit_test(test_aliases_say_what_they_stand_for),
    cmocka_unit_test(test_an_unknown_name_lists_the_nearest_and_changes_nothing),
    cmocka_unit_test(test_a_device_name_needs_its_units_too),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
