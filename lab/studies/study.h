/* What a study is written with: settings, memory, paragraphs, tables, plots.
 *
 * A study is one file, TOPIC.c, with its row in study.c: settings, and a function that
 * measures and adds what it found to the report.
 *
 * Memory that a study takes belongs to the report and is freed with it. The first
 * failure ends the study: TRY.
 */
#ifndef STUDIES_STUDY_H
#define STUDIES_STUDY_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "attend/attend.h"
#include "attend/lens.h"
#include "attend/model.h"
#include "attend/study.h"

/* The kinds of settings and cells, short enough for a line each in the tables below. */
#define WHOLE ATTEND_SETTING_WHOLE
#define REAL ATTEND_SETTING_NUMBERS
#define TEXT ATTEND_CELL_TEXT
#define COUNT ATTEND_CELL_COUNT
#define NUMBER ATTEND_CELL_NUMBER
#define SMALL ATTEND_CELL_SMALL
#define SECONDS ATTEND_CELL_SECONDS
#define BYTES ATTEND_CELL_BYTES

#define TRY(call)                            \
  do {                                       \
    attend_status status_of_try = (call);    \
    if (status_of_try) return status_of_try; \
  } while (0)

typedef struct study_run {
  attend_context *ctx;
  uint64_t seed;
  struct report_store *store; /* study.c */
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
extern const study_topic study_softmax;
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
/* The numbers of ATTEND_SETTING_ROWS. */
const double *study_rows(const study_run *r, const char *name, int *rows, int *columns);
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

/* Owned by the study, which frees them when it ends. */
attend_status study_plan(study_run *r, const attend_desc *desc, attend_plan **plan);
/* y = x W^T, weights [outputs][inputs]. */
attend_status study_linear(study_run *r, int inputs, int outputs, const float *weights,
                           attend_linear **linear);
/* Row stride of what linear layers read and write. */
int study_padded(int width);

/* ---- random numbers ---------------------------------------------------------- */

/* n normal numbers; streams differ for every `what`. */
void study_normal(const study_run *r, uint64_t what, uint64_t first, size_t n, float *out);
/* The same in new memory, from the first number of the stream. */
attend_status study_draw(study_run *r, uint64_t what, size_t n, float **out);

/* ---- report ------------------------------------------------------------------ */

attend_status study_heading(study_run *r, const char *text);
attend_status study_say(study_run *r, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* A table, then its cells row by row. Columns must stay (static const) and end
 * with a name of NULL. */
typedef struct table_store table_store;
attend_status study_table(study_run *r, table_store **table, const char *name,
                          const attend_study_column *columns, const char *title, ...)
    __attribute__((format(printf, 5, 6)));
/* The cells up to the end of the row: a const char * for each column of text, a double
 * for each other. */
attend_status study_row(table_store *t, ...);
attend_status study_cell(table_store *t, double number);
attend_status study_word(table_store *t, const char *text);
/* A number of a whole row. */
double study_value(const table_store *t, size_t row, const char *column);
/* ATTEND_NO_MEMORY if there was none for a column. */
attend_status study_status(const study_run *r);
/* The numbers of a column, for a plot, once the table is whole; or of the rows first,
 * first + step .. of it. NULL if there is no memory; the report fails then. */
const double *study_column(const table_store *t, const char *name);
const double *study_column_part(const table_store *t, const char *name, size_t first, size_t step);

/* A prediction: exact (slack 0), or within a slack. The format gives "NAME: TEXT". */
attend_status study_claim(study_run *r, double measured, double expected, double slack,
                          const char *format, ...) __attribute__((format(printf, 5, 6)));
/* A random measurement with this standard error. */
attend_status study_estimate(study_run *r, double measured, double expected, double standard_error,
                             const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- figures ------------------------------------------------------------------ */

/* The plot and all it points to are copied. A plot of single points is left out: give its values
 * in a table. */
attend_status study_figure(study_run *r, const char *name, const attend_plot *plot);
/* Panels beside each other. */
attend_status study_plot(study_run *r, const char *name, size_t count,
                         const attend_plot_panel *panels);

attend_plot_axis study_axis(const char *label);
attend_plot_axis study_log(const char *label);
attend_plot_axis study_zero(const char *label); /* from 0 */
attend_plot_axis study_range(const char *label, double low, double high);

/* Lines with their key above. */
attend_plot_panel study_lines(const char *title, attend_plot_axis x, attend_plot_axis y,
                              size_t count, const attend_plot_series *series);
/* The panel with vertical lines. */
attend_plot_panel study_marked(attend_plot_panel panel, size_t count,
                               const attend_plot_mark *marks);
attend_plot_panel study_heat(const char *title, const char *x, const char *y, size_t rows,
                             size_t columns, const double *cells, attend_plot_axis z);

/* ---- attention (run.c) -------------------------------------------------------- */

/* Inputs and outputs of one attention, contiguous f32 in the order [B,H,T,D].
 * weights are observed unless NULL, gradients computed unless d_o is NULL; both need
 * lse, which may be NULL otherwise. */
typedef struct {
  const float *q, *k, *v;
  float *o, *lse;
  float *weights; /* [B,H,T,S] */
  const float *d_o;
  float *dq, *dk, *dv;
  float *dbias;      /* or NULL */
  int64_t weak_rows; /* set by study_attend */
} study_pass;
attend_status study_attend(study_run *r, const attend_desc *desc, study_pass *p);

typedef enum { STUDY_OUTPUT = 0, STUDY_WEIGHTS = 1, STUDY_GRADIENTS = 2 } study_results;
/* Memory for a pass: q, k and v (and d_o) drawn from streams stream, + 1, + 2 (and + 3). */
attend_status study_tensors(study_run *r, const attend_desc *desc, uint64_t stream,
                            int results /* of study_results */, study_pass *p);

/* ---- worked examples (worked.c) -------------------------------------------------- */

/* One query, its keys and their values: those of documents Fall 2025 2(a) and student 3(a), or the
 * caller's own. */
typedef struct {
  bool own;
  int keys, dim, dim_v;
  const float *q, *k, *v; /* [dim], [keys][dim], [keys][dim_v] */
} worked_example;

enum { WORKED_NUMBERS = 256, WORKED_KEYS = 16 };
#define WORKED_SETTING(name, value, meaning) \
  { name, value, NULL, meaning, ATTEND_SETTING_ROWS, WORKED_NUMBERS, -1000, 1000 }
#define WORKED_SETTINGS                                                                  \
  WORKED_SETTING("q", "1,1,2", "query of the worked example"),                           \
      WORKED_SETTING("keys", "1,2,0;0,3,4;5,0,0;0,0,1", "its keys, semicolons between"), \
      WORKED_SETTING("values", "2,0,1;1,4,3;0,-1,4;1,0,-1", "its values, one for each key")

/* Reads the settings; widths and counts that disagree are refused. */
attend_status worked_read(study_run *r, worked_example *w);
/* What the formulas give, in double, for one form: argmax, softmax, poly and gaussian. */
typedef struct {
  double score[WORKED_KEYS]; /* scale q·k; gaussian: ‖q − k‖² */
  double sim[WORKED_KEYS], weight[WORKED_KEYS], sum;
  double o[WORKED_NUMBERS];
} worked_steps;
/* Tables NAME-weights and NAME-output with every step, each claimed of the library too. score and
 * sim are titles. steps may be NULL. */
attend_status worked_show(study_run *r, const worked_example *w, const char *name,
                          const attend_form *form, float scale, const char *score, const char *sim,
                          worked_steps *steps);
/* "(1, 2, 0)" */
const char *worked_vector(study_run *r, int n, const float *x);

/* ---- models (run.c) ------------------------------------------------------------ */

typedef struct {
  attend_checkpoint *files;
  attend_model *model;
} study_model;
/* Weights drawn by the study's seed; to be freed, and is empty on failure. */
attend_status study_untrained(study_run *r, const attend_architecture *a, study_model *m);
void study_model_free(study_model *m);

/* Tokens of a text; of a model without a tokenizer, tokens drawn at random. */
typedef struct {
  int n;
  int32_t *ids;       /* [n] */
  uint8_t *separator; /* [n] */
  int separators;
  bool drawn;
  const char *family;
  attend_parts parts;
  attend_positions position;
  int vocab;
} traced_text;

/* path: a model's folder; text: what is read, cut after `most` tokens or where
 * the model's positions end. */
attend_status traced_text_read(study_run *r, const char *path, const char *text, int max,
                               traced_text *t);

typedef enum { TRACED_TRAINED = 0, TRACED_UNTRAINED } traced_weights;

/* A model that read a text while a trace recorded it. */
typedef struct {
  attend_checkpoint *files;
  attend_model *model;
  attend_trace *trace;
  attend_lens *lens;
  attend_role role; /* self-attention: of the encoder, if there is one */
  attend_lens_shape shape;
} traced;

/* Untrained: the same sizes, weights drawn as training begins. form NULL: the
 * model's own. To be closed after failures too. */
attend_status traced_open(study_run *r, const char *path, traced_weights weights,
                          const attend_form *form, const traced_text *text, traced *w);
void traced_close(traced *w);

/* ---- numbers (numbers.c) -------------------------------------------------------- */

/* X = U diag(s) V^T: x [rows][columns], u [rows][rows], s [rows]; see numeric/svd.h. */
attend_status study_svd(study_run *r, size_t rows, size_t columns, const double *x, double *u,
                        double *s);

/* Largest |a - b|, NaN if one is; and that over the largest |b|. */
double study_gap(const float *a, const double *b, size_t n);
double study_relative_gap(const float *a, const double *b, size_t n);
/* ‖a - b‖ / ‖b‖ */
double study_distance(const float *a, const float *b, size_t n);
/* A copy as doubles, for a heat map. */
attend_status study_doubles(study_run *r, const float *x, size_t n, double **out);
/* Elements whose bits differ. */
double study_differing(const float *a, const float *b, size_t n);
/* Of [rows][width]: rows with such an element. */
int study_differing_rows(const float *a, const float *b, int rows, int width);
double study_norm(const float *x, size_t n);
size_t study_top(const float *x, size_t n); /* the first of the largest */

/* Mean, variance (n - 1) and their standard errors, by the fourth moment. */
typedef struct {
  double mean, variance, mean_error, variance_error;
} study_moments;
study_moments study_moments_of(const double *x, size_t n);
/* Sorts x. share in [0, 1]; linear interpolation between values. */
double study_quantile(double *x, size_t n, double share);
/* y = a x^b by least squares of logarithms; returns b. */
double study_exponent(const double *x, const double *y, size_t n);
/* Seconds on a monotonic clock. */
double study_now(void);
/* Median seconds of one call of work(user), `repeat` times after one that is not
 * counted. */
double study_seconds(void (*work)(void *user), void *user, int repeat);

#endif
