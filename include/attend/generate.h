/* attend/generate.h - generating text: sampling, beam search, streaming.
 *
 *   attend_generate_options o = {ATTEND_INIT(attend_generate_options)};
 *   attend_prompt prompt = {ids, count};
 *   attend_generation *g;
 *   o.temperature = 0.8f;
 *   attend_generate(model, 1, &prompt, &o, &g);
 *   const attend_continuation *c = attend_generation_get(g, 0);
 *   use(c->ids, c->count);
 *   attend_generation_free(g);
 *
 * Any number of threads may call attend_generate with the same model, tokenizer and
 * reading: each call has a session and a context of its own.
 *
 * A decoder continues the prompt; an encoder reads it. Random numbers depend only on
 * the seed, the indices of prompt and sample, and the position of the token: not on the
 * rest of the batch or the number of threads.
 */
#ifndef ATTEND_GENERATE_H
#define ATTEND_GENERATE_H

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct attend_continuation;

typedef enum {
  ATTEND_WINDOW_STOP = 0, /* a full context ends the continuation */
  ATTEND_WINDOW_SLIDE     /* drop its older half, re-read the rest */
} attend_window;

typedef struct {
  int prompt, sample; /* which continuation */
  int32_t id;
  const char *text; /* new text, with a tokenizer; else "" */
  size_t length;
  bool slid; /* the context was full: its older half was dropped */
} attend_token;

typedef struct {
  int prompt;
  const int32_t *ids; /* generated so far */
  int count;
  /* [n], may be edited: -INFINITY forbids a token. Beams: log probabilities */
  float *logits;
  int n;
} attend_choice;

typedef struct { /* zero means default: greedy, without penalties */
  size_t size;
  int max_new;         /* tokens; 0: 128 */
  int min_new;         /* no end token before so many */
  bool ignore_end;     /* never choose an end token */
  const int32_t *ends; /* tokens that end a text besides the model's own */
  int n_ends;
  /* sampling; temperature 0 is greedy */
  float temperature;
  int top_k; /* keep the k most likely; 0: all */
  /* nucleus sampling: keep the smallest set with total probability top_p; 0 or 1: all */
  float top_p;
  float min_p;      /* keep tokens with at least min_p times the highest probability */
  float repetition; /* penalty on tokens that occurred; 0 or 1: none */
  int no_repeat;    /* no n-gram of this length twice; 0: off */
  uint64_t seed;
  /* [prompts] random streams: sample i of a prompt uses stream + i; NULL: prompt index << 32 */
  const uint64_t *streams;
  int samples; /* of each prompt; 0: 1 */
  int beams;   /* beam search with so many; 0 or 1: none */
  /* score = sum of log p / length^penalty; 0: 1, ATTEND_ZERO: the sum alone */
  float length_penalty;
  bool early_stop; /* stop once `beams` are finished */
  int groups;      /* diverse beam search: groups of beams; 0: 1 */
  /* penalty on a token for each beam of an earlier group that chose it in the same step */
  float diversity;
  /* stop strings: the text ends before the first */
  const attend_tokenizer *tokenizer; /* NULL: ids only */
  const char *const *stops;
  int n_stops;
  int context; /* maximum length in tokens; 0: the model's */
  attend_window window;
  int batch;   /* sequences computed together; 0: 8 */
  int threads; /* of this call; 0: the context's */
  /* The encoder's finished reading (attend/model.h), for one prompt, whose ids are
   * ignored. NULL: the prompts are encoded. */
  const attend_reading *reading;
  /* Called for every token as it is chosen (not with beams). Nonzero stops the call. */
  int (*on_token)(const attend_token *token, void *user);
  /* Called when a continuation is complete; `one` lives as long as the generation. */
  void (*on_done)(const struct attend_continuation *one, void *user);
  /* Called before every choice, after the penalties; also in beam search. */
  void (*on_logits)(const attend_choice *choice, void *user);
  /* Called before every step, also in beam search. Nonzero stops the call. */
  int (*on_step)(void *user);
  void *user;
  const attend_hook *hooks; /* [n_hooks] of the session (attend/hooks.h) */
  int n_hooks;
} attend_generate_options;

typedef struct {
  const int32_t *ids;
  int count;
} attend_prompt;

/* The ids of a prompt's text, in the encoding until its next call: with all special tokens
 * for an encoder; for a decoder without those at the end, which would end the text. */
ATTEND_API attend_status attend_prompt_encode(const attend_model *model, attend_encoding *encoding,
                                              const char *text, size_t length,
                                              attend_prompt *prompt);
/* What a prompt without text consists of: the begin token of the model, else of the
 * tokenizer, else an end token; -1: none. tokenizer may be NULL. */
ATTEND_API int32_t attend_begin_token(const attend_model *model, const attend_tokenizer *tokenizer);

typedef enum {
  ATTEND_FINISH_LENGTH = 0, /* max_new */
  ATTEND_FINISH_TOKEN,      /* an end token, which is the last id */
  ATTEND_FINISH_STOP,       /* a stop string */
  ATTEND_FINISH_CONTEXT,    /* the context is full */
  ATTEND_FINISH_CALLER      /* on_token or on_step */
} attend_finish_reason;

typedef struct attend_continuation {
  int prompt, sample;
  const int32_t *ids; /* new ones only */
  int count;
  double log_probability; /* of the ids, without penalties */
  double score;           /* beams: log p / length^penalty, minus penalties */
  attend_finish_reason end;
  /* with a tokenizer; without the stop string. Appended to the text of a decoder's prompt it is
   * the whole text */
  const char *text;
} attend_continuation;

typedef struct attend_generation attend_generation;

/* On failure *generation holds the message (attend_generation_message) and no
 * continuation, and must be freed; it is NULL only if it could not be allocated, or
 * model or generation is NULL. */
ATTEND_API attend_status attend_generate(attend_model *model, int n_prompts,
                                         const attend_prompt *prompts,
                                         const attend_generate_options *options,
                                         attend_generation **generation);
ATTEND_API void attend_generation_free(attend_generation *generation);
/* The message of a failed call, else "". attend_message returns it too, unless another
 * thread's failure came later. */
ATTEND_API const char *attend_generation_message(const attend_generation *generation);
/* By prompt, then by sample (beams: best first; groups: the best of each, then
 * the second of each, ..). NULL past the last. */
ATTEND_API const attend_continuation *attend_generation_get(const attend_generation *generation,
                                                            int i);

typedef struct { /* of the whole call */
  int prompt_tokens, new_tokens;
  double prompt_seconds, new_seconds;
  /* decoder calls after the prompts; each reads all weights. The first token of a continuation
   * needs none */
  int steps;
  double step_bytes; /* of weights and KV caches that all steps read */
  size_t cache_bytes, work_bytes;
} attend_generation_cost;
ATTEND_API const attend_generation_cost *attend_generation_costs(
    const attend_generation *generation);

/* The sampler by itself: one token from logits. history: the ids so far, for the
 * penalties; uniform: a random number in [0, 1). The logits are modified. The id is -1
 * if all logits are NaN. */
ATTEND_API attend_status attend_choose(attend_context *ctx, const attend_generate_options *options,
                                       float *logits, int n, const int32_t *history, int n_history,
                                       float uniform, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
