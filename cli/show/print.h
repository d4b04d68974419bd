/* A model's facts, for people and for programs. */
#ifndef CLI_SHOW_PRINT_H
#define CLI_SHOW_PRINT_H

#include "show/facts.h"

typedef struct {
  const char *path;
  const model_facts *facts;
  const char *tokenizer; /* its kind; NULL: none, or it cannot be read */
  const char *refusal;   /* why it cannot be read; NULL: there is none */
  int32_t tokens;
  bool tensors; /* the table of them */
} shown;

/* Exit codes. */
int show_lines(const shown *s);
int show_json(const shown *s);

/* The tensors of the files as the model sees them, from a place of zeros on:
 * entries of the table that are there, then what it has no use for. False past
 * the last. */
typedef struct {
  size_t entry, unused;
} tensor_place;
typedef struct {
  const attend_tensor *tensor;
  char what[64];
  int layer; /* -1: of no layer */
} shown_tensor;
bool show_tensor(const attend_checkpoint *files, tensor_place *place, shown_tensor *t);

#endif
