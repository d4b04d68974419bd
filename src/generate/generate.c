/* attend_generate: checking a call, splitting it into batches, collecting results.
 * token_loop.c and beam_search.c compute them.
 */
#include <math.h>
#include <string.h>

#include "base/options.h"
#include "generate/generate.h"

enum { BATCH = 8, MOST_BEAMS = 1024 };

/* ---- checking ----------------------------------------------------------------------------- */

static int context_of(const attend_model *model, const attend_generate_options *o) {
  const attend_config *c = attend_model_config(model);
  bool hard = c->position == ATTEND_POSITIONS_LEARNED;
  if (!o->context) return c->positions;
  return hard && o->context > c->positions ? c->positions : o->context;
}

/* Counts that may be 0, and their arrays. */
static attend_status check_counts(attend_context *ctx, const attend_generate_options *o) {
  const struct {
    const char *name;
    int value;
  } counts[] = {{"min_new", o->min_new},     {"n_ends", o->n_ends}, {"top_k", o->top_k},
                {"no_repeat", o->no_repeat}, {"groups", o->groups}, {"n_stops", o->n_stops},
                {"context", o->context},     {"batch", o->batch},   {"threads", o->threads}};
  for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
    ATTEND_CHECK(ctx, counts[i].value >= 0, "%s is %d: choose 0 or more", counts[i].name,
                 counts[i].value);
  ATTEND_CHECK(ctx, o->n_ends == 0 || o->ends, "ends is NULL: give the %d ids that end a text",
               o->n_ends);
  ATTEND_CHECK(ctx, o->n_stops == 0 || o->tokenizer, "stop strings need a tokenizer");
  ATTEND_CHECK(ctx, o->n_stops == 0 || o->stops, "stops is NULL: give the %d stop strings",
               o->n_stops);
  for (int i = 0; i < o->n_stops; i++)
    ATTEND_CHECK(ctx, o->stops[i], "stop string %d is NULL: give a string or lower n_stops", i);
  return ATTEND_OK;
}

static attend_status check_options(attend_context *ctx, const attend_generate_options *o) {
  ATTEND_TRY(check_counts(ctx, o));
  ATTEND_CHECK(ctx, o->max_new >= 1, "generate at least one token, not %d", o->max_new);
  ATTEND_CHECK(ctx, o->samples >= 1 && o->beams >= 1,
               "%d samples and %d beams: there must be at least one of each", o->samples, o->beams);
  ATTEND_CHECK(ctx, o->beams <= MOST_BEAMS, "%d beams: %d are the most that can be kept", o->beams,
               MOST_BEAMS);
  ATTEND_CHECK(ctx, o->groups <= 1 || o->beams % o->groups == 0,
               "%d beams cannot be cut into %d groups: take a multiple", o->beams, o->groups);
  ATTEND_CHECK(ctx, o->diversity >= 0 && isfinite(o->diversity),
               "the diversity of groups must be 0 or more");
  ATTEND_CHECK(ctx, o->beams == 1 || o->samples <= o->beams, "%d answers cannot come from %d beams",
               o->samples, o->beams);
  ATTEND_CHECK(ctx, o->beams == 1 || o->temperature == 0,
               "beam search does not sample: leave the temperature at 0, or "
               "take samples without beams");
  ATTEND_CHECK(ctx, o->temperature >= 0 && isfinite(o->temperature),
               "the temperature must be 0 or more");
  ATTEND_CHECK(ctx, o->top_p >= 0 && o->top_p <= 1 && o->min_p >= 0 && o->min_p <= 1,
               "top-p and min-p are shares from 0 to 1");
  ATTEND_CHECK(ctx, o->repetition > 0, "the repetition penalty must be positive: 1 is none");
  ATTEND_CHECK(ctx, isfinite(o->repetition) && isfinite(o->length_penalty),
               "the repetition and length penalties must be finite");
  ATTEND_CHECK(ctx, (unsigned)o->window <= ATTEND_WINDOW_SLIDE,
               "window %d does not exist: choose ATTEND_WINDOW_STOP or _SLIDE", (int)o->window);
  return ATTEND_OK;
}

static attend_status check_prompt(attend_generation *g, const attend_generate_options *o, int i,
                                  attend_prompt prompt) {
  attend_context *ctx = g->ctx;
  const attend_config *c = attend_model_config(g->model);
  int limit = context_of(g->model, o), count = prompt.count;
  ATTEND_CHECK(ctx, o->window != ATTEND_WINDOW_SLIDE || limit != 1,
               "a window of 1 token cannot slide: choose a longer context");
  ATTEND_CHECK(ctx, count >= 1,
               "prompt %d has no token: give it at least the model's begin "
               "token",
               i);
  ATTEND_CHECK(ctx, prompt.ids, "prompt %d has %d tokens but its ids are NULL: give their address",
               i, count);
  ATTEND_CHECK(ctx, !limit || count <= limit,
               "prompt %d has %d tokens and the context holds %d: shorten it", i, count, limit);
  ATTEND_CHECK(ctx, c->parts != ATTEND_BOTH || c->decoder_start >= 0,
               "config.json has no decoder_start_token_id to begin with");
  return ATTEND_OK;
}

static attend_status check_reading(attend_generation *g, const attend_generate_options *o,
                                   int n_prompts) {
  const attend_config *c = attend_model_config(g->model);
  if (!o->reading) return ATTEND_OK;
  ATTEND_CHECK(g->ctx, c->parts == ATTEND_BOTH && c->decoder_start >= 0 && n_prompts == 1,
               "%d prompts and a reading: what was read is one prompt of an "
               "encoder-decoder whose config.json has a decoder_start_token_id",
               n_prompts);
  return ATTEND_OK;
}

static attend_status check_prompts(attend_generation *g, int n_prompts,
                                   const attend_prompt *prompts, const attend_generate_options *o) {
  attend_context *ctx = g->ctx;
  int each = o->beams > 1 ? o->beams : o->samples;
  ATTEND_CHECK(ctx, n_prompts >= 0, "%d prompts: give 0 or more", n_prompts);
  ATTEND_CHECK(ctx, (int64_t)n_prompts * each <= INT32_MAX,
               "%d continuations of %d prompts are too many for one call: cut "
               "the prompts into several",
               each, n_prompts);
  ATTEND_TRY(check_reading(g, o, n_prompts));
  ATTEND_CHECK(ctx, n_prompts == 0 || prompts, "prompts is NULL: give %d of them", n_prompts);
  for (int i = 0; i < n_prompts && !o->reading; i++) ATTEND_TRY(check_prompt(g, o, i, prompts[i]));
  return ATTEND_OK;
}

/* ---- prompts ------------------------------------------------------------------------------ */

attend_status attend_prompt_encode(const attend_model *model, attend_encoding *e, const char *text,
                                   size_t length, attend_prompt *prompt) {
  bool whole = attend_model_config(model)->parts != ATTEND_DECODER;
  ATTEND_TRY(attend_encode(e, text, length, NULL));
  size_t count = e->count;
  while (!whole && count && e->part[count - 1] < 0 && (count > 1 || length)) count--;
  ATTEND_CHECK(attend_model_context(model), count <= INT32_MAX,
               "the prompt has %zu tokens: shorten it", count);
  *prompt = (attend_prompt){e->id, (int)count};
  return ATTEND_OK;
}

int32_t attend_begin_token(const attend_model *model, const attend_tokenizer *t) {
  const attend_config *c = attend_model_config(model);
  if (c->bos >= 0) return c->bos;
  int32_t bos = t ? attend_tokenizer_special(t, ATTEND_SPECIAL_BOS) : -1;
  if (bos >= 0) return bos;
  if (c->n_eos) return c->eos[0];
  return t ? attend_tokenizer_special(t, ATTEND_SPECIAL_EOS) : -1;
}

/* ---- batches --------------------------------------------------------------------------------- */

static attend_status take_history(batch *b) {
  size_t n = (size_t)batch_size(b);
  const attend_config *c = attend_model_config(b->model);
  ATTEND_TRY(
      ctx_alloc_zeroed(b->ctx, size_times(n, sizeof *b->history), "the history", &b->history));
  ATTEND_TRY(ctx_alloc_zeroed(b->ctx, size_times(n, sizeof *b->held), "the history", &b->held));
  for (size_t i = 0; i < n; i++) {
    const attend_prompt *p = &b->prompts[i / (size_t)b->each];
    bool both = c->parts == ATTEND_BOTH;
    size_t max = (size_t)(both ? 1 : p->count) + (size_t)b->o->max_new + 1;
    ATTEND_TRY(
        ctx_alloc(b->ctx, size_times(max, sizeof **b->history), "the history", &b->history[i]));
    b->held[i] = both ? 1 : p->count;
    if (both)
      b->history[i][0] = c->decoder_start;
    else
      memcpy(b->history[i], p->ids, (size_t)p->count * sizeof *p->ids);
  }
  return ATTEND_OK;
}

static attend_status make_batch(batch *b) {
  const attend_config *c = attend_model_config(b->model);
  size_t rows = (size_t)batch_size(b) + 1; /* one to change */
  ATTEND_TRY(ctx_alloc(b->ctx, SIZE_PRODUCT(rows, (size_t)c->vocab, sizeof *b->logits), "logits",
                       &b->logits));
  ATTEND_TRY(ctx_alloc(b->ctx, SIZE_PRODUCT(2, (size_t)c->vocab, sizeof *b->scratch), "candidates",
                       &b->scratch));
  ATTEND_TRY(take_history(b));
  attend_session_options o = {ATTEND_INIT(attend_session_options), .batch = batch_size(b)};
  ATTEND_TRY(session_create(b->ctx, b->model, &o, &b->session));
  return attend_session_set_hooks(b->session, b->o->n_hooks, b->o->hooks);
}

static void free_batch(batch *b) {
  for (int i = 0; b->history && i < batch_size(b); i++) ctx_free(b->ctx, b->history[i]);
  ctx_free(b->ctx, b->history);
  ctx_free(b->ctx, b->held);
  ctx_free(b->ctx, b->logits);
  ctx_free(b->ctx, b->scratch);
  attend_session_free(b->session);
}

static void count_cost(const batch *b, double start, double read, double end) {
  attend_generation_cost *cost = &b->g->cost;
  cost->prompt_seconds += read - start;
  cost->new_seconds += end - read;
  for (int i = 0; i < b->count; i++) cost->prompt_tokens += b->prompts[i].count;
  for (int i = 0; i < batch_size(b); i++)
    cost->new_tokens += b->g->one[b->first * b->each + i].public.count;
  size_t cache = attend_session_cache_bytes(b->session);
  size_t work = attend_session_work_bytes(b->session);
  if (cache > cost->cache_bytes) cost->cache_bytes = cache;
  if (work > cost->work_bytes) cost->work_bytes = work;
}

static attend_status run_batch(batch *b) {
  attend_status status = make_batch(b);
  double start = seconds_now(), read;
  if (!status) status = batch_read(b);
  read = seconds_now();
  if (!status) status = b->o->beams > 1 ? search_batch(b) : generate_batch(b);
  if (!status) count_cost(b, start, read, seconds_now());
  free_batch(b);
  return status;
}

/* ---- the call --------------------------------------------------------------------------------- */

/* A decoder's prompt precedes the text: the detokenizer needs it to decide on leading
 * spaces. */
static attend_status make_answers(attend_generation *g, int n_prompts, const attend_prompt *prompts,
                                  int each, const attend_generate_options *o) {
  bool continues = attend_model_config(g->model)->parts == ATTEND_DECODER;
  g->count = n_prompts * each;
  ATTEND_TRY(ctx_alloc_zeroed(g->ctx, size_times((size_t)g->count, sizeof *g->one),
                              "the continuations", &g->one));
  for (int i = 0; i < g->count; i++) {
    g->one[i].public.prompt = i / each;
    g->one[i].public.sample = i % each;
    g->one[i].public.text = "";
    g->one[i].public.end = ATTEND_FINISH_CALLER; /* unless it has begun */
    ATTEND_TRY(stream_open(g->ctx, o, &g->one[i].stream));
    const attend_prompt *p = &prompts[i / each];
    if (continues) ATTEND_TRY(stream_prime(&g->one[i].stream, p->ids, p->count));
  }
  return ATTEND_OK;
}

/* Frees surplus beams. */
static void keep_samples(attend_generation *g, int each, int samples) {
  int kept = 0;
  for (int i = 0; i < g->count; i++) {
    continuation *c = &g->one[i];
    if (i % each < samples) {
      g->one[kept++] = *c;
      continue;
    }
    ctx_free(g->ctx, c->ids);
    stream_close(&c->stream);
  }
  g->count = kept;
}

static attend_status run_all(attend_generation *g, int n_prompts, const attend_prompt *prompts,
                             int each, const attend_generate_options *o) {
  int max = o->batch ? o->batch : BATCH;
  int at_once = max < each ? 1 : max / each;
  for (int first = 0; first < n_prompts; first += at_once) {
    batch b = {.ctx = g->ctx,
               .model = g->model,
               .o = o,
               .g = g,
               .prompts = prompts + first,
               .first = first,
               .count = (int)min64(at_once, n_prompts - first),
               .each = each,
               .limit = context_of(g->model, o)};
    ATTEND_TRY(run_batch(&b));
    if (b.stop) break;
  }
  return ATTEND_OK;
}

static attend_status generate(attend_generation *g, int n_prompts, const attend_prompt *prompts,
                              const attend_generate_options *options) {
  const attend_config *c = attend_model_config(g->model);
  attend_generate_options how, *o = &how;
  ATTEND_TRY(generate_options_read(g->ctx, options, o));
  int each = o->beams > 1 ? o->beams : o->samples;
  ATTEND_TRY(check_options(g->ctx, o));
  ATTEND_CHECK(g->ctx, c->parts & ATTEND_DECODER,
               "%s is an encoder and cannot continue a text: use fill or embed", c->family);
  ATTEND_TRY(check_prompts(g, n_prompts, prompts, o));
  if (o->threads) ATTEND_TRY(attend_context_set_threads(g->ctx, o->threads));
  ATTEND_TRY(make_answers(g, n_prompts, prompts, each, o));
  ATTEND_TRY(run_all(g, n_prompts, prompts, each, o));
  if (o->beams > 1) keep_samples(g, each, o->samples);
  return ATTEND_OK;
}

static void free_answers(attend_generation *g) {
  for (int i = 0; g->one && i < g->count; i++) {
    ctx_free(g->ctx, g->one[i].ids);
    stream_close(&g->one[i].stream);
  }
  ctx_free(g->ctx, g->one);
  g->one = NULL;
  g->count = 0;
}

attend_status attend_generate(attend_model *model, int n_prompts, const attend_prompt *prompts,
                              const attend_generate_options *options,
                              attend_generation **generation) {
  attend_generation *g;
  if (generation) *generation = NULL;
  if (!model || !generation) return ATTEND_INVALID; /* no context, no message */
  ATTEND_TRY(ctx_alloc_zeroed(model->ctx, sizeof *g, "a generation", &g));
  g->ctx = &g->own;
  g->model = model;
  attend_status status = context_child(model->ctx, 0, g->ctx);
  if (!status) status = generate(g, n_prompts, prompts, options);
  if (status) free_answers(g); /* the message stays */
  *generation = g;
  return status;
}

void attend_generation_free(attend_generation *g) {
  if (!g) return;
  free_answers(g);
  ctx_free(g->model->ctx, g);
}

const char *attend_generation_message(const attend_generation *g) {
  return g ? g->own.message : "out of memory: no generation could be made";
}

const attend_continuation *attend_generation_get(const attend_generation *g, int i) {
  return g && i >= 0 && i < g->count ? &g->one[i].public : NULL;
}

const attend_generation_cost *attend_generation_costs(const attend_generation *g) {
  static const attend_generation_cost none;
  return g ? &g->cost : &none;
}
