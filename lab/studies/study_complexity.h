/* What the two files of the study `complexity` share: a module of multi-head
 * attention, counted and timed.
 *
 * study_complexity.c is the study.
 */
#ifndef STUDIES_STUDY_COMPLEXITY_H
#define STUDIES_STUDY_COMPLEXITY_H

#include "studies/study.h"

typedef struct {
  int n_t, n_s; /* queries, keys                      */
  int d_model;  /* of what comes in and goes out      */
  int heads;    /* of width d_model / heads           */
  int value;    /* width of a head's values; 0: same  */
} module_shape;

typedef struct {
  double projections, attention; /* flops             */
  double projections_seconds, attention_seconds;
  double workspace; /* bytes of the plan             */
} module_cost;

/* Counted by the library's layers and plan; timed if repeat > 0. */
attend_status module_measure(study_run *r, module_shape shape, int repeat,
                             module_cost *cost);
/* The share of attention, of two numbers of flops or seconds. */
double module_share(double projections, double attention);

attend_status complexity_map(study_run *r); /* study_complexity_map.c */

#endif
