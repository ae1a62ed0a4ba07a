// SPDX-License-Identifier: Apache-2.0
/* AVX-512 with bf16 arithmetic; the f32 kernels are those of f32_avx512.c. */
#include "kernel/x86/vector_avx512_bf16.h"

#define ISA_ID ATTN_ISA_AVX512_BF16
#define ISA_NAME "avx512bf16"
#define TABLE kernel_avx512_bf16
#define PAIRS "kernel/template_pairs.h"
#define KEYS_1 16
#define KEYS_2 8
#define COLS_1 16
#define COLS_2 8
#define NARROW_KEYS_2 8
#define NARROW_KEYS_4 4
#define NARROW_COLS_4 4
#include "kernel/template_f32.h"
