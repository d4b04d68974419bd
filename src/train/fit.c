/* A whole training run: the loop with validation, early stopping, checkpoints, the log,
 * resuming and averaging.
 *
 * training.json of a checkpoint has the tally beside the step: what the loop knows besides
 * the optimizer's state. The log is synced before the checkpoint that it describes, so a
 * resumed run finds every line up to its step.
 */
#include "attend/train.h"

#include <math.h>
#include <string.h>

#include "base/options.h"
#include "train/corpus.h"
#include "train/run_folder.h"
#include "train/trainer.h"

typedef struct { /* saved with every checkpoint */
  double best;   /* validation loss; INFINITY: none yet */
  uint64_t best_step;
  int worse;         /* validations since */
  double loss, seen; /* summed since the last line of the log */
  double tokens;     /* trained on so far */
  double seconds;    /* of all processes before this one */
  double work;       /* bytes of activations, at the most */
  bool ended;        /* early */
} tally;

typedef struct {                 /* of this process */
  double tokens, steps, seconds; /* since the last line of the log */
  double first;                  /* tokens of the whole when it began */
} pace;

struct attend_fit {
  attend_context *ctx;
  char folder[LONGEST_PATH], base[LONGEST_PATH], checkpoint[LONGEST_PATH];
  int lock;
  attend_fit_start start;
  bool resumes;
  uint64_t begun; /* the step that this process started from */
  attend_fit_options o;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
  attend_training *training;
  tally tally;
  pace pace;
  run_log log;
  double started;
  attend_fit_result result; /* of averaging; the rest is filled at the end */
};

/* ---- the checkpoint to resume from ------------------------------------------------------ */

static attend_status check_step(attend_fit *f, uint64_t step) {
  char path[LONGEST_PATH], file[LONGEST_PATH];
  ATTEND_TRY(step_path(f->ctx, f->folder, step, NULL, path));
  if (!file_beside(path, "training.json", file, sizeof file))
    return fail(f->ctx, ATTEND_IO, "%.300s/training.json is missing", path);
  return attend_training_verify(f->ctx, path);
}

/* *good: how many of the steps to take so that the last is undamaged; 0: none is. */
static attend_status count_good(attend_fit *f, const uint64_t *steps, size_t n, size_t *good) {
  attend_status status = ATTEND_OK;
  for (*good = n; *good; --*good) {
    status = check_step(f, steps[*good - 1]);
    if (!status || status == ATTEND_NO_MEMORY) return status;
  }
  return ATTEND_OK;
}

/* The reason, and whether an earlier checkpoint could be used. */
static attend_status fail_damaged(attend_fit *f, const uint64_t *steps, size_t n) {
  char why[1024];
  size_t good;
  snprintf(why, sizeof why, "%s", attend_message(f->ctx));
  ATTEND_TRY(count_good(f, steps, n, &good));
  if (good)
    return fail(f->ctx, ATTEND_IO,
                "%s; step %llu is as it was saved: resuming from last-good "
                "takes it and removes later ones",
                why, (unsigned long long)steps[good - 1]);
  return fail(f->ctx, ATTEND_IO, "%s, and no earlier step can be resumed", why);
}

static attend_status choose_among(attend_fit *f, uint64_t step, const uint64_t *steps, size_t n) {
  size_t at = n;
  if (f->start == ATTEND_FIT_LAST_GOOD)
    ATTEND_TRY(count_good(f, steps, n, &at));
  else
    while (f->start == ATTEND_FIT_STEP && at && steps[at - 1] != step) at--;
  ATTEND_CHECK(f->ctx, at,
               "%.300s holds no step that the run could resume from as asked: "
               "the last is %llu",
               f->folder, (unsigned long long)steps[n - 1]);
  f->begun = steps[at - 1];
  attend_status status = check_step(f, f->begun);
  if (status == ATTEND_NO_MEMORY) return status;
  if (status) return fail_damaged(f, steps, at - 1);
  return step_path(f->ctx, f->folder, f->begun, NULL, f->checkpoint);
}

static attend_status check_new(attend_fit *f, size_t saved) {
  ATTEND_CHECK(f->ctx, !saved || f->start == ATTEND_FIT_NEW,
               "no step in %.300s can be resumed: their training.json is gone; "
               "train one of them further into another folder",
               f->folder);
  ATTEND_CHECK(f->ctx, !saved,
               "%.300s holds a training run already: resume it, or choose "
               "another folder",
               f->folder);
  return ATTEND_OK;
}

static attend_status choose_step(attend_fit *f, uint64_t step) {
  uint64_t *steps;
  size_t n, all;
  ATTEND_TRY(steps_saved(f->ctx, f->folder, true, &steps, &n));
  ctx_free(f->ctx, steps);
  f->resumes = f->start != ATTEND_FIT_NEW && n;
  ATTEND_TRY(steps_saved(f->ctx, f->folder, false, &steps, &all));
  attend_status status = f->resumes ? choose_among(f, step, steps, all) : check_new(f, all);
  ctx_free(f->ctx, steps);
  return status;
}

attend_status attend_fit_open(attend_context *ctx, const char *folder, attend_fit_start start,
                              uint64_t step, attend_fit **fit) {
  attend_fit *f;
  *fit = NULL;
  ATTEND_CHECK(ctx, *folder && strlen(folder) < LONGEST_PATH - 64,
               "\"%.300s\" cannot be the folder of a training run", folder);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *f, "a training run", &f));
  f->ctx = ctx;
  f->start = start;
  f->tally.best = INFINITY;
  strcpy(f->folder, folder);
  attend_status status = lock_run(ctx, folder, &f->lock);
  if (!status) status = choose_step(f, step);
  if (status)
    attend_fit_free(f);
  else
    *fit = f;
  return status;
}

void attend_fit_free(attend_fit *f) {
  if (!f) return;
  run_log_close(&f->log);
  attend_training_free(f->training);
  lock_drop(f->lock);
  ctx_free(f->ctx, f);
}

const char *attend_fit_checkpoint(const attend_fit *f) { return f->resumes ? f->checkpoint : NULL; }

/* ---- resuming ------------------------------------------------------------------------------ */

static double noted(const attend_json *notes, const char *name, double otherwise) {
  return attend_json_number(attend_json_get(notes, name), otherwise);
}

enum { DIGEST_TEXT = 17 };
static void valid_digest(const attend_fit *f, char text[DIGEST_TEXT]) {
  snprintf(text, DIGEST_TEXT, "%016llx", (unsigned long long)batches_corpus_digest(f->o.valid));
}

/* A run without validation may have one from now on. */
static bool is_same_valid(const attend_fit *f, const attend_json *notes) {
  const char *saved = attend_json_string(attend_json_get(notes, "valid"), NULL);
  char now[DIGEST_TEXT] = "";
  if (f->o.valid) valid_digest(f, now);
  return !saved || !strcmp(saved, now);
}

static void read_tally(attend_fit *f, const attend_json *notes) {
  f->tally = (tally){.best = noted(notes, "best", INFINITY),
                     .best_step = (uint64_t)noted(notes, "best_step", 0),
                     .worse = (int)noted(notes, "worse", 0),
                     .loss = noted(notes, "loss_sum", 0),
                     .seen = noted(notes, "loss_seen", 0),
                     .tokens = noted(notes, "tokens", 0),
                     .seconds = noted(notes, "seconds", 0),
                     .work = noted(notes, "work_bytes", 0)};
  f->tally.ended = f->o.patience && f->tally.worse >= f->o.patience;
}

static attend_status resume(attend_fit *f) {
  attend_json *notes;
  ATTEND_TRY(attend_training_verify_beside(f->ctx, f->checkpoint, f->base));
  ATTEND_TRY(attend_training_resume(f->training, f->checkpoint, &notes));
  bool same = is_same_valid(f, notes);
  if (same) read_tally(f, notes);
  attend_json_free(notes);
  ATTEND_CHECK(f->ctx, same,
               "the validation texts of %.300s have changed, so that "
               "losses cannot be compared: give the same validation texts, or "
               "train %.300s/best further into another folder",
               f->folder, f->folder);
  if (f->start != ATTEND_FIT_RESUME) ATTEND_TRY(drop_later(f->ctx, f->folder, f->begun));
  return repair_links(f->ctx, f->folder, f->begun, isfinite(f->tally.best), f->tally.best_step);
}

static uint64_t every(uint64_t given, uint64_t steps, uint64_t part) {
  if (given) return given;
  return steps / part ? steps / part : 1;
}

static attend_status read_options(attend_fit *f, const attend_fit_options *options) {
  attend_fit_options *o = &f->o;
  ATTEND_TRY(OPTIONS_READ(f->ctx, attend_fit_options, options, o));
  const uint64_t steps = o->schedule.steps;
  o->save_every = every(o->save_every, steps, 10);
  o->valid_every = every(o->valid_every, o->save_every, 1);
  o->log_every = every(o->log_every, steps, 100);
  ATTEND_CHECK(f->ctx, !o->average || f->resumes || steps > o->save_every,
               "%llu steps, saved every %llu, are one checkpoint: an average "
               "needs two, so save more often",
               (unsigned long long)steps, (unsigned long long)o->save_every);
  /* The average needs the last checkpoints. */
  if (o->keep && o->average && o->keep < (uint64_t)o->average - 1)
    o->keep = (uint64_t)o->average - 1;
  const char *base = o->base;
  o->base = f->base;
  if (!base) return path_inside(f->ctx, f->folder, "base", f->base);
  ATTEND_CHECK(f->ctx, strlen(base) < LONGEST_PATH, "the base is too long");
  strcpy(f->base, base);
  return ATTEND_OK;
}

attend_status attend_fit_begin(attend_fit *f, attend_trainer *trainer, attend_optimizer *optimizer,
                               attend_batches *batches, const attend_fit_options *options) {
  ATTEND_CHECK(f->ctx, !f->training, "the training run has begun already");
  ATTEND_TRY(read_options(f, options));
  f->trainer = trainer;
  f->optimizer = optimizer;
  const attend_training_options how = {ATTEND_INIT(attend_training_options),
                                       .schedule = f->o.schedule, .accumulate = f->o.accumulate,
                                       .smoothing = f->o.smoothing};
  ATTEND_TRY(attend_training_create(trainer, optimizer, batches, &how, &f->training));
  if (f->resumes) ATTEND_TRY(resume(f));
  f->result = (attend_fit_result){.average_valid = NAN};
  return run_log_open(f->ctx, f->folder, f->resumes, f->begun, &f->log);
}

/* ---- facts ----------------------------------------------------------------------------------- */

static uint64_t now_at(const attend_fit *f) { return attend_training_steps(f->training); }

static uint64_t steps_of(const attend_fit *f) { return f->o.schedule.steps; }

static double seconds_in_all(const attend_fit *f) {
  return f->tally.seconds + seconds_now() - f->started;
}

/* A process that resumes has not seen the longest batches. */
static double most_work(const attend_fit *f) {
  double now = (double)attend_trainer_work_bytes(f->trainer);
  return now > f->tally.work ? now : f->tally.work;
}

/* Values, gradients, packed weights, moments, activations at their most. */
static double bytes_held(const attend_fit *f) {
  int moments =
      !!attend_optimizer_moments(f->optimizer, 0) + !!attend_optimizer_moments(f->optimizer, 1);
  return (double)attend_trainer_bytes(f->trainer) + most_work(f) +
         (double)moments * (double)f->trainer->count * sizeof(float);
}

static void report(const attend_fit *f, attend_fit_report r) {
  r.step = now_at(f);
  r.steps = steps_of(f);
  if (f->o.report) f->o.report(&r, f->o.user);
}

/* ---- checkpoints ------------------------------------------------------------------------------- */

typedef struct {
  const attend_fit *f;
  json_writer w;
} tally_notes;

/* The notes of a checkpoint, when its weights are written. */
static attend_status write_tally(void *user, const char **json) {
  tally_notes *notes = user;
  const attend_fit *f = notes->f;
  const tally *t = &f->tally;
  json_writer *w = &notes->w;
  json_open(w, '{');
  json_member_number(w, "best", t->best);
  json_member_number(w, "best_step", (double)t->best_step);
  json_member_number(w, "worse", t->worse);
  json_member_number(w, "loss_sum", t->loss);
  json_member_number(w, "loss_seen", t->seen);
  json_member_number(w, "tokens", t->tokens);
  json_member_number(w, "seconds", seconds_in_all(f));
  json_member_number(w, "work_bytes", most_work(f));
  json_member_boolean(w, "ended", t->ended);
  if (f->o.valid) {
    char valid[DIGEST_TEXT];
    valid_digest(f, valid);
    json_member_string(w, "valid", valid);
  }
  json_close(w, '}');
  ATTEND_TRY(json_finish(w));
  *json = w->text;
  return ATTEND_OK;
}

/* A failure of this step, with the remedy that a checkpoint is. */
static attend_status fail_step(attend_fit *f, uint64_t step, attend_status status,
                               const char *why) {
  uint64_t last;
  bool some = linked_step(f->folder, "last", &last);
  return fail(f->ctx, status, "step %llu: %s%s", (unsigned long long)step, why,
              some ? "; the last checkpoint is intact: resume from it" : "");
}

/* Non-finite weights must not overwrite the last good checkpoint. */
static bool is_finite(const attend_fit *f) {
  size_t count;
  const float *values = attend_trainer_values(f->trainer, &count);
  for (size_t i = 0; i < count; i++)
    if (!isfinite(values[i])) return false;
  return true;
}

static attend_status save(attend_fit *f, bool best) {
  uint64_t step = now_at(f);
  char path[LONGEST_PATH], why[1024];
  tally_notes notes = {f, json_writer_text(f->ctx)};
  attend_save_options keep = {ATTEND_INIT(attend_save_options), .beside = f->base,
                              .stored = f->o.stored, .notes = write_tally, .user = &notes};
  if (!is_finite(f))
    return fail_step(f, now_at(f), ATTEND_INVALID, "a weight is not finite: choose a smaller rate");
  ATTEND_TRY(step_path(f->ctx, f->folder, step, NULL, path));
  attend_status status = attend_training_save(f->training, path, &keep);
  json_writer_free(&notes.w);
  if (status) {
    snprintf(why, sizeof why, "%s", attend_message(f->ctx));
    return fail_step(f, step, status, why);
  }
  ATTEND_TRY(link_step(f->ctx, f->folder, "last", step));
  if (best) ATTEND_TRY(link_step(f->ctx, f->folder, "best", step));
  return thin_steps(f->ctx, f->folder, step, f->o.keep);
}

/* ---- validation ---------------------------------------------------------------------------------- */

static int note_evaluated(double done, const char *what, void *user) {
  (void)what;
  report(user, (attend_fit_report){.event = ATTEND_FIT_VALIDATING, .done = done});
  return 0;
}

static attend_status evaluate(attend_fit *f, double *loss) {
  attend_batch_loss sum;
  ATTEND_TRY(attend_training_evaluate(f->trainer, f->o.valid, f->o.valid_batches, note_evaluated, f,
                                      &sum));
  *loss = sum.loss / (sum.scored ? sum.scored : 1);
  if (isfinite(*loss)) return ATTEND_OK;
  return fail_step(f, now_at(f), ATTEND_INVALID,
                   "the validation loss is not finite: choose a smaller rate");
}

static attend_status validate(attend_fit *f, double *loss, bool *best) {
  tally *t = &f->tally;
  ATTEND_TRY(evaluate(f, loss));
  *best = *loss < t->best;
  t->worse = *best ? 0 : t->worse + 1;
  if (*best) {
    t->best = *loss;
    t->best_step = now_at(f);
  }
  ATTEND_TRY(run_log_valid(&f->log, now_at(f), *loss, *best));
  t->ended = f->o.patience && t->worse >= f->o.patience;
  report(f, (attend_fit_report){
                .event = ATTEND_FIT_VALIDATED, .loss = f->log.loss, .valid = *loss, .best = *best});
  return ATTEND_OK;
}

/* What is due after a step, or before the first. */
static attend_status after_step(attend_fit *f, bool end) {
  uint64_t step = now_at(f);
  bool kept = end || step % f->o.save_every == 0, best = false;
  double valid = NAN;
  if (f->o.valid && (end || step % f->o.valid_every == 0)) ATTEND_TRY(validate(f, &valid, &best));
  if (!kept && !best && !f->tally.ended) return ATTEND_OK;
  report(f, (attend_fit_report){
                .event = ATTEND_FIT_SAVING, .loss = f->log.loss, .valid = valid, .best = best});
  ATTEND_TRY(run_log_sync(&f->log));
  return save(f, best);
}

/* ---- steps ---------------------------------------------------------------------------------------- */

static void report_step(attend_fit *f, const attend_step_report *r) {
  double took = seconds_now() - f->started;
  double steps = (double)(now_at(f) - f->begun);
  report(f, (attend_fit_report){.event = ATTEND_FIT_STEPPED,
                                .loss = r->scored ? r->loss / (double)r->scored : NAN,
                                .valid = NAN,
                                .rate = r->rate,
                                .speed = (f->tally.tokens - f->pace.first) / took,
                                .left = took / steps * (double)(steps_of(f) - now_at(f))});
}

static attend_status note_step(attend_fit *f, const attend_step_report *r) {
  tally *t = &f->tally;
  pace *p = &f->pace;
  t->loss += r->loss;
  t->seen += (double)r->scored;
  t->tokens += (double)r->tokens;
  p->tokens += (double)r->tokens;
  p->steps++;
  report_step(f, r);
  if (now_at(f) % f->o.log_every && now_at(f) != steps_of(f)) return ATTEND_OK;
  log_line logged = {.step = now_at(f),
                     .loss = t->seen > 0 ? t->loss / t->seen : NAN,
                     .rate = r->rate,
                     .norm = r->norm,
                     .tokens = t->tokens,
                     .seconds = seconds_in_all(f),
                     .step_s = p->seconds / p->steps,
                     .speed = p->tokens / p->seconds,
                     .bytes = bytes_held(f)};
  t->loss = t->seen = 0;
  p->tokens = p->steps = p->seconds = 0;
  ATTEND_TRY(run_log_step(&f->log, &logged));
  report(f, (attend_fit_report){.event = ATTEND_FIT_LOGGED,
                                .loss = logged.loss,
                                .valid = NAN,
                                .rate = logged.rate,
                                .speed = logged.speed});
  return ATTEND_OK;
}

static attend_status take_step(attend_fit *f) {
  attend_step_report r;
  double start = seconds_now();
  attend_status status = attend_training_step(f->training, &r);
  f->pace.seconds += seconds_now() - start;
  if (status) {
    char why[1024];
    snprintf(why, sizeof why, "%s", attend_message(f->ctx));
    return fail_step(f, now_at(f) + 1, status, why);
  }
  ATTEND_TRY(note_step(f, &r));
  return after_step(f, now_at(f) == steps_of(f));
}

static bool is_done(const attend_fit *f) { return now_at(f) >= steps_of(f) || f->tally.ended; }

static attend_status take_steps(attend_fit *f) {
  const attend_fit_options *o = &f->o;
  while (!is_done(f)) {
    double done = (double)now_at(f) / (double)steps_of(f);
    if (o->progress && o->progress(done, NULL, o->user)) break;
    ATTEND_TRY(take_step(f));
  }
  return ATTEND_OK;
}

/* ---- averaging ------------------------------------------------------------------------------------- */

typedef struct {
  attend_fit *f;
  const uint64_t *steps; /* [n], rising */
  int n;
  folder_draft draft;
} averaging;

static attend_status put_beside(const char *name, const char *bytes, size_t length, void *user) {
  const averaging *a = user;
  char path[LONGEST_PATH];
  ATTEND_TRY(path_inside(a->f->ctx, a->draft.draft, name, path));
  return attend_file_write(a->f->ctx, path, bytes, length);
}

/* average.json: the steps, and the loss of their mean. */
static attend_status write_notes(const averaging *a) {
  char path[LONGEST_PATH];
  const double valid = a->f->result.average_valid;
  ATTEND_TRY(path_inside(a->f->ctx, a->draft.draft, "average.json", path));
  json_writer w = json_writer_text(a->f->ctx);
  json_indent(&w, true);
  json_open(&w, '{');
  json_member(&w, "steps");
  json_open(&w, '[');
  for (int i = 0; i < a->n; i++) json_put_integer(&w, (int64_t)a->steps[i]);
  json_close(&w, ']');
  json_member_number(&w, "valid", valid);
  json_member_number(&w, "perplexity", exp(valid));
  json_close(&w, '}');
  return json_write(&w, path);
}

static attend_status write_average(averaging *a) {
  attend_fit *f = a->f;
  char path[LONGEST_PATH];
  attend_stored stored = f->o.stored ? f->o.stored : ATTEND_STORED_F32;
  ATTEND_TRY(path_inside(f->ctx, a->draft.draft, "model.safetensors", path));
  ATTEND_TRY(each_beside(f->ctx, f->base, put_beside, a));
  ATTEND_TRY(attend_trainer_save(f->trainer, path, stored));
  return write_notes(a);
}

static attend_status save_average(averaging *a) {
  attend_fit *f = a->f;
  char path[LONGEST_PATH];
  ATTEND_TRY(path_inside(f->ctx, f->folder, "average", path));
  ATTEND_TRY(folder_draft_open(f->ctx, path, &a->draft));
  attend_status status = write_average(a);
  if (!status) return folder_draft_keep(&a->draft);
  folder_draft_drop(&a->draft);
  return status;
}

/* The trainer has the mean afterwards. */
static attend_status load_mean(averaging *a) {
  attend_fit *f = a->f;
  typedef char path[LONGEST_PATH];
  const char **folders;
  path *paths;
  ATTEND_TRY(ctx_alloc(f->ctx, (size_t)a->n * (sizeof *paths + sizeof *folders),
                       "the names of checkpoints", &paths));
  folders = (const char **)(paths + a->n);
  attend_status status = ATTEND_OK;
  for (int i = 0; i < a->n && !status; i++) {
    folders[i] = paths[i];
    status = step_path(f->ctx, f->folder, a->steps[i], NULL, paths[i]);
    if (!status) status = attend_training_verify(f->ctx, paths[i]);
  }
  if (!status) status = attend_trainer_average(f->trainer, a->n, folders);
  ctx_free(f->ctx, paths);
  return status;
}

static attend_status average_steps(attend_fit *f, const uint64_t *steps, size_t count) {
  /* Step 0 has learnt nothing yet. */
  size_t first = count && !steps[0] ? 1 : 0, n = count - first;
  if (n > (size_t)f->o.average) n = (size_t)f->o.average;
  averaging a = {.f = f, .steps = steps + count - n, .n = (int)n};
  if (n < 2)
    return fail(f->ctx, ATTEND_INVALID,
                "%.300s has %zu saved step%s to take the mean of, and two are "
                "needed: save more often",
                f->folder, n, n == 1 ? "" : "s");
  ATTEND_TRY(load_mean(&a));
  if (f->o.valid) ATTEND_TRY(evaluate(f, &f->result.average_valid));
  ATTEND_TRY(save_average(&a));
  f->result.averaged = a.n;
  f->result.average_first = a.steps[0];
  f->result.average_last = a.steps[a.n - 1];
  return ATTEND_OK;
}

/* Made from the folder, so that a run that ended long ago can have one too. */
static attend_status average(attend_fit *f) {
  uint64_t *steps;
  size_t count;
  ATTEND_TRY(steps_saved(f->ctx, f->folder, false, &steps, &count));
  attend_status status = average_steps(f, steps, count);
  ctx_free(f->ctx, steps);
  return status;
}

/* ---- the whole --------------------------------------------------------------------------------------- */

static bool is_saved(const attend_fit *f) {
  uint64_t step;
  return linked_step(f->folder, "last", &step) && step == now_at(f);
}

static void fill_result(const attend_fit *f, attend_fit_result *result) {
  const tally *t = &f->tally;
  *result = f->result;
  result->steps = now_at(f);
  result->tokens = t->tokens;
  result->seconds = seconds_in_all(f);
  result->loss = f->log.loss;
  result->best = f->o.valid ? t->best : NAN;
  result->best_step = t->best_step;
  result->worse = t->worse;
  result->stopped_early = t->ended;
  result->bytes = bytes_held(f);
}

attend_status attend_fit_run(attend_fit *f, attend_fit_result *result) {
  *result = (attend_fit_result){0};
  ATTEND_CHECK(f->ctx, f->training && f->log.file, "attend_fit_begin comes before attend_fit_run");
  f->started = seconds_now();
  f->pace = (pace){.first = f->tally.tokens};
  if (!f->resumes) ATTEND_TRY(after_step(f, false));
  ATTEND_TRY(take_steps(f));
  const bool stopped = !is_done(f);
  if (stopped && !is_saved(f)) ATTEND_TRY(save(f, false));
  if (!stopped && f->o.average) ATTEND_TRY(average(f));
  fill_result(f, result);
  if (!stopped) return ATTEND_OK;
  return fail(f->ctx, ATTEND_STOPPED,
              "the training run was stopped after step %llu: it can be resumed",
              (unsigned long long)now_at(f));
}

/* ---- all in one call ------------------------------------------------------------------- */

typedef struct {
  attend_fit *fit;
  attend_checkpoint *files;
  attend_trainer *trainer;
  attend_optimizer *optimizer;
} parts;

static attend_status open_parts(attend_context *ctx, const char *model,
                                const attend_trainer_options *trainer,
                                const attend_optimizer_options *optimizer, parts *p) {
  const char *from = attend_fit_checkpoint(p->fit);
  ATTEND_TRY(attend_checkpoint_open(ctx, from ? from : model, &p->files));
  ATTEND_TRY(attend_trainer_create(p->files, trainer, &p->trainer));
  return attend_optimizer_create(p->trainer, optimizer, &p->optimizer);
}

attend_status attend_fit_model(attend_context *ctx, const char *folder, const char *model,
                               const attend_trainer_options *trainer,
                               const attend_optimizer_options *optimizer, attend_batches *batches,
                               const attend_fit_options *options, attend_fit_result *result) {
  parts p = {0};
  attend_fit_options o;
  *result = (attend_fit_result){0};
  ATTEND_TRY(OPTIONS_READ(ctx, attend_fit_options, options, &o));
  if (!o.base) o.base = model;
  attend_status status = attend_fit_open(ctx, folder, ATTEND_FIT_RESUME, 0, &p.fit);
  if (!status) status = open_parts(ctx, model, trainer, optimizer, &p);
  if (!status) status = attend_fit_begin(p.fit, p.trainer, p.optimizer, batches, &o);
  if (!status) status = attend_fit_run(p.fit, result);
  attend_fit_free(p.fit);
  attend_optimizer_free(p.optimizer);
  attend_trainer_free(p.trainer);
  attend_checkpoint_free(p.files);
  return status;
}
