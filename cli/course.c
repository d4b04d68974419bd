/* A course of training on disk: which steps are saved, and what the log says.
 *
 * Place: cli/ - see course.h. It may be looked at while it is written: a line of
 * the log that does not end yet is left for the next time.
 */
#include "course.h"

#include <dirent.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "folders.h"

/* ---- steps ------------------------------------------------------------------------ */

/* "step-00000500" -> 500; -1: another name. */
static int step_of(const char *name) {
  const char *digits = name + 5;
  if (strncmp(name, "step-", 5)) return -1;
  size_t n = strspn(digits, "0123456789");
  if (!n || n > 12 || digits[n]) return -1;
  long long step = strtoll(digits, NULL, 10);
  return step <= INT_MAX ? (int)step : -1;
}

static int by_step(const void *a, const void *b) {
  int x = ((const course_step *)a)->step, y = ((const course_step *)b)->step;
  return (x > y) - (x < y);
}

static void add_step(course *c, int *room, const char *name) {
  int step = step_of(name);
  char *path = path_of("%s/%s", c->path, name);
  bool whole = step >= 0 && is_folder(path);
  free(path);
  if (!whole) return;
  if (c->count == *room) {
    course_step *more = need((size_t)(*room = 2 * *room + 16), sizeof *more);
    if (c->count) memcpy(more, c->steps, (size_t)c->count * sizeof *more);
    free(c->steps);
    c->steps = more;
  }
  course_step *s = &c->steps[c->count++];
  s->step = step;
  snprintf(s->name, sizeof s->name, "%.20s", name); /* digits: 12 at most */
}

/* The step that a link names, if it is there; else -1. */
static int linked(const course *c, const char *name) {
  char to[4096], *path = path_of("%s/%s", c->path, name);
  ssize_t n = readlink(path, to, sizeof to - 1);
  free(path);
  if (n <= 0) return -1;
  to[n] = 0;
  while (n > 1 && to[n - 1] == '/') to[--n] = 0;
  const char *slash = strrchr(to, '/');
  int step = step_of(slash ? slash + 1 : to);
  return course_find(c, step) < 0 ? -1 : step;
}

static bool look_at_steps(course *c) {
  DIR *folder = opendir(c->path);
  int room = 0;
  free(c->steps);
  c->steps = NULL;
  c->count = 0;
  if (!folder) return false;
  for (struct dirent *e; (e = readdir(folder));) add_step(c, &room, e->d_name);
  closedir(folder);
  if (!c->count) return true;
  qsort(c->steps, (size_t)c->count, sizeof *c->steps, by_step);
  c->best = linked(c, "best");
  c->last = linked(c, "last");
  if (c->last < 0) c->last = c->steps[c->count - 1].step;
  return true;
}

int course_find(const course *c, int step) {
  for (int i = 0; i < c->count; i++)
    if (c->steps[i].step == step) return i;
  return -1;
}

char *course_folder(const course *c, int step) {
  int at = course_find(c, step);
  return at < 0 ? NULL : path_of("%s/%s", c->path, c->steps[at].name);
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
static void add_point(course_curve *curve, double step, double loss) {
  while (curve->count && curve->at[curve->count - 1].step >= step)
    curve->count--;
  if (curve->count == curve->room) {
    curve->room = 2 * curve->room + 256;
    course_point *more = need(curve->room, sizeof *more);
    if (curve->count) memcpy(more, curve->at, curve->count * sizeof *more);
    free(curve->at);
    curve->at = more;
  }
  curve->at[curve->count++] = (course_point){step, loss};
}

/* What is not a line about a step says nothing here. */
static void read_line(attend_context *ctx, course *c, const char *line,
                      size_t length) {
  attend_json *root;
  if (attend_json_parse(ctx, "a line of the log", line, length, &root)) return;
  double step = attend_json_number(attend_json_get(root, "step"), NAN);
  double loss = attend_json_number(attend_json_get(root, "loss"), NAN);
  double valid = attend_json_number(attend_json_get(root, "valid"), NAN);
  if (isfinite(step) && isfinite(loss)) add_point(&c->loss, step, loss);
  if (isfinite(step) && isfinite(valid)) add_point(&c->valid, step, valid);
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

static double loss_at(const course_curve *curve, int step) {
  for (size_t i = curve->count; i-- > 0;)
    if (curve->at[i].step <= step)
      return curve->at[i].step == step ? curve->at[i].loss : NAN;
  return NAN;
}

double course_loss(const course *c, int step) {
  double valid = loss_at(&c->valid, step);
  return isnan(valid) ? loss_at(&c->loss, step) : valid;
}

/* ---- the whole ---------------------------------------------------------------------- */

bool course_look(attend_context *ctx, course *c) {
  if (!look_at_steps(c) || !c->count) return false;
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

course *course_open(attend_context *ctx, const char *path, int *code) {
  course *c = need(1, sizeof *c);
  c->path = need_copy(path);
  c->best = -1;
  *code = EXIT_OK;
  if (course_look(ctx, c)) return c;
  why_none(c);
  course_close(c);
  *code = EXIT_FAILED;
  return NULL;
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
      c->path, word, c->count, c->steps[0].step, c->steps[c->count - 1].step);
  return false;
}
