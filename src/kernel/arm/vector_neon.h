// SPDX-License-Identifier: Apache-2.0
/* The vector words of template_f32.h for AArch64's Advanced SIMD, its base level. */
#ifndef KERNEL_ARM_VECTOR_NEON_H
#define KERNEL_ARM_VECTOR_NEON_H

#include <arm_neon.h>
#include <math.h>
#include <stdint.h>

enum { VW = 4 };
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint32x4_t vm; /* all ones where true */

#define INLINE static inline __attribute__((always_inline))

INLINE vf vf_zero(void) { return vdupq_n_f32(0); }
INLINE vf vf_set1(float x) { return vdupq_n_f32(x); }
INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
INLINE vf vf_loadu(const float *p) { return vld1q_f32(p); }
INLINE void vf_store(float *p, vf x) { vst1q_f32(p, x); }
INLINE void vf_storeu(float *p, vf x) { vst1q_f32(p, x); }
INLINE vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
INLINE vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
/* A multiplication takes one lane of a vector as it takes them all, so p[i] costs no broadcast. */
#define ELEMENTS 4
INLINE vf vf_element(const float *p, int i, int n) {
  return n % VW ? vdupq_n_f32(p[i]) : vdupq_n_f32(vld1q_f32(p + i / VW * VW)[i % VW]);
}
INLINE vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
INLINE vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
INLINE vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
INLINE vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
/* b where either is NaN: neither FMAX nor FMAXNM says that */
INLINE vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
INLINE vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
INLINE vf vf_abs(vf a) { return vabsq_f32(a); }
INLINE vf vf_copysign(vf magnitude, vf sign) {
  return vbslq_f32(vdupq_n_u32(0x80000000u), sign, magnitude);
}
INLINE vf vf_round(vf a) { return vrndnq_f32(a); } /* to nearest even */
/* p * 2^n, n integral in [-126, 127]; NaN p stays NaN (n is then garbage) */
INLINE vf vf_scale(vf p, vf n) {
  vi e = vshlq_n_s32(vaddq_s32(vcvtq_s32_f32(n), vdupq_n_s32(127)), 23);
  return vmulq_f32(p, vreinterpretq_f32_s32(e));
}
/* 0 where x < -126, so that no denormal appears; NaN x keeps p */
INLINE vf vf_scale_flush(vf p, vf n, vf x) {
  vm tiny = vcltq_f32(x, vdupq_n_f32(-126.0f));
  return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_f32(vf_scale(p, n)), tiny));
}
INLINE vm vf_equal(vf a, vf b) { return vceqq_f32(a, b); }
INLINE vf vf_select(vm m, vf yes, vf no) { return vbslq_f32(m, yes, no); }
INLINE vf vf_and_bits(vf a, vi bits) {
  return vreinterpretq_f32_s32(vandq_s32(vreinterpretq_s32_f32(a), bits));
}
INLINE vi vi_set1(int32_t x) { return vdupq_n_s32(x); }
INLINE vi vi_loadu(const void *p) { return vld1q_s32(p); }
INLINE void vi_storeu(void *p, vi x) { vst1q_s32(p, x); }
INLINE vm vi_greater(vi a, vi b) { return vcgtq_s32(a, b); }
INLINE vm vm_or(vm a, vm b) { return vorrq_u32(a, b); }
INLINE vm vm_not(vm a) { return vmvnq_u32(a); }
INLINE vi vm_bits(vm m) { return vreinterpretq_s32_u32(m); }
INLINE vf vf_from_int(vi a) { return vcvtq_f32_s32(a); }

/* The first n of 4 elements, zeros after them. */
INLINE vf vf_load_part(const float *p, int64_t n) {
  const float32x2_t none = vdup_n_f32(0);
  if (n >= 4) return vld1q_f32(p);
  if (n == 3) return vcombine_f32(vld1_f32(p), vld1_lane_f32(p + 2, none, 0));
  if (n == 2) return vcombine_f32(vld1_f32(p), none);
  return n == 1 ? vcombine_f32(vld1_lane_f32(p, none, 0), none) : vf_zero();
}
INLINE void vf_store_part(float *p, int64_t n, vf x) {
  if (n >= 4)
    vst1q_f32(p, x);
  else if (n >= 2)
    vst1_f32(p, vget_low_f32(x));
  if (n == 3)
    vst1q_lane_f32(p + 2, x, 2);
  else if (n == 1)
    vst1q_lane_f32(p, x, 0);
}

INLINE vf vf_low_halves(vf a, vf b) {
  return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
INLINE vf vf_high_halves(vf a, vf b) {
  return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(a), vreinterpretq_f64_f32(b)));
}
/* r[i][j] <-> r[j][i] */
INLINE void vf_transpose(vf r[VW]) {
  vf a = vtrn1q_f32(r[0], r[1]), b = vtrn2q_f32(r[0], r[1]);
  vf c = vtrn1q_f32(r[2], r[3]), d = vtrn2q_f32(r[2], r[3]);
  r[0] = vf_low_halves(a, c), r[1] = vf_low_halves(b, d);
  r[2] = vf_high_halves(a, c), r[3] = vf_high_halves(b, d);
}

/* out[i] = sum of the lanes of a[i], for 4 vectors, in an order that depends on nothing else. */
INLINE void vf_sum4(const vf a[4], float out[4]) {
  vst1q_f32(out, vpaddq_f32(vpaddq_f32(a[0], a[1]), vpaddq_f32(a[2], a[3])));
}

/* 4 elements, or the first n of them and zeros. */
INLINE uint16x4_t load16_part(const uint16_t *p, int64_t n) {
  uint16_t x[4] = { 0 };
  for (int64_t i = 0; i < n; i++) x[i] = p[i];
  return vld1_u16(x);
}
INLINE vf vf_widen_f16(uint16x4_t x) { return vcvt_f32_f16(vreinterpret_f16_u16(x)); }
INLINE vf vf_from_f16(const uint16_t *p) { return vf_widen_f16(vld1_u16(p)); }
INLINE vf vf_from_f16_part(const uint16_t *p, int64_t n) { return vf_widen_f16(load16_part(p, n)); }
INLINE vf vf_widen_bf16(uint16x4_t x) { return vreinterpretq_f32_u32(vshll_n_u16(x, 16)); }
INLINE vf vf_from_bf16(const uint16_t *p) { return vf_widen_bf16(vld1_u16(p)); }
INLINE vf vf_from_bf16_part(const uint16_t *p, int64_t n) {
  return vf_widen_bf16(load16_part(p, n));
}
INLINE void vf_to_f16(uint16_t *p, vf x) { vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x))); }
/* Adds half of the last kept place, less one when it is even; NaN is made quiet instead. */
INLINE void vf_to_bf16(uint16_t *p, vf x) {
  uint32x4_t u = vreinterpretq_u32_f32(x), high = vshrq_n_u32(u, 16);
  uint32x4_t even = vandq_u32(high, vdupq_n_u32(1));
  uint32x4_t r = vshrq_n_u32(vaddq_u32(u, vaddq_u32(even, vdupq_n_u32(0x7fff))), 16);
  uint32x4_t quiet = vorrq_u32(high, vdupq_n_u32(0x40));
  vst1_u16(p, vmovn_u32(vbslq_u32(vceqq_f32(x, x), r, quiet)));
}

/* A hint: any address is legal. */
INLINE void vf_prefetch(const void *p) { __builtin_prefetch(p); }

#endif
