/* Small products and transposes: against plain loops, and the same bits whatever
 * rides along. */
#include "kernel_fixtures.h"

enum { MOST = 70, DEPTH = 600, LDA = 608, LDB = 112 };

typedef struct {
  float a[MOST * LDA], b[DEPTH * LDB], c[MOST * LDB], d[MOST * LDB];
} matrices;

static matrices *prepare(uint64_t stream) {
  static matrices x;
  refill(stream);
  for (size_t i = 0; i < MOST * LDA; i++) x.a[i] = pool[i % 40009];
  for (size_t i = 0; i < DEPTH * LDB; i++) x.b[i] = pool[i % 50021];
  for (size_t i = 0; i < MOST * LDB; i++) x.c[i] = x.d[i] = pool[i % 9973];
  return &x;
}

/* One chain for each 256 of depth: a rounding error for each step, each
 * relative to what was summed up to there. */
static void check_product(const matrices *x, int rows, int n, int depth, int add) {
  for (int r = 0; r < MOST; r++)
    for (int j = 0; j < LDB; j++) {
      double sum = add ? (double)x->d[r * LDB + j] : 0, size = fabs(sum);
      for (int k = 0; k < depth && r < rows && j < n; k++) {
        double term = (double)x->a[r * LDA + k] * (double)x->b[k * LDB + j];
        sum += term;
        size += fabs(term);
      }
      if (r >= rows || j >= n) /* nothing is written outside */
        CHECK(same(x->c[r * LDB + j], x->d[r * LDB + j]));
      else
        CHECK_NEAR((double)x->c[r * LDB + j], sum, 2 * eps * sqrt(depth + 4.0) * size);
    }
}

TEST(products_are_right) {
  static const int rows[] = {1, 2, 3, 5, 8, 11, 12, 13, 24, 31, 64, 70};
  static const int wide[] = {16, 32, 48, 64, 80, 112};
  static const int deep[] = {0, 1, 7, 64, 255, 256, 257, 600};
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 12 * 6 * 8; n++) {
    int R = rows[n % 12], W = wide[n / 12 % 6], D = deep[n / 72];
    if (n % (light() ? 11 : 3)) continue;
    matrices *x = prepare(1);
    kn->matmul(R, W, D, x->a, LDA, x->b, LDB, x->c, LDB, n % 2);
    check_product(x, R, W, D, n % 2);
  }
}

/* All at once, one by one, and in the tail of others: equal bits. Columns too,
 * 16 at a time. */
TEST(rows_do_not_know_of_each_other) {
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= 40; rows += rows < 14 ? 1 : 7)
    for (int add = 0; add < 2; add++) {
      matrices *x = prepare(2);
      kn->matmul(rows, 80, 300, x->a, LDA, x->b, LDB, x->c, LDB, add);
      for (int r = 0; r < rows; r++) {
        float alone[LDB];
        memcpy(alone, x->d + r * LDB, sizeof alone);
        kn->matmul(1, 80, 300, x->a + r * LDA, LDA, x->b, LDB, alone, LDB, add);
        CHECK(!memcmp(alone, x->c + r * LDB, 80 * sizeof *alone));
        memcpy(alone, x->d + r * LDB, sizeof alone);
        for (int j = 0; j < 80; j += 16)
          kn->matmul(1, 16, 300, x->a + r * LDA, LDA, x->b + j, LDB, alone + j, LDB, add);
        CHECK(!memcmp(alone, x->c + r * LDB, 80 * sizeof *alone));
      }
    }
}

/* Zeros at the end of the depth change nothing: engines count on it. */
TEST(zeros_behind_change_nothing) {
  FOR_EACH_KERNELS(kn)
  for (int depth = 1; depth < 64; depth += 9) {
    matrices *x = prepare(3);
    kn->matmul(20, 48, depth, x->a, LDA, x->b, LDB, x->c, LDB, false);
    for (int r = 0; r < 20; r++)
      memset(x->a + r * LDA + depth, 0, (size_t)(64 - depth) * sizeof *x->a);
    kn->matmul(20, 48, 64, x->a, LDA, x->b, LDB, x->d, LDB, false);
    for (int r = 0; r < 20; r++) CHECK(!memcmp(x->c + r * LDB, x->d + r * LDB, 48 * sizeof *x->c));
  }
}

TEST(transposes) {
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 49; n++) {
    static const int sizes[] = {1, 7, 15, 16, 17, 33, 48};
    int rows = sizes[n % 7], cols = sizes[n / 7];
    matrices *x = prepare(4);
    for (int i = 0; i < 48 * 64; i++) x->c[i] = -77;
    kn->transpose(rows, cols, x->b, LDB, x->c, 64);
    for (int i = 0; i < 48 * 64; i++) {
      int r = i % 64, c = i / 64;
      bool in = r < rows && c < cols;
      CHECK(same(x->c[i], in ? x->b[r * LDB + c] : -77));
    }
  }
}

/* ---- the same bits on every set with fma ------------------------------------------ */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}

/* Uniform numbers are exact everywhere: no function of libm is in them. */
static void uniform(float *x, size_t n, uint64_t stream) {
  attend_random_uniform((attend_random){78, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * 2;
}

/* Computed with AVX2; the same with any set but scalar. */
static const uint64_t known_product = UINT64_C(0x075c1514316724c4);

TEST(sets_with_fma_give_the_same_bits) {
  FOR_EACH_KERNELS(kn) {
    if (!strcmp(kn->isa, "scalar")) continue;
    matrices *x = prepare(5);
    uniform(x->a, MOST * LDA, 1);
    uniform(x->b, DEPTH * LDB, 2);
    uniform(x->c, MOST * LDB, 3);
    kn->matmul(MOST, LDB, DEPTH, x->a, LDA, x->b, LDB, x->c, LDB, true);
    uint64_t sum = mix(UINT64_C(14695981039346656037), x->c, sizeof x->c);
    if (sum != known_product) CHECK_FAIL("%s gives %#llx", kn->isa, (unsigned long long)sum);
  }
}
