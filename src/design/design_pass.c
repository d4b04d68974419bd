/* A batch of inputs through a transformer that is nothing but attention.
 *
 * Place: design/ - under checks, runs and learning; the attention is the core's.
 *
 * Inputs of different lengths ride together: keys past an input's end are masked,
 * and a row's result does not depend on them. A head reads the features that were
 * there before its layer and writes features of its own, so one array x serves all
 * layers and is still whole when the way back needs it.
 */
#include <string.h>

#include "design/design.h"

/* ---- products of rows ------------------------------------------------------------- */

typedef struct {
  const float *x, *w;
  int ldx, k, n;
  float *y;
} row_product;

static void row_times(const void *args, int64_t r, int worker) {
  const row_product *p = args;
  const float *from = p->x + r * p->ldx;
  float *to = p->y + r * p->n;
  (void)worker;
  memset(to, 0, (size_t)p->n * sizeof *to);
  for (int i = 0; i < p->k; i++) { /* most features of a row are 0 */
    if (from[i] == 0) continue;
    for (int j = 0; j < p->n; j++) to[j] += from[i] * p->w[i * p->n + j];
  }
}

/* y [rows][n] = x [rows][ldx] w [k][n]. */
static void rows_times(attend_context *ctx, int threads, const float *x,
                       int rows, int ldx, const float *w, int k, int n,
                       float *y) {
  row_product p = {x, w, ldx, k, n, y};
  PARALLEL_FOR(ctx, rows > 256 ? threads : 1, rows, row_times, p);
}

/* ---- life ---------------------------------------------------------------------------- */

/* Threads that wait for each other cost more than a small batch takes. */
static int threads_for(const design_pass *p) {
  const attend_design *d = p->d;
  return (int64_t)p->batch * d->places * d->features > 1 << 17 ? d->ctx->threads
                                                               : 1;
}

static attend_status plan_head(design_pass *p, int i, double sharpness,
                               bool backward) {
  const attend_design *d = p->d;
  const design_head *h = &d->heads[i];
  attend_desc desc = {
      .batch = p->batch,
      .q_len = d->places,
      .kv_len = d->places,
      .dim = h->dim,
      .dim_v = h->dim_v,
      .scale = sharpness > 0 ? (float)sharpness : 1,
      .purpose = backward ? ATTEND_FOR_BACKWARD : 0,
      .mask = {.causal = d->causal ? ATTEND_CAUSAL : ATTEND_NOT_CAUSAL,
               .lengths = p->lengths}};
  if (!(sharpness > 0)) {
    desc.form.kind = ATTEND_ARGMAX;
    desc.form.ties = h->ties;
  }
  return attend_plan_create(d->ctx, &desc, &p->heads[i].plan);
}

/* A plan keeps the number of threads that its context has meanwhile. */
static attend_status plan_heads(design_pass *p, double sharpness,
                                bool backward) {
  attend_context *ctx = p->d->ctx;
  int threads = ctx->threads;
  attend_status status = ATTEND_OK;
  ctx->threads = p->threads;
  for (int i = 0; i < p->d->n_heads && !status; i++)
    status = plan_head(p, i, sharpness, backward);
  ctx->threads = threads;
  return status;
}

static void cut_backward(design_pass *p, arena *a, size_t rows) {
  const attend_design *d = p->d;
  size_t dim = 0, dim_v = 0;
  for (int i = 0; i < d->n_heads; i++) {
    if ((size_t)d->heads[i].dim > dim) dim = (size_t)d->heads[i].dim;
    if ((size_t)d->heads[i].dim_v > dim_v) dim_v = (size_t)d->heads[i].dim_v;
  }
  p->dx = arena_cut(a, rows * (size_t)d->features * sizeof(float));
  p->dlogits = arena_cut(a, rows * (size_t)d->answers * sizeof(float));
  p->dq = arena_cut(a, rows * dim * sizeof(float));
  p->dk = arena_cut(a, rows * dim * sizeof(float));
  p->dv = arena_cut(a, rows * dim_v * sizeof(float));
  p->dout = arena_cut(a, rows * dim_v * sizeof(float));
}

static size_t cut(design_pass *p, void *block, bool backward) {
  const attend_design *d = p->d;
  arena a = {block, 0};
  size_t rows = (size_t)p->batch * (size_t)d->places;
  p->ids = arena_cut(&a, rows * sizeof *p->ids);
  p->wanted = arena_cut(&a, rows * sizeof *p->wanted);
  p->lengths = arena_cut(&a, (size_t)p->batch * sizeof *p->lengths);
  p->x = arena_cut(&a, rows * (size_t)d->features * sizeof(float));
  p->logits = arena_cut(&a, rows * (size_t)d->answers * sizeof(float));
  for (int i = 0; i < d->n_heads; i++) {
    const design_head *h = &d->heads[i];
    pass_head *to = &p->heads[i];
    to->q = arena_cut(&a, rows * (size_t)h->dim * sizeof(float));
    to->k = arena_cut(&a, rows * (size_t)h->dim * sizeof(float));
    to->v = arena_cut(&a, rows * (size_t)h->dim_v * sizeof(float));
    to->o = arena_cut(&a, rows * (size_t)h->dim_v * sizeof(float));
    to->lse = arena_cut(&a, rows * sizeof(float));
  }
  if (backward) cut_backward(p, &a, rows);
  return a.used;
}

attend_status pass_create(const attend_design *d, double sharpness, int batch,
                          bool backward, design_pass **pass) {
  design_pass *p;
  *pass = NULL;
  ATTEND_TRY(take_zeroed(d->ctx, sizeof *p, "a pass", &p));
  p->d = d;
  p->batch = batch;
  p->threads = threads_for(p);
  attend_status status = take_zeroed(d->ctx, cut(p, NULL, backward),
                                     "a batch of inputs", &p->block);
  if (!status) cut(p, p->block, backward);
  if (!status) status = plan_heads(p, sharpness, backward);
  if (status)
    pass_free(p);
  else
    *pass = p;
  return status;
}

void pass_free(design_pass *p) {
  if (!p) return;
  for (int i = 0; i < p->d->n_heads; i++) attend_plan_free(p->heads[i].plan);
  give(p->d->ctx, p->block);
  give(p->d->ctx, p);
}

/* ---- forward --------------------------------------------------------------------------- */

void pass_put(design_pass *p, int b, const uint8_t *letter, int n) {
  int32_t *ids = p->ids + (size_t)b * (size_t)p->d->places;
  p->lengths[b] = design_ids(p->d, letter, n, ids);
}

void pass_put_number(design_pass *p, int b, uint64_t index) {
  const attend_design *d = p->d;
  int32_t *wanted = p->wanted + (size_t)b * (size_t)d->places;
  uint8_t letter[MOST_PLACES];
  int n;
  if (d->task) {
    design_input(d, index, letter, &n);
    design_wanted(d, letter, n, wanted);
    pass_put(p, b, letter, n);
  } else {
    design_example_wanted(d, &d->examples[index], wanted);
    pass_put(p, b, d->examples[index].letter, d->examples[index].n);
  }
}

/* One-hots, or rows of the two tables. */
static void embed(design_pass *p, const float *weights, int b, int place) {
  const attend_design *d = p->d;
  size_t row = (size_t)b * (size_t)d->places + (size_t)place;
  float *x = p->x + row * (size_t)d->features;
  int32_t id = p->ids[row];
  memset(x, 0, (size_t)d->features * sizeof *x);
  if (id < 0) return;
  if (d->positions != ATTEND_DESIGN_POSITIONS_ADDED) {
    x[id] = 1;
    if (d->positions == ATTEND_DESIGN_POSITIONS_CONCATENATED)
      x[d->tokens + place] = 1;
    return;
  }
  const float *e = weights + table_part(d, 0)->at + id * d->embedded,
              *w = weights + table_part(d, 1)->at + place * d->embedded;
  for (int i = 0; i < d->embedded; i++) x[i] = e[i] + w[i];
}

static void into_slot(design_pass *p, int head) {
  const attend_design *d = p->d;
  const design_head *h = &d->heads[head];
  int at = d->variables[h->variable].at, rows = p->batch * d->places;
  for (int r = 0; r < rows; r++)
    memcpy(p->x + (size_t)r * (size_t)d->features + at,
           p->heads[head].o + (size_t)r * (size_t)h->dim_v,
           (size_t)h->dim_v * sizeof(float));
}

static attend_status run_head(design_pass *p, int i, const float *weights) {
  const attend_design *d = p->d;
  const design_head *h = &d->heads[i];
  pass_head *to = &p->heads[i];
  float *const out[3] = {to->q, to->k, to->v};
  int rows = p->batch * d->places;
  for (int j = 0; j < 3; j++)
    rows_times(p->d->ctx, p->threads, p->x, rows, d->features,
               weights + head_part(d, i, j)->at, h->reads,
               head_part(d, i, j)->columns, out[j]);
  ATTEND_TRY(attend_forward(to->plan, attend_bhtd(to->q), attend_bhtd(to->k),
                            attend_bhtd(to->v), attend_bhtd(to->o), to->lse));
  into_slot(p, i);
  return ATTEND_OK;
}

attend_status pass_forward(design_pass *p, const float *weights) {
  const attend_design *d = p->d;
  int rows = p->batch * d->places;
  for (int b = 0; b < p->batch; b++)
    for (int i = 0; i < d->places; i++) embed(p, weights, b, i);
  for (int i = 0; i < d->n_heads; i++) ATTEND_TRY(run_head(p, i, weights));
  rows_times(p->d->ctx, p->threads, p->x, rows, d->features,
             weights + readout_part(d)->at, d->features, d->answers, p->logits);
  return ATTEND_OK;
}

int pass_answer(const attend_design *d, const float *logits, int wanted,
                double *lead) {
  int best = 0, ties = 0;
  double other = -1e300;
  for (int a = 0; a < d->answers; a++) {
    if (logits[a] > logits[best]) best = a;
    if (a != wanted && (double)logits[a] > other) other = (double)logits[a];
  }
  for (int a = 0; a < d->answers; a++) ties += logits[a] == logits[best];
  if (lead && wanted >= 0) *lead = (double)logits[wanted] - other;
  return ties == 1 ? best : ATTEND_UNDECIDED;
}
