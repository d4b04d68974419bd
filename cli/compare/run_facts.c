/* What a training's folder says of it; several seeds as one.
 *
 * Times are of learning alone: a machine that slept, and measurements that one run
 * takes more often than another, do not count.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/share.h"
#include "train/course.h"
#include "folders.h"
#include "input.h"
#include "compare/runs.h"

static run_number alone(double x) { return (run_number){x, x, x}; }

/* ---- the log ----------------------------------------------------------------------- */

/* Of the finite ones; sorts. */
static double median(double *x, size_t n) {
  size_t finite = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i])) x[finite++] = x[i];
  return median_of(x, (int)finite);
}

/* Seconds of a step on the way to line i. A log of an older program has the clock
 * alone, pauses and all. */
static double pace_at(const course_curve *lines, size_t i) {
  const course_point *at = &lines->at[i], *before = i ? at - 1 : NULL;
  if (isfinite(at->step_s)) return at->step_s;
  double seconds = at->seconds - (before ? before->seconds : 0);
  double steps = at->step - (before ? before->step : 0);
  return steps > 0 ? seconds / steps : NAN;
}

static void count_pace(const course *c, run_facts *f) {
  const course_curve *lines = &c->loss;
  double *pace = need(lines->count + 1, sizeof *pace);
  double *speed = need(lines->count + 1, sizeof *speed);
  double bytes = NAN;
  for (size_t i = 0; i < lines->count; i++) {
    pace[i] = pace_at(lines, i);
    speed[i] = lines->at[i].speed;
    if (!(lines->at[i].bytes <= bytes)) bytes = lines->at[i].bytes;
  }
  f->number[RUN_STEP_SECONDS] = alone(median(pace, lines->count));
  f->number[RUN_SPEED] = alone(median(speed, lines->count));
  f->number[RUN_BYTES] = alone(bytes);
  free(pace);
  free(speed);
}

/* Seconds of learning up to a step: whole lines, and the share of the next. */
static double seconds_to(const course_curve *lines, double step) {
  double sum = 0, from = 0;
  for (size_t i = 0; i < lines->count && from < step; i++) {
    double to = lines->at[i].step < step ? lines->at[i].step : step;
    sum += (to - from) * pace_at(lines, i);
    from = to;
  }
  return sum;
}

static void make_room_for(run_curve *to, size_t n) {
  double **lists[] = {&to->step, &to->seconds, &to->loss, &to->low, &to->high};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    *lists[i] = need(n + 1, sizeof **lists[i]);
}

static void copy_curve(const course *c, run_facts *f) {
  const course_curve *from = f->measured ? &c->valid : &c->loss;
  run_curve *to = &f->curve;
  make_room_for(to, from->count);
  for (size_t i = 0; i < from->count; i++) {
    to->step[i] = from->at[i].step;
    to->seconds[i] = seconds_to(&c->loss, from->at[i].step);
    to->loss[i] = to->low[i] = to->high[i] = from->at[i].loss;
  }
  to->count = from->count;
}

static void find_best(const course *c, run_facts *f) {
  const course_curve *valid = &c->valid;
  const course_point *best = NULL;
  for (size_t i = 0; i < valid->count; i++)
    if (!best || valid->at[i].loss < best->loss) best = &valid->at[i];
  f->measured = best != NULL;
  f->number[RUN_VALID] = alone(best ? best->loss : NAN);
  f->number[RUN_BEST_STEP] = alone(best ? best->step : NAN);
  f->number[RUN_LAST] = alone(best ? valid->at[valid->count - 1].loss : NAN);
}

static void read_log(const course *c, run_facts *f) {
  const course_curve *lines = &c->loss;
  double steps = lines->count ? lines->at[lines->count - 1].step : c->last;
  if (steps < c->last) steps = c->last;
  f->number[RUN_STEPS] = alone(steps);
  f->number[RUN_SECONDS] = alone(lines->count ? seconds_to(lines, steps) : NAN);
  find_best(c, f);
  count_pace(c, f);
  copy_curve(c, f);
}

/* ---- the model ------------------------------------------------------------------------ */

static void describe(const attend_config *config, run_facts *f) {
  const char *form = config->attention[0] ? config->attention : "softmax";
  snprintf(f->form, sizeof f->form, "%s", form);
  if (config->roles)
    attend_roles_text(config->roles, f->roles);
  else
    snprintf(f->roles, sizeof f->roles, "all");
  f->encoder_width = config->encoder.layers ? config->encoder.width : 0;
  f->decoder_width = config->decoder.layers ? config->decoder.width : 0;
}

/* Of a run whose steps were removed, base/ may be left. */
static attend_status read_base(attend_context *ctx, const course *c,
                               run_facts *f) {
  char *path = path_of("%s/base/config.json", c->path);
  attend_config config = {0};
  attend_status status = ATTEND_OK;
  f->number[RUN_PARAMETERS] = alone(NAN);
  if (file_bytes(path) >= 0) {
    status = attend_config_read(ctx, path, &config);
    if (!status) describe(&config, f);
  }
  free(path);
  return status;
}

static attend_status read_model(attend_context *ctx, const course *c,
                                run_facts *f) {
  char *path = course_folder(c, c->best >= 0 ? c->best : c->last);
  attend_checkpoint *files = NULL;
  attend_parameter p;
  double count = 0;
  attend_status status = attend_checkpoint_open(ctx, path, &files);
  for (size_t i = 0; !status && attend_checkpoint_get(files, i, &p); i++)
    if (p.tensor) count += (double)p.tensor->count;
  if (!status) describe(attend_checkpoint_config(files), f);
  f->number[RUN_PARAMETERS] = alone(count);
  attend_checkpoint_close(files);
  free(path);
  return status;
}

/* ---- scores --------------------------------------------------------------------------- */

static void take_scores(const attend_json *root, run_facts *f) {
  static const char *const kinds[] = {"rouge1", "rouge2", "rougeL"};
  const attend_json *scores = attend_json_get(root, "scores");
  for (int i = 0; i < 3; i++) {
    const attend_json *f1 =
        attend_json_get(attend_json_get(scores, kinds[i]), "f1");
    double mean = attend_json_number(attend_json_get(root, kinds[i]), NAN);
    f->number[RUN_ROUGE1 + i] =
        (run_number){mean, attend_json_number(attend_json_get(f1, "low"), mean),
                     attend_json_number(attend_json_get(f1, "high"), mean)};
  }
}

/* What attend eval --rouge --json printed, if someone put it there. */
static int read_scores(attend_context *ctx, const char *folder, run_facts *f) {
  char *path = path_of("%s/rouge.json", folder);
  int code = EXIT_OK;
  size_t length;
  attend_json *root = NULL;
  take_scores(NULL, f);
  FILE *file = fopen(path, "rb");
  char *text = file ? input_all(file, path, &length, &code) : NULL;
  if (file) fclose(file);
  if (text && !code) {
    attend_status status = attend_json_parse(ctx, path, text, length, &root);
    if (status) code = complain_status(ctx, status);
  }
  if (root) take_scores(root, f);
  attend_json_free(root);
  free(text);
  free(path);
  return code;
}

/* ---- a run ------------------------------------------------------------------------------- */

static char *name_of(const char *path) {
  size_t n = strlen(path), from;
  while (n > 1 && path[n - 1] == '/') n--;
  for (from = n; from && path[from - 1] != '/';) from--;
  return path_of("%.*s", (int)(n - from), path + from);
}

int run_facts_read(attend_context *ctx, const char *path, run_facts *f) {
  int code;
  course *c = course_open_log(ctx, path, &code);
  if (!c) return code;
  *f = (run_facts){.name = name_of(path), .seeds = 1};
  attend_status status =
      c->count ? read_model(ctx, c, f) : read_base(ctx, c, f);
  code = status ? complain_status(ctx, status) : read_scores(ctx, path, f);
  if (!code) read_log(c, f);
  course_close(c);
  return code;
}

void run_facts_free(run_facts *f) {
  run_curve *c = &f->curve;
  free(f->name);
  free(c->step);
  free(c->seconds);
  free(c->loss);
  free(c->low);
  free(c->high);
}

/* ---- seeds ---------------------------------------------------------------------------------- */

/* Characters of a name before its "-s1". */
static size_t stem_of(const char *name) {
  size_t all = strlen(name), n = all;
  while (n && isdigit((unsigned char)name[n - 1])) n--;
  bool seed = n < all && n > 2 && name[n - 1] == 's' && name[n - 2] == '-';
  return seed ? n - 2 : all;
}

static bool is_joined(const run_facts *a, const run_facts *b) {
  size_t n = stem_of(a->name), m = stem_of(b->name);
  return a->name[n] && b->name[m] && n == m && !memcmp(a->name, b->name, n) &&
         a->measured == b->measured;
}

/* The mean of k that are in `a` already and one more. */
static double mean_with(double a, double b, int k) {
  return a + (b - a) / (k + 1);
}

static void join_numbers(run_facts *a, const run_facts *b) {
  for (int i = 0; i < RUN_NUMBERS; i++) {
    run_number *to = &a->number[i];
    const run_number *from = &b->number[i];
    to->mean = mean_with(to->mean, from->mean, a->seeds);
    if (!(to->low <= from->low)) to->low = from->low;
    if (!(to->high >= from->high)) to->high = from->high;
  }
}

/* At the steps that both have. */
static void join_curves(run_facts *a, const run_facts *b) {
  run_curve *to = &a->curve;
  const run_curve *from = &b->curve;
  size_t n = 0;
  for (size_t i = 0, j = 0; i < to->count && j < from->count; i++) {
    while (j < from->count && from->step[j] < to->step[i]) j++;
    if (j == from->count || from->step[j] != to->step[i]) continue;
    double loss = from->loss[j];
    to->step[n] = to->step[i];
    to->seconds[n] = mean_with(to->seconds[i], from->seconds[j], a->seeds);
    to->loss[n] = mean_with(to->loss[i], loss, a->seeds);
    to->low[n] = loss < to->low[i] ? loss : to->low[i];
    to->high[n] = loss > to->high[i] ? loss : to->high[i];
    n++;
  }
  to->count = n;
}

int runs_join(run_facts *runs, int count) {
  int left = 0;
  for (int i = 0; i < count; i++) {
    int k = 0;
    while (k < left && !is_joined(&runs[k], &runs[i])) k++;
    if (k == left) {
      runs[left++] = runs[i];
      continue;
    }
    join_numbers(&runs[k], &runs[i]);
    join_curves(&runs[k], &runs[i]);
    runs[k].seeds++;
    run_facts_free(&runs[i]);
  }
  for (int i = 0; i < left; i++) runs[i].name[stem_of(runs[i].name)] = 0;
  return left;
}
