/* Scores of a group of queries on a block of keys, with bias and mask: ALiBi (Press et
 * al. 2022), T5's buckets (Raffel et al. 2020) or a dense bias; and tiles of rows: size,
 * workspace, queries, iteration over groups and blocks.
 *
 * Scores are log2 of the weights, so that the kernels' exponential is 2^x without a
 * multiplication.
 */
#include <math.h>
#include <string.h>

#include "attention/blocks.h"

/* ---- buckets: a table by distance, spread out once per call ---------------------- */

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
    const float factor = p->bias_to2;
    const ptrdiff_t col = v.stride[3];
    const float *line = (const float *)view_at(&v, sizeof(float), b, h, query) + start * col;
    const int end = (int)min64(j1, p->desc.kv_len - start); /* of the bias */
    for (int j = j0; j < end; j++) s[j] += factor * line[j * col];
  }
}

/* ---- norms ----------------------------------------------------------------------- */

void block_norms(const call *c, span visible, block *k) {
  const attend_plan *p = c->plan;
  if (!takes_norms(p)) return;
  int width = (int)round_up((size_t)p->desc.dim, (size_t)c->on->step);
  int64_t lo = max64(visible.lo - k->start, 0) / PANEL;
  int64_t hi = min64(visible.hi - k->start, c->on->keys);
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

/* ---- scores and masks ------------------------------------------------------------ */

/* Whether more than a factor comes between the product and the exponential. */
static bool call_adds(const call *c) {
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
  if (p->desc.bias.kind == ATTEND_NO_BIAS) return;
  for (int r = 0; r < t.rows; r++)
    add_row(c, t.b, row_head(p, t.g, t.row + r), (t.row + r) / p->group, k->start, j0, j1,
            s + r * BLOCK);
}

void group_mask(const call *c, tile t, const block *k, int j0, int j1, float value, float *s) {
  for (int r = 0; r < t.rows; r++, s += BLOCK) {
    span visible = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, min64(j1, visible.lo - k->start));
    int hi = (int)max64(lo, min64(j1, visible.hi - k->start));
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
    span visible = rows_see(c, t.b, t.row + r, 1);
    int lo = (int)max64(j0, min64(j1, visible.lo - k->start));
    int hi = (int)max64(lo, min64(j1, visible.hi - k->start));
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

/* ---- tiles ----------------------------------------------------------------------- */

enum { TILE_ROWS = 16 };

/* The packed queries of the group that starts at row `at`. */
static void *tile_queries(const call *c, int at, const scratch *w) {
  return w->q + (size_t)(at / c->on->rows) * w->group_bytes;
}

size_t scratch_cut(const attend_plan *p, arena a, scratch *w) {
  size_t rows = (size_t)p->tile, f = sizeof(float);
  size_t wide = (size_t)(p->ldv > p->ldk ? p->ldv : p->ldk);
  block_cut(p, &a, false, &w->keys);
  w->group_bytes = p->fast->query_bytes(p->fast->rows, p->desc.dim);
  w->q = arena_cut(&a, size_times(rows / (size_t)p->fast->rows, w->group_bytes));
  w->longest = arena_cut(&a, size_times(rows / (size_t)p->fast->rows, f));
  w->o = arena_cut(&a, SIZE_PRODUCT(rows, wide, f));
  w->m = arena_cut(&a, size_times(rows, f));
  w->l = arena_cut(&a, SIZE_PRODUCT(2, rows, f));
  size_t scores = SIZE_PRODUCT((size_t)p->fast->rows, BLOCK, f);
  w->s = w->p = arena_cut(&a, scores);
  w->spare_s = w->spare_p = NULL;
  if (p->fast->pair == 1) return a.used;
  /* A tile of weights is read whole, from any row on. */
  size_t weights =
      SIZE_PRODUCT((size_t)(p->fast->rows + TILE_ROWS), (size_t)p->fast->keys, sizeof(uint16_t));
  w->p = arena_cut(&a, weights);
  w->spare_s = arena_cut(&a, scores);
  w->spare_p = arena_cut(&a, weights);
  return a.used;
}

void scratch_open(const attend_plan *p, int thread, scratch *w) {
  scratch_cut(p, plan_thread_arena(p, thread), w);
  p->fast->begin();
}

/* Rows of a tile share loaded keys, so more rows mean less memory traffic: q and o of a
 * tile take half of the L2 cache. With too few tiles for the threads, tiles are smaller.
 * No result depends on it. */
int tile_rows(const attend_plan *p) {
  int64_t group = p->fast->rows, wide = p->ldk + p->ldv;
  int64_t rows = (int64_t)p->ctx->near_bytes / 2 / (4 * wide);
  rows = max64(96, min64(rows, 1024));
  int64_t stack = (int64_t)p->desc.q_len * p->group;
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  int64_t shares = (4 * p->threads + stacks - 1) / stacks;
  rows = min64(rows, max64(stack / shares, 48));
  rows = min64(rows, max64(stack, 1));
  return (int)((rows + group - 1) / group * group);
}

void tile_begin(const call *c, tile t, scratch *w) {
  const attend_plan *p = c->plan;
  rows_load(c, &c->q, t, p->desc.dim, p->ldk, false, w->o);
  for (int i = 0; i < t.rows; i += c->on->rows) {
    const float *rows = w->o + (size_t)i * p->ldk;
    int n = tile_group(c->on->rows, t, i).rows;
    c->on->pack_queries(rows, p->ldk, n, p->desc.dim, tile_queries(c, i, w));
    float square[GROUP], top = 0;
    p->kn->row_dots(n, p->desc.dim, rows, rows, p->ldk, square);
    for (int r = 0; r < n; r++)
      if (square[r] > top) top = square[r];
    w->longest[i / c->on->rows] = top;
  }
}

/* |q.k| <= |q| |k|. */
bool tile_bounded(const call *c, tile g, int at, int j0, int j1, const scratch *w) {
  const attend_plan *p = c->plan;
  if (call_adds(c) || p->by_differences || call_factor(c) != p->score_to2) return false;
  float product = w->longest[at / c->on->rows] * w->keys.longest;
  float max = BOUND / p->score_to2;
  return product < max * max && group_sees(c, g, &w->keys, j0, j1);
}

void tile_clear(const attend_plan *p, int rows, scratch *w) {
  memset(w->o, 0, (size_t)rows * (size_t)p->ldv * sizeof(float));
  memset(w->l, 0, 2 * (size_t)rows * sizeof(float));
  for (int i = 0; i < rows; i++) w->m[i] = -INFINITY;
}

bool tile_scores(const call *c, tile g, int at, int *j0, int *j1, scratch *w) {
  const block *k = &w->keys;
  span visible = rows_see(c, g.b, g.row, g.rows);
  visible.hi = min64(visible.hi, k->start + c->on->keys);
  if (!block_part(visible, k->start, j0, j1)) return false;
  group_products(c, g, tile_queries(c, at, w), k, *j0, *j1, w->s);
  group_finish(c, g, k, *j0, *j1, w->s);
  const attend_form *f = &c->plan->desc.form;
  bool poly = is_poly(c->plan);
  if (poly) c->plan->kn->power(g.rows, *j0, *j1, f->a, f->c, f->degree, w->s);
  if (!group_sees(c, g, k, *j0, *j1)) group_mask(c, g, k, *j0, *j1, poly ? 0.0f : -INFINITY, w->s);
  return true;
}

void tile_visit(const call *c, tile t, scratch *w, void (*f)(const visit *v, void *with),
                void *with) {
  span visible = rows_see(c, t.b, t.row, t.rows);
  int64_t first = first_block(c, visible), end = end_block(c, visible);
  if (c->key_to) {
    first = max64(first, c->key_from / c->on->keys);
    end = min64(end, (c->key_to + c->on->keys - 1) / c->on->keys);
  }
  for (int64_t i = first; i < end; i++) {
    if (!seen_block_load(c, t, i, visible, &w->keys)) continue;
    for (int at = 0; at < t.rows; at += c->on->rows) {
      visit v = {c, tile_group(c->on->rows, t, at), at, 0, 0, w};
      if (tile_scores(c, v.g, at, &v.j0, &v.j1, w)) f(&v, with);
    }
  }
}

/* ---- overlap --------------------------------------------------------------------- */

/* A software pipeline over the groups of a tile: while one group's exponentials run, the
 * scores of the next and the weighted values of the last are computed (as FlashAttention-3
 * overlaps softmax and products).
 *
 * For kernels that can: AMX's tiles work beside the vector units. Groups at an edge of the
 * mask are computed step by step between the others. The operations on a row and their
 * order are those of the plain loop, so the bits are too. */

typedef struct {
  tile g;
  int at, j0, j1;
  bool live; /* sees some of the block */
  bool full; /* a whole group that sees all of it, with raw scores */
} stage;

static stage stage_of(const call *c, tile t, int at, const scratch *w) {
  stage s = {.at = at};
  if (at >= t.rows) return s;
  const block *k = &w->keys;
  s.g = tile_group(c->on->rows, t, at);
  span visible = rows_see(c, t.b, s.g.row, s.g.rows);
  visible.hi = min64(visible.hi, k->start + c->on->keys);
  s.live = block_part(visible, k->start, &s.j0, &s.j1);
  s.full = s.live && s.g.rows == c->on->rows && s.j0 == 0 && s.j1 == c->on->keys &&
           call_factor(c) == c->plan->score_to2 && !call_adds(c) &&
           group_sees(c, s.g, k, s.j0, s.j1);
  return s;
}

/* Double buffering: a group's softmax uses one set while the products use the other. */
typedef struct {
  float *s, *p;
  float alpha[GROUP], beta[GROUP];
} buffers;

static void weigh_now(const call *c, const stage *x, const buffers *b, const scratch *w) {
  int ld = c->plan->ldv;
  group_weigh(c, x->g, &w->keys, x->j0, x->j1, b->p, ld, b->alpha, b->beta,
              w->o + (size_t)x->at * (size_t)ld);
}

static void score_now(const call *c, stage *x, const buffers *b, scratch *w) {
  w->s = b->s;
  tile_scores(c, x->g, x->at, &x->j0, &x->j1, w);
}

static void step(const call *c, const stage *last, const stage *now, const stage *next,
                 buffers *mine, const buffers *other, const scratch *w) {
  int ld = c->plan->ldv;
  struct block_products ride = {.width = c->plan->desc.dim, .ld = ld};
  if (next->full) {
    ride.q = tile_queries(c, next->at, w);
    ride.k = w->keys.k;
    ride.s = other->s;
  }
  if (last->full) {
    ride.p = other->p;
    ride.v = w->keys.rows;
    ride.alpha = other->alpha;
    ride.beta = other->beta;
    ride.o = w->o + (size_t)last->at * (size_t)ld;
  }
  struct block_soft soft = {now->g.rows,
                            now->j0,
                            now->j1,
                            call_factor(c),
                            now->live && tile_bounded(c, now->g, now->at, now->j0, now->j1, w),
                            mine->s,
                            mine->p,
                            w->m + now->at,
                            w->l + 2 * now->at,
                            mine->alpha,
                            mine->beta};
  c->on->overlap(now->live ? &soft : NULL, &ride);
}

void overlap_block(const call *c, tile t, scratch *w) {
  buffers both[2] = {{.s = w->s, .p = w->p}, {.s = w->spare_s, .p = w->spare_p}};
  float *first = w->s;
  stage last = {0}, now = stage_of(c, t, 0, w);
  int odd = 0;
  if (now.live) score_now(c, &now, &both[0], w);
  for (int at = 0; at < t.rows; at += c->on->rows, odd ^= 1) {
    stage next = stage_of(c, t, at + c->on->rows, w);
    step(c, &last, &now, &next, &both[odd], &both[!odd], w);
    if (next.live && !next.full) score_now(c, &next, &both[!odd], w);
    if (now.live && !now.full) weigh_now(c, &now, &both[odd], w);
    last = now;
    now = next;
  }
  if (last.full) weigh_now(c, &last, &both[!odd], w);
  w->s = first;
}
