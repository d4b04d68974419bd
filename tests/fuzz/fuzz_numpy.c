/* NumPy's files: open, find every array by its name, read all its bytes. */
#include "fuzz.h"

static unsigned touch(const attend_tensor_file *f) {
  unsigned sum = 0;
  for (size_t i = 0; i < attend_tensor_file_count(f); i++) {
    const attend_tensor *t = attend_tensor_file_get(f, i);
    const unsigned char *data = t->data;
    MUST(attend_tensor_file_find(f, t->name));
    MUST(t->bytes == (size_t)t->count * attend_stored_size(t->stored));
    MUST(t->rank >= 0 && t->rank <= ATTEND_TENSOR_RANK && t->dtype);
    for (size_t j = 0; j < t->bytes; j++) sum += data[j];
  }
  MUST(!attend_tensor_file_get(f, attend_tensor_file_count(f)));
  return sum;
}

/* Compressed data gives at most 1,033 bytes for one, and they may be copied into C order. */
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static volatile unsigned sum;
  attend_context *ctx = fuzz_context(2 * length);
  attend_tensor_file *file;
  size_t live = fuzz_live;
  const char *path = fuzz_file("t.npy", bytes, length);
  if (!attend_tensor_file_open(ctx, path, &file)) sum += touch(file);
  attend_tensor_file_free(file);
  MUST(fuzz_live == live);
  return 0;
}
