/* Shared by the two sources of attend pull, hub and npm: the request and the result.
 */
#ifndef CLI_PULL_H
#define CLI_PULL_H

#include "folders.h"

typedef struct {
  attend_context *ctx; /* for messages */
  bool all, offline;
  const char *to; /* NULL: the cache */
  char **files;   /* names or patterns; none: what a model needs */
  int count;
} pull_request;

typedef struct {
  char *path;    /* of the model's folder: what is printed */
  char *root;    /* the folder that the names below start from */
  char *version; /* the commit, or the package's version */
  names files;
  bool *already; /* [files.count]: it was there before */
} pulled;

/* Both print errors and return an exit code. `given` is hf:... or npm:... */
int pull_from_hub(const char *given, const pull_request *request, pulled *got);
int pull_from_npm(const char *given, const pull_request *request, pulled *got);

#endif
