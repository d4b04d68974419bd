/* Attributions of a prediction to tokens, heads and mlps; the logit lens. */
#include <math.h>

#include "view/session.h"

enum { LENS_TOP = 64, LENS_ROWS = 16 /* at once */ };

/* ---- the attributor -------------------------------------------------------------------- */

/* One at a time: it holds the model's parameters as f32, with their gradients. */
static attend_status attributor_take(attend_viewer *v, const view_run *run, attend_attributor **a) {
  if (v->attributed != run->model) {
    attributor_forget(v, v->attributed);
    ATTEND_TRY(attend_attributor_create(run->model, &v->attributor));
    v->attributed = run->model;
  }
  *a = v->attributor;
  return ATTEND_OK;
}

void attributor_forget(attend_viewer *v, const attend_model *model) {
  if (!model || v->attributed != model) return;
  attend_attributor_free(v->attributor);
  v->attributor = NULL;
  v->attributed = NULL;
}

typedef struct {
  view_job j;
  const view_run *run;
  attend_attributor *a;
  attend_viewer_attribute_options o;
  attend_tokens text;
  attend_viewer_attribution *to;
  const attend_stack *stack; /* of the side with the head */
} attribution_job;

static int report_steps(double done, const char *what, void *user) {
  (void)what;
  return job_progress(user, done, "following the path from the baseline");
}

static double sum_of(const float *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i];
  return sum;
}

static attend_status take_scores(attribution_job *w, int n) {
  attend_viewer_attribution *to = w->to;
  ATTEND_TRY(ctx_alloc_zeroed(w->j.v->ctx, (size_t)n * sizeof *to->scores, "scores", &to->memory));
  to->scores = to->memory;
  to->n = n;
  return ATTEND_OK;
}

/* ---- tokens ------------------------------------------------------------------------------- */

static attend_status by_gradient(attribution_job *w) {
  attend_viewer_attribution *to = w->to;
  ATTEND_TRY(take_scores(w, w->text.n + w->text.n_decoder));
  ATTEND_TRY(attend_attribute_gradient(w->a, &w->text, &to->target, to->scores, NULL, &to->logit));
  to->sum = sum_of(to->scores, to->n);
  return ATTEND_OK;
}

static attend_status integrate(attribution_job *w, const attend_tokens *baseline) {
  attend_viewer_attribution *to = w->to;
  attend_integrated r = {ATTEND_INIT(attend_integrated)};
  attend_integrated_options o = {ATTEND_INIT(attend_integrated_options), .baseline = baseline,
                                 .progress = report_steps, .user = &w->j};
  ATTEND_TRY(take_scores(w, w->text.n + w->text.n_decoder));
  ATTEND_TRY(attend_attribute_integrated(w->a, &w->text, &o, &to->target, to->scores, &r));
  to->logit = r.logit;
  to->baseline = r.baseline;
  to->sum = r.sum;
  to->steps = r.steps;
  return ATTEND_OK;
}

static attend_status by_integrated(attribution_job *w) {
  attend_context *ctx = w->j.v->ctx;
  attend_tokens baseline = w->text;
  int32_t *ids, blank = -1;
  ATTEND_TRY(
      ctx_alloc(ctx, (size_t)(w->text.n + w->text.n_decoder) * sizeof *ids, "a baseline", &ids));
  attend_status status =
      attend_attribute_baseline(w->run->model, w->run->of->tokenizer, &w->text, &blank, ids);
  baseline.ids = ids;
  if (baseline.decoder_ids) baseline.decoder_ids = ids + w->text.n;
  if (!status) status = integrate(w, blank < 0 ? NULL : &baseline);
  ctx_free(ctx, ids);
  return status;
}

/* ---- attention ------------------------------------------------------------------------------ */

/* gradients become weight x gradient. */
static void fill_attention(attribution_job *w, const float *weights, float *gradients) {
  attend_viewer_attribution *to = w->to;
  const size_t cells = (size_t)to->rows * (size_t)to->keys;
  const int heads = to->layers * to->heads;
  attend_attribute_products(heads, to->rows, to->keys, weights, gradients, to->head, to->scores);
  memcpy(to->map, gradients + (size_t)(w->o.at.layer * to->heads + w->o.at.head) * cells,
         cells * sizeof *to->map);
  to->sum = sum_of(to->head, heads);
}

static attend_status by_attention(attribution_job *w) {
  attend_context *ctx = w->j.v->ctx;
  attend_viewer_attribution *to = w->to;
  const attend_role role = w->o.at.role;
  ATTEND_CHECK(ctx, (unsigned)role < ATTEND_ROLES && w->run->is.has_role[role],
               "the role must be one that this run has");
  const attend_lens_shape *s = &w->run->is.shape[role];
  const int rows = role == ATTEND_ENCODER_SELF ? w->text.n : s->rows;
  const int keys = role == ATTEND_DECODER_SELF ? s->keys : w->text.n;
  ATTEND_CHECK(ctx,
               w->o.at.layer >= 0 && w->o.at.layer < s->layers && w->o.at.head >= 0 &&
                   w->o.at.head < s->heads,
               "layer %d, head %d: there are %d layers and %d heads, counted from 0", w->o.at.layer,
               w->o.at.head, s->layers, s->heads);
  ATTEND_CHECK(ctx, rows <= ATTEND_VIEWER_GRADIENTS && keys <= ATTEND_VIEWER_GRADIENTS,
               "gradients at attention weights take texts of up to %d tokens: shorten this one",
               ATTEND_VIEWER_GRADIENTS);
  const size_t heads = (size_t)(s->layers * s->heads), cells = (size_t)rows * (size_t)keys;
  float *weights;
  ATTEND_TRY(take_scores(w, keys + (int)heads + (int)cells));
  to->n = to->keys = keys, to->rows = rows;
  to->layers = s->layers, to->heads = s->heads;
  to->head = to->scores + keys, to->map = to->head + heads;
  ATTEND_TRY(ctx_alloc(ctx, 2 * heads * cells * sizeof *weights, "gradients at attention weights",
                       &weights));
  attend_status status = attend_attribute_attention(w->a, &w->text, role, &to->target, weights,
                                                    weights + heads * cells, &to->logit);
  if (!status) fill_attention(w, weights, weights + heads * cells);
  ctx_free(ctx, weights);
  return status;
}

/* ---- direct contributions --------------------------------------------------------------------- */

static attend_status by_direct(attribution_job *w) {
  attend_viewer_attribution *to = w->to;
  const attend_stack *s = w->stack;
  const int heads = s->layers * s->heads;
  const bool both = attend_config_parts(w->run->of->config) == ATTEND_BOTH;
  ATTEND_TRY(take_scores(w, 2 * heads + s->layers));
  to->head = to->scores;
  attend_direct d = {ATTEND_INIT(attend_direct), .heads = to->head, .cross = to->head + heads,
                     .mlps = to->head + 2 * heads};
  ATTEND_TRY(attend_attribute_direct(w->a, &w->text, &to->target, &d));
  to->cross = both ? d.cross : NULL;
  to->mlp = d.mlps;
  to->scores = NULL;
  to->n = 0;
  to->layers = s->layers, to->heads = s->heads;
  to->logit = d.logit;
  to->baseline = 0;
  to->embedding = d.embedding;
  to->rest = d.rest;
  to->sum = d.embedding + d.rest + sum_of(to->head, 2 * heads + s->layers);
  return ATTEND_OK;
}

/* ---- all of them ---------------------------------------------------------------------------------- */

static attend_status attribute(attribution_job *w) {
  static attend_status (*const methods[])(attribution_job *) = {
      [ATTEND_VIEWER_BY_GRADIENT] = by_gradient,
      [ATTEND_VIEWER_BY_INTEGRATED] = by_integrated,
      [ATTEND_VIEWER_BY_ATTENTION] = by_attention,
      [ATTEND_VIEWER_BY_DIRECT] = by_direct};
  attend_context *ctx = w->j.v->ctx;
  int32_t *types;
  ATTEND_CHECK(ctx, (unsigned)w->o.method < sizeof methods / sizeof *methods,
               "method %d: there are 0 to 3", (int)w->o.method);
  ATTEND_TRY(tokens_of_run(ctx, w->run, &w->text, &types));
  attend_status status = ATTEND_OK;
  if (w->text.n > ATTEND_VIEWER_SWEPT || w->text.n_decoder > ATTEND_VIEWER_SWEPT)
    status =
        fail(ctx, ATTEND_INVALID, "attributions take texts of up to %d tokens: shorten this one",
             ATTEND_VIEWER_SWEPT);
  if (!status && job_progress(&w->j, 0, "loading the gradients"))
    status = fail(ctx, ATTEND_STOPPED, "stopped");
  if (!status) status = attributor_take(w->j.v, w->run, &w->a);
  if (!status) status = methods[w->o.method](w);
  ctx_free(ctx, types);
  return status;
}

attend_status attend_viewer_attribute(attend_viewer *v, const attend_viewer_run *of,
                                      const attend_viewer_attribute_options *options,
                                      const attend_viewer_listener *listener,
                                      attend_viewer_attribution *to) {
  attribution_job w = {.run = (const view_run *)of, .to = to};
  const attend_config *c = w.run->of->config;
  *to = (attend_viewer_attribution){.baseline = NAN, .embedding = NAN, .rest = NAN};
  ATTEND_TRY(job_open(v, listener, &w.j));
  ATTEND_TRY(OPTIONS_READ(v->ctx, attend_viewer_attribute_options, options, &w.o));
  to->target = w.o.target;
  ATTEND_TRY(position_of(v->ctx, w.run, &to->target.position));
  w.stack = attend_config_stack(
      c, attend_config_parts(c) & ATTEND_DECODER ? ATTEND_DECODER : ATTEND_ENCODER);
  run_hold((view_run *)of, 1);
  attend_status status = attribute(&w);
  run_hold((view_run *)of, -1);
  if (status) attend_viewer_release(v, to->memory), to->memory = NULL;
  return status;
}

/* ---- logit lens ------------------------------------------------------------------------------------- */

typedef struct {
  view_job j;
  const view_run *run;
  attend_session *head;
  float *logits; /* [LENS_ROWS][V] */
  int vocab;
} lens_job;

static void keep_top(const lens_job *w, const attend_viewer_logit_lens *l, int layer, int row,
                     int n) {
  attend_viewer_candidate list[LENS_TOP];
  for (int i = 0; i < n; i++) {
    size_t at = ((size_t)layer * (size_t)l->rows + (size_t)(row + i)) * (size_t)l->top;
    int found = candidates_of(w->logits + (size_t)i * (size_t)w->vocab, w->vocab, l->top, list);
    for (int k = 0; k < found; k++) {
      l->token[at + (size_t)k] = list[k].id;
      l->p[at + (size_t)k] = list[k].p;
    }
  }
}

static attend_status lens_layer(lens_job *w, const attend_viewer_logit_lens *l, int layer) {
  attend_context *ctx = w->j.v->ctx;
  attend_hooked x;
  ATTEND_TRY(head_states(ctx, w->run, layer, &x));
  const int ld = (int)x.view.stride[2];
  for (int at = 0; at < l->rows; at += LENS_ROWS) {
    int n = l->rows - at < LENS_ROWS ? l->rows - at : LENS_ROWS;
    const float *row = (const float *)x.view.data + (ptrdiff_t)(l->row + at) * ld;
    ATTEND_TRY(attend_session_head(w->head, n, row, ld, layer + 1 < l->layers, w->logits));
    keep_top(w, l, layer, at, n);
    if (job_progress(&w->j, (layer * l->rows + at + n) / (double)(l->layers * l->rows),
                     "reading the stream"))
      return fail(ctx, ATTEND_STOPPED, "stopped");
  }
  return ATTEND_OK;
}

static attend_status lens_all(lens_job *w, attend_viewer_logit_lens *l) {
  attend_context *ctx = w->j.v->ctx;
  const size_t cells = (size_t)l->layers * (size_t)l->rows * (size_t)l->top;
  ATTEND_TRY(
      ctx_alloc_zeroed(ctx, cells * (sizeof *l->p + sizeof *l->token), "a logit lens", &l->memory));
  l->p = l->memory;
  l->token = (int32_t *)(l->p + cells);
  ATTEND_TRY(
      ctx_alloc(ctx, LENS_ROWS * (size_t)w->vocab * sizeof *w->logits, "logits", &w->logits));
  ATTEND_TRY(head_open(w->run, LENS_ROWS, &w->head));
  for (int layer = 0; layer < l->layers; layer++) ATTEND_TRY(lens_layer(w, l, layer));
  return ATTEND_OK;
}

attend_status attend_viewer_get_logit_lens(attend_viewer *v, const attend_viewer_run *of,
                                           const attend_viewer_range *range, int top,
                                           const attend_viewer_listener *listener,
                                           attend_viewer_logit_lens *l) {
  lens_job w = {.run = (const view_run *)of};
  const attend_config *c = w.run->of->config;
  const bool decodes = attend_config_parts(c) & ATTEND_DECODER;
  const int rows = of->side[decodes].n;
  *l = (attend_viewer_logit_lens){0};
  ATTEND_TRY(needs_model(v->ctx, w.run));
  ATTEND_TRY(job_open(v, listener, &w.j));
  const attend_viewer_range r = range ? *range : (attend_viewer_range){0, rows, 0, 0};
  ATTEND_CHECK(
      v->ctx,
      r.row >= 0 && r.rows >= 0 && r.row <= rows && r.rows <= rows - r.row &&
          r.rows <= ATTEND_VIEWER_SWEPT && top >= 1 && top <= LENS_TOP,
      "%d rows from %d on, %d tokens of each: there are %d rows; at most %d, and %d tokens", r.rows,
      r.row, top, rows, ATTEND_VIEWER_SWEPT, LENS_TOP);
  l->layers = attend_config_stack(c, decodes ? ATTEND_DECODER : ATTEND_ENCODER)->layers + 1;
  l->row = r.row, l->rows = r.rows, l->top = top;
  w.vocab = attend_config_get(c, ATTEND_CONFIG_VOCAB);
  if (l->top > w.vocab) l->top = w.vocab;
  run_hold((view_run *)of, 1);
  attend_status status = lens_all(&w, l);
  run_hold((view_run *)of, -1);
  attend_session_free(w.head);
  ctx_free(v->ctx, w.logits);
  if (status) attend_viewer_release(v, l->memory), l->memory = NULL;
  return status;
}
