// SPDX-License-Identifier: Apache-2.0
/* NEON: 32 registers hold 8 x 2 accumulators beside 8 vectors of keys and one of queries. Four FMA
 * pipes of latency 4 need 16 of them. */
#include "kernel/arm/vector_neon.h"

#define ISA_ID ATTN_ISA_NEON
#define ISA_NAME "neon"
#define TABLE kernel_neon
#define KEYS_1 12
#define KEYS_2 8
#define COLS_1 16
#define COLS_2 8
#define NARROW_KEYS_2 8
#define NARROW_KEYS_4 4
#define NARROW_COLS_4 4
#include "kernel/template_f32.h"
