/* Feeding a trainer: text in any chunks becomes words that are counted.
 *
 * Between the caller's chunks and the tallies.
 *
 * What is fed is held and taken apart at seams, where something is followed by
 * a space: words of either kind end there, whatever stands on the other side.
 * Where the seams lie does not depend on the chunks. Parts are then counted by
 * all threads, each in a table of its own; sums do not depend on who counted.
 */
#include "base/parallel.h"
#include "text/trainer.h"

enum {
  PART = 1 << 16,         /* bytes: the first seam behind so many is taken */
  LONGEST_PART = 1 << 20, /* a text without seams is cut here */
  BATCH = 1 << 22         /* what is held before it is counted */
};

/* ---- seams ----------------------------------------------------------------------- */

static bool is_ascii_space(char c) {
  return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* What is malformed before it will be U+FFFD, which is no space. */
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

/* The end of the open part; false: more text will tell. */
static bool part_end(attend_text_trainer *r, size_t *end) {
  size_t last = r->open + LONGEST_PART, at = r->open + PART;
  if (at < r->looked) at = r->looked;
  while (at < r->held_length && at < last && !is_seam(r->held, r->open, at))
    at++;
  r->looked = at;
  if (at >= r->held_length) return false;
  *end = at < last ? at : char_start(r->held, last);
  return true;
}

static attend_status put_part(attend_text_trainer *r, size_t end) {
  if (end == r->open) return ATTEND_OK;
  ATTEND_TRY(grow(r->ctx, &r->part, &r->part_capacity, r->parts + 1,
                  sizeof *r->part, "a text"));
  r->part[r->parts++] = (held_part){r->open, end};
  r->open = end;
  return ATTEND_OK;
}

/* ---- threads --------------------------------------------------------------------- */

/* A caller's allocator need not know of threads. */
static void *take_alone(size_t bytes, void *user) {
  attend_text_trainer *r = user;
  const attend_allocator *a = &r->ctx->allocator;
  pthread_mutex_lock(&r->memory);
  void *block = a->take(bytes, a->user);
  pthread_mutex_unlock(&r->memory);
  return block;
}

static void give_alone(void *block, void *user) {
  attend_text_trainer *r = user;
  const attend_allocator *a = &r->ctx->allocator;
  pthread_mutex_lock(&r->memory);
  a->give(block, a->user);
  pthread_mutex_unlock(&r->memory);
}

static attend_status worker_start(attend_text_trainer *r, tally_worker *w) {
  ATTEND_TRY(context_child(r->ctx, 1, &w->ctx));
  if (w->ctx.allocator.take) w->ctx.allocator.take = take_alone;
  if (w->ctx.allocator.give) w->ctx.allocator.give = give_alone;
  w->ctx.allocator.user = r;
  return scratch_start(&w->ctx, &w->s);
}

attend_status workers_start(attend_text_trainer *r) {
  attend_status status = ATTEND_OK;
  int count = r->ctx->threads;
  ATTEND_TRY(take_zeroed(r->ctx, (size_t)count * sizeof *r->worker, "threads",
                         &r->worker));
  for (; r->workers < count && !status; r->workers++)
    status = worker_start(r, &r->worker[r->workers]);
  return status;
}

void workers_free(attend_text_trainer *r) {
  for (int i = 0; i < r->workers; i++) {
    scratch_free(&r->worker[i].s);
    tally_free(r->ctx, &r->worker[i].words);
  }
  give(r->ctx, r->worker);
  r->worker = NULL;
  r->workers = 0;
}

/* ---- counting -------------------------------------------------------------------- */

static attend_status count_words(void *user, const view *v, const span *words,
                                 size_t count) {
  tally_worker *w = user;
  for (size_t i = 0; i < count; i++)
    ATTEND_TRY(tally_add(&w->ctx, &w->words, v->bytes + words[i].start,
                         words[i].end - words[i].start, 1));
  return ATTEND_OK;
}

static attend_status count_token(void *user, int32_t id, uint32_t start,
                                 uint32_t end) {
  tally_worker *w = user;
  (void)id, (void)start, (void)end;
  w->tokens++;
  return ATTEND_OK;
}

static void count_part(const attend_text_trainer *r, tally_worker *w,
                       held_part part) {
  const segment_sink sink = {count_words, count_token, w};
  if (w->status) return;
  w->status = segment_text(r->cutter, &w->s, r->held + part.start,
                           part.end - part.start, &sink);
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
  tally *all = &r->worker[0].words;
  ATTEND_TRY(attend_text_trainer_end(r));
  ATTEND_TRY(count_held(r));
  for (int i = 1; i < r->workers; i++) {
    ATTEND_TRY(tally_join(r->ctx, all, &r->worker[i].words));
    r->worker[0].tokens += r->worker[i].tokens;
    r->worker[i].tokens = 0;
  }
  return ATTEND_OK;
}

/* ---- the doors ------------------------------------------------------------------- */

static attend_status hold(attend_text_trainer *r, const char *text,
                          size_t length) {
  size_t end;
  ATTEND_TRY(grow(r->ctx, &r->held, &r->held_capacity, r->held_length + length,
                  1, "a text"));
  memcpy(r->held + r->held_length, text, length);
  r->held_length += length;
  while (part_end(r, &end)) ATTEND_TRY(put_part(r, end));
  return r->held_length < BATCH ? ATTEND_OK : count_held(r);
}

attend_status attend_text_trainer_feed(attend_text_trainer *r, const char *text,
                                       size_t length) {
  ATTEND_CHECK(r->ctx, !r->begun,
               "the tokenizer has been learnt: text for another goes to "
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
