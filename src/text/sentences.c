/* Text cut into sentences.
 *
 * Public; knows no tokenizer.
 *
 * One walk over the characters. A line end ends the sentence where the next
 * line does not go on with it; a stop ends it where what stands around it says
 * so. What is looked at behind and ahead of a place is bounded, so that any
 * text takes time in proportion to its length.
 */
#include "text/sentences.h"

#include "attend/text.h"

enum { OPENERS = 4 }; /* looked through before a word */

size_t prose_char(prose p, size_t at, uint32_t *c) {
  int width = utf8_read(p.bytes + at, p.length - at, c);
  if (width > 0) return (size_t)width;
  *c = UTF8_REPLACEMENT;
  return (size_t)-width;
}

/* ---- kinds of marks ------------------------------------------------------------ */

/* Of either side, and marks of emphasis. */
static bool is_quote(uint32_t c) {
  return c == '"' || c == '\'' || c == '_' || c == '*' ||
         (c >= 0x2018 && c <= 0x201f) || c == 0xab || c == 0xbb ||
         c == 0x2039 || c == 0x203a;
}

static bool is_opener(uint32_t c) {
  return is_quote(c) || c == '(' || c == '[' || c == '{' || c == '-' ||
         c == 0x2013 || c == 0x2014 || c == 0xa1 || c == 0xbf || c == 0x3008 ||
         c == 0x300a || c == 0x300c || c == 0x300e || c == 0x3010 ||
         c == 0xff08;
}

bool is_closer(uint32_t c) {
  return is_quote(c) || c == ')' || c == ']' || c == '}' || c == 0x3009 ||
         c == 0x300b || c == 0x300d || c == 0x300f || c == 0x3011 ||
         c == 0xff09;
}

/* Stops of scripts that put no space behind them. */
static bool is_close_stop(uint32_t c) {
  return c == 0x3002 || c == 0xff01 || c == 0xff1f || c == 0xff61;
}

/* Exclamation and question marks, and what other scripts end sentences with:
 * Arabic, Armenian, Devanagari, Ethiopic, Khmer, Burmese. */
static bool is_strong_stop(uint32_t c) {
  return c == '!' || c == '?' || c == 0x203c || (c >= 0x2047 && c <= 0x2049) ||
         c == 0x61f || c == 0x6d4 || c == 0x589 || c == 0x964 || c == 0x965 ||
         c == 0x1362 || c == 0x17d4 || c == 0x104b;
}

bool is_stop(uint32_t c) {
  if (c < 0x80) return c == '.' || c == '!' || c == '?';
  return c == 0x2026 || is_close_stop(c) || is_strong_stop(c);
}

/* ---- a run of stops --------------------------------------------------------------- */

typedef struct {
  size_t at, end;   /* the stops */
  size_t closed;    /* behind quotes, brackets and notes [3] that follow */
  int dots;         /* an ellipsis counts as three */
  bool strong;      /* there is one that is no dot */
  uint32_t closing; /* the last stop if it needs no space, or 0 */
} stops;

static void take_stop(stops *s, uint32_t c, size_t width) {
  s->end += width;
  if (c == '.') s->dots++;
  if (c == 0x2026) s->dots += 3;
  if (is_strong_stop(c) || is_close_stop(c)) s->strong = true;
  s->closing = is_close_stop(c) ? c : 0;
}

/* A space and a dot behind a dot: an ellipsis set wide. */
static bool is_wide_dot(prose p, size_t at) {
  return at + 1 < p.length && p.bytes[at] == ' ' && p.bytes[at + 1] == '.' &&
         p.bytes[at - 1] == '.';
}

/* The end of "[12]" at `at`, or at. */
static size_t note_end(prose p, size_t at) {
  size_t i = at + 1;
  if (at >= p.length || p.bytes[at] != '[') return at;
  while (i < p.length && i < at + 5 && p.bytes[i] >= '0' && p.bytes[i] <= '9')
    i++;
  return i > at + 1 && i < p.length && p.bytes[i] == ']' ? i + 1 : at;
}

static size_t closers_end(prose p, size_t at) {
  uint32_t c;
  while (at < p.length) {
    size_t note = note_end(p, at), width = prose_char(p, at, &c);
    if (note == at && !is_closer(c)) break;
    at = note > at ? note : at + width;
  }
  return at;
}

static stops read_stops(prose p, size_t at) {
  stops s = {.at = at, .end = at};
  uint32_t c;
  while (s.end < p.length) {
    if (s.end > at && is_wide_dot(p, s.end)) s.end++;
    size_t width = prose_char(p, s.end, &c);
    if (!is_stop(c)) break;
    take_stop(&s, c, width);
  }
  s.closed = closers_end(p, s.end);
  return s;
}

/* ---- whether it ends the sentence ---------------------------------------------------- */

static size_t skip_spaces(prose p, size_t at) {
  uint32_t c;
  while (at < p.length) {
    size_t width = prose_char(p, at, &c);
    if (!is_space(c)) break;
    at += width;
  }
  return at;
}

size_t skip_openers(prose p, size_t at) {
  uint32_t c;
  for (int i = 0; i < OPENERS && at < p.length; i++) {
    size_t width = prose_char(p, at, &c);
    if (!is_opener(c)) break;
    at += width;
  }
  return at;
}

/* next: where the next word's marks begin, in this paragraph. */
static bool ends_before(prose p, size_t start, const stops *s, size_t next) {
  uint32_t c;
  prose_char(p, next, &c);
  if (c == ',' || c == ';' || c == ':' || c == ')') return false;
  if (s->closing) return true;
  size_t word = skip_openers(p, next);
  if (word >= p.length) return true;
  if (s->dots == 1 && !s->strong)
    return full_stop_ends(p, start, s->at, word, s->closed > s->end);
  if (begins_lower(p, word)) return false;
  return s->strong || s->dots > 3 || !is_pronoun_i(p, word);
}

/* ".--She": old prose sets no space around a dash. */
static bool is_dash_before_capital(prose p, size_t at) {
  uint32_t c;
  prose_char(p, at, &c);
  bool two = c == '-' && at + 1 < p.length && p.bytes[at + 1] == '-';
  size_t word = two || c == 0x2014 ? skip_openers(p, at) : p.length;
  return word < p.length && prose_char(p, word, &c) && is_upper(c);
}

/* Without a space behind the stops. */
static bool ends_closely(prose p, size_t start, const stops *s) {
  uint32_t c;
  if (is_dash_before_capital(p, s->closed))
    return ends_before(p, start, s, s->closed);
  prose_char(p, s->closed, &c);
  /* a quotation that the Japanese particle takes up again */
  if (s->closing) return s->closed == s->end || c != 0x3068;
  return s->end == s->at + 1 && s->closed == s->end && is_glued(p, s->at);
}

/* Where nothing more is in the paragraph, its end will say so. */
static bool stops_end(prose p, size_t start, size_t line, const stops *s) {
  uint32_t c;
  size_t next = s->closed;
  if (next >= p.length) return false;
  size_t width = prose_char(p, next, &c);
  if (!is_space(c)) return ends_closely(p, start, s);
  while (is_space(c) && !line_end(p, next)) {
    next += width;
    if (next >= p.length) return false;
    width = prose_char(p, next, &c);
  }
  if (line_end(p, next) && !line_joins(p, start, line, next)) return false;
  next = skip_spaces(p, next);
  return next < p.length && ends_before(p, start, s, next);
}

static size_t sentence_end(prose p, size_t start, bool *paragraph) {
  size_t at = start, end = start, line = line_start(p, start);
  uint32_t c;
  *paragraph = true;
  while (at < p.length) {
    size_t broken = line_end(p, at), width = prose_char(p, at, &c);
    if (broken) {
      if (!line_joins(p, start, line, at)) return end;
      line = at += broken;
      continue;
    }
    if (!is_space(c)) end = at + width;
    at += width;
    if (!is_stop(c)) continue;
    stops s = read_stops(p, at - width);
    at = end = s.closed;
    if (!stops_end(p, start, line, &s)) continue;
    *paragraph = false;
    return end;
  }
  return end;
}

bool attend_sentence_next(const char *text, size_t length,
                          attend_sentence *sentence) {
  prose p = {text, length};
  size_t at = sentence->start + sentence->length;
  size_t start = at < length ? skip_spaces(p, at) : length;
  *sentence = (attend_sentence){start, 0, true};
  if (start >= length) return false;
  sentence->length = sentence_end(p, start, &sentence->ends_paragraph) - start;
  return true;
}
