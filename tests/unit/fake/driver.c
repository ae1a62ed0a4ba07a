// SPDX-License-Identifier: Apache-2.0
/*
 * A library with the functions that detection asks of drivers, built several times:
 *   fake_driver          two NVIDIA, two AMD, three OpenCL devices; everything works
 *   fake_driver_poor     lacks every function that a fact alone hangs on
 *   fake_driver_broken   initialisation fails, counting fails
 *   fake_driver_empty    has no function at all
 *   fake_driver_strange  devices that answer nonsense
 */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#if defined(FAKE_BROKEN)
enum { BROKEN = 1 };
#else
enum { BROKEN = 0 };
#endif
#if defined(FAKE_STRANGE)
enum { STRANGE = 1 };
#else
enum { STRANGE = 0 };
#endif

#define EXPORT __attribute__((visibility("default")))

#if !defined(FAKE_EMPTY)

/* ---- CUDA: an RTX 5090 and an H100. Handles are not ordinals. ------------------------------ */

EXPORT int cuInit(unsigned flags);
EXPORT int cuInit(unsigned flags) { return flags != 0 || BROKEN ? 999 : 0; }

EXPORT int cuDeviceGetCount(int *count);
EXPORT int cuDeviceGetCount(int *count) {
  *count = 2;
  return BROKEN ? 3 : 0;
}

EXPORT int cuDeviceGet(int *device, int ordinal);
EXPORT int cuDeviceGet(int *device, int ordinal) {
  *device = ordinal + 70;
  return ordinal < 0 || ordinal > 1 || (STRANGE && ordinal == 1) ? 101 : 0;
}

#if !defined(FAKE_POOR)
EXPORT int cuDeviceGetName(char *name, int length, int device);
EXPORT int cuDeviceGetName(char *name, int length, int device) {
  if (device != 70 && device != 71) return 101;
  if (STRANGE) {
    memset(name, '\n', (size_t)length); /* no end */
    return 0;
  }
  snprintf(name, (size_t)length, "%s",
           device == 70 ? "NVIDIA GeForce RTX 5090" : "NVIDIA H100 80GB HBM3");
  return 0;
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  static const int rows[][3] = {
    { 13, 2407000, 1980000 },
    { 16, 170, 132 },
    { 18, 0, 0 },
    { 36, 14001000, 2619000 },
    { 37, 512, 5120 },
    { 38, 100663296, 52428800 },
    { 75, 12, 9 },
    { 76, 0, 0 },
    { 81, 102400, 233472 },
  };
  if (device != 70 && device != 71) return 101;
  if (STRANGE) {
    *value = attribute == 75 ? 13 : -7;
    return 0;
  }
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i][0] == attribute) {
      *value = rows[i][1 + device - 70];
      return 0;
    }
  return 1;
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device);
EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device) {
  *bytes = STRANGE ? SIZE_MAX : device == 70 ? (size_t)32 << 30 : (size_t)80 << 30;
  return 0;
}

EXPORT int cuDeviceGetPCIBusId(char *id, int length, int device);
EXPORT int cuDeviceGetPCIBusId(char *id, int length, int device) {
  snprintf(id, (size_t)length, "0000:%02x:00.0", device);
  return 0;
}
#endif

/* ---- NVML -------------------------------------------------------------------------------- */

static int nvml_users;
EXPORT int fake_nvml_users(void);
EXPORT int fake_nvml_users(void) { return nvml_users; }

EXPORT int nvmlInit_v2(void);
EXPORT int nvmlInit_v2(void) {
  nvml_users += !BROKEN;
  return BROKEN ? 9 : 0;
}

EXPORT int nvmlShutdown(void);
EXPORT int nvmlShutdown(void) {
  nvml_users--;
  return 0;
}

EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device);
EXPORT int nvmlDeviceGetHandleByPciBusId_v2(const char *id, void **device) {
  *device = (void *)(uintptr_t)(strcmp(id, "0000:46:00.0") == 0 ? 1 : 2);
  return 0;
}

#if !defined(FAKE_POOR)
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory);
EXPORT int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
  uintptr_t which = (uintptr_t)device;
  /* The H100's card is larger than what CUDA shows: a partition of it. */
  memory[0] = which == 1 ? 32ull << 30 : 800ull << 30;
  memory[1] = which == 1 ? 30ull << 30 : 700ull << 30;
  memory[2] = memory[0] - memory[1];
  return 0;
}
#endif

EXPORT size_t cudnnGetVersion(void);
EXPORT size_t cudnnGetVersion(void) { return 90501; }

/* ---- HIP: an MI300X and a Radeon ----------------------------------------------------------- */

EXPORT int hipGetDeviceCount(int *count);
EXPORT int hipGetDeviceCount(int *count) {
  *count = 2;
  return BROKEN ? 100 : 0;
}

#if !defined(FAKE_POOR)
EXPORT int hipDeviceGetName(char *name, int length, int device);
EXPORT int hipDeviceGetName(char *name, int length, int device) {
  snprintf(name, (size_t)length, "%s", device == 0 ? "AMD Instinct MI300X" : "AMD Radeon");
  return 0;
}

EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device);
EXPORT int hipDeviceGetAttribute(int *value, int attribute, int device) {
  static const int rows[][3] = {
    { 5, 2100000, 2500000 },  { 16, 0, 1 },    { 19, 4194304, 6291456 }, { 59, 8192, 384 },
    { 60, 2600000, 1250000 }, { 63, 304, 48 }, { 10002, 65536, 65536 },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
    if (rows[i][0] == attribute) {
      *value = rows[i][1 + device];
      return 0;
    }
  return 1;
}

EXPORT int hipDeviceTotalMem(size_t *bytes, int device);
EXPORT int hipDeviceTotalMem(size_t *bytes, int device) {
  *bytes = device == 0 ? (size_t)192 << 30 : (size_t)24 << 30;
  return 0;
}

EXPORT int hipDeviceGetPCIBusId(char *id, int length, int device);
EXPORT int hipDeviceGetPCIBusId(char *id, int length, int device) {
  snprintf(id, (size_t)length, "%s", device == 0 ? "0001:c1:00.0" : "0000:03:00.0");
  return 0;
}
#endif

/* ---- OpenCL: a CPU and another maker's GPU on one platform, an Intel GPU on the next ----------
 */

EXPORT int clGetPlatformIDs(uint32_t capacity, void **platforms, uint32_t *count);
EXPORT int clGetPlatformIDs(uint32_t capacity, void **platforms, uint32_t *count) {
  for (uint32_t i = 0; i < 2 && i < capacity; i++) platforms[i] = (void *)(uintptr_t)(i + 1);
  *count = 2;
  return BROKEN ? -1001 : 0;
}

EXPORT int clGetDeviceIDs(void *platform, uint64_t type, uint32_t capacity, void **devices,
                          uint32_t *count);
EXPORT int clGetDeviceIDs(void *platform, uint64_t type, uint32_t capacity, void **devices,
                          uint32_t *count) {
  *count = 1;
  if (capacity < 1) return -30;
  /* Devices: 1 a CPU, 2 another maker's GPU, 3 the Intel GPU. */
  devices[0] = (void *)(uintptr_t)((uintptr_t)platform == 2 ? 3 : (type & 4) ? 2 : 1);
  return 0;
}

EXPORT int clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, size_t *written);
EXPORT int clGetDeviceInfo(void *device, uint32_t what, size_t size, void *value, size_t *written) {
  uint32_t word = 0;
  uint64_t wide = 0;
  const char *text = NULL;
  switch (what) {
  case 0x1001:
    word = (uintptr_t)device == 3 ? 0x8086 : 0x10de;
    break;
  case 0x100C:
    word = 2400;
    break;
  case 0x101E:
    wide = 16 << 20;
    break;
  case 0x101F:
    wide = 16ull << 30;
    break;
  case 0x102B:
    text = "Intel(R) Arc(TM) A770 Graphics";
    break;
  case 0x1030:
    text = "cl_khr_fp16 cl_intel_subgroup_matrix_multiply_accumulate";
    break;
  case 0x1035:
    word = 0;
    break;
  case 0x4252:
    word = 8;
    break;
  case 0x4253:
    word = 4;
    break;
  default:
    return -30;
  }
  const void *from = text ? (const void *)text : wide ? (const void *)&wide : (const void *)&word;
  size_t bytes = text ? strlen(text) + 1 : wide ? sizeof wide : sizeof word;
  if (size < bytes) return -30;
  memcpy(value, from, bytes);
  *written = bytes;
  return 0;
}
#endif
