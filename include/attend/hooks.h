/* attend/hooks.h - reading, editing and recording activations of a model.
 *
 *   static void ablate(const attend_hooked *x, float *data, void *user) {
 *     int head = *(int *)user;                        every row of one head: 0
 *     for (int b = 0; b < x->shape[0]; b++)
 *       for (int i = 0; i < x->shape[2]; i++)
 *         memset(data + b * x->view.stride[0] + head * x->view.stride[1] +
 *                i * x->view.stride[2], 0, x->shape[3] * sizeof *data);
 *   }
 *   int layer = 3, head = 1;
 *   attend_hook hook = {ATTEND_INIT(attend_hook), .points = ATTEND_AT_HEAD_OUTPUT,
 *                       .layers = &layer, .n_layers = 1, .edit = ablate, .user = &head};
 *   attend_session_set_hooks(session, 1, &hook);
 *
 * A hook is attached to points of the forward pass, in some layers and roles. It
 * reads the tensor there, which changes no bit of any result, or edits it in place,
 * and the next op computes with the edited values. Prefill, decoding and training
 * call hooks at the same points. Points without hooks cost nothing.
 */
#ifndef ATTEND_HOOKS_H
#define ATTEND_HOOKS_H

#include <string.h>

#include "attend/base.h"
#include "attend/file.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  /* [B,1,T,F] the residual stream before layer 0, and after each; after the last past the final
   * norm */
  ATTEND_AT_RESIDUAL = 1,
  ATTEND_AT_QUERY = 2, /* [B,H,T,D] past norms and rotary positions */
  ATTEND_AT_KEY = 4,   /* [B,G,S,D]: of the tokens of this call */
  ATTEND_AT_VALUE = 8, /* [B,G,S,M] */
  /* [B,H,T,S] attention rows: the weights. Edited, the heads' outputs are computed again from
   * them */
  ATTEND_AT_PATTERN = 16,
  ATTEND_AT_HEAD_OUTPUT = 32, /* [B,H,T,M] outputs of the heads */
  /* [B,H,T,1] lse of attend_forward. Edited, the heads' outputs are rescaled */
  ATTEND_AT_DENOMINATOR = 64,
  ATTEND_AT_ENTROPY = 128,         /* [B,H,T,1] of the weights, in nats; read only */
  ATTEND_AT_RESIDUAL_MIDDLE = 256, /* [B,1,T,F] between attention and mlp */
  ATTEND_AT_LOGITS = 512,          /* [1,1,n,V] of the requested positions */
  ATTEND_AT_MLP = 1024             /* [B,1,T,F] the mlp's output, before it is added */
} attend_point;

enum { ATTEND_POINTS = 11 };

typedef enum { ATTEND_ENCODER_SELF = 0, ATTEND_DECODER_SELF, ATTEND_CROSS } attend_role;

enum { ATTEND_ROLES = 3 };

/* Roles of attention, as bits. */
typedef enum {
  ATTEND_IN_ENCODER = 1 << ATTEND_ENCODER_SELF, /* encoder self-attention */
  ATTEND_IN_DECODER = 1 << ATTEND_DECODER_SELF, /* decoder self-attention */
  ATTEND_IN_CROSS = 1 << ATTEND_CROSS           /* cross-attention */
} attend_in;

/* The tensor at a hook's point, in host memory; valid until the function returns. */
typedef struct {
  attend_point point;
  attend_role role;
  int layer;
  int shape[4];
  const int32_t *lengths; /* [B] rows without padding, or NULL: all */
  const int64_t *first;   /* [B] position of row 0 in its text, or NULL: 0 */
  attend_const_view view; /* f32 */
} attend_hooked;

/* A hook at the pattern takes B H T S floats while it runs. Hooks at keys and values
 * of cross-attention are called after the encoder, all others with their layer. */
typedef struct { /* zero means default */
  size_t size;
  unsigned points;   /* of attend_point */
  unsigned roles;    /* of attend_in; 0: all */
  const int *layers; /* [n_layers]; NULL: all */
  int n_layers;
  /* At least one of these and read_gradient; read is called first. data is the same memory as
   * tensor->view.data, writable. */
  void (*read)(const attend_hooked *tensor, void *user);
  void (*edit)(const attend_hooked *tensor, float *data, void *user);
  /* Training: turns the gradient of the edited tensor into that of the tensor before
   * the edit, in place, in the same layout. NULL: the gradient passes unchanged, as
   * if the edit added a constant. The backward pass calls edits of patterns and
   * denominators again: they must write the same values. */
  void (*edit_gradient)(const attend_hooked *tensor, float *gradient, void *user);
  /* Training: reads the gradient of the tensor, after edits; changes no bit. Not at denominators
   * and entropies. */
  void (*read_gradient)(const attend_hooked *tensor, void *user);
  void *user;
} attend_hook;

ATTEND_API const char *attend_point_name(attend_point point); /* "query" */
ATTEND_API const char *attend_role_name(attend_role role);    /* "decoder" */

/* ---- traces: recorded activations ------------------------------------------------ */

/*   attend_trace_options o = {ATTEND_INIT(attend_trace_options), .points = ATTEND_AT_QUERY};
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
 * attend/lens.h recomputes any part of it from queries, keys and denominators. */

typedef struct {
  size_t size;
  unsigned points; /* of attend_point */
  int sequence;    /* of the batch */
  /* expected rows of the decoder, to allocate once; 0: memory grows */
  int rows;
  size_t most_bytes; /* recording more fails; 0: no limit */
} attend_trace_options;

typedef struct attend_trace attend_trace;

ATTEND_API attend_status attend_trace_create(attend_context *ctx,
                                             const attend_trace_options *options,
                                             attend_trace **trace);
ATTEND_API void attend_trace_free(attend_trace *trace);
/* The points of the options. */
ATTEND_API unsigned attend_trace_points(const attend_trace *trace);
ATTEND_API void attend_trace_read(const attend_hooked *tensor, void *trace);
/* For attend_session_set_hooks. The caller's own hook may call attend_trace_read
 * instead. */
static inline attend_hook attend_trace_hook(attend_trace *trace) {
  attend_hook h;
  memset(&h, 0, sizeof h);
  h.size = sizeof h;
  h.points = attend_trace_points(trace);
  h.read = attend_trace_read;
  h.user = trace;
  return h;
}
/* The first failure to record, its message in the context. Check it after each call. */
ATTEND_API attend_status attend_trace_status(attend_trace *trace);
/* Deletes the recording: call it before another text, and after a call that failed. */
ATTEND_API void attend_trace_clear(attend_trace *trace);

/* A recorded tensor of all tokens so far, B = 1; returns 0 if there is none. A tensor
 * whose shape changes (the pattern over a growing cache) holds the last call only. The
 * view is valid until the next call is recorded. */
ATTEND_API bool attend_trace_get(const attend_trace *trace, attend_point point, attend_role role,
                                 int layer, attend_hooked *tensor);
/* Layers with anything recorded; the residual stream has one more. */
ATTEND_API int attend_trace_layers(const attend_trace *trace, attend_role role);
ATTEND_API size_t attend_trace_bytes(const attend_trace *trace);
/* As safetensors, "decoder.3.query" [T,H,D] and so on. Replaces the file atomically. */
ATTEND_API attend_status attend_trace_save(const attend_trace *trace, const char *path);
/* The same with more tensors and with entries in the metadata. */
ATTEND_API attend_status attend_trace_save_noted(const attend_trace *trace, const char *path,
                                                 size_t count, const attend_tensor *tensors,
                                                 size_t n_notes, const attend_note *notes);

#ifdef __cplusplus
}
#endif
#endif
