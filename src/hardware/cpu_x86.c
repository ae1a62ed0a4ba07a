// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <stdio.h>
#include <string.h>

/* CPUID bits: Intel SDM volume 2A, CPUID; AMD APM volume 3, appendix E. XCR0 bits: SDM volume 1,
 * 13.3. The operating system must save the registers, or they change under a running program. */
enum {
  LEAF1_ECX_FMA = 12,
  LEAF1_ECX_SSE42 = 20,
  LEAF1_ECX_OSXSAVE = 27,
  LEAF1_ECX_AVX = 28,
  LEAF1_ECX_F16C = 29,
  LEAF7_EBX_AVX2 = 5,
  LEAF7_EBX_AVX512F = 16,
  LEAF7_EBX_AVX512DQ = 17,
  LEAF7_EBX_AVX512BW = 30,
  LEAF7_EBX_AVX512VL = 31,
  LEAF7_ECX_AVX512VNNI = 11,
  LEAF7_EDX_AMX_BF16 = 22,
  LEAF7_EDX_AVX512FP16 = 23,
  LEAF7_EDX_AMX_TILE = 24,
  LEAF7_EDX_AMX_INT8 = 25,
  LEAF7_1_EAX_AVXVNNI = 4,
  LEAF7_1_EAX_AVX512BF16 = 5
};
static const uint64_t XCR0_YMM = 0x6, XCR0_ZMM = 0xe6, XCR0_TILE = 0x60000;

static int bit(uint32_t reg, int position, int flag) { return (reg >> position) & 1 ? flag : 0; }

int hardware_x86_flags(const hardware_cpuid *id, hardware_notes notes) {
  int flags = bit(id->leaf1_ecx, LEAF1_ECX_SSE42, ATTN_CPU_SSE42);
  uint64_t xcr0 = bit(id->leaf1_ecx, LEAF1_ECX_OSXSAVE, 1) ? id->xcr0 : 0;

  int avx = bit(id->leaf1_ecx, LEAF1_ECX_AVX, ATTN_CPU_AVX);
  if (avx) {
    avx |= bit(id->leaf1_ecx, LEAF1_ECX_FMA, ATTN_CPU_FMA) |
           bit(id->leaf1_ecx, LEAF1_ECX_F16C, ATTN_CPU_F16C) |
           bit(id->leaf7_ebx, LEAF7_EBX_AVX2, ATTN_CPU_AVX2) |
           bit(id->leaf7_1_eax, LEAF7_1_EAX_AVXVNNI, ATTN_CPU_AVXVNNI);
    if ((xcr0 & XCR0_YMM) == XCR0_YMM)
      flags |= avx;
    else
      hardware_note(notes, "AVX not used: the operating system does not save its registers");
  }

  int avx512 = bit(id->leaf7_ebx, LEAF7_EBX_AVX512F, ATTN_CPU_AVX512F);
  if (avx512 && (flags & ATTN_CPU_AVX)) {
    avx512 |= bit(id->leaf7_ebx, LEAF7_EBX_AVX512BW, ATTN_CPU_AVX512BW) |
              bit(id->leaf7_ebx, LEAF7_EBX_AVX512DQ, ATTN_CPU_AVX512DQ) |
              bit(id->leaf7_ebx, LEAF7_EBX_AVX512VL, ATTN_CPU_AVX512VL) |
              bit(id->leaf7_ecx, LEAF7_ECX_AVX512VNNI, ATTN_CPU_AVX512VNNI) |
              bit(id->leaf7_edx, LEAF7_EDX_AVX512FP16, ATTN_CPU_AVX512FP16) |
              bit(id->leaf7_1_eax, LEAF7_1_EAX_AVX512BF16, ATTN_CPU_AVX512BF16);
    if ((xcr0 & XCR0_ZMM) == XCR0_ZMM)
      flags |= avx512;
    else
      hardware_note(notes, "AVX-512 not used: the operating system does not save its registers");
  }

  int amx = bit(id->leaf7_edx, LEAF7_EDX_AMX_TILE, ATTN_CPU_AMX_TILE);
  if (amx) {
    amx |= bit(id->leaf7_edx, LEAF7_EDX_AMX_INT8, ATTN_CPU_AMX_INT8) |
           bit(id->leaf7_edx, LEAF7_EDX_AMX_BF16, ATTN_CPU_AMX_BF16);
    if ((xcr0 & XCR0_TILE) == XCR0_TILE) {
      flags |= amx;
      /* Linux, Documentation/arch/x86/xstate.rst: a process asks for tiles before it uses them. */
      hardware_note(notes, "AMX needs arch_prctl(ARCH_REQ_XCOMP_PERM), which is not asked for");
    } else {
      hardware_note(notes, "AMX not used: the operating system does not save its registers");
    }
  }
  return flags;
}

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>

static uint64_t read_xcr0(void) {
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return (uint64_t)high << 32 | low;
}

static void read_brand(char *name, size_t size) {
  uint32_t words[13] = { 0 };
  if ((uint32_t)__get_cpuid_max(0x80000000u, NULL) < 0x80000004u) return;
  for (uint32_t i = 0; i < 3; i++)
    __cpuid(0x80000002u + i, words[4 * i], words[4 * i + 1], words[4 * i + 2], words[4 * i + 3]);
  char brand[sizeof words];
  memcpy(brand, words, sizeof words);
  hardware_text_copy(name, size, brand);
}

void hardware_x86_detect(attn_capability *cpu) {
  hardware_cpuid id = { 0 };
  uint32_t eax, ebx, ecx, edx;
  uint32_t leaves = (uint32_t)__get_cpuid_max(0, NULL);
  if (leaves >= 1) {
    __cpuid(1, eax, ebx, ecx, edx);
    id.leaf1_ecx = ecx;
    id.leaf1_edx = edx;
    if (bit(ecx, LEAF1_ECX_OSXSAVE, 1)) id.xcr0 = read_xcr0();
  }
  if (leaves >= 7) {
    __cpuid_count(7, 0, eax, ebx, ecx, edx);
    id.leaf7_ebx = ebx;
    id.leaf7_ecx = ecx;
    id.leaf7_edx = edx;
    if (eax >= 1) {
      __cpuid_count(7, 1, eax, ebx, ecx, edx);
      id.leaf7_1_eax = eax;
    }
  }
  hardware_notes notes = hardware_notes_of(cpu);
  cpu->isa_flags = hardware_x86_flags(&id, notes);
  read_brand(cpu->name, sizeof cpu->name);
}
#else
void hardware_x86_detect(attn_capability *cpu) { (void)cpu; }
#endif
