/* Weights of heads: all of them in few cells, one of them in full, what they do; a token
 * through the layers; one run beside another.
 */
#include <math.h>
#include <stdlib.h>
#include <stdio.h>

#include "attend/problem.h"
#include "view/session.h"

/* Pairs that a call about all heads may compute: for thumbnails, for scores. */
static const double THUMB_PAIRS = 1.2e8, SCORE_PAIRS = 6e7;

/* ---- lenses -------------------------------------------------------------------------- */

attend_status lens_open(attend_context *ctx, const view_run *run, const char *form,
                        attend_lens **lens) {
  attend_form parsed;
  int real = run->side[0].n ? run->side[0].real : 0, n = 0;
  if (form) ATTEND_TRY(attend_form_parse(ctx, form, &parsed));
  if (run->of->tensors)
    return attend_lens_create_described(ctx, run->trace, tensors_describe, run->of->tensors,
                                        form ? &parsed : NULL, real, lens);
  ATTEND_TRY(attend_lens_create(run->model, run->trace, form ? &parsed : NULL, real, lens));
  if (form || !run->intervention) return ATTEND_OK;
  const attend_hook *hooks = attend_intervention_hooks(run->intervention, &n);
  attend_status status = attend_lens_set_hooks(*lens, n, hooks);
  if (status) attend_lens_free(*lens), *lens = NULL;
  return status;
}

/* The most recently used form comes first; the last one makes room. */
static attend_status other_lens(attend_context *ctx, view_run *run, const char *form,
                                attend_lens **lens) {
  form_lens found = {0};
  int at = 0;
  while (at < OTHER_FORMS - 1 && run->other[at].lens && strcmp(run->other[at].form, form)) at++;
  if (run->other[at].lens && !strcmp(run->other[at].form, form)) {
    found = run->other[at];
  } else {
    ATTEND_TRY(lens_open(ctx, run, form, &found.lens));
    attend_lens_free(run->other[at].lens);
    snprintf(found.form, sizeof found.form, "%s", form);
  }
  memmove(run->other + 1, run->other, (size_t)at * sizeof *run->other);
  run->other[0] = found;
  *lens = found.lens;
  return ATTEND_OK;
}

attend_status head_lens(attend_viewer *v, const attend_viewer_head *head, bool whole,
                        view_run **out, attend_lens **lens) {
  view_run *run = (view_run *)head->run;
  const attend_head_id at = head->at;
  ATTEND_CHECK(v->ctx, run && (int)at.role < ATTEND_ROLES && run->is.has_role[at.role],
               "the role must be one that this run has");
  const attend_lens_shape *s = &run->is.shape[at.role];
  ATTEND_CHECK(
      v->ctx,
      !whole || (at.layer >= 0 && at.layer < s->layers && at.head >= 0 && at.head < s->heads),
      "layer %d, head %d: there are %d layers and %d heads, counted from 0", at.layer, at.head,
      s->layers, s->heads);
  *out = run;
  *lens = run->lens;
  if (!head->form || !strcmp(head->form, run->is.c.attention)) return ATTEND_OK;
  ATTEND_CHECK(v->ctx, strlen(head->form) < ATTEND_VIEWER_FORM,
               "\"%.40s..\" is longer than any form", head->form);
  ATTEND_CHECK(v->ctx, !run->of->tensors || (s->dim && s->dim_v),
               "%s has attention weights alone: another form needs queries, keys and values",
               run->of->name);
  return other_lens(v->ctx, run, head->form, lens);
}

attend_status range_check(attend_context *ctx, const attend_viewer_range *given, int rows, int keys,
                          attend_viewer_range *r) {
  *r = given ? *given : (attend_viewer_range){0, rows, 0, keys};
  ATTEND_CHECK(ctx,
               r->row >= 0 && r->rows >= 0 && r->key >= 0 && r->keys >= 0 && r->row <= rows &&
                   r->rows <= rows - r->row && r->key <= keys && r->keys <= keys - r->key,
               "rows from %d, %d of them, keys from %d, %d of them: there are %d and %d", r->row,
               r->rows, r->key, r->keys, rows, keys);
  ATTEND_CHECK(ctx, (int64_t)r->rows * r->keys <= ATTEND_VIEWER_CELLS,
               "%d x %d is more than the %d cells of one call: take parts, or tiles", r->rows,
               r->keys, ATTEND_VIEWER_CELLS);
  return ATTEND_OK;
}

/* ---- all heads of a role --------------------------------------------------------------- */

/* cells <- 0 to 255 of the head's largest, in size. */
static float level_head(float *cells, size_t n) {
  float max = 0;
  for (size_t i = 0; i < n; i++) max = fmaxf(max, fabsf(cells[i]));
  for (size_t i = 0; i < n; i++) cells[i] = max > 0 ? 255 * fabsf(cells[i]) / max : 0;
  return max;
}

static attend_status fill_thumbs(attend_lens *lens, attend_role role, attend_area *area,
                                 attend_viewer_thumbs *t) {
  size_t one = (size_t)area->height * (size_t)area->width;
  area->most_pairs = THUMB_PAIRS / (t->layers * t->heads);
  for (int i = 0; i < t->layers * t->heads; i++) {
    attend_head_id at = {role, i / t->heads, i % t->heads};
    float *to = t->cells + (size_t)i * one;
    ATTEND_TRY(attend_lens_pool(lens, at, area, NULL, to, &t->rows_sampled));
    t->max[i] = level_head(to, one);
  }
  return ATTEND_OK;
}

attend_status attend_viewer_get_thumbs(attend_viewer *v, const attend_viewer_head *head, int size,
                                       attend_viewer_thumbs *t) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  *t = (attend_viewer_thumbs){0};
  ATTEND_TRY(head_lens(v, head, false, &run, &lens));
  ATTEND_CHECK(v->ctx, size >= 4 && size <= 256, "thumbnails of %d cells a side: 4 to 256", size);
  const attend_lens_shape *s = &run->is.shape[head->at.role];
  attend_area area = {.rows = s->rows,
                      .keys = s->keys,
                      .height = s->rows < size ? s->rows : size,
                      .width = s->keys < size ? s->keys : size};
  size_t heads = (size_t)(s->layers * s->heads);
  size_t cells = heads * (size_t)area.height * (size_t)area.width;
  ATTEND_TRY(ctx_alloc(v->ctx, (cells + heads) * sizeof *t->cells, "thumbnails", &t->memory));
  t->layers = s->layers, t->heads = s->heads;
  t->height = area.height, t->width = area.width;
  t->cells = t->memory, t->max = t->cells + cells;
  t->rows = t->rows_sampled = s->rows;
  attend_status status = fill_thumbs(lens, head->at.role, &area, t);
  if (status) ctx_free(v->ctx, t->memory), t->memory = NULL;
  return status;
}

/* What separates texts: the tokenizer's separator, or its end of text. */
static void mark_separators(const view_run *run, const view_side *s, uint8_t *is) {
  const attend_tokenizer *t = run->of->tokenizer;
  for (int i = 1; i < s->n && run->of->tensors; i++)
    is[i] = tensors_separator(tensors_token(run->of->tensors, s->ids[i]));
  if (!t) return;
  int32_t sep = attend_tokenizer_special(t, ATTEND_SPECIAL_SEP);
  int32_t eos = attend_tokenizer_special(t, ATTEND_SPECIAL_EOS);
  for (int i = 1; i < s->n; i++) is[i] = s->ids[i] == sep || s->ids[i] == eos;
}

static attend_status fill_patterns(attend_lens *lens, attend_role role,
                                   const attend_pattern_options *o, attend_viewer_patterns *p) {
  for (int i = 0; i < p->layers * p->heads; i++) {
    attend_head_id at = {role, i / p->heads, i % p->heads};
    ATTEND_TRY(attend_lens_pattern(lens, at, o, &p->scores[i]));
  }
  p->rows_sampled = p->scores[0].rows_sampled;
  return ATTEND_OK;
}

attend_status attend_viewer_get_patterns(attend_viewer *v, const attend_viewer_head *head,
                                         attend_viewer_patterns *p) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  *p = (attend_viewer_patterns){0};
  ATTEND_TRY(head_lens(v, head, false, &run, &lens));
  attend_role role = head->at.role;
  const attend_lens_shape *s = &run->is.shape[role];
  const view_side *rows = &run->side[role != ATTEND_ENCODER_SELF];
  const view_side *keys = &run->side[role == ATTEND_DECODER_SELF];
  size_t scores = (size_t)(s->layers * s->heads) * sizeof *p->scores;
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, scores + (size_t)keys->n + 1, "patterns", &p->memory));
  p->layers = s->layers, p->heads = s->heads, p->rows = s->rows;
  p->scores = p->memory;
  uint8_t *separator = (uint8_t *)p->memory + scores;
  mark_separators(run, keys, separator);
  attend_pattern_options o = {ATTEND_INIT(attend_pattern_options), .row_ids = rows->ids,
                              .key_ids = keys->ids, .separator = separator,
                              .most_pairs = SCORE_PAIRS / (s->layers * s->heads)};
  attend_status status = fill_patterns(lens, role, &o, p);
  if (status) ctx_free(v->ctx, p->memory), p->memory = NULL;
  return status;
}

/* ---- one head ------------------------------------------------------------------------------ */

attend_status attend_viewer_get_block(attend_viewer *v, const attend_viewer_head *head,
                                      const attend_viewer_range *range, attend_viewer_block *b) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  attend_viewer_range r;
  *b = (attend_viewer_block){0};
  ATTEND_TRY(head_lens(v, head, true, &run, &lens));
  const attend_lens_shape *s = &run->is.shape[head->at.role];
  ATTEND_TRY(range_check(v->ctx, range, s->rows, s->keys, &r));
  ATTEND_TRY(ctx_alloc(v->ctx, (size_t)r.rows * (size_t)r.keys * sizeof *b->weights, "weights",
                       &b->memory));
  b->rows = r.rows, b->keys = r.keys, b->weights = b->memory;
  attend_status status =
      attend_lens_block(lens, head->at, r.row, r.rows, r.key, r.keys, b->weights);
  if (status) ctx_free(v->ctx, b->memory), b->memory = NULL;
  return status;
}

attend_status attend_viewer_get_stats(attend_viewer *v, const attend_viewer_head *head,
                                      attend_viewer_stats *to) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  *to = (attend_viewer_stats){0};
  ATTEND_TRY(head_lens(v, head, true, &run, &lens));
  const attend_lens_shape *s = &run->is.shape[head->at.role];
  size_t T = (size_t)s->rows, S = (size_t)s->keys;
  ATTEND_CHECK(v->ctx, (double)T * (double)S <= 1e9, "a text of %d tokens is too long for this",
               s->rows);
  ATTEND_TRY(ctx_alloc(v->ctx, (3 * T + S) * sizeof(float), "statistics of rows", &to->memory));
  to->rows = s->rows, to->keys = s->keys;
  to->entropy = to->memory, to->top_weight = to->entropy + T;
  to->mass = to->top_weight + T, to->top = (int32_t *)(to->mass + S);
  attend_row_stats stats = {ATTEND_INIT(attend_row_stats), to->entropy, to->top, to->top_weight,
                            to->mass};
  attend_status status = attend_lens_stats(lens, head->at, &stats);
  if (status) ctx_free(v->ctx, to->memory), to->memory = NULL;
  return status;
}

/* ---- vectors --------------------------------------------------------------------------------- */

/* n rows from `from` on, contiguous. */
static void gather(attend_view v, int from, int n, int width, float *to) {
  for (int i = 0; i < n; i++)
    memcpy(to + (size_t)i * (size_t)width, (float *)v.data + (from + i) * v.stride[2],
           (size_t)width * sizeof *to);
}

static attend_status fill_vectors(attend_lens *lens, attend_head_id at,
                                  const attend_viewer_range *r, float *all_lse,
                                  attend_viewer_vectors *to) {
  attend_view q, k, v, out;
  ATTEND_TRY(attend_lens_block(lens, at, r->row, r->rows, r->key, r->keys, to->weights));
  ATTEND_TRY(attend_lens_denominators(lens, at, all_lse));
  ATTEND_TRY(attend_lens_vectors(lens, at, &q, &k, &v, &out));
  gather(q, r->row, r->rows, to->dim, to->q);
  gather(k, r->key, r->keys, to->dim, to->k);
  gather(v, r->key, r->keys, to->dim_v, to->v);
  gather(out, r->row, r->rows, to->dim_v, to->out);
  to->lse = all_lse + r->row;
  return ATTEND_OK;
}

attend_status attend_viewer_get_vectors(attend_viewer *v, const attend_viewer_head *head,
                                        const attend_viewer_range *range,
                                        attend_viewer_vectors *to) {
  view_run *run = NULL;
  attend_lens *lens = NULL;
  attend_viewer_range r;
  *to = (attend_viewer_vectors){0};
  ATTEND_TRY(head_lens(v, head, true, &run, &lens));
  const attend_lens_shape *s = &run->is.shape[head->at.role];
  ATTEND_TRY(range_check(v->ctx, range, s->rows, s->keys, &r));
  ATTEND_CHECK(v->ctx, s->dim && s->dim_v, "%s has no queries, keys and values to show",
               run->of->name);
  ATTEND_CHECK(v->ctx, (int64_t)(r.rows + r.keys) * (s->dim + s->dim_v) <= 4 * ATTEND_VIEWER_CELLS,
               "%d rows and %d keys are too many vectors at once: take parts", r.rows, r.keys);
  size_t T = (size_t)r.rows, S = (size_t)r.keys, d = (size_t)s->dim, e = (size_t)s->dim_v;
  ATTEND_TRY(ctx_alloc(v->ctx, ((T + S) * (d + e) + T * S + (size_t)s->rows) * sizeof(float),
                       "vectors of a head", &to->memory));
  to->rows = r.rows, to->keys = r.keys, to->dim = s->dim, to->dim_v = s->dim_v;
  to->scale = s->scale;
  to->q = to->memory, to->k = to->q + T * d, to->v = to->k + S * d;
  to->out = to->v + S * e, to->weights = to->out + T * e;
  attend_status status = fill_vectors(lens, head->at, &r, to->weights + T * S, to);
  if (status) ctx_free(v->ctx, to->memory), to->memory = NULL;
  return status;
}

enum { MOST_EDGES = 20000 };

/* Pairs that a call may compute. */
static const double FLOW_PAIRS = 3e8, COMPARE_PAIRS = 5e7;

/* ---- through the layers ---------------------------------------------------------------- */

static attend_status read_token(attend_viewer *v, const attend_viewer_head *head, int token,
                                attend_lens **lens, const attend_lens_shape **s) {
  view_run *run = NULL;
  ATTEND_TRY(head_lens(v, head, false, &run, lens));
  *s = &run->is.shape[head->at.role];
  ATTEND_CHECK(v->ctx, token >= 0 && token < (*s)->rows, "token %d: there are %d, counted from 0",
               token, (*s)->rows);
  return ATTEND_OK;
}

/* The links of a rollout: half of a token's share stays, half is passed on by the mean of the
 * heads. Those of less than LINK are left out. */
enum { LINKS_OF_LAYER = 400 };
#define LINK 0.002f

static int larger_link(const void *a, const void *b) {
  const attend_viewer_link *x = a, *y = b;
  if (x->share != y->share) return x->share < y->share ? 1 : -1;
  return x->from != y->from ? x->from - y->from : x->to - y->to;
}

static attend_status mean_of_heads(attend_lens *lens, attend_role role, int layer,
                                   const attend_lens_shape *s, float *one, float *mean) {
  size_t n = (size_t)s->rows * (size_t)s->keys;
  memset(mean, 0, n * sizeof *mean);
  for (int h = 0; h < s->heads; h++) {
    ATTEND_TRY(
        attend_lens_block(lens, (attend_head_id){role, layer, h}, 0, s->rows, 0, s->keys, one));
    for (size_t i = 0; i < n; i++) mean[i] += one[i] / (float)s->heads;
  }
  return ATTEND_OK;
}

/* Into links [rows x keys]; returns how many are kept. */
static int links_of_layer(const float *share /* [T] after it */, const float *mean, int layer,
                          const attend_lens_shape *s, attend_viewer_link *links) {
  int n = 0;
  for (int i = 0; i < s->rows; i++)
    for (int j = 0; j < s->keys; j++) {
      float x = share[i] * 0.5f * (mean[(size_t)i * (size_t)s->keys + (size_t)j] + (float)(i == j));
      if (x >= LINK) links[n++] = (attend_viewer_link){layer, i, j, x};
    }
  qsort(links, (size_t)n, sizeof *links, larger_link);
  return n < LINKS_OF_LAYER ? n : LINKS_OF_LAYER;
}

static attend_status rollout_links(attend_viewer *v, attend_lens *lens, attend_role role,
                                   const attend_lens_shape *s, attend_viewer_rollout *r) {
  size_t T = (size_t)s->rows, n = T * (size_t)s->keys;
  attend_viewer_link *all;
  if (s->rows > ATTEND_VIEWER_LINKED) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(v->ctx, n * (sizeof *all + 2 * sizeof(float)), "links of a rollout", &all));
  float *one = (float *)(all + n), *mean = one + n;
  attend_status status = ATTEND_OK;
  for (int l = s->layers - 1; l >= 0 && !status; l--) {
    status = mean_of_heads(lens, role, l, s, one, mean);
    if (status) break;
    int kept = links_of_layer(r->shares + (size_t)(l + 1) * T, mean, l, s, all);
    memcpy(r->links + r->n_links, all, (size_t)kept * sizeof *all);
    r->n_links += kept;
  }
  ctx_free(v->ctx, all);
  return status;
}

attend_status attend_viewer_get_rollout(attend_viewer *v, const attend_viewer_head *head, int token,
                                        attend_viewer_rollout *r) {
  attend_lens *lens = NULL;
  const attend_lens_shape *s;
  *r = (attend_viewer_rollout){0};
  ATTEND_TRY(read_token(v, head, token, &lens, &s));
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  size_t links = s->rows > ATTEND_VIEWER_LINKED ? 0 : (size_t)s->layers * LINKS_OF_LAYER;
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, links * sizeof *r->links + n * sizeof *r->shares, "a rollout",
                              &r->memory));
  r->layers = s->layers, r->tokens = s->rows;
  r->links = r->memory, r->shares = (float *)(r->links + links);
  attend_status status =
      attend_lens_rollout(lens, head->at.role, token, FLOW_PAIRS, r->shares, &r->passed);
  if (!status) status = rollout_links(v, lens, head->at.role, s, r);
  if (status) ctx_free(v->ctx, r->memory), r->memory = NULL;
  return status;
}

attend_status attend_viewer_get_reach(attend_viewer *v, const attend_viewer_head *head, int token,
                                      attend_viewer_reach *r) {
  attend_lens *lens = NULL;
  const attend_lens_shape *s;
  *r = (attend_viewer_reach){0};
  ATTEND_TRY(read_token(v, head, token, &lens, &s));
  ATTEND_CHECK(v->ctx, (double)s->rows * s->keys * s->heads * s->layers <= 50 * FLOW_PAIRS,
               "%d tokens are too many to follow one by one: look at rollout instead", s->rows);
  size_t edges = MOST_EDGES * sizeof *r->edges;
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, edges + n, "reached tokens", &r->memory));
  r->layers = s->layers, r->tokens = s->rows;
  r->edges = r->memory, r->reached = (uint8_t *)r->memory + edges;
  attend_status status =
      attend_lens_reach(lens, head->at.role, token, r->reached, r->edges, MOST_EDGES, &r->n_edges);
  if (status) ctx_free(v->ctx, r->memory), r->memory = NULL;
  return status;
}

/* ---- two runs ----------------------------------------------------------------------------- */

static const char *why_not(const attend_viewer_run *run, const attend_viewer_run *other,
                           attend_role role) {
  static const char *const no[ATTEND_ROLES] = {"the other model has no encoder",
                                               "the other model has no decoder",
                                               "the other model has no cross-attention"};
  const attend_lens_shape *s = &run->shape[role], *o = &other->shape[role];
  if (!other->has_role[role]) return no[role];
  if (o->layers != s->layers || o->heads != s->heads)
    return "the models have other numbers of layers or heads";
  if (o->rows != s->rows || o->keys != s->keys) return "the texts have other numbers of tokens";
  return NULL;
}

static double relative_error(const attend_hooked *x, const attend_hooked *y) {
  double gaps = 0, squares = 0;
  for (int i = 0; i < x->shape[2]; i++)
    for (int j = 0; j < x->shape[3]; j++) {
      double p = (double)((float *)x->view.data)[i * x->view.stride[2] + j];
      double q = (double)((float *)y->view.data)[i * y->view.stride[2] + j];
      gaps += (p - q) * (p - q);
      squares += p * p;
    }
  return squares > 0 ? sqrt(gaps / squares) : NAN;
}

/* Hidden states of two runs, layer by layer; NaN where their shapes differ. */
static void compare_hidden(const view_run *run, const view_run *other, attend_role role, int layers,
                           double *hidden) {
  attend_role self = role == ATTEND_CROSS ? ATTEND_DECODER_SELF : role;
  attend_hooked x, y;
  for (int i = 0; i <= layers; i++) {
    bool both = attend_trace_get(run->trace, ATTEND_AT_RESIDUAL, self, i, &x) &&
                attend_trace_get(other->trace, ATTEND_AT_RESIDUAL, self, i, &y) &&
                x.shape[2] == y.shape[2] && x.shape[3] == y.shape[3];
    hidden[i] = both ? relative_error(&x, &y) : NAN;
  }
}

static attend_status compare_heads(attend_lens *lens, attend_lens *other, attend_role role,
                                   attend_viewer_comparison *c) {
  int n = c->layers * c->heads;
  for (int i = 0; i < n; i++) {
    attend_head_id at = {role, i / c->heads, i % c->heads};
    ATTEND_TRY(attend_lens_compare(lens, other, at, COMPARE_PAIRS / n, &c->difference[i]));
  }
  c->rows_sampled = c->difference[0].rows_sampled;
  return ATTEND_OK;
}

attend_status attend_viewer_compare(attend_viewer *v, const attend_viewer_head *head,
                                    const attend_viewer_run *other, attend_viewer_comparison *c) {
  const attend_viewer_head own = {head->run, head->at, other ? NULL : head->form};
  view_run *run = NULL;
  attend_lens *lens = NULL;
  *c = (attend_viewer_comparison){0};
  ATTEND_TRY(head_lens(v, &own, false, &run, &lens));
  attend_role role = head->at.role;
  const attend_lens_shape *s = &run->is.shape[role];
  c->layers = s->layers, c->heads = s->heads, c->rows = s->rows;
  c->why = other ? why_not(&run->is, other, role) : NULL;
  if (c->why) return ATTEND_OK;
  size_t heads = (size_t)(s->layers * s->heads) * sizeof *c->difference;
  size_t hidden = other ? (size_t)(s->layers + 1) * sizeof *c->hidden : 0;
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, heads + hidden, "a comparison", &c->memory));
  c->difference = c->memory;
  if (other) c->hidden = (double *)((char *)c->memory + heads);
  const view_run *than = (const view_run *)other;
  attend_status status = compare_heads(run->lens, than ? than->lens : lens, role, c);
  if (!status && than) compare_hidden(run, than, role, s->layers, c->hidden);
  if (status) ctx_free(v->ctx, c->memory), c->memory = NULL;
  return status;
}
