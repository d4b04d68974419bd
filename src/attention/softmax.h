/* What the files of the softmax engine share.
 *
 * softmax.c is the engine; backward and observe have files of their own. direct.c runs
 * poly and gaussian on the same code.
 */
#ifndef ATTENTION_SOFTMAX_H
#define ATTENTION_SOFTMAX_H

#include "attention/engine.h"

void softmax_size(attend_plan *p);
attend_status softmax_forward(call *c);
void softmax_backward_size(attend_plan *p); /* adds to the plan's bytes */
attend_status softmax_backward(call *c);
void dense_clear(const call *c); /* dbias of a dense bias: zeros */

attend_status observe_tiled(call *c);

#endif
