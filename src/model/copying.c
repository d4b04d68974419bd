/* A head that copies: rare words of a text are read off it, not recalled.
 *
 * Place: model/ - beside ends.c, for encoder-decoders whose config.json has
 * attend_copy_width. layers/copy_row.h has the formula. The keys are made once,
 * with those of cross-attention; sequences that continue one another share them.
 */
#include <math.h>
#include <string.h>

#include "layers/copy_row.h"
#include "model/transformer.h"

attend_status copy_make(attend_session *r) {
  static const char what[] = "what may be copied";
  copying *c = &r->copy;
  size_t batch = (size_t)r->batch, rows = (size_t)r->head_room;
  if (!r->model->copy_k) return ATTEND_OK;
#define TAKE(field, count)                                                  \
  ATTEND_TRY(take_zeroed(r->ctx, size_times(count, sizeof *c->field), what, \
                         &c->field))
  TAKE(length, batch);
  TAKE(of, batch);
  TAKE(from, batch);
  TAKE(seen, (size_t)r->model->config.vocab);
  TAKE(q, size_times(rows, copy_width(r)));
  TAKE(before, size_times(2, copy_width(r)));
  TAKE(gate, size_times(rows, LANES));
#undef TAKE
  return ATTEND_OK;
}

static void free_texts(attend_session *r) {
  copying *c = &r->copy;
  give(r->ctx, c->keys);
  give(r->ctx, c->ids);
  give(r->ctx, c->first);
  give(r->ctx, c->often);
  give(r->ctx, c->weight);
  c->keys = c->often = c->weight = NULL;
  c->ids = c->first = NULL;
  c->room = 0;
  c->n = c->span = 0;
}

void copy_free(attend_session *r) {
  copying *c = &r->copy;
  free_texts(r);
  void *all[] = {c->length, c->of, c->from, c->seen, c->q, c->gate, c->before};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) give(r->ctx, all[i]);
}

attend_status copy_room(attend_session *r, size_t tokens, int n) {
  static const char what[] = "what may be copied";
  copying *c = &r->copy;
  if (tokens <= c->room && n <= c->span) return ATTEND_OK;
  free_texts(r);
#define TAKE(field, count) \
  ATTEND_TRY(take(r->ctx, size_times(count, sizeof *c->field), what, &c->field))
  TAKE(keys, size_times(tokens, copy_width(r)));
  TAKE(ids, tokens);
  TAKE(first, tokens);
  TAKE(often, tokens);
  TAKE(weight, size_times((size_t)r->head_room, (size_t)n));
#undef TAKE
  c->room = tokens;
  c->span = n;
  return ATTEND_OK;
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
  if (!m->copy_k) return ATTEND_OK;
  ATTEND_TRY(copy_room(r, (size_t)r->batch * (size_t)r->n, r->n));
  c->n = r->n;
  c->by_words = false;
  attend_linear_forward(m->copy_k, r->count * r->n, r->x,
                        padded(m->config.encoder.width), c->keys,
                        (int)copy_width(r));
  for (int b = 0; b < r->count; b++)
    copy_lag(r->n, m->config.copy, (int)copy_width(r), NULL,
             c->keys + (size_t)b * (size_t)r->n * copy_width(r));
  memcpy(c->ids, ids, (size_t)r->count * (size_t)r->n * sizeof *ids);
  for (int b = 0; b < r->batch; b++) {
    c->of[b] = b;
    c->length[b] = b < r->count ? r->lengths[b] : 0;
    find_first(c, b);
  }
  return ATTEND_OK;
}

static copy_text text_of(const attend_session *r, int sequence) {
  const copying *c = &r->copy;
  if (sequence < 0 || !c->length[c->of[sequence]]) return (copy_text){0};
  int text = c->of[sequence];
  size_t at = (size_t)text * (size_t)c->n;
  return (copy_text){.n = c->length[text],
                     .keys = c->keys + at * copy_width(r),
                     .extra = c->by_words ? c->often : NULL,
                     .ids = c->ids + at,
                     .first = c->first + at};
}

typedef struct {
  const attend_session *r;
  float *logits;
} copy_work;

static void copy_row_item(const void *args, int64_t i, int worker) {
  const copy_work *w = args;
  const attend_session *r = w->r;
  const copying *c = &r->copy;
  const int vocab = r->model->config.vocab, width = (int)copy_width(r);
  copy_text t = text_of(r, r->head_of[i]);
  float *weight = c->weight + (size_t)i * (size_t)c->n;
  (void)worker;
  copy_weigh(r->ctx, &t, width, c->q + i * width, weight);
  copy_mix(r->ctx, &t, c->gate[i * LANES], weight, vocab,
           w->logits + i * vocab);
}

void copy_rows(attend_session *r, int rows, const float *x, int ld,
               float *logits) {
  const attend_model *m = r->model;
  copying *c = &r->copy;
  const size_t width = copy_width(r);
  const float scale = 1 / sqrtf((float)m->config.copy);
  attend_linear_forward(m->copy_q, rows, x, ld, c->q, (int)width);
  attend_linear_forward(m->copy_gate, rows, x, ld, c->gate, LANES);
  for (size_t i = 0; i < (size_t)rows * width; i++) c->q[i] *= scale;
  int parts = parts_of(r->ctx, rows, (double)rows * m->config.vocab * 2);
  copy_work w = {r, logits};
  PARALLEL_FOR(r->ctx, parts, rows, copy_row_item, w);
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
  return c->room * (copy_width(r) * sizeof *c->keys + 3 * sizeof *c->ids);
}

size_t copy_work_bytes(const attend_session *r) {
  if (!r->copy.of) return 0;
  size_t rows = (size_t)r->head_room, n = (size_t)r->copy.span;
  return (rows * (copy_width(r) + LANES + n) + 2 * copy_width(r)) *
             sizeof(float) +
         ((size_t)r->model->config.vocab + 3 * (size_t)r->batch) *
             sizeof(int32_t);
}
