/* Detokenizer: ids to text, one token at a time.
 *
 * The bytes of a token go to `token`, the steps of the tokenizer's "decoder" change
 * them, and only complete UTF-8 characters are output; the bytes of an incomplete one
 * wait for the next token.
 */
#define _GNU_SOURCE /* memmem */
#include "text/tokenizer.h"

enum { MOST_TOKEN_GROWTH = 1024 }; /* bytes, plus MOST_GROWTH times the token */

typedef struct {
  char *bytes;
  size_t length, capacity;
} text_buffer;

struct attend_detokenizer {
  const attend_tokenizer *t;
  attend_context own;
  bool skip_special;
  bool begun;                   /* a token has been decoded */
  size_t source_length;         /* of the current token */
  bool space_waiting;           /* of a finished word: written if another follows */
  size_t stripped[DECODE_MOST]; /* characters that a STRIP after FUSE removed */
  text_buffer token, other, out;
  char open[4]; /* bytes of an incomplete character */
  size_t open_length;
};

attend_status attend_detokenizer_create(const attend_tokenizer *tokenizer, bool skip_special,
                                        attend_detokenizer **decoder) {
  *decoder = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(tokenizer->ctx, sizeof **decoder, "a decoder", decoder));
  (*decoder)->t = tokenizer;
  (*decoder)->skip_special = skip_special;
  return context_child(tokenizer->ctx, 1, &(*decoder)->own);
}

void attend_detokenizer_free(attend_detokenizer *d) {
  if (!d) return;
  ctx_free(&d->own, d->token.bytes);
  ctx_free(&d->own, d->other.bytes);
  ctx_free(&d->own, d->out.bytes);
  ctx_free(d->t->ctx, d);
}

const char *attend_detokenizer_message(const attend_detokenizer *d) { return d->own.message; }

/* Keeps a terminating zero byte. */
static attend_status put(attend_detokenizer *d, text_buffer *b, const char *bytes, size_t length) {
  ATTEND_TRY(grow(&d->own, &b->bytes, &b->capacity, b->length + length + 1, 1, "a text"));
  if (length) memcpy(b->bytes + b->length, bytes, length);
  b->length += length;
  b->bytes[b->length] = 0;
  return ATTEND_OK;
}

/* ---- complete characters ---------------------------------------------------------- */

static attend_status put_replacement(attend_detokenizer *d) {
  return put(d, &d->out, "\xef\xbf\xbd", 3);
}

/* Outputs complete characters; `all`: the rest too, as U+FFFD. */
static attend_status let_through(attend_detokenizer *d, const char *s, size_t n, bool all) {
  size_t kept = 0, i = 0;
  uint32_t c;
  while (i < n) {
    int length = utf8_read(s + i, n - i, &c);
    if (length > 0) {
      i += (size_t)length;
      continue;
    }
    ATTEND_TRY(put(d, &d->out, s + kept, i - kept));
    kept = i;
    if (c == UTF8_OPEN && !all) break;
    ATTEND_TRY(put_replacement(d));
    i += (size_t)-length;
    kept = i;
  }
  ATTEND_TRY(put(d, &d->out, s + kept, i - kept));
  d->open_length = n - i;
  if (n > i) memcpy(d->open, s + i, n - i);
  return ATTEND_OK;
}

static attend_status pass(attend_detokenizer *d) {
  if (!d->open_length) return let_through(d, d->token.bytes, d->token.length, false);
  d->other.length = 0;
  ATTEND_TRY(put(d, &d->other, d->open, d->open_length));
  ATTEND_TRY(put(d, &d->other, d->token.bytes, d->token.length));
  return let_through(d, d->other.bytes, d->other.length, false);
}

/* ---- steps ------------------------------------------------------------------------ */

static void swap(attend_detokenizer *d) {
  text_buffer b = d->token;
  d->token = d->other;
  d->other = b;
}

/* Fails if the token grows too much by `more` bytes. */
static attend_status check_token(attend_detokenizer *d, size_t more) {
  size_t max = MOST_GROWTH * d->source_length + MOST_TOKEN_GROWTH;
  if (d->other.length + more <= max) return ATTEND_OK;
  return fail(&d->own, ATTEND_UNSUPPORTED,
              "the tokenizer's decoder makes more than %zu bytes of a token of "
              "%zu: look at its Replace steps",
              max, d->source_length);
}

static attend_status replace(attend_detokenizer *d, chars what, chars with) {
  size_t at = 0;
  const char *found;
  if (!what.length || d->token.length < what.length) return ATTEND_OK;
  d->other.length = 0;
  while ((found = memmem(d->token.bytes + at, d->token.length - at, what.bytes, what.length))) {
    size_t place = (size_t)(found - d->token.bytes);
    ATTEND_TRY(check_token(d, place - at + with.length));
    ATTEND_TRY(put(d, &d->other, d->token.bytes + at, place - at));
    ATTEND_TRY(put(d, &d->other, with.bytes, with.length));
    at = place + what.length;
  }
  if (!at) return ATTEND_OK;
  ATTEND_TRY(put(d, &d->other, d->token.bytes + at, d->token.length - at));
  swap(d);
  return ATTEND_OK;
}

static void cut_front(attend_detokenizer *d, size_t n) {
  d->token.length -= n;
  memmove(d->token.bytes, d->token.bytes + n, d->token.length);
}

static bool is_at(const attend_detokenizer *d, size_t at, chars s) {
  return s.length && d->token.length - at >= s.length &&
         !memcmp(d->token.bytes + at, s.bytes, s.length);
}

static bool front_is(const attend_detokenizer *d, chars s) { return is_at(d, 0, s); }

static bool back_is(const attend_detokenizer *d, chars s) {
  return s.length && d->token.length >= s.length &&
         !memcmp(d->token.bytes + d->token.length - s.length, s.bytes, s.length);
}

/* Removes up to st->start characters in front and st->stop behind: of each token or,
 * after FUSE, of the whole text, where only the front is known. */
static void strip(attend_detokenizer *d, const decode_step *st, size_t *taken, bool fused) {
  size_t here = 0, *count = fused ? taken : &here, front = 0;
  for (; *count < (size_t)st->start && is_at(d, front, st->text); ++*count)
    front += st->text.length;
  cut_front(d, front);
  if (fused && d->token.length) *taken = (size_t)st->start;
  for (int i = 0; i < st->stop && !fused && back_is(d, st->text); i++)
    d->token.length -= st->text.length;
}

static attend_status put_space_in_front(attend_detokenizer *d) {
  d->other.length = 0;
  ATTEND_TRY(put(d, &d->other, " ", 1));
  ATTEND_TRY(put(d, &d->other, d->token.bytes, d->token.length));
  swap(d);
  return ATTEND_OK;
}

static chars str(const char *s) { return (chars){s, strlen(s)}; }

/* Python's clean_up_tokenization, token by token. */
static attend_status clean_up(attend_detokenizer *d) {
  static const char *const list[][2] = {{" .", "."},     {" ?", "?"},           {" !", "!"},
                                        {" ,", ","},     {" ' ", "'"},          {" n't", "n't"},
                                        {" 'm", "'m"},   {" do not", " don't"}, {" 's", "'s"},
                                        {" 've", "'ve"}, {" 're", "'re"}};
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    ATTEND_TRY(replace(d, str(list[i][0]), str(list[i][1])));
  return ATTEND_OK;
}

static attend_status step_wordpiece(attend_detokenizer *d, const decode_step *st) {
  if (d->begun && front_is(d, st->text))
    cut_front(d, st->text.length);
  else if (d->begun)
    ATTEND_TRY(put_space_in_front(d));
  return st->cleanup ? clean_up(d) : ATTEND_OK;
}

static attend_status step_metaspace(attend_detokenizer *d, const decode_step *st) {
  if (!d->begun && st->prepend && front_is(d, st->text)) cut_front(d, st->text.length);
  return replace(d, st->text, str(" "));
}

/* A word suffix becomes a space if something follows. */
static attend_status step_suffix(attend_detokenizer *d, const decode_step *st) {
  bool waiting = d->space_waiting;
  d->space_waiting = back_is(d, st->text);
  if (d->space_waiting) d->token.length -= st->text.length;
  return waiting ? put_space_in_front(d) : ATTEND_OK;
}

static attend_status run_steps(attend_detokenizer *d, int32_t id) {
  const piece *p = &d->t->vocab.piece[id];
  bool fused = false;
  for (int i = 0; i < d->t->decodes; i++) {
    const decode_step *st = &d->t->decode[i];
    int byte = byte_piece(p->name.bytes, p->name.length);
    char raw = (char)byte;
    attend_status status = ATTEND_OK;
    if (st->kind == DECODE_REPLACE) status = replace(d, st->text, st->with);
    if (st->kind == DECODE_FUSE) fused = true;
    if (st->kind == DECODE_STRIP) strip(d, st, &d->stripped[i], fused);
    if (st->kind == DECODE_WORDPIECE) status = step_wordpiece(d, st);
    if (st->kind == DECODE_METASPACE) status = step_metaspace(d, st);
    if (st->kind == DECODE_SUFFIX) status = step_suffix(d, st);
    if (st->kind == DECODE_BYTES && byte >= 0) {
      d->token.length = 0;
      status = put(d, &d->token, &raw, 1);
    }
    ATTEND_TRY(status);
  }
  return ATTEND_OK;
}

/* The bytes that the token stands for, or its name, depending on the steps. */
static chars source_of(const attend_tokenizer *t, int32_t id) {
  const piece *p = &t->vocab.piece[id];
  if (id == t->model.unk && t->unk_surface.bytes) return t->unk_surface;
  for (int i = 0; i < t->decodes; i++)
    if (t->decode[i].kind == DECODE_BYTE_LEVEL) return p->key;
  return p->name;
}

static attend_status decode_one(attend_detokenizer *d, int32_t id) {
  const attend_tokenizer *t = d->t;
  if (id < 0 || (size_t)id >= t->vocab.real || !t->vocab.piece[id].kind)
    return fail(&d->own, ATTEND_INVALID,
                "the id %d has no piece: this vocabulary has ids from 0 to %zu", (int)id,
                t->vocab.real - 1);
  if (d->skip_special && t->vocab.piece[id].special) return ATTEND_OK;
  chars source = source_of(t, id);
  d->source_length = source.length;
  d->token.length = 0;
  if (!t->decodes && d->begun) ATTEND_TRY(put(d, &d->token, " ", 1));
  ATTEND_TRY(put(d, &d->token, source.bytes, source.length));
  ATTEND_TRY(run_steps(d, id));
  d->begun = true;
  return pass(d);
}

/* ---- public functions ------------------------------------------------------------- */

static void begin(attend_detokenizer *d) {
  d->begun = d->space_waiting = false;
  d->open_length = 0;
  memset(d->stripped, 0, sizeof d->stripped);
}

static void show(const attend_detokenizer *d, const char **text, size_t *length) {
  *text = d->out.bytes ? d->out.bytes : "";
  *length = d->out.length;
}

attend_status attend_detokenizer_push(attend_detokenizer *d, int32_t id, const char **text,
                                      size_t *length) {
  d->out.length = 0;
  ATTEND_TRY(put(d, &d->out, "", 0));
  ATTEND_TRY(decode_one(d, id));
  show(d, text, length);
  return ATTEND_OK;
}

static attend_status flush(attend_detokenizer *d) {
  char rest[4];
  size_t n = d->open_length;
  memcpy(rest, d->open, n);
  ATTEND_TRY(let_through(d, rest, n, true));
  begin(d);
  return ATTEND_OK;
}

attend_status attend_detokenizer_finish(attend_detokenizer *d, const char **text, size_t *length) {
  d->out.length = 0;
  ATTEND_TRY(put(d, &d->out, "", 0));
  ATTEND_TRY(flush(d));
  show(d, text, length);
  return ATTEND_OK;
}

attend_status attend_decode(attend_detokenizer *d, const int32_t *ids, size_t count,
                            const char **text, size_t *length) {
  begin(d);
  d->out.length = 0;
  ATTEND_TRY(put(d, &d->out, "", 0));
  for (size_t i = 0; i < count; i++) ATTEND_TRY(decode_one(d, ids[i]));
  ATTEND_TRY(flush(d));
  show(d, text, length);
  return ATTEND_OK;
}
