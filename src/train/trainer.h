/* A trainer: a model whose weights have gradients, and the activations of a batch.
 *
 * trainer.c owns the parameters, activations.c the activations; accumulate.c runs the
 * layers of model/ forward and backward.
 */
#ifndef TRAIN_TRAINER_H
#define TRAIN_TRAINER_H

#include "attend/attention.h"
#include "attend/train.h"
#include "model/transformer.h"

/* One side of the model, with a batch. */
typedef struct {
  pass p;
  activations *layers;  /* [layers]; all but x are shared if they are recomputed */
  int32_t *ids, *types; /* [rows] of the device */
  bool typed;           /* the batch has types */
  int32_t *real;        /* [count] of the host */
  float *embedded;      /* [rows][..] before the embeddings' norm */
  float *last;          /* [rows][ldx] before the final norm */
  float *hidden;        /* [rows][ldx] the output */
  float *d_hidden;      /* and its gradient */
} trainer_side;

/* Buffers of a head that copies; P: padded width. */
typedef struct {
  float *keys, *d_keys;       /* [encoder rows][P] */
  float *queries, *d_queries; /* [head rows][P] */
  float *gates;               /* [head rows][16], then their gradients */
  float *weights;             /* [head rows][encoder length], then the scores' */
} trainer_copy;

/* The scored positions of a batch, in order. */
typedef struct {
  int count;
  int32_t *row, *target, *text; /* [rows] of the host; text: that each may copy from */
  float *loss;                  /* [rows] of the host */
  int32_t *device_row, *device_target;
  float *device_loss;
} scored_rows;

typedef struct {
  const parameter *p; /* of the checkpoint's table; NULL: a gap */
  size_t at, count;   /* in values and gradients */
} trainer_entry;

struct attend_trainer {
  attend_context *ctx;
  attend_checkpoint *files;
  attend_trainer_options options;
  attend_model model;
  trainer_entry *entries, *gaps; /* gaps: biases that a product has and the model lacks */
  size_t n_entries, n_gaps;
  mirror values, gradients;
  size_t count, packed_bytes;
  trainer_side encoder, decoder;
  hooks hooks;
  /* of the current batch */
  const attend_batch *batch;
  int fit_count, fit_length[2]; /* the shape that the buffers are cut for */
  int32_t *real;                /* [2][count], then what scored has of the host */
  void *block;                  /* of the device: activations and workspaces */
  size_t block_bytes;           /* the most so far; plan_bytes likewise */
  size_t plan_bytes;
  void *h, *act; /* [rows][..]: a branch's input; the activation's output */
  back_work backward;
  scored_rows scored;
  int chunk;       /* head rows: scored positions whose logits are computed at once */
  void *head_rows; /* [5][chunk][..] the head's activations, and a gradient */
  matrix logits;   /* [chunk][padded V] */
  void *capped;    /* the same before a soft cap */
  trainer_copy copy;
};

attend_group group_of(const parameter *p);
/* attend_trainer_save, and the digest of the file; may be NULL. */
attend_status trainer_save(attend_trainer *tr, const char *path, attend_stored stored,
                           attend_digest *digest);

/* ---- activations.c ------------------------------------------------------------- */
attend_status activations_fit(attend_trainer *tr);
void activations_free(attend_trainer *tr);

#endif
