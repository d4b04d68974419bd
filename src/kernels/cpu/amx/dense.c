/* Linear layers in bf16 with AMX's tiles: both sides rounded, sums in f32.
 *
 * struct mixed_kernels, for layers whose weights are ATTEND_WEIGHTS_MIXED; see
 * cpu/dense.c for the others. The layers spread rows and lanes over threads.
 *
 * Weights lie in lanes of 16 outputs by pairs of inputs, [lanes][pairs][16][2],
 * zeros up to a multiple of 32 inputs. Rows are rounded to bf16 once for all the
 * lanes they meet, a block of them, a stretch of inputs at a time. Two tiles of
 * rows meet two lanes: four products for four loads. The two limits: 1024
 * operations a cycle, and for a block of 32 x 32 over 256 inputs 32 kB of tiles in
 * 512 cycles, half of them from L2.
 *
 * An element is its bias, or what was there, and one chain of tile products over
 * the inputs: no row depends on those beside it.
 */
#include <immintrin.h>

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/vec.h"

enum {
  ROW_BLOCK = 192, /* rows whose stretches lie in L2 */
  STEP = BLOCK     /* elements from row to row of a block */
};

/* ---- packing --------------------------------------------------------------------- */

static size_t lane_elements(int depth) { return round_up((size_t)depth, DEEP) * LANES; }

INLINE __m512i pair_up(__m512 even, __m512 odd) {
  __m512i lo = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(even));
  __m512i hi = _mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(odd));
  return _mm512_or_si512(lo, _mm512_slli_epi32(hi, 16));
}

/* One of the lanes, from rows ld apart of which n columns are there. */
static void pack_pairs(int depth, int n, const float *w, size_t ld, uint16_t *to) {
  __mmask16 keep = (__mmask16)(n >= LANES ? 0xffff : (1u << n) - 1);
  int whole = (int)round_up((size_t)depth, DEEP);
  for (int k = 0; k < whole; k += 2, to += 2 * LANES) {
    const float *row = w + (size_t)k * ld;
    __m512 even = k < depth ? _mm512_maskz_loadu_ps(keep, row) : _mm512_setzero_ps();
    __m512 odd = k + 1 < depth ? _mm512_maskz_loadu_ps(keep, row + ld) : _mm512_setzero_ps();
    _mm512_storeu_si512(to, pair_up(even, odd));
  }
}

static void pack(int depth, const float *w, uint16_t *to) {
  pack_pairs(depth, LANES, w, LANES, to);
}

static void deal(int rows, int n, const float *x, int ldx, uint16_t *to) {
  for (int j = 0; j < n; j += LANES, to += lane_elements(rows))
    pack_pairs(rows, n - j, x + j, (size_t)ldx, to);
}

/* Rows of bf16, STEP apart, zeros up to whole tiles. */
static void round_rows(int rows, int depth, const float *x, size_t ldx, uint16_t *to) {
  int tall = (int)round_up((size_t)rows, TILE);
  int whole = (int)round_up((size_t)depth, DEEP);
  for (int r = 0; r < tall; r++, to += STEP)
    for (int k = 0; k < whole; k += LANES) {
      int left = r < rows ? depth - k : 0;
      __mmask16 keep = (__mmask16)(left >= LANES ? 0xffff : left > 0 ? (1u << left) - 1 : 0);
      __m512 v = _mm512_maskz_loadu_ps(keep, x + (size_t)r * ldx + k);
      _mm256_storeu_si256((__m256i *)(to + k), (__m256i)_mm512_cvtneps_pbh(v));
    }
}

/* ---- products -------------------------------------------------------------------- */

typedef struct {
  int depth;         /* of this stretch, whole tiles */
  const uint16_t *x; /* [rows][STEP] */
  const uint16_t *w; /* the first of the lanes, from this stretch on */
  size_t lane;       /* elements from lanes to lanes */
  const float *from; /* what sums begin with, or NULL: 0 */
  size_t from_step;  /* bytes from row to row of it; 0: all the same */
  float *y;
  size_t step; /* bytes from row to row of y */
} tiles;

/* What tile `row`, `lane` begins with; where it goes. */
INLINE const void *from_at(const tiles *b, int row, int lane) {
  return (const char *)(b->from + lane * TILE) + (size_t)(row * TILE) * b->from_step;
}
INLINE void *to_at(const tiles *b, int row, int lane) {
  return (char *)(b->y + lane * TILE) + (size_t)(row * TILE) * b->step;
}

/* Numbers of tiles are part of the instructions. */
#define BEGIN(t, row, lane)                                \
  do {                                                     \
    if (b->from)                                           \
      _tile_loadd(t, from_at(b, row, lane), b->from_step); \
    else                                                   \
      _tile_zero(t);                                       \
  } while (0)
#define END(t, row, lane) _tile_stored(t, to_at(b, row, lane), b->step)

/* A tiles of rows on B of the lanes. */
INLINE void product(const int A, const int B, const tiles *b) {
  BEGIN(0, 0, 0);
  if (B > 1) BEGIN(1, 0, 1);
  if (A > 1) BEGIN(2, 1, 0);
  if (A > 1 && B > 1) BEGIN(3, 1, 1);
  for (int k = 0; k < b->depth; k += DEEP) {
    _tile_loadd(4, b->x + k, STEP * 2);
    _tile_loadd(6, b->w + (size_t)k * LANES, 64);
    _tile_dpbf16ps(0, 4, 6);
    if (B > 1) {
      _tile_loadd(7, b->w + b->lane + (size_t)k * LANES, 64);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (A > 1) {
      _tile_loadd(5, b->x + TILE * STEP + k, STEP * 2);
      _tile_dpbf16ps(2, 5, 6);
      if (B > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  END(0, 0, 0);
  if (B > 1) END(1, 0, 1);
  if (A > 1) END(2, 1, 0);
  if (A > 1 && B > 1) END(3, 1, 1);
}

/* Fewer rows than a tile: beside y, and copied. */
static void few(int rows, int lanes, tiles b) {
  float beside[TILE * 2 * TILE] __attribute__((aligned(64)));
  float *y = b.y;
  size_t step = b.step / sizeof *y, wide = (size_t)lanes * TILE;
  if (b.from && b.from_step) {
    for (int r = 0; r < rows; r++)
      memcpy(beside + r * 2 * TILE, (const char *)b.from + (size_t)r * b.from_step,
             wide * sizeof *y);
    memset(beside + rows * 2 * TILE, 0, (size_t)(TILE - rows) * 2 * TILE * sizeof *y);
    b.from = beside;
    b.from_step = 2 * TILE * sizeof *y;
  }
  b.y = beside;
  b.step = 2 * TILE * sizeof *y;
  WRITTEN;
  if (lanes > 1)
    product(1, 2, &b);
  else
    product(1, 1, &b);
  WRITTEN;
  for (int r = 0; r < rows; r++)
    memcpy(y + (size_t)r * step, beside + r * 2 * TILE, wide * sizeof *y);
}

/* All rows of a block meet one or two of the lanes. */
static void rows_of(int rows, int lanes, tiles b) {
  int r = 0;
  const char *from = (const char *)b.from;
  for (; r + TILE <= rows;) {
    int n = r + 2 * TILE <= rows ? 2 : 1;
    if (n > 1 && lanes > 1)
      product(2, 2, &b);
    else if (n > 1)
      product(2, 1, &b);
    else if (lanes > 1)
      product(1, 2, &b);
    else
      product(1, 1, &b);
    r += n * TILE;
    b.x += n * TILE * STEP;
    b.y = (float *)((char *)b.y + (size_t)(n * TILE) * b.step);
    if (from) from += (size_t)(n * TILE) * b.from_step;
    b.from = (const float *)from;
  }
  if (r < rows) few(rows - r, lanes, b);
}

static void add_bias(int rows, int lanes, const float *bias, float *y, size_t ldy) {
  for (int r = 0; r < rows; r++, y += ldy)
    for (int i = 0; i < lanes * LANES; i += VW)
      v_store(y + i, v_add(v_load(y + i), v_load(bias + i)));
}

static void multiply(int rows, int depth, int lanes, const float *x, int ldx, const uint16_t *w,
                     const float *bias, bool add, float *y, int ldy) {
  uint16_t near[ROW_BLOCK * STEP] __attribute__((aligned(64)));
  size_t lane = lane_elements(depth), step = (size_t)ldy * sizeof *y;
  tiles_begin();
  for (int row = 0; row < rows; row += ROW_BLOCK) {
    int n = rows - row < ROW_BLOCK ? rows - row : ROW_BLOCK;
    float *to = y + (size_t)row * (size_t)ldy;
    for (int k = 0; k < depth; k += BLOCK) {
      int deep = depth - k < BLOCK ? depth - k : BLOCK;
      bool join = add || k > 0;
      round_rows(n, deep, x + (size_t)row * (size_t)ldx + k, (size_t)ldx, near);
      WRITTEN;
      for (int t = 0; t < lanes; t += 2) {
        tiles b = {.depth = (int)round_up((size_t)deep, DEEP),
                   .x = near,
                   .w = w + (size_t)t * lane + (size_t)k * LANES,
                   .lane = lane,
                   .y = to + t * LANES,
                   .step = step};
        b.from = join ? b.y : bias ? bias + t * LANES : NULL;
        b.from_step = join ? step : 0;
        rows_of(n, lanes - t < 2 ? 1 : 2, b);
      }
      WRITTEN;
    }
    if (add && bias) add_bias(n, lanes, bias, to, (size_t)ldy);
  }
  tiles_end();
}

extern const struct mixed_kernels mixed_amx;
const struct mixed_kernels mixed_amx = {
    .lane_elements = lane_elements, .pack = pack, .deal = deal, .multiply = multiply};
