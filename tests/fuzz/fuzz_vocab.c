/* WordPiece's vocab.txt. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  fuzz_tokenizer(ctx, fuzz_file("vocab.txt", bytes, length));
  return 0;
}
