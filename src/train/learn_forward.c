/* A lesson forward: layers that leave a trail.
 *
 * Place: train/ - see learner.h. The same layers as model/block.c computes, on
 * whole sequences at once, without caches.
 */
#include "train/learner.h"

void learn_norm_rows(attend_learner *l, const learn_norm *n, int rows,
                     int width, const float *x, float *y) {
  int ld = padded(width);
  if (l->config.rms)
    attend_rms_norm(l->ctx, rows, width, x, ld, n->w, l->config.norm_eps, y,
                    ld);
  else
    attend_layer_norm(l->ctx, rows, width, x, ld, n->w, n->b,
                      l->config.norm_eps, y, ld);
}

/* place: 0 embeddings, then three for each layer. The same call drops what comes
 * back. */
void learn_drop(attend_learner *l, const learn_stack *s, int place, float *x) {
  int width = s->shape->width, ld = padded(width);
  if (!(l->options.dropout > 0) || l->lesson->quiet) return;
  uint64_t stream = (l->lesson->step * 4096 + (uint64_t)place) * 2 + s->encoder;
  attend_dropout(l->ctx, (attend_random){l->options.seed, stream}, 0,
                 l->options.dropout, s->rows, width, x, ld, x, ld);
}

static void forward(const learn_linear *w, int rows, const float *x, int ldx,
                    float *y) {
  attend_linear_forward(w->go, rows, x, ldx, y, padded(w->outputs));
}

/* Heads of `width` side by side in rows of ld floats. */
attend_view learn_heads(const float *data, int length, int ld, int width) {
  return (attend_view){(void *)data, {(ptrdiff_t)length * ld, width, ld, 1}};
}

/* ---- branches ---------------------------------------------------------------------- */

static const float *branch_input(attend_learner *l, const learn_stack *s,
                                 const learn_norm *n, const float *x) {
  if (l->config.post_norm) return x;
  learn_norm_rows(l, n, s->rows, s->shape->width, x, l->h);
  return l->h;
}

/* sum <- sum + x; what the next branch reads. */
static const float *branch_output(attend_learner *l, const learn_stack *s,
                                  const learn_norm *n, int place,
                                  const float *x, float *sum) {
  int width = s->shape->width, ld = padded(width);
  learn_drop(l, s, place, sum);
  attend_add(l->ctx, s->rows, width, x, ld, sum, ld, sum, ld);
  if (!l->config.post_norm) return sum;
  learn_norm_rows(l, n, s->rows, width, sum, l->middle);
  return l->middle;
}

static void turn(attend_learner *l, const learn_stack *s, int number,
                 float *qkv, int ld) {
  const attend_stack *w = s->shape;
  if (l->frequency)
    attend_rope_turn(l->ctx, l->frequency, l->stretch, s->rows,
                     w->heads + w->kv_heads, w->dim, s->position, qkv, ld);
  if (!l->config.score_by_layer) return;
  for (int i = 0; i < s->rows; i++)
    for (int j = 0; j < w->heads * w->dim; j++)
      qkv[(size_t)i * (size_t)ld + (size_t)j] /= (float)(number + 1);
}

static attend_status learn_self(attend_learner *l, learn_stack *s, int i,
                                learn_trail *t) {
  const attend_stack *w = s->shape;
  const learn_layer *p = &s->layers[i];
  int ld = padded(p->qkv.outputs), ldo = padded(w->heads * w->dim_v);
  const float *from = branch_input(l, s, &p->self_norm, t->x);
  forward(&p->qkv, s->rows, from, padded(w->width), t->qkv);
  turn(l, s, i, t->qkv, ld);
  float *k = t->qkv + w->heads * w->dim, *v = k + w->kv_heads * w->dim;
  ATTEND_TRY(attend_forward(s->plan, learn_heads(t->qkv, s->length, ld, w->dim),
                            learn_heads(k, s->length, ld, w->dim),
                            learn_heads(v, s->length, ld, w->dim_v),
                            learn_heads(t->mix, s->length, ldo, w->dim_v),
                            t->lse));
  forward(&p->out, s->rows, t->mix, ldo, t->self);
  return ATTEND_OK;
}

static attend_status learn_cross(attend_learner *l, learn_stack *s, int i,
                                 const float *x, learn_trail *t) {
  const attend_stack *w = s->shape;
  const learn_layer *p = &s->layers[i];
  const learn_stack *e = &l->encoder;
  int ldq = padded(p->cross_q.outputs), ld = padded(p->cross_kv.outputs);
  int ldo = padded(w->heads * w->dim_v);
  const float *from = branch_input(l, s, &p->cross_norm, x);
  forward(&p->cross_q, s->rows, from, padded(w->width), t->cross_q);
  forward(&p->cross_kv, e->rows, e->hidden, padded(e->shape->width),
          t->cross_kv);
  float *v = t->cross_kv + w->kv_heads * w->dim;
  ATTEND_TRY(attend_forward(
      s->cross_plan, learn_heads(t->cross_q, s->length, ldq, w->dim),
      learn_heads(t->cross_kv, e->length, ld, w->dim),
      learn_heads(v, e->length, ld, w->dim_v),
      learn_heads(t->cross_mix, s->length, ldo, w->dim_v), t->cross_lse));
  forward(&p->cross_out, s->rows, t->cross_mix, ldo, t->cross);
  return ATTEND_OK;
}

void learn_activate(attend_learner *l, const learn_stack *s, const float *up,
                    float *y) {
  const attend_config *c = &l->config;
  int inside = s->shape->mlp, ld = padded(inside * (1 + c->gated));
  if (c->gated)
    attend_gate(l->ctx, c->activation, s->rows, inside, up, ld, up + inside, ld,
                y, padded(inside));
  else
    attend_activate(l->ctx, c->activation, s->rows, inside, up, ld, y,
                    padded(inside));
}

static void learn_mlp(attend_learner *l, learn_stack *s, int i, const float *x,
                      learn_trail *t, float *out) {
  const learn_layer *p = &s->layers[i];
  const float *from = branch_input(l, s, &p->mlp_norm, x);
  float *sum = l->config.post_norm ? t->mlp : out;
  forward(&p->up, s->rows, from, padded(s->shape->width), t->up);
  if (!sum) return; /* nobody asks what it gives */
  learn_activate(l, s, t->up, l->wide);
  forward(&p->down, s->rows, l->wide, padded(s->shape->mlp), sum);
  learn_drop(l, s, 3 * i + 3, sum);
  int width = s->shape->width, ld = padded(width);
  attend_add(l->ctx, s->rows, width, x, ld, sum, ld, sum, ld);
  if (l->config.post_norm && out)
    learn_norm_rows(l, &p->mlp_norm, s->rows, width, sum, out);
}

attend_status layer_learn(attend_learner *l, learn_stack *s, int i,
                          learn_trail *t, float *out) {
  const learn_layer *p = &s->layers[i];
  ATTEND_TRY(learn_self(l, s, i, t));
  const float *x = branch_output(l, s, &p->self_norm, 3 * i + 1, t->x, t->self);
  if (p->cross_q.w) {
    ATTEND_TRY(learn_cross(l, s, i, x, t));
    x = branch_output(l, s, &p->cross_norm, 3 * i + 2, x, t->cross);
  }
  learn_mlp(l, s, i, x, t, out);
  return ATTEND_OK;
}

attend_status stack_learn(attend_learner *l, learn_stack *s) {
  const attend_stack *w = s->shape;
  embed_forward(l, s);
  for (int i = 0; i < w->layers; i++) {
    float *out = i + 1 < w->layers      ? s->trails[i + 1].x
                 : l->config.final_norm ? s->last
                                        : s->hidden;
    ATTEND_TRY(layer_learn(l, s, i, &s->trails[i], out));
  }
  if (l->config.final_norm)
    learn_norm_rows(l, &s->final_norm, s->rows, w->width, s->last, s->hidden);
  return ATTEND_OK;
}
