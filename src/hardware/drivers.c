// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <dlfcn.h>

const hardware_drivers *hardware_drivers_default(void) {
  static const hardware_drivers drivers = {
    .root = "",
    .cuda = "libcuda.so.1",
    .nvml = "libnvidia-ml.so.1",
    .cudnn = { "libcudnn.so.9", "libcudnn.so.8" },
    .hip = "libamdhip64.so",
    .opencl = "libOpenCL.so.1",
  };
  return &drivers;
}

void *hardware_library_open(const char *kind, const char *name, hardware_notes notes) {
  if (!name) {
    hardware_note(notes, "%s: not looked for", kind);
    return NULL;
  }
  void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
  if (!library) hardware_note(notes, "%s: %s not found", kind, name);
  return library;
}
