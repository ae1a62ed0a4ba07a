// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <stdio.h>

#include "core/status.h"

/* Released CUDA compute capabilities. Shared memory per SM: CUDA C++ Programming Guide, "Technical
 * specifications per compute capability". 10.1 is the number that 11.0 had before CUDA 13. */
static const struct compute_row {
  int major, minor;
  const char *arch;
  int shared_kb;
  const char *note;
} computes[] = {
  { 5, 0, "Maxwell", 64, NULL },
  { 5, 2, "Maxwell", 96, NULL },
  { 5, 3, "Maxwell", 64, NULL },
  { 6, 0, "Pascal", 64, NULL },
  { 6, 1, "Pascal", 96, "f16 arithmetic runs at 1/64 of the f32 rate" },
  { 6, 2, "Pascal", 64, NULL },
  { 7, 0, "Volta", 96, NULL },
  { 7, 2, "Volta", 96, NULL },
  { 7, 5, "Turing", 64, "GTX 16 cards run matrix instructions without matrix units" },
  { 8, 0, "Ampere", 164, NULL },
  { 8, 6, "Ampere", 100, NULL },
  { 8, 7, "Ampere", 164, NULL },
  { 8, 9, "Ada", 100, NULL },
  { 9, 0, "Hopper", 228, NULL },
  { 10, 0, "Blackwell", 228, NULL },
  { 10, 1, "Blackwell", 228, NULL },
  { 10, 3, "Blackwell", 228, NULL },
  { 11, 0, "Blackwell", 228, NULL },
  { 12, 0, "Blackwell", 100, NULL },
  { 12, 1, "Blackwell", 100, NULL },
};
enum { COMPUTES = sizeof(computes) / sizeof(computes[0]) };

static attn_known known(bool yes) { return yes ? ATTN_YES : ATTN_NO; }

bool hardware_compute_facts(int major, int minor, attn_capability *capability) {
  const struct compute_row *row = NULL;
  for (int i = 0; i < COMPUTES; i++)
    if (computes[i].major == major && computes[i].minor == minor) row = &computes[i];
  if (!row) return false;
  attn_capability c = {
    .device = ATTN_DEVICE_CUDA,
    .source = ATTN_SOURCE_COMPUTE_CAPABILITY,
    .compute_major = major,
    .compute_minor = minor,
    .tensor_cores = known(major >= 7),
    .f16 = known(major > 5 || (major == 5 && minor >= 3)),
    .bf16 = known(major >= 8),
    .f8 = known(major > 8 || (major == 8 && minor >= 9)),
    .shared_memory_bytes = (int64_t)row->shared_kb * 1024,
  };
  snprintf(c.name, sizeof c.name, "compute capability %d.%d", major, minor);
  snprintf(c.arch, sizeof c.arch, "%s", row->arch);
  if (row->note) hardware_note(hardware_notes_of(&c), "%s", row->note);
  *capability = c;
  return true;
}

attn_status attn_capability_from_compute(int major, int minor, attn_capability *capability) {
  if (!capability) return core_fail(ATTN_ERROR_NULL, "capability is NULL");
  if (!hardware_compute_facts(major, minor, capability))
    return core_fail(ATTN_ERROR_VALUE,
                     "no released CUDA architecture has compute capability %d.%d (5.0 to 12.1)",
                     major, minor);
  return ATTN_OK;
}

const char *attn_isa_flag_name(int flag) {
  switch (flag) {
  case ATTN_CPU_SSE42:
    return "sse42";
  case ATTN_CPU_AVX:
    return "avx";
  case ATTN_CPU_AVX2:
    return "avx2";
  case ATTN_CPU_FMA:
    return "fma";
  case ATTN_CPU_F16C:
    return "f16c";
  case ATTN_CPU_AVX512F:
    return "avx512f";
  case ATTN_CPU_AVX512BW:
    return "avx512bw";
  case ATTN_CPU_AVX512DQ:
    return "avx512dq";
  case ATTN_CPU_AVX512VL:
    return "avx512vl";
  case ATTN_CPU_AVX512VNNI:
    return "avx512vnni";
  case ATTN_CPU_AVX512BF16:
    return "avx512bf16";
  case ATTN_CPU_AVX512FP16:
    return "avx512fp16";
  case ATTN_CPU_AVXVNNI:
    return "avxvnni";
  case ATTN_CPU_AMX_TILE:
    return "amx_tile";
  case ATTN_CPU_AMX_INT8:
    return "amx_int8";
  case ATTN_CPU_AMX_BF16:
    return "amx_bf16";
  case ATTN_CPU_NEON:
    return "neon";
  case ATTN_CPU_ARM_DOT:
    return "arm_dot";
  case ATTN_CPU_ARM_BF16:
    return "arm_bf16";
  case ATTN_CPU_ARM_I8MM:
    return "arm_i8mm";
  case ATTN_CPU_SVE:
    return "sve";
  case ATTN_CPU_ARM_FP16:
    return "arm_fp16";
  default:
    return NULL;
  }
}
