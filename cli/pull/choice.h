/* Which files of a repository are pulled.
 *
 * The hub's list goes in, marks come out.
 */
#ifndef CLI_PULL_CHOICE_H
#define CLI_PULL_CHOICE_H

#include "pull/pull.h"

/* Marks the files that were asked for; by default what a model needs: its
 * configuration, tokenizer and weights in safetensors. Where an index says
 * which those are, they are left to choose_shards. Complains. */
int choose_files(const pull_wish *wish, const names *files, bool *chosen);

bool is_index(const char *name);
/* Marks the weights that the index in the file `path` names. Complains. */
int choose_shards(const pull_wish *wish, const char *path, const names *files,
                  bool *chosen);

#endif
