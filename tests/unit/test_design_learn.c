/* Learned twins: gradients by finite differences, the same bits for any number of
 * threads, the task learnt with the spec's seed; and what is measured of both. */
#include "base/base.h"
#include "design/design.h"
#include "design_fixtures.h"

/* ---- gradients ------------------------------------------------------------------------ */

/* sum(logits * c) for fixed c, in double over the float pass. */
static double weighed(design_pass *p, const float *weights, const float *c) {
  const attend_design *d = p->d;
  const int ld = padded(d->answers);
  double sum = 0;
  if (pass_weights(p, weights) || pass_forward(p)) return NAN;
  for (int i = 0; i < p->p.rows * ld; i++) sum += (double)p->logits[i] * (double)c[i];
  return sum;
}

static void put_some(design_pass *p, uint64_t total) {
  for (int b = 0; b < p->p.count; b++) pass_put_number(p, b, (uint64_t)b * 37 % total);
}

/* Random where there is an input, 0 elsewhere. */
static void draw_factors(const design_pass *p, float *c) {
  const int ld = padded(p->d->answers), n = p->d->places * ld;
  attend_random_normal((attend_random){7, 2}, 0, (size_t)(p->p.count * n), c);
  for (int i = 0; i < p->p.count * n; i++)
    if (i % n / ld >= p->lengths[i / n] || i % ld >= p->d->answers) c[i] = 0;
}

static void check_gradients(attend_context *ctx, const char *name) {
  attend_design *d = open_design(ctx, name);
  design_pass *p;
  size_t n = d->count, rows = (size_t)(4 * d->places * padded(d->answers));
  float *w = zeroed_block(n, sizeof *w), *g = zeroed_block(n, sizeof *g),
        *c = zeroed_block(rows, sizeof *c);
  attend_random_normal((attend_random){7, 1}, 0, n, w);
  OK(ctx, pass_create(d, w, 1, 4, true, &p));
  put_some(p, attend_design_about(d)->inputs);
  draw_factors(p, c);
  OK(ctx, pass_forward(p));
  ctx->device->write(ctx, p->readout.logits.at, c, rows * sizeof *c);
  OK(ctx, pass_backward(p));
  OK(ctx, pass_parts(p, p->gradients, g));
  double worst = 0, size = 0;
  for (size_t i = 0; i < n; i += light() ? 7 : 1) {
    float here = w[i], step = 0x1p-7f;
    w[i] = here + step;
    double up = weighed(p, w, c);
    w[i] = here - step;
    double slope = (up - weighed(p, w, c)) / (2 * (double)step);
    w[i] = here;
    worst = fmax(worst, fabs(slope - (double)g[i]));
    size = fmax(size, fabs((double)g[i]));
  }
  if (!(worst < 4e-3 * size)) CHECK_FAIL("%s: gradients up to %g are off by %g", name, size, worst);
  free(w), free(g), free(c);
  pass_free(p);
  attend_design_free(d);
}

TEST(gradients_are_the_slopes) {
  attend_context *ctx = open_context(NULL, 2, NULL);
  for (int i = 0; i < SHIPPED; i++) check_gradients(ctx, shipped[i]);
  attend_context_free(ctx);
}

/* ---- learning --------------------------------------------------------------------------- */

/* Full batches on purpose: they are large enough for several threads. */
static float *learnt_by(const char *device, int threads, const char *name, size_t *n) {
  attend_context_options options = {ATTEND_INIT(attend_context_options), .device = device,
                                    .threads = threads};
  attend_context *ctx;
  if (attend_context_create(&options, &ctx)) exit(1);
  attend_design *d = open_design(ctx, name);
  attend_twin_options o = {ATTEND_INIT(attend_twin_options), .steps = 4, .batch = 4096};
  OK(ctx, attend_design_learn(d, &o, NULL));
  const float *w = attend_design_weights(d, ATTEND_LEARNED, n);
  float *copy = copy_of(w, *n * sizeof *w);
  attend_design_free(d);
  attend_context_free(ctx);
  return copy;
}

static void learn_alike(const char *device, int threads, const char *name) {
  size_t n, m;
  float *a = learnt_by("cpu", 1, name, &n), *b = learnt_by(device, threads, name, &m);
  CHECK(n == m && !memcmp(a, b, n * sizeof *a));
  free(a), free(b);
}

TEST(no_bit_depends_on_the_number_of_threads) { learn_alike("cpu", 3, "induction"); }

/* Nothing but the device's ops touches its memory: tables that are learnt, too. */
TEST(designs_learn_on_a_device) {
  learn_alike("trap", 1, "content");
  learn_alike("trap", 1, "previous");
}

static void learns(attend_context *ctx, const char *name, double loss) {
  attend_curve curve;
  attend_design *d = open_design(ctx, name);
  OK(ctx, attend_design_learn(d, NULL, &curve));
  attend_verdict v = check_at(d, ctx, ATTEND_LEARNED, 1);
  if (!v.ok)
    CHECK_FAIL("%s: accuracy %g, loss %g to %g", name, v.accuracy, curve.loss[0], curve.last);
  CHECK(curve.points > 8 && curve.step[0] == 0 && curve.loss[0] > 0.5);
  CHECK(curve.last < loss);
  attend_design_free(d);
}

TEST(twins_learn_their_task) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  learns(ctx, "sort", 0.01);
  if (!light()) learns(ctx, "content", 0.01);
  attend_context_free(ctx);
}

/* ---- likeness -------------------------------------------------------------------------------- */

/* A twin whose Q and K are transposed together, whose scores are shifted along keys,
 * and whose values go through another basis, is the same. */
TEST(likeness_does_not_see_what_changes_nothing) {
  attend_context *ctx = open_context(NULL, 1, NULL);
  attend_design *d = open_design(ctx, "content");
  attend_twin_options few = {ATTEND_INIT(attend_twin_options), .steps = 1};
  OK(ctx, attend_design_learn(d, &few, NULL));
  memcpy(d->weights[1], d->weights[0], d->count * sizeof(float));
  float *q = d->weights[1] + head_part(d, 0, 0)->at, *k = d->weights[1] + head_part(d, 0, 1)->at,
        *v = d->weights[1] + head_part(d, 0, 2)->at, *wo = d->weights[1] + readout_part(d)->at;
  for (int i = 0; i < 3; i++) {
    q[3 * i] *= 4, k[3 * i] /= 4;                     /* transposed */
    for (int j = 0; j < 3; j++) k[3 * i + j] += 0.5f; /* the same for all keys */
    v[3 * i] *= 2;
    for (int j = 0; j < 3; j++) wo[3 * 3 + j] *= i ? 1 : 0.5f; /* of row 0 */
  }
  attend_likeness l;
  OK(ctx, attend_design_compare(d, 1, 0, &l));
  CHECK(l.rows > 400);
  CHECK_NEAR(l.distance, 0, 1e-6);
  CHECK_NEAR(l.same_key, 1, 0);
  CHECK_NEAR(l.score_cosine, 1, 1e-6);
  CHECK_NEAR(l.effect_cosine, 1, 1e-6);
  CHECK_EQ(l.score_rank[0], 2);
  CHECK_EQ(l.score_rank[1], 2);
  for (int i = 0; i < 3; i++) CHECK_NEAR(l.score_singular[1][i], l.score_singular[0][i], 1e-6);
  CHECK(fabs(l.norm[0][1] - l.norm[1][1]) > 0.1);
  q[0] += 3;
  OK(ctx, attend_design_compare(d, 1, 0, &l));
  CHECK(l.distance > 0.01 && l.score_cosine < 0.999);
  attend_design_free(d);
  attend_context_free(ctx);
}
