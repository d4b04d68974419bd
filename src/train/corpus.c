/* Documents as ids, all in one stretch of memory.
 *
 * Place: train/ - see corpus.h.
 */
#include "train/corpus.h"

#include <string.h>

#include "base/files.h"

attend_status attend_corpus_create(attend_context *ctx,
                                   attend_corpus **corpus) {
  attend_corpus *c;
  *corpus = NULL;
  ATTEND_TRY(take_zeroed(ctx, sizeof *c, "a corpus", &c));
  c->ctx = ctx;
  *corpus = c;
  return ATTEND_OK;
}

void attend_corpus_free(attend_corpus *c) {
  if (!c) return;
  give(c->ctx, c->ids);
  give(c->ctx, c->end);
  give(c->ctx, c);
}

/* ---- growing ------------------------------------------------------------------ */

static attend_status widen(attend_corpus *c, size_t element, size_t used,
                           size_t wanted, size_t *capacity, void *block) {
  void **at = block, *wider;
  if (wanted <= *capacity) return ATTEND_OK;
  size_t next = wanted + wanted / 2 + 1024;
  ATTEND_TRY(take(c->ctx, next * element, "the texts to learn from", &wider));
  if (used) memcpy(wider, *at, used * element);
  give(c->ctx, *at);
  *at = wider;
  *capacity = next;
  return ATTEND_OK;
}

attend_status corpus_append(attend_corpus *c, size_t n, const int32_t *ids) {
  ATTEND_TRY(
      widen(c, sizeof *c->ids, c->count, c->count + n, &c->capacity, &c->ids));
  if (n) memcpy(c->ids + c->count, ids, n * sizeof *ids);
  c->count += n;
  return ATTEND_OK;
}

attend_status corpus_close(attend_corpus *c) {
  ATTEND_TRY(widen(c, sizeof *c->end, c->parts, c->parts + 1,
                   &c->parts_capacity, &c->end));
  c->end[c->parts++] = c->count;
  return ATTEND_OK;
}

attend_status attend_corpus_add(attend_corpus *c, size_t n, const int32_t *ids,
                                size_t n_answer, const int32_t *answer) {
  ATTEND_CHECK(
      c->ctx, !c->parts || c->pairs == (answer != NULL),
      "a corpus holds pairs, or documents without an answer, not both");
  size_t count = c->count, parts = c->parts;
  attend_status status = corpus_append(c, n, ids);
  if (!status) status = corpus_close(c);
  if (!status && answer) status = corpus_append(c, n_answer, answer);
  if (!status && answer) status = corpus_close(c);
  if (status) {
    c->count = count;
    c->parts = parts;
  } else {
    c->pairs = answer != NULL;
  }
  return status;
}

/* ---- what it is ---------------------------------------------------------------- */

size_t attend_corpus_documents(const attend_corpus *c) {
  return c->pairs ? c->parts / 2 : c->parts;
}
size_t attend_corpus_tokens(const attend_corpus *c) { return c->count; }
size_t attend_corpus_bytes(const attend_corpus *c) { return c->bytes; }
size_t attend_corpus_dropped(const attend_corpus *c) { return c->dropped; }

uint64_t attend_corpus_digest(const attend_corpus *c) {
  const uint64_t parts[] = {c->pairs, c->parts};
  attend_digest sum = {0};
  attend_digest_add(&sum, parts, sizeof parts);
  attend_digest_add(&sum, c->end, c->parts * sizeof *c->end);
  attend_digest_add(&sum, c->ids, c->count * sizeof *c->ids);
  return digest_word(&sum);
}

/* ---- holding a share back ------------------------------------------------------- */

enum { FEW_DOCUMENTS = 20 };

static attend_status copy_document(const attend_corpus *c, size_t i,
                                   attend_corpus *to) {
  size_t a = c->pairs ? 2 * i : i;
  return attend_corpus_add(to, part_length(c, a), c->ids + part_start(c, a),
                           c->pairs ? part_length(c, a + 1) : 0,
                           c->pairs ? c->ids + part_start(c, a + 1) : NULL);
}

static attend_status split_documents(const attend_corpus *c, double share,
                                     uint64_t seed, attend_corpus *kept,
                                     attend_corpus *held) {
  size_t n = attend_corpus_documents(c);
  for (size_t i = 0; i < n; i++) {
    float draw;
    attend_random_uniform((attend_random){seed, UINT64_C(0x5911)}, i, 1, &draw);
    bool hold = (double)draw < share;
    if (i + 1 == n && !attend_corpus_documents(held)) hold = true;
    if (i + 1 == n && !attend_corpus_documents(kept)) hold = false;
    ATTEND_TRY(copy_document(c, i, hold ? held : kept));
  }
  return ATTEND_OK;
}

static attend_status split_last(const attend_corpus *c, double share,
                                attend_corpus *kept, attend_corpus *held) {
  size_t last = c->parts - 1, n = part_length(c, last);
  size_t hold = (size_t)((double)c->count * share);
  if (hold > n / 2) hold = n / 2;
  if (hold < 2) hold = 2;
  ATTEND_CHECK(c->ctx, hold < n,
               "the last document has %zu tokens, too few to hold some back: "
               "name a file to measure with, or hold nothing back",
               n);
  for (size_t i = 0; i < last; i++) ATTEND_TRY(copy_document(c, i, kept));
  const int32_t *ids = c->ids + part_start(c, last);
  ATTEND_TRY(attend_corpus_add(kept, n - hold, ids, 0, NULL));
  return attend_corpus_add(held, hold, ids + n - hold, 0, NULL);
}

attend_status attend_corpus_split(attend_corpus *c, double share, uint64_t seed,
                                  attend_corpus **held) {
  attend_corpus *kept, *other = NULL;
  *held = NULL;
  ATTEND_CHECK(c->ctx, share > 0 && share < 1,
               "a share of %g cannot be held back: choose one between 0 and 1",
               share);
  ATTEND_CHECK(c->ctx, c->parts && (!c->pairs || c->parts > 2),
               "there is too little text to hold a share of it back");
  ATTEND_TRY(attend_corpus_create(c->ctx, &kept));
  attend_status status = attend_corpus_create(c->ctx, &other);
  bool few = !c->pairs && c->parts < FEW_DOCUMENTS;
  if (!status)
    status = few ? split_last(c, share, kept, other)
                 : split_documents(c, share, seed, kept, other);
  if (!status) {
    attend_corpus was = *c;
    *c = *kept;
    c->bytes = was.bytes;
    c->dropped = was.dropped;
    *kept = was;
    *held = other;
    other = NULL;
  }
  attend_corpus_free(other);
  attend_corpus_free(kept);
  return status;
}
