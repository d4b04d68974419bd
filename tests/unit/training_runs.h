/* Training runs of small models, for the tests of training. */
#ifndef TESTS_TRAINING_RUNS_H
#define TESTS_TRAINING_RUNS_H

#include <dirent.h>
#include <fts.h>

#include "attend/train.h"
#include "golden_models.h"

typedef struct {    /* zero means default */
  const char *from; /* a folder; NULL: the golden gpt2 */
  int threads;      /* 0: 1 */
  attend_optimizer_kind kind;
  float dropout;
  int batch, accumulate; /* 0: 4, 1 */
  uint64_t seed;
  size_t tokens; /* of the text; 0: 300 */
  const attend_form *form;
  attend_weights weights;
  attend_dtype activations;
  ledger *memory;
} training_plan;

typedef struct {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_corpus *corpus;
  attend_batches *batches;
  attend_training *training;
} training_run;

static inline attend_corpus *some_text(attend_context *ctx, size_t n) {
  attend_corpus *c;
  attend_config config = {.vocab = 211};
  int32_t *ids = random_ids(&config, 12, n);
  OK(ctx, attend_corpus_create(ctx, &c));
  OK(ctx, attend_corpus_add(c, n, ids, 0, NULL));
  free(ids);
  return c;
}

static inline void close_training(training_run *c) {
  attend_training_free(c->training);
  attend_batches_free(c->batches);
  attend_corpus_free(c->corpus);
  attend_optimizer_free(c->optimizer);
  attend_trainer_free(c->trainer);
  attend_checkpoint_free(c->files);
  attend_context_free(c->ctx);
}

static inline training_run open_training(const training_plan *p) {
  training_run c = {0};
  attend_optimizer_options how = {ATTEND_INIT(attend_optimizer_options)};
  attend_trainer_options learn = {ATTEND_INIT(attend_trainer_options),
                                  .dropout = p->dropout,
                                  .seed = p->seed,
                                  .weights = p->weights,
                                  .activations = p->activations,
                                  .form = p->form};
  attend_batch_options cut = {ATTEND_INIT(attend_batch_options), .batch = p->batch ? p->batch : 4,
                              .length = 12, .seed = p->seed};
  attend_training_options o = {ATTEND_INIT(attend_training_options),
                               .schedule = {ATTEND_COSINE_RATE, 3e-3, 3e-4, 2, 20},
                               .accumulate = p->accumulate};
  how.kind = p->kind;
  how.momentum = 0.9f;
  c.ctx = open_context(NULL, p->threads ? p->threads : 1, p->memory);
  OK(c.ctx, attend_checkpoint_open(c.ctx, p->from ? p->from : model_path("gpt2", NULL), &c.files));
  OK(c.ctx, attend_trainer_create(c.files, &learn, &c.trainer));
  OK(c.ctx, attend_optimizer_create(c.trainer, &how, &c.optimizer));
  c.corpus = some_text(c.ctx, p->tokens ? p->tokens : 300);
  OK(c.ctx, attend_batches_create(c.corpus, &cut, &c.batches));
  OK(c.ctx, attend_training_create(c.trainer, c.optimizer, c.batches, &o, &c.training));
  return c;
}

static inline attend_step_report take_steps(training_run *c, int n) {
  attend_step_report r = {0};
  for (int i = 0; i < n; i++) OK(c->ctx, attend_training_step(c->training, &r));
  return r;
}

/* ---- the state of a training run -------------------------------------------------- */

typedef struct {
  float *values, *first, *second; /* second NULL: there is none */
  size_t count;
  uint64_t steps;
} standing;

static inline standing stand(const training_run *c) {
  standing s = {.steps = attend_training_steps(c->training)};
  const float *values = attend_trainer_values(c->trainer, &s.count);
  size_t bytes = s.count * sizeof(float);
  const float *second = attend_optimizer_moments(c->optimizer, 1);
  s.values = copy_of(values, bytes);
  s.first = copy_of(attend_optimizer_moments(c->optimizer, 0), bytes);
  if (second) s.second = copy_of(second, bytes);
  return s;
}

static inline int same_standing(const standing *a, const standing *b) {
  size_t bytes = a->count * sizeof(float);
  return a->count == b->count && a->steps == b->steps && !memcmp(a->values, b->values, bytes) &&
         !memcmp(a->first, b->first, bytes) && !a->second == !b->second &&
         (!a->second || !memcmp(a->second, b->second, bytes));
}

static inline void free_standing(standing *s) {
  free(s->values);
  free(s->first);
  free(s->second);
}

/* ---- folders ---------------------------------------------------------------------- */

/* Names in a folder; those that begin with a dot alone, or all. */
static inline int count_names(const char *folder, int hidden) {
  DIR *dir = opendir(folder);
  int n = 0;
  for (struct dirent *e; dir && (e = readdir(dir));)
    n += strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && (!hidden || *e->d_name == '.');
  if (dir) closedir(dir);
  return n;
}

static inline void remove_below(const char *folder) {
  char *roots[] = {(char *)folder, NULL};
  FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
  for (FTSENT *at; tree && (at = fts_read(tree));)
    if (at->fts_info != FTS_D) remove(at->fts_path);
  if (tree) fts_close(tree);
}

#endif
