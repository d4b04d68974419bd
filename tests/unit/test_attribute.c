/* Attributions: equal to PyTorch's autograd on Hugging Face models
 * (golden/make_interventions.py), to differences of the logit itself, and to one another. */
#include "attend/attribute.h"

#include "intervention_goldens.h"

static attend_attributor *open_attributor(const subject *s) {
  attend_attributor *a = NULL;
  OK(s->ctx, attend_attributor_create(s->model, &a));
  return a;
}

static attend_target target_of(const bench *t) {
  float position = *(const float *)tensor_of(t, "position")->data;
  return (attend_target){(int)position, -1, -1};
}

/* Largest difference from a golden, as a share of its largest number if that is over 1. */
static void near_golden(bench *t, const char *name, const float *got) {
  const attend_tensor *g = tensor_of(t, name);
  const float *want = g->data;
  double max = 1, off = 0;
  for (int64_t i = 0; i < g->count; i++) {
    max = fmax(max, fabs((double)want[i]));
    double d = fabs((double)want[i] - (double)got[i]);
    if (!(d <= off)) off = d; /* NaN too */
  }
  if (!(off / max < 1e-4)) CHECK_FAIL("%s is off by %g", name, off);
  t->worst = fmax(t->worst, off / max);
}

static void near_number(bench *t, const char *name, double got) {
  float x = (float)got;
  near_golden(t, name, &x);
}

/* ---- against autograd ----------------------------------------------------------------- */

static void check_gradient(bench *t, attend_attributor *a) {
  attend_target target = target_of(t);
  const size_t width = (size_t)tensor_of(t, "gradient")->shape[1];
  float *scores = zeroed_block((size_t)t->rows, sizeof *scores);
  float *gradient = zeroed_block((size_t)t->rows * width, sizeof *gradient);
  double logit;
  OK(t->s.ctx, attend_attribute_gradient(a, &t->text, &target, scores, gradient, &logit));
  CHECK_EQ(target.token, *(const float *)tensor_of(t, "token")->data);
  near_golden(t, "gradient", gradient);
  near_golden(t, "gradient_input", scores);
  near_number(t, "direct.logit", logit);
  free(scores), free(gradient);
}

static void check_integrated(bench *t, attend_attributor *a) {
  const int32_t *baseline = tensor_of(t, "baseline")->data;
  const attend_tokens tokens = tokens_of(baseline, t->rows);
  float *scores = zeroed_block((size_t)t->rows, sizeof *scores);
  for (int zero = 0; zero < 2; zero++) {
    attend_integrated_options o = {ATTEND_INIT(attend_integrated_options), .steps = 16};
    attend_integrated r = {ATTEND_INIT(attend_integrated)};
    attend_target target = target_of(t);
    if (!zero) o.baseline = &tokens;
    OK(t->s.ctx, attend_attribute_integrated(a, &t->text, &o, &target, scores, &r));
    near_golden(t, zero ? "integrated.zero" : "integrated.tokens", scores);
    near_number(t, zero ? "difference.zero" : "difference.tokens", r.logit - r.baseline);
    CHECK_EQ(r.steps, 16);
  }
  free(scores);
}

static void check_attention(bench *t, attend_attributor *a) {
  const size_t n = (size_t)tensor_of(t, "attention_gradient")->count;
  const bool decodes = t->s.config->parts == ATTEND_DECODER;
  const attend_role role = decodes ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF;
  attend_target target = target_of(t);
  float *weights = zeroed_block(n, sizeof *weights), *gradients = zeroed_block(n, sizeof *weights);
  double logit, row = 0;
  OK(t->s.ctx, attend_attribute_attention(a, &t->text, role, &target, weights, gradients, &logit));
  near_golden(t, "attention_gradient", gradients);
  for (size_t i = 0; i < n; i++) {
    row += (double)weights[i];
    if ((i + 1) % (size_t)t->rows) continue;
    CHECK_NEAR(row, 1, 1e-5);
    row = 0;
  }
  free(weights), free(gradients);
}

static void check_direct(bench *t, attend_attributor *a) {
  const size_t heads = (size_t)tensor_of(t, "direct.heads")->count;
  const size_t mlps = (size_t)tensor_of(t, "direct.mlp")->count;
  attend_target target = target_of(t);
  attend_direct d = {ATTEND_INIT(attend_direct)};
  d.heads = zeroed_block(heads, sizeof *d.heads);
  d.mlps = zeroed_block(mlps, sizeof *d.mlps);
  OK(t->s.ctx, attend_attribute_direct(a, &t->text, &target, &d));
  near_golden(t, "direct.heads", d.heads);
  near_golden(t, "direct.mlp", d.mlps);
  near_number(t, "direct.embedding", d.embedding);
  near_number(t, "direct.logit", d.logit);
  double sum = d.embedding + d.rest;
  for (size_t i = 0; i < heads; i++) sum += (double)d.heads[i];
  for (size_t i = 0; i < mlps; i++) sum += (double)d.mlps[i];
  CHECK_NEAR(sum, d.logit, 1e-4);
  free(d.heads), free(d.mlps);
}

static void check_lens(bench *t) {
  const int layers = (int)tensor_of(t, "logit_lens")->shape[0] - 1, vocab = t->vocab;
  const size_t n = (size_t)(layers + 1) * (size_t)vocab, rows = (size_t)t->rows;
  const int position = target_of(t).position, top = 3;
  float *lens = zeroed_block(n, sizeof *lens);
  float *logits = zeroed_block(rows * (size_t)vocab, sizeof *logits);
  int32_t *tokens = zeroed_block((size_t)(layers + 1) * rows * 3, sizeof *tokens);
  float *p = zeroed_block((size_t)(layers + 1) * rows * 3, sizeof *p);
  OK(t->s.ctx, attend_logit_lens(t->s.model, &t->text, position, lens));
  near_golden(t, "logit_lens", lens);
  OK(t->s.ctx, attend_tokens_logits(t->s.model, &t->text, logits));
  CHECK(same_bits(lens + layers * vocab, logits + position * vocab, (size_t)vocab));
  OK(t->s.ctx, attend_logit_lens_top(t->s.model, &t->text, top, tokens, p));
  for (int layer = 0; layer <= layers; layer++) {
    const float *row = lens + layer * vocab;
    const size_t at = ((size_t)layer * rows + (size_t)position) * (size_t)top;
    int32_t best[3];
    attend_top_k(vocab, row, top, best);
    for (int i = 0; i < top; i++) {
      CHECK_EQ(tokens[at + (size_t)i], best[i]);
      CHECK_NEAR((double)p[at + (size_t)i],
                 exp((double)row[best[i]] - attend_log_sum_exp(vocab, row)), 1e-6);
    }
  }
  free(lens), free(logits), free(tokens), free(p);
}

TEST(attributions_equal_autograd) {
  for (int f = 0; golden[f]; f++) {
    bench t = open_bench(golden[f], NULL);
    attend_attributor *a = open_attributor(&t.s);
    check_gradient(&t, a);
    check_integrated(&t, a);
    check_attention(&t, a);
    check_direct(&t, a);
    check_lens(&t);
    printf("%s: largest difference %.2g\n", golden[f], t.worst);
    attend_attributor_free(a);
    close_bench(&t);
  }
}

/* Light, or on the trapping device, which is slow. */
static bool few(void) { return light() || getenv("ATTEND_DEVICE"); }

/* ---- against differences of the logit ------------------------------------------------------- */

/* A text of any family. */
typedef struct {
  int32_t *ids, *decoder_ids;
  attend_tokens tokens;
  int rows; /* of scores */
} example;

enum { LENGTH = 8, DECODED = 5 };

static example make_example(const subject *s, uint64_t seed) {
  example x = {random_ids(s->config, seed, LENGTH), NULL, {0}, LENGTH};
  x.tokens = tokens_of(x.ids, LENGTH);
  if (s->config->parts != ATTEND_BOTH) return x;
  x.decoder_ids = random_ids(s->config, seed + 1, DECODED);
  x.tokens.decoder_ids = x.decoder_ids;
  x.tokens.n_decoder = DECODED;
  x.rows += DECODED;
  return x;
}

static void free_example(example *x) { free(x->ids), free(x->decoder_ids); }

/* The logit with factor x direction added to the input of one token. */
static double moved_logit(const subject *s, const example *x, attend_target target, int row,
                          const float *direction, float factor) {
  const int rows = attend_tokens_rows(s->model, &x->tokens), vocab = s->config->vocab;
  const bool decoder = s->config->parts == ATTEND_BOTH && row >= LENGTH;
  attend_change c = {ATTEND_INIT(attend_change),
                     .kind = ATTEND_CHANGE_ADD,
                     .point = ATTEND_AT_RESIDUAL,
                     .layers = 1,
                     .tokens = 1,
                     .vector = direction,
                     .factor = factor};
  c.token = decoder ? row - LENGTH : row;
  if (s->config->parts == ATTEND_BOTH) c.in = decoder ? ATTEND_IN_DECODER : ATTEND_IN_ENCODER;
  float *logits = zeroed_block((size_t)rows * (size_t)vocab, sizeof *logits);
  attend_intervention *iv;
  OK(s->ctx, attend_intervention_create(s->model, 1, &c, &iv));
  OK(s->ctx, attend_intervene(iv, &x->tokens, NULL, logits));
  const float *at = logits + target.position * vocab;
  double value = (double)at[target.token];
  if (target.against >= 0) value -= (double)at[target.against];
  attend_intervention_free(iv);
  free(logits);
  return value;
}

/* Long steps feel the curvature, which is strong where inputs are small (t5), short ones the
 * rounding of the logits: the best of several. */
static double off_slope(const subject *s, const example *x, attend_target target, int row,
                        const float *direction, double slope) {
  double best = INFINITY;
  for (float step = 4e-3f; step > 1e-5f; step /= 4) {
    double rise = moved_logit(s, x, target, row, direction, step) -
                  moved_logit(s, x, target, row, direction, -step);
    best = fmin(best, fabs(rise / (2 * (double)step) - slope));
  }
  return best;
}

static void check_differences(subject s, const char *family, attend_target target) {
  attend_attributor *a = open_attributor(&s);
  example x = make_example(&s, 5);
  const int width = (int)fmax(s.config->encoder.width, s.config->decoder.width);
  float *scores = zeroed_block((size_t)x.rows, sizeof *scores);
  float *gradient = zeroed_block((size_t)(x.rows * width), sizeof *gradient);
  float *direction = zeroed_block((size_t)width, sizeof *direction);
  double logit, off = 0, size = 0;
  OK(s.ctx, attend_attribute_gradient(a, &x.tokens, &target, scores, gradient, &logit));
  for (int row = 0; row < x.rows; row++) {
    double slope = 0;
    attend_random_normal((attend_random){1, 2}, (uint64_t)(row * width), (size_t)width, direction);
    for (int j = 0; j < width; j++)
      slope += (double)gradient[row * width + j] * (double)direction[j];
    off = fmax(off, off_slope(&s, &x, target, row, direction, slope));
    size = fmax(size, fabs(slope));
  }
  if (!(off <= 0.01 * size))
    CHECK_FAIL("%s: gradients are %g from differences, of up to %g", family, off, size);
  free(scores), free(gradient), free(direction);
  free_example(&x);
  attend_attributor_free(a);
  close_model(&s);
}

TEST(gradients_are_slopes) {
  for (int f = 0; families[f]; f++)
    if (!few() || f % 3 == 0)
      check_differences(open_model(families[f], NULL, 2, NULL), families[f],
                        (attend_target){2, 7, 11});
}

/* A token that the text has, which is copied too, and one that it has not. */
TEST(gradients_of_copying_heads_are_slopes) {
  const attend_architecture small = {ATTEND_INIT(attend_architecture),
                                     .family = "bart",
                                     .layers = 2,
                                     .width = 48,
                                     .heads = 4,
                                     .vocab = 60,
                                     .positions = 32,
                                     .copy = 16};
  for (int copied = 0; copied < 2; copied++) {
    attend_context *ctx = open_context(NULL, 2, NULL);
    subject s = {.ctx = ctx};
    OK(ctx, attend_config_write(ctx, in_folder("config.json"), &small));
    OK(ctx, attend_checkpoint_init_pytorch(ctx, models_folder(), 7, &s.files));
    OK(ctx, attend_model_create(s.files, NULL, &s.model));
    s.config = attend_model_config(s.model);
    example x = make_example(&s, 5);
    check_differences(s, "copying", (attend_target){2, copied ? x.ids[3] : 59, -1});
    free_example(&x);
  }
  remove_folder();
}

/* The sum of the tokens' scores is the difference of the logit, to 1 %. */
TEST(integrated_gradients_are_complete) {
  for (int f = 0; families[f]; f++) {
    if (few() && f % 3) continue;
    subject s = open_model(families[f], NULL, 2, NULL);
    attend_attributor *a = open_attributor(&s);
    example x = make_example(&s, 21), other = make_example(&s, 42);
    attend_integrated_options o = {ATTEND_INIT(attend_integrated_options),
                                   .baseline = &other.tokens};
    attend_integrated r = {ATTEND_INIT(attend_integrated)};
    float scores[LENGTH + DECODED];
    attend_target target = {3, 9, 14};
    double sum = 0, size = 0;
    OK(s.ctx, attend_attribute_integrated(a, &x.tokens, &o, &target, scores, &r));
    for (int i = 0; i < x.rows; i++) {
      sum += (double)scores[i];
      size += fabs((double)scores[i]);
    }
    double difference = r.logit - r.baseline;
    printf("%s: %d steps, %g of %g\n", families[f], r.steps, r.sum, difference);
    CHECK_NEAR(sum, r.sum, 1e-4 * (1 + fabs(r.sum)));
    /* t5's scores nearly cancel, and 1024 steps are not enough for their sum */
    CHECK_NEAR(r.sum, difference, 0.01 * (strcmp(families[f], "t5") ? fabs(difference) : size));
    free_example(&x), free_example(&other);
    attend_attributor_free(a);
    close_model(&s);
  }
}

/* Every token but the decoder's first; the token that is named, or the config's end or padding. */
TEST(baselines_have_no_words) {
  for (int f = 0; families[f]; f++) {
    subject s = open_model(families[f], NULL, 2, NULL);
    example x = make_example(&s, 21);
    int32_t ids[LENGTH + DECODED], absent = 4;
    const int all = x.tokens.n + x.tokens.n_decoder;
    for (int named = 1; named >= 0; named--) {
      absent = named ? 4 : -1;
      OK(s.ctx, attend_attribute_baseline(s.model, NULL, &x.tokens, &absent, ids));
      const int32_t pad = attend_config_get(s.config, ATTEND_CONFIG_PAD);
      CHECK_EQ(absent, named ? 4 : pad >= 0 ? pad : attend_config_eos(s.config, 0));
      for (int i = 0; absent >= 0 && i < all; i++)
        CHECK_EQ(ids[i], i == x.tokens.n ? x.tokens.decoder_ids[0] : absent);
    }
    free_example(&x);
    close_model(&s);
  }
}

TEST(products_of_attention_add_up) {
  enum { HEADS = 3, QUERIES = 4, KEYS = 5, ALL = HEADS * QUERIES * KEYS };
  float weights[ALL], gradients[ALL], by_head[HEADS], by_key[KEYS] = {0};
  double sum = 0, heads = 0, keys = 0;
  attend_random_normal((attend_random){1, 1}, 0, ALL, weights);
  attend_random_normal((attend_random){1, 2}, 0, ALL, gradients);
  for (int i = 0; i < ALL; i++) sum += (double)weights[i] * (double)gradients[i];
  attend_attribute_products(HEADS, QUERIES, KEYS, weights, gradients, by_head, by_key);
  for (int h = 0; h < HEADS; h++) heads += (double)by_head[h];
  for (int j = 0; j < KEYS; j++) keys += (double)by_key[j];
  CHECK_NEAR(heads, sum, 1e-5);
  CHECK_NEAR(keys, sum, 1e-5);
  double first = 0; /* of head 1 and of key 2 */
  for (int j = 0; j < QUERIES * KEYS; j++) first += (double)gradients[QUERIES * KEYS + j];
  CHECK_NEAR((double)by_head[1], first, 1e-6);
  first = 0;
  for (int i = 0; i < HEADS * QUERIES; i++) first += (double)gradients[i * KEYS + 2];
  CHECK_NEAR((double)by_key[2], first, 1e-6);
}

TEST(direct_contributions_add_up) {
  for (int f = 0; families[f]; f++) {
    subject s = open_model(families[f], NULL, 2, NULL);
    attend_attributor *a = open_attributor(&s);
    example x = make_example(&s, 8);
    const attend_stack *side =
        s.config->parts & ATTEND_DECODER ? &s.config->decoder : &s.config->encoder;
    const size_t heads = (size_t)(side->layers * side->heads);
    attend_direct d = {ATTEND_INIT(attend_direct)};
    d.heads = zeroed_block(heads, sizeof *d.heads);
    d.cross = zeroed_block(heads, sizeof *d.cross);
    d.mlps = zeroed_block((size_t)side->layers, sizeof *d.mlps);
    attend_target target = {4, 6, 13};
    double cross = 0;
    OK(s.ctx, attend_attribute_direct(a, &x.tokens, &target, &d));
    double sum = d.embedding + d.rest;
    for (size_t i = 0; i < heads; i++) sum += (double)d.heads[i] + (double)d.cross[i];
    for (size_t i = 0; i < heads; i++) cross += fabs((double)d.cross[i]);
    for (int i = 0; i < side->layers; i++) sum += (double)d.mlps[i];
    CHECK_NEAR(sum, d.logit, 1e-4 * (1 + fabs(d.logit)));
    CHECK((cross > 0) == (s.config->parts == ATTEND_BOTH));
    free(d.heads), free(d.cross), free(d.mlps);
    free_example(&x);
    attend_attributor_free(a);
    close_model(&s);
  }
}

/* ---- bits ------------------------------------------------------------------------------------ */

typedef struct {
  float scores[LENGTH], integrated[LENGTH], *gradients;
  size_t n;
} results;

static results compute(int threads) {
  subject s = open_model("gpt2", NULL, threads, NULL);
  attend_attributor *a = open_attributor(&s);
  example x = make_example(&s, 33);
  const attend_stack *side = &s.config->decoder;
  results r = {.n = (size_t)(side->layers * side->heads * LENGTH * LENGTH)};
  float *weights = zeroed_block(r.n, sizeof *weights);
  r.gradients = zeroed_block(r.n, sizeof *r.gradients);
  attend_integrated_options o = {ATTEND_INIT(attend_integrated_options), .steps = 20};
  attend_integrated complete = {ATTEND_INIT(attend_integrated)};
  attend_target target = {-1, -1, -1};
  double logit;
  OK(s.ctx, attend_attribute_gradient(a, &x.tokens, &target, r.scores, NULL, &logit));
  OK(s.ctx, attend_attribute_integrated(a, &x.tokens, &o, &target, r.integrated, &complete));
  OK(s.ctx, attend_attribute_attention(a, &x.tokens, ATTEND_DECODER_SELF, &target, weights,
                                       r.gradients, &logit));
  free(weights);
  free_example(&x);
  attend_attributor_free(a);
  close_model(&s);
  return r;
}

TEST(any_number_of_threads_gives_the_same_bits) {
  results one = compute(1);
  for (int threads = 2; threads <= 5; threads += 3) {
    results more = compute(threads);
    CHECK(same_bits(one.scores, more.scores, LENGTH));
    CHECK(same_bits(one.integrated, more.integrated, LENGTH));
    CHECK(same_bits(one.gradients, more.gradients, one.n));
    free(more.gradients);
  }
  free(one.gradients);
}

/* ---- refusals and failures ------------------------------------------------------------------------ */

static int stop_at_once(double done, const char *what, void *user) {
  (void)done, (void)what, (void)user;
  return 1;
}

TEST(what_is_refused_is_named) {
  bench t = open_bench("gpt2", NULL);
  attend_context *ctx = t.s.ctx;
  attend_attributor *a = open_attributor(&t.s);
  float scores[64];
  double logit;
  attend_target target = {10, -1, -1};
  CHECK_EQ(attend_attribute_gradient(a, &t.text, &target, scores, NULL, &logit), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "position 10: there are 10, 0 to 9");
  target = (attend_target){-1, t.vocab, -1};
  CHECK_EQ(attend_attribute_gradient(a, &t.text, &target, scores, NULL, &logit), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "the model knows 0 to");
  attend_tokens shorter = tokens_of(t.text.ids, 4), none = tokens_of(t.text.ids, 0);
  attend_integrated_options o = {ATTEND_INIT(attend_integrated_options), .baseline = &shorter};
  target = (attend_target){-1, -1, -1};
  CHECK_EQ(attend_attribute_integrated(a, &t.text, &o, &target, scores, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "give as many");
  o = (attend_integrated_options){ATTEND_INIT(attend_integrated_options), .steps = -1};
  CHECK_EQ(attend_attribute_integrated(a, &t.text, &o, &target, scores, NULL), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "neither may be negative");
  CHECK_EQ(attend_attribute_gradient(a, &none, &target, scores, NULL, &logit), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "a text without tokens");
  CHECK_EQ(attend_attribute_attention(a, &t.text, ATTEND_CROSS, &target, scores, scores, &logit),
           ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "gpt2 has no cross attention");
  CHECK_EQ(attend_logit_lens(t.s.model, &t.text, 10, t.before), ATTEND_INVALID);
  CHECK_SAYS(attend_message(ctx), "position 10");
  o = (attend_integrated_options){ATTEND_INIT(attend_integrated_options), .steps = 64,
                                  .progress = stop_at_once};
  attend_integrated r = {ATTEND_INIT(attend_integrated)};
  CHECK_EQ(attend_attribute_integrated(a, &t.text, &o, &target, scores, &r), ATTEND_STOPPED);
  attend_attributor_free(a);
  close_bench(&t);
}

static attend_status attribute_all(attend_model *model, const attend_tokens *text) {
  attend_attributor *a;
  attend_integrated_options o = {ATTEND_INIT(attend_integrated_options), .steps = 2};
  attend_integrated r = {ATTEND_INIT(attend_integrated)};
  attend_direct d = {ATTEND_INIT(attend_direct)};
  attend_target target = {-1, -1, -1};
  float scores[LENGTH], p[16 * LENGTH];
  int32_t tokens[16 * LENGTH];
  double logit;
  attend_status status = attend_attributor_create(model, &a);
  if (!status) status = attend_attribute_gradient(a, text, &target, scores, NULL, &logit);
  if (!status) status = attend_attribute_integrated(a, text, &o, &target, scores, &r);
  if (!status) status = attend_attribute_direct(a, text, &target, &d);
  attend_attributor_free(a);
  return status ? status : attend_logit_lens_top(model, text, 1, tokens, p);
}

TEST(no_memory_is_a_status) {
  ledger memory = {0};
  attend_context *ctx = open_context("scalar", 1, &memory);
  subject s = open_path(ctx, model_path("gpt2", NULL), NULL);
  example x = make_example(&s, 3);
  OK(ctx, attribute_all(s.model, &x.tokens));
  long before = memory.taken, live = memory.live;
  OK(ctx, attribute_all(s.model, &x.tokens));
  long all = memory.taken - before;
  for (long n = 1; n <= all; n += 1 + all / (few() ? 20 : 300)) {
    memory.fail_at = memory.taken + n;
    attend_status status = attribute_all(s.model, &x.tokens);
    memory.fail_at = 0;
    CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_SAYS(attend_message(ctx), "memory");
    CHECK_EQ(memory.live, live);
  }
  free_example(&x);
  close_model(&s);
}
