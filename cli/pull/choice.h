/* Which files of a repository are pulled. */
#ifndef CLI_PULL_CHOICE_H
#define CLI_PULL_CHOICE_H

#include "pull/pull.h"

/* Marks the requested files; by default those that a model needs: configuration,
 * tokenizer and weights in safetensors. Shards named by an index are left to
 * choose_shards. Prints errors. */
int choose_files(const pull_request *request, const names *files, bool *chosen);

bool is_index(const char *name);
/* Marks the shards that the index at `path` names. Prints errors. */
int choose_shards(const pull_request *request, const char *path, const names *files, bool *chosen);

#endif
