/* How many inputs a node sees: (k + 1)^n with k argmax heads in n layers.
 *
 * Here heads look where they are told: so that no two ways meet, and at random. Of
 * models: receptive_field.h.
 *
 * What a node sees is computed by the attention itself. The states begin as the
 * identity, row t holding 1 at t; a layer adds to each row the rows that its
 * heads give. Element j of row t is then the number of ways from input j to node
 * t, and the inputs that are seen are those that are not 0.
 */
#include "studies/receptive_field.h"

enum { PICKS = 1, CODES = 90, MOST_HEADS = 8, WIDTH = 32 };

static const char paragraph[] =
    "It was the best hour of the day, and the old man went down to the sea. "
    "The "
    "sea was grey, and the boats of the old harbour lay still upon it. He had "
    "been a sailor, as his father had been a sailor before him, and he knew "
    "the "
    "sea as other men know their own house. \"It will rain before night,\" he "
    "said to the boy who stood beside him. The boy looked up at the sky, but "
    "he "
    "saw no cloud. \"How do you know it will rain?\" he asked. The old man did "
    "not answer at once. He looked out over the water, where a white bird "
    "turned "
    "and fell, and turned again.";

static const attend_setting settings[] = {
    {"heads", "1,2,3", "1,2", "heads k of a layer", ATTEND_SETTING_WHOLE,
     MOST_HEADS, 1, 16},
    {"layers", "4", "3", "layers n", ATTEND_SETTING_WHOLE, 1, 1, 8},
    {"tokens", "320", "96", "tokens of heads that look where they are told",
     ATTEND_SETTING_WHOLE, 1, 8, 2048},
    {"draws", "20", "6", "random networks for each k", ATTEND_SETTING_WHOLE, 1,
     2, 1000},
    {"model", "attend:gutenberg", NULL, "a model; empty: none",
     ATTEND_SETTING_MODEL, 0, 0, 0},
    {"length", "128", "32", "tokens that the model reads at most",
     ATTEND_SETTING_WHOLE, 1, 2, 4096},
    {"text", paragraph, NULL, "what the model reads", ATTEND_SETTING_TEXT, 0, 0,
     0},
    {0}};

/* ---- heads that look where they are told ---------------------------------------------- */

typedef struct {
  int k, n, T;
  attend_plan *plan;
  float *codes;      /* [T][WIDTH] keys: at random, all of one length */
  float *q;          /* [k][T][WIDTH] */
  float *ways, *got; /* [T][T], [k][T][T] */
} network;

/* The token that head h of a layer looks at from t. */
typedef int (*pick)(const network *w, int layer, int head, int t,
                    const uint32_t *random);

/* Backwards by the digits of base k + 1: all ways end at different tokens. */
static int by_digits(const network *w, int layer, int head, int t,
                     const uint32_t *random) {
  (void)random;
  int back = head + 1;
  while (layer--) back *= w->k + 1;
  return ((t - back) % w->T + w->T) % w->T;
}

static int by_chance(const network *w, int layer, int head, int t,
                     const uint32_t *random) {
  (void)layer;
  const uint64_t u = random[head * w->T + t];
  return (int)(u * (uint64_t)w->T >> 32);
}

static attend_status make_network(study_run *r, int k, int T, network *w) {
  *w = (network){.k = k, .n = study_count(r, "layers"), .T = T};
  const size_t n = (size_t)T, heads = (size_t)k;
  attend_desc d = {.form = {.kind = ATTEND_ARGMAX},
                   .heads = k,
                   .kv_heads = 1,
                   .q_len = T,
                   .kv_len = T,
                   .dim = WIDTH,
                   .dim_v = T};
  TAKE(r, &w->codes, n * WIDTH);
  TAKE(r, &w->q, heads * n * WIDTH);
  TAKE(r, &w->ways, n * n);
  TAKE(r, &w->got, heads * n * n);
  study_normal(r, CODES, 0, n * WIDTH, w->codes);
  attend_rms_norm(r->ctx, T, WIDTH, w->codes, WIDTH, NULL, 0, w->codes, WIDTH);
  return attend_plan_create(r->ctx, &d, &w->plan);
}

/* A query is the code of the token that it wants: of vectors of one length it
 * has the largest product with itself. */
static attend_status layer(network *w, int at, pick wants,
                           const uint32_t *random) {
  const size_t T = (size_t)w->T;
  for (int h = 0; h < w->k; h++)
    for (int t = 0; t < w->T; t++)
      memcpy(w->q + ((size_t)h * T + (size_t)t) * WIDTH,
             w->codes + (size_t)wants(w, at, h, t, random) * WIDTH,
             WIDTH * sizeof *w->q);
  TRY(attend_forward(w->plan, attend_bhtd(w->q), attend_bhtd(w->codes),
                     attend_bhtd(w->ways), attend_bhtd(w->got), NULL));
  for (int h = 0; h < w->k; h++)
    for (size_t i = 0; i < T * T; i++)
      w->ways[i] += w->got[(size_t)h * T * T + i];
  return ATTEND_OK;
}

static void begin(network *w) {
  const size_t T = (size_t)w->T;
  memset(w->ways, 0, T * T * sizeof *w->ways);
  for (size_t t = 0; t < T; t++) w->ways[t * (T + 1)] = 1;
}

typedef struct {
  double ways; /* that lead to a node, the same for all, else NaN */
  double least, most, mean; /* inputs that nodes see */
} field;

static field field_of(const network *w) {
  field f = {.least = INFINITY};
  for (int t = 0; t < w->T; t++) {
    const float *row = w->ways + (size_t)t * (size_t)w->T;
    double seen = 0, ways = 0;
    for (int j = 0; j < w->T; j++) {
      seen += row[j] > 0;
      ways += (double)row[j];
    }
    f.ways = t && ways != f.ways ? NAN : ways;
    f.mean += seen;
    if (seen < f.least) f.least = seen;
    if (seen > f.most) f.most = seen;
  }
  f.mean /= w->T;
  return f;
}

static double bound_of(int k, int n) { return pow(k + 1, n); }

/* ---- no two ways meet ------------------------------------------------------------------ */

static const attend_study_column told_columns[] = {
    {"k", "heads k", ATTEND_CELL_COUNT},
    {"n", "layers n", ATTEND_CELL_COUNT},
    {"predicted", "(k+1)ⁿ", ATTEND_CELL_COUNT},
    {"ways", "ways to a node", ATTEND_CELL_COUNT},
    {"seen", "inputs it sees", ATTEND_CELL_COUNT},
    {0}};

static attend_status told_layers(study_run *r, network *w, table_store *t) {
  begin(w);
  for (int n = 1; n <= w->n && bound_of(w->k, n) <= w->T; n++) {
    const double bound = bound_of(w->k, n);
    TRY(layer(w, n - 1, by_digits, NULL));
    const field f = field_of(w);
    TRY(study_row(t, 5, (double)w->k, (double)n, bound, f.ways, f.mean));
    TRY(study_claim(r, study_format(r, "field-k%d-n%d", w->k, n),
                    study_format(r, "inputs seen: k = %d, n = %d", w->k, n),
                    f.least == f.most ? f.mean : NAN, bound, 0));
    TRY(study_claim(r, study_format(r, "ways-k%d-n%d", w->k, n),
                    study_format(r, "ways to a node: k = %d, n = %d", w->k, n),
                    f.ways, bound, 0));
  }
  return ATTEND_OK;
}

static attend_status told(study_run *r, int T) {
  size_t count;
  const double *heads = study_list(r, "heads", &count);
  table_store *t;
  TRY(study_table(r, "told",
                  study_format(r,
                               "Head h of layer l looks h·(k+1)ˡ⁻¹ tokens "
                               "back, %d tokens in a ring",
                               T),
                  told_columns, &t));
  for (size_t i = 0; i < count; i++) {
    network w = {0};
    attend_status status = make_network(r, (int)heads[i], T, &w);
    if (!status) status = told_layers(r, &w, t);
    attend_plan_free(w.plan);
    TRY(status);
  }
  return ATTEND_OK;
}

/* ---- ways that meet by chance ------------------------------------------------------------- */

/* Law of the number of inputs seen, a Markov chain over layers: from m nodes go
 * k m picks, and each finds one that is not among the m found so far with
 * probability 1 - m/T. law [T + 1], changed to that of one layer more. */
static void one_layer_more(int k, int T, double *law, double *next,
                           double *now) {
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
    {"k", "heads k", ATTEND_CELL_COUNT},
    {"n", "layers n", ATTEND_CELL_COUNT},
    {"bound", "(k+1)ⁿ", ATTEND_CELL_COUNT},
    {"predicted", "expected", ATTEND_CELL_NUMBER},
    {"mean", "mean seen", ATTEND_CELL_NUMBER},
    {"least", "least", ATTEND_CELL_COUNT},
    {"most", "most", ATTEND_CELL_COUNT},
    {0}};

enum { MOST_LAYERS = 8 };

typedef struct {
  double n[MOST_LAYERS], bound[MOST_LAYERS], expected[MOST_LAYERS],
      error[MOST_LAYERS], mean[MOST_LAYERS], least[MOST_LAYERS],
      most[MOST_LAYERS];
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
    f->least[i] = INFINITY;
  }
  return ATTEND_OK;
}

static attend_status draw(study_run *r, network *w, int which, uint32_t *random,
                          fields *f) {
  const int draws = study_count(r, "draws"), picks = w->k * w->T;
  begin(w);
  for (int i = 0; i < w->n; i++) {
    const attend_random stream = {r->seed,
                                  PICKS + 100u * (uint64_t)w->k + (uint64_t)i};
    const uint64_t first = (uint64_t)which * (uint64_t)((picks + 3) / 4);
    for (int p = 0; p < picks; p += 4)
      attend_random_block(stream, first + (uint64_t)(p / 4), random + p);
    TRY(layer(w, i, by_chance, random));
    const field one = field_of(w);
    f->mean[i] += one.mean / draws;
    if (one.least < f->least[i]) f->least[i] = one.least;
    if (one.most > f->most[i]) f->most[i] = one.most;
  }
  return ATTEND_OK;
}

static attend_status say_chance(study_run *r, const network *w, const fields *f,
                                table_store *t) {
  for (int i = 0; i < w->n; i++) {
    TRY(study_row(t, 7, (double)w->k, f->n[i], f->bound[i], f->expected[i],
                  f->mean[i], f->least[i], f->most[i]));
    TRY(study_estimate(
        r, study_format(r, "chance-k%d-n%d", w->k, i + 1),
        study_format(r, "inputs seen, picks at random: k = %d, n = %d", w->k,
                     i + 1),
        f->mean[i], f->expected[i], f->error[i]));
    TRY(study_claim(
        r, study_format(r, "bound-k%d-n%d", w->k, i + 1),
        study_format(r, "picks at random exceed (k+1)^n: k = %d, n = %d", w->k,
                     i + 1),
        f->most[i] > f->bound[i], 0, 0));
  }
  return ATTEND_OK;
}

static attend_status chance_of(study_run *r, network *w, fields *f,
                               table_store *t) {
  uint32_t *random = NULL;
  TAKE(r, &random, (size_t)(w->k * w->T + 4));
  TRY(expect(r, w, f));
  for (int i = 0; i < study_count(r, "draws"); i++) {
    TRY(draw(r, w, i, random, f));
    TRY(study_step(r, 0.2));
  }
  return say_chance(r, w, f, t);
}

static attend_status plot_chance(study_run *r, const fields *f, size_t count,
                                 int T) {
  const double *heads = study_list(r, "heads", &count);
  const size_t n = (size_t)study_count(r, "layers");
  attend_plot_series s[3 * MOST_HEADS];
  for (size_t i = 0; i < count; i++) {
    const int colour = (int)i + 1;
    const bool last = i + 1 == count; /* named once */
    s[i] = (attend_plot_series){.name = last ? "(k+1)ⁿ, dashed" : NULL,
                                .count = n,
                                .x = f[i].n,
                                .y = f[i].bound,
                                .dashed = 1,
                                .colour = colour};
    s[count + i] = (attend_plot_series){
        .name = study_format(r, "expected, k = %g", heads[i]),
        .count = n,
        .x = f[i].n,
        .y = f[i].expected,
        .colour = colour};
    s[2 * count + i] = (attend_plot_series){.name = last ? "measured" : NULL,
                                            .count = n,
                                            .x = f[i].n,
                                            .y = f[i].mean,
                                            .points = 2,
                                            .colour = colour};
  }
  attend_plot_panel panel = {
      .title = study_format(r, "Inputs that a node sees, %d tokens", T),
      .x = {.label = "layers n"},
      .y = {.label = "inputs", .log = 1},
      .key = ATTEND_KEY_ABOVE,
      .count = 3 * count,
      .series = s};
  return study_figure(r, "receptive-field-chance",
                      &(attend_plot){.count = 1, .panels = &panel});
}

static attend_status chance(study_run *r, int T) {
  size_t count;
  const double *heads = study_list(r, "heads", &count);
  fields *f = NULL;
  table_store *t;
  TAKE(r, &f, MOST_HEADS);
  TRY(study_table(r, "chance",
                  study_format(r,
                               "Heads that look anywhere among %d tokens, %d "
                               "networks",
                               T, study_count(r, "draws")),
                  chance_columns, &t));
  for (size_t i = 0; i < count; i++) {
    network w = {0};
    attend_status status = make_network(r, (int)heads[i], T, &w);
    if (!status) status = chance_of(r, &w, &f[i], t);
    attend_plan_free(w.plan);
    TRY(status);
  }
  return plot_chance(r, f, count, T);
}

static attend_status run(study_run *r) {
  const int T = study_count(r, "tokens");
  TRY(study_say(
      r,
      "If softmax is nearly argmax, a head gives a node the value of one "
      "other. With the residual connection the node of the next layer "
      "depends on itself and on one node for each of k heads: a branching "
      "factor of k + 1, hence `(k+1)^n` inputs after n layers, 2ⁿ with one "
      "head and 3ⁿ with two. Here argmax attention runs over states that "
      "begin as the identity: element j of row t counts the ways from input "
      "j to node t. If head h of layer l looks h·(k+1)ˡ⁻¹ tokens back, the "
      "ways are the digits of the distance in base k + 1, no two of them "
      "meet, and the number is reached exactly."));
  TRY(told(r, T));
  TRY(study_heading(r, "Ways that meet"));
  TRY(study_say(
      r,
      "The number of ways is always `(k+1)^n`; inputs are fewer where ways "
      "meet. If heads look anywhere with equal chance, a pick is not among "
      "the m tokens found so far with probability `1 - m/T`. Layer by layer "
      "this is a Markov chain, whose mean stands beside what was counted."));
  TRY(chance(r, T));
  return receptive_field_of_model(r);
}

const study_topic study_receptive_field = {
    {.name = "receptive-field",
     .title = "How many inputs a node sees",
     .question = "How large is the receptive field of a node after n layers "
                 "with k heads, and how large in a model?",
     .answers = "004 2(a)",
     .settings = settings},
    run};
