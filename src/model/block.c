/* A layer: attention, attention to the encoder, mlp, each in its branch.
 *
 * Place: model/ - what a run does with its rows. A branch is
 *   norms first:  x <- x + f(norm(x))
 *   norms last:   x <- norm(x + f(x))
 */
#include "base/parallel.h"
#include "kernels/kernels.h"
#include "model/transformer.h"

static int rows_of(const attend_session *r) { return r->count * r->n; }

void norm_rows(attend_session *r, const norm *w, int width, const float *x,
               float *y) {
  const attend_config *c = &r->model->config;
  int ld = padded(width);
  if (c->rms)
    attend_rms_norm(r->ctx, rows_of(r), width, x, ld, w->weight, c->norm_eps, y,
                    ld);
  else
    attend_layer_norm(r->ctx, rows_of(r), width, x, ld, w->weight, w->bias,
                      c->norm_eps, y, ld);
}

/* What the branch reads; h afterwards holds what it gives. */
static const float *open_branch(attend_session *r, const norm *w, int width) {
  if (r->model->config.post_norm) return r->x;
  norm_rows(r, w, width, r->x, r->h);
  return r->h;
}

static void close_branch(attend_session *r, const norm *w, int width) {
  int ld = padded(width);
  attend_add(r->ctx, rows_of(r), width, r->x, ld, r->h, ld, r->x, ld);
  if (r->model->config.post_norm) norm_rows(r, w, width, r->x, r->x);
}

/* ---- attention ------------------------------------------------------------------------- */

/* Heads of `width` that lie side by side in rows of ld floats. */
static attend_view heads_at(const attend_session *r, float *data, int ld,
                            int width) {
  return (attend_view){data, {(ptrdiff_t)r->n * ld, width, ld, 1}};
}

static attend_status mix(attend_session *r, const mixing *m, attend_view q,
                         attend_view k, attend_view v, attend_view o,
                         float *lse) {
  if (m->role == ATTEND_DECODER_SELF)
    return attend_extend(m->plan, m->state, r->n, q, k, v, o, lse);
  if (m->state) return attend_state_look(m->plan, m->state, r->n, q, o, lse);
  return attend_forward(m->plan, q, k, v, o, lse);
}

/* From q, k, v in r->qkv to what the heads give in r->mix. */
static attend_status attention(attend_session *r, const mixing *m, int ld) {
  const attend_desc *d = attend_plan_desc(m->plan);
  const int q_width = d->heads * d->dim, k_width = d->kv_heads * d->dim;
  attend_view q = heads_at(r, r->qkv, ld, d->dim);
  attend_view k = heads_at(r, r->qkv + q_width, ld, d->dim);
  attend_view v = heads_at(r, r->qkv + q_width + k_width, ld, d->dim_v);
  attend_view o = heads_at(r, r->mix, padded(d->heads * d->dim_v), d->dim_v);
  if (!r->watch.what) return mix(r, m, q, k, v, o, NULL);
  float *lse;
  ATTEND_TRY(take(r->ctx,
                  SIZE_PRODUCT((size_t)r->batch, (size_t)d->heads, (size_t)r->n,
                               sizeof *lse),
                  "attention that is watched", &lse));
  attend_status status = mix(r, m, q, k, v, o, lse);
  if (!status) status = watch_mixing(r, m, q, k, v, o, lse);
  give(r->ctx, lse);
  return status;
}

static void turn_heads(attend_session *r, const attend_stack *s, int ld) {
  const attend_model *m = r->model;
  if (m->config.position != ATTEND_POSITIONS_ROTARY) return;
  attend_rope_turn(r->ctx, m->frequency, m->stretch, rows_of(r),
                   s->heads + s->kv_heads, s->dim, r->position, r->qkv, ld);
}

typedef struct {
  float *q;
  int ld, n;
  float divisor;
} scaling;

static void scale_row(const void *args, int64_t i, int worker) {
  const scaling *s = args;
  float *q = s->q + i * s->ld;
  (void)worker;
  for (int j = 0; j < s->n; j++) q[j] /= s->divisor;
}

static void scale_queries(attend_session *r, const attend_stack *s, int number,
                          int ld) {
  if (!r->model->config.score_by_layer) return;
  scaling x = {r->qkv, ld, s->heads * s->dim, (float)(number + 1)};
  PARALLEL_FOR(r->ctx, 1, rows_of(r), scale_row, x);
}

/* Queries, keys and values of self-attention into r->qkv. */
static void project(attend_session *r, const stack *s, int number, int ld) {
  const layer *w = &s->layers[number];
  const float *from = open_branch(r, &w->self_norm, s->shape->width);
  attend_linear_forward(w->qkv, rows_of(r), from, padded(s->shape->width),
                        r->qkv, ld);
  turn_heads(r, s->shape, ld);
  scale_queries(r, s->shape, number, ld);
}

static attend_status self_attention(attend_session *r, const stack *s,
                                    int number) {
  const attend_stack *shape = s->shape;
  const layer *w = &s->layers[number];
  bool encoder = s == &r->model->encoder;
  mixing m = {encoder ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF,
              encoder ? r->encoder_plan : r->self_plan,
              !encoder  ? r->self[number]
              : r->sums ? r->sums[number]
                        : NULL,
              number};
  int ld = padded(attend_linear_outputs(w->qkv)), ldx = padded(shape->width);
  project(r, s, number, ld);
  ATTEND_TRY(attention(r, &m, ld));
  attend_linear_forward(w->out, rows_of(r), r->mix,
                        padded(shape->heads * shape->dim_v), r->h, ldx);
  close_branch(r, &w->self_norm, shape->width);
  return ATTEND_OK;
}

attend_status sums_fill(attend_session *r, int number) {
  const stack *s = &r->model->encoder;
  const attend_stack *x = s->shape;
  int ld = padded(attend_linear_outputs(s->layers[number].qkv));
  project(r, s, number, ld);
  float *k = r->qkv + x->heads * x->dim;
  return attend_state_append(
      r->encoder_plan, r->sums[number], r->n, heads_at(r, k, ld, x->dim),
      heads_at(r, k + x->kv_heads * x->dim, ld, x->dim_v));
}

static attend_status cross_attention(attend_session *r, const stack *s,
                                     int number) {
  const attend_stack *shape = s->shape;
  const layer *w = &s->layers[number];
  if (!w->cross_q) return ATTEND_OK;
  mixing m = {ATTEND_CROSS, r->cross_plan, r->cross[number], number};
  int ld = padded(attend_linear_outputs(w->cross_q));
  int ldx = padded(shape->width);
  const float *from = open_branch(r, &w->cross_norm, shape->width);
  attend_linear_forward(w->cross_q, rows_of(r), from, ldx, r->qkv, ld);
  attend_plan_set_padding(r->cross_plan, r->lengths, NULL);
  ATTEND_TRY(attention(r, &m, ld));
  attend_linear_forward(w->cross_out, rows_of(r), r->mix,
                        padded(shape->heads * shape->dim_v), r->h, ldx);
  close_branch(r, &w->cross_norm, shape->width);
  return ATTEND_OK;
}

attend_status cross_fill(attend_session *r, int count, int n) {
  const stack *s = &r->model->decoder;
  const attend_stack *shape = s->shape;
  int ld = padded(shape->kv_heads * (shape->dim + shape->dim_v));
  int32_t real[1], *lengths = real;
  ATTEND_TRY(take(r->ctx, size_times((size_t)r->batch, sizeof *lengths),
                  "lengths", &lengths));
  attend_status status = ATTEND_OK;
  for (int i = 0; i < shape->layers && !status; i++) {
    attend_linear_forward(s->layers[i].cross_kv, count * n, r->x,
                          padded(r->model->config.encoder.width), r->qkv, ld);
    attend_plan_set_padding(r->cross_plan, lengths, NULL);
    for (int start = 0; start < n && !status; start += r->rows) {
      int piece = (int)min64(r->rows, n - start);
      float *k = r->qkv + (size_t)start * (size_t)ld;
      for (int b = 0; b < r->batch; b++)
        lengths[b] = (int32_t)max64(0, min64(r->lengths[b] - start, piece));
      attend_view keys = heads_at(r, k, ld, shape->dim);
      attend_view values =
          heads_at(r, k + shape->kv_heads * shape->dim, ld, shape->dim_v);
      status =
          attend_state_append(r->cross_plan, r->cross[i], piece, keys, values);
      mixing m = {ATTEND_CROSS, r->cross_plan, r->cross[i], i};
      if (!status) status = watch_keep(r, &m, piece, lengths, keys);
      if (!status) watch_cross(r, &m, piece, lengths, keys, values);
    }
  }
  give(r->ctx, lengths);
  return status;
}

/* ---- mlp and the whole layer ------------------------------------------------------------- */

static void mlp(attend_session *r, const stack *s, int number) {
  const attend_config *c = &r->model->config;
  const layer *w = &s->layers[number];
  const int width = s->shape->width, inside = s->shape->mlp;
  const int ld = padded(attend_linear_outputs(w->up)), ldx = padded(width);
  const float *from = open_branch(r, &w->mlp_norm, width);
  attend_linear_forward(w->up, rows_of(r), from, ldx, r->inside, ld);
  if (c->gated)
    attend_gate(r->ctx, c->activation, rows_of(r), inside, r->inside, ld,
                r->inside + inside, ld, r->inside, ld);
  else
    attend_activate(r->ctx, c->activation, rows_of(r), inside, r->inside, ld,
                    r->inside, ld);
  attend_linear_forward(w->down, rows_of(r), r->inside, ld, r->h, ldx);
  close_branch(r, &w->mlp_norm, width);
}

static void see_stream(attend_session *r, const stack *s, attend_see what,
                       int number) {
  const int width = s->shape->width, ld = padded(width);
  attend_view view = {r->x, {(ptrdiff_t)r->n * ld, 0, ld, 1}};
  run_see(r, what,
          s == &r->model->encoder ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF,
          number, view, (int[4]){r->count, 1, r->n, width});
}

attend_status block_forward(attend_session *r, const stack *s, int number) {
  ATTEND_TRY(watch_stop(r));
  ATTEND_TRY(self_attention(r, s, number));
  ATTEND_TRY(cross_attention(r, s, number));
  see_stream(r, s, ATTEND_SEE_MIDDLE, number);
  mlp(r, s, number);
  return ATTEND_OK;
}

static attend_status queue_stack(attend_session *r, const stack *s) {
  const int layers = s->shape->layers, width = s->shape->width;
  for (int i = 0; i < layers; i++) {
    see_stream(r, s, ATTEND_SEE_HIDDEN, i);
    ATTEND_TRY(block_forward(r, s, i));
  }
  if (r->model->config.final_norm)
    norm_rows(r, &s->final_norm, width, r->x, r->x);
  see_stream(r, s, ATTEND_SEE_HIDDEN, layers);
  return ATTEND_OK;
}

/* The threads are entered once for all layers. */
attend_status stack_forward(attend_session *r, const stack *s) {
  stream_enter(&r->ctx->stream);
  attend_status status = queue_stack(r, s);
  stream_leave(&r->ctx->stream);
  return status;
}
