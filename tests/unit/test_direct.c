/* Poly and gaussian, pair by pair: against the definition, over masks, and where
 * denominators cancel. */
#include "saved_outputs.h"
#include "naive_attention.h"

static attend_tensors tensors_of(attend_context *ctx, const char *text, uint64_t seed) {
  attend_tensors t = make_tensors(ctx, text, seed);
  t.desc.engine = "kernel-direct";
  return t;
}

/* ---- against the definition ------------------------------------------------------ */

/* In float, as anyone would write it: dq, dk and dv of one row. */
static void plain_backward(const attend_desc *d, const float *w, float lse, const float *q,
                           const float *k, const float *v, const float *o, const float *d_o,
                           float *dq, float *dk, float *dv) {
  const attend_form *f = &d->form;
  for (int j = 0; j < d->kv_len; j++, k += d->dim, dk += d->dim) {
    float gap = 0, dot = 0;
    for (int x = 0; x < d->dim_v; x++) {
      gap += d_o[x] * (v[j * d->dim_v + x] - o[x]);
      dv[j * d->dim_v + x] += w[j] * d_o[x];
    }
    if (w[j] == 0) continue;
    for (int x = 0; x < d->dim; x++) dot += q[x] * k[x];
    float slope = gap * w[j] / (f->sigma * f->sigma);
    if (f->kind == ATTEND_POLY) {
      slope = gap * f->a * (float)f->degree / lse;
      for (int n = 1; n < f->degree; n++) slope *= f->a * dot + f->c;
    }
    for (int x = 0; x < d->dim; x++) {
      bool poly = f->kind == ATTEND_POLY;
      dq[x] += slope * (poly ? k[x] : k[x] - q[x]);
      dk[x] += slope * (poly ? q[x] : q[x] - k[x]);
    }
  }
}

typedef struct { /* [B,H,T,..] and [B,G,S,..], contiguous */
  float *part[OUT_DV + 1];
  size_t count[OUT_DV + 1];
} floats;

static floats floats_for(const attend_desc *d) {
  size_t D = (size_t)d->dim, M = (size_t)d->dim_v;
  floats f = {
      .count = {rows_of(d) * M, rows_of(d), rows_of(d) * D, keys_of(d) * D, keys_of(d) * M}};
  for (int n = 0; n <= OUT_DV; n++) f.part[n] = zeroed_block(f.count[n], sizeof(float));
  return f;
}

static void floats_free(floats *f) {
  for (int n = 0; n <= OUT_DV; n++) free(f->part[n]);
}

static floats plain_all(const attend_desc *d, const attend_tensors *t) {
  size_t T = (size_t)d->q_len, S = (size_t)d->kv_len, D = (size_t)d->dim;
  size_t M = (size_t)d->dim_v;
  floats f = floats_for(d);
  plain_data p = {.q = t->q.data, .k = t->k.data, .v = t->v.data};
  p.o = f.part[OUT_O], p.lse = f.part[OUT_LSE];
  plain_run(d, &p);
  float *w = zeroed_block(S, sizeof *w);
  for (size_t r = 0; r < rows_of(d); r++) {
    size_t head = r / T, b = head / (size_t)d->heads;
    size_t g = head % (size_t)d->heads / (size_t)(d->heads / d->kv_heads);
    size_t at = (b * (size_t)d->kv_heads + g) * S;
    plain_row(d, (int)b, (int)(r % T), p.q + r * D, p.k + at * D, w);
    plain_backward(d, w, p.lse[r], p.q + r * D, p.k + at * D, p.v + at * M, p.o + r * M,
                   (float *)t->d_o.data + r * M, f.part[OUT_DQ] + r * D, f.part[OUT_DK] + at * D,
                   f.part[OUT_DV] + at * M);
  }
  free(w);
  return f;
}

/* As check_budget. Gradients are made from lse, whose rounding is relative to
 * its own size: gaussian's weights have as much of it. */
static void check_part(const char *name, const char *what, const float *got, const float *plain,
                       const double *truth, size_t n, double from_lse) {
  double error = 0, may = 0, largest = 0;
  for (size_t i = 0; i < n; i++) {
    if ((double)got[i] == truth[i]) continue; /* infinities too */
    double e = fabs((double)got[i] - truth[i]);
    if (!(e <= error)) error = e; /* NaN stays */
    may = fmax(may, fabs((double)plain[i] - truth[i]));
    largest = fmax(largest, fabs(truth[i]));
  }
  may = 2 * may + 0x1p-24 * (8 + from_lse) * largest;
  if (!(error <= may)) CHECK_FAIL("%s: %s errs by %.3g, may by %.3g", name, what, error, may);
}

static double largest_lse(const attend_desc *d, const double *lse) {
  double max = 0;
  for (size_t i = 0; d->form.kind == ATTEND_GAUSSIAN && i < rows_of(d); i++)
    if (isfinite(lse[i])) max = fmax(max, fabs(lse[i]));
  return max;
}

static void check_all(attend_context *ctx, const attend_tensors *t, const char *name) {
  static const char *const parts[] = {"o", "lse", "dq", "dk", "dv"};
  attend_desc d = t->desc;
  OK(ctx, attend_desc_complete(ctx, &d));
  floats plain = plain_all(&d, t);
  double *truth[OUT_DV + 1];
  for (int n = 0; n <= OUT_DV; n++) truth[n] = zeroed_block(plain.count[n], 8);
  OK(ctx, attend_definition_forward(ctx, &d, t->q, t->k, t->v, truth[OUT_O], truth[OUT_LSE]));
  OK(ctx, attend_definition_backward(ctx, &d, t->q, t->k, t->v, t->d_o, truth[OUT_DQ],
                                     truth[OUT_DK], truth[OUT_DV], NULL));
  outcome got = outcome_of(ctx, t);
  double from_lse = largest_lse(&d, truth[OUT_LSE]);
  for (int n = 0; n <= OUT_DV; n++)
    check_part(name, parts[n], (float *)got.part[n], plain.part[n], truth[n], plain.count[n],
               n < OUT_DQ ? 0 : from_lse);
  for (int n = 0; n <= OUT_DV; n++) free(truth[n]);
  outcome_free(&got);
  floats_free(&plain);
}

/* Bases keep their sign, so that denominators are far from 0; some of them are
 * negative. */
static const char *const problems[] = {
    "poly(p=1,a=0.1,c=3):b2h4g2n37x300d16v24:bwd",
    "poly(p=2,a=0.5,c=1):b1h2n70d16:causal:bwd",
    "poly(p=3,a=0.1,c=-3):b2h4g1n70x130d16:bottom:bwd",
    "poly(p=4,a=0.3):b2h3n33x65d7v31:lengths:bwd",
    "poly(p=7,a=-0.1,c=2):b2h2n40x90d16:padleft:bwd",
    "poly(p=7,a=0.1,c=-2):b1h6g1n65d8v3:causal:window=9:bwd",
    "poly(p=3,a=0.2,c=4):n20x70d1:bwd",
    "poly:n40x12d8v1:bottom:bwd",
    "gaussian:b2h4g2n37x300d16v24:bwd",
    "gaussian:b2h2n70d64:causal:bwd",
    "gaussian:b1h6g1n65x90d1v3:bottom:window=9:bwd",
    "gaussian:b3h2n40x90d8:padleft:bwd",
    "gaussian:b2h2n300x257d3:lengths:bwd",
    "gaussian(sigma=30):b1h2n70x130d16:bwd",
    "gaussian(sigma=0.5):b2h4g2n37x300d16v24:bwd",
    "gaussian(sigma=0.3):b1h2n70d8:causal:window=20:bwd",
    "gaussian(sigma=0.01):b1h2n70x300d1:bwd",
    "gaussian(sigma=0.1):b3h2n40x90d3:padleft:bwd",
    "gaussian(sigma=0.2):n40x12d8v1:bottom:bwd",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

TEST(as_the_definition) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, problems[p], 61);
    check_all(ctx, &t, problems[p]);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* Queries that are keys, far from 0: distances are small and products are not. */
TEST(queries_that_are_keys) {
  const char *const same[] = {"gaussian(sigma=0.05):h2n70d4:bwd",
                              "gaussian(sigma=0.1):h2n300d2:causal:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 2; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, same[p], 62);
    float *q = t.q.data, *k = t.k.data;
    for (size_t i = 0; i < rows_of(&t.desc) * (size_t)t.desc.dim; i++) q[i] = k[i] = 10 + q[i];
    check_all(ctx, &t, same[p]);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* Signed weights: an error is relative to the sum of their sizes. */
TEST(weights_that_cancel) {
  const char *const problems_here[] = {"poly(p=3):b1h2n40x300d8v5", "poly(p=1,c=0.1):b1h2n40x20d8",
                                       "poly(p=5,a=0.5):b1h4g2n70d8:causal"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 3; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, problems_here[p], 63);
    const attend_desc *d = &t.desc;
    size_t n = rows_of(d), M = (size_t)d->dim_v, S = (size_t)d->kv_len;
    double *w = zeroed_block(n * S, 8), *o = zeroed_block(n * M, 8);
    double *den = zeroed_block(n, 8);
    OK(ctx, attend_definition_weights(ctx, d, t.q, t.k, w));
    OK(ctx, attend_definition_forward(ctx, d, t.q, t.k, t.v, o, den));
    outcome got = outcome_of(ctx, &t);
    for (size_t r = 0; r < n; r++) {
      double size = 0, max = 0; /* of the weights; of a value beside o */
      for (size_t j = 0; j < S; j++) size += fabs(w[r * S + j]);
      for (size_t x = 0; x < M; x++) max = fmax(max, fabs(o[r * M + x]) + 5);
      double slack = 60 * 0x1p-24 * (size + 1); /* a few for each power */
      CHECK_NEAR(((float *)got.part[OUT_LSE])[r], den[r], slack * fabs(den[r]) * 4);
      for (size_t x = 0; x < M; x++)
        CHECK_NEAR(((float *)got.part[OUT_O])[r * M + x], o[r * M + x], slack * max * 4);
    }
    free(w), free(o), free(den);
    outcome_free(&got);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- denominators of 0 ------------------------------------------------------------- */

/* Scores are k itself: p 1, c 0, q 1. */
static outcome solve_scores(attend_context *ctx, int n, const float *k, const float *v,
                            attend_observation *look) {
  float one = 1, d_o = 1;
  outcome out = {{0}, {0}};
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = {.kind = ATTEND_POLY, .degree = 1},
                   .q_len = 1,
                   .kv_len = n,
                   .dim = 1,
                   .purpose = ATTEND_FOR_BACKWARD,
                   .engine = "kernel-direct"};
  attend_plan *plan = make_plan(ctx, &d);
  attend_view q = attend_bhtd(&one), key = attend_bhtd((void *)k);
  attend_view value = attend_bhtd((void *)v);
  float o = 7, lse = 7, dq = 7, *dk = zeroed_block((size_t)n, 4), size = 0;
  float *dv = zeroed_block((size_t)n, 4);
  OK(ctx, attend_forward(plan, q, key, value, attend_bhtd(&o), &lse));
  for (int j = 0; j < n; j++) size += fabsf(k[j]);
  CHECK_EQ(attend_plan_weak_rows(plan), fabsf(lse) < 0x1p-100f || fabsf(lse) < size / 1000);
  OK(ctx, attend_backward(plan, q, key, value, attend_bhtd(&o), &lse, attend_bhtd(&d_o),
                          attend_bhtd(&dq), attend_bhtd(dk), attend_bhtd(dv), NULL));
  if (look) OK(ctx, attend_observe(plan, q, key, &lse, look));
  outcome_keep(&out, OUT_O, &o, 1, 4);
  outcome_keep(&out, OUT_LSE, &lse, 1, 4);
  outcome_keep(&out, OUT_DQ, &dq, 1, 4);
  outcome_keep(&out, OUT_DK, dk, (size_t)n, 4);
  outcome_keep(&out, OUT_DV, dv, (size_t)n, 4);
  free(dk), free(dv);
  attend_plan_free(plan);
  return out;
}

static float part(const outcome *x, int n, int i) { return ((const float *)x->part[n])[i]; }

/* 1 and -1 by turns: each block cancels, and so does the whole. */
TEST(a_denominator_of_zero_is_a_row_that_sees_nothing) {
  enum { N = 2000 };
  static float k[N], v[N], weights[N];
  FOR_EACH_ISA(isa)
  for (int threads = 1; threads < 4; threads += 2) {
    attend_context *ctx = open_context(isa, threads, NULL);
    const int32_t row[1] = {0};
    float top = 7, entropy = 7;
    int32_t index = 7;
    attend_observation look = {ATTEND_INIT(attend_observation), .rows = row, .n_rows = 1,
                               .weights = weights, .top = 1};
    look.top_index = &index, look.top_weight = &top, look.entropy = &entropy;
    for (int j = 0; j < N; j++) k[j] = j % 2 ? -1 : 1, v[j] = (float)(j % 7);
    outcome x = solve_scores(ctx, N, k, v, &look);
    CHECK(part(&x, OUT_O, 0) == 0 && part(&x, OUT_LSE, 0) == 0);
    CHECK(part(&x, OUT_DQ, 0) == 0);
    for (int j = 0; j < N; j++)
      CHECK(part(&x, OUT_DK, j) == 0 && part(&x, OUT_DV, j) == 0 && weights[j] == 0);
    CHECK(index == -1 && top == 0 && entropy == 0);
    outcome_free(&x);
    attend_context_free(ctx);
  }
}

/* The first blocks cancel, but their values count: joined and one by one. */
TEST(a_block_that_cancels_still_counts) {
  enum { N = 2000 };
  static float k[N], v[N];
  FOR_EACH_ISA(isa)
  for (int threads = 1; threads < 4; threads += 2) {
    attend_context *ctx = open_context(isa, threads, NULL);
    for (int j = 0; j < N; j++) k[j] = j % 2 ? -1 : 1, v[j] = (float)(j % 2);
    k[N - 1] = 1; /* the sum of weights is 2, of values 1 - 999 */
    outcome x = solve_scores(ctx, N, k, v, NULL);
    CHECK(part(&x, OUT_LSE, 0) == 2);
    CHECK(part(&x, OUT_O, 0) == -499);
    CHECK(part(&x, OUT_DV, 0) == 0.5f && part(&x, OUT_DV, 1) == -0.5f);
    outcome_free(&x);
    attend_context_free(ctx);
  }
}

/* ---- nothing to see ------------------------------------------------------------------ */

TEST(no_query_no_key_and_rows_that_see_nothing) {
  const char *const empty[] = {"poly(p=3):b2h2n0x5d8:bwd",
                               "poly(p=3):b2h2n5x0d8:bwd",
                               "gaussian:b2h2n0x5d8:bwd",
                               "gaussian:b2h2n5x0d8:bwd",
                               "poly(p=2):b2h2n40x12d8:bottom:bwd",
                               "gaussian:b2h2n40x12d8:bottom:bwd",
                               "gaussian(sigma=0.3):b2h2n40x12d8:bottom:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 7; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, empty[p], 64);
    const attend_desc *d = &t.desc;
    int blind = d->kv_len < d->q_len ? d->q_len - d->kv_len : 0;
    for (size_t r = 0; r < rows_of(d); r++) /* may be anything */
      if ((int)(r % (size_t)d->q_len) < blind) put_all(ATTEND_F32, t.q.data, r * 8, 8, NAN);
    outcome x = outcome_of(ctx, &t);
    for (size_t r = 0; r < rows_of(d); r++) {
      if ((int)(r % (size_t)d->q_len) >= blind) continue;
      float none = d->form.kind == ATTEND_POLY ? 0 : -INFINITY;
      CHECK(part(&x, OUT_LSE, (int)r) == none);
      for (int i = 0; i < 8; i++)
        CHECK(part(&x, OUT_O, (int)r * 8 + i) == 0 && part(&x, OUT_DQ, (int)r * 8 + i) == 0);
    }
    for (int i = 0; i < (int)keys_of(d) * 8; i++) {
      CHECK(isfinite(part(&x, OUT_DK, i)) && isfinite(part(&x, OUT_DV, i)));
      if (d->q_len == 0) CHECK(part(&x, OUT_DK, i) == 0);
    }
    outcome_free(&x);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* NaN in keys and values that nobody sees, in half of what a tile loads. */
TEST(masked_keys_are_not_read) {
  const char *const padded[] = {
      "poly(p=3,a=0.1,c=2):b2h2n40x90d8:lengths:bwd", "poly(p=2):b2h2n40x90d8:padleft:bf16:bwd",
      "gaussian:b2h2n40x90d8:lengths:bwd", "gaussian:b2h2n40x90d8:padleft:f16:bwd",
      "gaussian(sigma=0.3):b2h2n40x90d8:padleft:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 5; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, padded[p], 65);
    const attend_desc *d = &t.desc;
    outcome clean = outcome_of(ctx, &t);
    for (int j = 0; j < (int)keys_of(d); j++)
      if (!attend_visible(d, j / 90 / d->kv_heads, 0, j % 90)) {
        put_all(d->dtype, t.k.data, (size_t)j * 8, 8, NAN);
        put_all(d->dtype, t.v.data, (size_t)j * 8, 8, INFINITY);
      }
    outcome spoilt = outcome_of(ctx, &t);
    CHECK_SAME(clean, spoilt, padded[p]);
    outcome_free(&clean);
    outcome_free(&spoilt);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- looking ---------------------------------------------------------------------------- */

TEST(what_is_seen_is_what_was_weighed) {
  const char *const looked[] = {"poly(p=3):b2h4g2n20x300d4", "poly(p=2,c=1):b2h2n40d16:causal:bf16",
                                "gaussian:b2h4g2n20x300d16:padleft",
                                "gaussian:b2h2n40d16:causal:alibi",
                                "gaussian(sigma=0.2):b2h2n40x70d3:bottom"};
  enum { TOP = 3 };
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 5; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, looked[p], 68);
    const attend_desc *d = &t.desc;
    attend_plan *plan = make_plan(ctx, d);
    size_t T = (size_t)d->q_len, S = (size_t)d->kv_len, n = rows_of(d);
    int32_t *rows = zeroed_block(T, 4), *index = zeroed_block(n * TOP, 4);
    float *w = zeroed_block(n * S, 4), *top = zeroed_block(n * TOP, 4);
    double *truth = zeroed_block(n * S, 8);
    for (int i = 0; i < d->q_len; i++) rows[i] = i;
    attend_observation look = {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = d->q_len,
                               .weights = w};
    look.top = TOP, look.top_index = index, look.top_weight = top;
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    OK(ctx, attend_observe(plan, t.q, t.k, t.lse, &look));
    OK(ctx, attend_definition_weights(ctx, d, t.q, t.k, truth));
    for (size_t r = 0; r < n; r++) {
      double sum = 0, size = 0;
      for (size_t j = 0; j < S; j++) sum += w[r * S + j], size += fabs(truth[r * S + j]);
      if (size == 0) continue;
      CHECK_NEAR(sum, 1, 1e-5 * (1 + size));
      for (size_t j = 0; j < S; j++)
        CHECK_NEAR(w[r * S + j], truth[r * S + j], 2e-5 * (1 + size) * size);
      for (int i = 0; i < TOP; i++) { /* heaviest first, as in the row */
        int32_t at = index[r * TOP + (size_t)i];
        float weight = top[r * TOP + (size_t)i];
        CHECK(at < 0 ? weight == 0 : weight == w[r * S + (size_t)at]);
        int heavier = 0;
        for (size_t j = 0; j < S && at >= 0; j++) heavier += w[r * S + j] > weight;
        CHECK(heavier <= i);
      }
    }
    free(rows), free(index), free(w), free(top), free(truth);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- refusals ------------------------------------------------------------------------------ */

TEST(what_it_does_not_take) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_plan *plan;
  float slope[1] = {1};
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = {.kind = ATTEND_POLY},
                   .q_len = 4,
                   .kv_len = 4,
                   .dim = 4,
                   .bias = {.kind = ATTEND_ALIBI, .slopes = slope},
                   .engine = "kernel-direct"};
  CHECK(attend_plan_create(ctx, &d, &plan) == ATTEND_UNSUPPORTED);
  CHECK_SAYS(attend_message(ctx), "biases multiply poly's weights");
  d.engine = NULL;
  plan = make_plan(ctx, &d);
  CHECK(!strcmp(attend_plan_engine(plan), "definition"));
  attend_plan_free(plan);
  d.form = (attend_form){.kind = ATTEND_GAUSSIAN, .sigma = 1e-30f};
  CHECK(attend_plan_create(ctx, &d, &plan) == ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "sigma 1e-30");
  attend_context_free(ctx);
}
