// SPDX-License-Identifier: Apache-2.0
/* AVX-512 with bf16 products on AMX tiles. Tests compile it against a software model of the tile
 * instructions (tests/kernel/amx_model.h) under another table's name. */
#if defined(__AVX512BF16__) && (defined(__AMX_BF16__) || defined(AMX_MODEL))
#include "core/dtype.h"
#include "kernel/x86/vector_avx512_bf16.h"

#if defined(AMX_MODEL)
#include AMX_MODEL
#else
#define TABLE kernel_amx
#endif
#define ISA_ID ATTN_ISA_AMX
#define ISA_NAME "amx"
#define PAIRS "kernel/x86/pairs_amx.h"
#define KEYS_1 16
#define KEYS_2 8
#define COLS_1 16
#define COLS_2 8
#define NARROW_KEYS_2 8
#define NARROW_KEYS_4 4
#define NARROW_COLS_4 4
#include "kernel/template_f32.h"
#endif
