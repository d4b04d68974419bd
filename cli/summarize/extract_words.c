/* Vectors of sentences from the words that they share: no model at all.
 *
 * See extract.h; --embed words.
 *
 * A word counts as often as the sentence has it, times log(1 + n / d), where d
 * of the n sentences have it: what is everywhere tells nothing. Words become
 * one of WIDE directions, with a sign, both by their hash; two that share one
 * by chance add noise of 1 / sqrt(WIDE) to a cosine, and no bias.
 */
#include <math.h>
#include <stdlib.h>

#include "summarize/extract.h"

enum { WIDE = 1024 };

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

static bool is_letter(unsigned char c) {
  return c >= 0x80 || (c >= '0' && c <= '9') ||
         ((c | 32) >= 'a' && (c | 32) <= 'z');
}

/* The hash of the next word at *at, in small letters (FNV-1a, stirred); 0: no
 * more. */
static uint64_t next_word(const char *text, size_t length, size_t *at) {
  uint64_t h = UINT64_C(14695981039346656037);
  size_t i = *at;
  while (i < length && !is_letter((unsigned char)text[i])) i++;
  size_t start = i;
  for (; i < length && is_letter((unsigned char)text[i]); i++) {
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

static void widen_table(word_table *t) {
  word_table wider = {.mask = t->slot ? 2 * t->mask + 1 : 1023};
  wider.slot = need(wider.mask + 1, sizeof *wider.slot);
  for (size_t i = 0; t->slot && i <= t->mask; i++)
    if (t->slot[i].hash) *find_word(&wider, t->slot[i].hash) = t->slot[i];
  wider.used = t->used;
  free(t->slot);
  *t = wider;
}

static void count_words(word_table *t, const char *text, size_t length,
                        int sentence) {
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    if (!t->slot || 2 * t->used > t->mask) widen_table(t);
    word_slot *s = find_word(t, h);
    t->used += !s->hash;
    s->hash = h;
    if (s->last != sentence) s->count++;
    s->last = sentence;
  }
}

/* ---- vectors -------------------------------------------------------------------- */

static void put_words(word_table *t, const char *text, size_t length, int n,
                      float *vector) {
  double sum = 0;
  uint64_t h;
  for (size_t at = 0; (h = next_word(text, length, &at));) {
    double weight = log(1 + (double)n / find_word(t, h)->count);
    vector[h >> 32 & (WIDE - 1)] += (float)(h >> 63 ? weight : -weight);
  }
  for (int i = 0; i < WIDE; i++) sum += (double)vector[i] * (double)vector[i];
  for (int i = 0; i < WIDE && sum > 0; i++) vector[i] /= (float)sqrt(sum);
}

int extraction_words(const extraction *x, embed_text *texts) {
  word_table t = {0};
  for (int i = 0; i < x->count; i++)
    if (x->sentence[i].words)
      count_words(&t, x->text + x->sentence[i].start, x->sentence[i].length,
                  i + 1);
  for (int i = 0, n = 0; i < x->count; i++) {
    const ranked *s = &x->sentence[i];
    if (!s->words) continue;
    texts[n].vector = need(WIDE, sizeof *texts[n].vector);
    put_words(&t, x->text + s->start, s->length, x->words, texts[n++].vector);
  }
  free(t.slot);
  return WIDE;
}
