/* A learner at work: a model whose weights have gradients, and what forward leaves.
 *
 * learner.c owns the parameters, learn_memory.c the activations; learn_study.c takes a
 * lesson through the layers of model/ and back.
 */
#ifndef TRAIN_LEARNER_H
#define TRAIN_LEARNER_H

#include "attend/observe.h"
#include "attend/train.h"
#include "model/transformer.h"

/* One side in a lesson. */
typedef struct {
  pass p;
  activations
      *layers; /* [layers]; all but x are one if they are computed again */
  int32_t *ids, *types; /* [rows] of the device */
  bool typed;           /* the lesson has types */
  int32_t *real;        /* [batch] of the host */
  float *embedded;      /* [rows][..] before the embeddings' norm */
  float *last;          /* [rows][ldx] before the final norm */
  float *hidden;        /* [rows][ldx] what the side gives */
  float *d_hidden;      /* and its gradient */
} learn_side;

/* Places that the head looks at together. */
enum { HEAD_ROWS_AT_ONCE = 256 };

/* A head that copies, and its work; P: whole lanes. */
typedef struct {
  float *keys, *d_keys;       /* [encoder rows][P] */
  float *queries, *d_queries; /* [HEAD][P] */
  float *gates;               /* [HEAD][16], then their gradients */
  float *weights;             /* [HEAD][encoder length], then the scores' */
} learn_copy;

typedef struct {
  const parameter *p; /* of the checkpoint's table; NULL: a gap */
  size_t at, count;   /* in values and gradients */
} learn_entry;

struct attend_trainer {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_trainer_options options;
  attend_model model;
  learn_entry *entries,
      *gaps; /* gaps: biases that a product has and a model not */
  size_t n_entries, n_gaps;
  mirror values, gradients;
  size_t count, packed_bytes;
  learn_side encoder, decoder;
  hooks hooks;
  /* of the current lesson */
  const attend_batch *lesson;
  int batch, room_batch, room_length[2]; /* that memory was taken for */
  int32_t *real;                         /* [2][batch] */
  void *block;        /* of the device: activations and work */
  size_t block_bytes; /* at their most, and so of the plans' workspaces */
  size_t plan_bytes;
  float *h, *act; /* [rows][..]: what a branch reads; past the activation */
  back_work back;
  int32_t *head_row, *head_target; /* [HEAD] */
  float *head_rows;                /* [HEAD][..] x, y, dx, dy */
  float *logits;                   /* [HEAD][padded V] */
  float *capped;                   /* the same, kept where they have a cap */
  float *losses;                   /* [HEAD] */
  learn_copy copy;
};

attend_group group_of(const parameter *p);
/* attend_trainer_save, and the digest of the file; may be NULL. */
attend_status learner_save(attend_trainer *l, const char *path,
                           attend_stored stored, attend_digest *digest);

/* ---- learn_memory.c ------------------------------------------------------------- */
attend_status lesson_room(attend_trainer *l);
void lesson_free(attend_trainer *l);

#endif
