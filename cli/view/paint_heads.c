/* Pictures of one run: all heads, one head, its vectors, its matrix, flow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/painting.h"

/* ---- views -------------------------------------------------------------------------------- */

/* "previous", .. of each head; "": nothing stands out. */
static const char **does_of(const attend_view_patterns *x) {
  int n = x->layers * x->heads;
  const char **list = need((size_t)n, sizeof *list);
  for (int i = 0; i < n; i++)
    list[i] = x->scores[i].pattern < 0
                  ? ""
                  : attend_head_pattern_name((attend_head_pattern)x->scores[i].pattern);
  return list;
}

static bool paint_thumbs(painting *p, const attend_view_thumbs *t,
                         const attend_view_patterns *patterns) {
  size_t n = (size_t)(t->layers * t->heads) * (size_t)(t->height * t->width);
  uint8_t *bytes = need(n, 1);
  for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)lrintf(t->cells[i]);
  const char **does = does_of(patterns);
  picture_model_data d = {p->about, t->layers, t->heads, t->height, t->width, bytes, does};
  bool ok = true;
  if (p->s->head < 0) d.about.layer = d.about.head = -1;
  if (p->terminal)
    terminal_model(stdout, &d, p->terminal);
  else
    ok = paint_fail(p, picture_model(&d, &p->look, p->out));
  free(does);
  free(bytes);
  return ok;
}

bool paint_model(painting *p) {
  attend_viewer *session = p->v->session;
  attend_view_head h = subject_head(&p->at, NULL);
  attend_view_thumbs thumbs;
  attend_view_patterns patterns = {0};
  bool ok = paint_status(p, attend_viewer_thumbs(session, &h, 48, &thumbs)) &&
            paint_status(p, attend_viewer_patterns(session, &h, &patterns)) &&
            paint_thumbs(p, &thumbs, &patterns);
  attend_viewer_release(session, thumbs.memory);
  attend_viewer_release(session, patterns.memory);
  return ok;
}

bool paint_head(painting *p) {
  int own[1] = {p->at.head}, n = p->s->n_heads ? p->s->n_heads : 1;
  const int *heads = p->s->n_heads ? p->s->heads : own;
  size_t one = (size_t)p->at.s.rows * (size_t)p->at.s.keys;
  if (p->at.s.rows > PAINT_CELLS || p->at.s.keys > PAINT_CELLS)
    return paint_fail(p,
                      "a text of more than 256 tokens is too long for lines: draw "
                      "the view matrix, or open the page");
  float *weights = need((size_t)n * one, sizeof *weights);
  bool ok = true;
  for (int i = 0; i < n && ok; i++) {
    grid g = {0};
    p->at.head = heads[i];
    ok = get_grid(p, NULL, NULL, &g);
    if (ok) memcpy(weights + (size_t)i * one, g.cells, one * sizeof *weights);
    grid_free(&g);
  }
  picture_head_data d = {p->about, p->rows, p->keys, n, heads, weights, p->s->token};
  d.about.head = -1;
  ok = ok && paint_fail(p, picture_head(&d, &p->look, p->out));
  free(weights);
  return ok;
}

bool paint_neuron(painting *p) {
  const attend_lens_shape *s = &p->at.s;
  int row = p->s->token < 0 ? s->rows - 1 : p->s->token;
  int end = s->causal ? row + 1 : s->real_keys;
  int first = end > PAINT_KEYS ? end - PAINT_KEYS : 0;
  attend_view_head h = subject_head(&p->at, NULL);
  attend_view_range range = {row, 1, first, end - first};
  attend_view_vectors x;
  if (!paint_status(p, attend_viewer_vectors(p->v->session, &h, &range, &x))) return false;
  picture_neuron_data d = {p->about, p->rows.text[row],
                           row,      {p->keys.text + first, end - first},
                           first,    x.dim,
                           x.dim_v,  (double)x.scale,
                           x.q,      x.k,
                           x.v,      x.weights,
                           x.out};
  bool ok = paint_fail(p, picture_neuron(&d, &p->look, p->out));
  attend_viewer_release(p->v->session, x.memory);
  return ok;
}

bool paint_matrix(painting *p) {
  grid g = {0};
  bool ok = get_grid(p, NULL, NULL, &g);
  if (ok) {
    picture_matrix_data d = {.about = p->about,
                             .rows = p->rows,
                             .keys = p->keys,
                             .height = g.height,
                             .width = g.width,
                             .cells = g.cells,
                             .mask = g.mask,
                             .is_signed = p->at.s.is_signed,
                             .token = p->s->token,
                             .key = p->s->key};
    if (p->terminal)
      ok = paint_fail(p, draw_message(terminal_matrix(stdout, &d, p->terminal)));
    else
      ok = paint_fail(p, picture_matrix(&d, &p->look, p->out));
  }
  grid_free(&g);
  return ok;
}

static bool draw_flow(painting *p, int token, picture_flow_data d) {
  d.about = p->about;
  d.about.layer = d.about.head = -1;
  d.tokens = p->rows;
  d.layers = p->at.s.layers;
  d.token = token;
  return paint_fail(p, picture_flow(&d, &p->look, p->out));
}

static bool paint_reach(painting *p, const attend_view_head *h, int token) {
  attend_view_reach x;
  if (!paint_status(p, attend_viewer_reach(p->v->session, h, token, &x))) return false;
  picture_edge *edges = need((size_t)x.n_edges + 1, sizeof *edges);
  for (int i = 0; i < x.n_edges; i++)
    edges[i] = (picture_edge){x.edges[i].layer, x.edges[i].from, x.edges[i].to, x.edges[i].head};
  bool ok = draw_flow(
      p, token, (picture_flow_data){.reached = x.reached, .edges = edges, .edge_count = x.n_edges});
  free(edges);
  attend_viewer_release(p->v->session, x.memory);
  return ok;
}

static bool paint_rollout(painting *p, const attend_view_head *h, int token) {
  attend_view_rollout x;
  if (!paint_status(p, attend_viewer_rollout(p->v->session, h, token, &x))) return false;
  bool ok = draw_flow(p, token, (picture_flow_data){.shares = x.shares});
  attend_viewer_release(p->v->session, x.memory);
  return ok;
}

bool paint_flow(painting *p) {
  int token = p->s->token < 0 ? p->at.s.rows - 1 : p->s->token;
  attend_view_head h = subject_followed(&p->at);
  return strcmp(p->s->way, "argmax") ? paint_rollout(p, &h, token) : paint_reach(p, &h, token);
}
