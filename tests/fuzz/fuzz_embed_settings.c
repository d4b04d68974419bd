/* What a folder says about sentence embeddings: modules.json up to the first zero byte,
 * then 1_Pooling/config.json and sentence_bert_config.json. */
#include <sys/stat.h>

#include "fuzz.h"
#include "tasks/tasks.h"

static const char *const files[] = {"modules.json", "1_Pooling/config.json",
                                    "sentence_bert_config.json"};
enum { FILES = sizeof files / sizeof *files };

/* The file is there unless it is empty. */
static void put_files(const uint8_t *bytes, size_t length) {
  mkdir(fuzz_path("1_Pooling"), 0700);
  for (size_t i = 0, at = 0; i < FILES; i++) {
    const uint8_t *zero = at < length ? memchr(bytes + at, 0, length - at) : 0;
    size_t end = zero ? (size_t)(zero - bytes) : length;
    unlink(fuzz_path(files[i]));
    if (at < end) fuzz_file(files[i], bytes + at, end - at);
    at = end < length ? end + 1 : length;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  attend_pooling pooling = ATTEND_POOLING_DEFAULT;
  size_t live = fuzz_live;
  char folder[300];
  int max_length = 0;
  put_files(bytes, length);
  snprintf(folder, sizeof folder, "%s", fuzz_path("."));
  if (embed_settings_read(ctx, folder, &pooling, &max_length)) {
    MUST(*attend_message(ctx));
  } else {
    MUST(attend_pooling_name(pooling));
    MUST(max_length >= 0);
  }
  pooling = ATTEND_POOLING_MAX; /* a choice is kept */
  (void)embed_settings_read(ctx, folder, &pooling, &max_length);
  MUST(pooling == ATTEND_POOLING_MAX);
  MUST(fuzz_live == live);
  return 0;
}
