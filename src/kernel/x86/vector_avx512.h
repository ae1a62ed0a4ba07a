// SPDX-License-Identifier: Apache-2.0
/* The vector words of template_f32.h for AVX-512 F, BW, DQ, VL. */
#ifndef KERNEL_X86_VECTOR_AVX512_H
#define KERNEL_X86_VECTOR_AVX512_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

enum { VW = 16 };
typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;

#define INLINE static inline __attribute__((always_inline))

INLINE vf vf_zero(void) { return _mm512_setzero_ps(); }
INLINE vf vf_set1(float x) { return _mm512_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm512_load_ps(p); }
INLINE void vf_store(float *p, vf x) { _mm512_store_ps(p, x); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
INLINE vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
/* b where either is NaN */
INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm512_abs_ps(a); }
INLINE vf vf_copysign(vf magnitude, vf sign) {
  return _mm512_or_ps(magnitude, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
INLINE vf vf_round(vf a) { return _mm512_roundscale_ps(a, 8); } /* to nearest even, no exception */
/* p * 2^n for integral n >= -126; 0 where x < -126, so that no denormal appears; NaN x keeps p */
INLINE vf vf_scale_flush(vf p, vf n, vf x) {
  return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(x, _mm512_set1_ps(-126.0f), _CMP_NLT_UQ), p, n);
}
INLINE vf vf_scale(vf p, vf n) { return _mm512_scalef_ps(p, n); }
INLINE vm vf_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
INLINE vf vf_select(vm m, vf yes, vf no) { return _mm512_mask_blend_ps(m, no, yes); }
INLINE vf vf_and_bits(vf a, vi bits) {
  return _mm512_castsi512_ps(_mm512_and_si512(_mm512_castps_si512(a), bits));
}
INLINE vi vi_set1(int32_t x) { return _mm512_set1_epi32(x); }
INLINE vi vi_loadu(const void *p) { return _mm512_loadu_si512(p); }
INLINE void vi_storeu(void *p, vi x) { _mm512_storeu_si512(p, x); }
INLINE vm vi_greater(vi a, vi b) { return _mm512_cmpgt_epi32_mask(a, b); }
INLINE vm vm_or(vm a, vm b) { return (vm)(a | b); }
INLINE vm vm_not(vm a) { return (vm)~a; }
INLINE vi vm_bits(vm m) { return _mm512_movm_epi32(m); }
INLINE vf vf_from_int(vi a) { return _mm512_cvtepi32_ps(a); }

INLINE __mmask16 part(int64_t n) { return (__mmask16)((1u << n) - 1u); } /* 0 <= n <= 16 */
INLINE vf vf_load_part(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(part(n), p); }
INLINE void vf_store_part(float *p, int64_t n, vf x) { _mm512_mask_storeu_ps(p, part(n), x); }

/* r[i][j] <-> r[j][i] */
INLINE void vf_transpose(vf r[VW]) {
  vf t[VW];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    t[2 * i] = _mm512_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm512_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    __m512d a = _mm512_castps_pd(t[4 * i]), b = _mm512_castps_pd(t[4 * i + 1]);
    __m512d c = _mm512_castps_pd(t[4 * i + 2]), d = _mm512_castps_pd(t[4 * i + 3]);
    r[4 * i + 0] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, c));
    r[4 * i + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, c));
    r[4 * i + 2] = _mm512_castpd_ps(_mm512_unpacklo_pd(b, d));
    r[4 * i + 3] = _mm512_castpd_ps(_mm512_unpackhi_pd(b, d));
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    t[i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0x88);
    t[4 + i] = _mm512_shuffle_f32x4(r[i], r[4 + i], 0xdd);
    t[8 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0x88);
    t[12 + i] = _mm512_shuffle_f32x4(r[8 + i], r[12 + i], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    r[i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0x88);
    r[8 + i] = _mm512_shuffle_f32x4(t[i], t[8 + i], 0xdd);
    r[4 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0x88);
    r[12 + i] = _mm512_shuffle_f32x4(t[4 + i], t[12 + i], 0xdd);
  }
}

/* out[i] = sum of the lanes of a[i], for 4 vectors, in an order that depends on nothing else. */
INLINE void vf_sum4(const vf a[4], float out[4]) {
  __m512 x = _mm512_add_ps(_mm512_unpacklo_ps(a[0], a[1]), _mm512_unpackhi_ps(a[0], a[1]));
  __m512 y = _mm512_add_ps(_mm512_unpacklo_ps(a[2], a[3]), _mm512_unpackhi_ps(a[2], a[3]));
  __m512d u = _mm512_castps_pd(x), v = _mm512_castps_pd(y);
  __m512 z = _mm512_add_ps(_mm512_castpd_ps(_mm512_unpacklo_pd(u, v)),
                           _mm512_castpd_ps(_mm512_unpackhi_pd(u, v)));
  __m256 h = _mm256_add_ps(_mm512_castps512_ps256(z), _mm512_extractf32x8_ps(z, 1));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1)));
}

/* 16 elements, or the first n of them and zeros. */
INLINE vf vf_from_f16(const uint16_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INLINE vf vf_from_f16_part(const uint16_t *p, int64_t n) {
  return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(part(n), p));
}
INLINE vf vf_widen_bf16(__m256i x) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(x), 16));
}
INLINE vf vf_from_bf16(const uint16_t *p) {
  return vf_widen_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
INLINE vf vf_from_bf16_part(const uint16_t *p, int64_t n) {
  return vf_widen_bf16(_mm256_maskz_loadu_epi16(part(n), p));
}
INLINE void vf_storeu(float *p, vf x) { _mm512_storeu_ps(p, x); }
INLINE void vf_to_f16(uint16_t *p, vf x) {
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* Adds half of the last kept place, less one when it is even; NaN is made quiet instead. */
INLINE void vf_to_bf16(uint16_t *p, vf x) {
  __m512i u = _mm512_castps_si512(x), one = _mm512_set1_epi32(1);
  __m512i even = _mm512_and_si512(_mm512_srli_epi32(u, 16), one);
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(even, _mm512_set1_epi32(0x7fff))), 16);
  __m512i quiet = _mm512_or_si512(_mm512_srli_epi32(u, 16), _mm512_set1_epi32(0x40));
  r = _mm512_mask_mov_epi32(r, _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q), quiet);
  _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtepi32_epi16(r));
}

/* A hint: any address is legal. */
INLINE void vf_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
INLINE vf vf_loadu(const float *p) { return _mm512_loadu_ps(p); }

#endif
