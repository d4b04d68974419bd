/* Every weight once, stretch by stretch: put together they are the rows of
 * weights, bit for bit, whatever was asked for, of every form on every engine. */
#include "linear_fixtures.h"

static int same_bits(const float *a, const float *b, size_t n) {
  return !memcmp(a, b, n * sizeof *a);
}

typedef struct {
  const char *form, *shape;
  const char *engine; /* that must run; NULL: whichever does */
} problem;

/* The caller's similarity: not a product of anything. */
static double near_in_all(const double *q, const double *k, int dim, double *dq, double *dk,
                          void *user) {
  double sum = 0;
  (void)dq, (void)dk, (void)user;
  for (int i = 0; i < dim; i++) sum += fabs(q[i] - k[i]);
  return 1 / (1 + sum);
}

static const problem problems[] = {
    {"softmax", "b2h4g2n20x300d16", "softmax-tiled"},
    {"softmax", "b1h6g2n150d16:causal", "softmax-tiled"},
    {"softmax", "b2h4g1n90d16:causal:window=4", "softmax-tiled"},
    {"softmax", "b2h2n70x200d8:window=40", "softmax-tiled"},
    {"softmax", "b3h2n20x170d16:lengths:buckets", "softmax-tiled"},
    {"softmax", "b2h2n30x170d17:padleft:f16", "softmax-tiled"},
    {"softmax", "b2h2n30x170d16:padright:bf16", "softmax-tiled"},
    {"softmax", "b1h2n140x12d8:bottom:dense", "softmax-tiled"},
    {"softmax", "b1h40g1n9x70d8:bottom:alibi", "softmax-tiled"},
    {"argmax", "b2h4g2n20x300d16", "argmax-tiled"},
    {"argmax", "b2h2n140d16:causal:bf16", "argmax-tiled"},
    {"argmax(ties=average)", "b2h4g2n40x300d16:padright", "argmax-tiled"},
    {"argmax(ties=average)", "b1h2n90d16:causal:window=33", "argmax-tiled"},
    /* several blocks of keys */
    {"softmax", "b1h4g2n12x700d16:bf16", "softmax-tiled"},
    {"softmax", "b1h2n12x600d16:bottom:window=290", "softmax-tiled"},
    {"argmax", "b1h2n20x600d16:padleft", "argmax-tiled"},
    {"argmax(ties=average)", "b1h4g2n20x600d16", "argmax-tiled"},
    {"poly(p=2,c=1)", "b1h2n9x600d16", "kernel-direct"},
    {"gaussian", "b1h2n9x600d8:bottom", "kernel-direct"},
    {"elu", "b1h2n9x600d8:bottom", "linear"},
    {"argmax(t=0.3)", "b2h2n20x190d16:top", NULL},
    {"poly(p=2,c=1)", "b2h4g2n30x150d8:lengths", "kernel-direct"},
    {"poly(p=3,a=0.5)", "b1h2n140d16:causal:window=20", NULL},
    {"poly(p=2)", "b1h4g2n140d4:causal", "linear"},
    {"gaussian", "b2h4g2n30x150d8:padleft", "kernel-direct"},
    {"gaussian", "b1h2n140d8:causal:window=70", NULL},
    {"gaussian(m=40)", "b1h4g2n140d8:causal", "linear"},
    {"gaussian(m=64,map=fourier,sigma=4)", "b1h2n70x150d8:lengths", "linear"},
    {"elu", "b2h4g2n130d24v40:causal", "linear"},
    {"elu", "b2h2n70x150d7:padleft", "linear"},
    {"favor(m=40)", "b2h4g2n130d16:causal:bf16", "linear"},
    {"favor(m=32,kind=pair)", "b1h2n130x90d16:bottom:padright", "linear"},
    {"fourier(m=64,seed=4,sigma=3)", "b1h2n70d8:causal", "linear"},
    {"phi", "b2h4g2n130d8:causal", "linear"},
    {"sim", "b2h4g2n30d8:causal", "definition"},
    {"sim", "b1h2n20x70d8:padleft", "definition"},
    {"favor(m=16)", "b1h4g2n40d8:causal:window=9", "definition"},
    {"elu", "b2h2n20x90d8:alibi", "definition"},
    {"softmax", "b2h4g2n40d8:causal:window=7:lengths", "definition"},
    {"argmax(ties=average)", "b2h2n20x70d8:padleft", "definition"},
};
enum { PROBLEMS = sizeof problems / sizeof *problems };

/* The same 40 keys again and again: ties for argmax, in several blocks. */
static void repeat_keys(const attend_tensors *t) {
  const attend_desc *d = &t->desc;
  size_t row = (size_t)d->dim * attend_dtype_size(d->dtype);
  size_t S = (size_t)d->kv_len;
  for (size_t j = 0; j < keys_of(d); j++)
    memmove((char *)t->k.data + j * row, (char *)t->k.data + (j / S * S + j % S % 40) * row, row);
}

static attend_tensors tensors_of(attend_context *ctx, const problem *p) {
  char text[200];
  int own = !strcmp(p->form, "sim") || !strcmp(p->form, "phi");
  snprintf(text, sizeof text, "%s:%s", own ? "elu" : p->form, p->shape);
  attend_tensors t = make_tensors(ctx, text, 61);
  if (!strcmp(p->form, "sim"))
    t.desc.form = (attend_form){.kind = ATTEND_CUSTOM, .sim = near_in_all};
  if (!strcmp(p->form, "phi"))
    t.desc.form = (attend_form){.kind = ATTEND_CUSTOM, .phi = bent, .features = 2 * t.desc.dim};
  if (t.desc.form.kind == ATTEND_ARGMAX) repeat_keys(&t);
  t.desc.engine = p->engine;
  return t;
}

/* ---- gathering ---------------------------------------------------------------------- */

typedef struct {
  const attend_desc *d;
  const int32_t *rows; /* NULL: all */
  int slots, keys;
  int64_t from, to;
  float *weights;   /* [B,H,slots,S] */
  uint8_t *count;   /* the same, how often each came */
  int32_t *reached; /* [B,H,slots] behind the last key that came */
  int wrong;        /* stretches that cannot be */
} gathered;

static void gather(const attend_weight_span *s, void *user) {
  gathered *g = user;
  int H = g->d->heads;
  if (s->b < 0 || s->b >= g->d->batch || s->h < 0 || s->h >= H || s->slot < 0 ||
      s->slot >= g->slots || s->n <= 0 || s->key < g->from || s->key + s->n > g->to ||
      s->row != (g->rows ? g->rows[s->slot] : s->slot)) {
    __atomic_add_fetch(&g->wrong, 1, __ATOMIC_RELAXED);
    return;
  }
  size_t row = (size_t)((s->b * H + s->h) * g->slots + s->slot);
  size_t at = row * (size_t)g->keys + (size_t)s->key;
  if (s->key < g->reached[row]) __atomic_add_fetch(&g->wrong, 1, __ATOMIC_RELAXED);
  g->reached[row] = s->key + s->n;
  for (int j = 0; j < s->n; j++) g->count[at + (size_t)j]++;
  memcpy(g->weights + at, s->weights, (size_t)s->n * sizeof *s->weights);
}

static gathered gathered_for(const attend_desc *d, int T, int S, const int32_t *rows, int n_rows,
                             int64_t from, int64_t to) {
  gathered g = {.d = d,
                .rows = rows,
                .slots = rows ? n_rows : T,
                .keys = S,
                .from = from,
                .to = to && to < S ? to : S};
  size_t n = (size_t)(d->batch * d->heads) * (size_t)g.slots;
  g.weights = zeroed_block(n * (size_t)S, sizeof *g.weights);
  g.count = zeroed_block(n * (size_t)S, 1);
  g.reached = zeroed_block(n, sizeof *g.reached);
  return g;
}

static attend_observation look_for(gathered *g, int64_t from, int64_t to) {
  return (attend_observation){ATTEND_INIT(attend_observation),
                              .rows = g->rows,
                              .n_rows = g->rows ? g->slots : 0,
                              .each = gather,
                              .user = g,
                              .key_from = from,
                              .key_to = to};
}

/* Against whole rows [B,H,T,S]. visible: NULL, or what must have come. */
static void check_gathered(gathered *g, const float *whole, const uint8_t *visible, int T) {
  size_t S = (size_t)g->keys;
  CHECK_EQ(g->wrong, 0);
  for (size_t r = 0; r < (size_t)(g->d->batch * g->d->heads * g->slots); r++) {
    size_t head = r / (size_t)g->slots, slot = r % (size_t)g->slots;
    size_t row = head * (size_t)T + (g->rows ? (size_t)g->rows[slot] : slot);
    int bad = 0;
    for (size_t j = 0; j < S; j++) {
      int inside = (int64_t)j >= g->from && (int64_t)j < g->to;
      int count = g->count[r * S + j];
      const float *w = whole + row * S + j;
      int must = inside && (*w != 0 || (visible && visible[row * S + j]));
      bad |= count > inside || count < must;
      bad |= inside && !same_bits(g->weights + r * S + j, w, 1) && *w != 0;
      bad |= inside && *w == 0 && g->weights[r * S + j] != 0;
    }
    if (bad) CHECK_FAIL("slot %zu of head %zu", slot, head);
  }
  free(g->weights), free(g->count), free(g->reached);
}

typedef struct {
  int64_t from, to;
} range;

/* ---- over tensors --------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_tensors t;
  attend_plan *plan;
  float *whole;     /* [B,H,T,S] */
  uint8_t *visible; /* the same */
} scene;

static scene open_scene(const char *isa, int threads, const problem *p) {
  scene s = {.ctx = open_context(isa, threads, NULL)};
  s.t = tensors_of(s.ctx, p);
  s.plan = make_plan(s.ctx, &s.t.desc);
  const attend_desc *d = attend_plan_desc(s.plan);
  if (p->engine && strcmp(attend_plan_engine(s.plan), p->engine))
    CHECK_FAIL("%s runs", attend_plan_engine(s.plan));
  OK(s.ctx, attend_forward(s.plan, s.t.q, s.t.k, s.t.v, s.t.o, s.t.lse));
  int T = d->q_len, S = d->kv_len;
  int32_t *all = zeroed_block((size_t)T, sizeof *all);
  for (int i = 0; i < T; i++) all[i] = i;
  s.whole = zeroed_block(rows_of(d) * (size_t)S, sizeof *s.whole);
  s.visible = zeroed_block(rows_of(d) * (size_t)S, 1);
  attend_observation look = {ATTEND_INIT(attend_observation), .rows = all, .n_rows = T,
                             .weights = s.whole};
  OK(s.ctx, attend_observe(s.plan, s.t.q, s.t.k, s.t.lse, &look));
  for (int r = 0; r < d->batch * d->heads * T; r++)
    for (int j = 0; j < S; j++)
      s.visible[(size_t)r * (size_t)S + (size_t)j] =
          attend_visible(d, r / (d->heads * T), r % T, j) != 0;
  free(all);
  return s;
}

static void close_scene(scene *s) {
  free(s->whole);
  free(s->visible);
  attend_plan_free(s->plan);
  attend_tensors_free(s->ctx, &s->t);
  attend_context_free(s->ctx);
}

static void check_scene(scene *s, const int32_t *rows, int n_rows, range keys) {
  const attend_desc *d = attend_plan_desc(s->plan);
  gathered g = gathered_for(d, d->q_len, d->kv_len, rows, n_rows, keys.from, keys.to);
  attend_observation look = look_for(&g, keys.from, keys.to);
  OK(s->ctx, attend_observe(s->plan, s->t.q, s->t.k, s->t.lse, &look));
  check_gathered(&g, s->whole, s->visible, d->q_len);
}

/* Rows with gaps; from the last to the first; some twice. */
static int32_t *some_rows(int kind, int T, int *n) {
  int32_t *rows = zeroed_block((size_t)T + 3, sizeof *rows);
  *n = 0;
  for (int i = 0; i < T; i++)
    if (kind || i % 7 < 4) rows[(*n)++] = kind == 1 ? T - 1 - i : i;
  for (int i = 0; kind == 2 && i < *n; i++) rows[i] = (i * 5 + 3) % T;
  return rows;
}

static void check_problem(const char *isa, int threads, const problem *p) {
  int failures = check_failures;
  scene s = open_scene(isa, threads, p);
  int64_t S = s.t.desc.kv_len;
  const range ranges[] = {{0, 0},         {0, S},         {0, 1},     {S - 1, S},
                          {S / 3, S},     {5, S / 2 + 1}, {64, 65},   {S / 2, 10 * S},
                          {S + 3, S + 9}, {100, 256},     {256, 300}, {257, 1000}};
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    check_scene(&s, NULL, 0, ranges[i]);
    for (int kind = 0; kind < 3; kind++) {
      int n;
      if (kind != (int)i % 3) continue;
      int32_t *rows = some_rows(kind, s.t.desc.q_len, &n);
      check_scene(&s, rows, n, ranges[i]);
      free(rows);
    }
  }
  close_scene(&s);
  if (check_failures > failures) printf("in %s on %s\n", named(p->form, p->shape), isa);
}

TEST(all_stretches_are_all_weights) {
  FOR_EACH_ISA(isa)
  for (int p = 0; p < PROBLEMS; p++) check_problem(isa, 3, &problems[p]);
}

/* Statistics beside it stay what they are, and so do the weights. */
TEST(asked_together_or_alone) {
  for (int p = 0; p < PROBLEMS; p++) {
    scene s = open_scene(NULL, 2, &problems[p]);
    const attend_desc *d = attend_plan_desc(s.plan);
    size_t rows = rows_of(d), heads = (size_t)(d->batch * d->heads);
    size_t S = (size_t)d->kv_len;
    float *entropy = zeroed_block(2 * rows, 4), *mass = zeroed_block(2 * heads * S, 4);
    attend_observation alone = {ATTEND_INIT(attend_observation), .entropy = entropy, .mass = mass};
    gathered g = gathered_for(d, d->q_len, d->kv_len, NULL, 0, 2, 9);
    attend_observation both = look_for(&g, 2, 9);
    both.entropy = entropy + rows;
    both.mass = mass + heads * S;
    OK(s.ctx, attend_observe(s.plan, s.t.q, s.t.k, s.t.lse, &alone));
    OK(s.ctx, attend_observe(s.plan, s.t.q, s.t.k, s.t.lse, &both));
    CHECK(same_bits(entropy, entropy + rows, rows));
    CHECK(same_bits(mass, mass + heads * S, heads * S));
    check_gathered(&g, s.whole, s.visible, d->q_len);
    free(entropy), free(mass);
    close_scene(&s);
  }
}

/* ---- over states ------------------------------------------------------------------------ */

static const problem decoded[] = {
    {"softmax", "b2h4g2n140d16:causal:alibi", "softmax-tiled"},
    {"softmax", "b2h2n140d16:causal:window=30:f16", "softmax-tiled"},
    {"argmax(ties=average)", "b2h2n140d16:causal", "argmax-tiled"},
    {"argmax", "b1h4g1n140d16:causal:window=70", "argmax-tiled"},
    {"argmax(ties=average)", "b1h2n300d8:causal", "argmax-tiled"},
    {"gaussian", "b2h2n140d8:causal", "kernel-direct"},
    {"sim", "b2h4g2n40d8:causal", "definition"},
    {"favor(m=16)", "b1h2n40d8:causal:window=9", "definition"},
};

/* The last n queries of sequences of two lengths. */
static void check_state(attend_context *ctx, const attend_tensors *t, attend_plan *plan,
                        attend_state *state, int n, range keys) {
  const attend_desc *d = &t->desc;
  int T = d->q_len, longest = 0;
  size_t D = (size_t)d->dim, heads = (size_t)(d->batch * d->heads);
  float *lse = zeroed_block(heads * (size_t)n, sizeof *lse);
  for (int b = 0; b < d->batch; b++) {
    int held = (int)attend_state_length(state, b);
    longest = held > longest ? held : longest;
  }
  attend_view q = {(char *)t->q.data + (size_t)(T - n) * D * attend_dtype_size(d->dtype),
                   {(ptrdiff_t)(T * d->dim) * d->heads, (ptrdiff_t)T * d->dim, d->dim, 1}};
  OK(ctx, attend_state_query(plan, state, n, q, t->o, lse));
  int32_t *all = zeroed_block((size_t)n, sizeof *all);
  for (int i = 0; i < n; i++) all[i] = i;
  float *whole = zeroed_block(heads * (size_t)(n * longest), sizeof *whole);
  attend_observation rows = {ATTEND_INIT(attend_observation), .rows = all, .n_rows = n,
                             .weights = whole};
  OK(ctx, attend_state_observe(plan, state, n, q, lse, &rows));
  double sum = 0;
  for (size_t i = 0; i < heads * (size_t)(n * longest); i++) sum += (double)whole[i];
  CHECK_NEAR(sum, (double)heads * n, 1e-3 * (double)heads * n);
  for (int some = 0; some < 2; some++) {
    gathered g = gathered_for(d, n, longest, some ? all : NULL, (n + 1) / 2, keys.from, keys.to);
    attend_observation look = look_for(&g, keys.from, keys.to);
    OK(ctx, attend_state_observe(plan, state, n, q, lse, &look));
    check_gathered(&g, whole, NULL, n);
  }
  free(all), free(whole), free(lse);
}

TEST(over_states) {
  FOR_EACH_ISA(isa)
  for (size_t p = 0; p < sizeof decoded / sizeof *decoded; p++) {
    int failures = check_failures;
    attend_context *ctx = open_context(isa, 2, NULL);
    attend_tensors t = tensors_of(ctx, &decoded[p]);
    attend_desc d = t.desc;
    int T = d.q_len;
    int32_t lengths[2] = {T, T - 9};
    d.purpose = ATTEND_FOR_EXTEND;
    d.mask.causal = ATTEND_CAUSAL_BOTTOM;
    attend_plan *plan = make_plan(ctx, &d);
    attend_state *state;
    OK(ctx, attend_state_create(plan, &state));
    attend_plan_set_padding(plan, lengths, NULL);
    OK(ctx, attend_extend(plan, state, T, t.q, t.k, t.v, t.o, t.lse));
    attend_plan_set_padding(plan, NULL, NULL);
    const range ranges[] = {{0, 0}, {3, T / 2}, {T - 5, T}, {0, 4 * T}};
    for (int i = 0; i < 4; i++) {
      check_state(ctx, &t, plan, state, 1, ranges[i]);
      check_state(ctx, &t, plan, state, 12, ranges[i]);
      check_state(ctx, &t, plan, state, T - 9, ranges[i]);
    }
    if (check_failures > failures)
      printf("in %s on %s\n", named(decoded[p].form, decoded[p].shape), isa);
    attend_state_free(state);
    attend_plan_free(plan);
    attend_tensors_free(ctx, &t);
    attend_context_free(ctx);
  }
}

/* ---- what cannot be asked for --------------------------------------------------------------- */

TEST(questions_that_are_refused) {
  static const char *const engines[] = {"softmax-tiled", "linear", "definition"};
  for (int e = 0; e < 3; e++) {
    int p = 0;
    while (!problems[p].engine || strcmp(problems[p].engine, engines[e])) p++;
    scene s = open_scene(NULL, 1, &problems[p]);
    const int32_t rows[] = {0, 3}, beyond[] = {0, s.t.desc.q_len};
    gathered g = {.d = &s.t.desc};
    attend_observation bad[] = {
        {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = 2, .each = gather, .user = &g,
         .weights = s.whole},
        {ATTEND_INIT(attend_observation), .rows = beyond, .n_rows = 2, .each = gather, .user = &g},
        {ATTEND_INIT(attend_observation), .n_rows = 2, .each = gather, .user = &g},
        {ATTEND_INIT(attend_observation), .each = gather, .user = &g, .key_from = 4, .key_to = 4},
        {ATTEND_INIT(attend_observation), .each = gather, .user = &g, .key_from = 4, .key_to = 2},
        {ATTEND_INIT(attend_observation), .each = gather, .user = &g, .key_from = -1, .key_to = 2},
        {ATTEND_INIT(attend_observation), .rows = rows, .n_rows = -1, .each = gather, .user = &g},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      CHECK_EQ(attend_observe(s.plan, s.t.q, s.t.k, s.t.lse, &bad[i]), ATTEND_INVALID);
      CHECK(attend_message(s.ctx)[0]);
    }
    CHECK_EQ(g.wrong, 0);
    close_scene(&s);
  }
}
