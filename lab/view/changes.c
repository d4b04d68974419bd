/* Changes of a run, and their effects: on one prediction, and on all of them place by place. */
#include <math.h>
#include <stdio.h>

#include "view/session.h"

/* ---- the changes of a case --------------------------------------------------------- */

/* The text that values are taken from: c.from, or else the text itself. */
static attend_status source_of(attend_context *ctx, view_run *run, const char *from,
                               view_side *side, attend_tokens *x, int32_t **types) {
  ATTEND_TRY(tokens_of_run(ctx, run, x, types));
  if (!from) return ATTEND_OK;
  ATTEND_TRY(encode_from(ctx, run, from, side));
  x->ids = side->ids;
  x->n = side->n;
  x->types = NULL;
  return ATTEND_OK;
}

static attend_status check_source(attend_context *ctx, attend_change_kind kind, const char *from) {
  ATTEND_CHECK(
      ctx, kind != ATTEND_CHANGE_PATCH || from,
      "a patch takes its values from another text: write it under \"Patch from\" (--from)");
  return ATTEND_OK;
}

/* Patched positions that the other text does not have keep their values. */
static void note_source(view_run *run, const attend_tokens *x, bool patches) {
  const view_side *own = &run->side[run->side[0].n == 0];
  if (patches && run->from.n && x->n < own->real && !run->is.notice[0])
    snprintf(run->is.notice, sizeof run->is.notice,
             "The text that is patched from has %d tokens, this one %d: the last %d are not "
             "patched.",
             x->n, own->real, own->real - x->n);
}

attend_status changes_make(attend_context *ctx, view_run *run) {
  const attend_viewer_case *c = &run->is.c;
  attend_change list[ATTEND_VIEWER_CHANGES];
  attend_tokens from;
  int32_t *types;
  int n;
  bool patches = false;
  if (!c->changes) return ATTEND_OK;
  ATTEND_TRY(attend_changes_parse(ctx, c->changes, ATTEND_VIEWER_CHANGES, list, &n));
  attend_status status = source_of(ctx, run, c->from, &run->from, &from, &types);
  for (int i = 0; i < n && !status; i++) {
    status = check_source(ctx, list[i].kind, c->from);
    patches |= list[i].kind == ATTEND_CHANGE_PATCH;
    list[i].from = &from;
    list[i].n_from = 1;
  }
  if (!status) status = attend_intervention_create(run->model, n, list, &run->intervention);
  if (!status) note_source(run, &from, patches);
  ctx_free(ctx, types);
  return status;
}

/* ---- positions ---------------------------------------------------------------------- */

static const view_side *head_side(const view_run *run) {
  return &run->side[(attend_config_parts(run->of->config) & ATTEND_DECODER) != 0];
}

static int default_position(const view_run *run) {
  const view_side *s = head_side(run);
  const attend_tokenizer *t = run->of->tokenizer;
  const int32_t mask = t ? attend_tokenizer_special(t, ATTEND_SPECIAL_MASK) : -1;
  if (attend_config_parts(run->of->config) & ATTEND_DECODER) return s->n - 1;
  for (int i = 0; i < s->real; i++)
    if (mask >= 0 && s->ids[i] == mask) return i;
  for (int i = 0; i < s->real; i++)
    if (s->part[i] >= 0) return i;
  return 0;
}

attend_status position_of(attend_context *ctx, const view_run *run, int *position) {
  ATTEND_TRY(needs_model(ctx, run));
  const int rows = head_side(run)->real;
  if (*position == -1) *position = default_position(run);
  ATTEND_CHECK(ctx, *position >= 0 && *position < rows, "position %d: there are %d, 0 to %d",
               *position, rows, rows - 1);
  return ATTEND_OK;
}

attend_status attend_viewer_get_position(attend_viewer *v, const attend_viewer_run *run,
                                         int *position) {
  return position_of(v->ctx, (const view_run *)run, position);
}

/* ---- the effect on a prediction ----------------------------------------------------------- */

enum { AT_ONCE = 32 }; /* rows of logits */

typedef struct {
  attend_context *ctx;
  const view_run *run;
  attend_hooked hidden;
  attend_session *head;
  float *logits; /* [AT_ONCE][V] */
} prediction;

typedef struct {
  prediction with, without;
  int vocab, first, rows;
} effect_job;

static attend_status open_prediction(attend_context *ctx, const view_run *run, int vocab,
                                     prediction *p) {
  *p = (prediction){.ctx = ctx, .run = run};
  ATTEND_TRY(head_states(ctx, run, -1, &p->hidden));
  ATTEND_TRY(ctx_alloc(ctx, AT_ONCE * (size_t)vocab * sizeof *p->logits, "logits", &p->logits));
  return head_open(run, AT_ONCE, &p->head);
}

static void close_prediction(prediction *p) {
  attend_session_free(p->head);
  if (p->ctx) ctx_free(p->ctx, p->logits);
}

/* n rows of logits from `row` on. */
static attend_status predict(prediction *p, int row, int n) {
  const ptrdiff_t ld = p->hidden.view.stride[2];
  return attend_session_head(p->head, n, (const float *)p->hidden.view.data + row * ld, (int)ld,
                             false, p->logits);
}

static double log_p(const float *logits, int vocab, int id) {
  return (double)logits[id] - attend_log_sum_exp(vocab, logits);
}

static double target_value(const attend_target *t, const float *logits) {
  return (double)logits[t->token] - (t->against >= 0 ? (double)logits[t->against] : 0);
}

static void add_shift(const effect_job *j, int id, attend_viewer_effect *e) {
  const float *a = j->with.logits, *b = j->without.logits;
  for (int i = 0; i < e->n; i++)
    if (e->shift[i].id == id) return;
  attend_viewer_shift x = {id, exp(log_p(a, j->vocab, id)), exp(log_p(b, j->vocab, id)), a[id],
                           b[id]};
  int at = e->n++;
  for (; at > 0 && fmax(x.p, x.before) > fmax(e->shift[at - 1].p, e->shift[at - 1].before); at--)
    e->shift[at] = e->shift[at - 1];
  e->shift[at] = x;
}

/* The likeliest of both, and the target's tokens. */
static attend_status compare_tokens(effect_job *j, int top, attend_viewer_effect *e) {
  attend_viewer_candidate list[64];
  ATTEND_TRY(predict(&j->with, e->target.position, 1));
  ATTEND_TRY(predict(&j->without, e->target.position, 1));
  const attend_model *m = j->with.run->model;
  attend_target one = {0, e->target.token, e->target.against};
  ATTEND_TRY(attend_target_resolve(m, 1, j->without.logits, &one));
  e->target.token = one.token;
  e->value = target_value(&e->target, j->with.logits);
  e->before = target_value(&e->target, j->without.logits);
  for (int which = 0; which < 2; which++) {
    int n = candidates_of(which ? j->without.logits : j->with.logits, j->vocab, top, list);
    for (int i = 0; i < n; i++) add_shift(j, list[i].id, e);
  }
  add_shift(j, e->target.token, e);
  if (e->target.against >= 0) add_shift(j, e->target.against, e);
  return ATTEND_OK;
}

/* The token that a row is scored by, -1: none. Encoders read their own tokens again. */
static int32_t label_of(const view_run *run, int row) {
  const view_side *s = head_side(run);
  if (attend_config_parts(run->of->config) & ATTEND_DECODER)
    return row + 1 < s->n ? s->ids[row + 1] : -1;
  return s->part[row] >= 0 ? s->ids[row] : -1;
}

static double divergence(const float *p, const float *q, int vocab) {
  double zp = attend_log_sum_exp(vocab, p), zq = attend_log_sum_exp(vocab, q), sum = 0;
  for (int i = 0; i < vocab; i++) {
    double lp = (double)p[i] - zp;
    if (lp > -1e30) sum += exp(lp) * (lp - ((double)q[i] - zq));
  }
  return sum;
}

static attend_status compare_rows(effect_job *j, attend_viewer_effect *e) {
  int scored = 0;
  e->loss = e->loss_before = 0;
  for (int at = 0; at < j->rows; at += AT_ONCE) {
    int n = j->rows - at < AT_ONCE ? j->rows - at : AT_ONCE;
    ATTEND_TRY(predict(&j->with, j->first + at, n));
    ATTEND_TRY(predict(&j->without, j->first + at, n));
    for (int i = 0; i < n; i++) {
      const float *a = j->with.logits + (size_t)i * (size_t)j->vocab;
      const float *b = j->without.logits + (size_t)i * (size_t)j->vocab;
      int32_t label = label_of(j->with.run, j->first + at + i);
      e->divergence += divergence(b, a, j->vocab) / j->rows;
      if (label < 0) continue;
      e->loss -= log_p(a, j->vocab, label);
      e->loss_before -= log_p(b, j->vocab, label);
      scored++;
    }
  }
  e->loss = scored ? e->loss / scored : NAN;
  e->loss_before = scored ? e->loss_before / scored : NAN;
  return ATTEND_OK;
}

static double row_change(const float *x, const float *before, int n) {
  double change = 0, size = 0;
  for (int i = 0; i < n; i++) {
    change += ((double)x[i] - (double)before[i]) * ((double)x[i] - (double)before[i]);
    size += (double)before[i] * (double)before[i];
  }
  return size > 0 ? sqrt(change / size) : 0;
}

static double state_change(const effect_job *j) {
  const attend_hooked *a = &j->with.hidden, *b = &j->without.hidden;
  double mean = 0;
  for (int i = j->first; i < j->first + j->rows; i++)
    mean += row_change(a->view.data + i * a->view.stride[2], b->view.data + i * b->view.stride[2],
                       a->shape[3]) /
            j->rows;
  return mean;
}

/* A model may have no head: what its changes do is seen in its states alone. */
static attend_status compare_logits(effect_job *j, int top, attend_viewer_effect *e) {
  attend_context *ctx = j->with.ctx;
  attend_status status = predict(&j->with, e->target.position, 1);
  e->has_head = true;
  if (status && strstr(attend_message(ctx), "has no head")) {
    e->has_head = false;
    e->target.token = e->target.against = -1;
    e->value = e->before = e->loss = e->loss_before = e->divergence = NAN;
    return ATTEND_OK;
  }
  if (!status) status = compare_tokens(j, top, e);
  return status ? status : compare_rows(j, e);
}

static attend_status same_tokens(attend_context *ctx, const view_run *a, const view_run *b) {
  const view_side *x = head_side(a), *y = head_side(b);
  ATTEND_CHECK(ctx, a->of == b->of && x->n == y->n && !memcmp(x->ids, y->ids, (size_t)x->n * 4),
               "the run without changes has other tokens: compare two runs of one text");
  return ATTEND_OK;
}

attend_status attend_viewer_get_effect(attend_viewer *v, const attend_viewer_run *with,
                                       const attend_viewer_run *before, const attend_target *target,
                                       int top, attend_viewer_effect *e) {
  const view_run *run = (const view_run *)with, *base = (const view_run *)before;
  *e = (attend_viewer_effect){.target = *target};
  ATTEND_TRY(same_tokens(v->ctx, run, base));
  ATTEND_TRY(position_of(v->ctx, run, &e->target.position));
  ATTEND_CHECK(v->ctx, top >= 1 && top <= 64, "%d candidates: 1 to 64", top);
  effect_job j = {.vocab = attend_config_get(run->of->config, ATTEND_CONFIG_VOCAB)};
  const int real = head_side(run)->real;
  j.rows = real < ATTEND_VIEWER_SCORED ? real : ATTEND_VIEWER_SCORED;
  j.first = real - j.rows;
  e->rows = j.rows;
  ATTEND_TRY(ctx_alloc(v->ctx, (size_t)(2 * top + 2) * sizeof *e->shift, "an effect", &e->memory));
  e->shift = e->memory;
  attend_status status = open_prediction(v->ctx, run, j.vocab, &j.with);
  if (!status) status = open_prediction(v->ctx, base, j.vocab, &j.without);
  if (!status) status = compare_logits(&j, top, e);
  if (!status) e->state = state_change(&j);
  close_prediction(&j.with);
  close_prediction(&j.without);
  if (status) ctx_free(v->ctx, e->memory), e->memory = NULL;
  return status;
}

/* ---- sweeps --------------------------------------------------------------------------------- */

static int report_sweep(double done, const char *what, void *user) {
  (void)what;
  return job_progress(user, done, "changing one place after the other");
}

typedef struct {
  view_job j;
  view_run *run;
  attend_viewer_sweep_options o;
  attend_sweep_options sweep;
  view_side side; /* of o.from */
  attend_tokens text, from;
  int32_t *types[2];
  int32_t *labels; /* encoders' LOSS */
} sweep_job;

/* What an encoder's rows are scored by: its own tokens. */
static attend_status label_rows(attend_context *ctx, sweep_job *w) {
  if (w->o.metric != ATTEND_METRIC_LOSS || attend_config_parts(w->run->of->config) & ATTEND_DECODER)
    return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)w->text.n * sizeof *w->labels, "labels", &w->labels));
  for (int i = 0; i < w->text.n; i++) w->labels[i] = label_of(w->run, i);
  w->sweep.metric.labels = w->labels;
  return ATTEND_OK;
}

static attend_status sweep_open(sweep_job *w) {
  attend_context *ctx = w->j.v->ctx;
  ATTEND_TRY(tokens_of_run(ctx, w->run, &w->text, &w->types[0]));
  ATTEND_CHECK(ctx, attend_tokens_rows(w->run->model, &w->text) <= ATTEND_VIEWER_SWEPT,
               "a sweep takes texts of up to %d tokens: shorten this one", ATTEND_VIEWER_SWEPT);
  ATTEND_TRY(check_source(ctx, w->o.kind, w->o.from));
  ATTEND_TRY(source_of(ctx, w->run, w->o.from, &w->side, &w->from, &w->types[1]));
  ATTEND_CHECK(ctx, w->o.kind != ATTEND_CHANGE_PATCH || w->from.n >= w->text.n,
               "the text that is patched from has %d tokens, this one %d: give one that has as "
               "many",
               w->from.n, w->text.n);
  w->sweep = (attend_sweep_options){
      ATTEND_INIT(attend_sweep_options), .axis = w->o.axis,
      .change = {ATTEND_INIT(attend_change), .kind = w->o.kind, .point = w->o.point,
                 .in = (attend_in)(1 << w->o.role), .pin = w->o.pin, .from = &w->from, .n_from = 1},
      .metric = {ATTEND_INIT(attend_metric), .kind = w->o.metric, .target = w->o.target},
      .progress = report_sweep};
  return label_rows(ctx, w);
}

/* The sweep's own resolution, for the answer. */
static attend_status resolve_target(sweep_job *w, attend_target *target) {
  attend_context *ctx = w->j.v->ctx;
  prediction p;
  attend_target one = {0, target->token, target->against};
  const int vocab = attend_config_get(w->run->of->config, ATTEND_CONFIG_VOCAB);
  attend_status status = ATTEND_OK;
  if (target->token >= 0 || w->o.metric == ATTEND_METRIC_STATE) return ATTEND_OK;
  if (w->run->intervention) return ATTEND_OK; /* its states are changed */
  status = open_prediction(ctx, w->run, vocab, &p);
  if (!status) status = predict(&p, target->position, 1);
  if (!status) status = attend_target_resolve(w->run->model, 1, p.logits, &one);
  close_prediction(&p);
  target->token = one.token;
  return status;
}

static attend_status sweep_run(sweep_job *w, attend_viewer_map *map) {
  attend_context *ctx = w->j.v->ctx;
  ATTEND_TRY(sweep_open(w));
  ATTEND_TRY(attend_sweep_shape(w->run->model, &w->text, &w->sweep, &map->layers, &map->columns));
  const size_t places = (size_t)map->layers * (size_t)map->columns;
  w->sweep.user = &w->j;
  ATTEND_TRY(ctx_alloc(ctx, places * sizeof *map->map, "the map of a sweep", &map->memory));
  map->map = map->memory;
  return attend_sweep(w->run->model, &w->text, &w->sweep, map->map, &map->before);
}

/* How the map is found again; false: the text is too long for a key. */
static bool sweep_key(const sweep_job *w, char *key) {
  const attend_viewer_sweep_options *o = &w->o;
  const attend_target *t = &o->target;
  const size_t room = sizeof w->j.v->last.key;
  int n = snprintf(key, room, "%s %d %d %d %d %d %d %d %d %d %s", w->run->is.id, (int)o->axis,
                   (int)o->kind, (int)o->point, (int)o->role, (int)o->pin, (int)o->metric,
                   t->position, (int)t->token, (int)t->against, o->from ? o->from : "");
  return (size_t)n < room;
}

static attend_status copy_map(attend_context *ctx, const attend_viewer_map *from,
                              attend_viewer_map *to) {
  const size_t bytes = (size_t)from->layers * (size_t)from->columns * sizeof *from->map;
  double *map;
  ATTEND_TRY(ctx_alloc(ctx, bytes, "the map of a sweep", &map));
  memcpy(map, from->map, bytes);
  *to = *from;
  to->memory = to->map = map;
  return ATTEND_OK;
}

static attend_status keep_map(attend_viewer *v, const char *key, const attend_viewer_map *map) {
  ctx_free(v->ctx, v->last.map.memory);
  v->last = (swept){0};
  ATTEND_TRY(copy_map(v->ctx, map, &v->last.map));
  strcpy(v->last.key, key);
  return ATTEND_OK;
}

static attend_status sweep_found(sweep_job *w, attend_viewer_map *map) {
  attend_viewer *v = w->j.v;
  char key[sizeof v->last.key];
  const bool keyed = sweep_key(w, key);
  if (keyed && !strcmp(key, v->last.key)) return copy_map(v->ctx, &v->last.map, map);
  run_hold(w->run, 1);
  attend_status status = sweep_run(w, map);
  run_hold(w->run, -1);
  map->target = w->o.target;
  return !status && keyed ? keep_map(v, key, map) : status;
}

attend_status attend_viewer_sweep(attend_viewer *v, const attend_viewer_run *of,
                                  const attend_viewer_sweep_options *options,
                                  const attend_viewer_listener *listener, attend_viewer_map *map) {
  sweep_job w = {.run = (view_run *)of};
  *map = (attend_viewer_map){0};
  ATTEND_TRY(job_open(v, listener, &w.j));
  ATTEND_TRY(OPTIONS_READ(v->ctx, attend_viewer_sweep_options, options, &w.o));
  ATTEND_CHECK(v->ctx, (unsigned)w.o.role < ATTEND_ROLES && of->has_role[w.o.role],
               "the role must be one that this run has");
  ATTEND_TRY(position_of(v->ctx, w.run, &w.o.target.position));
  ATTEND_TRY(resolve_target(&w, &w.o.target));
  attend_status status = sweep_found(&w, map);
  side_free(v->ctx, &w.side);
  for (int i = 0; i < 2; i++) ctx_free(v->ctx, w.types[i]);
  ctx_free(v->ctx, w.labels);
  if (status) attend_viewer_release(v, map->memory), map->memory = NULL;
  return status;
}
