// SPDX-License-Identifier: Apache-2.0
/* AVX2: 16 registers hold 4 x 2 accumulators beside operands (6 x 2 spills with gcc 12), 10 x 1. */
#include "kernel/x86/vector_avx2.h"

#define ISA_ID ATTN_ISA_AVX2
#define ISA_NAME "avx2"
#define TABLE kernel_avx2
#define KEYS_1 8
#define KEYS_2 6
#define COLS_1 8
#define COLS_2 6
#define NARROW_KEYS_2 4
#define NARROW_KEYS_4 2
#define NARROW_COLS_4 2
#include "kernel/template_f32.h"
