/* The definition as an engine: any form, slowly.
 *
 * The plan's last choice, for forms that no faster engine supports. It runs
 * definition.c in double on memory from the plan's workspace, through a context whose
 * allocator cuts from it, so that a call allocates nothing. A call over a state does
 * allocate: it gathers the state's keys, which grow, one sequence at a time.
 */
#include <math.h>
#include <string.h>

#include "attend/problem.h"
#include "attention/definition.h"
#include "attention/engine.h"
#include "attention/features.h"
#include "attention/state.h"
#include "attention/blocks.h"

static const char *applicable(const attend_context *ctx, const attend_desc *d) {
  (void)ctx;
  if (d->purpose & ATTEND_FOR_EXTEND && d->bias.kind && !d->mask.causal)
    return "a state of this form that is not causal supports no bias by position: choose softmax, "
           "or attend_forward";
  return NULL;
}

/* In double, a row at a time: the last choice. */
static double cost(const attend_desc *d) {
  (void)d;
  return INFINITY;
}

/* ---- workspace ------------------------------------------------------------------- */

static size_t count(const attend_desc *d, int heads, int64_t length, int width) {
  return SIZE_PRODUCT((size_t)d->batch, (size_t)heads, (size_t)length, (size_t)width);
}

typedef struct {
  double *dq, *dk, *dv, *dbias;
  unsigned char *rows; /* what definition.c takes for a row */
  size_t row_bytes;
} workspace;

/* A row, backward's scratch, and the directions while they are drawn; each block is rounded up. */
static size_t row_bytes(const attend_desc *d) {
  size_t beside = (size_t)d->kv_len + 2 * (size_t)d->dim + 2 * (size_t)d->dim_v;
  int dirs = form_directions(&d->form);
  size_t drawing = dirs ? projection_scratch(&d->form, dirs, d->dim) : 0;
  size_t bytes = size_add(definition_row_bytes(d), drawing);
  return size_add(bytes, size_add(size_times(beside, sizeof(double)), 1024));
}

static size_t workspace_cut(const attend_desc *d, arena a, workspace *r) {
  size_t f = sizeof(double);
  bool back = d->purpose & ATTEND_FOR_BACKWARD;
  r->dq = arena_cut(&a, SIZE_PRODUCT(back, count(d, d->heads, d->q_len, d->dim), f));
  r->dk = arena_cut(&a, SIZE_PRODUCT(back, count(d, d->kv_heads, d->kv_len, d->dim), f));
  r->dv = arena_cut(&a, SIZE_PRODUCT(back, count(d, d->kv_heads, d->kv_len, d->dim_v), f));
  r->dbias = arena_cut(&a, SIZE_PRODUCT(back, desc_bias_count(d), f));
  r->row_bytes = row_bytes(d);
  r->rows = arena_cut(&a, r->row_bytes);
  return a.used;
}

static void size(attend_plan *p) {
  workspace r;
  p->tile = 1;
  p->thread_bytes = 0;
  p->shared_bytes = workspace_cut(&p->desc, (arena){NULL, 0}, &r);
}

/* A bump allocator over one block. */
typedef struct {
  arena a;
  size_t size;
} pool;

static void *pool_take(size_t bytes, void *user) {
  pool *p = user;
  if (size_add(p->a.used, round_up(bytes, 64)) > p->size) return NULL;
  return arena_cut(&p->a, bytes);
}
static void pool_give(void *memory, void *user) { (void)memory, (void)user; }

static attend_status pool_context(const attend_plan *p, const workspace *r, pool *out,
                                  attend_context *ctx) {
  *out = (pool){{r->rows, 0}, r->row_bytes};
  ATTEND_TRY(context_child(p->ctx, 1, ctx));
  ctx->allocator = (attend_allocator){pool_take, pool_give, out};
  return ATTEND_OK;
}

/* A row of an output; from NULL: zeros. */
static void round_row(const call *c, const double *from, int width, const attend_view *to, int b,
                      int h, int64_t i) {
  const attend_dtype dtype = c->plan->desc.dtype;
  const size_t size = attend_dtype_size(dtype);
  char *row = view_at(to, size, b, h, i);
  for (int m = 0; m < width; m++) {
    float x = from ? (float)from[m] : 0;
    attend_convert_from_f32(dtype, &x, 1, row + (ptrdiff_t)size * m * to->stride[3]);
  }
}

static void round_to(const call *c, const double *src, int heads, int64_t length, int width,
                     const attend_view *to) {
  for (int b = 0; b < c->plan->desc.batch; b++)
    for (int h = 0; h < heads; h++)
      for (int64_t i = 0; i < length; i++, src += width) round_row(c, src, width, to, b, h, i);
}

/* ---- subproblems: tensors are one, a state is one for each sequence -------------- */

typedef struct {
  attend_desc desc; /* q_len 0: no queries or no keys */
  attend_view q, k, v;
  int first; /* sequence of the call that is sequence 0 here */
  void *block;
} subproblem;

static int subproblems(const call *c) { return c->state ? c->plan->desc.batch : 1; }

/* keys [G][S][D], values [G][S][M], and whether each key is real. */
static void gather(const call *c, int b, int64_t keys, char *k, char *v, uint8_t *real) {
  const kv_cache *s = kv_cache_of(c->state);
  const attend_desc *d = &c->plan->desc;
  const size_t size = attend_dtype_size(d->dtype);
  for (int64_t j = 0; j < keys; j++) {
    const page *from = s->sequence[b].page[j / PANEL];
    int slot = (int)(j % PANEL);
    real[j] = !from->padded || from->real[slot];
    for (int g = 0; g < d->kv_heads; g++) {
      size_t row = (size_t)(g * keys + j);
      const char *pk = page_keys(s, from, g), *pv = page_values(s, from, g);
      for (int i = 0; i < d->dim; i++)
        memcpy(k + (row * (size_t)d->dim + (size_t)i) * size,
               pk + panel_key_at(s->layout.pair, s->layout.width, slot, i) * size, size);
      for (int i = 0; i < d->dim_v; i++)
        memcpy(v + (row * (size_t)d->dim_v + (size_t)i) * size,
               pv + panel_value_at(s->layout.pair, s->layout.ldv, slot, i) * size, size);
    }
  }
}

static attend_status open_sequence(const call *c, int b, subproblem *p) {
  attend_desc *d = &p->desc;
  const size_t size = attend_dtype_size(d->dtype);
  int64_t keys = c->state->length[b];
  ATTEND_CHECK(c->plan->ctx, keys <= INT32_MAX,
               "sequence %d holds %lld keys: the definition takes at most %d", b, (long long)keys,
               INT32_MAX);
  size_t rows = size_times((size_t)d->kv_heads, (size_t)keys);
  size_t k_bytes = round_up(SIZE_PRODUCT(rows, (size_t)d->dim, size), 64);
  size_t v_bytes = round_up(SIZE_PRODUCT(rows, (size_t)d->dim_v, size), 64);
  p->first = b;
  d->batch = 1;
  d->q_len = keys ? call_queries(c, b) : 0;
  d->kv_len = (int)keys;
  d->purpose = 0;
  d->mask.lengths = NULL;
  if (d->mask.causal) d->mask.causal = ATTEND_CAUSAL_BOTTOM;
  if (d->q_len == 0) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(c->plan->ctx, size_add(size_add(k_bytes, v_bytes), (size_t)keys),
                       "a state's keys", &p->block));
  char *k = p->block, *v = k + k_bytes;
  uint8_t *real = (uint8_t *)v + v_bytes;
  gather(c, b, keys, k, v, real);
  d->mask.key_mask = real;
  p->q = c->q;
  p->q.data = view_at(&c->q, size, b, 0, 0);
  p->k = attend_bhtd(k);
  p->v = attend_bhtd(v);
  return ATTEND_OK;
}

static attend_status subproblem_open(const call *c, int i, subproblem *p) {
  *p = (subproblem){.desc = c->plan->desc, .q = c->q, .k = c->k, .v = c->v};
  return c->state ? open_sequence(c, i, p) : ATTEND_OK;
}

static void subproblem_close(const call *c, subproblem *p) { ctx_free(c->plan->ctx, p->block); }

/* ---- forward --------------------------------------------------------------------- */

/* Rows beyond lengths give zeros, as everywhere. */
static void forward_rows(const call *c, const subproblem *p, definition_row *row, double *o) {
  const attend_desc *d = &c->plan->desc;
  const attend_view v = view_complete(p->v, d->kv_heads, p->desc.kv_len, d->dim_v);
  const float nothing = attend_form_signed(&d->form) ? 0 : -INFINITY;
  for (int b = 0; b < p->desc.batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < c->n; i++) {
        const bool real = i < p->desc.q_len;
        const size_t head = (size_t)(p->first + b) * (size_t)d->heads + (size_t)h;
        if (real) definition_row_weigh(row, b, h, i);
        if (real) definition_row_output(row, &v, o + d->dim_v, o);
        round_row(c, real ? o : NULL, d->dim_v, &c->o, p->first + b, h, i);
        if (c->lse) c->lse[head * (size_t)c->n + (size_t)i] = real ? (float)row->lse : nothing;
      }
}

static attend_status forward_subproblem(const call *c, attend_context *ctx, const subproblem *p) {
  definition_row row = {0};
  double *o = NULL;
  attend_status status = ATTEND_OK;
  if (p->desc.q_len) {
    ATTEND_TRY(definition_row_open(ctx, &p->desc, p->q, p->k, &row));
    status = ctx_alloc(ctx, SIZE_PRODUCT(2, (size_t)p->desc.dim_v, sizeof *o), "one value", &o);
  }
  if (!status) forward_rows(c, p, &row, o);
  ctx_free(ctx, o);
  definition_row_close(ctx, &row);
  return status;
}

static attend_status forward(call *c) {
  attend_context own;
  workspace r;
  pool memory;
  attend_status status = ATTEND_OK;
  workspace_cut(&c->plan->desc, plan_shared_arena(c->plan), &r);
  ATTEND_TRY(pool_context(c->plan, &r, &memory, &own));
  for (int i = 0; i < subproblems(c) && !status; i++) {
    subproblem p;
    status = subproblem_open(c, i, &p);
    if (!status) status = forward_subproblem(c, c->state ? c->plan->ctx : &own, &p);
    subproblem_close(c, &p);
  }
  return status;
}

/* ---- backward -------------------------------------------------------------------- */

/* The definition's dbias is [B,H,T,S]; broadcast dimensions are summed. */
static void sum_dense(const call *c, const double *src) {
  const attend_desc *d = &c->plan->desc;
  attend_view v = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  for (int pass_number = 0; pass_number < 2; pass_number++) {
    const double *x = src;
    for (int b = 0; b < d->batch; b++)
      for (int h = 0; h < d->heads; h++)
        for (int i = 0; i < d->q_len; i++)
          for (int64_t j = 0; j < d->kv_len; j++, x++) {
            float *out =
                c->dbias + b * v.stride[0] + h * v.stride[1] + i * v.stride[2] + j * v.stride[3];
            *out = pass_number ? *out + (float)*x : 0.0f;
          }
  }
}

static attend_status backward(call *c) {
  attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  workspace r;
  pool memory;
  workspace_cut(d, plan_shared_arena(p), &r);
  attend_context ctx;
  ATTEND_TRY(pool_context(p, &r, &memory, &ctx));
  ATTEND_TRY(attend_definition_backward(&ctx, d, c->q, c->k, c->v, c->d_o, r.dq, r.dk, r.dv,
                                        c->dbias ? r.dbias : NULL));
  round_to(c, r.dq, d->heads, d->q_len, d->dim, &c->dq);
  round_to(c, r.dk, d->kv_heads, d->kv_len, d->dim, &c->dk);
  round_to(c, r.dv, d->kv_heads, d->kv_len, d->dim_v, &c->dv);
  if (c->dbias && d->bias.kind == ATTEND_DENSE) sum_dense(c, r.dbias);
  if (c->dbias && d->bias.kind != ATTEND_DENSE)
    for (size_t i = 0; i < desc_bias_count(d); i++) c->dbias[i] = (float)r.dbias[i];
  return ATTEND_OK;
}

/* ---- observe: weights recomputed in double, a row at a time ---------------------- */

typedef struct {
  const call *c;
  int64_t width; /* keys of the longest sequence */
  float *line;   /* [width] for obs->each, or NULL */
  size_t row;    /* of [B,H,T] */
  int i;         /* query */
} place;

static void write_weights(const place *p, size_t head, const definition_row *row) {
  const attend_observation *obs = p->c->obs;
  for (int r = 0; obs->weights && r < obs->n_rows; r++) {
    if (obs->rows[r] != p->i) continue;
    float *to = obs->weights + (head * (size_t)obs->n_rows + (size_t)r) * (size_t)p->width;
    for (int s = 0; s < row->n_visible; s++) to[row->visible[s]] = (float)row->weight[s];
  }
}

static void call_each(const place *p, int b, int h, int slot, const definition_row *row) {
  const attend_observation *obs = p->c->obs;
  int64_t to = obs->key_to ? min64(obs->key_to, p->width) : p->width;
  if (obs->key_from >= to) return;
  memset(p->line, 0, (size_t)p->width * sizeof *p->line);
  for (int s = 0; s < row->n_visible; s++) p->line[row->visible[s]] = (float)row->weight[s];
  attend_weight_span all = {
      b, h, p->i, slot, (int)obs->key_from, (int)(to - obs->key_from), p->line + obs->key_from};
  obs->each(&all, obs->user);
}

static void write_each(const place *p, int b, int h, const definition_row *row) {
  const attend_observation *obs = p->c->obs;
  if (!obs->each) return;
  if (!obs->n_rows) call_each(p, b, h, p->i, row);
  for (int r = 0; r < obs->n_rows; r++)
    if (obs->rows[r] == p->i) call_each(p, b, h, r, row);
}

/* Insertion sort: the heaviest first, ties by position. */
static void write_top(const place *p, const definition_row *row) {
  const attend_observation *obs = p->c->obs;
  int32_t *index = obs->top_index + p->row * (size_t)obs->top;
  float *weight = obs->top_weight + p->row * (size_t)obs->top;
  int count = 0;
  for (int s = 0; s < row->n_visible; s++) {
    float w = (float)row->weight[s];
    if (count == obs->top && w <= weight[count - 1]) continue;
    int at = count < obs->top ? count++ : count - 1;
    for (; at > 0 && w > weight[at - 1]; at--) {
      weight[at] = weight[at - 1];
      index[at] = index[at - 1];
    }
    weight[at] = w;
    index[at] = row->visible[s];
  }
  for (; count < obs->top; count++) {
    index[count] = -1;
    weight[count] = 0;
  }
}

static void write_sums(const place *p, size_t head, const definition_row *row) {
  const attend_observation *obs = p->c->obs;
  double entropy = 0;
  for (int s = 0; s < row->n_visible; s++) {
    double w = row->weight[s];
    if (w > 0) entropy -= w * log(w);
    if (obs->mass) obs->mass[head * (size_t)p->width + (size_t)row->visible[s]] += (float)w;
  }
  if (obs->entropy) obs->entropy[p->row] = (float)entropy;
}

/* Statistics are of all rows. */
static bool is_observed(const attend_observation *obs, int i) {
  if (obs->top || obs->entropy || obs->mass) return true;
  if (obs->each && !obs->n_rows) return true;
  for (int r = 0; r < obs->n_rows; r++)
    if (obs->rows[r] == i) return true;
  return false;
}

static void observe_subproblem(const call *c, const subproblem *p, definition_row *row,
                               int64_t width, float *line) {
  const attend_desc *d = &p->desc;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < d->heads; h++)
      for (int i = 0; i < d->q_len; i++) {
        size_t head = (size_t)(p->first + b) * (size_t)d->heads + (size_t)h;
        place at = {c, width, line, head * (size_t)c->n + (size_t)i, i};
        if (!is_observed(c->obs, i)) continue;
        definition_row_weigh(row, b, h, i);
        write_weights(&at, head, row);
        write_each(&at, p->first + b, h, row);
        if (c->obs->top) write_top(&at, row);
        if (c->obs->entropy || c->obs->mass) write_sums(&at, head, row);
      }
}

/* Rows beyond lengths write nothing. */
static void clear(const call *c, int64_t width) {
  const attend_observation *obs = c->obs;
  const attend_desc *d = &c->plan->desc;
  size_t heads = (size_t)d->batch * (size_t)d->heads;
  size_t rows = heads * (size_t)c->n;
  if (obs->weights)
    memset(obs->weights, 0, heads * (size_t)obs->n_rows * (size_t)width * sizeof(float));
  if (obs->mass) memset(obs->mass, 0, heads * (size_t)width * sizeof(float));
  if (obs->entropy) memset(obs->entropy, 0, rows * sizeof(float));
  for (size_t i = 0; i < rows * (size_t)obs->top; i++) {
    obs->top_index[i] = -1;
    obs->top_weight[i] = 0;
  }
}

static attend_status observe(call *c) {
  ATTEND_TRY(check_observation(c, false));
  attend_status status = ATTEND_OK;
  int64_t width = call_width(c);
  float *line = NULL;
  clear(c, width);
  if (c->obs->each)
    ATTEND_TRY(ctx_alloc(c->plan->ctx, size_times((size_t)width, sizeof *line), "a row of weights",
                         &line));
  for (int i = 0; i < subproblems(c) && !status; i++) {
    subproblem p;
    definition_row row = {0};
    status = subproblem_open(c, i, &p);
    if (!status && p.desc.q_len) {
      status = definition_row_open(c->plan->ctx, &p.desc, p.q, p.k, &row);
      if (!status) observe_subproblem(c, &p, &row, width, line);
      definition_row_close(c->plan->ctx, &row);
    }
    subproblem_close(c, &p);
  }
  ctx_free(c->plan->ctx, line);
  return status;
}

const attend_engine engine_definition = {
    .name = "definition",
    .states = &state_kv_cache,
    .at_once = true,
    .applicable = applicable,
    .cost = cost,
    .size = size,
    .forward = forward,
    .backward = backward,
    .observe = observe,
};
