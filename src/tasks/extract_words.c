/* Vectors of sentences from the words that they share, without a model.
 *
 * TF-IDF: a word counts as often as the sentence has it, times log(1 + n / d), where
 * d of the n sentences have it. Feature hashing (Weinberger et al., 2009) maps words
 * to dimensions, with a sign: two words that collide add noise of
 * 1 / sqrt(WORD_VECTOR_WIDTH) to a cosine, and no bias.
 */
#include <math.h>

#include "tasks/extract.h"

typedef struct {
  uint64_t hash; /* 0: free */
  int count;     /* sentences that have it */
  int last;      /* the last of them, from 1 */
} word_slot;

typedef struct {
  word_slot *slot;
  size_t mask, used;
} word_table;

/* ---- words ---------------------------------------------------------------------- */

/* The hash of the next word at *at, in lower case (FNV-1a with a final mix); 0:
 * there is none. */
static uint64_t next_word(const char *text, size_t length, size_t *at) {
  uint64_t h = UINT64_C(14695981039346656037);
  size_t i = *at;
  while (i < length && !is_word_byte((unsigned char)text[i])) i++;
  size_t start = i;
  for (; i < length && is_word_byte((unsigned char)text[i]); i++) {
    unsigned char c = (unsigned char)text[i];
    if (c >= 'A' && c <= 'Z') c |= 32;
    h = (h ^ c) * UINT64_C(1099511628211);
  }
  *at = i;
  h = (h ^ h >> 32) * UINT64_C(0x9e3779b97f4a7c15);
  h ^= h >> 29;
  return i == start ? 0 : h ? h : 1;
}

static word_slot *find_word(word_table *t, uint64_t hash) {
  size_t i = hash & t->mask;
  while (t->slot[i].hash && t->slot[i].hash != hash) i = (i + 1) & t->mask;
  return &t->slot[i];
}

static attend_status grow_table(attend_context *ctx, word_table *t) {
  word_table wider = {.mask = t->slot ? 2 * t->mask + 1 : 1023, .used = t->used};
  ATTEND_TRY(
      take_zeroed(ctx, size_times(wider.mask + 1, sizeof *wider.slot), "words", &wider.slot));
  for (size_t i = 0; t->slot && i <= t->mask; i++)
    if (t->slot[i].hash) *find_word(&wider, t->slot[i].hash) = t->slot[i];
  give(ctx, t->slot);
  *t = wider;
  return ATTEND_OK;
}

static attend_status count_words(attend_context *ctx, word_table *t, const char *text,
                                 size_t length, int sentence) {
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    if (!t->slot || 2 * t->used > t->mask) ATTEND_TRY(grow_table(ctx, t));
    word_slot *s = find_word(t, h);
    t->used += !s->hash;
    s->hash = h;
    if (s->last != sentence) s->count++;
    s->last = sentence;
  }
  return ATTEND_OK;
}

/* ---- vectors -------------------------------------------------------------------- */

static void put_words(word_table *t, const char *text, size_t length, int n, float *vector) {
  enum { WIDTH = WORD_VECTOR_WIDTH };
  double sum = 0;
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    double weight = log(1 + (double)n / find_word(t, h)->count);
    vector[h >> 32 & (WIDTH - 1)] += (float)(h >> 63 ? weight : -weight);
  }
  for (int i = 0; i < WIDTH; i++) sum += (double)vector[i] * (double)vector[i];
  for (int i = 0; i < WIDTH && sum > 0; i++) vector[i] /= (float)sqrt(sum);
}

static attend_status count_all(const attend_extraction *x, word_table *t) {
  for (int i = 0; i < x->count; i++)
    if (x->sentence[i].words)
      ATTEND_TRY(
          count_words(x->ctx, t, x->text + x->sentence[i].start, x->sentence[i].length, i + 1));
  return ATTEND_OK;
}

attend_status word_vectors(const attend_extraction *x, float **vectors) {
  word_table t = {0};
  attend_status status = count_all(x, &t);
  if (!status)
    status = take_zeroed(x->ctx, SIZE_PRODUCT((size_t)x->rows, WORD_VECTOR_WIDTH, sizeof **vectors),
                         "vectors of sentences", vectors);
  float *row = status ? NULL : *vectors;
  for (int i = 0; i < x->count && row; i++) {
    const attend_ranked_sentence *s = &x->sentence[i];
    if (!s->words) continue;
    put_words(&t, x->text + s->start, s->length, x->rows, row);
    row += WORD_VECTOR_WIDTH;
  }
  give(x->ctx, t.slot);
  return status;
}
