/* What the files of the study `decoding` share: a layer of attention that decodes
 * one token at a time.
 *
 * study_decoding.c is the study.
 */
#ifndef STUDIES_STUDY_DECODING_H
#define STUDIES_STUDY_DECODING_H

#include "studies/study.h"

typedef struct {
  int d, heads; /* width of a token; query heads, each d / heads wide  */
  int groups;   /* kv heads: heads for MHA, 1 for MQA                   */
  int batch;
} decoder_shape;

typedef struct {
  decoder_shape shape;
  attend_linear *in, *out; /* q, k and v; y                               */
  attend_plan *plan;
  attend_state *state;
  float *x, *qkv, *o, *y; /* one token of each sequence                   */
  float *keys;            /* what fills the cache                         */
} decoder;

/* weights: at least 3 d² numbers. Close it whatever open gave. */
attend_status decoder_open(study_run *r, decoder_shape shape,
                           const float *weights, decoder *d);
void decoder_close(decoder *d);
attend_status decoder_step(decoder *d);
/* n tokens in the cache of every sequence, no more and no less. */
attend_status decoder_fill(decoder *d, int n);
/* Seconds of the fastest of some steps at this length. */
attend_status decoder_time(decoder *d, int n, int steps, double *seconds);

/* One step on n cached tokens, counted by the layers and the plan. */
typedef struct {
  double flops, weights, cache, tokens; /* the last three are bytes         */
} decoder_cost;
attend_status decoder_count(study_run *r, const decoder *d, int n,
                            decoder_cost *cost);

/* The same outcome in other ways: claims of bits. */
attend_status decoder_equalities(study_run *r, decoder_shape shape,
                                 const float *weights);
/* What logits that are not divided by the root of the width do. */
attend_status decoder_scaling(study_run *r, int width);

#endif
