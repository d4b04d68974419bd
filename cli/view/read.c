/* Running a case: tokens, the model over them, and what is written on.
 *
 * Behind view_answer.h: the requests run and generate.
 *
 * An encoder-decoder whose second text is not given writes one. What the decoder
 * says begins with what its family begins with.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "progress.h"
#include "view/core.h"

enum { WRITES = 24 }; /* tokens that an encoder-decoder says by itself */

/* ---- tokens ------------------------------------------------------------------------ */

static void side_add(view_side *s, int32_t id, int part) {
  s->ids[s->n] = id;
  s->part[s->n++] = (signed char)part;
  s->real = s->n;
}

static void side_room(view_side *s, size_t n) {
  s->ids = need(n, sizeof *s->ids);
  s->part = need(n, sizeof *s->part);
}

static void note_cut(view_run *run, size_t most, size_t dropped) {
  if (dropped)
    snprintf(run->notice, sizeof run->notice,
             "The text was cut at %zu tokens; %zu were left out.", most,
             dropped);
}

static bool encode_text(asking *a, view_run *run, const char *text,
                        const char *pair, size_t most, bool open_end,
                        view_side *s) {
  attend_encoding *e = NULL;
  attend_encode_options o = {
      .pair = pair, .pair_length = pair ? strlen(pair) : 0, .max_length = most};
  const attend_tokenizer *t = run->of->tokenizer;
  bool ok = ask_status(a, attend_encoding_create(t, &e)) &&
            ask_status(a, attend_encode(e, text, strlen(text), &o));
  if (ok) {
    size_t n = e->count;
    while (open_end && n > 1 && e->part[n - 1] < 0) n--; /* no end mark */
    side_room(s, n + WRITES + VIEW_NEW + 2 + (size_t)run->c.pad);
    for (size_t i = 0; i < n; i++) side_add(s, e->id[i], e->part[i]);
    note_cut(run, most, e->dropped);
  }
  attend_encoding_free(e);
  return ok;
}

static bool read_numbers(asking *a, view_run *run, const char *text,
                         size_t most, view_side *s) {
  size_t dropped = 0;
  side_room(s, strlen(text) + WRITES + VIEW_NEW + 2 + (size_t)run->c.pad);
  for (const char *at = text; *at;) {
    char *end;
    long id = strtol(at, &end, 10);
    if (end == at && *at != ' ' && *at != ',')
      return ask_fail(a, 400,
                      "this model has no tokenizer: its text is numbers from 0 "
                      "to %d between spaces",
                      run->of->config.vocab - 1);
    if (end == at) {
      at++;
      continue;
    }
    if (id < 0 || id >= run->of->config.vocab)
      return ask_fail(a, 400, "token %ld: the model knows 0 to %d", id,
                      run->of->config.vocab - 1);
    if ((size_t)s->n < most)
      side_add(s, (int32_t)id, 0);
    else
      dropped++;
    at = end;
  }
  note_cut(run, most, dropped);
  return true;
}

static size_t longest(const view_run *run, int beside) {
  const attend_config *c = &run->of->config;
  int64_t most = VIEW_LONGEST;
  if (c->position == ATTEND_POSITIONS_LEARNED && c->positions < most)
    most = c->positions;
  return (size_t)(most > beside + 1 ? most - beside : 1);
}

static bool fill_side(asking *a, view_run *run, const char *text,
                      const char *pair, int beside, bool open_end,
                      view_side *s) {
  size_t most = longest(run, beside);
  if (run->of->tokenizer)
    return encode_text(a, run, text, pair, most, open_end, s);
  return read_numbers(a, run, text, most, s);
}

/* An empty text has nothing to look at. */
static bool some(asking *a, const view_side *s) {
  if (s->n) return true;
  return ask_fail(a, 400, "the text has no tokens: write something");
}

static void pad_side(view_run *run, view_side *s) {
  int most = (int)longest(run, 0), pad = run->of->config.pad;
  int to = run->c.pad < most ? run->c.pad : most;
  while (s->n < to) {
    s->ids[s->n] = pad >= 0 ? pad : 0;
    s->part[s->n++] = -1;
  }
}

/* What the decoder of an encoder-decoder is given: what it starts with, then the
 * text as it learnt to say it, with the mark that the tokenizer puts in front
 * (BART's <s>). */
static bool answer_side(asking *a, view_run *run, view_side *s) {
  const attend_config *c = &run->of->config;
  view_side said = {0};
  bool ok =
      !run->c.second || fill_side(a, run, run->c.second, NULL, 2, true, &said);
  if (ok) {
    side_room(s, (size_t)said.n + WRITES + VIEW_NEW + 4);
    if (c->decoder_start >= 0) side_add(s, c->decoder_start, -1);
    if (c->forced_bos >= 0) side_add(s, c->forced_bos, -1);
    for (int i = 0, front = 1; i < said.n; i++) {
      int32_t id = said.ids[i];
      front &= said.part[i] < 0;
      if (front && id != c->decoder_start && id != c->forced_bos)
        side_add(s, id, -1);
      else if (said.part[i] >= 0)
        side_add(s, id, 0);
    }
    if (!s->n) side_add(s, 0, -1);
  }
  free(said.ids);
  free(said.part);
  return ok;
}

static bool run_tokens(asking *a, view_run *run) {
  const attend_config *c = &run->of->config;
  bool pair = c->parts == ATTEND_ENCODER && run->c.second;
  view_side *encoder = &run->side[0], *decoder = &run->side[1];
  if (c->parts == ATTEND_DECODER)
    return fill_side(a, run, run->c.text, NULL, 0, true, decoder) &&
           some(a, decoder);
  if (pair && !run->of->tokenizer)
    return ask_fail(a, 400, "a pair of texts needs a tokenizer");
  if (!fill_side(a, run, run->c.text, pair ? run->c.second : NULL, 0, false,
                 encoder) ||
      !some(a, encoder))
    return false;
  pad_side(run, encoder);
  return c->parts == ATTEND_ENCODER || answer_side(a, run, decoder);
}

/* ---- the model over them -------------------------------------------------------------- */

static void see(const attend_hooked *sight, void *user) {
  view_run *run = user;
  run_check(run, sight);
  attend_trace_read(sight, run->trace);
}

/* Asked before every layer. */
static int stop_reading(void *user) {
  view_run *run = user;
  return run->reader && run->done < run->total &&
         ask_progress(run->reader, run->done++, run->total, "reading the text");
}

enum { ROWS = 512 }; /* of the decoder at once */

static bool take_trace(asking *a, view_run *run, int new_tokens) {
  int expected = run->side[1].n + new_tokens;
  size_t bytes =
      attend_model_trace_bytes(run->model, VIEW_SEEN, run->side[0].n, expected);
  attend_trace_options o = {.points = VIEW_SEEN, .rows = expected};
  return runs_room(a, bytes) &&
         ask_status(a, attend_trace_create(a->v->ctx, &o, &run->trace));
}

/* The encoder's segments: 1 in the second text, and the mark after it. */
static int32_t *types_of(const view_side *s) {
  int32_t *types = need((size_t)s->n + 1, sizeof *types);
  bool second = false;
  for (int i = 0; i < s->real; i++) {
    second |= s->part[i] == 1;
    types[i] = second;
  }
  return types;
}

static bool read_encoder(asking *a, view_run *run, attend_session *r) {
  view_side *s = &run->side[0];
  if (!s->n) return true;
  int32_t lengths[1] = {s->real};
  int32_t *types = types_of(s);
  bool typed = run->of->config.types > 1;
  attend_status status =
      attend_session_encode(r, 1, s->n, s->ids, lengths, typed ? types : NULL);
  free(types);
  return ask_status(a, status);
}

static bool read_decoder(asking *a, view_run *run, attend_session *r) {
  view_side *d = &run->side[1];
  return !d->n ||
         ask_status(a, attend_session_extend(r, 1, d->n, d->ids, NULL));
}

static bool run_begin(asking *a, view_run *run, int new_tokens,
                      attend_session **r) {
  const attend_config *c = &run->of->config;
  int n = run->side[1].n, pieces = (n + ROWS - 1) / ROWS;
  attend_session_options o = {.rows = n < ROWS ? n + 1 : ROWS};
  attend_hook hook = {.points = VIEW_SEEN, .read = see, .user = run};
  if (!take_trace(a, run, new_tokens) ||
      !ask_status(a, attend_session_create(run->model, &o, r)))
    return false;
  double start = seconds_now();
  run->total = c->encoder.layers + (double)pieces * c->decoder.layers;
  run->reader = a;
  attend_session_set_stop(*r, stop_reading, run);
  bool ok = ask_status(a, attend_session_set_hooks(*r, 1, &hook)) &&
            read_encoder(a, run, *r) && read_decoder(a, run, *r);
  run->reader = NULL;
  run->seconds = seconds_now() - start;
  return ok && run_is_finite(a, run) &&
         ask_status(a, attend_trace_status(run->trace));
}

/* The decoder's next tokens, chosen and read one by one. */
typedef struct {
  int new_tokens;
  attend_generate_options choose;
  bool say; /* an event for each */
} run_writing;

/* ---- writing on ------------------------------------------------------------------------- */

static int likelier(const void *x, const void *y) {
  const view_candidate *a = x, *b = y;
  if (a->p != b->p) return a->p < b->p ? 1 : -1;
  return (a->id > b->id) - (a->id < b->id);
}

/* log of the sum of exp, by which logits become probabilities. */
static double log_sum(const float *logits, int n) {
  float top = -INFINITY;
  double sum = 0;
  for (int i = 0; i < n; i++)
    if (logits[i] > top) top = logits[i];
  for (int i = 0; i < n; i++) sum += exp((double)logits[i] - (double)top);
  return (double)top + log(sum);
}

/* The likeliest, sorted. */
int candidates_of(const float *logits, int n, int most, view_candidate *to) {
  double all = log_sum(logits, n);
  int count = 0;
  for (int i = 0; i < n; i++) {
    double p = exp((double)logits[i] - all);
    if (count == most && !(p > to[count - 1].p)) continue;
    int at = count < most ? count++ : count - 1;
    while (at > 0 && p > to[at - 1].p) {
      to[at] = to[at - 1];
      at--;
    }
    to[at] = (view_candidate){i, p};
  }
  qsort(to, (size_t)count, sizeof *to, likelier);
  return count;
}

static bool say_step(asking *a, const view_run *run, const view_step *s) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  step_write(&w, run->of, s);
  bool ok = ask_status(a, attend_json_finish(&w));
  if (ok && w.length && w.text[w.length - 1] == '\n') w.text[w.length - 1] = 0;
  if (ok && a->say && a->say("token", w.text, a->user))
    ok = ask_fail(a, 499, "stopped");
  attend_json_writer_free(&w);
  return ok;
}

static bool is_end(const attend_config *c, int32_t id) {
  for (int i = 0; i < c->n_eos; i++)
    if (c->eos[i] == id) return true;
  return false;
}

static bool choose(asking *a, view_run *run, attend_session *r, float *logits,
                   const run_writing *w, view_step *s) {
  int vocab = run->of->config.vocab;
  view_side *d = &run->side[1];
  float uniform;
  attend_random_uniform((attend_random){w->choose.seed, 0}, (uint64_t)d->n, 1,
                        &uniform);
  if (!ask_status(a, attend_session_next(r, 1, logits))) return false;
  s->n = candidates_of(logits, vocab, VIEW_CANDIDATES, s->candidate);
  float *copy = logits + vocab;
  memcpy(copy, logits, (size_t)vocab * sizeof *logits);
  if (!ask_status(a, attend_choose(a->v->ctx, &w->choose, copy, vocab, d->ids,
                                   d->n, uniform, &s->id)))
    return false;
  if (s->id < 0)
    return ask_fail(a, 400, "the model gave no number to choose by");
  s->p = exp((double)logits[s->id] - log_sum(logits, vocab));
  s->position = d->n;
  return true;
}

/* What decoding reads again: the keys and values so far, or a state that does
 * not grow. */
static size_t held_bytes(const view_run *run, const attend_session *r) {
  const attend_stack *s = &run->of->config.decoder;
  size_t token = (size_t)(s->kv_heads * (s->dim + s->dim_v)) * sizeof(float);
  if (attend_form_features(
          attend_model_role_form(run->model, ATTEND_DECODER_SELF), s->dim))
    return attend_session_cache_bytes(r);
  return (size_t)attend_session_length(r, 0) * token * (size_t)s->layers;
}

static bool write_one(asking *a, view_run *run, attend_session *r,
                      float *logits, const run_writing *w, bool *end) {
  view_side *d = &run->side[1];
  view_step *s = &run->steps[run->n_steps];
  if (!choose(a, run, r, logits, w, s)) return false;
  side_add(d, s->id, 0);
  if (!ask_status(a, attend_session_extend(r, 1, 1, &s->id, NULL)))
    return false;
  s->cache_bytes = held_bytes(run, r);
  s->length = (int)attend_session_length(r, 0);
  run->n_steps++;
  run->generated++;
  *end = is_end(&run->of->config, s->id);
  return !w->say || say_step(a, run, s);
}

static bool run_write_on(asking *a, view_run *run, attend_session *r,
                         const run_writing *w) {
  int most = w->new_tokens;
  int room = (int)longest(run, 0) - run->side[1].n;
  bool end = false, ok = true;
  if (most > room) most = room;
  size_t vocab = (size_t)run->of->config.vocab;
  float *logits = need(2 * vocab, sizeof *logits);
  run->steps = need((size_t)(most > 0 ? most : 1), sizeof *run->steps);
  for (int i = 0; i < most && ok && !end; i++) {
    ok = write_one(a, run, r, logits, w, &end);
    if (ok && ask_progress(a, i + 1, most, "writing"))
      ok = ask_fail(a, 499, "stopped");
  }
  free(logits);
  return ok && run_is_finite(a, run) &&
         ask_status(a, attend_trace_status(run->trace));
}

/* ---- a whole run -------------------------------------------------------------------------- */

static void note_length(view_run *run) {
  const attend_config *c = &run->of->config;
  int n = run->side[1].n > run->side[0].n ? run->side[1].n : run->side[0].n;
  if (!run->notice[0] && c->positions && n > c->positions)
    snprintf(run->notice, sizeof run->notice,
             "%d tokens are more than the %d that the model was made for: what "
             "it does beyond them is a guess.",
             n, c->positions);
}

static bool run_read(asking *a, view_run *run) {
  attend_session *r = NULL;
  bool writes = run->of->config.parts == ATTEND_BOTH && !run->c.second;
  run_writing w = {.new_tokens = writes ? WRITES : 0,
                   .choose = attend_generate_defaults()};
  double start = seconds_now();
  bool ok = run_begin(a, run, w.new_tokens, &r);
  if (ok && writes) ok = run_write_on(a, run, r, &w);
  attend_session_free(r);
  run->seconds = seconds_now() - start;
  note_length(run);
  int real = run->side[0].n ? run->side[0].real : 0;
  return ok && ask_status(a, attend_lens_create(run->model, run->trace, NULL,
                                                real, &run->lens));
}

static bool say_run(asking *a, const view_run *run) {
  attend_json_writer w = attend_json_writer_text(a->v->ctx);
  run_write(&w, run);
  return reply_json(a, &w);
}

/* The run that is kept under this id, or a new one of the case. */
static bool start_run(asking *a, const attend_json *q, const char *more,
                      view_run **run, bool *old) {
  char id[20];
  view_run *new = need(1, sizeof *new);
  bool ok = case_read(a, q, &new->c) && case_id(a, &new->c, more, id);
  view_run *found = ok ? runs_find(a->v, id) : NULL;
  *old = found != NULL;
  if (found) {
    run_free(new);
    *run = found;
    return true;
  }
  *run = new;
  memcpy(new->id, id, sizeof new->id);
  if (ok) ok = models_take(a, &new->c, new);
  if (!ok && new->weights && !new->weights->model) new->weights = NULL;
  if (ok) new->weights->held++;
  return ok;
}

static bool end_run(asking *a, view_run *run, bool ok) {
  run->weights->held--;
  if (!ok) {
    run_free(run);
    return false;
  }
  runs_add(a->v, run);
  return say_run(a, run);
}

bool answer_run(asking *a) {
  view_run *run;
  bool old;
  if (!start_run(a, a->q, "", &run, &old)) {
    run_free(run);
    return false;
  }
  if (old) return say_run(a, run);
  return end_run(a, run, run_tokens(a, run) && run_read(a, run));
}

static bool read_writing(asking *a, run_writing *w) {
  int top_k, new_tokens;
  w->choose = attend_generate_defaults();
  if (!ask_integer(a, "new", 1, VIEW_NEW, 20, &new_tokens) ||
      !ask_integer(a, "top_k", 0, 1 << 20, 0, &top_k))
    return false;
  double t = attend_json_number(attend_json_get(a->q, "temperature"), 0);
  double p = attend_json_number(attend_json_get(a->q, "top_p"), 1);
  if (!(t >= 0 && t <= 100) || !(p >= 0 && p <= 1))
    return ask_fail(
        a, 400, "\"temperature\" goes from 0 to 100, \"top_p\" from 0 to 1");
  int64_t seed = 0;
  attend_json_integer(attend_json_get(a->q, "seed"), &seed);
  w->new_tokens = new_tokens;
  w->choose.top_k = top_k;
  w->choose.temperature = (float)t;
  w->choose.top_p = (float)p;
  w->choose.seed = (uint64_t)seed;
  w->say = true;
  return true;
}

static bool write_run(asking *a, view_run *run, const run_writing *w) {
  attend_session *r = NULL;
  if (!(run->of->config.parts & ATTEND_DECODER))
    return ask_fail(a, 400, "%s reads and does not write: it has no decoder",
                    run->of->name);
  bool ok = run_tokens(a, run) && run_begin(a, run, w->new_tokens, &r) &&
            run_write_on(a, run, r, w);
  attend_session_free(r);
  note_length(run);
  int real = run->side[0].n ? run->side[0].real : 0;
  return ok && ask_status(a, attend_lens_create(run->model, run->trace, NULL,
                                                real, &run->lens));
}

bool answer_generate(asking *a) {
  view_run *run;
  bool old;
  char more[128];
  run_writing w;
  if (!read_writing(a, &w)) return false;
  snprintf(more, sizeof more, "new %d t %g k %d p %g seed %llu", w.new_tokens,
           (double)w.choose.temperature, w.choose.top_k, (double)w.choose.top_p,
           (unsigned long long)w.choose.seed);
  if (!start_run(a, attend_json_get(a->q, "case"), more, &run, &old)) {
    run_free(run);
    return false;
  }
  if (!old) return end_run(a, run, write_run(a, run, &w));
  for (int i = 0; i < run->n_steps; i++)
    if (!say_step(a, run, &run->steps[i])) return false;
  return say_run(a, run);
}
