/* Hard argmax attention: the value of the best key. The plan's choice for argmax without a
 * temperature.
 *
 * Uses softmax's tiles and scores; a row keeps its best score, the number of keys that
 * have it, and the sum of their values. Equal keys have bit-equal scores, since a score
 * is one chain of fma, so ties are exact.
 *
 * Backward: a small change of q or k does not change the best key, so dQ and dK are
 * zero, and dO goes to the chosen value.
 */
#include <math.h>
#include <string.h>

#include "attention/engine.h"
#include "attention/blocks.h"

static const char *applicable(const attend_context *ctx, const attend_desc *d) {
  (void)ctx;
  if (d->form.kind != ATTEND_ARGMAX) return "the form is not argmax";
  if (d->form.temperature > 0) return "argmax with a temperature is softmax";
  return NULL;
}

/* ---- workspace ------------------------------------------------------------------- */

/* dV in f32 if the caller's is 16-bit: [B,G,S,M]. */
static size_t dv_bytes(const attend_plan *p) {
  const attend_desc *d = &p->desc;
  if (!(d->purpose & ATTEND_FOR_BACKWARD) || d->dtype == ATTEND_F32) return 0;
  return SIZE_PRODUCT((size_t)d->batch, (size_t)d->kv_heads, (size_t)d->kv_len, (size_t)d->dim_v,
                      sizeof(float));
}

static void size(attend_plan *p) {
  scratch w;
  p->tile = tile_rows(p);
  p->thread_bytes = scratch_cut(p, (arena){NULL, 0}, &w);
  p->shared_bytes = size_add(round_up(bias_shared_bytes(p), 64), dv_bytes(p));
}

/* ---- forward --------------------------------------------------------------------- */

static bool any_nan(int j0, int j1, const float *s) {
  int nan = 0;
  for (int j = j0; j < j1; j++) nan |= s[j] != s[j];
  return nan;
}

/* Updates (m, l, o) of a row with its scores on a block. */
static void row_fold(const call *c, const block *k, int j0, int j1, const float *s, float *m,
                     float *l, float *o) {
  bool first = c->plan->desc.form.ties == ATTEND_TIES_FIRST;
  if (any_nan(j0, j1, s)) *m = *l = NAN;
  float top = c->plan->kn->row_max(j0, j1, s);
  if (*l != *l || top == -INFINITY || top < *m) return;
  if (top > *m) {
    *m = top, *l = 0.0f;
    memset(o, 0, (size_t)c->plan->ldv * sizeof *o);
  }
  for (int j = j0; j < j1 && !(first && *l > 0); j++)
    if (s[j] == top) {
      for (int i = 0; i < c->plan->desc.dim_v; i++) o[i] += block_value(c, k, j, i);
      *l += 1.0f;
    }
}

static void tile_end(const call *c, tile t, const scratch *w) {
  const attend_plan *p = c->plan;
  target out = {.dtype = p->desc.dtype, .row = 0, .col = c->o.stride[3]};
  for (int i = 0; i < t.rows; i++) {
    out.data = row_address(c, &c->o, t.b, t.g, t.row + i);
    p->kn->store_rows(w->o + (size_t)i * p->ldv, p->ldv, 1, p->desc.dim_v, w->l + i, out);
    if (c->lse) c->lse[row_index(c, t, i)] = w->m[i];
  }
}

static void group_fold(const visit *v, void *with) {
  (void)with;
  int ld = v->c->plan->ldv;
  scratch *w = v->w;
  for (int r = 0, row = v->at; r < v->g.rows; r++, row++)
    row_fold(v->c, &w->keys, v->j0, v->j1, w->s + r * BLOCK, w->m + row, w->l + row,
             w->o + (size_t)row * (size_t)ld);
}

static void tile_item(const void *args, int64_t i, int worker) {
  const call *c = args;
  scratch w;
  const tile t = call_tile(c, i);
  scratch_open(c->plan, worker, &w);
  tile_begin(c, t, &w);
  tile_clear(c->plan, t.rows, &w);
  tile_visit(c, t, &w, group_fold, NULL);
  tile_end(c, t, &w);
  c->plan->fast->end();
}

static attend_status forward(call *c) {
  call_begin(c);
  STREAM_ADD(plan_stream(c->plan), call_tiles(c), tile_item, *c);
  return ATTEND_OK;
}

/* ---- backward -------------------------------------------------------------------- */

/* Rows of dV that one stack owns, in f32. */
static target dv_rows(const call *c, int b, int g) {
  const attend_desc *d = &c->plan->desc;
  if (d->dtype == ATTEND_F32)
    return (target){view_at(&c->dv, 4, b, g, 0), ATTEND_F32, c->dv.stride[2], c->dv.stride[3]};
  arena a = plan_shared_arena(c->plan);
  arena_cut(&a, bias_shared_bytes(c->plan));
  float *all = arena_cut(&a, 0);
  size_t stack = (size_t)b * (size_t)d->kv_heads + (size_t)g;
  return (target){all + stack * (size_t)d->kv_len * (size_t)d->dim_v, ATTEND_F32, d->dim_v, 1};
}

/* Adds dO of a row to the values of its best keys; without d_o only counts them into l. */
static void row_scatter(const call *c, tile g, int r, const block *k, int j0, int j1,
                        const float *s, const float *d_o, float *l, float *left, target dv) {
  bool first = c->plan->desc.form.ties == ATTEND_TIES_FIRST;
  float best = c->lse_in[row_index(c, g, r)];
  for (int j = j0; j < j1; j++) {
    if (s[j] != best || s[j] == -INFINITY) continue;
    if (!d_o) {
      *l += 1.0f;
      continue;
    }
    if (*left == 0.0f) return;
    *left = first ? 0.0f : *left;
    target row = dv;
    row.data = (float *)dv.data + (k->start + j) * dv.row;
    c->plan->kn->add_rows(d_o, c->plan->ldv, 1, c->plan->desc.dim_v, first ? 1.0f : 1.0f / *l, row);
  }
}

/* with: where dV goes, or NULL to count. */
static void group_scatter(const visit *v, void *with) {
  const target *dv = with;
  int ld = v->c->plan->ldv;
  scratch *w = v->w;
  for (int r = 0, row = v->at; r < v->g.rows; r++, row++)
    row_scatter(v->c, v->g, r, &w->keys, v->j0, v->j1, w->s + r * BLOCK,
                dv ? w->o + (size_t)row * (size_t)ld : NULL, w->l + row, w->m + row,
                dv ? *dv : (target){0});
}

static void stack_backward(const call *c, int b, int g, scratch *w) {
  const attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  target dv = dv_rows(c, b, g);
  rows_store(p, NULL, 0, d->kv_len, d->dim_v, dv);
  int64_t rows = (int64_t)c->n * p->group;
  for (int64_t row = 0; row < rows; row += p->tile) {
    tile t = {b, g, (int)row, (int)min64(p->tile, rows - row)};
    tile_begin(c, t, w);
    tile_clear(p, t.rows, w);
    tile_visit(c, t, w, group_scatter, NULL);
    for (int i = 0; i < t.rows; i++) w->m[i] = 1.0f; /* not scattered yet */
    rows_load(c, &c->d_o, t, d->dim_v, p->ldv, true, w->o);
    tile_visit(c, t, w, group_scatter, &dv);
  }
  if (d->dtype == ATTEND_F32) return;
  rows_store(p, dv.data, d->dim_v, d->kv_len, d->dim_v,
             (target){view_at(&c->dv, 2, b, g, 0), d->dtype, c->dv.stride[2], c->dv.stride[3]});
}

static void clear_view(const call *c, const attend_view *v, int heads, int64_t length, int width) {
  const attend_desc *d = &c->plan->desc;
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < heads; h++) {
      target rows = {view_at(v, attend_dtype_size(d->dtype), b, h, 0), d->dtype, v->stride[2],
                     v->stride[3]};
      rows_store(c->plan, NULL, 0, length, width, rows);
    }
}

static void clear_dbias(const call *c) {
  const attend_desc *d = &c->plan->desc;
  if (d->bias.kind == ATTEND_DENSE)
    dense_clear(c);
  else
    memset(c->dbias, 0, desc_bias_count(d) * sizeof *c->dbias);
}

static void stack_item(const void *args, int64_t i, int worker) {
  const call *c = args;
  int heads = c->plan->desc.kv_heads;
  scratch w;
  scratch_open(c->plan, worker, &w);
  stack_backward(c, (int)(i / heads), (int)(i % heads), &w);
  c->plan->fast->end();
}

static attend_status backward(call *c) {
  attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  c->on = p->fast; /* forward's scores, to the bit: ties are found by them */
  call_begin(c);
  clear_view(c, &c->dq, d->heads, c->n, d->dim);
  clear_view(c, &c->dk, d->kv_heads, d->kv_len, d->dim);
  if (c->dbias) clear_dbias(c);
  STREAM_ADD(plan_stream(p), d->batch * d->kv_heads, stack_item, *c);
  return ATTEND_OK;
}

const attend_engine engine_argmax = {
    .name = "argmax-tiled",
    .states = &state_kv_cache,
    .applicable = applicable,
    .cost = flops_of_pairs,
    .size = size,
    .forward = forward,
    .backward = backward,
    .observe = observe_tiled,
};
