// SPDX-License-Identifier: Apache-2.0
/* GPU detection against stand-ins for the drivers (fake/driver.c). */
#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <stdint.h>
#include <cmocka.h>
#include <dlfcn.h>

#include "hardware_tree.h"
#include "hardware/internal.h"

#define FAKE(variant) FAKE_DRIVERS "/fake_driver" variant ".so"
#define GB (INT64_C(1) << 30)

static tree t;
static char text[1024];
static const hardware_notes notes = { text, sizeof text };

static int setup(void **state) {
  (void)state;
  tree_make(&t);
  text[0] = '\0';
  return 0;
}

static int teardown(void **state) {
  (void)state;
  tree_remove(&t);
  return 0;
}

static hardware_drivers drivers(const char *library) {
  return (hardware_drivers){ .root = t.root,
                             .cuda = { library },
                             .nvml = { library },
                             .cudnn = { "libno-such-cudnn.so.9", library },
                             .hip = { "libno-such-hip.so", library },
                             .opencl = { library } };
}

/* ---- CUDA -------------------------------------------------------------------------------- */

static void test_cuda_devices_as_the_driver_tells_them(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[3];
  memset(c, 0x5a, sizeof c);
  assert_int_equal(hardware_cuda_detect(&d, c, 3, notes), 2);
  assert_string_equal(text, "");

  assert_int_equal(c[0].device, ATTN_DEVICE_CUDA);
  assert_int_equal(c[0].source, ATTN_SOURCE_DETECTED);
  assert_int_equal(c[0].device_index, 0);
  assert_string_equal(c[0].name, "NVIDIA GeForce RTX 5090");
  assert_string_equal(c[0].arch, "Blackwell");
  assert_int_equal(c[0].compute_major, 12);
  assert_int_equal(c[0].compute_minor, 0);
  assert_int_equal(c[0].compute_units, 170);
  assert_int_equal(c[0].memory_total, 32 * GB);
  assert_int_equal(c[0].memory_available, 30 * GB);
  assert_true(c[0].clock_hz == 2407e6);
  assert_true(c[0].bandwidth == 2 * 14001e6 * 512 / 8);
  assert_int_equal(c[0].l2_bytes, 96 << 20);
  assert_int_equal(c[0].shared_memory_bytes, 100 << 10);
  assert_int_equal(c[0].unified_memory, ATTN_NO);
  assert_int_equal(c[0].f8, ATTN_YES);
  assert_int_equal(c[0].cudnn_version, 90501);
  assert_true(c[0].peak_bf16 == 209.5e12);
  assert_non_null(strstr(c[0].notes, "peaks from profile rtx-5090"));
  assert_int_equal(c[0].isa_flags, 0);

  assert_int_equal(c[1].device_index, 1);
  assert_string_equal(c[1].arch, "Hopper");
  assert_int_equal(c[1].compute_major, 9);
  assert_int_equal(c[1].compute_units, 132);
  assert_int_equal(c[1].memory_total, 80 * GB);
  /* Ten times larger a card: what NVML tells is not this device's. */
  assert_int_equal(c[1].memory_available, 0);
  assert_non_null(strstr(c[1].notes, "partition"));
  assert_true(c[1].bandwidth > 3.3e12 && c[1].bandwidth < 3.4e12);
  assert_true(c[1].peak_bf16 == 989e12);
  assert_int_equal(((unsigned char *)&c[2])[0], 0x5a);
}

static void test_cuda_counts_beyond_the_capacity(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[2];
  memset(c, 0x5a, sizeof c);
  assert_int_equal(hardware_cuda_detect(&d, NULL, 0, notes), 2);
  assert_int_equal(hardware_cuda_detect(&d, c, 1, notes), 2);
  assert_int_equal(c[0].compute_major, 12);
  assert_int_equal(((unsigned char *)&c[1])[0], 0x5a);
}

static void test_nvml_is_left_as_it_was(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[2];
  hardware_cuda_detect(&d, c, 2, notes);
  void *library = dlopen(FAKE(""), RTLD_NOW);
  assert_non_null(library);
  int (*users)(void);
  void *symbol = dlsym(library, "fake_nvml_users");
  memcpy(&users, &symbol, sizeof users);
  assert_int_equal(users(), 0);
  dlclose(library);
}

static void test_a_missing_function_costs_its_fact_alone(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE("_poor"));
  attn_capability c[2];
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 2);
  assert_non_null(strstr(text, "nvmlDeviceGetMemoryInfo"));
  for (int i = 0; i < 2; i++) {
    assert_int_equal(c[i].device, ATTN_DEVICE_CUDA);
    assert_int_equal(c[i].device_index, i);
    assert_string_equal(c[i].name, "");
    assert_string_equal(c[i].arch, "");
    assert_int_equal(c[i].memory_total, 0);
    assert_int_equal(c[i].memory_available, 0);
    assert_int_equal(c[i].compute_units, 0);
    assert_true(c[i].bandwidth == 0 && c[i].clock_hz == 0 && c[i].peak_f16 == 0);
    assert_int_equal(c[i].bf16, ATTN_UNKNOWN);
    assert_int_equal(c[i].unified_memory, ATTN_UNKNOWN);
    assert_int_equal(c[i].cudnn_version, 90501);
    assert_non_null(strstr(c[i].notes, "name unreadable"));
    assert_non_null(strstr(c[i].notes, "cuDeviceGetAttribute"));
    assert_non_null(strstr(c[i].notes, "memory size unreadable"));
  }
}

static void test_nonsense_from_a_driver_is_not_passed_on(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE("_strange"));
  attn_capability c[2];
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 2);
  assert_string_equal(c[0].name, "");
  assert_int_equal(c[0].compute_major, 13);
  assert_int_equal(c[0].bf16, ATTN_UNKNOWN);
  assert_non_null(strstr(c[0].notes, "13.0 is not known"));
  assert_int_equal(c[0].memory_total, 0);
  assert_int_equal(c[0].compute_units, 0);
  assert_true(c[0].clock_hz == 0 && c[0].bandwidth == 0);
  assert_non_null(strstr(c[1].notes, "cuDeviceGet failed"));
  assert_int_equal(c[1].compute_major, 0);
}

static void test_absent_and_failing_cuda_is_a_note(void **state) {
  (void)state;
  attn_capability c[2];
  hardware_drivers d = drivers(FAKE("_broken"));
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 0);
  assert_non_null(strstr(text, "cuda: the driver cannot start (code 999)"));
  text[0] = '\0';
  d = drivers(FAKE("_empty"));
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 0);
  assert_non_null(strstr(text, "cuda: the driver lacks cuInit"));
  text[0] = '\0';
  d = drivers("libno-such-driver.so.1");
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 0);
  assert_string_equal(text, "cuda: libno-such-driver.so.1 not found");
  text[0] = '\0';
  d.cuda[0] = NULL;
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 0);
  assert_string_equal(text, "cuda: not looked for");
}

static void test_without_nvml_and_cudnn_the_rest_stays(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE(""));
  d.nvml[0] = "libno-such-nvml.so.1";
  d.cudnn[1] = NULL;
  attn_capability c[2];
  assert_int_equal(hardware_cuda_detect(&d, c, 2, notes), 2);
  assert_string_equal(text, "nvml: libno-such-nvml.so.1 not found; "
                            "cudnn: libno-such-cudnn.so.9 not found");
  assert_int_equal(c[0].compute_units, 170);
  assert_int_equal(c[0].memory_available, 0);
  assert_non_null(strstr(c[0].notes, "free memory unreadable"));
  assert_int_equal(c[0].cudnn_version, 0);
}

/* ---- ROCm -------------------------------------------------------------------------------- */

static void amd_machine(void) {
  tree_write(&t, "/dev/kfd", "");
  tree_write(&t, "/sys/class/kfd/kfd/topology/nodes/0/properties",
             "cpu_cores_count 64\nsimd_count 0\ngfx_target_version 0\nlocation_id 0\ndomain 0\n");
  /* The same bus number in another domain first. */
  tree_write(&t, "/sys/class/kfd/kfd/topology/nodes/1/properties",
             "simd_count 4\nsimd_per_cu 2\ngfx_target_version 110000\nlocation_id 49408\n"
             "domain 0\ndrm_render_minor 130\n");
  tree_write(&t, "/sys/class/kfd/kfd/topology/nodes/2/properties",
             "simd_count 1216\nsimd_per_cu 4\ngfx_target_version 90402\nlocation_id 49408\n"
             "domain 1\ndrm_render_minor 128\n");
  tree_write(&t, "/sys/class/kfd/kfd/topology/nodes/3/properties",
             "simd_count 192\nsimd_per_cu 2\ngfx_target_version 110000\nlocation_id 768\n"
             "domain 0\ndrm_render_minor 129\n");
  tree_write(&t, "/sys/class/drm/renderD128/device/mem_info_vram_used", "2147483648\n");
}

static void test_rocm_devices_with_the_kernel_s_topology(void **state) {
  (void)state;
  amd_machine();
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[2];
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 2);
  assert_string_equal(text, "");
  assert_int_equal(c[0].device, ATTN_DEVICE_ROCM);
  assert_string_equal(c[0].name, "AMD Instinct MI300X");
  assert_string_equal(c[0].arch, "gfx942");
  assert_int_equal(c[0].compute_units, 304);
  assert_int_equal(c[0].memory_total, 192 * GB);
  assert_int_equal(c[0].memory_available, 190 * GB);
  assert_true(c[0].bandwidth == 2 * 2600e6 * 8192 / 8);
  assert_true(c[0].clock_hz == 2100e6);
  assert_int_equal(c[0].shared_memory_bytes, 65536);
  assert_int_equal(c[0].tensor_cores, ATTN_YES);
  assert_int_equal(c[0].f8, ATTN_YES);
  assert_int_equal(c[0].unified_memory, ATTN_NO);
  assert_int_equal(c[0].compute_major, 0);
  assert_true(c[0].peak_f16 == 1307e12);
  assert_non_null(strstr(c[0].notes, "peaks from profile mi300x"));

  assert_string_equal(c[1].arch, "gfx1100");
  assert_int_equal(c[1].compute_units, 96);
  assert_int_equal(c[1].f8, ATTN_NO);
  assert_int_equal(c[1].memory_available, 0);
  assert_true(c[1].peak_f16 == 0);
  assert_non_null(strstr(c[1].notes, "free memory unreadable"));
}

static void test_rocm_without_topology_or_functions(void **state) {
  (void)state;
  tree_write(&t, "/dev/kfd", "");
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[2];
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 2);
  assert_string_equal(c[0].arch, "");
  assert_int_equal(c[0].compute_units, 0);
  assert_int_equal(c[0].bf16, ATTN_UNKNOWN);
  assert_int_equal(c[0].memory_total, 192 * GB);
  assert_non_null(strstr(c[0].notes, "not in the kernel's topology"));
  d = drivers(FAKE("_poor"));
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 2);
  assert_string_equal(c[1].name, "");
  assert_int_equal(c[1].memory_total, 0);
  assert_true(c[1].bandwidth == 0);
}

static void test_absent_and_failing_rocm_is_a_note(void **state) {
  (void)state;
  attn_capability c[2];
  hardware_drivers d = drivers(FAKE(""));
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 0);
  assert_string_equal(text, "rocm: /dev/kfd not found");
  tree_write(&t, "/dev/kfd", "");
  text[0] = '\0';
  d = drivers(FAKE("_broken"));
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 0);
  assert_non_null(strstr(text, "rocm: the driver has no device (code 100)"));
  text[0] = '\0';
  d = drivers("libno-such-driver.so");
  assert_int_equal(hardware_rocm_detect(&d, c, 2, notes), 0);
  assert_non_null(strstr(text, "rocm: libno-such-hip.so not found"));
}

static void test_amd_architectures(void **state) {
  (void)state;
  const struct {
    const char *arch;
    attn_known matrix, bf16, f8;
  } rows[] = {
    { "gfx906", ATTN_NO, ATTN_NO, ATTN_NO },
    { "gfx908", ATTN_YES, ATTN_YES, ATTN_NO },
    { "gfx90a", ATTN_YES, ATTN_YES, ATTN_NO },
    { "gfx942", ATTN_YES, ATTN_YES, ATTN_YES },
    { "gfx950", ATTN_YES, ATTN_YES, ATTN_YES },
    { "gfx1030", ATTN_NO, ATTN_NO, ATTN_NO },
    { "gfx1100", ATTN_YES, ATTN_YES, ATTN_NO },
    { "gfx1201", ATTN_YES, ATTN_YES, ATTN_YES },
    { "gfx1300", ATTN_UNKNOWN, ATTN_UNKNOWN, ATTN_UNKNOWN },
    { "", ATTN_UNKNOWN, ATTN_UNKNOWN, ATTN_UNKNOWN },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    attn_capability c = { 0 };
    hardware_rocm_arch(rows[i].arch, &c);
    if (c.tensor_cores != rows[i].matrix || c.bf16 != rows[i].bf16 || c.f8 != rows[i].f8)
      fail_msg("%s", rows[i].arch);
  }
  for (int i = 0; i < attn_profile_count(); i++) {
    const attn_capability *p = attn_profile_get(i);
    if (p->device != ATTN_DEVICE_ROCM) continue;
    attn_capability c = { 0 };
    hardware_rocm_arch(p->arch, &c);
    assert_int_equal(c.tensor_cores, p->tensor_cores);
    assert_int_equal(c.bf16, p->bf16);
    assert_int_equal(c.f8, p->f8);
  }
}

/* ---- XPU --------------------------------------------------------------------------------- */

static void test_only_intel_s_gpus_are_xpu(void **state) {
  (void)state;
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[3];
  assert_int_equal(hardware_xpu_detect(&d, c, 3, notes), 0);
  assert_string_equal(text, "xpu: no Intel GPU found");
  tree_write(&t, "/sys/class/drm/renderD128/device/vendor", "0x1002\n");
  assert_int_equal(hardware_xpu_detect(&d, c, 3, notes), 0);
  tree_write(&t, "/sys/class/drm/renderD129/device/vendor", "0x8086\n");
  text[0] = '\0';
  assert_int_equal(hardware_xpu_detect(&d, c, 3, notes), 1);
  assert_string_equal(text, "");
  assert_int_equal(c[0].device, ATTN_DEVICE_XPU);
  assert_string_equal(c[0].name, "Intel(R) Arc(TM) A770 Graphics");
  assert_int_equal(c[0].compute_units, 32);
  assert_int_equal(c[0].memory_total, 16 * GB);
  assert_true(c[0].clock_hz == 2400e6 && c[0].bandwidth == 0);
  assert_int_equal(c[0].l2_bytes, 16 << 20);
  assert_int_equal(c[0].tensor_cores, ATTN_YES);
  assert_int_equal(c[0].unified_memory, ATTN_NO);
  text[0] = '\0';
  d = drivers(FAKE("_broken"));
  assert_int_equal(hardware_xpu_detect(&d, c, 3, notes), 0);
  assert_non_null(strstr(text, "xpu: OpenCL shows no Intel GPU"));
}

/* ---- All --------------------------------------------------------------------------------- */

static void test_all_kinds_follow_the_cpu(void **state) {
  (void)state;
  amd_machine();
  tree_write(&t, "/sys/class/drm/renderD131/device/vendor", "0x8086\n");
  hardware_drivers d = drivers(FAKE(""));
  attn_capability c[8];
  assert_int_equal(hardware_detect_with(&d, c, 8, notes), 6);
  const attn_device_type types[] = { ATTN_DEVICE_CPU,  ATTN_DEVICE_CUDA, ATTN_DEVICE_CUDA,
                                     ATTN_DEVICE_ROCM, ATTN_DEVICE_ROCM, ATTN_DEVICE_XPU };
  const int indices[] = { 0, 0, 1, 0, 1, 0 };
  for (int i = 0; i < 6; i++) {
    assert_int_equal(c[i].device, types[i]);
    assert_int_equal(c[i].device_index, indices[i]);
  }
  memset(c, 0x5a, sizeof c);
  assert_int_equal(hardware_detect_with(&d, c, 4, notes), 6);
  assert_int_equal(c[3].device, ATTN_DEVICE_ROCM);
  assert_int_equal(((unsigned char *)&c[4])[0], 0x5a);
  assert_int_equal(hardware_detect_with(&d, NULL, 0, notes), 6);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
int main(void) {
  const struct CMUnitTest tests[] = {
    TEST(test_cuda_devices_as_the_driver_tells_them),
    TEST(test_cuda_counts_beyond_the_capacity),
    TEST(test_nvml_is_left_as_it_was),
    TEST(test_a_missing_function_costs_its_fact_alone),
    TEST(test_nonsense_from_a_driver_is_not_passed_on),
    TEST(test_absent_and_failing_cuda_is_a_note),
    TEST(test_without_nvml_and_cudnn_the_rest_stays),
    TEST(test_rocm_devices_with_the_kernel_s_topology),
    TEST(test_rocm_without_topology_or_functions),
    TEST(test_absent_and_failing_rocm_is_a_note),
    TEST(test_amd_architectures),
    TEST(test_only_intel_s_gpus_are_xpu),
    TEST(test_all_kinds_follow_the_cpu),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
