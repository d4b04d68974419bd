/* Every setting of the one transformer against what PyTorch computed with it
 * (tests/golden/make_settings.py): logits and hidden states of sessions, loss and
 * gradients of trainers, within 1e-4 of the largest; and the same bits however a
 * prompt comes, on any number of threads, and where layers are computed again. */
#include "settings_goldens.h"

static const double BOUND = 1e-4;

/* Rows of `width` floats, ld apart, beside a golden: the largest gap, as a share of
 * the golden's largest number. */
static double distance(const attend_tensor *golden, const float *got, int width, int ld) {
  double max = 0, gap = 0;
  for (int64_t i = 0; i < golden->count; i++) {
    float want;
    memcpy(&want, (const char *)golden->data + 4 * i, sizeof want);
    max = fmax(max, fabs((double)want));
    double off = fabs((double)want - (double)got[i / width * ld + i % width]);
    if (!(off <= gap)) gap = off; /* NaN too */
  }
  return gap / max;
}

static double check_near(const attend_tensor_file *golden, const char *name, const char *what,
                         const float *got, int width, int ld) {
  const attend_tensor *t = attend_tensor_file_find(golden, what);
  double far = t ? distance(t, got, width, ld) : NAN;
  if (!(far <= BOUND)) CHECK_FAIL("%s: %s is off by %.1e", name, what, far);
  return far;
}

/* ---- sessions ---------------------------------------------------------------------- */

typedef struct {
  const char *name;
  const attend_tensor_file *golden;
  int seen;
  double worst;
} hidden_check;

static void see_hidden(const attend_hooked *x, void *user) {
  hidden_check *h = user;
  char key[32];
  snprintf(key, sizeof key, "hidden.%d", x->layer);
  h->worst = fmax(h->worst, check_near(h->golden, h->name, key, x->view.data, x->shape[3],
                                       (int)x->view.stride[2]));
  h->seen++;
}

TEST(logits_and_hidden_states_are_those_of_pytorch) {
  double logits_off = 0, hidden_off = 0;
  for (const toy_case *c = toy_cases; c->name; c++) {
    toy_model m = open_case(c->name, c->family, NULL, 2);
    hidden_check h = {c->name, m.golden, 0, 0};
    attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_RESIDUAL, .read = see_hidden,
                        .user = &h};
    CHECK(!attend_checkpoint_unused(m.files, 0));
    float *logits = logits_of(&m, &hook, false, TOY_TOKENS);
    double off = check_near(m.golden, c->name, "logits", logits, m.vocab, m.vocab);
    CHECK_EQ(h.seen, attend_checkpoint_config(m.files)->decoder.layers + 1);
    logits_off = fmax(logits_off, off);
    hidden_off = fmax(hidden_off, h.worst);
    free(logits);
    close_case(&m);
  }
  printf("logits are off by %.1e, hidden states by %.1e at most\n", logits_off, hidden_off);
}

static void check_bits(const toy_case *c, const char *isa, int threads, float **first) {
  static const int pieces[] = {1, 7, TOY_TOKENS};
  toy_model m = open_case(c->name, c->family, isa, threads);
  if (!*first) *first = logits_of(&m, NULL, false, TOY_TOKENS);
  for (int i = 0; i < 6; i++) {
    float *got = logits_of(&m, NULL, i % 2, pieces[i / 2]);
    if (memcmp(*first, got, TOY_ROWS * (size_t)m.vocab * sizeof *got))
      CHECK_FAIL("%s: %s, %d threads, pieces of %d, %s: other bits", c->name, isa, threads,
                 pieces[i / 2], i % 2 ? "alone" : "together");
    free(got);
  }
  close_case(&m);
}

TEST(pieces_batches_threads_and_instruction_sets_change_no_bit) {
  for (const toy_case *c = toy_cases; c->name; c++) {
    float *first[2] = {NULL, NULL}; /* scalar sums in an order of its own */
    FOR_EACH_ISA(isa)
    for (int threads = 1; threads <= 2; threads++)
      check_bits(c, isa, threads, &first[!strcmp(isa, "scalar")]);
    free(first[0]);
    free(first[1]);
  }
}

/* ---- trainers ---------------------------------------------------------------------- */

static double check_gradients(const toy_trainer *t, const char *name) {
  attend_trainer_parameter x;
  double worst = 0;
  size_t i = 0;
  for (; attend_trainer_get(t->trainer, i, &x); i++) {
    char key[300];
    snprintf(key, sizeof key, "grad.%s", x.name);
    worst = fmax(worst, check_near(t->golden, name, key, x.gradient, (int)x.count, (int)x.count));
  }
  size_t others = 3; /* ids, logits, loss; and what comes into layers and out */
  others += (size_t)attend_trainer_config(t->trainer)->decoder.layers + 1;
  CHECK_EQ(i, attend_tensor_file_count(t->golden) - others);
  return worst;
}

TEST(loss_and_gradients_are_those_of_pytorch) {
  double loss_off = 0, worst = 0;
  for (const toy_case *c = toy_cases; c->name; c++)
    for (int recompute = 0; recompute < 2; recompute++) {
      attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .recompute = recompute};
      toy_trainer t;
      open_trainer(&t, c, 2, &o);
      float loss = (float)accumulate(&t);
      loss_off = fmax(loss_off, check_near(t.golden, c->name, "loss", &loss, 1, 1));
      worst = fmax(worst, check_gradients(&t, c->name));
      close_trainer(&t);
    }
  printf("the loss is off by %.1e, gradients by %.1e at most\n", loss_off, worst);
}

/* ---- activations in bf16 ------------------------------------------------------------- */

/* The norm of the difference, as a share. Of random weights some are chaotic: query-scale's softmax
 * is nearly an argmax. */
static double check_rounding(const char *name, const char *what, const float *narrow,
                             const float *wide, size_t n) {
  double off = 0, all = 0;
  for (size_t i = 0; i < n; i++) {
    off += pow((double)narrow[i] - (double)wide[i], 2);
    all += pow((double)wide[i], 2);
  }
  off = sqrt(off / all);
  if (!(off < 0.2 && off > 1e-5)) CHECK_FAIL("%s: %s are off by %.1e", name, what, off);
  return off;
}

static int by_size(const void *a, const void *b) {
  const double *x = a, *y = b;
  return (*x > *y) - (*x < *y);
}

static void check_median(double *off, int n) {
  qsort(off, (size_t)n, sizeof *off, by_size);
  printf("off by %.1e, by %.1e at most\n", off[n / 2], off[n - 1]);
  CHECK(off[n / 2] < 0.03);
}

TEST(gradients_in_bf16_are_those_of_f32_but_for_rounding) {
  double off[sizeof toy_cases / sizeof *toy_cases];
  int cases = 0;
  for (const toy_case *c = toy_cases; c->name; c++) {
    attend_trainer_options o = {ATTEND_INIT(attend_trainer_options)};
    size_t n;
    float *wide = gradients_by(c, 2, &o, &n);
    o.activations = ATTEND_BF16;
    float *narrow = gradients_by(c, 2, &o, &n);
    o.recompute = true;
    float *again = gradients_by(c, 1, &o, &n);
    off[cases++] = check_rounding(c->name, "gradients", narrow, wide, n);
    CHECK(!memcmp(narrow, again, n * sizeof *again));
    free(wide), free(narrow), free(again);
  }
  check_median(off, cases);
}

static float *logits_in(const toy_case *c, attend_dtype activations, int threads, int piece,
                        size_t *n) {
  toy_model m = open_case_in(c->name, c->family, NULL, threads, activations);
  *n = TOY_ROWS * (size_t)m.vocab;
  float *logits = logits_of(&m, NULL, piece == 1, piece);
  close_case(&m);
  return logits;
}

TEST(sessions_in_bf16_are_those_in_f32_but_for_rounding) {
  double off[sizeof toy_cases / sizeof *toy_cases];
  int cases = 0;
  for (const toy_case *c = toy_cases; c->name; c++) {
    size_t n;
    float *wide = logits_in(c, ATTEND_F32, 2, TOY_TOKENS, &n);
    float *narrow = logits_in(c, ATTEND_BF16, 2, TOY_TOKENS, &n);
    float *pieces = logits_in(c, ATTEND_BF16, 1, 1, &n);
    off[cases++] = check_rounding(c->name, "logits", narrow, wide, n);
    CHECK(!memcmp(narrow, pieces, n * sizeof *pieces));
    free(wide), free(narrow), free(pieces);
  }
  check_median(off, cases);
}

/* ---- the same bits --------------------------------------------------------------------- */

TEST(threads_and_recomputing_change_no_bit_of_gradients) {
  for (const toy_case *c = toy_cases; c->name; c++)
    for (int dropped = 0; dropped < 2; dropped++) {
      attend_trainer_options o = {ATTEND_INIT(attend_trainer_options),
                                  .dropout = dropped ? 0.2f : 0, .seed = 3};
      size_t count;
      float *first = gradients_by(c, 1, &o, &count);
      for (int i = 1; i < 4; i++) {
        o.recompute = i % 2;
        float *got = gradients_by(c, 1 + i / 2, &o, &count);
        if (memcmp(first, got, count * sizeof *got))
          CHECK_FAIL("%s: %d threads, recompute %d, dropout %d: other bits", c->name, 1 + i / 2,
                     i % 2, dropped);
        free(got);
      }
      free(first);
    }
}

/* Along the gradient the loss rises as it says, with what dropout leaves. */
TEST(gradients_with_dropout_are_slopes) {
  for (const toy_case *c = toy_cases; c->name; c++) {
    attend_trainer_options o = {ATTEND_INIT(attend_trainer_options), .dropout = 0.2f, .seed = 3};
    toy_trainer t;
    size_t n;
    double squares = 0, loss[2];
    open_trainer(&t, c, 1, &o);
    accumulate(&t);
    float *values = attend_trainer_values(t.trainer, &n);
    float *start = copy_of(values, n * sizeof *start);
    float *g = copy_of(attend_trainer_gradients(t.trainer), n * sizeof *g);
    for (size_t i = 0; i < n; i++) squares += (double)g[i] * (double)g[i];
    double by = 2e-3 / squares;
    for (int side = 0; side < 2; side++) {
      values = attend_trainer_values(t.trainer, NULL);
      for (size_t i = 0; i < n; i++)
        values[i] = (float)((double)start[i] + (side ? -by : by) * (double)g[i]);
      OK(t.ctx, attend_trainer_refresh(t.trainer));
      loss[side] = accumulate(&t);
    }
    double slope = (loss[0] - loss[1]) / (2 * by);
    if (fabs(slope / squares - 1) > 0.02)
      CHECK_FAIL("%s: a slope of %g is %g", c->name, squares, slope);
    free(start);
    free(g);
    close_trainer(&t);
  }
}

/* ---- what settings mean ---------------------------------------------------------------- */

TEST(norms_of_queries_and_keys_are_two_lines_and_a_setting_of_a_family) {
  toy_model without = open_case("qk-norm-head", &toy, NULL, 1);
  float *logits = logits_of(&without, NULL, false, TOY_TOKENS);
  const attend_tensor *t = attend_tensor_file_find(without.golden, "logits");
  CHECK(attend_checkpoint_unused(without.files, 0) != NULL);
  CHECK(distance(t, logits, without.vocab, without.vocab) > 1e-2);
  free(logits);
  close_case(&without);
  toy_model with = open_case("qk-norm-head", &toy_qk_head, NULL, 1);
  logits = logits_of(&with, NULL, false, TOY_TOKENS);
  CHECK(attend_checkpoint_unused(with.files, 0) == NULL);
  check_near(with.golden, "qk-norm-head", "logits", logits, with.vocab, with.vocab);
  free(logits);
  close_case(&with);
}

static void configure_encoder(config_reader *r, attend_config *c) {
  toy_configure(r, c);
  c->parts = ATTEND_ENCODER;
  c->encoder = c->decoder;
  c->decoder = (attend_stack){0};
  c->rotary = 0; /* all of a head */
}

/* The last token of a decoder sees all that an encoder's does; of one layer, in the
 * same way. */
TEST(encoders_rotate_as_decoders_do) {
  static const family encoder = {{"toy"}, "", configure_encoder, toy_lines};
  toy_model m = open_case("norm-none", &encoder, NULL, 1);
  attend_session *s;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = TOY_TEXTS};
  float *logits = zeroed_block(TOY_ROWS * (size_t)m.vocab, sizeof *logits);
  const float *golden = attend_tensor_file_find(m.golden, "logits")->data;
  OK(m.ctx, attend_session_create(m.model, &o, &s));
  OK(m.ctx, attend_session_encode(s, TOY_TEXTS, TOY_TOKENS, toy_ids(m.golden), NULL, NULL));
  OK(m.ctx, attend_session_logits(s, TOY_ROWS, NULL, logits));
  for (int b = 0; b < TOY_TEXTS; b++)
    for (int i = 0; i < m.vocab; i++) {
      int at = (b * TOY_TOKENS + TOY_TOKENS - 1) * m.vocab + i;
      CHECK_NEAR((double)logits[at], (double)golden[at], 1e-4);
    }
  free(logits);
  attend_session_free(s);
  close_case(&m);
}

TEST(layers_that_share_weights_are_counted_each) {
  toy_model m = open_case("layer-groups", &toy, NULL, 1);
  const attend_config *c = attend_checkpoint_config(m.files);
  const attend_stack *s = &c->decoder;
  double layer = 4.0 * s->width * s->heads * s->dim + 3.0 * s->width * s->mlp;
  CHECK_EQ(attend_model_flops(m.model), 2 * (s->layers * layer + c->vocab * s->width));
  close_case(&m);
}

/* A family that says what the base case needs, and leaves the rest at 0. */
static void configure_least(config_reader *r, attend_config *c) {
  toy_sizes(r, c);
  c->position = ATTEND_POSITIONS_ROTARY;
  c->rope.theta = toy_number(r, "rope_theta");
  c->rms = c->final_norm = c->gated = c->tied = 1;
  c->norm_eps = read_epsilon(r, "norm_eps", 1);
  c->activation = ATTEND_SILU;
}

/* The toy, with settings that a test changes. */
static void (*change)(attend_config *c);

static void configure_changed(config_reader *r, attend_config *c) {
  toy_configure(r, c);
  if (!r->status) change(c);
}

static void nothing(attend_config *c) { (void)c; }
static void whole_heads(attend_config *c) { c->rotary = 0; }
static void root_of_dim(attend_config *c) { c->score_factor = 0.5f; }
static void own_groups(attend_config *c) { c->layer_groups = c->decoder.layers; }
static void tables_as_wide(attend_config *c) { c->embed_width = c->decoder.width; }
static void wide_window(attend_config *c) {
  c->window = TOY_TOKENS;
  c->some_slide = 0;
}
static void none_slides(attend_config *c) { c->window = 5; }
static void all_slide(attend_config *c) { c->some_slide = 0; }
static void each_slides(attend_config *c) { c->slides[0] = 3; }
static void same_rope(attend_config *c) { c->rope_sliding = c->rope; }
static void no_limit(attend_config *c) { c->positions = 0; }

static const family min = {{"toy"}, "", configure_least, toy_lines};
static const family changed = {{"toy"}, "", configure_changed, toy_lines};

static const struct {
  const char *name;
  const family *one;
  void (*change_one)(attend_config *c);
  void (*change_other)(attend_config *c);
} equal[] = {{"base", &min, nothing, nothing},
             {"base", &changed, nothing, whole_heads},
             {"base", &changed, nothing, root_of_dim},
             {"base", &changed, nothing, own_groups},
             {"base", &changed, nothing, tables_as_wide},
             {"base", &changed, nothing, wide_window},
             {"base", &changed, nothing, none_slides},
             {"sliding", &changed, all_slide, each_slides},
             {"sliding", &changed, nothing, same_rope},
             {"rotary-none", &changed, nothing, no_limit}};

static float *bits_of(const char *name, const family *f, size_t *count) {
  toy_case c = {name, f};
  size_t n;
  toy_model m = open_case(name, f, NULL, 1);
  float *logits = logits_of(&m, NULL, false, 5);
  float *gradients =
      gradients_by(&c, 1, &(attend_trainer_options){ATTEND_INIT(attend_trainer_options)}, &n);
  size_t rows = TOY_ROWS * (size_t)m.vocab;
  float *all = zeroed_block(*count = rows + n, sizeof *all);
  memcpy(all, logits, rows * sizeof *all);
  memcpy(all + rows, gradients, n * sizeof *all);
  free(logits);
  free(gradients);
  close_case(&m);
  return all;
}

TEST(settings_of_0_mean_none) {
  for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) {
    size_t n, m;
    change = equal[i].change_one;
    float *one = bits_of(equal[i].name, equal[i].one, &n);
    change = equal[i].change_other;
    float *other = bits_of(equal[i].name, &changed, &m);
    if (n != m || memcmp(one, other, n * sizeof *one))
      CHECK_FAIL("pair %zu, %s: other bits", i, equal[i].name);
    free(one);
    free(other);
  }
}

/* The trapping device's memory is out of reach outside of ops, and each block ends
 * before a page that stays so. Its bits are the CPU's; another device's are not. */
TEST(settings_touch_the_memory_of_a_device_through_ops_alone) {
  const char *given = getenv("ATTEND_DEVICE");
  char *before = given ? strdup(given) : NULL;
  for (const toy_case *c = toy_cases; c->name; c++) {
    size_t n, m;
    setenv("ATTEND_DEVICE", "cpu", 1);
    float *here = bits_of(c->name, c->family, &n);
    setenv("ATTEND_DEVICE", "trap", 1);
    float *there = bits_of(c->name, c->family, &m);
    if (n != m || memcmp(here, there, n * sizeof *here))
      CHECK_FAIL("%s: other bits on another device", c->name);
    free(here);
    free(there);
  }
  unsetenv("ATTEND_DEVICE");
  if (before) setenv("ATTEND_DEVICE", before, 1);
  free(before);
}
