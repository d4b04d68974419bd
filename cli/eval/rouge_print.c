/* What attend eval --rouge says: a table, JSON, and each summary with its scores.
 *
 * See rouge.h; after all is scored.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "json_members.h"
#include "eval/rouge.h"
#include "table.h"

typedef struct {
  const char *name;
  int column;
} kind;

static const kind kinds[] = {{"rouge1", TALLY_ROUGE1},
                             {"rouge2", TALLY_ROUGE2},
                             {"rougeL", TALLY_ROUGEL},
                             {"rougeLsum", TALLY_ROUGELSUM}};

static int kinds_of(const rouge_options *o) { return o->rouge.lines ? 4 : 3; }

/* ---- the table --------------------------------------------------------------------- */

static const column columns[] = {{"score", "", CELL_TEXT},
                                 {"precision", "precision", CELL_RATIO},
                                 {"recall", "recall", CELL_RATIO},
                                 {"f1", "F1", CELL_RATIO},
                                 {"interval", "95% of F1", CELL_TEXT},
                                 {NULL, NULL, CELL_TEXT}};

static int print_scores(const rouge_answer *a) {
  table t = table_start(columns);
  for (int k = 0; k < kinds_of(a->o); k++) {
    const attend_interval *m = &a->tally->mean[kinds[k].column];
    char interval[64];
    snprintf(interval, sizeof interval, "%.3f .. %.3f", m[2].low, m[2].high);
    table_add(&t, (cell[]){cell_text(kinds[k].name), cell_number(m[0].mean),
                           cell_number(m[1].mean), cell_number(m[2].mean),
                           cell_text(interval)});
  }
  int code = table_print(&t, stdout);
  table_free(&t);
  return code;
}

static int print_table(const rouge_answer *a) {
  const attend_interval *m = a->tally->mean;
  int code = print_scores(a);
  if (code) return code;
  printf("\n%d %s of %.1f words, references of %.1f\n", a->tally->count,
         a->tally->count == 1 ? "summary" : "summaries", m[TALLY_WORDS].mean,
         m[TALLY_REFERENCE_WORDS].mean);
  if (a->tally->novelty)
    printf(
        "%.1f%% of the words and %.1f%% of the bigrams are not in the "
        "document\n",
        100 * m[TALLY_NEW_WORDS].mean, 100 * m[TALLY_NEW_BIGRAMS].mean);
  if (a->tally->empty)
    printf("%d of the summaries have no word\n", a->tally->empty);
  if (a->cut)
    printf("%d documents are longer than the model reads, and were cut\n",
           a->cut);
  return check_written(stdout, "the scores");
}

/* ---- JSON --------------------------------------------------------------------------- */

static void put_interval(attend_json_writer *w, const char *name,
                         const attend_interval *i) {
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

static void put_kind(attend_json_writer *w, const kind *k,
                     const attend_interval *mean) {
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

static void put_answer(attend_json_writer *w, const rouge_answer *a) {
  const rouge_tally *t = a->tally;
  for (int k = 0; k < kinds_of(a->o); k++)
    json_number(w, kinds[k].name, t->mean[kinds[k].column + 2].mean);
  json_number(w, "documents", t->count);
  json_number(w, "pairs", a->pairs->count);
  json_truth(w, "complete", t->count == a->pairs->count);
  attend_json_member(w, "scores");
  attend_json_open(w, '{');
  for (int k = 0; k < kinds_of(a->o); k++) put_kind(w, &kinds[k], t->mean);
  attend_json_close(w, '}');
  put_interval(w, "summary_words", &t->mean[TALLY_WORDS]);
  put_interval(w, "reference_words", &t->mean[TALLY_REFERENCE_WORDS]);
  put_interval(w, "new_words", t->novelty ? &t->mean[TALLY_NEW_WORDS] : NULL);
  put_interval(w, "new_bigrams",
               t->novelty ? &t->mean[TALLY_NEW_BIGRAMS] : NULL);
  put_source(w, a->o);
  json_number(w, "cut_documents", a->cut);
  json_number(w, "empty_summaries", t->empty);
  json_number(w, "seconds", a->seconds);
}

static int print_json(attend_context *ctx, const rouge_answer *a) {
  attend_json_writer w = attend_json_writer_file(ctx, stdout);
  attend_json_indent(&w, true);
  attend_json_open(&w, '{');
  put_answer(&w, a);
  attend_json_close(&w, '}');
  attend_status status = attend_json_finish(&w);
  attend_json_writer_free(&w);
  return status ? complain_status(ctx, status) : EXIT_OK;
}

int rouge_print(attend_context *ctx, const rouge_answer *a) {
  return a->o->common.json ? print_json(ctx, a) : print_table(a);
}

/* ---- each summary --------------------------------------------------------------------- */

static void put_text(attend_json_writer *w, const char *name,
                     const rouge_text *text) {
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

static void put_row(attend_json_writer *w, const rouge_answer *a, int i) {
  const double *row = a->tally->values + (size_t)i * TALLY_COLUMNS;
  const rouge_pair *p = &a->pairs->at[a->tally->pair[i]];
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
  json_number(w, "words", row[TALLY_WORDS]);
  if (p->document.text) json_number(w, "new_words", row[TALLY_NEW_WORDS]);
  if (p->document.text) json_number(w, "new_bigrams", row[TALLY_NEW_BIGRAMS]);
  attend_json_close(w, '}');
}

int rouge_write(attend_context *ctx, const rouge_answer *a) {
  char *text = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&text, &length);
  attend_status status = memory ? ATTEND_OK : ATTEND_NO_MEMORY;
  for (int i = 0; memory && i < a->tally->count && !status; i++) {
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
