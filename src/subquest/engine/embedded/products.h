/* Products of quantised weights and activations, with what this CPU offers for products of bytes.

Activations are quantised to int8 with one scale per 32 of a token, once per product. Many tokens: the weights of a
panel of rows are unpacked to int8 and used for all tokens, `TILE` at a time. Few tokens: row by row. */

#pragma once

#include "weights.h"

#define ROWS (LANES * VECTORS)
#define TILE 4     /* tokens computed together */
#define FEW 4      /* tokens up to which weights are not worth a panel */
#define AHEAD 1024 /* bytes of a row that are asked for before they are used */
#define CHUNK 64   /* blocks of 32 weights of a panel, so that it stays in the first cache */

/* ---- activations ---- */

typedef struct {
  int8_t q[TILE][32];
  float scale[TILE];
  float sum[TILE]; /* of the 32 quantised values, times their scale */
} tile_block;      /* 32 activations of TILE tokens */

typedef struct {
  int8_t q[256];
  float scale[8];
  float sum[8];
  int32_t start[16][4]; /* -32 times the sum of each 16 quantised values, and zeros: what Q6_K's offset adds */
} token_block;          /* 256 activations of a token */

/* 32 activations, with `added` to the bits of each; the sum of the quantised values. */
INLINE int quantise(const float *x, int8_t *q, float *scale, int added) {
  float most = 0;
  for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
  const float inverse = most > 0 ? 127 / most : 0;
  int sum = 0;
  for (int i = 0; i < 32; i++) {
    const int value = (int)__builtin_rintf(x[i] * inverse);
    sum += value;
    q[i] = (int8_t)(value ^ added);
  }
  *scale = most / 127;
  return sum;
}

/* One token's activations into its place in a tile. */
static void quantise_tile(const float *x, int64_t blocks, tile_block *tile, int place) {
  for (int64_t b = 0; b < blocks; b++, x += 32, tile++) {
    const int sum = quantise(x, tile->q[place], &tile->scale[place], ADDED);
    tile->sum[place] = tile->scale[place] * (float)sum;
  }
}

static void quantise_token(const float *x, int64_t blocks, token_block *to) {
  for (int64_t at = 0; at < blocks; at += 8, to++) {
    if (blocks - at < 8) memset(to, 0, sizeof *to);
    for (int64_t b = 0; b < 8 && at + b < blocks; b++, x += 32) {
      const int sum = quantise(x, to->q + 32 * b, &to->scale[b], 0);
      to->sum[b] = to->scale[b] * (float)sum;
      int first = 0;
      for (int i = 0; i < 16; i++) first += to->q[32 * b + i];
      memset(to->start[2 * b], 0, 2 * sizeof to->start[0]);
      to->start[2 * b][0] = -32 * first;
      to->start[2 * b + 1][0] = -32 * (sum - first);
    }
  }
}

/* ---- many tokens ---- */

typedef struct {
  int32_t w[8][ROWS]; /* four weights each: column 4 * g + 0..3 of a row */
  float scale[2][ROWS];
  float min[ROWS];
#ifdef UNSIGNED_ACTIVATIONS
  int32_t bias[2][ROWS]; /* takes the added 128 away again */
#endif
} panel_block; /* 32 weights of ROWS rows */

#ifdef UNSIGNED_ACTIVATIONS
/* -128 times the sum of each row's four weights of a group, four groups together. */
INLINE void fill_bias(panel_block *block) {
  for (int h = 0; h < 2; h++) {
    ints sum = {0};
    for (int g = 4 * h; g < 4 * h + 4; g++) {
      const wide w = (wide)load_ints(block->w[g]);
      const wide pairs = OF_WIDE(maddubs_epi16)(OF_WIDE(set1_epi8)(1), w);
      sum += (ints)OF_WIDE(madd_epi16)(pairs, OF_WIDE(set1_epi16)(-128));
    }
    memcpy(block->bias[h], &sum, sizeof sum);
  }
}
#endif

INLINE void build_panel(int type, const uint8_t *weights, size_t stride, int rows, int64_t first, int blocks,
                        panel_block *panel) {
  if (rows < ROWS) memset(panel, 0, (size_t)blocks * sizeof *panel);
  for (int b = 0; b < blocks; b += 8)
    for (int r = 0; r < rows; r++) {
      unpacked u;
      const int n = blocks - b < 8 ? blocks - b : 8;
      unpack(type, weights + (size_t)r * stride + row_bytes(type, first + b), n, &u);
      for (int j = 0; j < n; j++) {
        panel_block *to = panel + b + j;
        int32_t group[8];
        memcpy(group, u.q + 32 * j, 32);
        for (int g = 0; g < 8; g++) to->w[g][r] = group[g];
        to->scale[0][r] = type == Q6_K ? u.scale[2 * j] : u.scale[j];
        if (type == Q6_K) to->scale[1][r] = u.scale[2 * j + 1];
        if (has_min(type)) to->min[r] = u.min[j];
      }
    }
#ifdef UNSIGNED_ACTIVATIONS
  for (int b = 0; b < blocks; b++) fill_bias(panel + b);
#endif
}

/* Without an instruction for sums of four products: pairs of products are added in 16 bits, for as many groups of four
columns as cannot overflow there. A weight of eight bits would overflow at once: half of it and its last bit are
multiplied apart. */
#if defined(UNSIGNED_ACTIVATIONS) && !defined(DPBUSD)
#define PAIRS 1
INLINE int groups_in_16_bits(int type) { return type == Q4_0 || type == Q4_1 || type == Q5_0 || type == Q4_K ? 4 : 2; }
#endif

/* sums[t][v] += four columns of a panel times those of token t, for both halves of a block. */
#if defined(__ARM_FEATURE_DOTPROD)
#define GROUP(g)                                                                                                      \
  for (int v = 0; v < VECTORS; v++) {                                                                                 \
    const int8x16_t w = (int8x16_t)load_ints(block->w[4 * h + g] + v * LANES);                                        \
    for (int t = 0; t < TILE; t++) sums[t][v] = (ints)vdotq_laneq_s32((int32x4_t)sums[t][v], w, a[t], g);             \
  }
#endif

INLINE void dot_half(int type, const panel_block *block, const tile_block *tile, int h, ints sums[TILE][VECTORS]) {
  (void)type;
#if defined(__ARM_FEATURE_DOTPROD)
  int8x16_t a[TILE];
  for (int t = 0; t < TILE; t++) a[t] = vld1q_s8(tile->q[t] + 16 * h);
  GROUP(0) GROUP(1) GROUP(2) GROUP(3)
#elif defined(PAIRS)
  const wide ones = OF_WIDE(set1_epi16)(1), twos = OF_WIDE(set1_epi16)(2);
  const int together = groups_in_16_bits(type);
#pragma GCC unroll 2
  for (int first = 4 * h; first < 4 * h + 4; first += together) {
    wide pairs[TILE] = {0};
#pragma GCC unroll 4
    for (int g = first; g < first + together; g++) {
      wide w = (wide)load_ints(block->w[g]), last;
      if (type == Q8_0) {
        last = (wide)((ints)w & 0x01010101);
        w = OF_WIDE(sub_epi8)((wide)(((ints)w >> 1 & 0x7f7f7f7f) ^ 0x40404040), OF_WIDE(set1_epi8)(0x40));
      }
#pragma GCC unroll 8
      for (int t = 0; t < TILE; t++) {
        int32_t four;
        memcpy(&four, tile->q[t] + 4 * g, 4);
        const wide a = BROADCAST(four), products = OF_WIDE(maddubs_epi16)(a, w);
        if (type == Q8_0) {
          sums[t][0] += (ints)OF_WIDE(madd_epi16)(products, twos);
          pairs[t] = OF_WIDE(add_epi16)(pairs[t], OF_WIDE(maddubs_epi16)(a, last));
        } else
          pairs[t] = OF_WIDE(add_epi16)(pairs[t], products);
      }
    }
    for (int t = 0; t < TILE; t++) sums[t][0] += (ints)OF_WIDE(madd_epi16)(pairs[t], ones);
  }
#else
  for (int g = 4 * h; g < 4 * h + 4; g++)
    for (int v = 0; v < VECTORS; v++) {
      const wide w = (wide)load_ints(block->w[g] + v * LANES);
      for (int t = 0; t < TILE; t++) {
        int32_t four;
        memcpy(&four, tile->q[t] + 4 * g, 4);
        sums[t][v] = (ints)DPBUSD((wide)sums[t][v], BROADCAST(four), w);
      }
    }
#endif
}

INLINE void start(const panel_block *block, int h, bool both, ints sums[TILE][VECTORS]) {
  for (int t = 0; t < TILE; t++)
    for (int v = 0; v < VECTORS; v++) {
#ifdef UNSIGNED_ACTIVATIONS
      sums[t][v] = load_ints(block->bias[h] + v * LANES);
      if (both) sums[t][v] += load_ints(block->bias[1] + v * LANES);
#else
      sums[t][v] = (ints){0};
#endif
    }
  (void)block, (void)h, (void)both;
}

INLINE void add_scaled(const panel_block *block, const tile_block *tile, int h, const ints sums[TILE][VECTORS],
                       floats total[TILE][VECTORS]) {
  for (int v = 0; v < VECTORS; v++) {
    const floats scale = load_floats(block->scale[h] + v * LANES);
    for (int t = 0; t < TILE; t++)
      total[t][v] += __builtin_convertvector(sums[t][v], floats) * (scale * tile->scale[t]);
  }
}

INLINE void multiply_tile(int type, const panel_block *panel, const tile_block *tile, int blocks,
                          floats total[TILE][VECTORS]) {
  for (const panel_block *end = panel + blocks; panel < end; panel++, tile++) {
    ints sums[TILE][VECTORS];
    start(panel, 0, type != Q6_K, sums);
    dot_half(type, panel, tile, 0, sums);
    if (type == Q6_K) {
      add_scaled(panel, tile, 0, sums, total);
      start(panel, 1, false, sums);
    }
    dot_half(type, panel, tile, 1, sums);
    add_scaled(panel, tile, type == Q6_K, sums, total);
    if (has_min(type))
      for (int v = 0; v < VECTORS; v++) {
        const floats min = load_floats(panel->min + v * LANES);
        for (int t = 0; t < TILE; t++) total[t][v] += min * tile->sum[t];
      }
  }
}

typedef struct {
  const uint8_t *weights;
  size_t stride; /* bytes from row to row */
  int64_t blocks; /* of 32 weights in a row */
  const void *activations; /* up to FEW tokens: token_block, token by token; else tile_block, tile by tile */
  int64_t tokens;
  float *out;
  int64_t out_stride; /* floats from token to token */
} product;

INLINE void many(int type, const product *p, int64_t first, int64_t last) {
  panel_block panel[CHUNK];
  for (int64_t at = 0; at < p->blocks; at += CHUNK) {
    const int blocks = (int)(p->blocks - at < CHUNK ? p->blocks - at : CHUNK);
    for (int64_t row = first; row < last; row += ROWS) {
      const int rows = (int)(last - row < ROWS ? last - row : ROWS);
      build_panel(type, p->weights + (size_t)row * p->stride, p->stride, rows, at, blocks, panel);
      for (int64_t token = 0; token < p->tokens; token += TILE) {
        floats total[TILE][VECTORS];
        memset(total, 0, sizeof total);
        multiply_tile(type, panel, (const tile_block *)p->activations + token / TILE * p->blocks + at, blocks, total);
        for (int t = 0; t < TILE && token + t < p->tokens; t++) {
          float *out = p->out + (token + t) * p->out_stride + row, found[ROWS] = {0};
          const size_t size = rows == ROWS ? sizeof found : (size_t)rows * sizeof *found;
          if (at) memcpy(found, out, size);
          for (int v = 0; v < VECTORS; v++) {
            total[t][v] += load_floats(found + v * LANES);
            memcpy(found + v * LANES, &total[t][v], sizeof total[t][v]);
          }
          memcpy(out, found, size);
        }
      }
    }
  }
}

/* ---- few tokens: row by row, weights stay in registers ---- */

/* `dot_part`: sums of four products of a part of 32 weights, which are signed in Q8_0 alone; `sum4`: of the four floats of
a register. */
#if defined(__ARM_FEATURE_DOTPROD)
INLINE part_ints dot_part(int type, part_ints sum, part w, part a) {
  (void)type;
  return (part_ints)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)a);
}
INLINE part_floats twice(float a, float b) { (void)b; return (part_floats){0} + a; }
INLINE four_floats four_of(part_floats v) { return v; }
INLINE float sum4(four_floats v) { return vaddvq_f32((float32x4_t)v); }
INLINE four_floats four_halves(const uint8_t *p, int stride) {
  uint16x4_t all = vdup_n_u16(0);
  all = vld1_lane_u16((const uint16_t *)p, all, 0);
  all = vld1_lane_u16((const uint16_t *)(p + stride), all, 1);
  all = vld1_lane_u16((const uint16_t *)(p + 2 * stride), all, 2);
  all = vld1_lane_u16((const uint16_t *)(p + 3 * stride), all, 3);
  return (four_floats)vcvt_f32_f16((float16x4_t)all);
}
#else
INLINE part_ints dot_part(int type, part_ints sum, part w, part a) {
  __m256i of = (__m256i)w, by = (__m256i)a;
  if (type == Q8_0) { /* the sign of a weight goes to its activation */
    by = _mm256_sign_epi8(by, of);
    of = _mm256_abs_epi8(of);
  }
#if defined(PAIRS)
  return sum + (part_ints)_mm256_madd_epi16(_mm256_maddubs_epi16(of, by), _mm256_set1_epi16(1));
#elif defined(__AVX512VNNI__) && defined(__AVX512VL__)
  return (part_ints)_mm256_dpbusd_epi32((__m256i)sum, of, by);
#else
  return (part_ints)_mm256_dpbusd_avx_epi32((__m256i)sum, of, by);
#endif
}
INLINE part_floats twice(float a, float b) { return (part_floats){a, a, a, a, b, b, b, b}; }
INLINE four_floats four_of(part_floats v) {
  return (four_floats)(_mm256_castps256_ps128((__m256)v) + _mm256_extractf128_ps((__m256)v, 1));
}
INLINE float sum4(four_floats v) { return v[0] + v[1] + v[2] + v[3]; }
INLINE four_floats four_halves(const uint8_t *p, int stride) {
  uint16_t h[4];
  for (int i = 0; i < 4; i++) memcpy(h + i, p + i * stride, 2);
  return (four_floats)_mm_cvtph_ps(_mm_setr_epi16((short)h[0], (short)h[1], (short)h[2], (short)h[3], 0, 0, 0, 0));
}
#endif

/* Four bytes as floats. */
INLINE four_floats four_bytes(uint32_t word, bool is_signed) {
  const four_words all = (four_words){0} + word;
  if (is_signed) return __builtin_convertvector((four_ints)(all << (four_words){24, 16, 8, 0}) >> 24, four_floats);
  return __builtin_convertvector((four_ints)(all >> (four_words){0, 8, 16, 24} & 255), four_floats);
}
INLINE uint32_t word_at(const uint8_t *p) { uint32_t w; memcpy(&w, p, sizeof w); return w; }

/* Scales (16 in Q6_K) and minimums of eight blocks. */
INLINE void eight_scales(int type, const uint8_t *p, four_floats scale[4], four_floats min[2]) {
  if (type == Q6_K)
    for (int i = 0; i < 4; i++) scale[i] = four_bytes(word_at(p + 192 + 4 * i), true) * half(p + 208);
  else if (is_k(type)) {
    const uint32_t one = word_at(p + 4), two = word_at(p + 8), three = word_at(p + 12);
    scale[0] = four_bytes(one & 0x3f3f3f3f, false) * half(p);
    scale[1] = four_bytes((three & 0x0f0f0f0f) | (one >> 2 & 0x30303030), false) * half(p);
    min[0] = four_bytes(two & 0x3f3f3f3f, false) * -half(p + 2);
    min[1] = four_bytes((three >> 4 & 0x0f0f0f0f) | (two >> 2 & 0x30303030), false) * -half(p + 2);
  } else
    for (int i = 0; i < 2; i++, p += 4 * bytes_of(type)) {
      scale[i] = four_halves(p, bytes_of(type));
      min[i] = has_min(type) ? four_halves(p + 2, bytes_of(type)) : scale[i] * (float)-offset_of(type);
    }
}

INLINE void few_blocks(int type, int tokens, const uint8_t *p, const token_block *a, int64_t apart,
                       part_floats *total, four_floats *offset) {
  four_floats scale[4], min[2], factor[FEW][4];
  eight_scales(type, p, scale, min);
  for (int t = 0; t < tokens; t++) {
    const token_block *of = a + t * apart;
    for (int i = 0; i < 2; i++) {
      const four_floats by = load_four(of->scale + 4 * i);
      if (type == Q6_K) {
        factor[t][2 * i] = scale[2 * i] * (four_floats){by[0], by[0], by[1], by[1]};
        factor[t][2 * i + 1] = scale[2 * i + 1] * (four_floats){by[2], by[2], by[3], by[3]};
      } else
        factor[t][i] = scale[i] * by;
      if (type != Q6_K && type != Q8_0) offset[t] += min[i] * load_four(of->sum + 4 * i);
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < 8; b++) {
    part w[PARTS];
    for (int i = 0; i < PARTS; i++) w[i] = part_of(type, p, b, i);
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) {
      const token_block *of = a + t * apart;
      part_ints sum = {0};
      for (int i = 0; i < PARTS; i++) {
        if (type == Q6_K) sum = load_part_ints(&of->start[2 * b + i][0]);
        sum = dot_part(type, sum, w[i], load_part((const uint8_t *)of->q + 32 * b + i * (int)sizeof(part)));
        const four_floats by = factor[t][b / 2];
        if (type == Q6_K)
          total[t] += __builtin_convertvector(sum, part_floats) * twice(by[b % 2 * 2 + i], by[b % 2 * 2 + 1]);
      }
      if (type != Q6_K) total[t] += __builtin_convertvector(sum, part_floats) * factor[t][b / 4][b % 4];
    }
  }
}

INLINE void few_rows(int type, int tokens, const product *p, int64_t first, int64_t last) {
  const size_t eight = row_bytes(type, 8);
  const int64_t apart = (p->blocks + 7) / 8;
  for (int64_t row = first; row < last; row++) {
    const uint8_t *w = p->weights + (size_t)row * p->stride;
    const token_block *a = p->activations;
    part_floats total[FEW];
    four_floats offset[FEW];
    memset(total, 0, sizeof total);
    memset(offset, 0, sizeof offset);
    int64_t left = p->blocks;
    for (; left >= 8; left -= 8, w += eight, a++) {
      for (size_t i = 0; i < eight; i += 64) __builtin_prefetch(w + AHEAD + i);
      few_blocks(type, tokens, w, a, apart, total, offset);
    }
    if (!is_k(type) && left) {
      uint8_t rest[8 * 34] = {0};
      memcpy(rest, w, (size_t)left * (size_t)bytes_of(type));
      few_blocks(type, tokens, rest, a, apart, total, offset);
    }
    for (int t = 0; t < tokens; t++) p->out[t * p->out_stride + row] = sum4(four_of(total[t]) + offset[t]);
  }
}

INLINE void few(int type, const product *p, int64_t first, int64_t last) {
  switch (p->tokens) {
  case 1: few_rows(type, 1, p, first, last); break;
  case 2: few_rows(type, 2, p, first, last); break;
  case 3: few_rows(type, 3, p, first, last); break;
  default: few_rows(type, FEW, p, first, last);
  }
}

#define OF_TYPE(type)                                                                                                 \
  static void few_##type(const product *p, int64_t first, int64_t last) { few(type, p, first, last); }                \
  static void many_##type(const product *p, int64_t first, int64_t last) { many(type, p, first, last); }
OF_TYPE(Q4_0) OF_TYPE(Q4_1) OF_TYPE(Q5_0) OF_TYPE(Q5_1) OF_TYPE(Q8_0) OF_TYPE(Q4_K) OF_TYPE(Q5_K) OF_TYPE(Q6_K)

typedef void (*rows_function)(const product *, int64_t first, int64_t last);
static const rows_function FUNCTIONS[][2] = {
    [Q4_0] = {few_Q4_0, many_Q4_0}, [Q4_1] = {few_Q4_1, many_Q4_1}, [Q5_0] = {few_Q5_0, many_Q5_0},
    [Q5_1] = {few_Q5_1, many_Q5_1}, [Q8_0] = {few_Q8_0, many_Q8_0}, [Q4_K] = {few_Q4_K, many_Q4_K},
    [Q5_K] = {few_Q5_K, many_Q5_K}, [Q6_K] = {few_Q6_K, many_Q6_K},
};
