/* Files that are read whole: configurations, vocabularies.
 *
 * Place: base/ - checkpoints are mapped instead (attend/file.h).
 */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include "attend/json.h"
#include "base/base.h"

enum { LONGEST_PATH = 4096 };

/* A file as a whole, with a zero byte behind; freed with give. */
attend_status file_read(attend_context *ctx, const char *path, char **bytes,
                        size_t *length);
/* folder/name; false if it does not fit or there is no such file. */
bool file_beside(const char *folder, const char *name, char *path, size_t size);
attend_status json_read(attend_context *ctx, const char *path,
                        attend_json **root);

#endif
