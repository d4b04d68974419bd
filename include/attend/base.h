/* attend/base.h - status, context, views: what every other header needs.
 *
 * A program makes one context, makes plans with it, and frees it last:
 *
 *   attend_context *ctx;
 *   if (attend_context_create(NULL, &ctx)) fail(attend_message(ctx));
 *   ...
 *   attend_context_free(ctx);
 *
 * The library never prints, exits or aborts and keeps no global state. A failure is a
 * status; its message is in the context. A call spreads its work over the context's
 * threads, which start with the first work and sleep when there is none. After fork()
 * a child creates its own contexts; those of its parent work there too, on one thread.
 *
 * Threads of a program:
 *   - Models, checkpoints and tokenizers are immutable and may be shared by any number
 *     of threads.
 *   - Sessions, readings, generations, encodings and detokenizers are created, used and
 *     freed on any thread, several at once, each by one thread at a time. Each has its
 *     own message: attend_session_message, attend_encoding_message, ..
 *   - A context, and everything else created with it (plans, states, layers, trainers,
 *     files), is used by one thread at a time, also while other threads use sessions of
 *     its models. Contexts share nothing.
 *   - A failure sets the message of its object and of its context, so that a program of
 *     one thread may always call attend_message. Where several threads may fail at once,
 *     read the object's message; for an object that could not be created, its status.
 */
#ifndef ATTEND_BASE_H
#define ATTEND_BASE_H

#include <stdbool.h>
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

/* Begins a struct that the caller fills in: its first member is its size, so that later
 * versions of the library can add members at its end. What is not named is 0, the default:
 *
 *   attend_desc d = {ATTEND_INIT(attend_desc), .heads = 12, .dim = 64};
 *
 * A struct without it is refused, and so is one of a newer version of the library that
 * uses a member which this version does not have. */
#ifdef __cplusplus
#define ATTEND_INIT(type) sizeof(type)
#else
#define ATTEND_INIT(type) .size = sizeof(type)
#endif

/* In a float member whose 0 means a default other than 0: the number 0. */
#define ATTEND_ZERO 1e-30f

/* The version of the linked library, "major.minor.patch". */
ATTEND_API const char *attend_version(void);

typedef enum {
  ATTEND_OK = 0,
  ATTEND_INVALID,     /* an argument is wrong */
  ATTEND_UNSUPPORTED, /* no engine or instruction set can do it */
  ATTEND_NO_MEMORY,
  ATTEND_IO,     /* a file is missing, truncated or inconsistent */
  ATTEND_STOPPED /* the caller's callback ended the call */
} attend_status;

typedef struct attend_context attend_context;

/* The caller's allocator. Blocks must be aligned to 64 bytes. NULL functions: the C
 * library's. All threads that use sessions, encodings or other objects of the context
 * call these functions and parallel_for at the same time: with several such threads
 * they must be thread-safe. The context's own threads call them one at a time. */
typedef struct {
  void *(*allocate)(size_t bytes, void *user);
  void (*release)(void *block, void *user);
  void *user;
} attend_allocator;

/* Calls body(args, i) for every i in [0, n), in any order, on any threads, and returns
 * when all have returned. For programs that have a thread pool. */
typedef void (*attend_parallel_for)(int n, void (*body)(void *args, int i), void *args, void *user);

typedef struct {
  size_t size;
  /* "scalar", "avx2", "avx512", "amx", "neon"; NULL: the environment's ATTEND_ISA, else the
   * best of this CPU */
  const char *isa;
  int threads; /* 0: ATTEND_NUM_THREADS, else OMP_NUM_THREADS, else cores */
  attend_allocator allocator;
  /* bytes that all states of the context may hold, KV caches and linear states; 0: the
   * machine's memory */
  size_t cache_limit;
  attend_parallel_for parallel_for; /* NULL: the context's own threads */
  void *parallel_user;
  /* "cpu"; "cuda" or "cuda:N", a GPU, by libattend-cuda; "trap" for tests. NULL: the
   * environment's ATTEND_DEVICE, else "cpu" */
  const char *device;
} attend_context_options;

/* On failure *ctx still holds the message (attend_message) and must be freed; it is
 * NULL only if there was no memory for it. options may be NULL. */
ATTEND_API attend_status attend_context_create(const attend_context_options *options,
                                               attend_context **ctx);
ATTEND_API void attend_context_free(attend_context *ctx);

/* The message of the last failure, of the context or of anything created with it. */
ATTEND_API const char *attend_message(const attend_context *ctx);

ATTEND_API int attend_context_threads(const attend_context *ctx);
/* Existing plans keep their number of threads. */
ATTEND_API attend_status attend_context_set_threads(attend_context *ctx, int threads);
ATTEND_API const char *attend_context_isa(const attend_context *ctx);
/* What computes: "cpu", or a GPU's name, as "NVIDIA H200". */
ATTEND_API const char *attend_context_device(const attend_context *ctx);
/* Returns when the device has done all that was asked of it: a GPU still works when a call
 * returns. ATTEND_UNSUPPORTED: the GPU failed. */
ATTEND_API attend_status attend_context_wait(attend_context *ctx);
/* Bytes of the GPU's memory that the process uses, and the most since the last call with `reset`.
 * False: the device is not a GPU. */
ATTEND_API bool attend_context_memory(attend_context *ctx, size_t *bytes, size_t *most, bool reset);

/* The instruction sets of this build, the preferred one last, and whether this CPU runs
 * each. NULL past the last. */
ATTEND_API const char *attend_isa_name(int index, bool *runs_here);

typedef enum { ATTEND_F32 = 0, ATTEND_F16, ATTEND_BF16 } attend_dtype;
ATTEND_API size_t attend_dtype_size(attend_dtype dtype);
ATTEND_API const char *attend_dtype_name(attend_dtype dtype);

/* A tensor in the caller's memory: an address, and strides in elements over
 * [batch, head, position, width]. All strides zero: contiguous in that order (BHTD). A
 * zero stride among others repeats one slice (inputs only). */
typedef struct {
  void *data;
  ptrdiff_t stride[4];
} attend_view;

/* A view of floats that are only read. */
typedef struct {
  const float *data;
  ptrdiff_t stride[4];
} attend_const_view;

/* Contiguous [B,H,T,D]. */
static inline attend_view attend_bhtd(void *data) {
  attend_view v = {data, {0, 0, 0, 0}};
  return v;
}

/* Contiguous [B,T,H,D], the layout of projections. */
static inline attend_view attend_bthd(void *data, int heads, int length, int width) {
  attend_view v = {data, {(ptrdiff_t)heads * length * width, width, (ptrdiff_t)heads * width, 1}};
  return v;
}

/* The same over constant memory, for arguments that a function only reads: q, k, v and
 * every other input. Never pass them as an output. */
static inline attend_view attend_bhtd_input(const void *data) { return attend_bhtd((void *)data); }
static inline attend_view attend_bthd_input(const void *data, int heads, int length, int width) {
  return attend_bthd((void *)data, heads, length, width);
}
static inline attend_view attend_input(attend_const_view view) {
  attend_view v = {(void *)view.data,
                   {view.stride[0], view.stride[1], view.stride[2], view.stride[3]}};
  return v;
}

/* Positions [first, length) of a view over [batch, heads, length, width]: some of its
 * queries, or the keys from `first` on. */
ATTEND_API attend_view attend_view_rows(attend_view view, attend_dtype dtype, int heads, int length,
                                        int width, int first);

/* Escapes untrusted text for a terminal: control characters (C0, DEL and C1) except
 * those in `keep`, and bytes that are not UTF-8, become \xNN. Truncates to `size`;
 * returns the full length. Messages of a context are already escaped. */
ATTEND_API size_t attend_escape(const char *text, size_t length, const char *keep, char *out,
                                size_t size);
/* The same for HTML and XML, in elements and in quoted attributes: < > & " become
 * entities; bytes that are not UTF-8 and characters that XML does not allow become
 * U+FFFD. */
ATTEND_API size_t attend_escape_xml(const char *text, size_t length, char *out, size_t size);

/* Called during a long call with the share of it that is done, from 0 to 1, or NaN where that is
 * unknown, and what is being done, for a person to read; NULL: no more than the call's name says.
 * The text is valid until the callback returns. Other than 0 ends the call with ATTEND_STOPPED. */
typedef int (*attend_progress)(double done, const char *what, void *user);

/* Counter-based random numbers (Philox 4x32-10): the value at (seed, stream, index) is
 * the same on every machine and in any order of calls. */
typedef struct {
  uint64_t seed, stream;
} attend_random;

/* Block `index` of the stream: four 32-bit words. */
ATTEND_API void attend_random_block(attend_random r, uint64_t index, uint32_t out[4]);
/* Elements first .. first + n - 1 of the stream. */
ATTEND_API void attend_random_uniform(attend_random r, uint64_t first, size_t n,
                                      float *out /* [n], in [0, 1) */);
ATTEND_API void attend_random_normal(attend_random r, uint64_t first, size_t n,
                                     float *out /* [n], mean 0, variance 1 */);

/* f32 <-> 16-bit storage, rounding to nearest even. */
ATTEND_API void attend_convert_from_f32(attend_dtype dtype, const float *src, size_t n, void *dst);
ATTEND_API void attend_convert_to_f32(attend_dtype dtype, const void *src, size_t n, float *dst);

#ifdef __cplusplus
}
#endif
#endif
