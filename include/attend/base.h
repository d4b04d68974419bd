/* attend/base.h - status, context, views: what every other header needs.
 *
 * A program makes one context, makes plans with it, and frees it last:
 *
 *   attend_context *ctx;
 *   if (attend_context_create(NULL, &ctx)) fail(attend_message(ctx));
 *   ...
 *   attend_context_free(ctx);
 *
 * The library never prints, exits or aborts and keeps no global state: what
 * went wrong is a status, and its sentence is in the context. The work inside a
 * call is spread over the context's threads, which start with the first work for
 * them and sleep when there is none. After fork() a child makes contexts of its
 * own; those of its parent work there too, on one thread.
 *
 * Threads of a program:
 *   - Models, checkpoints and tokenizers do not change once they are made and may
 *     be shared by any number of threads.
 *   - Sessions, readings, generations, encodings and decoders are made, used and
 *     freed on any thread, several at once, each by one thread at a time. Each has
 *     a sentence of its own: attend_session_message, attend_encoding_message, ..
 *   - A context itself and whatever else is made with it (plans, states, layers,
 *     trainers, files) is used by one thread at a time, which may be while other
 *     threads use sessions of its models. Contexts share nothing.
 *   - A failure is written to the object's sentence and to its context's, so that
 *     a program of one thread may always ask attend_message. Where several
 *     threads may fail at once, ask the object; for one that could not be made,
 *     its status says why.
 */
#ifndef ATTEND_BASE_H
#define ATTEND_BASE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define ATTEND_API
#else
#define ATTEND_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ATTEND_VERSION_MAJOR 0
#define ATTEND_VERSION_MINOR 1
#define ATTEND_VERSION_PATCH 0
#define ATTEND_VERSION "0.1.0"

/* The version of the library that is linked, as "major.minor.patch". */
ATTEND_API const char *attend_version(void);

typedef enum {
  ATTEND_OK = 0,
  ATTEND_INVALID,     /* an argument is wrong                          */
  ATTEND_UNSUPPORTED, /* nothing here can do it: no engine, no such isa */
  ATTEND_NO_MEMORY,
  ATTEND_IO,     /* a file is missing, truncated or lies about itself */
  ATTEND_STOPPED /* the caller asked for it to end */
} attend_status;

typedef struct attend_context attend_context;

/* Where memory comes from. Blocks are aligned to 64 bytes. NULL functions mean
 * the C library. Called by all threads that use sessions, encodings or other
 * objects of the context, at the same time: with several, these functions and a
 * parallel_for must be thread-safe. The context's own threads call them one at a
 * time. */
typedef struct {
  void *(*take)(size_t bytes, void *user);
  void (*give)(void *block, void *user);
  void *user;
} attend_allocator;

/* Calls body(args, i) for every i in [0, n), in any order, on any threads, and
 * returns when all have returned: for programs that have threads already. */
typedef void (*attend_parallel_for)(int n, void (*body)(void *args, int i),
                                    void *args, void *user);

typedef struct {
  const char *isa; /* "scalar", "avx2", "avx512", "amx", "neon"; NULL: the
                      environment's ATTEND_ISA, else the best this CPU has */
  int threads;     /* 0: ATTEND_NUM_THREADS, else OMP_NUM_THREADS, else cores */
  attend_allocator allocator;
  size_t
      cache_limit; /* bytes that all states of the context may hold, KV caches
                         and linear ones; 0: the machine's memory */
  attend_parallel_for parallel_for; /* NULL: threads of the context's own */
  void *parallel_user;
  const char *device; /* "cpu", or "trap" for tests; NULL: the environment's
                         ATTEND_DEVICE, else "cpu" */
} attend_context_options;

/* On failure *ctx still holds the sentence (attend_message) and must be freed;
 * it is NULL only when there was no memory for it. options may be NULL. */
ATTEND_API attend_status attend_context_create(
    const attend_context_options *options, attend_context **ctx);
ATTEND_API void attend_context_free(attend_context *ctx);

/* The sentence that belongs to the last status that was not ATTEND_OK, of the
 * context or of anything made with it. */
ATTEND_API const char *attend_message(const attend_context *ctx);

ATTEND_API int attend_context_threads(const attend_context *ctx);
/* Plans made before keep the number they were made with. */
ATTEND_API attend_status attend_context_set_threads(attend_context *ctx,
                                                    int threads);
ATTEND_API const char *attend_context_isa(const attend_context *ctx);

/* The instruction sets compiled in, in rising order of preference, and whether
 * this CPU can run each. Returns NULL past the last one. */
ATTEND_API const char *attend_isa_name(int index, int *runs_here);

typedef enum { ATTEND_F32 = 0, ATTEND_F16, ATTEND_BF16 } attend_dtype;
ATTEND_API size_t attend_dtype_size(attend_dtype dtype);
ATTEND_API const char *attend_dtype_name(attend_dtype dtype);

/* A tensor that the caller owns: an address and strides, in elements, over
 * [batch, head, position, width]. All strides zero means contiguous in that
 * order (BHTD). A zero stride among others repeats one slice (inputs only). */
typedef struct {
  void *data;
  ptrdiff_t stride[4];
} attend_view;

/* The same of floats that may be read and not written. */
typedef struct {
  const float *data;
  ptrdiff_t stride[4];
} attend_const_view;

/* To give one to a function that takes inputs by attend_view. */
static inline attend_view attend_input(attend_const_view view) {
  attend_view v = {
      (void *)view.data,
      {view.stride[0], view.stride[1], view.stride[2], view.stride[3]}};
  return v;
}

/* Contiguous [B,H,T,D]. */
static inline attend_view attend_bhtd(const void *data) {
  attend_view v = {(void *)data, {0, 0, 0, 0}};
  return v;
}

/* Contiguous [B,T,H,D], as projections leave it. */
static inline attend_view attend_bthd(const void *data, int heads, int length,
                                      int width) {
  attend_view v = {
      (void *)data,
      {(ptrdiff_t)heads * length * width, width, (ptrdiff_t)heads * width, 1}};
  return v;
}

/* Text of unknown origin for a terminal: control characters (C0, DEL and C1) but
 * for those in `keep`, and bytes that are not UTF-8, become \xNN. What does not
 * fit is left out; returns the length of the whole. Sentences of a context are
 * escaped already. */
ATTEND_API size_t attend_escape(const char *text, size_t length,
                                const char *keep, char *out, size_t size);

/* Counter-based random numbers (Philox 4x32-10): the value at (seed, stream,
 * index) is the same on every machine and in any order of asking. */
typedef struct {
  uint64_t seed, stream;
} attend_random;

/* Four 32-bit words: the block number `index` of the stream. */
ATTEND_API void attend_random_block(attend_random r, uint64_t index,
                                    uint32_t out[4]);
/* out[i] for i in [0, n): the elements first .. first+n-1 of the stream. */
ATTEND_API void attend_random_uniform(attend_random r, uint64_t first, size_t n,
                                      float *out /* [n], in [0, 1) */);
ATTEND_API void attend_random_normal(attend_random r, uint64_t first, size_t n,
                                     float *out /* [n], mean 0, variance 1 */);

/* f32 <-> 16-bit storage, rounding to nearest even. */
ATTEND_API void attend_convert_from_f32(attend_dtype dtype, const float *src,
                                        size_t n, void *dst);
ATTEND_API void attend_convert_to_f32(attend_dtype dtype, const void *src,
                                      size_t n, float *dst);

#ifdef __cplusplus
}
#endif
#endif
