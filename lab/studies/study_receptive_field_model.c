/* Receptive fields in a model: of its heaviest keys, and how much of the soft
 * weight they hold.
 *
 * Document 004 2(a).
 */
#include "studies/receptive_field.h"
#include "studies/watched.h"

enum { CASES = 3, MOST_DEPTH = 64 };

static const struct {
  const char *name, *title;
  watched_weights weights;
  bool hard;
} cases[CASES] = {{"trained", "trained", WATCHED_TRAINED, false},
                  {"hard", "trained, run with argmax", WATCHED_TRAINED, true},
                  {"untrained", "untrained", WATCHED_UNTRAINED, false}};

typedef struct {
  int depth, heads, rows, over; /* over: nodes that see more than (k+1)^n */
  double n[MOST_DEPTH + 1], seen[MOST_DEPTH + 1], mass[MOST_DEPTH + 1],
      fair[MOST_DEPTH + 1], bound[MOST_DEPTH + 1];
  double total;                 /* of the rollout, worst of all rows */
  double itself, before, first; /* shares of the heaviest keys */
} depths;

/* One node after the last layer, n layers down: tokens reached, and the share
 * of the rollout that lies on them. */
static void add_node(depths *d, const uint8_t *reached, const float *share,
                     int visible, int tokens) {
  for (int n = 0; n <= d->depth; n++) {
    const size_t at = (size_t)(d->depth - n) * (size_t)tokens;
    double seen = 0, mass = 0, all = 0;
    for (int j = 0; j < tokens; j++) {
      seen += reached[at + (size_t)j];
      mass += reached[at + (size_t)j] ? (double)share[at + (size_t)j] : 0;
      all += (double)share[at + (size_t)j];
    }
    d->seen[n] += seen / d->rows;
    d->mass[n] += mass / d->rows;
    d->fair[n] += seen / visible / d->rows;
    d->over += seen > pow(d->heads + 1, n);
    if (fabs(all - 1) > fabs(d->total - 1)) d->total = all;
  }
}

/* Where the heaviest keys lie, over all heads. */
static attend_status locate(study_run *r, const watched *w, depths *d) {
  const int T = w->shape.rows, heads = w->shape.layers * w->shape.heads;
  int32_t *top = NULL;
  TAKE(r, &top, (size_t)T);
  const attend_row_stats stats = {.top = top};
  for (int h = 0; h < heads; h++) {
    const attend_head_id at = {w->role, h / w->shape.heads, h % w->shape.heads};
    TRY(attend_lens_stats(w->lens, at, &stats));
    for (int t = T - d->rows; t < T; t++) {
      d->itself += top[t] == t;
      d->before += top[t] == t - 1;
      d->first += top[t] == 0;
    }
  }
  d->itself /= heads * d->rows;
  d->before /= heads * d->rows;
  d->first /= heads * d->rows;
  return ATTEND_OK;
}

/* The nodes of the second half of the text: all have much to look at. */
static attend_status follow(study_run *r, const watched *w, depths *d) {
  const int T = w->shape.rows, from = T / 2;
  const size_t room = (size_t)(w->shape.layers + 1) * (size_t)T;
  uint8_t *reached = NULL;
  float *share = NULL;
  *d = (depths){.depth = w->shape.layers,
                .heads = w->shape.heads,
                .rows = T - from,
                .total = 1};
  if (d->depth > MOST_DEPTH)
    return study_fail(r, ATTEND_UNSUPPORTED, "the model has over %d layers",
                      MOST_DEPTH);
  TAKE(r, &reached, room);
  TAKE(r, &share, room);
  for (int n = 0; n <= d->depth; n++) {
    d->n[n] = n;
    d->bound[n] = pow(d->heads + 1, n);
  }
  for (int t = from; t < T; t++) {
    int edges;
    TRY(attend_lens_reach(w->lens, w->role, t, reached, NULL, 0, &edges));
    TRY(attend_lens_rollout(w->lens, w->role, t, 0, share, NULL));
    add_node(d, reached, share, w->shape.causal ? t + 1 : T, T);
    TRY(study_step(r, 0.4 + 0.6 * (t - from) / (T - from)));
  }
  return locate(r, w, d);
}

static attend_status follow_case(study_run *r, int which,
                                 const watched_text *text, depths *d) {
  const attend_form argmax = {.kind = ATTEND_ARGMAX};
  watched w;
  attend_status status =
      watched_open(r, study_text(r, "model"), cases[which].weights,
                   cases[which].hard ? &argmax : NULL, text, &w);
  if (!status) status = follow(r, &w, d);
  watched_close(&w);
  return status;
}

/* ---- what is said --------------------------------------------------------------------- */

static const attend_study_column depth_columns[] = {
    {"n", "layers n", ATTEND_CELL_COUNT},
    {"bound", "(k+1)ⁿ", ATTEND_CELL_COUNT},
    {"trained", "trained", ATTEND_CELL_NUMBER},
    {"hard", "run with argmax", ATTEND_CELL_NUMBER},
    {"untrained", "untrained", ATTEND_CELL_NUMBER},
    {"mass", "weight in the field, trained", ATTEND_CELL_NUMBER},
    {"mass_untrained", "untrained", ATTEND_CELL_NUMBER},
    {"fair", "share of the tokens, trained", ATTEND_CELL_NUMBER},
    {0}};

static attend_status say_depths(study_run *r, const depths *d,
                                const watched_text *text) {
  table_store *t;
  TRY(study_table(r, "model",
                  study_format(r,
                               "Tokens seen if every head takes its heaviest "
                               "key, mean over %d nodes, text of %d tokens",
                               d->rows, text->n),
                  depth_columns, &t));
  for (int n = 0; n <= d->depth; n++)
    TRY(study_row(t, 8, (double)n, d->bound[n], d[0].seen[n], d[1].seen[n],
                  d[2].seen[n], d[0].mass[n], d[2].mass[n], d[0].fair[n]));
  return ATTEND_OK;
}

static attend_status claim_depths(study_run *r, const depths *d) {
  for (int i = 0; i < CASES; i++) {
    TRY(study_claim(
        r, study_format(r, "model-bound-%s", cases[i].name),
        study_format(r, "%s: nodes that see more than (k+1)^n", cases[i].title),
        d[i].over, 0, 0));
    TRY(study_claim(
        r, study_format(r, "model-mass-%s", cases[i].name),
        study_format(r, "%s: shares of a rollout sum to 1", cases[i].title),
        d[i].total, 1, 1e-4));
  }
  return study_claim(r, "model-mass-hard-field",
                     "run with argmax: all weight is in the field",
                     d[1].mass[d->depth], 1, 1e-4);
}

static attend_status plot_depths(study_run *r, const depths *d, int tokens) {
  const size_t n = (size_t)d->depth + 1;
  double *least = NULL;
  TAKE(r, &least, n);
  for (size_t i = 0; i < n; i++)
    least[i] = d->bound[i] < tokens ? d->bound[i] : tokens;
  attend_plot_series seen[] = {
      {"(k+1)ⁿ, or all tokens", n, d->n, least, .dashed = 1},
      {"trained", n, d->n, d[0].seen, .points = 1},
      {"with argmax", n, d->n, d[1].seen, .points = 1},
      {"untrained", n, d->n, d[2].seen, .points = 1}};
  attend_plot_series mass[] = {
      {"weight, trained", n, d->n, d[0].mass, .points = 1, .colour = 2},
      {"tokens, trained", n, d->n, d[0].fair, .dashed = 1, .colour = 1},
      {"weight, untrained", n, d->n, d[2].mass, .points = 1, .colour = 4},
      {"tokens, untrained", n, d->n, d[2].fair, .dashed = 1, .colour = 3}};
  attend_plot_panel panels[] = {
      {.title = "Tokens in the field of the heaviest keys",
       .x = {.label = "layers n"},
       .y = {.label = "tokens, mean", .log = 1},
       .key = ATTEND_KEY_ABOVE,
       .count = 4,
       .series = seen},
      {.title = "Soft weight, and tokens, in the field",
       .x = {.label = "layers n"},
       .y = {.label = "share", .low = 0, .high = 1},
       .key = ATTEND_KEY_ABOVE,
       .count = 4,
       .series = mass}};
  return study_figure(
      r, "receptive-field-model",
      &(attend_plot){.count = 2, .across = 2, .panels = panels});
}

attend_status receptive_field_of_model(study_run *r) {
  watched_text text;
  depths *d = NULL;
  TRY(study_heading(r, "In a model"));
  if (!*study_text(r, "model"))
    return study_say(r,
                     "No model was named: `--model attend:gutenberg` counts "
                     "in one.");
  TRY(watched_text_read(r, study_text(r, "model"), study_text(r, "text"),
                        study_count(r, "length"), &text));
  TAKE(r, &d, CASES);
  for (int i = 0; i < CASES; i++) TRY(follow_case(r, i, &text, &d[i]));
  const int L = d->depth;
  TRY(study_say(
      r,
      "A model of family %s with %d layers of %d heads reads %s of %d tokens. "
      "Each head's heaviest key counts alone. By `(k+1)^n` a node could see "
      "%.3g "
      "tokens after %d layers. Counted: %.1f after one layer, %.1f after all; "
      "untrained %.1f and %.1f. Fewer than `(k+1)^n` means that ways meet: the "
      "heaviest key is the token itself for %.0f %% of all heads and nodes, "
      "the "
      "token before for %.0f %%, the first for %.0f %% (untrained %.0f, %.0f "
      "and %.0f %%).",
      text.config.family, L, d->heads,
      text.drawn ? "random tokens, for want of a tokenizer, a text" : "a text",
      text.n, d->bound[L], L, d->seen[1], d->seen[L], d[2].seen[1],
      d[2].seen[L], 100 * d->itself, 100 * d->before, 100 * d->first,
      100 * d[2].itself, 100 * d[2].before, 100 * d[2].first));
  TRY(say_depths(r, d, &text));
  TRY(claim_depths(r, d));
  TRY(plot_depths(r, d, text.n));
  return study_say(
      r,
      "Softmax is not argmax. Rollout multiplies the weights along all ways, "
      "half of each layer going by the residual connection: after %d layers "
      "the field of the heaviest keys holds %.0f %% of the weight, and has "
      "%.0f %% of the tokens that can be seen; untrained, %.0f %% of the "
      "weight in %.0f %% of the tokens. After one layer it holds %.0f %% "
      "(untrained %.0f %%), of which 50 %% is the residual connection alone. "
      "A field says where values come from; keys that were compared and lost "
      "had their say too.",
      L, 100 * d->mass[L], 100 * d->fair[L], 100 * d[2].mass[L],
      100 * d[2].fair[L], 100 * d->mass[1], 100 * d[2].mass[1]);
}
