/* Failures, memory, thread counts and child contexts; views, the clock. Contexts are
 * created in device/context.c.
 */
#include "base/base.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *attend_version(void) { return ATTEND_VERSION; }

const char *attend_message(const attend_context *ctx) {
  return ctx ? ctx->message : "out of memory: no context could be made";
}

int attend_context_threads(const attend_context *ctx) { return ctx->threads; }

attend_status attend_context_set_threads(attend_context *ctx, int threads) {
  ATTEND_CHECK(ctx, threads >= 1 && threads <= 4096,
               "%d threads were requested: choose a number from 1 to 4096", threads);
  ctx->threads = threads;
  ctx->stream = (attend_stream){ctx, threads, NULL, 0};
  return ATTEND_OK;
}

/* Field by field: the parent's message and count of cached bytes change meanwhile,
 * and its stream while it computes. */
attend_status context_child(attend_context *parent, int threads, attend_context *child) {
  *child = (attend_context){.parent = parent,
                            .allocator = parent->allocator,
                            .kernels = parent->kernels,
                            .isa = parent->isa,
                            .device = parent->device,
                            .device_memory = parent->device_memory,
                            .engines = parent->engines,
                            .near_bytes = parent->near_bytes,
                            .pools = parent->pools,
                            .parallel_for = parent->parallel_for,
                            .parallel_user = parent->parallel_user,
                            .cache_limit = parent->cache_limit};
  return attend_context_set_threads(child, threads ? threads : parent->threads);
}

const char *attend_context_isa(const attend_context *ctx) { return ctx->isa; }

/* Children of a context may fail on several threads at once. */
static void set_message(attend_context *ctx, const char *sentence) {
  while (__atomic_test_and_set(&ctx->locked, __ATOMIC_ACQUIRE)) continue;
  memcpy(ctx->message, sentence, sizeof ctx->message);
  __atomic_clear(&ctx->locked, __ATOMIC_RELEASE);
}

attend_status fail(attend_context *ctx, attend_status status, const char *sentence, ...) {
  char plain[sizeof ctx->message];
  va_list args;
  va_start(args, sentence);
  vsnprintf(plain, sizeof plain, sentence, args);
  va_end(args);
  /* names and values from files may hold anything */
  char escaped[sizeof ctx->message];
  attend_escape(plain, strlen(plain), "", escaped, sizeof escaped);
  for (; ctx; ctx = ctx->parent) set_message(ctx, escaped);
  return status;
}

attend_status take(attend_context *ctx, size_t bytes, const char *what, void *block) {
  size_t rounded = round_up(bytes ? bytes : 1, 64);
  void *p = NULL;
  bool fits = rounded <= PTRDIFF_MAX;
  if (fits)
    p = ctx->allocator.allocate ? ctx->allocator.allocate(rounded, ctx->allocator.user)
                                : aligned_alloc(64, rounded);
  memcpy(block, &p, sizeof p);
  if (p) return ATTEND_OK;
  if (!fits)
    return fail(ctx, ATTEND_NO_MEMORY,
                "%s would exceed the address space: choose a smaller problem", what);
  return fail(ctx, ATTEND_NO_MEMORY,
              "no memory for %s (%zu bytes): free some or choose a smaller "
              "problem",
              what, bytes);
}

attend_status take_zeroed(attend_context *ctx, size_t bytes, const char *what, void *block) {
  ATTEND_TRY(take(ctx, bytes, what, block));
  void *p;
  memcpy(&p, block, sizeof p);
  memset(p, 0, bytes);
  return ATTEND_OK;
}

void give(const attend_context *ctx, void *block) {
  if (!block) return;
  if (ctx->allocator.release)
    ctx->allocator.release(block, ctx->allocator.user);
  else
    free(block);
}

attend_status grow_more(attend_context *ctx, void *block, size_t *capacity, size_t wanted,
                        size_t element, const char *what) {
  void **old = block, *fresh;
  size_t next = *capacity + *capacity / 2;
  if (next < wanted) next = wanted;
  if (next < 64) next = 64;
  if (next > SIZE_MAX / element / 2)
    return fail(ctx, ATTEND_NO_MEMORY, "no memory for %zu %s", wanted, what);
  ATTEND_TRY(take(ctx, next * element, what, &fresh));
  if (*capacity) memcpy(fresh, *old, *capacity * element);
  give(ctx, *old);
  *old = fresh;
  *capacity = next;
  return ATTEND_OK;
}

double seconds_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

attend_view view_complete(attend_view view, int heads, int64_t length, int width) {
  const ptrdiff_t *s = view.stride;
  if (s[0] || s[1] || s[2] || s[3]) return view;
  view.stride[3] = 1;
  view.stride[2] = width;
  view.stride[1] = (ptrdiff_t)(length * width);
  view.stride[0] = heads * view.stride[1];
  return view;
}

attend_view attend_view_rows(attend_view view, attend_dtype dtype, int heads, int length, int width,
                             int first) {
  view = view_complete(view, heads, length, width);
  view.data = view_at(&view, attend_dtype_size(dtype), 0, 0, first);
  return view;
}
