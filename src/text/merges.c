/* The merges of BPE: from a pair of ids to the id that replaces it.
 *
 * Made while loading, asked by bpe.c at every step.
 *
 * tokenizer.json and merges.txt list merges in order. SentencePiece lists
 * none: it joins any two neighbours whose letters together are a piece, the
 * best score first. That is the same table, with the rank of a merge the place
 * of its result among the scores; equal scores have equal ranks.
 *
 * Pairs are hashed with a key, so that no file can choose many that collide.
 */
#include "text/tokenizer.h"

#include <stdlib.h>

/* Of scores: bytes of a piece, and merges of all; a vocabulary of 256,000
 * pieces has a million. */
enum { LONGEST_CUT = 1024, MOST_CUTS = 1 << 22 };

static size_t slot_of(const model *m, int32_t left, int32_t right) {
  uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  size_t at = (size_t)hash_word(m->merge_hash, key) & m->merge_mask;
  while (m->merges[at].left >= 0 &&
         (m->merges[at].left != left || m->merges[at].right != right))
    at = (at + 1) & m->merge_mask;
  return at;
}

attend_status merges_reserve(attend_context *ctx, model *m, size_t count) {
  size_t slots = 64;
  while (slots < 2 * count) slots *= 2;
  m->merge_hash = hash_key_draw();
  ATTEND_TRY(take(ctx, slots * sizeof *m->merges, "merges", &m->merges));
  for (size_t i = 0; i < slots; i++) m->merges[i].left = -1;
  m->merge_mask = slots - 1;
  return ATTEND_OK;
}

/* The first of two merges of the same pair counts. */
void merges_put(model *m, int32_t left, int32_t right, int32_t made,
                uint32_t rank) {
  size_t at = slot_of(m, left, right);
  if (m->merges[at].left < 0) m->merges[at] = (merge){left, right, made, rank};
}

const merge *merges_find(const model *m, int32_t left, int32_t right) {
  if (!m->merge_mask) return NULL;
  const merge *found = &m->merges[slot_of(m, left, right)];
  return found->left >= 0 ? found : NULL;
}

/* ---- from scores ------------------------------------------------------------- */

typedef struct {
  float score;
  int32_t id;
  uint32_t rank;
} scored;

static int by_score(const void *a, const void *b) {
  const scored *x = a, *y = b;
  if (x->score != y->score) return x->score > y->score ? -1 : 1;
  return x->id < y->id ? -1 : x->id > y->id;
}

/* Ranks by id: 0 for the best score. */
static void rank_scores(const vocab *v, scored *list, uint32_t *rank) {
  size_t n = v->count;
  for (size_t i = 0; i < n; i++)
    list[i] = (scored){v->piece[i].score, (int32_t)i, 0};
  qsort(list, n, sizeof *list, by_score);
  for (size_t i = 0; i < n; i++) {
    bool tie = i && list[i].score == list[i - 1].score;
    list[i].rank = tie ? list[i - 1].rank : (uint32_t)i;
    rank[list[i].id] = list[i].rank;
  }
}

/* Characters that occur in pieces and are none themselves take part in merges
 * too: they get ids behind all others. */
static attend_status add_phantoms(attend_tokenizer *t, size_t real) {
  for (size_t id = 0; id < real; id++) {
    chars key = t->vocab.piece[id].key;
    uint32_t c;
    if (t->vocab.piece[id].kind != PIECE_NORMAL) continue;
    for (size_t i = 0, n; i < key.length; i += n) {
      n = utf8_next(key.bytes + i, key.length - i, &c);
      if (vocab_key(&t->vocab, key.bytes + i, n) >= 0) continue;
      ATTEND_TRY(vocab_put_phantom(t, key.bytes + i, n));
    }
  }
  return ATTEND_OK;
}

/* Cutting a piece everywhere takes time that grows as its length squared. */
static attend_status check_lengths(attend_tokenizer *t) {
  for (size_t id = 0; id < t->vocab.count; id++)
    if (t->vocab.piece[id].key.length > LONGEST_CUT)
      return fail(t->ctx, ATTEND_IO,
                  "piece %zu of the vocabulary has %zu bytes: %d are the most "
                  "that can be merged",
                  id, t->vocab.piece[id].key.length, LONGEST_CUT);
  return ATTEND_OK;
}

/* Counts them, or puts them where rank is given. */
static size_t put_cuts(attend_tokenizer *t, const uint32_t *rank) {
  vocab *v = &t->vocab;
  size_t count = 0;
  for (size_t id = 0; id < v->count; id++) {
    chars key = v->piece[id].key;
    if (v->piece[id].kind != PIECE_NORMAL) continue;
    for (size_t i = 1; i < key.length; i++) {
      if (((unsigned char)key.bytes[i] & 0xc0) == 0x80) continue;
      int32_t left = vocab_key(v, key.bytes, i);
      if (left < 0) continue;
      int32_t right = vocab_key(v, key.bytes + i, key.length - i);
      if (right < 0) continue;
      count++;
      if (rank) merges_put(&t->model, left, right, (int32_t)id, rank[id]);
    }
  }
  return count;
}

attend_status merges_from_scores(attend_tokenizer *t) {
  size_t real = t->vocab.count;
  scored *list = NULL;
  uint32_t *rank = NULL;
  ATTEND_TRY(check_lengths(t));
  ATTEND_TRY(add_phantoms(t, real));
  attend_status status =
      take(t->ctx, t->vocab.count * sizeof *list, "merges", &list);
  if (!status)
    status = take(t->ctx, t->vocab.count * sizeof *rank, "merges", &rank);
  if (!status) rank_scores(&t->vocab, list, rank);
  size_t cuts = put_cuts(t, NULL);
  if (!status && cuts > MOST_CUTS)
    status = fail(t->ctx, ATTEND_IO,
                  "the pieces of the vocabulary can be merged in %zu ways: %d "
                  "are the most",
                  cuts, MOST_CUTS);
  if (!status) status = merges_reserve(t->ctx, &t->model, cuts);
  if (!status) put_cuts(t, rank);
  give(t->ctx, list);
  give(t->ctx, rank);
  return status;
}
