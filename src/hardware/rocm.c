// SPDX-License-Identifier: Apache-2.0
/* AMD devices: HIP says which a process sees, in what order; the kernel's topology (KFD) says the
 * rest. hipGetDeviceProperties is not used: its structure differs between versions. */
#include "hardware/internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* hip_runtime_api.h, hipDeviceAttribute_t; the numbers are stable since ROCm 4.5. */
enum {
  ATTRIBUTE_CLOCK_RATE = 5, /* kHz */
  ATTRIBUTE_INTEGRATED = 16,
  ATTRIBUTE_L2_CACHE_SIZE = 19,
  ATTRIBUTE_MEMORY_BUS_WIDTH = 59,  /* bits */
  ATTRIBUTE_MEMORY_CLOCK_RATE = 60, /* kHz */
  ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR = 10002
};
enum { MAX_DEVICES = 1024, MAX_NODES = 256 };

typedef struct hip_api {
  int (*count)(int *count);
  int (*name)(char *name, int length, int device);
  int (*attribute)(int *value, int attribute, int device);
  int (*total)(size_t *bytes, int device);
  int (*bus_id)(char *id, int length, int device);
} hip_api;

static bool load_hip(const hardware_drivers *drivers, hip_api *api, hardware_notes notes) {
  void *library = hardware_library_open("rocm", drivers->hip, notes);
  if (!library) return false;
  const hardware_symbol symbols[] = {
    { "hipGetDeviceCount", &api->count, true },
    { "hipDeviceGetName", &api->name, false },
    { "hipDeviceGetAttribute", &api->attribute, false },
    { "hipDeviceTotalMem", &api->total, false },
    { "hipDeviceGetPCIBusId", &api->bus_id, false },
  };
  return hardware_library_load("rocm", library, symbols, sizeof symbols / sizeof symbols[0], notes);
}

static int attribute(const hip_api *api, int which, int device) {
  int value = 0;
  if (!api->attribute || api->attribute(&value, which, device) != 0 || value < 0) return 0;
  return value;
}

void hardware_rocm_arch(const char *arch, attn_capability *c) {
  /* AMD matrix cores (CDNA: MFMA; RDNA 3 and 4: WMMA); f8 from gfx942 on, and on gfx12. */
  static const struct {
    const char *prefix;
    bool matrix, bf16, f8;
  } rows[] = {
    { "gfx908", true, true, false }, { "gfx90a", true, true, false },
    { "gfx94", true, true, true },   { "gfx95", true, true, true },
    { "gfx11", true, true, false },  { "gfx12", true, true, true },
    { "gfx9", false, false, false }, { "gfx10", false, false, false },
  };
  for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
    if (strncmp(arch, rows[i].prefix, strlen(rows[i].prefix)) != 0) continue;
    c->tensor_cores = rows[i].matrix ? ATTN_YES : ATTN_NO;
    c->bf16 = rows[i].bf16 ? ATTN_YES : ATTN_NO;
    c->f8 = rows[i].f8 ? ATTN_YES : ATTN_NO;
    c->f16 = ATTN_YES;
    return;
  }
}

/* Linux, drivers/gpu/drm/amd/amdkfd/kfd_topology.c: "key number" lines. -1: not there. */
static int64_t property(const char *text, const char *key) {
  size_t length = strlen(key);
  for (const char *line = text; line && *line; line = strchr(line, '\n')) {
    if (*line == '\n') line++;
    if (strncmp(line, key, length) == 0 && line[length] == ' ') {
      errno = 0;
      long long value = strtoll(line + length + 1, NULL, 10);
      return errno || value < 0 ? -1 : value;
    }
  }
  return -1;
}

/* The node at PCI address domain:bus:device.function; false if none says it is there. */
static bool find_node(const char *root, const char *bus_id, char *text, size_t size) {
  unsigned domain, bus, device, function = 0;
  if (sscanf(bus_id, "%x:%x:%x.%x", &domain, &bus, &device, &function) < 3) return false;
  int64_t location = (int64_t)(bus << 8 | device << 3 | function);
  for (int node = 0; node < MAX_NODES; node++) {
    char path[HARDWARE_PATH];
    hardware_path(path, sizeof path, "/sys/class/kfd/kfd/topology/nodes/%d/properties", node);
    if (hardware_file_read(root, path, text, size) < 0) return false;
    int64_t at = property(text, "domain");
    if (property(text, "gfx_target_version") > 0 && property(text, "location_id") == location &&
        (at < 0 || at == domain))
      return true;
  }
  return false;
}

static void read_node(const char *root, const char *text, attn_capability *c) {
  int64_t version = property(text, "gfx_target_version");
  int64_t simds = property(text, "simd_count"), simds_per_unit = property(text, "simd_per_cu");
  int64_t minor = property(text, "drm_render_minor");
  /* 90010 is gfx90a: two decimal digits each for minor and stepping, written in hexadecimal. */
  snprintf(c->arch, sizeof c->arch, "gfx%d%x%x", (int)(version / 10000 % 1000),
           (unsigned)(version / 100 % 100), (unsigned)(version % 100));
  hardware_rocm_arch(c->arch, c);
  if (simds > 0 && simds_per_unit > 0 && simds / simds_per_unit < 1 << 20)
    c->compute_units = (int)(simds / simds_per_unit);
  char path[HARDWARE_PATH];
  hardware_path(path, sizeof path, "/sys/class/drm/renderD%d/device/mem_info_vram_used",
                (int)(minor >= 0 && minor < 4096 ? minor : 4096));
  int64_t used = hardware_file_number(root, path);
  if (used >= 0 && c->memory_total > used) c->memory_available = c->memory_total - used;
}

static void read_device(const hardware_drivers *drivers, const hip_api *api, int index,
                        attn_capability *out) {
  attn_capability c = { .device = ATTN_DEVICE_ROCM,
                        .source = ATTN_SOURCE_DETECTED,
                        .device_index = index };
  hardware_notes notes = hardware_notes_of(&c);
  char name[256] = "", id[64] = "", node[8192];
  if (api->name && api->name(name, sizeof name, index) == 0) {
    name[sizeof name - 1] = '\0';
    hardware_text_copy(c.name, sizeof c.name, name);
  } else {
    hardware_note(notes, "name unreadable");
  }
  size_t total = 0;
  if (api->total && api->total(&total, index) == 0 && total <= INT64_MAX)
    c.memory_total = (int64_t)total;
  else
    hardware_note(notes, "memory size unreadable");
  c.clock_hz = 1e3 * attribute(api, ATTRIBUTE_CLOCK_RATE, index);
  c.l2_bytes = attribute(api, ATTRIBUTE_L2_CACHE_SIZE, index);
  c.shared_memory_bytes = attribute(api, ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR, index);
  int integrated = 0;
  if (api->attribute && api->attribute(&integrated, ATTRIBUTE_INTEGRATED, index) == 0)
    c.unified_memory = integrated ? ATTN_YES : ATTN_NO;
  if (!api->attribute) hardware_note(notes, "the driver lacks hipDeviceGetAttribute");
  double clock = 1e3 * attribute(api, ATTRIBUTE_MEMORY_CLOCK_RATE, index);
  c.bandwidth = 2 * clock * attribute(api, ATTRIBUTE_MEMORY_BUS_WIDTH, index) / 8;
  if (c.bandwidth <= 0) hardware_note(notes, "memory clock or bus width unreadable");
  if (api->bus_id && api->bus_id(id, sizeof id, index) == 0 &&
      find_node(drivers->root, id, node, sizeof node))
    read_node(drivers->root, node, &c);
  else
    hardware_note(notes, "not in the kernel's topology: architecture and units unreadable");
  if (c.memory_available == 0) hardware_note(notes, "free memory unreadable without a context");
  hardware_peaks_from_profile(&c);
  *out = c;
}

int hardware_rocm_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes) {
  char path[2 * HARDWARE_PATH];
  hip_api api = { 0 };
  int count = 0;
  /* Loading HIP is slow and starts threads; without the kernel's driver it finds nothing. */
  if (!hardware_path(path, sizeof path, "%s/dev/kfd", drivers->root) || access(path, F_OK) != 0) {
    hardware_note(notes, "rocm: /dev/kfd not found");
    return 0;
  }
  if (!load_hip(drivers, &api, notes)) return 0;
  int error = api.count(&count);
  if (error != 0 || count <= 0 || count > MAX_DEVICES) {
    hardware_note(notes, "rocm: the driver has no device (code %d)", error);
    return 0;
  }
  for (int i = 0; i < count && i < capacity; i++) read_device(drivers, &api, i, &devices[i]);
  return count;
}
