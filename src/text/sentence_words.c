/* What the words around a full stop say about it.
 *
 * Asked by sentences.c where a single full stop is followed by white space.
 *
 * Lists are written with a space before and behind each word, in the case the
 * word must have; lower case there matches any.
 */
#include "text/sentences.h"

enum {
  LONGEST = 24, /* bytes of a word that is looked up */
  WHOLE = 4,    /* letters of a word that is hardly an abbreviation */
  OPENING = 25  /* bytes in which a sentence does not come to its end */
};

typedef struct {
  char bytes[LONGEST + 3]; /* a space on both sides */
  int length;              /* without them; 0: none, or too long */
} word;

/* Before a name: never an end. */
static const char titles[] =
    " mr mrs ms messrs mssrs dr prof mme mlle rev hon sra srta ";

/* In the middle of things by their nature. */
static const char inner[] =
    " e.g i.e eg ie vs viz cf ca approx resp incl excl esp c.f ";

/* No end before a number; elsewhere like any other word. */
static const char numbered[] =
    " no nos nr vol vols p pp pg ch chap chaps sec sect fig figs eq eqs eqn "
    "art "
    "arts par para pt pts tab ver v c op app ex cl ref refs stat bk ll ff ";

/* Names go on behind them: only a word that begins sentences ends one. */
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

/* Behind a time of day they belong to it. */
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

static bool is_in(const char *list, const word *w) {
  return w->length && strstr(list, w->bytes);
}

static char lower_ascii(char c) {
  return c >= 'A' && c <= 'Z' ? (char)(c + 32) : c;
}

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
  if (to - from > LONGEST || memchr(p.bytes + from, '\0', to - from))
    return (word){0};
  memcpy(w.bytes + 1, p.bytes + from, to - from);
  w.bytes[to - from + 1] = ' ';
  return w;
}

/* ---- reading words --------------------------------------------------------------- */

static bool is_word_char(uint32_t c) {
  return is_letter(c) || is_number(c) || is_mark(c) || c == '.' || c == '\'' ||
         c == 0x2019;
}

/* Where the word begins that ends at `end`: not before start, and not much
 * further back than any that is looked up. */
static size_t word_start(prose p, size_t start, size_t end) {
  size_t least = end > start + LONGEST + 4 ? end - LONGEST - 4 : start;
  size_t first = least;
  uint32_t c;
  for (size_t at = least; at < end;) {
    at += prose_char(p, at, &c);
    if (!is_word_char(c)) first = at < end ? at : end;
  }
  return first;
}

/* The letters of ASCII from `at` on. */
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

static bool is_char_at(prose p, size_t at, char c) {
  return at < p.length && p.bytes[at] == c;
}

/* "iPhone" begins with a capital. */
bool begins_lower(prose p, size_t at) {
  uint32_t c, second = 0;
  size_t width = prose_char(p, at, &c);
  if (!is_lower(c)) return false;
  if (at + width < p.length) prose_char(p, at + width, &second);
  return !is_upper(second);
}

bool is_pronoun_i(prose p, size_t at) {
  word w = word_from(p, at);
  return w.length == 1 && w.bytes[1] == 'I';
}

/* A word that begins sentences rather than names; "A." is an initial. */
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

/* "U.S", "Ph.D": stops between parts of one letter or two. */
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

static bool is_plain(const word *w) {
  return is_made_of(w, "abcdefghijklmnopqrstuvwxyz");
}

/* "3." "iv." "B." with nothing before it: what follows is the text. */
static bool is_item(prose p, size_t from, size_t to, const word *w) {
  uint32_t c;
  return is_one_letter(p, from, to, &c) || is_roman(w) ||
         (w->length <= 3 && is_made_of(w, "0123456789"));
}

/* ---- the judgement ------------------------------------------------------------------ */

static bool is_number_at(prose p, size_t at, bool letters) {
  word w = word_from(p, at);
  return is_digit_at(p, at) ||
         (letters && (is_roman(&w) || (w.length == 1 && w.bytes[1] >= 'A' &&
                                       w.bytes[1] <= 'Z')));
}

/* Before a lower case letter only a whole word ends. */
static bool ends_before_lower(const word *w) {
  return w->length >= WHOLE && is_plain(w) && !is_known(inner, w) &&
         !is_known(names, w) && !is_known(numbered, w);
}

static bool time_ends(prose p, size_t start, size_t stop, size_t next) {
  word follows = word_from(p, next);
  if (is_starter(p, next)) return true;
  return stop - start > OPENING && follows.length && !is_in(zones, &follows);
}

bool full_stop_ends(prose p, size_t start, size_t stop, size_t next,
                    bool closed) {
  size_t from = word_start(p, start, stop);
  word w = make_word(p, from, stop);
  word l = lowered(&w);
  uint32_t c;
  if (is_known(inner, &w) || is_known(titles, &w)) return false;
  if (begins_lower(p, next)) return !closed && ends_before_lower(&w);
  if (is_in(times, &l)) return time_ends(p, start, stop, next);
  if (from == start && is_item(p, from, stop, &w)) return false;
  if (is_in(numbered, &l) &&
      is_number_at(p, next, w.length != 2 || l.bytes[1] != 'n'))
    return false;
  if (is_known(names, &w) || is_dotted(&w)) return is_starter(p, next);
  if (is_one_letter(p, from, stop, &c) && is_upper(c))
    return is_starter(p, next);
  return true;
}

/* A space or the end, perhaps behind a mark. */
static bool is_word_end(prose p, size_t at) {
  if (at < p.length && strchr(",.!?", p.bytes[at])) at++;
  return at >= p.length || is_char_at(p, at, ' ') || is_char_at(p, at, '\n');
}

bool is_glued(prose p, size_t stop) {
  size_t from = word_start(p, 0, stop), next = stop + 1;
  word w = make_word(p, from, stop), follows = word_from(p, next);
  if (w.length < 2 || !is_plain(&w) || follows.length < 2) return false;
  if (from && !strchr(" \n(", p.bytes[from - 1])) return false;
  word tail = lowered(&follows); /* a capital, then none */
  tail.bytes[1] = follows.bytes[1];
  return follows.bytes[1] <= 'Z' &&
         is_word_end(p, next + (size_t)follows.length) &&
         !memcmp(tail.bytes, follows.bytes, sizeof tail.bytes);
}
