/* States for the definition engine: keys gathered from pages, one sequence at a
 * time, and the definition over them.
 *
 * For forms that keep no sums and have no tiled engine, such as linear ones with a
 * bias. Slow and right: a step costs what a whole row of the definition costs.
 */
#include "attention/definition_pieces.h"

#include <math.h>
#include <string.h>

#include "attend/definition.h"
#include "attention/kv_cache.h"
#include "attention/walk.h"

int pieces_count(const call *c) { return c->state ? c->plan->desc.batch : 1; }

/* keys [G][S][D], values [G][S][M], and whether each key is real. */
static void gather(const call *c, int b, int64_t keys, char *k, char *v,
                   uint8_t *real) {
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
        memcpy(
            k + (row * (size_t)d->dim + (size_t)i) * size,
            pk + panel_key_at(s->layout.pair, s->layout.width, slot, i) * size,
            size);
      for (int i = 0; i < d->dim_v; i++)
        memcpy(
            v + (row * (size_t)d->dim_v + (size_t)i) * size,
            pv + panel_value_at(s->layout.pair, s->layout.ldv, slot, i) * size,
            size);
    }
  }
}

static attend_status open_sequence(const call *c, int b, piece *p) {
  attend_desc *d = &p->desc;
  const size_t size = attend_dtype_size(d->dtype);
  int64_t keys = c->state->length[b];
  ATTEND_CHECK(c->plan->ctx, keys <= INT32_MAX,
               "sequence %d holds %lld keys: the definition takes at most %d",
               b, (long long)keys, INT32_MAX);
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
  ATTEND_TRY(take(c->plan->ctx,
                  size_add(size_add(k_bytes, v_bytes), (size_t)keys),
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

attend_status piece_open(const call *c, int i, piece *p) {
  *p = (piece){.desc = c->plan->desc, .q = c->q, .k = c->k, .v = c->v};
  return c->state ? open_sequence(c, i, p) : ATTEND_OK;
}

void piece_close(const call *c, piece *p) { give(c->plan->ctx, p->block); }

/* ---- forward ---------------------------------------------------------------------- */

static void round_row(const call *c, const double *from, int b, int h, int i) {
  const attend_desc *d = &c->plan->desc;
  const size_t size = attend_dtype_size(d->dtype);
  char *row = view_at(&c->o, size, b, h, i);
  for (int m = 0; m < d->dim_v; m++) {
    float x = from ? (float)from[m] : 0;
    attend_convert_from_f32(d->dtype, &x, 1,
                            row + (ptrdiff_t)size * m * c->o.stride[3]);
  }
}

/* Rows that are not real give zeros, as everywhere. */
static void write_rows(call *c, const piece *p, const double *o,
                       const double *lse) {
  const attend_desc *d = &c->plan->desc;
  const int real = p->desc.q_len;
  const float nothing = attend_form_signed(&d->form) ? 0 : -INFINITY;
  for (int h = 0; h < d->heads; h++)
    for (int i = 0; i < c->n; i++) {
      size_t at = (size_t)(h * real + i);
      bool seen = i < real;
      round_row(c, seen ? o + at * (size_t)d->dim_v : NULL, p->first, h, i);
      if (c->lse)
        c->lse[((size_t)p->first * (size_t)d->heads + (size_t)h) *
                   (size_t)c->n +
               (size_t)i] = seen ? (float)lse[at] : nothing;
    }
}

static attend_status forward_piece(call *c, const piece *p) {
  const attend_desc *d = &p->desc;
  attend_context *ctx = c->plan->ctx;
  size_t rows = (size_t)d->heads * (size_t)d->q_len;
  double *o = NULL;
  attend_status status = ATTEND_OK;
  if (rows) {
    ATTEND_TRY(take(ctx, SIZE_PRODUCT(rows, (size_t)d->dim_v + 1, sizeof *o),
                    "a state's rows", &o));
    status = attend_definition_forward(ctx, d, p->q, p->k, p->v, o,
                                       o + rows * (size_t)d->dim_v);
  }
  if (!status) write_rows(c, p, o, o ? o + rows * (size_t)d->dim_v : NULL);
  give(ctx, o);
  return status;
}

attend_status definition_state_forward(call *c) {
  attend_status status = ATTEND_OK;
  for (int i = 0; i < pieces_count(c) && !status; i++) {
    piece p;
    status = piece_open(c, i, &p);
    if (!status) status = forward_piece(c, &p);
    piece_close(c, &p);
  }
  return status;
}
