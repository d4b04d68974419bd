/* Tokens as vectors: hidden states, what they predict, and positions. */
#include <math.h>

#include "attend/layers.h"
#include "view/session.h"

enum { PATH_ROOM = 4096 };

/* ---- sides ------------------------------------------------------------------------- */

typedef struct {
  const view_run *run;
  int layers, tokens;
  attend_hooked hidden;
} side_states;

/* layer -1: after the last. */
static attend_status read_side(attend_context *ctx, const attend_viewer_run *of, attend_role role,
                               int layer, side_states *s) {
  const view_run *run = (const view_run *)of;
  bool decoder = role == ATTEND_DECODER_SELF;
  ATTEND_CHECK(ctx, run && (decoder || role == ATTEND_ENCODER_SELF) && run->side[decoder].n,
               "the side must be one that this run has");
  const attend_config *c = run->of->config;
  *s = (side_states){.run = run,
                     .layers = decoder ? attend_config_stack(c, ATTEND_DECODER)->layers
                                       : attend_config_stack(c, ATTEND_ENCODER)->layers,
                     .tokens = run->side[decoder].n};
  if (layer < 0) layer = s->layers;
  ATTEND_CHECK(ctx, attend_trace_get(run->trace, ATTEND_AT_RESIDUAL, role, layer, &s->hidden),
               "this run has no hidden states of layer %d", layer);
  return ATTEND_OK;
}

/* ---- candidates ----------------------------------------------------------------------- */

/* A head that copies reads the source again. */
static attend_status read_source(const view_run *run, attend_session *r) {
  const view_side *s = &run->side[0];
  int32_t real[1] = {s->real};
  return attend_config_get(run->of->config, ATTEND_CONFIG_COPY) && s->n
             ? attend_session_encode(r, 1, s->n, s->ids, real, NULL)
             : ATTEND_OK;
}

attend_status head_open(const view_run *run, int rows, attend_session **session) {
  attend_session_options o = {ATTEND_INIT(attend_session_options), .rows = rows};
  ATTEND_TRY(attend_session_create(run->model, &o, session));
  attend_status status = read_source(run, *session);
  if (status) attend_session_free(*session), *session = NULL;
  return status;
}

attend_status head_states(attend_context *ctx, const view_run *run, int layer, attend_hooked *x) {
  side_states s;
  const bool decodes = attend_config_parts(run->of->config) & ATTEND_DECODER;
  ATTEND_TRY(
      read_side(ctx, &run->is, decodes ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF, layer, &s));
  *x = s.hidden;
  return ATTEND_OK;
}

static attend_status head_logits(const side_states *s, int position, attend_session *r,
                                 float *logits) {
  const float *row = (float *)s->hidden.view.data + position * s->hidden.view.stride[2];
  ATTEND_TRY(read_source(s->run, r));
  return attend_session_head(r, 1, row, s->hidden.shape[3], false, logits);
}

attend_status attend_viewer_get_candidates(attend_viewer *v, const attend_viewer_run *run,
                                           attend_role side, int position, int top,
                                           attend_viewer_candidate *list, int *n) {
  attend_context *ctx = v->ctx;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .rows = 1};
  attend_session *r = NULL;
  side_states s;
  float *logits;
  *n = 0;
  ATTEND_TRY(read_side(ctx, run, side, -1, &s));
  ATTEND_CHECK(ctx, position >= 0 && position < s.tokens && top > 0,
               "position %d: there are %d tokens, counted from 0", position, s.tokens);
  const attend_config *c = s.run->of->config;
  const attend_stack *last = attend_config_stack(
      c, attend_config_parts(c) & ATTEND_DECODER ? ATTEND_DECODER : ATTEND_ENCODER);
  ATTEND_CHECK(ctx, s.hidden.shape[3] == last->width,
               "the head reads rows of %d numbers, those of the decoder: the encoder's are of %d",
               last->width, s.hidden.shape[3]);
  ATTEND_TRY(ctx_alloc(ctx, (size_t)attend_config_get(c, ATTEND_CONFIG_VOCAB) * sizeof *logits,
                       "logits", &logits));
  attend_status status = attend_session_create(s.run->model, &o, &r);
  if (!status) status = head_logits(&s, position, r, logits);
  if (!status) *n = candidates_of(logits, attend_config_get(c, ATTEND_CONFIG_VOCAB), top, list);
  attend_session_free(r);
  ctx_free(ctx, logits);
  return status;
}

/* ---- embeddings -------------------------------------------------------------------------- */

static double length_of(const float *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static float cosine(const float *x, const float *y, int n, double product) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
  return product > 0 ? (float)(sum / product) : 0;
}

double view_cosine(const float *x, const float *y, int n) {
  double sum = 0, product = length_of(x, n) * length_of(y, n);
  for (int i = 0; i < n; i++) sum += (double)x[i] * (double)y[i];
  return product > 0 ? sum / product : 0;
}

/* Rows of h with keys of o. lengths [r->keys] is room; norm may be NULL. */
static void cosines(const attend_hooked *h, const attend_hooked *o, const attend_viewer_range *r,
                    double *lengths, float *to, float *norm) {
  const float *x = h->view.data, *y = o->view.data;
  ptrdiff_t ld = h->view.stride[2], ldo = o->view.stride[2];
  int width = h->shape[3];
  for (int j = 0; j < r->keys; j++) lengths[j] = length_of(y + (r->key + j) * ldo, width);
  for (int i = 0; i < r->rows; i++) {
    const float *row = x + (r->row + i) * ld;
    double own = length_of(row, width);
    if (norm) norm[i] = (float)own;
    for (int j = 0; j < r->keys; j++)
      to[(size_t)i * (size_t)r->keys + (size_t)j] =
          cosine(row, y + (r->key + j) * ldo, width, own * lengths[j]);
  }
}

attend_status attend_viewer_get_embeddings(attend_viewer *v, const attend_viewer_run *run,
                                           const attend_viewer_run *other, attend_role side,
                                           int layer, const attend_viewer_range *range,
                                           attend_viewer_embeddings *e) {
  side_states s, o;
  attend_viewer_range r;
  *e = (attend_viewer_embeddings){0};
  ATTEND_CHECK(v->ctx, layer >= 0, "layer %d: layers are counted from 0", layer);
  ATTEND_TRY(read_side(v->ctx, run, side, layer, &s));
  ATTEND_TRY(read_side(v->ctx, other ? other : run, side, layer, &o));
  ATTEND_CHECK(v->ctx, !other || !word_pair_refused(run, other), "%s",
               word_pair_refused(run, other));
  ATTEND_TRY(range_check(v->ctx, range, s.tokens, o.tokens, &r));
  size_t T = (size_t)r.rows, S = (size_t)r.keys;
  ATTEND_TRY(ctx_alloc(v->ctx, S * sizeof(double) + (T * S + T) * sizeof(float),
                       "cosines of hidden states", &e->memory));
  double *lengths = e->memory;
  e->rows = r.rows, e->keys = r.keys;
  e->cosine = (float *)(lengths + S), e->norm = e->cosine + T * S;
  cosines(&s.hidden, &o.hidden, &r, lengths, e->cosine, e->norm);
  return ATTEND_OK;
}

/* ---- positions ----------------------------------------------------------------------------- */

/* p_t holds sin(w_i t) and cos(w_i t) side by side; M rotates each pair by w_i. */
static void shift_matrix(int width, float *m) {
  float one[512];
  attend_sinusoidal(1, width, one);
  memset(m, 0, (size_t)width * (size_t)width * sizeof *m);
  for (int i = 0; i < width; i += 2) {
    float *sines = m + i * width + i, *below = sines + width;
    sines[0] = below[1] = one[i + 1];
    sines[1] = one[i];
    below[0] = -one[i];
  }
}

static double shift_error(const float *table, int count, int width, const float *m) {
  double worst = 0;
  for (int t = 0; t + 1 < count; t++)
    for (int i = 0; i < width; i++) {
      double sum = 0;
      for (int j = 0; j < width; j++)
        sum += (double)m[i * width + j] * (double)table[t * width + j];
      worst = fmax(worst, fabs(sum - (double)table[(t + 1) * width + i]));
    }
  return worst;
}

static void table_cosines(const float *table, int count, int width,
                          float *to /* [count, count] */) {
  attend_hooked h = {.shape = {1, 1, count, width}, .view = {(void *)table, {0, 0, width, 1}}};
  double lengths[512];
  cosines(&h, &h, &(attend_viewer_range){0, count, 0, count}, lengths, to, NULL);
}

static bool is_table(const attend_parameter *p, int count) {
  return p->what && strstr(p->what, "position") && p->rank == 2 && p->tensor &&
         p->tensor->count >= (int64_t)count * p->shape[1];
}

static attend_status read_table(attend_context *ctx, const attend_parameter *p, int count,
                                float *to) {
  size_t n = (size_t)count * (size_t)p->shape[1];
  attend_dtype dtype = p->tensor->stored == ATTEND_STORED_F16    ? ATTEND_F16
                       : p->tensor->stored == ATTEND_STORED_BF16 ? ATTEND_BF16
                                                                 : ATTEND_F32;
  float *rows;
  ATTEND_TRY(ctx_alloc(ctx, n * sizeof *rows, "a table of positions", &rows));
  attend_convert_to_f32(dtype, p->tensor->data, n, rows);
  table_cosines(rows, count, (int)p->shape[1], to);
  ctx_free(ctx, rows);
  return ATTEND_OK;
}

/* *found: the checkpoint has a table of positions, and `to` its cosines. */
static attend_status learned_cosines(attend_context *ctx, const view_model *m, int step, int count,
                                     float *to, bool *found) {
  attend_checkpoint *files, *opened = NULL;
  attend_status status = ATTEND_OK;
  attend_parameter p;
  char path[PATH_ROOM];
  const char *from = m->path;
  if (m->step_path && m->step_path(step, path, sizeof path, m->user)) from = path;
  files = from == m->path ? m->trained.files : NULL;
  if (!files && attend_checkpoint_open(ctx, from, &opened)) return ATTEND_OK;
  if (!files) files = opened;
  for (size_t i = 0; !*found && attend_checkpoint_get(files, i, &p); i++) {
    *found = is_table(&p, count);
    if (*found) status = read_table(ctx, &p, count, to);
  }
  attend_checkpoint_free(opened);
  return status;
}

attend_status attend_viewer_get_positions(attend_viewer *v, int model, int step, int count,
                                          int width, attend_viewer_positions *p) {
  attend_context *ctx = v->ctx;
  bool own = false;
  *p = (attend_viewer_positions){0};
  ATTEND_CHECK(ctx, count >= 2 && count <= 512 && width >= 2 && width <= 512,
               "%d positions of width %d: 2 to 512 each", count, width);
  ATTEND_CHECK(ctx, model < 0 || attend_viewer_get_model(v, model), "there is no model %d", model);
  width -= width % 2;
  size_t n = (size_t)count, d = (size_t)width;
  ATTEND_TRY(ctx_alloc(ctx, (n * d + d * d + 2 * n * n) * sizeof(float), "positions", &p->memory));
  p->count = count, p->width = width;
  p->table = p->memory, p->shift = p->table + n * d;
  p->cosine = p->shift + d * d;
  float *learned = p->cosine + n * n;
  for (int t = 0; t < count; t++) attend_sinusoidal(t, width, p->table + (size_t)t * d);
  shift_matrix(width, p->shift);
  table_cosines(p->table, count, width, p->cosine);
  p->shift_error = shift_error(p->table, count, width, p->shift);
  const view_model *m = model < 0 ? NULL : v->models[model];
  attend_status status = ATTEND_OK;
  if (m && attend_config_get(m->config, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_LEARNED)
    status = learned_cosines(ctx, m, step, count, learned, &own);
  if (own) p->learned = learned;
  if (status) ctx_free(ctx, p->memory), p->memory = NULL;
  return status;
}
