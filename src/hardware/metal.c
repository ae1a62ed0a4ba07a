// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

/* Apple's GPUs are told by Objective-C alone, which this library does not use. */
int hardware_metal_detect(const hardware_drivers *drivers, attn_capability *devices, int capacity,
                          hardware_notes notes) {
  (void)drivers, (void)devices, (void)capacity;
#if defined(__APPLE__)
  hardware_note(notes, "metal: not available in this build");
#else
  hardware_note(notes, "metal: not on this system");
#endif
  return 0;
}
