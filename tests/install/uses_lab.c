/* A stranger's program on the lab: a design that is read, and a study that is found. */
#include <attend/design.h>
#include <attend/study.h>
#include <stdio.h>
#include <string.h>

int main(void) {
  static const char spec[] = "{}";
  attend_context *ctx;
  attend_design *design;
  if (attend_context_create(NULL, &ctx)) return 1;
  if (!attend_study_find("scale")) return 1;
  /* an empty spec is refused, in a sentence */
  if (!attend_design_read(ctx, "spec", spec, strlen(spec), &design)) return 1;
  if (!*attend_message(ctx)) return 1;
  attend_context_free(ctx);
  return 0;
}
