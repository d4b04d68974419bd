/* The machine's ceilings, measured once and kept.
 *
 * Explain divides by them; `bench machine` measures them anew.
 */
#ifndef CLI_CEILINGS_H
#define CLI_CEILINGS_H

#include "cli.h"

/* From the cache, or measured (with a line on stderr that says so) and put
 * there. A cache that cannot be written is not an error. */
attend_status ceilings_get(attend_context *ctx, attend_machine *machine);
/* From the cache alone; false if it has none. */
bool ceilings_find(attend_context *ctx, attend_machine *machine);
/* Measured now, and put into the cache. *kept says whether that worked. */
attend_status ceilings_measure(attend_context *ctx, attend_machine *machine, bool *kept);

/* What bounds a cost, and the least time it takes. */
typedef struct {
  double arithmetic_s, memory_s, predicted_s;
  const char *bound; /* "arithmetic" or "memory" */
} limit;
limit limit_of(const attend_machine *machine, double flops, double bytes);

#endif
