/* A llama2.c vocabulary. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  fuzz_tokenizer(ctx, fuzz_file("tok.bin", bytes, length));
  return 0;
}
