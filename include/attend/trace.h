/* attend/trace.h - recording what flows through a model.
 *
 *   attend_trace_options o = {.points = ATTEND_AT_QUERY | ATTEND_AT_KEY};
 *   attend_trace *trace;
 *   attend_trace_create(ctx, &o, &trace);
 *   attend_hook hook = attend_trace_hook(trace);
 *   attend_session_set_hooks(session, 1, &hook);
 *   attend_session_extend(session, 1, n, ids, NULL);
 *   attend_hooked q;
 *   attend_trace_get(trace, ATTEND_AT_QUERY, ATTEND_DECODER_SELF, 3, &q);
 *
 * A trace is a hook that keeps what it reads of one sequence, call after call: a
 * prompt and the tokens after it become one text.
 *
 * What is recorded by token is linear in the text; ATTEND_AT_PATTERN is not, and
 * attend/lens.h computes it again from the rest, as much as is looked at.
 */
#ifndef ATTEND_TRACE_H
#define ATTEND_TRACE_H

#include "attend/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- recording ---------------------------------------------------------------- */

typedef struct {
  unsigned points;   /* of attend_point */
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
/* What attend_session_set_hooks takes. A function of the caller's may call
 * attend_trace_read instead. */
ATTEND_API attend_hook attend_trace_hook(attend_trace *trace);
ATTEND_API void attend_trace_read(const attend_hooked *tensor, void *trace);
/* Whether all that was read is here: the first failure, its sentence in the
 * context. Ask after a call. */
ATTEND_API attend_status attend_trace_status(attend_trace *trace);
/* Records anew: to be called before another text, and after a call failed. */
ATTEND_API void attend_trace_clear(attend_trace *trace);

/* A recorded tensor of all tokens so far, B = 1; 0 if there is none. What came
 * with another shape than before (the pattern of a cache that grows) is there as
 * it was read last. Its view stays until the next call is recorded. */
ATTEND_API int attend_trace_get(const attend_trace *trace, attend_point point,
                                attend_role role, int layer,
                                attend_hooked *tensor);
/* Layers with anything recorded; the residual stream has one more. */
ATTEND_API int attend_trace_layers(const attend_trace *trace, attend_role role);
ATTEND_API size_t attend_trace_bytes(const attend_trace *trace);
/* As safetensors, "decoder.3.query" [T,H,D] and so on: NumPy and PyTorch read
 * it. Written beside the place first: a failure leaves what was there. */
ATTEND_API attend_status attend_trace_save(const attend_trace *trace,
                                           const char *path);

#ifdef __cplusplus
}
#endif
#endif
