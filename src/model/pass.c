/* Steps of a pass that layers, embeddings and head share.
 *
 * Place: model/ - between them and the device's ops.
 */
#include "model/transformer.h"

void norm_rows(const pass *p, const norm_weights *w, int rows, int width,
               const float *x, float *y) {
  const attend_config *c = &p->model->config;
  OP(p->ctx, norm, .rms = c->rms, .rows = rows, .width = width, .x = x,
     .ldx = padded(width), .weight = w->w, .bias = w->b, .eps = c->norm_eps,
     .y = y, .ldy = padded(width));
}

void norm_rows_back(const pass *p, const norm_weights *w, int rows, int width,
                    const float *x, const float *dy, bool add, float *dx) {
  const attend_config *c = &p->model->config;
  const int ld = padded(width);
  OP(p->ctx, norm_back, .rms = c->rms, .add = add, .rows = rows, .width = width,
     .x = x, .ldx = ld, .weight = w->w, .eps = c->norm_eps, .dy = dy,
     .lddy = ld, .dx = dx, .lddx = ld, .dweight = w->dw,
     .dbias = c->rms ? NULL : w->db, .work = p->back.scratch);
}

void multiply_rows(const pass *p, const linear_weights *w, int rows,
                   const float *x, int ldx, float *y, int ldy) {
  OP(p->ctx, linear, .linear = w->go, .rows = rows, .x = x, .ldx = ldx, .y = y,
     .ldy = ldy);
}

void multiply_back(const pass *p, const linear_weights *w, int rows,
                   const float *x, int ldx, const float *dy, int lddy, bool add,
                   float *dx, int lddx) {
  OP(p->ctx, linear_grad, .kind = p->model->weights, .rows = rows,
     .outputs = w->outputs, .inputs = w->inputs, .dy = dy, .lddy = lddy, .x = x,
     .ldx = ldx, .dw = w->dw, .db = w->db, .work = p->back.scratch);
  if (dx)
    OP(p->ctx, linear, .linear = w->back, .rows = rows, .x = dy, .ldx = lddy,
       .y = dx, .ldy = lddx, .add = add);
}

void drop_rows(const pass *p, int place, float *x) {
  const int width = p->side->shape->width;
  attend_random random = p->dropout;
  if (!(p->drop > 0)) return;
  random.stream = (random.stream + (uint64_t)place) * 2 + p->side->encoder;
  OP(p->ctx, dropout, .random = random, .p = p->drop, .rows = p->rows,
     .width = width, .x = x, .ldx = padded(width));
}
