/* Reading a training run: its checkpoints and its log.
 *
 * The run may be training meanwhile: a last line of the log without its end is left for
 * the next time.
 */
#include "attend/train.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "train/run_folder.h"

typedef struct {
  attend_log_point *at;
  size_t capacity;
  attend_log_curve is;
} curve;

struct attend_training_run {
  attend_context *ctx;
  char path[LONGEST_PATH];
  int *steps; /* [count], rising */
  int count, best, last;
  curve loss, valid;
  int64_t read; /* bytes of the log so far */
};

/* ---- checkpoints ----------------------------------------------------------------------- */

/* The step that a link leads to, if it is saved; else -1. */
static int linked(const attend_training_run *run, const char *name) {
  uint64_t step;
  if (!linked_step(run->path, name, &step) || step > INT_MAX) return -1;
  return attend_training_run_find(run, (int)step) < 0 ? -1 : (int)step;
}

static attend_status read_steps(attend_training_run *run) {
  uint64_t *saved;
  size_t n;
  int *steps;
  ATTEND_TRY(steps_saved(run->ctx, run->path, false, &saved, &n));
  attend_status status = ctx_alloc(run->ctx, n * sizeof *steps, "steps", &steps);
  if (!status) {
    ctx_free(run->ctx, run->steps);
    run->steps = steps;
    run->count = 0;
    for (size_t i = 0; i < n && saved[i] <= INT_MAX; i++) steps[run->count++] = (int)saved[i];
    run->best = linked(run, "best");
    run->last = linked(run, "last");
    if (run->last < 0 && run->count) run->last = steps[run->count - 1];
  }
  ctx_free(run->ctx, saved);
  return status;
}

const char *attend_training_run_path(const attend_training_run *run) { return run->path; }

const int *attend_training_run_steps(const attend_training_run *run, int *count) {
  *count = run->count;
  return run->steps;
}

int attend_training_run_best(const attend_training_run *run) { return run->best; }

int attend_training_run_last(const attend_training_run *run) { return run->last; }

int attend_training_run_find(const attend_training_run *run, int step) {
  for (int i = 0; i < run->count; i++)
    if (run->steps[i] == step) return i;
  return -1;
}

static attend_status no_step(attend_training_run *run, const char *word) {
  ATTEND_CHECK(run->ctx, run->count, "the run \"%.300s\" has no saved step", run->path);
  return fail(run->ctx, ATTEND_INVALID,
              "the run \"%.300s\" has no step \"%.40s\": its %d steps go from "
              "%d to %d, or say best or last",
              run->path, word, run->count, run->steps[0], run->steps[run->count - 1]);
}

attend_status attend_training_run_choose(attend_training_run *run, const char *word, int *step) {
  bool best = !strcmp(word, "best"), last = !strcmp(word, "last");
  char *end;
  *step = best ? run->best : last ? run->last : -1;
  ATTEND_CHECK(run->ctx, !best || *step >= 0,
               "the run \"%.300s\" does not say which step is the best: name "
               "one by its number, or last",
               run->path);
  if (*step >= 0) return ATTEND_OK;
  long number = strtol(word, &end, 10);
  bool is_number = end != word && !*end && number >= 0 && number <= INT_MAX;
  if (!is_number || attend_training_run_find(run, (int)number) < 0) return no_step(run, word);
  *step = (int)number;
  return ATTEND_OK;
}

attend_status attend_training_run_folder(attend_training_run *run, int step,
                                         char path[ATTEND_RUN_PATH]) {
  char word[16];
  snprintf(word, sizeof word, "%d", step);
  if (attend_training_run_find(run, step) < 0) return no_step(run, word);
  return step_path(run->ctx, run->path, (uint64_t)step, NULL, path);
}

/* ---- the log ------------------------------------------------------------------------------ */

/* A run that resumed from an earlier step logs some steps again. */
static attend_status add_point(attend_training_run *run, curve *c, const attend_log_point *point) {
  if (!isfinite(point->step) || !isfinite(point->loss)) return ATTEND_OK;
  while (c->is.count && c->at[c->is.count - 1].step >= point->step) c->is.count--;
  ATTEND_TRY(
      grow(run->ctx, &c->at, &c->capacity, c->is.count + 1, sizeof *c->at, "lines of a log"));
  c->is.at = c->at;
  c->at[c->is.count++] = *point;
  return ATTEND_OK;
}

static double member(const attend_json *line, const char *name) {
  return attend_json_number(attend_json_get(line, name), NAN);
}

/* Lines that are not about a step are ignored. */
static attend_status read_line(attend_training_run *run, const char *line, size_t length) {
  attend_json *root;
  attend_status status = attend_json_parse(run->ctx, "a line of the log", line, length, &root);
  if (status) return status == ATTEND_NO_MEMORY ? status : ATTEND_OK;
  attend_log_point point = {.step = member(root, "step"),
                            .loss = member(root, "loss"),
                            .seconds = member(root, "seconds"),
                            .step_s = member(root, "step_s"),
                            .speed = member(root, "tokens_per_s"),
                            .bytes = member(root, "bytes")};
  status = add_point(run, &run->loss, &point);
  point.loss = member(root, "valid");
  if (!status) status = add_point(run, &run->valid, &point);
  attend_json_free(root);
  return status;
}

static attend_status read_lines(attend_training_run *run, const char *text, size_t length) {
  const char *end;
  for (const char *at = text; (end = memchr(at, '\n', length - (size_t)(at - text)));
       at = end + 1) {
    ATTEND_TRY(read_line(run, at, (size_t)(end - at)));
    run->read += end + 1 - at;
  }
  return ATTEND_OK;
}

static int64_t bytes_of(const char *path) {
  struct stat info;
  return !stat(path, &info) && S_ISREG(info.st_mode) ? (int64_t)info.st_size : -1;
}

static attend_status read_log(attend_training_run *run) {
  char path[LONGEST_PATH], *text;
  ATTEND_TRY(path_inside(run->ctx, run->path, "log.jsonl", path));
  int64_t bytes = bytes_of(path);
  if (bytes < run->read) /* it was begun anew */
    run->read = 0, run->loss.is.count = run->valid.is.count = 0;
  if (bytes <= run->read) return ATTEND_OK;
  const size_t fresh = (size_t)(bytes - run->read);
  FILE *log = fopen(path, "rbe");
  if (!log) return ATTEND_OK;
  attend_status status = ctx_alloc(run->ctx, fresh, "a log", &text);
  if (!status && !fseeko(log, (off_t)run->read, SEEK_SET))
    status = read_lines(run, text, fread(text, 1, fresh, log));
  fclose(log);
  ctx_free(run->ctx, text);
  return status;
}

const attend_log_curve *attend_training_run_loss(const attend_training_run *run) {
  return &run->loss.is;
}

const attend_log_curve *attend_training_run_valid(const attend_training_run *run) {
  return &run->valid.is;
}

static double loss_at(const curve *c, int step) {
  for (size_t i = c->is.count; i-- > 0;)
    if (c->at[i].step <= step) return c->at[i].step == step ? c->at[i].loss : NAN;
  return NAN;
}

double attend_training_run_loss_at(const attend_training_run *run, int step) {
  double valid = loss_at(&run->valid, step);
  return isnan(valid) ? loss_at(&run->loss, step) : valid;
}

/* ---- the whole ------------------------------------------------------------------------- */

attend_status attend_training_run_refresh(attend_training_run *run) {
  ATTEND_TRY(read_steps(run));
  return read_log(run);
}

static attend_status check_found(attend_training_run *run) {
  char config[LONGEST_PATH];
  struct stat info;
  if (run->count || run->loss.is.count || run->valid.is.count) return ATTEND_OK;
  if (stat(run->path, &info) || !S_ISDIR(info.st_mode))
    return fail(run->ctx, ATTEND_IO, "\"%.300s\" is no folder: name one that attend train made",
                run->path);
  if (file_beside(run->path, "config.json", config, sizeof config))
    return fail(run->ctx, ATTEND_IO, "\"%.300s\" is a model, not a run: open it as a model",
                run->path);
  return fail(run->ctx, ATTEND_IO,
              "\"%.300s\" has no saved step (step-00000000, ..): name a folder "
              "that attend train made, or wait for its first step",
              run->path);
}

attend_status attend_training_run_open(attend_context *ctx, const char *folder,
                                       attend_training_run **run) {
  attend_training_run *r;
  *run = NULL;
  ATTEND_CHECK(ctx, strlen(folder) < LONGEST_PATH, "the name of a training run is too long");
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r, "a training run", &r));
  r->ctx = ctx;
  strcpy(r->path, folder);
  r->best = r->last = -1;
  attend_status status = attend_training_run_refresh(r);
  if (!status) status = check_found(r);
  if (status)
    attend_training_run_free(r);
  else
    *run = r;
  return status;
}

void attend_training_run_free(attend_training_run *run) {
  if (!run) return;
  ctx_free(run->ctx, run->steps);
  ctx_free(run->ctx, run->loss.at);
  ctx_free(run->ctx, run->valid.at);
  ctx_free(run->ctx, run);
}
