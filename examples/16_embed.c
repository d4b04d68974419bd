/* Sentence embeddings and their cosines: 16_embed [MODEL [TOKENIZER]]
 */
#include <attend/attend.h>
#include <attend/embed.h>
#include <stdio.h>
#include <stdlib.h>

#define TRY(call) \
  if (call) return fprintf(stderr, "%s\n", attend_message(ctx)), 1

int main(int argc, char **argv) {
  const char *path = argc > 1 ? argv[1] : "tests/golden/models/bert";
  const char *words = argc > 2 ? argv[2] : "tests/golden/words";
  const char *texts[] = {"the cat sat on the mat", "the cats sat", "a dog"};
  attend_embed_options o = {ATTEND_INIT(attend_embed_options)};
  attend_context *ctx;
  attend_model *model;
  attend_tokenizer *tokenizer;
  attend_embedder *e;
  o.folder = path; /* pooling configured by sentence-transformers */
  TRY(attend_context_create(NULL, &ctx));
  TRY(attend_open(ctx, path, &model));
  if (attend_tokenizer_load(ctx, words, &tokenizer) == ATTEND_UNSUPPORTED)
    return puts(attend_message(ctx)), 0; /* a build without tokenizers */
  TRY(attend_embedder_create(model, tokenizer, &o, &e));
  int width = attend_embedder_width(e);
  float *v = malloc(3 * (size_t)width * sizeof *v);
  TRY(!v || attend_embed_texts(e, 3, texts, NULL, v, NULL));
  for (int i = 0; i < 3; i++)
    printf("%6.3f  %s\n", attend_cosine(v, v + i * width, width), texts[i]);
  free(v);
  attend_embedder_free(e);
  attend_tokenizer_free(tokenizer);
  attend_model_free(model);
  attend_context_free(ctx);
  return 0;
}
