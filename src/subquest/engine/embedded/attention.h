/* Attention over keys and values of 16 bits, computed in 32.

Queries that share keys (the heads of a group, of several tokens) are taken `QUERIES` at a time through the positions,
`POSITIONS` at a time, so that converted keys and values stay in the first cache and serve all of them. Four queries lie
in one register, from their scores to their sums; positions that none of them may see are skipped. */

#pragma once

#include "cpu.h"

#define QUERIES 32
#define POSITIONS 32
#define HEAD 128 /* the largest size of a head */

typedef struct {
  const char *q, *k, *v, *mask; /* f32, f16, f16, f16; no mask: every position is seen */
  char *out;
  size_t q_token, q_head, k_position, k_head, v_position, v_head, mask_token, out_token, out_head; /* bytes apart */
  int64_t tokens, positions, group; /* heads that share keys */
  int size;                         /* of a head: 64 or 128 */
  float scale;
} attention;

INLINE bool attends(int64_t size) { return size == 64 || size == 128; }

/* e to the power of x <= 0, exactly zero where a float has no room for it. */
INLINE four_floats power(four_floats x) {
  const four_ints some = x > -87;
  const four_floats shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f;
  const four_floats r = x - n * 0.693359375f + n * 2.12194440e-4f;
  four_floats p = r * 1.9875691500e-4f + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1;
  return (four_floats)(((four_ints)p + ((four_ints)shifted << 23)) & some);
}

/* scores[j][i] of four queries and `POSITIONS` keys. */
INLINE void score(int size, const float *q, const float *k, four_floats *scores) {
  for (int j = 0; j < POSITIONS; j += ACROSS, k += ACROSS * size) {
    floats sums[ACROSS][4];
    memset(sums, 0, sizeof sums);
    for (int d = 0; d < size; d += LANES) {
      floats a[4];
      for (int i = 0; i < 4; i++) a[i] = load_floats(q + i * size + d);
      for (int y = 0; y < ACROSS; y++) {
        const floats b = load_floats(k + y * size + d);
        for (int x = 0; x < 4; x++) sums[y][x] += b * a[x];
      }
    }
    for (int y = 0; y < ACROSS; y++) scores[j + y] = sums_of(sums[y][0], sums[y][1], sums[y][2], sums[y][3]);
  }
}

/* out[i] of four queries += weights[j][i] * v[j]. */
INLINE void mix(int size, const four_floats *weights, const float *v, float *out) {
  for (int d = 0; d < size; d += ACROSS * LANES) {
    floats sums[4][ACROSS];
    for (int i = 0; i < 4; i++)
      for (int x = 0; x < ACROSS; x++) sums[i][x] = load_floats(out + i * size + d + x * LANES);
    for (int j = 0; j < POSITIONS; j++)
      for (int x = 0; x < ACROSS; x++) {
        const floats of = load_floats(v + j * size + d + x * LANES);
        for (int i = 0; i < 4; i++) sums[i][x] += of * weights[j][i];
      }
    for (int i = 0; i < 4; i++)
      for (int x = 0; x < ACROSS; x++) memcpy(out + i * size + d + x * LANES, &sums[i][x], sizeof sums[i][x]);
  }
}

enum { NONE, SOME, ALL };

/* Which of the `count` positions from `at` the tokens may see; SOME where the mask has other values too. */
INLINE int seen(const attention *a, int64_t at, int count, int64_t first, int64_t last) {
  if (!a->mask) return count == POSITIONS ? ALL : SOME;
  bool none = true, all = count == POSITIONS;
  for (int64_t t = first; t <= last && (none || all); t++) {
    uint16_t row[POSITIONS];
    memcpy(row, a->mask + (size_t)t * a->mask_token + 2 * (size_t)at, 2 * (size_t)count);
    for (int j = 0; j < count; j++) none &= row[j] == 0xfc00, all &= (row[j] & 0x7fff) == 0;
  }
  return none ? NONE : all ? ALL : SOME;
}

INLINE void floats_from(int size, const char *from, size_t apart, int count, float *to) {
  for (int j = 0; j < POSITIONS; j++, to += size)
    for (int d = 0; d < size; d += LANES) {
      const floats v = j < count ? from_halves((const uint16_t *)(from + (size_t)j * apart) + d) : (floats){0};
      memcpy(to + d, &v, sizeof v);
    }
}

/* Queries `first` to `first + count` of the heads that share keys `h`: all heads of a token, then of the next. */
INLINE void attend_some(int size, const attention *a, int64_t h, int64_t first, int count) {
  float q[QUERIES * HEAD], out[QUERIES * HEAD], k[POSITIONS * HEAD], v[POSITIONS * HEAD];
  four_floats most[QUERIES / 4], sum[QUERIES / 4];
  const int packs = (count + 3) / 4;
  const int64_t first_token = first / a->group, last_token = (first + count - 1) / a->group;
  memset(q, 0, sizeof *q * (size_t)(packs * 4 * size));
  memset(out, 0, sizeof *out * (size_t)(packs * 4 * size));
  for (int i = 0; i < count; i++) {
    const int64_t token = (first + i) / a->group, head = h * a->group + (first + i) % a->group;
    const float *from = (const float *)(a->q + (size_t)token * a->q_token + (size_t)head * a->q_head);
    for (int d = 0; d < size; d++) q[i * size + d] = from[d] * a->scale;
  }
  for (int p = 0; p < packs; p++) most[p] = (four_floats){0} - 1e30f, sum[p] = (four_floats){0};

  for (int64_t at = 0; at < a->positions; at += POSITIONS) {
    const int here = a->positions - at < POSITIONS ? (int)(a->positions - at) : POSITIONS;
    const int visible = seen(a, at, here, first_token, last_token);
    if (visible == NONE) continue;
    floats_from(size, a->k + (size_t)h * a->k_head + (size_t)at * a->k_position, a->k_position, here, k);
    floats_from(size, a->v + (size_t)h * a->v_head + (size_t)at * a->v_position, a->v_position, here, v);
    for (int p = 0; p < packs; p++) {
      four_floats scores[POSITIONS], top = most[p];
      score(size, q + p * 4 * size, k, scores);
      if (visible == SOME)
        for (int i = 0; i < 4; i++) {
          const int64_t query = first + p * 4 + i, token = query / a->group;
          const char *mask = a->mask + (size_t)(token < a->tokens ? token : 0) * a->mask_token + 2 * (size_t)at;
          for (int j = 0; j < POSITIONS; j++)
            scores[j][i] += j >= here ? -INFINITY : a->mask ? half(mask + 2 * j) : 0;
        }
      for (int j = 0; j < POSITIONS; j++) top = larger(top, scores[j]);
      const four_floats less = power(most[p] - top);
      most[p] = top;
      sum[p] *= less;
      for (int j = 0; j < POSITIONS; j++) {
        scores[j] = power(scores[j] - top);
        sum[p] += scores[j];
      }
      float *of = out + p * 4 * size;
      if (less[0] < 1 || less[1] < 1 || less[2] < 1 || less[3] < 1)
        for (int i = 0; i < 4; i++)
          for (int d = 0; d < size; d++) of[i * size + d] *= less[i];
      mix(size, scores, v, of);
    }
  }
  for (int i = 0; i < count; i++) {
    const int64_t token = (first + i) / a->group, head = h * a->group + (first + i) % a->group;
    const float all = sum[i / 4][i % 4], share = all > 0 ? 1 / all : 0;
    float *to = (float *)(a->out + (size_t)token * a->out_token + (size_t)head * a->out_head);
    for (int d = 0; d < size; d++) to[d] = out[i * size + d] * share;
  }
}

static void attend_64(const attention *a, int64_t h, int64_t first, int n) { attend_some(64, a, h, first, n); }
static void attend_128(const attention *a, int64_t h, int64_t first, int n) { attend_some(128, a, h, first, n); }

/* Parts of the work on the heads that share keys: parts of `QUERIES` queries. */
INLINE int64_t attention_parts(const attention *a) { return (a->tokens * a->group + QUERIES - 1) / QUERIES; }

static void attend(const attention *a, int64_t part) {
  const int64_t parts = attention_parts(a), first = part % parts * QUERIES, left = a->tokens * a->group - first;
  (a->size == 64 ? attend_64 : attend_128)(a, part / parts, first, (int)(left < QUERIES ? left : QUERIES));
}
