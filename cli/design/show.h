/* The verb design: design.c reads options and calls the library, output.c prints, draws and
 * writes results.
 */
#ifndef CLI_DESIGN_SHOW_H
#define CLI_DESIGN_SHOW_H

#include <stdio.h>

#include "attend/design.h"
#include "options.h"

enum { DESIGNS_MOST = 16 };

typedef struct {
  options common;
  const char *name; /* of a shipped design, or a file */
  const char *input, *out;
  bool all, list, spec, check, min, learn, argmax, terminal, open, dark;
  double sharpness; /* 0: argmax */
  int length, steps, batch, width;
  double rate;
  unsigned training; /* options of --learn that are given */
  bool has_seed;
  long long most_inputs;
} design_options;

typedef struct { /* a design and its results so far */
  attend_context *ctx;
  attend_design *d;
  attend_design_facts facts;
  attend_design_results r;
} designed;

/* ---- the designs that ship (specs.c) ---------------------------------------------- */

typedef struct {
  const char *name;
  const char *text; /* JSON */
  size_t length;
} design_spec;

/* Spec i in the order of docs/design.md; false past the last. */
bool design_spec_get(int i, design_spec *spec);

/* ---- showing (output.c); each int is an exit code ----------------------------------- */

void design_print_list(FILE *out);
void design_print(const designed *g, FILE *out);
/* One row for each, as a table or as JSON. */
int design_print_rows(const designed *all, int n, bool json, FILE *out);
/* The answers to one input, place by place. */
int design_print_run(const designed *g, const design_options *o, FILE *out);
/* The maps of both twins on the spec's example. */
int design_draw_terminal(const designed *g, const design_options *o, FILE *out);
int design_write(const designed *all, int n, const design_options *o);
int design_open_page(const designed *all, int n);

#endif
