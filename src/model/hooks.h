/* Hooks in a pass: internal calls. */
#ifndef MODEL_HOOKS_H
#define MODEL_HOOKS_H

#include "model/transformer.h"

void hooks_free(const attend_context *ctx, hooks *h);
attend_status hooks_set(attend_context *ctx, hooks *h, int n, const attend_hook *list);
/* Whether some hook edits at one of these points. */
bool hooks_edit(const hooks *h, unsigned points);

/* Calls the hooks of this point with the tensor, which is device memory, or host
 * memory with HOOK_ON_HOST. */
enum {
  HOOK_READS = 1,
  HOOK_EDITS = 2,
  HOOK_FORWARD = HOOK_READS | HOOK_EDITS,
  HOOK_GRADIENTS = 4,
  HOOK_ON_HOST = 8
};
attend_status hook_at(const pass *p, const attend_hooked *at, unsigned which);
/* The residual stream, a branch's output, or a gradient: [rows][ldx]. */
attend_status hook_stream(const pass *p, attend_point point, int layer, float *x, unsigned which);
/* Around a layer's attention, where there are hooks. */
attend_status hook_before_attention(const pass *p, const layer_attention *m,
                                    const attention_tensors *t, unsigned which);
attend_status hook_after_attention(const pass *p, const layer_attention *m,
                                   const attention_tensors *t, const float *lse);
/* From the gradient g->o of t->heads to those of q, k and v. */
attend_status hook_attention_back(const pass *p, const layer_attention *m,
                                  const attention_tensors *t, const attention_tensors *g,
                                  const float *lse, float *d_bias);
/* n keys and values, lengths [batch] of them real. */
attend_status hook_keys(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v, unsigned which);
/* n keys and values were appended to a state, lengths [batch] of them real. */
attend_status hook_keep(const pass *p, const layer_attention *m, int n, const int32_t *lengths,
                        attend_view k, attend_view v);
attend_status hook_stop(attend_session *r); /* fails if the session's stop callback says so */

/* KV caches beside linear states. */
attend_status caches_reorder(attend_session *r, const int32_t *parents);
void caches_truncate(attend_session *r, int b, int64_t length);
void caches_free(attend_session *r);

#endif
