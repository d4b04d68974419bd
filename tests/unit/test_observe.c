/* Looking at attention: what observe says is what the definition weighs, and
 * looking changes nothing. */
#include "attention_fixtures.h"

enum { TOP = 6, ROWS = 3 };
static const int32_t chosen[ROWS] = {0, 11, 19};

/* Everything that can be asked for of one problem. */
typedef struct {
  float *weights, *top_weight, *entropy, *mass;
  int32_t *top_index;
  size_t n_weights, n_top, n_rows, n_mass;
} sight;

static sight sight_for(const attend_desc *d, size_t keys) {
  size_t heads = (size_t)d->batch * (size_t)d->heads;
  sight s = {.n_weights = heads * ROWS * keys,
             .n_top = rows_of(d) * TOP,
             .n_rows = rows_of(d),
             .n_mass = heads * keys};
  s.weights = zeroed_block(s.n_weights, 4);
  s.top_weight = zeroed_block(s.n_top, 4);
  s.top_index = zeroed_block(s.n_top, 4);
  s.entropy = zeroed_block(s.n_rows, 4);
  s.mass = zeroed_block(s.n_mass, 4);
  return s;
}

static void sight_free(sight *s) {
  free(s->weights), free(s->top_weight), free(s->top_index);
  free(s->entropy), free(s->mass);
}

enum { ASK_ROWS = 1, ASK_TOP = 2, ASK_ENTROPY = 4, ASK_MASS = 8, ASK_ALL = 15 };

static attend_observation look_for(const sight *s, int ask) {
  attend_observation look = {ATTEND_INIT(attend_observation)};
  if (ask & ASK_ROWS) look.rows = chosen, look.n_rows = ROWS, look.weights = s->weights;
  if (ask & ASK_TOP) look.top = TOP, look.top_index = s->top_index, look.top_weight = s->top_weight;
  if (ask & ASK_ENTROPY) look.entropy = s->entropy;
  if (ask & ASK_MASS) look.mass = s->mass;
  return look;
}

static sight observe(attend_context *ctx, attend_plan *plan, const attend_tensors *t, int ask) {
  sight s = sight_for(&t->desc, (size_t)t->desc.kv_len);
  attend_observation look = look_for(&s, ask);
  OK(ctx, attend_observe(plan, t->q, t->k, t->lse, &look));
  return s;
}

static int same_sight(const sight *a, const sight *b, int ask) {
  return (!(ask & ASK_ROWS) || !memcmp(a->weights, b->weights, a->n_weights * 4)) &&
         (!(ask & ASK_TOP) || (!memcmp(a->top_index, b->top_index, a->n_top * 4) &&
                               !memcmp(a->top_weight, b->top_weight, a->n_top * 4))) &&
         (!(ask & ASK_ENTROPY) || !memcmp(a->entropy, b->entropy, a->n_rows * 4)) &&
         (!(ask & ASK_MASS) || !memcmp(a->mass, b->mass, a->n_mass * 4));
}

/* ---- against the definition --------------------------------------------------------- */

static const char *const problems[] = {
    "softmax:b2h4g2n20x300d16",
    "softmax:b2h2n20x90d16:bottom:alibi",
    "softmax:b2h4g1n40d16:causal:window=4",
    "softmax:b3h2n20x70d16:lengths:buckets",
    "softmax:b2h2n30x70d17:padleft:f16",
    "softmax:b1h2n40x12d8:bottom:dense",
    "softmax:b2h4g2n40x300d16:bottom:alibi:cap=2",
    "argmax:b2h4g2n20x300d16",
    "argmax:b2h2n40d16:causal:bf16",
    "argmax(ties=average):b2h4g2n40x300d16:padright",
    "argmax(t=0.3):b2h2n20x90d16:top",
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* Equal keys in every run of 32: ties for argmax. */
static void repeat_keys(const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  size_t row = (size_t)d->dim * attend_dtype_size(d->dtype);
  for (size_t j = 0; j < keys_of(d); j++)
    memcpy((char *)t->k.data + j * row, (char *)t->k.data + (j / 32 * 32 + j % 8) * row, row);
}

static double nth_largest(const double *w, int n, int nth) {
  double x = INFINITY;
  for (int seen = 0; seen <= nth;) { /* step down through the values */
    double next = -1;
    int count = 0;
    for (int j = 0; j < n; j++)
      if (w[j] < x && w[j] > next) next = w[j];
    for (int j = 0; j < n; j++) count += w[j] == next;
    if (next < 0) return 0;
    seen += count;
    x = next;
  }
  return x;
}

static void check_top(const attend_desc *d, const sight *s, const double *w, size_t r, int hard,
                      double slack) {
  int S = d->kv_len, visible = 0;
  int b = (int)(r / (size_t)(d->heads * d->q_len));
  const int32_t *index = s->top_index + r * TOP;
  const float *weight = s->top_weight + r * TOP;
  for (int j = 0; j < S; j++) visible += attend_visible(d, b, (int)(r % (size_t)d->q_len), j);
  for (int n = 0; n < TOP; n++) {
    if (n >= visible) {
      CHECK(index[n] == -1 && weight[n] == 0);
      continue;
    }
    if (index[n] < 0 || index[n] >= S) {
      CHECK_FAIL("top %d of row %zu is key %d", n, r, (int)index[n]);
      return;
    }
    CHECK_NEAR(weight[n], w[index[n]], slack);
    CHECK_NEAR(weight[n], nth_largest(w, S, n), slack);
    for (int m = 0; m < n; m++) CHECK(index[m] != index[n]);
    CHECK(n == 0 || weight[n] <= weight[n - 1]);
    if (hard && n && weight[n] == weight[n - 1]) CHECK(index[n] > index[n - 1]);
  }
}

static void check_sight(const attend_desc *d, const sight *s, const double *w) {
  size_t S = (size_t)d->kv_len, T = (size_t)d->q_len;
  int hard = d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
  double slack = hard ? 1e-7 : 1e-5; /* a third is not exact */
  double *mass = zeroed_block(s->n_mass, sizeof *mass);
  for (size_t r = 0; r < rows_of(d); r++) {
    double entropy = 0;
    for (size_t j = 0; j < S; j++) {
      double x = w[r * S + j];
      if (x > 0) entropy -= x * log(x);
      mass[r / T * S + j] += x;
    }
    CHECK_NEAR(s->entropy[r], entropy, 1e-4);
    check_top(d, s, w + r * S, r, hard, slack);
  }
  for (size_t n = 0; n < s->n_mass; n++) CHECK_NEAR(s->mass[n], mass[n], 1e-6 + (double)T * slack);
  for (size_t n = 0; n < s->n_weights; n++) {
    size_t head = n / S / ROWS, row = head * T + (size_t)chosen[n / S % ROWS];
    double truth = w[row * S + n % S];
    CHECK_NEAR(s->weights[n], truth, slack);
    CHECK(truth > 0 || s->weights[n] == 0);
  }
  free(mass);
}

TEST(what_is_seen_is_what_is_defined) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 51);
    if (t.desc.form.kind == ATTEND_ARGMAX) repeat_keys(&t);
    attend_plan *plan = make_plan(ctx, &t.desc);
    size_t S = (size_t)t.desc.kv_len;
    double *w = zeroed_block(rows_of(&t.desc) * S, sizeof *w);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    sight s = observe(ctx, plan, &t, ASK_ALL);
    OK(ctx, attend_definition_weights(ctx, &t.desc, t.q, t.k, w));
    int failures = check_failures;
    check_sight(attend_plan_desc(plan), &s, w);
    if (check_failures > failures) printf("in %s on %s\n", problems[p], isa);
    free(w);
    sight_free(&s);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- what must not matter -------------------------------------------------------------- */

TEST(looking_changes_nothing) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, problems[p], 52);
    attend_plan *plan = make_plan(ctx, &t.desc);
    const attend_desc *d = attend_plan_desc(plan);
    size_t bytes = rows_of(d) * (size_t)d->dim_v * attend_dtype_size(d->dtype);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    void *o = copy_of(t.o.data, bytes);
    void *lse = copy_of(t.lse, rows_of(d) * 4);
    sight all = observe(ctx, plan, &t, ASK_ALL);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    CHECK(!memcmp(o, t.o.data, bytes));
    CHECK(!memcmp(lse, t.lse, rows_of(d) * 4));
    for (int ask = 1; ask < ASK_ALL; ask++) { /* alone or together */
      sight some = observe(ctx, plan, &t, ask);
      CHECK(same_sight(&some, &all, ask));
      sight_free(&some);
    }
    for (int threads = 1; threads <= 5; threads += 4) {
      attend_context_set_threads(ctx, threads);
      attend_plan *other = make_plan(ctx, &t.desc);
      sight again = observe(ctx, other, &t, ASK_ALL);
      CHECK(same_sight(&again, &all, ASK_ALL));
      sight_free(&again);
      attend_plan_free(other);
    }
    free(o);
    free(lse);
    sight_free(&all);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- states -------------------------------------------------------------------------- */

static const char *const decoded[] = {
    "softmax:b2h4g2n140d16:causal:alibi", "softmax:b2h2n140d16:causal:f16",
    "argmax(ties=average):b2h2n140d16:causal", "argmax(t=2):b1h2n140d16:causal:window=30",
    "softmax:b2h4g2n140d16:causal:alibi:cap=2:bf16"};
enum { DECODED = sizeof decoded / sizeof *decoded };

/* The last n queries of a state against those of the whole. */
static void check_state(attend_context *ctx, const attend_tensors *t, attend_plan *plan,
                        attend_state *state, int n, const sight *whole) {
  const attend_desc *d = &t->desc;
  size_t T = (size_t)d->q_len, D = (size_t)d->dim, heads = whole->n_rows / T;
  size_t from = T - (size_t)n;
  float *lse = zeroed_block(heads * (size_t)n, sizeof *lse);
  for (size_t i = 0; i < heads * (size_t)n; i++)
    lse[i] = t->lse[i / (size_t)n * T + from + i % (size_t)n];
  attend_view q = {(char *)t->q.data + from * D * attend_dtype_size(d->dtype),
                   {(ptrdiff_t)(T * D) * d->heads, (ptrdiff_t)(T * D), (ptrdiff_t)D, 1}};
  sight s = sight_for(d, T);
  attend_observation look = look_for(&s, n == (int)T ? ASK_ALL : ASK_ENTROPY | ASK_TOP);
  OK(ctx, attend_state_observe(plan, state, n, q, lse, &look));
  if (n == (int)T) CHECK(same_sight(&s, whole, ASK_ALL));
  for (size_t i = 0; i < heads * (size_t)n; i++) {
    size_t row = i / (size_t)n * T + from + i % (size_t)n;
    CHECK(s.entropy[i] == whole->entropy[row]);
    CHECK(!memcmp(s.top_index + i * TOP, whole->top_index + row * TOP, TOP * 4));
  }
  sight_free(&s);
  free(lse);
}

TEST(a_state_shows_the_same) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < DECODED; p++) {
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = make_tensors(ctx, decoded[p], 53);
    if (t.desc.form.kind == ATTEND_ARGMAX) repeat_keys(&t);
    attend_plan *plan = make_plan(ctx, &t.desc);
    OK(ctx, attend_forward(plan, t.q, t.k, t.v, t.o, t.lse));
    sight whole = observe(ctx, plan, &t, ASK_ALL);
    attend_desc d = t.desc;
    d.purpose = ATTEND_FOR_EXTEND;
    d.mask.causal = ATTEND_CAUSAL_BOTTOM;
    attend_plan *extend = make_plan(ctx, &d);
    attend_state *state;
    OK(ctx, attend_state_create(extend, &state));
    OK(ctx, attend_extend(extend, state, d.q_len, t.q, t.k, t.v, t.o, t.lse));
    check_state(ctx, &t, extend, state, d.q_len, &whole);
    check_state(ctx, &t, extend, state, 3, &whole);
    check_state(ctx, &t, extend, state, 1, &whole);
    attend_state_free(state);
    attend_plan_free(extend);
    attend_plan_free(plan);
    sight_free(&whole);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

TEST(wrong_questions_are_refused) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_tensors t = make_tensors(ctx, problems[0], 54);
  attend_plan *plan = make_plan(ctx, &t.desc);
  const int32_t beyond[1] = {20};
  float weights[2 * 4 * 300];
  attend_observation bad[] = {
      {ATTEND_INIT(attend_observation), .rows = beyond, .n_rows = 1, .weights = weights},
      {ATTEND_INIT(attend_observation), .rows = chosen, .n_rows = 1},
      {ATTEND_INIT(attend_observation), .top = 3},
      {ATTEND_INIT(attend_observation), .top = -1},
      {ATTEND_INIT(attend_observation), .n_rows = -1},
  };
  for (int n = 0; n < 5; n++) {
    CHECK_EQ(attend_observe(plan, t.q, t.k, t.lse, &bad[n]), ATTEND_INVALID);
    CHECK(attend_message(ctx)[0]);
  }
  attend_plan_free(plan);
  attend_tensors_free(ctx, &t);
  attend_context_free(ctx);
}
