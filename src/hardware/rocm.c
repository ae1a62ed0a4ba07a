// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

int hardware_rocm_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                         hardware_notes notes) {
  (void)drivers, (void)devices, (void)capacity;
  hardware_note(notes, "rocm: not looked for in this build");
  return 0;
}
