/* Thread pools, for the streams of parallel.c. */
#ifndef BASE_THREADS_H
#define BASE_THREADS_H

#include "base/parallel.h"

/* An idle pool of so many threads, or a new one; NULL: none can be had. */
struct pool *pool_take(attend_context *ctx, int threads);
void pool_give(struct pool *x); /* nothing may be queued */

void pool_queue(struct pool *x, int64_t n, phase_body body, const void *args, size_t size);
/* See stream_reads. */
void pool_reads(struct pool *x, const void *data, int64_t units, size_t unit);
void pool_run(struct pool *x); /* until what is queued is done */

#endif
