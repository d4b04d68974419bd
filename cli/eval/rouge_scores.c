/* Scores of summaries with confidence intervals: as a table, as JSON, and of each
 * summary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "eval/rouge.h"
#include "progress.h"
#include "table.h"

/* ---- scoring ------------------------------------------------------------------------- */

static attend_status best_score(attend_context *ctx, const rouge_options *o, const rouge_pair *p,
                                attend_rouge_scores *out) {
  attend_status status = ATTEND_OK;
  for (int i = 0; i < p->references && !status; i++) {
    attend_rouge_scores both[2] = {*out};
    status = attend_rouge(ctx, p->summary.text, p->summary.length, p->reference[i].text,
                          p->reference[i].length, &o->rouge, &both[i > 0]);
    *out = attend_rouge_best(i > 0 ? 2 : 1, both);
  }
  return status;
}

static double share(size_t part, size_t of) { return of ? (double)part / (double)of : 0; }

static attend_status measure(attend_context *ctx, const rouge_options *o, const rouge_pair *p,
                             double *row) {
  attend_rouge_scores s = {0};
  attend_novelty n = {0};
  double words = 0;
  attend_status status = best_score(ctx, o, p, &s);
  if (!status && p->document.text)
    status = attend_novelty_count(ctx, p->summary.text, p->summary.length, p->document.text,
                                  p->document.length, &o->rouge, &n);
  for (int i = 0; i < p->references; i++)
    words += (double)attend_word_count(p->reference[i].text, p->reference[i].length);
  memcpy(row, &s, sizeof s);
  row[SCORE_WORDS] = (double)attend_word_count(p->summary.text, p->summary.length);
  row[SCORE_REFERENCE_WORDS] = words / p->references;
  row[SCORE_NEW_WORDS] = share(n.new_words, n.words);
  row[SCORE_NEW_BIGRAMS] = share(n.new_bigrams, n.bigrams);
  return status;
}

static attend_status measure_all(attend_context *ctx, const rouge_options *o,
                                 const rouge_pairs *pairs, rouge_scores *t) {
  attend_status status = ATTEND_OK;
  progress_start("scoring", (size_t)pairs->count);
  for (int i = 0; i < pairs->count && !status; i++) {
    const rouge_pair *p = &pairs->at[i];
    if (!p->summary.text) continue;
    t->novelty = t->novelty && p->document.text;
    double *row = t->values + (size_t)t->count * SCORE_COLUMNS;
    t->pair[t->count++] = i;
    status = measure(ctx, o, p, row);
    t->empty += row[SCORE_WORDS] == 0;
    progress_step((size_t)i, "summaries");
  }
  progress_end();
  return status;
}

int scores_make(attend_context *ctx, const rouge_options *o, const rouge_pairs *pairs,
                rouge_scores *t) {
  _Static_assert(sizeof(attend_rouge_scores) == SCORE_WORDS * sizeof(double),
                 "scores are the first columns");
  attend_bootstrap_options bootstrap = {ATTEND_INIT(attend_bootstrap_options),
                                        .seed = o->how.how.seed};
  *t = (rouge_scores){.novelty = true};
  t->values = need((size_t)pairs->count * SCORE_COLUMNS, sizeof *t->values);
  t->pair = need((size_t)pairs->count, sizeof *t->pair);
  attend_status status = measure_all(ctx, o, pairs, t);
  if (!status && t->count)
    status = attend_bootstrap(ctx, (size_t)t->count, SCORE_COLUMNS, t->values, &bootstrap, t->mean);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

void scores_free(rouge_scores *t) {
  free(t->values);
  free(t->pair);
}

typedef struct {
  const char *name;
  int column;
} kind;

static const kind kinds[] = {{"rouge1", SCORE_ROUGE1},
                             {"rouge2", SCORE_ROUGE2},
                             {"rougeL", SCORE_ROUGEL},
                             {"rougeLsum", SCORE_ROUGELSUM}};

static int kinds_of(const rouge_options *o) { return o->rouge.lines ? 4 : 3; }

/* ---- the table --------------------------------------------------------------------- */

static const column columns[] = {{"score", "", CELL_TEXT},
                                 {"precision", "precision", CELL_RATIO},
                                 {"recall", "recall", CELL_RATIO},
                                 {"f1", "F1", CELL_RATIO},
                                 {"interval", "95% of F1", CELL_TEXT},
                                 {NULL, NULL, CELL_TEXT}};

static int print_scores(const rouge_report *a) {
  table t = table_start(columns);
  for (int k = 0; k < kinds_of(a->o); k++) {
    const attend_interval *m = &a->scores->mean[kinds[k].column];
    char interval[64];
    snprintf(interval, sizeof interval, "%.3f .. %.3f", m[2].low, m[2].high);
    table_add(&t, (cell[]){cell_text(kinds[k].name), cell_number(m[0].mean), cell_number(m[1].mean),
                           cell_number(m[2].mean), cell_text(interval)});
  }
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static int print_table(const rouge_report *a) {
  const attend_interval *m = a->scores->mean;
  int code = print_scores(a);
  if (code) return code;
  printf("\n%d %s of %.1f words, references of %.1f\n", a->scores->count,
         a->scores->count == 1 ? "summary" : "summaries", m[SCORE_WORDS].mean,
         m[SCORE_REFERENCE_WORDS].mean);
  if (a->scores->novelty)
    printf(
        "%.1f%% of the words and %.1f%% of the bigrams are not in the "
        "document\n",
        100 * m[SCORE_NEW_WORDS].mean, 100 * m[SCORE_NEW_BIGRAMS].mean);
  if (a->scores->empty) printf("%d of the summaries have no word\n", a->scores->empty);
  if (a->cut) printf("%d documents are longer than the model reads, and were truncated\n", a->cut);
  return check_written(stdout, "the scores");
}

/* ---- JSON --------------------------------------------------------------------------- */

static void put_interval(attend_json_writer *w, const char *name, const attend_interval *i) {
  attend_json_member(w, name);
  if (!i) {
    attend_json_put_null(w);
    return;
  }
  attend_json_indent(w, false);
  attend_json_open(w, '{');
  json_number(w, "mean", i->mean);
  json_number(w, "low", i->low);
  json_number(w, "high", i->high);
  attend_json_close(w, '}');
  attend_json_indent(w, true);
}

static void put_kind(attend_json_writer *w, const kind *k, const attend_interval *mean) {
  attend_json_member(w, k->name);
  attend_json_open(w, '{');
  put_interval(w, "precision", &mean[k->column]);
  put_interval(w, "recall", &mean[k->column + 1]);
  put_interval(w, "f1", &mean[k->column + 2]);
  attend_json_close(w, '}');
}

static void put_source(attend_json_writer *w, const rouge_options *o) {
  bool model = !o->predictions && !o->baseline;
  const char *path = o->model.path ? o->model.path : "attend:summarizer";
  json_text(w, "model", model ? path : NULL);
  json_text(w, "attention", model ? o->model.attention : NULL);
  json_text(w, "predictions", o->predictions);
  json_text(w, "baseline", o->baseline);
  json_truth(w, "stem", o->rouge.stem);
  json_number(w, "seed", (double)o->how.how.seed);
}

static void put_report(attend_json_writer *w, const rouge_report *a) {
  const rouge_scores *t = a->scores;
  for (int k = 0; k < kinds_of(a->o); k++)
    json_number(w, kinds[k].name, t->mean[kinds[k].column + 2].mean);
  json_number(w, "documents", t->count);
  json_number(w, "pairs", a->pairs->count);
  json_truth(w, "complete", t->count == a->pairs->count);
  attend_json_member(w, "scores");
  attend_json_open(w, '{');
  for (int k = 0; k < kinds_of(a->o); k++) put_kind(w, &kinds[k], t->mean);
  attend_json_close(w, '}');
  put_interval(w, "summary_words", &t->mean[SCORE_WORDS]);
  put_interval(w, "reference_words", &t->mean[SCORE_REFERENCE_WORDS]);
  put_interval(w, "new_words", t->novelty ? &t->mean[SCORE_NEW_WORDS] : NULL);
  put_interval(w, "new_bigrams", t->novelty ? &t->mean[SCORE_NEW_BIGRAMS] : NULL);
  put_source(w, a->o);
  json_number(w, "cut_documents", a->cut);
  json_number(w, "empty_summaries", t->empty);
  json_number(w, "seconds", a->seconds);
}

static int print_json(attend_context *ctx, const rouge_report *a) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  put_report(&w, a);
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

int rouge_print(attend_context *ctx, const rouge_report *a) {
  return a->o->common.json ? print_json(ctx, a) : print_table(a);
}

/* ---- each summary --------------------------------------------------------------------- */

static void put_text(attend_json_writer *w, const char *name, const rouge_text *text) {
  attend_json_member(w, name);
  attend_json_put_bytes(w, text->text, text->length);
}

static void put_references(attend_json_writer *w, const rouge_pair *p) {
  if (p->references == 1) {
    put_text(w, "reference", &p->reference[0]);
    return;
  }
  attend_json_member(w, "reference");
  attend_json_open(w, '[');
  for (int i = 0; i < p->references; i++)
    attend_json_put_bytes(w, p->reference[i].text, p->reference[i].length);
  attend_json_close(w, ']');
}

static void put_row(attend_json_writer *w, const rouge_report *a, int i) {
  const double *row = a->scores->values + (size_t)i * SCORE_COLUMNS;
  const rouge_pair *p = &a->pairs->at[a->scores->pair[i]];
  attend_json_open(w, '{');
  json_number(w, "line", (double)p->line);
  put_text(w, "summary", &p->summary);
  put_references(w, p);
  for (int k = 0; k < kinds_of(a->o); k++) {
    attend_json_member(w, kinds[k].name);
    attend_json_open(w, '{');
    json_number(w, "precision", row[kinds[k].column]);
    json_number(w, "recall", row[kinds[k].column + 1]);
    json_number(w, "f1", row[kinds[k].column + 2]);
    attend_json_close(w, '}');
  }
  json_number(w, "words", row[SCORE_WORDS]);
  if (p->document.text) json_number(w, "new_words", row[SCORE_NEW_WORDS]);
  if (p->document.text) json_number(w, "new_bigrams", row[SCORE_NEW_BIGRAMS]);
  attend_json_close(w, '}');
}

int rouge_write(attend_context *ctx, const rouge_report *a) {
  char *text = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&text, &length);
  attend_status status = memory ? ATTEND_OK : ATTEND_NO_MEMORY;
  for (int i = 0; memory && i < a->scores->count && !status; i++) {
    attend_json_writer w = attend_json_writer_file(ctx, memory);
    put_row(&w, a, i);
    status = attend_json_finish(&w);
    attend_json_writer_free(&w);
  }
  if (memory && fclose(memory)) status = ATTEND_NO_MEMORY;
  if (!status) status = attend_file_write(ctx, a->o->out, text, length);
  free(text);
  return status ? complain_status(ctx, status) : EXIT_OK;
}
