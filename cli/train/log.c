/* What happened: log.jsonl and loss.svg.
 *
 * A line of the log is whole or the last one; what a run says of steps that it goes
 * back behind is cut off.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attend/file.h"
#include "attend/plot.h"
#include "folders.h"
#include "input.h"
#include "json_members.h"
#include "progress.h"
#include "train/train.h"

static void curve_add(curve *c, double x, double y) {
  if (c->count == c->capacity) {
    c->capacity = 2 * c->capacity + 256;
    c->x = need_more(c->x, c->count, c->capacity, sizeof *c->x);
    c->y = need_more(c->y, c->count, c->capacity, sizeof *c->y);
  }
  c->x[c->count] = x;
  c->y[c->count++] = y;
}

/* ---- reading it again ------------------------------------------------------------ */

/* Takes a line up, if it is whole and not of a later step. */
static bool take_up(train_log *log, const char *line, size_t n, uint64_t step) {
  attend_json *json;
  int64_t at;
  if (attend_json_parse(log->ctx, "log.jsonl", line, n, &json)) return false;
  bool good = attend_json_integer(attend_json_get(json, "step"), &at) &&
              at >= 0 && (uint64_t)at <= step;
  double loss = attend_json_number(attend_json_get(json, "loss"), NAN);
  double valid = attend_json_number(attend_json_get(json, "valid"), NAN);
  if (good && !isnan(loss)) curve_add(&log->train, (double)at, loss);
  if (good && !isnan(valid)) curve_add(&log->valid, (double)at, valid);
  attend_json_free(json);
  return good;
}

/* The bytes of the log that hold. */
static size_t take_all(train_log *log, const char *text, size_t length,
                       uint64_t step) {
  size_t at = 0;
  while (at < length) {
    const char *end = memchr(text + at, '\n', length - at);
    if (!end) break;
    size_t n = (size_t)(end - (text + at));
    if (!take_up(log, text + at, n, step)) break;
    at += n + 1;
  }
  return at;
}

static attend_status read_log(train_log *log, uint64_t step) {
  int code = EXIT_OK;
  size_t length = 0;
  FILE *old = fopen(log->path, "rb");
  char *text = old ? input_all(old, log->path, &length, &code) : NULL;
  if (old) fclose(old);
  if (code) return ATTEND_IO;
  size_t good = text ? take_all(log, text, length, step) : 0;
  attend_status status =
      text && good < length ? attend_file_write(log->ctx, log->path, text, good)
                            : ATTEND_OK;
  free(text);
  return status;
}

attend_status log_open(attend_context *ctx, const char *out, bool goes_on,
                       uint64_t step, train_log *log) {
  *log = (train_log){.ctx = ctx,
                     .path = path_of("%s/log.jsonl", out),
                     .picture = path_of("%s/loss.svg", out)};
  attend_status status = goes_on ? read_log(log, step) : ATTEND_OK;
  if (!status) log->file = fopen(log->path, goes_on ? "ab" : "wb");
  if (!status && !log->file) {
    complain("%s cannot be opened for writing", log->path);
    return ATTEND_IO;
  }
  return status;
}

void log_close(train_log *log) {
  if (log->file) fclose(log->file);
  free(log->path);
  free(log->picture);
  free(log->train.x);
  free(log->train.y);
  free(log->valid.x);
  free(log->valid.y);
}

/* ---- writing ------------------------------------------------------------------------ */

static attend_status put_line(train_log *log, attend_json_writer *w) {
  attend_json_close(w, '}');
  attend_status status = attend_json_finish(w);
  if (!status && (fwrite(w->text, 1, w->length, log->file) != w->length ||
                  fflush(log->file))) {
    complain("%s cannot be written: the disk may be full", log->path);
    status = ATTEND_IO;
  }
  attend_json_writer_free(w);
  return status;
}

static attend_json_writer line_of(train_log *log, uint64_t step) {
  attend_json_writer w = attend_json_writer_text(log->ctx);
  attend_json_open(&w, '{');
  attend_json_member(&w, "step");
  attend_json_put_integer(&w, (int64_t)step);
  return w;
}

attend_status log_step(train_log *log, const log_line *line) {
  attend_json_writer w = line_of(log, line->step);
  json_number(&w, "loss", line->loss);
  json_number(&w, "rate", line->rate);
  json_number(&w, "norm", line->norm);
  json_number(&w, "tokens", line->tokens);
  json_number(&w, "seconds", line->seconds);
  json_number(&w, "tokens_per_s", line->speed);
  json_number(&w, "step_s", line->step_s);
  json_number(&w, "bytes", line->bytes);
  curve_add(&log->train, (double)line->step, line->loss);
  return put_line(log, &w);
}

attend_status log_valid(train_log *log, uint64_t step, double loss, bool best) {
  attend_json_writer w = line_of(log, step);
  json_number(&w, "valid", loss);
  json_number(&w, "perplexity", exp(loss));
  json_truth(&w, "best", best);
  curve_add(&log->valid, (double)step, loss);
  return put_line(log, &w);
}

/* File systems that cannot do it are no failure, full ones are. */
attend_status log_keep(train_log *log) {
  if (!fsync(fileno(log->file)) || errno == EINVAL) return ATTEND_OK;
  complain("%s cannot be written: %s", log->path, strerror(errno));
  return ATTEND_IO;
}

/* ---- the picture ----------------------------------------------------------------------- */

attend_status log_draw(train_log *log, bool now) {
  if (!now && seconds_now() - log->drawn < 2) return ATTEND_OK;
  if (!log->train.count && !log->valid.count) return ATTEND_OK;
  attend_plot_series series[] = {{.name = "training",
                                  .count = log->train.count,
                                  .x = log->train.x,
                                  .y = log->train.y},
                                 {.name = "validation",
                                  .count = log->valid.count,
                                  .x = log->valid.x,
                                  .y = log->valid.y,
                                  .points = 1}};
  attend_plot_panel panel = {.title = "Loss",
                             .x = {.label = "step"},
                             .y = {.label = "nats per token"},
                             .count = log->valid.count ? 2 : 1,
                             .series = series};
  attend_plot plot = {.count = 1, .panels = &panel};
  log->drawn = seconds_now();
  return attend_plot_save(log->ctx, &plot, log->picture);
}
