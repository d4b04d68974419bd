/* attend/trace.h - watching a run, and recording what was seen.
 *
 *   attend_trace_options o = {.what = ATTEND_SEE_QUERY | ATTEND_SEE_KEY};
 *   attend_trace *trace;
 *   attend_trace_create(ctx, &o, &trace);
 *   attend_watch watch = attend_trace_watch(trace);
 *   attend_session_watch(run, &watch);
 *   attend_session_extend(run, 1, n, ids, NULL);
 *   attend_sight q;
 *   attend_trace_get(trace, ATTEND_SEE_QUERY, ATTEND_DECODER_SELF, 3, &q);
 *
 * An observer stands at an arrow of the model and is shown what flows there.
 * Looking never changes the outputs' bits, and what nobody asks for costs
 * nothing. A trace is an observer that keeps what it sees of one sequence, call
 * after call: a prompt and the tokens after it become one text.
 *
 * What is recorded by token is linear in the text; ATTEND_SEE_ATTENTION is not,
 * and attend/lens.h computes it again from the rest, as much as is looked at.
 */
#ifndef ATTEND_TRACE_H
#define ATTEND_TRACE_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATTEND_SEE_HIDDEN = 1,     /* [B,1,T,F] before layer 0, and after each; after
                               the last one past the final norm              */
  ATTEND_SEE_QUERY = 2,      /* [B,H,T,D] with rotary positions               */
  ATTEND_SEE_KEY = 4,        /* [B,G,S,D]: of the tokens of this call         */
  ATTEND_SEE_VALUE = 8,      /* [B,G,S,M]                                     */
  ATTEND_SEE_ATTENTION = 16, /* [B,H,T,S] weights                            */
  ATTEND_SEE_MIXED = 32,     /* [B,H,T,M] what the heads give                 */
  ATTEND_SEE_DENOMINATOR = 64, /* [B,H,T,1] lse, as attend_forward gives it   */
  ATTEND_SEE_ENTROPY = 128,    /* [B,H,T,1] of the weights, in nats           */
  ATTEND_SEE_MIDDLE = 256,     /* [B,1,T,F] the stream between attention and
                                  mlp                                        */
  ATTEND_SEE_LOGITS = 512      /* [1,1,n,V] of the places that were asked for */
} attend_see;

enum { ATTEND_SIGHTS = 10 }; /* how many kinds there are */

typedef enum {
  ATTEND_ENCODER_SELF = 0,
  ATTEND_DECODER_SELF,
  ATTEND_CROSS
} attend_role;

enum { ATTEND_ROLES = 3 };

typedef struct {
  attend_see what;
  attend_role role;
  int layer;
  int shape[4];
  const int32_t *lengths; /* [B] rows that are real, or NULL: all */
  attend_view view;       /* f32; stays until the function returns */
} attend_sight;

/* Attention takes B H T S floats while it is seen. Keys and values of cross-
 * attention are seen when the encoder has read, the rest when a layer runs. */
typedef struct {
  unsigned what; /* of attend_see; 0: nothing is shown, stop alone is asked */
  void (*see)(const attend_sight *sight, void *user);
  void *user;
  /* Asked before every layer, if there is one: other than 0 ends the call with
   * ATTEND_STOPPED. */
  int (*stop)(void *user);
} attend_watch;

/* ---- recording ---------------------------------------------------------------- */

typedef struct {
  unsigned what;     /* of attend_see */
  int sequence;      /* of the batch */
  int rows;          /* of the decoder that are expected, so that memory is
                        taken once; 0: it grows                             */
  size_t most_bytes; /* recording more fails; 0: no limit */
} attend_trace_options;

typedef struct attend_trace attend_trace;

ATTEND_API attend_status
attend_trace_create(attend_context *ctx, const attend_trace_options *options,
                    attend_trace **trace);
ATTEND_API void attend_trace_free(attend_trace *trace);
/* What attend_session_watch takes; stop and its user may be set by the caller, who
 * then calls attend_trace_see from a function of his own. */
ATTEND_API attend_watch attend_trace_watch(attend_trace *trace);
ATTEND_API void attend_trace_see(const attend_sight *sight, void *trace);
/* Whether all that was seen is here: the first failure, its sentence in the
 * context. Ask after a run. */
ATTEND_API attend_status attend_trace_status(attend_trace *trace);
/* Records anew: to be called before another text, and after a run failed. */
ATTEND_API void attend_trace_clear(attend_trace *trace);

/* A recorded sight of all tokens so far, B = 1; 0 if there is none. What came
 * with another shape than before (ATTENTION of a cache that grows) is there as
 * it was seen last. Its view stays until the next call is recorded. */
ATTEND_API int attend_trace_get(const attend_trace *trace, attend_see what,
                                attend_role role, int layer,
                                attend_sight *sight);
/* Layers with anything recorded; the hidden states are one more. */
ATTEND_API int attend_trace_layers(const attend_trace *trace, attend_role role);
ATTEND_API size_t attend_trace_bytes(const attend_trace *trace);
/* As safetensors, "decoder.3.query" [T,H,D] and so on: NumPy and PyTorch read
 * it. Written beside the place first: a failure leaves what was there. */
ATTEND_API attend_status attend_trace_save(const attend_trace *trace,
                                           const char *path);

ATTEND_API const char *attend_see_name(attend_see what);   /* "query" */
ATTEND_API const char *attend_role_name(attend_role role); /* "decoder" */

#ifdef __cplusplus
}
#endif
#endif
