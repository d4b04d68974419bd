/* For tests of tasks: models with tokenizers, and failing allocations. */
#ifndef TESTS_TASK_MODELS_H
#define TESTS_TASK_MODELS_H

#include "attend/text.h"
#include "golden_models.h"

typedef struct {
  subject s;
  attend_tokenizer *tokenizer;
  ledger memory;
} task_model;

/* A golden model with its own tokenizer or, where it has none, one of 211 words.
 * Opened in place: the context keeps the address of the ledger. */
static inline void open_task(task_model *t, const char *name) {
  const char *own = strcmp(name, "stories260K") ? "../words" : name;
  *t = (task_model){0};
  attend_context *ctx = open_context(NULL, 2, &t->memory);
  t->s = open_path(ctx, model_path(name, NULL), NULL);
  OK(ctx, attend_tokenizer_load(ctx, model_path(own, NULL), &t->tokenizer));
}

static inline void close_task(task_model *t) {
  attend_tokenizer_free(t->tokenizer);
  close_model(&t->s);
  CHECK_EQ(t->memory.live, 0);
}

/* The n-th allocation of `use` fails, for every n, until it succeeds: each time a
 * status, a sentence and no block lost. */
static inline void fail_allocations(task_model *t, attend_status (*use)(task_model *t)) {
  attend_status status = ATTEND_NO_MEMORY;
  long n = 0, step = light() ? 7 : 1;
  OK(t->s.ctx, use(t));
  while (status && n < 5000) {
    long live = t->memory.live;
    n += step;
    t->memory.fail_at = t->memory.taken + n;
    status = use(t);
    t->memory.fail_at = 0;
    CHECK_EQ(t->memory.live, live);
    if (!status) break;
    CHECK_EQ(status, ATTEND_NO_MEMORY);
    CHECK_SAYS(attend_message(t->s.ctx), "no memory");
  }
  CHECK(!status);
  CHECK(n > 5);
}

#endif
