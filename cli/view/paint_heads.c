/* Pictures of one run: all heads, one head, its vectors, its matrix, flow. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "view/painting.h"

/* ---- views -------------------------------------------------------------------------------- */

static const char **does_of(const fetched *f, int layers, int heads) {
  const attend_json *does = attend_json_get(f->root, "does");
  const char **list = need((size_t)(layers * heads), sizeof *list);
  for (int i = 0; i < layers * heads; i++)
    list[i] = attend_json_string(
        attend_json_at(attend_json_at(does, (size_t)(i / heads)),
                       (size_t)(i % heads)),
        NULL);
  return list;
}

bool paint_model(painting *p) {
  fetched thumbs, patterns = {0};
  int size[4];
  attend_json_writer q = question_about(p->v, &p->at, false);
  bool ok = paint_ask(p, "thumbs", &q, &thumbs);
  q = question_about(p->v, &p->at, false);
  ok = ok ? paint_ask(p, "patterns", &q, &patterns)
          : (attend_json_writer_free(&q), false);
  if (ok) {
    float *cells = fetched_part(&thumbs, "cells", size);
    size_t n =
        (size_t)size[0] * (size_t)size[1] * (size_t)size[2] * (size_t)size[3];
    uint8_t *bytes = need(n, 1);
    for (size_t i = 0; i < n; i++) bytes[i] = (uint8_t)lrintf(cells[i]);
    const char **does = does_of(&patterns, size[0], size[1]);
    picture_model_data d = {p->about, size[0], size[1], size[2],
                            size[3],  bytes,   does};
    if (p->s->head < 0) d.about.layer = d.about.head = -1;
    if (p->terminal)
      terminal_model(stdout, &d, p->terminal);
    else
      ok = paint_fail(p, picture_model(&d, &p->look, p->out));
    free(does);
    free(bytes);
    free(cells);
  }
  fetched_free(&thumbs);
  fetched_free(&patterns);
  return ok;
}

bool paint_head(painting *p) {
  int own[1] = {p->at.head}, n = p->s->n_heads ? p->s->n_heads : 1;
  const int *heads = p->s->n_heads ? p->s->heads : own;
  size_t one = (size_t)p->at.rows * (size_t)p->at.keys;
  if (p->at.rows > PAINT_CELLS || p->at.keys > PAINT_CELLS)
    return paint_fail(
        p,
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
  picture_head_data d = {p->about, p->rows, p->keys,    n,
                         heads,    weights, p->s->token};
  d.about.head = -1;
  ok = ok && paint_fail(p, picture_head(&d, &p->look, p->out));
  free(weights);
  return ok;
}

bool paint_neuron(painting *p) {
  int row = p->s->token < 0 ? p->at.rows - 1 : p->s->token, size[4];
  int end =
      flag(p->at.role, "causal") ? row + 1 : flag(p->at.role, "real_keys");
  int first = end > PAINT_KEYS ? end - PAINT_KEYS : 0;
  fetched f;
  attend_json_writer q = question_about(p->v, &p->at, true);
  json_number(&q, "row", row);
  json_number(&q, "rows", 1);
  json_number(&q, "key", first);
  json_number(&q, "keys", end - first);
  bool ok = paint_ask(p, "vectors", &q, &f);
  if (ok) {
    static const char *const names[] = {"q", "k", "v", "out", "weights"};
    float *x[5];
    for (int i = 0; i < 5; i++) x[i] = fetched_part(&f, names[i], size);
    picture_neuron_data d = {p->about,
                             p->rows.text[row],
                             row,
                             {p->keys.text + first, end - first},
                             first,
                             flag(p->at.role, "dim"),
                             flag(p->at.role, "dim_v"),
                             fetched_number(&f, "scale"),
                             x[0],
                             x[1],
                             x[2],
                             x[4],
                             x[3]};
    ok = paint_fail(p, picture_neuron(&d, &p->look, p->out));
    for (int i = 0; i < 5; i++) free(x[i]);
  }
  fetched_free(&f);
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
                             .is_signed = flag(p->at.role, "signed"),
                             .token = p->s->token,
                             .key = p->s->key};
    if (p->terminal)
      terminal_matrix(stdout, &d, p->terminal);
    else
      ok = paint_fail(p, picture_matrix(&d, &p->look, p->out));
  }
  grid_free(&g);
  return ok;
}

/* layers + 1 rows of the answer, the last layer first, into [layers + 1][T]. */
static void read_shares(const painting *p, const attend_json *layers,
                        float *shares) {
  for (int i = 0; i <= p->at.layers; i++) {
    const attend_json *list = attend_json_at(layers, (size_t)i);
    float *row = shares + (size_t)(p->at.layers - i) * (size_t)p->at.rows;
    for (size_t j = 0; j < attend_json_count(list); j++) {
      const attend_json *x = attend_json_at(list, j);
      bool pair = attend_json_kind_of(x) == ATTEND_JSON_ARRAY;
      double at = attend_json_number(pair ? attend_json_at(x, 0) : x, 0);
      row[(int)at] =
          pair ? (float)attend_json_number(attend_json_at(x, 1), 0) : 1;
    }
  }
}

static picture_edge *read_edges(const attend_json *list, int *n) {
  *n = (int)attend_json_count(list);
  picture_edge *edges = need((size_t)*n + 1, sizeof *edges);
  for (int i = 0; i < *n; i++) {
    int x[4];
    for (size_t j = 0; j < 4; j++)
      x[j] = (int)attend_json_number(
          attend_json_at(attend_json_at(list, (size_t)i), j), 0);
    edges[i] = (picture_edge){x[0], x[1], x[2], x[3]};
  }
  return edges;
}

bool paint_flow(painting *p) {
  int token = p->s->token < 0 ? p->at.rows - 1 : p->s->token;
  bool rollout = strcmp(p->s->way, "argmax");
  fetched f;
  subject followed = subject_followed(&p->at);
  attend_json_writer q = question_about(p->v, &followed, false);
  json_number(&q, "token", token);
  json_text(&q, "way", p->s->way);
  bool ok = paint_ask(p, "flow", &q, &f);
  if (ok) {
    size_t n = (size_t)(p->at.layers + 1) * (size_t)p->at.rows;
    float *shares = need(n, sizeof *shares);
    uint8_t *reached = need(n, 1);
    int count = 0;
    picture_edge *edges = read_edges(attend_json_get(f.root, "edges"), &count);
    read_shares(p, attend_json_get(f.root, "layers"), shares);
    for (size_t i = 0; i < n; i++) reached[i] = shares[i] > 0;
    picture_flow_data d = {p->about, p->rows, p->at.layers, token,
                           NULL,     NULL,    edges,        count};
    if (rollout)
      d.shares = shares;
    else
      d.reached = reached;
    d.about.layer = d.about.head = -1;
    ok = paint_fail(p, picture_flow(&d, &p->look, p->out));
    free(edges);
    free(reached);
    free(shares);
  }
  fetched_free(&f);
  return ok;
}
