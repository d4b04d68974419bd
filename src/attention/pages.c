/* Pages of a KV cache: sequences of them, shared or owned, and their limit.
 *
 * Place: attention/ - under state.c. All states of a context count what they
 * hold in it, so that growing ends at its cache_limit and not with the machine's
 * memory.
 */
#include <stdio.h>
#include <string.h>

#include "attention/state.h"

/* ---- one page ---------------------------------------------------------------- */

static size_t page_bytes(const attend_state *s) {
  return size_add(sizeof(page),
                  size_times(s->head_bytes, (size_t)s->desc.kv_heads));
}

attend_status cache_check(attend_context *ctx, size_t bytes, const char *what) {
  if (size_add(ctx->cache_bytes, bytes) <= ctx->cache_limit) return ATTEND_OK;
  return fail(ctx, ATTEND_NO_MEMORY,
              "%s needs %zu bytes beside the %zu that the context's states "
              "hold, and its cache_limit is %zu: raise the limit or keep fewer "
              "keys",
              what, bytes, ctx->cache_bytes, ctx->cache_limit);
}

static attend_status page_take(attend_state *s, page **out) {
  static const char what[] = "a page of the cache";
  ATTEND_TRY(cache_check(s->ctx, page_bytes(s), what));
  ATTEND_TRY(take(s->ctx, page_bytes(s), what, out));
  s->ctx->cache_bytes += page_bytes(s);
  return ATTEND_OK;
}

static void page_drop(attend_state *s, page *p) {
  if (--p->refs > 0) return;
  s->ctx->cache_bytes -= page_bytes(s);
  give(s->ctx, p);
}

static int64_t pages_for(int64_t keys) { return (keys + PANEL - 1) / PANEL; }

/* ---- a sequence of pages ----------------------------------------------------- */

static attend_status table_reserve(attend_state *s, sequence *q, int64_t room) {
  if (room <= q->room) return ATTEND_OK;
  room = max64(room, 2 * q->room);
  page **table;
  ATTEND_TRY(take(s->ctx, size_times((size_t)room, sizeof *table),
                  "a table of pages", &table));
  if (q->pages) memcpy(table, q->page, (size_t)q->pages * sizeof *table);
  give(s->ctx, q->page);
  q->page = table;
  q->room = room;
  return ATTEND_OK;
}

attend_status sequence_reserve(attend_state *s, sequence *q, int64_t keys) {
  int64_t wanted = pages_for(keys);
  ATTEND_TRY(table_reserve(s, q, wanted));
  while (q->pages < wanted) {
    ATTEND_TRY(page_take(s, &q->page[q->pages]));
    memset(q->page[q->pages], 0, page_bytes(s));
    q->page[q->pages++]->refs = 1;
  }
  return ATTEND_OK;
}

attend_status sequence_own(attend_state *s, sequence *q, int64_t keys) {
  for (int64_t i = q->length / PANEL; i < pages_for(keys); i++) {
    page *shared = q->page[i], *own;
    if (shared->refs == 1) continue;
    ATTEND_TRY(page_take(s, &own));
    memcpy(own, shared, page_bytes(s));
    own->refs = 1;
    page_drop(s, shared);
    q->page[i] = own;
  }
  return ATTEND_OK;
}

void sequence_drop(attend_state *s, sequence *q) {
  for (int64_t i = 0; i < q->pages; i++) page_drop(s, q->page[i]);
  give(s->ctx, q->page);
  *q = (sequence){0};
}

attend_status sequence_share(attend_state *s, const sequence *from,
                             sequence *to) {
  *to = (sequence){0};
  int64_t used = pages_for(from->length);
  ATTEND_TRY(table_reserve(s, to, used));
  for (int64_t i = 0; i < used; i++) {
    to->page[i] = from->page[i];
    to->page[i]->refs++;
  }
  to->pages = used;
  to->length = from->length;
  return ATTEND_OK;
}

/* ---- a state's ---------------------------------------------------------------- */

size_t attend_state_reserve_bytes(const attend_state *s, int keys) {
  int64_t pages = 0;
  for (int b = 0; b < s->batch && !s->linear; b++)
    pages += max64(0, pages_for(keys) - s->sequence[b].pages);
  return size_times((size_t)pages, page_bytes(s));
}

attend_status attend_state_reserve(attend_state *s, int keys) {
  char what[64];
  ATTEND_CHECK(s->ctx, keys >= 0, "%d keys cannot be reserved", keys);
  snprintf(what, sizeof what, "a reserve of %d keys for %d sequences", keys,
           s->batch);
  ATTEND_TRY(cache_check(s->ctx, attend_state_reserve_bytes(s, keys), what));
  for (int b = 0; b < s->batch && !s->linear; b++)
    ATTEND_TRY(sequence_reserve(s, &s->sequence[b], keys));
  return ATTEND_OK;
}

size_t attend_state_bytes(const attend_state *s) {
  size_t pages = 0;
  if (s->linear)
    return SIZE_PRODUCT((size_t)s->batch, (size_t)s->desc.kv_heads,
                        s->stack_floats, sizeof(float));
  for (int b = 0; b < s->batch; b++) pages += (size_t)s->sequence[b].pages;
  return pages * page_bytes(s);
}
