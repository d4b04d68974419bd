/* A head that copies: rare words of a text are read off it, not recalled.
 *
 * Place: model/ - beside head.c, for encoder-decoders whose config.json has
 * attend_copy_width. layers/copy_row.h has the formula. The keys are made once,
 * with those of cross-attention; sequences that continue one another share them.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "model/transformer.h"

static const char what[] = "what may be copied";

#define TAKE(from, field, count) \
  ATTEND_TRY(from(r->ctx, size_times(count, sizeof *c->field), what, &c->field))

attend_status copy_make(attend_session *r) {
  copying *c = &r->copy;
  size_t batch = (size_t)r->batch, rows = (size_t)r->head_room;
  if (!r->model->copy_k.go) return ATTEND_OK;
  TAKE(take_zeroed, length, batch);
  TAKE(take_zeroed, of, batch);
  TAKE(take_zeroed, from, batch);
  TAKE(take_zeroed, texts, rows);
  TAKE(take_zeroed, seen, (size_t)r->model->config.vocab);
  TAKE(device_take, q, size_times(rows, copy_width(r)));
  TAKE(device_take, before, size_times(2, copy_width(r)));
  TAKE(device_take, gate, size_times(rows, LANES));
  return ATTEND_OK;
}

static void free_texts(attend_session *r) {
  copying *c = &r->copy;
  give(r->ctx, c->ids);
  give(r->ctx, c->first);
  give(r->ctx, c->often);
  give(r->ctx, c->fold_to);
  give(r->ctx, c->fold_often);
  void *device[] = {c->keys, c->device_ids, c->device_first, c->device_often,
                    c->weight};
  for (size_t i = 0; i < sizeof device / sizeof *device; i++)
    device_give(r->ctx, device[i]);
  c->fold_to = NULL;
  c->keys = c->often = c->device_often = c->weight = c->fold_often = NULL;
  c->ids = c->first = c->device_ids = c->device_first = NULL;
  c->room = 0;
  c->n = c->span = 0;
}

void copy_free(attend_session *r) {
  copying *c = &r->copy;
  free_texts(r);
  void *host[] = {c->length, c->of, c->from, c->texts, c->seen};
  for (size_t i = 0; i < sizeof host / sizeof *host; i++) give(r->ctx, host[i]);
  void *device[] = {c->q, c->gate, c->before};
  for (size_t i = 0; i < sizeof device / sizeof *device; i++)
    device_give(r->ctx, device[i]);
}

attend_status copy_room(attend_session *r, size_t tokens, int n) {
  copying *c = &r->copy;
  if (tokens <= c->room && n <= c->span) return ATTEND_OK;
  free_texts(r);
  TAKE(take, ids, tokens);
  TAKE(take, first, tokens);
  TAKE(take, often, tokens);
  TAKE(take, fold_to, tokens);
  TAKE(take, fold_often, tokens);
  TAKE(device_take, keys, size_times(tokens, copy_width(r)));
  TAKE(device_take, device_ids, tokens);
  TAKE(device_take, device_first, tokens);
  TAKE(device_take, device_often, tokens);
  TAKE(device_take, weight, size_times((size_t)r->head_room, (size_t)n));
  c->room = tokens;
  c->span = n;
  return ATTEND_OK;
}

void copy_upload(attend_session *r, size_t tokens) {
  const struct attend_device *d = r->ctx->device;
  copying *c = &r->copy;
  d->write(r->ctx, c->device_ids, c->ids, tokens * sizeof *c->ids);
  d->write(r->ctx, c->device_first, c->first, tokens * sizeof *c->first);
}

static void find_first(copying *c, int text) {
  const size_t at = (size_t)text * (size_t)c->n;
  const int32_t *ids = c->ids + at;
  for (int j = 0; j < c->length[text]; j++) c->seen[ids[j]] = -1;
  for (int j = 0; j < c->length[text]; j++) {
    if (c->seen[ids[j]] < 0) c->seen[ids[j]] = j;
    c->first[at + (size_t)j] = c->seen[ids[j]];
  }
}

attend_status copy_fill(attend_session *r, const int32_t *ids) {
  copying *c = &r->copy;
  const attend_model *m = r->model;
  const int count = r->p.count, n = r->p.n, ld = (int)copy_width(r);
  if (!m->copy_k.go) return ATTEND_OK;
  ATTEND_TRY(copy_room(r, (size_t)r->batch * (size_t)n, n));
  c->n = n;
  c->by_words = false;
  multiply_rows(&r->p, &m->copy_k, count * n, r->x,
                padded(m->config.encoder.width), c->keys, ld);
  OP(r->ctx, copy_lag, .texts = count, .n = n, .width = m->config.copy,
     .keys = c->keys, .ld = ld);
  memcpy(c->ids, ids, (size_t)count * (size_t)n * sizeof *ids);
  for (int b = 0; b < r->batch; b++) {
    c->of[b] = b;
    c->length[b] = b < count ? r->lengths[b] : 0;
    find_first(c, b);
  }
  copy_upload(r, (size_t)count * (size_t)n);
  return ATTEND_OK;
}

void copy_rows(attend_session *r, int rows, const float *x, int ld,
               float *logits, int ldl) {
  const attend_model *m = r->model;
  copying *c = &r->copy;
  const int width = (int)copy_width(r);
  multiply_rows(&r->p, &m->copy_q, rows, x, ld, c->q, width);
  multiply_rows(&r->p, &m->copy_gate, rows, x, ld, c->gate, LANES);
  OP(r->ctx, scale, .rows = rows, .width = width,
     .factor = 1 / sqrtf((float)m->config.copy), .x = c->q, .ldx = width);
  for (int i = 0; i < rows; i++)
    c->texts[i] = r->head_of[i] < 0 ? -1 : c->of[r->head_of[i]];
  OP(r->ctx, copy_loss,
     .texts = {.n = c->n,
               .ld = width,
               .keys = c->keys,
               .extra = c->by_words ? c->device_often : NULL,
               .ids = c->device_ids,
               .first = c->device_first,
               .length = c->length},
     .rows = rows, .vocab = m->config.vocab, .of = c->texts, .q = c->q,
     .gate = c->gate, .weight = c->weight, .logits = logits, .ldl = ldl);
}

void copy_reorder(attend_session *r, const int32_t *parents) {
  copying *c = &r->copy;
  if (!c->of) return;
  memcpy(c->from, c->of, (size_t)r->batch * sizeof *c->of);
  for (int b = 0; b < r->batch; b++) c->of[b] = c->from[parents[b]];
}

void copy_reset(attend_session *r) {
  copying *c = &r->copy;
  if (c->length) memset(c->length, 0, (size_t)r->batch * sizeof *c->length);
}

size_t copy_bytes(const attend_session *r) {
  const copying *c = &r->copy;
  return c->room * (copy_width(r) * sizeof *c->keys + 8 * sizeof *c->ids);
}

size_t copy_work_bytes(const attend_session *r) {
  if (!r->copy.of) return 0;
  size_t rows = (size_t)r->head_room, n = (size_t)r->copy.span;
  return (rows * (copy_width(r) + LANES + n) + 2 * copy_width(r)) *
             sizeof(float) +
         ((size_t)r->model->config.vocab + 3 * (size_t)r->batch + rows) *
             sizeof(int32_t);
}
