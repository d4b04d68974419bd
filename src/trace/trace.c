/* A trace: a hook that records the activations of one sequence, token by token.
 *
 * A tensor [B,H,n,W] appends n rows of H x W floats to its record, so a text in several
 * calls becomes one record.
 */
#include "attend/hooks.h"

#include <stdio.h>
#include <string.h>

#include "attend/file.h"
#include "base/base.h"
#include "base/options.h"

typedef struct {
  float *rows; /* [capacity][heads * width] */
  int n, capacity;
  int heads, width;
} record;

typedef struct {
  record of[ATTEND_POINTS];
} layer_records;

struct attend_trace {
  attend_context *ctx;
  attend_trace_options options;
  layer_records *layers[ATTEND_ROLES]; /* [capacity] */
  int capacity[ATTEND_ROLES];
  size_t bytes;
  attend_status status;
  char message[512]; /* of the first failure */
};

/* ---- names ----------------------------------------------------------------------- */

static int point_number(attend_point point) {
  for (int i = 0; i < ATTEND_POINTS; i++)
    if ((unsigned)point == 1u << i) return i;
  return -1;
}

const char *attend_point_name(attend_point point) {
  static const char *const names[ATTEND_POINTS] = {
      "residual", "query",           "key",    "value", "pattern", "head_output", "denominator",
      "entropy",  "residual_middle", "logits", "mlp"};
  int i = point_number(point);
  return i < 0 ? "nothing" : names[i];
}

const char *attend_role_name(attend_role role) {
  static const char *const names[ATTEND_ROLES] = {"encoder", "decoder", "cross"};
  return (unsigned)role < ATTEND_ROLES ? names[role] : "nothing";
}

/* ---- creating -------------------------------------------------------------------- */

attend_status attend_trace_create(attend_context *ctx, const attend_trace_options *options,
                                  attend_trace **trace) {
  attend_trace_options o;
  *trace = NULL;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_trace_options, options, &o));
  ATTEND_CHECK(ctx, options && o.sequence >= 0,
               "a trace needs options: the points to record and a sequence of 0 or more");
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof **trace, "a trace", trace));
  (*trace)->ctx = ctx;
  (*trace)->options = o;
  return ATTEND_OK;
}

void attend_trace_clear(attend_trace *t) {
  for (int role = 0; role < ATTEND_ROLES; role++) {
    for (int i = 0; i < t->capacity[role]; i++)
      for (int j = 0; j < ATTEND_POINTS; j++) ctx_free(t->ctx, t->layers[role][i].of[j].rows);
    ctx_free(t->ctx, t->layers[role]);
    t->layers[role] = NULL;
    t->capacity[role] = 0;
  }
  t->bytes = 0;
  t->status = ATTEND_OK;
}

void attend_trace_free(attend_trace *t) {
  if (!t) return;
  attend_trace_clear(t);
  ctx_free(t->ctx, t);
}

attend_status attend_trace_status(attend_trace *t) {
  if (t->status) fail(t->ctx, t->status, "%s", t->message);
  return t->status;
}

size_t attend_trace_bytes(const attend_trace *t) { return t->bytes; }

/* ---- recording ------------------------------------------------------------------- */

static attend_status reserve_layers(attend_trace *t, attend_role role, int layer) {
  layer_records *more;
  int capacity = t->capacity[role] ? t->capacity[role] : 8;
  if (layer < t->capacity[role]) return ATTEND_OK;
  while (capacity <= layer) capacity *= 2;
  ATTEND_TRY(ctx_alloc_zeroed(t->ctx, (size_t)capacity * sizeof *more, "a trace", &more));
  if (t->layers[role]) memcpy(more, t->layers[role], (size_t)t->capacity[role] * sizeof *more);
  ctx_free(t->ctx, t->layers[role]);
  t->layers[role] = more;
  t->capacity[role] = capacity;
  return ATTEND_OK;
}

/* As much as is needed the first time, half as much again after that. */
static attend_status reserve_rows(attend_trace *t, record *r, int n) {
  float *more;
  int64_t capacity = r->capacity ? max64(n, r->capacity + r->capacity / 2) : n;
  size_t row = (size_t)r->heads * (size_t)r->width * sizeof *more;
  size_t bytes = (size_t)capacity * row;
  if (n <= r->capacity) return ATTEND_OK;
  if (t->options.most_bytes && t->bytes + bytes > t->options.most_bytes)
    return fail(t->ctx, ATTEND_NO_MEMORY,
                "recording needs more than the %zu MB of most_bytes: raise the "
                "limit, or record a shorter text",
                t->options.most_bytes >> 20);
  ATTEND_TRY(ctx_alloc(t->ctx, bytes, "a trace", &more));
  if (r->rows) memcpy(more, r->rows, (size_t)r->n * row);
  ctx_free(t->ctx, r->rows);
  t->bytes += bytes - (size_t)r->capacity * row;
  r->rows = more;
  r->capacity = (int)capacity;
  return ATTEND_OK;
}

/* A change of shape starts a new record. */
static void start_record(attend_trace *t, record *r, const attend_hooked *s) {
  if (r->heads == s->shape[1] && r->width == s->shape[3]) return;
  t->bytes -= (size_t)r->capacity * (size_t)r->heads * (size_t)r->width * sizeof(float);
  ctx_free(t->ctx, r->rows);
  *r = (record){.heads = s->shape[1], .width = s->shape[3]};
}

/* Encoder tensors keep their padding rows, so that rows are token positions. */
static int rows_of(const attend_trace *t, const attend_hooked *s) {
  bool encoder =
      s->role == ATTEND_ENCODER_SELF ||
      (s->role == ATTEND_CROSS && (s->point == ATTEND_AT_KEY || s->point == ATTEND_AT_VALUE));
  if (s->point == ATTEND_AT_LOGITS || encoder || !s->lengths) return s->shape[2];
  return s->lengths[t->options.sequence];
}

static bool is_growing(const attend_hooked *s) {
  if (s->point == ATTEND_AT_PATTERN) return s->role == ATTEND_CROSS;
  return s->role != ATTEND_ENCODER_SELF && s->point != ATTEND_AT_LOGITS &&
         !(s->role == ATTEND_CROSS && (s->point == ATTEND_AT_KEY || s->point == ATTEND_AT_VALUE));
}

static const float *row_at(const attend_hooked *s, int b, int h, int i) {
  const ptrdiff_t *by = s->view.stride;
  return s->view.data + b * by[0] + h * by[1] + i * by[2];
}

static void add_rows(const attend_trace *t, record *r, const attend_hooked *s, int n) {
  int b = s->point == ATTEND_AT_LOGITS ? 0 : t->options.sequence;
  size_t width = (size_t)r->width, row = (size_t)r->heads * width;
  for (int i = 0; i < n; i++)
    for (int h = 0; h < r->heads; h++)
      memcpy(r->rows + (size_t)(r->n + i) * row + (size_t)h * width, row_at(s, b, h, i),
             width * sizeof(float));
  r->n += n;
}

static attend_status keep(attend_trace *t, const attend_hooked *s) {
  int kind = point_number(s->point);
  if (kind < 0 || !(t->options.points & (unsigned)s->point)) return ATTEND_OK;
  if (s->point != ATTEND_AT_LOGITS && t->options.sequence >= s->shape[0]) return ATTEND_OK;
  ATTEND_TRY(reserve_layers(t, s->role, s->layer));
  record *r = &t->layers[s->role][s->layer].of[kind];
  int n = rows_of(t, s);
  start_record(t, r, s);
  if (s->point == ATTEND_AT_PATTERN && s->role != ATTEND_CROSS) r->n = 0;
  if (!r->capacity && t->options.rows > n && is_growing(s))
    ATTEND_TRY(reserve_rows(t, r, t->options.rows));
  ATTEND_TRY(reserve_rows(t, r, r->n + n));
  add_rows(t, r, s, n);
  return ATTEND_OK;
}

void attend_trace_read(const attend_hooked *tensor, void *trace) {
  attend_trace *t = trace;
  if (t->status) return;
  t->status = keep(t, tensor);
  if (t->status) snprintf(t->message, sizeof t->message, "%s", attend_message(t->ctx));
}

unsigned attend_trace_points(const attend_trace *t) { return t->options.points; }

/* ---- reading --------------------------------------------------------------------- */

bool attend_trace_get(const attend_trace *t, attend_point point, attend_role role, int layer,
                      attend_hooked *tensor) {
  int kind = point_number(point);
  if (kind < 0 || (unsigned)role >= ATTEND_ROLES || layer < 0 || layer >= t->capacity[role])
    return 0;
  const record *r = &t->layers[role][layer].of[kind];
  if (!r->rows) return 0;
  ptrdiff_t row = (ptrdiff_t)r->heads * r->width;
  *tensor = (attend_hooked){.point = point,
                            .role = role,
                            .layer = layer,
                            .shape = {1, r->heads, r->n, r->width},
                            .view = {r->rows, {r->n * row, r->width, row, 1}}};
  return 1;
}

int attend_trace_layers(const attend_trace *t, attend_role role) {
  int layers = 0;
  for (int i = 0; i < t->capacity[role]; i++)
    for (int j = 0; j < ATTEND_POINTS; j++)
      if (t->layers[role][i].of[j].rows && 1 << j != ATTEND_AT_RESIDUAL) layers = i + 1;
  return layers;
}

/* ---- a file ---------------------------------------------------------------------- */

enum { NAME = 48 };

typedef struct {
  attend_tensor *tensors;
  char (*names)[NAME];
  size_t n;
} listing;

static void list_record(const attend_trace *t, int role, int layer, int kind, listing *to) {
  const record *r = &t->layers[role][layer].of[kind];
  if (!r->rows) return;
  char *name = to->names[to->n];
  snprintf(name, NAME, "%s.%d.%s", attend_role_name((attend_role)role), layer,
           attend_point_name((attend_point)(1 << kind)));
  to->tensors[to->n++] =
      (attend_tensor){.name = name,
                      .stored = ATTEND_STORED_F32,
                      .rank = 3,
                      .shape = {r->n, r->heads, r->width},
                      .count = (int64_t)r->n * r->heads * r->width,
                      .data = r->rows,
                      .bytes = (size_t)r->n * (size_t)r->heads * (size_t)r->width * sizeof(float)};
}

attend_status attend_trace_save(const attend_trace *t, const char *path) {
  return attend_trace_save_noted(t, path, 0, NULL, 0, NULL);
}

attend_status attend_trace_save_noted(const attend_trace *t, const char *path, size_t count,
                                      const attend_tensor *tensors, size_t n_notes,
                                      const attend_note *notes) {
  listing l = {0};
  size_t max = count;
  for (int role = 0; role < ATTEND_ROLES; role++) max += (size_t)t->capacity[role] * ATTEND_POINTS;
  ATTEND_TRY(ctx_alloc(t->ctx, max * sizeof *l.tensors, "a list", &l.tensors));
  attend_status status = ctx_alloc(t->ctx, max * sizeof *l.names, "a list", &l.names);
  for (int role = 0; role < ATTEND_ROLES && !status; role++)
    for (int i = 0; i < t->capacity[role]; i++)
      for (int j = 0; j < ATTEND_POINTS; j++) list_record(t, role, i, j, &l);
  if (!status && count) memcpy(l.tensors + l.n, tensors, count * sizeof *tensors);
  if (!status)
    status = attend_tensor_file_write_noted(t->ctx, path, l.n + count, l.tensors, n_notes, notes);
  ctx_free(t->ctx, l.names);
  ctx_free(t->ctx, l.tensors);
  return status;
}
