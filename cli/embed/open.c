/* Opening a model for its vectors: embed, and summarize --extract.
 */
#include "embed/open.h"

int embedder_open(const options *common, const model_options *o, attend_embed_options embed,
                  model_opened *m, attend_embedder **e) {
  model_options model = *o;
  model.no_head = model.text = true;
  int code = model_open(common, &model, m);
  if (code) return code;
  embed.folder = m->path;
  attend_status status = attend_embedder_create(m->model, m->tokenizer, &embed, e);
  return status ? complain_status(m->ctx, status) : EXIT_OK;
}
