/* attend eval --rouge: scores summaries by reference summaries (attend/score.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/file.h"
#include "attend/score.h"
#include "folders.h"
#include "progress.h"
#include "table.h"
#include "summarize/summarize.h"

typedef struct {
  options common;
  model_options model; /* path NULL: attend:summarizer */
  summary_options how;
  text_list data; /* files */
  attend_pairs_options pairs;
  const char *predictions, *prediction_field;
  const char *baseline; /* "lead", "words:N" */
  int words;            /* of the baseline; 0: the lead sentence */
  bool is_rouge, stem, lines;
  const char *out;
} rouge_options;

typedef struct {
  const rouge_options *o;
  attend_context *ctx;
  attend_pairs *pairs;
  attend_pairs_report report;
  double seconds; /* of writing the summaries */
  int cut;        /* documents that were truncated */
} rouge_run;

/* ---- options ---------------------------------------------------------------------- */

static void take_baseline(struct argp_state *state, const char *arg, void *value, void *input) {
  rouge_options *o = input;
  (void)value;
  o->baseline = arg;
  if (!strcmp(arg, "lead")) return;
  if (strncmp(arg, "words:", 6))
    argp_error(state, "--baseline takes lead or words:N, not \"%s\"", arg);
  o->words = (int)options_number(state, "--baseline words:", arg + 6, 1, 1 << 20);
}

static const option_row own[] = {
    {"rouge", NULL, "Score summaries", FLAG(rouge_options, is_rouge)},
    {.help = "Documents:"},
    {"data", "FILE", "Documents with their summaries: .jsonl, or .tsv; may be repeated",
     LIST(rouge_options, data)},
    {"field", "NAME", "Of .jsonl: the document (default: document or source)",
     TEXT(rouge_options, pairs.document)},
    {"answer-field", "NAME",
     "Of .jsonl: the summary, or a list of them, of which the best match is used (default: summary "
     "or target)",
     TEXT(rouge_options, pairs.reference)},
    {"where", "NAME=TEXT", "Of .jsonl: only lines whose member NAME is TEXT, such as split=test",
     TEXT(rouge_options, pairs.where)},
    {"limit", "N", "The first N pairs", NUMBER(rouge_options, pairs.limit, 1, INT32_MAX)},
    {.help = "Summaries:"},
    {"model", "MODEL", "A bart or t5: a folder, hf:OWNER/NAME, a run (default: attend:summarizer)",
     TEXT(rouge_options, model.path), .letter = 'm'},
    {"predictions", "FILE",
     "No model: the summaries of this file, one a line in the order of the data, or .jsonl",
     TEXT(rouge_options, predictions)},
    {"prediction-field", "NAME", "Of .jsonl: their member (default: summary or prediction)",
     TEXT(rouge_options, prediction_field)},
    {"baseline", "KIND", "No model: lead copies the first sentence, words:N the first N words",
     .kind = OPTION_CALL, .call = take_baseline},
    {.help = "Scoring:"},
    {"stem", NULL, "Compare stems of words", FLAG(rouge_options, stem)},
    {"lines", NULL, "Also compute rougeLsum, line by line", FLAG(rouge_options, lines)},
    {"out", "FILE", "Write each summary with its scores, as lines of JSON",
     TEXT(rouge_options, out)},
    {0}};
static const option_row running[] = {{.help = "Running the model:"}, {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_summary, offsetof(rouge_options, how)},
                                    {running, 0},
                                    {option_rows_model, offsetof(rouge_options, model)},
                                    {option_rows_run, offsetof(rouge_options, common)},
                                    {option_rows_json, offsetof(rouge_options, common)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  rouge_options *o = input;
  const char *where = o->pairs.where;
  if (count > 1 || (count && o->model.path))
    argp_error(state, "one model, not \"%s\" too: data are --data FILE", words[count - 1]);
  if (count) o->model.path = words[0];
  if (where && (!strchr(where, '=') || *where == '='))
    argp_error(state, "--where takes NAME=TEXT, not \"%s\"", where);
  if (!o->data.count) argp_error(state, "name the documents and their summaries with --data");
  if (o->predictions && o->baseline)
    argp_error(state, "give --predictions or --baseline, not both");
  if (o->model.path && (o->predictions || o->baseline))
    argp_error(state, "%s replaces the model: leave out %s",
               o->predictions ? "--predictions" : "--baseline", o->model.path);
  if (o->prediction_field && !o->predictions)
    argp_error(state, "--prediction-field needs --predictions");
  /* --seed seeds the bootstrap, too: here it does not turn sampling on */
  if (o->how.draw.new_seed) o->how.draw.seed = options_new_seed();
  o->how.draw.new_seed = false;
  o->how.draw.given &= ~(unsigned)SAMPLING_SEED;
  summary_settle(state, &o->how);
}

static const verb_options verb_rouge = {
    parts, "[MODEL]",
    "Summarizes documents and scores the summaries by reference summaries: ROUGE-1, ROUGE-2 and "
    "ROUGE-L, as the Python package rouge_score computes them.\vPrecision is the share of the "
    "summary's words (rouge2: bigrams) that the reference has, recall the share of the reference's "
    "that the summary has; rougeL uses the longest common subsequence. The interval of the mean F1 "
    "is a bootstrap of 1000 resamples of the documents, seeded by --seed. Of several --samples the "
    "one with the best score of the model is used. --json prints one object, in which rouge1, "
    "rouge2 and rougeL are the mean F1.\n\nCtrl-C prints the results so far and exits with 130.",
    finish};

/* ---- summaries ----------------------------------------------------------------------- */

typedef struct {
  int done, count; /* documents */
} rouge_progress;

static int on_progress(double done, const char *what, void *user) {
  (void)what;
  const rouge_progress *p = user;
  char now[64];
  snprintf(now, sizeof now, "%d of %d", p->done, p->count);
  progress_share(done, now);
  return is_interrupted();
}

static void on_done(int document, const attend_summarized *one, void *user) {
  rouge_progress *p = user;
  (void)document;
  (void)one;
  p->done++;
}

static attend_status take_summaries(const attend_summaries *all, attend_pairs *pairs, int *cut) {
  attend_status status = ATTEND_OK;
  for (int i = 0; i < attend_pairs_count(pairs) && !status; i++) {
    const attend_summarized *d = attend_summaries_get(all, i);
    const char *text = d->count ? d->best[0].text : "";
    if (!d->done) continue;
    status = attend_pairs_set_summary(pairs, i, text, strlen(text));
    *cut += d->cut > 0;
  }
  return status;
}

static attend_status summarize(attend_summarizer *s, const attend_pairs *pairs,
                               attend_summaries **all) {
  attend_summarize_callbacks callbacks = {ATTEND_INIT(attend_summarize_callbacks)};
  rouge_progress progress = {.count = attend_pairs_count(pairs)};
  attend_document *docs = need((size_t)progress.count, sizeof *docs);
  for (int i = 0; i < progress.count; i++) {
    const attend_pair_text *d = &attend_pairs_get(pairs, i)->document;
    docs[i] = (attend_document){.text = d->text, .length = d->length, .number = i};
  }
  callbacks.progress = on_progress;
  callbacks.on_done = on_done;
  callbacks.user = &progress;
  progress_start("summarizing", (size_t)progress.count);
  attend_status status = attend_summarize(s, progress.count, docs, &callbacks, all);
  progress_end();
  free(docs);
  return status;
}

/* *cut: documents that were truncated. */
static int write_summaries(const rouge_options *o, attend_context *ctx, attend_pairs *pairs,
                           int *cut) {
  summarizer s = {0};
  attend_summaries *all = NULL;
  int code = summarizer_open(&o->common, &o->model, &o->how, &s);
  attend_status status = code ? ATTEND_OK : summarize(s.s, pairs, &all);
  if (status && status != ATTEND_STOPPED) code = complain_status(s.m.ctx, status);
  status = all ? take_summaries(all, pairs, cut) : ATTEND_OK;
  if (status) code = complain_status(ctx, status);
  attend_summaries_free(all);
  summarizer_close(&s);
  return code;
}

/* ---- scores ---------------------------------------------------------------------------- */

static const struct {
  const char *name;
  int at; /* of the numbers: precision, recall, F1 */
} kinds[] = {{"rouge1", ATTEND_PAIR_ROUGE1},
             {"rouge2", ATTEND_PAIR_ROUGE2},
             {"rougeL", ATTEND_PAIR_ROUGEL},
             {"rougeLsum", ATTEND_PAIR_ROUGELSUM}};

static int kinds_of(const rouge_run *run) { return run->o->lines ? 4 : 3; }

static const column columns[] = {{"score", "", CELL_TEXT},
                                 {"precision", "precision", CELL_RATIO},
                                 {"recall", "recall", CELL_RATIO},
                                 {"f1", "F1", CELL_RATIO},
                                 {"interval", "95% of F1", CELL_TEXT},
                                 {NULL, NULL, CELL_TEXT}};

static int print_table(const rouge_run *run) {
  const attend_interval *mean = run->report.mean;
  const int scored = run->report.scored;
  table t = table_start(columns);
  for (int k = 0; k < kinds_of(run); k++) {
    const attend_interval *m = mean + kinds[k].at;
    char interval[64];
    snprintf(interval, sizeof interval, "%.3f .. %.3f", m[2].low, m[2].high);
    table_add(&t, (cell[]){cell_text(kinds[k].name), cell_number(m[0].mean), cell_number(m[1].mean),
                           cell_number(m[2].mean), cell_text(interval)});
  }
  int code = table_print(&t, stdout);
  table_free(&t);
  if (code) return code;
  printf("\n%d %s of %.1f words, references of %.1f\n", scored,
         scored == 1 ? "summary" : "summaries", mean[ATTEND_PAIR_WORDS].mean,
         mean[ATTEND_PAIR_REFERENCE_WORDS].mean);
  if (run->report.documents == scored)
    printf("%.1f%% of the words and %.1f%% of the bigrams are not in the document\n",
           100 * mean[ATTEND_PAIR_NEW_WORDS].mean, 100 * mean[ATTEND_PAIR_NEW_BIGRAMS].mean);
  if (run->report.empty) printf("%d of the summaries have no word\n", run->report.empty);
  if (run->cut)
    printf("%d documents are longer than the model reads, and were truncated\n", run->cut);
  return check_written(stdout, "the scores");
}

/* ---- JSON --------------------------------------------------------------------------- */

static void put_interval(json_writer *w, const char *name, const attend_interval *i) {
  json_member(w, name);
  if (!i) {
    json_put_null(w);
    return;
  }
  json_indent(w, false);
  json_open(w, '{');
  json_member_number(w, "mean", i->mean);
  json_member_number(w, "low", i->low);
  json_member_number(w, "high", i->high);
  json_close(w, '}');
  json_indent(w, true);
}

static void put_scores(json_writer *w, const rouge_run *run) {
  json_member(w, "scores");
  json_open(w, '{');
  for (int k = 0; k < kinds_of(run); k++) {
    const attend_interval *mean = run->report.mean + kinds[k].at;
    json_member(w, kinds[k].name);
    json_open(w, '{');
    put_interval(w, "precision", &mean[0]);
    put_interval(w, "recall", &mean[1]);
    put_interval(w, "f1", &mean[2]);
    json_close(w, '}');
  }
  json_close(w, '}');
}

static void put_source(json_writer *w, const rouge_options *o) {
  bool model = !o->predictions && !o->baseline;
  const char *path = o->model.path ? o->model.path : "attend:summarizer";
  json_member_string(w, "model", model ? path : NULL);
  json_member_string(w, "attention", model ? o->model.attention : NULL);
  json_member_string(w, "predictions", o->predictions);
  json_member_string(w, "baseline", o->baseline);
  json_member_boolean(w, "stem", o->stem);
  json_member_number(w, "seed", (double)o->how.how.seed);
}

static int print_json(const rouge_run *run) {
  const attend_interval *mean = run->report.mean;
  const int scored = run->report.scored, all = attend_pairs_count(run->pairs);
  bool novelty = run->report.documents == scored;
  json_writer w = json_writer_file(run->ctx, stdout);
  json_indent(&w, true);
  json_open(&w, '{');
  for (int k = 0; k < kinds_of(run); k++)
    json_member_number(&w, kinds[k].name, mean[kinds[k].at + 2].mean);
  json_member_number(&w, "documents", scored);
  json_member_number(&w, "pairs", all);
  json_member_boolean(&w, "complete", scored == all);
  put_scores(&w, run);
  put_interval(&w, "summary_words", &mean[ATTEND_PAIR_WORDS]);
  put_interval(&w, "reference_words", &mean[ATTEND_PAIR_REFERENCE_WORDS]);
  put_interval(&w, "new_words", novelty ? &mean[ATTEND_PAIR_NEW_WORDS] : NULL);
  put_interval(&w, "new_bigrams", novelty ? &mean[ATTEND_PAIR_NEW_BIGRAMS] : NULL);
  put_source(&w, run->o);
  json_member_number(&w, "cut_documents", run->cut);
  json_member_number(&w, "empty_summaries", run->report.empty);
  json_member_number(&w, "seconds", run->seconds);
  json_close(&w, '}');
  attend_status status = json_finish(&w);
  json_writer_free(&w);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* ---- each summary --------------------------------------------------------------------- */

static void put_references(json_writer *w, const attend_pair *p) {
  json_member(w, "reference");
  if (p->references > 1) json_open(w, '[');
  for (int i = 0; i < p->references; i++)
    json_put_bytes(w, p->reference[i].text, p->reference[i].length);
  if (p->references > 1) json_close(w, ']');
}

static void put_row(json_writer *w, const rouge_run *run, const attend_pair *p, const double *row) {
  json_open(w, '{');
  json_member_number(w, "line", (double)p->line);
  json_member(w, "summary");
  json_put_bytes(w, p->summary.text, p->summary.length);
  put_references(w, p);
  for (int k = 0; k < kinds_of(run); k++) {
    json_member(w, kinds[k].name);
    json_open(w, '{');
    json_member_number(w, "precision", row[kinds[k].at]);
    json_member_number(w, "recall", row[kinds[k].at + 1]);
    json_member_number(w, "f1", row[kinds[k].at + 2]);
    json_close(w, '}');
  }
  json_member_number(w, "words", row[ATTEND_PAIR_WORDS]);
  if (p->document.text) json_member_number(w, "new_words", row[ATTEND_PAIR_NEW_WORDS]);
  if (p->document.text) json_member_number(w, "new_bigrams", row[ATTEND_PAIR_NEW_BIGRAMS]);
  json_close(w, '}');
}

/* The file of --out. */
static int write_rows(const rouge_run *run) {
  char *text = NULL;
  size_t length = 0;
  FILE *memory = open_memstream(&text, &length);
  attend_status status = memory ? ATTEND_OK : ATTEND_NO_MEMORY;
  for (int i = 0; i < attend_pairs_count(run->pairs) && !status; i++) {
    const double *row = attend_pairs_numbers(run->pairs, i);
    if (!row) continue;
    json_writer w = json_writer_file(run->ctx, memory);
    put_row(&w, run, attend_pairs_get(run->pairs, i), row);
    status = json_finish(&w);
    json_writer_free(&w);
  }
  if (memory && fclose(memory)) status = ATTEND_NO_MEMORY;
  if (!status) status = attend_file_write(run->ctx, run->o->out, text, length);
  free(text);
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* ---- the verb --------------------------------------------------------------------------- */

/* Lines that lack a text are a failure that options can remedy. */
static int complain_lines(const rouge_run *run, attend_status status, const char *remedy) {
  if (status != ATTEND_UNSUPPORTED) return complain_status(run->ctx, status);
  complain("%s: name it with %s", attend_message(run->ctx), remedy);
  return EXIT_FAILED;
}

static int read_pairs(rouge_run *run) {
  const rouge_options *o = run->o;
  attend_pairs_options how = o->pairs;
  how.may_lack = o->predictions != NULL;
  attend_status status =
      attend_pairs_read(run->ctx, (int)o->data.count, o->data.text, &how, &run->pairs);
  if (status) return complain_lines(run, status, "--field or --answer-field");
  if (attend_pairs_count(run->pairs)) return EXIT_OK;
  complain("%s has no pair of a document and a summary%s", o->data.text[o->data.count - 1],
           how.where ? " that matches --where" : "");
  return EXIT_FAILED;
}

static int make_summaries(rouge_run *run) {
  const rouge_options *o = run->o;
  if (!o->predictions && !o->baseline) return write_summaries(o, run->ctx, run->pairs, &run->cut);
  attend_status status =
      o->predictions ? attend_pairs_read_summaries(run->pairs, o->predictions, o->prediction_field)
                     : attend_pairs_lead(run->pairs, o->words);
  return status ? complain_lines(run, status, "--prediction-field") : EXIT_OK;
}

/* Summaries that were generated before an interrupt are scored. */
static int on_scored(double done, const char *what, void *user) {
  (void)user;
  progress_share(done, what);
  return 0;
}

static int score_pairs(rouge_run *run) {
  attend_pairs_score_options how = {ATTEND_INIT(attend_pairs_score_options)};
  how.rouge = (attend_rouge_options){ATTEND_INIT(attend_rouge_options), .stem = run->o->stem,
                                     .lines = run->o->lines};
  how.bootstrap = (attend_bootstrap_options){ATTEND_INIT(attend_bootstrap_options)};
  how.bootstrap.seed = run->o->how.how.seed;
  how.progress = on_scored;
  progress_start("scoring", 0);
  attend_status status = attend_pairs_score(run->pairs, &how, &run->report);
  progress_end();
  return status ? complain_status(run->ctx, status) : EXIT_OK;
}

/* Short documents are summarized first: an interrupted result is biased. */
static int report(const rouge_run *run) {
  int done = run->report.scored, all = attend_pairs_count(run->pairs), code = EXIT_OK;
  if (done) code = run->o->common.json ? print_json(run) : print_table(run);
  if (!code && done && run->o->out) code = write_rows(run);
  if (code || done == all) return code;
  complain("interrupted: the numbers are of %d of %d documents, the shortest ones", done, all);
  return EXIT_INTERRUPTED;
}

static int score(rouge_run *run) {
  int code = run->o->out && !can_write(run->o->out) ? EXIT_FAILED : EXIT_OK;
  if (!code) code = read_pairs(run);
  double start = seconds_now();
  interrupt_watch();
  interrupt_watch_ends();
  if (!code) code = make_summaries(run);
  run->seconds = seconds_now() - start;
  if (!code) code = score_pairs(run);
  return code ? code : report(run);
}

int cmd_eval_rouge(int argc, char **argv) {
  rouge_options o = {.how = summary_defaults(), .pairs = {ATTEND_INIT(attend_pairs_options)}};
  rouge_run run = {.o = &o};
  int code;
  options_read(&verb_rouge, argc, argv, &o);
  run.ctx = options_context(&o.common, NULL, &code);
  if (!code) code = score(&run);
  attend_pairs_free(run.pairs);
  attend_context_free(run.ctx);
  free(o.data.text);
  return code;
}
