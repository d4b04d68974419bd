/* A course of training on disk: which steps are saved, and what the log says.
 *
 * The folder that `attend train --out` makes (train.h says what is in it), for verbs
 * that look at it, while it grows or later.
 */
#ifndef CLI_COURSE_H
#define CLI_COURSE_H

#include "cli.h"

typedef struct {
  double step, loss; /* of a token, in the mean */
  /* Of lines about learning, NaN where the log does not say: since the run began,
   * a step, tokens a second, memory. */
  double seconds, step_s, speed, bytes;
} course_point;

typedef struct {
  course_point *at;
  size_t count, room;
} course_curve;

typedef struct course {
  char *path;
  int *steps; /* rising */
  int count;
  int best, last; /* best -1: nobody says; last: the newest, unless the link
                     says otherwise */
  course_curve loss, valid;
  long long read; /* bytes of the log so far */
} course;

/* NULL after a complaint, with an exit code: no such folder, or no step yet. */
course *course_open(attend_context *ctx, const char *path, int *code);
/* The same for its log: one that is left of a run will do, and count may be 0. */
course *course_open_log(attend_context *ctx, const char *path, int *code);
void course_close(course *c); /* accepts NULL */
/* What is new since: steps come, and may go. False if none is there. */
bool course_look(attend_context *ctx, course *c);

/* The place of a step in the list, or -1. */
int course_find(const course *c, int step);
/* A step by its number, or "best" or "last"; false after a complaint. */
bool course_choose(const course *c, const char *word, int *step);
/* Where a step lies, to be freed; NULL if it is not there. */
char *course_folder(const course *c, int step);
/* What was measured at a step, else what the step itself lost; NaN: no line of
 * the log is about it. */
double course_loss(const course *c, int step);
/* Places in the list, n at most, the first and the last among them, evenly. */
int course_some(const course *c, int n, int *places /* [n] */);

#endif
