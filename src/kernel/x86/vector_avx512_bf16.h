// SPDX-License-Identifier: Apache-2.0
/* The pair words of template_pairs.h for AVX512-BF16. */
#ifndef KERNEL_X86_VECTOR_AVX512_BF16_H
#define KERNEL_X86_VECTOR_AVX512_BF16_H

#include <string.h>

#include "kernel/x86/vector_avx512.h"

typedef __m512i vp;

INLINE vp vp_zero(void) { return _mm512_setzero_si512(); }
INLINE vp vp_load(const uint32_t *p) { return _mm512_load_si512(p); }
INLINE void vp_store(uint32_t *p, vp x) { _mm512_store_si512(p, x); }
INLINE vp vp_load_part(const uint16_t *p, int64_t n) {
  return _mm512_maskz_loadu_epi16((__mmask32)((1ull << n) - 1), p);
}
INLINE vp vp_set1(const void *p) {
  int32_t x;
  memcpy(&x, p, sizeof(x));
  return _mm512_set1_epi32(x);
}
INLINE vp vp_and(vp a, vp b) { return _mm512_and_si512(a, b); }
INLINE vp vp_halves(vp a, vp b) { return _mm512_mask_blend_epi16(0xaaaaaaaau, a, b); }
/* The conversion puts the odd vector above the even one; interleaved afterwards. */
INLINE vp vp_round(vf even, vf odd) {
  const vp order = _mm512_set_epi16(31, 15, 30, 14, 29, 13, 28, 12, 27, 11, 26, 10, 25, 9, 24, 8,
                                    23, 7, 22, 6, 21, 5, 20, 4, 19, 3, 18, 2, 17, 1, 16, 0);
  return _mm512_permutexvar_epi16(order, (__m512i)_mm512_cvtne2ps_pbh(odd, even));
}
INLINE vp vp_interleave(vp a, vp b) {
  __m512i low = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(a));
  __m512i high = _mm512_cvtepu16_epi32(_mm512_castsi512_si256(b));
  return _mm512_or_si512(low, _mm512_slli_epi32(high, 16));
}
INLINE vf vf_dot(vf sum, vp a, vp b) { return _mm512_dpbf16_ps(sum, (__m512bh)a, (__m512bh)b); }
INLINE vf vp_as_vf(vp a) { return _mm512_castsi512_ps(a); }
INLINE vp vf_as_vp(vf a) { return _mm512_castps_si512(a); }

#endif
