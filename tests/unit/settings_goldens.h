/* The golden models of tests/golden/settings: sessions that read their texts, and
 * trainers. */
#ifndef TESTS_SETTINGS_GOLDENS_H
#define TESTS_SETTINGS_GOLDENS_H

#include "attend/train.h"
#include "golden_models.h"
#include "settings_family.h"

/* ---- golden cases ------------------------------------------------------------------ */

typedef struct {
  const char *name;
  const family *family;
} toy_case;

static const toy_case toy_cases[] = {{"base", &toy},
                                     {"norm-after", &toy},
                                     {"norm-both", &toy},
                                     {"norm-sum", &toy},
                                     {"norm-none", &toy},
                                     {"layer-norm", &toy},
                                     {"qk-norm-head", &toy_qk_head},
                                     {"qk-norm-all", &toy_qk_all},
                                     {"qk-layer-norm", &toy_qk_all},
                                     {"parallel-shared", &toy},
                                     {"parallel-separate", &toy},
                                     {"biases-qv", &toy},
                                     {"biases-qkv", &toy},
                                     {"biases-vup", &toy},
                                     {"biases-all", &toy},
                                     {"rotary-none", &toy},
                                     {"rotary-partial", &toy},
                                     {"sliding", &toy},
                                     {"rope-local", &toy},
                                     {"query-scale", &toy},
                                     {"score-cap", &toy},
                                     {"logit-cap", &toy},
                                     {"embed-scale", &toy},
                                     {"layer-groups", &toy},
                                     {"embed-width", &toy},
                                     {"embed-width-untied", &toy},
                                     {"embed-width-wide", &toy},
                                     {"plain-mlp", &toy},
                                     {"gelu", &toy},
                                     {"gelu-new", &toy},
                                     {"relu", &toy},
                                     {"no-final-norm", &toy},
                                     {"untied", &toy},
                                     {"gqa", &toy},
                                     {"mqa", &toy},
                                     {"everything", &toy_qk_head},
                                     {"odd", &toy},
                                     {NULL, NULL}};

enum { TOY_TEXTS = 2, TOY_TOKENS = 12, TOY_ROWS = TOY_TEXTS * TOY_TOKENS };

static inline const char *toy_path(const char *name, const char *file) {
  static char paths[2][1024];
  const char *golden = getenv("ATTEND_GOLDEN");
  char *path = paths[file != NULL];
  snprintf(path, sizeof paths[0], "%s/settings/%s%s%s", golden ? golden : "tests/golden", name,
           file ? "/" : "", file ? file : "");
  return path;
}

static inline attend_checkpoint *open_toy(attend_context *ctx, const char *name, const family *f) {
  attend_checkpoint *files;
  if (checkpoint_open_as(ctx, toy_path(name, NULL), f, &files)) {
    printf("%s: %s\n", name, attend_message(ctx));
    exit(1);
  }
  return files;
}

static inline attend_tensor_file *open_golden(attend_context *ctx, const char *name) {
  attend_tensor_file *file;
  if (attend_tensor_file_open(ctx, toy_path(name, "golden.safetensors"), &file)) {
    printf("%s: %s\n", name, attend_message(ctx));
    exit(1);
  }
  return file;
}

static inline const int32_t *toy_ids(const attend_tensor_file *golden) {
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

static inline toy_model open_case_in(const char *name, const family *f, const char *isa,
                                     int threads, attend_dtype activations) {
  attend_model_options o = {ATTEND_INIT(attend_model_options), .activations = activations};
  toy_model m = {.ctx = open_context(isa, threads, NULL)};
  m.files = open_toy(m.ctx, name, f);
  m.golden = open_golden(m.ctx, name);
  m.vocab = attend_checkpoint_config(m.files)->vocab;
  OK(m.ctx, attend_model_create(m.files, &o, &m.model));
  return m;
}

static inline toy_model open_case(const char *name, const family *f, const char *isa, int threads) {
  return open_case_in(name, f, isa, threads, ATTEND_F32);
}

static inline void close_case(toy_model *m) {
  attend_model_free(m->model);
  attend_tensor_file_free(m->golden);
  attend_checkpoint_free(m->files);
  attend_context_free(m->ctx);
}

/* Logits [texts][tokens][V] of `count` texts from `first` on, in calls of `piece`
 * tokens. */
static inline void extend_texts(const toy_model *m, const attend_hook *hook, int first, int count,
                                int piece, float *logits) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = count};
  attend_session *s;
  const size_t row = (size_t)m->vocab;
  float *got = zeroed_block(TOY_ROWS * row, sizeof *got);
  OK(m->ctx, attend_session_create(m->model, &o, &s));
  OK(m->ctx, attend_session_set_hooks(s, hook ? 1 : 0, hook));
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

static inline float *logits_of(const toy_model *m, const attend_hook *hook, bool alone, int piece) {
  float *logits = zeroed_block(TOY_ROWS * (size_t)m->vocab, sizeof *logits);
  for (int b = 0; b < TOY_TEXTS; b += alone ? 1 : TOY_TEXTS)
    extend_texts(m, hook, b, alone ? 1 : TOY_TEXTS, piece, logits);
  return logits;
}

/* ---- trainers ---------------------------------------------------------------------- */

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_tensor_file *golden;
  attend_trainer *trainer;
  int32_t targets[TOY_ROWS];
  attend_batch batch;
} toy_trainer;

static inline void open_trainer(toy_trainer *t, const toy_case *c, int threads,
                                const attend_trainer_options *o) {
  t->ctx = open_context(NULL, threads, NULL);
  t->files = open_toy(t->ctx, c->name, c->family);
  t->golden = open_golden(t->ctx, c->name);
  OK(t->ctx, attend_trainer_create(t->files, o, &t->trainer));
  const int32_t *ids = toy_ids(t->golden);
  for (int i = 0; i < TOY_ROWS; i++) t->targets[i] = (i + 1) % TOY_TOKENS ? ids[i + 1] : -1;
  t->batch = (attend_batch){ATTEND_INIT(attend_batch), .count = TOY_TEXTS, .length = TOY_TOKENS,
                            .ids = ids, .targets = t->targets};
}

static inline void close_trainer(toy_trainer *t) {
  attend_trainer_free(t->trainer);
  attend_tensor_file_free(t->golden);
  attend_checkpoint_free(t->files);
  attend_context_free(t->ctx);
}

static inline double accumulate(toy_trainer *t) {
  attend_batch_loss got;
  attend_trainer_zero_grad(t->trainer);
  OK(t->ctx, attend_trainer_accumulate(t->trainer, &t->batch, &got));
  CHECK_EQ(got.scored, TOY_ROWS - TOY_TEXTS);
  return got.loss / got.scored;
}

static inline float *gradients_by(const toy_case *c, int threads, const attend_trainer_options *o,
                                  size_t *count) {
  toy_trainer t;
  open_trainer(&t, c, threads, o);
  accumulate(&t);
  attend_trainer_values(t.trainer, count);
  float *copy = copy_of(attend_trainer_gradients(t.trainer), *count * sizeof *copy);
  close_trainer(&t);
  return copy;
}

#endif
