/* What must hold for every engine: parts merge to the whole, large logits and
 * small shapes work, and nothing but a row and its keys decides its bits. */
#include "saved_outputs.h"
#include "naive_attention.h"

/* ---- against the definition ------------------------------------------------------ */

static void plain_of(const attend_tensors *t, const attend_desc *d, plain_data *p) {
  size_t M = (size_t)d->dim_v;
  *p = (plain_data){.q = t->q.data, .k = t->k.data, .v = t->v.data};
  p->o = zeroed_block(rows_of(d) * M, sizeof(float));
  p->lse = zeroed_block(rows_of(d), sizeof(float));
  plain_run(d, p);
}

/* (o, lse) of f32 tensors against the definition; the budget is the plain
 * run's. */
static void check_against_definition(attend_context *ctx, const attend_tensors *t, const float *o,
                                     const float *lse, const char *name) {
  attend_desc d = t->desc;
  OK(ctx, attend_desc_complete(ctx, &d));
  size_t n = rows_of(&d) * (size_t)d.dim_v;
  double *truth = zeroed_block(n + rows_of(&d), sizeof *truth);
  plain_data p;
  plain_of(t, &d, &p);
  OK(ctx, attend_definition_forward(ctx, &d, t->q, t->k, t->v, truth, truth + n));
  check_budget(name, "o", o, p.o, truth, n, p.size[0]);
  check_budget(name, "lse", lse, p.lse, truth + n, rows_of(&d), p.size[1]);
  free(truth);
  free(p.o);
  free(p.lse);
}

static void check_problem(attend_context *ctx, const attend_tensors *t, const char *name) {
  outcome out = outcome_of(ctx, t);
  check_against_definition(ctx, t, (float *)out.part[OUT_O], (float *)out.part[OUT_LSE], name);
  outcome_free(&out);
}

/* ---- merging ---------------------------------------------------------------------- */

static const char *const mergeable[] = {
    "softmax:b2h4g2n7x90d16v24",  "argmax:b2h4g2n7x90d16", "argmax(ties=average):b2h2n7x90d16",
    "argmax(t=0.5):b1h2n7x90d16", "gaussian:b1h2n7x90d8",  "poly(p=2,c=1):b1h2n7x90d8",
    "softmax:b1h1n300x90d8",
};
enum { MERGEABLE = sizeof mergeable / sizeof *mergeable };

TEST(parts_merge_to_the_whole) {
  const int cuts[] = {0, 1, 37, 64, 90};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < MERGEABLE; p++)
    for (int c = 0; c < 5; c++) {
      attend_context *ctx = open_context(isa, 2, NULL);
      attend_tensors t = make_tensors(ctx, mergeable[p], 41);
      size_t rows = rows_of(&t.desc), n = rows * (size_t)t.desc.dim_v;
      float *o = zeroed_block(2 * (n + rows), sizeof *o);
      float *lse = o + 2 * n;
      forward_part(ctx, &t, 0, cuts[c], o, lse);
      forward_part(ctx, &t, cuts[c], 90, o + n, lse + rows);
      attend_plan *plan = make_plan(ctx, &t.desc);
      OK(ctx, attend_merge(plan, attend_bhtd(o), lse, attend_bhtd(o + n), lse + rows));
      check_against_definition(ctx, &t, o, lse, mergeable[p]);
      free(o);
      attend_plan_free(plan);
      attend_tensors_free(ctx, &t);
      attend_context_free(ctx);
    }
}

/* Every key comes twice, 45 positions apart: all winners are ties, and a cut
 * between them leaves one on each side. */
TEST(ties_go_to_the_first_or_to_all) {
  enum { HALF = 45, ROWS = 2 * 7, WIDTH = 8, N = ROWS * WIDTH };
  const char *const problems[] = {"argmax:h2n7x90d8:bwd", "argmax(ties=average):h2n7x90d8:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 2; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 48);
    float *k = t.k.data, o[2 * N], lse[2 * ROWS];
    for (int h = 0; h < 2; h++)
      memcpy(k + (2 * h + 1) * HALF * WIDTH, k + 2 * h * HALF * WIDTH, HALF * WIDTH * sizeof *k);
    check_problem(ctx, &t, problems[p]);
    outcome whole = outcome_of(ctx, &t);
    double *grad = zeroed_block(4 * 90 * WIDTH * 2, sizeof *grad);
    double *dk = grad + 2 * 90 * WIDTH, *dv = dk + 2 * 90 * WIDTH;
    OK(ctx, attend_definition_backward(ctx, &t.desc, t.q, t.k, t.v, t.d_o, grad, dk, dv, NULL));
    for (int i = 0; i < 2 * 90 * WIDTH; i++) {
      CHECK(((float *)whole.part[OUT_DK])[i] == 0);
      CHECK_NEAR(((float *)whole.part[OUT_DV])[i], dv[i], 1e-6);
    }
    forward_part(ctx, &t, 0, HALF, o, lse);
    forward_part(ctx, &t, HALF, 2 * HALF, o + N, lse + ROWS);
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_merge(plan, attend_bhtd(o), lse, attend_bhtd(o + N), lse + ROWS));
    CHECK(!memcmp(o, whole.part[OUT_O], sizeof o / 2));
    CHECK(!memcmp(lse, whole.part[OUT_LSE], sizeof lse / 2));
    free(grad);
    outcome_free(&whole);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- large and small ----------------------------------------------------------------- */

/* Keys along one direction at distinct integers, queries along it too: scores
 * are exact and far apart, so that a large scale picks exactly one. */
static void make_distinct(const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  static const float axis[8] = {1, -1, 2, 1, -2, 1, 1, 3};
  float *q = t->q.data, *k = t->k.data;
  for (size_t i = 0; i < rows_of(d); i++)
    for (size_t x = 0; x < 8; x++)
      q[i * 8 + x] = axis[x] * (float)((int)(i % 3) + 1) * (i % 2 ? 1 : -1);
  for (size_t j = 0; j < keys_of(d); j++)
    for (size_t x = 0; x < 8; x++)
      k[j * 8 + x] = axis[x] * (float)((int)(j * 7 % (size_t)d->kv_len) - 20);
}

/* Scores that are integers near `size`, or -size in every other row, and tie:
 * nothing is rounded but weights and sums, so the answer is as good as if the
 * scores were small. */
static void make_ties(const attend_tensors *t, float size, float times) {
  const attend_desc *d = &t->desc;
  float *q = t->q.data, *k = t->k.data;
  memset(q, 0, rows_of(d) * 8 * sizeof *q);
  memset(k, 0, keys_of(d) * 8 * sizeof *k);
  for (size_t i = 0; i < rows_of(d); i++) {
    q[i * 8] = (i % 2 ? -size : size) * times;
    q[i * 8 + 1] = (i % 3 ? 1.0f : -1.0f) * times;
    q[i * 8 + 2] = (float)(i % 5) * times;
  }
  for (size_t j = 0; j < keys_of(d); j++) {
    k[j * 8] = 1;
    k[j * 8 + 1] = (float)(j * 5 % 7);
    k[j * 8 + 2] = (float)(j / 64 % 3);
  }
}

TEST(huge_logits_that_tie) {
  const char *const problems[] = {
      "softmax:h2n40x300d8:scale=1:bwd", "softmax:h2n40x700d8:scale=0.125:bwd",
      "softmax:h2n1x3000d8:scale=1", "softmax:h2n300d8:scale=1:causal:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 4; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 49);
    /* without fma, factor times score is rounded too */
    make_ties(&t, 1e4f, p == 1 ? 8 : 1);
    check_problem(ctx, &t, problems[p]);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

TEST(huge_logits) {
  const char *const problems[] = {
      "softmax:b1h4g2n40x300d8:scale=1e4:bwd", "softmax:h2n40d8:scale=1e7:bwd",
      "softmax:h2n40d8:scale=-1e4:causal:bwd", "argmax(t=1e-4):h2n40d8:bwd",
      "softmax:h2n40x300d8:scale=3e5:bwd",     "softmax:h2n40x90d64:scale=300:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 6; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 42);
    if (t.desc.dim == 8) make_distinct(&t); /* the last one is random */
    check_problem(ctx, &t, problems[p]);
    outcome out = outcome_of(ctx, &t);
    for (int part = OUT_O; part <= OUT_DV; part++)
      for (size_t i = 0; i < out.bytes[part] / 4; i++)
        CHECK(isfinite(((float *)out.part[part])[i]));
    outcome_free(&out);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

TEST(small_and_long_shapes) {
  const char *const problems[] = {
      "softmax:n1x1d1",         "softmax:n5x7d1:bwd",      "softmax:b2h3n1x130d3v1",
      "argmax:n5x7d1",          "softmax:n17x1d5:top",     "softmax:b3h1n2x65d64:window=1",
      "softmax:n257x256d4:bwd", "softmax:n65x513d130v200", "softmax:h2g1n3x9000d8",
      "argmax:h2g1n3x9000d8",   "softmax:h2g1n3x65536d8",  "argmax:h2g1n3x65536d8",
  };
  FOR_EACH_ISA(isa)
  for (int p = 0; p < (light() ? 10 : 12); p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 43);
    check_problem(ctx, &t, problems[p]);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* No query: nothing to write, no address needed. No key: zeros, -inf. */
TEST(no_query_and_no_key) {
  float q[2 * 3 * 4], o[2 * 3 * 4], dq[2 * 3 * 4], lse[2 * 3];
  attend_view none = attend_bhtd(NULL);
  for (int i = 0; i < 24; i++) q[i] = NAN, o[i] = dq[i] = 7;
  FOR_EACH_ISA(isa)
  for (int kind = 0; kind < 4; kind++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_desc d = {ATTEND_INIT(attend_desc),
                     .form.kind = (attend_form_kind)kind,
                     .heads = 2,
                     .dim = 4,
                     .purpose = ATTEND_FOR_BACKWARD,
                     .kv_len = 5};
    attend_plan *plan = make_plan(ctx, &d);
    float k[2 * 5 * 4] = {0}, dk[40], dv[40];
    for (int i = 0; i < 40; i++) dk[i] = dv[i] = 7;
    OK(ctx, attend_forward(plan, none, attend_bhtd(k), attend_bhtd(k), none, NULL));
    OK(ctx, attend_backward(plan, none, attend_bhtd(k), attend_bhtd(k), none, NULL, none, none,
                            attend_bhtd(dk), attend_bhtd(dv), NULL));
    for (int i = 0; i < 40; i++) CHECK(dk[i] == 0 && dv[i] == 0);
    attend_plan_free(plan);
    d.q_len = 3, d.kv_len = 0;
    plan = make_plan(ctx, &d);
    OK(ctx, attend_forward(plan, attend_bhtd(q), none, none, attend_bhtd(o), lse));
    for (int i = 0; i < 24; i++) CHECK(o[i] == 0);
    for (int i = 0; i < 6; i++) CHECK(lse[i] == (kind == ATTEND_POLY ? 0 : -INFINITY));
    OK(ctx, attend_backward(plan, attend_bhtd(q), none, none, attend_bhtd(o), lse, attend_bhtd(q),
                            attend_bhtd(dq), none, none, NULL));
    for (int i = 0; i < 24; i++) CHECK(dq[i] == 0);
    attend_plan_free(plan);
    attend_context_free(ctx);
  }
}

/* ---- the same bits --------------------------------------------------------------------- */

TEST(threads_do_not_matter) {
  const char *const problems[] = {
      "softmax:b2h4g2n150x300d24v40:bwd",
      "softmax:b1h1n260d16:causal:alibi:bwd",
      "softmax:b1h2n90x700d16:bottom:buckets:bf16:bwd",
      "softmax:b2h2n70d16:lengths:dense:bwd",
      "softmax:b1h4g1n1x3000d16",
      "argmax(ties=average):b1h4g1n100x300d16:f16:bwd",
  };
  const int threads[] = {2, 3, 7};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 6; p++) {
    attend_context *ctx = open_context(isa, 1, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 44);
    outcome one = outcome_of(ctx, &t);
    for (int n = light(); n < 3; n++) {
      attend_context_set_threads(ctx, threads[n]);
      outcome more = outcome_of(ctx, &t);
      CHECK_SAME(one, more, problems[p]);
      outcome_free(&more);
    }
    outcome_free(&one);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* A row alone, as a batch of one with one query, has the bits it has among
 * others. */
TEST(company_does_not_matter) {
  const char *const problems[] = {"softmax:b3h4g2n37x300d24v40", "softmax:b3h4g2n37x300d24v40:f16",
                                  "argmax:b3h4g1n37x300d24"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 3; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 45);
    outcome all = outcome_of(ctx, &t);
    size_t size = attend_dtype_size(t.desc.dtype), H = 4, T = 37, S = 300;
    size_t G = (size_t)t.desc.kv_heads, D = 24, M = (size_t)t.desc.dim_v;
    attend_desc d = t.desc;
    d.batch = d.q_len = d.heads = d.kv_heads = 1;
    attend_plan *plan = make_plan(ctx, &d);
    char o[40 * 4];
    float lse;
    for (size_t r = 0; r < 3 * H * T; r += 11) {
      size_t b = r / T / H, g = r / T % H * G / H, at = (b * G + g) * S;
      OK(ctx, attend_forward(plan, attend_bhtd((char *)t.q.data + r * D * size),
                             attend_bhtd((char *)t.k.data + at * D * size),
                             attend_bhtd((char *)t.v.data + at * M * size), attend_bhtd(o), &lse));
      CHECK(!memcmp(o, all.part[OUT_O] + r * M * size, M * size));
      CHECK(!memcmp(&lse, all.part[OUT_LSE] + r * 4, 4));
    }
    attend_plan_free(plan);
    outcome_free(&all);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- strides ------------------------------------------------------------------------------ */

/* The elements of a contiguous view, moved to where other strides say. Kinds:
 * 0 BTHD; 1 gaps everywhere; 2 positions and columns backwards. */
typedef struct {
  char *block;
  attend_view view;
} moved;
enum { STRIDES = 3 };

static moved move(const attend_desc *d, attend_view from, int heads, int length, int width,
                  int kind) {
  ptrdiff_t size = (ptrdiff_t)attend_dtype_size(d->dtype);
  ptrdiff_t H = heads, T = length, D = width;
  ptrdiff_t elements = 4 * d->batch * (H + 1) * (T + 1) * (D + 3);
  moved m = {zeroed_block((size_t)elements, (size_t)size), {0}};
  m.view = attend_bthd(m.block, heads, length, width);
  if (kind == 1)
    m.view =
        (attend_view){m.block, {H * (T + 1) * (2 * D + 3), (T + 1) * (2 * D + 3), 2 * D + 3, 2}};
  if (kind == 2) m.view = (attend_view){m.block + (T * D - 1) * size, {H * T * D, T * D, -D, -1}};
  for (ptrdiff_t n = 0; n < d->batch * H * T * D; n++) {
    ptrdiff_t at = n / D / T / H * m.view.stride[0] + n / D / T % H * m.view.stride[1] +
                   n / D % T * m.view.stride[2] + n % D * m.view.stride[3];
    if (from.data)
      memcpy((char *)m.view.data + at * size, (char *)from.data + n * size, (size_t)size);
  }
  return m;
}

static int same_elements(const attend_desc *d, const moved *m, const char *want, int heads,
                         int length, int width) {
  ptrdiff_t size = (ptrdiff_t)attend_dtype_size(d->dtype);
  ptrdiff_t H = heads, T = length, D = width;
  for (ptrdiff_t n = 0; n < d->batch * H * T * D; n++) {
    ptrdiff_t at = n / D / T / H * m->view.stride[0] + n / D / T % H * m->view.stride[1] +
                   n / D % T * m->view.stride[2] + n % D * m->view.stride[3];
    if (memcmp((char *)m->view.data + at * size, want + n * size, (size_t)size)) return 0;
  }
  return 1;
}

static void check_strides(attend_context *ctx, const char *name, int kind) {
  attend_tensors t = make_tensors(ctx, name, 46);
  outcome want = outcome_of(ctx, &t);
  attend_plan *plan = make_plan(ctx, &t.desc);
  const attend_desc *d = attend_plan_desc(plan);
  int H = d->heads, G = d->kv_heads, T = d->q_len, S = d->kv_len;
  int D = d->dim, M = d->dim_v;
  attend_view none = {0};
  moved q = move(d, t.q, H, T, D, kind), k = move(d, t.k, G, S, D, kind);
  moved v = move(d, t.v, G, S, M, kind), d_o = move(d, t.d_o, H, T, M, kind);
  moved o = move(d, none, H, T, M, kind), dq = move(d, none, H, T, D, kind);
  moved dk = move(d, none, G, S, D, kind), dv = move(d, none, G, S, M, kind);
  OK(ctx, attend_forward(plan, q.view, k.view, v.view, o.view, t.lse));
  CHECK(!memcmp(t.lse, want.part[OUT_LSE], want.bytes[OUT_LSE]));
  OK(ctx, attend_backward(plan, q.view, k.view, v.view, o.view, t.lse, d_o.view, dq.view, dk.view,
                          dv.view, NULL));
  if (!same_elements(d, &o, want.part[OUT_O], H, T, M) ||
      !same_elements(d, &dq, want.part[OUT_DQ], H, T, D) ||
      !same_elements(d, &dk, want.part[OUT_DK], G, S, D) ||
      !same_elements(d, &dv, want.part[OUT_DV], G, S, M))
    CHECK_FAIL("%s: strides %d have other bits", name, kind);
  moved *all[] = {&q, &k, &v, &d_o, &o, &dq, &dk, &dv};
  for (int n = 0; n < 8; n++) free(all[n]->block);
  attend_plan_free(plan);
  outcome_free(&want);
  attend_tensors_free(ctx, &t);
}

TEST(strides_do_not_matter) {
  const char *const problems[] = {"softmax:b2h4g2n20x70d17v24:bwd",
                                  "softmax:b2h2n20x70d16:bf16:top:bwd",
                                  "argmax:b2h2n20x70d16:f16:bwd", "gaussian:b1h2n9x12d8:bwd"};
  FOR_EACH_ISA(isa) {
    attend_context *ctx = open_context(isa, 2, NULL);
    for (int p = 0; p < 4; p++)
      for (int kind = 0; kind < STRIDES; kind++) check_strides(ctx, problems[p], kind);
    attend_context_free(ctx);
  }
}

/* ---- memory -------------------------------------------------------------------------------- */

TEST(workspace_stays_small) {
  for (int threads = 1; threads <= 16; threads *= 4)
    for (int causal = 0; causal < 2; causal++) {
      attend_context *ctx = open_context(NULL, threads, NULL);
      attend_desc d = {ATTEND_INIT(attend_desc), .heads = 12, .q_len = 65536,
                       .kv_len = 65536,          .dim = 64,   .mask.causal = (attend_causal)causal};
      attend_plan *plan = make_plan(ctx, &d);
      CHECK(attend_plan_workspace(plan) <= (size_t)threads << 22);
      attend_plan_free(plan);
      attend_context_free(ctx);
    }
}

TEST(calls_take_no_memory) {
  const char *const problems[] = {"softmax:b2h4g2n40x300d16:lengths:alibi:bwd",
                                  "softmax:b2h4g2n40x300d16:buckets:bf16:bwd",
                                  "softmax:h4g1n1x3000d16",
                                  "argmax:b2h2n40x300d16:f16:bwd",
                                  "poly:h2n10x12d4:bwd",
                                  "gaussian:h2n10x12d4:bwd"};
  FOR_EACH_ISA(isa)
  for (int p = 0; p < 6; p++) {
    ledger memory = {0};
    attend_context *ctx = open_context(isa, 3, &memory);
    attend_tensors t = make_tensors(ctx, problems[p], 47);
    attend_plan *plan = make_plan(ctx, &t.desc);
    float *entropy = zeroed_block(rows_of(&t.desc), sizeof *entropy);
    attend_observation look = {ATTEND_INIT(attend_observation), .entropy = entropy};
    long taken = memory.taken;
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    if (t.desc.purpose & ATTEND_FOR_BACKWARD)
      OK(ctx, attend_backward(plan, t.q, t.k, t.v, t.o, t.lse, t.d_o, t.dq, t.dk, t.dv, t.dbias));
    attend_observe(plan, t.q, t.k, t.lse, &look);
    OK(ctx, attend_merge(plan, t.o, t.lse, t.o, t.lse));
    CHECK_EQ(memory.taken, taken);
    free(entropy);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
    CHECK_EQ(memory.live, 0);
  }
}
