/* Porter's stemmer (1980) with NLTK's extensions.
 *
 * Five steps examine the suffix of a word; in each the first suffix that matches is
 * replaced if the stem before it is long enough. A word is [C](VC)^m[V], runs of
 * consonants and of vowels; m is its measure. NLTK's extensions: a table of irregular
 * words; ies and ied of four letters; y after a consonant; alli before the others;
 * fulli; logi; vc counts as cvc.
 */
#include <string.h>

#include "score/score.h"

typedef struct {
  char *at;
  size_t n;
} stem_word;

/* ---- properties of words ------------------------------------------------------------ */

/* A y is a vowel after a consonant; so in a row of them every second one is. */
static bool is_consonant(const char *word, size_t i) {
  size_t ys = 0;
  while (ys < i && word[i - ys] == 'y') ys++;
  bool first = !memchr("aeiou", word[i - ys], 5);
  return ys % 2 ? !first : first;
}

static int measure(const char *word, size_t n) {
  int m = 0;
  bool before = true;
  for (size_t i = 0; i < n; i++) {
    bool vowel = memchr("aeiou", word[i], 5) != NULL;
    bool now = !vowel && (word[i] != 'y' || i == 0 || !before);
    m += i && now && !before;
    before = now;
  }
  return m;
}

/* Before the first vowel all are consonants, after which a y is a vowel. */
static bool has_vowel(const char *word, size_t n) {
  for (size_t i = 0; i < n; i++)
    if (memchr("aeiou", word[i], 5) || (i && word[i] == 'y')) return true;
  return false;
}

static bool ends_double(const stem_word *w) {
  return w->n >= 2 && w->at[w->n - 1] == w->at[w->n - 2] && is_consonant(w->at, w->n - 1);
}

/* Consonant, vowel, consonant other than w, x, y; or a vowel and a consonant. */
static bool ends_cvc(const char *word, size_t n) {
  if (n == 2) return !is_consonant(word, 0) && is_consonant(word, 1);
  return n >= 3 && is_consonant(word, n - 3) && !is_consonant(word, n - 2) &&
         is_consonant(word, n - 1) && !memchr("wxy", word[n - 1], 3);
}

static bool ends_with(const stem_word *w, const char *end) {
  size_t n = strlen(end);
  return w->n >= n && !memcmp(w->at + w->n - n, end, n);
}

static void replace(stem_word *w, size_t ending, const char *by) {
  size_t n = strlen(by);
  memcpy(w->at + w->n - ending, by, n);
  w->n = w->n - ending + n;
}

/* ---- rules --------------------------------------------------------------------------------- */

typedef struct {
  const char *end, *by;
} rule;

/* The first rule whose ending fits, if the measure before it is at least `least`. */
static void apply(stem_word *w, const rule *rules, int min) {
  for (; rules->end; rules++) {
    if (!ends_with(w, rules->end)) continue;
    size_t n = strlen(rules->end);
    if (measure(w->at, w->n - n) >= min) replace(w, n, rules->by);
    return;
  }
}

static const rule plurals[] = {{"sses", "ss"}, {"ies", "i"}, {"ss", "ss"}, {"s", ""}, {NULL, NULL}};

static const rule doubles[] = {
    {"ational", "ate"}, {"tional", "tion"}, {"enci", "ence"}, {"anci", "ance"}, {"izer", "ize"},
    {"bli", "ble"},     {"alli", "al"},     {"entli", "ent"}, {"eli", "e"},     {"ousli", "ous"},
    {"ization", "ize"}, {"ation", "ate"},   {"ator", "ate"},  {"alism", "al"},  {"iveness", "ive"},
    {"fulness", "ful"}, {"ousness", "ous"}, {"aliti", "al"},  {"iviti", "ive"}, {"biliti", "ble"},
    {"fulli", "ful"},   {NULL, NULL}};

static const rule longer[] = {{"icate", "ic"}, {"ative", ""}, {"alize", "al"}, {"iciti", "ic"},
                              {"ical", "ic"},  {"ful", ""},   {"ness", ""},    {NULL, NULL}};

static const rule plain[] = {{"al", ""},   {"ance", ""}, {"ence", ""}, {"er", ""},    {"ic", ""},
                             {"able", ""}, {"ible", ""}, {"ant", ""},  {"ement", ""}, {"ment", ""},
                             {"ent", ""},  {"ou", ""},   {"ism", ""},  {"ate", ""},   {"iti", ""},
                             {"ous", ""},  {"ive", ""},  {"ize", ""},  {NULL, NULL}};

/* ---- steps --------------------------------------------------------------------------------- */

static void drop_plural(stem_word *w) {
  if (w->n == 4 && ends_with(w, "ies"))
    replace(w, 3, "ie");
  else
    apply(w, plurals, 0);
}

/* After -ed or -ing was taken off. */
static void repair(stem_word *w) {
  if (ends_with(w, "at") || ends_with(w, "bl") || ends_with(w, "iz"))
    w->at[w->n++] = 'e';
  else if (ends_double(w))
    w->n -= memchr("lsz", w->at[w->n - 1], 3) == NULL;
  else if (measure(w->at, w->n) == 1 && ends_cvc(w->at, w->n))
    w->at[w->n++] = 'e';
}

static void drop_past(stem_word *w) {
  size_t n = ends_with(w, "ed") ? 2 : ends_with(w, "ing") ? 3 : 0;
  if (ends_with(w, "ied")) {
    replace(w, 3, w->n == 4 ? "ie" : "i");
  } else if (ends_with(w, "eed")) {
    w->n -= measure(w->at, w->n - 3) > 0;
  } else if (n && has_vowel(w->at, w->n - n)) {
    w->n -= n;
    repair(w);
  }
}

static void replace_y(stem_word *w) {
  if (w->n > 2 && w->at[w->n - 1] == 'y' && is_consonant(w->at, w->n - 2)) w->at[w->n - 1] = 'i';
}

static void join_suffixes(stem_word *w) {
  if (ends_with(w, "alli") && measure(w->at, w->n - 4) > 0) w->n -= 2;
  if (!ends_with(w, "logi"))
    apply(w, doubles, 1);
  else if (measure(w->at, w->n - 3) > 0)
    w->n--;
}

static void drop_suffix(stem_word *w) {
  if (!ends_with(w, "ion"))
    apply(w, plain, 2);
  else if (w->n > 3 && memchr("st", w->at[w->n - 4], 2) && measure(w->at, w->n - 3) > 1)
    w->n -= 3;
}

static void drop_e(stem_word *w) {
  if (!ends_with(w, "e")) return;
  int m = measure(w->at, w->n - 1);
  if (m > 1 || (m == 1 && !ends_cvc(w->at, w->n - 1))) w->n--;
}

static void drop_l(stem_word *w) {
  if (ends_with(w, "ll") && measure(w->at, w->n - 1) > 1) w->n--;
}

/* ---- a word -------------------------------------------------------------------------------- */

static const rule irregular[] = {{"skies", "sky"},
                                 {"dying", "die"},
                                 {"lying", "lie"},
                                 {"tying", "tie"},
                                 {"news", "news"},
                                 {"innings", "inning"},
                                 {"inning", "inning"},
                                 {"outings", "outing"},
                                 {"outing", "outing"},
                                 {"cannings", "canning"},
                                 {"canning", "canning"},
                                 {"howe", "howe"},
                                 {"proceed", "proceed"},
                                 {"exceed", "exceed"},
                                 {"succeed", "succeed"},
                                 {"sky", "sky"},
                                 {NULL, NULL}};

static bool is_irregular(stem_word *w) {
  for (const rule *r = irregular; r->end; r++) {
    if (strlen(r->end) != w->n || memcmp(r->end, w->at, w->n)) continue;
    replace(w, w->n, r->by);
    return true;
  }
  return false;
}

size_t attend_stem(char *word, size_t length) {
  stem_word w = {word, length};
  if (length <= 2 || is_irregular(&w)) return w.n;
  drop_plural(&w);
  drop_past(&w);
  replace_y(&w);
  join_suffixes(&w);
  apply(&w, longer, 1);
  drop_suffix(&w);
  drop_e(&w);
  drop_l(&w);
  return w.n;
}
