/* Watching a run: what an observer is shown, and how attention is seen.
 *
 * Place: model/ - called by block.c when someone watches; nothing here runs
 * otherwise.
 *
 * Attention is computed again from queries and keys. A cache has the keys; a
 * linear state has sums of them alone, so while attention is watched the keys
 * are kept beside it, from the first token on.
 */
#include <string.h>

#include "attention/state.h"
#include "base/parallel.h"
#include "model/transformer.h"

void session_see(attend_session *r, attend_see what, attend_role role,
                 int number, attend_view view, const int shape[4]) {
  attend_sight s = {what, role, number, {0}, r->lengths, view};
  if (!(r->watch.what & what)) return;
  memcpy(s.shape, shape, sizeof s.shape);
  int depth = stream_suspend(&r->ctx->stream);
  r->watch.see(&s, r->watch.user);
  stream_resume(&r->ctx->stream, depth);
}

void watch_stream(const pass *p, attend_see what, int number, float *x) {
  const int width = p->side->shape->width, ld = padded(width);
  attend_view view = {x, {(ptrdiff_t)p->n * ld, 0, ld, 1}};
  if (p->session)
    session_see(p->session, what, self_role(p), number, view,
                (int[4]){p->count, 1, p->n, width});
}

/* ---- keys that are kept ----------------------------------------------------------------- */

static bool keeps_keys(const attend_session *r, const mixing *m) {
  return r->watch.what & ATTEND_SEE_ATTENTION && m->state &&
         !attend_state_has_keys(m->state);
}

static attend_status kept_room(attend_session *r, kept_keys *kept, size_t width,
                               int64_t room) {
  float *bigger;
  if (room <= kept->room) return ATTEND_OK;
  room = 2 * room + 64;
  size_t row = size_times((size_t)room, width),
         old = (size_t)kept->room * width;
  ATTEND_TRY(take_zeroed(r->ctx,
                         SIZE_PRODUCT((size_t)r->batch, row, sizeof *bigger),
                         "keys that are watched", &bigger));
  for (int b = 0; b < r->batch && kept->keys; b++)
    memcpy(bigger + (size_t)b * row, kept->keys + (size_t)b * old,
           old * sizeof *bigger);
  give(r->ctx, kept->keys);
  kept->keys = bigger;
  kept->room = room;
  return ATTEND_OK;
}

static attend_status kept_open(attend_session *r, const mixing *m,
                               kept_keys **kept) {
  int which = m->role == ATTEND_CROSS;
  int layers = r->model->config.decoder.layers;
  if (!r->kept[which])
    ATTEND_TRY(take_zeroed(r->ctx, size_times((size_t)layers, sizeof **kept),
                           "keys that are watched", &r->kept[which]));
  *kept = &r->kept[which][m->layer];
  if ((*kept)->length) return ATTEND_OK;
  return take_zeroed(r->ctx,
                     size_times((size_t)r->batch, sizeof *(*kept)->length),
                     "keys that are watched", &(*kept)->length);
}

static void keep_rows(const attend_desc *d, kept_keys *kept, int b, int n,
                      const attend_view *k) {
  size_t width = (size_t)d->kv_heads * (size_t)d->dim;
  for (int i = 0; i < n; i++) {
    int64_t at = (int64_t)b * kept->room + kept->length[b]++;
    for (int g = 0; g < d->kv_heads; g++)
      memcpy(kept->keys + (size_t)at * width + (size_t)(g * d->dim),
             view_at(k, sizeof(float), b, g, i),
             (size_t)d->dim * sizeof(float));
  }
}

attend_status watch_keep(attend_session *r, const mixing *m, int n,
                         const int32_t *lengths, attend_view k) {
  const attend_desc *d = attend_plan_desc(m->plan);
  kept_keys *kept;
  int64_t most = 0;
  if (!keeps_keys(r, m)) return ATTEND_OK;
  ATTEND_TRY(kept_open(r, m, &kept));
  for (int b = 0; b < r->batch; b++) most = max64(most, kept->length[b] + n);
  ATTEND_TRY(kept_room(r, kept, (size_t)d->kv_heads * (size_t)d->dim, most));
  for (int b = 0; b < r->batch; b++) keep_rows(d, kept, b, lengths[b], &k);
  return ATTEND_OK;
}

static attend_status reorder_kept(attend_session *r, kept_keys *kept,
                                  size_t width, const int32_t *parents) {
  size_t row = (size_t)kept->room * width * sizeof(float);
  float *keys;
  int64_t *length;
  if (!kept->keys) return ATTEND_OK;
  ATTEND_TRY(take(r->ctx, size_times((size_t)r->batch, row),
                  "keys that are watched", &keys));
  attend_status status =
      take(r->ctx, size_times((size_t)r->batch, sizeof *length),
           "keys that are watched", &length);
  if (status) {
    give(r->ctx, keys);
    return status;
  }
  for (int b = 0; b < r->batch; b++) {
    memcpy((char *)keys + (size_t)b * row,
           (char *)kept->keys + (size_t)parents[b] * row, row);
    length[b] = kept->length[parents[b]];
  }
  give(r->ctx, kept->keys);
  give(r->ctx, kept->length);
  kept->keys = keys;
  kept->length = length;
  return ATTEND_OK;
}

attend_status watch_reorder(attend_session *r, const int32_t *parents) {
  const attend_stack *s = &r->model->config.decoder;
  size_t width = (size_t)s->kv_heads * (size_t)s->dim;
  for (int which = 0; which < 2; which++)
    for (int i = 0; r->kept[which] && i < s->layers; i++)
      ATTEND_TRY(reorder_kept(r, &r->kept[which][i], width, parents));
  return ATTEND_OK;
}

void watch_truncate(attend_session *r, int b, int64_t length) {
  for (int i = 0; r->kept[0] && i < r->model->config.decoder.layers; i++) {
    kept_keys *kept = &r->kept[0][i];
    if (kept->length && kept->length[b] > length) kept->length[b] = length;
  }
}

void watch_free(attend_session *r) {
  for (int which = 0; which < 2; which++) {
    for (int i = 0; r->kept[which] && i < r->model->config.decoder.layers;
         i++) {
      give(r->ctx, r->kept[which][i].keys);
      give(r->ctx, r->kept[which][i].length);
    }
    give(r->ctx, r->kept[which]);
    r->kept[which] = NULL;
  }
}

/* ---- attention ------------------------------------------------------------------------------ */

typedef struct {
  attend_session *r;
  const mixing *m;
  const attend_desc *d;
  int keys;       /* of the longest sequence */
  int32_t *rows;  /* [n]: all of them */
  float *weights; /* [batch, H, n, keys], zeroed */
} looking;

/* One sequence of a linear state, by the keys that were kept. */
static attend_status look_kept(const looking *l, const kept_keys *kept, int b,
                               attend_view q, const float *lse) {
  attend_session *r = l->r;
  attend_desc d = *l->d;
  attend_plan *plan;
  int n = l->m->role == ATTEND_CROSS ? r->p.n : r->lengths[b];
  if (n == 0 || kept->length[b] == 0) return ATTEND_OK;
  size_t H = (size_t)d.heads, width = (size_t)d.kv_heads * (size_t)d.dim;
  float *mine, *part;
  d.batch = 1;
  d.q_len = n;
  d.kv_len = (int)kept->length[b];
  d.purpose = 0;
  d.engine = "linear";
  d.mask.lengths = NULL;
  ATTEND_TRY(attend_plan_create(r->ctx, &d, &plan));
  attend_status status = take(
      r->ctx, SIZE_PRODUCT(H, (size_t)n, (1 + (size_t)d.kv_len), sizeof *mine),
      "attention that is watched", &mine);
  if (!status) {
    part = mine + H * (size_t)n * (size_t)d.kv_len;
    for (size_t h = 0; h < H; h++)
      memcpy(part + h * (size_t)n, lse + ((size_t)b * H + h) * (size_t)r->p.n,
             (size_t)n * sizeof *lse);
    attend_view k = {kept->keys + (size_t)b * (size_t)kept->room * width,
                     {0, d.dim, (ptrdiff_t)width, 1}};
    q.data = (float *)q.data + b * q.stride[0];
    attend_look look = {.rows = l->rows, .n_rows = n, .weights = mine};
    status = attend_observe(plan, q, k, part, &look);
    for (size_t i = 0; !status && i < H * (size_t)n; i++) {
      size_t h = i / (size_t)n, row = i % (size_t)n;
      memcpy(l->weights +
                 (((size_t)b * H + h) * (size_t)r->p.n + row) * (size_t)l->keys,
             mine + i * (size_t)d.kv_len, (size_t)d.kv_len * sizeof *mine);
    }
    give(r->ctx, mine);
  }
  attend_plan_free(plan);
  return status;
}

static attend_status look(const looking *l, attend_view q, attend_view k,
                          const float *lse) {
  attend_session *r = l->r;
  const mixing *m = l->m;
  attend_look all = {.rows = l->rows, .n_rows = r->p.n, .weights = l->weights};
  if (!m->state) return attend_observe(m->plan, q, k, lse, &all);
  if (attend_state_has_keys(m->state))
    return attend_state_observe(m->plan, m->state, r->p.n, q, lse, &all);
  const kept_keys *kept = r->kept[m->role == ATTEND_CROSS];
  for (int b = 0; b < r->p.count; b++) {
    int64_t held = attend_state_length(m->state, b);
    if (held == 0) continue;
    if (!kept || !kept[m->layer].keys || kept[m->layer].length[b] != held)
      return fail(r->ctx, ATTEND_INVALID,
                  "a linear form keeps no keys: watch its attention from the "
                  "first token on");
    ATTEND_TRY(look_kept(l, &kept[m->layer], b, q, lse));
  }
  return ATTEND_OK;
}

/* One number for each query of each head: [B,H,n,1]. */
static attend_view row_numbers(const attend_session *r, const attend_desc *d,
                               const float *numbers) {
  return (attend_view){(void *)numbers,
                       {(ptrdiff_t)d->heads * r->p.n, r->p.n, 1, 1}};
}

static int longest(const attend_session *r, const attend_state *state) {
  int64_t most = 0;
  for (int b = 0; b < r->batch; b++)
    most = max64(most, attend_state_length(state, b));
  return (int)most;
}

static attend_status see_entropy(attend_session *r, const mixing *m,
                                 attend_view q, attend_view k,
                                 const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  float *entropy;
  if (m->state && !attend_state_has_keys(m->state))
    return fail(r->ctx, ATTEND_UNSUPPORTED,
                "a linear form keeps no keys to see entropy by: look at it "
                "through attend/lens.h");
  ATTEND_TRY(take_zeroed(r->ctx,
                         SIZE_PRODUCT((size_t)r->batch, (size_t)d->heads,
                                      (size_t)r->p.n, sizeof *entropy),
                         "entropy that is watched", &entropy));
  attend_look look = {.entropy = entropy};
  attend_status status =
      m->state ? attend_state_observe(m->plan, m->state, r->p.n, q, lse, &look)
               : attend_observe(m->plan, q, k, lse, &look);
  if (!status)
    session_see(r, ATTEND_SEE_ENTROPY, m->role, m->layer,
                row_numbers(r, d, entropy),
                (int[4]){r->p.count, d->heads, r->p.n, 1});
  give(r->ctx, entropy);
  return status;
}

static attend_status see_attention(attend_session *r, const mixing *m,
                                   attend_view q, attend_view k,
                                   const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  looking l = {r, m, d, m->state ? longest(r, m->state) : r->p.n, NULL, NULL};
  size_t row = (size_t)r->p.n * (size_t)l.keys;
  ATTEND_TRY(take(r->ctx, size_times((size_t)r->p.n, sizeof *l.rows),
                  "rows to watch", &l.rows));
  for (int i = 0; i < r->p.n; i++) l.rows[i] = i;
  attend_status status = take_zeroed(
      r->ctx,
      SIZE_PRODUCT((size_t)r->batch, (size_t)d->heads, row, sizeof *l.weights),
      "attention that is watched", &l.weights);
  if (!status) status = look(&l, q, k, lse);
  if (!status) {
    attend_view view = {
        l.weights,
        {(ptrdiff_t)((size_t)d->heads * row), (ptrdiff_t)row, l.keys, 1}};
    session_see(r, ATTEND_SEE_ATTENTION, m->role, m->layer, view,
                (int[4]){r->p.count, d->heads, r->p.n, l.keys});
  }
  give(r->ctx, l.weights);
  give(r->ctx, l.rows);
  return status;
}

attend_status watch_mixing(attend_session *r, const mixing *m, attend_view q,
                           attend_view k, attend_view v, attend_view o,
                           const float *lse) {
  const attend_desc *d = attend_plan_desc(m->plan);
  stream_wait(&r->ctx->stream);
  if (m->role == ATTEND_DECODER_SELF)
    ATTEND_TRY(watch_keep(r, m, r->p.n, r->lengths, k));
  if (r->watch.what & ATTEND_SEE_ATTENTION)
    ATTEND_TRY(see_attention(r, m, q, k, lse));
  if (r->watch.what & ATTEND_SEE_ENTROPY)
    ATTEND_TRY(see_entropy(r, m, q, k, lse));
  session_see(r, ATTEND_SEE_DENOMINATOR, m->role, m->layer,
              row_numbers(r, d, lse),
              (int[4]){r->p.count, d->heads, r->p.n, 1});
  session_see(r, ATTEND_SEE_QUERY, m->role, m->layer, q,
              (int[4]){r->p.count, d->heads, r->p.n, d->dim});
  if (m->role != ATTEND_CROSS) {
    session_see(r, ATTEND_SEE_KEY, m->role, m->layer, k,
                (int[4]){r->p.count, d->kv_heads, r->p.n, d->dim});
    session_see(r, ATTEND_SEE_VALUE, m->role, m->layer, v,
                (int[4]){r->p.count, d->kv_heads, r->p.n, d->dim_v});
  }
  session_see(r, ATTEND_SEE_MIXED, m->role, m->layer, o,
              (int[4]){r->p.count, d->heads, r->p.n, d->dim_v});
  return ATTEND_OK;
}

void watch_cross(attend_session *r, const mixing *m, int n,
                 const int32_t *lengths, attend_view k, attend_view v) {
  const attend_desc *d = attend_plan_desc(m->plan);
  attend_sight s = {ATTEND_SEE_KEY, ATTEND_CROSS,
                    m->layer,       {r->p.count, d->kv_heads, n, d->dim},
                    lengths,        k};
  if (r->watch.what & ATTEND_SEE_KEY) r->watch.see(&s, r->watch.user);
  s.what = ATTEND_SEE_VALUE;
  s.shape[3] = d->dim_v;
  s.view = v;
  if (r->watch.what & ATTEND_SEE_VALUE) r->watch.see(&s, r->watch.user);
}

attend_status watch_stop(attend_session *r) {
  if (!r->watch.stop) return ATTEND_OK;
  int depth = stream_suspend(&r->ctx->stream); /* the layers before are done */
  bool stop = r->watch.stop(r->watch.user);
  stream_resume(&r->ctx->stream, depth);
  if (!stop) return ATTEND_OK;
  return fail(r->ctx, ATTEND_STOPPED, "stopped before it was done");
}

/* ---- how much it would be ------------------------------------------------------------------- */

/* A count in double as a size; SIZE_MAX if none holds it. */
static size_t whole(double count) {
  if (count >= 0x1p63) return SIZE_MAX;
  return count > 0 ? (size_t)count : 0;
}

static size_t attention_floats(const attend_stack *s, unsigned what, double T,
                               double S) {
  double H = s->heads, G = s->kv_heads, sum = 0;
  if (what & ATTEND_SEE_QUERY) sum += H * T * s->dim;
  if (what & ATTEND_SEE_KEY) sum += G * S * s->dim;
  if (what & ATTEND_SEE_VALUE) sum += G * S * s->dim_v;
  if (what & ATTEND_SEE_MIXED) sum += H * T * s->dim_v;
  if (what & ATTEND_SEE_ATTENTION) sum += H * T * S;
  if (what & ATTEND_SEE_DENOMINATOR) sum += H * T;
  if (what & ATTEND_SEE_ENTROPY) sum += H * T;
  return whole(sum * s->layers);
}

static size_t stream_floats(const attend_stack *s, unsigned what, double T) {
  double sum = 0;
  if (what & ATTEND_SEE_HIDDEN) sum += T * s->width * (s->layers + 1);
  if (what & ATTEND_SEE_MIDDLE) sum += T * s->width * s->layers;
  return whole(sum);
}

size_t attend_model_trace_bytes(const attend_model *m, unsigned what,
                                int64_t encoder, int64_t decoder) {
  const attend_config *c = &m->config;
  double S = (double)encoder, T = (double)decoder;
  size_t floats = 0;
  if (c->encoder.layers)
    floats = size_add(attention_floats(&c->encoder, what, S, S),
                      stream_floats(&c->encoder, what, S));
  if (c->decoder.layers)
    floats =
        size_add(floats, size_add(attention_floats(&c->decoder, what, T, T),
                                  stream_floats(&c->decoder, what, T)));
  if (c->parts == ATTEND_BOTH)
    floats = size_add(floats, attention_floats(&c->decoder, what, T, S));
  if (what & ATTEND_SEE_LOGITS)
    floats = size_add(floats, whole((c->decoder.layers ? T : S) * c->vocab));
  return size_times(floats, sizeof(float));
}
