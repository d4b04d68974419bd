/* One head's attention over a text, drawn in the terminal.
 *
 * Place: cli/ - the end of `make demo`.
 */
#ifndef CLI_HEAD_MAP_H
#define CLI_HEAD_MAP_H

#include "model_open.h"

typedef struct {
  model_options model;
  const char *text;
  int layer, head; /* -1: the head that looks most sharply at real words */
} head_map_options;

int head_map(const options *common, const head_map_options *o);

#endif
