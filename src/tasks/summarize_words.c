/* Bounds of a summary in words.
 *
 * Models count tokens. How many words each token adds is found once, by
 * detokenizing it behind a letter. When the last word is complete and the most
 * probable token would begin another, only an end token is left: a text is not cut
 * inside a word, and beams that end by themselves score higher.
 */
#include "tasks/summarize.h"

#include <math.h>

typedef struct {
  bool silent;       /* no text: a special token */
  bool continues;    /* begins without a space: part of the word before it */
  bool ends_space;   /* ends in a space */
  uint8_t beginning; /* words that begin inside, after a space */
} piece;

struct word_bounds {
  piece *pieces; /* [n] */
  int n;
  int min_words, max_words;
  bool *ends; /* [n] tokens that end a text */
};

static piece classify(const char *text, size_t length) {
  piece p = {.silent = !length};
  if (!length) return p;
  p.continues = !is_space(text[0]);
  p.ends_space = is_space(text[length - 1]);
  for (size_t i = 1; i < length; i++)
    p.beginning += is_space(text[i - 1]) && !is_space(text[i]) && p.beginning < 255;
  return p;
}

/* Bytes of an incomplete character give no text yet and belong to a word. */
static attend_status classify_all(word_bounds *b, const attend_tokenizer *t, attend_detokenizer *d,
                                  int32_t letter) {
  const char *text;
  size_t length;
  attend_status status = ATTEND_OK;
  for (int32_t id = 0; id < b->n && !status; id++) {
    bool known = id < attend_tokenizer_count(t) && attend_tokenizer_piece(t, id, NULL) &&
                 !attend_tokenizer_is_special(t, id);
    b->pieces[id].silent = true;
    if (!known) continue;
    status = attend_detokenizer_push(d, letter, &text, &length);
    if (!status) status = attend_detokenizer_push(d, id, &text, &length);
    if (status) break;
    b->pieces[id] = classify(text, length);
    if (!length) b->pieces[id] = (piece){.continues = true};
    status = attend_detokenizer_finish(d, &text, &length);
  }
  return status;
}

/* A token whose text ends in a letter. */
static attend_status find_letter(const attend_tokenizer *t, int32_t *letter) {
  attend_encoding *e;
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = true};
  attend_status status = attend_encoding_create(t, &e);
  if (!status) status = attend_encode(e, "a", 1, &o);
  *letter = !status && e->count ? e->id[e->count - 1] : 0;
  attend_encoding_free(e);
  return status;
}

static attend_status fill(word_bounds *b, const attend_tokenizer *tokenizer, const attend_config *c,
                          attend_context *ctx) {
  attend_detokenizer *d = NULL;
  int32_t letter;
  size_t n = (size_t)b->n;
  ATTEND_TRY(take_zeroed(ctx, n * sizeof *b->pieces, "words", &b->pieces));
  ATTEND_TRY(take_zeroed(ctx, n * sizeof *b->ends, "words", &b->ends));
  for (int i = 0; i < c->n_eos; i++) b->ends[c->eos[i]] = true;
  ATTEND_TRY(find_letter(tokenizer, &letter));
  ATTEND_TRY(attend_detokenizer_create(tokenizer, true, &d));
  attend_status status = classify_all(b, tokenizer, d, letter);
  attend_detokenizer_free(d);
  return status;
}

attend_status word_bounds_create(const attend_model *model, const attend_tokenizer *tokenizer,
                                 int min_words, int max_words, word_bounds **bounds) {
  attend_context *ctx = attend_model_context(model);
  const attend_config *c = attend_model_config(model);
  word_bounds *b;
  ATTEND_TRY(take_zeroed(ctx, sizeof *b, "words", &b));
  *b = (word_bounds){.n = c->vocab, .min_words = min_words, .max_words = max_words};
  *bounds = b;
  return fill(b, tokenizer, c, ctx);
}

void word_bounds_free(const attend_context *ctx, word_bounds *b) {
  if (!b) return;
  give(ctx, b->pieces);
  give(ctx, b->ends);
  give(ctx, b);
}

/* Words that a token adds behind a text that ends in a space or is empty
 * (`apart`), or does not. */
static int words_of(const piece *p, bool apart) {
  return p->silent ? 0 : p->beginning + (apart && p->continues);
}

static int32_t best_of(const attend_choice *c) {
  int32_t best = 0;
  for (int32_t id = 1; id < c->n; id++)
    if (c->logits[id] > c->logits[best]) best = id;
  return best;
}

void word_bounds_apply(const word_bounds *b, const attend_choice *c) {
  int words = 0;
  bool apart = true;
  for (int i = 0; i < c->count; i++) {
    const piece *p = &b->pieces[c->ids[i]];
    words += words_of(p, apart);
    if (!p->silent) apart = p->ends_space;
  }
  for (int32_t id = 0; id < c->n && words < b->min_words; id++)
    if (b->ends[id]) c->logits[id] = -INFINITY;
  if (!b->max_words || words < b->max_words) return;
  bool complete = words_of(&b->pieces[best_of(c)], apart);
  for (int32_t id = 0; id < c->n; id++)
    if (!b->ends[id] && (complete || words_of(&b->pieces[id], apart))) c->logits[id] = -INFINITY;
}
