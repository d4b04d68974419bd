/* Splitting a text into sentences and paragraphs, by rules: attend_sentence_next.
 *
 * One pass over the characters. A line end ends the sentence unless the next line
 * continues it; a stop ends it where the words around it allow. Look-behind and
 * look-ahead are bounded, so that the time is linear in the length of any text.
 */
#include "attend/text.h"

#include <string.h>

#include "text/unicode.h"

typedef struct {
  const char *bytes;
  size_t length;
} prose;

enum { OPENERS = 4 }; /* skipped before a word */

/* The character at `at` < length, and its width; malformed UTF-8 is U+FFFD. */
static size_t prose_char(prose p, size_t at, uint32_t *c) {
  int width = utf8_read(p.bytes + at, p.length - at, c);
  if (width > 0) return (size_t)width;
  *c = UTF8_REPLACEMENT;
  return (size_t)-width;
}

/* ---- kinds of marks ------------------------------------------------------------ */

/* Of either side, and marks of emphasis. */
static bool is_quote(uint32_t c) {
  return c == '"' || c == '\'' || c == '_' || c == '*' || (c >= 0x2018 && c <= 0x201f) ||
         c == 0xab || c == 0xbb || c == 0x2039 || c == 0x203a;
}

static bool is_opener(uint32_t c) {
  return is_quote(c) || c == '(' || c == '[' || c == '{' || c == '-' || c == 0x2013 ||
         c == 0x2014 || c == 0xa1 || c == 0xbf || c == 0x3008 || c == 0x300a || c == 0x300c ||
         c == 0x300e || c == 0x3010 || c == 0xff08;
}

static bool is_closer(uint32_t c) {
  return is_quote(c) || c == ')' || c == ']' || c == '}' || c == 0x3009 || c == 0x300b ||
         c == 0x300d || c == 0x300f || c == 0x3011 || c == 0xff09;
}

/* Stops that need no space after them. */
static bool is_close_stop(uint32_t c) {
  return c == 0x3002 || c == 0xff01 || c == 0xff1f || c == 0xff61;
}

/* Exclamation and question marks, and the stops of Arabic, Armenian, Devanagari,
 * Ethiopic, Khmer and Burmese. */
static bool is_strong_stop(uint32_t c) {
  return c == '!' || c == '?' || c == 0x203c || (c >= 0x2047 && c <= 0x2049) || c == 0x61f ||
         c == 0x6d4 || c == 0x589 || c == 0x964 || c == 0x965 || c == 0x1362 || c == 0x17d4 ||
         c == 0x104b;
}

static bool is_stop(uint32_t c) {
  if (c < 0x80) return c == '.' || c == '!' || c == '?';
  return c == 0x2026 || is_close_stop(c) || is_strong_stop(c);
}

/* The end of the openers (quotes, brackets, dashes, inverted ! and ?) at `at`, a few
 * at most. */
static size_t skip_openers(prose p, size_t at) {
  uint32_t c;
  for (int i = 0; i < OPENERS && at < p.length; i++) {
    size_t width = prose_char(p, at, &c);
    if (!is_opener(c)) break;
    at += width;
  }
  return at;
}

/* "iPhone" begins with a capital. */
static bool begins_lower(prose p, size_t at) {
  uint32_t c, second = 0;
  size_t width = prose_char(p, at, &c);
  if (!is_lower(c)) return false;
  if (at + width < p.length) prose_char(p, at + width, &second);
  return !is_upper(second);
}

/* ---- lines ------------------------------------------------------------------- */

/* Text is hard-wrapped, or has one paragraph per line, and nothing declares which.
 * A greedy wrapper breaks a line where the next word does not fit. If it would have
 * fitted, the author ended the line. Lines too long for any wrapper are paragraphs. */

enum {
  WIDEST = 120, /* characters of a line that was wrapped */
  SLACK = 15,   /* slack that wrappers which balance lines leave */
  DEEPER = 2,   /* columns that indent a first line */
  BACK = 1024   /* bytes searched backwards for the start of a line */
};

/* The width of the line end at `at`, 0 if there is none. */
static size_t line_end(prose p, size_t at) {
  uint32_t c;
  char byte = p.bytes[at];
  if (byte == '\r') return at + 1 < p.length && p.bytes[at + 1] == '\n' ? 2 : 1;
  if (byte == '\n' || byte == '\v' || byte == '\f') return 1;
  if (byte != '\xe2' && byte != '\xc2') return 0;
  size_t width = prose_char(p, at, &c);
  return c == 0x2028 || c == 0x2029 || c == 0x85 ? width : 0;
}

/* Whether a line end is right before `at`. */
static bool is_behind_end(prose p, size_t at) {
  for (size_t width = 1; width <= 3 && width <= at; width++)
    if (line_end(p, at - width) == width) return true;
  return false;
}

/* The start of the line that holds `at`, or a position far before `at`. */
static size_t line_start(prose p, size_t at) {
  size_t min = at > BACK ? at - BACK : 0;
  while (at > min && !is_behind_end(p, at)) at--;
  return at;
}

/* ---- what a line looks like ------------------------------------------------------ */

typedef enum { NO_MARKER, WEAK_MARKER, MARKER } marker;

typedef struct {
  size_t text;  /* where it begins behind spaces */
  int indent;   /* columns */
  int first;    /* characters of the first word */
  int width;    /* characters, spaces in front included; WIDEST + 1: more */
  bool letters; /* or digits; false for a rule such as ===== */
} line_shape;

static bool is_end(prose p, size_t at) { return at >= p.length || line_end(p, at); }

static line_shape shape_of(prose p, size_t at) {
  line_shape l = {0};
  uint32_t c;
  int last = 0; /* characters up to the last that is no space */
  for (bool first = true; !is_end(p, at) && l.width <= WIDEST; l.width++) {
    size_t width = prose_char(p, at, &c);
    bool space = is_space(c);
    if (space && !last) l.indent += c == '\t' ? 8 : 1;
    if (!space && !last) l.text = at;
    if (space && last) first = false;
    if (!space && first) l.first++;
    if (!space) last = l.width + 1;
    if (is_letter(c) || is_number(c) || c == UTF8_REPLACEMENT) l.letters = true;
    at += width;
  }
  if (l.width <= WIDEST) l.width = last;
  return l;
}

static bool is_spaced(prose p, size_t at) {
  return at < p.length && (p.bytes[at] == ' ' || p.bytes[at] == '\t');
}

/* "12." "iv)" "(a)" and a space. */
static bool is_numbered(prose p, size_t at) {
  bool open = p.bytes[at] == '(', number = true, roman = true;
  size_t first = at += open;
  for (; at < p.length && at < first + 4; at++) {
    char c = p.bytes[at];
    if (c == ')' || c == '.') break;
    number = number && c >= '0' && c <= '9';
    roman = roman && (c == 'i' || c == 'v' || c == 'x');
  }
  bool letter = at == first + 1 && at < p.length && !(p.bytes[first] & 0x80) &&
                ascii_kinds[(unsigned char)p.bytes[first]] & ASCII_LETTER;
  if (at == first || at >= p.length || !(number || roman || letter)) return false;
  return (p.bytes[at] == ')' || (p.bytes[at] == '.' && !open)) && is_spaced(p, at + 1);
}

static marker marker_at(prose p, size_t at) {
  uint32_t c;
  if (at >= p.length) return NO_MARKER;
  size_t width = prose_char(p, at, &c), i = at + width;
  if (c == '-' || c == '*' || c == '+' || c == 0x2022 || c == 0x2023 || c == 0x25aa || c == 0xb7)
    return is_spaced(p, i) ? MARKER : NO_MARKER;
  if (c == '#') {
    while (i < p.length && i < at + 6 && p.bytes[i] == '#') i++;
    return is_spaced(p, i) ? MARKER : NO_MARKER;
  }
  if (c == 0x2013 || c == 0x2014) return is_spaced(p, i) ? WEAK_MARKER : NO_MARKER;
  return is_numbered(p, at) ? WEAK_MARKER : NO_MARKER;
}

/* ---- whether lines join ----------------------------------------------------------- */

/* Whether the text up to `end` could be a complete sentence. */
static bool is_finished(prose p, size_t start, size_t end) {
  size_t at = end;
  while (at > start && at + BACK > end) {
    uint32_t c = (unsigned char)p.bytes[at - 1];
    size_t width = 1;
    while (c >= 0x80 && width < 4 && width < at - start && (p.bytes[at - width] & 0xc0) == 0x80)
      width++;
    prose_char(p, at - width, &c);
    if (is_stop(c) || c == ':' || c == ';') return true;
    if (!is_space(c) && !is_closer(c)) return false;
    at -= width;
  }
  return false;
}

/* Whether the line after the line end at `end` continues the line at `line`; the
 * sentence began at `start`. */
static bool line_joins(prose p, size_t start, size_t line, size_t end) {
  line_shape here = shape_of(p, line);
  line_shape next = shape_of(p, end + line_end(p, end));
  if (!next.width || !next.letters || !here.letters) return false;
  if (here.width > WIDEST || next.width > WIDEST) return false;
  marker m = marker_at(p, next.text);
  bool finished = is_finished(p, start, end);
  if (m == MARKER) return false;
  if (m == WEAK_MARKER && (finished || marker_at(p, start))) return false;
  size_t word = skip_openers(p, next.text);
  word += is_spaced(p, word);
  if (!finished && word < p.length && begins_lower(p, word)) return true;
  if (finished && next.indent >= here.indent + DEEPER) return false;
  return here.width + 1 + next.first + SLACK > next.width - next.indent;
}

/* ---- words around a full stop -------------------------------------------------- */

/* Each word of a list has a space before and after it. Capitals match exactly, lower
 * case matches either case. */

enum {
  LONGEST = 24, /* bytes of a word that is looked up */
  WHOLE = 4,    /* letters of a word that is hardly an abbreviation */
  OPENING = 25  /* a sentence of fewer bytes is hardly complete */
};

typedef struct {
  char bytes[LONGEST + 3]; /* a space on both sides */
  int length;              /* without them; 0: none, or too long */
} word;

/* Titles before a name: never an end. */
static const char titles[] = " mr mrs ms messrs mssrs dr prof mme mlle rev hon sra srta ";

/* Abbreviations that occur inside sentences. */
static const char inner[] = " e.g i.e eg ie vs viz cf ca approx resp incl excl esp c.f ";

/* No end before a number; elsewhere treated as any other word. */
static const char numbered[] =
    " no nos nr vol vols p pp pg ch chap chaps sec sect fig figs eq eqs eqn "
    "art "
    "arts par para pt pts tab ver v c op app ex cl ref refs stat bk ll ff ";

/* Parts of names: only a word that typically starts sentences makes this an end. */
static const char names[] =
    " co inc corp ltd llc llp plc bros jr sr esq st ave blvd rd hwy dept depts "
    "univ assn assoc govt natl intl dist mfg bldg est al ed eds trans gen brig "
    "col maj capt cmdr cpl sgt lt adm gov sen rep reps pres supt det insp mt "
    "ft "
    "misc temp abbr orig masc fem Fr Jan Feb Mar Apr Jun Jul Aug Sep Sept Oct "
    "Nov Dec Mon Tue Tues Wed Thu Thur Thurs Fri Sat Sun Ariz Calif Colo Conn "
    "Del Fla Ill Ind Kan Mass Mich Minn Miss Mont Neb Nev Okla Ore Penn Tenn "
    "Tex Va Wash Wis Wyo ";

static const char times[] = " a.m p.m am pm ";

/* Time zones: after a time of day they belong to it. */
static const char zones[] =
    " Monday Tuesday Wednesday Thursday Friday Saturday Sunday Eastern Central "
    "Mountain Pacific EST EDT ET CST CT MST PST PT GMT UTC BST CET ";

static const char starters[] =
    " The This That These Those There Then Thus They Their It Its He She His "
    "Her "
    "We Our You Your My Who What When Where Why Which How While With Without A "
    "An And As At After Although All Also Another Any Are Because Before Both "
    "But By Can Could Did Do Does During Each Even Every Few Finally First For "
    "From Had Has Have Hence Here However If In Indeed Instead Is Just Last "
    "Later Let Many Maybe Meanwhile More Moreover Most Much Neither No None "
    "Nor "
    "Not Now Often On Once One Only Or Other Others Over Perhaps Please "
    "Several "
    "Should Since So Some Sometimes Soon Still Such Therefore Though Through "
    "Today Tomorrow Under Unless Until Upon Was Were Whether Will Would Yes "
    "Yet "
    "Yesterday ";

static bool is_in(const char *list, const word *w) { return w->length && strstr(list, w->bytes); }

static char lower_ascii(char c) { return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c; }

static word lowered(const word *w) {
  word l = *w;
  for (int i = 1; i <= l.length; i++) l.bytes[i] = lower_ascii(l.bytes[i]);
  return l;
}

static bool is_known(const char *list, const word *w) {
  word l = lowered(w);
  return is_in(list, w) || is_in(list, &l);
}

static word make_word(prose p, size_t from, size_t to) {
  word w = {.bytes = " ", .length = (int)(to - from)};
  if (to - from > LONGEST || memchr(p.bytes + from, '\0', to - from)) return (word){0};
  memcpy(w.bytes + 1, p.bytes + from, to - from);
  w.bytes[to - from + 1] = ' ';
  return w;
}

/* ---- reading words --------------------------------------------------------------- */

static bool is_word_char(uint32_t c) {
  return is_letter(c) || is_number(c) || is_mark(c) || c == '.' || c == '\'' || c == 0x2019;
}

/* The start of the word that ends at `end`: not before start, and not much further
 * back than the longest word of the lists. */
static size_t word_start(prose p, size_t start, size_t end) {
  size_t min = end > start + LONGEST + 4 ? end - LONGEST - 4 : start;
  size_t first = min;
  uint32_t c;
  for (size_t at = min; at < end;) {
    at += prose_char(p, at, &c);
    if (!is_word_char(c)) first = at < end ? at : end;
  }
  return first;
}

/* The ASCII letters from `at` on. */
static word word_from(prose p, size_t at) {
  size_t end = at;
  while (end < p.length && end <= at + LONGEST && !(p.bytes[end] & 0x80) &&
         ascii_kinds[(unsigned char)p.bytes[end]] & ASCII_LETTER)
    end++;
  return make_word(p, at, end);
}

static bool is_digit_at(prose p, size_t at) {
  return at < p.length && p.bytes[at] >= '0' && p.bytes[at] <= '9';
}

static bool is_char_at(prose p, size_t at, char c) { return at < p.length && p.bytes[at] == c; }

static bool is_pronoun_i(prose p, size_t at) {
  word w = word_from(p, at);
  return w.length == 1 && w.bytes[1] == 'I';
}

/* A word that starts sentences rather than names; "A." is an initial. */
static bool is_starter(prose p, size_t at) {
  word w = word_from(p, at);
  return is_in(starters, &w) && !is_char_at(p, at + (size_t)w.length, '.');
}

/* ---- shapes of words --------------------------------------------------------------- */

static bool is_made_of(const word *w, const char *letters) {
  for (int i = 1; i <= w->length; i++)
    if (!strchr(letters, w->bytes[i])) return false;
  return w->length > 0;
}

static bool is_roman(const word *w) {
  return w->length <= 6 && (is_made_of(w, "IVXLC") || is_made_of(w, "ivx"));
}

/* One letter: an initial, or the letter of a list. */
static bool is_one_letter(prose p, size_t from, size_t to, uint32_t *c) {
  return from < to && from + prose_char(p, from, c) == to && is_letter(*c);
}

/* "U.S", "Ph.D": stops between parts of one or two letters. */
static bool is_dotted(const word *w) {
  int run = 0;
  bool dots = false;
  for (int i = 1; i <= w->length; i++) {
    char c = w->bytes[i];
    if (c == '.') dots = true;
    run = c == '.' ? 0 : run + 1;
    if (run > 2 || (c >= '0' && c <= '9')) return false;
  }
  return dots;
}

static bool is_plain(const word *w) { return is_made_of(w, "abcdefghijklmnopqrstuvwxyz"); }

/* "3." "iv." "B." at the start: an item number, and the text follows. */
static bool is_item(prose p, size_t from, size_t to, const word *w) {
  uint32_t c;
  return is_one_letter(p, from, to, &c) || is_roman(w) ||
         (w->length <= 3 && is_made_of(w, "0123456789"));
}

/* ---- whether a full stop ends the sentence ------------------------------------------ */

static bool is_number_at(prose p, size_t at, bool letters) {
  word w = word_from(p, at);
  return is_digit_at(p, at) ||
         (letters && (is_roman(&w) || (w.length == 1 && w.bytes[1] >= 'A' && w.bytes[1] <= 'Z')));
}

/* Before a lower-case letter only a whole word ends a sentence. */
static bool ends_before_lower(const word *w) {
  return w->length >= WHOLE && is_plain(w) && !is_known(inner, w) && !is_known(names, w) &&
         !is_known(numbered, w);
}

static bool time_ends(prose p, size_t start, size_t stop, size_t next) {
  word follows = word_from(p, next);
  if (is_starter(p, next)) return true;
  return stop - start > OPENING && follows.length && !is_in(zones, &follows);
}

/* Whether the single full stop at `stop` ends the sentence from `start`, when
 * the next word begins at `next`; closed: quotes or brackets are between. */
static bool full_stop_ends(prose p, size_t start, size_t stop, size_t next, bool closed) {
  size_t from = word_start(p, start, stop);
  word w = make_word(p, from, stop);
  word l = lowered(&w);
  uint32_t c;
  if (is_known(inner, &w) || is_known(titles, &w)) return false;
  if (begins_lower(p, next)) return !closed && ends_before_lower(&w);
  if (is_in(times, &l)) return time_ends(p, start, stop, next);
  if (from == start && is_item(p, from, stop, &w)) return false;
  if (is_in(numbered, &l) && is_number_at(p, next, w.length != 2 || l.bytes[1] != 'n'))
    return false;
  if (is_known(names, &w) || is_dotted(&w)) return is_starter(p, next);
  if (is_one_letter(p, from, stop, &c) && is_upper(c)) return is_starter(p, next);
  return true;
}

/* A space or the end, perhaps behind a mark. */
static bool is_word_end(prose p, size_t at) {
  if (at < p.length && strchr(",.!?", p.bytes[at])) at++;
  return at >= p.length || is_char_at(p, at, ' ') || is_char_at(p, at, '\n');
}

/* "end.Next": a full word, a stop and a capitalized word without a space. */
static bool is_glued(prose p, size_t stop) {
  size_t from = word_start(p, 0, stop), next = stop + 1;
  word w = make_word(p, from, stop), follows = word_from(p, next);
  if (w.length < 2 || !is_plain(&w) || follows.length < 2) return false;
  if (from && !strchr(" \n(", p.bytes[from - 1])) return false;
  word tail = lowered(&follows); /* a capital, then none */
  tail.bytes[1] = follows.bytes[1];
  return follows.bytes[1] <= 'Z' && is_word_end(p, next + (size_t)follows.length) &&
         !memcmp(tail.bytes, follows.bytes, sizeof tail.bytes);
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

/* ". .": a spaced ellipsis. */
static bool is_wide_dot(prose p, size_t at) {
  return at + 1 < p.length && p.bytes[at] == ' ' && p.bytes[at + 1] == '.' &&
         p.bytes[at - 1] == '.';
}

/* The end of "[12]" at `at`, or at. */
static size_t note_end(prose p, size_t at) {
  size_t i = at + 1;
  if (at >= p.length || p.bytes[at] != '[') return at;
  while (i < p.length && i < at + 5 && p.bytes[i] >= '0' && p.bytes[i] <= '9') i++;
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

/* next: the start of the next word, its opening marks included, in this paragraph. */
static bool ends_before(prose p, size_t start, const stops *s, size_t next) {
  uint32_t c;
  prose_char(p, next, &c);
  if (c == ',' || c == ';' || c == ':' || c == ')') return false;
  if (s->closing) return true;
  size_t first = skip_openers(p, next);
  if (first >= p.length) return true;
  if (s->dots == 1 && !s->strong) return full_stop_ends(p, start, s->at, first, s->closed > s->end);
  if (begins_lower(p, first)) return false;
  return s->strong || s->dots > 3 || !is_pronoun_i(p, first);
}

/* ".--She": older prose has no space around a dash. */
static bool is_dash_before_capital(prose p, size_t at) {
  uint32_t c;
  prose_char(p, at, &c);
  bool two = c == '-' && at + 1 < p.length && p.bytes[at + 1] == '-';
  size_t first = two || c == 0x2014 ? skip_openers(p, at) : p.length;
  return first < p.length && prose_char(p, first, &c) && is_upper(c);
}

/* Stops that no space follows. */
static bool ends_closely(prose p, size_t start, const stops *s) {
  uint32_t c;
  if (is_dash_before_capital(p, s->closed)) return ends_before(p, start, s, s->closed);
  prose_char(p, s->closed, &c);
  /* a quotation continued by the Japanese particle "to" */
  if (s->closing) return s->closed == s->end || c != 0x3068;
  return s->end == s->at + 1 && s->closed == s->end && is_glued(p, s->at);
}

/* At the end of a paragraph the paragraph's end decides. */
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

bool attend_sentence_next(const char *text, size_t length, attend_sentence *sentence) {
  prose p = {text, length};
  size_t at = sentence->start + sentence->length;
  size_t start = at < length ? skip_spaces(p, at) : length;
  *sentence = (attend_sentence){start, 0, true};
  if (start >= length) return false;
  sentence->length = sentence_end(p, start, &sentence->ends_paragraph) - start;
  return true;
}
