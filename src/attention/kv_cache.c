/* The paged KV cache (vLLM's PagedAttention, Kwon et al. 2023): keys and values in
 * pages that grow without copying and are shared copy-on-write.
 *
 * The state of all engines that compute pairs. Memory is allocated first and written
 * after, so a call that fails leaves every sequence at its length. All states of a
 * context count their bytes against its cache_limit.
 */
#include "attention/state.h"

#include <math.h>
#include <string.h>

/* ---- one page -------------------------------------------------------------------- */

/* On the host a page's data follows it. */
enum { PAGE_HEAD = (sizeof(page) + 63) / 64 * 64 };

static attend_status host_take(kv_cache *s, page **out) {
  ATTEND_TRY(ctx_alloc_zeroed(s->state.ctx, size_add(PAGE_HEAD, s->data_bytes),
                              "a page of the cache", out));
  (*out)->data = (unsigned char *)*out + PAGE_HEAD;
  return ATTEND_OK;
}

static void host_drop(kv_cache *s, page *p) { ctx_free(s->state.ctx, p); }

static void host_copy(kv_cache *s, page *to, const page *from) {
  memcpy(to->data, from->data, s->data_bytes);
}
static void host_read(const kv_cache *s, void *to, const page *from) {
  memcpy(to, from->data, s->data_bytes);
}
static void host_write(const kv_cache *s, page *to, const void *from) {
  memcpy(to->data, from, s->data_bytes);
}

static size_t page_bytes(const kv_cache *s) { return size_add(PAGE_HEAD, s->data_bytes); }

static attend_status page_take(kv_cache *s, page **out) {
  ATTEND_TRY(cache_take(s->state.ctx, page_bytes(s), "a page of the cache"));
  attend_status status = s->memory->take(s, out);
  if (status)
    cache_give(s->state.ctx, page_bytes(s));
  else
    (*out)->refs = 1;
  return status;
}

static void page_drop(kv_cache *s, page *p) {
  if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  cache_give(s->state.ctx, page_bytes(s));
  s->memory->drop(s, p);
}

static attend_status page_copy(kv_cache *s, const page *from, page **out) {
  ATTEND_TRY(page_take(s, out));
  (*out)->padded = from->padded;
  (*out)->non_finite = from->non_finite;
  memcpy((*out)->real, from->real, sizeof from->real);
  s->memory->copy(s, *out, from);
  return ATTEND_OK;
}

static int64_t pages_for(int64_t keys) { return (keys + PANEL - 1) / PANEL; }

/* ---- a sequence of pages --------------------------------------------------------- */

static attend_status table_reserve(kv_cache *s, sequence *q, int64_t capacity) {
  if (capacity <= q->capacity) return ATTEND_OK;
  capacity = max64(capacity, 2 * q->capacity);
  page **table;
  ATTEND_TRY(ctx_alloc(s->state.ctx, size_times((size_t)capacity, sizeof *table),
                       "a table of pages", &table));
  if (q->pages) memcpy(table, q->page, (size_t)q->pages * sizeof *table);
  ctx_free(s->state.ctx, q->page);
  q->page = table;
  q->capacity = capacity;
  return ATTEND_OK;
}

static void change_from(sequence *q, int64_t i) {
  if (i < q->changed) q->changed = i;
}

static attend_status sequence_reserve(kv_cache *s, sequence *q, int64_t keys) {
  int64_t wanted = pages_for(keys);
  ATTEND_TRY(table_reserve(s, q, wanted));
  for (; q->pages < wanted; q->pages++) {
    ATTEND_TRY(page_take(s, &q->page[q->pages]));
    change_from(q, q->pages);
  }
  return ATTEND_OK;
}

static attend_status sequence_own(kv_cache *s, sequence *q, int64_t from, int64_t keys) {
  for (int64_t i = from / PANEL; i < pages_for(keys); i++) {
    page *shared = q->page[i], *own;
    if (__atomic_load_n(&shared->refs, __ATOMIC_ACQUIRE) == 1) continue;
    ATTEND_TRY(page_copy(s, shared, &own));
    page_drop(s, shared);
    q->page[i] = own;
    change_from(q, i);
  }
  return ATTEND_OK;
}

static void sequence_drop(kv_cache *s, sequence *q) {
  for (int64_t i = 0; i < q->pages; i++) page_drop(s, q->page[i]);
  ctx_free(s->state.ctx, q->page);
  *q = (sequence){0};
}

static attend_status sequence_share(kv_cache *s, const sequence *from, int64_t keys, sequence *to) {
  *to = (sequence){0};
  int64_t used = pages_for(keys);
  ATTEND_TRY(table_reserve(s, to, used));
  for (int64_t i = 0; i < used; i++) {
    to->page[i] = from->page[i];
    __atomic_fetch_add(&to->page[i]->refs, 1, __ATOMIC_RELAXED);
  }
  to->pages = used;
  return ATTEND_OK;
}

/* ---- a state --------------------------------------------------------------------- */

static size_t kv_reserve_bytes(const attend_state *state, int keys) {
  const kv_cache *s = kv_cache_of(state);
  int64_t pages = 0;
  for (int b = 0; b < state->batch; b++) pages += max64(0, pages_for(keys) - s->sequence[b].pages);
  return size_times((size_t)pages, page_bytes(s));
}

static attend_status kv_reserve(attend_state *state, int keys) {
  kv_cache *s = (kv_cache *)state;
  for (int b = 0; b < state->batch; b++) ATTEND_TRY(sequence_reserve(s, &s->sequence[b], keys));
  return ATTEND_OK;
}

static size_t kv_bytes(const attend_state *state) {
  const kv_cache *s = kv_cache_of(state);
  size_t pages = 0;
  for (int b = 0; b < state->batch; b++) pages += (size_t)s->sequence[b].pages;
  return pages * page_bytes(s);
}

/* ==== the kind of state ====================================================== */

static attend_status host_append(call *c, kv_cache *s);
static size_t host_value_at(const kv_cache *s, int slot, int i);

/* ---- creating, sharing ----------------------------------------------------------- */

attend_status kv_cache_make(attend_context *ctx, const attend_desc *desc, const page_memory *memory,
                            size_t bytes, void *out) {
  kv_cache *s;
  size_t batch = (size_t)desc->batch, head = round_up(bytes, 64);
  ATTEND_TRY(state_make(ctx, desc, size_add(head, size_times(batch, sizeof(sequence))), &s));
  s->memory = memory;
  s->sequence = (sequence *)((unsigned char *)s + head);
  *(void **)out = s;
  return ATTEND_OK;
}

static attend_status kv_make(attend_context *ctx, const attend_desc *desc, attend_state **out) {
  static const page_memory host = {host_take,  host_drop,   host_copy,    host_read,
                                   host_write, host_append, host_value_at};
  kv_cache *s;
  const size_t element = attend_dtype_size(desc->dtype);
  ATTEND_TRY(kv_cache_make(ctx, desc, &host, sizeof *s, &s));
  s->layout = state_layout_of(ctx, desc);
  s->keys_bytes = round_up(SIZE_PRODUCT(PANEL, (size_t)s->layout.width, element), 64);
  s->head_bytes =
      size_add(s->keys_bytes, round_up(SIZE_PRODUCT(PANEL, (size_t)s->layout.ldv, element), 64));
  s->data_bytes = size_times(s->head_bytes, (size_t)desc->kv_heads);
  *out = &s->state;
  return ATTEND_OK;
}

static void kv_free(attend_state *state) {
  kv_cache *s = (kv_cache *)state;
  for (int b = 0; b < state->batch; b++) sequence_drop(s, &s->sequence[b]);
}

static attend_status kv_copy(const attend_state *from, int b, attend_state *to, int to_b) {
  kv_cache *s = (kv_cache *)to;
  sequence copy;
  ATTEND_TRY(sequence_share(s, &kv_cache_of(from)->sequence[b], from->length[b], &copy));
  sequence_drop(s, &s->sequence[to_b]);
  s->sequence[to_b] = copy;
  to->length[to_b] = from->length[b];
  return ATTEND_OK;
}

static attend_status share_parents(kv_cache *s, const int32_t *parents, sequence *next) {
  for (int b = 0; b < s->state.batch; b++)
    if (parents[b] != b)
      ATTEND_TRY(
          sequence_share(s, &s->sequence[parents[b]], s->state.length[parents[b]], &next[b]));
  return ATTEND_OK;
}

static void take_parents(kv_cache *s, const int32_t *parents, const sequence *next) {
  int64_t *length = s->state.before; /* as they were */
  memcpy(length, s->state.length, (size_t)s->state.batch * sizeof *length);
  for (int b = 0; b < s->state.batch; b++) {
    if (parents[b] == b) continue;
    sequence_drop(s, &s->sequence[b]);
    s->sequence[b] = next[b];
    s->state.length[b] = length[parents[b]];
  }
}

static attend_status kv_reorder(attend_state *state, const int32_t *parents) {
  kv_cache *s = (kv_cache *)state;
  sequence *next;
  ATTEND_TRY(ctx_alloc_zeroed(state->ctx, size_times((size_t)state->batch, sizeof *next),
                              "the reordered sequences", &next));
  attend_status status = share_parents(s, parents, next);
  if (status == ATTEND_OK)
    take_parents(s, parents, next);
  else
    for (int b = 0; b < state->batch; b++) sequence_drop(s, &next[b]);
  ctx_free(state->ctx, next);
  return status;
}

static attend_status kv_truncate(attend_state *s, int b, int64_t length) {
  s->length[b] = length;
  return ATTEND_OK;
}

/* ---- appending ------------------------------------------------------------------- */

/* Copies one element bit by bit; returns whether it is finite. */
static bool copy_element(attend_dtype dtype, const void *src, void *dst) {
  if (dtype == ATTEND_F32) {
    memcpy(dst, src, 4);
    return isfinite(*(float *)dst);
  }
  memcpy(dst, src, 2);
  uint16_t exponent = dtype == ATTEND_F16 ? 0x7c00 : 0x7f80;
  return (*(uint16_t *)dst & exponent) != exponent;
}

static void append_key(const kv_cache *s, const char *src, ptrdiff_t col, page *to, int g,
                       int slot) {
  size_t element = attend_dtype_size(s->state.desc.dtype);
  char *dst = page_keys(s, to, g);
  for (int i = 0; i < s->state.desc.dim; i++)
    copy_element(s->state.desc.dtype, src + (ptrdiff_t)element * i * col,
                 dst + panel_key_at(s->layout.pair, s->layout.width, slot, i) * element);
}

static bool append_value(const kv_cache *s, const char *src, ptrdiff_t col, page *to, int g,
                         int slot) {
  size_t element = attend_dtype_size(s->state.desc.dtype);
  char *dst = page_values(s, to, g);
  bool finite = true;
  for (int i = 0; i < s->state.desc.dim_v; i++)
    finite &= copy_element(s->state.desc.dtype, src + (ptrdiff_t)element * i * col,
                           dst + panel_value_at(s->layout.pair, s->layout.ldv, slot, i) * element);
  return finite;
}

/* Padding is not read: its slot in the page is zeroed. */
static void clear_key(const kv_cache *s, page *to, int g, int slot) {
  static const float zero;
  append_key(s, (const char *)&zero, 0, to, g, slot);
  append_value(s, (const char *)&zero, 0, to, g, slot);
}

typedef struct {
  attend_view k, v;
  const uint8_t *key_mask; /* [B,n] or NULL */
  int n;
} chunk;

static void append_head(const kv_cache *s, const chunk *x, int b, int g, int count) {
  const sequence *q = &s->sequence[b];
  size_t element = attend_dtype_size(s->state.desc.dtype);
  for (int i = 0; i < count; i++) {
    int64_t at = q->start + i;
    page *to = q->page[at / PANEL];
    int slot = (int)(at % PANEL);
    if (x->key_mask && !x->key_mask[(size_t)b * (size_t)x->n + (size_t)i]) {
      clear_key(s, to, g, slot);
      continue;
    }
    append_key(s, view_at(&x->k, element, b, g, i), x->k.stride[3], to, g, slot);
    if (!append_value(s, view_at(&x->v, element, b, g, i), x->v.stride[3], to, g, slot)) {
      __atomic_store_n(&to->non_finite, true, __ATOMIC_RELAXED); /* by any head */
    }
  }
}

static void append_padding(kv_cache *s, const uint8_t *key_mask, int b, int n, int count) {
  sequence *q = &s->sequence[b];
  for (int i = 0; i < count; i++) {
    int64_t at = s->state.length[b] + i;
    page *to = q->page[at / PANEL];
    bool real = !key_mask || key_mask[(size_t)b * (size_t)n + (size_t)i];
    to->real[at % PANEL] = real;
    to->padded |= !real;
  }
  q->start = s->state.length[b];
  s->state.length[b] += count;
}

typedef struct {
  kv_cache *cache;
  chunk x;
  const int32_t *lengths; /* [batch] real keys, or NULL: all */
} appending;

static void append_item(const void *args, int64_t i, int worker) {
  const appending *a = args;
  int heads = a->cache->state.desc.kv_heads, b = (int)(i / heads);
  (void)worker;
  append_head(a->cache, &a->x, b, (int)(i % heads), a->lengths ? a->lengths[b] : a->x.n);
}

static attend_status kv_append(call *c, attend_state *state) {
  attend_plan *p = c->plan;
  kv_cache *s = (kv_cache *)state;
  const attend_desc *d = &p->desc;
  for (int b = 0; b < state->batch; b++) {
    int64_t from = state->length[b], keys = from + new_keys(p, b, c->n);
    ATTEND_TRY(sequence_reserve(s, &s->sequence[b], keys));
    if (keys > from) ATTEND_TRY(sequence_own(s, &s->sequence[b], from, keys));
  }
  for (int b = 0; b < state->batch; b++)
    append_padding(s, d->mask.key_mask, b, c->n, new_keys(p, b, c->n));
  return s->memory->append(c, s);
}

static attend_status host_append(call *c, kv_cache *s) {
  attend_plan *p = c->plan;
  const attend_mask *m = &p->desc.mask;
  appending a = {s, {c->k, c->v, m->key_mask, c->n}, m->lengths};
  PARALLEL_FOR(p->ctx, p->threads, (int64_t)s->state.batch * p->desc.kv_heads, append_item, a);
  return ATTEND_OK;
}

/* ---- queries: the plan's engine reads keys from pages ---------------------------- */

static attend_status kv_query(call *c, attend_state *s) {
  (void)s;
  if (c->plan->engine->at_once) plan_wait(c->plan);
  return c->plan->engine->forward(c);
}

static attend_status kv_extend(call *c, attend_state *s) {
  ATTEND_TRY(kv_append(c, s));
  c->k = c->v = (attend_view){0};
  for (int b = 0; b < s->batch; b++) s->before[b] = s->length[b] - new_keys(c->plan, b, c->n);
  return kv_query(c, s);
}

/* ---- files ----------------------------------------------------------------------- */

static attend_status put_page(attend_draft *f, const kv_cache *s, const page *x, void *data) {
  ATTEND_TRY(state_put_number(f, 2 * x->non_finite + x->padded));
  ATTEND_TRY(attend_draft_put(f, x->real, sizeof x->real));
  s->memory->read(s, data, x);
  return attend_draft_put(f, data, s->data_bytes);
}

static attend_status kv_put(attend_draft *f, const attend_state *state, int b) {
  const kv_cache *s = kv_cache_of(state);
  attend_status status = ATTEND_OK;
  void *data;
  ATTEND_TRY(ctx_alloc(state->ctx, s->data_bytes, "a page for a file", &data));
  for (int64_t i = 0; i * PANEL < state->length[b] && !status; i++)
    status = put_page(f, s, s->sequence[b].page[i], data);
  ctx_free(state->ctx, data);
  return status;
}

static attend_status get_page(state_reader *f, const kv_cache *s, page *x, void *data) {
  int64_t marks;
  ATTEND_TRY(state_get_number(f, 0, 3, "mark of a page", &marks));
  x->non_finite = marks & 2;
  x->padded = marks & 1;
  ATTEND_TRY(state_get(f, x->real, sizeof x->real));
  ATTEND_TRY(state_get(f, data, s->data_bytes));
  s->memory->write(s, x, data);
  return ATTEND_OK;
}

/* Pages are allocated one by one as the file is read: its length is not trusted. */
static attend_status kv_get(state_reader *f, attend_state *state, int b, int64_t length) {
  kv_cache *s = (kv_cache *)state;
  sequence *q = &s->sequence[b];
  attend_status status = ATTEND_OK;
  void *data;
  ATTEND_TRY(ctx_alloc(state->ctx, s->data_bytes, "a page of a file", &data));
  for (int64_t i = 0; i * PANEL < length && !status; i++) {
    status = sequence_reserve(s, q, (i + 1) * PANEL);
    if (!status) status = get_page(f, s, q->page[i], data);
  }
  ctx_free(state->ctx, data);
  return status;
}

static size_t host_value_at(const kv_cache *s, int slot, int i) {
  return panel_value_at(s->layout.pair, s->layout.ldv, slot, i);
}

/* Rows of values of a page, of the host, as kv_values wants them. */
static void page_to_f32(const kv_cache *s, const unsigned char *data, int rows, float *to) {
  const attend_desc *d = &s->state.desc;
  const size_t element = attend_dtype_size(d->dtype);
  for (int slot = 0; slot < rows; slot++)
    for (int g = 0; g < d->kv_heads; g++) {
      const unsigned char *values = data + s->head_bytes * (size_t)g + s->keys_bytes;
      for (int i = 0; i < d->dim_v; i++)
        attend_convert_to_f32(d->dtype, values + s->memory->value_at(s, slot, i) * element, 1,
                              to++);
    }
}

static attend_status kv_values(const attend_state *state, int b, int64_t n, float *to) {
  const kv_cache *s = kv_cache_of(state);
  const size_t width = (size_t)state->desc.kv_heads * (size_t)state->desc.dim_v;
  unsigned char *data;
  ATTEND_TRY(ctx_alloc(state->ctx, s->data_bytes, "values of a page", &data));
  for (int64_t j = 0; j < n; j += PANEL) {
    s->memory->read(s, data, s->sequence[b].page[j / PANEL]);
    page_to_f32(s, data, (int)(n - j < PANEL ? n - j : PANEL), to + (size_t)j * width);
  }
  ctx_free(state->ctx, data);
  return ATTEND_OK;
}

const state_kind state_kv_cache = {
    .has_keys = true,
    .make = kv_make,
    .free = kv_free,
    .copy = kv_copy,
    .reorder = kv_reorder,
    .truncate = kv_truncate,
    .reserve = kv_reserve,
    .reserve_bytes = kv_reserve_bytes,
    .bytes = kv_bytes,
    .append = kv_append,
    .extend = kv_extend,
    .query = kv_query,
    .values = kv_values,
    .put = kv_put,
    .get = kv_get,
};
