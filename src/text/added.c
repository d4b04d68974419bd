/* Added tokens: found in the text before anything else happens to it.
 *
 * Place: text/ - segments.c asks for the next one. Those that are "normalized"
 * are looked for in normalized text, the others in the text as it stands; of
 * several that start at a place the longest counts.
 */
#include "text/tokenizer.h"

#include <stdlib.h>

static bool starts_with(const view *v, size_t at, const chars *s) {
  return v->length - at >= s->length && s->length &&
         !memcmp(v->bytes + at, s->bytes, s->length);
}

static uint32_t char_before(const view *v, size_t at, size_t *start) {
  uint32_t c;
  *start = at - 1;
  while (*start && ((unsigned char)v->bytes[*start] & 0xc0) == 0x80) --*start;
  utf8_next(v->bytes + *start, at - *start, &c);
  return c;
}

static bool is_alone(const view *v, size_t start, size_t end) {
  uint32_t c;
  size_t place;
  if (start && is_word(char_before(v, start, &place))) return false;
  if (end == v->length) return true;
  utf8_next(v->bytes + end, v->length - end, &c);
  return !is_word(c);
}

static const added_token *token_at(const added_list *list, bool normalized,
                                   const view *v, size_t at) {
  for (size_t i = 0; i < list->count; i++) {
    const added_token *a = &list->token[i];
    if (a->normalized != normalized || !starts_with(v, at, &a->match)) continue;
    /* a longer match that does not stand alone hides shorter ones */
    if (a->single_word && !is_alone(v, at, at + a->match.length)) return NULL;
    return a;
  }
  return NULL;
}

/* Takes the white space in that the token asks for, from `low` on. */
static void widen(const added_token *a, const view *v, size_t low,
                  size_t *start, size_t *end) {
  size_t place, n;
  uint32_t c;
  while (a->lstrip && *start > low &&
         is_space(char_before(v, *start, &place)) && place >= low)
    *start = place;
  while (a->rstrip && *end < v->length) {
    n = utf8_next(v->bytes + *end, v->length - *end, &c);
    if (!is_space(c)) break;
    *end += n;
  }
}

bool added_find(const added_list *list, bool normalized, const view *v,
                size_t at, size_t *start, size_t *end, int32_t *id) {
  unsigned bit = normalized ? 2 : 1;
  if (!list->any[normalized]) return false;
  for (size_t i = at; i < v->length; i++) {
    if (!(list->first[(unsigned char)v->bytes[i]] & bit)) continue;
    const added_token *a = token_at(list, normalized, v, i);
    if (!a) continue;
    *start = i;
    *end = i + a->match.length;
    *id = a->id;
    widen(a, v, at, start, end);
    return true;
  }
  return false;
}

/* ---- making the list -------------------------------------------------------------- */

/* Two of the same content are one; the later says how it is matched. */
attend_status added_put(attend_tokenizer *t, const added_token *token) {
  added_list *list = &t->added;
  added_token copy = *token;
  size_t at = 0;
  while (at < list->count &&
         (list->token[at].content.length != token->content.length ||
          memcmp(list->token[at].content.bytes, token->content.bytes,
                 token->content.length)))
    at++;
  if (at < list->count) {
    copy.content = list->token[at].content;
    list->token[at] = copy;
    return ATTEND_OK;
  }
  ATTEND_TRY(grow(t->ctx, &list->token, &list->capacity, at + 1,
                  sizeof *list->token, "added tokens"));
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, token->content.bytes,
                       token->content.length, &copy.content.bytes));
  list->token[list->count++] = copy;
  return ATTEND_OK;
}

static int by_length(const void *a, const void *b) {
  const added_token *x = a, *y = b;
  if (x->match.length != y->match.length)
    return x->match.length > y->match.length ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

static attend_status normalize_token(attend_tokenizer *t, scratch *s,
                                     added_token *a) {
  view v = {a->content.bytes, NULL, NULL, a->content.length, 0};
  if (a->match.bytes) return ATTEND_OK; /* the loader knew */
  a->match = a->content;
  if (!a->normalized || !t->normalizers.count) return ATTEND_OK;
  ATTEND_TRY(normalize(t, s, v, &v));
  a->match.length = v.length;
  return pool_copy(t->ctx, &t->pool, v.bytes, v.length, &a->match.bytes);
}

attend_status added_finish(attend_tokenizer *t) {
  added_list *list = &t->added;
  scratch s;
  attend_status status = scratch_start(t, &s);
  for (size_t i = 0; i < list->count && !status; i++) {
    added_token *a = &list->token[i];
    status = normalize_token(t, &s, a);
    if (status || !a->match.length) continue;
    list->any[a->normalized] = true;
    list->first[(unsigned char)a->match.bytes[0]] |= a->normalized ? 2 : 1;
  }
  scratch_free(t, &s);
  if (list->count)
    qsort(list->token, list->count, sizeof *list->token, by_length);
  return status;
}
