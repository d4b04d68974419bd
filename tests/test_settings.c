/* Every setting of the one transformer against what PyTorch computed with it
 * (tests/golden/make_settings.py): logits and hidden states of sessions, loss and
 * gradients of learners, within 1e-4 of the largest; and the same bits however a
 * prompt comes, on any number of threads, and where layers are computed again. */
#include "attend/train.h"
#include "toy.h"

static const double BOUND = 1e-4;

/* Rows of `width` floats, ld apart, beside a golden: the largest gap, as a share of
 * the golden's largest number. */
static double distance(const attend_tensor *golden, const float *got, int width,
                       int ld) {
  double most = 0, gap = 0;
  for (int64_t i = 0; i < golden->count; i++) {
    float want;
    memcpy(&want, (const char *)golden->data + 4 * i, sizeof want);
    most = fmax(most, fabs((double)want));
    double off = fabs((double)want - (double)got[i / width * ld + i % width]);
    if (!(off <= gap)) gap = off; /* NaN too */
  }
  return gap / most;
}

static double check_near(const attend_tensor_file *golden, const char *name,
                         const char *what, const float *got, int width,
                         int ld) {
  const attend_tensor *t = attend_tensor_file_find(golden, what);
  double far = t ? distance(t, got, width, ld) : NAN;
  if (!(far <= BOUND)) CHECK_FAIL("%s: %s is off by %.1e", name, what, far);
  return far;
}

static const int32_t *toy_ids(const attend_tensor_file *golden) {
  return attend_tensor_file_find(golden, "ids")->data;
}

/* ---- sessions ---------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_model *model;
  attend_tensor_file *golden;
  int vocab;
} toy_model;

static toy_model open_case(const char *name, const family *f, const char *isa,
                           int threads) {
  toy_model m = {.ctx = open_context(isa, threads, NULL)};
  m.files = open_toy(m.ctx, name, f);
  m.golden = open_golden(m.ctx, name);
  m.vocab = attend_checkpoint_config(m.files)->vocab;
  OK(m.ctx, attend_model_create(m.files, NULL, &m.model));
  return m;
}

static void close_case(toy_model *m) {
  attend_model_free(m->model);
  attend_tensor_file_close(m->golden);
  attend_checkpoint_close(m->files);
  attend_context_free(m->ctx);
}

/* Logits [texts][tokens][V] of `count` texts from `first` on, in calls of `piece`
 * tokens. */
static void extend_texts(const toy_model *m, const attend_watch *watch,
                         int first, int count, int piece, float *logits) {
  attend_session_options o = {.batch = count};
  attend_session *s;
  const size_t row = (size_t)m->vocab;
  float *got = room_for(TOY_ROWS * row, sizeof *got);
  OK(m->ctx, attend_session_create(m->model, &o, &s));
  attend_session_watch(s, watch);
  for (int at = 0, n; at < TOY_TOKENS; at += n) {
    int32_t ids[TOY_ROWS];
    n = piece < TOY_TOKENS - at ? piece : TOY_TOKENS - at;
    for (int i = 0; i < count * n; i++)
      ids[i] = toy_ids(m->golden)[(first + i / n) * TOY_TOKENS + at + i % n];
    OK(m->ctx, attend_session_extend(s, count, n, ids, NULL));
    OK(m->ctx, attend_session_logits(s, count * n, NULL, got));
    for (int i = 0; i < count * n; i++)
      memcpy(logits + (size_t)((first + i / n) * TOY_TOKENS + at + i % n) * row,
             got + (size_t)i * row, row * sizeof *got);
  }
  free(got);
  attend_session_free(s);
}

typedef struct {
  const char *name;
  const attend_tensor_file *golden;
  int seen;
  double worst;
} hidden_check;

static void see_hidden(const attend_sight *sight, void *user) {
  hidden_check *h = user;
  char key[32];
  snprintf(key, sizeof key, "hidden.%d", sight->layer);
  h->worst =
      fmax(h->worst, check_near(h->golden, h->name, key, sight->view.data,
                                sight->shape[3], (int)sight->view.stride[2]));
  h->seen++;
}

static float *logits_of(const toy_model *m, const attend_watch *watch,
                        bool alone, int piece) {
  float *logits = room_for(TOY_ROWS * (size_t)m->vocab, sizeof *logits);
  for (int b = 0; b < TOY_TEXTS; b += alone ? 1 : TOY_TEXTS)
    extend_texts(m, watch, b, alone ? 1 : TOY_TEXTS, piece, logits);
  return logits;
}

TEST(logits_and_hidden_states_are_those_of_pytorch) {
  double logits_off = 0, hidden_off = 0;
  for (const toy_case *c = toy_cases; c->name; c++) {
    toy_model m = open_case(c->name, c->family, NULL, 2);
    hidden_check h = {c->name, m.golden, 0, 0};
    attend_watch watch = {ATTEND_SEE_HIDDEN, see_hidden, &h, NULL};
    CHECK(!attend_checkpoint_unused(m.files, 0));
    float *logits = logits_of(&m, &watch, false, TOY_TOKENS);
    double off =
        check_near(m.golden, c->name, "logits", logits, m.vocab, m.vocab);
    CHECK_EQ(h.seen, attend_checkpoint_config(m.files)->decoder.layers + 1);
    logits_off = fmax(logits_off, off);
    hidden_off = fmax(hidden_off, h.worst);
    free(logits);
    close_case(&m);
  }
  printf("logits are off by %.1e, hidden states by %.1e at most\n", logits_off,
         hidden_off);
}

static void check_bits(const toy_case *c, const char *isa, int threads,
                       float **first) {
  static const int pieces[] = {1, 7, TOY_TOKENS};
  toy_model m = open_case(c->name, c->family, isa, threads);
  if (!*first) *first = logits_of(&m, NULL, false, TOY_TOKENS);
  for (int i = 0; i < 6; i++) {
    float *got = logits_of(&m, NULL, i % 2, pieces[i / 2]);
    if (memcmp(*first, got, TOY_ROWS * (size_t)m.vocab * sizeof *got))
      CHECK_FAIL("%s: %s, %d threads, pieces of %d, %s: other bits", c->name,
                 isa, threads, pieces[i / 2], i % 2 ? "alone" : "together");
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

/* ---- learners ---------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_tensor_file *golden;
  attend_learner *learner;
  int32_t targets[TOY_ROWS];
  attend_lesson lesson;
} toy_learner;

static void open_learner(toy_learner *t, const toy_case *c, int threads,
                         const attend_learner_options *o) {
  t->ctx = open_context(NULL, threads, NULL);
  t->files = open_toy(t->ctx, c->name, c->family);
  t->golden = open_golden(t->ctx, c->name);
  OK(t->ctx, attend_learner_create(t->files, o, &t->learner));
  const int32_t *ids = toy_ids(t->golden);
  for (int i = 0; i < TOY_ROWS; i++)
    t->targets[i] = (i + 1) % TOY_TOKENS ? ids[i + 1] : -1;
  t->lesson = (attend_lesson){.batch = TOY_TEXTS,
                              .length = TOY_TOKENS,
                              .ids = ids,
                              .targets = t->targets};
}

static void close_learner(toy_learner *t) {
  attend_learner_free(t->learner);
  attend_tensor_file_close(t->golden);
  attend_checkpoint_close(t->files);
  attend_context_free(t->ctx);
}

static double study(toy_learner *t) {
  attend_outcome got;
  attend_learner_forget(t->learner);
  OK(t->ctx, attend_learner_study(t->learner, &t->lesson, &got));
  CHECK_EQ(got.scored, TOY_ROWS - TOY_TEXTS);
  return got.loss / got.scored;
}

static double check_gradients(const toy_learner *t, const char *name) {
  attend_learnt x;
  double worst = 0;
  size_t i = 0;
  for (; attend_learner_get(t->learner, i, &x); i++) {
    char key[300];
    snprintf(key, sizeof key, "grad.%s", x.name);
    worst = fmax(worst, check_near(t->golden, name, key, x.gradient,
                                   (int)x.count, (int)x.count));
  }
  size_t others = 3; /* ids, logits, loss; and what comes into layers and out */
  others += (size_t)attend_learner_config(t->learner)->decoder.layers + 1;
  CHECK_EQ(i, attend_tensor_file_count(t->golden) - others);
  return worst;
}

TEST(loss_and_gradients_are_those_of_pytorch) {
  double loss_off = 0, worst = 0;
  for (const toy_case *c = toy_cases; c->name; c++)
    for (int recompute = 0; recompute < 2; recompute++) {
      attend_learner_options o = {.recompute = recompute};
      toy_learner t;
      open_learner(&t, c, 2, &o);
      float loss = (float)study(&t);
      loss_off =
          fmax(loss_off, check_near(t.golden, c->name, "loss", &loss, 1, 1));
      worst = fmax(worst, check_gradients(&t, c->name));
      close_learner(&t);
    }
  printf("the loss is off by %.1e, gradients by %.1e at most\n", loss_off,
         worst);
}

static float *gradients_by(const toy_case *c, int threads,
                           const attend_learner_options *o, size_t *count) {
  toy_learner t;
  open_learner(&t, c, threads, o);
  study(&t);
  attend_learner_values(t.learner, count);
  float *copy =
      copy_of(attend_learner_gradients(t.learner), *count * sizeof *copy);
  close_learner(&t);
  return copy;
}

TEST(threads_and_recomputing_change_no_bit_of_gradients) {
  for (const toy_case *c = toy_cases; c->name; c++)
    for (int dropped = 0; dropped < 2; dropped++) {
      attend_learner_options o = {.dropout = dropped ? 0.2f : 0, .seed = 3};
      size_t count;
      float *first = gradients_by(c, 1, &o, &count);
      for (int i = 1; i < 4; i++) {
        o.recompute = i % 2;
        float *got = gradients_by(c, 1 + i / 2, &o, &count);
        if (memcmp(first, got, count * sizeof *got))
          CHECK_FAIL("%s: %d threads, recompute %d, dropout %d: other bits",
                     c->name, 1 + i / 2, i % 2, dropped);
        free(got);
      }
      free(first);
    }
}

/* Along the gradient the loss rises as it says, with what dropout leaves. */
TEST(gradients_with_dropout_are_slopes) {
  for (const toy_case *c = toy_cases; c->name; c++) {
    attend_learner_options o = {.dropout = 0.2f, .seed = 3};
    toy_learner t;
    size_t n;
    double squares = 0, loss[2];
    open_learner(&t, c, 1, &o);
    study(&t);
    float *values = attend_learner_values(t.learner, &n);
    float *start = copy_of(values, n * sizeof *start);
    float *g = copy_of(attend_learner_gradients(t.learner), n * sizeof *g);
    for (size_t i = 0; i < n; i++) squares += (double)g[i] * (double)g[i];
    double by = 2e-3 / squares;
    for (int side = 0; side < 2; side++) {
      values = attend_learner_values(t.learner, NULL);
      for (size_t i = 0; i < n; i++)
        values[i] =
            (float)((double)start[i] + (side ? -by : by) * (double)g[i]);
      OK(t.ctx, attend_learner_refresh(t.learner));
      loss[side] = study(&t);
    }
    double slope = (loss[0] - loss[1]) / (2 * by);
    if (fabs(slope / squares - 1) > 0.02)
      CHECK_FAIL("%s: a slope of %g is %g", c->name, squares, slope);
    free(start);
    free(g);
    close_learner(&t);
  }
}
