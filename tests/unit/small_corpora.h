/* Small synthetic corpora, and their batches. */
#ifndef TESTS_SMALL_CORPORA_H
#define TESTS_SMALL_CORPORA_H

#include "attend/train.h"
#include "attention_fixtures.h"

static inline attend_corpus *empty_corpus(void) {
  attend_corpus *c;
  OK(context(), attend_corpus_create(context(), &c));
  return c;
}

/* One document whose tokens are 0, 1, 2, .. */
static inline attend_corpus *counting(size_t n) {
  attend_corpus *c = empty_corpus();
  int32_t *ids = zeroed_block(n, sizeof *ids);
  for (size_t i = 0; i < n; i++) ids[i] = (int32_t)i;
  OK(context(), attend_corpus_add(c, n, ids, 0, NULL));
  free(ids);
  return c;
}

static inline attend_batches *cut(const attend_corpus *c, attend_batch_options o) {
  attend_batches *b;
  if (attend_batches_create(c, &o, &b)) {
    printf("no batches: %s\n", attend_message(context()));
    exit(1);
  }
  return b;
}

static inline attend_batch batch_at(attend_batches *b, uint64_t number) {
  attend_batch l = {ATTEND_INIT(attend_batch)};
  OK(context(), attend_batches_get(b, number, &l));
  return l;
}

/* Texts of 1 to `longest` tokens: pair i begins with 10 + 200 i, and its answer
 * with 110 + 200 i. */
static inline void add_pairs(attend_corpus *c, int count, int longest) {
  int32_t ids[128], answer[128];
  float draw[2];
  for (int i = 0; i < count; i++) {
    attend_random_uniform((attend_random){9, 9}, 4 * (uint64_t)i, 2, draw);
    int n = 1 + (int)(draw[0] * (float)longest);
    int m = 1 + (int)(draw[1] * (float)longest);
    for (int t = 0; t < n; t++) ids[t] = 10 + 200 * i + t;
    for (int t = 0; t < m; t++) answer[t] = 110 + 200 * i + t;
    OK(context(), attend_corpus_add(c, (size_t)n, ids, (size_t)m, answer));
  }
}

/* Of batches: causal, masked, pairs of an encoder-decoder, pairs of a decoder. */
static inline attend_batch_options kind(int which) {
  attend_batch_options o = {
      ATTEND_INIT(attend_batch_options), .batch = 6, .length = 64, .seed = 3, .start = 1, .pad = 0};
  if (which == 1) o.task = ATTEND_LEARN_MASKED;
  if (which == 1) o.mask = 5, o.cls = 2, o.sep = 3, o.vocab = 4000;
  if (which >= 2) o.task = ATTEND_LEARN_PAIRS;
  if (which >= 2) o.parts = which == 2 ? ATTEND_BOTH : ATTEND_DECODER;
  return o;
}

#endif
