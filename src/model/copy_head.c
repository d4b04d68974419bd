/* Pointer-generator head (See et al. 2017): p(word) mixes the vocabulary's softmax
 * with attention over the words of the source, so that rare words can be copied.
 *
 * For encoder-decoders whose config.json has attend_copy_width.
 * layers/copy.h has the formula. The keys are made once, with those of
 * cross-attention; sequences that continue one another share them.
 */
#include <math.h>
#include <string.h>

#include "kernels/kernels.h"
#include "model/transformer.h"

static const char what[] = "what may be copied";

#define TAKE(list, place, field, count) \
  ATTEND_TRY(blocks_add(r->ctx, list, place, size_times(count, sizeof *c->field), what, &c->field))

attend_status copy_make(attend_session *r) {
  copying *c = &r->copy;
  size_t batch = (size_t)r->batch, rows = (size_t)r->head_limit;
  if (!r->model->copy_k.forward) return ATTEND_OK;
  TAKE(&r->memory, ON_HOST, length, batch);
  TAKE(&r->memory, ON_HOST, of, batch);
  TAKE(&r->memory, ON_HOST, from, batch);
  TAKE(&r->memory, ON_HOST, texts, rows);
  TAKE(&r->memory, ON_HOST, seen, (size_t)r->model->config.vocab);
  TAKE(&r->memory, ON_DEVICE, q, size_times(rows, copy_width(r)));
  TAKE(&r->memory, ON_DEVICE, before, size_times(2, copy_width(r)));
  TAKE(&r->memory, ON_DEVICE, gate, size_times(rows, LANES));
  return ATTEND_OK;
}

/* Memory for so many tokens of all texts, n of one; the contents are lost if it grows. */
static attend_status copy_reserve(attend_session *r, size_t tokens, int n) {
  copying *c = &r->copy;
  if (tokens <= c->capacity && n <= c->span) return ATTEND_OK;
  blocks_free(r->ctx, &c->memory);
  c->capacity = 0;
  c->n = c->span = 0;
  TAKE(&c->memory, ON_HOST, ids, tokens);
  TAKE(&c->memory, ON_HOST, first, tokens);
  TAKE(&c->memory, ON_HOST, often, tokens);
  TAKE(&c->memory, ON_HOST, fold_to, tokens);
  TAKE(&c->memory, ON_HOST, fold_often, tokens);
  TAKE(&c->memory, ON_DEVICE, keys, size_times(tokens, copy_width(r)));
  TAKE(&c->memory, ON_DEVICE, device_ids, tokens);
  TAKE(&c->memory, ON_DEVICE, device_first, tokens);
  TAKE(&c->memory, ON_DEVICE, device_often, tokens);
  TAKE(&c->memory, ON_DEVICE, weight, size_times((size_t)r->head_limit, (size_t)n));
  c->capacity = tokens;
  c->span = n;
  return ATTEND_OK;
}

/* Uploads the ids and the position of each one's first occurrence. */
static void copy_upload(attend_session *r, size_t tokens) {
  const struct attend_device *d = r->ctx->device;
  copying *c = &r->copy;
  d->write(r->ctx, c->device_ids, c->ids, tokens * sizeof *c->ids);
  d->write(r->ctx, c->device_first, c->first, tokens * sizeof *c->first);
}

static void find_first(copying *c, int text) {
  const size_t at = (size_t)text * (size_t)c->n;
  const int32_t *ids = c->ids + at;
  for (int j = 0; j < c->length[text]; j++) c->seen[ids[j]] = -1;
  for (int j = 0; j < c->length[text]; j++) {
    if (c->seen[ids[j]] < 0) c->seen[ids[j]] = j;
    c->first[at + (size_t)j] = c->seen[ids[j]];
  }
}

attend_status copy_fill(attend_session *r, const int32_t *ids) {
  copying *c = &r->copy;
  const attend_model *m = r->model;
  const int count = r->p.count, n = r->p.n, ld = (int)copy_width(r);
  if (!m->copy_k.forward) return ATTEND_OK;
  ATTEND_TRY(copy_reserve(r, (size_t)r->batch * (size_t)n, n));
  c->n = n;
  c->by_words = false;
  multiply_rows(&r->p, &m->copy_k, count * n, floats(r->x, m->config.encoder.width),
                floats(c->keys, m->config.copy));
  OP(r->ctx, copy_lag, .texts = count, .n = n, .width = m->config.copy, .keys = c->keys, .ld = ld);
  memcpy(c->ids, ids, (size_t)count * (size_t)n * sizeof *ids);
  for (int b = 0; b < r->batch; b++) {
    c->of[b] = b;
    c->length[b] = b < count ? r->lengths[b] : 0;
    find_first(c, b);
  }
  copy_upload(r, (size_t)count * (size_t)n);
  return ATTEND_OK;
}

void copy_rows(attend_session *r, int rows, matrix x, float *logits, int ldl) {
  const attend_model *m = r->model;
  copying *c = &r->copy;
  const int width = (int)copy_width(r);
  multiply_rows(&r->p, &m->copy_q, rows, x, floats(c->q, m->config.copy));
  multiply_rows(&r->p, &m->copy_gate, rows, x, floats(c->gate, 1));
  OP(r->ctx, scale, .rows = rows, .width = width, .factor = 1 / sqrtf((float)m->config.copy),
     .x = c->q, .ldx = width);
  for (int i = 0; i < rows; i++) c->texts[i] = r->head_of[i] < 0 ? -1 : c->of[r->head_of[i]];
  OP(r->ctx, copy_loss,
     .texts = {.n = c->n,
               .ld = width,
               .keys = c->keys,
               .extra = c->by_words ? c->device_often : NULL,
               .ids = c->device_ids,
               .first = c->device_first,
               .length = c->length},
     .rows = rows, .vocab = m->config.vocab, .of = c->texts, .q = c->q, .gate = c->gate,
     .weight = c->weight, .logits = logits, .ldl = ldl);
}

void copy_reorder(attend_session *r, const int32_t *parents) {
  copying *c = &r->copy;
  if (!c->of) return;
  memcpy(c->from, c->of, (size_t)r->batch * sizeof *c->of);
  for (int b = 0; b < r->batch; b++) c->of[b] = c->from[parents[b]];
}

void copy_reset(attend_session *r) {
  copying *c = &r->copy;
  if (c->length) memset(c->length, 0, (size_t)r->batch * sizeof *c->length);
}

/* ---- a text of any length, for reading.c ----------------------------------------- */

/* A text that fits the model's window keeps a key for every token, bit-identical to
 * attend_session_encode. A longer one keeps one entry per distinct word: the mean of
 * its keys and its count, whose logarithm is added to the score. That is exact for
 * words that occur once, such as most names, and an average for the others; there are
 * never more entries than the vocabulary has words. Sums of features, as in linear
 * forms, would need no more memory, but copying needs sharp attention.
 *
 * Tokens are folded in order, so chunk sizes do not change any bit. */
static int window_of(const attend_session *r) {
  int positions = r->model->config.positions;
  return positions ? positions : 1024;
}

static void clear_words(attend_session *r) {
  copying *c = &r->copy;
  for (int v = 0; v < r->model->config.vocab; v++) c->seen[v] = -1;
  c->length[0] = 0;
}

/* Keys of the n tokens in x, after those read before. */
static void make_keys(attend_session *r, float *keys) {
  const attend_model *m = r->model;
  const int ld = (int)copy_width(r), n = r->p.n;
  multiply_rows(&r->p, &m->copy_k, n, floats(r->x, m->config.encoder.width),
                floats(keys, m->config.copy));
  OP(r->ctx, copy_lag, .texts = 1, .n = n, .width = m->config.copy, .keys = keys, .ld = ld,
     .before = r->copy.before);
}

/* The entry of token `row`, and its ordinal among that word's occurrences; words come
 * before the tokens that are not folded yet. */
static void fold(copying *c, int row, int32_t *to, float *often) {
  const int32_t id = c->ids[row];
  if (c->seen[id] < 0) {
    const int32_t at = c->seen[id] = c->length[0]++;
    c->ids[at] = id;
    c->first[at] = at;
    c->often[at] = 0;
  }
  *to = c->seen[id];
  *often = c->often[*to] += 1;
}

static void fold_all(attend_session *r, int row, int end) {
  copying *c = &r->copy;
  for (int i = row; i < end; i++) fold(c, i, c->fold_to + (i - row), c->fold_often + (i - row));
  OP(r->ctx, copy_fold, .n = end - row, .from = row, .ld = (int)copy_width(r), .keys = c->keys,
     .to = c->fold_to, .often = c->fold_often);
}

static void keep_token(copying *c, int row) {
  int32_t *seen = &c->seen[c->ids[row]];
  if (*seen < 0) *seen = row;
  c->first[row] = *seen;
  c->length[0]++;
}

static attend_status reading_reserve(attend_session *r) {
  int64_t max = max64(window_of(r), r->model->config.vocab);
  return copy_reserve(r, (size_t)max + (size_t)r->limit, 1);
}

attend_status copy_read(attend_session *r, const int32_t *ids) {
  copying *c = &r->copy;
  const size_t width = copy_width(r);
  const int n = r->p.n;
  if (!r->model->copy_k.forward) return ATTEND_OK;
  ATTEND_TRY(reading_reserve(r));
  if (!c->length[0]) {
    clear_words(r);
    r->ctx->device->zero(r->ctx, c->before, width * sizeof *c->before);
    c->by_words = false;
    c->of[0] = 0;
  }
  int row = c->length[0], end = row + n;
  make_keys(r, c->keys + (size_t)row * width);
  memcpy(c->ids + row, ids, (size_t)n * sizeof *ids);
  if (!c->by_words && end > window_of(r)) {
    c->by_words = true;
    clear_words(r);
    row = 0;
  }
  if (c->by_words) fold_all(r, row, end);
  for (; !c->by_words && row < end; row++) keep_token(c, row);
  c->n = c->length[0];
  return ATTEND_OK;
}

attend_status copy_recall(attend_session *r, const attend_session *from) {
  const copying *f = &from->copy;
  copying *c = &r->copy;
  const int n = f->length ? f->length[0] : 0;
  const size_t count = (size_t)n, width = copy_width(r);
  if (!n || !r->model->copy_k.forward) return ATTEND_OK;
  ATTEND_TRY(copy_reserve(r, count, n));
  OP(r->ctx, gather, .rows = n, .width = (int)width, .factor = 1, .x = f->keys, .ldx = (int)width,
     .y = c->keys, .ldy = (int)width);
  memcpy(c->ids, f->ids, count * sizeof *c->ids);
  memcpy(c->first, f->first, count * sizeof *c->first);
  for (int j = 0; f->by_words && j < n; j++) c->often[j] = (float)log((double)f->often[j]);
  copy_upload(r, count);
  if (f->by_words)
    r->ctx->device->write(r->ctx, c->device_often, c->often, count * sizeof *c->often);
  for (int b = 0; b < r->batch; b++) c->of[b] = b;
  c->by_words = f->by_words;
  c->length[0] = c->n = n;
  return ATTEND_OK;
}

/* ---- its files ------------------------------------------------------------------- */

static attend_tensor tensor_of(const char *name, attend_stored stored, int64_t n, int64_t width,
                               const void *data) {
  return (attend_tensor){
      .name = name, .stored = stored, .rank = width ? 2 : 1, .shape = {n, width}, .data = data};
}

attend_status copy_save(attend_session *r, const char *path) {
  const copying *c = &r->copy;
  const size_t n = (size_t)c->length[0], width = copy_width(r);
  float *keys;
  ATTEND_TRY(ctx_alloc(r->ctx, SIZE_PRODUCT(n + 1, width, sizeof *keys), "words", &keys));
  float *before = keys + n * width;
  r->ctx->device->read(r->ctx, keys, c->keys, n * width * sizeof *keys);
  r->ctx->device->read(r->ctx, before, c->before, width * sizeof *keys);
  const attend_tensor list[] = {
      tensor_of("keys", ATTEND_STORED_F32, (int64_t)n, (int64_t)width, keys),
      tensor_of("ids", ATTEND_STORED_I32, (int64_t)n, 0, c->ids),
      tensor_of("before", ATTEND_STORED_F32, (int64_t)width, 0, before),
      tensor_of("often", ATTEND_STORED_F32, (int64_t)n, 0, c->often)};
  attend_status status = attend_tensor_file_write(r->ctx, path, c->by_words ? 4 : 3, list);
  ctx_free(r->ctx, keys);
  return status;
}

static const attend_tensor *find(const attend_tensor_file *file, const char *name,
                                 attend_stored stored, int64_t n, int64_t width) {
  const attend_tensor *t = attend_tensor_file_find(file, name);
  bool fits = t && t->stored == stored && t->rank == (width ? 2 : 1) && t->shape[0] == n &&
              (!width || t->shape[1] == width);
  return fits ? t : NULL;
}

/* Whether it is consistent with `rows` tokens. */
static bool take_words(attend_session *r, const attend_tensor_file *file, int64_t rows) {
  copying *c = &r->copy;
  const attend_tensor *ids = attend_tensor_file_find(file, "ids");
  const int64_t n = ids ? ids->shape[0] : 0, vocab = r->model->config.vocab;
  const bool by_words = attend_tensor_file_find(file, "often") != NULL;
  ids = find(file, "ids", ATTEND_STORED_I32, n, 0);
  const attend_tensor *keys = find(file, "keys", ATTEND_STORED_F32, n, (int64_t)copy_width(r));
  const attend_tensor *often = find(file, "often", ATTEND_STORED_F32, n, 0);
  const attend_tensor *before = find(file, "before", ATTEND_STORED_F32, (int64_t)copy_width(r), 0);
  if (!ids || !keys || !before || by_words != !!often) return false;
  if (n < 1 || n > (by_words ? vocab : min64(rows, window_of(r)))) return false;
  memcpy(c->ids, ids->data, ids->bytes);
  r->ctx->device->write(r->ctx, c->keys, keys->data, keys->bytes);
  r->ctx->device->write(r->ctx, c->before, before->data, before->bytes);
  if (often) memcpy(c->often, often->data, often->bytes);
  clear_words(r);
  for (int j = 0; j < n; j++) {
    if (c->ids[j] < 0 || c->ids[j] >= vocab) return false;
    if (by_words && c->seen[c->ids[j]] >= 0) return false;
    keep_token(c, j);
  }
  c->by_words = by_words;
  c->of[0] = 0;
  c->n = (int)n;
  return by_words || n == rows;
}

attend_status copy_load(attend_session *r, const char *path, int64_t rows) {
  attend_tensor_file *file;
  ATTEND_TRY(reading_reserve(r));
  ATTEND_TRY(attend_tensor_file_open(r->ctx, path, &file));
  bool taken = take_words(r, file, rows);
  attend_tensor_file_free(file);
  if (taken) return ATTEND_OK;
  copy_reset(r);
  return fail(r->ctx, ATTEND_IO, "\"%.300s\" does not hold the words of a text", path);
}
