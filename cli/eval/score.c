/* The losses of a text's tokens, in order.
 *
 * The arithmetic of attend eval.
 *
 * A decoder reads windows of C tokens. The first scores what follows each of
 * its tokens; every later one ends `stride` tokens further on and scores those
 * alone, so that each token is scored once, and after the first window sees at
 * least C - stride + 1 tokens before it. Windows do not depend on each other:
 * some are read at once, in pieces, and the losses are then added in the order
 * of the text, so that the sum is the same for any batch.
 *
 * A masked model reads the text in parts of the context, one next to the other;
 * each token is masked by itself.
 */
#include <stdlib.h>
#include <string.h>

#include "eval/eval.h"
#include "interrupt.h"

enum { PIECE = 512, ROWS = 32 }; /* rows of a call; of logits at once */

typedef struct { /* reads ids [start, start + count), scores `from` on */
  int start, count;
  int from; /* the first id whose loss it gives: start + 1 or later */
} window;

typedef struct {
  const eval_plan *plan;
  const eval_text *text;
  attend_session *run;
  int vocab;
  int32_t *ids, *lengths; /* of a call */
  float *logits;          /* [ROWS][V] */
  float *loss;            /* [ids] of the text */
} scorer;

static int least(int a, int b) { return a < b ? a : b; }

/* ---- losses of rows ------------------------------------------------------------- */

typedef struct {
  int32_t place[ROWS], target[ROWS];
  int at[ROWS]; /* whose loss it is */
  int count;
} rows;

static attend_status take_losses(scorer *s, rows *r) {
  float loss[ROWS];
  if (!r->count) return ATTEND_OK;
  attend_status status =
      attend_session_logits(s->run, r->count, r->place, s->logits);
  if (status) return status;
  attend_cross_entropy(s->plan->ctx, r->count, s->vocab, s->logits, s->vocab,
                       r->target, loss, NULL);
  for (int i = 0; i < r->count; i++) s->loss[r->at[i]] = loss[i];
  r->count = 0;
  return ATTEND_OK;
}

/* Row `place` of the last call predicts token `at` of the text. */
static attend_status add_row(scorer *s, rows *r, int place, int at) {
  r->place[r->count] = place;
  r->target[r->count] = s->text->ids.id[at];
  r->at[r->count++] = at;
  return r->count == ROWS ? take_losses(s, r) : ATTEND_OK;
}

/* ---- decoders ---------------------------------------------------------------------- */

/* Window k, or count 0 past the last. `end` is one behind the last token that is
 * to be scored. */
static window window_at(const eval_plan *p, int first, int end, int k) {
  int before = k ? p->context + (k - 1) * p->stride : 0; /* scored already */
  int until = p->context + k * p->stride;
  window w = {0, 0, before + 1};
  if (before + 1 >= end) return w;
  if (until > end - 1) until = end - 1;
  w.start = until > p->context ? until - p->context : 0;
  w.count = until - w.start;
  if (w.from < first) w.from = first;
  return w;
}

/* n tokens of each window, from `at` on. */
static attend_status read_piece(scorer *s, const window *w, int count, int at,
                                int n) {
  rows r = {.count = 0};
  for (int b = 0; b < count; b++) {
    int left = least(w[b].count - at, n);
    s->lengths[b] = left > 0 ? left : 0;
    for (int i = 0; i < n; i++)
      s->ids[b * n + i] = i < left ? s->text->ids.id[w[b].start + at + i] : 0;
  }
  attend_status status =
      attend_session_extend(s->run, count, n, s->ids, s->lengths);
  for (int b = 0; b < count && !status; b++)
    for (int i = 0; i < s->lengths[b] && !status; i++) {
      int next = w[b].start + at + i + 1;
      if (next >= w[b].from) status = add_row(s, &r, b * n + i, next);
    }
  return status ? status : take_losses(s, &r);
}

static attend_status read_windows(scorer *s, const window *w, int count) {
  int longest = 0, piece = PIECE / s->plan->batch;
  attend_status status = ATTEND_OK;
  for (int b = 0; b < count; b++)
    if (w[b].count > longest) longest = w[b].count;
  attend_session_reset(s->run);
  for (int at = 0; at < longest && !status; at += piece)
    status = read_piece(s, w, count, at, least(piece, longest - at));
  return status;
}

/* Adds the losses of tokens [from, until) in their order. */
static void add_losses(const scorer *s, int from, int until, eval_sum *sum) {
  for (int i = from; i < until; i++) sum->loss += (double)s->loss[i];
  sum->tokens += until - from;
  if (s->plan->progress)
    s->plan->progress(sum->tokens, sum->loss, s->plan->user);
}

static attend_status score_causal(scorer *s, int first, int end,
                                  eval_sum *sum) {
  const eval_plan *p = s->plan;
  window *w = need((size_t)p->batch, sizeof *w);
  attend_status status = ATTEND_OK;
  for (int k = 0, done = first; !status && !is_interrupted() && done < end;) {
    int count = 0;
    while (count < p->batch) {
      w[count] = window_at(p, first, end, k++);
      if (!w[count].count) break;
      count++;
    }
    if (!count) break;
    status = read_windows(s, w, count);
    int until = w[count - 1].start + w[count - 1].count + 1;
    if (!status) add_losses(s, done, until, sum);
    done = until;
  }
  free(w);
  return status;
}

/* ---- masked models -------------------------------------------------------------------- */

/* What is put around a text stands around each part of it. */
static int part_size(const scorer *s) {
  int around = s->text->front + s->text->back;
  return s->plan->context > around ? s->plan->context - around : 1;
}

static void write_masked(scorer *s, int32_t *ids, int start, int n, int at) {
  const eval_text *t = s->text;
  const int32_t *id = t->ids.id;
  memcpy(ids, id, (size_t)t->front * sizeof *ids);
  memcpy(ids + t->front, id + start, (size_t)n * sizeof *ids);
  memcpy(ids + t->front + n, id + t->ids.count - t->back,
         (size_t)t->back * sizeof *ids);
  ids[t->front + at - start] = s->plan->mask;
}

/* Tokens [at, at + count) of the part [start, start + n), each masked. */
static attend_status mask_some(scorer *s, int start, int n, int at, int count) {
  const eval_text *t = s->text;
  int length = t->front + n + t->back;
  rows r = {.count = 0};
  for (int b = 0; b < count; b++)
    write_masked(s, s->ids + b * length, start, n, at + b);
  attend_status status =
      attend_session_encode(s->run, count, length, s->ids, NULL, NULL);
  for (int b = 0; b < count && !status; b++)
    status = add_row(s, &r, b * length + t->front + at + b - start, at + b);
  return status ? status : take_losses(s, &r);
}

static attend_status score_masked(scorer *s, int first, int end,
                                  eval_sum *sum) {
  const eval_text *t = s->text;
  int last = t->ids.count - t->back, size = part_size(s);
  attend_status status = ATTEND_OK;
  for (int start = first; start < end; start += size) {
    int n = least(size, last - start), until = least(start + n, end);
    for (int at = start; at < until; at += s->plan->batch) {
      int count = least(s->plan->batch, until - at);
      status = mask_some(s, start, n, at, count);
      if (status) return status;
      add_losses(s, at, at + count, sum);
      if (is_interrupted()) return ATTEND_OK;
    }
  }
  return status;
}

/* ---- a text ------------------------------------------------------------------------------ */

/* The first token that something can be said about: a decoder needs one before
 * it. */
static int first_scored(const eval_plan *p, const eval_text *t) {
  bool masked = attend_model_config(p->model)->parts == ATTEND_ENCODER;
  return masked || t->front ? t->front : 1;
}

int eval_wanted(const eval_plan *p, const eval_text *t) {
  int all = t->ids.count - t->back - first_scored(p, t);
  if (all < 0) all = 0;
  return p->limit ? least(all, p->limit) : all;
}

typedef attend_status scoring(scorer *s, int first, int end, eval_sum *sum);

static attend_status score(const eval_plan *p, const eval_text *t, scoring *how,
                           eval_sum *sum) {
  scorer s = {
      .plan = p, .text = t, .vocab = attend_model_config(p->model)->vocab};
  int first = first_scored(p, t), wanted = eval_wanted(p, t);
  size_t batch = (size_t)p->batch, most = (size_t)p->context;
  attend_session_options o = {.batch = p->batch};
  *sum = (eval_sum){.first = first};
  if (!wanted) return ATTEND_OK;
  attend_status status = attend_session_create(p->model, &o, &s.run);
  if (status) return status;
  s.ids = need(batch * (most > PIECE ? most : PIECE), sizeof *s.ids);
  s.lengths = need(batch, sizeof *s.lengths);
  s.logits = need((size_t)ROWS * (size_t)s.vocab, sizeof *s.logits);
  s.loss = need((size_t)t->ids.count, sizeof *s.loss);
  status = how(&s, first, first + wanted, sum);
  free(s.ids);
  free(s.lengths);
  free(s.logits);
  free(s.loss);
  attend_session_free(s.run);
  return status;
}

attend_status eval_causal(const eval_plan *plan, const eval_text *text,
                          eval_sum *sum) {
  return score(plan, text, score_causal, sum);
}

attend_status eval_masked(const eval_plan *plan, const eval_text *text,
                          eval_sum *sum) {
  return score(plan, text, score_masked, sum);
}
