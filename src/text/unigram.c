/* Unigram language model (Kudo 2018): the segmentation with the highest sum of scores
 * (Viterbi).
 *
 * A character that no piece of its own length covers may be unknown, with a score
 * below all others; adjacent unknowns become one token. Of equal sums the first found
 * wins, as in SentencePiece: by start, then by length. SentencePiece sums in single
 * precision over the whole text, so rounding depends on everything before: a text
 * that is split into words carries its sum from one word to the next.
 */
#include "text/tokenizer.h"

static double rounded(const model *m, double score) {
  return m->single ? (double)(float)score : score;
}

static void arrive(arrival *a, double score, size_t start, int32_t id) {
  if (a->id >= 0 && !(score > a->score)) return;
  *a = (arrival){score, (uint32_t)start, id};
}

/* Relaxes every piece that starts at `at`, and the unknown character. */
static void leave(const attend_tokenizer *t, arrival *best, const char *word, size_t length,
                  size_t at) {
  const model *m = &t->model;
  uint32_t c, node = 0;
  size_t width = utf8_next(word + at, length - at, &c);
  bool single = false;
  double here = best[at].score;
  for (size_t i = at; i < length; i++) {
    const trie_edge *e = trie_step(&m->trie, node, (unsigned char)word[i]);
    if (!e) break;
    node = e->child;
    if (e->value < 0) continue;
    single |= i + 1 - at == width;
    arrive(&best[i + 1], rounded(m, m->scores[e->value] + here), at, e->value);
  }
  if (!single)
    arrive(&best[at + width], rounded(m, m->unk_score + here), at,
           (int32_t)t->vocab.count); /* stands for unknown */
}

/* Backtracks: links forward first, then emits tokens in order. */
static attend_status put_way(const attend_tokenizer *t, scratch *s, const char *word,
                             size_t length) {
  arrival *best = s->arrivals;
  size_t next = length;
  for (size_t at = length; at > 0;) { /* score is no longer needed: it links forward */
    size_t start = best[at].start;
    best[at].score = (double)next;
    next = at;
    at = start;
  }
  for (size_t at = next, start = 0;;) {
    int32_t id = best[at].id;
    if (id < (int32_t)t->vocab.count)
      ATTEND_TRY(put_token(s, id, at));
    else
      ATTEND_TRY(put_unknown(t, s, word, start, at));
    if (at == length) return ATTEND_OK;
    start = at;
    at = (size_t)best[at].score;
  }
}

attend_status unigram_encode(const attend_tokenizer *t, scratch *s, const char *word,
                             size_t length) {
  uint32_t c;
  if (!length) return ATTEND_OK;
  ATTEND_TRY(
      grow(s->ctx, &s->arrivals, &s->arrival_capacity, length + 1, sizeof *s->arrivals, "a word"));
  for (size_t i = 0; i <= length; i++) s->arrivals[i].id = -1;
  s->arrivals[0].score = t->model.single ? s->carry : 0;
  for (size_t at = 0; at < length; at += utf8_next(word + at, length - at, &c))
    leave(t, s->arrivals, word, length, at);
  s->carry = s->arrivals[length].score;
  return put_way(t, s, word, length);
}
