/* What a model's folder says about sentence embeddings.
 *
 * sentence-transformers writes modules.json, a list of steps, beside the model: the
 * transformer, pooling, perhaps a norm. The folder of the pooling has a config.json;
 * sentence_bert_config.json has the maximal length.
 */
#ifndef TASKS_EMBED_SETTINGS_H
#define TASKS_EMBED_SETTINGS_H

#include "attend/embed.h"
#include "base/base.h"

/* *pooling is left alone if a value was chosen, and then steps that are not computed
 * here are no failure. Both are left alone where the folder says nothing. */
attend_status embed_settings_read(attend_context *ctx, const char *folder, attend_pooling *pooling,
                                  int *max_length);

#endif
