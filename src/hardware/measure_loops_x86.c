// SPDX-License-Identifier: Apache-2.0
#include "hardware/measure.h"

#include "attn/hardware.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#if defined(__clang__) || __GNUC__ >= 8
#define UNWATCHED __attribute__((no_sanitize("address", "thread", "undefined")))
#else
#define UNWATCHED
#endif

/* See EACH16 in measure_loops.c. AVX2 has 16 registers, two of which hold the factors. */
#define EACH12(X) X(0) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11)
#define EACH16(X) EACH12(X) X(12) X(13) X(14) X(15)

__attribute__((target("avx2,fma"))) static float f32_avx2(int64_t rounds, const float *seeds) {
#define START(i) __m256 s##i = _mm256_set1_ps(seeds[i]);
#define STEP(i) s##i = _mm256_fmadd_ps(s##i, x, y);
#define SUM(i) total = _mm256_add_ps(total, s##i);
  EACH12(START)
  const __m256 x = _mm256_set1_ps(seeds[16]), y = _mm256_set1_ps(seeds[17]);
  for (int64_t r = 0; r < rounds; r++) {
    EACH12(STEP)
  }
  __m256 total = _mm256_setzero_ps();
  EACH12(SUM)
  float lanes[8];
  _mm256_storeu_ps(lanes, total);
  return lanes[0] + lanes[7];
#undef START
#undef STEP
#undef SUM
}

#define START(i) __m512 s##i = _mm512_set1_ps(seeds[i]);
#define SUM(i) total = _mm512_add_ps(total, s##i);

__attribute__((target("avx512f"))) static float f32_avx512(int64_t rounds, const float *seeds) {
#define STEP(i) s##i = _mm512_fmadd_ps(s##i, x, y);
  EACH16(START)
  const __m512 x = _mm512_set1_ps(seeds[16]), y = _mm512_set1_ps(seeds[17]);
  for (int64_t r = 0; r < rounds; r++) {
    EACH16(STEP)
  }
  __m512 total = _mm512_setzero_ps();
  EACH16(SUM)
  return _mm512_reduce_add_ps(total);
#undef STEP
}

__attribute__((target("avx512f,avx512bf16"))) static float bf16_avx512(int64_t rounds,
                                                                       const float *seeds) {
#define STEP(i) s##i = _mm512_dpbf16_ps(s##i, x, y);
  EACH16(START)
  const __m512bh x = (__m512bh)_mm512_set1_ps(seeds[16]), y = (__m512bh)_mm512_set1_ps(seeds[17]);
  for (int64_t r = 0; r < rounds; r++) {
    EACH16(STEP)
  }
  __m512 total = _mm512_setzero_ps();
  EACH16(SUM)
  return _mm512_reduce_add_ps(total);
#undef STEP
}
#undef START
#undef SUM

UNWATCHED __attribute__((target("avx2"))) static uint64_t read_avx2(const void *data,
                                                                    size_t bytes) {
  const char *p = data;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i < bytes; i += 128) {
    a = _mm256_or_si256(a, _mm256_loadu_si256((const __m256i *)(p + i)));
    b = _mm256_or_si256(b, _mm256_loadu_si256((const __m256i *)(p + i + 32)));
    c = _mm256_or_si256(c, _mm256_loadu_si256((const __m256i *)(p + i + 64)));
    d = _mm256_or_si256(d, _mm256_loadu_si256((const __m256i *)(p + i + 96)));
  }
  a = _mm256_or_si256(_mm256_or_si256(a, b), _mm256_or_si256(c, d));
  uint64_t lanes[4];
  _mm256_storeu_si256((__m256i *)lanes, a);
  return lanes[0] | lanes[1] | lanes[2] | lanes[3];
}

UNWATCHED __attribute__((target("avx512f"))) static uint64_t read_avx512(const void *data,
                                                                         size_t bytes) {
  const char *p = data;
  __m512i a = _mm512_setzero_si512(), b = a, c = a, d = a;
  for (size_t i = 0; i < bytes; i += 256) {
    a = _mm512_or_si512(a, _mm512_loadu_si512(p + i));
    b = _mm512_or_si512(b, _mm512_loadu_si512(p + i + 64));
    c = _mm512_or_si512(c, _mm512_loadu_si512(p + i + 128));
    d = _mm512_or_si512(d, _mm512_loadu_si512(p + i + 192));
  }
  a = _mm512_or_si512(_mm512_or_si512(a, b), _mm512_or_si512(c, d));
  return (uint64_t)_mm512_reduce_or_epi64(a);
}

static void flush_base(void *data, size_t bytes) {
  for (char *p = data, *end = p + bytes; p < end; p += 64) _mm_clflush(p);
  _mm_mfence();
}

__attribute__((target("clflushopt"))) static void flush_opt(void *data, size_t bytes) {
  for (char *p = data, *end = p + bytes; p < end; p += 64) _mm_clflushopt(p);
  _mm_mfence();
}

void measure_loops_x86(int isa_flags, measure_loops *loops) {
  const int avx2 = ATTN_CPU_AVX2 | ATTN_CPU_FMA;
  loops->flush = flush_base;
  uint32_t eax, ebx, ecx, edx;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) && (ebx >> 23 & 1)) loops->flush = flush_opt;
  if ((isa_flags & avx2) == avx2) {
    loops->f32 = f32_avx2;
    loops->f32_flops = 12 * 8 * 2;
    loops->read = read_avx2;
  }
  if (isa_flags & ATTN_CPU_AVX512F) {
    loops->f32 = f32_avx512;
    loops->f32_flops = 16 * 16 * 2;
    loops->read = read_avx512;
    if (isa_flags & ATTN_CPU_AVX512BF16) {
      loops->bf16 = bf16_avx512;
      loops->bf16_flops = 16 * 16 * 4;
    }
  }
}
#else
void measure_loops_x86(int isa_flags, measure_loops *loops) { (void)isa_flags, (void)loops; }
#endif
