/* The two ends of a lesson: embeddings, and the head with the loss.
 *
 * Place: train/ - see learner.h. The head looks at the places that are scored
 * and no others, some at a time: logits of all of them are never there at once.
 */
#include <string.h>

#include "train/learner.h"

/* ---- embeddings --------------------------------------------------------------------- */

static attend_table table_of(const learn_table *t) {
  return (attend_table){t->w, ATTEND_F32, t->entries};
}

static void add_positions(attend_learner *l, learn_stack *s, float *x) {
  int width = s->shape->width, ld = padded(width);
  if (s->positions.w) {
    attend_table t = table_of(&s->positions);
    int32_t *row = (int32_t *)l->wide;
    for (int i = 0; i < s->rows; i++)
      row[i] = s->position[i] + l->config.position_offset;
    attend_embed(l->ctx, &t, s->rows, width, row, 1, 1, x, ld);
  }
  if (l->config.position != ATTEND_POSITIONS_SINUSOIDAL) return;
  for (int i = 0; i < s->rows; i++) {
    float *to = x + (size_t)i * (size_t)ld;
    attend_sinusoidal(s->position[i], width, l->wide);
    for (int j = 0; j < width; j++) to[j] += l->wide[j];
  }
}

static const int32_t *types_of(attend_learner *l, const learn_stack *s) {
  if (s->given_types) return s->given_types;
  memset(l->wide, 0, (size_t)s->rows * sizeof(int32_t));
  return (const int32_t *)l->wide;
}

/* The tokens' rows, as wide as the table is. */
static void look_up(attend_learner *l, const learn_stack *s, int width,
                    float *to) {
  attend_table tokens = table_of(&l->tokens);
  attend_embed(l->ctx, &tokens, s->rows, width, s->ids, l->config.embed_factor,
               0, to, padded(width));
}

static void embed_tokens(attend_learner *l, const learn_stack *s, float *to) {
  const learn_linear *p = &s->projection;
  int width = s->shape->width;
  look_up(l, s, p->w ? p->inputs : width, p->w ? l->h : to);
  if (p->w)
    attend_linear_forward(p->go, s->rows, l->h, padded(p->inputs), to,
                          padded(width));
}

static void embed_tokens_back(attend_learner *l, const learn_stack *s,
                              const float *dx) {
  const learn_linear *p = &s->projection;
  int width = p->w ? p->inputs : s->shape->width, ld = padded(width);
  if (p->w) {
    look_up(l, s, width, l->h);
    linear_unlearn(l, p, s->rows, l->h, ld, dx, padded(s->shape->width), false,
                   l->dh, ld);
    dx = l->dh;
  }
  attend_embed_back(l->ctx, s->rows, width, s->ids, l->config.embed_factor, dx,
                    ld, l->tokens.entries, l->tokens.dw);
}

void embed_forward(attend_learner *l, learn_stack *s) {
  int width = s->shape->width, ld = padded(width);
  float *x = s->trails[0].x, *sum = l->config.embed_norm ? s->embedded : x;
  attend_table types = table_of(&s->types);
  embed_tokens(l, s, sum);
  add_positions(l, s, sum);
  if (s->types.w)
    attend_embed(l->ctx, &types, s->rows, width, types_of(l, s), 1, 1, sum, ld);
  if (l->config.embed_norm)
    learn_norm_rows(l, &s->embed_norm, s->rows, width, sum, x);
  learn_drop(l, s, 0, x);
}

void embed_backward(attend_learner *l, learn_stack *s, float *dx) {
  int width = s->shape->width, ld = padded(width);
  learn_drop(l, s, 0, dx);
  if (l->config.embed_norm)
    learn_norm_back(l, &s->embed_norm, s->rows, width, s->embedded, dx, false,
                    dx);
  embed_tokens_back(l, s, dx);
  if (s->types.w)
    attend_embed_back(l->ctx, s->rows, width, types_of(l, s), 1, dx, ld,
                      s->types.entries, s->types.dw);
  if (!s->positions.w) return;
  int32_t *row = (int32_t *)l->wide;
  for (int i = 0; i < s->rows; i++)
    row[i] = s->position[i] + l->config.position_offset;
  attend_embed_back(l->ctx, s->rows, width, row, 1, dx, ld,
                    s->positions.entries, s->positions.dw);
}

/* ---- the head --------------------------------------------------------------------------- */

typedef struct {
  attend_learner *l;
  learn_stack *s;
  int width;
  learn_places at;
  float *x, *dense, *shaped, *normed, *d; /* [HEAD][ld] each */
} heading;

static void gather(heading *h) {
  float factor = h->l->config.head_factor;
  for (int i = 0; i < h->at.rows; i++) {
    const float *from = h->s->hidden + (size_t)h->at.row[i] * (size_t)h->at.ld;
    float *to = h->x + (size_t)i * (size_t)h->at.ld;
    for (int j = 0; j < h->width; j++) to[j] = factor * from[j];
  }
}

/* What the last product reads. */
static const float *transform(heading *h) {
  attend_learner *l = h->l;
  if (!l->transform.w) return h->x;
  attend_linear_forward(l->transform.go, h->at.rows, h->x, h->at.ld, h->dense,
                        h->at.ld);
  attend_activate(l->ctx, l->config.head_activation, h->at.rows, h->width,
                  h->dense, h->at.ld, h->shaped, h->at.ld);
  attend_layer_norm(l->ctx, h->at.rows, h->width, h->shaped, h->at.ld,
                    l->transform_norm.w, l->transform_norm.b,
                    l->config.norm_eps, h->normed, h->at.ld);
  return h->normed;
}

static void transform_back(heading *h) {
  attend_learner *l = h->l;
  const learn_norm *n = &l->transform_norm;
  if (!l->transform.w) return;
  attend_layer_norm_back(l->ctx, h->at.rows, h->width, h->shaped, h->at.ld,
                         n->w, l->config.norm_eps, h->d, h->at.ld, 0, h->normed,
                         h->at.ld, n->dw, n->db, l->scratch);
  attend_activate_back(l->ctx, l->config.head_activation, h->at.rows, h->width,
                       h->dense, h->at.ld, h->normed, h->at.ld, h->shaped,
                       h->at.ld);
  linear_unlearn(l, &l->transform, h->at.rows, h->x, h->at.ld, h->shaped,
                 h->at.ld, false, h->d, h->at.ld);
}

static void scatter(heading *h) {
  float factor = h->l->config.head_factor;
  for (int i = 0; i < h->at.rows; i++) {
    float *to = h->s->d_hidden + (size_t)h->at.row[i] * (size_t)h->at.ld;
    const float *from = h->d + (size_t)i * (size_t)h->at.ld;
    for (int j = 0; j < h->width; j++) to[j] = factor * from[j];
  }
}

static void study_rows(heading *h, float scale, attend_outcome *outcome) {
  attend_learner *l = h->l;
  const attend_lesson *lesson = l->lesson;
  int vocab = l->config.vocab, ldv = padded(vocab);
  float loss[HEAD_ROWS_AT_ONCE];
  gather(h);
  const float *from = transform(h);
  attend_linear_forward(l->head.go, h->at.rows, from, h->at.ld, l->logits, ldv);
  if (l->copy.q.w)
    copy_study(l, &h->at, from, scale, loss);
  else
    attend_cross_entropy_back(l->ctx, h->at.rows, vocab, l->logits, ldv,
                              h->at.target, lesson->smoothing, scale, loss,
                              l->logits, ldv);
  for (int i = 0; i < h->at.rows; i++) outcome->loss += (double)loss[i];
  if (lesson->quiet) return;
  linear_unlearn(l, &l->head, h->at.rows, from, h->at.ld, l->logits, ldv, false,
                 h->d, h->at.ld);
  if (l->copy.q.w) copy_unlearn(l, &h->at, from, h->d);
  transform_back(h);
  scatter(h);
}

void head_study(attend_learner *l, learn_stack *s, attend_outcome *outcome) {
  const attend_lesson *lesson = l->lesson;
  int width = s->shape->width, ld = padded(width);
  size_t piece = (size_t)HEAD_ROWS_AT_ONCE * (size_t)ld;
  float *r = l->head_rows;
  heading h = {.l = l,
               .s = s,
               .width = width,
               .at.ld = ld,
               .x = r,
               .dense = r + piece,
               .shaped = r + 2 * piece,
               .normed = r + 3 * piece,
               .d = r + 4 * piece};
  memset(s->d_hidden, 0, (size_t)s->rows * (size_t)ld * sizeof *s->d_hidden);
  for (int i = 0; i < s->rows; i++) outcome->scored += lesson->targets[i] >= 0;
  float scale = lesson->scale > 0     ? lesson->scale
                : outcome->scored > 0 ? 1 / (float)outcome->scored
                                      : 0;
  for (int i = 0; i < s->rows; i++) {
    if (lesson->targets[i] >= 0) {
      h.at.row[h.at.rows] = i;
      h.at.target[h.at.rows++] = lesson->targets[i];
    }
    bool full = h.at.rows == HEAD_ROWS_AT_ONCE || i + 1 == s->rows;
    if (!full || !h.at.rows) continue;
    study_rows(&h, scale, outcome);
    h.at.rows = 0;
  }
}
