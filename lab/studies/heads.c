/* What the heads of a model do, trained and untrained. */
#include "attend/train.h"
#include "studies/heads.h"

enum { WEIGHTS = 2 };

static const char paragraph[] =
    "The dog ran after the car until the car was gone. Then the dog came home and lay down by the "
    "door. \"Where have you been?\" said Mary, for Mary had looked for him all day. The dog did "
    "not say. He had seen the sea, and he had seen the great ships that lay upon the sea; but a "
    "dog does not tell what he has seen. Mary gave him some water, and when he had drunk the water "
    "he slept. In the night he ran again, in his sleep, after the car, and the car did not get "
    "away.";

static const attend_setting settings[] = {
    {"model", "attend:gutenberg", NULL, "a model", ATTEND_SETTING_MODEL, 0, 0, 0},
    {"run", "", NULL, "a training run, instead of the model: every checkpoint that it saved",
     ATTEND_SETTING_TEXT, 0, 0, 0},
    {"beside", "", NULL, "more models, commas between: their heads counted on the same text",
     ATTEND_SETTING_MODEL, 3, 0, 0},
    {"text", paragraph, NULL, "what it reads", ATTEND_SETTING_TEXT, 0, 0, 0},
    {"favour", "3", NULL, "times as much as equal weights that a head must favour something", REAL,
     1, 1, 1000},
    {"length", "256", "48", "tokens at most", WHOLE, 1, 4, 8192},
    {0}};

static const char *const names[WEIGHTS] = {"trained", "untrained"};

/* ---- looking ----------------------------------------------------------------------- */

/* Keys [from, to) that row i sees, and how many of them are of each kind: where
 * weights are equal, a score is the mean of that over to - from. */
static void count_keys(const traced_text *t, int i, int from, int to, double *of) {
  for (int j = from; j < to; j++) {
    of[ATTEND_PATTERN_SEPARATOR] += t->separator[j];
    if (j == i) continue;
    of[ATTEND_PATTERN_SAME] += t->ids[j] == t->ids[i];
    of[ATTEND_PATTERN_INDUCTION] += j > 0 && j - 1 < i && t->ids[j - 1] == t->ids[i];
  }
  if (to - from < 2) return; /* it has no choice */
  of[ATTEND_PATTERN_PREVIOUS] = i > from;
  of[ATTEND_PATTERN_NEXT] = i + 1 < to;
  of[ATTEND_PATTERN_FIRST] = from == 0 && i > 0;
  of[ATTEND_PATTERN_SELF] = 1;
  of[ATTEND_PATTERN_BROAD] = to - from;
}

static void score_even(const traced_text *t, survey *s) {
  double sum[ATTEND_HEAD_PATTERNS] = {0}, n[ATTEND_HEAD_PATTERNS] = {0};
  for (int i = 0; i < t->n; i++) {
    const int window = s->shape.window;
    const int from = window && i >= window ? i - window + 1 : 0;
    const int to = s->shape.causal ? i + 1 : t->n;
    double of[ATTEND_HEAD_PATTERNS] = {0};
    count_keys(t, i, from, to, of);
    for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) {
      sum[k] += of[k] / (to - from);
      n[k] += of[k] > 0;
    }
  }
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) s->even[k] = n[k] > 0 ? sum[k] / n[k] : NAN;
}

/* What a head favours most: its score over that of equal weights, at least the
 * setting `favour`; NOTHING if there is none. */
static int favours(const survey *s, const attend_pattern_scores *p, double min) {
  int best = NOTHING;
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) {
    if (k == ATTEND_PATTERN_BROAD || k == ATTEND_PATTERN_POSITIONAL) continue;
    const double times = p->score[k] / s->even[k];
    if (!(times >= min)) continue;
    min = times;
    best = k;
  }
  return best;
}

/* Weight on keys after the row. */
static attend_status look_ahead(study_run *r, const traced *w, attend_head_id at, double *max) {
  const int T = w->shape.rows;
  float *row = NULL;
  double sum = 0;
  TAKE(r, &row, (size_t)w->shape.keys);
  for (int i = 0; i < T; i++) {
    TRY(attend_lens_block(w->lens, at, i, 1, 0, w->shape.keys, row));
    for (int j = i + 1; j < w->shape.keys; j++) sum += (double)row[j] / T;
  }
  if (sum > *max) *max = sum;
  return ATTEND_OK;
}

static attend_status look(study_run *r, const traced *w, const traced_text *t, survey *s) {
  const attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), .row_ids = t->ids,
                                    .key_ids = t->ids,
                                    .separator = t->separators ? t->separator : NULL};
  *s = (survey){.shape = w->shape, .heads = w->shape.layers * w->shape.heads};
  TAKE(r, &s->pattern, (size_t)s->heads);
  for (int h = 0; h < s->heads; h++) {
    const attend_head_id at = {w->role, h / w->shape.heads, h % w->shape.heads};
    attend_pattern_scores *p = &s->pattern[h];
    TRY(attend_lens_pattern(w->lens, at, &o, p));
    TRY(look_ahead(r, w, at, &s->forward));
    s->count[p->pattern < 0 ? NOTHING : p->pattern]++;
    s->broad += p->score[ATTEND_PATTERN_BROAD] / s->heads;
    TRY(study_step(r, (double)h / s->heads));
  }
  score_even(t, s);
  for (int h = 0; h < s->heads; h++)
    s->favoured[favours(s, &s->pattern[h], study_number(r, "favour"))]++;
  return ATTEND_OK;
}

attend_status survey_of(study_run *r, const char *path, traced_weights weights,
                        const traced_text *t, survey *s) {
  traced w;
  attend_status status = traced_open(r, path, weights, NULL, t, &w);
  if (!status) status = look(r, &w, t, s);
  traced_close(&w);
  return status;
}

/* ---- saying ------------------------------------------------------------------------- */

/* "4 previous, 2 first and 18 none". */
static const char *counts_of(study_run *r, const int *count) {
  const char *text = "";
  int kinds = 0, said = 0;
  for (int k = 0; k < KINDS; k++) kinds += count[k] > 0;
  for (int k = 0; k < KINDS; k++) {
    if (!count[k]) continue;
    const char *join = !said ? "" : said + 1 == kinds ? " and " : ", ";
    text = study_format(r, "%s%s%d %s", text ? text : "", join, count[k],
                        k == NOTHING ? "none" : attend_head_pattern_name((attend_head_pattern)k));
    said++;
  }
  return text ? text : "";
}

static const attend_study_column layer_columns[] = {{"weights", "weights", TEXT},
                                                    {"layer", "layer", COUNT},
                                                    {"previous", "prev.", COUNT},
                                                    {"next", "next", COUNT},
                                                    {"first", "first", COUNT},
                                                    {"separator", "sep.", COUNT},
                                                    {"same", "same", COUNT},
                                                    {"self", "self", COUNT},
                                                    {"broad", "broad", COUNT},
                                                    {"positional", "pos.", COUNT},
                                                    {"induction", "ind.", COUNT},
                                                    {"none", "none", COUNT},
                                                    {0}};

static attend_status say_layers(study_run *r, const survey *s) {
  table_store *t;
  TRY(study_table(
      r, &t, "layers", layer_columns,
      "Heads of each layer by what stands out: where most weight goes, else how it spreads"));
  for (int w = 0; w < WEIGHTS; w++)
    for (int l = 0; l < s[w].shape.layers; l++) {
      int count[KINDS] = {0};
      for (int h = 0; h < s[w].shape.heads; h++) {
        const int does = s[w].pattern[l * s[w].shape.heads + h].pattern;
        count[does < 0 ? NOTHING : does]++;
      }
      TRY(study_word(t, names[w]));
      TRY(study_cell(t, l));
      for (int k = 0; k < KINDS; k++) TRY(study_cell(t, count[k]));
    }
  return ATTEND_OK;
}

/* The head that scores most. */
static int strongest(const survey *s, int doing) {
  int best = -1;
  for (int h = 0; h < s->heads; h++) {
    const double x = s->pattern[h].score[doing];
    if (x >= 0 && (best < 0 || x > s->pattern[best].score[doing])) best = h;
  }
  return best;
}

static const attend_study_column strongest_columns[] = {{"does", "what", TEXT},
                                                        {"about", "score", TEXT},
                                                        {"even", "of equal weights", NUMBER},
                                                        {"trained", "most, trained", NUMBER},
                                                        {"layer", "layer", COUNT},
                                                        {"head", "head", COUNT},
                                                        {"untrained", "most, untrained", NUMBER},
                                                        {0}};

static attend_status say_strongest(study_run *r, const survey *s) {
  table_store *t;
  TRY(study_table(r, &t, "strongest", strongest_columns,
                  "The head that does most of each, and what equal weights would score"));
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) {
    const int best = strongest(&s[0], k), other = strongest(&s[1], k);
    if (best < 0) continue; /* does not apply to this text */
    TRY(study_row(t, attend_head_pattern_name((attend_head_pattern)k),
                  attend_head_pattern_about((attend_head_pattern)k), s->even[k],
                  s[0].pattern[best].score[k], (double)(best / s->shape.heads),
                  (double)(best % s->shape.heads), other < 0 ? NAN : s[1].pattern[other].score[k]));
  }
  return ATTEND_OK;
}

static attend_plot_panel bars(const char *title, const char *const *kinds,
                              const attend_plot_series *series) {
  return (attend_plot_panel){.kind = ATTEND_PLOT_BARS,
                             .title = title,
                             .y = {.label = "heads", .zero = 1},
                             .columns = KINDS,
                             .names = kinds,
                             .count = WEIGHTS,
                             .series = series};
}

static attend_status plot_counts(study_run *r, const survey *s) {
  const char *kinds[KINDS];
  double count[2 * WEIGHTS][KINDS];
  attend_plot_series series[2 * WEIGHTS];
  for (int k = 0; k < KINDS; k++) {
    kinds[k] = k == NOTHING ? "none" : attend_head_pattern_name((attend_head_pattern)k);
    for (int w = 0; w < WEIGHTS; w++) {
      count[w][k] = s[w].count[k];
      count[WEIGHTS + w][k] = s[w].favoured[k];
    }
  }
  for (int i = 0; i < 2 * WEIGHTS; i++)
    series[i] = (attend_plot_series){.name = names[i % WEIGHTS], .count = KINDS, .y = count[i]};
  attend_plot_panel panels[] = {
      bars(study_format(r, "What stands out in %d heads", s->heads), kinds, series),
      bars(study_format(r, "What they favour most, %g times or more", study_number(r, "favour")),
           kinds, series + WEIGHTS)};
  return study_figure(r, "heads-counts", &(attend_plot){.count = 2, .panels = panels});
}

static attend_status heat(study_run *r, const survey *s, attend_head_pattern doing, int w,
                          attend_plot_panel *panel) {
  double *cells = NULL, max = 0;
  TAKE(r, &cells, (size_t)s->heads);
  for (int i = 0; i < WEIGHTS; i++) {
    const int best = strongest(&s[i], doing);
    const double x = best < 0 ? 0 : s[i].pattern[best].score[doing];
    if (x > max) max = x;
  }
  for (int h = 0; h < s->heads; h++) cells[h] = s[w].pattern[h].score[doing];
  *panel = study_heat(study_format(r, "%s, %s", attend_head_pattern_name(doing), names[w]), "head",
                      "layer", (size_t)s->shape.layers, (size_t)s->shape.heads, cells,
                      study_range(NULL, 0, max > 0 ? max : 1));
  return ATTEND_OK;
}

/* Of what heads favour, that which most of them do, `but` left out. */
static attend_head_pattern commonest(const survey *s, int but) {
  int best = but == ATTEND_PATTERN_PREVIOUS ? ATTEND_PATTERN_FIRST : ATTEND_PATTERN_PREVIOUS;
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++)
    if (k != but && s->favoured[k] > s->favoured[best]) best = k;
  return (attend_head_pattern)best;
}

enum { SHOWN = 3 };

static attend_status plot_heads(study_run *r, const survey *s) {
  const attend_head_pattern one = commonest(s, -1), two = commonest(s, (int)one);
  const attend_head_pattern shown[SHOWN] = {ATTEND_PATTERN_BROAD, one, two};
  attend_plot_panel panels[WEIGHTS * SHOWN];
  for (int w = 0; w < WEIGHTS; w++)
    for (int k = 0; k < SHOWN; k++) TRY(heat(r, s, shown[k], w, &panels[w * SHOWN + k]));
  return study_figure(r, "heads-map",
                      &(attend_plot){.count = WEIGHTS * SHOWN, .across = SHOWN, .panels = panels});
}

/* ---- what must be so ------------------------------------------------------------------ */

/* Among few tokens equal weights are large enough to stand out. */
static bool is_long(const survey *s) {
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++)
    if (k != ATTEND_PATTERN_BROAD && s->even[k] >= 0.3) return false;
  return true;
}

/* Untrained weights are small, so that scores are near 0 and weights near equal;
 * T5 draws larger ones. */
static attend_status claim_even(study_run *r, const survey *s) {
  if (is_long(s))
    TRY(study_claim(r, (double)s->count[ATTEND_PATTERN_BROAD] / s->heads, 1, 0,
                    "untrained-broad: share of untrained heads that are broad"));
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++) {
    const char *name = attend_head_pattern_name((attend_head_pattern)k);
    double mean = 0;
    if (!(s->even[k] > 0)) continue; /* does not apply, or has no formula */
    for (int h = 0; h < s->heads; h++) mean += s->pattern[h].score[k] / s->heads;
    TRY(study_claim(r, mean, s->even[k], (k == ATTEND_PATTERN_BROAD ? 0.1 : 0.25) * s->even[k],
                    "even-%s: untrained: %s, against equal weights", name, name));
  }
  return ATTEND_OK;
}

static attend_status claims(study_run *r, const traced_text *text, const survey *s) {
  if (text->position != ATTEND_POSITIONS_BUCKETS) TRY(claim_even(r, &s[1]));
  for (int w = 0; w < WEIGHTS && s->shape.causal; w++)
    TRY(study_claim(r, s[w].forward, 0, 0, "causal-%s: %s: weight on later tokens", names[w],
                    names[w]));
  return ATTEND_OK;
}

static attend_status say_all(study_run *r, const traced_text *text, const survey *s) {
  TRY(study_say(r,
                "A head's weights can be read: on which keys do they lie? A model of family %s, %d "
                "layers of %d heads, reads %s of %d tokens, once with its weights and once with "
                "weights drawn as training begins. Each head is named after what takes most of its "
                "weight (at least 0.4 of it): the token before or after, the first, separators, "
                "the same token elsewhere, itself, what followed the same token before; if nothing "
                "does, it is broad if its entropy is at least 0.9 of what equal weights have.",
                text->family, s->shape.layers, s->shape.heads,
                text->drawn ? "random tokens, for want of a tokenizer, a text" : "a text",
                text->n));
  TRY(say_layers(r, s));
  TRY(plot_counts(r, s));
  TRY(study_say(
      r,
      "Trained, what stands out: %s. Untrained: %s. Less than 0.4 of the weight may still be many "
      "times what equal weights would give. What heads favour most, at least %g times that: %s; "
      "untrained: %s. Heads differ because each has queries, keys and values of its own, and all "
      "of them together make the output, so that it pays to look at different things (Fall 2025 "
      "5(c)). "
      "Untrained, scores are small numbers that mean nothing, and every word attends to all about "
      "equally (Fall 2025 5(d)): entropy is %.3f of the most there can be, against %.3f trained.",
      counts_of(r, s[0].count), counts_of(r, s[1].count), study_number(r, "favour"),
      counts_of(r, s[0].favoured), counts_of(r, s[1].favoured), s[1].broad, s[0].broad));
  TRY(say_strongest(r, s));
  TRY(plot_heads(r, s));
  return study_say(
      r,
      s->shape.causal
          ? "This model is causal, as GPT is: the weight on later tokens is exactly 0, no head can "
            "be of the kind `next`, and early tokens are seen by all that follow. In a "
            "bidirectional model, as BERT is, a head may look at the next token as well as at the "
            "one before: run this study with `--model` and such a folder."
          : "This model is bidirectional, as BERT is: heads may look at later tokens, and the head "
            "that does so most puts %.2f of its weight there. In a causal model, as GPT is, that "
            "is exactly 0 and no head can be of the kind `next`.",
      s[0].forward);
}

/* ---- which weights ---------------------------------------------------------------------- */

typedef struct {
  const char *path; /* of the trained weights: the model, or the run's last checkpoint */
  int n;
  head_case *cases; /* [n] */
} subject;

static attend_status checkpoints_of(study_run *r, attend_training_run *run, subject *s) {
  char path[ATTEND_RUN_PATH];
  const int *steps = attend_training_run_steps(run, &s->n);
  if (!s->n) return study_fail(r, ATTEND_INVALID, "%s has no checkpoint", study_text(r, "run"));
  TAKE(r, &s->cases, (size_t)s->n);
  for (int i = 0; i < s->n; i++) {
    TRY(attend_training_run_folder(run, steps[i], path));
    s->cases[i] = (head_case){.name = study_format(r, "step %d", steps[i]),
                              .path = study_format(r, "%s", path),
                              .step = steps[i]};
  }
  s->path = s->cases[s->n - 1].path;
  return study_status(r);
}

static attend_status subject_of(study_run *r, subject *s) {
  const char *folder = study_text(r, "run");
  attend_training_run *run;
  *s = (subject){.path = study_text(r, "model"), .n = WEIGHTS};
  if (*folder) {
    TRY(attend_training_run_open(r->ctx, folder, &run));
    attend_status status = checkpoints_of(r, run, s);
    attend_training_run_free(run);
    return status;
  }
  if (!*s->path)
    return study_fail(r, ATTEND_INVALID, "name a model: a folder with config.json and weights");
  TAKE(r, &s->cases, WEIGHTS);
  for (int w = 0; w < WEIGHTS; w++)
    s->cases[w] = (head_case){names[w], s->path, w == TRACED_UNTRAINED, -1};
  return ATTEND_OK;
}

static attend_status run(study_run *r) {
  traced_text text;
  survey s[WEIGHTS];
  subject of;
  TRY(subject_of(r, &of));
  TRY(traced_text_read(r, of.path, study_text(r, "text"), study_count(r, "length"), &text));
  TRY(survey_of(r, of.path, TRACED_TRAINED, &text, &s[0]));
  TRY(survey_of(r, of.path, TRACED_UNTRAINED, &text, &s[1]));
  TRY(claims(r, &text, s));
  TRY(say_all(r, &text, s));
  const attend_role role = text.parts & ATTEND_ENCODER ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF;
  TRY(study_heads_beside(r, of.path, &s[0]));
  return study_head_gradients(r, of.n, of.cases, &text, &s[0].shape, role);
}

const study_topic study_heads = {
    {.name = "heads",
     .title = "What heads do",
     .question = "What do the heads of a model look at, and what did training change?",
     .answers = "Fall 2025 5(a)-(d), Fall 2022 2(a)-(d)",
     .settings = settings},
    run};
