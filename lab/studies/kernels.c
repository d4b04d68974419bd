/* Any similarity instead of exp: which ones keep the denominator away from zero,
 * and the quadratic kernel as a product of features.
 *
 * Documents Fall 2025 6(a)-(d), student 5(a)-(d).
 */
#include "attend/problem.h"
#include "studies/study.h"

/* The keys that an engine by sums takes pair by pair: those of the last block. */
enum { KERNEL_BLOCK = 64 };

enum { MOST = 16, STREAM = 300 };

static const attend_setting settings[] = {
    WORKED_SETTINGS,
    {"d", "16", "8", "width of q, k and v", WHOLE, 1, 2, 64},
    {"queries", "512", "96", "queries whose denominators are looked at", WHOLE, 1, 2, 4096},
    {"kv-len", "32", NULL, "keys that each of them sums over", WHOLE, 1, 1, 4096},
    {"features", "128", "64", "random features of fourier and favor", WHOLE, 1, 16, 4096},
    {"widths", "2,4,8,16,32,64", "2,4,8", "widths of the quadratic map", WHOLE, MOST, 2, 128},
    {"pairs", "20000", "2000", "pairs that are drawn for each width", WHOLE, 1, 100, 1e6},
    {"lengths", "64,128,256,512,1024,2048,4096", "64,128,192",
     "lengths that both methods are timed at", WHOLE, MOST, 1, 32768},
    {"crossing", "4,8,16,32", "2,4,8", "widths whose crossing is looked for", WHOLE, MOST, 2, 64},
    {"repeat", "5", "1", "timings, of which the median counts", WHOLE, 1, 1, 64},
    {0}};

/* ---- running the library --------------------------------------------------------- */

static attend_desc kernel_poly(int degree, int n, int width, const char *engine) {
  return (attend_desc){ATTEND_INIT(attend_desc),
                       .form = {.kind = ATTEND_POLY, .degree = degree, .c = 1},
                       .q_len = n,
                       .kv_len = n,
                       .dim = width,
                       .engine = engine};
}

/* ---- denominators ----------------------------------------------------------------- */

typedef struct {
  const char *name, *sim;
  attend_form form;
  bool positive; /* by its formula */
} similarity;

static const similarity similarities[] = {
    {"softmax", "exp(q·k/√D)", {.kind = ATTEND_SOFTMAX}, true},
    {"gaussian", "exp(−‖q − k‖²/2√D)", {.kind = ATTEND_GAUSSIAN}, true},
    {"elu", "(elu(q) + 1)·(elu(k) + 1)", {.kind = ATTEND_ELU}, true},
    {"favor", "positive random features", {.kind = ATTEND_FAVOR}, true},
    {"poly-2", "(q·k + 1)²", {.kind = ATTEND_POLY, .degree = 2, .c = 1}, true},
    {"poly-1", "q·k + 1", {.kind = ATTEND_POLY, .degree = 1, .c = 1}, false},
    {"poly-3", "(q·k + 1)³", {.kind = ATTEND_POLY, .degree = 3, .c = 1}, false},
    {"fourier", "sines and cosines", {.kind = ATTEND_FOURIER}, false}};
enum { SIMILARITIES = sizeof similarities / sizeof *similarities };

typedef struct {
  double smallest; /* of |sum| / sum of absolute values, over rows */
  double negative; /* rows with a denominator below zero */
  double outside;  /* elements of V' outside of the values' range */
  double reach;    /* largest |V'| / largest |V| */
  double weak;     /* rows */
} denominators;

/* A row's weights are sim / sum: their absolute values add up to the inverse of
 * what the denominator kept. */
static attend_status shares_of(study_run *r, const attend_desc *d, const study_pass *p,
                               double *shares) {
  const size_t n = (size_t)d->q_len, keys = (size_t)d->kv_len;
  double *weights = NULL;
  TAKE(r, &weights, n * keys);
  TRY(attend_definition_weights(r->ctx, d, attend_bhtd_input(p->q), attend_bhtd_input(p->k),
                                weights));
  for (size_t i = 0; i < n; i++) {
    double sum = 0;
    for (size_t j = 0; j < keys; j++) sum += fabs(weights[i * keys + j]);
    shares[i] = 1 / sum;
  }
  return ATTEND_OK;
}

static double largest(const float *x, size_t n) {
  double max = 0;
  for (size_t i = 0; i < n; i++)
    if (fabs((double)x[i]) > max) max = fabs((double)x[i]);
  return max;
}

static void reach_of(const attend_desc *d, const float *v, const float *o, denominators *out) {
  const size_t width = (size_t)d->dim, n = (size_t)d->q_len;
  const size_t keys = (size_t)d->kv_len;
  for (size_t m = 0; m < width; m++) {
    double low = INFINITY, high = -INFINITY;
    for (size_t j = 0; j < keys; j++) {
      double x = (double)v[j * width + m];
      if (x < low) low = x; /* fmin of a float makes gcc 12 fail on Arm */
      if (x > high) high = x;
    }
    for (size_t i = 0; i < n; i++) {
      double x = (double)o[i * width + m];
      out->outside += x < low - 1e-4 || x > high + 1e-4;
    }
  }
  out->reach = largest(o, n * width) / largest(v, keys * width);
}

static attend_status look(study_run *r, const similarity *s, double *shares, denominators *out) {
  const int n = study_count(r, "queries");
  attend_desc d = {ATTEND_INIT(attend_desc), .form = s->form, .q_len = n,
                   .kv_len = study_count(r, "kv-len"), .dim = study_count(r, "d")};
  study_pass p;
  if (s->form.kind == ATTEND_FAVOR || s->form.kind == ATTEND_FOURIER)
    d.form.features = study_count(r, "features");
  if (s->form.kind == ATTEND_POLY) d.engine = "linear"; /* counts weak rows */
  TRY(study_tensors(r, &d, STREAM, STUDY_OUTPUT, &p));
  TRY(study_attend(r, &d, &p));
  TRY(shares_of(r, &d, &p, shares));
  *out = (denominators){.smallest = INFINITY, .weak = (double)p.weak_rows};
  for (int i = 0; i < n; i++) {
    out->negative += attend_form_signed(&d.form) && p.lse[i] < 0;
    out->smallest = fmin(out->smallest, shares[i]);
  }
  reach_of(&d, p.v, p.o, out);
  return ATTEND_OK;
}

static const attend_study_column sim_columns[] = {
    {"form", "form", TEXT},
    {"sim", "sim(q, k)", TEXT},
    {"smallest", "least |Σ sim| / Σ |sim|", SMALL},
    {"negative", "rows with Σ sim < 0", COUNT},
    {"weak", "weak rows", COUNT},
    {"reach", "largest |V'| / largest |V|", NUMBER},
    {"outside", "elements of V' outside the values", COUNT},
    {0}};

static attend_status claim_sign(study_run *r, const similarity *s, const denominators *d) {
  if (!s->positive) return ATTEND_OK;
  TRY(study_claim(r, d->smallest, 1, 1e-9, "share-%s: %s: nothing of Σ |sim| is lost in the sum",
                  s->name, s->name));
  return study_claim(r, d->outside, 0, 0, "outside-%s: %s: no V' leaves the range of the values",
                     s->name, s->name);
}

/* Shares of the rows from the least to the greatest. */
static attend_status plot_shares(study_run *r, size_t n, double *const shares[SIMILARITIES]) {
  attend_plot_series series[SIMILARITIES];
  size_t count = 0;
  double *row = NULL;
  TAKE(r, &row, n);
  for (size_t i = 0; i < n; i++) row[i] = 100 * ((double)i + 0.5) / (double)n;
  for (size_t i = 0; i < SIMILARITIES; i++) {
    if (similarities[i].positive && i > 0) continue;
    study_quantile(shares[i], n, 0); /* sorts */
    series[count++] = (attend_plot_series){i ? similarities[i].name : "all positive similarities",
                                           n, row, shares[i], .dashed = i == 0};
  }
  attend_plot_panel panel =
      study_lines("What is left of the denominator", study_log("percent of the rows"),
                  study_log("|Σ sim| / Σ |sim|"), count, series);
  return study_plot(r, "kernels-denominators", 1, &panel);
}

/* (q.k + 1)^2 is nowhere negative, but it is zero where q.k = −1. */
static attend_status touch_zero(study_run *r) {
  const float q = 1, k = -1, v = 5;
  const attend_desc d = kernel_poly(2, 1, 1, "linear");
  float o = 7, denominator = 7;
  study_pass p = {.q = &q, .k = &k, .v = &v, .o = &o, .lse = &denominator};
  TRY(study_attend(r, &d, &p));
  TRY(study_claim(r, (double)denominator, 0, 0,
                  "zero-denominator: q = 1 and one key k = −1: (q·k + 1)²"));
  TRY(study_claim(r, (double)p.weak_rows, 1, 0, "zero-weak: the plan calls that row weak"));
  return study_say(
      r,
      "The quadratic kernel is the limiting case: $(q·k + 1)²$ is never negative, but it is 0 "
      "where q·k = −1. With q = 1 and a single key k = −1 the denominator is exactly %g, and "
      "equation 3 is 0/0. The library gives %g there and counts the row as weak. So the condition "
      "is: one sign, and not zero. With many keys all squares would have to be 0 at once.",
      (double)denominator, (double)o);
}

static attend_status say_signs(study_run *r, double reach, double smallest) {
  return study_say(
      r,
      "A similarity that keeps its sign loses nothing in the sum, and V' is an average: it stays "
      "within the range of the values. One that changes sign cancels, and V' is no average any "
      "more: the largest |V'| here is %.3g times the largest |V|. The least that was left of a row "
      "is %.2g, so nothing was infinite: the formula fails by what comes close to zero. A row is "
      "called weak where less than a thousandth is left.",
      reach, smallest);
}

static attend_status denominators_of_all(study_run *r) {
  const int n = study_count(r, "queries"), keys = study_count(r, "kv-len");
  double *shares[SIMILARITIES] = {0}, reach = 0, smallest = 1;
  table_store *t;
  denominators d;
  TRY(study_table(r, &t, "denominators", sim_columns, "%d queries on %d keys of width %d, normal",
                  n, keys, study_count(r, "d")));
  for (size_t i = 0; i < SIMILARITIES; i++) {
    const similarity *s = &similarities[i];
    TAKE(r, &shares[i], (size_t)n);
    TRY(look(r, s, shares[i], &d));
    TRY(study_row(t, s->name, s->sim, d.smallest, d.negative, d.weak, d.reach, d.outside));
    TRY(claim_sign(r, s, &d));
    reach = fmax(reach, d.reach);
    smallest = fmin(smallest, d.smallest);
    TRY(study_step(r, 0.2 * (double)(i + 1) / SIMILARITIES));
  }
  TRY(plot_shares(r, (size_t)n, shares));
  TRY(say_signs(r, reach, smallest));
  return touch_zero(r);
}

/* ---- the quadratic map ------------------------------------------------------------ */

/* Fall 2025: [1, √2 x_i, x_i², √2 x_i x_j]. Returns its length. */
static size_t map_homework(const float *x, size_t width, double *phi) {
  size_t at = 0;
  phi[at++] = 1;
  for (size_t i = 0; i < width; i++) phi[at++] = sqrt(2) * (double)x[i];
  for (size_t i = 0; i < width; i++) phi[at++] = (double)x[i] * (double)x[i];
  for (size_t i = 0; i < width; i++)
    for (size_t j = i + 1; j < width; j++) phi[at++] = sqrt(2) * (double)x[i] * (double)x[j];
  return at;
}

/* The student stops before the products of two elements. */
static size_t length_student(size_t width) { return 2 * width + 1; }

static double dot(const double *a, const double *b, size_t n) {
  double sum = 0;
  for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
  return sum;
}

typedef struct {
  double error;    /* of the homework's product, relative to (|q||k| + 1)^2 */
  double negative; /* share of pairs with a negative product by the student's map */
  study_moments gap2;
} map_found;

/* One pair x = (q, k); returns the square of what the student leaves out. */
static double compare_pair(const float *x, size_t width, double *const phi[2], map_found *f) {
  double score = 0, q2 = 0, k2 = 0;
  for (size_t i = 0; i < width; i++) {
    double q = (double)x[i], k = (double)x[width + i];
    score += q * k;
    q2 += q * q;
    k2 += k * k;
  }
  const size_t n = map_homework(x, width, phi[0]);
  map_homework(x + width, width, phi[1]);
  double sim = (score + 1) * (score + 1), unit = sqrt(q2 * k2) + 1;
  double part = dot(phi[0], phi[1], length_student(width));
  f->error = fmax(f->error, fabs(dot(phi[0], phi[1], n) - sim) / (unit * unit));
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
    for (size_t i = 0; i < 2 * width; i++) x[i] = (float)(sqrt(12) * ((double)x[i] - 0.5));
    gap2[p] = compare_pair(x, width, phi, f);
  }
  f->negative /= (double)n;
  f->gap2 = study_moments_of(gap2, n);
  return ATTEND_OK;
}

static const attend_study_column map_columns[] = {
    {"d", "D", COUNT},
    {"features", "C of the library", COUNT},
    {"features_student", "student: entries", COUNT},
    {"error", "homework: error of φ(q)·φ(k)", SMALL},
    {"gap", "student: error, rms", NUMBER},
    {"gap_predicted", "√(2D(D − 1))", NUMBER},
    {"sim", "mean of (q·k + 1)²: D+1", NUMBER},
    {"negative", "student: share of pairs below 0", NUMBER},
    {0}};

static attend_status claim_map(study_run *r, int width, double library, const map_found *f) {
  const double d = width, c = (d + 1) * (d + 2) / 2;
  TRY(study_claim(r, library, c, 0, "C-D%d: features of the library at D = %d", width, width));
  TRY(study_claim(r, f->error, 0, 1e-13,
                  "map-D%d: the homework's map: φ(q)·φ(k) − (q·k + 1)² at D = %d", width, width));
  return study_estimate(r, f->gap2.mean, 2 * d * (d - 1), f->gap2.mean_error,
                        "gap-D%d: the student's map: mean square of what is missing at D = %d",
                        width, width);
}

static attend_status maps(study_run *r) {
  const attend_form poly = {.kind = ATTEND_POLY, .degree = 2, .c = 1};
  size_t n;
  const double *widths = study_list(r, "widths", &n);
  table_store *t;
  map_found f = {0};
  TRY(study_table(r, &t, "maps", map_columns,
                  "%d pairs of every width, elements uniform of variance 1",
                  study_count(r, "pairs")));
  for (size_t i = 0; i < n; i++) {
    const double d = widths[i];
    const double library = (double)attend_form_features(&poly, (int)d);
    TRY(compare_maps(r, (size_t)d, &f));
    TRY(study_row(t, d, library, (double)length_student((size_t)d), f.error, sqrt(f.gap2.mean),
                  sqrt(2 * d * (d - 1)), d + 1, f.negative));
    TRY(claim_map(r, (int)d, library, &f));
    TRY(study_step(r, 0.2 + 0.2 * (double)(i + 1) / (double)n));
  }
  return study_say(
      r,
      "Both maps begin with 1, √2 xᵢ and xᵢ². The homework goes on with √2 xᵢ xⱼ for i < j, "
      "and then "
      "$φ(q)·φ(k) = (q·k + 1)²$. The student stops, and leaves out $2 Σ_{i<j} qᵢ qⱼ kᵢ kⱼ$: "
      "for "
      "independent elements of variance 1 that has mean 0 and variance 2D(D − 1). At D = %d its "
      "root "
      "mean square is %.3g, where the similarity itself is %.3g on average. Besides, a share of "
      "the pairs gets a negative similarity, which (a) forbids. The student is wrong: one sees it "
      "at D = "
      "2, where (q·k)² has a cross term and its map has none.",
      (int)widths[n - 1], sqrt(f.gap2.mean), widths[n - 1] + 1);
}

/* ---- pairs and features ---------------------------------------------------- */

/* The quadratic kernel by pairs and by features: the same numbers; operations,
 * bytes, seconds, and the length at which they cross.
 *
 * Documents Fall 2025 6(b)-(d), student 5(b)-(d).
 */

enum { PAIRS = 0, FEATURES = 1, SOFTMAX = 2, METHODS = 3 };
enum { SLOW = 1024 }; /* beyond, the definition takes too long */

static const char *const method_names[METHODS] = {"by pairs", "by features", "softmax"};

static attend_desc method_desc(int method, int n, int width) {
  attend_desc d = kernel_poly(2, n, width, method == PAIRS ? "kernel-direct" : "linear");
  if (method != SOFTMAX) return d;
  return (attend_desc){ATTEND_INIT(attend_desc), .q_len = n, .kv_len = n, .dim = width};
}

/* ---- the same numbers ----------------------------------------------------------- */

/* The student's map for the library. */
static void phi_student(const float *x, int dim, int key, float *features, int count, void *user) {
  (void)key, (void)user, (void)count;
  features[0] = 1;
  for (int i = 0; i < dim; i++) {
    features[1 + i] = sqrtf(2) * x[i];
    features[1 + dim + i] = x[i] * x[i];
  }
}

static const attend_study_column method_columns[] = {
    {"n", "N", COUNT},
    {"direct", "by pairs", SMALL},
    {"linear", "by features", SMALL},
    {"without_cross", "by the student's features", SMALL},
    {0}};

static attend_status all_methods(study_run *r, int n, int width, double error[3]) {
  const attend_desc direct = kernel_poly(2, n, width, "kernel-direct");
  attend_desc d[3] = {direct, direct, direct};
  const size_t size = (size_t)n * (size_t)width;
  study_pass p;
  double *exact = NULL;
  d[1].engine = d[2].engine = "linear";
  d[2].form = (attend_form){.kind = ATTEND_CUSTOM, .phi = phi_student, .features = 2 * width + 1};
  TRY(study_tensors(r, &direct, STREAM, STUDY_OUTPUT, &p));
  TAKE(r, &exact, size);
  TRY(attend_definition_forward(r->ctx, &direct, attend_bhtd_input(p.q), attend_bhtd_input(p.k),
                                attend_bhtd_input(p.v), exact, NULL));
  for (int method = 0; method < 3; method++) {
    TRY(study_attend(r, &d[method], &p));
    error[method] = study_relative_gap(p.o, exact, size);
  }
  return ATTEND_OK;
}

static attend_status kernel_agreement(study_run *r) {
  size_t n;
  const double *lengths = study_list(r, "lengths", &n);
  const int width = study_count(r, "d");
  double error[3] = {0};
  table_store *t;
  TRY(study_table(
      r, &t, "methods", method_columns,
      "Largest error of V' against the definition in double, over the largest |V'|, D = %d",
      width));
  for (size_t i = 0; i < n; i++) {
    if (lengths[i] > SLOW) continue;
    TRY(all_methods(r, (int)lengths[i], width, error));
    TRY(study_row(t, lengths[i], error[0], error[1], error[2]));
    for (int method = 0; method < 2; method++)
      TRY(study_claim(r, error[method], 0, 2e-5, "%s-N%d: quadratic attention by %s at N = %d",
                      method ? "linear" : "direct", (int)lengths[i], method ? "features" : "pairs",
                      (int)lengths[i]));
    TRY(study_step(r, 0.4 + 0.1 * (double)(i + 1) / (double)n));
  }
  if (!error[2]) return ATTEND_OK; /* all were too long */
  return study_say(
      r,
      "Equation 3 by pairs and equation 5 by features are the same numbers up to "
      "f32's rounding. The same engine with the student's map, given as a caller's own φ, is "
      "wrong by %.2g of the largest output.",
      error[2]);
}

/* ---- costs -------------------------------------------------------------------- */

static double map_length(double d) { return (d + 1) * (d + 2) / 2; }

/* ---- seconds ----------------------------------------------------------------------- */

typedef struct {
  attend_plan *plan;
  const study_pass *pass;
  attend_status status;
} job;

static void work(void *user) {
  job *j = user;
  const study_pass *p = j->pass;
  attend_status status = attend_forward(j->plan, attend_bhtd_input(p->q), attend_bhtd_input(p->k),
                                        attend_bhtd_input(p->v), attend_bhtd(p->o), NULL);
  if (status) j->status = status;
}

typedef struct {
  double seconds, flops, bytes, workspace;
} method_cost;

/* p: tensors of n tokens at least. */
static attend_status measure(study_run *r, int method, int n, int width, const study_pass *p,
                             method_cost *c) {
  const attend_desc d = method_desc(method, n, width);
  attend_cost cost;
  job j = {.pass = p};
  TRY(attend_plan_create(r->ctx, &d, &j.plan));
  c->seconds = study_seconds(work, &j, study_count(r, "repeat"));
  if (!j.status) j.status = attend_plan_cost(j.plan, &cost);
  attend_plan_free(j.plan);
  TRY(j.status);
  c->flops = cost.flops;
  c->bytes = cost.bytes;
  c->workspace = (double)cost.workspace_bytes;
  return ATTEND_OK;
}

/* ---- over the length ---------------------------------------------------------------- */

static const attend_study_column cost_columns[] = {
    {"n", "N", COUNT},
    {"flops_pairs", "flops by pairs", COUNT},
    {"flops_features", "flops by features", COUNT},
    {"seconds_pairs", "time by pairs", SECONDS},
    {"seconds_features", "time by features", SECONDS},
    {"seconds_softmax", "time of softmax", SECONDS},
    {0}};

static const attend_study_column space_columns[] = {
    {"n", "N", COUNT},
    {"tensors_bytes", "Q, K, V, O", BYTES},
    {"matrix_bytes", "documents: S and A", BYTES},
    {"sums_bytes", "documents: U and Z", BYTES},
    {"workspace_pairs", "workspace by pairs", BYTES},
    {"workspace_features", "workspace by features", BYTES},
    {0}};

/* 4 N C (M + 1): into the sums and out of them. The last block's keys, which are
 * not in the sum yet, are taken pair by pair. */
static double features_flops(double n, double width) {
  const double c = map_length(width);
  const double rest = fmod(n - 1, KERNEL_BLOCK) + 1;
  const double out = n > KERNEL_BLOCK ? 2 * n * c * (width + 1) : 0;
  return 2 * n * c * (width + 1) + out + 2 * n * rest * (c + width);
}

static attend_status claim_cost(study_run *r, double n, double width,
                                const method_cost c[METHODS]) {
  const double tensors = 4 * (4 * n * width) + 4 * n;
  TRY(study_claim(r, c[PAIRS].flops, 2 * n * n * (2 * width), 0,
                  "flops-pairs-N%g: 2 N² (D + M) at N = %g", n, n));
  TRY(study_claim(r, c[FEATURES].flops, features_flops(n, width), 0,
                  "flops-features-N%g: 4 N C (M+1), and the last block by pairs, at N = %g", n, n));
  TRY(study_claim(r, c[PAIRS].bytes, tensors, 0,
                  "bytes-pairs-N%g: Q, K, V, O and denominators at N = %g", n, n));
  return study_claim(r, c[FEATURES].bytes, tensors + 4 * map_length(width) * (width + 1), 0,
                     "bytes-features-N%g: the same, U and Z: 4 C (M + 1) bytes, at N = %g", n, n);
}

static double crossing_counted(double width) {
  const double c = map_length(width);
  return (4 * c * (width + 1) + 2 * KERNEL_BLOCK * (c + width)) / (4 * width);
}

static attend_status plot_costs(study_run *r, size_t count, const double *n, double width,
                                double seconds[METHODS][MOST], double space[3][MOST]) {
  attend_plot_series a[METHODS], b[3];
  static const char *const spaces[3] = {"S and A: 8 N²", "Q, K, V, O", "U and Z"};
  for (int i = 0; i < 3; i++) {
    a[i] = (attend_plot_series){method_names[i], count, n, seconds[i], .points = 1};
    b[i] = (attend_plot_series){spaces[i], count, n, space[i], .dashed = i == 2};
  }
  a[SOFTMAX].dashed = 1;
  attend_plot_mark mark = {crossing_counted(width), "equal flops"};
  attend_plot_panel panels[] = {
      study_marked(study_lines(study_format(r, "Time, D = M = %g", width), study_log("N"),
                               study_log("seconds"), METHODS, a),
                   1, &mark),
      study_lines("Space, by the documents", study_log("N"), study_log("bytes"), 3, b)};
  return study_plot(r, "kernels-cost", 2, panels);
}

static attend_status claim_exponents(study_run *r, size_t count, const double *n,
                                     double flops[2][MOST]) {
  double x[MOST], y[2][MOST];
  size_t whole = 0;
  for (size_t i = 0; i < count; i++) {
    if (n[i] <= KERNEL_BLOCK || fmod(n[i], KERNEL_BLOCK) != 0) continue;
    x[whole] = n[i];
    y[0][whole] = flops[0][i];
    y[1][whole++] = flops[1][i];
  }
  if (whole < 2) return ATTEND_OK;
  TRY(study_claim(r, study_exponent(x, y[0], whole), 2, 1e-9,
                  "exponent-pairs: counted flops by pairs grow as N²"));
  return study_claim(r, study_exponent(x, y[1], whole), 1, 1e-9,
                     "exponent-features: counted flops by features grow as N");
}

typedef struct {
  size_t count;
  const double *n;
  int width;
  method_cost cost[MOST][METHODS];
} sweep;

static attend_status measure_all(study_run *r, sweep *s) {
  double max = 0;
  study_pass p;
  for (size_t i = 0; i < s->count; i++) max = fmax(max, s->n[i]);
  const attend_desc longest = method_desc(SOFTMAX, (int)max, s->width);
  TRY(study_tensors(r, &longest, STREAM, STUDY_OUTPUT, &p));
  for (size_t i = 0; i < s->count; i++) {
    for (int w = 0; w < METHODS; w++)
      TRY(measure(r, w, (int)s->n[i], s->width, &p, &s->cost[i][w]));
    TRY(claim_cost(r, s->n[i], s->width, s->cost[i]));
    TRY(study_step(r, 0.5 + 0.2 * (double)(i + 1) / (double)s->count));
  }
  return ATTEND_OK;
}

static double sums_bytes(double width) { return 4 * map_length(width) * (width + 1); }

static attend_status tables(study_run *r, const sweep *s) {
  table_store *t;
  TRY(study_table(r, &t, "costs", cost_columns, "(q·k + 1)² over N, D = M = %d", s->width));
  for (size_t i = 0; i < s->count; i++) {
    const method_cost *c = s->cost[i];
    TRY(study_row(t, s->n[i], c[0].flops, c[1].flops, c[0].seconds, c[1].seconds, c[2].seconds));
  }
  TRY(study_table(r, &t, "space", space_columns, "Memory over N, in f32"));
  for (size_t i = 0; i < s->count; i++) {
    const double n = s->n[i];
    TRY(study_row(t, n, 16 * n * s->width, 8 * n * n, sums_bytes(s->width), s->cost[i][0].workspace,
                  s->cost[i][1].workspace));
  }
  return ATTEND_OK;
}

static attend_status over_lengths(study_run *r) {
  double seconds[METHODS][MOST], flops[2][MOST], space[3][MOST];
  sweep s = {.width = study_count(r, "d")};
  s.n = study_list(r, "lengths", &s.count);
  TRY(measure_all(r, &s));
  TRY(tables(r, &s));
  for (size_t i = 0; i < s.count; i++) {
    for (int w = 0; w < METHODS; w++) seconds[w][i] = s.cost[i][w].seconds;
    for (int w = 0; w < 2; w++) flops[w][i] = s.cost[i][w].flops;
    space[0][i] = 8 * s.n[i] * s.n[i];
    space[1][i] = 16 * s.n[i] * s.width;
    space[2][i] = sums_bytes(s.width);
  }
  TRY(claim_exponents(r, s.count, s.n, flops));
  return plot_costs(r, s.count, s.n, s.width, seconds, space);
}

/* ---- where they cross ----------------------------------------------------------------- */

/* Doubles the length until features are faster: where, between the last two, the
 * logarithms of the times say that they were even. NaN: not up to `last`. */
static attend_status crossing_measured(study_run *r, int width, int last, double *crossing) {
  const attend_desc longest = method_desc(SOFTMAX, last, width);
  study_pass p;
  double before = 0;
  *crossing = NAN;
  TRY(study_tensors(r, &longest, STREAM, STUDY_OUTPUT, &p));
  for (int n = 16; n <= last; n *= 2) {
    method_cost c[2];
    for (int w = 0; w < 2; w++) TRY(measure(r, w, n, width, &p, &c[w]));
    double lead = log(c[PAIRS].seconds / c[FEATURES].seconds);
    if (lead > 0) {
      double back = n > 16 ? lead / (lead - before) : 0;
      *crossing = n * pow(2, -back);
      return ATTEND_OK;
    }
    before = lead;
  }
  return ATTEND_OK;
}

static const attend_study_column crossing_columns[] = {
    {"d", "D = M", COUNT},
    {"features", "C", COUNT},
    {"square", "D²", COUNT},
    {"document", "document: 2 C M / (D + M)", COUNT},
    {"counted", "equal flops", COUNT},
    {"measured", "equal time", COUNT},
    {0}};

static attend_status crossings(study_run *r) {
  size_t count;
  const double *d = study_list(r, "crossing", &count);
  double counted[MOST], measured[MOST];
  table_store *t;
  TRY(study_table(r, &t, "crossings", crossing_columns,
                  "The length at which both methods take as long"));
  for (size_t i = 0; i < count; i++) {
    const double c = map_length(d[i]);
    counted[i] = crossing_counted(d[i]);
    TRY(crossing_measured(r, (int)d[i], (int)(8 * counted[i]), &measured[i]));
    TRY(study_row(t, d[i], c, d[i] * d[i], c, round(counted[i]), round(measured[i])));
    TRY(study_step(r, 0.7 + 0.3 * (double)(i + 1) / (double)count));
  }
  attend_plot_series series[] = {
      {"measured, equal time", count, d, measured, .points = 2},
      {.name = "equal flops of the engines", count, d, counted},
      {"document: N = C", count, d, study_column(t, "document"), .dashed = 1}};
  attend_plot_panel panel = study_lines("Beyond this length features are cheaper",
                                        study_log("D = M"), study_log("N"), 3, series);
  return study_plot(r, "kernels-crossing", 1, &panel);
}

static attend_status kernel_costs(study_run *r) {
  TRY(study_say(
      r,
      "By pairs every query meets every key: $2 N² (D + M)$ operations, a multiplication and an "
      "addition counted as two. By features each key is folded into U (C × M) and Z (C), and each "
      "query reads them: $4 N C (M + 1)$. The library's engine takes the last block of %d keys "
      "pair by pair, which adds $%d N (C + M)$. The documents' code keeps S and A, N² numbers "
      "each. Neither engine here stores them: their workspaces are in the table.",
      KERNEL_BLOCK, 2 * KERNEL_BLOCK));
  TRY(over_lengths(r));
  TRY(study_say(r,
                "With M = D the documents' counts are even at N = C = (D+1)(D+2)/2, which tends to "
                "D²/2. The engines' counts are even later, because of the last block, most of all "
                "at small widths. Measured times cross elsewhere: products of narrow matrices, "
                "powers, and sums over C features run at different speeds."));
  return crossings(r);
}

/* ---- the quadratic kernel by hand ----------------------------------------------------- */

static const attend_study_column hand_columns[] = {{"feature", "feature", TEXT},
                                                   {"q", "φ(q)", NUMBER},
                                                   {"keys", "φ(k₁), φ(k₂), …", TEXT},
                                                   {"z", "Z = Σ φ(kⱼ)", NUMBER},
                                                   {"s", "U = Σ φ(kⱼ) vⱼ", TEXT},
                                                   {"product", "φ(q) Z", NUMBER},
                                                   {0}};

/* "1", "√2 x1", "x1²" or "√2 x1 x2". */
static const char *feature_name(study_run *r, int width, int at) {
  if (at == 0) return "1";
  if (at <= width) return study_format(r, "√2 x%d", at);
  if (at <= 2 * width) return study_format(r, "x%d²", at - width);
  at -= 2 * width + 1;
  int i = 0;
  for (; at >= width - 1 - i; i++) at -= width - 1 - i;
  return study_format(r, "√2 x%d x%d", i + 1, i + 2 + at);
}

/* All features of the query and the keys, the sums over keys, and what the query reads of them. */
static attend_status hand_features(study_run *r, const worked_example *w, const worked_steps *s) {
  const int C = (w->dim + 1) * (w->dim + 2) / 2;
  double *q = NULL, *k = NULL, sum = 0;
  float *column = NULL, *u = NULL;
  table_store *t;
  TAKE(r, &q, (size_t)C);
  TAKE(r, &k, (size_t)C * (size_t)w->keys);
  TAKE(r, &column, (size_t)w->keys);
  TAKE(r, &u, (size_t)w->dim_v);
  map_homework(w->q, (size_t)w->dim, q);
  for (int j = 0; j < w->keys; j++) map_homework(w->k + j * w->dim, (size_t)w->dim, k + j * C);
  TRY(study_table(r, &t, "worked-features", hand_columns, "The same by %d features", C));
  for (int c = 0; c < C; c++) {
    double z = 0;
    memset(u, 0, (size_t)w->dim_v * sizeof *u);
    for (int j = 0; j < w->keys; j++) {
      column[j] = (float)k[j * C + c];
      z += k[j * C + c];
      for (int m = 0; m < w->dim_v; m++)
        u[m] += (float)(k[j * C + c] * (double)w->v[j * w->dim_v + m]);
    }
    sum += q[c] * z;
    TRY(study_row(t, feature_name(r, w->dim, c), q[c], worked_vector(r, w->keys, column), z,
                  worked_vector(r, w->dim_v, u), q[c] * z));
  }
  return study_claim(r, sum, s->sum, 1e-9 * (1 + s->sum),
                     "worked-denominator: φ(q)·Z against the sum of (q·k + 1)²");
}

static attend_status by_hand(study_run *r, const worked_example *w) {
  const attend_form quadratic = {.kind = ATTEND_POLY, .degree = 2, .c = 1};
  worked_steps s;
  TRY(study_heading(r, "The quadratic kernel by hand"));
  TRY(worked_show(r, w, "quadratic", &quadratic, 1, "q·k", "(q·k + 1)²", &s));
  TRY(hand_features(r, w, &s));
  return study_say(r,
                   "By pairs the denominator is the sum of (q·k + 1)² over the keys, %.6g; by "
                   "features it is the sum of the last column. Each output is φ(q)·U over φ(q)·Z: "
                   "U and Z are computed once for all queries.",
                   s.sum);
}

static attend_status run(study_run *r) {
  worked_example w;
  TRY(worked_read(r, &w));
  if (w.own) return by_hand(r, &w);
  TRY(study_say(
      r,
      "Attention may weigh by any similarity: $V′ᵢ = Σⱼ sim(qᵢ, kⱼ) vⱼ / Σⱼ sim(qᵢ, kⱼ)$. "
      "It must not let the denominator reach zero. A sum of numbers of one sign cannot cancel; so "
      "we look at how much of $Σ |sim|$ is left in $|Σ sim|$: 1 is all, 0 is a division by zero."));
  TRY(study_heading(r, "Which similarities keep the denominator from zero"));
  TRY(denominators_of_all(r));
  TRY(study_heading(r, "The quadratic kernel as a product of features"));
  TRY(maps(r));
  TRY(kernel_agreement(r));
  TRY(by_hand(r, &w));
  TRY(study_heading(r, "What both methods cost"));
  return kernel_costs(r);
}

const study_topic study_kernels = {
    {.name = "kernels",
     .title = "Any similarity, and a kernel as features",
     .question = "Which similarities keep the denominator away from zero, and when is a kernel "
                 "cheaper by its features?",
     .answers = "Fall 2025 6(a)-(d), student 5(a)-(d)",
     .settings = settings},
    run};
