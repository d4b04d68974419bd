/* Tensors of a file as attention: which tensor is what, by its name and shape (docs/tensors.md), and
 * runs saved for that.
 *
 * Names are cut into words at dots, slashes, dashes and underscores; digits are a layer. The last
 * word says what a tensor is: decoder_attentions.3 and blocks.3.attn.hook_pattern are weights of
 * layer 3.
 */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend/file.h"
#include "attend/json.h"
#include "attend/problem.h"
#include "base/files.h"
#include "base/json_write.h"
#include "view/session.h"

typedef enum {
  WEIGHTS = 0,
  QUERY,
  KEY,
  VALUE,
  OUTPUT,
  DENOMINATOR,
  KINDS,
  MASK,
  TOKENS,
  NONE
} kind;

enum { ROWS = 0, KEYS = 1 };
enum { UNNAMED = ATTEND_ROLES, ROLES, MOST_LAYERS = 4096, WORD = 32 };

static const char *const kind_names[] = {"attention weights", "q", "k", "v", "head output", "lse"};

typedef struct block {
  struct block *next;
  _Alignas(64) unsigned char bytes[];
} block;

typedef struct {           /* one kind of tensor of one role */
  attend_const_view *view; /* [layers], complete strides */
  int layers, heads, rows, width;
} group;

typedef struct {
  attend_context *ctx;
  const char *path;
  const attend_viewer_file *o;
  attend_tensor_file *file;
  attend_json *notes; /* of a run that attend saved, or NULL */
  block *blocks;
  group of[ROLES][KINDS];
  attend_viewer_tokens tokens[2]; /* ROWS, KEYS */
  const attend_tensor *mask;
  attend_viewer_attention attention[ATTEND_ROLES];
  int n;
} reading;

static attend_status take(reading *r, size_t count, size_t size, void *to) {
  block *b;
  ATTEND_TRY(ctx_alloc_zeroed(r->ctx, size_add(sizeof *b, size_times(count, size)), "tensors", &b));
  b->next = r->blocks;
  r->blocks = b;
  memcpy(to, &(void *){b->bytes}, sizeof(void *));
  return ATTEND_OK;
}

/* ---- names -------------------------------------------------------------------------------- */

typedef struct {
  kind kind;
  int role, layer; /* layer -1: all of them */
  bool rows_first; /* [T,H,D] instead of [H,T,D] */
  bool of_keys;    /* tokens */
} naming;

static kind kind_of(const char *word) {
  static const struct {
    const char *words;
    kind kind;
  } known[] = {{" attention attentions attn weights pattern patterns probs arr array ", WEIGHTS},
               {" q query queries ", QUERY},
               {" k key keys ", KEY},
               {" v value values ", VALUE},
               {" output outputs out z ", OUTPUT},
               {" denominator lse ", DENOMINATOR},
               {" mask ", MASK},
               {" tokens ", TOKENS}};
  char padded[WORD + 2];
  snprintf(padded, sizeof padded, " %s ", word);
  for (size_t i = 0; i < sizeof known / sizeof *known && *word; i++)
    if (strstr(known[i].words, padded)) return known[i].kind;
  return NONE;
}

static void read_word(char *word, naming *n) {
  size_t length = strlen(word), letters = length;
  while (letters && isdigit((unsigned char)word[letters - 1])) letters--;
  if (letters < length && length - letters < 6) n->layer = atoi(word + letters);
  word[letters] = 0;
  if (!strncmp(word, "encoder", 7)) n->role = ATTEND_ENCODER_SELF;
  if (!strncmp(word, "decoder", 7)) n->role = ATTEND_DECODER_SELF;
  if (!strncmp(word, "cross", 5)) n->role = ATTEND_CROSS;
  if (!strcmp(word, "hook")) n->rows_first = true; /* TransformerLens: [batch, pos, head, d] */
  if (!strcmp(word, "key")) n->of_keys = true;
  if (letters) n->kind = kind_of(word);
}

static naming name_of(const reading *r, const char *name) {
  naming n = {NONE, UNNAMED, -1, false, false};
  while (*name) {
    char word[WORD];
    size_t length = strcspn(name, "._-/ "), i;
    for (i = 0; i < length && i + 1 < sizeof word; i++)
      word[i] = (char)tolower((unsigned char)name[i]);
    word[i] = 0;
    if (length) read_word(word, &n);
    name += length + (name[length] != 0);
  }
  if (n.kind == WEIGHTS) n.rows_first = false;
  if (r->notes) n.rows_first = true;
  return n;
}

/* ---- numbers -------------------------------------------------------------------------------- */

static float number_at(const attend_tensor *t, int64_t i) {
  const unsigned char *at =
      (const unsigned char *)t->data + (size_t)i * attend_stored_size(t->stored);
  double d;
  int64_t wide;
  int32_t word;
  switch (t->stored) {
    case ATTEND_STORED_F64:
      memcpy(&d, at, sizeof d);
      return (float)d;
    case ATTEND_STORED_I64:
    case ATTEND_STORED_U64:
      memcpy(&wide, at, sizeof wide);
      return (float)wide;
    case ATTEND_STORED_I32:
    case ATTEND_STORED_U32:
      memcpy(&word, at, sizeof word);
      return (float)word;
    case ATTEND_STORED_I8:
      return (float)(signed char)*at;
    default:
      return (float)*at;
  }
}

/* All of a tensor as f32: where it lies if it is that. */
static attend_status floats_of(reading *r, const attend_tensor *t, const float **floats) {
  size_t n = (size_t)t->count;
  float *to;
  if (t->stored == ATTEND_STORED_F32 && (uintptr_t)t->data % sizeof(float) == 0) {
    *floats = t->data;
    return ATTEND_OK;
  }
  bool halves = t->stored == ATTEND_STORED_F16 || t->stored == ATTEND_STORED_BF16;
  ATTEND_CHECK(r->ctx,
               halves || t->stored == ATTEND_STORED_F32 || t->stored == ATTEND_STORED_F64 ||
                   t->stored == ATTEND_STORED_BOOL || t->stored == ATTEND_STORED_U8 ||
                   t->stored == ATTEND_STORED_I8 || t->stored == ATTEND_STORED_I32 ||
                   t->stored == ATTEND_STORED_I64,
               "%s: \"%.100s\" is stored as %s: save it as float32", r->path, t->name, t->dtype);
  ATTEND_TRY(take(r, n, sizeof *to, &to));
  *floats = to;
  if (t->stored == ATTEND_STORED_F32)
    memcpy(to, t->data, t->bytes);
  else if (halves)
    attend_convert_to_f32(t->stored == ATTEND_STORED_F16 ? ATTEND_F16 : ATTEND_BF16, t->data, n,
                          to);
  else
    for (size_t i = 0; i < n; i++) to[i] = number_at(t, (int64_t)i);
  return ATTEND_OK;
}

/* ---- shapes ---------------------------------------------------------------------------------- */

static void shape_text(const attend_tensor *t, char *text, size_t size) {
  size_t n = (size_t)snprintf(text, size, "[");
  for (int i = 0; i < t->rank && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  if (n < size) snprintf(text + n, size - n, "]");
}

static attend_status refuse_shape(const reading *r, const attend_tensor *t, const char *why) {
  char shape[128];
  shape_text(t, shape, sizeof shape);
  return fail(r->ctx, ATTEND_INVALID, "%s: \"%.100s\" has the shape %s: %s", r->path, t->name,
              shape, why);
}

typedef struct {
  int64_t layers, dim[3]; /* [H,T,W], or [T,H,W] */
} shape;

/* [L,B,H,T,W] with what is left out and a batch of 1. */
static attend_status read_shape(const reading *r, const attend_tensor *t, const naming *n,
                                shape *s) {
  int64_t d[6], rank = 0;
  for (int i = 0; i < t->rank && i < 5; i++) d[rank++] = t->shape[i];
  if (n->kind == DENOMINATOR && !n->rows_first) d[rank++] = 1; /* [H,T] */
  int most = n->layer < 0 ? 5 : 4;
  if (t->rank < 2 || rank > most)
    return refuse_shape(r, t, "attention has [layers, heads, tokens, ..] or less");
  bool batched = rank == most;
  if (batched && d[rank - 4] != 1)
    return refuse_shape(r, t, "it holds a batch of texts: save one of them");
  s->layers = n->layer >= 0 || rank < 4 ? 1 : d[0];
  for (int i = 0; i < 3; i++) s->dim[i] = rank + i >= 3 ? d[rank + i - 3] : 1;
  for (int i = 0; i < 3; i++)
    if (s->dim[i] < 1 || s->dim[i] > ATTEND_VIEWER_LONGEST)
      return refuse_shape(r, t, "it has a dimension that is empty or too long");
  if (s->layers < 1 || s->layers > MOST_LAYERS)
    return refuse_shape(r, t, "there are from 1 to 4096 layers");
  return ATTEND_OK;
}

/* One tensor's layers in a group. */
static attend_status add_layers(reading *r, const attend_tensor *t, const naming *n, group *g) {
  shape s = {0};
  const float *data;
  ATTEND_TRY(read_shape(r, t, n, &s));
  int heads = (int)s.dim[n->rows_first], rows = (int)s.dim[!n->rows_first], width = (int)s.dim[2];
  ptrdiff_t along = width, across = (ptrdiff_t)s.dim[1] * width;
  if (n->layer < 0 && g->layers) return refuse_shape(r, t, "there are two of this kind");
  if (g->layers && (heads != g->heads || rows != g->rows || width != g->width))
    return refuse_shape(r, t, "layers have one shape");
  ATTEND_TRY(floats_of(r, t, &data));
  if (!g->view) ATTEND_TRY(take(r, MOST_LAYERS, sizeof *g->view, &g->view));
  g->heads = heads, g->rows = rows, g->width = width;
  for (int i = 0; i < s.layers; i++) {
    int layer = n->layer < 0 ? i : n->layer;
    if (layer >= MOST_LAYERS) return refuse_shape(r, t, "there are at most 4096 layers");
    g->view[layer].data = data + (size_t)i * (size_t)(heads * (ptrdiff_t)rows * width);
    g->view[layer].stride[0] = heads * (ptrdiff_t)rows * width;
    g->view[layer].stride[1] = n->rows_first ? along : across;
    g->view[layer].stride[2] = n->rows_first ? across : along;
    g->view[layer].stride[3] = 1;
    if (layer >= g->layers) g->layers = layer + 1;
  }
  return ATTEND_OK;
}

/* ---- tokens ------------------------------------------------------------------------------------ */

static attend_status take_tokens(reading *r, int n, size_t bytes, attend_viewer_tokens *t,
                                 const char ***list, char **text) {
  ATTEND_CHECK(r->ctx, n > 0 && n <= ATTEND_VIEWER_LONGEST, "%s: %d tokens: there are from 1 to %d",
               r->path, n, ATTEND_VIEWER_LONGEST);
  ATTEND_TRY(take(r, (size_t)n, sizeof **list, list));
  ATTEND_TRY(take(r, bytes + 1, 1, text));
  *t = (attend_viewer_tokens){n, *list};
  return ATTEND_OK;
}

/* A list of strings, or an object that has one. */
static attend_status tokens_of_json(reading *r, const attend_json *json, attend_viewer_tokens *t) {
  const char **list;
  char *to;
  size_t bytes = 0;
  if (attend_json_kind_of(json) == ATTEND_JSON_OBJECT) json = attend_json_get(json, "tokens");
  size_t n = attend_json_count(json);
  for (size_t i = 0; i < n; i++) {
    const char *text = attend_json_string(attend_json_at(json, i), NULL);
    ATTEND_CHECK(r->ctx, text && attend_json_kind_of(json) == ATTEND_JSON_ARRAY,
                 "%s: tokens in JSON are a list of strings", r->path);
    bytes += strlen(text) + 1;
  }
  ATTEND_TRY(take_tokens(r, n > ATTEND_VIEWER_LONGEST ? -1 : (int)n, bytes, t, &list, &to));
  for (size_t i = 0; i < n; i++) {
    size_t length = strlen(attend_json_string(attend_json_at(json, i), NULL)) + 1;
    memcpy(to, attend_json_string(attend_json_at(json, i), NULL), length);
    list[i] = to;
    to += length;
  }
  return ATTEND_OK;
}

/* One token a line, or words between spaces. */
static attend_status tokens_of_words(reading *r, const char *text, size_t length,
                                     attend_viewer_tokens *t) {
  while (length && strchr("\r\n", text[length - 1])) length--;
  const char *space = memchr(text, '\n', length) ? "\n" : " \t";
  const char **list;
  char *to;
  int n = 0;
  ATTEND_TRY(take_tokens(r, 1, length, t, &list, &to));
  memcpy(to, text, length);
  to[length] = 0;
  ATTEND_TRY(take(r, length / 2 + 2 + (*space == '\n' ? length : 0), sizeof *list, &list));
  for (char *rest = to, *one; (one = strsep(&rest, space));) {
    size_t end = strlen(one);
    if (*space == '\n' && end && one[end - 1] == '\r') one[end - 1] = 0;
    if (*one || *space == '\n') list[n++] = one;
  }
  ATTEND_CHECK(r->ctx, n > 0 && n <= ATTEND_VIEWER_LONGEST, "%s: there are no tokens", r->path);
  *t = (attend_viewer_tokens){n, list};
  return ATTEND_OK;
}

static attend_status tokens_of_text(reading *r, const char *text, size_t length,
                                    attend_viewer_tokens *t) {
  attend_json *json;
  size_t at = 0;
  while (at < length && isspace((unsigned char)text[at])) at++;
  bool listed = at < length && (text[at] == '[' || text[at] == '{') &&
                (text[length - 1] == ']' || text[length - 1] == '}' || text[length - 1] == '\n');
  if (!listed || !strncmp(text + at, "[CLS]", 5)) return tokens_of_words(r, text, length, t);
  ATTEND_TRY(attend_json_parse(r->ctx, "the tokens", text, length, &json));
  attend_status status = tokens_of_json(r, json, t);
  attend_json_free(json);
  return status;
}

/* An option: a file, or the tokens themselves. */
static attend_status tokens_of_option(reading *r, const char *given, attend_viewer_tokens *t) {
  char *bytes;
  size_t length;
  bool file = name_ends(given, ".json") || name_ends(given, ".txt");
  if (!file) return tokens_of_text(r, given, strlen(given), t);
  ATTEND_TRY(file_read(r->ctx, given, &bytes, &length));
  attend_status status = tokens_of_text(r, bytes, length, t);
  ctx_free(r->ctx, bytes);
  return status;
}

static size_t put_utf8(uint32_t c, char *to) {
  if (c < 0x80) return *to = (char)c, 1;
  int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
  static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
  for (int i = more; i > 0; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
  *to = (char)(first[more] | c);
  return (size_t)more + 1;
}

/* Characters [T, n]: codes of four bytes, or bytes; numbers [T]: ids. */
static attend_status tokens_of_tensor(reading *r, const attend_tensor *t,
                                      attend_viewer_tokens *to) {
  bool wide = t->stored == ATTEND_STORED_U32;
  if (t->rank == 1 && t->stored == ATTEND_STORED_U8)
    return tokens_of_text(r, t->data, t->bytes, to);
  bool ids = t->rank == 1 && (t->stored == ATTEND_STORED_I64 || t->stored == ATTEND_STORED_I32);
  if (!ids && (t->rank != 2 || (!wide && t->stored != ATTEND_STORED_U8)))
    return refuse_shape(r, t, "tokens are strings [T], ids [T], or a text of bytes");
  const char **list;
  char *at;
  int64_t n = t->shape[0], width = ids ? 24 : t->shape[1];
  ATTEND_TRY(take_tokens(r, n > ATTEND_VIEWER_LONGEST ? -1 : (int)n,
                         SIZE_PRODUCT((size_t)n, (size_t)width + 1, wide ? 4 : 1), to, &list, &at));
  for (int64_t i = 0; i < n; i++) {
    list[i] = at;
    if (ids) at += snprintf(at, 24, "%.0f", (double)number_at(t, i));
    for (int64_t j = 0; j < width && !ids; j++) {
      uint32_t c = ((const unsigned char *)t->data)[i * width + j];
      if (wide) memcpy(&c, (const unsigned char *)t->data + 4 * (i * width + j), 4);
      if (c && c < 0x110000) at += put_utf8(c, at);
    }
    *at++ = 0;
  }
  return ATTEND_OK;
}

/* ---- the tensors of a file ------------------------------------------------------------------------ */

static attend_status add_tensor(reading *r, const attend_tensor *t) {
  naming n = name_of(r, t->name);
  if (n.kind < KINDS) return add_layers(r, t, &n, &r->of[n.role][n.kind]);
  if (n.kind == TOKENS) {
    bool keys = n.of_keys || (n.role == ATTEND_ENCODER_SELF);
    return tokens_of_tensor(r, t, &r->tokens[keys ? KEYS : ROWS]);
  }
  if (n.kind == MASK) r->mask = t;
  return ATTEND_OK;
}

static attend_status check_layers(const reading *r, int role, int k) {
  const group *g = &r->of[role][k];
  for (int i = 0; i < g->layers; i++)
    ATTEND_CHECK(r->ctx, g->view[i].data,
                 "%s: the %s of layer %d are missing, and layer %d is there", r->path,
                 kind_names[k], i, g->layers - 1);
  return ATTEND_OK;
}

/* A single tensor needs no name. */
static attend_status add_single(reading *r) {
  const attend_tensor *single = NULL;
  size_t n = 0;
  char names[200] = "";
  for (size_t i = 0; i < attend_tensor_file_count(r->file); i++) {
    const attend_tensor *t = attend_tensor_file_get(r->file, i);
    naming name = name_of(r, t->name);
    size_t used = strlen(names);
    snprintf(names + used, sizeof names - used, "%s%.40s", *names ? ", " : "", t->name);
    if (name.kind != NONE || t->rank < 2) continue;
    single = t;
    n++;
  }
  naming plain = {WEIGHTS, UNNAMED, -1, false, false};
  if (n == 1) return add_layers(r, single, &plain, &r->of[UNNAMED][WEIGHTS]);
  return fail(r->ctx, ATTEND_INVALID,
              "%s has no attention that is known by its name: call weights attention [L,H,T,S] or "
              "attention.0, .. [H,T,S], and queries, keys and values q, k, v [L,H,T,D]; it has %s",
              r->path, *names ? names : "no tensors");
}

static bool has_attention(const reading *r, int role) {
  return r->of[role][WEIGHTS].layers || (r->of[role][QUERY].layers && r->of[role][KEY].layers);
}

static attend_status add_all(reading *r) {
  bool any = false;
  for (size_t i = 0; i < attend_tensor_file_count(r->file); i++)
    ATTEND_TRY(add_tensor(r, attend_tensor_file_get(r->file, i)));
  for (int role = 0; role < ROLES; role++) any |= has_attention(r, role);
  if (!any) ATTEND_TRY(add_single(r));
  for (int role = 0; role < ROLES; role++)
    for (int k = 0; k < KINDS; k++) ATTEND_TRY(check_layers(r, role, k));
  return ATTEND_OK;
}

/* ---- masks -------------------------------------------------------------------------------------------- */

static attend_status set_lengths(reading *r, attend_viewer_attention *a, int32_t n) {
  int32_t *length;
  ATTEND_TRY(take(r, 1, sizeof *length, &length));
  *length = n;
  a->of.mask.lengths = length;
  return ATTEND_OK;
}

static void set_causal(attend_viewer_attention *a) {
  a->of.mask.causal = a->of.q_len == a->of.kv_len ? ATTEND_CAUSAL : ATTEND_CAUSAL_BOTTOM;
}

/* From here on all keys are hidden, and none before. */
static bool is_prefix(const float *visible, int n, int32_t *length) {
  *length = 0;
  while (*length < n && visible[*length] != 0) ++*length;
  for (int i = *length; i < n; i++)
    if (visible[i] != 0) return false;
  return *length > 0;
}

static bool is_lower(const float *visible, int n) {
  for (int i = 0; i < n; i++)
    for (int j = 0; j < n; j++)
      if ((visible[i * n + j] != 0) != (j <= i)) return false;
  return true;
}

/* Whole numbers and truths say what is visible; floats are added to the scores, and what is as low
 * as a mask's lowest number is hidden. */
static attend_status add_dense(reading *r, attend_viewer_attention *a, const float *x, bool added,
                               const int64_t dim[3]) {
  size_t n = (size_t)(dim[0] * dim[1] * dim[2]);
  float *to;
  ATTEND_TRY(take(r, n, sizeof *to, &to));
  for (size_t i = 0; i < n; i++)
    to[i] = added ? (x[i] <= -1e30f ? -INFINITY : x[i]) : (x[i] != 0 ? 0 : -INFINITY);
  a->of.bias.kind = ATTEND_DENSE;
  a->of.bias.dense =
      (attend_view){to, {0, dim[0] > 1 ? dim[1] * dim[2] : 0, dim[1] > 1 ? dim[2] : 0, 1}};
  return ATTEND_OK;
}

static attend_status read_mask(reading *r, const attend_tensor *t, attend_viewer_attention *a) {
  const int H = a->of.heads, T = a->of.q_len, S = a->of.kv_len;
  bool added = t->stored == ATTEND_STORED_F32 || t->stored == ATTEND_STORED_F16 ||
               t->stored == ATTEND_STORED_BF16 || t->stored == ATTEND_STORED_F64;
  int64_t dim[3] = {1, 1, 1};
  int first = 0;
  const float *x;
  int32_t length;
  while (first < t->rank - 1 && t->shape[first] == 1) first++;
  if (t->rank < 1 || t->rank - first > 3)
    return refuse_shape(r, t, "a mask is [T,S], [S] or [H,T,S]");
  for (int i = first; i < t->rank; i++) dim[3 - t->rank + i] = t->shape[i];
  if (dim[2] != S || (dim[1] != T && dim[1] != 1) || (dim[0] != H && dim[0] != 1))
    return refuse_shape(r, t, "the mask does not fit the attention's heads, queries and keys");
  ATTEND_TRY(floats_of(r, t, &x));
  if (!added && dim[0] == 1 && dim[1] == 1 && is_prefix(x, S, &length))
    return length < S ? set_lengths(r, a, length) : ATTEND_OK;
  if (!added && dim[0] == 1 && T == S && dim[1] == T && T > 1 && is_lower(x, T)) {
    set_causal(a);
    return ATTEND_OK;
  }
  return a->weights ? ATTEND_OK : add_dense(r, a, x, added, dim);
}

static attend_status choose_mask(reading *r, attend_viewer_attention *a) {
  const char *given = r->o->mask ? r->o->mask : attend_tensor_file_note_find(r->file, "mask");
  char *end = NULL;
  if (given && !strcmp(given, "causal")) {
    set_causal(a);
    return ATTEND_OK;
  }
  long n = given ? strtol(given, &end, 10) : 0;
  if (given && *given && !*end) {
    ATTEND_CHECK(r->ctx, n > 0 && n <= a->of.kv_len,
                 "%s: a mask of %ld keys that are not padding: there are %d keys", r->path, n,
                 a->of.kv_len);
    return set_lengths(r, a, (int32_t)n);
  }
  const attend_tensor *t = given ? attend_tensor_file_find(r->file, given) : r->mask;
  ATTEND_CHECK(
      r->ctx, t || !given,
      "%s has no mask \"%.100s\": name a tensor of the file, causal, or the number of keys "
      "that are not padding",
      r->path, given);
  return t ? read_mask(r, t, a) : ATTEND_OK;
}

/* Whether no weight falls on a later key. */
static bool looks_causal(const group *g) {
  if (g->rows != g->width || g->rows < 2) return false;
  for (int l = 0; l < g->layers; l++)
    for (int h = 0; h < g->heads; h++)
      for (int i = 0; i < g->rows; i++)
        for (int j = i + 1; j < g->width; j++) {
          const attend_const_view *v = &g->view[l];
          if (v->data[h * v->stride[1] + i * v->stride[2] + j * v->stride[3]] != 0) return false;
        }
  return true;
}

/* ---- what attend saved beside them ------------------------------------------------------------------- */

static attend_status read_windows(reading *r, const attend_json *list, attend_viewer_attention *a) {
  int *windows;
  int64_t n;
  if (attend_json_count(list) != (size_t)a->layers) return ATTEND_OK;
  ATTEND_TRY(take(r, (size_t)a->layers, sizeof *windows, &windows));
  for (int i = 0; i < a->layers; i++)
    if (attend_json_integer(attend_json_at(list, (size_t)i), &n) && n >= 0 && n < INT32_MAX)
      windows[i] = (int)n;
  a->windows = windows;
  return ATTEND_OK;
}

static attend_status read_bias(reading *r, const attend_json *notes, attend_viewer_attention *a) {
  const char *role = attend_role_name(a->role), *text = NULL;
  attend_bias *b = &a->of.bias;
  char name[32];
  const float *table;
  int64_t distance = 0;
  ATTEND_TRY(attend_json_read_string(r->ctx, r->path, notes, "bias", &text));
  if (!text) return ATTEND_OK;
  bool buckets = !strcmp(text, "buckets");
  snprintf(name, sizeof name, "%s.%s", role, buckets ? "bias" : "slopes");
  const attend_tensor *t = attend_tensor_file_find(r->file, name);
  int64_t heads = !t || t->rank < 1 ? 0 : t->shape[t->rank - 1];
  ATTEND_CHECK(r->ctx, t && t->rank == (buckets ? 2 : 1) && heads == a->of.heads,
               "%s: it has no tensor %s of %d heads", r->path, name, a->of.heads);
  ATTEND_TRY(floats_of(r, t, &table));
  b->kind = buckets ? ATTEND_BUCKETS : ATTEND_ALIBI;
  if (!buckets) return b->slopes = table, ATTEND_OK;
  ATTEND_CHECK(r->ctx, t->shape[0] > 0 && t->shape[0] <= 1 << 20, "%s: %s has %lld buckets",
               r->path, name, (long long)t->shape[0]);
  b->table = table;
  b->buckets = (int)t->shape[0];
  ATTEND_TRY(
      attend_json_read_integer(r->ctx, r->path, notes, "max_distance", 0, 1 << 30, &distance));
  b->max_distance = (int)distance;
  return attend_json_read_boolean(r->ctx, r->path, notes, "one_sided", &b->one_sided);
}

static attend_status read_notes(reading *r, attend_viewer_attention *a) {
  const attend_json *roles = attend_json_get(r->notes, "roles");
  const attend_json *notes = attend_json_get(roles, attend_role_name(a->role));
  bool causal = false;
  double scale = 0, cap = 0;
  int64_t keys = 0;
  const char *form = NULL;
  if (!notes) return ATTEND_OK;
  ATTEND_TRY(attend_json_read_boolean(r->ctx, r->path, notes, "causal", &causal));
  ATTEND_TRY(attend_json_read_number(r->ctx, r->path, notes, "scale", -1e6, 1e6, &scale));
  ATTEND_TRY(attend_json_read_number(r->ctx, r->path, notes, "soft_cap", 0, 1e6, &cap));
  ATTEND_TRY(attend_json_read_integer(r->ctx, r->path, notes, "keys", 0, a->of.kv_len, &keys));
  ATTEND_TRY(attend_json_read_string(r->ctx, r->path, notes, "form", &form));
  if (causal) set_causal(a);
  if (keys) ATTEND_TRY(set_lengths(r, a, (int32_t)keys));
  if (form) ATTEND_TRY(attend_form_parse(r->ctx, form, &a->of.form));
  a->of.scale = (float)scale;
  a->of.soft_cap = (float)cap;
  ATTEND_TRY(read_windows(r, attend_json_get(notes, "windows"), a));
  return read_bias(r, notes, a);
}

/* ---- attention ------------------------------------------------------------------------------------------ */

static attend_status fits(const reading *r, const group *g, kind k, int layers, int heads, int rows,
                          int width) {
  ATTEND_CHECK(
      r->ctx,
      g->layers == layers && g->heads == heads && g->rows == rows && (!width || g->width == width),
      "%s: %s is [%d, %d, %d, %d], which does not fit the others: [%d, %d, %d, %d]", r->path,
      kind_names[k], g->layers, g->heads, g->rows, g->width, layers, heads, rows,
      width ? width : g->width);
  return ATTEND_OK;
}

static attend_status add_vectors(reading *r, const group *g, attend_viewer_attention *a) {
  attend_desc *d = &a->of;
  const int L = a->layers, H = d->heads, T = d->q_len, S = d->kv_len;
  if (!g[QUERY].layers || !g[KEY].layers) return ATTEND_OK;
  d->dim = g[QUERY].width;
  d->kv_heads = g[KEY].heads;
  ATTEND_CHECK(r->ctx, d->kv_heads > 0 && H % d->kv_heads == 0,
               "%s: %d heads of q cannot share %d heads of k", r->path, H, d->kv_heads);
  ATTEND_TRY(fits(r, &g[QUERY], QUERY, L, H, T, 0));
  ATTEND_TRY(fits(r, &g[KEY], KEY, L, d->kv_heads, S, d->dim));
  a->q = g[QUERY].view, a->k = g[KEY].view;
  if (!g[VALUE].layers) return ATTEND_OK;
  ATTEND_TRY(fits(r, &g[VALUE], VALUE, L, d->kv_heads, S, 0));
  d->dim_v = g[VALUE].width;
  a->v = g[VALUE].view;
  if (!g[OUTPUT].layers || !g[DENOMINATOR].layers) return ATTEND_OK;
  ATTEND_TRY(fits(r, &g[OUTPUT], OUTPUT, L, H, T, d->dim_v));
  ATTEND_TRY(fits(r, &g[DENOMINATOR], DENOMINATOR, L, H, T, 1));
  a->out = g[OUTPUT].view, a->lse = g[DENOMINATOR].view;
  return ATTEND_OK;
}

static attend_status add_attention(reading *r, int role) {
  const group *g = r->of[role], *shape_of = g[WEIGHTS].layers ? &g[WEIGHTS] : &g[QUERY];
  attend_viewer_attention *a = &r->attention[r->n];
  bool weights = g[WEIGHTS].layers > 0;
  if (!has_attention(r, role)) return ATTEND_OK;
  *a = (attend_viewer_attention){
      .layers = shape_of->layers,
      .of = {ATTEND_INIT(attend_desc), .heads = shape_of->heads, .q_len = shape_of->rows,
             .kv_len = weights ? g[WEIGHTS].width : g[KEY].rows},
      .is_signed = weights && r->o->is_signed,
      .weights = weights ? g[WEIGHTS].view : NULL};
  bool cross = a->of.q_len != a->of.kv_len || r->tokens[KEYS].n;
  a->role = role != UNNAMED ? (attend_role)role : cross ? ATTEND_CROSS : ATTEND_ENCODER_SELF;
  if (a->role != ATTEND_CROSS && weights && looks_causal(&g[WEIGHTS])) set_causal(a);
  ATTEND_TRY(add_vectors(r, g, a));
  ATTEND_TRY(r->notes ? read_notes(r, a) : choose_mask(r, a));
  if (role == UNNAMED && !cross && a->of.mask.causal) a->role = ATTEND_DECODER_SELF;
  r->n++;
  return ATTEND_OK;
}

static attend_status tokens_of_note(reading *r, const char *name, attend_viewer_tokens *t) {
  const char *text = attend_tensor_file_note_find(r->file, name);
  return text && !t->n ? tokens_of_text(r, text, strlen(text), t) : ATTEND_OK;
}

static attend_status read_tokens(reading *r) {
  ATTEND_TRY(tokens_of_note(r, "tokens", &r->tokens[ROWS]));
  ATTEND_TRY(tokens_of_note(r, "decoder_tokens", &r->tokens[ROWS]));
  ATTEND_TRY(tokens_of_note(r, "key_tokens", &r->tokens[KEYS]));
  ATTEND_TRY(tokens_of_note(r, "encoder_tokens", &r->tokens[KEYS]));
  if (r->o->tokens) ATTEND_TRY(tokens_of_option(r, r->o->tokens, &r->tokens[ROWS]));
  if (r->o->key_tokens) ATTEND_TRY(tokens_of_option(r, r->o->key_tokens, &r->tokens[KEYS]));
  return ATTEND_OK;
}

/* Where an encoder is alone, its tokens are the rows. */
static void place_tokens(const reading *r, attend_viewer_tensors *t) {
  bool has[ATTEND_ROLES] = {false};
  for (int i = 0; i < r->n; i++) has[r->attention[i].role] = true;
  bool alone = !has[ATTEND_CROSS] && !has[ATTEND_DECODER_SELF];
  t->tokens[0] = alone && r->tokens[ROWS].n ? r->tokens[ROWS] : r->tokens[KEYS];
  if (!alone) t->tokens[1] = r->tokens[ROWS];
}

static attend_status read_file(attend_viewer *v, reading *r, const char *name) {
  const char *text = attend_tensor_file_note_find(r->file, "attend"), *form = NULL;
  if (text) ATTEND_TRY(attend_json_parse(r->ctx, r->path, text, strlen(text), &r->notes));
  ATTEND_TRY(attend_json_read_string(r->ctx, r->path, r->notes, "form", &form));
  const char *own = attend_json_string(attend_json_get(r->notes, "name"), NULL);
  ATTEND_TRY(add_all(r));
  ATTEND_TRY(read_tokens(r));
  for (int role = 0; role < ROLES; role++) ATTEND_TRY(add_attention(r, role));
  attend_viewer_tensors t = {ATTEND_INIT(attend_viewer_tensors),
                             .name = own && !r->o->name ? own : name,
                             .n = r->n,
                             .attention = r->attention,
                             .steps = r->notes != NULL,
                             .form = form && strlen(form) < ATTEND_VIEWER_FORM ? form : NULL};
  place_tokens(r, &t);
  return attend_viewer_add_tensors(v, &t);
}

attend_status attend_viewer_add_file(attend_viewer *v, const char *path,
                                     const attend_viewer_file *options) {
  attend_viewer_file o;
  ATTEND_TRY(OPTIONS_READ(v->ctx, attend_viewer_file, options, &o));
  reading r = {.ctx = v->ctx, .path = path, .o = &o};
  const char *slash = strrchr(path, '/');
  ATTEND_TRY(attend_tensor_file_open(v->ctx, path, &r.file));
  attend_status status = read_file(v, &r, o.name ? o.name : slash ? slash + 1 : path);
  for (block *next; r.blocks; r.blocks = next) {
    next = r.blocks->next;
    ctx_free(r.ctx, r.blocks);
  }
  attend_json_free(r.notes);
  attend_tensor_file_free(r.file);
  return status;
}

/* ---- saving ------------------------------------------------------------------------------------------------ */

static bool describe(const view_run *run, attend_role role, int layer, attend_desc *d) {
  *d = (attend_desc){ATTEND_INIT(attend_desc)};
  if (run->of->tensors) return tensors_describe(role, layer, d, run->of->tensors);
  return attend_model_attention(run->model, role, layer, d);
}

static void put_windows(json_writer *w, const view_run *run, attend_role role) {
  attend_desc d;
  json_member(w, "windows");
  json_open(w, '[');
  for (int i = 0; i < run->is.shape[role].layers; i++)
    if (describe(run, role, i, &d)) json_put_integer(w, d.mask.window);
  json_close(w, ']');
}

static void put_role(json_writer *w, const view_run *run, attend_role role) {
  const attend_lens_shape *s = &run->is.shape[role];
  char form[ATTEND_VIEWER_FORM];
  attend_desc d;
  if (!describe(run, role, 0, &d)) return;
  snprintf(form, sizeof form, "%.*s", (int)strcspn(run->is.c.attention, "@"), run->is.c.attention);
  json_member(w, attend_role_name(role));
  json_open(w, '{');
  json_member_string(w, "form", d.form.kind == ATTEND_SOFTMAX ? "softmax" : form);
  json_member_boolean(w, "causal", s->causal);
  json_member_number(w, "scale", (double)s->scale);
  json_member_number(w, "soft_cap", (double)d.soft_cap);
  if (s->real_keys < s->keys) json_member_integer(w, "keys", s->real_keys);
  put_windows(w, run, role);
  if (d.bias.kind == ATTEND_BUCKETS || d.bias.kind == ATTEND_ALIBI)
    json_member_string(w, "bias", d.bias.kind == ATTEND_BUCKETS ? "buckets" : "alibi");
  if (d.bias.kind == ATTEND_BUCKETS) {
    json_member_integer(w, "max_distance", d.bias.max_distance);
    json_member_boolean(w, "one_sided", d.bias.one_sided);
  }
  json_close(w, '}');
}

static void put_run(json_writer *w, const view_run *run) {
  json_open(w, '{');
  json_member_string(w, "name", run->of->name);
  json_member_string(w, "form", run->is.c.attention);
  json_member(w, "roles");
  json_open(w, '{');
  for (int i = 0; i < ATTEND_ROLES; i++)
    if (run->is.has_role[i]) put_role(w, run, (attend_role)i);
  json_close(w, '}');
  json_close(w, '}');
}

/* The piece, if it is shown as the token is; otherwise what is shown. */
static void put_token(json_writer *w, const attend_viewer_model *m, int32_t id) {
  char piece[ATTEND_VIEWER_TOKEN], label[ATTEND_VIEWER_TOKEN], again[ATTEND_VIEWER_TOKEN];
  size_t n = attend_viewer_token_text(m, id, piece);
  attend_viewer_token_label(m, id, label);
  attend_piece_label(piece, n, again, sizeof again);
  json_put_string(w, strcmp(label, again) ? label : piece);
}

static void put_tokens(json_writer *w, const view_run *run, int side) {
  const view_side *s = &run->side[side];
  json_open(w, '[');
  for (int i = 0; i < s->n; i++) put_token(w, &run->of->is, s->ids[i]);
  json_close(w, ']');
}

enum { MOST_NOTES = 3 };

/* Buckets of each role that has them. */
static size_t list_biases(const view_run *run, char (*names)[32], attend_tensor *list) {
  size_t n = 0;
  for (int i = 0; i < ATTEND_ROLES; i++) {
    attend_desc d;
    if (!run->is.has_role[i] || !describe(run, (attend_role)i, 0, &d)) continue;
    bool buckets = d.bias.kind == ATTEND_BUCKETS;
    if (!buckets && d.bias.kind != ATTEND_ALIBI) continue;
    snprintf(names[n], sizeof names[n], "%s.%s", attend_role_name((attend_role)i),
             buckets ? "bias" : "slopes");
    int count = d.bias.buckets ? d.bias.buckets : 32;
    list[n] = (attend_tensor){.name = names[n],
                              .stored = ATTEND_STORED_F32,
                              .rank = buckets ? 2 : 1,
                              .shape = {buckets ? count : d.heads, d.heads},
                              .data = buckets ? d.bias.table : d.bias.slopes};
    n++;
  }
  return n;
}

attend_status attend_viewer_save(attend_viewer *v, const attend_viewer_run *of, const char *path) {
  const view_run *run = (const view_run *)of;
  json_writer text[MOST_NOTES];
  attend_note notes[MOST_NOTES] = {{"attend", NULL}, {"tokens", NULL}, {"key_tokens", NULL}};
  bool both = run->side[0].n && run->side[1].n;
  attend_tensor biases[ATTEND_ROLES] = {{0}};
  char names[ATTEND_ROLES][32];
  attend_status status = ATTEND_OK;
  for (int i = 0; i < MOST_NOTES; i++) text[i] = json_writer_text(v->ctx);
  put_run(&text[0], run);
  put_tokens(&text[1], run, run->side[1].n != 0);
  put_tokens(&text[2], run, 0);
  for (int i = 0; i < MOST_NOTES && !status; i++) {
    status = json_finish(&text[i]);
    notes[i].text = text[i].text;
  }
  size_t n = list_biases(run, names, biases);
  if (!status) status = attend_trace_save_noted(run->trace, path, n, biases, both ? 3 : 2, notes);
  for (int i = 0; i < MOST_NOTES; i++) json_writer_free(&text[i]);
  return status;
}
