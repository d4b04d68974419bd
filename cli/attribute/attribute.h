/* The verb attribute: what its files share. */
#ifndef CLI_ATTRIBUTE_ATTRIBUTE_H
#define CLI_ATTRIBUTE_ATTRIBUTE_H

#include "attend/attribute.h"
#include "options.h"
#include "scores.h"
#include "tokens.h"

typedef enum {
  METHOD_INTEGRATED = 0,
  METHOD_GRADIENT,
  METHOD_ATTENTION,
  METHOD_DIRECT,
  METHOD_LENS
} attribute_method;

typedef struct {
  options common;
  model_options model;
  token_source input;
  target_source target;
  int method; /* attribute_method */
  const char *baseline;
  int steps, top;
  const char *role; /* of the attention; NULL: that of the side with the head */
  score_output out;
} attribute_options;

typedef struct {
  const model_opened *m;
  const attribute_options *o;
  token_text text;
  attend_target target; /* resolved */
  double logit;
  /* the text's tokens, the encoder's first */
  char **labels; /* [tokens] */
  int tokens;
  /* INTEGRATED, GRADIENT, ATTENTION: of tokens */
  float *scores; /* [tokens] */
  attend_integrated integrated;
  char baseline[256]; /* its name */
  /* ATTENTION, DIRECT, LENS: a map */
  float *map; /* [rows][columns] */
  int rows, columns;
  char **row_names, **column_names;
  attend_direct direct;
  /* LENS */
  int32_t *ids; /* [rows][columns][top] */
  float *p;
  char **words; /* [rows][columns] */
} attribute_run;

/* ---- methods.c: an exit code ----------------------------------------------------------------- */

int attribute_compute(attribute_run *r);

/* ---- print.c ------------------------------------------------------------------------------------ */

int attribute_print(const attribute_run *r);

#endif
