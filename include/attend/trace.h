/* attend/trace.h - recording activations of a model.
 *
 *   attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = ATTEND_AT_QUERY};
 *   attend_trace *trace;
 *   attend_trace_create(ctx, &o, &trace);
 *   attend_hook hook = attend_trace_hook(trace);
 *   attend_session_set_hooks(session, 1, &hook);
 *   attend_session_extend(session, 1, n, ids, NULL);
 *   attend_hooked q;
 *   attend_trace_get(trace, ATTEND_AT_QUERY, ATTEND_DECODER_SELF, 3, &q);
 *
 * A trace is a hook that stores the tensors of one sequence, call after call: a prompt
 * and the tokens after it become one text.
 *
 * Recordings per token are linear in the text. ATTEND_AT_PATTERN is quadratic;
 * attend/lens.h recomputes any part of it from queries, keys and denominators.
 */
#ifndef ATTEND_TRACE_H
#define ATTEND_TRACE_H

#include "attend/hooks.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- recording ---------------------------------------------------------------- */

typedef struct {
  size_t size;
  unsigned points;   /* of attend_point */
  int sequence;      /* of the batch */
  int rows;          /* expected rows of the decoder, to allocate once; 0:
                        memory grows                                        */
  size_t most_bytes; /* recording more fails; 0: no limit */
} attend_trace_options;

typedef struct attend_trace attend_trace;

ATTEND_API attend_status attend_trace_create(attend_context *ctx,
                                             const attend_trace_options *options,
                                             attend_trace **trace);
ATTEND_API void attend_trace_free(attend_trace *trace);
/* For attend_session_set_hooks. The caller's own hook may call attend_trace_read
 * instead. */
ATTEND_API attend_hook attend_trace_hook(attend_trace *trace);
ATTEND_API void attend_trace_read(const attend_hooked *tensor, void *trace);
/* The first failure to record, its message in the context. Check it after each call. */
ATTEND_API attend_status attend_trace_status(attend_trace *trace);
/* Deletes the recording: call it before another text, and after a call that failed. */
ATTEND_API void attend_trace_clear(attend_trace *trace);

/* A recorded tensor of all tokens so far, B = 1; returns 0 if there is none. A tensor
 * whose shape changes (the pattern over a growing cache) holds the last call only. The
 * view is valid until the next call is recorded. */
ATTEND_API int attend_trace_get(const attend_trace *trace, attend_point point, attend_role role,
                                int layer, attend_hooked *tensor);
/* Layers with anything recorded; the residual stream has one more. */
ATTEND_API int attend_trace_layers(const attend_trace *trace, attend_role role);
ATTEND_API size_t attend_trace_bytes(const attend_trace *trace);
/* As safetensors, "decoder.3.query" [T,H,D] and so on. Replaces the file atomically. */
ATTEND_API attend_status attend_trace_save(const attend_trace *trace, const char *path);

#ifdef __cplusplus
}
#endif
#endif
