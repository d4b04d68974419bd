/* Vectors into a safetensors file, row by row.
 *
 * Rows go to a draft beside the file, which replaces it once everything is on the disk.
 * Until then, and after a failure, the file is as it was.
 */
#ifndef CLI_EMBED_FILE_H
#define CLI_EMBED_FILE_H

#include "attend/file.h"
#include "cli.h"

typedef struct {
  attend_context *ctx;
  const char *path;
  attend_draft *draft; /* NULL: not open */
  int width;
  size_t rows;
} vector_file;

/* Exit codes; failures are reported. */
int vector_file_start(vector_file *f, attend_context *ctx, const char *path, int width);
int vector_file_add(vector_file *f, const float *vector);
/* metadata: alternating names and values, then NULL. */
int vector_file_finish(vector_file *f, const char *const *metadata);
/* Removes the draft of a file that was not finished. */
void vector_file_drop(vector_file *f);

#endif
