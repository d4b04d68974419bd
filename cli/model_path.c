/* A MODEL argument as a path on disk. */
#include "model_path.h"

#include "attend/find.h"

const char *const settings_files[] = {"config.json", "generation_config.json", NULL};
const char *const tokenizer_files[] = {"tokenizer.json",
                                       "vocab.json",
                                       "tokenizer_config.json",
                                       "special_tokens_map.json",
                                       "added_tokens.json",
                                       "merges.txt",
                                       "vocab.txt",
                                       "tokenizer.model",
                                       "spiece.model",
                                       "sentencepiece.bpe.model",
                                       "tokenizer.bin",
                                       "tok512.bin",
                                       NULL};

static char *find(const char *given, bool quiet, int *code) {
  char path[ATTEND_PATH_SIZE];
  attend_context *ctx;
  attend_status status = attend_context_create(NULL, &ctx);
  if (!status) status = attend_model_find(ctx, given, path);
  *code = !status ? EXIT_OK : quiet ? EXIT_FAILED : complain_status(ctx, status);
  attend_context_free(ctx);
  return status ? NULL : need_copy(path);
}

char *model_path(const char *given, int *code) { return find(given, false, code); }

char *model_path_if_pulled(const char *given) {
  int code;
  return find(given, true, &code);
}
