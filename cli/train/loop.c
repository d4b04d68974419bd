/* Training, shown: the lines that are printed, loss.svg, and the end. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "attend/plot.h"
#include "folders.h"
#include "progress.h"
#include "table.h"
#include "text.h"
#include "train/train.h"

static void say(const train_run *run, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void say(const train_run *run, const char *format, ...) {
  char text[256];
  va_list args;
  va_start(args, format);
  vsnprintf(text, sizeof text, format, args);
  va_end(args);
  progress_end();
  if (!run->s->common.json) {
    put_printable(stdout, text, strlen(text));
    putchar('\n');
  }
  fflush(stdout);
}

/* ---- loss.svg ----------------------------------------------------------------------- */

static attend_plot_series series_of(const char *name, const attend_log_curve *curve, double *x,
                                    double *y) {
  for (size_t i = 0; i < curve->count; i++) {
    x[i] = curve->at[i].step;
    y[i] = curve->at[i].loss;
  }
  return (attend_plot_series){.name = name, .count = curve->count, .x = x, .y = y};
}

static attend_status save_plot(train_run *run) {
  const attend_log_curve *loss = attend_training_run_loss(run->log);
  const attend_log_curve *valid = attend_training_run_valid(run->log);
  double *x = need(2 * (loss->count + valid->count), sizeof *x);
  double *x_valid = x + 2 * loss->count;
  attend_plot_series series[] = {series_of("training", loss, x, x + loss->count),
                                 series_of("validation", valid, x_valid, x_valid + valid->count)};
  series[1].points = 1;
  attend_plot_panel panel = {.title = "Loss",
                             .x = {.label = "step"},
                             .y = {.label = "nats per token"},
                             .count = valid->count ? 2 : 1,
                             .series = series};
  attend_plot plot = {ATTEND_INIT(attend_plot), .count = 1, .panels = &panel};
  char *path = path_of("%s/loss.svg", run->s->out);
  attend_status status = attend_plot_save(run->ctx, &plot, path);
  free(path);
  free(x);
  return status;
}

/* Every two seconds at most, and with every checkpoint. */
static void draw(train_run *run, bool now) {
  attend_status status = ATTEND_OK;
  if (run->failed || (!now && seconds_now() - run->drawn < 2)) return;
  run->drawn = seconds_now();
  if (run->log)
    status = attend_training_run_refresh(run->log);
  else if (attend_training_run_open(run->ctx, run->s->out, &run->log))
    return; /* nothing is logged yet */
  if (!status) status = save_plot(run);
  if (status) complain_status(run->ctx, status);
  run->failed = status != ATTEND_OK;
}

/* ---- lines ---------------------------------------------------------------------------- */

static void format_left(double seconds, char *text, size_t size) {
  if (seconds < 90)
    snprintf(text, size, "%.0f s", seconds);
  else if (seconds < 5400)
    snprintf(text, size, "%.0f min", seconds / 60);
  else
    snprintf(text, size, "%.1f h", seconds / 3600);
}

static void show_step(train_run *run, const attend_fit_report *r) {
  char left[32], text[160];
  double time = seconds_now();
  if (time - run->shown < 0.1) return;
  run->shown = time;
  format_left(r->left, left, sizeof left);
  snprintf(text, sizeof text, "step %llu of %llu, loss %.3f, rate %.2g, %.0f tokens/s, %s left",
           (unsigned long long)r->step, (unsigned long long)r->steps, r->loss, r->rate, r->speed,
           left);
  progress_note(text);
}

void train_report(const attend_fit_report *r, void *user) {
  train_run *run = user;
  switch (r->event) {
    case ATTEND_FIT_STEPPED:
      show_step(run, r);
      break;
    case ATTEND_FIT_LOGGED:
      draw(run, false);
      break;
    case ATTEND_FIT_VALIDATING:
      if (!run->validates) progress_start("measuring", 0);
      run->validates = r->done < 1;
      progress_share(r->done, NULL);
      if (!run->validates) progress_end();
      break;
    case ATTEND_FIT_VALIDATED:
      say(run, "step %llu: validation %.4f (perplexity %.4g)%s", (unsigned long long)r->step,
          r->valid, exp(r->valid), r->best ? ", the best" : "");
      break;
    case ATTEND_FIT_SAVING:
      if (isnan(r->valid) && !isnan(r->loss))
        say(run, "step %llu: training loss %.4f", (unsigned long long)r->step, r->loss);
      draw(run, true);
      break;
  }
}

int train_progress(double done, const char *what, void *user) {
  const train_run *run = user;
  (void)done, (void)what;
  return is_interrupted() || run->failed;
}

static void describe(const train_run *run) {
  size_t count, texts = attend_corpus_documents(run->texts);
  char bytes[32], parameters[32];
  const attend_config *c = attend_trainer_config(run->trainer);
  attend_trainer_values(run->trainer, &count);
  format_cell(CELL_NUMBER, (double)count, parameters, sizeof parameters);
  format_cell(CELL_BYTES, (double)attend_corpus_bytes(run->texts), bytes, sizeof bytes);
  say(run, "%s of %s parameters trains on %s: %zu %s%s, %zu tokens%s", attend_config_family(c),
      parameters, bytes, texts, run->task == ATTEND_LEARN_PAIRS ? "pair" : "text",
      texts == 1 ? "" : "s", attend_corpus_tokens(run->texts), run->resumes ? "; it resumes" : "");
  if (attend_corpus_dropped(run->texts))
    say(run, "%zu tokens were cut off: texts were longer than --length",
        attend_corpus_dropped(run->texts));
}

/* ---- the end ------------------------------------------------------------------------------- */

static const column columns[] = {
    {"steps", NULL, CELL_COUNT},      {"tokens", NULL, CELL_COUNT},
    {"loss", NULL, CELL_RATIO},       {"valid", NULL, CELL_RATIO},
    {"perplexity", NULL, CELL_RATIO}, {"best_step", NULL, CELL_COUNT},
    {"seconds", NULL, CELL_SECONDS},  {"ended_early", NULL, CELL_OK},
    {"interrupted", NULL, CELL_OK},   {"folder", NULL, CELL_TEXT},
    {"averaged", NULL, CELL_COUNT},   {"average_valid", NULL, CELL_RATIO},
    {"bytes", NULL, CELL_BYTES},      {NULL, NULL, CELL_TEXT}};

static int put_json(const train_run *run, const attend_fit_result *r, bool stopped,
                    const char *folder) {
  table rows = table_start(columns);
  table_add(
      &rows,
      (cell[]){cell_number((double)r->steps), cell_number(r->tokens), cell_number(r->loss),
               cell_number(r->best), cell_number(exp(r->best)), cell_number((double)r->best_step),
               cell_number(r->seconds), cell_number(r->stopped_early), cell_number(stopped),
               cell_text(folder), r->averaged ? cell_number(r->averaged) : cell_none(),
               cell_number(r->averaged ? r->average_valid : NAN), cell_number(r->bytes)});
  return table_finish(&rows, run->ctx, true);
}

static void put_average(const train_run *run, const attend_fit_result *r) {
  printf("the mean of %d steps, %llu to %llu", r->averaged, (unsigned long long)r->average_first,
         (unsigned long long)r->average_last);
  if (run->valid)
    printf(": validation %.4f (perplexity %.4g)", r->average_valid, exp(r->average_valid));
  printf(", in %s/average\n", run->s->out);
}

static int put_lines(const train_run *run, const attend_fit_result *r, bool stopped,
                     const char *folder) {
  char time[32], tokens[32], bytes[32];
  format_left(r->seconds, time, sizeof time);
  format_cell(CELL_NUMBER, r->tokens, tokens, sizeof tokens);
  format_cell(CELL_BYTES, r->bytes, bytes, sizeof bytes);
  if (r->averaged) put_average(run, r);
  if (r->stopped_early)
    printf(
        "ended early: step %llu was the best, and %d measurements since no "
        "better\n",
        (unsigned long long)r->best_step, r->worse);
  if (stopped) printf("interrupted: --resume continues it\n");
  printf("%llu steps, %s tokens, %s, %s of memory: %s, and %s/loss.svg\n",
         (unsigned long long)r->steps, tokens, time, bytes, folder, run->s->out);
  return check_written(stdout, "the standard output");
}

static int say_end(const train_run *run, const attend_fit_result *r, bool stopped) {
  char *best = path_of("%s/best", run->s->out);
  char *folder = is_folder(best) ? need_copy(best) : path_of("%s/last", run->s->out);
  int code =
      run->s->common.json ? put_json(run, r, stopped, folder) : put_lines(run, r, stopped, folder);
  free(folder);
  free(best);
  return code;
}

int train_loop(train_run *run) {
  attend_fit_result result;
  interrupt_watch();
  interrupt_watch_ends();
  describe(run);
  attend_status status = attend_fit_run(run->fit, &result);
  bool stopped = status == ATTEND_STOPPED;
  progress_end();
  if (run->failed) return EXIT_FAILED;
  if (status && !stopped) {
    complain_status(run->ctx, status);
    return EXIT_FAILED;
  }
  int code = say_end(run, &result, stopped);
  return code ? code : stopped ? EXIT_INTERRUPTED : EXIT_OK;
}
