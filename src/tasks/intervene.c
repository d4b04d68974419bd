/* Interventions: changes of activations as hooks, and what they do to the logits.
 *
 * A change is one hook. A hook edits each sequence of a batch by itself: attend_sweep gives every
 * sequence of a batch the same text and another place to change.
 */
#include "attend/intervene.h"

#include <math.h>

#include "base/options.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

/* [first, first + count) */
typedef struct {
  int first, count;
} range;

/* Where a change applies: layers (depth + 1 of the residual stream), heads, positions. */
typedef struct {
  range layers, heads, tokens;
} place;

typedef struct {
  attend_change c; /* resolved; pointers of the caller's are replaced */
  place at;
  const attend_model *model;
  attend_role role;
  attend_trace *from; /* PATCH */
  int from_rows;      /* positions that it has */
  float *values;      /* MEAN: [layers][heads][width] from layer 0 on; ADD: [width] */
  int heads, width;   /* of the point; the pattern's width is the number of keys */
} change;

struct attend_intervention {
  attend_context own; /* a child of the model's */
  attend_model *model;
  change *list; /* [n] */
  attend_hook *hooks;
  int n;
  blocks memory;
};

static bool in(range r, int64_t i) { return i >= r.first && i < (int64_t)r.first + r.count; }

/* ---- the edits: one sequence of one tensor ---------------------------------------------- */

typedef struct {
  const attend_hooked *t;
  float *data;
  int b;
} sequence;

static float *row_of(const sequence *s, int h, int i) {
  const ptrdiff_t *by = s->t->view.stride;
  return s->data + s->b * by[0] + h * by[1] + i * by[2];
}
static int64_t position_of(const sequence *s, int i) {
  return i + (s->t->first ? s->t->first[s->b] : 0);
}

/* The row of another text's tensor at a position, or NULL. */
static const float *source_row(const change *c, const attend_hooked *t, int h, int64_t position,
                               int *width) {
  attend_hooked from;
  if (!attend_trace_get(c->from, t->point, t->role, t->layer, &from)) return NULL;
  if (position >= from.shape[2]) return NULL;
  *width = from.shape[3];
  return from.view.data + h * from.view.stride[1] + position * from.view.stride[2];
}

static void patch_row(const change *c, const sequence *s, int h, int i, float *row) {
  int width = 0, n = s->t->shape[3];
  const float *from = source_row(c, s->t, h, position_of(s, i), &width);
  if (!from) return;
  for (int j = 0; j < n; j++) row[j] = j < width ? from[j] : 0;
}

static size_t mean_at(const change *c, int layer, int h) {
  return ((size_t)layer * (size_t)c->heads + (size_t)h) * (size_t)c->width;
}

/* Keys that row i sees: a decoder's up to its own, in the window; an encoder's all; in
 * cross-attention, whose hooks do not say how long the encoder's text is, up to the last with a
 * weight. */
static range visible_keys(const change *c, const sequence *s, int i, const float *row) {
  const attend_config *config = &c->model->config;
  const int64_t position = position_of(s, i);
  int end = s->t->shape[3];
  if (s->t->role == ATTEND_DECODER_SELF) {
    bool slides = layer_kind(config, &c->model->decoder, s->t->layer) == SLIDING;
    int64_t first = slides ? max64(0, position + 1 - config->window) : 0;
    return (range){(int)first, (int)(position + 1 - first)};
  }
  if (s->t->role == ATTEND_ENCODER_SELF)
    return (range){0, s->t->lengths ? s->t->lengths[s->b] : end};
  while (end > 0 && row[end - 1] == 0) end--;
  return (range){0, end};
}

static void pin_row(const change *c, const sequence *s, int i, float *row) {
  const range keys = visible_keys(c, s, i, row);
  const int64_t position = position_of(s, i);
  int64_t at = keys.first;
  if (!keys.count) return;
  if (c->c.pin == ATTEND_PIN_PREVIOUS) at = max64(position - 1, keys.first);
  if (c->c.pin == ATTEND_PIN_SELF) at = position;
  for (int j = 0; j < s->t->shape[3]; j++)
    row[j] =
        c->c.pin == ATTEND_PIN_UNIFORM ? (float)in(keys, j) / (float)keys.count : (float)(j == at);
}

static void change_row(const change *c, const sequence *s, int h, int i) {
  float *row = row_of(s, h, i);
  const int n = s->t->shape[3];
  switch (c->c.kind) {
    case ATTEND_CHANGE_ZERO:
      memset(row, 0, (size_t)n * sizeof *row);
      break;
    case ATTEND_CHANGE_MEAN:
      memcpy(row, c->values + mean_at(c, s->t->layer, h), (size_t)n * sizeof *row);
      break;
    case ATTEND_CHANGE_PATCH:
      patch_row(c, s, h, i, row);
      break;
    case ATTEND_CHANGE_ADD:
      for (int j = 0; j < n; j++) row[j] += c->c.factor * c->values[j];
      break;
    case ATTEND_CHANGE_PIN:
      pin_row(c, s, i, row);
      break;
  }
}

static void change_sequence(const change *c, const place *at, const sequence *s) {
  int rows = s->t->lengths ? s->t->lengths[s->b] : s->t->shape[2];
  if (!in(at->layers, s->t->layer)) return;
  for (int h = at->heads.first; h < at->heads.first + at->heads.count; h++)
    for (int i = 0; i < rows; i++)
      if (in(at->tokens, position_of(s, i))) change_row(c, s, h, i);
}

static void edit(const attend_hooked *t, float *data, void *user) {
  const change *c = user;
  for (int b = 0; b < t->shape[0]; b++) change_sequence(c, &c->at, &(sequence){t, data, b});
}

/* ---- texts -------------------------------------------------------------------------------- */

int attend_tokens_rows(const attend_model *m, const attend_tokens *x) {
  return m->config.parts == ATTEND_BOTH ? x->n_decoder : x->n;
}

attend_status tokens_check(attend_context *ctx, const attend_model *m, const attend_tokens *given,
                           attend_tokens *x) {
  const bool both = m->config.parts == ATTEND_BOTH;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_tokens, given, x));
  ATTEND_CHECK(ctx, x->ids && x->n > 0, "a text without tokens: give at least one");
  ATTEND_CHECK(ctx, !both || (x->decoder_ids && x->n_decoder > 0),
               "%s writes a second text: give the decoder's tokens too", m->config.family);
  ATTEND_CHECK(ctx, both || !x->decoder_ids, "%s reads one text, not two", m->config.family);
  return ATTEND_OK;
}

/* count copies of a text, side by side. */
typedef struct {
  int32_t *ids, *types, *decoder;
  blocks memory;
} copies;

static attend_status repeat(attend_context *ctx, copies *k, int count, int n, const int32_t *ids,
                            int32_t **to) {
  *to = NULL;
  if (!ids) return ATTEND_OK;
  ATTEND_TRY(blocks_add(ctx, &k->memory, ON_HOST,
                        SIZE_PRODUCT((size_t)count, (size_t)n, sizeof **to), "tokens", to));
  for (int b = 0; b < count; b++) memcpy(*to + (size_t)b * (size_t)n, ids, (size_t)n * sizeof **to);
  return ATTEND_OK;
}

static attend_status make_copies(attend_context *ctx, int count, const attend_tokens *x,
                                 copies *k) {
  ATTEND_TRY(repeat(ctx, k, count, x->n, x->ids, &k->ids));
  ATTEND_TRY(repeat(ctx, k, count, x->n, x->types, &k->types));
  return repeat(ctx, k, count, x->n_decoder, x->decoder_ids, &k->decoder);
}

/* A session that computes `count` copies of a text in one call. */
static attend_status open_session(attend_context *ctx, attend_model *m, int count,
                                  const attend_tokens *x, attend_session **session) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = count,
                              .rows = attend_tokens_rows(m, x)};
  return session_create(ctx, m, &o, session);
}

static attend_status run_copies(const attend_model *m, attend_session *s, int count,
                                const attend_tokens *x, const copies *k) {
  const bool encodes = m->config.parts & ATTEND_ENCODER;
  if (encodes) ATTEND_TRY(attend_session_encode(s, count, x->n, k->ids, NULL, k->types));
  if (m->config.parts == ATTEND_ENCODER) return ATTEND_OK;
  if (!encodes) attend_session_reset(s);
  return attend_session_extend(s, count, attend_tokens_rows(m, x), encodes ? k->decoder : k->ids,
                               NULL);
}

attend_status tokens_run(attend_context *ctx, attend_model *m, const attend_tokens *x, int n,
                         const attend_hook *list, attend_session **session, float *logits) {
  attend_session *s;
  copies k = {0};
  ATTEND_TRY(open_session(ctx, m, 1, x, &s));
  attend_status status = make_copies(ctx, 1, x, &k);
  if (!status) status = attend_session_set_hooks(s, n, list);
  if (!status) status = run_copies(m, s, 1, x, &k);
  if (!status && logits) status = attend_session_logits(s, attend_tokens_rows(m, x), NULL, logits);
  blocks_free(ctx, &k.memory);
  if (session)
    *session = s;
  else
    attend_session_free(s);
  return status;
}

static int head_width(const attend_model *m) {
  return m->config.parts & ATTEND_DECODER ? m->config.decoder.width : m->config.encoder.width;
}

/* Hidden states of rows of the last call, from `first` on. */
static void copy_hidden(const attend_model *m, const attend_session *s, int first, int rows,
                        float *hidden) {
  const int width = head_width(m);
  int ld;
  const float *x = attend_session_hidden(s, &ld);
  for (int i = 0; i < rows; i++)
    memcpy(hidden + (size_t)i * (size_t)width, x + (ptrdiff_t)(first + i) * ld,
           (size_t)width * sizeof *x);
}

static attend_status run_hidden(attend_context *ctx, attend_model *m, const attend_tokens *x, int n,
                                const attend_hook *list, float *hidden) {
  attend_session *s = NULL;
  attend_status status = tokens_run(ctx, m, x, n, list, &s, NULL);
  if (!status) copy_hidden(m, s, 0, attend_tokens_rows(m, x), hidden);
  attend_session_free(s);
  return status;
}

static attend_status run_text(attend_context *ctx, attend_model *m, const attend_tokens *x, int n,
                              const attend_hook *list, float *logits) {
  return tokens_run(ctx, m, x, n, list, NULL, logits);
}

attend_status attend_tokens_logits(attend_model *m, const attend_tokens *input, float *logits) {
  attend_tokens x;
  ATTEND_TRY(tokens_check(m->ctx, m, input, &x));
  return run_text(m->ctx, m, &x, 0, NULL, logits);
}

/* ---- resolving a change --------------------------------------------------------------------- */

static const struct {
  attend_point point;
  bool of_heads;
} points[] = {{ATTEND_AT_RESIDUAL, false}, {ATTEND_AT_RESIDUAL_MIDDLE, false},
              {ATTEND_AT_MLP, false},      {ATTEND_AT_QUERY, true},
              {ATTEND_AT_KEY, true},       {ATTEND_AT_VALUE, true},
              {ATTEND_AT_PATTERN, true},   {ATTEND_AT_HEAD_OUTPUT, true}};

static bool of_heads(attend_point point) {
  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    if (points[i].point == point) return points[i].of_heads;
  return false;
}

static bool can_change(attend_point point) {
  for (size_t i = 0; i < sizeof points / sizeof *points; i++)
    if (points[i].point == point) return true;
  return false;
}

static void measure_point(const attend_stack *s, change *c) {
  c->heads = !of_heads(c->c.point)                                          ? 1
             : c->c.point == ATTEND_AT_KEY || c->c.point == ATTEND_AT_VALUE ? s->kv_heads
                                                                            : s->heads;
  c->width = !of_heads(c->c.point)                                          ? s->width
             : c->c.point == ATTEND_AT_QUERY || c->c.point == ATTEND_AT_KEY ? s->dim
                                                                            : s->dim_v;
}

/* count 0: up to the last. */
static attend_status resolve(attend_context *ctx, const char *what, int limit, int first, int count,
                             range *r) {
  ATTEND_CHECK(ctx, first >= 0 && first < limit && count >= 0 && count <= limit - first,
               "%s %d: there are %d, 0 to %d", what,
               first < 0 || first >= limit ? first : first + count - 1, limit, limit - 1);
  *r = (range){first, count ? count : limit - first};
  return ATTEND_OK;
}

static attend_status choose_role(attend_context *ctx, const attend_model *m, change *c) {
  const bool decodes = m->config.parts & ATTEND_DECODER;
  attend_in in = c->c.in ? c->c.in : decodes ? ATTEND_IN_DECODER : ATTEND_IN_ENCODER;
  attend_desc d = {ATTEND_INIT(attend_desc)};
  ATTEND_CHECK(ctx, in == ATTEND_IN_DECODER || in == ATTEND_IN_ENCODER || in == ATTEND_IN_CROSS,
               "a change is in one of encoder, decoder and cross, not in %#x", (unsigned)in);
  c->role = in == ATTEND_IN_DECODER ? ATTEND_DECODER_SELF
            : in == ATTEND_IN_CROSS ? ATTEND_CROSS
                                    : ATTEND_ENCODER_SELF;
  ATTEND_CHECK(ctx, attend_model_attention(m, c->role, 0, &d), "%s has no %s attention",
               m->config.family, attend_role_name(c->role));
  ATTEND_CHECK(ctx, c->role != ATTEND_CROSS || of_heads(c->c.point),
               "the %s is the decoder's: cross-attention has heads only",
               attend_point_name(c->c.point));
  c->c.in = in;
  return ATTEND_OK;
}

static attend_status resolve_change(attend_context *ctx, const attend_model *m, change *c) {
  const attend_change *x = &c->c;
  c->model = m;
  if (!x->point)
    c->c.point = x->kind == ATTEND_CHANGE_PIN ? ATTEND_AT_PATTERN : ATTEND_AT_HEAD_OUTPUT;
  ATTEND_CHECK(ctx, can_change(x->point),
               "a change at point %#x: choose residual, residual_middle, mlp, query, key, value, "
               "pattern or head_output",
               (unsigned)x->point);
  ATTEND_TRY(choose_role(ctx, m, c));
  const attend_stack *s = c->role == ATTEND_ENCODER_SELF ? &m->config.encoder : &m->config.decoder;
  measure_point(s, c);
  ATTEND_TRY(resolve(ctx, "layer", s->layers + (x->point == ATTEND_AT_RESIDUAL), x->layer,
                     x->layers, &c->at.layers));
  if (of_heads(x->point))
    ATTEND_TRY(resolve(ctx, "head", c->heads, x->head, x->heads, &c->at.heads));
  else
    c->at.heads = (range){0, 1};
  return resolve(ctx, "token", INT32_MAX, x->token, x->tokens, &c->at.tokens);
}

static attend_status check_change(attend_context *ctx, const change *c) {
  const attend_change *x = &c->c;
  const bool pattern = x->point == ATTEND_AT_PATTERN;
  switch (x->kind) {
    case ATTEND_CHANGE_ZERO:
      return ATTEND_OK;
    case ATTEND_CHANGE_MEAN:
      ATTEND_CHECK(ctx, x->from && x->n_from > 0, "a mean is of a corpus: give its texts");
      ATTEND_CHECK(ctx, !pattern,
                   "attention rows of different lengths have no mean: pin them instead");
      return ATTEND_OK;
    case ATTEND_CHANGE_PATCH:
      ATTEND_CHECK(ctx, x->from && x->n_from == 1, "a patch is from one text: give it");
      return ATTEND_OK;
    case ATTEND_CHANGE_ADD:
      ATTEND_CHECK(ctx, x->vector && !pattern,
                   "a vector is added to rows of %d numbers of the %s: give one", c->width,
                   pattern ? "residual stream or a head" : attend_point_name(x->point));
      return ATTEND_OK;
    case ATTEND_CHANGE_PIN:
      ATTEND_CHECK(ctx, pattern, "attention rows are pinned at the pattern, not at the %s",
                   attend_point_name(x->point));
      ATTEND_CHECK(
          ctx,
          c->role != ATTEND_CROSS || x->pin == ATTEND_PIN_UNIFORM || x->pin == ATTEND_PIN_FIRST,
          "in cross-attention a query has no position among the keys: pin to uniform or "
          "first");
      ATTEND_CHECK(ctx, (unsigned)x->pin <= ATTEND_PIN_SELF, "pin %d: there are 0 to %d",
                   (int)x->pin, (int)ATTEND_PIN_SELF);
      return ATTEND_OK;
  }
  return fail(ctx, ATTEND_INVALID, "change %d: there are kinds 0 to %d", (int)x->kind,
              (int)ATTEND_CHANGE_PIN);
}

/* ---- values from other texts ------------------------------------------------------------------ */

/* Positions of a text at a change's point. */
static int rows_at(const change *c, const attend_tokens *x) {
  const bool keys = c->c.point == ATTEND_AT_KEY || c->c.point == ATTEND_AT_VALUE;
  if (c->role == ATTEND_ENCODER_SELF || (c->role == ATTEND_CROSS && keys)) return x->n;
  return attend_tokens_rows(c->model, x);
}

static attend_status record(attend_intervention *iv, change *c) {
  attend_tokens x;
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = c->c.point};
  ATTEND_TRY(tokens_check(&iv->own, iv->model, c->c.from, &x));
  ATTEND_TRY(attend_trace_create(&iv->own, &o, &c->from));
  attend_hook hook = attend_trace_hook(c->from);
  hook.roles = c->c.in;
  c->from_rows = rows_at(c, &x);
  ATTEND_TRY(run_text(&iv->own, iv->model, &x, 1, &hook, NULL));
  return attend_trace_status(c->from);
}

typedef struct {
  const change *c;
  double *sums; /* as the change's values */
  int64_t rows; /* of layer c->at.layers.first */
} mean;

static void add_to_mean(const attend_hooked *t, void *user) {
  mean *m = user;
  const change *c = m->c;
  if (!in(c->at.layers, t->layer)) return;
  sequence s = {t, (float *)t->view.data, 0};
  for (int h = 0; h < c->heads; h++)
    for (int i = 0; i < t->shape[2]; i++) {
      double *to = m->sums + mean_at(c, t->layer, h);
      for (int j = 0; j < c->width; j++) to[j] += (double)row_of(&s, h, i)[j];
    }
  if (t->layer == c->at.layers.first) m->rows += t->shape[2];
}

static attend_status average(attend_intervention *iv, change *c) {
  attend_context *ctx = &iv->own;
  const size_t count = mean_at(c, c->at.layers.first + c->at.layers.count, 0);
  mean m = {.c = c};
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = c->c.point, .roles = c->c.in,
                      .read = add_to_mean, .user = &m};
  ATTEND_TRY(blocks_add(ctx, &iv->memory, ON_HOST, size_times(count, sizeof *c->values), "a mean",
                        &c->values));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_times(count, sizeof *m.sums), "a mean", &m.sums));
  attend_status status = ATTEND_OK;
  for (int i = 0; i < c->c.n_from && !status; i++) {
    const char *from = (const char *)c->c.from;
    attend_tokens x;
    status = tokens_check(ctx, iv->model,
                          (const attend_tokens *)(from + (size_t)i * c->c.from->size), &x);
    if (!status) status = run_text(ctx, iv->model, &x, 1, &hook, NULL);
  }
  for (size_t i = 0; i < count && !status; i++) c->values[i] = (float)(m.sums[i] / (double)m.rows);
  ctx_free(ctx, m.sums);
  return status;
}

static attend_status take_values(attend_intervention *iv, change *c) {
  if (c->c.kind == ATTEND_CHANGE_PATCH) return record(iv, c);
  if (c->c.kind == ATTEND_CHANGE_MEAN) return average(iv, c);
  if (c->c.kind != ATTEND_CHANGE_ADD) return ATTEND_OK;
  if (c->c.factor == 0) c->c.factor = 1;
  if (c->c.factor == ATTEND_ZERO) c->c.factor = 0;
  ATTEND_TRY(blocks_add(&iv->own, &iv->memory, ON_HOST, (size_t)c->width * sizeof *c->values,
                        "a vector", &c->values));
  memcpy(c->values, c->c.vector, (size_t)c->width * sizeof *c->values);
  return ATTEND_OK;
}

/* ---- interventions ---------------------------------------------------------------------------- */

static attend_status prepare(attend_intervention *iv, const attend_change *given, int i) {
  change *c = &iv->list[i];
  ATTEND_TRY(OPTIONS_READ(&iv->own, attend_change, given, &c->c));
  ATTEND_TRY(resolve_change(&iv->own, iv->model, c));
  ATTEND_TRY(check_change(&iv->own, c));
  ATTEND_TRY(take_values(iv, c));
  iv->hooks[i] = (attend_hook){ATTEND_INIT(attend_hook), .points = c->c.point, .roles = c->c.in,
                               .edit = edit, .user = c};
  c->c.from = NULL;
  c->c.vector = NULL;
  return ATTEND_OK;
}

static attend_status make(attend_intervention *iv, int n, const attend_change *changes) {
  attend_context *ctx = &iv->own;
  ATTEND_CHECK(ctx, n >= 0 && (changes || !n), "%d changes in a list that is NULL", n);
  ATTEND_TRY(ctx_alloc_zeroed(ctx, size_times((size_t)n, sizeof *iv->list), "changes", &iv->list));
  ATTEND_TRY(
      ctx_alloc_zeroed(ctx, size_times((size_t)n, sizeof *iv->hooks), "changes", &iv->hooks));
  iv->n = n;
  for (int i = 0; i < n; i++)
    ATTEND_TRY(
        prepare(iv, (const attend_change *)((const char *)changes + (size_t)i * changes->size), i));
  return ATTEND_OK;
}

attend_status attend_intervention_create(attend_model *model, int n, const attend_change *changes,
                                         attend_intervention **intervention) {
  attend_intervention *iv;
  *intervention = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *iv, "an intervention", &iv));
  iv->model = model;
  attend_status status = context_child(model->ctx, 0, &iv->own);
  if (!status) status = make(iv, n, changes);
  if (status)
    attend_intervention_free(iv);
  else
    *intervention = iv;
  return status;
}

void attend_intervention_free(attend_intervention *iv) {
  if (!iv) return;
  for (int i = 0; i < iv->n; i++) attend_trace_free(iv->list[i].from);
  ctx_free(&iv->own, iv->list);
  ctx_free(&iv->own, iv->hooks);
  blocks_free(&iv->own, &iv->memory);
  ctx_free(iv->model->ctx, iv);
}

const attend_hook *attend_intervention_hooks(const attend_intervention *iv, int *n) {
  *n = iv->n;
  return iv->hooks;
}

attend_status attend_change_shape(attend_model *model, const attend_change *given, int *layers,
                                  int *heads, int *width) {
  change c = {0};
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_change, given, &c.c));
  c.c.layer = c.c.layers = c.c.head = c.c.heads = 0;
  ATTEND_TRY(resolve_change(model->ctx, model, &c));
  if (layers) *layers = c.at.layers.count;
  if (heads) *heads = c.heads;
  if (width) *width = c.c.point == ATTEND_AT_PATTERN ? 0 : c.width;
  return ATTEND_OK;
}

/* vector += sign x the mean of a text. */
static attend_status add_mean_of(attend_model *model, attend_change c, const attend_tokens *text,
                                 float sign, float *vector) {
  attend_intervention *iv;
  c.kind = ATTEND_CHANGE_MEAN;
  c.from = text;
  c.n_from = 1;
  ATTEND_TRY(attend_intervention_create(model, 1, &c, &iv));
  const change *x = iv->list;
  const float *values = x->values + mean_at(x, x->at.layers.first, x->at.heads.first);
  for (int j = 0; j < x->width; j++) vector[j] += sign * values[j];
  attend_intervention_free(iv);
  return ATTEND_OK;
}

attend_status attend_steering_vector(attend_model *model, const attend_change *given,
                                     const attend_tokens *plus, const attend_tokens *minus,
                                     float *vector) {
  attend_change c;
  int width;
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_change, given, &c));
  ATTEND_TRY(attend_change_shape(model, &c, NULL, NULL, &width));
  memset(vector, 0, (size_t)width * sizeof *vector);
  ATTEND_TRY(add_mean_of(model, c, plus, 1, vector));
  return minus ? add_mean_of(model, c, minus, -1, vector) : ATTEND_OK;
}

/* The first position that a change names must be in the text, where its range ends at the latest;
 * all of them in the text that is patched from. */
static attend_status check_positions_of(attend_context *ctx, const change *c,
                                        const attend_tokens *x) {
  const int rows = rows_at(c, x);
  const range r = c->at.tokens;
  const int end = (int)min64((int64_t)r.first + r.count, rows);
  ATTEND_CHECK(ctx, r.first < rows, "token %d: the text has %d, 0 to %d", r.first, rows, rows - 1);
  ATTEND_CHECK(ctx, c->c.kind != ATTEND_CHANGE_PATCH || end <= c->from_rows,
               "token %d is patched from a text of %d tokens: give a text that has as many",
               end - 1, c->from_rows);
  return ATTEND_OK;
}

static attend_status check_text(const attend_intervention *iv, const attend_tokens *input,
                                attend_tokens *x) {
  ATTEND_TRY(tokens_check(iv->model->ctx, iv->model, input, x));
  for (int i = 0; i < iv->n; i++) ATTEND_TRY(check_positions_of(iv->model->ctx, &iv->list[i], x));
  return ATTEND_OK;
}

attend_status attend_intervene_hidden(const attend_intervention *iv, const attend_tokens *input,
                                      float *before, float *after) {
  attend_context *ctx = iv->model->ctx;
  attend_tokens x;
  ATTEND_TRY(check_text(iv, input, &x));
  if (before) ATTEND_TRY(run_hidden(ctx, iv->model, &x, 0, NULL, before));
  if (after) ATTEND_TRY(run_hidden(ctx, iv->model, &x, iv->n, iv->hooks, after));
  return ATTEND_OK;
}

attend_status attend_intervene(const attend_intervention *iv, const attend_tokens *input,
                               float *before, float *after) {
  attend_context *ctx = iv->model->ctx;
  attend_tokens x;
  ATTEND_TRY(check_text(iv, input, &x));
  if (before) ATTEND_TRY(run_text(ctx, iv->model, &x, 0, NULL, before));
  if (after) ATTEND_TRY(run_text(ctx, iv->model, &x, iv->n, iv->hooks, after));
  return ATTEND_OK;
}

/* ---- metrics ------------------------------------------------------------------------------------ */

attend_status attend_target_resolve(const attend_model *m, int rows, const float *before,
                                    attend_target *target) {
  const int vocab = m->config.vocab;
  if (target->position == -1) target->position = rows - 1;
  ATTEND_CHECK(m->ctx, target->position >= 0 && target->position < rows,
               "position %d: there are %d, 0 to %d", target->position, rows, rows - 1);
  if (target->token == -1)
    attend_top_k(vocab, before + (size_t)target->position * (size_t)vocab, 1, &target->token);
  ATTEND_CHECK(m->ctx,
               target->token >= 0 && target->token < vocab && target->against >= -1 &&
                   target->against < vocab,
               "tokens %d and %d: the model knows 0 to %d", (int)target->token,
               (int)target->against, vocab - 1);
  return ATTEND_OK;
}

/* Of the target's row alone. */
static double target_value(const attend_metric *x, int vocab, const float *row) {
  const attend_target *t = &x->target;
  if (x->kind == ATTEND_METRIC_PROBABILITY)
    return exp((double)row[t->token] - attend_log_sum_exp(vocab, row));
  return (double)row[t->token] - (t->against >= 0 ? (double)row[t->against] : 0);
}

static double divergence(int vocab, const float *p, const float *q) {
  double zp = attend_log_sum_exp(vocab, p), zq = attend_log_sum_exp(vocab, q), sum = 0;
  for (int i = 0; i < vocab; i++) {
    double lp = (double)p[i] - zp;
    if (lp > -1e30) sum += exp(lp) * (lp - ((double)q[i] - zq));
  }
  return sum;
}

/* |x - y| / |y| of rows, mean. */
static double state_change(int rows, int width, const float *y, const float *x) {
  double sum = 0;
  for (int i = 0; i < rows; i++, x += width, y += width) {
    double apart = 0, size = 0;
    for (int j = 0; j < width; j++) {
      double d = (double)x[j] - (double)y[j];
      apart += d * d;
      size += (double)y[j] * (double)y[j];
    }
    sum += size > 0 ? sqrt(apart / size) : 0;
  }
  return sum / rows;
}

/* The token that row i is scored by, negative: none. */
static int32_t label_of(const attend_model *m, const attend_metric *x, const attend_tokens *in,
                        int i) {
  if (x->labels) return x->labels[i];
  const int32_t *ids = m->config.parts == ATTEND_BOTH ? in->decoder_ids : in->ids;
  return i + 1 < attend_tokens_rows(m, in) ? ids[i + 1] : -1;
}

static double mean_loss(const attend_model *m, const attend_metric *x, const attend_tokens *in,
                        const float *logits) {
  const int vocab = m->config.vocab, rows = attend_tokens_rows(m, in);
  double sum = 0;
  int scored = 0;
  for (int i = 0; i < rows; i++) {
    const float *row = logits + (size_t)i * (size_t)vocab;
    int32_t label = label_of(m, x, in, i);
    if (label < 0 || label >= vocab) continue;
    sum += attend_log_sum_exp(vocab, row) - (double)row[label];
    scored++;
  }
  return scored ? sum / scored : (double)NAN;
}

static attend_status check_metric(const attend_model *m, const attend_metric *x) {
  ATTEND_CHECK(m->ctx, (unsigned)x->kind <= ATTEND_METRIC_STATE, "metric %d: there are 0 to %d",
               (int)x->kind, (int)ATTEND_METRIC_STATE);
  ATTEND_CHECK(m->ctx,
               x->kind != ATTEND_METRIC_LOSS || x->labels || m->config.parts & ATTEND_DECODER,
               "%s does not predict next tokens: give the labels of its rows", m->config.family);
  return ATTEND_OK;
}

attend_status attend_metric_of(const attend_model *m, const attend_metric *metric,
                               const attend_tokens *input, const float *before, const float *logits,
                               double *value) {
  const int vocab = m->config.vocab;
  attend_metric x;
  attend_tokens in;
  ATTEND_TRY(OPTIONS_READ(m->ctx, attend_metric, metric, &x));
  ATTEND_TRY(tokens_check(m->ctx, m, input, &in));
  ATTEND_TRY(check_metric(m, &x));
  const int rows = attend_tokens_rows(m, &in);
  *value = 0;
  if (x.kind == ATTEND_METRIC_LOSS) {
    *value = mean_loss(m, &x, &in, logits);
  } else if (x.kind == ATTEND_METRIC_STATE) {
    *value = state_change(rows, head_width(m), before, logits);
  } else if (x.kind == ATTEND_METRIC_KL) {
    for (int i = 0; i < rows; i++) {
      size_t at = (size_t)i * (size_t)vocab;
      *value += divergence(vocab, before + at, logits + at) / rows;
    }
  } else {
    ATTEND_TRY(attend_target_resolve(m, rows, before, &x.target));
    *value = target_value(&x, vocab, logits + (size_t)x.target.position * (size_t)vocab);
  }
  return ATTEND_OK;
}

/* ---- sweeps -------------------------------------------------------------------------------------- */

/* Sequence b of a batch has the change at cells[b]. */
typedef struct {
  attend_model *model;
  attend_intervention *iv;
  const attend_sweep_options *o;
  attend_metric metric; /* its target resolved */
  attend_tokens x;
  attend_session *session;
  copies k;
  place *cells;          /* [batch] */
  int32_t *places;       /* [batch or rows] */
  float *before, *after; /* [rows][V]; [batch or rows][V]; of STATE F in place of V */
  int batch, layers, columns;
} sweep;

static void edit_cells(const attend_hooked *t, float *data, void *user) {
  const sweep *w = user;
  for (int b = 0; b < t->shape[0]; b++)
    change_sequence(w->iv->list, &w->cells[b], &(sequence){t, data, b});
}

static place cell_of(const sweep *w, int at) {
  const change *c = w->iv->list;
  place p = c->at;
  range column = {at % w->columns, 1};
  p.layers = (range){at / w->columns, 1};
  if (w->o->axis == ATTEND_SWEEP_HEADS)
    p.heads = column;
  else
    p.tokens = column;
  return p;
}

static bool reads_one_row(const sweep *w) {
  return w->metric.kind == ATTEND_METRIC_LOGIT || w->metric.kind == ATTEND_METRIC_PROBABILITY;
}

/* Of sequences b, .., b + n - 1: the target's row of each, or all rows of one. */
static attend_status measure(sweep *w, int b, int n, double *values) {
  const int rows = attend_tokens_rows(w->model, &w->x), vocab = w->model->config.vocab;
  const bool one = reads_one_row(w);
  const int count = one ? n : rows;
  if (w->metric.kind == ATTEND_METRIC_STATE) {
    copy_hidden(w->model, w->session, b * rows, rows, w->after);
    return attend_metric_of(w->model, &w->metric, &w->x, w->before, w->after, values);
  }
  for (int i = 0; i < count; i++)
    w->places[i] = one ? (b + i) * rows + w->metric.target.position : b * rows + i;
  ATTEND_TRY(attend_session_logits(w->session, count, w->places, w->after));
  if (!one) return attend_metric_of(w->model, &w->metric, &w->x, w->before, w->after, values);
  for (int i = 0; i < n; i++)
    values[i] = target_value(&w->metric, vocab, w->after + (size_t)i * (size_t)vocab);
  return ATTEND_OK;
}

static attend_status measure_batch(sweep *w, int n, double *values) {
  if (reads_one_row(w)) return measure(w, 0, n, values);
  for (int b = 0; b < n; b++) ATTEND_TRY(measure(w, b, 1, &values[b]));
  return ATTEND_OK;
}

static attend_status sweep_cells(sweep *w, double *map) {
  attend_context *ctx = &w->iv->own;
  const int all = w->layers * w->columns;
  for (int at = 0; at < all; at += w->batch) {
    int n = (int)min64(w->batch, all - at);
    for (int b = 0; b < n; b++) w->cells[b] = cell_of(w, at + b);
    ATTEND_TRY(run_copies(w->model, w->session, n, &w->x, &w->k));
    ATTEND_TRY(measure_batch(w, n, map + at));
    bool stop = w->o->progress && w->o->progress((double)(at + n) / all, NULL, w->o->user);
    if (stop && at + n < all)
      return fail(ctx, ATTEND_STOPPED, "the sweep was stopped after %d of %d places", at + n, all);
  }
  return ATTEND_OK;
}

/* About 1024 rows at once: enough to fill the machine. */
static int batch_of(const sweep *w) {
  const int rows = w->x.n + w->x.n_decoder, all = w->layers * w->columns;
  int batch = w->o->batch ? w->o->batch : (int)max64(1, min64(16, 1024 / rows));
  return batch < all ? batch : all;
}

static attend_status sweep_open(sweep *w) {
  attend_context *ctx = &w->iv->own;
  const size_t rows = (size_t)attend_tokens_rows(w->model, &w->x);
  const bool states = w->metric.kind == ATTEND_METRIC_STATE;
  const size_t row =
      (size_t)(states ? head_width(w->model) : w->model->config.vocab) * sizeof(float);
  attend_hook hook = w->iv->hooks[0];
  hook.edit = edit_cells;
  hook.user = w;
  ATTEND_CHECK(ctx, w->o->batch >= 0, "a batch of %d texts: give 1 or more, or 0", w->o->batch);
  w->batch = batch_of(w);
  blocks *memory = &w->k.memory;
  const size_t most = reads_one_row(w) ? (size_t)w->batch : rows;
  ATTEND_TRY(
      blocks_add(ctx, memory, ON_HOST, (size_t)w->batch * sizeof *w->cells, "a sweep", &w->cells));
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, most * sizeof *w->places, "a sweep", &w->places));
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times(rows, row), "logits", &w->before));
  ATTEND_TRY(blocks_add(ctx, memory, ON_HOST, size_times(most, row), "logits", &w->after));
  ATTEND_TRY(make_copies(ctx, w->batch, &w->x, &w->k));
  ATTEND_TRY(open_session(ctx, w->model, w->batch, &w->x, &w->session));
  return attend_session_set_hooks(w->session, 1, &hook);
}

/* The hidden states without changes. */
static attend_status sweep_run(sweep *w, double *map, double *before) {
  const int rows = attend_tokens_rows(w->model, &w->x);
  ATTEND_TRY(sweep_open(w));
  if (w->metric.kind == ATTEND_METRIC_STATE)
    ATTEND_TRY(run_hidden(&w->iv->own, w->model, &w->x, 0, NULL, w->before));
  else
    ATTEND_TRY(run_text(&w->iv->own, w->model, &w->x, 0, NULL, w->before));
  if (reads_one_row(w))
    ATTEND_TRY(attend_target_resolve(w->model, rows, w->before, &w->metric.target));
  ATTEND_TRY(attend_metric_of(w->model, &w->metric, &w->x, w->before, w->before, before));
  return sweep_cells(w, map);
}

/* Reads the options and the text, and makes the change everywhere. */
static attend_status sweep_prepare(attend_model *model, const attend_tokens *input,
                                   const attend_sweep_options *options, attend_sweep_options *o,
                                   bool values, sweep *w) {
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_sweep_options, options, o));
  *w = (sweep){.model = model, .o = o};
  ATTEND_TRY(tokens_check(model->ctx, model, input, &w->x));
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_metric, &o->metric, &w->metric));
  ATTEND_TRY(check_metric(model, &w->metric));
  change c = {0};
  ATTEND_TRY(OPTIONS_READ(model->ctx, attend_change, &o->change, &c.c));
  c.c.layer = c.c.layers = 0;
  if (o->axis == ATTEND_SWEEP_HEADS) c.c.head = c.c.heads = 0;
  if (o->axis == ATTEND_SWEEP_TOKENS) c.c.token = c.c.tokens = 0;
  ATTEND_TRY(resolve_change(model->ctx, model, &c));
  ATTEND_CHECK(model->ctx, o->axis == ATTEND_SWEEP_TOKENS || of_heads(c.c.point),
               "a sweep over heads changes heads, not the %s: sweep over tokens",
               attend_point_name(c.c.point));
  w->layers = c.at.layers.count;
  w->columns = o->axis == ATTEND_SWEEP_HEADS ? c.heads : rows_at(&c, &w->x);
  if (!values) return ATTEND_OK;
  ATTEND_TRY(attend_intervention_create(model, 1, &c.c, &w->iv));
  return check_positions_of(model->ctx, w->iv->list, &w->x);
}

attend_status attend_sweep_shape(attend_model *model, const attend_tokens *input,
                                 const attend_sweep_options *options, int *layers, int *columns) {
  attend_sweep_options o;
  sweep w;
  ATTEND_TRY(sweep_prepare(model, input, options, &o, false, &w));
  *layers = w.layers;
  *columns = w.columns;
  return ATTEND_OK;
}

attend_status attend_sweep(attend_model *model, const attend_tokens *input,
                           const attend_sweep_options *options, double *map, double *before) {
  attend_sweep_options o;
  sweep w = {0};
  attend_status status = sweep_prepare(model, input, options, &o, true, &w);
  if (!status) status = sweep_run(&w, map, before);
  attend_session_free(w.session);
  if (w.iv) blocks_free(&w.iv->own, &w.k.memory);
  attend_intervention_free(w.iv);
  return status;
}
