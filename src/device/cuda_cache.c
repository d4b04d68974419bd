/* The paged KV cache on a GPU: the host keeps the lists of pages (attention/kv_cache.c), their data
 * and a table of their addresses are the GPU's.
 */
#include "device/crossing.h"
#include "device/cuda_device.h"

typedef struct {
  kv_cache cache;
  void **table; /* of the GPU: [batch][stride] addresses of pages */
  int64_t stride;
  bool padded; /* some page has padding */
} gpu_cache;

/* ---- pages -------------------------------------------------------------------------- */

static attend_status take(kv_cache *s, page **out) {
  attend_context *ctx = s->state.ctx;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof(page), "a page of the cache", out));
  attend_status status =
      ctx->device->alloc(ctx, s->data_bytes, "a page of the cache", &(*out)->data);
  if (status)
    ctx_free(ctx, *out);
  else
    CALL(ctx, zero_now, (*out)->data, s->data_bytes);
  return status;
}

static void drop(kv_cache *s, page *p) {
  device_free(s->state.ctx, p->data);
  ctx_free(s->state.ctx, p);
}

static void copy(kv_cache *s, page *to, const page *from) {
  CALL(s->state.ctx, copy_now, to->data, from->data, s->data_bytes);
}

static void read(const kv_cache *s, void *to, const page *from) {
  s->state.ctx->device->read(s->state.ctx, to, from->data, s->data_bytes);
}

static void write(const kv_cache *s, page *to, const void *from) {
  s->state.ctx->device->write(s->state.ctx, to->data, from, s->data_bytes);
}

static size_t value_at(const kv_cache *s, int slot, int i) {
  const attend_desc *d = &s->state.desc;
  return (size_t)cuda_page_at((int)attend_dtype_size(d->dtype), d->dim_v, slot, i);
}

/* ---- the table ---------------------------------------------------------------------- */

static attend_status widen_table(gpu_cache *s, int64_t pages) {
  attend_context *ctx = s->cache.state.ctx;
  const int batch = s->cache.state.batch;
  void **table;
  if (pages <= s->stride) return ATTEND_OK;
  pages = (int64_t)round_up((size_t)pages, 64);
  if (pages < 2 * s->stride) pages = 2 * s->stride;
  ATTEND_TRY(device_alloc(ctx, SIZE_PRODUCT((size_t)batch, (size_t)pages, sizeof *table),
                          "a table of pages", &table));
  device_free(ctx, s->table);
  s->table = table;
  s->stride = pages;
  for (int b = 0; b < batch; b++) s->cache.sequence[b].changed = 0;
  return ATTEND_OK;
}

/* Addresses of the pages that a sequence has got since the last time. */
static void upload_pages(gpu_cache *s, int b) {
  enum { AT_ONCE = 512 };
  sequence *q = &s->cache.sequence[b];
  void *address[AT_ONCE];
  while (q->changed < q->pages) {
    int n = 0;
    const int64_t from = q->changed;
    while (n < AT_ONCE && q->changed < q->pages) {
      s->padded |= q->page[q->changed]->padded;
      address[n++] = q->page[q->changed++]->data;
    }
    CALL(s->cache.state.ctx, write_now, s->table + b * s->stride + from, address,
         (size_t)n * sizeof *address);
  }
}

attend_status cuda_cache_pages(attend_context *ctx, const attend_state *state,
                               struct cuda_pages *pages) {
  gpu_cache *s = (gpu_cache *)state;
  int64_t longest = 1;
  (void)ctx;
  for (int b = 0; b < state->batch; b++) longest = max64(longest, s->cache.sequence[b].pages);
  ATTEND_TRY(widen_table(s, longest));
  for (int b = 0; b < state->batch; b++) upload_pages(s, b);
  *pages = (struct cuda_pages){s->table, s->stride, state->length, s->padded};
  return ATTEND_OK;
}

/* ---- the kind of state -------------------------------------------------------------- */

static attend_status append(call *c, kv_cache *s) {
  const attend_desc *d = &c->plan->desc;
  attend_context *ctx = c->plan->ctx;
  struct cuda_append a = {.desc = d, .n = c->n, .k = c->k, .v = c->v, .before = s->state.before};
  crossing x;
  for (int b = 0; b < s->state.batch; b++) s->state.before[b] = s->sequence[b].start;
  if (d->mask.key_mask) ((gpu_cache *)s)->padded = true;
  ATTEND_TRY(cuda_cache_pages(ctx, &s->state, &a.pages));
  crossing_of(c, c->n, TO_DEVICE, &x);
  attend_status status = crossing_go(&x);
  a.k = c->k, a.v = c->v;
  if (!status) CALL(ctx, pages_append, &a);
  if (!status) status = cuda_check(ctx);
  crossing_return(&x, status);
  return status;
}

static attend_status make(attend_context *ctx, const attend_desc *desc, attend_state **out) {
  static const page_memory memory = {take, drop, copy, read, write, append, value_at};
  const size_t element = attend_dtype_size(desc->dtype);
  kv_cache *s;
  ATTEND_TRY(kv_cache_make(ctx, desc, &memory, sizeof(gpu_cache), &s));
  s->layout = (state_layout){(int)cuda_page_width(element, desc->dim_v),
                             (int)cuda_page_width(element, desc->dim), ATTEND_PAGE};
  s->keys_bytes = cuda_page_part(element, desc->dim);
  s->head_bytes = s->keys_bytes + cuda_page_part(element, desc->dim_v);
  s->data_bytes = size_add(size_times(s->head_bytes, (size_t)desc->kv_heads), ATTEND_PAGE);
  *out = &s->state;
  return ATTEND_OK;
}

static void free_cache(attend_state *state) {
  state_kv_cache.free(state);
  device_free(state->ctx, ((gpu_cache *)state)->table);
}

/* To the host's memory or the device's. */
static attend_status values(const attend_state *s, int b, int64_t n, float *to) {
  const size_t width = (size_t)s->desc.kv_heads * (size_t)s->desc.dim_v;
  const size_t bytes = SIZE_PRODUCT((size_t)n, width, sizeof *to);
  float *copy;
  if (!s->ctx->device->owns(s->ctx, to)) return state_kv_cache.values(s, b, n, to);
  ATTEND_TRY(ctx_alloc(s->ctx, bytes, "values", &copy));
  attend_status status = state_kv_cache.values(s, b, n, copy);
  if (!status) s->ctx->device->write(s->ctx, to, copy, bytes);
  ctx_free(s->ctx, copy);
  return status;
}

void cuda_cache_make(cuda_device *d) {
  d->cache = state_kv_cache;
  d->cache.make = make;
  d->cache.free = free_cache;
  d->cache.values = values;
}
