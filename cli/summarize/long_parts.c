/* Parts of a text that an encoder takes, cut where sentences end.
 *
 * Tokens are counted sentence by sentence, with the white space before them, so that
 * their sum is what the part will have.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "summarize/long_summary.h"

enum {
  USUAL = 512, /* tokens, for models that were made for any number */
  SPARE = 2,   /* tokens that a part may have more than its sentences */
  LEAST = 8,
  WHOLE = 1 << 28 /* a share that no part has: all of it is one */
};

attend_status units_open(const summarizer *s, units *u) {
  *u = (units){0};
  attend_status status = attend_encoding_create(s->m.tokenizer, &u->encoding);
  if (!status)
    status = attend_encode(u->encoding, s->prefix, strlen(s->prefix), NULL);
  if (status) return status;
  int reads = s->reads ? s->reads : USUAL;
  u->room = reads - (int)u->encoding->count - SPARE;
  if (u->room < LEAST) u->room = LEAST; /* what is over is cut, and counted */
  return ATTEND_OK;
}

void units_close(units *u) {
  attend_encoding_free(u->encoding);
  free(u->unit);
  *u = (units){0};
}

static void put(units *u, unit one) {
  if (u->count == u->capacity) {
    u->capacity = 2 * u->capacity + 256;
    u->unit = need_more(u->unit, (size_t)u->count, (size_t)u->capacity,
                        sizeof *u->unit);
  }
  u->unit[u->count++] = one;
}

static attend_status count_tokens(units *u, const char *text, size_t length) {
  attend_encode_options o = {.no_special = true};
  return attend_encode(u->encoding, text, length, &o);
}

/* The last token before `most` that ends where a word does; else `most`. */
static size_t last_word(const attend_encoding *e, const char *text,
                        size_t length, size_t from, size_t most) {
  for (size_t i = most; i > from + 1; i--) {
    size_t at = e->end[i - 1];
    if (at < length && isspace((unsigned char)text[at])) return i;
  }
  return most;
}

/* Longer than a part: a table, or a text without full stops. */
static void put_pieces(units *u, const char *text, size_t start, size_t end,
                       bool ends) {
  const attend_encoding *e = u->encoding;
  size_t room = (size_t)u->room, at = start;
  for (size_t i = 0; i < e->count;) {
    size_t most = i + room < e->count ? i + room : e->count;
    size_t next = most < e->count
                      ? last_word(e, text + start, end - start, i, most)
                      : most;
    size_t stop = next < e->count ? start + e->end[next - 1] : end;
    if (stop > at || next == e->count)
      put(u, (unit){at, stop, (int)(next - i), next == e->count && ends});
    at = stop;
    i = next;
  }
}

attend_status units_add(units *u, const char *text, size_t start, size_t end,
                        bool ends) {
  attend_status status = count_tokens(u, text + start, end - start);
  if (status) return status;
  if (u->encoding->count > (size_t)u->room)
    put_pieces(u, text, start, end, ends);
  else
    put(u, (unit){start, end, (int)u->encoding->count, ends});
  return ATTEND_OK;
}

attend_status units_read(units *u, const char *text, size_t length) {
  size_t from = 0;
  for (attend_sentence s = {0}; attend_sentence_next(text, length, &s);) {
    attend_status status =
        units_add(u, text, from, s.start + s.length, s.ends_paragraph);
    if (status) return status;
    from = s.start + s.length;
  }
  return ATTEND_OK;
}

/* ---- parts ---------------------------------------------------------------------- */

/* Whether a part of so many tokens is closed before the unit: it would not fit,
 * the part has its share, or nearly, and a paragraph has just ended. What has no
 * tokens, since it repeats what was said, opens none. */
static bool closes(const units *u, int tokens, int share, int at) {
  if (!u->unit[at].tokens) return false;
  return tokens + u->unit[at].tokens > u->room || tokens >= share ||
         (u->unit[at - 1].ends && 4 * tokens >= 3 * share);
}

int parts_cut(const units *u, int least, part **parts) {
  int64_t total = 0;
  int count = 0, tokens = 0;
  for (int i = 0; i < u->count; i++) total += u->unit[i].tokens;
  int64_t wanted = (total + u->room - 1) / u->room;
  if (wanted < least) wanted = least;
  int share = wanted > 1 ? (int)((total + wanted - 1) / wanted) : WHOLE;
  *parts = need((size_t)u->count + 1, sizeof **parts);
  for (int i = 0; i < u->count; i++) {
    if (!count || closes(u, tokens, share, i)) {
      (*parts)[count++] = (part){i, 0};
      tokens = 0;
    }
    (*parts)[count - 1].count++;
    tokens += u->unit[i].tokens;
  }
  return count;
}
