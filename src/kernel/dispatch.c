// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel.h"

#include <pthread.h>
#include <stddef.h>
#if defined(__x86_64__) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>
#endif

/* This architecture's levels, oldest to newest. A new ISA is its kernels and a line here. */
#if defined(__x86_64__)
static bool has_avx2(void) {
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
}
static bool has_avx512(void) {
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
static bool has_avx512_bf16(void) { return has_avx512() && __builtin_cpu_supports("avx512bf16"); }
/* Linux lends tiles on request, to the whole process, and refuses where an alternate signal stack could not
 * hold them. */
static bool has_amx(void) {
#if defined(__linux__)
  enum { REQUEST = 0x1023, TILE_DATA = 18 }; // ARCH_REQ_XCOMP_PERM, XFEATURE_XTILEDATA
  return has_avx512_bf16() && __builtin_cpu_supports("amx-tile") && __builtin_cpu_supports("amx-bf16") &&
         syscall(SYS_arch_prctl, REQUEST, TILE_DATA) == 0;
#else
  return false;
#endif
}
#endif
static bool has_base(void) { return true; }

static const struct level {
  const kernel_table *table;
  bool (*supported)(void);
} levels[] = {
  { &kernel_scalar, has_base },
#if defined(__x86_64__)
  { &kernel_avx2, has_avx2 },
  { &kernel_avx512, has_avx512 },
  { &kernel_avx512_bf16, has_avx512_bf16 },
  { &kernel_amx, has_amx },
#elif defined(__aarch64__)
  { &kernel_neon, has_base }, // every AArch64 CPU has it
#endif
};
enum { LEVELS = sizeof(levels) / sizeof(levels[0]) };

/* Filled once a process: which levels run here and agree with scalar. */
static struct {
  bool supported;
  const char *fault;
} state[LEVELS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void check_levels(void) {
  for (int i = 0; i < LEVELS; i++) {
    state[i].supported = levels[i].supported();
    if (state[i].supported) state[i].fault = kernel_selfcheck(levels[i].table);
  }
}

const kernel_table *kernel_best(attn_isa highest) {
  pthread_once(&once, check_levels);
  const kernel_table *best = &kernel_scalar;
  for (int i = 0; i < LEVELS; i++) {
    if (state[i].supported && !state[i].fault) best = levels[i].table;
    if (levels[i].table->isa == highest) return best;
  }
  return highest == ATTN_ISA_AUTO ? best : &kernel_scalar; // another architecture's level
}

const kernel_table *kernel_exact(attn_isa isa) {
  const kernel_table *best = kernel_best(isa);
  return best->isa == isa ? best : NULL;
}

const kernel_table *kernel_described(attn_isa isa) {
  for (int i = 0; i < LEVELS; i++)
    if (levels[i].table->isa == isa) return levels[i].table;
  return &kernel_scalar;
}

int attn_kernels(attn_kernel_info *kernels, int capacity) {
  pthread_once(&once, check_levels);
  for (int i = 0; i < LEVELS && i < capacity && kernels; i++) {
    const char *reason = state[i].fault ? state[i].fault : "";
    if (!state[i].supported) reason = "this CPU or operating system lacks it";
    kernels[i] = (attn_kernel_info){
      .isa = levels[i].table->isa,
      .name = levels[i].table->name,
      .supported = state[i].supported,
      .checked = state[i].supported,
      .ok = state[i].supported && !state[i].fault,
      .reason = reason,
      .queries_per_tile = KERNEL_MAX_VECTORS * levels[i].table->width,
    };
  }
  return LEVELS;
}
