/* Segmentation: a text to added tokens and words.
 *
 * Runs a text through added tokens, normalizers and pre-tokenizers, chunk by chunk.
 * encode.c turns the words into ids, train_words.c counts them: training counts
 * exactly the words that encoding will see.
 */
#include "text/tokenizer.h"

/* ---- added tokens ------------------------------------------------------------------ */

/* Matched in the text before anything else is done to it: those that are "normalized" in
 * normalized text, the others in the raw text. Of several that start at the same byte the
 * longest wins. */

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

static bool added_find(const added_list *list, bool normalized, const view *v, size_t at,
                       size_t *start, size_t *end, int32_t *id) {
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
  ATTEND_TRY(ctx_alloc_zeroed(ctx, slots * sizeof *fresh, "added tokens", &fresh));
  ctx_free(ctx, list->slot);
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
  ctx_free(ctx, list->token);
  ctx_free(ctx, list->slot);
  for (int i = 0; i < 2; i++) trie_free(ctx, &list->match[i]);
}

/* ---- long texts in chunks ---------------------------------------------------------- */

/* A text of megabytes is processed in chunks that stay in the CPU's cache, with the
 * same result.
 *
 * A seam lies between an ASCII letter or digit and a space. A tokenizer may be
 * chunked if every step treats the two sides of a seam independently; if that is not
 * certain, texts are processed as a whole. */

enum { PORTION = 1 << 14 }; /* bytes: with all intermediate texts they fit the L2 cache */

static const char SPACE[] = " ", MARK[] = "\xe2\x96\x81";

static bool is_seam(unsigned char before, unsigned char here) {
  return here == ' ' && before < 0x80 && ascii_kinds[before] & (ASCII_LETTER | ASCII_NUMBER);
}

static bool is_text(chars c, const char *text) {
  return c.length == strlen(text) && !memcmp(c.bytes, text, c.length);
}

/* ---- normalizers ------------------------------------------------------------------ */

static bool map_keeps_seams(const step *st) {
  for (unsigned char c = 0; c < 0x80; c++)
    if ((is_seam(c, ' ') || c == ' ') && !plain_has(st->plain, c)) return false;
  return !charsmap_holds(&st->map, ' ');
}

/* *space: what a space has become. */
static bool keeps_seams(const step *st, const char **space) {
  if (st->kind == STEP_PREPEND) return true;
  if (*space != SPACE) return false;
  switch (st->kind) {
    case STEP_CHARSMAP:
      return map_keeps_seams(st);
    case STEP_SP_SPACES:
      if (st->escape) *space = MARK;
      return true;
    case STEP_REPLACE:
      *space = MARK;
      return pattern_is(st->pattern, SPACE) && is_text(st->text, MARK);
    default: /* the others go character by character */
      return st->kind != STEP_STRIP;
  }
}

/* ---- pre-tokenizers --------------------------------------------------------------- */

/* Only the first step matters: the others see its spans. */
static bool cuts_seams(const step *st, const char *space) {
  switch (st->kind) {
    case STEP_WHITESPACE:
    case STEP_WHITESPACE_SPLIT:
    case STEP_BERT_SPLIT:
      return space == SPACE;
    case STEP_BYTE_LEVEL:
      return space == SPACE && st->cut;
    case STEP_SPLIT:
      return space == SPACE && st->behaviour == CUT_ISOLATED && !st->invert &&
             pattern_cuts_words(st->pattern);
    case STEP_METASPACE:
      return st->cut && is_text(st->text, MARK);
    case STEP_AT_MARKS:
      return is_text(st->text, space);
    default:
      return false;
  }
}

/* ---- added tokens ----------------------------------------------------------------- */

static bool has_space(chars c) {
  for (size_t i = 0; i < c.length; i++)
    if (c.bytes[i] == ' ' || c.bytes[i] == MARK[0]) return true;
  return false;
}

/* An added token that matches normalized text must not cross a seam. */
static bool respects_seams(const added_token *a) {
  return !a->normalized || (!a->rstrip && !has_space(a->match));
}

bool may_chunk(const attend_tokenizer *t) {
  const char *space = SPACE;
  for (size_t i = 0; i < t->normalizers.count; i++)
    if (!keeps_seams(&t->normalizers.step[i], &space)) return false;
  for (size_t i = 0; i < t->added.count; i++)
    if (!respects_seams(&t->added.token[i])) return false;
  return t->splitters.count && cuts_seams(&t->splitters.step[0], space);
}

static size_t chunk_end(const attend_tokenizer *t, const view *v, size_t at) {
  if (!t->chunked) return v->length;
  for (size_t i = at + PORTION; i < v->length; i++)
    if (is_seam((unsigned char)v->bytes[i - 1], (unsigned char)v->bytes[i])) return i;
  return v->length;
}

/* ---- segments ---------------------------------------------------------------------- */

enum { LONGEST_TEXT = INT32_MAX / 4 }; /* offsets inside are 32 bits wide */

typedef struct {
  const attend_tokenizer *t;
  scratch *s;
  const segment_sink *sink;
} cutting;

static attend_status put_token_at(const cutting *c, const view *v, size_t start, size_t end,
                                  int32_t id) {
  return c->sink->token(c->sink->user, id, view_from(v, start), view_to(v, end - 1));
}

static attend_status cut_plain(const cutting *c, view v) {
  span *spans;
  size_t count, before = v.length;
  if (!v.length) return ATTEND_OK;
  ATTEND_TRY(split_text(c->t, c->s, &v, &spans, &count));
  size_t more = v.length > before ? v.length - before : 0;
  ATTEND_TRY(check_growth(c->s, more));
  c->s->capacity -= more;
  return c->sink->words(c->sink->user, &v, spans, count);
}

/* A chunk of text between added tokens: normalizes it and splits it at the added
 * tokens that match normalized text. */
static attend_status segment_chunk(const cutting *c, view v) {
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
    end = chunk_end(c->t, &v, at);
    c->s->first = at == 0;
    c->s->last = end == v.length;
    ATTEND_TRY(segment_chunk(c, view_slice(&v, at, end)));
  }
  return ATTEND_OK;
}

/* Between added tokens that match the raw text. */
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

attend_status segment_text(const attend_tokenizer *t, scratch *s, const char *text, size_t length,
                           const segment_sink *sink) {
  const cutting c = {t, s, sink};
  view v = {text, NULL, NULL, length, 0};
  if (length > LONGEST_TEXT)
    return fail(s->ctx, ATTEND_INVALID, "the text has %zu bytes: encode at most %d at a time",
                length, LONGEST_TEXT);
  scratch_begin(s, length);
  if (!utf8_is_valid(text, length)) {
    s->clean.length = 0;
    ATTEND_TRY(aligned_put_lossy(s->ctx, &s->clean, text, length));
    v = aligned_view(&s->clean);
  }
  return cut_between(&c, v);
}
