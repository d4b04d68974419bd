/* attend summarize: the few words that a text comes to.
 *
 * Place: cli/ - a verb. summarize.h says which file does what.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "progress.h"
#include "summarize.h"

enum { KEY_LINES = 1700, KEY_FIELD };

static const struct argp_option list[] = {
    {"model", 'm', "MODEL", 0,
     "A bart or t5: a folder, hf:OWNER/NAME, a run (default: "
     "attend:summarizer)",
     1},
    {"lines", KEY_LINES, 0, 0, "Each line is a document", 1},
    {"field", KEY_FIELD, "NAME", 0,
     "The input is lines of JSON, and this member the document (default: "
     "document, of files that end in .jsonl)",
     1},
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
    case ARGP_KEY_INIT:
      options_share(state, 2);
      state->child_inputs[2] = &o->model;
      state->child_inputs[3] = &o->how;
      return 0;
    case ARGP_KEY_ARGS:
      o->files = state->argv + state->next;
      o->n_files = state->argc - state->next;
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
    {0}};
static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "[FILE...]",
    .doc = "Summarizes files, or the standard input.",
    .children = children};

/* ---- the verb ------------------------------------------------------------------- */

static void say_step(int done, int count, void *user) {
  (void)count;
  (void)user;
  progress_step((size_t)done, "documents");
}

static int summarize_plain(const summarize_options *o) {
  summarizer s = {0};
  summary_document *docs = NULL;
  summary_watch watch = {.on_step = say_step};
  int count = 0, code = documents_read(o, &docs, &count);
  if (!code) code = summarizer_open(&o->common, &o->model, &o->how, &s);
  if (!code) {
    interrupt_watch();
    progress_start("summarizing", (size_t)count);
    code = summaries_write(&s, docs, count, &watch);
    progress_end();
  }
  if (!code) code = summaries_print(o, &s, docs, count);
  documents_free(docs, count);
  summarizer_close(&s);
  return !code && is_interrupted() ? EXIT_INTERRUPTED : code;
}

/* One line for each other way: --extract, --long. */
static int summarize(const summarize_options *o) { return summarize_plain(o); }

int cmd_summarize(int argc, char **argv) {
  summarize_options o = {.how = summary_defaults()};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  return summarize(&o);
}
