/* The loop: steps, lines of the log, measurements, saved steps. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "interrupt.h"
#include "json_members.h"
#include "progress.h"
#include "table.h"
#include "train/train.h"
#include "printable.h"

static uint64_t now_at(const train_run *run) {
  return attend_training_steps(run->training);
}

static double seconds_in_all(const train_run *run) {
  return run->tally.seconds + seconds_now() - run->started;
}

/* A process that goes on has not seen the longest lessons. */
static double most_work(const train_run *run) {
  double now = (double)attend_trainer_work_bytes(run->learner);
  return now > run->tally.work ? now : run->tally.work;
}

/* Values, gradients, packed weights, moments, activations at their most. */
static double bytes_held(const train_run *run) {
  size_t count;
  attend_trainer_values(run->learner, &count);
  int moments = !!attend_optimizer_moments(run->optimizer, 0) +
                !!attend_optimizer_moments(run->optimizer, 1);
  return (double)attend_trainer_bytes(run->learner) + most_work(run) +
         (double)moments * (double)count * sizeof(float);
}

static void say(const train_run *run, const char *text) {
  progress_end();
  if (!run->s->common.json) {
    put_printable(stdout, text, strlen(text));
    putchar('\n');
  }
  fflush(stdout);
}

/* ---- saving ---------------------------------------------------------------------- */

static void write_tally(attend_json_writer *w, void *user) {
  const train_run *run = user;
  const train_tally *t = &run->tally;
  json_number(w, "best", t->best);
  json_number(w, "best_step", (double)t->best_step);
  json_number(w, "worse", t->worse);
  json_number(w, "loss_sum", t->loss);
  json_number(w, "loss_seen", t->seen);
  json_number(w, "tokens", t->tokens);
  json_number(w, "seconds", seconds_in_all(run));
  json_number(w, "work_bytes", most_work(run));
  json_truth(w, "ended", t->ended);
  if (!run->held) return;
  char valid[17];
  valid_digest(run, valid);
  json_text(w, "valid", valid);
}

static bool is_saved(const train_run *run) {
  uint64_t step;
  return linked_step(run->s->out, "last", &step) && step == now_at(run);
}

/* Weights that are no numbers would stand in the way of those that were. */
static bool is_sound(const train_run *run) {
  size_t count;
  const float *values = attend_trainer_values(run->learner, &count);
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

static int fail_unsound(const train_run *run, const char *what) {
  complain(
      "step %llu: %s no number: take a smaller --rate; the last saved step "
      "stands, and --resume goes on from it",
      (unsigned long long)now_at(run), what);
  return EXIT_FAILED;
}

/* A mean of the last needs them. */
static long long steps_kept(const train_settings *s) {
  return s->keep && s->keep < s->average - 1 ? s->average - 1 : s->keep;
}

static int save(train_run *run, bool best) {
  uint64_t step = now_at(run);
  char name[STEP_NAME];
  attend_save_options keep = {
      .beside = run->base,
      .stored = run->s->save_bf16 ? ATTEND_STORED_BF16 : ATTEND_STORED_F32,
      .write = write_tally,
      .user = run};
  if (!is_sound(run)) return fail_unsound(run, "a weight is");
  step_name(step, name);
  char *path = path_of("%s/%s", run->s->out, name);
  attend_status status = attend_training_save(run->training, path, &keep);
  free(path);
  if (status) {
    uint64_t last;
    bool some = linked_step(run->s->out, "last", &last);
    complain("%s%s", attend_message(run->ctx),
             some ? "; the last saved step stands, and --resume goes on from it"
                  : "");
    return EXIT_FAILED;
  }
  if (!link_step(run->s->out, "last", step)) return EXIT_FAILED;
  if (best && !link_step(run->s->out, "best", step)) return EXIT_FAILED;
  thin_steps(run->s->out, step, steps_kept(run->s));
  return EXIT_OK;
}

/* ---- measuring --------------------------------------------------------------------- */

static int say_measured(uint64_t done, uint64_t total, void *user) {
  (void)user;
  (void)total;
  progress_step((size_t)done, "lessons");
  return 0;
}

int train_measure(train_run *run, double *loss) {
  attend_batch_loss outcome;
  uint64_t most = (uint64_t)run->s->valid_lessons;
  uint64_t all = attend_batches_epoch(run->measured);
  progress_start("measuring", (size_t)(most && most < all ? most : all));
  attend_status status = attend_training_evaluate(
      run->learner, run->measured, most, say_measured, NULL, &outcome);
  progress_end();
  if (status) return complain_status(run->ctx, status);
  *loss = outcome.loss / (outcome.scored ? outcome.scored : 1);
  return isfinite(*loss) ? EXIT_OK
                         : fail_unsound(run, "the validation loss is");
}

/* Whether it is the best so far. */
static int measure(train_run *run, double *loss, bool *best) {
  train_tally *t = &run->tally;
  int code = train_measure(run, loss);
  if (code) return code;
  *best = *loss < t->best;
  t->worse = *best ? 0 : t->worse + 1;
  if (*best) {
    t->best = *loss;
    t->best_step = now_at(run);
  }
  return log_valid(&run->log, now_at(run), *loss, *best) ? EXIT_FAILED
                                                         : EXIT_OK;
}

/* What is due after a step, or before the first. */
static int rest(train_run *run, bool end) {
  uint64_t step = now_at(run);
  bool due = end || step % run->valid_every == 0;
  bool kept = end || step % run->save_every == 0, best = false;
  double loss = NAN;
  char text[160];
  if (run->measured && due) {
    int code = measure(run, &loss, &best);
    if (code) return code;
    run->tally.ended = run->s->patience && run->tally.worse >= run->s->patience;
    snprintf(
        text, sizeof text, "step %llu: validation %.4f (perplexity %.4g)%s",
        (unsigned long long)step, loss, exp(loss), best ? ", the best" : "");
    say(run, text);
  } else if (kept && run->log.train.count) {
    snprintf(text, sizeof text, "step %llu: training loss %.4f",
             (unsigned long long)step,
             run->log.train.y[run->log.train.count - 1]);
    say(run, text);
  }
  if (!kept && !best && !run->tally.ended) return EXIT_OK;
  if (log_draw(&run->log, true)) return complain_status(run->ctx, ATTEND_IO);
  if (log_keep(&run->log)) return EXIT_FAILED;
  return save(run, best);
}

/* ---- lines ------------------------------------------------------------------------------ */

static void format_left(double seconds, char *text, size_t size) {
  if (seconds < 90)
    snprintf(text, size, "%.0f s", seconds);
  else if (seconds < 5400)
    snprintf(text, size, "%.0f min", seconds / 60);
  else
    snprintf(text, size, "%.1f h", seconds / 3600);
}

typedef struct {                 /* of this process */
  double tokens, steps, seconds; /* learnt since the last line of the log */
  double first;                  /* tokens of the whole, as it began */
  double shown;                  /* when the line on the terminal was written */
} pace;

static void show(const train_run *run, const attend_step_report *r, pace *p) {
  char left[32], text[160];
  double time = seconds_now(), took = time - run->started;
  if (time - p->shown < 0.1) return;
  p->shown = time;
  double steps = (double)(now_at(run) - run->begun);
  format_left(took / steps * (double)(run->steps - now_at(run)), left,
              sizeof left);
  snprintf(text, sizeof text,
           "step %llu of %llu, loss %.3f, rate %.2g, %.0f tokens/s, %s left",
           (unsigned long long)now_at(run), (unsigned long long)run->steps,
           r->scored ? r->loss / (double)r->scored : NAN, r->rate,
           (run->tally.tokens - p->first) / took, left);
  progress_note(text);
}

static int note_step(train_run *run, const attend_step_report *r, pace *p) {
  train_tally *t = &run->tally;
  t->loss += r->loss;
  t->seen += (double)r->scored;
  t->tokens += (double)r->tokens;
  p->tokens += (double)r->tokens;
  p->steps++;
  show(run, r, p);
  if (now_at(run) % run->log_every && now_at(run) != run->steps) return EXIT_OK;
  log_line line = {.step = now_at(run),
                   .loss = t->seen > 0 ? t->loss / t->seen : NAN,
                   .rate = r->rate,
                   .norm = r->norm,
                   .tokens = t->tokens,
                   .seconds = seconds_in_all(run),
                   .step_s = p->seconds / p->steps,
                   .speed = p->tokens / p->seconds,
                   .bytes = bytes_held(run)};
  t->loss = t->seen = 0;
  p->tokens = p->steps = p->seconds = 0;
  if (log_step(&run->log, &line)) return EXIT_FAILED;
  return log_draw(&run->log, false) ? complain_status(run->ctx, ATTEND_IO)
                                    : EXIT_OK;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void describe(const train_run *run) {
  size_t count, texts = attend_corpus_documents(run->texts);
  char text[240], bytes[32], parameters[32];
  const attend_config *c = attend_trainer_config(run->learner);
  attend_trainer_values(run->learner, &count);
  format_cell(CELL_NUMBER, (double)count, parameters, sizeof parameters);
  format_cell(CELL_BYTES, (double)attend_corpus_bytes(run->texts), bytes,
              sizeof bytes);
  snprintf(text, sizeof text,
           "%s of %s parameters learns from %s: %zu %s%s, %zu tokens%s",
           c->family, parameters, bytes, texts,
           run->task == ATTEND_LEARN_PAIRS ? "pair" : "text",
           texts == 1 ? "" : "s", attend_corpus_tokens(run->texts),
           run->goes_on ? "; it goes on" : "");
  say(run, text);
  if (attend_corpus_dropped(run->texts)) {
    snprintf(text, sizeof text,
             "%zu tokens were cut off: texts were longer than --length",
             attend_corpus_dropped(run->texts));
    say(run, text);
  }
}

static int steps(train_run *run) {
  pace p = {.first = run->tally.tokens};
  while (now_at(run) < run->steps && !run->tally.ended && !is_interrupted()) {
    attend_step_report r;
    double start = seconds_now();
    attend_status status = attend_training_step(run->training, &r);
    p.seconds += seconds_now() - start;
    if (status) {
      complain("step %llu: %s; the last saved step stands",
               (unsigned long long)now_at(run) + 1, attend_message(run->ctx));
      return EXIT_FAILED;
    }
    int code = note_step(run, &r, &p);
    if (!code) code = rest(run, now_at(run) == run->steps);
    if (code) return code;
  }
  return EXIT_OK;
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

static bool is_cut_short(const train_run *run) {
  return is_interrupted() && now_at(run) < run->steps && !run->tally.ended;
}

static int put_json(const train_run *run, const char *folder) {
  const train_tally *t = &run->tally;
  const curve *c = &run->log.train;
  table rows = table_start(columns);
  table_add(&rows,
            (cell[]){cell_number((double)now_at(run)), cell_number(t->tokens),
                     cell_number(c->count ? c->y[c->count - 1] : NAN),
                     cell_number(run->measured ? t->best : NAN),
                     cell_number(run->measured ? exp(t->best) : NAN),
                     cell_number((double)t->best_step),
                     cell_number(seconds_in_all(run)), cell_number(t->ended),
                     cell_number(is_cut_short(run)), cell_text(folder),
                     run->averaged ? cell_number(run->averaged) : cell_none(),
                     cell_number(run->averaged ? run->average_valid : NAN),
                     cell_number(bytes_held(run))});
  int code = table_print_json(&rows, run->ctx, stdout);
  table_free(&rows);
  return code;
}

static int put_line(const train_run *run, const char *folder) {
  const train_tally *t = &run->tally;
  char time[32], tokens[32], bytes[32];
  format_left(seconds_in_all(run), time, sizeof time);
  format_cell(CELL_NUMBER, t->tokens, tokens, sizeof tokens);
  format_cell(CELL_BYTES, bytes_held(run), bytes, sizeof bytes);
  if (t->ended)
    printf(
        "ended early: step %llu was the best, and %d measurements since no "
        "better\n",
        (unsigned long long)t->best_step, t->worse);
  if (is_cut_short(run)) printf("interrupted: --resume goes on\n");
  printf("%llu steps, %s tokens, %s, %s of memory: %s, and %s/loss.svg\n",
         (unsigned long long)now_at(run), tokens, time, bytes, folder,
         run->s->out);
  return check_written(stdout, "the standard output");
}

static int say_end(const train_run *run) {
  uint64_t best;
  bool has_best = linked_step(run->s->out, "best", &best);
  char *folder = path_of("%s/%s", run->s->out, has_best ? "best" : "last");
  int code =
      run->s->common.json ? put_json(run, folder) : put_line(run, folder);
  free(folder);
  return code;
}

int train_loop(train_run *run) {
  int code = EXIT_OK;
  run->started = seconds_now();
  interrupt_watch();
  interrupt_watch_ends();
  describe(run);
  if (!run->goes_on) code = rest(run, false);
  if (!code) code = steps(run);
  progress_end();
  if (!code && is_cut_short(run) && !is_saved(run)) code = save(run, false);
  if (!code && run->s->average && !is_cut_short(run)) code = train_average(run);
  if (!code) code = say_end(run);
  return code ? code : is_cut_short(run) ? EXIT_INTERRUPTED : EXIT_OK;
}
