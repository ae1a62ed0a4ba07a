// SPDX-License-Identifier: Apache-2.0
/* Intel GPUs, through OpenCL. */
#include "hardware/internal.h"

#include <stdlib.h>
#include <string.h>

/* CL/cl.h and CL/cl_ext.h (cl_intel_device_attribute_query). */
enum {
  DEVICE_TYPE_GPU = 1 << 2,
  DEVICE_VENDOR_ID = 0x1001,
  DEVICE_MAX_CLOCK_FREQUENCY = 0x100C, /* MHz */
  DEVICE_GLOBAL_MEM_CACHE_SIZE = 0x101E,
  DEVICE_GLOBAL_MEM_SIZE = 0x101F,
  DEVICE_NAME = 0x102B,
  DEVICE_EXTENSIONS = 0x1030,
  DEVICE_HOST_UNIFIED_MEMORY = 0x1035,
  DEVICE_NUM_SLICES_INTEL = 0x4252,
  DEVICE_NUM_SUB_SLICES_PER_SLICE_INTEL = 0x4253
};
enum { VENDOR_INTEL = 0x8086, MAX_PLATFORMS = 32, MAX_PER_PLATFORM = 64 };

typedef struct cl_api {
  int (*platforms)(uint32_t capacity, void **platforms, uint32_t *count);
  int (*devices)(void *platform, uint64_t type, uint32_t capacity, void **devices, uint32_t *count);
  int (*info)(void *device, uint32_t what, size_t size, void *value, size_t *written);
} cl_api;

/* Opening OpenCL loads every vendor's driver, some with a compiler; not without a reason. */
static bool has_intel_gpu(const char *root) {
  for (int minor = 128; minor < 192; minor++) {
    char path[HARDWARE_PATH], text[32];
    hardware_path(path, sizeof path, "/sys/class/drm/renderD%d/device/vendor", minor);
    if (hardware_file_read(root, path, text, sizeof text) > 0 &&
        strtoul(text, NULL, 16) == VENDOR_INTEL)
      return true;
  }
  return false;
}

static uint32_t info32(const cl_api *api, void *device, uint32_t what) {
  uint32_t value = 0;
  size_t written = 0;
  int error = api->info(device, what, sizeof value, &value, &written);
  return error == 0 && written == sizeof value ? value : 0;
}

static int64_t info64(const cl_api *api, void *device, uint32_t what) {
  uint64_t value = 0;
  size_t written = 0;
  int error = api->info(device, what, sizeof value, &value, &written);
  return error == 0 && written == sizeof value && value <= INT64_MAX ? (int64_t)value : 0;
}

static void read_device(const cl_api *api, void *device, int index, attn_capability *out) {
  attn_capability c = { .device = ATTN_DEVICE_XPU,
                        .source = ATTN_SOURCE_DETECTED,
                        .device_index = index };
  hardware_notes notes = hardware_notes_of(&c);
  char name[256] = "", extensions[16384] = "";
  size_t written;
  if (api->info(device, DEVICE_NAME, sizeof name - 1, name, &written) == 0)
    hardware_text_copy(c.name, sizeof c.name, name);
  else
    hardware_note(notes, "name unreadable");
  c.memory_total = info64(api, device, DEVICE_GLOBAL_MEM_SIZE);
  c.l2_bytes = info64(api, device, DEVICE_GLOBAL_MEM_CACHE_SIZE);
  c.clock_hz = 1e6 * info32(api, device, DEVICE_MAX_CLOCK_FREQUENCY);
  uint32_t slices = info32(api, device, DEVICE_NUM_SLICES_INTEL);
  uint32_t units = info32(api, device, DEVICE_NUM_SUB_SLICES_PER_SLICE_INTEL);
  if (slices > 0 && units > 0 && slices < 4096 && units < 4096)
    c.compute_units = (int)(slices * units);
  else
    hardware_note(notes, "number of cores unreadable");
  if (api->info(device, DEVICE_EXTENSIONS, sizeof extensions - 1, extensions, &written) == 0) {
    /* The matrix extension's operations take f16 and bf16. */
    bool matrix = strstr(extensions, "cl_intel_subgroup_matrix_multiply_accumulate") != NULL;
    c.f16 = strstr(extensions, "cl_khr_fp16") ? ATTN_YES : ATTN_NO;
    c.tensor_cores = matrix ? ATTN_YES : ATTN_NO;
    if (matrix) c.bf16 = ATTN_YES;
  }
  uint32_t unified = 0;
  if (api->info(device, DEVICE_HOST_UNIFIED_MEMORY, sizeof unified, &unified, &written) == 0)
    c.unified_memory = unified ? ATTN_YES : ATTN_NO;
  hardware_note(notes, "free memory and bandwidth unreadable through OpenCL");
  hardware_peaks_from_profile(&c);
  *out = c;
}

int hardware_xpu_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                        hardware_notes notes) {
  if (!has_intel_gpu(drivers->root)) {
    hardware_note(notes, "xpu: no Intel GPU found");
    return 0;
  }
  cl_api api = { 0 };
  void *library = hardware_library_open("xpu", drivers->opencl, notes);
  const hardware_symbol symbols[] = {
    { "clGetPlatformIDs", &api.platforms, true },
    { "clGetDeviceIDs", &api.devices, true },
    { "clGetDeviceInfo", &api.info, true },
  };
  if (!library ||
      !hardware_library_load("xpu", library, symbols, sizeof symbols / sizeof symbols[0], notes))
    return 0;
  void *platforms[MAX_PLATFORMS], *found[MAX_PER_PLATFORM];
  uint32_t platform_count = 0;
  int count = 0;
  if (api.platforms(MAX_PLATFORMS, platforms, &platform_count) != 0) platform_count = 0;
  for (uint32_t p = 0; p < platform_count && p < MAX_PLATFORMS; p++) {
    uint32_t n = 0;
    if (api.devices(platforms[p], DEVICE_TYPE_GPU, MAX_PER_PLATFORM, found, &n) != 0) continue;
    for (uint32_t i = 0; i < n && i < MAX_PER_PLATFORM; i++) {
      if (info32(&api, found[i], DEVICE_VENDOR_ID) != VENDOR_INTEL) continue;
      if (count < capacity) read_device(&api, found[i], count, &devices[count]);
      count++;
    }
  }
  if (count == 0) hardware_note(notes, "xpu: OpenCL shows no Intel GPU");
  return count;
}
