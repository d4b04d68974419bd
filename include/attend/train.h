/* attend/train.h - learning: gradients through a whole model.
 *
 *   attend_trainer *learner;
 *   attend_checkpoint_open(ctx, "stories15M", &files);     or _fresh
 *   attend_trainer_create(files, NULL, &learner);
 *   attend_batch lesson = {.batch = 8, .length = 256, .ids = ids,
 *                           .targets = next};
 *   attend_trainer_accumulate(learner, &lesson, &outcome);      adds gradients
 *
 * A learner holds a model's parameters as f32, each with its gradient, under the
 * names of the checkpoint that they came from. Every family and form of attention
 * can be learnt; what is computed backward stands beside what is computed forward
 * (attend/layers.h, attend_backward).
 *
 * The same bits always: loss and gradients depend on the lesson and the values
 * alone, not on the number of threads.
 */
#ifndef ATTEND_TRAIN_H
#define ATTEND_TRAIN_H

#include "attend/model.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  const attend_form
      *form;      /* of attention; NULL: the configuration's                  */
  unsigned roles; /* of attend_in: where that form is; 0: everywhere          */
  attend_weights
      weights;   /* of products: f32, bf16 or mixed (values and sums stay
                              f32)                                            */
  int recompute; /* keep each layer's input alone and compute the rest again */
  float dropout; /* of embeddings and of what attention and mlp add           */
  uint64_t seed; /* of dropout                                                */
} attend_trainer_options;

typedef struct attend_trainer attend_trainer;

/* The checkpoint must have a head, and stay open. options may be NULL. */
ATTEND_API attend_status attend_trainer_create(
    attend_checkpoint *checkpoint, const attend_trainer_options *options,
    attend_trainer **learner);
ATTEND_API void attend_trainer_free(attend_trainer *learner);
ATTEND_API const attend_config *attend_trainer_config(
    const attend_trainer *learner);

/* ---- what is learnt -------------------------------------------------------------- */

typedef enum {
  ATTEND_MATRICES = 0, /* what multiplies                                     */
  ATTEND_TABLES,       /* what is looked up in: tokens, positions, types      */
  ATTEND_VECTORS,      /* biases and norms                                    */
  ATTEND_GROUPS
} attend_group;

typedef struct {
  const char *name; /* as the checkpoint has it                               */
  int rank;
  int64_t
      shape[2]; /* [outputs, inputs], or [n]; not transposed                  */
  int64_t count;
  int transposed; /* the checkpoint stores it [inputs, outputs]                  */
  attend_group group;
  int fixed; /* part of the model, but not learnt */
  float *value, *gradient;
} attend_trainer_parameter;

/* Parameter i; 0 past the last. Values may be written; attend_trainer_refresh
 * then takes them up. */
ATTEND_API int attend_trainer_get(const attend_trainer *learner, size_t i,
                                  attend_trainer_parameter *learnt);
/* All values, all gradients, as one stretch of memory each. */
ATTEND_API float *attend_trainer_values(const attend_trainer *learner,
                                        size_t *count);
ATTEND_API float *attend_trainer_gradients(const attend_trainer *learner);
ATTEND_API attend_status attend_trainer_refresh(attend_trainer *learner);

/* The values become the mean of those in n folders of models of the same shape,
 * summed in double: the last saved steps of a course, say, which together are
 * often better than each. On failure they stay. */
ATTEND_API attend_status attend_trainer_average(attend_trainer *learner, int n,
                                                const char *const *folders);

/* The values as a checkpoint has them, under its names and transposed as it turns
 * them: model.safetensors of a folder beside whose config.json any reader of that
 * family can open it. stored: ATTEND_STORED_F32 or _BF16. */
ATTEND_API attend_status attend_trainer_save(attend_trainer *learner,
                                             const char *path,
                                             attend_stored stored);

/* ---- lessons ------------------------------------------------------------------------ */

typedef struct {
  int batch, length;
  const int32_t *ids;     /* [batch][length]: the encoder's, or the decoder's
                             of a model without one                           */
  const int32_t *lengths; /* [batch] of them real, or NULL: all               */
  const int32_t *types;   /* [batch][length] or NULL: 0                       */
  int said; /* encoder-decoders: tokens that the decoder is given */
  const int32_t *decoder_ids; /* [batch][said]                               */
  const int32_t
      *decoder_lengths; /* [batch] or NULL                             */
  /* What each place of the side with the head should have given; negative: not
   * scored. [batch][length], or [batch][said]. */
  const int32_t *targets;
  float smoothing; /* of targets: this share is spread over all tokens        */
  float scale;     /* gradients are of scale times the sum of losses; 0: of
                      their mean                                              */
  uint64_t step;   /* another one draws another dropout                       */
  int quiet;       /* the loss alone: no gradients, no dropout                */
} attend_batch;

typedef struct {
  double loss; /* sum over the places that are scored */
  int scored;
} attend_batch_loss;

/* Hooks of the forward pass, as attend_session_set_hooks; where layers are computed
 * again, edits are made again. */
ATTEND_API attend_status attend_trainer_set_hooks(attend_trainer *learner,
                                                  int n,
                                                  const attend_hook *hooks);
/* Adds the gradients of a lesson to those that are there. */
ATTEND_API attend_status attend_trainer_accumulate(attend_trainer *learner,
                                                   const attend_batch *lesson,
                                                   attend_batch_loss *outcome);
ATTEND_API void attend_trainer_zero_grad(
    attend_trainer *learner); /* gradients 0 */
/* Bytes of values, gradients and packed weights; of activations and workspaces of
 * attention, at their most so far. */
ATTEND_API size_t attend_trainer_bytes(const attend_trainer *learner);
ATTEND_API size_t attend_trainer_work_bytes(const attend_trainer *learner);

/* ---- steps ---------------------------------------------------------------------------- */

typedef enum { ATTEND_ADAMW = 0, ATTEND_SGD } attend_optimizer_kind;

typedef struct {
  attend_optimizer_kind kind;
  float beta1, beta2, eps; /* AdamW                                           */
  float momentum;          /* SGD                                             */
  float decay[ATTEND_GROUPS]; /* by group */
  float clip; /* longest gradient, all parameters together; 0: any */
} attend_optimizer_options;

/* AdamW, 0.9, 0.999, 1e-8, decay 0.01 of matrices and tables, clip 1. */
ATTEND_API attend_optimizer_options attend_optimizer_defaults(void);

typedef struct attend_optimizer attend_optimizer;

ATTEND_API attend_status attend_optimizer_create(
    attend_trainer *learner, const attend_optimizer_options *options,
    attend_optimizer **optimizer);
ATTEND_API void attend_optimizer_free(attend_optimizer *optimizer);
/* Moves the values along their gradients, which stay as they are. norm may be
 * NULL, or takes the gradient's length before it was clipped. A gradient that is
 * not finite moves nothing. */
ATTEND_API attend_status attend_optimizer_step(attend_optimizer *optimizer,
                                               float rate, double *norm);
/* What goes on after a pause needs: the steps so far, and [count] moments 0 and,
 * of AdamW, 1; to be read and written. */
ATTEND_API uint64_t attend_optimizer_steps(const attend_optimizer *optimizer);
ATTEND_API void attend_optimizer_set_steps(attend_optimizer *optimizer,
                                           uint64_t steps);
ATTEND_API float *attend_optimizer_moments(const attend_optimizer *optimizer,
                                           int which);

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

ATTEND_API double attend_schedule_at(const attend_schedule *schedule,
                                     uint64_t step);

#ifdef __cplusplus
}
#endif
#endif
