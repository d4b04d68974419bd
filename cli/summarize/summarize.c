/* attend summarize: the verb; summarize.h says which file does what. */
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "progress.h"
#include "summarize/summarize.h"
#include "table.h"

enum { WINDOW = 256 }; /* documents at a time */

enum { KEY_LINES = 1700, KEY_FIELD, KEY_SOURCES, KEY_SHOW, KEY_OUT };

static const struct argp_option list[] = {
    {0, 0, 0, 0, "Input and output:", 1},
    {"model", 'm', "MODEL", 0,
     "A bart or t5: a directory, hf:OWNER/NAME, a training run (default: "
     "attend:summarizer)",
     1},
    {"lines", KEY_LINES, 0, 0, "Each line is a document", 1},
    {"field", KEY_FIELD, "NAME", 0,
     "The input is lines of JSON, and this member the document (default: "
     "document, of files that end in .jsonl)",
     1},
    {"sources", KEY_SOURCES, "N", OPTION_ARG_OPTIONAL,
     "Print each word's N sources: the document's words with the largest "
     "cross-attention weights (default: 3)",
     2},
    {"show", KEY_SHOW, 0, 0,
     "Open the view of the first summary: encoder, decoder, and the "
     "cross-attention from each word to its sources",
     2},
    {"out", KEY_OUT, "FILE", 0,
     "With --show: write FILE.html, .svg, .png or .json instead of serving; "
     "with --long chunks: the tree of summaries as a page; with --extract: "
     "the text with the chosen sentences marked",
     2},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  summarize_options *o = state->input;
  switch (key) {
    case 'm':
      o->model.path = arg;
      return 0;
    case KEY_LINES:
      o->lines = true;
      return 0;
    case KEY_FIELD:
      o->field = arg;
      return 0;
    case KEY_SOURCES:
      o->sources = arg ? (int)options_number(state, "--sources", arg, 1, 16) : 3;
      return 0;
    case KEY_SHOW:
      o->show = true;
      return 0;
    case KEY_OUT:
      o->out = arg;
      return 0;
    case ARGP_KEY_INIT:
      options_share(state, 2);
      state->child_inputs[2] = &o->model;
      state->child_inputs[3] = &o->how;
      state->child_inputs[4] = &o->longer;
      state->child_inputs[5] = &o->extract;
      return 0;
    case ARGP_KEY_ARGS:
      o->files = state->argv + state->next;
      o->n_files = state->argc - state->next;
      return 0;
    case ARGP_KEY_END:
      if (o->out && !o->show && !o->longer.chunks && !o->extract.given)
        argp_error(state, "--out goes with --show, --long chunks or --extract");
      if (o->show && o->common.json && !o->out)
        argp_error(state, "--json needs --show to write a file: add --out FILE");
      if ((o->show || o->sources) && (o->longer.chunks || o->longer.linear))
        argp_error(state,
                   "--show and --sources need a document that fits the "
                   "encoder: leave out --long");
      if (o->extract.given && (o->show || o->sources || o->longer.chunks || o->longer.linear))
        argp_error(state,
                   "--extract generates no text: leave out --show, --sources "
                   "and --long");
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_child children[] = {{&options_json, 0, NULL, 3},
                                             {&options_run, 0, "", 6},
                                             {&options_model, 0, "Running the model:", 5},
                                             {&options_summary, 0, "Generation:", 4},
                                             {&options_long, 0, "Documents of any length:", 5},
                                             {&options_extract, 0, "Sentences of the text:", 4},
                                             {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "[FILE...]",
    .doc =
        "Summarizes files, or the standard input, with the model that ships "
        "or any bart or t5."
        "\vScores are mean log probabilities of a summary's tokens. The "
        "settings of the model's directory (prefix, beams, lengths) apply "
        "unless an option overrides them. --attention is the form of the "
        "encoder and of cross-attention. A document that is longer than the "
        "encoder's context is truncated, with a warning; --long reads all of "
        "it. Ctrl-C prints what is done and exits with 130.",
    .children = children};

/* ---- the model ------------------------------------------------------------------ */

summary_options summary_defaults(void) {
  return (summary_options){.how = attend_summary_generate_defaults()};
}

int summarizer_open(const options *common, const model_options *model, const summary_options *o,
                    summarizer *s) {
  model_options chosen = *model;
  attend_summarize_options how = {ATTEND_INIT(attend_summarize_options)};
  *s = (summarizer){0};
  if (!chosen.path) chosen.path = "attend:summarizer";
  if (chosen.attention && !chosen.roles) chosen.roles = SUMMARY_ROLES;
  int code = model_open(common, &chosen, &s->m);
  if (code) return code;
  how.generate = &o->how;
  how.given = o->given;
  how.min_words = o->min_words;
  how.max_words = o->max_words;
  attend_status status = attend_summarizer_create(s->m.model, s->m.path, &how, &s->s);
  return status ? complain_status(s->m.ctx, status) : EXIT_OK;
}

void summarizer_close(summarizer *s) {
  attend_summarizer_free(s->s);
  model_close(&s->m);
}

/* ---- documents in their order ----------------------------------------------------- */

static int on_progress(double done, void *user) {
  (void)done;
  progress_step((size_t) * (const int *)user, "documents");
  return is_interrupted();
}

static void on_done(int document, const attend_summarized *one, void *user) {
  (void)document;
  (void)one;
  ++*(int *)user;
}

static int write_window(summarizer *s, const documents *docs, int first, int n,
                        attend_summaries **all) {
  attend_summarize_callbacks callbacks = {ATTEND_INIT(attend_summarize_callbacks)};
  int done = first;
  callbacks.progress = on_progress;
  callbacks.on_done = on_done;
  callbacks.user = &done;
  progress_start("summarizing", (size_t)docs->count);
  attend_status status = attend_summarize(s->s, n, docs->at + first, &callbacks, all);
  progress_end();
  return status && status != ATTEND_STOPPED ? complain_status(s->m.ctx, status) : EXIT_OK;
}

static void print_window(summary_printer *p, const documents *docs, int first, int n,
                         const attend_summaries *all) {
  for (int i = 0; i < n; i++) {
    printed one = {docs->name[first + i], first + i, attend_summaries_get(all, i), all, i};
    if (!summary_printer_put(p, &one)) return;
  }
}

/* Documents are printed in their order, a window of them at a time, in which
 * batches are of similar length. *shown is the first window, for --show. */
static int write_windows(const summarize_options *o, summarizer *s, const documents *docs,
                         attend_summaries **shown) {
  summary_printer p;
  int code = EXIT_OK;
  summary_printer_start(&p, o, s, docs->count);
  for (int first = 0; first < docs->count && !code && !is_interrupted(); first += WINDOW) {
    int n = docs->count - first < WINDOW ? docs->count - first : WINDOW;
    attend_summaries *all;
    code = write_window(s, docs, first, n, &all);
    if (!code) print_window(&p, docs, first, n, all);
    if (!code) code = p.code;
    if (!code) code = check_written(stdout, "the summaries");
    if (first)
      attend_summaries_free(all);
    else
      *shown = all;
  }
  return summary_printer_end(&p, code);
}

static int summarize_plain(const summarize_options *o) {
  summarizer s = {0};
  documents docs = {0};
  attend_summaries *first = NULL;
  int code = documents_read(o, &docs);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &s);
  if (!code) {
    interrupt_watch();
    code = write_windows(o, &s, &docs, &first);
  }
  if (!code && o->show && !is_interrupted() && docs.count)
    code = summary_show(o, &s, docs.at, attend_summaries_get(first, 0));
  attend_summaries_free(first);
  summarizer_close(&s);
  documents_free(&docs);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

/* Checked before the work, which would be lost. */
static int check_out(const summarize_options *o) {
  static const char *const ends[] = {".html", ".svg", ".png", ".json", ".safetensors"};
  int n = o->show ? 5 : 1, i = 0;
  if (!o->out) return EXIT_OK;
  while (i < n && !path_ends(o->out, ends[i])) i++;
  if (i < n) return can_write(o->out) ? EXIT_OK : EXIT_FAILED;
  complain("with %s --out takes a name that ends in .html%s, not \"%s\"",
           o->show            ? "--show"
           : o->longer.chunks ? "--long"
                              : "--extract",
           o->show ? ", .svg, .png, .json or .safetensors" : "", o->out);
  return EXIT_USAGE;
}

static int summarize(const summarize_options *o) {
  int code = check_out(o);
  if (code) return code;
  if (o->longer.chunks || o->longer.linear) return summarize_long(o);
  if (o->extract.given) return summarize_extract(o);
  return summarize_plain(o);
}

int cmd_summarize(int argc, char **argv) {
  summarize_options o = {.how = summary_defaults(), .extract = extract_defaults()};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  return summarize(&o);
}
