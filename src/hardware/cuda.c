// SPDX-License-Identifier: Apache-2.0
/* NVIDIA devices as the driver tells them. No context is made on a device. */
#include "hardware/internal.h"

#include <string.h>

#include "core/size.h"

/* cuda.h, CUdevice_attribute. */
enum {
  ATTRIBUTE_CLOCK_RATE = 13, /* kHz */
  ATTRIBUTE_MULTIPROCESSOR_COUNT = 16,
  ATTRIBUTE_INTEGRATED = 18,
  ATTRIBUTE_MEMORY_CLOCK_RATE = 36,       /* kHz */
  ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH = 37, /* bits */
  ATTRIBUTE_L2_CACHE_SIZE = 38,
  ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR = 75,
  ATTRIBUTE_COMPUTE_CAPABILITY_MINOR = 76,
  ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 81
};
enum { ERROR_NO_DEVICE = 100, MAX_DEVICES = 1024 };

typedef struct cuda_api {
  int (*init)(unsigned flags);
  int (*count)(int *count);
  int (*get)(int *device, int ordinal);
  int (*name)(char *name, int length, int device);
  int (*attribute)(int *value, int attribute, int device);
  int (*total)(size_t *bytes, int device);
  int (*bus_id)(char *id, int length, int device);
} cuda_api;

/* nvml.h, nvmlMemory_t. */
typedef struct nvml_memory {
  unsigned long long total, free, used;
} nvml_memory;

typedef struct nvml_api {
  int (*init)(void);
  int (*shutdown)(void);
  int (*by_bus_id)(const char *id, void **device);
  int (*memory)(void *device, nvml_memory *memory);
  bool ready;
} nvml_api;

static bool load_cuda(const hardware_drivers *drivers, cuda_api *api, hardware_notes notes) {
  void *library = hardware_library_open("cuda", drivers->cuda, notes);
  if (!library) return false;
  const hardware_symbol symbols[] = {
    { "cuInit", &api->init, true },
    { "cuDeviceGetCount", &api->count, true },
    { "cuDeviceGet", &api->get, true },
    { "cuDeviceGetName", &api->name, false },
    { "cuDeviceGetAttribute", &api->attribute, false },
    { "cuDeviceTotalMem_v2", &api->total, false },
    { "cuDeviceGetPCIBusId", &api->bus_id, false },
  };
  return hardware_library_load("cuda", library, symbols, sizeof symbols / sizeof symbols[0], notes);
}

static void load_nvml(const hardware_drivers *drivers, nvml_api *api, hardware_notes notes) {
  *api = (nvml_api){ 0 };
  void *library = hardware_library_open("nvml", drivers->nvml, notes);
  if (!library) return;
  const hardware_symbol symbols[] = {
    { "nvmlInit_v2", &api->init, true },
    { "nvmlShutdown", &api->shutdown, true },
    { "nvmlDeviceGetHandleByPciBusId_v2", &api->by_bus_id, true },
    { "nvmlDeviceGetMemoryInfo", &api->memory, true },
  };
  if (!hardware_library_load("nvml", library, symbols, sizeof symbols / sizeof symbols[0], notes))
    return;
  int error = api->init();
  if (error) hardware_note(notes, "nvml: nvmlInit_v2 failed with code %d", error);
  api->ready = error == 0;
}

static int attribute(const cuda_api *api, int which, int device) {
  int value = 0;
  if (!api->attribute || api->attribute(&value, which, device) != 0 || value < 0) return 0;
  return value;
}

static void read_compute(const cuda_api *api, int device, attn_capability *c) {
  hardware_notes notes = hardware_notes_of(c);
  int major = attribute(api, ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device);
  int minor = attribute(api, ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, device);
  attn_capability facts;
  c->compute_major = major;
  c->compute_minor = minor;
  if (major == 0) {
    hardware_note(notes, "compute capability unreadable");
  } else if (hardware_compute_facts(major, minor, &facts)) {
    memcpy(c->arch, facts.arch, sizeof c->arch);
    c->tensor_cores = facts.tensor_cores;
    c->f16 = facts.f16;
    c->bf16 = facts.bf16;
    c->f8 = facts.f8;
    if (facts.notes[0]) hardware_note(notes, "%s", facts.notes);
  } else {
    hardware_note(notes, "compute capability %d.%d is not known to this library", major, minor);
  }
}

static void read_memory(const cuda_api *api, const nvml_api *nvml, int device, attn_capability *c) {
  hardware_notes notes = hardware_notes_of(c);
  size_t total = 0;
  if (api->total && api->total(&total, device) == 0 && total <= INT64_MAX)
    c->memory_total = (int64_t)total;
  else
    hardware_note(notes, "memory size unreadable");
  /* Double data rate: two transfers a clock (CUDA samples, deviceQuery and bandwidthTest). */
  double clock = 1e3 * attribute(api, ATTRIBUTE_MEMORY_CLOCK_RATE, device);
  c->bandwidth = 2 * clock * attribute(api, ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH, device) / 8;
  if (c->bandwidth <= 0) hardware_note(notes, "memory clock or bus width unreadable");

  char id[32] = "";
  void *handle;
  nvml_memory memory = { 0 };
  if (!nvml->ready || !api->bus_id || api->bus_id(id, sizeof id, device) != 0 ||
      nvml->by_bus_id(id, &handle) != 0 || nvml->memory(handle, &memory) != 0) {
    hardware_note(notes, "free memory unreadable without a context");
  } else if (c->memory_total > 0 && memory.total / 2 > (unsigned long long)c->memory_total) {
    /* A partition (MIG): what NVML tells is the whole card's. */
    hardware_note(notes, "free memory of a partition unreadable");
  } else if (memory.free <= INT64_MAX) {
    c->memory_available = (int64_t)memory.free;
    if (c->memory_total > 0) c->memory_available = size_min(c->memory_available, c->memory_total);
  }
}

static void read_device(const cuda_api *api, const nvml_api *nvml, int ordinal,
                        attn_capability *out) {
  attn_capability c = { .device = ATTN_DEVICE_CUDA,
                        .source = ATTN_SOURCE_DETECTED,
                        .device_index = ordinal };
  hardware_notes notes = hardware_notes_of(&c);
  int device;
  if (api->get(&device, ordinal) != 0) {
    hardware_note(notes, "cuDeviceGet failed");
    *out = c;
    return;
  }
  char name[256] = "";
  if (api->name && api->name(name, sizeof name, device) == 0) {
    name[sizeof name - 1] = '\0';
    hardware_text_copy(c.name, sizeof c.name, name);
  } else {
    hardware_note(notes, "name unreadable");
  }
  read_compute(api, device, &c);
  c.compute_units = attribute(api, ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  c.clock_hz = 1e3 * attribute(api, ATTRIBUTE_CLOCK_RATE, device);
  c.l2_bytes = attribute(api, ATTRIBUTE_L2_CACHE_SIZE, device);
  c.shared_memory_bytes = attribute(api, ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, device);
  int integrated = 0;
  if (api->attribute && api->attribute(&integrated, ATTRIBUTE_INTEGRATED, device) == 0)
    c.unified_memory = integrated ? ATTN_YES : ATTN_NO;
  if (!api->attribute) hardware_note(notes, "the driver lacks cuDeviceGetAttribute");
  read_memory(api, nvml, device, &c);
  hardware_peaks_from_profile(&c);
  *out = c;
}

static int cudnn_version(const hardware_drivers *drivers, hardware_notes notes) {
  size_t (*version)(void) = NULL;
  void *library = hardware_library_open("cudnn", drivers->cudnn, notes);
  const hardware_symbol symbol = { "cudnnGetVersion", &version, true };
  if (!library || !hardware_library_load("cudnn", library, &symbol, 1, notes)) return 0;
  size_t value = version();
  return value <= INT32_MAX ? (int)value : 0;
}

int hardware_cuda_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes) {
  cuda_api api = { 0 };
  int count = 0;
  if (!load_cuda(drivers, &api, notes)) return 0;
  int error = api.init(0);
  if (error == 0) error = api.count(&count);
  if (error != 0 && error != ERROR_NO_DEVICE) {
    hardware_note(notes, "cuda: the driver cannot start (code %d)", error);
    return 0;
  }
  if (error != 0 || count <= 0 || count > MAX_DEVICES) {
    hardware_note(notes, "cuda: the driver has no device");
    return 0;
  }
  if (capacity <= 0) return count;
  nvml_api nvml;
  load_nvml(drivers, &nvml, notes);
  int cudnn = cudnn_version(drivers, notes);
  for (int i = 0; i < count && i < capacity; i++) {
    read_device(&api, &nvml, i, &devices[i]);
    devices[i].cudnn_version = cudnn;
  }
  if (nvml.ready) nvml.shutdown();
  return count;
}
