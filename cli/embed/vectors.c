/* Texts to vectors, many at a time.
 *
 * Between embed's texts and the model.
 */
#include "embed/vectors.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  THREAD_TOKENS = 512, /* of a batch: its activations stay in the caches */
  MOST_TEXTS = 256
};

/* ---- texts to ids ---------------------------------------------------------------------- */

static bool is_decoder(const embedder *e) {
  return attend_model_config(e->model)->parts == ATTEND_DECODER;
}

attend_status embedder_start(embedder *e, attend_model *model,
                             const attend_tokenizer *tokenizer) {
  e->model = model;
  const attend_config *c = attend_model_config(model);
  e->width = is_decoder(e) ? c->decoder.width : c->encoder.width;
  return attend_encoding_create(tokenizer, &e->encoding);
}

void embedder_free(embedder *e) {
  attend_session_free(e->run);
  attend_encoding_free(e->encoding);
}

attend_status embed_take(embedder *e, const char *text, size_t length,
                         embed_text *to) {
  attend_encode_options how = {.max_length = (size_t)e->max_length};
  attend_status status = attend_encode(e->encoding, text, length, &how);
  if (status) return status;
  size_t count = e->encoding->count;
  *to = (embed_text){.length = length, .count = (int)count};
  to->text = need(length + 1, 1);
  memcpy(to->text, text, length);
  to->ids = need(count, sizeof *to->ids);
  if (count) memcpy(to->ids, e->encoding->id, count * sizeof *to->ids);
  to->vector = need((size_t)e->width, sizeof *to->vector);
  e->texts++;
  e->tokens += count;
  e->cut += e->encoding->dropped > 0;
  e->empty += count == 0;
  return ATTEND_OK;
}

void embed_give(embed_text *text) {
  free(text->text);
  free(text->ids);
  free(text->vector);
}

/* ---- ids to rows ------------------------------------------------------------------------- */

/* A run holds the memory of its shape: each shape has its own, and the longest
 * texts do not decide what a batch of many short ones takes. */
static attend_status run_for(embedder *e, int batch, int rows) {
  if (e->run && e->batch == batch && e->rows == rows) return ATTEND_OK;
  attend_session_options o = {.batch = batch, .rows = rows};
  attend_session_free(e->run);
  e->run = NULL;
  e->batch = batch;
  e->rows = rows;
  return attend_session_create(e->model, &o, &e->run);
}

static attend_status run_batch(embedder *e, embed_text *const *texts, int count,
                               int n) {
  attend_status status = run_for(e, count, n);
  if (status) return status;
  size_t width = (size_t)n;
  int32_t *ids = need((size_t)count * width, sizeof *ids);
  int32_t *lengths = need((size_t)count, sizeof *lengths);
  for (int b = 0; b < count; b++) {
    lengths[b] = texts[b]->count;
    memcpy(ids + (size_t)b * width, texts[b]->ids,
           (size_t)lengths[b] * sizeof *ids);
  }
  attend_session_reset(e->run);
  status = is_decoder(e)
               ? attend_session_extend(e->run, count, n, ids, lengths)
               : attend_session_encode(e->run, count, n, ids, lengths, NULL);
  free(ids);
  free(lengths);
  return status;
}

/* ---- rows to a vector --------------------------------------------------------------------- */

static void pool_mean(const float *rows, int ld, int count, int width,
                      float *vector) {
  for (int i = 0; i < width; i++) {
    double sum = 0;
    for (int t = 0; t < count; t++)
      sum += (double)rows[(size_t)t * (size_t)ld + (size_t)i];
    vector[i] = (float)(sum / count);
  }
}

static void pool_max(const float *rows, int ld, int count, int width,
                     float *vector) {
  for (int i = 0; i < width; i++) {
    vector[i] = rows[i];
    for (int t = 1; t < count; t++)
      vector[i] = fmaxf(vector[i], rows[(size_t)t * (size_t)ld + (size_t)i]);
  }
}

static double length_of(const float *x, int width) {
  double sum = 0;
  for (int i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static void pool(embedder *e, const float *rows, int ld, embed_text *t) {
  const size_t size = (size_t)e->width * sizeof *t->vector;
  if (t->count == 0) return; /* zeros, and said aloud at the end */
  if (e->pool == POOL_CLS)
    memcpy(t->vector, rows, size);
  else if (e->pool == POOL_LAST)
    memcpy(t->vector, rows + (size_t)(t->count - 1) * (size_t)ld, size);
  else if (e->pool == POOL_MAX)
    pool_max(rows, ld, t->count, e->width, t->vector);
  else
    pool_mean(rows, ld, t->count, e->width, t->vector);
  double length = length_of(t->vector, e->width);
  e->lost += !isfinite(length);
  if (e->raw || length == 0) return;
  for (int i = 0; i < e->width; i++)
    t->vector[i] = (float)((double)t->vector[i] / length);
}

/* ---- batches ------------------------------------------------------------------------------ */

static int by_length(const void *a, const void *b) {
  const embed_text *x = *(embed_text *const *)a, *y = *(embed_text *const *)b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return x < y ? -1 : 1;
}

static attend_status embed_batch(embedder *e, embed_text *const *texts,
                                 int count) {
  int n = texts[0]->count, ld;
  if (n == 0) return ATTEND_OK;
  attend_status status = run_batch(e, texts, count, n);
  if (status) return status;
  const float *hidden = attend_session_hidden(e->run, &ld);
  for (int b = 0; b < count; b++)
    pool(e, hidden + (size_t)b * (size_t)n * (size_t)ld, ld, texts[b]);
  return ATTEND_OK;
}

static int batch_size(const embedder *e, const embed_text *longest, int left) {
  int tokens =
      THREAD_TOKENS * attend_context_threads(attend_model_context(e->model));
  int fit = tokens / (longest->count ? longest->count : 1);
  if (fit < 1) fit = 1;
  if (fit > MOST_TEXTS) fit = MOST_TEXTS;
  return fit < left ? fit : left;
}

attend_status embed_all(embedder *e, embed_text *texts, int n,
                        bool (*progress)(size_t bytes, void *user),
                        void *user) {
  embed_text **order = need((size_t)n, sizeof *order);
  attend_status status = ATTEND_OK;
  for (int i = 0; i < n; i++) order[i] = &texts[i];
  qsort(order, (size_t)n, sizeof *order, by_length);
  for (int at = 0, count; at < n && !status; at += count) {
    size_t bytes = 0;
    count = batch_size(e, order[at], n - at);
    status = embed_batch(e, order + at, count);
    for (int i = 0; i < count; i++) bytes += order[at + i]->length;
    if (!status && progress && !progress(bytes, user)) status = ATTEND_STOPPED;
  }
  free(order);
  return status;
}

double embed_cosine(const float *a, const float *b, int width) {
  double dot = 0, both = length_of(a, width) * length_of(b, width);
  for (int i = 0; i < width; i++) dot += (double)a[i] * (double)b[i];
  return both > 0 ? dot / both : 0;
}
