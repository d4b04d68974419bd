/* Tasks: what the right answer is, said without any transformer.
 *
 * Place: design/ - what designs are checked against and learned twins learn.
 *
 * A task is a function of the letters alone, written as plainly as it can be, and
 * knows nothing of how a design goes about it. A spec names one, or lists
 * examples.
 */
#include <stdio.h>
#include <string.h>

#include "design/design.h"

static void identity(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++) wanted[i] = q->letter[i];
}

static void first(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++) wanted[i] = q->letter[0];
}

static void last(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++) wanted[i] = q->letter[q->n - 1];
}

static void reverse(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++) wanted[i] = q->letter[q->n - 1 - i];
}

static void previous(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++)
    wanted[i] = i > 0 ? q->letter[i - 1] : TASK_NONE;
}

static void induction(const question *q, int *wanted) {
  for (int i = 0; i < q->n; i++) {
    wanted[i] = TASK_NONE;
    for (int j = 0; j < i; j++)
      if (q->letter[j] == q->letter[i]) wanted[i] = q->letter[j + 1];
  }
}

static void sort(const question *q, int *wanted) {
  int place = 0;
  for (int l = 0; l < q->d->letters; l++)
    for (int i = 0; i < q->n; i++)
      if (q->letter[i] == l) wanted[place++] = l;
}

static void unique(const question *q, int *wanted) {
  wanted[0] = 0;
  for (int i = 0; i < q->n; i++)
    for (int j = 0; j < i; j++)
      if (q->letter[i] == q->letter[j]) wanted[0] = 1;
}

/* The alphabet's first letter opens, its second closes, others are nothing. */
static void brackets(const question *q, int *wanted) {
  int depth = 0;
  bool balanced = true;
  for (int i = 0; i < q->n; i++) {
    depth += q->letter[i] == 0 ? 1 : q->letter[i] == 1 ? -1 : 0;
    balanced &= depth >= 0 && depth <= q->d->depth;
  }
  wanted[0] = balanced && depth == 0 ? 0 : 1;
}

static const design_task tasks[] = {
    {"identity", true, SAYS_LETTERS, identity, "every letter answers itself"},
    {"first", true, SAYS_LETTERS, first, "every letter answers the first one"},
    {"last", true, SAYS_LETTERS, last, "every letter answers the last one"},
    {"reverse", true, SAYS_LETTERS, reverse, "the letters from back to front"},
    {"previous", true, SAYS_LETTERS_OR_NONE, previous,
     "every letter answers the one before it, the first that there is none"},
    {"induction", true, SAYS_LETTERS_OR_NONE, induction,
     "every letter answers what followed it when it was last seen, or that it "
     "was not seen before"},
    {"sort", true, SAYS_LETTERS, sort, "the letters in the alphabet's order"},
    {"unique", false, SAYS_YES_OR_NO, unique, "whether no letter comes twice"},
    {"brackets", false, SAYS_YES_OR_NO, brackets,
     "whether brackets are balanced, and nowhere deeper than the depth"},
};

static const design_task *find_task(const char *name) {
  for (size_t i = 0; name && i < sizeof tasks / sizeof *tasks; i++)
    if (!strcmp(tasks[i].name, name)) return &tasks[i];
  return NULL;
}

static const char *list_tasks(char *to, size_t size) {
  size_t used = 0;
  for (size_t i = 0; i < sizeof tasks / sizeof *tasks && used < size; i++)
    used += (size_t)snprintf(to + used, size - used, "%s%s", i ? ", " : "",
                             tasks[i].name);
  return to;
}

/* ---- what a spec says of it -------------------------------------------------------- */

/* Letters are answered by their own names. */
static attend_status find_answers(const reading *r) {
  attend_design *d = r->d;
  int letters = 0;
  d->none = -1;
  for (int i = 0; i < d->letters; i++) d->answer_of[i] = -1;
  for (int a = 0; a < d->answers; a++) {
    int l = spec_find(d->token, d->letters, d->answer[a]);
    if (l >= 0)
      d->answer_of[l] = a, letters++;
    else
      d->none = a;
  }
  int others = d->answers - letters;
  if (d->task->says == SAYS_YES_OR_NO) {
    SPEC_CHECK(r, d->answers == 2,
               "the task \"%s\" has two answers, first yes, then no",
               d->task->name);
    return ATTEND_OK;
  }
  SPEC_CHECK(r, letters == d->letters,
             "the task \"%s\" answers with letters: \"answers\" must have all",
             d->task->name);
  SPEC_CHECK(r, d->task->says != SAYS_LETTERS_OR_NONE || others == 1,
             "the task \"%s\" needs one answer that is no letter, for \"none\"",
             d->task->name);
  return ATTEND_OK;
}

static attend_status named_task(const reading *r, const attend_json *root) {
  attend_design *d = r->d;
  char list[200];
  d->task = find_task(attend_json_string(attend_json_get(root, "task"), NULL));
  SPEC_CHECK(r, d->task, "\"task\" is one of %s; or give \"examples\"",
             list_tasks(list, sizeof list));
  SPEC_CHECK(r, d->task->every == (d->at == ATTEND_ASKED_EVERY),
             "the task \"%s\" has %s: let \"at\" be %s", d->task->name,
             d->task->every ? "an answer for each letter" : "one answer",
             d->task->every ? "\"every\"" : "\"first\" or \"last\"");
  d->depth = d->longest;
  ATTEND_TRY(spec_integer(r, root, "depth", 0, MOST_PLACES, &d->depth));
  SPEC_CHECK(r, d->task->answer != brackets || d->letters >= 2,
             "brackets need two letters: one opens, one closes");
  snprintf(d->says, sizeof d->says, "%s", d->task->line);
  return find_answers(r);
}

/* ---- examples -------------------------------------------------------------------------- */

attend_status spec_input(const reading *r, const char *text,
                         uint8_t letter[MOST_PLACES], int *n) {
  const attend_design *d = r->d;
  const char *bad = "";
  SPEC_CHECK(r, design_letters(d->token, d->letters, text, letter, n, &bad),
             "\"%.40s\" has \"%.*s\", which is not of the alphabet", text,
             design_bad(bad), bad);
  SPEC_CHECK(r, *n >= d->shortest && *n <= d->longest,
             "\"%.60s\" has %d letters: \"%s\" takes %d to %d", text, *n,
             d->name, d->shortest, d->longest);
  return ATTEND_OK;
}

static attend_status one_example(const reading *r, const attend_json *one,
                                 design_example *e) {
  const attend_design *d = r->d;
  const char *bad, *input, *output;
  int n;
  ATTEND_TRY(spec_members(r, one, " input output "));
  input = attend_json_string(attend_json_get(one, "input"), NULL);
  output = attend_json_string(attend_json_get(one, "output"), NULL);
  SPEC_CHECK(r, input && output, "an example has an input and an output");
  ATTEND_TRY(spec_input(r, input, e->letter, &e->n));
  SPEC_CHECK(r,
             design_letters(d->answer, d->answers, output, e->answer, &n, &bad),
             "\"%.40s\" has \"%.*s\", which is no answer", output,
             design_bad(bad), bad);
  int asked = d->at == ATTEND_ASKED_EVERY ? e->n : 1;
  SPEC_CHECK(r, n == asked, "\"%.40s\" asks for %d answers: \"%.40s\" has %d",
             input, asked, output, n);
  return ATTEND_OK;
}

static attend_status read_examples(reading *r, const attend_json *list) {
  attend_design *d = r->d;
  d->n_examples = attend_json_count(list);
  SPEC_CHECK(
      r, attend_json_kind_of(list) == ATTEND_JSON_ARRAY && d->n_examples > 0,
      "\"examples\" is a list of inputs and outputs");
  ATTEND_TRY(take_zeroed(d->ctx, d->n_examples * sizeof *d->examples,
                         "a spec's examples", &d->examples));
  for (size_t i = 0; i < d->n_examples; i++) {
    snprintf(r->place, sizeof r->place, "example %zu", i);
    ATTEND_TRY(one_example(r, attend_json_at(list, i), &d->examples[i]));
  }
  *r->place = 0;
  snprintf(d->says, sizeof d->says, "the %zu examples of the spec",
           d->n_examples);
  return ATTEND_OK;
}

attend_status spec_task(reading *r, const attend_json *root) {
  const attend_json *examples = attend_json_get(root, "examples");
  SPEC_CHECK(r, !examples || !attend_json_get(root, "task"),
             "give one of \"task\" and \"examples\"");
  return examples ? read_examples(r, examples) : named_task(r, root);
}

/* ---- the answers of an input ------------------------------------------------------------- */

static int asked_place(const attend_design *d, int n, int i) {
  int start = d->start >= 0, whole = n + start + (d->end >= 0);
  return d->at == ATTEND_ASKED_EVERY   ? start + i
         : d->at == ATTEND_ASKED_FIRST ? 0
                                       : whole - 1;
}

void design_example_wanted(const attend_design *d, const design_example *e,
                           int32_t *wanted) {
  for (int i = 0; i < d->places; i++) wanted[i] = ATTEND_NOT_ASKED;
  for (int i = 0; i < (d->at == ATTEND_ASKED_EVERY ? e->n : 1); i++)
    wanted[asked_place(d, e->n, i)] = e->answer[i];
}

static bool find_example(const attend_design *d, const uint8_t *letter, int n,
                         int32_t *wanted) {
  for (size_t i = 0; i < d->n_examples; i++) {
    const design_example *e = &d->examples[i];
    if (e->n != n || memcmp(e->letter, letter, (size_t)n)) continue;
    design_example_wanted(d, e, wanted);
    return true;
  }
  return false;
}

bool design_wanted(const attend_design *d, const uint8_t *letter, int n,
                   int32_t *wanted) {
  int answer[MOST_PLACES];
  for (int i = 0; i < d->places; i++) wanted[i] = ATTEND_NOT_ASKED;
  if (!d->task) return find_example(d, letter, n, wanted);
  d->task->answer(&(question){d, letter, n}, answer);
  for (int i = 0; i < (d->task->every ? n : 1); i++) {
    int32_t *to = &wanted[asked_place(d, n, i)];
    if (d->task->says == SAYS_YES_OR_NO)
      *to = answer[i];
    else
      *to = answer[i] == TASK_NONE ? d->none : d->answer_of[answer[i]];
  }
  return true;
}
