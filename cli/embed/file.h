/* Vectors into a safetensors file, row by row.
 *
 * Rows go to a new file beside the one that was named; it takes that name once
 * everything is on the disk. Until then, and if anything fails, what was there
 * before stays as it is.
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

/* An exit code, after a complaint, each. */
int vector_file_start(vector_file *f, attend_context *ctx, const char *path,
                      int width);
int vector_file_add(vector_file *f, const float *vector);
/* notes: names and values by turns, ends with NULL. */
int vector_file_finish(vector_file *f, const char *const *notes);
/* Leaves nothing behind of a file that was not finished. */
void vector_file_drop(vector_file *f);

#endif
