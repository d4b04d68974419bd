/* Heat maps of attention weights: random Q and K, and identical ones.
 *
 * With Q = K a query's own key scores ‖q‖², the others are normal with mean 0
 * and deviation ‖q‖, given q: its own key is the largest of n with probability
 * E[Φ(‖q‖)^(n-1)], where ‖q‖ is chi-distributed with d degrees of freedom.
 */
#include "studies/study.h"

enum { QUERY = 1, KEY, VALUE, CROWD_QUERY, CROWD_KEY, CROWD_VALUE, MOST = 16 };

static const attend_setting settings[] = {
    {"length", "16", NULL, "queries and keys of the pictures", ATTEND_SETTING_WHOLE, 1, 2, 128},
    {"width", "64", NULL, "d of the pictures", ATTEND_SETTING_WHOLE, 1, 1, 4096},
    {"d", "1,2,4,8,16,32,64,128,256", "2,8,32", "widths that are compared", ATTEND_SETTING_WHOLE,
     MOST, 1, 4096},
    {"matrices", "400", "60", "random Q, K, V drawn for each width", ATTEND_SETTING_WHOLE, 1, 20,
     100000},
    {0}};

/* B problems of n queries and n keys, width d. */
typedef struct {
  int count, n, d;
  float *q, *k, *v, *o, *lse, *weights;
} maps;

static size_t rows_of(const maps *m) { return (size_t)m->count * (size_t)m->n; }

/* Identical: Q is K. Streams from `first`. */
static attend_status draw(study_run *r, maps *m, uint64_t first, bool identical) {
  const size_t rows = rows_of(m), size = rows * (size_t)m->d;
  TAKE(r, &m->k, size);
  TAKE(r, &m->v, size);
  TAKE(r, &m->o, size);
  TAKE(r, &m->lse, rows);
  TAKE(r, &m->weights, rows * (size_t)m->n);
  study_normal(r, first + KEY - QUERY, 0, size, m->k);
  study_normal(r, first + VALUE - QUERY, 0, size, m->v);
  m->q = m->k;
  if (identical) return ATTEND_OK;
  TAKE(r, &m->q, size);
  study_normal(r, first, 0, size, m->q);
  return ATTEND_OK;
}

static attend_status attend_maps(study_run *r, maps *m, uint64_t first, bool identical) {
  TRY(draw(r, m, first, identical));
  attend_desc desc = {ATTEND_INIT(attend_desc), .batch = m->count, .q_len = m->n, .kv_len = m->n,
                      .dim = m->d};
  return study_attend(
      r, &desc,
      &(study_pass){
          .q = m->q, .k = m->k, .v = m->v, .o = m->o, .lse = m->lse, .weights = m->weights});
}

/* ---- which axis sums to 1 --------------------------------------------------------- */

/* Sums over the keys of each query (by_row), or over the queries of each key. */
static void sums(const maps *m, bool by_row, double *sum) {
  for (int i = 0; i < m->n; i++) {
    sum[i] = 0;
    for (int j = 0; j < m->n; j++)
      sum[i] += (double)m->weights[by_row ? i * m->n + j : j * m->n + i];
  }
}

typedef struct {
  double low, high, mean;
} range;

static range range_of(const double *x, int n) {
  range g = {x[0], x[0], 0};
  for (int i = 0; i < n; i++) {
    if (x[i] < g.low) g.low = x[i];
    if (x[i] > g.high) g.high = x[i];
    g.mean += x[i] / n;
  }
  return g;
}

static const attend_study_column sum_columns[] = {
    {"what", "Q and K", ATTEND_CELL_TEXT},  {"over", "sum over", ATTEND_CELL_TEXT},
    {"least", "least", ATTEND_CELL_NUMBER}, {"most", "most", ATTEND_CELL_NUMBER},
    {"mean", "mean", ATTEND_CELL_NUMBER},   {0}};

static attend_status sum_rows(study_run *r, table_store *t, const maps *m, const char *name) {
  double *sum = NULL;
  TAKE(r, &sum, (size_t)m->n);
  sums(m, true, sum);
  range keys = range_of(sum, m->n);
  double off = fmax(keys.high - 1, 1 - keys.low);
  sums(m, false, sum);
  range queries = range_of(sum, m->n);
  TRY(study_word(t, "%s", name));
  TRY(study_word(t, "keys"));
  TRY(study_row(t, 3, keys.low, keys.high, keys.mean));
  TRY(study_word(t, "%s", name));
  TRY(study_word(t, "queries"));
  TRY(study_row(t, 3, queries.low, queries.high, queries.mean));
  TRY(study_claim(r, study_format(r, "keys-%s", name),
                  study_format(r, "|sum over keys − 1|, Q and K %s", name), off, 0, 1e-5));
  return study_claim(r, study_format(r, "queries-%s", name),
                     study_format(r, "mean of the sums over queries, Q and K %s", name),
                     queries.mean, 1, 1e-5);
}

/* ---- pictures ------------------------------------------------------------------------ */

static attend_status plot_weights(study_run *r, const maps *both) {
  static const char *const titles[] = {"Q and K random", "Q = K"};
  attend_plot_panel panels[2];
  for (int p = 0; p < 2; p++) {
    const size_t n = (size_t)both[p].n;
    double *cells = NULL;
    TAKE(r, &cells, n * n);
    for (size_t i = 0; i < n * n; i++) cells[i] = (double)both[p].weights[i];
    panels[p] = (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                                    .title = titles[p],
                                    .x = {.label = "key"},
                                    .y = {.label = "query"},
                                    .columns = n,
                                    .rows = n,
                                    .cells = cells,
                                    .z = {.label = "weight", .zero = 1}};
  }
  return study_figure(r, "heatmaps-weights",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status plot_outputs(study_run *r, const maps *both) {
  enum { PANELS = 3, MOST_COLUMNS = 24 };
  static const char *const titles[] = {"V", "output, Q and K random", "output, Q = K"};
  const float *from[] = {both[1].v, both[0].o, both[1].o};
  const int n = both->n, d = both->d, columns = d < MOST_COLUMNS ? d : MOST_COLUMNS;
  attend_plot_panel panels[PANELS];
  for (int p = 0; p < PANELS; p++) {
    double *cells = NULL;
    TAKE(r, &cells, (size_t)n * (size_t)columns);
    for (int i = 0; i < n * columns; i++) cells[i] = (double)from[p][i / columns * d + i % columns];
    panels[p] = (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                                    .title = titles[p],
                                    .x = {.label = "element"},
                                    .y = {.label = "position"},
                                    .columns = (size_t)columns,
                                    .rows = (size_t)n,
                                    .cells = cells,
                                    .z = {.low = -3, .high = 3},
                                    .diverging = 1};
  }
  return study_figure(r, "heatmaps-outputs",
                      &(attend_plot){.count = PANELS, .across = PANELS, .panels = panels});
}

/* ‖o − v‖ / ‖v‖ over all rows. */
static double distance(const maps *m) {
  double off = 0, all = 0;
  for (size_t i = 0; i < rows_of(m) * (size_t)m->d; i++) {
    double x = (double)m->o[i] - (double)m->v[i];
    off += x * x;
    all += (double)m->v[i] * (double)m->v[i];
  }
  return sqrt(off / all);
}

/* The largest difference between a weight and the one across the diagonal. */
static double asymmetry(const maps *m) {
  double most = 0;
  for (int i = 0; i < m->n * m->n; i++) {
    double off = fabs((double)m->weights[i] - (double)m->weights[i % m->n * m->n + i / m->n]);
    if (off > most) most = off;
  }
  return most;
}

static attend_status show_maps(study_run *r) {
  maps both[2];
  table_store *t;
  for (int p = 0; p < 2; p++) {
    both[p] = (maps){.count = 1, .n = study_count(r, "length"), .d = study_count(r, "width")};
    TRY(attend_maps(r, &both[p], QUERY, p));
  }
  TRY(study_heading(r, "Which axis sums to 1"));
  TRY(study_say(r,
                "Q, K and V have %d rows of %d standard normal numbers. The weights of "
                "softmax(QKᵀ/√d) are a distribution over keys for each query: the "
                "softmax divides every row by its sum over the keys.",
                both->n, both->d));
  TRY(plot_weights(r, both));
  TRY(study_table(r, "sums", "Sums of the weights", sum_columns, &t));
  TRY(sum_rows(r, t, &both[0], "random"));
  TRY(sum_rows(r, t, &both[1], "identical"));
  TRY(study_say(r,
                "Over the keys every sum is 1, up to rounding. Over the queries it is "
                "what a key receives, and anything from 0 to the number of queries; "
                "only the mean of these sums is 1, as there are as many queries as "
                "keys. For the same reason the picture of Q = K is not symmetric, "
                "though its scores are: each row has a sum of its own. The largest "
                "difference across the diagonal is %.3g.",
                asymmetry(&both[1])));
  TRY(plot_outputs(r, both));
  return study_say(r,
                   "The outputs' distance from V, ‖O − V‖ / ‖V‖, is %.3g with Q = K and "
                   "%.3g "
                   "with random Q and K. There every output is a mean of values, the nearer "
                   "to 0 the more keys share the weight; with Q = K it is the more of its "
                   "own value the brighter the diagonal.",
                   distance(&both[1]), distance(&both[0]));
}

/* ---- why the diagonal ------------------------------------------------------------------- */

/* E[Φ(x)^(n-1)] for x chi-distributed with d degrees of freedom, by a sum over
 * x within 12 of the middle. */
static double own_is_largest(double d, int n) {
  enum { STEPS = 8000 };
  const double reach = 12, middle = sqrt(d);
  const double low = middle > reach ? middle - reach : 0, h = (middle + reach - low) / STEPS;
  const double constant = (1 - d / 2) * M_LN2 - lgamma(d / 2);
  double sum = 0, all = 0;
  for (int i = 0; i < STEPS; i++) {
    double x = low + h * (i + 0.5);
    double density = exp(constant + (d - 1) * log(x) - x * x / 2);
    sum += density * pow(0.5 * erfc(-x * M_SQRT1_2), n - 1);
    all += density;
  }
  return sum / all;
}

/* Of all rows: how many have their largest weight on the diagonal, and the mean
 * weight there. */
typedef struct {
  double largest, weight;
} diagonal;

static diagonal diagonal_of(const maps *m) {
  diagonal g = {0};
  const size_t n = (size_t)m->n, rows = rows_of(m);
  for (size_t i = 0; i < rows; i++) {
    const float *a = m->weights + i * n;
    size_t top = 0;
    for (size_t j = 1; j < n; j++)
      if (a[j] > a[top]) top = j;
    g.largest += (double)(top == i % n) / (double)rows;
    g.weight += (double)a[i % n] / (double)rows;
  }
  return g;
}

static const attend_study_column diagonal_columns[] = {
    {"d", "d", ATTEND_CELL_COUNT},
    {"largest", "rows with the diagonal largest", ATTEND_CELL_NUMBER},
    {"predicted", "E[Φ(‖q‖)ⁿ⁻¹]", ATTEND_CELL_NUMBER},
    {"random", "with random Q", ATTEND_CELL_NUMBER},
    {"weight", "weight on the diagonal", ATTEND_CELL_NUMBER},
    {"distance", "‖O − V‖ / ‖V‖", ATTEND_CELL_NUMBER},
    {"distance_random", "with random Q", ATTEND_CELL_NUMBER},
    {0}};

typedef struct {
  double largest[MOST], predicted[MOST], random[MOST], weight[MOST], distance[MOST],
      distance_random[MOST], chance[MOST];
} width_lines;

/* Rows of one matrix share keys: the error is that of as many rows as there are
 * matrices, which is more than it is, and half a matrix more, so that a few rare
 * rows are no alarm. */
static attend_status one_width(study_run *r, table_store *t, double d, size_t i, width_lines *l) {
  maps same = {.count = study_count(r, "matrices"), .n = study_count(r, "length"), .d = (int)d},
       other = same;
  TRY(attend_maps(r, &same, CROWD_QUERY, true));
  TRY(attend_maps(r, &other, CROWD_QUERY, false));
  diagonal a = diagonal_of(&same), b = diagonal_of(&other);
  const double p = own_is_largest(d, same.n), chance = 1.0 / same.n;
  l->largest[i] = a.largest, l->predicted[i] = p;
  l->random[i] = b.largest, l->chance[i] = chance;
  l->weight[i] = a.weight;
  l->distance[i] = distance(&same), l->distance_random[i] = distance(&other);
  TRY(study_row(t, 7, d, a.largest, p, b.largest, a.weight, l->distance[i], l->distance_random[i]));
  TRY(study_estimate(r, study_format(r, "diagonal-d%g", d),
                     study_format(r, "share of rows whose largest weight is their own, d = %g", d),
                     a.largest, p, sqrt(p * (1 - p) / same.count) + 0.5 / same.count));
  return study_estimate(r, study_format(r, "random-d%g", d),
                        study_format(r, "the same with random Q: 1/n, d = %g", d), b.largest,
                        chance, sqrt(chance * (1 - chance) / same.count));
}

static attend_status plot_widths(study_run *r, size_t n, const double *d, const width_lines *l) {
  attend_plot_series a[] = {
      {.name = "diagonal largest", .count = n, .x = d, .y = l->largest, .points = 2},
      {.name = "predicted", .count = n, .x = d, .y = l->predicted, .colour = 1},
      {.name = "random Q", .count = n, .x = d, .y = l->random, .points = 2, .colour = 2},
      {.name = "1/n", .count = n, .x = d, .y = l->chance, .dashed = 1, .colour = 2}};
  attend_plot_series b[] = {
      {.name = "weight on the diagonal", .count = n, .x = d, .y = l->weight, .points = 1},
      {.name = "‖O − V‖ / ‖V‖", .count = n, .x = d, .y = l->distance, .points = 1, .dashed = 1},
      {.name = "random Q", .count = n, .x = d, .y = l->distance_random, .points = 2, .colour = 3}};
  attend_plot_panel panels[] = {{.title = "Rows whose largest weight is their own",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "share of rows", .low = 0, .high = 1.05},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = sizeof a / sizeof *a,
                                 .series = a},
                                {.title = "How much of V comes through",
                                 .x = {.label = "d", .log = 1},
                                 .y = {.label = "weight; distance", .zero = 1},
                                 .key = ATTEND_KEY_ABOVE,
                                 .count = sizeof b / sizeof *b,
                                 .series = b}};
  return study_figure(r, "heatmaps-diagonal",
                      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status show_widths(study_run *r) {
  size_t count;
  const double *d = study_list(r, "d", &count);
  const int n = study_count(r, "length");
  const double need = log((double)n - 1) + 0.5;
  width_lines *l = NULL;
  table_store *t;
  TAKE(r, &l, 1);
  TRY(study_heading(r, "Why the diagonal is bright"));
  TRY(study_say(r,
                "With Q = K the score of a query with its own key is qᵢ·qᵢ = ‖qᵢ‖², "
                "about d. Any other is qᵢ·qⱼ: given qᵢ it is normal with mean 0 and "
                "deviation ‖qᵢ‖, about √d. So the own key is √d deviations above the "
                "rest, and the largest of all n with probability E[Φ(‖q‖)ⁿ⁻¹]."));
  TRY(study_table(r, "diagonal", study_format(r, "Q = K, n = %d", n), diagonal_columns, &t));
  for (size_t i = 0; i < count; i++) {
    TRY(one_width(r, t, d[i], i, l));
    TRY(study_step(r, (double)(i + 1) / (double)count));
  }
  TRY(plot_widths(r, count, d, l));
  return study_say(r,
                   "Being the largest is not yet having the weight. After 1/√d the own "
                   "score "
                   "is about √d, and the n − 1 others together weigh about (n − 1) e^½: the "
                   "diagonal has more than half of the weight once √d > log(n − 1) + ½, "
                   "which for n = %d is d > %.1f. Beyond that attention returns its own "
                   "value, and O tends to V.",
                   n, need > 0 ? need * need : 0.0);
}

static attend_status run(study_run *r) {
  TRY(show_maps(r));
  return show_widths(r);
}

const study_topic study_heatmaps = {
    {.name = "heatmaps",
     .title = "Attention weights as heat maps",
     .question = "Over which axis do weights sum to 1, and what do they look "
                 "like when Q and K are the same?",
     .answers = "002 1(a)-(b)",
     .settings = settings},
    run};
