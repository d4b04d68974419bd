/* Scores of a group of queries on a block of keys, with bias and mask: ALiBi (Press et
 * al. 2022), T5's buckets (Raffel et al. 2020) or a dense bias.
 *
 * Scores are log2 of the weights, so that the kernels' exponential is 2^x without a
 * multiplication.
 */
#include <math.h>

#include "attention/blocks.h"

/* ---- buckets: a table by distance, spread out once per call ------------------- */

static size_t spread_length(const attend_plan *p) {
  return 2 * (size_t)p->desc.bias.max_distance + 1;
}

size_t bias_shared_bytes(const attend_plan *p) {
  if (p->desc.bias.kind != ATTEND_BUCKETS) return 0;
  return SIZE_PRODUCT(spread_length(p), (size_t)p->desc.heads, sizeof(float));
}

/* [H][2 max + 1], entry max + distance; farther keys share the last bucket. */
static float *spread_of(const attend_plan *p) {
  arena a = plan_shared_arena(p);
  return arena_cut(&a, bias_shared_bytes(p));
}

static void bias_prepare(const call *c) {
  const attend_plan *p = c->plan;
  const attend_bias *bias = &p->desc.bias;
  if (bias->kind != ATTEND_BUCKETS) return;
  float *out = spread_of(p);
  int far = bias->max_distance, heads = p->desc.heads;
  for (int h = 0; h < heads; h++)
    for (int distance = -far; distance <= far; distance++)
      *out++ = p->bias_to2 *
               bias->table[(size_t)attend_bucket(bias, distance) * (size_t)heads + (size_t)h];
}

static void begin_item(const void *args, int64_t item, int worker) {
  const call *c = args;
  (void)item, (void)worker;
  __atomic_store_n(&c->plan->weak_rows, 0, __ATOMIC_RELAXED);
  bias_prepare(c);
}

void call_begin(const call *c) {
  const attend_desc *d = &c->plan->desc;
  bool counts = d->form.kind != ATTEND_SOFTMAX && d->form.kind != ATTEND_ARGMAX;
  if (counts || d->bias.kind == ATTEND_BUCKETS) STREAM_ADD(plan_stream(c->plan), 1, begin_item, *c);
}

static void add_buckets(const float *spread, int far, int64_t distance, int j0, int j1, float *s) {
  for (int j = j0; j < j1; j++) {
    int64_t at = max64(-far, min64(far, distance + j));
    s[j] += spread[far + at];
  }
}

/* Beyond the last key there is no bias to read. */
static void add_dense(const float *bias, ptrdiff_t col, float factor, int j0, int j1, int keys,
                      float *s) {
  for (int j = j0; j < j1 && j < keys; j++) s[j] += factor * bias[j * col];
}

static void add_row(const call *c, int b, int h, int64_t query, int64_t start, int j0, int j1,
                    float *s) {
  const attend_plan *p = c->plan;
  const attend_bias *bias = &p->desc.bias;
  int64_t distance = start - (call_position(c, b) + query);
  if (bias->kind == ATTEND_ALIBI)
    p->kn->add_ramp(j0, j1, -bias->slopes[h] * p->bias_to2, (float)distance, s);
  if (bias->kind == ATTEND_BUCKETS)
    add_buckets(spread_of(p) + spread_length(p) * (size_t)h, bias->max_distance, distance, j0, j1,
                s);
  if (bias->kind == ATTEND_DENSE) {
    attend_view v = view_complete(bias->dense, p->desc.heads, c->n, (int)p->desc.kv_len);
    add_dense((const float *)view_at(&v, sizeof(float), b, h, query) + start * v.stride[3],
              v.stride[3], p->bias_to2, j0, j1, (int)min64(BLOCK, p->desc.kv_len - start), s);
  }
}

/* ALiBi, buckets or dense, onto s[rows][BLOCK], times bias_to2. */
static void bias_add(const call *c, tile t, int64_t start, int j0, int j1, float *s) {
  if (c->plan->desc.bias.kind == ATTEND_NO_BIAS) return;
  for (int r = 0; r < t.rows; r++)
    add_row(c, t.b, row_head(c->plan, t.g, t.row + r), (t.row + r) / c->plan->group, start, j0, j1,
            s + r * BLOCK);
}

/* ---- norms -------------------------------------------------------------------- */

void block_norms(const call *c, span seen, block *k) {
  const attend_plan *p = c->plan;
  if (!takes_norms(p)) return;
  int width = (int)round_up((size_t)p->desc.dim, (size_t)c->on->step);
  int64_t lo = max64(seen.lo - k->start, 0) / PANEL;
  int64_t hi = min64(seen.hi - k->start, c->on->keys);
  for (int64_t i = lo; i * PANEL < hi; i++)
    p->kn->key_squares(c->on->pair, (int)min64(hi - i * PANEL, PANEL), width, k->k[i],
                       -0.5f * p->score_to2, k->norm + i * PANEL);
}

double query_norm(const call *c, tile t, int r) {
  const attend_desc *d = &c->plan->desc;
  if (!takes_norms(c->plan)) return 0;
  const char *row = row_address(c, &c->q, t.b, t.g, t.row + r);
  ptrdiff_t col = c->q.stride[3] * (ptrdiff_t)attend_dtype_size(d->dtype);
  double sum = 0;
  for (int i = 0; i < d->dim; i++) {
    float x;
    attend_convert_to_f32(d->dtype, row + i * col, 1, &x);
    sum += (double)x * (double)x;
  }
  return sum / (2 * (double)d->form.sigma * (double)d->form.sigma);
}

float row_lse2(const call *c, tile t, int r) {
  float lse = c->lse_in[row_index(c, t, r)];
  if (lse == -INFINITY) return INFINITY;
  return (float)(((double)lse + query_norm(c, t, r)) * LOG2E);
}

/* ---- scores and masks --------------------------------------------------------- */

bool call_adds(const call *c) {
  const attend_plan *p = c->plan;
  return p->desc.bias.kind != ATTEND_NO_BIAS || takes_norms(p) || is_capped(p);
}

/* The factor can be applied in the exponential if it is positive and nothing is added
 * before: then queries are not rounded, and ties stay ties. The exponential divides by
 * it, so it must not be tiny. */
float call_factor(const call *c) {
  bool waits = c->raw && c->plan->score_to2 > 1e-30f && !call_adds(c);
  return waits ? c->plan->score_to2 : 1.0f;
}

/* Applies the factor unless the exponential does; norms are added in the same fma, so
 * that cancelling terms are rounded once. */
static void scale_scores(const call *c, tile t, const block *k, int j0, int j1, float *s) {
  const attend_plan *p = c->plan;
  size_t n = (size_t)(j1 - j0);
  if (call_factor(c) == p->score_to2 && !takes_norms(p)) return;
  for (int r = 0; r < t.rows; r++, s += BLOCK)
    if (takes_norms(p))
      p->kn->scale_add(s + j0, n, p->score_to2, k->norm + j0, s + j0);
    else
      p->kn->scale_all(s + j0, n, p->score_to2, s + j0);
}

void group_products(const call *c, tile t, const void *q, const block *k, int j0, int j1,
                    float *s) {
  const attend_plan *p = c->plan;
  for (int j = j0; j < j1;) {
    int i = j / PANEL, at = i * PANEL;
    int end = at + PANEL < j1 ? at + PANEL : j1;
    if (p->by_differences) /* groups are packed as rows of f32 */
      p->kn->distances(t.rows, p->desc.dim, q, p->ldk, k->k[i], j - at, end - at, s + at);
    else
      c->on->scores(t.rows, p->desc.dim, q, k->k[i], j - at, end - at, s + at);
    j = end;
  }
}

void group_finish(const call *c, tile t, const block *k, int j0, int j1, float *s) {
  const attend_plan *p = c->plan;
  if (is_capped(p))
    p->kn->soft_cap(t.rows, j0, j1, p->cap_in, p->cap_out, s);
  else
    scale_scores(c, t, k, j0, j1, s);
  bias_add(c, t, k->start, j0, j1, s);
}

void group_scores(const call *c, tile t, const void *q, const block *k, int j0, int j1, float *s) {
  group_products(c, t, q, k, j0, j1, s);
  group_finish(c, t, k, j0, j1, s);
}

void group_mask(const call *c, tile t, const block *k, int j0, int j1, float value, float *s) {
  for (int r = 0; r < t.rows; r++, s += BLOCK) {
    span seen = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, min64(j1, seen.lo - k->start));
    int hi = (int)max64(lo, min64(j1, seen.hi - k->start));
    for (int j = j0; j < lo; j++) s[j] = value;
    for (int j = hi; j < j1; j++) s[j] = value;
    for (int i = 0; i < k->n_hidden; i++)
      if (k->hidden[i] >= j0 && k->hidden[i] < j1) s[k->hidden[i]] = value;
  }
}

bool group_sees(const call *c, tile t, const block *k, int j0, int j1) {
  span first = rows_see(c, t.b, t.row, 1);
  span last = rows_see(c, t.b, t.row + t.rows - 1, 1);
  return k->n_hidden == 0 && last.lo <= k->start + j0 && first.hi >= k->start + j1 &&
         last.hi >= k->start + j1;
}

/* 0 times NaN or infinity is NaN: each row sums exactly the keys that it sees. */
static void weigh_alone(const call *c, tile t, const block *k, int j0, int j1, const float *s,
                        int ld, const float *alpha, const float *beta, float *o) {
  for (int r = 0; r < t.rows; r++, o += ld) {
    span seen = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, min64(j1, seen.lo - k->start));
    int hi = (int)max64(lo, min64(j1, seen.hi - k->start));
    c->on->weigh(1, lo, hi, s + c->on->weights_at(r), k->rows, ld, alpha + r, beta + r, o);
  }
}

void group_weigh(const call *c, tile t, const block *k, int j0, int j1, const float *s, int ld,
                 const float *alpha, const float *beta, float *o) {
  if (k->non_finite && !group_sees(c, t, k, j0, j1))
    weigh_alone(c, t, k, j0, j1, s, ld, alpha, beta, o);
  else
    c->on->weigh(t.rows, j0, j1, s, k->rows, ld, alpha, beta, o);
}
