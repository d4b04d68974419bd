/* A lesson backward: from the gradient of what a side gives to that of its
 * embeddings, each layer's parameters on the way.
 *
 * Place: train/ - see learner.h. What is cheap to compute again (norms,
 * activations) is not kept.
 */
#include <string.h>

#include "train/learner.h"

void learn_norm_back(attend_learner *l, const learn_norm *n, int rows,
                     int width, const float *x, const float *dy, bool add,
                     float *dx) {
  int ld = padded(width);
  if (l->config.rms)
    attend_rms_norm_back(l->ctx, rows, width, x, ld, n->w, l->config.norm_eps,
                         dy, ld, add, dx, ld, n->dw, l->scratch);
  else
    attend_layer_norm_back(l->ctx, rows, width, x, ld, n->w, l->config.norm_eps,
                           dy, ld, add, dx, ld, n->dw, n->db, l->scratch);
}

void linear_unlearn(attend_learner *l, const learn_linear *w, int rows,
                    const float *x, int ldx, const float *dy, int lddy,
                    bool add, float *dx, int lddx) {
  attend_linear_weight_grad(l->ctx, l->options.weights, rows, w->outputs,
                            w->inputs, dy, lddy, x, ldx, 0, 1, w->dw, w->inputs,
                            w->db, l->scratch);
  if (!dx) return;
  if (add)
    attend_linear_forward_add(w->back, rows, dy, lddy, dx, lddx);
  else
    attend_linear_forward(w->back, rows, dy, lddy, dx, lddx);
}

/* ---- branches ------------------------------------------------------------------------ */

typedef struct {
  attend_learner *l;
  learn_stack *s;
  const learn_layer *p;
  learn_trail *t;
  int i;
  float *dx; /* [rows][ldx] of what the branch gave; of what it read */
} branch;

static int width_of(const branch *b) { return b->s->shape->width; }
static size_t row_bytes(const branch *b) {
  return (size_t)b->s->rows * (size_t)padded(width_of(b)) * sizeof(float);
}

/* Through the norm behind the sum, and dropout: the gradient of what the branch
 * added. */
static const float *enter(const branch *b, const learn_norm *n, int place,
                          const float *sum) {
  attend_learner *l = b->l;
  if (l->config.post_norm)
    learn_norm_back(l, n, b->s->rows, width_of(b), sum, b->dx, false, b->dx);
  if (!(l->options.dropout > 0)) return b->dx;
  memcpy(l->dh, b->dx, row_bytes(b));
  learn_drop(l, b->s, place, l->dh);
  return l->dh;
}

/* What the branch's first product read, of x. */
static const float *read_again(const branch *b, const learn_norm *n,
                               const float *x) {
  if (b->l->config.post_norm) return x;
  learn_norm_rows(b->l, n, b->s->rows, width_of(b), x, b->l->h);
  return b->l->h;
}

/* dh, of what that product read, joins dx. */
static void leave(const branch *b, const learn_norm *n, const float *x,
                  const float *dh) {
  attend_learner *l = b->l;
  int ld = padded(width_of(b));
  if (l->config.post_norm)
    attend_add(l->ctx, b->s->rows, width_of(b), b->dx, ld, dh, ld, b->dx, ld);
  else
    learn_norm_back(l, n, b->s->rows, width_of(b), x, dh, true, b->dx);
}

/* What a branch was given: the sum before it, or that after its norm. */
static const float *given(const branch *b, const learn_norm *n,
                          const float *sum) {
  if (!b->l->config.post_norm) return sum;
  learn_norm_rows(b->l, n, b->s->rows, width_of(b), sum, b->l->middle);
  return b->l->middle;
}

static void unlearn_mlp(const branch *b) {
  attend_learner *l = b->l;
  const attend_config *c = &l->config;
  int rows = b->s->rows, inside = b->s->shape->mlp, ldi = padded(inside);
  int ldu = padded(inside * (1 + c->gated)), ldx = padded(width_of(b));
  bool cross = b->p->cross_q.w != NULL;
  const float *x = given(b, cross ? &b->p->cross_norm : &b->p->self_norm,
                         cross ? b->t->cross : b->t->self);
  const float *dy = enter(b, &b->p->mlp_norm, 3 * b->i + 3, b->t->mlp);
  learn_activate(l, b->s, b->t->up, l->wide);
  linear_unlearn(l, &b->p->down, rows, l->wide, ldi, dy, ldx, false, l->d_mix,
                 ldi);
  if (c->gated)
    attend_gate_back(l->ctx, c->activation, rows, inside, b->t->up, ldu,
                     b->t->up + inside, ldu, l->d_mix, ldi, l->d_wide, ldu,
                     l->d_wide + inside, ldu);
  else
    attend_activate_back(l->ctx, c->activation, rows, inside, b->t->up, ldu,
                         l->d_mix, ldi, l->d_wide, ldu);
  const float *from = read_again(b, &b->p->mlp_norm, x);
  linear_unlearn(l, &b->p->up, rows, from, ldx, l->d_wide, ldu, false, l->dh,
                 ldx);
  leave(b, &b->p->mlp_norm, x, l->dh);
}

static attend_status unlearn_cross(const branch *b) {
  attend_learner *l = b->l;
  learn_stack *s = b->s, *e = &l->encoder;
  const attend_stack *w = s->shape;
  const learn_layer *p = b->p;
  learn_trail *t = b->t;
  int ldx = padded(w->width), ldo = padded(w->heads * w->dim_v);
  int ldq = padded(p->cross_q.outputs), ld = padded(p->cross_kv.outputs);
  const float *x = given(b, &p->self_norm, t->self);
  const float *dy = enter(b, &p->cross_norm, 3 * b->i + 2, t->cross);
  linear_unlearn(l, &p->cross_out, s->rows, t->cross_mix, ldo, dy, ldx, false,
                 l->d_mix, ldo);
  float *v = t->cross_kv + w->kv_heads * w->dim;
  float *dq = l->wide, *dk = l->d_wide, *dv = dk + w->kv_heads * w->dim;
  ATTEND_TRY(attend_backward(
      s->cross_plan, learn_heads(t->cross_q, s->length, ldq, w->dim),
      learn_heads(t->cross_kv, e->length, ld, w->dim),
      learn_heads(v, e->length, ld, w->dim_v),
      learn_heads(t->cross_mix, s->length, ldo, w->dim_v), t->cross_lse,
      learn_heads(l->d_mix, s->length, ldo, w->dim_v),
      learn_heads(dq, s->length, ldq, w->dim),
      learn_heads(dk, e->length, ld, w->dim),
      learn_heads(dv, e->length, ld, w->dim_v), NULL));
  linear_unlearn(l, &p->cross_kv, e->rows, e->hidden, padded(e->shape->width),
                 dk, ld, true, e->d_hidden, padded(e->shape->width));
  const float *from = read_again(b, &p->cross_norm, x);
  linear_unlearn(l, &p->cross_q, s->rows, from, ldx, dq, ldq, false, l->dh,
                 ldx);
  leave(b, &p->cross_norm, x, l->dh);
  return ATTEND_OK;
}

/* The gradients of q and k before they were turned. */
static void turn_back(const branch *b, float *dqkv, int ld) {
  attend_learner *l = b->l;
  const attend_stack *w = b->s->shape;
  if (l->config.score_by_layer)
    for (int i = 0; i < b->s->rows; i++)
      for (int j = 0; j < w->heads * w->dim; j++)
        dqkv[(size_t)i * (size_t)ld + (size_t)j] /= (float)(b->i + 1);
  if (l->frequency)
    attend_rope_turn_back(l->ctx, l->frequency, l->stretch, b->s->rows,
                          w->heads + w->kv_heads, w->dim, b->s->position, dqkv,
                          ld);
}

static void add_bias_gradient(const branch *b) {
  learn_table *r = &b->s->relative;
  if (!r->w) return;
  for (int i = 0; i < r->entries * b->s->shape->heads; i++)
    r->dw[i] += b->l->d_bias[i];
}

static attend_status unlearn_self(const branch *b) {
  attend_learner *l = b->l;
  learn_stack *s = b->s;
  const attend_stack *w = s->shape;
  const learn_layer *p = b->p;
  learn_trail *t = b->t;
  int ldx = padded(w->width), ldo = padded(w->heads * w->dim_v);
  int ld = padded(p->qkv.outputs);
  const float *dy = enter(b, &p->self_norm, 3 * b->i + 1, t->self);
  linear_unlearn(l, &p->out, s->rows, t->mix, ldo, dy, ldx, false, l->d_mix,
                 ldo);
  float *k = t->qkv + w->heads * w->dim, *v = k + w->kv_heads * w->dim;
  float *dq = l->d_wide, *dk = dq + w->heads * w->dim,
        *dv = dk + w->kv_heads * w->dim;
  ATTEND_TRY(
      attend_backward(s->plan, learn_heads(t->qkv, s->length, ld, w->dim),
                      learn_heads(k, s->length, ld, w->dim),
                      learn_heads(v, s->length, ld, w->dim_v),
                      learn_heads(t->mix, s->length, ldo, w->dim_v), t->lse,
                      learn_heads(l->d_mix, s->length, ldo, w->dim_v),
                      learn_heads(dq, s->length, ld, w->dim),
                      learn_heads(dk, s->length, ld, w->dim),
                      learn_heads(dv, s->length, ld, w->dim_v),
                      s->relative.w ? l->d_bias : NULL));
  add_bias_gradient(b);
  turn_back(b, dq, ld);
  const float *from = read_again(b, &p->self_norm, t->x);
  linear_unlearn(l, &p->qkv, s->rows, from, ldx, dq, ld, false, l->dh, ldx);
  leave(b, &p->self_norm, t->x, l->dh);
  return ATTEND_OK;
}

attend_status stack_unlearn(attend_learner *l, learn_stack *s, float *dx) {
  if (l->config.final_norm)
    learn_norm_back(l, &s->final_norm, s->rows, s->shape->width, s->last, dx,
                    false, dx);
  for (int i = s->shape->layers - 1; i >= 0; i--) {
    branch b = {l, s, &s->layers[i], &s->trails[i], i, dx};
    if (l->options.recompute)
      ATTEND_TRY(layer_learn(l, s, i, &s->trails[i], NULL));
    unlearn_mlp(&b);
    if (b.p->cross_q.w) ATTEND_TRY(unlearn_cross(&b));
    ATTEND_TRY(unlearn_self(&b));
  }
  embed_backward(l, s, dx);
  return ATTEND_OK;
}
