/* Any similarity instead of exp: which ones keep the denominator away from zero,
 * and the quadratic kernel as a product of features.
 *
 * Documents 001 6(a)-(d), 003 5(a)-(d). What both ways cost is study_kernels_ways.c.
 */
#include "studies/study_kernels.h"

enum { MOST = 16, STREAM = 300 };

static const attend_setting settings[] = {
    {"d", "16", "8", "width of q, k and v", ATTEND_SETTING_WHOLE, 1, 2, 64},
    {"queries", "512", "96", "queries whose denominators are looked at",
     ATTEND_SETTING_WHOLE, 1, 2, 4096},
    {"keys", "32", NULL, "keys that each of them sums over",
     ATTEND_SETTING_WHOLE, 1, 1, 4096},
    {"features", "128", "64", "random features of fourier and favor",
     ATTEND_SETTING_WHOLE, 1, 16, 4096},
    {"widths", "2,4,8,16,32,64", "2,4,8", "widths of the quadratic map",
     ATTEND_SETTING_WHOLE, MOST, 2, 128},
    {"pairs", "20000", "2000", "pairs that are drawn for each width",
     ATTEND_SETTING_WHOLE, 1, 100, 1e6},
    {"lengths", "64,128,256,512,1024,2048,4096", "64,128,192",
     "lengths that both ways are timed at", ATTEND_SETTING_WHOLE, MOST, 1,
     32768},
    {"crossing", "4,8,16,32", "4", "widths whose crossing is looked for",
     ATTEND_SETTING_WHOLE, MOST, 2, 64},
    {"repeat", "5", "1", "timings, of which the median counts",
     ATTEND_SETTING_WHOLE, 1, 1, 64},
    {0}};

/* ---- running the library --------------------------------------------------------- */

attend_desc kernel_poly(int degree, int n, int width, const char *engine) {
  return (attend_desc){.form = {.kind = ATTEND_POLY, .degree = degree, .c = 1},
                       .q_len = n,
                       .kv_len = n,
                       .dim = width,
                       .engine = engine};
}

attend_status kernel_run(study_run *r, const attend_desc *d,
                         const float *const qkv[3], float *o, float *lse,
                         int64_t *weak) {
  attend_plan *plan;
  TRY(attend_plan_create(r->ctx, d, &plan));
  attend_status status =
      attend_forward(plan, attend_bhtd(qkv[0]), attend_bhtd(qkv[1]),
                     attend_bhtd(qkv[2]), attend_bhtd(o), lse);
  if (weak) *weak = attend_plan_weak_rows(plan);
  attend_plan_free(plan);
  return status;
}

attend_status kernel_draw(study_run *r, size_t n, size_t width, float *qkv[3]) {
  for (int i = 0; i < 3; i++) {
    TAKE(r, &qkv[i], n * width);
    study_normal(r, STREAM + (uint64_t)i, 0, n * width, qkv[i]);
  }
  return ATTEND_OK;
}

/* ---- denominators ----------------------------------------------------------------- */

typedef struct {
  const char *name, *sim;
  attend_form form;
  bool positive; /* by its formula */
} similarity;

static const similarity similarities[] = {
    {"softmax", "exp(q.k/√D)", {.kind = ATTEND_SOFTMAX}, true},
    {"gaussian", "exp(-‖q-k‖²/2√D)", {.kind = ATTEND_GAUSSIAN}, true},
    {"elu", "(elu(q)+1).(elu(k)+1)", {.kind = ATTEND_ELU}, true},
    {"favor", "positive random features", {.kind = ATTEND_FAVOR}, true},
    {"poly-2", "(q.k+1)²", {.kind = ATTEND_POLY, .degree = 2, .c = 1}, true},
    {"poly-1", "q.k+1", {.kind = ATTEND_POLY, .degree = 1, .c = 1}, false},
    {"poly-3", "(q.k+1)³", {.kind = ATTEND_POLY, .degree = 3, .c = 1}, false},
    {"fourier", "sines and cosines", {.kind = ATTEND_FOURIER}, false}};
enum { SIMILARITIES = sizeof similarities / sizeof *similarities };

typedef struct {
  double smallest; /* of |sum| / sum of absolute values, over rows */
  double negative; /* rows with a denominator below zero */
  double outside;  /* elements of V' outside of the values' range */
  double reach;    /* largest |V'| / largest |V| */
  int64_t weak;
} denominators;

/* A row's weights are sim / sum: their absolute values add up to the inverse of
 * what the denominator kept. */
static attend_status shares_of(study_run *r, const attend_desc *d,
                               const float *const qkv[3], double *shares) {
  const size_t n = (size_t)d->q_len, keys = (size_t)d->kv_len;
  double *weights = NULL;
  TAKE(r, &weights, n * keys);
  TRY(attend_definition_weights(r->ctx, d, attend_bhtd(qkv[0]),
                                attend_bhtd(qkv[1]), weights));
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t j = 0; j < keys; j++) sum += fabs(weights[i * keys + j]);
    shares[i] = 1 / sum;
  }
  return ATTEND_OK;
}

static double largest(const float *x, size_t n) {
  double most = 0;
  for (size_t i = 0; i < n; i++)
    if (fabs((double)x[i]) > most) most = fabs((double)x[i]);
  return most;
}

static void reach_of(const attend_desc *d, const float *v, const float *o,
                     denominators *out) {
  const size_t width = (size_t)d->dim, n = (size_t)d->q_len;
  const size_t keys = (size_t)d->kv_len;
  for (size_t m = 0; m < width; m++) {
    double low = INFINITY, high = -INFINITY;
    for (size_t j = 0; j < keys; j++) {
      double x = (double)v[j * width + m];
      if (x < low) low = x;
      if (x > high) high = x;
    }
    for (size_t i = 0; i < n; i++) {
      double x = (double)o[i * width + m];
      out->outside += x < low - 1e-4 || x > high + 1e-4;
    }
  }
  out->reach = largest(o, n * width) / largest(v, keys * width);
}

static attend_status look(study_run *r, const similarity *s,
                          const float *const qkv[3], double *shares,
                          denominators *out) {
  const int n = study_count(r, "queries"), width = study_count(r, "d");
  attend_desc d = {.form = s->form,
                   .q_len = n,
                   .kv_len = study_count(r, "keys"),
                   .dim = width};
  float *o = NULL, *lse = NULL;
  *out = (denominators){.smallest = INFINITY};
  if (s->form.kind == ATTEND_FAVOR || s->form.kind == ATTEND_FOURIER)
    d.form.features = study_count(r, "features");
  if (s->form.kind == ATTEND_POLY) d.engine = "linear"; /* counts weak rows */
  TAKE(r, &o, (size_t)n * (size_t)width);
  TAKE(r, &lse, (size_t)n);
  TRY(kernel_run(r, &d, qkv, o, lse, &out->weak));
  TRY(shares_of(r, &d, qkv, shares));
  for (int i = 0; i < n; i++) {
    out->negative += attend_form_signed(&d.form) && lse[i] < 0;
    if (shares[i] < out->smallest) out->smallest = shares[i];
  }
  reach_of(&d, qkv[2], o, out);
  return ATTEND_OK;
}

static const attend_study_column sim_columns[] = {
    {"form", "form", ATTEND_CELL_TEXT},
    {"sim", "sim(q, k)", ATTEND_CELL_TEXT},
    {"smallest", "least |Σ sim| / Σ |sim|", ATTEND_CELL_SMALL},
    {"negative", "rows with Σ sim < 0", ATTEND_CELL_COUNT},
    {"weak", "weak rows", ATTEND_CELL_COUNT},
    {"reach", "largest |V'| / largest |V|", ATTEND_CELL_NUMBER},
    {"outside", "elements of V' outside the values", ATTEND_CELL_COUNT},
    {0}};

static attend_status claim_sign(study_run *r, const similarity *s,
                                const denominators *d) {
  if (!s->positive) return ATTEND_OK;
  TRY(study_claim(
      r, study_format(r, "share-%s", s->name),
      study_format(r, "%s: nothing of Σ |sim| is lost in the sum", s->name),
      d->smallest, 1, 1e-9));
  return study_claim(
      r, study_format(r, "outside-%s", s->name),
      study_format(r, "%s: no V' leaves the range of the values", s->name),
      d->outside, 0, 0);
}

/* Shares of the rows from the least to the greatest. */
static attend_status plot_shares(study_run *r, size_t n,
                                 double *const shares[SIMILARITIES]) {
  attend_plot_series series[SIMILARITIES];
  size_t count = 0;
  double *row = NULL;
  TAKE(r, &row, n);
  for (size_t i = 0; i < n; i++) row[i] = 100 * ((double)i + 0.5) / (double)n;
  for (size_t i = 0; i < SIMILARITIES; i++) {
    if (similarities[i].positive && i > 0) continue;
    study_quantile(shares[i], n, 0); /* sorts */
    series[count++] = (attend_plot_series){
        .name = i ? similarities[i].name : "all positive similarities",
        .count = n,
        .x = row,
        .y = shares[i],
        .dashed = i == 0};
  }
  attend_plot_panel panel = {.title = "What is left of the denominator",
                             .x = {.label = "percent of the rows", .log = 1},
                             .y = {.label = "|Σ sim| / Σ |sim|", .log = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = count,
                             .series = series};
  return study_figure(r, "kernels-denominators",
                      &(attend_plot){.count = 1, .panels = &panel});
}

/* (q.k + 1)^2 is nowhere negative, but it is zero where q.k = -1. */
static attend_status touch_zero(study_run *r) {
  const float q = 1, k = -1, v = 5, *const qkv[3] = {&q, &k, &v};
  const attend_desc d = kernel_poly(2, 1, 1, "linear");
  float o = 7, denominator = 7;
  int64_t weak;
  TRY(kernel_run(r, &d, qkv, &o, &denominator, &weak));
  TRY(study_claim(r, "zero-denominator", "q = 1 and one key k = -1: (q.k + 1)²",
                  (double)denominator, 0, 0));
  TRY(study_claim(r, "zero-weak", "the plan calls that row weak", (double)weak,
                  1, 0));
  return study_say(
      r,
      "The quadratic kernel stands on the edge: `(q.k + 1)²` is never "
      "negative, but it is 0 where q.k = -1. With q = 1 and a single key k = "
      "-1 the denominator is exactly %g, and equation 3 is 0/0. The library "
      "gives %g there and counts the row as weak. So the condition is: one "
      "sign, and not zero. With many keys all squares would have to be 0 at "
      "once.",
      (double)denominator, (double)o);
}

static attend_status say_signs(study_run *r, double reach, double smallest) {
  return study_say(
      r,
      "A similarity that keeps its sign loses nothing in the sum, and V' is an "
      "average: it stays within the range of the values. One that changes sign "
      "cancels, and V' is no average any more: the largest |V'| here is %.3g "
      "times the largest |V|. The least that was left of a row is %.2g, so "
      "nothing was infinite: the formula fails by what comes close to zero. A "
      "row is called weak where less than a thousandth is left.",
      reach, smallest);
}

static attend_status denominators_of_all(study_run *r) {
  const int n = study_count(r, "queries"), keys = study_count(r, "keys");
  double *shares[SIMILARITIES] = {0}, reach = 0, smallest = 1;
  float *qkv[3] = {0};
  table_store *t;
  denominators d;
  TRY(kernel_draw(r, (size_t)(n > keys ? n : keys), (size_t)study_count(r, "d"),
                  qkv));
  TRY(study_table(r, "denominators",
                  study_format(r, "%d queries on %d keys of width %d, normal",
                               n, keys, study_count(r, "d")),
                  sim_columns, &t));
  for (size_t i = 0; i < SIMILARITIES; i++) {
    const similarity *s = &similarities[i];
    TAKE(r, &shares[i], (size_t)n);
    TRY(look(r, s, (const float *const *)qkv, shares[i], &d));
    TRY(study_word(t, "%s", s->name));
    TRY(study_word(t, "%s", s->sim));
    TRY(study_row(t, 5, d.smallest, d.negative, (double)d.weak, d.reach,
                  d.outside));
    TRY(claim_sign(r, s, &d));
    if (d.reach > reach) reach = d.reach;
    if (d.smallest < smallest) smallest = d.smallest;
    TRY(study_step(r, 0.2 * (double)(i + 1) / SIMILARITIES));
  }
  TRY(plot_shares(r, (size_t)n, shares));
  TRY(say_signs(r, reach, smallest));
  return touch_zero(r);
}

/* ---- the quadratic map ------------------------------------------------------------ */

/* 001: [1, √2 x_i, x_i², √2 x_i x_j]. Returns its length. */
static size_t map_001(const float *x, size_t width, double *phi) {
  size_t at = 0;
  phi[at++] = 1;
  for (size_t i = 0; i < width; i++) phi[at++] = sqrt(2) * (double)x[i];
  for (size_t i = 0; i < width; i++) phi[at++] = (double)x[i] * (double)x[i];
  for (size_t i = 0; i < width; i++)
    for (size_t j = i + 1; j < width; j++)
      phi[at++] = sqrt(2) * (double)x[i] * (double)x[j];
  return at;
}

/* 003 stops before the products of two elements. */
static size_t length_003(size_t width) { return 2 * width + 1; }

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

typedef struct {
  double error;    /* of 001's product, relative to (|q||k| + 1)^2 */
  double negative; /* share of pairs with a negative product by 003 */
  study_moments gap2;
} map_found;

/* One pair x = (q, k); returns the square of what 003 leaves out. */
static double compare_pair(const float *x, size_t width, double *const phi[2],
                           map_found *f) {
  double score = 0, q2 = 0, k2 = 0;
  for (size_t i = 0; i < width; i++) {
    double q = (double)x[i], k = (double)x[width + i];
    score += q * k;
    q2 += q * q;
    k2 += k * k;
  }
  const size_t n = map_001(x, width, phi[0]);
  map_001(x + width, width, phi[1]);
  double sim = (score + 1) * (score + 1), unit = sqrt(q2 * k2) + 1;
  double part = dot(phi[0], phi[1], length_003(width));
  double error = fabs(dot(phi[0], phi[1], n) - sim) / (unit * unit);
  if (error > f->error) f->error = error;
  f->negative += part < 0;
  return (sim - part) * (sim - part);
}

static attend_status compare_maps(study_run *r, size_t width, map_found *f) {
  const size_t n = (size_t)study_count(r, "pairs");
  const attend_random random = {r->seed, STREAM + 10 + width};
  float *x = NULL;
  double *gap2 = NULL, *phi[2] = {0};
  *f = (map_found){0};
  TAKE(r, &x, 2 * width);
  TAKE(r, &gap2, n);
  for (int i = 0; i < 2; i++) TAKE(r, &phi[i], (width + 1) * (width + 2) / 2);
  for (size_t p = 0; p < n; p++) {
    attend_random_uniform(random, p * 2 * width, 2 * width, x);
    for (size_t i = 0; i < 2 * width; i++)
      x[i] = (float)(sqrt(12) * ((double)x[i] - 0.5));
    gap2[p] = compare_pair(x, width, phi, f);
  }
  f->negative /= (double)n;
  f->gap2 = study_moments_of(gap2, n);
  return ATTEND_OK;
}

static const attend_study_column map_columns[] = {
    {"d", "D", ATTEND_CELL_COUNT},
    {"features", "C of the library", ATTEND_CELL_COUNT},
    {"features_003", "entries in 003", ATTEND_CELL_COUNT},
    {"error", "001: error of φ(q).φ(k)", ATTEND_CELL_SMALL},
    {"gap", "003: error, rms", ATTEND_CELL_NUMBER},
    {"gap_predicted", "√(2D(D-1))", ATTEND_CELL_NUMBER},
    {"sim", "mean of (q.k+1)²: D+1", ATTEND_CELL_NUMBER},
    {"negative", "003: share of pairs below 0", ATTEND_CELL_NUMBER},
    {0}};

static attend_status claim_map(study_run *r, int width, double library,
                               const map_found *f) {
  const double d = width, c = (d + 1) * (d + 2) / 2;
  TRY(study_claim(r, study_format(r, "C-D%d", width),
                  study_format(r, "features of the library at D = %d", width),
                  library, c, 0));
  TRY(study_claim(
      r, study_format(r, "map-D%d", width),
      study_format(r, "001's map: φ(q).φ(k) - (q.k+1)² at D = %d", width),
      f->error, 0, 1e-13));
  return study_estimate(
      r, study_format(r, "gap-D%d", width),
      study_format(r, "003's map: mean square of what is missing at D = %d",
                   width),
      f->gap2.mean, 2 * d * (d - 1), f->gap2.mean_error);
}

static attend_status maps(study_run *r) {
  const attend_form poly = {.kind = ATTEND_POLY, .degree = 2, .c = 1};
  size_t n;
  const double *widths = study_list(r, "widths", &n);
  table_store *t;
  map_found f = {0};
  TRY(study_table(
      r, "maps",
      study_format(r, "%d pairs of every width, elements uniform of variance 1",
                   study_count(r, "pairs")),
      map_columns, &t));
  for (size_t i = 0; i < n; i++) {
    const double d = widths[i];
    const double library = (double)attend_form_features(&poly, (int)d);
    TRY(compare_maps(r, (size_t)d, &f));
    TRY(study_row(t, 8, d, library, (double)length_003((size_t)d), f.error,
                  sqrt(f.gap2.mean), sqrt(2 * d * (d - 1)), d + 1, f.negative));
    TRY(claim_map(r, (int)d, library, &f));
    TRY(study_step(r, 0.2 + 0.2 * (double)(i + 1) / (double)n));
  }
  return study_say(
      r,
      "Both maps begin with 1, √2 x_i and x_i². 001 goes on with √2 x_i x_j "
      "for i < j, and then `φ(q).φ(k) = (q.k + 1)²`. 003 stops, and leaves out "
      "`2 Σ_{i<j} q_i q_j k_i k_j`: for independent elements of variance 1 "
      "that has mean 0 and variance 2D(D-1). At D = %d its root mean square is "
      "%.3g, where the similarity itself is %.3g on average. Besides, a share "
      "of the pairs gets a negative similarity, which (a) forbids. 003 is "
      "wrong: one sees it at D = 2, where (q.k)² has a cross term and its map "
      "has none.",
      (int)widths[n - 1], sqrt(f.gap2.mean), widths[n - 1] + 1);
}

static attend_status run(study_run *r) {
  TRY(study_say(
      r,
      "Attention may weigh by any similarity: `V'_i = Σ_j sim(q_i, k_j) v_j / "
      "Σ_j sim(q_i, k_j)`. It must not let the denominator reach zero. A sum "
      "of numbers of one sign cannot cancel; so we look at how much of `Σ "
      "|sim|` is left in `|Σ sim|`: 1 is all, 0 is a division by zero."));
  TRY(study_heading(r, "Which similarities keep the denominator from zero"));
  TRY(denominators_of_all(r));
  TRY(study_heading(r, "The quadratic kernel as a product of features"));
  TRY(maps(r));
  TRY(kernel_ways(r));
  TRY(study_heading(r, "What both ways cost"));
  return kernel_costs(r);
}

const study_topic study_kernels = {
    {.name = "kernels",
     .title = "Any similarity, and a kernel as features",
     .question = "Which similarities keep the denominator away from zero, and "
                 "when is a kernel cheaper by its features?",
     .answers = "001 6(a)-(d), 003 5(a)-(d)",
     .settings = settings},
    run};
