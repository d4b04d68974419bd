/* The study of heads: what heads.c shares with head_gradients.c and heads_beside.c. */
#ifndef STUDIES_HEADS_H
#define STUDIES_HEADS_H

#include "studies/study.h"

enum { NOTHING = ATTEND_HEAD_PATTERNS, KINDS };

/* What the heads of one model do on one text. */
typedef struct {
  attend_lens_shape shape;
  int heads;                         /* of all layers */
  attend_pattern_scores *pattern;    /* [heads] */
  double even[ATTEND_HEAD_PATTERNS]; /* what equal weights would score */
  int favoured[KINDS];               /* heads, by what they favour most */
  double broad;                      /* mean share of the most entropy */
  double forward;                    /* largest weight that a head has on later tokens */
  int count[KINDS];
} survey;

/* Of the model at path, trained or untrained. */
attend_status survey_of(study_run *r, const char *path, traced_weights weights,
                        const traced_text *t, survey *s);
/* The heads of the models of the setting `beside`, counted next to those of the first. */
attend_status study_heads_beside(study_run *r, const char *path, const survey *first);

/* One set of weights. */
typedef struct {
  const char *name; /* "trained", "step 500" */
  const char *path;
  bool untrained; /* drawn, in the shape of the model at path */
  double step;    /* of a training run; -1: none */
} head_case;

/* Gradients at heads of n sets of weights of one shape, on the model's own task. */
attend_status study_head_gradients(study_run *r, int n, const head_case *c, const traced_text *text,
                                   const attend_lens_shape *shape, attend_role role);

#endif
