/* Writing summaries: documents to ids, batches of alike length, draws that differ.
 *
 * See summarize.h; between texts and attend_generate.
 *
 * Draws of one document are numbered. Those that say what was said before are
 * passed over and the next are drawn, so that the same seed gives the same set
 * whatever else is in the batch.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "interrupt.h"
#include "summarize/summarize.h"

enum { BEAMS = 4, TOKENS = 128, BATCH = 32, ROUNDS = 8 };
enum { MOST_PIECES = 8 }; /* tokens of a word, for a bound on memory */

summary_options summary_defaults(void) {
  summary_options o = {.how = attend_generate_defaults()};
  o.how.beams = BEAMS;
  o.how.max_new = TOKENS;
  o.how.batch = BATCH;
  return o;
}

/* ---- the model ------------------------------------------------------------------ */

static int check_model(const summarizer *s) {
  const attend_config *c = attend_model_config(s->m.model);
  if (c->parts == ATTEND_BOTH) return EXIT_OK;
  complain(
      "%s is %s and writes no summaries: take an encoder-decoder such as bart "
      "or t5%s",
      c->family, c->parts == ATTEND_ENCODER ? "an encoder" : "a decoder",
      c->parts == ATTEND_ENCODER ? "" : ", or continue a text with generate");
  return EXIT_USAGE;
}

/* Words take the place of a folder's bounds in tokens. */
static int bound_words(summarizer *s, const summary_options *o) {
  if (!o->least && !o->most) return EXIT_OK;
  int room = MOST_PIECES * (o->most ? o->most : o->least) + TOKENS / 4;
  if (!(o->given & SUMMARY_MOST) && (o->most || room > s->how.max_new))
    s->how.max_new = room;
  s->how.min_new = 0;
  attend_status status = word_bounds_make(s->m.model, s->m.tokenizer, o->least,
                                          o->most, &s->words);
  return status ? complain_status(s->m.ctx, status) : EXIT_OK;
}

int summarizer_open(const options *common, const model_options *model,
                    const summary_options *o, summarizer *s) {
  model_options wanted = *model;
  *s = (summarizer){.how = o->how};
  if (!wanted.path) wanted.path = "attend:summarizer";
  if (wanted.attention && !wanted.roles) wanted.roles = SUMMARY_ROLES;
  int code = model_open(common, &wanted, &s->m);
  if (!code) code = check_model(s);
  if (code) return code;
  attend_status status =
      attend_tokenizer_load(s->m.ctx, s->m.path, &s->m.tokenizer);
  if (status) return complain_status(s->m.ctx, status);
  int made = attend_model_config(s->m.model)->positions;
  s->reads = s->how.context && (!made || s->how.context < made) ? s->how.context
                                                                : made;
  s->how.context = 0; /* that of the encoder alone */
  s->how.tokenizer = s->m.tokenizer;
  code = summary_settings_read(s, o->given);
  return code ? code : bound_words(s, o);
}

void summarizer_close(summarizer *s) {
  word_bounds_free(s->words);
  free(s->prefix);
  model_close(&s->m);
}

/* ---- reading -------------------------------------------------------------------- */

/* Without the line end that an editor puts behind a text. */
static size_t length_of(const summary_document *d) {
  size_t length = d->length;
  while (length && isspace((unsigned char)d->text[length - 1])) length--;
  return length;
}

attend_status document_encode(const summarizer *s, const summary_document *d,
                              attend_encoding *e) {
  size_t front = strlen(s->prefix), length = front + length_of(d);
  attend_encode_options o = {.max_length = (size_t)s->reads};
  char *text = need(length + 1, 1);
  memcpy(text, s->prefix, front);
  memcpy(text + front, d->text, length - front);
  attend_status status = attend_encode(e, text, length, &o);
  free(text);
  return status;
}

static attend_status read_document(const summarizer *s, attend_encoding *e,
                                   summary_document *d) {
  size_t front = strlen(s->prefix);
  if (d->reading || !length_of(d)) return ATTEND_OK;
  attend_status status = document_encode(s, d, e);
  if (status) return status;
  d->ids = need(e->count, sizeof *d->ids);
  memcpy(d->ids, e->id, e->count * sizeof *d->ids);
  d->tokens = (int)e->count;
  d->cut = (int)e->dropped;
  for (size_t i = 0; i < e->count; i++)
    if (e->part[i] == 0 && e->end[i] > front + d->read)
      d->read = e->end[i] - front;
  if (!d->cut) d->read = length_of(d);
  return ATTEND_OK;
}

static attend_status read_documents(const summarizer *s, summary_document *docs,
                                    int count) {
  attend_encoding *e;
  attend_status status = attend_encoding_create(s->m.tokenizer, &e);
  for (int i = 0; i < count && !status; i++)
    status = read_document(s, e, &docs[i]);
  attend_encoding_free(e);
  return status;
}

/* ---- answers -------------------------------------------------------------------- */

static char *trimmed(const char *text) {
  size_t length = strlen(text);
  while (length && isspace((unsigned char)text[length - 1])) length--;
  while (length && isspace((unsigned char)*text)) text++, length--;
  return memcpy(need(length + 1, 1), text, length);
}

static bool is_said(const summary_document *d, const char *text) {
  for (int i = 0; i < d->count; i++)
    if (!strcmp(d->best[i].text, text)) return true;
  return false;
}

/* Beams may give one text by way of different tokens. */
static void keep(summary_document *d, const attend_continuation *c, int most) {
  if (d->count == most || !c->count || c->end == ATTEND_FINISH_CALLER) return;
  char *text = trimmed(c->text);
  if (is_said(d, text)) {
    free(text);
    return;
  }
  summary *one = &d->best[d->count++];
  *one = (summary){.text = text,
                   .ids = need((size_t)c->count, sizeof *one->ids),
                   .count = c->count,
                   .log_probability = c->log_probability,
                   .score = c->log_probability / c->count,
                   .end = c->end};
  memcpy(one->ids, c->ids, (size_t)c->count * sizeof *one->ids);
}

/* Best first; equal ones as they were drawn. */
static void rank(summary_document *d) {
  for (int i = 1; i < d->count; i++) {
    summary one = d->best[i];
    int at = i;
    for (; at > 0 && one.score > d->best[at - 1].score; at--)
      d->best[at] = d->best[at - 1];
    d->best[at] = one;
  }
}

void summaries_free(summary_document *docs, int count) {
  for (int i = 0; i < count; i++) {
    summary_document *d = &docs[i];
    for (int j = 0; j < d->count; j++) {
      free(d->best[j].text);
      free(d->best[j].ids);
    }
    free(d->best);
    free(d->ids);
    *d = (summary_document){.name = d->name,
                            .text = d->text,
                            .length = d->length,
                            .number = d->number};
  }
}

/* ---- writing -------------------------------------------------------------------- */

typedef struct {
  summarizer *s;
  const summary_watch *watch;
  attend_generate_options how;
  summary_document **docs; /* all, by their lengths */
  int count, done;
} writing;

static int on_step(void *user) {
  const writing *w = user;
  if (w->watch && w->watch->on_step)
    w->watch->on_step(w->done, w->count, w->watch->user);
  return is_interrupted();
}

static void on_logits(const attend_choice *choice, void *user) {
  const writing *w = user;
  word_bounds_keep(w->s->words, choice);
}

static void tell_done(writing *w, summary_document *d) {
  d->done = true;
  w->done++;
  if (w->watch && w->watch->on_done) w->watch->on_done(d, w->watch->user);
}

/* One round of draws for those that want more; how many still do. */
static attend_status write_round(writing *w, int round, summary_document **docs,
                                 int *count) {
  int n = *count, samples = w->how.samples;
  attend_prompt *prompts = need((size_t)n, sizeof *prompts);
  uint64_t *streams = need((size_t)n, sizeof *streams);
  attend_generation *g;
  const attend_continuation *c;
  for (int i = 0; i < n; i++) {
    prompts[i] = (attend_prompt){docs[i]->ids, docs[i]->tokens};
    streams[i] = (uint64_t)docs[i]->number << 32 | (uint64_t)(round * samples);
  }
  w->how.streams = streams;
  w->how.reading = docs[0]->reading;
  attend_status status =
      attend_generate(w->s->m.model, n, prompts, &w->how, &g);
  for (int i = 0; !status && (c = attend_generation_get(g, i)); i++)
    keep(docs[c->prompt], c, samples);
  attend_generation_free(g);
  free(streams);
  free(prompts);
  *count = 0;
  for (int i = 0; i < n; i++)
    if (docs[i]->count < samples) docs[(*count)++] = docs[i];
  return status;
}

static attend_status write_group(writing *w, summary_document **docs, int n) {
  bool draws = w->how.temperature > 0;
  int left = n, rounds = draws && w->how.samples > 1 ? ROUNDS : 1;
  summary_document **open = need((size_t)n, sizeof(void *));
  attend_status status = ATTEND_OK;
  memcpy(open, docs, (size_t)n * sizeof(void *));
  for (int i = 0; i < n; i++)
    docs[i]->best = need((size_t)w->how.samples, sizeof(summary));
  for (int i = 0; i < rounds && left && !status && !is_interrupted(); i++)
    status = write_round(w, i, open, &left);
  for (int i = 0; i < n && !status; i++) {
    if (draws) rank(docs[i]);
    if (docs[i]->count && !is_interrupted()) tell_done(w, docs[i]);
  }
  free(open);
  return status;
}

static int by_length(const void *a, const void *b) {
  const summary_document *x = *(summary_document *const *)a;
  const summary_document *y = *(summary_document *const *)b;
  if (x->tokens != y->tokens) return x->tokens < y->tokens ? -1 : 1;
  return x < y ? -1 : x > y;
}

static attend_status write_groups(writing *w) {
  int each = w->how.beams > 1 ? w->how.beams : w->how.samples, first = 0;
  int group = w->how.batch > each ? w->how.batch / each : 1;
  if (w->count && w->docs[0]->reading) group = 1;
  attend_status status = ATTEND_OK;
  qsort(w->docs, (size_t)w->count, sizeof(void *), by_length);
  for (; first < w->count && !w->docs[first]->tokens; first++)
    tell_done(w, w->docs[first]);
  for (; first < w->count && !status && !is_interrupted(); first += group) {
    int n = w->count - first < group ? w->count - first : group;
    status = write_group(w, w->docs + first, n);
  }
  return status;
}

int summaries_write(summarizer *s, summary_document *docs, int count,
                    const summary_watch *watch) {
  writing w = {.s = s, .watch = watch, .how = s->how, .count = count};
  w.docs = need((size_t)count, sizeof(void *));
  w.how.on_step = on_step;
  if (s->words) w.how.on_logits = on_logits;
  w.how.user = &w;
  for (int i = 0; i < count; i++) w.docs[i] = &docs[i];
  attend_status status = read_documents(s, docs, count);
  if (!status) status = write_groups(&w);
  free(w.docs);
  return status ? complain_status(s->m.ctx, status) : EXIT_OK;
}
