/* Small encoder-decoders whose encoder and decoder differ in size, batches for them, and
 * gradients by finite differences. */
#ifndef TESTS_UNEQUAL_SIDES_H
#define TESTS_UNEQUAL_SIDES_H

#include "golden_batches.h"
#include "model/config.h"

__attribute__((destructor)) static void leave_nothing(void) { remove_folder(); }

/* The decoder narrower than the encoder, or wider. */
static inline attend_architecture sides(const char *family, bool narrow) {
  static const int bos = 1, eos = 2, pad = 0;
  return (attend_architecture){ATTEND_INIT(attend_architecture),
                               .family = family,
                               .layers = 2,
                               .decoder_layers = 1,
                               .width = narrow ? 24 : 12,
                               .heads = narrow ? 3 : 2,
                               .mlp = 20,
                               .decoder_width = narrow ? 10 : 40,
                               .decoder_heads = narrow ? 2 : 5,
                               .decoder_mlp = narrow ? 36 : 18,
                               .positions = 16,
                               .vocab = 29,
                               .bos = &bos,
                               .eos = &eos,
                               .pad = &pad};
}

static const char *const both[] = {"bart", "t5"};

static inline attend_config write_and_read(const attend_architecture *a) {
  attend_config c;
  OK(context(), attend_config_write(context(), in_folder("config.json"), a));
  OK(context(), config_read(context(), models_folder(), &c));
  return c;
}

static inline attend_trainer *begin(const attend_architecture *a, const attend_trainer_options *o,
                                    attend_checkpoint **files) {
  attend_trainer *l;
  write_and_read(a);
  OK(context(), attend_checkpoint_init(context(), models_folder(), 4, files));
  OK(context(), attend_trainer_create(*files, o, &l));
  return l;
}

static inline void end(attend_trainer *l, attend_checkpoint *files) {
  attend_trainer_free(l);
  attend_checkpoint_free(files);
}

static inline void refuse_write(attend_architecture a, const char *why) {
  CHECK_EQ(attend_config_write(context(), in_folder("config.json"), &a), ATTEND_INVALID);
  CHECK_SAYS(attend_message(context()), why);
}

/* ---- batches ------------------------------------------------------------------------- */

enum { TEXTS = 3, READ = 7, WRITTEN = 5 };

typedef struct {
  int32_t ids[TEXTS * READ], decoder_ids[TEXTS * WRITTEN], targets[TEXTS * WRITTEN];
} copy_task;

static const int32_t real[TEXTS] = {READ, 3, 5};
static float smoothing; /* of batches */

/* What is asked for is what was read. */
static inline void make_copy_task(const attend_config *c, uint64_t seed, copy_task *b) {
  int32_t *ids = random_ids(c, seed, TEXTS * READ);
  memcpy(b->ids, ids, sizeof b->ids);
  for (int t = 0; t < TEXTS; t++)
    for (int i = 0; i < WRITTEN; i++) {
      int at = t * WRITTEN + i;
      b->targets[at] = i < real[t] ? ids[t * READ + i] : -1;
      b->decoder_ids[at] = i ? ids[t * READ + i - 1] : c->decoder_start;
    }
  free(ids);
}

static inline attend_batch batch_in(const copy_task *b, bool no_grad) {
  return (attend_batch){ATTEND_INIT(attend_batch),
                        .count = TEXTS,
                        .length = READ,
                        .ids = b->ids,
                        .lengths = real,
                        .decoder_length = WRITTEN,
                        .decoder_ids = b->decoder_ids,
                        .targets = b->targets,
                        .scale = 1,
                        .smoothing = smoothing,
                        .no_grad = no_grad};
}

static inline double loss_of(attend_trainer *l, const copy_task *b) {
  attend_batch_loss got;
  attend_batch batch = batch_in(b, true);
  OK(context(), attend_trainer_refresh(l));
  OK(context(), attend_trainer_accumulate(l, &batch, &got));
  return got.loss;
}

/* ---- gradients by differences ------------------------------------------------------------ */

/* The slope of the loss along the direction d of one parameter. */
static inline double slope(attend_trainer *l, const copy_task *b, const attend_trainer_parameter *x,
                           const float *d, double step) {
  size_t n = (size_t)x->count;
  float *kept = zeroed_block(n, sizeof *kept);
  double loss[2];
  memcpy(kept, x->value, n * sizeof *kept);
  for (int up = 0; up < 2; up++) {
    for (size_t i = 0; i < n; i++)
      x->value[i] = kept[i] + (float)((up ? step : -step) * (double)d[i]);
    loss[up] = loss_of(l, b);
  }
  memcpy(x->value, kept, n * sizeof *kept);
  free(kept);
  return (loss[1] - loss[0]) / (2 * step);
}

static inline double length_of(const float *x, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

/* Along the gradient, whose slope is its length: a wrong one has a lesser. And
 * along one at random. */
static inline void check_parameter(attend_trainer *l, const copy_task *b,
                                   const attend_trainer_parameter *x, double largest) {
  size_t n = (size_t)x->count;
  float *d = zeroed_block(n, sizeof *d);
  double length = length_of(x->gradient, x->count);
  for (int random = 0; random < 2; random++) {
    double want = 0;
    if (random)
      attend_random_normal((attend_random){9, 1}, 0, n, d);
    else
      memcpy(d, x->gradient, n * sizeof *d);
    double unit = length_of(d, x->count);
    for (size_t i = 0; i < n && unit > 0; i++) {
      d[i] = (float)((double)d[i] / unit);
      want += (double)d[i] * (double)x->gradient[i];
    }
    double far = slope(l, b, x, d, 2e-3), near = slope(l, b, x, d, 1e-3);
    double got = (4 * near - far) / 3;
    if (!(fabs(got - want) <= 0.01 * length + 3e-4 * largest))
      CHECK_FAIL("%s: a slope of %g, not %g (of %g)", x->name, got, want, length);
  }
  free(d);
}

/* Weights that are larger than training begins with, so that all gradients are
 * felt; T5 divides no scores. */
static inline void grow_weights(attend_trainer *l) {
  attend_trainer_parameter x;
  double size = attend_trainer_config(l)->score_factor > 0 ? 0.15 : 0.3;
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++) {
    if (x.rank != 2 || x.fixed) continue;
    double factor = size * sqrt((double)x.count) / length_of(x.value, x.count);
    for (int64_t j = 0; j < x.count; j++) x.value[j] *= (float)factor;
  }
  OK(context(), attend_trainer_refresh(l));
}

static inline int check_gradients(attend_trainer *l) {
  attend_trainer_parameter x;
  attend_batch_loss got;
  copy_task b;
  double largest = 0;
  int checked = 0;
  make_copy_task(attend_trainer_config(l), 5, &b);
  attend_batch batch = batch_in(&b, false);
  grow_weights(l);
  OK(context(), attend_trainer_accumulate(l, &batch, &got));
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++)
    largest = fmax(largest, length_of(x.gradient, x.count));
  for (size_t i = 0; attend_trainer_get(l, i, &x); i++) {
    if (x.fixed) continue;
    check_parameter(l, &b, &x, largest);
    checked++;
  }
  return checked;
}

/* ---- runs ------------------------------------------------------------------------ */

/* Logits of all that the decoder was given, text by text, token by token. */
static inline float *logits_alone(const subject *s, const copy_task *b) {
  size_t V = (size_t)s->config->vocab;
  float *logits = zeroed_block(TEXTS * WRITTEN * V, sizeof *logits);
  for (int t = 0; t < TEXTS; t++) {
    attend_session *run = open_run(s, 1, 1);
    OK(s->ctx, attend_session_encode(run, 1, real[t], b->ids + t * READ, NULL, NULL));
    for (int i = 0; i < WRITTEN; i++) {
      OK(s->ctx, attend_session_extend(run, 1, 1, b->decoder_ids + t * WRITTEN + i, NULL));
      OK(s->ctx, attend_session_next(run, 1, logits + (size_t)(t * WRITTEN + i) * V));
    }
    attend_session_free(run);
  }
  return logits;
}

/* The same, all at once, with padding. */
static inline float *logits_at_once(const subject *s, const copy_task *b) {
  size_t V = (size_t)s->config->vocab;
  float *logits = zeroed_block(TEXTS * WRITTEN * V, sizeof *logits);
  attend_session *run = open_run(s, TEXTS, 0);
  OK(s->ctx, attend_session_encode(run, TEXTS, READ, b->ids, real, NULL));
  OK(s->ctx, attend_session_extend(run, TEXTS, WRITTEN, b->decoder_ids, NULL));
  OK(s->ctx, attend_session_logits(run, TEXTS * WRITTEN, NULL, logits));
  attend_session_free(run);
  return logits;
}

#endif
