/* Sinusoidal positions: a step is one matrix, which is a row of rotations; a dot
 * product is a function of the distance.
 */
#include "studies/study.h"

enum { MOST_STEPS = 16, SHOWN = 48, CORNER = 12 };
/* Half of the last place of a float in [1/2, 1): what rounding may change. */
static const double half_ulp = 1.0 / (1 << 25);

static const attend_setting settings[] = {
    {"d", "64", "32", "width of an encoding, even", WHOLE, 1, 4, 1024},
    {"positions", "1200", "200", "positions that are encoded", WHOLE, 1, 2, 4096},
    {"steps", "1,4,16,64,256,1024", "1,4,16,64",
     "how often M is applied, and distances of dot products", WHOLE, MOST_STEPS, 1, 4095},
    {"shift", "5", NULL, "how many tokens back a head is made to look", WHOLE, 1, 0, 4095},
    {"scale", "0.125,1,4,16", "1,4", "factors of the score of that head", REAL, 8, 0.01, 1000},
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
  w->ld = study_padded(w->d);
  TAKE(r, &w->omega, (size_t)w->d / 2);
  TAKE(r, &w->p, (size_t)w->n * (size_t)w->ld);
  for (int i = 0; i < w->d / 2; i++) w->omega[i] = pow(10000, -2.0 * i / w->d);
  for (int t = 0; t < w->n; t++) attend_sinusoidal(t, w->d, w->p + (size_t)t * (size_t)w->ld);
  return ATTEND_OK;
}

/* M^k: blocks that rotate the pair (sin, cos) by k omega. */
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
  return study_linear(r, w->d, w->d, m, linear);
}

/* ---- one step, and many ------------------------------------------------------------- */

/* The largest |x_t - p_{t+k}| of rows that have such a p. */
static double step_error(const world *w, const float *x, int k, int t0, int t1) {
  double max = 0;
  for (int t = t0; t < t1 && t + k < w->n; t++)
    for (int j = 0; j < w->d; j++)
      max = fmax(max, fabs((double)x[t * w->ld + j] - formula(w, t + k, j)));
  return max;
}

/* M applied k times to p_0 in double. */
static double double_error(const world *w, int k) {
  double max = 0;
  for (int i = 0; i < w->d / 2; i++) {
    const double c = cos(w->omega[i]), s = sin(w->omega[i]);
    double x = 0, y = 1;
    for (int t = 0; t < k; t++) {
      double rotated = c * x + s * y;
      y = c * y - s * x;
      x = rotated;
    }
    max = fmax(max, hypot(x - formula(w, k, 2 * i), y - formula(w, k, 2 * i + 1)));
  }
  return max;
}

static const attend_study_column step_columns[] = {{"k", "steps k", COUNT},
                                                   {"f32", "M applied k times, f32", SMALL},
                                                   {"double", "M applied k times, double", SMALL},
                                                   {"jump", "Mᵏ applied once, f32", SMALL},
                                                   {0}};

static attend_status jump_error(study_run *r, const world *w, int k, float *work, double *error) {
  attend_linear *linear;
  TRY(linear_of(r, w, k, &linear));
  attend_linear_forward(linear, w->n, w->p, w->ld, work, w->ld);
  *error = step_error(w, work, k, 0, w->n);
  return ATTEND_OK;
}

/* Rounding may change an element by 5 half places a step: two entries of M, two
 * products, a sum; a rotation keeps the size of the error. */
static attend_status step_row(study_run *r, table_store *t, int k, double f32, double exact,
                              double jump) {
  TRY(study_row(t, (double)k, f32, exact, jump));
  TRY(study_claim(r, f32, 0, (10.0 * k + 4) * half_ulp,
                  "steps-%d: |Mᵏ pₜ − pₜ₊ₖ|, k = %d times in f32", k, k));
  TRY(study_claim(r, exact, 0, (10.0 * k + 8) * ldexp(1, -53),
                  "steps-double-%d: the same, k = %d, in double", k, k));
  return study_claim(r, jump, 0, 14 * half_ulp, "jump-%d: Mᵏ by its angles, k = %d, applied once",
                     k, k);
}

static attend_status many_steps(study_run *r, const world *w) {
  size_t n, capacity = (size_t)w->n * (size_t)w->ld;
  const double *steps = study_list(r, "steps", &n);
  float *x = NULL, *y = NULL, *work = NULL;
  int done = 0;
  size_t count = 0;
  table_store *t;
  TAKE(r, &x, capacity);
  TAKE(r, &y, capacity);
  TAKE(r, &work, capacity);
  TRY(study_table(r, &t, "steps", step_columns,
                  "Largest error of an element, over all positions t, after k steps"));
  memcpy(x, w->p, capacity * sizeof *x);
  for (size_t i = 0; i < n; i++) {
    const int k = (int)steps[i];
    double jump;
    if (k < done || k >= w->n) continue; /* rising, and there is such a p */
    for (; done < k; done++) {
      attend_linear_forward(w->step, w->n - done, x, w->ld, y, w->ld);
      float *old = x;
      x = y;
      y = old;
    }
    TRY(jump_error(r, w, k, work, &jump));
    TRY(step_row(r, t, k, step_error(w, x, k, 0, w->n), double_error(w, k), jump));
    TRY(study_step(r, 0.6 * (double)(i + 1) / (double)n));
    count++;
  }
  const double *k = study_column(t, "k");
  attend_plot_series series[] = {
      {"M k times, f32", count, k, study_column(t, "f32"), .points = 1},
      {"Mᵏ once, f32", count, k, study_column(t, "jump"), .points = 1, .dashed = 1},
      {"M k times, double", count, k, study_column(t, "double"), .points = 1}};
  attend_plot_panel panel =
      study_lines("Distance from p(t+k) after k steps from p(t)", study_log("k"),
                  study_log("largest error of an element"), 3, series);
  return study_plot(r, "positions-steps", 1, &panel);
}

/* ---- one step over t ------------------------------------------------------------------ */

static attend_status check_one(study_run *r, const world *w) {
  const size_t capacity = (size_t)w->n * (size_t)w->ld;
  float *x = NULL;
  TAKE(r, &x, capacity);
  TRY(study_claim(r, step_error(w, w->p, 0, 0, w->n), 0, half_ulp * 1.0001,
                  "formula: the library's pₜ against sin and cos in double"));
  attend_linear_forward(w->step, w->n, w->p, w->ld, x, w->ld);
  TRY(study_claim(r, step_error(w, x, 1, 0, w->n), 0, 14 * half_ulp,
                  "step: |M pₜ − pₜ₊₁| over all t"));
  return study_say(
      r,
      "The encoding of position t has pairs $sin(ωᵢ t), cos(ωᵢ t)$ with $ωᵢ = 10000^(−2i/d)$. By "
      "the sums of angles $sin(ω(t+1)) = cos ω sin ωt + sin ω cos ωt$ and $cos(ω(t+1)) = −sin ω "
      "sin ωt + cos ω cos ωt$, so that $p(t+1) = M p(t)$ with blocks $[cos ωᵢ, sin ωᵢ; −sin ωᵢ, "
      "cos ωᵢ]$ on the diagonal of M and zeros elsewhere. M knows nothing of t. Over %d positions "
      "of width %d, one step is wrong by at most %.1e, early and late alike: at most %.1e in the "
      "first half of the positions, %.1e in the second. A float rounds by up to %.1e.",
      w->n, w->d, step_error(w, x, 1, 0, w->n), step_error(w, x, 1, 0, w->n / 2),
      step_error(w, x, 1, w->n / 2, w->n), half_ulp);
}

static attend_plot_panel heat(const char *title, const char *down, int rows, int columns,
                              const double *cells) {
  return study_heat(title, "element", down, (size_t)rows, (size_t)columns, cells,
                    study_range(NULL, -1, 1));
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
  return study_plot(r, "positions-matrices", 2, panels);
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

static const attend_study_column dot_columns[] = {{"k", "distance k", COUNT},
                                                  {"predicted", "Σ cos(ωᵢ k)", NUMBER},
                                                  {"least", "least p(t)·p(t+k)", NUMBER},
                                                  {"most", "most", NUMBER},
                                                  {"error", "largest error", SMALL},
                                                  {0}};

static attend_status dot_row(study_run *r, const world *w, const float *dots, int ld, int k,
                             table_store *t) {
  const double predicted = predicted_dot(w, k);
  double min = INFINITY, max = -INFINITY;
  for (int i = 0; i + k < w->n; i++) {
    const double x = (double)dots[(size_t)i * (size_t)ld + (size_t)(i + k)];
    if (x < min) min = x;
    if (x > max) max = x;
  }
  const double error = fmax(max - predicted, predicted - min);
  TRY(study_row(t, (double)k, predicted, min, max, error));
  /* d products, d sums and both factors rounded; the sizes sum to d/2. */
  return study_claim(r, error, 0, (w->d + 4.0) * half_ulp * w->d,
                     "dot-%d: pₜ·pₜ₊ₖ − Σ cos(ωᵢ k), k = %d, worst t", k, k);
}

static attend_status plot_dots(study_run *r, const world *w, const float *dots, int ld) {
  const int max = w->n / 2 < 128 ? w->n / 2 : 128, far = w->n - 1 - max;
  const size_t n = (size_t)max + 1;
  double *x = NULL;
  TAKE(r, &x, 4 * n);
  double *line = x + n, *near = line + n, *late = near + n;
  for (int k = 0; k <= max; k++) {
    x[k] = k;
    line[k] = predicted_dot(w, k);
    near[k] = k % 4 ? NAN : (double)dots[k];
    late[k] = k % 4 != 2 ? NAN : (double)dots[(size_t)far * (size_t)ld + (size_t)(far + k)];
  }
  attend_plot_series series[] = {
      {.name = "predicted: Σ cos(ω k)", n, x, line},
      {"measured at t = 0", n, x, near, .points = 2},
      {study_format(r, "measured at t = %d", far), n, x, late, .points = 2}};
  attend_plot_panel panel =
      study_lines("Dot products of encodings depend on the distance alone",
                  study_axis("distance k"), study_zero("p(t)·p(t+k)"), 3, series);
  return study_plot(r, "positions-dots", 1, &panel);
}

static attend_status dot_products(study_run *r, const world *w) {
  size_t n;
  const double *steps = study_list(r, "steps", &n);
  const int ld = study_padded(w->n);
  float *dots = NULL;
  table_store *t;
  TAKE(r, &dots, (size_t)w->n * (size_t)ld);
  TRY(all_dots(r, w, ld, dots));
  TRY(study_table(r, &t, "dots", dot_columns, "Dot products over all t, by distance"));
  TRY(dot_row(r, w, dots, ld, 0, t));
  for (size_t i = 0; i < n; i++)
    if ((int)steps[i] < w->n) TRY(dot_row(r, w, dots, ld, (int)steps[i], t));
  TRY(study_claim(r, (double)dots[(size_t)(w->n - 1) * (size_t)(ld + 1)], w->d / 2.0,
                  (w->d + 4.0) * half_ulp * w->d, "length: ‖pₜ‖² at the last t"));
  return plot_dots(r, w, dots, ld);
}

/* ---- a head that looks k back ------------------------------------------------------------ */

typedef struct {
  int right;   /* rows whose heaviest key is that token */
  double last; /* weight on it in the last row */
} looking;

/* The last row's weight on its target if scores are sums of cosines. */
static double predicted_weight(const world *w, int shift, double scale) {
  double sum = 0;
  for (int j = 0; j < w->n; j++)
    sum += exp(scale * (predicted_dot(w, w->n - 1 - shift - j) - w->d / 2.0));
  return 1 / sum;
}

static attend_status look_back(study_run *r, const world *w, const float *q, double scale,
                               looking *l) {
  const int shift = study_count(r, "shift");
  const attend_desc d = {ATTEND_INIT(attend_desc), .q_len = w->n, .kv_len = w->n, .dim = w->d,
                         .scale = (float)scale};
  const attend_view rows = {(void *)w->p, {0, 0, w->ld, 1}},
                    queries = {(void *)q, {0, 0, w->ld, 1}};
  const size_t n = (size_t)w->n;
  float *lse = NULL, *weight = NULL, *o = NULL;
  int32_t *top = NULL;
  attend_plan *plan;
  TAKE(r, &lse, n);
  TAKE(r, &weight, n);
  TAKE(r, &o, n * (size_t)w->d);
  TAKE(r, &top, n);
  const attend_observation look = {ATTEND_INIT(attend_observation), .top = 1, .top_index = top,
                                   .top_weight = weight};
  TRY(study_plan(r, &d, &plan));
  TRY(attend_forward(plan, queries, rows, rows, attend_bhtd(o), lse));
  TRY(attend_observe(plan, queries, rows, lse, &look));
  *l = (looking){.last = (double)weight[n - 1]};
  for (int t = shift; t < w->n; t++) l->right += top[t] == t - shift;
  return ATTEND_OK;
}

static const attend_study_column look_columns[] = {
    {"scale", "factor of the score", NUMBER},
    {"right", "rows whose heaviest key is t - k", COUNT},
    {"rows", "of", COUNT},
    {"last", "weight on it at the last t", NUMBER},
    {"predicted", "predicted", NUMBER},
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
  TRY(study_table(r, &t, "relative", look_columns, "A head with W_q = M⁻ᵏ and W_k = I, k = %d",
                  shift));
  for (size_t i = 0; i < n; i++) {
    const double predicted = predicted_weight(w, shift, scales[i]);
    looking l;
    TRY(look_back(r, w, q, scales[i], &l));
    TRY(study_row(t, scales[i], (double)l.right, rows, l.last, predicted));
    TRY(study_claim(r, l.right / rows, 1, 0,
                    "relative-%g: share of rows whose heaviest key is k back", scales[i]));
    TRY(study_claim(r, l.last, predicted,
                    (2e-6 + scales[i] * (w->d + 16.0) * half_ulp * w->d) * predicted,
                    "relative-weight-%g: weight on it at the last position", scales[i]));
    TRY(study_step(r, 0.7 + 0.3 * (double)(i + 1) / (double)n));
  }
  return ATTEND_OK;
}

static attend_status run(study_run *r) {
  world w;
  TRY(make_world(r, &w));
  if (study_count(r, "shift") >= w.n)
    return study_fail(r, ATTEND_INVALID, "shift must be less than the %d positions", w.n);
  TRY(linear_of(r, &w, 1, &w.step));
  TRY(check_one(r, &w));
  TRY(draw_matrices(r, &w));
  TRY(study_heading(r, "Many steps"));
  TRY(study_say(
      r,
      "k steps are $Mᵏ$, whose blocks rotate by $k ωᵢ$. A rotation keeps lengths, so errors do "
      "not "
      "grow exponentially: each step adds its own rounding and no more, at most in proportion to "
      "k. The jump "
      "by $Mᵏ$, made from its angles, is one product and stays at the rounding of one."));
  TRY(many_steps(r, &w));
  TRY(study_heading(r, "Dot products and distance"));
  TRY(study_say(r,
                "Since $M$ is orthogonal, $p(t)·p(t+k) = Σ cos(ωᵢ k)$: it depends on the distance "
                "alone, is the same to both sides, and is largest, d/2 = %g, at distance 0. So all "
                "encodings have the length √(d/2).",
                w.d / 2.0));
  TRY(dot_products(r, &w));
  TRY(study_heading(r, "Looking k tokens back"));
  TRY(study_say(
      r,
      "This is why positions are easy to attend to: a head whose $W_q$ is $M⁻ᵏ$ and whose $W_k$ "
      "is the identity has the score $p(t − k)·p(s)$, which is largest at s = t - k for every t. "
      "One "
      "matrix serves all positions. The encodings near by are alike, so that the head needs a "
      "large factor to see one token only: with 1/√d = %.3g its weight is spread.",
      1 / sqrt((double)w.d)));
  return relative_head(r, &w);
}

const study_topic study_positions = {
    {.name = "positions",
     .title = "Positions: a step is a rotation",
     .question = "Which matrix M gives p(t+1) = M p(t), and what do dot products of positions say?",
     .answers = "Fall 2022 1(c)",
     .settings = settings},
    run};
