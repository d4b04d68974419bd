/* What the program has elsewhere, for fuzzers that build parts of it.
 */
#ifndef FUZZ_PROGRAM_H
#define FUZZ_PROGRAM_H

#include "fuzz.h"
#include "progress.h"

void complain(const char *sentence, ...) { (void)sentence; }
int complain_status(const attend_context *ctx, attend_status status) {
  MUST(*attend_message(ctx));
  return (int)status;
}
void *need(size_t count, size_t size) {
  void *block = calloc(count ? count : 1, size ? size : 1);
  MUST(block);
  return block;
}
char *need_copy(const char *text) {
  return strcpy(need(strlen(text) + 1, 1), text);
}
double seconds_now(void) { return 0; }
void progress_note(const char *now) { (void)now; }
void progress_end(void) {}

#endif
