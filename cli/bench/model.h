/* attend bench model, train, summarize: how fast a model reads, writes and learns.
 *
 * Called by bench.c.
 */
#ifndef CLI_BENCH_MODEL_H
#define CLI_BENCH_MODEL_H

#include "model_open.h"

typedef struct {
  model_options model;
  int tokens;     /* of a prompt; 0: 512 */
  int batch;      /* of texts for encoders; 0: 32 of 128 tokens */
  bool recompute; /* train: activations are computed again */
  /* Benches by length, summarize and train with a curve. */
  const char *curve;   /* the file of a plot */
  const char *lengths; /* as lengths_parse takes them; NULL: default */
  const char *forms;   /* as forms_parse does */
  double limit_s;      /* the most for one reading; 0: 180 */
} bench_model_options;

int bench_model(attend_context *ctx, const options *common, const bench_model_options *o);
/* tokens: of a text; 0: 512. batch: texts of a step; 0: 2. train.c. */
int bench_train(attend_context *ctx, const options *common, const bench_model_options *o);
/* summarize.c */
int bench_summarize(attend_context *ctx, const options *common, const bench_model_options *o);

#endif
