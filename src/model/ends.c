/* The two ends of a model: tokens to rows, rows to logits.
 *
 * Place: model/ - before the first layer and after the last.
 */
#include <math.h>
#include <string.h>

#include "model/transformer.h"

static void add_sinusoidal(attend_session *r, int width, int ld) {
  float *at = r->mix; /* free until the first layer */
  for (int i = 0; i < r->count * r->n; i++) {
    attend_sinusoidal(r->position[i], width, at);
    float *x = r->x + (size_t)i * (size_t)ld;
    for (int j = 0; j < width; j++) x[j] += at[j];
  }
}

static void add_positions(attend_session *r, const stack *s, int ld) {
  const attend_config *c = &r->model->config;
  int32_t *row = (int32_t *)r->inside; /* free until the first layer */
  int rows = r->count * r->n;
  if (c->position == ATTEND_POSITIONS_SINUSOIDAL)
    add_sinusoidal(r, s->shape->width, ld);
  if (!s->positions.data) return;
  for (int i = 0; i < rows; i++) row[i] = r->position[i] + c->position_offset;
  attend_embed(r->ctx, &s->positions, rows, s->shape->width, row, 1, 1, r->x,
               ld);
}

static void embed_tokens(attend_session *r, const stack *s,
                         const int32_t *ids) {
  const int rows = r->count * r->n, ld = padded(s->shape->width);
  const int width =
      s->projection ? attend_linear_inputs(s->projection) : s->shape->width;
  float *to = s->projection ? r->h : r->x;
  attend_embed(r->ctx, &r->model->tokens, rows, width, ids,
               r->model->config.embed_factor, 0, to, padded(width));
  if (s->projection)
    attend_linear_forward(s->projection, rows, to, padded(width), r->x, ld);
}

void embed_rows(attend_session *r, const stack *s, const int32_t *ids,
                const int32_t *types) {
  const attend_config *c = &r->model->config;
  const int width = s->shape->width, ld = padded(width);
  const int rows = r->count * r->n;
  embed_tokens(r, s, ids);
  add_positions(r, s, ld);
  if (s->types.data) {
    int32_t *zeros = (int32_t *)r->inside;
    if (!types) memset(zeros, 0, (size_t)rows * sizeof *zeros);
    attend_embed(r->ctx, &s->types, rows, width, types ? types : zeros, 1, 1,
                 r->x, ld);
  }
  if (c->embed_norm) norm_rows(r, &s->embed_norm, width, r->x, r->x);
}

/* ---- the head ---------------------------------------------------------------------------- */

/* Rows of hidden states in head_rows -> logits; or log p, where words are copied
 * from what their sequences have read. */
static void head_piece(attend_session *r, int rows, float *logits) {
  const attend_model *m = r->model;
  const attend_config *c = &m->config;
  const int width = r->side->shape->width, ld = padded(width);
  float *x = r->head_rows, *y = x + (size_t)r->head_room * (size_t)ld;
  if (c->head_factor != 1)
    for (size_t i = 0; i < (size_t)rows * (size_t)ld; i++)
      x[i] *= c->head_factor;
  if (m->transform) {
    attend_linear_forward(m->transform, rows, x, ld, y, ld);
    attend_activate(r->ctx, c->head_activation, rows, width, y, ld, y, ld);
    attend_layer_norm(r->ctx, rows, width, y, ld, m->transform_norm.weight,
                      m->transform_norm.bias, c->norm_eps, x, ld);
  }
  attend_linear_forward(m->head, rows, x, ld, r->wide ? r->wide : logits,
                        padded(c->vocab));
  for (int i = 0; r->wide && i < rows; i++)
    memcpy(logits + (size_t)i * (size_t)c->vocab,
           r->wide + (size_t)i * (size_t)padded(c->vocab),
           (size_t)c->vocab * sizeof *logits);
  if (m->copy_q) copy_rows(r, rows, x, ld, logits);
}

/* Where row i of the answer comes from, and of which sequence it is; the
 * encoder's rows copy from none. */
typedef const float *(*row_source)(const attend_session *r,
                                   const int32_t *places, int i,
                                   int32_t *sequence);

static const float *row_of_call(const attend_session *r, const int32_t *places,
                                int i, int32_t *sequence) {
  int place = places ? places[i] : i;
  bool reads = r->side == &r->model->encoder;
  *sequence = reads ? -1 : r->n ? place / r->n : 0;
  return r->x + (size_t)place * (size_t)padded(r->side->shape->width);
}
static const float *row_of_last(const attend_session *r, const int32_t *places,
                                int i, int32_t *sequence) {
  (void)places;
  *sequence = i;
  return r->last + (size_t)i * (size_t)padded(r->side->shape->width);
}

static attend_status head_rows(attend_session *r, int n, const int32_t *places,
                               row_source source, float *logits) {
  const attend_config *c = &r->model->config;
  const size_t ld = (size_t)padded(r->side->shape->width);
  ATTEND_CHECK(r->ctx, r->model->head,
               "the checkpoint has no head that gives logits, or it was not "
               "loaded");
  ATTEND_CHECK(r->ctx,
               r->side->shape->width == attend_linear_inputs(r->model->head),
               "the head reads the decoder's rows of %d numbers, not the "
               "encoder's of %d: extend the decoder",
               attend_linear_inputs(r->model->head), r->side->shape->width);
  if (!r->wide && c->vocab != padded(c->vocab))
    ATTEND_TRY(take(r->ctx,
                    SIZE_PRODUCT((size_t)r->head_room, (size_t)padded(c->vocab),
                                 sizeof *r->wide),
                    "logits", &r->wide));
  for (int start = 0; start < n; start += r->head_room) {
    int rows = (int)min64(r->head_room, n - start);
    for (int i = 0; i < rows; i++)
      memcpy(r->head_rows + (size_t)i * ld,
             source(r, places, start + i, &r->head_of[i]), ld * sizeof *r->x);
    head_piece(r, rows, logits + (size_t)start * (size_t)c->vocab);
  }
  return ATTEND_OK;
}

static void see_logits(attend_session *r, int rows, float *logits) {
  int vocab = r->model->config.vocab;
  attend_view view = {logits, {(ptrdiff_t)rows * vocab, 0, vocab, 1}};
  run_see(
      r, ATTEND_SEE_LOGITS,
      r->side == &r->model->encoder ? ATTEND_ENCODER_SELF : ATTEND_DECODER_SELF,
      0, view, (int[4]){1, 1, rows, vocab});
}

attend_status attend_session_logits(attend_session *r, int n_places,
                                    const int32_t *places, float *logits) {
  ATTEND_CHECK(r->ctx, r->n,
               "there is no call to give logits of, or it was longer than the "
               "%d rows that are computed at once",
               r->rows);
  for (int i = 0; i < n_places; i++) {
    int place = places ? places[i] : i;
    ATTEND_CHECK(r->ctx, place >= 0 && place < r->count * r->n,
                 "place %d is not among the %d that the call had", place,
                 r->count * r->n);
  }
  ATTEND_TRY(head_rows(r, n_places, places, row_of_call, logits));
  see_logits(r, n_places, logits);
  return ATTEND_OK;
}

attend_status attend_session_head(attend_session *r, int rows,
                                  const float *hidden, int ld, float *logits) {
  const attend_model *m = r->model;
  r->side = m->config.parts & ATTEND_DECODER ? &m->decoder : &m->encoder;
  const int width = r->side->shape->width;
  ATTEND_CHECK(r->ctx, rows >= 0 && ld >= width,
               "%d rows of %d numbers, %d apart: they must not overlap", rows,
               width, ld);
  ATTEND_TRY(run_room(r, (size_t)rows));
  for (int i = 0; i < rows; i++)
    memcpy(r->x + (size_t)i * (size_t)padded(width),
           hidden + (size_t)i * (size_t)ld, (size_t)width * sizeof *hidden);
  r->n = 0; /* the rows of the call before are gone */
  return head_rows(r, rows, NULL, row_of_call, logits);
}

attend_status attend_session_next(attend_session *r, int count, float *logits) {
  ATTEND_CHECK(r->ctx, r->self && r->side == &r->model->decoder,
               "only a decoder that was given tokens says what comes next");
  ATTEND_CHECK(r->ctx, count >= 0 && count <= r->batch,
               "%d sequences are more than the %d of the run", count, r->batch);
  ATTEND_TRY(head_rows(r, count, NULL, row_of_last, logits));
  size_t vocab = (size_t)r->model->config.vocab;
  for (int b = 0; b < count; b++) {
    if (r->last_at[b] && r->last_at[b] == attend_session_length(r, b)) continue;
    for (size_t i = 0; i < vocab; i++) logits[(size_t)b * vocab + i] = NAN;
  }
  see_logits(r, count, logits);
  return ATTEND_OK;
}

const float *attend_session_hidden(const attend_session *r, int *ld) {
  if (!r->n) return NULL;
  *ld = padded(r->side->shape->width);
  return r->x;
}
