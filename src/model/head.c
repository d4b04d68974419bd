/* The head (lm_head): hidden states to logits, and their gradients.
 *
 * session_logits.c and train/ choose the rows. A head may transform rows first
 * (masked language models) and cap its logits.
 */
#include "model/transformer.h"

int head_ld(const attend_model *m, const stack *s) {
  const int in = padded(s->shape->width), out = padded(m->transform.outputs);
  return in > out ? in : out;
}

const float *head_forward(const pass *p, const head_rows *h) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const float *from = h->x;
  if (m->transform.go) {
    multiply_rows(p, &m->transform, h->rows, h->x, h->ld, h->dense, h->ld);
    from = h->dense;
    if (c->head_activation)
      OP(p->ctx, activate, .f = c->head_activation, .rows = h->rows, .width = width, .a = h->dense,
         .lda = h->ld, .y = h->shaped, .ldy = h->ld);
    if (c->head_activation) from = h->shaped;
    if (m->transform_norm.w) {
      OP(p->ctx, norm, .rows = h->rows, .width = width, .x = from, .ldx = h->ld,
         .weight = m->transform_norm.w, .bias = m->transform_norm.b, .eps = c->norm_eps,
         .y = h->normed, .ldy = h->ld);
      from = h->normed;
    }
  }
  multiply_rows(p, &m->head, h->rows, from, h->ld, h->logits, h->ldl);
  if (c->logit_cap > 0)
    OP(p->ctx, soft_cap, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap, .x = h->logits,
       .ldx = h->ldl);
  if (h->capped)
    OP(p->ctx, gather, .rows = h->rows, .width = h->ldl, .factor = 1, .x = h->logits, .ldx = h->ldl,
       .y = h->capped, .ldy = h->ldl);
  return from;
}

void head_back(const pass *p, const head_rows *h, const float *read, float *d) {
  const attend_config *c = &p->model->config;
  if (h->capped)
    OP(p->ctx, soft_cap_back, .rows = h->rows, .width = c->vocab, .cap = c->logit_cap,
       .y = h->capped, .ldy = h->ldl, .dx = h->logits, .lddx = h->ldl);
  multiply_back(p, &p->model->head, h->rows, read, h->ld, h->logits, h->ldl, false, d, h->ld);
}

/* The buffers of the forward pass receive the gradients of their contents. */
void head_transform_back(const pass *p, const head_rows *h, float *d) {
  const attend_model *m = p->model;
  const attend_config *c = &m->config;
  const int width = m->transform.outputs;
  const norm_weights *n = &m->transform_norm;
  const float *dy = d, *shaped = c->head_activation ? h->shaped : h->dense;
  if (!m->transform.go) return;
  if (n->w) {
    OP(p->ctx, norm_back, .rows = h->rows, .width = width, .x = shaped, .ldx = h->ld,
       .weight = n->w, .eps = c->norm_eps, .dy = dy, .lddy = h->ld, .dx = h->normed, .lddx = h->ld,
       .dweight = n->dw, .dbias = n->db, .work = p->back.scratch);
    dy = h->normed;
  }
  if (c->head_activation) {
    OP(p->ctx, activate_back, .f = c->head_activation, .rows = h->rows, .width = width,
       .a = h->dense, .lda = h->ld, .dy = dy, .lddy = h->ld, .da = h->shaped, .ldda = h->ld);
    dy = h->shaped;
  }
  if (dy == d) {
    OP(p->ctx, gather, .rows = h->rows, .width = width, .factor = 1, .x = d, .ldx = h->ld,
       .y = h->shaped, .ldy = h->ld);
    dy = h->shaped;
  }
  multiply_back(p, &m->transform, h->rows, h->x, h->ld, dy, h->ld, false, d, h->ld);
}
