/* Opening a model for its vectors.
 *
 * Embed, and summarize --extract.
 */
#ifndef CLI_EMBED_OPEN_H
#define CLI_EMBED_OPEN_H

#include "embed/vectors.h"
#include "model_open.h"

/* Loads the model without its head, and readies *e for it. e->pool and
 * e->max_length are what was asked for, or 0: then what the folder says. An
 * exit code; embedder_free and model_close are right after any. */
int embedder_open(const options *common, const model_options *model,
                  model_opened *m, embedder *e);

/* Complains of vectors that are not finite, and of a status. An exit code. */
int embedder_check(const embedder *e, attend_status status);

#endif
