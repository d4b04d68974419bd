/* Training a tokenizer: the public functions. train.h describes the parts. */
#include "base/options.h"
#include "base/parallel.h"
#include "text/train.h"

/* ---- options --------------------------------------------------------------------- */

enum { MOST_VOCAB = 1 << 22 }; /* as many as a loader takes */

static attend_status complete(attend_text_trainer *r) {
  attend_text_train_options *o = &r->o;
  int32_t max = r->like->wordpiece ? LONGEST_CHARS : LONGEST_BYTES;
  if (!o->vocab) o->vocab = 8192;
  if (!o->min) o->min = 2;
  if (!o->longest) o->longest = max;
  if (!o->alphabet) o->alphabet = 1000;
  ATTEND_CHECK(r->ctx, o->vocab > 0 && o->vocab <= MOST_VOCAB,
               "a vocabulary of %d pieces: choose 1 to %d", (int)o->vocab, MOST_VOCAB);
  ATTEND_CHECK(r->ctx, o->longest > 0 && o->longest <= max,
               "pieces of up to %d letters: choose 1 to %d", (int)o->longest, (int)max);
  ATTEND_CHECK(r->ctx, o->alphabet > 0, "an alphabet of %d characters: choose 1 or more",
               (int)o->alphabet);
  if (o->min > INT64_MAX) o->min = INT64_MAX;
  return ATTEND_OK;
}

static attend_status check_room(attend_text_trainer *r) {
  if ((size_t)r->o.vocab >= r->pieces) return ATTEND_OK;
  return fail(r->ctx, ATTEND_INVALID,
              "a vocabulary of %d has no room for %d special tokens and %d "
              "letters: it takes %zu at least%s",
              (int)r->o.vocab, (int)r->specials, (int)r->letters, r->pieces,
              r->like->wordpiece ? ", or a smaller alphabet" : "");
}

/* ---- creating -------------------------------------------------------------------- */

static attend_status load_pieces(attend_text_trainer *r, attend_tokenizer **tokenizer) {
  json_writer w = json_writer_text(r->ctx);
  attend_status status = write_tokenizer_json(r, &w);
  if (!status)
    status = tokenizer_parse(r->ctx, "the trained tokenizer.json", w.text, w.length, tokenizer);
  json_writer_free(&w);
  return status;
}

/* Written to tokenizer_config.json. */
static void name_roles(const attend_text_trainer *r, attend_tokenizer *t) {
  for (int i = 0; i < ATTEND_SPECIALS; i++) {
    const char *role = r->like->role[i];
    if (role) t->special[i] = special_named(r, role, strlen(role));
  }
}

static attend_status prepare(attend_text_trainer *r) {
  r->like = like_of(r->o.like);
  ATTEND_CHECK(r->ctx, r->like, "there is no kind of tokenizer %d", (int)r->o.like);
  ATTEND_TRY(complete(r));
  ATTEND_TRY(specials_find(r));
  if (!r->like->wordpiece) ATTEND_TRY(bytes_put(r));
  ATTEND_TRY(check_room(r));
  ATTEND_TRY(load_pieces(r, &r->cutter));
  return workers_start(r);
}

attend_status attend_text_trainer_create(attend_context *ctx,
                                         const attend_text_train_options *options,
                                         attend_text_trainer **trainer) {
  attend_text_trainer *r;
  *trainer = NULL;
  ATTEND_TRY(ctx_alloc_zeroed(ctx, sizeof *r, "a trainer", &r));
  r->ctx = ctx;
  pthread_mutex_init(&r->memory, NULL);
  attend_status status = OPTIONS_READ(ctx, attend_text_train_options, options, &r->o);
  if (!status) status = prepare(r);
  r->o.specials = NULL; /* the caller's, for this call only */
  if (status)
    attend_text_trainer_free(r);
  else
    *trainer = r;
  return status;
}

void attend_text_trainer_free(attend_text_trainer *r) {
  if (!r) return;
  workers_free(r);
  attend_tokenizer_free(r->cutter);
  attend_tokenizer_free(r->tokenizer);
  rows_free(r->ctx, &r->rows);
  pool_free(r->ctx, &r->pool);
  ctx_free(r->ctx, r->held);
  ctx_free(r->ctx, r->part);
  ctx_free(r->ctx, r->piece);
  ctx_free(r->ctx, r->merge);
  pthread_mutex_destroy(&r->memory);
  ctx_free(r->ctx, r);
}

/* ---- learning -------------------------------------------------------------------- */

/* WordPiece matches the longest piece instead of applying merges in order: count
 * tokens by encoding the words. */
static attend_status encode_words(attend_text_trainer *r, const attend_tokenizer *t, scratch *s) {
  const word_counts *words = &r->worker[0].words;
  for (size_t i = 0; i < words->count; i++) {
    const counted_word *w = &words->word[i];
    ATTEND_TRY(model_encode(t, s, w->text.bytes, w->text.length));
    r->report.tokens += w->times * s->word.count;
    if (s->word.count == 1 && s->word.token[0].id == t->model.unk) r->report.unknown += w->times;
  }
  return ATTEND_OK;
}

static attend_status count_tokens(attend_text_trainer *r, const attend_tokenizer *t) {
  scratch s;
  r->report.tokens = r->worker[0].tokens;
  if (!r->like->wordpiece) {
    r->report.tokens += r->row_pieces;
    return ATTEND_OK;
  }
  attend_status status = scratch_start(r->ctx, &s);
  if (!status) status = encode_words(r, t, &s);
  scratch_free(&s);
  return status;
}

static void fill_report(attend_text_trainer *r) {
  const word_counts *words = &r->worker[0].words;
  for (size_t i = 0; i < words->count; i++) r->report.words += words->word[i].times;
  r->report.distinct = words->count;
  r->report.vocab = (int32_t)r->pieces;
  r->report.specials = r->specials;
  r->report.letters = r->letters;
  r->report.merges = (int32_t)r->merges;
}

attend_status attend_text_trainer_learn(attend_text_trainer *r) {
  attend_tokenizer *t;
  ATTEND_CHECK(r->ctx, !r->begun, "a trainer learns once: make another");
  r->begun = true;
  ATTEND_TRY(words_gather(r));
  ATTEND_CHECK(r->ctx, r->worker[0].words.count,
               "there is no text to learn from: feed some with words in it");
  ATTEND_TRY(alphabet_find(r, &r->worker[0].words));
  ATTEND_TRY(check_room(r));
  ATTEND_TRY(merges_learn(r));
  ATTEND_TRY(load_pieces(r, &t));
  attend_status status = count_tokens(r, t);
  if (status) {
    attend_tokenizer_free(t);
    return status;
  }
  r->tokenizer = t;
  name_roles(r, t);
  fill_report(r);
  workers_free(r);
  return ATTEND_OK;
}

/* ---- accessors ------------------------------------------------------------------- */

const attend_text_trained *attend_text_trainer_report(const attend_text_trainer *r) {
  return r->tokenizer ? &r->report : NULL;
}

const attend_tokenizer *attend_text_trainer_tokenizer(const attend_text_trainer *r) {
  return r->tokenizer;
}

bool attend_text_trainer_merge(const attend_text_trainer *r, size_t i, attend_text_merge *said) {
  if (!r->tokenizer || i >= r->merges) return false;
  const trained_merge *m = &r->merge[i];
  *said =
      (attend_text_merge){r->piece[m->left].name.bytes, r->piece[m->right].name.bytes, m->count};
  return true;
}

/* ---- feeding ------------------------------------------------------------- */

/* Feeding: text in chunks of any size becomes counted words.
 *
 * Text is buffered and split at seams, where something is followed by a space: words
 * of either kind end there in any context. The seams do not depend on the chunks.
 * Threads then count the parts, each in a table of its own, so sums do not depend on
 * the number of threads. */

enum {
  PART = 1 << 16,         /* bytes: a part ends at the first seam after so many */
  LONGEST_PART = 1 << 20, /* a text without seams is split here */
  BATCH = 1 << 22         /* bytes buffered before they are counted */
};

/* ---- seams ----------------------------------------------------------------------- */

static bool is_ascii_space(char c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }

/* Malformed bytes before it become U+FFFD, which is no space. */
static bool is_seam(const char *s, size_t start, size_t at) {
  size_t p = at - 1;
  uint32_t c;
  if (!is_ascii_space(s[at])) return false;
  while (p > start && at - p < 4 && ((unsigned char)s[p] & 0xc0) == 0x80) p--;
  int n = utf8_read(s + p, at - p, &c);
  return n < 0 || (size_t)n != at - p || !is_space(c);
}

/* Back to where a character starts. */
static size_t char_start(const char *s, size_t at) {
  size_t p = at;
  while (at - p < 3 && ((unsigned char)s[p] & 0xc0) == 0x80) p--;
  return ((unsigned char)s[p] & 0xc0) == 0x80 ? at : p;
}

/* The end of the open part; false: more text is needed. */
static bool part_end(attend_text_trainer *r, size_t *end) {
  size_t last = r->open + LONGEST_PART, at = r->open + PART;
  if (at < r->looked) at = r->looked;
  while (at < r->held_length && at < last && !is_seam(r->held, r->open, at)) at++;
  r->looked = at;
  if (at >= r->held_length) return false;
  *end = at < last ? at : char_start(r->held, last);
  return true;
}

static attend_status put_part(attend_text_trainer *r, size_t end) {
  if (end == r->open) return ATTEND_OK;
  ATTEND_TRY(grow(r->ctx, &r->part, &r->part_capacity, r->parts + 1, sizeof *r->part, "a text"));
  r->part[r->parts++] = (held_part){r->open, end};
  r->open = end;
  return ATTEND_OK;
}

/* ---- threads --------------------------------------------------------------------- */

/* A caller's allocator need not be thread-safe. */
static void *take_alone(size_t bytes, void *user) {
  attend_text_trainer *r = user;
  const attend_allocator *a = &r->ctx->allocator;
  pthread_mutex_lock(&r->memory);
  void *block = a->allocate(bytes, a->user);
  pthread_mutex_unlock(&r->memory);
  return block;
}

static void give_alone(void *block, void *user) {
  attend_text_trainer *r = user;
  const attend_allocator *a = &r->ctx->allocator;
  pthread_mutex_lock(&r->memory);
  a->release(block, a->user);
  pthread_mutex_unlock(&r->memory);
}

static attend_status worker_start(attend_text_trainer *r, count_worker *w) {
  ATTEND_TRY(context_child(r->ctx, 1, &w->ctx));
  if (w->ctx.allocator.allocate) w->ctx.allocator.allocate = take_alone;
  if (w->ctx.allocator.release) w->ctx.allocator.release = give_alone;
  w->ctx.allocator.user = r;
  return scratch_start(&w->ctx, &w->s);
}

attend_status workers_start(attend_text_trainer *r) {
  attend_status status = ATTEND_OK;
  int count = r->ctx->threads;
  ATTEND_TRY(ctx_alloc_zeroed(r->ctx, (size_t)count * sizeof *r->worker, "threads", &r->worker));
  for (; r->workers < count && !status; r->workers++)
    status = worker_start(r, &r->worker[r->workers]);
  return status;
}

void workers_free(attend_text_trainer *r) {
  for (int i = 0; i < r->workers; i++) {
    scratch_free(&r->worker[i].s);
    counts_free(r->ctx, &r->worker[i].words);
  }
  ctx_free(r->ctx, r->worker);
  r->worker = NULL;
  r->workers = 0;
}

/* ---- counting -------------------------------------------------------------------- */

static attend_status count_words(void *user, const view *v, const span *words, size_t count) {
  count_worker *w = user;
  for (size_t i = 0; i < count; i++)
    ATTEND_TRY(counts_add(&w->ctx, &w->words, v->bytes + words[i].start,
                          words[i].end - words[i].start, 1));
  return ATTEND_OK;
}

static attend_status count_token(void *user, int32_t id, uint32_t start, uint32_t end) {
  count_worker *w = user;
  (void)id, (void)start, (void)end;
  w->tokens++;
  return ATTEND_OK;
}

static void count_part(const attend_text_trainer *r, count_worker *w, held_part part) {
  const segment_sink sink = {count_words, count_token, w};
  if (w->status) return;
  w->status = segment_text(r->cutter, &w->s, r->held + part.start, part.end - part.start, &sink);
}

static attend_status workers_status(const attend_text_trainer *r) {
  for (int i = 0; i < r->workers; i++)
    if (r->worker[i].status)
      return fail(r->ctx, r->worker[i].status, "%s", r->worker[i].ctx.message);
  return ATTEND_OK;
}

static void count_item(const void *args, int64_t i, int worker) {
  attend_text_trainer *const *r = args;
  count_part(*r, &(*r)->worker[worker], (*r)->part[i]);
}

static attend_status count_held(attend_text_trainer *r) {
  attend_stream on = stream_on(r->ctx, r->workers);
  STREAM_ADD(&on, (int64_t)r->parts, count_item, r);
  r->parts = 0;
  r->held_length -= r->open;
  if (r->held_length) memmove(r->held, r->held + r->open, r->held_length);
  r->looked = 0;
  r->open = 0;
  return workers_status(r);
}

attend_status words_gather(attend_text_trainer *r) {
  word_counts *all = &r->worker[0].words;
  ATTEND_TRY(attend_text_trainer_end(r));
  ATTEND_TRY(count_held(r));
  for (int i = 1; i < r->workers; i++) {
    ATTEND_TRY(counts_join(r->ctx, all, &r->worker[i].words));
    r->worker[0].tokens += r->worker[i].tokens;
    r->worker[i].tokens = 0;
  }
  return ATTEND_OK;
}

/* ---- public functions ------------------------------------------------------------ */

static attend_status hold(attend_text_trainer *r, const char *text, size_t length) {
  size_t end;
  ATTEND_TRY(grow(r->ctx, &r->held, &r->held_capacity, r->held_length + length, 1, "a text"));
  memcpy(r->held + r->held_length, text, length);
  r->held_length += length;
  while (part_end(r, &end)) ATTEND_TRY(put_part(r, end));
  return r->held_length < BATCH ? ATTEND_OK : count_held(r);
}

attend_status attend_text_trainer_feed(attend_text_trainer *r, const char *text, size_t length) {
  ATTEND_CHECK(r->ctx, !r->begun,
               "the tokenizer has been trained: feed text for another to "
               "another trainer");
  r->text_open = true;
  r->report.bytes += length;
  while (length) {
    size_t n = length < BATCH ? length : BATCH;
    ATTEND_TRY(hold(r, text, n));
    text += n;
    length -= n;
  }
  return ATTEND_OK;
}

attend_status attend_text_trainer_end(attend_text_trainer *r) {
  if (!r->text_open) return ATTEND_OK;
  r->text_open = false;
  r->report.texts++;
  r->looked = 0;
  return put_part(r, r->held_length);
}
