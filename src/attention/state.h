/* A state: sequences of pages that hold packed keys and values.
 *
 * Place: attention/ - made and grown by state.c, read by walk.c. A page is
 * PANEL keys of every kv head of one sequence, in the layout that kernels read:
 * [G][keys: lanes of D][values: rows of ldv], in the plan's storage type.
 */
#ifndef ATTENTION_STATE_H
#define ATTENTION_STATE_H

#include "attention/engine.h"

_Static_assert((int)ATTEND_PAGE == (int)PANEL, "a page is a panel of keys");

typedef struct linear_stack linear_stack;

typedef struct {
  int refs;    /* sequences that hold it, in any state */
  bool padded; /* some of its keys are padding: real says which */
  bool wild;   /* some value is NaN or infinite */
  uint8_t real[PANEL];
  _Alignas(64) unsigned char data[]; /* [G][page_head_bytes] */
} page;

typedef struct {
  int64_t length; /* keys */
  int64_t start;  /* of those that the last call appended */
  int64_t pages, room;
  page **page; /* [room], the first `pages` in use or reserved */
} sequence;

struct attend_state {
  attend_context *ctx;
  attend_desc desc;              /* of the plan that made it */
  int ldv, width;                /* of values and keys, padded */
  int pair;                      /* as in struct block_kernels */
  size_t keys_bytes, head_bytes; /* of one head in a page */
  int batch;
  sequence *sequence;          /* [batch] */
  int64_t *before;             /* [batch], scratch of extend */
  struct linear_stack *linear; /* [batch][G] of a linear form, else NULL */
  int features_ld;             /* and its feature_map.ld */
  size_t stack_floats;         /* of one stack's data */
};

/* Fails if the states of the context may not hold so many bytes more (pages.c,
 * as what follows). */
attend_status cache_check(attend_context *ctx, size_t bytes, const char *what);

/* Pages for this many keys. */
attend_status sequence_reserve(attend_state *s, sequence *q, int64_t keys);
/* The pages that new keys go to must belong to this sequence alone: the open one
 * and, after a truncation, those beyond it that are still held. */
attend_status sequence_own(attend_state *s, sequence *q, int64_t keys);
/* A sequence that shares the used pages of another. */
attend_status sequence_share(attend_state *s, const sequence *from,
                             sequence *to);
void sequence_drop(attend_state *s, sequence *q);

static inline void *page_keys(const attend_state *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g);
}
static inline void *page_values(const attend_state *s, const page *p, int g) {
  return (void *)(p->data + s->head_bytes * (size_t)g + s->keys_bytes);
}

#endif
