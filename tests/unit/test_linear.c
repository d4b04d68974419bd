/* Linear attention against the definition: every form, mask, width and dtype;
 * against pairs where a form has both ways; merged parts; large norms. */
#include "linear_bounds.h"

/* ---- every form -------------------------------------------------------------- */

static void try_case(const char *isa, const char *form, const char *shape, int threads) {
  attend_context *ctx = open_dirty(isa, threads, NULL);
  attend_tensors t = linear_tensors(ctx, form, shape, 61);
  outcome out = outcome_of(ctx, &t);
  check_outcome(ctx, &t, &out, named(form, shape));
  outcome_free(&out);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}

static const char *const shapes[] = {
    "b2h2n70d16:causal:bwd",           "b1h4g2n33x130d24v40:bwd",
    "b1h3g1n100x150d7v5:bottom:bwd",   "b2h2g1n140d8v1:causal:f16:bwd",
    "b1h2n65d1v3:causal:bwd",          "b2h2n30x90d17v9:lengths:bf16:bwd",
    "b2h2n80d5v16:causal:padleft:bwd", "b1h1n1x1d3:bwd",
    "b1h2n40x64d16:top:padright:bwd",  "b1h1n300d4:causal:bwd",
    "b2h2n90x33d9:bottom:bwd",
};
enum { SHAPES = sizeof shapes / sizeof *shapes };

TEST(every_form_is_its_definition) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int s = 0; s < SHAPES; s++) {
      if ((f + s) % (light() ? 18 : 2)) continue; /* verify has the others */
      try_case(isa, linear_forms[f], shapes[s], 1 + (f + s) % 3);
    }
}

/* Most lengths between nothing and a few blocks, on either side. */
TEST(lengths_around_blocks) {
  static const int lengths[] = {0, 1, 15, 63, 64, 65, 127, 128, 129, 200};
  enum { N = sizeof lengths / sizeof *lengths };
  static const char *const forms[] = {"elu", "favor(m=40,kind=pair)"};
  for (int n = 0; n < 2 * N * N; n++) {
    char shape[80];
    int T = lengths[n / 2 % N], S = lengths[n / 2 / N];
    if (light() && n % 14) continue;
    snprintf(shape, sizeof shape, "h2g1n%dx%dd5v3:%s:bwd", T, S, n % 3 ? "bottom" : "top");
    try_case(NULL, forms[n % 2], shape, 1 + n % 4);
  }
}

/* ---- poly has two ways ----------------------------------------------------------- */

/* Each is within its bound of the definition; here they are put side by side,
 * for a width at which the definition would be slow. */
TEST(poly_by_features_is_poly_by_pairs) {
  static const char *const forms[] = {"poly(p=1,c=30)", "poly(p=2,c=1)", "poly(p=2,a=0.2)",
                                      "poly(p=4,c=2)"};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < 4; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    const char *shape = f == 3 ? "h4g2n200d9v20:causal:bwd" : "h4g2n200d20v20:causal:bwd";
    attend_tensors t = linear_tensors(ctx, forms[f], shape, 62);
    outcome a = outcome_of(ctx, &t);
    t.desc.engine = "kernel-direct";
    outcome b = outcome_of(ctx, &t);
    double size[OUT_PARTS] = {0}, off[OUT_PARTS] = {0};
    for (int n = 0; n < OUT_PARTS; n++)
      for (size_t i = 0; i < a.bytes[n] / 4; i++) {
        double x = (double)((float *)a.part[n])[i];
        double y = (double)((float *)b.part[n])[i];
        if (fabs(y) > size[n]) size[n] = fabs(y);
        if (!(fabs(x - y) <= off[n])) off[n] = fabs(x - y);
      }
    for (int n = 0; n < OUT_PARTS; n++)
      if (!(off[n] <= 1e-4 * size[n]))
        CHECK_FAIL("%s: part %d differs by %g of %g", forms[f], n, off[n], size[n]);
    outcome_free(&a);
    outcome_free(&b);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- merging ------------------------------------------------------------------------ */

TEST(parts_merge_to_the_whole) {
  const int cuts[] = {0, 1, 64, 100, 150};
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, linear_forms[f], "b2h4g2n7x150d12v10", 63);
    size_t rows = rows_of(&t.desc), n = rows * 10;
    float *o = zeroed_block(2 * (n + rows), sizeof *o), *lse = o + 2 * n;
    bounds x;
    bounds_open(ctx, &t, &x);
    attend_plan *plan = make_plan(ctx, &t.desc);
    for (int c = 0; c < 5; c++) {
      forward_part(ctx, &t, 0, cuts[c], o, lse);
      forward_part(ctx, &t, cuts[c], 150, o + n, lse + rows);
      OK(ctx, attend_merge(plan, attend_bhtd(o), lse, attend_bhtd(o + n), lse + rows));
      check_forward(&x, o, lse, linear_forms[f]);
    }
    free(o);
    bounds_free(&x);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- large norms ------------------------------------------------------------------------ */

/* Rows of n, each to the length that `norm` says. */
static void set_norms(float *x, size_t rows, size_t width, float (*norm)(size_t)) {
  for (size_t r = 0; r < rows; r++) {
    double sum = 0;
    for (size_t i = 0; i < width; i++) sum += (double)x[r * width + i] * (double)x[r * width + i];
    for (size_t i = 0; i < width; i++) x[r * width + i] *= (float)((double)norm(r) / sqrt(sum));
  }
}

static float sixty(size_t r) { return (void)r, 60.0f; }
static float mixed(size_t r) {
  static const float norms[] = {60, 0.1f, 8, 1, 30, 0.5f, 60};
  return norms[r % 7];
}
static float falling(size_t r) { return r % 150 < 70 ? 60.0f : 0.1f; }
static float rising(size_t r) { return r % 150 < 70 ? 0.1f : 60.0f; }

/* log sim is between -500 and 0, and spans 500 within a row. */
TEST(favor_takes_large_norms) {
  float (*const norms[])(size_t) = {sixty, mixed, falling, rising};
  static const char *const forms[] = {"favor(m=64)", "favor(m=64,kind=pair)",
                                      "favor(m=40,draw=iid)"};
  FOR_EACH_ISA(isa)
  for (int n = 0; n < 12; n += light() ? 5 : 1) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, forms[n % 3], "h2g1n150d64v8:causal:bwd", 64);
    set_norms(t.q.data, rows_of(&t.desc), 64, norms[n / 3 % 2]);
    set_norms(t.k.data, keys_of(&t.desc), 64, norms[n / 3]);
    outcome out = outcome_of(ctx, &t);
    for (int part = 0; part <= OUT_DV; part++)
      for (size_t i = 0; i < out.bytes[part] / 4; i++)
        CHECK(isfinite(((float *)out.part[part])[i]));
    check_outcome(ctx, &t, &out, forms[n % 3]);
    outcome_free(&out);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* A key so long that it weighs nothing must not take its neighbours along. */
TEST(favor_passes_over_a_huge_key) {
  const float huge[] = {1e4f, 1e7f, 1e12f, 1e15f};
  FOR_EACH_ISA(isa)
  for (int n = 0; n < 4; n++) {
    attend_context *ctx = open_dirty(isa, 2, NULL);
    attend_tensors t = linear_tensors(ctx, n % 2 ? "favor(m=64)" : "favor(m=64,kind=pair)",
                                      "n100d64v8:causal", 67);
    put_all(ATTEND_F32, t.k.data, 10 * 64, 64, huge[n]);
    outcome out = outcome_of(ctx, &t);
    check_outcome(ctx, &t, &out, "a huge key");
    outcome_free(&out);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- nothing to see ------------------------------------------------------------------------ */

static void check_zero(const outcome *out, int part, const char *name) {
  for (size_t i = 0; i < out->bytes[part] / 4; i++)
    if (((float *)out->part[part])[i] != 0) {
      CHECK_FAIL("%s: part %d is not zero", name, part);
      return;
    }
}

static float empty_lse(const attend_form *f) { return attend_form_signed(f) ? 0 : -INFINITY; }

/* All keys of the first sequence are padding; those of the second but the
 * last. q is NaN where nothing is seen. */
TEST(padding_up_to_the_last_key) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < 2 * LINEAR_FORMS; f++) {
    const char *form = linear_forms[f / 2];
    attend_context *ctx = open_dirty(isa, 1 + f % 3, NULL);
    attend_tensors t =
        linear_tensors(ctx, form, f % 2 ? "b2n140d6v5:causal:bwd" : "b2n20x140d6v5:bwd", 65);
    uint8_t mask[2][140] = {{0}};
    mask[1][139] = 1;
    t.desc.mask.key_mask = mask[0];
    int T = t.desc.q_len, live = f % 2 ? 139 : 0;
    put_all(ATTEND_F32, t.q.data, 0, (size_t)(T * 6), NAN);
    put_all(ATTEND_F32, t.k.data, 0, 140 * 6, NAN);
    put_all(ATTEND_F32, t.v.data, 0, 140 * 5, NAN);
    put_all(ATTEND_F32, t.d_o.data, 0, (size_t)(T * 5), NAN);
    outcome out = outcome_of(ctx, &t);
    const float *o = (float *)out.part[OUT_O], *v = t.v.data;
    for (int r = 0; r < 2 * T; r++) {
      int sees = r >= T + live;
      if (!sees) CHECK(((float *)out.part[OUT_LSE])[r] == empty_lse(&t.desc.form));
      for (int m = 0; m < 5; m++) CHECK_NEAR(o[r * 5 + m], sees ? v[(139 + 140) * 5 + m] : 0, 1e-5);
    }
    for (int part = OUT_DQ; part <= OUT_DV; part++) {
      size_t half = out.bytes[part] / 8;
      for (size_t i = 0; i < half; i++) CHECK(((float *)out.part[part])[i] == 0);
      for (size_t i = half; i < 2 * half; i++) CHECK(isfinite(((float *)out.part[part])[i]));
    }
    outcome_free(&out);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

TEST(no_query_and_no_key) {
  FOR_EACH_ISA(isa)
  for (int f = 0; f < LINEAR_FORMS; f++)
    for (int threads = 1; threads < 4; threads += 2) {
      attend_context *ctx = open_dirty(isa, threads, NULL);
      attend_tensors t = linear_tensors(ctx, linear_forms[f], "h2n0x5d4:bwd", 66);
      outcome out = outcome_of(ctx, &t);
      check_zero(&out, OUT_DK, linear_forms[f]);
      check_zero(&out, OUT_DV, linear_forms[f]);
      outcome_free(&out);
      attend_tensors_free(ctx, &t);
      t = linear_tensors(ctx, linear_forms[f], "h2n3x0d4:bwd", 66);
      out = outcome_of(ctx, &t);
      check_zero(&out, OUT_O, linear_forms[f]);
      check_zero(&out, OUT_DQ, linear_forms[f]);
      for (int r = 0; r < 6; r++) CHECK(((float *)out.part[OUT_LSE])[r] == empty_lse(&t.desc.form));
      outcome_free(&out);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}
