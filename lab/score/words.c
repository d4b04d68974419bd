/* Tokenization for ROUGE: lower-case letters and digits, words as ids.
 *
 * Ids come from sorting the words of both texts together, not from hashing: no text
 * can make it slow.
 */
#include <stdlib.h>
#include <string.h>

#include "score/score.h"

typedef struct {
  const char *at;
  uint32_t length, number; /* over both texts */
} word;

/* ---- letters ------------------------------------------------------------------------- */

typedef struct {
  char lower;  /* a-z, 0-9, or 0: a separator */
  bool closes; /* a separator follows */
  size_t bytes;
} letter;

/* Two letters beyond ASCII have a lower-case form that begins with one of a-z: the
 * Kelvin sign, and I with a dot, which becomes i and a combining dot. */
static letter letter_at(const char *text, size_t left) {
  char c = *text;
  if (c >= 'A' && c <= 'Z') return (letter){(char)(c - 'A' + 'a'), false, 1};
  if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) return (letter){c, false, 1};
  if (left >= 3 && !memcmp(text, "\xE2\x84\xAA", 3)) return (letter){'k', false, 3};
  if (left >= 2 && !memcmp(text, "\xC4\xB0", 2)) return (letter){'i', true, 2};
  return (letter){0, true, 1};
}

/* Writes words, each followed by a space or its newline, and the other newlines.
 * Returns the length, at most one more than the text's. */
static size_t write_lower(span text, char *out, size_t *count) {
  size_t n = 0;
  bool open = false;
  letter l;
  for (size_t i = 0; i < text.length; i += l.bytes) {
    l = letter_at(text.bytes + i, text.length - i);
    if (l.lower) {
      out[n++] = l.lower;
      if (!open) *count += 1;
      open = true;
    }
    if (text.bytes[i] == '\n')
      out[n++] = '\n';
    else if (open && l.closes)
      out[n++] = ' ';
    if (l.closes) open = false;
  }
  if (open) out[n++] = ' ';
  return n;
}

/* ---- ids --------------------------------------------------------------------------------- */

enum { SHORT = 3 }; /* words of so many characters are their own stems */

/* From the output of write_lower; `first` is the number of the first word. */
static void cut_words(char *lower, size_t length, bool stem, size_t first, word *words,
                      uint32_t *line) {
  uint32_t lines = 0;
  for (size_t i = 0, n = 0, end; i < length; i = end + 1) {
    for (end = i; lower[end] > ' ';) end++;
    bool last = lower[end] == '\n';
    size_t left = end - i;
    if (stem && left > SHORT) left = attend_stem(lower + i, left);
    if (left) {
      words[n] = (word){lower + i, (uint32_t)left, (uint32_t)(first + n)};
      line[n++] = lines;
    }
    if (last) lines++;
  }
}

static int by_letters(const void *a, const void *b) {
  const word *x = a, *y = b;
  uint32_t min = x->length < y->length ? x->length : y->length;
  int order = memcmp(x->at, y->at, min);
  return order ? order : (x->length > y->length) - (x->length < y->length);
}

static size_t number_words(word *words, size_t count, uint32_t *id) {
  uint32_t kinds = 0;
  qsort(words, count, sizeof *words, by_letters);
  for (size_t i = 0; i < count; i++) {
    if (i && by_letters(&words[i - 1], &words[i])) kinds++;
    id[words[i].number] = kinds;
  }
  return count ? (size_t)kinds + 1 : 0;
}

/* ---- both texts --------------------------------------------------------------------------- */

static attend_status check_lengths(attend_context *ctx, const span text[2]) {
  for (int t = 0; t < 2; t++)
    ATTEND_CHECK(ctx, text[t].length < UINT32_MAX / 2,
                 "a text of %zu bytes is too long to be scored: 2 GiB are the "
                 "most",
                 text[t].length);
  return ATTEND_OK;
}

static void fill(char *lower[2], const size_t length[2], bool stem, word *words, word_pair *out) {
  size_t n = out->list[0].count, all = n + out->list[1].count;
  uint32_t *id = out->block, *line = id + all;
  for (size_t t = 0; t < 2; t++) {
    out->list[t].id = id + t * n;
    out->list[t].line = line + t * n;
    cut_words(lower[t], length[t], stem, t * n, words + t * n, out->list[t].line);
  }
  out->kinds = number_words(words, all, id);
}

attend_status words_read(attend_context *ctx, const span text[2], bool stem, word_pair *out) {
  static const char what[] = "the words of two texts";
  char *lower[2];
  size_t length[2];
  word *words = NULL;
  *out = (word_pair){0};
  ATTEND_TRY(check_lengths(ctx, text));
  ATTEND_TRY(ctx_alloc(ctx, text[0].length + text[1].length + 2, what, &lower[0]));
  length[0] = write_lower(text[0], lower[0], &out->list[0].count);
  lower[1] = lower[0] + length[0];
  length[1] = write_lower(text[1], lower[1], &out->list[1].count);
  size_t all = out->list[0].count + out->list[1].count;
  attend_status status = ctx_alloc(ctx, all * sizeof *words, what, &words);
  if (!status) status = ctx_alloc(ctx, 2 * all * sizeof(uint32_t), what, &out->block);
  if (!status) fill(lower, length, stem, words, out);
  ctx_free(ctx, words);
  ctx_free(ctx, lower[0]);
  return status;
}

void words_free(attend_context *ctx, word_pair *words) {
  ctx_free(ctx, words->block);
  *words = (word_pair){0};
}
