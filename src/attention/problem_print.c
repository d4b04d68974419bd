/* Writing a problem in its canonical spelling: sizes in one order, nothing
 * that is a default, every float in the fewest characters that give it back.
 *
 * The reader is problem.c.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attention/problem.h"

typedef struct {
  char *text;
  size_t size;
  int length; /* needed so far, as snprintf counts */
} writer;

__attribute__((format(printf, 2, 3))) static void put(writer *w,
                                                      const char *format, ...) {
  size_t used = (size_t)w->length < w->size ? (size_t)w->length : w->size;
  va_list args;
  va_start(args, format);
  w->length += vsnprintf(used < w->size ? w->text + used : NULL, w->size - used,
                         format, args);
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
  attend_desc usual = {.form.kind = f->kind, .dim = dim};
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

static void put_shape(writer *w, const attend_problem *p,
                      const attend_desc *d) {
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
  const attend_desc *d = &p->desc;
  switch (group) {
    case WORD_CAUSAL: /* a decode is bottom of itself */
      return p->op == ATTEND_OP_DECODE ? ATTEND_NOT_CAUSAL
                                       : (int)d->mask.causal;
    case WORD_PAD:
      return (int)p->pad;
    case WORD_BIAS:
      return (int)d->bias.kind | (d->bias.one_sided ? PROBLEM_ONE_SIDED : 0);
    case WORD_DTYPE:
      return (int)d->dtype;
    case WORD_LAYOUT:
      return p->bthd;
    case WORD_OP:
      return (int)p->op;
    case WORD_WINDOW:
    case WORD_SCALE:
    case WORD_CAP:
      break;
  }
  return 0;
}

static void put_words(writer *w, const attend_problem *p,
                      const attend_desc *d) {
  attend_desc usual = {.dim = d->dim};
  desc_defaults(&usual);
  bool renamed = d->form.kind != ATTEND_SOFTMAX &&
                 d->form.kind != ATTEND_ARGMAX && d->form.sigma != 0;
  bool scaled = form_has_scale(d->form.kind) && !renamed; /* sigma said it */
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

int attend_problem_print(const attend_problem *problem, char *text,
                         size_t size) {
  writer w = {text, size, 0};
  if (size) text[0] = 0;
  if (problem->op == ATTEND_OP_SGEMM) {
    put(&w, "sgemm:m%dn%dk%d", problem->m, problem->n, problem->k);
    return w.length;
  }
  attend_desc d = problem->desc;
  desc_defaults(&d);
  put_form(&w, &d.form, d.dim);
  put_shape(&w, problem, &d);
  put_words(&w, problem, &d);
  return w.length;
}
