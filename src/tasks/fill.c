/* Filling masks: finding them in a text, and the two methods: by the masked-LM head of an
 * encoder, and by an encoder-decoder that rewrites the text.
 */
#include "attend/fill.h"

#include <math.h>
#include <stdio.h>

#include "attend/generate.h"
#include "base/options.h"
#include "layers/layers.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

enum { TOP = 5, MOST_TOP = 1000, MOST_MASKS = 64, LONGEST_MASK = 32 };

typedef struct {
  char *text; /* with the masks as the tokenizer spells them; ends in a zero byte */
  size_t length;
  int masks;
  size_t start[MOST_MASKS], end[MOST_MASKS]; /* bytes of the text */
} masked_text;

typedef struct {
  attend_filled public;
  char *token, *text; /* owned */
} filled;

struct attend_filler {
  attend_context own; /* a child of the model's */
  attend_model *model;
  const attend_tokenizer *tokenizer;
  attend_fill_options o;       /* resolved */
  char spelling[LONGEST_MASK]; /* of the mask token; with sentinels "" */
  bool sentinels;              /* masks are <extra_id_0>, <extra_id_1>, ..: T5 */
  bool wordpiece;
  attend_encoding *encoding;
  attend_detokenizer *detokenizer;
  attend_session *session; /* of an encoder, else NULL */
  masked_text text, pair;
  filled *results; /* [count] */
  size_t capacity;
  int count;
  bool stopped; /* progress ended the beam search */
  int step, most_steps;
};

/* ---- masks in a text -------------------------------------------------------------------- */

static bool starts_with(const char *text, size_t length, const char *word) {
  size_t n = strlen(word);
  return n && n <= length && !memcmp(text, word, n);
}

size_t mask_at(const char *text, size_t length, const char *own) {
  size_t blank = 0;
  if (starts_with(text, length, own)) return strlen(own);
  if (starts_with(text, length, "[MASK]") || starts_with(text, length, "<mask>")) return 6;
  while (blank < length && text[blank] == '_') blank++;
  return blank >= 3 ? blank : 0;
}

static void spell_mask(const attend_filler *f, int number, char own[LONGEST_MASK]) {
  if (f->sentinels)
    snprintf(own, LONGEST_MASK, "<extra_id_%d>", number);
  else
    memcpy(own, f->spelling, LONGEST_MASK);
}

/* Masks beyond the last that is allowed stay as they are. */
static attend_status find_masks(attend_filler *f, const char *text, size_t length, masked_text *m) {
  char own[LONGEST_MASK];
  size_t capacity = size_add(length, MOST_MASKS * LONGEST_MASK + 1);
  ATTEND_TRY(ctx_alloc(&f->own, capacity, "a masked text", &m->text));
  for (size_t at = 0; at < length;) {
    spell_mask(f, m->masks, own);
    size_t n = m->masks < MOST_MASKS ? mask_at(text + at, length - at, own) : 0;
    if (n) {
      m->start[m->masks] = m->length;
      memcpy(m->text + m->length, own, strlen(own));
      m->length += strlen(own);
      m->end[m->masks++] = m->length;
      at += n;
    } else {
      m->text[m->length++] = text[at++];
    }
  }
  m->text[m->length] = 0;
  return ATTEND_OK;
}

/* The text with bytes [start, end) replaced. */
static attend_status replace(attend_filler *f, const masked_text *m, size_t start, size_t end,
                             const char *word, char **text) {
  size_t n = strlen(word), rest = m->length - end;
  ATTEND_TRY(ctx_alloc(&f->own, start + n + rest + 1, "a filled text", text));
  if (start) memcpy(*text, m->text, start);
  memcpy(*text + start, word, n);
  if (rest) memcpy(*text + start + n, m->text + end, rest);
  (*text)[start + n + rest] = 0;
  return ATTEND_OK;
}

/* ---- results ---------------------------------------------------------------------------- */

/* A result whose strings follow, in f->results[f->count - 1]. */
static attend_status add_result(attend_filler *f, attend_filled one) {
  ATTEND_TRY(grow(&f->own, &f->results, &f->capacity, (size_t)f->count + 1, sizeof *f->results,
                  "filled masks"));
  f->results[f->count++] = (filled){.public = one};
  return ATTEND_OK;
}

static attend_status set_token(attend_filler *f, const char *token, size_t length) {
  filled *last = &f->results[f->count - 1];
  ATTEND_TRY(text_copy(&f->own, token, length, &last->token));
  last->public.token = last->token;
  return ATTEND_OK;
}

static attend_status set_text(attend_filler *f, const masked_text *in, size_t start, size_t end,
                              const char *word) {
  filled *last = &f->results[f->count - 1];
  ATTEND_TRY(replace(f, in, start, end, word, &last->text));
  last->public.text = last->text;
  return ATTEND_OK;
}

static void drop_results(attend_filler *f) {
  for (int i = 0; i < f->count; i++) {
    ctx_free(&f->own, f->results[i].token);
    ctx_free(&f->own, f->results[i].text);
  }
  f->count = 0;
  ctx_free(&f->own, f->text.text);
  ctx_free(&f->own, f->pair.text);
  f->text = f->pair = (masked_text){0};
}

static attend_status stopped(attend_filler *f) {
  return fail(&f->own, ATTEND_STOPPED, "filling the masks was stopped");
}

static attend_status encode(attend_filler *f) {
  const attend_config *c = attend_model_config(f->model);
  bool bounded = c->position == ATTEND_POSITIONS_LEARNED;
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = f->pair.text,
                             .pair_length = f->pair.length,
                             .max_length = bounded ? (size_t)c->positions : 0};
  attend_status status = attend_encode(f->encoding, f->text.text, f->text.length, &o);
  if (status) return encoding_failed(&f->own, status, f->encoding);
  if (!f->encoding->dropped) return ATTEND_OK;
  return fail(&f->own, ATTEND_UNSUPPORTED,
              "the text is longer than the %d tokens that the model reads: "
              "shorten it",
              c->positions);
}

/* *text stays until the next call. */
static attend_status detokenize(attend_filler *f, const int32_t *ids, int count,
                                const char **text) {
  size_t length;
  attend_status status = attend_decode(f->detokenizer, ids, (size_t)count, text, &length);
  if (!status) return ATTEND_OK;
  return fail(&f->own, status, "%s", attend_detokenizer_message(f->detokenizer));
}

/* ---- by the masked-LM head -------------------------------------------------------------- */

static bool has_nan(const float *x, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (isnan(x[i])) return true;
  return false;
}

/* The text of a token at byte *start. A WordPiece that continues the word before it
 * (##s) removes the space there. *word stays until the detokenizer's next call. */
static attend_status word_of(attend_filler *f, int32_t id, const masked_text *in, size_t *start,
                             const char **word) {
  const char *piece = attend_tokenizer_piece(f->tokenizer, id, NULL);
  *word = "";
  if (!piece) return ATTEND_OK;
  if (f->wordpiece && !strncmp(piece, "##", 2)) {
    if (*start && in->text[*start - 1] == ' ') (*start)--;
    *word = piece + 2;
    return ATTEND_OK;
  }
  ATTEND_TRY(detokenize(f, &id, 1, word));
  if (*start == 0) *word += strspn(*word, " ");
  return ATTEND_OK;
}

static attend_status add_choice(attend_filler *f, attend_filled one, size_t token) {
  const attend_encoding *e = f->encoding;
  const masked_text *in = e->part[token] == 1 ? &f->pair : &f->text;
  const char *piece = attend_tokenizer_piece(f->tokenizer, one.id, NULL), *word;
  size_t start = e->start[token];
  ATTEND_TRY(word_of(f, one.id, in, &start, &word));
  const char *shown = piece && !strncmp(piece, "##", 2) ? piece : word + strspn(word, " ");
  ATTEND_TRY(add_result(f, one));
  ATTEND_TRY(set_token(f, shown, strlen(shown)));
  return set_text(f, in, start, e->end[token], word);
}

static attend_status add_choices(attend_filler *f, int mask, size_t token, const float *logits) {
  int n = attend_model_config(f->model)->vocab;
  int k = f->o.top < n ? f->o.top : n;
  int32_t *best;
  ATTEND_TRY(ctx_alloc(&f->own, (size_t)k * sizeof *best, "candidates", &best));
  attend_top_k(n, logits, k, best);
  const double largest = (double)logits[best[0]];
  const double sum = exp_sum(n, logits, logits[best[0]]);
  attend_status status = ATTEND_OK;
  for (int r = 0; r < k && !status; r++) {
    double probability = exp((double)logits[best[r]] - largest) / sum;
    status = add_choice(
        f, (attend_filled){.mask = mask, .rank = r, .id = best[r], .probability = probability},
        token);
  }
  ctx_free(&f->own, best);
  return status;
}

static int find_places(const attend_filler *f, int32_t *places) {
  const attend_encoding *e = f->encoding;
  int32_t mask = attend_tokenizer_special(f->tokenizer, ATTEND_SPECIAL_MASK);
  int count = 0;
  for (size_t i = 0; i < e->count; i++)
    if (e->id[i] == mask && e->part[i] >= 0 && count < 2 * MOST_MASKS) places[count++] = (int32_t)i;
  return count;
}

static attend_status read_logits(attend_filler *f, int count, const int32_t *places,
                                 float *logits) {
  const attend_encoding *e = f->encoding;
  size_t vocab = (size_t)attend_model_config(f->model)->vocab;
  ATTEND_TRY(attend_session_encode(f->session, 1, (int)e->count, e->id, NULL, e->type));
  ATTEND_TRY(attend_session_logits(f->session, count, places, logits));
  if (!has_nan(logits, (size_t)count * vocab)) return ATTEND_OK;
  return fail(&f->own, ATTEND_IO, "the model's logits are not finite: no token can fill a mask");
}

static attend_status fill_by_head(attend_filler *f) {
  int32_t places[2 * MOST_MASKS];
  size_t vocab = (size_t)attend_model_config(f->model)->vocab;
  float *logits;
  if (f->o.progress && f->o.progress(0, NULL, f->o.user)) return stopped(f);
  int count = find_places(f, places);
  if (!count) return ATTEND_OK;
  ATTEND_TRY(
      ctx_alloc(&f->own, SIZE_PRODUCT((size_t)count, vocab, sizeof *logits), "logits", &logits));
  attend_status status = read_logits(f, count, places, logits);
  for (int i = 0; i < count && !status; i++)
    status = add_choices(f, i, (size_t)places[i], logits + (size_t)i * vocab);
  ctx_free(&f->own, logits);
  return status;
}

/* ---- by rewriting ----------------------------------------------------------------------- */

static int32_t sentinel(const attend_filler *f, int number) {
  char name[LONGEST_MASK];
  spell_mask(f, number, name);
  return attend_tokenizer_find(f->tokenizer, name, strlen(name));
}

/* T5 writes <extra_id_0> filling <extra_id_1> ..: the ids of one filling. */
static int find_filling(const attend_filler *f, const attend_continuation *c, int mask, int *from) {
  int at = 0, to;
  while (at < c->count && c->ids[at] != sentinel(f, mask)) at++;
  *from = at < c->count ? at + 1 : at;
  for (to = *from; to < c->count && c->ids[to] != sentinel(f, mask + 1); to++)
    if (to + 1 == c->count && c->end == ATTEND_FINISH_TOKEN) break;
  return to - *from;
}

/* BART writes the whole text: the part of it between what precedes the mask and what
 * follows it. NULL: the rest is not the same. */
static const char *find_changed(const attend_filler *f, const char *written, size_t *length) {
  const masked_text *m = &f->text;
  size_t n = strlen(written), before = m->start[0], after = m->length - m->end[0];
  if (m->masks != 1 || n < before + after || memcmp(written, m->text, before) ||
      memcmp(written + n - after, m->text + m->end[0], after))
    return NULL;
  const char *from = written + before;
  size_t space = strspn(from, " "), left = n - before - after;
  if (space > left) return NULL;
  *length = left - space;
  return from + space;
}

static attend_status add_rewritten(attend_filler *f, const char *written) {
  static const masked_text nothing;
  size_t length;
  const char *changed = find_changed(f, written, &length);
  if (changed) ATTEND_TRY(set_token(f, changed, length));
  return set_text(f, &nothing, 0, 0, written);
}

static attend_status add_written(attend_filler *f, int rank, int mask,
                                 const attend_continuation *c) {
  attend_filled one = {
      .mask = mask, .rank = rank, .id = -1, .probability = exp(c->log_probability)};
  int from = 0, count = f->sentinels ? find_filling(f, c, mask, &from) : c->count;
  const char *written;
  ATTEND_TRY(add_result(f, one));
  ATTEND_TRY(detokenize(f, c->ids + from, count, &written));
  written += strspn(written, " ");
  if (!f->sentinels) return add_rewritten(f, written);
  ATTEND_TRY(set_token(f, written, strlen(written)));
  return set_text(f, &f->text, f->text.start[mask], f->text.end[mask], written);
}

/* Numbered masks have a list each; a text that is rewritten has one. */
static attend_status add_all_written(attend_filler *f, const attend_generation *g) {
  const attend_continuation *c;
  int lists = f->sentinels ? f->text.masks : 1;
  for (int mask = 0; mask < lists; mask++)
    for (int r = 0; r < f->o.top && (c = attend_generation_get(g, r)); r++)
      ATTEND_TRY(add_written(f, r, mask, c));
  return ATTEND_OK;
}

static int on_step(void *user) {
  attend_filler *f = user;
  double done = (double)f->step++ / f->most_steps;
  f->stopped = f->o.progress && f->o.progress(done < 1 ? done : 1, NULL, f->o.user);
  return f->stopped;
}

static attend_status fill_by_rewriting(attend_filler *f) {
  attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
  attend_prompt prompt = {f->encoding->id, (int)f->encoding->count};
  attend_generation *g;
  o.beams = o.samples = f->o.top;
  o.max_new = f->sentinels ? 16 * f->text.masks + 8 : 2 * prompt.count + 16;
  o.threads = f->o.threads;
  o.on_step = on_step;
  o.user = f;
  f->step = 0;
  f->most_steps = o.max_new;
  f->stopped = false;
  attend_status status = attend_generate(f->model, 1, &prompt, &o, &g);
  if (status)
    fail(&f->own, status, "%s", g ? attend_generation_message(g) : "no memory for a generation");
  else
    status = f->stopped ? stopped(f) : add_all_written(f, g);
  attend_generation_free(g);
  return status;
}

/* ---- a text ----------------------------------------------------------------------------- */

static attend_status find_all_masks(attend_filler *f, const char *text, size_t length,
                                    const char *pair, size_t pair_length) {
  attend_context *ctx = &f->own;
  ATTEND_CHECK(ctx, text || !length, "the text is NULL: give its address");
  ATTEND_CHECK(ctx, !pair || f->session, "a pair of texts is for encoders: %s reads one text",
               attend_model_config(f->model)->family);
  ATTEND_TRY(find_masks(f, text, length, &f->text));
  if (pair) ATTEND_TRY(find_masks(f, pair, pair_length, &f->pair));
  ATTEND_CHECK(ctx, f->text.masks + f->pair.masks,
               "there is no mask: write [MASK] where something is missing");
  return ATTEND_OK;
}

attend_status attend_fill(attend_filler *f, const char *text, size_t length, const char *pair,
                          size_t pair_length) {
  drop_results(f);
  attend_status status = find_all_masks(f, text, length, pair, pair_length);
  if (!status) status = encode(f);
  if (!status) status = f->session ? fill_by_head(f) : fill_by_rewriting(f);
  if (status) drop_results(f);
  return status;
}

const attend_filled *attend_filler_get(const attend_filler *f, int i) {
  return i >= 0 && i < f->count ? &f->results[i].public : NULL;
}
int attend_filler_masks(const attend_filler *f) { return f->text.masks + f->pair.masks; }
const char *attend_filler_text(const attend_filler *f) { return f->text.text ? f->text.text : ""; }

/* ---- fillers ---------------------------------------------------------------------------- */

static attend_status refuse(attend_filler *f, const char *why) {
  return fail(&f->own, ATTEND_UNSUPPORTED, "%s cannot fill masks: %s",
              attend_model_config(f->model)->family, why);
}

static attend_status check_model(attend_filler *f) {
  if (attend_model_config(f->model)->parts == ATTEND_DECODER)
    return refuse(f, "it continues texts and does not see what comes after");
  if (f->model->head.forward) return ATTEND_OK;
  return refuse(f,
                "the checkpoint has no masked-LM head, or it was not loaded; "
                "choose one that has");
}

static attend_status check_tokenizer(attend_filler *f) {
  const attend_tokenizer *t = f->tokenizer;
  ATTEND_CHECK(&f->own, t, "a filler needs the model's tokenizer");
  int32_t id = attend_tokenizer_special(t, ATTEND_SPECIAL_MASK);
  const char *mask = id < 0 ? NULL : attend_tokenizer_piece(t, id, NULL);
  f->wordpiece = !strcmp(attend_tokenizer_kind(t), "WordPiece");
  f->sentinels = id < 0 && attend_tokenizer_find(t, "<extra_id_0>", 12) >= 0;
  if (f->sentinels) return ATTEND_OK;
  if (!mask || strlen(mask) >= LONGEST_MASK) return refuse(f, "its tokenizer has no mask token");
  snprintf(f->spelling, sizeof f->spelling, "%s", mask);
  return ATTEND_OK;
}

static attend_status check_options(attend_filler *f) {
  attend_fill_options *o = &f->o;
  ATTEND_CHECK(&f->own, o->top >= 0 && o->top <= MOST_TOP, "the %d most probable: choose 1 to %d",
               o->top, MOST_TOP);
  if (!o->top) o->top = TOP;
  return o->threads ? attend_context_set_threads(&f->own, o->threads) : ATTEND_OK;
}

static attend_status prepare(attend_filler *f) {
  ATTEND_TRY(check_options(f));
  ATTEND_TRY(check_model(f));
  ATTEND_TRY(check_tokenizer(f));
  ATTEND_TRY(attend_encoding_create(f->tokenizer, &f->encoding));
  ATTEND_TRY(attend_detokenizer_create(f->tokenizer, true, &f->detokenizer));
  if (attend_model_config(f->model)->parts != ATTEND_ENCODER) return ATTEND_OK;
  return session_create(&f->own, f->model, NULL, &f->session);
}

attend_status attend_filler_create(attend_model *model, const attend_tokenizer *tokenizer,
                                   const attend_fill_options *options, attend_filler **filler) {
  attend_filler *f;
  if (filler) *filler = NULL;
  if (!model || !filler) return ATTEND_INVALID; /* no context, no result */
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *f, "a filler", &f));
  f->model = model;
  f->tokenizer = tokenizer;
  attend_status status = context_child(model->ctx, 0, &f->own);
  if (!status) status = OPTIONS_READ(&f->own, attend_fill_options, options, &f->o);
  if (!status) status = prepare(f);
  if (status)
    attend_filler_free(f);
  else
    *filler = f;
  return status;
}

void attend_filler_free(attend_filler *f) {
  if (!f) return;
  drop_results(f);
  ctx_free(&f->own, f->results);
  attend_session_free(f->session);
  attend_detokenizer_free(f->detokenizer);
  attend_encoding_free(f->encoding);
  ctx_free(f->model->ctx, f);
}

const char *attend_filler_message(const attend_filler *f) {
  return f ? f->own.message : "no filler was made";
}
