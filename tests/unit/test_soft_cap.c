/* The soft cap of scores: its kernels against tanh in double and with the same
 * bits from every set with fma; what it does to weights; that a key behind a mask
 * does not reach a gradient; what is refused. */
#include "kernel_fixtures.h"

/* ---- kernels ------------------------------------------------------------------- */

enum { STEPS = 1 << 20, COLUMNS = BLOCK };

/* Floats of every size, both signs; s and the capped s differ most around 1. */
static float sample(int i) {
  float x = ldexpf(1 + (float)(i % 1024) / 1024, i / 1024 % 40 - 30);
  return i & 1 ? -x : x;
}

TEST(a_cap_errs_by_its_bound) {
  float inner = 0.02f, outer = 72.13f;
  int step = light() ? 31 : 1;
  FOR_EACH_KERNELS(kn) {
    double worst = 0;
    for (int i = 0; i < STEPS; i += COLUMNS * step) {
      float s[COLUMNS];
      for (int j = 0; j < COLUMNS; j++) s[j] = sample(i + j);
      kn->soft_cap(1, 0, COLUMNS, inner, outer, s);
      for (int j = 0; j < COLUMNS; j++) {
        double x = (double)sample(i + j);
        double want = (double)outer * tanh((double)inner * x);
        worst = fmax(worst, fabs((double)s[j] / want - 1));
      }
    }
    if (!(worst <= 3.4e-7)) CHECK_FAIL("%s errs by %g", kn->isa, worst);
  }
}

/* Absolute: where the slope vanishes, so does what it multiplies. */
TEST(the_slope_of_a_cap) {
  FOR_EACH_KERNELS(kn) {
    for (int i = 0; i < STEPS; i += 17 * COLUMNS) {
      float s[COLUMNS], ds[COLUMNS];
      for (int j = 0; j < COLUMNS; j++) s[j] = sample(i + j), ds[j] = -3.0f;
      kn->soft_cap_grad(1, 0, COLUMNS, 0.02f, s, ds);
      for (int j = 0; j < COLUMNS; j++) {
        double t = tanh((double)0.02f * (double)s[j]);
        CHECK_NEAR(ds[j], -3 * (1 - t * t), 3 * 4e-7);
      }
    }
  }
}

TEST(only_the_columns_that_are_asked_for) {
  static float s[GROUP * BLOCK], ds[GROUP * BLOCK];
  refill(41);
  FOR_EACH_KERNELS(kn)
  for (int rows = 1; rows <= kn->rows; rows++) {
    int j0 = rows % 5 * 16, j1 = j0 + 16 * (1 + rows % 9);
    memcpy(s, pool, sizeof s);
    memcpy(ds, pool, sizeof ds);
    kn->soft_cap(rows, j0, j1, 0.5f, 7.0f, s);
    kn->soft_cap_grad(rows, j0, j1, 0.5f, pool, ds);
    for (int i = 0; i < GROUP * BLOCK; i++) {
      bool mine = i / BLOCK < rows && i % BLOCK >= j0 && i % BLOCK < j1;
      if (!mine) CHECK(s[i] == pool[i] && ds[i] == pool[i]);
    }
  }
}

TEST(extremes_of_a_cap) {
  FOR_EACH_KERNELS(kn) {
    float s[LANES] = {INFINITY, -INFINITY, NAN, 0, -0.0f, 3e38f, -3e38f, 1e-40f};
    kn->soft_cap(1, 0, LANES, 1.0f, 50.0f, s);
    CHECK(s[0] == 50 && s[1] == -50 && isnan(s[2]));
    CHECK(s[3] == 0 && s[4] == 0 && s[7] >= 0);
    CHECK(s[5] == 50 && s[6] == -50);
  }
}

static uint64_t hash(uint64_t h, const float *x, int n) {
  for (int i = 0; i < n; i++) {
    uint32_t bits;
    memcpy(&bits, x + i, sizeof bits);
    h = (h ^ bits) * 0x100000001b3u;
  }
  return h;
}

/* Sets with fma agree; the constant is what they gave when this was written. */
TEST(the_same_bits_from_every_set) {
  const uint64_t bits = 0x7da1ff7d641d47a2u;
  static float s[GROUP * BLOCK], ds[GROUP * BLOCK];
  FOR_EACH_KERNELS(kn) {
    uint64_t h = 0xcbf29ce484222325u;
    if (!strcmp(kn->isa, "scalar")) continue;
    refill(42);
    memcpy(s, pool, sizeof s);
    memcpy(ds, pool + GROUP * BLOCK, sizeof ds);
    kn->soft_cap_grad(kn->rows, 0, BLOCK, 0.9f, pool, ds);
    kn->soft_cap(kn->rows, 0, BLOCK, 0.9f, 3.3f, s);
    h = hash(hash(h, s, 4 * BLOCK), ds, 4 * BLOCK);
    CHECK_BITS(h, bits, kn);
  }
}

/* ---- attention ----------------------------------------------------------------- */

/* A cap far above the scores is none; one far below makes all keys equal. */
TEST(large_and_small_caps) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  attend_tensors t = make_tensors(ctx, "softmax:b2h2n40d16", 3);
  size_t n = rows_of(&t.desc), bytes = n * sizeof(float);
  float *plain = zeroed_block(n, sizeof *plain);
  for (int i = 0; i < 3; i++) {
    const float caps[3] = {0, 1e4f, 1e-6f};
    t.desc.soft_cap = caps[i];
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    if (i == 0) memcpy(plain, t.lse, bytes);
    for (size_t r = 0; r < n; r++) CHECK_NEAR(t.lse[r], i < 2 ? (double)plain[r] : log(40), 1e-5);
    attend_plan_free(plan);
  }
  free(plain);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

/* A key of NaN that the first rows do not see leaves their gradients finite. */
TEST(no_nan_comes_through_a_mask) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, "softmax:n70d16:causal:cap=2:bwd", 4);
    size_t last = 69 * 16;
    put_all(ATTEND_F32, t.k.data, last, 16, NAN);
    put_all(ATTEND_F32, t.v.data, last, 16, NAN);
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    put_all(ATTEND_F32, t.d_o.data, last, 16, 0); /* the last row alone sees it */
    OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, NULL));
    for (size_t i = 0; i < last; i++)
      CHECK(isfinite(((float *)t.o.data)[i]) && isfinite(((float *)t.dq.data)[i]));
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* A query and a key beyond its mask whose product is infinity less infinity: no
 * gradient takes it. */
TEST(no_product_comes_through_a_mask) {
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, "softmax:n70d16:causal:cap=2:bwd", 5);
    for (size_t x = 0; x < 16; x++) {
      put_all(ATTEND_F32, t.q.data, 3 * 16 + x, 1, 1e30f);
      put_all(ATTEND_F32, t.k.data, 10 * 16 + x, 1, x % 2 ? 1e30f : -1e30f);
    }
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, NULL));
    for (size_t i = 0; i < 70 * 16; i++)
      CHECK(isfinite(((float *)t.dq.data)[i]) && isfinite(((float *)t.dk.data)[i]));
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

TEST(refusals) {
  static const struct {
    attend_form form;
    float cap;
    const char *says;
  } cases[] = {
      {{.kind = ATTEND_SOFTMAX}, -1, "soft_cap is -1"},
      {{.kind = ATTEND_SOFTMAX}, INFINITY, "soft_cap is inf"},
      {{.kind = ATTEND_SOFTMAX}, NAN, "soft_cap is"},
      {{.kind = ATTEND_SOFTMAX}, 1e-30f, "between 1e-15 and 1e15"},
      {{.kind = ATTEND_ARGMAX}, 5, "which key is the best"},
      {{.kind = ATTEND_POLY}, 5, "choose form softmax"},
      {{.kind = ATTEND_ELU}, 5, "choose form softmax"},
      {{.kind = ATTEND_FAVOR}, 5, "choose form softmax"},
      {{.kind = ATTEND_GAUSSIAN}, 5, "choose form softmax"},
  };
  attend_context *ctx = open_context(NULL, 1, NULL);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    attend_desc d = {ATTEND_INIT(attend_desc), .form = cases[i].form, .q_len = 4, .kv_len = 4,
                     .dim = 4};
    attend_plan *plan = NULL;
    d.soft_cap = cases[i].cap;
    CHECK_EQ(attend_plan_create(ctx, &d, &plan), ATTEND_INVALID);
    if (!strstr(attend_message(ctx), cases[i].says))
      CHECK_FAIL("\"%s\" does not say \"%s\"", attend_message(ctx), cases[i].says);
  }
  attend_desc soft = {ATTEND_INIT(attend_desc),
                      .form = {.kind = ATTEND_ARGMAX, .temperature = 1e-25f},
                      .q_len = 4,
                      .kv_len = 4,
                      .dim = 4,
                      .soft_cap = 1e14f};
  attend_plan *plan = NULL;
  CHECK_EQ(attend_plan_create(ctx, &soft, &plan), ATTEND_INVALID);
  CHECK(strstr(attend_message(ctx), "overflow f32"));
  attend_context_free(ctx);
}
