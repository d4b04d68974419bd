/* What a study is written with: settings, memory, paragraphs, tables, plots.
 *
 * A study is one file, TOPIC.c, with its row in study.c: settings, and a function that
 * measures and adds what it found to the report (report.c).
 *
 * Memory that a study takes belongs to the report and is freed with it. The first
 * failure ends the study: TRY.
 */
#ifndef STUDIES_STUDY_H
#define STUDIES_STUDY_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "attend/model.h"
#include "attend/study.h"
#include "attend/attend.h"

#define TRY(call)                            \
  do {                                       \
    attend_status status_of_try = (call);    \
    if (status_of_try) return status_of_try; \
  } while (0)

typedef struct study_run {
  attend_context *ctx;
  uint64_t seed;
  struct report_store *store; /* report.c */
  const attend_study_options *options;
} study_run;

/* One topic: its description, and its function. */
typedef struct {
  attend_study about;
  attend_status (*run)(study_run *r);
} study_topic;

/* In the order of a course: the list is in study.c. */
extern const study_topic study_scale;
extern const study_topic study_jacobian;
extern const study_topic study_argmax;
extern const study_topic study_heatmaps;
extern const study_topic study_masks;
extern const study_topic study_positions;
extern const study_topic study_norms;
extern const study_topic study_receptive_field;
extern const study_topic study_complexity;
extern const study_topic study_decoding;
extern const study_topic study_kernels;
extern const study_topic study_approximation;
extern const study_topic study_causal;
extern const study_topic study_purification;
extern const study_topic study_heads;

/* ---- settings ------------------------------------------------------------------- */

/* Numbers of a list, at least one. */
const double *study_list(const study_run *r, const char *name, size_t *count);
double study_number(const study_run *r, const char *name);
int study_count(const study_run *r, const char *name); /* a whole number */
const char *study_text(const study_run *r, const char *name);

/* ---- memory and failure ------------------------------------------------------------ */

/* Zeroed, aligned to 64 bytes. */
attend_status study_take(study_run *r, size_t count, size_t size, void *block);
#define TAKE(r, pointer, count) TRY(study_take((r), (count), sizeof **(pointer), (pointer)))
/* A sentence that names the thing and the remedy. */
attend_status study_fail(study_run *r, attend_status status, const char *sentence, ...)
    __attribute__((format(printf, 3, 4)));
/* Text that lives as long as the report; NULL if there is no memory, which
 * everything below takes as an empty one. */
const char *study_format(study_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Reports progress; fails with ATTEND_STOPPED when the caller stops the study. */
attend_status study_step(study_run *r, double done);

/* ---- random numbers ------------------------------------------------------------------ */

/* n normal numbers; streams differ for every `what`. */
void study_normal(const study_run *r, uint64_t what, uint64_t first, size_t n, float *out);

/* ---- report ----------------------------------------------------------------------- */

attend_status study_heading(study_run *r, const char *text);
attend_status study_say(study_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A table, then its cells row by row. Columns must stay (static const) and end
 * with a name of NULL. */
typedef struct table_store table_store;
attend_status study_table(study_run *r, const char *name, const char *title,
                          const attend_study_column *columns, table_store **table);
attend_status study_cell(table_store *t, double number);
attend_status study_word(table_store *t, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Several numbers: study_row(t, 3, 1.0, 2.0, 3.0). All are doubles. */
attend_status study_row(table_store *t, int count, ...);

/* The plot and all it points to are copied. */
attend_status study_figure(study_run *r, const char *name, const attend_plot *plot);

/* A prediction: exact (slack 0), or within a slack. */
attend_status study_claim(study_run *r, const char *name, const char *text, double measured,
                          double expected, double slack);
/* A random measurement with this standard error. */
attend_status study_estimate(study_run *r, const char *name, const char *text, double measured,
                             double expected, double standard_error);

/* ---- attention (attention.c) ---------------------------------------------------------------- */

/* Inputs and outputs of one attention, contiguous f32 in the order [B,H,T,D].
 * weights are observed unless NULL, gradients computed unless d_o is NULL; both need
 * lse. */
typedef struct {
  const float *q, *k, *v;
  float *o, *lse;
  float *weights; /* [B,H,T,S] */
  const float *d_o;
  float *dq, *dk, *dv;
  float *dbias; /* or NULL */
} study_pass;
attend_status study_attend(study_run *r, const attend_desc *desc, const study_pass *p);

/* ---- models (model.c) -------------------------------------------------------------------- */

typedef struct {
  attend_checkpoint *files;
  attend_model *model;
} study_model;
/* Weights drawn by the study's seed; to be freed, and is empty on failure. */
attend_status study_untrained(study_run *r, const attend_architecture *a, study_model *m);
void study_model_free(study_model *m);

/* ---- numbers (numbers.c) ------------------------------------------------------------ */

/* X = U diag(s) V^T: x [rows][columns], u [rows][rows], s [rows]; see numeric/svd.h. */
attend_status study_svd(study_run *r, size_t rows, size_t columns, const double *x, double *u,
                        double *s);

/* Mean, variance (n - 1) and their standard errors, by the fourth moment. */
typedef struct {
  double mean, variance, mean_error, variance_error;
} study_moments;
study_moments study_moments_of(const double *x, size_t n);
/* Sorts x. share in [0, 1]; between two values, between them. */
double study_quantile(double *x, size_t n, double share);
/* y = a x^b by least squares of logarithms; returns b, *a may be NULL. */
double study_exponent(const double *x, const double *y, size_t n, double *a);
/* Seconds on a clock that only goes forward. */
double study_now(void);
/* Median seconds of one call of work(user), `repeat` times after one that is not
 * counted. */
double study_seconds(void (*work)(void *user), void *user, int repeat);

#endif
