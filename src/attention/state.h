/* States: what every kind has, and the table of what a kind does.
 *
 * state.c has the public calls, state_file.c the files; they know no kind by name. A
 * kind's own struct begins with an attend_state: kv_cache.h (keys in pages),
 * linear_state.c (sums). An engine names the kind that its states are of.
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

/* Sequences, shapes and pointers were checked; a call that fails leaves the
 * state as it was. */
struct state_kind {
  /* Keys are kept, so that any form and observe can read them. Otherwise a state
   * serves plans of the same features alone. */
  bool has_keys;
  /* An empty state, begun by state_make. */
  attend_status (*make)(attend_context *ctx, const attend_desc *desc,
                        attend_state **out);
  void (*free)(attend_state *s);
  /* Sequence to_b of one becomes sequence b of another of the same shape. */
  attend_status (*copy)(const attend_state *from, int b, attend_state *to,
                        int to_b);
  attend_status (*reorder)(attend_state *s, const int32_t *parents);
  attend_status (*truncate)(attend_state *s, int b, int64_t length);
  /* For so many keys a sequence. */
  attend_status (*reserve)(attend_state *s, int keys);
  size_t (*reserve_bytes)(const attend_state *s, int keys);
  size_t (*bytes)(const attend_state *s);
  /* c->k and c->v are new; queries of extend stand where they go. */
  attend_status (*append)(call *c, attend_state *s);
  attend_status (*extend)(call *c, attend_state *s);
  attend_status (*look)(call *c, attend_state *s); /* c->before is set */
  /* The first n values of a sequence to [n][G * M]; NULL: they are not kept. */
  void (*values)(const attend_state *s, int b, int64_t n, float *to);
  /* One sequence, behind its length. */
  attend_status (*put)(attend_draft *f, const attend_state *s, int b);
  attend_status (*get)(state_reader *f, attend_state *s, int b, int64_t length);
};

/* Whether keys can be looked at again: attend_state_observe. */
static inline bool attend_state_has_keys(const attend_state *s) {
  return s->kind->has_keys;
}

/* How a plan of this description lays keys and values out: in pages, and in the
 * head of a state's file. */
typedef struct {
  int ldv, width; /* of values and keys, padded */
  int pair;       /* as in struct block_kernels */
} state_layout;
state_layout state_layout_of(const attend_context *ctx,
                             const attend_desc *desc);

/* A kind's struct of `bytes`, zeroed, with an attend_state at its start. */
attend_status state_make(attend_context *ctx, const attend_desc *desc,
                         size_t bytes, void *out /* kind's struct ** */);

/* Keys that a call of n rows brings to sequence b. */
static inline int new_keys(const attend_plan *p, int b, int n) {
  return p->desc.mask.lengths ? p->desc.mask.lengths[b] : n;
}

/* Fails if the states of the context may not hold so many bytes more; cache_take
 * counts them at once, so that threads cannot go beyond the limit together. */
attend_status cache_check(attend_context *ctx, size_t bytes, const char *what);
attend_status cache_take(attend_context *ctx, size_t bytes, const char *what);

/* ---- files (state_file.c) ------------------------------------------------------- */

attend_status state_put_number(attend_draft *f, int64_t x);
attend_status state_get(state_reader *f, void *data, size_t bytes);
attend_status state_get_number(state_reader *f, int64_t least, int64_t most,
                               const char *what, int64_t *x);

#endif
