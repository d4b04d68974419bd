/* The quadratic kernel by pairs and by features: the same numbers; operations,
 * bytes, seconds, and the length at which they cross.
 *
 * Documents 001 6(b)-(d), 003 5(b)-(d). Part of the study of study_kernels.c.
 */
#include "studies/study_kernels.h"

enum { MOST = 16, PAIRS = 0, FEATURES = 1, SOFTMAX = 2, WAYS = 3 };
enum { SLOW = 1024 }; /* beyond, the definition takes too long */

static const char *const way_names[WAYS] = {"by pairs", "by features",
                                            "softmax"};

static attend_desc way_desc(int way, int n, int width) {
  attend_desc d =
      kernel_poly(2, n, width, way == PAIRS ? "kernel-direct" : "linear");
  if (way != SOFTMAX) return d;
  return (attend_desc){.q_len = n, .kv_len = n, .dim = width};
}

/* ---- the same numbers ----------------------------------------------------------- */

/* 003's map for the library. */
static void phi_003(const float *x, int dim, int key, float *features,
                    int count, void *user) {
  (void)key, (void)user, (void)count;
  features[0] = 1;
  for (int i = 0; i < dim; i++) {
    features[1 + i] = sqrtf(2) * x[i];
    features[1 + dim + i] = x[i] * x[i];
  }
}

static double distance(const float *o, const double *exact, size_t n) {
  double most = 0, unit = 0;
  for (size_t i = 0; i < n; i++) {
    double gap = fabs((double)o[i] - exact[i]);
    if (gap > most) most = gap;
    if (fabs(exact[i]) > unit) unit = fabs(exact[i]);
  }
  return most / unit;
}

static const attend_study_column way_columns[] = {
    {"n", "N", ATTEND_CELL_COUNT},
    {"direct", "by pairs", ATTEND_CELL_SMALL},
    {"linear", "by features", ATTEND_CELL_SMALL},
    {"without_cross", "by 003's features", ATTEND_CELL_SMALL},
    {0}};

static attend_status two_ways(study_run *r, size_t n, size_t width,
                              double error[3]) {
  attend_desc d[3] = {kernel_poly(2, (int)n, (int)width, "kernel-direct"),
                      kernel_poly(2, (int)n, (int)width, "linear"),
                      kernel_poly(2, (int)n, (int)width, "linear")};
  float *qkv[3] = {0}, *o = NULL;
  double *exact = NULL;
  d[2].form = (attend_form){
      .kind = ATTEND_CUSTOM, .phi = phi_003, .features = 2 * (int)width + 1};
  TRY(kernel_draw(r, n, width, qkv));
  TAKE(r, &o, n * width);
  TAKE(r, &exact, n * width);
  TRY(attend_definition_forward(r->ctx, &d[0], attend_bhtd(qkv[0]),
                                attend_bhtd(qkv[1]), attend_bhtd(qkv[2]), exact,
                                NULL));
  for (int way = 0; way < 3; way++) {
    TRY(kernel_run(r, &d[way], (const float *const *)qkv, o, NULL, NULL));
    error[way] = distance(o, exact, n * width);
  }
  return ATTEND_OK;
}

attend_status kernel_ways(study_run *r) {
  size_t n;
  const double *lengths = study_list(r, "lengths", &n);
  const int width = study_count(r, "d");
  double error[3] = {0};
  table_store *t;
  TRY(study_table(
      r, "ways",
      study_format(r,
                   "Largest error of V' against the definition in double, over "
                   "the largest |V'|, D = %d",
                   width),
      way_columns, &t));
  for (size_t i = 0; i < n; i++) {
    if (lengths[i] > SLOW) continue;
    TRY(two_ways(r, (size_t)lengths[i], (size_t)width, error));
    TRY(study_row(t, 4, lengths[i], error[0], error[1], error[2]));
    for (int way = 0; way < 2; way++)
      TRY(study_claim(
          r,
          study_format(r, "%s-N%d", way ? "linear" : "direct", (int)lengths[i]),
          study_format(r, "quadratic attention by %s at N = %d",
                       way ? "features" : "pairs", (int)lengths[i]),
          error[way], 0, 2e-5));
    TRY(study_step(r, 0.4 + 0.1 * (double)(i + 1) / (double)n));
  }
  if (!error[2]) return ATTEND_OK; /* all were too long */
  return study_say(
      r,
      "Equation 3 by pairs and equation 5 by features are the same numbers up "
      "to f32's rounding. The same engine with 003's map, given as a caller's "
      "own φ, is wrong by %.2g of the largest output.",
      error[2]);
}

/* ---- costs -------------------------------------------------------------------- */

static double map_length(double d) { return (d + 1) * (d + 2) / 2; }

/* ---- seconds ----------------------------------------------------------------------- */

typedef struct {
  attend_plan *plan;
  float *const *qkv;
  float *o;
  attend_status status;
} job;

static void work(void *user) {
  job *j = user;
  attend_status status =
      attend_forward(j->plan, attend_bhtd(j->qkv[0]), attend_bhtd(j->qkv[1]),
                     attend_bhtd(j->qkv[2]), attend_bhtd(j->o), NULL);
  if (status) j->status = status;
}

typedef struct {
  double seconds, flops, bytes, workspace;
} way_cost;

static attend_status measure(study_run *r, int way, int n, int width,
                             float *const qkv[3], float *o, way_cost *c) {
  const attend_desc d = way_desc(way, n, width);
  attend_cost cost;
  job j = {.qkv = qkv, .o = o};
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
    {"n", "N", ATTEND_CELL_COUNT},
    {"flops_pairs", "flops by pairs", ATTEND_CELL_COUNT},
    {"flops_features", "flops by features", ATTEND_CELL_COUNT},
    {"seconds_pairs", "time by pairs", ATTEND_CELL_SECONDS},
    {"seconds_features", "time by features", ATTEND_CELL_SECONDS},
    {"seconds_softmax", "time of softmax", ATTEND_CELL_SECONDS},
    {0}};

static const attend_study_column space_columns[] = {
    {"n", "N", ATTEND_CELL_COUNT},
    {"tensors_bytes", "Q, K, V, O", ATTEND_CELL_BYTES},
    {"matrix_bytes", "documents: S and A", ATTEND_CELL_BYTES},
    {"sums_bytes", "documents: U and Z", ATTEND_CELL_BYTES},
    {"workspace_pairs", "workspace by pairs", ATTEND_CELL_BYTES},
    {"workspace_features", "workspace by features", ATTEND_CELL_BYTES},
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
                                const way_cost c[WAYS]) {
  const double tensors = 4 * (4 * n * width) + 4 * n;
  TRY(study_claim(r, study_format(r, "flops-pairs-N%g", n),
                  study_format(r, "2 N² (D + M) at N = %g", n), c[PAIRS].flops,
                  2 * n * n * (2 * width), 0));
  TRY(study_claim(
      r, study_format(r, "flops-features-N%g", n),
      study_format(r, "4 N C (M+1), and the last block by pairs, at N = %g", n),
      c[FEATURES].flops, features_flops(n, width), 0));
  TRY(study_claim(r, study_format(r, "bytes-pairs-N%g", n),
                  study_format(r, "Q, K, V, O and denominators at N = %g", n),
                  c[PAIRS].bytes, tensors, 0));
  return study_claim(
      r, study_format(r, "bytes-features-N%g", n),
      study_format(r, "the same, U and Z: 4 C (M + 1) bytes, at N = %g", n),
      c[FEATURES].bytes, tensors + 4 * map_length(width) * (width + 1), 0);
}

static double crossing_counted(double width) {
  const double c = map_length(width);
  return (4 * c * (width + 1) + 2 * KERNEL_BLOCK * (c + width)) / (4 * width);
}

static attend_status plot_costs(study_run *r, size_t count, const double *n,
                                double width, double seconds[WAYS][MOST],
                                double space[3][MOST]) {
  attend_plot_series a[WAYS], b[3];
  const char *const spaces[3] = {"S and A: 8 N²", "Q, K, V, O", "U and Z"};
  for (int i = 0; i < 3; i++) {
    a[i] = (attend_plot_series){.name = way_names[i],
                                .count = count,
                                .x = n,
                                .y = seconds[i],
                                .points = 1,
                                .dashed = i == SOFTMAX};
    b[i] = (attend_plot_series){.name = spaces[i],
                                .count = count,
                                .x = n,
                                .y = space[i],
                                .dashed = i == 2};
  }
  attend_plot_mark mark = {crossing_counted(width), "equal flops"};
  attend_plot_panel panels[] = {
      {.title = study_format(r, "Time, D = M = %g", width),
       .x = {.label = "N", .log = 1},
       .y = {.label = "seconds", .log = 1},
       .key = ATTEND_KEY_ABOVE,
       .count = WAYS,
       .series = a,
       .marks = 1,
       .mark = &mark},
      {.title = "Space, by the documents",
       .x = {.label = "N", .log = 1},
       .y = {.label = "bytes", .log = 1},
       .key = ATTEND_KEY_ABOVE,
       .count = 3,
       .series = b}};
  return study_figure(
      r, "kernels-cost",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

static attend_status claim_exponents(study_run *r, size_t count,
                                     const double *n, double flops[2][MOST]) {
  double x[MOST], y[2][MOST];
  size_t whole = 0;
  for (size_t i = 0; i < count; i++) {
    if (n[i] <= KERNEL_BLOCK || fmod(n[i], KERNEL_BLOCK) != 0) continue;
    x[whole] = n[i];
    y[0][whole] = flops[0][i];
    y[1][whole++] = flops[1][i];
  }
  if (whole < 2) return ATTEND_OK;
  TRY(study_claim(r, "exponent-pairs", "counted flops by pairs grow as N²",
                  study_exponent(x, y[0], whole, NULL), 2, 1e-9));
  return study_claim(r, "exponent-features",
                     "counted flops by features grow as N",
                     study_exponent(x, y[1], whole, NULL), 1, 1e-9);
}

typedef struct {
  size_t count;
  const double *n;
  int width;
  way_cost cost[MOST][WAYS];
} sweep;

static attend_status measure_all(study_run *r, sweep *s) {
  float *qkv[3] = {0}, *o = NULL;
  double most = 0;
  for (size_t i = 0; i < s->count; i++)
    if (s->n[i] > most) most = s->n[i];
  TRY(kernel_draw(r, (size_t)most, (size_t)s->width, qkv));
  TAKE(r, &o, (size_t)most * (size_t)s->width);
  for (size_t i = 0; i < s->count; i++) {
    for (int w = 0; w < WAYS; w++)
      TRY(measure(r, w, (int)s->n[i], s->width, qkv, o, &s->cost[i][w]));
    TRY(claim_cost(r, s->n[i], s->width, s->cost[i]));
    TRY(study_step(r, 0.5 + 0.2 * (double)(i + 1) / (double)s->count));
  }
  return ATTEND_OK;
}

static double sums_bytes(double width) {
  return 4 * map_length(width) * (width + 1);
}

static attend_status tables(study_run *r, const sweep *s) {
  table_store *t;
  TRY(study_table(r, "costs",
                  study_format(r, "(q.k + 1)² over N, D = M = %d", s->width),
                  cost_columns, &t));
  for (size_t i = 0; i < s->count; i++) {
    const way_cost *c = s->cost[i];
    TRY(study_row(t, 6, s->n[i], c[0].flops, c[1].flops, c[0].seconds,
                  c[1].seconds, c[2].seconds));
  }
  TRY(study_table(r, "space", "Memory over N, in f32", space_columns, &t));
  for (size_t i = 0; i < s->count; i++) {
    const double n = s->n[i];
    TRY(study_row(t, 6, n, 16 * n * s->width, 8 * n * n, sums_bytes(s->width),
                  s->cost[i][0].workspace, s->cost[i][1].workspace));
  }
  return ATTEND_OK;
}

static attend_status over_lengths(study_run *r) {
  double seconds[WAYS][MOST], flops[2][MOST], space[3][MOST];
  sweep s = {.width = study_count(r, "d")};
  s.n = study_list(r, "lengths", &s.count);
  TRY(measure_all(r, &s));
  TRY(tables(r, &s));
  for (size_t i = 0; i < s.count; i++) {
    for (int w = 0; w < WAYS; w++) seconds[w][i] = s.cost[i][w].seconds;
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
static attend_status crossing_measured(study_run *r, int width, int last,
                                       double *crossing) {
  float *qkv[3] = {0}, *o = NULL;
  double before = 0;
  *crossing = NAN;
  TRY(kernel_draw(r, (size_t)last, (size_t)width, qkv));
  TAKE(r, &o, (size_t)last * (size_t)width);
  for (int n = 16; n <= last; n *= 2) {
    way_cost c[2];
    for (int w = 0; w < 2; w++) TRY(measure(r, w, n, width, qkv, o, &c[w]));
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
    {"d", "D = M", ATTEND_CELL_COUNT},
    {"features", "C", ATTEND_CELL_COUNT},
    {"square", "D²", ATTEND_CELL_COUNT},
    {"document", "document: 2 C M / (D + M)", ATTEND_CELL_COUNT},
    {"counted", "equal flops", ATTEND_CELL_COUNT},
    {"measured", "equal time", ATTEND_CELL_COUNT},
    {0}};

static attend_status plot_crossings(study_run *r, size_t count, const double *d,
                                    double document[MOST], double counted[MOST],
                                    double measured[MOST]) {
  attend_plot_series series[] = {{.name = "measured, equal time",
                                  .count = count,
                                  .x = d,
                                  .y = measured,
                                  .points = 2},
                                 {.name = "equal flops of the engines",
                                  .count = count,
                                  .x = d,
                                  .y = counted},
                                 {.name = "document: N = C",
                                  .count = count,
                                  .x = d,
                                  .y = document,
                                  .dashed = 1}};
  attend_plot_panel panel = {.title = "Beyond this length features are cheaper",
                             .x = {.label = "D = M", .log = 1},
                             .y = {.label = "N", .log = 1},
                             .key = ATTEND_KEY_ABOVE,
                             .count = 3,
                             .series = series};
  return study_figure(r, "kernels-crossing",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status crossings(study_run *r) {
  size_t count;
  const double *d = study_list(r, "crossing", &count);
  double document[MOST], counted[MOST], measured[MOST];
  table_store *t;
  TRY(study_table(r, "crossings", "The length at which both ways are even",
                  crossing_columns, &t));
  for (size_t i = 0; i < count; i++) {
    const double c = map_length(d[i]);
    document[i] = c;
    counted[i] = crossing_counted(d[i]);
    TRY(crossing_measured(r, (int)d[i], (int)(8 * counted[i]), &measured[i]));
    TRY(study_row(t, 6, d[i], c, d[i] * d[i], document[i], round(counted[i]),
                  round(measured[i])));
    TRY(study_step(r, 0.7 + 0.3 * (double)(i + 1) / (double)count));
  }
  return plot_crossings(r, count, d, document, counted, measured);
}

attend_status kernel_costs(study_run *r) {
  TRY(study_say(
      r,
      "By pairs every query meets every key: `2 N² (D + M)` operations, a "
      "multiplication and an addition counted as two. By features each key is "
      "folded into U (C × M) and Z (C), and each query reads them: `4 N C (M + "
      "1)`. The library's engine takes the last block of %d keys pair by pair, "
      "which adds `%d N (C + M)`. The documents' code keeps S and A, N² "
      "numbers each. Neither engine here stores them: their workspaces are in "
      "the table.",
      KERNEL_BLOCK, 2 * KERNEL_BLOCK));
  TRY(over_lengths(r));
  TRY(study_say(
      r,
      "With M = D the documents' counts are even at N = C = (D+1)(D+2)/2, "
      "which tends to D²/2. The engines' counts are even later, because of the "
      "last block, most of all at small widths. The clock has an opinion of "
      "its own: products of narrow matrices, powers, and sums over C features "
      "do not run at one speed."));
  return crossings(r);
}
