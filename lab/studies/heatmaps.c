/* Heat maps of attention weights: random Q and K, and identical ones.
 *
 * With Q = K a query's own key scores ‖q‖², the others are normal with mean 0
 * and deviation ‖q‖, given q: its own key is the largest of n with probability
 * E[Φ(‖q‖)^(n-1)], where ‖q‖ is chi-distributed with d degrees of freedom.
 */
#include "studies/study.h"

enum { PICTURES = 1, MATRICES = 4, MOST = 16 }; /* streams; widths */

static const attend_setting settings[] = {
    {"length", "16", NULL, "queries and keys of the pictures", WHOLE, 1, 2, 128},
    {"width", "64", NULL, "d of the pictures", WHOLE, 1, 1, 4096},
    {"d", "1,2,4,8,16,32,64,128,256", "2,8,32", "widths that are compared", WHOLE, MOST, 1, 4096},
    {"matrices", "400", "60", "random Q, K, V drawn for each width", WHOLE, 1, 20, 100000},
    {0}};

/* `count` problems of n queries and n keys, width d. */
typedef struct {
  int count, n, d;
  study_pass pass;
} maps;

static attend_status attend_maps(study_run *r, maps *m, uint64_t stream, bool identical) {
  const attend_desc desc = {ATTEND_INIT(attend_desc), .batch = m->count, .q_len = m->n,
                            .kv_len = m->n, .dim = m->d};
  TRY(study_tensors(r, &desc, stream, STUDY_WEIGHTS, &m->pass));
  if (identical) m->pass.q = m->pass.k;
  return study_attend(r, &desc, &m->pass);
}

/* ---- which axis sums to 1 --------------------------------------------------------- */

typedef struct {
  double low, high, mean;
} range;

/* Of the sums over the keys of each query (by_row), or over the queries of each key. */
static range sums(const maps *m, bool by_row) {
  range g = {INFINITY, -INFINITY, 0};
  for (int i = 0; i < m->n; i++) {
    double sum = 0;
    for (int j = 0; j < m->n; j++)
      sum += (double)m->pass.weights[by_row ? i * m->n + j : j * m->n + i];
    g.low = fmin(g.low, sum);
    g.high = fmax(g.high, sum);
    g.mean += sum / m->n;
  }
  return g;
}

static const attend_study_column sum_columns[] = {
    {"what", "Q and K", TEXT}, {"over", "sum over", TEXT}, {"least", "least", NUMBER},
    {"most", "most", NUMBER},  {"mean", "mean", NUMBER},   {0}};

static attend_status sum_rows(study_run *r, table_store *t, const maps *m, const char *name) {
  const range keys = sums(m, true), queries = sums(m, false);
  TRY(study_row(t, name, "keys", keys.low, keys.high, keys.mean));
  TRY(study_row(t, name, "queries", queries.low, queries.high, queries.mean));
  TRY(study_claim(r, fmax(keys.high - 1, 1 - keys.low), 0, 1e-5,
                  "keys-%s: |sum over keys − 1|, Q and K %s", name, name));
  return study_claim(r, queries.mean, 1, 1e-5,
                     "queries-%s: mean of the sums over queries, Q and K %s", name, name);
}

/* ---- pictures ------------------------------------------------------------------------ */

static attend_status plot_weights(study_run *r, const maps *both) {
  static const char *const titles[] = {"Q and K random", "Q = K"};
  attend_plot_panel panels[2];
  for (int p = 0; p < 2; p++) {
    const size_t n = (size_t)both[p].n;
    double *cells = NULL;
    TRY(study_doubles(r, both[p].pass.weights, n * n, &cells));
    panels[p] = study_heat(titles[p], "key", "query", n, n, cells, study_zero("weight"));
  }
  return study_plot(r, "heatmaps-weights", 2, panels);
}

static attend_status plot_outputs(study_run *r, const maps *both) {
  enum { PANELS = 3, MOST_COLUMNS = 24 };
  static const char *const titles[] = {"V", "output, Q and K random", "output, Q = K"};
  const float *from[] = {both[1].pass.v, both[0].pass.o, both[1].pass.o};
  const int n = both->n, d = both->d, columns = d < MOST_COLUMNS ? d : MOST_COLUMNS;
  attend_plot_panel panels[PANELS];
  for (int p = 0; p < PANELS; p++) {
    double *cells = NULL;
    TAKE(r, &cells, (size_t)n * (size_t)columns);
    for (int i = 0; i < n * columns; i++) cells[i] = (double)from[p][i / columns * d + i % columns];
    panels[p] = study_heat(titles[p], "element", "position", (size_t)n, (size_t)columns, cells,
                           study_range(NULL, -3, 3));
  }
  return study_plot(r, "heatmaps-outputs", PANELS, panels);
}

/* ‖o − v‖ / ‖v‖ over all rows. */
static double distance(const maps *m) {
  return study_distance(m->pass.o, m->pass.v, (size_t)m->count * (size_t)m->n * (size_t)m->d);
}

/* The largest difference between a weight and the one across the diagonal. */
static double asymmetry(const maps *m) {
  const float *w = m->pass.weights;
  double max = 0;
  for (int i = 0; i < m->n * m->n; i++)
    max = fmax(max, fabs((double)w[i] - (double)w[i % m->n * m->n + i / m->n]));
  return max;
}

static attend_status show_maps(study_run *r) {
  maps both[2];
  table_store *t;
  for (int p = 0; p < 2; p++) {
    both[p] = (maps){.count = 1, .n = study_count(r, "length"), .d = study_count(r, "width")};
    TRY(attend_maps(r, &both[p], PICTURES, p));
  }
  TRY(study_heading(r, "Which axis sums to 1"));
  TRY(study_say(r,
                "Q, K and V have %d rows of %d standard normal numbers. The weights of "
                "softmax(QKᵀ/√d) are a distribution over keys for each query: the softmax divides "
                "every row by its sum over the keys.",
                both->n, both->d));
  TRY(plot_weights(r, both));
  TRY(study_table(r, &t, "sums", sum_columns, "Sums of the weights"));
  TRY(sum_rows(r, t, &both[0], "random"));
  TRY(sum_rows(r, t, &both[1], "identical"));
  TRY(study_say(r,
                "Over the keys every sum is 1, up to rounding. Over the queries it is what a key "
                "receives, and anything from 0 to the number of queries; only the mean of these "
                "sums is 1, as there are as many queries as keys. For the same reason the picture "
                "of Q = K is not symmetric, though its scores are: each row has a sum of its own. "
                "The largest difference across the diagonal is %.3g.",
                asymmetry(&both[1])));
  TRY(plot_outputs(r, both));
  return study_say(
      r,
      "The outputs' distance from V, ‖O − V‖ / ‖V‖, is %.3g with Q = K and %.3g with random Q and "
      "K. There every output is a mean of values, the nearer to 0 the more keys share the weight; "
      "with Q = K it is the more of its own value the brighter the diagonal.",
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
  const size_t n = (size_t)m->n, rows = (size_t)m->count * n;
  for (size_t i = 0; i < rows; i++) {
    const float *a = m->pass.weights + i * n;
    g.largest += (double)(study_top(a, n) == i % n) / (double)rows;
    g.weight += (double)a[i % n] / (double)rows;
  }
  return g;
}

static const attend_study_column diagonal_columns[] = {
    {"d", "d", COUNT},
    {"largest", "rows with the diagonal largest", NUMBER},
    {"predicted", "E[Φ(‖q‖)ⁿ⁻¹]", NUMBER},
    {"random", "with random Q", NUMBER},
    {"weight", "weight on the diagonal", NUMBER},
    {"distance", "‖O − V‖ / ‖V‖", NUMBER},
    {"distance_random", "with random Q", NUMBER},
    {0}};

/* Rows of one matrix share keys: the error is that of as many rows as there are
 * matrices, which is more than it is, and half a matrix more, so that a few rare
 * rows do not refute the claim. */
static attend_status one_width(study_run *r, table_store *t, double d) {
  maps same = {.count = study_count(r, "matrices"), .n = study_count(r, "length"), .d = (int)d},
       other = same;
  TRY(attend_maps(r, &same, MATRICES, true));
  TRY(attend_maps(r, &other, MATRICES, false));
  const diagonal a = diagonal_of(&same), b = diagonal_of(&other);
  const double p = own_is_largest(d, same.n), chance = 1.0 / same.n;
  TRY(study_row(t, d, a.largest, p, b.largest, a.weight, distance(&same), distance(&other)));
  TRY(study_estimate(r, a.largest, p, sqrt(p * (1 - p) / same.count) + 0.5 / same.count,
                     "diagonal-d%g: share of rows whose largest weight is their own, d = %g", d,
                     d));
  return study_estimate(r, b.largest, chance, sqrt(chance * (1 - chance) / same.count),
                        "random-d%g: the same with random Q: 1/n, d = %g", d, d);
}

static attend_status plot_widths(study_run *r, size_t n, const double *d, const table_store *t) {
  double chance[MOST];
  for (size_t i = 0; i < n; i++) chance[i] = 1.0 / study_count(r, "length");
  attend_plot_series a[] = {{"diagonal largest", n, d, study_column(t, "largest"), .points = 2},
                            {"predicted", n, d, study_column(t, "predicted"), .colour = 1},
                            {"random Q", n, d, study_column(t, "random"), .points = 2, .colour = 2},
                            {"1/n", n, d, chance, .dashed = 1, .colour = 2}};
  attend_plot_series b[] = {
      {"weight on the diagonal", n, d, study_column(t, "weight"), .points = 1},
      {"‖O − V‖ / ‖V‖", n, d, study_column(t, "distance"), .points = 1, .dashed = 1},
      {"random Q", n, d, study_column(t, "distance_random"), .points = 2, .colour = 3}};
  attend_plot_panel panels[] = {
      study_lines("Rows whose largest weight is their own", study_log("d"),
                  study_range("share of rows", 0, 1.05), 4, a),
      study_lines("How much of V comes through", study_log("d"), study_zero("weight; distance"), 3,
                  b)};
  return study_plot(r, "heatmaps-diagonal", 2, panels);
}

static attend_status show_widths(study_run *r) {
  size_t count;
  const double *d = study_list(r, "d", &count);
  const int n = study_count(r, "length");
  const double need = log((double)n - 1) + 0.5;
  table_store *t;
  TRY(study_heading(r, "Why the diagonal is bright"));
  TRY(study_say(
      r,
      "With Q = K the score of a query with its own key is qᵢ·qᵢ = ‖qᵢ‖², about d. Any other is "
      "qᵢ·qⱼ: given qᵢ it is normal with mean 0 and deviation ‖qᵢ‖, about √d. So the own key is √d "
      "deviations above the rest, and the largest of all n with probability E[Φ(‖q‖)ⁿ⁻¹]."));
  TRY(study_table(r, &t, "diagonal", diagonal_columns, "Q = K, n = %d", n));
  for (size_t i = 0; i < count; i++) {
    TRY(one_width(r, t, d[i]));
    TRY(study_step(r, (double)(i + 1) / (double)count));
  }
  TRY(plot_widths(r, count, d, t));
  return study_say(r,
                   "Being the largest is not yet having the weight. After 1/√d the own score is "
                   "about √d, and the n − 1 others together weigh about (n − 1) e^½: the diagonal "
                   "has more than half of the weight once √d > log(n − 1) + ½, which for n = %d is "
                   "d > %.1f. Beyond that attention returns its own value, and O tends to V.",
                   n, need > 0 ? need * need : 0.0);
}

static attend_status run(study_run *r) {
  TRY(show_maps(r));
  return show_widths(r);
}

const study_topic study_heatmaps = {{.name = "heatmaps",
                                     .title = "Attention weights as heat maps",
                                     .question = "Over which axis do weights sum to 1, and what do "
                                                 "they look like when Q and K are the same?",
                                     .answers = "Fall 2022 1(a)-(b)",
                                     .settings = settings},
                                    run};
