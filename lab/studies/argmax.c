/* Argmax attention: the course documents' example, its gradients, the temperatures
 * between it and a softmax, and what training can change.
 *
 * Documents Fall 2025 2(a)-(b), student 3(a)-(b).
 */
#include "studies/study.h"

enum { WIDTH = 3, KEYS = 4, ALL = KEYS * WIDTH, WINNER = 1, SECOND = 2 };
enum { MOST_TEMPERATURES = 32, POINTS = 121 };

static const attend_setting settings[] = {
    WORKED_SETTINGS,
    {"temperature", "0.5,0.7,1,1.4,2,2.8,4,5.6,8,11,16,32,64", "0.5,1,2,4,8,16",
     "from hard to soft", REAL, MOST_TEMPERATURES, 0.1, 1e4},
    {"queries", "24", "12", "queries, and keys, of the memory that is trained", WHOLE, 1, 2, 32},
    {"d", "8", NULL, "its width", WHOLE, 1, 1, 256},
    {"steps", "600", "60", "steps of gradient descent", WHOLE, 1, 1, 100000},
    {"rate", "0.04", NULL, "their size", REAL, 1, 1e-4, 0.05},
    {0}};

static const float query[WIDTH] = {1, 1, 2};
static const float keys[ALL] = {1, 2, 0, 0, 3, 4, 5, 0, 0, 0, 0, 1};
static const float values[ALL] = {2, 0, 1, 1, 4, 3, 0, -1, 4, 1, 0, -1};

/* What the example gives, and the gradients of half the squared distance between
 * its output and the value of the second best key. */
typedef struct {
  float o[WIDTH], lse, weights[KEYS];
  float d_o[WIDTH], dq[WIDTH], dk[ALL], dv[ALL];
} example;

static attend_desc problem(float temperature, bool soft) {
  return (attend_desc){
      ATTEND_INIT(attend_desc),
      .form = {.kind = soft ? ATTEND_SOFTMAX : ATTEND_ARGMAX, .temperature = temperature},
      .q_len = 1,
      .kv_len = KEYS,
      .dim = WIDTH,
      .scale = 1};
}

static attend_status run_example(study_run *r, const attend_desc *desc, example *e) {
  study_pass p = {
      .q = query, .k = keys, .v = values, .o = e->o, .lse = &e->lse, .weights = e->weights};
  TRY(study_attend(r, desc, &p));
  for (int i = 0; i < WIDTH; i++) e->d_o[i] = e->o[i] - values[SECOND * WIDTH + i];
  p.d_o = e->d_o, p.dq = e->dq, p.dk = e->dk, p.dv = e->dv;
  return study_attend(r, desc, &p);
}

static double dot(const float *x, const float *y) {
  double sum = 0;
  for (int i = 0; i < WIDTH; i++) sum += (double)x[i] * (double)y[i];
  return sum;
}

/* ---- the example ------------------------------------------------------------------ */

static attend_status show_example(study_run *r, const worked_example *w) {
  const attend_form hard = {.kind = ATTEND_ARGMAX}, soft = {.kind = ATTEND_SOFTMAX};
  worked_steps s;
  TRY(study_heading(r, "The example"));
  TRY(study_say(r,
                "Argmax attention gives the value of the key whose product with the query is "
                "largest (the first of several): one weight is 1, the others are 0. It is the form "
                "`argmax`. %s; scores are not scaled.",
                w->own ? "The numbers are the given ones" : "The numbers are the documents'"));
  TRY(worked_show(r, w, "argmax", &hard, 1, "q·k", NULL, &s));
  int best = 0;
  while (!(s.weight[best] > 0)) best++;
  TRY(study_say(
      r,
      "The best score is %.4g, so the output is value %d as it stands: %s. Softmax of the "
      "same scores has every value in it:",
      s.score[best], best + 1, worked_vector(r, w->dim_v, w->v + best * w->dim_v)));
  return worked_show(r, w, "softmax", &soft, 1, "s = q·k", "exp(s − max s)", NULL);
}

/* ---- gradients of own numbers -------------------------------------------------------- */

static const attend_study_column own_columns[] = {
    {"tensor", "", TEXT}, {"argmax", "argmax", TEXT}, {"softmax", "softmax", TEXT}, {0}};

/* Of the sum of the output's elements. */
static attend_status own_pass(study_run *r, const worked_example *w, bool soft, study_pass *p) {
  const attend_desc d = {ATTEND_INIT(attend_desc),
                         .form.kind = soft ? ATTEND_SOFTMAX : ATTEND_ARGMAX,
                         .q_len = 1,
                         .kv_len = w->keys,
                         .dim = w->dim,
                         .dim_v = w->dim_v,
                         .scale = 1};
  TRY(study_tensors(r, &d, 0, STUDY_GRADIENTS, p));
  float *d_o = (float *)p->d_o;
  for (int m = 0; m < w->dim_v; m++) d_o[m] = 1;
  p->q = w->q, p->k = w->k, p->v = w->v;
  return study_attend(r, &d, p);
}

static attend_status own_gradients(study_run *r, const worked_example *w) {
  study_pass p[2];
  table_store *t;
  TRY(study_heading(r, "Gradients"));
  TRY(study_say(r,
                "Of the loss Σₘ oₘ, whose gradient at the output is 1 everywhere. Under argmax no "
                "query and no key has a gradient, and all of it goes to the value that won."));
  for (int i = 0; i < 2; i++) TRY(own_pass(r, w, i, &p[i]));
  TRY(study_table(r, &t, "gradients", own_columns, "Gradients"));
  TRY(study_row(t, "dq", worked_vector(r, w->dim, p[0].dq), worked_vector(r, w->dim, p[1].dq)));
  for (int j = 0; j < w->keys; j++)
    TRY(study_row(t, study_format(r, "dk%d", j + 1), worked_vector(r, w->dim, p[0].dk + j * w->dim),
                  worked_vector(r, w->dim, p[1].dk + j * w->dim)));
  for (int j = 0; j < w->keys; j++)
    TRY(study_row(t, study_format(r, "dv%d", j + 1),
                  worked_vector(r, w->dim_v, p[0].dv + j * w->dim_v),
                  worked_vector(r, w->dim_v, p[1].dv + j * w->dim_v)));
  TRY(study_claim(r, study_norm(p[0].dq, (size_t)w->dim), 0, 0, "dq: argmax: ‖dq‖"));
  return study_claim(r, study_norm(p[0].dk, (size_t)w->keys * (size_t)w->dim), 0, 0,
                     "dk: argmax: ‖dK‖");
}

/* ---- gradients ---------------------------------------------------------------------- */

static const attend_study_column gradient_columns[] = {
    {"form", "form", TEXT},   {"dq", "‖dq‖", NUMBER},
    {"dk", "‖dK‖", NUMBER},   {"dv1", "‖dv₁‖", NUMBER},
    {"dv2", "‖dv₂‖", NUMBER}, {"dv3", "‖dv₃‖", NUMBER},
    {"dv4", "‖dv₄‖", NUMBER}, {0}};

static attend_status claim_gradients(study_run *r, const example *e) {
  static const double expected[WIDTH] = {1, 5, -1};
  double others = 0;
  for (int j = 0; j < KEYS; j++)
    if (j != WINNER) others += study_norm(e->dv + j * WIDTH, WIDTH);
  TRY(study_claim(r, study_norm(e->dq, WIDTH), 0, 0, "dq: argmax: ‖dq‖"));
  TRY(study_claim(r, study_norm(e->dk, ALL), 0, 0, "dk: argmax: ‖dK‖"));
  TRY(study_claim(r, others, 0, 0, "dv-others: argmax: dV of the keys that lost"));
  for (int i = 0; i < WIDTH; i++)
    TRY(study_claim(r, (double)e->dv[WINNER * WIDTH + i], expected[i], 0,
                    "dv-winner-%d: argmax: dV of the winner, element %d", i + 1, i + 1));
  return ATTEND_OK;
}

static attend_status show_gradients(study_run *r, const example *hard, const example *soft) {
  table_store *t;
  TRY(study_heading(r, "Gradients"));
  TRY(study_say(r,
                "Suppose the query should have found the third value: the loss is ½‖o − v₃‖², and "
                "the gradient that arrives at the output is o − v₃ = (1, 5, −1). A small change of "
                "q or of a key does not change who wins, so nothing of it reaches them: their "
                "gradients are not small, they are 0. All of it goes to the value that won, which "
                "is drawn towards v₃; that the wrong key won is not mended."));
  TRY(study_table(r, &t, "gradients", gradient_columns, "Where the gradient goes"));
  for (int i = 0; i < 2; i++) {
    const example *e = i ? soft : hard;
    TRY(study_word(t, i ? "softmax" : "argmax"));
    TRY(study_cell(t, study_norm(e->dq, WIDTH)));
    TRY(study_cell(t, study_norm(e->dk, ALL)));
    for (int j = 0; j < KEYS; j++) TRY(study_cell(t, study_norm(e->dv + j * WIDTH, WIDTH)));
  }
  return claim_gradients(r, hard);
}

/* ---- along a line ---------------------------------------------------------------------- */

/* q + x (k3 - k2) / |k3 - k2| for n values of x. */
static void points_along(size_t n, const double *x, float *q) {
  const float *a = keys + WINNER * WIDTH, *b = keys + SECOND * WIDTH;
  float direction[WIDTH];
  for (int i = 0; i < WIDTH; i++) direction[i] = b[i] - a[i];
  const double length = study_norm(direction, WIDTH);
  for (size_t p = 0; p < n; p++)
    for (int i = 0; i < WIDTH; i++)
      q[p * WIDTH + (size_t)i] = (float)((double)query[i] + x[p] * (double)direction[i] / length);
}

static attend_status losses(study_run *r, attend_desc desc, size_t n, const double *x,
                            double *loss) {
  float *q = NULL, *o = NULL;
  TAKE(r, &q, n * WIDTH);
  TAKE(r, &o, n * WIDTH);
  desc.q_len = (int)n;
  points_along(n, x, q);
  TRY(study_attend(r, &desc, &(study_pass){.q = q, .k = keys, .v = values, .o = o}));
  for (size_t p = 0; p < n; p++) {
    float off[WIDTH];
    for (int i = 0; i < WIDTH; i++) off[i] = o[p * WIDTH + (size_t)i] - values[SECOND * WIDTH + i];
    loss[p] = dot(off, off) / 2;
  }
  return ATTEND_OK;
}

/* Where another key wins, by bisection. */
static attend_status find_step(study_run *r, double *at) {
  double low = 0, high = 2, loss;
  for (int i = 0; i < 40; i++) {
    *at = (low + high) / 2;
    TRY(losses(r, problem(0, false), 1, at, &loss));
    *(loss > 0 ? &low : &high) = *at;
  }
  return ATTEND_OK;
}

static attend_status show_line(study_run *r) {
  static const float temperature[] = {0, 1, 4};
  static const char *const names[] = {"argmax", "softmax", "temperature 4"};
  enum { LINES = 3 };
  double step, x[POINTS], y[LINES][POINTS];
  attend_plot_series series[LINES];
  attend_plot_mark mark = {0, "the example"};
  TRY(find_step(r, &step));
  TRY(study_claim(r, step, 6 / sqrt(50), 1e-6, "step: where the third key begins to win"));
  for (int i = 0; i < POINTS; i++) x[i] = 2.0 * step * i / (POINTS - 1);
  for (int l = 0; l < LINES; l++) {
    TRY(losses(r, problem(temperature[l], false), POINTS, x, y[l]));
    series[l] = (attend_plot_series){names[l], POINTS, x, y[l], .dashed = l == 2};
  }
  attend_plot_panel panel = study_lines("Loss as q moves towards the third key",
                                        study_axis("how far q has moved along k₃ − k₂"),
                                        study_zero("½‖o − v₃‖²"), LINES, series);
  panel = study_marked(panel, 1, &mark);
  TRY(study_plot(r, "argmax-line", 1, &panel));
  return study_say(r,
                   "Along the line from the second key to the third the loss of argmax is a step: "
                   "flat everywhere, with a jump at (11 − 5) / ‖k₃ − k₂‖ = 6/√50 = %.4f (found by "
                   "bisection: %.4f). Gradient descent looks at the slope alone, which does not "
                   "show the jump. The loss of softmax falls over the same interval, and a higher "
                   "temperature spreads the slope as far as the example's own place.",
                   6 / sqrt(50), step);
}

/* ---- temperature ------------------------------------------------------------------------ */

/* The example in double, by the formulas: weights and ‖dq‖. */
static double formula(double temperature, double weights[KEYS]) {
  double sum = 0, o[WIDTH] = {0}, dq[WIDTH] = {0}, square = 0;
  for (int j = 0; j < KEYS; j++)
    sum += weights[j] = exp((dot(query, keys + j * WIDTH) - 11) / temperature);
  for (int j = 0; j < KEYS; j++) weights[j] /= sum;
  for (int j = 0; j < ALL; j++) o[j % WIDTH] += weights[j / WIDTH] * (double)values[j];
  for (int j = 0; j < KEYS; j++) {
    double along = 0;
    for (int i = 0; i < WIDTH; i++)
      along += (o[i] - (double)values[SECOND * WIDTH + i]) * ((double)values[j * WIDTH + i] - o[i]);
    for (int i = 0; i < WIDTH; i++)
      dq[i] += weights[j] * along * (double)keys[j * WIDTH + i] / temperature;
  }
  for (int i = 0; i < WIDTH; i++) square += dq[i] * dq[i];
  return sqrt(square);
}

static const attend_study_column temperature_columns[] = {
    {"temperature", "t", NUMBER},
    {"winner", "weight of the winner", NUMBER},
    {"winner_predicted", "1 / Σ exp((sⱼ − 11)/t)", NUMBER},
    {"distance", "‖o − v₂‖", NUMBER},
    {"dq", "‖dq‖", SMALL},
    {"dq_predicted", "predicted", SMALL},
    {"dv", "‖dV‖", NUMBER},
    {0}};

/* f32 keeps a difference of what is multiplied here to about 1e-6. */
static attend_status one_temperature(study_run *r, table_store *t, double at,
                                     double weights[KEYS] /* of the keys */) {
  example e;
  attend_desc desc = problem((float)at, false);
  double predicted[KEYS], distance = 0;
  TRY(run_example(r, &desc, &e));
  const double dq_predicted = formula(at, predicted), dq = study_norm(e.dq, WIDTH);
  for (int j = 0; j < KEYS; j++) weights[j] = (double)e.weights[j];
  for (int j = 0; j < WIDTH; j++) {
    double d = (double)(e.o[j] - values[WINNER * WIDTH + j]);
    distance += d * d;
  }
  TRY(study_row(t, at, weights[WINNER], predicted[WINNER], sqrt(distance), dq, dq_predicted,
                study_norm(e.dv, ALL)));
  TRY(study_claim(r, weights[WINNER], predicted[WINNER], 1e-6,
                  "winner-t%g: weight of the winner at t = %g", at, at));
  return study_claim(r, dq, dq_predicted, 5e-5 / at + 1e-5 * dq_predicted, "dq-t%g: ‖dq‖ at t = %g",
                     at, at);
}

static attend_status plot_temperature(study_run *r, size_t n, const double *x,
                                      double weights[][KEYS], const table_store *t) {
  static const char *const names[] = {"key 1", "key 2", "key 3", "key 4"};
  double y[KEYS][MOST_TEMPERATURES];
  attend_plot_series a[KEYS],
      b[] = {{"‖dq‖", n, x, study_column(t, "dq"), .points = 2},
             {"predicted", n, x, study_column(t, "dq_predicted"), .colour = 1},
             {"‖dV‖", n, x, study_column(t, "dv"), .dashed = 1, .colour = 2}};
  for (int j = 0; j < KEYS; j++) {
    for (size_t i = 0; i < n; i++) y[j][i] = weights[i][j];
    a[j] = (attend_plot_series){names[j], n, x, y[j], .points = 1};
  }
  attend_plot_panel panels[] = {
      study_lines("Weights", study_log("temperature"), study_range("weight", 0, 1), KEYS, a),
      study_lines("Gradients", study_log("temperature"), study_log("norm"), 3, b)};
  return study_plot(r, "argmax-temperature", 2, panels);
}

static attend_status show_temperature(study_run *r) {
  size_t n;
  const double *x = study_list(r, "temperature", &n);
  double weights[MOST_TEMPERATURES][KEYS];
  table_store *t;
  TRY(study_heading(r, "From hard to soft"));
  TRY(study_say(
      r,
      "The softmax of score / t is argmax in the limit of t → 0 and the plain mean of the values "
      "for t → ∞. The gradient of q is (1/t) Σⱼ aⱼ (g·(vⱼ − o)) kⱼ with g = o − v₃: at the hard "
      "end it vanishes like exp(−6/t)/t, since 6 is how far the second best score lies behind; at "
      "the soft end like 1/t. Learning is quickest between the two."));
  TRY(study_table(r, &t, "temperature", temperature_columns, "Form argmax with a temperature"));
  for (size_t i = 0; i < n; i++) TRY(one_temperature(r, t, x[i], weights[i]));
  return plot_temperature(r, n, x, weights, t);
}

/* ---- training -------------------------------------------------------------- */

/* A small memory, trained with argmax and with softmax: every query is to give
 * a target of its own.
 *
 * Under argmax only values learn. A key that wins m queries has a value that
 * converges to the mean of their targets, by a factor 1 - rate m a step: the loss of
 * every step is known beforehand, and so is the floor under it.
 */

enum { QUERY = 1, KEY, VALUE, TARGET };

typedef struct {
  int n, d; /* queries, and keys; width */
  float *q, *k, *v, *target;
} memory;

static size_t size(const memory *m) { return (size_t)m->n * (size_t)m->d; }

static attend_status draw(study_run *r, memory *m) {
  m->n = study_count(r, "queries");
  m->d = study_count(r, "d");
  TRY(study_draw(r, QUERY, size(m), &m->q));
  TRY(study_draw(r, KEY, size(m), &m->k));
  TRY(study_draw(r, VALUE, size(m), &m->v));
  return study_draw(r, TARGET, size(m), &m->target);
}

/* Half the squared distance from the targets, mean over queries. */
static double loss_of(const memory *m, const float *o) {
  double sum = 0;
  for (size_t i = 0; i < size(m); i++) {
    double off = (double)o[i] - (double)m->target[i];
    sum += off * off;
  }
  return sum / (2 * m->n);
}

static void descend(float *x, const float *dx, size_t n, float rate) {
  for (size_t i = 0; i < n; i++) x[i] -= rate * dx[i];
}

/* loss[i]: before step i; loss[steps]: after the last. */
static attend_status train(study_run *r, attend_form_kind form, memory *m, double *loss) {
  const int steps = study_count(r, "steps");
  const float rate = (float)study_number(r, "rate");
  const attend_desc desc = {
      ATTEND_INIT(attend_desc), .form.kind = form, .q_len = m->n,
      .kv_len = m->n,           .dim = m->d,       .purpose = ATTEND_FOR_BACKWARD};
  study_pass p;
  attend_plan *plan;
  TRY(study_tensors(r, &desc, 0, STUDY_GRADIENTS, &p));
  TRY(study_plan(r, &desc, &plan));
  float *d_o = (float *)p.d_o;
  const attend_view q = attend_bhtd(m->q), k = attend_bhtd(m->k), v = attend_bhtd(m->v),
                    o = attend_bhtd(p.o);
  for (int i = 0; i <= steps; i++) {
    TRY(attend_forward(plan, q, k, v, o, p.lse));
    loss[i] = loss_of(m, p.o);
    if (i == steps) break;
    for (size_t j = 0; j < size(m); j++) d_o[j] = p.o[j] - m->target[j];
    TRY(attend_backward(plan, q, k, v, o, p.lse, attend_bhtd(d_o), attend_bhtd(p.dq),
                        attend_bhtd(p.dk), attend_bhtd(p.dv), NULL));
    descend(m->q, p.dq, size(m), rate);
    descend(m->k, p.dk, size(m), rate);
    descend(m->v, p.dv, size(m), rate);
    if (i % 100 == 0) TRY(study_step(r, (form == ATTEND_SOFTMAX ? 0.6 : 0.2) + 0.4 * i / steps));
  }
  return ATTEND_OK;
}

/* ---- what is known of argmax beforehand ---------------------------------------------- */

/* The key of the largest product, in double. */
static int winner(const memory *m, int row) {
  int best = 0;
  double max = -INFINITY;
  for (int j = 0; j < m->n; j++) {
    double sum = 0;
    for (int i = 0; i < m->d; i++) sum += (double)m->q[row * m->d + i] * (double)m->k[j * m->d + i];
    if (sum > max) max = sum, best = j;
  }
  return best;
}

typedef struct {
  int won;        /* queries that a key wins */
  double spread;  /* of their targets around the mean, squared, summed */
  double towards; /* from the value to that mean, squared */
} group;

static group group_of(const memory *m, const int *winners, int key) {
  group g = {0};
  for (int i = 0; i < m->n; i++) g.won += winners[i] == key;
  for (int e = 0; e < m->d && g.won; e++) {
    double sum = 0, square = 0;
    for (int i = 0; i < m->n; i++)
      if (winners[i] == key) {
        double t = (double)m->target[i * m->d + e];
        sum += t, square += t * t;
      }
    double mean = sum / g.won, off = (double)m->v[key * m->d + e] - mean;
    g.spread += square - sum * mean;
    g.towards += off * off;
  }
  return g;
}

typedef struct {
  double floor;
  int winners; /* keys that win any query */
  double *loss;
} forecast;

static attend_status foresee(study_run *r, const memory *m, forecast *f) {
  const int steps = study_count(r, "steps");
  const double rate = study_number(r, "rate");
  int *winners = NULL;
  *f = (forecast){0};
  TAKE(r, &winners, (size_t)m->n);
  TAKE(r, &f->loss, (size_t)steps + 1);
  for (int i = 0; i < m->n; i++) winners[i] = winner(m, i);
  for (int j = 0; j < m->n; j++) {
    group g = group_of(m, winners, j);
    if (!g.won) continue;
    f->winners++;
    f->floor += g.spread / (2 * m->n);
    for (int i = 0; i <= steps; i++)
      f->loss[i] += (g.spread + g.won * g.towards * pow(1 - rate * g.won, 2.0 * i)) / (2 * m->n);
  }
  return ATTEND_OK;
}

/* ---- report ------------------------------------------------------------------------ */

static const attend_study_column trained_columns[] = {{"form", "form", TEXT},
                                                      {"queries", "queries that moved", COUNT},
                                                      {"keys", "keys that moved", COUNT},
                                                      {"values", "values that moved", COUNT},
                                                      {"before", "loss before", NUMBER},
                                                      {"first", "after one step", NUMBER},
                                                      {"after", "after all", NUMBER},
                                                      {0}};

typedef struct {
  memory start, end;
  double *loss;
  int moved[3]; /* rows of q, k, v */
} course;

static attend_status train_copy(study_run *r, attend_form_kind form, course *c) {
  TAKE(r, &c->loss, (size_t)study_count(r, "steps") + 1);
  TRY(draw(r, &c->start));
  TRY(draw(r, &c->end));
  TRY(train(r, form, &c->end, c->loss));
  const memory *a = &c->start, *b = &c->end;
  c->moved[0] = study_differing_rows(a->q, b->q, a->n, a->d);
  c->moved[1] = study_differing_rows(a->k, b->k, a->n, a->d);
  c->moved[2] = study_differing_rows(a->v, b->v, a->n, a->d);
  return ATTEND_OK;
}

static attend_status claim(study_run *r, const course *c, const forecast *f) {
  const int steps = study_count(r, "steps");
  TRY(study_claim(r, c->moved[0], 0, 0, "queries-moved: argmax: queries that training moved"));
  TRY(study_claim(r, c->moved[1], 0, 0, "keys-moved: argmax: keys that training moved"));
  TRY(study_claim(r, c->moved[2], f->winners, 0,
                  "values-moved: argmax: values that training moved, those of winners"));
  TRY(study_claim(r, c->loss[1], f->loss[1], 1e-5 * f->loss[0],
                  "loss-first: argmax: loss after one step"));
  return study_claim(r, c->loss[steps], f->loss[steps], 1e-5 * f->loss[0],
                     "loss-last: argmax: loss after the last step");
}

static attend_status plot(study_run *r, const course *hard, const course *soft, const forecast *f) {
  enum { MARKS = 13 };
  const size_t n = (size_t)study_count(r, "steps") + 1;
  double x[MARKS], y[MARKS], ends[2] = {0, (double)(n - 1)}, floor[2] = {f->floor, f->floor};
  for (size_t i = 0; i < MARKS; i++) {
    size_t at = i * (n - 1) / (MARKS - 1);
    x[i] = (double)at;
    y[i] = hard->loss[at];
  }
  attend_plot_series series[] = {{"argmax", MARKS, x, y, .points = 2},
                                 {"predicted", n, NULL, f->loss, .colour = 1},
                                 {"its floor", 2, ends, floor, .dashed = 1, .colour = 3},
                                 {"softmax", n, NULL, soft->loss, .colour = 2}};
  attend_plot_panel panel = study_lines("Training queries, keys and values", study_axis("step"),
                                        study_zero("loss"), sizeof series / sizeof *series, series);
  return study_plot(r, "argmax-training", 1, &panel);
}

static attend_status introduce(study_run *r) {
  TRY(study_heading(r, "What training changes"));
  return study_say(r,
                   "A memory of %d keys is asked %d queries, each of which is to give a target of "
                   "its own; queries, keys and values are random at first, and all three are "
                   "trained by gradient descent for %d step%s.",
                   study_count(r, "queries"), study_count(r, "queries"), study_count(r, "steps"),
                   study_count(r, "steps") == 1 ? "" : "s");
}

static attend_status argmax_train(study_run *r) {
  course hard, soft;
  forecast f;
  table_store *t;
  TRY(introduce(r));
  TRY(train_copy(r, ATTEND_ARGMAX, &hard));
  TRY(train_copy(r, ATTEND_SOFTMAX, &soft));
  TRY(foresee(r, &hard.start, &f));
  TRY(study_table(r, &t, "training", trained_columns, "Of %d each", study_count(r, "queries")));
  for (int i = 0; i < 2; i++) {
    const course *c = i ? &soft : &hard;
    TRY(study_row(t, i ? "softmax" : "argmax", (double)c->moved[0], (double)c->moved[1],
                  (double)c->moved[2], c->loss[0], c->loss[1], c->loss[study_count(r, "steps")]));
  }
  TRY(claim(r, &hard, &f));
  TRY(plot(r, &hard, &soft, &f));
  return study_say(r,
                   "Under argmax no query and no key has moved by a bit. %d of %d keys win at all, "
                   "and only their values learn; two queries with the same winner get the same "
                   "output for ever, so that the loss cannot fall below %.4g, the spread of the "
                   "targets that share a winner. All of this is known beforehand: a value whose "
                   "key wins m queries comes nearer to the mean of their targets by the factor 1 − "
                   "%g m in every step. The softmax moves everything, and ends at %.4g.",
                   f.winners, hard.start.n, f.floor, study_number(r, "rate"),
                   soft.loss[study_count(r, "steps")]);
}

static attend_status run(study_run *r) {
  attend_desc hard = problem(0, false), soft = problem(0, true);
  worked_example w;
  example a, b;
  TRY(worked_read(r, &w));
  TRY(show_example(r, &w));
  if (w.own) return own_gradients(r, &w);
  TRY(run_example(r, &hard, &a));
  TRY(run_example(r, &soft, &b));
  TRY(show_gradients(r, &a, &b));
  TRY(show_line(r));
  TRY(show_temperature(r));
  TRY(study_step(r, 0.2));
  return argmax_train(r);
}

const study_topic study_argmax = {
    {.name = "argmax",
     .title = "Argmax attention, and why it cannot be trained",
     .question =
         "What does attention give that takes the best key alone, and where do its gradients go?",
     .answers = "Fall 2025 2(a)-(b), student 3(a)-(b)",
     .settings = settings},
    run};
