/* Learning merges: the most frequent pair becomes a piece, again and again.
 *
 * Between the alphabet and the files.
 *
 * A merge goes over the places of its pair alone, from left to right, as
 * encoding does: of "aaa" the first two. What it costs is the number of places,
 * however long words are.
 */
#include "text/pairs.h"
#include "text/trainer.h"

typedef struct {
  attend_text_trainer *r;
  const tally_word *words;
  word_rows rows;
  pair_table pairs;
} learning;

static uint32_t letters_of(const learning *l, int32_t id) {
  return l->r->piece[id].letters;
}

/* Pairs that would be too long are none. */
static attend_status change(learning *l, int32_t left, int32_t right,
                            int64_t times, size_t at) {
  if (letters_of(l, left) + letters_of(l, right) > (uint32_t)l->r->o.longest)
    return ATTEND_OK;
  return pairs_change(&l->pairs, left, right, times, (uint32_t)at);
}

static attend_status offer_from(learning *l, size_t first) {
  for (size_t i = first; i < l->pairs.count; i++)
    if (l->pairs.pair[i].count >= (int64_t)l->r->o.least)
      ATTEND_TRY(pairs_offer(&l->pairs, (uint32_t)i));
  return ATTEND_OK;
}

static attend_status count_pairs(learning *l) {
  const word_rows *rows = &l->rows;
  for (size_t i = 0; i + 1 < rows->places; i++) {
    if (rows->id[i] == ROW_GAP || rows->id[i + 1] == ROW_GAP) continue;
    int64_t times = (int64_t)l->words[rows->word[i]].times;
    ATTEND_TRY(change(l, rows->id[i], rows->id[i + 1], times, i));
  }
  return offer_from(l, 0);
}

/* Joins the pair at `at`, unless one of the two has become something else. */
static attend_status join(learning *l, const learnt_merge *m, size_t at) {
  const word_rows *rows = &l->rows;
  if (rows->id[at] != m->left) return ATTEND_OK;
  size_t right = at + letters_of(l, m->left);
  if (rows->id[right] != m->right) return ATTEND_OK;
  size_t next = right + letters_of(l, m->right);
  int64_t times = (int64_t)l->words[rows->word[at]].times;
  if (rows->id[at - 1] != ROW_GAP) {
    size_t before = rows->back[at - 1];
    ATTEND_TRY(change(l, rows->id[before], m->left, -times, 0));
    ATTEND_TRY(change(l, rows->id[before], m->made, times, before));
  }
  if (rows->id[next] != ROW_GAP) {
    ATTEND_TRY(change(l, m->right, rows->id[next], -times, 0));
    ATTEND_TRY(change(l, m->made, rows->id[next], times, at));
  }
  rows->id[at] = m->made;
  rows->id[right] = ROW_DEAD;
  rows->back[next - 1] = (uint32_t)at;
  return ATTEND_OK;
}

static attend_status join_all(learning *l, uint32_t index,
                              const learnt_merge *m) {
  size_t known = l->pairs.count;
  for (uint32_t i = l->pairs.pair[index].first; i; i = l->pairs.place[i].next)
    ATTEND_TRY(join(l, m, l->pairs.place[i].at));
  pairs_forget(&l->pairs, index);
  return offer_from(l, known);
}

/* The name of the piece that a pair makes; its length. */
static size_t name_of(const learning *l, const pair *p,
                      char name[4 * LONGEST_CHARS + 4]) {
  const chars *a = &l->r->piece[p->left].name;
  const chars *b = &l->r->piece[p->right].name;
  size_t skip = l->r->like->wordpiece ? 2 : 0; /* ## */
  memcpy(name, a->bytes, a->length);
  memcpy(name + a->length, b->bytes + skip, b->length - skip);
  return a->length + b->length - skip;
}

static attend_status merge_pair(learning *l, uint32_t index) {
  attend_text_trainer *r = l->r;
  const pair p = l->pairs.pair[index];
  char name[4 * LONGEST_CHARS + 4];
  size_t length = name_of(l, &p, name);
  learnt_merge m = {p.left, p.right, (int32_t)r->pieces, (uint64_t)p.count};
  if (special_named(r, name, length) >= 0) { /* the name is taken */
    pairs_forget(&l->pairs, index);
    return ATTEND_OK;
  }
  ATTEND_TRY(grow(r->ctx, &r->merge, &r->merge_capacity, r->merges + 1,
                  sizeof *r->merge, "merges"));
  ATTEND_TRY(piece_put(r, name, length,
                       letters_of(l, p.left) + letters_of(l, p.right)));
  r->merge[r->merges++] = m;
  return join_all(l, index, &m);
}

static attend_status merge_best(learning *l) {
  attend_text_trainer *r = l->r;
  size_t most = (size_t)r->o.vocab - r->pieces;
  uint32_t index;
  ATTEND_TRY(count_pairs(l));
  while (r->merges < most &&
         pairs_best(&l->pairs, (int64_t)r->o.least, &index)) {
    ATTEND_TRY(merge_pair(l, index));
    if (r->o.progress && r->o.progress(r->merges, most, r->o.user))
      return fail(r->ctx, ATTEND_STOPPED,
                  "learning was stopped after %zu merges", r->merges);
  }
  return ATTEND_OK;
}

/* What is left of the rows is what the merges make of the text. */
static uint64_t count_left(const learning *l) {
  uint64_t sum = 0;
  for (size_t i = 0; i < l->rows.places; i++)
    if (l->rows.id[i] >= 0) sum += l->words[l->rows.word[i]].times;
  return sum;
}

attend_status merges_learn(attend_text_trainer *r) {
  learning l = {.r = r, .words = r->worker[0].words.word, .rows = r->rows};
  attend_status status = pairs_start(r->ctx, &l.pairs);
  if (!status) status = merge_best(&l);
  r->row_pieces = count_left(&l);
  pairs_free(&l.pairs);
  rows_free(r->ctx, &r->rows);
  return status;
}
