/* Products of quantised weights and activations for llama.cpp, with the dot-product instructions of this CPU.

The llama.cpp of the wheel is compiled for any machine of the architecture. ggml's CPU backend asks a list of "extra
buffer types" for kernels before it uses its own; `sq_install` appends an entry to that list. Its kernel takes products
of quantised weights with f32 activations and leaves everything else to llama.cpp, whose threads it runs on.

Activations are quantised to int8 with one scale per 32 of a token, once per product. Many tokens: the weights of a
panel of rows are unpacked to int8 and used for all tokens, `TILE` at a time. Few tokens: row by row.
A weight is scale * q + min; `scale` belongs to 32 weights (to 16 in Q6_K), `min` to 32. */

#include <dlfcn.h>
#include <math.h>
#include <stdatomic.h>
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
#define KERNEL "NEON dot product"
#define ADDED 0
INLINE float half(const void *p) { __fp16 h; memcpy(&h, p, 2); return h; }
#elif defined(__AVX512VNNI__) || defined(__AVXVNNI__)
#include <immintrin.h>
#define UNSIGNED_ACTIVATIONS 1 /* the instruction multiplies u8 by s8: activations are stored with 128 added */
#define ADDED 0x80
#define VECTORS 1
#if defined(__AVX512VNNI__)
#define LANES 16
#define KERNEL "AVX-512 VNNI"
#define DPBUSD(sum, a, w) _mm512_dpbusd_epi32(sum, a, w)
#define BROADCAST(x) _mm512_set1_epi32(x)
typedef __m512i wide;
#else
#define LANES 8
#define KERNEL "AVX-VNNI"
#define DPBUSD(sum, a, w) _mm256_dpbusd_avx_epi32(sum, a, w)
#define BROADCAST(x) _mm256_set1_epi32(x)
typedef __m256i wide;
#endif
INLINE float half(const void *p) { unsigned short h; memcpy(&h, p, 2); return _cvtsh_ss(h); }
#else
#error "this CPU has no dot-product instructions that this kernel knows"
#endif

#define ROWS (LANES * VECTORS)
#define TILE 4   /* tokens computed together */
#define FEW 4    /* tokens up to which weights are not worth a panel */
#define AHEAD 1024 /* bytes of a row that are asked for before they are used */
#define CHUNK 64 /* blocks of 32 weights of a panel, so that it stays in the first cache */

typedef int32_t ints __attribute__((vector_size(4 * LANES)));
typedef float floats __attribute__((vector_size(4 * LANES)));

INLINE floats load_floats(const float *p) { floats v; memcpy(&v, p, sizeof v); return v; }
INLINE ints load_ints(const void *p) { ints v; memcpy(&v, p, sizeof v); return v; }

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

/* 32 activations; the sum of the quantised values. */
INLINE int quantise(const float *x, int8_t *q, float *scale) {
  float most = 0;
  for (int i = 0; i < 32; i++) most = fmaxf(most, fabsf(x[i]));
  const float inverse = most > 0 ? 127 / most : 0;
  int sum = 0;
  for (int i = 0; i < 32; i++) {
    const int value = (int)__builtin_rintf(x[i] * inverse);
    sum += value;
    q[i] = (int8_t)(value ^ ADDED);
  }
  *scale = most / 127;
  return sum;
}

/* One token's activations into its place in a tile. */
static void quantise_tile(const float *x, int64_t blocks, tile_block *tile, int place) {
  for (int64_t b = 0; b < blocks; b++, x += 32, tile++) {
    const int sum = quantise(x, tile->q[place], &tile->scale[place]);
    tile->sum[place] = tile->scale[place] * (float)sum;
  }
}

static void quantise_token(const float *x, int64_t blocks, token_block *to) {
  for (int64_t at = 0; at < blocks; at += 8, to++) {
    if (blocks - at < 8) memset(to, 0, sizeof *to);
    for (int64_t b = 0; b < 8 && at + b < blocks; b++, x += 32) {
      const int sum = quantise(x, to->q + 32 * b, &to->scale[b]);
      to->sum[b] = to->scale[b] * (float)sum;
      int first = 0;
      for (int i = 0; i < 16; i++) first += (int8_t)(to->q[32 * b + i] ^ ADDED);
      memset(to->start[2 * b], 0, 2 * sizeof to->start[0]);
      to->start[2 * b][0] = -32 * first;
      to->start[2 * b + 1][0] = -32 * (sum - first);
    }
  }
}

/* ---- weights: how each type of ggml stores them ---- */

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

typedef uint8_t bytes __attribute__((vector_size(16)));
typedef uint64_t longs __attribute__((vector_size(16)));
INLINE bytes load_bytes(const uint8_t *p) { bytes v; memcpy(&v, p, sizeof v); return v; }

static uint64_t FIFTH_BIT[256]; /* the eight bits of a byte, each as 16 in a byte of its own */
__attribute__((constructor)) static void fill_table(void) {
  for (int i = 0; i < 256; i++)
    for (int j = 0; j < 8; j++) FIFTH_BIT[i] |= (uint64_t)(i >> j & 1) << (8 * j + 4);
}

/* What is taken from the stored weights. */
INLINE int offset_of(int type) { return type == Q4_0 ? 8 : type == Q5_0 ? 16 : type == Q6_K ? 32 : 0; }

/* Half `h` of the 32 weights of block `b`, of the up to eight blocks that begin at `p`, with the offset still in them. */
INLINE bytes weights_of(int type, const uint8_t *p, int b, int h) {
  if (type == Q4_K || type == Q5_K) {
    const bytes packed = load_bytes(p + (type == Q4_K ? 16 : 48) + 32 * (b / 2) + 16 * h);
    const bytes low = b % 2 ? packed >> 4 : packed & 15;
    if (type == Q4_K) return low;
    const bytes high = load_bytes(p + 16 + 16 * h);
    return low | ((b < 4 ? high << (4 - b) : high >> (b - 4)) & 16);
  }
  if (type == Q6_K) {
    const bytes packed = load_bytes(p + 64 * (b / 4) + 32 * (b % 2) + 16 * h);
    const bytes high = load_bytes(p + 128 + 32 * (b / 4) + 16 * h);
    return (b % 4 > 1 ? packed >> 4 : packed & 15) | ((b % 4 < 3 ? high << (4 - 2 * (b % 4)) : high >> 2) & 48);
  }
  p += b * bytes_of(type) + (has_min(type) ? 4 : 2);
  if (type == Q8_0) return load_bytes(p + 16 * h);
  const bool five = type == Q5_0 || type == Q5_1;
  const bytes packed = load_bytes(p + (five ? 4 : 0)), low = h ? packed >> 4 : packed & 15;
  return five ? low | (bytes)(longs){FIFTH_BIT[p[2 * h]], FIFTH_BIT[p[2 * h + 1]]} : low;
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
    for (int h = 0; h < 2; h++) {
      const bytes w = weights_of(type, p, b, h) - (uint8_t)offset_of(type);
      memcpy(out->q + 32 * b + 16 * h, &w, sizeof w);
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

/* ---- many tokens ---- */

typedef struct {
  int32_t w[8][ROWS]; /* four weights each: column 4 * g + 0..3 of a row */
  float scale[2][ROWS];
  float min[ROWS];
#ifdef UNSIGNED_ACTIVATIONS
  int32_t bias[2][ROWS]; /* takes the added 128 away again */
#endif
} panel_block; /* 32 weights of ROWS rows */

INLINE void build_panel(int type, const uint8_t *weights, size_t stride, int rows, int64_t first, int blocks,
                        panel_block *panel) {
  if (rows < ROWS) memset(panel, 0, (size_t)blocks * sizeof *panel);
  for (int r = 0; r < rows; r++)
    for (int b = 0; b < blocks; b += 8) {
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
#ifdef UNSIGNED_ACTIVATIONS
        for (int h = 0; h < 2; h++) {
          int sum = 0;
          for (int i = 0; i < 16; i++) sum += u.q[32 * j + 16 * h + i];
          to->bias[h][r] = -128 * sum;
        }
#endif
      }
    }
}

/* sums[t][v] += four columns of a panel times those of token t, for both halves of a block. */
#if defined(__ARM_FEATURE_DOTPROD)
#define GROUP(g)                                                                                                      \
  for (int v = 0; v < VECTORS; v++) {                                                                                 \
    const int8x16_t w = (int8x16_t)load_ints(block->w[4 * h + g] + v * LANES);                                        \
    for (int t = 0; t < TILE; t++) sums[t][v] = (ints)vdotq_laneq_s32((int32x4_t)sums[t][v], w, a[t], g);             \
  }
#endif

INLINE void dot_half(const panel_block *block, const tile_block *tile, int h, ints sums[TILE][VECTORS]) {
#if defined(__ARM_FEATURE_DOTPROD)
  int8x16_t a[TILE];
  for (int t = 0; t < TILE; t++) a[t] = vld1q_s8(tile->q[t] + 16 * h);
  GROUP(0) GROUP(1) GROUP(2) GROUP(3)
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
    for (int t = 0; t < TILE; t++) total[t][v] += __builtin_convertvector(sums[t][v], floats) * (scale * tile->scale[t]);
  }
}

INLINE void multiply_tile(int type, const panel_block *panel, const tile_block *tile, int blocks,
                          floats total[TILE][VECTORS]) {
  for (const panel_block *end = panel + blocks; panel < end; panel++, tile++) {
    ints sums[TILE][VECTORS];
    start(panel, 0, type != Q6_K, sums);
    dot_half(panel, tile, 0, sums);
    if (type == Q6_K) {
      add_scaled(panel, tile, 0, sums, total);
      start(panel, 1, false, sums);
    }
    dot_half(panel, tile, 1, sums);
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

typedef int32_t four_ints __attribute__((vector_size(16)));
typedef uint32_t four_words __attribute__((vector_size(16)));
typedef float four_floats __attribute__((vector_size(16)));
INLINE four_floats load_four(const float *p) { four_floats v; memcpy(&v, p, sizeof v); return v; }
INLINE four_ints load_words(const int32_t *p) { four_ints v; memcpy(&v, p, sizeof v); return v; }

/* `dot4`: four sums of four products; `sum4`: of the four floats of a register. */
#if defined(__ARM_FEATURE_DOTPROD)
INLINE four_ints dot4(four_ints sum, bytes w, bytes a) {
  return (four_ints)vdotq_s32((int32x4_t)sum, (int8x16_t)w, (int8x16_t)a);
}
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
#if defined(__AVX512VNNI__) && defined(__AVX512VL__)
#define DPBUSD4 _mm_dpbusd_epi32
#else
#define DPBUSD4 _mm_dpbusd_avx_epi32
#endif
INLINE four_ints dot4(four_ints sum, bytes w, bytes a) {
  return (four_ints)DPBUSD4((__m128i)sum, (__m128i)a, (__m128i)w);
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
                       four_floats *total) {
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
      if (type != Q6_K && type != Q8_0) total[t] += min[i] * load_four(of->sum + 4 * i);
    }
  }
#pragma GCC unroll 8
  for (int b = 0; b < 8; b++) {
    const bytes one = weights_of(type, p, b, 0), two = weights_of(type, p, b, 1);
    four_ints none[2] = {0};
#ifdef UNSIGNED_ACTIVATIONS
    none[0] = -dot4((four_ints){0}, one, (bytes){0} + 128);
    none[1] = -dot4((four_ints){0}, two, (bytes){0} + 128);
#endif
#pragma GCC unroll 4
    for (int t = 0; t < tokens; t++) {
      const uint8_t *q = (const uint8_t *)a[t * apart].q + 32 * b;
      if (type == Q6_K) {
        const token_block *of = a + t * apart;
        const four_ints first = dot4(none[0] + load_words(of->start[2 * b]), one, load_bytes(q));
        const four_ints second = dot4(none[1] + load_words(of->start[2 * b + 1]), two, load_bytes(q + 16));
        total[t] += __builtin_convertvector(first, four_floats) * factor[t][b / 2][b % 2 * 2];
        total[t] += __builtin_convertvector(second, four_floats) * factor[t][b / 2][b % 2 * 2 + 1];
      } else {
        const four_ints first = dot4(none[0] + none[1], one, load_bytes(q));
        const four_ints sum = dot4(first, two, load_bytes(q + 16));
        total[t] += __builtin_convertvector(sum, four_floats) * factor[t][b / 4][b % 4];
      }
    }
  }
}

INLINE void few_rows(int type, int tokens, const product *p, int64_t first, int64_t last) {
  const size_t eight = row_bytes(type, 8);
  const int64_t apart = (p->blocks + 7) / 8;
  for (int64_t row = first; row < last; row++) {
    const uint8_t *w = p->weights + (size_t)row * p->stride;
    const token_block *a = p->activations;
    four_floats total[FEW];
    memset(total, 0, sizeof total);
    int64_t left = p->blocks;
    for (; left >= 8; left -= 8, w += eight, a++) {
      for (size_t i = 0; i < eight; i += 64) __builtin_prefetch(w + AHEAD + i);
      few_blocks(type, tokens, w, a, apart, total);
    }
    if (!is_k(type) && left) {
      uint8_t rest[8 * 34] = {0};
      memcpy(rest, w, (size_t)left * (size_t)bytes_of(type));
      few_blocks(type, tokens, rest, a, apart, total);
    }
    for (int t = 0; t < tokens; t++) p->out[t * p->out_stride + row] = sum4(total[t]);
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

/* ---- ggml: the parts of its structures that are used here, checked by `sq_install` ---- */

typedef struct tensor {
  int32_t type;
  void *buffer;
  int64_t ne[4];
  size_t nb[4];
  int32_t op;
  int32_t op_params[16];
  int32_t flags;
  struct tensor *src[10];
  struct tensor *view_src;
  size_t view_offs;
  void *data;
  char name[64];
  void *extra;
} tensor;

typedef struct {
  int ith, nth;
  size_t wsize;
  void *wdata;
  void *threadpool;
} compute_params;

typedef struct {
  void *functions[8];
  void *device;
  void *context; /* a C++ object: its first word is the address of its table of virtual functions */
} buffer_type;

enum { F32 = 0 };
static int MUL_MAT; /* the number of the operation, learnt from ggml */
static atomic_int enabled = 1;
static atomic_llong computed;
static void (*barrier)(void *);
static void (*chunk_set)(void *, int);
static int (*chunk_add)(void *, int);
static bool (*is_host)(void *buffer);

static bool supported(const tensor *op) {
  if (op->op != MUL_MAT) return false;
  const tensor *w = op->src[0], *x = op->src[1];
  if (!w || !x || w->type < 0 || w->type > Q6_K || !FUNCTIONS[w->type][0]) return false;
  return x->type == F32 && op->type == F32 && w->ne[2] == 1 && w->ne[3] == 1 && x->ne[2] == 1 && x->ne[3] == 1 &&
         w->ne[0] % (is_k(w->type) ? 256 : 32) == 0 && w->nb[0] == (size_t)bytes_of(w->type) && x->nb[0] == 4 &&
         x->nb[1] % 4 == 0 && op->nb[0] == 4 && op->nb[1] % 4 == 0 && w->ne[0] == x->ne[0] && w->ne[1] == op->ne[0] &&
         x->ne[1] == op->ne[1] && w->data &&
         (!w->buffer || is_host(w->buffer));
}

/* Bytes of the quantised activations of so many tokens. */
static size_t needed(int64_t tokens, int64_t blocks) {
  if (tokens <= FEW) return (size_t)(tokens * ((blocks + 7) / 8)) * sizeof(token_block) + 64;
  return (size_t)((tokens + TILE - 1) / TILE * blocks) * sizeof(tile_block) + 64;
}

/* Quantise those of token `t`; places of a tile without a token count as zeros. */
static void quantise_one(const float *x, int64_t t, int64_t tokens, int64_t blocks, void *to) {
  if (tokens <= FEW) {
    quantise_token(x, blocks, (token_block *)to + t * ((blocks + 7) / 8));
    return;
  }
  tile_block *tile = (tile_block *)to + t / TILE * blocks;
  if (t < tokens)
    quantise_tile(x, blocks, tile, t % TILE);
  else
    for (int64_t b = 0; b < blocks; b++) {
      memset(tile[b].q[t % TILE], 0, 32);
      tile[b].scale[t % TILE] = tile[b].sum[t % TILE] = 0;
    }
}
INLINE int64_t places(int64_t tokens) { return tokens <= FEW ? tokens : (tokens + TILE - 1) / TILE * TILE; }

static bool work_size(void *self, int threads, const tensor *op, size_t *size) {
  (void)self, (void)threads;
  *size = needed(op->src[1]->ne[1], op->src[1]->ne[0] / 32);
  return true;
}

static bool compute(void *self, const compute_params *params, tensor *op) {
  (void)self;
  const tensor *w = op->src[0], *x = op->src[1];
  const int64_t tokens = x->ne[1], blocks = w->ne[0] / 32, rows = w->ne[1];
  if (params->nth < 1 || params->ith < 0 || params->ith >= params->nth || params->wsize < needed(tokens, blocks))
    return false;
  void *room = (void *)(((uintptr_t)params->wdata + 63) & ~(uintptr_t)63);
  for (int64_t t = params->ith; t < places(tokens); t += params->nth)
    quantise_one((const float *)((const char *)x->data + (size_t)t * x->nb[1]), t, tokens, blocks, room);
  if (params->ith == 0) chunk_set(params->threadpool, params->nth);
  barrier(params->threadpool);
  const product p = {w->data, w->nb[1], blocks, room, tokens, op->data, (int64_t)(op->nb[1] / 4)};
  const rows_function function = FUNCTIONS[w->type][tokens > FEW];
  int64_t size = rows / (params->nth * 4) / ROWS * ROWS;
  size = size < ROWS ? ROWS : size > 256 ? 256 : size;
  for (int64_t i = params->ith; i * size < rows; i = chunk_add(params->threadpool, 1))
    function(&p, i * size, (i + 1) * size < rows ? (i + 1) * size : rows);
  if (params->ith == 0) atomic_fetch_add_explicit(&computed, 1, memory_order_relaxed);
  return true;
}

static void destroy(void *self) { (void)self; }
static void *const TRAITS_TABLE[] = {(void *)destroy, (void *)destroy, (void *)work_size, (void *)compute};
static struct { void *const *table; } traits = {TRAITS_TABLE};

static void *get_traits(void *self, const tensor *op) {
  (void)self;
  return atomic_load_explicit(&enabled, memory_order_relaxed) && supported(op) ? (void *)&traits : NULL;
}
static bool supports_op(void *self, void *device, const tensor *op) {
  (void)self, (void)device, (void)op;
  return false; /* no tensor is ever stored in our type of buffer */
}
static void *const TYPE_TABLE[] = {(void *)destroy, (void *)destroy, (void *)supports_op, (void *)get_traits};
static struct { void *const *table; } type_object = {TYPE_TABLE};
static buffer_type our_type;

/* ---- installation ---- */

static struct { size_t size; void *memory; bool no_alloc; } const ARENA = {1 << 20, NULL, false};

/* A small product in ggml: `run` computes it and returns the sum of its results. */
typedef struct {
  void *context, *graph;
  tensor *weights, *activations, *result;
  int (*compute)(void *, void *, int);
} trial;

static double run(const trial *t) {
  if (t->compute(t->context, t->graph, 2) != 0) return NAN;
  double sum = 0;
  for (int i = 0; i < 6; i++) sum += (i + 1) * ((const float *)t->result->data)[i];
  return sum;
}

#define FIND(variable, name)                                                                                          \
  do {                                                                                                                \
    *(void **)&(variable) = dlsym(library, name);                                                                     \
    if (!(variable)) return "this llama.cpp does not export " name;                                                   \
  } while (0)

/* Use the kernel in an opened llama.cpp, once; NULL, or why it cannot be used. Nothing is changed then. */
EXPORT const char *sq_install(void *library) {
  struct { buffer_type **begin, **end, **room; } *(*types)(void);
  buffer_type *(*repack)(void), *(*cpu_type)(void);
  void **type_table, **traits_table, *part, *(*cpu)(void), *(*procedure)(void *, const char *), *(*device)(void *, size_t);
  FIND(types, "_Z39ggml_backend_cpu_get_extra_buffer_typesv");
  FIND(repack, "_Z35ggml_backend_cpu_repack_buffer_typev");
  FIND(type_table, "_ZTVN4ggml3cpu6repack17extra_buffer_typeE");
  FIND(traits_table, "_ZTVN4ggml3cpu6repack13tensor_traitsI10block_q4_0Ll4ELl4EL9ggml_type8EEE");
  FIND(cpu_type, "ggml_backend_cpu_buffer_type");
  FIND(cpu, "ggml_backend_cpu_reg");
  FIND(procedure, "ggml_backend_reg_get_proc_address");
  FIND(device, "ggml_backend_reg_dev_get");
  FIND(barrier, "ggml_barrier");
  FIND(chunk_set, "ggml_threadpool_chunk_set");
  FIND(chunk_add, "ggml_threadpool_chunk_add");
  FIND(is_host, "ggml_backend_buffer_is_host");

  /* Virtual functions stand where ours will stand: two destructors, then these. */
  if (*(void **)repack()->context != (void *)(type_table + 2)) return "another layout of buffer types";
  FIND(part, "_ZN4ggml3cpu6repack17extra_buffer_type11supports_opEP19ggml_backend_devicePK11ggml_tensor");
  if (type_table[4] != part) return "another interface of buffer types";
  FIND(part, "_ZN4ggml3cpu6repack17extra_buffer_type17get_tensor_traitsEPK11ggml_tensor");
  if (type_table[5] != part) return "another interface of buffer types";
#define TRAITS "_ZN4ggml3cpu6repack13tensor_traitsI10block_q4_0Ll4ELl4EL9ggml_type8EE"
  FIND(part, TRAITS "9work_sizeEiPK11ggml_tensorRm");
  if (traits_table[4] != part) return "another interface of kernels";
  FIND(part, TRAITS "15compute_forwardEP19ggml_compute_paramsP11ggml_tensor");
  if (traits_table[5] != part) return "another interface of kernels";

  /* Tensors look as they do here. */
  void *(*init)(typeof(ARENA)), (*release)(void *), *(*new_graph)(void *), (*expand)(void *, tensor *);
  tensor *(*matrix)(void *, int, int64_t, int64_t), *(*mul_mat)(void *, tensor *, tensor *);
  const char *(*op_name)(int);
  trial t;
  FIND(init, "ggml_init");
  FIND(release, "ggml_free");
  FIND(matrix, "ggml_new_tensor_2d");
  FIND(mul_mat, "ggml_mul_mat");
  FIND(op_name, "ggml_op_name");
  FIND(new_graph, "ggml_new_graph");
  FIND(expand, "ggml_build_forward_expand");
  FIND(t.compute, "ggml_graph_compute_with_ctx");
  if (!(t.context = init(ARENA))) return "no memory";
  t.weights = matrix(t.context, Q8_0, 64, 3);
  t.activations = matrix(t.context, F32, 64, 2);
  t.result = mul_mat(t.context, t.weights, t.activations);
  const tensor *w = t.weights, *m = t.result;
  if (w->type != Q8_0 || w->ne[0] != 64 || w->ne[1] != 3 || w->ne[2] != 1 || w->nb[0] != 34 || w->nb[1] != 68 ||
      !w->data || !m->data || m->src[0] != w || m->src[1] != t.activations || m->ne[0] != 3 || m->ne[1] != 2 ||
      strcmp(op_name(m->op), "MUL_MAT") != 0) {
    release(t.context);
    return "another layout of tensors";
  }
  MUL_MAT = m->op;
  for (int i = 0; i < 6; i++) {
    uint8_t *block = (uint8_t *)w->data + 34 * i;
    memcpy(block, "\x00\x30", 2); /* 1/8 in sixteen bits */
    for (int j = 0; j < 32; j++) block[2 + j] = (uint8_t)(37 * i + 11 * j);
  }
  for (int i = 0; i < 128; i++) ((float *)t.activations->data)[i] = (float)(i % 19) - 9;
  t.graph = new_graph(t.context);
  expand(t.graph, t.result);
  const double theirs = run(&t);

  /* llama.cpp's loader keeps a copy of the list: it is made now, without our entry. */
  void *(*copy)(void *) = (void *(*)(void *))procedure(cpu(), "ggml_backend_dev_get_extra_bufts");
  if (copy) copy(device(cpu(), 0));
  typeof(types()) list = types();
  const size_t count = (size_t)(list->end - list->begin);
  buffer_type **entries = malloc((count + 1) * sizeof *entries);
  if (!entries) {
    release(t.context);
    return "no memory";
  }
  memcpy(entries, list->begin, count * sizeof *entries);
  our_type = *cpu_type();
  our_type.context = &type_object;
  entries[count] = &our_type;
  list->begin = entries;
  list->end = list->room = entries + count + 1;
  const double ours = run(&t);
  release(t.context);
  if (computed == 1 && fabs(ours - theirs) < 0.01 * fabs(theirs)) return NULL;
  list->end--;
  return "another way of computing products";
}

/* Whether products are computed here from now on; only between passes. */
EXPORT void sq_enable(int on) { atomic_store(&enabled, on); }
/* Products computed here since the start. */
EXPORT long long sq_computed(void) { return atomic_load(&computed); }
EXPORT const char *sq_name(void) { return KERNEL; }

/* One product on one thread, for tests: out[tokens][rows] of contiguous weights; 0, or -1 for what is not supported. */
EXPORT int sq_multiply(int type, const void *weights, int64_t columns, int64_t rows, const float *x, int64_t tokens,
                       float *out) {
  if (type < 0 || type > Q6_K || !FUNCTIONS[type][0] || columns % (is_k(type) ? 256 : 32)) return -1;
  const int64_t blocks = columns / 32;
  void *all = aligned_alloc(64, (needed(tokens, blocks) + 63) / 64 * 64);
  if (!all) return -1;
  for (int64_t t = 0; t < places(tokens); t++) quantise_one(x + t * columns, t, tokens, blocks, all);
  const product p = {weights, row_bytes(type, blocks), blocks, all, tokens, out, rows};
  FUNCTIONS[type][tokens > FEW](&p, 0, rows);
  free(all);
  return 0;
}
