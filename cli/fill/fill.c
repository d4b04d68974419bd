/* attend fill: what a model puts in the place of a mask.
 *
 * A table for each mask, or JSON. attend/fill.h does the work.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/fill.h"
#include "model_open.h"
#include "table.h"
#include "text.h"

typedef struct {
  options common;
  model_options model;
  attend_fill_options fill;
  const char *pair;
} fill_options;

typedef struct {
  const fill_options *o;
  model_opened m;
  attend_filler *filler;
  line_source in;
  size_t line;  /* number of the text, from 1 */
  table rows;   /* for JSON */
  bool printed; /* a table already */
} fill_run;

/* ---- options --------------------------------------------------------------------------- */

static const option_row own[] = {
    {"top", "K", "Print the K most probable (default: 5)", NUMBER(fill_options, fill.top, 1, 1000)},
    {"pair", "TEXT", "A second text; it may have masks too", TEXT(fill_options, pair)},
    {0}};
static const option_part parts[] = {{own, 0},
                                    {option_rows_json, offsetof(fill_options, common)},
                                    {option_rows_run, offsetof(fill_options, common)},
                                    {option_rows_model_name, offsetof(fill_options, model)},
                                    {option_rows_model, offsetof(fill_options, model)},
                                    {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  fill_options *o = input;
  model_words(state, words, count, &o->model);
  if (o->pair && text_check("the second text", o->pair, strlen(o->pair))) exit(EXIT_USAGE);
}

static const verb_options verb_fill = {
    parts, "[MODEL] [TEXT...]",
    "The most probable tokens in the place of each mask, by MODEL or a pulled masked model. A mask "
    "is [MASK], <mask> or ___, "
    "whatever the model's own is. Without a TEXT, each line of the standard input is one."
    "\vBERT, DistilBERT and RoBERTa give the probability of each token. BART and T5 write the "
    "missing text by a beam search with K beams; the probability is that of all tokens written.",
    finish};

/* ---- results ----------------------------------------------------------------------------- */

static const column columns[] = {
    {"line", NULL, CELL_COUNT},   {"mask", NULL, CELL_COUNT},
    {"rank", "rank", CELL_COUNT}, {"token", "token", CELL_TEXT},
    {"id", NULL, CELL_COUNT},     {"probability", "probability", CELL_RATIO},
    {"text", "text", CELL_TEXT},  {NULL, NULL, CELL_TEXT}};

static void add_row(const fill_run *run, table *rows, const attend_filled *r) {
  const char *token = r->token ? r->token : "-";
  table_add(rows, (cell[]){cell_number((double)run->line), cell_number(r->mask + 1),
                           cell_number(r->rank + 1), cell_text(token),
                           r->id < 0 ? cell_none() : cell_number(r->id),
                           cell_number(r->probability), cell_text(r->text)});
}

/* Results from i on, as long as they are of the same mask; then *i is the next. */
static int print_mask(fill_run *run, int *i) {
  const attend_filled *r = attend_filler_get(run->filler, *i);
  const char *text = attend_filler_text(run->filler);
  int mask = r->mask, masks = attend_filler_masks(run->filler);
  table rows = table_start(columns);
  for (; r && r->mask == mask; r = attend_filler_get(run->filler, ++*i)) add_row(run, &rows, r);
  if (run->printed) putchar('\n');
  if (run->in.count != 1 && mask == 0) {
    put_printable(stdout, text, strlen(text));
    putchar('\n');
  }
  if (masks > 1) printf("mask %d of %d\n", mask + 1, masks);
  int code = table_print(&rows, stdout);
  table_free(&rows);
  run->printed = true;
  return code;
}

static int put_results(fill_run *run) {
  const attend_filled *r;
  int code = EXIT_OK;
  for (int i = 0; !code && (r = attend_filler_get(run->filler, i));) {
    if (!run->o->common.json)
      code = print_mask(run, &i);
    else
      add_row(run, &run->rows, r), i++;
  }
  return code;
}

/* ---- texts ------------------------------------------------------------------------------- */

static int open_model(fill_run *run) {
  model_options model = run->o->model;
  model.text = true;
  int code = model_open(&run->o->common, &model, &run->m);
  if (code) return code;
  attend_status status =
      attend_filler_create(run->m.model, run->m.tokenizer, &run->o->fill, &run->filler);
  return status ? complain_status(run->m.ctx, status) : EXIT_OK;
}

static int fill_text(fill_run *run, const char *text, size_t length) {
  const char *pair = run->o->pair;
  run->line++;
  attend_status status = attend_fill(run->filler, text, length, pair, pair ? strlen(pair) : 0);
  if (!status) return put_results(run);
  complain("text %zu: %s", run->line, attend_filler_message(run->filler));
  return status == ATTEND_INVALID ? EXIT_USAGE : EXIT_FAILED;
}

static int fill(fill_run *run) {
  const char *text;
  size_t length;
  int code = open_model(run);
  run->in = (line_source){.words = run->o->model.words, .count = run->o->model.count};
  while (!code && line_next(&run->in, &text, &length)) code = fill_text(run, text, length);
  if (!code) code = line_check(&run->in);
  if (code || !run->o->common.json) return code;
  return table_print_json(&run->rows, run->m.ctx, stdout);
}

int cmd_fill(int argc, char **argv) {
  fill_options o = {.model.use = MODEL_FILLS, .fill = {ATTEND_INIT(attend_fill_options)}};
  fill_run run = {.o = &o, .rows = table_start(columns)};
  options_read(&verb_fill, argc, argv, &o);
  int code = fill(&run);
  table_free(&run.rows);
  line_free(&run.in);
  attend_filler_free(run.filler);
  model_close(&run.m);
  return code;
}
