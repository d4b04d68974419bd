/* Cutting: a text to words and added tokens.
 *
 * Walks a text through added tokens, normalizers and pre-tokenizers, portion by
 * portion. encode.c turns the words into ids, tally.c counts them: what is learnt from
 * a text is what encoding will see.
 */
#include "text/tokenizer.h"

enum { LONGEST_TEXT = INT32_MAX / 4 }; /* offsets inside are 32 bits wide */

typedef struct {
  const attend_tokenizer *t;
  scratch *s;
  const segment_sink *sink;
} cutting;

static attend_status put_token_at(const cutting *c, const view *v, size_t start,
                                  size_t end, int32_t id) {
  return c->sink->token(c->sink->user, id, view_from(v, start),
                        view_to(v, end - 1));
}

static attend_status cut_plain(const cutting *c, view v) {
  span *spans;
  size_t count, before = v.length;
  if (!v.length) return ATTEND_OK;
  ATTEND_TRY(split_text(c->t, c->s, &v, &spans, &count));
  size_t more = v.length > before ? v.length - before : 0;
  ATTEND_TRY(check_growth(c->s, more));
  c->s->room -= more;
  return c->sink->words(c->sink->user, &v, spans, count);
}

/* A portion of text between added tokens: normalized, and then between those
 * that are looked for in normalized text. */
static attend_status cut_portion(const cutting *c, view v) {
  size_t at = 0, start, end;
  int32_t id;
  ATTEND_TRY(normalize(c->t, c->s, v, &v));
  while (added_find(&c->t->added, true, &v, at, &start, &end, &id)) {
    ATTEND_TRY(cut_plain(c, view_slice(&v, at, start)));
    ATTEND_TRY(put_token_at(c, &v, start, end, id));
    c->s->carry = 0;
    at = end;
  }
  return cut_plain(c, view_slice(&v, at, v.length));
}

static attend_status cut_gap(const cutting *c, view v) {
  c->s->carry = 0;
  for (size_t at = 0, end; at < v.length; at = end) {
    end = portion_end(c->t, &v, at);
    c->s->first = at == 0;
    c->s->last = end == v.length;
    ATTEND_TRY(cut_portion(c, view_slice(&v, at, end)));
  }
  return ATTEND_OK;
}

/* Between added tokens that are matched as they stand. */
static attend_status cut_between(const cutting *c, view v) {
  size_t at = 0, start, end;
  int32_t id;
  while (added_find(&c->t->added, false, &v, at, &start, &end, &id)) {
    ATTEND_TRY(cut_gap(c, view_slice(&v, at, start)));
    ATTEND_TRY(put_token_at(c, &v, start, end, id));
    at = end;
  }
  return cut_gap(c, view_slice(&v, at, v.length));
}

attend_status segment_text(const attend_tokenizer *t, scratch *s,
                           const char *text, size_t length,
                           const segment_sink *sink) {
  const cutting c = {t, s, sink};
  view v = {text, NULL, NULL, length, 0};
  if (length > LONGEST_TEXT)
    return fail(s->ctx, ATTEND_INVALID,
                "the text has %zu bytes: encode at most %d at a time", length,
                LONGEST_TEXT);
  scratch_begin(s, length);
  if (!utf8_is_valid(text, length)) {
    s->clean.length = 0;
    ATTEND_TRY(strand_put_lossy(s->ctx, &s->clean, text, length));
    v = strand_view(&s->clean);
  }
  return cut_between(&c, v);
}
