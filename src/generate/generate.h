/* Shared by the files of generation.
 *
 * generate.c checks a call and splits it into batches; token_loop.c decodes token by
 * token, beam_search.c searches, sampler.c picks a token from logits, stream.c turns
 * ids into text and finds stop strings.
 */
#ifndef GENERATE_GENERATE_H
#define GENERATE_GENERATE_H

#include "attend/generate.h"
#include "model/transformer.h"

/* Text of one continuation, and whether a stop string ended it. Text that may
 * be the beginning of a stop string is held back. */
typedef struct {
  attend_context *ctx;
  attend_detokenizer *detokenizer; /* NULL: ids only */
  const char *const *stops;
  int n_stops;
  char *text; /* all so far, ends in a zero byte */
  size_t length, capacity;
  size_t emitted; /* bytes passed to the caller */
  bool stopped;
} stream;

attend_status stream_open(attend_context *ctx, const attend_generate_options *o, stream *s);
/* Primes the detokenizer with the prompt, whose text is not output. */
attend_status stream_prime(stream *s, const int32_t *ids, int count);
/* *piece stays until the next call. */
attend_status stream_push(stream *s, int32_t id, const char **piece, size_t *length);
attend_status stream_end(stream *s, const char **piece, size_t *length);
void stream_close(stream *s);

typedef struct {
  attend_continuation public;
  int32_t *ids; /* [capacity] */
  size_t capacity;
  stream stream;
  bool done;
} continuation;

struct attend_generation {
  attend_context own, *ctx; /* ctx: &own */
  attend_model *model;
  continuation *one;
  int count;
  attend_generation_cost cost;
};

/* One batch: its prompts, options and session. */
typedef struct {
  attend_context *ctx;
  attend_model *model;
  const attend_generate_options *o;
  attend_session *session;
  attend_generation *g;
  const attend_prompt *prompts; /* of this batch */
  int first, count;             /* prompts [first, first + count) of the call */
  int each;                     /* sequences of a prompt */
  int limit;                    /* tokens of context; 0: none */
  float *logits;                /* [count * each][V] */
  int32_t *scratch;             /* [2V] for the sampler */
  int32_t **history;            /* [count * each]: prompt and new ids */
  int *held;                    /* [count * each] ids in history */
  bool stop;                    /* the caller stopped */
} batch;

static inline int batch_size(const batch *b) { return b->count * b->each; }

attend_status batch_read(batch *b); /* the prompts, up to the first logits */
attend_status generate_batch(batch *b);
attend_status search_batch(batch *b);
attend_status add_id(attend_context *ctx, continuation *c, int32_t id);
/* Whether the id ends a text; makes all end tokens impossible. */
bool is_end(const batch *b, int32_t id);
void forbid_end(const batch *b, float *logits);
/* Calls on_logits with the logits after `count` ids of a sequence. */
void caller_logits(const batch *b, int sequence, const int32_t *ids, int count, float *logits);
/* Ids of a sequence's history that belong to its prompt. */
int history_before(const batch *b, int sequence);
/* The forced id after `count` ids; -1: none. */
int32_t forced_id(const batch *b, int count);
attend_status fail_not_finite(const batch *b);
void report_done(const batch *b, const continuation *one);
/* Calls on_step: whether to go on; counts the step. */
bool may_step(batch *b);

/* sampler.c */
void adjust_logits(const attend_generate_options *o, float *logits, int n, const int32_t *history,
                   int n_history);
int32_t choose_adjusted(const attend_generate_options *o, const float *logits, int n, float uniform,
                        int32_t *scratch /* [2n] */);

/* The caller's, or NULL, with the defaults in place of zeros. */
attend_status generate_options_read(attend_context *ctx, const attend_generate_options *options,
                                    attend_generate_options *o);

#endif
