/* Inputs: their number, their order, their text; and questions about a design.
 *
 * Place: design/ - between words and letters.
 *
 * Inputs are ordered by length, then as words in a dictionary of the alphabet: the
 * first counterexample is the simplest.
 */
#include <stdio.h>
#include <string.h>

#include "design/design.h"

/* ---- texts --------------------------------------------------------------------------- */

/* The longest name that the text starts with. */
static int longest_name(const char (*names)[NAME], int count,
                        const char *text) {
  int best = -1;
  size_t most = 0;
  for (int i = 0; i < count; i++) {
    size_t n = strlen(names[i]);
    if (n > most && !strncmp(names[i], text, n)) most = n, best = i;
  }
  return best;
}

bool design_letters(const char (*names)[NAME], int count, const char *text,
                    uint8_t letter[MOST_PLACES], int *n, const char **bad) {
  *n = 0;
  for (text += strspn(text, " \t\n"); *text; text += strspn(text, " \t\n")) {
    int l = longest_name(names, count, text);
    *bad = text;
    if (l < 0 || *n == MOST_PLACES) return false;
    letter[(*n)++] = (uint8_t)l;
    text += strlen(names[l]);
  }
  return true;
}

int design_bad(const char *bad) {
  int n = *bad != 0;
  while (n && n < 4 && (bad[n] & 0xc0) == 0x80) n++;
  return n;
}

/* Whether every letter is one character, so that they need no spaces. */
static bool is_short(const attend_design *d) {
  for (int i = 0; i < d->letters; i++) {
    int n = 0;
    for (const char *at = d->token[i]; *at; at++)
      n += (*(const unsigned char *)at & 0xc0) != 0x80;
    if (n != 1) return false;
  }
  return true;
}

void design_text(const attend_design *d, const uint8_t *letter, int n,
                 char to[ATTEND_INPUT_TEXT]) {
  size_t used = 0;
  const char *gap = is_short(d) ? "" : " ";
  *to = 0;
  for (int i = 0; i < n && used < ATTEND_INPUT_TEXT; i++)
    used += (size_t)snprintf(to + used, ATTEND_INPUT_TEXT - used, "%s%s",
                             i ? gap : "", d->token[letter[i]]);
}

/* ---- all of them ---------------------------------------------------------------------- */

static uint64_t count_inputs(const attend_design *d, int longest) {
  uint64_t total = 0, of = 1, letters = (uint64_t)d->letters;
  for (int n = 0; n <= longest; n++) {
    if (n >= d->shortest) {
      if (total > UINT64_MAX - of) return UINT64_MAX;
      total += of;
    }
    if (n < longest && of > UINT64_MAX / letters) return UINT64_MAX;
    of *= letters;
  }
  return total;
}

uint64_t design_total(const attend_design *d, int longest) {
  return d->task ? count_inputs(d, longest) : d->n_examples;
}

void design_input(const attend_design *d, uint64_t index,
                  uint8_t letter[MOST_PLACES], int *n) {
  uint64_t of = 1, letters = (uint64_t)d->letters;
  for (*n = 0; *n < d->shortest; (*n)++) of *= letters;
  for (; index >= of; (*n)++) {
    index -= of;
    of *= letters;
  }
  for (int i = *n - 1; i >= 0; i--) {
    letter[i] = (uint8_t)(index % letters);
    index /= letters;
  }
}

int design_ids(const attend_design *d, const uint8_t *letter, int n,
               int32_t *ids) {
  int length = 0;
  if (d->start >= 0) ids[length++] = d->start;
  for (int i = 0; i < n; i++) ids[length++] = letter[i];
  if (d->end >= 0) ids[length++] = d->end;
  for (int i = length; i < d->places; i++) ids[i] = -1;
  return length;
}

/* ---- questions --------------------------------------------------------------------------- */

attend_design_facts attend_design_about(const attend_design *d) {
  return (attend_design_facts){.name = d->name,
                               .about = d->about,
                               .task = d->says,
                               .example = d->example,
                               .spec = d->text,
                               .letters = d->letters,
                               .tokens = d->tokens,
                               .starts = d->start >= 0,
                               .ends = d->end >= 0,
                               .answers = d->answers,
                               .shortest = d->shortest,
                               .longest = d->longest,
                               .places = d->places,
                               .features = d->features,
                               .embedded = d->embedded,
                               .layers = d->layers,
                               .heads = d->n_heads,
                               .causal = d->causal,
                               .positions = d->positions,
                               .asked = d->at,
                               .inputs = count_inputs(d, d->longest),
                               .examples = d->n_examples,
                               .steps = d->steps,
                               .batch = d->batch,
                               .rate = d->rate,
                               .decay = d->decay,
                               .seed = d->seed};
}

const char *attend_design_token(const attend_design *d, int i) {
  return i >= 0 && i < d->tokens ? d->token[i] : NULL;
}
const char *attend_design_answer(const attend_design *d, int i) {
  return i >= 0 && i < d->answers ? d->answer[i] : NULL;
}
const char *attend_design_feature(const attend_design *d, int i) {
  return i >= 0 && i < d->features ? d->feature[i] : NULL;
}

int attend_design_head_get(const attend_design *d, int i,
                           attend_design_head *head) {
  if (i < 0 || i >= d->n_heads) return 0;
  const design_head *h = &d->heads[i];
  *head = (attend_design_head){h->name,  h->layer, h->dim,
                               h->dim_v, h->reads, d->variables[h->variable].at,
                               h->ties};
  return 1;
}

const char *attend_design_column(const attend_design *d, int head, int column) {
  if (head < 0 || head >= d->n_heads) return NULL;
  const design_head *h = &d->heads[head];
  return column >= 0 && column < h->dim ? h->column[column] : NULL;
}

int attend_design_part_get(const attend_design *d, int i,
                           attend_design_part *part) {
  if (i < 0 || i >= d->n_parts) return 0;
  *part = d->parts[i];
  return 1;
}

attend_status design_has(const attend_design *d, attend_twin twin) {
  ATTEND_CHECK(d->ctx, attend_design_weights(d, twin, NULL),
               "\"%s\" has no learned twin: let it learn first", d->name);
  return ATTEND_OK;
}

const float *attend_design_weights(const attend_design *d, attend_twin twin,
                                   size_t *count) {
  if (count) *count = d->count;
  return (unsigned)twin < ATTEND_TWINS ? d->weights[twin] : NULL;
}
