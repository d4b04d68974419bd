/* Writing log.jsonl, the log of a training run.
 *
 * Every line but perhaps the last is whole; lines of steps that a run goes back before
 * are removed.
 */
#include <errno.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

#include "train/run_folder.h"

/* ---- continuing it ------------------------------------------------------------------ */

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
  give(log->ctx, text);
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

/* ---- writing ------------------------------------------------------------------------- */

static attend_json_writer line_of(run_log *log, uint64_t step) {
  attend_json_writer w = attend_json_writer_text(log->ctx);
  attend_json_open(&w, '{');
  json_put_integer(&w, "step", (int64_t)step);
  return w;
}

static attend_status put_line(run_log *log, attend_json_writer *w) {
  attend_json_close(w, '}');
  attend_status status = attend_json_finish(w);
  if (!status && (fwrite(w->text, 1, w->length, log->file) != w->length || fflush(log->file)))
    status = fail(log->ctx, ATTEND_IO, "%.300s cannot be written: the disk may be full", log->path);
  attend_json_writer_free(w);
  return status;
}

attend_status run_log_step(run_log *log, const log_line *line) {
  attend_json_writer w = line_of(log, line->step);
  json_put_number(&w, "loss", line->loss);
  json_put_number(&w, "rate", line->rate);
  json_put_number(&w, "norm", line->norm);
  json_put_number(&w, "tokens", line->tokens);
  json_put_number(&w, "seconds", line->seconds);
  json_put_number(&w, "tokens_per_s", line->speed);
  json_put_number(&w, "step_s", line->step_s);
  json_put_number(&w, "bytes", line->bytes);
  log->loss = line->loss;
  return put_line(log, &w);
}

attend_status run_log_valid(run_log *log, uint64_t step, double loss, bool best) {
  attend_json_writer w = line_of(log, step);
  json_put_number(&w, "valid", loss);
  json_put_number(&w, "perplexity", exp(loss));
  json_put_truth(&w, "best", best);
  return put_line(log, &w);
}

/* File systems that cannot sync are no failure, full ones are. */
attend_status run_log_sync(run_log *log) {
  if (!fsync(fileno(log->file)) || errno == EINVAL) return ATTEND_OK;
  return fail(log->ctx, ATTEND_IO, "%.300s cannot be written: %s", log->path, strerror(errno));
}
