/* attend summarize: the few words that a text comes to.
 *
 * summarize.h says which file does what.
 */
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "interrupt.h"
#include "summarize/long_summary.h"
#include "progress.h"
#include "summarize/summarize.h"

enum { WINDOW = 256 }; /* documents at a time */

enum { KEY_LINES = 1700, KEY_FIELD, KEY_SOURCES, KEY_SHOW, KEY_OUT };

static const struct argp_option list[] = {
    {0, 0, 0, 0, "What goes in, what comes out:", 1},
    {"model", 'm', "MODEL", 0,
     "A bart or t5: a folder, hf:OWNER/NAME, a run (default: "
     "attend:summarizer)",
     1},
    {"lines", KEY_LINES, 0, 0, "Each line is a document", 1},
    {"field", KEY_FIELD, "NAME", 0,
     "The input is lines of JSON, and this member the document (default: "
     "document, of files that end in .jsonl)",
     1},
    {"sources", KEY_SOURCES, "N", OPTION_ARG_OPTIONAL,
     "Print each word's N sources: the document's words that cross-attention "
     "weighed most when it was written (default: 3)",
     2},
    {"show", KEY_SHOW, 0, 0,
     "Open the view of the first that was written: encoder, decoder, and the "
     "cross-attention by which each word points at its sources",
     2},
    {"out", KEY_OUT, "FILE", 0,
     "With --show: write FILE.html, .svg, .png or .json instead of serving; "
     "with --long chunks: the tree of summaries as a page; with --extract: "
     "the text with its sentences marked",
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
      o->sources =
          arg ? (int)options_number(state, "--sources", arg, 1, 16) : 3;
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
      if (o->out && !o->show && !o->longer.chunks && !o->extract.asked)
        argp_error(state, "--out goes with --show, --long chunks or --extract");
      if (o->show && o->common.json && !o->out)
        argp_error(state, "--json and a page do not mix: name --out FILE");
      if ((o->show || o->sources) && (o->longer.chunks || o->longer.linear))
        argp_error(state,
                   "--show and --sources are of a document that the encoder "
                   "takes as it is: leave out --long");
      if (o->extract.asked &&
          (o->show || o->sources || o->longer.chunks || o->longer.linear))
        argp_error(state,
                   "--extract writes nothing of its own: leave out --show, "
                   "--sources and --long");
      return 0;
    default:
      return ARGP_ERR_UNKNOWN;
  }
}

static const struct argp_child children[] = {
    {&options_json, 0, NULL, 3},
    {&options_run, 0, "", 6},
    {&options_model, 0, "How it runs:", 5},
    {&options_summary, 0, "How summaries are written:", 4},
    {&options_long, 0, "Documents of any length:", 5},
    {&options_extract, 0, "Sentences of the text instead:", 4},
    {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "[FILE...]",
    .doc =
        "The few words that a text comes to: of files, or of the standard "
        "input, with the model that ships or any bart or t5."
        "\vScores are mean log probabilities of a summary's tokens. What the "
        "model's folder says of summaries (a prefix, beams, lengths) counts "
        "where no option does. --attention here is the form of encoder and "
        "cross-attention. What is longer than the encoder takes is cut, which "
        "is said, unless --long reads all of it. Ctrl-C prints what is done "
        "and exits with 130.",
    .children = children};

/* ---- the verb ------------------------------------------------------------------- */

static void say_step(int done, int count, void *user) {
  const int *before = user;
  (void)count;
  progress_step((size_t)(*before + done), "documents");
}

/* Documents are printed in their order, a window of them at a time, in which
 * those of alike length are written together. */
static int write_windows(const summarize_options *o, summarizer *s,
                         summary_document *docs, int count) {
  summary_printer p;
  int code = EXIT_OK, done = 0;
  summary_watch watch = {.on_step = say_step, .user = &done};
  summary_printer_start(&p, o, s, count);
  for (; done < count && !code && !is_interrupted(); done += WINDOW) {
    int n = count - done < WINDOW ? count - done : WINDOW;
    progress_start("summarizing", (size_t)count);
    code = summaries_write(s, docs + done, n, &watch);
    progress_end();
    if (!code) code = summary_printer_put(&p, docs + done, n);
  }
  return summary_printer_end(&p, code);
}

static int summarize_plain(const summarize_options *o) {
  summarizer s = {0};
  summary_document *docs = NULL;
  int count = 0, code = documents_read(o, &docs, &count);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &s);
  if (!code) {
    interrupt_watch();
    code = write_windows(o, &s, docs, count);
  }
  if (!code && o->show && !is_interrupted()) code = summary_show(o, &s, docs);
  documents_free(docs, count);
  summarizer_close(&s);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

/* Before the work: what is written after it would be lost. */
static int check_out(const summarize_options *o) {
  static const char *const ends[] = {".html", ".svg", ".png", ".json",
                                     ".safetensors"};
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

/* One line for each other way: --extract, --long. */
static int summarize(const summarize_options *o) {
  int code = check_out(o);
  if (code) return code;
  if (o->longer.chunks || o->longer.linear) return summarize_long(o);
  if (o->extract.asked) return summarize_extract(o);
  return summarize_plain(o);
}

int cmd_summarize(int argc, char **argv) {
  summarize_options o = {.how = summary_defaults(),
                         .extract = extract_defaults()};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  return summarize(&o);
}
