/* attend/train.h - training: gradients through a whole model.
 *
 *   attend_trainer *trainer;
 *   attend_checkpoint_open(ctx, "stories15M", &files);     or _fresh
 *   attend_trainer_create(files, NULL, &trainer);
 *   attend_batch batch = {ATTEND_INIT(attend_batch), .count = 8, .length = 256,
 *                         .ids = ids, .targets = next};
 *   attend_trainer_accumulate(trainer, &batch, &outcome);      adds gradients
 *
 * A trainer holds a model's parameters as f32, each with its gradient, under the
 * names of the checkpoint that they came from. Every family and form of attention
 * can be trained; attend/layers.h and attend_backward have the backward passes.
 *
 * The same bits always: loss and gradients depend on the batch and the values
 * alone, not on the number of threads.
 */
#ifndef ATTEND_TRAIN_H
#define ATTEND_TRAIN_H

#include "attend/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  const attend_form *form; /* of attention; NULL: the configuration's                  */
  unsigned roles;          /* of attend_in: where that form is; 0: everywhere          */
  attend_weights weights;  /* of products: f32, bf16 or mixed (values and sums stay
                              f32)                                            */
  int recompute;           /* keep only each layer's input, recompute the rest in backward */
  float dropout;           /* of embeddings and of what attention and mlp add           */
  uint64_t seed;           /* of dropout                                                */
} attend_trainer_options;

typedef struct attend_trainer attend_trainer;

/* The checkpoint must have a head, and stay open. options may be NULL. */
ATTEND_API attend_status attend_trainer_create(attend_checkpoint *checkpoint,
                                               const attend_trainer_options *options,
                                               attend_trainer **trainer);
ATTEND_API void attend_trainer_free(attend_trainer *trainer);
ATTEND_API const attend_config *attend_trainer_config(const attend_trainer *trainer);

/* ---- parameters ------------------------------------------------------------------ */

typedef enum {
  ATTEND_MATRICES = 0, /* what multiplies                                     */
  ATTEND_TABLES,       /* what is looked up in: tokens, positions, types      */
  ATTEND_VECTORS,      /* biases and norms                                    */
  ATTEND_GROUPS
} attend_group;

typedef struct {
  const char *name; /* as the checkpoint has it                               */
  int rank;
  int64_t shape[2]; /* [outputs, inputs], or [n]; not transposed                  */
  int64_t count;
  int transposed; /* the checkpoint stores it [inputs, outputs]                  */
  attend_group group;
  int fixed; /* part of the model, but not trained */
  float *value, *gradient;
} attend_trainer_parameter;

/* Parameter i; 0 past the last. Values may be written; attend_trainer_refresh
 * then takes them up. */
ATTEND_API int attend_trainer_get(const attend_trainer *trainer, size_t i,
                                  attend_trainer_parameter *parameter);
/* All values, all gradients, each as one array. */
ATTEND_API float *attend_trainer_values(const attend_trainer *trainer, size_t *count);
ATTEND_API float *attend_trainer_gradients(const attend_trainer *trainer);
ATTEND_API attend_status attend_trainer_refresh(attend_trainer *trainer);

/* The values become the mean of those in n folders of models of the same shape,
 * summed in double: the last checkpoints of a training run, say, whose mean is often
 * better than each of them (Izmailov et al. 2018). On failure they stay. */
ATTEND_API attend_status attend_trainer_average(attend_trainer *trainer, int n,
                                                const char *const *folders);

/* The values as model.safetensors, under the checkpoint's names and transposed where
 * it stores them so: beside a config.json any reader of that family opens it. stored: ATTEND_STORED_F32 or _BF16. */
ATTEND_API attend_status attend_trainer_save(attend_trainer *trainer, const char *path,
                                             attend_stored stored);

/* ---- batches ------------------------------------------------------------------------ */

typedef struct {
  size_t size;
  int count, length;              /* texts, and tokens of each                        */
  const int32_t *ids;             /* [count][length]: the encoder's, or the decoder's
                             of a model without one                           */
  const int32_t *lengths;         /* [count] of them real, or NULL: all               */
  const int32_t *types;           /* [count][length] or NULL: 0                       */
  int decoder_length;             /* encoder-decoders: tokens that the decoder reads */
  const int32_t *decoder_ids;     /* [count][decoder_length] */
  const int32_t *decoder_lengths; /* [count] or NULL */
  /* The token that each position of the side with the head should predict; negative:
   * not scored. [count][length], or [count][decoder_length]. */
  const int32_t *targets;
  float smoothing; /* of targets: this share is spread over all tokens        */
  float scale;     /* gradients are of scale times the sum of losses; 0: of
                      their mean                                              */
  uint64_t step;   /* another one draws another dropout                       */
  int no_grad;     /* the loss alone: no gradients, no dropout                */
} attend_batch;

typedef struct {
  double loss; /* sum over the positions that are scored */
  int scored;
} attend_batch_loss;

/* Hooks of the forward pass, as attend_session_set_hooks; where layers are recomputed,
 * edits are made again. */
ATTEND_API attend_status attend_trainer_set_hooks(attend_trainer *trainer, int n,
                                                  const attend_hook *hooks);
/* Adds the gradients of a batch to those that are there. */
ATTEND_API attend_status attend_trainer_accumulate(attend_trainer *trainer,
                                                   const attend_batch *batch,
                                                   attend_batch_loss *outcome);
ATTEND_API void attend_trainer_zero_grad(attend_trainer *trainer); /* gradients 0 */
/* Bytes of values, gradients and packed weights; of activations and workspaces of
 * attention, at their most so far. */
ATTEND_API size_t attend_trainer_bytes(const attend_trainer *trainer);
ATTEND_API size_t attend_trainer_work_bytes(const attend_trainer *trainer);

/* ---- steps ---------------------------------------------------------------------------- */

typedef enum { ATTEND_ADAMW = 0, ATTEND_SGD } attend_optimizer_kind;

typedef struct {
  size_t size;
  attend_optimizer_kind kind;
  float beta1, beta2, eps;    /* AdamW                                           */
  float momentum;             /* SGD                                             */
  float decay[ATTEND_GROUPS]; /* by group */
  float clip;                 /* largest norm of all gradients together; 0: any */
} attend_optimizer_options;

/* AdamW, 0.9, 0.999, 1e-8, decay 0.01 of matrices and tables, clip 1. */
ATTEND_API attend_optimizer_options attend_optimizer_defaults(void);

typedef struct attend_optimizer attend_optimizer;

ATTEND_API attend_status attend_optimizer_create(attend_trainer *trainer,
                                                 const attend_optimizer_options *options,
                                                 attend_optimizer **optimizer);
ATTEND_API void attend_optimizer_free(attend_optimizer *optimizer);
/* Updates the values; gradients stay as they are. norm may be NULL, or receives the
 * gradient's norm before clipping. A non-finite gradient is a failure and changes
 * nothing. */
ATTEND_API attend_status attend_optimizer_step(attend_optimizer *optimizer, float rate,
                                               double *norm);
/* The optimizer's state, to be saved and restored: the steps so far, and moments 0
 * and, of AdamW, 1, [count] each. */
ATTEND_API uint64_t attend_optimizer_steps(const attend_optimizer *optimizer);
ATTEND_API void attend_optimizer_set_steps(attend_optimizer *optimizer, uint64_t steps);
ATTEND_API float *attend_optimizer_moments(const attend_optimizer *optimizer, int which);

typedef enum {
  ATTEND_CONSTANT_RATE = 0,
  ATTEND_LINEAR_RATE,
  ATTEND_COSINE_RATE
} attend_schedule_kind;

typedef struct {
  attend_schedule_kind kind;
  double rate, least; /* after the warm-up; in the end */
  uint64_t warmup, steps;
} attend_schedule;

ATTEND_API double attend_schedule_at(const attend_schedule *schedule, uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
