/* Bounds of a summary in words.
 *
 * See summarize.h; called before each token is chosen.
 *
 * Models count tokens, readers words. What each token adds to a text is found
 * once, by decoding it behind a letter. Where the last word is there and the
 * model's first choice would open another, nothing but an end is left: a text
 * is not cut inside a word, and beams that end by themselves win over it.
 */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/summarize.h"

typedef struct {
  bool silent;  /* says nothing: a special token */
  bool joins;   /* begins without a space: part of the word before it */
  bool leaves;  /* ends in a space */
  uint8_t more; /* words that begin inside, after a space */
} piece;

struct word_bounds {
  piece *pieces; /* [n] */
  int n;
  int least, most;
  bool *ends; /* [n] tokens that end a text */
};

static bool is_space(char c) { return isspace((unsigned char)c); }

static piece look_at(const char *text, size_t length) {
  piece p = {.silent = !length};
  if (!length) return p;
  p.joins = !is_space(text[0]);
  p.leaves = is_space(text[length - 1]);
  for (size_t i = 1; i < length; i++)
    p.more += is_space(text[i - 1]) && !is_space(text[i]) && p.more < 255;
  return p;
}

/* Bytes of a character that is not complete say nothing yet and belong to a
 * word. */
static attend_status look_at_all(word_bounds *b, const attend_tokenizer *t,
                                 attend_detokenizer *d, int32_t letter) {
  const char *text;
  size_t length;
  attend_status status = ATTEND_OK;
  for (int32_t id = 0; id < b->n && !status; id++) {
    bool known = id < attend_tokenizer_count(t) &&
                 attend_tokenizer_piece(t, id, NULL) &&
                 !attend_tokenizer_is_special(t, id);
    b->pieces[id].silent = true;
    if (!known) continue;
    status = attend_detokenizer_push(d, letter, &text, &length);
    if (!status) status = attend_detokenizer_push(d, id, &text, &length);
    if (status) break;
    b->pieces[id] = look_at(text, length);
    if (!length) b->pieces[id] = (piece){.joins = true};
    status = attend_detokenizer_finish(d, &text, &length);
  }
  return status;
}

/* Something that stands in a text for a letter. */
static attend_status find_letter(const attend_tokenizer *t, int32_t *letter) {
  attend_encoding *e;
  attend_encode_options o = {.no_special = true};
  attend_status status = attend_encoding_create(t, &e);
  if (!status) status = attend_encode(e, "a", 1, &o);
  *letter = !status && e->count ? e->id[e->count - 1] : 0;
  attend_encoding_free(e);
  return status;
}

attend_status word_bounds_make(const attend_model *model,
                               const attend_tokenizer *tokenizer, int least,
                               int most, word_bounds **bounds) {
  const attend_config *c = attend_model_config(model);
  word_bounds *b = need(1, sizeof *b);
  attend_detokenizer *d = NULL;
  int32_t letter;
  *bounds = b;
  *b = (word_bounds){.n = c->vocab, .least = least, .most = most};
  b->pieces = need((size_t)b->n, sizeof *b->pieces);
  b->ends = need((size_t)b->n, sizeof *b->ends);
  for (int i = 0; i < c->n_eos; i++) b->ends[c->eos[i]] = true;
  attend_status status = find_letter(tokenizer, &letter);
  if (!status) status = attend_detokenizer_create(tokenizer, true, &d);
  if (!status) status = look_at_all(b, tokenizer, d, letter);
  attend_detokenizer_free(d);
  return status;
}

void word_bounds_free(word_bounds *b) {
  if (!b) return;
  free(b->pieces);
  free(b->ends);
  free(b);
}

/* Words that a token adds behind a text that ends in a space or is empty
 * (`apart`), or does not. */
static int words_of(const piece *p, bool apart) {
  return p->silent ? 0 : p->more + (apart && p->joins);
}

static int32_t best_of(const attend_choice *c) {
  int32_t best = 0;
  for (int32_t id = 1; id < c->n; id++)
    if (c->logits[id] > c->logits[best]) best = id;
  return best;
}

void word_bounds_keep(const word_bounds *b, const attend_choice *c) {
  int words = 0;
  bool apart = true;
  for (int i = 0; i < c->count; i++) {
    const piece *p = &b->pieces[c->ids[i]];
    words += words_of(p, apart);
    if (!p->silent) apart = p->leaves;
  }
  for (int32_t id = 0; id < c->n && words < b->least; id++)
    if (b->ends[id]) c->logits[id] = -INFINITY;
  if (!b->most || words < b->most) return;
  bool complete = words_of(&b->pieces[best_of(c)], apart);
  for (int32_t id = 0; id < c->n; id++)
    if (!b->ends[id] && (complete || words_of(&b->pieces[id], apart)))
      c->logits[id] = -INFINITY;
}
