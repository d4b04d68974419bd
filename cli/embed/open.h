/* Opening a model for its vectors: embed, and summarize --extract.
 */
#ifndef CLI_EMBED_OPEN_H
#define CLI_EMBED_OPEN_H

#include "attend/embed.h"
#include "model_open.h"

/* Loads the model without its head and creates an embedder; options the user did not set
 * are as the model's folder says. An exit code; attend_embedder_free and model_close may
 * follow any. */
int embedder_open(const options *common, const model_options *model, attend_embed_options embed,
                  model_opened *m, attend_embedder **e);

#endif
