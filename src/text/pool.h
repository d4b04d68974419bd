/* Strings that live as long as their tokenizer. Loaders add them; none is removed. */
#ifndef TEXT_POOL_H
#define TEXT_POOL_H

#include "base/base.h"

struct pool_chunk;

typedef struct {
  struct pool_chunk *last;
  char *at;
  size_t left;
} pool;

/* A copy that ends in a zero byte, aligned to 8. */
attend_status pool_copy(attend_context *ctx, pool *p, const void *bytes, size_t length,
                        const char **copy);
void pool_free(const attend_context *ctx, pool *p);

#endif
