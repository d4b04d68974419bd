/* A picture with noise on it, purified: its columns are the samples.
 *
 * Part of the study purification.
 *
 * A word in letters of 5 by 7 dots has few kinds of rows, and so a low rank; the
 * noise has all directions. W is found from the noisy picture alone.
 */
#include "studies/purification.h"

enum { LETTERS = 6, DOTS = 5, HEIGHT = 7, LAMBDAS = 33, NOISE = 3 };

/* F I L T E R, the first dot of a row in bit 4. */
static const unsigned char word[LETTERS][HEIGHT] = {
    {31, 16, 16, 30, 16, 16, 16}, {31, 4, 4, 4, 4, 4, 31},
    {16, 16, 16, 16, 16, 16, 31}, {31, 4, 4, 4, 4, 4, 4},
    {31, 16, 16, 30, 16, 16, 31}, {30, 17, 17, 30, 18, 18, 17}};

/* Pictures [m][n]; w [m][m]; tall pictures are upright, m their height. */
typedef struct {
  size_t m, n;
  double noise;
  double *clean, *noisy, *pure;
  double *u, *s;   /* of the noisy one */
  double *cu, *cs; /* of the clean one */
  double *w;
} gallery;

static double dot_at(size_t row, size_t column) {
  if (row < 1 || row > HEIGHT || column < 1) return 0;
  size_t letter = (column - 1) / (DOTS + 1), dot = (column - 1) % (DOTS + 1);
  if (letter >= LETTERS || dot >= DOTS) return 0;
  return word[letter][row - 1] >> (DOTS - 1 - dot) & 1;
}

static attend_status hang(study_run *r, gallery *g) {
  const size_t tall = (size_t)study_count(r, "tall"),
               wide = (size_t)study_count(r, "wide");
  float *noise = NULL;
  g->m = (HEIGHT + 2) * tall;
  g->n = (LETTERS * (DOTS + 1) + 1) * wide;
  g->noise = study_number(r, "noise");
  const size_t cells = g->m * g->n;
  double **all[] = {&g->clean, &g->noisy, &g->pure};
  double **squares[] = {&g->u, &g->cu, &g->w};
  for (int i = 0; i < 3; i++) {
    TAKE(r, all[i], cells);
    TAKE(r, squares[i], g->m * g->m);
  }
  TAKE(r, &g->s, g->m);
  TAKE(r, &g->cs, g->m);
  TAKE(r, &noise, cells);
  study_normal(r, NOISE, 0, cells, noise);
  for (size_t i = 0; i < cells; i++) {
    g->clean[i] = dot_at(i / g->n / tall, i % g->n / wide);
    g->noisy[i] = g->clean[i] + g->noise * (double)noise[i];
  }
  TRY(study_svd(r, g->m, g->n, g->noisy, g->u, g->s));
  return study_svd(r, g->m, g->n, g->clean, g->cu, g->cs);
}

/* ---- purifying ------------------------------------------------------------------- */

static double error_of(const gallery *g, const double *picture) {
  double sum = 0;
  for (size_t i = 0; i < g->m * g->n; i++)
    sum += (picture[i] - g->clean[i]) * (picture[i] - g->clean[i]);
  return sqrt(sum / (double)(g->m * g->n));
}

/* W as a linear layer, over the columns of the noisy picture. */
static attend_status purify(study_run *r, gallery *g, double lambda) {
  const int m = (int)g->m, n = (int)g->n, ld = (m + 15) / 16 * 16;
  float *w = NULL, *x = NULL, *y = NULL;
  attend_linear *layer;
  TAKE(r, &w, g->m * g->m);
  TAKE(r, &x, (size_t)(n * ld));
  TAKE(r, &y, (size_t)(n * ld));
  purify_closed(g->m, g->u, g->s, lambda, g->w);
  for (int i = 0; i < m * m; i++) w[i] = (float)g->w[i];
  for (int i = 0; i < m * n; i++) x[i % n * ld + i / n] = (float)g->noisy[i];
  attend_linear_part part = {.weight = w, .outputs = m};
  TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, m, 1, &part, &layer));
  attend_linear_forward(layer, n, x, ld, y, ld);
  attend_linear_free(layer);
  for (int i = 0; i < m * n; i++) g->pure[i] = (double)y[i % n * ld + i / n];
  return ATTEND_OK;
}

/* If W came from the expected X X^T + n noise^2 I: what it takes from the signal
 * and what it leaves of the noise, direction by direction. */
static double predicted(const gallery *g, double lambda) {
  const double n = (double)g->n, power = n * g->noise * g->noise;
  double sum = 0;
  for (size_t i = 0; i < g->m; i++) {
    double signal = g->cs[i] * g->cs[i];
    double kept = (signal + power) / (signal + power + lambda);
    sum += (1 - kept) * (1 - kept) * signal + kept * kept * power;
  }
  return sqrt(sum / ((double)g->m * n));
}

/* ---- what is said ------------------------------------------------------------------ */

typedef struct {
  double lambda[LAMBDAS], error[LAMBDAS], predicted[LAMBDAS];
  int best;
} sweep;

static attend_status sweep_of(study_run *r, gallery *g, sweep *s) {
  const double centre = (double)g->n * g->noise * g->noise;
  s->best = 0;
  for (int i = 0; i < LAMBDAS; i++) {
    s->lambda[i] = centre * pow(10, -2 + 4.0 * i / (LAMBDAS - 1));
    TRY(purify(r, g, s->lambda[i]));
    s->error[i] = error_of(g, g->pure);
    s->predicted[i] = predicted(g, s->lambda[i]);
    if (s->error[i] < s->error[s->best]) s->best = i;
    TRY(study_step(r, 0.6 + 0.4 * i / LAMBDAS));
  }
  return ATTEND_OK;
}

static attend_status plot_error(study_run *r, const gallery *g,
                                const sweep *s) {
  double noise[LAMBDAS];
  for (int i = 0; i < LAMBDAS; i++) noise[i] = error_of(g, g->noisy);
  attend_plot_series series[] = {{.name = "purified",
                                  .count = LAMBDAS,
                                  .x = s->lambda,
                                  .y = s->error,
                                  .points = 2,
                                  .colour = 1},
                                 {.name = "predicted",
                                  .count = LAMBDAS,
                                  .x = s->lambda,
                                  .y = s->predicted,
                                  .colour = 2},
                                 {.name = "noisy",
                                  .count = LAMBDAS,
                                  .x = s->lambda,
                                  .y = noise,
                                  .dashed = 1,
                                  .colour = 3}};
  attend_plot_mark mark = {
      s->lambda[s->best],
      study_format(r, "best: λ = %.3g", s->lambda[s->best])};
  attend_plot_panel panel = {.title = "Error of the purified picture",
                             .x = {.label = "λ", .log = 1},
                             .y = {.label = "rms error", .zero = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = 3,
                             .series = series,
                             .marks = 1,
                             .mark = &mark};
  return study_figure(r, "purification-error",
                      &(attend_plot){.count = 1, .panels = &panel});
}

enum { SHOWN = 5 };

static attend_plot_panel panel_of(const gallery *g, const char *title,
                                  const double *cells) {
  return (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                             .title = title,
                             .rows = g->m,
                             .columns = g->n,
                             .cells = cells,
                             .z = {.low = -0.5, .high = 1.5}};
}

/* Clean, noisy, and purified with too little, with the best and too much. */
static attend_status plot_pictures(study_run *r, gallery *g, const sweep *s) {
  const int ends[] = {s->best / 2, s->best, (s->best + LAMBDAS - 1) / 2};
  static const char *const kinds[] = {"too little", "best", "too much"};
  attend_plot_panel panels[SHOWN];
  panels[0] = panel_of(g, "clean", g->clean);
  panels[1] = panel_of(
      g, study_format(r, "noisy: error %.3g", error_of(g, g->noisy)), g->noisy);
  for (int i = 0; i < 3; i++) {
    double *copy = NULL;
    TAKE(r, &copy, g->m * g->n);
    TRY(purify(r, g, s->lambda[ends[i]]));
    memcpy(copy, g->pure, g->m * g->n * sizeof *copy);
    panels[2 + i] =
        panel_of(g,
                 study_format(r, "λ = %.3g, %s: error %.3g", s->lambda[ends[i]],
                              kinds[i], error_of(g, copy)),
                 copy);
  }
  return study_figure(
      r, "purification-picture",
      &(attend_plot){.count = SHOWN, .height = 130, .panels = panels});
}

static const attend_study_column picture_columns[] = {
    {"lambda", "λ", ATTEND_CELL_NUMBER},
    {"error", "rms error", ATTEND_CELL_NUMBER},
    {"predicted", "predicted", ATTEND_CELL_NUMBER},
    {"left", "directions of which half is left", ATTEND_CELL_COUNT},
    {0}};

static attend_status table_of(study_run *r, const gallery *g, const sweep *s) {
  table_store *t;
  TRY(study_table(r, "picture", "The picture, purified with several λ",
                  picture_columns, &t));
  for (int i = 0; i < LAMBDAS; i += 4) {
    int left = 0;
    for (size_t k = 0; k < g->m; k++)
      left += purify_kept(g->s[k], s->lambda[i]) >= 0.5;
    TRY(study_row(t, 4, s->lambda[i], s->error[i], s->predicted[i],
                  (double)left));
  }
  return ATTEND_OK;
}

static attend_status claim_noise(study_run *r, const gallery *g) {
  const size_t cells = g->m * g->n;
  double *square = NULL;
  TAKE(r, &square, cells);
  for (size_t i = 0; i < cells; i++)
    square[i] = pow(g->noisy[i] - g->clean[i], 2);
  study_moments m = study_moments_of(square, cells);
  return study_estimate(r, "noise", "mean square error of the noisy picture",
                        m.mean, g->noise * g->noise, m.mean_error);
}

static int rank_of(const gallery *g) {
  int rank = 0;
  for (size_t i = 0; i < g->m; i++) rank += g->cs[i] > 1e-9 * g->cs[0];
  return rank;
}

attend_status purify_picture(study_run *r) {
  gallery g;
  sweep s;
  TRY(hang(r, &g));
  TRY(study_heading(r, "A picture"));
  TRY(study_say(r,
                "The word is a picture of %zu × %zu cells with rank %d. Normal "
                "noise of standard deviation %g is added to every cell. The "
                "columns are the samples, and W comes from the noisy picture "
                "alone: nobody shows it a clean one.",
                g.m, g.n, rank_of(&g), g.noise));
  TRY(sweep_of(r, &g, &s));
  TRY(plot_pictures(r, &g, &s));
  TRY(table_of(r, &g, &s));
  TRY(claim_noise(r, &g));
  TRY(plot_error(r, &g, &s));
  return study_say(
      r,
      "With λ = %.3g the error falls from %.3g to %.3g. Noise of n samples "
      "adds "
      "n times its variance, here %.3g, to every σ²: a λ below that keeps the "
      "noise, and one near the σ² of the signal takes the word away with it. "
      "The line is what a W from the expected XXᵀ would do; the measured W has "
      "also fitted itself to this noise.",
      s.lambda[s.best], error_of(&g, g.noisy), s.error[s.best],
      (double)g.n * g.noise * g.noise);
}
