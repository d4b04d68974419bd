/* Tensor files: open, find every tensor by its name, touch its ends. */
#include "fuzz.h"

static unsigned touch(const attend_tensor_file *f) {
  unsigned sum = 0;
  for (size_t i = 0; i < attend_tensor_file_count(f); i++) {
    const attend_tensor *t = attend_tensor_file_get(f, i);
    const unsigned char *data = t->data;
    MUST(attend_tensor_file_find(f, t->name) == t);
    MUST(t->bytes == (size_t)t->count * attend_stored_size(t->stored));
    MUST(t->rank >= 0 && t->rank <= ATTEND_TENSOR_RANK && t->dtype);
    if (t->bytes) sum += data[0] + data[t->bytes - 1];
  }
  for (size_t i = 0; i < attend_tensor_file_notes(f); i++) {
    const char *text, *name = attend_tensor_file_note(f, i, &text);
    MUST(name && text);
    (void)attend_tensor_file_note_find(f, name);
  }
  MUST(!attend_tensor_file_get(f, attend_tensor_file_count(f)));
  return sum;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  static volatile unsigned sum;
  attend_context *ctx = fuzz_context(length);
  attend_tensor_file *file;
  size_t live = fuzz_live;
  const char *path = fuzz_file("t.safetensors", bytes, length);
  if (!attend_tensor_file_open(ctx, path, &file)) sum += touch(file);
  attend_tensor_file_free(file);
  MUST(fuzz_live == live);
  return 0;
}
