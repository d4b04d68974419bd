/* The designs that ship: models/designs, as part of the program. */
#ifndef CLI_DESIGN_SPECS_H
#define CLI_DESIGN_SPECS_H

#include <stddef.h>

typedef struct {
  const char *name;
  const char *text; /* JSON */
  size_t length;
} design_spec;

/* Spec i in the order of docs/design.md; false past the last. */
int design_spec_get(int i, design_spec *spec);

#endif
