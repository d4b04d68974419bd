/* What heads do, on heads made by hand that do one thing: then it scores near 1
 * and stands out. */
#include "trace_fixtures.h"

enum { T = 44, D = 64, HALF = 22 };

/* ---- a head that looks where it is told ------------------------------------------------ */

typedef struct {
  float q[T * D], k[T * D], v[T * D], lse[T];
} head;

/* How much row i wants to look at key j: 0 and 1 are far apart. */
typedef int (*wish)(int i, int j);

/* Keys are unit vectors, a query the sum of those it wants; lse by the sum in
 * double over what the row sees. */
static void make_head(head *h, wish wants, bool one_way, int real) {
  memset(h, 0, sizeof *h);
  for (int i = 0; i < T; i++) {
    h->k[i * D + i] = 1;
    for (int d = 0; d < D; d++) h->v[i * D + d] = (float)(i % 5 - d % 3);
    for (int j = 0; j < T; j++)
      if (wants && wants(i, j)) h->q[i * D + j] = 400; /* 50 after the scale */
    double sum = 0;
    for (int j = 0; j < (one_way ? i + 1 : real); j++) sum += exp((double)h->q[i * D + j] / 8);
    h->lse[i] = (float)log(sum);
  }
}

static void show_head(attend_trace *trace, const head *h, attend_role role, int layer) {
  show(trace, ATTEND_AT_QUERY, role, layer, T, D, h->q);
  show(trace, ATTEND_AT_KEY, role, layer, T, D, h->k);
  show(trace, ATTEND_AT_VALUE, role, layer, T, D, h->v);
  show(trace, ATTEND_AT_DENOMINATOR, role, layer, T, 1, h->lse);
}

/* ---- texts ------------------------------------------------------------------------------- */

/* The second half repeats the first; separators at 9 and 30. */
static int32_t repeated[T], distinct[T];
static uint8_t separator[T];

static void make_texts(void) {
  for (int i = 0; i < T; i++) {
    repeated[i] = i % HALF;
    distinct[i] = i;
    separator[i] = i == 9 || i == 30;
  }
}

/* ---- what is wished for --------------------------------------------------------------------- */

static int before(int i, int j) { return j == i - 1; }
static int after(int i, int j) { return j == i + 1; }
static int first(int i, int j) { return (void)i, j == 0; }
static int itself(int i, int j) { return j == i; }
static int separators(int i, int j) { return (void)i, separator[j]; }
static int same(int i, int j) { return j != i && repeated[i] == repeated[j]; }
static int followed(int i, int j) { return i >= HALF ? j == i - HALF + 1 : j == 0; }
static int distances(int i, int j) { return j == i - 3 || j == i - 6; }
/* Anywhere, but for no reason that has a name. */
static int somewhere(int i, int j) {
  int to = (i * i * 7 + i * 3 + 11) % (i + 1);
  if (to == i || to == i - 1) to = i / 2;
  return j == to || j == i / 3;
}

typedef struct {
  const char *name;
  wish wants; /* NULL: nothing, all alike */
  int does;
  bool one_way, both_ways; /* on which kind of model it can be done */
} deed;

static const deed deeds[] = {
    {"previous", before, ATTEND_PATTERN_PREVIOUS, true, true},
    {"next", after, ATTEND_PATTERN_NEXT, false, true},
    {"first", first, ATTEND_PATTERN_FIRST, true, true},
    {"separator", separators, ATTEND_PATTERN_SEPARATOR, true, true},
    {"same", same, ATTEND_PATTERN_SAME, true, true},
    {"self", itself, ATTEND_PATTERN_SELF, true, true},
    {"broad", NULL, ATTEND_PATTERN_BROAD, true, true},
    {"positional", distances, ATTEND_PATTERN_POSITIONAL, true, true},
    {"induction", followed, ATTEND_PATTERN_INDUCTION, true, true},
    {"nothing", somewhere, -1, true, true},
};
enum { DEEDS = sizeof deeds / sizeof *deeds };

/* Rows that see no key they wish for are the price of an honest mask. */
static double min(int does) {
  return does == ATTEND_PATTERN_SEPARATOR ? 0.99 : does == ATTEND_PATTERN_POSITIONAL ? 0.8 : 0.999;
}

typedef struct {
  attend_context *ctx;
  subject s;
  attend_trace *trace;
  attend_lens *lens;
  attend_role role;
} stage;

static stage open_stage(const char *family, int real) {
  stage g = {.ctx = open_context(NULL, 2, NULL)};
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = FOR_A_LENS};
  bool one_way = !strcmp(family, "gpt2");
  static head h;
  make_texts();
  g.s = bare_model(g.ctx, family, D, DEEDS);
  g.role = one_way ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  OK(g.ctx, attend_trace_create(g.ctx, &o, &g.trace));
  for (int i = 0; i < DEEDS; i++) {
    make_head(&h, deeds[i].wants, one_way, real);
    for (int j = real * D; j < T * D; j++) h.k[j] = NAN; /* never read */
    show_head(g.trace, &h, g.role, i);
  }
  OK(g.ctx, attend_trace_status(g.trace));
  OK(g.ctx, attend_lens_create(g.s.model, g.trace, NULL, real, &g.lens));
  return g;
}

static void close_stage(stage *g) {
  attend_lens_free(g->lens);
  attend_trace_free(g->trace);
  close_files(&g->s);
  attend_context_free(g->ctx);
}

static attend_pattern_scores pattern_of(const stage *g, int layer, const int32_t *ids,
                                        const uint8_t *marks, double most_pairs) {
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, marks, most_pairs};
  attend_pattern_scores p = {.pattern = -2};
  OK(g->ctx, attend_lens_pattern(g->lens, (attend_head_id){g->role, layer, 0}, &o, &p));
  return p;
}

static void check_deeds(const char *family, int real) {
  stage g = open_stage(family, real);
  bool one_way = g.role == ATTEND_DECODER_SELF;
  for (int i = 0; i < DEEDS; i++) {
    const deed *d = &deeds[i];
    if (one_way ? !d->one_way : !d->both_ways) continue;
    attend_pattern_scores p = pattern_of(&g, i, repeated, separator, 0);
    if (p.pattern != d->does)
      CHECK_FAIL(
          "%s of %s does %s", d->name, family,
          p.pattern < 0 ? "nothing" : attend_head_pattern_name((attend_head_pattern)p.pattern));
    if (d->does >= 0 && !(p.score[d->does] >= min(d->does)))
      CHECK_FAIL("%s of %s scores %g", d->name, family, p.score[d->does]);
    if (d->does >= 0)
      CHECK(!strcmp(attend_head_pattern_name((attend_head_pattern)d->does), d->name));
    for (int j = 0; j < ATTEND_HEAD_PATTERNS; j++)
      if (!isnan(p.score[j])) CHECK(p.score[j] >= 0 && p.score[j] <= 1.00001);
    CHECK_EQ(isnan(p.score[ATTEND_PATTERN_NEXT]), one_way);
    CHECK_EQ(p.rows_sampled, T);
    if (d->does == ATTEND_PATTERN_SELF) CHECK_NEAR(p.entropy, 0, 1e-5);
  }
  close_stage(&g);
}

TEST(one_thing_stands_out) {
  check_deeds("gpt2", T);
  check_deeds("bert", T);
}

/* Padding looks, too, but nobody counts it. */
TEST(padding_does_not_count) { check_deeds("bert", T - 9); }

TEST(broad_is_the_most_there_can_be) {
  stage g = open_stage("bert", T);
  attend_pattern_scores p = pattern_of(&g, 6, distinct, NULL, 0);
  CHECK_NEAR(p.score[ATTEND_PATTERN_BROAD], 1, 1e-5);
  CHECK_NEAR(p.entropy, log((double)T), 1e-5);
  CHECK_NEAR(p.score[ATTEND_PATTERN_FIRST], 1.0 / T, 1e-6);
  CHECK_NEAR(p.score[ATTEND_PATTERN_POSITIONAL], 0, 1e-6);
  close_stage(&g);
}

TEST(questions_that_do_not_apply) {
  stage g = open_stage("gpt2", T);
  attend_pattern_scores p = pattern_of(&g, 0, distinct, NULL, 0);
  CHECK(isnan(p.score[ATTEND_PATTERN_SEPARATOR])); /* there are none */
  CHECK(isnan(p.score[ATTEND_PATTERN_SAME]));      /* nothing comes twice */
  CHECK(isnan(p.score[ATTEND_PATTERN_INDUCTION]));
  CHECK_EQ(p.pattern, ATTEND_PATTERN_PREVIOUS);
  CHECK_NEAR(p.score[ATTEND_PATTERN_PREVIOUS], 1, 1e-5);
  close_stage(&g);
  recording r = recorded("bart", 0, 1, FOR_A_LENS);
  attend_lens *lens = lens_of(&r, NULL);
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), r.target, r.source, NULL, 0};
  OK(r.s.ctx, attend_lens_pattern(lens, (attend_head_id){ATTEND_CROSS, 0, 0}, &o, &p));
  const attend_head_pattern places[] = {ATTEND_PATTERN_PREVIOUS, ATTEND_PATTERN_NEXT,
                                        ATTEND_PATTERN_SELF, ATTEND_PATTERN_POSITIONAL,
                                        ATTEND_PATTERN_INDUCTION};
  for (int i = 0; i < 5; i++) CHECK(isnan(p.score[places[i]]));
  CHECK(p.score[ATTEND_PATTERN_BROAD] > 0 && p.score[ATTEND_PATTERN_FIRST] > 0);
  attend_lens_free(lens);
  close_recording(&r);
}

/* From a third of the rows the same stands out. */
TEST(some_rows_tell_the_same) {
  stage g = open_stage("bert", T);
  for (int i = 0; i < DEEDS; i++) {
    attend_pattern_scores p = pattern_of(&g, i, repeated, separator, T * T / 3.0);
    CHECK(p.rows_sampled >= 1 && p.rows_sampled <= T);
    if (deeds[i].does >= 0) CHECK_EQ(p.pattern, deeds[i].does);
  }
  close_stage(&g);
}

/* ---- scores by brute force ----------------------------------------------------------------- */

/* Weights of one head, and the text that it was run on. */
static void check_scores(const recording *r, attend_lens *lens, attend_head_id at,
                         const int32_t *ids) {
  attend_lens_shape s;
  float *w = whole_block(r->s.ctx, lens, at, &s);
  double before_sum = 0, first_sum = 0, self_sum = 0, entropy = 0;
  int n = 0, firsts = 0, rows = s.real_keys;
  for (int i = 0; i < rows; i++) {
    const float *row = w + i * s.keys;
    int from = s.window && i >= s.window ? i - s.window + 1 : 0;
    int end = s.causal ? i + 1 : rows;
    for (int j = 0; j < s.keys; j++)
      if (row[j] > 0) entropy -= (double)row[j] * log((double)row[j]);
    if (end - from < 2) continue; /* it has no choice */
    if (from == 0 && i > 0) first_sum += (double)row[0], firsts++;
    if (i > from) before_sum += (double)row[i - 1], n++;
    self_sum += (double)row[i];
  }
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), ids, ids, NULL, 0};
  attend_pattern_scores p;
  OK(r->s.ctx, attend_lens_pattern(lens, at, &o, &p));
  CHECK_NEAR(p.entropy, entropy / rows, 1e-6);
  CHECK_NEAR(p.score[ATTEND_PATTERN_FIRST], first_sum / firsts, 1e-6);
  CHECK_NEAR(p.score[ATTEND_PATTERN_PREVIOUS], before_sum / n, 1e-6);
  CHECK_NEAR(p.score[ATTEND_PATTERN_SELF], self_sum / (rows - s.causal), 1e-6);
  free(w);
}

TEST(scores_of_real_models) {
  static const char *const names[] = {"gpt2", "mistral-window", "bert", NULL};
  for (int k = 0; names[k]; k++)
    for (int b = 0; b < 2; b++) {
      recording r = recorded(names[k], b, 1, FOR_A_LENS);
      attend_lens *lens = lens_of(&r, NULL);
      attend_lens_shape s;
      FOR_EACH_HEAD(lens, s, at)
      check_scores(&r, lens, at, r.decoded ? r.target : r.source);
      attend_lens_free(lens);
      close_recording(&r);
    }
}
