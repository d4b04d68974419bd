/* attend/intervene.h - changing what a model computes, and measuring what follows.
 *
 *   attend_change off = {ATTEND_INIT(attend_change), .point = ATTEND_AT_HEAD_OUTPUT,
 *                        .layer = 1, .layers = 1, .head = 2, .heads = 1};
 *   attend_intervention *iv;
 *   attend_intervention_create(model, 1, &off, &iv);
 *   attend_tokens text = {ATTEND_INIT(attend_tokens), .ids = ids, .n = n};
 *   attend_intervene(iv, &text, before, after);      logits [n][V] without and with
 *   attend_intervention_free(iv);
 *
 * A change replaces a tensor at one point of the forward pass (attend/hooks.h): zero or
 * mean ablation, activation patching from another text, steering vectors, attention rows
 * pinned to a pattern. An intervention is a list of changes; it is a set of hooks, so
 * that generation, training and traces can run under it too. attend_sweep applies one
 * change at every layer and head, or layer and token.
 *
 * Everything that is not changed is computed bit-identically to a run without hooks.
 */
#ifndef ATTEND_INTERVENE_H
#define ATTEND_INTERVENE_H

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* What a model reads. */
typedef struct {
  size_t size;
  const int32_t *ids; /* [n] input ids; of decoder-only models the decoder's */
  int n;
  const int32_t *types;       /* [n] segments of an encoder's text, or NULL: 0 */
  const int32_t *decoder_ids; /* [n_decoder] encoder-decoders */
  int n_decoder;
} attend_tokens;

/* Rows of logits that a model computes for a text: n, or n_decoder. */
ATTEND_API int attend_tokens_rows(const attend_model *model, const attend_tokens *input);

typedef struct attend_text_tokens attend_text_tokens;

/* The tokens of a text. ___, [MASK] and <mask> are the model's mask. A second text is the pair of an
 * encoder's, or what an encoder-decoder has written; NULL: an encoder-decoder writes one (greedy),
 * and the last row predicts its last token. Failures leave their message in the model's context. */
ATTEND_API attend_status attend_text_tokens_create(attend_model *model,
                                                   const attend_tokenizer *tokenizer,
                                                   const char *text, const char *second,
                                                   attend_text_tokens **tokens);
/* The same of ids: an encoder-decoder writes where decoder_ids are NULL, and ids that the model does
 * not have are refused. tokenizer NULL: no mask is found. */
ATTEND_API attend_status attend_text_tokens_of_ids(attend_model *model,
                                                   const attend_tokenizer *tokenizer,
                                                   const attend_tokens *ids,
                                                   attend_text_tokens **tokens);
ATTEND_API void attend_text_tokens_free(attend_text_tokens *tokens);
/* Valid as long as `tokens`. */
ATTEND_API const attend_tokens *attend_text_tokens_get(const attend_text_tokens *tokens);
/* Position of the first mask; -1: none. */
ATTEND_API int attend_text_tokens_mask(const attend_text_tokens *tokens);

/* ---- changes ----------------------------------------------------------------------- */

typedef enum {
  ATTEND_CHANGE_ZERO = 0, /* zero ablation */
  ATTEND_CHANGE_MEAN,     /* mean ablation: the mean over all tokens of a corpus */
  ATTEND_CHANGE_PATCH,    /* the values from another text at the same positions: activation
                             patching, resample ablation */
  ATTEND_CHANGE_ADD,      /* plus a vector: steering */
  ATTEND_CHANGE_PIN       /* attention rows: each is a fixed pattern */
} attend_change_kind;

/* Attention rows of ATTEND_CHANGE_PIN. */
typedef enum {
  ATTEND_PIN_UNIFORM = 0, /* the same weight for every visible key */
  ATTEND_PIN_FIRST,       /* the first visible key */
  ATTEND_PIN_PREVIOUS,    /* the key before the query; the first token: itself */
  ATTEND_PIN_SELF         /* the query's own position */
} attend_pin;

typedef struct { /* zero means default */
  size_t size;
  attend_change_kind kind;
  /* RESIDUAL, RESIDUAL_MIDDLE, MLP, QUERY, KEY, VALUE, PATTERN or HEAD_OUTPUT; 0: HEAD_OUTPUT,
   * of PIN: PATTERN */
  attend_point point;
  /* Which attention. 0: the decoder, or the encoder if there is no decoder. The residual stream and
   * mlps of a decoder use ATTEND_IN_DECODER */
  attend_in in;
  /* Ranges: `layers` layers from `layer` on, and so on; 0: up to the last. RESIDUAL: the stream
   * before the layer; the number of layers means after the last, past the final norm.
   * attend_change_parse names the layer that wrote the stream instead: residual:1 is .layer = 2 */
  int layer, layers;
  int head, heads;   /* kv heads at KEY and VALUE; not used by streams and mlps */
  int token, tokens; /* positions; the range ends with the text */
  /* PATCH: the text that values are copied from. MEAN: the texts of the corpus [n_from] */
  const attend_tokens *from;
  int n_from;
  const float *vector; /* ADD: [width of the point], multiplied by `factor` */
  float factor;        /* 0 means 1, ATTEND_ZERO means 0 */
  attend_pin pin;
} attend_change;

/* ---- changes as text ---- */

/* A place: [ROLE:][POINT:]LAYER[.HEAD][:TOKENS]. LAYER, HEAD and TOKENS are a number, a range
 * "2-3" with both ends, or "*", all; ROLE is encoder, decoder or cross.
 *
 *   1.2               the output of head 2 in layer 1
 *   1                 the outputs of all heads of layer 1, as 1.*; *.2 is head 2 of every layer
 *   mlp:3             cross:value:1.0      pattern:0.3:5
 *   residual:1:2-3    the stream after layer 1 at tokens 2 and 3; residual:in is that before layer 0
 *
 * The text names the layer that wrote the stream: residual:1 is .layer = 2.
 *
 * PIN has "=PATTERN" or ":PATTERN" after the place, uniform, first, previous or self: 0.3=first. Sets kind,
 * point, in, ranges and pin of *change, all else to 0. */
ATTEND_API attend_status attend_change_parse(attend_context *ctx, attend_change_kind kind,
                                             const char *text, attend_change *change);
/* Lists of them, each after its kind (ablate, mean, patch, pin), between semicolons:
 * "ablate 1.2,1.3; patch residual:1:2-3; pin 0.3=previous". More than `capacity` changes is
 * ATTEND_INVALID. */
ATTEND_API attend_status attend_changes_parse(attend_context *ctx, const char *text, int capacity,
                                              attend_change *changes, int *n);
/* How many layers and heads (streams and mlps: 1) there are at a change's point, and the width of
 * a row there (PATTERN: 0, the number of keys). NULL: not needed. */
ATTEND_API attend_status attend_change_shape(attend_model *model, const attend_change *change,
                                             int *layers, int *heads, int *width);
/* A vector for ATTEND_CHANGE_ADD at the change's point, layer and head: the mean over the tokens of
 * `plus` minus that over the tokens of `minus` (NULL: minus nothing). vector: [width] */
ATTEND_API attend_status attend_steering_vector(attend_model *model, const attend_change *change,
                                                const attend_tokens *plus,
                                                const attend_tokens *minus, float *vector);

typedef struct attend_intervention attend_intervention;

/* Checks the changes, runs the texts that they take values from, and copies everything. The model
 * must outlive the intervention. A layer, head or token that the model does not have is
 * ATTEND_INVALID, with the range in the message. */
ATTEND_API attend_status attend_intervention_create(attend_model *model, int n,
                                                    const attend_change *changes,
                                                    attend_intervention **intervention);
ATTEND_API void attend_intervention_free(attend_intervention *intervention);
/* [*n] hooks, for attend_session_set_hooks, attend_trainer_set_hooks, attend_generate_options and
 * attend_evaluate_options; valid as long as the intervention. Any number of sessions may use them
 * at once. Positions that a text does not have, or that the text it is patched from does not have,
 * are not changed; attend_intervene refuses them. */
ATTEND_API const attend_hook *attend_intervention_hooks(const attend_intervention *intervention,
                                                        int *n);
/* Logits of all positions without and with the changes, [rows][V] each
 * (attend_tokens_rows); either may be NULL. */
ATTEND_API attend_status attend_intervene(const attend_intervention *intervention,
                                          const attend_tokens *input, float *before, float *after);
/* The same for the hidden states after the last layer, [rows][F]: of models without a head too. */
ATTEND_API attend_status attend_intervene_hidden(const attend_intervention *intervention,
                                                 const attend_tokens *input, float *before,
                                                 float *after);
/* Logits of the model as it is. */
ATTEND_API attend_status attend_tokens_logits(attend_model *model, const attend_tokens *input,
                                              float *logits /* [rows][V] */);

/* ---- effects ------------------------------------------------------------------------ */

/* A logit, or the difference of two. */
typedef struct {
  int position;    /* row; -1: the last */
  int32_t token;   /* -1: the likeliest without changes */
  int32_t against; /* its logit is subtracted; -1: none */
} attend_target;

typedef enum {
  ATTEND_METRIC_LOGIT = 0,   /* of the target */
  ATTEND_METRIC_PROBABILITY, /* of the target's token */
  ATTEND_METRIC_LOSS,        /* mean cross-entropy of the tokens that follow, or of `labels` */
  ATTEND_METRIC_KL,          /* KL(p ‖ q), p the distribution without changes, q with them; mean
                                over all rows */
  ATTEND_METRIC_STATE        /* |change| / |vector| of the hidden states after the last layer, mean
                                over all rows; needs no head */
} attend_metric_kind;

typedef struct { /* zero means default */
  size_t size;
  attend_metric_kind kind;
  attend_target target;  /* LOGIT, PROBABILITY */
  const int32_t *labels; /* LOSS: [rows], negative: not scored; NULL: the next token of each row,
                            decoders only */
} attend_metric;

/* Replaces -1 in the target by the last row, and by the likeliest token there. */
ATTEND_API attend_status attend_target_resolve(const attend_model *model, int rows,
                                               const float *before /* [rows][V] */,
                                               attend_target *target);
/* The metric of logits [rows][V]; before: without changes, for KL. target must be
 * resolved. STATE: of hidden states [rows][F] in place of logits. */
ATTEND_API attend_status attend_metric_of(const attend_model *model, const attend_metric *metric,
                                          const attend_tokens *input, const float *before,
                                          const float *logits, double *value);

/* ---- sweeps -------------------------------------------------------------------------- */

typedef enum {
  ATTEND_SWEEP_HEADS = 0, /* layer x head */
  ATTEND_SWEEP_TOKENS     /* layer x token: causal tracing with PATCH at RESIDUAL */
} attend_sweep_axis;

typedef struct { /* zero means default */
  size_t size;
  attend_sweep_axis axis;
  attend_change change; /* the sweep sets its ranges of layers, and of heads or tokens */
  attend_metric metric;
  int batch; /* changed texts computed at once; 0: chosen by the length */
  attend_progress progress;
  void *user;
} attend_sweep_options;

/* Rows and columns of the map of a sweep. */
ATTEND_API attend_status attend_sweep_shape(attend_model *model, const attend_tokens *input,
                                            const attend_sweep_options *options, int *layers,
                                            int *columns);
/* map [layers][columns]: the metric with the change in that place alone; *before: without it.
 * Needs layers x columns changed texts, `batch` of them in one forward pass. */
ATTEND_API attend_status attend_sweep(attend_model *model, const attend_tokens *input,
                                      const attend_sweep_options *options, double *map,
                                      double *before);

#ifdef __cplusplus
}
#endif
#endif
