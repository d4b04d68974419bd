/* Rows, the keys they see, and loading blocks of keys. */
#include "attention/blocks.h"

#include <math.h>
#include <string.h>

#include "attention/state.h"

/* ---- geometry -------------------------------------------------------------------- */

int64_t call_keys(const call *c, int b) {
  if (c->state) return c->state->length[b];
  const attend_desc *d = &c->plan->desc;
  return d->mask.lengths ? d->mask.lengths[b] : d->kv_len;
}

int64_t call_position(const call *c, int b) {
  return c->before ? c->before[b] : desc_position(&c->plan->desc, 0);
}

int call_queries(const call *c, int b) {
  const int32_t *lengths = c->plan->desc.mask.lengths;
  return c->state && lengths ? lengths[b] : c->n;
}

static span call_sees(const call *c, int b, int64_t position) {
  const attend_mask *m = &c->plan->desc.mask;
  span s = {0, call_keys(c, b)};
  if (m->window) s.lo = min64(s.hi, max64(0, position - m->window + 1));
  if (m->causal != ATTEND_NOT_CAUSAL)
    s.hi = min64(s.hi, position + 1);
  else if (m->window)
    s.hi = min64(s.hi, position + m->window);
  if (s.hi < s.lo) s.hi = s.lo;
  return s;
}

span rows_see(const call *c, int b, int row, int rows) {
  int64_t first = row / c->plan->group, last = (row + rows - 1) / c->plan->group;
  int queries = call_queries(c, b);
  if (first >= queries) return (span){0, 0};
  last = min64(last, queries - 1);
  int64_t at = call_position(c, b);
  return (span){call_sees(c, b, at + first).lo, call_sees(c, b, at + last).hi};
}

static bool key_is_real(const call *c, int b, int64_t j) {
  if (c->state) {
    const page *p = kv_cache_of(c->state)->sequence[b].page[j / PANEL];
    return !p->padded || p->real[j % PANEL];
  }
  const attend_desc *d = &c->plan->desc;
  return !d->mask.key_mask || d->mask.key_mask[(size_t)b * (size_t)d->kv_len + (size_t)j];
}

bool row_sees(const call *c, int b, int row) {
  span visible = rows_see(c, b, row, 1);
  for (int64_t j = visible.lo; j < visible.hi; j++)
    if (key_is_real(c, b, j)) return true;
  return false;
}

static int64_t tiles_per_stack(const call *c) {
  int64_t rows = (int64_t)c->n * c->plan->group;
  return (rows + c->plan->tile - 1) / c->plan->tile;
}

int64_t call_tiles(const call *c) {
  const attend_desc *d = &c->plan->desc;
  return tiles_per_stack(c) * d->batch * d->kv_heads;
}

tile call_tile(const call *c, int64_t i) {
  const attend_plan *p = c->plan;
  int64_t stacks = (int64_t)p->desc.batch * p->desc.kv_heads;
  int64_t stack = i % stacks, down = tiles_per_stack(c) - 1 - i / stacks;
  tile t = {.b = (int)(stack / p->desc.kv_heads),
            .g = (int)(stack % p->desc.kv_heads),
            .row = (int)(down * p->tile)};
  t.rows = (int)min64(p->tile, (int64_t)c->n * p->group - t.row);
  return t;
}

/* ---- blocks ---------------------------------------------------------------------- */

static size_t element_bytes(const struct block_kernels *on) {
  return on->pair == 1 ? sizeof(float) : sizeof(uint16_t);
}

static size_t panel_key_bytes(const attend_plan *p, const struct block_kernels *on) {
  size_t width = round_up((size_t)p->desc.dim, (size_t)on->step);
  return SIZE_PRODUCT(PANEL, width, element_bytes(on));
}

static size_t panel_value_bytes(const attend_plan *p, const struct block_kernels *on) {
  return SIZE_PRODUCT(PANEL, (size_t)p->ldv, element_bytes(on));
}

void block_cut(const attend_plan *p, arena *a, bool backward, block *out) {
  const struct block_kernels *on = backward ? p->kn->block[ATTEND_F32] : p->fast;
  size_t m = (size_t)p->desc.dim_v, f = sizeof(float);
  out->k_lanes = arena_cut(a, size_times(PANELS, panel_key_bytes(p, on)));
  out->v_rows = backward ? NULL : arena_cut(a, size_times(PANELS, panel_value_bytes(p, on)));
  out->k_rows = backward ? arena_cut(a, SIZE_PRODUCT(BLOCK, (size_t)p->ldk, f)) : NULL;
  out->v_lanes = backward ? arena_cut(a, SIZE_PRODUCT(BLOCK, m, f)) : NULL;
}

float block_value(const call *c, const block *k, int key, int i) {
  const void *panel = k->rows[key / PANEL];
  size_t index = panel_value_at(c->on->pair, c->plan->ldv, key % PANEL, i);
  if (c->on->pair == 1) return ((const float *)panel)[index];
  return bf16_to_float(((const uint16_t *)panel)[index]);
}

/* Marks the keys that may be read: inside `seen`, and not padding. */
static bool block_padding(const uint8_t *real, int64_t start, span visible, block *out) {
  int from = (int)max64(visible.lo - start, 0);
  int to = (int)min64(visible.hi - start, BLOCK);
  memset(out->valid, 0, sizeof out->valid);
  out->n_hidden = 0;
  for (int j = from; j < to; j++) {
    out->valid[j] = !real || real[j];
    if (!out->valid[j]) out->hidden[out->n_hidden++] = (uint8_t)j;
  }
  return out->n_hidden < to - from;
}

source call_source(const call *c, const attend_view *view, int b, int g, int64_t i) {
  attend_dtype dtype = c->plan->desc.dtype;
  return (source){view_at(view, attend_dtype_size(dtype), b, g, i), dtype, view->stride[2],
                  view->stride[3]};
}

static void load_panel(const call *c, int b, int g, int i, int n, block *out) {
  const attend_plan *p = c->plan;
  int d = p->desc.dim, m = p->desc.dim_v, at = i * PANEL;
  const uint8_t *valid = out->valid + at;
  source k = call_source(c, &c->k, b, g, out->start + at);
  bool finite = true;
  out->k[i] = out->k_lanes + (size_t)i * panel_key_bytes(p, c->on);
  c->on->pack_keys(k, valid, n, d, (void *)out->k[i]);
  if (out->k_rows) {
    out->rows[i] = out->k_rows + (size_t)at * (size_t)p->ldk;
    finite = c->on->pack_values(k, valid, n, d, (void *)out->rows[i], p->ldk);
  }
  if (c->v.data) {
    source v = call_source(c, &c->v, b, g, out->start + at);
    if (out->v_lanes) c->on->pack_keys(v, valid, n, m, out->v_lanes + (size_t)at * (size_t)m);
    if (out->v_rows) {
      out->rows[i] = out->v_rows + (size_t)i * panel_value_bytes(p, c->on);
      finite = c->on->pack_values(v, valid, n, m, (void *)out->rows[i], p->ldv);
    }
  }
  if (!finite) out->non_finite |= 1u << i;
}

/* From pairs of bf16 to lanes and rows of f32; see struct block_kernels. */
static void split_panel(const call *c, const void *k, const void *v, int n, float *lanes,
                        float *rows) {
  const attend_plan *p = c->plan;
  const uint16_t *key = k, *value = v;
  int width = kv_cache_of(c->state)->layout.width, d = p->desc.dim;
  float none[LANES];
  for (int j = 0; j < n; j += LANES)
    for (int i = 0; i < width; i += 2, key += 2 * LANES) {
      if (i >= d) continue;
      p->kn->split_pairs(key, LANES, lanes, i + 1 < d ? lanes + LANES : none);
      lanes += i + 1 < d ? 2 * LANES : LANES;
    }
  size_t ld = (size_t)p->ldv;
  for (size_t j = 0; j < round_up((size_t)n, LANES); j += 2, value += 2 * ld)
    p->kn->split_pairs(value, ld, rows + j * ld, rows + (j + 1) * ld);
}

/* Pages of a state hold the layouts of p->kn->block[dtype], which are c->on's
 * but for forms that want f32; shorter pages are widened where c->on is f32. */
static void page_panel(const call *c, int g, const page *from, int i, int n, block *out) {
  const attend_plan *p = c->plan;
  const kv_cache *s = kv_cache_of(c->state);
  out->k[i] = page_keys(s, from, g);
  out->rows[i] = page_values(s, from, g);
  if (from->non_finite) out->non_finite |= 1u << i;
  if (p->desc.dtype == ATTEND_F32 || c->on->pair == 2) return;
  void *lanes = out->k_lanes + (size_t)i * panel_key_bytes(p, c->on);
  void *rows = out->v_rows + (size_t)i * panel_value_bytes(p, c->on);
  size_t keys = round_up((size_t)n, LANES);
  if (s->layout.pair == 2) {
    split_panel(c, out->k[i], out->rows[i], n, lanes, rows);
  } else {
    p->kn->widen(p->desc.dtype, out->k[i], keys * (size_t)p->desc.dim, lanes);
    p->kn->widen(p->desc.dtype, out->rows[i], keys * (size_t)p->ldv, rows);
  }
  out->k[i] = lanes;
  out->rows[i] = rows;
}

static bool load_pages(const call *c, int b, int g, span visible, block *out) {
  const sequence *q = &kv_cache_of(c->state)->sequence[b];
  uint8_t real[BLOCK];
  int64_t first = out->start / PANEL;
  bool any = false;
  for (int i = 0; i < PANELS; i++) {
    const page *from = first + i < q->pages ? q->page[first + i] : NULL;
    for (int j = 0; j < PANEL; j++) real[i * PANEL + j] = !from || !from->padded || from->real[j];
    any |= from && from->padded;
  }
  if (!block_padding(any ? real : NULL, out->start, visible, out)) return false;
  for (int i = 0; i < PANELS; i++) {
    int64_t at = out->start + i * PANEL, n = min64(visible.hi - at, PANEL);
    if (n > 0 && at + PANEL > visible.lo) page_panel(c, g, q->page[first + i], i, (int)n, out);
  }
  return true;
}

bool block_load(const call *c, int b, int g, int64_t start, span visible, block *out) {
  out->start = start;
  out->non_finite = 0;
  out->longest = INFINITY;
  if (c->state) return load_pages(c, b, g, visible, out);
  const attend_desc *d = &c->plan->desc;
  const uint8_t *real = d->mask.key_mask;
  if (real) real += (size_t)b * (size_t)d->kv_len + (size_t)start;
  if (!block_padding(real, start, visible, out)) return false;
  for (int i = 0; i < PANELS; i++) {
    int64_t at = start + i * PANEL, n = min64(visible.hi - at, PANEL);
    if (n > 0 && at + PANEL > visible.lo) load_panel(c, b, g, i, (int)n, out);
  }
  return true;
}

void block_longest(const call *c, span visible, block *k) {
  int64_t lo = max64(visible.lo - k->start, 0) / PANEL;
  int64_t hi = min64(visible.hi - k->start, c->on->keys);
  k->longest = 0;
  for (int64_t i = lo; i * PANEL < hi; i++) {
    int n = (int)min64(hi - i * PANEL, PANEL);
    float top = c->on->longest(n, c->plan->desc.dim, k->k[i]);
    if (top > k->longest) k->longest = top;
  }
}

static void prefetch_rows(const call *c, const attend_view *v, int width, int b, int g,
                          int64_t first, int64_t n) {
  size_t size = attend_dtype_size(c->plan->desc.dtype);
  for (int64_t i = first; i < first + n; i++) {
    const char *row = view_at(v, size, b, g, i);
    for (size_t at = 0; at < (size_t)width * size; at += 64) __builtin_prefetch(row + at, 0, 2);
  }
}

void keys_prefetch(const call *c, int b, int g, int64_t first, int64_t n) {
  if (c->state) return; /* pages are read in order, once */
  if (c->k.stride[3] == 1) prefetch_rows(c, &c->k, c->plan->desc.dim, b, g, first, n);
  if (c->v.data && c->v.stride[3] == 1)
    prefetch_rows(c, &c->v, c->plan->desc.dim_v, b, g, first, n);
}

static void prefetch_panel(const void *panel, size_t bytes) {
  for (size_t at = 0; at < bytes; at += 64) __builtin_prefetch((const char *)panel + at, 0, 2);
}

void pages_prefetch(const call *c, int b, int g, span keys) {
  const kv_cache *s = kv_cache_of(c->state);
  size_t values_bytes = s->head_bytes - s->keys_bytes;
  for (int values = 0; values < 2; values++)
    for (int64_t j = keys.lo / PANEL * PANEL; j < keys.hi; j += PANEL) {
      const page *p = s->sequence[b].page[j / PANEL];
      size_t n = round_up((size_t)min64(keys.hi - j, PANEL), LANES);
      prefetch_panel(values ? page_values(s, p, g) : page_keys(s, p, g),
                     (values ? values_bytes : s->keys_bytes) * n / PANEL);
    }
}

/* ---- queries --------------------------------------------------------------------- */

void *row_address(const call *c, const attend_view *view, int b, int g, int row) {
  const attend_plan *p = c->plan;
  return view_at(view, attend_dtype_size(p->desc.dtype), b, row_head(p, g, row), row / p->group);
}

static bool row_dead(const call *c, int b, int row) {
  span s = rows_see(c, b, row, 1);
  return s.lo >= s.hi;
}

/* Whether row i of a tile is to be read. Intervals only move forward, so between two
 * rows that see keys all do. */
static bool rows_valid(const call *c, tile t, bool drop_dead, uint8_t *valid) {
  int queries = call_queries(c, t.b), last = t.row + t.rows - 1;
  bool real = last / c->plan->group < queries;
  if (real && (!drop_dead || (!row_dead(c, t.b, t.row) && !row_dead(c, t.b, last)))) return true;
  for (int i = 0; i < t.rows; i++)
    valid[i] =
        (t.row + i) / c->plan->group < queries && !(drop_dead && row_dead(c, t.b, t.row + i));
  return false;
}

void rows_load(const call *c, const attend_view *view, tile t, int width, int ld, bool drop_dead,
               float *dst) {
  const attend_plan *p = c->plan;
  enum { RUN = 128 };
  uint8_t valid[RUN];
  source src = {.dtype = p->desc.dtype, .col = view->stride[3]};
  src.row = p->group == 1 ? view->stride[2] : 0;
  int step = p->group == 1 ? RUN : 1; /* heads of a stack lie apart */
  for (int i = 0; i < t.rows; i += step, dst += (size_t)step * (size_t)ld) {
    tile run = {t.b, t.g, t.row + i, (int)min64(step, t.rows - i)};
    bool all = rows_valid(c, run, drop_dead, valid);
    src.data = row_address(c, view, t.b, t.g, run.row);
    p->kn->pack_rows(src, all ? NULL : valid, run.rows, width, dst, ld);
  }
}

void rows_store(const attend_plan *p, const float *from, int ld, int64_t n, int width, target to) {
  static const float one = 1.0f, zero = 0.0f; /* divided by: 0 gives zeros */
  const ptrdiff_t step = to.row * (ptrdiff_t)attend_dtype_size(to.dtype);
  for (int64_t i = 0; i < n; i++) {
    target row = to;
    row.data = (char *)to.data + i * step;
    p->kn->store_rows(from ? from + i * ld : &zero, ld, 1, width, from ? &one : &zero, row);
  }
}
