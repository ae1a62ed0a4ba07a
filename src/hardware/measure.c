// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include "core/status.h"

attn_status attn_hardware_measure(attn_capability *cpu) {
  if (!cpu) return core_fail(ATTN_ERROR_NULL, "cpu is NULL");
  return core_fail(ATTN_ERROR_UNSUPPORTED, "this build cannot measure");
}
