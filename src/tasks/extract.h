/* What the files of extraction share: extract.c ranks and chooses,
 * extract_words.c makes vectors without a model. */
#ifndef TASKS_EXTRACT_H
#define TASKS_EXTRACT_H

#include "attend/extract.h"
#include "base/base.h"

struct attend_extraction {
  attend_context *ctx;
  const char *text;
  size_t length;
  attend_ranked_sentence *sentence; /* [count] */
  int count, rows;
  int chosen;
};

enum { WORD_VECTOR_WIDTH = 1024 };
/* vectors [rows, WORD_VECTOR_WIDTH] of the words that sentences share. */
attend_status word_vectors(const attend_extraction *x, float **vectors);

/* Bytes beyond ASCII count as letters. */
static inline bool is_word_byte(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z');
}

#endif
