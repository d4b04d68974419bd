/* What state.c and linear_state.c share.
 *
 * Place: attention/ - see linear_state.c.
 */
#ifndef ATTENTION_LINEAR_STATE_H
#define ATTENTION_LINEAR_STATE_H

#include "attention/linear.h"
#include "attention/state.h"

struct linear_stack { /* one kv head of one sequence */
  float *data;        /* all of it: sums, then the open block */
  linear_sum sum;
  linear_block open;
  int64_t folded; /* blocks in the sum */
};

attend_status linear_state_make(attend_state *s); /* features_ld is set */
void linear_state_copy(const attend_state *from, int b, attend_state *to,
                       int to_b);
attend_status linear_state_truncate(attend_state *s, int b, int64_t length);
/* c->k and c->v are the new keys and values; c->before is set. */
void linear_extend(call *c, attend_state *s, bool queries);
attend_status linear_look(call *c, attend_state *s);

#endif
