/* Keys and values that are kept beside a linear state, for hooks at its pattern.
 *
 * Place: model/ - see hook_attention.c. A linear state has sums alone.
 */
#include <string.h>

#include "attention/state.h"
#include "model/hooks.h"

kept_rows *kept_of(const pass *p, const mixing *m) {
  kept_rows *all =
      p->session ? p->session->kept[m->role == ATTEND_CROSS] : NULL;
  return all ? &all[m->layer] : NULL;
}

static bool keeps_keys(const pass *p, const mixing *m) {
  hook_place at = {
      .point = ATTEND_AT_PATTERN, .role = m->role, .layer = m->layer};
  return m->state && !attend_state_has_keys(m->state) && hooks_asked(p, &at);
}

static attend_status more_rows(const pass *p, int64_t old, int64_t room,
                               int width, float **rows) {
  const int batch = p->session->batch;
  float *bigger;
  ATTEND_TRY(device_take(
      p->ctx,
      SIZE_PRODUCT((size_t)batch, (size_t)room, (size_t)width, sizeof *bigger),
      "keys that are hooked", &bigger));
  for (int b = 0; b < batch && *rows && old; b++)
    OP(p->ctx, gather, .rows = (int)old, .width = width, .factor = 1,
       .x = *rows + (size_t)b * (size_t)old * (size_t)width, .ldx = width,
       .y = bigger + (size_t)b * (size_t)room * (size_t)width, .ldy = width);
  device_give(p->ctx, *rows);
  *rows = bigger;
  return ATTEND_OK;
}

static attend_status kept_room(const pass *p, const attend_desc *d,
                               kept_rows *kept, int64_t room) {
  if (room <= kept->room) return ATTEND_OK;
  room = 2 * room + 64;
  ATTEND_TRY(more_rows(p, kept->room, room, d->kv_heads * d->dim, &kept->keys));
  ATTEND_TRY(
      more_rows(p, kept->room, room, d->kv_heads * d->dim_v, &kept->values));
  kept->room = room;
  return ATTEND_OK;
}

static attend_status kept_open(const pass *p, const mixing *m) {
  attend_session *r = p->session;
  kept_rows **all = &r->kept[m->role == ATTEND_CROSS];
  size_t layers = (size_t)r->model->config.decoder.layers;
  if (!*all)
    ATTEND_TRY(take_zeroed(p->ctx, layers * sizeof **all,
                           "keys that are hooked", all));
  kept_rows *kept = &(*all)[m->layer];
  if (kept->length) return ATTEND_OK;
  return take_zeroed(p->ctx, size_times((size_t)r->batch, sizeof *kept->length),
                     "keys that are hooked", &kept->length);
}

/* n rows of a view whose heads lie side by side, behind those that are there. */
static void keep_rows(const pass *p, const kept_rows *kept, int b, int n,
                      int width, attend_view from, float *to) {
  if (n)
    OP(p->ctx, gather, .rows = n, .width = width, .factor = 1,
       .x = (float *)from.data + b * from.stride[0], .ldx = (int)from.stride[2],
       .y = to + (size_t)(b * kept->room + kept->length[b]) * (size_t)width,
       .ldy = width);
}

attend_status hook_keep(const pass *p, const mixing *m, int n,
                        const int32_t *lengths, attend_view k, attend_view v) {
  const attend_desc *d = attend_plan_desc(m->plan);
  int64_t most = 0;
  if (!p->hooks || !keeps_keys(p, m)) return ATTEND_OK;
  ATTEND_TRY(kept_open(p, m));
  kept_rows *kept = kept_of(p, m);
  const int batch = p->session->batch;
  for (int b = 0; b < batch; b++) most = max64(most, kept->length[b] + n);
  ATTEND_TRY(kept_room(p, d, kept, most));
  for (int b = 0; b < batch; b++) {
    keep_rows(p, kept, b, lengths[b], d->kv_heads * d->dim, k, kept->keys);
    keep_rows(p, kept, b, lengths[b], d->kv_heads * d->dim_v, v, kept->values);
    kept->length[b] += lengths[b];
  }
  return ATTEND_OK;
}

static attend_status reorder_rows(attend_session *r, const int32_t *parents,
                                  size_t floats, float **rows) {
  float *next;
  if (!*rows) return ATTEND_OK;
  ATTEND_TRY(device_take(r->ctx,
                         SIZE_PRODUCT((size_t)r->batch, floats, sizeof *next),
                         "keys that are hooked", &next));
  for (int b = 0; b < r->batch; b++)
    OP(r->ctx, gather, .rows = 1, .width = (int)floats, .factor = 1,
       .x = *rows + (size_t)parents[b] * floats, .ldx = (int)floats,
       .y = next + (size_t)b * floats, .ldy = (int)floats);
  device_give(r->ctx, *rows);
  *rows = next;
  return ATTEND_OK;
}

attend_status kept_reorder(attend_session *r, const int32_t *parents) {
  const attend_stack *s = &r->model->config.decoder;
  for (int i = 0; i < 2 * s->layers; i++) {
    kept_rows *kept = r->kept[i % 2] ? &r->kept[i % 2][i / 2] : NULL;
    if (!kept || !kept->length) continue;
    const size_t room = (size_t)kept->room;
    ATTEND_TRY(reorder_rows(r, parents, room * (size_t)(s->kv_heads * s->dim),
                            &kept->keys));
    ATTEND_TRY(reorder_rows(r, parents, room * (size_t)(s->kv_heads * s->dim_v),
                            &kept->values));
    for (int b = 0; b < r->batch; b++) r->held[b] = kept->length[parents[b]];
    memcpy(kept->length, r->held, (size_t)r->batch * sizeof *kept->length);
  }
  return ATTEND_OK;
}

void kept_truncate(attend_session *r, int b, int64_t length) {
  for (int i = 0; r->kept[0] && i < r->model->config.decoder.layers; i++) {
    kept_rows *kept = &r->kept[0][i];
    if (kept->length && kept->length[b] > length) kept->length[b] = length;
  }
}

void kept_free(attend_session *r) {
  for (int which = 0; which < 2; which++) {
    for (int i = 0; r->kept[which] && i < r->model->config.decoder.layers;
         i++) {
      device_give(r->ctx, r->kept[which][i].keys);
      device_give(r->ctx, r->kept[which][i].values);
      give(r->ctx, r->kept[which][i].length);
    }
    give(r->ctx, r->kept[which]);
    r->kept[which] = NULL;
  }
}
