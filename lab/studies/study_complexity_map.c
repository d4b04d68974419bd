/* Projections or attention: which takes more, over length and d_model.
 *
 * Part of the study of study_complexity.c.
 */
#include "studies/study_complexity.h"

enum { MOST = 12 };

/* With n_t = n_s = n and M = D: 4 n² d against 8 n d². */
static double share_formula(double n, double d) { return n / (n + 2 * d); }

static attend_status fill(study_run *r, double *counted, double *measured) {
  size_t across, down;
  const double *n = study_list(r, "map-n", &across);
  const double *d = study_list(r, "map-d", &down);
  for (size_t i = 0; i < down; i++)
    for (size_t j = 0; j < across; j++) {
      const module_shape s = {(int)n[j], (int)n[j], (int)d[i],
                              study_count(r, "h"), 0};
      const size_t at = (down - 1 - i) * across + j; /* the widest on top */
      module_cost c;
      TRY(module_measure(r, s, study_count(r, "repeat"), &c));
      counted[at] = module_share(c.projections, c.attention);
      measured[at] = module_share(c.projections_seconds, c.attention_seconds);
      TRY(study_claim(
          r, study_format(r, "share-n%g-d%g", n[j], d[i]),
          study_format(r, "n / (n + 2 d) at n = %g, d_model = %g", n[j], d[i]),
          counted[at], share_formula(n[j], d[i]), 1e-12));
      TRY(study_step(r, 0.6 + 0.4 * (double)(i * across + j + 1) /
                                  (double)(down * across)));
    }
  return ATTEND_OK;
}

static attend_status draw(study_run *r, const double *counted,
                          const double *measured) {
  size_t across, down;
  const double *n = study_list(r, "map-n", &across);
  const double *d = study_list(r, "map-d", &down);
  const char *columns[MOST], *rows[MOST];
  for (size_t j = 0; j < across; j++) columns[j] = study_format(r, "%g", n[j]);
  for (size_t i = 0; i < down; i++)
    rows[down - 1 - i] = study_format(r, "%g", d[i]);
  attend_plot_panel panels[2] = {
      {.kind = ATTEND_PLOT_HEAT,
       .title = "Attention's share of the flops",
       .x = {.label = "n"},
       .y = {.label = "d_model"},
       .columns = across,
       .names = columns,
       .rows = down,
       .row_names = rows,
       .cells = counted,
       .z = {.label = "share", .low = 0, .high = 1}}};
  panels[1] = panels[0];
  panels[1].title = "Of the measured time";
  panels[1].cells = measured;
  return study_figure(
      r, "complexity-share",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

/* Lengths at which both terms have as many operations. */
static attend_status claim_even(study_run *r, const char *name, int n_t,
                                int n_s, int d) {
  const module_shape s = {n_t, n_s, d, study_count(r, "h"), 0};
  module_cost c;
  TRY(module_measure(r, s, 0, &c));
  return study_claim(
      r, name,
      study_format(r,
                   "attention less projections, flops, at n_t = %d, n_s = %d, "
                   "d_model = %d",
                   n_t, n_s, d),
      c.attention - c.projections, 0, 0);
}

attend_status complexity_map(study_run *r) {
  size_t across, down;
  const int d = 2 * study_count(r, "h") * 8;
  double *counted = NULL, *measured = NULL;
  const double *n = study_list(r, "map-n", &across);
  const double *widths = study_list(r, "map-d", &down);
  TAKE(r, &counted, across * down);
  TAKE(r, &measured, across * down);
  TRY(study_say(
      r,
      "Projections take `4 (n_t + n_s) d_model²` flops, attention `4 n_t n_s "
      "d_model`. They are even where `n_t n_s / (n_t + n_s) = d_model`: for "
      "n_t = n_s = n, at `n = 2 d_model`, and attention's share is n / (n + 2 "
      "d_model)."));
  TRY(claim_even(r, "even-self", 2 * d, 2 * d, d));
  TRY(claim_even(r, "even-cross", 3 * d, 3 * d / 2, d));
  TRY(fill(r, counted, measured));
  TRY(draw(r, counted, measured));
  const size_t wide = 0, narrow = (down - 1) * across + across - 1;
  return study_say(
      r,
      "Wide and short, at d_model = %g and n = %g, attention has %.3g of the "
      "flops and took %.3g of the time: the projections are the bottleneck. "
      "Narrow and long, at d_model = %g and n = %g, it has %.3g and took %.3g: "
      "the scores and the weighted sums are. The clock's line need not be n = "
      "2 d_model: a flop of attention, with its softmax, and one of a large "
      "product do not take the same time.",
      widths[down - 1], n[0], counted[wide], measured[wide], widths[0],
      n[across - 1], counted[narrow], measured[narrow]);
}
