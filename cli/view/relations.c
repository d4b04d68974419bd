/* A token through the layers; one run beside another.
 *
 * Behind view_answer.h: flow and compare.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "view/core.h"

enum { MOST_SHARES = 256, MOST_EDGES = 20000 };

/* Pairs that an answer may compute. */
static const double FLOW_PAIRS = 3e8, COMPARE_PAIRS = 5e7;

/* ---- flow -------------------------------------------------------------------------- */

typedef struct {
  float share;
  int index;
} share;

static int heavier(const void *x, const void *y) {
  const share *a = x, *b = y;
  if (a->share != b->share) return a->share < b->share ? 1 : -1;
  return (a->index > b->index) - (a->index < b->index);
}
static int earlier(const void *x, const void *y) {
  const share *a = x, *b = y;
  return (a->index > b->index) - (a->index < b->index);
}

/* The heaviest of a layer, by place; returns what is left out. */
static double put_shares(attend_json_writer *w, const float *row, int n,
                         share *all) {
  double sum = 0, said = 0;
  int most = n < MOST_SHARES ? n : MOST_SHARES;
  for (int i = 0; i < n; i++) {
    all[i] = (share){row[i], i};
    sum += (double)row[i];
  }
  qsort(all, (size_t)n, sizeof *all, heavier);
  while (most > 0 && all[most - 1].share <= 0) most--;
  qsort(all, (size_t)most, sizeof *all, earlier);
  attend_json_open(w, '[');
  for (int i = 0; i < most; i++) {
    said += (double)all[i].share;
    attend_json_open(w, '[');
    attend_json_put_integer(w, all[i].index);
    attend_json_put_number(w, (double)all[i].share);
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
  return fmax(0, sum - said);
}

/* From the last layer down to the input. */
static bool reply_rollout(asking *a, const attend_lens_shape *s,
                          const float *shares, double passed) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  share *all = need((size_t)s->rows, sizeof *all);
  double *rest = need((size_t)s->layers + 1, sizeof *rest);
  attend_json_open(&w, '{');
  attend_json_member(&w, "layers");
  attend_json_open(&w, '[');
  for (int i = s->layers; i >= 0; i--)
    rest[i] =
        put_shares(&w, shares + (size_t)i * (size_t)s->rows, s->rows, all);
  attend_json_close(&w, ']');
  attend_json_member(&w, "rest");
  attend_json_open(&w, '[');
  for (int i = s->layers; i >= 0; i--) attend_json_put_number(&w, rest[i]);
  attend_json_close(&w, ']');
  attend_json_member(&w, "passed");
  attend_json_put_number(&w, passed);
  attend_json_close(&w, '}');
  free(rest);
  free(all);
  return reply_json(a, &w);
}

static bool flow_rollout(asking *a, const asked *h, int token) {
  const attend_lens_shape *s = &h->s;
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  float *shares = need(n, sizeof *shares);
  double passed = 0;
  bool ok = ask_status(a, attend_lens_rollout(h->lens, h->at.role, token,
                                              FLOW_PAIRS, shares, &passed)) &&
            reply_rollout(a, s, shares, passed);
  free(shares);
  return ok;
}

static bool reply_reach(asking *a, const attend_lens_shape *s,
                        const uint8_t *reached, const attend_reach_edge *edges,
                        int n) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  attend_json_open(&w, '{');
  attend_json_member(&w, "layers");
  attend_json_open(&w, '[');
  for (int i = s->layers; i >= 0; i--) {
    attend_json_open(&w, '[');
    for (int j = 0; j < s->rows; j++)
      if (reached[(size_t)i * (size_t)s->rows + (size_t)j])
        attend_json_put_integer(&w, j);
    attend_json_close(&w, ']');
  }
  attend_json_close(&w, ']');
  attend_json_member(&w, "edges");
  attend_json_open(&w, '[');
  for (int i = 0; i < n; i++) {
    attend_json_open(&w, '[');
    attend_json_put_integer(&w, edges[i].layer);
    attend_json_put_integer(&w, edges[i].from);
    attend_json_put_integer(&w, edges[i].to);
    attend_json_put_integer(&w, edges[i].head);
    attend_json_close(&w, ']');
  }
  attend_json_close(&w, ']');
  attend_json_close(&w, '}');
  return reply_json(a, &w);
}

static bool flow_reach(asking *a, const asked *h, int token) {
  const attend_lens_shape *s = &h->s;
  double pairs = (double)s->rows * s->keys * s->heads * s->layers;
  if (pairs > 50 * FLOW_PAIRS)
    return ask_fail(a, 400,
                    "%d tokens are too many to follow one by one: look at "
                    "rollout instead",
                    s->rows);
  size_t n = (size_t)(s->layers + 1) * (size_t)s->rows;
  uint8_t *reached = need(n, 1);
  attend_reach_edge *edges = need(MOST_EDGES, sizeof *edges);
  int count = 0;
  bool ok = ask_status(a, attend_lens_reach(h->lens, h->at.role, token, reached,
                                            edges, MOST_EDGES, &count)) &&
            reply_reach(a, s, reached, edges, count);
  free(edges);
  free(reached);
  return ok;
}

bool answer_flow(asking *a) {
  asked h = {0};
  const char *way;
  int token;
  if (!ask_heads(a, &h) ||
      !ask_integer(a, "token", 0, h.s.rows - 1, h.s.rows - 1, &token) ||
      !ask_text(a, "way", "rollout", &way))
    return false;
  if (!strcmp(way, "rollout")) return flow_rollout(a, &h, token);
  if (!strcmp(way, "argmax")) return flow_reach(a, &h, token);
  return ask_fail(a, 400, "\"way\" must be \"rollout\" or \"argmax\"");
}

/* ---- compare ---------------------------------------------------------------------------- */

typedef struct {
  view_run *run, *than; /* than NULL: another form on the same */
  attend_role role;
  attend_lens_shape s;
  attend_lens *lens, *other;
  attend_difference *d; /* [layers * heads] */
  double *hidden;       /* [layers + 1] or NULL */
  const char *why;      /* there is no distance */
} comparing;

static bool read_compare(asking *a, comparing *c) {
  attend_lens_shape o;
  if (!ask_run(a, a->q, &c->run) || !ask_role(a, c->run, &c->role, &c->s))
    return false;
  c->lens = c->run->lens;
  const char *id = attend_json_string(attend_json_get(a->q, "other"), NULL);
  if (!id) return ask_lens(a, a->q, c->run, &c->other);
  c->than = runs_find(a->v, id);
  if (!c->than) {
    a->gone = true;
    return ask_fail(a, 404, "the other run is not kept any more: run it again");
  }
  c->other = c->than->lens;
  if (!attend_lens_role(c->other, c->role, &o))
    c->why = "the other model has no such attention";
  else if (o.layers != c->s.layers || o.heads != c->s.heads)
    c->why = "the models have other numbers of layers or heads";
  else if (o.rows != c->s.rows || o.keys != c->s.keys)
    c->why = "the texts have other numbers of tokens";
  return true;
}

static double norm_gap(const attend_hooked *x, const attend_hooked *y) {
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

/* Hidden states of two runs of the same shape, layer by layer. */
static void compare_hidden(comparing *c) {
  attend_role role = c->role == ATTEND_CROSS ? ATTEND_DECODER_SELF : c->role;
  attend_hooked x, y;
  if (!c->than) return;
  c->hidden = need((size_t)c->s.layers + 1, sizeof *c->hidden);
  for (int i = 0; i <= c->s.layers; i++) {
    bool both =
        attend_trace_get(c->run->trace, ATTEND_AT_RESIDUAL, role, i, &x) &&
        attend_trace_get(c->than->trace, ATTEND_AT_RESIDUAL, role, i, &y) &&
        x.shape[2] == y.shape[2] && x.shape[3] == y.shape[3];
    c->hidden[i] = both ? norm_gap(&x, &y) : NAN;
  }
}

static void put_heads(attend_json_writer *w, const char *name,
                      const comparing *c, size_t at) {
  attend_json_member(w, name);
  if (c->why) {
    attend_json_put_null(w);
    return;
  }
  attend_json_open(w, '[');
  for (int i = 0; i < c->s.layers; i++) {
    attend_json_open(w, '[');
    for (int j = 0; j < c->s.heads; j++)
      attend_json_put_number(
          w, *(const double *)((const char *)&c->d[i * c->s.heads + j] + at));
    attend_json_close(w, ']');
  }
  attend_json_close(w, ']');
}

static bool reply_compare(asking *a, const comparing *c) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  attend_json_open(&w, '{');
  put_heads(&w, "distance", c, offsetof(attend_difference, distance));
  put_heads(&w, "entropy", c, offsetof(attend_difference, entropy));
  put_heads(&w, "other_entropy", c, offsetof(attend_difference, other_entropy));
  put_heads(&w, "output_error", c, offsetof(attend_difference, output));
  attend_json_member(&w, "hidden_error");
  if (c->hidden) {
    attend_json_open(&w, '[');
    for (int i = 0; i <= c->s.layers; i++)
      attend_json_put_number(&w, c->hidden[i]);
    attend_json_close(&w, ']');
  } else {
    attend_json_put_null(&w);
  }
  attend_json_member(&w, "rows_looked");
  attend_json_put_integer(&w, c->why ? 0 : c->d[0].rows_looked);
  attend_json_member(&w, "rows");
  attend_json_put_integer(&w, c->s.rows);
  attend_json_member(&w, "why");
  attend_json_put_string(&w, c->why ? c->why : "");
  attend_json_close(&w, '}');
  return reply_json(a, &w);
}

bool answer_compare(asking *a) {
  comparing c = {0};
  if (!read_compare(a, &c)) return false;
  int n = c.s.layers * c.s.heads;
  bool ok = true;
  c.d = need((size_t)n, sizeof *c.d);
  for (int i = 0; i < n && ok && !c.why; i++) {
    attend_head_id at = {c.role, i / c.s.heads, i % c.s.heads};
    ok = ask_status(a, attend_lens_compare(c.lens, c.other, at,
                                           COMPARE_PAIRS / n, &c.d[i]));
  }
  if (ok && !c.why) compare_hidden(&c);
  if (ok) ok = reply_compare(a, &c);
  free(c.hidden);
  free(c.d);
  return ok;
}
