/* attend/evaluate.h - how well a model predicts a text: losses and perplexity.
 *
 *   attend_evaluation *e;
 *   attend_evaluation_create(model, tokenizer, NULL, &e);
 *   attend_evaluation_set_text(e, text, strlen(text));
 *   attend_evaluation_run(e);
 *   printf("perplexity %g\n", attend_evaluation_perplexity(e));
 *   attend_evaluation_free(e);
 *
 * A decoder reads windows of `context` tokens, each ending `stride` tokens after the
 * one before. The first scores all of its tokens, a later one the last `stride`, so
 * that each token is scored once and sees at least context - stride + 1 tokens before
 * it, unless the text has fewer. If the model has a begin token, it precedes the text
 * and the first token is scored too.
 *
 * A masked model reads parts of `context` tokens side by side, and each token is
 * masked by itself: pseudo-perplexity (Salazar et al. 2020, "Masked Language Model
 * Scoring").
 *
 * The losses do not depend on the batch or the number of threads, down to the bits.
 * Evaluations of one model may run on several threads at once, each on one.
 */
#ifndef ATTEND_EVALUATE_H
#define ATTEND_EVALUATE_H

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct { /* zero means default */
  size_t size;
  /* tokens of a window; 0: the model's positions, at most 2048, of a masked model at most 128 */
  int context;
  /* decoders: tokens that a later window scores; 0: half of the context */
  int stride;
  int limit;   /* tokens that are scored at most; 0: all */
  int batch;   /* windows at once, at most 256; 0: 4 */
  int threads; /* 0: the context's */
  /* Called after each batch with the share of the tokens that are scored, from 0
   * to 1. Other than 0 stops attend_evaluation_run with ATTEND_STOPPED. The
   * accessors below may be called from it. */
  attend_progress progress;
  void *user;
  /* [n_hooks] of the sessions (attend/hooks.h), which count positions in each window by itself;
   * they must stay */
  const attend_hook *hooks;
  int n_hooks;
} attend_evaluate_options;

typedef struct attend_evaluation attend_evaluation;

/* A decoder, or an encoder with a masked-LM head; an encoder-decoder is refused.
 * tokenizer may be NULL for decoders: then texts are ids. Model and tokenizer must
 * outlive the evaluation. options may be NULL. On failure *evaluation is NULL and
 * the model's context has the message. */
ATTEND_API attend_status attend_evaluation_create(attend_model *model,
                                                  const attend_tokenizer *tokenizer,
                                                  const attend_evaluate_options *options,
                                                  attend_evaluation **evaluation);
ATTEND_API void attend_evaluation_free(attend_evaluation *evaluation);
/* The message of the last failed call. */
ATTEND_API const char *attend_evaluation_message(const attend_evaluation *evaluation);

/* The text to score, in place of the one before. It is tokenized here and need not
 * stay. */
ATTEND_API attend_status attend_evaluation_set_text(attend_evaluation *evaluation,
                                                    const char *text /* [length] */, size_t length);
/* Token ids, for decoders. The first one is read and not scored. */
ATTEND_API attend_status attend_evaluation_set_ids(attend_evaluation *evaluation,
                                                   const int32_t *ids /* [count] */, int count);

/* Scores the text. After ATTEND_STOPPED or a failure, the results are of the tokens
 * that were scored before it, and another call continues there. */
ATTEND_API attend_status attend_evaluation_run(attend_evaluation *evaluation);

/* ---- results ------------------------------------------------------------------ */

/* Tokens of the text that are to be scored; that are scored so far. */
ATTEND_API int attend_evaluation_target(const attend_evaluation *evaluation);
ATTEND_API int attend_evaluation_tokens(const attend_evaluation *evaluation);
/* The sum of -log p over the scored tokens, in nats. Not finite if the model's
 * logits are not. */
ATTEND_API double attend_evaluation_loss(const attend_evaluation *evaluation);
/* exp(loss / tokens); NaN if no token is scored. */
ATTEND_API double attend_evaluation_perplexity(const attend_evaluation *evaluation);
/* Bytes of text that the scored tokens cover; NaN if ids were given. */
ATTEND_API double attend_evaluation_bytes(const attend_evaluation *evaluation);

typedef struct {
  int32_t id;
  float loss;        /* -log p, in nats */
  size_t start, end; /* bytes of the text; 0 if ids were given */
} attend_token_loss;

/* Scored token i of the text; 0 past the last. */
ATTEND_API bool attend_evaluation_get(const attend_evaluation *evaluation, int i,
                                      attend_token_loss *token);

/* The options in use, defaults resolved. */
ATTEND_API int attend_evaluation_context(const attend_evaluation *evaluation);
/* 0 for a masked model. */
ATTEND_API int attend_evaluation_stride(const attend_evaluation *evaluation);

#ifdef __cplusplus
}
#endif
#endif
