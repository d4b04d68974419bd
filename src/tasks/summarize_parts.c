/* Parts of a text that fit the encoder, cut where sentences end.
 *
 * Tokens are counted sentence by sentence, with the white space before them, so that
 * their sum is the part's number of tokens.
 */
#include "tasks/summarize.h"

enum {
  USUAL = 512, /* tokens, for models without a limit */
  SPARE = 2,   /* tokens that a part may have more than its sentences */
  LEAST = 8,
  WHOLE = 1 << 28 /* more tokens than any part has: there is one part */
};

attend_status units_open(const attend_summarizer *s, units *u) {
  *u = (units){.ctx = s->ctx};
  attend_status status = attend_encoding_create(s->tokenizer, &u->encoding);
  if (!status) status = attend_encode(u->encoding, s->prefix, strlen(s->prefix), NULL);
  if (status) return status;
  int context = s->context ? s->context : USUAL;
  u->room = context - (int)u->encoding->count - SPARE;
  if (u->room < LEAST) u->room = LEAST; /* what does not fit is truncated and counted */
  return ATTEND_OK;
}

void units_close(units *u) {
  attend_encoding_free(u->encoding);
  give(u->ctx, u->unit);
  *u = (units){0};
}

static attend_status put(units *u, unit one) {
  ATTEND_TRY(grow(u->ctx, &u->unit, &u->capacity, u->count + 1, sizeof one, "sentences"));
  u->unit[u->count++] = one;
  return ATTEND_OK;
}

static attend_status count_tokens(units *u, const char *text, size_t length) {
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .no_special = true};
  return attend_encode(u->encoding, text, length, &o);
}

/* The last token before `most` that ends where a word does; else `most`. */
static size_t last_word(const attend_encoding *e, const char *text, size_t length, size_t from,
                        size_t most) {
  for (size_t i = most; i > from + 1; i--) {
    size_t at = e->end[i - 1];
    if (at < length && is_space(text[at])) return i;
  }
  return most;
}

/* Longer than a part: a table, or a text without full stops. */
static attend_status put_pieces(units *u, const char *text, size_t start, size_t end,
                                bool ends_paragraph) {
  const attend_encoding *e = u->encoding;
  size_t room = (size_t)u->room, at = start;
  for (size_t i = 0; i < e->count;) {
    size_t most = i + room < e->count ? i + room : e->count;
    size_t next = most < e->count ? last_word(e, text + start, end - start, i, most) : most;
    size_t stop = next < e->count ? start + e->end[next - 1] : end;
    if (stop > at || next == e->count)
      ATTEND_TRY(put(u, (unit){at, stop, (int)(next - i), next == e->count && ends_paragraph}));
    at = stop;
    i = next;
  }
  return ATTEND_OK;
}

attend_status units_add(units *u, const char *text, size_t start, size_t end, bool ends_paragraph) {
  ATTEND_TRY(count_tokens(u, text + start, end - start));
  if (u->encoding->count > (size_t)u->room) return put_pieces(u, text, start, end, ends_paragraph);
  return put(u, (unit){start, end, (int)u->encoding->count, ends_paragraph});
}

attend_status units_read(units *u, const char *text, size_t length) {
  size_t from = 0;
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);) {
    ATTEND_TRY(units_add(u, text, from, s.start + s.length, s.ends_paragraph));
    from = s.start + s.length;
  }
  return ATTEND_OK;
}

/* ---- parts ---------------------------------------------------------------------- */

/* Whether a part of so many tokens is closed before unit `at`: that does not fit, or
 * the part has its share, or nearly and a paragraph has just ended. A unit without
 * tokens, which repeats the one before it, begins no part. */
static bool closes(const units *u, int tokens, int share, size_t at) {
  if (!u->unit[at].tokens) return false;
  return tokens + u->unit[at].tokens > u->room || tokens >= share ||
         (u->unit[at - 1].ends_paragraph && 4 * tokens >= 3 * share);
}

attend_status parts_cut(const units *u, int least, part **parts, int *count) {
  int64_t total = 0;
  int tokens = 0, n = 0;
  for (size_t i = 0; i < u->count; i++) total += u->unit[i].tokens;
  int64_t needed = (total + u->room - 1) / u->room;
  if (needed < least) needed = least;
  int share = needed > 1 ? (int)((total + needed - 1) / needed) : WHOLE;
  ATTEND_TRY(take(u->ctx, size_times(u->count, sizeof **parts), "parts", parts));
  for (size_t i = 0; i < u->count; i++) {
    if (!n || closes(u, tokens, share, i)) {
      (*parts)[n++] = (part){(int)i, 0};
      tokens = 0;
    }
    (*parts)[n - 1].count++;
    tokens += u->unit[i].tokens;
  }
  *count = n;
  return ATTEND_OK;
}
