/* Pairs of neighbours: how often each occurs, where, and which is next.
 *
 * The heap is lazy. A pair is offered once, when all its places are known;
 * after that its count only falls, because a piece is only ever made from one
 * pair. So a contender that comes out with the count its pair still has is the
 * best, and another is put back with what its count has become.
 */
#include "text/pairs.h"

enum { FIRST_SLOTS = 1 << 12 };

attend_status pairs_start(attend_context *ctx, pair_table *t) {
  *t = (pair_table){.ctx = ctx, .places = 1, .slots = FIRST_SLOTS};
  return take_zeroed(ctx, t->slots * sizeof *t->slot, "pairs", &t->slot);
}

void pairs_free(pair_table *t) {
  if (!t->ctx) return;
  give(t->ctx, t->pair);
  give(t->ctx, t->slot);
  give(t->ctx, t->place);
  give(t->ctx, t->heap);
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
  ATTEND_TRY(take_zeroed(t->ctx, slots * sizeof *fresh, "pairs", &fresh));
  give(t->ctx, t->slot);
  t->slot = fresh;
  t->slots = slots;
  for (size_t i = 0; i < t->count; i++)
    t->slot[slot_of(t, t->pair[i].left, t->pair[i].right)] = (uint32_t)(i + 1);
  return ATTEND_OK;
}

static attend_status find_pair(pair_table *t, int32_t left, int32_t right,
                               uint32_t *index) {
  size_t at = slot_of(t, left, right);
  if (!t->slot[at]) {
    if (t->count >= UINT32_MAX / 4)
      return fail(t->ctx, ATTEND_UNSUPPORTED,
                  "there are too many pairs to learn from: take less text");
    if (2 * (t->count + 1) > t->slots) {
      ATTEND_TRY(widen(t));
      at = slot_of(t, left, right);
    }
    ATTEND_TRY(grow(t->ctx, &t->pair, &t->capacity, t->count + 1,
                    sizeof *t->pair, "pairs"));
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
    ATTEND_TRY(grow(t->ctx, &t->place, &t->place_capacity, t->places + 1,
                    sizeof *t->place, "places of pairs"));
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

attend_status pairs_change(pair_table *t, int32_t left, int32_t right,
                           int64_t change, uint32_t at) {
  uint32_t index = 0;
  ATTEND_TRY(find_pair(t, left, right, &index));
  t->pair[index].count += change;
  return change > 0 ? put_place(t, &t->pair[index], at) : ATTEND_OK;
}

void pairs_forget(pair_table *t, uint32_t index) {
  pair *p = &t->pair[index];
  if (p->last) {
    t->place[p->last].next = t->spare;
    t->spare = p->first;
  }
  p->first = p->last = 0;
  p->count = 0;
}

/* ---- which is next --------------------------------------------------------------- */

static bool is_better(const contender *a, const contender *b) {
  if (a->count != b->count) return a->count > b->count;
  return a->left != b->left ? a->left < b->left : a->right < b->right;
}

static void sift_up(contender *heap, size_t at) {
  contender c = heap[at];
  for (; at && is_better(&c, &heap[(at - 1) / 2]); at = (at - 1) / 2)
    heap[at] = heap[(at - 1) / 2];
  heap[at] = c;
}

static void sift_down(contender *heap, size_t count, contender c) {
  size_t at = 0;
  for (size_t child; (child = 2 * at + 1) < count; at = child) {
    if (child + 1 < count && is_better(&heap[child + 1], &heap[child])) child++;
    if (!is_better(&heap[child], &c)) break;
    heap[at] = heap[child];
  }
  heap[at] = c;
}

attend_status pairs_offer(pair_table *t, uint32_t index) {
  const pair *p = &t->pair[index];
  ATTEND_TRY(grow(t->ctx, &t->heap, &t->heap_capacity, t->contenders + 1,
                  sizeof *t->heap, "pairs"));
  t->heap[t->contenders] = (contender){p->count, p->left, p->right, index};
  sift_up(t->heap, t->contenders++);
  return ATTEND_OK;
}

bool pairs_best(pair_table *t, int64_t least, uint32_t *index) {
  while (t->contenders) {
    contender top = t->heap[0];
    int64_t now = t->pair[top.pair].count;
    bool good = top.count == now && now >= least;
    contender back = top;
    back.count = now;
    if (good || now < least) back = t->heap[--t->contenders];
    if (t->contenders) sift_down(t->heap, t->contenders, back);
    *index = top.pair;
    if (good) return true;
  }
  return false;
}
