/* Every kernel of the list, on every instruction set that runs here, against
 * plain loops in double; softmax and its gradient are in test_kernel_softmax.c,
 * and the bits of all sets with fma are compared in test_kernel_bits.c. */
#include "kernel_fixtures.h"

enum { MAX_WIDTH = 80, MAX_LD = 80 };
static const int widths[] = {1, 2, 3, 7, 8, 15, 16, 17, 31, 33, 48, 64, 65, 80};
enum { WIDTHS = sizeof widths / sizeof *widths };

/* ---- packing ------------------------------------------------------------------- */

enum { PACK_N = 70, GAP = 3 };
static const float canary = -77.0f;

typedef struct {
  source src;
  void *block;                    /* element (0, 0) lies in its middle */
  float value[PACK_N][MAX_WIDTH]; /* what must come out */
} packing;

/* Any strides: columns apart, together or backwards. */
static void packing_make(packing *p, attend_dtype dtype, ptrdiff_t col, uint64_t stream) {
  enum { ROW = 3 * MAX_WIDTH + GAP };
  size_t size = attend_dtype_size(dtype);
  refill(stream);
  p->block = zeroed_block(PACK_N * ROW * 2, size);
  char *zero = (char *)p->block + (size_t)ROW * size;
  p->src = (source){zero, dtype, ROW, col};
  for (int i = 0; i < PACK_N; i++)
    for (int x = 0; x < MAX_WIDTH; x++) {
      char *at = zero + (ptrdiff_t)size * (i * ROW + x * col);
      attend_convert_from_f32(dtype, pool + i * MAX_WIDTH + x, 1, at);
      attend_convert_to_f32(dtype, at, 1, &p->value[i][x]);
    }
}

static void spoil(packing *p, int i, int x, float with) {
  size_t size = attend_dtype_size(p->src.dtype);
  attend_convert_from_f32(
      p->src.dtype, &with, 1,
      (char *)p->src.data + (ptrdiff_t)size * (i * p->src.row + x * p->src.col));
  p->value[i][x] = with;
}

static float wanted(const packing *p, const uint8_t *valid, int n, int width, int i, int x) {
  return i < n && x < width && (!valid || valid[i]) ? p->value[i][x] : 0.0f;
}

static void check_rows(const struct kernels *kn, const packing *p, const uint8_t *valid, int n,
                       int width, bool finite) {
  static float dst[(PACK_N + 1) * MAX_LD];
  int ld = (int)round_up((size_t)width, LANES);
  for (int i = 0; i < (n + 1) * ld; i++) dst[i] = canary;
  kn->pack_rows(p->src, valid, n, width, dst, ld);
  CHECK_EQ(kn->all_finite(dst, (size_t)(n * ld)), finite);
  for (int i = 0; i < n; i++)
    for (int x = 0; x < ld; x++) CHECK(same(dst[i * ld + x], wanted(p, valid, n, width, i, x)));
  for (int x = 0; x < ld; x++) CHECK(dst[n * ld + x] == canary);
}

static void check_lanes(const struct kernels *kn, const packing *p, const uint8_t *valid, int n,
                        int width) {
  static float dst[(PACK_N + 2 * LANES) * MAX_WIDTH];
  int whole = (int)round_up((size_t)n, LANES);
  for (int i = 0; i < (whole + LANES) * width; i++) dst[i] = canary;
  kn->pack_lanes(p->src, valid, n, width, dst);
  for (int i = 0; i < whole; i++)
    for (int x = 0; x < width; x++)
      CHECK(
          same(dst[(i / LANES * width + x) * LANES + i % LANES], wanted(p, valid, n, width, i, x)));
  for (int i = 0; i < LANES * width; i++) CHECK(dst[whole * width + i] == canary);
}

TEST(packing_takes_any_strides_and_types) {
  const int sizes[] = {1, 5, 16, 17, 31, 64, 70};
  const ptrdiff_t cols[] = {1, 2, -1};
  static packing p;
  uint8_t valid[PACK_N];
  for (int i = 0; i < PACK_N; i++) valid[i] = i % 3 != 1;
  FOR_EACH_KERNELS(kn)
  for (int dtype = 0; dtype < 3; dtype++)
    for (int c = 0; c < 3; c++) {
      packing_make(&p, (attend_dtype)dtype, cols[c], (uint64_t)(3 * dtype + c));
      for (int n = 0; n < 7; n++)
        for (int w = n % 2; w < WIDTHS; w += light() ? 4 : 2)
          for (int masked = 0; masked < 2; masked++) {
            const uint8_t *mask = masked ? valid : NULL;
            check_rows(kn, &p, mask, sizes[n], widths[w], true);
            check_lanes(kn, &p, mask, sizes[n], widths[w]);
          }
      free(p.block);
    }
}

/* Row 4 is invalid and poisoned throughout; then one number elsewhere. */
TEST(packing_says_whether_all_was_finite) {
  static packing p;
  uint8_t valid[PACK_N];
  for (int i = 0; i < PACK_N; i++) valid[i] = i != 4;
  const float nonfinite[] = {NAN, INFINITY, -INFINITY};
  FOR_EACH_KERNELS(kn)
  for (int dtype = 0; dtype < 3; dtype++)
    for (int n = 0; n < 3; n++)
      for (int w = 0; w < WIDTHS; w++) {
        packing_make(&p, (attend_dtype)dtype, 1, 90);
        for (int x = 0; x < MAX_WIDTH; x++) spoil(&p, 4, x, nonfinite[n]);
        check_rows(kn, &p, valid, 20, widths[w], true);
        check_lanes(kn, &p, valid, 20, widths[w]);
        spoil(&p, 19, widths[w] - 1, nonfinite[n]);
        check_rows(kn, &p, valid, 20, widths[w], false);
        check_rows(kn, &p, valid, 19, widths[w], true);
        free(p.block);
      }
}

TEST(widening_is_exact) {
  static uint16_t half[200];
  float wide[201], truth[200];
  refill(1);
  FOR_EACH_KERNELS(kn)
  for (int dtype = ATTEND_F16; dtype <= ATTEND_BF16; dtype++)
    for (size_t n = 0; n <= 200; n += 1 + n / 20) {
      attend_convert_from_f32((attend_dtype)dtype, pool, 200, half);
      attend_convert_to_f32((attend_dtype)dtype, half, 200, truth);
      wide[n] = canary;
      kn->widen((attend_dtype)dtype, half, n, wide);
      CHECK(wide[n] == canary && !memcmp(wide, truth, n * sizeof *wide));
    }
}

/* ---- and back ------------------------------------------------------------------ */

static double step_of(attend_dtype dtype) {
  return dtype == ATTEND_F32 ? 2 * eps : dtype == ATTEND_F16 ? 0x1p-11 : 0x1p-8;
}

static float read_at(target t, int i, int x) {
  float out;
  size_t size = attend_dtype_size(t.dtype);
  attend_convert_to_f32(t.dtype, (char *)t.data + (ptrdiff_t)size * (i * t.row + x * t.col), 1,
                        &out);
  return out;
}

TEST(storing_divides_and_rounds) {
  enum { N = 5, ROW = 2 * MAX_WIDTH + 5 };
  float block[N * ROW];
  float divisor[N] = {3.0f, 0.0f, 0.37f, 1.0f, 1e3f};
  refill(2);
  FOR_EACH_KERNELS(kn)
  for (int dtype = 0; dtype < 3; dtype++)
    for (int w = 0; w < WIDTHS; w++)
      for (int col = 1; col <= 2; col++) {
        put_all((attend_dtype)dtype, block, 0, N * ROW, canary);
        target t = {block, (attend_dtype)dtype, ROW, col};
        pool[MAX_LD] = NAN; /* row 1 has divisor 0: not a value */
        kn->store_rows(pool, MAX_LD, N, widths[w], divisor, t);
        for (int i = 0; i < N; i++) {
          for (int x = 0; x < widths[w]; x++) {
            double a = pool[i * MAX_LD + x], b = divisor[i];
            double truth = b == 0 ? 0 : a / b;
            CHECK_NEAR(read_at(t, i, x), truth,
                       fabs(truth) * (step_of(t.dtype) + 2 * eps) + 0x1p-25);
          }
          CHECK(read_at(t, i, widths[w]) == canary);
        }
      }
}

TEST(adding_rows) {
  enum { N = 4, ROW = 2 * MAX_WIDTH + 5 };
  float block[N * ROW];
  refill(3);
  FOR_EACH_KERNELS(kn)
  for (int w = 0; w < WIDTHS; w++)
    for (int col = 1; col <= 2; col++) {
      for (int i = 0; i < N * ROW; i++) block[i] = pool[5000 + i];
      target t = {block, ATTEND_F32, ROW, col};
      kn->add_rows(pool, MAX_LD, N, widths[w], 0.3f, t);
      for (int i = 0; i < N; i++)
        for (int x = 0; x < ROW; x++) {
          double before = pool[5000 + i * ROW + x];
          bool mine = x % col == 0 && x / col < widths[w];
          double more = mine ? 0.3f * pool[i * MAX_LD + x / col] : 0;
          CHECK_NEAR(block[i * ROW + x], before + more,
                     mine * 2 * eps * (fabs(before) + 2 * fabs(more)));
        }
    }
}

/* ---- products -------------------------------------------------------------------- */

static void check_scores(const struct kernels *kn, int rows, int width, int j0, int j1) {
  float s[GROUP * BLOCK];
  const float *q = pool, *k = pool + GROUP * MAX_WIDTH;
  for (int i = 0; i < rows * BLOCK; i++) s[i] = canary;
  kn->scores(rows, width, q, MAX_WIDTH, k, j0, j1, s);
  for (int r = 0; r < rows; r++)
    for (int j = 0; j < BLOCK; j++) {
      double sum = 0, size = 0;
      for (int d = 0; d < width && j < PANEL; d++) {
        double x =
            (double)q[r * MAX_WIDTH + d] * (double)k[(j / LANES * width + d) * LANES + j % LANES];
        sum += x, size += fabs(x);
      }
      if (j < j0 || j >= j1)
        CHECK(s[r * BLOCK + j] == canary);
      else
        CHECK_NEAR(s[r * BLOCK + j], sum, (width + 1) * eps * size);
    }
}

TEST(scores_are_dot_products) {
  refill(4);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++)
    for (int width = 1; width <= MAX_WIDTH; width += light() ? 13 : 3)
      for (int j0 = 0; j0 < PANEL; j0 += LANES)
        check_scores(kn, rows, width, j0, j0 + LANES + (rows + width) * LANES % (PANEL - j0));
}

static void check_weigh(const struct kernels *kn, int rows, int j0, int j1, int ld) {
  static float o[GROUP * MAX_LD];
  const float *p = pool, *v[PANELS], *values = pool + GROUP * BLOCK;
  const float *alpha = pool + 60000, *beta = pool + 60100;
  for (int i = 0; i < PANELS; i++) /* panels lie anywhere */
    v[i] = values + (PANELS - 1 - i) * PANEL * ld;
  for (int i = 0; i < rows * ld; i++) o[i] = pool[61000 + i];
  kn->weigh(rows, j0, j1, p, v, ld, alpha, beta, o);
  for (int r = 0; r < rows; r++)
    for (int c = 0; c < ld; c++) {
      double sum = 0, size = 0, before = pool[61000 + r * ld + c];
      for (int j = j0; j < j1; j++) {
        double x = (double)p[r * BLOCK + j] * (double)v[j / PANEL][j % PANEL * ld + c];
        sum += x, size += fabs(x);
      }
      double truth = alpha[r] * before + beta[r] * sum;
      CHECK_NEAR(o[r * ld + c], truth,
                 (j1 - j0 + 3) * eps * (fabs(beta[r]) * size + fabs(alpha[r] * before)));
    }
}

TEST(values_are_weighed) {
  refill(5);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++)
    for (int ld = LANES; ld <= MAX_LD; ld += LANES) {
      int odd = rows * 7 + ld;
      check_weigh(kn, rows, 0, BLOCK, ld);
      check_weigh(kn, rows, odd % 61, odd % 61 + 1 + odd % 190, ld);
      check_weigh(kn, rows, 64, 80, ld);
      check_weigh(kn, rows, 3, 3, ld); /* no key: alpha alone */
    }
}

static void check_keys(const struct kernels *kn, int n, int i0, int i1, int ld) {
  static float c[BLOCK * MAX_LD];
  const float *a = pool, *b = pool + 40 * BLOCK, *before = pool + 30000;
  memcpy(c, before, sizeof c);
  kn->weigh_keys(n, i0, i1, a, b, ld, c);
  for (int i = 0; i < BLOCK; i++)
    for (int x = 0; x < ld; x++) {
      double sum = 0, size = 0, was = before[i * ld + x];
      for (int r = 0; r < n && i >= i0 && i < i1; r++) {
        double y = (double)a[r * BLOCK + i] * (double)b[r * ld + x];
        sum += y, size += fabs(y);
      }
      bool mine = i >= i0 && i < i1;
      CHECK_NEAR(c[i * ld + x], was + sum, mine * (n + 2) * eps * (size + fabs(was)));
    }
}

TEST(keys_gather_from_rows) {
  refill(6);
  FOR_EACH_KERNELS(kn)
  for (int ld = LANES; ld <= MAX_LD; ld += LANES)
    for (int n = 1; n <= 37; n += light() ? 12 : 5) {
      int i0 = n * 16 % 112;
      check_keys(kn, n, i0, i0 + 16 * (1 + ld / LANES + n % 4), ld);
      check_keys(kn, n, i0 + n % 7, i0 + n % 7 + 1 + n % 5, ld);
    }
}

TEST(rows_alone_dots_and_sums) {
  refill(7);
  FOR_EACH_KERNELS(kn) {
    for (int w = 0; w < WIDTHS; w++) {
      int ld = (int)round_up((size_t)widths[w], LANES);
      float a[7 * MAX_LD] = {0}, b[7 * MAX_LD] = {0}, out[8];
      for (int r = 0; r < 7; r++) /* zero beyond the width: the layout */
        for (int x = 0; x < widths[w]; x++) {
          a[r * ld + x] = pool[r * 80 + x];
          b[r * ld + x] = pool[9000 + r * 80 + x];
        }
      out[7] = canary;
      kn->row_dots(7, widths[w], a, b, ld, out);
      for (int r = 0; r < 7; r++) {
        double sum = 0, size = 0;
        for (int x = 0; x < ld; x++)
          sum += (double)a[r * ld + x] * (double)b[r * ld + x],
              size += fabs((double)a[r * ld + x] * (double)b[r * ld + x]);
        CHECK_NEAR(out[r], sum, (ld + 1) * eps * size);
      }
      CHECK(out[7] == canary);
    }
    double sum = 0, size = 0;
    enum { N = 64 * 37 };
    for (int i = 0; i < N; i++) sum += pool[i], size += fabsf(pool[i]);
    CHECK_NEAR(kn->sum_all(pool, N), sum, N * eps * size);
    CHECK(kn->spin_fma(100) > 0 && kn->spin_fma(200) == 2 * kn->spin_fma(100));
    for (size_t n = 0; n < 70; n++) {
      float x[71];
      memcpy(x, pool, sizeof x);
      kn->scale_all(pool + 100, n, -1.3f, x);
      for (size_t i = 0; i < 71; i++) CHECK(x[i] == (i < n ? pool[100 + i] * -1.3f : pool[i]));
    }
  }
}

/* ---- along a row ------------------------------------------------------------ */

TEST(ramps_and_maxima) {
  float s[BLOCK];
  refill(11);
  FOR_EACH_KERNELS(kn)
  for (int j0 = 0; j0 < BLOCK; j0 += LANES)
    for (int j1 = j0 + LANES; j1 <= BLOCK; j1 += 2 * LANES) {
      float distance = (float)(j0 - 130), best = -INFINITY;
      memcpy(s, pool + j0, sizeof s);
      for (int j = j0; j < j1; j++) best = fmaxf(best, s[j]);
      CHECK(kn->row_max(j0, j1, s) == best);
      kn->add_ramp(j0, j1, -0.3f, distance, s);
      for (int j = 0; j < BLOCK; j++) {
        double more = j >= j0 && j < j1 ? -0.3f * fabs(distance + j) : 0;
        CHECK_NEAR(s[j], pool[j0 + j] + more, 2 * eps * (fabs(more) + 4));
      }
    }
}
