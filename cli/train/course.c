/* A course of training on disk: which steps are saved, and what the log says.
 *
 * It may be looked at while it is written: a line of the log that does not end yet is
 * left for the next time.
 */
#include "train/course.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "folders.h"
#include "train/train.h"

/* ---- steps ------------------------------------------------------------------------ */

/* The step that a link names, if it is there; else -1. */
static int linked(const course *c, const char *name) {
  uint64_t step;
  if (!linked_step(c->path, name, &step) || step > INT_MAX) return -1;
  return course_find(c, (int)step) < 0 ? -1 : (int)step;
}

static bool look_at_steps(course *c) {
  uint64_t *saved;
  size_t n = steps_saved(c->path, false, &saved);
  free(c->steps);
  c->steps = need(n, sizeof *c->steps);
  c->count = 0;
  for (size_t i = 0; i < n && saved[i] <= INT_MAX; i++)
    c->steps[c->count++] = (int)saved[i];
  free(saved);
  if (!c->count) return false;
  c->best = linked(c, "best");
  c->last = linked(c, "last");
  if (c->last < 0) c->last = c->steps[c->count - 1];
  return true;
}

int course_find(const course *c, int step) {
  for (int i = 0; i < c->count; i++)
    if (c->steps[i] == step) return i;
  return -1;
}

char *course_folder(const course *c, int step) {
  char name[STEP_NAME];
  if (course_find(c, step) < 0) return NULL;
  step_name((uint64_t)step, name);
  return path_of("%s/%s", c->path, name);
}

int course_some(const course *c, int n, int *places) {
  if (n > c->count) n = c->count;
  for (int i = 0; i < n; i++)
    places[i] =
        n == 1 ? c->count - 1 : (int)((int64_t)i * (c->count - 1) / (n - 1));
  return n;
}

/* ---- the log ----------------------------------------------------------------------- */

/* A course that went on from an earlier step writes some steps again. */
static void add_point(course_curve *list, const course_point *point) {
  if (!isfinite(point->step) || !isfinite(point->loss)) return;
  while (list->count && list->at[list->count - 1].step >= point->step)
    list->count--;
  if (list->count == list->room) {
    list->room = 2 * list->room + 256;
    course_point *more = need(list->room, sizeof *more);
    if (list->count) memcpy(more, list->at, list->count * sizeof *more);
    free(list->at);
    list->at = more;
  }
  list->at[list->count++] = *point;
}

static double member(const attend_json *line, const char *name) {
  return attend_json_number(attend_json_get(line, name), NAN);
}

/* What is not a line about a step says nothing here. */
static void read_line(attend_context *ctx, course *c, const char *line,
                      size_t length) {
  attend_json *root;
  if (attend_json_parse(ctx, "a line of the log", line, length, &root)) return;
  course_point point = {.step = member(root, "step"),
                        .loss = member(root, "loss"),
                        .seconds = member(root, "seconds"),
                        .step_s = member(root, "step_s"),
                        .speed = member(root, "tokens_per_s"),
                        .bytes = member(root, "bytes")};
  add_point(&c->loss, &point);
  point.loss = member(root, "valid");
  add_point(&c->valid, &point);
  attend_json_free(root);
}

static void read_lines(attend_context *ctx, course *c, const char *text,
                       size_t length) {
  const char *end;
  for (const char *at = text;
       (end = memchr(at, '\n', length - (size_t)(at - text))); at = end + 1) {
    read_line(ctx, c, at, (size_t)(end - at));
    c->read += end + 1 - at;
  }
}

static void look_at_log(attend_context *ctx, course *c) {
  char *path = path_of("%s/log.jsonl", c->path);
  int64_t bytes = file_bytes(path);
  if (bytes < c->read) { /* it was begun anew */
    c->read = 0;
    c->loss.count = c->valid.count = 0;
  }
  FILE *log = bytes > c->read ? fopen(path, "rb") : NULL;
  free(path);
  if (!log) return;
  char *text = need((size_t)(bytes - c->read), 1);
  size_t n = 0;
  if (!fseeko(log, (off_t)c->read, SEEK_SET))
    n = fread(text, 1, (size_t)(bytes - c->read), log);
  fclose(log);
  read_lines(ctx, c, text, n);
  free(text);
}

static double loss_at(const course_curve *list, int step) {
  for (size_t i = list->count; i-- > 0;)
    if (list->at[i].step <= step)
      return list->at[i].step == step ? list->at[i].loss : NAN;
  return NAN;
}

double course_loss(const course *c, int step) {
  double valid = loss_at(&c->valid, step);
  return isnan(valid) ? loss_at(&c->loss, step) : valid;
}

/* ---- the whole ---------------------------------------------------------------------- */

bool course_look(attend_context *ctx, course *c) {
  if (!look_at_steps(c)) return false;
  look_at_log(ctx, c);
  return true;
}

static void why_none(const course *c) {
  char *config = path_of("%s/config.json", c->path);
  if (!is_folder(c->path))
    complain("\"%s\" is no folder: name what attend train --out made", c->path);
  else if (file_bytes(config) >= 0)
    complain("\"%s\" is a model, not a run: look at it with --model", c->path);
  else
    complain(
        "\"%s\" has no saved step (step-00000000, ..): name the folder that "
        "attend train --out makes, or wait for its first step",
        c->path);
  free(config);
}

static course *open_course(attend_context *ctx, const char *path, bool log,
                           int *code) {
  course *c = need(1, sizeof *c);
  c->path = need_copy(path);
  c->best = -1;
  *code = EXIT_OK;
  if (course_look(ctx, c)) return c;
  if (log) look_at_log(ctx, c);
  if (c->loss.count || c->valid.count) return c;
  why_none(c);
  course_close(c);
  *code = EXIT_FAILED;
  return NULL;
}

course *course_open(attend_context *ctx, const char *path, int *code) {
  return open_course(ctx, path, false, code);
}

course *course_open_log(attend_context *ctx, const char *path, int *code) {
  return open_course(ctx, path, true, code);
}

void course_close(course *c) {
  if (!c) return;
  free(c->path);
  free(c->steps);
  free(c->loss.at);
  free(c->valid.at);
  free(c);
}

bool course_choose(const course *c, const char *word, int *step) {
  bool best = !strcmp(word, "best");
  *step = best ? c->best : !strcmp(word, "last") ? c->last : -2;
  if (best && c->best < 0) {
    complain(
        "the run \"%s\" does not say which step is the best: name one by "
        "its number, or last",
        c->path);
    return false;
  }
  if (*step >= 0) return true;
  char *end;
  long number = strtol(word, &end, 10);
  *step = end != word && !*end && number >= 0 && number <= INT_MAX ? (int)number
                                                                   : -1;
  if (course_find(c, *step) >= 0) return true;
  complain(
      "the run \"%s\" has no step \"%s\": its %d steps go from %d to %d, "
      "or say best or last",
      c->path, word, c->count, c->steps[0], c->steps[c->count - 1]);
  return false;
}
