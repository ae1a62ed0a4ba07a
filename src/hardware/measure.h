// SPDX-License-Identifier: Apache-2.0
/* Loops whose speed is a limit of the machine. Compiled with optimisation in every build type. */
#ifndef HARDWARE_MEASURE_H
#define HARDWARE_MEASURE_H

#include <stddef.h>
#include <stdint.h>

enum { MEASURE_SEEDS = 32 };

/* What one CPU runs. Loops return something that depends on all they did. */
typedef struct measure_loops {
  /* Independent multiply-adds, all in registers; `seeds` are values that no compiler knows. */
  float (*f32)(int64_t rounds, const float *seeds);
  double f32_flops; /* per round */
  /* bf16 dot products with f32 sums; NULL where the CPU has none. */
  float (*bf16)(int64_t rounds, const float *seeds);
  double bf16_flops;
  /* Reads all of [data, data + bytes); both multiples of 256. */
  uint64_t (*read)(const void *data, size_t bytes);
  /* Removes [data, data + bytes) from all caches; NULL where that cannot be done. */
  void (*flush)(void *data, size_t bytes);
} measure_loops;

/* `isa_flags`: attn_isa_flag bits. */
void measure_loops_choose(int isa_flags, measure_loops *loops);
/* Adds what x86 has beyond the portable loops. */
void measure_loops_x86(int isa_flags, measure_loops *loops);

enum { MEASURE_CHAIN_CYCLES = 32 }; /* per round, on any CPU that executes one operation a cycle */
uint64_t measure_chain(int64_t rounds, uint64_t seed);

#endif
