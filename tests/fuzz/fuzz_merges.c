/* GPT-2's two files: vocab.json up to the first zero byte, then merges.txt. */
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  const uint8_t *zero = length ? memchr(bytes, 0, length) : NULL;
  size_t first = zero ? (size_t)(zero - bytes) : length;
  size_t skip = zero ? first + 1 : first;
  fuzz_file("merges.txt", bytes + skip, length - skip);
  fuzz_tokenizer(ctx, fuzz_file("vocab.json", bytes, first));
  return 0;
}
