/* attend fill: what a masked-LM model puts in the place of a mask.
 *
 * A table for each mask, or JSON.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "embed/lines.h"
#include "fill/ways.h"
#include "printable.h"

typedef struct {
  options common;
  model_options model;
  const char *pair;
  int top;
} fill_options;

typedef struct {
  const fill_options *o;
  model_opened m;
  filling f;
  line_source in;
  table rows; /* for JSON */
  bool spoke;
} fill_run;

/* ---- options --------------------------------------------------------------------------- */

enum { KEY_TOP = 1000, KEY_PAIR };

static const struct argp_option list[] = {
    {"top", KEY_TOP, "K", 0, "Print the K most probable (default: 5)", 0},
    {"pair", KEY_PAIR, "TEXT", 0, "A second text; it may have masks too", 0},
    {0}};

static error_t parse(int key, char *arg, struct argp_state *state) {
  fill_options *o = state->input;
  switch (key) {
    case KEY_TOP:
      o->top = (int)options_number(state, "--top", arg, 1, 1000);
      return 0;
    case KEY_PAIR:
      o->pair = arg;
      return 0;
    default:
      return model_parse(key, state, &o->model);
  }
}

static const struct argp argp = {
    .options = list,
    .parser = parse,
    .args_doc = "MODEL [TEXT...]",
    .doc =
        "The most probable tokens in the place of each mask. A mask is [MASK], "
        "<mask> or ___, whatever the model's own is. Without a TEXT, each line "
        "of the standard input is one."
        "\vBERT, DistilBERT and RoBERTa give each token's probability. BART "
        "and "
        "T5 write what is missing, by a search of as many beams; the "
        "probability is that of all they wrote.",
    .children = model_children};

/* ---- the model --------------------------------------------------------------------------- */

static int refuse(const fill_run *run, const char *why) {
  complain("%s cannot fill masks: %s", run->o->model.path, why);
  return EXIT_FAILED;
}

static int check_model(const fill_run *run) {
  const attend_config *c = attend_model_config(run->m.model);
  if (c->parts == ATTEND_DECODER)
    return refuse(run, "it continues texts and does not see what comes after");
  if (attend_checkpoint_has_head(run->m.files)) return EXIT_OK;
  return refuse(run,
                "the checkpoint has no masked-LM head; choose one that has");
}

static int find_spelling(fill_run *run) {
  const attend_tokenizer *t = run->m.tokenizer;
  int32_t id = attend_tokenizer_special(t, ATTEND_SPECIAL_MASK);
  const char *mask = id < 0 ? NULL : attend_tokenizer_piece(t, id, NULL);
  filling *f = &run->f;
  f->sentinels = attend_tokenizer_find(t, "<extra_id_0>", 12) >= 0;
  if (!mask && f->sentinels) mask = "<extra_id_%d>";
  if (!mask || strlen(mask) >= LONGEST_MASK)
    return refuse(run, "its tokenizer has no mask token");
  snprintf(f->spelling, sizeof f->spelling, "%s", mask);
  f->sentinels = id < 0;
  return EXIT_OK;
}

static int open_model(fill_run *run) {
  model_options model = run->o->model;
  model.text = true;
  int code = model_open(&run->o->common, &model, &run->m);
  if (!code) code = check_model(run);
  if (!code) code = find_spelling(run);
  if (code) return code;
  filling *f = &run->f;
  f->m = &run->m;
  f->top = run->o->top ? run->o->top : 5;
  attend_status status = attend_encoding_create(f->m->tokenizer, &f->encoding);
  if (!status)
    status = attend_detokenizer_create(f->m->tokenizer, true, &f->decoder);
  if (!status && attend_model_config(f->m->model)->parts == ATTEND_ENCODER)
    status = attend_session_create(f->m->model, NULL, &f->run);
  return status ? complain_status(run->m.ctx, status) : EXIT_OK;
}

/* ---- texts -------------------------------------------------------------------------------- */

static const double *number_at(const table *t, size_t row, int column_number) {
  return &t->cells[row * (size_t)t->width + (size_t)column_number].number;
}

/* A table for each mask: rows of one follow each other. */
static int print_masks(fill_run *run, const table *all, int masks) {
  int code = EXIT_OK;
  bool many = run->in.count != 1;
  for (size_t r = 0; r < all->rows && !code;) {
    table one = table_start(fill_columns);
    double mask = *number_at(all, r, 1);
    for (; r < all->rows && *number_at(all, r, 1) == mask; r++)
      table_add(&one, &all->cells[r * (size_t)all->width]);
    if (run->spoke) putchar('\n');
    if (many && mask == 1) {
      put_printable(stdout, run->f.text.text, strlen(run->f.text.text));
      putchar('\n');
    }
    if (masks > 1) printf("mask %.0f of %d\n", mask, masks);
    code = table_print(&one, stdout);
    table_free(&one);
    run->spoke = true;
  }
  return code;
}

static int fill_text(fill_run *run, table *rows) {
  filling *f = &run->f;
  int masks = f->text.masks + f->pair.masks;
  if (!masks) {
    complain("text %zu has no mask: write [MASK] where something is missing",
             f->line);
    return EXIT_USAGE;
  }
  if (f->run) return fill_by_head(f, rows);
  if (!run->o->pair) return fill_by_writing(f, rows);
  complain("--pair is for encoders: %s reads one text", run->o->model.path);
  return EXIT_USAGE;
}

static int one_text(fill_run *run, const char *text, size_t length) {
  const char *pair = run->o->pair;
  filling *f = &run->f;
  table rows = table_start(fill_columns);
  f->line++;
  f->text = masks_find(text, length, f->spelling);
  if (pair) f->pair = masks_find(pair, strlen(pair), f->spelling);
  int code = fill_text(run, &rows);
  for (size_t r = 0; r < rows.rows && !code && run->o->common.json; r++)
    table_add(&run->rows, &rows.cells[r * (size_t)rows.width]);
  if (!code && !run->o->common.json)
    code = print_masks(run, &rows, f->text.masks + f->pair.masks);
  table_free(&rows);
  masks_free(&f->text);
  masks_free(&f->pair);
  return code;
}

static int fill(fill_run *run) {
  const char *text;
  size_t length;
  int code = open_model(run);
  run->in =
      (line_source){.words = run->o->model.words, .count = run->o->model.count};
  while (!code && line_next(&run->in, &text, &length))
    code = one_text(run, text, length);
  if (!code) code = line_check(&run->in);
  if (code || !run->o->common.json) return code;
  return table_print_json(&run->rows, run->m.ctx, stdout);
}

int cmd_fill(int argc, char **argv) {
  fill_options o = {0};
  fill_run run = {.o = &o, .rows = table_start(fill_columns)};
  argp_parse(&argp, argc, argv, 0, NULL, &o);
  int code = fill(&run);
  table_free(&run.rows);
  line_free(&run.in);
  attend_session_free(run.f.run);
  attend_detokenizer_free(run.f.decoder);
  attend_encoding_free(run.f.encoding);
  model_close(&run.m);
  return code;
}
