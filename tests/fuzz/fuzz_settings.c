/* What lies beside a vocabulary: tokenizer_config.json up to the first zero
 * byte, then added_tokens.json, special_tokens_map.json and config.json; the
 * first byte chooses the vocabulary. */
#include "fuzz.h"

static const char *const beside[] = {"tokenizer_config.json", "added_tokens.json",
                                     "special_tokens_map.json", "config.json"};
enum { BESIDE = sizeof beside / sizeof *beside };

static const char words[] = "[UNK]\n[CLS]\n[SEP]\nab\n##c\na\nb\n";
static const char pieces[] = "{\"a\": 0, \"b\": 1, \"ab\": 2, \"<s>\": 3}";
/* <unk> <s> </s> and "a", with scores, as SentencePiece writes them */
static const char sentencepiece[] =
    "\n\x0e\n\x05<unk>\x15\0\0\0\0\x18\x02\n\x0c\n\x03<s>\x15\0\0\0\0\x18\x03"
    "\n\x0d\n\x04</s>\x15\0\0\0\0\x18\x03\n\x08\n\x01"
    "a\x15\0\0\x80\xbf";

static void put_vocabulary(unsigned which) {
  static const char *const names[] = {"vocab.txt", "vocab.json", "tokenizer.model"};
  for (int i = 0; i < 3; i++) unlink(fuzz_path(names[i]));
  if (which % 3 == 0) fuzz_file(names[0], words, sizeof words - 1);
  if (which % 3 == 1) fuzz_file(names[1], pieces, sizeof pieces - 1);
  if (which % 3 == 1) fuzz_file("merges.txt", "a b\n", 4);
  if (which % 3 == 2) fuzz_file(names[2], sentencepiece, sizeof sentencepiece - 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t length) {
  attend_context *ctx = fuzz_context(length);
  if (!length) return 0;
  put_vocabulary(bytes[0]);
  for (size_t i = 0, at = 1; i < BESIDE; i++) {
    const uint8_t *zero = at < length ? memchr(bytes + at, 0, length - at) : 0;
    size_t end = zero ? (size_t)(zero - bytes) : length;
    unlink(fuzz_path(beside[i]));
    if (at < end) fuzz_file(beside[i], bytes + at, end - at);
    at = end < length ? end + 1 : length;
  }
  char folder[300];
  snprintf(folder, sizeof folder, "%s", fuzz_path(""));
  fuzz_tokenizer(ctx, folder);
  return 0;
}
