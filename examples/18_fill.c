/* The most probable tokens for a mask: 18_fill [MODEL [TOKENIZER [TEXT]]]
 */
#include <attend/attend.h>
#include <attend/fill.h>
#include <stdio.h>
#include <string.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/bert";
  const char *words = argc > 2 ? argv[2] : "tests/golden/words";
  const char *text = argc > 3 ? argv[3] : "the cat [MASK] on the ___";
  attend_fill_options top3 = {ATTEND_INIT(attend_fill_options)};
  attend_context *ctx;
  attend_model *model;
  attend_tokenizer *tokenizer;
  attend_filler *filler;
  const attend_filled *one;
  top3.top = 3;
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, path, &model));
  if (attend_tokenizer_load(ctx, words, &tokenizer) == ATTEND_UNSUPPORTED)
    return puts(attend_message(ctx)), 0; /* a build without tokenizers */
  TRY(attend_filler_create(model, tokenizer, &top3, &filler));
  TRY(attend_fill(filler, text, strlen(text), NULL, 0));
  for (int i = 0; (one = attend_filler_get(filler, i)); i++)
    printf("mask %d of %d: %-8s %.3f  %s\n", one->mask + 1, attend_filler_masks(filler),
           one->token ? one->token : "-", one->probability, one->text);
  attend_filler_free(filler);
  attend_tokenizer_free(tokenizer);
  attend_model_free(model);
  attend_context_free(ctx);
  return 0;
}
