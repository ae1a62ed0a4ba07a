// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <dlfcn.h>
#include <string.h>

const hardware_drivers *hardware_drivers_default(void) {
  static const hardware_drivers drivers = {
    .root = "",
    .cuda = { "libcuda.so.1" },
    .nvml = { "libnvidia-ml.so.1" },
    .cudnn = { "libcudnn.so.9", "libcudnn.so.8" },
    /* The name without a number belongs to the development package. */
    .hip = { "libamdhip64.so", "libamdhip64.so.7", "libamdhip64.so.6", "libamdhip64.so.5" },
    .opencl = { "libOpenCL.so.1" },
  };
  return &drivers;
}

void *hardware_library_open(const char *kind, const char *const *names, hardware_notes notes) {
  if (!names[0]) {
    hardware_note(notes, "%s: not looked for", kind);
    return NULL;
  }
  for (int i = 0; names[i]; i++) {
    void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    if (library) return library;
  }
  hardware_note(notes, "%s: %s not found", kind, names[0]);
  return NULL;
}

bool hardware_library_load(const char *kind, void *library, const hardware_symbol *symbols,
                           int count, hardware_notes notes) {
  bool complete = true;
  for (int i = 0; i < count; i++) {
    void *function = dlsym(library, symbols[i].name);
    memcpy(symbols[i].address, &function, sizeof function);
    if (function || !symbols[i].needed) continue;
    hardware_note(notes, "%s: the driver lacks %s", kind, symbols[i].name);
    complete = false;
  }
  return complete;
}

void hardware_peaks_from_profile(attn_capability *device) {
  const attn_capability *profile = hardware_profile_of_device(
      device->name, device->compute_major, device->compute_minor, device->compute_units);
  if (!profile) {
    hardware_note(hardware_notes_of(device), "peaks unknown: the driver does not tell, and no "
                                             "profile is of this device");
    return;
  }
  device->peak_f32 = profile->peak_f32;
  device->peak_f16 = profile->peak_f16;
  device->peak_bf16 = profile->peak_bf16;
  device->peak_f8 = profile->peak_f8;
  hardware_note(hardware_notes_of(device), "peaks from profile %s", profile->name);
}
