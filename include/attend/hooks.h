/* attend/hooks.h - functions that see, or change, what flows through a model.
 *
 *   static void ablate(const attend_hooked *x, float *data, void *user) {
 *     int head = *(int *)user;                        every row of one head: 0
 *     for (int b = 0; b < x->shape[0]; b++)
 *       for (int i = 0; i < x->shape[2]; i++)
 *         memset(data + b * x->view.stride[0] + head * x->view.stride[1] +
 *                i * x->view.stride[2], 0, x->shape[3] * sizeof *data);
 *   }
 *   int layer = 3, head = 1;
 *   attend_hook hook = {.points = ATTEND_AT_HEAD_OUTPUT, .layers = &layer,
 *                       .n_layers = 1, .edit = ablate, .user = &head};
 *   attend_session_set_hooks(session, 1, &hook);
 *
 * A hook stands at a point of the forward pass, in some layers and roles. It reads
 * a tensor, which changes no bit of any result; or it edits it, and everything
 * computed afterwards is computed from what it wrote. Prompts, decoding and training
 * go through the same points. What nobody asks for costs nothing.
 */
#ifndef ATTEND_HOOKS_H
#define ATTEND_HOOKS_H

#include "attend/base.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum {
  ATTEND_AT_RESIDUAL = 1, /* [B,1,T,F] the residual stream before layer 0, and
                             after each; after the last past the final norm   */
  ATTEND_AT_QUERY = 2,    /* [B,H,T,D] past norms and rotary positions        */
  ATTEND_AT_KEY = 4,      /* [B,G,S,D]: of the tokens of this call            */
  ATTEND_AT_VALUE = 8,    /* [B,G,S,M]                                        */
  ATTEND_AT_PATTERN = 16, /* [B,H,T,S] attention rows: the weights. Edited, the
                             heads' outputs are computed again from them      */
  ATTEND_AT_HEAD_OUTPUT = 32, /* [B,H,T,M] what the heads give                */
  ATTEND_AT_DENOMINATOR = 64, /* [B,H,T,1] lse, as attend_forward gives it.
                                 Edited, the heads' outputs are divided anew  */
  ATTEND_AT_ENTROPY = 128,    /* [B,H,T,1] of the weights, in nats; read only */
  ATTEND_AT_RESIDUAL_MIDDLE = 256, /* [B,1,T,F] between attention and mlp     */
  ATTEND_AT_LOGITS = 512, /* [1,1,n,V] of the places that were asked for      */
  ATTEND_AT_MLP = 1024    /* [B,1,T,F] what the mlp adds to the stream        */
} attend_point;

enum { ATTEND_POINTS = 11 };

typedef enum {
  ATTEND_ENCODER_SELF = 0,
  ATTEND_DECODER_SELF,
  ATTEND_CROSS
} attend_role;

enum { ATTEND_ROLES = 3 };

/* Roles of attention, as bits. */
typedef enum {
  ATTEND_IN_ENCODER = 1 << ATTEND_ENCODER_SELF, /* among what is read         */
  ATTEND_IN_DECODER = 1 << ATTEND_DECODER_SELF, /* among what is written      */
  ATTEND_IN_CROSS = 1 << ATTEND_CROSS /* from the latter to the former */
} attend_in;

/* A tensor where a hook stands, in host memory; stays until the function returns. */
typedef struct {
  attend_point point;
  attend_role role;
  int layer;
  int shape[4];
  const int32_t *lengths; /* [B] rows that are real, or NULL: all */
  attend_const_view view; /* f32 */
} attend_hooked;

/* A pattern takes B H T S floats while a hook is at it. Keys and values of cross-
 * attention pass when the encoder has read, the rest when a layer runs. */
typedef struct {     /* zero means default */
  unsigned points;   /* of attend_point */
  unsigned roles;    /* of attend_in; 0: all */
  const int *layers; /* [n_layers]; NULL: all */
  int n_layers;
  /* One of them, or both: then read comes first. data is the tensor's address
   * again, to be written to. */
  void (*read)(const attend_hooked *tensor, void *user);
  void (*edit)(const attend_hooked *tensor, float *data, void *user);
  /* Training: the gradient that comes back to an edited tensor, in its layout, and
   * goes on to what was there before the edit. NULL: it passes as it is, as if the
   * edit had added a constant. Edits of patterns and denominators are made again
   * there, and must write the same. */
  void (*edit_gradient)(const attend_hooked *tensor, float *gradient,
                        void *user);
  void *user;
} attend_hook;

ATTEND_API const char *attend_point_name(attend_point point); /* "query" */
ATTEND_API const char *attend_role_name(attend_role role);    /* "decoder" */

#ifdef __cplusplus
}
#endif
#endif
