/* What the program has elsewhere, for fuzzers that build parts of it.
 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include "fuzz.h"
#include "progress.h"

int complain(const char *sentence, ...) { return (void)sentence, EXIT_FAILED; }
int complain_status(const attend_context *ctx, attend_status status) {
  MUST(*attend_message(ctx));
  return (int)status;
}
void *need(size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size ? size : 1);
  MUST(block);
  return block;
}
void *need_more(void *block, size_t used, size_t count, size_t size) {
  void *wider = need(count, size);
  if (used) memcpy(wider, block, used * size);
  free(block);
  return wider;
}
char *need_copy(const char *text) { return strcpy(need(strlen(text) + 1, 1), text); }
void progress_note(const char *now) { (void)now; }
void progress_end(void) {}
void progress_start(const char *what, size_t total) { (void)what, (void)total; }
void progress_bytes(size_t done, size_t before) { (void)done, (void)before; }

#endif
