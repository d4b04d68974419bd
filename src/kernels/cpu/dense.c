/* Linear layers: rows times packed weights.
 *
 * layers/linear.c calls it for a range of rows and of lanes and spreads both over
 * threads.
 *
 * Weights lie in lanes of 16 outputs, [lanes][depth][16], as f32, bf16 or int8;
 * they are widened on the way and sums are f32. An output is one chain of fma
 * over each chunk of BLOCK inputs; the chunks are added in order, then scale and bias
 * are applied. So a row does not depend on the number of rows, nor on which of two
 * loops computes it:
 *
 *   few rows   (decoding) weights are streamed once, several lanes side by side.
 *   many rows  (prompts) a block of rows is copied so that its chunks are contiguous; a
 *              panel of weights stays in cache for all rows of the block.
 */
#include "kernels/cpu/vec.h"

/* With a sanitizer's checks inside, large tiles take minutes to compile. */
#if defined(ATTEND_SANITIZED)
enum { CHECKED = 1 };
#else
enum { CHECKED = 0 };
#endif

enum {
  WIDE = NV == 1 ? 2 : 1,                      /* lanes in a tile of many rows */
  TILE = CHECKED ? 4 : (int)ACC / (WIDE * NV), /* rows in it */
  ROW_BLOCK = 192,                             /* rows whose stretches lie in L2 */
  FEW_LANES = 4,                               /* lanes side by side with few rows */
  AHEAD = 2048                                 /* bytes that few rows fetch ahead */
};

/* Inputs that a loop takes at once, with few rows and with many (see BY_FOUR in
 * vec.h). Four with many were slower by a tenth: the loop is long enough. */
#if defined(ISA_SCALAR) || defined(ATTEND_SANITIZED)
enum { FOUR = 1, PAIR = 1 };
#else
enum { FOUR = 4, PAIR = 2 };
#endif

typedef enum { AS_F32, AS_BF16, AS_I8 } stored;

typedef struct { /* a product: what dense_f32 is given */
  int rows, depth, lanes;
  const float *x;
  size_t ldx;
  const void *w;
  const float *scale, *bias;
  bool add;
  float *y;
  size_t ldy;
} dense;

INLINE vf load_weight(const stored as, const void *w, size_t at) {
  if (as == AS_BF16) return v_load_bf16((const uint16_t *)w + at);
  if (as == AS_I8) return v_load_i8((const int8_t *)w + at);
  return v_load((const float *)w + at);
}

INLINE size_t weight_size(const stored as) { return as == AS_F32 ? 4 : as == AS_BF16 ? 2 : 1; }
INLINE const char *weight_at(const stored as, const void *w, size_t at) {
  return (const char *)w + at * weight_size(as);
}

/* acc[r][u] += x_r[k] w_u[k]; step: from lanes to lanes. */
INLINE void link_one(const stored as, const int R, const int U, int k, const float *x,
                     const size_t ldx, const void *w, size_t step, vf *acc) {
  vf right[FEW_LANES * NV];
  UNROLL for (int u = 0; u < U; u++) UNROLL for (int i = 0; i < NV; i++) right[u * NV + i] =
      load_weight(as, w, (size_t)u * step + (size_t)k * LANES + (size_t)(i * VW));
  UNROLL for (int r = 0; r < R; r++) {
    vf left = v_set1(x[(size_t)r * ldx + (size_t)k]);
    UNROLL for (int i = 0; i < U * NV; i++) acc[r * U * NV + i] =
        v_fma(left, right[i], acc[r * U * NV + i]);
  }
}

INLINE void fetch_ahead(const stored as, const int U, int k, const void *w, size_t step,
                        size_t ahead) {
  const int bytes = FOUR * LANES * (int)weight_size(as);
  UNROLL for (int u = 0; u < U; u++) UNROLL for (int i = 0; i < bytes; i += 64)
      __builtin_prefetch(weight_at(as, w, (size_t)u * step + (size_t)k * LANES) + i + ahead);
}

/* Few rows: lanes are fetched as they will be used. What lies AHEAD of input `jump_at` and later
 * ones is beyond the lanes' ends: `jump` bytes further on are those that come next. */
INLINE void few_chains(const stored as, const int R, const int U, int depth, const float *x,
                       const size_t ldx, const void *w, size_t step, int jump_at, size_t jump,
                       vf *acc) {
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  int k = 0;
  for (; k + FOUR <= depth; k += FOUR) {
    fetch_ahead(as, U, k, w, step, k < jump_at ? AHEAD : AHEAD + jump);
    UNROLL for (int i = 0; i < FOUR; i++) link_one(as, R, U, k + i, x, ldx, w, step, acc);
  }
  for (; k < depth; k++) link_one(as, R, U, k, x, ldx, w, step, acc);
}

/* Many rows: this panel is near; `next` is fetched for the one after. */
INLINE void many_chains(const int R, const int U, int depth, const float *x, const float *w,
                        size_t step, const char *next, vf *acc) {
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  int k = 0;
  for (; k + PAIR <= depth; k += PAIR) {
    __builtin_prefetch(next + k * (64 / PAIR), 0, 2);
    UNROLL for (int i = 0; i < PAIR; i++) link_one(AS_F32, R, U, k + i, x, NEAR_STEP, w, step, acc);
  }
  for (; k < depth; k++) link_one(AS_F32, R, U, k, x, NEAR_STEP, w, step, acc);
}

/* Joins a stretch's sums to those before, and after the last one finishes. */
INLINE void settle_plain(const int N, const float *bias, bool join, float *y, const vf *acc) {
  UNROLL for (int i = 0; i < N; i++) {
    vf a = acc[i];
    if (join) a = v_add(v_load(y + i * VW), a);
    if (bias) a = v_add(a, v_load(bias + i * VW));
    v_store(y + i * VW, a);
  }
}

/* The whole sum is scaled; where it is added to what is no sum of this product,
 * each stretch alone. */
INLINE void settle_scaled(const int N, const float *scale, const float *bias, bool add, bool first,
                          bool last, float *y, const vf *acc) {
  UNROLL for (int i = 0; i < N; i++) {
    vf a = acc[i], s = v_load(scale + i * VW);
    vf b = bias ? v_load(bias + i * VW) : v_zero();
    if (add) a = v_mul(a, s);
    if (add || !first) a = v_add(v_load(y + i * VW), a);
    if (last) a = add ? v_add(a, b) : v_fma(a, s, b);
    v_store(y + i * VW, a);
  }
}

INLINE void settle(const int R, const int U, const dense *d, int row, int lane, bool first,
                   bool last, vf *acc) {
  float *y = d->y + (size_t)row * d->ldy + (size_t)lane * LANES;
  const float *bias = last && d->bias ? d->bias + (size_t)lane * LANES : NULL;
  const float *scale = d->scale ? d->scale + (size_t)lane * LANES : NULL;
  bool join = d->add || !first;
  if (!scale)
    UNROLL for (int r = 0; r < R; r++, y += d->ldy)
        settle_plain(U * NV, bias, join, y, acc + r * U * NV);
  else
    UNROLL for (int r = 0; r < R; r++, y += d->ldy)
        settle_scaled(U * NV, scale, bias, d->add, first, last, y, acc + r * U * NV);
}

/* ---- few rows -------------------------------------------------------------------- */

enum { EIGHT = !CHECKED && 8 * 2 * NV <= (int)ACC };
/* The scalar set has its 16 chains in any lanes, and compiles for long enough. */
#define UNITS(R) (VW == 1 || CHECKED ? 1 : (R)*4 * NV <= ACC ? 4 : (R)*2 * NV <= ACC ? 2 : 1)

INLINE void few_tile(const stored as, const int R, const int U, const dense *d, int row, int lane,
                     int k) {
  int left = d->depth - k < BLOCK ? d->depth - k : BLOCK;
  size_t step = (size_t)d->depth * LANES;
  const void *w = weight_at(as, d->w, (size_t)lane * step + (size_t)k * LANES);
  int jump_at = d->depth - k - AHEAD / (LANES * (int)weight_size(as));
  size_t jump = lane + U < d->lanes ? (size_t)(U - 1) * step * weight_size(as) : 0;
  vf acc[COLS];
  few_chains(as, R, U, left, d->x + (size_t)row * d->ldx + k, d->ldx, w, step, jump_at, jump, acc);
  settle(R, U, d, row, lane, k == 0, k + left == d->depth, acc);
}

INLINE void few_lanes(const stored as, const int R, const dense *d, int row, int lane, int lanes,
                      int k) {
  const int U = UNITS(R);
  int t = 0;
  if (U > 1)
    for (; t + U <= lanes; t += U) few_tile(as, R, U, d, row, lane + t, k);
  if (U > 3 && t + 3 <= lanes) few_tile(as, R, 3, d, row, lane + t, k), t += 3;
  if (U > 2 && t + 2 <= lanes) few_tile(as, R, 2, d, row, lane + t, k), t += 2;
  for (; t < lanes; t++) few_tile(as, R, 1, d, row, lane + t, k);
}

/* Lanes in groups of FEW_LANES, or evenly a little less: nine as three times
 * three, since one chain alone waits for its own sums. */
INLINE void few_rows(const stored as, const dense *d) {
  const int groups = (d->lanes + FEW_LANES - 1) / FEW_LANES;
  for (int g = 0, t = 0, end; g < groups; g++, t = end) {
    end = (int)((int64_t)d->lanes * (g + 1) / groups);
    for (int k = 0; k < d->depth; k += BLOCK) {
      int lanes = end - t, r = 0;
      if (EIGHT)
        for (; r + 8 <= d->rows; r += 8) few_lanes(as, 8, d, r, t, lanes, k);
      for (; r + 4 <= d->rows; r += 4) few_lanes(as, 4, d, r, t, lanes, k);
      if (r + 2 <= d->rows) few_lanes(as, 2, d, r, t, lanes, k), r += 2;
      if (r < d->rows) few_lanes(as, 1, d, r, t, lanes, k);
    }
  }
}

/* ---- many rows ------------------------------------------------------------------- */

typedef struct { /* one stretch of a block of rows */
  int row, rows, depth;
  bool first, last;
  const float *x; /* [rows][NEAR_STEP] */
} block;

typedef struct { /* one stretch of up to WIDE lanes */
  int lane;
  const float *w;
  size_t step; /* from lanes to lanes */
  /* The panel after this one, as stored: fetched while this one is at work. A tile takes a line
   * for every PAIR of inputs, so that the first `shares` tiles bring one of its lanes. */
  const char *next;
  size_t next_step;
  int shares;
} panel;

INLINE void many_tile(const int R, const int U, const dense *d, const block *b, const panel *p,
                      int r) {
  int tile = r / TILE, lane = tile / p->shares;
  const char *next = (const char *)p->w;
  if (lane < U)
    next =
        p->next + (size_t)lane * p->next_step + (size_t)(tile % p->shares * b->depth) * (64 / PAIR);
  float *y = d->y + (size_t)(b->row + r) * d->ldy + (size_t)p->lane * LANES;
  UNROLL for (int i = 0; i < R * U; i++)
      __builtin_prefetch(y + (size_t)(i / U) * d->ldy + i % U * LANES, 1);
  vf acc[COLS];
  many_chains(R, U, b->depth, b->x + (size_t)r * NEAR_STEP, p->w, p->step, next, acc);
  settle(R, U, d, b->row + r, p->lane, b->first, b->last, acc);
}

/* All rows of the block meet U lanes. */
INLINE void many_tiles(const int U, const dense *d, const block *b, const panel *p) {
  int r = 0;
  for (; r + TILE <= b->rows; r += TILE) many_tile(TILE, U, d, b, p, r);
  if (TILE > 4)
    for (; r + 4 <= b->rows; r += 4) many_tile(4, U, d, b, p, r);
  for (; r + 2 <= b->rows; r += 2) many_tile(2, U, d, b, p, r);
  for (; r < b->rows; r++) many_tile(1, U, d, b, p, r);
}

static void wide_panel(const dense *d, const block *b, const panel *p) {
  many_tiles(WIDE, d, b, p);
}
static void last_panel(const dense *d, const block *b, const panel *p) { many_tiles(1, d, b, p); }

INLINE void widen_lanes(const stored as, const void *w, int depth, float *to) {
  for (size_t i = 0; i < (size_t)depth * LANES; i += VW) v_store(to + i, load_weight(as, w, i));
}

INLINE void many_lanes(const stored as, const dense *d, const block *b, int k) {
  float wide[WIDE * BLOCK * LANES] __attribute__((aligned(64)));
  const size_t step = (size_t)d->depth * LANES, size = weight_size(as);
  for (int t = 0; t < d->lanes; t += WIDE) {
    const char *w = (const char *)d->w + ((size_t)t * step + (size_t)k * LANES) * size;
    int n = d->lanes - t < WIDE ? d->lanes - t : WIDE;
    panel p = {.lane = t, .w = (const float *)w, .step = step};
    p.next = t + n < d->lanes ? w + (size_t)n * step * size : w;
    p.next_step = step * size;
    p.shares = size * PAIR > 4 ? (int)size * PAIR / 4 : 1;
    if (as != AS_F32) {
      p.w = wide, p.step = BLOCK * LANES;
      for (int i = 0; i < n; i++)
        widen_lanes(as, w + (size_t)i * step * size, b->depth, wide + i * BLOCK * LANES);
    }
    (n == WIDE ? wide_panel : last_panel)(d, b, &p);
  }
}

INLINE void many_rows(const stored as, const dense *d) {
  float copy[ROW_BLOCK * NEAR_STEP] __attribute__((aligned(64)));
  bool near = d->ldx == NEAR_STEP && d->depth <= BLOCK;
  int blocks = (d->rows + ROW_BLOCK - 1) / ROW_BLOCK;
  int max = ((d->rows + blocks - 1) / blocks + TILE - 1) / TILE * TILE;
  for (int row = 0; row < d->rows; row += max)
    for (int k = 0; k < d->depth; k += BLOCK) {
      int rows = d->rows - row < max ? d->rows - row : max;
      int depth = d->depth - k < BLOCK ? d->depth - k : BLOCK;
      const float *x = d->x + (size_t)row * d->ldx + k;
      for (int r = 0; r < rows && !near; r++)
        memcpy(copy + r * NEAR_STEP, x + (size_t)r * d->ldx, (size_t)depth * sizeof *x);
      block b = {row, rows, depth, k == 0, k + depth == d->depth, near ? x : copy};
      many_lanes(as, d, &b, k);
    }
}

INLINE void multiply(const stored as, const dense d) {
  if (d.rows < TILE || d.rows <= 8)
    few_rows(as, &d);
  else
    many_rows(as, &d);
}

#define DENSE(name, as)                                                                         \
  void KERNEL(name)(int rows, int depth, int lanes, const float *x, int ldx, const void *w,     \
                    const float *scale, const float *bias, bool add, float *y, int ldy) {       \
    multiply(as,                                                                                \
             (dense){rows, depth, lanes, x, (size_t)ldx, w, scale, bias, add, y, (size_t)ldy}); \
  }
DENSE(dense_f32, AS_F32)
DENSE(dense_bf16, AS_BF16)
DENSE(dense_i8, AS_I8)

/* ---- packing --------------------------------------------------------------------- */

/* DEAL lanes at a time: whole lines of a row in one go, and few enough places to
 * write to, 16 kB apart for BLOCK rows, that they share a cache set. One at a
 * time took three times as long for rows of 1536. */
enum { DEAL = 8 };

INLINE void deal_some(const int U, int rows, const float *x, size_t ldx, float *to) {
  const size_t step = (size_t)rows * LANES;
  for (int r = 0; r < rows; r++, x += ldx, to += LANES)
    UNROLL for (int u = 0; u < U; u++) UNROLL for (int i = 0; i < NV; i++)
        v_store(to + (size_t)u * step + i * VW, v_load(x + u * LANES + i * VW));
}

void KERNEL(deal_lanes)(int rows, int n, const float *x, int ldx, float *to) {
  int j = 0;
  const size_t ld = (size_t)ldx;
  for (; j + DEAL * LANES <= n; j += DEAL * LANES)
    deal_some(DEAL, rows, x + j, ld, to + (size_t)j * (size_t)rows);
  for (; j + LANES <= n; j += LANES) deal_some(1, rows, x + j, ld, to + (size_t)j * (size_t)rows);
  if (j == n) return;
  to += (size_t)j * (size_t)rows;
  memset(to, 0, (size_t)rows * LANES * sizeof *to);
  for (int r = 0; r < rows; r++)
    memcpy(to + (size_t)r * LANES, x + (size_t)r * ld + j, (size_t)(n - j) * sizeof *to);
}

void KERNEL(narrow_bf16)(int depth, const float *w, uint16_t *to) {
  for (size_t i = 0; i < (size_t)depth * LANES; i += VW) v_store_bf16(to + i, v_load(w + i));
}

/* The step of an output is its largest |w| / 127. Where that is 0 (or too small
 * to be a float) the quotient would be no number: such weights are 0. */
void KERNEL(narrow_i8)(int depth, const float *w, int8_t *to, float *scale) {
  const vf magic = v_set1(12582912.0f); /* 1.5 * 2^23: rounds to integers */
  const vf max = v_set1(127.0f), min = v_set1(-127.0f);
  vf top[NV], s[NV];
  for (int i = 0; i < NV; i++) top[i] = v_zero();
  for (int k = 0; k < depth; k++)
    for (int i = 0; i < NV; i++) top[i] = v_max(v_abs(v_load(w + k * LANES + i * VW)), top[i]);
  for (int i = 0; i < NV; i++) {
    s[i] = v_div(top[i], max);
    v_store(scale + i * VW, s[i]);
    s[i] = v_below(v_zero(), s[i], s[i], v_set1(INFINITY));
  }
  for (int k = 0; k < depth; k++, w += LANES, to += LANES) {
    float q[LANES];
    for (int i = 0; i < NV; i++) {
      vf a = v_div(v_load(w + i * VW), s[i]);
      a = v_min(v_max(a, min), max); /* NaN: -127 */
      v_store(q + i * VW, v_sub(v_add(a, magic), magic));
    }
    for (int i = 0; i < LANES; i++) to[i] = (int8_t)q[i];
  }
}
