/* The losses of a text's tokens: windows with a stride, or one masked token at a time.
 *
 * attend/evaluate.h says which token sees what. Windows do not depend on each other: a
 * batch of them is read in pieces of rows, and the losses are then added in the order
 * of the text, so that the sum is the same for any batch.
 */
#include "attend/evaluate.h"

#include <math.h>

#include "base/options.h"
#include "model/transformer.h"
#include "tasks/tasks.h"

/* A longer window costs more than its loss improves: the caller's choice. */
enum { CONTEXT = 2048, MASKED_CONTEXT = 128, BATCH = 4, MOST_BATCH = 256 };
enum { PIECE = 512, ROWS = 32 }; /* rows of a call; of logits at once */

struct attend_evaluation {
  attend_context own; /* a child of the model's */
  attend_model *model;
  const attend_tokenizer *tokenizer;
  attend_evaluate_options o; /* resolved */
  bool masked;
  int32_t mask; /* the tokenizer's, of a masked model */
  /* the text, with the special tokens around it */
  int32_t *ids; /* [count] */
  size_t *end;  /* [count] bytes of the text up to the token's end; NULL: ids */
  float *loss;  /* [count] of those that are scored */
  int count;
  int front, back;   /* special tokens around the text: not scored */
  int first, target; /* the first token that is scored; how many */
  /* the results so far */
  int scored;
  int window; /* that is read next */
  double sum;
};

typedef struct { /* reads ids [start, start + count), scores `from` on */
  int start, count;
  int from; /* the first id whose loss it gives: start + 1 or later */
} window;

typedef struct { /* of a call of attend_evaluation_run */
  attend_evaluation *e;
  attend_session *session;
  int vocab;
  int32_t *ids, *lengths; /* [batch][PIECE or context]; [batch] */
  float *logits;          /* [ROWS][V] */
  window *windows;        /* [batch] */
} scorer;

static int min(int a, int b) { return a < b ? a : b; }

/* ---- losses of rows ----------------------------------------------------------------- */

typedef struct {
  int32_t place[ROWS], target[ROWS];
  int at[ROWS]; /* whose loss it is */
  int count;
} rows;

static attend_status take_losses(scorer *s, rows *r) {
  float loss[ROWS];
  if (!r->count) return ATTEND_OK;
  ATTEND_TRY(attend_session_logits(s->session, r->count, r->place, s->logits));
  attend_cross_entropy(&s->e->own, r->count, s->vocab, s->logits, s->vocab, r->target, loss, NULL);
  for (int i = 0; i < r->count; i++) s->e->loss[r->at[i]] = loss[i];
  r->count = 0;
  return ATTEND_OK;
}

/* Row `place` of the last call predicts token `at` of the text. */
static attend_status add_row(scorer *s, rows *r, int place, int at) {
  r->place[r->count] = place;
  r->target[r->count] = s->e->ids[at];
  r->at[r->count++] = at;
  return r->count == ROWS ? take_losses(s, r) : ATTEND_OK;
}

/* Adds the losses of the next tokens, up to `until`, in their order. */
static attend_status add_losses(attend_evaluation *e, int until) {
  for (int i = e->first + e->scored; i < until; i++) e->sum += (double)e->loss[i];
  e->scored = until - e->first;
  double done = (double)e->scored / e->target;
  bool stop = e->o.progress && e->o.progress(done, NULL, e->o.user);
  if (!stop || e->scored == e->target) return ATTEND_OK;
  return fail(&e->own, ATTEND_STOPPED, "the evaluation was stopped after %d of %d tokens",
              e->scored, e->target);
}

/* ---- decoders ----------------------------------------------------------------------- */

/* Window k, or count 0 past the last. */
static window window_at(const attend_evaluation *e, int k) {
  int64_t context = e->o.context, stride = e->o.stride;
  int64_t before = k ? context + (k - 1) * stride : 0; /* scored already */
  int64_t last = e->first + e->target - 1;
  if (before >= last) return (window){0};
  int64_t until = min64(context + k * stride, last);
  int64_t start = max64(until - context, 0);
  return (window){(int)start, (int)(until - start), (int)max64(before + 1, e->first)};
}

/* n tokens of each window, from `at` on. */
static attend_status read_piece(scorer *s, int count, int at, int n) {
  const window *w = s->windows;
  rows r = {.count = 0};
  for (int b = 0; b < count; b++) {
    int left = min(w[b].count - at, n);
    s->lengths[b] = left > 0 ? left : 0;
    for (int i = 0; i < n; i++) s->ids[b * n + i] = i < left ? s->e->ids[w[b].start + at + i] : 0;
  }
  ATTEND_TRY(attend_session_extend(s->session, count, n, s->ids, s->lengths));
  for (int b = 0; b < count; b++)
    for (int i = 0; i < s->lengths[b]; i++) {
      int next = w[b].start + at + i + 1;
      if (next >= w[b].from) ATTEND_TRY(add_row(s, &r, b * n + i, next));
    }
  return take_losses(s, &r);
}

static attend_status read_windows(scorer *s, int count) {
  int longest = 0, piece = PIECE / s->e->o.batch;
  for (int b = 0; b < count; b++)
    if (s->windows[b].count > longest) longest = s->windows[b].count;
  attend_session_reset(s->session);
  for (int at = 0; at < longest; at += piece)
    ATTEND_TRY(read_piece(s, count, at, min(piece, longest - at)));
  return ATTEND_OK;
}

static attend_status score_causal(scorer *s) {
  attend_evaluation *e = s->e;
  while (e->scored < e->target) {
    int count = 0;
    while (count < e->o.batch) {
      window w = window_at(e, e->window + count);
      if (!w.count) break;
      s->windows[count++] = w;
    }
    ATTEND_TRY(read_windows(s, count));
    e->window += count;
    const window *last = &s->windows[count - 1];
    ATTEND_TRY(add_losses(e, last->start + last->count + 1));
  }
  return ATTEND_OK;
}

/* ---- masked models ------------------------------------------------------------------ */

/* Tokens of the text in a part: the special tokens surround each part. */
static int part_size(const attend_evaluation *e) {
  int around = e->front + e->back;
  return e->o.context > around ? e->o.context - around : 1;
}

static void write_masked(const attend_evaluation *e, int32_t *ids, int start, int n, int at) {
  memcpy(ids, e->ids, (size_t)e->front * sizeof *ids);
  memcpy(ids + e->front, e->ids + start, (size_t)n * sizeof *ids);
  memcpy(ids + e->front + n, e->ids + e->count - e->back, (size_t)e->back * sizeof *ids);
  ids[e->front + at - start] = e->mask;
}

/* Tokens [at, at + count) of the part [start, start + n), each masked. */
static attend_status score_masks(scorer *s, int start, int n, int at, int count) {
  const attend_evaluation *e = s->e;
  int length = e->front + n + e->back;
  rows r = {.count = 0};
  for (int b = 0; b < count; b++) write_masked(e, s->ids + b * length, start, n, at + b);
  ATTEND_TRY(attend_session_encode(s->session, count, length, s->ids, NULL, NULL));
  for (int b = 0; b < count; b++)
    ATTEND_TRY(add_row(s, &r, b * length + e->front + at + b - start, at + b));
  return take_losses(s, &r);
}

static attend_status score_masked(scorer *s) {
  attend_evaluation *e = s->e;
  int end = e->first + e->target, size = part_size(e);
  while (e->scored < e->target) {
    int at = e->first + e->scored, start = at - e->scored % size;
    int n = min(size, e->count - e->back - start);
    int count = min(e->o.batch, min(start + n, end) - at);
    ATTEND_TRY(score_masks(s, start, n, at, count));
    ATTEND_TRY(add_losses(e, at + count));
  }
  return ATTEND_OK;
}

/* ---- a call ------------------------------------------------------------------------- */

static attend_status make_scorer(scorer *s) {
  attend_evaluation *e = s->e;
  attend_context *ctx = &e->own;
  size_t batch = (size_t)e->o.batch;
  int around = e->front + e->back + 1; /* a part has one token at least */
  size_t max = (size_t)max64(max64(e->o.context, around), PIECE);
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = e->o.batch};
  ATTEND_TRY(
      ctx_alloc(ctx, SIZE_PRODUCT(batch, max, sizeof *s->ids), "the ids of a batch", &s->ids));
  ATTEND_TRY(ctx_alloc(ctx, batch * sizeof *s->lengths, "the lengths of a batch", &s->lengths));
  ATTEND_TRY(ctx_alloc(ctx, batch * sizeof *s->windows, "the windows of a batch", &s->windows));
  ATTEND_TRY(ctx_alloc(ctx, SIZE_PRODUCT(ROWS, (size_t)s->vocab, sizeof *s->logits), "logits",
                       &s->logits));
  ATTEND_TRY(session_create(ctx, e->model, &o, &s->session));
  return attend_session_set_hooks(s->session, e->o.n_hooks, e->o.hooks);
}

attend_status attend_evaluation_run(attend_evaluation *e) {
  scorer s = {.e = e, .vocab = attend_model_config(e->model)->vocab};
  if (e->scored == e->target) return ATTEND_OK;
  attend_status status = make_scorer(&s);
  if (!status) status = e->masked ? score_masked(&s) : score_causal(&s);
  attend_session_free(s.session);
  ctx_free(&e->own, s.logits);
  ctx_free(&e->own, s.windows);
  ctx_free(&e->own, s.lengths);
  ctx_free(&e->own, s.ids);
  return status;
}

/* ---- texts -------------------------------------------------------------------------- */

static void drop_text(attend_evaluation *e) {
  ctx_free(&e->own, e->ids);
  ctx_free(&e->own, e->end);
  ctx_free(&e->own, e->loss);
  e->ids = NULL;
  e->end = NULL;
  e->loss = NULL;
  e->count = e->front = e->back = e->first = e->target = 0;
  e->scored = e->window = 0;
  e->sum = 0;
}

static attend_status take_text(attend_evaluation *e, size_t count, bool text) {
  attend_context *ctx = &e->own;
  drop_text(e);
  ATTEND_CHECK(ctx, count <= INT32_MAX,
               "the text has %zu tokens: cut it into parts of fewer than 2^31", count);
  ATTEND_TRY(ctx_alloc(ctx, count * sizeof *e->ids, "the ids", &e->ids));
  if (text) ATTEND_TRY(ctx_alloc(ctx, count * sizeof *e->end, "offsets", &e->end));
  return ctx_alloc(ctx, count * sizeof *e->loss, "the losses", &e->loss);
}

/* A decoder predicts a token from one before it; a mask can be anywhere. */
static attend_status choose_target(attend_evaluation *e) {
  int vocab = attend_model_config(e->model)->vocab;
  for (int i = 0; i < e->count; i++)
    if (e->ids[i] < 0 || e->ids[i] >= vocab)
      return fail(&e->own, ATTEND_INVALID, "token %d of the text is %d: the model knows 0 to %d", i,
                  (int)e->ids[i], vocab - 1);
  e->first = e->masked || e->front ? e->front : 1;
  int all = e->count - e->back - e->first;
  if (all < 0) all = 0;
  e->target = e->o.limit ? min(all, e->o.limit) : all;
  return ATTEND_OK;
}

static void add_token(attend_evaluation *e, int32_t id, size_t end) {
  e->end[e->count] = end;
  e->ids[e->count++] = id;
}

/* A decoder gets the begin token and no end token; a masked model everything that
 * the tokenizer puts around the text. */
static attend_status add_tokens(attend_evaluation *e, const attend_encoding *encoding,
                                size_t length) {
  int32_t bos = attend_model_config(e->model)->bos;
  size_t count = encoding->count, last = count, reached = 0;
  bool begins = count && encoding->part[0] < 0;
  ATTEND_TRY(take_text(e, count + 1, true));
  while (last && encoding->part[last - 1] < 0) last--;
  if (!e->masked && !begins && bos >= 0) {
    add_token(e, bos, 0);
    e->front = 1;
  }
  for (size_t i = 0; i < (e->masked ? count : last); i++) {
    bool special = encoding->part[i] < 0;
    if (!special && encoding->end[i] > reached) reached = encoding->end[i];
    add_token(e, encoding->id[i], i + 1 == last ? length : reached);
    if (special && i < last) e->front++;
    if (special && i >= last) e->back++;
  }
  return choose_target(e);
}

attend_status attend_evaluation_set_text(attend_evaluation *e, const char *text, size_t length) {
  attend_encoding *encoding;
  ATTEND_CHECK(&e->own, text || !length, "the text is NULL: give its address");
  ATTEND_CHECK(&e->own, e->tokenizer, "a text needs a tokenizer: create the evaluation with one");
  attend_status status = attend_encoding_create(e->tokenizer, &encoding);
  if (!status) status = attend_encode(encoding, text ? text : "", length, NULL);
  if (status)
    encoding_failed(&e->own, status, encoding);
  else
    status = add_tokens(e, encoding, length);
  attend_encoding_free(encoding);
  return status;
}

attend_status attend_evaluation_set_ids(attend_evaluation *e, const int32_t *ids, int count) {
  ATTEND_CHECK(&e->own, !e->masked,
               "ids are for decoders: a masked model needs the special tokens "
               "of its tokenizer around a text");
  ATTEND_CHECK(&e->own, count >= 0 && (ids || !count), "%d ids and no address: give both", count);
  ATTEND_TRY(take_text(e, (size_t)count, false));
  if (count) memcpy(e->ids, ids, (size_t)count * sizeof *ids);
  e->count = count;
  return choose_target(e);
}

/* ---- options ------------------------------------------------------------------------ */

static attend_status choose_context(attend_evaluation *e) {
  const attend_config *c = attend_model_config(e->model);
  attend_evaluate_options *o = &e->o;
  int max = e->masked ? MASKED_CONTEXT : CONTEXT;
  bool bounded = c->position == ATTEND_POSITIONS_LEARNED;
  if (!o->context) o->context = c->positions && c->positions < max ? c->positions : max;
  ATTEND_CHECK(&e->own, !bounded || o->context <= c->positions,
               "a context of %d tokens is more than the %d positions that the "
               "model has",
               o->context, c->positions);
  if (e->masked) return ATTEND_OK;
  if (!o->stride) o->stride = (o->context + 1) / 2;
  ATTEND_CHECK(&e->own, o->stride <= o->context,
               "a stride of %d is more than the context of %d tokens: some "
               "would never be scored",
               o->stride, o->context);
  return ATTEND_OK;
}

static attend_status check_options(attend_evaluation *e) {
  attend_context *ctx = &e->own;
  const attend_evaluate_options *o = &e->o;
  ATTEND_CHECK(ctx, o->context >= 0 && o->stride >= 0 && o->limit >= 0,
               "context %d, stride %d, limit %d: choose 0 or more", o->context, o->stride,
               o->limit);
  ATTEND_CHECK(ctx, o->batch >= 0 && o->batch <= MOST_BATCH,
               "a batch of %d windows: choose 1 to %d", o->batch, MOST_BATCH);
  return o->threads ? attend_context_set_threads(ctx, o->threads) : ATTEND_OK;
}

static attend_status check_masked(attend_evaluation *e) {
  const char *name = attend_model_config(e->model)->family;
  ATTEND_CHECK(&e->own, !e->o.stride,
               "a stride is for decoders, and %s is a masked model: choose the "
               "context",
               name);
  ATTEND_CHECK(&e->own, e->tokenizer,
               "%s is a masked model: give the tokenizer that has its mask "
               "token; ids alone are for decoders",
               name);
  e->mask = attend_tokenizer_special(e->tokenizer, ATTEND_SPECIAL_MASK);
  if (e->mask >= 0) return ATTEND_OK;
  return fail(&e->own, ATTEND_UNSUPPORTED,
              "the tokenizer has no mask token, which scoring with %s needs", name);
}

static attend_status prepare(attend_evaluation *e) {
  const attend_config *c = attend_model_config(e->model);
  ATTEND_CHECK(&e->own, c->parts != ATTEND_BOTH,
               "%s writes an answer to a text, and a text alone has none: "
               "compare its answers with references (ROUGE)",
               c->family);
  ATTEND_TRY(check_options(e));
  e->masked = c->parts == ATTEND_ENCODER;
  if (e->masked) ATTEND_TRY(check_masked(e));
  if (!e->o.batch) e->o.batch = BATCH;
  return choose_context(e);
}

attend_status attend_evaluation_create(attend_model *model, const attend_tokenizer *tokenizer,
                                       const attend_evaluate_options *options,
                                       attend_evaluation **evaluation) {
  attend_evaluation *e;
  if (evaluation) *evaluation = NULL;
  if (!model || !evaluation) return ATTEND_INVALID; /* no context, no result */
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *e, "an evaluation", &e));
  e->model = model;
  e->tokenizer = tokenizer;
  attend_status status = context_child(model->ctx, 0, &e->own);
  if (!status) status = OPTIONS_READ(&e->own, attend_evaluate_options, options, &e->o);
  if (!status) status = prepare(e);
  if (status)
    attend_evaluation_free(e);
  else
    *evaluation = e;
  return status;
}

void attend_evaluation_free(attend_evaluation *e) {
  if (!e) return;
  drop_text(e);
  ctx_free(e->model->ctx, e);
}

const char *attend_evaluation_message(const attend_evaluation *e) {
  return e ? e->own.message : "no evaluation was made";
}

/* ---- results ------------------------------------------------------------------------ */

int attend_evaluation_target(const attend_evaluation *e) { return e->target; }
int attend_evaluation_tokens(const attend_evaluation *e) { return e->scored; }
double attend_evaluation_loss(const attend_evaluation *e) { return e->sum; }
int attend_evaluation_context(const attend_evaluation *e) { return e->o.context; }
int attend_evaluation_stride(const attend_evaluation *e) { return e->o.stride; }

double attend_evaluation_perplexity(const attend_evaluation *e) {
  return e->scored ? exp(e->sum / e->scored) : (double)NAN;
}

static size_t end_before(const attend_evaluation *e, int token) {
  return e->end && token ? e->end[token - 1] : 0;
}

double attend_evaluation_bytes(const attend_evaluation *e) {
  if (!e->end) return (double)NAN;
  if (!e->scored) return 0;
  return (double)(end_before(e, e->first + e->scored) - end_before(e, e->first));
}

bool attend_evaluation_get(const attend_evaluation *e, int i, attend_token_loss *token) {
  if (i < 0 || i >= e->scored) return 0;
  int at = e->first + i;
  *token = (attend_token_loss){.id = e->ids[at],
                               .loss = e->loss[at],
                               .start = end_before(e, at),
                               .end = end_before(e, at + 1)};
  return 1;
}
