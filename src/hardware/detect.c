// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <string.h>

int hardware_detect_with(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes) {
  static int (*const kinds[])(const hardware_drivers *, attn_capability *, int, hardware_notes) = {
    hardware_cuda_detect,
    hardware_rocm_detect,
    hardware_metal_detect,
    hardware_xpu_detect,
  };
  if (!devices || capacity < 0) capacity = 0;
  int count = 1;
  if (capacity > 0) hardware_cpu_detect(&devices[0]);
  for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
    int room = capacity > count ? capacity - count : 0;
    count += kinds[i](drivers, room ? devices + count : NULL, room, notes);
  }
  return count;
}

int attn_hardware_detect(attn_capability *devices, int capacity, char *notes, size_t notes_size) {
  if (notes && notes_size > 0) notes[0] = '\0';
  return hardware_detect_with(hardware_drivers_default(), devices, capacity,
                              (hardware_notes){ notes, notes_size });
}
