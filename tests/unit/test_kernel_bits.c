/* The same bits from every instruction set that has fma.
 *
 * Each set does the same battery in groups of its own size; what comes out is
 * summed up in one number. The number is written down here, so that sets that
 * never meet on one machine (NEON and AVX) are compared too. */
#include "kernel_fixtures.h"

enum { ROWS_ALL = 24, WIDTH = 37, LD = 48 }; /* 24: whole groups of any size */

#define FACTOR 0.1803368801f /* of a width of 64, in powers of two */

typedef struct {
  float q[ROWS_ALL][LD], k[PANEL * LD], v[BLOCK * LD];
  float s[ROWS_ALL * BLOCK], dp[ROWS_ALL * BLOCK], o[ROWS_ALL * LD];
  float m[ROWS_ALL], l[2 * ROWS_ALL], alpha[ROWS_ALL], beta[ROWS_ALL];
  float keys[BLOCK * LD], x[512], y[512];
} battery;

/* Uniform numbers are exact everywhere: no function of libm is in them. */
static void fill(float *x, size_t n, uint64_t stream, float scale) {
  attend_random_uniform((attend_random){77, stream}, 0, n, x);
  for (size_t i = 0; i < n; i++) x[i] = (x[i] - 0.5f) * scale;
}

static void prepare(battery *b) {
  memset(b, 0, sizeof *b);
  fill(b->q[0], ROWS_ALL * LD, 1, 2);
  fill(b->k, PANEL * LD, 2, 2);
  fill(b->v, BLOCK * LD, 3, 2);
  fill(b->s, ROWS_ALL * BLOCK, 4, 160);
  fill(b->dp, ROWS_ALL * BLOCK, 5, 2);
  fill(b->o, ROWS_ALL * LD, 6, 2);
  fill(b->keys, BLOCK * LD, 7, 2);
  fill(b->x, 512, 8, 300);
  for (int r = 0; r < ROWS_ALL; r++) {
    b->m[r] = r % 4 ? (float)(r % 7) : -INFINITY;
    b->l[2 * r] = b->l[2 * r + 1] = r % 4 ? 1 + (float)r : 0;
  }
}

static uint64_t mix(uint64_t sum, const void *data, size_t bytes) {
  const unsigned char *p = data;
  for (size_t i = 0; i < bytes; i++) sum = (sum ^ p[i]) * UINT64_C(1099511628211);
  return sum;
}
#define MIX(array) sum = mix(sum, array, sizeof array)

/* Forward on a block: scores, softmax onto a running result, weighted values,
 * `group` rows at a time. */
static uint64_t forward_bits(const struct kernels *kn, battery *b, int group) {
  uint64_t sum = UINT64_C(14695981039346656037);
  static float scores[ROWS_ALL * BLOCK];
  const float *panels[PANELS];
  for (int i = 0; i < PANELS; i++) panels[i] = b->v + i * PANEL * LD;
  for (int r = 0; r < ROWS_ALL; r += group) {
    int n = ROWS_ALL - r < group ? ROWS_ALL - r : group;
    kn->scores(n, WIDTH, b->q[r], LD, b->k, 0, PANEL, scores + r * BLOCK);
    for (int i = 0; i < n; i++) kn->add_ramp(16, 48, -0.1f, -20, scores + (r + i) * BLOCK);
    kn->softmax(n, 16, 240, FACTOR, false, b->s + r * BLOCK, b->m + r, b->l + 2 * r, b->alpha + r,
                b->beta + r);
    kn->weigh(n, 16, 240, b->s + r * BLOCK, panels, LD, b->alpha + r, b->beta + r, b->o + r * LD);
  }
  MIX(scores), MIX(b->s), MIX(b->m), MIX(b->l), MIX(b->alpha), MIX(b->beta);
  MIX(b->o);
  return sum;
}

static uint64_t backward_bits(const struct kernels *kn, battery *b, int group) {
  uint64_t sum = 1;
  float lse2[ROWS_ALL], delta[ROWS_ALL];
  for (int r = 0; r < ROWS_ALL; r++) lse2[r] = 8, delta[r] = b->o[r];
  for (int r = 0; r < ROWS_ALL; r += group) {
    int n = ROWS_ALL - r < group ? ROWS_ALL - r : group;
    kn->softmax_grad(n, 0, 240, FACTOR, b->s + r * BLOCK, b->dp + r * BLOCK, lse2 + r, delta + r);
  }
  kn->weigh_keys(ROWS_ALL, 0, BLOCK, b->dp, b->q[0], LD, b->keys);
  kn->row_dots(ROWS_ALL, LD, b->q[0], b->o, LD, delta);
  MIX(b->s), MIX(b->dp), MIX(b->keys), MIX(delta);
  return sum;
}

static uint64_t other_bits(const struct kernels *kn, battery *b) {
  uint64_t sum = 1;
  static uint16_t half[512];
  static float lanes[PANEL * WIDTH];
  kn->exp2_all(b->x, 512, b->y);
  kn->join_rows(ROWS_ALL / 2, LD, b->m, b->l, b->o, b->m + ROWS_ALL / 2, b->l + ROWS_ALL,
                b->o + ROWS_ALL / 2 * LD);
  float divisor[ROWS_ALL];
  for (int r = 0; r < ROWS_ALL; r++) divisor[r] = (float)(r % 9) * 0.7f;
  MIX(b->y), MIX(b->m), MIX(b->l), MIX(b->o);
  for (int dtype = 0; dtype < 3; dtype++) {
    target to = {dtype ? (void *)half : (void *)b->x, (attend_dtype)dtype, WIDTH, 1};
    kn->store_rows(b->o, LD, 12, WIDTH, divisor, to);
    source from = {to.data, to.dtype, WIDTH, 1};
    kn->pack_lanes(from, NULL, 12, WIDTH, lanes);
    MIX(lanes);
  }
  return sum;
}

/* Computed with AVX2; the same with any set but scalar, which has no fma. */
static const uint64_t known_forward = UINT64_C(0xf8a680ce0eaeb0b9);
static const uint64_t known_backward = UINT64_C(0x64042e6842d95470);
static const uint64_t known_other = UINT64_C(0x87e1935cdfa2b4f7);

TEST(sets_with_fma_give_the_same_bits) {
  static battery b;
  FOR_EACH_ISA(isa) {
    if (!strcmp(isa, "scalar")) continue;
    attend_context *ctx = open_context(isa, 1, NULL);
    const struct kernels *kn = ctx->kernels;
    for (int group = 1; group <= kn->rows; group++) {
      prepare(&b);
      CHECK_BITS(forward_bits(kn, &b, group), known_forward, kn);
      CHECK_BITS(backward_bits(kn, &b, group), known_backward, kn);
      CHECK_BITS(other_bits(kn, &b), known_other, kn);
    }
    attend_context_free(ctx);
  }
}

/* Scalar has bits of its own, but they do not depend on the group either. */
TEST(scalar_groups_give_the_same_bits) {
  static battery b;
  attend_context *ctx = open_context("scalar", 1, NULL);
  uint64_t forward = 0, backward = 0;
  for (int group = 1; group <= ctx->kernels->rows; group++) {
    prepare(&b);
    uint64_t f = forward_bits(ctx->kernels, &b, group);
    uint64_t g = backward_bits(ctx->kernels, &b, group);
    if (group == 1) forward = f, backward = g;
    CHECK(f == forward && g == backward);
  }
  attend_context_free(ctx);
}
