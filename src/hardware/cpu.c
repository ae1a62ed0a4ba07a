// SPDX-License-Identifier: Apache-2.0
#include "hardware/internal.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined(__APPLE__)
#include <sys/sysctl.h>
#endif

#include "core/threads.h"

attn_isa hardware_isa(int flags) {
  const int avx2 = ATTN_CPU_AVX2 | ATTN_CPU_FMA | ATTN_CPU_F16C;
  const int avx512 =
      avx2 | ATTN_CPU_AVX512F | ATTN_CPU_AVX512BW | ATTN_CPU_AVX512DQ | ATTN_CPU_AVX512VL;
  const int bf16 = avx512 | ATTN_CPU_AVX512BF16;
  const int amx = bf16 | ATTN_CPU_AMX_TILE | ATTN_CPU_AMX_BF16;
  if ((flags & amx) == amx) return ATTN_ISA_AMX;
  if ((flags & bf16) == bf16) return ATTN_ISA_AVX512_BF16;
  if ((flags & avx512) == avx512) return ATTN_ISA_AVX512;
  if ((flags & avx2) == avx2) return ATTN_ISA_AVX2;
  if (flags & ATTN_CPU_NEON) return ATTN_ISA_NEON;
  return ATTN_ISA_SCALAR;
}

void hardware_arch(int flags, int sve_bits, char *arch, size_t size) {
  static const struct {
    int flags;
    const char *word;
  } words[] = {
    { ATTN_CPU_AVX512BF16 | ATTN_CPU_ARM_BF16, "bf16" },
    { ATTN_CPU_AVX512FP16 | ATTN_CPU_ARM_FP16, "fp16" },
    { ATTN_CPU_AVX512VNNI | ATTN_CPU_AVXVNNI, "vnni" },
    { ATTN_CPU_ARM_DOT, "dot" },
    { ATTN_CPU_ARM_I8MM, "i8mm" },
    { ATTN_CPU_AMX_TILE, "amx" },
    { ATTN_CPU_SVE, "sve" },
  };
  const char *level = attn_isa_name(hardware_isa(flags & ~ATTN_CPU_AVX512BF16)); // a word of its own
  int length = snprintf(arch, size, "%s", level ? level : "scalar");
  for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
    if (!(flags & words[i].flags) || length < 0 || (size_t)length >= size) continue;
    int n = snprintf(arch + length, size - (size_t)length, " %s", words[i].word);
    length = n < 0 ? n : length + n;
  }
  if (flags & ATTN_CPU_SVE && sve_bits > 0 && length > 0 && (size_t)length < size)
    snprintf(arch + length, size - (size_t)length, "%d", sve_bits);
}

static attn_known known(bool yes) { return yes ? ATTN_YES : ATTN_NO; }

static int online_cores(void) {
#if defined(_SC_NPROCESSORS_ONLN)
  long count = sysconf(_SC_NPROCESSORS_ONLN);
  if (count > 0 && count < 1 << 20) return (int)count;
#endif
  return 0;
}

static void read_memory(attn_capability *cpu) {
  hardware_memory memory = { 0 };
#if defined(__APPLE__)
  int64_t bytes = 0;
  size_t size = sizeof bytes;
  if (sysctlbyname("hw.memsize", &bytes, &size, NULL, 0) == 0 && bytes > 0) memory.total = bytes;
  hardware_note(hardware_notes_of(cpu), "free memory not read on this system");
#else
  hardware_memory_read("", &memory, hardware_notes_of(cpu));
#endif
  cpu->memory_total = memory.total;
  cpu->memory_available = memory.available;
}

void hardware_cpu_detect(attn_capability *cpu) {
  attn_capability c = { .device = ATTN_DEVICE_CPU,
                        .source = ATTN_SOURCE_DETECTED,
                        .unified_memory = ATTN_YES };
  hardware_notes notes = hardware_notes_of(&c);
  hardware_x86_detect(&c);
  int sve_bits = hardware_arm_detect(&c);
  if (c.isa_flags == 0) hardware_note(notes, "instruction sets unreadable on this architecture");
  if (c.name[0] == '\0') hardware_note(notes, "CPU name unreadable");
  c.isa = hardware_isa(c.isa_flags);
  hardware_arch(c.isa_flags, sve_bits, c.arch, sizeof c.arch);
  if (c.isa_flags != 0) {
    c.tensor_cores = known(c.isa_flags & (ATTN_CPU_AMX_BF16 | ATTN_CPU_AMX_INT8));
    c.f16 = known(c.isa_flags & (ATTN_CPU_AVX512FP16 | ATTN_CPU_ARM_FP16));
    c.bf16 = known(c.isa_flags & (ATTN_CPU_AVX512BF16 | ATTN_CPU_AMX_BF16 | ATTN_CPU_ARM_BF16));
    c.f8 = ATTN_NO;
  }

  hardware_topology topology;
  hardware_topology_detect(&topology, notes);
  c.l1_bytes = topology.l1_bytes;
  c.l2_bytes = topology.l2_bytes;
  c.l3_bytes = topology.l3_bytes;
  c.cache_line = topology.cache_line;
  c.numa_nodes = topology.numa_nodes;
  read_memory(&c);
  c.cores_total = online_cores();
  c.compute_units = threads_usable_cores();
  *cpu = c;
}
