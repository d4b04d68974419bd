/* Reading what a verb is given: whole texts, and ids.
 *
 * Between the command line or a stream and the model.
 */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdio.h>

#include "cli.h"

/* All of a stream, with a zero byte behind it. What cannot be read is said, by
 * its name, and becomes an exit code. The caller frees it. */
char *input_all(FILE *in, const char *name, size_t *length, int *code);

typedef struct {
  int32_t *id;
  int count, capacity;
} id_list;

void id_list_add(id_list *list, int32_t id);
/* Numbers between spaces, commas and brackets; an exit code. */
int input_ids(const char *text, id_list *list);

#endif
