/* attend compare --runs: training runs side by side (attend/compare.h), as a table, JSON
 * and a plot. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/compare.h"
#include "attend/plot.h"
#include "options.h"
#include "table.h"

typedef struct {
  options common;
  char **paths; /* [count] */
  int count;
  bool is_runs, seeds;
  const char *curve;
} runs_options;

/* ---- options ------------------------------------------------------------------------ */

static const option_row own[] = {
    {"runs", NULL, "Compare training runs", FLAG(runs_options, is_runs)},
    {"curve", "FILE.svg", "Plot the validation losses, by steps and by time, as SVG",
     TEXT(runs_options, curve)},
    {"seeds", NULL, "NAME-s1, NAME-s2, .. are one setting: show mean and range",
     FLAG(runs_options, seeds)},
    {0}};
static const option_part parts[] = {
    {own, 0}, {option_rows_json, offsetof(runs_options, common)}, {0}};

static void finish(struct argp_state *state, char **words, int count, void *input) {
  runs_options *o = input;
  if (!count) argp_error(state, "name the folders that attend train --out made");
  o->paths = words;
  o->count = count;
}

static const verb_options verb_runs = {
    parts, "DIR...",
    "Compares training runs, directories of attend train --out, finished or still running.\vvalid "
    "is the best validation loss, in nats per token, at step `at'; last the last one. s/step and "
    "tokens/s are medians over the lines of the log and count training steps alone, without "
    "pauses, validation and saving. memory is that of values, gradients, moments, packed weights "
    "and activations. If a run's directory has a rouge.json, written by attend eval --rouge "
    "--json, its scores are shown too.",
    finish};

/* ---- tables and JSON ------------------------------------------------------------------ */

enum { CELL = 48 };

/* Numbers with their ends: in a table one text. */
#define WITH_ENDS(name, title)                                                                   \
  {name, NULL, CELL_RATIO}, {name "_low", NULL, CELL_RATIO}, {name "_high", NULL, CELL_RATIO}, { \
    "", title, CELL_TEXT                                                                         \
  }
static const column columns[] = {{"run", "run", CELL_TEXT},
                                 {"form", "form", CELL_TEXT},
                                 {"roles", "in", CELL_TEXT},
                                 {"encoder_width", NULL, CELL_COUNT},
                                 {"decoder_width", NULL, CELL_COUNT},
                                 {"seeds", NULL, CELL_COUNT},
                                 {"parameters", "parameters", CELL_NUMBER},
                                 {"steps", "steps", CELL_COUNT},
                                 WITH_ENDS("valid", "valid"),
                                 {"best_step", "at", CELL_COUNT},
                                 {"last", "last", CELL_RATIO},
                                 {"step_s", "s/step", CELL_SECONDS},
                                 {"tokens_per_s", "tokens/s", CELL_NUMBER},
                                 {"seconds", NULL, CELL_SECONDS},
                                 {"bytes", "memory", CELL_BYTES},
                                 WITH_ENDS("rouge1", NULL),
                                 WITH_ENDS("rouge2", NULL),
                                 WITH_ENDS("rougeL", NULL),
                                 {0}};
static const column scored[] = {{"run", "run", CELL_TEXT},
                                {"rouge1", "ROUGE-1", CELL_TEXT},
                                {"rouge2", "ROUGE-2", CELL_TEXT},
                                {"rougeL", "ROUGE-L", CELL_TEXT},
                                {0}};

static cell known(double x) { return isfinite(x) ? cell_number(x) : cell_none(); }

/* "3.412" or "3.412 (3.401 .. 3.424)". */
static cell spread_cell(const attend_run_number *n, char text[CELL]) {
  if (!isfinite(n->mean)) return cell_none();
  int length = snprintf(text, CELL, "%.4f", n->mean);
  if (n->low < n->high)
    snprintf(text + length, (size_t)(CELL - length), " (%.4f .. %.4f)", n->low, n->high);
  return cell_text(text);
}

static cell text_or_none(const char *text) { return text[0] ? cell_text(text) : cell_none(); }

static void add_row(table *t, const attend_run_facts *f) {
  cell row[sizeof columns / sizeof *columns] = {
      cell_text(f->name),
      text_or_none(f->form),
      text_or_none(f->roles),
      f->encoder_width ? cell_number(f->encoder_width) : cell_none(),
      f->decoder_width ? cell_number(f->decoder_width) : cell_none(),
      cell_number(f->seeds)};
  char spread[ATTEND_RUN_NUMBERS][CELL];
  int at = 6;
  for (int i = 0; i < ATTEND_RUN_NUMBERS; i++) {
    const attend_run_number *n = &f->number[i];
    row[at++] = known(n->mean);
    if (i != ATTEND_RUN_VALID && i < ATTEND_RUN_ROUGE1) continue;
    row[at++] = known(n->low);
    row[at++] = known(n->high);
    row[at++] = spread_cell(n, spread[i]);
  }
  table_add(t, row);
}

static int print_scores(const attend_run_facts *runs, int count) {
  table t = table_start(scored);
  char text[3][CELL];
  for (int i = 0; i < count; i++) {
    const attend_run_number *n = &runs[i].number[ATTEND_RUN_ROUGE1];
    if (isfinite(n->mean))
      table_add(&t, (cell[]){cell_text(runs[i].name), spread_cell(n, text[0]),
                             spread_cell(n + 1, text[1]), spread_cell(n + 2, text[2])});
  }
  if (t.rows) printf("\n");
  int code = t.rows ? table_print(&t, stdout) : EXIT_OK;
  table_free(&t);
  return code;
}

/* ---- the plot ------------------------------------------------------------------------------ */

/* The loss before training would flatten the rest of the curve. */
static size_t first_drawn(const attend_run_facts *c) { return c->points > 2 && c->step[0] == 0; }

static void draw(const attend_run_facts *runs, int count, bool by_time,
                 attend_plot_series *series) {
  for (int i = 0; i < count; i++) {
    const attend_run_facts *c = &runs[i];
    size_t from = first_drawn(c);
    bool band = runs[i].seeds > 1;
    series[i] = (attend_plot_series){.name = runs[i].name,
                                     .count = c->points - from,
                                     .x = (by_time ? c->seconds : c->step) + from,
                                     .y = c->loss + from,
                                     .low = band ? c->low + from : NULL,
                                     .high = band ? c->high + from : NULL,
                                     .points = runs[i].measured && c->points - from <= 12,
                                     .dashed = !runs[i].measured};
  }
}

/* Whether any log says how long its steps took. */
static bool is_timed(const attend_run_facts *runs, int count) {
  for (int i = 0; i < count; i++)
    for (size_t k = 0; k < runs[i].points; k++)
      if (runs[i].seconds[k] > 0) return true;
  return false;
}

static attend_status plot_runs(attend_context *ctx, const attend_run_facts *runs, int count,
                               const char *path) {
  attend_plot_series *steps = need((size_t)count, sizeof *steps);
  attend_plot_series *time = need((size_t)count, sizeof *time);
  bool bands = false, dashes = false;
  for (int i = 0; i < count; i++) {
    bands = bands || runs[i].seeds > 1;
    dashes = dashes || !runs[i].measured;
  }
  draw(runs, count, false, steps);
  draw(runs, count, true, time);
  attend_plot_panel panels[] = {{.title = "Validation loss by steps",
                                 .x = {.label = "step"},
                                 .y = {.label = "nats per token", .log = 1},
                                 .count = (size_t)count,
                                 .series = steps},
                                {.title = "By time",
                                 .x = {.label = "seconds of training"},
                                 .y = {.label = "nats per token", .log = 1},
                                 .count = (size_t)count,
                                 .series = time}};
  attend_plot plot = {ATTEND_INIT(attend_plot),
                      .count = is_timed(runs, count) ? 2 : 1,
                      .panels = panels,
                      .width = 840,
                      .height = 320,
                      .notes = bands && dashes ? "Lines: means of seeds, in bands from the least "
                                                 "to the most; dashed: training loss."
                               : bands  ? "Means of seeds, in bands from the least to the most."
                               : dashes ? "Dashed: training loss, where nothing was held back."
                                        : NULL};
  attend_status status = attend_plot_save(ctx, &plot, path);
  free(steps);
  free(time);
  return status;
}

/* ---- the verb ------------------------------------------------------------------------------ */

static int print(attend_context *ctx, const runs_options *o, const attend_run_facts *runs,
                 int count) {
  attend_status status = o->curve ? plot_runs(ctx, runs, count, o->curve) : ATTEND_OK;
  if (status) return complain_status(ctx, status);
  table t = table_start(columns);
  for (int i = 0; i < count; i++) add_row(&t, &runs[i]);
  int code = o->common.json ? table_print_json(&t, ctx, stdout) : table_print(&t, stdout);
  table_free(&t);
  return code || o->common.json ? code : print_scores(runs, count);
}

int cmd_compare_runs(int argc, char **argv) {
  runs_options o = {0};
  attend_runs_options how = {ATTEND_INIT(attend_runs_options)};
  attend_runs *runs = NULL;
  int code, count = 0;
  options_read(&verb_runs, argc, argv, &o);
  how.join_seeds = o.seeds;
  attend_context *ctx = options_context(&o.common, NULL, &code);
  if (!code) {
    attend_status status =
        attend_runs_read(ctx, o.count, (const char *const *)o.paths, &how, &runs);
    if (status) code = complain_status(ctx, status);
  }
  while (runs && attend_runs_get(runs, count)) count++;
  if (!code) code = print(ctx, &o, attend_runs_get(runs, 0), count);
  attend_runs_free(runs);
  attend_context_free(ctx);
  return code;
}
