/* Rows of a pointer-generator head (copy.h). Probabilities are added as logarithms in
 * double, so that neither term underflows.
 */
#include "layers/copy.h"

#include <math.h>
#include <string.h>

/* log(1 + e^x) */
static double soft_plus(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }

/* log(e^a + e^b) */
static double log_both(double a, double b) {
  double max = a > b ? a : b, min = a > b ? b : a;
  return max == -INFINITY ? max : max + log1p(exp(min - max));
}

void copy_lag(int n, int width, int ld, const float *before, float *keys) {
  const size_t at = (size_t)(width / 2), step = (size_t)ld;
  const size_t bytes = ((size_t)width - at) * sizeof *keys;
  for (size_t j = (size_t)n; j-- > 1;)
    memcpy(keys + j * step + at, keys + (j - 1) * step + at, bytes);
  if (before)
    memcpy(keys + at, before + at, bytes);
  else
    memset(keys + at, 0, bytes);
}

/* The same for gradients, in reverse. */
static void copy_lag_backward(int n, int width, int ld, float *d_keys) {
  const size_t at = (size_t)(width / 2), step = (size_t)ld;
  const size_t bytes = ((size_t)width - at) * sizeof *d_keys;
  size_t j = 0;
  for (; j + 1 < (size_t)n; j++)
    memcpy(d_keys + j * step + at, d_keys + (j + 1) * step + at, bytes);
  memset(d_keys + j * step + at, 0, bytes);
}

void copy_weigh(const attend_context *ctx, const copy_text *t, int ld, const float *q,
                float *weight) {
  const struct kernels *kn = ctx->kernels;
  if (!t->n) return;
  kn->dot_rows(t->n, ld, t->keys, ld, q, weight, NULL);
  for (int j = 0; t->extra && j < t->n; j++) weight[j] += t->extra[j];
  float max = weight[kn->largest_at(t->n, weight)];
  double sum = kn->sum_exp(t->n, weight, max);
  kn->exp_row(t->n, weight, max, (float)(1 / sum), 0, weight);
}

void copy_mix(const attend_context *ctx, const copy_text *t, float gate, float *weight, int vocab,
              float *logits) {
  const struct kernels *kn = ctx->kernels;
  double max = (double)logits[kn->largest_at(vocab, logits)];
  double less = max + log(kn->sum_exp(vocab, logits, (float)max));
  if (t->n) less += soft_plus((double)gate); /* 1 - c of it */
  float off = (float)less;
  for (int v = 0; v < vocab; v++) logits[v] -= off;
  for (int j = 0; j < t->n; j++)
    if (t->first[j] != j) weight[t->first[j]] += weight[j];
  double copied = -soft_plus(-(double)gate);
  for (int j = 0; j < t->n; j++) {
    if (t->first[j] != j || !(weight[j] > 0)) continue;
    float *x = &logits[t->ids[j]];
    *x = (float)log_both((double)*x, copied + log((double)weight[j]));
  }
}

/* The loss of a word,
 *   -(1 - smoothing) log p(right) - smoothing / V sum_v log softmax(logits)_v,
 * and scale times its gradients: of the logits and of the scores q . k_j in place
 * of logits and weights, and of the gate. */
typedef struct {
  int32_t right;
  float smoothing, scale;
} copy_aim;

/* With r the vocabulary's share of p(right), and 1 - r that of copying:
 * d logits = (1 - s) r (softmax - [v = right]) + s (softmax - 1 / V),
 * d gate = (1 - s) (c - (1 - r)), d score_j = (1 - s) (1 - r) (a_j - a_j [id_j =
 * right] / sum of those). */
typedef struct {
  double max, sum;    /* of the logits; of e^(logits - most) */
  double loss, share; /* -log p(right), r */
  double copies;      /* the weight of all that is right */
} mixture;

static mixture mix(const attend_context *ctx, const copy_text *t, int32_t right, float gate,
                   const float *weight, int vocab, const float *logits) {
  const struct kernels *kn = ctx->kernels;
  mixture m = {.max = (double)logits[kn->largest_at(vocab, logits)]};
  m.sum = kn->sum_exp(vocab, logits, (float)m.max);
  double own = (double)logits[right] - m.max - log(m.sum);
  for (int j = 0; j < t->n; j++)
    if (t->ids[j] == right) m.copies += (double)weight[j];
  if (t->n) own -= soft_plus((double)gate);
  double p = log_both(own, t->n ? log(m.copies) - soft_plus(-(double)gate) : -INFINITY);
  m.loss = -p;
  m.share = exp(own - p);
  return m;
}

static void score_backward(const copy_text *t, int32_t right, double copies, double factor,
                           float *weight) {
  double rise = copies > 0 ? factor / copies : 0;
  for (int j = 0; j < t->n; j++) {
    double less = t->ids[j] == right ? rise : 0;
    weight[j] = (float)((double)weight[j] * (factor - less));
  }
}

static float copy_backward(const attend_context *ctx, const copy_text *t, copy_aim aim, float gate,
                           float *dgate, float *weight, int vocab, float *logits) {
  const struct kernels *kn = ctx->kernels;
  mixture m = mix(ctx, t, aim.right, gate, weight, vocab, logits);
  double s = (double)aim.smoothing, scale = (double)aim.scale, loss = m.loss;
  if (s > 0) {
    double mean = -kn->sum_less(vocab, logits, (float)m.max) / vocab;
    loss = (1 - s) * loss + s * (log(m.sum) + mean);
  }
  double own = (1 - s) * m.share, copied = (1 - s) * (1 - m.share);
  kn->exp_row(vocab, logits, (float)m.max, (float)(scale * (own + s) / m.sum),
              (float)(scale * s / vocab), logits);
  logits[aim.right] -= (float)(scale * own);
  double c = t->n ? 1 / (1 + exp(-(double)gate)) : 0;
  *dgate = t->n ? (float)(scale * ((1 - s) * c - copied)) : 0;
  score_backward(t, aim.right, m.copies, scale * copied, weight);
  return (float)loss;
}

/* ---- as ops ---------------------------------------------------------------------- */

static copy_text text_at(const struct copy_texts *t, int32_t text) {
  if (text < 0 || !t->length[text]) return (copy_text){0};
  size_t at = (size_t)text * (size_t)t->n;
  return (copy_text){.n = t->length[text],
                     .keys = t->keys + at * (size_t)t->ld,
                     .extra = t->extra,
                     .ids = t->ids + at,
                     .first = t->first ? t->first + at : NULL};
}

static void lag_text(const void *args, int64_t text, int worker) {
  const struct op_copy_lag *o = args;
  const size_t ld = (size_t)o->ld, bytes = ld * sizeof(float);
  float *keys = o->keys + (size_t)text * (size_t)o->n * ld;
  (void)worker;
  if (o->backward) {
    copy_lag_backward(o->n, o->width, o->ld, keys);
    return;
  }
  if (o->before) memcpy(o->before + ld, keys + (size_t)(o->n - 1) * ld, bytes);
  copy_lag(o->n, o->width, o->ld, o->before, keys);
  if (o->before) memcpy(o->before, o->before + ld, bytes);
}

void cpu_copy_lag(attend_context *ctx, const struct op_copy_lag *o) {
  PARALLEL_FOR(ctx, 1, o->texts, lag_text, *o);
}

static void fold_all(const void *args, int64_t item, int worker) {
  const struct op_copy_fold *o = args;
  const size_t ld = (size_t)o->ld;
  (void)item, (void)worker;
  for (int i = 0; i < o->n; i++) {
    const float *key = o->keys + ((size_t)o->from + (size_t)i) * ld;
    float *mean = o->keys + (size_t)o->to[i] * ld;
    if (o->often[i] == 1)
      memmove(mean, key, ld * sizeof *mean);
    else
      for (size_t j = 0; j < ld; j++) mean[j] += (key[j] - mean[j]) / o->often[i];
  }
}

void cpu_copy_fold(attend_context *ctx, const struct op_copy_fold *o) {
  PARALLEL_FOR(ctx, 1, 1, fold_all, *o);
}

typedef struct {
  attend_context *ctx;
  struct op_copy_loss o;
  bool mix;
} row_job;

static void copy_one_row(const void *args, int64_t i, int worker) {
  const row_job *j = args;
  const struct op_copy_loss *o = &j->o;
  copy_text t = text_at(&o->texts, o->of[i]);
  float *weight = o->weight + i * o->texts.n, *logits = o->logits + i * o->ldl;
  float *gate = o->gate + i * LANES;
  (void)worker;
  copy_weigh(j->ctx, &t, o->texts.ld, o->q + i * o->texts.ld, weight);
  if (j->mix) {
    copy_mix(j->ctx, &t, *gate, weight, o->vocab, logits);
    return;
  }
  copy_aim aim = {o->targets[i], o->smoothing, o->scale};
  o->loss[i] = copy_backward(j->ctx, &t, aim, *gate, gate, weight, o->vocab, logits);
}

void cpu_copy_loss(attend_context *ctx, const struct op_copy_loss *o) {
  row_job j = {ctx, *o, o->loss == NULL};
  double work = (double)o->rows * o->vocab * (j.mix ? 2 : 4);
  PARALLEL_FOR(ctx, parts_of(ctx, o->rows, work), o->rows, copy_one_row, j);
}

typedef struct {
  const struct kernels *kn;
  struct op_copy_grad o;
} grad_job;

/* A text's keys take the gradients of their rows in order. */
static void grad_text(const void *args, int64_t text, int worker) {
  const grad_job *j = args;
  const struct op_copy_grad *o = &j->o;
  const copy_text t = text_at(&o->texts, (int32_t)text);
  const size_t ld = (size_t)o->texts.ld;
  float *dkeys = o->dkeys + (t.n ? t.keys - o->texts.keys : 0);
  (void)worker;
  for (int i = 0; i < o->rows; i++) {
    if (o->of[i] != text) continue;
    const float *ds = o->weight + (size_t)i * (size_t)o->texts.n;
    const float *q = o->q + (size_t)i * ld;
    for (int k = 0; k < t.n; k++) j->kn->join_all(ld, 1, ds[k], q, dkeys + (size_t)k * ld);
    j->kn->matmul(1, (int)ld, t.n, ds, o->texts.n, t.keys, (int)ld, o->dq + (size_t)i * ld, (int)ld,
                  false);
  }
}

void cpu_copy_grad(attend_context *ctx, const struct op_copy_grad *o) {
  double work = (double)o->rows * o->texts.n * o->texts.ld * 2;
  grad_job j = {ctx->kernels, *o};
  PARALLEL_FOR(ctx, parts_of(ctx, o->n_texts, work), o->n_texts, grad_text, j);
}
