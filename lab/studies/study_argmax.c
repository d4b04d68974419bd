/* Argmax attention: the documents' example, its gradients, the temperatures
 * between it and a softmax, and what training can change.
 *
 * Documents 001 2(a)-(b), 003 3(a)-(b). Training a small memory is
 * study_argmax_train.c.
 */
#include "studies/study_argmax.h"

enum { WIDTH = 3, KEYS = 4, ALL = KEYS * WIDTH, WINNER = 1, SECOND = 2 };
enum { MOST_TEMPERATURES = 32, POINTS = 121 };

static const attend_setting settings[] = {
    {"temperature", "0.5,0.7,1,1.4,2,2.8,4,5.6,8,11,16,32,64", "0.5,1,2,4,8,16",
     "from hard to soft", ATTEND_SETTING_NUMBERS, MOST_TEMPERATURES, 0.1, 1e4},
    {"queries", "24", "12", "queries, and keys, of the memory that is trained",
     ATTEND_SETTING_WHOLE, 1, 2, 32},
    {"d", "8", NULL, "its width", ATTEND_SETTING_WHOLE, 1, 1, 256},
    {"steps", "600", "60", "steps of gradient descent", ATTEND_SETTING_WHOLE, 1,
     1, 100000},
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
  return (attend_desc){.form = {.kind = soft ? ATTEND_SOFTMAX : ATTEND_ARGMAX,
                                .temperature = temperature},
                       .q_len = 1,
                       .kv_len = KEYS,
                       .dim = WIDTH,
                       .scale = 1};
}

static attend_status run_example(study_run *r, const attend_desc *desc,
                                 example *e) {
  study_pass p = {.q = query,
                  .k = keys,
                  .v = values,
                  .o = e->o,
                  .lse = &e->lse,
                  .weights = e->weights};
  TRY(study_attend(r, desc, &p));
  for (int i = 0; i < WIDTH; i++)
    e->d_o[i] = e->o[i] - values[SECOND * WIDTH + i];
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
  return study_attend(r, &d,
                      &(study_pass){.q = query,
                                    .k = keys + key * WIDTH,
                                    .v = values + key * WIDTH,
                                    .o = o,
                                    .lse = score});
}

static attend_status show_key(study_run *r, table_store *t, int key,
                              const example *hard, const example *soft) {
  static const double scores[KEYS] = {3, 11, 5, 2};
  const float *k = keys + key * WIDTH, *v = values + key * WIDTH;
  float score;
  TRY(score_of(r, key, &score));
  TRY(study_word(t, "(%g, %g, %g)", (double)k[0], (double)k[1], (double)k[2]));
  TRY(study_word(t, "(%g, %g, %g)", (double)v[0], (double)v[1], (double)v[2]));
  TRY(study_row(t, 3, (double)score, (double)hard->weights[key],
                (double)soft->weights[key]));
  TRY(study_claim(r, study_format(r, "score-%d", key + 1),
                  study_format(r, "q·k of key %d", key + 1), (double)score,
                  scores[key], 0));
  return study_claim(r, study_format(r, "weight-%d", key + 1),
                     study_format(r, "argmax's weight of key %d", key + 1),
                     (double)hard->weights[key], key == WINNER, 0);
}

static attend_status show_example(study_run *r, const example *hard,
                                  const example *soft) {
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
                    study_format(r, "element %d of argmax's output", i + 1),
                    (double)hard->o[i], output[i], 0));
  return study_say(r,
                   "The best score is %g, so the output is (%g, %g, %g), the "
                   "second value as it stands. Softmax gives (%.4f, %.4f, "
                   "%.4f): close, since exp(5 − 11) is small, but every value "
                   "is in it.",
                   (double)hard->lse, (double)hard->o[0], (double)hard->o[1],
                   (double)hard->o[2], (double)soft->o[0], (double)soft->o[1],
                   (double)soft->o[2]);
}

/* ---- gradients ---------------------------------------------------------------------- */

static const attend_study_column gradient_columns[] = {
    {"form", "form", ATTEND_CELL_TEXT},   {"dq", "‖dq‖", ATTEND_CELL_NUMBER},
    {"dk", "‖dK‖", ATTEND_CELL_NUMBER},   {"dv1", "‖dv₁‖", ATTEND_CELL_NUMBER},
    {"dv2", "‖dv₂‖", ATTEND_CELL_NUMBER}, {"dv3", "‖dv₃‖", ATTEND_CELL_NUMBER},
    {"dv4", "‖dv₄‖", ATTEND_CELL_NUMBER}, {0}};

static attend_status gradient_row(table_store *t, const char *name,
                                  const example *e) {
  TRY(study_word(t, "%s", name));
  TRY(study_row(t, 2, norm(e->dq, WIDTH), norm(e->dk, ALL)));
  for (int j = 0; j < KEYS; j++)
    TRY(study_cell(t, norm(e->dv + j * WIDTH, WIDTH)));
  return ATTEND_OK;
}

static attend_status claim_gradients(study_run *r, const example *e) {
  static const double expected[WIDTH] = {1, 5, -1};
  double others = 0;
  for (int j = 0; j < KEYS; j++)
    if (j != WINNER) others += norm(e->dv + j * WIDTH, WIDTH);
  TRY(study_claim(r, "dq", "argmax: ‖dq‖", norm(e->dq, WIDTH), 0, 0));
  TRY(study_claim(r, "dk", "argmax: ‖dK‖", norm(e->dk, ALL), 0, 0));
  TRY(study_claim(r, "dv-others", "argmax: dV of the keys that lost", others, 0,
                  0));
  for (int i = 0; i < WIDTH; i++)
    TRY(study_claim(
        r, study_format(r, "dv-winner-%d", i + 1),
        study_format(r, "argmax: dV of the winner, element %d", i + 1),
        (double)e->dv[WINNER * WIDTH + i], expected[i], 0));
  return ATTEND_OK;
}

static attend_status show_gradients(study_run *r, const example *hard,
                                    const example *soft) {
  table_store *t;
  TRY(study_heading(r, "Gradients"));
  TRY(study_say(
      r,
      "Suppose the query should have found the third value: the loss is "
      "½‖o − v₃‖², and the gradient that arrives at the output is o − v₃ = "
      "(1, 5, −1). A small change of q or of a key does not change who "
      "wins, so nothing of it reaches them: their gradients are not small, "
      "they are 0. All of it goes to the value that won, which is drawn "
      "towards v₃; that the wrong key won is not mended."));
  TRY(study_table(r, "gradients", "Where the gradient goes", gradient_columns,
                  &t));
  TRY(gradient_row(t, "argmax", hard));
  TRY(gradient_row(t, "softmax", soft));
  return claim_gradients(r, hard);
}

/* ---- along a line ---------------------------------------------------------------------- */

/* q + x (k3 - k2) / |k3 - k2| for n places x. */
static void walk(size_t n, const double *x, float *q) {
  const float *a = keys + WINNER * WIDTH, *b = keys + SECOND * WIDTH;
  float way[WIDTH];
  for (int i = 0; i < WIDTH; i++) way[i] = b[i] - a[i];
  const double length = norm(way, WIDTH);
  for (size_t p = 0; p < n; p++)
    for (int i = 0; i < WIDTH; i++)
      q[p * WIDTH + (size_t)i] =
          (float)((double)query[i] + x[p] * (double)way[i] / length);
}

static attend_status losses(study_run *r, attend_desc desc, size_t n,
                            const double *x, double *loss) {
  float *q = NULL, *o = NULL;
  TAKE(r, &q, n * WIDTH);
  TAKE(r, &o, n * WIDTH);
  desc.q_len = (int)n;
  walk(n, x, q);
  TRY(study_attend(r, &desc,
                   &(study_pass){.q = q, .k = keys, .v = values, .o = o}));
  for (size_t p = 0; p < n; p++) {
    float off[WIDTH];
    for (int i = 0; i < WIDTH; i++)
      off[i] = o[p * WIDTH + (size_t)i] - values[SECOND * WIDTH + i];
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
  attend_plot_panel panel = {
      .title = "Loss as q moves towards the third key",
      .x = {.label = "how far q has moved along k₃ − k₂"},
      .y = {.label = "½‖o − v₃‖²", .zero = 1},
      .key = ATTEND_KEY_ABOVE,
      .count = LINES,
      .series = series,
      .marks = 1,
      .mark = &mark};
  return study_figure(r, "argmax-line",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status show_line(study_run *r) {
  double step;
  TRY(find_step(r, &step));
  TRY(study_claim(r, "step", "where the third key begins to win", step,
                  6 / sqrt(50), 1e-6));
  TRY(plot_line(r, step));
  return study_say(
      r,
      "Along the line from the second key to the third the loss of argmax is a "
      "step: flat everywhere, with a jump at (11 − 5) / ‖k₃ − k₂‖ = 6/√50 = "
      "%.4f (found by halving: %.4f). Descent looks at the slope alone, and "
      "never hears of the jump. The softmax falls over the same stretch, and a "
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
  for (int j = 0; j < ALL; j++)
    o[j % WIDTH] += weights[j / WIDTH] * (double)values[j];
  for (int j = 0; j < KEYS; j++) {
    double along = 0;
    for (int i = 0; i < WIDTH; i++)
      along += (o[i] - (double)values[SECOND * WIDTH + i]) *
               ((double)values[j * WIDTH + i] - o[i]);
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
  double weight[KEYS][MOST_TEMPERATURES], dq[MOST_TEMPERATURES],
      predicted[MOST_TEMPERATURES], dv[MOST_TEMPERATURES];
} temperatures;

/* f32 keeps a difference of what is multiplied here to about 1e-6. */
static attend_status one_temperature(study_run *r, table_store *t, double at,
                                     size_t i, temperatures *all) {
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
  TRY(study_row(t, 7, at, all->weight[WINNER][i], weights[WINNER], sqrt(off),
                all->dq[i], all->predicted[i], all->dv[i]));
  TRY(study_claim(r, study_format(r, "winner-t%g", at),
                  study_format(r, "weight of the winner at t = %g", at),
                  all->weight[WINNER][i], weights[WINNER], 1e-6));
  return study_claim(r, study_format(r, "dq-t%g", at),
                     study_format(r, "‖dq‖ at t = %g", at), all->dq[i],
                     all->predicted[i], 5e-5 / at + 1e-5 * all->predicted[i]);
}

static attend_status plot_temperature(study_run *r, size_t n, const double *x,
                                      const temperatures *all) {
  static const char *const names[] = {"key 1", "key 2", "key 3", "key 4"};
  attend_plot_series a[KEYS],
      b[] = {{.name = "‖dq‖", .count = n, .x = x, .y = all->dq, .points = 2},
             {.name = "predicted",
              .count = n,
              .x = x,
              .y = all->predicted,
              .colour = 1},
             {.name = "‖dV‖",
              .count = n,
              .x = x,
              .y = all->dv,
              .dashed = 1,
              .colour = 2}};
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
  return study_figure(
      r, "argmax-temperature",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status show_temperature(study_run *r) {
  size_t n;
  const double *x = study_list(r, "temperature", &n);
  temperatures *all = NULL;
  table_store *t;
  TAKE(r, &all, 1);
  TRY(study_heading(r, "From hard to soft"));
  TRY(study_say(
      r,
      "The softmax of score / t is argmax in the limit of t → 0 and the "
      "plain mean of the values for t → ∞. The gradient of q is "
      "(1/t) Σⱼ aⱼ (g·(vⱼ − o)) kⱼ with g = o − v₃: at the hard end it "
      "vanishes like exp(−6/t)/t, since 6 is how far the second best score "
      "lies behind; at the soft end like 1/t. Learning is quickest between "
      "the two."));
  TRY(study_table(r, "temperature", "Form argmax with a temperature",
                  temperature_columns, &t));
  for (size_t i = 0; i < n; i++) TRY(one_temperature(r, t, x[i], i, all));
  return plot_temperature(r, n, x, all);
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
