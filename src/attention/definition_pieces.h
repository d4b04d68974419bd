/* A call of the definition engine in pieces that definition.c takes.
 *
 * Between by_definition.c and the definition. Tensors are one piece; a state is one
 * for each sequence, gathered from its pages.
 */
#ifndef ATTENTION_DEFINITION_PIECES_H
#define ATTENTION_DEFINITION_PIECES_H

#include "attention/engine.h"

typedef struct {
  attend_desc desc;
  attend_view q, k, v;
  int first; /* sequence of the call that is the piece's sequence 0 */
  void *block;
} piece;

int pieces_count(const call *c);
/* Takes memory for a state's keys, which grow; piece_close gives it back. A
 * piece without queries or keys has desc.q_len 0. */
attend_status piece_open(const call *c, int i, piece *p);
void piece_close(const call *c, piece *p);

/* Of a call over a state: outputs of every row, rounded to the plan's dtype. */
attend_status definition_state_forward(call *c);
/* Of any call of the definition engine. */
attend_status definition_observe(call *c);

#endif
