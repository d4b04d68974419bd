/* Formulas as MathML: written as a line of Unicode, such as "2σ²‖μ‖² + dσ⁴",
 * "Σ_{j≤t} sim(q_t, k_j) v_j / √D" or "xᵢ".
 *
 * A character or a bracket is an atom; superscripts, subscripts, _ and ^ follow it. " / " with
 * spaces is a fraction of the terms beside it, up to =, +, − or a comma; "/" without stays a
 * slash. Words of several letters are functions where a bracket or a script follows, else text.
 */
#include "base/base.h"
#include "studies/formula.h"
#include "studies/study.h"

typedef struct {
  const char *of, *is;
} script;

static const script supers[] = {
    {"⁰", "0"}, {"¹", "1"}, {"²", "2"}, {"³", "3"}, {"⁴", "4"}, {"⁵", "5"}, {"⁶", "6"}, {"⁷", "7"},
    {"⁸", "8"}, {"⁹", "9"}, {"⁺", "+"}, {"⁻", "−"}, {"ⁿ", "n"}, {"ⁱ", "i"}, {"ᵀ", "T"}, {"ᵏ", "k"},
    {"ˣ", "x"}, {"ˡ", "l"}, {"ᵖ", "p"}, {"ᵈ", "d"}, {"′", "′"}, {"'", "′"}, {0}};
static const script subs[] = {{"₀", "0"}, {"₁", "1"}, {"₂", "2"}, {"₃", "3"}, {"₄", "4"},
                              {"₅", "5"}, {"₆", "6"}, {"₇", "7"}, {"₈", "8"}, {"₉", "9"},
                              {"₊", "+"}, {"₋", "−"}, {"ᵢ", "i"}, {"ⱼ", "j"}, {"ₖ", "k"},
                              {"ₗ", "l"}, {"ₘ", "m"}, {"ₙ", "n"}, {"ₛ", "s"}, {"ₜ", "t"},
                              {"ₐ", "a"}, {"ₕ", "h"}, {"ₚ", "p"}, {"ₓ", "x"}, {0}};
static const char *const separators[] = {"=", "≈", "≤", "≥", "<", ">", "+", "−", "-",
                                         "±", ",", ";", "∈", "~", "←", "→", "…", NULL};
static const char *const pairs[] = {"(", ")", "[", "]", "{", "}", "⌊", "⌋",
                                    "⌈", "⌉", "‖", "‖", "|", "|", NULL};

typedef struct {
  const char *at;
  svg *out;
  int depth;
} reader;

enum { DEEPEST = 64, LONGEST = 1024 }; /* brackets inside brackets; bytes, with the zero byte */

/* ---- characters -------------------------------------------------------------------------- */

static size_t char_length(const char *at) {
  size_t n = 1;
  if (!*at) return 0;
  while (((unsigned char)at[n] & 0xc0) == 0x80) n++;
  return n;
}

static bool begins(const char *at, const char *with) { return !strncmp(at, with, strlen(with)); }

static const char *among(const char *at, const char *const *list) {
  for (; *list; list++)
    if (begins(at, *list)) return *list;
  return NULL;
}

static const script *script_at(const char *at, const script *list) {
  for (; list->of; list++)
    if (begins(at, list->of)) return list;
  return NULL;
}

static bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static size_t word_length(const char *at) {
  size_t n = 0;
  while (is_letter(at[n])) n++;
  return n;
}

/* The bracket that ends what begins here; NULL: none begins. A bar between spaces is no bracket. */
static const char *end_of_bracket(const char *at, bool spaced) {
  if (*at == '|' && spaced && at[1] == ' ') return NULL;
  for (int i = 0; pairs[i]; i += 2)
    if (begins(at, pairs[i])) return pairs[i + 1];
  return NULL;
}

/* ---- the tree, as text -------------------------------------------------------------------- */

/* Puts a tag before what was written from `at` on. */
static void wrap(svg *s, size_t at, const char *tag) {
  const size_t n = strlen(tag), length = s->length;
  svg_add(s, "%s", tag);
  if (s->status) return;
  memmove(s->text + at + n, s->text + at, length - at);
  memcpy(s->text + at, tag, n);
}

static void put(svg *s, const char *tag, const char *text, size_t n) {
  svg_add(s, "<%s>", tag);
  svg_escape(s, text, n);
  svg_add(s, "</%s>", tag);
}

static void read_row(reader *r, const char *end);

/* What is between brackets, without them. */
static void read_inside(reader *r, const char *end) {
  r->at += char_length(r->at);
  svg_add(r->out, "<mrow>");
  read_row(r, end);
  svg_add(r->out, "</mrow>");
  if (*r->at) r->at += strlen(end);
}

/* A bracket grows with a fraction in it, and only then. */
static void put_bracket(svg *s, bool grows, const char *text, size_t n) {
  svg_add(s, "<mo stretchy=\"%s\">", grows ? "true" : "false");
  svg_escape(s, text, n);
  svg_add(s, "</mo>");
}

static void read_bracket(reader *r, const char *end) {
  const char *open = r->at;
  svg inside = {.memory = r->out->memory}, *out = r->out;
  r->out = &inside;
  read_inside(r, end);
  r->out = out;
  const bool grows = inside.text && strstr(inside.text, "<mfrac>");
  svg_add(out, "<mrow>");
  put_bracket(out, grows, open, char_length(open));
  if (inside.length) svg_put(out, inside.text, inside.length);
  put_bracket(out, grows, end, strlen(end));
  svg_add(out, "</mrow>");
  if (inside.status && !out->status) out->status = inside.status;
  svg_free(&inside);
}

static void read_number(reader *r) {
  size_t n = 1;
  while (is_digit(r->at[n]) || (r->at[n] == '.' && is_digit(r->at[n + 1]))) n++;
  put(r->out, "mn", r->at, n);
  r->at += n;
}

/* Whether a word of n letters is a name, not part of a sentence: a variable, or a function. */
static bool is_name(const char *at, size_t n) {
  const char *after = at + n;
  if (n == 1 || *after == '(' || *after == '_' || *after == '^' || *after == '[') return true;
  if (script_at(after, supers) || script_at(after, subs)) return true;
  return n == 2 && (at[0] < 'a' || at[1] < 'a'); /* Qm, dO */
}

/* A variable, a function, or words up to the next that is one. */
static void read_word(reader *r) {
  size_t n = word_length(r->at), next;
  const bool name = is_name(r->at, n);
  while (!name && r->at[n] == ' ' && (next = word_length(r->at + n + 1)) &&
         !is_name(r->at + n + 1, next))
    n += 1 + next;
  if (!name) svg_add(r->out, "<mspace width=\"0.3em\"></mspace>");
  put(r->out, name ? "mi" : "mtext", r->at, n);
  if (!name) svg_add(r->out, "<mspace width=\"0.3em\"></mspace>");
  r->at += n;
}

/* An argument of _, ^ or √. */
static void read_argument(reader *r) {
  const char *end = end_of_bracket(r->at, false);
  if (end && (*r->at == '{' || *r->at == '(')) {
    read_inside(r, end);
  } else if (end) {
    read_bracket(r, end);
  } else if (is_letter(*r->at) || is_digit(*r->at)) {
    size_t n = 0;
    while (is_letter(r->at[n]) || is_digit(r->at[n])) n++;
    put(r->out, is_digit(*r->at) ? "mn" : "mi", r->at, n);
    r->at += n;
  } else {
    const size_t n = char_length(r->at);
    put(r->out, "mi", r->at, n);
    r->at += n;
  }
}

static void read_atom(reader *r, bool spaced) {
  const char *end = r->depth < DEEPEST ? end_of_bracket(r->at, spaced) : NULL;
  const size_t n = char_length(r->at);
  if (end) {
    read_bracket(r, end);
  } else if (is_digit(*r->at)) {
    read_number(r);
  } else if (is_letter(*r->at)) {
    read_word(r);
  } else if (begins(r->at, "√")) {
    r->at += n;
    svg_add(r->out, "<msqrt>");
    read_argument(r);
    svg_add(r->out, "</msqrt>");
  } else {
    const bool letter = n == 2 && (unsigned char)*r->at >= 0xc4; /* Latin, Greek */
    const bool sum = begins(r->at, "Σ");
    put(r->out, letter && !sum ? "mi" : "mo", sum ? "∑" : r->at, sum ? strlen("∑") : n);
    r->at += n;
  }
}

/* Characters of one kind: "ⁿ⁻¹", or _ or ^ and what follows. Writes them as a row. */
static void read_script(reader *r, const script *list, char mark) {
  const script *s;
  svg_add(r->out, "<mrow>");
  if (*r->at == mark) {
    r->at++;
    read_argument(r);
  }
  while ((s = script_at(r->at, list))) {
    put(r->out, is_digit(*s->is) ? "mn" : is_letter(*s->is) ? "mi" : "mo", s->is, strlen(s->is));
    r->at += strlen(s->of);
  }
  svg_add(r->out, "</mrow>");
}

/* A superscript may be written first, as in "V′ᵢ"; MathML has it last. */
static void read_scripts(reader *r, size_t from) {
  svg up = {.memory = r->out->memory}, *out = r->out;
  const bool sum = begins(out->text ? out->text + from : "", "<mo>∑");
  bool super = false, sub = false;
  for (int i = 0; i < 2; i++) {
    if (!sub && (*r->at == '_' || script_at(r->at, subs))) {
      read_script(r, subs, '_');
      sub = true;
    }
    if (!super && (*r->at == '^' || script_at(r->at, supers))) {
      r->out = &up;
      read_script(r, supers, '^');
      r->out = out;
      super = true;
    }
  }
  const char *tag = sub && super ? "msubsup" : sub ? (sum ? "munder" : "msub") : "msup";
  char open[16];
  snprintf(open, sizeof open, "<%s>", tag);
  if (sub || super) wrap(out, from, open);
  if (up.length) svg_put(out, up.text, up.length);
  if (sub || super) svg_add(out, "</%s>", tag);
  if (up.status && !out->status) out->status = up.status;
  svg_free(&up);
}

static bool ends_row(const char *at, const char *end) { return !*at || (end && begins(at, end)); }

/* One line, up to a bracket's end. term: where the numerator of a fraction would begin. Three
 * spaces or more part two formulas. */
static void read_row(reader *r, const char *end) {
  size_t term = r->out->length;
  bool fraction = false;
  r->depth++;
  while (!ends_row(r->at, end) && !r->out->status) {
    const size_t spaces = strspn(r->at, " ");
    const bool begins_fraction = !fraction && begins(r->at, " / ");
    r->at += begins_fraction ? 3 : spaces;
    const bool separates = spaces >= 3 || among(r->at, separators);
    if (begins_fraction) {
      wrap(r->out, term, "<mfrac><mrow>");
      svg_add(r->out, "</mrow><mrow>");
    } else if (fraction && (separates || ends_row(r->at, end))) {
      svg_add(r->out, "</mrow></mfrac>");
    }
    fraction = begins_fraction || (fraction && !separates && !ends_row(r->at, end));
    if (spaces >= 3) svg_add(r->out, "<mspace width=\"2em\"></mspace>");
    if (spaces >= 3) term = r->out->length;
    if (ends_row(r->at, end)) break;
    const size_t from = r->out->length;
    read_atom(r, spaces > 0);
    read_scripts(r, from);
    if (separates) term = r->out->length;
  }
  if (fraction) svg_add(r->out, "</mrow></mfrac>");
  r->depth--;
}

void formula_put(svg *s, const char *text, size_t n, bool display) {
  char line[LONGEST];
  reader r = {.at = line, .out = s};
  if (n >= sizeof line) n = sizeof line - 1;
  memcpy(line, text, n);
  line[n] = 0;
  svg_add(s, "<math%s alttext=\"", display ? " display=\"block\"" : "");
  svg_escape(s, line, n);
  svg_add(s, "\"><mrow>");
  read_row(&r, NULL);
  svg_add(s, "</mrow></math>");
}

attend_status attend_formula_mathml(attend_context *ctx, const char *text, char **html) {
  svg s = {.memory = ctx->allocator};
  *html = NULL;
  ATTEND_CHECK(ctx, strlen(text) < LONGEST, "a formula has %zu bytes: give it at most %d on a line",
               strlen(text), LONGEST - 1);
  formula_put(&s, text, strlen(text), true);
  *html = s.text;
  if (!s.status) return ATTEND_OK;
  svg_free(&s);
  *html = NULL;
  return fail(ctx, s.status, "no memory for a formula");
}
