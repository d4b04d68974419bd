/* Writing a problem in its canonical spelling: sizes in one order, nothing
 * that is a default, every float in the fewest digits that give it back.
 *
 * Place: attention/ - the reader is problem.c.
 */
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
  char digits[32];
  for (int precision = 1; precision <= 9; precision++) {
    snprintf(digits, sizeof digits, "%.*g", precision, (double)value);
    if (strtof(digits, NULL) == value) break;
  }
  put(w, "%s%s", name, digits);
}

/* The parenthesis opens before the first setting that is not a default. */
static const char *setting(int *count, const char *first, const char *later) {
  return (*count)++ ? later : first;
}

static void put_form(writer *w, const attend_form *f, int dim) {
  int n = 0;
  attend_desc usual = {.form.kind = f->kind, .dim = dim};
  desc_defaults(&usual);
  put(w, "%s", f->kind == ATTEND_CUSTOM ? "custom" : problem_forms[f->kind]);
  if (f->kind == ATTEND_ARGMAX && f->ties == ATTEND_TIES_AVERAGE)
    put(w, "%s", setting(&n, "(ties=average", ""));
  if (f->kind == ATTEND_ARGMAX && f->temperature != 0)
    put_float(w, setting(&n, "(t=", ",t="), f->temperature);
  if (f->kind == ATTEND_POLY && f->degree != usual.form.degree)
    put(w, "%s%d", setting(&n, "(p=", ""), f->degree);
  if (f->kind == ATTEND_POLY && f->a != usual.form.a)
    put_float(w, setting(&n, "(a=", ",a="), f->a);
  if (f->kind == ATTEND_POLY && f->c != 0)
    put_float(w, setting(&n, "(c=", ",c="), f->c);
  if (f->kind == ATTEND_GAUSSIAN && f->sigma != usual.form.sigma)
    put_float(w, setting(&n, "(sigma=", ""), f->sigma);
  if (n) put(w, ")");
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
      break;
  }
  return 0;
}

static void put_words(writer *w, const attend_problem *p,
                      const attend_desc *d) {
  attend_desc usual = {.dim = d->dim};
  desc_defaults(&usual);
  bool scaled = d->form.kind == ATTEND_SOFTMAX || d->form.kind == ATTEND_ARGMAX;
  for (const problem_word *word = problem_words; word->name; word++) {
    if (word->group == WORD_WINDOW) {
      if (d->mask.window) put(w, ":%s%d", word->name, d->mask.window);
    } else if (word->group == WORD_SCALE) {
      if (scaled && d->scale != usual.scale) put_float(w, ":scale=", d->scale);
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
