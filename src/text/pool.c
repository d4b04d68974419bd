/* Strings that live as long as their tokenizer: chained blocks, freed together. */
#include "text/pool.h"

#include <string.h>

struct pool_chunk {
  struct pool_chunk *before;
};

enum { HEAD = 64, CHUNK = 1 << 16 };

static attend_status add_chunk(attend_context *ctx, pool *p, size_t bytes) {
  struct pool_chunk *fresh;
  size_t size = bytes > CHUNK ? bytes : CHUNK;
  ATTEND_TRY(take(ctx, HEAD + size, "a vocabulary", &fresh));
  fresh->before = p->last;
  p->last = fresh;
  p->at = (char *)fresh + HEAD;
  p->left = size;
  return ATTEND_OK;
}

attend_status pool_copy(attend_context *ctx, pool *p, const void *bytes, size_t length,
                        const char **copy) {
  size_t size = round_up(length + 1, 8);
  if (size > p->left) ATTEND_TRY(add_chunk(ctx, p, size));
  if (length) memcpy(p->at, bytes, length);
  p->at[length] = 0;
  *copy = p->at;
  p->at += size;
  p->left -= size;
  return ATTEND_OK;
}

void pool_free(const attend_context *ctx, pool *p) {
  while (p->last) {
    struct pool_chunk *before = p->last->before;
    give(ctx, p->last);
    p->last = before;
  }
  *p = (pool){0};
}
