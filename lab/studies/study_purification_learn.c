/* Three ways to the same W: singular values, normal equations, and a linear layer
 * that learns.
 *
 * Document 003 1(b), part of the study purification.
 */
#include "studies/purification.h"

enum { MOST_SEEN = 40 };
typedef purify_data data;

/* ---- by equations --------------------------------------------------------------- */

/* W = X X^T (X X^T + lambda I)^-1 by elimination: row by row W A = X X^T, and A
 * is symmetric and positive, so no pivots are needed. */
static attend_status normal_equations(study_run *r, const data *d,
                                      double lambda, double *w) {
  const size_t m = d->m;
  double *a = NULL;
  TAKE(r, &a, m * m);
  for (size_t i = 0; i < m * m; i++) {
    for (size_t t = 0; t < d->n; t++)
      a[i] += d->x[i / m * d->n + t] * d->x[i % m * d->n + t];
    w[i] = a[i];
    if (i % (m + 1) == 0) a[i] += lambda;
  }
  for (size_t k = 0; k < m; k++)
    for (size_t i = 0; i < m; i++) {
      double f = i == k ? 0 : a[i * m + k] / a[k * m + k];
      for (size_t j = 0; f != 0 && j < m; j++) {
        a[i * m + j] -= f * a[k * m + j];
        w[i * m + j] -= f * w[k * m + j];
      }
    }
  for (size_t i = 0; i < m * m; i++) w[i] /= a[i / m * (m + 1)];
  return ATTEND_OK; /* A^-1 X X^T, which is the same: both commute */
}

/* ---- by learning ---------------------------------------------------------------- */

/* |W_t - W|: each direction comes nearer by 1 - 2 eta (sigma^2 + lambda) a step,
 * with eta = 1 / 2(sigma_1^2 + lambda). */
static double predicted_distance(const data *d, double lambda, double step) {
  double sum = 0, steep = d->s[0] * d->s[0] + lambda;
  for (size_t i = 0; i < d->m; i++) {
    double left = 1 - (d->s[i] * d->s[i] + lambda) / steep;
    double e = purify_kept(d->s[i], lambda) * (step > 0 ? pow(left, step) : 1);
    sum += e * e;
  }
  return sqrt(sum);
}

/* A linear layer that learns to give back its input, with weight decay. */
typedef struct {
  int m, n, ld;
  float *x, *y, *w, *dw; /* x, y [n][ld]; w, dw [m][m] */
  void *work;
  attend_linear *layer;
} learner;

static attend_linear_part part_of(const learner *l) {
  return (attend_linear_part){.weight = l->w, .outputs = l->m};
}

static attend_status learner_create(study_run *r, const data *d, learner *l) {
  *l = (learner){.m = (int)d->m, .n = (int)d->n};
  l->ld = (l->m + 15) / 16 * 16;
  TAKE(r, &l->x, d->n * (size_t)l->ld);
  TAKE(r, &l->y, d->n * (size_t)l->ld);
  TAKE(r, &l->w, d->m * d->m);
  TAKE(r, &l->dw, d->m * d->m);
  TRY(study_take(r, attend_linear_weight_grad_bytes(r->ctx, l->n, l->m, l->m),
                 1, &l->work));
  for (size_t i = 0; i < d->m; i++)
    for (size_t t = 0; t < d->n; t++)
      l->x[t * (size_t)l->ld + i] = (float)d->x[i * d->n + t];
  attend_linear_part part = part_of(l);
  return attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, l->m, 1, &part,
                              &l->layer);
}

static attend_status learn(study_run *r, learner *l, double eta,
                           double lambda) {
  attend_linear_forward(l->layer, l->n, l->x, l->ld, l->y, l->ld);
  for (int i = 0; i < l->n * l->ld; i++) l->y[i] -= l->x[i];
  attend_linear_weight_grad(r->ctx, ATTEND_WEIGHTS_F32, l->n, l->m, l->m, l->y,
                            l->ld, l->x, l->ld, 0, 0, l->dw, l->m, NULL,
                            l->work);
  for (int i = 0; i < l->m * l->m; i++)
    l->w[i] -= (float)(2 * eta * ((double)l->dw[i] + lambda * (double)l->w[i]));
  attend_linear_part part = part_of(l);
  return attend_linear_repack(l->layer, 1, &part);
}

static double distance(const float *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++)
    sum += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
  return sqrt(sum);
}

typedef struct {
  size_t count;
  double step[MOST_SEEN], measured[MOST_SEEN], predicted[MOST_SEEN];
} descent;

/* Looks at the distance at steps 1, 2, 3, 5, 7 .. and at the last one. */
static attend_status descend(study_run *r, const data *d, const double *w,
                             double lambda, learner *l, descent *out) {
  const double eta = 0.5 / (d->s[0] * d->s[0] + lambda);
  const int steps = study_count(r, "steps");
  double next = 1;
  for (int i = 1; i <= steps; i++) {
    TRY(learn(r, l, eta, lambda));
    if ((i < next && i < steps) || out->count == MOST_SEEN) continue;
    size_t k = out->count++;
    out->step[k] = i;
    out->measured[k] = distance(l->w, w, d->m * d->m);
    out->predicted[k] = predicted_distance(d, lambda, i);
    while (next <= i) next = ceil(next * 1.4);
    TRY(study_step(r, 0.5 * i / steps));
  }
  return ATTEND_OK;
}

/* ---- side by side ---------------------------------------------------------------- */

static const attend_study_column ways_columns[] = {
    {"lambda", "λ", ATTEND_CELL_NUMBER},
    {"equations", "normal equations: largest difference", ATTEND_CELL_SMALL},
    {"steps", "steps", ATTEND_CELL_COUNT},
    {"distance", "gradient descent: ‖Wₜ − Ŵ‖", ATTEND_CELL_SMALL},
    {"predicted", "predicted", ATTEND_CELL_SMALL},
    {0}};

static attend_status three_ways(study_run *r, const data *d, double lambda,
                                table_store *t, descent *out) {
  double *w = NULL, *other = NULL, most = 0;
  learner l;
  TAKE(r, &w, d->m * d->m);
  TAKE(r, &other, d->m * d->m);
  purify_closed(d->m, d->u, d->s, lambda, w);
  TRY(normal_equations(r, d, lambda, other));
  for (size_t i = 0; i < d->m * d->m; i++)
    if (fabs(w[i] - other[i]) > most) most = fabs(w[i] - other[i]);
  TRY(learner_create(r, d, &l));
  attend_status status = descend(r, d, w, lambda, &l, out);
  attend_linear_free(l.layer);
  TRY(status);
  const size_t last = out->count - 1;
  TRY(study_row(t, 5, lambda, most, out->step[last], out->measured[last],
                out->predicted[last]));
  TRY(study_claim(
      r, study_format(r, "equations-%g", lambda),
      study_format(r, "largest difference of both formulas, λ = %g", lambda),
      most, 0, 1e-8));
  return study_claim(
      r, study_format(r, "descent-%g", lambda),
      study_format(r, "‖Wₜ − Ŵ‖ of gradient descent in f32, λ = %g", lambda),
      out->measured[last], out->predicted[last], 1e-4);
}

static attend_status plot_descent(study_run *r, const double *lambda, size_t n,
                                  const descent *seen) {
  attend_plot_series series[2 * PURIFY_LAMBDAS];
  for (size_t i = 0; i < n; i++) {
    attend_plot_series s = {.name = study_format(r, "λ = %g", lambda[i]),
                            .count = seen[i].count,
                            .x = seen[i].step,
                            .y = seen[i].measured,
                            .points = 2,
                            .colour = (int)i + 1};
    series[2 * i] = s;
    s.name = NULL;
    s.points = 0;
    s.faint = 1;
    s.y = seen[i].predicted;
    series[2 * i + 1] = s;
  }
  attend_plot_panel panel = {
      .title = "Gradient descent: marks measured in f32, lines predicted",
      .x = {.label = "step", .log = 1},
      .y = {.label = "‖Wₜ − Ŵ‖", .log = 1, .low = 1e-8, .high = 10},
      .key = ATTEND_KEY_ABOVE,
      .count = 2 * n,
      .series = series};
  return study_figure(r, "purification-descent",
                      &(attend_plot){.count = 1, .panels = &panel});
}

attend_status purify_ways(study_run *r, const data *d) {
  size_t n;
  const double *lambda = study_list(r, "lambda", &n);
  descent seen[PURIFY_LAMBDAS] = {0};
  table_store *t;
  TRY(study_heading(r, "The best W"));
  TRY(study_say(
      r,
      "Setting the gradient to zero gives `Ŵ = XXᵀ (XXᵀ + λI)⁻¹`, and "
      "with `X = UΣVᵀ` that is `Ŵ = U diag(σ²/(σ²+λ)) Uᵀ`: along each "
      "singular direction W keeps a share. Training gets there too: "
      "a linear layer that learns by gradient descent to give back "
      "its input, with weight decay λ. From W = 0 with step η = "
      "1/2(σ₁²+λ), what a direction still lacks shrinks by 1 − "
      "(σ²+λ)/(σ₁²+λ) in every step."));
  TRY(study_table(r, "ways",
                  study_format(r, "Three ways, X %zu × %zu", d->m, d->n),
                  ways_columns, &t));
  for (size_t i = 0; i < n; i++) TRY(three_ways(r, d, lambda[i], t, &seen[i]));
  TRY(plot_descent(r, lambda, n, seen));
  return study_say(
      r,
      "The slowest direction is the one with the least σ: it comes "
      "nearer by a share of about λ/σ₁² in a step. A larger λ "
      "shrinks more, and is learnt sooner. The layer computes in "
      "f32: its distance stops falling where rounding is "
      "all that is left.");
}
