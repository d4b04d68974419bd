/* Feature maps and their derivatives, and what happens inside a block: each
 * kernel against plain formulas in double, and the same bits on every set. */
#include "kernel_fixtures.h"

enum { N = 64 };

/* Within `may`; a NaN is near nothing. */
static int near(double got, double want, double may) {
  return got == want || fabs(got - want) <= may;
}

/* ---- elu ----------------------------------------------------------------------- */

TEST(elu_and_backward) {
  FOR_EACH_KERNELS(kn)
  for (int scale = 1; scale <= 64; scale *= 4) {
    float x[N], y[N], g[N], dx[N];
    refill((uint64_t)scale);
    for (int i = 0; i < N; i++) x[i] = pool[i] * (float)scale, g[i] = pool[N + i];
    x[0] = 0, x[1] = -0.0f, x[2] = 1e-30f, x[3] = -1e-30f, x[4] = -1e30f;
    x[5] = 1e30f;
    kn->map_elu(x, N, y);
    kn->map_elu_backward(y, g, N, dx);
    for (int i = 0; i < N; i++) {
      double a = (double)x[i], want = a > 0 ? a + 1 : exp(a);
      double slope = a > 0 ? 1 : exp(a);
      /* log2(e) as a float is good to a fifth of eps */
      double may = (4 + 0.25 * fmin(fabs(a), 90)) * eps * want + 0x1p-125;
      CHECK(near((double)y[i], want, may));
      CHECK(near((double)dx[i], (double)g[i] * slope,
                 (may + eps * slope) * fabs((double)g[i]) + 0x1p-125));
    }
  }
}

TEST(elu_of_what_is_no_number) {
  FOR_EACH_KERNELS(kn) {
    float x[LANES] = {NAN, INFINITY, -INFINITY}, y[LANES];
    kn->map_elu(x, LANES, y);
    CHECK(isnan(y[0]) && y[1] == INFINITY && y[2] == 0 && y[3] == 1);
  }
}

/* ---- positive random features ----------------------------------------------------- */

static void check_exp(const struct kernels *kn, int dirs, int pairs, float times, float less) {
  enum { ROWS = 3 };
  int ld = (dirs + LANES - 1) / LANES * LANES, wide = pairs ? 2 * ld : ld;
  float x[ROWS * N], y[ROWS * 2 * N], off[ROWS], shift[ROWS], was[ROWS * N];
  for (int i = 0; i < ROWS * ld; i++) x[i] = was[i] = pool[i] * times;
  for (int r = 0; r < ROWS; r++) off[r] = less * (float)(r + 1);
  kn->map_exp(ROWS, dirs, ld, pairs, off, x, y, shift);
  for (int r = 0; r < ROWS; r++) {
    float max = 0;
    CHECK(shift[r] == rintf(shift[r]));
    for (int c = 0; c < wide; c++) {
      float got = y[r * wide + c];
      if (c % ld >= dirs) CHECK(got == 0);
      if (c % ld >= dirs) continue;
      double along = (double)was[r * ld + c % ld] * (c < ld ? 1 : -1);
      double s = along - (double)off[r] - (double)shift[r];
      double size = fabs(along) + fabs((double)off[r]) + fabs((double)shift[r]);
      double may = (4 + size) * eps * exp2(s) + 0x1p-125;
      if (!near((double)got, exp2(s), may))
        CHECK_FAIL("2^%g is %g, not %g", s, (double)got, exp2(s));
      max = fmaxf(max, got);
    }
    /* the largest feature is just below a power of two that is 1 */
    CHECK(max <= 1.001f && max >= 0.499f);
  }
}

TEST(exponentials) {
  refill(7);
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 2 * 4 * 5; n++) {
    static const int dirs[] = {1, 16, 40, 64};
    static const float times[] = {0.01f, 1, 30, 400, 20000};
    check_exp(kn, dirs[n / 2 % 4], n % 2, times[n / 8], times[n / 8] * 2);
  }
}

/* What divides the row is so large that its last place is more than all that
 * the directions say: the largest feature is near 1 nevertheless. */
TEST(exponentials_of_huge_norms) {
  refill(7);
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 10; n++) {
    float x[N], y[2 * N], shift, size = powf(10, (float)(3 + 2 * n));
    float less = fminf(size * size, 1e38f), max = 0;
    for (int i = 0; i < N; i++) x[i] = pool[i] * size;
    kn->map_exp(1, N, N, n % 2, &less, x, y, &shift);
    for (int i = 0; i < (n % 2 ? 2 * N : N); i++) {
      CHECK(y[i] >= 0 && y[i] <= 1.001f);
      max = fmaxf(max, y[i]);
    }
    CHECK(max >= 0.499f && shift < -0.99f * less);
  }
}

TEST(exponentials_of_what_is_no_number) {
  FOR_EACH_KERNELS(kn)
  for (int kind = 0; kind < 4; kind++) {
    float x[N], y[2 * N], shift, less = kind == 3 ? INFINITY : 1;
    for (int i = 0; i < N; i++) x[i] = pool[i];
    x[3] = kind == 0 ? NAN : kind == 1 ? INFINITY : kind == 2 ? -INFINITY : 1;
    kn->map_exp(1, N, N, false, &less, x, y, &shift);
    CHECK(kind == 3 ? shift == -INFINITY : isfinite(shift));
    if (kind == 0) CHECK(isnan(y[3]));
    if (kind == 1) CHECK(!isfinite(y[3]));
    if (kind == 2) CHECK(y[3] == 0);
    if (kind == 3) CHECK(y[3] == 0 && y[5] == 0);
  }
}

TEST(exponentials_backward) {
  enum { ROWS = 3, LD = 32 };
  refill(8);
  FOR_EACH_KERNELS(kn)
  for (int pairs = 0; pairs < 2; pairs++) {
    int wide = pairs ? 2 * LD : LD;
    const float *phi = pool, *dphi = pool + 1000;
    float e[ROWS * LD], sum[ROWS];
    kn->map_exp_backward(ROWS, LD, pairs, phi, dphi, e, sum);
    for (int r = 0; r < ROWS; r++) {
      double all = 0, size = 0;
      for (int c = 0; c < LD; c++) {
        int at = r * wide + c;
        double up = (double)phi[at] * (double)dphi[at], down = 0;
        if (pairs) down = (double)phi[at + LD] * (double)dphi[at + LD];
        all += up + down;
        size += fabs(up) + fabs(down);
        CHECK(near((double)e[r * LD + c], up - down, 3 * eps * (fabs(up) + fabs(down))));
      }
      CHECK(near((double)sum[r], all, 8 * eps * size));
    }
  }
}

/* ---- sines and cosines --------------------------------------------------------------- */

TEST(sines_and_cosines) {
  enum { DIRS = 40, LD = 48, ROWS = 20 };
  static const float scales[] = {1e-30f, 1e-6f, 0.01f, 0.3f, 1, 10, 1e3f, 3e5f};
  const double two_pi = 6.283185307179586476925;
  FOR_EACH_KERNELS(kn)
  for (int s = 0; s < 8; s++) {
    static float x[ROWS * LD], y[ROWS * 2 * LD], factor[ROWS];
    refill((uint64_t)(9 + s));
    for (int i = 0; i < ROWS * LD; i++) x[i] = pool[i] * scales[s];
    for (int i = 0; i < 9 && s == 3; i++) x[i] = (float)i / 8; /* turning */
    for (int i = 0; i < 9 && s == 3; i++) x[10 + i] = -(float)i / 8;
    for (int r = 0; r < ROWS; r++) factor[r] = 0.25f + pool[r] * pool[r];
    kn->map_trig(ROWS, DIRS, LD, factor, x, y);
    for (int r = 0; r < ROWS; r++)
      for (int c = 0; c < LD; c++) {
        double t = (double)x[r * LD + c], f = c < DIRS ? (double)factor[r] : 0;
        t = two_pi * (t - rint(t));
        CHECK(near((double)y[r * 2 * LD + c], f * cos(t), 4 * eps * f));
        CHECK(near((double)y[r * 2 * LD + LD + c], f * sin(t), 4 * eps * f));
      }
  }
}

TEST(sines_and_cosines_backward) {
  enum { LD = 32, ROWS = 3 };
  refill(20);
  FOR_EACH_KERNELS(kn) {
    const float *phi = pool, *dphi = pool + 1000;
    float e[ROWS * LD], sum[ROWS];
    kn->map_trig_backward(ROWS, LD, phi, dphi, e, sum);
    for (int r = 0; r < ROWS; r++) {
      double all = 0, size = 0;
      for (int c = 0; c < LD; c++) {
        int at = r * 2 * LD + c;
        double cosine = (double)phi[at], sine = (double)phi[at + LD];
        double dc = (double)dphi[at], ds = (double)dphi[at + LD];
        all += dc * cosine + ds * sine;
        size += fabs(dc * cosine) + fabs(ds * sine);
        CHECK(near((double)e[r * LD + c], ds * cosine - dc * sine,
                   3 * eps * (fabs(ds * cosine) + fabs(dc * sine))));
      }
      CHECK(near((double)sum[r], all, 8 * eps * size));
    }
  }
}

/* ---- monomials ------------------------------------------------------------------------- */

enum { VARIABLES = 9, DEGREES = 4, MONOMIALS = 720 }; /* 13 over 4 is 715 */

typedef struct {
  int count, ld;
  int32_t start[DEGREES * (VARIABLES + 1)];
  unsigned char power[MONOMIALS][VARIABLES];
} monomials;

/* By degree, each x_i times those of the degree below that begin with i or a
 * later variable. */
static void list_monomials(int dim, int degree, monomials *m) {
  memset(m, 0, sizeof *m);
  m->count = 1;
  for (int i = 0; i < dim; i++) {
    m->start[i] = m->count;
    m->power[m->count++][i] = 1;
  }
  m->start[dim] = m->count;
  for (int d = 2; d <= degree; d++) {
    const int32_t *below = m->start + (d - 2) * (dim + 1);
    int32_t *now = m->start + (d - 1) * (dim + 1);
    for (int i = 0; i < dim; i++) {
      now[i] = m->count;
      for (int j = below[i]; j < below[dim]; j++) {
        memcpy(m->power[m->count], m->power[j], VARIABLES);
        m->power[m->count++][i]++;
      }
    }
    now[dim] = m->count;
  }
  m->ld = (m->count + 2 * LANES - 2) / LANES * LANES;
}

/* Monomial c without one x_i for each of `less`, and the factor of that. */
static double monomial(const monomials *m, int c, const float *x, int dim, int less) {
  double product = 1;
  for (int i = 0; i < dim; i++) {
    int n = m->power[c][i] - (i == less);
    if (i == less) product *= m->power[c][i];
    for (; n > 0; n--) product *= (double)x[i];
  }
  return product;
}

TEST(monomials_and_backward) {
  static const int dims[] = {1, 2, 5, 8, 9};
  static monomials m;
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 5 * DEGREES; n++) {
    int dim = dims[n / DEGREES], degree = 1 + n % DEGREES;
    static float y[2][MONOMIALS + 32], dy[2][MONOMIALS + 32], dx[2 * LANES];
    float x[2 * LANES] = {0};
    list_monomials(dim, degree, &m);
    refill((uint64_t)n);
    float *rows = zeroed_block((size_t)(4 * m.ld), 4), *back = rows + 2 * m.ld;
    for (int i = 0; i < 2 * dim; i++) x[i / dim * LANES + i % dim] = pool[i];
    for (int i = 0; i < 2 * m.ld; i++) rows[i] = NAN;
    for (int i = 0; i < 2 * m.ld; i++) back[i] = i % m.ld < m.count ? pool[99 + i] : 0;
    kn->map_poly(2, dim, degree, m.start, x, LANES, rows, m.ld);
    for (int r = 0; r < 2; r++) {
      memcpy(y[r], rows + r * m.ld, (size_t)m.ld * 4);
      memcpy(dy[r], back + r * m.ld, (size_t)m.ld * 4);
      for (int c = 0; c < m.ld; c++) {
        double want = c < m.count ? monomial(&m, c, x + r * LANES, dim, -1) : 0;
        CHECK(near((double)y[r][c], want, 4 * eps * fabs(want)));
      }
    }
    kn->map_poly_backward(2, dim, degree, m.start, x, LANES, rows, back, m.ld, dx);
    for (int i = 0; i < 2 * LANES; i++) {
      double want = 0, size = 0;
      for (int c = 0; c < m.count && i % LANES < dim; c++) {
        double term =
            (double)dy[i / LANES][c] * monomial(&m, c, x + i / LANES * LANES, dim, i % LANES);
        if (m.power[c][i % LANES] == 0) continue;
        want += term;
        size += fabs(term);
      }
      CHECK(near((double)dx[i], want, 12 * eps * size));
    }
    free(rows);
  }
}

/* ---- inside a block ------------------------------------------------------------------- */

TEST(pairs_inside_a_block) {
  enum { ROWS = 5 };
  FOR_EACH_KERNELS(kn)
  for (int shifts = 0; shifts < 2; shifts++)
    for (int n = 16; n <= PANEL; n += 16) {
      float a[ROWS * PANEL], was[ROWS * PANEL], shift[PANEL], top[ROWS];
      float sum[ROWS], size[ROWS];
      int32_t seen[ROWS] = {0, 1, n / 2 + 3, n - 1, n};
      refill((uint64_t)n);
      for (int i = 0; i < ROWS * PANEL; i++) a[i] = was[i] = pool[i];
      for (int j = 0; j < PANEL; j++) shift[j] = (float)((j * 37) % 61 - 300);
      shift[5] = -INFINITY; /* no key */
      for (int r = 0; r < ROWS; r++) top[r] = -300;
      for (int r = 0; r < ROWS; r++) /* the largest that the row sees */
        for (int j = 0; j < seen[r]; j++) top[r] = fmaxf(top[r], shift[j]);
      a[4 * PANEL - 1] = a[2 * PANEL + n - 1] = was[0] = a[0] = NAN; /* unseen */
      kn->pair_rows(ROWS, n, shifts ? shift : NULL, top, seen, a, PANEL, sum, size);
      for (int r = 0; r < ROWS; r++) {
        double all = 0, sizes = 0;
        for (int j = 0; j < n; j++) {
          double want = j < seen[r] ? (double)was[r * PANEL + j] : 0;
          if (shifts) want *= exp2((double)(shift[j] - top[r]));
          if (j >= seen[r]) want = 0;
          CHECK(near((double)a[r * PANEL + j], want, 0x1p-120));
          all += want;
          sizes += fabs(want);
        }
        CHECK(near((double)sum[r], all, 8 * eps * sizes + 0x1p-100));
        CHECK(near((double)size[r], sizes, 8 * eps * sizes + 0x1p-100));
      }
    }
}

TEST(sums_and_scales) {
  enum { ROWS = 5, LD = 80, W = 64 };
  refill(40);
  FOR_EACH_KERNELS(kn) {
    float x[ROWS * LD], out[ROWS], size[ROWS], sum[ROWS], y[ROWS * LD];
    const float *b = pool + 2000, *f = pool + 3000;
    memcpy(x, pool, sizeof x);
    kn->dot_rows(ROWS, W, x, LD, b, out, size);
    kn->sum_rows(ROWS, W, x, LD, sum);
    for (int r = 0; r < ROWS; r++) {
      double dot = 0, sizes = 0, all = 0, max = 0;
      for (int j = 0; j < W; j++) {
        double a = (double)x[r * LD + j];
        dot += a * (double)b[j];
        sizes += fabs(a * (double)b[j]);
        all += a;
        max += fabs(a);
      }
      CHECK(near((double)out[r], dot, 8 * eps * sizes));
      CHECK(near((double)size[r], sizes, 8 * eps * sizes));
      CHECK(near((double)sum[r], all, 8 * eps * max));
    }
    memcpy(y, x, sizeof y);
    kn->scale_rows(ROWS, W, f, y, LD);
    for (int i = 0; i < ROWS * LD; i++) CHECK(same(y[i], i % LD < W ? x[i] * f[i / LD] : x[i]));
    memcpy(y, x, sizeof y);
    kn->scale_columns(ROWS, W, f, y, LD);
    for (int i = 0; i < ROWS * LD; i++) CHECK(same(y[i], i % LD < W ? x[i] * f[i % LD] : x[i]));
    memcpy(y, x, sizeof y);
    kn->join_all(ROWS * LD, 0.25f, 0.5f, pool + 100, y);
    for (int i = 0; i < ROWS * LD; i++) CHECK(same(y[i], x[i] * 0.25f + pool[100 + i] * 0.5f));
  }
}

/* ---- the same bits on every set with fma --------------------------------------------------- */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}
#define MIX(array) sum = mix(sum, array, sizeof array)

typedef struct { /* 12 rows of 64 */
  float x[12 * N], y[12 * 2 * N], g[12 * 2 * N], e[12 * N], out[12], less[12];
  float shift[PANEL];
  int32_t seen[12];
} battery;

static void prepare(battery *b) {
  memset(b, 0, sizeof *b);
  attend_random_uniform((attend_random){79, 1}, 0, 12 * N, b->x);
  attend_random_uniform((attend_random){79, 2}, 0, 12 * 2 * N, b->g);
  attend_random_uniform((attend_random){79, 3}, 0, 12, b->less);
  for (int i = 0; i < 12 * N; i++) b->x[i] = (b->x[i] - 0.5f) * 40;
  for (int j = 0; j < PANEL; j++) b->shift[j] = (float)(j * 37 % 61);
  for (int r = 0; r < 12; r++) b->seen[r] = 1 + r * 5;
}

/* `rows` at a time. */
static uint64_t random_bits(const struct kernels *kn, battery *b, int rows) {
  uint64_t sum = UINT64_C(14695981039346656037);
  for (int trig = 0; trig < 2; trig++)
    for (int r = 0; r < 12; r += rows) {
      float *y = b->y + r * 2 * N, *g = b->g + r * 2 * N;
      if (trig)
        kn->map_trig(rows, 60, N, b->less + r, b->x + r * N, y);
      else
        kn->map_exp(rows, N, N, true, b->less + r, b->x + r * N, y, b->out + r);
      MIX(b->out);
      if (trig)
        kn->map_trig_backward(rows, N, y, g, b->e + r * N, b->out + r);
      else
        kn->map_exp_backward(rows, N, true, y, g, b->e + r * N, b->out + r);
      if (r + rows == 12) MIX(b->y), MIX(b->e), MIX(b->out);
    }
  return sum;
}

static uint64_t other_bits(const struct kernels *kn, battery *b) {
  static monomials m;
  uint64_t sum = 1;
  float size[12], top[12], dx[LANES];
  for (int r = 0; r < 12; r++) top[r] = 60;
  kn->map_elu(b->x, 12 * N, b->y);
  kn->map_elu_backward(b->y, b->g, 12 * N, b->e);
  MIX(b->y), MIX(b->e);
  kn->pair_rows(12, PANEL, b->shift, top, b->seen, b->x, N, b->out, size);
  MIX(b->x), MIX(b->out), MIX(size);
  kn->dot_rows(12, N, b->x, N, b->g, b->out, size);
  kn->join_all(12 * N, 0.25f, 1.0f, b->g, b->e);
  MIX(b->out), MIX(size), MIX(b->e);
  list_monomials(7, 3, &m);
  memset(b->y, 0, sizeof b->y);
  kn->map_poly(1, 7, 3, m.start, b->g, LANES, b->y, m.ld);
  MIX(b->y);
  kn->map_poly_backward(1, 7, 3, m.start, b->g, LANES, b->y, b->e, m.ld, dx);
  MIX(b->e), MIX(dx);
  return sum;
}

/* Computed with AVX2; the same with any set but scalar, which has no fma. */
static const uint64_t known_random = UINT64_C(0x2900dc08e6c9432a);
static const uint64_t known_other = UINT64_C(0xbd1a35ada1d1651d);

TEST(sets_with_fma_give_the_same_bits) {
  static battery b;
  FOR_EACH_KERNELS(kn) {
    if (!strcmp(kn->isa, "scalar")) continue;
    prepare(&b);
    CHECK_BITS(random_bits(kn, &b, 12), known_random, kn);
    prepare(&b);
    CHECK_BITS(other_bits(kn, &b), known_other, kn);
  }
}

/* Rows one by one, or three at a time: scalar too. */
TEST(rows_do_not_know_of_each_other) {
  static battery all, some;
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= 6; rows++) {
    prepare(&all), prepare(&some);
    random_bits(kn, &all, 12);
    random_bits(kn, &some, rows == 5 ? 6 : rows);
    CHECK(!memcmp(&all, &some, sizeof all));
  }
}
