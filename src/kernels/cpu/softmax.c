/* Exact attention on one block of keys: scores, online softmax, weighted values. The inner
 * loops of FlashAttention: the tiled engines spend forward's time here, for every group
 * of queries and block of keys.
 *
 * A tile keeps R rows x U units of 16 columns in registers. U is as large as the
 * accumulators allow: a full group reads keys once per R rows, a single row (decoding)
 * has enough independent chains to hide the latency of fma.
 */
#include "kernels/cpu/online_softmax.h"
#include "kernels/cpu/vec.h"

#define UNITS(R) ((R)*4 * NV <= ACC ? 4 : (R)*2 * NV <= ACC ? 2 : 1)

/* Calls CALL(R) with R a constant. */
#if defined(ISA_SCALAR)
#define MORE_ROWS(CALL)
#else
#define MORE_ROWS(CALL) CASE_OF(CALL, 5) CASE_OF(CALL, 6)
#endif
#define FOR_ROWS(rows, CALL) \
  switch (rows) {            \
    CASE_OF(CALL, 1)         \
    CASE_OF(CALL, 2)         \
    CASE_OF(CALL, 3)         \
    CASE_OF(CALL, 4)         \
    MORE_ROWS(CALL)          \
    default:                 \
      break;                 \
  }

/* The rows of the tile that starts at row r of a group. */
static int tile_rows(int rows, int r) { return rows - r < ROWS ? rows - r : ROWS; }

/* ---- scores ---------------------------------------------------------------------- */

/* q.k, or if apart -|q - k|^2 / 2. */
INLINE void score_tile(const bool apart, const int R, const int U, int width, const float *q,
                       int ld, const float *k, float *s) {
  const float *row[GROUP];
  UNROLL for (int r = 0; r < R; r++) row[r] = q + (size_t)r * (size_t)ld;
  vf acc[COLS];
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  BY_FOUR for (int d = 0; d < width; d++, k += LANES) {
    vf b[4 * NV];
    UNROLL for (int u = 0; u < U; u++) UNROLL for (int i = 0; i < NV; i++) b[u * NV + i] =
        v_load(k + (size_t)u * width * LANES + i * VW);
    UNROLL for (int r = 0; r < R; r++) {
      vf a = v_set1(row[r][d]);
      UNROLL for (int i = 0; i < U * NV; i++) {
        vf gap = apart ? v_sub(a, b[i]) : a;
        acc[r * U * NV + i] = v_fma(gap, apart ? gap : b[i], acc[r * U * NV + i]);
      }
    }
  }
  UNROLL for (int r = 0; r < R; r++) UNROLL for (int i = 0; i < U * NV; i++) {
    vf x = acc[r * U * NV + i];
    v_store(s + r * BLOCK + i * VW, apart ? v_mul(x, v_set1(-0.5f)) : x);
  }
}

INLINE void score_rows(const bool apart, const int R, int width, const float *q, int ld,
                       const float *k, int j0, int j1, float *s) {
  const int U = UNITS(R);
  int j = j0;
  for (; j + U * LANES <= j1; j += U * LANES)
    score_tile(apart, R, U, width, q, ld, k + (size_t)j * width, s + j);
  for (; U > 1 && j < j1; j += LANES)
    score_tile(apart, R, 1, width, q, ld, k + (size_t)j * width, s + j);
}

INLINE void score_group(const bool apart, int rows, int width, const float *q, int ld,
                        const float *k, int j0, int j1, float *s) {
  for (int r = 0; r < rows; r += ROWS, q += ROWS * ld, s += ROWS * BLOCK) {
#define CALL(R) score_rows(apart, R, width, q, ld, k, j0, j1, s)
    FOR_ROWS(tile_rows(rows, r), CALL)
#undef CALL
  }
}

void KERNEL(scores)(int rows, int width, const float *q, int ld, const float *k, int j0, int j1,
                    float *s) {
  score_group(false, rows, width, q, ld, k, j0, j1, s);
}

void KERNEL(distances)(int rows, int width, const float *q, int ld, const float *k, int j0, int j1,
                       float *s) {
  score_group(true, rows, width, q, ld, k, j0, j1, s);
}

float KERNEL(longest)(int n, int width, const float *k) {
  vf top[NV];
  UNROLL for (int i = 0; i < NV; i++) top[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    vf sum[NV];
    UNROLL for (int i = 0; i < NV; i++) sum[i] = v_zero();
    for (int d = 0; d < width; d++, k += LANES) UNROLL
    for (int i = 0; i < NV; i++) {
      vf x = v_load(k + i * VW);
      sum[i] = v_fma(x, x, sum[i]);
    }
    UNROLL for (int i = 0; i < NV; i++) top[i] = v_max(sum[i], top[i]);
  }
  return fold_max(top);
}

void KERNEL(add_ramp)(int j0, int j1, float slope, float distance, float *s) {
  vf a = v_set1(slope);
  for (int j = j0; j < j1; j += VW) {
    vf far = v_abs(v_add(v_set1(distance + (float)j), v_iota()));
    v_store(s + j, v_fma(a, far, v_load(s + j)));
  }
}

/* ---- softmax --------------------------------------------------------------------- */

float KERNEL(row_max)(int j0, int j1, const float *s) { return max_of(j0, j1, s); }

INLINE float exp_row(const bool bounded, int j0, int j1, float factor, float m, float *s) {
  if (!bounded) m = lower_row(j0, j1, &factor, m, s);
  vf sum[NV];
  UNROLL for (int i = 0; i < NV; i++) sum[i] = v_zero();
  for (int j = j0; j < j1; j += LANES) UNROLL for (int i = 0; i < NV; i++) {
      vf x = v_load(s + j + i * VW);
      vf p = bounded ? v_exp2_near(x, factor, 0) : v_exp2_less(x, factor, m);
      v_store(s + j + i * VW, p);
      sum[i] = v_add(sum[i], p);
    }
  return fold_sum(sum);
}

/* Loop by loop, so that the folds of one row overlap with the next row. */
void KERNEL(softmax)(int rows, int j0, int j1, float factor, bool bounded, float *s, float *m,
                     float *l, float *alpha, float *beta) {
  float shift[GROUP] = {0}, sum[GROUP][2];
  if (bounded) {
    for (int r = 0; r < rows; r++)
      sum[r][0] = sum[r][1] = exp_row(true, j0, j1, factor, 0, s + r * BLOCK);
  } else {
    for (int r = 0; r < rows; r++) shift[r] = max_of(j0, j1, s + r * BLOCK);
    for (int r = 0; r < rows; r++) shift[r] = shift_of(shift[r] * factor);
    for (int r = 0; r < rows; r++)
      sum[r][0] = sum[r][1] = exp_row(false, j0, j1, factor, shift[r], s + r * BLOCK);
  }
  for (int r = 0; r < rows; r++)
    join(sum[r][0] == 0.0f ? -INFINITY : shift[r], sum[r], m + r, l + 2 * r, alpha + r, beta + r);
}

void KERNEL(join_rows)(int rows, int ld, const float *m2, const float *l2, const float *o2,
                       float *m, float *l, float *o) {
  for (int r = 0; r < rows; r++, o += ld, o2 += ld) {
    float alpha, beta;
    join(m2[r], l2 + 2 * r, m + r, l + 2 * r, &alpha, &beta);
    vf x = v_set1(alpha), y = v_set1(beta);
    for (int i = 0; i < ld; i += VW)
      v_store(o + i, v_fma(v_load(o2 + i), y, v_mul(v_load(o + i), x)));
  }
}

/* ---- weighted values ------------------------------------------------------------- */

/* acc += p v over n keys of a panel. */
INLINE void weigh_panel(const int R, const int U, int n, const float *p, const float *v, int ld,
                        vf *acc) {
  BY_FOUR for (int j = 0; j < n; j++, v += ld) {
    vf b[4 * NV];
    UNROLL for (int i = 0; i < U * NV; i++) b[i] = v_load(v + i * VW);
    UNROLL for (int r = 0; r < R; r++) {
      vf a = v_set1(p[r * BLOCK + j]);
      UNROLL for (int i = 0; i < U * NV; i++) acc[r * U * NV + i] =
          v_fma(a, b[i], acc[r * U * NV + i]);
    }
  }
}

INLINE void weigh_tile(const int R, const int U, int j0, int j1, const float *p,
                       const float *const *v, int ld, const float *alpha, const float *beta,
                       float *o) {
  vf acc[COLS];
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  for (int j = j0; j < j1;) {
    int at = j % PANEL, n = j1 - j < PANEL - at ? j1 - j : PANEL - at;
    weigh_panel(R, U, n, p + j, v[j / PANEL] + (size_t)at * ld, ld, acc);
    j += n;
  }
  UNROLL for (int r = 0; r < R; r++) {
    vf x = v_set1(alpha[r]), y = v_set1(beta[r]);
    UNROLL for (int i = 0; i < U * NV; i++) {
      float *out = o + (size_t)r * ld + i * VW;
      v_store(out, v_fma(acc[r * U * NV + i], y, v_mul(v_load(out), x)));
    }
  }
}

/* Columns [c, end) of R rows. */
INLINE void weigh_rows(const int R, int c, int end, int j0, int j1, const float *p,
                       const float *const *v, int ld, const float *alpha, const float *beta,
                       float *o) {
  const int U = UNITS(R);
  const float *panel[PANELS];
  for (; c + U * LANES <= end; c += U * LANES) {
    for (int i = j0 / PANEL; i * PANEL < j1; i++) panel[i] = v[i] + c;
    weigh_tile(R, U, j0, j1, p, panel, ld, alpha, beta, o + c);
  }
  for (; U > 1 && c < end; c += LANES) {
    for (int i = j0 / PANEL; i * PANEL < j1; i++) panel[i] = v[i] + c;
    weigh_tile(R, 1, j0, j1, p, panel, ld, alpha, beta, o + c);
  }
}

/* Where a tile is one unit wide, sixteen columns of the values stay in L1 for all tiles
 * of the group. */
void KERNEL(weigh)(int rows, int j0, int j1, const float *p, const float *const *v, int ld,
                   const float *alpha, const float *beta, float *o) {
  int step = UNITS(ROWS) == 1 && rows > ROWS ? LANES : ld;
  for (int c = 0; c < ld; c += step)
    for (int r = 0; r < rows; r += ROWS) {
      const float *weights = p + r * BLOCK;
      float *out = o + (size_t)r * (size_t)ld;
#define CALL(R) weigh_rows(R, c, c + step, j0, j1, weights, v, ld, alpha + r, beta + r, out)
      FOR_ROWS(tile_rows(rows, r), CALL)
#undef CALL
    }
}

/* ---- backward -------------------------------------------------------------------- */

/* For attention/softmax_backward.c: dS from scores, and P and dS times rows for dV and dK.
 * dP and dQ use the kernels above. */

enum { KEYS = ROWS, KEY_UNITS = ACC / (ROWS * NV) };

void KERNEL(softmax_grad)(int rows, int j0, int j1, float factor, float *s, float *dp,
                          const float *lse2, const float *delta) {
  const vf c = v_set1(factor);
  for (int r = 0; r < rows; r++, s += BLOCK, dp += BLOCK) {
    vf shift = v_set1(-lse2[r]), d = v_set1(delta[r]);
    for (int j = j0; j < j1; j += VW) {
      /* A weight is at most 1; a huge lse2, rounded, would say otherwise. */
      vf x = v_min(v_zero(), v_fma_once(v_load(s + j), c, shift));
      vf p = v_exp2_less(x, 1.0f, 0.0f);
      v_store(s + j, p);
      v_store(dp + j, v_mul(p, v_sub(v_load(dp + j), d)));
    }
  }
}

INLINE void key_tile(const int R, const int U, int n, const float *a, const float *b, int ld,
                     float *c) {
  vf acc[COLS];
  UNROLL for (int i = 0; i < R * U * NV; i++) acc[i] = v_zero();
  for (int r = 0; r < n; r++, a += BLOCK, b += ld) {
    vf x[4 * NV];
    UNROLL for (int i = 0; i < U * NV; i++) x[i] = v_load(b + i * VW);
    UNROLL for (int k = 0; k < R; k++) {
      vf w = v_set1(a[k]);
      UNROLL for (int i = 0; i < U * NV; i++) acc[k * U * NV + i] =
          v_fma(w, x[i], acc[k * U * NV + i]);
    }
  }
  UNROLL for (int k = 0; k < R; k++) UNROLL for (int i = 0; i < U * NV; i++) {
    float *out = c + (size_t)k * ld + i * VW;
    v_store(out, v_add(v_load(out), acc[k * U * NV + i]));
  }
}

INLINE void key_rows(const int U, int n, int i0, int i1, const float *a, const float *b, int ld,
                     float *c) {
  int i = i0;
  for (; i + KEYS <= i1; i += KEYS) key_tile(KEYS, U, n, a + i, b, ld, c + (size_t)i * ld);
  for (; i < i1; i++) key_tile(1, U, n, a + i, b, ld, c + (size_t)i * ld);
}

void KERNEL(weigh_keys)(int n, int i0, int i1, const float *a, const float *b, int ld, float *c) {
  int col = 0;
  for (; col + KEY_UNITS * LANES <= ld; col += KEY_UNITS * LANES)
    key_rows(KEY_UNITS, n, i0, i1, a, b + col, ld, c + col);
  for (; KEY_UNITS > 1 && col < ld; col += LANES) key_rows(1, n, i0, i1, a, b + col, ld, c + col);
}
