/* How many inputs a node sees: (k + 1)^n with k argmax heads in n layers.
 *
 * Heads with chosen keys, without shared paths and at random; then heads of models.
 *
 * What a node sees is computed by the attention itself. The states begin as the
 * identity, row t holding 1 at t; a layer adds to each row the rows that its
 * heads attend to. Element j of row t is then the number of paths from input j to node
 * t, and the inputs that are seen are those that are not 0.
 */
#include "studies/study.h"

enum { PICKS = 1, CODES = 90, MOST_HEADS = 8, WIDTH = 32 };

static const char paragraph[] =
    "It was the best hour of the day, and the old man went down to the sea. The sea was grey, and "
    "the boats of the old harbour lay still upon it. He had been a sailor, as his father had been "
    "a sailor before him, and he knew the sea as other men know their own house. \"It will rain "
    "before night,\" he said to the boy who stood beside him. The boy looked up at the sky, but he "
    "saw no cloud. \"How do you know it will rain?\" he asked. The old man did not answer at once. "
    "He looked out over the water, where a white bird turned and fell, and turned again.";

static const attend_setting settings[] = {
    {"heads", "1,2,3", "1,2", "heads k of a layer", WHOLE, MOST_HEADS, 1, 16},
    {"layers", "4", "3", "layers n", WHOLE, 1, 1, 8},
    {"tokens", "320", "96", "tokens of heads with chosen keys", WHOLE, 1, 8, 2048},
    {"draws", "20", "6", "random networks for each k", WHOLE, 1, 2, 1000},
    {"model", "attend:gutenberg", NULL, "a model; empty: none", ATTEND_SETTING_MODEL, 0, 0, 0},
    {"length", "128", "32", "tokens that the model reads at most", WHOLE, 1, 2, 4096},
    {"text", paragraph, NULL, "what the model reads", ATTEND_SETTING_TEXT, 0, 0, 0},
    {0}};

/* ---- heads with chosen keys ---------------------------------------------- */

typedef struct {
  int k, n, T;
  attend_plan *plan;
  float *codes;       /* [T][WIDTH] keys: at random, all of one length */
  float *q;           /* [k][T][WIDTH] */
  float *paths, *got; /* [T][T], [k][T][T] */
} network;

/* The token that head h of a layer looks at from t. */
typedef int (*pick)(const network *w, int layer, int head, int t, const uint32_t *random);

/* Backwards by the digits of base k + 1: all paths end at different tokens. */
static int by_digits(const network *w, int layer, int head, int t, const uint32_t *random) {
  (void)random;
  int back = head + 1;
  while (layer--) back *= w->k + 1;
  return ((t - back) % w->T + w->T) % w->T;
}

static int by_chance(const network *w, int layer, int head, int t, const uint32_t *random) {
  (void)layer;
  const uint64_t u = random[head * w->T + t];
  return (int)(u * (uint64_t)w->T >> 32);
}

static attend_status make_network(study_run *r, int k, int T, network *w) {
  *w = (network){.k = k, .n = study_count(r, "layers"), .T = T};
  const size_t n = (size_t)T, heads = (size_t)k;
  attend_desc d = {ATTEND_INIT(attend_desc),
                   .form = {.kind = ATTEND_ARGMAX},
                   .heads = k,
                   .kv_heads = 1,
                   .q_len = T,
                   .kv_len = T,
                   .dim = WIDTH,
                   .dim_v = T};
  TRY(study_draw(r, CODES, n * WIDTH, &w->codes));
  TAKE(r, &w->q, heads * n * WIDTH);
  TAKE(r, &w->paths, n * n);
  TAKE(r, &w->got, heads * n * n);
  attend_rms_norm(r->ctx, T, WIDTH, w->codes, WIDTH, NULL, 0, w->codes, WIDTH);
  return study_plan(r, &d, &w->plan);
}

/* A query is the code of the token that it wants: of vectors of one length it
 * has the largest product with itself. */
static attend_status layer(network *w, int at, pick wants, const uint32_t *random) {
  const size_t T = (size_t)w->T;
  for (int h = 0; h < w->k; h++)
    for (int t = 0; t < w->T; t++)
      memcpy(w->q + ((size_t)h * T + (size_t)t) * WIDTH,
             w->codes + (size_t)wants(w, at, h, t, random) * WIDTH, WIDTH * sizeof *w->q);
  TRY(attend_forward(w->plan, attend_bhtd(w->q), attend_bhtd(w->codes), attend_bhtd(w->paths),
                     attend_bhtd(w->got), NULL));
  for (int h = 0; h < w->k; h++)
    for (size_t i = 0; i < T * T; i++) w->paths[i] += w->got[(size_t)h * T * T + i];
  return ATTEND_OK;
}

static void begin(network *w) {
  const size_t T = (size_t)w->T;
  memset(w->paths, 0, T * T * sizeof *w->paths);
  for (size_t t = 0; t < T; t++) w->paths[t * (T + 1)] = 1;
}

typedef struct {
  double paths;          /* that lead to a node, the same for all, else NaN */
  double min, max, mean; /* inputs that nodes see */
} field;

static field field_of(const network *w) {
  field f = {.min = INFINITY};
  for (int t = 0; t < w->T; t++) {
    const float *row = w->paths + (size_t)t * (size_t)w->T;
    double seen = 0, paths = 0;
    for (int j = 0; j < w->T; j++) {
      seen += row[j] > 0;
      paths += (double)row[j];
    }
    f.paths = t && paths != f.paths ? NAN : paths;
    f.mean += seen;
    f.min = fmin(f.min, seen);
    f.max = fmax(f.max, seen);
  }
  f.mean /= w->T;
  return f;
}

static double bound_of(int k, int n) { return pow(k + 1, n); }

/* ---- no shared paths ------------------------------------------------------------------ */

static const attend_study_column chosen_columns[] = {
    {"k", "heads k", COUNT},           {"n", "layers n", COUNT},
    {"predicted", "(k+1)ⁿ", COUNT},    {"paths", "paths to a node", COUNT},
    {"seen", "inputs it sees", COUNT}, {0}};

static attend_status chosen_layers(study_run *r, network *w, table_store *t) {
  begin(w);
  for (int n = 1; n <= w->n && bound_of(w->k, n) <= w->T; n++) {
    const double bound = bound_of(w->k, n);
    TRY(layer(w, n - 1, by_digits, NULL));
    const field f = field_of(w);
    TRY(study_row(t, (double)w->k, (double)n, bound, f.paths, f.mean));
    TRY(study_claim(r, f.min == f.max ? f.mean : NAN, bound, 0,
                    "field-k%d-n%d: inputs seen: k = %d, n = %d", w->k, n, w->k, n));
    TRY(study_claim(r, f.paths, bound, 0, "paths-k%d-n%d: paths to a node: k = %d, n = %d", w->k, n,
                    w->k, n));
  }
  return ATTEND_OK;
}

static attend_status chosen(study_run *r, int T) {
  size_t count;
  const double *heads = study_list(r, "heads", &count);
  table_store *t;
  TRY(study_table(r, &t, "chosen", chosen_columns,
                  "Head h of layer l looks h·(k+1)ˡ⁻¹ tokens back, %d tokens in a ring", T));
  for (size_t i = 0; i < count; i++) {
    network w;
    TRY(make_network(r, (int)heads[i], T, &w));
    TRY(chosen_layers(r, &w, t));
  }
  return ATTEND_OK;
}

/* ---- paths that meet by chance ------------------------------------------------------------- */

/* Law of the number of inputs seen, a Markov chain over layers: from m nodes go
 * k m picks, and each finds one that is not among the m found so far with
 * probability 1 - m/T. law [T + 1], changed to that of one layer more. */
static void one_layer_more(int k, int T, double *law, double *next, double *now) {
  memset(next, 0, (size_t)(T + 1) * sizeof *next);
  for (int m = 1; m <= T; m++) {
    if (law[m] < 1e-15) continue;
    memset(now, 0, (size_t)(T + 1) * sizeof *now);
    now[m] = law[m];
    for (int p = 0, low = m; p < k * m; p++) {
      const int top = m + p < T ? m + p : T - 1;
      while (low < T && now[low] < 1e-18) low++; /* all but 1e-12 is above */
      for (int s = top; s >= low; s--) {
        const double fresh = now[s] * (1 - (double)s / T);
        now[s + 1] += fresh;
        now[s] -= fresh;
      }
    }
    for (int s = m; s <= T; s++) next[s] += now[s];
  }
  memcpy(law, next, (size_t)(T + 1) * sizeof *law);
}

static void law_moments(const double *law, int T, double *mean, double *var) {
  double a = 0, b = 0;
  for (int s = 1; s <= T; s++) {
    a += law[s] * s;
    b += law[s] * s * s;
  }
  *mean = a;
  *var = b - a * a > 0 ? b - a * a : 0;
}

static const attend_study_column chance_columns[] = {
    {"k", "heads k", COUNT},       {"n", "layers n", COUNT},
    {"bound", "(k+1)ⁿ", COUNT},    {"predicted", "expected", NUMBER},
    {"mean", "mean seen", NUMBER}, {"least", "least", COUNT},
    {"most", "most", COUNT},       {0}};

enum { MOST_LAYERS = 8 };

typedef struct {
  double n[MOST_LAYERS], bound[MOST_LAYERS], expected[MOST_LAYERS], error[MOST_LAYERS],
      mean[MOST_LAYERS], min[MOST_LAYERS], max[MOST_LAYERS];
} fields;

/* The mean over all nodes of a draw has at most the variance of one node. */
static attend_status expect(study_run *r, const network *w, fields *f) {
  const size_t n = (size_t)w->T + 1;
  double *law = NULL;
  TAKE(r, &law, 3 * n);
  law[1] = 1;
  for (int i = 0; i < w->n; i++) {
    double var;
    one_layer_more(w->k, w->T, law, law + n, law + 2 * n);
    law_moments(law, w->T, &f->expected[i], &var);
    f->error[i] = sqrt(var / study_count(r, "draws"));
    f->n[i] = i + 1;
    f->bound[i] = bound_of(w->k, i + 1);
    f->min[i] = INFINITY;
  }
  return ATTEND_OK;
}

static attend_status draw(study_run *r, network *w, int which, uint32_t *random, fields *f) {
  const int draws = study_count(r, "draws"), picks = w->k * w->T;
  begin(w);
  for (int i = 0; i < w->n; i++) {
    const attend_random stream = {r->seed, PICKS + 100u * (uint64_t)w->k + (uint64_t)i};
    const uint64_t first = (uint64_t)which * (uint64_t)((picks + 3) / 4);
    for (int p = 0; p < picks; p += 4)
      attend_random_block(stream, first + (uint64_t)(p / 4), random + p);
    TRY(layer(w, i, by_chance, random));
    const field one = field_of(w);
    f->mean[i] += one.mean / draws;
    f->min[i] = fmin(f->min[i], one.min);
    f->max[i] = fmax(f->max[i], one.max);
  }
  return ATTEND_OK;
}

static attend_status say_chance(study_run *r, const network *w, const fields *f, table_store *t) {
  for (int i = 0; i < w->n; i++) {
    TRY(study_row(t, (double)w->k, f->n[i], f->bound[i], f->expected[i], f->mean[i], f->min[i],
                  f->max[i]));
    TRY(study_estimate(r, f->mean[i], f->expected[i], f->error[i],
                       "chance-k%d-n%d: inputs seen, picks at random: k = %d, n = %d", w->k, i + 1,
                       w->k, i + 1));
    TRY(study_claim(r, f->max[i] > f->bound[i], 0, 0,
                    "bound-k%d-n%d: picks at random exceed (k+1)ⁿ: k = %d, n = %d", w->k, i + 1,
                    w->k, i + 1));
  }
  return ATTEND_OK;
}

static attend_status chance_of(study_run *r, network *w, fields *f, table_store *t) {
  uint32_t *random = NULL;
  TAKE(r, &random, (size_t)(w->k * w->T + 4));
  TRY(expect(r, w, f));
  for (int i = 0; i < study_count(r, "draws"); i++) {
    TRY(draw(r, w, i, random, f));
    TRY(study_step(r, 0.2));
  }
  return say_chance(r, w, f, t);
}

static attend_status plot_chance(study_run *r, const fields *f, size_t count, int T) {
  const double *heads = study_list(r, "heads", &count);
  const size_t n = (size_t)study_count(r, "layers");
  attend_plot_series s[3 * MOST_HEADS];
  for (size_t i = 0; i < count; i++) {
    const int colour = (int)i + 1;
    const bool last = i + 1 == count; /* named once */
    s[i] = (attend_plot_series){
        last ? "(k+1)ⁿ, dashed" : NULL, n, f[i].n, f[i].bound, .dashed = 1, .colour = colour};
    s[count + i] = (attend_plot_series){study_format(r, "expected, k = %g", heads[i]), n, f[i].n,
                                        f[i].expected, .colour = colour};
    s[2 * count + i] = (attend_plot_series){
        last ? "measured" : NULL, n, f[i].n, f[i].mean, .points = 2, .colour = colour};
  }
  attend_plot_panel panel = study_lines(study_format(r, "Inputs that a node sees, %d tokens", T),
                                        study_axis("layers n"), study_log("inputs"), 3 * count, s);
  return study_plot(r, "receptive-field-chance", 1, &panel);
}

static attend_status chance(study_run *r, int T) {
  size_t count;
  const double *heads = study_list(r, "heads", &count);
  fields *f = NULL;
  table_store *t;
  TAKE(r, &f, MOST_HEADS);
  TRY(study_table(r, &t, "chance", chance_columns,
                  "Heads that look anywhere among %d tokens, %d networks", T,
                  study_count(r, "draws")));
  for (size_t i = 0; i < count; i++) {
    network w;
    TRY(make_network(r, (int)heads[i], T, &w));
    TRY(chance_of(r, &w, &f[i], t));
  }
  return plot_chance(r, f, count, T);
}

/* ---- models ---------------------------------------------------------------- */

/* Receptive fields in a model: of its heaviest keys, and how much of the soft
 * weight they hold.
 *
 * Document worksheet 2(a).
 */

enum { CASES = 3, MOST_DEPTH = 64 };

static const struct {
  const char *name, *title;
  traced_weights weights;
  bool hard;
} cases[CASES] = {{"trained", "trained", TRACED_TRAINED, false},
                  {"hard", "trained, run with argmax", TRACED_TRAINED, true},
                  {"untrained", "untrained", TRACED_UNTRAINED, false}};

typedef struct {
  int depth, heads, rows, over; /* over: nodes that see more than (k+1)ⁿ */
  double n[MOST_DEPTH + 1], seen[MOST_DEPTH + 1], mass[MOST_DEPTH + 1], fair[MOST_DEPTH + 1],
      bound[MOST_DEPTH + 1];
  double total;                 /* of the rollout, worst of all rows */
  double itself, before, first; /* shares of the heaviest keys */
} depths;

/* One node after the last layer, n layers down: tokens reached, and the share
 * of the rollout that lies on them. */
static void add_node(depths *d, const uint8_t *reached, const float *share, int visible,
                     int tokens) {
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
static attend_status locate(study_run *r, const traced *w, depths *d) {
  const int T = w->shape.rows, heads = w->shape.layers * w->shape.heads;
  int32_t *top = NULL;
  TAKE(r, &top, (size_t)T);
  const attend_row_stats stats = {ATTEND_INIT(attend_row_stats), .top = top};
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
static attend_status follow(study_run *r, const traced *w, depths *d) {
  const int T = w->shape.rows, from = T / 2;
  const size_t capacity = (size_t)(w->shape.layers + 1) * (size_t)T;
  uint8_t *reached = NULL;
  float *share = NULL;
  *d = (depths){.depth = w->shape.layers, .heads = w->shape.heads, .rows = T - from, .total = 1};
  if (d->depth > MOST_DEPTH)
    return study_fail(r, ATTEND_UNSUPPORTED, "the model has over %d layers", MOST_DEPTH);
  TAKE(r, &reached, capacity);
  TAKE(r, &share, capacity);
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

static attend_status follow_case(study_run *r, int which, const traced_text *text, depths *d) {
  const attend_form argmax = {.kind = ATTEND_ARGMAX};
  traced w;
  attend_status status = traced_open(r, study_text(r, "model"), cases[which].weights,
                                     cases[which].hard ? &argmax : NULL, text, &w);
  if (!status) status = follow(r, &w, d);
  traced_close(&w);
  return status;
}

/* ---- report --------------------------------------------------------------------- */

static const attend_study_column depth_columns[] = {
    {"n", "layers n", COUNT},
    {"bound", "(k+1)ⁿ", COUNT},
    {"trained", "trained", NUMBER},
    {"hard", "run with argmax", NUMBER},
    {"untrained", "untrained", NUMBER},
    {"mass", "weight in the field, trained", NUMBER},
    {"mass_untrained", "untrained", NUMBER},
    {"fair", "share of the tokens, trained", NUMBER},
    {0}};

static attend_status say_depths(study_run *r, const depths *d, const traced_text *text) {
  table_store *t;
  TRY(study_table(
      r, &t, "model", depth_columns,
      "Tokens seen if every head takes its heaviest key, mean over %d nodes, text of %d tokens",
      d->rows, text->n));
  for (int n = 0; n <= d->depth; n++)
    TRY(study_row(t, (double)n, d->bound[n], d[0].seen[n], d[1].seen[n], d[2].seen[n], d[0].mass[n],
                  d[2].mass[n], d[0].fair[n]));
  return ATTEND_OK;
}

static attend_status claim_depths(study_run *r, const depths *d) {
  for (int i = 0; i < CASES; i++) {
    TRY(study_claim(r, d[i].over, 0, 0, "model-bound-%s: %s: nodes that see more than (k+1)ⁿ",
                    cases[i].name, cases[i].title));
    TRY(study_claim(r, d[i].total, 1, 1e-4, "model-mass-%s: %s: shares of a rollout sum to 1",
                    cases[i].name, cases[i].title));
  }
  return study_claim(r, d[1].mass[d->depth], 1, 1e-4,
                     "model-mass-hard-field: run with argmax: all weight is in the field");
}

static attend_status plot_depths(study_run *r, const depths *d, int tokens) {
  const size_t n = (size_t)d->depth + 1;
  double *min = NULL;
  TAKE(r, &min, n);
  for (size_t i = 0; i < n; i++) min[i] = d->bound[i] < tokens ? d->bound[i] : tokens;
  attend_plot_series seen[] = {{"(k+1)ⁿ, or all tokens", n, d->n, min, .dashed = 1},
                               {"trained", n, d->n, d[0].seen, .points = 1},
                               {"with argmax", n, d->n, d[1].seen, .points = 1},
                               {"untrained", n, d->n, d[2].seen, .points = 1}};
  attend_plot_series mass[] = {{"weight, trained", n, d->n, d[0].mass, .points = 1, .colour = 2},
                               {"tokens, trained", n, d->n, d[0].fair, .dashed = 1, .colour = 1},
                               {"weight, untrained", n, d->n, d[2].mass, .points = 1, .colour = 4},
                               {"tokens, untrained", n, d->n, d[2].fair, .dashed = 1, .colour = 3}};
  attend_plot_panel panels[] = {
      study_lines("Tokens in the field of the heaviest keys", study_axis("layers n"),
                  study_log("tokens, mean"), 4, seen),
      study_lines("Soft weight, and tokens, in the field", study_axis("layers n"),
                  study_range("share", 0, 1), 4, mass)};
  return study_plot(r, "receptive-field-model", 2, panels);
}

static attend_status receptive_field_of_model(study_run *r) {
  traced_text text;
  depths *d = NULL;
  TRY(study_heading(r, "In a model"));
  if (!*study_text(r, "model"))
    return study_say(r, "No model was named: `--model attend:gutenberg` counts in one.");
  TRY(traced_text_read(r, study_text(r, "model"), study_text(r, "text"), study_count(r, "length"),
                       &text));
  TAKE(r, &d, CASES);
  for (int i = 0; i < CASES; i++) TRY(follow_case(r, i, &text, &d[i]));
  const int L = d->depth;
  TRY(study_say(
      r,
      "A model of family %s with %d layers of %d heads reads %s of %d tokens. Each head's heaviest "
      "key counts alone. By $(k+1)ⁿ$ a node could see %.3g tokens after %d layers. Counted: %.1f "
      "after one layer, %.1f after all; untrained %.1f and %.1f. Fewer than $(k+1)ⁿ$ means that "
      "paths meet: the heaviest key is the token itself for %.0f %% of all heads and nodes, the "
      "token before for %.0f %%, the first for %.0f %% (untrained %.0f, %.0f and %.0f %%).",
      text.family, L, d->heads,
      text.drawn ? "random tokens, for want of a tokenizer, a text" : "a text", text.n, d->bound[L],
      L, d->seen[1], d->seen[L], d[2].seen[1], d[2].seen[L], 100 * d->itself, 100 * d->before,
      100 * d->first, 100 * d[2].itself, 100 * d[2].before, 100 * d[2].first));
  TRY(say_depths(r, d, &text));
  TRY(claim_depths(r, d));
  TRY(plot_depths(r, d, text.n));
  return study_say(
      r,
      "Softmax is not argmax. Rollout multiplies the weights along all paths, half of each layer "
      "going by the residual connection: after %d layers the field of the heaviest keys holds %.0f "
      "%% of the weight, and has %.0f %% of the tokens that can be seen; untrained, %.0f %% of the "
      "weight in %.0f %% of the tokens. After one layer it holds %.0f %% (untrained %.0f %%), of "
      "which 50 %% is the residual connection alone. A field says where values come from; keys "
      "that were compared and lost had their say too.",
      L, 100 * d->mass[L], 100 * d->fair[L], 100 * d[2].mass[L], 100 * d[2].fair[L],
      100 * d->mass[1], 100 * d[2].mass[1]);
}

static attend_status run(study_run *r) {
  const int T = study_count(r, "tokens");
  TRY(study_say(
      r,
      "If softmax is nearly argmax, a head gives a node the value of one other. With the residual "
      "connection the node of the next layer depends on itself and on one node for each of k "
      "heads: a branching factor of k + 1, hence $(k+1)ⁿ$ inputs after n layers, 2ⁿ with one head "
      "and 3ⁿ with two. Here argmax attention runs over states that begin as the identity: element "
      "j of row t counts the paths from input j to node t. If head h of layer l looks h·(k+1)ˡ⁻¹ "
      "tokens back, the paths are the digits of the distance in base k + 1, no two of them meet, "
      "and the number is reached exactly."));
  TRY(chosen(r, T));
  TRY(study_heading(r, "Paths that meet"));
  TRY(study_say(r,
                "The number of paths is always $(k+1)ⁿ$; inputs are fewer where paths meet. If "
                "heads look anywhere with equal chance, a pick is not among the m tokens found so "
                "far with probability $1 - m/T$. Layer by layer this is a Markov chain, whose mean "
                "stands beside what was counted."));
  TRY(chance(r, T));
  return receptive_field_of_model(r);
}

const study_topic study_receptive_field = {
    {.name = "receptive-field",
     .title = "How many inputs a node sees",
     .question = "How large is the receptive field of a node after n layers with k heads, and how "
                 "large in a model?",
     .answers = "worksheet 2(a)",
     .settings = settings},
    run};
