/* attend/generate.h - writing text with a model.
 *
 *   attend_generate_options o = attend_generate_defaults();
 *   attend_prompt prompt = {ids, count};
 *   attend_generation *g;
 *   o.temperature = 0.8f;
 *   attend_generate(model, 1, &prompt, &o, &g);
 *   const attend_continuation *c = attend_generation_get(g, 0);
 *   use(c->ids, c->count);
 *   attend_generation_free(g);
 *
 * attend_generate may run on any number of threads at once with one model, one
 * tokenizer and one reading: each call has a session and a context of its own.
 *
 * A prompt is what a decoder continues, or what an encoder reads. What is drawn
 * depends on the seed, the number of the prompt and of the sample, and the
 * token's place alone: not on what else is in the batch, nor on the number of
 * threads.
 */
#ifndef ATTEND_GENERATE_H
#define ATTEND_GENERATE_H

#include <stdbool.h>

#include "attend/model.h"
#include "attend/text.h"

#ifdef __cplusplus
extern "C" {
#endif

struct attend_continuation;

typedef enum {
  ATTEND_WINDOW_STOP = 0, /* a full context ends the continuation             */
  ATTEND_WINDOW_SLIDE     /* its older half is forgotten, the rest read again */
} attend_window;

typedef struct {
  int prompt, sample; /* which continuation                                   */
  int32_t id;
  const char *text; /* what can be said now, with a tokenizer; else ""        */
  size_t length;
  bool slid; /* the context was full: its older half was forgotten            */
} attend_token;

typedef struct {
  int prompt;
  const int32_t *ids; /* that were written so far */
  int count;
  float *logits; /* [n], to be changed: -INFINITY forbids a token. Beams: log
                    probabilities                                             */
  int n;
} attend_choice;

typedef struct {
  int max_new; /* tokens                                                      */
  int min_new; /* before this many, no end                                    */
  bool ignore_end; /* no end token                                            */
  const int32_t *ends; /* tokens that end a text besides the model's own      */
  int n_ends;
  /* choosing; with temperature 0 the best is taken                           */
  float temperature;
  int top_k;   /* of the k best; 0: of all                                    */
  float top_p; /* of the fewest that have this share; 0 or 1: of all          */
  float min_p; /* of those with this share of the best one's                  */
  float repetition; /* penalty of what was said: 1 is none                    */
  int no_repeat;    /* no n tokens in a row twice; 0: may                     */
  uint64_t seed;
  const uint64_t *streams; /* [prompts] of random numbers: sample i of a prompt
                              takes the stream + i; NULL: its number << 32    */
  int samples; /* of each prompt                                              */
  /* searching: the best of `beams` that are kept                             */
  int beams;
  float length_penalty; /* score = sum of log p / length^penalty              */
  bool early_stop;      /* as soon as `beams` have ended                      */
  int groups; /* of beams, each kept from what those before it choose; 0: 1   */
  float diversity; /* log probability that a token costs for each beam of an
                      earlier group that takes it in the same step            */
  /* where a text ends: the first of these, which is not said                 */
  const attend_tokenizer *tokenizer; /* NULL: ids only                        */
  const char *const *stops;
  int n_stops;
  int context; /* tokens at most; 0: what the model was made for              */
  attend_window window;
  int batch; /* sequences at once; 0: 8                                       */
  int threads; /* that the call runs on; 0: the context's                     */
  /* What the encoder has read already, for one prompt; its ids are then not
   * looked at and may be none. NULL: the prompts are read. */
  const attend_reading *reading;
  /* Called for every token as it is chosen (not with beams). Other than 0 ends
   * all continuations. */
  int (*on_token)(const attend_token *token, void *user);
  /* Called when a continuation is complete; what it is given stays as long as
   * the generation. */
  void (*on_done)(const struct attend_continuation *one, void *user);
  /* Called before every choice, of beams too, after the penalties.           */
  void (*on_logits)(const attend_choice *choice, void *user);
  /* Called before every step, of beams too. Other than 0 ends all
   * continuations. */
  int (*on_step)(void *user);
  void *user;
} attend_generate_options;

/* 128 tokens, greedy, one sample, no beams, no penalties. */
ATTEND_API attend_generate_options attend_generate_defaults(void);

typedef struct {
  const int32_t *ids;
  int count;
} attend_prompt;

typedef enum {
  ATTEND_FINISH_LENGTH =
      0,                 /* max_new                                           */
  ATTEND_FINISH_TOKEN,   /* an end token, which is the last id                */
  ATTEND_FINISH_STOP,    /* a stop string                                     */
  ATTEND_FINISH_CONTEXT, /* the context is full                               */
  ATTEND_FINISH_CALLER   /* on_token or on_step said so                       */
} attend_finish_reason;

typedef struct attend_continuation {
  int prompt, sample;
  const int32_t *ids; /* new ones only                                        */
  int count;
  double log_probability; /* of the ids, by the model as it is                */
  double score;           /* beams: what they were compared by                */
  attend_finish_reason end;
  const char *text; /* with a tokenizer; without the stop string. Put behind
                       what a decoder's prompt decodes to, it is the text of
                       both                                                   */
} attend_continuation;

typedef struct attend_generation attend_generation;

/* On failure *generation holds the sentence (attend_generation_message) and no
 * continuation, and must be freed; it is NULL only when there was no memory for
 * it, or model or generation is NULL. */
ATTEND_API attend_status attend_generate(attend_model *model, int n_prompts,
                                         const attend_prompt *prompts,
                                         const attend_generate_options *options,
                                         attend_generation **generation);
ATTEND_API void attend_generation_free(attend_generation *generation);
/* The sentence of a call that failed, else "". attend_message gives it too, but
 * there another thread's may follow. */
ATTEND_API const char *attend_generation_message(
    const attend_generation *generation);
/* By prompt, then by sample (beams: best first; groups: the best of each, then
 * the second of each, ..). NULL past the last. */
ATTEND_API const attend_continuation *attend_generation_get(
    const attend_generation *generation, int i);

typedef struct { /* of the whole call */
  int prompt_tokens, new_tokens;
  double prompt_seconds, new_seconds;
  int steps; /* calls of the decoder after the prompts: each reads the weights.
                The first token of a continuation needs none                  */
  double step_bytes; /* of weights and caches, that all steps read            */
  size_t cache_bytes, work_bytes;
} attend_generation_cost;
ATTEND_API attend_generation_cost
attend_generation_costs(const attend_generation *generation);

/* One choice from logits: what generation does for each token. history are the
 * ids so far (for the penalties); uniform is in [0, 1). The logits are changed.
 * The id is -1 if no logit is a number. */
ATTEND_API attend_status attend_choose(attend_context *ctx,
                                       const attend_generate_options *options,
                                       float *logits, int n,
                                       const int32_t *history, int n_history,
                                       float uniform, int32_t *id);

#ifdef __cplusplus
}
#endif
#endif
