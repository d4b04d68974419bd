/* 20,000 tokens through a lens: what it takes grows with the text, not with its
 * square, which would be 1.6 GB. */
#include "trace_fixtures.h"

enum { D = 8 };

/* ---- an allocator that remembers the most ------------------------------------------------- */

typedef struct {
  size_t live, max;
} meter;

static void *meter_take(size_t bytes, void *user) {
  meter *m = user;
  size_t size = (bytes + 63) / 64 * 64;
  char *block = aligned_alloc(64, 64 + size);
  if (!block) return NULL;
  memcpy(block, &bytes, sizeof bytes);
  m->live += bytes;
  if (m->live > m->max) m->max = m->live;
  return block + 64;
}

static void meter_give(void *block, void *user) {
  meter *m = user;
  size_t bytes;
  if (!block) return;
  memcpy(&bytes, (char *)block - 64, sizeof bytes);
  m->live -= bytes;
  free((char *)block - 64);
}

/* ---- a long text --------------------------------------------------------------------------- */

typedef struct {
  meter memory;
  attend_context *ctx;
  subject s;
  attend_trace *trace;
  attend_lens *lens, *other;
  int n;
  float *q, *k, *lse;
  int32_t *ids;
} world;

static const attend_head_id at = {ATTEND_DECODER_SELF, 0, 0};

static world *open_world(int n) {
  world *w = zeroed_block(1, sizeof *w);
  attend_context_options o = {ATTEND_INIT(attend_context_options), .threads = 2,
                              .allocator = {meter_take, meter_give, &w->memory}};
  attend_trace_options what = {ATTEND_INIT(attend_trace_options), .points = FOR_A_LENS};
  attend_form elu = {.kind = ATTEND_ELU};
  attend_desc d = {ATTEND_INIT(attend_desc)};
  attend_plan *plan;
  size_t floats = (size_t)n * D;
  w->n = n;
  OK(w->ctx, attend_context_create(&o, &w->ctx));
  w->s = bare_model(w->ctx, "gpt2", D, 1);
  w->q = zeroed_block(floats, sizeof *w->q);
  w->k = zeroed_block(floats, sizeof *w->k);
  w->lse = zeroed_block((size_t)n, sizeof *w->lse);
  w->ids = zeroed_block((size_t)n, sizeof *w->ids);
  for (int i = 0; i < n; i++) w->ids[i] = i % 97;
  attend_random_normal((attend_random){1, 1}, 0, floats, w->q);
  attend_random_normal((attend_random){1, 2}, 0, floats, w->k);
  attend_model_attention(w->s.model, at.role, at.layer, &d);
  d.q_len = d.kv_len = n;
  plan = make_plan(w->ctx, &d);
  float *out = zeroed_block(floats, sizeof *out);
  OK(w->ctx, attend_forward(plan, attend_bhtd(w->q), attend_bhtd(w->k), attend_bhtd(w->k),
                            attend_bhtd(out), w->lse));
  attend_plan_free(plan);
  OK(w->ctx, attend_trace_create(w->ctx, &what, &w->trace));
  show(w->trace, ATTEND_AT_QUERY, at.role, 0, n, D, w->q);
  show(w->trace, ATTEND_AT_KEY, at.role, 0, n, D, w->k);
  show(w->trace, ATTEND_AT_VALUE, at.role, 0, n, D, w->k);
  show(w->trace, ATTEND_AT_DENOMINATOR, at.role, 0, n, 1, w->lse);
  show(w->trace, ATTEND_AT_HEAD_OUTPUT, at.role, 0, n, D, out);
  OK(w->ctx, attend_trace_status(w->trace));
  free(out);
  OK(w->ctx, attend_lens_create(w->s.model, w->trace, NULL, 0, &w->lens));
  OK(w->ctx, attend_lens_create(w->s.model, w->trace, &elu, 0, &w->other));
  return w;
}

static void close_half(world *w) {
  attend_lens_free(w->lens);
  attend_lens_free(w->other);
  attend_trace_free(w->trace);
  close_files(&w->s);
  attend_context_free(w->ctx);
  CHECK_EQ(w->memory.live, 0);
  free(w->q), free(w->k), free(w->lse), free(w->ids), free(w);
}

/* ---- questions ------------------------------------------------------------------------------ */

typedef void (*question)(world *w);

static void ask_block(world *w) {
  const int rows = 100, row = w->n - 150;
  float *weights = zeroed_block((size_t)rows * (size_t)w->n, sizeof *weights);
  OK(w->ctx, attend_lens_block(w->lens, at, row, rows, 0, w->n, weights));
  for (int i = 0; i < rows; i += 33) {
    double sum = 0;
    for (int j = 0; j < w->n; j++) {
      double score = 0, got = (double)weights[i * w->n + j];
      for (int d = 0; d < D; d++)
        score += (double)w->q[(row + i) * D + d] * (double)w->k[j * D + d];
      double want = exp(score / sqrt(D) - (double)w->lse[row + i]);
      CHECK_NEAR(got, j <= row + i ? want : 0, 1e-6);
      sum += got;
    }
    CHECK_NEAR(sum, 1, 1e-5);
  }
  free(weights);
}

/* A row's weights sum to 1: so do the means, times the width. */
static void ask_pool(world *w) {
  enum { SIDE = 64 };
  static float cells[SIDE * SIDE];
  attend_area a = {0, w->n, 0, w->n, SIDE, SIDE, ATTEND_POOL_MEAN, 0};
  int looked;
  bool some = light() || w->n > 15000; /* to be done in a second */
  if (some) a.most_pairs = light() ? 2e7 : 8e7;
  OK(w->ctx, attend_lens_pool(w->lens, at, &a, NULL, cells, &looked));
  CHECK(some ? looked < w->n : looked == w->n);
  for (int y = 0; y < SIDE && w->n % SIDE == 0; y++) {
    double sum = 0;
    for (int x = 0; x < SIDE; x++) sum += (double)cells[y * SIDE + x] * (w->n / SIDE);
    CHECK_NEAR(sum, 1, 1e-3);
  }
}

static void ask_difference(world *w) {
  static float cells[50 * 50];
  attend_area a = {0, w->n, 0, w->n, 50, 50, ATTEND_POOL_MAX, 2e7};
  attend_difference d;
  OK(w->ctx, attend_lens_pool(w->lens, at, &a, w->other, cells, NULL));
  OK(w->ctx, attend_lens_compare(w->lens, w->other, at, 2e7, &d));
  CHECK(d.distance > 0 && d.distance < 1);
}

static void ask_pattern(world *w) {
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), w->ids, w->ids, NULL, 2e7};
  attend_pattern_scores p;
  OK(w->ctx, attend_lens_pattern(w->lens, at, &o, &p));
  CHECK_EQ(p.pattern, ATTEND_PATTERN_BROAD); /* random directions */
}

static void ask_flow(world *w) {
  float *shares = zeroed_block(2 * (size_t)w->n, sizeof *shares);
  uint8_t *reached = zeroed_block(2 * (size_t)w->n, 1);
  int n;
  OK(w->ctx, attend_lens_rollout(w->lens, at.role, w->n - 1, 0, shares, NULL));
  OK(w->ctx, attend_lens_reach(w->lens, at.role, w->n - 1, reached, NULL, 0, &n));
  free(shares), free(reached);
}

/* What is taken for an answer, at its height. */
static double height(world *w, question ask) {
  size_t before = w->memory.live;
  w->memory.max = before;
  ask(w);
  CHECK(w->memory.live <= before + 200 * (size_t)w->n + (1 << 22));
  return (double)(w->memory.max - before);
}

/* The bands that weights are computed in are of one size: 8 MB, for a difference
 * two of them. Beyond that, a handful of numbers a token. */
TEST(memory_grows_with_the_text) {
  static const struct {
    const char *name;
    question ask;
  } questions[] = {{"a block", ask_block},
                   {"a picture", ask_pool},
                   {"a difference", ask_difference},
                   {"a pattern", ask_pattern},
                   {"shares", ask_flow}};
  const int n = light() ? 9984 : 20096;
  world *half = open_world(n / 2), *all = open_world(n);
  for (size_t i = 0; i < sizeof questions / sizeof *questions; i++) {
    double a = height(half, questions[i].ask);
    double b = height(all, questions[i].ask);
    if (!(b < 24e6 + 100.0 * n)) CHECK_FAIL("%s takes %.0f bytes", questions[i].name, b);
    if (!(b - a < 100.0 * n))
      CHECK_FAIL("%s takes %.0f bytes for half of it, %.0f for all", questions[i].name, a, b);
  }
  close_half(half);
  close_half(all);
}
