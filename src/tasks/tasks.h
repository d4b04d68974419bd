/* What the tasks share. */
#ifndef TASKS_TASKS_H
#define TASKS_TASKS_H

#include "attend/text.h"
#include "base/base.h"

/* An encoding's failure, said by the task's own context as well. encoding NULL: it
 * could not be created. */
static inline attend_status encoding_failed(attend_context *ctx, attend_status status,
                                            const attend_encoding *encoding) {
  return fail(
      ctx, status, "%s",
      encoding ? attend_encoding_message(encoding) : "no memory for an encoding: free some");
}

#endif
