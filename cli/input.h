/* Reading input: whole texts, and ids. */
#ifndef CLI_INPUT_H
#define CLI_INPUT_H

#include <stdio.h>

#include "cli.h"

/* All of a stream, zero-terminated; the caller frees it. Prints an error and returns
 * an exit code. */
char *input_all(FILE *in, const char *name, size_t *length, int *code);

typedef struct {
  int32_t *id;
  int count, capacity;
} id_list;

void id_list_add(id_list *list, int32_t id);
/* Numbers between spaces, commas and brackets; an exit code. */
int input_ids(const char *text, id_list *list);

#endif
