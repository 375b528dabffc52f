/* Vectors of this CPU, and the instructions that the compiler does not find by itself. */

#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))

/* ---- what this CPU offers: LANES rows of weights in one register, and `dot`: LANES sums of four products ---- */

#if defined(__ARM_FEATURE_DOTPROD)
#include <arm_neon.h>
#define LANES 4
#define VECTORS 2 /* registers of rows in a panel */
#define PARTS 2   /* registers of 32 weights of a row */
#define KERNEL "NEON dot product"
#define ADDED 0
#define ACROSS 4 /* times 4: sums that are kept in registers */
INLINE float half(const void *p) { __fp16 h; memcpy(&h, p, 2); return h; }
#elif defined(__AVX2__)
#include <immintrin.h>
#define UNSIGNED_ACTIVATIONS 1 /* the instructions multiply u8 by s8: activations are stored with 128 added */
#define ADDED 0x80
#define VECTORS 1
#define PARTS 1
#if defined(__AVX512BW__)
#define LANES 16
#define ACROSS 4
#define OF_WIDE(name) _mm512_##name
typedef __m512i wide;
#else
#define LANES 8
#define ACROSS 2
#define OF_WIDE(name) _mm256_##name
typedef __m256i wide;
#endif
#define BROADCAST(x) OF_WIDE(set1_epi32)(x)
#if defined(__AVX512VNNI__) && defined(__AVX512BW__)
#define KERNEL "AVX-512 VNNI"
#define DPBUSD(sum, a, w) _mm512_dpbusd_epi32(sum, a, w)
#elif defined(__AVXVNNI__)
#define KERNEL "AVX-VNNI"
#define DPBUSD(sum, a, w) _mm256_dpbusd_avx_epi32(sum, a, w)
#elif defined(__AVX512BW__)
#define KERNEL "AVX-512"
#else
#define KERNEL "AVX2"
#endif
INLINE float half(const void *p) { unsigned short h; memcpy(&h, p, 2); return _cvtsh_ss(h); }
#else
#error "this CPU has none of the instructions that this kernel uses"
#endif

typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES)));

INLINE floats load_floats(const float *p) { floats v; memcpy(&v, p, sizeof v); return v; }
INLINE ints load_ints(const void *p) { ints v; memcpy(&v, p, sizeof v); return v; }

typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint64_t longs __attribute__((vector_size(16)));
typedef uint8_t part __attribute__((vector_size(32 / PARTS)));
typedef int32_t part_ints __attribute__((vector_size(32 / PARTS)));
typedef float part_floats __attribute__((vector_size(32 / PARTS)));
INLINE part load_part(const uint8_t *p) { part v; memcpy(&v, p, sizeof v); return v; }
INLINE part_ints load_part_ints(const int32_t *p) { part_ints v; memcpy(&v, p, sizeof v); return v; }
INLINE bytes load_bytes(const uint8_t *p) { bytes v; memcpy(&v, p, sizeof v); return v; }
typedef int32_t four_ints __attribute__((vector_size(16)));
typedef uint32_t four_words __attribute__((vector_size(16)));
typedef float four_floats __attribute__((vector_size(16)));
INLINE four_floats load_four(const float *p) { four_floats v; memcpy(&v, p, sizeof v); return v; }

#if defined(__ARM_FEATURE_DOTPROD)
INLINE floats from_halves(const uint16_t *p) { return (floats)vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
INLINE four_floats larger(four_floats a, four_floats b) {
  return (four_floats)vmaxq_f32((float32x4_t)a, (float32x4_t)b);
}
/* The sum of each of four registers. */
INLINE four_floats sums_of(floats a, floats b, floats c, floats d) {
  const float32x4_t ab = vpaddq_f32((float32x4_t)a, (float32x4_t)b), cd = vpaddq_f32((float32x4_t)c, (float32x4_t)d);
  return (four_floats)vpaddq_f32(ab, cd);
}
#else
#if LANES == 16
INLINE floats from_halves(const uint16_t *p) { return (floats)_mm512_cvtph_ps(_mm256_loadu_si256((const void *)p)); }
#else
INLINE floats from_halves(const uint16_t *p) { return (floats)_mm256_cvtph_ps(_mm_loadu_si128((const void *)p)); }
#endif
INLINE four_floats larger(four_floats a, four_floats b) { return (four_floats)_mm_max_ps((__m128)a, (__m128)b); }
#if LANES == 16
INLINE __m256 eight_of(floats v) {
  return _mm512_castps512_ps256((__m512)v) + _mm512_extractf32x8_ps((__m512)v, 1);
}
#else
INLINE __m256 eight_of(floats v) { return (__m256)v; }
#endif
INLINE four_floats sums_of(floats a, floats b, floats c, floats d) {
  const __m256 ab = _mm256_hadd_ps(eight_of(a), eight_of(b)), cd = _mm256_hadd_ps(eight_of(c), eight_of(d));
  const __m256 all = _mm256_hadd_ps(ab, cd);
  return (four_floats)(_mm256_castps256_ps128(all) + _mm256_extractf128_ps(all, 1));
}
#endif
