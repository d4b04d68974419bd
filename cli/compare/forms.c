/* Runs a model under each form and measures the difference from the first.
 *
 * Behind cmd_compare.c.
 *
 * Two differences of attention are told apart. "direct" gives a form the very
 * queries and keys of the first form's run: what the form itself changes.
 * "attention" lets each form run through all layers: what it changes in the
 * end, with inputs that have drifted apart.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "compare/compare.h"
#include "progress.h"

enum { PIECE = 64 }; /* rows of logits at once */

typedef struct {   /* what the first form gave */
  float **weights; /* [layers] of [H,n,n] */
  float *hidden;   /* [n][width] */
  int32_t *best;   /* [rows that are scored] */
} baseline;

typedef struct {
  comparison *c;
  baseline *base;
  form_result *f;
  attend_session *run;
  bool first;
  float *q, *k, *v; /* [H,n,D] of the layer that is being read */
  float *hidden;    /* [n][width] of this form's */
} form_run;

int compare_layers(const comparison *c) {
  return c->config->parts & ATTEND_ENCODER ? c->config->encoder.layers
                                           : c->config->decoder.layers;
}
int compare_heads(const comparison *c) {
  return c->config->parts & ATTEND_ENCODER ? c->config->encoder.heads
                                           : c->config->decoder.heads;
}
static attend_role watched_role(const comparison *c) {
  return c->config->parts & ATTEND_ENCODER ? ATTEND_ENCODER_SELF
                                           : ATTEND_DECODER_SELF;
}
/* Whether the form is where weights are looked at, and knows all of the scores:
 * a bias is not ours to give. */
static bool is_direct(const comparison *c) {
  unsigned roles = c->opened.roles;
  return c->config->position != ATTEND_POSITIONS_BUCKETS &&
         (!roles || roles & 1u << watched_role(c));
}
static const attend_stack *watched_stack(const comparison *c) {
  return c->config->parts & ATTEND_ENCODER ? &c->config->encoder
                                           : &c->config->decoder;
}

double compare_bytes(const comparison *c) {
  return 4.0 * (compare_layers(c) + 1) * compare_heads(c) * c->n * c->n;
}

/* ---- weights ----------------------------------------------------------------------- */

/* Half the sum of |difference| of each row, mean over the rows of a head. */
static void add_gaps(const comparison *c, const float *ours, const float *first,
                     double *heads /* [H] */) {
  size_t n = (size_t)c->n;
  for (int h = 0; h < compare_heads(c); h++) {
    double sum = 0;
    for (size_t i = 0; i < n * n; i++)
      sum += fabs((double)ours[(size_t)h * n * n + i] -
                  (double)first[(size_t)h * n * n + i]);
    heads[h] = sum / 2 / c->n;
  }
}

static void see_weights(form_run *r, const attend_hooked *s) {
  size_t count =
      (size_t)s->shape[1] * (size_t)s->shape[2] * (size_t)s->shape[3];
  if (r->first) {
    r->base->weights[s->layer] = need(count, sizeof(float));
    memcpy(r->base->weights[s->layer], s->view.data, count * sizeof(float));
  } else {
    add_gaps(r->c, s->view.data, r->base->weights[s->layer],
             r->f->heads + s->layer * compare_heads(r->c));
  }
}

/* A form's weights of the first form's q, k and v. */
static attend_status direct_weights(form_run *r, const attend_form *form,
                                    int layer, float *weights) {
  comparison *c = r->c;
  const attend_stack *s = watched_stack(c);
  attend_desc d;
  attend_model_attention(c->opened.model, watched_role(c), layer, &d);
  d.form = *form;
  d.q_len = d.kv_len = c->n;
  attend_plan *plan;
  attend_status status = attend_plan_create(c->opened.ctx, &d, &plan);
  if (status) return status;
  size_t rows = (size_t)s->heads * (size_t)c->n;
  float *o = need(rows * (size_t)s->dim_v, sizeof *o);
  float *lse = need(rows, sizeof *lse);
  int32_t *all = need((size_t)c->n, sizeof *all);
  for (int i = 0; i < c->n; i++) all[i] = i;
  attend_observation look = {.rows = all, .n_rows = c->n, .weights = weights};
  attend_view q = attend_bhtd(r->q), k = attend_bhtd(r->k);
  status = attend_forward(plan, q, k, attend_bhtd(r->v), attend_bhtd(o), lse);
  if (!status) status = attend_observe(plan, q, k, lse, &look);
  free(o);
  free(lse);
  free(all);
  attend_plan_free(plan);
  return status;
}

static void see_direct(form_run *r, int layer) {
  comparison *c = r->c;
  int heads = compare_heads(c);
  float *weights =
      need((size_t)heads * (size_t)c->n * (size_t)c->n, sizeof *weights);
  for (int i = 1; i < c->count; i++) {
    double *to = c->forms[i].direct_heads + layer * heads;
    if (!direct_weights(r, &c->forms[i].form, layer, weights))
      add_gaps(c, weights, r->base->weights[layer], to);
    else
      for (int h = 0; h < heads; h++) to[h] = NAN;
  }
  free(weights);
}

/* A contiguous copy of the first sequence's. */
static void keep(const attend_hooked *s, float **to) {
  const size_t H = (size_t)s->shape[1], n = (size_t)s->shape[2],
               D = (size_t)s->shape[3];
  if (!*to) *to = need(H * n * D, sizeof **to);
  for (size_t i = 0; i < H * n; i++)
    memcpy(*to + i * D,
           s->view.data + (ptrdiff_t)(i / n) * s->view.stride[1] +
               (ptrdiff_t)(i % n) * s->view.stride[2],
           D * sizeof **to);
}

static void see(const attend_hooked *s, void *user) {
  form_run *r = user;
  if (s->role != watched_role(r->c)) return;
  if (s->point == ATTEND_AT_QUERY) keep(s, &r->q);
  if (s->point == ATTEND_AT_KEY) keep(s, &r->k);
  if (s->point == ATTEND_AT_VALUE) keep(s, &r->v);
  if (s->point != ATTEND_AT_PATTERN) return;
  see_weights(r, s);
  if (r->first && is_direct(r->c)) see_direct(r, s->layer);
}

/* ---- hidden states ------------------------------------------------------------------- */

static void keep_hidden(form_run *r) {
  int width = watched_stack(r->c)->width, ld;
  const float *x = attend_session_hidden(r->run, &ld);
  r->hidden = need((size_t)r->c->n * (size_t)width, sizeof *r->hidden);
  for (int i = 0; i < r->c->n; i++)
    memcpy(r->hidden + (size_t)i * (size_t)width, x + (size_t)i * (size_t)ld,
           (size_t)width * sizeof *x);
}

static void compare_hidden(form_run *r) {
  int width = watched_stack(r->c)->width, n = r->c->n;
  double square = 0, gap = 0, aa = 0, bb = 0, ab = 0;
  if (r->first) {
    r->base->hidden = r->hidden;
    r->hidden = NULL;
  }
  const float *a = r->base->hidden, *b = r->first ? r->base->hidden : r->hidden;
  for (int j = 0; j < width; j++) {
    double sum_a = 0, sum_b = 0;
    for (int i = 0; i < n; i++) {
      double x = (double)a[(size_t)i * (size_t)width + (size_t)j];
      double y = (double)b[(size_t)i * (size_t)width + (size_t)j];
      square += x * x;
      gap += (x - y) * (x - y);
      sum_a += x;
      sum_b += y;
    }
    aa += sum_a * sum_a;
    bb += sum_b * sum_b;
    ab += sum_a * sum_b;
  }
  r->f->hidden = square > 0 ? sqrt(gap / square) : NAN;
  r->f->drift = aa > 0 && bb > 0 ? fmax(0, 1 - ab / sqrt(aa * bb)) : NAN;
  free(r->hidden);
  free(r->q);
  free(r->k);
  free(r->v);
  r->hidden = NULL;
}

/* ---- logits ---------------------------------------------------------------------------- */

typedef struct {
  int rows;               /* of the call */
  const int32_t *targets; /* [rows], negative: not scored; NULL: none */
} scoring;

static attend_status score(form_run *r, scoring s) {
  comparison *c = r->c;
  int vocab = c->config->vocab, same = 0, scored = 0;
  float *logits = need((size_t)PIECE * (size_t)vocab, sizeof *logits);
  float loss[PIECE];
  int32_t place[PIECE], none[PIECE], best[PIECE];
  double sum = 0;
  attend_status status = ATTEND_OK;
  if (r->first) r->base->best = need((size_t)s.rows, sizeof *r->base->best);
  for (int start = 0; start < s.rows && !status; start += PIECE) {
    int rows = s.rows - start < PIECE ? s.rows - start : PIECE;
    for (int i = 0; i < rows; i++) {
      place[i] = start + i;
      none[i] = -1;
    }
    status = attend_session_logits(r->run, rows, place, logits);
    if (status) break;
    attend_cross_entropy(c->opened.ctx, rows, vocab, logits, vocab,
                         s.targets ? s.targets + start : none, loss, best);
    for (int i = 0; i < rows; i++) {
      if (r->first) r->base->best[start + i] = best[i];
      same += r->base->best[start + i] == best[i];
      if (!s.targets || s.targets[start + i] < 0) continue;
      sum += (double)loss[i];
      scored++;
    }
  }
  free(logits);
  r->f->agreement = (double)same / s.rows;
  r->f->loss = scored ? sum / scored : NAN;
  return status;
}

/* ---- one run ------------------------------------------------------------------------------ */

static attend_status read_text(form_run *r) {
  comparison *c = r->c;
  attend_session_reset(r->run);
  double start = seconds_now();
  attend_status status =
      c->config->parts & ATTEND_ENCODER
          ? attend_session_encode(r->run, 1, c->n, c->ids, NULL, NULL)
          : attend_session_extend(r->run, 1, c->n, c->ids, NULL);
  r->f->read_s = fmin(r->f->read_s, seconds_now() - start);
  return status;
}

/* One token more, at the end of the text: what generation pays. */
static attend_status time_token(form_run *r) {
  comparison *c = r->c;
  attend_status status = ATTEND_OK;
  r->f->cache_bytes = attend_session_cache_bytes(r->run);
  r->f->work_bytes = attend_session_work_bytes(r->run);
  if (!(c->config->parts & ATTEND_DECODER) || c->n_answer) return status;
  for (int i = 0; i < c->repeat && !status; i++) {
    if (c->config->positions && c->n + i >= c->config->positions) break;
    double start = seconds_now();
    status = attend_session_extend(r->run, 1, 1, c->ids, NULL);
    r->f->token_s = fmin(r->f->token_s, seconds_now() - start);
  }
  return status;
}

static attend_status score_text(form_run *r) {
  comparison *c = r->c;
  if (c->config->parts == ATTEND_DECODER)
    return score(r, (scoring){c->n, c->targets});
  if (c->config->parts == ATTEND_ENCODER)
    return attend_checkpoint_has_head(c->opened.files)
               ? score(r, (scoring){c->n, NULL})
               : ATTEND_OK;
  attend_status status =
      attend_session_extend(r->run, 1, c->n_answer, c->answer, NULL);
  return status ? status : score(r, (scoring){c->n_answer, NULL});
}

static attend_status measure(form_run *r) {
  comparison *c = r->c;
  attend_hook hook = {.points = ATTEND_AT_PATTERN | ATTEND_AT_QUERY |
                                ATTEND_AT_KEY | ATTEND_AT_VALUE,
                      .read = see,
                      .user = r};
  attend_status status = ATTEND_OK;
  for (int i = 0; i < c->repeat && !status; i++) status = read_text(r);
  if (!status && c->attention) {
    status = attend_session_set_hooks(r->run, 1, &hook);
    if (status) return status;
    attend_session_reset(r->run);
    double fastest = r->f->read_s;
    status = read_text(r);
    r->f->read_s = fastest;
    attend_session_set_hooks(r->run, 0, NULL);
  }
  if (status) return status;
  keep_hidden(r);
  compare_hidden(r);
  status = score_text(r);
  return status ? status : time_token(r);
}

static double mean_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum / n;
}

static attend_status run_form(comparison *c, baseline *base,
                              attend_model *model, int i) {
  form_result *f = &c->forms[i];
  form_run r = {.c = c, .base = base, .f = f, .first = i == 0};
  int cells = compare_layers(c) * compare_heads(c);
  attend_session_options o = {.rows = c->n > c->n_answer ? c->n : c->n_answer};
  f->agreement = f->loss = f->drift = f->hidden = NAN;
  f->read_s = f->token_s = INFINITY;
  attend_status status = attend_session_create(model, &o, &r.run);
  if (!status) status = measure(&r);
  attend_session_free(r.run);
  f->attention = c->attention ? mean_of(f->heads, cells) : NAN;
  f->direct =
      c->attention && is_direct(c) ? mean_of(f->direct_heads, cells) : NAN;
  return status;
}

/* ---- all forms ----------------------------------------------------------------------------- */

/* Weights are packed once: a model of another form shares them. */
static attend_status with_model(comparison *c, baseline *base, int i) {
  attend_model *model = c->opened.model;
  if (i > 0) {
    attend_status status = attend_model_with_roles(
        c->opened.model, &c->forms[i].form, c->opened.roles, &model);
    if (status) return status;
  }
  attend_status status = run_form(c, base, model, i);
  if (i > 0) attend_model_free(model);
  return status;
}

int compare_run(comparison *c) {
  attend_status status = ATTEND_OK;
  baseline base = {0};
  size_t cells = (size_t)(compare_layers(c) * compare_heads(c));
  base.weights = need((size_t)compare_layers(c), sizeof *base.weights);
  for (int i = 0; i < c->count; i++) {
    c->forms[i].heads = need(cells, sizeof(double));
    c->forms[i].direct_heads = need(cells, sizeof(double));
    for (size_t j = 0; !is_direct(c) && j < cells; j++)
      c->forms[i].direct_heads[j] = NAN;
  }
  progress_start("comparing", (size_t)c->count);
  for (int i = 0; i < c->count && !status; i++) {
    progress_step((size_t)i, c->forms[i].name);
    status = with_model(c, &base, i);
  }
  progress_end();
  for (int i = 0; i < compare_layers(c); i++) free(base.weights[i]);
  free(base.weights);
  free(base.hidden);
  free(base.best);
  return status ? complain_status(c->opened.ctx, status) : EXIT_OK;
}
