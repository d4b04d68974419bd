/* Training runs side by side: the facts of their folders; several seeds as one.
 *
 * Times are of training alone: pauses of the machine, and measurements that one run
 * takes more often than another, do not count.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>

#include "attend/compare.h"
#include "attend/problem.h"
#include "attend/train.h"
#include "base/options.h"
#include "device/device.h"
#include "model/config.h"
#include "tasks/tasks.h"

struct attend_runs {
  attend_context *ctx;
  attend_run_facts *facts; /* [count] */
  int count;
  blocks kept; /* all memory of the facts */
};

#define TAKE(runs, pointer, n)                                                                    \
  ATTEND_TRY(blocks_add((runs)->ctx, &(runs)->kept, ON_HOST, size_times((n), sizeof **(pointer)), \
                        "facts of a training run", pointer))

static attend_run_number alone(double x) { return (attend_run_number){x, x, x}; }

/* ---- the log ----------------------------------------------------------------------- */

/* Of the finite ones; sorts. */
static double median(double *x, size_t n) {
  size_t finite = 0;
  for (size_t i = 0; i < n; i++)
    if (isfinite(x[i])) x[finite++] = x[i];
  return attend_median(x, finite);
}

/* Seconds of a step before line i. Logs of older programs have the clock alone,
 * which counts pauses. */
static double pace_at(const attend_log_curve *lines, size_t i) {
  const attend_log_point *at = &lines->at[i], *before = i ? at - 1 : NULL;
  if (isfinite(at->step_s)) return at->step_s;
  double seconds = at->seconds - (before ? before->seconds : 0);
  double steps = at->step - (before ? before->step : 0);
  return steps > 0 ? seconds / steps : NAN;
}

static attend_status count_pace(attend_runs *runs, const attend_log_curve *lines,
                                attend_run_facts *f) {
  double *pace, *speed;
  TAKE(runs, &pace, lines->count);
  TAKE(runs, &speed, lines->count);
  double bytes = NAN;
  for (size_t i = 0; i < lines->count; i++) {
    pace[i] = pace_at(lines, i);
    speed[i] = lines->at[i].speed;
    if (!(lines->at[i].bytes <= bytes)) bytes = lines->at[i].bytes;
  }
  f->number[ATTEND_RUN_STEP_SECONDS] = alone(median(pace, lines->count));
  f->number[ATTEND_RUN_SPEED] = alone(median(speed, lines->count));
  f->number[ATTEND_RUN_BYTES] = alone(bytes);
  return ATTEND_OK;
}

/* Seconds of training up to a step: whole lines, and the share of the next. */
static double seconds_to(const attend_log_curve *lines, double step) {
  double sum = 0, from = 0;
  for (size_t i = 0; i < lines->count && from < step; i++) {
    double to = lines->at[i].step < step ? lines->at[i].step : step;
    sum += (to - from) * pace_at(lines, i);
    from = to;
  }
  return sum;
}

static attend_status copy_curve(attend_runs *runs, const attend_log_curve *lines,
                                const attend_log_curve *from, attend_run_facts *f) {
  double **lists[] = {&f->step, &f->seconds, &f->loss, &f->low, &f->high};
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) TAKE(runs, lists[i], from->count);
  for (size_t i = 0; i < from->count; i++) {
    f->step[i] = from->at[i].step;
    f->seconds[i] = seconds_to(lines, from->at[i].step);
    f->loss[i] = f->low[i] = f->high[i] = from->at[i].loss;
  }
  f->points = from->count;
  return ATTEND_OK;
}

static void find_best(const attend_log_curve *valid, attend_run_facts *f) {
  const attend_log_point *best = NULL;
  for (size_t i = 0; i < valid->count; i++)
    if (!best || valid->at[i].loss < best->loss) best = &valid->at[i];
  f->measured = best != NULL;
  f->number[ATTEND_RUN_VALID] = alone(best ? best->loss : NAN);
  f->number[ATTEND_RUN_BEST_STEP] = alone(best ? best->step : NAN);
  f->number[ATTEND_RUN_LAST] = alone(best ? valid->at[valid->count - 1].loss : NAN);
}

/* last: the newest checkpoint's step, or -1. */
static attend_status read_log(attend_runs *runs, const attend_training_run *run, int last,
                              attend_run_facts *f) {
  const attend_log_curve *lines = attend_training_run_loss(run);
  const attend_log_curve *valid = attend_training_run_valid(run);
  double steps = fmax(last, lines->count ? lines->at[lines->count - 1].step : 0);
  f->number[ATTEND_RUN_STEPS] = alone(steps);
  f->number[ATTEND_RUN_SECONDS] = alone(lines->count ? seconds_to(lines, steps) : NAN);
  find_best(valid, f);
  ATTEND_TRY(count_pace(runs, lines, f));
  return copy_curve(runs, lines, f->measured ? valid : lines, f);
}

/* ---- the model ------------------------------------------------------------------------ */

static void describe(const attend_config *config, attend_run_facts *f) {
  const char *form = config->attention[0] ? config->attention : "softmax";
  snprintf(f->form, sizeof f->form, "%s", form);
  if (config->roles)
    attend_roles_text(config->roles, f->roles);
  else
    snprintf(f->roles, sizeof f->roles, "all");
  f->encoder_width = config->encoder.layers ? config->encoder.width : 0;
  f->decoder_width = config->decoder.layers ? config->decoder.width : 0;
}

/* Of a run whose checkpoints were removed, base/ may be left. */
static attend_status read_base(attend_context *ctx, const char *folder, attend_run_facts *f) {
  char path[LONGEST_PATH];
  attend_config config = {0};
  f->number[ATTEND_RUN_PARAMETERS] = alone(NAN);
  if (!file_beside(folder, "base/config.json", path, sizeof path)) return ATTEND_OK;
  ATTEND_TRY(config_read(ctx, path, &config));
  describe(&config, f);
  return ATTEND_OK;
}

static attend_status read_model(attend_context *ctx, const char *path, attend_run_facts *f) {
  attend_checkpoint *files;
  attend_parameter p;
  double count = 0;
  ATTEND_TRY(attend_checkpoint_open(ctx, path, &files));
  for (size_t i = 0; attend_checkpoint_get(files, i, &p); i++)
    if (p.tensor) count += (double)p.tensor->count;
  describe(attend_checkpoint_config(files), f);
  f->number[ATTEND_RUN_PARAMETERS] = alone(count);
  attend_checkpoint_free(files);
  return ATTEND_OK;
}

/* ---- scores --------------------------------------------------------------------------- */

static void take_scores(const attend_json *root, attend_run_facts *f) {
  static const char *const kinds[] = {"rouge1", "rouge2", "rougeL"};
  const attend_json *scores = attend_json_get(root, "scores");
  for (int i = 0; i < 3; i++) {
    const attend_json *f1 = attend_json_get(attend_json_get(scores, kinds[i]), "f1");
    double mean = attend_json_number(attend_json_get(root, kinds[i]), NAN);
    f->number[ATTEND_RUN_ROUGE1 + i] =
        (attend_run_number){mean, attend_json_number(attend_json_get(f1, "low"), mean),
                            attend_json_number(attend_json_get(f1, "high"), mean)};
  }
}

/* The output of attend eval --rouge --json, if it was put there. */
static attend_status read_scores(attend_context *ctx, const char *folder, attend_run_facts *f) {
  attend_json *root;
  ATTEND_TRY(json_beside(ctx, folder, "rouge.json", &root));
  take_scores(root, f);
  attend_json_free(root);
  return ATTEND_OK;
}

/* ---- a run ------------------------------------------------------------------------------- */

static attend_status set_name(attend_runs *runs, attend_run_facts *f, const char *text, size_t n) {
  TAKE(runs, &f->name, n + 1);
  memcpy(f->name, text, n);
  return ATTEND_OK;
}

/* The last part of a path. */
static attend_status name_of(attend_runs *runs, const char *path, attend_run_facts *f) {
  size_t n = strlen(path), from;
  while (n > 1 && path[n - 1] == '/') n--;
  for (from = n; from && path[from - 1] != '/';) from--;
  return set_name(runs, f, path + from, n - from);
}

/* The model is that of the best step, or else the last. */
static attend_status read_facts(attend_runs *runs, const char *path, attend_training_run *run,
                                attend_run_facts *f) {
  attend_context *ctx = runs->ctx;
  int best = attend_training_run_best(run), last = attend_training_run_last(run);
  char checkpoint[ATTEND_RUN_PATH];
  f->seeds = 1;
  ATTEND_TRY(name_of(runs, path, f));
  if (last < 0) {
    ATTEND_TRY(read_base(ctx, path, f));
  } else {
    ATTEND_TRY(attend_training_run_folder(run, best >= 0 ? best : last, checkpoint));
    ATTEND_TRY(read_model(ctx, checkpoint, f));
  }
  ATTEND_TRY(read_scores(ctx, path, f));
  return read_log(runs, run, last, f);
}

static attend_status read_run(attend_runs *runs, const char *path, attend_run_facts *f) {
  attend_training_run *run;
  ATTEND_TRY(attend_training_run_open(runs->ctx, path, &run));
  attend_status status = read_facts(runs, path, run, f);
  attend_training_run_free(run);
  return status;
}

/* Runs of one name are called by their paths. */
static attend_status make_names_unique(attend_runs *runs, const char *const *paths) {
  for (int i = 0; i < runs->count; i++) {
    bool twice = false;
    for (int j = 0; j < runs->count; j++)
      twice = twice || (i != j && !strcmp(runs->facts[i].name, runs->facts[j].name));
    if (twice) ATTEND_TRY(set_name(runs, &runs->facts[i], paths[i], strlen(paths[i])));
  }
  return ATTEND_OK;
}

/* ---- seeds ---------------------------------------------------------------------------------- */

/* Characters of a name before its "-s1". */
static size_t stem_of(const char *name) {
  size_t all = strlen(name), n = all;
  while (n && isdigit((unsigned char)name[n - 1])) n--;
  bool seed = n < all && n > 2 && name[n - 1] == 's' && name[n - 2] == '-';
  return seed ? n - 2 : all;
}

static bool is_joined(const attend_run_facts *a, const attend_run_facts *b) {
  size_t n = stem_of(a->name), m = stem_of(b->name);
  return a->name[n] && b->name[m] && n == m && !memcmp(a->name, b->name, n) &&
         a->measured == b->measured;
}

/* The mean of k that are in `a` already and one more. */
static double mean_with(double a, double b, int k) { return a + (b - a) / (k + 1); }

static void join_numbers(attend_run_facts *a, const attend_run_facts *b) {
  for (int i = 0; i < ATTEND_RUN_NUMBERS; i++) {
    attend_run_number *to = &a->number[i];
    const attend_run_number *from = &b->number[i];
    to->mean = mean_with(to->mean, from->mean, a->seeds);
    if (!(to->low <= from->low)) to->low = from->low;
    if (!(to->high >= from->high)) to->high = from->high;
  }
}

/* At the steps that both have. */
static void join_curves(attend_run_facts *a, const attend_run_facts *b) {
  size_t n = 0;
  for (size_t i = 0, j = 0; i < a->points && j < b->points; i++) {
    while (j < b->points && b->step[j] < a->step[i]) j++;
    if (j == b->points || b->step[j] != a->step[i]) continue;
    double loss = b->loss[j];
    a->step[n] = a->step[i];
    a->seconds[n] = mean_with(a->seconds[i], b->seconds[j], a->seeds);
    a->loss[n] = mean_with(a->loss[i], loss, a->seeds);
    a->low[n] = loss < a->low[i] ? loss : a->low[i];
    a->high[n] = loss > a->high[i] ? loss : a->high[i];
    n++;
  }
  a->points = n;
}

/* NAME-s1, NAME-s2, .. become NAME, where the first of them is. */
static void join_seeds(attend_runs *runs) {
  attend_run_facts *f = runs->facts;
  int left = 0;
  for (int i = 0; i < runs->count; i++) {
    int k = 0;
    while (k < left && !is_joined(&f[k], &f[i])) k++;
    if (k == left) {
      f[left++] = f[i];
      continue;
    }
    join_numbers(&f[k], &f[i]);
    join_curves(&f[k], &f[i]);
    f[k].seeds++;
  }
  for (int i = 0; i < left; i++) f[i].name[stem_of(f[i].name)] = 0;
  runs->count = left;
}

/* ---- all runs ------------------------------------------------------------------------------- */

static attend_status read_all(attend_runs *runs, const char *const *paths,
                              const attend_runs_options *o) {
  for (int i = 0; i < runs->count; i++) ATTEND_TRY(read_run(runs, paths[i], &runs->facts[i]));
  ATTEND_TRY(make_names_unique(runs, paths));
  if (o->join_seeds) join_seeds(runs);
  return ATTEND_OK;
}

attend_status attend_runs_read(attend_context *ctx, int count, const char *const *folders,
                               const attend_runs_options *options, attend_runs **runs) {
  attend_runs_options o;
  attend_runs *r;
  *runs = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_runs_options, options, &o));
  ATTEND_CHECK(ctx, count > 0, "%d training runs: name at least one folder", count);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r, "training runs", &r));
  r->ctx = ctx;
  r->count = count;
  attend_status status =
      blocks_add(ctx, &r->kept, ON_HOST, size_times((size_t)count, sizeof *r->facts),
                 "training runs", &r->facts);
  if (!status) status = read_all(r, folders, &o);
  if (status)
    attend_runs_free(r);
  else
    *runs = r;
  return status;
}

void attend_runs_free(attend_runs *r) {
  if (!r) return;
  attend_context *ctx = r->ctx;
  blocks_free(ctx, &r->kept);
  ctx_free(ctx, r);
}

const attend_run_facts *attend_runs_get(const attend_runs *r, int i) {
  return i >= 0 && i < r->count ? &r->facts[i] : NULL;
}
