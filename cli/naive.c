/* Attention as anyone would write it first: float, one loop per sum.
 *
 * Place: cli/ - the yardstick of `attend verify`: an engine may err twice as
 * much as this does. Scores, their maximum subtracted, expf, sums in plain
 * order; results stored through the problem's dtype. Nothing here is clever,
 * and none of it is shared with the library.
 *
 * Beside every sum runs the sum of its absolute values: what rounding is
 * relative to.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "outputs.h"

typedef struct { /* one query row */
  const attend_desc *d;
  float *q, *k, *v, *d_o;                  /* whole, contiguous, widened */
  float *score, *weight, *d_weight, *size; /* [S]; size: of what went in */
  int *seen;                               /* [S] visible keys, rising */
  int n_seen;
  float *o;          /* [M], as stored */
  double *o_size;    /* [M] */
  float denominator; /* of the weights, for poly */
  bool cut;          /* weights to bf16, before they meet the values, */
  float below; /* and before that by this: the best lies below a power of 2 */
  int b, h, g, i;
} pass;

static bool is_hard(const attend_desc *d) {
  return d->form.kind == ATTEND_ARGMAX && d->form.temperature == 0;
}

bool cuts_weights(const attend_context *ctx, const attend_desc *d) {
  bool soft = d->form.kind == ATTEND_SOFTMAX ||
              (d->form.kind == ATTEND_ARGMAX && !is_hard(d));
  return soft && d->dtype == ATTEND_BF16 &&
         !strcmp(attend_context_isa(ctx), "amx");
}

static int64_t position(const attend_desc *d, int64_t i) {
  bool bottom = d->mask.causal == ATTEND_CAUSAL_BOTTOM;
  return i + (bottom ? (int64_t)d->kv_len - d->q_len : 0);
}

/* ---- score ------------------------------------------------------------------- */

static float dot(const float *a, const float *b, int n, float *size) {
  float sum = 0, absolute = 0;
  for (int x = 0; x < n; x++) {
    sum += a[x] * b[x];
    absolute += fabsf(a[x] * b[x]);
  }
  *size = absolute;
  return sum;
}

static float bias_of(const attend_desc *d, int b, int h, int i, int j) {
  int64_t ahead = j - position(d, i);
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      break;
    case ATTEND_ALIBI:
      return -d->bias.slopes[h] * fabsf((float)ahead);
    case ATTEND_BUCKETS:
      return d->bias.table[attend_bucket(&d->bias, ahead) * d->heads + h];
    case ATTEND_DENSE:
      return ((const float *)d->bias.dense.data)[dense_at(d, b, h, i, j)];
  }
  return 0;
}

static float power(float base, int degree) {
  float product = 1;
  for (int n = 0; n < degree; n++) product *= base;
  return product;
}

static float squared_distance(const float *a, const float *b, int n) {
  float sum = 0;
  for (int x = 0; x < n; x++) sum += (a[x] - b[x]) * (a[x] - b[x]);
  return sum;
}

/* log sim, or sim itself for poly; *size bounds what its rounding is. */
static float similarity(const pass *p, const float *q, const float *k, int j,
                        float *size) {
  const attend_desc *d = p->d;
  float bias = bias_of(d, p->b, p->h, p->i, j), absolute;
  float product = dot(q, k, d->dim, &absolute);
  if (d->form.kind == ATTEND_POLY) {
    float e = expf(bias);
    *size =
        power(fabsf(d->form.a) * absolute + fabsf(d->form.c), d->form.degree) *
        e;
    return power(d->form.a * product + d->form.c, d->form.degree) * e;
  }
  float score = d->scale * product;
  *size = fabsf(d->scale) * absolute + fabsf(bias);
  if (d->form.kind == ATTEND_GAUSSIAN) {
    score =
        -squared_distance(q, k, d->dim) / (2 * d->form.sigma * d->form.sigma);
    *size = fabsf(score) + fabsf(bias);
  }
  score += bias;
  bool soft = d->form.kind == ATTEND_ARGMAX && !is_hard(d);
  if (soft) *size /= d->form.temperature;
  return soft ? score / d->form.temperature : score;
}

static const float *query_of(const pass *p, const float *of, int width) {
  const attend_desc *d = p->d;
  size_t row =
      ((size_t)p->b * (size_t)d->heads + (size_t)p->h) * (size_t)d->q_len +
      (size_t)p->i;
  return of + row * (size_t)width;
}

static size_t key_at(const pass *p, int j, int width) {
  const attend_desc *d = p->d;
  size_t row =
      ((size_t)p->b * (size_t)d->kv_heads + (size_t)p->g) * (size_t)d->kv_len +
      (size_t)j;
  return row * (size_t)width;
}

/* ---- forward ------------------------------------------------------------------ */

static void see(pass *p) {
  const attend_desc *d = p->d;
  const float *q = query_of(p, p->q, d->dim);
  p->n_seen = 0;
  for (int j = 0; j < d->kv_len; j++) {
    if (!attend_visible(d, p->b, p->i, j)) continue;
    int s = p->n_seen++;
    p->seen[s] = j;
    p->score[s] = similarity(p, q, p->k + key_at(p, j, d->dim), j, &p->size[s]);
  }
}

static float largest(const float *x, int n) {
  float best = -INFINITY;
  for (int s = 0; s < n; s++)
    if (x[s] > best) best = x[s];
  return best;
}

static void choose(pass *p, float best) {
  bool first = p->d->form.ties == ATTEND_TIES_FIRST, taken = false;
  for (int s = 0; s < p->n_seen; s++) {
    bool is_best = p->score[s] == best && !(first && taken);
    p->weight[s] = is_best ? 1 : 0;
    taken = taken || is_best;
  }
}

/* Weights not yet divided; returns lse as the library defines it, and the
 * size of the numbers it was made from. */
static float weigh(pass *p, float *lse_size) {
  const attend_desc *d = p->d;
  float best = largest(p->score, p->n_seen), sum = 0;
  *lse_size = 0;
  for (int s = 0; s < p->n_seen; s++)
    if (p->size[s] > *lse_size) *lse_size = p->size[s];
  if (is_hard(d)) choose(p, best);
  float best2 = best * 1.442695041f;
  p->below = exp2f(best2 - ceilf(best2));
  for (int s = 0; s < p->n_seen; s++) {
    if (d->form.kind == ATTEND_POLY)
      p->weight[s] = p->score[s];
    else if (!is_hard(d))
      p->weight[s] = expf(p->score[s] - best);
    sum += p->weight[s];
  }
  p->denominator = sum;
  if (d->form.kind == ATTEND_POLY) {
    *lse_size = 0;
    for (int s = 0; s < p->n_seen; s++) *lse_size += p->size[s];
    return sum;
  }
  if (!p->n_seen) return -INFINITY;
  if (is_hard(d)) return best;
  *lse_size += 1; /* what is relative in a sum is absolute in its logarithm */
  return best + logf(sum);
}

static float stored(attend_dtype dtype, float x) {
  uint32_t bits;
  attend_convert_from_f32(dtype, &x, 1, &bits);
  attend_convert_to_f32(dtype, &bits, 1, &x);
  return x;
}

/* What weight s counts for in sizes. A power's rounding is relative to the
 * power of absolute values. An exponential turns the rounding of a score, half
 * an eps of its size, into as much of the weight: more than 4 eps beyond 8. */
static double weight_size(const pass *p, int s) {
  double weight = fabs((double)p->weight[s]), size = (double)p->size[s];
  if (p->d->form.kind == ATTEND_POLY)
    return size / fabs((double)p->denominator);
  return is_hard(p->d) || size < 8 ? weight : weight * size / 8;
}

static void add_values(pass *p) {
  const attend_desc *d = p->d;
  float divisor =
      0; /* the sum of what met the values: what rounding took cancels */
  for (int x = 0; x < d->dim_v; x++) p->o[x] = 0, p->o_size[x] = 0;
  for (int s = 0; s < p->n_seen; s++) {
    const float *v = p->v + key_at(p, p->seen[s], d->dim_v);
    float w = p->weight[s];
    if (p->cut) w = stored(ATTEND_BF16, w * p->below);
    for (int x = 0; x < d->dim_v; x++) p->o[x] += w * v[x];
    divisor += w;
  }
  bool sees = p->n_seen && p->denominator != 0;
  for (int s = 0; s < p->n_seen; s++)
    p->weight[s] = sees ? p->weight[s] / p->denominator : 0;
  for (int x = 0; x < d->dim_v; x++)
    p->o[x] = sees ? stored(d->dtype, p->o[x] / divisor) : 0;
  bool poly = d->form.kind == ATTEND_POLY;
  for (int s = 0; sees && s < p->n_seen; s++) {
    const float *v = p->v + key_at(p, p->seen[s], d->dim_v);
    double w = weight_size(p, s);
    for (int x = 0; x < d->dim_v; x++)
      p->o_size[x] +=
          w * (fabs((double)v[x]) + (poly ? fabs((double)p->o[x]) : 0));
  }
}

/* ---- backward ----------------------------------------------------------------- */

typedef struct { /* running sums in float, and their sizes */
  float *sum[OUTPUTS];
  double *size[OUTPUTS];
} gradients;

static void add_row(gradients *g, int out, size_t at, float factor, double size,
                    const float *row, int width) {
  float *sum = g->sum[out] + at;
  double *absolute = g->size[out] + at;
  for (int x = 0; x < width; x++) {
    sum[x] += factor * row[x];
    absolute[x] += size * fabs((double)row[x]);
  }
}

static void through_bias(const pass *p, gradients *g, int j, float ds,
                         double size) {
  const attend_desc *d = p->d;
  int64_t ahead = j - position(d, p->i);
  size_t at = 0;
  float factor = 1;
  switch (d->bias.kind) {
    case ATTEND_NO_BIAS:
      return;
    case ATTEND_ALIBI:
      at = (size_t)p->h;
      factor = -fabsf((float)ahead);
      break;
    case ATTEND_BUCKETS:
      at = (size_t)(attend_bucket(&d->bias, ahead) * d->heads + p->h);
      break;
    case ATTEND_DENSE:
      at = (size_t)dense_at(d, p->b, p->h, p->i, j);
      break;
  }
  g->sum[OUT_DBIAS][at] += ds * factor;
  g->size[OUT_DBIAS][at] += size * fabs((double)factor);
}

static void through_gaussian(const pass *p, gradients *g, size_t q_at,
                             size_t k_at, float ds, double size) {
  const attend_desc *d = p->d;
  float inverse = 1 / (d->form.sigma * d->form.sigma);
  for (int x = 0; x < d->dim; x++) {
    float gap = p->k[k_at + (size_t)x] - p->q[q_at + (size_t)x];
    float pull = ds * gap * inverse;
    double absolute = size * fabs((double)(gap * inverse));
    g->sum[OUT_DQ][q_at + (size_t)x] += pull;
    g->sum[OUT_DK][k_at + (size_t)x] -= pull;
    g->size[OUT_DQ][q_at + (size_t)x] += absolute;
    g->size[OUT_DK][k_at + (size_t)x] += absolute;
  }
}

/* The factor between a score's derivative and that of q.k. */
static float slope(const pass *p, int s, const float *q, const float *k) {
  const attend_desc *d = p->d;
  float ignored, temperature = d->form.temperature;
  if (d->form.kind == ATTEND_SOFTMAX) return d->scale;
  if (d->form.kind == ATTEND_ARGMAX) return d->scale / temperature;
  float base = d->form.a * dot(q, k, d->dim, &ignored) + d->form.c;
  float bias = bias_of(d, p->b, p->h, p->i, p->seen[s]);
  return expf(bias) * (float)d->form.degree * d->form.a *
         power(base, d->form.degree - 1) / p->denominator;
}

static void through_key(const pass *p, gradients *g, int s, float gap,
                        double gap_size) {
  const attend_desc *d = p->d;
  int j = p->seen[s];
  size_t q_at = (size_t)(query_of(p, p->q, d->dim) - p->q);
  size_t k_at = key_at(p, j, d->dim);
  float ds = p->weight[s] * gap;
  double size = weight_size(p, s) * gap_size;
  if (d->form.kind == ATTEND_GAUSSIAN) {
    through_gaussian(p, g, q_at, k_at, ds, size);
  } else {
    bool poly = d->form.kind == ATTEND_POLY;
    float f = slope(p, s, p->q + q_at, p->k + k_at);
    float factor = poly ? f * gap : f * ds;
    double absolute = fabs((double)f) * (poly ? gap_size : size);
    add_row(g, OUT_DQ, q_at, factor, absolute, p->k + k_at, d->dim);
    add_row(g, OUT_DK, k_at, factor, absolute, p->q + q_at, d->dim);
  }
  float t = d->form.kind == ATTEND_ARGMAX ? d->form.temperature : 1;
  through_bias(p, g, j, ds / t, size / (double)t);
}

static void backward_row(pass *p, gradients *g) {
  const attend_desc *d = p->d;
  const float *d_o = query_of(p, p->d_o, d->dim_v);
  float delta_size, size;
  float delta = dot(d_o, p->o, d->dim_v, &delta_size);
  if (!p->n_seen || p->denominator == 0) return;
  for (int s = 0; s < p->n_seen; s++) {
    size_t at = key_at(p, p->seen[s], d->dim_v);
    add_row(g, OUT_DV, at, p->weight[s], weight_size(p, s), d_o, d->dim_v);
    if (is_hard(d)) continue;
    float dp = dot(d_o, p->v + at, d->dim_v, &size);
    through_key(p, g, s, dp - delta, (double)size + (double)delta_size);
  }
}

/* ---- the whole ---------------------------------------------------------------- */

static float *widened(attend_view view, const attend_desc *d, int heads,
                      int length, int width) {
  size_t n = (size_t)d->batch * (size_t)heads * (size_t)length * (size_t)width;
  double *wide = need(n, sizeof *wide);
  float *all = need(n, sizeof *all);
  view_read(view, d->dtype, d->batch, heads, length, width, wide);
  for (size_t i = 0; i < n; i++) all[i] = (float)wide[i];
  free(wide);
  return all;
}

static pass open_pass(const inputs *in) {
  const attend_desc *d = in->desc;
  size_t keys = (size_t)d->kv_len, width = (size_t)d->dim_v;
  pass p = {.d = d, .cut = in->cut_weights};
  p.q = widened(in->q, d, d->heads, d->q_len, d->dim);
  p.k = widened(in->k, d, d->kv_heads, d->kv_len, d->dim);
  p.v = widened(in->v, d, d->kv_heads, d->kv_len, d->dim_v);
  if (in->d_o.data) p.d_o = widened(in->d_o, d, d->heads, d->q_len, d->dim_v);
  p.score = need(keys, sizeof(float));
  p.weight = need(keys, sizeof(float));
  p.size = need(keys, sizeof(float));
  p.seen = need(keys, sizeof(int));
  p.o = need(width, sizeof(float));
  p.o_size = need(width, sizeof(double));
  return p;
}

static void close_pass(pass *p) {
  void *blocks[] = {p->q,      p->k,    p->v,    p->d_o, p->score,
                    p->weight, p->size, p->seen, p->o,   p->o_size};
  for (size_t n = 0; n < sizeof blocks / sizeof *blocks; n++) free(blocks[n]);
}

static void move_to(pass *p, int b, int h, int i) {
  p->b = b;
  p->h = h;
  p->g = h / (p->d->heads / p->d->kv_heads);
  p->i = i;
}

static void keep_largest(double *most, double x) {
  if (x > *most) *most = x;
}

static void run_row(pass *p, gradients *g, outputs *out, double *magnitude) {
  const attend_desc *d = p->d;
  float lse_size;
  size_t row = (size_t)(query_of(p, p->q, 1) - p->q);
  see(p);
  out->at[OUT_LSE][row] = weigh(p, &lse_size);
  add_values(p);
  keep_largest(&magnitude[OUT_LSE], lse_size);
  for (int x = 0; x < d->dim_v; x++) {
    out->at[OUT_O][row * (size_t)d->dim_v + (size_t)x] = p->o[x];
    keep_largest(&magnitude[OUT_O], p->o_size[x]);
  }
  if (p->d_o) backward_row(p, g);
}

static void store_gradients(const attend_desc *d, const gradients *g,
                            outputs *out, double *magnitude) {
  for (int x = OUT_DQ; x < OUTPUTS; x++)
    for (size_t n = 0; n < out->count[x]; n++) {
      float sum = g->sum[x][n];
      out->at[x][n] = x == OUT_DBIAS ? sum : stored(d->dtype, sum);
      keep_largest(&magnitude[x], g->size[x][n]);
    }
}

void run_naive(const inputs *in, outputs *out, double magnitude[OUTPUTS]) {
  const attend_desc *d = in->desc;
  pass p = open_pass(in);
  gradients g;
  for (int x = 0; x < OUTPUTS; x++) {
    magnitude[x] = 0;
    g.sum[x] = need(x < OUT_DQ ? 0 : out->count[x], sizeof(float));
    g.size[x] = need(x < OUT_DQ ? 0 : out->count[x], sizeof(double));
  }
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        move_to(&p, b, h, i);
        run_row(&p, &g, out, magnitude);
      }
  if (p.d_o) store_gradients(d, &g, out, magnitude);
  for (int x = 0; x < OUTPUTS; x++) {
    free(g.sum[x]);
    free(g.size[x]);
  }
  close_pass(&p);
}

/* ---- ties --------------------------------------------------------------------- */

static double exact_score(const pass *p, int j, double *size) {
  const attend_desc *d = p->d;
  const float *q = query_of(p, p->q, d->dim);
  const float *k = p->k + key_at(p, j, d->dim);
  double sum = 0, bias = bias_of(d, p->b, p->h, p->i, j);
  *size = fabs(bias);
  for (int x = 0; x < d->dim; x++) {
    sum += (double)q[x] * (double)k[x];
    *size += fabs((double)d->scale * (double)q[x] * (double)k[x]);
  }
  return (double)d->scale * sum + bias;
}

/* Equal keys with equal biases tie in any arithmetic. */
static bool same_key(const pass *p, int i, int j) {
  const attend_desc *d = p->d;
  const float *a = p->k + key_at(p, i, d->dim);
  const float *b = p->k + key_at(p, j, d->dim);
  for (int x = 0; x < d->dim; x++)
    if (a[x] != b[x]) return false;
  return bias_of(d, p->b, p->h, p->i, i) == bias_of(d, p->b, p->h, p->i, j);
}

static bool is_undecided(const pass *p) {
  const attend_desc *d = p->d;
  double best = -INFINITY, most = 0, size;
  int winner = -1;
  for (int j = 0; j < d->kv_len; j++) {
    if (!attend_visible(d, p->b, p->i, j)) continue;
    double score = exact_score(p, j, &size);
    if (score > best) best = score, winner = j;
    keep_largest(&most, size);
  }
  for (int j = 0; j < d->kv_len; j++)
    if (j != winner && attend_visible(d, p->b, p->i, j) &&
        best - exact_score(p, j, &size) <= 0x1p-19 * most &&
        !same_key(p, winner, j))
      return true;
  return false;
}

size_t mark_undecided(const inputs *in, unsigned char *rows) {
  const attend_desc *d = in->desc;
  size_t count = 0, row = 0;
  if (!is_hard(d)) return 0;
  pass p = open_pass(in);
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++, row++) {
        move_to(&p, b, h, i);
        rows[row] = is_undecided(&p);
        count += rows[row];
      }
  close_pass(&p);
  return count;
}
