/* Running the library on a problem's tensors. */
#ifndef CLI_ENGINE_RUN_H
#define CLI_ENGINE_RUN_H

#include "verify/outputs.h"

typedef struct {
  attend_context *ctx;
  attend_problem problem;
  attend_tensors *tensors; /* borrowed */
  attend_plan *plan;
  attend_state *state;     /* of a decode: all keys but the last */
  unsigned char *new_mask; /* [B] whether a decode's last key is real */
} engine_run;

/* Makes the plan; a decode's state is filled. */
attend_status engine_open(attend_context *ctx, const attend_problem *problem,
                          attend_tensors *tensors, engine_run *run);
void engine_close(engine_run *run);

/* Forward; forward and backward; or one token. */
attend_status engine_once(engine_run *run);
/* Back to where engine_once can be called again: a decode forgets its token. */
attend_status engine_rewind(engine_run *run);

outputs engine_read(const engine_run *run);

/* FLOPs and bytes of what engine_once does. */
attend_status engine_cost(const engine_run *run, attend_cost *cost);

#endif
