/* Forward on bf16 blocks with AMX's tiles: 16 x 32 products at a time.
 *
 * The override of struct block_kernels for bf16; all else of this instruction set is
 * AVX-512's. Compiled with its vocabulary.
 *
 * A tile instruction adds to C[16][16], in f32, the products of A[16][32] and
 * B[32][16], bf16. An element of C depends on its own row of A alone, so the number of
 * rows changes no bit. Queries are not scaled before the product (bf16 has too few bits).
 *
 * Weights are rounded to bf16 for the second product, and what divides is the
 * sum of the rounded weights, so that a single key gives its value exactly. lse
 * is the log of the sum of the whole weights.
 *
 * The time goes into the exponentials: 15 vector operations for 16 weights
 * against 64 cycles of tiles for 16 x 16 of them at width 64.
 */
#include <immintrin.h>

#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/online_softmax.h"

enum {
  KEYS = 128,                      /* keys that share a maximum: 32 rows of scores are 16 KiB */
  HALF = KEYS / DEEP * TILE * DEEP /* weights of one tile of rows */
};

/* ---- packing --------------------------------------------------------------------- */

static size_t padded_width(int width) { return round_up((size_t)width, DEEP); }

/* Rows of bf16, padded with zeros to two whole tiles. */
static size_t query_bytes(int n, int width) {
  (void)n;
  return 2 * TILE * padded_width(width) * sizeof(uint16_t);
}

static void pack_queries(const float *rows, int ld, int n, int width, void *dst) {
  uint16_t *out = dst;
  size_t wide = padded_width(width);
  memset(dst, 0, query_bytes(n, width));
  for (int r = 0; r < n; r++, out += wide, rows += ld)
    for (int i = 0; i < width; i += VW) { /* exact: these were bf16 */
      uint16_t part[VW];
      v_store_bf16(part, v_load(rows + i));
      int left = width - i < VW ? width - i : VW;
      memcpy(out + i, part, (size_t)left * sizeof *part);
    }
}

/* n elements of a row, from any stride, zeros up to 32. */
static __m512i load_bf16(source src, int row, int column, int n) {
  const uint16_t *p = (const uint16_t *)src.data + row * src.row + column * src.col;
  if (n <= 0) return _mm512_setzero_si512();
  __mmask32 keep = n >= 32 ? ~(__mmask32)0 : ((__mmask32)1 << n) - 1;
  if (src.col == 1) return _mm512_maskz_loadu_epi16(keep, p);
  uint16_t part[32] = {0};
  for (int i = 0; i < n && i < 32; i++) part[i] = p[i * src.col];
  return _mm512_loadu_si512(part);
}

/* Sixteen keys by sixteen pairs are transposed as sixteen by sixteen words;
 * moving words changes no bits. */
static void pack_keys(source src, const uint8_t *valid, int n, int width, void *dst) {
  float *out = dst;
  for (int key = 0; key < n; key += TILE)
    for (int d = 0; d < width; d += DEEP, out += TILE * TILE) {
      vf r[TILE];
      for (int i = 0; i < TILE; i++) {
        bool real = key + i < n && (!valid || valid[key + i]);
        r[i] = (vf)load_bf16(src, key + i, d, real ? width - d : 0);
      }
      v_transpose(r);
      for (int i = 0; i < TILE; i++) v_store(out + i * TILE, r[i]);
    }
}

/* Key 2 i beside key 2 i + 1; whole steps of 32 keys are written, zeros where there are none. */
static bool pack_values(source src, const uint8_t *valid, int n, int width, void *dst, int ld) {
  const __m512i exponent = _mm512_set1_epi16(0x7f80);
  __mmask32 non_finite = 0;
  uint32_t *out = dst;
  for (int step = 0; step < n; step += DEEP)
    for (int i = step; i < step + DEEP; i += 2, out += ld)
      for (int c = 0; c < ld; c += 32) {
        bool lo = i < n && (!valid || valid[i]);
        bool hi = i + 1 < n && (!valid || valid[i + 1]);
        __m512i a = load_bf16(src, i, c, lo ? width - c : 0);
        __m512i b = load_bf16(src, i + 1, c, hi ? width - c : 0);
        for (int half = 0; half < 2 && c + half * TILE < ld; half++) {
          __m256i x = half ? _mm512_extracti64x4_epi64(a, 1) : _mm512_castsi512_si256(a);
          __m256i y = half ? _mm512_extracti64x4_epi64(b, 1) : _mm512_castsi512_si256(b);
          __m512i pair = _mm512_or_si512(_mm512_cvtepu16_epi32(x),
                                         _mm512_slli_epi32(_mm512_cvtepu16_epi32(y), 16));
          _mm512_storeu_si512(out + c + half * TILE, pair);
          non_finite |= _mm512_cmpeq_epi16_mask(_mm512_and_si512(pair, exponent), exponent);
        }
      }
  return non_finite == 0;
}

/* The largest |k|^2 of n keys: pairs of a key's elements lie in one word. */
static float longest(int n, int width, const void *k) {
  const __m512i *pair = k;
  vf top = v_zero();
  for (int j = 0; j < n; j += TILE) {
    vf sum = v_zero();
    for (size_t d = 0; d < padded_width(width); d += 2, pair++) {
      __m512bh x = (__m512bh)_mm512_loadu_si512(pair);
      sum = _mm512_dpbf16_ps(sum, x, x);
    }
    top = v_max(sum, top);
  }
  return fold_max(&top);
}

/* ---- scores ---------------------------------------------------------------------- */

/* One or two tiles of queries on one or two of keys: four products for four loads. */
INLINE void score_tiles(const int A, const int B, size_t width, const uint16_t *q,
                        const uint16_t *k, float *s) {
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

INLINE void score_columns(const int A, size_t width, const uint16_t *q, const uint16_t *k, int j0,
                          int j1, float *s) {
  int j = j0;
  for (; j + 2 * TILE <= j1; j += 2 * TILE)
    score_tiles(A, 2, width, q, k + (size_t)j * width, s + j);
  if (j < j1) score_tiles(A, 1, width, q, k + (size_t)j * width, s + j);
}

static void scores(int rows, int width, const void *q, const void *k, int j0, int j1, float *s) {
  size_t wide = padded_width(width);
  WRITTEN;
  if (rows > TILE)
    score_columns(2, wide, q, k, j0, j1, s);
  else
    score_columns(1, wide, q, k, j0, j1, s);
}

/* ---- weights --------------------------------------------------------------------- */

/* 2^(i/16) less i in the bits where the exponent is added. */
static const uint32_t sixteenth_roots[16] = {0x3f800000u,
                                             0x3f85aac3u - (1 << 19),
                                             0x3f8b95c2u - (2 << 19),
                                             0x3f91c3d3u - (3 << 19),
                                             0x3f9837f0u - (4 << 19),
                                             0x3f9ef532u - (5 << 19),
                                             0x3fa5fed7u - (6 << 19),
                                             0x3fad583fu - (7 << 19),
                                             0x3fb504f3u - (8 << 19),
                                             0x3fbd08a4u - (9 << 19),
                                             0x3fc5672au - (10 << 19),
                                             0x3fce248cu - (11 << 19),
                                             0x3fd744fdu - (12 << 19),
                                             0x3fe0ccdfu - (13 << 19),
                                             0x3feac0c7u - (14 << 19),
                                             0x3ff5257du - (15 << 19)};

typedef struct {
  vf factor, magic, lowest;
  __m512i roots;
} exponent;

static exponent exponent_of(float factor, float m) {
  return (exponent){v_set1(factor), v_set1(786432.0f - m), /* 1.5 * 2^19 */
                    v_set1((m - 127.0f) / factor), _mm512_loadu_si512(sixteenth_roots)};
}

/* 2^(s factor - m), as v_exp2_less and, if bounded, v_exp2_near; with sixteen roots
 * and a quadratic, whose error is 9e-7. */
INLINE vf exp2_short(const bool bounded, vf s, const exponent *e) {
  if (!bounded) s = v_max(e->lowest, s);
  vf t = v_fma(s, e->factor, e->magic);
  vf f = v_fma(s, e->factor, v_sub(e->magic, t));
  vf y = v_fma(f, v_set1(0x1.ec00ccp-3f), v_set1(0x1.62e7bep-1f));
  y = v_fma(y, f, v_set1(1.0f));
  __m512i u = _mm512_castps_si512(t);
  __m512i root = _mm512_permutexvar_epi32(u, e->roots);
  root = _mm512_add_epi32(root, _mm512_slli_epi32(u, 19));
  return v_mul(y, _mm512_castsi512_ps(root));
}

/* Sums of a row's weights, sixteen lanes each. */
typedef struct {
  vf cut, whole; /* as rounded to bf16, and before */
} sums;

/* A row's weights, rounded to the nearest bf16, into tiles [step][16][32]; steps
 * that are only partly asked for are filled with zeros. */
INLINE sums weigh_row(const bool bounded, int j0, int j1, const exponent *e, const float *s,
                      uint16_t *out) {
  const __m512bh ones = (__m512bh)_mm512_set1_epi16(0x3f80);
  sums x = {v_zero(), v_zero()};
  for (int j = j0 / DEEP * DEEP; j < j1; j += DEEP) {
    vf a = v_zero(), b = v_zero();
    if (bounded || j >= j0) a = exp2_short(bounded, v_load(s + j), e);
    if (bounded || j + TILE < j1) b = exp2_short(bounded, v_load(s + j + TILE), e);
    __m512bh cut = _mm512_cvtne2ps_pbh(b, a);
    x.whole = v_add(x.whole, v_add(a, b));
    x.cut = _mm512_dpbf16_ps(x.cut, cut, ones);
    _mm512_store_si512(out + j * TILE, (__m512i)cut);
  }
  return x;
}

static size_t weights_at(int row) { return (size_t)(row / TILE * HALF + row % TILE * DEEP) / 2; }

/* Folds sixteen rows at once, each in the order of fold_sum. */
#define FOLD(a, b, shuffle, low, high) v_add(shuffle(a, b, low), shuffle(a, b, high))
INLINE void fold_rows(vf r[TILE], float out[TILE]) {
  UNROLL for (int i = 0; i < 8; i++) r[i] =
      FOLD(r[2 * i], r[2 * i + 1], _mm512_shuffle_f32x4, 0x44, 0xee);
  UNROLL for (int i = 0; i < 4; i++) r[i] =
      FOLD(r[2 * i], r[2 * i + 1], _mm512_shuffle_f32x4, 0x88, 0xdd);
  UNROLL for (int i = 0; i < 2; i++) r[i] =
      FOLD(r[2 * i], r[2 * i + 1], _mm512_shuffle_ps, 0x44, 0xee);
  vf all = FOLD(r[0], r[1], _mm512_shuffle_ps, 0x88, 0xdd);
  const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
  v_store(out, _mm512_permutexvar_ps(order, all));
}

typedef struct interleaved interleaved; /* products between the rows: below */
static void interleaved_next(interleaved *x);

/* The sums of a group, and what its rows join with. */
typedef struct {
  vf cut[GROUP], whole[GROUP];
  float shift[GROUP], sum[2][GROUP];
} row_sums;

INLINE void soft_rows(const bool bounded, const struct block_soft *x, row_sums *sums_of,
                      interleaved *ride) {
  exponent e = exponent_of(x->factor, 0);
  for (int r = 0; r < x->rows; r++) {
    if (ride) interleaved_next(ride);
    float *s = x->s + r * BLOCK, factor = x->factor;
    if (!bounded) {
      float m = lower_row(x->j0, x->j1, &factor, sums_of->shift[r], s);
      e = exponent_of(factor, m);
    }
    sums of = weigh_row(bounded, x->j0, x->j1, &e, s, (uint16_t *)((float *)x->p + weights_at(r)));
    sums_of->cut[r] = of.cut;
    sums_of->whole[r] = of.whole;
  }
}

static void soft_join(const struct block_soft *x, row_sums *sums_of) {
  for (int r = x->rows; r < GROUP; r++) sums_of->cut[r] = sums_of->whole[r] = v_zero();
  for (int r = 0; r < x->rows; r += TILE) {
    fold_rows(sums_of->cut + r, sums_of->sum[0] + r);
    fold_rows(sums_of->whole + r, sums_of->sum[1] + r);
  }
  for (int r = 0; r < x->rows; r++) {
    float sum[2] = {sums_of->sum[0][r], sums_of->sum[1][r]}, m = sums_of->shift[r];
    if (m == 0.0f && x->m[r] == 0.0f) { /* as join would */
      x->l[2 * r] += sum[0];
      x->l[2 * r + 1] += sum[1];
      x->alpha[r] = x->beta[r] = 1.0f;
    } else {
      join(sum[0] == 0.0f ? -INFINITY : m, sum, x->m + r, x->l + 2 * r, x->alpha + r, x->beta + r);
    }
  }
}

static void soft_all(const struct block_soft *x, interleaved *ride) {
  row_sums sums_of;
  if (x->bounded && x->j0 % DEEP == 0 && x->j1 % DEEP == 0) {
    memset(sums_of.shift, 0, sizeof sums_of.shift);
    soft_rows(true, x, &sums_of, ride);
  } else {
    for (int r = 0; r < x->rows; r++) sums_of.shift[r] = max_of(x->j0, x->j1, x->s + r * BLOCK);
    for (int r = 0; r < x->rows; r++) sums_of.shift[r] = shift_of(sums_of.shift[r] * x->factor);
    soft_rows(false, x, &sums_of, ride);
  }
  soft_join(x, &sums_of);
}

static void softmax(const struct block_soft *x) { soft_all(x, NULL); }

/* ---- weighted values ------------------------------------------------------------- */

typedef struct {
  int rows, j0, j1, ld;
  const uint16_t *p;
  const void *const *v;
  const float *alpha, *beta;
  bool plain; /* alpha and beta are 1 throughout */
} weighing;

static bool all_ones(int n, const float *alpha, const float *beta) {
  bool all = true;
  for (int r = 0; r < n; r++) all &= alpha[r] == 1.0f && beta[r] == 1.0f;
  return all;
}

/* A tile of values whose keys are not all asked for: zeros for the others, so
 * that a NaN there meets no weight, not even 0. */
static void part_values(const uint32_t *v, const weighing *w, int j, uint32_t out[TILE][TILE]) {
  for (int i = 0; i < TILE; i++) {
    int key = j + 2 * i;
    bool low = key >= w->j0 && key < w->j1;
    bool high = key + 1 >= w->j0 && key + 1 < w->j1;
    uint32_t keep = (low ? 0xffffu : 0) | (high ? 0xffff0000u : 0);
    __m512i pair = _mm512_loadu_si512(v + (size_t)i * (size_t)w->ld);
    _mm512_store_si512(out[i], _mm512_and_si512(pair, _mm512_set1_epi32((int)keep)));
  }
  WRITTEN;
}

/* o = alpha o + beta tile, rows [first, first + 16) of the group */
static void join_tile(float tile[TILE][TILE], const weighing *w, int first, float *o) {
  int n = w->rows - first < TILE ? w->rows - first : TILE;
  o += (size_t)first * (size_t)w->ld;
  if (w->plain) {
    for (int r = 0; r < n; r++, o += w->ld) v_store(o, v_add(v_load(tile[r]), v_load(o)));
    return;
  }
  for (int r = 0; r < n; r++, o += w->ld)
    v_store(o, v_fma(v_load(tile[r]), v_set1(w->beta[first + r]),
                     v_mul(v_load(o), v_set1(w->alpha[first + r]))));
}

/* Sixteen columns of values into tile `to`. */
#define LOAD_VALUES(to, from)                   \
  do {                                          \
    if (whole) {                                \
      _tile_loadd(to, from, (size_t)w->ld * 4); \
    } else {                                    \
      part_values(from, w, j, part);            \
      _tile_loadd(to, part, 64);                \
    }                                           \
  } while (0)

/* One or two tiles of rows, one or two of columns. */
INLINE void weigh_tiles(const int A, const int B, const weighing *w, int column, float *o) {
  uint32_t part[TILE][TILE] __attribute__((aligned(64)));
  float out[4][TILE][TILE] __attribute__((aligned(64)));
  _tile_zero(0);
  if (B > 1) _tile_zero(1);
  if (A > 1) _tile_zero(2);
  if (A > 1 && B > 1) _tile_zero(3);
  for (int j = w->j0 / DEEP * DEEP; j < w->j1; j += DEEP) {
    const uint32_t *values =
        (const uint32_t *)w->v[j / PANEL] + column + (size_t)(j % PANEL / 2) * (size_t)w->ld;
    bool whole = j >= w->j0 && j + DEEP <= w->j1;
    _tile_loadd(4, w->p + j * TILE, 64);
    LOAD_VALUES(6, values);
    _tile_dpbf16ps(0, 4, 6);
    if (B > 1) {
      LOAD_VALUES(7, values + TILE);
      _tile_dpbf16ps(1, 4, 7);
    }
    if (A > 1) {
      _tile_loadd(5, w->p + HALF + j * TILE, 64);
      _tile_dpbf16ps(2, 5, 6);
      if (B > 1) _tile_dpbf16ps(3, 5, 7);
    }
  }
  _tile_stored(0, out[0], 64);
  if (B > 1) _tile_stored(1, out[1], 64);
  if (A > 1) _tile_stored(2, out[2], 64);
  if (A > 1 && B > 1) _tile_stored(3, out[3], 64);
  for (int a = 0; a < A; a++)
    for (int b = 0; b < B; b++) join_tile(out[a * 2 + b], w, a * TILE, o + column + b * TILE);
}

INLINE void weigh_columns(const int A, const weighing *w, float *o) {
  int c = 0;
  for (; c + 2 * TILE <= w->ld; c += 2 * TILE) weigh_tiles(A, 2, w, c, o);
  if (c < w->ld) weigh_tiles(A, 1, w, c, o);
}

static void weigh(int rows, int j0, int j1, const void *p, const void *const *v, int ld,
                  const float *alpha, const float *beta, float *o) {
  weighing w = {rows, j0, j1, ld, p, v, alpha, beta, all_ones(rows, alpha, beta)};
  WRITTEN;
  if (rows > TILE)
    weigh_columns(2, &w, o);
  else
    weigh_columns(1, &w, o);
}

/* ---- overlap --------------------------------------------------------------------- */

/* Products interleaved with a softmax, a piece at a time: four products of a score block
 * or of a pair of columns, then the stores. Tiles keep their contents between pieces,
 * while the vector units compute exponentials. */
struct interleaved {
  const struct block_products *r;
  size_t width;
  int block, step; /* of 32 keys; of the width or of the keys */
  bool scoring, stored;
  int column;
  weighing w;
  float out[4][TILE][TILE] __attribute__((aligned(64)));
};

static void interleaved_start(const struct block_products *r, interleaved *x) {
  x->r = r;
  x->width = padded_width(r->width);
  x->block = x->step = x->column = 0;
  x->scoring = r->q != NULL;
  x->stored = false;
  x->w = (weighing){2 * TILE, 0,       KEYS,
                    r->ld,    r->p,    r->v,
                    r->alpha, r->beta, r->p && all_ones(2 * TILE, r->alpha, r->beta)};
}

static bool interleaved_done(const interleaved *x) {
  return !x->scoring && (!x->r->p || x->column >= x->r->ld);
}

INLINE void zero_tiles(void) {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

INLINE void product_tiles(void) {
  _tile_dpbf16ps(0, 4, 6);
  _tile_dpbf16ps(1, 4, 7);
  _tile_dpbf16ps(2, 5, 6);
  _tile_dpbf16ps(3, 5, 7);
}

static void score_piece(interleaved *x) {
  const uint16_t *q = x->r->q, *k = x->r->k[x->block * DEEP / PANEL];
  size_t d = (size_t)x->step * DEEP, width = x->width;
  k += (size_t)(x->block * DEEP % PANEL) * width;
  if (x->step == 0) zero_tiles();
  _tile_loadd(4, q + d, width * 2);
  _tile_loadd(6, k + d * TILE, 64);
  _tile_loadd(7, k + (width + d) * TILE, 64);
  _tile_loadd(5, q + TILE * width + d, width * 2);
  product_tiles();
  if (d + DEEP < width) {
    x->step++;
    return;
  }
  float *s = x->r->s + x->block * DEEP;
  _tile_stored(0, s, BLOCK * 4);
  _tile_stored(1, s + TILE, BLOCK * 4);
  _tile_stored(2, s + TILE * BLOCK, BLOCK * 4);
  _tile_stored(3, s + TILE * BLOCK + TILE, BLOCK * 4);
  x->step = 0;
  x->scoring = ++x->block < KEYS / DEEP;
}

static void weigh_piece(interleaved *x) {
  int j = x->step * DEEP;
  const uint16_t *p = x->r->p;
  const uint32_t *values =
      (const uint32_t *)x->r->v[j / PANEL] + x->column + (size_t)(j % PANEL / 2) * (size_t)x->r->ld;
  if (x->step == 0) zero_tiles();
  _tile_loadd(4, p + j * TILE, 64);
  _tile_loadd(6, values, (size_t)x->r->ld * 4);
  _tile_loadd(7, values + TILE, (size_t)x->r->ld * 4);
  _tile_loadd(5, p + HALF + j * TILE, 64);
  product_tiles();
  if (++x->step < KEYS / DEEP) return;
  _tile_stored(0, x->out[0], 64);
  _tile_stored(1, x->out[1], 64);
  _tile_stored(2, x->out[2], 64);
  _tile_stored(3, x->out[3], 64);
  x->step = 0;
  x->stored = true;
}

/* A piece after the products, so that nothing waits for them. */
static void join_piece(interleaved *x) {
  for (int i = 0; i < 4; i++)
    join_tile(x->out[i], &x->w, i / 2 * TILE, x->r->o + x->column + i % 2 * TILE);
  x->stored = false;
  x->column += 2 * TILE;
}

static void interleaved_piece(interleaved *x) {
  if (x->scoring) {
    score_piece(x);
  } else if (x->stored) {
    join_piece(x);
  } else if (x->column + 2 * TILE <= x->r->ld) {
    weigh_piece(x);
  } else { /* the last sixteen columns */
    weigh_tiles(2, 1, &x->w, x->column, x->r->o);
    x->column = x->r->ld;
  }
}

static void interleaved_next(interleaved *x) {
  if (!interleaved_done(x)) interleaved_piece(x);
}

static void overlap(const struct block_soft *soft, const struct block_products *ride) {
  interleaved x;
  WRITTEN;
  interleaved_start(ride, &x);
  if (soft) soft_all(soft, &x);
  while (!interleaved_done(&x)) interleaved_piece(&x);
}

/* ---- tables ---------------------------------------------------------------------- */

static const struct block_kernels block_bf16 = {
    .rows = 2 * TILE,
    .keys = KEYS,
    .pair = 2,
    .step = DEEP,
    .begin = tiles_begin,
    .end = tiles_end,
    .query_bytes = query_bytes,
    .pack_queries = pack_queries,
    .pack_keys = pack_keys,
    .pack_values = pack_values,
    .longest = longest,
    .scores = scores,
    .softmax = softmax,
    .weights_at = weights_at,
    .weigh = weigh,
    .overlap = overlap,
};

#define K(returns, name, arguments) returns name##_avx512 arguments;
KERNEL_LIST(K)
#undef K
extern const struct block_kernels block_avx512;

extern const struct mixed_kernels mixed_amx; /* amx/dense.c */

const struct kernels kernels_amx = {.isa = "amx",
                                    .rows = 2 * ROWS,
                                    .block = {&block_avx512, &block_avx512, &block_bf16},
                                    .mixed = &mixed_amx,
#define K(returns, name, arguments) .name = name##_avx512,
                                    KERNEL_LIST(K)
#undef K
};
