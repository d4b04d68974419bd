/* The inside of a corpus, for corpus.c and batches.c. */
#ifndef TRAIN_CORPUS_H
#define TRAIN_CORPUS_H

#include "attend/train.h"
#include "base/base.h"

struct attend_corpus {
  attend_context *ctx;
  int32_t *ids; /* [count] of all documents, one after the other */
  size_t count, capacity;
  size_t *end; /* [parts] where each part ends; a pair has two parts */
  size_t parts, parts_capacity;
  bool pairs;
  size_t bytes, dropped;
};

static inline size_t part_start(const attend_corpus *c, size_t i) { return i ? c->end[i - 1] : 0; }
static inline size_t part_length(const attend_corpus *c, size_t i) {
  return c->end[i] - part_start(c, i);
}

/* Digest of the corpus and the options that batches depend on. */
uint64_t batches_digest(const attend_batches *b);
/* Digest of the corpus that batches are cut from. */
uint64_t batches_corpus_digest(const attend_batches *b);

#endif
