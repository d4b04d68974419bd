/* Running a case: its tokens, the model over them, the tokens it generates; and the
 * runs that are recorded.
 *
 * An encoder-decoder without a second text generates one. Its decoder's input begins
 * with what its family begins with.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "attend/layers.h"
#include "view/session.h"

enum { ANSWER = 24 }; /* tokens that an encoder-decoder generates by itself */

/* ---- tokens ------------------------------------------------------------------------ */

static void side_add(view_side *s, int32_t id, int part) {
  s->ids[s->n] = id;
  s->start[s->n] = s->end[s->n] = 0;
  s->part[s->n++] = (signed char)part;
  s->real = s->n;
}

/* A token of bytes [start, end) of its text. */
static void side_add_read(view_side *s, int32_t id, int part, size_t start, size_t end) {
  s->start[s->n] = (int32_t)start;
  s->end[s->n] = (int32_t)end;
  s->ids[s->n] = id;
  s->part[s->n++] = (signed char)part;
  s->real = s->n;
}

/* Room for n tokens of a text, and for padding and generated ones after them. */
static attend_status side_room(attend_context *ctx, const view_run *run, size_t n, view_side *s) {
  n += ANSWER + ATTEND_VIEWER_NEW + 4 + (size_t)run->is.c.pad;
  ATTEND_TRY(ctx_alloc(ctx, n * sizeof *s->ids, "tokens", &s->ids));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * sizeof *s->start, "tokens", &s->start));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, n * sizeof *s->end, "tokens", &s->end));
  return ctx_alloc(ctx, n, "tokens", &s->part);
}

void side_free(attend_context *ctx, view_side *s) {
  ctx_free(ctx, s->ids);
  ctx_free(ctx, s->part);
  ctx_free(ctx, s->start);
  ctx_free(ctx, s->end);
  *s = (view_side){0};
}

static void note_cut(view_run *run, size_t max, size_t dropped) {
  if (dropped)
    snprintf(run->is.notice, sizeof run->is.notice,
             "The text was cut at %zu tokens; %zu were left out.", max, dropped);
}

typedef struct { /* a text on its way to tokens */
  const char *text, *pair;
  int beside;    /* tokens that are added to it */
  bool open_end; /* without the tokenizer's end mark */
} view_text;

static attend_status add_encoded(attend_context *ctx, view_run *run, const view_text *t, size_t max,
                                 attend_encoding *e, view_side *s) {
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .pair = t->pair,
                             .pair_length = t->pair ? strlen(t->pair) : 0, .max_length = max};
  ATTEND_TRY(attend_encode(e, t->text, strlen(t->text), &o));
  size_t n = e->count;
  while (t->open_end && n > 1 && e->part[n - 1] < 0) n--;
  ATTEND_TRY(side_room(ctx, run, n, s));
  for (size_t i = 0; i < n; i++) side_add_read(s, e->id[i], e->part[i], e->start[i], e->end[i]);
  note_cut(run, max, e->dropped);
  return ATTEND_OK;
}

static attend_status encode_text(attend_context *ctx, view_run *run, const view_text *t, size_t max,
                                 view_side *s) {
  attend_encoding *e = NULL;
  attend_status status = attend_encoding_create(run->of->tokenizer, &e);
  if (!status) status = add_encoded(ctx, run, t, max, e, s);
  attend_encoding_free(e);
  return status;
}

static attend_status read_ids(attend_context *ctx, view_run *run, const char *text, size_t max,
                              view_side *s) {
  const int vocab = attend_config_get(run->of->config, ATTEND_CONFIG_VOCAB);
  size_t dropped = 0;
  ATTEND_TRY(side_room(ctx, run, strlen(text), s));
  for (const char *at = text; *at;) {
    char *end;
    long id = strtol(at, &end, 10);
    ATTEND_CHECK(ctx, end != at || *at == ' ' || *at == ',',
                 "this model has no tokenizer: its text is numbers from 0 to %d between spaces",
                 vocab - 1);
    if (end == at) {
      at++;
      continue;
    }
    ATTEND_CHECK(ctx, id >= 0 && id < vocab, "token %ld: the model knows 0 to %d", id, vocab - 1);
    if ((size_t)s->n < max)
      side_add_read(s, (int32_t)id, 0, (size_t)(at - text), (size_t)(end - text));
    else
      dropped++;
    at = end;
  }
  note_cut(run, max, dropped);
  return ATTEND_OK;
}

static size_t longest(const view_run *run, int beside) {
  const attend_config *c = run->of->config;
  const int made = attend_config_get(c, ATTEND_CONFIG_POSITIONS);
  int64_t max = ATTEND_VIEWER_LONGEST;
  if (attend_config_get(c, ATTEND_CONFIG_POSITION) == ATTEND_POSITIONS_LEARNED && made < max)
    max = made;
  return (size_t)(max > beside + 1 ? max - beside : 1);
}

static attend_status fill_side(attend_context *ctx, view_run *run, const view_text *t,
                               view_side *s) {
  size_t max = longest(run, t->beside);
  if (run->of->tokenizer) return encode_text(ctx, run, t, max, s);
  return read_ids(ctx, run, t->text, max, s);
}

attend_status encode_from(attend_context *ctx, view_run *run, const char *text, view_side *to) {
  view_text t = {text, NULL, 0, attend_config_parts(run->of->config) == ATTEND_DECODER};
  ATTEND_TRY(fill_side(ctx, run, &t, to));
  ATTEND_CHECK(ctx, to->n, "the text that values are taken from has no tokens: write something");
  return ATTEND_OK;
}

static void pad_side(view_run *run, view_side *s) {
  int max = (int)longest(run, 0), pad = attend_config_get(run->of->config, ATTEND_CONFIG_PAD);
  int to = run->is.c.pad < max ? run->is.c.pad : max;
  while (s->n < to) {
    s->ids[s->n] = pad >= 0 ? pad : 0;
    s->part[s->n++] = -1;
  }
}

/* The decoder of an encoder-decoder reads its start tokens, then the text as it was
 * trained, with the mark that the tokenizer puts in front (BART's <s>). */
static attend_status add_answer(attend_context *ctx, view_run *run, const view_side *text,
                                view_side *s) {
  const attend_config *c = run->of->config;
  ATTEND_TRY(side_room(ctx, run, (size_t)text->n, s));
  const int start = attend_config_get(c, ATTEND_CONFIG_DECODER_START);
  const int forced = attend_config_get(c, ATTEND_CONFIG_FORCED_BOS);
  if (start >= 0) side_add(s, start, -1);
  if (forced >= 0) side_add(s, forced, -1);
  for (int i = 0, front = 1; i < text->n; i++) {
    int32_t id = text->ids[i];
    front &= text->part[i] < 0;
    if (front && id != start && id != forced)
      side_add(s, id, -1);
    else if (text->part[i] >= 0)
      side_add_read(s, id, 0, (size_t)text->start[i], (size_t)text->end[i]);
  }
  if (!s->n) side_add(s, 0, -1);
  return ATTEND_OK;
}

static attend_status answer_side(attend_context *ctx, view_run *run, view_side *s) {
  view_text t = {run->is.c.second, NULL, 2, true};
  view_side text = {0};
  attend_status status = ATTEND_OK;
  if (t.text) status = fill_side(ctx, run, &t, &text);
  if (!status) status = add_answer(ctx, run, &text, s);
  side_free(ctx, &text);
  return status;
}

static attend_status run_tokens(attend_context *ctx, view_run *run) {
  static const char empty[] = "the text has no tokens: write something";
  const attend_config *c = run->of->config;
  const attend_viewer_case *of = &run->is.c;
  const char *pair = attend_config_parts(c) == ATTEND_ENCODER ? of->second : NULL;
  view_side *encoder = &run->side[0], *decoder = &run->side[1];
  view_text t = {of->text, pair, 0, attend_config_parts(c) == ATTEND_DECODER};
  if (attend_config_parts(c) == ATTEND_DECODER) {
    ATTEND_TRY(fill_side(ctx, run, &t, decoder));
    ATTEND_CHECK(ctx, decoder->n, "%s", empty);
    return ATTEND_OK;
  }
  ATTEND_CHECK(ctx, !pair || run->of->tokenizer, "a pair of texts needs a tokenizer");
  ATTEND_TRY(fill_side(ctx, run, &t, encoder));
  ATTEND_CHECK(ctx, encoder->n, "%s", empty);
  pad_side(run, encoder);
  return attend_config_parts(c) == ATTEND_ENCODER ? ATTEND_OK : answer_side(ctx, run, decoder);
}

/* ---- the model over them -------------------------------------------------------------- */

enum { ROWS = 512 }; /* of the decoder at once */

typedef struct {
  view_job *job;
  view_run *run;
  double done, total; /* layers */
} reading;

static bool row_is_finite(const attend_hooked *s, int b, int i) {
  const float *row = (const float *)s->view.data + b * s->view.stride[0] + i * s->view.stride[2];
  for (int x = 0; x < s->shape[3]; x++)
    if (!isfinite(row[x * s->view.stride[3]])) return false;
  return true;
}

/* Every layer's output passes here; a state that is not finite stays so. */
static void check_residual(view_run *run, const attend_hooked *s) {
  if (s->point != ATTEND_AT_RESIDUAL) return;
  for (int b = 0; b < s->shape[0] && !run->lost; b++) {
    int rows = s->lengths ? s->lengths[b] : s->shape[2];
    for (int i = 0; i < rows && !run->lost; i++) run->lost = !row_is_finite(s, b, i);
  }
}

static void record(const attend_hooked *tensor, void *user) {
  view_run *run = user;
  check_residual(run, tensor);
  attend_trace_read(tensor, run->trace);
}

static attend_status recorded(attend_context *ctx, const view_run *run) {
  ATTEND_CHECK(ctx, !run->lost,
               "the model gave values that are not finite: the checkpoint, or "
               "the form of attention, does not work here");
  return attend_trace_status(run->trace);
}

/* Called before every layer. */
static int stop_reading(void *user) {
  reading *r = user;
  return r->done < r->total && job_progress(r->job, r->done++ / r->total, "reading the text");
}

static attend_status runs_room(attend_viewer *v, size_t bytes);

static attend_status open_trace(attend_viewer *v, view_run *run, int new_tokens) {
  int expected = run->side[1].n + new_tokens;
  attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = RECORDED,
                            .rows = expected};
  ATTEND_TRY(
      runs_room(v, attend_model_trace_bytes(run->model, RECORDED, run->side[0].n, expected)));
  return attend_trace_create(v->ctx, &o, &run->trace);
}

/* Segments of the encoder's tokens, to be freed by ctx_free; NULL: the model has none. */
static attend_status types_of(attend_context *ctx, const view_run *run, int32_t **types) {
  const view_side *s = &run->side[0];
  bool second = false;
  *types = NULL;
  if (attend_config_get(run->of->config, ATTEND_CONFIG_TYPES) <= 1) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, (size_t)s->n * sizeof **types, "token types", types));
  for (int i = 0; i < s->real; i++) { /* 1 from the second text on */
    second |= s->part[i] == 1;
    (*types)[i] = second;
  }
  return ATTEND_OK;
}

static attend_status read_encoder(attend_context *ctx, view_run *run, attend_session *r) {
  const view_side *s = &run->side[0];
  int32_t *types, lengths[1] = {s->real};
  if (!s->n) return ATTEND_OK;
  ATTEND_TRY(types_of(ctx, run, &types));
  attend_status status = attend_session_encode(r, 1, s->n, s->ids, lengths, types);
  ctx_free(ctx, types);
  return status;
}

attend_status tokens_of_run(attend_context *ctx, const view_run *run, attend_tokens *x,
                            int32_t **types) {
  const view_side *e = &run->side[0], *d = &run->side[1];
  *types = NULL;
  *x = (attend_tokens){ATTEND_INIT(attend_tokens), .ids = d->ids, .n = d->n};
  if (!e->n) return ATTEND_OK;
  ATTEND_TRY(types_of(ctx, run, types));
  *x = (attend_tokens){ATTEND_INIT(attend_tokens), .ids = e->ids, .n = e->real, .types = *types};
  if (d->n) x->decoder_ids = d->ids, x->n_decoder = d->n;
  return ATTEND_OK;
}

/* The changes, and after them the record of what they leave. */
static attend_status set_hooks(attend_context *ctx, view_run *run, attend_session *session) {
  attend_hook *list;
  int n = 0;
  const attend_hook *changes =
      run->intervention ? attend_intervention_hooks(run->intervention, &n) : NULL;
  ATTEND_TRY(ctx_alloc(ctx, ((size_t)n + 1) * sizeof *list, "hooks", &list));
  for (int i = 0; i < n; i++) list[i] = changes[i];
  list[n] =
      (attend_hook){ATTEND_INIT(attend_hook), .points = RECORDED, .read = record, .user = run};
  attend_status status = attend_session_set_hooks(session, n + 1, list);
  ctx_free(ctx, list);
  return status;
}

static attend_status read_tokens(reading *r, attend_session *session) {
  view_run *run = r->run;
  const view_side *d = &run->side[1];
  ATTEND_TRY(set_hooks(r->job->v->ctx, run, session));
  ATTEND_TRY(read_encoder(r->job->v->ctx, run, session));
  return d->n ? attend_session_extend(session, 1, d->n, d->ids, NULL) : ATTEND_OK;
}

static attend_status run_begin(view_job *j, view_run *run, int new_tokens,
                               attend_session **session) {
  const attend_config *c = run->of->config;
  int n = run->side[1].n, calls = (n + ROWS - 1) / ROWS;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .rows = n < ROWS ? n + 1 : ROWS};
  reading r = {j, run, 0,
               attend_config_stack(c, ATTEND_ENCODER)->layers +
                   (double)calls * attend_config_stack(c, ATTEND_DECODER)->layers};
  ATTEND_TRY(open_trace(j->v, run, new_tokens));
  ATTEND_TRY(attend_session_create(run->model, &o, session));
  attend_session_set_stop(*session, stop_reading, &r);
  attend_status status = read_tokens(&r, *session);
  attend_session_set_stop(*session, NULL, NULL);
  return status ? status : recorded(j->v->ctx, run);
}

/* ---- generating ------------------------------------------------------------------------- */

int candidates_of(const float *logits, int n, int max, attend_viewer_candidate *to) {
  double all = attend_log_sum_exp(n, logits);
  int count = 0;
  for (int i = 0; i < n; i++) {
    double p = exp((double)logits[i] - all);
    if (count == max && !(p > to[count - 1].p)) continue;
    int at = count < max ? count++ : count - 1;
    while (at > 0 && p > to[at - 1].p) {
      to[at] = to[at - 1];
      at--;
    }
    to[at] = (attend_viewer_candidate){i, p};
  }
  return count;
}

typedef struct {
  int new_tokens;
  attend_generate_options choose;
  bool report; /* each token, to the listener */
  bool found;  /* the run was there already */
  attend_session *session;
  float *logits; /* [2][vocab]: the model's; those that are chosen from */
} generating;

static bool is_end(const attend_config *c, int32_t id) {
  int32_t end;
  for (int i = 0; (end = attend_config_eos(c, i)) >= 0; i++)
    if (end == id) return true;
  return false;
}

static attend_status choose(attend_context *ctx, view_run *run, const generating *g,
                            attend_viewer_step *s) {
  int vocab = attend_config_get(run->of->config, ATTEND_CONFIG_VOCAB);
  const view_side *d = &run->side[1];
  float uniform, *logits = g->logits, *copy = logits + vocab;
  attend_random_uniform((attend_random){g->choose.seed, 0}, (uint64_t)d->n, 1, &uniform);
  ATTEND_TRY(attend_session_next(g->session, 1, logits));
  s->n = candidates_of(logits, vocab, ATTEND_VIEWER_CANDIDATES, s->candidate);
  memcpy(copy, logits, (size_t)vocab * sizeof *logits);
  ATTEND_TRY(attend_choose(ctx, &g->choose, copy, vocab, d->ids, d->n, uniform, &s->id));
  ATTEND_CHECK(ctx, s->id >= 0, "all logits are NaN: the model has no finite weights");
  s->p = exp((double)logits[s->id] - attend_log_sum_exp(vocab, logits));
  s->position = d->n;
  return ATTEND_OK;
}

/* What the next step reads: keys and values so far, or a state of fixed size. */
static size_t cache_bytes(const view_run *run, const attend_session *r) {
  const attend_stack *s = attend_config_stack(run->of->config, ATTEND_DECODER);
  size_t token = (size_t)(s->kv_heads * (s->dim + s->dim_v)) * sizeof(float);
  if (attend_form_features(attend_model_role_form(run->model, ATTEND_DECODER_SELF), s->dim))
    return attend_session_cache_bytes(r);
  return (size_t)attend_session_length(r, 0) * token * (size_t)s->layers;
}

static attend_status report_token(view_job *j, const attend_viewer_step *s) {
  const attend_viewer_listener *l = &j->listener;
  bool stop = l->token && l->token(s, l->user);
  return stop ? fail(j->v->ctx, ATTEND_STOPPED, "stopped") : ATTEND_OK;
}

static attend_status generate_one(view_job *j, view_run *run, const generating *g, bool *end) {
  attend_viewer_step *s = &run->steps[run->is.n_steps];
  *s = (attend_viewer_step){0};
  ATTEND_TRY(choose(j->v->ctx, run, g, s));
  side_add(&run->side[1], s->id, 0);
  ATTEND_TRY(attend_session_extend(g->session, 1, 1, &s->id, NULL));
  s->cache_bytes = cache_bytes(run, g->session);
  s->length = (int)attend_session_length(g->session, 0);
  run->is.n_steps++;
  run->is.generated++;
  *end = is_end(run->of->config, s->id);
  return g->report ? report_token(j, s) : ATTEND_OK;
}

static attend_status generate(view_job *j, view_run *run, generating *g) {
  attend_context *ctx = j->v->ctx;
  size_t vocab = (size_t)attend_config_get(run->of->config, ATTEND_CONFIG_VOCAB);
  int capacity = (int)longest(run, 0) - run->side[1].n;
  int max = g->new_tokens < capacity ? g->new_tokens : capacity;
  attend_status status = ATTEND_OK;
  bool end = false;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)(max > 0 ? max : 1) * sizeof *run->steps, "generated tokens",
                       &run->steps));
  ATTEND_TRY(ctx_alloc(ctx, 2 * vocab * sizeof *g->logits, "logits", &g->logits));
  for (int i = 0; i < max && !status && !end; i++) {
    status = generate_one(j, run, g, &end);
    if (!status && job_progress(j, (i + 1.0) / max, "writing"))
      status = fail(ctx, ATTEND_STOPPED, "stopped");
  }
  ctx_free(ctx, g->logits);
  return status ? status : recorded(ctx, run);
}

/* ---- a whole run -------------------------------------------------------------------------- */

static void note_length(view_run *run) {
  const attend_config *c = run->of->config;
  int n = run->side[1].n > run->side[0].n ? run->side[1].n : run->side[0].n;
  const int made = attend_config_get(c, ATTEND_CONFIG_POSITIONS);
  if (!run->is.notice[0] && made && n > made)
    snprintf(run->is.notice, sizeof run->is.notice,
             "%d tokens are more than the %d that the model was made for: what "
             "it does beyond them is a guess.",
             n, made);
}

void run_publish(view_run *run) {
  for (int i = 0; i < 2; i++)
    run->is.side[i] = (attend_viewer_side){run->side[i].n,    run->side[i].real,  run->side[i].ids,
                                           run->side[i].part, run->side[i].start, run->side[i].end};
  run->is.from = (attend_viewer_side){run->from.n,    run->from.real,  run->from.ids,
                                      run->from.part, run->from.start, run->from.end};
  for (int i = 0; i < ATTEND_ROLES; i++)
    run->is.has_role[i] = attend_lens_role(run->lens, (attend_role)i, &run->is.shape[i]);
  run->is.steps = run->steps;
  run->is.bytes = attend_trace_bytes(run->trace);
}

static attend_status run_all(view_job *j, view_run *run, generating *g) {
  double start = seconds_now();
  ATTEND_TRY(run_tokens(j->v->ctx, run));
  ATTEND_TRY(changes_make(j->v->ctx, run));
  attend_status status = run_begin(j, run, g->new_tokens, &g->session);
  if (!status && g->new_tokens) status = generate(j, run, g);
  attend_session_free(g->session);
  run->is.seconds = seconds_now() - start;
  note_length(run);
  if (!status) status = lens_open(j->v->ctx, run, NULL, &run->lens);
  if (!status) run_publish(run);
  return status;
}

/* ---- recorded runs ------------------------------------------------------------------------ */

void run_free(attend_viewer *v, view_run *run) {
  attend_context *ctx = v->ctx;
  for (int i = 0; i < OTHER_FORMS; i++) attend_lens_free(run->other[i].lens);
  while (run->tiles) {
    exact_tile *tile = run->tiles;
    run->tiles = tile->next;
    ctx_free(ctx, tile);
  }
  attend_lens_free(run->lens);
  attend_trace_free(run->trace);
  attend_intervention_free(run->intervention);
  if (run->weights && run->model != run->weights->model) {
    attributor_forget(v, run->model);
    attend_model_free(run->model);
  }
  for (int i = 0; i < 2; i++) side_free(ctx, &run->side[i]);
  side_free(ctx, &run->from);
  ctx_free(ctx, run->steps);
  ctx_free(ctx, (void *)run->is.c.text);
  ctx_free(ctx, (void *)run->is.c.second);
  ctx_free(ctx, (void *)run->is.c.attention);
  ctx_free(ctx, (void *)run->is.c.changes);
  ctx_free(ctx, (void *)run->is.c.from);
  ctx_free(ctx, run);
}

/* A lens of another form records an output and a denominator. */
static size_t run_bytes(const view_run *run) {
  size_t bytes = attend_trace_bytes(run->trace), others = 0;
  for (int i = 0; i < OTHER_FORMS; i++) others += run->other[i].lens != NULL;
  bytes += others * bytes / 3;
  for (const exact_tile *t = run->tiles; t; t = t->next)
    bytes += (size_t)t->height * (size_t)t->width * sizeof(float);
  return bytes;
}

static size_t all_bytes(const attend_viewer *v) {
  size_t bytes = 0;
  for (const view_run *run = v->runs; run; run = run->next) bytes += run_bytes(run);
  return bytes;
}

static void drop(attend_viewer *v, view_run **at) {
  view_run *run = *at;
  *at = run->next;
  run_free(v, run);
}

/* The least recently used one of those that no long call works with. */
static bool drop_last(attend_viewer *v) {
  view_run **last = NULL;
  for (view_run **at = &v->runs; *at; at = &(*at)->next)
    if (!(*at)->held) last = at;
  if (last) drop(v, last);
  return last != NULL;
}

static attend_status runs_room(attend_viewer *v, size_t bytes) {
  size_t max = v->options.most_bytes;
  ATTEND_CHECK(v->ctx, bytes <= max,
               "recording this text takes %zu MB, and %zu are allowed: take a "
               "shorter text, or start with a larger --memory",
               bytes >> 20, max >> 20);
  while (all_bytes(v) + bytes > max && drop_last(v)) continue;
  return ATTEND_OK;
}

void runs_forget(attend_viewer *v, const view_weights *w) {
  view_run **at = &v->runs;
  while (*at)
    if ((*at)->weights == w)
      drop(v, at);
    else
      at = &(*at)->next;
}

const attend_viewer_run *attend_viewer_find(attend_viewer *v, const char *id) {
  for (view_run **at = &v->runs; *at; at = &(*at)->next) {
    view_run *run = *at;
    if (strcmp(run->is.id, id)) continue;
    *at = run->next;
    run->next = v->runs;
    v->runs = run;
    run->weights->used = ++v->clock;
    return &run->is;
  }
  return NULL;
}

const attend_trace *attend_viewer_run_trace(const attend_viewer_run *run) {
  return ((const view_run *)run)->trace;
}

/* ---- cases --------------------------------------------------------------------------------- */

static attend_status case_read(const attend_viewer *v, const attend_viewer_case *given,
                               attend_viewer_case *c) {
  attend_context *ctx = v->ctx;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_viewer_case, given, c));
  ATTEND_CHECK(ctx, attend_viewer_get_model(v, c->model),
               "there is no model %d: the viewer has %zu", c->model, v->n_models);
  if (!c->text) c->text = "";
  if (!c->attention) c->attention = "softmax";
  if (c->second && !*c->second) c->second = NULL;
  if (!c->untrained) c->seed = 0;
  if (!v->models[c->model]->step_path) c->step = -1;
  if (c->changes && !c->changes[strspn(c->changes, " ;")]) c->changes = NULL;
  if (!c->changes || (c->from && !*c->from)) c->from = NULL;
  ATTEND_CHECK(ctx, strlen(c->attention) < ATTEND_VIEWER_FORM,
               "\"attention\" is longer than any form");
  ATTEND_CHECK(ctx, c->pad >= 0 && c->pad <= ATTEND_VIEWER_LONGEST,
               "padding to %d tokens: at most %d", c->pad, ATTEND_VIEWER_LONGEST);
  return ATTEND_OK;
}

static attend_status case_copy(attend_context *ctx, const attend_viewer_case *c,
                               attend_viewer_case *to) {
  *to = *c;
  to->text = to->second = to->attention = to->changes = to->from = NULL;
  ATTEND_TRY(copy_string(ctx, c->text, (char **)&to->text));
  if (c->changes) ATTEND_TRY(copy_string(ctx, c->changes, (char **)&to->changes));
  if (c->from) ATTEND_TRY(copy_string(ctx, c->from, (char **)&to->from));
  ATTEND_TRY(copy_string(ctx, c->attention, (char **)&to->attention));
  return c->second ? copy_string(ctx, c->second, (char **)&to->second) : ATTEND_OK;
}

/* FNV-1a; a text's end is hashed with it. */
static uint64_t hash_bytes(uint64_t hash, const void *bytes, size_t n) {
  for (size_t i = 0; i < n; i++) hash = (hash ^ ((const unsigned char *)bytes)[i]) * 0x100000001b3u;
  return hash;
}
static uint64_t hash_text(uint64_t hash, const char *text) {
  hash = hash_bytes(hash, text ? "1" : "0", 1);
  return text ? hash_bytes(hash, text, strlen(text) + 1) : hash;
}

static void case_id(const attend_viewer_case *c, const char *more, char id[20]) {
  const int numbers[] = {c->model, c->untrained, c->pad, c->step};
  uint64_t hash = 0xcbf29ce484222325u;
  hash = hash_bytes(hash, numbers, sizeof numbers);
  hash = hash_bytes(hash, &c->seed, sizeof c->seed);
  hash = hash_text(hash, c->text);
  hash = hash_text(hash, c->second);
  hash = hash_text(hash, c->attention);
  if (c->changes) hash = hash_text(hash_text(hash, c->changes), c->from);
  hash = hash_text(hash, more);
  snprintf(id, 20, "%016llx", (unsigned long long)hash);
}

static attend_status run_new(view_job *j, const attend_viewer_case *c, generating *g,
                             view_run *run) {
  ATTEND_TRY(case_copy(j->v->ctx, c, &run->is.c));
  ATTEND_TRY(model_take(j, c, run));
  ATTEND_CHECK(j->v->ctx, !g->report || attend_config_parts(run->of->config) & ATTEND_DECODER,
               "%s reads and does not write: it has no decoder", run->of->name);
  if (attend_config_parts(run->of->config) == ATTEND_BOTH && !c->second && !g->report)
    g->new_tokens = ANSWER;
  run->weights->held++;
  attend_status status = run_all(j, run, g);
  run->weights->held--;
  return status;
}

/* The run under this id, or a new one. */
static attend_status run_case(view_job *j, const attend_viewer_case *c, const char *more,
                              generating *g, const attend_viewer_run **out) {
  attend_viewer *v = j->v;
  view_run *run;
  char id[20];
  case_id(c, more, id);
  *out = attend_viewer_find(v, id);
  g->found = *out != NULL;
  if (g->found) return ATTEND_OK;
  ATTEND_TRY(ctx_alloc_zeroed(v->ctx, sizeof *run, "a run", &run));
  memcpy(run->is.id, id, sizeof id);
  attend_status status = run_new(j, c, g, run);
  if (status) {
    run_free(v, run);
    return status;
  }
  run->next = v->runs;
  v->runs = run;
  *out = &run->is;
  return ATTEND_OK;
}

attend_status attend_viewer_run_case(attend_viewer *v, const attend_viewer_case *given,
                                     const attend_viewer_listener *listener,
                                     const attend_viewer_run **run) {
  generating g = {.choose = {ATTEND_INIT(attend_generate_options)}};
  attend_viewer_case c;
  view_job j;
  *run = NULL;
  ATTEND_TRY(job_open(v, listener, &j));
  ATTEND_TRY(case_read(v, given, &c));
  if (tensors_run(v, c.model)) {
    *run = attend_viewer_find(v, tensors_run(v, c.model)->is.id);
    return ATTEND_OK;
  }
  return run_case(&j, &c, "", &g, run);
}

static attend_status read_generate(attend_context *ctx,
                                   const attend_viewer_generate_options *options, generating *g) {
  attend_viewer_generate_options read, *o = &read;
  ATTEND_TRY(OPTIONS_READ(ctx, attend_viewer_generate_options, options, o));
  ATTEND_CHECK(ctx, o->new_tokens >= 0 && o->new_tokens <= ATTEND_VIEWER_NEW,
               "%d tokens to generate: at most %d", o->new_tokens, ATTEND_VIEWER_NEW);
  ATTEND_CHECK(ctx,
               o->temperature >= 0 && o->temperature <= 100 && o->top_p >= 0 && o->top_p <= 1 &&
                   o->top_k >= 0,
               "temperature goes from 0 to 100, top_p from 0 to 1, top_k from 0 on");
  *g = (generating){.new_tokens = o->new_tokens ? o->new_tokens : 20,
                    .choose = {ATTEND_INIT(attend_generate_options)},
                    .report = true};
  g->choose.top_k = o->top_k;
  g->choose.temperature = o->temperature;
  g->choose.top_p = o->top_p > 0 ? o->top_p : 1;
  g->choose.seed = o->seed;
  return ATTEND_OK;
}

attend_status attend_viewer_generate(attend_viewer *v, const attend_viewer_case *given,
                                     const attend_viewer_generate_options *options,
                                     const attend_viewer_listener *listener,
                                     const attend_viewer_run **run) {
  generating g;
  attend_viewer_case c;
  view_job j;
  char more[128];
  *run = NULL;
  ATTEND_TRY(job_open(v, listener, &j));
  ATTEND_TRY(case_read(v, given, &c));
  ATTEND_CHECK(v->ctx, !tensors_run(v, c.model), "%s holds tensors: there is no model to run",
               v->models[c.model]->name);
  ATTEND_TRY(read_generate(v->ctx, options, &g));
  snprintf(more, sizeof more, "new %d t %g k %d p %g seed %llu", g.new_tokens,
           (double)g.choose.temperature, g.choose.top_k, (double)g.choose.top_p,
           (unsigned long long)g.choose.seed);
  ATTEND_TRY(run_case(&j, &c, more, &g, run));
  for (int i = 0; g.found && i < (*run)->n_steps; i++)
    ATTEND_TRY(report_token(&j, &(*run)->steps[i]));
  return ATTEND_OK;
}
