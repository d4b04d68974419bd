/* attend eval --rouge: scores summaries by reference summaries; rouge.h says which
 * file does what. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "eval/rouge.h"
#include "folders.h"
#include "progress.h"

bool is_eval_rouge(int argc, char **argv) {
  for (int i = 1; i < argc && strcmp(argv[i], "--"); i++)
    if (!strcmp(argv[i], "--rouge")) return true;
  return false;
}

/* ---- options ---------------------------------------------------------------------- */

enum {
  KEY_ROUGE = 1800,
  KEY_DATA,
  KEY_FIELD,
  KEY_ANSWER,
  KEY_WHERE,
  KEY_LIMIT,
  KEY_PREDICTIONS,
  KEY_PREDICTION_FIELD,
  KEY_BASELINE,
  KEY_STEM,
  KEY_LINES,
  KEY_OUT
};

static const struct argp_option list[] = {
    {"rouge", KEY_ROUGE, 0, 0, "Score summaries", 1},
    {0, 0, 0, 0, "Documents:", 2},
    {"data", KEY_DATA, "FILE", 0,
     "Documents with their summaries: .jsonl, or .tsv; may be repeated", 2},
    {"field", KEY_FIELD, "NAME", 0, "Of .jsonl: the document (default: document or source)", 2},
    {"answer-field", KEY_ANSWER, "NAME", 0,
     "Of .jsonl: the summary, or a list of them, of which the nearest counts "
     "(default: summary or target)",
     2},
    {"where", KEY_WHERE, "NAME=TEXT", 0,
     "Of .jsonl: only lines whose member NAME is TEXT, such as split=test", 2},
    {"limit", KEY_LIMIT, "N", 0, "The first N pairs", 2},
    {0, 0, 0, 0, "Summaries:", 3},
    {"model", 'm', "MODEL", 0,
     "A bart or t5: a folder, hf:OWNER/NAME, a run (default: "
     "attend:summarizer)",
     3},
    {"predictions", KEY_PREDICTIONS, "FILE", 0,
     "No model: the summaries of this file, one a line in the order of the "
     "data, or .jsonl",
     3},
    {"prediction-field", KEY_PREDICTION_FIELD, "NAME", 0,
     "Of .jsonl: their member (default: summary or prediction)", 3},
    {"baseline", KEY_BASELINE, "KIND", 0,
     "No model: lead copies the first sentence, words:N the first N words", 3},
    {0, 0, 0, 0, "Scoring:", 5},
    {"stem", KEY_STEM, 0, 0, "Compare stems of words", 5},
    {"lines", KEY_LINES, 0, 0, "Also compute rougeLsum, line by line", 5},
    {"out", KEY_OUT, "FILE", 0, "Write each summary with its scores, as lines of JSON", 5},
    {"seed", 's', "N", OPTION_HIDDEN, 0, 5},
    {0}};

static void add_data(rouge_options *o, char *path) {
  size_t n = (size_t)o->n_data++;
  o->data = need_more(o->data, n, n + 1, sizeof *o->data);
  o->data[n] = path;
}

static void read_baseline(struct argp_state *state, rouge_options *o, char *arg) {
  o->baseline = arg;
  if (!strcmp(arg, "lead")) return;
  if (strncmp(arg, "words:", 6))
    argp_error(state, "--baseline takes lead or words:N, not \"%s\"", arg);
  o->words = (int)options_number(state, "--baseline words:", arg + 6, 1, 1 << 20);
}

static void read_where(struct argp_state *state, rouge_options *o, char *arg) {
  if (!strchr(arg, '=') || *arg == '=')
    argp_error(state, "--where takes NAME=TEXT, not \"%s\"", arg);
  o->where = arg;
}

/* Seeds sampling and the bootstrap: here it does not turn sampling on. */
static void read_seed(struct argp_state *state, rouge_options *o, const char *arg) {
  o->how.how.seed = strcmp(arg, "random")
                        ? (uint64_t)options_number(state, "--seed", arg, 0, INT64_MAX)
                        : options_new_seed();
}

/* Summaries have one source. */
static void check_sources(struct argp_state *state, const rouge_options *o) {
  if (!o->n_data) argp_error(state, "name the documents and their summaries with --data");
  if (o->predictions && o->baseline)
    argp_error(state, "give --predictions or --baseline, not both");
  if (o->model.path && (o->predictions || o->baseline))
    argp_error(state, "%s replaces the model: leave out %s",
               o->predictions ? "--predictions" : "--baseline", o->model.path);
  if (o->prediction_field && !o->predictions)
    argp_error(state, "--prediction-field needs --predictions");
}

static error_t parse_scoring(int key, char *arg, struct argp_state *state) {
  rouge_options *o = state->input;
  switch (key) {
    case KEY_PREDICTIONS:
      o->predictions = arg;
      return 0;
    case KEY_PREDICTION_FIELD:
      o->prediction_field = arg;
      return 0;
    case KEY_BASELINE:
      read_baseline(state, o, arg);
      return 0;
    case KEY_STEM:
      o->rouge.stem = 1;
      return 0;
    case KEY_LINES:
      o->rouge.lines = 1;
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case 's':
      read_seed(state, o, arg);
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static error_t parse(int key, char *arg, struct argp_state *state) {
  rouge_options *o = state->input;
  switch (key) {
    case KEY_ROUGE:
      return 0;
    case KEY_DATA:
      add_data(o, arg);
      return 0;
    case KEY_FIELD:
      o->field = arg;
      return 0;
    case KEY_ANSWER:
      o->answer_field = arg;
      return 0;
    case KEY_WHERE:
      read_where(state, o, arg);
      return 0;
    case KEY_LIMIT:
      o->limit = (int)options_number(state, "--limit", arg, 1, INT32_MAX);
      return 0;
    case 'm':
      o->model.path = arg;
      return 0;
    case ARGP_KEY_INIT:
      options_share(state, 2);
      state->child_inputs[2] = &o->model;
      state->child_inputs[3] = &o->how;
      return 0;
    case ARGP_KEY_ARG:
      if (o->model.path) argp_error(state, "one model, not \"%s\" too: data are --data FILE", arg);
      o->model.path = arg;
      return 0;
    case ARGP_KEY_END:
      check_sources(state, o);
      return 0;
    default:
      return parse_scoring(key, arg, state);
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 7},
                                             {&options_run, 0, NULL, 7},
                                             {&options_model, 0, "Running the model:", 6},
                                             {&options_summary, 0, "Generation:", 4},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "[MODEL]",
    .doc =
        "Summarizes documents and scores the summaries by reference "
        "summaries: ROUGE-1, ROUGE-2 and ROUGE-L, as the Python package "
        "rouge_score computes them."
        "\vPrecision is the share of the summary's words (rouge2: bigrams) "
        "that the reference has, recall the share of the reference's that the "
        "summary has; rougeL uses the longest common subsequence. The interval "
        "of the mean F1 is a bootstrap of 1000 resamples of the documents, "
        "seeded by --seed. Of several --samples the one with the best score of "
        "the model counts. --json prints one object, in which rouge1, rouge2 "
        "and rougeL are the mean F1.\n\n"
        "Ctrl-C reports what is done and exits with 130.",
    .children = children};

/* ---- summaries ----------------------------------------------------------------------- */

static bool is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

static rouge_text copy(const char *text, size_t length) {
  char *own = need(length + 1, 1);
  if (length) memcpy(own, text, length);
  return (rouge_text){own, length};
}

static rouge_text first_words(const rouge_text *t, int words) {
  size_t start = 0, end;
  while (start < t->length && is_space(t->text[start])) start++;
  for (end = start; end < t->length; end++)
    if (is_space(t->text[end]) && !is_space(t->text[end - 1]) && !--words) break;
  return copy(t->text + start, end - start);
}

static rouge_text first_sentence(const rouge_text *t) {
  attend_sentence s = {0};
  if (!attend_sentence_next(t->text, t->length, &s)) return copy("", 0);
  return copy(t->text + s.start, s.length);
}

static void copy_leads(const rouge_options *o, const rouge_pairs *pairs) {
  for (int i = 0; i < pairs->count; i++) {
    rouge_pair *p = &pairs->at[i];
    p->summary = o->words ? first_words(&p->document, o->words) : first_sentence(&p->document);
  }
}

typedef struct {
  int done, count; /* documents */
} rouge_progress;

static int on_progress(double done, void *user) {
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

static void take_summaries(const attend_summaries *all, const rouge_pairs *pairs, int *cut) {
  for (int i = 0; i < pairs->count; i++) {
    const attend_summarized *d = attend_summaries_get(all, i);
    const char *text = d->count ? d->best[0].text : "";
    if (!d->done) continue;
    pairs->at[i].summary = copy(text, strlen(text));
    *cut += d->cut > 0;
  }
}

static attend_status summarize(attend_summarizer *s, const rouge_pairs *pairs,
                               attend_summaries **all) {
  attend_summarize_callbacks callbacks = {ATTEND_INIT(attend_summarize_callbacks)};
  rouge_progress progress = {.count = pairs->count};
  attend_document *docs = need((size_t)pairs->count, sizeof *docs);
  for (int i = 0; i < pairs->count; i++)
    docs[i] = (attend_document){
        .text = pairs->at[i].document.text, .length = pairs->at[i].document.length, .number = i};
  callbacks.progress = on_progress;
  callbacks.on_done = on_done;
  callbacks.user = &progress;
  progress_start("summarizing", (size_t)pairs->count);
  attend_status status = attend_summarize(s, pairs->count, docs, &callbacks, all);
  progress_end();
  free(docs);
  return status;
}

static int write_summaries(const rouge_options *o, const rouge_pairs *pairs, int *cut) {
  summarizer s = {0};
  attend_summaries *all = NULL;
  int code = summarizer_open(&o->common, &o->model, &o->how, &s);
  attend_status status = code ? ATTEND_OK : summarize(s.s, pairs, &all);
  if (status && status != ATTEND_STOPPED) code = complain_status(s.m.ctx, status);
  if (all) take_summaries(all, pairs, cut);
  attend_summaries_free(all);
  summarizer_close(&s);
  return code;
}

/* ---- the verb --------------------------------------------------------------------------- */

static int make_summaries(attend_context *ctx, const rouge_options *o, rouge_pairs *pairs,
                          int *cut) {
  if (o->predictions) return predictions_read(ctx, o, pairs);
  if (!o->baseline) return write_summaries(o, pairs, cut);
  copy_leads(o, pairs);
  return EXIT_OK;
}

/* Short documents are summarized first: an interrupted result is biased. */
static int report(attend_context *ctx, const rouge_report *a) {
  int done = a->scores->count, all = a->pairs->count;
  int code = done ? rouge_print(ctx, a) : EXIT_OK;
  if (!code && done && a->o->out) code = rouge_write(ctx, a);
  if (code || done == all) return code;
  complain("interrupted: the numbers are of %d of %d documents, the shortest ones", done, all);
  return EXIT_INTERRUPTED;
}

static int score(attend_context *ctx, const rouge_options *o) {
  rouge_pairs pairs = {0};
  rouge_scores scores = {0};
  rouge_report a = {.o = o, .pairs = &pairs, .scores = &scores};
  int code = o->out && !can_write(o->out) ? EXIT_FAILED : EXIT_OK;
  if (!code) code = pairs_read(ctx, o, &pairs);
  double start = seconds_now();
  interrupt_watch();
  interrupt_watch_ends();
  if (!code) code = make_summaries(ctx, o, &pairs, &a.cut);
  a.seconds = seconds_now() - start;
  if (!code) code = scores_make(ctx, o, &pairs, &scores);
  if (!code) code = report(ctx, &a);
  scores_free(&scores);
  pairs_free(&pairs);
  return code;
}

int eval_rouge(int argc, char **argv) {
  rouge_options o = {.how = summary_defaults(), .rouge = {ATTEND_INIT(attend_rouge_options)}};
  int code;
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) code = score(ctx, &o);
  attend_context_free(ctx);
  free(o.data);
  return code;
}
