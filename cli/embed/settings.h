/* What a folder says about sentence embeddings.
 *
 * Asked by embed, which obeys it where the user says nothing.
 *
 * sentence-transformers writes modules.json, a list of steps, beside the model:
 * the transformer, pooling, perhaps a norm. The pooling's folder has a
 * config.json; sentence_bert_config.json has the longest text.
 */
#ifndef CLI_EMBED_SETTINGS_H
#define CLI_EMBED_SETTINGS_H

#include "cli.h"

typedef enum {
  POOL_NONE = 0, /* nothing was said */
  POOL_MEAN,     /* of all tokens */
  POOL_CLS,      /* the first token */
  POOL_LAST,     /* the last token */
  POOL_MAX       /* the largest of each element */
} pooling;

/* POOL_NONE if it is none of them. */
pooling pooling_called(const char *name);
const char *pooling_name(pooling pool);

typedef struct {
  pooling pool;
  int max_length; /* tokens; 0: nothing was said */
} embed_settings;

/* An exit code: a step that is not known here is refused by name, because
 * leaving it out would give other vectors. */
int embed_settings_read(attend_context *ctx, const char *folder,
                        embed_settings *settings);

#endif
