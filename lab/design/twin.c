/* The learned twin: the same shapes, trained on the same task; and both twins beside
 * each other, measured.
 *
 * Trained by AdamW (Loshchilov and Hutter 2019) on cross-entropy.
 *
 * With few inputs every step sees them all; with more it draws some. Trainers
 * (train/) train checkpoints; a design's pass has its weights in memory.
 *
 * Weights themselves do not compare: Q and K can be transformed together by any
 * invertible matrix, V and the readout likewise, and whatever adds the same to all
 * scores of a query changes nothing. What is left when all of that is taken away is
 * compared here: the attention; the form Qm Km^T that gives the scores, less its
 * constants along keys; and Vm Wo, what a key's value does to the answers, less its
 * constants over answers and over keys.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "attend/train.h"
#include "base/options.h"
#include "design/design.h"
#include "numeric/svd.h"

enum { MOST_LOOKED = 2048, AT_ONCE = 128 }; /* inputs, to compare attention */

/* ---- learning -------------------------------------------------------------------------- */

typedef struct {
  attend_design *d;
  attend_twin_options o;
  design_pass *pass;
  uint64_t total;
  float *w;       /* [count] all parts */
  float *moments; /* [2][learned] of the device */
  double *sums;   /* of squares, of the device */
} studying;

static attend_status complete(studying *s) {
  const attend_design *d = s->d;
  attend_twin_options *o = &s->o;
  if (!o->steps) o->steps = d->steps;
  if (!o->batch) o->batch = d->batch;
  if (!(o->rate > 0)) o->rate = d->rate;
  if (!(o->decay > 0)) o->decay = d->decay;
  if (!o->has_seed) o->seed = d->seed;
  ATTEND_CHECK(d->ctx, o->steps > 0 && o->steps <= MOST_STEPS, "%d steps: choose 1 to %d", o->steps,
               MOST_STEPS);
  ATTEND_CHECK(d->ctx, o->batch > 0 && o->batch <= 4096, "a batch of %d: choose 1 to 4096",
               o->batch);
  s->total = design_total(d, d->longest);
  if ((uint64_t)o->batch > s->total) o->batch = (int)s->total;
  return ATTEND_OK;
}

/* Normal, so that rows of one-hots give values of about size 1. */
static void draw(studying *s) {
  const attend_design *d = s->d;
  for (int i = 0; i < d->n_parts; i++) {
    const attend_design_part *p = &d->parts[i];
    size_t n = (size_t)p->rows * (size_t)p->columns;
    attend_random_normal((attend_random){s->o.seed, (uint64_t)i}, 0, n, s->w + p->at);
    for (size_t j = 0; j < n; j++) s->w[p->at + j] *= 0.5f;
  }
}

/* All of them, or as many as fit, drawn evenly; the stream is the step's. */
static void put_batch(studying *s, int step) {
  for (int b = 0; b < s->pass->p.count; b++) {
    uint64_t index = (uint64_t)b;
    if (s->total > (uint64_t)s->pass->p.count) {
      attend_random r = {s->o.seed, UINT64_C(1) << 32 | (uint64_t)step};
      index = random_word(r, (uint64_t)b) % s->total;
    } else if (step > 0) {
      continue; /* they are all there */
    }
    pass_put_number(s->pass, b, index);
  }
}

/* What is 0 and stays 0, in values and gradients: in the readout the features that
 * it does not see, in tables those that heads write. */
static void clear_fixed(const design_pass *p, float *all) {
  const attend_design *d = p->d;
  for (int f = 0; f < d->features; f++)
    if (!d->is_read[f])
      OP(p->p.ctx, scale, .rows = d->answers, .width = 1, .factor = 0,
         .x = all + readout_part(d)->at + f, .ldx = d->features);
  if (p->learned == p->count)
    OP(p->p.ctx, scale, .rows = d->embedded, .width = d->features - d->embedded, .factor = 0,
       .x = all + tables_at(d) + d->embedded, .ldx = d->features);
}

static double squares(const studying *s) {
  const design_pass *p = s->pass;
  attend_context *ctx = p->p.ctx;
  double sum = 0, part;
  OP(ctx, sum_squares, .n = p->learned, .x = p->gradients, .sums = s->sums);
  for (size_t i = 0; i < stretches_of(p->learned); i++) {
    ctx->device->read(ctx, &part, s->sums + i, sizeof part);
    sum += part;
  }
  return sum;
}

static attend_status adam(studying *s, int step) {
  const double beta1 = 0.9, beta2 = 0.99, t = step + 1;
  design_pass *p = s->pass;
  attend_schedule schedule = {ATTEND_COSINE_RATE, s->o.rate, s->o.rate / 20, 20,
                              (uint64_t)s->o.steps};
  ATTEND_TRY(pass_backward(p));
  clear_fixed(p, p->gradients);
  const double square = squares(s);
  OP(p->p.ctx, step, .n = p->learned, .values = p->values, .gradients = p->gradients,
     .first = s->moments, .second = s->moments + p->learned,
     .rate = (float)attend_schedule_at(&schedule, (uint64_t)step), .decay = (float)s->o.decay,
     .shrink = square > 1 ? (float)(1 / sqrt(square)) : 1, .beta1 = (float)beta1,
     .beta2 = (float)beta2, .eps = 1e-8f, .fix1 = (float)(1 / (1 - pow(beta1, t))),
     .fix2 = (float)(1 / (1 - pow(beta2, t))));
  return model_repack(&p->model);
}

static void note_loss(const studying *s, int step, double loss, attend_curve *c) {
  int every = (s->o.steps + ATTEND_CURVE - 1) / ATTEND_CURVE;
  if (step == s->o.steps) c->last = loss;
  if (step == s->o.steps || step % every || c->points == ATTEND_CURVE) return;
  c->step[c->points] = step;
  c->loss[c->points++] = loss;
}

static attend_status study(studying *s, attend_curve *curve) {
  attend_context *ctx = s->d->ctx;
  for (int step = 0;; step++) {
    put_batch(s, step);
    ATTEND_TRY(pass_forward(s->pass));
    double loss = pass_loss(s->pass);
    note_loss(s, step, loss, curve);
    if (step == s->o.steps) return ATTEND_OK;
    ATTEND_TRY(adam(s, step));
    if (!isfinite(loss))
      return fail(ctx, ATTEND_INVALID, "the loss is not finite after %d steps: take a smaller rate",
                  step);
    if (s->o.progress && s->o.progress((step + 1.0) / s->o.steps, NULL, s->o.user))
      return fail(ctx, ATTEND_STOPPED, "learning was stopped");
  }
}

static attend_status begin(studying *s) {
  ATTEND_TRY(complete(s));
  ATTEND_TRY(ctx_alloc_zeroed(s->d->ctx, s->d->count * sizeof *s->w, "a learned twin", &s->w));
  draw(s);
  ATTEND_TRY(pass_create(s->d, s->w, 1, s->o.batch, true, &s->pass));
  attend_model *m = &s->pass->model;
  size_t n = s->pass->learned;
  ATTEND_TRY(model_keep(m, 2 * n * sizeof *s->moments, &s->moments));
  ATTEND_TRY(model_keep(m, stretches_of(n) * sizeof *s->sums, &s->sums));
  clear_fixed(s->pass, s->pass->values);
  return model_repack(m);
}

attend_status attend_design_learn(attend_design *d, const attend_twin_options *options,
                                  attend_curve *curve) {
  studying s = {.d = d};
  attend_curve unused;
  if (!curve) curve = &unused;
  ATTEND_TRY(OPTIONS_READ(d->ctx, attend_twin_options, options, &s.o));
  *curve = (attend_curve){0};
  attend_status status = begin(&s);
  if (!status) status = study(&s, curve);
  if (!status) status = pass_parts(s.pass, s.pass->values, s.w);
  curve->steps = s.o.steps;
  pass_free(s.pass);
  float *old = d->weights[ATTEND_LEARNED];
  if (!status) d->weights[ATTEND_LEARNED] = s.w;
  ctx_free(d->ctx, status ? s.w : old);
  return status;
}

/* ---- what the weights do ------------------------------------------------------------------ */

/* What is seen, through a head's part: of added tables the embedding of a token or a
 * position, elsewhere the feature itself. */
static void seen_through(const attend_design *d, const float *w, const attend_design_part *part,
                         double *to) {
  const float *m = w + part->at;
  const int columns = part->columns;
  for (int i = 0; i < part->rows; i++, to += columns) {
    const bool added = d->positions == ATTEND_DESIGN_POSITIONS_ADDED && i < d->embedded;
    const float *e = w + tables_at(d) + (size_t)(added ? i * d->embedded : 0);
    const int first = added ? 0 : i, last = added ? d->embedded - 1 : i;
    memset(to, 0, (size_t)columns * sizeof *to);
    for (int f = first; f <= last; f++)
      for (int j = 0; j < columns; j++)
        to[j] += (added ? (double)e[f] : 1) * (double)m[f * columns + j];
  }
}

/* a [n][m] = x [n][width] times the transpose of y [m][width]. */
static void multiply(int n, int m, int width, const double *x, const double *y, double *a) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < m; j++) {
      double sum = 0;
      for (int c = 0; c < width; c++) sum += x[i * width + c] * y[j * width + c];
      a[i * m + j] = sum;
    }
}

/* Takes the mean of places [from, to) away from each of `lines`; `gains` places from
 * the first on get it. */
static void centre(double *a, int lines, int next_line, int next, int from, int to, int gains) {
  for (int i = 0; i < lines; i++, a += next_line) {
    double mean = 0;
    for (int j = from; j < to; j++) mean += a[j * next] / (to - from);
    for (int j = from; j < to; j++) a[j * next] -= mean;
    for (int j = 0; j < gains; j++) a[j * next] += mean;
  }
}

/* A token's features sum to 1, and so do a position's: what is constant along
 * either adds the same to all keys (columns), and moves between the two (rows). */
static void score_form(const attend_design *d, const float *w, int head, double *work, double *a) {
  const attend_design_part *q = head_part(d, head, ATTEND_QUERY_PART);
  const int n = q->rows, tokens = d->tokens, embedded = d->embedded;
  double *keys = work + n * q->columns;
  seen_through(d, w, q, work);
  seen_through(d, w, head_part(d, head, ATTEND_KEY_PART), keys);
  multiply(n, n, q->columns, work, keys, a);
  centre(a, n, n, 1, 0, tokens, 0);
  if (embedded == tokens) return;
  centre(a, n, n, 1, tokens, embedded, 0);
  centre(a, n, 1, n, tokens, embedded, tokens);
}

static void effect_form(const attend_design *d, const float *w, int head, double *work, double *a) {
  const attend_design_part *v = head_part(d, head, ATTEND_VALUE_PART);
  const int n = v->rows, width = v->columns, answers = d->answers;
  const float *readout = w + readout_part(d)->at + d->heads[head].slot * answers;
  double *transposed = work + n * width;
  seen_through(d, w, v, work);
  for (int i = 0; i < width * answers; i++)
    transposed[i % answers * width + i / answers] = (double)readout[i];
  multiply(n, answers, width, work, transposed, a);
  centre(a, n, answers, 1, 0, answers, 0);
  centre(a, answers, 1, answers, 0, d->tokens, 0);
  if (d->embedded > d->tokens) centre(a, answers, 1, answers, d->tokens, d->embedded, 0);
}

static double cosine(const double *a, const double *b, int n) {
  double x = 0, y = 0, z = 0;
  for (int i = 0; i < n; i++) {
    x += a[i] * a[i];
    y += b[i] * b[i];
    z += a[i] * b[i];
  }
  return x > 0 && y > 0 ? z / sqrt(x * y) : NAN;
}

static void describe(double *a, int rows, int columns, double *norm, int *rank,
                     double singular[ATTEND_SINGULAR]) {
  double s[MOST_FEATURES], sum = 0;
  svd_by_rotations((size_t)rows, (size_t)columns, a, NULL, s);
  *rank = 0;
  for (int i = 0; i < rows; i++) {
    sum += s[i] * s[i];
    *rank += s[i] > 0.01 * s[0] && s[i] > 1e-6;
    if (i < ATTEND_SINGULAR) singular[i] = s[i] > 1e-9 ? s[i] : 0;
  }
  *norm = sqrt(sum);
}

static void weigh_part(const attend_design *d, const float *w, int head, int which, double *norm,
                       double *spread) {
  const attend_design_part *p = head_part(d, head, which);
  size_t n = (size_t)p->rows * (size_t)p->columns;
  double sum = 0, squares = 0;
  for (size_t i = 0; i < n; i++) {
    sum += fabs((double)w[p->at + i]);
    squares += (double)w[p->at + i] * (double)w[p->at + i];
  }
  *norm = sqrt(squares);
  *spread = squares > 0 ? sum * sum / ((double)n * squares) : NAN;
}

static attend_status compare_weights(const attend_design *d, int head, attend_likeness *to) {
  const design_head *h = &d->heads[head];
  int n = h->reads, wide = n > d->answers ? n : d->answers;
  double *a;
  ATTEND_TRY(
      ctx_alloc(d->ctx, (size_t)(2 * wide * (n + qkv_width(h))) * sizeof *a, "two forms", &a));
  double *at[2] = {a, a + n * wide}, *work = a + 2 * n * wide;
  for (int t = 0; t < 2; t++) {
    for (int j = 0; j < 3; j++)
      weigh_part(d, d->weights[t], head, j, &to->norm[t][j], &to->spread[t][j]);
    score_form(d, d->weights[t], head, work, at[t]);
  }
  to->score_cosine = h->layer == 0 ? cosine(at[0], at[1], n * n) : NAN;
  for (int t = 0; t < 2; t++)
    describe(at[t], n, n, &to->score_norm[t], &to->score_rank[t], to->score_singular[t]);
  to->effect_cosine = to->effect_norm[0] = to->effect_norm[1] = NAN;
  if (h->layer == d->layers - 1) {
    for (int t = 0; t < 2; t++) effect_form(d, d->weights[t], head, work, at[t]);
    if (h->layer == 0) to->effect_cosine = cosine(at[0], at[1], n * d->answers);
    for (int t = 0; t < 2; t++)
      describe(at[t], n, d->answers, &to->effect_norm[t], &to->effect_rank[t],
               to->effect_singular[t]);
  }
  ctx_free(d->ctx, a);
  return ATTEND_OK;
}

/* ---- attention ---------------------------------------------------------------------------- */

typedef struct {
  const attend_design *d;
  int head;
  design_pass *pass[2];
  float *weights[2]; /* [AT_ONCE][places][places] */
} looking;

/* Of equal heaviest keys any will do. */
static bool shares_key(const float *a, const float *b, int n) {
  float x = 0, y = 0;
  for (int j = 0; j < n; j++) {
    x = fmaxf(x, a[j]);
    y = fmaxf(y, b[j]);
  }
  for (int j = 0; j < n; j++)
    if (a[j] >= x * 0.999f && b[j] >= y * 0.999f) return true;
  return false;
}

static void add_row(const float *a, const float *b, int n, attend_likeness *to) {
  for (int j = 0; j < n; j++) {
    to->distance += 0.5 * fabs((double)a[j] - (double)b[j]);
    if (a[j] > 0) to->entropy[0] -= (double)a[j] * log((double)a[j]);
    if (b[j] > 0) to->entropy[1] -= (double)b[j] * log((double)b[j]);
  }
  to->same_key += shares_key(a, b, n);
  to->rows++;
}

/* Rows that an answer comes from, in the last layer; before it, all. */
static void add_rows_of(const looking *l, int b, attend_likeness *to) {
  const attend_design *d = l->d;
  const design_pass *p = l->pass[0];
  bool last = d->heads[l->head].layer == d->layers - 1;
  for (int i = 0; i < p->lengths[b]; i++) {
    size_t row = (size_t)b * (size_t)d->places + (size_t)i;
    if (last && p->expected[row] < 0) continue;
    add_row(l->weights[0] + row * (size_t)d->places, l->weights[1] + row * (size_t)d->places,
            p->lengths[b], to);
  }
}

/* All inputs, or every n-th. */
static attend_status compare_attention(looking *l, attend_likeness *to) {
  const attend_design *d = l->d;
  uint64_t total = design_total(d, d->longest);
  uint64_t step = (total + MOST_LOOKED - 1) / MOST_LOOKED;
  for (uint64_t from = 0; from < total; from += step * AT_ONCE) {
    int n = 0;
    for (int b = 0; b < AT_ONCE; b++) {
      uint64_t index = from + step * (uint64_t)b;
      for (int t = 0; t < 2; t++) pass_put_number(l->pass[t], b, index < total ? index : from);
      n += index < total;
    }
    for (int t = 0; t < 2; t++) {
      ATTEND_TRY(pass_forward(l->pass[t]));
      ATTEND_TRY(pass_attention(l->pass[t], l->head, d->places, l->weights[t]));
    }
    for (int b = 0; b < n; b++) add_rows_of(l, b, to);
  }
  double rows = to->rows ? (double)to->rows : 1;
  to->distance /= rows;
  to->same_key /= rows;
  to->entropy[0] /= rows;
  to->entropy[1] /= rows;
  return ATTEND_OK;
}

attend_status attend_design_compare(const attend_design *d, double sharpness, int head,
                                    attend_likeness *likeness) {
  looking l = {.d = d, .head = head};
  *likeness = (attend_likeness){0};
  ATTEND_TRY(design_has(d, ATTEND_LEARNED));
  ATTEND_CHECK(d->ctx, head >= 0 && head < d->n_heads, "head %d: \"%s\" has %d of them", head,
               d->name, d->n_heads);
  size_t each = (size_t)(AT_ONCE * d->places * d->places);
  ATTEND_TRY(
      ctx_alloc_zeroed(d->ctx, 2 * each * sizeof(float), "attention to compare", &l.weights[0]));
  l.weights[1] = l.weights[0] + each;
  attend_status status = ATTEND_OK;
  for (int t = 0; t < 2 && !status; t++)
    status = pass_create(d, d->weights[t], t ? 1 : sharpness, AT_ONCE, false, &l.pass[t]);
  if (!status) status = compare_attention(&l, likeness);
  if (!status) status = compare_weights(d, head, likeness);
  pass_free(l.pass[0]);
  pass_free(l.pass[1]);
  ctx_free(d->ctx, l.weights[0]);
  return status;
}
