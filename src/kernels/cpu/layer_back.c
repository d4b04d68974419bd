/* Gradients of norms and of the loss. Moments are recomputed: cheaper than storing them. */
#include "kernels/cpu/lanes.h"

static const float log2_e = 0x1.715476p0f;

/* ---- norms of rows --------------------------------------------------------------- */

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

static void norm_back(row_terms t, int n, const float *x, const float *weight, const float *dy,
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

/* dweight and dbias, which may be NULL, take the rows in order. */
void KERNEL(norm_rows_back)(bool centre, int rows, int n, const float *x, int ldx,
                            const float *weight, float eps, const float *dy, int lddy, bool add,
                            float *dx, int lddx, float *dweight, float *dbias) {
  for (int r = 0; r < rows; r++, x += ldx, dy += lddy, dx += lddx) {
    row_terms t = norm_terms(centre, n, x, weight, eps, dy);
    norm_back(t, n, x, weight, dy, add, dx, dweight, dbias);
  }
}

/* ---- norms of columns -------------------------------------------------------------- */

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
void KERNEL(norm_columns_back)(int rows, int n, const float *x, int ldx, const float *mean,
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

/* ---- loss -------------------------------------------------------------------------- */

/* The sum of x - less: floats sum BLOCK in each of 16 lanes, doubles the rest. */
double KERNEL(sum_less)(int n, const float *x, float less) {
  double total = 0;
  for (int from = 0; from < n; from += BLOCK * LANES) {
    vf sum[NV], a[NV];
    ALL(i) sum[i] = v_zero();
    for (int j = from; j < n && j < from + BLOCK * LANES; j += LANES) {
      load_lanes(x + j, n - j, less, a);
      ALL(i) sum[i] = v_add(sum[i], v_sub(a[i], v_set1(less)));
    }
    total += (double)fold_sum(sum);
  }
  return total;
}

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
