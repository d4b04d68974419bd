/* Forward on bf16 blocks with AMX's tiles: 16 x 32 products at a time.
 *
 * Place: kernels/cpu/amx - the override of struct block_kernels for bf16; all
 * else of this instruction set is AVX-512's. Compiled with its vocabulary.
 *
 * A tile instruction adds to C[16][16], in f32, the products of A[16][32] and
 * B[32][16], bf16. An element of C depends on its own row of A alone, so the
 * number of rows that ride along changes no bit, as everywhere. Queries are
 * not scaled before the product (bf16 has no bits to spare): scores are after.
 * Weights are rounded to bf16 for the second product, and their sum is taken
 * of the same rounded weights, so that what divides is what was added; lse is
 * the log of the sum before rounding.
 *
 * Two tiles of queries meet two of keys: four products for four loads.
 */
#include <immintrin.h>

#include "kernels/cpu/running.h"

enum { TILE = 16, DEEP = 32 }; /* rows of a tile; elements that it sums over */

/* ---- tiles ------------------------------------------------------------------- */

typedef struct {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16];
  uint8_t rows[16];
} tile_config;

/* The compiler does not know that tile loads read memory. */
#define WRITTEN __asm__ volatile("" ::: "memory")

static void begin(void) {
  tile_config c = {.palette = 1};
  for (int i = 0; i < 8; i++) c.bytes[i] = 64, c.rows[i] = TILE;
  WRITTEN;
  _tile_loadconfig(&c);
}

static void end(void) { _tile_release(); }

/* ---- packing ------------------------------------------------------------------ */

/* A group: its factor, then rows of bf16, padded with zeros to whole tiles. */
static int padded_rows(int n) { return n > TILE ? 2 * TILE : TILE; }
static size_t padded_width(int width) { return round_up((size_t)width, DEEP); }

static size_t query_bytes(int n, int width) {
  return 64 + (size_t)padded_rows(n) * padded_width(width) * sizeof(uint16_t);
}

static void pack_queries(const float *rows, int ld, int n, int width,
                         float factor, void *dst) {
  memset(dst, 0, query_bytes(n, width));
  memcpy(dst, &factor, sizeof factor);
  uint16_t *out = (uint16_t *)((char *)dst + 64);
  for (int r = 0; r < n; r++, out += padded_width(width))
    for (int i = 0; i < width; i++) /* exact: these were bf16 */
      out[i] = bf16_from_float(rows[(size_t)r * (size_t)ld + (size_t)i]);
}

/* n elements of a row, from any stride. */
static void load_bf16(source src, int row, int column, int n, uint16_t *dst) {
  const uint16_t *p = (const uint16_t *)src.data + row * src.row;
  if (src.col == 1) {
    memcpy(dst, p + column, (size_t)n * sizeof *dst);
    return;
  }
  for (int i = 0; i < n; i++) dst[i] = p[(column + i) * src.col];
}

/* [n/16][width/2][16][2]: sixteen keys by sixteen pairs are transposed as
 * sixteen by sixteen words; moving words changes no bits. */
static void pack_keys(source src, const uint8_t *valid, int n, int width,
                      void *dst) {
  uint16_t tmp[TILE][DEEP] __attribute__((aligned(64)));
  float *out = dst;
  for (int key = 0; key < n; key += TILE)
    for (int d = 0; d < width; d += DEEP, out += TILE * TILE) {
      int w = width - d < DEEP ? width - d : DEEP;
      vf r[TILE];
      memset(tmp, 0, sizeof tmp);
      for (int i = 0; i < TILE && key + i < n; i++)
        if (!valid || valid[key + i]) load_bf16(src, key + i, d, w, tmp[i]);
      for (int i = 0; i < TILE; i++) r[i] = v_load((const float *)tmp[i]);
      v_transpose(r);
      for (int i = 0; i < TILE; i++) v_store(out + i * TILE, r[i]);
    }
}

static __m512i load_half(const uint16_t *p) {
  return _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
}

/* [n/2][ld][2]; whole steps of 32 keys are written, zeros where none are. */
static bool pack_values(source src, const uint8_t *valid, int n, int width,
                        void *dst, int ld) {
  uint16_t two[2][64] __attribute__((aligned(64)));
  int whole = (int)round_up((size_t)n, DEEP);
  __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 wild = 0;
  for (int c = 0; c < ld; c += 64) {
    int w = width - c < 64 ? width - c : 64, room = ld - c < 64 ? ld - c : 64;
    for (int key = 0; key < whole; key += 2) {
      memset(two, 0, sizeof two);
      for (int i = 0; i < 2; i++)
        if (key + i < n && w > 0 && (!valid || valid[key + i]))
          load_bf16(src, key + i, c, w, two[i]);
      uint32_t *out = (uint32_t *)dst + (size_t)(key / 2) * (size_t)ld + c;
      for (int i = 0; i < room; i += TILE) {
        __m512i pair = _mm512_or_si512(
            load_half(two[0] + i), _mm512_slli_epi32(load_half(two[1] + i), 16));
        _mm512_storeu_si512(out + i, pair);
        wild |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(pair, exponent),
                                        exponent);
      }
    }
  }
  return wild == 0;
}

/* ---- scores --------------------------------------------------------------------- */

/* Rows of a tile that are real get their factor. */
INLINE void scale_tile(int rows, int columns, vf factor, float *s) {
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < columns; j += VW)
      v_store(s + r * BLOCK + j, v_mul(v_load(s + r * BLOCK + j), factor));
}

/* One or two tiles of queries on one or two of keys. */
INLINE void score_tiles(const int A, const int B, size_t width,
                        const uint16_t *q, const uint16_t *k, float *s) {
  _tile_zero(0);
  if (B > 1) _tile_zero(1);
  if (A > 1) _tile_zero(2);
  if (A > 1 && B > 1) _tile_zero(3);
  for (size_t d = 0; d < width; d += DEEP) {
    _tile_loadd(4, q + d, width * 2);
    _tile_loadd(6, k + d * TILE, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (B > 1) {
      _tile_loadd(7, k + (width + d) * TILE, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (A > 1) {
      _tile_loadd(5, q + TILE * width + d, width * 2);
      _tile_dpbf16ps(2, 5, 6);
      if (B > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, s, BLOCK * 4);
  if (B > 1) _tile_stored(1, s + TILE, BLOCK * 4);
  if (A > 1) _tile_stored(2, s + TILE * BLOCK, BLOCK * 4);
  if (A > 1 && B > 1) _tile_stored(3, s + TILE * BLOCK + TILE, BLOCK * 4);
}

INLINE void score_columns(const int A, int rows, size_t width,
                          const uint16_t *q, const uint16_t *k, int j0, int j1,
                          vf factor, float *s) {
  int j = j0;
  for (; j + 2 * TILE <= j1; j += 2 * TILE)
    score_tiles(A, 2, width, q, k + (size_t)j * width, s + j);
  if (j < j1) score_tiles(A, 1, width, q, k + (size_t)j * width, s + j);
  scale_tile(rows, j1 - j0, factor, s + j0);
}

static void scores(int rows, int width, const void *q, const void *k, int j0,
                   int j1, float *s) {
  float factor;
  memcpy(&factor, q, sizeof factor);
  WRITTEN;
  const uint16_t *queries = (const uint16_t *)((const char *)q + 64);
  size_t wide = padded_width(width);
  if (rows > TILE)
    score_columns(2, rows, wide, queries, k, j0, j1, v_set1(factor), s);
  else
    score_columns(1, rows, wide, queries, k, j0, j1, v_set1(factor), s);
}

/* ---- weights -------------------------------------------------------------------------- */

/* 2^(s - m), as v_exp2_less but with a quadratic: an error of 7e-6 is far below
 * what rounding to bf16 will cost. */
INLINE vf exp2_short(vf s, float m) {
  const vf magic = v_set1(1572864.0f - m);
  s = v_max(v_set1(m - 127.0f), s);
  vf t = v_add(s, magic);
  vf f = v_sub(s, v_sub(t, magic));
  vf y = v_fma(f, v_set1(0x1.ec0f92p-3f), v_set1(0x1.62f266p-1f));
  y = v_fma(y, f, v_set1(1.0f));
  return v_mul(y, v_eighths(t));
}

/* Scores become bf16 weights, from the row's first byte on; steps of 32 keys
 * that are only partly asked for are filled with zeros. sum: of the rounded
 * weights, and before rounding. */
INLINE void weigh_row(int j0, int j1, float m, float *s, float sum[2]) {
  m = lower_row(j0, j1, m, s);
  uint16_t *out = (uint16_t *)s;
  vf rounded = v_zero(), exact = v_zero();
  const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
  for (int j = j0 / DEEP * DEEP; j < j1; j += DEEP) {
    vf a = v_zero(), b = v_zero();
    if (j >= j0) a = exp2_short(v_load(s + j), m);
    if (j + TILE < j1) b = exp2_short(v_load(s + j + TILE), m);
    __m512bh both = _mm512_cvtne2ps_pbh(b, a);
    rounded = _mm512_dpbf16_ps(rounded, both, ones);
    exact = v_add(v_add(exact, a), b);
    _mm512_storeu_si512(out + j, (__m512i)both);
  }
  sum[0] = fold_sum(&rounded);
  sum[1] = fold_sum(&exact);
}

static void softmax(int rows, int j0, int j1, float *s, float *m, float *l,
                    float *alpha, float *beta) {
  float shift[GROUP], sum[GROUP][2];
  for (int r = 0; r < rows; r++) shift[r] = max_of(j0, j1, s + r * BLOCK);
  for (int r = 0; r < rows; r++) shift[r] = shift_of(shift[r]);
  for (int r = 0; r < rows; r++)
    weigh_row(j0, j1, shift[r], s + r * BLOCK, sum[r]);
  for (int r = 0; r < rows; r++)
    join(sum[r][0] == 0.0f ? -INFINITY : shift[r], sum[r], m + r, l + 2 * r,
         alpha + r, beta + r);
}

/* ---- weighted values ---------------------------------------------------------------------- */

/* A tile of values whose keys are not all asked for: zeros for the others, so
 * that a NaN there meets no weight, not even 0. */
static void part_values(const uint32_t *v, int ld, int j, int j0, int j1,
                        uint32_t out[TILE][TILE]) {
  for (int i = 0; i < TILE; i++) {
    uint32_t keep = (j + 2 * i >= j0 && j + 2 * i < j1 ? 0xffffu : 0) |
                    (j + 2 * i + 1 >= j0 && j + 2 * i + 1 < j1 ? 0xffff0000u : 0);
    __m512i pair = _mm512_loadu_si512(v + (size_t)i * (size_t)ld);
    _mm512_store_si512(out[i],
                       _mm512_and_si512(pair, _mm512_set1_epi32((int)keep)));
  }
}

/* o = alpha o + beta tile */
static void join_tile(float tile[TILE][TILE], int rows, int ld,
                      const float *alpha, const float *beta, float *o) {
  for (int r = 0; r < rows; r++) {
    float *out = o + (size_t)r * (size_t)ld;
    v_store(out, v_fma(v_load(tile[r]), v_set1(beta[r]),
                       v_mul(v_load(out), v_set1(alpha[r]))));
  }
}

typedef struct {
  int rows, j0, j1, ld;
  const float *p;
  const void *const *v;
  const float *alpha, *beta;
} weighing;

/* Tile 6 or 7 takes the values of a step for sixteen columns. */
#define LOAD_VALUES(number, column)                                         \
  do {                                                                      \
    const uint32_t *at_ = values + (column);                                \
    if (whole) {                                                            \
      _tile_loadd(number, at_, (size_t)w->ld * 4);                          \
    } else {                                                                \
      part_values(at_, w->ld, j, w->j0, w->j1, part);                       \
      WRITTEN;                                                              \
      _tile_loadd(number, part, 64);                                        \
    }                                                                       \
  } while (0)

INLINE void weigh_columns(const int A, const int B, const weighing *w,
                          int column, float *o) {
  uint32_t part[TILE][TILE] __attribute__((aligned(64)));
  float out[4][TILE][TILE] __attribute__((aligned(64)));
  _tile_zero(0);
  if (B > 1) _tile_zero(1);
  if (A > 1) _tile_zero(2);
  if (A > 1 && B > 1) _tile_zero(3);
  for (int j = w->j0 / DEEP * DEEP; j < w->j1; j += DEEP) {
    const uint32_t *values = (const uint32_t *)w->v[j / PANEL] +
                             (size_t)(j % PANEL / 2) * (size_t)w->ld;
    bool whole = j >= w->j0 && j + DEEP <= w->j1;
    const uint16_t *p = (const uint16_t *)w->p + j;
    _tile_loadd(4, p, BLOCK * 4);
    LOAD_VALUES(6, column);
    _tile_dpbf16ps(0, 4, 6);
    if (B > 1) {
      LOAD_VALUES(7, column + TILE);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (A > 1) {
      _tile_loadd(5, p + TILE * BLOCK * 2, BLOCK * 4);
      _tile_dpbf16ps(2, 5, 6);
      if (B > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out[0], 64);
  if (B > 1) _tile_stored(1, out[1], 64);
  if (A > 1) _tile_stored(2, out[2], 64);
  if (A > 1 && B > 1) _tile_stored(3, out[3], 64);
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++) {
      int rows = w->rows - a * TILE < TILE ? w->rows - a * TILE : TILE;
      join_tile(out[a * 2 + b], rows, w->ld, w->alpha + a * TILE,
                w->beta + a * TILE,
                o + (size_t)(a * TILE) * (size_t)w->ld + column + b * TILE);
    }
}

static void weigh(int rows, int j0, int j1, const float *p,
                  const void *const *v, int ld, const float *alpha,
                  const float *beta, float *o) {
  weighing w = {rows, j0, j1, ld, p, v, alpha, beta};
  int c = 0;
  WRITTEN;
  for (; c + 2 * TILE <= ld; c += 2 * TILE)
    if (rows > TILE)
      weigh_columns(2, 2, &w, c, o);
    else
      weigh_columns(1, 2, &w, c, o);
  if (c == ld) return;
  if (rows > TILE)
    weigh_columns(2, 1, &w, c, o);
  else
    weigh_columns(1, 1, &w, c, o);
}

/* ---- tables --------------------------------------------------------------------------------- */

static const struct block_kernels block_bf16 = {
    .rows = 2 * TILE,
    .pair = 2,
    .step = DEEP,
    .begin = begin,
    .end = end,
    .query_bytes = query_bytes,
    .pack_queries = pack_queries,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .scores = scores,
    .softmax = softmax,
    .weigh = weigh,
};

#define K(returns, name, arguments) returns name##_avx512 arguments;
KERNEL_LIST(K)
#undef K
extern const struct block_kernels block_avx512;

extern const struct kernels kernels_amx;
const struct kernels kernels_amx = {
    .isa = "amx",
    .rows = ROWS,
    .block = {&block_avx512, &block_avx512, &block_bf16},
#define K(returns, name, arguments) .name = name##_avx512,
    KERNEL_LIST(K)
#undef K
};
