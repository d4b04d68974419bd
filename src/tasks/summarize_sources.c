/* Where the words of a summary come from: the document's words with the largest
 * cross-attention weights.
 *
 * The decoder reads the summary once more, all at once, which gives the same bits as
 * writing it. A token was chosen from the row of the token before it, so that row has
 * its weights. They are averaged over layers and heads; tokens of a word are summed
 * in the document and averaged in the summary. Weights of special tokens and of the
 * prefix belong to no word.
 */
#include "model/config.h"
#include "tasks/summarize.h"

typedef struct {
  size_t start, length; /* of the document's text */
  int first;            /* index of the first occurrence of the same word */
} source_word;

typedef struct {
  size_t text; /* offsets in the pool: the pool may move */
  int first, count;
} written_word;

struct attend_sources {
  attend_context *ctx;
  attend_sourced_word *words; /* [count] */
  attend_source *sources;     /* of all words */
  char *pool;                 /* their texts */
  int count;
};

/* What is needed to make them. */
typedef struct {
  attend_summarizer *s;
  attend_context *ctx;
  const document_job *job;
  const attend_summary *one;
  int max;
  /* the document */
  source_word *words; /* [n_words], in order */
  int n_words;
  int *word;      /* [keys] that each token belongs to; -1: none */
  float *weights; /* [rows, keys] summed */
  int rows, keys;
  double parts; /* heads and layers in the sums */
  /* the open word of the summary */
  double *sums; /* [n_words], by first occurrences */
  int tokens;   /* of it */
  size_t begin; /* in the pool */
  /* the result */
  written_word *written;
  size_t n_written, written_capacity;
  attend_source *found;
  size_t *found_text; /* [n_found] in the pool */
  size_t n_found, found_capacity, found_text_capacity;
  char *pool;
  size_t used, capacity;
} finding;

/* ---- weights ---------------------------------------------------------------------- */

static void add_weights(const attend_hooked *hooked, void *user) {
  finding *f = user;
  if (hooked->role != ATTEND_CROSS || hooked->point != ATTEND_AT_PATTERN) return;
  const float *weights = hooked->view.data;
  const ptrdiff_t *by = hooked->view.stride;
  bool plain = !by[1] && !by[2] && !by[3];
  ptrdiff_t head = plain ? (ptrdiff_t)f->rows * f->keys : by[1];
  ptrdiff_t row = plain ? f->keys : by[2], key = plain ? 1 : by[3];
  for (int h = 0; h < hooked->shape[1]; h++, f->parts++)
    for (int t = 0; t < f->rows; t++)
      for (int k = 0; k < f->keys; k++)
        f->weights[(size_t)t * (size_t)f->keys + (size_t)k] +=
            weights[h * head + t * row + k * key];
}

/* A linear state has keys only if a hook is at its pattern from the start. */
static bool is_linear(const attend_model *model) {
  return attend_form_features(attend_model_role_form(model, ATTEND_CROSS),
                              attend_model_config(model)->decoder.dim) > 0;
}

static attend_status run_session(finding *f, attend_session *session, const int32_t *ids) {
  attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_PATTERN, .read = add_weights,
                      .user = f};
  const attend_summarized *d = &f->job->out;
  if (is_linear(f->s->model)) ATTEND_TRY(attend_session_set_hooks(session, 1, &hook));
  ATTEND_TRY(attend_session_encode(session, 1, d->tokens, d->ids, NULL, NULL));
  ATTEND_TRY(attend_session_set_hooks(session, 1, &hook));
  return attend_session_extend(session, 1, f->one->count, ids, NULL);
}

static attend_status find_weights(finding *f) {
  attend_session *session = NULL;
  attend_session_options o = {ATTEND_INIT(attend_session_options), .rows = f->one->count};
  int32_t *ids;
  size_t n = (size_t)f->one->count;
  ATTEND_TRY(ctx_alloc_zeroed(f->ctx,
                              SIZE_PRODUCT((size_t)f->rows, (size_t)f->keys, sizeof *f->weights),
                              "cross-attention weights", &f->weights));
  ATTEND_TRY(ctx_alloc(f->ctx, n * sizeof *ids, "ids", &ids));
  ids[0] = attend_model_config(f->s->model)->decoder_start;
  memcpy(ids + 1, f->one->ids, (n - 1) * sizeof *ids);
  attend_status status = attend_session_create(f->s->model, &o, &session);
  if (!status) status = run_session(f, session, ids);
  attend_session_free(session);
  ctx_free(f->ctx, ids);
  return status;
}

/* ---- words of the document --------------------------------------------------------- */

static bool is_punctuation(char c) { return c > ' ' && c < 127 && !is_alphanumeric(c); }

/* A word without the punctuation around it. */
static source_word bare_word(const char *text, size_t start, size_t length) {
  while (length > 1 && is_punctuation(text[start + length - 1])) length--;
  while (length > 1 && is_punctuation(text[start])) start++, length--;
  return (source_word){start, length, 0};
}

static void add_word(finding *f, const char *text, size_t start, size_t length) {
  source_word w = bare_word(text, start, length);
  w.first = f->n_words;
  for (int i = 0; i < f->n_words && w.first == f->n_words; i++)
    if (f->words[i].length == w.length &&
        !memcmp(text + f->words[i].start, text + w.start, w.length))
      w.first = f->words[i].first;
  f->words[f->n_words++] = w;
}

/* at [length]: the word that each byte belongs to; -1: a space. */
static void cut_words(finding *f, const char *text, size_t length, int *at) {
  for (size_t i = 0; i < length;) {
    size_t end = i;
    while (end < length && !is_space(text[end])) end++;
    for (size_t k = i; k < end; k++) at[k] = f->n_words;
    if (end > i) add_word(f, text, i, end - i);
    for (i = end; i < length && is_space(text[i]); i++) at[i] = -1;
  }
}

/* A token belongs to the word of its last letter. */
static attend_status place_tokens(finding *f, const int *at, attend_encoding *e) {
  const attend_summarized *d = &f->job->out;
  size_t front = strlen(f->s->prefix);
  ATTEND_TRY(document_encode(f->s, &f->job->in, e));
  for (int i = 0; i < d->tokens; i++) {
    size_t end = e->end[i];
    bool inside = e->part[i] == 0 && end > e->start[i] && end > front && end - front <= d->read;
    f->word[i] = inside ? at[end - front - 1] : -1;
  }
  return ATTEND_OK;
}

static attend_status read_document(finding *f) {
  const attend_summarized *d = &f->job->out;
  attend_encoding *e = NULL;
  int *at;
  ATTEND_TRY(ctx_alloc(f->ctx, (size_t)d->tokens * sizeof *f->word, "words of tokens", &f->word));
  ATTEND_TRY(ctx_alloc(f->ctx, size_times(d->read / 2 + 1, sizeof *f->words), "words", &f->words));
  ATTEND_TRY(ctx_alloc(f->ctx, size_times(d->read + 1, sizeof *at), "words of bytes", &at));
  cut_words(f, f->job->in.text, d->read, at);
  attend_status status = attend_encoding_create(f->s->tokenizer, &e);
  if (!status) status = place_tokens(f, at, e);
  attend_encoding_free(e);
  ctx_free(f->ctx, at);
  return status;
}

/* ---- words of the summary ---------------------------------------------------------- */

static attend_status put_text(finding *f, const char *text, size_t length) {
  ATTEND_TRY(grow(f->ctx, &f->pool, &f->capacity, size_add(f->used, length), 1, "words"));
  memcpy(f->pool + f->used, text, length);
  f->used += length;
  return ATTEND_OK;
}

static void add_row(finding *f, int row) {
  const float *weights = f->weights + (size_t)row * (size_t)f->keys;
  for (int k = 0; k < f->keys; k++)
    if (f->word[k] >= 0) f->sums[f->words[f->word[k]].first] += (double)weights[k] / f->parts;
  f->tokens++;
}

typedef struct {
  int word;
  double weight;
} candidate;

static int best_sources(const finding *f, candidate best[ATTEND_MOST_SOURCES]) {
  int count = 0;
  for (int i = 0; i < f->n_words; i++) {
    double weight = f->sums[i] / f->tokens;
    if (!(weight > 0) || (count == f->max && weight <= best[f->max - 1].weight)) continue;
    int at = count < f->max ? count++ : f->max - 1;
    for (; at > 0 && weight > best[at - 1].weight; at--) best[at] = best[at - 1];
    best[at] = (candidate){i, weight};
  }
  return count;
}

static attend_status add_source(finding *f, const candidate *c) {
  const source_word *w = &f->words[c->word];
  ATTEND_TRY(
      grow(f->ctx, &f->found, &f->found_capacity, f->n_found + 1, sizeof *f->found, "sources"));
  ATTEND_TRY(grow(f->ctx, &f->found_text, &f->found_text_capacity, f->n_found + 1,
                  sizeof *f->found_text, "sources"));
  f->found[f->n_found].weight = c->weight;
  f->found_text[f->n_found++] = f->used;
  ATTEND_TRY(put_text(f, f->job->in.text + w->start, w->length));
  return put_text(f, "", 1);
}

static attend_status end_word(finding *f) {
  candidate best[ATTEND_MOST_SOURCES];
  if (f->used == f->begin) return ATTEND_OK;
  ATTEND_TRY(put_text(f, "", 1));
  ATTEND_TRY(grow(f->ctx, &f->written, &f->written_capacity, f->n_written + 1, sizeof *f->written,
                  "words"));
  int count = best_sources(f, best);
  f->written[f->n_written++] = (written_word){f->begin, (int)f->n_found, count};
  for (int i = 0; i < count; i++) ATTEND_TRY(add_source(f, &best[i]));
  memset(f->sums, 0, (size_t)f->n_words * sizeof *f->sums);
  f->tokens = 0;
  f->begin = f->used;
  return ATTEND_OK;
}

/* A token of spaces and letters belongs to the word that it begins. */
static attend_status add_piece(finding *f, int row, const char *text, size_t length) {
  bool added = false;
  for (size_t i = 0; i < length; i++) {
    if (is_space(text[i])) {
      ATTEND_TRY(end_word(f));
      continue;
    }
    ATTEND_TRY(put_text(f, &text[i], 1));
    bool last = i + 1 == length || is_space(text[i + 1]);
    if (last && !added) add_row(f, row);
    added |= last;
  }
  return ATTEND_OK;
}

static attend_status add_pieces(finding *f, attend_detokenizer *d) {
  const char *text;
  size_t length;
  for (int i = 0; i < f->one->count; i++) {
    ATTEND_TRY(attend_detokenizer_push(d, f->one->ids[i], &text, &length));
    ATTEND_TRY(add_piece(f, i, text, length));
  }
  ATTEND_TRY(attend_detokenizer_finish(d, &text, &length));
  ATTEND_TRY(add_piece(f, f->one->count - 1, text, length));
  return end_word(f);
}

static attend_status read_summary(finding *f) {
  attend_detokenizer *d = NULL;
  ATTEND_TRY(
      ctx_alloc_zeroed(f->ctx, (size_t)f->n_words * sizeof *f->sums, "weights of words", &f->sums));
  ATTEND_TRY(attend_detokenizer_create(f->s->tokenizer, true, &d));
  attend_status status = add_pieces(f, d);
  attend_detokenizer_free(d);
  return status;
}

/* ---- the call ---------------------------------------------------------------------- */

/* Pool and sources stay where they are from here on. */
static attend_status make_result(finding *f, attend_sources *to) {
  ATTEND_TRY(ctx_alloc(f->ctx, size_times(f->n_written, sizeof *to->words), "words", &to->words));
  for (size_t i = 0; i < f->n_found; i++) f->found[i].word = f->pool + f->found_text[i];
  for (size_t i = 0; i < f->n_written; i++)
    to->words[i] = (attend_sourced_word){f->pool + f->written[i].text,
                                         f->found + f->written[i].first, f->written[i].count};
  to->count = (int)f->n_written;
  to->sources = f->found;
  to->pool = f->pool;
  f->found = NULL;
  f->pool = NULL;
  return ATTEND_OK;
}

static attend_status find(finding *f, attend_sources **sources) {
  attend_sources *to;
  ATTEND_TRY(read_document(f));
  ATTEND_TRY(find_weights(f));
  ATTEND_TRY(read_summary(f));
  ATTEND_TRY(ctx_alloc_zeroed(f->ctx, sizeof *to, "sources", &to));
  to->ctx = f->ctx;
  attend_status status = make_result(f, to);
  if (status)
    attend_sources_free(to);
  else
    *sources = to;
  return status;
}

attend_status attend_sources_create(attend_summarizer *s, const attend_summaries *summaries,
                                    int document, int i, int max, attend_sources **sources) {
  const attend_summarized *d = attend_summaries_get(summaries, document);
  *sources = NULL;
  ATTEND_CHECK(s->ctx, d && i >= 0 && i < d->count, "document %d has no summary %d", document, i);
  ATTEND_CHECK(s->ctx, max >= 1 && max <= ATTEND_MOST_SOURCES,
               "%d sources of each word: choose from 1 to %d", max, ATTEND_MOST_SOURCES);
  finding f = {.s = s,
               .ctx = s->ctx,
               .job = &summaries->jobs[document],
               .one = &d->best[i],
               .max = max,
               .rows = d->best[i].count,
               .keys = d->tokens};
  attend_status status = find(&f, sources);
  void *blocks[] = {f.words, f.word, f.weights, f.sums, f.written, f.found, f.found_text, f.pool};
  for (size_t k = 0; k < sizeof blocks / sizeof *blocks; k++) ctx_free(s->ctx, blocks[k]);
  return status;
}

void attend_sources_free(attend_sources *x) {
  if (!x) return;
  ctx_free(x->ctx, x->words);
  ctx_free(x->ctx, x->sources);
  ctx_free(x->ctx, x->pool);
  ctx_free(x->ctx, x);
}

const attend_sourced_word *attend_sources_get(const attend_sources *x, int i) {
  return i >= 0 && i < x->count ? &x->words[i] : NULL;
}
