/* States: the common struct, and the table of functions of a kind.
 *
 * state.c has the public calls and files and works through the table. A kind's struct
 * begins with an attend_state: kv_cache (paged keys), linear_state.c (sums). An engine
 * names its kind of state.
 */
#ifndef ATTENTION_STATE_H
#define ATTENTION_STATE_H

#include <stdio.h>

#include "attend/file.h"
#include "attention/engine.h"

struct attend_state {
  const state_kind *kind;
  attend_context *ctx;
  attend_desc desc; /* of the plan that made it */
  int batch;
  int64_t *length; /* [batch] keys */
  int64_t *before; /* [batch], scratch of extend */
};

typedef struct { /* a file that is read */
  attend_context *ctx;
  const char *path;
  FILE *file;
} state_reader;

/* Sequences, shapes and pointers were checked; a call that fails leaves the state as it was. */
struct state_kind {
  /* Keys are stored, so any form and observe can read them. Otherwise a state works
   * only with plans of the same features. */
  bool has_keys;
  /* An empty state; calls state_make. */
  attend_status (*make)(attend_context *ctx, const attend_desc *desc, attend_state **out);
  void (*free)(attend_state *s);
  /* Copies sequence b of a state to sequence to_b of another of the same shape. */
  attend_status (*copy)(const attend_state *from, int b, attend_state *to, int to_b);
  attend_status (*reorder)(attend_state *s, const int32_t *parents);
  attend_status (*truncate)(attend_state *s, int b, int64_t length);
  /* For `keys` keys in every sequence; NULL: the size is constant. */
  attend_status (*reserve)(attend_state *s, int keys);
  size_t (*reserve_bytes)(const attend_state *s, int keys);
  size_t (*bytes)(const attend_state *s);
  /* c->k and c->v are the new keys and values. */
  attend_status (*append)(call *c, attend_state *s);
  attend_status (*extend)(call *c, attend_state *s);
  attend_status (*query)(call *c, attend_state *s); /* c->before is set */
  /* The first n values of a sequence to [n][G * M]; NULL: not stored. */
  attend_status (*values)(const attend_state *s, int b, int64_t n, float *to);
  /* One sequence, after its length. */
  attend_status (*put)(attend_draft *f, const attend_state *s, int b);
  attend_status (*get)(state_reader *f, attend_state *s, int b, int64_t length);
};

/* Whether attend_state_observe works. */
static inline bool attend_state_has_keys(const attend_state *s) { return s->kind->has_keys; }

/* The layout of keys and values in pages; part of a state file's header. */
typedef struct {
  int ldv, width; /* of values and keys, padded */
  int pair;       /* as in struct block_kernels */
} state_layout;
state_layout state_layout_of(const attend_context *ctx, const attend_desc *desc);

/* A kind's struct of `bytes`, zeroed, with an attend_state at its start. */
attend_status state_make(attend_context *ctx, const attend_desc *desc, size_t bytes,
                         void *out /* kind's struct ** */);

/* New keys of sequence b in a call of n rows. */
static inline int new_keys(const attend_plan *p, int b, int n) {
  return p->desc.mask.lengths ? p->desc.mask.lengths[b] : n;
}

/* Counts `bytes` more, atomically; fails if they exceed the context's cache_limit. */
attend_status cache_take(attend_context *ctx, size_t bytes, const char *what);

/* ---- files ----------------------------------------------------------------------- */

attend_status state_put_number(attend_draft *f, int64_t x);
attend_status state_get(state_reader *f, void *data, size_t bytes);
attend_status state_get_number(state_reader *f, int64_t min, int64_t max, const char *what,
                               int64_t *x);

/* ---- the paged KV cache: kv_cache.c writes it, blocks.c reads it ----------------- */

_Static_assert((int)ATTEND_PAGE == (int)PANEL, "a page is a panel of keys");

typedef struct {
  int refs;        /* sequences that hold it, in states of any thread */
  bool padded;     /* some of its keys are padding: see real */
  bool non_finite; /* some value is NaN or infinite */
  uint8_t real[PANEL];
  unsigned char *data; /* [G][head_bytes] of the cache */
} page;

typedef struct {
  int64_t start; /* of the keys that the last call appended */
  int64_t pages, capacity;
  int64_t changed; /* pages from here on are others than the device has in its table */
  page **page;     /* [capacity], the first `pages` in use or reserved */
} sequence;

typedef struct kv_cache kv_cache;

/* Where the data of pages lies. */
typedef struct {
  attend_status (*take)(kv_cache *s, page **out); /* zeroed, without its refs */
  void (*drop)(kv_cache *s, page *p);
  void (*copy)(kv_cache *s, page *to, const page *from);
  void (*read)(const kv_cache *s, void *to, const page *from); /* to the host's memory */
  void (*write)(const kv_cache *s, page *to, const void *from);
  /* The call's keys, once their pages are there: those of sequence b from its start. */
  attend_status (*append)(call *c, kv_cache *s);
  /* Where element i of a value lies, in elements from its head's values. */
  size_t (*value_at)(const kv_cache *s, int slot, int i);
} page_memory;

struct kv_cache {
  attend_state state;
  const page_memory *memory;
  state_layout layout;
  size_t keys_bytes, head_bytes; /* of one head in a page */
  size_t data_bytes;             /* of a page */
  sequence *sequence;            /* [batch] */
};

/* An empty cache in a struct of `bytes` that begins with a kv_cache; its layout is the caller's. */
attend_status kv_cache_make(attend_context *ctx, const attend_desc *desc, const page_memory *memory,
                            size_t bytes, void *out);

static inline const kv_cache *kv_cache_of(const attend_state *s) { return (const kv_cache *)s; }

static inline void *page_keys(const kv_cache *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g);
}
static inline void *page_values(const kv_cache *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g + s->keys_bytes);
}

#endif
