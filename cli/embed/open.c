/* Opening a model for its vectors.
 *
 * Embed, and summarize --extract.
 */
#include "embed/open.h"

static int choose_length(embedder *e, int folder) {
  const attend_config *c = attend_model_config(e->model);
  bool fixed = c->position == ATTEND_POSITIONS_LEARNED;
  int longest = folder ? folder : c->positions, asked = e->max_length;
  if (fixed && longest > c->positions) longest = c->positions;
  if (!asked) e->max_length = longest;
  if (!fixed || asked <= c->positions) return EXIT_OK;
  complain("--max-length %d is more than the %d positions that the model has",
           asked, c->positions);
  return EXIT_USAGE;
}

int embedder_open(const options *common, const model_options *o,
                  model_opened *m, embedder *e) {
  embed_settings said = {.pool = e->pool};
  model_options model = *o;
  model.no_head = model.text = true;
  int code = model_open(common, &model, m);
  if (!code) code = embed_settings_read(m->ctx, m->path, &said);
  if (code) return code;
  bool decoder = attend_model_config(m->model)->parts == ATTEND_DECODER;
  e->pool = said.pool ? said.pool : decoder ? POOL_LAST : POOL_MEAN;
  attend_status status = embedder_start(e, m->model, m->tokenizer);
  if (status) return complain_status(m->ctx, status);
  return choose_length(e, said.max_length);
}

int embedder_check(const embedder *e, attend_status status) {
  if (status) return complain_status(attend_model_context(e->model), status);
  if (!e->lost) return EXIT_OK;
  complain(
      "the model gave vectors that are not finite: the checkpoint, or "
      "the form of attention, does not work here");
  return EXIT_FAILED;
}
