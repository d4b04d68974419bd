/* Inputs and tasks: the targets that designs are checked against and learned twins
 * train on, computed without any transformer.
 *
 * Inputs are ordered by length, then as words in a dictionary of the alphabet: the
 * first counterexample is the simplest. A task is a function of the letters alone,
 * written as plainly as it can be, and knows nothing of how a design goes about it.
 * A spec names one, or lists examples.
 */
#include <stdio.h>
#include <string.h>

#include "base/base.h"
#include "design/design.h"

/* ---- all inputs ----------------------------------------------------------------------- */

uint64_t design_inputs(const attend_design *d, int longest) {
  uint64_t total = 0, of = 1, letters = (uint64_t)d->letters;
  for (int n = 0; n <= longest; n++) {
    if (n > 0 && __builtin_mul_overflow(of, letters, &of)) return UINT64_MAX;
    if (n >= d->shortest && __builtin_add_overflow(total, of, &total)) return UINT64_MAX;
  }
  return total;
}

uint64_t design_total(const attend_design *d, int longest) {
  return d->task ? design_inputs(d, longest) : d->n_examples;
}

void design_number(const attend_design *d, uint64_t index, design_input *x) {
  uint64_t of = 1, letters = (uint64_t)d->letters;
  if (!d->task) {
    *x = d->examples[index];
    return;
  }
  for (x->n = 0; x->n < d->shortest; x->n++) of *= letters;
  for (; index >= of; x->n++) {
    index -= of;
    of *= letters;
  }
  for (int i = x->n - 1; i >= 0; i--) {
    x->letter[i] = (int8_t)(index % letters);
    index /= letters;
  }
  design_answer(d, x);
}

/* ---- texts ---------------------------------------------------------------------------- */

/* Letters that all are one character need no spaces. */
void design_text(const attend_design *d, const design_input *x, char to[ATTEND_INPUT_TEXT]) {
  size_t used = 0;
  const char *gap = "";
  for (int i = 0; i < d->letters; i++) {
    const unsigned char *name = (const unsigned char *)d->token[i];
    size_t n = strlen(d->token[i]);
    if ((size_t)utf8_length(name, name + n) < n) gap = " ";
  }
  *to = 0;
  for (int i = 0; i < x->n && used < ATTEND_INPUT_TEXT; i++)
    used += (size_t)snprintf(to + used, ATTEND_INPUT_TEXT - used, "%s%s", i ? gap : "",
                             d->token[x->letter[i]]);
}

/* The longest name that the text starts with. */
static int longest_name(const char (*names)[NAME], int count, const char *text) {
  int best = -1;
  size_t max = 0;
  for (int i = 0; i < count; i++) {
    size_t n = strlen(names[i]);
    if (n > max && !strncmp(names[i], text, n)) max = n, best = i;
  }
  return best;
}

/* The names that a text is made of, spaces left out; `none` says what others are.
 * Returns how many. */
static int read_names(reading *r, const char (*names)[NAME], int count, const char *text,
                      const char *none, int8_t to[MOST_PLACES]) {
  const char *at = text + strspn(text, " \t\n");
  int n = 0;
  for (; *at; at += strspn(at, " \t\n")) {
    int bytes = 1, found = longest_name(names, count, at);
    while (bytes < 4 && (at[bytes] & 0xc0) == 0x80) bytes++;
    if (!spec_check(r, found >= 0 && n < MOST_PLACES, "\"%.40s\" has \"%.*s\", which is %s", text,
                    bytes, at, none))
      return n;
    to[n++] = (int8_t)found;
    at += strlen(names[found]);
  }
  return n;
}

void spec_input(reading *r, const char *text, design_input *x) {
  const attend_design *d = r->d;
  x->n = read_names(r, d->token, d->letters, text, "not of the alphabet", x->letter);
  spec_check(r, x->n >= d->shortest && x->n <= d->longest,
             "\"%.60s\" has %d letters: \"%s\" takes %d to %d", text, x->n, d->name, d->shortest,
             d->longest);
}

/* ---- tasks ---------------------------------------------------------------------------- */

enum { NO_LETTER = MOST_TOKENS };

typedef struct { /* n letters */
  const attend_design *d;
  const int8_t *letter;
  int n;
} question;

typedef struct design_task {
  const char *name;
  bool every; /* each letter is answered by a letter; or all by 0: yes, 1: no */
  bool none;  /* or, some, by NO_LETTER */
  void (*answer)(const question *q, int *expected); /* [n], or [1] */
  const char *line;
} design_task;
static void identity(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) expected[i] = q->letter[i];
}

static void first(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) expected[i] = q->letter[0];
}

static void last(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) expected[i] = q->letter[q->n - 1];
}

static void reverse(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) expected[i] = q->letter[q->n - 1 - i];
}

static void previous(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) expected[i] = i > 0 ? q->letter[i - 1] : NO_LETTER;
}

static void induction(const question *q, int *expected) {
  for (int i = 0; i < q->n; i++) {
    expected[i] = NO_LETTER;
    for (int j = 0; j < i; j++)
      if (q->letter[j] == q->letter[i]) expected[i] = q->letter[j + 1];
  }
}

static void sort(const question *q, int *expected) {
  int place = 0;
  for (int l = 0; l < q->d->letters; l++)
    for (int i = 0; i < q->n; i++)
      if (q->letter[i] == l) expected[place++] = l;
}

static void unique(const question *q, int *expected) {
  expected[0] = 0;
  for (int i = 0; i < q->n; i++)
    for (int j = 0; j < i; j++)
      if (q->letter[i] == q->letter[j]) expected[0] = 1;
}

/* The alphabet's first letter opens, its second closes, others are nothing. */
static void brackets(const question *q, int *expected) {
  int depth = 0;
  bool balanced = true;
  for (int i = 0; i < q->n; i++) {
    depth += q->letter[i] == 0 ? 1 : q->letter[i] == 1 ? -1 : 0;
    balanced &= depth >= 0 && depth <= q->d->depth;
  }
  expected[0] = balanced && depth == 0 ? 0 : 1;
}

static const design_task tasks[] = {
    {"identity", true, false, identity, "every letter answers itself"},
    {"first", true, false, first, "every letter answers the first one"},
    {"last", true, false, last, "every letter answers the last one"},
    {"reverse", true, false, reverse, "the letters from back to front"},
    {"previous", true, true, previous,
     "every letter answers the one before it, the first that there is none"},
    {"induction", true, true, induction,
     "every letter answers what followed it when it was last seen, or that it "
     "was not seen before"},
    {"sort", true, false, sort, "the letters in the alphabet's order"},
    {"unique", false, false, unique, "whether no letter comes twice"},
    {"brackets", false, false, brackets,
     "whether brackets are balanced, and nowhere deeper than the depth"},
};

void design_answer(const attend_design *d, design_input *x) {
  int expected[MOST_PLACES];
  int n = d->at == ATTEND_READOUT_EVERY ? x->n : 1;
  if (d->task) {
    d->task->answer(&(question){d, x->letter, x->n}, expected);
    for (int i = 0; i < n; i++) x->answer[i] = d->answer_of[expected[i]];
    return;
  }
  memset(x->answer, ATTEND_NO_TARGET, sizeof x->answer);
  for (size_t i = 0; i < d->n_examples; i++) {
    const design_input *e = &d->examples[i];
    if (e->n != x->n || memcmp(e->letter, x->letter, (size_t)x->n)) continue;
    *x = *e;
    return;
  }
}

/* ---- what a spec says of them ----------------------------------------------------------- */

/* Letters are answered by their own names. */
static void find_answers(reading *r) {
  attend_design *d = r->d;
  int letters = 0;
  if (!d->task->every) {
    spec_check(r, d->answers == 2, "the task \"%s\" has two answers, first yes, then no",
               d->task->name);
    d->answer_of[1] = 1;
    return;
  }
  for (int a = 0; a < d->answers; a++) {
    int l = spec_find(d->token, d->letters, d->answer[a]);
    d->answer_of[l < 0 ? NO_LETTER : l] = (int8_t)a;
    letters += l >= 0;
  }
  spec_check(r, letters == d->letters,
             "the task \"%s\" answers with letters: \"answers\" must have all", d->task->name);
  spec_check(r, !d->task->none || d->answers - letters == 1,
             "the task \"%s\" needs one answer that is no letter, for \"none\"", d->task->name);
}

static void named_task(reading *r, const attend_json *root) {
  attend_design *d = r->d;
  const char *name = attend_json_string(attend_json_get(root, "task"), NULL);
  char list[200] = "";
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks; i++) {
    if (name && !strcmp(tasks[i].name, name)) d->task = &tasks[i];
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", i ? ", " : "", tasks[i].name);
  }
  if (!spec_check(r, d->task, "\"task\" is one of %s; or give \"examples\"", list)) return;
  spec_check(r, d->task->every == (d->at == ATTEND_READOUT_EVERY),
             "the task \"%s\" has %s: let \"at\" be %s", d->task->name,
             d->task->every ? "an answer for each letter" : "one answer",
             d->task->every ? "\"every\"" : "\"first\" or \"last\"");
  d->depth = spec_integer(r, root, "depth", 0, MOST_PLACES, d->longest);
  spec_check(r, d->task->answer != brackets || d->letters >= 2,
             "brackets need two letters: one opens, one closes");
  snprintf(d->says, sizeof d->says, "%s", d->task->line);
  find_answers(r);
}

static void one_example(reading *r, const attend_json *one, design_input *x) {
  const attend_design *d = r->d;
  spec_members(r, one, " input output ");
  const char *input = attend_json_string(attend_json_get(one, "input"), NULL),
             *output = attend_json_string(attend_json_get(one, "output"), NULL);
  if (!spec_check(r, input && output, "an example has an input and an output")) return;
  spec_input(r, input, x);
  int n = read_names(r, d->answer, d->answers, output, "no answer", x->answer),
      asked = d->at == ATTEND_READOUT_EVERY ? x->n : 1;
  spec_check(r, n == asked, "\"%.40s\" asks for %d answers: \"%.40s\" has %d", input, asked, output,
             n);
}

static void read_examples(reading *r, const attend_json *list) {
  attend_design *d = r->d;
  if (!spec_check(r, spec_is_list(list, 1, SIZE_MAX),
                  "\"examples\" is a list of inputs and outputs"))
    return;
  d->n_examples = attend_json_count(list);
  r->status = ctx_alloc_zeroed(d->ctx, d->n_examples * sizeof *d->examples, "a spec's examples",
                               &d->examples);
  for (size_t i = 0; !r->status && i < d->n_examples; i++) {
    snprintf(r->place, sizeof r->place, "example %zu", i);
    one_example(r, attend_json_at(list, i), &d->examples[i]);
  }
  *r->place = 0;
  snprintf(d->says, sizeof d->says, "the %zu examples of the spec", d->n_examples);
}

void spec_task(reading *r, const attend_json *root) {
  const attend_json *examples = attend_json_get(root, "examples");
  spec_check(r, !examples || !attend_json_get(root, "task"),
             "give one of \"task\" and \"examples\"");
  if (examples)
    read_examples(r, examples);
  else
    named_task(r, root);
}
