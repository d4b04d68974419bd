/* Learning to copy: the loss of a head that copies, and the way back through it.
 *
 * Place: train/ - see learner.h; learn_ends.c calls this beside the logits.
 * layers/copy_row.h has the formula and each row's gradients. A text's keys take
 * the gradients of their rows in order, one thread for each text.
 */
#include <math.h>
#include <string.h>

#include "layers/copy_row.h"
#include "train/learner.h"

static int key_width(const attend_learner *l) { return padded(l->config.copy); }

void copy_open(attend_learner *l) {
  learn_copy *c = &l->copy;
  const learn_stack *e = &l->encoder;
  if (!c->k.w) return;
  attend_linear_forward(c->k.go, e->rows, e->hidden, padded(e->shape->width),
                        c->keys, key_width(l));
  for (int b = 0; b < l->batch; b++)
    copy_lag(e->length, l->config.copy, key_width(l), NULL,
             c->keys + (size_t)b * (size_t)e->length * (size_t)key_width(l));
  memset(c->d_keys, 0,
         (size_t)e->rows * (size_t)key_width(l) * sizeof *c->d_keys);
}

static copy_text text_of(const attend_learner *l, int row) {
  const learn_stack *e = &l->encoder;
  int b = row / l->decoder.length;
  size_t at = (size_t)b * (size_t)e->length;
  return (copy_text){.n = e->real[b],
                     .keys = l->copy.keys + at * (size_t)key_width(l),
                     .ids = e->ids + at};
}

static float *weights_of(const attend_learner *l, int i) {
  return l->copy.weights + (size_t)i * (size_t)l->encoder.length;
}

typedef struct {
  attend_learner *l;
  const learn_places *p;
  float scale;
  float *loss;
} copy_work;

static void study_row(const void *args, int64_t row, int worker) {
  const copy_work *w = args;
  attend_learner *l = w->l;
  learn_copy *c = &l->copy;
  int i = (int)row, width = key_width(l), vocab = l->config.vocab;
  copy_text t = text_of(l, w->p->row[i]);
  copy_aim aim = {w->p->target[i], l->lesson->smoothing, w->scale};
  float *gate = c->gates + (size_t)i * LANES;
  (void)worker;
  copy_weigh(l->ctx, &t, width, c->queries + (size_t)i * (size_t)width,
             weights_of(l, i));
  w->loss[i] = copy_back(l->ctx, &t, aim, *gate, gate, weights_of(l, i), vocab,
                         l->logits + (size_t)i * (size_t)padded(vocab));
}

void copy_study(attend_learner *l, const learn_places *p, const float *x,
                float scale, float *loss) {
  learn_copy *c = &l->copy;
  int width = key_width(l), vocab = l->config.vocab;
  float factor = 1 / sqrtf((float)l->config.copy);
  attend_linear_forward(c->q.go, p->rows, x, p->ld, c->queries, width);
  attend_linear_forward(c->gate.go, p->rows, x, p->ld, c->gates, LANES);
  for (int i = 0; i < p->rows * width; i++) c->queries[i] *= factor;
  int parts = parts_of(l->ctx, p->rows, (double)p->rows * vocab * 4);
  copy_work w = {l, p, scale, loss};
  PARALLEL_FOR(l->ctx, parts, p->rows, study_row, w);
}

/* Rows [i, end) are of one text; their weights are the scores' gradients now. */
static void unlearn_text(attend_learner *l, const learn_places *p, int i,
                         int end) {
  const struct kernels *kn = l->ctx->kernels;
  learn_copy *c = &l->copy;
  copy_text t = text_of(l, p->row[i]);
  size_t width = (size_t)key_width(l);
  float *d_keys = c->d_keys + (t.keys - c->keys);
  for (; i < end; i++) {
    const float *ds = weights_of(l, i), *q = c->queries + (size_t)i * width;
    for (int j = 0; j < t.n; j++)
      kn->join_all(width, 1, ds[j], q, d_keys + (size_t)j * width);
    kn->matmul(1, (int)width, t.n, ds, l->encoder.length, t.keys, (int)width,
               c->d_queries + (size_t)i * width, (int)width, false);
  }
}

static void unlearn_item(const void *args, int64_t b, int worker) {
  const copy_work *w = args;
  const learn_places *p = w->p;
  int i = 0, end, length = w->l->decoder.length;
  (void)worker;
  while (i < p->rows && p->row[i] / length < b) i++;
  for (end = i; end < p->rows && p->row[end] / length == b;) end++;
  if (i < end) unlearn_text(w->l, p, i, end);
}

void copy_unlearn(attend_learner *l, const learn_places *p, const float *x,
                  float *dx) {
  learn_copy *c = &l->copy;
  int width = key_width(l);
  float factor = 1 / sqrtf((float)l->config.copy);
  int parts = parts_of(l->ctx, l->batch,
                       (double)p->rows * l->encoder.length * width * 2);
  copy_work w = {l, p, 0, NULL};
  PARALLEL_FOR(l->ctx, parts, l->batch, unlearn_item, w);
  for (int i = 0; i < p->rows * width; i++) c->d_queries[i] *= factor;
  linear_unlearn(l, &c->q, p->rows, x, p->ld, c->d_queries, width, true, dx,
                 p->ld);
  linear_unlearn(l, &c->gate, p->rows, x, p->ld, c->gates, LANES, true, dx,
                 p->ld);
}

void copy_close(attend_learner *l) {
  learn_copy *c = &l->copy;
  learn_stack *e = &l->encoder;
  if (!c->k.w) return; /* a model of one side has no encoder either */
  int ld = padded(e->shape->width);
  for (int b = 0; b < l->batch; b++)
    copy_lag_back(
        e->length, l->config.copy, key_width(l),
        c->d_keys + (size_t)b * (size_t)e->length * (size_t)key_width(l));
  linear_unlearn(l, &c->k, e->rows, e->hidden, ld, c->d_keys, key_width(l),
                 true, e->d_hidden, ld);
}
