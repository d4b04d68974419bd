/* A long text in portions.
 *
 * Between the added tokens and the normalizers. What a text of megabytes needs on its
 * way stays in the cache, and what comes out is the same.
 *
 * A seam lies between a letter or digit of ASCII and a space. Every step is
 * asked whether that is a place where left and right know nothing of each
 * other; one that is not sure says no, and texts go through as a whole.
 */
#include "text/pattern.h"

enum { PORTION = 1 << 14 }; /* bytes: what they become fits the second cache */

static const char SPACE[] = " ", MARK[] = "\xe2\x96\x81";

static bool is_seam(unsigned char before, unsigned char here) {
  return here == ' ' && before < 0x80 &&
         ascii_kinds[before] & (ASCII_LETTER | ASCII_NUMBER);
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

/* *space is what the spaces have become. */
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

/* Only the first: the others see what it leaves, span by span. */
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

/* One that is looked for in normalized text must not lie across a seam. */
static bool respects_seams(const added_token *a) {
  return !a->normalized || (!a->rstrip && !has_space(a->match));
}

bool portions_allowed(const attend_tokenizer *t) {
  const char *space = SPACE;
  for (size_t i = 0; i < t->normalizers.count; i++)
    if (!keeps_seams(&t->normalizers.step[i], &space)) return false;
  for (size_t i = 0; i < t->added.count; i++)
    if (!respects_seams(&t->added.token[i])) return false;
  return t->splitters.count && cuts_seams(&t->splitters.step[0], space);
}

size_t portion_end(const attend_tokenizer *t, const view *v, size_t at) {
  if (!t->portions) return v->length;
  for (size_t i = at + PORTION; i < v->length; i++)
    if (is_seam((unsigned char)v->bytes[i - 1], (unsigned char)v->bytes[i]))
      return i;
  return v->length;
}
