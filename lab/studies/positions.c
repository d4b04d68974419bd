/* Sinusoidal positions: a step is one matrix, which is a row of rotations; a dot
 * product is a function of the distance.
 */
#include "studies/study.h"

enum { MOST_STEPS = 16, SHOWN = 48, CORNER = 12 };
/* Half of the last place of a float in [1/2, 1): what rounding may change. */
static const double half_ulp = 1.0 / (1 << 25);

static const attend_setting settings[] = {
    {"d", "64", "32", "width of an encoding, even", ATTEND_SETTING_WHOLE, 1, 4, 1024},
    {"positions", "1200", "200", "positions that are encoded", ATTEND_SETTING_WHOLE, 1, 2, 4096},
    {"steps", "1,4,16,64,256,1024", "1,8,64",
     "how often M is applied, and distances of dot products", ATTEND_SETTING_WHOLE, MOST_STEPS, 1,
     4095},
    {"shift", "5", NULL, "how many tokens back a head is made to look", ATTEND_SETTING_WHOLE, 1, 0,
     4095},
    {"scale", "0.125,1,4,16", "1,4", "factors of the score of that head", ATTEND_SETTING_NUMBERS, 8,
     0.01, 1000},
    {0}};

typedef struct {
  int d, ld, n;        /* ld: d as the linear layer wants it */
  double *omega;       /* [d/2] */
  float *p;            /* [n][ld] the library's encodings */
  attend_linear *step; /* x M^T */
} world;

static double angle(const world *w, int t, int i) { return (double)t * w->omega[i]; }

/* Element j of position t by the formula. */
static double formula(const world *w, int t, int j) {
  return j % 2 ? cos(angle(w, t, j / 2)) : sin(angle(w, t, j / 2));
}

static attend_status make_world(study_run *r, world *w) {
  *w = (world){.d = study_count(r, "d"), .n = study_count(r, "positions")};
  if (w->d % 2)
    return study_fail(r, ATTEND_INVALID, "d = %d is odd: sines and cosines come in pairs", w->d);
  w->ld = (w->d + 15) / 16 * 16;
  TAKE(r, &w->omega, (size_t)w->d / 2);
  TAKE(r, &w->p, (size_t)w->n * (size_t)w->ld);
  for (int i = 0; i < w->d / 2; i++) w->omega[i] = pow(10000, -2.0 * i / w->d);
  for (int t = 0; t < w->n; t++) attend_sinusoidal(t, w->d, w->p + (size_t)t * (size_t)w->ld);
  return ATTEND_OK;
}

/* M^k: blocks that turn the pair (sin, cos) by k omega. */
static void matrix_of(const world *w, int k, float *m /* [d][d] */) {
  for (int i = 0; i < w->d / 2; i++) {
    float *row = m + (size_t)(2 * i) * (size_t)w->d + 2 * i;
    const float c = (float)cos(angle(w, k, i)), s = (float)sin(angle(w, k, i));
    row[0] = row[w->d + 1] = c;
    row[1] = s;
    row[w->d] = -s;
  }
}

static attend_status linear_of(study_run *r, const world *w, int k, attend_linear **linear) {
  float *m = NULL;
  TAKE(r, &m, (size_t)w->d * (size_t)w->d);
  matrix_of(w, k, m);
  attend_linear_part part = {.weight = m, .outputs = w->d};
  return attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, w->d, 1, &part, linear);
}

/* ---- one step, and many ------------------------------------------------------------- */

/* The largest |x_t - p_{t+k}| of rows that have such a p. */
static double step_error(const world *w, const float *x, int k, int t0, int t1) {
  double most = 0;
  for (int t = t0; t < t1 && t + k < w->n; t++)
    for (int j = 0; j < w->d; j++) {
      double e = fabs((double)x[t * w->ld + j] - formula(w, t + k, j));
      if (e > most) most = e;
    }
  return most;
}

/* M applied k times to p_0 in double. */
static double double_error(const world *w, int k) {
  double most = 0;
  for (int i = 0; i < w->d / 2; i++) {
    const double c = cos(w->omega[i]), s = sin(w->omega[i]);
    double x = 0, y = 1;
    for (int t = 0; t < k; t++) {
      double turned = c * x + s * y;
      y = c * y - s * x;
      x = turned;
    }
    double e = hypot(x - formula(w, k, 2 * i), y - formula(w, k, 2 * i + 1));
    if (e > most) most = e;
  }
  return most;
}

static const attend_study_column step_columns[] = {
    {"k", "steps k", ATTEND_CELL_COUNT},
    {"f32", "M applied k times, f32", ATTEND_CELL_SMALL},
    {"double", "M applied k times, double", ATTEND_CELL_SMALL},
    {"jump", "Mᵏ applied once, f32", ATTEND_CELL_SMALL},
    {0}};

typedef struct {
  double k[MOST_STEPS], f32[MOST_STEPS], exact[MOST_STEPS], jump[MOST_STEPS];
  size_t count;
} errors;

static attend_status jump_error(study_run *r, const world *w, int k, float *work, double *error) {
  attend_linear *linear = NULL;
  TRY(linear_of(r, w, k, &linear));
  attend_linear_forward(linear, w->n, w->p, w->ld, work, w->ld);
  attend_linear_free(linear);
  *error = step_error(w, work, k, 0, w->n);
  return ATTEND_OK;
}

/* Rounding may change an element by 5 half places a step: two entries of M, two
 * products, a sum; turning carries the error on and does not make it grow. */
static attend_status claim_steps(study_run *r, const errors *e, size_t i) {
  int k = (int)e->k[i];
  TRY(study_claim(r, study_format(r, "steps-%d", k),
                  study_format(r, "|M^k p_t - p_(t+k)|, k = %d times in f32", k), e->f32[i], 0,
                  (10.0 * k + 4) * half_ulp));
  TRY(study_claim(r, study_format(r, "steps-double-%d", k),
                  study_format(r, "the same, k = %d, in double", k), e->exact[i], 0,
                  (10.0 * k + 8) * ldexp(1, -53)));
  return study_claim(r, study_format(r, "jump-%d", k),
                     study_format(r, "M^k by its angles, k = %d, applied once", k), e->jump[i], 0,
                     14 * half_ulp);
}

static attend_status walk(study_run *r, const world *w, errors *e) {
  size_t n, room = (size_t)w->n * (size_t)w->ld;
  const double *steps = study_list(r, "steps", &n);
  float *x = NULL;
  int done = 0;
  TAKE(r, &x, 3 * room);
  float *y = x + room, *work = y + room;
  memcpy(x, w->p, room * sizeof *x);
  for (size_t i = 0; i < n; i++) {
    const int k = (int)steps[i];
    if (k < done || k >= w->n) continue; /* rising, and there is such a p */
    for (; done < k; done++) {
      attend_linear_forward(w->step, w->n - done, x, w->ld, y, w->ld);
      float *old = x;
      x = y;
      y = old;
    }
    const size_t at = e->count++;
    e->k[at] = k;
    e->f32[at] = step_error(w, x, k, 0, w->n);
    e->exact[at] = double_error(w, k);
    TRY(jump_error(r, w, k, work, &e->jump[at]));
    TRY(claim_steps(r, e, at));
    TRY(study_step(r, 0.6 * (double)(i + 1) / (double)n));
  }
  return ATTEND_OK;
}

static attend_status say_steps(study_run *r, const errors *e) {
  table_store *t;
  TRY(study_table(r, "steps",
                  "Largest error of an element, over all positions t, after k "
                  "steps",
                  step_columns, &t));
  for (size_t i = 0; i < e->count; i++)
    TRY(study_row(t, 4, e->k[i], e->f32[i], e->exact[i], e->jump[i]));
  attend_plot_series series[] = {
      {"M k times, f32", e->count, e->k, e->f32, .points = 1},
      {"Mᵏ once, f32", e->count, e->k, e->jump, .points = 1, .dashed = 1},
      {"M k times, double", e->count, e->k, e->exact, .points = 1}};
  attend_plot_panel panel = {.title = "Distance from p(t+k) after k steps from p(t)",
                             .x = {.label = "k", .log = 1},
                             .y = {.label = "largest error of an element", .log = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = 3,
                             .series = series};
  return study_figure(r, "positions-steps", &(attend_plot){.count = 1, .panels = &panel});
}

/* ---- one step over t ------------------------------------------------------------------ */

static attend_status check_one(study_run *r, const world *w) {
  const size_t room = (size_t)w->n * (size_t)w->ld;
  float *x = NULL;
  TAKE(r, &x, room);
  TRY(study_claim(r, "formula", "the library's p_t against sin and cos in double",
                  step_error(w, w->p, 0, 0, w->n), 0, half_ulp * 1.0001));
  attend_linear_forward(w->step, w->n, w->p, w->ld, x, w->ld);
  TRY(study_claim(r, "step", "|M p_t - p_(t+1)| over all t", step_error(w, x, 1, 0, w->n), 0,
                  14 * half_ulp));
  return study_say(r,
                   "The encoding of position t has pairs `sin(ωᵢ t), cos(ωᵢ t)` with `ωᵢ = "
                   "10000^(-2i/d)`. By the sums of angles `sin(ω(t+1)) = cos ω sin ωt + sin "
                   "ω cos ωt` and `cos(ω(t+1)) = -sin ω sin ωt + cos ω cos ωt`, so that "
                   "`p(t+1) = M p(t)` with blocks `[cos ωᵢ, sin ωᵢ; -sin ωᵢ, cos ωᵢ]` on "
                   "the diagonal of M and zeros elsewhere. M knows nothing of t. Over %d "
                   "positions of width %d, one step is wrong by at most %.1e, early and "
                   "late alike: at most %.1e in the first half of the positions, %.1e in "
                   "the second. A float rounds by up to %.1e.",
                   w->n, w->d, step_error(w, x, 1, 0, w->n), step_error(w, x, 1, 0, w->n / 2),
                   step_error(w, x, 1, w->n / 2, w->n), half_ulp);
}

static attend_plot_panel heat(const char *title, const char *down, int rows, int columns,
                              const double *cells) {
  return (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                             .title = title,
                             .x = {.label = "element"},
                             .y = {.label = down},
                             .rows = (size_t)rows,
                             .columns = (size_t)columns,
                             .cells = cells,
                             .z = {.low = -1, .high = 1},
                             .diverging = 1};
}

static attend_status draw_matrices(study_run *r, const world *w) {
  const int rows = w->n < SHOWN ? w->n : SHOWN;
  const int corner = w->d < CORNER ? w->d : CORNER;
  double *p = NULL, *m = NULL;
  float *whole = NULL;
  TAKE(r, &p, (size_t)rows * (size_t)w->d);
  TAKE(r, &m, (size_t)corner * (size_t)corner);
  TAKE(r, &whole, (size_t)w->d * (size_t)w->d);
  matrix_of(w, 1, whole);
  for (int t = 0; t < rows; t++)
    for (int j = 0; j < w->d; j++) p[t * w->d + j] = (double)w->p[t * w->ld + j];
  for (int i = 0; i < corner; i++)
    for (int j = 0; j < corner; j++) m[i * corner + j] = (double)whole[i * w->d + j];
  attend_plot_panel panels[] = {
      heat(study_format(r, "p(t), t = 0 to %d", rows - 1), "position t", rows, w->d, p),
      heat(study_format(r, "M, its first %d rows and columns", corner), "row", corner, corner, m)};
  return study_figure(r, "positions-matrices",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

/* ---- dot products --------------------------------------------------------------------- */

static double predicted_dot(const world *w, int k) {
  double sum = 0;
  for (int i = 0; i < w->d / 2; i++) sum += cos(angle(w, k, i));
  return sum;
}

/* P P^T by the linear layer whose weights are P. */
static attend_status all_dots(study_run *r, const world *w, int ld, float *dots) {
  attend_linear *linear = NULL;
  attend_linear_part part = {
      .weight = w->p, .outputs = w->n, .output_stride = w->ld, .input_stride = 1};
  TRY(attend_linear_create(r->ctx, ATTEND_WEIGHTS_F32, w->d, 1, &part, &linear));
  attend_linear_forward(linear, w->n, w->p, w->ld, dots, ld);
  attend_linear_free(linear);
  return ATTEND_OK;
}

static const attend_study_column dot_columns[] = {
    {"k", "distance k", ATTEND_CELL_COUNT},
    {"predicted", "Σ cos(ωᵢ k)", ATTEND_CELL_NUMBER},
    {"least", "least p(t)·p(t+k)", ATTEND_CELL_NUMBER},
    {"most", "most", ATTEND_CELL_NUMBER},
    {"error", "largest error", ATTEND_CELL_SMALL},
    {0}};

static attend_status dot_row(study_run *r, const world *w, const float *dots, int ld, int k,
                             table_store *t) {
  const double predicted = predicted_dot(w, k);
  double least = INFINITY, most = -INFINITY;
  for (int i = 0; i + k < w->n; i++) {
    const double x = (double)dots[(size_t)i * (size_t)ld + (size_t)(i + k)];
    if (x < least) least = x;
    if (x > most) most = x;
  }
  const double error = fmax(most - predicted, predicted - least);
  TRY(study_row(t, 5, (double)k, predicted, least, most, error));
  /* d products, d sums and both factors rounded; the sizes sum to d/2. */
  return study_claim(r, study_format(r, "dot-%d", k),
                     study_format(r, "p_t.p_(t+%d) - sum of cos(omega_i %d), worst t", k, k), error,
                     0, (w->d + 4.0) * half_ulp * w->d);
}

static attend_status plot_dots(study_run *r, const world *w, const float *dots, int ld) {
  const int most = w->n / 2 < 128 ? w->n / 2 : 128, far = w->n - 1 - most;
  const size_t n = (size_t)most + 1;
  double *x = NULL;
  TAKE(r, &x, 4 * n);
  double *line = x + n, *near = line + n, *late = near + n;
  for (int k = 0; k <= most; k++) {
    x[k] = k;
    line[k] = predicted_dot(w, k);
    near[k] = k % 4 ? NAN : (double)dots[k];
    late[k] = k % 4 != 2 ? NAN : (double)dots[(size_t)far * (size_t)ld + (size_t)(far + k)];
  }
  attend_plot_series series[] = {
      {"predicted: Σ cos(ω k)", n, x, line, .points = 0},
      {"measured at t = 0", n, x, near, .points = 2},
      {study_format(r, "measured at t = %d", far), n, x, late, .points = 2}};
  attend_plot_panel panel = {.title = "Dot products of encodings depend on the distance alone",
                             .x = {.label = "distance k"},
                             .y = {.label = "p(t)·p(t+k)", .zero = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = 3,
                             .series = series};
  return study_figure(r, "positions-dots", &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status dot_products(study_run *r, const world *w) {
  size_t n;
  const double *steps = study_list(r, "steps", &n);
  const int ld = (w->n + 15) / 16 * 16;
  float *dots = NULL;
  table_store *t;
  TAKE(r, &dots, (size_t)w->n * (size_t)ld);
  TRY(all_dots(r, w, ld, dots));
  TRY(study_table(r, "dots", "Dot products over all t, by distance", dot_columns, &t));
  TRY(dot_row(r, w, dots, ld, 0, t));
  for (size_t i = 0; i < n; i++)
    if ((int)steps[i] < w->n) TRY(dot_row(r, w, dots, ld, (int)steps[i], t));
  TRY(study_claim(r, "length", "|p_t|^2 at the last t",
                  (double)dots[(size_t)(w->n - 1) * (size_t)(ld + 1)], w->d / 2.0,
                  (w->d + 4.0) * half_ulp * w->d));
  return plot_dots(r, w, dots, ld);
}

/* ---- a head that looks k back ------------------------------------------------------------ */

typedef struct {
  int right;              /* rows whose heaviest key is that token */
  double last, predicted; /* weight on it in the last row */
} looking;

/* The last row's weight on its target if scores are sums of cosines. */
static double predicted_weight(const world *w, int shift, double scale) {
  double sum = 0;
  for (int j = 0; j < w->n; j++)
    sum += exp(scale * (predicted_dot(w, w->n - 1 - shift - j) - w->d / 2.0));
  return 1 / sum;
}

static attend_status look_with(study_run *r, const world *w, attend_plan *plan, const float *q,
                               int shift, looking *l) {
  const size_t n = (size_t)w->n;
  float *lse = NULL;
  int32_t *top = NULL;
  TAKE(r, &lse, n * (size_t)(w->d + 2));
  float *weight = lse + n, *o = weight + n;
  TAKE(r, &top, n);
  const attend_view rows = {(void *)w->p, {0, 0, w->ld, 1}}, turned = {(void *)q, {0, 0, w->ld, 1}};
  const attend_observation look = {ATTEND_INIT(attend_observation), .top = 1, .top_index = top,
                                   .top_weight = weight};
  TRY(attend_forward(plan, turned, rows, rows, attend_bhtd(o), lse));
  TRY(attend_observe(plan, turned, rows, lse, &look));
  for (int t = shift; t < w->n; t++) l->right += top[t] == t - shift;
  l->last = (double)weight[w->n - 1];
  return ATTEND_OK;
}

static attend_status look_back(study_run *r, const world *w, const float *q, double scale,
                               looking *l) {
  const int shift = study_count(r, "shift");
  attend_desc d = {ATTEND_INIT(attend_desc), .q_len = w->n, .kv_len = w->n, .dim = w->d,
                   .scale = (float)scale};
  attend_plan *plan = NULL;
  *l = (looking){.predicted = predicted_weight(w, shift, scale)};
  TRY(attend_plan_create(r->ctx, &d, &plan));
  attend_status status = look_with(r, w, plan, q, shift, l);
  attend_plan_free(plan);
  return status;
}

static const attend_study_column look_columns[] = {
    {"scale", "factor of the score", ATTEND_CELL_NUMBER},
    {"right", "rows whose heaviest key is t - k", ATTEND_CELL_COUNT},
    {"rows", "of", ATTEND_CELL_COUNT},
    {"last", "weight on it at the last t", ATTEND_CELL_NUMBER},
    {"predicted", "predicted", ATTEND_CELL_NUMBER},
    {0}};

static attend_status relative_head(study_run *r, const world *w) {
  const int shift = study_count(r, "shift");
  const double rows = w->n - shift;
  size_t n;
  const double *scales = study_list(r, "scale", &n);
  attend_linear *back = NULL;
  float *q = NULL;
  table_store *t;
  TAKE(r, &q, (size_t)w->n * (size_t)w->ld);
  TRY(linear_of(r, w, -shift, &back));
  attend_linear_forward(back, w->n, w->p, w->ld, q, w->ld);
  attend_linear_free(back);
  TRY(study_table(r, "relative",
                  study_format(r, "A head with W_q = M⁻ᵏ and W_k = I, k = %d", shift), look_columns,
                  &t));
  for (size_t i = 0; i < n; i++) {
    looking l;
    TRY(look_back(r, w, q, scales[i], &l));
    TRY(study_row(t, 5, scales[i], (double)l.right, rows, l.last, l.predicted));
    TRY(study_claim(r, study_format(r, "relative-%g", scales[i]),
                    "share of rows whose heaviest key is k back", l.right / rows, 1, 0));
    TRY(study_claim(r, study_format(r, "relative-weight-%g", scales[i]),
                    "weight on it at the last position", l.last, l.predicted,
                    (2e-6 + scales[i] * (w->d + 16.0) * half_ulp * w->d) * l.predicted));
    TRY(study_step(r, 0.7 + 0.3 * (double)(i + 1) / (double)n));
  }
  return ATTEND_OK;
}

static attend_status measure(study_run *r, const world *w) {
  errors *e = NULL;
  TAKE(r, &e, 1);
  TRY(check_one(r, w));
  TRY(draw_matrices(r, w));
  TRY(walk(r, w, e));
  TRY(study_heading(r, "Many steps"));
  TRY(study_say(r,
                "k steps are `M^k`, whose blocks turn by `k ωᵢ`. Turning "
                "keeps lengths, so errors do not blow up: each step adds "
                "its own rounding and no more, at most in proportion to k. "
                "The jump by `M^k`, made from its angles, is one product "
                "and stays at the rounding of one."));
  TRY(say_steps(r, e));
  TRY(study_heading(r, "Dot products and distance"));
  TRY(study_say(r,
                "Since `M` is orthogonal, `p(t)·p(t+k) = Σ cos(ωᵢ k)`: it "
                "depends on the distance alone, is the same to both sides, "
                "and is largest, d/2 = %g, at distance 0. So all encodings "
                "have the length √(d/2).",
                w->d / 2.0));
  TRY(dot_products(r, w));
  TRY(study_heading(r, "Looking k tokens back"));
  TRY(study_say(r,
                "This is why positions are easy to attend to: a head whose "
                "`W_q` is `M^-k` and whose `W_k` is the identity has the score "
                "`p(t-k)·p(s)`, which is largest at s = t - k for every t. One "
                "matrix serves all positions. The encodings near by are alike, "
                "so that the head needs a large factor to see one token only: "
                "with 1/√d = %.3g its weight is spread.",
                1 / sqrt((double)w->d)));
  return relative_head(r, w);
}

static attend_status run(study_run *r) {
  world w;
  TRY(make_world(r, &w));
  if (study_count(r, "shift") >= w.n)
    return study_fail(r, ATTEND_INVALID, "shift must be less than the %d positions", w.n);
  TRY(linear_of(r, &w, 1, &w.step));
  attend_status status = measure(r, &w);
  attend_linear_free(w.step);
  return status;
}

const study_topic study_positions = {
    {.name = "positions",
     .title = "Positions: a step is a rotation",
     .question = "Which matrix M gives p(t+1) = M p(t), and what do dot "
                 "products of positions say?",
     .answers = "002 1(c)",
     .settings = settings},
    run};
