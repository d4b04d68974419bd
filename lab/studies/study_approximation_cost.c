/* What random features cost, in multiplications and additions.
 *
 * Documents 000 3(a)ii, 002 3(a)ii: O(N(M+D)D_random); part of the study
 * approximation.
 *
 * A call maps N keys and N queries (2 D R each for R directions, whose sines and
 * cosines make C = 2R features), folds keys into the sums and reads them (2 C
 * (M+1) each), and takes the keys of a row's own block by pairs: 2 BLOCK (C + M).
 */
#include "studies/study_approximation.h"

enum { BLOCK = 64, MOST = 8, CURVE = 31 };

static attend_status flops(study_run *r, const char *engine, int n, int d,
                           int m, int directions, double *out) {
  attend_desc desc = {
      .form = {.kind = ATTEND_FOURIER, .features = 2 * directions},
      .q_len = n,
      .kv_len = n,
      .dim = d,
      .dim_v = m,
      .engine = engine};
  attend_cost cost;
  if (!engine) desc.form = (attend_form){.kind = ATTEND_SOFTMAX};
  TRY(attend_desc_cost(r->ctx, &desc, &cost));
  *out = cost.flops;
  return ATTEND_OK;
}

/* For N a multiple of the block, more than one of them. */
static double formula(double n, double d, double m, double directions) {
  const double c = 2 * directions;
  return n * (4 * d * directions + 4 * c * (m + 1) + 2 * BLOCK * (c + m));
}

static const attend_study_column cost_columns[] = {
    {"n", "N", ATTEND_CELL_COUNT},
    {"directions", "D_random", ATTEND_CELL_COUNT},
    {"flops", "operations", ATTEND_CELL_SMALL},
    {"ratio", "/ N(M+D)D_random", ATTEND_CELL_NUMBER},
    {"softmax", "softmax", ATTEND_CELL_SMALL},
    {0}};

typedef struct {
  int n, d, m, directions;
} size;

static attend_status claims(study_run *r, size s) {
  double is, more;
  TRY(flops(r, "linear", s.n, s.d, s.m, s.directions, &is));
  TRY(study_claim(
      r, "operations",
      study_format(r, "operations at N = %d, D_random = %d", s.n, s.directions),
      is, formula(s.n, s.d, s.m, s.directions), 0));
  TRY(flops(r, "linear", 2 * s.n, s.d, s.m, s.directions, &more));
  TRY(study_claim(r, "twice-n", "twice N: operations grow by the factor",
                  more / is, 2, 0));
  TRY(flops(r, "linear", s.n, s.d + 1, s.m, s.directions, &more));
  TRY(study_claim(r, "one-d", "D + 1: operations more, over N D_random",
                  (more - is) / ((double)s.n * s.directions), 4, 0));
  TRY(flops(r, "linear", s.n, s.d, s.m + 1, s.directions, &more));
  TRY(study_claim(r, "one-m", "M + 1: operations more, over N",
                  (more - is) / s.n, 8.0 * s.directions + 2 * BLOCK, 0));
  TRY(flops(r, NULL, s.n, s.d, s.m, 0, &is));
  return study_claim(r, "softmax-operations", "softmax's operations over N²",
                     is / s.n / s.n, 2.0 * (s.d + s.m), 0);
}

static attend_status plot_cost(study_run *r, int d, const double *directions,
                               size_t count) {
  static const int first = 128;
  double x[CURVE], y[MOST + 1][CURVE];
  attend_plot_series series[MOST + 1];
  for (int i = 0; i < CURVE; i++) {
    int n = BLOCK * (int)lround(first / BLOCK * pow(2, 10.0 * i / (CURVE - 1)));
    x[i] = n;
    TRY(flops(r, NULL, n, d, d, 0, &y[0][i]));
    for (size_t k = 0; k < count; k++)
      TRY(flops(r, "linear", n, d, d, (int)directions[k], &y[k + 1][i]));
  }
  for (size_t k = 0; k <= count; k++)
    series[k] = (attend_plot_series){
        .name =
            k ? study_format(r, "D_random = %g", directions[k - 1]) : "softmax",
        .count = CURVE,
        .x = x,
        .y = y[k],
        .dashed = !k};
  attend_plot_panel panel = {
      .title = study_format(r, "Operations of a head, D = M = %d", d),
      .x = {.label = "N", .log = 1},
      .y = {.label = "operations", .log = 1},
      .key = ATTEND_KEY_ABOVE,
      .count = count + 1,
      .series = series};
  return study_figure(r, "approximation-cost",
                      &(attend_plot){.count = 1, .panels = &panel});
}

attend_status approx_cost(study_run *r) {
  static const double directions[] = {32, 128, 512};
  const int d = study_count(r, "width"), lengths[] = {512, 4096, 32768};
  table_store *t;
  TRY(study_heading(r, "What it costs"));
  TRY(study_say(
      r,
      "All of V' by features costs O(N(M+D)D_random): every key and "
      "every query is mapped once (D · D_random), every key is added "
      "to the sums and every query reads them (2 D_random features, M "
      "wide). The library takes the keys of a query's own block of %d "
      "by pairs, which is a constant per row. Doubling N doubles it, "
      "where softmax's N²(D+M) becomes four times as much.",
      BLOCK));
  TRY(study_table(r, "cost", study_format(r, "Operations, D = M = %d", d),
                  cost_columns, &t));
  for (int i = 0; i < 3; i++)
    for (int k = 0; k < 3; k++) {
      const double n = lengths[i], is[] = {directions[k]};
      double linear, softmax;
      TRY(flops(r, "linear", lengths[i], d, d, (int)*is, &linear));
      TRY(flops(r, NULL, lengths[i], d, d, 0, &softmax));
      TRY(study_row(t, 5, n, *is, linear, linear / (n * 2 * d * *is), softmax));
    }
  TRY(claims(r, (size){1024, d, d + 3, 128}));
  TRY(plot_cost(r, d, directions, 3));
  const double each = formula(1, d, d, 128) / (4.0 * d);
  return study_say(r,
                   "With D_random = 128 the features cost less from N = %.0f "
                   "on. How many are needed is the other question.",
                   each);
}
