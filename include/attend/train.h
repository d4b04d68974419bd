/* attend/train.h - training: gradients through a model, data, steps, checkpoints, runs.
 *
 *   attend_trainer *trainer;
 *   attend_checkpoint_open(ctx, "stories15M", &files);
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

#include "attend/hooks.h"
#include "attend/json.h"
#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  const attend_form *form; /* of attention; NULL: the configuration's */
  unsigned roles;          /* of attend_in: where that form is; 0: everywhere */
  /* of products: f32, bf16 or mixed (values and sums stay f32) */
  attend_weights weights;
  bool recompute; /* keep only each layer's input, recompute the rest in backward */
  float dropout;  /* of embeddings and of what attention and mlp add */
  uint64_t seed;  /* of dropout */
  /* ATTEND_BF16: activations and their gradients take half the memory. The residual stream and its
   * gradient, parameters and theirs, and sums stay f32. */
  attend_dtype activations;
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
  ATTEND_MATRICES = 0, /* what multiplies */
  ATTEND_TABLES,       /* what is looked up in: tokens, positions, types */
  ATTEND_VECTORS,      /* biases and norms */
  ATTEND_GROUPS
} attend_group;

typedef struct {
  const char *name; /* as the checkpoint has it */
  int rank;
  int64_t shape[2]; /* [outputs, inputs], or [n]; not transposed */
  int64_t count;
  bool transposed; /* the checkpoint stores it [inputs, outputs] */
  attend_group group;
  bool fixed; /* part of the model, but not trained */
  float *value, *gradient;
} attend_trainer_parameter;

/* Parameter i; 0 past the last. Values may be written; attend_trainer_refresh
 * then takes them up. */
ATTEND_API bool attend_trainer_get(const attend_trainer *trainer, size_t i,
                                   attend_trainer_parameter *parameter);
typedef struct { /* NaN: the model has no such matrix, or does not train it */
  double q, k, v, o;
} attend_head_gradient;
/* Frobenius norms of the gradients that are there, of one head's slices of the projections: its
 * rows of W_q, W_k and W_v, its columns of W_o. Heads that share keys and values share those
 * rows. ATTEND_INVALID: the model has no such head. */
ATTEND_API attend_status attend_trainer_head_gradient(const attend_trainer *trainer,
                                                      attend_role role, int layer, int head,
                                                      attend_head_gradient *gradient);
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
  int count, length; /* texts, and tokens of each */
  /* [count][length]: the encoder's, or the decoder's of a model without one */
  const int32_t *ids;
  const int32_t *lengths;         /* [count] of them real, or NULL: all */
  const int32_t *types;           /* [count][length] or NULL: 0 */
  int decoder_length;             /* encoder-decoders: tokens that the decoder reads */
  const int32_t *decoder_ids;     /* [count][decoder_length] */
  const int32_t *decoder_lengths; /* [count] or NULL */
  /* The token that each position of the side with the head should predict; negative:
   * not scored. [count][length], or [count][decoder_length]. */
  const int32_t *targets;
  float smoothing; /* of targets: this share is spread over all tokens */
  /* gradients are of scale times the sum of losses; 0: of their mean */
  float scale;
  uint64_t step; /* another one draws another dropout */
  bool no_grad;  /* the loss alone: no gradients, no dropout */
  /* gradients along the residual stream alone: what attention and mlps read, and the scales of
   * norms, count as constants (attend/attribute.h). Gradients of parameters mean nothing then */
  bool direct;
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

/* ---- optimizers, schedules ---------------------------------------------------------------------------- */

typedef enum { ATTEND_ADAMW = 0, ATTEND_SGD } attend_optimizer_kind;

typedef struct { /* zero means default; the number 0: ATTEND_ZERO */
  size_t size;
  attend_optimizer_kind kind;
  float beta1, beta2, eps;    /* AdamW: 0.9, 0.999, 1e-8 */
  float momentum;             /* SGD: 0 */
  float decay[ATTEND_GROUPS]; /* by group: 0.01 of matrices and tables, 0 of vectors */
  float clip;                 /* largest norm of all gradients together: 1; INFINITY: any */
} attend_optimizer_options;

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
  double rate, min; /* after the warm-up; in the end */
  uint64_t warmup, steps;
} attend_schedule;

ATTEND_API double attend_schedule_at(const attend_schedule *schedule, uint64_t step);

/* ---- training data: texts as ids, cut into batches ------------------------------- */

/*   attend_corpus *texts;
 *   attend_batches *batches;
 *   attend_corpus_create(ctx, &texts);
 *   attend_corpus_read(texts, "train.txt", &how);
 *   attend_batches_create(texts, &cut, &batches);
 *   attend_batches_get(batches, 7, &batch);        the eighth
 *
 * A batch depends on the corpus, the options and its number alone: there is no state
 * to save or restore. Every document is used once in an epoch; each epoch has another
 * order. */

typedef struct attend_corpus attend_corpus;

ATTEND_API attend_status attend_corpus_create(attend_context *ctx, attend_corpus **corpus);
ATTEND_API void attend_corpus_free(attend_corpus *corpus);

/* One document: ids [n], and of a pair answer [n_answer]. All documents of a
 * corpus are pairs, or none is. */
ATTEND_API attend_status attend_corpus_add(attend_corpus *corpus, size_t n, const int32_t *ids,
                                           size_t n_answer, const int32_t *answer);

typedef enum {
  ATTEND_LEARN_CAUSAL = 0, /* predict the next token */
  ATTEND_LEARN_MASKED,     /* predict masked tokens */
  ATTEND_LEARN_PAIRS       /* predict the second text from the first */
} attend_task;

typedef struct { /* zero means default */
  size_t size;
  const attend_tokenizer *tokenizer;
  attend_task task;
  attend_parts parts; /* of the model: for a decoder, pairs are one text */
  /* appended to documents, and to the answer of a pair where the tokenizer appends none;
   * negative: none */
  int end;
  /* of JSONL: the text; NULL: "text", or of pairs "document" or "source" */
  const char *field;
  const char *answer_field;            /* of pairs; NULL: "summary" or "target" */
  size_t source_length, target_length; /* of pairs: ids at most; 0: any */
  attend_progress progress;            /* share of the file */
  void *user;
} attend_corpus_options;

/* Adds a file. *.jsonl: an object a line. *.tsv: a pair a line, with a tab between;
 * further columns are passed over. Other files are text: one document, or several
 * with a line between them that is nothing but the end-of-text token, as the
 * tokenizer writes it or <|endoftext|>. Pairs come from .jsonl and .tsv alone. A
 * line that is wrong is refused with its number, and nothing of the file is added.
 * The file is read whole first; one that is shortened meanwhile is ATTEND_IO. */
ATTEND_API attend_status attend_corpus_read(attend_corpus *corpus, const char *path,
                                            const attend_corpus_options *options);

ATTEND_API size_t attend_corpus_documents(const attend_corpus *corpus);
ATTEND_API size_t attend_corpus_tokens(const attend_corpus *corpus);
/* Bytes of text that was read, and ids that were cut off by a length. */
ATTEND_API size_t attend_corpus_bytes(const attend_corpus *corpus);
ATTEND_API size_t attend_corpus_dropped(const attend_corpus *corpus);
/* Digest of the documents in their order. */
ATTEND_API uint64_t attend_corpus_digest(const attend_corpus *corpus);

/* Moves about a share of a corpus to another: pairs or documents that a seed
 * chooses, or where there are fewer than 20 documents, the end of the last one,
 * half of it at most. */
ATTEND_API attend_status attend_corpus_split(attend_corpus *corpus, double share, uint64_t seed,
                                             attend_corpus **held);

typedef struct { /* zero means default */
  size_t size;
  attend_task task;
  attend_parts parts; /* of the model: pairs are one sequence for a decoder */
  int batch;          /* sequences in a batch; 0: 8 */
  int length;         /* tokens of a sequence; of pairs, those at most; 0: 256 */
  bool in_order;      /* one pass, in the corpus' order, for validation */
  uint64_t seed;
  /* of decoders beside an encoder: the first token; must not be negative */
  int start;
  int pad;            /* negative: 0 */
  int mask, cls, sep; /* masked: ids; cls and sep negative: none */
  int vocab;          /* masked: of ids that are drawn */
  float mask_share;   /* 0: 0.15. Of these 0.8 are masked, 0.1 drawn */
} attend_batch_options;

typedef struct attend_batches attend_batches;

/* The corpus must stay, and stay as it is. */
ATTEND_API attend_status attend_batches_create(const attend_corpus *corpus,
                                               const attend_batch_options *options,
                                               attend_batches **batches);
ATTEND_API void attend_batches_free(attend_batches *batches);
/* Batches of an epoch, rounded up. */
ATTEND_API uint64_t attend_batches_epoch(const attend_batches *batches);
/* Fills ids, lengths and targets, valid until the next call; the other fields are
 * left as they are. Past an epoch in order: a count of 0. */
ATTEND_API attend_status attend_batches_get(attend_batches *batches, uint64_t number,
                                            attend_batch *batch);
/* Positions of a batch that are scored; tokens without padding, of both sides. */
ATTEND_API int attend_batch_scored(const attend_batch *batch);
ATTEND_API int64_t attend_batch_tokens(const attend_batch *batch);

/* ---- training steps and their checkpoints ---------------------------------------- */

/*   attend_training *training;
 *   attend_training_create(trainer, optimizer, batches, &how, &training);
 *   while (attend_training_steps(training) < how.schedule.steps) {
 *     attend_training_step(training, &report);
 *     if (attend_training_steps(training) % 500 == 0)
 *       attend_training_save(training, "run/step-00000500", &keep);
 *   }
 *
 * A checkpoint is a folder that other libraries open as a model of its family; beside
 * the weights it holds the optimizer's state. A step depends on the values, the moments
 * and its number alone, so a training run resumes bit-identically at any number of
 * threads. attend_fit is the whole loop. */

typedef struct { /* zero means default */
  size_t size;
  attend_schedule schedule;
  /* batches of a step; 0: 1. Their mean is over all positions that they score, as of one large
   * batch */
  int accumulate;
  float smoothing; /* of targets */
} attend_training_options;

typedef struct {
  double loss;    /* sum over the positions that were scored */
  int64_t scored; /* of them */
  int64_t tokens; /* that went through the model */
  double rate;    /* that the step was taken with */
  double norm;    /* of the gradient, before it was clipped */
} attend_step_report;

typedef struct attend_training attend_training;

/* All three must stay. */
ATTEND_API attend_status attend_training_create(attend_trainer *trainer,
                                                attend_optimizer *optimizer,
                                                attend_batches *batches,
                                                const attend_training_options *options,
                                                attend_training **training);
ATTEND_API void attend_training_free(attend_training *training);

/* One step of the optimizer. A non-finite gradient is a failure, and leaves the
 * values as they were. */
ATTEND_API attend_status attend_training_step(attend_training *training,
                                              attend_step_report *report);
ATTEND_API uint64_t attend_training_steps(const attend_training *training);

/* The loss over batches in order, `most` of them at most (0: all), without gradients.
 * progress: after every batch; may be NULL. */
ATTEND_API attend_status attend_training_evaluate(attend_trainer *trainer, attend_batches *batches,
                                                  uint64_t max, attend_progress progress,
                                                  void *user, attend_batch_loss *outcome);

typedef struct { /* zero means default */
  size_t size;
  /* a folder whose files go with the weights: config.json, the tokenizer's */
  const char *beside;
  /* of the weights: F32 or BF16, or 0: F32. Training always resumes from f32 */
  attend_stored stored;
  /* gives further members of training.json, the text of a JSON object that stays valid
   * until the save returns; *json is NULL beforehand and may stay so */
  attend_status (*notes)(void *user, const char **json);
  void *user;
} attend_save_options;

/* Makes the folder: model.safetensors, training.safetensors (moments),
 * training.json, the files beside, and digests.json, the digests of all of them.
 * Everything is written under another name, synced and renamed: a process killed at
 * any point leaves a complete folder or none, and an earlier one of that name stays
 * until then. */
ATTEND_API attend_status attend_training_save(attend_training *training, const char *folder,
                                              const attend_save_options *keep);
/* ATTEND_IO, and the name of the file, unless every file of a checkpoint has the
 * digest that was saved. training.json and training.safetensors may both have been
 * removed: then only the model is verified. */
ATTEND_API attend_status attend_training_verify(attend_context *ctx, const char *folder);
/* The same for the files in `beside`, which the next checkpoint will include: they
 * must be those of this one. */
ATTEND_API attend_status attend_training_verify_beside(attend_context *ctx, const char *folder,
                                                       const char *beside);
/* Resumes from a checkpoint, which is verified; the trainer was made from it. The
 * batches must be those of its training run. *notes is training.json, to be freed; may
 * be NULL. A folder that does not fit is refused, and changes nothing. */
ATTEND_API attend_status attend_training_resume(attend_training *training, const char *folder,
                                                attend_json **notes);

/* ---- the base ------------------------------------------------------------------------
 *
 * A folder with config.json and the tokenizer's files, which every checkpoint includes. */

typedef struct { /* zero means default */
  size_t size;
  /* a folder, whose config.json and tokenizer are copied; NULL: a new model */
  const char *model;
  const char *tokenizer; /* a folder, or one of its files; NULL: the model's */
  /* of a new model, whose vocabulary and special tokens are the tokenizer's; positions 0: 256.
   * attention and roles: also of a model that is trained further with another form */
  const attend_architecture *made;
} attend_base_options;

/* Makes the folder, or replaces it, as a whole. */
ATTEND_API attend_status attend_base_create(attend_context *ctx, const char *folder,
                                            const attend_base_options *options);

/* ---- a whole training run -------------------------------------------------------- */

/*   attend_fit_options how = {ATTEND_INIT(attend_fit_options)};
 *   how.schedule = (attend_schedule){ATTEND_COSINE_RATE, 1e-3, 1e-4, 100, 5000};
 *   how.valid = valid;
 *   attend_fit_model(ctx, "run", "stories15M", NULL, NULL, batches, &how, &result);
 *
 * or, with a trainer and an optimizer of your own,
 *
 *   attend_fit_open(ctx, "run", ATTEND_FIT_RESUME, 0, &fit);
 *   const char *from = attend_fit_checkpoint(fit);
 *   attend_checkpoint_open(ctx, from ? from : "stories15M", &files);
 *   .. attend_trainer_create, attend_optimizer_create ..
 *   attend_fit_begin(fit, trainer, optimizer, batches, &how);
 *   attend_fit_run(fit, &result);
 *   attend_fit_free(fit);
 *
 * The folder gets checkpoints step-00000500, .., links best and last,
 * log.jsonl and, where it is wanted, average/; attend_training_run reads it. A process
 * that is killed at any point loses the steps since the last checkpoint and nothing else:
 * the run resumes bit-identically. */

typedef struct attend_fit attend_fit;

typedef enum {
  ATTEND_FIT_NEW = 0, /* a folder with checkpoints is refused */
  ATTEND_FIT_RESUME,  /* from the last checkpoint; begins where there is none */
  ATTEND_FIT_STEP,    /* as RESUME, from a given step; later ones are removed */
  /* as RESUME, from the last undamaged checkpoint; later ones are removed */
  ATTEND_FIT_LAST_GOOD
} attend_fit_start;

/* Makes the folder and locks it: a second process is refused. step is for
 * ATTEND_FIT_STEP alone. The checkpoint to resume from is verified. */
ATTEND_API attend_status attend_fit_open(attend_context *ctx, const char *folder,
                                         attend_fit_start start, uint64_t step, attend_fit **fit);
/* Releases the lock. Accepts NULL. */
ATTEND_API void attend_fit_free(attend_fit *fit);
/* The folder of the checkpoint that the run resumes from, which the trainer must be
 * made from; NULL: the run begins. */
ATTEND_API const char *attend_fit_checkpoint(const attend_fit *fit);

typedef enum {
  ATTEND_FIT_STEPPED = 0, /* a step was taken: loss (of it), rate, speed, left */
  ATTEND_FIT_LOGGED,      /* log.jsonl has a new line: loss, since the last line */
  ATTEND_FIT_VALIDATING,  /* a batch was evaluated: done */
  ATTEND_FIT_VALIDATED,   /* valid, best */
  /* a checkpoint is about to be saved: loss of the last line of the log, valid of this step;
   * NaN: none */
  ATTEND_FIT_SAVING
} attend_fit_event;

typedef struct {
  attend_fit_event event;
  uint64_t step, steps; /* taken, and in all */
  double loss, valid;   /* mean of a token, in nats */
  double rate;
  double speed, left; /* tokens a second, seconds left, from this process */
  double done;        /* share of the batches that validation evaluates */
  bool best;          /* the validation loss is the best so far */
} attend_fit_report;

typedef struct { /* zero means default */
  size_t size;
  attend_schedule schedule; /* steps: in all */
  int accumulate;           /* as in attend_training_options */
  float smoothing;
  /* files that go with every checkpoint: config.json, the tokenizer's; NULL: FOLDER/base */
  const char *base;
  attend_batches *valid;  /* in_order; NULL: no validation */
  uint64_t valid_batches; /* to evaluate, at most; 0: all */
  /* steps; 0: a tenth of all, as save_every, a hundredth of all */
  uint64_t save_every, valid_every, log_every;
  uint64_t keep; /* checkpoints to keep beside the first, best and last; 0: all */
  int patience;  /* stops after so many validations without improvement; 0: never */
  /* at the end, FOLDER/average: the mean of the last so many checkpoints; 0: none */
  int average;
  attend_stored stored; /* of checkpoints: F32 or BF16; 0: F32 */
  void (*report)(const attend_fit_report *report, void *user);
  /* Called before every step with the share that is done; other than 0 saves a
   * checkpoint and stops with ATTEND_STOPPED. */
  attend_progress progress;
  void *user; /* of both */
} attend_fit_options;
/* Resumes, where the run does, and opens the log. The trainer, optimizer and batches,
 * those of options too, must stay until attend_fit_free. ATTEND_INVALID: they are not
 * those that the run was begun with. */
ATTEND_API attend_status attend_fit_begin(attend_fit *fit, attend_trainer *trainer,
                                          attend_optimizer *optimizer, attend_batches *batches,
                                          const attend_fit_options *options);

typedef struct {
  uint64_t steps;
  double tokens, seconds; /* of the whole run, earlier processes included */
  double loss;            /* of the last line of the log; NaN: none */
  double best;            /* validation loss; NaN: no validation */
  uint64_t best_step;
  int worse;          /* validations since */
  bool stopped_early; /* by patience */
  double bytes;       /* values, gradients, moments, activations at their most */
  int averaged;       /* checkpoints that average/ is the mean of; 0: there is none */
  uint64_t average_first, average_last; /* their steps */
  double average_valid;
} attend_fit_result;

/* Trains to the end. On ATTEND_STOPPED *result is filled too. Non-finite weights or
 * validation losses are a failure, and are not saved. */
ATTEND_API attend_status attend_fit_run(attend_fit *fit, attend_fit_result *result);

/* All of the above: trains MODEL, a folder, in FOLDER, or resumes the run that is there.
 * trainer and optimizer may be NULL: defaults. options.base NULL: MODEL. */
ATTEND_API attend_status attend_fit_model(attend_context *ctx, const char *folder,
                                          const char *model, const attend_trainer_options *trainer,
                                          const attend_optimizer_options *optimizer,
                                          attend_batches *batches,
                                          const attend_fit_options *options,
                                          attend_fit_result *result);

/* ---- reading the folder of a training run ---------------------------------------- */

/*   attend_training_run *run;
 *   attend_training_run_open(ctx, "run", &run);
 *   attend_training_run_folder(run, attend_training_run_best(run), path);
 *   attend_open(ctx, path, &model);
 *   const attend_log_curve *valid = attend_training_run_valid(run);
 *   attend_training_run_free(run);
 *
 * The folder is what attend_fit and `attend train --out` write: checkpoints
 * step-00000500, .., links best and last, and log.jsonl. It may be read while it grows. */

typedef struct attend_training_run attend_training_run;

/* A folder without checkpoints is ATTEND_IO, unless it has a log with losses. */
ATTEND_API attend_status attend_training_run_open(attend_context *ctx, const char *folder,
                                                  attend_training_run **run);
ATTEND_API void attend_training_run_free(attend_training_run *run);
/* Reads the list of checkpoints anew, and the new lines of the log. What the calls
 * below returned is valid until then. */
ATTEND_API attend_status attend_training_run_refresh(attend_training_run *run);

enum { ATTEND_RUN_PATH = 4096 };

ATTEND_API const char *attend_training_run_path(const attend_training_run *run);
/* Their steps, rising: [*count]. */
ATTEND_API const int *attend_training_run_steps(const attend_training_run *run, int *count);
/* The step with the best validation loss; -1: the run has none. */
ATTEND_API int attend_training_run_best(const attend_training_run *run);
/* The newest step, or where the link `last` leads; -1: there is no checkpoint. */
ATTEND_API int attend_training_run_last(const attend_training_run *run);
/* The index of a step in the list, or -1. */
ATTEND_API int attend_training_run_find(const attend_training_run *run, int step);
/* A step from its number in text, or from "best" or "last". */
ATTEND_API attend_status attend_training_run_choose(attend_training_run *run, const char *word,
                                                    int *step);
/* The folder of a step's checkpoint; ATTEND_INVALID: the run has no such step. */
ATTEND_API attend_status attend_training_run_folder(attend_training_run *run, int step,
                                                    char path[ATTEND_RUN_PATH]);

typedef struct {
  double step, loss; /* mean of a token, in nats */
  /* Of lines about training, NaN where the log lacks them: since the run began; of a
   * step; tokens a second; memory. */
  double seconds, step_s, speed, bytes;
} attend_log_point;

typedef struct {
  const attend_log_point *at; /* [count], steps rising */
  size_t count;
} attend_log_curve;

ATTEND_API const attend_log_curve *attend_training_run_loss(const attend_training_run *run);
ATTEND_API const attend_log_curve *attend_training_run_valid(const attend_training_run *run);
/* The validation loss at a step, or else its training loss; NaN: neither is logged. */
ATTEND_API double attend_training_run_loss_at(const attend_training_run *run, int step);

#ifdef __cplusplus
}
#endif
#endif
