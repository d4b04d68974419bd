/* Texts to vectors, many at a time.
 *
 * Between embed's texts and the model.
 *
 * Texts of like length share a batch, so that little padding is computed; what
 * a text gives does not depend on who else is in its batch, down to the bits.
 */
#ifndef CLI_EMBED_VECTORS_H
#define CLI_EMBED_VECTORS_H

#include "attend/model.h"
#include "attend/text.h"
#include "embed/settings.h"

typedef struct {
  char *text;
  size_t length;
  int32_t *ids;
  int count;     /* of them */
  float *vector; /* [width] */
} embed_text;

typedef struct {
  attend_model *model;
  attend_encoding *encoding;
  pooling pool;
  bool raw;       /* vectors of any length instead of 1 */
  int max_length; /* tokens; 0: no limit */
  int width;
  /* the run, and the shape that it was made for */
  attend_session *run;
  int batch, rows;
  /* what was met on the way */
  size_t texts, tokens, cut, empty;
  size_t lost; /* vectors that are not finite */
} embedder;

attend_status embedder_start(embedder *e, attend_model *model,
                             const attend_tokenizer *tokenizer);
void embedder_free(embedder *e);

/* Text and ids, not yet a vector. */
attend_status embed_take(embedder *e, const char *text, size_t length,
                         embed_text *to);
/* Vectors of n texts. `progress` is called between batches, with the bytes of
 * text that became vectors; false ends it with ATTEND_STOPPED. May be NULL. */
attend_status embed_all(embedder *e, embed_text *texts, int n,
                        bool (*progress)(size_t bytes, void *user), void *user);
void embed_give(embed_text *text);

/* Of any two vectors; 0 where one is zero. */
double embed_cosine(const float *a, const float *b, int width);

#endif
