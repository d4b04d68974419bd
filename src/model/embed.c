/* Embeddings: token, position and type tables to the residual stream, and their
 * gradients.
 *
 * Tables may be narrower than the model: either token rows are projected before
 * positions are added (an encoder and a decoder of two widths), or the sum after its
 * norm (ALBERT's factorised embeddings).
 */
#include "model/transformer.h"

static bool projects_all(const attend_model *m, const stack *s) {
  return s->projection.go && m->config.embed_width;
}

int embed_width(const attend_model *m, const stack *s) {
  return projects_all(m, s) ? m->config.embed_width : s->shape->width;
}

bool embeds_apart(const attend_model *m, const stack *s) {
  return m->config.embed_norm || projects_all(m, s);
}

/* to (+)= rows of a table, as wide as it is. */
static void look_up(const pass *p, const table_weights *t, int width, const int32_t *ids,
                    int offset, float factor, bool add, float *to) {
  OP(p->ctx, embed, .table = t->t, .rows = p->rows, .width = width, .ids = ids, .offset = offset,
     .factor = factor, .add = add, .y = to, .ldy = padded(width));
}

static void embed_tokens(const pass *p, int width, const int32_t *ids, float *to) {
  const linear_weights *w = &p->side->projection;
  bool narrow = w->go && !p->model->config.embed_width;
  look_up(p, &p->model->tokens, narrow ? w->inputs : width, ids, 0, p->model->config.embed_factor,
          false, narrow ? p->h : to);
  if (narrow) multiply_rows(p, w, p->rows, p->h, padded(w->inputs), to, padded(width));
}

void embed_forward(const pass *p, const int32_t *ids, const int32_t *types, float *sum, float *x) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), ld = padded(width), rows = p->rows;
  float *normed = projects_all(m, s) ? p->h : x;
  embed_tokens(p, width, ids, sum);
  if (c->position == ATTEND_POSITIONS_SINUSOIDAL)
    OP(p->ctx, sinusoidal, .rows = rows, .width = width, .position = p->position, .y = sum,
       .ldy = ld);
  if (s->positions.t.data)
    look_up(p, &s->positions, width, p->position, c->position_offset, 1, true, sum);
  if (s->types.t.data) look_up(p, &s->types, width, types, 0, 1, true, sum);
  if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, sum, normed);
  if (projects_all(m, s))
    multiply_rows(p, &s->projection, rows, c->embed_norm ? normed : sum, ld, x,
                  padded(s->shape->width));
  drop_rows(p, 0, x);
}

static void table_back(const pass *p, const table_weights *t, int width, const int32_t *ids,
                       int offset, float factor, const float *dx) {
  if (t->dw)
    OP(p->ctx, embed_back, .rows = p->rows, .width = width, .entries = t->t.entries, .ids = ids,
       .offset = offset, .factor = factor, .dy = dx, .lddy = padded(width), .dtable = t->dw);
}

static void embed_tokens_back(const pass *p, int width, const int32_t *ids, const float *dx) {
  const linear_weights *w = &p->side->projection;
  const table_weights *t = &p->model->tokens;
  if (w->go && !p->model->config.embed_width) {
    look_up(p, t, w->inputs, ids, 0, p->model->config.embed_factor, false, p->h);
    multiply_back(p, w, p->rows, p->h, padded(w->inputs), dx, padded(width), false, p->back.dh,
                  padded(w->inputs));
    dx = p->back.dh;
    width = w->inputs;
  }
  table_back(p, t, width, ids, 0, p->model->config.embed_factor, dx);
}

void embed_backward(const pass *p, const int32_t *ids, const int32_t *types, const float *sum,
                    float *dx) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const stack *s = p->side;
  const int width = embed_width(m, s), ld = padded(width), rows = p->rows;
  drop_rows(p, 0, dx);
  if (projects_all(m, s)) {
    const float *from = c->embed_norm ? p->h : sum;
    if (c->embed_norm) norm_rows(p, &s->embed_norm, rows, width, sum, p->h);
    multiply_back(p, &s->projection, rows, from, ld, dx, padded(s->shape->width), false, p->back.dh,
                  ld);
    dx = p->back.dh;
  }
  if (c->embed_norm) norm_rows_back(p, &s->embed_norm, rows, width, sum, dx, false, dx);
  table_back(p, &s->types, width, types, 0, 1, dx);
  table_back(p, &s->positions, width, p->position, c->position_offset, 1, dx);
  embed_tokens_back(p, width, ids, dx);
}
