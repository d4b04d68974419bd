/* Summaries of documents that fit the encoder: encoding, batches of similar length,
 * samples that differ.
 *
 * The samples of a document are numbered. One whose text was drawn before is
 * replaced by the next, so that a seed gives the same set whatever else is in the
 * batch.
 */
#include "model/config.h"
#include "tasks/summarize.h"

#include <stdlib.h>

#include "base/options.h"
#include "generate/generate.h"

enum { BEAMS = 4, SEQUENCES = 32, ROUNDS = 8 };
enum { TOKENS_PER_WORD = 8 }; /* at most, to bound max_new by words */

size_t text_trimmed(const char *text, size_t length) {
  while (length && is_space(text[length - 1])) length--;
  return length;
}

/* ---- summarizers ---------------------------------------------------------------- */

static attend_status check_model(const attend_model *model) {
  const attend_config *c = attend_model_config(model);
  ATTEND_CHECK(attend_model_context(model), c->parts == ATTEND_BOTH,
               "%s is %s and writes no summaries: take an encoder-decoder such as bart "
               "or t5%s",
               c->family, c->parts == ATTEND_ENCODER ? "an encoder" : "a decoder",
               c->parts == ATTEND_ENCODER ? "" : ", or continue a text with generate");
  return ATTEND_OK;
}

/* Bounds in words replace the directory's bounds in tokens. */
static attend_status bound_words(attend_summarizer *s, unsigned given) {
  int words = s->max_words ? s->max_words : s->min_words;
  if (!words) return ATTEND_OK;
  int needed = TOKENS_PER_WORD * words + 32;
  if (!(given & ATTEND_SUMMARY_MAX_NEW) && (s->max_words || needed > s->how.max_new))
    s->how.max_new = needed;
  s->how.min_new = 0;
  return word_bounds_create(s->model, s->tokenizer, s->min_words, s->max_words, &s->words);
}

static attend_status fill(attend_summarizer *s, const char *directory,
                          const attend_summarize_options *o) {
  enum { MOST_WORDS = 1 << 20 };
  ATTEND_TRY(check_model(s->model));
  ATTEND_CHECK(s->ctx,
               o->min_words >= 0 && o->min_words <= MOST_WORDS && o->max_words >= 0 &&
                   o->max_words <= MOST_WORDS,
               "summaries of %d to %d words: choose bounds from 0 to %d", o->min_words,
               o->max_words, MOST_WORDS);
  ATTEND_CHECK(s->ctx, !o->max_words || o->min_words <= o->max_words,
               "min_words %d is more than max_words %d", o->min_words, o->max_words);
  ATTEND_TRY(text_copy(s->ctx, directory, strlen(directory), &s->directory));
  ATTEND_TRY(attend_tokenizer_load(s->ctx, directory, &s->tokenizer));
  ATTEND_TRY(OPTIONS_READ(s->ctx, attend_generate_options, o->generate, &s->how));
  if (!s->how.beams) s->how.beams = BEAMS;
  if (!s->how.batch) s->how.batch = SEQUENCES;
  const attend_generate_options how = s->how;
  ATTEND_TRY(generate_options_read(s->ctx, &how, &s->how));
  ATTEND_CHECK(s->ctx, s->how.context >= 0, "context is %d: choose 0 or more", s->how.context);
  int made = attend_model_config(s->model)->positions;
  s->context = s->how.context && (!made || s->how.context < made) ? s->how.context : made;
  s->how.context = 0; /* it bounds the encoder alone */
  s->how.tokenizer = s->tokenizer;
  s->min_words = o->min_words;
  s->max_words = o->max_words;
  ATTEND_TRY(settings_read(s, o->given));
  ATTEND_CHECK(s->ctx, s->how.samples >= 1 && s->how.beams >= 1,
               "%d samples and %d beams: choose at least one of each", s->how.samples,
               s->how.beams);
  return bound_words(s, o->given);
}

attend_status attend_summarizer_create(attend_model *model, const char *directory,
                                       const attend_summarize_options *options,
                                       attend_summarizer **summarizer) {
  attend_context *ctx = attend_model_context(model);
  attend_summarize_options o;
  attend_summarizer *s;
  *summarizer = NULL;
  ATTEND_CHECK(ctx, directory, "directory is NULL: name the model's");
  ATTEND_TRY(OPTIONS_READ(ctx, attend_summarize_options, options, &o));
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *s, "a summarizer", &s));
  s->ctx = ctx;
  s->model = model;
  attend_status status = fill(s, directory, &o);
  if (status)
    attend_summarizer_free(s);
  else
    *summarizer = s;
  return status;
}

void attend_summarizer_free(attend_summarizer *s) {
  if (!s) return;
  word_bounds_free(s->ctx, s->words);
  attend_tokenizer_free(s->tokenizer);
  ctx_free(s->ctx, s->prefix);
  ctx_free(s->ctx, s->directory);
  ctx_free(s->ctx, s);
}

const attend_generate_options *attend_summarizer_generate(const attend_summarizer *s) {
  return &s->how;
}

int attend_summarizer_context(const attend_summarizer *s) { return s->context; }

const char *attend_summarizer_prefix(const attend_summarizer *s) { return s->prefix; }

const attend_tokenizer *attend_summarizer_tokenizer(const attend_summarizer *s) {
  return s->tokenizer;
}

/* ---- encoding ------------------------------------------------------------------- */

attend_status document_encode(const attend_summarizer *s, const attend_document *d,
                              attend_encoding *e) {
  size_t front = strlen(s->prefix), length = text_trimmed(d->text, d->length);
  attend_encode_options o = {ATTEND_INIT(attend_encode_options), .max_length = (size_t)s->context};
  char *text;
  ATTEND_TRY(ctx_alloc(s->ctx, front + length + 1, "a document", &text));
  memcpy(text, s->prefix, front);
  memcpy(text + front, d->text, length);
  attend_status status = attend_encode(e, text, front + length, &o);
  ctx_free(s->ctx, text);
  return status;
}

static attend_status encode_job(const attend_summarizer *s, attend_encoding *e, document_job *job) {
  size_t front = strlen(s->prefix);
  size_t length = text_trimmed(job->in.text, job->in.length);
  attend_summarized *d = &job->out;
  int32_t *ids;
  if (job->reading || !length) return ATTEND_OK;
  ATTEND_TRY(document_encode(s, &job->in, e));
  ATTEND_TRY(ctx_alloc(s->ctx, e->count * sizeof *ids, "a document's ids", &ids));
  memcpy(ids, e->id, e->count * sizeof *ids);
  d->ids = ids;
  d->tokens = (int)e->count;
  d->cut = (int)e->dropped;
  for (size_t i = 0; i < e->count; i++)
    if (e->part[i] == 0 && e->end[i] > front + d->read) d->read = e->end[i] - front;
  if (!d->cut) d->read = length;
  return ATTEND_OK;
}

static attend_status encode_jobs(const attend_summarizer *s, document_job *jobs, int count) {
  attend_encoding *e;
  attend_status status = attend_encoding_create(s->tokenizer, &e);
  for (int i = 0; i < count && !status; i++) status = encode_job(s, e, &jobs[i]);
  attend_encoding_free(e);
  return status;
}

/* ---- results -------------------------------------------------------------------- */

static bool is_known(const attend_summarized *d, const char *text) {
  for (int i = 0; i < d->count; i++)
    if (!strcmp(d->best[i].text, text)) return true;
  return false;
}

static attend_status copy_summary(attend_context *ctx, const char *text, size_t length,
                                  const attend_continuation *c, attend_summary *one) {
  char *copy = NULL;
  int32_t *ids = NULL;
  ATTEND_TRY(ctx_alloc(ctx, (size_t)c->count * sizeof *ids, "a summary", &ids));
  attend_status status = text_copy(ctx, text, length, &copy);
  if (status) {
    ctx_free(ctx, ids);
    return status;
  }
  memcpy(ids, c->ids, (size_t)c->count * sizeof *ids);
  *one = (attend_summary){.text = copy,
                          .ids = ids,
                          .count = c->count,
                          .log_probability = c->log_probability,
                          .score = c->log_probability / c->count,
                          .end = c->end};
  return ATTEND_OK;
}

/* Beams may reach one text by different tokens: a text counts once. */
static attend_status add_summary(attend_context *ctx, attend_summarized *d,
                                 const attend_continuation *c, int max) {
  const char *text = c->text;
  attend_summary *best = (attend_summary *)d->best, one;
  if (d->count == max || !c->count || c->end == ATTEND_FINISH_CALLER) return ATTEND_OK;
  while (is_space(*text)) text++;
  ATTEND_TRY(copy_summary(ctx, text, text_trimmed(text, strlen(text)), c, &one));
  if (is_known(d, one.text)) {
    ctx_free(ctx, (char *)one.text);
    ctx_free(ctx, (int32_t *)one.ids);
  } else {
    best[d->count++] = one;
  }
  return ATTEND_OK;
}

/* Best first; equal ones as they were drawn. */
static void rank(attend_summarized *d) {
  attend_summary *best = (attend_summary *)d->best;
  for (int i = 1; i < d->count; i++) {
    attend_summary one = best[i];
    int at = i;
    for (; at > 0 && one.score > best[at - 1].score; at--) best[at] = best[at - 1];
    best[at] = one;
  }
}

void summaries_free(const attend_context *ctx, const attend_summary *best, int count) {
  for (int i = 0; i < count; i++) {
    ctx_free(ctx, (char *)best[i].text);
    ctx_free(ctx, (int32_t *)best[i].ids);
  }
  ctx_free(ctx, (attend_summary *)best);
}

void jobs_free(const attend_context *ctx, document_job *jobs, int count) {
  for (int i = 0; jobs && i < count; i++) {
    summaries_free(ctx, jobs[i].out.best, jobs[i].out.count);
    ctx_free(ctx, (int32_t *)jobs[i].out.ids);
  }
  ctx_free(ctx, jobs);
}

/* ---- writing -------------------------------------------------------------------- */

typedef struct {
  const attend_summarizer *s;
  const job_callbacks *callbacks;
  attend_generate_options how;
  document_job **jobs; /* [count], by their lengths */
  int count;
  double tokens, done; /* of all documents; of those that are done */
  bool stopped;
} writing;

static int on_step(void *user) {
  writing *w = user;
  double done = w->tokens > 0 ? w->done / w->tokens : 0;
  if (w->callbacks->progress && w->callbacks->progress(done, NULL, w->callbacks->user))
    w->stopped = true;
  return w->stopped;
}

static void on_logits(const attend_choice *choice, void *user) {
  const writing *w = user;
  word_bounds_apply(w->s->words, choice);
}

static void end_job(writing *w, document_job *job) {
  job->out.done = true;
  w->done += job->out.tokens;
  if (w->callbacks->on_done) w->callbacks->on_done(job, w->callbacks->user);
}

static attend_status generate(writing *w, int round, int n, document_job **jobs,
                              attend_prompt *prompts, uint64_t *streams) {
  int samples = w->how.samples;
  attend_generation *g;
  const attend_continuation *c;
  for (int i = 0; i < n; i++) {
    prompts[i] = (attend_prompt){jobs[i]->out.ids, jobs[i]->out.tokens};
    streams[i] = (uint64_t)jobs[i]->in.number << 32 | (uint64_t)(round * samples);
  }
  w->how.streams = streams;
  w->how.reading = jobs[0]->reading;
  attend_status status = attend_generate(w->s->model, n, prompts, &w->how, &g);
  for (int i = 0; !status && (c = attend_generation_get(g, i)); i++)
    status = add_summary(w->s->ctx, &jobs[c->prompt]->out, c, samples);
  attend_generation_free(g);
  return status;
}

/* One round of samples; jobs [*count] becomes those that need more. */
static attend_status write_round(writing *w, int round, document_job **jobs, int *count) {
  int n = *count;
  attend_context *ctx = w->s->ctx;
  attend_prompt *prompts = NULL;
  uint64_t *streams = NULL;
  attend_status status = ctx_alloc(ctx, (size_t)n * sizeof *prompts, "prompts", &prompts);
  if (!status) status = ctx_alloc(ctx, (size_t)n * sizeof *streams, "streams", &streams);
  if (!status) status = generate(w, round, n, jobs, prompts, streams);
  ctx_free(ctx, streams);
  ctx_free(ctx, prompts);
  *count = 0;
  for (int i = 0; i < n; i++)
    if (jobs[i]->out.count < w->how.samples) jobs[(*count)++] = jobs[i];
  return status;
}

static attend_status take_results(const writing *w, document_job **jobs, int n) {
  attend_status status = ATTEND_OK;
  size_t bytes = (size_t)w->how.samples * sizeof(attend_summary);
  for (int i = 0; i < n && !status; i++)
    status = ctx_alloc_zeroed(w->s->ctx, bytes, "summaries", &jobs[i]->out.best);
  return status;
}

static attend_status write_group(writing *w, document_job **jobs, int n) {
  bool draws = w->how.temperature > 0;
  int left = n, rounds = draws && w->how.samples > 1 ? ROUNDS : 1;
  document_job **open;
  ATTEND_TRY(ctx_alloc(w->s->ctx, (size_t)n * sizeof *open, "a batch", &open));
  memcpy(open, jobs, (size_t)n * sizeof *open);
  attend_status status = take_results(w, jobs, n);
  for (int i = 0; i < rounds && left && !status && !w->stopped; i++)
    status = write_round(w, i, open, &left);
  for (int i = 0; i < n && !status; i++) {
    if (draws) rank(&jobs[i]->out);
    if (jobs[i]->out.count && !w->stopped) end_job(w, jobs[i]);
  }
  ctx_free(w->s->ctx, open);
  return status;
}

static int by_length(const void *a, const void *b) {
  const document_job *x = *(document_job *const *)a;
  const document_job *y = *(document_job *const *)b;
  if (x->out.tokens != y->out.tokens) return x->out.tokens < y->out.tokens ? -1 : 1;
  return x < y ? -1 : x > y;
}

static attend_status write_groups(writing *w) {
  int each = w->how.beams > 1 ? w->how.beams : w->how.samples, first = 0;
  int group = w->how.batch > each ? w->how.batch / each : 1;
  if (w->count && w->jobs[0]->reading) group = 1;
  attend_status status = ATTEND_OK;
  qsort(w->jobs, (size_t)w->count, sizeof *w->jobs, by_length);
  for (int i = 0; i < w->count; i++) w->tokens += w->jobs[i]->out.tokens;
  for (; first < w->count && !w->jobs[first]->out.tokens; first++) end_job(w, w->jobs[first]);
  for (; first < w->count && !status && !w->stopped; first += group) {
    int n = w->count - first < group ? w->count - first : group;
    status = write_group(w, w->jobs + first, n);
  }
  if (!status && w->stopped) return fail(w->s->ctx, ATTEND_STOPPED, "stopped by the caller");
  return status;
}

attend_status jobs_write(const attend_summarizer *s, document_job *jobs, int count,
                         const job_callbacks *callbacks) {
  writing w = {.s = s, .callbacks = callbacks, .how = s->how, .count = count};
  ATTEND_TRY(ctx_alloc(s->ctx, (size_t)count * sizeof *w.jobs, "documents", &w.jobs));
  w.how.on_step = on_step;
  w.how.on_token = NULL;
  w.how.on_done = NULL;
  w.how.on_logits = s->words ? on_logits : NULL;
  w.how.user = &w;
  for (int i = 0; i < count; i++) w.jobs[i] = &jobs[i];
  attend_status status = encode_jobs(s, jobs, count);
  if (!status) status = write_groups(&w);
  ctx_free(s->ctx, w.jobs);
  return status;
}

/* ---- a call --------------------------------------------------------------------- */

typedef struct {
  attend_summarize_callbacks o;
  document_job *jobs;
} call;

static int call_progress(double done, const char *what, void *user) {
  const call *c = user;
  return c->o.progress ? c->o.progress(done, what, c->o.user) : 0;
}

static void call_done(document_job *job, void *user) {
  const call *c = user;
  if (c->o.on_done) c->o.on_done((int)(job - c->jobs), &job->out, c->o.user);
}

static attend_status check_documents(attend_context *ctx, int count,
                                     const attend_document *documents) {
  ATTEND_CHECK(ctx, count >= 0 && (documents || !count),
               "%d documents at a NULL address: give an array", count);
  for (int i = 0; i < count; i++)
    ATTEND_CHECK(ctx, documents[i].text || !documents[i].length,
                 "document %d has %zu bytes but its text is NULL", i, documents[i].length);
  return ATTEND_OK;
}

attend_status attend_summarize(attend_summarizer *s, int count, const attend_document *documents,
                               const attend_summarize_callbacks *callbacks,
                               attend_summaries **summaries) {
  call c = {{0}, NULL};
  job_callbacks inner = {call_progress, call_done, &c};
  attend_summaries *all;
  *summaries = NULL;
  ATTEND_TRY(check_documents(s->ctx, count, documents));
  ATTEND_TRY(OPTIONS_READ(s->ctx, attend_summarize_callbacks, callbacks, &c.o));
  ATTEND_TRY(ctx_alloc_zeroed(s->ctx, sizeof *all, "summaries", &all));
  *all = (attend_summaries){.ctx = s->ctx, .count = count};
  attend_status status =
      ctx_alloc_zeroed(s->ctx, (size_t)count * sizeof *all->jobs, "documents", &all->jobs);
  for (int i = 0; i < count && !status; i++) all->jobs[i].in = documents[i];
  c.jobs = all->jobs;
  if (!status) status = jobs_write(s, all->jobs, count, &inner);
  if (status && status != ATTEND_STOPPED)
    attend_summaries_free(all);
  else
    *summaries = all;
  return status;
}

void attend_summaries_free(attend_summaries *all) {
  if (!all) return;
  jobs_free(all->ctx, all->jobs, all->count);
  ctx_free(all->ctx, all);
}

const attend_summarized *attend_summaries_get(const attend_summaries *all, int document) {
  return document >= 0 && document < all->count ? &all->jobs[document].out : NULL;
}
