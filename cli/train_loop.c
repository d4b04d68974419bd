/* The loop: steps, lines of the log, measurements, saved steps.
 *
 * Place: cli/ - see train.h.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "folders.h"
#include "interrupt.h"
#include "json_members.h"
#include "progress.h"
#include "table.h"
#include "train.h"

static uint64_t now_at(const train_run *run) {
  return attend_training_steps(run->training);
}

static double seconds_in_all(const train_run *run) {
  return run->tally.seconds + seconds_now() - run->started;
}

static void say(const train_run *run, const char *text) {
  progress_end();
  if (!run->s->common.json) printf("%s\n", text);
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
  json_truth(w, "ended", t->ended);
}

static int save(train_run *run, bool best) {
  uint64_t step = now_at(run);
  char name[STEP_NAME];
  attend_keep keep = {
      .beside = run->base,
      .stored = run->s->save_bf16 ? ATTEND_STORED_BF16 : ATTEND_STORED_F32,
      .write = write_tally,
      .user = run};
  step_name(step, name);
  char *path = path_of("%s/%s", run->s->out, name);
  attend_status status = attend_training_save(run->training, path, &keep);
  free(path);
  if (status) {
    complain("%s; the last saved step stands, and --resume goes on from it",
             attend_message(run->ctx));
    return EXIT_FAILED;
  }
  if (!link_step(run->s->out, "last", step)) return EXIT_FAILED;
  if (best && !link_step(run->s->out, "best", step)) return EXIT_FAILED;
  thin_steps(run->s->out, step, run->s->keep);
  return EXIT_OK;
}

/* ---- measuring --------------------------------------------------------------------- */

static int say_measured(uint64_t done, uint64_t total, void *user) {
  (void)user;
  (void)total;
  progress_step((size_t)done, "lessons");
  return 0;
}

/* Whether it is the best so far. */
static int measure(train_run *run, double *loss, bool *best) {
  attend_outcome outcome;
  train_tally *t = &run->tally;
  uint64_t most = (uint64_t)run->s->valid_lessons;
  uint64_t all = attend_batches_epoch(run->measured);
  progress_start("measuring", (size_t)(most && most < all ? most : all));
  attend_status status = attend_training_measure(
      run->learner, run->measured, most, say_measured, NULL, &outcome);
  progress_end();
  if (status) return complain_status(run->ctx, status);
  *loss = outcome.loss / (outcome.scored ? outcome.scored : 1);
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
  }
  if (!kept && !best && !run->tally.ended) return EXIT_OK;
  if (log_draw(&run->log, true)) return complain_status(run->ctx, ATTEND_IO);
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

typedef struct {     /* of this process */
  double tokens, at; /* when the last line was written */
  double first;      /* tokens of the whole */
  double shown;      /* when the line on the terminal was written */
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
  double time = seconds_now();
  t->loss += r->loss;
  t->seen += (double)r->scored;
  t->tokens += (double)r->tokens;
  show(run, r, p);
  if (now_at(run) % run->log_every && now_at(run) != run->steps) return EXIT_OK;
  log_line line = {.step = now_at(run),
                   .loss = t->seen > 0 ? t->loss / t->seen : NAN,
                   .rate = r->rate,
                   .norm = r->norm,
                   .tokens = t->tokens,
                   .seconds = seconds_in_all(run),
                   .speed = (t->tokens - p->tokens) / (time - p->at)};
  t->loss = t->seen = 0;
  p->tokens = t->tokens;
  p->at = time;
  if (log_step(&run->log, &line)) return EXIT_FAILED;
  return log_draw(&run->log, false) ? complain_status(run->ctx, ATTEND_IO)
                                    : EXIT_OK;
}

/* ---- the whole ----------------------------------------------------------------------------- */

static void describe(const train_run *run) {
  size_t count;
  char text[240], bytes[32];
  const attend_config *c = attend_learner_config(run->learner);
  attend_learner_values(run->learner, &count);
  format_cell(CELL_BYTES, (double)attend_corpus_bytes(run->texts), bytes,
              sizeof bytes);
  snprintf(text, sizeof text,
           "%s of %.3g M parameters learns from %s: %zu texts, %zu tokens%s",
           c->family, (double)count * 1e-6, bytes,
           attend_corpus_documents(run->texts),
           attend_corpus_tokens(run->texts), run->begun ? "; it goes on" : "");
  say(run, text);
  if (attend_corpus_dropped(run->texts)) {
    snprintf(text, sizeof text, "%zu tokens were cut off: texts were longer",
             attend_corpus_dropped(run->texts));
    say(run, text);
  }
}

static int steps(train_run *run) {
  pace p = {run->tally.tokens, seconds_now(), run->tally.tokens, 0};
  while (now_at(run) < run->steps && !run->tally.ended && !is_interrupted()) {
    attend_step_report r;
    attend_status status = attend_training_step(run->training, &r);
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

static int say_end(const train_run *run) {
  const train_tally *t = &run->tally;
  char time[32];
  size_t drawn = run->log.train.count;
  format_left(seconds_in_all(run), time, sizeof time);
  if (run->s->common.json) {
    attend_json_writer w = attend_json_writer_file(run->ctx, stdout);
    attend_json_open(&w, '{');
    json_number(&w, "steps", (double)now_at(run));
    json_number(&w, "tokens", t->tokens);
    json_number(&w, "loss", drawn ? run->log.train.y[drawn - 1] : NAN);
    json_number(&w, "valid", t->best);
    json_number(&w, "perplexity", exp(t->best));
    json_number(&w, "best_step", (double)t->best_step);
    json_number(&w, "seconds", seconds_in_all(run));
    json_truth(&w, "ended_early", t->ended);
    json_truth(&w, "interrupted", is_interrupted());
    json_text(&w, "last", "last");
    attend_json_close(&w, '}');
    if (attend_json_finish(&w)) return complain_status(run->ctx, ATTEND_IO);
    return EXIT_OK;
  }
  printf("%llu steps, %.4g M tokens, %s: %s/%s, and %s/loss.svg\n",
         (unsigned long long)now_at(run), t->tokens * 1e-6, time, run->s->out,
         run->measured ? "best" : "last", run->s->out);
  return check_written(stdout, "the standard output");
}

int train_loop(train_run *run) {
  int code = EXIT_OK;
  uint64_t saved;
  run->started = seconds_now();
  interrupt_watch();
  describe(run);
  if (!run->begun && !linked_step(run->s->out, "last", &saved))
    code = rest(run, false);
  if (!code) code = steps(run);
  progress_end();
  if (code) return code;
  if (is_interrupted() && now_at(run) < run->steps) {
    code = save(run, false);
    if (code) return code;
    say(run, "interrupted; --resume goes on");
  }
  code = say_end(run);
  return code                                           ? code
         : is_interrupted() && now_at(run) < run->steps ? EXIT_INTERRUPTED
                                                        : EXIT_OK;
}
