/* The paged KV cache: sequences of pages with packed keys and values. kv_cache.c writes
 * it, blocks.c reads it.
 *
 * A page is PANEL keys of every kv head of one sequence, in the layout that kernels
 * read: [G][keys: lanes of D][values: rows of ldv], in the plan's storage type.
 */
#ifndef ATTENTION_KV_CACHE_H
#define ATTENTION_KV_CACHE_H

#include "attention/state.h"

_Static_assert((int)ATTEND_PAGE == (int)PANEL, "a page is a panel of keys");

typedef struct {
  int refs;        /* sequences that hold it, in states of any thread */
  bool padded;     /* some of its keys are padding: see real */
  bool non_finite; /* some value is NaN or infinite */
  uint8_t real[PANEL];
  _Alignas(64) unsigned char data[]; /* [G][page_head_bytes] */
} page;

typedef struct {
  int64_t start; /* of the keys that the last call appended */
  int64_t pages, capacity;
  page **page; /* [capacity], the first `pages` in use or reserved */
} sequence;

typedef struct {
  attend_state state;
  state_layout layout;
  size_t keys_bytes, head_bytes; /* of one head in a page */
  sequence *sequence;            /* [batch] */
} kv_cache;

static inline const kv_cache *kv_cache_of(const attend_state *s) { return (const kv_cache *)s; }

static inline void *page_keys(const kv_cache *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g);
}
static inline void *page_values(const kv_cache *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g + s->keys_bytes);
}

#endif
