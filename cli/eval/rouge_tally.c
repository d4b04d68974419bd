/* The scores of summaries, and how sure their means are.
 *
 * See rouge.h; between summaries and what is said of them.
 */
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "eval/rouge.h"

static attend_status best_score(attend_context *ctx, const rouge_options *o,
                                const rouge_pair *p, attend_rouge_scores *out) {
  attend_status status = ATTEND_OK;
  for (int i = 0; i < p->references && !status; i++) {
    attend_rouge_scores both[2] = {*out};
    status = attend_rouge(ctx, p->summary.text, p->summary.length,
                          p->reference[i].text, p->reference[i].length,
                          &o->rouge, &both[i > 0]);
    *out = attend_rouge_best(i > 0 ? 2 : 1, both);
  }
  return status;
}

static double share(size_t part, size_t of) {
  return of ? (double)part / (double)of : 0;
}

static attend_status measure(attend_context *ctx, const rouge_options *o,
                             const rouge_pair *p, double *row) {
  attend_rouge_scores s = {0};
  attend_novelty n = {0};
  double words = 0;
  attend_status status = best_score(ctx, o, p, &s);
  if (!status && p->document.text)
    status = attend_novelty_count(ctx, p->summary.text, p->summary.length,
                                  p->document.text, p->document.length,
                                  &o->rouge, &n);
  for (int i = 0; i < p->references; i++)
    words +=
        (double)attend_word_count(p->reference[i].text, p->reference[i].length);
  memcpy(row, &s, sizeof s);
  row[TALLY_WORDS] =
      (double)attend_word_count(p->summary.text, p->summary.length);
  row[TALLY_REFERENCE_WORDS] = words / p->references;
  row[TALLY_NEW_WORDS] = share(n.new_words, n.words);
  row[TALLY_NEW_BIGRAMS] = share(n.new_bigrams, n.bigrams);
  return status;
}

static attend_status measure_all(attend_context *ctx, const rouge_options *o,
                                 const rouge_pairs *pairs, rouge_tally *t) {
  attend_status status = ATTEND_OK;
  progress_start("scoring", (size_t)pairs->count);
  for (int i = 0; i < pairs->count && !status; i++) {
    const rouge_pair *p = &pairs->at[i];
    if (!p->summary.text) continue;
    t->novelty = t->novelty && p->document.text;
    double *row = t->values + (size_t)t->count * TALLY_COLUMNS;
    t->pair[t->count++] = i;
    status = measure(ctx, o, p, row);
    t->empty += row[TALLY_WORDS] == 0;
    progress_step((size_t)i, "summaries");
  }
  progress_end();
  return status;
}

int tally_make(attend_context *ctx, const rouge_options *o,
               const rouge_pairs *pairs, rouge_tally *t) {
  _Static_assert(sizeof(attend_rouge_scores) == TALLY_WORDS * sizeof(double),
                 "scores are the first columns");
  attend_bootstrap_options sure = {.seed = o->how.how.seed};
  *t = (rouge_tally){.novelty = true};
  t->values = need((size_t)pairs->count * TALLY_COLUMNS, sizeof *t->values);
  t->pair = need((size_t)pairs->count, sizeof *t->pair);
  attend_status status = measure_all(ctx, o, pairs, t);
  if (!status && t->count)
    status = attend_bootstrap(ctx, (size_t)t->count, TALLY_COLUMNS, t->values,
                              &sure, t->mean);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

void tally_free(rouge_tally *t) {
  free(t->values);
  free(t->pair);
}
