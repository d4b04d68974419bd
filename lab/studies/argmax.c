/* Argmax attention: the documents' example, its gradients, the temperatures
 * between it and a softmax, and what training can change.
 *
 * Documents 001 2(a)-(b), 003 3(a)-(b).
 */
#include "studies/study.h"

enum { WIDTH = 3, KEYS = 4, ALL = KEYS * WIDTH, WINNER = 1, SECOND = 2 };
enum { MOST_TEMPERATURES = 32, POINTS = 121 };

static const attend_setting settings[] = {
    {"temperature", "0.5,0.7,1,1.4,2,2.8,4,5.6,8,11,16,32,64", "0.5,1,2,4,8,16",
     "from hard to soft", ATTEND_SETTING_NUMBERS, MOST_TEMPERATURES, 0.1, 1e4},
    {"queries", "24", "12", "queries, and keys, of the memory that is trained",
     ATTEND_SETTING_WHOLE, 1, 2, 32},
    {"d", "8", NULL, "its width", ATTEND_SETTING_WHOLE, 1, 1, 256},
    {"steps", "600", "60", "steps of gradient descent", ATTEND_SETTING_WHOLE, 1, 1, 100000},
    {"rate", "0.04", NULL, "their size", ATTEND_SETTING_NUMBERS, 1, 1e-4, 0.05},
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

static double norm(const float *x, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static double dot(const float *x, const float *y) {
  double sum = 0;
  for (int i = 0; i < WIDTH; i++) sum += (double)x[i] * (double)y[i];
  return sum;
}

/* ---- the example ------------------------------------------------------------------ */

static const attend_study_column example_columns[] = {
    {"key", "key", ATTEND_CELL_TEXT},
    {"value", "value", ATTEND_CELL_TEXT},
    {"score", "q·k", ATTEND_CELL_NUMBER},
    {"weight", "weight", ATTEND_CELL_NUMBER},
    {"softmax", "softmax's weight", ATTEND_CELL_NUMBER},
    {0}};

/* The score of one key: of a key that is alone, the best score is its own. */
static attend_status score_of(study_run *r, int key, float *score) {
  float o[WIDTH];
  attend_desc d = problem(0, false);
  d.kv_len = 1;
  return study_attend(
      r, &d,
      &(study_pass){
          .q = query, .k = keys + key * WIDTH, .v = values + key * WIDTH, .o = o, .lse = score});
}

static attend_status show_key(study_run *r, table_store *t, int key, const example *hard,
                              const example *soft) {
  static const double scores[KEYS] = {3, 11, 5, 2};
  const float *k = keys + key * WIDTH, *v = values + key * WIDTH;
  float score;
  TRY(score_of(r, key, &score));
  TRY(study_word(t, "(%g, %g, %g)", (double)k[0], (double)k[1], (double)k[2]));
  TRY(study_word(t, "(%g, %g, %g)", (double)v[0], (double)v[1], (double)v[2]));
  TRY(study_row(t, 3, (double)score, (double)hard->weights[key], (double)soft->weights[key]));
  TRY(study_claim(r, study_format(r, "score-%d", key + 1),
                  study_format(r, "q·k of key %d", key + 1), (double)score, scores[key], 0));
  return study_claim(r, study_format(r, "weight-%d", key + 1),
                     study_format(r, "argmax's weight of key %d", key + 1),
                     (double)hard->weights[key], key == WINNER, 0);
}

static attend_status show_example(study_run *r, const example *hard, const example *soft) {
  static const double output[WIDTH] = {1, 4, 3};
  table_store *t;
  TRY(study_heading(r, "The example"));
  TRY(study_say(r,
                "Argmax attention gives the value of the key whose product "
                "with the query is largest: one weight is 1, the others are 0. "
                "It is the form `argmax`. The documents' example has q = (1, "
                "1, 2), four keys and no scale."));
  TRY(study_table(r, "example", "q = (1, 1, 2)", example_columns, &t));
  for (int j = 0; j < KEYS; j++) TRY(show_key(r, t, j, hard, soft));
  for (int i = 0; i < WIDTH; i++)
    TRY(study_claim(r, study_format(r, "output-%d", i + 1),
                    study_format(r, "element %d of argmax's output", i + 1), (double)hard->o[i],
                    output[i], 0));
  return study_say(r,
                   "The best score is %g, so the output is (%g, %g, %g), the "
                   "second value as it stands. Softmax gives (%.4f, %.4f, "
                   "%.4f): close, since exp(5 − 11) is small, but every value "
                   "is in it.",
                   (double)hard->lse, (double)hard->o[0], (double)hard->o[1], (double)hard->o[2],
                   (double)soft->o[0], (double)soft->o[1], (double)soft->o[2]);
}

/* ---- gradients ---------------------------------------------------------------------- */

static const attend_study_column gradient_columns[] = {
    {"form", "form", ATTEND_CELL_TEXT},   {"dq", "‖dq‖", ATTEND_CELL_NUMBER},
    {"dk", "‖dK‖", ATTEND_CELL_NUMBER},   {"dv1", "‖dv₁‖", ATTEND_CELL_NUMBER},
    {"dv2", "‖dv₂‖", ATTEND_CELL_NUMBER}, {"dv3", "‖dv₃‖", ATTEND_CELL_NUMBER},
    {"dv4", "‖dv₄‖", ATTEND_CELL_NUMBER}, {0}};

static attend_status gradient_row(table_store *t, const char *name, const example *e) {
  TRY(study_word(t, "%s", name));
  TRY(study_row(t, 2, norm(e->dq, WIDTH), norm(e->dk, ALL)));
  for (int j = 0; j < KEYS; j++) TRY(study_cell(t, norm(e->dv + j * WIDTH, WIDTH)));
  return ATTEND_OK;
}

static attend_status claim_gradients(study_run *r, const example *e) {
  static const double expected[WIDTH] = {1, 5, -1};
  double others = 0;
  for (int j = 0; j < KEYS; j++)
    if (j != WINNER) others += norm(e->dv + j * WIDTH, WIDTH);
  TRY(study_claim(r, "dq", "argmax: ‖dq‖", norm(e->dq, WIDTH), 0, 0));
  TRY(study_claim(r, "dk", "argmax: ‖dK‖", norm(e->dk, ALL), 0, 0));
  TRY(study_claim(r, "dv-others", "argmax: dV of the keys that lost", others, 0, 0));
  for (int i = 0; i < WIDTH; i++)
    TRY(study_claim(r, study_format(r, "dv-winner-%d", i + 1),
                    study_format(r, "argmax: dV of the winner, element %d", i + 1),
                    (double)e->dv[WINNER * WIDTH + i], expected[i], 0));
  return ATTEND_OK;
}

static attend_status show_gradients(study_run *r, const example *hard, const example *soft) {
  table_store *t;
  TRY(study_heading(r, "Gradients"));
  TRY(study_say(r,
                "Suppose the query should have found the third value: the loss is "
                "½‖o − v₃‖², and the gradient that arrives at the output is o − v₃ = "
                "(1, 5, −1). A small change of q or of a key does not change who "
                "wins, so nothing of it reaches them: their gradients are not small, "
                "they are 0. All of it goes to the value that won, which is drawn "
                "towards v₃; that the wrong key won is not mended."));
  TRY(study_table(r, "gradients", "Where the gradient goes", gradient_columns, &t));
  TRY(gradient_row(t, "argmax", hard));
  TRY(gradient_row(t, "softmax", soft));
  return claim_gradients(r, hard);
}

/* ---- along a line ---------------------------------------------------------------------- */

/* q + x (k3 - k2) / |k3 - k2| for n places x. */
static void walk(size_t n, const double *x, float *q) {
  const float *a = keys + WINNER * WIDTH, *b = keys + SECOND * WIDTH;
  float direction[WIDTH];
  for (int i = 0; i < WIDTH; i++) direction[i] = b[i] - a[i];
  const double length = norm(direction, WIDTH);
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
  walk(n, x, q);
  TRY(study_attend(r, &desc, &(study_pass){.q = q, .k = keys, .v = values, .o = o}));
  for (size_t p = 0; p < n; p++) {
    float off[WIDTH];
    for (int i = 0; i < WIDTH; i++) off[i] = o[p * WIDTH + (size_t)i] - values[SECOND * WIDTH + i];
    loss[p] = dot(off, off) / 2;
  }
  return ATTEND_OK;
}

/* Where another key wins, by halving. */
static attend_status find_step(study_run *r, double *at) {
  double low = 0, high = 2, loss;
  for (int i = 0; i < 40; i++) {
    *at = (low + high) / 2;
    TRY(losses(r, problem(0, false), 1, at, &loss));
    *(loss > 0 ? &low : &high) = *at;
  }
  return ATTEND_OK;
}

static attend_status plot_line(study_run *r, double step) {
  static const float temperature[] = {0, 1, 4};
  static const char *const names[] = {"argmax", "softmax", "temperature 4"};
  enum { LINES = 3 };
  double x[POINTS], y[LINES][POINTS];
  attend_plot_series series[LINES];
  for (int i = 0; i < POINTS; i++) x[i] = 2.0 * step * i / (POINTS - 1);
  for (int l = 0; l < LINES; l++) {
    TRY(losses(r, problem(temperature[l], false), POINTS, x, y[l]));
    series[l] = (attend_plot_series){
        .name = names[l], .count = POINTS, .x = x, .y = y[l], .dashed = l == 2};
  }
  attend_plot_mark mark = {0, "the example"};
  attend_plot_panel panel = {.title = "Loss as q moves towards the third key",
                             .x = {.label = "how far q has moved along k₃ − k₂"},
                             .y = {.label = "½‖o − v₃‖²", .zero = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = LINES,
                             .series = series,
                             .marks = 1,
                             .mark = &mark};
  return study_figure(r, "argmax-line", &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status show_line(study_run *r) {
  double step;
  TRY(find_step(r, &step));
  TRY(study_claim(r, "step", "where the third key begins to win", step, 6 / sqrt(50), 1e-6));
  TRY(plot_line(r, step));
  return study_say(r,
                   "Along the line from the second key to the third the loss of argmax is a "
                   "step: flat everywhere, with a jump at (11 − 5) / ‖k₃ − k₂‖ = 6/√50 = "
                   "%.4f (found by halving: %.4f). Descent looks at the slope alone, and "
                   "does not show the jump. The softmax falls over the same interval, and a "
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
    {"temperature", "t", ATTEND_CELL_NUMBER},
    {"winner", "weight of the winner", ATTEND_CELL_NUMBER},
    {"winner_predicted", "1 / Σ exp((sⱼ − 11)/t)", ATTEND_CELL_NUMBER},
    {"distance", "‖o − v₂‖", ATTEND_CELL_NUMBER},
    {"dq", "‖dq‖", ATTEND_CELL_SMALL},
    {"dq_predicted", "predicted", ATTEND_CELL_SMALL},
    {"dv", "‖dV‖", ATTEND_CELL_NUMBER},
    {0}};

typedef struct {
  double weight[KEYS][MOST_TEMPERATURES], dq[MOST_TEMPERATURES], predicted[MOST_TEMPERATURES],
      dv[MOST_TEMPERATURES];
} temperatures;

/* f32 keeps a difference of what is multiplied here to about 1e-6. */
static attend_status one_temperature(study_run *r, table_store *t, double at, size_t i,
                                     temperatures *all) {
  example e;
  attend_desc desc = problem((float)at, false);
  double weights[KEYS], off = 0;
  TRY(run_example(r, &desc, &e));
  all->predicted[i] = formula(at, weights);
  all->dq[i] = norm(e.dq, WIDTH);
  all->dv[i] = norm(e.dv, ALL);
  for (int j = 0; j < KEYS; j++) all->weight[j][i] = (double)e.weights[j];
  for (int j = 0; j < WIDTH; j++) {
    double d = (double)(e.o[j] - values[WINNER * WIDTH + j]);
    off += d * d;
  }
  TRY(study_row(t, 7, at, all->weight[WINNER][i], weights[WINNER], sqrt(off), all->dq[i],
                all->predicted[i], all->dv[i]));
  TRY(study_claim(r, study_format(r, "winner-t%g", at),
                  study_format(r, "weight of the winner at t = %g", at), all->weight[WINNER][i],
                  weights[WINNER], 1e-6));
  return study_claim(r, study_format(r, "dq-t%g", at), study_format(r, "‖dq‖ at t = %g", at),
                     all->dq[i], all->predicted[i], 5e-5 / at + 1e-5 * all->predicted[i]);
}

static attend_status plot_temperature(study_run *r, size_t n, const double *x,
                                      const temperatures *all) {
  static const char *const names[] = {"key 1", "key 2", "key 3", "key 4"};
  attend_plot_series a[KEYS],
      b[] = {{.name = "‖dq‖", .count = n, .x = x, .y = all->dq, .points = 2},
             {.name = "predicted", .count = n, .x = x, .y = all->predicted, .colour = 1},
             {.name = "‖dV‖", .count = n, .x = x, .y = all->dv, .dashed = 1, .colour = 2}};
  for (int j = 0; j < KEYS; j++)
    a[j] = (attend_plot_series){
        .name = names[j], .count = n, .x = x, .y = all->weight[j], .points = 1};
  attend_plot_panel panels[] = {{.title = "Weights",
                                 .x = {.label = "temperature", .log = 1},
                                 .y = {.label = "weight", .low = 0, .high = 1},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = KEYS,
                                 .series = a},
                                {.title = "Gradients",
                                 .x = {.label = "temperature", .log = 1},
                                 .y = {.label = "norm", .log = 1},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = sizeof b / sizeof *b,
                                 .series = b}};
  return study_figure(r, "argmax-temperature",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status show_temperature(study_run *r) {
  size_t n;
  const double *x = study_list(r, "temperature", &n);
  temperatures *all = NULL;
  table_store *t;
  TAKE(r, &all, 1);
  TRY(study_heading(r, "From hard to soft"));
  TRY(study_say(r,
                "The softmax of score / t is argmax in the limit of t → 0 and the "
                "plain mean of the values for t → ∞. The gradient of q is "
                "(1/t) Σⱼ aⱼ (g·(vⱼ − o)) kⱼ with g = o − v₃: at the hard end it "
                "vanishes like exp(−6/t)/t, since 6 is how far the second best score "
                "lies behind; at the soft end like 1/t. Learning is quickest between "
                "the two."));
  TRY(study_table(r, "temperature", "Form argmax with a temperature", temperature_columns, &t));
  for (size_t i = 0; i < n; i++) TRY(one_temperature(r, t, x[i], i, all));
  return plot_temperature(r, n, x, all);
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

/* What one step needs beside it. */
typedef struct {
  float *o, *lse, *d_o, *dq, *dk, *dv;
} slopes;

static size_t size(const memory *m) { return (size_t)m->n * (size_t)m->d; }

static attend_status draw(study_run *r, memory *m) {
  m->n = study_count(r, "queries");
  m->d = study_count(r, "d");
  TAKE(r, &m->q, size(m));
  TAKE(r, &m->k, size(m));
  TAKE(r, &m->v, size(m));
  TAKE(r, &m->target, size(m));
  study_normal(r, QUERY, 0, size(m), m->q);
  study_normal(r, KEY, 0, size(m), m->k);
  study_normal(r, VALUE, 0, size(m), m->v);
  study_normal(r, TARGET, 0, size(m), m->target);
  return ATTEND_OK;
}

static attend_status take_slopes(study_run *r, const memory *m, slopes *s) {
  TAKE(r, &s->o, size(m));
  TAKE(r, &s->lse, (size_t)m->n);
  TAKE(r, &s->d_o, size(m));
  TAKE(r, &s->dq, size(m));
  TAKE(r, &s->dk, size(m));
  TAKE(r, &s->dv, size(m));
  return ATTEND_OK;
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
static attend_status train_with(study_run *r, attend_plan *plan, memory *m, const slopes *s,
                                double *loss) {
  const bool second = attend_plan_desc(plan)->form.kind == ATTEND_SOFTMAX;
  const int steps = study_count(r, "steps");
  const float rate = (float)study_number(r, "rate");
  attend_view q = attend_bhtd(m->q), k = attend_bhtd(m->k), v = attend_bhtd(m->v),
              o = attend_bhtd(s->o);
  for (int i = 0; i <= steps; i++) {
    TRY(attend_forward(plan, q, k, v, o, s->lse));
    loss[i] = loss_of(m, s->o);
    if (i == steps) break;
    for (size_t j = 0; j < size(m); j++) s->d_o[j] = s->o[j] - m->target[j];
    TRY(attend_backward(plan, q, k, v, o, s->lse, attend_bhtd(s->d_o), attend_bhtd(s->dq),
                        attend_bhtd(s->dk), attend_bhtd(s->dv), NULL));
    descend(m->q, s->dq, size(m), rate);
    descend(m->k, s->dk, size(m), rate);
    descend(m->v, s->dv, size(m), rate);
    if (i % 100 == 0) TRY(study_step(r, (second ? 0.6 : 0.2) + 0.4 * i / steps));
  }
  return ATTEND_OK;
}

static attend_status train(study_run *r, attend_form_kind form, memory *m, double *loss) {
  attend_desc desc = {ATTEND_INIT(attend_desc), .form.kind = form, .q_len = m->n,
                      .kv_len = m->n,           .dim = m->d,       .purpose = ATTEND_FOR_BACKWARD};
  attend_plan *plan;
  slopes s;
  TRY(take_slopes(r, m, &s));
  TRY(attend_plan_create(r->ctx, &desc, &plan));
  attend_status status = train_with(r, plan, m, &s, loss);
  attend_plan_free(plan);
  return status;
}

/* ---- what is known of argmax beforehand ---------------------------------------------- */

/* The key of the largest product, in double. */
static int winner(const memory *m, int row) {
  int best = 0;
  double most = -INFINITY;
  for (int j = 0; j < m->n; j++) {
    double sum = 0;
    for (int i = 0; i < m->d; i++) sum += (double)m->q[row * m->d + i] * (double)m->k[j * m->d + i];
    if (sum > most) most = sum, best = j;
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

static int changed(const float *a, const float *b, size_t n) {
  int count = 0;
  for (size_t i = 0; i < n; i++) count += a[i] != b[i];
  return count;
}

static int changed_rows(const float *a, const float *b, int n, int d) {
  int count = 0;
  for (int i = 0; i < n; i++) count += changed(a + i * d, b + i * d, (size_t)d) > 0;
  return count;
}

static const attend_study_column trained_columns[] = {
    {"form", "form", ATTEND_CELL_TEXT},
    {"queries", "queries that moved", ATTEND_CELL_COUNT},
    {"keys", "keys that moved", ATTEND_CELL_COUNT},
    {"values", "values that moved", ATTEND_CELL_COUNT},
    {"before", "loss before", ATTEND_CELL_NUMBER},
    {"first", "after one step", ATTEND_CELL_NUMBER},
    {"after", "after all", ATTEND_CELL_NUMBER},
    {0}};

typedef struct {
  memory start, end;
  double *loss;
  int moved[3]; /* rows of q, k, v */
} course;

static attend_status teach(study_run *r, attend_form_kind form, course *c) {
  TAKE(r, &c->loss, (size_t)study_count(r, "steps") + 1);
  TRY(draw(r, &c->start));
  TRY(draw(r, &c->end));
  TRY(train(r, form, &c->end, c->loss));
  const memory *a = &c->start, *b = &c->end;
  c->moved[0] = changed_rows(a->q, b->q, a->n, a->d);
  c->moved[1] = changed_rows(a->k, b->k, a->n, a->d);
  c->moved[2] = changed_rows(a->v, b->v, a->n, a->d);
  return ATTEND_OK;
}

static attend_status table_row(study_run *r, table_store *t, const char *name, const course *c) {
  TRY(study_word(t, "%s", name));
  return study_row(t, 6, (double)c->moved[0], (double)c->moved[1], (double)c->moved[2], c->loss[0],
                   c->loss[1], c->loss[study_count(r, "steps")]);
}

static attend_status claim(study_run *r, const course *c, const forecast *f) {
  const int steps = study_count(r, "steps");
  TRY(study_claim(r, "queries-moved", "argmax: queries that training moved", c->moved[0], 0, 0));
  TRY(study_claim(r, "keys-moved", "argmax: keys that training moved", c->moved[1], 0, 0));
  TRY(study_claim(r, "values-moved", "argmax: values that training moved, those of winners",
                  c->moved[2], f->winners, 0));
  TRY(study_claim(r, "loss-first", "argmax: loss after one step", c->loss[1], f->loss[1],
                  1e-5 * f->loss[0]));
  return study_claim(r, "loss-last", "argmax: loss after the last step", c->loss[steps],
                     f->loss[steps], 1e-5 * f->loss[0]);
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
  attend_plot_series series[] = {
      {.name = "argmax", .count = MARKS, .x = x, .y = y, .points = 2},
      {.name = "predicted", .count = n, .y = f->loss, .colour = 1},
      {.name = "its floor", .count = 2, .x = ends, .y = floor, .dashed = 1, .colour = 3},
      {.name = "softmax", .count = n, .y = soft->loss, .colour = 2}};
  attend_plot_panel panel = {.title = "Training queries, keys and values",
                             .x = {.label = "step"},
                             .y = {.label = "loss", .zero = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = sizeof series / sizeof *series,
                             .series = series};
  return study_figure(r, "argmax-training", &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status introduce(study_run *r) {
  TRY(study_heading(r, "What training changes"));
  return study_say(r,
                   "A memory of %d keys is asked %d queries, each of which is to give a "
                   "target of its own; queries, keys and values are random at first, and "
                   "all "
                   "three are trained by gradient descent for %d step%s.",
                   study_count(r, "queries"), study_count(r, "queries"), study_count(r, "steps"),
                   study_count(r, "steps") == 1 ? "" : "s");
}

static attend_status argmax_train(study_run *r) {
  course hard, soft;
  forecast f;
  table_store *t;
  TRY(introduce(r));
  TRY(teach(r, ATTEND_ARGMAX, &hard));
  TRY(teach(r, ATTEND_SOFTMAX, &soft));
  TRY(foresee(r, &hard.start, &f));
  TRY(study_table(r, "training", study_format(r, "Of %d each", study_count(r, "queries")),
                  trained_columns, &t));
  TRY(table_row(r, t, "argmax", &hard));
  TRY(table_row(r, t, "softmax", &soft));
  TRY(claim(r, &hard, &f));
  TRY(plot(r, &hard, &soft, &f));
  return study_say(r,
                   "Under argmax no query and no key has moved by a bit. %d of %d keys win "
                   "at all, and only their values learn; two queries with the same winner "
                   "get the same output for ever, so that the loss cannot fall below %.4g, "
                   "the spread of the targets that share a winner. All of this is known "
                   "beforehand: a value whose key wins m queries comes nearer to the mean "
                   "of "
                   "their targets by the factor 1 − %g m in every step. The softmax moves "
                   "everything, and ends at %.4g.",
                   f.winners, hard.start.n, f.floor, study_number(r, "rate"),
                   soft.loss[study_count(r, "steps")]);
}

static attend_status run(study_run *r) {
  attend_desc hard = problem(0, false), soft = problem(0, true);
  example a, b;
  TRY(run_example(r, &hard, &a));
  TRY(run_example(r, &soft, &b));
  TRY(show_example(r, &a, &b));
  TRY(show_gradients(r, &a, &b));
  TRY(show_line(r));
  TRY(show_temperature(r));
  TRY(study_step(r, 0.2));
  return argmax_train(r);
}

const study_topic study_argmax = {
    {.name = "argmax",
     .title = "Argmax attention, and why it cannot be trained",
     .question = "What does attention give that takes the best key alone, and "
                 "where do its gradients go?",
     .answers = "001 2(a)-(b), 003 3(a)-(b)",
     .settings = settings},
    run};
