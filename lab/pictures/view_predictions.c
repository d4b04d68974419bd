/* The views intervene and attribute as pictures and in the terminal. */
#include <math.h>
#include <stdio.h>

#include "pictures/painter.h"

enum { ANSWER = 2 * ATTEND_VIEWER_TOKEN + 32, WORDS = 480 };

typedef struct {
  painter *p;
  attend_viewer_effect e;
  char answer[ANSWER]; /* “The”, or “he” minus “she”, without the outer quotes */
  char position[16];
  picture_prediction_data d;
} prediction;

static const char *answer_label(painter *p, int32_t id) {
  return picture_spelled(label_of(p, p->s.run->c.model, id));
}

static const attend_viewer_side *head_side(const painter *p) {
  return &p->s.run->side[p->s.run->side[1].n > 0];
}

static const char *query_label(painter *p, int position) {
  return answer_label(p, head_side(p)->ids[position]);
}

static bool get_effect(prediction *x) {
  painter *p = x->p;
  const attend_viewer_run *run = p->s.run, *before = p->s.before ? p->s.before : run;
  const attend_target target = view_target(p->s.state);
  if (!computed(p, attend_viewer_get_effect(p->s.viewer, run, before, &target, VIEW_TOP, &x->e)))
    return false;
  const attend_target *t = &x->e.target;
  snprintf(x->position, sizeof x->position, "%d", t->position);
  if (t->token < 0) return true;
  snprintf(x->answer, sizeof x->answer, "%s%s%s", answer_label(p, t->token),
           t->against >= 0 ? "” minus “" : "", t->against >= 0 ? answer_label(p, t->against) : "");
  return true;
}

static picture_facts facts_of(const prediction *x, char words[PICTURE_WORDS]) {
  return (picture_facts){.query = query_label(x->p, x->e.target.position),
                         .position = x->position,
                         .answer = x->answer,
                         .attention = picture_attention(&x->p->about, words)};
}

/* The caption of this name, as long as the painter. */
static const char *caption_of(const prediction *x, const char *name) {
  char words[PICTURE_WORDS], *text = take(x->p, PICTURE_CAPTION, 1);
  const picture_facts f = facts_of(x, words);
  return text ? picture_caption_fill(name, &f, text, PICTURE_CAPTION) : "";
}

static void add_fact(prediction *x, const char *name, double value, double before) {
  if (!isnan(value)) x->d.fact[x->d.facts++] = (picture_fact){name, value, before};
}

static bool finish(prediction *x) {
  painter *p = x->p;
  if (*p->error) return false;
  x->d.about = p->about;
  if (!p->terminal) return succeed(p, picture_prediction(&x->d, &p->look, &p->out));
  terminal_prediction(p->file, &x->d, p->terminal);
  return true;
}

/* ---- intervene --------------------------------------------------------------------------- */

static const char *metric_name(attend_metric_kind metric) {
  static const char *const names[] = {"logit", "probability", "loss", "KL divergence",
                                      "change of states"};
  return names[metric];
}

/* What was measured, for the caption. */
static const char *metric_words(prediction *x, attend_metric_kind metric, const attend_target *t) {
  char *words = take(x->p, WORDS, 1);
  if (!words) return "";
  if (metric == ATTEND_METRIC_LOGIT || metric == ATTEND_METRIC_PROBABILITY)
    snprintf(words, WORDS, "%s of “%s” at token %d", metric_name(metric),
             answer_label(x->p, t->token), t->position);
  else
    snprintf(words, WORDS, "%s, mean over the tokens", metric_name(metric));
  return words;
}

/* Streams are named by the layer that wrote them. */
static picture_tokens row_names(painter *p, const attend_viewer_sweep_options *o, int rows) {
  const char **text = take(p, (size_t)rows, sizeof *text);
  for (int i = 0; text && i < rows && o->point == ATTEND_AT_RESIDUAL; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i - 1);
    text[i] = i ? kept(p, number) : "in";
  }
  return (picture_tokens){text && text[0] ? text : NULL, rows};
}

static picture_tokens column_names(painter *p, const attend_viewer_sweep_options *o, int columns) {
  const attend_viewer_side *side = &p->s.run->side[o->role != ATTEND_ENCODER_SELF];
  const char **text = take(p, (size_t)columns, sizeof *text);
  if (o->axis == ATTEND_SWEEP_HEADS || !text) return (picture_tokens){NULL, columns};
  for (int i = 0; i < columns; i++) text[i] = label_of(p, p->s.run->c.model, side->ids[i]);
  return (picture_tokens){text, columns};
}

static bool fill_sweep(prediction *x, const attend_viewer_sweep_options *o,
                       const attend_viewer_map *map) {
  painter *p = x->p;
  const int columns = map->columns < VIEW_PLACES ? map->columns : VIEW_PLACES;
  float *cells = take(p, (size_t)(map->layers * columns), sizeof *cells);
  char *caption = take(p, PICTURE_CAPTION, 1);
  if (!cells || !caption) return false;
  for (int i = 0; i < map->layers * columns; i++)
    cells[i] = (float)(map->map[i / columns * map->columns + i % columns] - map->before);
  const picture_facts f = {.metric = metric_words(x, o->metric, &map->target)};
  x->d.map[x->d.maps++] = (picture_map_data){
      .title = "Sweep",
      .caption = picture_caption_fill("intervene.sweep", &f, caption, PICTURE_CAPTION),
      .row_axis = "layer",
      .column_axis = o->axis == ATTEND_SWEEP_HEADS ? "head" : "token",
      .what = "difference",
      .rows = row_names(p, o, map->layers),
      .columns = column_names(p, o, columns),
      .cells = cells,
      .is_signed = true};
  return !*p->error;
}

static bool add_sweep(prediction *x) {
  painter *p = x->p;
  const attend_viewer_run *run = p->s.before ? p->s.before : p->s.run;
  attend_viewer_sweep_options o = view_sweep(p->s.state, p->s.head.at.role, x->e.has_head);
  attend_viewer_map map;
  if (!computed(p, attend_viewer_sweep(p->s.viewer, run, &o, p->s.listener, &map))) return false;
  bool ok = fill_sweep(x, &o, &map);
  attend_viewer_release(p->s.viewer, map.memory);
  return ok;
}

static bool add_shifts(prediction *x) {
  painter *p = x->p;
  picture_shift *list = take(p, (size_t)x->e.n + 1, sizeof *list);
  for (int i = 0; list && i < x->e.n; i++)
    list[i] = (picture_shift){label_of(p, p->s.run->c.model, x->e.shift[i].id), x->e.shift[i].p,
                              x->e.shift[i].before};
  x->d.shift = list;
  x->d.shifts = x->e.n;
  return !*p->error;
}

static void add_measures(prediction *x) {
  const attend_viewer_effect *e = &x->e;
  char *name = take(x->p, WORDS, 1);
  if (!name) return;
  snprintf(name, WORDS, "logit of “%.300s”", x->answer);
  add_fact(x, name, e->value, e->before);
  add_fact(x, "loss of the text", e->loss, e->loss_before);
  add_fact(x, "KL divergence, nats", e->divergence, 0);
  add_fact(x, "relative change of the last hidden states", e->state, 0);
}

bool paint_intervene(painter *p) {
  prediction x = {.p = p};
  const char *changes = p->s.run->c.changes;
  char *title = take(p, WORDS, 1);
  if (!title) return false;
  snprintf(title, WORDS, "%s: %.200s", p->about.model, changes ? changes : "without changes");
  bool ok = get_effect(&x);
  if (ok) {
    x.d.title = title;
    x.d.caption = x.e.has_head
                      ? caption_of(&x, "intervene")
                      : "This model has no language-model head, so it predicts no tokens. The "
                        "change of its last hidden states is measured instead.";
    ok = add_shifts(&x);
    add_measures(&x);
    if (ok && p->s.state->sweep) ok = add_sweep(&x);
    ok = ok && finish(&x);
  }
  attend_viewer_release(p->s.viewer, x.e.memory);
  return ok;
}

/* ---- attribute ------------------------------------------------------------------------------ */

/* Labels of the tokens that scores belong to. */
static picture_tokens scored_tokens(painter *p, attend_viewer_method method, int n) {
  const attend_viewer_run *run = p->s.run;
  const bool keys = method == ATTEND_VIEWER_BY_ATTENTION;
  const int first = keys && p->s.head.at.role == ATTEND_DECODER_SELF ? 0 : run->side[0].real;
  const char **text = take(p, (size_t)n + 1, sizeof *text);
  for (int i = 0; text && i < n; i++) {
    const bool decoder = i >= first;
    text[i] = label_of(p, run->c.model, run->side[decoder].ids[decoder ? i - first : i]);
  }
  return (picture_tokens){text, n};
}

static void add_heads(prediction *x, const attend_viewer_attribution *a, const char *title,
                      const float *head, const float *mlp) {
  painter *p = x->p;
  const int columns = a->heads + (mlp != NULL);
  float *cells = take(p, (size_t)(a->layers * columns), sizeof *cells);
  const char **names = take(p, (size_t)columns, sizeof *names);
  if (!cells || !names) return;
  for (int i = 0; i < a->layers; i++) {
    memcpy(cells + i * columns, head + i * a->heads, (size_t)a->heads * sizeof *cells);
    if (mlp) cells[i * columns + a->heads] = mlp[i];
  }
  for (int i = 0; i < columns; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    names[i] = i < a->heads ? kept(p, number) : "MLP";
  }
  x->d.map[x->d.maps++] = (picture_map_data){.title = title,
                                             .row_axis = "layer",
                                             .column_axis = "head",
                                             .what = "score",
                                             .rows = {NULL, a->layers},
                                             .columns = {names, columns},
                                             .cells = cells,
                                             .is_signed = true};
}

static void add_sums(prediction *x, const attend_viewer_attribution *a) {
  const bool compared = !isnan(a->baseline) && a->baseline != 0;
  char *name = take(x->p, WORDS, 1);
  if (!name) return;
  snprintf(name, WORDS, "logit of “%.300s”", x->answer);
  add_fact(x, name, a->logit, NAN);
  if (compared) add_fact(x, "logit of the blanks", a->baseline, NAN);
  if (compared) add_fact(x, "difference", a->logit - a->baseline, NAN);
  add_fact(x, "embedding", a->embedding, NAN);
  add_fact(x, "rest (biases)", a->rest, NAN);
  add_fact(x, "sum of the scores", a->sum, NAN);
}

static bool draw_attribution(prediction *x, attend_viewer_method method,
                             const attend_viewer_attribution *a) {
  picture_scores_data scores = {.what = "score", .scores = a->scores, .marked = -1};
  if (a->n) scores.tokens = scored_tokens(x->p, method, a->n);
  if (a->n) x->d.scores = &scores;
  if (a->head)
    add_heads(x, a,
              a->cross ? "Self-attention"
              : a->mlp ? "Heads and MLPs"
                       : "Heads",
              a->head, a->mlp);
  if (a->cross) add_heads(x, a, "Cross-attention", a->cross, NULL);
  add_sums(x, a);
  return finish(x);
}

static bool by_method(prediction *x, attend_viewer_method method) {
  painter *p = x->p;
  const attend_viewer_run *run = p->s.before ? p->s.before : p->s.run;
  const attend_viewer_attribute_options o = {ATTEND_INIT(attend_viewer_attribute_options),
                                             .method = method, .target = view_target(p->s.state),
                                             .at = p->s.head.at};
  attend_viewer_attribution a;
  bool ok = computed(p, attend_viewer_attribute(p->s.viewer, run, &o, p->s.listener, &a)) &&
            draw_attribution(x, method, &a);
  attend_viewer_release(p->s.viewer, a.memory);
  return ok;
}

static bool draw_lens(prediction *x, const attend_viewer_logit_lens *l) {
  painter *p = x->p;
  const int n = l->layers * l->rows, model = p->s.run->c.model;
  const char **words = take(p, (size_t)n, sizeof *words), **tokens, **layers;
  float *cells = take(p, (size_t)n, sizeof *cells);
  tokens = take(p, (size_t)l->rows, sizeof *tokens);
  layers = take(p, (size_t)l->layers, sizeof *layers);
  if (!words || !cells || !tokens || !layers) return false;
  for (int i = 0; i < n; i++) {
    char word[ATTEND_VIEWER_TOKEN + 16];
    cells[i] = (float)l->p[i * l->top];
    snprintf(word, sizeof word, "%s %.0f", answer_label(p, l->token[i * l->top]),
             100 * l->p[i * l->top]);
    words[i] = kept(p, word);
  }
  for (int i = 0; i < l->rows; i++) tokens[i] = label_of(p, model, head_side(p)->ids[l->row + i]);
  for (int i = 0; i < l->layers; i++) {
    char number[16];
    snprintf(number, sizeof number, "%d", i);
    layers[i] = i == 0 ? "in" : i == l->layers - 1 ? "out" : kept(p, number);
  }
  x->d.map[x->d.maps++] = (picture_map_data){.row_axis = "layer",
                                             .column_axis = "token",
                                             .what = "probability (in cells: %)",
                                             .rows = {layers, l->layers},
                                             .columns = {tokens, l->rows},
                                             .cells = cells,
                                             .words = words};
  return finish(x);
}

static bool by_lens(prediction *x) {
  painter *p = x->p;
  const attend_viewer_range range = view_lens_range(head_side(p)->n, x->e.target.position);
  attend_viewer_logit_lens l;
  bool ok = computed(p, attend_viewer_get_logit_lens(p->s.viewer, p->s.run, &range, VIEW_LENS_TOP,
                                                     p->s.listener, &l)) &&
            draw_lens(x, &l);
  attend_viewer_release(p->s.viewer, l.memory);
  return ok;
}

bool paint_attribute(painter *p) {
  static const char no_head[] =
      "this model has no language-model head, so it predicts no tokens that could be attributed";
  prediction x = {.p = p};
  const int method = view_method_of(p->s.state->method);
  char *title = take(p, WORDS, 1), name[64];
  if (!title) return false;
  bool ok = get_effect(&x) && succeed(p, x.e.has_head ? NULL : no_head);
  if (ok) {
    snprintf(title, WORDS, "%.60s: “%.260s” at token %s", p->about.model, x.answer, x.position);
    snprintf(name, sizeof name, "attribute.%.40s", p->s.state->method);
    x.d.title = title;
    x.d.caption = caption_of(&x, name);
    ok = method < 0 ? by_lens(&x) : by_method(&x, (attend_viewer_method)method);
  }
  attend_viewer_release(p->s.viewer, x.e.memory);
  return ok;
}
