/* Learning merges (Sennrich et al. 2016): the most frequent pair of neighbours
 * becomes a piece, repeatedly.
 *
 * A table holds for each pair its count and the positions where it occurs; a heap
 * finds the most frequent. The heap is lazy: a pair enters it once, when all its
 * positions are known. After that its count only falls, because a piece is made from
 * one pair only. So an entry that is popped with the current count is the best; any
 * other is pushed back with its new count.
 */
#include "text/train.h"
#include "text/tokenizer.h"

typedef struct {
  int32_t left, right;
  int64_t count;
  uint32_t first, last; /* of its list of places; 0: empty */
} pair;

typedef struct { /* in a list of one pair, in rising order; some are stale */
  uint32_t at, next;
} pair_place;

typedef struct {
  int64_t count; /* the pair's, when it was put in */
  int32_t left, right;
  uint32_t pair;
} heap_entry;

typedef struct {
  attend_context *ctx;
  pair *pair; /* never moves within the list */
  size_t count, capacity;
  uint32_t *slot; /* by (left, right): an index + 1, 0 is free */
  size_t slots;
  pair_place *place; /* number 0 is none */
  size_t places, place_capacity;
  uint32_t spare; /* a list of places that are free again */
  heap_entry *heap;
  size_t heap_count, heap_capacity;
} pair_table;

enum { FIRST_SLOTS = 1 << 12 };

static attend_status pairs_start(attend_context *ctx, pair_table *t) {
  *t = (pair_table){.ctx = ctx, .places = 1, .slots = FIRST_SLOTS};
  return ctx_alloc_zeroed(ctx, t->slots * sizeof *t->slot, "pairs", &t->slot);
}

static void pairs_free(pair_table *t) {
  if (!t->ctx) return;
  ctx_free(t->ctx, t->pair);
  ctx_free(t->ctx, t->slot);
  ctx_free(t->ctx, t->place);
  ctx_free(t->ctx, t->heap);
  *t = (pair_table){0};
}

/* ---- counts ---------------------------------------------------------------------- */

static size_t slot_of(const pair_table *t, int32_t left, int32_t right) {
  uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
  key ^= key >> 29; /* left and right must both reach every bit */
  key *= 0xff51afd7ed558ccdu;
  size_t mask = t->slots - 1, at = (size_t)(key >> 24) & mask;
  for (; t->slot[at]; at = (at + 1) & mask) {
    const pair *p = &t->pair[t->slot[at] - 1];
    if (p->left == left && p->right == right) break;
  }
  return at;
}

static attend_status widen(pair_table *t) {
  uint32_t *fresh;
  size_t slots = 2 * t->slots;
  ATTEND_TRY(ctx_alloc_zeroed(t->ctx, slots * sizeof *fresh, "pairs", &fresh));
  ctx_free(t->ctx, t->slot);
  t->slot = fresh;
  t->slots = slots;
  for (size_t i = 0; i < t->count; i++)
    t->slot[slot_of(t, t->pair[i].left, t->pair[i].right)] = (uint32_t)(i + 1);
  return ATTEND_OK;
}

static attend_status find_pair(pair_table *t, int32_t left, int32_t right, uint32_t *index) {
  size_t at = slot_of(t, left, right);
  if (!t->slot[at]) {
    if (t->count >= UINT32_MAX / 4)
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "there are too many pairs to learn from: take less text");
    if (2 * (t->count + 1) > t->slots) {
      ATTEND_TRY(widen(t));
      at = slot_of(t, left, right);
    }
    ATTEND_TRY(grow(t->ctx, &t->pair, &t->capacity, t->count + 1, sizeof *t->pair, "pairs"));
    t->pair[t->count++] = (pair){.left = left, .right = right};
    t->slot[at] = (uint32_t)t->count;
  }
  *index = t->slot[at] - 1;
  return ATTEND_OK;
}

static attend_status put_place(pair_table *t, pair *p, uint32_t at) {
  uint32_t fresh = t->spare;
  if (fresh) {
    t->spare = t->place[fresh].next;
  } else {
    if (t->places >= UINT32_MAX)
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "there are too many places to learn from: take less text");
    ATTEND_TRY(grow(t->ctx, &t->place, &t->place_capacity, t->places + 1, sizeof *t->place,
                    "places of pairs"));
    fresh = (uint32_t)t->places++;
  }
  t->place[fresh] = (pair_place){at, 0};
  if (p->last)
    t->place[p->last].next = fresh;
  else
    p->first = fresh;
  p->last = fresh;
  return ATTEND_OK;
}

/* Adds to the count of a pair, creating it if needed; if the count grows, `at`
 * becomes one of its positions. */
static attend_status pairs_change(pair_table *t, int32_t left, int32_t right, int64_t change,
                                  uint32_t at) {
  uint32_t index = 0;
  ATTEND_TRY(find_pair(t, left, right, &index));
  t->pair[index].count += change;
  return change > 0 ? put_place(t, &t->pair[index], at) : ATTEND_OK;
}

/* Frees the positions of a pair. */
static void pairs_release(pair_table *t, uint32_t index) {
  pair *p = &t->pair[index];
  if (p->last) {
    t->place[p->last].next = t->spare;
    t->spare = p->first;
  }
  p->first = p->last = 0;
  p->count = 0;
}

/* ---- which is next --------------------------------------------------------------- */

static bool is_better(const heap_entry *a, const heap_entry *b) {
  if (a->count != b->count) return a->count > b->count;
  return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static void sift_up(heap_entry *heap, size_t at) {
  heap_entry c = heap[at];
  for (; at && is_better(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

static void sift_down(heap_entry *heap, size_t count, heap_entry c) {
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_better(&heap[child + 1], &heap[child])) child++;
    if (!is_better(&heap[child], &c)) break;
    heap[at] = heap[child];
  }
  heap[at] = c;
}

static attend_status pairs_offer(pair_table *t, uint32_t index) {
  const pair *p = &t->pair[index];
  ATTEND_TRY(
      grow(t->ctx, &t->heap, &t->heap_capacity, t->heap_count + 1, sizeof *t->heap, "pairs"));
  t->heap[t->heap_count] = (heap_entry){p->count, p->left, p->right, index};
  sift_up(t->heap, t->heap_count++);
  return ATTEND_OK;
}

/* The most frequent pair; of equals the one with the smaller ids. False: none occurs
 * `least` times. */
static bool pairs_best(pair_table *t, int64_t min, uint32_t *index) {
  while (t->heap_count) {
    heap_entry top = t->heap[0];
    int64_t now = t->pair[top.pair].count;
    bool good = top.count == now && now >= min;
    heap_entry back = top;
    back.count = now;
    if (good || now < min) back = t->heap[--t->heap_count];
    if (t->heap_count) sift_down(t->heap, t->heap_count, back);
    *index = top.pair;
    if (good) return true;
  }
  return false;
}

/* ---- learning merges ----------------------------------------------------- */

/* A merge visits the positions of its pair only, from left to right as encoding does:
 * in "aaa" it takes the first two. Its cost is the number of positions, independent
 * of the length of words. */

typedef struct {
  attend_text_trainer *r;
  const counted_word *words;
  word_rows rows;
  pair_table pairs;
} learning;

static uint32_t letters_of(const learning *l, int32_t id) { return l->r->piece[id].letters; }

/* Pairs whose piece would be too long are not counted. */
static attend_status change(learning *l, int32_t left, int32_t right, int64_t times, size_t at) {
  if (letters_of(l, left) + letters_of(l, right) > (uint32_t)l->r->o.longest) return ATTEND_OK;
  return pairs_change(&l->pairs, left, right, times, (uint32_t)at);
}

static attend_status offer_from(learning *l, size_t first) {
  for (size_t i = first; i < l->pairs.count; i++)
    if (l->pairs.pair[i].count >= (int64_t)l->r->o.min)
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

/* Merges the pair at `at`, unless one of the two has changed. */
static attend_status join(learning *l, const trained_merge *m, size_t at) {
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

static attend_status join_all(learning *l, uint32_t index, const trained_merge *m) {
  size_t known = l->pairs.count;
  for (uint32_t i = l->pairs.pair[index].first; i; i = l->pairs.place[i].next)
    ATTEND_TRY(join(l, m, l->pairs.place[i].at));
  pairs_release(&l->pairs, index);
  return offer_from(l, known);
}

/* The name of a pair's piece; returns its length. */
static size_t name_of(const learning *l, const pair *p, char name[4 * LONGEST_CHARS + 4]) {
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
  trained_merge m = {p.left, p.right, (int32_t)r->pieces, (uint64_t)p.count};
  if (special_named(r, name, length) >= 0) { /* the name is taken */
    pairs_release(&l->pairs, index);
    return ATTEND_OK;
  }
  ATTEND_TRY(
      grow(r->ctx, &r->merge, &r->merge_capacity, r->merges + 1, sizeof *r->merge, "merges"));
  ATTEND_TRY(piece_put(r, name, length, letters_of(l, p.left) + letters_of(l, p.right)));
  r->merge[r->merges++] = m;
  return join_all(l, index, &m);
}

static attend_status merge_best(learning *l) {
  attend_text_trainer *r = l->r;
  size_t max = (size_t)r->o.vocab - r->pieces;
  uint32_t index;
  ATTEND_TRY(count_pairs(l));
  while (r->merges < max && pairs_best(&l->pairs, (int64_t)r->o.min, &index)) {
    ATTEND_TRY(merge_pair(l, index));
    if (r->o.progress && r->o.progress((double)r->merges / (double)max, NULL, r->o.user))
      return fail(r->ctx, ATTEND_STOPPED, "learning was stopped after %zu merges", r->merges);
  }
  return ATTEND_OK;
}

/* The tokens that remain in the rows are the encoding of the text. */
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
