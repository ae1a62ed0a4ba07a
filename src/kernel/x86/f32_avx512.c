// SPDX-License-Identifier: Apache-2.0
/* AVX-512: 32 registers hold 8 x 2 or 16 x 1 accumulators, two FMA pipes of latency 4 need 8. */
#include "kernel/x86/vector_avx512.h"

#define ISA_ID ATTN_ISA_AVX512
#define ISA_NAME "avx512"
#define TABLE kernel_avx512
#define KEYS_1 16
#define KEYS_2 8
#define COLS_1 16
#define COLS_2 8
#define NARROW_KEYS_2 8
#define NARROW_KEYS_4 4
#define NARROW_COLS_4 4
#include "kernel/template_f32.h"
