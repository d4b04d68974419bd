/* Pages of a KV cache: sequences of them, shared or owned, and their limit.
 *
 * Under kv_cache.c. All states of a context count what they hold in it, so that
 * growing ends at its cache_limit and not with the machine's memory.
 */
#include <string.h>

#include "attention/kv_cache.h"

/* ---- one page ---------------------------------------------------------------- */

static size_t page_bytes(const kv_cache *s) {
  return size_add(sizeof(page),
                  size_times(s->head_bytes, (size_t)s->state.desc.kv_heads));
}

static attend_status page_take(kv_cache *s, page **out) {
  static const char what[] = "a page of the cache";
  ATTEND_TRY(cache_take(s->state.ctx, page_bytes(s), what));
  attend_status status = take(s->state.ctx, page_bytes(s), what, out);
  if (status) cache_give(s->state.ctx, page_bytes(s));
  return status;
}

static void page_drop(kv_cache *s, page *p) {
  if (__atomic_sub_fetch(&p->refs, 1, __ATOMIC_ACQ_REL) > 0) return;
  cache_give(s->state.ctx, page_bytes(s));
  give(s->state.ctx, p);
}

static int64_t pages_for(int64_t keys) { return (keys + PANEL - 1) / PANEL; }

/* ---- a sequence of pages ----------------------------------------------------- */

static attend_status table_reserve(kv_cache *s, sequence *q, int64_t room) {
  if (room <= q->room) return ATTEND_OK;
  room = max64(room, 2 * q->room);
  page **table;
  ATTEND_TRY(take(s->state.ctx, size_times((size_t)room, sizeof *table),
                  "a table of pages", &table));
  if (q->pages) memcpy(table, q->page, (size_t)q->pages * sizeof *table);
  give(s->state.ctx, q->page);
  q->page = table;
  q->room = room;
  return ATTEND_OK;
}

attend_status sequence_reserve(kv_cache *s, sequence *q, int64_t keys) {
  int64_t wanted = pages_for(keys);
  ATTEND_TRY(table_reserve(s, q, wanted));
  while (q->pages < wanted) {
    ATTEND_TRY(page_take(s, &q->page[q->pages]));
    memset(q->page[q->pages], 0, page_bytes(s));
    q->page[q->pages++]->refs = 1;
  }
  return ATTEND_OK;
}

attend_status sequence_own(kv_cache *s, sequence *q, int64_t from,
                           int64_t keys) {
  for (int64_t i = from / PANEL; i < pages_for(keys); i++) {
    page *shared = q->page[i], *own;
    if (__atomic_load_n(&shared->refs, __ATOMIC_ACQUIRE) == 1) continue;
    ATTEND_TRY(page_take(s, &own));
    memcpy(own, shared, page_bytes(s));
    own->refs = 1;
    page_drop(s, shared);
    q->page[i] = own;
  }
  return ATTEND_OK;
}

void sequence_drop(kv_cache *s, sequence *q) {
  for (int64_t i = 0; i < q->pages; i++) page_drop(s, q->page[i]);
  give(s->state.ctx, q->page);
  *q = (sequence){0};
}

attend_status sequence_share(kv_cache *s, const sequence *from, int64_t keys,
                             sequence *to) {
  *to = (sequence){0};
  int64_t used = pages_for(keys);
  ATTEND_TRY(table_reserve(s, to, used));
  for (int64_t i = 0; i < used; i++) {
    to->page[i] = from->page[i];
    __atomic_fetch_add(&to->page[i]->refs, 1, __ATOMIC_RELAXED);
  }
  to->pages = used;
  return ATTEND_OK;
}

/* ---- a state's ---------------------------------------------------------------- */

size_t kv_reserve_bytes(const attend_state *state, int keys) {
  const kv_cache *s = kv_cache_of(state);
  int64_t pages = 0;
  for (int b = 0; b < state->batch; b++)
    pages += max64(0, pages_for(keys) - s->sequence[b].pages);
  return size_times((size_t)pages, page_bytes(s));
}

attend_status kv_reserve(attend_state *state, int keys) {
  kv_cache *s = (kv_cache *)state;
  for (int b = 0; b < state->batch; b++)
    ATTEND_TRY(sequence_reserve(s, &s->sequence[b], keys));
  return ATTEND_OK;
}

size_t kv_bytes(const attend_state *state) {
  const kv_cache *s = kv_cache_of(state);
  size_t pages = 0;
  for (int b = 0; b < state->batch; b++) pages += (size_t)s->sequence[b].pages;
  return pages * page_bytes(s);
}
