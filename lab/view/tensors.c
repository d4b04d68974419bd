/* Tensors of the caller's own in place of a model: attention weights, or queries, keys and values.
 *
 * They are copied into a trace, as if a model had been recorded, and the lens reads the trace by
 * the description that came with them. A tensor "model" has one run, which is never dropped.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "view/session.h"

typedef struct { /* desc points into the other members */
  attend_desc desc;
  int layers;
  int *windows;   /* [layers] or NULL */
  int32_t length; /* keys that are not padding; 0: all */
  float *mask;    /* [H or 1, T, S] */
  float *table;   /* of buckets, or ALiBi's slopes */
} own_attention;

struct view_tensors {
  own_attention of[ATTEND_ROLES];
  char *text;         /* of all tokens */
  const char **token; /* [n] by id */
  int n;
  bool steps;
  view_run *run;
};

void tensors_free(attend_context *ctx, struct view_tensors *t) {
  if (!t) return;
  for (int i = 0; i < ATTEND_ROLES; i++) {
    ctx_free(ctx, t->of[i].windows);
    ctx_free(ctx, t->of[i].mask);
    ctx_free(ctx, t->of[i].table);
  }
  ctx_free(ctx, t->text);
  ctx_free(ctx, (void *)t->token);
  ctx_free(ctx, t);
}

const char *tensors_token(const struct view_tensors *t, int32_t id) {
  return id >= 0 && id < t->n ? t->token[id] : "";
}

bool tensors_steps(const struct view_tensors *t) { return t->steps; }

view_run *tensors_run(attend_viewer *v, int model) {
  struct view_tensors *t = v->models[model]->tensors;
  return t ? t->run : NULL;
}

attend_status needs_model(attend_context *ctx, const view_run *run) {
  ATTEND_CHECK(ctx, !run->of->tensors, "%s holds tensors: this needs a model", run->of->name);
  return ATTEND_OK;
}

bool tensors_describe(attend_role role, int layer, attend_desc *desc, void *tensors) {
  own_attention *a = &((struct view_tensors *)tensors)->of[role];
  if (!a->layers) return false;
  *desc = a->desc;
  if (a->windows) desc->mask.window = a->windows[layer];
  if (a->length) desc->mask.lengths = &a->length;
  return true;
}

/* ---- what is given ------------------------------------------------------------------------ */

typedef struct {
  attend_viewer *v;
  attend_context *ctx;
  const char *name;
  view_model *model;
  struct view_tensors *tensors;
  view_run *run;
} adding;

static attend_status check_sizes(const adding *x, const attend_viewer_attention *a) {
  const attend_desc *d = &a->of;
  const char *role = attend_role_name(a->role);
  ATTEND_CHECK(x->ctx, (unsigned)a->role < ATTEND_ROLES && !x->tensors->of[a->role].layers,
               "%s: the attention of a role is given once", x->name);
  ATTEND_CHECK(x->ctx,
               a->layers > 0 && a->layers <= 4096 && d->heads > 0 && d->heads <= 4096 &&
                   d->q_len > 0 && d->kv_len > 0 && d->q_len <= ATTEND_VIEWER_LONGEST &&
                   d->kv_len <= ATTEND_VIEWER_LONGEST,
               "%s: %s attention of %d layers, %d heads, %d queries and %d keys: there is at least "
               "one of each, and at most 4096 layers and heads and %d tokens",
               x->name, role, a->layers, d->heads, d->q_len, d->kv_len, ATTEND_VIEWER_LONGEST);
  ATTEND_CHECK(x->ctx, a->role == ATTEND_CROSS || d->q_len == d->kv_len,
               "%s: %d queries and %d keys are cross-attention, with tokens of each (--tokens and "
               "--key-tokens)",
               x->name, d->q_len, d->kv_len);
  ATTEND_CHECK(x->ctx, a->weights || (a->q && a->k && d->dim > 0),
               "%s: %s attention needs weights, or queries and keys", x->name, role);
  return ATTEND_OK;
}

static size_t bytes_of(const attend_viewer_attention *a) {
  const attend_desc *d = &a->of;
  size_t H = (size_t)d->heads, T = (size_t)d->q_len, S = (size_t)d->kv_len;
  size_t D = (size_t)d->dim, M = (size_t)(d->dim_v ? d->dim_v : d->dim);
  size_t weights = a->weights ? SIZE_PRODUCT(H, T, S) : 0;
  size_t vectors =
      a->q ? size_times(H, size_add(size_times(T, D + M + 1), size_times(S, D + M))) : 0;
  return SIZE_PRODUCT((size_t)a->layers, size_add(weights, vectors), sizeof(float));
}

static attend_status check_bytes(const adding *x, const attend_viewer_tensors *given) {
  size_t bytes = 0, max = x->v->options.most_bytes;
  for (int i = 0; i < given->n; i++) bytes = size_add(bytes, bytes_of(&given->attention[i]));
  ATTEND_CHECK(
      x->ctx, bytes <= max,
      "%s: these tensors take %zu MB, and %zu are allowed: start with a larger --memory, or "
      "save fewer layers",
      x->name, bytes >> 20, max >> 20);
  return ATTEND_OK;
}

/* ---- descriptions -------------------------------------------------------------------------- */

static attend_status copy_floats(attend_context *ctx, const float *from, size_t n, float **to) {
  ATTEND_TRY(ctx_alloc(ctx, size_times(n, sizeof **to), "a mask", to));
  memcpy(*to, from, n * sizeof **to);
  return ATTEND_OK;
}

/* The part of a dense bias that its strides do not repeat. */
static attend_status copy_dense(attend_context *ctx, own_attention *a) {
  attend_desc *d = &a->desc;
  attend_view from = view_complete(d->bias.dense, d->heads, d->q_len, d->kv_len);
  size_t H = from.stride[1] ? (size_t)d->heads : 1, T = from.stride[2] ? (size_t)d->q_len : 1;
  size_t S = (size_t)d->kv_len;
  ATTEND_TRY(ctx_alloc(ctx, SIZE_PRODUCT(H, T, S, sizeof *a->mask), "a mask", &a->mask));
  float *to = a->mask;
  for (size_t h = 0; h < H; h++)
    for (size_t i = 0; i < T; i++)
      for (size_t j = 0; j < S; j++)
        *to++ = ((const float *)
                     from.data)[(ptrdiff_t)h * from.stride[1] + (ptrdiff_t)i * from.stride[2] +
                                (ptrdiff_t)j * from.stride[3]];
  d->bias.dense =
      (attend_view){a->mask, {0, H > 1 ? (ptrdiff_t)(T * S) : 0, T > 1 ? (ptrdiff_t)S : 0, 1}};
  return ATTEND_OK;
}

static attend_status copy_bias(attend_context *ctx, own_attention *a) {
  attend_bias *b = &a->desc.bias;
  size_t heads = (size_t)a->desc.heads;
  if (b->kind == ATTEND_DENSE) return copy_dense(ctx, a);
  if (b->kind == ATTEND_BUCKETS) {
    ATTEND_TRY(
        copy_floats(ctx, b->table, heads * (size_t)(b->buckets ? b->buckets : 32), &a->table));
    b->table = a->table;
  }
  if (b->kind == ATTEND_ALIBI) {
    ATTEND_TRY(copy_floats(ctx, b->slopes, heads, &a->table));
    b->slopes = a->table;
  }
  return ATTEND_OK;
}

static attend_status describe(const adding *x, const attend_viewer_attention *given) {
  own_attention *a = &x->tensors->of[given->role];
  attend_desc *d = &a->desc;
  ATTEND_TRY(OPTIONS_READ(x->ctx, attend_desc, &given->of, d));
  a->layers = given->layers;
  d->batch = 1;
  if (!given->q) d->dim = d->dim_v = 0;
  if (!d->kv_heads) d->kv_heads = d->heads;
  if (given->is_signed) d->form.kind = ATTEND_CUSTOM; /* the lens reads weights */
  ATTEND_CHECK(x->ctx, d->kv_heads > 0 && d->heads % d->kv_heads == 0,
               "%s: %d heads cannot share the keys of %d", x->name, d->heads, d->kv_heads);
  if (d->mask.lengths) a->length = *d->mask.lengths;
  d->mask.lengths = NULL;
  ATTEND_CHECK(x->ctx, !d->mask.key_mask, "%s: give a padding mask as lengths or a dense bias",
               x->name);
  ATTEND_CHECK(x->ctx, a->length >= 0 && a->length <= d->kv_len,
               "%s: %d keys are not padding, of %d", x->name, (int)a->length, d->kv_len);
  if (given->windows) {
    size_t bytes = (size_t)given->layers * sizeof *a->windows;
    ATTEND_TRY(ctx_alloc(x->ctx, bytes, "windows", &a->windows));
    memcpy(a->windows, given->windows, bytes);
  }
  return copy_bias(x->ctx, a);
}

/* ---- recording ------------------------------------------------------------------------------ */

static attend_status record(const adding *x, attend_hooked *t) {
  for (int h = 0; h < t->shape[1]; h++)
    for (int i = 0; i < t->shape[2]; i++) {
      const float *row = t->view.data + h * t->view.stride[1] + i * t->view.stride[2];
      for (int j = 0; j < t->shape[3]; j++)
        ATTEND_CHECK(
            x->ctx, isfinite(row[j * t->view.stride[3]]) || t->point == ATTEND_AT_DENOMINATOR,
            "%s: layer %d, head %d has a %s that is not finite (%g in row %d, column %d)", x->name,
            t->layer, h, t->point == ATTEND_AT_PATTERN ? "weight" : attend_point_name(t->point),
            (double)row[j * t->view.stride[3]], i, j);
    }
  attend_trace_read(t, x->run->trace);
  return attend_trace_status(x->run->trace);
}

static attend_hooked hooked(attend_point point, attend_role role, int layer, attend_const_view view,
                            int heads, int rows, int width) {
  attend_view v = view_complete(attend_input(view), heads, rows, width);
  return (attend_hooked){.point = point,
                         .role = role,
                         .layer = layer,
                         .shape = {1, heads, rows, width},
                         .view = {v.data, {v.stride[0], v.stride[1], v.stride[2], v.stride[3]}}};
}

/* The trace copies rows of adjacent numbers. */
static attend_status gather(const adding *x, const attend_hooked *t, float **all) {
  size_t at = 0;
  ATTEND_TRY(ctx_alloc(
      x->ctx,
      SIZE_PRODUCT((size_t)t->shape[1], (size_t)t->shape[2], (size_t)t->shape[3], sizeof **all),
      "a tensor", all));
  for (int h = 0; h < t->shape[1]; h++)
    for (int i = 0; i < t->shape[2]; i++)
      for (int j = 0; j < t->shape[3]; j++)
        (*all)[at++] =
            t->view.data[h * t->view.stride[1] + i * t->view.stride[2] + j * t->view.stride[3]];
  return ATTEND_OK;
}

static attend_status record_view(const adding *x, attend_hooked t) {
  float *all = NULL;
  if (t.view.stride[3] == 1) return record(x, &t);
  ATTEND_TRY(gather(x, &t, &all));
  attend_hooked adjacent = hooked(t.point, t.role, t.layer, (attend_const_view){.data = all},
                                  t.shape[1], t.shape[2], t.shape[3]);
  attend_status status = record(x, &adjacent);
  ctx_free(x->ctx, all);
  return status;
}

/* Sums of half precision are 1 to this. */
static const double SUM_BOUND = 0.01;

static attend_status check_weights(const adding *x, const attend_hooked *t, bool is_signed) {
  char *notice = x->run->is.notice;
  for (int h = 0; h < t->shape[1] && !is_signed; h++)
    for (int i = 0; i < t->shape[2]; i++) {
      const float *row = t->view.data + h * t->view.stride[1] + i * t->view.stride[2];
      double sum = 0;
      for (int j = 0; j < t->shape[3]; j++) {
        float w = row[j * t->view.stride[3]];
        sum += (double)w;
        ATTEND_CHECK(
            x->ctx, !(w < 0),
            "%s: layer %d, head %d has a negative weight (%g in row %d, column %d): scores "
            "become weights by softmax; weights that are meant to be negative need --signed",
            x->name, t->layer, h, (double)w, i, j);
      }
      if (*notice || sum == 0 || !(fabs(sum - 1) > SUM_BOUND)) continue;
      snprintf(
          notice, sizeof x->run->is.notice,
          "Rows of these weights do not all sum to 1: row %d of layer %d, head %d sums to %.4g.", i,
          t->layer, h, sum);
    }
  return ATTEND_OK;
}

typedef struct {
  attend_view v; /* [1,G,S,M] or zeros [S] */
  float *out, *lse, *zeros;
} computing;

static attend_status forward(const adding *x, const attend_viewer_attention *a, int layer,
                             computing *c) {
  attend_desc d;
  attend_plan *plan;
  tensors_describe(a->role, layer, &d, x->tensors);
  if (a->is_signed) d.form = a->of.form;
  if (!a->v) d.dim_v = 1;
  ATTEND_TRY(attend_plan_create(x->ctx, &d, &plan));
  attend_status status = attend_forward(plan, attend_input(a->q[layer]), attend_input(a->k[layer]),
                                        c->v, attend_bhtd(c->out), c->lse);
  attend_plan_free(plan);
  return status;
}

static attend_status compute_outputs(const adding *x, const attend_viewer_attention *a, int layer,
                                     computing *c) {
  const attend_desc *d = &x->tensors->of[a->role].desc;
  size_t T = (size_t)d->q_len, H = (size_t)d->heads;
  size_t M = a->v ? (size_t)(d->dim_v ? d->dim_v : d->dim) : 1;
  ATTEND_TRY(ctx_alloc(x->ctx, SIZE_PRODUCT(T, H, M + 1, sizeof *c->out), "outputs", &c->out));
  c->lse = c->out + T * H * M;
  c->v = (attend_view){NULL, {0, 0, 1, 1}};
  if (a->v) {
    c->v = attend_input(a->v[layer]);
  } else {
    ATTEND_TRY(ctx_alloc_zeroed(x->ctx, (size_t)d->kv_len * sizeof *c->zeros, "values", &c->zeros));
    c->v.data = c->zeros;
  }
  ATTEND_TRY(forward(x, a, layer, c));
  attend_hooked lse = hooked(ATTEND_AT_DENOMINATOR, a->role, layer,
                             (attend_const_view){.data = c->lse}, d->heads, d->q_len, 1);
  ATTEND_TRY(record_view(x, lse));
  if (!a->v) return ATTEND_OK;
  return record_view(x, hooked(ATTEND_AT_HEAD_OUTPUT, a->role, layer,
                               (attend_const_view){.data = c->out}, d->heads, d->q_len, (int)M));
}

static attend_status record_outputs(const adding *x, const attend_viewer_attention *a, int layer) {
  const attend_desc *d = &x->tensors->of[a->role].desc;
  int H = d->heads, T = d->q_len, M = d->dim_v ? d->dim_v : d->dim;
  computing c = {.out = NULL};
  if (a->out && a->lse) {
    ATTEND_TRY(
        record_view(x, hooked(ATTEND_AT_HEAD_OUTPUT, a->role, layer, a->out[layer], H, T, M)));
    return record_view(x, hooked(ATTEND_AT_DENOMINATOR, a->role, layer, a->lse[layer], H, T, 1));
  }
  attend_status status = compute_outputs(x, a, layer, &c);
  ctx_free(x->ctx, c.zeros);
  ctx_free(x->ctx, c.out);
  return status;
}

static attend_status record_layer(const adding *x, const attend_viewer_attention *a, int layer) {
  const attend_desc *d = &x->tensors->of[a->role].desc;
  int H = d->heads, G = d->kv_heads, T = d->q_len, S = d->kv_len, D = d->dim;
  if (a->weights) {
    attend_hooked w = hooked(ATTEND_AT_PATTERN, a->role, layer, a->weights[layer], H, T, S);
    ATTEND_TRY(record_view(x, w));
    ATTEND_TRY(check_weights(x, &w, a->is_signed));
  }
  if (!a->q || !a->k) return ATTEND_OK;
  ATTEND_TRY(record_view(x, hooked(ATTEND_AT_QUERY, a->role, layer, a->q[layer], H, T, D)));
  ATTEND_TRY(record_view(x, hooked(ATTEND_AT_KEY, a->role, layer, a->k[layer], G, S, D)));
  if (a->v)
    ATTEND_TRY(record_view(
        x, hooked(ATTEND_AT_VALUE, a->role, layer, a->v[layer], G, S, d->dim_v ? d->dim_v : D)));
  return record_outputs(x, a, layer);
}

static attend_status record_all(const adding *x, const attend_viewer_tensors *given) {
  attend_trace_options o = {ATTEND_INIT(attend_trace_options),
                            .points = ATTEND_AT_PATTERN | ATTEND_AT_QUERY | ATTEND_AT_KEY |
                                      ATTEND_AT_VALUE | ATTEND_AT_HEAD_OUTPUT |
                                      ATTEND_AT_DENOMINATOR};
  ATTEND_TRY(attend_trace_create(x->ctx, &o, &x->run->trace));
  for (int i = 0; i < given->n; i++)
    for (int j = 0; j < given->attention[i].layers; j++)
      ATTEND_TRY(record_layer(x, &given->attention[i], j));
  x->run->is.bytes = attend_trace_bytes(x->run->trace);
  return ATTEND_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------ */

/* GPT-2 writes bytes as characters: printable ones as themselves, the others from U+0100 on. */
static int byte_of(uint32_t c) {
  if ((c >= 33 && c <= 126) || (c >= 161 && c <= 172) || (c >= 174 && c <= 255)) return (int)c;
  if (c < 0x100 || c > 0x143) return -1;
  uint32_t n = c - 0x100;
  return (int)(n < 33 ? n : n < 67 ? n + 94 : 173);
}

/* A character of at most two bytes, which all of these are. Returns its bytes, 0: another. */
static size_t short_character(const char *s, uint32_t *c) {
  const unsigned char *u = (const unsigned char *)s;
  *c = *u;
  if (*u < 0x80) return 1;
  if ((*u & 0xe0) != 0xc0 || (u[1] & 0xc0) != 0x80) return 0;
  *c = (*u & 0x1fu) << 6 | (u[1] & 0x3fu);
  return 2;
}

/* Writes the bytes of a token that GPT-2's vocabulary spells; false: it has other characters. */
static bool decode_bytes(const char *token, char *to) {
  while (*token) {
    uint32_t c;
    size_t n = short_character(token, &c);
    int byte = n ? byte_of(c) : -1;
    if (byte <= 0) return false;
    *to++ = (char)byte;
    token += n;
  }
  *to = 0;
  return true;
}

/* Ġ or Ċ: the vocabulary is byte-level. */
static bool is_byte_level(const attend_viewer_tokens *t) {
  for (int i = 0; i < t->n; i++)
    if (strstr(t->text[i], "\xc4\xa0") || strstr(t->text[i], "\xc4\x8a")) return true;
  return false;
}

static const char *const separators[] = {"[SEP]", "</s>", "<|endoftext|>", "<eos>", NULL};
static const char *const specials[] = {"[CLS]",        "[PAD]",      "<s>",
                                       "<pad>",        "<bos>",      "<|begin_of_text|>",
                                       "<|im_start|>", "<|im_end|>", NULL};

static bool is_one_of(const char *const *list, const char *token) {
  for (; *list; list++)
    if (!strcmp(*list, token)) return true;
  return false;
}

bool tensors_separator(const char *token) { return is_one_of(separators, token); }

typedef struct {
  const char *text;
  int32_t index;
} entry;

static int by_text(const void *a, const void *b) {
  const entry *x = a, *y = b;
  int order = strcmp(x->text, y->text);
  return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* ids [n]: equal tokens have the id of the first of them. */
static attend_status number_tokens(attend_context *ctx, const struct view_tensors *t,
                                   int32_t *ids) {
  entry *all;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)t->n * sizeof *all, "tokens", &all));
  for (int i = 0; i < t->n; i++) all[i] = (entry){t->token[i], i};
  qsort(all, (size_t)t->n, sizeof *all, by_text);
  for (int i = 0; i < t->n; i++)
    ids[all[i].index] =
        i && !strcmp(all[i].text, all[i - 1].text) ? ids[all[i - 1].index] : all[i].index;
  ctx_free(ctx, all);
  return ATTEND_OK;
}

/* Tokens of both sides, one after the other; positions where there are none. */
static attend_status copy_tokens(const adding *x, const attend_viewer_tensors *given,
                                 const int n[2]) {
  struct view_tensors *t = x->tensors;
  size_t bytes = 0, at = 0;
  enum { NUMBER = 12 };
  for (int s = 0; s < 2; s++)
    for (int i = 0; i < n[s]; i++)
      bytes += given->tokens[s].n ? strlen(given->tokens[s].text[i]) + 1 : NUMBER;
  ATTEND_TRY(ctx_alloc(x->ctx, bytes, "tokens", &t->text));
  ATTEND_TRY(ctx_alloc(x->ctx, (size_t)(n[0] + n[1]) * sizeof *t->token, "tokens", &t->token));
  for (int s = 0; s < 2; s++) {
    const attend_viewer_tokens *from = &given->tokens[s];
    bool decode = is_byte_level(from);
    for (int i = 0; i < n[s]; i++) {
      char *to = t->text + at;
      t->token[t->n++] = to;
      if (!from->n)
        snprintf(to, NUMBER, "%d", i);
      else if (!decode || !decode_bytes(from->text[i], to))
        memcpy(to, from->text[i], strlen(from->text[i]) + 1);
      at += strlen(to) + 1;
    }
  }
  return ATTEND_OK;
}

/* -1: special tokens; 1: after the first separator, of a pair. */
static void mark_parts(const char *const *token, view_side *s) {
  signed char part = 0;
  for (int i = 0; i < s->n; i++) {
    bool separator = tensors_separator(token[i]);
    s->part[i] = separator || is_one_of(specials, token[i]) || i >= s->real ? -1 : part;
    if (separator && i) part = 1;
  }
}

static attend_status take_side(attend_context *ctx, int n, int real, view_side *s) {
  s->n = n;
  s->real = real > 0 ? real : n;
  if (!n) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)n * sizeof *s->ids, "tokens", &s->ids));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, (size_t)n * sizeof *s->start, "tokens", &s->start));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, (size_t)n * sizeof *s->end, "tokens", &s->end));
  return ctx_alloc(ctx, (size_t)n, "tokens", &s->part);
}

/* Spaces that tokens begin with separate words; where none does, every token is a word, but for
 * those that continue one ("##ing"). */
static attend_status join_tokens(attend_context *ctx, const char *const *token, view_side *s,
                                 const char **text) {
  size_t bytes = 2, at = 0;
  bool spaced = false;
  char *to;
  for (int i = 0; i < s->n; i++) {
    bytes += strlen(token[i]) + 1;
    spaced |= *token[i] == ' ' || !strncmp(token[i], "\xe2\x96\x81", 3);
  }
  ATTEND_TRY(ctx_alloc(ctx, bytes, "a text", &to));
  for (int i = 0; i < s->n; i++) {
    const char *from = token[i];
    bool continues = !strncmp(from, "##", 2) && from[2];
    if (s->part[i] < 0) continue;
    if (at && !spaced && !continues) to[at++] = ' ';
    if (continues) from += 2;
    s->start[i] = (int32_t)at;
    for (; *from; from++) {
      bool mark = !strncmp(from, "\xe2\x96\x81", 3);
      to[at++] = mark ? ' ' : *from;
      from += mark ? 2 : 0;
    }
    s->end[i] = (int32_t)at;
  }
  if (!at) to[at++] = '-'; /* a case has a text */
  to[at] = 0;
  *text = to;
  return ATTEND_OK;
}

/* The length of a side that its roles agree on, 0: there is none. */
static attend_status side_length(const adding *x, bool decoder, int *n) {
  const own_attention *self = &x->tensors->of[decoder ? ATTEND_DECODER_SELF : ATTEND_ENCODER_SELF];
  const own_attention *cross = &x->tensors->of[ATTEND_CROSS];
  int a = self->layers ? self->desc.q_len : 0;
  int b = !cross->layers ? 0 : decoder ? cross->desc.q_len : cross->desc.kv_len;
  ATTEND_CHECK(x->ctx, !a || !b || a == b,
               "%s: the %s has %d tokens in self-attention and %d in "
               "cross-attention",
               x->name, decoder ? "decoder" : "encoder", a, b);
  *n = a ? a : b;
  return ATTEND_OK;
}

static attend_status read_tokens(const adding *x, const attend_viewer_tensors *given) {
  attend_viewer_case *c = &x->run->is.c;
  const own_attention *of = x->tensors->of;
  int n[2];
  for (int s = 0; s < 2; s++) {
    ATTEND_TRY(side_length(x, s == 1, &n[s]));
    ATTEND_CHECK(x->ctx, !given->tokens[s].n || given->tokens[s].n == n[s],
                 "%s: %d tokens for attention of %d %s", x->name, given->tokens[s].n, n[s],
                 s == 0 && of[ATTEND_CROSS].layers ? "keys" : "rows");
  }
  ATTEND_TRY(copy_tokens(x, given, n));
  int32_t *ids;
  ATTEND_TRY(ctx_alloc(x->ctx, (size_t)x->tensors->n * sizeof *ids, "tokens", &ids));
  attend_status status = number_tokens(x->ctx, x->tensors, ids);
  const int32_t real[2] = {
      of[ATTEND_ENCODER_SELF].length ? of[ATTEND_ENCODER_SELF].length : of[ATTEND_CROSS].length,
      of[ATTEND_DECODER_SELF].length};
  for (int s = 0; s < 2 && !status; s++) {
    view_side *side = &x->run->side[s];
    const char *const *token = x->tensors->token + (s ? n[0] : 0);
    status = take_side(x->ctx, n[s], real[s], side);
    if (status || !n[s]) continue;
    memcpy(side->ids, ids + (s ? n[0] : 0), (size_t)n[s] * sizeof *ids);
    mark_parts(token, side);
    status = join_tokens(x->ctx, token, side, s && n[0] ? &c->second : &c->text);
  }
  ctx_free(x->ctx, ids);
  return status;
}

/* ---- adding --------------------------------------------------------------------------------------- */

static attend_stack stack_of(const own_attention *a) {
  const attend_desc *d = &a->desc;
  return (attend_stack){.layers = a->layers,
                        .heads = d->heads,
                        .kv_heads = d->kv_heads,
                        .dim = d->dim,
                        .dim_v = d->dim_v ? d->dim_v : d->dim};
}

static attend_status make_config(const adding *x) {
  const own_attention *of = x->tensors->of;
  attend_stack encoder = stack_of(&of[ATTEND_ENCODER_SELF]);
  attend_stack decoder = stack_of(&of[ATTEND_DECODER_SELF]), cross = stack_of(&of[ATTEND_CROSS]);
  if (cross.layers && !encoder.layers) encoder = cross;
  if (cross.layers && !decoder.layers) decoder = cross;
  return attend_config_of_stacks(x->ctx, &encoder, &decoder, x->tensors->n, &x->model->config);
}

static attend_status name_run(const adding *x, const attend_viewer_tensors *given) {
  view_run *run = x->run;
  attend_viewer_case *c = &run->is.c;
  c->size = sizeof *c;
  c->model = (int)x->v->n_models;
  c->step = -1;
  snprintf(run->is.id, sizeof run->is.id, "tensors%d", c->model);
  return copy_string(x->ctx, given->form ? given->form : "softmax", (char **)&c->attention);
}

static attend_status fill(adding *x, const attend_viewer_tensors *given) {
  view_run *run = x->run;
  for (int i = 0; i < given->n; i++) {
    ATTEND_TRY(check_sizes(x, &given->attention[i]));
    ATTEND_TRY(describe(x, &given->attention[i]));
  }
  ATTEND_TRY(check_bytes(x, given));
  x->tensors->steps = given->steps;
  ATTEND_TRY(read_tokens(x, given));
  ATTEND_TRY(record_all(x, given));
  ATTEND_TRY(make_config(x));
  ATTEND_TRY(name_run(x, given));
  ATTEND_TRY(lens_open(x->ctx, run, NULL, &run->lens));
  run_publish(run);
  x->model->is = (attend_viewer_model){x->model->name, x->model->config, NULL, false, &run->is};
  return ATTEND_OK;
}

static attend_status create(adding *x) {
  ATTEND_TRY(ctx_alloc_zeroed(x->ctx, sizeof *x->model, "a model to view", &x->model));
  ATTEND_TRY(copy_string(x->ctx, x->name, &x->model->name));
  ATTEND_TRY(copy_string(x->ctx, "", &x->model->path));
  ATTEND_TRY(ctx_alloc_zeroed(x->ctx, sizeof *x->tensors, "tensors", &x->tensors));
  x->model->tensors = x->tensors;
  ATTEND_TRY(ctx_alloc_zeroed(x->ctx, sizeof *x->run, "a run", &x->run));
  x->run->of = x->model;
  x->run->weights = &x->model->trained; /* none: it stays empty */
  x->run->held = 1;                     /* never dropped */
  return ATTEND_OK;
}

attend_status attend_viewer_add_tensors(attend_viewer *v, const attend_viewer_tensors *tensors) {
  attend_viewer_tensors given;
  ATTEND_TRY(OPTIONS_READ(v->ctx, attend_viewer_tensors, tensors, &given));
  adding x = {.v = v, .ctx = v->ctx, .name = given.name ? given.name : "tensors"};
  ATTEND_CHECK(v->ctx, given.n > 0, "%s: there is no attention to view", x.name);
  ATTEND_TRY(models_room(v));
  attend_status status = create(&x);
  if (!status) status = fill(&x, &given);
  if (status) {
    if (x.run) run_free(v, x.run);
    if (x.model) model_free(v, x.model);
    return status;
  }
  x.tensors->run = x.run;
  x.run->next = v->runs;
  v->runs = x.run;
  v->models[v->n_models++] = x.model;
  return ATTEND_OK;
}
