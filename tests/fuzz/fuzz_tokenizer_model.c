/* SentencePiece's tokenizer.model. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  fuzz_tokenizer(ctx, fuzz_file("t.model", bytes, length));
  return 0;
}
