/* A view of `attend view` as a picture: from the session of attend/viewer.h to pictures.h. */
#include "pictures/painter.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEYS = 200, FRAMES = 12, POINTS = 400 };

/* ---- tokens as they are drawn --------------------------------------------------------- */

static const char *row_label(painter *p, int row) {
  const attend_viewer_run *run = p->s.run;
  char label[ATTEND_VIEWER_TOKEN];
  attend_viewer_row_label(attend_viewer_get_model(p->s.viewer, run->c.model), run,
                          p->s.head.at.role, row, label);
  return kept(p, label);
}

/* The tokens of the head's rows or keys. */
static const attend_viewer_side *side_of(const painter *p, bool keys) {
  attend_role role = p->s.head.at.role;
  return &p->s.run->side[role == ATTEND_DECODER_SELF || (role == ATTEND_CROSS && !keys)];
}

static bool label_side(painter *p, bool keys, picture_tokens *tokens) {
  const attend_viewer_side *side = side_of(p, keys);
  const char **text = take(p, (size_t)side->n + 1, sizeof *text);
  for (int i = 0; text && i < side->n; i++)
    text[i] = keys ? label_of(p, p->s.run->c.model, side->ids[i]) : row_label(p, i);
  *tokens = (picture_tokens){text, side->n};
  return !*p->error;
}

/* ---- a head in cells --------------------------------------------------------------------- */

typedef struct {
  float *cells;
  uint8_t *mask;
  int height, width;
} grid;

/* Why no weight of a cell can be other than 0. */
static void fill_mask(const attend_lens_shape *s, grid *g) {
  for (int y = 0; y < g->height; y++)
    for (int x = 0; x < g->width; x++) {
      int64_t row = (int64_t)y * s->rows / g->height;
      int64_t last = (int64_t)(y + 1) * s->rows / g->height - 1;
      int64_t key = (int64_t)x * s->keys / g->width;
      int64_t end = (int64_t)(x + 1) * s->keys / g->width - 1;
      uint8_t *m = &g->mask[y * g->width + x];
      if (s->causal && key > last) *m = PICTURE_LATER;
      if (s->window && end < row - s->window + 1) *m = PICTURE_FAR;
      if (key >= s->real_keys) *m = PICTURE_PADDING;
    }
}

static bool make_grid(painter *p, const float *cells, int height, int width, grid *g) {
  size_t n = (size_t)height * (size_t)width;
  *g = (grid){take(p, n, sizeof *g->cells), take(p, n, 1), height, width};
  if (!g->cells || !g->mask) return false;
  memcpy(g->cells, cells, n * sizeof *cells);
  fill_mask(&p->shape, g);
  return true;
}

/* What part of a pair of texts a filter leaves. */
static void filter_grid(const painter *p, float *w) {
  const char *filter = p->s.state->filter;
  if (strlen(filter) != 2) return;
  const signed char *a = side_of(p, false)->part, *b = side_of(p, true)->part;
  for (int i = 0; i < p->shape.rows; i++)
    for (int j = 0; j < p->shape.keys; j++)
      if (a[i] != filter[0] - 'a' || b[j] != filter[1] - 'a') w[i * p->shape.keys + j] = 0;
}

/* As the page shows them. */
static void level_cells(attend_viewer_tile *t) {
  size_t n = (size_t)t->height * (size_t)t->width;
  view_levels l = view_levels_of(t->cells, n);
  for (size_t i = 0; i < n; i++) t->cells[i] = view_level_value(l, view_level_byte(l, t->cells[i]));
}

/* Of a run (NULL: the first), with a form (NULL: its own). */
static bool get_grid(painter *p, const attend_viewer_run *run, const char *form, grid *g) {
  attend_viewer_head h = {run ? run : p->s.run, p->s.head.at, form};
  int level = view_level(&p->shape);
  bool mean = !strcmp(p->s.state->pool, "mean"), ok;
  attend_viewer_place place = {
      .head = h, .level = level, .pool = mean ? ATTEND_POOL_MEAN : ATTEND_POOL_MAX};
  attend_viewer_tile t = {0};
  attend_viewer_block b = {0};
  if (level) {
    ok = computed(p, attend_viewer_get_tile(p->s.viewer, &place, &t));
    if (ok) level_cells(&t);
    ok = ok && make_grid(p, t.cells, t.height, t.width, g);
  } else {
    ok = computed(p, attend_viewer_get_block(p->s.viewer, &h, NULL, &b)) &&
         make_grid(p, b.weights, b.rows, b.keys, g);
  }
  attend_viewer_release(p->s.viewer, t.memory);
  attend_viewer_release(p->s.viewer, b.memory);
  if (ok && !level && !run) filter_grid(p, g->cells);
  return ok;
}

/* The heads that are chosen; one: that of the subject. */
static int chosen_heads(const painter *p, const int **heads) {
  const view_state *s = p->s.state;
  *heads = s->n_heads ? s->heads : &p->about.head;
  return s->n_heads ? s->n_heads : 1;
}

/* ---- one run -------------------------------------------------------------------------------- */

/* The thumbnails' bytes and the names of what heads do; "": nothing stands out. */
static bool draw_thumbs(painter *p, const attend_viewer_thumbs *t,
                        const attend_viewer_patterns *x) {
  int heads = t->layers * t->heads;
  size_t n = (size_t)heads * (size_t)(t->height * t->width);
  uint8_t *bytes = take(p, n, 1);
  const char **does = take(p, (size_t)heads, sizeof *does);
  if (!bytes || !does) return false;
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)lrintf(t->cells[i]);
  for (int i = 0; i < heads; i++) {
    int pattern = x->scores[i].pattern;
    does[i] = pattern < 0 ? "" : attend_head_pattern_name((attend_head_pattern)pattern);
  }
  picture_model_data d = {p->about, t->layers, t->heads, t->height, t->width, bytes, does};
  if (p->s.state->head < 0) d.about.layer = d.about.head = -1;
  if (!p->terminal) return succeed(p, picture_model(&d, &p->look, &p->out));
  terminal_model(p->file, &d, p->terminal);
  terminal_caption(p->file, "model", &d.about, (picture_facts){0}, p->terminal);
  return true;
}

static bool paint_model(painter *p) {
  attend_viewer *v = p->s.viewer;
  attend_viewer_thumbs thumbs;
  attend_viewer_patterns patterns = {0};
  bool ok = computed(p, attend_viewer_get_thumbs(v, &p->s.head, 48, &thumbs)) &&
            computed(p, attend_viewer_get_patterns(v, &p->s.head, &patterns)) &&
            draw_thumbs(p, &thumbs, &patterns);
  attend_viewer_release(v, thumbs.memory);
  attend_viewer_release(v, patterns.memory);
  return ok;
}

static bool paint_matrix(painter *p);

/* In the terminal the matrix of each head. */
static bool print_chosen(painter *p, const int *heads, int n) {
  bool ok = true;
  for (int i = 0; i < n && ok; i++) {
    if (n > 1) fprintf(p->file, "%shead %d\n", i ? "\n" : "", heads[i]);
    p->s.head.at.head = heads[i];
    ok = paint_matrix(p);
  }
  return ok;
}

static bool paint_head(painter *p) {
  const int *heads;
  int n = chosen_heads(p, &heads);
  if (p->terminal) return print_chosen(p, heads, n);
  size_t one = (size_t)p->shape.rows * (size_t)p->shape.keys;
  if (p->shape.rows > VIEW_CELLS || p->shape.keys > VIEW_CELLS)
    return succeed(p,
                   "a text of more than 256 tokens is too long for lines: draw the view matrix, "
                   "or open the page");
  float *weights = take(p, (size_t)n * one, sizeof *weights);
  if (!weights) return false;
  for (int i = 0; i < n; i++) {
    grid g;
    p->s.head.at.head = heads[i];
    if (!get_grid(p, NULL, NULL, &g)) return false;
    memcpy(weights + (size_t)i * one, g.cells, one * sizeof *weights);
  }
  picture_head_data d = {p->about, p->rows, p->keys, n, heads, weights, p->s.state->token};
  d.about.head = -1;
  return succeed(p, picture_head(&d, &p->look, &p->out));
}

static bool paint_neuron_pair(painter *p);

static bool paint_neuron(painter *p) {
  if (p->s.other) return paint_neuron_pair(p);
  const attend_lens_shape *s = &p->shape;
  int row = p->s.state->token < 0 ? s->rows - 1 : p->s.state->token;
  int end = s->causal ? row + 1 : s->real_keys;
  int first = end > MOST_KEYS ? end - MOST_KEYS : 0;
  attend_viewer_range range = {row, 1, first, end - first};
  attend_viewer_vectors x;
  if (!computed(p, attend_viewer_get_vectors(p->s.viewer, &p->s.head, &range, &x))) return false;
  picture_neuron_data d = {.about = p->about,
                           .query = p->rows.text[row],
                           .row = row,
                           .keys = {p->keys.text + first, end - first},
                           .first = first,
                           .dim = x.dim,
                           .dim_v = x.dim_v,
                           .scale = (double)x.scale,
                           .q = x.q,
                           .k = x.k,
                           .v = x.v,
                           .weights = x.weights,
                           .out = x.out};
  bool ok = p->terminal || succeed(p, picture_neuron(&d, &p->look, &p->out));
  if (p->terminal) terminal_neuron(p->file, &d, p->terminal);
  attend_viewer_release(p->s.viewer, x.memory);
  return ok;
}

static bool paint_matrix(painter *p) {
  grid g;
  if (!get_grid(p, NULL, NULL, &g)) return false;
  picture_matrix_data d = {.about = p->about,
                           .rows = p->rows,
                           .keys = p->keys,
                           .height = g.height,
                           .width = g.width,
                           .cells = g.cells,
                           .mask = g.mask,
                           .is_signed = p->shape.is_signed,
                           .token = p->s.state->token,
                           .key = p->s.state->key};
  if (!p->terminal) return succeed(p, picture_matrix(&d, &p->look, &p->out));
  if (!succeed(p, draw_message(terminal_matrix(p->file, &d, p->terminal)))) return false;
  terminal_caption(p->file, "matrix", &p->about, (picture_facts){0}, p->terminal);
  return true;
}

/* In the terminal a matrix: states before each layer and after the last, and tokens. */
static bool print_flow(painter *p, const picture_flow_data *d) {
  const int states = d->layers + 1, n = states * d->tokens.count;
  const char **names = take(p, (size_t)states, sizeof *names);
  float *cells = take(p, (size_t)n, sizeof *cells);
  for (int l = 0; cells && names && l < states; l++) {
    char name[32];
    snprintf(name, sizeof name, "before layer %d", l);
    names[l] = l < d->layers ? kept(p, name) : "after the last";
  }
  if (*p->error) return false;
  for (int i = 0; i < n; i++) cells[i] = d->shares ? d->shares[i] : (float)d->reached[i];
  picture_matrix_data m = {.about = d->about,
                           .rows = {names, states},
                           .keys = d->tokens,
                           .height = states,
                           .width = d->tokens.count,
                           .cells = cells,
                           .token = -1,
                           .key = -1};
  if (!succeed(p, draw_message(terminal_matrix(p->file, &m, p->terminal)))) return false;
  const picture_facts facts = {.query = picture_spelled(d->tokens.text[d->token])};
  terminal_caption(p->file, d->shares ? "flow.rollout" : "flow.argmax", &d->about, facts,
                   p->terminal);
  return true;
}

static bool draw_flow(painter *p, int token, picture_flow_data d) {
  d.about = p->about;
  d.about.layer = d.about.head = -1;
  d.tokens = p->rows;
  d.layers = p->shape.layers;
  d.token = token;
  if (p->terminal) return print_flow(p, &d);
  return succeed(p, picture_flow(&d, &p->look, &p->out));
}

static bool draw_reach(painter *p, int token, const attend_viewer_reach *x) {
  picture_edge *edges = take(p, (size_t)x->n_edges + 1, sizeof *edges);
  if (!edges) return false;
  for (int i = 0; i < x->n_edges; i++) {
    const attend_reach_edge *e = &x->edges[i];
    edges[i] = (picture_edge){e->layer, e->from, e->to, e->head, 0};
  }
  return draw_flow(
      p, token,
      (picture_flow_data){.reached = x->reached, .edges = edges, .edge_count = x->n_edges});
}

static bool draw_rollout(painter *p, int token, const attend_viewer_rollout *x) {
  picture_edge *edges = take(p, (size_t)x->n_links + 1, sizeof *edges);
  if (!edges) return false;
  for (int i = 0; i < x->n_links; i++) {
    const attend_viewer_link *e = &x->links[i];
    edges[i] = (picture_edge){e->layer, e->from, e->to, -1, e->share};
  }
  return draw_flow(
      p, token, (picture_flow_data){.shares = x->shares, .edges = edges, .edge_count = x->n_links});
}

/* A token is followed through self-attention: cross-attention's is the decoder's. */
static bool paint_flow(painter *p) {
  attend_viewer *v = p->s.viewer;
  int token = p->s.state->token < 0 ? p->shape.rows - 1 : p->s.state->token;
  attend_viewer_head h = p->s.head;
  attend_viewer_reach reach = {0};
  attend_viewer_rollout rollout = {0};
  bool ok;
  if (h.at.role == ATTEND_CROSS) h.at.role = ATTEND_DECODER_SELF;
  if (!strcmp(p->s.state->way, "argmax"))
    ok = computed(p, attend_viewer_get_reach(v, &h, token, &reach)) && draw_reach(p, token, &reach);
  else
    ok = computed(p, attend_viewer_get_rollout(v, &h, token, &rollout)) &&
         draw_rollout(p, token, &rollout);
  attend_viewer_release(v, reach.memory);
  attend_viewer_release(v, rollout.memory);
  return ok;
}

static bool paint_generate(painter *p) {
  const attend_viewer_run *run = p->s.run;
  picture_step *steps = take(p, (size_t)run->n_steps + 1, sizeof *steps);
  for (int i = 0; steps && i < run->n_steps; i++) {
    const attend_viewer_step *x = &run->steps[i];
    picture_candidate *c = take(p, (size_t)x->n + 1, sizeof *c);
    for (int k = 0; c && k < x->n; k++)
      c[k] = (picture_candidate){label_of(p, run->c.model, x->candidate[k].id), x->candidate[k].p};
    steps[i] = (picture_step){.text = label_of(p, run->c.model, x->id),
                              .p = x->p,
                              .candidates = c,
                              .candidate_count = x->n,
                              .cache_bytes = (double)x->cache_bytes};
  }
  picture_generate_data d = {p->about, p->s.state->c.text, steps, run->n_steps};
  if (*p->error) return false;
  if (!p->terminal) return succeed(p, picture_generate(&d, &p->look, &p->out));
  terminal_generate(p->file, &d, p->terminal);
  return true;
}

static bool draw_embeddings(painter *p, int n, const float *cosine,
                            const attend_viewer_positions *x) {
  picture_embeddings_data d = {.about = p->about,
                               .rows = {p->rows.text, n},
                               .keys = {p->rows.text, n},
                               .height = n,
                               .width = n,
                               .cosine = cosine,
                               .count = x->count,
                               .dim = x->width,
                               .table = x->table,
                               .shift = x->shift,
                               .shift_error = x->shift_error};
  if (!p->terminal) return succeed(p, picture_embeddings(&d, &p->look, &p->out));
  picture_matrix_data m = {.about = p->about,
                           .rows = d.rows,
                           .keys = d.keys,
                           .height = n,
                           .width = n,
                           .cells = cosine,
                           .is_signed = true,
                           .token = -1,
                           .key = -1};
  char layer[16];
  snprintf(layer, sizeof layer, "%d", p->about.layer);
  if (!succeed(p, draw_message(terminal_matrix(p->file, &m, p->terminal)))) return false;
  terminal_caption(p->file, "embeddings", &p->about, (picture_facts){.layer = layer}, p->terminal);
  return true;
}

static bool paint_embeddings_pair(painter *p);

static bool paint_embeddings(painter *p) {
  if (p->s.other) return paint_embeddings_pair(p);
  attend_viewer *v = p->s.viewer;
  const attend_head_id at = p->s.head.at;
  int n = p->shape.rows < VIEW_CELLS ? p->shape.rows : VIEW_CELLS;
  attend_role side = at.role == ATTEND_CROSS ? ATTEND_DECODER_SELF : at.role;
  attend_viewer_range all = {0, n, 0, n};
  attend_viewer_embeddings e;
  attend_viewer_positions x = {0};
  bool ok =
      computed(p, attend_viewer_get_embeddings(v, p->s.run, NULL, side, at.layer, &all, &e)) &&
      computed(p, attend_viewer_get_positions(v, -1, -1, 64, 64, &x)) &&
      draw_embeddings(p, n, e.cosine, &x);
  attend_viewer_release(v, e.memory);
  attend_viewer_release(v, x.memory);
  return ok;
}

/* ---- two runs, or two forms ------------------------------------------------------------------- */

/* What tells one of the two from the other. */
static void name_case(const painter *p, bool second, char name[200]) {
  const view_state *s = p->s.state;
  const attend_viewer_case *a = &s->c, *b = &s->other, *c = second ? b : a;
  const attend_viewer_run *run = second && p->s.other ? p->s.other : p->s.run;
  if (!p->s.other)
    snprintf(name, 200, "%s", !second ? a->attention : *s->form ? s->form : VIEW_OTHER_FORM);
  else if (strcmp(a->text, b->text))
    snprintf(name, 200, "%.120s", c->text);
  else if (a->model != b->model)
    snprintf(name, 200, "%s", attend_viewer_get_model(p->s.viewer, run->c.model)->name);
  else if (a->step != b->step)
    snprintf(name, 200, "step %d", c->step);
  else if (a->untrained != b->untrained)
    snprintf(name, 200, "%s", c->untrained ? "untrained" : "trained");
  else
    snprintf(name, 200, "%s", c->attention);
}

static bool draw_pair(painter *p, const attend_viewer_comparison *c, const grid *a, const grid *b) {
  char name[200], other[200];
  int n = c->layers * c->heads;
  const attend_difference *own = &c->difference[p->s.head.at.layer * c->heads + p->s.head.at.head];
  float *distances = take(p, (size_t)n, sizeof *distances);
  if (!distances) return false;
  for (int i = 0; i < n; i++) distances[i] = (float)c->difference[i].distance;
  name_case(p, false, name);
  name_case(p, true, other);
  picture_compare_data d = {.about = p->about,
                            .name = name,
                            .other_name = other,
                            .rows = p->rows,
                            .keys = p->keys,
                            .height = a->height,
                            .width = a->width,
                            .cells = a->cells,
                            .other = b->cells,
                            .mask = a->mask,
                            .distance = own->distance,
                            .output_error = own->output,
                            .entropy = own->entropy,
                            .other_entropy = own->other_entropy,
                            .layers = c->layers,
                            .heads = c->heads,
                            .distances = distances};
  if (!p->terminal) return succeed(p, picture_compare(&d, &p->look, &p->out));
  if (!succeed(p, draw_message(terminal_compare(p->file, &d, p->terminal)))) return false;
  terminal_caption(p->file, "compare", &p->about, (picture_facts){.first = name, .second = other},
                   p->terminal);
  return true;
}

/* ---- two models, or two texts of different lengths ------------------------------------------- */

static picture_tokens word_names(painter *p, const attend_viewer_words *w) {
  const char **text = take(p, (size_t)w->words + 1, sizeof *text);
  for (int i = 0; text && i < w->words; i++) {
    size_t n = (size_t)(w->end[i] - w->start[i]);
    char *copy = take(p, n + 1, 1);
    if (!copy) break;
    memcpy(copy, w->text + w->start[i], n);
    text[i] = copy;
  }
  return (picture_tokens){text, w->words};
}

static const char *const *key_names(painter *p, picture_tokens words) {
  const char **text = take(p, (size_t)words.count + 1, sizeof *text);
  if (!text || *p->error) return NULL;
  text[0] = "no word";
  for (int i = 0; i < words.count; i++) text[i + 1] = words.text[i];
  return text;
}

static void *copy_of(painter *p, const void *from, size_t bytes) {
  void *to = take(p, bytes + 1, 1);
  return to ? memcpy(to, from, bytes) : NULL;
}

/* "3.1 0.44  2.0 0.30" of each pattern. */
static const char *const *example_words(painter *p, const attend_viewer_summary *s) {
  const char **all = take(p, ATTEND_HEAD_PATTERNS, sizeof *all);
  for (int k = 0; all && k < ATTEND_HEAD_PATTERNS; k++) {
    char *text = take(p, 96, 1);
    int n = 0;
    if (!text) return NULL;
    for (int i = 0; i < ATTEND_VIEWER_BEST && s->best[k][i] >= 0; i++)
      n += snprintf(text + n, (size_t)(96 - n), "%s%d.%d (%.2f)", i ? "  " : "",
                    s->best[k][i] / s->heads, s->best[k][i] % s->heads, s->best_score[k][i]);
    if (!n) snprintf(text, 96, "does not apply");
    all[k] = text;
  }
  return all;
}

static bool take_counts(painter *p, const attend_viewer_summary *s, picture_side *to) {
  size_t rows = (size_t)s->layers + 1, across = ATTEND_HEAD_PATTERNS + 1;
  int32_t *counts = take(p, rows * across, sizeof *counts);
  double *means = take(p, 3 * rows, sizeof *means);
  if (!counts || !means) return false;
  for (size_t l = 0; l < rows; l++) {
    memcpy(counts + l * across, s->layer[l].count, across * sizeof *counts);
    means[l] = s->layer[l].entropy;
    means[rows + l] = s->layer[l].broad;
    means[2 * rows + l] = s->layer[l].later;
  }
  to->counts = counts;
  to->entropy = means, to->broad = means + rows, to->later = means + 2 * rows;
  to->examples = example_words(p, s);
  return to->examples;
}

static bool take_thumbs(painter *p, const attend_viewer_head *h, picture_side *to) {
  attend_viewer_thumbs t;
  if (!computed(p, attend_viewer_get_thumbs(p->s.viewer, h, 48, &t))) return false;
  size_t n = (size_t)(t.layers * t.heads) * (size_t)(t.height * t.width);
  uint8_t *bytes = take(p, n, 1);
  for (size_t i = 0; bytes && i < n; i++) bytes[i] = (uint8_t)lrintf(t.cells[i]);
  to->cells = bytes, to->height = t.height, to->width = t.width;
  attend_viewer_release(p->s.viewer, t.memory);
  return bytes;
}

static bool take_side(painter *p, const attend_viewer_head *h, bool second, picture_side *to) {
  attend_viewer_summary s;
  char *name = take(p, 200, 1), *place = take(p, 64, 1);
  if (!name || !place) return false;
  name_case(p, second, name);
  snprintf(place, 64, "layer %d, head %d", h->at.layer, h->at.head);
  if (!computed(p, attend_viewer_get_summary(p->s.viewer, h, &s))) return false;
  *to = (picture_side){.name = name,
                       .place = place,
                       .tokens = s.rows,
                       .layers = s.layers,
                       .heads = s.heads,
                       .layer = h->at.layer,
                       .head = h->at.head,
                       .causal = s.causal,
                       .visible = s.visible};
  bool ok = take_counts(p, &s, to);
  attend_viewer_release(p->s.viewer, s.memory);
  return ok && (p->terminal || take_thumbs(p, h, to));
}

/* Both heads by the words that both runs read. */
static bool take_words(painter *p, const attend_viewer_head h[2], picture_beside_data *d) {
  for (int i = 0; i < 2; i++) {
    attend_viewer_words w;
    if (!computed(p, attend_viewer_get_words(p->s.viewer, &h[i], h[!i].run, &w))) return false;
    d->why_words = w.why;
    if (!w.why && !i) d->words = word_names(p, &w);
    size_t n = (size_t)w.words;
    if (!w.why) d->side[i].words = copy_of(p, w.weights, n * (n + 1) * sizeof(float));
    attend_viewer_release(p->s.viewer, w.memory);
  }
  if (!d->why_words) d->keys = key_names(p, d->words);
  return !*p->error;
}

static picture_tokens labels_of(painter *p, const attend_viewer_run *run, bool decoder) {
  const attend_viewer_side *side = &run->side[decoder];
  const char **text = take(p, (size_t)side->n + 1, sizeof *text);
  for (int i = 0; text && i < side->n; i++) text[i] = label_of(p, run->c.model, side->ids[i]);
  return (picture_tokens){text, side->n};
}

/* The head token by token, if it is not too long. */
static bool take_tokens(painter *p, const attend_viewer_head *h, picture_side *to) {
  const attend_lens_shape *s = &h->run->shape[h->at.role];
  attend_viewer_block b;
  if (s->rows > VIEW_CELLS || s->keys > VIEW_CELLS) return true;
  if (!computed(p, attend_viewer_get_block(p->s.viewer, h, NULL, &b))) return false;
  to->weights = copy_of(p, b.weights, (size_t)b.rows * (size_t)b.keys * sizeof *b.weights);
  to->queries = labels_of(p, h->run, h->at.role != ATTEND_ENCODER_SELF);
  to->keys = labels_of(p, h->run, h->at.role == ATTEND_DECODER_SELF);
  attend_viewer_release(p->s.viewer, b.memory);
  return !*p->error;
}

static bool paint_beside(painter *p, const char *why) {
  attend_viewer_head h[2] = {p->s.head, view_head_beside(p->s.state, p->s.head, p->s.other)};
  picture_beside_data d = {.about = p->about, .why = why, .patterns = ATTEND_HEAD_PATTERNS};
  const char **names = take(p, ATTEND_HEAD_PATTERNS + 1, sizeof *names);
  if (!names) return false;
  for (int k = 0; k < ATTEND_HEAD_PATTERNS; k++)
    names[k] = view_pattern_label((attend_head_pattern)k);
  names[ATTEND_HEAD_PATTERNS] = "no single pattern";
  d.labels = names;
  if (!take_side(p, &h[0], false, &d.side[0]) || !take_side(p, &h[1], true, &d.side[1]) ||
      !take_words(p, h, &d))
    return false;
  for (int i = 0; i < 2 && d.why_words; i++)
    if (!take_tokens(p, &h[i], &d.side[i])) return false;
  if (!p->terminal) return succeed(p, picture_beside(&d, &p->look, &p->out));
  terminal_beside(p->file, &d, p->terminal);
  terminal_caption(p->file, "beside", &p->about,
                   (picture_facts){.first = d.side[0].name, .second = d.side[1].name}, p->terminal);
  return true;
}

/* ---- a word in two texts ------------------------------------------------------------------------ */

static const char *spell(painter *p, const attend_viewer_run *run, attend_role side,
                         attend_viewer_span s) {
  const attend_viewer_side *of = &run->side[side == ATTEND_DECODER_SELF];
  char *text = take(p, 120, 1);
  int n = 0;
  for (int i = s.from; text && i < s.from + s.n && n < 80; i++) {
    const char *label = picture_spelled(label_of(p, run->c.model, of->ids[i]));
    n += snprintf(text + n, (size_t)(120 - n), "%.60s", label);
  }
  return text ? text : "";
}

/* The cosines are of the pair's memory. */
static bool take_word(painter *p, attend_viewer_word_pair *x, picture_word_data *w) {
  attend_role role = p->s.head.at.role;
  attend_role side = role == ATTEND_CROSS ? ATTEND_DECODER_SELF : role;
  const view_state *s = p->s.state;
  if (!computed(p, attend_viewer_get_word_pair(p->s.viewer, p->s.run, p->s.other, side, s->token,
                                               s->other_token, x)))
    return false;
  int last = x->layers - 1, layer = p->s.head.at.layer < last ? p->s.head.at.layer : last;
  int at = layer * x->heads + p->s.head.at.head;
  attend_role other = attend_viewer_role_beside(p->s.other, side);
  *w = (picture_word_data){.word = spell(p, p->s.run, side, x->word),
                           .other = spell(p, p->s.other, other, x->other),
                           .why = x->why,
                           .layers = x->layers,
                           .cosine = x->hidden,
                           .layer = layer,
                           .head = p->s.head.at.head,
                           .q = x->why ? NAN : x->q[at],
                           .k = x->why ? NAN : x->k[at],
                           .v = x->why ? NAN : x->v[at]};
  return !*p->error;
}

static bool take_query(painter *p, const attend_viewer_head *h, int row, attend_viewer_vectors *x,
                       picture_neuron_data *d) {
  const attend_lens_shape *s = &h->run->shape[h->at.role];
  int end = s->causal ? row + 1 : s->real_keys;
  int first = end > MOST_KEYS ? end - MOST_KEYS : 0;
  attend_viewer_range range = {row, 1, first, end - first};
  if (!computed(p, attend_viewer_get_vectors(p->s.viewer, h, &range, x))) return false;
  bool rows = h->at.role != ATTEND_ENCODER_SELF, keys = h->at.role == ATTEND_DECODER_SELF;
  const attend_viewer_side *of = &h->run->side[keys];
  const char **text = take(p, (size_t)range.keys + 1, sizeof *text);
  for (int i = 0; text && i < range.keys; i++)
    text[i] = label_of(p, h->run->c.model, of->ids[first + i]);
  *d = (picture_neuron_data){.about = p->about,
                             .query = label_of(p, h->run->c.model, h->run->side[rows].ids[row]),
                             .row = row,
                             .keys = {text, range.keys},
                             .first = first,
                             .dim = x->dim,
                             .dim_v = x->dim_v,
                             .scale = (double)x->scale,
                             .q = x->q,
                             .k = x->k,
                             .v = x->v,
                             .weights = x->weights,
                             .out = x->out};
  return !*p->error;
}

static bool paint_neuron_pair(painter *p) {
  attend_viewer_head h[2] = {p->s.head, view_head_beside(p->s.state, p->s.head, p->s.other)};
  attend_viewer_vectors x[2] = {0};
  attend_viewer_word_pair pair = {0};
  picture_neuron_data d[2];
  picture_word_data w;
  char name[2][200];
  int row[2];
  bool ok = take_word(p, &pair, &w) && computed(p, view_queries(&p->s, &row[0], &row[1]));
  if (ok && p->terminal) {
    terminal_word(p->file, &w, p->terminal);
  } else if (ok) {
    for (int i = 0; i < 2; i++) name_case(p, i, name[i]);
    ok = take_query(p, &h[0], row[0], &x[0], &d[0]) && take_query(p, &h[1], row[1], &x[1], &d[1]);
    const char *text[2] = {name[0], name[1]};
    ok = ok && succeed(p, picture_neuron_pair(d, text, &w, &p->look, &p->out));
  }
  void *memory[] = {x[0].memory, x[1].memory, pair.memory};
  for (int i = 0; i < 3; i++) attend_viewer_release(p->s.viewer, memory[i]);
  return ok;
}

/* All tokens of one text with all of the other, where both have vectors of one model. */
static bool draw_between(painter *p, attend_role side, const picture_word_data *w) {
  bool decoder = side == ATTEND_DECODER_SELF;
  const attend_viewer_side *of[2] = {&p->s.run->side[decoder], &p->s.other->side[decoder]};
  int n[2];
  const char **text[2];
  attend_viewer_embeddings e = {0};
  for (int i = 0; i < 2; i++) {
    n[i] = of[i]->n < VIEW_CELLS ? of[i]->n : VIEW_CELLS;
    text[i] = take(p, (size_t)n[i] + 1, sizeof *text[i]);
    for (int k = 0; text[i] && k < n[i]; k++)
      text[i][k] = label_of(p, p->s.run->c.model, of[i]->ids[k]);
  }
  attend_viewer_range all = {0, n[0], 0, n[1]};
  if (*p->error) return false;
  if (!w->why && !computed(p, attend_viewer_get_embeddings(p->s.viewer, p->s.run, p->s.other, side,
                                                           p->s.head.at.layer, &all, &e)))
    return false;
  picture_embeddings_data d = {.about = p->about,
                               .rows = {text[0], n[0]},
                               .keys = {text[1], n[1]},
                               .height = n[0],
                               .width = n[1],
                               .cosine = e.cosine,
                               .word = w};
  bool ok = succeed(p, picture_embeddings(&d, &p->look, &p->out));
  attend_viewer_release(p->s.viewer, e.memory);
  return ok;
}

static bool paint_embeddings_pair(painter *p) {
  attend_role role = p->s.head.at.role;
  attend_viewer_word_pair pair = {0};
  picture_word_data w;
  bool ok = take_word(p, &pair, &w);
  if (ok && p->terminal)
    terminal_word(p->file, &w, p->terminal);
  else if (ok)
    ok = draw_between(p, role == ATTEND_CROSS ? ATTEND_DECODER_SELF : role, &w);
  attend_viewer_release(p->s.viewer, pair.memory);
  return ok;
}

static bool paint_compare(painter *p) {
  const char *given = p->s.state->form;
  const char *form = p->s.other ? NULL : *given ? given : VIEW_OTHER_FORM;
  attend_viewer_head h = {p->s.run, p->s.head.at, form};
  attend_viewer_comparison c;
  grid a, b;
  if (!computed(p, attend_viewer_compare(p->s.viewer, &h, p->s.other, &c))) return false;
  if (p->s.other && (c.why || view_is_beside(p->s.run, p->s.other, h.at.role))) {
    bool drawn = paint_beside(p, c.why);
    attend_viewer_release(p->s.viewer, c.memory);
    return drawn;
  }
  bool ok =
      get_grid(p, NULL, NULL, &a) && get_grid(p, p->s.other, form, &b) && draw_pair(p, &c, &a, &b);
  attend_viewer_release(p->s.viewer, c.memory);
  return ok;
}

/* ---- the steps of a training run ---------------------------------------------------------------- */

typedef struct {
  picture_film_data d;
  int places[FRAMES];
  double step[FRAMES], loss[FRAMES];
  float *cells; /* [heads][frames][height][width] */
} film;

static bool keep_grid(painter *p, film *f, int frame, int head, const grid *g) {
  picture_film_data *d = &f->d;
  size_t one = (size_t)g->height * (size_t)g->width;
  if (!f->cells) {
    f->cells = take(p, (size_t)(d->heads * d->frames) * one, sizeof *f->cells);
    if (!f->cells) return false;
    d->cells = f->cells;
    d->height = g->height;
    d->width = g->width;
    d->mask = g->mask;
  }
  if (g->height != d->height || g->width != d->width)
    return succeed(p, "the text has other tokens at another step");
  memcpy(f->cells + (size_t)(head * d->frames + frame) * one, g->cells, one * sizeof *g->cells);
  return true;
}

/* Each step is run and may be dropped before the next: the cells of its maps stay. */
static bool record_step(painter *p, film *f, int frame, int step) {
  const attend_viewer_run *run;
  attend_viewer_case c = p->s.state->c;
  c.step = step;
  f->step[frame] = step;
  f->loss[frame] = attend_training_run_loss_at(p->s.steps, step);
  bool ok = computed(p, attend_viewer_run_case(p->s.viewer, &c, p->s.listener, &run));
  for (int i = 0; i < f->d.heads && ok; i++) {
    grid g;
    p->s.head.at.head = f->d.head[i];
    ok = get_grid(p, run, NULL, &g) && keep_grid(p, f, frame, i, &g);
  }
  return ok;
}

/* Stretches of a long curve become their means. */
static const picture_point *points_of(painter *p, const attend_log_curve *curve, int *n) {
  size_t count = curve->count < POINTS ? curve->count : POINTS;
  picture_point *points = take(p, count + 1, sizeof *points);
  *n = points ? (int)count : 0;
  for (size_t i = 0; points && i < count; i++) {
    size_t from = i * curve->count / count, to = (i + 1) * curve->count / count;
    for (size_t k = from; k < to; k++) {
      points[i].step += curve->at[k].step / (double)(to - from);
      points[i].loss += curve->at[k].loss / (double)(to - from);
    }
  }
  return points;
}

static bool paint_film(painter *p) {
  film f = {.d = {.about = p->about,
                  .rows = p->rows,
                  .keys = p->keys,
                  .step = f.step,
                  .loss = f.loss,
                  .is_signed = p->shape.is_signed}};
  picture_film_data *d = &f.d;
  int count;
  const int *steps = attend_training_run_steps(p->s.steps, &count);
  d->frames = view_spread(count, FRAMES, f.places);
  d->heads = chosen_heads(p, &d->head);
  d->left_out = d->frames < count;
  for (int i = 0; i < d->frames; i++)
    if (!record_step(p, &f, i, steps[f.places[i]])) return false;
  d->curve = points_of(p, attend_training_run_loss(p->s.steps), &d->losses);
  d->valid = points_of(p, attend_training_run_valid(p->s.steps), &d->valids);
  d->about.model = attend_viewer_get_model(p->s.viewer, 0)->name;
  if (d->heads > 1) d->about.head = -1;
  return !*p->error && succeed(p, picture_film(d, &p->look, &p->out));
}

/* ---- all of them ----------------------------------------------------------------------------- */

/* "gpt2", or "tiny, step 500". */
static void name_model(painter *p) {
  const attend_viewer_case *c = &p->s.run->c;
  const char *name = attend_viewer_get_model(p->s.viewer, c->model)->name;
  int n = snprintf(p->name, sizeof p->name, "%.120s", name);
  if (c->step >= 0) snprintf(p->name + n, sizeof p->name - (size_t)n, ", step %d", c->step);
}

/* Of cross-attention: the word that the chosen step writes, for the caption. */
static const char *step_of(const painter *p) {
  static const char arrow[] = "→ ";
  const char *view = p->s.state->view;
  bool rows = !strcmp(view, "head") || !strcmp(view, "neuron") || !strcmp(view, "matrix");
  if (!rows || p->s.head.at.role != ATTEND_CROSS || !p->rows.count) return NULL;
  int token = p->s.state->token, first = strcmp(view, "neuron") ? 0 : p->rows.count - 1;
  const char *label = p->rows.text[token < 0 ? first : token];
  size_t n = sizeof arrow - 1;
  return picture_spelled(strncmp(label, arrow, n) ? label : label + n);
}

static bool paint(painter *p) {
  static const struct {
    const char *view;
    bool (*paint)(painter *p);
  } views[] = {{"model", paint_model},         {"head", paint_head},
               {"neuron", paint_neuron},       {"matrix", paint_matrix},
               {"flow", paint_flow},           {"compare", paint_compare},
               {"generate", paint_generate},   {"embeddings", paint_embeddings},
               {"intervene", paint_intervene}, {"attribute", paint_attribute}};
  const attend_head_id at = p->s.head.at;
  *p->error = 0;
  p->shape = *view_shape(&p->s);
  name_model(p);
  memcpy(p->notice, p->s.run->notice, sizeof p->notice);
  p->about = (picture_about){.model = p->name,
                             .form = p->shape.given ? "" : p->s.state->c.attention,
                             .role = attend_role_name(at.role),
                             .layer = at.layer,
                             .head = at.head,
                             .notice = *p->notice ? p->notice : NULL};
  bool ok = label_side(p, false, &p->rows) && label_side(p, true, &p->keys);
  if (ok) p->about.step = step_of(p);
  if (ok && p->s.steps) ok = paint_film(p);
  for (size_t i = 0; ok && !p->s.steps && i < sizeof views / sizeof *views; i++)
    if (!strcmp(views[i].view, p->s.state->view)) ok = views[i].paint(p);
  for (block *next; p->blocks; p->blocks = next) {
    next = p->blocks->next;
    free(p->blocks);
  }
  return ok;
}

bool view_picture(const view_subject *s, const picture_look *look, const char *as, void **bytes,
                  size_t *length, char error[VIEW_ERROR]) {
  painter p = {.s = *s, .look = *look, .error = error};
  bool ok = paint(&p) && succeed(&p, draw_message(draw_file(&p.out, as, bytes, length)));
  drawing_free(&p.out);
  return ok;
}

bool view_terminal(const view_subject *s, const terminal_look *look, FILE *out,
                   char error[VIEW_ERROR]) {
  painter p = {.s = *s, .terminal = look, .file = out, .error = error};
  return paint(&p);
}
