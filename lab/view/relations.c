/* A token through the layers; one run beside another. */
#include <math.h>

#include "view/session.h"

enum { MOST_EDGES = 20000 };

/* Pairs that a call may compute. */
static const double FLOW_PAIRS = 3e8, COMPARE_PAIRS = 5e7;

/* ---- through the layers ---------------------------------------------------------------- */

static attend_status read_token(attend_viewer *v, const attend_view_head *head, int token,
                                attend_lens **lens, const attend_lens_shape **s) {
  view_run *run = NULL;
  ATTEND_TRY(head_lens(v, head, false, &run, lens));
  *s = &run->is.shape[head->at.role];
  ATTEND_CHECK(v->ctx, token >= 0 && token < (*s)->rows, "token %d: there are %d, counted from 0",
               token, (*s)->rows);
  return ATTEND_OK;
}

attend_status attend_viewer_rollout(attend_viewer *v, const attend_view_head *head, int token,
                                    attend_view_rollout *r) {
  attend_lens *lens = NULL;
  const attend_lens_shape *s;
  *r = (attend_view_rollout){0};
  ATTEND_TRY(read_token(v, head, token, &lens, &s));
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  ATTEND_TRY(take_zeroed(v->ctx, n * sizeof *r->shares, "a rollout", &r->memory));
  r->layers = s->layers, r->tokens = s->rows, r->shares = r->memory;
  attend_status status =
      attend_lens_rollout(lens, head->at.role, token, FLOW_PAIRS, r->shares, &r->passed);
  if (status) give(v->ctx, r->memory), r->memory = NULL;
  return status;
}

attend_status attend_viewer_reach(attend_viewer *v, const attend_view_head *head, int token,
                                  attend_view_reach *r) {
  attend_lens *lens = NULL;
  const attend_lens_shape *s;
  *r = (attend_view_reach){0};
  ATTEND_TRY(read_token(v, head, token, &lens, &s));
  ATTEND_CHECK(v->ctx, (double)s->rows * s->keys * s->heads * s->layers <= 50 * FLOW_PAIRS,
               "%d tokens are too many to follow one by one: look at rollout "
               "instead",
               s->rows);
  size_t edges = MOST_EDGES * sizeof *r->edges;
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  ATTEND_TRY(take_zeroed(v->ctx, edges + n, "reached tokens", &r->memory));
  r->layers = s->layers, r->tokens = s->rows;
  r->edges = r->memory, r->reached = (uint8_t *)r->memory + edges;
  attend_status status =
      attend_lens_reach(lens, head->at.role, token, r->reached, r->edges, MOST_EDGES, &r->n_edges);
  if (status) give(v->ctx, r->memory), r->memory = NULL;
  return status;
}

/* ---- two runs ----------------------------------------------------------------------------- */

static const char *why_not(const attend_view_run *run, const attend_view_run *other,
                           attend_role role) {
  const attend_lens_shape *s = &run->shape[role], *o = &other->shape[role];
  if (!other->has_role[role]) return "the other model has no such attention";
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
                                   attend_view_comparison *c) {
  int n = c->layers * c->heads;
  for (int i = 0; i < n; i++) {
    attend_head_id at = {role, i / c->heads, i % c->heads};
    ATTEND_TRY(attend_lens_compare(lens, other, at, COMPARE_PAIRS / n, &c->difference[i]));
  }
  c->rows_sampled = c->difference[0].rows_sampled;
  return ATTEND_OK;
}

attend_status attend_viewer_compare(attend_viewer *v, const attend_view_head *head,
                                    const attend_view_run *other, attend_view_comparison *c) {
  const attend_view_head own = {head->run, head->at, other ? NULL : head->form};
  view_run *run = NULL;
  attend_lens *lens = NULL;
  *c = (attend_view_comparison){0};
  ATTEND_TRY(head_lens(v, &own, false, &run, &lens));
  attend_role role = head->at.role;
  const attend_lens_shape *s = &run->is.shape[role];
  c->layers = s->layers, c->heads = s->heads, c->rows = s->rows;
  c->why = other ? why_not(&run->is, other, role) : NULL;
  if (c->why) return ATTEND_OK;
  size_t heads = (size_t)(s->layers * s->heads) * sizeof *c->difference;
  size_t hidden = other ? (size_t)(s->layers + 1) * sizeof *c->hidden : 0;
  ATTEND_TRY(take_zeroed(v->ctx, heads + hidden, "a comparison", &c->memory));
  c->difference = c->memory;
  if (other) c->hidden = (double *)((char *)c->memory + heads);
  const view_run *than = (const view_run *)other;
  attend_status status = compare_heads(run->lens, than ? than->lens : lens, role, c);
  if (!status && than) compare_hidden(run, than, role, s->layers, c->hidden);
  if (status) give(v->ctx, c->memory), c->memory = NULL;
  return status;
}
