/* Copies of a call's tensors; see crossing.h. */
#include "device/crossing.h"

#include "device/device.h"

/* ---- what a call reads and writes ------------------------------------------------- */

static void cross(crossing *x, void *pointer /* T ** */, ptrdiff_t low, ptrdiff_t high,
                  bool written) {
  void **slot = pointer;
  char *at = *slot;
  if (!at || high <= low) return;
  if (x->ctx->device->owns(x->ctx, at) == (x->direction == TO_DEVICE)) return;
  x->all[x->n++] = (crossing_pointer){slot, at, at + low, at + high, written};
}

static void cross_array(crossing *x, void *pointer /* T ** */, size_t bytes, bool written) {
  cross(x, pointer, 0, (ptrdiff_t)bytes, written);
}

static void cross_view(crossing *x, attend_view *v, int batch, int heads, int64_t rows, int width,
                       size_t element, bool written) {
  const int64_t last[4] = {batch - 1, heads - 1, rows - 1, width - 1};
  ptrdiff_t low = 0, high = (ptrdiff_t)element;
  if (batch <= 0 || rows <= 0) return;
  for (int i = 0; i < 4; i++) {
    ptrdiff_t reach = (ptrdiff_t)last[i] * v->stride[i] * (ptrdiff_t)element;
    *(reach < 0 ? &low : &high) += reach;
  }
  cross(x, &v->data, low, high, written);
}

static void join_regions(crossing *x) {
  for (int i = 0; i < x->n; i++) {
    crossing_region now = {x->all[i].from, x->all[i].to, NULL, x->all[i].written};
    int kept = 0;
    for (int r = 0; r < x->n_regions; r++) {
      const crossing_region old = x->regions[r];
      if (old.to <= now.from || now.to <= old.from) {
        x->regions[kept++] = old;
        continue;
      }
      if (old.from < now.from) now.from = old.from;
      if (old.to > now.to) now.to = old.to;
      now.written |= old.written;
    }
    x->regions[kept] = now;
    x->n_regions = kept + 1;
  }
}

static attend_status take_copy(crossing *x, crossing_region *r) {
  const struct attend_device *device = x->ctx->device;
  const size_t bytes = (size_t)(r->to - r->from);
  const char *what = "copies of tensors";
  if (x->direction == TO_DEVICE) {
    ATTEND_TRY(device->alloc(x->ctx, bytes, what, &r->copy));
    device->write(x->ctx, r->copy, r->from, bytes);
  } else {
    ATTEND_TRY(ctx_alloc(x->ctx, bytes, what, &r->copy));
    device->read(x->ctx, r->copy, r->from, bytes);
  }
  return ATTEND_OK;
}

attend_status crossing_go(crossing *x) {
  join_regions(x);
  for (crossing_region *r = x->regions; r < x->regions + x->n_regions; r++)
    ATTEND_TRY(take_copy(x, r));
  for (crossing_pointer *c = x->all; c < x->all + x->n; c++)
    for (crossing_region *r = x->regions; r < x->regions + x->n_regions; r++)
      if (c->from >= r->from && c->to <= r->to) *c->pointer = r->copy + (c->original - r->from);
  return ATTEND_OK;
}

void crossing_return(crossing *x, attend_status status) {
  const struct attend_device *device = x->ctx->device;
  for (crossing_pointer *c = x->all; c < x->all + x->n; c++) *c->pointer = c->original;
  for (crossing_region *r = x->regions; r < x->regions + x->n_regions; r++) {
    const size_t bytes = (size_t)(r->to - r->from);
    const bool back = r->written && r->copy && !status;
    if (back && x->direction == TO_DEVICE) device->read(x->ctx, r->from, r->copy, bytes);
    if (back && x->direction == TO_HOST) device->write(x->ctx, r->from, r->copy, bytes);
    if (x->direction == TO_DEVICE)
      device_free(x->ctx, r->copy);
    else
      ctx_free(x->ctx, r->copy);
  }
}

/* ---- the tensors of a call --------------------------------------------------------- */

/* A dense bias or its gradient: without strides it is contiguous. */
static void cross_dense(crossing *x, const attend_desc *d, void *pointer /* T ** */, bool written) {
  attend_view v = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  const int before = x->n;
  memcpy(&v.data, pointer, sizeof v.data);
  cross_view(x, &v, d->batch, d->heads, d->q_len, d->kv_len, sizeof(float), written);
  if (x->n > before) x->all[before].pointer = pointer;
}

static void cross_bias(crossing *x, call *c) {
  attend_desc *d = &c->plan->desc;
  const size_t f = sizeof(float);
  if (d->bias.kind == ATTEND_ALIBI)
    cross_array(x, (void *)&d->bias.slopes, (size_t)d->heads * f, false);
  if (d->bias.kind == ATTEND_BUCKETS)
    cross_array(x, (void *)&d->bias.table,
                SIZE_PRODUCT((size_t)d->bias.buckets, (size_t)d->heads, f), false);
  if (d->bias.kind == ATTEND_DENSE) cross_dense(x, d, &d->bias.dense.data, false);
}

static void cross_dbias(crossing *x, call *c) {
  const attend_desc *d = &c->plan->desc;
  if (d->bias.kind == ATTEND_DENSE)
    cross_dense(x, d, &c->dbias, true);
  else
    cross_array(x, &c->dbias, desc_bias_count(d) * sizeof(float), true);
}

static void cross_observation(crossing *x, call *c) {
  const attend_desc *d = &c->plan->desc;
  attend_observation *o = (attend_observation *)c->obs; /* the public call's own copy */
  const size_t heads = (size_t)d->batch * (size_t)d->heads, f = sizeof(float);
  const size_t rows = heads * (size_t)c->n, width = (size_t)call_width(c);
  if (!o) return;
  cross_array(x, &o->weights, SIZE_PRODUCT(heads, (size_t)o->n_rows, width, f), true);
  cross_array(x, &o->top_index, rows * (size_t)o->top * sizeof(int32_t), true);
  cross_array(x, &o->top_weight, rows * (size_t)o->top * f, true);
  cross_array(x, &o->entropy, rows * f, true);
  cross_array(x, &o->mass, heads * width * f, true);
  cross_array(x, &o->softmax_gap, rows * f, true);
}

void crossing_of(call *c, int64_t keys, crossing_direction direction, crossing *x) {
  const attend_desc *d = &c->plan->desc;
  const int B = d->batch, H = d->heads, G = d->kv_heads, D = d->dim, M = d->dim_v;
  const size_t e = attend_dtype_size(d->dtype);
  const size_t rows = (size_t)B * (size_t)H * (size_t)c->n;
  *x = (crossing){.ctx = c->plan->ctx, .direction = direction};
  cross_view(x, &c->q, B, H, c->n, D, e, false);
  cross_view(x, &c->k, B, G, keys, D, e, false);
  cross_view(x, &c->v, B, G, keys, M, e, false);
  cross_view(x, &c->o, B, H, c->n, M, e, true);
  cross_array(x, &c->lse, rows * sizeof(float), true);
  cross_array(x, (void *)&c->lse_in, rows * sizeof(float), false);
  cross_view(x, &c->d_o, B, H, c->n, M, e, false);
  cross_view(x, &c->dq, B, H, c->n, D, e, true);
  cross_view(x, &c->dk, B, G, keys, D, e, true);
  cross_view(x, &c->dv, B, G, keys, M, e, true);
  cross_bias(x, c);
  if (c->dbias) cross_dbias(x, c);
  cross_observation(x, c);
}
