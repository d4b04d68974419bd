/* Added tokens: matched in the text before anything else is done to it.
 *
 * segments.c requests the next match. Tokens that are "normalized" are matched in
 * normalized text, the others in the raw text; of several that start at the same byte
 * the longest wins.
 */
#include "text/tokenizer.h"

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

static const added_token *token_at(const added_list *list, bool normalized, const view *v,
                                   size_t at) {
  const added_token *a = NULL;
  uint32_t node = 0;
  for (size_t i = at; i < v->length; i++) {
    const trie_edge *e = trie_step(&list->match[normalized], node, (unsigned char)v->bytes[i]);
    if (!e) break;
    node = e->child;
    if (e->value >= 0) a = &list->token[e->value];
  }
  /* a longer match that does not stand alone hides shorter ones */
  bool hides = a && a->single_word && !is_alone(v, at, at + a->match.length);
  return hides ? NULL : a;
}

/* Extends a match over the white space that lstrip and rstrip strip, from `low` on. */
static void widen(const added_token *a, const view *v, size_t low, size_t *start, size_t *end) {
  size_t place, n;
  uint32_t c;
  while (a->lstrip && *start > low && is_space(char_before(v, *start, &place)) && place >= low)
    *start = place;
  while (a->rstrip && *end < v->length) {
    n = utf8_next(v->bytes + *end, v->length - *end, &c);
    if (!is_space(c)) break;
    *end += n;
  }
}

bool added_find(const added_list *list, bool normalized, const view *v, size_t at, size_t *start,
                size_t *end, int32_t *id) {
  unsigned bit = normalized ? 2 : 1;
  if (!list->match[normalized].edge) return false;
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

static uint32_t *slot_of(const added_list *list, const chars *content) {
  size_t mask = list->slots - 1;
  size_t at = (size_t)hash_keyed(list->hash, content->bytes, content->length) & mask;
  for (; list->slot[at]; at = (at + 1) & mask) {
    const chars *c = &list->token[list->slot[at] - 1].content;
    if (c->length == content->length && !memcmp(c->bytes, content->bytes, c->length)) break;
  }
  return &list->slot[at];
}

static attend_status widen_slots(attend_context *ctx, added_list *list) {
  uint32_t *fresh;
  size_t slots = list->slots ? 2 * list->slots : 64;
  if (2 * list->count < list->slots) return ATTEND_OK;
  ATTEND_TRY(take_zeroed(ctx, slots * sizeof *fresh, "added tokens", &fresh));
  give(ctx, list->slot);
  if (!list->slots) list->hash = hash_key_draw();
  list->slot = fresh;
  list->slots = slots;
  for (size_t i = 0; i < list->count; i++)
    *slot_of(list, &list->token[i].content) = (uint32_t)(i + 1);
  return ATTEND_OK;
}

/* Tokens with the same content are one; the later entry says how it is matched. */
attend_status added_put(attend_tokenizer *t, const added_token *token) {
  added_list *list = &t->added;
  added_token copy = *token;
  ATTEND_TRY(widen_slots(t->ctx, list));
  uint32_t *slot = slot_of(list, &token->content);
  if (*slot) {
    copy.content = list->token[*slot - 1].content;
    list->token[*slot - 1] = copy;
    return ATTEND_OK;
  }
  ATTEND_TRY(grow(t->ctx, &list->token, &list->capacity, list->count + 1, sizeof *list->token,
                  "added tokens"));
  ATTEND_TRY(pool_copy(t->ctx, &t->pool, token->content.bytes, token->content.length,
                       &copy.content.bytes));
  list->token[list->count++] = copy;
  *slot = (uint32_t)list->count;
  return ATTEND_OK;
}

static attend_status normalize_token(attend_tokenizer *t, scratch *s, added_token *a) {
  view v = {a->content.bytes, NULL, NULL, a->content.length, 0};
  if (a->match.bytes) return ATTEND_OK; /* the loader found the id */
  a->match = a->content;
  if (!a->normalized || !t->normalizers.count) return ATTEND_OK;
  ATTEND_TRY(normalize(t, s, v, &v));
  a->match.length = v.length;
  return pool_copy(t->ctx, &t->pool, v.bytes, v.length, &a->match.bytes);
}

/* Of two with the same normalized content the smaller id wins. */
static attend_status put_match(attend_tokenizer *t, size_t i) {
  added_list *list = &t->added;
  const added_token *a = &list->token[i];
  trie *to = &list->match[a->normalized];
  int32_t *value;
  if (!a->match.length) return ATTEND_OK;
  if (!to->edge) ATTEND_TRY(trie_start(t->ctx, to));
  ATTEND_TRY(trie_put(t->ctx, to, a->match.bytes, a->match.length, &value));
  if (*value < 0 || a->id < list->token[*value].id) *value = (int32_t)i;
  list->first[(unsigned char)a->match.bytes[0]] |= a->normalized ? 2 : 1;
  return ATTEND_OK;
}

attend_status added_finish(attend_tokenizer *t) {
  added_list *list = &t->added;
  scratch s;
  size_t bytes = 0;
  attend_status status = scratch_start(t->ctx, &s);
  for (size_t i = 0; i < list->count; i++) bytes += list->token[i].content.length;
  scratch_begin(&s, bytes);
  for (size_t i = 0; i < list->count && !status; i++) {
    status = normalize_token(t, &s, &list->token[i]);
    if (!status) status = put_match(t, i);
  }
  scratch_free(&s);
  return status;
}

void added_free(const attend_context *ctx, added_list *list) {
  give(ctx, list->token);
  give(ctx, list->slot);
  for (int i = 0; i < 2; i++) trie_free(ctx, &list->match[i]);
}
