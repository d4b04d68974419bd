/* Which heads matter: 15_hooks [MODEL]
 *
 * A decoder reads a text unchanged, then once for every head with that head's output
 * set to zero by a hook. The table shows the change in the loss on the text: in a
 * trained model the few heads that matter stand out.
 */
#include <attend/attend.h>
#include <attend/model.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A repeated sequence, for induction heads. */
static const int32_t ids[] = {1, 72, 40, 96, 51, 120, 8, 33, 72, 40, 96, 51, 120, 8, 33, 72};
enum { N = sizeof ids / sizeof *ids };

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

static void ablate(const attend_hooked *x, float *data, void *user) {
  const int head = *(const int *)user;
  const ptrdiff_t *by = x->view.stride;
  for (int i = 0; i < x->shape[2]; i++)
    memset(data + head * by[1] + i * by[2], 0, (size_t)x->shape[3] * sizeof *data);
}

/* Mean loss of every token but the first. */
static attend_status loss_of(attend_context *ctx, attend_session *session, int vocab, float *logits,
                             double *loss) {
  float each[N - 1];
  attend_session_reset(session);
  attend_status status = attend_session_extend(session, 1, N, ids, NULL);
  if (!status) status = attend_session_logits(session, N - 1, NULL, logits);
  if (!status) attend_cross_entropy(ctx, N - 1, vocab, logits, vocab, ids + 1, each, NULL);
  *loss = 0;
  for (int i = 0; i < N - 1 && !status; i++) *loss += (double)each[i] / (N - 1);
  return status;
}

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/gpt2";
  attend_context *ctx;
  attend_checkpoint *files;
  attend_model *model;
  attend_session *session;
  double plain, loss;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_checkpoint_open(ctx, path, &files));
  TRY(attend_model_create(files, NULL, &model));
  TRY(attend_session_create(model, NULL, &session));
  const attend_config *c = attend_model_config(model);
  float *logits = malloc((size_t)(N * attend_config_get(c, ATTEND_CONFIG_VOCAB)) * sizeof *logits);
  if (!logits) return 1;
  TRY(loss_of(ctx, session, attend_config_get(c, ATTEND_CONFIG_VOCAB), logits, &plain));
  printf("loss %.4f; change of the loss without head 0, 1, ..\n", plain);
  for (int layer = 0; layer < attend_config_stack(c, ATTEND_DECODER)->layers; layer++) {
    printf("layer %d", layer);
    for (int head = 0; head < attend_config_stack(c, ATTEND_DECODER)->heads; head++) {
      attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_HEAD_OUTPUT,
                          .layers = &layer,         .n_layers = 1,
                          .edit = ablate,           .user = &head};
      TRY(attend_session_set_hooks(session, 1, &hook));
      TRY(loss_of(ctx, session, attend_config_get(c, ATTEND_CONFIG_VOCAB), logits, &loss));
      printf("  %+.4f", loss - plain);
    }
    putchar('\n');
  }
  free(logits);
  attend_session_free(session);
  attend_model_free(model);
  attend_checkpoint_free(files);
  attend_context_free(ctx);
  return 0;
}
