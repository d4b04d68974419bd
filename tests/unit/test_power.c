/* The kernels of poly and gaussian, on every instruction set that runs here,
 * against plain loops in double; and the same bits from every set with fma. */
#include "attention/engine.h"
#include "kernel_fixtures.h"

static const float canary = -77.0f;

static double power(double x, int n) {
  double y = 1;
  while (n--) y *= x;
  return y;
}

/* ---- poly ---------------------------------------------------------------------- */

static const int degrees[] = {1, 2, 3, 4, 5, 7, 8, 13};
enum { DEGREES = sizeof degrees / sizeof *degrees };

TEST(powers_of_scores) {
  static float s[GROUP * BLOCK];
  refill(31);
  FOR_EACH_KERNELS(kn)
  for (int d = 0; d < DEGREES; d++)
    for (int rows = 1; rows <= kn->rows; rows += 4) {
      int n = degrees[d], j0 = rows % 5 * 16, j1 = j0 + 16 * (1 + rows % 9);
      memcpy(s, pool, sizeof s);
      kn->power(rows, j0, j1, 0.7f, -0.4f, n, s);
      for (int i = 0; i < GROUP * BLOCK; i++) {
        bool mine = i / BLOCK < rows && i % BLOCK >= j0 && i % BLOCK < j1;
        double base = (double)0.7f * pool[i] + (double)-0.4f;
        double size = fabs(0.7 * pool[i]) + 0.4;
        CHECK_NEAR(s[i], mine ? power(base, n) : (double)pool[i],
                   mine * 2 * n * eps * power(size, n));
      }
    }
}

/* Weights that cancel: the row has still seen something. */
TEST(sums_join_without_a_maximum) {
  static float s[GROUP * BLOCK];
  refill(32);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++) {
    float m[GROUP], l[2 * GROUP], alpha[GROUP], beta[GROUP];
    double sum[GROUP] = {0}, size[GROUP] = {0};
    for (int r = 0; r < rows; r++) m[r] = -INFINITY, l[2 * r] = 0;
    for (int r = 0; r < rows; r++) l[2 * r + 1] = 0;
    for (int block = 0; block < 3; block++) {
      int j0 = block * 32, j1 = j0 + 16 * (1 + rows % 7);
      for (int i = 0; i < rows * BLOCK; i++) {
        float x = pool[block * 100 + i / 2];
        s[i] = block == 0 ? (i % 2 ? -x : x) : x;
      }
      kn->join_sums(rows, j0, j1, s, m, l, alpha, beta);
      for (int r = 0; r < rows; r++) {
        CHECK(m[r] == 0 && beta[r] == 1 && alpha[r] == (block > 0));
        for (int j = j0; j < j1; j++)
          sum[r] += s[r * BLOCK + j], size[r] += fabsf(s[r * BLOCK + j]);
        CHECK_NEAR(l[2 * r], sum[r], (j1 - j0) * eps * size[r]);
        CHECK_NEAR(l[2 * r + 1], size[r], (j1 - j0) * eps * size[r]);
        if (block == 0) CHECK(fabsf(l[2 * r]) < 1e-5f);
      }
    }
  }
}

TEST(gradient_of_powers) {
  static float s[GROUP * BLOCK], dp[GROUP * BLOCK];
  refill(33);
  FOR_EACH_KERNELS(kn)
  for (int d = 0; d < DEGREES; d++) {
    int n = degrees[d], rows = kn->rows - d % 3, j0 = 16 * d, j1 = 16 * (d + 8);
    float den[GROUP], *delta = pool + 50100;
    for (int r = 0; r < GROUP; r++) den[r] = r % 5 == 3 ? 0 : pool[r] + 9;
    for (int r = 0; r < GROUP; r += 2) den[r] = -den[r];
    memcpy(s, pool, sizeof s);
    memcpy(dp, pool + 20000, sizeof dp);
    kn->power_grad(rows, j0, j1, 0.7f, -0.4f, n, s, dp, den, delta);
    for (int i = 0; i < GROUP * BLOCK; i++) {
      int r = i / BLOCK;
      bool mine = r < rows && i % BLOCK >= j0 && i % BLOCK < j1;
      double base = (double)0.7f * pool[i] + (double)-0.4f;
      double size = fabs(0.7 * pool[i]) + 0.4, gap = pool[20000 + i] - delta[r];
      double p = den[r] == 0 ? 0 : power(base, n) / den[r];
      double ds = den[r] == 0 ? 0 : gap * n * power(base, n - 1) / den[r];
      double slack = mine * 3 * (n + 2) * eps / (fabs(den[r]) + 1e-9);
      CHECK_NEAR(s[i], mine ? p : (double)pool[i], slack * power(size, n));
      CHECK_NEAR(dp[i], mine ? ds : (double)pool[20000 + i],
                 slack * n * power(size, n - 1) * (fabsf(pool[20000 + i]) + fabsf(delta[r])));
    }
  }
}

/* ---- gaussian -------------------------------------------------------------------- */

static const int widths[] = {1, 2, 3, 15, 16, 17, 33, 64};
enum { WIDTHS = sizeof widths / sizeof *widths, WIDEST = 64 };

/* Keys near queries: what is small comes out small. */
TEST(distances_do_not_cancel) {
  static float q[GROUP * WIDEST], k[PANEL * WIDEST], lanes[PANEL * WIDEST];
  static float s[GROUP * BLOCK];
  refill(34);
  FOR_EACH_KERNELS(kn)
  for (int w = 0; w < WIDTHS; w++)
    for (int rows = 1; rows <= kn->rows; rows++) {
      int width = widths[w], ld = (int)round_up((size_t)width, LANES);
      for (int i = 0; i < GROUP * ld; i++) q[i] = 100 + pool[i] * 0.01f;
      for (int i = 0; i < PANEL * width; i++) k[i] = 100 + pool[999 + i] * 0.01f;
      kn->pack_lanes((source){k, ATTEND_F32, width, 1}, NULL, PANEL, width, lanes);
      int j0 = rows % 3 * 16, j1 = j0 + 16 * (1 + rows % 2);
      for (int i = 0; i < GROUP * BLOCK; i++) s[i] = canary;
      kn->distances(rows, width, q, ld, lanes, j0, j1, s);
      for (int i = 0; i < GROUP * BLOCK; i++) {
        int r = i / BLOCK, j = i % BLOCK;
        double sum = 0;
        bool mine = r < rows && j >= j0 && j < j1;
        for (int x = 0; mine && x < width; x++)
          sum += power((double)q[r * ld + x] - (double)k[j * width + x], 2);
        CHECK_NEAR(s[i], mine ? -sum / 2 : (double)canary, (width + 4) * eps * sum);
      }
    }
}

TEST(weighted_differences) {
  enum { N = 40, STEP = 3 };
  refill(35);
  FOR_EACH_KERNELS(kn)
  for (int ld = LANES; ld <= 7 * LANES; ld += LANES)
    for (int n = 0; n <= N; n += 13)
      for (int step = 1; step <= STEP; step += 2) {
        float o[7 * LANES + 1];
        const float *p = pool, *x = pool + 500, *y = pool + 9000;
        memcpy(o, pool + 10000, sizeof o);
        kn->weigh_differences(n, p, step, x, ld, y, o);
        for (int i = 0; i <= ld; i++) {
          double sum = pool[10000 + i], size = fabs(sum);
          for (int t = 0; t < n && i < ld; t++) {
            double more = (double)p[t * step] * ((double)x[t * ld + i] - (double)y[i]);
            sum += more, size += fabs(more);
          }
          CHECK_NEAR(o[i], sum, (n + 3) * eps * size * (n > 0 && i < ld));
        }
      }
}

/* Both layouts of a panel; 16 keys at a time. */
TEST(lengths_of_keys) {
  static float lanes[PANEL * WIDEST], out[PANEL + LANES];
  static uint16_t half[PANEL * WIDEST], pairs[PANEL * WIDEST];
  refill(36);
  attend_convert_from_f32(ATTEND_BF16, pool, PANEL * WIDEST, half);
  FOR_EACH_KERNELS(kn)
  for (int w = 0; w < WIDTHS; w++)
    for (int n = 1; n <= PANEL; n += 9) {
      int width = widths[w], wide = (int)round_up((size_t)width, 2);
      int whole = (int)round_up((size_t)n, LANES);
      source src = {half, ATTEND_BF16, WIDEST, 1};
      kn->pack_lanes(src, NULL, n, width, lanes);
      memset(pairs, 0, sizeof pairs);
      for (int j = 0; j < n; j++)
        for (int i = 0; i < width; i++) pairs[panel_key_at(2, wide, j, i)] = half[j * WIDEST + i];
      for (int pair = 1; pair <= 2; pair++) {
        for (int j = 0; j < PANEL + LANES; j++) out[j] = canary;
        kn->key_squares(pair, n, pair == 1 ? width : wide,
                        pair == 1 ? (void *)lanes : (void *)pairs, -0.3f, out);
        for (int j = 0; j < PANEL + LANES; j++) {
          double sum = j < whole ? 0 : (double)canary;
          for (int i = 0; j < n && i < width; i++)
            sum -= 0.3 * power(bf16_to_float(half[j * WIDEST + i]), 2);
          CHECK_NEAR(out[j], sum, j < n ? (width + 4) * eps * fabs(sum) : 0);
        }
      }
    }
}

TEST(sums_of_columns_and_scaled_sums) {
  refill(37);
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 97; n += 12) {
    float out[BLOCK], y[BLOCK];
    int j0 = n / 12 % 4 * 16, j1 = j0 + 16 * (1 + n / 12);
    memcpy(out, pool, sizeof out);
    memcpy(y, pool, sizeof y);
    kn->column_sums(n, j0, j1, pool + 1000, out);
    kn->scale_add(pool + 500, (size_t)j1, 0.3f, pool + 900, y);
    for (int j = 0; j < BLOCK; j++) {
      double sum = pool[j], size = fabs(sum);
      for (int r = 0; r < n && j >= j0 && j < j1; r++)
        sum += pool[1000 + r * BLOCK + j], size += fabsf(pool[1000 + r * BLOCK + j]);
      CHECK_NEAR(out[j], sum, (n + 1) * eps * size);
      double want = (double)0.3f * pool[500 + j] + pool[900 + j];
      CHECK_NEAR(y[j], j < j1 ? want : (double)pool[j], 4 * eps * 5);
    }
  }
}

TEST(pairs_come_apart) {
  uint16_t pairs[2 * 50];
  for (int i = 0; i < 100; i++) pairs[i] = (uint16_t)(i * 653 + 77);
  FOR_EACH_KERNELS(kn)
  for (size_t n = 0; n < 50; n += 7) {
    float first[51], second[51];
    for (int i = 0; i < 51; i++) first[i] = second[i] = canary;
    kn->split_pairs(pairs, n, first, second);
    for (size_t i = 0; i < 51; i++) {
      CHECK(same(first[i], i < n ? bf16_to_float(pairs[2 * i]) : canary));
      CHECK(same(second[i], i < n ? bf16_to_float(pairs[2 * i + 1]) : canary));
    }
  }
}

/* ---- the same bits ---------------------------------------------------------------- */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}

static void uniform(float *x, size_t n, uint64_t stream) {
  attend_random_uniform((attend_random){78, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * 3;
}

/* Groups of any size: 24 rows are whole groups of each. */
static uint64_t all_bits(const struct kernels *kn, int group) {
  enum { ROWS = 24, WIDTH = 37, LD = 48 };
  static float s[ROWS * BLOCK], dp[ROWS * BLOCK], q[ROWS * LD], k[PANEL * LD];
  static uint16_t half[PANEL * LD];
  float m[ROWS], l[2 * ROWS] = {0}, alpha[ROWS], beta[ROWS], o[LD] = {0};
  float out[BLOCK] = {0}, den[ROWS], delta[ROWS];
  uniform(s, ROWS * BLOCK, 1), uniform(dp, ROWS * BLOCK, 2);
  uniform(q, ROWS * LD, 3), uniform(k, PANEL * LD, 4);
  uniform(den, ROWS, 5), uniform(delta, ROWS, 6);
  for (int r = 0; r < ROWS; r++) m[r] = -INFINITY;
  uint64_t sum = 1;
  for (int r = 0; r < ROWS; r += group) {
    int n = ROWS - r < group ? ROWS - r : group;
    kn->distances(n, WIDTH, q + r * LD, LD, k, 0, PANEL, s + r * BLOCK);
    kn->power_grad(n, 16, 112, 0.5f, 1, 5, s + r * BLOCK, dp + r * BLOCK, den + r, delta + r);
    kn->power(n, 32, 240, 0.5f, -0.3f, 3, s + r * BLOCK);
    kn->join_sums(n, 32, 240, s + r * BLOCK, m + r, l + 2 * r, alpha + r, beta + r);
  }
  kn->weigh_differences(ROWS, dp + 20, BLOCK, q, LD, k, o);
  kn->key_squares(1, PANEL, WIDTH, k, 0.7f, out);
  attend_convert_from_f32(ATTEND_BF16, k, PANEL * LD, half);
  kn->key_squares(2, PANEL, WIDTH - 1, half, 0.7f, out + PANEL);
  kn->column_sums(ROWS, 160, 240, dp, out);
  kn->scale_add(dp, BLOCK, 0.3f, s, dp);
  sum = mix(sum, s, sizeof s), sum = mix(sum, dp, sizeof dp);
  sum = mix(sum, l, sizeof l), sum = mix(sum, o, sizeof o);
  return mix(sum, out, sizeof out);
}

/* Computed with AVX2; scalar has no fma, and bits of its own. */
static const uint64_t known = UINT64_C(0xd6f381f094681979);

TEST(sets_with_fma_give_the_same_bits) {
  uint64_t scalar = 0;
  FOR_EACH_KERNELS(kn) {
    bool plain = !strcmp(kn->isa, "scalar");
    for (int group = 1; group <= kn->rows; group++) {
      uint64_t bits = all_bits(kn, group);
      if (plain && group == 1) scalar = bits;
      if (bits != (plain ? scalar : known))
        CHECK_FAIL("%s, groups of %d: %#llx", kn->isa, group, (unsigned long long)bits);
    }
  }
}
