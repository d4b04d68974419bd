/* Texts to vectors, in batches of texts of similar length.
 */
#include "attend/embed.h"

#include <math.h>
#include <stdlib.h>

#include "base/options.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

enum {
  THREAD_TOKENS = 512, /* of a batch: its activations stay in the caches */
  MOST_TEXTS = 256
};

struct attend_embedder {
  attend_context own; /* a child of the model's */
  attend_model *model;
  const attend_tokenizer *tokenizer;
  attend_embed_options o; /* resolved */
  bool decoder;
  int width;
  size_t truncated;
  attend_encoding *encoding;
  attend_session *session; /* of this shape: */
  int batch, rows;
};

typedef struct { /* a text as ids [at, at + count) */
  int index;
  int count;
  size_t at;
  size_t length; /* bytes */
} text_ids;

typedef struct { /* of a call */
  attend_embedder *e;
  int count;
  text_ids *texts; /* [count], the longest first */
  int32_t *ids;    /* of all texts */
  size_t used, capacity;
  int32_t *padded; /* of a batch */
  size_t padded_capacity;
  size_t bytes, done; /* of text: all; embedded */
  float *vectors;     /* [count][width] */
  int32_t *tokens;    /* [count], or NULL */
  attend_progress progress;
  void *user;
} embedding;

/* ---- texts to ids ------------------------------------------------------------------- */

static attend_status encode_text(embedding *b, int i, const char *text, size_t length) {
  attend_embedder *e = b->e;
  attend_encode_options o = {ATTEND_INIT(attend_encode_options),
                             .max_length = (size_t)e->o.max_length};
  ATTEND_CHECK(&e->own, text, "text %d is NULL: give its address", i);
  attend_status status = attend_encode(e->encoding, text, length, &o);
  if (status) return encoding_failed(&e->own, status, e->encoding);
  size_t count = e->encoding->count;
  ATTEND_CHECK(&e->own, count <= INT32_MAX, "text %d has %zu tokens: choose a max_length", i,
               count);
  ATTEND_TRY(grow(&e->own, &b->ids, &b->capacity, b->used + count, sizeof *b->ids, "token ids"));
  if (count) memcpy(b->ids + b->used, e->encoding->id, count * sizeof *b->ids);
  b->texts[i] = (text_ids){i, (int)count, b->used, length};
  b->used += count;
  b->bytes += length;
  e->truncated += e->encoding->dropped > 0;
  return ATTEND_OK;
}

static int longest_first(const void *a, const void *b) {
  const text_ids *x = a, *y = b;
  if (x->count != y->count) return x->count < y->count ? 1 : -1;
  return x->index < y->index ? -1 : 1;
}

static attend_status encode_all(embedding *b, const char *const *texts, const size_t *lengths) {
  ATTEND_TRY(ctx_alloc(&b->e->own, size_times((size_t)b->count, sizeof *b->texts),
                       "the texts of a call", &b->texts));
  for (int i = 0; i < b->count; i++) {
    size_t length = lengths ? lengths[i] : texts[i] ? strlen(texts[i]) : 0;
    ATTEND_TRY(encode_text(b, i, texts[i], length));
  }
  qsort(b->texts, (size_t)b->count, sizeof *b->texts, longest_first);
  return ATTEND_OK;
}

/* ---- ids to rows -------------------------------------------------------------------- */

/* A session holds the memory of its shape: each shape has its own, so that the longest
 * texts do not decide how much memory a batch of short ones takes. */
static attend_status session_for(attend_embedder *e, int batch, int rows) {
  if (e->session && e->batch == batch && e->rows == rows) return ATTEND_OK;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = batch, .rows = rows};
  attend_session_free(e->session);
  e->session = NULL;
  e->batch = batch;
  e->rows = rows;
  return session_create(&e->own, e->model, &o, &e->session);
}

static attend_status run_batch(embedding *b, const text_ids *texts, int count, int n) {
  attend_embedder *e = b->e;
  int32_t lengths[MOST_TEXTS];
  size_t row = (size_t)n, all = (size_t)count * row;
  ATTEND_TRY(session_for(e, count, n));
  ATTEND_TRY(
      grow(&e->own, &b->padded, &b->padded_capacity, all, sizeof *b->padded, "the ids of a batch"));
  memset(b->padded, 0, all * sizeof *b->padded);
  for (int i = 0; i < count; i++) {
    lengths[i] = texts[i].count;
    if (lengths[i])
      memcpy(b->padded + (size_t)i * row, b->ids + texts[i].at,
             (size_t)lengths[i] * sizeof *b->ids);
  }
  attend_session_reset(e->session);
  return e->decoder ? attend_session_extend(e->session, count, n, b->padded, lengths)
                    : attend_session_encode(e->session, count, n, b->padded, lengths, NULL);
}

/* ---- rows to a vector --------------------------------------------------------------- */

static void pool_mean(const float *rows, int ld, int count, int width, float *vector) {
  for (int i = 0; i < width; i++) {
    double sum = 0;
    for (int t = 0; t < count; t++) sum += (double)rows[(size_t)t * (size_t)ld + (size_t)i];
    vector[i] = (float)(sum / count);
  }
}

static void pool_max(const float *rows, int ld, int count, int width, float *vector) {
  for (int i = 0; i < width; i++) {
    vector[i] = rows[i];
    for (int t = 1; t < count; t++)
      vector[i] = fmaxf(vector[i], rows[(size_t)t * (size_t)ld + (size_t)i]);
  }
}

static double norm_of(const float *x, int width) {
  double sum = 0;
  for (int i = 0; i < width; i++) sum += (double)x[i] * (double)x[i];
  return sqrt(sum);
}

static attend_status pool(attend_embedder *e, const float *rows, int ld, int count, float *vector) {
  const size_t size = (size_t)e->width * sizeof *vector;
  if (e->o.pooling == ATTEND_POOLING_CLS)
    memcpy(vector, rows, size);
  else if (e->o.pooling == ATTEND_POOLING_LAST)
    memcpy(vector, rows + (size_t)(count - 1) * (size_t)ld, size);
  else if (e->o.pooling == ATTEND_POOLING_MAX)
    pool_max(rows, ld, count, e->width, vector);
  else
    pool_mean(rows, ld, count, e->width, vector);
  double norm = norm_of(vector, e->width);
  if (!isfinite(norm))
    return fail(&e->own, ATTEND_IO,
                "the model gave vectors that are not finite: the checkpoint, "
                "or the form of attention, does not work here");
  if (e->o.no_normalize || norm == 0) return ATTEND_OK;
  for (int i = 0; i < e->width; i++) vector[i] = (float)((double)vector[i] / norm);
  return ATTEND_OK;
}

/* ---- batches ------------------------------------------------------------------------ */

static int batch_size(const embedding *b, const text_ids *longest, int left) {
  int tokens = THREAD_TOKENS * b->e->own.threads;
  int fit = tokens / (longest->count ? longest->count : 1);
  if (fit < 1) fit = 1;
  if (fit > MOST_TEXTS) fit = MOST_TEXTS;
  return fit < left ? fit : left;
}

static attend_status embed_batch(embedding *b, const text_ids *texts, int count) {
  attend_embedder *e = b->e;
  int n = texts[0].count, ld = 0;
  if (n) ATTEND_TRY(run_batch(b, texts, count, n));
  const float *hidden = n ? attend_session_hidden(e->session, &ld) : NULL;
  for (int i = 0; i < count; i++) {
    const text_ids *t = &texts[i];
    if (t->count) /* else zeros */
      ATTEND_TRY(pool(e, hidden + (size_t)i * (size_t)n * (size_t)ld, ld, t->count,
                      b->vectors + (size_t)t->index * (size_t)e->width));
    if (b->tokens) b->tokens[t->index] = t->count;
    b->done += t->length;
  }
  return ATTEND_OK;
}

static attend_status embed_all(embedding *b) {
  attend_embedder *e = b->e;
  for (int at = 0, count; at < b->count; at += count) {
    count = batch_size(b, &b->texts[at], b->count - at);
    ATTEND_TRY(embed_batch(b, b->texts + at, count));
    double done = b->bytes ? (double)b->done / (double)b->bytes : 1;
    bool stop = b->progress && b->progress(done, NULL, b->user);
    if (stop && at + count < b->count)
      return fail(&e->own, ATTEND_STOPPED, "embedding was stopped after %d of %d texts", at + count,
                  b->count);
  }
  return ATTEND_OK;
}

attend_status embed_texts(attend_embedder *e, int count, const char *const *texts,
                          const size_t *lengths, float *vectors, int32_t *tokens,
                          attend_progress progress, void *user) {
  embedding b = {.e = e,
                 .count = count,
                 .vectors = vectors,
                 .tokens = tokens,
                 .progress = progress,
                 .user = user};
  ATTEND_CHECK(&e->own, count >= 0, "%d texts: give 0 or more", count);
  if (!count) return ATTEND_OK;
  ATTEND_CHECK(&e->own, texts && vectors, "texts or vectors are NULL: give addresses of %d", count);
  memset(vectors, 0, (size_t)count * (size_t)e->width * sizeof *vectors);
  for (int i = 0; tokens && i < count; i++) tokens[i] = -1;
  attend_status status = encode_all(&b, texts, lengths);
  if (!status) status = embed_all(&b);
  ctx_free(&e->own, b.padded);
  ctx_free(&e->own, b.ids);
  ctx_free(&e->own, b.texts);
  return status;
}

attend_status attend_embed_texts(attend_embedder *e, int count, const char *const *texts,
                                 const size_t *lengths, float *vectors, int32_t *tokens) {
  return embed_texts(e, count, texts, lengths, vectors, tokens, e->o.progress, e->o.user);
}

double attend_cosine(const float *a, const float *b, int width) {
  double dot = 0, norms = norm_of(a, width) * norm_of(b, width);
  for (int i = 0; i < width; i++) dot += (double)a[i] * (double)b[i];
  return norms > 0 ? dot / norms : 0;
}

/* ---- embedders ---------------------------------------------------------------------- */

static attend_status choose_length(attend_embedder *e, int folder) {
  const attend_config *c = attend_model_config(e->model);
  bool bounded = c->position == ATTEND_POSITIONS_LEARNED;
  int *length = &e->o.max_length;
  ATTEND_CHECK(&e->own, *length >= 0, "max_length is %d: choose 0 or more", *length);
  ATTEND_CHECK(&e->own, !bounded || *length <= c->positions,
               "a maximum of %d tokens is more than the %d positions that the "
               "model has",
               *length, c->positions);
  if (*length) return ATTEND_OK;
  *length = folder ? folder : c->positions;
  if (bounded && *length > c->positions) *length = c->positions;
  return ATTEND_OK;
}

static attend_status prepare(attend_embedder *e) {
  const attend_config *c = attend_model_config(e->model);
  attend_embed_options *o = &e->o;
  int folder_length = 0;
  ATTEND_CHECK(&e->own, e->tokenizer, "an embedder needs a tokenizer");
  ATTEND_CHECK(&e->own, attend_pooling_name(o->pooling),
               "pooling %d does not exist: choose one of attend_pooling", (int)o->pooling);
  if (o->threads) ATTEND_TRY(attend_context_set_threads(&e->own, o->threads));
  if (o->folder) ATTEND_TRY(embed_settings_read(&e->own, o->folder, &o->pooling, &folder_length));
  o->folder = NULL; /* need not stay */
  e->decoder = c->parts == ATTEND_DECODER;
  e->width = e->decoder ? c->decoder.width : c->encoder.width;
  if (!o->pooling) o->pooling = e->decoder ? ATTEND_POOLING_LAST : ATTEND_POOLING_MEAN;
  ATTEND_TRY(choose_length(e, folder_length));
  return attend_encoding_create(e->tokenizer, &e->encoding);
}

attend_status attend_embedder_create(attend_model *model, const attend_tokenizer *tokenizer,
                                     const attend_embed_options *options,
                                     attend_embedder **embedder) {
  attend_embedder *e;
  if (embedder) *embedder = NULL;
  if (!model || !embedder) return ATTEND_INVALID; /* no context, no result */
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *e, "an embedder", &e));
  e->model = model;
  e->tokenizer = tokenizer;
  attend_status status = context_child(model->ctx, 0, &e->own);
  if (!status) status = OPTIONS_READ(&e->own, attend_embed_options, options, &e->o);
  if (!status) status = prepare(e);
  if (status)
    attend_embedder_free(e);
  else
    *embedder = e;
  return status;
}

void attend_embedder_free(attend_embedder *e) {
  if (!e) return;
  attend_session_free(e->session);
  attend_encoding_free(e->encoding);
  ctx_free(e->model->ctx, e);
}

const char *attend_embedder_message(const attend_embedder *e) {
  return e ? e->own.message : "no embedder was made";
}
int attend_embedder_width(const attend_embedder *e) { return e->width; }
attend_pooling attend_embedder_pooling(const attend_embedder *e) { return e->o.pooling; }
int attend_embedder_max_length(const attend_embedder *e) { return e->o.max_length; }
size_t attend_embedder_truncated(const attend_embedder *e) { return e->truncated; }
