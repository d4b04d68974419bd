/* The Jacobian of the softmax, diag(a) - a a^T: its norm over the scale of the
 * scores and over d, the documents' bound, and the gradients that reach q and k.
 *
 * What many random rows have is in study_jacobian_crowd.c.
 */
#include "studies/study_jacobian.h"

enum { QUERY = 11, KEY, SHOWN = 12, SHOWN_WIDTH = 64 };

static const attend_setting settings[] = {
    {"d", "4,16,64,256,1024", "4,16,64", "widths of q and k",
     ATTEND_SETTING_WHOLE, JACOBIAN_LIST, 2, 16384},
    {"spread", "0.125,0.25,0.5,1,2,4,8,16,32,64", "0.25,1,8,32",
     "standard deviations of the scores, by the scale", ATTEND_SETTING_NUMBERS,
     JACOBIAN_LIST, 1e-3, 1e3},
    {"width", "64", NULL, "d where the scale varies", ATTEND_SETTING_WHOLE, 1,
     2, 16384},
    {"keys", "64", "16", "keys of a query", ATTEND_SETTING_WHOLE, 1, 2, 4096},
    {"tables", "40", "8", "sets of keys that are drawn", ATTEND_SETTING_WHOLE,
     1, 1, 10000},
    {"queries", "50", "25", "queries of a set", ATTEND_SETTING_WHOLE, 1, 1,
     10000},
    {0}};

/* ---- one row ------------------------------------------------------------------------- */

row_facts jacobian_row(const float *a, int n) {
  int top = 0;
  double epsilon = 0, squares = 0, fourth = 0, own = 0;
  for (int j = 1; j < n; j++)
    if (a[j] > a[top]) top = j;
  for (int j = 0; j < n; j++) {
    if (j == top) continue;
    double x = (double)a[j], y = x * x;
    epsilon += x;
    squares += y;
    fourth += y * y;
    own += y * (1 - x) * (1 - x);
  }
  const double m = 1 - epsilon;
  return (row_facts){sqrt(m * m * epsilon * epsilon + own +
                          2 * m * m * squares + squares * squares - fourth),
                     epsilon};
}

/* ---- the Jacobian itself --------------------------------------------------------------- */

typedef struct {
  float *q, *k, *v, *bias, *o, *lse, *weights, *d_o, *dq, *dk, *dv, *jacobian;
} sheet;

static attend_status take_sheet(study_run *r, size_t n, size_t d, sheet *s) {
  float **const square[] = {&s->v,   &s->bias, &s->o,       &s->weights,
                            &s->d_o, &s->dv,   &s->jacobian};
  float **const wide[] = {&s->q, &s->k, &s->dq, &s->dk};
  for (size_t i = 0; i < sizeof square / sizeof *square; i++)
    TAKE(r, square[i], n * n);
  for (size_t i = 0; i < sizeof wide / sizeof *wide; i++)
    TAKE(r, wide[i], n * d);
  TAKE(r, &s->lse, n);
  return ATTEND_OK;
}

/* jacobian [n][n] by the library: with values that are unit vectors the output
 * is a itself, and the gradient of a bias is that of the scores. Row i of n
 * equal queries is asked for the gradient of a_i. */
static attend_status differentiate(study_run *r, int n, int d, float scale,
                                   const sheet *s) {
  attend_desc desc = {
      .q_len = n,
      .kv_len = n,
      .dim = d,
      .dim_v = n,
      .scale = scale,
      .bias = {.kind = ATTEND_DENSE, .dense = attend_bhtd(s->bias)}};
  for (int i = 0; i < n; i++) s->v[i * n + i] = s->d_o[i * n + i] = 1;
  return study_attend(r, &desc,
                      &(study_pass){.q = s->q,
                                    .k = s->k,
                                    .v = s->v,
                                    .o = s->o,
                                    .lse = s->lse,
                                    .weights = s->weights,
                                    .d_o = s->d_o,
                                    .dq = s->dq,
                                    .dk = s->dk,
                                    .dv = s->dv,
                                    .dbias = s->jacobian});
}

static attend_status claim_jacobian(study_run *r, const char *name,
                                    const sheet *s, int n) {
  double most = 0, square = 0;
  for (int i = 0; i < n * n; i++) {
    double a = (double)s->weights[i / n], b = (double)s->weights[i % n],
           x = (double)s->jacobian[i];
    double off = fabs(x - ((i / n == i % n ? a : 0) - a * b));
    if (off > most) most = off;
    square += x * x;
  }
  row_facts f = jacobian_row(s->weights, n);
  TRY(study_claim(
      r, study_format(r, "jacobian-%s", name),
      study_format(r, "∂a/∂s by backward − (diag(a) − a aᵀ), %s", name), most,
      0, 1e-6));
  return study_claim(
      r, study_format(r, "norm-%s", name),
      study_format(r, "‖∂a/∂s‖² = Σ aᵢ²(1−aᵢ)² + 2 Σ aᵢ²aⱼ², %s", name), square,
      f.norm * f.norm, 1e-6);
}

static attend_status show_jacobian(study_run *r) {
  static const char *const names[] = {"scaled", "plain"};
  const char *titles[2];
  double cells[2][SHOWN * SHOWN];
  attend_plot_panel panels[2];
  for (int plain = 0; plain < 2; plain++) {
    sheet s;
    TRY(take_sheet(r, SHOWN, SHOWN_WIDTH, &s));
    for (size_t i = 0; i < SHOWN; i++)
      study_normal(r, QUERY, 0, SHOWN_WIDTH, s.q + i * SHOWN_WIDTH);
    study_normal(r, KEY, 0, (size_t)SHOWN * SHOWN_WIDTH, s.k);
    TRY(differentiate(r, SHOWN, SHOWN_WIDTH, plain ? 1 : 0, &s));
    TRY(claim_jacobian(r, names[plain], &s, SHOWN));
    for (int i = 0; i < SHOWN * SHOWN; i++)
      cells[plain][i] = (double)s.jacobian[i];
    titles[plain] = study_format(r, "%s, norm %.3f", plain ? "q·k" : "q·k / √d",
                                 jacobian_row(s.weights, SHOWN).norm);
    panels[plain] = (attend_plot_panel){.kind = ATTEND_PLOT_HEAT,
                                        .title = titles[plain],
                                        .x = {.label = "score of key"},
                                        .y = {.label = "weight of key"},
                                        .columns = SHOWN,
                                        .rows = SHOWN,
                                        .cells = cells[plain],
                                        .z = {.low = -0.25, .high = 0.25},
                                        .diverging = 1};
  }
  return study_figure(
      r, "jacobian-matrix",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

/* ---- the largest it can be -------------------------------------------------------------- */

/* Weights of one query whose scores are these. */
static attend_status claim_row(study_run *r, const char *name, const char *text,
                               const float *scores, int n, double expected) {
  sheet s;
  TRY(take_sheet(r, (size_t)n, 1, &s));
  for (int i = 0; i < n; i++) s.q[i] = 1, s.k[i] = scores[i];
  TRY(differentiate(r, n, 1, 1, &s));
  double square = 0;
  for (int i = 0; i < n * n; i++)
    square += (double)s.jacobian[i] * (double)s.jacobian[i];
  return study_claim(r, name, text, sqrt(square), expected, 1e-6);
}

static attend_status show_largest(study_run *r) {
  float even[SHOWN] = {0}, two[SHOWN], one[SHOWN];
  for (int i = 0; i < SHOWN; i++) two[i] = i < 2 ? 50 : -50;
  for (int i = 0; i < SHOWN; i++) one[i] = i < 1 ? 50 : -50;
  TRY(claim_row(r, "norm-even", "equal weights on 12 keys: √(n−1)/n", even,
                SHOWN, sqrt(SHOWN - 1) / SHOWN));
  TRY(claim_row(r, "norm-two", "equal weights on two keys: ½", two, SHOWN,
                0.5));
  TRY(claim_row(r, "norm-one", "all weight on one key: 0", one, SHOWN, 0));
  return study_say(
      r,
      "How large can the norm be? With p₂ = Σ aᵢ² and p₃ = Σ aᵢ³ it is "
      "‖J‖² = p₂ − 2p₃ + p₂². Since p₂² ≤ p₃, ‖J‖² ≤ p₂ (1 − p₂) ≤ ¼: never "
      "above ½, and ½ only where two keys share all the weight. Equal weights "
      "on n keys give √(n−1)/n, one key that has everything gives 0. So a "
      "softmax learns most while it hesitates between two keys; it learns "
      "slowly where it sees no difference yet, and not at all where it is "
      "sure.");
}

static attend_status introduce(study_run *r) {
  return study_say(
      r,
      "Let a = softmax(s). A gradient on its way to q and k passes through the "
      "Jacobian ∂a/∂s = diag(a) − a aᵀ. Here it is what `attend_backward` "
      "gives: values that are unit vectors make the output a itself, and the "
      "gradient of a bias is that of the scores. The pictures show it for one "
      "random query and %d keys at d = %d, once with scores q·k / √d and once "
      "with q·k. From the formula it differs by rounding. Which of the two "
      "norms is larger depends on the query.",
      SHOWN, SHOWN_WIDTH);
}

static attend_status run(study_run *r) {
  TRY(introduce(r));
  TRY(show_jacobian(r));
  TRY(show_largest(r));
  TRY(jacobian_over_scales(r));
  return jacobian_over_widths(r);
}

const study_topic study_jacobian = {
    {.name = "jacobian",
     .title = "The Jacobian of the softmax",
     .question = "How much of a gradient does a softmax let through, and what "
                 "does 1/√d do for it?",
     .answers = "004 1(a)",
     .settings = settings},
    run};
