/* The definition as an engine: any form, slowly.
 *
 * The plan's last choice, for forms that no faster engine takes. It runs definition.c
 * in double on memory from the plan's workspace, through a context whose allocator
 * cuts from it, so that a call takes none (one over a state does: its keys are
 * gathered, and they grow).
 */
#include <string.h>

#include "attend/definition.h"
#include "attention/definition_pieces.h"
#include "attention/definition_row.h"
#include "attention/engine.h"
#include "attention/features.h"

static const char *applicable(const attend_desc *d) {
  if (d->purpose & ATTEND_FOR_EXTEND && d->bias.kind && !d->mask.causal)
    return "a bias by position has no place in a state of this form that is "
           "not causal: choose softmax, or attend_forward";
  return NULL;
}

/* In double, a row at a time: the last choice. */
static double cost(const attend_desc *d) {
  (void)d;
  return INFINITY;
}

static size_t count(const attend_desc *d, int heads, int64_t length,
                    int width) {
  return SIZE_PRODUCT((size_t)d->batch, (size_t)heads, (size_t)length,
                      (size_t)width);
}

typedef struct {
  double *o, *lse, *dq, *dk, *dv, *dbias;
  unsigned char *rows; /* what definition.c takes for a row */
  size_t row_bytes;
} room;

/* A row, what backward takes beside it, and the directions while they are
 * drawn; each piece is rounded up. */
static size_t row_bytes(const attend_desc *d) {
  size_t beside = (size_t)d->kv_len + 2 * (size_t)d->dim + 2 * (size_t)d->dim_v;
  int dirs = form_directions(&d->form);
  size_t drawing = dirs ? projection_scratch(&d->form, dirs, d->dim) : 0;
  size_t bytes = size_add(definition_row_bytes(d), drawing);
  return size_add(bytes, size_add(size_times(beside, sizeof(double)), 1024));
}

static size_t room_cut(const attend_desc *d, arena a, room *r) {
  size_t f = sizeof(double);
  bool back = d->purpose & ATTEND_FOR_BACKWARD;
  r->o = arena_cut(&a, size_times(count(d, d->heads, d->q_len, d->dim_v), f));
  r->lse = arena_cut(&a, size_times(count(d, d->heads, d->q_len, 1), f));
  r->dq = arena_cut(
      &a, SIZE_PRODUCT(back, count(d, d->heads, d->q_len, d->dim), f));
  r->dk = arena_cut(
      &a, SIZE_PRODUCT(back, count(d, d->kv_heads, d->kv_len, d->dim), f));
  r->dv = arena_cut(
      &a, SIZE_PRODUCT(back, count(d, d->kv_heads, d->kv_len, d->dim_v), f));
  r->dbias = arena_cut(&a, SIZE_PRODUCT(back, desc_bias_count(d), f));
  r->row_bytes = row_bytes(d);
  r->rows = arena_cut(&a, r->row_bytes);
  return a.used;
}

static void size(attend_plan *p) {
  room r;
  p->tile = 1;
  p->thread_bytes = 0;
  p->shared_bytes = room_cut(&p->desc, (arena){NULL, 0}, &r);
}

/* An allocator over one block; what it gave is never returned. */
typedef struct {
  arena a;
  size_t size;
} pool;

static void *pool_take(size_t bytes, void *user) {
  pool *p = user;
  if (size_add(p->a.used, round_up(bytes, 64)) > p->size) return NULL;
  return arena_cut(&p->a, bytes);
}
static void pool_give(void *block, void *user) { (void)block, (void)user; }

static attend_status pool_context(const attend_plan *p, const room *r,
                                  pool *out, attend_context *ctx) {
  *out = (pool){{r->rows, 0}, r->row_bytes};
  ATTEND_TRY(context_child(p->ctx, 1, ctx));
  ctx->allocator = (attend_allocator){pool_take, pool_give, out};
  return ATTEND_OK;
}

static void round_to(const call *c, const double *src, int heads,
                     int64_t length, int width, const attend_view *dst) {
  const attend_desc *d = &c->plan->desc;
  size_t size = attend_dtype_size(d->dtype);
  for (int b = 0; b < d->batch; b++)
    for (int h = 0; h < heads; h++)
      for (int64_t i = 0; i < length; i++) {
        char *row = view_at(dst, size, b, h, i);
        for (int m = 0; m < width; m++) {
          float x = (float)*src++;
          attend_convert_from_f32(d->dtype, &x, 1,
                                  row + (ptrdiff_t)size * m * dst->stride[3]);
        }
      }
}

static attend_status forward(call *c) {
  if (c->state) return definition_state_forward(c);
  attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  room r;
  pool memory;
  room_cut(d, plan_shared_arena(p), &r);
  attend_context ctx;
  ATTEND_TRY(pool_context(p, &r, &memory, &ctx));
  ATTEND_TRY(attend_definition_forward(&ctx, d, c->q, c->k, c->v, r.o, r.lse));
  round_to(c, r.o, d->heads, d->q_len, d->dim_v, &c->o);
  for (size_t i = 0; c->lse && i < count(d, d->heads, d->q_len, 1); i++)
    c->lse[i] = (float)r.lse[i];
  return ATTEND_OK;
}

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
            float *out = c->dbias + b * v.stride[0] + h * v.stride[1] +
                         i * v.stride[2] + j * v.stride[3];
            *out = pass_number ? *out + (float)*x : 0.0f;
          }
  }
}

static attend_status backward(call *c) {
  attend_plan *p = c->plan;
  const attend_desc *d = &p->desc;
  room r;
  pool memory;
  room_cut(d, plan_shared_arena(p), &r);
  attend_context ctx;
  ATTEND_TRY(pool_context(p, &r, &memory, &ctx));
  ATTEND_TRY(attend_definition_backward(&ctx, d, c->q, c->k, c->v, c->d_o, r.dq,
                                        r.dk, r.dv, c->dbias ? r.dbias : NULL));
  round_to(c, r.dq, d->heads, d->q_len, d->dim, &c->dq);
  round_to(c, r.dk, d->kv_heads, d->kv_len, d->dim, &c->dk);
  round_to(c, r.dv, d->kv_heads, d->kv_len, d->dim_v, &c->dv);
  if (c->dbias && d->bias.kind == ATTEND_DENSE) sum_dense(c, r.dbias);
  if (c->dbias && d->bias.kind != ATTEND_DENSE)
    for (size_t i = 0; i < desc_bias_count(d); i++)
      c->dbias[i] = (float)r.dbias[i];
  return ATTEND_OK;
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
    .observe = definition_observe,
};
