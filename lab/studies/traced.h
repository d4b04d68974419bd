/* A model that read a text while a trace recorded it.
 *
 * Used by heads.c and receptive_field.c.
 */
#ifndef STUDIES_TRACED_H
#define STUDIES_TRACED_H

#include "attend/lens.h"
#include "studies/study.h"

/* Tokens of a text; of a model without a tokenizer, tokens drawn at random. */
typedef struct {
  int n;
  int32_t *ids;       /* [n] */
  uint8_t *separator; /* [n] */
  int separators;
  bool drawn;
  const char *family;
  attend_parts parts;
  attend_positions position;
  int vocab;
} traced_text;

/* path: a model's folder; text: what is read, cut after `most` tokens or where
 * the model's positions end. */
attend_status traced_text_read(study_run *r, const char *path, const char *text, int most,
                               traced_text *t);

typedef enum { TRACED_TRAINED = 0, TRACED_UNTRAINED } traced_weights;

typedef struct {
  attend_checkpoint *files;
  attend_model *model;
  attend_trace *trace;
  attend_lens *lens;
  attend_role role; /* self-attention: of the encoder, if there is one */
  attend_lens_shape shape;
} traced;

/* Untrained: the same sizes, weights drawn as training begins. form NULL: the
 * model's own. To be closed after failures too. */
attend_status traced_open(study_run *r, const char *path, traced_weights weights,
                          const attend_form *form, const traced_text *text, traced *w);
void traced_close(traced *w);

#endif
