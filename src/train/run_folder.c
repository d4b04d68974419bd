/* The folder of a training run: its lock, its checkpoints, the links to them, and the log.
 *
 * A checkpoint exists once its folder has its name; it can be resumed as long as
 * training.json is in it.
 */
#include "train/run_folder.h"

#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- checkpoints ------------------------------------------------------------------- */

void step_name(uint64_t step, char name[STEP_NAME]) {
  snprintf(name, STEP_NAME, "step-%08llu", (unsigned long long)step);
}

static bool is_step(const char *name, uint64_t *step) {
  if (strncmp(name, "step-", 5)) return false;
  size_t digits = strspn(name + 5, "0123456789");
  if (digits < 8 || digits > 18 || name[5 + digits]) return false;
  *step = strtoull(name + 5, NULL, 10);
  return true;
}

attend_status step_path(attend_context *ctx, const char *folder, uint64_t step, const char *file,
                        char path[LONGEST_PATH]) {
  char name[STEP_NAME + 64];
  step_name(step, name);
  if (file) snprintf(name + strlen(name), 64, "/%s", file);
  return path_inside(ctx, folder, name, path);
}

static bool has_state(attend_context *ctx, const char *folder, uint64_t step) {
  char path[LONGEST_PATH], file[LONGEST_PATH];
  return !step_path(ctx, folder, step, NULL, path) &&
         file_beside(path, "training.json", file, sizeof file);
}

static int by_number(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

attend_status steps_saved(attend_context *ctx, const char *folder, bool resumable, uint64_t **steps,
                          size_t *count) {
  size_t capacity = 0;
  uint64_t step;
  attend_status status = ATTEND_OK;
  DIR *dir = opendir(folder);
  *steps = NULL;
  *count = 0;
  for (struct dirent *e; !status && dir && (e = readdir(dir));) {
    if (!is_step(e->d_name, &step)) continue;
    if (resumable && !has_state(ctx, folder, step)) continue;
    status = grow(ctx, steps, &capacity, *count + 1, sizeof **steps, "steps");
    if (!status) (*steps)[(*count)++] = step;
  }
  if (dir) closedir(dir);
  if (*count) qsort(*steps, *count, sizeof **steps, by_number);
  if (!status) return ATTEND_OK;
  ctx_free(ctx, *steps);
  *steps = NULL;
  *count = 0;
  return status;
}

/* ---- links -------------------------------------------------------------------------- */

attend_status link_step(attend_context *ctx, const char *folder, const char *name, uint64_t step) {
  char target[STEP_NAME], hidden[STEP_NAME], link[LONGEST_PATH], fresh[LONGEST_PATH];
  step_name(step, target);
  snprintf(hidden, sizeof hidden, ".%s.new", name);
  ATTEND_TRY(path_inside(ctx, folder, name, link));
  ATTEND_TRY(path_inside(ctx, folder, hidden, fresh));
  unlink(fresh);
  if (!symlink(target, fresh) && !rename(fresh, link)) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "the link %.300s cannot be made: %s", link, strerror(errno));
}

bool linked_step(const char *folder, const char *name, uint64_t *step) {
  char target[STEP_NAME], link[LONGEST_PATH];
  int length = snprintf(link, sizeof link, "%s/%s", folder, name);
  if (length < 0 || length >= LONGEST_PATH) return false;
  ssize_t n = readlink(link, target, sizeof target - 1);
  if (n <= 0) return false;
  target[n] = 0;
  return is_step(target, step);
}

static attend_status repair_link(attend_context *ctx, const char *folder, const char *name,
                                 uint64_t step) {
  uint64_t at;
  if (linked_step(folder, name, &at) && at == step) return ATTEND_OK;
  return link_step(ctx, folder, name, step);
}

attend_status repair_links(attend_context *ctx, const char *folder, uint64_t last, bool has_best,
                           uint64_t best) {
  char path[LONGEST_PATH];
  ATTEND_TRY(repair_link(ctx, folder, "last", last));
  ATTEND_TRY(step_path(ctx, folder, best, NULL, path));
  if (!has_best || access(path, F_OK)) return ATTEND_OK;
  return repair_link(ctx, folder, "best", best);
}

/* ---- removing ------------------------------------------------------------------------ */

/* training.json goes first: without it the rest of the state does not count. */
static attend_status drop_state(attend_context *ctx, const char *folder, uint64_t step) {
  static const char *const files[] = {"training.json", "training.safetensors"};
  for (int i = 0; i < 2; i++) {
    char path[LONGEST_PATH];
    ATTEND_TRY(step_path(ctx, folder, step, files[i], path));
    unlink(path);
  }
  return ATTEND_OK;
}

/* Renamed first, so that a partly removed checkpoint never has a step's name. */
static attend_status drop_step(attend_context *ctx, const char *folder, uint64_t step) {
  char path[LONGEST_PATH], away[LONGEST_PATH];
  ATTEND_TRY(step_path(ctx, folder, step, NULL, path));
  ATTEND_TRY(path_inside(ctx, folder, ".gone.part", away));
  folder_remove(away);
  if (!rename(path, away)) folder_remove(away);
  return ATTEND_OK;
}

attend_status drop_later(attend_context *ctx, const char *folder, uint64_t last) {
  char link[LONGEST_PATH];
  uint64_t *steps, best;
  size_t count;
  ATTEND_TRY(path_inside(ctx, folder, "best", link));
  ATTEND_TRY(steps_saved(ctx, folder, false, &steps, &count));
  attend_status status = ATTEND_OK;
  if (linked_step(folder, "best", &best) && best > last) unlink(link);
  for (size_t i = 0; !status && i < count; i++)
    if (steps[i] > last) status = drop_step(ctx, folder, steps[i]);
  ctx_free(ctx, steps);
  return status;
}

/* Two checkpoints keep their state, so that damage to the last does not end the run. */
attend_status thin_steps(attend_context *ctx, const char *folder, uint64_t newest, uint64_t keep) {
  uint64_t *steps, best = newest, others = 0;
  size_t count;
  ATTEND_TRY(steps_saved(ctx, folder, false, &steps, &count));
  attend_status status = ATTEND_OK;
  linked_step(folder, "best", &best);
  for (size_t i = 0; !status && i + 1 < count && steps[i + 1] < newest; i++)
    status = drop_state(ctx, folder, steps[i]);
  for (size_t i = count; !status && keep > 0 && i-- > 1;) {
    if (steps[i] == best || steps[i] == newest) continue;
    if (++others > keep) status = drop_step(ctx, folder, steps[i]);
  }
  ctx_free(ctx, steps);
  return status;
}

/* ---- the lock ------------------------------------------------------------------------- */

/* Drafts of files and folders, and unfinished links: nothing else in the folder of a
 * run has such a name. */
static bool is_leftover(const char *name) {
  return name_ends(name, ".part") || name_ends(name, ".part.old") || !strcmp(name, ".best.new") ||
         !strcmp(name, ".last.new");
}

static attend_status clear_leftovers(attend_context *ctx, const char *folder) {
  attend_status status = ATTEND_OK;
  char path[LONGEST_PATH];
  DIR *dir = opendir(folder);
  for (struct dirent *e; !status && dir && (e = readdir(dir));) {
    if (!is_leftover(e->d_name)) continue;
    status = path_inside(ctx, folder, e->d_name, path);
    if (!status) folder_remove(path);
  }
  if (dir) closedir(dir);
  return status;
}

static int give_up(void *user) {
  (void)user;
  return 1;
}

attend_status lock_run(attend_context *ctx, const char *folder, int *lock) {
  char path[LONGEST_PATH];
  *lock = -1;
  ATTEND_TRY(path_inside(ctx, folder, ".lock", path));
  attend_status status = lock_take(ctx, path, give_up, NULL, lock);
  if (status == ATTEND_STOPPED)
    return fail(ctx, ATTEND_IO,
                "%.300s is in use by another training: wait for it, or choose another folder",
                folder);
  return status ? status : clear_leftovers(ctx, folder);
}

/* ---- the log --------------------------------------------------------------------------
 *
 * Every line but perhaps the last is whole; lines of steps that a run goes back before are
 * removed. */

/* *good: the line is whole and not of a later step. */
static attend_status check_line(run_log *log, const char *line, size_t n, uint64_t step,
                                bool *good) {
  attend_json *json;
  int64_t at;
  attend_status status = attend_json_parse(log->ctx, "log.jsonl", line, n, &json);
  *good = false;
  if (status) return status == ATTEND_NO_MEMORY ? status : ATTEND_OK;
  *good =
      attend_json_integer(attend_json_get(json, "step"), &at) && at >= 0 && (uint64_t)at <= step;
  double loss = attend_json_number(attend_json_get(json, "loss"), NAN);
  if (*good && !isnan(loss)) log->loss = loss;
  attend_json_free(json);
  return ATTEND_OK;
}

/* *bytes: how much of the log stays. */
static attend_status check_lines(run_log *log, const char *text, size_t length, uint64_t step,
                                 size_t *bytes) {
  const char *end;
  bool good = true;
  *bytes = 0;
  while ((end = memchr(text + *bytes, '\n', length - *bytes))) {
    size_t n = (size_t)(end - (text + *bytes));
    ATTEND_TRY(check_line(log, text + *bytes, n, step, &good));
    if (!good) break;
    *bytes += n + 1;
  }
  return ATTEND_OK;
}

static attend_status cut_log(run_log *log, uint64_t step) {
  char *text;
  size_t length, good;
  if (access(log->path, F_OK)) return ATTEND_OK;
  ATTEND_TRY(file_read(log->ctx, log->path, &text, &length));
  attend_status status = check_lines(log, text, length, step, &good);
  if (!status && good < length) status = attend_file_write(log->ctx, log->path, text, good);
  ctx_free(log->ctx, text);
  return status;
}

attend_status run_log_open(attend_context *ctx, const char *folder, bool resumes, uint64_t step,
                           run_log *log) {
  *log = (run_log){.ctx = ctx, .loss = NAN};
  ATTEND_TRY(path_inside(ctx, folder, "log.jsonl", log->path));
  if (resumes) ATTEND_TRY(cut_log(log, step));
  log->file = fopen(log->path, resumes ? "abe" : "wbe");
  if (log->file) return ATTEND_OK;
  return fail(ctx, ATTEND_IO, "%.300s cannot be opened for writing: %s", log->path,
              strerror(errno));
}

void run_log_close(run_log *log) {
  if (log->file) fclose(log->file);
  log->file = NULL;
}

static json_writer line_of(run_log *log, uint64_t step) {
  json_writer w = json_writer_text(log->ctx);
  json_open(&w, '{');
  json_member_integer(&w, "step", (int64_t)step);
  return w;
}

static attend_status put_line(run_log *log, json_writer *w) {
  json_close(w, '}');
  attend_status status = json_finish(w);
  if (!status && (fwrite(w->text, 1, w->length, log->file) != w->length || fflush(log->file)))
    status = fail(log->ctx, ATTEND_IO, "%.300s cannot be written: the disk may be full", log->path);
  json_writer_free(w);
  return status;
}

attend_status run_log_step(run_log *log, const log_line *line) {
  json_writer w = line_of(log, line->step);
  json_member_number(&w, "loss", line->loss);
  json_member_number(&w, "rate", line->rate);
  json_member_number(&w, "norm", line->norm);
  json_member_number(&w, "tokens", line->tokens);
  json_member_number(&w, "seconds", line->seconds);
  json_member_number(&w, "tokens_per_s", line->speed);
  json_member_number(&w, "step_s", line->step_s);
  json_member_number(&w, "bytes", line->bytes);
  log->loss = line->loss;
  return put_line(log, &w);
}

attend_status run_log_valid(run_log *log, uint64_t step, double loss, bool best) {
  json_writer w = line_of(log, step);
  json_member_number(&w, "valid", loss);
  json_member_number(&w, "perplexity", exp(loss));
  json_member_boolean(&w, "best", best);
  return put_line(log, &w);
}

/* File systems that cannot sync are no failure, full ones are. */
attend_status run_log_sync(run_log *log) {
  if (!fsync(fileno(log->file)) || errno == EINVAL) return ATTEND_OK;
  return fail(log->ctx, ATTEND_IO, "%.300s cannot be written: %s", log->path, strerror(errno));
}
