/* The perplexity of a text, and its most surprising token: 17_evaluate [MODEL [TEXT]]
 */
#include <attend/attend.h>
#include <attend/evaluate.h>
#include <stdio.h>
#include <string.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/stories260K";
  const char *text = argc > 2 ? argv[2] : "Tom had a red boat. It was a zebra.";
  attend_context *ctx;
  attend_model *model;
  attend_tokenizer *tokenizer;
  attend_evaluation *e;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, path, &model));
  if (attend_tokenizer_load(ctx, path, &tokenizer) == ATTEND_UNSUPPORTED)
    return puts(attend_message(ctx)), 0; /* a build without tokenizers */
  TRY(attend_evaluation_create(model, tokenizer, NULL, &e));
  TRY(attend_evaluation_set_text(e, text, strlen(text)));
  TRY(attend_evaluation_run(e));
  attend_token_loss t, max = {.loss = -1};
  for (int i = 0; attend_evaluation_get(e, i, &t); i++)
    if (t.loss > max.loss) max = t;
  printf("perplexity %.2f over %d tokens\n", attend_evaluation_perplexity(e),
         attend_evaluation_tokens(e));
  printf("most surprising: \"%.*s\", with a loss of %.2f\n", (int)(max.end - max.start),
         text + max.start, (double)max.loss);
  attend_evaluation_free(e);
  attend_tokenizer_free(tokenizer);
  attend_model_free(model);
  attend_context_free(ctx);
  return 0;
}
