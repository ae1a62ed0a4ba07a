// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Linux, arch/arm64/include/uapi/asm/hwcap.h. */
int hardware_arm_flags(unsigned long hwcap, unsigned long hwcap2) {
  int flags = 0;
  if (hwcap & (1ul << 1)) flags |= ATTN_CPU_NEON;       /* ASIMD */
  if (hwcap & (1ul << 10)) flags |= ATTN_CPU_ARM_FP16;  /* ASIMDHP */
  if (hwcap & (1ul << 20)) flags |= ATTN_CPU_ARM_DOT;   /* ASIMDDP */
  if (hwcap & (1ul << 22)) flags |= ATTN_CPU_SVE;       /* SVE */
  if (hwcap2 & (1ul << 13)) flags |= ATTN_CPU_ARM_I8MM; /* I8MM */
  if (hwcap2 & (1ul << 14)) flags |= ATTN_CPU_ARM_BF16; /* BF16 */
  return flags;
}

/* MIDR_EL1 implementer and part, as the cores' technical reference manuals give them. */
static const struct core {
  unsigned long implementer, part;
  const char *name;
} cores[] = {
  { 0x41, 0xd03, "Arm Cortex-A53" },  { 0x41, 0xd08, "Arm Cortex-A72" },
  { 0x41, 0xd0b, "Arm Cortex-A76" },  { 0x41, 0xd0c, "Arm Neoverse N1" },
  { 0x41, 0xd40, "Arm Neoverse V1" }, { 0x41, 0xd41, "Arm Cortex-A78" },
  { 0x41, 0xd49, "Arm Neoverse N2" }, { 0x41, 0xd4f, "Arm Neoverse V2" },
  { 0xc0, 0xac3, "Ampere-1" },
};

static bool value_of(const char *text, const char *key, unsigned long *value) {
  const char *at = strstr(text, key);
  if (!at) return false;
  at += strlen(key);
  at += strspn(at, " \t:");
  char *end;
  *value = strtoul(at, &end, 0);
  return end != at;
}

void hardware_arm_name(const char *cpuinfo, char *name, size_t size) {
  unsigned long implementer, part;
  if (size == 0) return;
  name[0] = '\0';
  if (!value_of(cpuinfo, "CPU implementer", &implementer) || !value_of(cpuinfo, "CPU part", &part))
    return;
  for (size_t i = 0; i < sizeof cores / sizeof cores[0]; i++)
    if (cores[i].implementer == implementer && cores[i].part == part) {
      snprintf(name, size, "%s", cores[i].name);
      return;
    }
  snprintf(name, size, "Arm implementer 0x%lx part 0x%lx", implementer, part);
}

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#include <sys/prctl.h>

static int sve_bits(void) {
#if defined(PR_SVE_GET_VL)
  int length = prctl(PR_SVE_GET_VL); /* bytes in the low half, inheritance above */
  if (length > 0) return 8 * (length & 0xffff);
#endif
  return 0;
}

int hardware_arm_detect(attn_capability *cpu) {
  char text[4096];
  cpu->isa_flags = hardware_arm_flags(getauxval(AT_HWCAP), getauxval(AT_HWCAP2));
  if (hardware_file_read("", "/proc/cpuinfo", text, sizeof text) > 0)
    hardware_arm_name(text, cpu->name, sizeof cpu->name);
  return cpu->isa_flags & ATTN_CPU_SVE ? sve_bits() : 0;
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/sysctl.h>

static bool has(const char *key) {
  int value = 0;
  size_t size = sizeof value;
  return sysctlbyname(key, &value, &size, NULL, 0) == 0 && value == 1;
}

int hardware_arm_detect(attn_capability *cpu) {
  cpu->isa_flags = ATTN_CPU_NEON;
  if (has("hw.optional.arm.FEAT_FP16")) cpu->isa_flags |= ATTN_CPU_ARM_FP16;
  if (has("hw.optional.arm.FEAT_DotProd")) cpu->isa_flags |= ATTN_CPU_ARM_DOT;
  if (has("hw.optional.arm.FEAT_BF16")) cpu->isa_flags |= ATTN_CPU_ARM_BF16;
  if (has("hw.optional.arm.FEAT_I8MM")) cpu->isa_flags |= ATTN_CPU_ARM_I8MM;
  char brand[64] = "";
  size_t size = sizeof brand - 1;
  if (sysctlbyname("machdep.cpu.brand_string", brand, &size, NULL, 0) == 0)
    hardware_text_copy(cpu->name, sizeof cpu->name, brand);
  return 0;
}
#else
int hardware_arm_detect(attn_capability *cpu) {
  (void)cpu;
  return 0;
}
#endif
