/* Layer norm and batch norm: what an output depends on, how long it is, and
 * whether gradients of small batches add up to that of a large one.
 */
#include "studies/study.h"

enum { INPUT = 1, LONG = 2, DATA = 3, WEIGHTS = 4, TARGET = 5, MOST = 16 };

static const attend_setting settings[] = {
    {"rows", "5", NULL, "batch B of the table of dependences", WHOLE, 1, 2, 32},
    {"columns", "8", NULL, "width D of it", WHOLE, 1, 2, 32},
    {"d", "4,64,1024", "4,64", "widths whose lengths are measured", WHOLE, MOST, 2, 65536},
    {"gamma", "0.5,3", NULL, "scales of layer norm", REAL, 8, 0.001, 1000},
    {"beta", "0,-2", NULL, "its biases", REAL, 8, -1000, 1000},
    {"batch", "256", "64", "rows whose gradient is accumulated", WHOLE, 1, 2, 8192},
    {"width", "32", NULL, "width of that layer", WHOLE, 1, 2, 512},
    {0}};

/* STORED: batch norm with moments that were averaged before, as models run
 * after training. */
typedef enum { LAYER = 0, BATCH, STORED, KINDS } norm_kind;

static const struct {
  const char *name, *title;
} norms[KINDS] = {{"layer", "layer norm"},
                  {"batch", "batch norm, moments of the batch"},
                  {"stored", "batch norm, stored moments"}};

static const float eps = 1e-5f;

/* moments [2][n]: work of batch norm, given by the caller for stored ones. */
static void normalise(attend_context *ctx, norm_kind kind, int rows, int n, const float *x, int ld,
                      float *moments, float *y) {
  if (kind == LAYER) {
    attend_layer_norm(ctx, rows, n, x, ld, NULL, NULL, eps, y, ld);
    return;
  }
  if (kind == BATCH) attend_batch_moments(ctx, rows, n, x, ld, moments, moments + n);
  attend_batch_norm(ctx, rows, n, x, ld, moments, moments + n, NULL, NULL, eps, y, ld);
}

/* ---- which inputs an output depends on ------------------------------------------------ */

static const char *const parts[4] = {"x(i,j)", "x(i',j)", "x(i,j')", "x(i',j')"};
static const char *const numerals[4] = {"i", "ii", "iii", "iv"};

/* What the document's solution marks. */
static const int marked[KINDS][4] = {
    [LAYER] = {1, 0, 1, 0}, [BATCH] = {1, 1, 0, 0}, [STORED] = {1, 0, 0, 0}};

typedef struct {
  int rows, columns, n;
  double *slope;    /* [n][n] dy/dx, by differences */
  uint8_t *changed; /* [n][n] whether any bit of y did */
  int any[4];       /* by part: pairs that changed */
  double max[4];    /* largest |dy/dx| */
} dependence;

/* Which of the four an output and an input are. */
static int part_of(const dependence *d, int out, int in) {
  const int other_row = out / d->columns != in / d->columns;
  const int other_column = out % d->columns != in % d->columns;
  return other_row + 2 * other_column;
}

static void count_parts(dependence *d) {
  for (int out = 0; out < d->n; out++)
    for (int in = 0; in < d->n; in++) {
      const int p = part_of(d, out, in);
      const double s = fabs(d->slope[out * d->n + in]);
      d->any[p] += d->changed[out * d->n + in];
      if (s > d->max[p]) d->max[p] = s;
    }
}

/* Every input is moved up and down by a step, and the whole output looked at. */
static attend_status differentiate(study_run *r, norm_kind kind, dependence *d) {
  const float step = 1.0f / 32;
  const size_t n = (size_t)d->n;
  float *x = NULL;
  TAKE(r, &x, 3 * n + 2 * (size_t)d->columns);
  float *up = x + n, *down = up + n, *moments = down + n;
  study_normal(r, INPUT, 0, n, x);
  attend_batch_moments(r->ctx, d->rows, d->columns, x, d->columns, moments, moments + d->columns);
  for (int in = 0; in < d->n; in++) {
    const float kept = x[in], high = kept + step, low = kept - step;
    x[in] = high;
    normalise(r->ctx, kind, d->rows, d->columns, x, d->columns, moments, up);
    x[in] = low;
    normalise(r->ctx, kind, d->rows, d->columns, x, d->columns, moments, down);
    x[in] = kept;
    for (int out = 0; out < d->n; out++) {
      d->slope[out * d->n + in] =
          ((double)up[out] - (double)down[out]) / ((double)high - (double)low);
      d->changed[out * d->n + in] = memcmp(&up[out], &down[out], sizeof *up) != 0;
    }
  }
  count_parts(d);
  return ATTEND_OK;
}

static attend_status depend(study_run *r, norm_kind kind, dependence *d) {
  *d = (dependence){.rows = study_count(r, "rows"), .columns = study_count(r, "columns")};
  d->n = d->rows * d->columns;
  TAKE(r, &d->slope, (size_t)d->n * (size_t)d->n);
  TAKE(r, &d->changed, (size_t)d->n * (size_t)d->n);
  return differentiate(r, kind, d);
}

static const attend_study_column depend_columns[] = {{"part", "part", TEXT},
                                                     {"input", "y(i,j) depends on", TEXT},
                                                     {"layer", "layer norm", TEXT},
                                                     {"layer_slope", "largest |∂y/∂x|", NUMBER},
                                                     {"batch", "batch norm", TEXT},
                                                     {"batch_slope", "largest |∂y/∂x|", NUMBER},
                                                     {"stored", "batch norm, stored moments", TEXT},
                                                     {"stored_slope", "largest |∂y/∂x|", NUMBER},
                                                     {0}};

static attend_status say_dependences(study_run *r, const dependence *d) {
  table_store *t;
  TRY(study_table(r, &t, "depends", depend_columns,
                  "Changes of y when one x moves, X of %d rows and %d columns (i' ≠ i, j' ≠ j)",
                  d->rows, d->columns));
  for (int p = 0; p < 4; p++) {
    TRY(study_word(t, study_format(r, "(%s)", numerals[p])));
    TRY(study_word(t, parts[p]));
    for (int k = 0; k < KINDS; k++) {
      TRY(study_word(t, d[k].any[p] ? "yes" : "no"));
      TRY(study_cell(t, d[k].max[p]));
      TRY(study_claim(r, d[k].any[p] > 0, marked[k][p], 0,
                      "depends-%s-%s: %s: y(i,j) depends on %s", norms[k].name, numerals[p],
                      norms[k].title, parts[p]));
    }
  }
  return ATTEND_OK;
}

static attend_plot_panel slopes(const dependence *d, const char *title) {
  const size_t n = (size_t)d->n;
  attend_plot_panel panel = study_heat(title, "input x, row after row", "output y", n, n, d->slope,
                                       (attend_plot_axis){0});
  panel.diverging = 1;
  return panel;
}

static attend_status dependences(study_run *r) {
  dependence d[KINDS];
  for (int k = 0; k < KINDS; k++) TRY(depend(r, (norm_kind)k, &d[k]));
  TRY(study_say(r,
                "Layer norm takes mean and variance over the elements of a row, batch norm over "
                "the rows of a column. Which inputs does $y(i,j)$ depend on? Each input is moved a "
                "little, and whatever output changes by a single bit depends on it."));
  TRY(say_dependences(r, d));
  attend_plot_panel panels[] = {slopes(&d[LAYER], "Layer norm: ∂y/∂x"),
                                slopes(&d[BATCH], "Batch norm: ∂y/∂x")};
  TRY(study_plot(r, "norms-slopes", 2, panels));
  return study_say(r,
                   "Layer norm: (i) and (iii). Batch norm: (i) and (ii). The pictures are the "
                   "whole Jacobians: blocks of a row with itself, and diagonals that join equal "
                   "columns of all rows. After training batch norm uses moments that it averaged "
                   "before, and then an output depends on its own input alone, (i): the model that "
                   "is tested is not the one that was trained. Layer norm is the same in both.");
}

/* ---- how long the output is ------------------------------------------------------------ */

static const attend_study_column length_columns[] = {{"d", "d", COUNT},
                                                     {"gamma", "γ", NUMBER},
                                                     {"beta", "β", NUMBER},
                                                     {"length", "‖y − β1‖", NUMBER},
                                                     {"predicted", "γ√d", NUMBER},
                                                     {"mean", "mean of y", NUMBER},
                                                     {0}};

/* |y - beta 1| of the layer norm of a row with this deviation. */
static attend_status length_of(study_run *r, int d, double sigma, double gamma, double beta,
                               float e, double *mean, double *length) {
  const size_t n = (size_t)d;
  float *x = NULL;
  double sum = 0, squares = 0;
  TAKE(r, &x, 4 * n);
  float *y = x + n, *weight = y + n, *bias = weight + n;
  study_normal(r, LONG, 0, n, x);
  for (size_t i = 0; i < n; i++) {
    x[i] = (float)(sigma * (double)x[i]);
    weight[i] = (float)gamma;
    bias[i] = (float)beta;
  }
  attend_layer_norm(r->ctx, 1, d, x, d, weight, bias, e, y, d);
  for (size_t i = 0; i < n; i++) {
    sum += (double)y[i];
    squares += ((double)y[i] - beta) * ((double)y[i] - beta);
  }
  *mean = sum / d;
  *length = sqrt(squares);
  return ATTEND_OK;
}

/* Rounding of y is relative to its elements, |gamma z + beta|. */
static attend_status length_row(study_run *r, table_store *t, double d, double gamma, double beta) {
  const double predicted = gamma * sqrt(d);
  double mean, length;
  TRY(length_of(r, (int)d, 5, gamma, beta, 0, &mean, &length));
  TRY(study_row(t, d, gamma, beta, length, predicted, mean));
  return study_claim(r, length, predicted, 4e-6 * (gamma + fabs(beta)) * sqrt(d),
                     "length-d%g-gamma%g-beta%g: |y - beta 1| at d = %g, gamma = %g, beta = %g", d,
                     gamma, beta, d, gamma, beta);
}

static attend_status lengths(study_run *r) {
  size_t nd, ng, nb;
  const double *d = study_list(r, "d", &nd);
  const double *gamma = study_list(r, "gamma", &ng);
  const double *beta = study_list(r, "beta", &nb);
  table_store *t;
  TRY(study_table(r, &t, "lengths", length_columns, "Layer norm of random rows, ε = 0"));
  for (size_t i = 0; i < nd; i++)
    for (size_t g = 0; g < ng; g++)
      for (size_t b = 0; b < nb; b++) TRY(length_row(r, t, d[i], gamma[g], beta[b]));
  return ATTEND_OK;
}

enum { SPREADS = 11, FINE = 10, LINE = (SPREADS - 1) * FINE + 1 };

/* With eps: gamma sqrt(d s^2 / (s^2 + eps)), s the deviation of the row. */
static attend_status shrink(study_run *r) {
  size_t nd;
  const double *list = study_list(r, "d", &nd);
  const int d = (int)list[nd - 1];
  double sigma[LINE], predicted[LINE], at[SPREADS], share[SPREADS];
  double mean, worst = 0;
  float *x, moments[2];
  TRY(study_draw(r, LONG, (size_t)d, &x));
  attend_batch_moments(r->ctx, d, 1, x, 1, moments, moments + 1);
  for (int i = 0; i < LINE; i++) {
    sigma[i] = pow(10, -4 + 0.5 * i / FINE);
    const double v = sigma[i] * sigma[i] * (double)moments[1];
    predicted[i] = sqrt(v / (v + (double)eps));
    if (i % FINE) continue;
    at[i / FINE] = sigma[i];
    TRY(length_of(r, d, sigma[i], 1, 0, eps, &mean, &share[i / FINE]));
    share[i / FINE] /= sqrt((double)d);
    worst = fmax(worst, fabs(share[i / FINE] / predicted[i] - 1));
  }
  TRY(study_claim(r, worst, 0, 2e-5, "eps: ‖y − β1‖ with ε over γ√(d s²/(s² + ε)), less 1"));
  attend_plot_series series[] = {{.name = "predicted: √(s²/(s² + ε))", LINE, sigma, predicted},
                                 {"measured", SPREADS, at, share, .points = 2}};
  attend_plot_panel panel =
      study_lines(study_format(r, "Length of a normed row, ε = %g, d = %d", (double)eps, d),
                  study_log("standard deviation of the elements of x"),
                  study_range("‖y − β1‖ / (γ√d)", 0, 1.1), 2, series);
  return study_plot(r, "norms-length", 1, &panel);
}

/* ---- gradients of small batches ----------------------------------------------------------- */

/* y = norm(u W^T), loss = |y - target|^2 / 2, and its gradient by W. */
typedef struct {
  int batch, n, ld;
  float *u, *target;         /* [batch][ld] */
  float *w;                  /* [n][n] */
  float *a, *y, *dy;         /* [batch][ld] work */
  float *moments, *gradient; /* [2][n], [n][n] */
  void *work;
  attend_linear *linear;
} layer;

static attend_status make_layer(study_run *r, layer *l) {
  *l = (layer){.batch = study_count(r, "batch"), .n = study_count(r, "width")};
  l->ld = study_padded(l->n);
  const size_t rows = (size_t)l->batch * (size_t)l->ld, square = (size_t)l->n * (size_t)l->n;
  TRY(study_draw(r, DATA, rows, &l->u));
  TRY(study_draw(r, TARGET, rows, &l->target));
  TRY(study_draw(r, WEIGHTS, square, &l->w));
  TAKE(r, &l->a, rows);
  TAKE(r, &l->y, rows);
  TAKE(r, &l->dy, rows);
  TAKE(r, &l->gradient, square);
  TAKE(r, &l->moments, 2 * (size_t)l->n);
  TRY(study_take(r, attend_linear_weight_grad_bytes(r->ctx, l->batch, l->n, l->n) + 1, 1,
                 &l->work));
  return study_linear(r, l->n, l->n, l->w, &l->linear);
}

/* The gradient of rows [from, from + rows) is added to l->gradient. */
static void add_gradient(attend_context *ctx, layer *l, norm_kind kind, int from, int rows) {
  const size_t at = (size_t)from * (size_t)l->ld;
  const int n = l->n, ld = l->ld;
  attend_linear_forward(l->linear, rows, l->u + at, ld, l->a, ld);
  normalise(ctx, kind, rows, n, l->a, ld, l->moments, l->y);
  for (int i = 0; i < rows * ld; i++)
    l->dy[i] = i % ld < n ? l->y[i] - l->target[at + (size_t)i] : 0;
  if (kind == LAYER)
    attend_layer_norm_backward(ctx, rows, n, l->a, ld, NULL, eps, l->dy, ld, 0, l->dy, ld, NULL,
                               NULL, NULL);
  else
    attend_batch_norm_backward(ctx, rows, n, l->a, ld, l->moments, l->moments + n, NULL, eps, l->dy,
                               ld, 0, l->dy, ld, NULL, NULL);
  attend_linear_weight_grad(ctx, ATTEND_WEIGHTS_F32, rows, n, n, l->dy, ld, l->u + at, ld, 0, 1,
                            l->gradient, n, NULL, l->work);
}

/* |sum over batches of `rows` - gradient of all| / |gradient of all|. */
static double difference(attend_context *ctx, layer *l, norm_kind kind, int rows,
                         const float *whole) {
  const size_t n = (size_t)l->n * (size_t)l->n;
  memset(l->gradient, 0, n * sizeof *l->gradient);
  for (int i = 0; i < l->batch; i += rows)
    add_gradient(ctx, l, kind, i, rows < l->batch - i ? rows : l->batch - i);
  return study_distance(l->gradient, whole, n);
}

static const attend_study_column accumulate_columns[] = {{"rows", "rows of a small batch", COUNT},
                                                         {"layer", "layer norm", SMALL},
                                                         {"batch", "batch norm", SMALL},
                                                         {0}};

enum { SIZES = 14 };

static attend_status accumulate(study_run *r, layer *l, double *size, double off[2][SIZES],
                                size_t *count) {
  const size_t n = (size_t)l->n * (size_t)l->n;
  float *whole = NULL;
  TAKE(r, &whole, 2 * n);
  for (int k = 0; k < 2; k++) {
    memset(l->gradient, 0, n * sizeof *whole);
    add_gradient(r->ctx, l, (norm_kind)k, 0, l->batch);
    memcpy(whole + (size_t)k * n, l->gradient, n * sizeof *whole);
  }
  for (int m = 1; m < l->batch; m *= 2, ++*count) {
    size[*count] = m;
    for (int k = 0; k < 2; k++)
      off[k][*count] = difference(r->ctx, l, (norm_kind)k, m, whole + (size_t)k * n);
    TRY(study_step(r, 0.3 + 0.7 * m / l->batch));
  }
  return ATTEND_OK;
}

static attend_status claim_sums(study_run *r, const double *size, double off[2][SIZES],
                                size_t count) {
  for (size_t i = 0; i < count; i++) {
    const int m = (int)size[i];
    TRY(study_claim(r, off[LAYER][i], 0, 2e-5,
                    "sum-layer-%d: layer norm: batches of %d against one, |Δ|/|∇|", m, m));
    TRY(study_claim(r, off[BATCH][i] > 1e-3, 1, 0,
                    "differs-batch-%d: batch norm: batches of %d give another gradient", m, m));
  }
  return study_claim(r, off[BATCH][0], 1, 1e-6,
                     "batch-of-one: batch norm: |Δ|/|∇| with batches of 1, whose gradient is 0");
}

static attend_status say_sums(study_run *r, const layer *l, const double *size,
                              double off[2][SIZES], size_t n) {
  table_store *t;
  TRY(study_table(r, &t, "accumulation", accumulate_columns,
                  "Sum of the gradients of small batches against that of all %d rows: ‖difference‖ "
                  "/ ‖gradient‖",
                  l->batch));
  for (size_t i = 0; i < n; i++) TRY(study_row(t, size[i], off[LAYER][i], off[BATCH][i]));
  attend_plot_series series[] = {{"batch norm", n, size, off[BATCH], .points = 1},
                                 {"layer norm", n, size, off[LAYER], .points = 1, .dashed = 1}};
  attend_plot_panel panel = study_lines(
      study_format(r, "Gradient of %d rows, accumulated", l->batch),
      study_log("rows of a small batch"), study_log("‖difference‖ / ‖gradient‖"), 2, series);
  panel.key = ATTEND_KEY_AUTO;
  return study_plot(r, "norms-accumulation", 1, &panel);
}

static attend_status small_batches(study_run *r, layer *l) {
  double size[SIZES], off[2][SIZES];
  size_t n = 0;
  TRY(accumulate(r, l, size, off, &n));
  TRY(claim_sums(r, size, off, n));
  TRY(study_say(
      r,
      "Where a batch of %d rows does not fit, one adds up the gradients of small batches. With "
      "layer norm a row's loss depends on that row alone, so the sum is the gradient of the whole. "
      "With batch norm every small batch has moments of its own: another function is "
      "differentiated. Here a linear layer, a norm and a squared error: with batches of %d rows "
      "batch norm's gradient is off by %.1f %%, layer norm's by %.0e, which is rounding. With one "
      "row batch norm gives y = β whatever x is, and no gradient comes through at all; with two it "
      "gives β ± γ, flat but for a step of width √ε where both rows are alike, which is steep.",
      l->batch, (int)size[n - 1], 100 * off[BATCH][n - 1], off[LAYER][n - 1]));
  return say_sums(r, l, size, off, n);
}

static attend_status run(study_run *r) {
  layer l;
  TRY(dependences(r));
  TRY(study_heading(r, "A normed row has one length"));
  TRY(study_say(r,
                "$z = (x − μ1) / σ$ has mean 0 and mean square 1, so $‖z‖ = √d$ and $‖y − β1‖ = "
                "γ√d$, whatever "
                "x was: the outputs lie on a sphere around β1, in the plane of mean β."));
  TRY(lengths(r));
  TRY(study_say(r,
                "That is with ε = 0, where a row of equal elements would be 0/0. With ε = %g the "
                "length is $γ√(d s²/(s² + ε))$, s² the variance of the row: it falls below γ√d "
                "once s comes near √ε = %.2g.",
                (double)eps, sqrt((double)eps)));
  TRY(shrink(r));
  TRY(study_heading(r, "Accumulated gradients"));
  TRY(make_layer(r, &l));
  return small_batches(r, &l);
}

const study_topic study_norms = {
    {.name = "norms",
     .title = "Layer norm and batch norm",
     .question = "Which inputs does a normed output depend on, how long is it, and do gradients of "
                 "small batches add up?",
     .answers = "worksheet 3(a), (b)",
     .settings = settings},
    run};
