/* Problem strings, FORM[(name=value,...)]:SHAPE[:WORD]...: the vocabulary, the parser
 * and the printer.
 *
 * The command line and the tests name problems this way. Parser and printer share the
 * tables below, so neither knows a name that the other does not. The parser splits the
 * text at its colons and reads each word by itself, so that every error names its word.
 */
#include <ctype.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/desc.h"
#include "attention/problem.h"

/* A problem holds one word of each group. */
typedef enum {
  WORD_CAUSAL,
  WORD_WINDOW,
  WORD_PAD,
  WORD_BIAS,
  WORD_SCALE,
  WORD_CAP,
  WORD_DTYPE,
  WORD_LAYOUT,
  WORD_OP
} problem_word_group;

/* Two kinds of bucket bias, distinguished by one bit. */
enum { PROBLEM_ONE_SIDED = 1 << 8 };

typedef struct {
  const char *name; /* ends in '=' where a number follows */
  problem_word_group group;
  int value; /* of the enum that the group sets */
} problem_word;

/* What a form's parentheses may set. */
typedef enum {
  SETTING_COUNT, /* int, 1 or more                  */
  SETTING_FLOAT,
  SETTING_SEED,  /* uint64_t                         */
  SETTING_CHOICE /* an enum or int, 0 or 1, by words */
} problem_setting_type;

typedef struct {
  const char *name;
  unsigned forms; /* bit n: the form of kind n has it */
  problem_setting_type type;
  size_t at; /* in attend_form */
  const char *meaning;
  const char *words[2]; /* of a choice */
  bool may_be_zero;     /* for a float 0 is a value, not the default */
} problem_setting;

/* In the order in which they are printed; the last name is NULL. */

/* By attend_form_kind, then sgemm: no string can hold a function. */
enum { PROBLEM_SGEMM = ATTEND_CUSTOM };
static const char *const problem_forms[] = {"softmax", "argmax",  "poly",  "gaussian",
                                            "elu",     "fourier", "favor", "sgemm"};

static const problem_word problem_words[] = {
    {"causal", WORD_CAUSAL, ATTEND_CAUSAL},
    {"top", WORD_CAUSAL, ATTEND_CAUSAL_TOP},
    {"bottom", WORD_CAUSAL, ATTEND_CAUSAL_BOTTOM},
    {"window=", WORD_WINDOW, 0},
    {"lengths", WORD_PAD, ATTEND_PAD_LENGTHS},
    {"padleft", WORD_PAD, ATTEND_PAD_LEFT},
    {"padright", WORD_PAD, ATTEND_PAD_RIGHT},
    {"alibi", WORD_BIAS, ATTEND_ALIBI},
    {"buckets", WORD_BIAS, ATTEND_BUCKETS},
    {"buckets1", WORD_BIAS, ATTEND_BUCKETS | PROBLEM_ONE_SIDED},
    {"dense", WORD_BIAS, ATTEND_DENSE},
    {"scale=", WORD_SCALE, 0},
    {"cap=", WORD_CAP, 0},
    {"f32", WORD_DTYPE, ATTEND_F32},
    {"f16", WORD_DTYPE, ATTEND_F16},
    {"bf16", WORD_DTYPE, ATTEND_BF16},
    {"bthd", WORD_LAYOUT, 1},
    {"bwd", WORD_OP, ATTEND_OP_BACKWARD},
    {"decode", WORD_OP, ATTEND_OP_DECODE},
    {NULL, WORD_OP, 0},
};

/* The enum that a group sets, of an int's size; groups with a number have none. */
static const size_t group_at[] = {
    [WORD_CAUSAL] = offsetof(attend_problem, desc.mask.causal),
    [WORD_PAD] = offsetof(attend_problem, pad),
    [WORD_BIAS] = offsetof(attend_problem, desc.bias.kind),
    [WORD_DTYPE] = offsetof(attend_problem, desc.dtype),
    [WORD_LAYOUT] = offsetof(attend_problem, bthd),
    [WORD_OP] = offsetof(attend_problem, op),
};
_Static_assert(sizeof((attend_problem *)0)->bthd == sizeof(int), "set as an enum is");

enum { /* forms that share settings, as bits */
       ARGMAX = 1 << ATTEND_ARGMAX,
       POLY = 1 << ATTEND_POLY,
       GAUSSIAN = 1 << ATTEND_GAUSSIAN,
       FAVOR = 1 << ATTEND_FAVOR,
       APPROXIMATE = FAVOR | 1 << ATTEND_FOURIER,
       RANDOM = APPROXIMATE | GAUSSIAN
};
#define AT(member) offsetof(attend_form, member)

#define WORDS(zero, one) NULL, {zero, one}, false
#define COUNTS(what) what, {NULL, NULL}, false
#define NOT_ZERO NULL, {NULL, NULL}, false
#define ANY NULL, {NULL, NULL}, true

static const problem_setting problem_settings[] = {
    {"ties", ARGMAX, SETTING_CHOICE, AT(ties), WORDS("first", "average")},
    {"t", ARGMAX, SETTING_FLOAT, AT(temperature), ANY},
    {"p", POLY, SETTING_COUNT, AT(degree), COUNTS("the degree")},
    {"a", POLY, SETTING_FLOAT, AT(a), NOT_ZERO},
    {"c", POLY, SETTING_FLOAT, AT(c), ANY},
    {"sigma", RANDOM, SETTING_FLOAT, AT(sigma), NOT_ZERO},
    {"m", RANDOM, SETTING_COUNT, AT(features), COUNTS("the number of features")},
    {"seed", RANDOM, SETTING_SEED, AT(seed), COUNTS("the number")},
    {"redraw", RANDOM, SETTING_SEED, AT(redraw), COUNTS("the number")},
    {"draw", RANDOM, SETTING_CHOICE, AT(draw), WORDS("orthogonal", "iid")},
    {"kind", FAVOR, SETTING_CHOICE, AT(pairs), WORDS("plain", "pair")},
    {"map", GAUSSIAN, SETTING_CHOICE, AT(map), WORDS("favor", "fourier")},
    {"error", APPROXIMATE, SETTING_FLOAT, AT(error), NOT_ZERO},
    {"spread", APPROXIMATE, SETTING_FLOAT, AT(spread), NOT_ZERO},
    {NULL, 0, SETTING_COUNT, 0, NOT_ZERO},
};

/* ==== parsing =============================================================== */

enum { FORMS = PROBLEM_SGEMM + 1 };

typedef struct {
  const char *at;
  size_t length;
} span;

typedef struct {
  attend_context *ctx;
  attend_problem problem;
  const char *rest;        /* after the word being read; NULL after the last */
  span word;               /* being read                                     */
  int number;              /* of the word; the form is word 1                */
  span taken[WORD_OP + 1]; /* the word that spoke for each group      */
} reader;

/* ---- small pieces ---------------------------------------------------------------- */

enum { SHOWN = 48 }; /* characters of the text that a sentence repeats */

static int shown(span s) { return s.length < SHOWN ? (int)s.length : SHOWN; }

__attribute__((format(printf, 2, 3))) static attend_status wrong(reader *r, const char *sentence,
                                                                 ...) {
  char what[384];
  va_list args;
  va_start(args, sentence);
  vsnprintf(what, sizeof what, sentence, args);
  va_end(args);
  return fail(r->ctx, ATTEND_INVALID, "word %d \"%.*s\": %s", r->number, shown(r->word), r->word.at,
              what);
}

static span cut(span *rest, char mark) {
  const char *end = memchr(rest->at, mark, rest->length);
  span piece = {rest->at, end ? (size_t)(end - rest->at) : rest->length};
  size_t used = piece.length + (end ? 1 : 0);
  *rest = (span){rest->at + used, rest->length - used};
  return piece;
}

static bool span_is(span s, const char *name) {
  return s.length == strlen(name) && memcmp(s.at, name, s.length) == 0;
}

static void next_word(reader *r) {
  const char *end = strchr(r->rest, ':');
  r->word = (span){r->rest, end ? (size_t)(end - r->rest) : strlen(r->rest)};
  r->rest = end ? end + 1 : NULL;
  r->number++;
}

/* Digits only. */
static bool read_whole(span s, uint64_t max, uint64_t *value) {
  uint64_t sum = 0;
  for (size_t n = 0; n < s.length; n++) {
    if (s.at[n] < '0' || s.at[n] > '9') return false;
    uint64_t digit = (uint64_t)(s.at[n] - '0');
    if (sum > (max - digit) / 10) return false;
    sum = sum * 10 + digit;
  }
  *value = sum;
  return s.length > 0;
}

static bool read_int(span s, int *value) {
  uint64_t whole;
  if (!read_whole(s, INT_MAX, &whole)) return false;
  *value = (int)whole;
  return true;
}

static bool read_float(span s, float *value) {
  char copy[64], *end;
  if (s.length == 0 || s.length >= sizeof copy || isspace((unsigned char)*s.at)) return false;
  memcpy(copy, s.at, s.length);
  copy[s.length] = 0;
  *value = strtof(copy, &end);
  return *end == 0 && isfinite(*value);
}

/* ---- FORM(name=value,...) -------------------------------------------------------- */

/* In a description 0 means the default; a string leaves the setting out. */
static attend_status read_number(reader *r, const char *name, span value, bool may_be_zero,
                                 float *out) {
  if (!read_float(value, out))
    return wrong(r, "%s is \"%.*s\": choose a number such as %s=0.5", name, shown(value), value.at,
                 name);
  if (*out == 0 && !may_be_zero)
    return wrong(r, "%s is 0: choose another number, or leave it out for the default", name);
  return ATTEND_OK;
}

static attend_status read_count(reader *r, const problem_setting *s, span value, int *out) {
  int max = strcmp(s->name, "m") ? INT_MAX : MOST_FEATURES;
  if (read_int(value, out) && *out >= 1) return ATTEND_OK;
  return wrong(r, "%s %s is \"%.*s\": choose a whole number from 1 to %d", s->meaning, s->name,
               shown(value), value.at, max);
}

static attend_status read_seed(reader *r, const problem_setting *s, span value, uint64_t *out) {
  if (read_whole(value, UINT64_MAX, out)) return ATTEND_OK;
  return wrong(r, "%s %s is \"%.*s\": choose a whole number from 0 to %llu", s->meaning, s->name,
               shown(value), value.at, ULLONG_MAX);
}

static attend_status read_choice(reader *r, const problem_setting *s, span value, int *out) {
  for (int n = 0; n < 2; n++)
    if (span_is(value, s->words[n])) {
      *out = n;
      return ATTEND_OK;
    }
  return wrong(r, "%s is \"%.*s\": choose %s=%s or %s=%s", s->name, shown(value), value.at, s->name,
               s->words[0], s->name, s->words[1]);
}

/* "p, a and c" */
static void list_settings(attend_form_kind kind, char *list, size_t size) {
  const problem_setting *last = NULL;
  size_t used = 0;
  for (const problem_setting *s = problem_settings; s->name; s++)
    if (s->forms >> kind & 1) last = s;
  snprintf(list, size, "none");
  for (const problem_setting *s = problem_settings; s->name; s++)
    if (s->forms >> kind & 1)
      used += (size_t)snprintf(list + used, size - used, "%s%s",
                               used == 0 ? "" : (s == last ? " and " : ", "), s->name);
}

static attend_status read_form_setting(reader *r, span name, span value) {
  attend_form *f = &r->problem.desc.form;
  const problem_setting *s = problem_settings;
  while (s->name && !(s->forms >> f->kind & 1 && span_is(name, s->name))) s++;
  void *at = (char *)f + s->at;
  if (s->name) switch (s->type) {
      case SETTING_COUNT:
        return read_count(r, s, value, at);
      case SETTING_FLOAT:
        return read_number(r, s->name, value, s->may_be_zero, at);
      case SETTING_SEED:
        return read_seed(r, s, value, at);
      case SETTING_CHOICE:
        return read_choice(r, s, value, at);
    }
  char list[128];
  list_settings(f->kind, list, sizeof list);
  return wrong(r, "%s has no setting \"%.*s\": it has %s", problem_forms[f->kind], shown(name),
               name.at, list);
}

static bool occurs_before(const char *list, span name) {
  span rest = {list, (size_t)(name.at - list)};
  while (rest.length > 0) {
    span piece = cut(&rest, ',');
    span earlier = cut(&piece, '=');
    if (earlier.length == name.length && memcmp(earlier.at, name.at, name.length) == 0) return true;
  }
  return false;
}

static attend_status read_form_settings(reader *r, span list) {
  if (r->problem.op == ATTEND_OP_SGEMM)
    return wrong(r, "sgemm has no settings: write sgemm without parentheses");
  if (list.length > 0 && list.at[list.length - 1] == ',')
    return wrong(r, "a comma ends the settings: leave it out");
  span rest = list;
  do {
    span value = cut(&rest, ',');
    span name = cut(&value, '=');
    if (name.length == 0 || value.at == name.at + name.length)
      return wrong(r, "\"%.*s\" is not a setting: write name=value, with commas between several",
                   shown(name), name.at);
    if (occurs_before(list.at, name))
      return wrong(r, "%.*s is set twice: keep one", shown(name), name.at);
    ATTEND_TRY(read_form_setting(r, name, value));
  } while (rest.length > 0);
  return ATTEND_OK;
}

static attend_status read_form(reader *r) {
  span rest = r->word;
  const char *open = memchr(rest.at, '(', rest.length);
  span name = cut(&rest, '(');
  int kind = 0;
  while (kind < FORMS && !span_is(name, problem_forms[kind])) kind++;
  if (kind == FORMS)
    return wrong(r,
                 "\"%.*s\" is not a form: choose softmax, argmax, poly, "
                 "gaussian, elu, fourier, favor or sgemm%s",
                 shown(name), name.at,
                 span_is(name, "custom") ? "; custom needs a function and works from C only" : "");
  if (kind == PROBLEM_SGEMM)
    r->problem.op = ATTEND_OP_SGEMM;
  else
    r->problem.desc.form.kind = (attend_form_kind)kind;
  if (!open) return ATTEND_OK;
  if (rest.length == 0 || rest.at[rest.length - 1] != ')')
    return wrong(r, "the parenthesis does not close at the end of the word: write %s(name=value)",
                 problem_forms[kind]);
  return read_form_settings(r, (span){rest.at, rest.length - 1});
}

/* ---- SHAPE ----------------------------------------------------------------------- */

typedef struct {
  char letter;
  int *value; /* 0 if the letter is absent and not needed */
  int min;
  bool needed, given;
  const char *meaning;
} measure;

static measure *find_measure(measure *m, int count, char letter) {
  for (int n = 0; n < count; n++)
    if (m[n].letter == letter) return m + n;
  return NULL;
}

static attend_status read_measure(reader *r, measure *m, span digits) {
  if (m->given) return wrong(r, "the letter %c (%s) occurs twice: keep one", m->letter, m->meaning);
  m->given = true;
  if (read_int(digits, m->value) && *m->value >= m->min) return ATTEND_OK;
  return wrong(r, "%c (%s) is \"%.*s\": choose a whole number from %d to %d", m->letter, m->meaning,
               shown(digits), digits.at, m->min, INT_MAX);
}

static attend_status read_measures(reader *r, measure *m, int count, const char *letters) {
  const char *at = r->word.at, *end = at + r->word.length;
  while (at < end) {
    measure *found = find_measure(m, count, *at);
    if (!found) return wrong(r, "\"%c\" is not a size: the letters are %s", *at, letters);
    const char *stop = ++at;
    while (stop < end && isdigit((unsigned char)*stop)) stop++;
    ATTEND_TRY(read_measure(r, found, (span){at, (size_t)(stop - at)}));
    at = stop;
  }
  for (int n = 0; n < count; n++)
    if (m[n].needed && !m[n].given)
      return wrong(r, "the letter %c (%s) is missing: write %c and a number", m[n].letter,
                   m[n].meaning, m[n].letter);
  return ATTEND_OK;
}

static attend_status read_sgemm_shape(reader *r) {
  attend_problem *p = &r->problem;
  measure m[] = {
      {'m', &p->m, 1, true, false, "rows of A and C"},
      {'n', &p->n, 1, true, false, "columns of B and C"},
      {'k', &p->k, 1, true, false, "columns of A, rows of B"},
  };
  return read_measures(r, m, 3, "m, n and k");
}

static attend_status read_shape(reader *r) {
  attend_desc *d = &r->problem.desc;
  d->kv_len = -1; /* until the words say whether n or x names it */
  measure m[] = {
      {'b', &d->batch, 1, false, false, "batch"},
      {'h', &d->heads, 1, false, false, "heads"},
      {'g', &d->kv_heads, 1, false, false, "kv heads"},
      {'n', &d->q_len, 0, true, false, "query length"},
      {'x', &d->kv_len, 0, false, false, "key length"},
      {'d', &d->dim, 1, true, false, "width of q and k"},
      {'v', &d->dim_v, 1, false, false, "width of values"},
  };
  return read_measures(r, m, sizeof m / sizeof *m, "b, h, g, n, x, d and v");
}

/* ---- WORDS ----------------------------------------------------------------------- */

static attend_status unknown_word(reader *r) {
  char list[256] = "";
  size_t used = 0;
  for (const problem_word *w = problem_words; w->name; w++)
    used += (size_t)snprintf(list + used, sizeof list - used, "%s%s",
                             w == problem_words ? "" : ", ", w->name);
  return wrong(r, "there is no such word: the words are %s", list);
}

static bool takes_number(const char *name) { return name[strlen(name) - 1] == '='; }

static const problem_word *find_word(span word) {
  for (const problem_word *w = problem_words; w->name; w++) {
    size_t length = strlen(w->name);
    bool starts = word.length >= length && !memcmp(word.at, w->name, length);
    if (starts && (takes_number(w->name) || word.length == length)) return w;
  }
  return NULL;
}

static attend_status read_window(reader *r, span value) {
  int *window = &r->problem.desc.mask.window;
  if (read_int(value, window) && *window >= 1) return ATTEND_OK;
  return wrong(r, "the window is \"%.*s\": choose a whole number from 1 to %d", shown(value),
               value.at, INT_MAX);
}

static attend_status read_scale(reader *r, span value) {
  attend_desc *d = &r->problem.desc;
  if (!form_has_scale(d->form.kind))
    return wrong(r, "%s has no scale: leave it out, or choose softmax, argmax, fourier or favor",
                 problem_forms[d->form.kind]);
  return read_number(r, "scale", value, false, &d->scale);
}

static attend_status apply_word(reader *r, const problem_word *w, span value) {
  attend_desc *d = &r->problem.desc;
  if (w->group == WORD_WINDOW) return read_window(r, value);
  if (w->group == WORD_SCALE) return read_scale(r, value);
  if (w->group == WORD_CAP) return read_number(r, "cap", value, false, &d->soft_cap);
  const int set = w->value & ~PROBLEM_ONE_SIDED;
  memcpy((char *)&r->problem + group_at[w->group], &set, sizeof set);
  if (w->group == WORD_BIAS) d->bias.one_sided = (w->value & PROBLEM_ONE_SIDED) != 0;
  return ATTEND_OK;
}

static attend_status read_word(reader *r) {
  if (r->problem.op == ATTEND_OP_SGEMM)
    return wrong(r, "sgemm takes no words: end the problem after its shape");
  const problem_word *w = find_word(r->word);
  if (!w) return unknown_word(r);
  span *taken = &r->taken[w->group];
  if (taken->at)
    return wrong(r, "\"%.*s\" has already settled this: keep one of the two", shown(*taken),
                 taken->at);
  *taken = r->word;
  size_t name = strlen(w->name);
  return apply_word(r, w, (span){r->word.at + name, r->word.length - name});
}

/* ---- the whole ------------------------------------------------------------------- */

/* n counted the keys held; the one query stands at the last of them. */
static attend_status finish_decode(reader *r) {
  attend_desc *d = &r->problem.desc;
  ATTEND_CHECK(r->ctx, d->kv_len < 0,
               "a decode has one query and x%d beside n%d: write the number of "
               "keys held as n and leave x out",
               d->kv_len, d->q_len);
  ATTEND_CHECK(r->ctx, d->q_len >= 1,
               "a decode has n0: choose n1 or more, the keys held with the new one");
  ATTEND_CHECK(r->ctx, d->mask.causal != ATTEND_CAUSAL_TOP,
               "a decode puts its query at the last key: leave out top, or write bottom");
  d->mask.causal = ATTEND_CAUSAL_BOTTOM;
  d->kv_len = d->q_len;
  d->q_len = 1;
  d->purpose |= ATTEND_FOR_EXTEND;
  return ATTEND_OK;
}

static attend_status finish(reader *r) {
  attend_problem *p = &r->problem;
  if (p->op == ATTEND_OP_SGEMM) return ATTEND_OK;
  if (p->op == ATTEND_OP_DECODE) ATTEND_TRY(finish_decode(r));
  if (p->op == ATTEND_OP_BACKWARD) p->desc.purpose |= ATTEND_FOR_BACKWARD;
  if (p->desc.kv_len < 0) p->desc.kv_len = p->desc.q_len;
  p->desc.size = sizeof p->desc;
  return desc_complete(r->ctx, &p->desc);
}

attend_status attend_problem_parse(attend_context *ctx, const char *text, attend_problem *problem) {
  ATTEND_CHECK(ctx, text && *text,
               "the problem is empty: write FORM:SHAPE, such as softmax:b1h12n1024d64:causal");
  reader r = {.ctx = ctx, .rest = text};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_problem, problem, &r.problem));
  memset(&r.problem, 0, sizeof r.problem); /* its padding too: == is memcmp */
  next_word(&r);
  ATTEND_TRY(read_form(&r));
  ATTEND_CHECK(ctx, r.rest && *r.rest, "\"%.*s\" has no shape: write it after a colon, such as %s",
               SHOWN, text,
               r.problem.op == ATTEND_OP_SGEMM ? "sgemm:m64n64k64" : "softmax:b1h12n1024d64");
  next_word(&r);
  ATTEND_TRY(r.problem.op == ATTEND_OP_SGEMM ? read_sgemm_shape(&r) : read_shape(&r));
  while (r.rest) {
    next_word(&r);
    ATTEND_TRY(read_word(&r));
  }
  ATTEND_TRY(finish(&r));
  options_write(&r.problem, sizeof r.problem, problem);
  problem->desc.size = desc_room(problem->size, offsetof(attend_problem, desc));
  return ATTEND_OK;
}

attend_status attend_form_parse(attend_context *ctx, const char *text, attend_form *form) {
  ATTEND_CHECK(ctx, text && *text, "the form is empty: write one such as softmax or favor(m=256)");
  reader r = {.ctx = ctx, .rest = text};
  next_word(&r);
  ATTEND_TRY(read_form(&r));
  ATTEND_CHECK(ctx, !r.rest && r.problem.op != ATTEND_OP_SGEMM,
               "\"%.*s\" is not a form alone: write one such as softmax or favor(m=256)", SHOWN,
               text);
  *form = r.problem.desc.form;
  return ATTEND_OK;
}

/* ==== printing ==============================================================
 *
 * The canonical spelling: sizes in one order, no defaults, every float in the fewest
 * characters that read back as the same float. */

typedef struct {
  char *text;
  size_t size;
  int length; /* needed so far, as snprintf counts */
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w, const char *format, ...) {
  size_t used = (size_t)w->length < w->size ? (size_t)w->length : w->size;
  va_list args;
  va_start(args, format);
  w->length += vsnprintf(used < w->size ? w->text + used : NULL, w->size - used, format, args);
  va_end(args);
}

static void put_float(writer *w, const char *name, float value) {
  char digits[32], best[32];
  snprintf(best, sizeof best, "%.9g", (double)value);
  for (int precision = 8; precision >= 1; precision--) {
    snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    if (strtof(digits, NULL) != value) break;
    if (strlen(digits) < strlen(best)) memcpy(best, digits, sizeof best);
  }
  put(w, "%s%s", name, best);
}

static void put_setting(writer *w, const problem_setting *s, const void *at) {
  int number;
  float real;
  uint64_t seed;
  switch (s->type) {
    case SETTING_COUNT:
      memcpy(&number, at, sizeof number);
      put(w, "%s=%d", s->name, number);
      break;
    case SETTING_FLOAT:
      memcpy(&real, at, sizeof real);
      put(w, "%s", s->name);
      put_float(w, "=", real);
      break;
    case SETTING_SEED:
      memcpy(&seed, at, sizeof seed);
      put(w, "%s=%" PRIu64, s->name, seed);
      break;
    case SETTING_CHOICE:
      memcpy(&number, at, sizeof number);
      put(w, "%s=%s", s->name, s->words[number != 0]);
      break;
  }
}

/* The parenthesis opens before the first setting that is not a default. */
static void put_form(writer *w, const attend_form *f, int dim) {
  bool open = false;
  attend_desc usual = {ATTEND_INIT(attend_desc), .form.kind = f->kind, .dim = dim};
  desc_defaults(&usual);
  put(w, "%s", f->kind == ATTEND_CUSTOM ? "custom" : problem_forms[f->kind]);
  for (const problem_setting *s = problem_settings; s->name; s++) {
    const char *at = (const char *)f + s->at;
    size_t size = s->type == SETTING_SEED ? sizeof(uint64_t) : sizeof(int);
    if (!(s->forms >> f->kind & 1)) continue;
    if (!memcmp(at, (const char *)&usual.form + s->at, size)) continue;
    put(w, "%s", open ? "," : "(");
    put_setting(w, s, at);
    open = true;
  }
  if (open) put(w, ")");
}

static void put_shape(writer *w, const attend_problem *p, const attend_desc *d) {
  bool decode = p->op == ATTEND_OP_DECODE;
  put(w, ":b%dh%d", d->batch, d->heads);
  if (d->kv_heads != d->heads) put(w, "g%d", d->kv_heads);
  put(w, "n%d", decode ? d->kv_len : d->q_len);
  if (!decode && d->kv_len != d->q_len) put(w, "x%d", d->kv_len);
  put(w, "d%d", d->dim);
  if (d->dim_v != d->dim) put(w, "v%d", d->dim_v);
}

/* What the group of a word is set to; a word is printed if it names that. */
static int group_value(const attend_problem *p, problem_word_group group) {
  int value;
  memcpy(&value, (const char *)p + group_at[group], sizeof value);
  if (group == WORD_CAUSAL && p->op == ATTEND_OP_DECODE) return ATTEND_NOT_CAUSAL; /* implied */
  if (group == WORD_BIAS && p->desc.bias.one_sided) value |= PROBLEM_ONE_SIDED;
  return value;
}

static void put_words(writer *w, const attend_problem *p, const attend_desc *d) {
  attend_desc usual = {ATTEND_INIT(attend_desc), .dim = d->dim};
  desc_defaults(&usual);
  bool renamed =
      d->form.kind != ATTEND_SOFTMAX && d->form.kind != ATTEND_ARGMAX && d->form.sigma != 0;
  bool scaled = form_has_scale(d->form.kind) && !renamed; /* sigma sets it */
  for (const problem_word *word = problem_words; word->name; word++) {
    if (word->group == WORD_WINDOW) {
      if (d->mask.window) put(w, ":%s%d", word->name, d->mask.window);
    } else if (word->group == WORD_SCALE) {
      if (scaled && d->scale != usual.scale) put_float(w, ":scale=", d->scale);
    } else if (word->group == WORD_CAP) {
      if (d->soft_cap != 0) put_float(w, ":cap=", d->soft_cap);
    } else if (word->value && word->value == group_value(p, word->group)) {
      put(w, ":%s", word->name);
    }
  }
}

int attend_problem_print(const attend_problem *problem, char *text, size_t size) {
  const attend_problem p = problem_of(problem);
  writer w = {text, size, 0};
  if (size) text[0] = 0;
  if (p.op == ATTEND_OP_SGEMM) {
    put(&w, "sgemm:m%dn%dk%d", p.m, p.n, p.k);
    return w.length;
  }
  attend_desc d = p.desc;
  desc_defaults(&d);
  put_form(&w, &d.form, d.dim);
  put_shape(&w, &p, &d);
  put_words(&w, &p, &d);
  return w.length;
}
