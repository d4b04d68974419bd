/* Decoding token by token: greedy search, or sampling. beam_search.c is the other
 * loop.
 */
#include <math.h>
#include <string.h>

#include "generate/generate.h"

/* ---- shared by both loops ---------------------------------------------------------------- */

bool is_end(const batch *b, int32_t id) {
  const attend_config *c = attend_model_config(b->model);
  if (b->o->ignore_end) return false;
  for (int i = 0; i < c->n_eos; i++)
    if (c->eos[i] == id) return true;
  for (int i = 0; i < b->o->n_ends; i++)
    if (b->o->ends[i] == id) return true;
  return false;
}

void forbid_end(const batch *b, float *logits) {
  const attend_config *c = attend_model_config(b->model);
  for (int i = 0; i < c->n_eos; i++) logits[c->eos[i]] = -INFINITY;
  for (int i = 0; i < b->o->n_ends; i++) {
    int32_t id = b->o->ends[i];
    if (id >= 0 && id < c->vocab) logits[id] = -INFINITY;
  }
}

int history_before(const batch *b, int sequence) {
  bool continues = attend_model_config(b->model)->parts == ATTEND_DECODER;
  return continues ? b->prompts[sequence / b->each].count : 1;
}

void caller_logits(const batch *b, int sequence, const int32_t *ids, int count, float *logits) {
  if (!b->o->on_logits) return;
  attend_choice choice = {b->first + sequence / b->each, ids, count, logits,
                          attend_model_config(b->model)->vocab};
  b->o->on_logits(&choice, b->o->user);
}

int32_t forced_id(const batch *b, int count) {
  const attend_config *c = attend_model_config(b->model);
  if (count == 0 && c->forced_bos >= 0) return c->forced_bos;
  return count == b->o->max_new - 1 && !b->o->ignore_end ? c->forced_eos : -1;
}

attend_status fail_not_finite(const batch *b) {
  return fail(b->ctx, ATTEND_IO,
              "all logits are NaN: the checkpoint holds values that are not finite");
}

void report_done(const batch *b, const continuation *one) {
  if (b->o->on_done) b->o->on_done(&one->public, b->o->user);
}

bool may_step(batch *b) {
  if (b->o->on_step && b->o->on_step(b->o->user)) b->stop = true;
  if (b->stop) return false;
  b->g->cost.steps++;
  b->g->cost.step_bytes +=
      (double)attend_model_bytes(b->model) + (double)attend_session_cache_bytes(b->session);
  return true;
}

attend_status add_id(attend_context *ctx, continuation *c, int32_t id) {
  size_t wanted = (size_t)c->public.count + 1;
  ATTEND_TRY(grow(ctx, &c->ids, &c->capacity, wanted, sizeof *c->ids, "the ids"));
  c->public.ids = c->ids;
  c->ids[c->public.count++] = id;
  return ATTEND_OK;
}

/* ---- reading the prompts ----------------------------------------------------------------- */

static int longest_prompt(const batch *b) {
  int max = 0;
  for (int i = 0; i < b->count; i++)
    if (b->prompts[i].count > max) max = b->prompts[i].count;
  return max;
}

static void pad_prompts(const batch *b, int n, int32_t *ids, int32_t *lengths) {
  if (b->o->reading) return;
  for (int i = 0; i < b->count; i++) {
    const attend_prompt *p = &b->prompts[i];
    memcpy(ids + (size_t)i * (size_t)n, p->ids, (size_t)p->count * sizeof *ids);
    lengths[i] = p->count;
  }
}

/* The decoder's first ids: the prompt itself, or the start token. */
static attend_status start_decoder(batch *b, int n, int32_t *ids, int32_t *lengths) {
  const attend_config *c = attend_model_config(b->model);
  if (c->parts == ATTEND_DECODER)
    return attend_session_extend(b->session, b->count, n, ids, lengths);
  if (b->o->reading)
    ATTEND_TRY(attend_session_recall(b->session, b->o->reading));
  else
    ATTEND_TRY(attend_session_encode(b->session, b->count, n, ids, lengths, NULL));
  for (int i = 0; i < b->count; i++) ids[i] = c->decoder_start;
  return attend_session_extend(b->session, b->count, 1, ids, NULL);
}

static attend_status spread(batch *b, int32_t *parents) {
  if (b->each == 1) return ATTEND_OK;
  for (int i = 0; i < batch_size(b); i++) parents[i] = i / b->each;
  return attend_session_reorder(b->session, parents);
}

static attend_status read_prompts(batch *b, int n, int32_t *ids, int32_t *lengths) {
  pad_prompts(b, n, ids, lengths);
  ATTEND_TRY(start_decoder(b, n, ids, lengths));
  ATTEND_TRY(spread(b, lengths));
  return attend_session_next(b->session, batch_size(b), b->logits);
}

attend_status batch_read(batch *b) {
  int n = b->o->reading ? 1 : longest_prompt(b);
  int32_t *ids, *lengths;
  size_t rows = (size_t)batch_size(b);
  ATTEND_TRY(
      ctx_alloc_zeroed(b->ctx, SIZE_PRODUCT(rows, (size_t)n, sizeof *ids), "the prompts", &ids));
  attend_status status =
      ctx_alloc_zeroed(b->ctx, size_times(rows, sizeof *lengths), "the prompts", &lengths);
  if (!status) {
    status = read_prompts(b, n, ids, lengths);
    ctx_free(b->ctx, lengths);
  }
  ctx_free(b->ctx, ids);
  return status;
}

/* ---- token by token ------------------------------------------------------------------------ */

typedef struct {
  int32_t *ids, *lengths; /* [sequences] of the next call */
} step;

static continuation *one_of(const batch *b, int i) { return &b->g->one[(b->first * b->each) + i]; }

/* The random stream belongs to the continuation, independent of the number of samples
 * per prompt. */
static attend_random random_of(const batch *b, const continuation *one) {
  uint64_t prompt = (uint64_t)one->public.prompt;
  uint64_t first = b->o->streams ? b->o->streams[prompt] : prompt << 32;
  return (attend_random){b->o->seed, first + (uint64_t)one->public.sample};
}

static int32_t pick(batch *b, int i, float *log_probability) {
  const attend_config *c = attend_model_config(b->model);
  continuation *one = one_of(b, i);
  float *logits = b->logits + (size_t)i * (size_t)c->vocab, u;
  int32_t id = forced_id(b, one->public.count);
  float loss;
  attend_random_uniform(random_of(b, one), (uint64_t)one->public.count, 1, &u);
  if (id < 0) {
    float *changed = b->logits + (size_t)batch_size(b) * (size_t)c->vocab;
    memcpy(changed, logits, (size_t)c->vocab * sizeof *logits);
    if (one->public.count < b->o->min_new || b->o->ignore_end) forbid_end(b, changed);
    adjust_logits(b->o, changed, c->vocab, b->history[i], b->held[i]);
    caller_logits(b, i, one->ids, one->public.count, changed);
    id = choose_adjusted(b->o, changed, c->vocab, u, b->scratch);
  }
  if (id < 0) return id;
  attend_cross_entropy(b->ctx, 1, c->vocab, logits, c->vocab, &id, &loss, NULL);
  *log_probability = -loss;
  return id;
}

static int report_token(batch *b, int i, int32_t id, const char *text, size_t length, bool slid) {
  const continuation *one = one_of(b, i);
  attend_token t = {one->public.prompt, one->public.sample, id, text, length, slid};
  return b->o->on_token ? b->o->on_token(&t, b->o->user) : 0;
}

static attend_status finish(batch *b, int i, attend_finish_reason why, step *s) {
  continuation *one = one_of(b, i);
  const char *text;
  size_t length;
  one->done = true;
  one->public.end = why;
  s->lengths[i] = 0;
  ATTEND_TRY(stream_end(&one->stream, &text, &length));
  one->public.text = one->stream.text ? one->stream.text : "";
  if (length && report_token(b, i, -1, text, length, false)) b->stop = true;
  report_done(b, one);
  return ATTEND_OK;
}

/* Drops the older half of the context; the rest is re-read from position 0. */
static attend_status slide(batch *b, int i) {
  int keep = b->limit / 2, drop = b->held[i] - keep;
  ATTEND_TRY(attend_session_truncate(b->session, i, 0));
  memmove(b->history[i], b->history[i] + drop, (size_t)keep * sizeof **b->history);
  b->held[i] = keep;
  return ATTEND_OK;
}

static bool is_full(const batch *b, int i) {
  return b->limit && attend_session_length(b->session, i) >= b->limit;
}

static attend_status take_token(batch *b, int i, int32_t id, float logp, step *s) {
  continuation *one = one_of(b, i);
  const char *text;
  size_t length;
  ATTEND_TRY(add_id(b->ctx, one, id));
  one->public.log_probability += (double)logp;
  b->history[i][b->held[i]++] = id;
  s->ids[i] = id;
  ATTEND_TRY(stream_push(&one->stream, id, &text, &length));
  bool full = is_full(b, i);
  bool slides = full && b->o->window == ATTEND_WINDOW_SLIDE;
  if (report_token(b, i, id, text, length, slides)) b->stop = true;
  if (is_end(b, id)) return finish(b, i, ATTEND_FINISH_TOKEN, s);
  if (one->stream.stopped) return finish(b, i, ATTEND_FINISH_STOP, s);
  if (one->public.count >= b->o->max_new) return finish(b, i, ATTEND_FINISH_LENGTH, s);
  if (slides) return slide(b, i);
  if (full) return finish(b, i, ATTEND_FINISH_CONTEXT, s);
  return ATTEND_OK;
}

static attend_status take_tokens(batch *b, step *s, int *live) {
  *live = 0;
  for (int i = 0; i < batch_size(b) && !b->stop; i++) {
    float logp = 0;
    if (one_of(b, i)->done) continue;
    int32_t id = pick(b, i, &logp);
    if (id < 0) return fail_not_finite(b);
    ATTEND_TRY(take_token(b, i, id, logp, s));
    *live += !one_of(b, i)->done;
  }
  return ATTEND_OK;
}

/* A sequence whose window slid is re-read by itself; the others take one token. */
static attend_status feed(batch *b, step *s) {
  int n = 1;
  for (int i = 0; i < batch_size(b); i++) {
    s->lengths[i] = !one_of(b, i)->done;
    if (s->lengths[i] && attend_session_length(b->session, i) == 0) {
      s->lengths[i] = b->held[i];
      if (b->held[i] > n) n = b->held[i];
    }
  }
  if (n == 1) return attend_session_extend(b->session, batch_size(b), 1, s->ids, s->lengths);
  int32_t *ids;
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, SIZE_PRODUCT((size_t)batch_size(b), (size_t)n, sizeof *ids),
                              "a window", &ids));
  for (int i = 0; i < batch_size(b); i++)
    memcpy(ids + (size_t)i * (size_t)n, s->lengths[i] > 1 ? b->history[i] : &s->ids[i],
           (size_t)(s->lengths[i] > 1 ? s->lengths[i] : 1) * sizeof *ids);
  attend_status status = attend_session_extend(b->session, batch_size(b), n, ids, s->lengths);
  ctx_free(b->ctx, ids);
  return status;
}

static attend_status run_steps(batch *b, step *s) {
  int live;
  for (;;) {
    ATTEND_TRY(take_tokens(b, s, &live));
    if (b->stop || !live || !may_step(b)) break;
    ATTEND_TRY(feed(b, s));
    ATTEND_TRY(attend_session_next(b->session, batch_size(b), b->logits));
  }
  for (int i = 0; i < batch_size(b); i++)
    if (!one_of(b, i)->done) ATTEND_TRY(finish(b, i, ATTEND_FINISH_CALLER, s));
  return ATTEND_OK;
}

attend_status generate_batch(batch *b) {
  step s = {0};
  size_t n = (size_t)batch_size(b);
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, size_times(n, sizeof *s.ids), "a step", &s.ids));
  attend_status status =
      ctx_alloc_zeroed(b->ctx, size_times(n, sizeof *s.lengths), "a step", &s.lengths);
  if (!status) {
    status = run_steps(b, &s);
    ctx_free(b->ctx, s.lengths);
  }
  ctx_free(b->ctx, s.ids);
  return status;
}
