/* Hooks: functions of the caller's that read or edit tensors of a pass.
 *
 * Place: model/ - called by layer.c, head.c and session.c where hooks may stand;
 * attend/hooks.h says where that is. Without hooks nothing here runs.
 *
 * Callers see host memory: the tensor itself where the device's memory is the host's,
 * else a copy that goes back after an edit.
 */
#include "model/hooks.h"

#include <string.h>

#include "base/parallel.h"

/* ---- the list ------------------------------------------------------------------------- */

void hooks_free(const attend_context *ctx, hooks *h) {
  give(ctx, h->list);
  give(ctx, h->layers);
  give(ctx, h->stage);
  *h = (hooks){0};
}

static attend_status check_hook(attend_context *ctx, int i,
                                const attend_hook *x) {
  ATTEND_CHECK(ctx, x->read || x->edit,
               "hook %d neither reads nor edits: give it a function", i);
  ATTEND_CHECK(ctx, x->points && !(x->points >> ATTEND_POINTS),
               "hook %d has points %#x: choose some of attend_point", i,
               x->points);
  ATTEND_CHECK(ctx, !x->edit || !(x->points & ATTEND_AT_ENTROPY),
               "hook %d edits entropies, which nothing is computed from: edit "
               "the pattern",
               i);
  ATTEND_CHECK(ctx, x->n_layers >= 0 && (x->layers || !x->n_layers),
               "hook %d stands in %d layers, which are not given", i,
               x->n_layers);
  return ATTEND_OK;
}

attend_status hooks_set(attend_context *ctx, hooks *h, int n,
                        const attend_hook *list) {
  hooks x = {.n = n};
  size_t layers = 0;
  ATTEND_CHECK(ctx, n >= 0 && (list || !n), "%d hooks, which are not given", n);
  for (int i = 0; i < n; i++) {
    ATTEND_TRY(check_hook(ctx, i, &list[i]));
    layers += (size_t)list[i].n_layers;
    x.points |= list[i].points;
    if (list[i].edit) x.edits |= list[i].points;
  }
  ATTEND_TRY(take(ctx, size_times((size_t)n, sizeof *list), "hooks", &x.list));
  attend_status status =
      take(ctx, size_times(layers, sizeof *x.layers), "hooks", &x.layers);
  if (status) {
    hooks_free(ctx, &x);
    return status;
  }
  int *to = x.layers;
  for (int i = 0; i < n; i++) {
    x.list[i] = list[i];
    if (list[i].n_layers)
      memcpy(to, list[i].layers, (size_t)list[i].n_layers * sizeof *to);
    x.list[i].layers = list[i].n_layers ? to : NULL;
    to += list[i].n_layers;
  }
  hooks_free(ctx, h);
  *h = x;
  return ATTEND_OK;
}

static bool stands_at(const attend_hook *x, const attend_hooked *at) {
  if (!(x->points & at->point)) return false;
  if (x->roles && !(x->roles & 1u << at->role)) return false;
  for (int i = 0; i < x->n_layers; i++)
    if (x->layers[i] == at->layer) return true;
  return !x->n_layers;
}

unsigned hooks_asked(const pass *p, const attend_hooked *at) {
  unsigned what = 0;
  if (!p->hooks || !(p->hooks->points & at->point)) return 0;
  for (int i = 0; i < p->hooks->n; i++) {
    const attend_hook *x = &p->hooks->list[i];
    if (!stands_at(x, at)) continue;
    what |= (x->read && !p->again ? HOOK_READS : 0u) |
            (x->edit ? HOOK_EDITS : 0u) |
            (x->edit && x->edit_gradient ? HOOK_GRADIENTS : 0u);
  }
  return what;
}

bool hooks_edit(const hooks *h, unsigned points) {
  return h && h->edits & points;
}

/* ---- calling them ------------------------------------------------------------------------ */

/* Floats from the tensor's first to behind its last. */
static size_t extent(const attend_hooked *at) {
  ptrdiff_t last = 0;
  for (int i = 0; i < 4; i++) {
    if (at->shape[i] < 1) return 0;
    last += (at->shape[i] - 1) * at->view.stride[i];
  }
  return (size_t)last + 1;
}

/* The host's view of it. */
static attend_status bring(const pass *p, const attend_hooked *at, bool on_host,
                           float **data) {
  hooks *h = p->hooks;
  size_t bytes = extent(at) * sizeof **data;
  *data = (float *)at->view.data;
  if (on_host) return ATTEND_OK;
  if (bytes > h->stage_bytes) {
    give(p->ctx, h->stage);
    h->stage = NULL;
    h->stage_bytes = 0;
    ATTEND_TRY(take(p->ctx, bytes, "a tensor that is hooked", &h->stage));
    h->stage_bytes = bytes;
  }
  p->ctx->device->read(p->ctx, h->stage, at->view.data, bytes);
  *data = h->stage;
  return ATTEND_OK;
}

static void put_back(const pass *p, const attend_hooked *at,
                     const float *data) {
  if (data != at->view.data)
    p->ctx->device->write(p->ctx, (void *)at->view.data, data,
                          extent(at) * sizeof *data);
}

static void call_all(const pass *p, const attend_hooked *at, unsigned which,
                     float *data) {
  attend_hooked t = *at;
  t.view.data = data;
  for (int i = 0; i < p->hooks->n; i++) {
    const attend_hook *x = &p->hooks->list[i];
    if (!stands_at(x, at)) continue;
    if (which & HOOK_READS && x->read) x->read(&t, x->user);
    if (which & HOOK_EDITS && x->edit) x->edit(&t, data, x->user);
    if (which & HOOK_GRADIENTS && x->edit && x->edit_gradient)
      x->edit_gradient(&t, data, x->user);
  }
}

attend_status hook_at(const pass *p, const attend_hooked *at, unsigned which) {
  const bool on_host = p->ctx->device->host || which & HOOK_ON_HOST;
  float *data;
  which &= hooks_asked(p, at);
  if (!which) return ATTEND_OK;
  int depth = stream_suspend(&p->ctx->stream); /* what came before is done */
  attend_status status = bring(p, at, on_host, &data);
  if (!status) call_all(p, at, which, data);
  if (!status && which & ~(unsigned)HOOK_READS) put_back(p, at, data);
  stream_resume(&p->ctx->stream, depth);
  return status;
}

attend_status hook_stream(const pass *p, attend_point point, int layer,
                          float *x, unsigned which) {
  const int width = p->side->shape->width, ld = padded(width);
  if (!p->hooks) return ATTEND_OK;
  attend_hooked at = {.point = point,
                      .role = self_role(p),
                      .layer = layer,
                      .shape = {p->count, 1, p->n, width},
                      .lengths = p->lengths,
                      .view = {x, {(ptrdiff_t)p->n * ld, 0, ld, 1}}};
  return hook_at(p, &at, which);
}

/* ---- stopping --------------------------------------------------------------------------- */

attend_status hook_stop(attend_session *r) {
  if (!r->stop) return ATTEND_OK;
  int depth = stream_suspend(&r->ctx->stream); /* the layers before are done */
  bool stop = r->stop(r->stop_user);
  stream_resume(&r->ctx->stream, depth);
  if (!stop) return ATTEND_OK;
  return fail(r->ctx, ATTEND_STOPPED, "stopped before it was done");
}

/* ---- how much it would be ------------------------------------------------------------------- */

/* Of attention between T queries and S keys. */
static double attention_floats(const attend_stack *s, unsigned points, double T,
                               double S) {
  double H = s->heads, G = s->kv_heads, sum = 0;
  if (points & ATTEND_AT_QUERY) sum += H * T * s->dim;
  if (points & ATTEND_AT_KEY) sum += G * S * s->dim;
  if (points & ATTEND_AT_VALUE) sum += G * S * s->dim_v;
  if (points & ATTEND_AT_HEAD_OUTPUT) sum += H * T * s->dim_v;
  if (points & ATTEND_AT_PATTERN) sum += H * T * S;
  if (points & ATTEND_AT_DENOMINATOR) sum += H * T;
  if (points & ATTEND_AT_ENTROPY) sum += H * T;
  return sum * s->layers;
}

static double side_floats(const attend_stack *s, unsigned points, double T) {
  double rows = 0;
  if (points & ATTEND_AT_RESIDUAL) rows += T * (s->layers + 1);
  if (points & ATTEND_AT_RESIDUAL_MIDDLE) rows += T * s->layers;
  if (points & ATTEND_AT_MLP) rows += T * s->layers;
  return attention_floats(s, points, T, T) + rows * s->width;
}

/* In double, whose range no count leaves; SIZE_MAX if no size holds it. */
size_t attend_model_trace_bytes(const attend_model *m, unsigned points,
                                int64_t encoder, int64_t decoder) {
  const attend_config *c = &m->config;
  double S = (double)encoder, T = (double)decoder, floats = 0;
  if (c->encoder.layers) floats += side_floats(&c->encoder, points, S);
  if (c->decoder.layers) floats += side_floats(&c->decoder, points, T);
  if (c->parts == ATTEND_BOTH)
    floats += attention_floats(&c->decoder, points, T, S);
  if (points & ATTEND_AT_LOGITS)
    floats += (c->decoder.layers ? T : S) * c->vocab;
  if (floats >= 0x1p63) return SIZE_MAX;
  return size_times(floats > 0 ? (size_t)floats : 0, sizeof(float));
}
