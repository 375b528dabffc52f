/* Quantised weights, as each type of ggml stores them.

A weight is scale * q + min; `scale` belongs to 32 weights (to 16 in Q6_K), `min` to 32. */

#pragma once

#include "cpu.h"

enum { Q4_0 = 2, Q4_1 = 3, Q5_0 = 6, Q5_1 = 7, Q8_0 = 8, Q4_K = 12, Q5_K = 13, Q6_K = 14 };

typedef struct {
  int8_t q[256];
  float scale[16]; /* one per 32 weights; in Q6_K one per 16 */
  float min[8];
} unpacked; /* up to 256 weights of a row */

INLINE int bytes_of(int type) { /* of a block */
  switch (type) {
  case Q4_0: return 18;
  case Q4_1: return 20;
  case Q5_0: return 22;
  case Q5_1: return 24;
  case Q8_0: return 34;
  case Q4_K: return 144;
  case Q5_K: return 176;
  case Q6_K: return 210;
  default: return 0;
  }
}
INLINE bool is_k(int type) { return type >= Q4_K; } /* blocks of 256 weights, else of 32 */
INLINE bool has_min(int type) { return type == Q4_1 || type == Q5_1 || type == Q4_K || type == Q5_K; }
INLINE size_t row_bytes(int type, int64_t blocks) { /* of 32 weights */
  return (size_t)(is_k(type) ? blocks / 8 : blocks) * (size_t)bytes_of(type);
}

static uint64_t FIFTH_BIT[256]; /* the eight bits of a byte, each as 16 in a byte of its own */
__attribute__((constructor)) static void fill_table(void) {
  for (int i = 0; i < 256; i++)
    for (int j = 0; j < 8; j++) FIFTH_BIT[i] |= (uint64_t)(i >> j & 1) << (8 * j + 4);
}

/* What is taken from the stored weights. */
INLINE int offset_of(int type) { return type == Q4_0 ? 8 : type == Q5_0 ? 16 : type == Q6_K ? 32 : 0; }

/* Part `i` of the 32 weights of block `b`, of the eight blocks of a K type that begin at `p`. */
INLINE part k_part_of(int type, const uint8_t *p, int b, int i) {
  const int at = i * (int)sizeof(part);
  if (type == Q4_K || type == Q5_K) {
    const part packed = load_part(p + (type == Q4_K ? 16 : 48) + 32 * (b / 2) + at);
    const part low = b % 2 ? packed >> 4 : packed & 15;
    if (type == Q4_K) return low;
    const part high = load_part(p + 16 + at);
    return low | ((b < 4 ? high << (4 - b) : high >> (b - 4)) & 16);
  }
  const part packed = load_part(p + 64 * (b / 4) + 32 * (b % 2) + at);
  const part high = load_part(p + 128 + 32 * (b / 4) + at);
  return (b % 4 > 1 ? packed >> 4 : packed & 15) | ((b % 4 < 3 ? high << (4 - 2 * (b % 4)) : high >> 2) & 48);
}

/* Half `h` of block `b` of another type. */
INLINE bytes half_of(int type, const uint8_t *p, int b, int h) {
  p += b * bytes_of(type) + (has_min(type) ? 4 : 2);
  if (type == Q8_0) return load_bytes(p + 16 * h);
  const bool five = type == Q5_0 || type == Q5_1;
  const bytes packed = load_bytes(p + (five ? 4 : 0)), low = h ? packed >> 4 : packed & 15;
  return five ? low | (bytes)(longs){FIFTH_BIT[p[2 * h]], FIFTH_BIT[p[2 * h + 1]]} : low;
}

/* Part `i` of block `b`, of the up to eight blocks that begin at `p`; the offset is still in the weights. */
INLINE part part_of(int type, const uint8_t *p, int b, int i) {
  if (is_k(type)) return k_part_of(type, p, b, i);
#if PARTS == 2
  return half_of(type, p, b, i);
#else
  return (part)_mm256_set_m128i((__m128i)half_of(type, p, b, 1), (__m128i)half_of(type, p, b, 0));
#endif
}

/* Scale and minimum of the eight parts of a Q4_K or Q5_K block: six bits each in twelve bytes. */
INLINE void k_scales(const uint8_t *block, unpacked *out) {
  const float scale = half(block), min = half(block + 2);
  const uint8_t *s = block + 4;
  for (int j = 0; j < 4; j++) {
    out->scale[j] = scale * (s[j] & 63);
    out->min[j] = -min * (s[j + 4] & 63);
    out->scale[j + 4] = scale * ((s[j + 8] & 15) | s[j] >> 6 << 4);
    out->min[j + 4] = -min * (s[j + 8] >> 4 | s[j + 4] >> 6 << 4);
  }
}

/* `blocks` (at most 8, and 8 of the K types) blocks of 32 weights. */
INLINE void unpack(int type, const uint8_t *p, int blocks, unpacked *out) {
  const int count = is_k(type) ? 8 : blocks;
#pragma GCC unroll 8
  for (int b = 0; b < count; b++)
#pragma GCC unroll 2
    for (int i = 0; i < PARTS; i++) {
      const part w = part_of(type, p, b, i) - (uint8_t)offset_of(type);
      memcpy(out->q + 32 * b + i * (int)sizeof w, &w, sizeof w);
    }
  if (type == Q4_K || type == Q5_K)
    k_scales(p, out);
  else if (type == Q6_K)
    for (int i = 0; i < 16; i++) out->scale[i] = half(p + 208) * (int8_t)p[192 + i];
  else
    for (int b = 0; b < blocks; b++, p += bytes_of(type)) {
      out->scale[b] = half(p);
      if (has_min(type)) out->min[b] = half(p + 2);
    }
}
