/* Rows times packed weights, the kernels alone: against double, the same bits
 * whatever rides along, and narrowing. */
#include "kernel_fixtures.h"

enum { MOST = 41, DEPTH = 600, LDX = 608, GROUPS = 7, LDY = 16 * GROUPS + 16 };

typedef void (*dense)(int, int, int, const float *, int, const void *, const float *, const float *,
                      bool, float *, int);

typedef struct { /* one kind of weights, and what they stand for */
  float x[MOST * LDX], y[MOST * LDY], bias[LDY], scale[LDY];
  float wide[GROUPS * DEPTH * 16]; /* as f32: what must be multiplied */
  uint16_t half[GROUPS * DEPTH * 16];
  int8_t byte[GROUPS * DEPTH * 16];
} layer;

enum { KINDS = 3 }; /* f32, bf16, int8 */

static dense kernel(const struct kernels *kn, int kind) {
  return kind == 0 ? kn->dense_f32 : kind == 1 ? kn->dense_bf16 : kn->dense_i8;
}

static const void *weights(const layer *l, int kind) {
  return kind == 0 ? (const void *)l->wide : kind == 1 ? (const void *)l->half : l->byte;
}

/* Uniform numbers are exact everywhere: no function of libm is in them. */
static void uniform(float *x, size_t n, uint64_t stream) {
  attend_random_uniform((attend_random){80, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * 2;
}

static layer *prepare(int kind, int depth) {
  static layer l;
  size_t n = (size_t)(GROUPS * depth * 16);
  uniform(l.x, MOST * LDX, 1);
  uniform(l.wide, n, 2);
  uniform(l.bias, LDY, 3);
  for (int i = 0; i < LDY; i++) l.scale[i] = 0.01f + (float)(i % 5) / 64;
  for (int i = 0; i < MOST * LDY; i++) l.y[i] = -77;
  for (size_t i = 0; i < n; i++) {
    l.half[i] = bf16_from_float(l.wide[i]);
    l.byte[i] = (int8_t)(l.wide[i] * 127);
    if (kind == 1) l.wide[i] = bf16_to_float(l.half[i]);
    if (kind == 2) l.wide[i] = l.byte[i];
  }
  return &l;
}

static void multiply(const struct kernels *kn, int kind, layer *l, int rows, int depth,
                     int groups) {
  kernel(kn, kind)(rows, depth, groups, l->x, LDX, weights(l, kind), kind == 2 ? l->scale : NULL,
                   l->bias, false, l->y, LDY);
}

/* One chain for each 256 of depth: a rounding for each step. */
static void check_product(const layer *l, int kind, int rows, int depth, int groups) {
  for (int r = 0; r < MOST; r++)
    for (int j = 0; j < LDY; j++) {
      double got = (double)l->y[r * LDY + j], sum = 0, size = 0;
      if (r >= rows || j >= groups * 16) { /* nothing is written outside */
        CHECK(got == -77);
        continue;
      }
      const float *w = l->wide + j / 16 * depth * 16 + j % 16;
      for (int k = 0; k < depth; k++) {
        double term = (double)l->x[r * LDX + k] * (double)w[k * 16];
        sum += term;
        size += fabs(term);
      }
      double scale = kind == 2 ? (double)l->scale[j] : 1;
      CHECK_NEAR(got, sum * scale + (double)l->bias[j],
                 2 * eps * (sqrt(depth + 4.0) * size * scale + 1));
    }
}

TEST(products_are_right) {
  static const int rows[] = {1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 17, 24, 41};
  static const int deep[] = {1, 3, 16, 255, 256, 257, 600};
  FOR_EACH_KERNELS(kn)
  for (int n = 0; n < 14 * 7 * GROUPS; n++) {
    int R = rows[n % 14], D = deep[n / 14 % 7], G = 1 + n / 98;
    if (n % (light() ? 23 : 5)) continue;
    for (int kind = 0; kind < KINDS; kind++) {
      layer *l = prepare(kind, D);
      multiply(kn, kind, l, R, D, G);
      check_product(l, kind, R, D, G);
    }
  }
}

/* More rows than are copied together, and in the tail of them. */
TEST(many_rows_are_right) {
  enum { ROWS = 600, D = 300 };
  layer *l = prepare(0, D);
  float *x = zeroed_block(ROWS * D, 4), *y = zeroed_block(ROWS * 48, 4), one[48];
  uniform(x, ROWS * D, 9);
  FOR_EACH_KERNELS(kn)
  for (int rows = light() ? 599 : 190; rows <= ROWS; rows += 41) {
    kn->dense_f32(rows, D, 3, x, D, l->wide, NULL, l->bias, false, y, 48);
    for (int r = 0; r < rows; r += 7) {
      kn->dense_f32(1, D, 3, x + r * D, D, l->wide, NULL, l->bias, false, one, 48);
      CHECK(!memcmp(one, y + r * 48, sizeof one));
    }
  }
  free(x), free(y);
}

/* All at once, one by one, 16 outputs at a time: equal bits. */
TEST(rows_do_not_know_of_each_other) {
  enum { D = 300, G = 5 };
  FOR_EACH_KERNELS(kn)
  for (int kind = 0; kind < KINDS; kind++)
    for (int rows = 1; rows <= 40; rows += light() && rows > 12 ? 9 : 1) {
      layer *l = prepare(kind, D);
      const float *scale = kind == 2 ? l->scale : NULL;
      size_t size = kind == 0 ? 4 : kind == 1 ? 2 : 1;
      multiply(kn, kind, l, rows, D, G);
      for (int r = 0; r < rows; r++) {
        float alone[16 * G];
        for (int g = 0; g < G; g++)
          kernel(kn, kind)(1, D, 1, l->x + r * LDX, LDX,
                           (const char *)weights(l, kind) + (size_t)(g * D * 16) * size,
                           scale ? scale + g * 16 : NULL, l->bias + g * 16, false, alone + g * 16,
                           16);
        CHECK(!memcmp(alone, l->y + r * LDY, sizeof alone));
      }
    }
}

/* Rows that lie as the kernel would copy them; biases that are not there. */
TEST(near_rows_are_the_same) {
  enum { ROWS = 200, D = 250 };
  layer *l = prepare(0, D);
  float *x = zeroed_block(ROWS * NEAR_STEP, 4), *far = zeroed_block(ROWS * D, 4);
  float *y = zeroed_block(ROWS * 48, 4), *z = zeroed_block(ROWS * 48, 4);
  uniform(x, ROWS * NEAR_STEP, 9);
  for (int i = 0; i < ROWS * D; i++) far[i] = x[i / D * NEAR_STEP + i % D];
  memset(l->bias, 0, sizeof l->bias);
  FOR_EACH_KERNELS(kn)
  for (int add = 0; add < 2; add++) {
    uniform(y, ROWS * 48, 10), uniform(z, ROWS * 48, 10);
    kn->dense_f32(ROWS, D, 3, x, NEAR_STEP, l->wide, NULL, NULL, add, y, 48);
    kn->dense_f32(ROWS, D, 3, far, D, l->wide, NULL, l->bias, add, z, 48);
    CHECK(!memcmp(y, z, ROWS * 48 * sizeof *y));
  }
  free(x), free(far), free(y), free(z);
}

/* A NaN or an infinity in a row is seen in that row alone. */
TEST(what_is_no_number_stays_in_its_row) {
  FOR_EACH_KERNELS(kn)
  for (int kind = 0; kind < KINDS; kind++) {
    layer *l = prepare(kind, 40);
    l->x[3 * LDX + 39] = NAN;
    l->x[20 * LDX] = INFINITY;
    multiply(kn, kind, l, 30, 40, 2);
    for (int i = 0; i < 30 * 32; i++)
      CHECK(isfinite(l->y[i / 32 * LDY + i % 32]) == (i / 32 != 3 && i / 32 != 20));
  }
}

/* ---- narrowing --------------------------------------------------------------------- */

TEST(bf16_is_rounded_to_even) {
  layer *l = prepare(0, 37);
  FOR_EACH_KERNELS(kn) {
    kn->narrow_bf16(37, l->wide, l->half);
    for (int i = 0; i < 37 * 16; i++) CHECK_EQ(l->half[i], bf16_from_float(l->wide[i]));
  }
}

TEST(int8_is_within_half_a_step) {
  enum { D = 37 };
  layer *l = prepare(0, D);
  for (int k = 0; k < D; k++) {
    l->wide[k * 16 + 5] = 0;
    l->wide[k * 16 + 6] = k == 9 ? -3 : 0.001f;
    l->wide[k * 16 + 7] *= 1e-30f;
    l->wide[k * 16 + 8] = 1e-45f;                  /* a step would be no float */
    l->wide[k * 16 + 9] = (float)(k * 2 - 36) / 2; /* halves: to even */
  }
  l->wide[9] = 127;
  FOR_EACH_KERNELS(kn) {
    float scale[16];
    kn->narrow_i8(D, l->wide, l->byte, scale);
    for (int i = 0; i < D * 16; i++) {
      double w = (double)l->wide[i], s = (double)scale[i % 16];
      double got = (double)l->byte[i] * s;
      CHECK(abs(l->byte[i]) <= 127);
      CHECK_NEAR(got, w, i % 16 == 8 ? 1e-44 : 0.5 * s * (1 + 1e-5));
      if (i % 16 == 9 && i > 16) CHECK_EQ(l->byte[i], (int)rint(w));
    }
    CHECK(scale[5] == 0 && l->byte[5] == 0);
    CHECK_EQ(l->byte[9 * 16 + 6], -127);
  }
}

/* ---- the same bits on every set with fma ------------------------------------------ */

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}

/* Computed with AVX2; the same with any set but scalar. */
static const uint64_t known[KINDS] = {UINT64_C(0x5111e19a8f4f93d6), UINT64_C(0x88b43676d3f7ed8d),
                                      UINT64_C(0x01640c8cdf35158b)};

TEST(sets_with_fma_give_the_same_bits) {
  FOR_EACH_KERNELS(kn)
  for (int kind = 0; kind < KINDS && strcmp(kn->isa, "scalar"); kind++) {
    layer *l = prepare(kind, DEPTH);
    uint64_t sum = UINT64_C(14695981039346656037);
    multiply(kn, kind, l, MOST, DEPTH, GROUPS);
    sum = mix(sum, l->y, sizeof l->y);
    multiply(kn, kind, l, 3, DEPTH, GROUPS);
    sum = mix(sum, l->y, sizeof l->y);
    kn->narrow_i8(DEPTH, l->wide, l->byte, l->scale);
    sum = mix(mix(sum, l->byte, sizeof l->byte), l->scale, sizeof l->scale);
    CHECK_BITS(sum, known[kind], kn);
  }
}
