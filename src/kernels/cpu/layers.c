/* Kernels of layers along rows of any length: norms and their gradients, sums, embedding
 * lookup, RoPE, the loss, dropout. Sums along a row run in 16 lanes that fold 8, 4, 2, 1; the
 * last lanes are padded with neutral values.
 */
#include "kernels/cpu/vec.h"

INLINE void load_lanes(const float *p, int n, float missing, vf out[NV]) {
  float tail[LANES];
  if (n < LANES) {
    for (int i = 0; i < LANES; i++) tail[i] = missing;
    memcpy(tail, p, (size_t)n * sizeof *p);
    p = tail;
  }
  UNROLL for (int i = 0; i < NV; i++) out[i] = v_load(p + i * VW);
}

INLINE void store_lanes(float *p, int n, const vf x[NV]) {
  float tail[LANES];
  float *to = n < LANES ? tail : p;
  UNROLL for (int i = 0; i < NV; i++) v_store(to + i * VW, x[i]);
  if (n < LANES) memcpy(p, tail, (size_t)n * sizeof *p);
}

/* p[j ..), or one value everywhere where there is no p. */
INLINE void load_or(const float *p, int j, int n, float value, vf out[NV]) {
  if (p)
    load_lanes(p + j, n, 0, out);
  else
    UNROLL for (int i = 0; i < NV; i++) out[i] = v_set1(value);
}

#define ALL(i) UNROLL for (int i = 0; i < NV; i++)

INLINE float row_sum(int n, const float *x) {
  vf sum[NV], a[NV];
  ALL(i) sum[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, 0, a);
    ALL(i) sum[i] = v_add(sum[i], a[i]);
  }
  return fold_sum(sum);
}

/* The sum of (x - centre)^2. */
INLINE float row_squares(int n, const float *x, float centre) {
  vf sum[NV], a[NV];
  ALL(i) sum[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, centre, a);
    ALL(i) a[i] = v_sub(a[i], v_set1(centre));
    ALL(i) sum[i] = v_fma(a[i], a[i], sum[i]);
  }
  return fold_sum(sum);
}

/* ---- norms ----------------------------------------------------------------------- */

static void scale_row(int n, const float *x, float less, float factor, const float *weight,
                      const float *bias, float *y) {
  vf a[NV], w[NV], b[NV];
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, less, a);
    load_or(weight, j, n - j, 1.0f, w);
    load_or(bias, j, n - j, 0.0f, b);
    ALL(i) a[i] = v_mul(v_sub(a[i], v_set1(less)), v_set1(factor));
    ALL(i) a[i] = v_fma(a[i], w[i], b[i]);
    store_lanes(y + j, n - j, a);
  }
}

/* (x - mean) / sqrt(variance + eps) weight + bias; mean 0 without `centre`. */
void KERNEL(norm_rows)(bool centre, int rows, int n, const float *x, int ldx, const float *weight,
                       const float *bias, float eps, float *y, int ldy) {
  for (int r = 0; r < rows; r++, x += ldx, y += ldy) {
    float mean = centre ? row_sum(n, x) / (float)n : 0.0f;
    float variance = row_squares(n, x, mean) / (float)n;
    scale_row(n, x, mean, 1.0f / sqrtf(variance + eps), weight, bias, y);
  }
}

/* The same by columns, with what is given. */
void KERNEL(norm_columns)(int rows, int n, const float *x, int ldx, const float *mean,
                          const float *variance, const float *weight, const float *bias, float eps,
                          float *y, int ldy) {
  for (int j = 0; j < n; j += LANES) {
    vf m[NV], f[NV], w[NV], b[NV];
    load_lanes(mean + j, n - j, 0, m);
    load_lanes(variance + j, n - j, 1, f);
    load_or(weight, j, n - j, 1.0f, w);
    load_or(bias, j, n - j, 0.0f, b);
    ALL(i) f[i] = v_div(w[i], v_sqrt(v_add(f[i], v_set1(eps))));
    for (int r = 0; r < rows; r++) {
      vf a[NV];
      load_lanes(x + (size_t)r * (size_t)ldx + j, n - j, 0, a);
      ALL(i) a[i] = v_fma(v_sub(a[i], m[i]), f[i], b[i]);
      store_lanes(y + (size_t)r * (size_t)ldy + j, n - j, a);
    }
  }
}

/* total += the sums of 16 columns of (x - less), or of its squares. A batch may
 * be long: floats sum BLOCK rows, doubles the rest. */
static void lane_sums(bool squares, int rows, int n, const float *x, int ldx,
                      const float less[LANES], double total[LANES]) {
  for (int r = 0; r < rows; r += BLOCK) {
    float part[LANES];
    vf sum[NV], a[NV];
    ALL(i) sum[i] = v_zero();
    for (int k = r; k < rows && k < r + BLOCK; k++) {
      load_lanes(x + (size_t)k * (size_t)ldx, n, 0, a);
      ALL(i) a[i] = v_sub(a[i], v_load(less + i * VW));
      ALL(i) sum[i] = squares ? v_fma(a[i], a[i], sum[i]) : v_add(sum[i], a[i]);
    }
    store_lanes(part, LANES, sum);
    for (int i = 0; i < LANES; i++) total[i] += (double)part[i];
  }
}

void KERNEL(column_moments)(int rows, int n, const float *x, int ldx, float *mean,
                            float *variance) {
  for (int j = 0; j < n; j += LANES) {
    int here = n - j < LANES ? n - j : LANES;
    float m[LANES] = {0};
    double sum[LANES] = {0}, squares[LANES] = {0};
    lane_sums(false, rows, here, x + j, ldx, m, sum);
    for (int i = 0; i < here; i++) m[i] = (float)(sum[i] / rows);
    lane_sums(true, rows, here, x + j, ldx, m, squares);
    for (int i = 0; i < here; i++) {
      mean[j + i] = m[i];
      variance[j + i] = (float)(squares[i] / rows);
    }
  }
}

/* total += the sums of U lanes of columns; `here` of the last are there. */
INLINE void wide_sums(const int U, int rows, int here, const float *x, size_t ldx, double *total) {
  for (int r = 0; r < rows; r += BLOCK) {
    float part[U * LANES];
    vf sum[U * NV], a[NV];
    UNROLL for (int i = 0; i < U * NV; i++) sum[i] = v_zero();
    for (int k = r; k < rows && k < r + BLOCK; k++) UNROLL for (int u = 0; u < U; u++) {
        load_lanes(x + (size_t)k * ldx + u * LANES, u < U - 1 ? LANES : here, 0, a);
        ALL(i) sum[u * NV + i] = v_add(sum[u * NV + i], a[i]);
      }
    UNROLL for (int i = 0; i < U * NV; i++) v_store(part + i * VW, sum[i]);
    for (int i = 0; i < U * LANES; i++) total[i] += (double)part[i];
  }
}

/* out (+)= the sums of columns. Four lanes are read together: alone, every line
 * would be in another page. */
void KERNEL(add_columns)(int rows, int n, const float *x, int ldx, bool add, float *out) {
  enum { FOUR = 4 };
  for (int j = 0; j < n;) {
    int here = n - j < LANES ? n - j : LANES;
    double sum[FOUR * LANES] = {0};
    if (n - j >= FOUR * LANES)
      here = FOUR * LANES, wide_sums(FOUR, rows, LANES, x + j, (size_t)ldx, sum);
    else
      wide_sums(1, rows, here, x + j, (size_t)ldx, sum);
    for (int i = 0; i < here; i++) out[j + i] = (float)((add ? (double)out[j + i] : 0) + sum[i]);
    j += here;
  }
}

void KERNEL(add_both)(int rows, int n, const float *a, int lda, const float *b, int ldb, float *y,
                      int ldy) {
  for (int r = 0; r < rows; r++, a += lda, b += ldb, y += ldy) {
    int i = 0;
    for (; i + VW <= n; i += VW) v_store(y + i, v_add(v_load(a + i), v_load(b + i)));
    for (; i < n; i++) y[i] = a[i] + b[i];
  }
}

/* Gradients of norms. Moments are recomputed: cheaper than storing them. */

/* ---- gradients of norms of rows -------------------------------------------------- */

/* With h = (x - mean) f and g = dy weight, what the row's sums have to give:
 * dx = f (g - mean of g - h mean of g h). Without `centre` both means of x and
 * of g are 0. */
typedef struct {
  float mean, factor;
  float g, gh; /* means */
} row_terms;

static row_terms norm_terms(bool centre, int n, const float *x, const float *weight, float eps,
                            const float *dy) {
  row_terms t = {.mean = centre ? row_sum(n, x) / (float)n : 0.0f};
  float variance = row_squares(n, x, t.mean) / (float)n;
  t.factor = 1.0f / sqrtf(variance + eps);
  vf sum[NV], dots[NV], a[NV], g[NV], w[NV];
  ALL(i) sum[i] = dots[i] = v_zero();
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, t.mean, a);
    load_lanes(dy + j, n - j, 0, g);
    load_or(weight, j, n - j, 1.0f, w);
    ALL(i) a[i] = v_mul(v_sub(a[i], v_set1(t.mean)), v_set1(t.factor));
    ALL(i) g[i] = v_mul(g[i], w[i]);
    ALL(i) sum[i] = v_add(sum[i], g[i]);
    ALL(i) dots[i] = v_fma(g[i], a[i], dots[i]);
  }
  t.g = centre ? fold_sum(sum) / (float)n : 0.0f;
  t.gh = fold_sum(dots) / (float)n;
  return t;
}

INLINE void add_to(float *p, int j, int n, const vf x[NV]) {
  vf a[NV];
  load_lanes(p + j, n, 0, a);
  ALL(i) a[i] = v_add(a[i], x[i]);
  store_lanes(p + j, n, a);
}

static void norm_backward(row_terms t, int n, const float *x, const float *weight, const float *dy,
                          bool add, float *dx, float *dweight, float *dbias) {
  vf a[NV], d[NV], w[NV], out[NV];
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, t.mean, a);
    load_lanes(dy + j, n - j, 0, d);
    load_or(weight, j, n - j, 1.0f, w);
    ALL(i) a[i] = v_mul(v_sub(a[i], v_set1(t.mean)), v_set1(t.factor));
    ALL(i) out[i] = v_sub(v_mul(d[i], w[i]), v_set1(t.g));
    ALL(i) out[i] = v_fma(v_sub(v_zero(), a[i]), v_set1(t.gh), out[i]);
    ALL(i) out[i] = v_mul(out[i], v_set1(t.factor));
    if (add)
      add_to(dx, j, n - j, out);
    else
      store_lanes(dx + j, n - j, out);
    ALL(i) a[i] = v_mul(a[i], d[i]);
    if (dweight) add_to(dweight, j, n - j, a);
    if (dbias) add_to(dbias, j, n - j, d);
  }
}

/* dweight and dbias, which may be NULL, take the rows in order. linear: f is a constant. */
void KERNEL(norm_rows_backward)(bool centre, int rows, int n, const float *x, int ldx,
                                const float *weight, float eps, bool linear, const float *dy,
                                int lddy, bool add, float *dx, int lddx, float *dweight,
                                float *dbias) {
  for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx) {
    row_terms t = norm_terms(centre, n, x, weight, eps, dy);
    if (linear) t.gh = 0;
    norm_backward(t, n, x, weight, dy, add, dx, dweight, dbias);
  }
}

/* ---- gradients of norms of columns ----------------------------------------------- */

/* total[0] the sums of dy, total[1] of dy (x - mean), of 16 columns: floats sum
 * BLOCK rows, doubles the rest. */
static void column_terms(int rows, int n, const float *x, size_t ldx, const vf mean[NV],
                         const float *dy, size_t lddy, double total[2][LANES]) {
  for (int r = 0; r < rows; r += BLOCK) {
    float part[2][LANES];
    vf sum[NV], dots[NV], a[NV], d[NV];
    ALL(i) sum[i] = dots[i] = v_zero();
    for (int k = r; k < rows && k < r + BLOCK; k++) {
      load_lanes(x + (size_t)k * ldx, n, 0, a);
      load_lanes(dy + (size_t)k * lddy, n, 0, d);
      ALL(i) sum[i] = v_add(sum[i], d[i]);
      ALL(i) dots[i] = v_fma(v_sub(a[i], mean[i]), d[i], dots[i]);
    }
    store_lanes(part[0], LANES, sum);
    store_lanes(part[1], LANES, dots);
    for (int i = 0; i < 2 * LANES; i++)
      total[i / LANES][i % LANES] += (double)part[i / LANES][i % LANES];
  }
}

/* The moments are those of these rows, and so depend on x:
 * dx = f (dy - mean of dy - h mean of dy h) with f = weight / sqrt(variance +
 * eps), h = (x - mean) / sqrt(variance + eps). */
void KERNEL(norm_columns_backward)(int rows, int n, const float *x, int ldx, const float *mean,
                                   const float *variance, const float *weight, float eps,
                                   const float *dy, int lddy, bool add, float *dx, int lddx,
                                   float *dweight, float *dbias) {
  for (int j = 0; j < n; j += LANES) {
    int here = n - j < LANES ? n - j : LANES;
    double total[2][LANES] = {{0}};
    float s[LANES], g[LANES], gh[LANES];
    vf m[NV], f[NV], w[NV], vg[NV], vgh[NV];
    load_lanes(mean + j, here, 0, m);
    load_lanes(variance + j, here, 1, f);
    load_or(weight, j, here, 1.0f, w);
    ALL(i) f[i] = v_div(v_set1(1.0f), v_sqrt(v_add(f[i], v_set1(eps))));
    store_lanes(s, LANES, f);
    column_terms(rows, here, x + j, (size_t)ldx, m, dy + j, (size_t)lddy, total);
    for (int i = 0; i < LANES; i++) {
      double h = total[1][i] * (double)s[i];
      g[i] = (float)(total[0][i] / rows);
      gh[i] = (float)(h * (double)s[i] / rows); /* of x - mean, not of h */
      if (i < here && dbias) dbias[j + i] += (float)total[0][i];
      if (i < here && dweight) dweight[j + i] += (float)h;
    }
    load_lanes(g, LANES, 0, vg);
    load_lanes(gh, LANES, 0, vgh);
    ALL(i) f[i] = v_mul(f[i], w[i]);
    for (int r = 0; r < rows; r++) {
      vf a[NV], d[NV];
      load_lanes(x + (size_t)r * (size_t)ldx + j, here, 0, a);
      load_lanes(dy + (size_t)r * (size_t)lddy + j, here, 0, d);
      ALL(i) a[i] = v_sub(m[i], a[i]);
      ALL(i) d[i] = v_fma(a[i], vgh[i], v_sub(d[i], vg[i]));
      ALL(i) d[i] = v_mul(d[i], f[i]);
      if (add)
        add_to(dx + (size_t)r * (size_t)lddx, j, here, d);
      else
        store_lanes(dx + (size_t)r * (size_t)lddx + j, here, d);
    }
  }
}

/* ---- embeddings and positions ---------------------------------------------------- */

/* y = factor src, or added to y; src may lie anywhere, so it is copied first. */
void KERNEL(embed_row)(attend_dtype dtype, const void *src, int n, float factor, bool add,
                       float *y) {
  enum { CHUNK = 64 };
  float near[CHUNK] __attribute__((aligned(64))) = {0};
  size_t size = dtype == ATTEND_F32 ? 4 : 2;
  for (int j = 0; j < n; j += CHUNK) {
    int here = n - j < CHUNK ? n - j : CHUNK;
    memcpy(near, (const char *)src + (size_t)j * size, (size_t)here * size);
    for (int i = 0; i < here; i += LANES) {
      vf a[NV], b[NV];
      load_or(add ? y : NULL, j + i, here - i, 0.0f, b);
      ALL(k) a[k] = v_load_as(dtype, (const char *)near + (size_t)(i + k * VW) * size);
      ALL(k)
      a[k] = add ? v_fma(a[k], v_set1(factor), b[k]) : v_mul(a[k], v_set1(factor));
      store_lanes(y + j + i, here - i, a);
    }
  }
}

/* Pairs i0 .. i0 + n - 1 of every head: (a, b) <- (a cos - b sin,
 * b cos + a sin); pair i is (x[i], x[i + dim/2]). */
void KERNEL(rotate_pairs)(int heads, int dim, int half, int i0, int n, const float *cosine,
                          const float *sine, float *x) {
  for (int h = 0; h < heads; h++, x += dim)
    for (int i = 0; i < n; i += LANES) {
      vf a[NV], b[NV], c[NV], s[NV], d[NV];
      load_lanes(x + i0 + i, n - i, 0, a);
      load_lanes(x + i0 + i + half, n - i, 0, b);
      load_lanes(cosine + i, n - i, 0, c);
      load_lanes(sine + i, n - i, 0, s);
      ALL(k) d[k] = v_sub(v_mul(a[k], c[k]), v_mul(b[k], s[k]));
      ALL(k) b[k] = v_add(v_mul(b[k], c[k]), v_mul(a[k], s[k]));
      store_lanes(x + i0 + i, n - i, d);
      store_lanes(x + i0 + i + half, n - i, b);
    }
}

/* ---- loss ------------------------------------------------------------------------ */

static const float log2_e = 0x1.715476p0f;

/* Where the largest stands first; NaN is passed over. n >= 1. */
int KERNEL(largest_at)(int n, const float *x) {
  vf top[NV], a[NV];
  ALL(i) top[i] = v_set1(-INFINITY);
  for (int j = 0; j < n; j += LANES) {
    load_lanes(x + j, n - j, -INFINITY, a);
    ALL(i) top[i] = v_max(a[i], top[i]);
  }
  float max = fold_max(top);
  for (int j = 0; j < n; j++)
    if (x[j] == max) return j;
  return 0;
}

/* The sum of x - less, or of e^(x - less): floats sum BLOCK in each of 16 lanes, doubles
 * the rest. */
INLINE double long_sum(const bool exponentials, int n, const float *x, float less) {
  double total = 0;
  for (int from = 0; from < n; from += BLOCK * LANES) {
    vf sum[NV], a[NV];
    ALL(i) sum[i] = v_zero();
    for (int j = from; j < n && j < from + BLOCK * LANES; j += LANES) {
      load_lanes(x + j, n - j, exponentials ? -INFINITY : less, a);
      ALL(i) a[i] = v_sub(a[i], v_set1(less));
      ALL(i) sum[i] = v_add(sum[i], exponentials ? v_exp2_less(a[i], log2_e, 0) : a[i]);
    }
    total += (double)fold_sum(sum);
  }
  return total;
}

/* No x is larger than less. */
double KERNEL(sum_exp)(int n, const float *x, float less) { return long_sum(true, n, x, less); }

double KERNEL(sum_less)(int n, const float *x, float less) { return long_sum(false, n, x, less); }

/* y = factor e^(x - less) - off, no x larger than less. y may be x. */
void KERNEL(exp_row)(int n, const float *x, float less, float factor, float off, float *y) {
  for (int j = 0; j < n; j += LANES) {
    vf a[NV];
    load_lanes(x + j, n - j, -INFINITY, a);
    ALL(i) a[i] = v_exp2_less(v_sub(a[i], v_set1(less)), log2_e, 0);
    ALL(i) a[i] = v_fma(a[i], v_set1(factor), v_set1(-off));
    store_lanes(y + j, n - j, a);
  }
}

/* ---- dropout --------------------------------------------------------------------- */

/* By elements of a random stream: Philox of base/random.c, 16 blocks side by side, vectorised by
 * the compiler (with ivdep; without, it unrolls the 16 first and takes twice the time). */

enum { DRAWN = 4 * LANES }; /* elements that are drawn together */

/* Blocks `block` and on; word w of block i is drawn[4 i + w]. */
static void draw(attend_random r, uint64_t block, uint32_t drawn[DRAWN]) {
  uint32_t c0[LANES], c1[LANES], c2[LANES], c3[LANES];
  uint32_t k0 = (uint32_t)r.seed, k1 = (uint32_t)(r.seed >> 32);
  for (int i = 0; i < LANES; i++) {
    uint64_t at = block + (uint64_t)i;
    c0[i] = (uint32_t)at, c1[i] = (uint32_t)(at >> 32);
    c2[i] = (uint32_t)r.stream, c3[i] = (uint32_t)(r.stream >> 32);
  }
  for (int round = 0; round < 10; round++) {
#pragma GCC ivdep
    for (int i = 0; i < LANES; i++) {
      uint64_t p0 = (uint64_t)0xD2511F53u * c0[i];
      uint64_t p1 = (uint64_t)0xCD9E8D57u * c2[i];
      c0[i] = (uint32_t)(p1 >> 32) ^ c1[i] ^ k0;
      c2[i] = (uint32_t)(p0 >> 32) ^ c3[i] ^ k1;
      c1[i] = (uint32_t)p1;
      c3[i] = (uint32_t)p0;
    }
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  for (int i = 0; i < LANES; i++) {
    drawn[4 * i] = c0[i], drawn[4 * i + 1] = c1[i];
    drawn[4 * i + 2] = c2[i], drawn[4 * i + 3] = c3[i];
  }
}

void KERNEL(drop_row)(attend_random r, uint64_t first, uint32_t min, float factor, int n,
                      const float *x, float *y) {
  int skip = (int)(first % 4);
  uint64_t block = first / 4;
  for (int j = 0; j < n; block += LANES) {
    uint32_t drawn[DRAWN];
    int here = n - j < DRAWN - skip ? n - j : DRAWN - skip;
    draw(r, block, drawn);
#pragma GCC ivdep
    for (int i = 0; i < here; i++) {
      float a = x[j + i] * factor;
      y[j + i] = (int32_t)(drawn[skip + i] >> 8) < (int32_t)min ? 0.0f : a;
    }
    j += here;
    skip = 0;
  }
}
