/* Rows of a head that copies; copy_row.h says what they are.
 *
 * Place: layers/. A row depends on itself alone. Probabilities are added as
 * logarithms, in double: neither part is lost where it is small.
 */
#include "layers/copy_row.h"

#include <math.h>
#include <string.h>

/* log(1 + e^x) */
static double soft_plus(double x) {
  return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

/* log(e^a + e^b) */
static double log_both(double a, double b) {
  double most = a > b ? a : b, least = a > b ? b : a;
  return most == -INFINITY ? most : most + log1p(exp(least - most));
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

void copy_lag_back(int n, int width, int ld, float *d_keys) {
  const size_t at = (size_t)(width / 2), step = (size_t)ld;
  const size_t bytes = ((size_t)width - at) * sizeof *d_keys;
  size_t j = 0;
  for (; j + 1 < (size_t)n; j++)
    memcpy(d_keys + j * step + at, d_keys + (j + 1) * step + at, bytes);
  memset(d_keys + j * step + at, 0, bytes);
}

void copy_weigh(const attend_context *ctx, const copy_text *t, int ld,
                const float *q, float *weight) {
  const struct kernels *kn = ctx->kernels;
  if (!t->n) return;
  kn->dot_rows(t->n, ld, t->keys, ld, q, weight, NULL);
  for (int j = 0; t->extra && j < t->n; j++) weight[j] += t->extra[j];
  float most = weight[kn->largest_at(t->n, weight)];
  double sum = kn->sum_exp(t->n, weight, most);
  kn->exp_row(t->n, weight, most, (float)(1 / sum), 0, weight);
}

void copy_mix(const attend_context *ctx, const copy_text *t, float gate,
              float *weight, int vocab, float *logits) {
  const struct kernels *kn = ctx->kernels;
  double most = (double)logits[kn->largest_at(vocab, logits)];
  double less = most + log(kn->sum_exp(vocab, logits, (float)most));
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

/* With r the vocabulary's share of p(right), and 1 - r that of copying:
 * d logits = (1 - s) r (softmax - [v = right]) + s (softmax - 1 / V),
 * d gate = (1 - s) (c - (1 - r)), d score_j = (1 - s) (1 - r) (a_j - a_j [id_j =
 * right] / sum of those). */
typedef struct {
  double most, sum;   /* of the logits; of e^(logits - most) */
  double loss, share; /* -log p(right), r */
  double copies;      /* the weight of all that is right */
} mixture;

static mixture mix(const attend_context *ctx, const copy_text *t, int32_t right,
                   float gate, const float *weight, int vocab,
                   const float *logits) {
  const struct kernels *kn = ctx->kernels;
  mixture m = {.most = (double)logits[kn->largest_at(vocab, logits)]};
  m.sum = kn->sum_exp(vocab, logits, (float)m.most);
  double own = (double)logits[right] - m.most - log(m.sum);
  for (int j = 0; j < t->n; j++)
    if (t->ids[j] == right) m.copies += (double)weight[j];
  if (t->n) own -= soft_plus((double)gate);
  double p = log_both(
      own, t->n ? log(m.copies) - soft_plus(-(double)gate) : -INFINITY);
  m.loss = -p;
  m.share = exp(own - p);
  return m;
}

static void score_back(const copy_text *t, int32_t right, double copies,
                       double factor, float *weight) {
  double rise = copies > 0 ? factor / copies : 0;
  for (int j = 0; j < t->n; j++) {
    double less = t->ids[j] == right ? rise : 0;
    weight[j] = (float)((double)weight[j] * (factor - less));
  }
}

float copy_back(const attend_context *ctx, const copy_text *t, copy_aim aim,
                float gate, float *dgate, float *weight, int vocab,
                float *logits) {
  const struct kernels *kn = ctx->kernels;
  mixture m = mix(ctx, t, aim.right, gate, weight, vocab, logits);
  double s = (double)aim.smoothing, scale = (double)aim.scale, loss = m.loss;
  if (s > 0) {
    double mean = -kn->sum_less(vocab, logits, (float)m.most) / vocab;
    loss = (1 - s) * loss + s * (log(m.sum) + mean);
  }
  double own = (1 - s) * m.share, copied = (1 - s) * (1 - m.share);
  kn->exp_row(vocab, logits, (float)m.most, (float)(scale * (own + s) / m.sum),
              (float)(scale * s / vocab), logits);
  logits[aim.right] -= (float)(scale * own);
  double c = t->n ? 1 / (1 + exp(-(double)gate)) : 0;
  *dgate = t->n ? (float)(scale * ((1 - s) * c - copied)) : 0;
  score_back(t, aim.right, m.copies, scale * copied, weight);
  return (float)loss;
}
