/* Patterns of pre-tokenizers: a literal string, a known regular expression, or any
 * other.
 *
 * This is the only file that includes pcre2.h.
 */
#define _GNU_SOURCE /* memmem */
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <string.h>

#include "text/tokenizer.h"

/* Limits of a match: memory, steps per start position before its work is counted, and
 * regular expressions of a tokenizer. Real tokenizers stay far below. */
enum { MOST_KIB = 32 << 10, QUICK_STEPS = 64, MOST_REGEXES = 32 };

typedef enum { LITERAL, GPT2, LLAMA3, REGEX } pattern_kind;

struct pattern {
  pattern_kind kind;
  int digits;   /* LLAMA3 */
  chars string; /* LITERAL */
  pcre2_code *code;
};

static const char gpt2[] =
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";
static const char gpt2_short[] =
    "'(?:[sdmt]|ll|ve|re)| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|"
    "\\s+(?!\\S)|\\s+";
#define LLAMA3_WITH(digits)                                                  \
  "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}" digits \
  "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const struct {
  const char *text;
  pattern_kind kind;
  int digits;
} known[] = {{gpt2, GPT2, 0},
             {gpt2_short, GPT2, 0},
             {LLAMA3_WITH("{1,3}"), LLAMA3, 3},
             {LLAMA3_WITH(""), LLAMA3, 1}};

/* PCRE2 takes its memory from the context too. */
static void *pcre_take(size_t bytes, void *user) {
  void *block = NULL;
  return ctx_alloc(user, bytes, "a regular expression", &block) ? NULL : block;
}
static void pcre_give(void *block, void *user) { ctx_free(user, block); }

static attend_status start(attend_tokenizer *t, pattern_kind kind, pattern **p) {
  ATTEND_TRY(ctx_alloc_zeroed(t->ctx, sizeof **p, "a pattern", p));
  (*p)->kind = kind;
  return ATTEND_OK;
}

attend_status pattern_string(attend_tokenizer *t, const char *text, size_t length, pattern **p) {
  if (!length)
    return fail(t->ctx, ATTEND_IO,
                "the tokenizer cuts or replaces at an empty string: it must "
                "have characters");
  ATTEND_TRY(start(t, LITERAL, p));
  (*p)->string.length = length;
  return pool_copy(t->ctx, &t->pool, text, length, &(*p)->string.bytes);
}

static attend_status compile(attend_tokenizer *t, const char *text, size_t length, pattern *p) {
  if (t->regexes++ == MOST_REGEXES)
    return fail(t->ctx, ATTEND_UNSUPPORTED, "the tokenizer has more than %d regular expressions",
                MOST_REGEXES);
  int error = PCRE2_ERROR_HEAP_FAILED;
  size_t at = 0;
  unsigned char why[200];
  pcre2_general_context *memory = pcre2_general_context_create(pcre_take, pcre_give, t->ctx);
  pcre2_compile_context *how = memory ? pcre2_compile_context_create(memory) : NULL;
  if (how)
    p->code = pcre2_compile((PCRE2_SPTR)text, length,
                            PCRE2_UTF | PCRE2_UCP | PCRE2_NEVER_BACKSLASH_C, &error, &at, how);
  if (p->code) pcre2_jit_compile(p->code, PCRE2_JIT_COMPLETE);
  pcre2_compile_context_free(how);
  pcre2_general_context_free(memory);
  if (p->code) return ATTEND_OK;
  if (error == PCRE2_ERROR_HEAP_FAILED)
    return fail(t->ctx, ATTEND_NO_MEMORY, "no memory for a regular expression of %zu bytes",
                length);
  if (pcre2_get_error_message(error, why, sizeof why) < 0) why[0] = 0;
  return fail(t->ctx, ATTEND_IO,
              "the tokenizer's regular expression \"%.100s\" is not valid at "
              "byte %zu: %s",
              text, at, why);
}

/* Verbs such as (*LIMIT_MATCH=..): other libraries do not know them, and some change
 * the limits. */
static attend_status check_options(attend_tokenizer *t, const char *text) {
  if (strncmp(text, "(*", 2)) return ATTEND_OK;
  return fail(t->ctx, ATTEND_UNSUPPORTED,
              "the tokenizer's regular expression \"%.100s\" begins with an "
              "option in (*..), which is not known here",
              text);
}

attend_status pattern_regex(attend_tokenizer *t, const char *text, size_t length, pattern **p) {
  ATTEND_TRY(check_options(t, text));
  ATTEND_TRY(start(t, REGEX, p));
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strlen(known[i].text) == length && !strcmp(known[i].text, text)) {
      (*p)->kind = known[i].kind;
      (*p)->digits = known[i].digits;
      return ATTEND_OK;
    }
  return compile(t, text, length, *p);
}

bool pattern_is(const pattern *p, const char *text) {
  return p->kind == LITERAL && strlen(text) == p->string.length &&
         !memcmp(text, p->string.bytes, p->string.length);
}

bool pattern_cuts_words(const pattern *p) { return p->kind == GPT2 || p->kind == LLAMA3; }

void pattern_free(const attend_context *ctx, pattern *p) {
  if (p) pcre2_code_free(p->code);
  ctx_free(ctx, p);
}

/* ---- matching --------------------------------------------------------------------- */

attend_status pattern_scratch(scratch *s) {
  pcre2_general_context *memory = pcre2_general_context_create(pcre_take, pcre_give, s->ctx);
  s->match = memory ? pcre2_match_data_create(1, memory) : NULL;
  s->limits = memory ? pcre2_match_context_create(memory) : NULL;
  pcre2_general_context_free(memory);
  if (s->limits) pcre2_set_heap_limit(s->limits, MOST_KIB);
  if (s->limits) pcre2_set_match_limit(s->limits, QUICK_STEPS);
  if (s->match && s->limits) return ATTEND_OK;
  return fail(s->ctx, ATTEND_NO_MEMORY, "no memory for regular expressions");
}

void pattern_scratch_free(scratch *s) {
  pcre2_match_data_free(s->match);
  pcre2_match_context_free(s->limits);
}

/* A match at `at` only, with a growing step limit until the budget is used up. PCRE2
 * does not report the steps it took: the whole limit is charged. */
static int match_here(scratch *s, const pattern *p, const char *text, size_t end, size_t at) {
  for (uint32_t max = QUICK_STEPS;; max *= 4) {
    size_t work = max > QUICK_STEPS ? max : 0;
    if (work > s->work) return PCRE2_ERROR_MATCHLIMIT;
    s->work -= work;
    pcre2_set_match_limit(s->limits, max);
    int n = pcre2_match(p->code, (PCRE2_SPTR)text, end, at,
                        PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT | PCRE2_ANCHORED, s->match, s->limits);
    if (n != PCRE2_ERROR_MATCHLIMIT) return n;
  }
}

static int match_slowly(scratch *s, const pattern *p, const char *text, size_t end, size_t at) {
  int n = PCRE2_ERROR_NOMATCH;
  for (; n == PCRE2_ERROR_NOMATCH && at <= end; at++) {
    bool inside = at < end && ((unsigned char)text[at] & 0xc0) == 0x80;
    if (!inside) n = match_here(s, p, text, end, at);
  }
  pcre2_set_match_limit(s->limits, QUICK_STEPS);
  return n;
}

/* PCRE2's limit applies to each start position, and means something else in
 * JIT-compiled patterns: hence the second attempt, which counts. */
static attend_status next_regex(scratch *s, const pattern *p, const char *text, size_t end,
                                size_t at, span *match, bool *found) {
  int n = pcre2_match(p->code, (PCRE2_SPTR)text, end, at, PCRE2_NO_UTF_CHECK, s->match, s->limits);
  if (n == PCRE2_ERROR_JIT_STACKLIMIT || n == PCRE2_ERROR_MATCHLIMIT)
    n = match_slowly(s, p, text, end, at);
  *found = n >= 0;
  if (n == PCRE2_ERROR_NOMATCH) return ATTEND_OK;
  if (n < 0)
    return fail(s->ctx, ATTEND_UNSUPPORTED,
                "the tokenizer's regular expression takes too many steps on "
                "this text (PCRE2 says %d): cut the text into smaller pieces",
                n);
  size_t *where = pcre2_get_ovector_pointer(s->match);
  *match = (span){(uint32_t)where[0], (uint32_t)where[1]};
  if (where[1] < where[0]) match->end = match->start; /* \K can do that */
  return ATTEND_OK;
}

static bool next_literal(const pattern *p, const char *text, size_t end, size_t at, span *match) {
  const char *found =
      at < end ? memmem(text + at, end - at, p->string.bytes, p->string.length) : NULL;
  if (!found) return false;
  match->start = (uint32_t)(found - text);
  match->end = match->start + (uint32_t)p->string.length;
  return true;
}

attend_status pattern_next(scratch *s, const pattern *p, const char *text, size_t end, size_t at,
                           span *match, bool *found) {
  if (p->kind == REGEX) return next_regex(s, p, text, end, at, match, found);
  if (p->kind == LITERAL) {
    *found = next_literal(p, text, end, at, match);
    return ATTEND_OK;
  }
  *found = at < end;
  if (!*found) return ATTEND_OK;
  size_t stop = p->kind == GPT2 ? scan_gpt2(text, end, at) : scan_llama3(text, end, at, p->digits);
  *match = (span){(uint32_t)at, (uint32_t)stop};
  return ATTEND_OK;
}

/* ---- the patterns of GPT-2 and Llama 3 ----------------------------------- */

/* Written by hand: they split most of the text that is ever encoded, several times
 * faster than a regular expression. Tests compare the two. */

typedef enum { AT_END, SPACE, LETTER, NUMBER, OTHER } kind;

static kind kind_of(uint32_t c) {
  static const unsigned char kinds[] = {[0] = OTHER,
                                        [ASCII_SPACE] = SPACE,
                                        [ASCII_LETTER] = LETTER,
                                        [ASCII_NUMBER] = NUMBER,
                                        [ASCII_PUNCT] = OTHER};
  if (c < 0x80) return (kind)kinds[ascii_kinds[c]];
  if (is_letter(c)) return LETTER;
  if (is_space(c)) return SPACE;
  return is_number(c) ? NUMBER : OTHER;
}

static kind kind_at(const char *s, size_t n, size_t at, size_t *width) {
  uint32_t c;
  *width = 0;
  if (at >= n) return AT_END;
  *width = utf8_next(s + at, n - at, &c);
  return kind_of(c);
}

static size_t run_end(const char *s, size_t n, size_t at, kind k) {
  size_t width;
  while (kind_at(s, n, at, &width) == k) at += width;
  return at;
}

/* The end of 's, 't, 're, 've, 'm, 'll or 'd at the apostrophe `at`, else at. */
static size_t contraction(const char *s, size_t n, size_t at, bool any_case) {
  char a = 0, b = 0;
  int fold = any_case ? 32 : 0;
  if (at + 1 < n) a = (char)(s[at + 1] | (s[at + 1] >= 'A' && s[at + 1] <= 'Z' ? fold : 0));
  if (at + 2 < n) b = (char)(s[at + 2] | (s[at + 2] >= 'A' && s[at + 2] <= 'Z' ? fold : 0));
  if (a == 's' || a == 't' || a == 'm' || a == 'd') return at + 2;
  if ((a == 'r' && b == 'e') || (a == 'v' && b == 'e') || (a == 'l' && b == 'l')) return at + 3;
  /* U+017F, the long s, folds to s */
  if (any_case && at + 2 < n && !memcmp(s + at + 1, "\xc5\xbf", 2)) return at + 3;
  return at;
}

/* \s+(?!\S)|\s+ : the whole run at the end of the text, else all but the last. */
static size_t spaces(const char *s, size_t n, size_t at) {
  size_t last = at, end = at, width;
  while (kind_at(s, n, end, &width) == SPACE) {
    last = end;
    end += width;
  }
  return end == n || last == at ? end : last;
}

size_t scan_gpt2(const char *s, size_t n, size_t at) {
  size_t width;
  if (s[at] == '\'') {
    size_t end = contraction(s, n, at, false);
    if (end > at) return end;
  }
  kind k = kind_at(s, n, at, &width);
  if (k == SPACE) {
    size_t next;
    kind then = kind_at(s, n, at + 1, &next);
    if (s[at] != ' ' || then <= SPACE) return spaces(s, n, at);
    return run_end(s, n, at + 1, then);
  }
  return run_end(s, n, at, k);
}

/* ---- Llama 3 -------------------------------------------------------------------- */

static bool is_line_end(char c) { return c == '\r' || c == '\n'; }

static size_t digits_end(const char *s, size_t n, size_t at, int max) {
  size_t width;
  for (; max > 0 && kind_at(s, n, at, &width) == NUMBER; max--) at += width;
  return at;
}

static size_t others_end(const char *s, size_t n, size_t at) {
  at = run_end(s, n, at, OTHER);
  while (at < n && is_line_end(s[at])) at++;
  return at;
}

/* \s*[\r\n]+ : up to and including the last line end of the run, if it has one. */
static size_t lines_end(const char *s, size_t n, size_t at) {
  size_t end = at, width;
  for (size_t i = at; kind_at(s, n, i, &width) == SPACE; i += width)
    if (is_line_end(s[i])) end = i + 1;
  return end > at ? end : spaces(s, n, at);
}

size_t scan_llama3(const char *s, size_t n, size_t at, int digits) {
  size_t width = 1, next;
  if (s[at] == '\'') {
    size_t end = contraction(s, n, at, true);
    if (end > at) return end;
  }
  kind k = kind_at(s, n, at, &width);
  if (k == LETTER) return run_end(s, n, at, LETTER);
  if (k == NUMBER) return digits_end(s, n, at, digits);
  kind then = kind_at(s, n, at + width, &next);
  if (then == LETTER && !is_line_end(s[at])) return run_end(s, n, at + width, LETTER);
  if (k == OTHER) return others_end(s, n, at);
  if (s[at] == ' ' && then == OTHER) return others_end(s, n, at + 1);
  return lines_end(s, n, at);
}
