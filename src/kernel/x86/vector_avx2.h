// SPDX-License-Identifier: Apache-2.0
/* The vector words of template_f32.h for AVX2 and FMA. */
#ifndef KERNEL_X86_VECTOR_AVX2_H
#define KERNEL_X86_VECTOR_AVX2_H

#include <immintrin.h>
#include <math.h>
#include <stdint.h>

enum { VW = 8 };
typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vm; /* all ones where true */

#define INLINE static inline __attribute__((always_inline))

INLINE vf vf_zero(void) { return _mm256_setzero_ps(); }
INLINE vf vf_set1(float x) { return _mm256_set1_ps(x); }
INLINE vf vf_load(const float *p) { return _mm256_load_ps(p); }
INLINE void vf_store(float *p, vf x) { _mm256_store_ps(p, x); }
INLINE vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
INLINE vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
INLINE vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
INLINE vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
INLINE vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
/* b where either is NaN */
INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
INLINE vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
INLINE vf vf_copysign(vf magnitude, vf sign) {
  return _mm256_or_ps(magnitude, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
INLINE vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
/* p * 2^n, n integral in [-126, 127]; NaN p stays NaN (n is then garbage) */
INLINE vf vf_scale(vf p, vf n) {
  vi e = _mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(n), _mm256_set1_epi32(127)), 23);
  return _mm256_mul_ps(p, _mm256_castsi256_ps(e));
}
/* 0 where x < -126, so that no denormal appears; NaN x keeps p */
INLINE vf vf_scale_flush(vf p, vf n, vf x) {
  return _mm256_and_ps(vf_scale(p, n), _mm256_cmp_ps(x, _mm256_set1_ps(-126.0f), _CMP_NLT_UQ));
}
INLINE vm vf_equal(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
INLINE vf vf_select(vm m, vf yes, vf no) { return _mm256_blendv_ps(no, yes, _mm256_castsi256_ps(m)); }
INLINE vf vf_and_bits(vf a, vi bits) { return _mm256_and_ps(a, _mm256_castsi256_ps(bits)); }
INLINE vi vi_set1(int32_t x) { return _mm256_set1_epi32(x); }
INLINE vi vi_loadu(const void *p) { return _mm256_loadu_si256((const __m256i *)p); }
INLINE void vi_storeu(void *p, vi x) { _mm256_storeu_si256((__m256i *)p, x); }
INLINE vm vi_greater(vi a, vi b) { return _mm256_cmpgt_epi32(a, b); }
INLINE vm vm_or(vm a, vm b) { return _mm256_or_si256(a, b); }
INLINE vm vm_not(vm a) { return _mm256_xor_si256(a, _mm256_set1_epi32(-1)); }
INLINE vi vm_bits(vm m) { return m; }
INLINE vf vf_from_int(vi a) { return _mm256_cvtepi32_ps(a); }

INLINE __m256i part(int64_t n) { /* 0 <= n <= 8 */
  return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
INLINE vf vf_load_part(const float *p, int64_t n) { return _mm256_maskload_ps(p, part(n)); }
INLINE void vf_store_part(float *p, int64_t n, vf x) { _mm256_maskstore_ps(p, part(n), x); }

/* r[i][j] <-> r[j][i] */
INLINE void vf_transpose(vf r[VW]) {
  vf t[VW];
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    t[2 * i] = _mm256_unpacklo_ps(r[2 * i], r[2 * i + 1]);
    t[2 * i + 1] = _mm256_unpackhi_ps(r[2 * i], r[2 * i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 2; i++) {
    r[4 * i + 0] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0x44);
    r[4 * i + 1] = _mm256_shuffle_ps(t[4 * i], t[4 * i + 2], 0xee);
    r[4 * i + 2] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0x44);
    r[4 * i + 3] = _mm256_shuffle_ps(t[4 * i + 1], t[4 * i + 3], 0xee);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 4; i++) {
    t[i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x20);
    t[4 + i] = _mm256_permute2f128_ps(r[i], r[4 + i], 0x31);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) r[i] = t[i];
}

/* out[i] = sum of the lanes of a[i], for 4 vectors, in an order that depends on nothing else. */
INLINE void vf_sum4(const vf a[4], float out[4]) {
  __m256 x = _mm256_add_ps(_mm256_unpacklo_ps(a[0], a[1]), _mm256_unpackhi_ps(a[0], a[1]));
  __m256 y = _mm256_add_ps(_mm256_unpacklo_ps(a[2], a[3]), _mm256_unpackhi_ps(a[2], a[3]));
  __m256d u = _mm256_castps_pd(x), v = _mm256_castps_pd(y);
  __m256 z = _mm256_add_ps(_mm256_castpd_ps(_mm256_unpacklo_pd(u, v)),
                           _mm256_castpd_ps(_mm256_unpackhi_pd(u, v)));
  _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(z), _mm256_extractf128_ps(z, 1)));
}

/* 8 elements, or the first n of them and zeros. */
INLINE __m128i load16_part(const uint16_t *p, int64_t n) {
  uint16_t x[8] = { 0 };
  for (int64_t i = 0; i < n; i++) x[i] = p[i];
  return _mm_loadu_si128((const __m128i *)(const void *)x);
}
INLINE vf vf_from_f16(const uint16_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE vf vf_from_f16_part(const uint16_t *p, int64_t n) {
  return _mm256_cvtph_ps(load16_part(p, n));
}
INLINE vf vf_widen_bf16(__m128i x) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(x), 16));
}
INLINE vf vf_from_bf16(const uint16_t *p) {
  return vf_widen_bf16(_mm_loadu_si128((const __m128i *)(const void *)p));
}
INLINE vf vf_from_bf16_part(const uint16_t *p, int64_t n) { return vf_widen_bf16(load16_part(p, n)); }
INLINE void vf_storeu(float *p, vf x) { _mm256_storeu_ps(p, x); }
INLINE void vf_to_f16(uint16_t *p, vf x) {
  _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
}
/* Adds half of the last kept place, less one when it is even; NaN is made quiet instead. */
INLINE void vf_to_bf16(uint16_t *p, vf x) {
  __m256i u = _mm256_castps_si256(x), one = _mm256_set1_epi32(1);
  __m256i even = _mm256_and_si256(_mm256_srli_epi32(u, 16), one);
  __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(even, _mm256_set1_epi32(0x7fff))), 16);
  __m256i quiet = _mm256_or_si256(_mm256_srli_epi32(u, 16), _mm256_set1_epi32(0x40));
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  r = _mm256_blendv_epi8(r, quiet, nan);
  __m128i low = _mm256_castsi256_si128(r), high = _mm256_extracti128_si256(r, 1);
  _mm_storeu_si128((__m128i *)(void *)p, _mm_packus_epi32(low, high));
}

/* A hint: any address is legal. */
INLINE void vf_prefetch(const void *p) { _mm_prefetch((const char *)p, _MM_HINT_T0); }
INLINE vf vf_loadu(const float *p) { return _mm256_loadu_ps(p); }

#endif
