/* For tests of tokenizer training: a trainer fed with a text. */
#ifndef TESTS_TRAINED_TOKENIZERS_H
#define TESTS_TRAINED_TOKENIZERS_H

#include "attend/text_train.h"
#include "tokenizer_fixtures.h"

static inline char *golden_text(size_t *length) {
  char path[4096];
  const char *golden = getenv("ATTEND_GOLDEN");
  snprintf(path, sizeof path, "%s/trained/text.txt", golden ? golden : "tests/golden");
  return read_whole(path, length);
}

/* Fed in chunks of so many bytes; 0: at once. */
static inline attend_text_trainer *learn_in_chunks(attend_context *ctx,
                                                   const attend_text_train_options *o,
                                                   const char *text, size_t length, size_t chunk) {
  attend_text_trainer *r;
  if (attend_text_trainer_create(ctx, o, &r)) {
    printf("no trainer: %s\n", attend_message(ctx));
    exit(1);
  }
  for (size_t at = 0, n; at < length; at += n) {
    n = chunk && chunk < length - at ? chunk : length - at;
    OK(ctx, attend_text_trainer_feed(r, text + at, n));
  }
  OK(ctx, attend_text_trainer_end(r));
  OK(ctx, attend_text_trainer_learn(r));
  return r;
}

static inline attend_text_trainer *learn(attend_context *ctx, const attend_text_train_options *o,
                                         const char *text, size_t length) {
  return learn_in_chunks(ctx, o, text, length, 0);
}

static inline void check_same_learnt(const attend_text_trainer *a, const attend_text_trainer *b,
                                     const char *what) {
  const attend_text_trained *x = attend_text_trainer_report(a);
  const attend_text_trained *y = attend_text_trainer_report(b);
  attend_text_merge m, n;
  CHECK(!memcmp(x, y, sizeof *x));
  for (size_t i = 0; attend_text_trainer_merge(a, i, &m); i++) {
    if (attend_text_trainer_merge(b, i, &n) && !strcmp(m.left, n.left) &&
        !strcmp(m.right, n.right) && m.count == n.count)
      continue;
    CHECK_FAIL("%s: merge %zu is %s %s", what, i, m.left, m.right);
    return;
  }
}

#endif
