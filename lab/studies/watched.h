/* A model that read a text while a trace recorded it: what studies of real models
 * stand on.
 *
 * Under study_heads.c and study_receptive_field_model.c.
 */
#ifndef STUDIES_WATCHED_H
#define STUDIES_WATCHED_H

#include "studies/study.h"

/* Tokens of a text; of a model without a tokenizer, tokens drawn at random. */
typedef struct {
  int n;
  int32_t *ids;       /* [n] */
  uint8_t *separator; /* [n] */
  int separators;
  bool drawn;
  attend_config config;
} watched_text;

/* path: a model's folder; text: what is read, cut after `most` tokens or where
 * the model's positions end. */
attend_status watched_text_read(study_run *r, const char *path,
                                const char *text, int most, watched_text *t);

typedef enum { WATCHED_TRAINED = 0, WATCHED_UNTRAINED } watched_weights;

typedef struct {
  attend_checkpoint *files;
  attend_model *model;
  attend_trace *trace;
  attend_lens *lens;
  attend_role role; /* self-attention: of the encoder, if there is one */
  attend_lens_shape shape;
} watched;

/* Untrained: the same sizes, weights drawn as training begins. form NULL: the
 * model's own. To be closed after failures too. */
attend_status watched_open(study_run *r, const char *path,
                           watched_weights weights, const attend_form *form,
                           const watched_text *text, watched *w);
void watched_close(watched *w);

#endif
